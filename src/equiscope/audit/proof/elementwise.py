"""Entry by entry: sums and products are exact; every other function of an entry is a function of which nothing is assumed."""

from typing import Any

import torch
from torch import Tensor

from equiscope.audit.proof.field import (
    HIGH,
    LOW,
    NONE,
    PRIME,
    NoRule,
    add,
    function,
    inverse,
    multiply,
    negative,
    plain,
    power,
    symmetric,
)
from equiscope.audit.proof.formulas import Call, Formulas, Rule, truth


def _scaled(call: Call, b: Tensor) -> Tensor:
    alpha = call.kwargs.get("alpha", 1)
    return b if alpha == 1 else multiply(b, call.lifted(alpha))


def _sum(call: Call) -> Tensor:
    a, b = call.args[:2]
    if truth(a) and truth(b):
        return _either(call)
    return add(call.lifted(a), _scaled(call, call.lifted(b)))


def _difference(call: Call) -> Tensor:
    return add(call.lifted(call.args[0]), negative(_scaled(call, call.lifted(call.args[1]))))


def _reversed_difference(call: Call) -> Tensor:
    return add(call.lifted(call.args[1]), negative(_scaled(call, call.lifted(call.args[0]))))


def _times(call: Call, a: object, b: object) -> Tensor:
    """An infinity keeps its sign beside a number that is known to be positive."""
    x, y = call.lifted(a), call.lifted(b)
    for endless, other in ((x, b), (y, a)):
        if bool((endless >= PRIME).any()) and not isinstance(other, Formulas):
            sign = torch.sign(torch.as_tensor(other).double())
            made = torch.where(endless < PRIME, multiply(endless.masked_fill(endless >= PRIME, 1), call.lifted(other)), endless)
            flipped = torch.where(endless < PRIME, made, negative(endless))
            made = torch.where(sign < 0, flipped, made)
            return made.masked_fill((endless >= PRIME) & (sign == 0), NONE)
    return multiply(x, y)


def _product(call: Call) -> Tensor:
    return _times(call, call.args[0], call.args[1])


def _quotient(call: Call) -> Tensor:
    if (how := call.kwargs.get("rounding_mode")) is not None:
        return function(("div", how), *torch.broadcast_tensors(call.lifted(call.args[0]), call.lifted(call.args[1])))
    a, b = call.args[:2]
    if isinstance(b, Formulas) or plain(call.lifted(a)):
        return multiply(call.lifted(a), inverse(call.lifted(b)))
    return _times(call, a, torch.as_tensor(b).double().reciprocal())


def _power(call: Call) -> Tensor:
    base, exponent = call.args[:2]
    if isinstance(exponent, (int, float)) and exponent == int(exponent) and abs(exponent) <= 64 and isinstance(base, Formulas):
        raised = power(base.t, abs(int(exponent)))
        return raised if exponent >= 0 else inverse(raised)
    if isinstance(exponent, float) and abs(exponent) == 0.5:
        return function("sqrt" if exponent > 0 else "rsqrt", base.t)
    return function("pow", *torch.broadcast_tensors(call.lifted(base), call.lifted(exponent)))


def _exp(call: Call) -> Tensor:
    return exponential(call.args[0].t)


def exponential(t: Tensor) -> Tensor:
    """exp, of which no more is said than that it is 0 at minus infinity."""
    return function("exp", t).masked_fill(t == LOW, 0).masked_fill(t == HIGH, HIGH).masked_fill(t == NONE, NONE)


def _where(call: Call) -> Tensor:
    chosen, a, b = (call.lifted(v) for v in call.args[:3])
    return select(chosen, a, b)


