"""The smallest runs that are still whole: two layers learn a few hundred letters, in a second."""

import json
from pathlib import Path
from typing import Any

from equiscope.record.run import METRICS
from equiscope.training import Recipe, Task, open_task, recipe
from equiscope.training.reading import merged

SAMPLE = Path(__file__).parents[2] / "recipes" / "samples" / "tinyshakespeare.txt"


def text(folder: Path, length: int = 3000) -> Path:
    """A short text in a folder."""
    path = folder / "text.txt"
    if not path.exists():
        path.write_text(SAMPLE.read_text(encoding="utf-8")[:length], encoding="utf-8")
    return path


def plain(folder: Path, **changes: Any) -> dict[str, Any]:
    """A recipe as data. changes: tables to merge, e.g. budget={"steps": 3}."""
    head = {"heads": 2, "position": "rope", "causal": True}
    data = {
        "title": "small", "seed": 3,
        "data": {"task": "language", "train": str(text(folder)), "context": 16},
        "model": {"width": 16, "layers": 2, "block": {"attention": head}},
        "budget": {"steps": 12, "batch": 4},
        "optimiser": {"rate": 3e-3, "warmup": 2},
        "evaluation": {"every": 4, "save": 3, "samples": 0},
    }  # fmt: skip
    return merged(data, changes)


def small(folder: Path, **changes: Any) -> tuple[Recipe, Task]:
    """A recipe, and its task."""
    found = recipe(plain(folder, **changes))
    return found, open_task(found)


def told(run: Path) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl without what a clock decides."""
    lines = [json.loads(line) for line in (run / METRICS).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("seconds", "tokens", "mfu")} for line in lines]


def files(run: Path) -> dict[str, bytes]:
    """Every tensor file of the checkpoints and the best weights."""
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.safetensors"))}
