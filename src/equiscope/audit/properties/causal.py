"""Causality: what is said at a token depends on it and on what came before, on nothing later.

Two tests, since either alone is passed by models that read the future: change what comes later, and leave it out. A clock that
follows the current length sees how much is to come although it sees no word of it.
"""

from collections.abc import Iterator

from torch import Generator

from equiscope.audit.examples import changed_tokens
from equiscope.audit.pairs import Pair, Rows
from equiscope.audit.statement import Statement
from equiscope.audit.subject import Pass, Subject, shortened
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs

SHORT = 17  # tokens of a text in which every place is tried


class CausalOutput(Statement):
    """Outputs before token j do not change with token j and those after it, nor when they are not there."""

    name = "causal"
    summary = "what is said at a token does not depend on later ones"

    def missing(self, subject: Subject) -> str:
        if not subject.inputs.has("tokens", "ids", "features", "steps"):
            return "there are no tokens in an order"
        return "" if (subject.inputs.length or 0) > 1 else "there is one token only"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        return says_causal(subject)

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[Pair]:
        n = run.inputs.length or 0
        cuts = max(count // 4, 1)
        places = _spread(n, count - cuts)
        if run.wide and not run.random:  # where chunks and windows end
            places = sorted({*places, *(1 << k for k in range(1, (n - 1).bit_length()))} if n > SHORT else range(1, n))
        changed = [later(run.inputs, j, generator) for j in places]
        return changed + [without(run.inputs, j) for j in _spread(n, cuts)]

    def simpler(self, run: Pass, pair: Pair) -> Iterator[Pair]:
        generator = Generator().manual_seed(run.subject.seed)
        for length in (2, 3):
            if (run.inputs.length or 0) > length:
                fewer = shortened(run.inputs, length)
                for j in range(1, length):
                    yield later(fewer, j, generator, 1)
                yield without(fewer, length - 1)
        n = run.inputs.length or 0
        yield from (later(run.inputs, j, generator, 1) for j in range(1, n))


def later(inputs: Inputs, j: int, generator: Generator, count: int | None = None) -> Pair:
    """Change token j and those after it, or `count` of them."""
    n = inputs.length or 0
    end = n if count is None else j + count
    text = f"change the tokens {j} to {n - 1} of {n}" if end - j > 1 else f"change the token {j} of {n}"
    moved = changed_tokens(inputs, slice(j, end), generator)
    return Pair(
        inputs, moved, Rows(slice(0, j), slice(0, j), (n, n)), f"{text}, and look at those before it", {"changed": j, "to": end}
    )


def without(inputs: Inputs, j: int) -> Pair:
    """Leave token j out and those after it."""
    n = inputs.length or 0
    relation = Rows(slice(0, j), slice(0, j), (n, j))
    return Pair(inputs, shortened(inputs, j), relation, f"read the first {j} of {n} tokens only", {"read": j})


def _spread(n: int, count: int) -> list[int]:
    """Places 1 .. n - 1: all, or so many with the last; one alone in the middle, where no border of a chunk hides it."""
    if n - 1 <= count:
        return list(range(1, n))
    if count == 1:
        return [n // 2 + 1]
    return sorted({round(1 + i * (n - 2) / max(count - 1, 1)) for i in range(count)})


BOTH_WAYS = ("XLMWithLMHeadModel", "XLNetLMHeadModel")  # read as their other arguments say


def says_causal(subject: Subject) -> tuple[Claimed, str]:
    """Whether the model itself says so: our spec, or its configuration."""
    model = subject.model
    if (spec := getattr(model, "spec", None)) is not None and hasattr(spec, "blocks"):
        causal = all(block.attention.causal for block in spec.blocks)
        if not causal:
            return "no", "its attention sees all tokens"
        if getattr(spec, "readout", "each") in ("each", "last"):
            return "yes", "every layer has a causal mask"
        return "unknown", ""
    name, config = type(model).__name__, getattr(model, "config", None)
    if config is None:
        return "unknown", ""
    if getattr(config, "is_encoder_decoder", False) or name in BOTH_WAYS:
        return "unknown", ""
    if "ForCausalLM" in name or name.endswith("LMHeadModel") or getattr(config, "is_decoder", False):
        return "yes", f"{name} writes token after token"
    if any(end in name for end in ("ForMaskedLM", "ForSequenceClassification", "BertModel", "ViT")):
        return "no", f"{name} reads all tokens at once"
    return "unknown", ""
