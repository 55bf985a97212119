"""Position schemes: each says where it acts (input, queries and keys, scores) and which actions it preserves.

`SCHEMES` is the one list of them: the laws, the command line, the page and the docs read it. A new scheme is one file, one
line here and one test.
"""

from equiscope.position.alibi import Alibi
from equiscope.position.axial_rope import AxialRope
from equiscope.position.base import Added, Places, Position
from equiscope.position.concatenated import Concatenated
from equiscope.position.cope import Cope
from equiscope.position.deberta import Deberta
from equiscope.position.dynamic import DynamicBias
from equiscope.position.fire import Fire
from equiscope.position.fourier import Fourier
from equiscope.position.index import Index
from equiscope.position.isotropic_rope import IsotropicRope
from equiscope.position.kerple import Kerple
from equiscope.position.learned import Learned
from equiscope.position.learned_nd import LearnedNd
from equiscope.position.log_cpb import LogCpb
from equiscope.position.mixed_rope import MixedRope
from equiscope.position.none import NoPosition
from equiscope.position.pope import Pope
from equiscope.position.registry import from_json, make, to_json
from equiscope.position.rope import Rope
from equiscope.position.shaw import Shaw
from equiscope.position.sinusoidal import Sinusoidal
from equiscope.position.sinusoidal_nd import SinusoidalNd
from equiscope.position.swin import SwinBias
from equiscope.position.t5 import T5Bias
from equiscope.position.xl import TransformerXL
from equiscope.position.xpos import XPos

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
