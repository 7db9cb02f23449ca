"""Layer 1: what an operation is. Data types, shapes, scalar expressions, declarations and the call path."""
