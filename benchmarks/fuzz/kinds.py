"""Kinds of bad input: each corrupts some of the valid files of a folder, and returns a command line."""

import gzip
import io
import json
import os
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.fuzz.chance import WORDS, bytes_of, data_of, json_of, toml_of
from benchmarks.fuzz.good import BOMBS, FAMILIES, FOLDERS, RECIPES

SHORT = ["--effort=quick", "--seconds=2"]  # of a check
ONE = "--set=budget.steps=1"
JOBS = ["--vary=width=8,16", "--jobs", "--out=out"]  # reads and builds what a comparison needs, and trains nothing
LONG = {"--live", "--ray", "--browser", "--devices", "--processes", "--threads", "--port"}  # serve a page, or begin processes


@dataclass
class Case:
    """A case: the words after `equiscope`; or after "read", a function of the package and a file.

    feed  a shell command that writes into the pipe of the case, or nothing for a silent pipe
    out   where standard output goes: a device, "closed", or a file of the case
    into  standard input: a device, or "pipe" for the output of `feed`
    """

    arguments: list[str]
    feed: str = ""
    out: str = ""
    into: str = "/dev/null"


@cache
def _options() -> dict[str, list[tuple[str, bool]]]:
    """The options of every command, and whether each is a flag."""
    import click
    from typer.main import get_command

    from equiscope.cli.app import app

    verbs = getattr(get_command(app), "commands", {})
    return {
        verb: [
            (name, option.is_flag)
            for option in command.params
            if isinstance(option, click.Option) or hasattr(option, "is_flag")
            for name in option.opts
            if name not in LONG
        ]
        for verb, command in verbs.items()
    }


def commands(draw: random.Random, folder: Path) -> Case:
    """Commands, names and options that do not fit together. Commands that begin long work or serve a page are not drawn."""
    known = _options()
    verb = draw.choice([*known, *known, "nonsense"])
    files = ["spec.json", "a.xyz", "a.png", "model", "evil", "run-language", "sinusoidal", "words.txt", "language.toml"]
    first = [draw.choice([*WORDS, *files])] if draw.random() < 0.9 else []
    match verb:
        case "study" if first != ["claims"]:
            first = [draw.choice(["", "nonsense", *WORDS[:9]])]
        case "train" | "compare":
            first = [draw.choice(["missing.toml", "spec.json", "words.txt", "evil", ".", *WORDS])]
        case "generate":
            first = [draw.choice(["model", "evil", *WORDS]), draw.choice(["1 2", "", "9" * 30, "a b", "-5"]), "--ids", "--steps=2"]
        case "predict":
            first = [draw.choice([f"run-{task}" for task in RECIPES]), draw.choice([*WORDS, *files]), "--steps=2"]
    made = [verb, *first]
    some = known.get(verb, [("--help", True)])
    for option, alone in draw.sample(some, min(len(some), draw.choice((0, 1, 2, 3)))):
        word = draw.choice([*WORDS, "3", "1.5", "model", "evil", "a.png", "a.wav", "causal", "validation", "2,3"])
        made += [option] if alone else [f"{option}={word}"] if draw.random() < 0.8 else [option, word]
    return Case(made + (["--json"] if verb == "explore" else SHORT if verb == "check" else []))


def specs(draw: random.Random, folder: Path) -> Case:
    (folder / "spec.json").write_bytes(json_of(draw, folder / "spec.json"))
    arguments = draw.choice((
        ["describe", "spec.json"], ["describe", "spec.json", "--json"], ["describe", "spec.json", "--spec"],
        ["explore", "--model", "spec.json", "--json"],
        ["explore", "a b", "--side-by-side", "spec.json", "--model", "model", "--json"],
        ["check", "spec.json", "--property=causal", *SHORT], ["read", "spec", "spec.json"],
    ))  # fmt: skip
    return Case(arguments)


def recipes(draw: random.Random, folder: Path) -> Case:
    if draw.random() < 0.15:
        (folder / "question.toml").write_bytes(toml_of(draw, (folder / "question.toml").read_text()))
        return Case(["compare", "question.toml", "--jobs", "--out=out"])
    name = f"{draw.choice(list(RECIPES))}.toml"
    (folder / name).write_bytes(toml_of(draw, (folder / name).read_text()))
    vary = draw.choice(("position=none,rope", "width=8,16", "model.width=8," + draw.choice(WORDS), draw.choice(WORDS)))
    field = draw.choice(("budget.batch", "model.width", "data.context", "data.held_out", "optimiser.rate", "x.y", ".", "", "seed"))
    change = [f"--set={field}={draw.choice(WORDS)}"] * (draw.random() < 0.3)
    arguments = draw.choice((
        ["data", name], ["data", name, "--json"], ["compare", name, f"--vary={vary}", "--jobs", "--out=out", *change],
        ["train", name, "--out=out", *change, ONE], ["train", name, "--out=out", "--small", *change, ONE],
    ))  # fmt: skip
    return Case(arguments)


