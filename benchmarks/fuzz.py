"""Does bad input get a sentence? Command lines, files and outputs, made from good ones by chance, are given to the command line.

    python -m benchmarks.fuzz [--count 3000] [--seed 0] [--kind specs] [--json FILE] [--show]

Each case has to end with exit code 0, 1 or 2, within its time and memory, without a traceback, and without running anything that a
file brings: pickles, code of a folder and shell words are planted, and each would leave a file. Most cases run one after the other
in forked processes that have loaded the package; a share of them run as commands of their own. Exits with 1 where a case fails.
Disks that are full or may only be read are mounted where the system lets us, and left out elsewhere.
"""

import argparse
import contextlib
import copy
import gzip
import io
import json
import lzma
import multiprocessing
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, machine, versions

LIMIT = 25  # seconds of a case; a pipe that nobody uses is waited for during 10
MEMORY = 4 * 2**30  # bytes beyond what the loaded package takes
TOGETHER = 40  # cases of one process
CANARY = "canary"
DEEP = "[" * 5000
WORDS = [
    "", "x", "a" * 300, "a/" * 200, "../../etc/passwd", "$(touch canary)", "; touch canary", "`touch canary`", "|touch canary",
    "\x01\x02", "é", "𝄞", "-1", "0", "1e400", "nan", "None", "null", "{}", "[]", "rope", "gpt2", "~nobody", "/dev/null", "/dev/zero",
    "/dev/full", ".", "/", "*", "**", "{0}", "%s", "module:factory", "os:system", "transformers:os.system", "timm:../x", "a:b:c",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 10**30, -(10**30), 1.5, float("nan"), float("inf"), -1e308, "", "rope", "a" * 300, "\0", "\ud800",
    "$(touch canary)", "../../x", [], ["rope"], [[[]]], {}, {"scheme": ["rope"]}, {"": {}}, [None], list(range(1000)), "x" * 100_000, 7,
]  # fmt: skip


@dataclass
class Case:
    """A command line in a folder of its own. out: where standard output goes, if not into a file."""

    kind: str
    number: int
    arguments: list[str]
    out: str = ""


@dataclass
class Ending:
    """What became of a case."""

    kind: str
    number: int
    arguments: list[str]
    code: int
    seconds: float
    memory: float = 0.0  # bytes that the process had taken by then
    wrong: str = ""


# --- good ones --------------------------------------------------------------------------------------------------------
RECIPE = """title = "Words"

[data]
task = "language"
train = "words.txt"
tokens = "characters"
context = 8

[model]
width = 8
layers = 1

[model.block.attention]
heads = 2
causal = true
position = "rope"

[budget]
steps = 2
batch = 2

[optimiser]
rate = 1e-3
warmup = 0

[small]
budget = { steps = 1 }
"""
MOLECULES = """title = "Molecules"

[data]
task = "molecules"
train = "NAME"
unit = "eV"
held = 0.5

[model]
width = 8

[budget]
steps = 2
batch = 1

[optimiser]
rate = 1e-3
warmup = 0
"""
XYZ = '3\nLattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3:forces:R:3 energy=-1.5 pbc="T T T"\n' + "".join(
    f"{s} {x} 0.0 0.5 0.1 0.0 -0.1\n" for s, x in (("O", 0.0), ("H", 0.9), ("H", -0.9))
)
SDF = "title\n  by\n\n  2  1  0  0  0  0  0  0  0  0999 V2000\n" + "".join(
    f"{x:10.4f}{0:10.4f}{0:10.4f} H   0  0\n" for x in (0.0, 0.74)
)
SDF += "  1  2  1  0\nM  END\n> <NAME>\ntext\n\n$$$$\n"
CJSON = {
    "atoms": {"coords": {"3d": [0, 0, 0, 0, 0, 0.74]}, "elements": {"number": [1, 1]}},
    "bonds": {"connections": {"index": [0, 1]}, "order": [1]},
}
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
PLY = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
PLY += "property list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
CANARIES = """import pathlib
pathlib.Path({canary!r}).touch()
"""


class Planted:
    """What a pickle runs, were it opened."""

    def __init__(self, canary: str) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.mkdir, (self.canary,)


