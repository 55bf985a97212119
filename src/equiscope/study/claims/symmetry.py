"""Claims about symmetries: order, positions, translation, rotation; and about receptive fields."""

import torch
from torch import Tensor, nn

from equiscope.attention import Causal, MultiHeadAttention, Window
from equiscope.models import Attention, Block, InputLayer, Spec, build
from equiscope.positions import Alibi, Fourier, LearnedNd, NoPosition, Position
from equiscope.study import reach
from equiscope.study.base import fmt
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, curve, figure_panel, normal, text, verdict_of
from equiscope.symmetry import Permute, relative_error
from equiscope.tokens import Tokens

WIDTH = 16


def _model(layers: int, causal: bool, position: Position | None = None, readout: str = "each") -> nn.Module:
    attention = Attention(heads=2, causal=causal, position=position or NoPosition())
    return build(Spec(WIDTH, layers=layers, block=Block(attention), readout=readout)).double()


# --- order --------------------------------------------------------------------------------------------------------------
@claim("Self-attention without positions is permutation equivariant.", "Lee 2019 (Set Transformer), section 3.1")
def attention_is_permutation_equivariant(setting: Setting) -> ClaimMeasurement:
    tokens, shuffle = text(10, WIDTH), Permute(tuple(torch.randperm(10).tolist()))
    errors = {}
    for name, model in {"full attention": _model(3, False), "causal": _model(3, True)}.items():
        errors[name] = relative_error(model(shuffle.on_input(tokens)), shuffle.on_output(model(tokens)))
    return ClaimMeasurement(
        f"Three blocks over 10 shuffled words: outputs are shuffled alike up to {fmt(errors['full attention'])}; under a causal "
        f"mask they are off by {fmt(errors['causal'])}.",
        verdict_of(max(errors.values()) < ROUNDING, errors["full attention"] < ROUNDING),
        "Without a mask that depends on the order.",
        errors,
    )


@claim(
    "A transformer without positions whose rows are pooled is invariant to the order of its input.",
    "Zaheer 2017, theorem 2; Lee 2019, section 3.2",
)
def pooled_outputs_ignore_the_order(setting: Setting) -> ClaimMeasurement:
    tokens, shuffle = text(10, WIDTH), Permute((9, 0, 8, 1, 7, 2, 6, 3, 5, 4))
    errors = {}
    for readout in ("mean", "class", "first", "last", "concatenation"):
        model = _model(2, False, readout=readout)
        errors[readout] = relative_error(model(shuffle.on_input(tokens)), model(tokens))
    pooled, others = ("mean", "class"), ("first", "last", "concatenation")
    return ClaimMeasurement(
        f"Shuffled words change {', '.join(f'the {n} row by {fmt(errors[n])}' for n in pooled)}; "
        f"{', '.join(f'{n} by {fmt(errors[n])}' for n in others)}.",
        verdict_of(max(errors[n] for n in pooled) < ROUNDING < min(errors[n] for n in others)),
        "The mean, and a class token that is no part of the shuffle; a fixed row or all rows in a line are no pooling.",
        errors,
    )


@claim("A causal mask alone is enough for a transformer to encode positions.", "Haviv 2022, section 1; Kazemnejad 2023, theorem 1")
def causal_masks_encode_positions(setting: Setting) -> ClaimMeasurement:
    n = 24
    attention = MultiHeadAttention(4, mask=Causal(), output=False).double()
    with torch.no_grad():
        attention.q_proj.weight.zero_()
        attention.v_proj.weight.copy_(torch.eye(4))
        marked = torch.zeros(n, 4, dtype=torch.float64)
        marked[0, 0] = 1
        position = attention(Tokens.of(marked))[:, 0]
        count = (1 / position - torch.arange(1, n + 1)).abs().max().item()
        alike = _model(3, True)(Tokens.of(normal(1, WIDTH).expand(n, -1)))
    same = relative_error(alike, alike[:1].expand(n, -1))
    return ClaimMeasurement(
        "With one word at the start that is unlike all others, one layer with uniform attention gives 1/i: the position can be "
        "read "
        f"off up to {fmt(count)}. In {n} equal words, three layers give all positions the same output ({fmt(same)}).",
        verdict_of(count < 1e-9 and same > ROUNDING, count < 1e-9),
        "The words must differ, or one must mark the start.",
        {"position read off": count, "equal words": same},
    )


