"""The ledger of claims: every sentence is measured, its source named, and its verdict follows what is measured. SYSTEMS row R7."""

import importlib
import importlib.util
import inspect
import json
import math
from pathlib import Path

import pytest
import torch
from tests.cli.test_cli import equi  # noqa: F401
from tests.pairwise import few

from equiscope.attention import MultiHeadAttention, Sigmoid, convolution_as_attention
from equiscope.blocks import norm
from equiscope.cli import claims as claims_command
from equiscope.errors import InputError
from equiscope.positions import Rope, Sinusoidal, T5Bias
from equiscope.positions.scaling import Yarn
from equiscope.study import claims
from equiscope.study.base import no_progress
from equiscope.study.claims import LEDGER, VERDICTS, ClaimMeasurement, Setting, claim_named, verdict_of
from equiscope.tokens import Tokens

pytestmark = pytest.mark.xdist_group("claims")
NAMES = [c.name for c in LEDGER]
every = pytest.mark.parametrize("name", NAMES)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def setting():
    return Setting(quick=True)


@pytest.fixture(scope="module")
def rulings(setting):
    """Every claim in its quick form, with seed 0."""
    return {c.name: c.run(setting) for c in LEDGER}


# --- what holds for every claim ---------------------------------------------------------------------------------------
def test_the_ledger_has_forty_sentences_or_more_each_under_a_name_of_its_own():
    assert len(LEDGER) >= 40
    assert len(set(NAMES)) == len({c.statement for c in LEDGER}) == len(LEDGER)


def test_no_claim_is_left_out_of_the_ledger():
    files = {p.stem for p in Path(claims.__file__).parent.glob("*.py")} - {"__init__", "base"}
    modules = [importlib.import_module(f"equiscope.study.claims.{file}") for file in files]
    written = {v.name for m in modules for v in vars(m).values() if isinstance(v, claims.LedgerClaim)}
    assert written == set(NAMES)


@every
def test_a_claim_is_a_sentence_with_a_source_and_a_command(name):
    claim = claim_named(name)
    assert claim.statement.endswith(".")
    assert any(c.isdigit() for c in claim.source), "a year"
    assert claim.command == f"equiscope study claims {name}"


@every
def test_a_verdict_comes_with_the_figures_that_it_follows_from(rulings, name):
    ruling = rulings[name]
    assert ruling.verdict in VERDICTS
    assert ruling.figure.endswith(".")
    assert any(c.isdigit() for c in ruling.figure)
    assert "nan" not in ruling.figure
    assert ruling.numbers
    assert all(v is None or math.isfinite(v) for v in ruling.numbers.values())
    assert ruling.limits or ruling.verdict == "true", "who limits a sentence says how far it holds"


@every
def test_no_verdict_is_written_down(name):
    source = inspect.getsource(claim_named(name).measure)
    assert "verdict_of(" in source
    assert not any(f'"{verdict}"' in source for verdict in VERDICTS)


@pytest.mark.parametrize("name", few(NAMES, 4))
def test_the_same_seed_gives_the_same_figure_whatever_was_measured_before(setting, rulings, name):
    if claim_named(name).timed:
        pytest.skip("its figure holds times")
    again = claim_named(name).run(setting)
    assert (again.figure, again.verdict) == (rulings[name].figure, rulings[name].verdict)


def test_another_seed_gives_other_figures_and_the_same_verdicts(rulings):
    cheap = [c for c in LEDGER if "setting.result" not in inspect.getsource(c.measure) and not c.timed]
    some = {c.name: c.run(Setting(quick=True, seed=1)) for c in cheap[::8]}
    assert {n: r.verdict for n, r in some.items()} == {n: rulings[n].verdict for n in some}
    assert any(r.figure != rulings[n].figure for n, r in some.items())


def test_all_verdicts_occur(rulings):
    assert {r.verdict for r in rulings.values()} == set(VERDICTS)


@every
def test_a_ruling_is_plain_data_and_its_curves_fit_their_axes(rulings, name):
    data = json.loads(rulings[name].to_json())
    assert (data["name"], data["quick"], data["seed"]) == (name, True, 0)
    for panel in rulings[name].panels:
        assert bool(panel.matrix) != bool(panel.lines)
        assert all(len(line.x) == len(line.y) > 1 for line in panel.lines)


def test_studies_are_measured_once_for_all_claims():
    counts = []

    def each(items, what):
        counts.append(what)
        return no_progress(items)

    setting = Setting(quick=True, each=each)
    for name in ("large-products-saturate", "maximum-prevents-overflow", "variance-of-a-product-is-its-width"):
        claim_named(name).run(setting)
    assert counts == ["widths"]


def test_a_claim_leaves_torch_as_it_was():
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    claim_named("rope-is-relative").run(Setting(quick=True, seed=7))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_what_held_everywhere_is_true_what_held_somewhere_within_limits():
    assert [verdict_of(True), verdict_of(True, True), verdict_of(False, True), verdict_of(False)] == [
        "true",
        "true",
        "true within limits",
        "false",
    ]