def good(folder: Path, canary: str) -> None:
    """Files that are right, to begin with."""
    import pickle
    import wave

    import numpy as np
    import torch
    from PIL import Image

    import equiscope as eq
    from equiscope.tokens.tokenizer import by_bytes

    torch.manual_seed(0)
    (folder / "words.txt").write_text("only who can prevent forest fires. " * 40)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "question.toml").write_text(
        'question = "Which?"\nrecipe = "recipe.toml"\nseeds = 1\n[vary]\nposition = ["none", "rope"]\n'
    )
    attention = eq.Attention(heads=2, position=eq.position.Rope(), causal=True)
    gpt = eq.Spec(width=8, vocabulary=257, outputs=257, layers=1, block=eq.Block(attention=attention))
    (folder / "spec.json").write_text(gpt.to_json())
    model = folder / "model"
    llama = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 257, "hidden_size": 8, "intermediate_size": 16,
             "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
             "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
             "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False, "mlp_bias": False}  # fmt: skip
    model.mkdir()
    (model / "config.json").write_text(json.dumps(llama))
    shapes = {"embed_tokens": (257, 8), "norm": (8,), "layers.0.input_layernorm": (8,), "layers.0.post_attention_layernorm": (8,),
              "layers.0.self_attn.q_proj": (8, 8), "layers.0.self_attn.k_proj": (4, 8), "layers.0.self_attn.v_proj": (4, 8),
              "layers.0.self_attn.o_proj": (8, 8), "layers.0.mlp.gate_proj": (16, 8), "layers.0.mlp.up_proj": (16, 8),
              "layers.0.mlp.down_proj": (8, 16)}  # fmt: skip
    from safetensors.torch import save_file

    tensors = {f"model.{name}.weight": torch.randn(shape) for name, shape in shapes.items()} | {
        "lm_head.weight": torch.randn(257, 8)
    }
    save_file(tensors, model / "model.safetensors", {"format": "pt"})
    by_bytes(["<end>"]).save(model)
    (folder / "a.xyz").write_text(XYZ * 4)
    (folder / "a.sdf").write_text(SDF)
    (folder / "a.cjson").write_text(json.dumps(CJSON))
    (folder / "a.obj").write_text(OBJ)
    (folder / "a.ply").write_text(PLY)
    at = np.random.default_rng(0).normal(size=(4, 3, 3))
    np.savez(folder / "a.npz", coords=at, energy=at.sum((1, 2)), forces=-at, nuclear_charges=np.array([8, 1, 1]))
    np.savez(folder / "pickled.npz", coords=np.array([Planted(canary)], dtype=object))
    Image.fromarray((at[0] * 99).astype("uint8").repeat(8, 0).repeat(8, 1)).save(folder / "a.png")
    with wave.open(str(folder / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((np.sin(np.arange(4000)) * 2**13).astype("<i2").tobytes())
    (folder / "a.csv").write_text('text,label\n"one, two",a\nthree,b\n' * 20)
    (folder / "a.jsonl").write_text('{"text": "one two three"}\n' * 40)
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(folder / "words.txt", "texts/words.txt")
        archive.add(folder / "a.jsonl", "../../outside.jsonl")
    for name, packer in (("a.xyz.gz", gzip), ("a.xyz.xz", lzma)):
        (folder / name).write_bytes(packer.compress((folder / "a.xyz").read_bytes()))
    (folder / "bomb.xyz.gz").write_bytes(gzip.compress(bytes(2**20)) * 320)  # 0.3 MB of zeros in 1 kB, again and again
    (folder / "bomb.xyz.xz").write_bytes(lzma.compress(bytes(2**29), preset=0))
    evil = folder / "evil"
    shutil.copytree(model, evil)
    (evil / "config.json").write_text(
        json.dumps({"model_type": "evil", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}})
    )
    (evil / "code.py").write_text(CANARIES.format(canary=canary))
    (evil / "modeling_evil.py").write_text(CANARIES.format(canary=canary))
    for name in ("pytorch_model.bin", "training_args.bin", "model.pt"):
        (evil / name).write_bytes(pickle.dumps(Planted(canary)))
    run = ["equiscope", "train", "recipe.toml", "--small", "--out", "run", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", *run], cwd=folder, capture_output=True, text=True, env=environment(folder), check=False
    )
    assert done.returncode == 0, done.stderr


def environment(folder: Path) -> dict[str, str]:
    sources = str(ROOT / "src")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([sources, os.environ.get("PYTHONPATH", "")]), "EQUISCOPE_CACHE": str(folder / ".cache"),
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


# --- chance -----------------------------------------------------------------------------------------------------------
def bytes_of(draw: random.Random, content: bytes) -> bytes:
    """Other bytes than were there."""
    made, many = bytearray(content), len(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(max(1, many))
        match draw.randrange(9):
            case 0:
                made = made[:place]
            case 1:
                made[place : place + 1] = bytes([draw.randrange(256)])
            case 2:
                made[place:place] = draw.choice(
                    (b"\0" * 9, b"\xff\xfe", DEEP.encode(), b"9" * 5000, b"-", b"nan ", b"1e999 ", b"\r", b'"')
                )
            case 3:
                made[place : place + draw.randrange(1, 64)] = b""
            case 4:
                made[:8] = struct.pack("<Q", draw.choice((0, 7, 2**20, 2**40, 2**63, 2**64 - 1)))
            case 5:
                made = bytearray(bytes(made).decode("latin-1").encode("utf-16"))
            case 6:
                made += made[: draw.randrange(1, 200)] * draw.choice((1, 50))
            case 7:
                digits = [i for i, byte in enumerate(made) if 48 <= byte < 58]
                if digits:
                    place = draw.choice(digits)
                    made[place : place + 1] = draw.choice((b"-1", b"0", b"999999999", b"1e30", b"x", b"nan"))
            case 8:
                made = bytearray(
                    draw.choice((b"", b"\0", b"[]", b"{}", b"null", b"\xef\xbb\xbf", b"\x80\x04N.", b"\x1f\x8b", DEEP.encode()))
                )
        many = len(made)
    return bytes(made)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in plain data."""
    for key, held in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from places(held, (*path, key))


def data_of(draw: random.Random, data: Any) -> Any:
    """Other plain data than was there: another value, no value, another name."""
    made = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        known = list(places(made))
        if not known:
            return draw.choice(VALUES)
        *way, key = draw.choice(known)
        held = made
        for step in way:
            held = held[step]
        value = draw.choice(VALUES)
        if draw.random() < 0.1:
            for _ in range(draw.choice((3, 70, 500))):
                value = draw.choice(([value], {"block": value}))
        match draw.randrange(6):
            case 0:
                del held[key]
            case 1 if isinstance(held, dict):
                held[draw.choice((key + "s", "x", key.upper(), "", "version", "scheme", "auto_map"))] = held.pop(key)
            case 2:
                held[key] = [held[key]]
            case 3:
                held[key] = {draw.choice(("scheme", "kind", "x")): held[key]}
            case _:
                held[key] = value
    return made


def json_of(draw: random.Random, path: Path) -> bytes:
    """Other JSON than a file holds, or no JSON."""
    if draw.random() < 0.25:
        return bytes_of(draw, path.read_bytes())
    text = json.dumps(data_of(draw, json.loads(path.read_bytes())))
    return (text.replace('"x"', DEEP) if draw.random() < 0.05 else text).encode("utf-8", "surrogatepass")


def toml_of(draw: random.Random, content: str) -> bytes:
    """Other TOML than there was, line by line, or no TOML."""
    if draw.random() < 0.2:
        return bytes_of(draw, content.encode())
    lines = content.splitlines()
    for _ in range(draw.choice((1, 1, 2, 4))):
        place = draw.randrange(len(lines))
        name, sign, _ = lines[place].partition("=")
        match draw.randrange(6):
            case 0:
                del lines[place]
            case 1:
                lines.insert(
                    place,
                    draw.choice(
                        ("[model]", "[[data]]", "x = 1", "width = 0", DEEP, "[a.b.c]", "model = 3", "a" + ".a" * 900 + " = 1")
                    ),
                )
            case 2:
                lines.insert(place, lines[draw.randrange(len(lines))])
            case _ if sign:
                lines[place] = f"{name}= {_toml(draw, draw.choice(VALUES))}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(draw: random.Random, value: Any) -> str:
    if value is None or draw.random() < 0.1:
        return draw.choice(
            ("x", DEEP, "0x" + "f" * 9000, "9" * 5000, "2020-01-01", "'''", "{ a = { b = 1 } }", "inf", "-nan", "[1, [2]]")
        )
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return "{ scheme = ['rope'] }" if value else "{}"
    return json.dumps(value).replace("null", '"none"')


# --- kinds ------------------------------------------------------------------------------------------------------------
VERBS = [
    "explore",
    "describe",
    "check",
    "table",
    "study",
    "generate",
    "train",
    "compare",
    "evaluate",
    "predict",
    "data",
    "nonsense",
]
OPTIONS = {
    "explore": ["--position", "--width", "--heads", "--causal", "--seed", "--port", "--model", "--image", "--audio", "--video", "--page",
                "--beside", "--frame", "--compact"],
    "describe": ["--tokens", "--source-tokens", "--spec", "--json"],
    "check": ["--action", "--property", "--output", "--effort", "--mode", "--tolerance", "--seed", "--seconds", "--list", "--json"],
    "table": ["--length", "--width", "--angles", "--csv", "--json"], "study": ["--quick", "--list", "--json", "--seed"],
    "generate": ["--steps", "--temperature", "--top-k", "--top-p", "--min-p", "--repetition", "--beams", "--window", "--draft", "--ids"],
    "train": ["--set", "--small", "--devices"], "compare": ["--vary", "--seeds", "--set", "--small", "--equal", "--threads"],
    "evaluate": ["--part", "--last", "--json"], "predict": ["--steps", "--temperature", "--beams", "--top", "--seed", "--json"],
    "data": ["--check", "--json"], "nonsense": ["--help"],
}  # fmt: skip
FLAGS = {
    "--causal",
    "--compact",
    "--spec",
    "--json",
    "--list",
    "--angles",
    "--csv",
    "--quick",
    "--ids",
    "--small",
    "--last",
    "--check",
    "--help",
}


def commands(draw: random.Random, folder: Path) -> list[str]:
    """Verbs, names and options that do not fit. What would begin long work, or serve a page, is not drawn."""
    verb = draw.choice(VERBS)
    first = draw.choice([*WORDS, "spec.json", "a.xyz", "a.png", "model", "evil", "run", "sinusoidal", "words.txt"])
    made = [verb, *([first] if draw.random() < 0.9 else [])]
    if verb in ("check", "study") and first in ("gpt2", "spec.json", "model", "run", ""):
        made = [verb, "missing.json"]
    if verb in ("train", "compare"):
        made = [verb, draw.choice(["missing.toml", "spec.json", "words.txt", "evil", ".", *WORDS])]
    if verb == "generate":
        made = [verb, draw.choice(["model", "evil", *WORDS]), draw.choice(["1 2", "", "9" * 30, "a b", "-5"]), "--ids", "--steps=2"]
    for option in draw.sample(OPTIONS[verb], min(len(OPTIONS[verb]), draw.choice((0, 1, 2, 3)))):
        word = draw.choice([*WORDS, "3", "1.5", "model", "evil", "a.png", "a.wav"])
        made += [option] if option in FLAGS else [f"{option}={word}"] if draw.random() < 0.8 else [option, word]
    return made + (["--json"] if verb == "explore" else ["--effort=quick", "--seconds=1"] if verb == "check" else [])


def specs(draw: random.Random, folder: Path) -> list[str]:
    (folder / "spec.json").write_bytes(json_of(draw, folder / "spec.json"))
    return draw.choice((
        ["describe", "spec.json"], ["describe", "spec.json", "--json"], ["describe", "spec.json", "--spec"],
        ["explore", "--model", "spec.json", "--json"], ["check", "spec.json", "--property=causal", "--effort=quick", "--seconds=2"],
    ))  # fmt: skip


def recipes(draw: random.Random, folder: Path) -> list[str]:
    (folder / "recipe.toml").write_bytes(toml_of(draw, RECIPE if draw.random() < 0.7 else MOLECULES.replace("NAME", "a.xyz")))
    if draw.random() < 0.2:
        (folder / "question.toml").write_bytes(toml_of(draw, (folder / "question.toml").read_text()))
        return ["compare", "question.toml", "--jobs", "--out=out"]
    vary = draw.choice(("position=none,rope", "width=8,16", "model.width=8," + draw.choice(WORDS), draw.choice(WORDS)))
    change = [f"--set={draw.choice(('budget.steps', 'model.width', 'data.context', 'x.y', '.'))}={draw.choice(WORDS)}"] * (
        draw.random() < 0.3
    )
    return draw.choice((
        ["data", "recipe.toml"], ["data", "recipe.toml", "--json"], ["compare", "recipe.toml", f"--vary={vary}", "--jobs", "--out=out", *change],
    ))  # fmt: skip


def configs(draw: random.Random, folder: Path) -> list[str]:
    model = folder / draw.choice(("model", "model", "model", "evil"))
    name = draw.choice(("config.json", "config.json", "config.json", "tokenizer.json", "generation_config.json"))
    begin = model / name if (model / name).exists() else model / "config.json"
    (model / name).write_bytes(json_of(draw, begin))
    where = f"./{model.name}"
    return draw.choice((
        ["describe", where], ["generate", where, "1 2", "--ids", "--steps=2"], ["generate", where, "ab", "--steps=2"],
        ["explore", "--model", where, "--json"], ["explore", "a b", "--model", where, "--json"],
        ["check", where, "--property=causal", "--effort=quick", "--seconds=2"],
    ))  # fmt: skip


def tensors(draw: random.Random, folder: Path) -> list[str]:
    path = folder / "model" / "model.safetensors"
    content = path.read_bytes()
    if draw.random() < 0.6:
        (long,) = struct.unpack("<Q", content[:8])
        header = json.dumps(data_of(draw, json.loads(content[8 : 8 + long]))).encode("utf-8", "surrogatepass")
        content = struct.pack("<Q", draw.choice((len(header), len(header), long, len(header) + 1))) + header + content[8 + long :]
    else:
        content = bytes_of(draw, content)
    path.write_bytes(content)
    return draw.choice((
        ["generate", "./model", "1 2", "--ids", "--steps=2"], ["explore", "--model", "./model", "--json"],
        ["explore", "a b", "--model", "./model", "--json"], ["check", "./model", "--property=causal", "--effort=quick", "--seconds=2"],
    ))  # fmt: skip


def runs(draw: random.Random, folder: Path) -> list[str]:
    files = sorted(p for p in (folder / "run").rglob("*") if p.is_file() and p.stat().st_size)
    path = draw.choice(files)
    path.write_bytes(json_of(draw, path) if path.suffix == ".json" else bytes_of(draw, path.read_bytes()))
    return draw.choice((
        ["evaluate", "run"], ["evaluate", "run", "--last", "--json"], ["predict", "run", "only", "--steps=2"], ["explore", "run", "--json"],
        ["explore", "a b", "--model", "run", "--json"], ["compare", "run", "run", "--json"], ["compare", "run/run.json"],
    ))  # fmt: skip


def data(draw: random.Random, folder: Path) -> list[str]:
    """Files of molecules, meshes, pictures, sounds, texts, tables and archives."""
    name = draw.choice(("a.xyz", "a.xyz", "a.sdf", "a.cjson", "a.obj", "a.ply", "a.npz", "a.png", "a.png", "a.wav", "a.csv", "a.jsonl",
                        "a.tar.gz", "a.xyz.gz", "a.xyz.xz", "words.txt"))  # fmt: skip
    path, chance = folder / name, draw.random()
    if chance < 0.05:
        name = draw.choice(("bomb.xyz.gz", "bomb.xyz.xz", "pickled.npz"))
    elif chance < 0.1:
        path.unlink()
        draw.choice((path.mkdir, lambda: path.symlink_to(path.name), lambda: path.symlink_to("/dev/null"), lambda: None))()
    elif chance < 0.15 and name.endswith("png"):
        path.write_bytes(large_picture(draw))
    elif chance < 0.2 and name.endswith("npz"):
        path.write_bytes(large_array())
    elif name == "a.tar.gz" and draw.random() < 0.7:
        path.write_bytes(gzip.compress(bytes_of(draw, gzip.decompress(path.read_bytes())), 1))
    else:
        path.write_bytes(bytes_of(draw, path.read_bytes()))
    if name.endswith("png"):
        return ["explore", "--page=tokens", f"--image={name}", "--json"]
    if name.endswith("wav"):
        return ["explore", "--page=tokens", f"--audio={name}", "--json"]
    if name.endswith(("npz", "obj", "ply")) or (".xyz" in name and draw.random() < 0.3):
        (folder / "recipe.toml").write_text(MOLECULES.replace("NAME", name))
        return ["compare", "recipe.toml", "--vary=width=8,16", "--jobs", "--out=out"]
    if name.endswith(("csv", "jsonl", "tar.gz", "txt")):
        (folder / "recipe.toml").write_text(RECIPE.replace("words.txt", name))
        return ["compare", "recipe.toml", "--vary=width=8,16", "--jobs", "--out=out"]
    return ["explore", name, "--json"]


def large_picture(draw: random.Random) -> bytes:
    """A PNG that says that it has very many pixels."""
    import zlib

    side = draw.choice((20_000, 2**31 - 1, 0, 60_000))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(2**20))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def large_array() -> bytes:
    """An .npz whose array says that it has very many numbers."""
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3, 3), }\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("coords.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(72))
    return made.getvalue()


def outputs(draw: random.Random, folder: Path) -> list[str]:
    """Results that go where nothing can be written, or through what is no file."""
    (folder / "held").write_text("held")
    (folder / "closed").mkdir()
    (folder / "link").symlink_to("held")
    (folder / "loop").symlink_to("loop")
    (folder / "nowhere").symlink_to("missing/file")
    (folder / "out.html.part").symlink_to("held")
    disks = [
        f"{disk}/{name}"
        for disk in os.environ.get("FUZZ_DISKS", "").split(os.pathsep)
        if disk
        for name in ("x.html", "held", "new/x")
    ]
    where = draw.choice([
        "out.html", "held", "link", "loop", "nowhere", "missing/x.html", "closed", "closed/", ".", "/", "", "held/x.html", "a" * 255, "a" * 256,
        "b" * 5000, "/dev/null", "/dev/full", "/dev/stdout", "/dev/stderr", "/dev/fd/99", "/proc/x.html", "/proc/self/fd/1", "/proc/version",
        "/dev/full/x", "$(touch canary)", "é.html", "\udcff.html", "x\n.html", *disks, *disks,
    ])  # fmt: skip
    return draw.choice((
        ["explore", "a b", "--export", where], ["explore", "--model", "spec.json", "--export", where],
        ["explore", "a.xyz", "--export", where], ["explore", "run", "--export", where],
        ["check", "spec.json", "--property=causal", "--effort=quick", "--seconds=2", draw.choice(("--html", "--save", "--junit")), where],
        ["study", "claims", "softmax-shift", "--quick", "--out", where], ["compare", "run", "run", "--out", where],
        ["compare", "recipe.toml", "--vary=width=8,16", "--jobs", "--out", where],
        ["train", "recipe.toml", "--small", "--out", f"{where}/x" if draw.random() < 0.5 and where else where],
    ))  # fmt: skip


KINDS: dict[str, tuple[Callable[[random.Random, Path], list[str]], float]] = {  # and its share
    "commands": (commands, 0.2), "specs": (specs, 0.15), "recipes": (recipes, 0.15), "configs": (configs, 0.15), "tensors": (tensors, 0.1),
    "runs": (runs, 0.08), "data": (data, 0.12), "outputs": (outputs, 0.05),
}  # fmt: skip


# --- running ----------------------------------------------------------------------------------------------------------
def case_of(kind: str, number: int, seed: int, good: Path, folder: Path) -> Case:
    """A case in its own folder, which is a copy of the good files."""
    draw = random.Random(f"{seed} {kind} {number}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder, ignore=shutil.ignore_patterns(".cache", "bomb*"), symlinks=True)
    for name in ("bomb.xyz.gz", "bomb.xyz.xz"):
        os.link(good / name, folder / name)
    arguments = [word.replace("\0", "") for word in KINDS[kind][0](draw, folder)]
    return Case(
        kind, number, arguments, draw.choice(("/dev/full", "closed", "", "", "", "", "", "", "", "")) if kind == "outputs" else ""
    )


class Hang(BaseException):
    """A case that does not end."""


def _hangs(*_: Any) -> None:
    raise Hang


def called(case: Case, folder: Path) -> Ending:
    """Run a case in this process, as the command would."""
    from equiscope.cli import main

    os.chdir(folder)
    said = folder / ".said"
    kept = [os.dup(0), os.dup(1), os.dup(2)]
    files = [os.open(os.devnull, os.O_RDONLY), os.open(case.out if case.out.startswith("/") else folder / ".out", os.O_CREAT | os.O_WRONLY),
             os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)]  # fmt: skip
    for number, handle in enumerate(files):
        os.dup2(handle, number)
        os.close(handle)
    if case.out == "closed":
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        os.close(write)
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv, sys.stdin = ["equiscope", *case.arguments], open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    code, wrong, begin = 0, "", time.perf_counter()
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(LIMIT)
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Hang:
        code, wrong = -1, f"no end within {LIMIT} s"
    except BaseException:
        code, wrong = -2, traceback.format_exc()
    finally:
        signal.alarm(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
        for number, handle in enumerate(kept):
            os.dup2(handle, number)
            os.close(handle)
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return Ending(
        case.kind, case.number, case.arguments, code, seconds, memory, wrong or judged(code, said.read_text(errors="replace"), case)
    )


def judged(code: int, said: str, case: Case) -> str:
    """What is wrong with how a command ended; empty where nothing is."""
    if "Traceback (most recent call last)" in said:
        return said
    if code not in (0, 1, 2):
        return f"exit {code}: {said[-500:]}"
    if code == 2 and not said.strip() and not case.out:
        return "exit 2 without a word"
    return ""


def ran(case: Case, folder: Path) -> Ending:
    """Run a case as a command of its own."""
    begin = time.perf_counter()
    arguments = [os.fsencode(word) for word in case.arguments]
    with open(case.out if case.out.startswith("/") else os.devnull, "wb") as out:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "equiscope", *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
                timeout=3 * LIMIT, env=environment(folder), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Ending(case.kind, case.number, case.arguments, -1, 3.0 * LIMIT, 0.0, f"no end within {3 * LIMIT} s")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0
    wrong = judged(done.returncode, done.stderr.decode(errors="replace"), case)
    return Ending(case.kind, case.number, case.arguments, done.returncode, time.perf_counter() - begin, memory, wrong)


def work(kind: str, numbers: list[int], seed: int, begin: Path, place: Path, each: int, pipe: Any) -> None:
    """Some cases of a kind, one after the other; each number is said before it begins, and its ending after it."""
    room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.update(environment(begin))
    for number in numbers:
        pipe.send(number)
        case = case_of(kind, number, seed, begin, place)
        pipe.send((ran if each and number % each == each - 1 else called)(case, place))
        os.chdir(begin)
    pipe.send(None)
    os._exit(0)


def chunk(kind: str, numbers: list[int], seed: int, begin: Path, place: Path, each: int) -> list[Ending]:
    """Some cases in a forked process, and in another one where that dies."""
    found: list[Ending] = []
    while numbers:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=work, args=(kind, numbers, seed, begin, place, each, theirs))
        process.start()
        theirs.close()
        number = numbers[0]
        try:
            while ours.poll(5 * LIMIT) and (told := ours.recv()) is not None:
                if isinstance(told, int):
                    number = told
                else:
                    found.append(told)
                    numbers = [n for n in numbers if n > told.number]
            numbers = [] if not process.is_alive() or told is None else numbers
        except EOFError:
            pass
        process.join(1)
        if numbers:
            process.kill()
            process.join()
            found.append(Ending(kind, number, ["?"], -3, 5.0 * LIMIT, 0.0, f"the process ended with {process.exitcode}"))
            numbers = [n for n in numbers if n > number]
    shutil.rmtree(place, ignore_errors=True)
    return found


@contextlib.contextmanager
def disks(folder: Path) -> Iterator[str]:
    """A disk that is full and one that may only be read, where the system lets us mount them."""
    made = []
    try:
        for name in ("full", "read-only"):
            place = folder / name
            place.mkdir()
            if subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
            ).returncode:
                break
            made.append(place)
            (place / "held").write_text("held")
            if name == "full":
                with contextlib.suppress(OSError), open(place / "rest", "wb") as file:
                    while True:
                        file.write(bytes(4096))
                        file.flush()
            elif subprocess.run(["mount", "-o", "remount,ro", str(place)], capture_output=True, check=False).returncode:
                break
        yield os.pathsep.join(map(str, made))
    except FileNotFoundError:  # no such command
        yield ""
    finally:
        for place in made:
            subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def fuzz(count: int, seed: int, only: list[str], workers: int, each: int) -> tuple[list[Ending], bool, bool]:
    """Endings of all cases, whether disks could be mounted, and whether anything was run that a file brought."""
    from concurrent.futures import ThreadPoolExecutor

    import equiscope.cli.app
    import equiscope.cli.check
    import equiscope.cli.compare
    import equiscope.cli.explore
    import equiscope.cli.generate
    import equiscope.cli.heads
    import equiscope.cli.study
    import equiscope.cli.train  # noqa: F401 loaded once, before the processes are forked

    folder = Path(tempfile.mkdtemp(prefix="equiscope-fuzz-"))
    canary = str(folder / CANARY)
    begin = folder / "good"
    begin.mkdir()
    try:
        with disks(folder) as mounted:
            os.environ["FUZZ_DISKS"] = mounted
            good(begin, canary)
            shares = {name: share for name, (_, share) in KINDS.items() if not only or name in only}
            whole = sum(shares.values())
            jobs = []
            for name, share in shares.items():
                numbers = list(range(max(1, round(count * share / whole))))
                jobs += [(name, numbers[first : first + TOGETHER]) for first in range(0, len(numbers), TOGETHER)]
            with ThreadPoolExecutor(workers) as pool:
                done = [
                    pool.submit(chunk, kind, numbers, seed, begin, folder / f"case-{i}", each)
                    for i, (kind, numbers) in enumerate(jobs)
                ]
                found = [ending for one in done for ending in one.result()]
        return found, bool(mounted), os.path.lexists(canary) or any(folder.rglob(CANARY))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def summary(found: list[Ending]) -> dict[str, dict[str, Any]]:
    by_kind: dict[str, list[Ending]] = defaultdict(list)
    for ending in found:
        by_kind[ending.kind].append(ending)
    return {
        kind: {
            "cases": len(some), "exits": dict(sorted(Counter(e.code for e in some).items())), "wrong": sum(bool(e.wrong) for e in some),
            "slowest": round(max(e.seconds for e in some), 2), "memory": round(max(e.memory for e in some) / 1e9, 2),
        }
        for kind, some in by_kind.items()
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, help="only these")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--each", type=int, default=40, help="one case in so many is a command of its own; 0 for none")
    parser.add_argument("--json", type=Path, help="write the summary here")
    parser.add_argument("--show", action="store_true", help="print whole tracebacks")
    asked = parser.parse_args()
    started = time.perf_counter()
    found, mounted, ran_it = fuzz(asked.count, asked.seed, asked.kind, asked.workers, asked.each)
    made = summary(found)
    print(f"{'kind':10} {'cases':>6} {'exits':32} {'wrong':>6} {'slowest':>8} {'memory':>8}")
    for kind, row in made.items():
        exits = ", ".join(f"{code}: {n}" for code, n in row["exits"].items())
        print(f"{kind:10} {row['cases']:6} {exits:32} {row['wrong']:6} {row['slowest']:6.1f} s {row['memory']:5.1f} GB")
    print(f"{len(found)} cases of seed {asked.seed} in {time.perf_counter() - started:.0f} s."
          + ("" if mounted else " No disk could be mounted here: full and read-only ones are left out.")
          + (" A file had its code run." if ran_it else " Nothing that was planted was run."))  # fmt: skip
    wrong = [ending for ending in found if ending.wrong]
    told = Counter((e.kind, e.wrong.strip().splitlines()[-1][:160]) for e in wrong)
    for (kind, last), many in told.most_common():
        first = next(e for e in wrong if e.kind == kind and e.wrong.strip().splitlines()[-1][:160] == last)
        print(f"\n{many} × {kind} {first.number}: {' '.join(first.arguments)[:200]!r}\n  {last}")
        if asked.show:
            print(first.wrong)
    if asked.json:
        record = {"machine": machine(), "versions": versions(), "seed": asked.seed, "count": len(found), "mounted": mounted, "ran": ran_it,
                  "kinds": made, "wrong": [asdict(e) for e in wrong]}  # fmt: skip
        asked.json.write_text(json.dumps(record, indent=1) + "\n")
    return int(bool(wrong) or ran_it)


if __name__ == "__main__":
    sys.exit(main())
