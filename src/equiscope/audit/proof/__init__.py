"""Proof: permutation of tokens, causality and batch independence, proved on the graph of operations or not."""

from equiscope.audit.proof.proving import STATEMENTS, prove

__all__ = ["STATEMENTS", "prove"]