def select(chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where true, b where false: chosen * a + (1 - chosen) * b, for truth values that are letters too."""
    chosen, a, b = torch.broadcast_tensors(chosen, a, b)
    made = add(multiply(chosen, a), multiply((1 - chosen) % PRIME, b))
    made = torch.where((a >= PRIME) | (b >= PRIME), function("where", chosen, a, b), made)
    made = torch.where(a == b, a, made)
    return torch.where(chosen == 1, a, torch.where(chosen == 0, b, made))


def _filled(call: Call) -> Tensor:
    x, mask, value = (call.lifted(v) for v in call.args[:3])
    return select(mask, value, x)


def _truths(call: Call) -> list[Tensor]:
    return [call.lifted(v) if truth(v) else nonzero(call.lifted(v)) for v in call.args[:2]]


def nonzero(t: Tensor) -> Tensor:
    """Whether a number is not 0: a letter, unless it is known to be."""
    return function("nonzero", t).masked_fill(t == 0, 0).masked_fill(t == 1, 1)


def _both(call: Call) -> Tensor:
    a, b = _truths(call)
    return a * b % PRIME


def _either(call: Call) -> Tensor:
    a, b = _truths(call)
    return (a + b - a * b % PRIME) % PRIME


def _one_of(call: Call) -> Tensor:
    a, b = _truths(call)
    return (a + b - 2 * (a * b % PRIME)) % PRIME


def _not(call: Call) -> Tensor:
    return (1 - _truths(call)[0]) % PRIME


def _bitwise(rule: Rule) -> Rule:
    def checked(call: Call) -> Tensor:
        if not all(truth(v) for v in call.args):
            return anything(call)
        made = rule(call)
        assert isinstance(made, Tensor)
        return made

    return checked


def _same(call: Call) -> Tensor:
    a, b = torch.broadcast_tensors(call.lifted(call.args[0]), call.lifted(call.args[1]))
    return torch.where(a == b, 1, symmetric("eq", a, b)).masked_fill((a == NONE) | (b == NONE), 0)


def _other(call: Call) -> Tensor:
    return (1 - _same(call)) % PRIME


def _larger(call: Call) -> Tensor:
    a, b = torch.broadcast_tensors(call.lifted(call.args[0]), call.lifted(call.args[1]))
    return symmetric(call.name, a, b)


def _copied(call: Call) -> Tensor:
    """A cast: exact between numbers of a kind; to whole numbers it drops what follows the point."""
    value = call.args[0]
    target = call.made.dtype if call.made is not None else value.dtype
    if value.dtype.is_complex and target != value.dtype:
        raise NoRule
    if target == value.dtype or target.is_floating_point:
        return call.lifted(value)
    if target == torch.bool:
        return nonzero(value.t)
    if target.is_complex:
        raise NoRule
    return call.lifted(value) if not value.dtype.is_floating_point else function("whole", value.t)


def _identity(call: Call) -> Tensor:
    return call.lifted(call.args[0])


def anything(call: Call) -> Tensor:
    """A function of the entries that stand at one place. What is no tensor belongs to its name."""
    given = [v for v in call.args if isinstance(v, (Tensor, Formulas))]
    if any(isinstance(v, (list, tuple)) and any(isinstance(x, (Tensor, Formulas)) for x in v) for v in call.args):
        raise NoRule
    named = {n: v for n, v in call.kwargs.items() if isinstance(v, (Tensor, Formulas))}
    words = tuple("·" if isinstance(v, (Tensor, Formulas)) else repr(v) for v in call.args)
    settings = tuple(sorted((n, "·" if n in named else repr(v)) for n, v in call.kwargs.items()))
    values = torch.broadcast_tensors(*(call.lifted(v) for v in (*given, *named.values())))
    made = function((call.name, words, settings) if len(words) > 1 or settings else call.name, *values)
    return _at_known(call, given[0], made) if len(given) == 1 and not named else made


def _at_known(call: Call, value: Any, made: Tensor) -> Tensor:
    """What a function of one number really is at 0, at 1 and at what is not finite: relu(0) = 0, exp(-inf) = 0."""
    if not isinstance(value, Formulas) or value.dtype.is_complex:
        return made
    points, numbers = [0, 1], [0.0, 1.0]
    if value.dtype.is_floating_point:
        points, numbers = [0, 1, LOW, HIGH, NONE], [0.0, 1.0, float("-inf"), float("inf"), float("nan")]
    given = torch.tensor(numbers, dtype=value.dtype)
    real = call.op(*(given if v is value else v for v in call.args), **call.kwargs)
    for point, found in zip(points, call.lifted(real), strict=True):
        made = torch.where(value.t == point, found, made)
    return made


RULES: dict[str, Rule] = {
    "add": _sum, "sub": _difference, "rsub": _reversed_difference, "mul": _product, "div": _quotient, "true_divide": _quotient,
    "neg": lambda call: negative(call.args[0].t), "reciprocal": lambda call: inverse(call.args[0].t), "pow": _power,
    "square": lambda call: power(call.args[0].t, 2), "exp": _exp, "where": _where, "masked_fill": _filled,
    "logical_and": _both, "logical_or": _either, "logical_xor": _one_of, "logical_not": _not,
    "bitwise_and": _bitwise(_both), "bitwise_or": _bitwise(_either), "bitwise_xor": _bitwise(_one_of),
    "bitwise_not": _bitwise(_not),
    "eq": _same, "ne": _other, "maximum": _larger, "minimum": _larger, "_to_copy": _copied, "clone": _identity, "alias": _identity,
    "detach": _identity, "lift_fresh_copy": _identity, "contiguous": _identity, "to": _copied, "convert_element_type": _copied,
}  # fmt: skip
