"""Cases of operations that combine elements: reductions, scans, statistics, products."""

from __future__ import annotations

from typing import Any

from bench.arrays.case import Case


def _softmax(xp: Any, x: Any) -> Any:
    powers = xp.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _logsumexp(xp: Any, x: Any) -> Any:
    most = x.max(-1, keepdims=True)
    return (most + xp.log(xp.exp(x - most).sum(-1, keepdims=True)))[..., 0]


def _starts(xp: Any, g: Any) -> Any:
    return xp.flatnonzero(xp.concatenate([xp.ones(1, bool), g[1:] != g[:-1]]))


def _segments(name: str, ufunc: str, reduce: str) -> Case:
    def numpy(xp: Any, r: Any, g: Any) -> Any:
        found = getattr(xp, ufunc).reduceat(r, _starts(xp, g), axis=0)
        return found / xp.bincount(g)[:, None] if name == "segment_mean" else found

    def torch(t: Any, r: Any, g: Any) -> Any:
        out = t.zeros(len(r) // 16, 64, device=r.device)
        return out.scatter_reduce(0, g[:, None].expand(-1, 64), r, reduce, include_self=False)

    return Case(name, "rg", lambda m, r, g: getattr(m, name)(r, g, r.shape[0] // 16), numpy, torch)


def _reductions() -> list[Case]:
    """Over everything, along rows and down columns."""
    found = []
    for name in ("sum", "mean", "max", "min", "prod", "var", "std", "argmax", "argmin", "count_nonzero"):
        for suffix, letter, axis in (("", "x", None), (", rows", "m", -1), (", columns", "m", 0)):
            if suffix and name in ("prod", "std", "argmin", "min", "count_nonzero"):
                continue
            torch = {"max": "amax", "min": "amin"}.get(name, name)

            def theirs(t: Any, x: Any, n: str = torch, axis: int | None = axis) -> Any:
                options = {"correction": 0} if n in ("var", "std") else {}
                if n == "prod" and axis is None:
                    return t.prod(x)
                return getattr(t, n)(x, **({} if axis is None else {"dim": axis}), **options)

            found.append(
                Case(
                    name + suffix,
                    letter,
                    lambda m, x, n=name, axis=axis: getattr(m, n)(x, axis=axis),
                    lambda xp, x, n=name, axis=axis: getattr(xp, n)(x, axis=axis),
                    theirs,
                    check="same" if name in ("max", "min", "argmax", "argmin", "count_nonzero") else "whole",
                )
            )
    return found


_MORE = (
    Case("all", "b", lambda m, x: m.all(x), lambda xp, x: xp.all(x), lambda t, x: t.all(x)),
    Case("any", "b", lambda m, x: m.any(x), lambda xp, x: xp.any(x), lambda t, x: t.any(x)),
    Case("softmax", "m", lambda m, x: m.softmax(x), _softmax, lambda t, x: t.softmax(x, -1)),
    Case("log_softmax", "m", lambda m, x: m.log_softmax(x), lambda xp, x: x - _logsumexp(xp, x)[:, None],
         lambda t, x: t.log_softmax(x, -1)),
    Case("logsumexp", "m", lambda m, x: m.logsumexp(x), _logsumexp, lambda t, x: t.logsumexp(x, -1)),
    Case("cumulative_sum", "x", lambda m, x: m.cumulative_sum(x), lambda xp, x: xp.cumsum(x), lambda t, x: t.cumsum(x, 0)),
    Case("cumulative_sum, rows", "m", lambda m, x: m.cumulative_sum(x, axis=-1), lambda xp, x: xp.cumsum(x, -1),
         lambda t, x: t.cumsum(x, -1)),
    Case("cumulative_prod, rows", "m", lambda m, x: m.cumulative_prod(x, axis=-1), lambda xp, x: xp.cumprod(x, -1),
         lambda t, x: t.cumprod(x, -1)),
    Case("diff", "x", lambda m, x: m.diff(x), lambda xp, x: xp.diff(x), lambda t, x: t.diff(x)),
    Case("histogram", "x", lambda m, x: m.histogram(x, 100, range=(-4.0, 4.0))[0],
         lambda xp, x: xp.histogram(x, 100, range=(-4.0, 4.0))[0], lambda t, x: t.histc(x, 100, -4.0, 4.0), check="same"),
    Case("median", "x", lambda m, x: m.median(x), lambda xp, x: xp.median(x), lambda t, x: t.median(x), "order", "whole"),
    Case("quantile", "x", lambda m, x: m.quantile(x, 0.9), lambda xp, x: xp.quantile(x, 0.9),
         lambda t, x: t.sort(x)[0][int(0.9 * len(x))], "order", "whole"),
    _segments("segment_sum", "add", "sum"),
    _segments("segment_mean", "add", "mean"),
    _segments("segment_max", "maximum", "amax"),
    _segments("segment_min", "minimum", "amin"),
    _segments("segment_prod", "multiply", "prod"),
    Case("categorical_accuracy_count", "ml", lambda m, x, l: m.categorical_accuracy_count(x, l),
         lambda xp, x, l: (x.argmax(-1) == l).sum(), lambda t, x, l: (x.argmax(-1) == l).sum(), check="same"),
    Case("moe_expert_plan", "q", lambda m, q: tuple(m.moe_expert_plan(q, 64)), None, None, "order", "none"),
    Case("moe_routing_bias_update", "oz", lambda m, o, z: m.moe_routing_bias_update(o, z, 4, 0.01), None, None, check="none"),
    Case("matmul", "mw", lambda m, a, b: m.matmul(a, b), lambda xp, a, b: xp.matmul(a, b), lambda t, a, b: t.matmul(a, b),
         "compute"),
    Case("mat_mul_nt", "mw", lambda m, a, b: m.mat_mul_nt(a, b), lambda xp, a, b: xp.matmul(a, b.T),
         lambda t, a, b: t.matmul(a, b.T), "compute"),
    Case("tensordot", "mw", lambda m, a, b: m.tensordot(a, b, axes=1), lambda xp, a, b: xp.tensordot(a, b, 1),
         lambda t, a, b: t.tensordot(a, b, 1), "compute"),
    Case("vecdot", "mw", lambda m, a, b: m.vecdot(a, b), lambda xp, a, b: xp.vecdot(a, b), lambda t, a, b: (a * b).sum(-1)),
    Case("einsum, ij,ij->i", "mw", lambda m, a, b: m.einsum("ij,ij->i", a, b), lambda xp, a, b: xp.einsum("ij,ij->i", a, b),
         lambda t, a, b: t.einsum("ij,ij->i", a, b)),
    Case("linalg.cross", "34", lambda m, a, b: m.linalg.cross(a, b), lambda xp, a, b: xp.cross(a, b),
         lambda t, a, b: t.linalg.cross(a, b)),
    Case("linalg.outer", "ss", lambda m, a, b: m.linalg.outer(a, b), lambda xp, a, b: xp.outer(a, b),
         lambda t, a, b: t.outer(a, b)),
    Case("linalg.diagonal, stored", "5", lambda m, x: m.linalg.diagonal(x).copy(),
         lambda xp, x: xp.ascontiguousarray(xp.diagonal(x, 0, -2, -1)), lambda t, x: x.diagonal(0, -2, -1).contiguous(),
         "latency", "same"),
    Case("linalg.trace", "5", lambda m, x: m.linalg.trace(x), lambda xp, x: xp.trace(x, 0, -2, -1),
         lambda t, x: x.diagonal(0, -2, -1).sum(-1), "latency"),
    Case("linalg.vector_norm", "x", lambda m, x: m.linalg.vector_norm(x), lambda xp, x: xp.linalg.norm(x),
         lambda t, x: t.linalg.vector_norm(x)),
    Case("linalg.matrix_norm", "m", lambda m, x: m.linalg.matrix_norm(x), lambda xp, x: xp.linalg.norm(x),
         lambda t, x: t.linalg.matrix_norm(x)),
)  # fmt: skip


def _blocks() -> list[Case]:
    """Decompositions of many 16 x 16 matrices."""
    found = []
    for name in (
        "det",
        "inv",
        "slogdet",
        "cholesky",
        "qr",
        "eigh",
        "eigvalsh",
        "svd",
        "svdvals",
        "pinv",
        "matrix_rank",
    ):
        numpy = "svd" if name == "svdvals" else name
        options: dict[str, Any] = {"compute_uv": False} if name == "svdvals" else {}
        torch = None if name == "svd" else name
        found.append(
            Case(
                f"linalg.{name}, 16x16",
                "S",
                lambda m, x, n=name: getattr(m.linalg, n)(x),
                lambda xp, x, n=numpy, o=options: getattr(xp.linalg, n)(x, **o),
                None if torch is None else lambda t, x, n=torch: getattr(t.linalg, n)(x),
                "compute",
                "whole"
                if name in ("det", "inv", "slogdet", "cholesky", "eigvalsh", "svdvals", "pinv")
                else "none",
            )
        )
    return [
        *found,
        Case("linalg.solve, 16x16", "SB", lambda m, a, b: m.linalg.solve(a, b), lambda xp, a, b: xp.linalg.solve(a, b),
             lambda t, a, b: t.linalg.solve(a, b), "compute"),
        Case("linalg.matrix_power, 16x16", "B", lambda m, x: m.linalg.matrix_power(x, 3),
             lambda xp, x: xp.linalg.matrix_power(x, 3), lambda t, x: t.linalg.matrix_power(x, 3), "compute"),
    ]  # fmt: skip


REDUCING: tuple[Case, ...] = (*_reductions(), *_MORE, *_blocks())
