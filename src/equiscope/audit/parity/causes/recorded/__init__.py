"""Causes beside recorded activations, of which only the numbers are known: A is replayed with each change that people make.

A change is made at one step, at all steps of its kind, and at those of one module in all layers, of one stack or of all. It is the
cause if A then gives all recorded tensors, whichever they are: of every module, of blocks alone, from the middle on, with the
output or without it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from equiscope.audit.parity.causes.finding import NUMERIC, Finding
from equiscope.audit.parity.causes.recorded import activations, attention, caps, embeddings, norms, parameters, rotary
from equiscope.audit.parity.causes.recorded.dropout import dropout
from equiscope.audit.parity.causes.recorded.recording import RecordedTensors
from equiscope.audit.parity.divergence import Divergence

EARLIER = 8  # sites of a kind before the first differing step that are tried: a small change shows late in low precision


def cause_of_recorded(r: RecordedTensors, tried: Counter[str]) -> Finding:
    """The first cause with which A gives the recorded tensors; an empty one where none does. tried: replays by what is changed."""
    if not r.targets:
        return Finding("", "")
    attentions = attention.sites(r)
    kinds: tuple[tuple[Sequence[Any], dict[Callable[[RecordedTensors, Any], Finding | None], str]], ...] = (
        (parameters.sites(r), {parameters.bias: "a bias", parameters.transposed: "a transposed weight"}),
        (embeddings.sites(r), {embeddings.scale: "the scale of the embedding"}),
        (norms.sites(r), {norms.kind: "a norm", norms.epsilon: "the epsilon of a norm"}),
        (rotary.sites(r, attentions), {rotary.rotation: "a rotary embedding"}),
        (
            attentions,
            {
                attention.order: "the order of heads", attention.scale: "the scale of scores", attention.mask: "a mask",
                attention.cap: "a soft-cap", attention.axis: "the axis of the softmax", attention.bias: "a position bias",
                attention.width: "the width of heads",
            },
        ),
        (caps.sites(r), {caps.cap: "a soft-cap"}),
        (activations.sites(r), {activations.activation: "an activation"}),
        (parameters.sites(r), {parameters.other: "other parameters"}),
    )  # fmt: skip
    for sites, hypotheses in kinds:
        for group in _groups(r.d, sites, r):
            for hypothesis, words in hypotheses.items():
                left = r.left
                try:
                    found = hypothesis(r, group)
                except NUMERIC:
                    found = None
                tried[words] += left - r.left
                if found is not None:
                    return found
    return Finding("", "")


def _groups(d: Divergence, sites: Sequence[Any], r: RecordedTensors) -> Iterator[list[Any]]:
    """Sites where a change is made at once: all from the divergence on, those of one module in all layers, each alone."""
    order = {node.value: i for i, node in enumerate(d.a.nodes)}
    start = order[d.a_step.value]
    last = len(order) if r.nearest is None else order[r.nearest[0]]
    places = [(order[_node(site).value], site) for site in sites]
    later = [site for place, site in places if place >= start]
    near = [site for place, site in places if start <= place <= last]
    earlier = [site for place, site in places if place < start]
    by_module, by_name = dict[str, list[Any]](), dict[str, list[Any]]()
    for site in later:
        name = re.sub(r"\d+", "#", _node(site).module)
        by_module.setdefault(name, []).append(site)
        by_name.setdefault(name.rpartition("#")[2], []).append(site)
    given = [[site] for site in near[:1]], [later], list(by_module.values()), [[site] for site in near], list(by_name.values())
    shown = set[tuple[int, ...]]()
    for group in [
        *(group for groups in given for group in groups),
        [*earlier, *later],
        *([site] for site in earlier[: -EARLIER - 1 : -1]),
    ]:
        key = tuple(_node(site).value for site in group)
        if group and key not in shown:
            shown.add(key)
            yield group


def _node(site: Any) -> Any:
    return site.attention.node if isinstance(site, rotary.RotarySite) else site.node


__all__ = ["RecordedTensors", "cause_of_recorded", "dropout"]
