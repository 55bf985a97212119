"""Replaying: measure the counterexample of a row again."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Generator, nn

from equiscope.audit.inputs.adapt import complete_arguments
from equiscope.audit.request import EFFORTS, requests_of
from equiscope.audit.runner import vary_inputs
from equiscope.audit.statements.pairs import RunPair, measure_pair
from equiscope.audit.statements.statement import Output, Statement, Symmetry
from equiscope.audit.subject import Pass, Subject, arguments
from equiscope.errors import InputError
from equiscope.record import Row
from equiscope.symmetry import inputs_of
from equiscope.symmetry.measure import TOLERANCE


def replay(model: nn.Module, row: Row, *inputs: Any, kwargs: Mapping[str, Any] | None = None, **settings: Any) -> float:
    """Measure the counterexample of a row again, in float64.

    inputs, kwargs  those of the check; settings: its kinds, pick, mode and seed, where they were given
    returns         the relative error
    raises          InputError where the row has no counterexample, or these inputs do not produce it
    """
    if row.counterexample is None:
        raise InputError(f"The row {row.name!r} has no counterexample: it is {row.verdict}.")
    named_inputs = inputs_of(inputs, kwargs, arguments(model), settings.get("kinds"))
    subject_settings = {name: settings[name] for name in ("pick", "mode", "seed") if name in settings}
    subject = complete_arguments(Subject(model, named_inputs, **subject_settings))
    run = subject.in_dtype(torch.float64, row.counterexample.parameters == "random")
    axes = subject.axes(run)
    if run.random:
        vary_inputs(run)
    names = ([row.name], []) if row.kind == "action" else ([], [row.name])
    statement = requests_of(subject, *names, _representations_of(row))[0].statement
    if (
        own_row := statement.own_row(subject, TOLERANCE, EFFORTS["default"].high_samples)
    ) is not None and own_row.counterexample is not None:
        return own_row.counterexample.error
    for pair in _candidates(statement, run):
        if pair.text == row.counterexample.text:
            if isinstance(statement, Symmetry) and not statement.representations:
                statement.infer_representations(run, statement.distinguishing_pair(run, pair), axes)
            return measure_pair(run, pair, axes).error
    raise InputError(
        f"The counterexample {row.counterexample.text!r} does not occur with these inputs. Give the inputs of the check."
    )


def _representations_of(row: Row) -> Output:
    """How the outputs transform according to the row: the counterexample breaks this."""
    parts = [part.rpartition(": ") for part in row.output.split(", ")]
    return {name: way for name, colon, way in parts if colon} or row.output or None


def _candidates(statement: Statement, run: Pass) -> Iterator[RunPair]:
    first = statement.pairs(run, EFFORTS["thorough"].high_samples, Generator().manual_seed(run.subject.seed + 17))
    yield from statement.simpler(run, first[0])
    yield from first
    for effort in EFFORTS.values():
        yield from statement.pairs(run, effort.high_samples, Generator().manual_seed(run.subject.seed + 17))
