"""`equiscope describe`: what a preset, a spec file or a checkpoint folder is, without its weights."""

import json as json_text

from equiscope import trained
from equiscope.checkpoints import read_spec
from equiscope.errors import InputError
from equiscope.models import PRESETS, count, describe, folder_of, spec_of


def run(source: str | None, tokens: int | None, source_tokens: int, spec: bool, json: bool) -> None:
    if spec and json:
        raise InputError("Choose one of --spec and --json.")
    if source is None:
        _list(json)
        return
    folder = trained.find(source) or folder_of(source)
    spec_ = spec_of(source) if folder is None else read_spec(folder)
    if spec:
        print(spec_.to_json(), end="")
        return
    description = describe(spec_, tokens, source_tokens)
    print(json_text.dumps(description.to_dict()) if json else description)


def _list(json: bool) -> None:
    sizes = {name: count(preset()) for name, preset in PRESETS.items()}
    sizes |= {name: count(read_spec(name)) for name in trained.NAMES}
    if json:
        print(json_text.dumps(sizes))
        return
    for name, size in sizes.items():
        card = f", trained: {trained.HOME / name / trained.CARD}" * (name in trained.NAMES)
        print(f"{name:<18} {size / 1e6:>8,.1f} M parameters{card}")
