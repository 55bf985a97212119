import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch
import torch.nn.functional as F

from equiscope.data import Translation
from equiscope.data.translation import EncodedPair, SentencePair
from equiscope.errors import InputError
from equiscope.models import Beams, Mixed, build, describe
from equiscope.record import Point, read_run
from equiscope.training import Watcher, bleu, fit, load_run, load_task, open_task, read_recipe, recipe, translation
from equiscope.training.measures import edits
from equiscope.training.task import resolve_spec
from equiscope.training.translation import TranslationTask, most, rdrop_loss

RECIPES = Path(__file__).parents[2] / "recipes"
PAIRS = [
    ("a dog runs", "ein Hund rennt"), ("a cat sleeps", "eine Katze schläft"), ("the dog sleeps", "der Hund schläft"),
    ("the cat runs on the grass", "die Katze rennt auf dem Gras"), ("two men", "zwei Männer"),
    ("a man and a dog", "ein Mann und ein Hund"),
    ("the man sees a cat on the grass", "der Mann sieht eine Katze auf dem Gras"), ("no one is here", "niemand ist hier"),
]  # fmt: skip


def asked(folder: Path, measured: int = len(PAIRS), **changes):
    """A recipe for the eight pairs, which are written into the folder. measured: how many are the validation part."""
    for part, pairs in (("a", PAIRS), ("b", PAIRS[:measured])):
        for side, language in enumerate(("en", "de")):
            (folder / f"{part}.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    names, validation = ([str(folder / f"{part}.{language}") for language in ("en", "de")] for part in ("a", "b"))
    block = {"attention": {"heads": 2, "position": "rope"}, "norm": {"kind": "rms"}, "feedforward": {"inner": 64}}
    data = {
        "task": "translation", "train": names, "validation": validation, "vocabulary": 300, "languages": ["en", "de"],
    } | changes.pop("data", {})  # fmt: skip
    decoder = block | {"attention": {"heads": 2, "position": "rope", "causal": True}, "cross": {"heads": 2}}
    model = {
        "width": 32, "layers": 2, "tied": True, "shared": True, "block": decoder,
        "encoder": {"width": 32, "layers": 2, "block": block},
    } | changes.pop("model", {})  # fmt: skip
    budget = {"steps": 120, "batch": 8} | changes.pop("budget", {})
    optimiser = {"rate": 1e-2, "warmup": 10, "floor": 0.0, "decay": 0.0} | changes.pop("optimiser", {})
    return recipe({"title": "pairs", "data": data, "model": model, "budget": budget, "optimiser": optimiser, **changes})


@pytest.fixture
def task(tmp_path):
    return open_task(asked(tmp_path))


@pytest.fixture
def model(task):
    return build(resolve_spec(task)).double().eval()


def test_padding_changes_nothing_in_the_loss(task, model):
    rows = task.pairs.batch(0, 8)
    assert len({len(row.source) for row in rows}) > 1
    assert len({len(row.target) for row in rows}) > 1
    together = task.loss(model, task.batched(rows, 1, rows[0]))
    alone = sum(task.loss(model, task.batched([row], 1, row)) for row in rows)
    assert together.item() == pytest.approx(alone.item(), rel=1e-13)  # float64: sums in another order


def test_padding_changes_nothing_in_the_gradient(task, model):
    rows = task.pairs.batch(0, 8)

    def gradient(*batches):
        model.zero_grad()
        sum(task.loss(model, batch) for batch in batches).backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    together, alone = gradient(task.batched(rows, 1, rows[0])), gradient(*(task.batched([row], 1, row) for row in rows))
    assert (together - alone).norm() < 1e-12 * alone.norm()


@pytest.mark.parametrize("shares", [2, 3, 5, 16])
def test_shares_of_processes_join_to_the_one_batch(task, model, shares):
    whole, parts = task.batch(0), [task.batch(0, share, shares) for share in range(shares)]
    assert {part.terms for part in parts} == {whole.terms}
    assert sum(part.read for part in parts) == whole.read
    assert whole.terms == int((whole.tensors["targets"] != task.padding).sum())

    def rows(batch):
        both = zip(batch.tensors["source"], batch.tensors["targets"], strict=True)
        found = [tuple(tuple(t for t in side.tolist() if t != task.padding) for side in pair) for pair in both]
        return sorted(pair for pair in found if pair[1])

    assert sorted(pair for part in parts for pair in rows(part)) == rows(whole)
    joined = sum(task.loss(model, part).item() for part in parts)
    assert joined == pytest.approx(task.loss(model, whole).item(), rel=1e-12)


def test_a_share_of_no_pairs_has_a_gradient_of_zeros(task, model):
    row = task.pairs.batch(0, 8)[0]
    task.loss(model, task.batched([], 1, row)).backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_the_loss_is_torchs_cross_entropy_with_smoothing(task, model):
    row = EncodedPair(0, *(side[0] for side in task.pairs.ids["train"]))
    source, target = (torch.tensor(side.astype(int)) for side in row[1:])
    inputs = torch.cat([torch.tensor([task.start]), target[:-1]])
    answers = model(inputs[None], source=source[None])[0]
    wanted = F.cross_entropy(answers, target, label_smoothing=0.1, reduction="sum")
    assert task.loss(model, task.batched([row], 1, row)).item() == pytest.approx(wanted.item(), rel=1e-13)
    p = answers.log_softmax(-1)  # Szegedy et al. 2016: a tenth of the wanted probability goes to all alike
    said = -(0.9 * p.gather(-1, target[:, None]).sum() + 0.1 * p.mean(-1).sum())
    assert wanted.item() == pytest.approx(said.item(), rel=1e-12)


def dropping(tmp_path, **data):
    """A task whose model leaves out a third, and the model."""
    model = {"dropout": 0.3, "encoder": asked(tmp_path).model["encoder"] | {"dropout": 0.3}}
    task = open_task(asked(tmp_path, data=data, model=model))
    return task, build(resolve_spec(task)).double()


def test_r_drop_is_the_papers_loss(tmp_path):
    task, model = dropping(tmp_path, rdrop=5.0)
    batch = task.batch(0)
    torch.manual_seed(3)
    found = task.loss(model.train(), batch)
    torch.manual_seed(3)
    answers = task._answers(model, batch.repeat(2)).unflatten(0, (2, -1))
    wanted = batch.tensors["targets"].flatten()
    assert not torch.equal(*answers)
    p, q = (each[wanted != task.padding].log_softmax(-1) for each in answers)
    nll = sum(F.cross_entropy(each, wanted, ignore_index=task.padding, reduction="sum", label_smoothing=0.1) for each in answers)
    apart = sum(F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((p, q), (q, p)))
    assert found.item() == pytest.approx((nll + 5.0 * apart / 2).item() / 2, rel=1e-12)  # Liang et al. 2021, formula 4
    assert apart > 1e-3


def test_r_drop_without_dropout_is_the_plain_loss(tmp_path):
    plain, model = dropping(tmp_path)
    task, _ = dropping(tmp_path, rdrop=5.0)
    batch = plain.batch(0)

    def gradient(some):
        model.eval().zero_grad()
        loss = some.loss(model, batch)
        loss.backward()
        return loss.item(), torch.cat([p.grad.flatten() for p in model.parameters()])

    (once, own), (both, twice) = gradient(plain), gradient(task)
    assert both == pytest.approx(once, rel=1e-12)
    assert (own - twice).norm() < 1e-12 * own.norm()


def test_r_drop_brings_two_answers_together(tmp_path):
    def apart(**data):
        task, model = dropping(tmp_path, **data)
        optimiser, batch = torch.optim.Adam(model.train().parameters(), 1e-2), task.batch(0)
        for step in range(25):
            torch.manual_seed(step)
            optimiser.zero_grad()
            (task.loss(model, batch) / batch.terms).backward()
            optimiser.step()
        first, second = task._answers(model, batch.repeat(2)).log_softmax(-1).unflatten(0, (2, -1))
        return float(F.kl_div(first, second, reduction="batchmean", log_target=True).detach())

    torch.manual_seed(0)
    alone = apart()
    torch.manual_seed(0)
    assert apart(rdrop=5.0) < alone / 2


def test_r_drop_of_a_model_that_leaves_nothing_out_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Set model\.dropout, e\.g\. 0\.3; or leave"):
        resolve_spec(open_task(asked(tmp_path, data={"rdrop": 5.0})))


def test_r_drop_asks_nothing_of_padding_and_of_a_share_without_pairs(tmp_path):
    task, model = dropping(tmp_path, rdrop=5.0)
    rows = task.pairs.batch(0, 8)
    task.loss(model, task.batched([], 1, rows[0])).backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
    answers, wanted = torch.randn(2, 4, 5), torch.tensor([1, 0, 3, 0])
    found = rdrop_loss(answers, wanted, 0, 0.1, 5.0)
    answers[:, 1] = math.nan
    assert rdrop_loss(answers, wanted, 0, 0.1, 5.0) == found


def test_r_drop_costs_twice(tmp_path):
    (once, _), (both, _) = dropping(tmp_path), dropping(tmp_path, rdrop=5.0)
    batch, spec = once.batch(0), resolve_spec(once)
    assert both.multiply_adds(spec, batch) == 2 * once.multiply_adds(spec, batch)


def test_evaluation_is_without_smoothing_and_over_all_pairs(task, model):
    total = count = 0
    for source, target in zip(*task.pairs.ids["validation"], strict=True):
        source, target = (torch.tensor(side.astype(int)) for side in (source, target))
        answers = model(torch.cat([torch.tensor([task.start]), target[:-1]])[None], source=source[None])[0]
        total, count = total + F.cross_entropy(answers, target, reduction="sum").item(), count + len(target)
    found = task.evaluate(model)
    assert found["loss"] == pytest.approx(total / count, rel=1e-12)
    assert found["perplexity"] == pytest.approx(math.exp(total / count))
    assert next(iter(found)) == "greedy bleu"


def test_one_beam_is_greedy(task, model):
    texts = [pair[0] for pair in PAIRS[:2]]
    greedy = [task.translated(model, [text], beams=1)[0] for text in texts]
    for text, said in zip(texts, greedy, strict=True):
        ids = torch.tensor(task.tokenizer.encode(text))
        line = [task.start]
        for _ in range(most(len(ids))):
            line.append(int(model(torch.tensor([line]), source=ids[None])[0, -1].argmax()))
            if line[-1] == task.end:
                break
        assert said == task.tokenizer.decode(line[1:]).strip()


def test_the_length_penalty_reaches_the_search_and_is_said_with_the_score(task, model, monkeypatch):
    asked = []
    monkeypatch.setattr(translation, "Beams", lambda *how: asked.append(how) or Beams(*how))
    monkeypatch.setattr(task, "data", msgspec.structs.replace(task.data, length_penalty=1.5))
    task.final(model)
    assert asked == [(5, 1.5)]
    assert all(how.endswith("5 beams, length penalty 1.5") for how in task.signatures.values())


def test_lines_are_translated_alone_as_together_and_in_their_order(task, model):
    texts = [pair[0] for pair in PAIRS[1:4]]
    together = task.translated(model, ["", *texts, "  "])
    assert together[0] == together[-1] == ""
    assert together[1:-1] == [task.translated(model, [text])[0] for text in texts]


def test_eight_pairs_are_learned_and_translated_exactly(tmp_path):
    found = asked(tmp_path, evaluation={"every": 60, "samples": 1})
    run = fit(found, open_task(found), tmp_path / "run")
    assert run.state == "finished"
    assert run.result["validation"]["bleu"] == pytest.approx(100)
    _, task = load_task(tmp_path / "run")
    model = load_run(tmp_path / "run")
    for beams in (1, 5):
        answers = task.predict(model, [source for source, _ in PAIRS], beams=beams)
        assert [answer.text() for answer in answers] == [target for _, target in PAIRS]
    sample = read_run(tmp_path / "run").samples[-1]
    assert (sample.prompt, sample.target, sample.answer) == (*PAIRS[0], PAIRS[0][1])
    assert sample.attention is not None
    assert list(sample.attention.shape) == [2, 2, len(sample.tokens), len(sample.source)]


def test_a_run_that_breaks_off_and_goes_on_is_the_run_that_would_have_been(tmp_path):
    found = asked(
        tmp_path, 1, data={"dropout": 0.2}, model={"dropout": 0.2}, budget={"steps": 12, "batch": 3},
        optimiser={"kind": "muon", "warmup": 2}, evaluation={"every": 4, "samples": 0},
    )  # fmt: skip

    def losses(folder):
        return [point.loss for point in read_run(folder).points]

    class Broken(Exception):
        pass

    def breaks(entry):
        if isinstance(entry, Point) and entry.step == 7:
            raise Broken

    fit(found, open_task(found), tmp_path / "whole")
    with pytest.raises(Broken):
        fit(found, open_task(found), tmp_path / "broken", Watcher(entry=breaks))
    fit(found, open_task(found), tmp_path / "broken")
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")
    assert len(losses(tmp_path / "whole")) == 12


def test_translations_and_signatures_are_kept_beside_the_run(tmp_path):
    found = asked(tmp_path, 2, budget={"steps": 2}, optimiser={"warmup": 0})
    fit(found, open_task(found), tmp_path / "run")
    said = (tmp_path / "run" / "validation.txt").read_text(encoding="utf-8").splitlines()
    about = json.loads((tmp_path / "run" / "validation.json").read_text(encoding="utf-8"))
    assert len(said) == 2
    assert about["values"] == read_run(tmp_path / "run").result["validation"]
    assert {"bleu", "bleu lower-cased"} <= about["signatures"].keys()
    assert "tok:13a" in about["signatures"]["bleu"]
    assert "case:lc" in about["signatures"]["bleu lower-cased"]


def test_the_recipe_works_on_the_proverbs(tmp_path):
    changes = ["budget.steps=3", "optimiser.warmup=1", "evaluation.every=3", "engine.precision=float32"]
    small = [f"model.{size}" for size in ("width=32", "layers=1", "encoder.width=32", "encoder.layers=1")]  # it writes much
    found = read_recipe(RECIPES / "multi30k.toml", changes + small, small=True)
    task = open_task(found, RECIPES)
    assert isinstance(task, TranslationTask)
    run = fit(found, task, tmp_path / "run", recipe_folder=RECIPES)
    assert run.result.keys() == {"validation", "test"}
    assert {source.part for source in run.data} == {"train", "validation", "test"}


def test_a_step_in_bfloat16_hides_the_padding_too(task, tmp_path):
    model = build(resolve_spec(task))
    rows = task.pairs.batch(0, 8)
    mixed = Mixed(model, torch.float64)  # the same way, without the rounding
    together = task.loss(mixed, task.batched(rows, 1, rows[0]))
    alone = sum(task.loss(mixed, task.batched([row], 1, row)) for row in rows)
    assert together.item() == pytest.approx(alone.item(), rel=1e-13)


def test_costs_of_a_batch_are_those_of_the_description(task):
    spec, batch = resolve_spec(task), task.batch(0)
    for length, source in ((1, 1), (5, 30), (17, 4)):
        batch = replace(batch, length=length, source=source, size=3)
        assert task.multiply_adds(spec, batch) == pytest.approx(3 * describe(spec, length, source).multiply_adds)


def test_pairs_have_exact_match_and_edits_to_the_nearest_of_several_targets():
    rows = [("record", "R EH K ER D"), ("record", "R IH K AO R D"), ("cat", "K AE T"), ("dog", "D AO G")]
    pairs = [SentencePair(*row, "") for row in rows]
    answers = {"record": "R IH K AO R D", "cat": "K AH T S", "dog": "D AO"}
    found, unit = translation.pair_outcomes(pairs, [answers[pair.source] for pair in pairs])
    assert (unit, found.names, found.errors.tolist()) == ("word", ["record", "cat", "dog"], [0, 2, 1])
    assert found.values == {"exact match": pytest.approx(1 / 3), "edit distance": pytest.approx(3 / (6 + 3 + 3))}
    assert found.targets[0] == "R EH K ER D or R IH K AO R D"
    spelled = [SentencePair("R EH D", "read", "")]
    found, unit = translation.pair_outcomes(spelled, ["red"])
    assert (unit, found.values["edit distance"]) == ("character", 1 / 4)


@pytest.mark.parametrize(("a", "b", "count"), [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0)])
def test_edits_are_levenshteins(a, b, count):
    assert edits(a, b) == edits(b, a) == count


