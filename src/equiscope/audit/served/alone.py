"""Requests one after another: the same again, in another order, and after prompts with which a cache may confuse them."""

from equiscope.audit.served.answers import Answer
from equiscope.audit.served.session import NEW, Findings, Session, is_plain, rest


def run_to_run(session: Session) -> Findings:
    """The second and the third of three equal requests: both may read a cache, or neither."""
    findings = Findings()
    for text, (_, second, third) in zip(session.texts, session.repeats, strict=True):
        findings.compare(f"the prompt {short(text)} asked again", second, third)
    return findings


def order(session: Session) -> Findings:
    """The texts backwards, and every second one first."""
    findings = Findings()
    count = len(session.texts)
    orders = [list(range(count))[::-1], [*range(1, count, 2), *range(0, count, 2)]]
    for places in orders[: max(1, session.effort.rounds)]:
        before = -1
        for i in places:
            after = f" after {short(session.texts[before])}" if before >= 0 else ""
            findings.compare(
                f"the prompt {short(session.texts[i])} asked{after}", session.alone[i], session.endpoint.ask(session.texts[i], NEW)
            )
            before = i
    return findings


def prefix_cache(session: Session) -> Findings:
    """First and second answer; a prompt after similar ones; the texts again at the end."""
    findings = Findings()
    for text, (first, second, _) in zip(session.texts, session.repeats, strict=True):
        findings.compare(f"the prompt {short(text)} asked for the second time", first, second)
    if not session.endpoint.chat:
        for words in (20, 37)[: session.effort.rounds]:
            _similar(session, words, findings)
    _swapped(session, findings)
    for i in range(0, len(session.texts), 2):
        text = session.texts[i]
        findings.compare(f"the prompt {short(text)} asked again after others", session.alone[i], session.endpoint.ask(text, NEW))
    return findings


def _similar(session: Session, words: int, findings: Findings) -> None:
    """A prompt with its own generation behind it, after prompts that share its length, its end or its beginning."""
    text = session.prompts.text(words)
    generated = session.endpoint.ask(text, 48)
    count = next((n for n in (44, 36, 28, 20, 12, 6) if n < len(generated.steps) and is_plain(generated.tokens[:n])), 0)
    if not count:
        findings.notes.append("the answers were too short to be read again as prompts")
        return
    new, prompt = "".join(generated.tokens[:count]), text + "".join(generated.tokens[:count])
    start = text.split(" ")
    similar = {
        "of its length": session.prompts.text(words + count),
        "with its end": " ".join([start[0], *session.prompts.words(4), *start[5:]]) + new,
        "with its beginning": text + " " + " ".join(session.prompts.words(count)),
    }
    for other in similar.values():
        session.endpoint.ask(other)
    read = session.endpoint.ask(prompt, len(generated.steps) - count)
    if same_tokens(generated, count, read):
        what = f"a prompt of {read.prompt_tokens or 'some'} tokens, read after prompts {', '.join(similar)}, against generation"
        findings.compare(what, rest(generated, count), read)


def _swapped(session: Session, findings: Findings) -> None:
    """Two prompts with the same words in another order must not have the same numbers to the last digit."""
    for words in (20, 40)[: session.effort.rounds]:
        text = session.prompts.text(words)
        parts = text.split(" ")
        i = next((i for i in range(2, words - 4) if parts[i] != parts[i + 3]), None)
        if i is None:
            continue
        parts[i], parts[i + 3] = parts[i + 3], parts[i]
        first, second = session.endpoint.ask(text, NEW), session.endpoint.ask(" ".join(parts), NEW)
        findings.samples += 1
        numbers = [tuple(step.top.items()) for step in first.steps]
        if len(numbers) > 1 and numbers == [tuple(step.top.items()) for step in second.steps]:
            findings.violated(
                f"{short(text)}, and the same with the words {i + 1} and {i + 4} exchanged",
                "two prompts that differ in the order of two words have the same logprobs to the last digit: the server read the "
                "cache of the other prompt",
                first, second,
            )  # fmt: skip


def same_tokens(generated: Answer, count: int, read: Answer) -> bool:
    """Whether a prompt with generated text was split into the tokens that were generated."""
    if read.prompt_steps:
        end = [step.token for step in read.prompt_steps[-count:]]
        return end == generated.tokens[:count]
    if generated.prompt_tokens is None or read.prompt_tokens is None:
        return True
    return read.prompt_tokens == generated.prompt_tokens + count


def short(text: str, most: int = 40) -> str:
    """A prompt in a sentence."""
    return repr(text if len(text) <= most else f"{text[:most]}…")
