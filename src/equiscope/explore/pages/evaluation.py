"""The page of an evaluation: one offline file. Without JavaScript it is plain tables and the worst examples with their pictures."""

from html import escape

from equiscope.explore.page import table
from equiscope.record import EvaluationRecord
from equiscope.record.evaluation import AnsweredExample, PartEvaluation, between, number


def plain(content: EvaluationRecord) -> str:
    """Every part: its summary, metrics beside the simple models, differences, confusions and worst examples."""
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in content.notes)
    parts = "".join(_part(one, content) for one in content.parts)
    ways = table("How it was measured", ["metric", "how"], [[name, how] for name, how in content.signatures.items()])
    return f'<div class="bare-report"><h1>{escape(content.title)}</h1>\n{notes}{parts}{ways}</div>'


def _part(one: PartEvaluation, content: EvaluationRecord) -> str:
    simple = list(one.simple)
    metrics = [
        [m.name, number(m.value, m.unit), between(m.low, m.high), *(number(one.simple[s].get(m.name), m.unit) for s in simple)]
        for m in one.metrics
    ]
    differences = [
        [d.name, number(d.first), number(d.second), number(d.difference), between(d.low, d.high), number(d.p)]
        for d in one.differences
    ]
    confusion = [[name, *map(str, row)] for name, row in zip(one.classes, one.confusion, strict=False)]
    sentences = "".join(f"<p>{escape(text)}</p>\n" for text in (one.summary, *one.warnings) if text)
    worst = "".join(map(_example, one.worst))
    return (
        f"<h2>{escape(one.part)}</h2>\n{sentences}"
        + table("Metrics", ["metric", "value", "95 % interval", *simple], metrics)
        + table("Differences", ["metric", content.run, content.other, "difference", "95 % interval", "p"], differences)
        + table("Confusions", ["true, answered:", *one.classes], confusion)
        + (f"<h2>Worst examples</h2>\n<ol>{worst}</ol>\n" if worst else "")
    )


def _example(one: AnsweredExample) -> str:
    picture = f'<img src="{escape(one.picture)}" alt=""><br>' if one.picture else ""
    target = f", true {one.target}" if one.target else ""
    return f"<li>{picture}{escape(one.text or one.name)}: {escape(one.answer)}{escape(target)}</li>\n"
