"""Modules that a watcher may meet: hand-written ones, each with one difficulty, and tiny ones of libraries at random weights."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

DOUBLE = torch.float64


class Hand(nn.Module):
    """Attention as a person writes it."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:-1], self.heads, -1).transpose(-3, -2)

    def forward(self, x):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        return self.o_proj((weights @ v).transpose(-3, -2).flatten(-2))


def rotate(x, angles):
    a, b = x.chunk(2, -1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)


class Rotary(Hand):
    def forward(self, x):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.1], dtype=x.dtype)
        mixed = F.scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v, is_causal=True)
        return self.o_proj(mixed.transpose(-3, -2).flatten(-2))


class Linear(nn.Module):
    """One linear map, and what `then` makes of its output and the input."""

    def __init__(self, then: Callable[..., Any] = lambda y, x: y + x):
        super().__init__()
        self.l, self.then = nn.Linear(8, 8), then

    def forward(self, x):
        return self.then(self.l(x), x)


class InPlace(nn.Module):
    """Writes through views, aliases, `out=`, an index and a buffer."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(1, dtype=DOUBLE))

    def forward(self, x):
        y = self.l(x)
        first = y[..., :4]
        y += x
        y = y * 2
        z = y.clone()
        half = z[..., 4:]
        z.masked_fill_(z > 1, 0.5)
        half.mul_(3)
        z[..., 0] = first[..., 1]
        w = torch.zeros_like(z)
        w.index_put_((torch.tensor([0, 1]),), z[0], accumulate=False)
        out = torch.empty_like(z)
        torch.add(z, w, out=out)
        flat = out.view(-1)
        flat[::2].neg_()
        self.count += 1
        return F.relu(out, inplace=True) + half.sum() + first.sum() * self.count


class Fourier(nn.Module):
    """Tokens mixed by a Fourier transform, as FNet does, and pairs rotated by positions, as in Llama's own code."""

    def __init__(self) -> None:
        super().__init__()
        self.o_proj = nn.Linear(8, 8)

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[-2]), torch.tensor([1.0, 0.1, 0.01, 0.001]))
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
        return self.o_proj(turned) + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class Complex(nn.Module):
    """Rotates pairs as complex numbers, written through a view of another dtype."""

    def forward(self, x):
        made = torch.empty_like(x)
        torch.mul(torch.view_as_complex(x.unflatten(-1, (-1, 2))), 1j, out=torch.view_as_complex(made.unflatten(-1, (-1, 2))))
        return made + x


class Parts(nn.Module):
    """Two inputs that share memory, one of them written."""

    def forward(self, x):
        first, second = x[:1], x[1:]
        made = first.clone()
        rows = torch.cat([made, second])
        top, bottom = rows[:1], rows[1:]
        top.mul_(2)
        return bottom + top


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)

    def forward(self, x):
        y = self.l(x)
        if y.max() > 1e3:
            return y * 0
        return y * y.max().item()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.m = self.l

    def forward(self, x):
        return self.m(torch.relu(self.l(x)))


class Around(nn.Module):
    """Calls attention in a way: `how(attention, x)`."""

    def __init__(self, how: Callable[..., Any]):
        super().__init__()
        self.h, self.how = Hand(), how

    def forward(self, x):
        return self.how(self.h, x)


def checkpointed(reentrant):
    from torch.utils.checkpoint import checkpoint

    return lambda h, x: checkpoint(h, x, use_reentrant=reentrant)


def forces(h, x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        energy = h(x).square().sum()
        return energy, -torch.autograd.grad(energy, x)[0]


def modes(h, x):
    with torch.device("cpu"):
        y = h(x) + torch.ones(16, dtype=x.dtype)
    with torch.autocast("cpu", enabled=False):
        y = h(y)
    with torch.inference_mode(False):
        return y


def inference(h, x):
    with torch.inference_mode():
        y = h(x)
        y += 1
        y[..., 0] = 0
        return y


def flex(h, x):
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = h.split(h.q_proj(x)), h.split(h.k_proj(x)), h.split(h.v_proj(x))
    return flex_attention(q, k, v, score_mod=lambda score, b, head, i, j: score - (i - j).abs())


def doubled(h, x):
    return torch.func.functional_call(h, {name: p * 2 for name, p in h.named_parameters()}, (x,))


def threaded(y, x):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.exp, y).result() + 1


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


@dataclasses.dataclass
class Tokens:
    x: torch.Tensor
    positions: torch.Tensor


@dataclasses.dataclass
class Answer:
    y: torch.Tensor
    extra: dict


class Objects(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)

    def forward(self, tokens, *, scale):
        return Answer(self.l(tokens.x) * scale, {"at": [tokens.positions + 1]})


class Properties(nn.Module):
    def forward(self, x):
        made = (x.T.mT.real @ x.mT.T.data.T) + x.shape[0] + x.ndim + x.t().T.H.H.sum()
        return made + (1 - x).sum() + (2 / x).abs().sum() + len(x)


