"""`equiscope explore --model MODEL INPUT`: any model on a text, a picture or a sound; mistakes are one sentence."""

import json
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from tests.cli.test_cli import equi, refused
from tests.judges import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import equiscope as eq
from equiscope.cli.heads import _offer_compact
from equiscope.explore.heads.model_inputs import encoded

pytestmark = pytest.mark.xdist_group("heads-command")

__all__ = ["equi"]  # the fixture
RECIPES = Path(__file__).parents[2] / "recipes"
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
FEW = ["budget.steps=1", "optimiser.warmup=0", "engine.precision=float32"]
TEXTS = [
    "the dog is on the lawn",
    "שלום world",
    "e\u0301te\u0301",
    "👩\u200d👩\u200d👧 a",
    "日本語",
    "\u0301",
    "</script>",
    "a\tb\nc",
]


def letters(folder, special=False):
    """A tokenizer of bytes, every text has a token for each."""
    signs = ["<s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE({sign: i for i, sign in enumerate(signs)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if special:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Checkpoints as transformers saves them."""
    place = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    made = {
        "gpt2": transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=257, n_embd=32, n_layer=2, n_head=4, n_positions=64)
        ),
        "t5": transformers.T5ForConditionalGeneration(
            transformers.T5Config(vocab_size=257, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, decoder_start_token_id=0)
        ),
        "vit": transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **TINY)),
        "wav2vec2": transformers.Wav2Vec2Model(
            transformers.Wav2Vec2Config(
                **TINY, vocab_size=32, conv_dim=(8, 8), conv_stride=(40, 8), conv_kernel=(40, 8), num_conv_pos_embeddings=4,
                num_conv_pos_embedding_groups=2, num_feat_extract_layers=2,
            )
        ),
    }  # fmt: skip
    for name, model in made.items():
        model.save_pretrained(place / name)
        letters(place / name, special=name == "t5")
    return place


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """trained(recipe) -> a run of one step of its small form, made once. It is measured on a few examples."""
    place = tmp_path_factory.mktemp("runs")
    for language, text in (("en", "A day.\n"), ("de", "Ein Tag.\n")):
        (place / f"one.{language}").write_text(text)
    one = json.dumps([str(place / "one.en"), str(place / "one.de")])

    def train(name):
        if not (place / name).exists():
            fewer = {
                "multi30k": [f"data.validation={one}", "data.test=none", "model.width=32", "model.encoder.width=32"],
                "fashion-mnist": ["data.held_out=10", "data.test_held_out=10"],
            }
            eq.train(RECIPES / f"{name}.toml", place / name, changes=[*FEW, *fewer.get(name, [])], small=True)
        return place / name

    return train


@pytest.fixture
def photo(tmp_path):
    from PIL import Image

    path = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(path)
    return path