@claim(
    "Decoders need no positional encoding: a causal mask already makes the order of words count.",
    "Irie 2019, “Language Modeling with Deep Transformers”, abstract",
)
def causal_masks_encode_order(setting: Setting) -> ClaimMeasurement:
    tokens = text(10, WIDTH)
    shuffle = Permute((6, 2, 7, 0, 3, 8, 1, 5, 4, 9))  # the last word stays last
    errors = {}
    for layers in (1, 2, 4):
        model = _model(layers, True)
        errors[layers] = relative_error(model(shuffle.on_input(tokens))[-1], model(tokens)[-1])
    return ClaimMeasurement(
        f"The last word's output, when the words before it are shuffled, changes by {fmt(errors[1])} with one layer, "
        f"{fmt(errors[2])} with two, {fmt(errors[4])} with four.",
        verdict_of(min(errors.values()) > 1e-6, errors[2] > 1e-6),
        "From the second layer on. To one causal layer, the previous words are a set.",
        {f"{n} layers": e for n, e in errors.items()},
    )


@claim("A causal mask keeps every word from the words that follow.", "Vaswani 2017, section 3.2.3")
def causal_masks_hide_the_future(setting: Setting) -> ClaimMeasurement:
    x = normal(8, WIDTH).requires_grad_()
    model = _model(3, True)
    leak, past = 0.0, float("inf")
    y = model(Tokens.of(x))
    for row in range(8):
        gradient = torch.autograd.grad(y[row].square().sum(), x, retain_graph=True)[0].abs().amax(-1)
        leak = max(leak, gradient[row + 1 :].max().item() if row < 7 else 0.0)
        past = min(past, gradient[: row + 1].min().item())
    return ClaimMeasurement(
        f"In three blocks over 8 words, gradients of a row with respect to later words are {fmt(leak)}, to words up to its own "
        f"at least {fmt(past)}.",
        verdict_of(leak == 0 < past),
        "",
        {"later words": leak, "words up to its own": past},
    )


# --- positions of pictures and points --------------------------------------------------------------------------------------
@claim("Convolution is equivariant to translation.", "Goodfellow 2016, section 9.2")
def convolution_is_equivariant(setting: Setting) -> ClaimMeasurement:
    result = setting.result(reach.STUDY)
    ring, inside, edge = (result.numbers[f"shift, {n}"] or 0.0 for n in ("circular", "zeros, inside", "zeros, at the edge"))
    x = normal(1, 1, 16)
    stride = nn.Conv1d(1, 1, 3, padding=1, stride=2, padding_mode="circular").double()
    with torch.no_grad():
        y = stride(x)
        errors = {by: min(relative_error(stride(x.roll(by, -1)), y.roll(s, -1)) for s in range(8)) for by in (1, 2)}
    return ClaimMeasurement(
        f"Eight layers on a ring commute with a shift up to {fmt(ring)}; with zeros around, up to {fmt(inside)} inside and "
        f"{fmt(edge)} near the border; with stride 2, up to {fmt(errors[2])} for a shift by 2 and {fmt(errors[1])} for a "
        "shift by 1.",
        verdict_of(max(ring, edge, errors[1]) < ROUNDING, max(ring, inside, errors[2]) < ROUNDING),
        "Away from borders, and for shifts by whole strides.",
        {"ring": ring, "inside": inside, "border": edge, "stride 2, by 2": errors[2], "stride 2, by 1": errors[1]},
        result.panels[1:],
    )


@claim(
    "Zero padding lets a convolutional network encode positions.",
    "Islam 2020, “How Much Position Information Do Convolutional Neural Networks Encode?”, on padding",
)
def zero_padding_encodes_positions(setting: Setting) -> ClaimMeasurement:
    spread = {}
    for mode in ("zeros", "circular"):
        with torch.no_grad():
            rows = torch.ones(1, 4, 32, dtype=torch.float64)
            for _ in range(6):
                rows = nn.Conv1d(4, 4, 5, padding=2, padding_mode=mode).double()(rows).tanh()
        spread[mode] = relative_error(rows, rows.mean(-1, keepdim=True).expand_as(rows))
        if mode == "zeros":
            touched = int(((rows - rows[..., 16:17]).abs().amax((0, 1)) > 1e-9).sum())
    return ClaimMeasurement(
        f"A picture of ones through six convolutions of 5: with zeros around, rows differ by {fmt(spread['zeros'])} from position "
        f"to position, at {touched} of 32 positions; on a ring by {fmt(spread['circular'])}.",
        verdict_of(spread["zeros"] > 0.01 and spread["circular"] < ROUNDING),
        "As far from the border as the layers reach.",
        spread,
    )


