"""What a page holds: every scheme that fits, refusals in a person's words, and no word that is anything but data."""

import base64
import gzip
import json
import re

import msgspec
import pytest
import torch
from tests.explore.short import short_page  # noqa: F401

from equiscope.errors import EquiscopeError, InputError
from equiscope.explore import LIMIT, Choice, explorable, html, write
from equiscope.explore.pages.sentence import BROKEN, GROUPS, SETTINGS, offers, rows
from equiscope.explore.sentence.clocks import tour
from equiscope.explore.sentence.exhibit import exhibit
from equiscope.positions import SCHEMES
from equiscope.program.operations import OPERATIONS
from equiscope.program.replay import replay
from equiscope.record import Explorable, unpack
from equiscope.tokens import Tokens

pytestmark = pytest.mark.xdist_group("explorable")
short = pytest.mark.usefixtures("short_page")


@pytest.fixture(scope="module")
def love():
    return explorable(Choice())


@pytest.fixture
def bundles(tmp_path):
    """A folder with a page bundle of a few letters: these tests are about what stands around it."""
    for name in ("frame.js", "sentence.js"):
        (tmp_path / name).write_text("document.title += '</script><!--';", encoding="utf-8")
    (tmp_path / "sentence.css").write_text("body { margin: 0 }", encoding="utf-8")
    return tmp_path


def leaves(content, program):
    return {leaf.id: torch.from_numpy(unpack(content.pool[leaf.pool])) for leaf in program.leaves}


def test_every_listed_scheme_is_on_the_page_in_every_setting(love):
    found = {(p.scheme, p.setting) for p in love.programs}
    assert {s.name for s in SCHEMES if s().axes in (1, None)} <= {v.name for v in love.schemes}
    assert found == {(v.name, s) for v in love.schemes for s in SETTINGS}
    assert love.notes == []


def test_every_program_runs_on_its_pool_and_every_role_is_a_number_in_it(love):
    for program in love.programs:
        values = replay(program.program, leaves(love, program.program))
        wild = {k for k, v in values.items() if v.is_floating_point() and not v.isfinite().all()}
        masked = {step.id: step.inputs for step in program.program.steps if step.op == "mask"}
        assert wild <= set(masked), program.scheme  # minus infinity is what hides a score, and stands nowhere else
        for scores, visible in (masked[i] for i in wild):
            assert values[scores].isfinite().all()
            assert values[visible].any(-1).all(), "a word that sees nobody"
        assert set(program.roles.values()) <= set(values)
        assert {"words", "input", "scores", "weights", "mixed", "output"} <= set(program.roles)
        assert {step.op for step in program.program.steps} <= set(OPERATIONS)
        assert not [leaf for leaf in program.program.leaves if leaf.label == "a constant"]


def test_the_smallest_page_shows_the_worked_examples(love):
    wanted = {"none": [2.40, 1.60], "index": [5.18, 2.84], "rope": [2.11, 1.71]}
    for program in love.programs:
        if program.scheme in wanted and program.setting == "plain":
            mixed = replay(program.program, leaves(love, program.program))[program.roles["mixed"]]
            assert mixed[0].round(decimals=2).tolist() == wanted[program.scheme]


def test_claims_on_the_page_name_every_action(love):
    for program in love.programs:
        assert [c.action for c in program.claims] == ["permute", "shift", "reverse"]
        assert all(c.reason for c in program.claims)
        assert all(c.holds or c.decided_by for c in program.claims)


@pytest.mark.parametrize("causal", [False, True])
def test_what_the_page_explains_is_what_the_model_computes(causal):
    """The exhibit walks through the model's parts itself, to keep what lies between; it must arrive where the model arrives."""
    for offer in offers(2, 5):
        made = exhibit(offer.make(), width=8, heads=2, seed=3, causal=causal)
        tokens = Tokens.of(rows(["one", "two", "three", "four", "five"], Choice(width=8, heads=2, seed=3)))
        assert torch.equal(made(tokens)["output"], made.model(tokens)), offer.variant.name
        with_class = exhibit(offer.make(), width=8, heads=2, seed=3, causal=causal, class_token=True)
        assert torch.equal(with_class(tokens)["class"], with_class.model(tokens)), offer.variant.name


def test_schemes_of_one_group_stand_side_by_side_under_the_place_where_they_act(love):
    groups = [v.group for v in love.schemes]
    assert [g for g, before in zip(groups, [None, *groups], strict=False) if g != before] == ["", *GROUPS.values(), BROKEN]
    wanted = {
        "none": "",
        "learned": "embed",
        "rope": "rotate",
        "t5": "score_bias",
        "deberta": "content_bias",
        "rope-two-speeds": BROKEN,
    }
    assert {v.name: v.group for v in love.schemes if v.name in wanted} == {k: GROUPS.get(w, w) for k, w in wanted.items()}


def test_teaching_variants_say_which_scheme_they_break(love):
    broken = {v.name: v.switch for v in love.schemes if v.switch}
    assert broken == {"rope-query-only": "rope", "rope-two-speeds": "rope"}


