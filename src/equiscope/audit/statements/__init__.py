"""Statements: what can be said of a model and measured: that it keeps a symmetry, or has a property."""
