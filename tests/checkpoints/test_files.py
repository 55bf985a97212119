"""What a folder may hold that is no checkpoint: each is said in a sentence, and no code of it runs."""

import json
import os
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.judges import transformers

import equiscope as eq
from equiscope.checkpoints import read_spec
from equiscope.checkpoints.fields import changes
from equiscope.checkpoints.files import read_weights
from equiscope.errors import InputError, UnknownName
from equiscope.positions import Alibi, Rope

pytestmark = pytest.mark.quick


@pytest.fixture
def folder(tmp_path):
    spec = eq.Spec(
        8, vocabulary=10, outputs=10, tied=True,
        block=eq.Block(
            eq.Attention(heads=2, position=eq.positions.Learned(16), causal=True, bias=True), eq.Norm(),
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
    with pytest.raises(InputError, match=r"bloom: its models have input\.norm = True, this one has False"):
        eq.save(model, tmp_path, family="bloom")


HUB = {  # fields of well-known files that change no number
    "marian": {"_num_labels": 3, "vocab_size": 50, "d_model": 24},
    "llama": {
        "is_llama_config": True,
        "rope_interleaved": False,
        "transformers.js_config": {"dtype": {}},
        "hidden_size": 32,
        "architectures": ["LLaMAForCausalLM"],
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192.0},
    },
    "bloom": {"n_embed": None, "num_attention_heads": None},
    "t5": {"dense_act_fn": None, "architectures": ["T5WithLMHeadModel"]},
    "qwen2": {"use_mrope": False, "hidden_size": 32},
    "distilbert": {"finetuning_task": "sst-2", "output_past": True, "dim": 24, "n_heads": 4, "n_layers": 2, "hidden_dim": 30},
    "gpt_neox": {"attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0},
}


@pytest.mark.parametrize("name", HUB)
def test_harmless_fields_of_well_known_files_are_read(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name} | HUB[name]))
    assert read_spec(tmp_path).layers


WRONG = {
    "no heads": ("gpt2", {"n_head": 0}, "n_head is 0"),
    "no layers": ("llama", {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    "no factor": ("llama", {"rope_scaling": {"type": "linear"}}, "needs a number factor"),
    "a part that turns where none does": (
        "llama",
        {"partial_rotary_factor": 0.5, "rope_scaling": {"partial_rotary_factor": 0.5}},
        "partial",
    ),
    "an odd base": ("llama", {"rope_theta": "big"}, "rope_theta"),
    "an odd picture": ("vit", {"image_size": [224]}, "image_size"),
    "layers of another kind": ("qwen3", {"layer_types": ["weird"] * 32}, "layer_types has 32 entries, weird"),
    "layers that are no words": ("qwen3", {"layer_types": [["full_attention"]] * 32}, "layer_types has 32 entries"),
    "a kind that is no word": ("qwen3", {"rope_parameters": {"rope_type": ["x"]}}, "rope_type is .*, but should be a word"),
    "too few layers": ("smollm3", {"layer_types": ["full_attention"]}, "layer_types has 1 entries"),
    "two ways to say a window": ("mistral", {"use_sliding_window": False}, "one sliding_window for all"),
    "a bias that is dropped": ("bloom", {"pretraining_tp": 2, "slow_but_exact": True}, "slow_but_exact"),
    "two numbers of heads": ("bloom", {"n_head": 4, "num_attention_heads": 2}, "num_attention_heads is 2, but n_head is 4"),
    "windows that are not used": ("qwen2", {"layer_types": ["sliding_attention"] * 32}, "use_sliding_window is not true"),
    "windows without a size": (
        "smollm3",
        {"layer_types": ["sliding_attention"] * 36, "use_sliding_window": True},
        "sliding_window is missing",
    ),
    "another head": ("llama", {"architectures": ["LlamaForTokenClassification"]}, "LlamaForTokenClassification.*LlamaForCausalLM"),
    "a head in other letters": ("vit", {"architectures": ["VitForImageClassification"]}, "VitForImageClassification.*ViTModel"),
    "a head that is no list": ("bert", {"architectures": "BertModel"}, r"should be a list of names"),
    "a huge vocabulary": ("llama", {"vocab_size": 10**18}, r"vocab_size is 1e\+18"),
    "a beta that is a switch": ("llama", {"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": True}}, "beta_fast"),
    "half a place": (
        "llama",
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16.5}},
        "original_max_position_embeddings is 16.5",
    ),
    "only rows of nobody": (
        "roberta",
        {
            "max_position_embeddings": 1,
            "hidden_size": 24,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "intermediate_size": 40,
        },
        "max_position_embeddings is 1",
    ),
    "an activation of another kind": ("t5", {"dense_act_fn": "quick_gelu"}, "dense_act_fn is 'quick_gelu'"),
    "a negative width": ("marian", {"d_model": -8}, "d_model is -8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_fields_that_cannot_be_built_are_named(name, tmp_path):
    kind, fields, words = WRONG[name]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind} | fields))
    with pytest.raises(InputError, match=words):
        read_spec(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e4m3fn], ids=str)
