"""Every kind of change equals the same change in plain torch, on every model, at its default attention implementation."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import equiscope as eq
from equiscope.errors import InputError, UnknownName
from equiscope.interventions import embeddings, head, logit, logit_difference, module, move, neuron, site, stream
from equiscope.interventions.effect import main_output
from equiscope.interventions.paths import _removal
from tests.interventions.subjects import KINDS, SUBJECTS, double, encoder, gpt2, llama, own_rope, t5
from tests.program.zoo import Hand

EXACT = {torch.float64: 1e-12, torch.float32: 1e-6}  # of the largest output


@pytest.fixture(autouse=True)
def _fast_path():
    """The text of a nn.TransformerEncoder turns torch's fast path off."""
    before = torch.backends.mha.get_fastpath_enabled()
    yield
    torch.backends.mha.set_fastpath_enabled(before)


def difference(found, expected):
    return (found - expected).abs().max().item() / expected.abs().max().item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_kind_of_change_gives_the_number_of_its_plain_torch(name, dtype):
    model, inputs, other = SUBJECTS[name]()
    if dtype == torch.float64:
        model, inputs, other = double(model, inputs, other)
    experiment = eq.Experiment(model, inputs)
    for kind, change in KINDS.items():
        if kind == "move a token" and isinstance(model, nn.TransformerEncoder):
            continue  # it has no positions: see below
        effect = experiment.run(change(experiment, other))
        variables = effect.variables
        exec(effect.code(), variables)
        assert difference(effect.after, main_output(variables["output"])) < EXACT[dtype], kind
        assert effect.largest > 1e-5, kind  # the change reached the output


def test_the_text_of_one_change_has_ten_lines():
    model, ids, other = gpt2()
    experiment = eq.Experiment(model, ids)
    one = head(1, 2)
    for change in [
        one.zero(), one.mean(), one.scale(0.5), one.patch(other), one.weights.freeze(), one.weights.patch(other), one.cut(5, 3),
        head(1).cut(5, 3), one.q.on(5, entry=3).set(1.0), one.weights.on(5, entry=3).set(0.5), move(4, 6),
        stream(1).on(3).patch(other), embeddings().scale(0.5),
    ]:  # fmt: skip
        text = experiment.run(change).code()
        assert len([line for line in text.splitlines() if line.strip()]) <= 10, text


def test_the_text_of_a_patch_in_every_layer_takes_each_from_its_own_layer():
    model, ids, other = gpt2()
    effect = eq.Experiment(model.double(), ids).run([head(None, 1).patch(other), embeddings().on(2).patch(other)])
    exec(effect.code(), variables := effect.variables)
    assert difference(effect.after, main_output(variables["output"])) < 1e-12


class TwoAttentions(nn.Module):
    """Two attentions in the forward of one module."""

    def forward(self, x):
        q = x[:, None]
        once = F.scaled_dot_product_attention(q, q, q)
        return F.scaled_dot_product_attention(once, q, q * 2)[:, 0]


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("change", [lambda one: one.q.scale(0.5), lambda one: one.weights.mean(torch.ones(1, 5, 4).double())])
def test_the_text_leaves_other_attentions_of_a_module_as_they_are(layer, change):
    x = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0)).double()
    effect = eq.Experiment(TwoAttentions(), x).run(change(head(layer, 0)))
    exec(effect.code(), variables := effect.variables)
    assert difference(effect.after, variables["output"]) < 1e-12
    assert effect.largest > 1e-3


# --- hooks by hand, without the text
def test_a_zeroed_head_of_gpt2_is_a_zeroed_slice_before_its_output_projection():
    model, ids, _ = gpt2()
    model = model.double()

    def zero(_, args):
        z = args[0].clone()
        z[..., 16:24] = 0
        return (z,)

    with model.transformer.h[1].attn.c_proj.register_forward_pre_hook(zero), torch.no_grad():
        expected = model(ids).logits
    assert difference(eq.intervene(model, ids, head(1, 2).zero()).after, expected) < 1e-12