# --- known answers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("sinusoids-are-unique", "true within limits"),
        ("sinusoids-decay-monotonically", "false"),
        ("attention-costs-most", "true within limits"),
        ("adding-is-concatenating", "true within limits"),
        ("positions-do-not-disturb-meaning", "true within limits"),
        ("weights-are-low-rank", "true within limits"),
        ("scale-is-for-stability", "false"),
        ("rope-is-relative", "true"),
        ("causal-masks-encode-order", "true within limits"),
        ("greedy-decoding-finds-the-best", "false"),
    ],
)
def test_a_claim_that_people_argue_about_has_the_verdict_of_the_mathematics(rulings, name, verdict):
    assert rulings[name].verdict == verdict


# --- verdicts follow what is measured: break the thing, and they flip --------------------------------------------------
def sigmoid_attention(*sizes, **more):
    return MultiHeadAttention(*sizes, **{"normalizer": Sigmoid(), **more})


BROKEN = {
    "rope-is-relative": ("rotations", "Rope", lambda **_: Rope(key_angle_factor=0.5), "false"),
    "rotary-layouts-are-one": ("rotations", "half_from_interleaved", lambda weight, heads: weight, "false"),
    "outputs-are-convex-combinations": ("attention", "MultiHeadAttention", sigmoid_attention, "false"),
    "rows-sum-to-one": ("attention", "MultiHeadAttention", sigmoid_attention, "false"),
    "scores-have-rank-k": ("attention", "scaled_dot", lambda q, k: torch.randn(len(q), len(k)).double(), "false"),
    "weights-are-low-rank": ("attention", "scaled_dot", lambda q, k: torch.zeros(len(q), len(k)).double(), "true"),
    "a-convolution-is-attention": ("cases", "convolution_as_attention", lambda conv: convolution_as_attention(conv, 1.0), "false"),
    "linear-attention-is-an-rnn": ("cases", "recurrence_of", lambda attention: lambda tokens: tokens.x, "false"),
    "attention-is-permutation-equivariant": ("symmetry", "NoPosition", Sinusoidal, "false"),
    "pooled-outputs-ignore-the-order": ("symmetry", "NoPosition", Sinusoidal, "false"),
    "t5-buckets-saturate": ("biases", "T5Bias", lambda: T5Bias(max_distance=512), "false"),
    "layer-norm-ignores-shift-and-scale": (
        "depth",
        "norm_of",
        lambda width, kind="layer", eps=1e-5: norm(width, "rms", eps),
        "false",
    ),
    "packing-changes-nothing": ("tokens", "pack", lambda parts: Tokens.of(torch.cat([p.x for p in parts])), "false"),
    "ninety-two-dimensions-complete-a-period": ("rotations", "Rope", lambda base=1e4: Rope(base=2 * base), "false"),
    "wavelengths-reach-ten-thousand": ("sinusoids", "Sinusoidal", lambda: Sinusoidal(base=100), "false"),
    "attention-costs-most": ("cost", "_parts", lambda n, d: (9 * n, n), "true"),
    "memory-is-quadratic": ("cost", "largest", lambda call: call.args[0].x.shape[-2] ** 2, "true"),
    "rope-preserves-norms": ("rotations", "Rope", lambda scaling=None: Rope(scaling=scaling or Yarn(4.0, 1024)), "false"),
    "sinusoids-decay-monotonically": ("sinusoids", "_products", lambda scheme, width, far: torch.linspace(1, 0, far + 1), "true"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_verdict_flips_when_the_thing_is_broken(monkeypatch, unchecked, rulings, name):
    module, part, broken, wanted = BROKEN[name]
    monkeypatch.setattr(importlib.import_module(f"equiscope.study.claims.{module}"), part, broken)
    assert rulings[name].verdict != claim_named(name).run(Setting(quick=True)).verdict == wanted


# --- the command ------------------------------------------------------------------------------------------------------
FEW = ("rows-sum-to-one", "scores-have-rank-k", "bfloat16-breaks-rope")


@pytest.fixture
def study_few(capsys):
    """The command on a ledger of three claims of two themes, which is measured in a moment: what it printed, and its notes."""
    few = {theme: tuple(c for c in found if c.name in FEW) for theme, found in claims.THEMES.items()}

    def command(out=None, seed=0, json=False):
        claims_command.run(None, out, seed, quick=True, json=json, names=False, themes=few)
        return capsys.readouterr()

    return command


@pytest.mark.parametrize("name", ["rope-is-relative", "sinusoids-decay-monotonically", "byte-tokens-encode-any-text"])
def test_the_command_of_a_claim_reproduces_its_figure(equi, rulings, name):  # noqa: F811
    code, out, err = equi(*claim_named(name).command.split()[1:], "--quick")
    assert (code, err) == (0, "")
    assert out.startswith(f"“{claim_named(name).statement}”")
    assert rulings[name].figure in out
    assert f"\n{rulings[name].verdict}\n" in out
    assert claim_named(name).source in out


def test_one_claim_as_json_is_its_ruling(equi, rulings):  # noqa: F811
    code, out, err = equi("study", "claims", "rope-is-relative", "--quick", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(rulings["rope-is-relative"].to_json())


def test_the_whole_ledger_shows_each_verdict_and_counts_them(study_few):
    out, err = study_few()
    assert err == ""
    assert all(name in out for name in FEW)
    assert "3 sentences: 1 true, 2 true within limits, 0 false. Seed 0, quick form." in out


def test_the_whole_ledger_as_json_is_data_alone(study_few):
    out, err = study_few(json=True, seed=2)
    assert err == ""
    data = json.loads(out)
    assert {c["name"] for c in data["claims"]} == set(FEW)
    assert data["counts"] == {"true": 1, "true within limits": 2, "false": 0}
    assert {c["seed"] for c in data["claims"]} == {2}


def test_out_writes_the_ledger_and_its_plots(study_few, tmp_path):
    pytest.importorskip("matplotlib")
    _, err = study_few(out=tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["bfloat16-breaks-rope.png", "claims.json"]
    assert len(json.loads((tmp_path / "new" / "claims.json").read_text(encoding="utf-8"))["claims"]) == 3
    assert err.count("wrote ") == 2


def test_out_writes_one_claim_with_its_plot_in_two_kinds(equi, tmp_path):  # noqa: F811
    pytest.importorskip("matplotlib")
    assert equi("study", "claims", "bfloat16-breaks-rope", "--quick", "--out", tmp_path)[0] == 0
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".png", ".svg"]


def test_the_list_names_every_claim_and_measures_nothing(equi):  # noqa: F811
    code, out, err = equi("study", "claims", "--list")
    assert (code, err) == (0, "")
    assert all(c.name in out and c.statement in out for c in LEDGER)
    rows = json.loads(equi("study", "claims", "--list", "--json")[1])
    assert [row["command"] for row in rows] == [c.command for c in LEDGER]


def test_an_unknown_claim_is_one_sentence_with_the_nearest_name(equi):  # noqa: F811
    code, out, err = equi("study", "claims", "rope-is-relativ")
    assert (code, out) == (2, "")
    assert err.startswith("equiscope: There is no claim in the ledger called 'rope-is-relativ'. Did you mean rope-is-relative")
    assert err.count("\n") == 1
    with pytest.raises(InputError, match=rf"--list names all {len(LEDGER)}"):
        claim_named("zzz")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["lookup", "rope-is-relative"], "Only claims takes a second name"),
        (["claims", "rope-is-relative", "--out", __file__], "is a file, and no folder. Choose another folder with --out"),
        (["claims", "--list", "--out", "x"], "--list measures nothing"),
        (["claims", "--seed", -1], "--seed"),
    ],
)
def test_a_mistake_is_refused_with_the_next_step(equi, words, wanted):  # noqa: F811
    code, _, err = equi("study", *words)
    assert code == 2
    assert wanted in err


