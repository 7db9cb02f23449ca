"""The structured-IR builder: one compute kernel, encoded as SPIR-V 1.5 words while it is being built.

The IR has values, variables, if, counted loops, functions, workgroup arrays and barriers; whatever is built
through it is structured control flow by construction. Pure operations are shared by common-subexpression
elimination within a straight-line region and from the regions that dominate it. Identical sequences of calls
give identical bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from oa._kernel.emit import spirv as sp
from oa._kernel.emit.fold import fold
from oa._kernel.emit.memory import Memory
from oa._kernel.emit.spirv import OPS
from oa._kernel.emit.text import print_module
from oa._kernel.emit.types import Buffer, Ty, Value, Var
from oa.errors import InternalError


def _misread(one: int, sign: int) -> frozenset[tuple[int, int]]:
    """Bits of the pairs -1 and +0, 1 and -0, either first."""
    return frozenset(((one | sign, 0), (0, one | sign), (one, sign), (sign, one)))


_MISREAD = {Ty.F32: _misread(0x3F800000, 1 << 31), Ty.F64: _misread(0x3FF << 52, 1 << 63)}

__all__ = ["Buffer", "Builder", "Ty", "Value", "Var"]


class Builder(Memory):
    """Builds one compute kernel.

    name: shown by `text`; not part of the words.
    local_size: workgroup size, fixed in the module.
    addressing: "address" (buffers through pointers in the argument block) or "descriptor" (set 0).
    buffers: how each bound buffer is used.
    trusted: native operations that this device is known to round correctly, out of "fdiv", "fsqrt" and "ffma"
        (fused). What is not trusted is corrected by the safe-maths prelude.
    texels: read the buffers that are only read as uniform texel buffers (see `oa._device.Profile.texels`).
    preserve_nan: forbid the driver to assume that there are no NaNs, infinities and signed zeros; only where the
        device has shaderSignedZeroInfNanPreserveFloat32.

    >>> b = Builder("double", (64, 1, 1), "descriptor", [Buffer("r"), Buffer("w")])
    >>> i = b.builtin("global_id")
    >>> with b.if_(b.op("ult", i, b.word(0))):
    ...     x = b.bitcast(Ty.F32, b.load(0, i))
    ...     b.store(1, i, b.bitcast(Ty.U32, b.op("fadd", x, x)))
    >>> words = b.finish()
    """

    def op(self, name: str, *args: Value) -> Value:
        """One primitive operation on register values: a name of `spirv.OPS`, "fabs" or "umulhi"."""
        spec = OPS.get(name)
        if spec is None:
            return self._compound(name, args)
        code, arity, operands, result, ext, exact, commutative, shift = spec
        first = args[0]
        ty = first.ty
        if ty not in operands or len(args) != arity or (arity > 1 and args[1].ty is not ty and not shift):
            raise InternalError(f"{name}: operand types {[a.ty for a in args]} do not fit")
        if ty is not Ty.F32 and not ty.is_wide:
            folded = fold(self, name, args)
            if folded is not None:
                return folded
        key: tuple[object, ...]
        if arity == 2:
            left, right = first.id, args[1].id
            if commutative and left > right:
                left, right = right, left
            key = (name, left, right)
        else:
            key = (name, *[a.id for a in args])
        found = self._known.get(key)
        if found is not None:
            return found
        made = self._next
        self._next = made + 1
        kind = self._scalars[(result or ty).order] or self._scalar(result or ty)
        if ext:
            self._code.append(arity + 5 << 16 | sp.OP_EXT_INST)
            self._code += (kind, made, self._extended(), code, *[a.id for a in args])
        elif arity == 2:
            self._code += (5 << 16 | code, kind, made, left, right)
        else:
            self._code += (4 << 16 | code, kind, made, first.id)
        if exact:
            self._exact.append(made)
        value = self._known[key] = Value(made, result or ty, None, (name, args))
        self._order.append(key)
        return value

    def _compound(self, name: str, args: tuple[Value, ...]) -> Value:
        """Operations that are more than one instruction."""
        if name == "fabs":
            ty = args[0].ty
            pattern = self.bitcast(ty.unsigned, args[0])
            mask = self.bits(ty.unsigned, (1 << ty.bits - 1) - 1)
            return self.bitcast(ty, self.op("and", pattern, mask))
        if name == "umulhi":
            a, b = args
            if a.ty is not Ty.U32 or b.ty is not Ty.U32:
                raise InternalError(f"umulhi: operand types {[a.ty, b.ty]} do not fit, wanted u32")
            if a.const is not None and b.const is not None:
                return self.bits(Ty.U32, a.const * b.const >> 32)
            return self._umulhi(a, b)
        raise InternalError(f"unknown primitive operation {name!r}")

    def _umulhi(self, a: Value, b: Value) -> Value:
        if a.id > b.id:
            a, b = b, a
        key = ("umulhi", a.id, b.id)
        found = self._known.get(key)
        if found is None:
            u32 = self._scalar(Ty.U32)
            pair, made = self._id(), self._id()
            self._code += (
                5 << 16 | sp.OP_UMUL_EXTENDED, self._type(sp.OP_TYPE_STRUCT, u32, u32), pair, a.id, b.id,
                5 << 16 | sp.OP_COMPOSITE_EXTRACT, u32, made, pair, 1,
            )  # fmt: skip
            found = self._remember(key, Value(made, Ty.U32))
        return found

    def select(self, cond: Value, a: Value, b: Value) -> Value:
        """`a` where `cond` is true, else `b`; both are evaluated."""
        if cond.ty is not Ty.BOOL or a.ty is not b.ty:
            raise InternalError(f"select: operand types {[cond.ty, a.ty, b.ty]} do not fit")
        if a is b:
            return a
        if cond.const is not None:
            return a if cond.const else b
        if (a.const, b.const) in _MISREAD.get(a.ty, ()):
            # Mesa makes 1 and 0, or its negation, of the condition, with the wrong zero: choose other bits and mend.
            ty = a.ty.unsigned
            other = [self.bits(ty, (v.const or 0) ^ 1) for v in (a, b)]
            return self.bitcast(a.ty, self.op("xor", self.select(cond, *other), self.bits(ty, 1)))
        key = ("select", cond.id, a.id, b.id)
        found = self._known.get(key)
        if found is None:
            made = self._id()
            self._code += (6 << 16 | sp.OP_SELECT, self._scalar(a.ty), made, cond.id, a.id, b.id)
            found = self._remember(key, Value(made, a.ty))
        return found

    def bitcast(self, ty: Ty, a: Value) -> Value:
        """The same bits as another type of the same width."""
        if a.ty is ty:
            return a
        if a.ty is Ty.BOOL or ty is Ty.BOOL:
            raise InternalError("bitcast: a bool has no bit pattern, use select or a comparison")
        if a.ty.bits != ty.bits:
            raise InternalError(f"bitcast: {a.ty} and {ty} differ in width")
        if a.const is not None:
            return self.bits(ty, a.const)
        if a.source is not None and a.source[0] == "bitcast":
            return self.bitcast(ty, a.source[1][0])
        key = ("bitcast", ty.order, a.id)
        found = self._known.get(key)
        if found is None:
            made = self._id()
            self._code += (4 << 16 | sp.OP_BITCAST, self._scalar(ty), made, a.id)
            found = self._remember(key, Value(made, ty, None, ("bitcast", (a,))))
        return found

    def convert(self, ty: Ty, a: Value) -> Value:
        """A number as another type, by the machine's rule: integers are extended or cut, floats rounded or cut to integers.

        What is out of the range of an integer type is undefined for floats.
        """
        if a.ty is ty:
            return a
        if a.ty.is_int and ty.is_int:
            if a.ty.bits == ty.bits:
                return self.bitcast(ty, a)
            if a.ty.is_signed != ty.is_signed:  # extension goes by the operand's sign
                return self.bitcast(ty, self.convert(ty.signed if a.ty.is_signed else ty.unsigned, a))
        kind = (a.ty.kind, ty.kind)
        key = ("convert", ty.order, a.id)
        found = self._known.get(key)
        if found is None:
            made = self._id()
            self._code += (4 << 16 | sp.CONVERSIONS[kind], self._scalar(ty), made, a.id)
            found = self._remember(key, Value(made, ty))
        return found

    # --- control flow ---------------------------------------------------------------------------------------

    def _label(self, label: int) -> None:
        self._code += (2 << 16 | sp.OP_LABEL, label)
        self._block_id = label

    def _branch(self, label: int) -> None:
        self._code += (2 << 16 | sp.OP_BRANCH, label)

    def _select_block(self, cond: Value, then: int, other: int, merge: int) -> None:
        if cond.ty is not Ty.BOOL:
            raise InternalError(f"a condition must be bool, got {cond.ty}")
        self._code += (
            3 << 16 | sp.OP_SELECTION_MERGE, merge, 0,
            4 << 16 | sp.OP_BRANCH_CONDITIONAL, cond.id, then, other,
        )  # fmt: skip

    @contextmanager
    def if_(self, cond: Value) -> Iterator[None]:
        """Runs the body where `cond` is true. Values made inside must not be used outside; use a Var."""
        then, merge = self._id(), self._id()
        self._select_block(cond, then, merge, merge)
        self._label(then)
        mark = len(self._order)
        yield
        self._forget(mark)
        self._branch(merge)
        self._label(merge)

    def if_else(
        self, cond: Value, then: Callable[[], Sequence[Value]], other: Callable[[], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """Runs one of the two bodies and returns its values, pairwise of equal types."""
        then_label, other_label, merge = self._id(), self._id(), self._id()
        self._select_block(cond, then_label, other_label, merge)
        results: list[Sequence[Value]] = []
        ends: list[int] = []
        for label, body in ((then_label, then), (other_label, other)):
            self._label(label)
            mark = len(self._order)
            results.append(tuple(body()))
            self._forget(mark)
            ends.append(self._block_id)
            self._branch(merge)
        self._label(merge)
        yes, no = results
        if [v.ty for v in yes] != [v.ty for v in no]:
            raise InternalError(f"if_else: branches give {[v.ty for v in yes]} and {[v.ty for v in no]}")
        return tuple(self._phi(a.ty, a.id, ends[0], b.id, ends[1]) for a, b in zip(yes, no, strict=True))

    def _phi(self, ty: Ty, first: int, first_block: int, second: int, second_block: int) -> Value:
        made = self._id()
        self._code += (7 << 16 | sp.OP_PHI, self._scalar(ty), made, first, first_block, second, second_block)
        return Value(made, ty)

    @contextmanager
    def loop(self, start: Value, stop: Value, step: Value) -> Iterator[Value]:
        """A counted u32 loop: `i = start; while i < stop: body; i += step`. stop + step stays below 2^32."""
        if not (start.ty is stop.ty is step.ty is Ty.U32):
            raise InternalError(f"loop: bounds are {[start.ty, stop.ty, step.ty]}, wanted u32")
        header, body, again, merge, following = (self._id() for _ in range(5))
        before = self._block_id
        self._branch(header)
        self._label(header)
        index = self._phi(Ty.U32, start.id, before, following, again)
        inside = self._id()
        self._code += (
            5 << 16 | OPS["ult"].code, self._scalar(Ty.BOOL), inside, index.id, stop.id,
            4 << 16 | sp.OP_LOOP_MERGE, merge, again, 0,
            4 << 16 | sp.OP_BRANCH_CONDITIONAL, inside, body, merge,
        )  # fmt: skip
        self._label(body)
        mark = len(self._order)
        yield index
        self._forget(mark)
        self._branch(again)
        self._label(again)
        self._code += (5 << 16 | OPS["iadd"].code, self._scalar(Ty.U32), following, index.id, step.id)
        self._branch(header)
        self._label(merge)

    def repeat(self, count: Value, body: Callable[..., Sequence[Value]], *start: Value) -> tuple[Value, ...]:
        """`count` (u32) times state = body(index, *state), from `start`; returns the last state."""
        cells = [self.var(value) for value in start]
        with self.loop(self.const(Ty.U32, 0), count, self.const(Ty.U32, 1)) as index:
            for cell, value in zip(cells, body(index, *(self.get(c) for c in cells)), strict=True):
                self.set(cell, value)
        return tuple(self.get(cell) for cell in cells)

    # --- functions ------------------------------------------------------------------------------------------

    def function(
        self, name: str, params: Sequence[Ty], result: Ty, body: Callable[[Sequence[Value]], Value]
    ) -> None:
        """Define a pure function, once per module: a second definition of the same name is ignored.

        The body sees only its parameters and constants: no buffers, words, built-ins or workgroup arrays.
        """
        if name in self._callable:
            return
        kinds = [self._scalar(ty) for ty in params]
        returned = self._scalar(result)
        made = self._id()
        self._callable[name] = (made, tuple(params), result)
        outer = self._enter_function()
        arguments = [Value(self._id(), ty) for ty in params]
        signature = self._type(sp.OP_TYPE_FUNCTION, returned, *kinds)
        head = [5 << 16 | sp.OP_FUNCTION, returned, made, 0, signature]
        for kind, argument in zip(kinds, arguments, strict=True):
            head += (3 << 16 | sp.OP_FUNCTION_PARAMETER, kind, argument.id)
        head += (2 << 16 | sp.OP_LABEL, self._block_id)
        value = body(arguments)
        if value.ty is not result:
            raise InternalError(f"function {name}: the body gives {value.ty}, declared {result}")
        self._code += (2 << 16 | sp.OP_RETURN_VALUE, value.id, 1 << 16 | sp.OP_FUNCTION_END)
        self._functions.append(head + self._variables + self._code)
        self._leave_function(outer)

    def defined(self, name: str) -> bool:
        """Whether the module has a function of this name."""
        return name in self._callable

    def call(self, name: str, *args: Value) -> Value:
        """Call a function defined with `function`."""
        if name not in self._callable:
            raise InternalError(f"call of {name!r}, which is not defined in this module")
        target, params, result = self._callable[name]
        if tuple(a.ty for a in args) != params:
            raise InternalError(f"call of {name}: got {[a.ty for a in args]}, wanted {list(params)}")
        key = ("call", target, *(a.id for a in args))
        found = self._known.get(key)
        if found is None:
            made = self._id()
            self._code.append(len(args) + 4 << 16 | sp.OP_FUNCTION_CALL)
            self._code += (self._scalar(result), made, target, *(a.id for a in args))
            found = self._remember(key, Value(made, result))
        return found

    # --- the end --------------------------------------------------------------------------------------------

    def _words(self) -> list[int]:
        """Close the kernel (once) and lay out the module."""
        if not self._finished:
            if self._in_function:
                raise InternalError("finish inside a function body")
            self._close_block()
            void = self._type(sp.OP_TYPE_VOID)
            head = [5 << 16 | sp.OP_FUNCTION, void, self._entry, 0, self._type(sp.OP_TYPE_FUNCTION, void)]
            head += (2 << 16 | sp.OP_LABEL, self._entry_label)
            self._code += (1 << 16 | sp.OP_RETURN, 1 << 16 | sp.OP_FUNCTION_END)
            self._functions.append(head + self._variables + self._prologue + self._code)
            self._finished = self._layout(self._entry, self.local_size)
        return self._finished

    def finish(self) -> bytes:
        """The SPIR-V words, little endian. Nothing can be added afterwards."""
        return sp.encode(self._words())

    def text(self) -> str:
        """The kernel as readable structured IR; closes the kernel as `finish` does."""
        head = f"kernel {self.name} local {self.local_size} {self.addressing}\n"
        for index, buffer in enumerate(self.buffers):
            aliased = " aliased" if buffer.aliased else ""
            texel = " texels" if self.texels[index] else ""
            head += f"  buffer {index}: {buffer.access} x{buffer.width}{aliased}{texel}\n"
        names = {made: name for name, (made, _, _) in self._callable.items()}
        return head + print_module(self._words(), {**names, self._entry: "main"})
