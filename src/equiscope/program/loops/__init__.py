"""Loops: a function of tensors as steps over strided numbers, which a page runs without knowing the function."""

from equiscope.program.loops.computation import Function, computation, pushed

__all__ = ["Function", "computation", "pushed"]
