"""The kernels for cumulative sums, and how the pack builds them."""

from __future__ import annotations

from dataclasses import dataclass

from oa._kernel.pack import Recipe

__all__ = ["DTYPES", "RECIPES", "SERIAL", "TEXELS", "TILES", "WORDS", "Scan", "serial", "tiles"]

#: The plain argument words in order; `problem.slang` names them alike.
WORDS = ("groups", "groups_x", "before", "extent", "after", "chunks", "chunk")

#: By dtype: the kind of sum that its kernels compute. Signed sums wrap as unsigned ones do.
DTYPES = {
    "float32": "f32", "float64": "f64", "int32": "u32", "uint32": "u32", "int64": "u64", "uint64": "u64"
}  # fmt: skip


@dataclass(frozen=True)
class Scan:
    """The three stages for one kind of sum. `tile` elements are one workgroup's; 0: an invocation takes a chunk for itself."""

    stages: tuple[Recipe, Recipe, Recipe]
    kind: str
    invocations: int
    tile: int = 0
    shared_bytes: int = 0

    @property
    def sum_bytes(self) -> int:
        """Bytes of one sum between the stages."""
        return int(self.kind[1:]) // 8 * (2 if self.kind[0] == "f" else 1)


def _stage(
    name: str, source: str, stage: int, kind: str, texels: tuple[int, ...] = (), **defines: int
) -> Recipe:
    made = {"STAGE": stage, "OF_FLOAT": int(kind[0] == "f"), "WIDTH": int(kind[1:]), **defines}
    if texels:
        made["OA_TEXELS"] = 1
    return Recipe(
        f"scanning.{name}_{kind}_{stage}",
        f"scanning/{source}.slang",
        tuple(made.items()),
        (2, 1, 3)[stage],
        len(WORDS),
        texels=texels,
        hook=False,
        exact=True,
    )


def serial(kind: str, threads: int, texels: bool = False) -> Scan:
    """Invocations alone; with `texels` for software devices that read them."""
    read = ((1, 0), (), (1, 1, 0)) if texels else ((), (), ())
    names = [f"serial_{threads}{'_texels' if bound else ''}" for bound in read]
    first, second, third = (
        _stage(name, "serial", k, kind, bound, THREADS=threads)
        for k, (name, bound) in enumerate(zip(names, read))
    )
    return Scan((first, second, third), kind, threads)


def tiles(kind: str, threads: int, items: int, prefix: str = "") -> Scan:
    """Workgroups, `items` neighbours an invocation."""
    first, second, third = (
        _stage(f"{prefix}tiles_{threads}x{items}", "tiles", k, kind, THREADS=threads, ITEMS=items)
        for k in range(3)
    )
    size = int(kind[1:]) // 8
    shared = size * threads * (items + 1 + (2 if kind[0] == "f" else 1))
    return Scan((first, second, third), kind, threads, threads * items, shared)


_KINDS = ("f32", "u32", "f64", "u64")

#: For software devices that read texels, which are words; for any device; for GPUs along the last axis.
TEXELS = {kind: serial(kind, 64, True) for kind in ("f32", "u32")}
SERIAL = {kind: serial(kind, 64) for kind in _KINDS}
TILES = {kind: tiles(kind, 256, 8 if kind[1:] == "32" else 4) for kind in _KINDS}

RECIPES = tuple(
    {
        r.name: r for family in (TEXELS, SERIAL, TILES) for scan in family.values() for r in scan.stages
    }.values()
)
