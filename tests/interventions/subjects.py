"""Models and changes that interventions are tested on: `docs/interventions.py` makes its table of the same ones."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import equiscope as eq
from equiscope.interventions import Change, Experiment, Move, embeddings, head, module, move, neuron, stream
from tests.judges import transformers
from tests.pictures_of_timm import timm

IDS = torch.tensor([[3, 14, 15, 9, 26, 5, 35, 8]])
RAMP = torch.linspace(-1, 1, 32)
OTHER = torch.tensor([[27, 1, 8, 2, 8, 1, 8, 28]])


def _randomized(model: nn.Module) -> nn.Module:
    """Every parameter drawn again, so that no effect is hidden by a small initial value."""
    draw = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        size = 0.5 if parameter.ndim < 2 else parameter.shape[-1] ** -0.5
        parameter.data.copy_(torch.randn(parameter.shape, generator=draw) * size)
    return model.eval()


def gpt2() -> tuple[nn.Module, Any, Any]:
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=40, n_positions=16)
    return _randomized(transformers.GPT2LMHeadModel(config)), IDS, OTHER


def llama() -> tuple[nn.Module, Any, Any]:
    config = transformers.LlamaConfig(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32, intermediate_size=48, vocab_size=40
    )
    return _randomized(transformers.LlamaForCausalLM(config)), {"input_ids": IDS}, {"input_ids": OTHER}


def llama_padded() -> tuple[nn.Module, Any, Any]:
    model, _, _ = llama()
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1], [1] * 8])
    ids = {"input_ids": IDS.repeat(2, 1), "attention_mask": mask}
    return model, ids, {"input_ids": OTHER.repeat(2, 1), "attention_mask": mask}


def t5() -> tuple[nn.Module, Any, Any]:
    config = transformers.T5Config(num_layers=2, num_heads=4, d_model=32, d_kv=8, d_ff=48, vocab_size=40)
    model = _randomized(transformers.T5ForConditionalGeneration(config))
    return model, {"input_ids": IDS, "decoder_input_ids": OTHER}, {"input_ids": OTHER, "decoder_input_ids": IDS}


def vit() -> tuple[nn.Module, Any, Any]:
    config = transformers.ViTConfig(
        num_hidden_layers=2, num_attention_heads=4, hidden_size=32, intermediate_size=48, image_size=16, patch_size=4
    )
    return _randomized(transformers.ViTForImageClassification(config)), *_pictures()


def encoder() -> tuple[nn.Module, Any, Any]:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, batch_first=True), 2)
    draw = torch.Generator().manual_seed(3)
    return _randomized(model), *(torch.randn(1, 8, 32, generator=draw) for _ in range(2))


def timm_vit() -> tuple[nn.Module, Any, Any]:
    make = timm().models.vision_transformer.VisionTransformer
    model = make(img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=4, num_classes=7)
    return _randomized(model), *_pictures()


def own_rope() -> tuple[nn.Module, Any, Any]:
    return _own(eq.Attention(4, kv_heads=2, position=eq.positions.Rope(), causal=True))


def own_bias() -> tuple[nn.Module, Any, Any]:
    return _own(eq.Attention(4, position=eq.positions.T5Bias(), causal=True))


def _own(attention: Any) -> tuple[nn.Module, Any, Any]:
    spec = eq.Spec(width=32, vocabulary=40, layers=2, block=eq.Block(attention), outputs=40)
    return _randomized(eq.build(spec)), IDS, OTHER


def _pictures() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    return torch.randn(1, 3, 16, 16, generator=draw), torch.randn(1, 3, 16, 16, generator=draw)


SUBJECTS: dict[str, Callable[[], tuple[nn.Module, Any, Any]]] = {
    "GPT-2": gpt2, "Llama, grouped queries": llama, "Llama, padded batch": llama_padded, "T5": t5, "ViT": vit,
    "nn.TransformerEncoder": encoder, "a timm ViT": timm_vit, "ours, RoPE, grouped queries": own_rope,
    "ours, T5's bias": own_bias,
}  # fmt: skip
KINDS: dict[str, Callable[[Experiment, Any], Change | Move | list[Change | Move]]] = {
    "set a head's output": lambda _, other: head(1, 2).set(0.5),
    "zero a head": lambda _, other: head(0, 3).zero(),
    "scale queries": lambda _, other: head(1, 1).q.scale(1.5),
    "set a number of a query": lambda t, other: head(1, 1).q.on(_row(t), entry=3).set(1.5),
    "zero a key head": lambda _, other: head(1, 1).k.zero(),
    "patch a value head": lambda _, other: head(0, 1).v.patch(other),
    "patch a head's output": lambda _, other: head(1, 0).patch(other),
    "mean-ablate a head": lambda _, other: head(1, 2).mean(),
    "swap two heads": lambda _, other: head(0, 1).swap(3),
    "scale scores": lambda _, other: head(1, 3).scores.scale(0.5),
    "zero weights": lambda t, other: head(1, 3).weights.on(_row(t)).zero(),
    "set a weight": lambda t, other: head(1, 3).weights.on(_row(t), entry=2).set(0.75),
    "patch weights": lambda _, other: head(1, 0).weights.patch(other),
    "freeze weights": lambda _, other: [embeddings().scale(1.5), head(1, 0).weights.freeze()],
    "remove an edge": lambda t, other: head(1, 2).cut(_row(t), 3),
    "remove an edge in all heads": lambda _, other: head(0).cut(4, [2, 3]),
    "change the mask": lambda t, other: head(0, 1).mask(_window(t)),
    "move a token": lambda _, other: move(2, 5),
    "zero neurons": lambda _, other: neuron(1, 7).zero(),
    "patch the stream": lambda _, other: stream(1).on(3).patch(other),
    "set the last stream": lambda t, other: stream(len(t.layers)).on(_row(t)).set(RAMP),
    "scale embeddings": lambda _, other: embeddings().on(2).scale(0.5),
    "set a module's output": lambda t, other: module(t.layers[1].block).on(_row(t)).set(RAMP),
    "several": lambda _, other: [head(0, 1).zero(), stream(1).on(3).patch(other), head(1, 1).cut(6, 2)],
}


def _window(experiment: Experiment) -> Tensor:
    """Pairs at most two tokens apart: no pair that a causal mask hides."""
    one = experiment.layers[0].attention
    i, j = torch.arange(one.rows)[:, None], torch.arange(one.columns)
    return (i - j >= 0) & (i - j <= 2)


def _row(experiment: Experiment) -> int:
    """A token whose value reaches the output: the class token of a picture, else one that others follow."""
    return 0 if experiment.layers[0].attention.rows > 8 else 5


def double(model: nn.Module, *some: Any) -> tuple[Any, ...]:
    """The model and inputs of floats in float64."""

    def wide(x: Any) -> Any:
        if isinstance(x, dict):
            return {name: wide(t) for name, t in x.items()}
        return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x

    return model.double(), *map(wide, some)
