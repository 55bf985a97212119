"""Sentence encoder: a model, the pooling of its outputs, and the normalisation, from a folder as sentence-transformers writes it.

`modules.json`, the pooling's config and `sentence_bert_config.json` are read as data; no code of the folder runs, and
sentence-transformers is not needed.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from equiscope.checkpoints.transformers_models import load_with_transformers
from equiscope.errors import InputError
from equiscope.spec_base import read_object

MODULES = "modules.json"
POOLING = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "mean_sqrt_len_tokens": "mean_sqrt", "lasttoken": "last"}


def is_sentence_encoder(folder: Path) -> bool:
    """Whether a folder describes a sentence encoder."""
    return (folder / MODULES).is_file()


def load_sentence_encoder(folder: str | Path) -> "SentenceEncoder":
    """The encoder in evaluation mode. Raises InputError for a module that is none of model, pooling and normalisation."""
    folder = Path(folder)
    if importlib.util.find_spec("transformers") is None:
        raise InputError("A sentence encoder needs transformers, which is not installed. Install it: pip install transformers")
    try:
        parts = msgspec.json.decode((folder / MODULES).read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{folder / MODULES} is no list of modules: {error}.") from error
    kinds = [str(part.get("type", "")).rpartition(".")[2] for part in parts]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise InputError(
            f"{folder / MODULES} lists {', '.join(kinds)}. "
            "A folder is read that lists Transformer, Pooling and, optionally, Normalize."
        )
    pooling = read_object(folder / str(parts[1].get("path", "1_Pooling")) / "config.json")
    modes = [POOLING[n] for n in POOLING if pooling.get(f"pooling_mode_{n}") is True]
    if len(modes) != 1:
        raise InputError(f"The pooling of {folder} is {', '.join(modes) or 'none'}; exactly one is read.")
    settings = folder / "sentence_bert_config.json"
    length: Any = read_object(settings).get("max_seq_length") if settings.is_file() else None
    model, notes = load_with_transformers(folder / str(parts[0].get("path", "")), importlib.import_module("transformers"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    config: Any = model.config
    limit = int(length or getattr(config, "max_position_embeddings", 512))
    return SentenceEncoder(model, modes[0], len(kinds) == 3, tokenizer, limit, notes).eval()


class SentenceEncoder(nn.Module):
    """ids [B, N] and a mask [B, N] (1 = token) to one vector for each sequence [B, D].

    pooling    cls, mean, max, mean_sqrt or last
    normalise  whether each vector is divided by its length
    limit      tokens of a text, special tokens included: longer texts are cut
    """

    def __init__(
        self, model: nn.Module, pooling: str, normalise: bool, tokenizer: Any = None, limit: int = 512, notes: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.model, self.pooling, self.normalise = model, pooling, normalise
        self.tokenizer, self.limit, self.notes = tokenizer, limit, list(notes)
        self.config: Any = getattr(model, "config", None)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The embeddings."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        x = self.model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        vectors = self.pool(x, mask)
        return nn.functional.normalize(vectors, dim=-1) if self.normalise else vectors

    def pool(self, x: Tensor, mask: Tensor) -> Tensor:
        """One vector [B, D] from a row for each token [B, N, D]; rows of padding do not count."""
        rows = torch.arange(len(x), device=x.device)
        if self.pooling == "cls":
            return x[rows, mask.long().argmax(-1)]
        if self.pooling == "last":
            return x[rows, mask.shape[-1] - 1 - mask.long().flip(-1).argmax(-1)]
        is_token = mask[..., None].bool()
        if self.pooling == "max":
            return x.masked_fill(~is_token, -torch.inf).amax(-2)
        total, count = (x * is_token).sum(-2), mask.sum(-1, keepdim=True).clamp(min=1).to(x.dtype)
        return total / (count.sqrt() if self.pooling == "mean_sqrt" else count)

    def tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """The arguments of a call: texts of any length, cut at the limit, padded on the right."""
        self.tokenizer.enable_truncation(self.limit)
        self.tokenizer.enable_padding(pad_id=getattr(self.config, "pad_token_id", None) or 0)
        encoded = self.tokenizer.encode_batch(list(texts))
        return {
            "input_ids": torch.tensor([e.ids for e in encoded]),
            "attention_mask": torch.tensor([e.attention_mask for e in encoded]),
        }