def page(equi, *words):
    code, out, err = equi("explore", *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_in_any_script_has_a_label_for_each_token(equi, folders, text):
    found = page(equi, text, "--model", folders / "gpt2")
    (line,) = found["sequences"]
    assert len(line["labels"]) == len(text.encode())
    seen = {"\u0301": "◌\u0301", "\u200d": "U+200D"}
    cut = [(letter, byte) for letter in text for byte in letter.encode()]
    whole = [x if len(x.encode()) == 1 else f"⟨{byte:02X} of {seen.get(x, x)}⟩" for x, byte in cut]
    assert line["labels"] == whole
    *cut_up, origin = found["notes"]
    assert bool(cut_up) == any("⟨" in label for label in whole)
    assert origin == "Weights: 28 of 28 tensors from model.safetensors; none missing."
    assert [(layer["where"], len(layer["heads"])) for layer in found["layers"]] == [
        ("transformer.h.0.attn", 4), ("transformer.h.1.attn", 4),
    ]  # fmt: skip


def test_a_model_with_a_decoder_reads_its_own_answer(equi, folders):
    found = page(equi, "love conquers all", "--model", folders / "t5")
    named = [
        (found["sequences"][a["query_sequence"]]["name"], found["sequences"][a["key_sequence"]]["name"]) for a in found["layers"]
    ]
    assert named == [("text", "text"), ("answer", "answer"), ("answer", "text")]
    assert found["sequences"][0]["labels"][:3] == ["<s>", "l", "o"]


def test_a_picture_is_cut_into_its_patches(equi, folders, photo):
    found = page(equi, "--image", photo, "--model", folders / "vit")
    (line,) = found["sequences"]
    assert (line["kind"], line["grid"], line["prefix_tokens"], len(line["labels"])) == ("patches", [4, 4], 1, 17)
    assert line["picture"].startswith("data:image/png;base64,")
    assert found["position_tables"][0]["grid"] == [4, 4]
    assert found["notes"][0] == "The picture was cut to its middle and brought to 32×32 pixels."


def test_a_picture_before_timm_has_its_registers_in_front(equi, photo):
    found = page(equi, "--image", photo, "--model", Path(__file__).parents[1] / "pictures_of_timm.py:vit")
    (line,) = found["sequences"]
    assert (line["grid"], line["prefix_tokens"], line["labels"][:3]) == ([4, 4], 3, ["class", "register 1", "register 2"])


OWN = """import torch, equiscope as eq
from dataclasses import replace
from torch import nn
from equiscope.models.presets import vit
def spec(): return vit(width=24, layers=1, heads=2, patch=8, image=32, classes=5)
def ours(): return eq.build(spec())
def brought(): return ours(), torch.rand(1, 3, 32, 32)
def registers(): return eq.build(replace(spec(), input=replace(spec().input, registers=3)))
def turned():
    block = replace(spec().block, attention=replace(spec().block.attention, position=eq.positions.AxialRope(axes=2)))
    return eq.build(replace(spec(), block=block))
class Own(nn.Module):
    def __init__(self, front):
        super().__init__()
        self.front, self.map = front, nn.Linear(3 * 8 * 8, 32)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1)
    def forward(self, picture):
        x = self.map(nn.functional.unfold(picture, 8, stride=8).mT)
        return self.body(torch.cat([x[:, : self.front], x], 1))
def unfolded(): return Own(1), torch.rand(1, 3, 32, 48)
def named(): return Own(0), (), {"picture": torch.rand(1, 3, 32, 32)}
"""


@pytest.mark.parametrize(
    ("name", "grid", "before"),
    [("vit-ti", [4, 4], 1), ("ours", [4, 4], 1), ("brought", [4, 4], 1), ("registers", [4, 4], 4), ("turned", [14, 14], 1),
     ("unfolded", [4, 6], 1), ("named", [4, 4], 0)],
)  # fmt: skip
def test_a_picture_before_a_model_of_ones_own(equi, tmp_path, photo, name, grid, before):
    (tmp_path / "own.py").write_text(OWN)
    found = page(equi, "--image", photo, "--model", name if name == "vit-ti" else f"{tmp_path / 'own.py'}:{name}")
    (line,) = found["sequences"]
    assert (line["kind"], line["grid"], line["prefix_tokens"]) == ("patches", grid, before)
    assert line["picture"].startswith("data:image/png;base64,")
    assert any("black is -1" in note for note in found["notes"])


@pytest.mark.parametrize(
    "fields",
    [{"image_mean": "grey"}, {"image_std": 0}, {"image_std": [0.5, -1, 0.5]}, {"image_mean": []}, {"image_mean": [None]},
     {"image_std": {"r": 1}}, {"image_mean": True}],
    ids=str,
)  # fmt: skip
def test_colours_that_are_no_numbers_are_refused(equi, folders, tmp_path, photo, fields):
    shutil.copytree(folders / "vit", tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(fields))
    refused(equi("explore", "--image", photo, "--model", tmp_path / "vit"), f"{next(iter(fields))} is ", "should be a number")


@pytest.mark.parametrize(
    "stored",
    [{"padding": {"length": 32}}, {"padding": {"pad_to_multiple_of": 8, "direction": "left"}}, {"truncation": {"max_length": 4}},
     {"truncation": {"max_length": 6, "stride": 2, "direction": "left"}},
     {"padding": {"length": 16}, "truncation": {"max_length": 3}}],
    ids=str,
)  # fmt: skip
def test_padding_and_ends_that_a_tokenizer_stores_are_switched_off(equi, folders, tmp_path, stored):
    shutil.copytree(folders / "gpt2", tmp_path / "gpt2")
    made = Tokenizer.from_file(str(tmp_path / "gpt2" / "tokenizer.json"))
    for kind, said in stored.items():
        getattr(made, f"enable_{kind}")(**said)
    made.save(str(tmp_path / "gpt2" / "tokenizer.json"))
    assert len(page(equi, "the dog", "--model", tmp_path / "gpt2")["sequences"][0]["labels"]) == 7
    assert len(encoded(made, "the dog")[0]) == 7
    assert [kind for kind in ("padding", "truncation") if getattr(made, kind)] == list(stored)
    code, out, err = equi("generate", tmp_path / "gpt2", "the dog", "--steps", "1", "--json")
    assert (code, len(json.loads(out)["ids"])) == (0, 7), err


def test_a_sound_has_its_times(equi, folders, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.sin(np.arange(16000) / 9).astype(np.float32), 16000)
    found = page(equi, "--audio", tmp_path / "a.wav", "--model", folders / "wav2vec2")
    (line,) = found["sequences"]
    assert (line["kind"], len(line["labels"])) == ("slices", 50)
    assert line["seconds"][1] == pytest.approx(0.02)


def test_silence_is_a_sound_and_is_said(equi, folders, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(16000, dtype=np.float32), 16000)
    found = page(equi, "--audio", tmp_path / "a.wav", "--model", folders / "wav2vec2")
    assert found["notes"][0] == "The sound is silent: all its samples are alike."


def test_a_factory_brings_its_own_inputs(equi, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\ndef make():\n"
        "    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)\n"
        "    return torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(1, 7, 32)\n"
        "def bare():\n    return make()[0]\n"
    )
    target = f"{tmp_path / 'mine.py'}:make"
    found = page(equi, "--model", target)
    assert (found["sequences"][0]["name"], len(found["layers"])) == ("7 tokens", 2)
    assert f"No input was given, so these are those that {target} returns." in found["notes"]
    found = page(equi, "--model", f"{tmp_path / 'mine.py'}:bare")
    assert "No input was given, so these are made-up ones of the right shapes." in found["notes"]


def test_the_same_command_gives_the_same_page(equi, folders):
    words = ("a b", "--model", folders / "gpt2")
    assert page(equi, *words) == page(equi, *words)


@pytest.mark.parametrize(
    ("recipe", "given", "kind"),
    [
        ("multi30k", ["Liebe"], "words"),
        ("fashion-mnist", ["--image", "PHOTO"], "patches"),
        pytest.param("shakespeare-char-cpu", ["To be"], "words", marks=pytest.mark.thorough),
        pytest.param("fsdd-mel", ["--audio", "SOUND"], "slices", marks=pytest.mark.thorough),
    ],
)
def test_a_run_of_each_task_is_looked_into(equi, trained, photo, recipe, given, kind):
    run = trained(recipe)
    sound = next((RECIPES / "samples" / "fsdd").glob("*.wav"))
    found = page(equi, *({"PHOTO": photo, "SOUND": sound}.get(word, word) for word in given), "--model", run)
    assert {line["kind"] for line in found["sequences"]} == {kind}
    assert found["predictions"]["kind"] == ("next" if kind == "words" else "class")
    assert bool(found["cross_alignments"]) == (recipe == "multi30k")
    assert found["layers"]
    assert all(
        layer["reconstruction_error"] is not None and layer["reconstruction_error"] < 1e-5 and not layer["reason"]
        for layer in found["layers"]
    )


# --- mistakes ---------------------------------------------------------------------------------------------------------
def huge(path):
    """A PNG that says it has 100 megapixels and more."""
    head = struct.pack(">IIBBBBB", 20_000, 6_000, 8, 2, 0, 0, 0)
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", head), (b"IDAT", b"x"))
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def test_a_picture_that_is_none_is_refused(equi, folders, tmp_path):
    vit = folders / "vit"
    (tmp_path / "no.png").write_text("I am no picture")
    refused(equi("explore", "--image", tmp_path / "no.png", "--model", vit), "no.png")
    refused(equi("explore", "--image", tmp_path / "missing.png", "--model", vit), "There is no picture")
    huge(tmp_path / "huge.png")
    refused(equi("explore", "--image", tmp_path / "huge.png", "--model", vit), "120 megapixels", "at most 100")


def test_a_second_image_needs_a_first_one_and_a_served_page(equi, folders, tmp_path, photo):
    words = "--second-image is for the served page of a model's heads on an image."
    refused(equi("explore", "the dog", "--second-image", photo), words)
    refused(equi("explore", "--image", photo, "--second-image", photo, "--export", tmp_path / "page.html"), words)
    refused(equi("explore", "--image", photo, "--second-image", tmp_path / "no.png"), "There is no picture", "no.png")


def test_a_long_sound_is_refused(equi, folders, tmp_path):
    soundfile.write(tmp_path / "long.wav", np.zeros(61 * 8000, dtype=np.float32), 8000)
    refused(
        equi("explore", "--audio", tmp_path / "long.wav", "--model", folders / "wav2vec2"),
        "lasts 61 s",
        "at most 60 s are read here",
    )


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["", "--model", "gpt2"], ["The text is empty"]),
        (["a", "--image", "x.png", "--model", "gpt2"], ["Give one of them"]),
        (["--image", "x.png"], ["There is no picture x.png"]),
        (["--audio", "x.wav"], ["--audio needs a model that takes it"]),
        (["--image", "x.png", "--model", "gpt2"], ["There is no picture x.png"]),
        (["a", "--model", "vit"], ["ViTModel takes no text, but pixel_values [1, 3, 32, 32]"]),
        (["a", "--model", "gpt2", "--causal"], ["Only a sentence alone takes --causal"]),
        (["a" * 65, "--model", "gpt2"], ["The text has 65 tokens, but the model has 64 positions"]),
        (["a", "--model", "nowhere"], ["There is no model", "nowhere"]),
        (["--model", "transformers:ResNetModel"], ["No attention was found in ResNetModel"]),
        (["a", "--model", "gpt2", "--compact"], ["a page that is served has every number", "Add --export FILE, or --json"]),
        (["a", "--compact"], ["--compact is for the heads of a model", "Add --model and an input"]),
        (["a", "--model", "transformers:GPT2LMHeadModel"], ["has no tokenizer.json", "give the ids instead"]),
    ],
)
def test_a_mistake_is_refused_with_the_next_step(equi, folders, words, wanted):
    known = {name: folders / name for name in ("gpt2", "vit")}
    placed = [known.get(word, word) if i and words[i - 1] == "--model" else word for i, word in enumerate(words)]
    refused(equi("explore", *placed), *wanted)


