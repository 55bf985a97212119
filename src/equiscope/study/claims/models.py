"""Claims about whole models: dropout, weight tying and label smoothing in training, and generation."""

import itertools
import math
from dataclasses import replace

import torch
from torch import nn

from equiscope.blocks import FeedForwardNetwork
from equiscope.models import Attention, Beams, Block, Draft, Model, Spec, build, generate
from equiscope.positions import Alibi, Learned, NoPosition, Position, Rope, Sinusoidal, T5Bias
from equiscope.study.base import fmt
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, normal, verdict_of
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens


# --- training ---------------------------------------------------------------------------------------------------------
@claim(
    "Dropout, scaled while training, leaves the expected output as it is in evaluation.",
    "Srivastava 2014, section 1; Goodfellow 2016, section 7.12",
)
def dropout_keeps_the_mean(setting: Setting) -> ClaimMeasurement:
    x, samples = normal(4, 32), 4000 if setting.quick else 20_000
    dropped = nn.functional.dropout(x.expand(samples, -1, -1), 0.3)
    errors = {}
    for name, layer in {
        "linear": nn.Linear(32, 32).double(),
        "feed-forward": FeedForwardNetwork(32, 64, "relu").double(),
        "softmax": nn.Softmax(-1),
    }.items():
        with torch.no_grad():
            outputs = layer(dropped)
            mean = outputs.mean(0)
            noise = (outputs.std(0) / math.sqrt(samples)).norm().item() / layer(x).norm().item()
            errors[name] = (relative_error(mean, layer(x)), noise)
    unbiased = {name: e < 3 * noise for name, (e, noise) in errors.items()}
    listed = ", ".join(f"{fmt(e)} ({name}; chance alone gives {fmt(noise)})" for name, (e, noise) in errors.items())
    return ClaimMeasurement(
        f"Mean of {samples} passes with a share of 0.3 dropped, against evaluation: off by {listed}.",
        verdict_of(all(unbiased.values()), unbiased["linear"]),
        "Behind linear maps. Behind anything else the mean of outputs is not the output of the mean.",
        {name: e for name, (e, _) in errors.items()},
    )


@claim(
    "One table for input and output saves as many weights as it holds.",
    "Press 2017, “Using the Output Embedding”, section 1; Inan 2017",
)
def weight_tying_saves_a_table(setting: Setting) -> ClaimMeasurement:
    vocabulary, width = 500, 16
    spec = Spec(width, vocabulary, outputs=vocabulary)
    tied, free = build(replace(spec, tied=True)).double(), build(spec).double()
    saved = sum(p.numel() for p in free.parameters()) - sum(p.numel() for p in tied.parameters())
    ids = torch.randint(vocabulary, (1, 8))
    tied(ids).logsumexp(-1).sum().backward()
    table = tied.get_parameter("embedding.weight").grad
    rows = int((table.abs().amax(-1) > 0).sum()) if table is not None else 0
    distinct = len(ids.unique())
    return ClaimMeasurement(
        f"Of a vocabulary of {vocabulary} and a width of {width}, {saved} weights are saved (V·D = {vocabulary * width}). The "
        f"output side gives a gradient to {rows} rows in each step; the input side alone would reach the {distinct} words of the "
        "text.",
        verdict_of(saved == vocabulary * width and rows == vocabulary),
        "",
        {"saved": float(saved), "rows with a gradient": float(rows)},
    )


@claim(
    "With label smoothing the loss cannot reach 0, and the best logits are finite.",
    "Szegedy 2016, section 7; Müller 2019, section 1",
)
def label_smoothing_bounds_the_logits(setting: Setting) -> ClaimMeasurement:
    vocabulary, share = 10, 0.1
    smoothed = torch.full((vocabulary,), share / vocabulary, dtype=torch.float64)
    smoothed[0] += 1 - share
    least, gap = torch.special.entr(smoothed).sum().item(), math.log(smoothed[0].item() / smoothed[1].item())
    losses, gaps = {}, {}
    for name, eps in {"smoothed": share, "plain": 0.0}.items():
        logits = torch.zeros(1, vocabulary, dtype=torch.float64, requires_grad=True)
        for _ in range(1500 if setting.quick else 4000):
            loss = nn.functional.cross_entropy(logits, torch.zeros(1, dtype=torch.long), label_smoothing=eps)
            with torch.no_grad():
                logits -= torch.autograd.grad(loss, logits)[0]
        losses[name], gaps[name] = loss.item(), (logits[0, 0] - logits[0, 1]).item()
    return ClaimMeasurement(
        f"Descent ends at a loss of {losses['smoothed']:.6f} (the entropy of the smoothed label is {least:.6f}), with the right "
        f"logit {gaps['smoothed']:.4f} above the others (by formula {gap:.4f}). Without smoothing the loss is "
        f"{fmt(losses['plain'])} by then and the gap {fmt(gaps['plain'])}, and both go on.",
        verdict_of(abs(losses["smoothed"] - least) < 1e-6 and abs(gaps["smoothed"] - gap) < 1e-3 and losses["plain"] < least / 10),
        "",
        {"loss": losses["smoothed"], "entropy": least, "gap": gaps["smoothed"], "loss, plain": losses["plain"]},
    )


