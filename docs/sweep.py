"""Write docs/why/transformers.md and docs/why/x-transformers.md: what `check` finds in other people's classes. Run from anywhere.

    python docs/sweep.py                                 both pages, about twenty minutes on two cores
    python docs/sweep.py LlamaForCausalLM Jamba          only print the rows of these classes of transformers

Every class is made tiny with random weights, in float64 with its casts to narrower numbers lifted, tables too. What is found is
confirmed by the functions of docs/why/confirm, which know nothing of this package; their numbers stand beside the findings.
"""

import importlib.util
import inspect
import platform
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit import check
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.audit.inputs.targets import model_of
from equiscope.audit.inputs.tiny_config import config_class_of, tiny
from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.errors import EquiscopeError
from equiscope.record import Row

FOLDER = Path(__file__).parent / "why"
sys.path.insert(0, str(FOLDER))
PROPERTIES = ("causal", "cache", "left-padding", "right-padding", "packing", "batch", "deterministic", "pure")
MASK_ALONE = "left-padding, mask alone"
OF_OPTIONS = tuple(name for name in PROPERTIES if name != "packing")  # x-transformers takes no boundaries of documents
COLUMNS = ("class", "causal", "cache", "left-padding", MASK_ALONE, *PROPERTIES[3:], "shift")
SECONDS = 180  # for one class; what was not reached by then is undecided
PROCESSES = 2
WORDS = torch.randint(5, 101, (1, 13), generator=torch.Generator().manual_seed(0))
LARGEST = 30_000_000  # parameters; what is larger could not be made small


class MaskAlone(nn.Module):
    """A model that gets the padding mask but no positions: model(input_ids, attention_mask)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


# ------------------------------------------------------------------------------------------------------------- transformers


def classes() -> list[str]:
    """Every class that transformers lists for text generation, once."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return list(dict.fromkeys(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()))


def tiny_model(name: str, **fields: Any) -> nn.Module:
    """A class of transformers, tiny, at random weights, in float64. Raises EquiscopeError where it cannot be built."""
    import transformers

    transformers.logging.set_verbosity_error()
    results = getattr(transformers, name)
    torch.manual_seed(0)
    with promote_float64():
        config = tiny(config_class_of(results), **fields)
        config._experts_implementation = "eager"  # grouped products of experts have no kernel for float64
        model = model_of(results, config)
    size = sum(p.numel() for p in model.parameters())
    if size > LARGEST:
        raise EquiscopeError(f"it could not be made small: {size / 1e6:.0f} million parameters")
    return model.double()


def audit_of(model: nn.Module, words: Tensor | None = None, effort: str = "default") -> dict[str, Row]:
    """The rows of one class, by column. words: ids, where not those that fit its places."""
    with promote_float64():
        given = inputs_for(model) if words is None else None
    ids = {"input_ids": words if given is None else given.kwargs.get("input_ids", given.args[0] if given.args else None)}
    asked = {"properties": PROPERTIES, "actions": "shift", "effort": effort, "seconds": SECONDS}
    audit = check(model, kwargs=ids, pick="logits", proof=False, **asked)
    rows = {row.name: row for row in audit}
    alone = rows["left-padding"]
    if "attention_mask" in inspect.signature(model.forward).parameters:
        alone = check(MaskAlone(model), kwargs=ids, effort="quick", proof=False, properties="left-padding").rows[0]
    return {column: alone if column == MASK_ALONE else rows[column] for column in COLUMNS[1:]}


def cell(row: Row) -> str:
    """A verdict in a few letters: empty where it holds."""
    if row.verdict == "holds":
        return "✓"
    if row.verdict in ("not applicable", "undecided"):
        return "–" if row.verdict == "not applicable" else "?"
    size = "∞" if row.error is None else f"{row.error:.0e}"
    mark = "≈ " if row.verdict == "approximate" else ""
    return f"{mark}**{size}**{'ʳ' if row.parameters == 'random' else ''}"


