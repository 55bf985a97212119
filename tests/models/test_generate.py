"""Generation: token for token what transformers generates, and what sampling promises (M5)."""

import numpy as np
import pytest
import torch
from tests.checkpoints.test_parity import ids, peer
from tests.pairwise import few

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.models import (
    Attention,
    Baseline,
    Beams,
    Block,
    Compiled,
    CPUDecoder,
    Draft,
    Norm,
    Sampling,
    Spec,
    build,
    generate,
    stream,
    windowed,
)  # fmt: skip
from equiscope.models.decoding import Decoding, id_tensors
from equiscope.positions import Alibi, Learned, Rope

pytestmark = pytest.mark.quick

NAMES = ("gpt2", "llama 3.1, tied", "mistral, window", "qwen3", "gpt-neox")


def model(position=None, seed=0):
    torch.manual_seed(seed)
    block = Block(Attention(heads=2, position=position or Rope(), causal=True), Norm())
    return build(Spec(16, vocabulary=40, outputs=40, layers=2, block=block)).eval()


@pytest.mark.parametrize("name", NAMES)
def test_greedy_is_transformers_token_for_token(name, tmp_path):
    theirs = peer(name).double()
    theirs.save_pretrained(tmp_path)
    wanted = theirs.generate(ids(), max_new_tokens=24, do_sample=False, pad_token_id=0, eos_token_id=None)[:, 12:]
    found = generate(eq.load(tmp_path), ids(), 24)
    assert torch.equal(torch.stack(found), wanted)


@pytest.mark.parametrize("settings", [{"repetition_penalty": 1.3}, {"repetition_penalty": 0.7}], ids=str)
def test_greedy_with_a_penalty_is_theirs(settings, tmp_path):
    theirs = peer("gpt2")
    theirs.save_pretrained(tmp_path)
    wanted = theirs.generate(
        ids(),
        max_new_tokens=20,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        repetition_penalty=settings["repetition_penalty"],
    )
    assert torch.equal(torch.stack(generate(eq.load(tmp_path), ids(), 20, Sampling(**settings))), wanted[:, 12:])


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.7}, {"temperature": 1.0, "top_k": 5}, {"temperature": 1.5, "top_p": 0.6}, {"temperature": 1.0, "min_p": 0.2},
     {"temperature": 0.9, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.2}],
    ids=str,
)  # fmt: skip
def test_filters_are_theirs(settings):
    from transformers import LogitsProcessorList
    from transformers.generation import logits_process as theirs

    scores = 3 * torch.randn(4, 40, generator=torch.Generator().manual_seed(1))
    prompt = torch.randint(40, (4, 6), generator=torch.Generator().manual_seed(2))
    made = {
        "repetition_penalty": theirs.RepetitionPenaltyLogitsProcessor, "temperature": theirs.TemperatureLogitsWarper,
        "top_k": theirs.TopKLogitsWarper, "top_p": theirs.TopPLogitsWarper, "min_p": theirs.MinPLogitsWarper,
    }  # fmt: skip
    processors = LogitsProcessorList([kind(settings[name]) for name, kind in made.items() if name in settings])
    seen = torch.zeros(4, 40, dtype=torch.bool).scatter(1, prompt, True)
    assert torch.allclose(Sampling(**settings).filtered(scores, seen), processors(prompt, scores.clone()))


@pytest.mark.parametrize("position", [Rope(), Alibi(), Learned(64)], ids=lambda p: p.name)
def test_prompts_of_different_lengths_go_on_as_each_alone(position):
    made = model(position).double()
    prompts = [torch.arange(n) % 40 for n in (1, 7, 4)]
    together = generate(made, prompts, 10)
    for prompt, found in zip(prompts, together, strict=True):
        assert torch.equal(found, generate(made, prompt, 10)[0])


def test_the_cache_gives_what_the_whole_text_gives():
    made, text = model().double(), torch.arange(5)
    for token in stream(made, text, 12):
        with torch.no_grad():
            assert token.item() == made(text)[-1].argmax().item()
        text = torch.cat([text, token])


