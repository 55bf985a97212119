"""Position schemes: each says where it acts (input, queries and keys, scores) and which actions it preserves.

`SCHEMES` is the one list of them: the laws, the command line, the page and the docs read it. A new scheme is one file, one
line here and one test.
"""

from equiscope.positions.alibi import Alibi
from equiscope.positions.axial_rope import AxialRope
from equiscope.positions.base import Added, Places, Position
from equiscope.positions.concatenated import Concatenated
from equiscope.positions.cope import Cope
from equiscope.positions.deberta import Deberta
from equiscope.positions.dynamic import DynamicBias
from equiscope.positions.fire import Fire
from equiscope.positions.fourier import Fourier
from equiscope.positions.index import Index
from equiscope.positions.isotropic_rope import IsotropicRope
from equiscope.positions.kerple import Kerple
from equiscope.positions.learned import Learned
from equiscope.positions.learned_nd import LearnedNd
from equiscope.positions.log_cpb import LogCpb
from equiscope.positions.mixed_rope import MixedRope
from equiscope.positions.none import NoPosition
from equiscope.positions.pope import Pope
from equiscope.positions.registry import from_json, make, to_json
from equiscope.positions.rope import Rope
from equiscope.positions.shaw import Shaw
from equiscope.positions.sinusoidal import Sinusoidal
from equiscope.positions.sinusoidal_nd import SinusoidalNd
from equiscope.positions.swin import SwinBias
from equiscope.positions.t5 import T5Bias
from equiscope.positions.xl import TransformerXL
from equiscope.positions.xpos import XPos

SCHEMES: tuple[type[Position], ...] = (
    NoPosition,
    Index,
    Sinusoidal,
    Learned,
    Concatenated,
    Rope,
    Alibi,
    XPos,
    Pope,
    Fourier,
    T5Bias,
    Kerple,
    Fire,
    DynamicBias,
    Shaw,
    TransformerXL,
    Deberta,
    Cope,
    SinusoidalNd,
    LearnedNd,
    AxialRope,
    MixedRope,
    IsotropicRope,
    SwinBias,
    LogCpb,
)

__all__ = [
    "SCHEMES",
    "Added",
    "Alibi",
    "AxialRope",
    "Concatenated",
    "Cope",
    "Deberta",
    "DynamicBias",
    "Fire",
    "Fourier",
    "Index",
    "IsotropicRope",
    "Kerple",
    "Learned",
    "LearnedNd",
    "LogCpb",
    "MixedRope",
    "NoPosition",
    "Places",
    "Pope",
    "Position",
    "Rope",
    "Shaw",
    "Sinusoidal",
    "SinusoidalNd",
    "SwinBias",
    "T5Bias",
    "TransformerXL",
    "XPos",
    "from_json",
    "make",
    "to_json",
]
