"""Sinusoids: the paper's numbers, the rotation hidden in them, what fewer clocks cannot distinguish (P3, P4, P12)."""

import json
import math

import pytest
import torch
from torch import nn

from equiscope.errors import ShapeError
from equiscope.explore.sentence.clocks import best_map_error, facts
from equiscope.functional import sinusoid
from equiscope.positions import Sinusoidal, from_json, to_json
from equiscope.positions.frequencies import angles, geometric_frequencies
from equiscope.positions.sinusoidal import sinusoids_half_from_interleaved, sinusoids_interleaved_from_half
from equiscope.tokens import Embedding, Tokens

pytestmark = pytest.mark.quick


def places(count, start=0.0):
    return torch.arange(count, dtype=torch.float64).unsqueeze(-1) + start


def table(length, width, **settings):
    return Sinusoidal(**settings).encode(places(length), width)


def test_row_one_has_the_numbers_of_the_paper():
    row = [0.84147, 0.54030, 0.099833, 0.99500, 0.0099998, 0.99995, 0.001, 1.0]
    found = table(4, 8)
    assert found.shape == (4, 8)
    assert found[1].tolist() == pytest.approx(row, rel=5e-5)  # the source prints five digits
    assert found[0].tolist() == [0, 1] * 4


@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("width", [2, 8, 64])
def test_the_table_is_the_formula_of_the_paper(width, base):
    found = table(20, width, base=base)
    for i in range(20):
        for k in range(width // 2):
            angle = i / base ** (2 * k / width)
            assert found[i, 2 * k].item() == pytest.approx(math.sin(angle), abs=1e-14)  # float64; pow and exp differ by an ulp
            assert found[i, 2 * k + 1].item() == pytest.approx(math.cos(angle), abs=1e-14)


@pytest.mark.parametrize("width", [2, 8, 512])
def test_every_place_has_the_same_norm(width):
    assert (table(1000, width).norm(dim=1) / math.sqrt(width / 2) - 1).abs().max() < 1e-15  # measured: last bit


@pytest.mark.parametrize("width", [1, 7, 63])
def test_an_odd_width_is_refused_with_the_next_ones(width):
    with pytest.raises(ShapeError, match=rf"sine with a cosine.*{width}.*Use {width + 1} or {width - 1}"):
        Sinusoidal().sized(width, 1, width)


def rotation(step, width=8):
    """R_k from sines and cosines, written here: row p_i times R_k turns every hand by k steps."""
    turned = torch.zeros(width, width, dtype=torch.float64)
    for k in range(width // 2):
        c, s = math.cos(step * 10000 ** (-2 * k / width)), math.sin(step * 10000 ** (-2 * k / width))
        turned[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    return turned


@pytest.mark.parametrize("step", [1, 5, -3, 0.25])
def test_one_rotation_carries_every_place_by_the_same_step(step):
    p, later = Sinusoidal().encode(places(60), 8), Sinusoidal().encode(places(60, step), 8)
    assert (p @ rotation(step) - later).abs().max() < 1e-13  # float64, angles up to 60


def test_what_carries_10_to_15_carries_30_to_35():
    p, turn = table(40, 8), rotation(5)
    assert (p[10] @ turn - p[15]).abs().max() < 1e-14
    assert (p[30] @ turn - p[35]).abs().max() < 1e-14
    assert (turn @ turn.T - torch.eye(8)).abs().max() < 1e-15  # a rotation: its transpose takes it back


def test_products_depend_on_the_distance_only():
    products = table(48, 64) @ table(48, 64).T
    for distance in range(48):
        assert products.diagonal(distance).std(unbiased=False) < 1e-13


def test_products_fall_but_not_steadily():
    p = table(200, 64)
    product = (p @ p[0]).tolist()
    assert product[0] == pytest.approx(32, abs=1e-13)
    assert (round(product[5], 2), round(product[6], 2)) == (23.50, 23.56)
    assert max(product[100:]) < min(product[:10])


def test_the_three_exponents_differ_as_their_names_say():
    row = {e: geometric_frequencies(4, 10000.0, e) for e in ("2k/D", "2(k+1)/D", "k/(D/2-1)")}
    assert row["2k/D"].tolist() == pytest.approx([1, 0.1, 0.01, 0.001], rel=1e-14)
    assert row["2(k+1)/D"].tolist() == pytest.approx([0.1, 0.01, 0.001, 0.0001], rel=1e-14)
    assert row["k/(D/2-1)"].tolist() == pytest.approx([1, 10000 ** (-1 / 3), 10000 ** (-2 / 3), 0.0001], rel=1e-14)
    assert torch.equal(Sinusoidal(exponent="2(k+1)/D").frequencies(8), row["2(k+1)/D"])
    assert geometric_frequencies(1, 10000.0, "k/(D/2-1)").tolist() == [1.0]


def test_the_order_of_the_columns_is_only_a_permutation():
    assert torch.equal(table(30, 8, layout="half"), table(30, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]])


def test_tables_convert_exactly_from_one_layout_to_the_other():
    beside, halves = table(30, 8), table(30, 8, layout="half")
    assert torch.equal(sinusoids_half_from_interleaved(beside), halves)
    assert torch.equal(sinusoids_interleaved_from_half(halves), beside)
    for convert in (sinusoids_half_from_interleaved, sinusoids_interleaved_from_half):
        with pytest.raises(ShapeError, match="come in pairs, but the table has 7 columns"):
            convert(beside[:, :7])


# --- what one, two and many hands distinguish --------------------------------------------------------------------------
def distinct(encoding):
    return len({tuple(row) for row in (encoding.round(decimals=9) + 0.0).tolist()})  # 1e-9: far above the rounding of a sine


def test_one_sine_confuses_places_that_mirror_each_other():
    p = table(36, 1, waves="sine", period=36.0)
    assert distinct(p) == 19
    for i in range(19):
        assert p[i].item() == pytest.approx(p[18 - i].item(), abs=1e-14)


def test_a_sine_and_its_cosine_are_unique_for_exactly_one_period():
    assert distinct(table(36, 2, waves="pair", period=36.0)) == 36
    assert distinct(table(37, 2, waves="pair", period=36.0)) == 36


def test_two_hands_are_unique_until_both_are_back():
    """Periods of 4 and 9 meet again after 36 places, as the Chinese remainder theorem says."""
    scheme = Sinusoidal(waves="pair", period=(4.0, 9.0))
    assert scheme.frequencies(8).tolist() == [2 * math.pi / p for p in (4, 9, 4, 9)]
    assert distinct(scheme.encode(places(100), 4)) == 36
    assert distinct(Sinusoidal(waves="sine", period=(4.0, 9.0)).encode(places(100), 2)) < 36
    assert repr(from_json(json.loads(json.dumps(to_json(scheme))))) == repr(scheme)


def test_more_periods_than_clocks_are_refused():
    with pytest.raises(ShapeError, match="3 periods, but a width of 4 has 2 frequencies"):
        Sinusoidal(waves="pair", period=(4.0, 9.0, 5.0)).sized(4, 1, 4)


def test_the_ladder_tells_many_thousand_places_apart():
    assert distinct(table(20000, 8)) == 20000


def test_without_cosines_no_linear_map_takes_a_step():
    found = {fact.name: fact.value for fact in facts()}
    assert found["sines-only"] == pytest.approx(0.66, abs=0.005)
    assert found["sine-cosine"] < 1e-14  # least squares in float64, measured 3e-16
    assert best_map_error(table(105, 8)) < 1e-13


def test_the_clock_view_is_the_angles_themselves():
    turned = angles(places(10), geometric_frequencies(4, 10000.0))
    assert torch.equal(turned, places(10) * geometric_frequencies(4, 10000.0))
    assert torch.equal(sinusoid(turned, "interleaved"), table(10, 8))


# --- an independent implementation ------------------------------------------------------------------------------------
class WithBuffer(nn.Module):
    """Embedding plus a fixed table, as most tutorials write it."""

    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        position = torch.arange(length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        fixed = torch.zeros(length, width)
        fixed[:, 0::2] = torch.sin(position * rate)
        fixed[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("fixed", fixed)

    def forward(self, ids):
        return self.embedding(ids) + self.fixed[: ids.shape[-1]]


@pytest.mark.parametrize("length", [8, 5, 1])
def test_a_module_with_a_sinusoidal_buffer_gives_the_same(length):
    theirs, ours = WithBuffer(128, 64, 8), Embedding(128, 64)
    ours.weight.data.copy_(theirs.embedding.weight)
    ids = torch.randint(128, (3, length))
    tokens = Tokens.of(ours(ids))
    found = Sinusoidal().sized(64, 4, 16).embed(tokens.x, tokens.positions)
    assert (found - theirs(ids)).abs().max() < 2e-6  # float32 angles up to 7: an ulp of each
