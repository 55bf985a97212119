"""Check: which statements hold for a model, with evidence.

The runner makes four passes over the model: at the given parameters in float64 and in the model's own precision, then at random
parameters in both, because a table initialised at zero hides its effect (`runner.py`). Every violation is diagnosed (`diagnose`),
and every statement becomes a row (`report_row.py`).
"""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
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
from equiscope.audit.served.checking import check_served
from equiscope.audit.served.connection import is_address
from equiscope.audit.statements.statement import ActionChoice, Output, PropertyChoice
from equiscope.audit.subject import Subject, arguments
from equiscope.errors import InputError, UnknownName
from equiscope.record import Audit, Row
from equiscope.symmetry import inputs_of
from equiscope.symmetry.measure import TOLERANCE


def check(
    subject: nn.Module | str,
    /,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    actions: ActionChoice | Sequence[ActionChoice] | None = None,
    properties: PropertyChoice | Sequence[PropertyChoice] | None = None,
    output: Output = None,
    kinds: Mapping[str, str] | None = None,
    pick: str | tuple[str, ...] | Callable[[Any], Any] | None = None,
    mode: str = "eval",
    effort: str = "default",
    tolerance: float = TOLERANCE,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    random_parameters: bool = True,
    localize: bool = True,
    target: str = "",
    proof: bool | None = None,
    model: str | None = None,
    requests: int | None = None,
    key: str | None = None,
) -> Audit:
    """Measure which symmetries and properties a model has.

    subject            a module; or the address of a server with an OpenAI-compatible endpoint, "http://HOST:PORT/v1", for which
                       properties, effort, tolerance, seed, seconds and progress count too, and the last three arguments
    inputs, kwargs     the call of the model: `model(*inputs, **kwargs)`
    actions            names, Action classes or elements, or your own class with sample, on_input and on_output; one or a list.
                       None: all actions that apply to these inputs
    properties         names or classes, one or a list. None: all that apply to this model. `pure` is always measured
    output             how the outputs transform: "invariant", "permuted", "vector", ... for all outputs, or by name.
                       None: inferred from the measurement
    kinds              argument -> its kind ("ids", "features", "image", "points", ...), where the guess would be wrong
    pick               the outputs to compare: a name, several names, or a function of what the model returns
    mode               "eval", or "train" with dropout off. A model passed in training mode is measured in evaluation mode by
                       default, and a note names the layers whose outputs differ
    effort             "quick", "default" or "thorough": the number of samples
    tolerance          a violation below it is *approximate*, relative to the size of the output
    seed               of the samples and of the random parameters
    seconds            time limit; statements not reached are undecided
    progress           called with the share done and the name of the statement
    should_stop        called between two steps; True stops the check
    random_parameters  measure at random parameters too
    localize           find the module at which a statement breaks
    target             the title of the audit
    proof              try to prove permute, causal and batch on the exported graph. None: up to 10 million parameters
    model              name of the served model, where the server has several
    requests           that may be made to a server; by default 150, 250 or 600 by effort
    key                the environment variable with the server's key; by default EQUISCOPE_KEY, where it is set
    returns            an Audit with a row for each statement
    raises             UnknownName for a name that is not listed; InputError where nothing can be checked: for example, the model
                       itself raises on these inputs
    """
    if is_address(subject):
        unused = {"inputs": inputs, "kwargs": kwargs, "actions": actions, "output": output, "kinds": kinds, "pick": pick}
        if given := [name for name, value in unused.items() if value]:
            raise InputError(f"A served model is asked for text, so {' and '.join(given)} cannot be given. Leave them out.")
        named = [properties] if isinstance(properties, str) else properties
        names = None if named is None else [str(name) for name in named]  # type: ignore[union-attr]
        return check_served(
            subject, model=model, properties=names, effort=effort, seed=seed, requests=requests, key=key, tolerance=tolerance,
            seconds=seconds, progress=progress,
        )[0]  # fmt: skip
    if model is not None or requests is not None or key is not None:
        raise InputError("model, requests and key are for the address of a server, such as http://HOST:PORT/v1. Leave them out.")
    return _check_module(
        subject, inputs, kwargs, actions, properties, output, kinds, pick, mode, effort, tolerance, seed, seconds, progress,
        should_stop, random_parameters, localize, target, proof,
    )  # fmt: skip


