"""Audit: which symmetries and properties any torch.nn.Module really has, measured, with evidence."""

from equiscope.audit.checking import check, replay
from equiscope.audit.properties import PROPERTIES
from equiscope.audit.statement import Statement, Symmetry

__all__ = ["PROPERTIES", "Statement", "Symmetry", "check", "replay"]
