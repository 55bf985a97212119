"""Field: whole numbers modulo the prime 2^31 - 1 instead of real ones, so that equal formulas are told by equal numbers.

Two formulas made of +, -, *, / and functions of which nothing is assumed (exp, gelu, a table's rows) are the same formula if and
only if they agree where their letters are random numbers of a large field: one that differs agrees by luck in one case of 2^31
(Schwartz 1980; Zippel 1979). Every other function is a random one here: a hash. So nothing is rounded, and what comes out equal
is equal for all inputs and all parameters. Infinities stand beside the field, since masks are made of them.
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
    """There is no rule for this operation on these values; the walk then takes it as a function of everything that it reads."""


def key(*words: object) -> int:
    """A number for a name, the same in every run."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def mixed(v: Tensor, name: int) -> Tensor:
    """A random function of each number, another for each name (splitmix64, int64 products wrap)."""
    z = v * _A + name
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _B
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _C
    z = z ^ ((z >> 31) & (2**33 - 1))
    return (z & (2**62 - 1)) % PRIME


def function(name: object, *values: Tensor) -> Tensor:
    """A function of several numbers, of which nothing is known but its name."""
    made = mixed(values[0], key(name, 0))
    for number, v in enumerate(values[1:], 1):
        made = mixed(made * _C + v, key(name, number))
    return made


def symmetric(name: object, a: Tensor, b: Tensor) -> Tensor:
    """The same of two numbers whose order does not matter."""
    return function(name, a + b, mixed(a, key(name)) + mixed(b, key(name)))


def letters(shape: Sequence[int], *name: object) -> Tensor:
    """Numbers of which nothing is known: random ones, the same for the same name."""
    generator = torch.Generator().manual_seed(key(*name) & (2**62 - 1))
    return torch.randint(1, PRIME, tuple(shape), generator=generator)


def constant(t: Tensor, deep: bool = False) -> Tensor:
    """Known numbers. Whole ones are themselves, others letters of their own, -x beside x.

    deep  what is below -10 000 counts as minus infinity
    """
    if t.is_complex():
        raise NoRule
    if not t.is_floating_point():
        return t.long() % PRIME
    d = t.detach().double()
    whole = (d == d.round()) & (d.abs() < PRIME)
    odd = mixed(d.abs().contiguous().view(torch.int64), key("constant"))
    made = torch.where(whole, d.nan_to_num(0.0, 0.0, 0.0).clamp(-PRIME, PRIME).long(), torch.where(d < 0, -odd, odd)) % PRIME
    low = d < -1e4 if deep else d == float("-inf")
    return made.masked_fill(low, LOW).masked_fill(d == float("inf"), HIGH).masked_fill(d != d, NONE)


def plain(*values: Tensor) -> bool:
    """Whether no infinity is among them."""
    return all(not bool((v >= PRIME).any()) for v in values)


def add(a: Tensor, b: Tensor) -> Tensor:
    made = (a + b) % PRIME
    if plain(a, b):
        return made
    low, high = (a == LOW) | (b == LOW), (a == HIGH) | (b == HIGH)
    none = (a == NONE) | (b == NONE) | (low & high)
    return made.masked_fill(low, LOW).masked_fill(high, HIGH).masked_fill(none, NONE)


def negative(a: Tensor) -> Tensor:
    made = -a % PRIME
    return made.masked_fill(a == LOW, HIGH).masked_fill(a == HIGH, LOW).masked_fill(a == NONE, NONE)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """An infinity times a formula has no sign that is known: it becomes a letter."""
    if plain(a, b):
        return a * b % PRIME
    a, b = torch.broadcast_tensors(a, b)
    made = torch.where((a < PRIME) & (b < PRIME), a * b % PRIME, symmetric("endless", a, b))
    for x, y in ((a, b), (b, a)):
        made = torch.where((x >= PRIME) & (y == 1), x, made)
        made = torch.where((x >= PRIME) & (y == 0), NONE, made)
    return made.masked_fill((a == NONE) | (b == NONE), NONE)


def power(a: Tensor, n: int) -> Tensor:
    """A whole power, by squaring."""
    if not plain(a):
        raise NoRule
    made = torch.ones_like(a)
    while n:
        if n & 1:
            made = made * a % PRIME
        a, n = a * a % PRIME, n >> 1
    return made


def inverse(a: Tensor) -> Tensor:
    """1/a; not a number where a is 0, and 0 where it is endless."""
    made = power(a.masked_fill(a >= PRIME, 1), PRIME - 2).masked_fill(a == 0, NONE)
    return made.masked_fill((a == LOW) | (a == HIGH), 0).masked_fill(a == NONE, NONE)


def bilinear(product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A product of matrices, a convolution: exact, from halves of 16 bits in float64."""
    if not plain(a, b):
        raise NoRule
    (a1, a0), (b1, b0) = (((v >> 16).double(), (v & 0xFFFF).double()) for v in (a, b))
    upper = product(a1, b1).long() % PRIME
    middle = (product(a1, b0) + product(a0, b1)).long() % PRIME
    return (2 * upper + (middle << 16) + product(a0, b0).long()) % PRIME  # 2^32 is 2


def total(a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """The sum along axes."""
    if not dims:
        return a
    made = (a.masked_fill(a >= PRIME, 0)).sum(dims, keep) % PRIME
    if plain(a):
        return made
    low, high, none = ((a == code).sum(dims, keep) > 0 for code in (LOW, HIGH, NONE))
    return made.masked_fill(low, LOW).masked_fill(high, HIGH).masked_fill(none | (low & high), NONE)


def product(a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """The product along axes."""
    if not plain(a):
        raise NoRule
    for dim in dims:
        made = torch.ones_like(a.select(dim, 0)) if a.shape[dim] else torch.ones_like(a.sum(dim))
        for piece in a.unbind(dim):
            made = made * piece % PRIME
        a = made.unsqueeze(dim)
    if not keep:
        for dim in sorted((d % a.ndim for d in dims), reverse=True):
            a = a.squeeze(dim)
    return a


def collected(name: object, a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """A function of all the numbers along axes that does not ask for their order."""
    return mixed(mixed(a, key(name, "each")).sum(dims, keep) % PRIME if dims else a, key(name, "all"))


def listed(name: object, a: Tensor, dims: list[int], keep: bool = False) -> Tensor:
    """A function of all the numbers along axes, in their order: a sum with a letter for each place tells any two lists apart."""
    if not plain(a):
        a = torch.where(a >= PRIME, mixed(a, key("endless")), a)
    for dim in dims:
        shape = [1] * a.ndim
        shape[dim] = a.shape[dim]
        place = letters((a.shape[dim],), name, "place", dim % a.ndim).view(shape)
        a = (a * place % PRIME).sum(dim, keepdim=True) % PRIME
    made = mixed(a, key(name, "list"))
    if not keep:
        for dim in sorted((d % a.ndim for d in dims), reverse=True):
            made = made.squeeze(dim)
    return made
