"""Recipe: a run as data. Data, model, budget and optimiser, every field typed. `reading` reads one from its file."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, field

from equiscope.data import Images, Language, Molecules, PointSets, Sounds, Synthetic, Tabular, Tags, Texts, Translation
from equiscope.training.fields import LINE

Size = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Line = Annotated[str, msgspec.Meta(pattern=LINE)]
Data = (  # the field `task` says which
    Language | Translation | Texts | Tags | Images | Sounds | Tabular | Molecules | PointSets | Synthetic
)
IN_SPACE = (Molecules, PointSets)  # whose model is of points in space
TASKS: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Language, Translation, Texts, Tags, Images, Sounds, Tabular, Molecules, PointSets, Synthetic)
}


class RecipeTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a recipe: unknown fields are refused."""


class Budget(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to train.

    steps       of the optimiser
    batch       examples of a step, over all processes
    accumulate  gradient accumulation: each batch is computed in this many parts, to save memory
    minutes     by the clock, evaluations and checkpoints included, after which the run ends before its last step; the schedule and
                the evaluations then follow whichever share is larger, that of the steps or that of the time. A run that is stopped
                and resumed has the minutes that were left. Such a run is not the same bit for bit when it is repeated
    """

    steps: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    batch: Annotated[int, msgspec.Meta(ge=1, le=10**6)]
    accumulate: Size = 1
    minutes: Positive | None = None


class Optimiser(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The optimiser and its schedule.

    kind       "adamw"; or "muon": Muon (Jordan 2024) for the matrices of the layers, AdamW for all else, such as convolution
               kernels
    rate       peak learning rate
    muon_rate  peak learning rate of the matrices that Muon updates
    betas      decay rates of AdamW's running means of the gradient and of its square
    eps        added to the root of the mean square
    decay      weight decay of parameters with two axes or more, per step and times the learning rate
    clip       largest norm of the gradient; a longer gradient is scaled down to it
    schedule   "cosine", down to `floor`; "wsd": constant, then linear decay over the last `fall` of the steps; "linear"; "root"
               (inverse square root, Vaswani et al. 2017); "constant"
    warmup     steps of linear warmup
    floor      final learning rate, as a share of the peak
    fall       share of the steps after the warmup over which "wsd" decays
    sharpness  radius of sharpness-aware minimisation (SAM, Foret et al. 2021), which computes two gradients a step; 0: off
    average    decay of an exponential moving average of the weights, which is then evaluated and saved
    """

    kind: Literal["adamw", "muon"] = "adamw"
    rate: Positive = 1e-3
    muon_rate: Positive = 5e-3
    betas: tuple[Annotated[float, msgspec.Meta(ge=0, lt=1)], Annotated[float, msgspec.Meta(ge=0, lt=1)]] = (0.9, 0.95)
    eps: Positive = 1e-8
    decay: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    clip: Positive | None = 1.0
    schedule: Literal["cosine", "wsd", "linear", "root", "constant"] = "cosine"
    warmup: Count = 0
    floor: Share = 0.1
    fall: Share = 0.2
    sharpness: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    average: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None


class Evaluation(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to evaluate on the validation part, and what to save.

    every    steps between evaluations; by default a tenth of all steps
    save     steps between checkpoints; by default `every`
    keep     number of most recent checkpoints to keep
    samples  number of fixed examples whose outputs are recorded at every evaluation
    guard    for the task language: before each evaluation, test that the model reads no later token (`equiscope.guard`), and stop
             the run if it does
    """

    every: Size | None = None
    save: Size | None = None
    keep: Size = 2
    samples: Count = 2
    guard: bool = False


class Engine(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the computation runs.

    precision  of matrix products: "bfloat16" keeps the weights and the optimiser in float32
    compile    whether to use torch.compile
    recompute  activation checkpointing: recompute a layer's activations in the backward pass instead of keeping them
    strategy   of several processes: "ddp" (each has all weights) or "fsdp" (each has a share)
    products   float32 matrix products on a CPU: "torch" is torch's default, "onednn" uses oneDNN. On AMD's Zen 5 oneDNN keeps
               float32's precision; a CPU with AMX then multiplies in bfloat16
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    recompute: bool = False
    strategy: Literal["ddp", "fsdp"] = "ddp"
    products: Literal["torch", "onednn"] = "torch"


class Recipe(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that defines a run.

    title       one line
    seed        of all random numbers
    data        what to train on; its field `task` names one of the tasks
    model       `preset`, a name; or `start`, a checkpoint or run to start from; and the fields of a Spec, which override the
                preset's; for molecules the fields of a PointSpec, or of a Spec if there is a `block`
    budget      how long to train
    optimiser   the optimiser and its schedule
    evaluation  when to evaluate, and what to save
    engine      how the computation runs
    """

    title: Line
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    data: Data
    model: dict[str, Any]
    budget: Budget
    optimiser: Optimiser = field(default_factory=Optimiser)
    evaluation: Evaluation = field(default_factory=Evaluation)
    engine: Engine = field(default_factory=Engine)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with every field and its value."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return data