def row_of(name: str) -> dict[str, Row] | str:
    """The rows of a class, or why it could not be built or run."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        return audit_of(tiny_model(name))
    except Exception as error:  # other people's code
        return " ".join(str(error).split())[:220]


def swept(names: list[str], tell: Callable[[str], None]) -> tuple[list[tuple[str, dict[str, Row]]], list[tuple[str, str]]]:
    """Rows of every class, and the reason for classes that could not be built or run."""
    rows, failed = [], []
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as processes:
        for name, results in zip(names, processes.map(row_of, names), strict=True):
            tell(name)
            if isinstance(results, str):
                failed.append((name, results))
            else:
                rows.append((name, results))
    return rows, failed


# ------------------------------------------------------------------------------------------------- rope types of one class


HALF = 8  # angles of a head of 16 features
ROPES: dict[str, dict[str, Any]] = {
    "default": {}, "linear": {"factor": 4.0}, "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 8},
    "longrope": {"short_factor": [1.0] * HALF, "long_factor": [float(2 + i) for i in range(HALF)], "factor": 4.0,
                 "original_max_position_embeddings": 8},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8},
}  # fmt: skip


def ropes() -> list[tuple[str, dict[str, Row]]]:
    """Every rope type of Llama, with sequences (13 tokens) longer than the original maximum (8)."""
    results = []
    for name, fields in ROPES.items():
        parameters = {"rope_type": name, "rope_theta": 10000.0, **fields}
        most = 32 if "original_max_position_embeddings" in fields else 8
        model = tiny_model("LlamaForCausalLM", rope_parameters=parameters, max_position_embeddings=most)
        results.append((name, audit_of(model, WORDS)))
    return results


# ------------------------------------------------------------------------------------------------------------ x-transformers


class Step:
    """The output of a step of x-transformers: logits, and as cache the tokens so far with the caches of the layers."""

    def __init__(self, logits: Tensor, words: Tensor, caches: Any) -> None:
        self.logits, self.past_key_values = logits, (words, caches)


class Adapted(nn.Module):
    """A TransformerWrapper with the call of transformers' models; the cache as in its own generate()."""

    config = None

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None,
                past_key_values: Any = None, use_cache: bool = False) -> Any:  # fmt: skip
        padding_arguments: dict[str, Any] = {}
        if attention_mask is not None:
            before = (attention_mask.cumsum(-1) == 0).sum(-1)  # padding in front shifts positions, other padding does not
            padding_arguments |= {"seq_start_pos": before, "mask": attention_mask.bool()}
        if not use_cache:
            if position_ids is not None and attention_mask is None:  # seq_start_pos says both
                if not bool((position_ids == position_ids[:1]).all()):
                    raise ValueError("it takes one row of positions for all sequences")
                padding_arguments["pos"] = position_ids[0]
            return self.net(input_ids, **padding_arguments)
        if not self.net.can_cache_kv:
            raise ValueError("it says itself that it cannot be cached (can_cache_kv), and generate() does not")
        words, caches = (input_ids, None) if past_key_values is None else past_key_values
        if past_key_values is not None:
            words, padding_arguments["cache_age"] = torch.cat([words, input_ids], -1), input_ids.shape[-1]
        logits, caches = self.net(words, return_intermediates=True, cache=caches, **padding_arguments)
        return Step(logits[:, -input_ids.shape[-1] :], words, caches)


