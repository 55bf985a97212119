"""Checkpoints of the world: a folder of Hugging Face becomes a model, and a model becomes such a folder.

Only config.json and safetensors files are read, so that loading runs no code of anybody.
"""

from pathlib import Path
from typing import Any

import torch

from equiscope.errors import InputError, UnknownName
from equiscope.models import Model, Spec
from equiscope.pretrained import bert, bloom, files, gpt2, llama, marian, neox, t5, vit
from equiscope.pretrained.family import Family

FAMILIES: tuple[Family, ...] = (
    gpt2.GPT2, *llama.FAMILIES, neox.NEOX, bloom.BLOOM, *bert.FAMILIES, *vit.FAMILIES, t5.T5, marian.MARIAN,
)  # fmt: skip


def load(folder: str | Path, dtype: torch.dtype | None = None) -> Model:
    """The model of a Hugging Face folder (config.json and safetensors, in one file or in shards), in eval mode.

    dtype    of the parameters; as in the files unless said
    raises   InputError where a file is missing, damaged, a pickle, or a field of the config says what no model here does
    """
    folder = Path(folder)
    config = files.read_config(folder)
    family = _family(config)
    spec = family.read(config)
    tensors = files.read_weights(folder)
    with torch.device("meta"):
        model = Model(spec)
    family.take(model, tensors, dtype)
    return model.eval()


def read_spec(folder: str | Path) -> Spec:
    """The spec of a Hugging Face folder, by its config.json alone. Raises InputError as `load` does."""
    config = files.read_config(Path(folder))
    return _family(config).read(config)


def save(model: Model, folder: str | Path, family: str | None = None) -> Path:
    """Write config.json and model.safetensors, as `transformers` reads them; a folder that is there already keeps other files.

    family   model_type to write, where several could hold the model (llama unless said)
    raises   InputError where no family can hold this spec, and says what stands in the way
    """
    folder = Path(folder)
    made = [f for f in FAMILIES if family is None or f.name == family]
    if not made:
        raise UnknownName("family", family or "", [f.name for f in FAMILIES])
    reasons: list[str] = []
    for one in made:
        try:
            config = one.config(model.spec)
        except InputError as error:
            reasons.append(f"{one.name}: {error}")
            continue
        files.write(folder, config, one.give(model))
        return folder
    raise InputError("No family of checkpoints holds this model. " + " ".join(reasons))


def _family(config: dict[str, Any]) -> Family:
    name = config.get("model_type")
    for family in FAMILIES:
        if family.name == name:
            return family
    raise UnknownName("model_type in config.json", str(name), [f.name for f in FAMILIES])


__all__ = ["FAMILIES", "Family", "load", "read_spec", "save"]
