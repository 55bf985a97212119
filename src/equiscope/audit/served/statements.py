"""Statements: what a served model should do. Each asks, and returns what it found; `checking` judges."""

from collections.abc import Callable
from dataclasses import dataclass

from equiscope.audit.served import alone, endings, lengths, numbers, together
from equiscope.audit.served.session import Findings, Session


@dataclass(frozen=True)
class ServedStatement:
    """A row. expected: whether every correct server has it; last: whether it looks at the answers to the others."""

    name: str
    summary: str
    measure: Callable[[Session], Findings]
    expected: bool = True
    last: bool = False


SERVED = (
    ServedStatement("run-to-run", "the same request gives the same logprobs again", alone.run_to_run),
    ServedStatement("order", "logprobs do not depend on the requests before", alone.order),
    ServedStatement(
        "prefix-cache",
        "logprobs do not depend on prompts that the server has read: the same, its beginning, similar ones",
        alone.prefix_cache,
    ),
    ServedStatement(
        "chunks",
        "a prompt read at once gives the logprobs of its tokens generated one by one, around powers of two",
        lengths.chunks,
    ),
    ServedStatement("causal", "the logprobs of a prompt's beginning do not depend on what follows", lengths.causal),
    ServedStatement("echo", "tokens have the same logprobs in a prompt as when they were generated", lengths.echo),
    ServedStatement("batch", "a prompt in a batch gives the logprobs that it gives alone", together.batch),
    ServedStatement("neighbours", "logprobs do not depend on the other prompts of the batch", together.neighbours),
    ServedStatement("concurrency", "requests at the same time give the logprobs that they give one by one", together.concurrency),
    ServedStatement("temperature", "the reported logprobs do not depend on the temperature", numbers.temperature),
    ServedStatement("limit", "an answer has at most max_tokens tokens, and usage counts them", endings.limit),
    ServedStatement("stop", "an answer ends before the first stop string, and only there", endings.stop),
    ServedStatement("finish-reason", "finish_reason is length at max_tokens, and stop at a stop string", endings.finish_reason),
    ServedStatement(
        "seeds", "with a temperature, one seed gives one text, and other seeds give others", numbers.seeds, expected=False
    ),
    ServedStatement("greedy", "at temperature 0 each token is the most likely one", numbers.greedy, last=True),
    ServedStatement(
        "probabilities", "logprobs are at most 0, sum to at most one, and belong to their tokens", numbers.probabilities, last=True
    ),
    ServedStatement("text", "the text is that of its tokens", numbers.text, last=True),
)
