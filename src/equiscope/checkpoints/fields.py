"""Fields of config.json: each is read, refused, or listed as one that changes no number.

What becomes of a field follows one rule: *what could change a number is never ignored*.

    read      the family knows the field and builds what it says
    refused   the family knows the field, and this value cannot be built
    silent    every checkpoint has such a field, and it changes no number of a forward pass (`EVERYWHERE`, `Fields.ignore`)

A field that the family does not know is one that transformers' configuration of that family does not have either (a test compares
the two), so transformers ignores it. It is

    noted     where it is null, is of a kind that changes no number (`HARMLESS`: private names, training, generation, ids of tokens,
              how attention is computed), or where no word of its name is one of `CHANGES`
    refused   else: its name says that it changes numbers, such as `logit_scale` or `use_qk_norm`, and nothing here computes that
"""

import re
from dataclasses import dataclass
from typing import Any

from equiscope.errors import InputError
from equiscope.models import Spec
from equiscope.spec_base import MAX_SIZE

REQUIRED: Any = object()
EVERYWHERE = frozenset({  # fields of any family that change no number of a forward pass
    "_name_or_path", "architectures", "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "eos_token_id",
    "equiscope_version", "id2label", "initializer_range", "is_encoder_decoder", "keys_to_ignore_at_inference", "label2id",
    "model_type", "num_labels", "output_attentions", "output_hidden_states", "pad_token_id", "problem_type", "return_dict",
    "sep_token_id", "task_specific_params", "tokenizer_class", "torch_dtype", "torchscript", "transformers_version", "use_cache",
    "_num_labels", "finetuning_task", "output_past", "transformers.js_config", "is_llama_config",
    "attention_dropout", "pretraining_tp", "use_bfloat16", "tf_legacy_loss", "pruned_heads", "is_decoder",
})  # fmt: skip
HARMLESS = re.compile(
    r"_.*"                                                                  # private: bookkeeping of a library
    r"|.*dropout.*|.*pdrop|.*layerdrop|drop_path_rate"                      # training: what is left out, ...
    r"|.*initiali[sz]er.*|init_(?!.*(rope|theta|scale)).*|(?!.*(lambda|theta|alpha|beta|gain|scale)).*_init|.*loss.*|label_smoothing.*|neftune.*|.*gradient_checkpointing.*|.*learning_rate.*|adam_\w+"
    r"|.*warmup.*|.*optim(izer)?(_.*)?|.*weight_decay.*|.*batch_size.*|.*(train|training|epochs?|finetun\w*)(_.*)?"
    r"|(?!use_).*_token(_ids?)?|.*_token_index|.*prefix_space|.*tokenizer.*|special_tokens.*|.*vocab_file|pad_to_multiple_of|padding_side"
    r"|(best|global|checkpoint|last|total)_steps?|max_grad_norm|grad_norm|local_rank|world_size|n(um)?_(params|parameters)"
    r"|task_type|(quanti[sz]ed|created|trained|converted|published|uploaded)_by|weight_format|kv_cache_dtype|ggml_type"
    r"|(min|max)_(new_)?(length|tokens)|model_max_length|max_seq_?len(gth)?|seq_?len(gth)?|do_sample|early_stopping|num_beams"
    r"|num_beam_groups|temperature|top_[kp]|typical_p|repetition_penalty|length_penalty|diversity_penalty|no_repeat_ngram_size"
    r"|encoder_no_repeat_ngram_size|bad_words_ids|num_return_sequences|output_scores|return_dict_in_generate|prefix"
    r"|forced_decoder_ids|suppress_tokens|begin_suppress_tokens|remove_invalid_values|exponential_decay_length_penalty"
    r"|cache_implementation|use_cache\w*"                                   # generation
    r"|(?!.*(alibi|qk|softcap|scale))(.*flash.*|.*sdpa.*|.*xformers.*|.*triton.*|.*liger.*|.*(attn|attention|experts)_implementation.*|.*fused.*)|use_kernels?"
    r"|.*tensor_parallel.*|model_parallel|.*_fusion|tp_.*"                  # how it is computed
    r"|auto_map|custom_pipelines|(?!.*(rope|norm|att|mlp|pos)).*version.*|.*unsloth.*|.*wandb.*|.*licen[sc]e.*"
    r"|.*_?(author|date|path|name|url|tags?)"
)  # fmt: skip
CHANGES = re.compile(  # words in the names of fields by which configurations of transformers change numbers
    r"2d|3d|absolute|act|activation|ada|adapter|affine|aggregation|alibi|alpha|altup|apply|attention|attentions|attn|average|"
    r"axial|back|backbone|beta|bias|biases|bidirectional|bits|block|blocks|bound|bucket|buckets|cap|causal|channel|channels|"
    r"chunk|clamp|clip|cls|coefficient|compress|compression|concat|conv|convolution|cross|cutoff|d|decay|decoder|deepnorm|delta|"
    r"dense|depth|depths|depthwise|dilation|dilations|dim|dimension|dimensions|dims|directional|distance|divisor|dual|dynamic|"
    r"emb|embd|embed|embedding|embeddings|enc|encoder|encoding|eps|epsilon|expand|expansion|expert|experts|exponent|factor|"
    r"factors|feature|features|feed|feedforward|ff|ffn|fft|filter|final|first|freq|frequency|gain|gamma|gate|gated|gates|gating|"
    r"geglu|gelu|global|glu|gqa|grid|group|grouped|groups|hash|head|headdim|heads|hidden|identity|image|index|inner|int|"
    r"interleave|interleaved|intermediate|interval|inv|inverse|kernel|key|keys|kv|lambda|last|latent|layer|layernorm|layernorms|layers|"
    r"layout|learnable|learned|left|length|level|linear|ln|local|logit|logits|logn|long|longrope|loop|loops|lora|low|lsh|mamba|"
    r"map|mask|masked|masking|mean|mem|memory|merge|mla|mlp|mode|moe|mqa|mrope|mscale|mult|multi|multiplier|mup|n|nope|norm|"
    r"normalization|normalize|normalized|normalizer|norms|ntk|num|offset|order|out|output|parallel|parametric|partial|patch|"
    r"period|permute|pool|pooler|pooling|pos|position|positional|positions|post|pow|power|pre|prefix|prenorm|proj|projection|"
    r"projections|projector|q|qk|qkv|quant|quantization|quantize|quantized|query|random|rank|rate|ratio|recurrence|recurrent|"
    r"reduction|rel|relative|relu|repeat|rescale|resid|residual|residuals|resolution|reverse|rms|rmsnorm|rope|rotary|rotate|"
    r"rotation|routed|router|routing|scalar|scale|scaled|scales|scaling|scores|segment|self|sequence|shape|share|shared|shift|"
    r"shortcut|side|sigmoid|sink|sinks|size|sizes|skip|sliding|slope|smooth|soft|softcap|softcapping|softmax|sparse|sparsity|"
    r"spatial|split|sqrt|ssm|stage|stages|state|static|std|stem|step|stride|strides|sub|summary|swiglu|switch|symmetric|tanh|"
    r"temperature|temporal|theta|threshold|tie|tied|top|topk|transform|transpose|tying|type|types|untie|untied|upcast|v|value|"
    r"values|variance|virtual|vision|visual|vocab|vocabulary|weight|weights|width|window|windows|yarn"
)  # fmt: skip
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def changes(name: str, value: Any) -> bool:
    """Whether a field that no family reads could change a number: see the rule above."""
    if value is None or HARMLESS.fullmatch(name):
        return False
    words = [word.lower() for word in WORD.findall(name)]
    return any(CHANGES.fullmatch(word) or CHANGES.fullmatch(word.rstrip("0123456789")) for word in words)


