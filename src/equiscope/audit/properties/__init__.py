"""Properties: statements beyond geometry that hold for every sound model, or for those that say so. One file each."""

from equiscope.audit.properties.batch import Batch
from equiscope.audit.properties.cache import CacheExact
from equiscope.audit.properties.causal import CausalOutput
from equiscope.audit.properties.conservative import Conservative
from equiscope.audit.properties.dead_context import DeadContext
from equiscope.audit.properties.deterministic import Deterministic
from equiscope.audit.properties.device import Device
from equiscope.audit.properties.digits import Digits
from equiscope.audit.properties.dtype import Dtype
from equiscope.audit.properties.gradient import Gradient
from equiscope.audit.properties.hidden_rows import HiddenRows
from equiscope.audit.properties.packing import Packing
from equiscope.audit.properties.padding import LeftPadding, RightPadding
from equiscope.audit.properties.pure import Pure
from equiscope.audit.properties.rotary_layout import RotaryLayout
from equiscope.audit.properties.smooth import Smooth
from equiscope.audit.properties.stabiliser import Stabiliser
from equiscope.audit.properties.train_eval import TrainEval
from equiscope.audit.statement import Statement

PROPERTIES: tuple[type[Statement], ...] = (
    Pure, Deterministic, Batch, CausalOutput, CacheExact, LeftPadding, RightPadding, Packing, HiddenRows, DeadContext, RotaryLayout,
    Conservative, Smooth, Stabiliser, Digits, Gradient, TrainEval, Dtype, Device,
)  # fmt: skip

__all__ = ["PROPERTIES"]
