"""From a program to a record that a page can run."""

from equiscope.program.lower.record import lowered
from equiscope.program.lower.roles import AttentionRoles, attention_roles

__all__ = ["AttentionRoles", "attention_roles", "lowered"]
