"""Field: integers modulo the prime 2^31 - 1 in the place of real numbers, so that equal formulas have equal numbers.

Two formulas of +, -, *, / and functions without assumptions (exp, gelu, rows of a table) are identical if and only if they agree
for random values of their indeterminates in a large field; different formulas agree by chance in one case of 2^31 (Schwartz 1980;
Zippel 1979). Every other function is a random function here: a hash. Nothing is rounded, so equal numbers mean equality for all
inputs and all parameters. Infinities are added to the field, because masks consist of them.
"""

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

PRIME = 2**31 - 1
LOW, HIGH, NONE = PRIME, PRIME + 1, PRIME + 2  # minus infinity, infinity, not a number


def _signed(n: int) -> int:
    return n - 2**64 if n >= 2**63 else n


_A, _B, _C = map(_signed, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class NoRule(Exception):
    """There is no rule for this operation on these values; it is then a function of everything that it reads."""


def hash_key(*words: object) -> int:
    """A number for a name, equal in every run."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def hashed(v: Tensor, name: int) -> Tensor:
    """A random function of each number, a different one for each name (splitmix64, int64 products wrap)."""
    z = v * _A + name
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _B
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _C
    z = z ^ ((z >> 31) & (2**33 - 1))
    return (z & (2**62 - 1)) % PRIME


def function(name: object, *values: Tensor) -> Tensor:
    """A function of several numbers, known by its name only."""
    result = hashed(values[0], hash_key(name, 0))
    for number, v in enumerate(values[1:], 1):
        result = hashed(result * _C + v, hash_key(name, number))
    return result


def symmetric(name: object, a: Tensor, b: Tensor) -> Tensor:
    """A symmetric function of two numbers."""
    return function(name, a + b, hashed(a, hash_key(name)) + hashed(b, hash_key(name)))


def indeterminates(shape: Sequence[int], *name: object) -> Tensor:
    """Random numbers in the place of unknown ones, equal for equal names."""
    generator = torch.Generator().manual_seed(hash_key(*name) & (2**62 - 1))
    return torch.randint(1, PRIME, tuple(shape), generator=generator)


def constant(t: Tensor, masks_infinite: bool = False) -> Tensor:
    """Constants. Integers are themselves; any other number x is an indeterminate of its own, and -x its negative.

    masks_infinite  numbers below -10 000 count as minus infinity
    """
    if t.is_complex():
        raise NoRule
    if not t.is_floating_point():
        return t.long() % PRIME
    d = t.detach().double()
    whole = (d == d.round()) & (d.abs() < PRIME)
    hashed_value = hashed(d.abs().contiguous().view(torch.int64), hash_key("constant"))
    result = (
        torch.where(whole, d.nan_to_num(0.0, 0.0, 0.0).clamp(-PRIME, PRIME).long(), torch.where(d < 0, -hashed_value, hashed_value))
        % PRIME
    )
    low = d < -1e4 if masks_infinite else d == float("-inf")
    return result.masked_fill(low, LOW).masked_fill(d == float("inf"), HIGH).masked_fill(d != d, NONE)


def all_finite(*values: Tensor) -> bool:
    """Whether the values contain no infinity and no NaN."""
    return all(not bool((v >= PRIME).any()) for v in values)


def add(a: Tensor, b: Tensor) -> Tensor:
    result = (a + b) % PRIME
    if all_finite(a, b):
        return result
    low, high = (a == LOW) | (b == LOW), (a == HIGH) | (b == HIGH)
    none = (a == NONE) | (b == NONE) | (low & high)
    return result.masked_fill(low, LOW).masked_fill(high, HIGH).masked_fill(none, NONE)


def negative(a: Tensor) -> Tensor:
    result = -a % PRIME
    return result.masked_fill(a == LOW, HIGH).masked_fill(a == HIGH, LOW).masked_fill(a == NONE, NONE)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product. The sign of an infinity times a formula is unknown: it becomes an indeterminate."""
    if all_finite(a, b):
        return a * b % PRIME
    a, b = torch.broadcast_tensors(a, b)
    result = torch.where((a < PRIME) & (b < PRIME), a * b % PRIME, symmetric("endless", a, b))
    for x, y in ((a, b), (b, a)):
        result = torch.where((x >= PRIME) & (y == 1), x, result)
        result = torch.where((x >= PRIME) & (y == 0), NONE, result)
    return result.masked_fill((a == NONE) | (b == NONE), NONE)


def power(a: Tensor, n: int) -> Tensor:
    """An integer power, by squaring."""
    if not all_finite(a):
        raise NoRule
    result = torch.ones_like(a)
    while n:
        if n & 1:
            result = result * a % PRIME
        a, n = a * a % PRIME, n >> 1
    return result


def inverse(a: Tensor) -> Tensor:
    """1/a; NaN where a is 0, and 0 where a is infinite."""
    result = power(a.masked_fill(a >= PRIME, 1), PRIME - 2).masked_fill(a == 0, NONE)
    return result.masked_fill((a == LOW) | (a == HIGH), 0).masked_fill(a == NONE, NONE)


def bilinear(product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A product of matrices or a convolution, exact: computed from halves of 16 bits in float64."""
    if not all_finite(a, b):
        raise NoRule
    (a1, a0), (b1, b0) = (((v >> 16).double(), (v & 0xFFFF).double()) for v in (a, b))
    upper = product(a1, b1).long() % PRIME
    middle = (product(a1, b0) + product(a0, b1)).long() % PRIME
    return (2 * upper + (middle << 16) + product(a0, b0).long()) % PRIME  # 2^32 is 2


def total(a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """The sum along axes."""
    if not dims:
        return a
    result = (a.masked_fill(a >= PRIME, 0)).sum(dims, keep) % PRIME
    if all_finite(a):
        return result
    low, high, none = ((a == code).sum(dims, keep) > 0 for code in (LOW, HIGH, NONE))
    return result.masked_fill(low, LOW).masked_fill(high, HIGH).masked_fill(none | (low & high), NONE)


def product(a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """The product along axes."""
    if not all_finite(a):
        raise NoRule
    for dim in dims:
        result = torch.ones_like(a.select(dim, 0)) if a.shape[dim] else torch.ones_like(a.sum(dim))
        for piece in a.unbind(dim):
            result = result * piece % PRIME
        a = result.unsqueeze(dim)
    if not keep:
        for dim in sorted((d % a.ndim for d in dims), reverse=True):
            a = a.squeeze(dim)
    return a


def unordered(name: object, a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """A function of all numbers along axes that does not depend on their order."""
    return hashed(hashed(a, hash_key(name, "each")).sum(dims, keep) % PRIME if dims else a, hash_key(name, "all"))


def ordered(name: object, a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """A function of all numbers along axes in their order: a sum weighted with an indeterminate for each position."""
    if not all_finite(a):
        a = torch.where(a >= PRIME, hashed(a, hash_key("endless")), a)
    for dim in dims:
        shape = [1] * a.ndim
        shape[dim] = a.shape[dim]
        position_key = indeterminates((a.shape[dim],), name, "place", dim % a.ndim).view(shape)
        a = (a * position_key % PRIME).sum(dim, keepdim=True) % PRIME
    result = hashed(a, hash_key(name, "list"))
    if not keep:
        for dim in sorted((d % a.ndim for d in dims), reverse=True):
            result = result.squeeze(dim)
    return result