NO_TABLE = {"use_abs_pos_emb": False}
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # name -> of the layers, of the wrapper around them
    "learned positions (default)": ({}, {}),
    "no positions": ({}, NO_TABLE),
    "scaled sinusoids": ({}, {"scaled_sinu_pos_emb": True}),
    "rotary": ({"rotary_pos_emb": True}, {}),
    "rotary, no table": ({"rotary_pos_emb": True}, NO_TABLE),
    "rotary xpos, no table": ({"rotary_xpos": True}, NO_TABLE),
    "rotary, interpolated, no table": ({"rotary_pos_emb": True, "rotary_interpolation_factor": 2.0}, NO_TABLE),
    "polar, no table": ({"polar_pos_emb": True}, NO_TABLE),
    "alibi (as documented)": ({"alibi_pos_bias": True}, {}),
    "alibi, no table": ({"alibi_pos_bias": True}, NO_TABLE),
    "T5 bias (as documented)": ({"rel_pos_bias": True}, {}),
    "T5 bias, no table": ({"rel_pos_bias": True}, NO_TABLE),
    "dynamic position bias, no table": ({"dynamic_pos_bias": True}, NO_TABLE),
    "dynamic, log distance, no table": ({"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": True}, NO_TABLE),
    "data-dependent alibi, no table": ({"attn_data_dependent_alibi": True}, NO_TABLE),
    "shift_tokens, no table": ({"shift_tokens": 1}, NO_TABLE),
    "sandwich norm, rotary": ({"sandwich_norm": True, "rotary_pos_emb": True}, NO_TABLE),
    "residual attention, rotary": ({"residual_attn": True, "rotary_pos_emb": True}, NO_TABLE),
    "macaron, rotary": ({"macaron": True, "rotary_pos_emb": True}, NO_TABLE),
    "gated residual, rotary": ({"gate_residual": True, "rotary_pos_emb": True}, NO_TABLE),
    "value residual, rotary": ({"add_value_residual": True, "rotary_pos_emb": True}, NO_TABLE),
    "hyper-connections, rotary": ({"num_residual_streams": 2, "rotary_pos_emb": True}, NO_TABLE),
    "integrated layers, rotary": ({"integrate_layers": True, "rotary_pos_emb": True}, NO_TABLE),
    "U-net skips, rotary": ({"unet_skips": True, "rotary_pos_emb": True}, NO_TABLE),
    "grouped keys, rotary": ({"attn_kv_heads": 2, "rotary_pos_emb": True}, NO_TABLE),
    "one key head, rotary": ({"attn_one_kv_head": True, "rotary_pos_emb": True}, NO_TABLE),
    "query-key norm, rotary": ({"attn_qk_norm": True, "rotary_pos_emb": True}, NO_TABLE),
    "talking heads, rotary": ({"attn_pre_talking_heads": True, "attn_post_talking_heads": True, "rotary_pos_emb": True}, NO_TABLE),
    "sparse top-k, rotary": ({"attn_sparse_topk": 3, "rotary_pos_emb": True}, NO_TABLE),
    "memory keys, rotary": ({"attn_num_mem_kv": 3, "rotary_pos_emb": True}, NO_TABLE),
    "softclamped logits, rotary": ({"attn_softclamp_logits": True, "rotary_pos_emb": True}, NO_TABLE),
    "flash, rotary": ({"attn_flash": True, "rotary_pos_emb": True}, NO_TABLE),
    "window of 4, rotary": ({"attn_max_attend_past": 4, "rotary_pos_emb": True}, NO_TABLE),
    "selective attention, rotary": ({"attn_selective": True, "rotary_pos_emb": True}, NO_TABLE),
    "head scale, rotary": ({"attn_head_scale": True, "rotary_pos_emb": True}, NO_TABLE),
    "gated values, rotary": ({"attn_gate_values": True, "rotary_pos_emb": True}, NO_TABLE),
    "sigmoid attention, rotary": ({"attn_sigmoid": True, "rotary_pos_emb": True}, NO_TABLE),
    "RMS norm, GLU, rotary": ({"use_rmsnorm": True, "ff_glu": True, "rotary_pos_emb": True}, NO_TABLE),
    "contextual positions (CoPE)": ({"attn_use_cope": True, "attn_cope_max_pos": 16}, NO_TABLE),
    "memory tokens, rotary": ({"rotary_pos_emb": True}, NO_TABLE | {"num_memory_tokens": 3}),
}  # fmt: skip


def wrapped(layers: dict[str, Any], around: dict[str, Any]) -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    torch.manual_seed(0)
    with promote_float64():
        decoder = Decoder(dim=32, depth=2, heads=4, attn_dim_head=16, verbose=False, **layers)
        return TransformerWrapper(num_tokens=101, max_seq_len=512, attn_layers=decoder, **around).double().eval()


