"""Scalings of RoPE: Hugging Face's numbers, exact after half precision, the same for a text whatever follows it (P7)."""

import json
import math

import pytest
import torch
from tests.judges import transformers
from tests.recorded import angles_of, recorded
from torch import nn

from equiscope.errors import InputError, ShapeError
from equiscope.positions import Rope, from_json, to_json
from equiscope.positions.frequencies import geometric_frequencies
from equiscope.positions.scaling import DynamicNtk, Linear, Llama3, LongRope, Ntk, Scaled, Yarn
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

HEAD, BASE = 64, 10000.0
SHORT, LONG = (tuple(start + k / 8 for k in range(32)) for start in (1.0, 2.0))
ALL = [
    Linear(4.0), Ntk(4.0), DynamicNtk(2.0, trained=512, length=4096), Yarn(4.0, trained=4096), Llama3(8.0),
    LongRope(SHORT, LONG, trained=4096, length=131072), LongRope(SHORT, LONG, trained=4096, length=4096),
]  # fmt: skip
scalings = pytest.mark.parametrize("scaling", ALL, ids=lambda s: s.__struct_config__.tag)


class InDouble:
    """torch, with float64 where Hugging Face writes float32: their source at full precision."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def theirs(monkeypatch, kind, base=BASE, head=HEAD, trained=4096, length=None, seen=None, fraction=1.0, source=None, **parameters):
    parameters |= {
        "rope_type": kind,
        "rope_theta": base,
        "original_max_position_embeddings": trained,
        "partial_rotary_factor": fraction,
    }
    config = transformers.LlamaConfig(
        hidden_size=2 * head, num_attention_heads=2, max_position_embeddings=length or trained, rope_parameters=parameters
    )
    monkeypatch.setattr(transformers.modeling_rope_utils, "torch", source or InDouble())
    return transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[kind](config, None, seq_len=seen)


def agrees(scaling, wanted, base=BASE, head=HEAD, fraction=1.0, tolerance=1e-13):
    speed, gain = wanted
    found = Rope(base=base, scaling=scaling, fraction=fraction).frequencies(head)
    assert found.dtype == torch.float64
    assert ((found - speed) / speed).abs().max() < tolerance
    assert scaling.scale == pytest.approx(gain, rel=1e-14)


# --- Hugging Face, its own source run in float64 (rounding: exp against pow, measured 3e-15) ----------------------------
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("base", [BASE, 5e5])
def test_linear_is_hugging_faces(monkeypatch, base, fraction):
    agrees(Linear(4.0), theirs(monkeypatch, "linear", base=base, fraction=fraction, factor=4.0), base, fraction=fraction)


@pytest.mark.parametrize("seen", [100, 512, 513, 4096])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_dynamic_ntk_is_hugging_faces_for_a_text_of_that_length(monkeypatch, factor, seen):
    wanted = theirs(monkeypatch, "dynamic", trained=512, seen=seen, factor=factor)
    agrees(DynamicNtk(factor, trained=512, length=seen), wanted)


def test_ntk_is_dynamic_ntk_of_a_text_so_many_times_as_long(monkeypatch):
    agrees(Ntk(8.0), theirs(monkeypatch, "dynamic", trained=512, seen=4096, factor=1.0))


@pytest.mark.parametrize("settings", [{}, {"beta_fast": 16.0, "beta_slow": 2.0}, {"truncate": False}], ids=str)
@pytest.mark.parametrize(("base", "trained", "head"), [(BASE, 4096, 64), (1e6, 32768, 128), (150000.0, 4096, 64), (BASE, 64, 8)])
def test_yarn_is_hugging_faces(monkeypatch, base, trained, head, settings):
    wanted = theirs(monkeypatch, "yarn", base=base, head=head, trained=trained, factor=16.0, **settings)
    agrees(Yarn(16.0, trained=trained, **settings), wanted, base, head)


def test_yarns_gain_is_the_papers_and_may_be_given(monkeypatch):
    assert Yarn(4.0, 4096).scale == 0.1 * math.log(4) + 1
    assert Yarn(0.5, 4096).scale == 1  # shorter texts: as Hugging Face
    agrees(Yarn(4.0, 4096, attention=1.25), theirs(monkeypatch, "yarn", factor=4.0, attention_factor=1.25))


@pytest.mark.parametrize(("low", "high"), [(1.0, 4.0), (2.0, 3.0)])
def test_llama3_is_hugging_faces(monkeypatch, low, high):
    wanted = theirs(monkeypatch, "llama3", base=5e5, trained=8192, factor=8.0, low_freq_factor=low, high_freq_factor=high)
    agrees(Llama3(8.0, low, high, trained=8192), wanted, 5e5)


@pytest.mark.parametrize("seen", [4096, 4097, 131072])
def test_longrope_is_hugging_faces_on_either_side_of_the_trained_length(monkeypatch, seen):
    wanted = theirs(monkeypatch, "longrope", length=131072, seen=seen, short_factor=list(SHORT), long_factor=list(LONG))
    agrees(LongRope(SHORT, LONG, trained=4096, length=seen, factor=32.0), wanted, tolerance=1e-6)  # they divide in float32 here


def test_longropes_gain_follows_from_its_length():
    assert LongRope(SHORT, LONG, 4096, 131072).scale == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)), rel=1e-15)
    assert LongRope(SHORT, LONG, 4096, 2048).scale == 1
    assert LongRope(SHORT, LONG, 4096, 131072, attention=1.5).scale == 1.5


@pytest.mark.parametrize(
    ("scaling", "kind", "given"),
    [
        (Linear(4.0), "linear", {"factor": 4.0}),
        (DynamicNtk(2.0, 512, 4096), "dynamic", {"factor": 2.0, "trained": 512, "seen": 4096}),
        (Yarn(4.0, 4096), "yarn", {"factor": 4.0}),
        (Llama3(8.0), "llama3", {"factor": 8.0, "trained": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}),
        (
            LongRope(SHORT, LONG, 4096, 131072),
            "longrope",
            {"length": 131072, "seen": 131072, "short_factor": list(SHORT), "long_factor": list(LONG)},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_their_functions_as_they_ship_are_ours_rounded_to_float32(monkeypatch, scaling, kind, given):
    agrees(scaling, theirs(monkeypatch, kind, source=torch, **given), tolerance=1e-6)


# --- what scaling does -------------------------------------------------------------------------------------------------
def test_the_slowest_clock_is_slower_and_the_fastest_as_before():
    plain = geometric_frequencies(HEAD // 2, BASE)
    for scaling in (Ntk(4.0), Yarn(4.0, 4096)):
        found = scaling.frequencies(HEAD, BASE)
        assert found[0] == plain[0]
        assert found[-1].item() == pytest.approx(plain[-1].item() / 4, rel=1e-12)
    assert torch.equal(Linear(4.0).frequencies(HEAD, BASE), plain / 4)
    assert torch.equal(Scaled().frequencies(HEAD, BASE), plain)


@pytest.mark.parametrize("pairs", ["interleaved", "half"])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_the_gain_multiplies_queries_and_keys_where_they_turn(pairs, fraction):
    x, at = torch.randn(2, 6, 8).double(), torch.arange(6.0).double()[:, None]
    sharp, plain = (Rope(pairs=pairs, fraction=fraction, scaling=Yarn(4.0, 64, attention=a)) for a in (1.5, 1.0))
    turning = round(8 * fraction)
    for role in ("query", "key"):
        found, wanted = sharp.rotate(x, at, role), plain.rotate(x, at, role)
        assert (found[..., :turning] - 1.5 * wanted[..., :turning]).abs().max() < 1e-14
        assert torch.equal(found[..., turning:], x[..., turning:])


@scalings
def test_a_query_and_a_key_still_know_only_how_far_apart_they_are(scaling):
    scheme, (q, k) = Rope(scaling=scaling).sized(2 * HEAD, 2, HEAD), torch.randn(2, 2, 1, HEAD).double()
    places = [torch.tensor([[m]]).double() for m in (0.0, 1.0, 17.25, 999.0)]
    products = [(scheme.rotate(q, m + 5.5, "query") * scheme.rotate(k, m, "key")).sum(-1) for m in places]
    assert torch.stack(products).std(0, unbiased=False).max() < 1e-10  # float64: angles up to 1000 keep 13 digits


@scalings
def test_what_a_word_was_does_not_depend_on_the_words_after_it(scaling):
    """Hugging Face's dynamic NTK and LongRoPE fail this past the trained length."""
    scheme, x = Rope(scaling=scaling), torch.randn(2, 6000, HEAD)
    at = torch.arange(6000.0)[:, None]
    found, wanted = scheme.rotate(x, at, "key")[:, :8], scheme.rotate(x[:, :8], at[:8], "key")
    assert relative_error(found, wanted) < 1e-6  # float32: an ulp of a sine, at most


