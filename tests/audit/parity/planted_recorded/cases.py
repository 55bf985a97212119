"""Ports of which only recorded activations are given: what is planted, where it begins, and which causes are acceptable.

All were fixed before `equiscope.parity` ran on any of these pairs. No causes: nothing that A can compute gives the recorded
numbers, so none may be named.
"""

from functools import partial

import torch

from ..planted_again.cases import FAMILIES as AGAIN
from ..planted_again.cases import inputs_of as inputs_again
from ..planted_again.decoders import stir
from ..planted_by_others.cases import Case
from ..planted_third.cases import FAMILIES as THIRD
from ..planted_third.cases import inputs_of as inputs_third
from ..planted_third.start import trained
from .recording import as_file, blocks_of

EVERY = "every layer"
SQUARE = "resblocks.{}.attn.out_proj.weight"


def model_and_port(family, fault, at):
    """The model and its port in memory, and inputs. at: a layer, or every one."""
    torch.manual_seed(31)
    third = family in THIRD
    original, port = (THIRD if third else AGAIN)[family]
    a = (trained if third else stir)(original())
    inputs = (inputs_third if third else inputs_again)(family)
    change, _, path = fault.partition(" of ")
    if change in MUTATIONS:
        b = port(a, "", -1)
        with torch.no_grad():
            MUTATIONS[change](b, path)
        return a, b.eval(), inputs
    b = port(a, fault, -1 if at == EVERY else at)
    if at == EVERY:
        names = blocks_of(b)
        for i, name in enumerate(names):
            b.set_submodule(name, port(a, fault, i).get_submodule(name))
    return a, b.train(fault == "mode"), inputs


def transpose(b, path):
    b.get_parameter(path).copy_(b.get_parameter(path).T.clone())


def zero(b, path):
    b.get_parameter(path).zero_()


def copy(b, paths):
    to, source = paths.split(" from ")
    t = b.get_parameter(source)
    b.get_parameter(to).copy_(t if t.shape == b.get_parameter(to).shape else t.T)


def draw(b, path):
    b.get_parameter(path).normal_(0, 0.3)


MUTATIONS = {"transposed": transpose, "zero": zero, "copy": copy, "drawn": draw}


def pair(family, fault="", keep="modules", dtype="float32", at=-1):
    """The model, a file of what its port computes, arguments and keyword arguments."""
    a, b, inputs = model_and_port(family, fault, at)
    return a, as_file(b, inputs, keep, dtype), inputs, {}


