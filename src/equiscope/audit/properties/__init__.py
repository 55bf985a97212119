"""Properties: statements beyond geometry that hold for every sound model, or for those that say so. One file each."""

from equiscope.audit.properties.batch import Batch
from equiscope.audit.properties.cache import CacheExact
from equiscope.audit.properties.causal import CausalOutput
from equiscope.audit.properties.deterministic import Deterministic
from equiscope.audit.properties.padding import LeftPadding, RightPadding
from equiscope.audit.statement import Statement

PROPERTIES: tuple[type[Statement], ...] = (Deterministic, Batch, CausalOutput, CacheExact, LeftPadding, RightPadding)

__all__ = ["PROPERTIES"]
