"""Generation with an encoder: token for token what transformers generates from a source."""

import pytest
import torch
from tests.checkpoints.test_parity import PAIRED, ids, peer

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.models import generate, stream

pairs = pytest.mark.parametrize("name", PAIRED)
STEPS = 14


def paired(name, folder):
    """Their model in float64, and ours of the same folder. Marian would otherwise say one word for ever."""
    theirs = peer(name).double()
    if hasattr(theirs, "final_logits_bias"):
        with torch.no_grad():
            theirs.final_logits_bias.zero_()
            torch.manual_seed(0)
            for name, p in theirs.named_parameters():
                if "layer_norm.weight" in name:
                    p.normal_(mean=1.0, std=0.3)
                elif p.ndim == 2 and "layers" in name:
                    p.mul_(4.0)
    theirs.save_pretrained(folder)
    return theirs, eq.load(folder)


def begin(theirs, batch=2):
    return torch.full((batch, 1), getattr(theirs.config, "decoder_start_token_id", 0))


def translated(theirs, source, mask=None, **settings):
    """Their new tokens, without a token that ends. Their cache counts the encoder's layers, so they do without."""
    said = {"do_sample": False, "eos_token_id": None, "forced_eos_token_id": None, "pad_token_id": 0, "use_cache": False}
    begun = begin(theirs, len(source))
    said |= {"decoder_start_token_id": int(begun[0]), "max_new_tokens": STEPS} | settings
    return theirs.generate(source, attention_mask=mask, decoder_input_ids=begun, **said)[:, 1:]


@pairs
def test_greedy_from_a_source_is_theirs_token_for_token(name, tmp_path):
    theirs, ours = paired(name, tmp_path)
    found = generate(ours, begin(theirs), STEPS, source=ids())
    assert torch.equal(torch.stack(found), translated(theirs, ids()))


@pairs
def test_sources_of_different_lengths_are_read_as_each_alone_and_as_theirs(name, tmp_path):
    theirs, ours = paired(name, tmp_path)
    sources = [ids()[0], ids()[1, :7]]
    found = generate(ours, begin(theirs), STEPS, source=sources)
    alone = [generate(ours, begin(theirs, 1), STEPS, source=s)[0] for s in sources]
    assert torch.equal(torch.stack(found), torch.stack(alone))
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 7:] = 0
    assert torch.equal(torch.stack(found), translated(theirs, ids() * mask, mask))


def test_prompts_may_be_longer_than_one_token_and_the_source_read_before(tmp_path):
    theirs, ours = paired("t5", tmp_path)
    whole = generate(ours, begin(theirs), STEPS, source=ids())
    with torch.no_grad():
        encoder_output = ours.encode(ids())
    prompts = [torch.cat([begin(theirs)[0], row[:n]]) for row, n in zip(whole, (4, 2), strict=True)]  # padded on the left
    rest = generate(ours, prompts, STEPS - 4, source=encoder_output)
    assert torch.equal(rest[0], whole[0][4:])
    assert torch.equal(rest[1], whole[1][2 : STEPS - 2])


def test_what_does_not_fit_is_said(tmp_path):
    theirs, ours = paired("t5", tmp_path)
    with pytest.raises(InputError, match="give its input as source="):
        next(stream(ours, begin(theirs), 3))
    with pytest.raises(ShapeError, match="got 2 sources and 1 prompt"):
        next(stream(ours, begin(theirs, 1), 3, source=ids()))
    with pytest.raises(InputError, match="A source is empty"):
        next(stream(ours, begin(theirs, 1), 3, source=torch.zeros(0, dtype=torch.long)))
    gpt2 = peer("gpt2")
    gpt2.save_pretrained(tmp_path / "gpt2")
    with pytest.raises(InputError, match="no encoder"):
        next(stream(eq.load(tmp_path / "gpt2"), ids(), 3, source=ids()))
