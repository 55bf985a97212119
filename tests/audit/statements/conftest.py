"""Real models, tiny and at random weights."""

import pytest
import torch

from equiscope.models import PRESETS, build

LLAMA = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
NONE = {"bos_token_id": None, "eos_token_id": None}
GPT = {"vocab_size": 50, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, **NONE}
MODELS = {
    "gpt2": lambda hf: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)),
    "llama": lambda hf: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, num_key_value_heads=2, **NONE)),
    "gptj": lambda hf: hf.GPTJForCausalLM(hf.GPTJConfig(**GPT, rotary_dim=4)),
    "neox": lambda hf: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**LLAMA, rotary_pct=0.5, **NONE)),
    "mistral": lambda hf: hf.MistralForCausalLM(
        hf.MistralConfig(**LLAMA | {"num_hidden_layers": 1}, num_key_value_heads=2, sliding_window=3, **NONE)
    ),
    "ours": lambda hf: build(PRESETS["gpt2"](32, 2, 4, 50, 64)),
    "ours-llama": lambda hf: build(PRESETS["llama-1b"](32, 2, 4, 2, 64, 50)),
}


@pytest.fixture
def made():
    """A model by name, for a seed."""

    def make(name, seed=0):
        torch.manual_seed(seed)
        return MODELS[name](pytest.importorskip("transformers")).eval()

    return make


@pytest.fixture
def ids():
    return torch.randint(50, (1, 9), generator=torch.Generator().manual_seed(5))