def test_the_list_of_studies_tells_of_the_ledger(equi):  # noqa: F811
    assert "equiscope study claims" in equi("study")[1]


# --- the page ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def script():
    if not (DOCS / "claims.py").exists():
        pytest.skip("docs/ is not in the source archive")
    spec = importlib.util.spec_from_file_location("claims_page", DOCS / "claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_claim_with_its_verdict_source_command_and_picture(script, rulings):
    text = script.PAGE.read_text(encoding="utf-8")
    sections = script.sections(text)
    assert list(sections) == NAMES
    for claim in LEDGER:
        section = "\n".join(sections[claim.name])
        assert f"“{claim.statement}”" in section
        assert f"`{claim.command}`. *Stated in: {claim.source}. " in section
        if not claim.timed and "Data: seeded random numbers" in section:
            assert f"**{rulings[claim.name].verdict.capitalize()}.**" in section, f"{claim.name}: the quick form disagrees"
    for name in script.SHOWN:
        assert (script.PICTURES / f"claim-{name}.png").stat().st_size < 150_000


def test_a_page_drifts_where_words_verdicts_or_numbers_do_and_not_where_times_do(script, rulings, capsys):
    page = script.page(list(rulings.values()))
    assert script.drift(page, page) == []
    assert script.drift(page, page.replace("**False.** Without the scale", "**True.** Without the scale"))
    timed = next(c for c in LEDGER if c.timed)
    assert script.drift(page, page.replace(rulings[timed.name].figure, "7 ms.")) == []
    assert script.drift(page, page.replace("### rope-is-relative", "### rope-was-relative")) != []
    moved = page.replace("off 1 by 2.2e-16", "off 1 by 1.3e-16").replace("stays at 0.502", "stays at 0.91")
    assert [line.partition(":")[0] for line in script.drift(page, moved)] == ["rope-scores-decay"]
    elsewhere = page.replace("words of tinyshakespeare", "words of another text")
    assert script.drift(page, elsewhere) == []


def test_a_measured_claim_needs_no_limits_and_no_picture():
    assert ClaimMeasurement("It is 1.", "true").limits == ""
