"""The errors that equiscope raises for its users.

Each message states what was requested, what was found, and the next step. A bug in equiscope raises an `AssertionError` instead.
An error is an object: code reads its fields; the sentence for people is composed when it is printed.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Literal

LISTED = 50  # of more names than these, a message has only those nearest to the unknown one
OTHER_LIBRARIES = {  # names of fields elsewhere -> ours, where the two do not look alike
    "d_model": "width", "hidden_size": "width", "n_embd": "width", "dim": "width", "embed_dim": "width", "hidden_dim": "inner",
    "d_ff": "inner", "n_inner": "inner", "ffn_dim": "inner", "dim_feedforward": "inner", "intermediate_size": "inner",
    "n_layer": "layers", "depth": "layers", "nhead": "heads", "n_head": "heads", "vocab_size": "vocabulary",
    "n_positions": "length", "num_key_value_heads": "kv_heads", "lr": "rate", "learning_rate": "rate", "act_fn": "activation",
    "epochs": "steps", "rotary": "rope", "nope": "none", "shuffle": "permute",
}  # fmt: skip


class EquiscopeError(Exception):
    """Base of all errors below; the command line prints its sentence and exits with code 2."""


class ShapeError(EquiscopeError, ValueError):
    """A tensor, a width or a length does not fit."""


class InputError(EquiscopeError, ValueError):
    """A value is outside what a part can take."""


class UnknownName(InputError):
    """A name is not in a list.

    kind   of object that was requested; found: the name
    known  the valid names; hint: the next step, before the list
    """

    def __init__(self, kind: str, found: object, known: Sequence[str], hint: str = "") -> None:
        super().__init__(kind, found, known, hint)
        self.kind, self.found, self.known, self.hint = kind, found, list(known), hint

    def __str__(self) -> str:
        unknown = f"There is no {self.kind} called {short_repr(self.found)}."
        return sentences(unknown, suggestion(self.found, self.known, self.hint))


class UnknownField(UnknownName):
    """A table has an unknown field. path: of the table, such as `spec.block`."""

    def __init__(self, path: str, found: object, known: Sequence[str], hint: str = "") -> None:
        super().__init__(f"field of {path}", found, known, hint)
        self.args = (path, found, known, hint)
        self.path = path


class WrongValue(InputError):
    """A field has an invalid value.

    path  of the field, such as `spec.block.attention.heads`; found: the value
    why   the value is invalid, as the end of a sentence
    """

    def __init__(self, path: str, found: object, why: str) -> None:
        super().__init__(path, found, why)
        self.path, self.found, self.why = path, found, why.rstrip(".")

    def __str__(self) -> str:
        return f"{self.path} cannot be {short_repr(self.found)}: {self.why}{'' if self.why.endswith('?') else '.'}"


def wrong_choice(path: str, found: object, choices: Sequence[object]) -> WrongValue:
    """The error of a field with few valid values: it names them all, and the most similar one."""
    *others, last = [f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices]
    why = f"it should be {', '.join(others)} or {last}." if others else f"it should be {last}."
    return WrongValue(path, found, sentences(why, did_you_mean(found, [choice for choice in choices if isinstance(choice, str)])))


class OverBudget(InputError):
    """A file exceeds the size that is read, or a pipe is silent for too long."""


class Unwritable(InputError):
    """An output cannot be written.

    path  as it was given; why: the system's message, as the end of a sentence; hint: the next step
    """

    def __init__(self, path: object, why: str, hint: str = "Choose another file.") -> None:
        super().__init__(path, why, hint)
        self.path, self.why, self.hint = path, why.rstrip("."), hint

    def __str__(self) -> str:
        return f"{printable(self.path)} cannot be written: {self.why}. {self.hint}"


Leak = Literal["future", "batch", "state", "random", "sum"]


class GuardFailed(EquiscopeError):
    """A language model, or a function that scores tokens, reads what it should predict (`equiscope.guard`).

    kind      "future": an output depends on later tokens; "batch": on other sequences; "state": on earlier calls; "random": on
              chance; "sum": probabilities sum to more than one
    calls     calls of the model until then
    tokens    the input; changed: the tokens that were replaced in it; other: the input with them replaced
    position  whose output changed
    """

    def __init__(
        self, kind: Leak, sentence: str, calls: int, tokens: Sequence[int] = (),
        position: int | None = None, changed: Sequence[int] = (), other: Sequence[int] = (),
    ) -> None:  # fmt: skip
        super().__init__(kind, sentence, calls, tokens, position, changed, other)
        self.kind: Leak = kind
        self.sentence, self.calls, self.position = sentence, calls, position
        self.tokens, self.changed, self.other = list(tokens), list(changed), list(other)

    def __str__(self) -> str:
        return self.sentence


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The question "Did you mean rope?"; empty where no known name is similar. Case, spaces and hyphens make no difference."""
    near = _nearest(str(name), list(known))
    return f"Did you mean {' or '.join(near)}?" if near else ""


def suggestion(name: object, known: Sequence[str], hint: str = "") -> str:
    """The sentences after an unknown name: the most similar known name, the hint, and the list, unless it is long."""
    listed = f"Known: {', '.join(known)}." if 0 < len(known) <= LISTED else ""
    return sentences(did_you_mean(name, known), hint, listed)


def sentences(*parts: str) -> str:
    """One text of several sentences; empty ones are left out."""
    return " ".join(filter(None, parts))


def _nearest(name: str, known: list[str]) -> list[str]:
    """The most similar name, or three of a long list."""
    if (ours := OTHER_LIBRARIES.get(name)) in known:
        return [str(ours)]
    plain = {_plain(one): one for one in reversed(known)}
    word, (count, cutoff) = _plain(name), (3, 0.5) if len(known) > LISTED else (1, 0.6)
    longer = sorted((one for one in plain if len(word) > 2 and one.startswith(word)), key=len)
    similar = difflib.get_close_matches(word, list(plain), count, cutoff)
    parts = [one for one in plain if one in word.split("_") or (len(word) > 2 and word in one)]
    return [plain[one] for one in longer or similar or parts][:count]


def _plain(name: str) -> str:
    return name[:300].lower().replace("-", "_").replace(" ", "_")


def short_repr(value: object, longest: int = 200) -> str:
    """The `repr` of a value for messages, truncated."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits; brackets within brackets
        text = f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= longest else f"{text[:longest]}…"


def counted(number: int, what: str, several: str = "") -> str:
    """ "1 picture", "1,200 pictures". several: the word for more than one, where it is not `what` with an s."""
    return f"{number:,} {what if abs(number) == 1 else several or what + 's'}"


def printable(value: object, longest: int = 300) -> str:
    """A name for messages: invalid bytes and control characters are escaped, and a very long name is truncated."""
    text = str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    text = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    return text if len(text) <= longest else f"{text[:longest]}…"


def reason(error: BaseException) -> str:
    """The system's message: "No space left on device"."""
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


def one_line(error: BaseException, longest: int = 240) -> str:
    """An error of other code, for messages: "ValueError: no such dtype"."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return (text if len(text) <= longest else f"{text[:longest]}…").rstrip(".: ")
