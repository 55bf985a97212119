"""Lengths: a prompt read at once against the same tokens one by one, and its beginning against a longer one."""

from dataclasses import replace

from equiscope.audit.served.alone import same_tokens, short
from equiscope.audit.served.answers import Answer, prompt_difference
from equiscope.audit.served.connection import Refused
from equiscope.audit.served.session import NEW, Findings, Session, is_plain, rest
from equiscope.errors import counted

START = 10  # tokens of a prompt that is continued: shorter than a block of any cache


def chunks(session: Session) -> Findings:
    """A short prompt is continued beyond a power of two; prompts that end before, at and behind it are read at once."""
    findings = Findings()
    if session.endpoint.chat:
        findings.missing = "a chat does not continue a text"
        return findings
    for power in session.effort.powers:
        length = 2**power
        try:
            tried = _around(session, length, START, findings) or _around(session, length, length - 6, findings)
        except Refused as refused:
            findings.notes.append(f"no prompt of {length} tokens: {refused}")
            break
        if not tried:
            findings.notes.append(f"not at {length} tokens: the answers ended before, or their text is split into other tokens")
    _cut(session, max(session.effort.powers), findings)
    if not findings.samples:
        findings.missing = "; ".join(findings.notes) or "no prompt could be continued"
    return findings


def _cut(session: Session, power: int, findings: Findings) -> None:
    """A prompt must have fewer tokens than the same prompt with more words."""
    text = session.text_of(2**power)
    try:
        answers = [session.endpoint.ask(words) for words in (text, " ".join([text, *session.prompts.words(20)]))]
    except Refused:
        return
    few, more = (answer.prompt_tokens for answer in answers)
    if few is not None and more is not None and few >= more:
        findings.samples += 1
        findings.violated(
            f"{short(text)} with 20 more words",
            f"usage counts {few} tokens without them and {more} with them: the prompt is cut off",
            *answers,
        )


def _around(session: Session, length: int, start: int, findings: Findings) -> bool:
    """Whether anything was compared."""
    text = session.text_of(max(4, start))
    generated = session.endpoint.ask(text, max(NEW, length - start + NEW))
    if generated.prompt_tokens is None:
        return False
    before = findings.samples
    for total in (length + 1, length, length - 1):  # the longest first: nothing of it is in a cache yet
        count = total - generated.prompt_tokens
        if not 0 < count < len(generated.steps) or not is_plain(generated.tokens[:count]):
            continue
        read = session.endpoint.ask(text + "".join(generated.tokens[:count]), min(4, len(generated.steps) - count))
        if not same_tokens(generated, count, read):
            continue
        findings.compare(
            f"a prompt of {total} tokens, read at once, against the same tokens one by one", rest(generated, count), read
        )
    return findings.samples > before


def causal(session: Session) -> Findings:
    """The logprobs of a prompt's tokens, with other text behind it."""
    findings = Findings()
    if not session.endpoint.echo:
        findings.missing = "the server does not return the logprobs of a prompt"
        return findings
    for words in (6, 20, 45, 90)[: 2 * session.effort.rounds]:
        text = session.prompts.text(words)
        alone = session.endpoint.ask(text, echo=True)
        for more in (1, 30):
            longer = session.endpoint.ask(" ".join([text, *session.prompts.words(more)]), echo=True)
            shared = _shared(alone, longer)
            findings.add(
                prompt_difference(
                    f"the first {shared} tokens of {short(text)}, with {counted(more, 'more word')} behind them",
                    alone,
                    longer,
                    shared,
                )
            )
    return findings


def _shared(a: Answer, b: Answer) -> int:
    """How many tokens two prompts begin with in common."""
    count = 0
    for one, other in zip(a.prompt_steps, b.prompt_steps, strict=False):
        if one.token != other.token:
            break
        count += 1
    return count


def echo(session: Session) -> Findings:
    """Generated tokens, and then the same tokens in a prompt whose logprobs are asked for; new tokens with echo and without."""
    findings = Findings()
    if not session.endpoint.echo:
        findings.missing = "the server does not return the logprobs of a prompt"
        return findings
    for words in (6, 30, 60)[: 1 + session.effort.rounds]:
        text = session.prompts.text(words)
        generated = session.endpoint.ask(text, 2 * NEW)
        count = len(generated.steps)
        if not is_plain(generated.tokens):
            continue
        read = session.endpoint.ask(text + "".join(generated.tokens), echo=True)
        if same_tokens(generated, count, read):
            as_new = replace(read, steps=read.prompt_steps[-count:])
            findings.compare(f"{count} generated tokens behind {short(text)}, in a prompt", generated, as_new)
        both = session.endpoint.ask(text, 2 * NEW, echo=True)
        findings.compare(f"the answer to {short(text)} with echo", generated, both)
        if not both.text.startswith(text.lstrip()) and not both.text.lstrip().startswith(text.lstrip()):
            findings.violated(f"{short(text)} with echo", "the returned text does not begin with the prompt", both)
    return findings
