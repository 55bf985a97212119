"""BLEU: overlap of n-grams of one to four words between translations and references; 0..100 over a whole part.

Three numbers, because papers mean different ones: cased and lower-cased with WMT's tokenisation (13a, sacrebleu's default), and
tokenised, as papers on Multi30k report it: Moses' words after normalising punctuation, lower-cased, no further tokenisation.
Pairs that are no translations, such as words and their phonemes, have one: of what stands between spaces.
Sources: Papineni et al. 2002; Post 2018, "A Call for Clarity in Reporting BLEU Scores".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from equiscope.tokens.extra import needed

BETWEEN_SPACES: dict[str, Any] = {"tokenize": "none", "force": True}


@dataclass(frozen=True)
class Scores:
    """Scores by name, and the signature of each. words: number of Moses words in the references."""

    values: dict[str, float]
    signatures: dict[str, str]
    words: int | None = None


def greedy(answers: Sequence[str], references: Sequence[str], language: str | None) -> float:
    """Cased, 13a: the one score that is computed during training. language: None counts what stands between spaces."""
    metric = needed("sacrebleu", "train", "BLEU").metrics.BLEU(**({} if language else BETWEEN_SPACES))
    return float(metric.corpus_score(list(answers), [list(references)]).score)


def scores(answers: Sequence[str], references: Sequence[str], language: str | None, lowered: bool = False) -> Scores:
    """All three scores; the tokenised one only if sacremoses is installed.

    language  of the translations, two letters; None: one score, of what stands between spaces
    lowered   whether both sides are lower-cased already: then no score is cased, and every signature says so
    """
    result = _scores(answers, references, language)
    if not lowered:
        return result
    signatures = {
        name: f"{how}; both sides lower-cased before" if name in result.values else how for name, how in result.signatures.items()
    }
    return replace(result, signatures=signatures)


def _scores(answers: Sequence[str], references: Sequence[str], language: str | None) -> Scores:
    BLEU = needed("sacrebleu", "train", "BLEU").metrics.BLEU
    if language is None:
        metric = BLEU(**BETWEEN_SPACES)
        value = float(metric.corpus_score(list(answers), [list(references)]).score)
        return Scores({"bleu": value}, {"bleu": str(metric.get_signature())})
    values, signatures = {}, {}
    for name, metric in (("bleu", BLEU()), ("bleu lower-cased", BLEU(lowercase=True))):
        values[name] = float(metric.corpus_score(list(answers), [list(references)]).score)
        signatures[name] = str(metric.get_signature())
    try:
        sacremoses = import_module("sacremoses")
    except ImportError:
        signatures["bleu tokenised"] = "not measured: sacremoses is not installed (pip install -e '.[train]' in the clone)"
        return Scores(values, signatures)
    cut = sacremoses.MosesTokenizer(language)
    normal = sacremoses.MosesPunctNormalizer(language)
    sides = [
        [cut.tokenize(normal.normalize(t), return_str=True, escape=False).lower() for t in side] for side in (answers, references)
    ]
    metric = BLEU(tokenize="none", force=True, smooth_method="none")  # as Moses' multi-bleu
    values["bleu tokenised"] = float(metric.corpus_score(sides[0], [sides[1]]).score)
    how = f"sacremoses:{sacremoses.__version__}|lang:{language}|punctuation:normalised|case:lc"
    signatures["bleu tokenised"] = f"{metric.get_signature()} of {how}"
    return Scores(values, signatures, sum(len(text.split()) for text in sides[1]))