def test_a_folder_without_weights_is_refused(equi, folders, tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((folders / "gpt2" / "config.json").read_bytes())
    refused(equi("explore", "a", "--model", tmp_path / "bare"), "bare")


def test_a_tokenizer_of_another_model_is_refused(equi, folders, tmp_path):
    transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=40, n_embd=32, n_layer=1, n_head=4)).save_pretrained(tmp_path)
    letters(tmp_path)
    refused(equi("explore", "zzz", "--model", tmp_path), "vocabulary has 40 ids", "do not fit")


def test_a_run_on_sounds_refuses_hours(equi, trained, tmp_path):
    run = trained("fsdd-mel")
    soundfile.write(tmp_path / "long.flac", np.zeros(3 * 3600 * 8000, dtype=np.float32), 8000)
    refused(equi("explore", "--model", run, "--audio", tmp_path / "long.flac"), "lasts 10800 s", "at most 60 s are read here")


def test_a_run_asks_for_what_its_task_takes(equi, trained):
    run = trained("multi30k")
    refused(equi("explore", "--model", run, "--image", "x.png"), "a run of the task translation, which takes a text")
    refused(equi("explore", "--model", run), "give it something to look at")


def test_a_small_file_is_smaller_and_says_what_it_rounds(equi, folders, tmp_path):
    made = [tmp_path / "whole.html", tmp_path / "small.html"]
    for path, options in zip(made, ([], ["--compact"]), strict=True):
        code, out, err = equi("explore", "the dog is on the lawn", "--model", folders / "gpt2", "--export", path, *options)
        assert (code, "works offline" in out) == (0, True), err
    whole, small = (path.stat().st_size for path in made)
    assert small < whole / 2
    layers = page(equi, "the dog is on the lawn", "--model", folders / "gpt2", "--compact")["layers"]
    assert all(len(layer["tensors"]["encoded_weights"]) == 4 and layer["tensors"]["q"] is None for layer in layers)


