"""Logit lens, direct logit attribution, rollout and the effect of removed tokens, against the same written in plain torch."""

import numpy as np
import pytest
import torch
from torch import Tensor

import equiscope as eq
from equiscope.errors import InputError
from equiscope.interventions import head, log_probability, logit, logit_difference
from equiscope.interventions.attribution.token_effects import spearman
from tests.interventions.subjects import IDS, SUBJECTS, double
from tests.judges import transformers

ANSWER = {"x": logit(1)}


def experiment(name: str, metric=ANSWER):
    model, inputs, _ = double(*SUBJECTS[name]())
    return eq.Experiment(model, inputs, metric)


@pytest.fixture(scope="module")
def gpt2():
    return experiment("GPT-2")


@torch.no_grad()
def theirs(model, **options):
    return model.transformer(IDS, **options)


# --- logit lens
def test_the_lens_is_the_final_norm_and_the_output_layer_on_each_stream(gpt2):
    model, lens = gpt2.model, gpt2.lens()
    streams = theirs(model, output_hidden_states=True).hidden_states[:-1]  # theirs of the last layer is after the norm
    with torch.no_grad():
        wanted = [model.lm_head(model.transformer.ln_f(stream)) for stream in streams]
    assert torch.equal(lens.logits[-1], gpt2.before)
    assert torch.allclose(lens.logits[:-1], torch.stack(wanted), atol=1e-12)
    assert "final norm: transformer.ln_f" in lens.applied
    plain = gpt2.lens(norm=False)
    with torch.no_grad():
        assert torch.allclose(plain.logits[:-1], torch.stack([model.lm_head(stream) for stream in streams]), atol=1e-12)
    assert "left out" in plain.applied


def test_the_lens_measures_the_agreement_with_the_final_answer(gpt2):
    lens = gpt2.lens()
    same = lens.logits[:, 0].argmax(-1) == gpt2.before[0].argmax(-1)
    assert lens.agreement == same.double().mean(1).tolist()
    assert lens.agreement[-1] == 1.0
    assert lens.divergence[-1] == pytest.approx(0.0, abs=1e-15)
    p, rank = lens.of(5)[-1]
    assert p == pytest.approx(gpt2.before[0, -1].softmax(-1)[5].item(), abs=1e-12)
    assert rank == int((gpt2.before[0, -1] > gpt2.before[0, -1, 5]).sum())


def test_a_model_without_a_norm_after_its_blocks_has_none_to_leave_out():
    one = experiment("nn.TransformerEncoder")
    assert one.lens().norm == ""
    with pytest.raises(InputError, match="No final norm was found"):
        one.lens(norm=False)


# --- direct logit attribution
@torch.no_grad()
def by_hand(model, answer: int) -> dict[str, float]:
    """Shares of GPT-2, written out: frozen LayerNorm, one head at a time."""
    parts: dict[str, Tensor] = {}
    states = theirs(model, output_hidden_states=True).hidden_states
    parts["embeddings"] = states[0]
    stream = states[0]
    for i, block in enumerate(model.transformer.h):
        normed = block.ln_1(stream)
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in block.attn.c_attn(normed).split(32, -1))
        mask = torch.ones(8, 8).tril().bool()
        z = (q @ k.mT / 8**0.5).masked_fill(~mask, -torch.inf).softmax(-1) @ v
        for h in range(4):
            parts[f"L{i}H{h}"] = z[:, h] @ block.attn.c_proj.weight[8 * h : 8 * h + 8]
        parts[f"L{i} output bias"] = block.attn.c_proj.bias.expand(1, 8, 32)
        stream = stream + block.attn(normed)[0]
        parts[f"L{i} feed-forward"] = block.mlp(block.ln_2(stream))
        stream = stream + parts[f"L{i} feed-forward"]
    norm = model.transformer.ln_f
    scale = (stream[0, -1].var(correction=0) + norm.eps).rsqrt()
    row = model.lm_head.weight[answer]
    shares = {name: ((t[0, -1] - t[0, -1].mean()) * scale * norm.weight) @ row for name, t in parts.items()}
    shares["biases of the last part"] = norm.bias @ row
    return {name: share.item() for name, share in shares.items()}