def configs(draw: random.Random, folder: Path) -> Case:
    model = folder / draw.choice((*FOLDERS, "evil"))
    name = draw.choice(("config.json", "config.json", "config.json", "tokenizer.json", "generation_config.json"))
    begin = model / name if (model / name).exists() else model / "config.json"
    if draw.random() < 0.2:
        data = json.loads((model / "config.json").read_bytes()) | {"model_type": draw.choice(FAMILIES)}
        begin.write_text(json.dumps(data))
    (model / name).write_bytes(json_of(draw, begin))
    where = f"./{model.name}"
    arguments = draw.choice((
        ["describe", where], ["generate", where, "1 2", "--ids", "--steps=2"], ["generate", where, "ab", "--steps=2"],
        ["explore", "--model", where, "--json"], ["explore", "a b", "--model", where, "--json"],
        ["check", where, "--property=causal", *SHORT], ["read", "tokenizer", where], ["read", "load", where],
        ["generate", "model", "ab", f"--draft={where}", "--steps=2"],
    ))  # fmt: skip
    return Case(arguments)


def tensors(draw: random.Random, folder: Path) -> Case:
    where = f"./{draw.choice(FOLDERS)}"
    path = folder / where / "model.safetensors"
    content = path.read_bytes()
    if draw.random() < 0.6:
        (long,) = struct.unpack("<Q", content[:8])
        header = json.dumps(data_of(draw, json.loads(content[8 : 8 + long]))).encode("utf-8", "surrogatepass")
        content = struct.pack("<Q", draw.choice((len(header), len(header), long, len(header) + 1))) + header + content[8 + long :]
    else:
        content = bytes_of(draw, content)
    path.write_bytes(content)
    arguments = draw.choice((
        ["generate", where, "1 2", "--ids", "--steps=2"], ["explore", "--model", where, "--json"],
        ["explore", "a b", "--model", where, "--json"], ["check", where, "--property=causal", *SHORT],
        ["read", "load", where],
    ))  # fmt: skip
    return Case(arguments)


def runs(draw: random.Random, folder: Path) -> Case:
    task = draw.choice(list(RECIPES))
    run = folder / f"run-{task}"
    path = draw.choice(sorted(p for p in run.rglob("*") if p.is_file() and p.stat().st_size))
    path.write_bytes(json_of(draw, path) if path.suffix == ".json" else bytes_of(draw, path.read_bytes()))
    asked = {"images": "a.png", "sounds": "a.wav", "molecules": "a.xyz"}.get(task, "only who")
    arguments = draw.choice((
        ["evaluate", run.name], ["evaluate", run.name, "--last", "--json"], ["predict", run.name, asked],
        ["explore", run.name, "--json"], ["explore", asked, "--model", run.name, "--json"],
        ["check", run.name, "--property=causal", *SHORT],
        ["compare", run.name, run.name, "--json"], ["compare", f"{run.name}/run.json"], ["train", run.name], ["describe", run.name],
    ))  # fmt: skip
    return Case(arguments)


def data(draw: random.Random, folder: Path) -> Case:
    """Files of molecules, meshes, pictures, sounds, texts, tables and archives, each given to its readers."""
    task, name, ways = draw.choice(FILES)
    path = folder / name
    _spoil(draw, path)
    if draw.random() < 0.08 and task == "molecules":
        name = draw.choice((*BOMBS, "pickled.npz"))
    way = draw.choice(ways)
    if way == "recipe":
        of = RECIPES[task]
        for before in ('"words.txt"', '"a.xyz"', '"pictures"', '"sounds"'):
            of = of if path.parent.parent != folder and path.parent != folder else of.replace(before, json.dumps(name))
        if name in ("images.gz", "labels.gz"):
            of = RECIPES[task].replace('"pictures"', '["images.gz", "labels.gz"]').replace("size = [8, 8]\n", "")
        (folder / "recipe.toml").write_text(of if name not in ("a.en", "a.de") else RECIPES[task])
        return Case(draw.choice((["compare", "recipe.toml", *JOBS], ["train", "recipe.toml", "--out=out", ONE])))
    if way == "predict":
        return Case(["predict", f"run-{task}", name, "--json"])
    if way.startswith("--"):
        return Case(["explore", "--page=tokens", f"{way}={name}", "--json"])
    if way == "explore":
        return Case(["explore", name, "--json", f"--frame={draw.choice((1, 2, 99))}"])
    return Case(["read", way, name])


