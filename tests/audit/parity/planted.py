"""Planted differences: what is changed in B, in each family that has it, and the cause that should be named."""

from dataclasses import replace

from tests.audit.parity.families import GatedA, PlainA, gated_b, made, plain_b

GATED = [  # name, changes of B, changes of both, kind of the cause
    ("rope base", {"base": 500_000.0}, {}, "rope base"),
    ("rope scaling", {"divided": 4.0}, {}, "rope scaling"),
    ("rope layout", {"layout": "interleaved"}, {}, "rope layout"),
    ("rope width", {"rotated": 4}, {"rotated": 8}, "rope width"),
    ("partial rope width", {"rotated": 6}, {"rotated": 4}, "rope width"),
    ("rope direction", {"backwards": True}, {}, "rope direction"),
    ("rope offset", {"start": 1}, {}, "rope offset"),
    ("head order", {"order": "strided"}, {}, "head order"),
    ("softmax scale", {"scale": 1 / 8}, {}, "softmax scale"),
    ("epsilon", {"eps": 1e-5}, {}, "epsilon"),
    ("norm kind", {"norm": "other"}, {}, "norm kind"),
    ("norm weight", {"one_plus": True}, {}, "norm weight"),
    ("norm placement", {"placement": "post"}, {}, "norm placement"),
    ("no norm", {"placement": "none"}, {}, "norm placement"),
    ("soft-cap", {"cap": 2.0}, {}, "soft-cap"),
    ("output cap", {"output_cap": 3.0}, {}, "output cap"),
    ("window", {"window": 4}, {"window": 5}, "window"),
    ("causal", {"causal": False}, {}, "causal"),
    ("padding side", {"padding": "left"}, {"causal": False, "padding": "right"}, "padding side"),
    ("tied head", {"tied": False}, {}, "tied head"),
    ("activation", {"activation": "gelu"}, {}, "activation"),
    ("activation relu", {"activation": "relu"}, {}, "activation"),
    ("embedding scale", {"embedding": 32**0.5}, {}, "embedding scale"),
    ("residual", {"residual": False}, {}, "residual"),
    ("mode", {"dropout": 0.2}, {}, "mode"),
    ("softmax axis", {"axis": -2}, {"causal": False}, "softmax axis"),
]
PLAIN = [
    ("head width", {"heads": 2}, {}, "head width"),
    ("softmax scale", {"scale": 1 / 8}, {}, "softmax scale"),
    ("epsilon", {"eps": 1e-6}, {}, "epsilon"),
    ("norm kind", {"norm": "other"}, {}, "norm kind"),
    ("unbiased", {"norm": "unbiased"}, {}, "norm kind"),
    ("norm bias", {"norm_bias": False}, {}, "norm bias"),
    ("norm placement", {"placement": "post"}, {}, "norm placement"),
    ("no norm", {"placement": "none"}, {}, "norm placement"),
    ("soft-cap", {"cap": 2.0}, {}, "soft-cap"),
    ("output cap", {"output_cap": 3.0}, {}, "output cap"),
    ("window", {"window": 4}, {"window": 5}, "window"),
    ("no window", {"window": 0}, {"window": 5}, "window"),
    ("causal", {"causal": False}, {}, "causal"),
    ("padding side", {"padding": "left"}, {"causal": False, "padding": "right"}, "padding side"),
    ("tied head", {"tied": False}, {}, "tied head"),
    ("bias", {"bias": False}, {}, "bias"),
    ("transposed", {"transposed": True}, {}, "transposed"),
    ("activation", {"activation": "gelu"}, {}, "activation"),
    ("activation quick", {"activation": "quick"}, {}, "activation"),
    ("position offset", {"offset": 2}, {}, "position offset"),
    ("embedding scale", {"embedding": 32**0.5}, {}, "embedding scale"),
    ("residual", {"residual": False}, {}, "residual"),
    ("mode", {"dropout": 0.2}, {}, "mode"),
    ("softmax axis", {"axis": -2}, {"causal": False}, "softmax axis"),
]


def cases():
    """Id, A, B and the kind of the cause: each planted difference in each family, also with permuted weights on B's side."""
    for family, second, faults in ((GatedA, gated_b, GATED), (PlainA, plain_b, PLAIN)):
        for name, changed, both, kind in faults:
            for permuted in (False, True):
                if permuted and (
                    "layout" in changed or changed.get("rotated") or both.get("rotated") or {"heads", "transposed"} & set(changed)
                ):
                    continue  # the permutation is of whole heads, and of pairs of the whole width
                yield f"{family.__name__}, {name}{', permuted' * permuted}", family, second, changed, both, permuted, kind


def pair(family, second, changed, both, permuted):
    """The two models of a case."""
    a = made(family, **both)
    return a, second(a, replace(a.o, **changed), permuted).train("dropout" in changed)
