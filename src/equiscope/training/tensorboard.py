"""TensorBoard: a run's metrics as event files."""

from pathlib import Path
from typing import Any

from equiscope.errors import InputError
from equiscope.record import Point, Run, Sample, Score
from equiscope.record.run import Entry

FOLDER = "tensorboard"


class Board:
    """Writes RUN/tensorboard. Close it at the end.

    run      and past: its entries so far; if the folder has files already, their entries later than `past` are purged
    raises   InputError if tensorboard is not installed
    """

    def __init__(self, folder: Path, run: Run, past: list[Entry]) -> None:
        place = folder / FOLDER
        known = any(place.glob("events.*"))
        last = max((entry.step for entry in past), default=-1)
        self._writer: Any = _writer()(str(place), purge_step=last + 1 if known else None)
        self._writer.add_text("recipe", "\n".join(f"    {line}" for line in _lines(run.recipe)))
        for entry in past if not known else []:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Point):
            named = {"loss": entry.loss, "rate": entry.rate, "norm": entry.norm, "tokens a second": entry.tokens}
            named |= {} if entry.mfu is None else {"MFU": entry.mfu}
            for name, number in named.items():
                self._writer.add_scalar(f"train/{name}", number, entry.step)
        elif isinstance(entry, Score):
            for name, value in entry.values.items():
                if value is not None:
                    self._writer.add_scalar(f"{entry.part}/{name}", value, entry.step)
        elif isinstance(entry, Sample):
            self._writer.add_text(f"answers/{entry.prompt[:60]}", _quoted(entry), entry.step)

    def close(self) -> None:
        self._writer.close()


def checked() -> None:
    """Raises InputError if tensorboard is not installed, before training."""
    _writer()


def _writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError(
            "--tensorboard needs tensorboard, which is not installed. Install the extra: pip install -e '.[train]' in the clone."
        ) from error
    return SummaryWriter


def _quoted(sample: Sample) -> str:
    target = "" if sample.target is None else f"\n\ntarget: {sample.target}"
    return f"{sample.prompt}**{sample.answer}**{target}"


def _lines(fields: dict[str, Any], before: str = "") -> list[str]:
    """ "optimiser.rate = 0.001", as --set writes it."""
    lines: list[str] = []
    for name, value in fields.items():
        lines += _lines(value, f"{before}{name}.") if isinstance(value, dict) else [f"{before}{name} = {value!r}"]
    return lines