# of which task a file is, its name, and who reads it
FILES: list[tuple[str, str, tuple[str, ...]]] = [
    *(("molecules", f"a.{end}", ("recipe", "predict", "explore", "read_frames")) for end in ("xyz", "xyz", "xyz.gz", "xyz.xz")),
    *(("molecules", f"a.{end}", ("read_points", "explore")) for end in ("sdf", "cjson", "obj", "ply")),
    ("molecules", "a.npz", ("recipe", "predict")),
    *(("images", f"a.{end}", ("--image", "predict", "read_image")) for end in ("png", "gif", "bmp", "tiff", "webp", "jpg", "ppm")),
    ("images", "pictures/cat/1.png", ("recipe",)),
    ("images", "pictures.csv", ("recipe",)),
    ("images", "images.gz", ("recipe",)),
    ("images", "labels.gz", ("recipe",)),
    *(("sounds", name, ("--audio", "predict", "read_sound")) for name in ("a.wav", "a.wav")),
    ("sounds", "sounds/cat/1.wav", ("recipe",)),
    *(("language", name, ("recipe",)) for name in ("words.txt", "a.csv", "a.jsonl", "a.xml", "a.tar.gz")),
    ("translation", "a.en", ("recipe",)),
    ("translation", "a.de", ("recipe",)),
]


def _spoil(draw: random.Random, path: Path) -> None:
    """Change bytes, or replace the file by a folder, a link, nothing, or a header that declares too large a size."""
    chance = draw.random()
    if chance < 0.08:
        path.unlink()
        draw.choice((path.mkdir, lambda: path.symlink_to(path.name), lambda: path.symlink_to("/dev/null"), lambda: None))()
    elif chance < 0.2 and path.suffix == ".png":
        path.write_bytes(large_picture(draw))
    elif chance < 0.3 and path.suffix == ".npz":
        path.write_bytes(large_array())
    elif chance < 0.3 and path.suffix == ".wav":
        path.write_bytes(b"RIFF" + struct.pack("<I", 2**31) + path.read_bytes()[8:])
    elif path.suffix == ".gz" and chance < 0.8:
        path.write_bytes(gzip.compress(bytes_of(draw, gzip.decompress(path.read_bytes())), 1))
    elif path.suffix == ".cjson":
        path.write_bytes(json_of(draw, path))
    else:
        path.write_bytes(bytes_of(draw, path.read_bytes()))