def test_a_seed_repeats_and_another_does_not():
    made, sampling = model(), Sampling(temperature=1.0)
    one, again, other = (generate(made, torch.arange(5), 20, sampling, seed=s)[0].tolist() for s in (1, 1, 2))
    assert one == again != other


@pytest.mark.slow
def test_samples_follow_the_probabilities():
    made = model()
    with torch.no_grad():
        wanted = (made(torch.arange(5))[-1] / 2).softmax(-1)
    drawn = torch.cat(generate(made, torch.arange(5).repeat(20000, 1), 1, Sampling(temperature=2.0), seed=0))
    share = torch.bincount(drawn, minlength=40) / 20000
    assert (share - wanted).abs().max() < 5 * (wanted.max() / 20000) ** 0.5  # five standard errors


def test_a_sequence_ends_with_its_stop_token_and_the_others_go_on():
    made = model()
    prompts = torch.arange(10).view(2, 5)
    free = generate(made, prompts, 15)
    stop = int(free[0][3])
    first = free[0].tolist().index(stop)
    found = generate(made, prompts, 15, stop={stop})
    assert found[0].tolist() == free[0][: first + 1].tolist()
    others = free[1].tolist()
    assert found[1].tolist() == (others[: others.index(stop) + 1] if stop in others else others)
    assert len(list(stream(made, prompts[:1], 15, stop={stop}))) == first + 1


def test_a_table_that_ends_is_said_before_the_first_step():
    with pytest.raises(InputError, match=r"knows positions 0\.\.15, but got 16\. Use length=17"):
        next(stream(model(Learned(16)), torch.arange(5), 13))
    with pytest.raises(InputError, match=r"such as Rope\(\)\. After this prompt there is room for 12 tokens\."):
        next(stream(model(Learned(16)), torch.arange(5), 40))
    assert len(generate(model(Learned(16)), torch.arange(5), 12)[0]) == 12


def test_a_table_that_ends_is_said_for_the_longest_prompt_wherever_it_stands():
    made, prompts = model(Learned(16)), [torch.arange(3), torch.arange(10)]
    with pytest.raises(InputError, match=r"got 19\. .* After the longest prompt there is room for 7 tokens\."):
        next(stream(made, prompts, 11))
    assert len(generate(made, prompts, 7)[1]) == 7
    with pytest.raises(InputError, match=r"got 16\. Use length=17 or more, or a scheme without a table such as Rope\(\)\.$"):
        generate(made, torch.arange(17), 1)


@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        (torch.zeros(0, dtype=torch.long), InputError, "A prompt is empty"),
        (torch.zeros(3), ShapeError, "Prompts are lists of ids"),
        (torch.tensor([3, 40]), InputError, r"ids 0\.\.39, but got 3\.\.40"),
    ],
    ids=["empty", "floats", "unknown id"],
)
def test_prompts_that_are_none_are_refused(prompt, error, message):
    with pytest.raises(error, match=message):
        generate(model(), prompt, 3)


def test_ids_come_to_where_the_model_is():
    there = torch.nn.Linear(1, 1, device="meta")
    rows = id_tensors([[1, 2], torch.tensor([3], dtype=torch.int32)], there, "Prompts", "A prompt")
    assert [(row.device.type, row.dtype) for row in rows] == [("meta", torch.int64), ("meta", torch.int32)]


