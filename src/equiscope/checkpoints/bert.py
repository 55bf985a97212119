"""BERT, RoBERTa, DistilBERT and their kin: encoders with learned places, a norm after each part, and three kinds of head.

The head follows `architectures`: masked words (a map, activation and norm, then the table), classes (a map of the first row,
then one of the classes), or none (all rows). `BertVariant` holds the differences; DistilBERT has its own names. ERNIE
computes what BERT does, XLM-R, CamemBERT and data2vec what RoBERTa does, under other names.
Sources: Devlin et al. 2019; Liu et al. 2019; Sanh et al. 2019; names as in transformers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, WeightTransform, affine, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig, labels
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer, Spec
from equiscope.positions import Learned

Ends = Literal["words", "classes", "rows"]


@dataclass(frozen=True)
class BertVariant:
    """A model_type.

    architecture  what stands before ForMaskedLM
    fields        field names of the config by their meaning here
    names         names of the modules of a layer, by those here
    words         names of the head for words: map, norm, bias
    classes       names of the head for classes: map, classes
    before        rows of the table of places that come before place 0 (RoBERTa counts from its padding's id + 1)
    pooled        activation of the head's map for classes
    base          name of the model without a head, which stands before its tensors; model_type by default
    """

    name: str
    architecture: str
    fields: dict[str, str]
    names: dict[str, str]
    words: tuple[str, str, str]
    classes: tuple[str, str]
    before: int = 0
    pooled: Literal["tanh", "relu"] = "tanh"
    layer: str = "encoder.layer"
    inner: bool = False  # whether the head's map for classes stands inside the prefix
    ignored: tuple[str, ...] = field(default=())
    base: str = ""

    @property
    def prefix(self) -> str:
        return f"{self.base or self.name}."

    @property
    def copy(self) -> str:
        """The name under which the table may stand again."""
        return f"{self.words[2].removesuffix('.bias')}{'' if self.name == 'distilbert' else '.decoder'}.weight"


LONG = {
    "width": "hidden_size", "heads": "num_attention_heads", "layers": "num_hidden_layers", "inner": "intermediate_size",
    "activation": "hidden_act",
}  # fmt: skip
LAYER = {
    "q_proj": "attention.self.query", "k_proj": "attention.self.key", "v_proj": "attention.self.value",
    "o_proj": "attention.output.dense", "attention_norm": "attention.output.LayerNorm",
    "up_proj": "intermediate.dense", "down_proj": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}  # fmt: skip
POOLER = (r"(\w+\.)?pooler\..*", r"cls\.seq_relationship\..*", r"(\w+\.)?embeddings\.position_ids")
OF_BERT: dict[str, Any] = {
    "fields": LONG, "names": LAYER,
    "words": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    "classes": ("pooler.dense", "classifier"), "inner": True, "ignored": (*POOLER, r"cls\.predictions\.(decoder\.)?bias"),
}  # fmt: skip
OF_ROBERTA: dict[str, Any] = {
    "fields": LONG, "names": LAYER, "words": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "classes": ("classifier.dense", "classifier.out_proj"), "before": 2, "ignored": (*POOLER, r"lm_head\.(decoder\.)?bias"),
}  # fmt: skip
KINDS = (
    BertVariant("bert", "Bert", **OF_BERT),
    BertVariant("roberta", "Roberta", **OF_ROBERTA),
    BertVariant("distilbert", "DistilBert",
         {"width": "dim", "heads": "n_heads", "layers": "n_layers", "inner": "hidden_dim", "activation": "activation"},
         {"q_proj": "attention.q_lin", "k_proj": "attention.k_lin", "v_proj": "attention.v_lin", "o_proj": "attention.out_lin",
          "attention_norm": "sa_layer_norm", "up_proj": "ffn.lin1", "down_proj": "ffn.lin2",
          "feedforward_norm": "output_layer_norm"},
         ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"), ("pre_classifier", "classifier"),
         pooled="relu", layer="transformer.layer", ignored=POOLER),
    BertVariant("xlm-roberta", "XLMRoberta", **OF_ROBERTA, base="roberta"),
    BertVariant("camembert", "Camembert", **OF_ROBERTA, base="roberta"),
    BertVariant("data2vec-text", "Data2VecText", **OF_ROBERTA, base="data2vec_text"),
    BertVariant("ernie", "Ernie", **OF_BERT),
)  # fmt: skip
ENDINGS: dict[str, Ends] = {
    "ForMaskedLM": "words",
    "ForPreTraining": "words",
    "ForSequenceClassification": "classes",
    "Model": "rows",
}


def read(kind: BertVariant, config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields(kind.name, config)
    f.architecture(*(kind.architecture + ending for ending in ENDINGS))
    sizes = {ours: f.size(theirs) for ours, theirs in kind.fields.items() if ours != "activation"}
    f.require(kind.fields["activation"], "gelu", *ACTIVATIONS)
    activation = ACTIVATIONS[config.get(kind.fields["activation"], "gelu")]
    f.require("is_decoder", False)
    f.require("add_cross_attention", False)
    f.require("position_embedding_type", "absolute")
    f.require("sinusoidal_pos_embds", False)
    if kind.name == "ernie":
        f.require("use_task_id", False)
        f.ignore("task_type_vocab_size")
    f.ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "gradient_checkpointing", "dropout",
           "qa_dropout", "seq_classif_dropout", "use_bfloat16", "tie_weights_", "directionality",
           *(n for n in config if n.startswith("pooler_")))  # fmt: skip
    distil = kind.name == "distilbert"
    eps = 1e-12 if distil else f.get("layer_norm_eps", float, 1e-12)
    ends, vocabulary = _ends(kind, config), f.size("vocab_size", 30522)
    tied = f.get("tie_word_embeddings", bool, True)
    classes = labels(config)
    heads = {
        "words": OutputLayer(bias=True, hidden="gelu" if kind.before else activation, norm=True),
        "classes": OutputLayer(bias=True, hidden=kind.pooled), "rows": OutputLayer(),
    }  # fmt: skip
    places = f.size("max_position_embeddings", 512) - kind.before
    if places < 1:
        raise InputError(
            f"config.json: max_position_embeddings is {places + kind.before}, but the first {kind.before} rows are unused. "
            "Give more."
        )
    spec = Spec(
        sizes["width"], vocabulary, InputLayer(types=None if distil else f.size("type_vocab_size", 2), norm=True), sizes["layers"],
        Block(
            Attention(heads=sizes["heads"], position=Learned(places), bias=True), Norm(order="post", eps=eps),
            FeedForward(sizes["inner"], activation),
        ),
        readout="first" if ends == "classes" else "each",
        outputs={"words": vocabulary, "classes": classes, "rows": None}[ends], tied=tied and ends == "words", output=heads[ends],
    )  # fmt: skip
    if kind.before and (padding := f.config.get("pad_token_id", 1)) != kind.before - 1:
        raise InputError(f"config.json: pad_token_id is {padding}, but places are counted from {kind.before - 1} + 1 here.")
    return f.finish(spec)


def _ends(kind: BertVariant, config: dict[str, Any]) -> Ends:
    names = config.get("architectures") or [f"{kind.architecture}Model"]
    return ENDINGS[names[0].removeprefix(kind.architecture)]


def _ends_of(spec: Spec) -> Ends:
    return "rows" if spec.outputs is None else "words" if spec.readout == "each" else "classes"


def write(kind: BertVariant, spec: Spec) -> dict[str, Any]:
    """config.json of a spec."""
    a, n, f = spec.uniform_block.attention, spec.uniform_block.norm, spec.uniform_block.feedforward
    refuse(not isinstance(a.position, Learned), "places are a learned table there.")
    refuse(n is None or f is None or f.activation not in ACTIVATION_NAMES, "every layer has norms and a feed-forward there.")
    assert isinstance(a.position, Learned)
    assert n is not None
    assert f is not None
    ends = _ends_of(spec)
    ending = next(e for e, kinds in ENDINGS.items() if kinds == ends)
    values = {"width": spec.width, "heads": a.heads, "layers": spec.layers, "inner": f.inner or 4 * spec.width,
            "activation": ACTIVATION_NAMES[f.activation]}  # fmt: skip
    config = {theirs: values[ours] for ours, theirs in kind.fields.items()} | {
        "model_type": kind.name, "architectures": [kind.architecture + ending], "vocab_size": spec.vocabulary,
        "max_position_embeddings": a.position.length + kind.before, "pad_token_id": 1 if kind.before else 0,
        "tie_word_embeddings": spec.tied if ends == "words" else True,
    }  # fmt: skip
    if kind.name != "distilbert":
        config |= {"layer_norm_eps": n.eps, "type_vocab_size": spec.input.types}
    if ends == "classes":
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(spec.outputs or 0)}
    return config


def weight_maps(kind: BertVariant, spec: Spec) -> Iterable[WeightMap | WeightTransform]:
    """Their names and ours."""
    yield WeightMap("embeddings.word_embeddings.weight", ("embedding.weight",))
    before = kind.before
    yield WeightTransform(
        ("embeddings.position_embeddings.weight",), ("position.table.weight",), lambda t: [t[0][before:]], partial(_ahead, before)
    )
    if spec.input.types:
        yield WeightMap("embeddings.token_type_embeddings.weight", ("input_layer.types.weight",))
    yield from affine("embeddings.LayerNorm", "input_layer.norm")
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"{kind.layer}.{i}"
        for ours, theirs in kind.names.items():
            part = "" if ours.endswith("norm") else "feedforward." if ours in ("up_proj", "down_proj") else "attention."
            yield from affine(f"{there}.{theirs}", f"{here}.{part}{ours}")
    ends = _ends_of(spec)
    if ends == "words":
        mapped, norm, bias = kind.words
        yield from affine(mapped, "output_layer.dense", bare=True)
        yield from affine(norm, "output_layer.norm", bare=True)
        if spec.tied:
            yield WeightMap(bias, ("output_layer.lm_head.bias",), bare=True)
        else:
            yield from affine(kind.copy.removesuffix(".weight"), "output_layer.lm_head", bare=True)
    if ends == "classes":
        yield from affine(kind.classes[0], "output_layer.dense", bare=not kind.inner)
        yield from affine(kind.classes[1], "output_layer.lm_head", bare=True)


def _ahead(rows: int, parts: list[Tensor]) -> list[Tensor]:
    """The table with unused rows in front."""
    return [torch.cat([parts[0].new_zeros(rows, parts[0].shape[-1]), parts[0]])]


FAMILIES: tuple[Family, ...] = tuple(
    Family(
        kind.name, partial(read, kind), partial(write, kind), partial(weight_maps, kind), prefix=kind.prefix,
        table="embeddings.word_embeddings.weight", table_copies=(kind.copy,), ignored=kind.ignored,
        renamed=((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")), preserved=(r"pooler\..*",),
        derived_fields=("max_position_embeddings", *(("pad_token_id",) if kind.before else ())),
        duplicates={kind.copy.replace("weight", "bias"): kind.words[2]},
    )
    for kind in KINDS
)  # fmt: skip