def test_one_rotation_shifts_the_encodings_of_two_positions():
    program = tour()["carry"]
    difference = replay(program)[program.named["difference"]]
    assert difference.abs().max() < 1e-14


def test_a_page_survives_json(love):
    assert msgspec.json.decode(msgspec.json.encode(love), type=Explorable) == love


@short
def test_equal_requests_give_equal_pages():
    assert msgspec.json.encode(explorable(Choice())) == msgspec.json.encode(explorable(Choice()))


@short
def test_five_hundred_words_become_the_first_with_a_note():
    content = explorable(Choice(sentence=" ".join(f"w{i}" for i in range(500))))
    assert content.words == [f"w{i}" for i in range(LIMIT)]
    assert content.notes == [
        f"The sentence has 500 words; the number-by-number pages take {LIMIT}, so they show the first {LIMIT}."
    ]
    assert len(content.paragraph) > 20


def test_a_scheme_that_does_not_fit_is_left_out_with_a_reason():
    content = explorable(Choice(width=3))
    assert "rope" not in {v.name for v in content.schemes}
    assert any(note.startswith("RoPE is left out: Rope rotates pairs") for note in content.notes)
    assert not [p for p in content.programs if p.scheme == "rope"]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"sentence": "  "}, "The sentence has no words. Give at least one"),
        ({"heads": 3}, "3 heads do not divide a width of 2. Use --width 6"),
        ({"position": "rop"}, "no position scheme called 'rop'. Did you mean rope. Known: none, index, sinusoidal"),
        ({"position": "rope", "width": 3}, "Rope rotates pairs of columns"),
        ({"position": "sinusoidal", "width": 5}, "the width is 5. Use 6 or 4"),
        ({"width": 2000}, "Use --width 1024 or less"),
        ({"width": 0}, "do not divide"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_persons_words(asked, wanted):
    with pytest.raises(EquiscopeError, match=wanted):
        explorable(Choice(**asked))


def test_edited_weights_are_shared_by_all_schemes(love):
    """One entry in the pool for what is the same everywhere: an edit changes it for every scheme."""
    keys = {(p.scheme, p.setting): {leaf.id: leaf.pool for leaf in p.program.leaves} for p in love.programs}
    query = {k: v for k, names in keys.items() for name, v in names.items() if name.endswith("attention.q_proj.weight.mT")}
    assert len(set(query.values())) <= 2  # the concatenated scheme is wider
    assert len(query) == len(keys)


@pytest.mark.parametrize("width", [2, 8])
def test_every_offer_says_what_it_is(width):
    for offer in offers(width // 2):
        assert offer.variant.title
        assert offer.variant.summary.endswith(".")
        assert offer.make().sized(width, 1, width)


# --- the file ---------------------------------------------------------------------------------------------------------
EVIL = "<script>alert(1)</script> </title><img src=x onerror=alert(2)> {data} &amp; \u2028"


@short
def test_a_sentence_stays_data_whatever_it_says(bundles):
    content = explorable(Choice(sentence=EVIL))
    text = html(content, bundles=bundles)
    assert "alert(" not in text.replace("&lt;script&gt;alert(1)&lt;/script&gt;", "").replace("onerror=alert(2)&gt;", "")
    assert "<img" not in text
    assert text.count("<script") == text.count("</script>") == 3  # of the frame, the record and the page
    assert text.count("</title>") == 1
    data = re.search(r'id="explorable">([^<]*)</script>', text).group(1)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data)
    assert json.loads(gzip.decompress(base64.b64decode(data)))["words"] == content.words == EVIL.split()


def test_a_page_may_ask_nothing_of_any_network(love, bundles):
    text = html(love, bundles=bundles)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert "connect-src" not in policy
    assert not re.search(r'(?:src|href)="', text)
    assert "<title>Love conquers all - equiscope</title>" in text


def test_without_a_bundle_the_way_to_one_is_named(love, tmp_path):
    with pytest.raises(InputError, match=r"no page bundle. From a clone run `python3 run.py setup`"):
        html(love, bundles=tmp_path)


def test_a_file_is_written_whole_or_not_at_all(love, tmp_path, monkeypatch):
    target = tmp_path / "page.html"
    assert write(love, target) == target
    assert target.read_text(encoding="utf-8") == html(love)
    target.write_text("before", encoding="utf-8")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(InputError, match=r"cannot be written.*No space left on device. Choose another file"):
        write(love, target)
    assert target.read_text(encoding="utf-8") == "before"
    assert not list(tmp_path.glob("*.part")), "what was begun is left behind"


def test_a_folder_that_does_not_exist_is_named(love, tmp_path):
    with pytest.raises(InputError, match=r"nowhere.*there is no folder"):
        write(love, tmp_path / "nowhere" / "page.html")
    with pytest.raises(InputError, match="cannot be written"):
        write(love, tmp_path)