class Turning(nn.Module):
    def __init__(self, position):
        super().__init__()
        self.position, self.weight = position.sized(2 * HEAD, 2, HEAD), nn.Linear(2, 2)

    def forward(self, tokens):
        return self.position.rotate(tokens.x, tokens.positions, "query")


@scalings
@pytest.mark.parametrize("pairs", ["interleaved", "half"])
def test_half_precision_does_not_spoil_far_places(pairs, scaling):
    model = Turning(Rope(pairs=pairs, scaling=scaling)).bfloat16()
    assert model.weight.weight.dtype == torch.bfloat16
    tokens = Tokens.of(torch.randn(4, HEAD), start=100_000).to(torch.bfloat16)
    found = angles_of(recorded(model, tokens))
    wanted = torch.arange(100_000, 100_004).double()[:, None] * scaling.frequencies(HEAD, BASE)
    assert (found.double() - wanted).abs().max() < 1e-2  # float32 at 100 000: steps of 0.0078
    assert (wanted - torch.arange(100_000, 100_004).double()[:, None] * scaling.frequencies(HEAD, BASE).bfloat16()).abs().max() > 1


# --- files and refusals ------------------------------------------------------------------------------------------------
@scalings
def test_a_scaling_survives_a_file(scaling):
    scheme = Rope(base=5e5, scaling=scaling)
    written = json.loads(json.dumps(to_json(scheme)))
    assert written["scaling"]["kind"] == scaling.__struct_config__.tag
    assert from_json(written).scaling == scaling
    assert repr(from_json(written)) == repr(scheme)
    assert repr(scheme.sized(2 * HEAD, 2, HEAD)) == repr(scheme)


