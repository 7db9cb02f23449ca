"""The emitter: structured IR -> SPIR-V words, the scalar operation table and the safe-maths prelude.

`ir.Builder` builds one compute kernel, `scalar.emit_op` emits one typed scalar operation of the schema into
it, and `prelude` defines the transcendental functions from add, multiply and integer operations.
"""
