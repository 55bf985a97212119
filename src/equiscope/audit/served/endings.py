"""Endings: where an answer stops, and what is said of it."""

from equiscope.audit.served.alone import short
from equiscope.audit.served.session import Findings, Session
from equiscope.errors import counted

LIMITS = (1, 2, 3, 5, 12)
LONG = 24  # tokens of an answer in which stop strings are searched


def limit(session: Session) -> Findings:
    """The number of tokens at several max_tokens."""
    findings = Findings()
    text = session.texts[0]
    for most in LIMITS:
        answer = session.endpoint.ask(text, most)
        findings.samples += 1
        asked = f"{short(text)} with max_tokens={most}"
        ended = answer.finish == "stop"
        if len(answer.steps) > most:
            findings.violated(asked, counted(len(answer.steps), "token"), answer)
        elif len(answer.steps) < most and not ended:
            findings.violated(asked, f"{counted(len(answer.steps), 'token')}, and finish_reason is {answer.finish!r}", answer)
        usage = answer.completion_tokens
        if usage is not None and usage not in (len(answer.steps), len(answer.steps) + ended):
            findings.violated(asked, f"usage counts {counted(usage, 'token')}, and the answer has {len(answer.steps)}", answer)
    return findings


def stop(session: Session) -> Findings:
    """Stop strings from the middle of an answer: whole tokens, parts of two tokens, and one that only the prompt has."""
    findings = Findings()
    for text in session.texts[1 : 2 + session.effort.rounds]:
        free = session.endpoint.ask(text, LONG)
        for string in _strings(free.text, free.tokens):
            answer = session.endpoint.ask(text, LONG, stop=[string])
            expected = free.text[: free.text.index(string)]
            ours, theirs = answer.tokens, free.tokens[: len(answer.tokens)]
            if ours != theirs:  # a near tie went the other way: what follows is another text
                continue
            findings.samples += 1
            if answer.text != expected:
                findings.violated(f"{short(text)} with stop={string!r}", _wrong(answer.text, expected, string), free, answer)
        word = next((w for w in text.split() if w not in free.text and len(w) > 2), "")
        if word:
            answer = session.endpoint.ask(text, LONG, stop=[word])
            findings.samples += 1
            if answer.tokens == free.tokens[: len(answer.tokens)] and len(answer.tokens) < len(free.tokens):
                findings.violated(
                    f"{short(text)} with stop={word!r}, which only the prompt holds",
                    f"the answer ends after {counted(len(answer.tokens), 'token')}",
                    free,
                    answer,
                )
    if not findings.samples:
        findings.missing = "the answers were too short for a stop string"
    return findings


def _strings(text: str, tokens: list[str]) -> list[str]:
    """Pieces of a text that are not at its beginning."""
    found = []
    if len(tokens) > 6 and "".join(tokens).startswith(text[:1]):
        for i, j in ((3, 4), (5, 6)):
            string = "".join(tokens[i:j]).strip()
            if string:
                found.append(string)
        parts = "".join(tokens[4:6])
        if len(parts) > 3:
            found.append(parts[1:-1])
    return [string for string in dict.fromkeys(found) if string and text.find(string) > 0]


def _wrong(text: str, expected: str, string: str) -> str:
    if string in text:
        return f"the text contains the stop string: it ends with {text[-12:]!r}"
    if expected.startswith(text):
        missing = len(expected) - len(text)
        return f"the text ends {counted(missing, 'character')} too early: {text[-12:]!r} instead of {expected[-12:]!r}"
    return f"the text ends with {text[-12:]!r} instead of {expected[-12:]!r}"


def finish_reason(session: Session) -> Findings:
    """finish_reason at a limit, and at a stop string."""
    findings = Findings()
    for text in session.texts[:2]:
        answer = session.endpoint.ask(text, 4)
        if len(answer.steps) == 4 or answer.completion_tokens == 4:
            findings.samples += 1
            if answer.finish != "length":
                findings.violated(
                    f"{short(text)} with max_tokens=4",
                    f"finish_reason is {answer.finish!r} after 4 tokens, and should be 'length'",
                    answer,
                )
        free = session.endpoint.ask(text, LONG)
        for string in _strings(free.text, free.tokens)[:1]:
            stopped = session.endpoint.ask(text, LONG, stop=[string])
            if len(stopped.steps) < LONG and stopped.tokens == free.tokens[: len(stopped.tokens)]:
                findings.samples += 1
                if stopped.finish != "stop":
                    findings.violated(
                        f"{short(text)} with stop={string!r}", f"finish_reason is {stopped.finish!r}, and should be 'stop'", stopped
                    )
    if not findings.samples:
        findings.missing = "no answer reached max_tokens"
    return findings
