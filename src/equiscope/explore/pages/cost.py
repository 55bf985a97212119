"""The page of cost: what every part of a transformer multiplies, as formulas of its sizes, and what that takes on this machine.

The formulas stand here and nowhere else: the page evaluates them, and tests hold them against torch's counter and `describe`.
Sources: Vaswani et al. 2017, table 1; Kaplan et al. 2020, section 2.1; Ainslie et al. 2023 (shared keys); Dao et al. 2022 (fused).
"""

import math
from html import escape

from equiscope.explore.page import PLAIN, number, table
from equiscope.models import PRESETS, Spec
from equiscope.positions import Learned, LearnedNd
from equiscope.record import Cost
from equiscope.record.cost import CostPart, CostTerm, MemoryItem, Preset, Size, Speeds, amount

WORK = [
    CostPart(
        name="embedding", group="ends", per_layer=False,
        about="tokens are looked up in a table, without multiplications; patches are projected to the width",
        full_pass=[CostTerm(1, "BNPD", ["patches"]), CostTerm(-1, "BEPD", ["patches"])],
        parameters=[
            CostTerm(1, "VD", ["words"]), CostTerm(1, "TD"), CostTerm(1, "ED"), CostTerm(1, "PD", ["patches"]),
            CostTerm(1, "D", ["patches"]),
            CostTerm(2, "D", ["kinds"]), CostTerm(1, "D", ["entry norm"]), CostTerm(1, "D", ["entry norm", "shifts"]),
        ],
    ),
    CostPart(
        name="projections", group="attention", about="from every token to queries, keys and values, and the output projection",
        full_pass=[CostTerm(2, "BNDD"), CostTerm(2, "BNDGK")],
        decoding_step=[CostTerm(2, "BDD"), CostTerm(2, "BDGK")],
        parameters=[CostTerm(2, "DD"), CostTerm(2, "DGK"), CostTerm(2, "D", ["bias"]), CostTerm(2, "GK", ["bias"])],
    ),
    CostPart(
        name="QKᵀ", group="attention", about="every query with every key: K products for each head, D for all heads",
        full_pass=[CostTerm(1, "BNND")], decoding_step=[CostTerm(1, "BND")],
    ),
    CostPart(
        name="softmax", group="attention", about="one exponential for every pair and head, which FLOP counters leave out",
        full_pass=[CostTerm(1, "BHNN")], decoding_step=[CostTerm(1, "BHN")], counted=False,
    ),
    CostPart(
        name="AV", group="attention", about="the weighted sum of the values, for every token",
        full_pass=[CostTerm(1, "BNND")], decoding_step=[CostTerm(1, "BND")],
    ),
    CostPart(
        name="feed-forward", group="feed-forward", about="each token on its own, through F hidden features and back",
        full_pass=[CostTerm(2, "BNDF"), CostTerm(1, "BNDF", ["gate"])],
        decoding_step=[CostTerm(2, "BDF"), CostTerm(1, "BDF", ["gate"])],
        parameters=[CostTerm(2, "DF"), CostTerm(1, "DF", ["gate"]), CostTerm(1, "F", ["inner bias"]),
            CostTerm(1, "D", ["inner bias"])],
    ),
    CostPart(
        name="norms", group="ends", about="two in each layer; no matrix product",
        parameters=[CostTerm(2, "D"), CostTerm(2, "D", ["shifts"])],
    ),
    CostPart(
        name="output layer", group="ends", per_layer=False,
        about="from every token, or from one for the whole input, to the logits of the vocabulary or of the classes",
        full_pass=[CostTerm(1, "BNDV", ["each"]), CostTerm(1, "BDV", ["one"]), CostTerm(1, "BNDD", ["answer map"])],
        decoding_step=[CostTerm(1, "BDV", ["each"]), CostTerm(1, "BDD", ["answer map"])],
        parameters=[
            CostTerm(1, "DV", ["own answers"]), CostTerm(1, "V", ["answer bias"]), CostTerm(1, "DD", ["answer map"]),
            CostTerm(1, "D", ["answer map"]), CostTerm(2, "D", ["answer norm"]),
            CostTerm(1, "D", ["last norm"]), CostTerm(1, "D", ["last norm", "shifts"]),
        ],
    ),
]  # fmt: skip
STORES = [
    MemoryItem(
        name="KV cache", numbers=[CostTerm(2, "BLNGK")],
        about="keys and values of every token and layer during generation",
    ),
    MemoryItem(
        name="attention matrix, one layer", numbers=[CostTerm(1, "BHNN")],
        about="eager attention stores a weight for every pair and head",
    ),
    MemoryItem(
        name="attention matrices, all layers", numbers=[CostTerm(1, "BLHNN")],
        about="training with eager attention keeps all of them for the backward pass",
    ),
    MemoryItem(
        name="fused kernel, one layer", numbers=[CostTerm(1, "BHN")], bytes=4,
        about="computes the weights block by block and stores one log-sum-exp a row, in float32: no memory grows with N²",
    ),
]  # fmt: skip
KNOWN = {  # presets, how people call them, and a length to begin with
    "gpt2": ("GPT-2", 1024), "gpt2-xl": ("GPT-2 XL", 1024), "llama-1b": ("Llama 3.2 1B", 4096), "llama-8b": ("Llama 3.1 8B", 8192),
    "bert-base": ("BERT base", 512), "vit-b": ("ViT-B/16", 197), "vit-ti": ("ViT-Ti/16", 197),
    "nanogpt-char": ("nanoGPT, letters", 256),
}  # fmt: skip
POWERS = [2**i for i in range(21)]
SIZES = [
    Size(letter="N", name="tokens", low=1, high=2**22, stops=sorted([*POWERS, *(3 * p // 2 for p in POWERS[4:])])),
    Size(
        letter="D", name="width", low=1, high=65536,
        stops=[16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1600, 2048, 3072, 4096, 5120, 8192, 12288, 16384],
    ),
    Size(letter="H", name="heads", low=1, high=65536),
    Size(letter="G", name="key/value heads", low=1, high=65536),
    Size(letter="F", name="feed-forward, multiple of the width", low=1, high=64 * 65536),
    Size(letter="L", name="layers", low=1, high=1000, stops=[*range(1, 13), 16, 20, 24, 28, 32, 36, 40, 48, 64, 80, 96, 128]),
    Size(letter="B", name="batch size", low=1, high=2**16, stops=POWERS[:11]),
    Size(
        letter="V", name="vocabulary or classes", low=1, high=2**22,
        stops=[2, 10, 65, 256, 1000, 4096, 10000, 16000, 30522, 37000, 50257, 65536, 100000, 128256, 200000, 262144],
    ),
]  # fmt: skip
SUMMARY = "What each part of a transformer multiplies, as formulas of its sizes, and what that takes on a machine."
NOTES = [
    "A multiply-add is one product and one sum; torch's FlopCounterMode counts 2 for it.",
    "Every pair of tokens is counted, masked or not: a causal mask saves nothing here. A kernel that skips masked pairs "
    "computes about half of QKᵀ and AV.",
    "Softmax, norms, activations, biases and position schemes are left out, as in torch's FlopCounterMode. It also counts "
    "0 for torch's fused kernel on a CPU, so the formulas are tested against eager attention.",
]


def cost(speeds: Speeds | None = None) -> Cost:
    """What the page holds. speeds: of this machine; None: the page is of formulas alone."""
    presets = [preset(name, title, PRESETS[name](), tokens) for name, (title, tokens) in KNOWN.items()]
    return Cost(
        title="cost", summary=SUMMARY, sizes=SIZES, parts=WORK, memory=STORES, presets=presets, speeds=speeds, notes=NOTES
    )  # fmt: skip


def preset(name: str, title: str, spec: Spec, tokens: int) -> Preset:
    """The sizes of a spec whose layers are alike, without an encoder; tokens: those of its layers, a class token among them."""
    block = spec.uniform_block
    a, f, norm, position = block.attention, block.feedforward, block.norm, block.attention.position
    assert f is not None, f"{name} has no feed-forward"
    assert norm is not None, f"{name} has no norms"
    cells = position.shape if isinstance(position, LearnedNd) else (0,)
    table = position.length if isinstance(position, Learned) else math.prod(cells)
    has = {
        "words": bool(spec.vocabulary), "patches": bool(spec.input.features), "kinds": spec.input.types == 2,
        "entry norm": spec.input.norm, "bias": a.bias is True, "gate": f.gated, "inner bias": f.bias and not f.gated,
        "shifts": norm.kind == "layer" and norm.bias, "last norm": norm.order == "pre", "each": spec.readout == "each",
        "one": spec.readout != "each", "own answers": not spec.tied, "answer bias": spec.output.bias,
        "answer map": spec.output.hidden is not None, "answer norm": spec.output.norm, "causal": a.causal,
    }  # fmt: skip
    sizes = {
        "B": 1, "N": tokens, "D": spec.width, "H": a.heads, "G": a.kv_heads or a.heads, "F": f.inner or 4 * spec.width,
        "L": spec.layers, "V": spec.outputs or 0, "P": spec.input.features or 0, "T": table,
        "E": int(spec.readout == "class") + (spec.input.registers or 0),
    }  # fmt: skip
    return Preset(name=name, title=title, sizes=sizes, features=[what for what, there in has.items() if there])


def plain(page: Cost) -> str:
    """The formulas, the known models and the times as tables, as markup."""
    formulas = [[w.name, written(w.full_pass), written(w.decoding_step), written(w.parameters), w.about] for w in page.parts]
    stores = [[s.name, written(s.numbers), s.about] for s in page.memory]
    known = [[one.title, *(f"{one.sizes[size.letter]:,}" for size in page.sizes), *_sums(page, one)] for one in page.presets]
    times = [
        [
            t.part,
            f"{t.n:,}",
            f"{t.d:,}",
            str(t.heads or ""),
            f"{t.multiply_adds:,}",
            number(t.median),
            number(t.low),
            number(t.high),
        ]
        for t in (page.speeds.timings if page.speeds else [])
    ]
    about = f"{page.speeds.cpu}, torch {page.speeds.torch}, {page.speeds.dtype}, one sequence" if page.speeds else ""
    heads = ["part", "one pass", "one token more", "parameters", "what it is"]
    return (
        f'<div class="bare-report"><h1>What a transformer costs</h1>\n<p>{escape(page.summary)}</p>\n<p>{PLAIN}</p>\n'
        + table("Formulas, of one layer where layers repeat", heads, formulas)
        + table("Numbers to hold", ["what", "how many", "why"], stores)
        + table("Known models", ["model", *(s.name for s in page.sizes), "multiply-adds of a pass", "parameters"], known)
        + table(f"Milliseconds of one layer: {about}",
                ["part", "tokens", "width", "heads", "multiply-adds", "median", "lower quartile", "upper quartile"], times)
        + "".join(f"<p>{escape(note)}</p>\n" for note in page.notes)
        + "</div>"
    )  # fmt: skip


def _sums(page: Cost, one: Preset) -> list[str]:
    """Multiply-adds of a pass, and parameters."""
    totals = []
    for column in ("full_pass", "parameters"):
        parts = [w for w in page.parts if w.counted or column == "parameters"]
        layers = [one.sizes["L"] if w.per_layer else 1 for w in parts]
        totals.append(sum(amount(getattr(w, column), one.sizes, one.features) * n for w, n in zip(parts, layers, strict=True)))
    return [f"{value:,}" for value in totals]


def written(terms: list[CostTerm]) -> str:
    """2BND² + BNDF (gate): a formula in letters, with what the model must have for a part of it to count."""
    return " ".join(("− " if t.coefficient < 0 else "+ " if i else "") + _product(t) for i, t in enumerate(terms)) or "0"


def _product(term: CostTerm) -> str:
    powers = "".join(letter + ("", "", "²", "³")[term.symbols.count(letter)] for letter in dict.fromkeys(term.symbols))
    only = f" ({', '.join(term.requires)})" if term.requires else ""
    return f"{abs(term.coefficient) if abs(term.coefficient) > 1 else ''}{powers}{only}"
