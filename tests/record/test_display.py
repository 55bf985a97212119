"""What an interpreter prints and a notebook shows of audits, rows, programs, runs and comparisons."""

import re

import torch

import equiscope as eq
from equiscope.record import Audit, Comparison, Run
from equiscope.record.audit import Row
from equiscope.record.comparison import Candidate, Trial

ROWS = [
    Row(name="causal", kind="property", verdict="holds", claimed="yes", error=4.5e-16),
    Row(name="<shift>", kind="action", verdict="broken", error=0.9, where="blocks.0", cause="It reads <positions>.", fails=True),
]
AUDIT = Audit(target="gpt2", model="GPT", parameters=3, dtype="float64", device="cpu", inputs="ids [1, 7]", rows=ROWS)


def test_an_audit_is_a_heading_and_a_line_for_each_statement():
    assert repr(AUDIT).splitlines() == [
        "gpt2: 2 statements, 1 failed",
        "causal   yes      holds   4.5e-16",
        "<shift>  unknown  broken  9.0e-01  blocks.0  fails",
    ]
    assert str(AUDIT) == repr(AUDIT)


def test_a_row_is_one_line_with_its_cause():
    assert repr(AUDIT["<shift>"]) == "<shift>: broken, error 9.0e-01, in blocks.0. It reads <positions>."


def test_html_escapes_what_comes_from_a_model():
    for html in (AUDIT._repr_html_(), AUDIT["<shift>"]._repr_html_()):
        assert "&lt;shift&gt;" in html
        assert "<shift>" not in html


def test_a_program_is_its_steps_and_a_long_one_is_cut():
    program = eq.watch(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()), torch.zeros(1, 3))
    lines = repr(program).splitlines()
    assert lines[0] == "Program of 2 steps on 1 input, 2 parameters"
    assert [line.split()[1] for line in lines[1:]] == ["linear", "tanh"]
    assert "<table>" in program._repr_html_()
    long = repr(eq.watch(torch.nn.Sequential(*[torch.nn.Tanh() for _ in range(50)]), torch.zeros(1, 3)))
    assert len(long.splitlines()) == 32
    assert re.search(r"…\s+20 more", long)


def test_a_run_and_a_comparison_say_what_came_of_them():
    about = {"task": "language", "data": [], "versions": {}, "machine": {}}
    run = Run(
        title="small", recipe={}, spec={}, seed=1, steps=10, state="finished", result={"test": {"loss": 1.25, "acc": None}}, **about
    )
    assert repr(run).splitlines()[0] == "small: finished, 10 steps, 0 parameters, 0 s of training"
    assert repr(run).splitlines()[1:] == ["test  loss  1.25", "test  acc   no number"]
    trials = [Trial(candidate="rope", seed=s, folder="", state="finished", value=v) for s, v in ((1, 1.0), (2, 2.0))]
    candidates = [Candidate(name=name, changes={}, spec={}, parameters=1000, multiply_adds=0) for name in ("rope", "none")]
    comparison = Comparison(
        title="which", answer="rope", part="test", metric="loss", better="less", varied=[], seeds=[1, 2], candidates=candidates,
        trials=trials, **about,
    )  # fmt: skip
    assert repr(comparison).splitlines() == ["which: rope", "rope  1.5        1,000", "none  no result  1,000"]
    assert comparison._repr_html_().count("<tr>") == 3
    assert run._repr_html_().count("<tr>") == 3
