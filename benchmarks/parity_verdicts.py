"""What `parity` and four tolerances that are in use say of pairs of models, of which some are equal and some are not.

    python -m benchmarks.parity_verdicts             the tables of docs/howto/parity.md, written there and saved with versions
    python -m benchmarks.parity_verdicts --quick     every tenth pair; nothing saved
    python -m benchmarks.parity_verdicts --check     whether the page shows these tables

No pair is chosen for this comparison, except by these rules:

- every planted difference and every healthy pair of tests/audit/parity/planted_again and planted_by_others. `parity` was mended on
  some of them, a tolerance on none;
- four small differences (an epsilon, the form of GELU, the base of RoPE, a window off by one) in every architecture of
  planted_by_others that has the part, and the first and the third in the trained model `characters`;
- eager attention against SDPA in each of these architectures that has both, with 2 and with 24 layers in float32, with 2 layers in
  bfloat16; and each model of 2 layers in bfloat16 against float32.

A tolerance is applied to the outputs of both models in their own precision, as its source does. Of two precisions both outputs are
converted to float32.
"""

import argparse
import copy
import datetime
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.machine import ROOT, machine, save, versions
from tests.audit.parity.planted_again import cases as again
from tests.audit.parity.planted_by_others import judged
from tests.audit.parity.planted_by_others.originals import inputs_of, original
from torch import Tensor, nn

import equiscope as eq

