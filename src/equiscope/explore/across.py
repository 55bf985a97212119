"""Across: what words of one line draw from those of another, as the mean of each layer's heads: how a translation is aligned."""

from collections.abc import Sequence

import torch

from equiscope.program.attended.attended import Attended
from equiscope.record import Layer, Line, pack
from equiscope.record.heads import Across

MOST = 2**17  # weights that are kept: half a megabyte


def across(layers: Sequence[Layer], found: Sequence[Attended], lines: Sequence[Line]) -> list[Across]:
    """One for each two lines of words of which one looks at the other. found: the attentions of the layers."""
    pairs = dict.fromkeys((layer.asks, layer.answers) for layer in layers if layer.cross and layer.asks != layer.answers)
    made = []
    for asks, answers in pairs:
        if not all(lines[line].kind in ("words", "tokens") for line in (asks, answers)):
            continue
        own = [i for i, layer in enumerate(layers) if (layer.asks, layer.answers) == (asks, answers) and layer.cross]
        size = len(own) * len(lines[asks].labels) * len(lines[answers].labels)
        weights = None
        if size <= MOST and all(found[i].apart == 1 for i in own):
            means = [torch.stack([found[i].shown(head) for head in range(found[i].heads)]).mean(0) for i in own]
            weights = pack(torch.stack(means).float().numpy())
        made.append(Across(asks=asks, answers=answers, layers=own, weights=weights))
    return made
