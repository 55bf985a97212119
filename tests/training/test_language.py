"""Learning to continue texts: all prefixes at once is each of them; every place is measured once; answers end where they should."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tokenizers.normalizers import Lowercase, Replace

from equiscope.errors import GuardFailed, InputError, UnknownName
from equiscope.models import build
from equiscope.symmetry import relative_error
from equiscope.tokens import by_bytes, by_characters
from equiscope.training import fit, load_run, load_task, open_task, recipe, resolve_spec
from equiscope.training.reading import merged
from tests.training.small import SAMPLE, plain, small

pytestmark = pytest.mark.quick


def head(position="rope", **more):
    return {"block": {"attention": {"heads": 2, "position": position, "causal": True, **more}}}


@pytest.mark.parametrize("position", ["rope", "sinusoidal", "alibi", "t5", {"scheme": "learned", "length": 16}])
def test_learning_all_prefixes_at_once_is_learning_from_each_by_itself(tmp_path, position):
    _, task = small(tmp_path, model=head(position), data={"context": 7}, budget={"batch": 3})
    model = build(resolve_spec(task)).double()
    batch = task.batch(0)
    at_once = task.loss(model, batch)
    weights = list(model.parameters())
    gradients = torch.autograd.grad(at_once, weights)
    inputs, wanted = batch.tensors["inputs"], batch.tensors["targets"]
    total = torch.zeros((), dtype=torch.float64)
    for row in range(len(inputs)):
        for end in range(1, inputs.shape[1] + 1):  # the prefix alone: no mask is needed to hide what is not there
            answer = model(inputs[row : row + 1, :end])[:, -1]
            total = total + F.cross_entropy(answer, wanted[row : row + 1, end - 1], reduction="sum")
    assert batch.terms == inputs.numel()
    assert relative_error(at_once, total) < 1e-6  # the loss is summed in float32
    for one, other in zip(gradients, torch.autograd.grad(total, weights), strict=True):
        assert relative_error(one, other) < 1e-5


def test_in_float64_the_two_are_equal_to_rounding(tmp_path):
    _, task = small(tmp_path, model=head(), data={"context": 7}, budget={"batch": 3})
    model = build(resolve_spec(task)).double()
    batch = task.batch(0)
    inputs, wanted = batch.tensors["inputs"], batch.tensors["targets"]
    at_once = F.cross_entropy(model(inputs).flatten(0, 1), wanted.flatten(), reduction="sum")
    each = torch.stack([
        F.cross_entropy(model(inputs[:, :end])[:, -1], wanted[:, end - 1], reduction="sum") for end in range(1, inputs.shape[1] + 1)
    ]).sum()  # fmt: skip
    assert relative_error(at_once, each) < 1e-13  # measured 2e-16
    weights = list(model.parameters())
    for one, other in zip(torch.autograd.grad(at_once, weights), torch.autograd.grad(each, weights), strict=True):
        assert relative_error(one, other) < 1e-12


def test_without_the_mask_it_would_not_be(tmp_path):
    _, task = small(tmp_path, model=head(), data={"context": 7}, budget={"batch": 3})
    spec = resolve_spec(task)
    open_eyed = replace(spec.uniform_block, attention=replace(spec.uniform_block.attention, causal=False))
    model = build(replace(spec, block=open_eyed)).double()
    inputs, wanted = task.batch(0).tensors["inputs"], task.batch(0).tensors["targets"]
    at_once = F.cross_entropy(model(inputs).flatten(0, 1), wanted.flatten(), reduction="sum")
    each = sum(F.cross_entropy(model(inputs[:, :end])[:, -1], wanted[:, end - 1], reduction="sum") for end in range(1, 8))
    assert relative_error(at_once, each) > 1e-3


def test_shares_of_a_step_are_the_step(tmp_path):
    _, task = small(tmp_path, budget={"batch": 7})
    whole = task.batch(3)
    for shares in (2, 3, 7):
        parts = [task.batch(3, share, shares) for share in range(shares)]
        assert {part.terms for part in parts} == {whole.terms}
        rows = torch.cat([part.tensors["inputs"] for part in parts])
        assert sorted(rows.tolist()) == sorted(whole.tensors["inputs"].tolist())


@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_a_part_is_measured_place_by_place(tmp_path, overlap):
    _, task = small(tmp_path, data={"overlap": overlap, "held_out": 0.02})
    model = build(resolve_spec(task)).eval()
    ids = torch.from_numpy(task.passages.ids["validation"].astype("int64"))
    span, fresh = 16, 16 - round(16 * overlap)
    total = 0.0
    with torch.no_grad():
        for place in range(1, len(ids)):  # the answer after ids[:place], read from where its passage begins
            passage = max(0, (place - 1 - (span - fresh)) // fresh) if overlap else (place - 1) // span
            scores = model(ids[None, passage * fresh : place])[0, -1]
            total += float(F.cross_entropy(scores, ids[place]))
    found = task.evaluate(model)
    assert found["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert found["bits per character"] == pytest.approx(
        total / (task.passages.characters["validation"] - 1) / math.log(2), rel=1e-5
    )


def test_bits_are_of_characters_whatever_a_token_is(tmp_path):
    _, characters = small(tmp_path)
    _, pieces = small(tmp_path, data={"tokens": "pieces", "vocabulary": 300})
    assert characters.passages.characters == pieces.passages.characters
    found = pieces.evaluate(build(resolve_spec(pieces)))
    tokens = len(pieces.passages.ids["validation"]) - 1
    given = len(pieces.tokenizer.decode(pieces.passages.ids["validation"][:1].tolist()))  # which nobody asks for
    assert given >= 1
    assert found["bits per character"] == pytest.approx(
        found["loss"] * tokens / (pieces.passages.characters["validation"] - given) / math.log(2)
    )


def test_there_are_no_bits_of_characters_that_a_token_for_the_unknown_hides(tmp_path):
    known = SAMPLE.read_text(encoding="utf-8")
    for name, texts, left in (("all", known, True), ("some", known.replace("e", ""), False)):
        by_characters(texts, unknown="<unknown>").save(tmp_path / f"{name}.json")
        _, task = small(tmp_path, data={"tokens": str(tmp_path / f"{name}.json")})
        assert ("bits per character" in task.evaluate(build(resolve_spec(task)))) == left


def test_a_share_of_the_training_part_is_its_beginning(tmp_path):
    _, all_ = small(tmp_path)
    _, half = small(tmp_path, data={"share": 0.5})
    some = half.passages.ids["train"]
    assert len(some) == math.ceil(len(all_.passages.ids["train"]) / 2)
    assert (some == all_.passages.ids["train"][: len(some)]).all()
    assert half.passages.characters["train"] == len(half.passages.tokenizer.decode(some.tolist()))
    assert len(half.passages.ids["validation"]) == len(all_.passages.ids["validation"])
    with pytest.raises(InputError, match="The train part has 3 tokens, but one passage takes"):
        small(tmp_path, data={"share": 0.001})


def test_there_are_none_where_ids_leave_capitals_or_spaces_out(tmp_path):
    for name, normalizer, left in (("all", None, True), ("lower", Lowercase(), False), ("narrow", Replace(" ", ""), False)):
        made = by_bytes()
        if normalizer is not None:
            made.inner.normalizer = normalizer
        made.save(tmp_path / f"{name}.json")
        _, task = small(tmp_path, data={"tokens": str(tmp_path / f"{name}.json")})
        assert ("bits per character" in task.evaluate(build(resolve_spec(task)))) == left


@pytest.mark.parametrize("position", ["rope", {"scheme": "learned", "length": 8}, {"scheme": "learned", "length": 16}])
@pytest.mark.parametrize("context", [2, 3, 8])
def test_a_text_goes_on_past_the_context_of_any_scheme(tmp_path, position, context):
    _, task = small(tmp_path, model=head(position), data={"context": context})
    model = build(resolve_spec(task)).eval()
    for given in ("T", "To be, or not to be, that is"):
        answer = task.predict(model, [given], steps=12)[0]
        assert answer.given == given
        assert len(answer.answer) == 12


def test_while_it_fits_a_continuation_reads_all_of_the_text(tmp_path):
    _, task = small(tmp_path, data={"context": 32})
    model = build(resolve_spec(task)).eval()
    given, ids = "To be", task.tokenizer.encode("To be")
    with torch.no_grad():
        for _ in range(20):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert given + task.predict(model, [given], steps=20, temperature=0)[0].answer == task.tokenizer.decode(ids)


@pytest.mark.parametrize(("letters", "many"), [(17, 2), (32, 2), (40, 3)])
def test_a_short_validation_part_gives_as_many_samples_as_it_has_passages(tmp_path, letters, many):
    (tmp_path / "short.txt").write_text(("to be or not " * 9)[:letters])
    _, task = small(tmp_path, data={"validation": str(tmp_path / "short.txt")}, evaluation={"samples": 5})
    found = task.samples(build(resolve_spec(task)).eval(), 0)
    assert len(found) == many
    assert found[0].attention is not None


def test_an_example_of_no_text_is_left_out(tmp_path, monkeypatch):
    _, task = small(tmp_path, evaluation={"samples": 2})
    monkeypatch.setattr(type(task.tokenizer), "decode", lambda tokenizer, ids: "")
    assert task.samples(build(resolve_spec(task)).eval(), 0) == []


def test_the_same_seed_writes_the_same_text(tmp_path):
    _, task = small(tmp_path)
    model = build(resolve_spec(task)).eval()
    one, again, other = (task.predict(model, ["To be"], steps=20, seed=seed)[0].answer for seed in (1, 1, 2))
    assert one == again != other


def test_a_text_ends_before_what_should_stop_it(tmp_path):
    _, task = small(tmp_path)
    model = build(resolve_spec(task)).eval()
    whole = task.predict(model, ["To be"], steps=30, stop="\x00")[0].answer
    assert len(whole) == 30
    for stop in (whole[7:9], [whole[12:14], whole[7:9]]):
        ended = task.predict(model, ["To be"], steps=30, stop=stop)[0].answer
        assert whole.startswith(ended)
        assert len(ended) <= 7


def test_what_cannot_go_on_is_refused(tmp_path):
    _, task = small(tmp_path)
    model = build(resolve_spec(task)).eval()
    with pytest.raises(InputError, match=r"There is no text to continue\. Give at least one character"):
        task.predict(model, [""])
    with pytest.raises(InputError, match=r"^Text 2 of 3: There is no text to continue"):
        task.predict(model, ["To", "", "be"])
    with pytest.raises(InputError, match=r"'€' \(U\+20AC\) has no id\. This model knows the characters of its texts only"):
        task.predict(model, ["To €"])
    with pytest.raises(UnknownName, match=r"no option of the task language called 'beams'\. Known: steps, stop, seed"):
        task.predict(model, ["To be"], beams=4)
    with pytest.raises(InputError, match=r"steps is 1 or more .* but got steps=0"):
        task.predict(model, ["To be"], steps=0)
    with pytest.raises(InputError, match=r"stop a text of a character or more"):
        task.predict(model, ["To be"], stop="")


def test_a_vocabulary_that_the_texts_do_not_have_is_refused(tmp_path):
    _, task = small(tmp_path, model={"vocabulary": 10})
    with pytest.raises(InputError, match=r"model\.vocabulary is 10, but the texts have \d+ tokens\. Leave it out"):
        resolve_spec(task)


def test_a_run_goes_on_with_its_own_tokenizer_and_refuses_a_larger_one(tmp_path):
    found, task = small(tmp_path, budget={"steps": 3}, evaluation={"every": 3})
    fit(found, task, tmp_path / "run")
    _, recalled = load_task(tmp_path / "run")
    assert recalled.predict(load_run(tmp_path / "run"), ["To be"], steps=3)[0].given == "To be"
    begun = found.to_dict() | {"model": {"start": str(tmp_path / "run")}}
    own = open_task(recipe(merged(begun, {"data": {"tokens": "checkpoint"}})))
    assert own.tokenizer.inner.to_str() == task.tokenizer.inner.to_str()
    assert resolve_spec(own) == resolve_spec(task)
    with pytest.raises(InputError, match=rf"The checkpoint knows {task.tokenizer.size} ids, but this tokenizer has 256"):
        resolve_spec(open_task(recipe(merged(begun, {"data": {"tokens": "bytes"}}))))
    (tmp_path / "other.txt").write_text("First\nsecond: ß\n" * 40, encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.txt, line 2: 'ß' .*\. Start from a model whose tokenizer knows it"):
        open_task(recipe(merged(begun, {"data": {"tokens": "checkpoint", "train": str(tmp_path / "other.txt")}})))


def test_the_guard_of_a_recipe_stops_a_model_that_reads_later_tokens(tmp_path):
    _, task = small(tmp_path, model=head(), data={"context": 7}, evaluation={"guard": True})
    model = build(resolve_spec(task)).eval()
    assert task.evaluate(model)["loss"] > 0
    forward = model.forward
    model.forward = lambda ids: forward(ids) + forward(ids).mean(1, keepdim=True)
    with pytest.raises(GuardFailed, match="reads later tokens"):
        task.evaluate(model)


def test_the_guard_is_for_the_task_language(tmp_path):
    data = {"task": "synthetic", "generate": "copy", "length": 8, "symbols": 5}
    with pytest.raises(InputError, match=r"evaluation\.guard is for the task language, but the task is synthetic"):
        open_task(recipe(plain(tmp_path, evaluation={"guard": True}) | {"data": data}))
