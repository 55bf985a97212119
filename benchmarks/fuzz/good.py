"""Valid files, from which the bad ones are made, and files that would run code if they were trusted."""

import gzip
import json
import lzma
import os
import pickle
import shutil
import struct
import tarfile
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

import equiscope as eq
from equiscope.tokens.tokenizer import by_bytes

MODEL = """
[model]
width = 8
layers = 1

[model.block.attention]
heads = 2

[budget]
steps = 2
batch = 2

[optimiser]
rate = 1e-3
warmup = 0

[small]
budget = { steps = 1 }
"""
DATA = {
    "language": 'train = "words.txt"\ntokens = "characters"\ncontext = 8',
    "translation": 'train = ["a.en", "a.de"]\nvalidation = ["a.en", "a.de"]\nlanguages = ["en", "de"]\nvocabulary = 300',
    "images": 'train = "pictures"\nsize = [8, 8]\nheld_out = 0.5',
    "sounds": 'train = "sounds"\nrate = 8000\ntokens = "log-mel"\nmels = 8\nheld_out = 0.5',
    "molecules": 'train = "a.xyz"\nunit = "eV"\nheld_out = 1',
}
RECIPES = {task: f'title = "{task}"\n\n[data]\ntask = "{task}"\n{said}\n{MODEL}' for task, said in DATA.items()}
RECIPES["language"] = RECIPES["language"].replace("heads = 2", 'heads = 2\ncausal = true\nposition = "rope"')
RECIPES["translation"] = RECIPES["translation"].replace(
    "heads = 2", "heads = 2\ncausal = true\n\n[model.block.cross]\nheads = 2\n\n[model.encoder]\nwidth = 8\nlayers = 1"
)
RECIPES["images"] = RECIPES["images"].replace("layers = 1", "layers = 1\ninput = { patch = [4, 4] }")
for _before, _after in (("layers = 1\n\n[model.block.attention]\nheads = 2\n", "cutoff = 2.0\n"), ("batch = 2", "batch = 1")):
    RECIPES["molecules"] = RECIPES["molecules"].replace(_before, _after)

XYZ = "".join(
    f'3\nLattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3:forces:R:3 energy={-1.5 - number} pbc="T T T"\n'
    + "".join(f"{s} {x + 0.01 * number} 0.0 0.5 0.1 0.0 -0.1\n" for s, x in (("O", 0.0), ("H", 0.9 + number), ("H", -0.9)))
    for number in range(4)
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
TEI = '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body><p>one two three</p><p>four</p></body></text></TEI>'
LLAMA: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 257, "hidden_size": 8, "intermediate_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
    "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
SHAPES = {
    "embed_tokens": (257, 8), "norm": (8,), "layers.0.input_layernorm": (8,), "layers.0.post_attention_layernorm": (8,),
    "layers.0.self_attn.q_proj": (8, 8), "layers.0.self_attn.k_proj": (4, 8), "layers.0.self_attn.v_proj": (4, 8),
    "layers.0.self_attn.o_proj": (8, 8), "layers.0.mlp.gate_proj": (16, 8), "layers.0.mlp.up_proj": (16, 8),
    "layers.0.mlp.down_proj": (8, 16),
}  # fmt: skip
FAMILIES = [
    "gpt2", "bert", "t5", "bart", "mistral", "qwen2", "gemma", "opt", "bloom", "mamba", "vit", "whisper", "clip", "roberta",
    "marian",
    "xlm-roberta", "gpt_neox", "deepseek_v3", "evil", "LLAMA", "llama4", "",
]  # fmt: skip
FOLDERS = ("model", "model", "gpt2", "bert", "vit", "t5", "neox", "bloom")
BOMBS = ("bomb.xyz.gz", "bomb.xyz.xz")


class Planted:
    """The object that a pickle would run when it is loaded."""

    def __init__(self, canary: str) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return os.mkdir, (self.canary,)


def write(folder: Path, canary: str) -> None:
    """Write all of them; the runs are trained afterwards."""
    torch.manual_seed(0)
    for task, recipe in RECIPES.items():
        (folder / f"{task}.toml").write_text(recipe)
    vary = '[vary]\nposition = ["none", "rope"]\n'
    (folder / "question.toml").write_text(f'question = "Which?"\nrecipe = "language.toml"\nseeds = 1\n{vary}')
    attention = eq.Attention(heads=2, position=eq.positions.Rope(), causal=True)
    gpt = eq.Spec(width=8, vocabulary=257, outputs=257, layers=1, block=eq.Block(attention=attention))
    (folder / "spec.json").write_text(gpt.to_json())
    _checkpoints(folder, canary)
    _texts(folder)
    _seen_and_heard(folder)
    _in_space(folder, canary)
    (folder / BOMBS[0]).write_bytes(gzip.compress(bytes(2**20)) * 320)  # 1 kB that unfolds to 1 MB, again and again
    (folder / BOMBS[1]).write_bytes(lzma.compress(bytes(2**20)) * 512)


def _checkpoints(folder: Path, canary: str) -> None:
    """A Llama, and a folder with code and pickles."""
    model, evil = folder / "model", folder / "evil"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(LLAMA))
    tensors = {f"model.{name}.weight": torch.randn(shape) for name, shape in SHAPES.items()}
    save_file(tensors | {"lm_head.weight": torch.randn(257, 8)}, model / "model.safetensors", {"format": "pt"})
    by_bytes(["<end>"]).save(model)
    for name, kind in _families().items():
        kind.save_pretrained(folder / name)
        shutil.copy(model / "tokenizer.json", folder / name)
    shutil.copytree(model, evil)
    auto = {name: f"code.{name}" for name in ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoTokenizer")}
    (evil / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": auto}))
    code = f"import pathlib\npathlib.Path({canary!r}).touch()\n"
    for name in ("code.py", "modeling_evil.py", "__init__.py", "sitecustomize.py", "conftest.py"):
        (evil / name).write_text(code)
    for name in ("pytorch_model.bin", "training_args.bin", "model.pt"):
        (evil / name).write_bytes(pickle.dumps(Planted(canary)))


def _families() -> dict[str, Any]:
    """The smallest checkpoints of other families, written by transformers."""
    import transformers as hf

    hf.logging.disable_progress_bar()
    sizes: dict[str, Any] = {
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "hidden_size": 8,
        "intermediate_size": 16,
        "vocab_size": 257,
    }
    seen: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_labels": 2}
    t5 = hf.T5Config(vocab_size=257, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    t5.decoder_start_token_id = 0
    return {
        "gpt2": hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=257, n_embd=8, n_layer=1, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=2)
        ),
        "bert": hf.BertForMaskedLM(hf.BertConfig(**sizes, max_position_embeddings=32)),
        "vit": hf.ViTForImageClassification(hf.ViTConfig(**sizes, **seen)),
        "t5": hf.T5ForConditionalGeneration(t5),
        "neox": hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**sizes, max_position_embeddings=32)),
        "bloom": hf.BloomForCausalLM(hf.BloomConfig(vocab_size=257, hidden_size=8, n_layer=1, n_head=2)),
    }


