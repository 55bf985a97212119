"""Statements about a model that can be measured: it has a symmetry, or a property."""