def options(tell: Callable[[str], None]) -> tuple[list[tuple[str, dict[str, Row]]], list[tuple[str, str]]]:
    """The option grid of x-transformers."""
    rows, failed = [], []
    ids = {"input_ids": WORDS}
    for name, (layers, around) in OPTIONS.items():
        tell(name)
        try:
            model = Adapted(wrapped(layers, around))
            audit = check(model, kwargs=ids, proof=False, properties=OF_OPTIONS, actions=["shift"], pick=_logits)
            rows.append((name, {row.name: row for row in audit}))
        except Exception as error:  # other people's code
            failed.append((name, " ".join(str(error).split())[:220]))
    return rows, failed


def _logits(output: Any) -> Any:
    return getattr(output, "logits", output)


# -------------------------------------------------------------------------------------------------------------------- pages


HEAD = """<!-- Generated by `python docs/sweep.py`. Do not edit. -->

"""
TRANSFORMERS = """# Results for transformers

{count} of the {all} classes that transformers {transformers} lists for text generation, at a small size with random weights:
one float64 model each ({versions}). The end of this page lists the others. The text has 13 tokens. Causality and caches are
measured at other lengths too: those of the model's blocks and windows, powers of two, 263 and 512, as far as the model accepts
them.

A cell is ✓ where the verdict is *holds* (errors near 1e-16); else the worst relative error of the logits. ≈ is *approximate*,
below 1e-2; any other number is *broken*. ʳ: only at random parameters; the class's own initialisation hides it. – is
*not applicable*, ? is *undecided*.

- *causal*: changing or removing later tokens does not change the output at earlier ones.
- *cache*: one token at a time, and pieces of several tokens, give the outputs of one pass.
- *left-padding*: padding before the tokens does not change their outputs, given `attention_mask` and, where the class takes them,
  `position_ids` that count tokens. *mask alone*: the same with `attention_mask` only. *right-padding*: padding after the tokens.
- *packing*: documents in one sequence, with `position_ids` that restart, give the outputs of each alone. No class has to do this.
- *batch*: a sequence gives the same output alone and in a batch. *deterministic*: two calls give the same numbers, bit for bit.
- *pure*: a call does not change its inputs or the model, and no call depends on an earlier one.
- *shift*: the same tokens at later positions give the same output. No class has to do this: RoPE does, learned tables do not.

"""
FINDINGS = """
## Findings, confirmed

Each is a function of `docs/why/confirm/{file}.py`, a few lines that use {library} and torch alone. The numbers are those
that it printed for this page: relative errors of the logits. The weights are float64, but a class may cast to float32 inside:
a result that is right then has an error of up to about 2e-06.

"""
OTHERWISE = """
## Examined: no fault of the class, or undecided

- `XLNetLMHeadModel` is bidirectional unless it gets a `perm_mask`; it does not claim causality, and the check does not expect it.
- `RwkvForCausalLM` takes a padding mask, and warns that it does not use it.
- `RecurrentGemmaForCausalLM`, cache and shift: its state restarts where a position is 0; run in pieces with `DynamicCache`, as
  `generate()` creates it. Not confirmed except for padding: undecided.
- `RwkvForCausalLM`, pure, holds in the table: with two layers the weights are divided by 1, which changes no number. With more
  layers it does (`rwkv_rescales`).
- `ProphetNetForCausalLM`, right-padding: it depends on the length (`prophetnet_mixes_rows`). `CpmAntForCausalLM`,
  right-padding: it is bidirectional (`cpm_ant_reads_ahead`). `ReformerModelWithLMHead`, pure: its random numbers.
- Errors of 1e-8 to 1e-10 in GPT-J, CodeGen, RoFormer and MiniMax came from tables computed in float32; here these are computed in
  float64, and no error is left.

"""
XTRANSFORMERS = """# Results for x-transformers

The options of x-transformers {x_transformers}, one at a time, in a causal `TransformerWrapper` of two layers at random weights, on
13 tokens, in float64. *no table* is `use_abs_pos_emb=False`: without it, learned positions are added whatever else is chosen.
Cells as in [the page on transformers](transformers.md). *cache* is what `generate()` does: `return_intermediates=True`, then
`cache=` with all tokens so far. Padding is given as `mask=`, left padding also as `seq_start_pos=`, as `generate(prompt_lens=...)`
gives it; positions for *shift* are given as `pos=`.

"""


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    if arguments:
        names = [n for n in classes() if any(a in n for a in arguments)]
        rows, failed = swept(names, lambda name: None)
        print(table(COLUMNS, ((f"`{n}`", *(cell(r) for r in results.values())) for n, results in rows)))
        for name, results in rows:
            print("".join(f"{name}, {column}: {said(row)}\n" for column, row in results.items() if said(row)), end="")
        print("".join(f"{name}: {why}\n" for name, why in failed))
        return 0
    tell = (lambda name: print(name, end=" ", flush=True)) if sys.stderr.isatty() else (lambda name: None)
    (FOLDER / "transformers.md").write_text(transformers_page(tell), encoding="utf-8")
    if importlib.util.find_spec("x_transformers") is None:
        print("x-transformers is not installed: its page stays as it is")
    else:
        (FOLDER / "x-transformers.md").write_text(x_transformers_page(tell), encoding="utf-8")
    return 0


