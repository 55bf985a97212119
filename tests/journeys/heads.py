"""Records of heads for tests of their page: made by hand with numpy, where the answer is known, and the odd ones."""

import base64
import math
import struct
import zlib

import msgspec
import numpy as np

from equiscope.record import AttentionLayer, AttentionTensors, Heads, HeadStatistics, PositionTable, TokenSequence, pack, unpack
from equiscope.record.heads import Role

SENTENCE = ["The", "old", "dog", "that", "my", "neighbour", "walked", "across", "the", "lawn", "found", "its", "ball"]
HOSTILE = [
    "</script><script>window.stolen = 1</script>", "<img src=x onerror='window.stolen = 1'>", "👩\u200d👩\u200d👧",
    "e\u0301te\u0301", "\u0301", "zero\u200bwidth", "שלום", "عالم", "\u202eright", "\n", " ", "", "𝔘𝔫𝔦", "日本語", "a" * 300,
    "&amp;",
]  # fmt: skip
TONES: list[Role] = ["previous", "self", "first", "content", "uniform", "mixed"]


def attended(numbers: AttentionTensors, head: int, heads: int) -> np.ndarray:
    """Weights [N, M] in float64, computed from the definition in the record: the judge of the page."""
    if numbers.weights is not None:
        return unpack(numbers.weights)[head].astype(float)

    def of(array):
        return unpack(array)[head * array.shape[0] // heads].astype(float)

    q, k = of(numbers.q), of(numbers.k)
    scores = numbers.scale * q @ k.T
    if numbers.cap:
        scores = numbers.cap * np.tanh(scores / numbers.cap)
    if numbers.bias is not None:
        scores = scores + of(numbers.bias)
    n, m = scores.shape
    if numbers.causal:
        scores = np.where(np.arange(m)[None] <= np.arange(n)[:, None] + m - n, scores, -np.inf)
    if numbers.mask is not None:
        scores = np.where(of(numbers.mask) > 0, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    if numbers.sink is not None:
        total = total + np.exp(float(of(numbers.sink)) - top)
    return powers / total


def drawn(heads: int, rows: int, columns: int, width: int, seed: int, tones: list[Role] | None = None) -> tuple[np.ndarray, ...]:
    """Queries, keys and values of heads that look at the token before, at themselves, at the first one, by content, evenly."""
    rng = np.random.default_rng(seed)
    q, k, v = (0.6 * rng.standard_normal((heads, n, width)) for n in (rows, columns, columns))
    at = rng.standard_normal((max(rows, columns) + 1, width))
    for h, tone in enumerate(tones or []):
        if tone == "previous":
            q[h], k[h] = 1.5 * at[:rows], 1.5 * at[1 : columns + 1]
        elif tone == "self":
            q[h], k[h] = 1.5 * at[:rows], 1.5 * at[:columns]
        elif tone == "first":
            k[h, 0], q[h] = 3 * at[0], q[h] + at[0]
        elif tone == "content":
            q[h], k[h] = 2 * q[h], 2 * k[h]
        elif tone == "uniform":
            q[h] *= 0.1
    return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)


def layer(
    where: str, numbers: AttentionTensors, tones: list[Role], asks: int = 0, answers: int = 0, cross: bool = False, **more
) -> AttentionLayer:
    """A layer with what follows from its numbers: small pictures and figures."""
    weights = np.stack([attended(numbers, h, len(tones)) for h in range(len(tones))])
    side = min(32, max(weights.shape[1:]))
    found = [_figures(weights[h], role, cross) for h, role in enumerate(tones)]
    groups = numbers.k.shape[0] if numbers.k is not None else len(tones)
    fields = {
        "reconstruction_error": 2.1e-7,
        "tensors": numbers,
        "thumbnail": base64.b64encode(_thumbnails(weights, side)).decode(),
    } | more
    return AttentionLayer(
        where=where,
        cross=cross,
        query_sequence=asks,
        key_sequence=answers,
        kv_heads=groups,
        heads=found,
        thumbnail_side=side,
        **fields,
    )


def words() -> Heads:
    """Five layers of six heads: with a bias; with shared keys, a bound and a sink; with hidden tokens; of weights alone."""
    n, tones = len(SENTENCE), TONES
    layers = []
    for i in range(4):
        turned = tones[i:] + tones[:i]
        q, k, v = drawn(6, n, n, 16, i, turned)
        more: dict = {}
        if i == 1:
            more["bias"] = pack(
                np.stack([-abs(np.arange(n)[:, None] - np.arange(n)) * 2.0**-h for h in range(1, 7)]).astype(np.float32)
            )
        if i == 2:
            k, v, more = k[:2], v[:2], {"cap": 5.0, "sink": pack(np.linspace(-1, 2, 6).astype(np.float32))}
        causal = i != 3
        if i == 3:
            mask = np.ones((1, 1, n), dtype=bool)
            mask[..., -2:] = False
            more["mask"] = pack(mask)
        numbers = AttentionTensors(scale=0.25, causal=causal, q=pack(q), k=pack(k), v=pack(v), **more)
        layers.append(layer(f"model.layers.{i}.self_attn", numbers, turned))
    last = AttentionTensors(scale=0.25, weights=pack(np.stack([attended(layers[0].tensors, h, 6) for h in range(6)])))
    layers.append(
        layer(
            "model.layers.4.self_attn",
            last,
            tones,
            reconstruction_error=None,
            reason="These are the weights as the model had them.",
        )
    )
    return heads(
        "Toy: The old dog", layers, [TokenSequence(name="text", kind="words", labels=SENTENCE)], position_tables=[places()]
    )


def picture() -> Heads:
    """A model that sees: a class token and seven by seven patches."""
    side, layers = 7, []
    for i in range(3):
        tones: list[Role] = ["content", "first", "self", "uniform"]
        q, k, v = drawn(4, side * side + 1, side * side + 1, 16, i, tones)
        y, x = np.divmod(np.arange(side * side), side)
        blob = np.exp(-((y - 2 - i) ** 2 + (x - 4) ** 2) / 4)
        k[0, 1:] += 3 * blob[:, None] * q[0, 0]
        layers.append(layer(f"blocks.{i}.attn", AttentionTensors(scale=0.25, q=pack(q), k=pack(k), v=pack(v)), tones))
    labels = ["class token", *(f"row {r}, column {c}" for r in range(side) for c in range(side))]
    line = TokenSequence(name="picture", kind="patches", labels=labels, picture=photo(), grid=[side, side], prefix_tokens=1)
    table = msgspec.structs.replace(places(), grid=[7, 7], spectrum=[])
    return heads("Toy: a picture", layers, [line], position_tables=[table])


def translated() -> Heads:
    """A model that translates: its encoder, its decoder, and its cross-attention."""
    lines = [
        TokenSequence(name="source", kind="words", labels=["▁Ein", "▁Hund", "▁läuft", "▁über", "▁den", "▁Rasen", "</s>"]),
        TokenSequence(name="answer", kind="words", labels=["<s>", "▁A", "▁dog", "▁runs", "▁across", "▁the", "▁lawn", "▁."]),
    ]
    n, m, layers = 8, 7, []
    tones: list[Role] = ["content", "previous", "uniform", "mixed"]
    for i in range(2):
        for where, (asks, answers), causal in [
            ("encoder", (0, 0), False),
            ("decoder.self", (1, 1), True),
            ("decoder.cross", (1, 0), False),
        ]:
            q, k, v = drawn(4, (m, n)[asks], (m, n)[answers], 8, 3 * i + asks + answers, tones)
            numbers = AttentionTensors(scale=0.35, causal=causal, q=pack(q), k=pack(k), v=pack(v))
            layers.append(layer(f"{where}.{i}", numbers, tones, asks, answers, asks != answers))
    return heads("Toy: a translation", layers, lines)


def sound() -> Heads:
    """A model that hears: slices of ten milliseconds."""
    n, tones = 120, ["previous", "content", "uniform"]
    q, k, v = drawn(3, n, n, 16, 5, tones)
    line = TokenSequence(
        name="sound", kind="slices", labels=[f"{i / 100:.2f} s" for i in range(n)], seconds=[i / 100 for i in range(n)]
    )
    return heads("Toy: a sound", [layer("layers.0", AttentionTensors(scale=0.25, q=pack(q), k=pack(k), v=pack(v)), tones)], [line])


def hostile() -> Heads:
    """Labels from anybody."""
    n = len(HOSTILE)
    q, k, v = drawn(2, n, n, 4, 7)
    line = TokenSequence(name=HOSTILE[0], kind="words", labels=HOSTILE)
    found = layer(HOSTILE[0], AttentionTensors(scale=0.5, q=pack(q), k=pack(k), v=pack(v)), ["mixed", "content"], reason=HOSTILE[1])
    return heads(HOSTILE[0], [found], [line], notes=[HOSTILE[1]])


def large(tokens: int = 1024, layers: int = 12, count: int = 12, width: int = 64) -> Heads:
    """As many numbers as a usual model has, in float16."""
    rng = np.random.default_rng(0)
    made, tones = [], [TONES[i % 6] for i in range(count)]
    for i in range(layers):
        q, k, v = (rng.standard_normal((count, tokens, width), dtype=np.float32).astype(np.float16) for _ in range(3))
        numbers = AttentionTensors(scale=0.125, causal=True, q=pack(q), k=pack(k), v=pack(v))
        small = np.tril(rng.integers(0, 200, (count, 32, 32), dtype=np.uint8))
        found = [
            HeadStatistics(role=tone, previous=0.1, own=0.1, first=0.3, entropy=0.6, distance=20.0, content=0.4) for tone in tones
        ]
        made.append(
            AttentionLayer(
                where=f"h.{i}.attn",
                cross=False,
                query_sequence=0,
                key_sequence=0,
                kv_heads=count,
                heads=found,
                thumbnail=base64.b64encode(small.tobytes()).decode(),
                thumbnail_side=32,
                tensors=numbers,
                reconstruction_error=3e-4,
            )
        )
    labels = [f" {SENTENCE[i % len(SENTENCE)]}" for i in range(tokens)]
    return heads(f"Toy: {tokens} tokens", made, [TokenSequence(name="text", kind="words", labels=labels)])


def heads(title: str, layers: list[AttentionLayer], lines: list[TokenSequence], **more) -> Heads:
    fields = {"position_tables": [], "notes": ["These numbers were drawn by chance."]} | more
    return Heads(
        title=title, summary="A model made by hand, for tests.", target="toy", model="Toy", parameters=1234567, dtype="float32",
        sequences=lines, layers=layers, **fields,
    )  # fmt: skip


def places(rows: int = 64, width: int = 32) -> PositionTable:
    """A table of waves with noise, as a trained one looks."""
    at = np.arange(rows)[:, None] / 2.0 ** np.linspace(0.5, 6, width // 2)
    table = np.concatenate([np.sin(at), np.cos(at)], -1) + 0.2 * np.random.default_rng(1).standard_normal((rows, width))
    table /= np.linalg.norm(table, axis=-1, keepdims=True)
    cosines = table @ table.T
    apart = abs(np.arange(rows)[:, None] - np.arange(rows))
    means = [float(cosines[apart == d].mean()) for d in range(rows)]
    spread = [float(cosines[apart == d].std()) for d in range(rows)]
    power = (abs(np.fft.rfft(table - table.mean(0), axis=0)) ** 2).sum(-1)[1:]
    return PositionTable(
        where="model.embed_positions", rows=rows, width=width, step=1, cosines=pack(cosines.astype(np.float32)),
        distance=means, spread=spread, spectrum=(power / power.sum()).tolist(), shift_invariance=0.93,
    )  # fmt: skip


def photo(side: int = 56) -> str:
    """A picture with something to see: a ball on a lawn under a sky."""
    y, x = np.mgrid[:side, :side] / side
    pixels = np.stack([0.45 + 0.3 * y, 0.65 - 0.1 * y, 0.95 - 0.75 * (y > 0.55)], -1)
    pixels[(y > 0.55)] *= [0.55, 1.0, 0.9]
    pixels[(y - 0.45) ** 2 + (x - 0.62) ** 2 < 0.03] = [0.9, 0.3, 0.2]
    rows = b"".join(b"\0" + row.tobytes() for row in (255 * pixels.clip(0, 1)).astype(np.uint8))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _figures(weights: np.ndarray, role: Role, cross: bool) -> HeadStatistics:
    n, m = weights.shape
    safe = np.where(weights > 0, weights, 1)
    entropy = float((-(weights * np.log(safe)).sum(-1)[1:] / np.log(np.maximum(2, (weights > 0).sum(-1)[1:]))).mean())
    if cross or n != m:
        return HeadStatistics(role=role, first=float(weights[:, 0].mean()), entropy=entropy, content=0.5)
    distance = float((weights * abs(np.arange(n)[:, None] - np.arange(m))).sum(-1).mean())
    return HeadStatistics(
        role=role, previous=float(np.diagonal(weights, -1).mean()), own=float(np.diagonal(weights).mean()),
        first=float(weights[1:, 0].mean()), entropy=entropy, distance=distance, content=min(1.0, math.sqrt(1 - entropy + 1e-9)),
    )  # fmt: skip


def _thumbnails(weights: np.ndarray, side: int) -> bytes:
    heads, n, m = weights.shape
    made = np.zeros((heads, side, side))
    for i in range(side):
        for j in range(side):
            rows = slice(i * n // side, max(i * n // side + 1, -(-(i + 1) * n // side)))
            columns = slice(j * m // side, max(j * m // side + 1, -(-(j + 1) * m // side)))
            made[:, i, j] = weights[:, rows, columns].max((1, 2))
    return np.round(255 * np.sqrt(made.clip(0, 1))).astype(np.uint8).tobytes()


RECORDS = {"words": words, "picture": picture, "translated": translated, "sound": sound, "hostile": hostile, "large": large}
