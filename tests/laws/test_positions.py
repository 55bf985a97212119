"""The laws of positions: what a scheme claims is what attention does, no less and no more, for every listed one."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import pytest
import torch
import torch.nn.attention.flex_attention as flex_attention
from tests.drawn import LISTED, SEEDS, VARIANTS, VARIED, attending, has_table, placed, title, uneven, words
from tests.pairwise import each_value, pairwise
from torch import Tensor

from equiscope import positions as room
from equiscope.attention import AttentionContext, Causal, Everything, Window
from equiscope.attention.multihead import BACKENDS
from equiscope.errors import InputError
from equiscope.positions import SCHEMES, Added, NoPosition, Position, Rope
from equiscope.symmetry import Action, Permute, Reverse, Shift, closed, relative_error
from equiscope.tokens import Tokens

ROUNDING = 1e-10  # float64: measured below 1e-12; places up to 1000 cost RoPE's angles three digits
NOTICED = 1e-6  # far above rounding, far below the smallest violation measured (about 1e-3)

schemes = pytest.mark.parametrize("scheme", LISTED + VARIANTS, ids=title)
masks = pytest.mark.parametrize("mask", [Everything(), Causal()], ids=title)


def elements(tokens: Tokens, seed: int) -> dict[str, Action]:
    """One element of each action; a shift along every axis, by whole and by real numbers."""
    order = Permute.sample(tokens, torch.Generator().manual_seed(seed + 1))
    axes = tokens.positions.shape[-1]
    whole, real = (17, 0.37) if axes == 1 else (tuple(range(3, 3 + axes)), tuple(0.37 + a for a in range(axes)))
    return {"permute": order, "shift": Shift(whole), "real shift": Shift(real), "reverse": Reverse()}


@pytest.mark.quick
@pairwise(
    schemes,
    masks,
    pytest.mark.parametrize("places", ["even", "uneven"]),
    pytest.mark.parametrize("seed", SEEDS),
)
def test_attention_keeps_exactly_the_symmetries_that_are_claimed(scheme, mask, places, seed):
    for axes in (1, 2, 3) if scheme.axes is None else (scheme.axes,):
        tokens = placed(scheme, words(seed), axes)
        if places == "uneven":
            tokens = uneven(tokens, whole=has_table(scheme), seed=seed)
        model = attending(scheme, mask, seed)
        plain = model(tokens)
        for name, element in elements(tokens, seed).items():
            if (moved := answer(model, element.on_input(tokens))) is None:
                assert type(element) not in model.position.preserves, f"{name} is claimed, but refused"
                continue
            error = relative_error(moved, element.on_output(plain))
            claimed = type(element) in model.position.preserves & model.attention.mask.preserves
            assert error < ROUNDING if claimed else error > NOTICED, f"{name} on {axes} axes: {error:.1e}"


def answer(model, tokens) -> Tensor | None:
    """None where the scheme has no row for these places, and says so."""
    try:
        return model(tokens)
    except InputError:
        return None


PRECISIONS = {torch.float64: ROUNDING, torch.float32: 1e-4, torch.bfloat16: 6e-2}  # eps times the steps of a layer, and places


@pytest.fixture
def uncompiled(monkeypatch):
    """FlexAttention as plain Python: in float64, without a compiler. tests/attention/test_flex.py compiles it."""
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


MASKS = {"everything": Everything(), "causal": Causal(), "window": Causal() & Window(3)}


@pytest.mark.usefixtures("uncompiled")
@each_value(
    pytest.mark.parametrize("scheme", VARIED, ids=title),
    pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS)),
    pytest.mark.parametrize("backend", BACKENDS),
)
def test_every_backend_and_precision_keeps_what_is_claimed(scheme, mask, backend):
    """Every scheme x action x precision is measured with every mask and every backend, or the reason why it cannot be is known."""
    for axes in (1, 2, 3) if scheme.axes is None else (scheme.axes,):
        keeps_what_is_claimed(scheme, mask, backend, placed(scheme, words(batch=(2,)), axes))


def keeps_what_is_claimed(scheme, mask, backend, tokens):
    model = attending(scheme, mask, backend=backend)
    claims = model.position.preserves & model.attention.mask.preserves
    with torch.no_grad():  # FlexAttention has no backward on CPU, and gives way where one might be asked for
        runs = model.attention.runs_on(tokens, model.position)
        if runs != backend:
            reason = model.attention.why_not(backend, AttentionContext(model.position, tokens, tokens))
            assert reason, f"{backend} gave way to {runs} without a reason"
            pytest.skip(f"{backend} gives way to {runs}: {reason}")
        reference = attending(scheme, mask, backend="eager")(tokens)
        for dtype, tolerance in PRECISIONS.items():
            made, given = attending(scheme, mask, backend=backend).to(dtype), tokens.to(dtype)
            plain = made(given)
            assert relative_error(plain.double(), reference) < tolerance, f"{backend} in {dtype} against eager in float64"
            for name, element in elements(tokens, 0).items():
                if (moved := answer(made, element.on_input(given))) is None:
                    continue
                error = relative_error(moved, element.on_output(plain))
                if type(element) in claims:
                    assert error < tolerance, f"{name} in {dtype}: {error:.1e}"
                elif dtype == torch.float64:
                    assert error > NOTICED, f"{name}: {error:.1e}"


@pytest.mark.quick
@each_value(pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"]), schemes)
def test_whole_numbers_are_the_same_places_whatever_type_holds_them(scheme, backend):
    tokens, model = placed(scheme, words(batch=(2,))), attending(scheme, Causal(), backend=backend).float()
    given = tokens.to(torch.float32)
    assert relative_error(model(replace(given, positions=tokens.positions.long())), model(given)) < 1e-5


@pytest.mark.quick
@schemes
def test_claims_hold_with_everything_that_they_imply(scheme):
    assert closed(scheme.preserves) == scheme.preserves


@pytest.mark.quick
def test_every_scheme_in_the_folder_is_listed():
    found = set()
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        found |= {m for m in members if inspect.isclass(m) and issubclass(m, Position) and m.__module__ == module.name}
    missing = found - set(SCHEMES) - {Position, Added}
    assert not missing, f"Put {', '.join(sorted(m.__name__ for m in missing))} into position.SCHEMES: no law covers it."
    assert len({s.name for s in SCHEMES}) == len(SCHEMES)


@pytest.mark.quick
@pytest.mark.parametrize("speed", [0.0, 0.5, -1.0, 1.001])
def test_turning_keys_at_another_speed_breaks_what_rope_is_for(speed):
    tokens, broken = words(), attending(Rope(key_angle_factor=speed))
    moved = Shift(50).on_input(tokens)
    assert Shift not in broken.position.preserves
    assert relative_error(broken(moved), broken(tokens)) > NOTICED
    assert relative_error(attending(Rope())(moved), attending(Rope())(tokens)) < ROUNDING


@pytest.mark.quick
@masks
@schemes
def test_words_that_move_together_with_their_places_change_nothing(scheme, mask):
    tokens, model = uneven(placed(scheme, words()), whole=has_table(scheme)), attending(scheme, mask)
    order = [3, 0, 5, 1, 4, 2]
    together = Tokens(x=tokens.x[order], positions=tokens.positions[order], order=tokens.order[order])
    assert relative_error(model(together), model(tokens)[order]) < ROUNDING


@pytest.mark.quick
@masks
@schemes
def test_a_sequence_does_not_notice_the_others_of_its_batch(scheme, mask):
    tokens, model = placed(scheme, words(batch=(3,))), attending(scheme, mask)
    alone = model(Tokens(x=tokens.x[1], positions=tokens.positions[1], order=tokens.order[1]))
    assert relative_error(model(tokens)[1], alone) < ROUNDING
    other = replace(tokens, x=torch.cat([tokens.x[:1] * 100, tokens.x[1:2], tokens.x[2:] - 7]))
    assert relative_error(model(other)[1], alone) < ROUNDING


@pytest.mark.quick
@pairwise(
    schemes,
    masks,
    pytest.mark.parametrize("side", ["left", "right"]),
)
def test_a_padded_sequence_gives_what_it_gives_alone(scheme, mask, side):
    alone, model, empty = placed(scheme, words(length=4)), attending(scheme, mask), 3
    real = slice(empty, None) if side == "left" else slice(None, 4)

    def padded(entries, with_):
        out = torch.full((4 + empty, *entries.shape[1:]), with_, dtype=entries.dtype)
        out[real] = entries
        return out

    batch = Tokens(
        x=padded(alone.x, 50.0)[None], positions=padded(alone.positions, 9.0)[None], order=padded(alone.order, -1)[None],
        valid=padded(torch.ones(4, dtype=torch.bool), False)[None],
    )  # fmt: skip
    out = model(batch)[0]
    assert relative_error(out[real], model(alone)) < ROUNDING
    assert out.isfinite().all()


@pytest.mark.quick
@schemes
def test_what_came_so_far_does_not_depend_on_how_long_the_text_is(scheme):
    tokens, model = placed(scheme, words()), attending(scheme, Causal())
    prefix = Tokens(x=tokens.x[:4], positions=tokens.positions[:4], order=tokens.order[:4])
    assert relative_error(model(prefix), model(tokens)[:4]) < ROUNDING


@pytest.mark.quick
@masks
@schemes
def test_hidden_words_leave_the_others_as_if_they_were_not_there(scheme, mask):
    tokens, model = placed(scheme, words()), attending(scheme, mask)
    valid = torch.tensor([True, True, True, True, False, False])
    shorter = Tokens(x=tokens.x[:4], positions=tokens.positions[:4], order=tokens.order[:4])
    assert relative_error(model(replace(tokens, valid=valid))[:4], model(shorter)) < ROUNDING


@pytest.mark.quick
@masks
@schemes
def test_two_texts_in_one_row_do_not_see_each_other(scheme, mask):
    first, second = placed(scheme, words(1, length=3)), placed(scheme, words(2, length=2))
    model = attending(scheme, mask)
    packed = Tokens(
        x=torch.cat([first.x, second.x]), positions=torch.cat([first.positions, second.positions]),
        order=torch.cat([first.order, second.order]),
        document=torch.tensor([0, 0, 0, 1, 1]),
    )  # fmt: skip
    assert relative_error(model(packed), torch.cat([model(first), model(second)])) < ROUNDING


@pytest.mark.quick
def test_a_causal_mask_lets_order_in_without_any_position():
    tokens, model = words(), attending(NoPosition(), Causal())
    order = [1, 0, 2, 3, 4, 5]
    assert relative_error(model(replace(tokens, x=tokens.x[order])), model(tokens)[order]) > NOTICED
