"""Documents in one row of ids, told by the separator that ends each: nobody reads another's, also in generation."""

import pytest
import torch
from tests.pairwise import each_value

from equiscope.attention import Documents, Everything
from equiscope.audit import check
from equiscope.errors import InputError
from equiscope.models import (
    Attention,
    Beams,
    Block,
    Compiled,
    CPUDecoder,
    Draft,
    InputLayer,
    Sampling,
    Spec,
    build,
    generate,
    stream,
)
from equiscope.models.decoding import Decoding
from equiscope.positions import Alibi, Learned, Rope
from equiscope.symmetry import CLAIMED, derive

SEPARATORS = {"one id": (3,), "two ids": (0, 0), "two unlike ids": (3, 0)}


def model(separator, position=None, layers=2, seed=0, **attention):
    torch.manual_seed(seed)
    block = Block(Attention(heads=2, position=position or Rope(), causal=True, mask=Documents(), **attention))
    input_layer = InputLayer(separator=separator)
    return build(Spec(16, vocabulary=5, outputs=5, layers=layers, block=block, input=input_layer)).double().eval()


def row(separator, lengths=(5, 1, 7)):
    """Documents of ids 1, 2 and 4, each but the last with its separator: ids [N], and where each begins and ends."""
    torch.manual_seed(1)
    parts = [torch.tensor([*torch.tensor([1, 2, 4])[torch.randint(3, (n,))].tolist(), *separator]) for n in lengths]
    parts[-1] = parts[-1][: lengths[-1]]
    ends = torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
    return torch.cat(parts), [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    ("ids", "separator", "documents"),
    [
        ([1, 3, 2, 2, 3, 4], (3,), [0, 0, 1, 1, 1, 2]),
        ([3, 3, 1], (3,), [0, 1, 2]),
        ([1, 0, 0, 2, 0, 2], (0, 0), [0, 0, 0, 1, 1, 1]),
        ([0, 0, 0, 1], (0, 0), [0, 0, 1, 2]),
        ([0], (0, 0), [0]),
    ],
)  # fmt: skip
def test_a_separator_ends_its_document_and_the_next_token_begins_another(ids, separator, documents):
    assert model(separator).tokens(torch.tensor([ids])).document.tolist() == [documents]


@pytest.mark.parametrize("position", [Rope(), Alibi()], ids=lambda p: p.name)
@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
def test_no_token_reads_another_document(separator, position):
    made, (ids, parts) = model(separator, position), row(separator)
    answers = made(ids)
    for part in parts:
        torch.testing.assert_close(made(ids[part]), answers[part], rtol=0, atol=1e-12)  # float64: rounding only
        other = ids.clone()
        first = other[part][:1]
        other[part.start] = 1 if int(first) != 1 else 2
        same = torch.ones(len(ids), dtype=torch.bool)
        same[part] = False
        assert torch.equal(made(other)[same], answers[same])
        assert not torch.allclose(made(other)[part], answers[part])


@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
def test_with_a_cache_a_document_ends_where_it_ends_without(separator):
    made, (ids, _) = model(separator, Learned(32)), row(separator)
    whole = made(ids)
    for sizes in ([1] * (len(ids) - 1), [3, 4, 1, 2], [len(ids) - 2]):
        decoding, read = Decoding(made, [ids[:1]], len(ids)), 1
        answers = [decoding.prefill()]
        for size in sizes:
            answers += decoding.step(ids[None, read : read + size])[0][:, None]
            read += size
        torch.testing.assert_close(torch.cat(answers), whole[:read], rtol=0, atol=1e-12)


WAYS = ["sampled", pytest.param("compiled", marks=pytest.mark.compile), "cpu-decoder", "drafted", "beams"]


