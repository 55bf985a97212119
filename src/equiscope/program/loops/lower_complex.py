"""Complex numbers as two real ones, and the Fourier transform as a product with its matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.program.loops.aten import ALIASES, LOWERED, VIEWS, Lowered
from equiscope.program.loops.loop_ir import LoopIR, Value
from equiscope.program.loops.lower_views import cat, viewed


@dataclass(frozen=True)
class Complex:
    """real + i imag, of one shape."""

    real: Value
    imag: Value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.real.shape


def constant(ir: LoopIR, t: Tensor) -> Value | Complex:
    """A tensor that no input changes."""
    if not t.is_complex():
        return ir.constant(t)
    t = t.resolve_conj()
    return Complex(ir.constant(t.real.contiguous()), ir.constant(t.imag.contiguous()))


def on_complex(name: str, leaves: Sequence[Any]) -> bool:
    """Whether an operation reads or makes complex numbers."""
    return name in MAKES or any(isinstance(x, (Complex, complex)) or (isinstance(x, torch.dtype) and x.is_complex) for x in leaves)


def complex_rule(op: Any, name: str) -> Lowered:
    """How an operation goes on complex numbers. Raises InputError where it has no steps."""
    if name in ALIASES:
        return lambda ir, x, *rest, **named: x
    if name in VIEWS:
        return _each_part(lambda ir, x, *rest, **named: viewed(ir, op, x, rest, named))
    if name in PARTWISE:
        return _each_part(LOWERED[name])
    if name not in RULES:
        raise InputError(f"A computation has no steps for {op} on complex numbers. Write it with their real and imaginary parts.")
    return RULES[name]


def _each_part(how: Lowered) -> Lowered:
    """Real and imaginary parts by themselves. A real number beside complex ones has none."""

    def both(ir: LoopIR, *arguments: Any, **named: Any) -> Any:
        def part(some: Any, of: str) -> Any:
            if isinstance(some, (list, tuple)):
                return [part(x, of) for x in some]
            return getattr(some, of) if isinstance(some, (Complex, complex)) else some

        both_parts = [how(ir, *part(arguments, of), **{k: part(x, of) for k, x in named.items()}) for of in ("real", "imag")]
        return tuple(map(Complex, *both_parts)) if isinstance(both_parts[0], tuple) else Complex(*both_parts)

    return both


PARTWISE = {
    "cat", "sum", "mean", "cumsum", "flip", "index", "index_select", "gather", "embedding", "constant_pad_nd", "neg", "repeat",
    "slice_scatter", "select_scatter", "copy",
}  # fmt: skip


def _parts(ir: LoopIR, x: Any) -> tuple[Any, Any]:
    if isinstance(x, (Complex, complex)):
        return x.real, x.imag
    return x, ir.constant(torch.zeros(())).expanded(x.shape) if isinstance(x, Value) else 0.0


def _added(op: str) -> Lowered:
    def how(ir: LoopIR, a: Any, b: Any, alpha: float = 1) -> Complex:
        b = b if alpha == 1 else _times(ir, b, alpha)
        return Complex(*(ir.apply(op, *pair) for pair in zip(_parts(ir, a), _parts(ir, b), strict=True)))

    return how


def _product(ir: LoopIR, a: Any, b: Any, times: Lowered) -> Complex:
    if not isinstance(b, (Complex, complex)):
        return Complex(times(ir, a.real, b), times(ir, a.imag, b))
    if not isinstance(a, (Complex, complex)):
        return Complex(times(ir, a, b.real), times(ir, a, b.imag))
    real = ir.apply("sub", times(ir, a.real, b.real), times(ir, a.imag, b.imag))
    return Complex(real, ir.apply("add", times(ir, a.real, b.imag), times(ir, a.imag, b.real)))


def _times(ir: LoopIR, a: Any, b: Any) -> Complex:
    return _product(ir, a, b, lambda ir, x, y: ir.apply("mul", x, y))


def _over(ir: LoopIR, a: Any, b: Any) -> Complex:
    if not isinstance(b, (Complex, complex)):
        return Complex(ir.apply("div", a.real, b), ir.apply("div", a.imag, b))
    if isinstance(b, complex):
        return _times(ir, a, 1 / b)
    size = _square(ir, b)
    product = _times(ir, a, _conjugate(ir, b))
    return Complex(ir.apply("div", product.real, size), ir.apply("div", product.imag, size))


def _square(ir: LoopIR, x: Complex) -> Value:
    return ir.apply("add", *(ir.apply("mul", part, part) for part in (x.real, x.imag)))


def _conjugate(ir: LoopIR, x: Complex) -> Complex:
    return Complex(x.real, ir.apply("neg", x.imag))


def _polar(ir: LoopIR, size: Value, angle: Value) -> Complex:
    return Complex(*(ir.apply("mul", size, ir.apply(op, angle)) for op in ("cos", "sin")))


def _copied(ir: LoopIR, x: Any, dtype: torch.dtype | None = None, **rest: Any) -> Any:
    if dtype is None or dtype.is_complex:
        return Complex(*_parts(ir, x))
    return LOWERED["_to_copy"](ir, x.real, dtype)  # torch drops the imaginary part


def _as_real(ir: LoopIR, x: Complex) -> Value:
    return cat(ir, [part.along(lambda t: t.unsqueeze(-1)) for part in (x.real, x.imag)], -1)


def _as_complex(ir: LoopIR, x: Value) -> Complex:
    return Complex(x.along(lambda t: t.select(-1, 0)), x.along(lambda t: t.select(-1, 1)))


# --- the Fourier transform
def _transform(ir: LoopIR, x: Any, dim: int, forward: bool, scale: float, length: int | None = None) -> Complex:
    """Along one axis: the sum of x[n] exp(-2 pi i n k / N), or with the other sign, for the first `kept` k."""
    many = x.shape[dim]
    phases = torch.outer(torch.arange(many), torch.arange(many if length is None else length)) % many
    angles = phases.double() * (2 * math.pi / many)
    table = torch.complex(angles.cos() * scale, angles.sin() * (-scale if forward else scale))

    def summed(ir: LoopIR, x: Value, table: Value) -> Value:
        last = x.along(lambda t: t.movedim(dim, -1).unsqueeze(-1))
        return ir.dot(last, table, [-2]).along(lambda t: t.movedim(-1, dim))

    return _product(ir, x, constant(ir, table), summed)


def _scale(kind: int, many: int) -> float:
    return {0: 1.0, 1: many**-0.5, 2: 1 / many}[kind]


def _complex_to_complex(ir: LoopIR, x: Any, dims: Sequence[int], kind: int, forward: bool) -> Any:
    for dim in dims:
        x = _transform(ir, x, dim % len(x.shape), forward, _scale(kind, x.shape[dim]))
    return x


def _real_to_complex(ir: LoopIR, x: Value, dims: Sequence[int], kind: int, onesided: bool) -> Complex:
    *rest, last = dims
    many = x.shape[last]
    transformed = _transform(ir, x, last % len(x.shape), True, _scale(kind, many), many // 2 + 1 if onesided else None)
    return _complex_to_complex(ir, transformed, rest, kind, True)


def _complex_to_real(ir: LoopIR, x: Complex, dims: Sequence[int], kind: int, many: int) -> Value:
    *rest, last = dims
    x = _complex_to_complex(ir, x, rest, kind, False)
    last = last % len(x.shape)
    held = many // 2 + 1
    x = Complex(*(part.along(lambda t: t.narrow(last, 0, held)) for part in (x.real, x.imag)))
    angles = (torch.outer(torch.arange(held), torch.arange(many)) % many).double() * (2 * math.pi / many)
    both = torch.full((held, 1), 2.0, dtype=torch.float64)  # each of the others stands for its conjugate too
    both[0], both[-1] = 1.0, 1.0 if many % 2 == 0 else both[-1]
    scale = _scale(kind, many)
    tables = angles.cos() * both * scale, angles.sin() * both * -scale
    parts = []
    for part, table in zip((x.real, x.imag), tables, strict=True):
        wide = part.along(lambda t: t.movedim(last, -1).unsqueeze(-1))
        parts.append(ir.dot(wide, ir.constant(table), [-2]).along(lambda t: t.movedim(-1, last)))
    return ir.apply("add", *parts)


MAKES = {"complex", "polar", "view_as_complex", "_fft_r2c", "_fft_c2c"}
RULES: dict[str, Lowered] = {
    "add": _added("add"), "sub": _added("sub"), "mul": _times, "div": _over,
    "mm": lambda ir, a, b: _product(ir, a, b, LOWERED["mm"]), "bmm": lambda ir, a, b: _product(ir, a, b, LOWERED["bmm"]),
    "complex": lambda ir, real, imag: Complex(real, imag), "polar": _polar, "_to_copy": _copied, "to": _copied,
    "real": lambda ir, x: x.real, "imag": lambda ir, x: x.imag, "view_as_real": _as_real, "view_as_complex": _as_complex,
    "_conj": _conjugate, "_conj_physical": _conjugate, "conj_physical": _conjugate, "resolve_conj": lambda ir, x: x,
    "abs": lambda ir, x: ir.apply("sqrt", _square(ir, x)), "angle": lambda ir, x: ir.apply("atan2", x.imag, x.real),
    "exp": lambda ir, x: _polar(ir, ir.apply("exp", x.real), x.imag),
    "_fft_r2c": _real_to_complex, "_fft_c2c": _complex_to_complex, "_fft_c2r": _complex_to_real,
}  # fmt: skip
