"""State of a kernel under construction: scopes of known values, built-in inputs, variables and workgroup arrays."""

from __future__ import annotations

from collections.abc import Sequence

from oa._kernel.emit import spirv as sp
from oa._kernel.emit.module import Module
from oa._kernel.emit.types import Buffer, Ty, Value, Var
from oa.errors import InternalError

#: What entering a function puts aside: code, variables, known values and their order, block, whether in one.
_Outer = tuple[list[int], list[int], dict[tuple[object, ...], Value], list[tuple[object, ...]], int, bool]


class Frame(Module):
    """Builder state, and everything that an invocation or a workgroup has for itself."""

    def __init__(
        self,
        name: str,
        local_size: tuple[int, int, int],
        addressing: str,
        buffers: Sequence[Buffer],
        *,
        trusted: frozenset[str] = frozenset(),
        preserve_nan: bool = False,
        texels: bool = False,
    ) -> None:
        super().__init__()
        if addressing not in ("address", "descriptor"):
            raise InternalError(f'addressing is {addressing!r}, wanted "address" or "descriptor"')
        for index, buffer in enumerate(buffers):
            if buffer.access not in ("r", "w", "rw") or buffer.width not in (1, 2, 4):
                raise InternalError(
                    f"buffer {index} is {buffer}, wanted access r, w or rw and width 1, 2 or 4"
                )
        self.name = name
        self.local_size = local_size
        self.addressing = addressing
        self.buffers = tuple(buffers)
        self.trusted = trusted
        #: How each buffer is bound: 0 as storage, else as a texel buffer of so many words a texel.
        self.texels = tuple(
            b.width if texels and b.access == "r" and not b.aliased else 0 for b in self.buffers
        )
        if texels and addressing != "descriptor":
            raise InternalError(f'texels with addressing {addressing!r}, wanted "descriptor"')
        self.arg_words = 0  #: plain words of the argument block that the kernel reads, as far as built
        self.shared_bytes = 0  #: bytes of workgroup memory, as far as built
        if preserve_nan:
            self._capabilities.append(sp.CAPABILITY_PRESERVE_NAN)
        self._entry = self._id()
        self._entry_label = self._block_id = self._id()
        self._code: list[int] = []
        self._prologue: list[int] = []  # start of the entry block: dominates everything in main
        self._variables: list[int] = []
        self._known: dict[tuple[object, ...], Value] = {}
        self._order: list[tuple[object, ...]] = []  # keys of _known in order of insertion, to leave a scope
        self._in_function = False
        self._callable: dict[str, tuple[int, tuple[Ty, ...], Ty]] = {}
        self._finished: list[int] = []
        self._words_read: dict[tuple[int, Ty], Value] = {}
        self._wide_words: dict[tuple[int, Ty], Value] = {}
        self._inputs: dict[tuple[str, int], Value] = {}
        self._input_vectors: dict[str, int] = {}
        self._pointers: dict[int, int] = {}
        self._arrays: list[tuple[int, Ty]] = []
        self._block_base = 0
        self._block_length = 0  # with descriptors: id of the number of uvec4 in the argument block

    def bound_texels(self) -> tuple[int, ...]:
        """`Kernel.texels` of the kernel."""
        return self.texels if any(self.texels) else ()

    # --- scopes ---------------------------------------------------------------------------------------------

    def _remember(self, key: tuple[object, ...], value: Value) -> Value:
        self._known[key] = value
        self._order.append(key)
        return value

    def _forget(self, mark: int) -> None:
        """Leave a scope: what it made no longer dominates."""
        known = self._known
        for key in self._order[mark:]:
            del known[key]
        del self._order[mark:]

    def _enter_function(self) -> _Outer:
        outer = (self._code, self._variables, self._known, self._order, self._block_id, self._in_function)
        self._code, self._variables, self._known, self._order = [], [], {}, []
        self._block_id, self._in_function = self._id(), True
        return outer

    def _leave_function(self, outer: _Outer) -> None:
        self._code, self._variables, self._known, self._order, self._block_id, self._in_function = outer

    def _main_only(self, what: str) -> None:
        if self._in_function:
            raise InternalError(f"{what} inside a function body: functions see only their parameters")

    # --- inputs, variables, workgroup memory ----------------------------------------------------------------

    def builtin(self, name: str, axis: int = 0) -> Value:
        """An input of the invocation as u32: one of `spirv.BUILTINS`, with an axis 0..2 for the vectors."""
        self._main_only("builtin")
        found = self._inputs.get((name, axis))
        if found is not None:
            return found
        if name not in sp.BUILTINS:
            raise InternalError(f"unknown built-in {name!r}; the known ones are {', '.join(sp.BUILTINS)}")
        number, is_vector = sp.BUILTINS[name]
        if name.startswith("subgroup"):
            self._need(sp.CAPABILITY_SUBGROUP)
        u32 = self._scalar(Ty.U32)
        whole = self._input_vectors.get(name)
        if whole is None:
            kind = self._vector(3) if is_vector else u32
            variable = self._global(sp.CLASS_INPUT, kind)
            self._decorate(variable, sp.DECORATION_BUILTIN, number)
            whole = self._input_vectors[name] = self._id()
            self._prologue += (4 << 16 | sp.OP_LOAD, kind, whole, variable)
        made = whole
        if is_vector:
            made = self._id()
            self._prologue += (5 << 16 | sp.OP_COMPOSITE_EXTRACT, u32, made, whole, axis)
        value = self._inputs[name, axis] = Value(made, Ty.U32)
        return value

    def var(self, init: Value) -> Var:
        """A mutable variable, set to `init` here."""
        made = self._id()
        pointer = self._pointer(sp.CLASS_FUNCTION, self._scalar(init.ty))
        self._variables += (4 << 16 | sp.OP_VARIABLE, pointer, made, sp.CLASS_FUNCTION)
        variable = Var(made, init.ty)
        self.set(variable, init)
        return variable

    def get(self, variable: Var) -> Value:
        """The variable's present value."""
        made = self._id()
        self._code += (4 << 16 | sp.OP_LOAD, self._scalar(variable.ty), made, variable.id)
        return Value(made, variable.ty)

    def set(self, variable: Var, value: Value) -> None:
        """Change the variable."""
        if value.ty is not variable.ty:
            raise InternalError(f"set: value is {value.ty}, the variable {variable.ty}")
        self._code += (3 << 16 | sp.OP_STORE, variable.id, value.id)

    def shared(self, ty: Ty, length: int) -> int:
        """Declare a workgroup array; returns its handle."""
        if ty is Ty.BOOL or length < 1:
            raise InternalError(f"shared: {length} of {ty}; wanted at least one of a number type")
        made = self._type(sp.OP_TYPE_ARRAY, self._scalar(ty), self.bits(Ty.U32, length).id)
        self._arrays.append((self._global(sp.CLASS_WORKGROUP, made), ty))
        self.shared_bytes += ty.bits // 8 * length
        return len(self._arrays) - 1

    def _shared_element(self, array: int, index: Value) -> tuple[int, Ty]:
        self._main_only("a workgroup array")
        variable, ty = self._arrays[array]
        key = ("shared", array, index.id)
        found = self._known.get(key)
        if found is None:
            made = self._id()
            pointer = self._pointer(sp.CLASS_WORKGROUP, self._scalar(ty))
            self._code += (5 << 16 | sp.OP_ACCESS_CHAIN, pointer, made, variable, index.id)
            found = self._remember(key, Value(made, Ty.U32))
        return found.id, ty

    def shared_load(self, array: int, index: Value) -> Value:
        """One element of a workgroup array."""
        pointer, ty = self._shared_element(array, index)
        made = self._id()
        self._code += (4 << 16 | sp.OP_LOAD, self._scalar(ty), made, pointer)
        return Value(made, ty)

    def shared_store(self, array: int, index: Value, value: Value) -> None:
        """Write one element of a workgroup array."""
        pointer, ty = self._shared_element(array, index)
        if value.ty is not ty:
            raise InternalError(f"shared_store: value is {value.ty}, the array {ty}")
        self._code += (3 << 16 | sp.OP_STORE, pointer, value.id)

    def shuffle_xor(self, value: Value, mask: int) -> Value:
        """The value of the invocation of the subgroup whose number differs by the bits of `mask`; all must be active."""
        self._main_only("a subgroup operation")
        if value.ty is Ty.BOOL or value.ty.is_wide:
            raise InternalError(f"shuffle_xor: value is {value.ty}, wanted 32 bits")
        self._need(sp.CAPABILITY_SUBGROUP)
        self._need(sp.CAPABILITY_SUBGROUP_SHUFFLE)
        scope, lanes, made = self.bits(Ty.U32, sp.SCOPE_SUBGROUP).id, self.bits(Ty.U32, mask).id, self._id()
        self._code += (6 << 16 | sp.OP_SHUFFLE_XOR, self._scalar(value.ty), made, scope, value.id, lanes)
        return Value(made, value.ty)

    def barrier(self) -> None:
        """Workgroup execution barrier that orders workgroup memory. All invocations must reach it alike."""
        self._main_only("barrier")
        scope = self.bits(Ty.U32, sp.SCOPE_WORKGROUP).id
        semantics = self.bits(Ty.U32, sp.SEMANTICS_WORKGROUP_ACQUIRE_RELEASE).id
        self._code += (4 << 16 | sp.OP_CONTROL_BARRIER, scope, scope, semantics)
