"""Properties: statements other than symmetries, one file each. Some hold for every sound model, others only where claimed."""

from equiscope.audit.statements.numerics.deterministic import Deterministic
from equiscope.audit.statements.numerics.device import Device
from equiscope.audit.statements.numerics.dtype import Dtype
from equiscope.audit.statements.numerics.engines import Engines
from equiscope.audit.statements.numerics.gradient import Gradient
from equiscope.audit.statements.numerics.pure import Pure
from equiscope.audit.statements.numerics.train_eval import TrainEval
from equiscope.audit.statements.sequences.batch import BatchIndependence
from equiscope.audit.statements.sequences.cache import CacheExact
from equiscope.audit.statements.sequences.causal import CausalOutput
from equiscope.audit.statements.sequences.dead_context import DeadContext
from equiscope.audit.statements.sequences.embedding import EmbeddingVectors
from equiscope.audit.statements.sequences.masked_rows import MaskedRows
from equiscope.audit.statements.sequences.packing import Packing
from equiscope.audit.statements.sequences.padding import LeftPadding, RightPadding
from equiscope.audit.statements.sequences.rotary_layout import RotaryLayout
from equiscope.audit.statements.space.conservative import Conservative
from equiscope.audit.statements.space.digits import Digits
from equiscope.audit.statements.space.smooth import Smooth
from equiscope.audit.statements.space.stabiliser import Stabiliser
from equiscope.audit.statements.statement import Statement

PROPERTIES: tuple[type[Statement], ...] = (
    Pure,
    Deterministic,
    BatchIndependence,
    CausalOutput,
    CacheExact,
    LeftPadding,
    RightPadding,
    Packing,
    MaskedRows,
    DeadContext,
    RotaryLayout,
    Conservative,
    Smooth,
    Stabiliser,
    Digits,
    Gradient,
    TrainEval,
    Dtype,
    Device,
    Engines,
    EmbeddingVectors,
)

__all__ = ["PROPERTIES"]
