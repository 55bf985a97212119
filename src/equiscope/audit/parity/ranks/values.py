"""The values of one process and of several, call by call, and the first call that no layout explains."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.parity.ranks.layouts import RankLayout, Shared, is_part, layout
from equiscope.audit.parity.ranks.recording import ModuleCall, Recordings, each_cast, watch_calls
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.audit.subject.subject import copy_in_dtype

WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")  # names of what a wrapper holds
WRAPPED = re.compile(rf"(^|\.)({'|'.join(WRAPPERS)})(?=\.|$)")


@dataclass(eq=False)
class PairedCall:
    """A call of a module on one process, and the same call on several. count: how often the module was called before."""

    path: str
    count: int
    one: ModuleCall
    ranks: list[ModuleCall]
    shared: Shared
    layout: RankLayout | None

    @property
    def name(self) -> str:
        """The module, for a sentence."""
        return self.path or "the model"


@dataclass(eq=False)
class Processes:
    """Both sides. model: A; one: its recordings; many: those of every process of B, by rank."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    seed: int
    one: Recordings
    many: list[Recordings]
    _precise: dict[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of processes."""
        return len(self.many)

    @cached_property
    def calls(self) -> list[PairedCall]:
        """Calls that all processes make, in the order in which they return."""
        high, low = (_by_call(self.one[dtype].calls) for dtype in (torch.float64, torch.float32))
        ranks = [(_by_call(r[torch.float64].calls), _by_call(r[torch.float32].calls)) for r in self.many]
        found = []
        for key in ranks[0][0]:
            if key not in high or not all(key in one for one, _ in ranks):
                continue
            one, others = high[key], [calls[key] for calls, _ in ranks]
            if one.output is None or any(call.output is None for call in others):
                continue
            narrow = [low.get(key), *(calls.get(key) for _, calls in ranks)]
            shared = Shared(one.output, [c.output for c in others if c.output is not None], _in_float32(narrow))
            found.append(PairedCall(*key, one, others, shared, layout(shared)))
        return found

    @cached_property
    def unexplained(self) -> list[PairedCall]:
        """Calls without a layout, inside of no call that has one."""
        found = []
        for number, call in enumerate(self.calls):
            if call.layout is None:
                enclosing = (c for c in self.calls[number + 1 :] if c.path == "" or call.path.startswith(f"{c.path}."))
                outer = next(enclosing, None)
                if outer is None or outer.layout is None:
                    found.append(call)
        return found

    def before(self, call: PairedCall) -> list[PairedCall]:
        """Calls that returned before this one, the last first."""
        return self.calls[: self.calls.index(call)][::-1]

    def replay(
        self, replaced: Mapping[tuple[str, int], Tensor], parameters: Mapping[str, Tensor] | None = None
    ) -> dict[Any, Tensor]:
        """What A computes in float64 where calls return something else, or parameters have other values: output by call."""
        model = copy_in_dtype(self.model, torch.float64)
        args, kwargs = each_cast(self.args, self.kwargs, torch.float64)
        with torch.random.fork_rng(devices=[]), torch.no_grad(), promote_float64():
            torch.manual_seed(self.seed)
            for name, value in (parameters or {}).items():
                model.get_parameter(name).copy_(value)
            calls, _ = watch_calls(model, args, kwargs, replaced)
        return {key: call.output for key, call in _by_call(calls).items() if call.output is not None}

    def reproduced(self, call: PairedCall, runs: list[dict[Any, Tensor]]) -> bool:
        """Whether A, replayed once for all processes or once for each, computes what the processes have."""
        values = [run.get((call.path, call.count)) for run in runs]
        if any(value is None for value in values):
            return False
        if len(values) == 1 and values[0] is not None:
            return layout(Shared(values[0], call.shared.ranks)) is not None
        parts = zip(values, call.shared.ranks, strict=True)
        return all(v is not None and is_part(v, t, rank, self.count) for rank, (v, t) in enumerate(parts))


def _by_call(calls: list[ModuleCall]) -> dict[tuple[str, int], ModuleCall]:
    paths = {call.path for call in calls}
    counts: dict[str, int] = {}
    found = {}
    for call in calls:
        if any(f"{call.path}.{name}".lstrip(".") in paths for name in WRAPPERS):
            continue  # what it wraps is the same module
        path = WRAPPED.sub("", call.path).lstrip(".")
        counts[path] = counts.get(path, -1) + 1
        found[path, counts[path]] = call
    return found


def _in_float32(calls: list[ModuleCall | None]) -> Shared | None:
    outputs = [None if call is None else call.output for call in calls]
    tensors = [t for t in outputs if t is not None]
    return Shared(tensors[0], tensors[1:]) if len(tensors) == len(outputs) else None