PAGE = ROOT / "docs" / "howto" / "parity.md"
BEGIN, END = "<!-- table: python -m benchmarks.parity_verdicts -->", "<!-- end of the table -->"
DEEP = 24
EPSILON, ROPE = (1e-5, 1e-6), (10_000.0, 10_500.0)
EPSILONS = {
    "llama": "rms_norm_eps", "mistral": "rms_norm_eps", "qwen2": "rms_norm_eps", "qwen3": "rms_norm_eps", "gemma2": "rms_norm_eps",
    "gpt2": "layer_norm_epsilon", "neox": "layer_norm_eps", "bert": "layer_norm_eps", "t5": "layer_norm_epsilon",
    "vit": "layer_norm_eps",
}  # fmt: skip
GELUS = {
    "gpt2": "activation_function",
    "neox": "hidden_act",
    "bert": "hidden_act",
    "vit": "hidden_act",
    "gemma2": "hidden_activation",
}
ROPES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "neox")
WINDOWS = ("mistral", "gemma2")
NO_SDPA = ("gemma2",)  # SDPA has no soft-cap
DEPTH = {"gpt2": "n_layer", "t5": "num_layers"}  # else num_hidden_layers
Pair = tuple[Any, Any, tuple[Tensor, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """Two models, and whether they compute the same.

    group   the row of the table in which it counts
    named   whether an answer of `parity` names the right cause
    """

    group: str
    name: str
    same: bool
    make: Callable[[], Pair]
    named: Callable[[Any], bool] = lambda parity: False


# ---------------------------------------------------------------------------------------------------------------- the tolerances


def _assert_close(a: Tensor, b: Tensor) -> bool:
    try:
        torch.testing.assert_close(a, b)
    except AssertionError:
        return False
    return True


def _numpy(rtol: float, atol: float) -> Callable[[Tensor, Tensor], bool]:
    return lambda a, b: bool(np.allclose(a.float().numpy(), b.float().numpy(), rtol=rtol, atol=atol))


TOLERANCES: dict[str, Callable[[Tensor, Tensor], bool]] = {
    "`assert_close`": _assert_close,  # torch.testing, its defaults: rtol 1.3e-6, atol 1e-5 in float32. pytest-torch has the same
    "1e-5, 1e-5": _numpy(1e-5, 1e-5),  # rtol, atol: `validate_model_outputs` of transformers and optimum, by default
    "1e-3, 1e-5": _numpy(1e-3, 1e-5),  # PyTorch's tutorial on ONNX
    "1e-5, 1e-3": _numpy(1e-5, 1e-3),  # conversion scripts of transformers: torch.allclose(ours, theirs, atol=1e-3)
}
NAMES = ("`parity`", *TOLERANCES)


def tensors(found: Any) -> list[Tensor]:
    """Every floating tensor of what a model returned."""
    if isinstance(found, Tensor):
        return [found] if found.is_floating_point() else []
    if isinstance(found, dict):
        found = found.values()
    elif hasattr(found, "to_tuple"):
        found = found.to_tuple()
    return [t for part in found for t in tensors(part)] if isinstance(found, (list, tuple)) or hasattr(found, "__iter__") else []


def outputs(side: Any, inputs: tuple[Tensor, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """What a side returns: a module, an ONNX file, or recorded activations."""
    if isinstance(side, nn.Module):
        dtypes = {p.dtype for p in side.parameters() if p.is_floating_point()}
        dtype = dtypes.pop() if len(dtypes) == 1 else torch.float32
        side = side if not dtypes else copy.deepcopy(side).to(dtype)  # a part that B shares, recorded in float64
        with torch.no_grad():
            return tensors(side(*(x.to(dtype) if x.is_floating_point() else x for x in inputs), **kwargs))
    if side.endswith(".npz"):
        with np.load(side) as file:
            return [torch.from_numpy(file["output"])]
    import onnxruntime

    session = onnxruntime.InferenceSession(side, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return [torch.from_numpy(y) for y in session.run(None, {n: x.numpy() for n, x in zip(names, inputs, strict=False)})]


def close(name: str, a: list[Tensor], b: list[Tensor]) -> bool:
    """What a tolerance says: that the outputs are the same."""
    pairs = list(zip(a, b, strict=False))
    both = [(x, y) if x.dtype == y.dtype else (x.float(), y.float()) for x, y in pairs]
    return all(x.shape == y.shape and TOLERANCES[name](x, y) for x, y in both)


def largest(a: list[Tensor], b: list[Tensor], relative: bool = False) -> float:
    """The largest difference of the outputs, absolute or relative to the largest number of B's output."""
    sizes = []
    for x, y in zip(a, b, strict=False):
        if x.shape == y.shape:
            size = float((x.double() - y.double()).abs().max())
            sizes.append(size / float(y.double().abs().max()) if relative else size)
    return max(sizes, default=0.0)


# ------------------------------------------------------------------------------------------------------------------- the pairs


def two(family: str, *, one: dict[str, Any], other: dict[str, Any], depth: int = 2, dtype: Any = None, second: Any = None) -> Pair:
    """A model of transformers and the same with other settings."""
    deep = {DEPTH.get(family, "num_hidden_layers"): depth}
    a, b = (original(family, **deep | settings) for settings in (one, other))
    if dtype is not None:
        a, b = a.to(dtype), b.to(second or dtype)
    inputs = tuple(x.to(a.dtype) if x.is_floating_point() else x for x in inputs_of(family))
    return a, b, inputs, {}


def rope(family: str, base: float) -> dict[str, Any]:
    partial = {"partial_rotary_factor": 0.5} if family == "neox" else {}
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **partial}}


def trained(change: Callable[[nn.Module], None]) -> Pair:
    """The trained model of characters, and the same with a change, on a line of Shakespeare."""
    a, b = eq.load("characters").eval(), eq.load("characters").eval()
    change(b)
    return a, b, (torch.tensor([list(b"The king is dead, long live the king")]),), {}


def epsilon(model: nn.Module) -> None:
    """Change the epsilon of every norm."""
    for module in model.modules():
        if isinstance(module, nn.RMSNorm):
            module.eps = EPSILON[1]


def small() -> Iterator[Case]:
    """Small differences, each in every architecture that has the part."""

    def case(group: str, name: str, cause: str, make: Callable[[], Pair]) -> Case:
        return Case(group, name, not cause, make, lambda parity: parity.kind == cause)

    for family, field in EPSILONS.items():
        make = partial(two, family, one={field: EPSILON[0]}, other={field: EPSILON[1]})
        yield case("epsilon 1e-5 or 1e-6", f"epsilon-{family}", "epsilon", make)
    yield case("epsilon 1e-5 or 1e-6", "epsilon-characters", "epsilon", partial(trained, epsilon))
    for family, field in GELUS.items():
        make = partial(two, family, one={field: "gelu"}, other={field: "gelu_pytorch_tanh"})
        yield case("GELU by erf or by tanh", f"gelu-{family}", "activation", make)
    for family in ROPES:
        make = partial(two, family, one=rope(family, ROPE[0]), other=rope(family, ROPE[1]))
        yield case("RoPE base 10000 or 10500", f"rope-{family}", "rope base", make)
    yield case(
        "RoPE base 10000 or 10500", "rope-characters", "rope base", partial(trained, lambda m: setattr(m.position, "base", ROPE[1]))
    )
    for family in WINDOWS:
        for size, cause in ((4, "window"), (10, "window"), (11, "")):
            make = partial(two, family, one={"sliding_window": size}, other={"sliding_window": size + 1})
            seen = "11 tokens" if cause else "no token beyond it"
            yield case(f"window off by one, {seen}", f"window-{size}-{family}", cause, make)


def healthy() -> Iterator[Case]:
    """Eager attention against SDPA, and one precision against another."""
    for family in EPSILONS:
        for depth in (2, DEEP) if family not in NO_SDPA else ():
            make = partial(two, family, one={}, other={"attention": "sdpa"}, depth=depth)
            yield Case(f"eager or SDPA, {depth} layers, float32", f"sdpa-{depth}-{family}", True, make)
        if family not in NO_SDPA:
            half = partial(two, family, one={}, other={"attention": "sdpa"}, dtype=torch.bfloat16)
            yield Case("eager or SDPA, 2 layers, bfloat16", f"sdpa-bfloat16-{family}", True, half)
        both = partial(two, family, one={}, other={}, dtype=torch.bfloat16, second=torch.float32)
        yield Case("bfloat16 or float32", f"precision-{family}", True, both)


def cases() -> list[Case]:
    zoos = [("`planted_again`", again.CASES, again.HEALTHY), ("`planted_by_others`", judged.CASES, judged.HEALTHY)]
    found = []
    for group, planted, sound in zoos:
        found += [Case(group, case.name, False, case.make, case.right_cause) for case in planted]
        found += [Case(group, name, True, make) for name, make in sound.items()]
    return [*found, *small(), *healthy()]


# ------------------------------------------------------------------------------------------------------------------- the tables


def measured(case: Case) -> dict[str, Any]:
    """What each way says of a pair: True where it says that both sides compute the same."""
    torch.manual_seed(0)
    a, b, inputs, kwargs = case.make()
    ya, yb = outputs(a, inputs, kwargs), outputs(b, inputs, kwargs)
    said: dict[str, Any] = {name: close(name, ya, yb) for name in TOLERANCES}
    answer: dict[str, Any] = {"verdict": "", "where": "", "cause": "", "named": False}
    try:
        parity = eq.parity(a, b, *inputs, kwargs=kwargs)
        said["`parity`"] = parity.holds or parity.kind == "precision"
        answer |= {"verdict": parity.verdict, "where": parity.where, "cause": parity.kind, "named": case.named(parity)}
    except Exception as error:  # a crash is a wrong answer, not the end of the table
        said["`parity`"] = not case.same
        answer["verdict"] = f"{type(error).__name__}: {error}"
    sizes = {"largest": largest(ya, yb), "relative": largest(ya, yb, relative=True)}
    half = any(y.dtype in (torch.bfloat16, torch.float16) for y in (*ya, *yb))
    return {"group": case.group, "pair": case.name, "same": case.same, "half": half, **sizes, "says same": said, **answer}


def table(rows: list[dict[str, Any]], same: bool) -> str:
    """How many pairs of each group are called different."""
    groups = list(dict.fromkeys(row["group"] for row in rows if row["same"] == same))
    last = () if same else ("`parity`: right cause",)
    title = "pairs that compute the same: called different" if same else "pairs that differ: called different"
    lines = [f"| {' | '.join([title, 'pairs', *NAMES, *last])} |", "| --- " + "| --: " * (1 + len(NAMES) + len(last)) + "|"]
    for group in [*groups, "all"]:
        some = [row for row in rows if row["same"] == same and group in ("all", row["group"])]
        counts = [sum(not row["says same"][name] for row in some) for name in NAMES]
        right = 0 if same else len(some)
        cells = [f"{n}" if n == right else f"**{n}**" for n in counts]
        cells += [] if same else [str(sum(row["named"] for row in some))]
        lines.append(f"| {' | '.join([group, str(len(some)), *cells])} |")
    return "\n".join(lines)


def hindsight(rows: list[dict[str, Any]]) -> str:
    """The errors of the best limits on the largest difference, chosen on these pairs."""

    def best(some: list[dict[str, Any]], size: str) -> str:
        missed, alarms = min((errors(some, size, row[size]) for row in some), key=sum)
        return f"missed {missed}, false alarms {alarms}"

    single = [row for row in rows if not row["half"]]
    lines = [
        f"- {words}: {best(rows, size)}; without the pairs in bfloat16, {best(single, size)}"
        for size, words in (("relative", "relative to the largest output"), ("largest", "absolute"))
    ]
    return "The best tolerance on the largest difference, chosen when all answers are known:\n\n" + (";\n".join(lines) + ".")


def errors(rows: list[dict[str, Any]], size: str, limit: float) -> tuple[int, int]:
    """How many pairs that differ have at most this difference, and how many others have more."""
    return sum(r[size] <= limit for r in rows if not r["same"]), sum(r[size] > limit for r in rows if r["same"])


def text(rows: list[dict[str, Any]]) -> str:
    """What stands on the page."""
    return f"{table(rows, False)}\n\n{table(rows, True)}\n\n{hindsight(rows)}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every tenth pair; nothing saved")
    parser.add_argument("--check", action="store_true", help="whether the page shows these tables; nothing saved")
    parser.add_argument("--only", default="", metavar="WORD", help="pairs whose name has this word; nothing saved")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows, start = [], time.process_time()
    for case in [c for c in cases() if options.only in c.name][:: 10 if options.quick else 1]:
        rows.append(measured(case))
        wrong = [name for name in NAMES if rows[-1]["says same"][name] != case.same]
        if wrong:
            size, verdict = rows[-1]["largest"], rows[-1]["verdict"]
            print(f"{case.group}, {case.name}: wrong are {'; '.join(wrong)} (difference {size:.1e}, parity: {verdict})", flush=True)
    print(f"\n{text(rows)}\n\n{len(rows)} pairs, {time.process_time() - start:.0f} CPU seconds")
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    table_shown, tail = rest.split(END, 1)
    if options.check:
        stale = table_shown.strip() != text(rows)
        print("stale: docs/howto/parity.md. Run python -m benchmarks.parity_verdicts" if stale else "the page shows these tables")
        return int(stale)
    if not (options.quick or options.only):
        PAGE.write_text(f"{head}{BEGIN}\n\n{text(rows)}\n\n{END}{tail}", encoding="utf-8")
        date = datetime.date.today().isoformat()
        results = {"date": date, "machine": machine(), "versions": versions("transformers", "onnxruntime", "numpy"), "rows": rows}
        heading = f"# Verdicts of parity beside tolerances ({date})\n\n{results['machine']}, {results['versions']}\n\n"
        save("parity_verdicts", results, heading + text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