@claim(
    "A vision transformer without positions is invariant to shifts of the picture.",
    "Dosovitskiy 2021, section 3.1 (inductive bias)",
)
def vit_ignores_shifts(setting: Setting) -> ClaimMeasurement:
    picture = torch.rand(3, 16, 16, dtype=torch.float64)
    errors: dict[str, dict[int, float]] = {}
    for name, position in {"without positions": NoPosition(), "learned positions": LearnedNd((4, 4))}.items():
        input_layer = InputLayer(features=48, patch=(4, 4))
        block = Block(Attention(heads=2, position=position))
        model = build(Spec(WIDTH, input=input_layer, layers=2, block=block, readout="mean")).double()
        with torch.no_grad():
            for parameter in model.position.parameters():
                parameter.normal_()
            errors[name] = {by: relative_error(model(picture.roll(by, -1)), model(picture)) for by in (4, 1)}
    bare, placed = errors["without positions"], errors["learned positions"]
    return ClaimMeasurement(
        f"Shifted round by one patch, the answer changes by {fmt(bare[4])}; by one pixel, by {fmt(bare[1])}. With learned "
        f"positions it changes by {fmt(placed[4])} and {fmt(placed[1])}.",
        verdict_of(max(bare.values()) < ROUNDING, bare[4] < ROUNDING),
        "Shifts by whole patches, round the border. It is invariant to permutations of the patches too.",
        {f"{n}, by {by}": e for n, by_shift in errors.items() for by, e in by_shift.items()},
    )


@claim(
    "A network whose inputs are distances only cannot distinguish a molecule from its mirror image.",
    "Adams 2022 (ChIRo), section 1",
)
def distances_ignore_reflections(setting: Setting) -> ClaimMeasurement:
    at, x = normal(6, 3), normal(6, WIDTH)
    turn = torch.linalg.qr(normal(3, 3)).Q
    turn = turn * torch.linalg.det(turn).sign()
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))
    errors: dict[str, list[float]] = {}
    for name, scheme in {"distances": Alibi(), "coordinates": Fourier(axes=3)}.items():
        block = Block(Attention(heads=2, position=scheme))
        model = build(Spec(WIDTH, layers=2, block=block, readout="mean")).double()
        errors[name] = [relative_error(model(_placed(x, at @ moved)), model(_placed(x, at))) for moved in (turn, mirror)]
    (turned, mirrored), (other, _) = errors["distances"], errors["coordinates"]
    return ClaimMeasurement(
        f"With scores that fall with distance, a rotated molecule changes the output by {fmt(turned)}, its mirror image by "
        f"{fmt(mirrored)}. With coordinates as Fourier features, the rotation changes it by {fmt(other)}.",
        verdict_of(max(turned, mirrored) < 1e-10 < other),
        "It cannot learn a chiral property, and need not learn rotational symmetry.",
        {"distances, rotated": turned, "distances, mirrored": mirrored, "coordinates, rotated": other},
    )


def _placed(x: Tensor, at: Tensor) -> Tokens:
    return Tokens(x=x, positions=at, order=torch.arange(len(x)))


