"""Writes docs/why/same.md: healthy models in two forms each, which `equiscope.parity` must not call different.

    python docs/same.py             all models, and the page (about five minutes of one core)
    python docs/same.py GPT2 ViT    some of them, printed

Forms: eager attention against SDPA; the module against its export, against its ONNX graph in onnxruntime, and against
equiscope's own model with the same weights. `parity` compares each pair in float64 and float32; a form that does not run in
float64, in float32 alone. `parity` looks at the module inside a compiled one; `equiscope check --property engines` compares what
the compiler made of it.
"""

import copy
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import equiscope as eq

PAGE = Path(__file__).parent / "why" / "same.md"
FORMS = ("SDPA", "export", "ONNX", "equiscope")
TRANSFORMERS = (
    "GPT2LMHeadModel", "GPTNeoForCausalLM", "GPTJForCausalLM", "GPTNeoXForCausalLM", "LlamaForCausalLM", "MistralForCausalLM",
    "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM", "Gemma2ForCausalLM", "PhiForCausalLM", "Phi3ForCausalLM",
    "FalconForCausalLM", "OPTForCausalLM", "BloomForCausalLM", "StableLmForCausalLM", "Starcoder2ForCausalLM", "OlmoForCausalLM",
    "Olmo2ForCausalLM", "CohereForCausalLM", "GraniteForCausalLM", "BertModel", "RobertaModel", "DistilBertModel", "AlbertModel",
    "ElectraModel", "MPNetModel", "T5EncoderModel", "ViTModel", "DeiTModel", "SwinModel", "Dinov2Model",
)  # fmt: skip
Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


class First(nn.Module):
    """The first output of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Tensor) -> Tensor:
        found: Tensor = self.model(*args)[0]
        return found


def of_transformers(name: str) -> Callable[[], Made]:
    """A tiny model of a class of transformers at random weights."""

    def make() -> Made:
        from equiscope.audit.inputs.targets import target

        found = target(f"transformers:{name}", seed=0)
        found.model.config._attn_implementation = "eager"
        args = tuple(found.args) or tuple(t for t in found.kwargs.values() if isinstance(t, Tensor))[:1]
        return found.model, args, {}

    return make


def of_torch() -> Made:
    """torch's own encoder."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), (torch.randn(2, 7, 16),), {}


def of_ours(position: str, **more: Any) -> Callable[[], Made]:
    """A model that equiscope builds."""

    def make() -> Made:
        torch.manual_seed(0)
        attention = eq.Attention(heads=4, position=position, causal=True, **more)
        model = eq.build(eq.Spec(width=32, vocabulary=40, layers=2, block=eq.Block(attention=attention)))
        return model.eval(), (torch.randint(40, (2, 9)),), {}

    return make


def trained(name: str) -> Callable[[], Made]:
    """A trained model that comes along."""

    def make() -> Made:
        images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
        words = torch.tensor([list(b"The king is dead, long live")])
        return eq.load(name).eval(), (words if name == "characters" else images,), {}

    return make


MODELS: dict[str, Callable[[], Made]] = {
    **{name: of_transformers(name) for name in TRANSFORMERS},
    "nn.TransformerEncoder": of_torch,
    "ours, RoPE": of_ours("rope"),
    "ours, ALiBi": of_ours("alibi"),
    "ours, learned positions, grouped": of_ours("learned", kv_heads=2),
    "ours, T5's bias": of_ours("t5"),
    "trained characters": trained("characters"),
    "trained clothes": trained("clothes"),
}


def other_form(form: str, made: Made, folder: Path) -> Any:
    """The same model in another form; None where there is none."""
    model, args, _ = made
    if form == "SDPA":
        if not hasattr(model, "config") or not getattr(model, "_supports_sdpa", False):
            return None
        other = copy.deepcopy(model)
        other.config._attn_implementation = "sdpa"
        return other
    if form == "export":
        return torch.export.export(First(model) if hasattr(model, "config") else model, args).module()
    if form == "ONNX":
        torch.onnx.export(
            First(model) if hasattr(model, "config") else model, args, str(folder / "a.onnx"), dynamo=True, verbose=False
        )
        return str(folder / "a.onnx")
    if not hasattr(model, "save_pretrained") or args[0].is_floating_point():  # our models of images return other outputs
        return None
    model.save_pretrained(folder / "a")
    return eq.load(folder / "a")


def compared(form: str, make: Callable[[], Made]) -> str:
    """What `parity` says: "holds", "holds in float32", "-" where there is no such form, or the alarm."""
    made = make()
    with tempfile.TemporaryDirectory() as name:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = other_form(form, made, Path(name))
        except Exception:  # this library has no such form of this model
            return "-"
        if other is None:
            return "-"
        model = First(made[0]) if form in ("export", "ONNX") and hasattr(made[0], "config") else made[0]
        try:
            parity = eq.parity(model, other, *made[1])
        except eq.errors.InputError as refusal:
            return f"not compared: {str(refusal).split('.')[0]}"
    if not parity.holds:
        return f"**{parity.verdict}**: {parity.where}"
    return "holds in float32" if any("one precision" in row.note for row in parity.rows) else "holds"


def rows(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(model, what is said of each form)."""
    for name, make in MODELS.items():
        if not words or any(word in name for word in words):
            yield name, [compared(form, make) for form in FORMS]


def main(words: list[str]) -> int:
    """Compare, print and write the page; 1 where a healthy model is called different."""
    lines = ["| model | " + " | ".join(FORMS) + " |", "| --- " * (1 + len(FORMS)) + "|"]
    cells: list[str] = []
    for name, said in rows(words):
        lines.append(f"| {name} | " + " | ".join(said) + " |")
        cells += said
        print(lines[-1], flush=True)
    alarms, count = sum(cell.startswith("**") for cell in cells), sum(cell.startswith(("holds", "**")) for cell in cells)
    if not words:
        head = __doc__.splitlines() if __doc__ else []
        text = [
            "# Healthy models in two forms", "",
            f"{len(lines) - 2} models, {count} comparisons, {alarms} of them called different. Made by `python docs/same.py`.", "",
            *head[5:], "", "A dash: transformers, torch or equiscope has no such form of this model, or its exporter fails.", "",
        ]  # fmt: skip
        PAGE.write_text("\n".join([*text, *lines]) + "\n")
    return int(alarms > 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