@dataclass(frozen=True)
class ParsedConfig:
    """The spec of a config.json. ignored: fields that change no number and were not read."""

    spec: Spec
    ignored: tuple[str, ...] = ()


def architectures(config: dict[str, Any]) -> list[str]:
    """The classes that a config names; none where it names none. Raises InputError where that is no list of names."""
    names = config.get("architectures")
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"config.json: architectures is {names!r}, but should be a list of names, such as ['LlamaForCausalLM'].")
    return names


def labels(config: dict[str, Any]) -> int:
    """The number of classes of a config: `num_labels`, else the number of names in `id2label`, else 2."""
    f = Fields("classifier", config)
    named = f.get("id2label", dict, None)
    return f.size("num_labels", 2 if named is None else len(named))


class Fields:
    """A config that is read field by field; `finish` handles the fields that were not read."""

    def __init__(self, family: str, config: dict[str, Any]) -> None:
        self.family, self.config, self.used_names = family, config, set(EVERYWHERE)

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = REQUIRED) -> Any:
        """A field. Raises InputError where it is missing without a default, or of another kind."""
        self.used_names.add(name)
        value = self.config.get(name)
        if value is None and default is not REQUIRED:
            return default
        if value is None:
            raise InputError(f"config.json of a {self.family} needs {name}.")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        fits = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
        if not fits or (isinstance(value, bool) and bool not in kinds):
            raise InputError(f"config.json: {name} is {value!r}, but should be {' or '.join(k.__name__ for k in kinds)}.")
        return value

    def size(self, name: str, default: Any = REQUIRED) -> Any:
        """A whole number of 1 or more. Raises InputError as `get`, and for less, or for more than any model has."""
        value = self.get(name, int, default)
        if value is not None and value < 1:
            raise InputError(f"config.json: {name} is {value}, but should be 1 or more.")
        if value is not None and value > MAX_SIZE:
            raise InputError(f"config.json: {name} is {min(value, 10**300):.3g}, but should be {MAX_SIZE:,} or less.")
        return value

    def require(self, name: str, *values: Any) -> None:
        """Raise InputError for a value that no model here supports; the first value is the default."""
        self.used_names.add(name)
        value = self.config.get(name, values[0])
        if value not in values:
            raise InputError(
                f"config.json: {name} is {value!r}, but only {' or '.join(map(repr, dict.fromkeys(values)))} can be built."
            )

    def architecture(self, *names: str) -> None:
        """Raises InputError where `architectures` names another model than these: its head would be another one."""
        stated_names = architectures(self.config)
        if stated_names and stated_names[0] not in names:
            raise InputError(f"config.json: architectures is {stated_names[0]!r}, but only {', '.join(names)} can be built.")

    def ignore(self, *names: str) -> None:
        """Mark fields that change no number as read."""
        self.used_names |= set(names)

    def finish(self, spec: Spec) -> ParsedConfig:
        """The spec, and the fields that were not read. Raises InputError for an unread field that could change a number."""
        unknown = sorted(self.config.keys() - self.used_names)
        if harmful := [name for name in unknown if changes(name, self.config[name])]:
            raise InputError(
                f"config.json of a {self.family} has the field {harmful[0]!r} = {self.config[harmful[0]]!r}, which is not known "
                "here. What it changes cannot be built; remove it if it changes nothing."
            )
        return ParsedConfig(spec, tuple(name for name in unknown if self.config[name] is not None))
