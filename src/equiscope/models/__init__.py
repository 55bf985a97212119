"""Models from a spec: frozen data in, an ordinary `nn.Module` out."""

from equiscope.models.build import Memory, Model, build
from equiscope.models.describe import Description, describe
from equiscope.models.export import export_onnx
from equiscope.models.generate import Sampling, generate, stream
from equiscope.models.mixed import Mixed
from equiscope.models.presets import PRESETS, tiny
from equiscope.models.products import Probe, fast_products, probe
from equiscope.models.readout import READOUTS, ClassToken, Concatenation, Each, First, Last, Mean, Readout
from equiscope.models.resize import resized
from equiscope.models.rollout import rollout, weights
from equiscope.models.spec import Attention, Block, Entry, FeedForward, Head, Norm, Spec

__all__ = [
    "PRESETS",
    "READOUTS",
    "Attention",
    "Block",
    "ClassToken",
    "Concatenation",
    "Description",
    "Each",
    "Entry",
    "FeedForward",
    "First",
    "Head",
    "Last",
    "Mean",
    "Memory",
    "Mixed",
    "Model",
    "Norm",
    "Probe",
    "Readout",
    "Sampling",
    "Spec",
    "build",
    "describe",
    "export_onnx",
    "fast_products",
    "generate",
    "probe",
    "resized",
    "rollout",
    "stream",
    "tiny",
    "weights",
]
