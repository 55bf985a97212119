"""Pairs that compute the same in other ways: none may raise an alarm."""

import copy

import torch
from torch import nn

from .cases import LEFT, LLAMA3, PORTS, RIGHT, InChunks, rope
from .forms import as_dump, as_onnx
from .originals import inputs_of, original

HEALTHY = {}


def pair(name, make):
    HEALTHY[name] = make


def ported(family, config=None, mask=None, form="torch", dtype=None, chunk=0, **port):
    def make():
        model = original(family, **(config or {}))
        other = PORTS[family](model, **port, **({"chunk": chunk} if chunk else {})).eval()
        if dtype is not None:
            model, other = model.to(dtype), other.to(dtype)
        if chunk:
            model = InChunks(model, chunk)
        inputs = inputs_of(family)
        other = as_onnx(other, inputs) if form == "onnx" else as_dump(other, inputs) if form == "npz" else other
        return model, other, inputs, {} if mask is None else {"attention_mask": mask}

    return make


def kernels(family):
    """Eager attention against scaled_dot_product_attention."""

    def make():
        one, two = original(family), original(family, attention="sdpa")
        return one, two, inputs_of(family), {}

    return make


class OtherOrder(nn.Module):
    """GPT-2 with its sums the other way round: feed-forward + residual, positions + words."""

    def __init__(self, model):
        super().__init__()
        self.t, self.head = copy.deepcopy(model.transformer), copy.deepcopy(model.lm_head)

    def forward(self, input_ids):
        size = input_ids.shape[1]
        x = self.t.wpe.weight[:size] + self.t.wte(input_ids)
        later = torch.full((size, size), torch.finfo(x.dtype).min).triu(1).to(x.dtype)[None, None]
        for block in self.t.h:
            x = block.attn(block.ln_1(x), attention_mask=later)[0] + x
            x = block.mlp(block.ln_2(x)) + x
        return self.head(self.t.ln_f(x))


class ScaledWeights(nn.Module):
    """A block whose query weights hold the softmax scale: exact, since the scale is a power of two."""

    def __init__(self, scaled):
        super().__init__()
        torch.manual_seed(3)
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.scaled = scaled
        if scaled:
            with torch.no_grad():
                self.q.weight.mul_(0.25), self.q.bias.mul_(0.25)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT * (1.0 if self.scaled else 0.25)
        return scores.softmax(-1) @ self.v(x)


def other_order():
    model = original("gpt2")
    return model, OtherOrder(model).eval(), inputs_of("gpt2"), {}


def scaled_weights():
    return ScaledWeights(False), ScaledWeights(True), (torch.randn(2, 6, 16),), {}


def copied(family):
    def make():
        model = original(family)
        return model, copy.deepcopy(model), inputs_of(family), {}

    return make


for family in ("llama", "mistral", "qwen2", "qwen3", "gemma2"):
    for style in ("fused", "pairs", "einsum"):
        pair(f"{family}-{style}", ported(family, style=style))
for family in ("gpt2", "neox", "bert", "t5", "vit"):
    pair(f"{family}-port", ported(family))
for family in ("llama", "qwen3", "gpt2", "bert", "vit", "mistral"):
    pair(f"{family}-sdpa", kernels(family))
for family in ("gpt2", "bert", "vit", "t5"):
    pair(f"{family}-onnx", ported(family, form="onnx"))
for family in ("gpt2", "bert", "llama"):
    pair(f"{family}-npz", ported(family, form="npz"))
pair("llama-llama3_scaling", ported("llama", config=LLAMA3))
pair("llama-linear_scaling", ported("llama", config=rope("linear", factor=4.0), style="pairs"))
pair("llama-rope_from_one", ported("llama", changed={"first_position": 1}))  # scores depend on differences of positions only
pair("llama-chunks", ported("llama", chunk=6))
pair("qwen3-chunks", ported("qwen3", chunk=5, style="einsum"))
pair("llama-padding", ported("llama", mask=RIGHT, style="einsum"))
pair("llama-left_padding", ported("llama", mask=LEFT, style="einsum", changed={"hidden": "lowest"}))
pair("bert-padding", ported("bert", mask=RIGHT))
pair("t5-left_padding", ported("t5", mask=LEFT))
pair("gpt2-left_padding", ported("gpt2", mask=LEFT))
pair("llama-bfloat16", ported("llama", dtype=torch.bfloat16))
pair("gemma2-bfloat16", ported("gemma2", dtype=torch.bfloat16, style="einsum"))
pair("bert-bfloat16", ported("bert", dtype=torch.bfloat16))
pair("gpt2-sums_in_other_order", other_order)
pair("attention-scale_in_the_weights", scaled_weights)
pair("gpt2-copy", copied("gpt2"))
