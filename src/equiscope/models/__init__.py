"""Models from a spec: frozen data in, an ordinary `nn.Module` out."""

from equiscope.models.beam import Beams, Found, search
from equiscope.models.build import Memory, Model, build
from equiscope.models.compiled import Compiled
from equiscope.models.describe import Description, describe
from equiscope.models.export import export_onnx
from equiscope.models.generate import generate, stream
from equiscope.models.mixed import Mixed
from equiscope.models.prepared import Prepared, prepared
from equiscope.models.presets import PRESETS, tiny
from equiscope.models.products import Probe, fast_products, probe
from equiscope.models.readout import READOUTS, ClassToken, Concatenation, Each, First, Last, Mean, Readout
from equiscope.models.resize import resized
from equiscope.models.rollout import rollout, weights
from equiscope.models.sampling import Sampling
from equiscope.models.spec import Attention, Block, Entry, FeedForward, Head, Norm, Spec
from equiscope.models.speculate import Draft
from equiscope.models.window import windowed

__all__ = [
    "PRESETS",
    "READOUTS",
    "Attention",
    "Beams",
    "Block",
    "ClassToken",
    "Compiled",
    "Concatenation",
    "Description",
    "Draft",
    "Each",
    "Entry",
    "FeedForward",
    "First",
    "Found",
    "Head",
    "Last",
    "Mean",
    "Memory",
    "Mixed",
    "Model",
    "Norm",
    "Prepared",
    "Probe",
    "Readout",
    "Sampling",
    "Spec",
    "build",
    "describe",
    "export_onnx",
    "fast_products",
    "generate",
    "prepared",
    "probe",
    "resized",
    "rollout",
    "search",
    "stream",
    "tiny",
    "weights",
    "windowed",
]
