"""The cases of the suite `arrays`: what each public operation of oa.matrix does there, and how its peers spell it."""

from __future__ import annotations

from bench.arrays.case import Case
from bench.arrays.moving import MOVING
from bench.arrays.pointwise import POINTWISE
from bench.arrays.reducing import REDUCING

CASES: tuple[Case, ...] = (*POINTWISE, *MOVING, *REDUCING)

#: Public functions without a case, by the reason.
WITHOUT: dict[str, tuple[str, ...]] = {
    "answers from dtypes and shapes alone": (
        "__array_namespace_info__", "broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
    ),
    "gives a view, or its argument, and moves no element": (
        "broadcast_arrays", "conj", "expand_dims", "moveaxis", "positive", "real", "reshape", "split", "squeeze", "unstack",
    ),
    "brings data from the host, at the rate of the link": ("asarray", "from_dlpack", "from_f32", "from_list", "from_numpy"),
    "has another case's kernel under another name": (
        "glorot_normal", "glorot_uniform", "kaiming_uniform", "multi_add", "multi_fill",
        "matrix_transpose", "linalg.matmul", "linalg.matrix_transpose", "linalg.tensordot", "linalg.vecdot",
    ),
}  # fmt: skip
