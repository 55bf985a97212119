"""Verdicts of `check` on five models, beside those of pytest-torch, which compares with a tolerance.

    python -m benchmarks.verdicts             the table of the README; saved with date, versions and machine
    python -m benchmarks.verdicts --quick     the same, nothing saved
    python -m benchmarks.verdicts --check     whether the README shows this table

Two models are correct, three are not. Both tools test each model for one statement, with their defaults, in float32.
Install the peer with `pip install pytest-torch==1.1.1`. Without it the table says "not installed", and --check compares our column.
"""

import argparse
import datetime
import sys

import torch
from benchmarks.machine import ROOT, machine, save, versions
from torch import Tensor, nn

import equiscope as eq

BATCH, TOKENS, WIDTH, LAYERS, LOGITS = 4, 48, 64, 4, 1000
NO_CHECK = "has no such check"
HEADING = "| the model … | statement | pytest-torch | `equiscope check` |"


class Stack(nn.Module):
    """Attention layers with residual connections, and logits.

    ahead   how many later tokens a token may attend to; None means all
    """

    def __init__(self, scale: float = 1.0, ahead: int | None = None, table: bool = False, leak: bool = False) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.o_proj = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.lm_head = nn.Linear(WIDTH, LOGITS)
        self.table = nn.Parameter(torch.zeros(512, WIDTH)) if table else None
        self.scale, self.ahead, self.leak = scale, ahead, leak

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-2]
        if self.leak:
            x = x + x.mean(0, keepdim=True)  # of the whole batch
        if self.table is not None:
            x = x + self.table[:n]
        mask = None if self.ahead is None else torch.ones(n, n, dtype=torch.bool, device=x.device).tril(self.ahead)
        for norm, qkv, o_proj in zip(self.norms, self.qkv, self.o_proj, strict=True):
            q, k, v = qkv(norm(x)).chunk(3, -1)
            x = x + o_proj(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return self.scale * self.lm_head(x)


CASES = {  # the model: the statement, whether it is true, how to make the model
    "is correct": ("permute", True, lambda: Stack()),
    "is correct; outputs times 1e5": ("permute", True, lambda: Stack(scale=1e5)),
    "mixes the sequences of a batch; outputs times 1e-6": ("batch", False, lambda: Stack(scale=1e-6, leak=True)),
    "has a position table, initialized at zero": ("permute", False, lambda: Stack(table=True)),
    "has a causal mask that is off by one token": ("causal", False, lambda: Stack(ahead=1)),
}
STATEMENTS = {"batch": "batch independence", "permute": "permutation equivariance", "causal": "causality"}


def ours(model: nn.Module, x: Tensor, name: str) -> tuple[str, float | None]:
    """The verdict, and the error relative to the outputs, in float64."""
    audit = eq.check(model, x, actions=["permute"]) if name == "permute" else eq.check(model, x, properties=[name])
    row = audit[name]
    return row.verdict, row.error


def theirs(model: nn.Module, x: Tensor, name: str) -> str | None:
    """Whether the test passes or fails; None where pytest-torch is not installed."""
    try:
        import pytest_torch
    except ImportError:
        return None
    asserts = {"batch": pytest_torch.assert_batch_invariant, "permute": pytest_torch.assert_permutation_equivariant}
    if name not in asserts:
        return NO_CHECK
    try:
        asserts[name](model, x)
    except AssertionError:
        return "fails"
    return "passes"


def measure() -> list[dict]:
    x = torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))
    rows = []
    for title, (name, true, make) in CASES.items():
        torch.manual_seed(0)
        model = make().eval()
        verdict, error = ours(model, x, name)
        rows.append({
            "model": title, "statement": STATEMENTS[name], "true": true,
            "pytest-torch": theirs(model, x, name), "check": verdict, "error": error,
        })  # fmt: skip
    return rows


def table(rows: list[dict]) -> str:
    """The results as Markdown; a wrong verdict is bold."""
    lines = [HEADING, "| --- | --- | --- | --- |"]
    for row in rows:
        peer = row["pytest-torch"] or "not installed"
        right = peer == ("passes" if row["true"] else "fails")
        mark = {("passes", False): "**passes** (misses the fault)", ("fails", False): "**fails** (false alarm)"}
        verdict = row["check"] if (row["check"] == "holds") == row["true"] else f"**{row['check']}** (wrong)"
        peer = mark.get((peer, right), peer)
        lines.append(f"| {row['model']} | {row['statement']} | {peer} | {verdict} |")
    return "\n".join(lines)


def column(readme: str) -> list[str]:
    """The cells under `equiscope check` in the table of the README."""
    lines = readme[readme.index(HEADING) :].splitlines()
    return [line.split("|")[4] for line in lines[: len(CASES) + 2]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="nothing saved")
    parser.add_argument("--check", action="store_true", help="whether the README shows this table; nothing saved")
    options = parser.parse_args(arguments)
    rows = measure()
    print(table(rows))
    if options.check:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        whole = all(row["pytest-torch"] for row in rows)
        same = table(rows) in readme if whole else [line.split("|")[4] for line in table(rows).splitlines()] == column(readme)
        print("the README shows this table" if same else "stale: the table of README.md. Copy the one above.")
        return int(not same)
    if not options.quick:
        date = datetime.date.today().isoformat()
        results = {"date": date, "machine": machine(), "versions": versions("pytest-torch"), "rows": rows}
        heading = f"# Verdicts beside a tolerance ({date})\n\n{results['machine']}, {results['versions']}\n\n"
        save("verdicts", results, heading + table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