class Odd(nn.Module):
    def forward(self, x):
        made = (
            torch.linalg.svdvals(x) + torch.fft.rfft(x).abs().sum() + torch.cdist(x, x).sum() + F.pairwise_distance(x, x + 1).sum()
        )
        made = made + torch.logsumexp(x, -1).sum() + F.hardswish(x).sum() + torch.einsum("ij,kj->ik", x, x).sum()
        return made + torch.special.erfc(x).sum() + F.cosine_similarity(x, x + 1).sum() + F.normalize(x).sum()


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.b, self.l = nn.BatchNorm1d(8), nn.Linear(8, 8)

    def forward(self, x):
        return self.l(self.b(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        return self.g(x)


class Vectors(nn.Module):
    """An equivariant layer: vectors weighed by a function of their distances alone."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(1, 8), nn.Linear(8, 1)

    def forward(self, positions):
        apart = positions[..., :, None, :] - positions[..., None, :, :]
        distance = (apart.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        weights = torch.softmax(self.down(F.silu(self.up(distance))), -2)
        return positions + (weights * apart).sum(-2)


def points():
    """Features and positions through layers of e3nn, whose code is made as it runs."""
    pytest.importorskip("e3nn")
    from e3nn import o3

    class Points(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = o3.Linear("2x0e+1x1o", "4x0e+2x1o")
            self.product = o3.FullyConnectedTensorProduct("4x0e+2x1o", "1x0e+1x1o", "2x0e+1x1o")

        def forward(self, x, positions):
            return self.product(self.mix(x), o3.spherical_harmonics("1x0e+1x1o", positions, normalize=True))

    return Points()


def scripted():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(8, 8)

        def forward(self, x):
            return torch.softmax(self.l(x), -1)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.m = nn.Linear(8, 8), torch.jit.script(Inner().double())

        def forward(self, x):
            return self.m(self.a(x)) + 1

    return Outer()


def encoder_layer(train=False, norm_first=False):
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first).train(train)


def transformer(kind: str, **more: Any) -> nn.Module:
    """A tiny model of transformers with random weights."""
    hf = pytest.importorskip("transformers")
    small = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24}
    match kind:
        case "gpt2":
            return hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=32, **more))
        case "llama":
            sizes = small | {"num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
            return hf.LlamaForCausalLM(hf.LlamaConfig(num_key_value_heads=2, vocab_size=50, **sizes))
        case "bert":
            return hf.BertModel(hf.BertConfig(vocab_size=50, **small))
        case "vit":
            return hf.ViTModel(hf.ViTConfig(image_size=16, patch_size=4, **small))
        case "t5":
            sizes = {"num_layers": 2, "d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 24}
            return hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=50, decoder_start_token_id=0, **sizes))
    raise AssertionError(kind)


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = transformer("llama")

    def forward(self, a, b):
        first = self.m(a, use_cache=True)
        return self.m(b, past_key_values=first.past_key_values, use_cache=True)


def timm_vit():
    from tests.pictures_of_timm import timm

    return timm().create_model("vit_tiny_patch16_224", img_size=32, embed_dim=24, depth=2, num_heads=2, num_classes=5)


@dataclasses.dataclass(frozen=True)
class Case:
    """A module, its arguments, and what is known of it.

    train   it runs as in training
    again   what a second input meets: nothing, an exit ("watch"), tensors that the capture did not see ("unknown")
    """

    make: Callable[[], nn.Module]
    args: Callable[[], tuple[Any, ...]] = lambda: ()
    kwargs: Callable[[], dict[str, Any]] = dict
    train: bool = False
    again: str = ""


def wide():
    return (torch.randn(2, 5, 16, dtype=DOUBLE),)


def small():
    return (torch.randn(2, 8, dtype=DOUBLE),)


def square():
    return (torch.randn(4, 4, dtype=DOUBLE),)


def thrice():
    (x,) = wide()
    return x, x, x


def ids(length=7):
    return torch.randint(1, 50, (2, length))


def padded(*lengths):
    return torch.tensor([[0] * (7 - n) + [1] * n for n in lengths])


ZOO = {
    "hand-written attention": Case(Hand, wide),
    "rotary attention": Case(Rotary, wide),
    "encoder layer": Case(encoder_layer, wide),
    "encoder layer in training": Case(lambda: encoder_layer(True), wide, train=True),
    "encoder layer, norm first": Case(lambda: encoder_layer(norm_first=True), wide),
    "encoder with padding": Case(
        lambda: nn.TransformerEncoder(encoder_layer(), 2, enable_nested_tensor=False), wide,
        lambda: {"src_key_padding_mask": torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()},
    ),
    "multi-head attention": Case(lambda: nn.MultiheadAttention(16, 4, batch_first=True), thrice),
    "multi-head attention, no weights": Case(
        lambda: nn.MultiheadAttention(16, 4, batch_first=True), thrice, lambda: {"need_weights": False}
    ),
    "transformer": Case(lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True), lambda: wide() + wide()),
    "GPT-2": Case(lambda: transformer("gpt2"), kwargs=lambda: {"input_ids": ids()}),
    "GPT-2, eager": Case(lambda: transformer("gpt2", attn_implementation="eager"), kwargs=lambda: {"input_ids": ids()}),
    "Llama": Case(lambda: transformer("llama"), kwargs=lambda: {"input_ids": ids()}),
    "Llama, padded": Case(lambda: transformer("llama"), kwargs=lambda: {"input_ids": ids(), "attention_mask": padded(5, 7)}),
    "Llama with a cache": Case(Cached, lambda: (ids(5), ids(1))),
    "BERT": Case(lambda: transformer("bert"), kwargs=lambda: {"input_ids": ids(), "attention_mask": padded(4, 7)}),
    "ViT": Case(lambda: transformer("vit"), lambda: (torch.randn(2, 3, 16, 16, dtype=DOUBLE),)),
    "T5": Case(lambda: transformer("t5"), kwargs=lambda: {"input_ids": ids(), "decoder_input_ids": ids(4)}),
    "timm ViT": Case(timm_vit, lambda: (torch.randn(1, 3, 32, 32, dtype=DOUBLE),)),
    "equivariant vectors": Case(Vectors, lambda: (torch.randn(2, 5, 3, dtype=DOUBLE),)),
    "e3nn": Case(points, lambda: (torch.randn(5, 5, dtype=DOUBLE), torch.randn(5, 3, dtype=DOUBLE))),
    "vmap": Case(lambda: Around(lambda h, x: torch.vmap(h)(x)), wide),
    "functional_call": Case(lambda: Around(doubled), wide),
    "writes in place": Case(InPlace, small),
    "writes through complex views": Case(Complex, small),
    "Fourier mixing": Case(Fourier, small),
    "parts of one memory": Case(Parts, small),
    "branch": Case(Branch, small, again="watch"),
    "one module twice": Case(Shared, small),
    "compiled": Case(lambda: Around(lambda h, x: torch.compile(h, backend="eager")(x) + 1), wide),
    "checkpoint": Case(lambda: Around(checkpointed(False)), wide),
    "checkpoint, reentrant": Case(lambda: Around(checkpointed(True)), wide),
    "forces": Case(lambda: Around(forces), wide),
    "gradient of torch.func": Case(lambda: Around(lambda h, x: torch.func.grad(lambda y: h(y).square().sum())(x)), wide),
    "casts": Case(lambda: Linear(lambda y, x: y.float().to(DOUBLE).type_as(x) + x.to(x.device)), small),
    "properties": Case(Properties, square),
    "objects": Case(
        Objects, lambda: (Tokens(*small(), torch.arange(8.0, dtype=DOUBLE)),), lambda: {"scale": torch.tensor(2.0, dtype=DOUBLE)}
    ),
    "NumPy": Case(lambda: Linear(lambda y, x: torch.from_numpy(y.detach().numpy() * 2) + y), small, again="unknown, watch"),
    "odd functions": Case(Odd, square),
    "autograd function": Case(lambda: Linear(lambda y, x: Square.apply(y).sum(-1)), small),
    "scripted": Case(scripted, small),
    "thread": Case(lambda: Linear(threaded), small, again="unknown"),
    "flexible attention": Case(lambda: Around(flex), wide),
    "modes": Case(lambda: Around(modes), wide),
    "inference mode": Case(lambda: Around(inference), wide),
    "batch norm in training": Case(Normed, small, train=True),
    "recurrent": Case(Recurrent, lambda: (torch.randn(2, 3, 8, dtype=DOUBLE),)),
}  # fmt: skip


def built(case: Case) -> nn.Module:
    """The module in float64, as in use unless it trains."""
    torch.manual_seed(1)
    model = case.make().double()
    return model.train(case.train)


def another(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """Other numbers for every tensor: ids stay ids, flags stay, and what was one tensor stays one."""
    seen = {} if seen is None else seen
    if id(value) not in seen:
        seen[id(value)] = _another(value, seen)
    return seen[id(value)]


def _another(value: Any, seen: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            return value + 0.37 * torch.randn_like(value)
        flags = value.dtype == torch.bool or set(value.unique().tolist()) <= {0, 1}
        return value if flags else torch.randint_like(value, 1, 50)
    if isinstance(value, (list, tuple)):
        return type(value)(another(x, seen) for x in value)
    if isinstance(value, dict):
        return {key: another(x, seen) for key, x in value.items()}
    if dataclasses.is_dataclass(value):
        return type(value)(*(another(getattr(value, f.name), seen) for f in dataclasses.fields(value)))
    return value
