"""Beam search: token for token what transformers finds."""

import pytest
import torch
from tests.checkpoints.test_parity import ids
from tests.models.test_generate_pairs import paired
from tests.pairwise import each_value

from equiscope.errors import InputError
from equiscope.models import Sampling, generate
from equiscope.models.beam import Beams, search

STEPS = 12
TEXTS = [ids()[0], ids()[1, :7]]  # of different lengths
NAMES = ("gpt2", "llama", "t5", "marian")
names = pytest.mark.parametrize("name", NAMES)


def theirs_and_ours(theirs, ours, beams, stop):
    """The answers of both, lists of ids for each text; theirs from one batch with a mask."""
    said = {"eos_token_id": stop or None, "pad_token_id": 0, "num_beams": beams.count, "num_return_sequences": beams.returned,
            "length_penalty": beams.length_penalty, "early_stopping": beams.early_stopping, "do_sample": False,
            "max_new_tokens": STEPS,
            "forced_eos_token_id": None, "output_scores": True, "return_dict_in_generate": True}  # fmt: skip
    mask, given = torch.ones(2, 12, dtype=torch.long), ids().clone()
    if ours.encoder is None:
        theirs.set_attn_implementation("sdpa")  # step by step, Llama's hidden rows are NaN in float64
        mask[1, :5] = 0
        given[1] = torch.cat([ids()[1, 7:], TEXTS[1]])
        made = theirs.generate(given * mask, attention_mask=mask, **said)
        found, begun = search(ours, TEXTS, STEPS, beams, stop), 12
    else:
        mask[1, 7:] = 0
        start = getattr(theirs.config, "decoder_start_token_id", 0)
        begin = torch.full((2, 1), start)
        made = theirs.generate(given * mask, attention_mask=mask, decoder_input_ids=begin, decoder_start_token_id=start,
                               use_cache=False, **said)  # fmt: skip
        found, begun = search(ours, begin, STEPS, beams, stop, source=TEXTS), 1
    rows = [ended(row[begun:].tolist(), stop) for row in made.sequences]
    return rows, made.sequences_scores, [one for several in found for one in several]


def ended(row, stop):
    first = min((row.index(s) for s in stop if s in row), default=None)
    return row if first is None else row[: first + 1]


def likely_ends(ours, name):
    """Two tokens that greedy writing uses, so that answers do end."""
    begin = (
        {"prompts": TEXTS} if ours.encoder is None else {"prompts": torch.full((2, 1), 49 * (name == "marian")), "source": TEXTS}
    )
    first, second = generate(ours, steps=STEPS, **begin)
    return [int(first[3]), int(second[5])]


@each_value(
    pytest.mark.parametrize("ends", [False, True], ids=["no end", "ends"]),
    pytest.mark.parametrize(
        ("early", "penalty"), [(False, 0.6), (False, 1.0), (False, 2.0), (True, 1.0), ("never", 2.0), ("never", -1.0)], ids=str
    ),
    names,
)
def test_the_best_answers_are_theirs(name, early, penalty, ends, tmp_path):
    theirs, ours = paired(name, tmp_path)
    stop = likely_ends(ours, name) if ends else []
    beams = Beams(4, penalty, early, returned=3)
    rows, scores, found = theirs_and_ours(theirs, ours, beams, stop)
    assert [one.ids.tolist() for one in found] == rows
    assert torch.allclose(torch.tensor([one.score for one in found]), scores, rtol=1e-4)  # theirs are float32


@names
def test_one_beam_is_greedy(name, tmp_path):
    _, ours = paired(name, tmp_path)
    given = {"prompts": TEXTS} if ours.encoder is None else {"prompts": torch.zeros(2, 1, dtype=torch.long), "source": TEXTS}
    found = search(ours, steps=STEPS, beams=Beams(1), **given)
    assert [f[0].ids.tolist() for f in found] == [row.tolist() for row in generate(ours, steps=STEPS, **given)]


def test_generate_gives_the_best_answer_and_takes_no_sampling_beside(tmp_path):
    _, ours = paired("gpt2", tmp_path)
    found = generate(ours, TEXTS, STEPS, stop=[7], beams=Beams(3))
    assert [f.tolist() for f in found] == [f[0].ids.tolist() for f in search(ours, TEXTS, STEPS, Beams(3), [7])]
    with pytest.raises(InputError, match="Beam search samples nothing"):
        generate(ours, TEXTS, STEPS, Sampling(temperature=1.0), beams=Beams(3))


def test_a_text_beside_others_is_answered_as_alone(tmp_path):
    _, ours = paired("gpt2", tmp_path)
    together, stop = search(ours, TEXTS, STEPS, Beams(3), [7]), [7]
    for text, (found,) in zip(TEXTS, together, strict=True):
        ((alone,),) = search(ours, text, STEPS, Beams(3), stop)
        assert torch.equal(found.ids, alone.ids)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 0},
        {"count": 2, "returned": 3},
        {"early_stopping": "soon"},
        {"early_stopping": 1},
        {"count": 2.5},
        {"length_penalty": float("nan")},
        {"length_penalty": 400},
    ],
    ids=str,
)
def test_what_is_no_search_is_refused(wrong, unchecked):
    with pytest.raises(InputError):
        Beams(**wrong)


def test_forbidden_words_are_theirs(tmp_path):
    theirs, ours = paired("gpt2", tmp_path)
    free = search(ours, TEXTS[:1], STEPS, Beams(3))[0][0].ids
    never = tuple(sorted(set(free.tolist())))[:3]
    wanted = theirs.generate(TEXTS[0][None], max_new_tokens=STEPS, num_beams=3, do_sample=False, pad_token_id=0, eos_token_id=None,
                             bad_words_ids=[[i] for i in never])  # fmt: skip
    found = search(ours, TEXTS[:1], STEPS, Beams(3, banned=never))[0][0].ids
    assert torch.equal(found, wanted[0, len(TEXTS[0]) :])
    assert not set(never) & set(found.tolist())


def test_more_beams_than_words_are_refused(tmp_path):
    _, ours = paired("gpt2", tmp_path)
    with pytest.raises(InputError, match="26 beams need a vocabulary of 52 or more, but the model's is 50"):
        search(ours, TEXTS, STEPS, Beams(26))