@pytest.mark.parametrize("part", ["k", "v"])
def test_a_patched_key_or_value_head_of_llama_is_a_patched_slice_of_its_projection(part):
    model, inputs, other = llama()
    model = model.double()
    projection = getattr(model.model.layers[0].self_attn, f"{part}_proj")
    seen = []
    with projection.register_forward_hook(lambda _, __, y: seen.append(y)), torch.no_grad():
        model(**other)

    def patch(_, __, y):
        y = y.clone()
        y[..., 8:16] = seen[0][..., 8:16]
        return y

    with projection.register_forward_hook(patch), torch.no_grad():
        expected = model(**inputs).logits
    effect = eq.intervene(model, inputs, getattr(head(0, 1), part).patch(other))
    assert difference(effect.after, expected) < 1e-12
    assert effect.largest > 1e-3


def test_a_removed_edge_of_t5_is_a_masked_score_in_eager_attention():
    model, inputs, _ = t5()
    effect = eq.intervene(model.double(), inputs, head(1, 2, of="decoder").cut(5, 3))
    softmax, calls = F.softmax, []

    def masked(scores, *args, **kwargs):
        calls.append(scores)
        if len(calls) == 4:  # two of the encoder, then self and cross attention of the first layer of the decoder
            scores = scores.clone()
            scores[:, 2, 5, 3] = -torch.inf
        return softmax(scores, *args, **kwargs)

    model.set_attn_implementation("eager")
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(F, "softmax", masked)
        expected = model(**inputs).logits
    assert difference(effect.after, expected) < 1e-12


def test_a_moved_token_of_llama_is_another_position_id_under_the_same_mask():
    model, inputs, _ = llama()
    model = model.double()
    positions = torch.arange(8)[None].clone()
    positions[0, 2] = 11
    with torch.no_grad():
        expected = model(**inputs, attention_mask=torch.ones(1, 8), position_ids=positions).logits
    assert difference(eq.intervene(model, inputs, move(2, 11)).after, expected) < 1e-12


# --- attention that is written out
class Einsum(Hand):
    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = torch.einsum("bnhk,bmhk->bhnm", q, k).div(2).softmax(-1)
        return self.o_proj(torch.einsum("bhnm,bmhv->bnhv", weights, v).flatten(-2))


CHANGES = {
    "q": head(0, 1).q.zero(), "k": head(0, 1).k.zero(), "v": head(0, 2).v.zero(), "scores": head(0, 3).scores.scale(2.0),
    "weights": head(0, 0).weights.on(1).zero(), "output": head(0, 1).zero(), "edge": head(0, 1).cut(1, 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGES)
def test_attention_that_is_written_out_changes_as_fused_attention_does(kind):
    class Fused(Hand):
        def forward(self, x):
            q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
            return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-2))

    torch.manual_seed(0)
    models = [make().double() for make in (Fused, Hand, Einsum)]
    for one in models[1:]:
        one.load_state_dict(models[0].state_dict())
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    fused, *others = (eq.intervene(one, x, CHANGES[kind]) for one in models)
    assert fused.largest > 1e-3
    assert all(difference(one.after, fused.after) < 1e-12 for one in others)


def test_multihead_attention_that_returns_weights_keeps_heads_in_its_batch_axis():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval().double()
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    plain, written = ({"query": x, "key": x, "value": x, "need_weights": w} for w in (False, True))
    for change in CHANGES.values():
        one, other = (eq.intervene(attention, inputs, change) for inputs in (plain, written))
        assert difference(other.after, one.after) < 1e-12


# --- laws
def test_a_change_to_the_same_numbers_changes_nothing():
    model, ids, _ = gpt2()
    experiment = eq.Experiment(model, ids)
    for one in (head(0, 1), head(1).q, head(0, 2).weights, stream(1), stream(2), neuron(0), embeddings()):
        assert experiment.run(one.freeze()).largest == pytest.approx(0, abs=1e-6)


def test_a_patch_of_everything_gives_the_answer_of_the_other_input():
    model, ids, other = gpt2()
    effect = eq.intervene(model, ids, embeddings().patch(other))
    with torch.no_grad():
        assert torch.equal(effect.after, model(other).logits)


def test_a_mask_of_every_pair_makes_a_causal_model_read_what_follows():
    model, ids, _ = own_rope()
    full = eq.intervene(model, ids, head().mask(torch.ones(8, 8, dtype=torch.bool)))
    assert (full.change[0, 0].abs() > 1e-3).any()