def test_pairs_without_languages_count_what_stands_between_spaces(tmp_path):
    task = open_task(asked(tmp_path, data={"languages": None}))
    task.final(build(resolve_spec(task)).eval())
    assert "tok:none" in task.signatures["bleu"]
    assert not [name for name in task.signatures if name.startswith("bleu ")]
    said, wanted = ["a b c d e."], ["a b c d e ."]  # equal by 13a
    assert bleu.greedy(said, wanted, None) < bleu.greedy(wanted, wanted, None) == pytest.approx(100)


def test_bleu_of_known_texts_is_what_sacrebleu_and_moses_say():
    said, wanted = ["ein Mann steht auf der Straße ."], ["Ein Mann steht auf der Straße."]
    found = bleu.scores(said, wanted, "de")
    assert found.values["bleu lower-cased"] == pytest.approx(100)
    assert found.values["bleu tokenised"] == pytest.approx(100)
    assert found.values["bleu"] == pytest.approx(100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25)  # one word of seven is another
    assert found.words == 7
    assert "sacremoses" in found.signatures["bleu tokenised"]


def test_a_signature_says_that_letters_were_made_small_before():
    cased, small = (bleu.scores(["ein Mann"], ["ein Mann"], "de", lowered) for lowered in (False, True))
    assert small.values == cased.values
    for name in cased.values:
        assert "both sides" not in cased.signatures[name]
        assert small.signatures[name] == f"{cased.signatures[name]}; both sides lower-cased before"


