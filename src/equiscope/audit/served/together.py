"""Requests in a batch: one against many, other neighbours, and at the same time."""

from equiscope.audit.served.alone import short
from equiscope.audit.served.answers import Answer, difference
from equiscope.audit.served.connection import Refused
from equiscope.audit.served.session import NEW, Findings, Session
from equiscope.errors import counted


def batch(session: Session) -> Findings:
    """The texts in batches of growing size, against each alone."""
    findings = Findings()
    texts, alone = session.texts, session.alone
    for size in session.effort.batches:
        for start in range(0, min(len(texts), 2 * size), size):
            picked = [(start + i) % len(texts) for i in range(size)]
            try:
                answers = session.together([texts[i] for i in picked])
            except Refused as refused:
                findings.violated(f"{size} prompts in one batch", f"{refused}; each of them was answered alone")
                return findings
            exchanged = _exchanged(answers, [alone[i] for i in picked])
            for row, (i, answer) in enumerate(zip(picked, answers, strict=True)):
                what = f"the prompt {short(texts[i])} as number {row + 1} in a batch of {size}"
                if row in exchanged:
                    findings.violated(what, f"it has the answer of prompt number {exchanged[row] + 1}", alone[i], answer)
                findings.compare(what, alone[i], answer)
    return findings


def _exchanged(answers: list[Answer], alone: list[Answer]) -> dict[int, int]:
    """Rows whose answer is that of another row alone."""
    found = {}
    for row, answer in enumerate(answers):
        if answer.tokens == alone[row].tokens:
            continue
        others = [i for i, other in enumerate(alone) if i != row and len(other.steps) > 2 and answer.tokens == other.tokens]
        if others and difference("", alone[others[0]], answer).most < difference("", alone[row], answer).most:
            found[row] = others[0]
    return found


def neighbours(session: Session) -> Findings:
    """One prompt at one place of a batch of four, beside others of its length, longer and shorter ones."""
    findings = Findings()
    for words in (9, 25)[: session.effort.rounds]:
        text = session.prompts.text(words)
        session.endpoint.ask(text)  # so that its beginning is in a cache each time
        sets = {
            "others of its length": [session.prompts.text(words) for _ in range(3)],
            "yet others of its length": [session.prompts.text(words) for _ in range(3)],
            "longer ones": [session.prompts.text(3 * words + 20) for _ in range(3)],
            "shorter ones": [session.prompts.text(3) for _ in range(3)],
        }
        answers = {kind: session.together([others[0], text, *others[1:]])[1] for kind, others in sets.items()}
        first, *more = answers
        for kind in more:
            findings.compare(f"the prompt {short(text)} beside {kind}", answers[first], answers[kind])
    return findings


def concurrency(session: Session) -> Findings:
    """All texts at the same time, against one by one."""
    findings = Findings()
    for _ in range(session.effort.rounds):
        answers = session.endpoint.ask_together(session.texts, NEW)
        for text, alone, answer in zip(session.texts, session.alone, answers, strict=True):
            findings.compare(
                f"the prompt {short(text)} with {counted(len(answers) - 1, 'other request')} at the same time", alone, answer
            )
    return findings