def test_several_changes_act_in_the_order_of_the_forward_pass():
    model, ids, other = gpt2()
    experiment = eq.Experiment(model, ids)
    changes = [head(1, 0).scale(2.0), head(0, 1).zero(), stream(1).on(2).patch(other)]
    assert torch.equal(experiment.run(changes).after, experiment.run(changes[::-1]).after)
    twice = [head(0, 1).set(1.0), head(0, 1).scale(3.0)]  # at one site in the order given
    assert torch.equal(experiment.run(twice).after, experiment.run(head(0, 1).set(3.0)).after)


def test_hooks_are_gone_and_the_model_is_as_before_also_after_an_exception():
    model, ids, _ = gpt2()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    experiment = eq.Experiment(model, ids)
    for change in (stream(1).set(1.0), stream(1).set(torch.zeros(3, 5)), move(1, 99)):
        with contextlib.suppress(InputError, IndexError):
            experiment.run(change)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not model.training
    assert model.config._attn_implementation == "sdpa"
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    with torch.no_grad():
        assert torch.equal(model(ids).logits, experiment.before)


# --- names and caches
def test_names_of_ours_of_modules_and_of_transformer_lens_are_one_site():
    model, ids, _ = gpt2()
    experiment = eq.Experiment(model, ids)
    names = ("layers.1.attention.weights[3]", "blocks.1.attn.hook_pattern[3]", "transformer.h.1.attn.weights[3]")
    effects = [experiment.run({name: 0.0}) for name in names]
    assert effects[0].largest > 1e-3
    assert all(torch.equal(one.after, effects[0].after) for one in effects)
    assert torch.equal(
        experiment.run(module("transformer.h.0").zero()).after, experiment.run(site("blocks.0.hook_resid_post").zero()).after
    )


def test_a_cache_goes_out_and_comes_in_under_both_kinds_of_names():
    model, ids, other = gpt2()
    experiment, second = eq.Experiment(model, ids), eq.Experiment(model, other)
    cache = second.cache()
    lens = cache.transformer_lens()
    assert lens["blocks.1.attn.hook_z"].shape == (1, 8, 4, 8)
    assert cache["layers.1.attention.output"].shape == (1, 4, 8, 8)
    assert torch.equal(lens["blocks.0.hook_resid_pre"], cache["layers.0.stream"])
    for one in (head(1, 2), head(0, 3).v, stream(1)):
        expected = experiment.run(one.patch(other)).after
        assert torch.equal(experiment.run(one.patch(cache)).after, expected)
        assert torch.equal(experiment.run(one.patch(lens)).after, expected)


# --- rankings
def test_a_ranking_in_batches_is_that_of_single_runs():
    model, ids, _ = gpt2()
    model = model.double()
    experiment = eq.Experiment(model, ids, logit_difference(3, 5))
    batched, single = experiment.rank(copies=5), experiment.rank(copies=1)
    assert batched.calls == 2  # eight heads and one unchanged copy
    assert single.calls == 8
    assert batched.batch_error == pytest.approx(0, abs=1e-12)
    effects = {row.site: row.effect for row in single.rows}
    for row in batched.rows:
        assert row.effect == pytest.approx(effects[row.site], abs=1e-10)
        assert row.effect == pytest.approx(experiment.run(row.site.zero())["metric"].change, abs=1e-10)
    assert [row.size for row in batched.rows] == sorted((row.size for row in batched.rows), reverse=True)


def test_a_model_whose_first_axis_is_not_the_batch_is_ranked_one_by_one():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48), 2, enable_nested_tensor=False).eval()
    experiment = eq.Experiment(model, torch.randn(7, 1, 32), lambda y: y[0, 0, 0])
    ranking = experiment.rank()
    assert ranking.calls == 8
    assert ranking[0].effect == pytest.approx(experiment.run(ranking[0].site.zero())["metric"].change)


def test_the_estimate_of_a_small_change_is_its_effect():
    model, ids, _ = gpt2()
    experiment = eq.Experiment(model.double(), ids, logit(7))
    small = experiment.estimate(by=lambda one: one.scale(1 + 1e-5), check=8)
    assert small.worst is not None
    assert small.worst < 1e-3 * small[0].size
    large = experiment.estimate()
    assert large.checked == 8
    assert large.backward == 1
    assert large.worst is not None
    assert large.worst > small.worst