def test_weights_that_are_no_numbers_of_a_model_are_refused(folder, dtype):
    path = folder / "model.safetensors"
    save_file({name: t.to(dtype) for name, t in load_file(path).items()}, path)
    with pytest.raises(InputError, match=f"is {str(dtype).removeprefix('torch.')}, but weights here are float32"):
        eq.load(folder)


@pytest.mark.parametrize("dtype", [torch.int64, "float32"], ids=str)
def test_a_dtype_that_no_model_has_is_refused(folder, dtype, unchecked):
    with pytest.raises(InputError, match="The dtype of a model is one of"):
        eq.load(folder, dtype)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"n_embd": ' + "9" * 5000 + "}"], ids=["deep", "long"])
def test_a_config_that_python_cannot_read_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"is not JSON|more than 64 brackets"):
        eq.load(folder)


def test_sizes_that_multiply_to_too_much_are_refused(folder):
    config(folder, n_embd=2**31 - 2, vocab_size=2**31 - 1)
    with pytest.raises(InputError, match="A model of these sizes cannot be made"):
        eq.load(folder)


def test_paths_that_are_none_are_said(folder, tmp_path, unchecked):
    assert eq.load(next(os.scandir(tmp_path))).spec == eq.load(folder).spec  # whatever says its path
    for path in ("x" * 5000, "\0", 5, None):
        with pytest.raises(InputError, match=r"no path of a folder|A folder is a path|There is no folder"):
            eq.load(path)
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        eq.load(folder)
    (tmp_path / "file").write_text("")
    block = eq.Block(
        eq.Attention(heads=2, position=Rope(pairs="half"), causal=True), eq.Norm("rms"), eq.FeedForward(40, "silu", False, True)
    )
    model = eq.build(eq.Spec(16, 30, outputs=30, block=block))
    for there in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="cannot be written"):
            eq.save(model, there)
    with pytest.raises(InputError, match="that build or load made, but got Linear"):
        eq.save(torch.nn.Linear(2, 2), tmp_path / "linear")


def test_a_rotation_of_a_part_is_not_written_where_transformers_would_turn_all(tmp_path):
    attention = eq.Attention(heads=2, position=Rope(pairs="half", fraction=0.5), causal=True)
    block = eq.Block(attention, eq.Norm("rms"), eq.FeedForward(40, "silu", False, True))
    model = eq.build(eq.Spec(16, 30, outputs=30, block=block))
    with pytest.raises(InputError, match=r"partial_rotary_factor is 0\.5"):
        eq.save(model, tmp_path, family="llama")


def test_ids_and_names_of_classes_are_kept(tmp_path):
    """transformers would stop at token 2 where a Llama's config says nothing."""
    said = {"bos_token_id": 7, "eos_token_id": [3, 4], "pad_token_id": 0}
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=4, **said
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "theirs")
    written = json.loads((eq.save(eq.load(tmp_path / "theirs"), tmp_path / "ours") / "config.json").read_text())
    assert {name: written[name] for name in said} == said
    fresh = eq.save(eq.build(eq.load(tmp_path / "theirs").spec), tmp_path / "fresh")
    assert transformers.LlamaConfig.from_pretrained(fresh).eos_token_id is None


def test_the_pooler_that_a_vit_came_with_is_written_back_as_it_was(tmp_path):
    """It computes nothing here, but transformers reads it: 16 wide, with a relu; a config that says nothing has 24 and a tanh."""
    said = {"pooler_act": "relu", "pooler_output_size": 16}
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 40}
    theirs = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=8, patch_size=4, **said)).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    again = transformers.ViTModel.from_pretrained(eq.save(eq.load(tmp_path / "theirs"), tmp_path / "ours")).eval()
    image = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(again(image).pooler_output, theirs(image).pooler_output)


