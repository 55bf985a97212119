"""Healthy causal language models of many kinds, at small sizes with random weights, which the guard has to pass.

`docs/guarded.py` writes the table of what the guard found of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from tests.models.zoo_guard import Base, Convolution, D, Recurrent, ScanOverTokens, V
from torch import nn

import equiscope as eq
from equiscope import positions
from equiscope.attention import AttentionKind, Blocks, Dilated


class MovingAverage(Base):
    """An exponential moving average."""

    def mix(self, x):
        state, rows = torch.zeros_like(x[:, 0]), []
        for row in x.unbind(1):
            state = 0.9 * state + 0.1 * row
            rows.append(state)
        return torch.stack(rows, 1)


class LongConvolution(Base):
    """A convolution as long as the text, by the fast Fourier transform: the future enters every number, as rounding."""

    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(D) + 0.01)

    def mix(self, x):
        n = x.shape[1]
        kernel = torch.exp(-self.decay * torch.arange(n, dtype=x.dtype)[:, None])
        product = torch.fft.rfft(x, 2 * n, dim=1) * torch.fft.rfft(kernel, 2 * n, dim=0)
        return torch.fft.irfft(product, 2 * n, dim=1)[:, :n]


class DilatedConvolutions(Base):
    """WaveNet: three convolutions with gaps of 1, 2 and 4 tokens."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(D, D, 2, dilation=gap) for gap in (1, 2, 4))

    def mix(self, x):
        y = x.mT
        for layer in self.layers:
            y = y + layer(F.pad(y, (layer.dilation[0], 0))).tanh()
        return y.mT


class RunningSoftmax(Base):
    """Attention in chunks of 32 keys, with a running maximum and sum."""

    def mix(self, x):
        q, k, v, n = self.q(x), self.k(x), self.v(x), x.shape[1]
        top, total = x.new_full((*x.shape[:2], 1), -1e30), x.new_zeros(*x.shape[:2], 1)
        mixed = torch.zeros_like(x)
        for start in range(0, n, 32):
            stop = min(start + 32, n)
            hidden = torch.arange(start, stop) > torch.arange(n)[:, None]
            s = (q @ k[:, start:stop].mT / D**0.5).masked_fill(hidden, -torch.inf)
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p, scale = torch.exp(s - new), torch.exp(top - new)
            total, mixed, top = scale * total + p.sum(-1, keepdim=True), scale * mixed + p @ v[:, start:stop], new
        return x + mixed / total


class ChunkedScan(Base):
    """A linear recurrence, in parallel within chunks of 16 tokens."""

    def mix(self, x):
        n, size, decay = x.shape[1], 16, 0.8
        i = torch.arange(size, dtype=x.dtype)
        within = (decay ** (i[:, None] - i).clamp(min=0)).tril()
        state, parts = x.new_zeros(x.shape[0], 1, D), []
        for start in range(0, n, size):
            part = x[:, start : start + size]
            m = part.shape[1]
            parts.append(within[:m, :m] @ part + decay ** (i[:m, None] + 1) * state)
            state = parts[-1][:, -1:]
        return torch.cat(parts, 1)


class GatedDelta(Base):
    """A fast weight memory with the delta rule, token by token."""

    def mix(self, x):
        q, k, v = self.q(x), F.normalize(self.k(x), dim=-1), self.v(x)
        memory, rows = x.new_zeros(x.shape[0], D, D), []
        for t in range(x.shape[1]):
            read = torch.einsum("bd,bde->be", k[:, t], memory)
            memory = 0.95 * memory + torch.einsum("bd,be->bde", k[:, t], 0.5 * (v[:, t] - read))
            rows.append(torch.einsum("bd,bde->be", q[:, t], memory))
        return x + torch.stack(rows, 1)


class PrefixStatistics(Base):
    """Normalises by the running mean and deviation of the tokens so far."""

    def mix(self, x):
        count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
        mean = x.cumsum(1) / count
        return (x - mean) / ((x.square().cumsum(1) / count - mean.square()).clamp(min=0) + 1e-3).sqrt()


class SortedExperts(Base):
    """A mixture of experts that gathers the tokens of each expert: the number of rows of a product depends on all tokens."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(D, 4), nn.ModuleList(nn.Linear(D, D) for _ in range(4))

    def mix(self, x):
        y = super().mix(x)
        rows, weights = y.flatten(0, 1), self.router(y).softmax(-1).flatten(0, 1)
        best, chosen = weights.topk(2, -1)
        out = torch.zeros_like(rows)
        for e, expert in enumerate(self.experts):
            token, slot = (chosen == e).nonzero(as_tuple=True)
            out.index_add_(0, token, expert(rows[token]) * best[token, slot, None])
        return y + out.view_as(y)


class Gru(Base):
    """torch.nn.GRU."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(D, D, 2, batch_first=True)

    def mix(self, x):
        return self.gru(x)[0]


