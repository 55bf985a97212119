"""What editors and type checkers read of `equiscope`; `__init__.py` loads the same names on first use."""

from . import attention as attention
from . import audit as audit
from . import blocks as blocks
from . import checkpoints as checkpoints
from . import comparison as comparison
from . import data as data
from . import errors as errors
from . import explore as explore
from . import functional as functional
from . import geometry as geometry
from . import interventions as interventions
from . import kernels as kernels
from . import models as models
from . import positions as positions
from . import program as program
from . import record as record
from . import study as study
from . import symmetry as symmetry
from . import tokens as tokens
from . import trained as trained
from . import training as training
from . import units as units
from .audit import check as check
from .audit.parity.comparing import parity as parity
from .checkpoints import load as load
from .checkpoints import save as save
from .comparison import compare as compare
from .explore.notebook import export as export
from .explore.notebook import show as show
from .geometry import PointSpec as PointSpec
from .interventions import Experiment as Experiment
from .interventions import intervene as intervene
from .models import Attention as Attention
from .models import Block as Block
from .models import FeedForward as FeedForward
from .models import InputLayer as InputLayer
from .models import Norm as Norm
from .models import OutputLayer as OutputLayer
from .models import Spec as Spec
from .models import build as build
from .models import describe as describe
from .models import generate as generate
from .models.guard import guard as guard
from .program import Program as Program
from .program import watch as watch
from .record import Audit as Audit
from .record import Parity as Parity
from .record import Run as Run
from .tokens import Tokens as Tokens
from .training import evaluate as evaluate
from .training import predict as predict
from .training import train as train

__version__: str
__all__: list[str]
