"""Write one peer's page from a file of attention weights; runs in the peers' own environment.

Standalone on purpose: it imports numpy and one peer, nothing of this project.

    python export_peer.py NAME WEIGHTS.npy WORDS.json PAGE.html
"""

import json
import pathlib
import sys

import numpy


def bertviz(view):
    """One of the two views of bertviz, as the HTML of html_action='return'."""

    def export(weights, words):
        import bertviz as library
        import torch

        layers = [torch.from_numpy(layer)[None] for layer in weights]
        return getattr(library, view)(layers, words, html_action="return").data

    return export


def circuitsvis(weights, words):
    """The form that contains its script, which the library chooses itself without a network.

    The other form (`str(html)`) is smaller by that script (1.3 MB) and loads it from a content network.
    """
    from circuitsvis.attention import attention_heads

    layers, heads, n, _ = weights.shape
    names = [f"L{layer}H{head}" for layer in range(layers) for head in range(heads)]
    return attention_heads(weights.reshape(-1, n, n), words, attention_head_names=names).local_src


def inspectus(weights, words):
    """inspectus displays its page in a notebook only; this collects what it displays."""
    import inspectus as library
    import IPython.display

    shown = []
    IPython.display.display = lambda html: shown.append(html.data)
    library.attention(weights, words)
    return "\n".join(shown)


EXPORTS = {
    "bertviz head_view": bertviz("head_view"),
    "bertviz model_view": bertviz("model_view"),
    "circuitsvis": circuitsvis,
    "inspectus": inspectus,
}


def main(name, weights, words, page):
    html = EXPORTS[name](numpy.load(weights), json.loads(pathlib.Path(words).read_text()))
    head = "<!doctype html><meta charset=utf-8><title>attention</title><body>\n"
    pathlib.Path(page).write_text(head + html, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
