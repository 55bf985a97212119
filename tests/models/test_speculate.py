"""Speculative decoding: the text of the large model, whatever the small one proposes."""

import pytest
import torch
from tests.checkpoints.test_parity import ids
from tests.models.test_generate import model
from tests.models.test_generate_pairs import begin, paired
from tests.pairwise import each_value, few

from equiscope.attention import Causal, Window
from equiscope.errors import InputError, ShapeError
from equiscope.models import Attention, Block, Sampling, Spec, build, generate
from equiscope.models.cpu_decoder import CPUDecoder
from equiscope.models.decoding import Decoding
from equiscope.models.speculate import Draft, speculate
from equiscope.positions import Learned, Rope
from equiscope.symmetry import relative_error

TEXTS = [torch.arange(n) % 40 for n in (5, 1, 9)]


def like(large, noise):
    """The large model with some noise in its parameters: a draft that is often right."""
    small = model().double()
    small.load_state_dict(large.state_dict())
    with torch.no_grad():
        for p in small.parameters():
            p.add_(noise * torch.randn_like(p))
    return small


@each_value(
    pytest.mark.parametrize("ahead", [1, 3, 7]),
    pytest.mark.parametrize("noise", [0.0, 0.05, 3.0], ids=["always right", "often", "never"]),
    pytest.mark.parametrize("settings", [{}, {"repetition_penalty": 1.4}], ids=str),
)
def test_greedy_text_is_that_of_the_large_model(noise, ahead, settings):
    large = model().double()
    sampling = Sampling(**settings)
    wanted = generate(large, TEXTS, 17, sampling)
    found = generate(large, TEXTS, 17, sampling, draft=Draft(like(large, noise), ahead))
    assert [t.tolist() for t in found] == [t.tolist() for t in wanted]


def test_it_ends_with_a_stop_token_and_at_the_end_of_a_table():
    large = model(Learned(16)).double()
    draft = Draft(model(Learned(16), seed=1).double())
    wanted = generate(large, TEXTS[0], 12)[0]
    assert torch.equal(generate(large, TEXTS[0], 12, draft=draft)[0], wanted)
    stop = [int(wanted[5])]
    assert torch.equal(generate(large, TEXTS[0], 12, stop=stop, draft=draft)[0], generate(large, TEXTS[0], 12, stop=stop)[0])


def test_prepared_models_and_windows_go_with_it():
    large = model().double()
    draft = Draft(CPUDecoder(like(large, 0.05)))
    assert torch.equal(generate(CPUDecoder(large), TEXTS[0], 17, draft=draft)[0], generate(large, TEXTS[0], 17)[0])
    found = generate(large, TEXTS[2], 17, draft=Draft(like(large, 0.05)), window=4)
    assert torch.equal(found[0], generate(large, TEXTS[2], 17, window=4)[0])


def test_a_source_is_read_by_both(tmp_path):
    theirs, ours = paired("t5", tmp_path)
    wanted = generate(ours, begin(theirs), 9, source=ids())
    found = generate(ours, begin(theirs), 9, source=ids(), draft=Draft(ours, 2))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_the_large_model_reads_less_often(monkeypatch):
    large, reads = model().double(), []
    draft = Draft(like(large, 0.0), 4)
    plain = Decoding.step
    monkeypatch.setattr(Decoding, "step", lambda self, x: reads.append(self.model) or plain(self, x))
    generate(large, TEXTS[0], 21, draft=draft)
    assert sum(m is large for m in reads) == 4  # the prompt gave one token, each reading five


@pytest.mark.slow
@pytest.mark.parametrize("settings", few([{"temperature": 0.7, "top_k": 3}, {"temperature": 1.0}], 1), ids=str)
def test_samples_follow_the_large_model(settings, unchecked):
    """Three tokens of a vocabulary of four: all 64 texts have the probability that the large model gives them."""

    def tiny(seed):
        torch.manual_seed(seed)
        made = build(Spec(8, vocabulary=4, outputs=4, block=Block(Attention(2, causal=True)))).double()
        with torch.no_grad():
            made.output_layer.lm_head.weight.mul_(2)
        return made

    large, draft, sampling, start = tiny(0), Draft(tiny(1), 2), Sampling(**settings), torch.tensor([0])
    wanted = torch.zeros(4, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        for a in range(4):
            for b in range(4):
                scores = large(torch.tensor([0, a, b]))
                p = sampling.probabilities(scores, torch.zeros(3, 4, dtype=torch.bool))
                wanted[a, b] = p[0, a] * p[1, b] * p[2]
    many = 150
    torch.manual_seed(0)
    drawn = torch.stack([torch.cat(list(speculate(large, start, 3, draft, sampling))) for _ in range(many)])
    found = torch.bincount(drawn @ torch.tensor([16, 4, 1]), minlength=64) / many
    wanted = wanted.flatten()
    assert ((found - wanted).abs() < 5 * (wanted / many).sqrt() + 1e-9).all()  # five standard errors
    distance = (found - wanted).abs().sum() / 2
    assert distance < 0.8 * (wanted / many).sqrt().sum()  # what that many draws of the right one give: about 0.4 of it


def test_what_does_not_fit_is_said():
    large = model()
    other = build(Spec(8, vocabulary=30, outputs=30, block=Block(Attention(causal=True))))
    with pytest.raises(InputError, match="vocabulary of 30, but the model one of 40"):
        generate(large, TEXTS[0], 3, draft=Draft(other))
    with pytest.raises(InputError, match="one prompt at a time"):
        next(speculate(large, TEXTS, 3, Draft(large)))
    with pytest.raises(InputError, match="at least 1 token ahead"):
        Draft(large, 0)
    last = build(Spec(16, vocabulary=40, outputs=40, readout="last", block=Block(Attention(causal=True))))
    with pytest.raises(InputError, match="outputs for the last token only"):
        generate(last, TEXTS[0], 3, draft=Draft(large))
    assert len(generate(large, TEXTS[0], 3, draft=Draft(last))[0]) == 3


def test_texts_of_one_seed_are_drawn_apart():
    large, prompts = model(), torch.arange(5).expand(6, 5)
    texts = generate(large, prompts, 8, Sampling(temperature=2.0), seed=3, draft=Draft(large))
    assert len({tuple(t.tolist()) for t in texts}) > 1
    again = generate(large, prompts, 8, Sampling(temperature=2.0), seed=3, draft=Draft(large))
    assert [t.tolist() for t in texts] == [t.tolist() for t in again]


def test_sources_and_prompts_are_counted(tmp_path):
    theirs, pair = paired("t5", tmp_path)
    with pytest.raises(ShapeError, match="got 1 source and 2 prompts"):
        generate(pair, begin(theirs, 2), 3, source=ids(1), draft=Draft(pair))
    with pytest.raises(ShapeError, match=r"model\.encode\(ids\[None\]\)"):
        generate(pair, begin(theirs, 1), 3, source=pair.encode(ids(1)[0]))


def test_tokens_after_a_rollback_are_within_the_window_again():
    torch.manual_seed(0)
    attention = Attention(2, position=Rope(), mask=Causal() & Window(3))
    large, ids = build(Spec(8, vocabulary=9, outputs=9, block=Block(attention))).double(), torch.arange(7) % 5
    with torch.no_grad():
        decoding = Decoding(large, ids[:4], 5, spare=2)
        decoding.prefill()
        decoding.step(torch.tensor([[7, 8]]))
        decoding.rollback(2)
        assert relative_error(decoding.step(ids[None, 4:]), large(ids)[None, 4:]) < 1e-12  # float64: rounding only