# family, fault, acceptable causes, module of the first differing step in A, what is kept, its precision, the layer (else the last)
ROWS = [
    ("gemma", "rope base", "rope base", r"rotary_emb|layers\.1\.self_attn", "blocks", "float32", 1),
    ("gemma", "rope base", "rope base", r"rotary_emb|layers\.0\.self_attn", "blocks", "float32", EVERY),
    ("gemma", "rope layout", "rope layout", r"rotary_emb|layers\.2\.self_attn", "blocks", "float64"),
    ("window", "rope scaling", "rope scaling", r"blocks\.1\.attention", "modules", "float16"),
    ("modernbert", "rope layout", "rope layout", r"layers\.2\.attn", "blocks, no output", "float32"),
    ("modernbert", "rope base", "rope base", r"layers\.2\.attn", "modules, no output", "float32"),
    ("window", "rope direction", "rope direction", r"blocks\.1\.attention", "blocks", "float32"),
    ("window", "window", "window", r"blocks\.1\.attention", "blocks", "float32"),
    ("modernbert", "window", "window", r"layers\.2\.attn", "modules", "float32"),
    ("gemma", "head order", "head order", r"layers\.1\.self_attn", "blocks", "float32", 1),
    ("window", "head order", "head order", r"blocks\.0\.attention", "blocks", "float32", EVERY),
    ("gemma", "softmax scale", "softmax scale", r"layers\.2\.self_attn", "blocks", "float16"),
    ("clip", "softmax scale", "softmax scale|scale", r"layers\.0\.self_attn(\.q_proj)?", "blocks, no output", "float32", EVERY),
    ("gemma", "norm weight", "norm weight", r"layers\.2\.input_layernorm", "later modules", "float32"),
    ("nano", "norm kind", "norm kind", r"h\.2\.ln_2", "blocks", "float32"),
    ("nano", "embedding scale", "embedding scale", r"(wte)?", "blocks", "float32"),
    ("nano", "residual", "residual|exchanged", r"h\.2", "blocks", "float32"),
    ("bert", "bias", "bias", r"layers\.1\.attention_dense", "blocks", "float32"),
    ("bert", "epsilon", "epsilon", r"layers\.1\.attention_norm", "blocks", "float64"),
    ("bert", "epsilon", "epsilon", r"layers\.0\.attention_norm", "modules", "float64", EVERY),
    # mended: the two forms of gelu differ by 1e-4, which float16 does not hold
    ("bert", "activation", "activation", r"layers\.1\.act", "blocks", "float32"),
    ("modernbert", "activation", "activation", r"layers\.0\.mlp(\.act)?", "blocks", "float32", EVERY),
    ("bert", "padding side", "padding side", r"|layers\.0\.attention", "later modules", "float32"),
    ("bert", "position offset", "position offset", r"embeddings(\.position_embeddings)?", "blocks", "float32"),
    ("bert", "mode", "mode", r"embeddings(\.LayerNorm)?|layers\.0\.attention", "modules", "float32"),
    ("clip", "causal", "causal|mask", r"layers\.1\.self_attn", "blocks", "float32"),
    ("clip", "head width", "head width", r"layers\.1\.self_attn", "blocks, no output", "float32"),
    ("clip", f"transposed of {SQUARE.format(1)}", "transposed", r"layers\.1\.self_attn\.out_proj", "blocks", "float32"),
    ("clip", f"transposed of {SQUARE.format(0)}", "transposed", r"layers\.0\.self_attn\.out_proj", "modules", "float16"),
    ("clip", "zero of resblocks.0.c_fc.bias", "bias", r"layers\.0\.fc1", "blocks", "float32"),
    ("gemma", "norm placement", "norm placement|exchanged", r"layers\.2(\.post_attention_layernorm)?", "blocks", "float32"),
    ("gemma", "soft-cap", "soft-cap", r"layers\.2\.self_attn", "blocks", "float32"),
    ("gemma", "output cap", "output cap", r"", "modules", "float32"),
    ("window", "copy of logits.w from table", "tied head|weights", r"head", "blocks", "float32"),
    # mended: without a cause the first step is the next one behind the last recorded tensor that agrees
    ("gemma", "tied head", "", r"norm|lm_head", "blocks", "float32"),
    ("clip", "drawn of resblocks.1.c_proj.weight", "", r"layers\.1(\.\w+)?", "blocks", "float32"),
    ("alibi", "no position bias", "position bias", r"second", "modules", "float32"),
    ("diffusion", "epsilon", "epsilon", r"blocks\.1\.norm2", "modules", "float64"),
    ("experts", "activation", "activation", r"layers\.1\.experts\.\d", "blocks", "float32"),
]  # fmt: skip


def planted(family, fault, kinds, a, keep, dtype, at=-1):
    what = fault.replace(" ", "_") + ("-every" if at == EVERY else "")
    name = f"{family}-{what}-{keep.replace(', ', '_').replace(' ', '_')}-{dtype}"
    make = partial(pair, family, fault, keep, dtype, at)
    return Case(name, fault, frozenset(filter(None, kinds.split("|"))), family, dtype, a, r"", make)


CASES = [planted(*row) for row in ROWS]
HEALTHY = {
    f"healthy-{family}-{keep.replace(', ', '_').replace(' ', '_')}-{dtype}": partial(pair, family, "", keep, dtype)
    for family, keep, dtype in (
        ("gemma", "blocks", "float32"), ("gemma", "modules", "float16"), ("gemma", "modules", "bfloat16"),
        ("bert", "modules", "bfloat16"), ("bert", "blocks, no output", "float64"), ("bert", "later modules", "float32"),
        ("clip", "modules, no output", "float32"), ("clip", "blocks", "float16"), ("modernbert", "modules", "float64"),
        ("modernbert", "modules, no output", "float16"), ("window", "modules", "float32"), ("window", "blocks", "half"),
        ("nano", "later modules, no output", "float32"), ("nano", "modules", "float64"), ("llama", "modules, no output", "float32"),
        ("whisper", "blocks, no output", "float32"), ("t5", "modules, no output", "float64"), ("clip", "modules", "half"),
        ("vit", "later modules", "half"), ("experts", "modules", "float32"), ("diffusion", "modules, no output", "float32"),
    )
}  # fmt: skip