@claim(
    "An untrained language model has a loss of ln V.", "Karpathy 2019, “A Recipe for Training Neural Networks” (verify loss @ init)"
)
def untrained_loss_is_ln_v(setting: Setting) -> ClaimMeasurement:
    vocabulary, losses = 256, {}
    ids = torch.randint(vocabulary, (8, 33))
    for name, tied in {"tied table": True, "table of its own": False}.items():
        model = build(
            Spec(64, vocabulary, layers=2, block=Block(Attention(heads=4, causal=True)), outputs=vocabulary, tied=tied)
        ).double()
        with torch.no_grad():
            losses[name] = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).item()
            if not tied:
                model.get_parameter("output_layer.lm_head.weight").mul_(0.1)
                losses["final map × 0.1"] = nn.functional.cross_entropy(
                    model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()
                ).item()
    wanted = math.log(vocabulary)
    near = {name: abs(loss / wanted - 1) < 0.02 for name, loss in losses.items()}
    return ClaimMeasurement(
        f"ln {vocabulary} = {wanted:.3f}; found: {', '.join(f'{loss:.3f} ({name})' for name, loss in losses.items())}.",
        verdict_of(all(near.values()), any(near.values())),
        "Where the final map is small. Logits of variance 1 add one half: overconfident random predictions.",
        losses | {"ln V": wanted},
    )


# --- generation --------------------------------------------------------------------------------------------------------
@claim(
    "Decoding with a KV cache gives the same outputs as recomputing the whole text.",
    "Pope 2023, section 2.1; Shazeer 2019, section 2.4",
)
def a_cache_is_exact(setting: Setting) -> ClaimMeasurement:
    schemes: tuple[Position, ...] = (NoPosition(), Sinusoidal(), Learned(64), Rope(), Alibi(), T5Bias())
    x, errors = normal(12, 16), {}
    for scheme in schemes:
        model = build(Spec(16, layers=2, block=Block(Attention(heads=2, causal=True, position=scheme)))).double()
        with torch.no_grad():
            caches = model.caches()
            parts = [model(Tokens.of(x[n : n + 1], start=n), caches) for n in range(12)]
            errors[scheme.name] = relative_error(torch.cat(parts), model(Tokens.of(x)))
    return ClaimMeasurement(
        f"Word by word against all at once, two layers, {len(schemes)} position schemes: off by {fmt(max(errors.values()))} at "
        "most.",
        verdict_of(max(errors.values()) < ROUNDING),
        "Under a causal mask, with positions that do not depend on the length (see dynamic-ntk-breaks-caches).",
        errors,
    )


def _writer(layers: int = 1, vocabulary: int = 6) -> Model:
    return build(
        Spec(16, vocabulary, layers=layers, block=Block(Attention(heads=2, causal=True, position=Rope())), outputs=vocabulary)
    ).double()


@claim(
    "Taking the most probable word at each step gives the most probable text.",
    "the belief that Stahlberg 2019, “On NMT Search Errors”, section 1, speaks against",
)
def greedy_decoding_finds_the_best(setting: Setting) -> ClaimMeasurement:
    many, steps, vocabulary = (12 if setting.quick else 60), 4, 6
    every = torch.tensor(list(itertools.product(range(vocabulary), repeat=steps)))
    hits = {"greedy": 0, "3 beams": 0}
    for _ in range(many):
        model = _writer()
        prompt = torch.randint(vocabulary, (1, 3))
        with torch.no_grad():
            whole = torch.cat([prompt.expand(len(every), -1), every], 1)
            chances = model(whole[:, :-1])[:, 2:].log_softmax(-1).gather(-1, every[..., None]).sum((1, 2))
        best = every[chances.argmax()]
        hits["greedy"] += int(torch.equal(generate(model, prompt, steps)[0], best))
        hits["3 beams"] += int(torch.equal(generate(model, prompt, steps, beams=Beams(3))[0], best))
    share = {name: hit / many for name, hit in hits.items()}
    return ClaimMeasurement(
        f"For {many} untrained models, among all {len(every)} texts of {steps} words the greedy one is the most probable in "
        f"{fmt(100 * share['greedy'])} %; that of three beams in {fmt(100 * share['3 beams'])} %.",
        verdict_of(share["greedy"] == 1),
        "More often, the more confident the model is. That the most probable text is the best one is another belief.",
        share,
    )


@claim(
    "Speculative decoding with a small draft model changes the speed of a large model, not its text.",
    "Leviathan 2023, section 2 and appendix A.1",
)
def speculative_decoding_is_exact(setting: Setting) -> ClaimMeasurement:
    same, many = {"a small model": 0, "itself": 0}, 2 if setting.quick else 10
    for _ in range(many):
        large, small, prompt = _writer(2), _writer(1), torch.randint(6, (1, 4))
        plain = generate(large, prompt, 12)[0]
        for name, draft in {"a small model": small, "itself": large}.items():
            same[name] += int(torch.equal(generate(large, prompt, 12, draft=Draft(draft, ahead=3))[0], plain))
    return ClaimMeasurement(
        f"Greedy texts of 12 words by {many} models: with a draft by an untrained small model {same['a small model']} are the "
        f"same token for token, with a draft by the model itself {same['itself']}.",
        verdict_of(all(s == many for s in same.values())),
        "Greedy, as measured; sampled texts have the same distribution, but are others.",
        {name: s / many for name, s in same.items()},
    )
