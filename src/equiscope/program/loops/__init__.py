"""Loops: a function of tensors as steps over strided numbers, which a page runs without knowing the function."""

from equiscope.program.loops.computation import Function, computation, with_forces

__all__ = ["Function", "computation", "with_forces"]