class TorchEncoder(Base):
    """torch.nn.TransformerEncoder with a causal mask."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def mix(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        return self.encoder(x, mask=mask, is_causal=True)


def ours(**attention):
    """A small transformer of this package."""
    attention = eq.Attention(**{"heads": 2, "causal": True} | attention)
    torch.manual_seed(0)
    return eq.build(eq.Spec(width=16, vocabulary=V, layers=2, outputs=V, block=eq.Block(attention=attention))).eval()


def of_transformers(name):
    """A class of transformers at a small size."""
    from equiscope.audit.inputs.targets import target

    return target(f"transformers:{name}").model


POSITIONS = [
    positions.NoPosition(), positions.Sinusoidal(), positions.Learned(length=520), positions.Rope(), positions.Alibi(),
    positions.XPos(), positions.Pope(), positions.T5Bias(), positions.Kerple(), positions.Fire(), positions.Shaw(),
    positions.TransformerXL(), positions.Deberta(), positions.Cope(),
]  # fmt: skip


@dataclass(frozen=True)
class Healthy:
    """A causal model. group: how it mixes tokens; what: what sets it apart."""

    name: str
    group: str
    what: str
    make: Callable[[], nn.Module]


ATTENTION = {
    "GPT2LMHeadModel": "learned positions",
    "OpenAIGPTLMHeadModel": "norms after the residual sums",
    "GPTNeoForCausalLM": "full and windowed attention in turn",
    "GPTJForCausalLM": "RoPE on pairs of neighbours, parallel blocks",
    "CodeGenForCausalLM": "the same, with one fused projection",
    "GPTNeoXForCausalLM": "RoPE on part of the features",
    "GPTBigCodeForCausalLM": "one head of keys and values",
    "OPTForCausalLM": "learned positions, counted from the mask",
    "BloomForCausalLM": "ALiBi",
    "FalconForCausalLM": "one head of keys and values, parallel blocks",
    "LlamaForCausalLM": "RoPE, RMSNorm, gated feed-forward",
    "MistralForCausalLM": "sliding window",
    "Qwen2ForCausalLM": "biases of queries, keys and values",
    "Qwen3ForCausalLM": "norms of queries and keys",
    "Gemma2ForCausalLM": "soft caps; windows in turn",
    "Gemma3nForCausalLM": "AltUp, low-rank residuals, embeddings for each layer",
    "PersimmonForCausalLM": "LayerNorm of queries and keys, squared ReLU",
    "OlmoForCausalLM": "norms without parameters",
    "Olmo2ForCausalLM": "norms after attention and feed-forward",
    "CohereForCausalLM": "parallel blocks, scaled logits",
    "SmolLM3ForCausalLM": "layers without positions",
    "DiffLlamaForCausalLM": "differential attention",
    "DogeForCausalLM": "a mask that depends on the content",
    "MiniCPM3ForCausalLM": "latent attention",
    "HrmTextForCausalLM": "layers that repeat",
    "CTRLLMHeadModel": "sinusoidal positions",
    "XLMWithLMHeadModel": "an encoder with a causal mask",
    "BertLMHeadModel": "BERT as a decoder",
    "RoFormerForCausalLM": "BERT with RoPE",
    "GitForCausalLM": "the text part of an image captioner",
    "BartForCausalLM": "a decoder without encoder",
    "XGLMForCausalLM": "sinusoidal positions with an offset",
    "WhisperForCausalLM": "the decoder of a speech model",
}  # fmt: skip
EXPERTS = {
    "MixtralForCausalLM": "2 experts a token",
    "Qwen2MoeForCausalLM": "a shared expert beside them",
    "DbrxForCausalLM": "fused queries, keys and values",
    "OlmoeForCausalLM": "norms of queries and keys",
    "GptOssForCausalLM": "attention sinks, clamped experts with biases",
    "DeepseekV2ForCausalLM": "latent attention",
    "DeepseekV3ForCausalLM": "groups of experts, a bias of the router",
    "DeepseekV32ForCausalLM": "an indexer chooses the keys",
    "DeepseekV4ForCausalLM": "compressed keys, hyper-connections",
    "Llama4ForCausalLM": "attention within chunks",
    "LongcatFlashForCausalLM": "two attentions a layer, experts that do nothing",
    "PhimoeForCausalLM": "sparse mixing of two experts",
    "JetMoeForCausalLM": "a mixture of attention heads",
    "Ernie4_5_MoeForCausalLM": "the first layer is dense",
    "GraniteMoeForCausalLM": "scaled residuals",
    "FlexOlmoForCausalLM": "norms after attention and experts",
    "ZayaForCausalLM": "convolved queries and keys",
    "InklingForCausalLM": "short convolutions beside attention",
}  # fmt: skip
RECURRENT = {
    "MambaForCausalLM": "selective state spaces",
    "Mamba2ForCausalLM": "state spaces in chunks",
    "FalconMambaForCausalLM": "norms of the parameters of the state space",
    "RwkvForCausalLM": "RWKV",
    "xLSTMForCausalLM": "xLSTM",
    "RecurrentGemmaForCausalLM": "gated linear recurrence",
    "JambaForCausalLM": "Mamba, attention and experts",
    "BambaForCausalLM": "Mamba 2 and attention",
    "FalconH1ForCausalLM": "Mamba 2 and attention side by side",
    "ZambaForCausalLM": "Mamba, and attention with shared weights",
    "NemotronHForCausalLM": "one mixer a layer: Mamba 2, attention or experts",
    "Lfm2MoeForCausalLM": "short convolutions, attention and experts",
    "MiniMaxForCausalLM": "lightning attention and experts",
    "Qwen3NextForCausalLM": "gated delta rule, attention and experts",
    "KimiLinearForCausalLM": "delta rule with a gate a feature, latent attention, experts",
    "OlmoHybridForCausalLM": "gated delta rule and attention",
    "BailingHybridForCausalLM": "delta rule, latent attention and experts",
}  # fmt: skip
OURS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    **{f"position {p.name}": (f"the scheme {type(p).__name__}", lambda p=p: ours(position=p)) for p in POSITIONS},
    "differential": ("differential attention", lambda: ours(kind=AttentionKind("differential"))),
    "linear": ("linear attention", lambda: ours(kind=AttentionKind("linear"))),
    "sigmoid": ("sigmoid attention", lambda: ours(kind=AttentionKind("sigmoid"))),
    "sink": ("softmax with a sink", lambda: ours(kind=AttentionKind("sink"))),
    "window": ("a window of 5 tokens", lambda: ours(window=5)),
    "blocks": ("causal within blocks of 8", lambda: ours(mask=Blocks(8))),
    "dilated": ("every third token", lambda: ours(mask=Dilated(3))),
    "chunked": ("queries in chunks", lambda: ours(backend="chunked")),
}
PLAIN: dict[str, tuple[str, type[nn.Module]]] = {
    "Base": ("one layer of attention", Base),
    "LSTM": ("torch.nn.LSTM", Recurrent),
    "GRU": ("torch.nn.GRU, two layers", Gru),
    "TransformerEncoder": ("torch.nn.TransformerEncoder with a causal mask", TorchEncoder),
    "CumulativeMean": ("the mean of the tokens so far", ScanOverTokens),
    "MovingAverage": ("an exponential moving average, token by token", MovingAverage),
    "Convolution": ("a convolution, padded on the left", Convolution),
    "DilatedConvolutions": ("three dilated convolutions", DilatedConvolutions),
    "LongConvolution": ("a convolution by FFT, which rounds with the future", LongConvolution),
    "RunningSoftmax": ("softmax over chunks of keys", RunningSoftmax),
    "ChunkedScan": ("a recurrence in chunks", ChunkedScan),
    "GatedDelta": ("the delta rule, token by token", GatedDelta),
    "PrefixStatistics": ("statistics of the tokens so far", PrefixStatistics),
    "SortedExperts": ("experts on gathered tokens", SortedExperts),
}

OF_TRANSFORMERS = ("attention", "experts", "recurrent")


class Fails(NamedTuple):
    """A class that the guard does not pass. kind: of the failure; why: the reason in its code."""

    kind: str
    why: str


FAIL = {
    "ProphetNetForCausalLM": Fails(
        "future",
        "`get_predict_relative_pos_embeddings` takes rows in the order of positions, streams, heads for streams, heads, positions",
    ),
    "XLNetLMHeadModel": Fails("future", "it attends both ways, unless a call gives `perm_mask`"),
    "CpmAntForCausalLM": Fails("future", "its ids are a prompt, which it reads both ways"),
    "ReformerModelWithLMHead": Fails("random", "it draws random hashes in each call, unless the config has `hash_seed`"),
}
HEALTHY: list[Healthy] = [
    *(
        Healthy(name, group, what, lambda name=name: of_transformers(name))
        for group, names in zip(OF_TRANSFORMERS, (ATTENTION, EXPERTS, RECURRENT), strict=True)
        for name, what in names.items()
    ),
    *(Healthy(name, "equiscope", what, make) for name, (what, make) in OURS.items()),
    *(Healthy(name, "written out", what, make) for name, (what, make) in PLAIN.items()),
]
