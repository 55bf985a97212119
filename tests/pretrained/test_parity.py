"""Checkpoints of Hugging Face, both ways: the same logits from the same folder, and a folder that they load again (M2)."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tests.lifted import Lifted, lifted
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

import equiscope as eq
from equiscope.position import Rope
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

SMALL = {
    "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
WIDE = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 5e4}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
    "rope_theta": 5e5,
}  # fmt: skip
CONFIGS = {
    "gpt2": lambda: GPT2Config(vocab_size=50, n_embd=24, n_layer=2, n_head=4, n_positions=64),
    "gpt2, untied, exact gelu": lambda: GPT2Config(
        vocab_size=50, n_embd=24, n_layer=2, n_head=4, n_positions=64, n_inner=30, tie_word_embeddings=False,
        activation_function="gelu",
    ),
    "llama": lambda: LlamaConfig(**SMALL),
    "llama 3.1, tied": lambda: LlamaConfig(**SMALL, rope_parameters=LLAMA3, tie_word_embeddings=True),
    "llama, yarn, biases, wide heads": lambda: LlamaConfig(
        **SMALL, rope_parameters=YARN, attention_bias=True, mlp_bias=True, head_dim=8
    ),
    "llama, linear": lambda: LlamaConfig(**SMALL, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}),
    "mistral, window": lambda: MistralConfig(**SMALL, sliding_window=5),
    "mistral, no window": lambda: MistralConfig(**SMALL, sliding_window=None),
    "qwen2": lambda: Qwen2Config(**SMALL),
    "qwen2, window": lambda: Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=0),
    "gpt-neox": lambda: GPTNeoXConfig(**WIDE),
    "gpt-neox, one part after the other": lambda: GPTNeoXConfig(
        **WIDE, use_parallel_residual=False, attention_bias=False, rope_parameters={"rope_theta": 5e3, "partial_rotary_factor": 0.5}
    ),
    "qwen3": lambda: Qwen3Config(**SMALL, head_dim=8),
}  # fmt: skip
configs = pytest.mark.parametrize("name", CONFIGS)


def peer(name):
    """Their model with every parameter drawn, gains and biases too."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(CONFIGS[name](), attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.3)
    return model


@pytest.fixture
def folder(tmp_path):
    def made(name):
        model = peer(name)
        model.save_pretrained(tmp_path / "theirs")
        return model, tmp_path / "theirs"

    return made


def ids(batch=2, length=12):
    return torch.randint(50, (batch, length), generator=torch.Generator().manual_seed(7))


@configs
def test_the_logits_are_theirs_in_both_precisions(name, folder):
    theirs, path = folder(name)
    with torch.no_grad():
        ours = eq.load(path)
        assert relative_error(ours(ids()), theirs(ids()).logits) < 1e-5
        with Lifted():
            exact = lifted(theirs)(ids()).logits
        assert exact.dtype == torch.float64
        assert relative_error(ours.double()(ids()), exact) < 1e-10


@configs
def test_a_written_folder_is_read_by_them_and_by_us(name, folder, tmp_path):
    theirs, path = folder(name)
    ours = eq.load(path)
    written = eq.save(ours, tmp_path / "ours", family=CONFIGS[name]().model_type)
    with torch.no_grad():
        again = AutoModelForCausalLM.from_pretrained(written, attn_implementation="eager").eval()
        assert torch.equal(again(ids()).logits, theirs(ids()).logits)
        assert torch.equal(eq.load(written)(ids()), ours(ids()))
    assert eq.load(written).spec == ours.spec


@configs
def test_a_batch_padded_on_the_left_gives_what_each_text_gives_alone(name, folder):
    theirs, path = folder(name)
    ours = eq.load(path)
    valid = torch.ones(2, 12, dtype=torch.bool)
    valid[1, :5] = False
    places = (valid.long().cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        tokens = Tokens(x=ours.embedding(ids()), at=places.float().unsqueeze(-1), order=torch.arange(12).expand(2, 12), valid=valid)
        found = ours(tokens)
        wanted = theirs(ids(), attention_mask=valid.long(), position_ids=places).logits
        assert relative_error(found[valid], wanted[valid]) < 1e-5
        assert relative_error(found[1, 5:], ours(ids()[1, 5:])) < 1e-5


@configs
def test_decoding_with_caches_gives_the_same(name, folder):
    model = eq.load(folder(name)[1]).double()
    with torch.no_grad():
        caches = model.caches()
        parts = [model(ids()[:, i : i + 1], caches) for i in range(12)]
        assert relative_error(torch.cat(parts, 1), model(ids())) < 1e-10


def test_a_checkpoint_in_shards_is_read(tmp_path):
    theirs = peer("llama")
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with torch.no_grad():
        assert relative_error(eq.load(tmp_path)(ids()), theirs(ids()).logits) < 1e-5


def test_the_old_way_to_say_the_rotation_is_read(folder):
    theirs, path = folder("llama 3.1, tied")
    config = json.loads((path / "config.json").read_text())
    said = config.pop("rope_parameters")
    config["rope_theta"] = said.pop("rope_theta")
    config["rope_scaling"] = {"type": said.pop("rope_type"), **said}
    (path / "config.json").write_text(json.dumps(config))
    with torch.no_grad():
        assert relative_error(eq.load(path)(ids()), theirs(ids()).logits) < 1e-5


def test_a_pythia_of_its_time_is_read(folder):
    theirs, path = folder("gpt-neox")
    config = json.loads((path / "config.json").read_text())
    said = config.pop("rope_parameters")
    config |= {"rotary_pct": said["partial_rotary_factor"], "rotary_emb_base": int(said["rope_theta"]), "torch_dtype": "float16"}
    (path / "config.json").write_text(json.dumps(config))
    with torch.no_grad():
        assert relative_error(eq.load(path)(ids()), theirs(ids()).logits) < 1e-5


def test_a_checkpoint_of_openai_s_age_is_read(folder):
    """gpt2 on the hub has no prefix, its masks among the weights, and the fields of its time."""
    from safetensors.torch import load_file, save_file

    theirs, path = folder("gpt2")
    old = {name.removeprefix("transformer."): t for name, t in load_file(path / "model.safetensors").items()}
    old |= {f"h.{i}.attn.bias": torch.ones(1, 1, 64, 64).tril() for i in range(2)}
    save_file(old, path / "model.safetensors")
    config = json.loads((path / "config.json").read_text()) | {
        "n_ctx": 64, "summary_type": "cls_index", "task_specific_params": {"text-generation": {"do_sample": True}},
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    with torch.no_grad():
        assert relative_error(eq.load(path)(ids()), theirs(ids()).logits) < 1e-5


def test_a_model_of_ones_own_spec_becomes_a_folder_of_theirs(tmp_path):
    spec = eq.Spec(
        16, vocabulary=30, layers=2, outputs=30,
        block=eq.Block(
            eq.Attention(heads=4, kv_heads=2, position=Rope(pairs="half"), causal=True), eq.Norm("rms"),
            eq.FeedForward(activation="silu", bias=False, gated=True),
        ),
    )  # fmt: skip
    model = eq.build(spec).eval()
    theirs = AutoModelForCausalLM.from_pretrained(eq.save(model, tmp_path)).eval()
    assert isinstance(theirs, transformers.LlamaForCausalLM)
    text = torch.randint(30, (2, 9))
    with torch.no_grad():
        assert relative_error(model(text), theirs(text).logits) < 1e-5


def test_the_page_has_every_checkpoint():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "checkpoints.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in CONFIGS), "Run python docs/checkpoints.py"
