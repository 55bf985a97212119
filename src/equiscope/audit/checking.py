"""Check: which statements hold for a model, with evidence.

One model, four passes: at the given parameters in float64 and in the model's own precision, then at random parameters in both,
since a table that begins at zero hides what it can do (`runner.py`). What breaks is looked into (`diagnose`), and every
statement gets its row (`report_row.py`).
"""

import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from equiscope import __version__
from equiscope.audit.character import mode_differences, require_callable, require_data
from equiscope.audit.inputs.adapt import complete_arguments, decoder_subject
from equiscope.audit.listeners import notify
from equiscope.audit.proof.agreement import with_proofs
from equiscope.audit.request import EFFORTS, requests_of
from equiscope.audit.runner import Progress, Runner
from equiscope.audit.statements.statement import Output
from equiscope.audit.subject import Subject, arguments
from equiscope.errors import InputError, UnknownName
from equiscope.record import Audit, Row
from equiscope.symmetry import inputs_of
from equiscope.symmetry.measure import TOLERANCE


def check(
    model: nn.Module, *inputs: Any, kwargs: Mapping[str, Any] | None = None, actions: Any = None,
    properties: Any = None, output: Output = None, kinds: Mapping[str, str] | None = None,
    pick: str | tuple[str, ...] | Callable[[Any], Any] | None = None, mode: str = "eval", effort: str = "default",
    tolerance: float = TOLERANCE, seed: int = 0, seconds: float | None = None, progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None, random_parameters: bool = True, localize: bool = True, target: str = "",
    proof: bool | None = None,
) -> Audit:  # fmt: skip
    """Which symmetries and properties a model has, measured.

    inputs      what the model is called with, as in `model(*inputs, **kwargs)`
    actions     names, Action classes or elements, or a user's own class with sample, on_input, on_output; one of these or a list;
                None: those that act on these inputs
    properties  names or classes, one or a list; None: those that can be asked of this model. `pure` is always asked
    output      how outputs move: "invariant", "permuted", "vector", ... for all, or by name; None finds out
    kinds       argument -> what it is ("ids", "features", "image", "points", ...), where the guess would be wrong
    pick        which outputs are compared: a name, several, or a function of what the model returns
    mode        "eval", or "train" (dropout off). A model that comes in training mode is measured in eval mode; a note names the
                layers whose answers differ
    effort      quick, default or thorough: how many samples
    tolerance   a violation below it is called approximate
    seconds     stop after so long; what was not reached is undecided. stop: asked between two steps
    random      also at random parameters
    proof       try to prove permute, causal and batch on the graph of operations; None: for up to 10 million parameters
    raises      UnknownName for a name that is not listed; InputError for what cannot be checked at all, as where the model itself
                raises on these inputs, with its own message
    """
    start = time.perf_counter()
    if effort not in EFFORTS:
        raise UnknownName("effort", effort, list(EFFORTS))
    if mode not in ("eval", "train"):
        raise UnknownName("mode", mode, ["eval", "train"])
    if not isinstance(model, nn.Module):
        raise InputError(
            f"A check takes a torch.nn.Module, but got {type(model).__name__}. "
            "equiscope.audit.CalculatorModule makes one of a calculator of ASE, or of a function of numbers and positions."
        )
    model = getattr(model, "_orig_mod", model)
    require_data(model, inputs, kwargs or {})
    named_inputs = inputs_of(inputs, kwargs, arguments(model), kinds)
    subject = Subject(model, named_inputs, pick, mode, seed)
    require_callable(subject)
    subject = complete_arguments(subject)
    decoder = decoder_subject(subject)
    requests = requests_of(subject, actions, properties, output, decoder)
    deadline = None if seconds is None else start + seconds
    rows: dict[int, Row] = {}
    notes, finished, disagreements = list[str](), True, list[str]()
    for number, each in enumerate(filter(None, (subject, decoder))):
        own_requests = [a for a in requests if a.subject is each]
        if not own_requests:
            continue
        if each is decoder:
            decoder.adopt(subject)
        share = _share(progress, len(own_requests) / len(requests), number)
        runner = Runner(each, own_requests, effort, tolerance, deadline, share, should_stop, localize)
        try:
            results = runner.rows(random_parameters)
        except KeyboardInterrupt:
            results, runner.finished = runner.finish(), False
        finished = finished and runner.finished
        audited_rows, disagreements_here = with_proofs(
            [row for _, row in results], each, proof if output is None else False, finished
        )
        rows |= {id(a): row for (a, _), row in zip(results, audited_rows, strict=True)}
        notes, disagreements = notes + runner.notes, disagreements + disagreements_here
    versions = {"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
    all_notes = disagreements + _untransformed_arguments(subject) + mode_differences(subject) + subject.notes + notes
    return notify(Audit(
        target=target or type(model).__name__, model=type(model).__name__, parameters=sum(p.numel() for p in model.parameters()),
        dtype=str(subject.dtype).removeprefix("torch."), device=_device(model), inputs=subject.inputs.told(), seed=seed,
        rows=[rows[id(a)] for a in requests if id(a) in rows], effort=effort, mode=mode, tolerance=tolerance, versions=versions,
        passes=dict(subject.passes), sequences=dict(subject.sequences), seconds=time.perf_counter() - start, finished=finished,
        notes=list(dict.fromkeys(all_notes)),
    ))  # fmt: skip


def _share(progress: Progress | None, share: float, number: int) -> Progress | None:
    """Progress of one part of the work, as a share of the whole."""
    start = number * (1 - share)
    return None if progress is None else lambda done, what: progress(start + share * done, what)


def _device(model: nn.Module) -> str:
    return str(next((p.device for p in model.parameters()), torch.device("cpu")))


def _untransformed_arguments(subject: Subject) -> list[str]:
    """Arguments that hold tensors which no action can move: said, so that nobody takes what was not asked for what holds."""
    nested = {n: v for n, v in subject.inputs.values.items() if isinstance(v, dict) and any(map(torch.is_tensor, v.values()))}
    return [
        f"{n} is a {type(v).__name__} of tensors, and nothing in it was moved. Check a module that takes them as arguments."
        for n, v in nested.items()
    ]