def test_a_model_that_cannot_go_on_is_refused():
    with pytest.raises(InputError, match="Only a model whose outputs are its vocabulary"):
        generate(build(Spec(8, vocabulary=10, outputs=3)), torch.arange(3), 2)
    with pytest.raises(InputError, match="This model is bidirectional"):
        generate(build(Spec(8, vocabulary=10, outputs=10)), torch.arange(3), 2)


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    "asked",
    [{}, {"sampling": Sampling(1.0)}, {"beams": Beams(2)}, {"draft": None}, {"window": 4}],
    ids=["greedy", "sampled", "beams", "draft", "window"],
)
def test_answers_that_are_no_numbers_are_said(asked, number):
    wrong = model()
    with torch.no_grad():
        wrong.norm.weight.fill_(number)
    asked = {name: Draft(model(seed=1)) if name == "draft" else value for name, value in asked.items()}
    for writer in (wrong, CPUDecoder(wrong)) if "window" not in asked else (wrong,):
        with pytest.raises(InputError, match=r"The model's logits are not finite \(float32\)"):
            generate(writer, [[1, 2]], 3, **asked)


def test_answers_that_become_no_numbers_are_said_after_the_last_step(monkeypatch):
    read, late = Decoding.step, model()

    def spoiled(self, ids):
        return read(self, ids) * torch.nan

    monkeypatch.setattr(Decoding, "step", spoiled)
    for asked in ({}, {"beams": Beams(2)}, {"draft": Draft(model(seed=1))}):
        with pytest.raises(InputError, match="not finite"):
            generate(late, [[1, 2]], 4, **asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": None},
        {"temperature": b"1"},
        {"temperature": 10**400},
        {"temperature": -1.0},
        {"top_p": np.True_},
        {"top_k": 0},
        {"top_k": 2.5},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": "a"},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(wrong, unchecked):
    (name,) = wrong
    with pytest.raises(InputError, match=f"{name} is in"):
        Sampling(**wrong)


def test_a_temperature_that_float32_cannot_divide_by_is_refused():
    with pytest.raises(InputError, match="temperature is 0, or 1e-30 or more"):
        Sampling(temperature=1e-42)
    assert len(generate(model(), torch.arange(3), 4, Sampling(temperature=1e-30), seed=0)[0]) == 4


@pytest.mark.parametrize("choice", [{"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.1}], ids=str)
def test_what_chooses_among_draws_is_refused_where_nothing_is_drawn(choice):
    with pytest.raises(InputError, match="temperature 0 samples nothing"):
        Sampling(**choice)
    assert Sampling(top_p=1.0, min_p=0.0) == Sampling(temperature=0, top_p=1, min_p=0)


def test_stop_tokens_that_are_read_once_count_for_every_text(unchecked):
    made, prompts = model(), torch.arange(10).view(2, 5)
    stop = int(generate(made, prompts, 9)[0][2])
    for more in ({}, {"draft": Draft(made)}):
        wanted = [t.tolist() for t in generate(made, prompts, 9, stop=[stop], **more)]
        assert [t.tolist() for t in generate(made, prompts, 9, stop=iter([stop]), **more)] == wanted


def test_numbers_of_numpy_and_torch_are_numbers(unchecked):
    made, prompt = model(), torch.arange(5)
    wanted = generate(made, prompt, 6, Sampling(temperature=0.5, top_k=4), seed=3, stop=[7])[0]
    sampling = Sampling(temperature=np.float32(0.5), top_k=torch.tensor(4))
    found = generate(made, [np.arange(5)], np.int64(6), sampling, seed=np.int64(3), stop=torch.tensor([7]))[0]
    assert torch.equal(found, wanted)
    backwards = generate(made, [np.arange(5)[::-1]], 6)[0]
    assert torch.equal(backwards, generate(made, torch.arange(5).flip(0), 6)[0])
    best = generate(made, prompt, 6, beams=Beams(3), stop=[7])[0]
    beams = Beams(np.int64(3), length_penalty=torch.tensor(1.0))
    assert torch.equal(generate(made, np.arange(5)[None], 6, beams=beams, stop=np.array([7]))[0], best)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 3.0}], ids=str)
def test_some_tokens_are_never_written(sampling):
    made, prompts = model(), torch.arange(10).view(2, 5)
    free = torch.stack(generate(made, prompts, 30, Sampling(**sampling), seed=0))
    most = int(free.flatten().mode().values)
    found = generate(made, prompts, 30, Sampling(**sampling, banned=(most,)), seed=0)
    assert most not in torch.stack(found)
    with pytest.raises(InputError, match=r"banned holds ids in 0\.\.39, but got \[40\]"):
        generate(made, prompts, 3, Sampling(banned=(40,)))
    with pytest.raises(InputError, match="no token is left to generate"):
        generate(made, prompts, 3, Sampling(banned=tuple(range(40))))
    with pytest.raises(InputError, match="is 40, 37 of which are banned"):
        generate(made, prompts, 3, beams=Beams(2, banned=tuple(range(37))))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"steps": 0}, "number of tokens of 1 or more"), ({"steps": 2.0}, "number of tokens of 1 or more"),
        ({"stop": 7}, "stop is a list of ids"),
        ({"stop": ["a"]}, "stop is a list of ids"), ({"seed": 2**70}, "64 bits"), ({"beams": 4}, r"beams is Beams\(4\)"),
        ({"stop": torch.tensor(7)}, "stop is a list of ids"), ({"draft": 4}, r"A draft is Draft\(model\)"),
        ({"steps": -1, "beams": Beams(2)}, "steps is a number of tokens of 1 or more"),
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_text_is_refused(asked, message, unchecked):
    with pytest.raises(InputError, match=message):
        generate(model(), torch.arange(5), **{"steps": 3} | asked)


