"""The terminal's words: one table, and sentences for what fails."""

import io
import shlex

import pytest
from rich.console import Console

from equiscope.audit import summary, table
from equiscope.record import Counterexample, Proof
from equiscope.record.report import finding, number, repeat_command, report, samples
from tests.explore.audits import CONTROL, audit, deep, hostile, planted, promised, row


def printed(example, width=80, color=False, report=False):
    out, system = io.StringIO(), "standard" if color else None
    Console(file=out, width=width, highlight=False, force_terminal=color, color_system=system).print(table(example, report))
    return out.getvalue()


@pytest.mark.parametrize("example", [planted, promised, deep, audit])
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(example, width):
    assert max(len(line) for line in printed(example(), width).splitlines()) <= width


def test_the_table_has_a_line_for_every_row():
    lines = printed(planted()).splitlines()
    for one in planted().rows:
        line = next(line for line in lines if one.name in line.split()[:2])
        assert one.verdict in line
        assert line.split()[0] == ("✗" if one.fails else "·" if one.verdict == "not applicable" else "✓")


def test_a_failing_row_has_sentences_and_the_next_step():
    text = " ".join(printed(planted()).split())
    causal = planted()["causal"]
    assert f"✗ causal: {causal.summary}" in text
    assert f"Smallest counterexample: {causal.counterexample.text}" in text
    assert "It first breaks in layers.1.attention" in text
    assert "equiscope check models:small --property causal --seed 0 --effort quick" in text


def test_a_symmetry_without_a_claim_has_no_sentence_about_it():
    text = printed(promised())
    assert "–  permute" in text
    assert "✗" not in text
    assert "nothing fails" in text


@pytest.mark.parametrize("example", [planted, promised])
def test_a_report_page_is_advised_only_where_none_is_written(example):
    assert "--html" in printed(example())
    assert "--html" not in printed(example(), report=True)


def test_the_columns_of_numbers_are_explained():
    assert "worst: the largest error, relative to the size of the output" in printed(planted())


def test_a_models_text_is_no_markup_and_no_escape_code():
    text = printed(hostile(CONTROL))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]markup[/bold]" in text


def test_colour_is_only_beside_a_shape():
    example = planted()
    plain, coloured = printed(example), printed(example, color=True)
    assert "\x1b[" in coloured
    for sign in "✗✓·":
        assert sign in plain


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([], "Nothing was asked of this model."),
        ([row("a", verdict="holds", fails=False)], "1 of 1 statements hold; nothing fails."),
        ([row("a"), row("b", verdict="holds", fails=False)], "1 of 2 statements hold; 1 fails: a."),
        ([row("a"), row("b")], "0 of 2 statements hold; 2 fail: a, b."),
        ([row("a", fails=False)], "0 of 1 statements hold; nothing fails; 1 does not hold and need not: a."),
        ([row("a", verdict="undecided", fails=False)], "Nothing could be decided: a."),
        (
            [row("pure", verdict="holds", fails=False), row("a", verdict="not applicable", fails=False)],
            "Nothing but pure could be decided: a.",
        ),
        (
            [row("a", verdict="holds", fails=False), row("b", verdict="undecided", fails=False)],
            "1 of 2 statements hold; nothing fails; 1 is undecided: b.",
        ),
        ([row(letter) for letter in "abcdefg"], "0 of 7 statements hold; 7 fail: a, b, c, d and 3 more."),
    ],
)
def test_the_summary_counts_every_row_once(rows, wanted):
    assert summary(audit(*rows)) == wanted


def test_a_check_that_was_stopped_says_so():
    assert "stopped" in summary(audit(row(), finished=False))


def test_samples_are_reported_with_their_bound():
    assert (
        samples(row(verdict="holds", samples=12, violation_bound=0.25))
        == "no violation in 12 samples (95 % interval: below 25 % of inputs)"
    )
    assert samples(row(verdict="holds", samples=3, violation_bound=1.0)) == "no violation in 3 samples: too few to bound the rest"
    assert samples(row(samples=12)) == "12 tried"
    assert samples(row(samples=0)) == "not measured"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(0, "0"), (2.9e-16, "2.9e-16"), (5e-4, "5.0e-4"), (0.144, "14.4 %"), (1.09, "109 %"), (12, "12 times"), (-1, "not finite"),
     (None, "not finite"), (float("nan"), "not finite"), (float("inf"), "not finite")],
)  # fmt: skip
def test_an_error_is_written_for_people(value, wanted):
    assert number(value) == wanted


@pytest.mark.parametrize("name", ["permute", "my action", "a;rm -rf", "it's"])
def test_the_command_that_repeats_a_row_survives_the_shell(name):
    command = repeat_command(audit(target="my models:small"), row(name, kind="action"))
    assert shlex.split(command) == ["equiscope", "check", "my models:small", "--action", name, "--seed", "0"]


def test_the_command_that_repeats_a_row_has_its_tolerance():
    assert repeat_command(audit(target="gpt2", tolerance=0.5), row()).endswith("--seed 0 --tolerance 0.5")
    assert repeat_command(audit(target="Toy", tolerance=0.5), row()).endswith("seed=0, tolerance=0.5)")


def test_a_remark_after_the_target_is_no_part_of_the_command():
    command = repeat_command(audit(target="gpt2 (the same parts at a small size)"), row())
    assert command == "equiscope check gpt2 --property causal --seed 0"


def test_without_a_target_the_row_is_repeated_in_python():
    assert repeat_command(audit(target="Toy"), row()) == "eq.check(model, ..., properties=['causal'], effort='default', seed=0)"


def test_what_still_holds_and_who_claims_it_are_reported():
    found = " ".join(finding(audit(), row(subgroup="shifts by 4", claimed="yes", reason="position: Rope counts distances")))
    assert "What does hold: shifts by 4." in found
    assert "promises it: position: Rope counts distances." in found


def test_a_proof_that_contradicts_the_measurement_is_reported():
    proved = Proof(answer="proved")
    assert "fault of equiscope" in " ".join(finding(audit(), row(proof=proved)))
    assert "fault of equiscope" not in " ".join(finding(audit(), row(verdict="holds", fails=False, proof=proved)))


def test_sentences_beside_the_evidence_do_not_repeat_it():
    example = planted()
    causal = next(said for said in report(example).rows if said.id == "causal")
    assert not any("Smallest counterexample" in sentence for sentence in causal.finding)
    assert any("Smallest counterexample" in sentence for sentence in finding(example, example["causal"]))


def test_what_is_not_finite_is_called_so():
    one = row(error=None, errors=[-1.0], counterexample=Counterexample(text="shift by 1", error=-1.0))
    assert "not finite" in " ".join(finding(audit(), one))