def test_a_recipe_that_makes_letters_small_says_so_beside_its_scores(tmp_path):
    task = open_task(asked(tmp_path, data={"lower": True}))
    task.final(build(resolve_spec(task)).eval())
    assert "both sides lower-cased before" in task.signatures["bleu"]


def test_a_model_without_an_encoder_is_refused(tmp_path):
    with pytest.raises(InputError, match="model with an encoder"):
        resolve_spec(open_task(asked(tmp_path, model={"encoder": None})))


def test_a_vocabulary_that_is_not_the_texts_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"model\.vocabulary is 17, but the texts have \d+ tokens"):
        resolve_spec(open_task(asked(tmp_path, model={"vocabulary": 17})))


def test_options_of_other_tasks_are_refused(task, model):
    with pytest.raises(InputError, match=r"no option of the task translation called 'temperature'\. Known: beams"):
        task.predict(model, ["a dog"], temperature=0.5)


def test_the_data_of_translation_is_said_by_its_name(tmp_path):
    assert isinstance(asked(tmp_path).data, Translation)


def test_a_pair_that_is_longer_than_a_table_of_places_is_refused_before_anything_is_written(tmp_path):
    learned = {"heads": 2, "position": {"scheme": "learned", "length": 48}}
    model = {"block": {"attention": learned | {"causal": True}, "cross": {"heads": 2}}, "encoder": {
        "width": 32, "layers": 2, "block": {"attention": learned}}}  # fmt: skip
    for side, words in (("en", "a dog "), ("de", "ein Hund ")):
        (tmp_path / f"long.{side}").write_text(words * 60 + "\n", encoding="utf-8")
    found = asked(tmp_path, model=model, data={"test": [str(tmp_path / "long.en"), str(tmp_path / "long.de")]})
    with pytest.raises(InputError, match=r"Learned knows positions 0\.\.47, but got \d+\. Use length="):
        fit(found, open_task(found), tmp_path / "run")
    assert not (tmp_path / "run").exists()