# --- how far ------------------------------------------------------------------------------------------------------------
@claim(
    "Attention connects any two words by one step, a recurrent network by N, convolutions by N/k.",
    "Vaswani 2017, section 4 and table 1",
)
def attention_reaches_all(setting: Setting) -> ClaimMeasurement:
    result = setting.result(reach.STUDY)
    lstm, edge, beyond, far = (result.numbers[n] or 0.0 for n in (
        "LSTM at 63", "reach of the convolutions", "convolutions beyond", "attention at 63 / at 1"))  # fmt: skip
    return ClaimMeasurement(
        f"The gradient of the last output with respect to a word 63 back: {fmt(lstm)} of that at the last word in an LSTM; "
        f"exactly {fmt(beyond)} beyond {edge:g} words in eight convolutions of 3; in attention {fmt(far)} times that of its "
        "neighbour.",
        verdict_of(lstm < 1e-6 and beyond == 0 and edge == reach.LAYERS and 0.1 < far < 10),
        "Untrained nets; a trained forget gate reaches further.",
        {"LSTM": lstm, "convolutions reach": edge, "attention": far},
        result.panels[:1],
    )


@claim(
    "The output at the first patch of a picture can be read out in place of a class token.",
    "follows from Vaswani 2017, table 1: any two tokens are one step apart",
)
def a_first_patch_reads_the_picture(setting: Setting) -> ClaimMeasurement:
    patches, reach, moved = 16, {}, {}
    x = normal(patches, WIDTH)
    for name, causal, readout in (
        ("first, full mask", False, "first"), ("first, causal mask", True, "first"), ("class, full mask", False, "class"),
        ("class, causal mask", True, "class"),
    ):  # fmt: skip
        model, tokens = _model(2, causal, readout=readout), Tokens.of(x.clone().requires_grad_())
        sizes = torch.autograd.grad(model(tokens).square().sum(), tokens.x)[0].norm(dim=-1)
        reach[name] = int((sizes > 0).sum())
        moved[name] = relative_error(model(Permute((*range(1, patches), 0)).on_input(Tokens.of(x))), model(Tokens.of(x)))
    return ClaimMeasurement(
        f"Of {patches} patches, the output depends on {reach['first, full mask']} (first patch) and {reach['class, full mask']} "
        f"(class token) with a full mask, on {reach['first, causal mask']} and {reach['class, causal mask']} with a causal one. "
        f"Without positions, another patch in front changes the first patch's output by {fmt(moved['first, full mask'])}, the "
        f"class token's by {fmt(moved['class, full mask'])}.",
        verdict_of(min(reach.values()) == patches, reach["first, full mask"] == patches),
        "With a full mask, and at the price of one more asymmetry: the answer depends on which patch is first. Under a causal mask "
        "the first patch attends to itself only; a class token, which stands behind all patches here, attends to all of them. What "
        "training makes of it, recipes/questions/causal-pictures.toml measures.",
        {f"patches, {name}": float(n) for name, n in reach.items()} | {f"moved, {name}": e for name, e in moved.items()},
    )


@claim(
    "With a sliding window of W, information moves up to W words a layer: k layers reach k · W.",
    "Jiang 2023 (Mistral 7B), section 2",
)
def receptive_fields_add_up(setting: Setting) -> ClaimMeasurement:
    length, back, layers = 48, 4, 6
    x = normal(length, WIDTH).requires_grad_()
    y, mask, far, strength = x, Causal() & Window(back + 1), [], []
    sizes = torch.zeros(length, dtype=torch.float64)
    for _ in range(layers):
        y = y + MultiHeadAttention(WIDTH, heads=2, mask=mask).double()(Tokens.of(y))
        sizes = torch.autograd.grad(y[-1].square().sum(), x, retain_graph=True)[0].norm(dim=-1).flip(0)
        far.append(int((sizes > 0).nonzero().max()))
        strength.append((sizes[far[-1]] / sizes[0]).item())
    reached = far == [back * (n + 1) for n in range(layers)]
    return ClaimMeasurement(
        f"With a window of {back} words back, after 1 to {layers} layers its output depends on words up to "
        f"{', '.join(map(str, far))} back. The farthest of them counts {fmt(strength[-1])} of what the word itself does.",
        verdict_of(reached and strength[-1] > 0.1, reached),
        "As a bound. The ends are reached along one path of many, and have little influence.",
        {f"reach, {n + 1} layers": f for n, f in enumerate(far)} | {"strength at the end": strength[-1]},
        figure_panel(
            f"gradient of the last word, {layers} layers, relative",
            "words back",
            "",
            curve("window of 4", list(range(far[-1] + 1)), sizes[: far[-1] + 1] / sizes[0]),
            log="y",
        ),
    )