def test_an_unknown_kind_of_scaling_is_named():
    with pytest.raises(InputError, match=r"rope.scaling cannot be .*'yarnn'"):
        from_json({"scheme": "rope", "scaling": {"kind": "yarnn", "factor": 2}})


def test_dynamic_ntk_is_not_made_without_a_length():
    with pytest.raises(InputError, match=r"no length.*breaks causality and caches.*length="):
        DynamicNtk(2.0, trained=512)


@pytest.mark.parametrize("scaling", [Ntk(2.0), DynamicNtk(2.0, 64, 128)])
def test_ntk_has_nothing_to_spread_over_two_columns(scaling):
    with pytest.raises(ShapeError, match=r"2 columns have one frequency.*wider head.*Linear"):
        Rope(scaling=scaling).sized(4, 2, 2)


def test_longrope_wants_a_factor_for_every_pair():
    with pytest.raises(ShapeError, match=r"32 factors, but 8 columns are rotated. Give 4"):
        Rope(scaling=LongRope(SHORT, LONG, 64, 128)).sized(16, 2, 8)


@pytest.mark.parametrize(
    "make", [lambda: Linear(0.0), lambda: Yarn(2.0, trained=-1), lambda: LongRope((0.0,), (1.0,), 64, 128), lambda: Ntk(math.nan)]
)
def test_numbers_that_slow_nothing_are_refused(make):
    with pytest.raises(InputError, match="larger than 0, but got"):
        make()


def test_llama3_wants_its_two_borders_in_order():
    with pytest.raises(InputError, match="low below high"):
        Rope(scaling=Llama3(8.0, low=4.0, high=1.0)).sized(16, 2, 8)