def test_a_path_leads_from_a_token_to_the_answer_along_edges_that_are_measured():
    model, ids, _ = gpt2()
    experiment = eq.Experiment(model.double(), ids, logit(7))
    path = experiment.path(2)
    assert path.edges[0].attends_to == 2
    assert path.edges[-1].token == 7
    assert all(a.token == b.attends_to for a, b in zip(path.edges, path.edges[1:], strict=False))
    for edge in path.edges:
        assert edge.effect == pytest.approx(experiment.run(edge.cut())["metric"].change)
    assert path.together == pytest.approx(experiment.run([edge.cut() for edge in path.edges])["metric"].change)
    refused(lambda: experiment.path(5, 2), "No edge leads")


def test_the_first_order_effect_of_a_removed_edge_is_exact_for_a_linear_metric():
    torch.manual_seed(0)
    weights = torch.softmax(torch.randn(1, 1, 1, 6, dtype=torch.float64), -1)
    values = torch.randn(6, dtype=torch.float64)
    removal = _removal(weights, values.expand(1, 1, 1, 6))  # of a linear metric, exact
    for j in range(6):
        rest = weights[0, 0, 0].clone()
        rest[j] = 0
        assert removal[0, 0, j].item() == pytest.approx((rest / rest.sum() @ values - weights[0, 0, 0] @ values).item())


# --- refusals
def refused(call, *words):
    with pytest.raises(InputError) as error:
        call()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_refusals_say_what_there_is():
    model, ids, other = gpt2()
    experiment = eq.Experiment(model, ids)
    refused(lambda: experiment.run(head(2, 0).zero()), "2 layers", "L2H0")
    refused(lambda: experiment.run(head(0, 4).zero()), "4 heads")
    refused(lambda: experiment.run(stream(0).on(8).zero()), "8 tokens")
    refused(lambda: experiment.run(head(0, 1).set(torch.zeros(3, 5))), "[1, 1, 8, 8]", "[3, 5]")
    refused(lambda: experiment.run(head(0).swap(1)), "no single head")
    refused(lambda: experiment.run(head(0, 1).patch(other[:, :5])), "same length")
    refused(lambda: experiment.rank(), "needs a metric")
    refused(lambda: experiment.run(head(0).mask(torch.ones(8, 8))), "mask is bool")
    refused(lambda: experiment.run(head(0, 1, of="decoder").zero()), "decoder", "transformer.h.0.attn")
    refused(lambda: eq.Experiment(model, ids, lambda y: y[0, 0]).run(head(0).zero()), "metric", "one is needed")
    model, x, _ = encoder()
    refused(lambda: eq.intervene(model, x, move(1, 2)), "Nothing that reads positions")
    model, ids, _ = own_rope()
    refused(lambda: eq.intervene(model, ids, move(1, 2, "encoder")), "of='encoder'", "Leave it out")
    refused(lambda: eq.intervene(model, ids, head(0, 1).q.on(2, entry=99).zero()), "A row has 8 numbers", "at feature 99")
    with pytest.raises(UnknownName, match="hook_result"):
        site("blocks.0.attn.hook_result")


def test_a_site_is_no_change(request):
    if request.config.getoption("--shapes"):
        pytest.skip("the check of types refuses it first")
    model, ids, _ = gpt2()
    refused(lambda: eq.intervene(model, ids, head(0, 1)), "A change was expected", "zero()")


def test_a_mask_and_a_bias_in_one_tensor_cannot_be_opened():
    model, inputs, _ = t5()
    refused(
        lambda: eq.intervene(model, inputs, head(0, of="decoder").mask(torch.ones(8, 8, dtype=torch.bool))), "bias", "fewer pairs"
    )


def test_an_effect_reads_as_a_table():
    model, ids, _ = gpt2()
    effect = eq.intervene(model, ids, head(1, 2).zero(), {"answer": logit(3)})
    assert repr(effect).startswith("Effect of: set L1H2 output to 0")
    assert "answer" in repr(effect)
    assert "<table>" in effect._repr_html_()
    assert effect["answer"].change == pytest.approx(effect["answer"].after - effect["answer"].before)
    assert effect.cosine < 1
