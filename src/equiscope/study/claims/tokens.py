"""Claims about tokens: patches, sounds, subwords, packed texts."""

from itertools import pairwise

import torch
from torch import nn

from equiscope.errors import EquiscopeError
from equiscope.models import Attention, Block, Spec, build
from equiscope.positions import Rope
from equiscope.study.base import fmt
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, normal, verdict_of
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens, by_bytes, by_pieces, by_words, log_mel, pack, patches, tubelets

SAID = "the more that a thing is pointed at, the more it is the thing that is pointed at; the other things are not. "


@claim(
    "Cutting a picture into patches and mapping them linearly is a convolution whose stride is its kernel.",
    "Dosovitskiy 2021, section 3.1; Arnab 2021, section 3.2 (tubelets)",
)
def patches_are_a_convolution(setting: Setting) -> ClaimMeasurement:
    layer, picture = nn.Conv2d(3, 8, 4, stride=4, bias=False).double(), normal(2, 3, 16, 24)
    solid, video = nn.Conv3d(3, 8, (2, 4, 4), stride=(2, 4, 4), bias=False).double(), normal(6, 3, 8, 8)
    with torch.no_grad():
        flat = patches(picture, (4, 4)).x @ layer.weight.flatten(1).T
        errors = {"patches": relative_error(flat, layer(picture).flatten(2).mT)}
        cells = tubelets(video, (2, 4, 4)).x
        errors["tubelets"] = min(
            relative_error(cells @ solid.weight.permute(axes).flatten(1).T, solid(video.movedim(0, 1)).flatten(1).T)
            for axes in ((0, 1, 2, 3, 4), (0, 2, 1, 3, 4))
        )
    return ClaimMeasurement(
        f"With the same weights, patches and torch's convolution differ by {fmt(errors['patches'])}, tubelets of a video and a "
        f"convolution in 3-D by {fmt(errors['tubelets'])}.",
        verdict_of(max(errors.values()) < ROUNDING),
        "",
        errors,
    )


@claim(
    "A spectrogram is equivariant to shifts in time.",
    "Oppenheim 2010, “Discrete-Time Signal Processing”, section 10.3",
)
def spectrograms_are_equivariant_in_time(setting: Setting) -> ClaimMeasurement:
    wave, rate = normal(4000), 8000
    hop = 80  # 10 ms
    rows = log_mel(wave, rate).x
    errors = {}
    for by in (hop, hop // 2, 1):
        later = log_mel(wave[by:], rate).x
        shifted = (rows[steps : steps + len(later) - 2] for steps in (0, 1))
        errors[by] = min(relative_error(later[: len(wanted)], wanted) for wanted in shifted)
    sign = relative_error(log_mel(-wave, rate).x, rows)
    return ClaimMeasurement(
        f"Moved by one hop of {hop} samples, log-mel rows move by one up to {fmt(errors[hop])}; by half a hop they are off by "
        f"{fmt(errors[hop // 2])}, by one sample by {fmt(errors[1])}. Inverting the sign of the wave changes them by "
        f"{fmt(sign)}.",
        verdict_of(max(errors.values()) < ROUNDING, errors[hop] < 1e-9),
        "Shifts by whole hops.",
        {f"by {by} samples": e for by, e in errors.items()} | {"sign": sign},
    )


@claim("Byte-level tokens can encode any text; there is no unknown word.", "Radford 2019 (GPT-2), section 2.2")
def byte_tokens_encode_any_text(setting: Setting) -> ClaimMeasurement:
    hard = "naïve 你好 🙂 \u0000 zzyzx"
    kinds = {"bytes": by_bytes(), "pieces of bytes": by_pieces(SAID, 300)}
    kept = {name: tokenizer.decode(tokenizer.encode(hard)) == hard for name, tokenizer in kinds.items()}
    try:
        words = by_words(SAID)
        known = words.decode(words.encode(hard)) == hard
    except EquiscopeError:
        known = False
    return ClaimMeasurement(
        f"“naïve 你好 🙂”, a zero byte and a made-up word come back unchanged from {sum(kept.values())} of 2 kinds "
        f"({', '.join(kinds)}); a list of words {'gives them back too' if known else 'refuses the text'}.",
        verdict_of(all(kept.values()) and not known),
        "",
        {name: float(k) for name, k in kept.items()} | {"words": float(known)},
    )


@claim("Merging frequent byte pairs makes a text shorter.", "Sennrich 2016, section 3.2")
def merges_shorten_text(setting: Setting) -> ClaimMeasurement:
    sizes = (257, 280, 320, 400)
    lengths = [len(by_pieces(SAID * 4, size).encode(SAID)) for size in sizes]
    other = "Quixotic jabberwocks vex zymurgy!"
    elsewhere, plain = len(by_pieces(SAID * 4, sizes[-1]).encode(other)), len(by_bytes().encode(other))
    return ClaimMeasurement(
        f"With {', '.join(map(str, sizes))} tokens, a sentence of {len(by_bytes().encode(SAID))} bytes takes "
        f"{', '.join(map(str, lengths))}. A sentence of {plain} bytes with other words takes {elsewhere} with the most tokens.",
        verdict_of(all(a >= b for a, b in pairwise(lengths)) and lengths[-1] < lengths[0] / 2),
        "Texts like those of training gain; others keep nearly a token a byte.",
        {f"{s} tokens": n for s, n in zip(sizes, lengths, strict=True)} | {"other words": elsewhere},
    )


@claim(
    "Several texts packed in one row give the same as each alone.",
    "Krell 2021, “Efficient Sequence Packing without Cross-contamination”, abstract; Dehghani 2023 (NaViT), section 2.1",
)
def packing_changes_nothing(setting: Setting) -> ClaimMeasurement:
    model = build(Spec(16, layers=2, block=Block(Attention(heads=2, causal=True, position=Rope())))).double()
    parts = [Tokens.of(normal(n, 16)) for n in (5, 9, 3)]
    alone = torch.cat([model(part) for part in parts])
    error = relative_error(model(pack(parts)), alone)
    untold = relative_error(model(Tokens.of(torch.cat([part.x for part in parts]))), alone)
    return ClaimMeasurement(
        f"With a mask by document, three texts in one row differ by {fmt(error)} from themselves alone; without it, by "
        f"{fmt(untold)}.",
        verdict_of(max(error, untold) < ROUNDING, error < ROUNDING),
        "With a mask by document, and positions that restart in each text.",
        {"with the mask": error, "without": untold},
    )


@claim(
    "One pass over a text under a causal mask trains on all its prefixes at once.",
    "Vaswani 2017, section 3.2.3; Radford 2018, section 3.1",
)
def one_pass_reads_all_prefixes(setting: Setting) -> ClaimMeasurement:
    x, errors = normal(12, 16), {}
    for name, causal in {"causal": True, "full attention": False}.items():
        model = build(Spec(16, layers=2, block=Block(Attention(heads=2, causal=causal, position=Rope())))).double()
        whole = model(Tokens.of(x))
        errors[name] = relative_error(torch.stack([model(Tokens.of(x[: n + 1]))[-1] for n in range(12)]), whole)
    return ClaimMeasurement(
        f"Row n of one pass and the last row of a pass over the first n words differ by {fmt(errors['causal'])}; without the "
        f"mask, by {fmt(errors['full attention'])}.",
        verdict_of(errors["causal"] < ROUNDING < errors["full attention"]),
        "",
        errors,
    )
