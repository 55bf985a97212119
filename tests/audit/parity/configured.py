"""Planted differences in models of transformers: the same weights under a configuration that differs in one field."""

import copy

import torch

import equiscope as eq
from equiscope.audit.inputs.targets import target

CONFIGURED = [  # class, changed fields of B, kind
    ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}, "rope base"),
    ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}}, "rope scaling"),
    ("LlamaForCausalLM", {"rms_norm_eps": 1e-5}, "epsilon"),
    ("LlamaForCausalLM", {"hidden_act": "gelu"}, "activation"),
    ("MistralForCausalLM", {"sliding_window": 5}, "window"),
    ("MistralForCausalLM", {"rms_norm_eps": 1e-5}, "epsilon"),
    ("Qwen3ForCausalLM", {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}, "rope base"),
    ("Qwen3ForCausalLM", {"rms_norm_eps": 1e-3}, "epsilon"),
    ("GPT2LMHeadModel", {"activation_function": "gelu"}, "activation"),
    ("GPT2LMHeadModel", {"layer_norm_epsilon": 1e-6}, "epsilon"),
    ("GPT2LMHeadModel", {"scale_attn_weights": False}, "softmax scale"),
    ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True}, "softmax scale"),
    ("BertForMaskedLM", {"hidden_act": "relu"}, "activation"),
    ("BertForMaskedLM", {"layer_norm_eps": 1e-5}, "epsilon"),
    ("GPTNeoXForCausalLM", {"layer_norm_eps": 1e-3}, "epsilon"),
    ("GPTNeoXForCausalLM", {"hidden_act": "silu"}, "activation"),
    ("BloomForCausalLM", {"layer_norm_epsilon": 1e-3}, "epsilon"),
]


def configured(name, changed, folder, ours):
    """A, and B with the same weights and the changed configuration; ours: A is our model of the checkpoint."""
    model = target(f"transformers:{name}").model
    torch.manual_seed(0)
    for p in model.parameters():
        if p.ndim == 1:
            p.data.add_(0.2 * torch.randn(p.shape))
        else:
            p.data.mul_(5.0)
    config = copy.deepcopy(model.config)
    for field, value in changed.items():
        setattr(config, field, value)
    other = type(model)(config).eval()
    other.load_state_dict(model.state_dict())
    if not ours:
        return model, other
    model.save_pretrained(folder)
    return eq.load(folder).eval(), other
