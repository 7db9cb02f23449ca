"""One matrix multiplication as numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """One multiplication. Extents are at least 1; strides and offsets count elements, and strides may be 0 or negative.

    `a_strides` are (row, column, batch0, batch1) of the m x k matrices A, `b_strides` those of the k x n matrices B, `c_strides`
    (row, batch0, batch1) of the m x n matrices C, whose columns are adjacent and which do not overlap one another.
    """

    m: int
    n: int
    k: int
    batch: tuple[int, int]
    a_strides: tuple[int, int, int, int]
    b_strides: tuple[int, int, int, int]
    c_strides: tuple[int, int, int]
    a_offset: int = 0
    b_offset: int = 0
    c_offset: int = 0

    def transposed(self) -> Problem:
        """The same multiplication as C^T = B^T A^T, for a C of one row, or of one column of adjacent elements."""
        if self.m != 1 and (self.n != 1 or self.c_strides[0] != 1):
            raise ValueError(
                f"a transposed {self.m} x {self.n} C with row stride {self.c_strides[0]} has no adjacent columns"
            )
        a_row, a_col, *a_batch = self.a_strides
        b_row, b_col, *b_batch = self.b_strides
        return Problem(
            self.n, self.m, self.k, self.batch,
            (b_col, b_row, b_batch[0], b_batch[1]),
            (a_col, a_row, a_batch[0], a_batch[1]),
            (1, *self.c_strides[1:]),
            self.b_offset, self.a_offset, self.c_offset,
        )  # fmt: skip
