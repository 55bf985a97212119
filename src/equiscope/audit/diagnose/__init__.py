"""Diagnose a violation: shrink the counterexample, find the module and the operation that break the statement, name the cause."""