def test_shares_are_those_of_a_frozen_norm_written_out(gpt2):
    found, wanted = gpt2.attribution(), by_hand(gpt2.model, 1)
    assert [part.name for part in found.parts] == list(wanted)
    for part in found.parts:
        assert part.share == pytest.approx(wanted[part.name], abs=1e-12), part.name


@pytest.mark.parametrize("name", SUBJECTS)
def test_shares_sum_to_the_logit(name):
    one = experiment(name, {"difference": logit_difference(1, 0)})
    found = one.attribution()
    computes_in_float32 = name.startswith("Llama") or name == "T5"  # the RMSNorm of transformers does, also in a float64 model
    assert found.error < (1e-6 if computes_in_float32 else 1e-10)
    assert found.logit == pytest.approx(one.metrics_before[0], abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_the_same_parts(dtype, gpt2):
    model, inputs, _ = SUBJECTS["GPT-2"]()
    found, wanted = eq.Experiment(model.to(dtype), inputs, ANSWER).attribution(), gpt2.attribution()
    assert [part.name for part in found.parts] == [part.name for part in wanted.parts]
    assert found.error < 0.01
    for one, other in zip(found.parts, wanted.parts, strict=True):
        assert one.share == pytest.approx(other.share, abs=0.02)


def test_what_tokens_contribute_is_what_embeddings_and_heads_contribute(gpt2):
    found = gpt2.attribution()
    wanted = sum(part.share for part in found.parts if part.kind in ("embeddings", "head"))
    assert found.tokens is not None
    assert found.tokens.sum().item() == pytest.approx(wanted, abs=1e-12)
    translated = experiment("T5").attribution()
    wanted = sum(part.share for part in translated.parts if "cross" in part.name)
    assert translated.sources is not None
    assert translated.sources.sum().item() == pytest.approx(wanted, abs=1e-10)


def test_a_block_with_a_norm_after_the_sum_is_one_part():
    found = experiment("nn.TransformerEncoder").attribution()
    assert [part.kind for part in found.parts] == ["embeddings", "block", "block", "offset"]
    assert "so it is one part" in found.notes[0]
    assert found.tokens is None


def test_a_share_of_a_last_head_is_its_removal_with_a_frozen_scale(gpt2):
    """A head of the last layer acts directly and by the last feed-forward: with both later values frozen, removal is the share."""
    from equiscope.interventions.sites import module

    share = gpt2.attribution()["L1H2"].share
    norm, frozen = gpt2.model.transformer.ln_f, gpt2.values([])
    assert frozen == {}
    kept = module("transformer.h.1.mlp").freeze()
    stream = gpt2.cache(["layers.2.stream"])["layers.2.stream"]
    scale = (stream.var(-1, correction=0, keepdim=True) + norm.eps).rsqrt()
    after = {}
    hook = norm.register_forward_hook(lambda m, args, out: after.update(x=args[0]) or None)
    gpt2.run([head(1, 2).zero(), kept])
    hook.remove()
    x = after["x"] - after["x"].mean(-1, keepdim=True)
    logits = gpt2.model.lm_head(x * scale * norm.weight + norm.bias)
    assert gpt2.metrics_before[0] - logits[0, -1, 1].item() == pytest.approx(share, abs=1e-12)


def test_a_metric_that_is_not_linear_is_refused(gpt2):
    one = eq.Experiment(gpt2.model, IDS, {"nats": log_probability(1)})
    with pytest.raises(InputError, match=r"nats is not linear in the output of transformer\.ln_f"):
        one.attribution()


def test_a_cap_on_logits_is_refused_and_a_norm_after_heads_keeps_them_together():
    config = transformers.Gemma2Config(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32, intermediate_size=48, vocab_size=40,
        head_dim=8, final_logit_softcapping=1.0,
    )  # fmt: skip
    model = transformers.Gemma2ForCausalLM(config).double().eval()
    with pytest.raises(InputError, match=r"not linear in the output of model\.norm"):
        eq.Experiment(model, IDS, ANSWER).attribution()
    model.config.final_logit_softcapping = None
    found = eq.Experiment(model, IDS, ANSWER).attribution()
    assert [part.name for part in found.parts] == [
        "embeddings", "L0 attention", "L0 feed-forward", "L1 attention", "L1 feed-forward", "biases of the last part",
    ]  # fmt: skip
    assert "the heads are one part" in found.notes[0]
    assert found.error < 1e-6


def test_windows_are_refused():
    config = transformers.SwinConfig(image_size=16, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    model = transformers.SwinForImageClassification(config).eval()
    one = eq.Experiment(model, torch.randn(1, 3, 16, 16), ANSWER)
    for explain, said in ((one.attribution, "is no sum"), (one.lens, "cannot read it"), (one.token_effects, "as in windows")):
        with pytest.raises(InputError, match=said):
            explain()


# --- rollout
def test_the_rollout_is_that_of_the_paper():
    """Abnar & Zuidema 2020, equation 1, as a loop over tokens on the weights that transformers returns."""
    one = experiment("GPT-2")
    one.model.set_attn_implementation("eager")
    layers = [a[0].mean(0).numpy() for a in theirs(one.model, output_attentions=True).attentions]
    one.model.set_attn_implementation("sdpa")
    flow = np.eye(8)
    for weights in layers:
        mixed = (weights + np.eye(8)) / 2
        mixed = mixed / mixed.sum(1, keepdims=True)
        flow = np.array([[sum(mixed[i, k] * flow[k, j] for k in range(8)) for j in range(8)] for i in range(8)])
    assert np.abs(one.rollout()[0].numpy() - flow).max() < 1e-12


# --- removal
def test_removal_is_the_input_without_the_token():
    """A model without positions and masks: the other outputs are those of a shorter input."""
    model = double(eq.build(eq.Spec(width=32, vocabulary=40, layers=2, block=eq.Block(eq.Attention(4)), outputs=40)).eval())[0]
    whole = eq.Experiment(model, IDS, ANSWER)
    found = whole.run([head().cut(None, 3)]).after
    with torch.no_grad():
        shorter = model(IDS[:, [0, 1, 2, 4, 5, 6, 7]])
    assert torch.allclose(found[:, [0, 1, 2, 4, 5, 6, 7]], shorter, atol=1e-12)
    effects = whole.token_effects()
    assert effects.read == [7]
    assert effects.tokens == [0, 1, 2, 3, 4, 5, 6]
    assert effects.removed[3] == pytest.approx((shorter - whole.before[:, [0, 1, 2, 4, 5, 6, 7]])[0, -1, 1].item(), abs=1e-12)


@pytest.mark.parametrize("name", ["GPT-2", "T5"])
def test_removal_has_a_text_in_plain_torch(name):
    one = experiment(name)
    effect = one.run([head(i).cut(None, [2, 3]) for i in range(len(one.layers))])
    variables = effect.variables
    exec(effect.code(), variables)
    assert torch.allclose(variables["output"].logits, effect.after, atol=1e-12)


def test_scores_stand_beside_the_effect_of_removal():
    one = experiment("ViT")
    found = one.token_effects(tokens=[1, 2, 3, 5])
    assert found.read == [0]
    assert list(found.correlations) == [
        "attention of the last layer",
        "rollout",
        "direct share",
        "logit lens",
        "replaced by the mean",
    ]
    assert found.scores["rollout"] == pytest.approx(one.rollout()[0, 0, [1, 2, 3, 5]].tolist(), abs=1e-12)
    alone = [one.run(head().cut(None, t)).metrics[0].change for t in found.tokens]
    assert found.removed == pytest.approx(alone, abs=1e-12)
    translated = experiment("T5").token_effects()
    assert "cross-attention" in translated.scores
    assert len(translated.tokens) == 8


def test_an_answer_read_at_the_only_token_has_none_to_remove(gpt2):
    with pytest.raises(InputError, match="The answer is read at token 0 alone"):
        eq.Experiment(gpt2.model, IDS[:, :1], ANSWER).token_effects()


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 25.0, 90.0], 1.0),
        ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], -1.0),
        ([106.0, 100, 86, 101, 99, 103, 97, 113, 112, 110], [7.0, 27, 2, 50, 28, 29, 20, 12, 6, 17], -29 / 165),  # Wikipedia
        ([1.0, 1.0, 2.0], [1.0, 2.0, 3.0], 3**0.5 / 2),
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], None),
        ([1.0, 2.0], [1.0, 2.0], None),
    ],
)
def test_spearman(a, b, wanted):
    assert spearman(a, b) == (None if wanted is None else pytest.approx(wanted, abs=1e-12))
