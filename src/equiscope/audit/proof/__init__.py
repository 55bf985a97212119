"""Proof of permutation equivariance, causality and batch independence on the exported graph of operations."""

from equiscope.audit.proof.proving import STATEMENTS, prove

__all__ = ["STATEMENTS", "prove"]
