"""Answers: what an endpoint returned for one prompt, and how much two answers to one prompt differ."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from equiscope.errors import InputError, counted

SPACES = {"\u0120": " ", "\u2581": " ", "\u010a": "\n"}  # how byte-pair and SentencePiece vocabularies write them


class TokenLogprobs(NamedTuple):
    """One token. logprob: as reported; top: the most likely tokens at its position, with their logprobs."""

    token: str
    logprob: float | None
    top: dict[str, float]


@dataclass(frozen=True)
class Answer:
    """What came back for one prompt.

    text   of the answer; with echo, of the prompt too
    steps  of the new tokens; prompt_steps: of the prompt's tokens, where they were asked for
    finish          finish_reason
    prompt_tokens, completion_tokens   as the server counts them; None in a list of prompts
    request         the number of its request, and which of its prompts it was
    """

    text: str
    steps: tuple[TokenLogprobs, ...]
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_steps: tuple[TokenLogprobs, ...] = ()
    request: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> list[str]:
        return [step.token for step in self.steps]

    @property
    def first(self) -> "Answer":
        """Only its first new token."""
        return replace(self, steps=self.steps[:1])


class LogprobChange(NamedTuple):
    """One logprob in two answers. position: of the token in the answer; bound: whether it was reported in one answer only, a, and
    b is its upper bound in the other."""

    position: int
    token: str
    a: float
    b: float
    bound: bool = False

    @property
    def size(self) -> float:
        return 0.0 if self.a == self.b else abs(self.a - self.b)  # equal infinities are equal


@dataclass(frozen=True)
class AnswerDifference:
    """Two answers that should be equal.

    what     was changed between them, in words: "in a batch of 4"
    sizes    absolute differences of all logprobs that both report, in nats
    worst    the largest
    gap      where the tokens part: by how much the first answer's token was more likely there; None where they never part
    a, b     the answers
    """

    what: str
    a: Answer
    b: Answer
    sizes: tuple[float, ...] = ()
    worst: LogprobChange | None = None
    gap: float | None = None

    @property
    def most(self) -> float:
        """The largest absolute difference, in nats; infinite where the answers share no number or one logprob is."""
        return self.worst.size if self.worst is not None else math.inf

    @property
    def typical(self) -> float:
        """Root mean square of those that are not zero; 0 where all are."""
        changed = [size for size in self.sizes if size]
        return math.sqrt(sum(size * size for size in changed) / len(changed)) if changed else 0.0


def difference(what: str, a: Answer, b: Answer) -> AnswerDifference:
    """Compare the new tokens of two answers, up to where they part: afterwards the contexts differ."""
    return _compare(what, a, b, a.steps, b.steps)


def prompt_difference(what: str, a: Answer, b: Answer, tokens: int) -> AnswerDifference:
    """Compare the logprobs of the first tokens of two prompts."""
    return _compare(what, a, b, a.prompt_steps[:tokens], b.prompt_steps[:tokens])


def _compare(
    what: str, a: Answer, b: Answer, left: tuple[TokenLogprobs, ...], right: tuple[TokenLogprobs, ...]
) -> AnswerDifference:
    changes: list[LogprobChange] = []
    gap: float | None = None
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        ours, theirs = _numbers(one), _numbers(other)
        changes += [LogprobChange(position, token, ours[token], theirs[token]) for token in ours if token in theirs]
        if one.token != other.token:
            gap = ours.get(one.token, math.inf) - ours.get(other.token, -math.inf)
            changes += _unreported(position, one.token, ours, theirs) + _unreported(position, other.token, theirs, ours)
            break
    sizes = tuple(change.size if change.size == change.size else math.inf for change in changes)
    worst = changes[sizes.index(max(sizes))] if sizes else None
    return AnswerDifference(what, a, b, sizes, worst, gap)


def _unreported(position: int, token: str, numbers: dict[str, float], others: dict[str, float]) -> list[LogprobChange]:
    """The change of a token that the other answer does not report: it is less likely there than all that are reported."""
    if not others or token not in numbers or token in others or numbers[token] <= min(others.values()):
        return []
    return [LogprobChange(position, token, numbers[token], min(others.values()), True)]


def _numbers(step: TokenLogprobs) -> dict[str, float]:
    return step.top if step.logprob is None else step.top | {step.token: step.logprob}


# ------------------------------------------------------------------------------------------------------------ reading JSON


def read(reply: Any, chat: bool, echo: bool, count: int, number: int) -> list[Answer]:
    """The answers of one request, one for each of its `count` prompts.

    number  of the request
    raises  InputError where this is no answer of an OpenAI-compatible endpoint
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or len(choices) != count or not all(isinstance(choice, dict) for choice in choices):
        got = counted(len(choices), "choice") if isinstance(choices, list) else "no list of choices"
        raise InputError(f"The server was asked for {counted(count, 'answer')} and returned {got}: it is not OpenAI-compatible.")
    usage = reply.get("usage") if isinstance(reply.get("usage"), dict) else {}
    indices = [choice.get("index", i) for i, choice in enumerate(choices)]
    if sorted(i for i in indices if type(i) is int) == list(range(count)):
        choices = [choices[indices.index(i)] for i in range(count)]
    return [_answer(choice, usage, chat, echo, count, (number, i)) for i, choice in enumerate(choices)]


def _answer(choice: dict[str, Any], usage: dict[str, Any], chat: bool, echo: bool, count: int, request: tuple[int, int]) -> Answer:
    message = choice.get("message") if chat else None
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    steps = _steps(choice.get("logprobs"))
    prompt_tokens, completion_tokens = (
        _whole(usage.get(f"{name}_tokens")) if count == 1 else None for name in ("prompt", "completion")
    )
    of_prompt = 0
    if echo:
        new = completion_tokens if completion_tokens is not None and prompt_tokens is not None else 1
        of_prompt = prompt_tokens if prompt_tokens is not None and prompt_tokens <= len(steps) else max(0, len(steps) - new)
    finish = choice.get("finish_reason")
    return Answer(
        text if isinstance(text, str) else "", steps[of_prompt:], finish if isinstance(finish, str) else None,
        prompt_tokens, completion_tokens, steps[:of_prompt], request,
    )  # fmt: skip


def _steps(logprobs: Any) -> tuple[TokenLogprobs, ...]:
    """Both forms: that of chat completions, and the older one of completions."""
    if not isinstance(logprobs, dict):
        return ()
    if isinstance(content := logprobs.get("content"), list):
        return tuple(_chat_step(entry) for entry in content if isinstance(entry, dict))
    tokens, own, top = (logprobs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not isinstance(tokens, list) or not isinstance(own, list):
        return ()
    among = top if isinstance(top, list) else []
    among = among + [None] * (len(tokens) - len(among))
    return tuple(
        TokenLogprobs(
            _text(token),
            _number(value),
            {_text(t): q for t, p in entry.items() if (q := _number(p)) is not None} if isinstance(entry, dict) else {},
        )
        for token, value, entry in zip(tokens, own, among, strict=False)
    )


def _chat_step(entry: dict[str, Any]) -> TokenLogprobs:
    listed = entry.get("top_logprobs")
    top = listed if isinstance(listed, list) else []
    among = {_text(t.get("token")): q for t in top if isinstance(t, dict) and (q := _number(t.get("logprob"))) is not None}
    return TokenLogprobs(_text(entry.get("token")), _number(entry.get("logprob")), among)


def _text(token: Any) -> str:
    return "".join(SPACES.get(letter, letter) for letter in str(token))


def _number(value: Any) -> float | None:
    """A logprob; None where it is none, as null and NaN are."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
