"""Recipe: a run as data. Data, model, budget and optimiser, every field typed. `reading` reads one from its file."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, field

from equiscope.data import Images, Language, Molecules, Sounds, Translation

Size = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Data = Language | Translation | Images | Sounds | Molecules  # the field `task` says which
TASKS: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in (Language, Translation, Images, Sounds, Molecules)
}


class RecipeTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a recipe: unknown fields are refused."""


class Budget(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is learned.

    steps       of the optimiser
    batch       examples of a step, over all processes
    accumulate  a step's batch is read in so many turns, where memory is short
    """

    steps: Size
    batch: Size
    accumulate: Size = 1


class Optimiser(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How weights follow the gradient.

    kind       "adamw"; or "muon": matrices of the layers by Muon (Jordan 2024), all else, as kernels of convolutions, by AdamW
    rate       of learning, at its highest
    muon_rate  of the matrices that Muon moves, at its highest
    betas      how long AdamW remembers the gradient and its square
    eps        added to the root of the square
    decay      of weights with two axes or more, per step times the rate
    clip       length that the gradient is cut to
    schedule   "cosine" to `floor` of the rate; "wsd": level, and down in a line over the last `fall` of them; "linear"; "root"
               (inverse square root, Vaswani et al. 2017); "constant"
    warmup     steps at the beginning over which the rate rises in a line
    floor      share of the highest rate that is left at the end
    fall       share of the steps after the warmup over which "wsd" falls
    sharpness  the gradient is the one so far uphill, which leads to flat places (sharpness-aware minimisation, Foret et al. 2021);
               it takes two gradients a step. 0: the plain one
    average    of the weights, by this factor a step, is what is evaluated and kept
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
    """When the validation part is measured, and what is kept.

    every    so many steps; a tenth of all unless said
    save     a checkpoint so often; as `every` unless said
    keep     so many newest checkpoints
    samples  fixed examples, answered at every evaluation
    """

    every: Size | None = None
    save: Size | None = None
    keep: Size = 2
    samples: Count = 2


class Engine(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How it is computed.

    precision  of products: "bfloat16" keeps float32 weights and an optimiser in float32
    compile    by torch.compile
    recompute  activations of a layer are computed again on the way back, instead of kept
    strategy   of several processes: "ddp" (each has all weights) or "fsdp" (each has a share)
    products   float32 matrix products on a CPU: "torch" leaves them as they are, "onednn" sends them through oneDNN. On AMD's
               Zen 5 they keep float32's precision; a CPU with AMX then multiplies in bfloat16
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    recompute: bool = False
    strategy: Literal["ddp", "fsdp"] = "ddp"
    products: Literal["torch", "onednn"] = "torch"


class Recipe(RecipeTable, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run as data.

    title       one line
    seed        of everything that is random
    data        what is learned from; its field `task` says which of the five tasks it is
    model       `preset`, a name; or `start`, a checkpoint or run to go on from; and the fields of a Spec, which change a preset's;
                for molecules those of a PointSpec, or of a Spec where they say a `block`
    budget      how much is learned
    optimiser   how weights follow the gradient
    evaluation  when the validation part is measured, and what is kept
    engine      how it is computed
    """

    title: str
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    data: Data
    model: dict[str, Any]
    budget: Budget
    optimiser: Optimiser = field(default_factory=Optimiser)
    evaluation: Evaluation = field(default_factory=Evaluation)
    engine: Engine = field(default_factory=Engine)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, every field said."""
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return found