def large_picture(draw: random.Random) -> bytes:
    """A PNG whose header declares a very large number of pixels."""
    side = draw.choice((20_000, 2**31 - 1, 0, 60_000))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(2**20))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def large_array() -> bytes:
    """An .npz whose array declares a very large number of elements."""
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3, 3), }\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("coords.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(72))
    return made.getvalue()


def outputs(draw: random.Random, folder: Path) -> Case:
    """Results written to unwritable places, or through something that is not a regular file."""
    (folder / "held").write_text("held")
    (folder / "closed").mkdir()
    (folder / "kept").write_text("kept")
    for link, to in (
        ("link", "held"),
        ("loop", "loop"),
        ("nowhere", "missing/file"),
        ("out.html.part", "kept"),
        ("out.html.tmp", "kept"),
    ):
        (folder / link).symlink_to(to)
    os.mkfifo(folder / "pipe.html")
    places = [
        f"{disk}/{name}" for disk in os.environ["FUZZ_DISKS"].split(os.pathsep) if disk for name in ("x.html", "held", "new/x")
    ]
    where = draw.choice([
        "out.html", "held", "link", "loop", "nowhere", "missing/x.html", "closed", "closed/", ".", "/proc", "", "held/x.html",
        "a" * 255, "a" * 256,
        "b" * 5000, "/dev/stdout", "/dev/stderr", "/dev/fd/99", "/proc/x.html", "/proc/self/fd/1", "/proc/version",
        "$(touch canary)", "é.html", "\udcff.html", "x\n.html", "pipe.html",
        *(f"{name}{end}" for name in devices(folder) for end in ("", "/x")),
        *places, *places,
    ])  # fmt: skip
    arguments = draw.choice((
        ["explore", "a b", "--export", where], ["explore", "--model", "spec.json", "--export", where],
        ["explore", "a.xyz", "--export", where], ["explore", "run-language", "--export", where],
        ["explore", "--page=masks", "--export", where], ["explore", "a b", "--model", "model", "--export", where],
        ["check", "spec.json", "--property=causal", *SHORT, draw.choice(("--html", "--save", "--junit")), where],
        ["study", "claims", "softmax-ignores-a-shift", "--quick", "--out", where],
        ["compare", "run-language", "run-language", "--out", where],
        ["compare", "language.toml", "--vary=width=8,16", "--jobs", "--out", where],
        ["train", "language.toml", ONE, "--out", f"{where}/x" if draw.random() < 0.5 and where else where],
    ))  # fmt: skip
    feed = draw.choice(("", "cat {pipe} > /dev/null", "head -c 10 {pipe} > /dev/null")) if where == "pipe.html" else ""
    return Case(arguments, feed, draw.choice(("/dev/full", "closed", *[""] * 8)))


def devices(folder: Path) -> list[str]:
    """Private devices where the system permits making them, which cannot be damaged for others; else /dev/null and /dev/full."""
    made = {"null": 3, "full": 7}
    try:
        for name, number in made.items():
            if not (folder / name).exists():
                os.mknod(folder / name, 0o20666, os.makedev(1, number))
    except OSError:
        return [f"/dev/{name}" for name in made]
    return list(made)


def pipes(draw: random.Random, folder: Path) -> Case:
    """Files that are pipes or devices: silent ones, endless ones, and some with valid content."""
    name, arguments = draw.choice((
        ("spec.json", ["describe", "spec.json"]), ("spec.json", ["check", "spec.json", *SHORT]),
        ("language.toml", ["data", "language.toml"]),
        ("language.toml", ["train", "language.toml", ONE, "--out=out"]), ("question.toml", ["compare", "question.toml", "--jobs"]),
        ("words.txt", ["compare", "language.toml", *JOBS]), ("a.xyz", ["explore", "a.xyz", "--json"]),
        ("a.xyz", ["compare", "molecules.toml", *JOBS]), ("a.png", ["explore", "--page=tokens", "--image=a.png", "--json"]),
        ("a.wav", ["explore", "--page=tokens", "--audio=a.wav", "--json"]), ("a.png", ["predict", "run-images", "a.png"]),
        ("model/config.json", ["describe", "./model"]), ("model/tokenizer.json", ["generate", "./model", "a", "--steps=1"]),
        ("model/model.safetensors", ["generate", "./model", "1", "--ids", "--steps=1"]),
        ("run-language/run.json", ["evaluate", "run-language"]),
        ("pictures/cat/1.png", ["compare", "images.toml", *JOBS]), ("sounds/cat/1.wav", ["compare", "sounds.toml", *JOBS]),
        ("", ["generate", "./model", "-", "--steps=2"]), ("", ["check", "./evil", *SHORT]),
        ("", ["explore", "a b", "--model", "./evil", "--json"]),
        ("", ["predict", "run-language", "-", "--steps=2"]), ("", ["describe", "./evil"]),
    ))  # fmt: skip
    feeds = ("", "yes", "cat /dev/zero", "cat /dev/urandom", "printf '{'; sleep 60", "yes y | head -c 100", "printf ''")
    if not name:
        feed = draw.choice([feed for feed in feeds[1:] if "sleep" not in feed])  # who begins a pipeline waits for its end
        return Case(arguments, feed, into=draw.choice(("pipe", "pipe", "/dev/zero", "closed")))
    path = folder / name
    good = path.rename(folder / "good")
    if draw.random() < 0.2:
        path.symlink_to(draw.choice(("/dev/zero", "/dev/null", "/dev/stdin", "/proc/self/mem", "/dev/tty")))
        return Case(arguments)
    os.mkfifo(path)
    return Case(arguments, f"{{ {draw.choice((*feeds, f'cat {good}'))}; }} > {{pipe}}".replace("{ ; }", ""))


KINDS: dict[str, tuple[Callable[[random.Random, Path], Case], float]] = {  # and its share
    "commands": (commands, 0.2), "specs": (specs, 0.12), "recipes": (recipes, 0.15), "configs": (configs, 0.12),
    "tensors": (tensors, 0.08),
    "runs": (runs, 0.09), "data": (data, 0.15), "outputs": (outputs, 0.06), "pipes": (pipes, 0.03),
}  # fmt: skip
