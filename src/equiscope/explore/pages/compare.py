"""The page of a comparison: one offline file, which begins with the answer. Without JavaScript it is a few tables."""

from html import escape
from statistics import fmean, stdev

from equiscope.explore import page
from equiscope.record import Candidate, Comparison, PairedDifference, Trial


def plain(comparison: Comparison) -> str:
    """The answer, the candidates, the pairs, every run and the data, as markup."""
    sizes = sorted({(b.factor, b.size) for trial in comparison.trials for b in trial.extrapolation})
    metric = f"{comparison.part} {comparison.metric}"
    paragraphs = "".join(f"<p>{escape(text)}</p>\n" for text in (comparison.question, *comparison.notes) if text)
    command = f"<p><code>{escape(comparison.command)}</code></p>\n" if comparison.command else ""
    candidates = [_candidate(candidate, comparison) for candidate in comparison.candidates]
    extrapolation = [f"{metric} at {size} {comparison.axis}" for _, size in sizes]
    heads = ["candidate", "seed", "state", metric, *extrapolation, "seconds", "tokens a second", "folder"]
    runs = [_trial(trial, [size for _, size in sizes]) for trial in comparison.trials]
    data = [[d.name, d.part, f"{d.bytes:,}", d.sha256] for d in comparison.data]
    return (
        f'<div class="bare-report"><p>{escape(comparison.title)}</p>\n'
        f"<h1>{escape(comparison.answer or comparison.title)}</h1>\n{paragraphs}"
        + page.table("Candidates, best first", ["name", metric, "parameters", "steps"], candidates)
        + page.table("Pairs", ["first", "second", "difference", "95 % interval", "p", "verdict"], [*map(_pair, comparison.pairs)])
        + page.table("Runs", heads, runs)
        + page.table("Data", ["file", "part", "bytes", "sha256"], data)
        + f"{command}</div>"
    )


def _candidate(candidate: Candidate, comparison: Comparison) -> list[str]:
    values = [t.value for t in comparison.trials if t.candidate == candidate.name and t.value is not None]
    spread = f" ± {stdev(values):.2g}" if len(values) > 1 else ""
    value = f"{fmean(values):.6g}{spread}" if values else "no number"
    return [candidate.name, value, f"{candidate.parameters:,}", f"{candidate.steps:,}"]


def _pair(pair: PairedDifference) -> list[str]:
    interval = "" if pair.low is None or pair.high is None else f"{pair.low:.3g} to {pair.high:.3g}"
    p = pair.p_equivalent if pair.verdict == "equivalent" else pair.p
    verdict = f"{pair.better} is better" if pair.better else pair.verdict
    return [pair.first, pair.second, f"{pair.difference:.3g}", interval, page.number(p), verdict]


def _trial(trial: Trial, sizes: list[int]) -> list[str]:
    extrapolation = {b.size: page.number(b.value) or "refused" for b in trial.extrapolation}
    state = f"{trial.state}: {trial.reason}" if trial.reason else trial.state
    rest = f"{trial.seconds:.0f}", page.number(trial.tokens), trial.folder
    values = [page.number(trial.value), *(extrapolation.get(size, "") for size in sizes)]
    return [trial.candidate, str(trial.seed), state, *values, *rest]
