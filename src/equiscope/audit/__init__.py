"""Audit: which symmetries and properties any torch.nn.Module really has, measured, with evidence."""

from equiscope.audit.checking import check, replay
from equiscope.audit.junit import junit
from equiscope.audit.properties import PROPERTIES
from equiscope.audit.statement import Statement, Symmetry
from equiscope.audit.texts import summary, table

__all__ = ["PROPERTIES", "Statement", "Symmetry", "check", "junit", "replay", "summary", "table"]
