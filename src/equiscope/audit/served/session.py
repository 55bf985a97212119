"""Session: what the statements share while one endpoint is checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from equiscope.audit.served.answers import Answer, AnswerDifference, difference
from equiscope.audit.served.endpoint import Endpoint
from equiscope.audit.served.prompts import Prompts

CODED = ("bytes:", "token_id:", "<0x", "<|", "</")  # tokens that are not written as their text
NEW = 8  # tokens of an answer
TEXTS = (4, 7, 11, 15, 22, 30, 45, 70)  # words of the texts that most statements ask


@dataclass(frozen=True)
class Violation:
    """What no rounding explains. text: what was asked; cause: what is wrong, in words; answers: that show it."""

    text: str
    cause: str
    answers: tuple[Answer, ...] = ()


@dataclass
class Findings:
    """What one statement measured. missing: why nothing could be."""

    differences: list[AnswerDifference] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    samples: int = 0
    notes: list[str] = field(default_factory=list)
    missing: str = ""

    def compare(self, what: str, a: Answer, b: Answer) -> AnswerDifference:
        """Add the difference of two answers that should be equal."""
        found = difference(what, a, b)
        self.add(found)
        return found

    def add(self, pair: AnswerDifference) -> None:
        """Answers that share no logprob, as where the server left them out, are no sample."""
        if pair.sizes:
            self.samples += 1
            self.differences.append(pair)

    def violated(self, text: str, cause: str, *answers: Answer) -> None:
        self.violations.append(Violation(text, cause, answers))


@dataclass(frozen=True)
class Extent:
    """texts: how many of TEXTS; batches: sizes; powers: of two, for lengths of prompts; rounds: of what is repeated."""

    texts: int
    batches: tuple[int, ...]
    powers: tuple[int, ...]
    rounds: int


EFFORTS = {
    "quick": Extent(5, (2, 4), (4, 5, 6), 1),
    "default": Extent(8, (2, 3, 4, 8), (4, 5, 6, 7, 8), 2),
    "thorough": Extent(8, (2, 3, 4, 5, 8, 16), (4, 5, 6, 7, 8, 9, 10), 4),
}


@dataclass
class Session:
    """texts: that most statements ask; repeats: the first, second and third answer of each, asked one after another."""

    endpoint: Endpoint
    prompts: Prompts
    effort: Extent
    texts: list[str] = field(default_factory=list)
    repeats: list[tuple[Answer, Answer, Answer]] = field(default_factory=list)

    def prepare(self) -> None:
        """Ask each text three times."""
        for words in TEXTS[: self.effort.texts]:
            text = self.prompts.text(words)
            first, second, third = (self.endpoint.ask(text, NEW) for _ in range(3))
            self.texts.append(text)
            self.repeats.append((first, second, third))

    @property
    def alone(self) -> list[Answer]:
        """The second answer to each text: asked alone, when its beginning may be in a cache."""
        return [second for _, second, _ in self.repeats]

    def together(self, prompts: Sequence[str], tokens: int = NEW) -> list[Answer]:
        """In one batch: a list of prompts where the server takes one, else requests at the same time."""
        return (self.endpoint.ask_list if self.endpoint.lists else self.endpoint.ask_together)(prompts, tokens)

    def text_of(self, tokens: int) -> str:
        """A text of about n tokens, by the ratio of tokens to words so far."""
        firsts = [(words, first.prompt_tokens) for words, (first, _, _) in zip(TEXTS, self.repeats, strict=False)]
        known = [(words, count) for words, count in firsts if count is not None]
        if len(known) < 2:
            return self.prompts.text(max(1, tokens))
        (few, least), (many, most) = known[0], known[-1]
        slope = (most - least) / (many - few)
        return self.prompts.text(max(1, round((tokens - least) / max(slope, 0.1) + few)))


def is_plain(tokens: Sequence[str]) -> bool:
    """Whether the tokens, put together, are the text that they stand for."""
    return all(token and "\ufffd" not in token and not token.startswith(CODED) for token in tokens)


def rest(answer: Answer, start: int) -> Answer:
    """An answer without its first tokens."""
    return replace(answer, steps=answer.steps[start:])
