"""Side by side: which layers of two models are compared, and how far each pair of heads differs."""

from collections.abc import Sequence

from msgspec.structs import replace

from equiscope import record
from equiscope.errors import InputError
from equiscope.program.attended.attended import Attended
from equiscope.program.attended.side_by_side import total_variation
from equiscope.record import AttentionLayer, TokenSequence

LayerKey = tuple[int | None, int | None, bool]  # sequences of queries and of keys, and whether it is cross-attention


def pair_layers(one: record.Heads, other: record.Heads) -> list[int | None]:
    """For each layer of one model the index of the other's layer that it is compared with, if any.

    Layers are paired in the order in which they run, those of an encoder separately from those of a decoder; rows and heads must
    agree.
    raises  InputError where no layer has a partner: the sentence says what differs
    """
    sequences = [_partner(one.sequences, sequence, i) for i, sequence in enumerate(other.sequences)]
    if sequences[other.layers[0].query_sequence] is None:
        first, second = (c.sequences[c.layers[0].query_sequence] for c in (one, other))
        raise InputError(_difference(first, second, one.target, other.target))
    unpaired: dict[LayerKey, list[int]] = {}
    for i, layer in enumerate(other.layers):
        unpaired.setdefault((sequences[layer.query_sequence], sequences[layer.key_sequence], layer.cross), []).append(i)
    partners = list[int | None]()
    for layer in one.layers:
        candidates = unpaired.get((layer.query_sequence, layer.key_sequence, layer.cross), [])
        partner = candidates.pop(0) if candidates else None
        partners.append(partner if partner is not None and len(other.layers[partner].heads) == len(layer.heads) else None)
    if all(partner is None for partner in partners):
        heads = [f"{len(c.layers[0].heads)} heads a layer in {c.target}" for c in (one, other)]
        raise InputError(f"There are {' and '.join(heads)}, so no two can be compared. Give two models of one layout.")
    return partners


def side_by_side(
    one: record.Heads, other: record.Heads, partners: Sequence[int | None], ours: Sequence[Attended], theirs: Sequence[Attended],
    names: Sequence[str],
) -> record.SideBySide:  # fmt: skip
    """The record of the other model. ours, theirs: the attentions of the layers; names: short names of both models."""
    layers: list[AttentionLayer | None] = [
        None
        if partner is None
        else replace(other.layers[partner], query_sequence=layer.query_sequence, key_sequence=layer.key_sequence)
        for layer, partner in zip(one.layers, partners, strict=True)
    ]
    distances = [[] if n is None else total_variation(attention, theirs[n]) for attention, n in zip(ours, partners, strict=True)]
    return record.SideBySide(
        target=other.target, names=list(names), model=other.model, parameters=other.parameters, dtype=other.dtype, layers=layers,
        total_variation=distances,
    )  # fmt: skip


def unpaired_notes(one: record.Heads, other: record.Heads, partners: Sequence[int | None]) -> list[str]:
    """Which layers of both models could not be compared, as notes."""
    counts = [len(c.layers) - sum(partner is not None for partner in partners) for c in (one, other)]
    unpaired = [f"{count} of {c.target}" for count, c in zip(counts, (one, other), strict=True) if count]
    return [f"Some layers have no partner with the same rows and as many heads: {' and '.join(unpaired)}."] if unpaired else []


def _partner(sequences: Sequence[TokenSequence], other: TokenSequence, index: int) -> int | None:
    """The index of the sequence that holds the same tokens: the one at the same index where several do."""
    fits = [i for i, one in enumerate(sequences) if _same_tokens(one, other)]
    return index if index in fits else fits[0] if fits else None


def _same_tokens(one: TokenSequence, other: TokenSequence) -> bool:
    return (one.kind, one.labels, one.grid, one.prefix_tokens) == (other.kind, other.labels, other.grid, other.prefix_tokens)


def _difference(one: TokenSequence, other: TokenSequence, target: str, theirs: str) -> str:
    counts = [len(sequence.labels) for sequence in (one, other)]
    if counts[0] != counts[1]:
        reason = f"the input is {counts[0]} {one.kind} for {target}, but {counts[1]} {other.kind} for {theirs}"
    elif one.kind == "patches" and (one.grid, one.prefix_tokens) != (other.grid, other.prefix_tokens):
        patches = [f"{c.prefix_tokens} tokens before {c.grid} patches" for c in (one, other)]
        reason = f"{target} has {patches[0]}, but {theirs} {patches[1]}"
    else:
        i = next((i for i, labels in enumerate(zip(one.labels, other.labels, strict=True)) if labels[0] != labels[1]), 0)
        reason = f"token {i + 1} is {one.labels[i]!r} for {target}, but {other.labels[i]!r} for {theirs}"
    return f"The two models do not read the same tokens: {reason}. Give two that share a tokenizer, or a patch size."
