"""Models from a spec: frozen data in, an ordinary `nn.Module` out."""

from equiscope.models.build import Model, build
from equiscope.models.generate import Sampling, generate, stream
from equiscope.models.readout import READOUTS, ClassToken, Concatenation, Each, First, Last, Mean, Readout
from equiscope.models.spec import Attention, Block, FeedForward, Norm, Spec

__all__ = [
    "READOUTS",
    "Attention",
    "Block",
    "ClassToken",
    "Concatenation",
    "Each",
    "FeedForward",
    "First",
    "Last",
    "Mean",
    "Model",
    "Norm",
    "Readout",
    "Sampling",
    "Spec",
    "build",
    "generate",
    "stream",
]