def said(row: Row) -> str:
    """What a row says beyond its cell."""
    if row.verdict in ("holds", "not applicable"):
        return ""
    words = [row.counterexample.text if row.counterexample else "", row.where and f"first in {row.where}", row.cause, row.note]
    return "; ".join(w for w in words if w)


def transformers_page(tell: Callable[[str], None]) -> str:
    import transformers

    names = classes()
    rows, failed = swept(names, tell)
    head = TRANSFORMERS.format(transformers=transformers.__version__, count=len(rows), all=len(names), versions=versions())
    return "".join([
        HEAD, head, "".join(findings("in_transformers", "transformers")),
        OTHERWISE, "\n## Rope types, past the original maximum\n\nLlama, 13 tokens, an original maximum of 8.\n\n",
        table(("rope type", *COLUMNS[1:]), ((f"`{n}`", *map(cell, results.values())) for n, results in ropes())),
        "\n## All classes\n\n", table(COLUMNS, ((f"`{n}`", *map(cell, results.values())) for n, results in rows)),
        "\n## Where it breaks\n\n",
        "Rows that fail or are undecided; packing and shift are left out, since no class has to do them.\n\n", *where(rows),
        *unbuilt("classes", failed),
    ])  # fmt: skip


def where(rows: list[tuple[str, dict[str, Row]]]) -> Iterator[str]:
    for name, results in rows:
        for column, row in results.items():
            if column not in ("shift", "packing", MASK_ALONE) and (words := said(row)):
                yield f"- `{name}`, {column}: {textwrap.shorten(escaped(words), 300, placeholder=' ...')}\n"


def x_transformers_page(tell: Callable[[str], None]) -> str:
    from importlib.metadata import version

    rows, failed = options(tell)
    columns = ("options", *OF_OPTIONS, "shift")
    head = XTRANSFORMERS.format(x_transformers=version("x-transformers"))
    return "".join([
        HEAD, head, *findings("in_x_transformers", "x-transformers"),
        "\n## All options\n\n", table(columns, ((n, *(cell(results[c]) for c in columns[1:])) for n, results in rows)),
        "\n## Where it breaks\n\n", *where(rows), *unbuilt("options", failed),
    ])  # fmt: skip


def unbuilt(what: str, failed: list[tuple[str, str]]) -> Iterator[str]:
    """What could not be built or run, and why."""
    if failed:
        yield f"\n## {what.capitalize()} that could not be built or run\n\n"
    yield from (f"- `{name}`: {escaped(why)}\n" for name, why in failed)


def findings(file: str, library: str) -> Iterator[str]:
    """Docstrings and numbers of the functions that confirm."""
    yield FINDINGS.format(file=file, library=library)
    module = importlib.import_module(f"confirm.{file}")
    for function in module.FINDINGS:
        title, _, text = inspect.getdoc(function).partition("\n\n")
        numbers = ", ".join(f"{name} **{error:.0e}**" if error else f"{name} 0" for name, error in function().items())
        yield f"### {title.rstrip('.')}\n\n{' '.join(text.split())} Measured (`{function.__name__}`): {numbers}.\n\n"


def versions() -> str:
    return f"torch {torch.__version__}, Python {platform.python_version()}"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heading, ("---",) * len(heading), *rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
