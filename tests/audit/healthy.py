"""Sixty classes of transformers that are taken to be sound: the default check must have no failing row for any of them.

The list was fixed before the first run. A class leaves it only with a finding that docs/why/confirm reproduces without this
package; FOUND then names the function that confirms it.
"""

CAUSAL = (
    "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM",
    "GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "PhiForCausalLM", "Phi3ForCausalLM", "GPT2LMHeadModel",
    "GPTNeoXForCausalLM", "GPTJForCausalLM", "GPTBigCodeForCausalLM", "BloomForCausalLM", "FalconForCausalLM", "MptForCausalLM",
    "OPTForCausalLM", "StableLmForCausalLM", "Starcoder2ForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM", "CohereForCausalLM",
    "GraniteForCausalLM", "SmolLM3ForCausalLM", "GlmForCausalLM", "Mamba2ForCausalLM",
)  # fmt: skip
ENCODERS = (
    "BertModel", "RobertaModel", "XLMRobertaModel", "CamembertModel", "DistilBertModel", "AlbertModel", "ElectraModel",
    "ErnieModel", "MegatronBertModel", "RemBertModel", "RoFormerModel", "ModernBertModel", "DebertaV2Model", "BertForMaskedLM",
)  # fmt: skip
ENCODER_DECODERS = (
    "T5Model", "T5ForConditionalGeneration", "MT5ForConditionalGeneration", "UMT5ForConditionalGeneration",
    "SwitchTransformersForConditionalGeneration", "T5GemmaForConditionalGeneration",
)  # fmt: skip
VISION = (
    "ViTModel", "ViTForImageClassification", "DeiTModel", "BeitModel", "Dinov2Model", "DINOv3ViTModel", "SwinModel", "PvtModel",
    "SegformerModel", "ConvNextModel", "CLIPVisionModel", "SiglipVisionModel",
)  # fmt: skip
FIXED = CAUSAL + ENCODERS + ENCODER_DECODERS + VISION
FOUND: dict[str, str] = {}  # class -> the function of docs/why/confirm/in_transformers.py that confirms what is wrong
HEALTHY = tuple(name for name in FIXED if name not in FOUND)
SHORT = (  # with little effort; the first by default
    "LlamaForCausalLM", "T5Model", "GPT2LMHeadModel", "BertModel", "ViTModel", "OPTForCausalLM",
)  # fmt: skip
