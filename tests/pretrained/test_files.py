"""What a folder may hold that is no checkpoint: each is said in a sentence, and no code of it runs."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

import equiscope as eq
from equiscope.errors import InputError, UnknownName
from equiscope.position import Alibi


@pytest.fixture
def folder(tmp_path):
    spec = eq.Spec(
        8, vocabulary=10, outputs=10, tied=True,
        block=eq.Block(
            eq.Attention(heads=2, position=eq.position.Learned(16), causal=True, bias=True), eq.Norm(),
            eq.FeedForward(activation="gelu-tanh"),
        ),
    )  # fmt: skip
    return eq.save(eq.build(spec), tmp_path / "model")


def config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class Trap:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return open, ("trapped", "w")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_a_pickle_is_not_opened(folder, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match=rf"{name}, a pickle.*was not opened.*safe_serialization"):
        eq.load(folder)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_a_file_that_was_cut_off_is_refused(folder, cut):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match="is damaged or incomplete"):
        eq.load(folder)


def test_a_header_that_lies_about_its_size_is_refused(folder):
    path = folder / "model.safetensors"
    path.write_bytes((2**60).to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(InputError, match="is damaged or incomplete"):
        eq.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, r"mamba.*gpt2"),
        ({"activation_function": "swish2"}, r"activation_function is 'swish2'"),
        ({"scale_attn_by_inverse_layer_idx": True}, r"scale_attn_by_inverse_layer_idx is True"),
        ({"n_layer": "two"}, r"n_layer is 'two', but should be int"),
        ({"n_layer": True}, r"n_layer is True, but should be int"),
        ({"rotary_dim": 4}, r"field 'rotary_dim' = 4, which is not known"),
        ({"n_layer": 2}, r"h\.1\.ln_1\.weight is missing"),
        ({"vocab_size": 11}, r"wte\.weight is \(10, 8\), but the config makes it \(11, 8\)"),
    ],
    ids=str,
)
def test_a_config_that_does_not_fit_names_its_field(folder, changes, message):
    config(folder, **changes)
    with pytest.raises((InputError, UnknownName), match=message):
        eq.load(folder)


def test_a_weight_that_belongs_nowhere_is_named(folder):
    path = folder / "model.safetensors"
    save_file({**load_file(path), "transformer.h.0.crossattention.weight": torch.zeros(2)}, path)
    with pytest.raises(InputError, match=r"crossattention\.weight belongs to no part"):
        eq.load(folder)


def test_a_head_that_is_said_to_be_the_embedding_and_is_not_is_refused(folder):
    path = folder / "model.safetensors"
    save_file({**load_file(path), "lm_head.weight": torch.zeros(10, 8)}, path)
    with pytest.raises(InputError, match=r"says tie_word_embeddings, but lm_head\.weight is not the embedding"):
        eq.load(folder)


def test_files_that_are_not_there_are_named(folder, tmp_path):
    with pytest.raises(InputError, match="There is no folder"):
        eq.load(tmp_path / "nothing")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"no model\.safetensors and no model\.safetensors\.index\.json"):
        eq.load(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "one.safetensors"}}))
    with pytest.raises(InputError, match=r"names the shard one\.safetensors, which is not in"):
        eq.load(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../one.safetensors"}}))
    with pytest.raises(InputError, match="which file of the folder holds each tensor"):
        eq.load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        eq.load(folder)


def test_a_model_that_no_family_holds_says_why(tmp_path):
    model = eq.build(eq.Spec(8, vocabulary=10, outputs=10, block=eq.Block(eq.Attention(heads=2, position=Alibi(), causal=True))))
    with pytest.raises(InputError, match=r"No family.*gpt2: places are a learned table there\. llama: places are RoPE"):
        eq.save(model, tmp_path)
    with pytest.raises(UnknownName, match="t6"):
        eq.save(model, tmp_path, family="t6")
    with pytest.raises(InputError, match=r"bloom: its models have another entry\.norm: True, not False"):
        eq.save(model, tmp_path, family="bloom")