@each_value(
    pytest.mark.parametrize("way", WAYS),
    pytest.mark.parametrize("separator", SEPARATORS.values(), ids=list(SEPARATORS)),
)
def test_generated_separators_end_documents_in_every_way_of_writing(way, separator):
    """Prompts of unlike lengths, padded with id 0, which is part of a separator; written as one whole reading says."""
    made, ids = model(separator, layers=1 if way == "compiled" else 2), row(separator)[0]
    prompts = [ids[:9], ids[2:6]] if way != "drafted" else [ids[:9]]
    if way == "beams":
        texts = generate(made, prompts, 8, beams=Beams(2))
        alone = [generate(made, [one], 8, beams=Beams(2))[0] for one in prompts]
        assert [t.tolist() for t in texts] == [t.tolist() for t in alone]
        return
    writer = {"compiled": lambda: Compiled(made, backend="eager"), "cpu-decoder": lambda: CPUDecoder(made)}.get(way, lambda: made)()
    draft = Draft(model(separator, layers=1, seed=5), 3) if way == "drafted" else None
    sampling = Sampling(temperature=0.0) if way == "drafted" else Sampling(temperature=1.5)
    texts = generate(writer, prompts, 12, sampling, seed=4, draft=draft)
    if way == "drafted":
        assert texts[0].tolist() == generate(made, prompts, 12, sampling)[0].tolist()
    decoding = Decoding(writer, prompts, 12)
    scores = [decoding.prefill()]
    for step in range(12):
        scores.append(decoding.step(torch.stack([text[step] for text in texts])[:, None])[:, -1])
    for i, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        whole = made(torch.cat([prompt, text]))[len(prompt) - 1 :]
        torch.testing.assert_close(torch.stack([s[i] for s in scores]), whole, rtol=0, atol=1e-12)
    if way == "cpu-decoder":
        assert writer.fallback_reason == "it separates documents"


def test_a_prompt_that_ends_a_document_is_followed_by_what_the_separator_alone_says():
    """The first token of a document is said by the one before; the second by the first alone."""
    made, ids = model((3,)), torch.tensor([1, 4, 2, 3])
    first, second, _ = torch.stack(list(stream(made, [ids], 3)), -1)[0]
    assert int(second) == int(made(first[None])[-1].argmax())


def test_ids_beside_caches_are_refused_as_the_ids_before_decide_their_document():
    made, caches = model((3,)), model((3,)).caches()
    made(torch.tensor([[1, 3]]), caches)
    with pytest.raises(InputError, match=r"depends on the ids before it.*2 tokens.*Give Tokens"):
        made(torch.tensor([[1]]), caches)


@each_value(
    pytest.mark.parametrize("causal", [False, True]),
    pytest.mark.parametrize("separator", SEPARATORS.values(), ids=list(SEPARATORS)),
)
def test_what_is_derived_is_what_a_check_measures(separator, causal):
    """Where words change places, the document of each goes along; caches, padding and batches agree with one whole reading."""
    block = Block(Attention(heads=2, causal=causal, mask=Documents()))
    made = build(Spec(16, vocabulary=5, outputs=5, block=block, input=InputLayer(separator=separator))).eval()
    asked = ["cache", "batch", "left-padding", "right-padding", "packing", "pure"]
    actions = [action.name for action in CLAIMED]
    audit = check(
        made,
        torch.stack([row(separator)[0]] * 2),
        actions=actions,
        properties=asked,
        effort="quick",
        random_parameters=False,
        proof=False,
    )
    found = {one.name: one.verdict for one in audit.rows}
    for claim in derive(made):
        assert found[claim.action] == ("holds" if claim.holds else "broken")
    assert {found[name] for name in asked if causal or name != "cache"} == {"holds"}


def test_a_separator_is_written_and_read_back_and_no_weight():
    made = model((3, 0))
    assert Spec.of(made.spec.to_dict()) == made.spec
    assert made.spec.to_dict()["input"] == {"separator": [3, 0]}
    assert "input_layer.separator.ids" not in made.state_dict()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"input": InputLayer(separator=(5,))}, r"ids 0\.\.4 of the vocabulary, but got \[5\]"),
        ({"input": InputLayer(separator=(1,)), "readout": "mean"}, "gives one answer a row"),
        ({"input": InputLayer(separator=(1,)), "encoder": Spec(16, vocabulary=5),
          "block": Block(Attention(mask=Everything()), cross=Attention())}, "Leave input.separator out"),
    ],
)  # fmt: skip
def test_what_has_no_documents_takes_no_separator(said, error):
    with pytest.raises(InputError, match=error):
        Spec(16, vocabulary=5, **said)


@pytest.mark.parametrize("said", [{"separator": ()}, {"separator": (1,), "features": 3}], ids=str)
def test_a_separator_is_made_of_ids(said):
    with pytest.raises(InputError, match="A separator is one id or more of a vocabulary"):
        InputLayer(**said)