def test_a_large_file_names_the_way_to_a_small_one(tmp_path, capsys):
    (tmp_path / "page.html").write_bytes(bytes(1000))
    _offer_compact(tmp_path / "page.html", large=1000)
    assert capsys.readouterr().out == ""
    _offer_compact(tmp_path / "page.html", large=999)
    assert "--compact makes a smaller one" in capsys.readouterr().out


def test_a_run_on_sounds_brings_the_sound_and_says_where_it_is_silent(equi, trained, tmp_path):
    run = trained("fsdd-mel")
    sounds = {"noise": np.random.default_rng(0).normal(size=6000) / 9, "silence": np.zeros(6000)}
    for name, wave in sounds.items():
        soundfile.write(tmp_path / f"{name}.wav", wave.astype(np.float32), 8000)
        found = page(equi, "--audio", tmp_path / f"{name}.wav", "--model", run)
        (line,) = found["sequences"]
        assert line["sound"]["rate"] == 8000
        samples = len(line["sound"]["samples"]) * 3 // 4 // 2 / 8000
        assert samples == pytest.approx(line["seconds"][-1] + line["duration"], abs=0.01)
        assert line["seconds"][0] == pytest.approx(0, abs=1e-6)
        assert (found["notes"] == ["The sound is silent: all its samples are alike."]) == (name == "silence")
        assert (found["predictions"]["kind"], found["predictions"]["probabilities"]["shape"]) == ("class", [1, 5])


def test_what_a_model_says_is_named(equi, folders, photo, tmp_path):
    said = page(equi, "a b", "--model", folders / "gpt2")["predictions"]
    assert (said["kind"], said["probabilities"]["shape"]) == ("next", [3, 5])
    assert all(name == "<s>" or len(name) == 1 or name.startswith("⟨") for name in said["names"])
    answer = page(equi, "love conquers all", "--model", folders / "t5")
    assert answer["sequences"][answer["predictions"]["sequence"]]["name"] == "answer"
    assert [answer["sequences"][answer["cross_alignments"][0][name]]["name"] for name in ("query_sequence", "key_sequence")] == [
        "answer",
        "text",
    ]
    assert page(equi, "--image", photo, "--model", folders / "vit")["predictions"] is None
    names = {i: f"thing {i}" for i in range(3)}
    config = transformers.ViTConfig(image_size=32, patch_size=8, **TINY, id2label=names)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "named")
    assert set(page(equi, "--image", photo, "--model", tmp_path / "named")["predictions"]["names"]) == set(names.values())
    timms = page(equi, "--image", photo, "--model", Path(__file__).parents[1] / "pictures_of_timm.py:vit")["predictions"]
    assert set(timms["names"]) == {f"class {i}" for i in range(5)}
