"""Weights and configs that somebody else wrote: through `load`, and through transformers' class as check and explore take it."""

import io
import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.cli.test_cli import equi  # noqa: F401
from tests.judges import transformers

import equiscope as eq
from equiscope.audit.inputs.targets import target
from equiscope.checkpoints import WeightsError
from equiscope.errors import InputError

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
MADE = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)),
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SIZES)),
    "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SIZES, max_position_embeddings=18)),
    "gpt_neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SIZES)),
    "vit": lambda: transformers.ViTForImageClassification(
        transformers.ViTConfig(**{n: v for n, v in SIZES.items() if n != "vocab_size"}, image_size=8, patch_size=4)
    ),
    "gemma": lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(**SIZES, head_dim=8, num_key_value_heads=1)),
}
WAYS = {"load": eq.load, "class": lambda folder: target(str(folder))}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Folders as transformers writes them, made once; a test copies one."""
    place = tmp_path_factory.mktemp("foreign")
    torch.manual_seed(0)
    for name, make in MADE.items():
        make().save_pretrained(place / name)
    return place


@pytest.fixture
def folder(kept, tmp_path):
    """Writes a folder with other tensors, or other fields of the config."""

    def write(kind, tensors=None, **fields):
        path = tmp_path / "folder"
        path.mkdir()
        found, config = load_file(kept / kind / "model.safetensors"), json.loads((kept / kind / "config.json").read_text())
        made = found if tensors is None else tensors(found)
        save_file({name: t.contiguous() for name, t in made.items()}, path / "model.safetensors", {"format": "pt"})
        (path / "config.json").write_text(json.dumps({n: v for n, v in (config | fields).items() if v != "gone"}))
        return path

    return write


def notes(way, path):
    return eq.load(path).origin if way == "load" else list(target(str(path)).notes)


def renamed(old, new):
    return lambda tensors: {name.replace(old, new): t for name, t in tensors.items()}


def without(part):
    return lambda tensors: {name: t for name, t in tensors.items() if part not in name}


def beside(name, *shape):
    return lambda tensors: tensors | {name: torch.zeros(shape)}


def set_to(part, number, at=3):
    def change(tensors):
        tensors[next(name for name in tensors if part in name)].view(-1)[at] = number
        return tensors

    return change


UNFIT = {
    "feed-forwards by another name": ("llama", renamed("layers.1.mlp", "layers.1.ffn"), "missing"),
    "queries by another name": ("bert", renamed("attention.self.query", "attention.self.q"), "missing"),
    "a norm is gone": ("gpt_neox", without("layers.1.post_attention_layernorm.bias"), "missing"),
    "a layer is gone": ("llama", without("layers.0."), "missing"),
    "the classes are gone": ("vit", without("classifier"), "missing"),
    "all is gone": ("roberta", lambda tensors: {}, "missing"),
    "an adapter": ("bert", beside("encoder.layer.0.adapter.down.weight", 2, 16), "extra"),
    "a difference of low rank": ("llama", beside("model.layers.0.self_attn.v_proj.lora_B.weight", 16, 2), "extra"),
    "a norm of queries": ("llama", beside("model.layers.1.self_attn.q_norm.weight", 8), "extra"),
    "a gate": ("gpt_neox", beside("gpt_neox.layers.0.mlp.gate.weight", 24, 16), "extra"),
    "registers": ("vit", beside("vit.embeddings.register_tokens", 1, 2, 16), "extra"),
    "a row too many": ("llama", lambda tensors: tensors | {"model.embed_tokens.weight": torch.zeros(33, 16)}, "shapes"),
    "a column too few": ("bert", lambda tensors: {n: t[..., :-1] if "pooler" not in n and "intermediate.dense.weight" in n else t
                                                   for n, t in tensors.items()}, "shapes"),
    "a norm too wide": ("gpt_neox", lambda tensors: tensors | {"gpt_neox.final_layer_norm.weight": torch.ones(17)}, "shapes"),
    "places for less": ("roberta", lambda tensors: tensors
                        | {"roberta.embeddings.position_embeddings.weight": torch.zeros(10, 16)}, "shapes"),
    "patches of another size": ("vit", lambda tensors: tensors
                                | {"vit.embeddings.patch_embeddings.projection.weight": torch.zeros(16, 3, 2, 2)}, "shapes"),
    "NaN in a table": ("roberta", set_to("word_embeddings", float("nan")), "nonfinite"),
    "NaN in a bias": ("vit", set_to("query.bias", float("nan")), "nonfinite"),
    "NaN in the last number": ("llama", set_to("lm_head", float("nan"), at=-1), "nonfinite"),
    "infinity in a norm": ("bert", set_to("LayerNorm.weight", float("inf")), "nonfinite"),
    "minus infinity in a map": ("gpt_neox", set_to("dense_h_to_4h.weight", -float("inf")), "nonfinite"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", UNFIT)
def test_weights_that_do_not_fit_are_refused_by_name(folder, name, way):
    kind, change, field = UNFIT[name]
    with pytest.raises(WeightsError, match=r"The weights do not fit config\.json") as caught:
        WAYS[way](folder(kind, change))
    assert getattr(caught.value, field)


HARMLESS = {
    "a head of another task": ("bert", beside("cls.predictions.bias", 32), "cls.predictions.bias"),
    "frequencies": ("llama", beside("model.layers.0.self_attn.rotary_emb.inv_freq", 4), "inv_freq"),
    "ids of places": ("bert", lambda tensors: tensors | {"embeddings.position_ids": torch.arange(512)[None]}, "position_ids"),
    "a value head": ("llama", beside("v_head.summary.weight", 1, 16), "v_head"),
    "questions": ("roberta", beside("qa_outputs.weight", 2, 16), "qa_outputs"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", HARMLESS)
def test_extra_tensors_that_change_nothing_are_let_by_and_named(folder, name, way):
    kind, change, named = HARMLESS[name]
    said = notes(way, folder(kind, change))[0]
    assert "extra ignored: " in said
    assert named in said


PREFIXES = {
    "compiled": ("llama", lambda name: f"_orig_mod.{name}", "_orig_mod."),
    "parallel": ("bert", lambda name: f"module.{name}", "module."),
    "both": ("gpt_neox", lambda name: f"module._orig_mod.{name}", "module._orig_mod."),
    "a compiled layer": ("llama", lambda name: name.replace("layers.1.", "layers.1._orig_mod."), "_orig_mod."),
    "sharded": ("vit", lambda name: f"_fsdp_wrapped_module.{name}", "_fsdp_wrapped_module."),
    "of a trainer": ("roberta", lambda name: f"student.{name}", "student."),
    "recomputed": ("llama", lambda name: name.replace("layers.0.", "layers.0._checkpoint_wrapped_module."), "_checkpoint_wrapped"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PREFIXES)
def test_what_wrappers_put_before_names_is_taken_off_and_said(folder, name, way):
    kind, change, taken = PREFIXES[name]
    path = folder(kind, lambda tensors: {change(name): t for name, t in tensors.items()})
    assert f"prefix {taken}" in notes(way, path)[0]
    assert all(parameter.isfinite().all() for parameter in eq.load(path).parameters())


def test_two_tensors_of_one_name_are_refused(folder):
    path = folder("llama", lambda tensors: {f"module.{n}": t for n, t in tensors.items()} | {"model.norm.weight": torch.ones(16)})
    with pytest.raises(InputError, match=r"are both model\.norm\.weight without what wrappers put before it"):
        eq.load(path)


SPARE = [
    {"my_note": "v2"}, {"unsloth_fixed": True}, {"_attn_implementation_autoset": True}, {"wandb_run_name": "a"}, {"license": "mit"},
    {"train_batch_size": 8}, {"use_flash_attn": True}, {"embd_pdrop": 0.1}, {"model_max_length": 4096},
]  # fmt: skip


@pytest.mark.parametrize("fields", SPARE, ids=lambda fields: next(iter(fields)))
def test_fields_that_change_no_number_are_listed(folder, fields):
    path = folder("llama", **fields)
    for way in WAYS:
        assert any("were not read" in note and next(iter(fields)) in note for note in notes(way, path)), way


@pytest.mark.parametrize(
    "fields",
    [{"logit_scale": 0.5}, {"use_qk_norm": True}, {"attn_logit_softcapping": 30.0}, {"residual_multiplier": 0.2}, {"n_experts": 4}],
    ids=lambda fields: next(iter(fields)),
)
def test_fields_that_could_change_a_number_are_refused(folder, fields):
    with pytest.raises(InputError, match=f"has the field {next(iter(fields))!r}"):
        eq.load(folder("llama", **fields))


CODE = """open({planted!r}, "w")
from transformers import PretrainedConfig, PreTrainedModel
class C(PretrainedConfig): model_type = "theirs"
class M(PreTrainedModel): config_class = C
"""
MAP = {"AutoConfig": "code.C", "AutoModel": "code.M", "AutoModelForCausalLM": "code.M"}
RUNS = {
    "a kind of its own": {"model_type": "theirs", "architectures": "gone", "auto_map": MAP},
    "no kind": {"model_type": "gone", "architectures": "gone", "auto_map": MAP},
    "a class of its own": {"model_type": "theirs", "architectures": ["M"], "auto_map": MAP},
    "a known kind without a class": {"architectures": [], "auto_map": MAP},
    "code of another place": {"model_type": "theirs", "architectures": None, "auto_map": {"AutoModel": "some/where--code.M"}},
    "trust asked for": {"model_type": "theirs", "architectures": None, "trust_remote_code": True, "auto_map": MAP},
    "a word": {"model_type": "theirs", "architectures": None, "auto_map": "code.M"},
    "a list": {"model_type": "theirs", "architectures": None, "auto_map": ["code.C", None]},
}


def with_code(path, planted):
    (path / "code.py").write_text(CODE.format(planted=str(planted)))
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RUNS)
def test_code_of_a_folder_never_runs(folder, tmp_path, monkeypatch, name, way):
    path = with_code(folder("llama", **RUNS[name]), tmp_path / "ran")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 99))
    with pytest.raises(InputError, match=r"never run here|is not run|no family that load reads"):
        WAYS[way](path)
    assert not (tmp_path / "ran").exists()


def test_a_class_of_the_library_is_taken_and_the_code_left(folder, tmp_path):
    path = with_code(folder("llama", auto_map=MAP), tmp_path / "ran")
    for way in WAYS:
        assert any("was not run" in note for note in notes(way, path))
    assert not (tmp_path / "ran").exists()


def test_who_says_yes_to_everything_runs_nothing(folder, tmp_path, monkeypatch, equi):  # noqa: F811
    path = with_code(folder("llama", **RUNS["a kind of its own"]), tmp_path / "ran")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 99))
    code, out, err = equi("check", path)
    assert (code, out, (tmp_path / "ran").exists()) == (2, "", False)
    assert "needs code of its own" in err


@pytest.mark.parametrize("kind", ["gemma", "mamba", "opt", "falcon", "electra", "whisper"])
def test_a_family_that_load_does_not_have_names_what_takes_it(folder, kind):
    with pytest.raises(InputError, match=rf"holds a {kind}, which is no family that load reads; it reads gpt2, .*equiscope check"):
        eq.load(folder("gemma", model_type=kind))


def test_what_load_does_not_have_is_taken_by_its_class(folder):
    found = target(str(folder("gemma")))
    assert (type(found.model).__name__, found.notes) == (
        "GemmaForCausalLM",
        ("Weights: 20 of 20 tensors from model.safetensors; none missing.",),
    )


@pytest.mark.parametrize("name", ["lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"])
def test_a_tied_table_may_be_kept_under_the_name_of_any_of_its_copies(name, tmp_path):
    sizes = {"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    usual = eq.load(tmp_path)
    save_file(renamed("shared.weight", name)(tensors), tmp_path / "model.safetensors", {"format": "pt"})
    other = eq.load(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(usual.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("bert", "num_hidden_layers"),
        ("gemma", "num_hidden_layers"),
        ("vit", "num_hidden_layers"),
        ("bert", "num_labels"),
        ("gemma", "n_layer"),
    ],
)
@pytest.mark.parametrize("number", [2**31, 10**30, float("inf")])
def test_counts_that_no_weights_can_have_are_refused_at_once(folder, kind, field, number):
    with pytest.raises(InputError, match=field):
        target(str(folder(kind, **{field: number})))