def _check_module(
    model: Any, inputs: tuple[Any, ...], kwargs: Mapping[str, Any] | None,
    actions: ActionChoice | Sequence[ActionChoice] | None, properties: PropertyChoice | Sequence[PropertyChoice] | None,
    output: Output, kinds: Mapping[str, str] | None, pick: str | tuple[str, ...] | Callable[[Any], Any] | None, mode: str,
    effort: str, tolerance: float, seed: int, seconds: float | None, progress: Progress | None,
    should_stop: Callable[[], bool] | None, random_parameters: bool, localize: bool, target: str, proof: bool | None,
) -> Audit:  # fmt: skip
    start = time.perf_counter()
    if effort not in EFFORTS:
        raise UnknownName("effort", effort, list(EFFORTS))
    if mode not in ("eval", "train"):
        raise UnknownName("mode", mode, ["eval", "train"])
    if not isinstance(model, nn.Module):
        raise InputError(
            f"A check takes a torch.nn.Module, or the address of a server, but got {type(model).__name__}. "
            "equiscope.audit.CalculatorModule wraps an ASE calculator, or a function of numbers and positions, as a module."
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
    for number, part in enumerate(filter(None, (subject, decoder))):
        own_requests = [a for a in requests if a.subject is part]
        if not own_requests:
            continue
        if part is decoder:
            decoder.adopt(subject)
        share = _share(progress, len(own_requests) / len(requests), number)
        runner = Runner(part, own_requests, effort, tolerance, deadline, share, should_stop, localize)
        try:
            results = runner.rows(random_parameters)
        except KeyboardInterrupt:
            runner.finished = False  # before the rows say why they are undecided
            results = runner.finish()
        finished = finished and runner.finished
        requested = proof if output is None else False
        proved_rows, conflicts = with_proofs([row for _, row in results], part, requested, finished)
        rows |= {id(a): row for (a, _), row in zip(results, proved_rows, strict=True)}
        notes, disagreements = notes + runner.notes, disagreements + conflicts
    versions = {"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
    all_notes = disagreements + _untransformed_arguments(subject) + mode_differences(subject) + subject.notes + notes
    return notify(Audit(
        target=target or type(model).__name__, model=type(model).__name__, parameters=sum(p.numel() for p in model.parameters()),
        dtype=str(subject.dtype).removeprefix("torch."), device=_device(model), inputs=subject.inputs.describe(), seed=seed,
        rows=[rows[id(a)] for a in requests if id(a) in rows], effort=effort, mode=mode, tolerance=tolerance, versions=versions,
        passes=dict(subject.passes), sequences=dict(subject.sequences), seconds=time.perf_counter() - start, finished=finished,
        notes=list(dict.fromkeys(all_notes)),
    ))  # fmt: skip


def _share(progress: Progress | None, share: float, number: int) -> Progress | None:
    """Progress of one subject, as a share of the whole check."""
    start = number * (1 - share)
    return None if progress is None else lambda done, what: progress(start + share * done, what)


def _device(model: nn.Module) -> str:
    return str(next((p.device for p in model.parameters()), torch.device("cpu")))


def _untransformed_arguments(subject: Subject) -> list[str]:
    """Notes on dict arguments with tensors inside, which no action can transform."""
    nested = {n: v for n, v in subject.inputs.values.items() if isinstance(v, dict) and any(map(torch.is_tensor, v.values()))}
    return [
        f"{n} is a {type(v).__name__} of tensors, and none of them was transformed. Check a module that takes them as arguments."
        for n, v in nested.items()
    ]
