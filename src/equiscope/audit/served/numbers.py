"""Numbers: whether the logprobs are those of a model, and the text that of its tokens."""

import math
import re

from equiscope.audit.served.alone import short
from equiscope.audit.served.answers import Answer, TokenLogprobs
from equiscope.audit.served.session import NEW, Findings, Session

SPECIAL = re.compile(r"<[^<> ]*>|\[[A-Z]+\]")  # tokens that have no text: </s>, <|im_end|>, [SEP]
EXCESS = 2.0**-6  # of a sum of probabilities whose logarithms were rounded to bfloat16


def temperature(session: Session) -> Findings:
    """The first token's alternatives at other temperatures."""
    findings = Findings()
    for text, alone in list(zip(session.texts, session.alone, strict=True))[:: 4 // session.effort.rounds or 1][:3]:
        for value in (0.5, 1.5):
            answer = session.endpoint.ask(text, 1, temperature=value)
            if answer.steps and alone.steps:
                findings.compare(
                    f"the logprobs of the first token after {short(text)} at temperature {value}", _untaken(alone), _untaken(answer)
                )
    return findings


def _untaken(answer: Answer) -> Answer:
    """The alternatives of the first token, whichever was drawn."""
    first = answer.steps[0]
    return Answer(answer.text, (TokenLogprobs("", None, first.top),), request=answer.request)


def seeds(session: Session) -> Findings:
    """One seed twice, and three others."""
    findings = Findings()
    text = session.texts[0]
    drawn = [session.endpoint.ask(text, 2 * NEW, temperature=1, seed=seed) for seed in (1, 1, 2, 3)]
    findings.samples = len(drawn)
    if drawn[0].text != drawn[1].text:
        findings.violated(f"{short(text)} twice with seed=1", "two texts: the seed does not decide the draw", drawn[0], drawn[1])
    if len({answer.text for answer in drawn[1:]}) == 1:
        findings.violated(
            f"{short(text)} with three seeds", "one text: the seed, or the temperature, has no effect", drawn[1], drawn[2]
        )
    return findings


def greedy(session: Session) -> Findings:
    """Each token at temperature 0. A token that was less likely than another one counts by the difference."""
    findings = Findings()
    for answer in _answers(session, 0):
        for position, step in enumerate(answer.steps):
            if step.logprob is None or not step.top:
                continue
            findings.samples += 1
            best = max(step.top, key=step.top.__getitem__)
            if step.top[best] > step.logprob:
                own = Answer("", (TokenLogprobs(step.token, None, {step.token: step.logprob}),), request=answer.request)
                most = Answer("", (TokenLogprobs(best, None, {step.token: step.top[best]}),), request=answer.request)
                findings.samples -= 1
                findings.compare(f"token {position + 1}, {step.token!r}, which is less likely than {best!r}", most, own)
    return findings


def probabilities(session: Session) -> Findings:
    """Every reported number."""
    findings = Findings()
    for answer in _answers(session):
        for step in (*answer.prompt_steps, *answer.steps):
            values = [*step.top.values(), *([] if step.logprob is None else [step.logprob])]
            findings.samples += 1
            if any(math.isnan(value) for value in values):
                findings.violated(f"the token {step.token!r}", "a logprob is not a number", answer)
            elif any(value > EXCESS for value in values):
                findings.violated(
                    f"the token {step.token!r}",
                    f"a logprob is positive ({max(values):.3g}): it is the logarithm of no probability",
                    answer,
                )
            elif (total := sum(math.exp(value) for value in step.top.values())) > 1 + EXCESS:
                findings.violated(
                    f"the alternatives of {step.token!r}", f"the probabilities of {len(step.top)} tokens sum to {total:.3g}", answer
                )
            elif step.logprob is not None and step.token in step.top and step.top[step.token] != step.logprob:
                a = Answer("", (TokenLogprobs(step.token, None, {step.token: step.top[step.token]}),), request=answer.request)
                b = Answer("", (TokenLogprobs(step.token, None, {step.token: step.logprob}),), request=answer.request)
                findings.compare(f"the logprob of {step.token!r} among its alternatives and as the chosen token", a, b)
    return findings


def text(session: Session) -> Findings:
    """The text against its tokens, put together."""
    findings = Findings()
    for answer in _answers(session):
        joined = "".join(token for token in answer.tokens if not SPECIAL.fullmatch(token))
        if not answer.steps or answer.prompt_steps or "\ufffd" in answer.text + joined or "bytes:" in joined or "<0x" in joined:
            continue
        findings.samples += 1
        ended = answer.finish == "stop" and joined.startswith(answer.text)  # a stop string, or a token that ends the text
        if joined != answer.text and not ended and joined.strip() != answer.text.strip():
            at = next(
                (i for i, (a, b) in enumerate(zip(joined, answer.text, strict=False)) if a != b), min(len(joined), len(answer.text))
            )
            start = max(0, at - 8)
            findings.violated(
                f"the answer {short(answer.text)}",
                f"the tokens read {joined[start : at + 8]!r}, and the text {answer.text[start : at + 8]!r}", answer,
            )  # fmt: skip
    return findings


def _answers(session: Session, temperature: float | None = None) -> list[Answer]:
    """All answers so far, or those at a temperature."""
    requests = session.endpoint.requests
    return [
        a for a in session.endpoint.answers if temperature is None or requests[a.request[0]][1].get("temperature") == temperature
    ]
