"""Models from a spec: frozen data in, an ordinary `nn.Module` out."""

from equiscope.models.baselines import KINDS as BASELINES
from equiscope.models.baselines import Baseline
from equiscope.models.beam import Beams, Hypothesis, search
from equiscope.models.build import EncoderOutput, Model
from equiscope.models.compiled import Compiled
from equiscope.models.cpu_decoder import CPUDecoder
from equiscope.models.export import export_onnx
from equiscope.models.generate import generate, stream
from equiscope.models.kinds import KINDS, Built, build, count, describe, folder_of, spec_of
from equiscope.models.mixed import Mixed
from equiscope.models.networks import ConvNet, Lstm, Mlp, Network
from equiscope.models.presets import PRESETS, tiny
from equiscope.models.readout import READOUTS, ClassToken, Concatenation, Each, First, Last, Mean, Readout
from equiscope.models.resize import resized
from equiscope.models.sampling import Sampling
from equiscope.models.spec import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer, Spec
from equiscope.models.speculate import Draft
from equiscope.models.window import windowed
from equiscope.record.description import Description
from equiscope.spec_base import ModelSpec

__all__ = [
    "BASELINES",
    "KINDS",
    "PRESETS",
    "READOUTS",
    "Attention",
    "Baseline",
    "Beams",
    "Block",
    "Built",
    "CPUDecoder",
    "ClassToken",
    "Compiled",
    "Concatenation",
    "ConvNet",
    "Description",
    "Draft",
    "Each",
    "EncoderOutput",
    "FeedForward",
    "First",
    "Hypothesis",
    "InputLayer",
    "Last",
    "Lstm",
    "Mean",
    "Mixed",
    "Mlp",
    "Model",
    "ModelSpec",
    "Network",
    "Norm",
    "OutputLayer",
    "Readout",
    "Sampling",
    "Spec",
    "build",
    "count",
    "describe",
    "export_onnx",
    "folder_of",
    "generate",
    "resized",
    "search",
    "spec_of",
    "stream",
    "tiny",
    "windowed",
]