def test_prompts_may_be_lists_and_of_any_kind_of_integers(unchecked):
    made, wanted = model(), [t.tolist() for t in generate(model(), [torch.tensor([1, 2, 3]), torch.tensor([4])], 5)]
    assert [t.tolist() for t in generate(made, [[1, 2, 3], [4]], 5)] == wanted
    assert [t.tolist() for t in generate(made, [torch.tensor([1, 2, 3], dtype=torch.uint8), [4]], 5)] == wanted
    for wrong in ([["a"]], torch.tensor([True, False]), [[1.5]], 7):
        with pytest.raises(ShapeError, match="Prompts are lists of ids"):
            generate(made, wrong, 5)


def test_what_is_no_writer_is_said(unchecked):
    lstm = build(Baseline("lstm", 8, vocabulary=10, outputs=10))
    for make in (CPUDecoder, Compiled, Draft):
        with pytest.raises(InputError, match="but got Lstm"):
            make(lstm)
    with pytest.raises(InputError, match="but got CPUDecoder"):
        windowed(CPUDecoder(model()), 3)
    with pytest.raises(InputError, match=r"knows the ids 0\.\.9, but got 3\.\.10"):
        generate(lstm, torch.tensor([3, 10]), 2)


@pytest.mark.compile
@pytest.mark.thorough
def test_many_compiled_models_in_one_process_go_on():
    torch.compiler.reset()
    for seed in range(10):
        made = model(seed=seed)
        wanted = generate(made, torch.arange(4), 3)[0]
        assert torch.equal(generate(Compiled(made, backend="eager"), torch.arange(4), 3)[0], wanted)


@pytest.mark.compile
@pytest.mark.parametrize("more", few([{}, {"beams": Beams(2)}], 1), ids=["greedy", "beams"])
def test_compiled_steps_write_the_same(more):
    made, prompts = model(), [torch.arange(5), torch.arange(3)]
    torch.compiler.reset()
    compiled = Compiled(made, backend="aot_eager")
    wanted = generate(made, prompts, 9, **more)
    assert [t.tolist() for t in generate(compiled, prompts, 9, **more)] == [t.tolist() for t in wanted]


@pytest.mark.compile
@pytest.mark.thorough
def test_compiled_steps_of_an_encoder_and_its_decoder_write_the_same(tmp_path):
    torch.compiler.reset()
    peer("t5").save_pretrained(tmp_path)
    pair, start = eq.load(tmp_path), torch.zeros(2, 1, dtype=torch.long)
    found = generate(Compiled(pair, backend="aot_eager"), start, 5, source=ids())
    assert torch.equal(torch.stack(found), torch.stack(generate(pair, start, 5, source=ids())))