def _texts(folder: Path) -> None:
    (folder / "words.txt").write_text("only who can prevent forest fires. " * 40)
    (folder / "a.en").write_text("one two\nthree four\n" * 10)
    (folder / "a.de").write_text("eins zwei\ndrei vier\n" * 10)
    (folder / "a.csv").write_text('text,label\n"one, two",a\nthree,b\n' * 20)
    (folder / "a.jsonl").write_text('{"text": "one two three"}\n' * 40)
    (folder / "a.xml").write_text(TEI)
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(folder / "words.txt", "texts/words.txt")
        archive.add(folder / "a.jsonl", "../../outside.jsonl")


def _seen_and_heard(folder: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(8):
        label = "cat" if number % 2 else "dog"
        for place in (folder / "pictures" / label, folder / "sounds" / label):
            place.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype="uint8"))
        picture.save(folder / "pictures" / label / f"{number}.png")
        with wave.open(str(folder / "sounds" / label / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((np.sin(np.arange(2000) * (number + 1)) * 2**13).astype("<i2").tobytes())
    large = picture.resize((32, 32))
    for name in ("a.png", "a.gif", "a.bmp", "a.tiff", "a.webp", "a.jpg", "a.ppm"):
        large.save(folder / name)
    shutil.copy(folder / "sounds" / "cat" / "1.wav", folder / "a.wav")
    rows = [f"pictures/{label}/{n}.png,{label}" for n, label in enumerate(("dog", "cat") * 4)]
    (folder / "pictures.csv").write_text("\n".join(["path,label", *rows]))
    (folder / "images.gz").write_bytes(gzip.compress(struct.pack(">IIII", 0x803, 8, 8, 8) + bytes(512)))
    (folder / "labels.gz").write_bytes(gzip.compress(struct.pack(">II", 0x801, 8) + bytes([0, 1] * 4)))


def _in_space(folder: Path, canary: str) -> None:
    (folder / "a.xyz").write_text(XYZ)
    (folder / "a.sdf").write_text(SDF)
    (folder / "a.cjson").write_text(json.dumps(CJSON))
    (folder / "a.obj").write_text(OBJ)
    (folder / "a.ply").write_text(PLY)
    for name, packer in (("a.xyz.gz", gzip), ("a.xyz.xz", lzma)):
        (folder / name).write_bytes(packer.compress((folder / "a.xyz").read_bytes()))
    at = np.random.default_rng(0).normal(size=(4, 3, 3))
    np.savez(folder / "a.npz", coords=at, energy=at.sum((1, 2)), forces=-at, nuclear_charges=np.array([8, 1, 1]))
    planted = np.array([Planted(canary)], dtype=object)
    np.savez(folder / "pickled.npz", coords=planted, energy=planted)