def test_a_bert_written_as_a_roberta_counts_places_as_one(tmp_path):
    sizes = {"vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4}
    theirs = transformers.BertModel(transformers.BertConfig(**sizes, max_position_embeddings=30)).eval()
    theirs.save_pretrained(tmp_path / "bert")
    written = eq.save(eq.load(tmp_path / "bert"), tmp_path / "roberta", family="roberta")
    said = json.loads((written / "config.json").read_text())
    assert (said["pad_token_id"], said["max_position_embeddings"]) == (1, 32)
    ids = torch.randint(2, 50, (2, 9))
    with torch.no_grad():
        wanted = theirs(ids).last_hidden_state
        torch.testing.assert_close(transformers.RobertaModel.from_pretrained(written).eval()(ids).last_hidden_state, wanted)
        torch.testing.assert_close(eq.load(written)(ids), wanted)


def test_how_far_places_go_and_the_numbers_of_classes_are_written(tmp_path):
    sizes = {"vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, max_position_embeddings=131072)).save_pretrained(
        tmp_path / "llama"
    )
    eq.save(eq.load(tmp_path / "llama"), tmp_path / "again")
    assert transformers.LlamaConfig.from_pretrained(tmp_path / "again").max_position_embeddings == 131072
    transformers.ViTForImageClassification(
        transformers.ViTConfig(hidden_size=24, num_hidden_layers=1, num_attention_heads=4, image_size=8, patch_size=4)
    ).save_pretrained(tmp_path / "vit")
    eq.save(eq.load(tmp_path / "vit"), tmp_path / "vit again")
    assert transformers.ViTConfig.from_pretrained(tmp_path / "vit again").label2id == {"LABEL_0": 0, "LABEL_1": 1}
    said = json.loads((tmp_path / "vit" / "config.json").read_text()) | {"id2label": {"0": "cat", "1": "dog"}}
    said.pop("label2id", None)
    (tmp_path / "vit" / "config.json").write_text(json.dumps(said))
    eq.save(eq.load(tmp_path / "vit"), tmp_path / "named")
    assert json.loads((tmp_path / "named" / "config.json").read_text())["label2id"] == {"cat": 0, "dog": 1}


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_what_a_config_says_of_training_is_written_back(name, tmp_path):
    """It changes no number of a forward pass, but fine-tuning goes another way without it."""
    small = {"vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4}
    kinds = {
        "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config, {"vocab_size": 50, "n_embd": 24, "n_layer": 1, "n_head": 4},
                 {"resid_pdrop": 0.3, "embd_pdrop": 0.0, "attn_pdrop": 0.25, "initializer_range": 0.1}),
        "bert": (transformers.BertForSequenceClassification, transformers.BertConfig, small,
                 {"problem_type": "regression", "hidden_dropout_prob": 0.0, "classifier_dropout": 0.5}),
        "t5": (transformers.T5ForConditionalGeneration, transformers.T5Config,
               {"vocab_size": 50, "d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 1, "num_heads": 4},
               {"dropout_rate": 0.0, "initializer_factor": 0.5}),
    }  # fmt: skip
    theirs, config, sizes, said = kinds[name]
    theirs(config(**sizes, **said)).save_pretrained(tmp_path / "theirs")
    loaded = eq.load(tmp_path / "theirs")
    again = json.loads((eq.save(loaded.bfloat16(), tmp_path / "ours") / "config.json").read_text())
    assert {name: again[name] for name in said} == said
    assert not {"dtype", "torch_dtype", "transformers_version", "_name_or_path"} & again.keys()  # they are the new folder's own
    theirs.from_pretrained(tmp_path / "ours")


def test_an_odd_number_of_columns_that_turn_is_said_by_its_field(tmp_path):
    said = {"hidden_size": 24, "num_attention_heads": 2, "rotary_pct": 0.25, "num_hidden_layers": 1, "vocab_size": 50}
    transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**said, intermediate_size=40)).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"rotary_pct is 0\.25, by which 3 of the 12 columns of a head turn"):
        eq.load(tmp_path)


def test_a_word_in_the_name_of_a_field_says_whether_it_changes_numbers():
    harmful = (
        "attention_sinks", "bits", "deepnorm", "embed_gain", "int8", "lambda_init", "logn", "nope", "normalizer", "ntk_alpha",
        "norm_version", "recurrence", "tying", "virtual_tokens", "fused_qk_norm", "flash_alibi", "sdpa_scale",
    )  # fmt: skip
    harmless = (
        "adam_epsilon", "add_prefix_space", "best_step", "checkpoint_step", "fp16", "fused_rms_norm", "init_std", "local_rank",
        "max_grad_norm", "num_parameters", "prefix", "quantized_by", "task_type", "transformers_version", "use_flash_attn",
        "world_size",
    )  # fmt: skip
    assert [name for name in harmful if not changes(name, 2)] == []
    assert [name for name in harmless if changes(name, 2)] == []


def test_shards_without_an_index_and_pointers_are_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    save_file({"a": torch.zeros(1)}, tmp_path / "model-00001-of-00002.safetensors")
    with pytest.raises(InputError, match=r"has model-00001-of-00002\.safetensors, but no model\.safetensors\.index\.json"):
        read_weights(tmp_path)
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n")
    with pytest.raises(InputError, match=r"is a pointer of Git LFS, without the content\. Fetch it: git lfs pull"):
        read_weights(tmp_path)
