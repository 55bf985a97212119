"""Contractions: every product of two values, of whichever operation, in the form of `einsum`.

So matmul, bmm, baddbmm, einsum in any order of letters, and a product that is written out as a sum over products are one thing.
"""

from dataclasses import dataclass, field

from torch import Tensor

from equiscope.audit.parity.causes.replayed import arguments, references
from equiscope.audit.parity.sides import Node, Side

MATRICES = {"matmul": ("input", "other"), "bmm": ("input", "mat2"), "mm": ("input", "mat2"), "baddbmm": ("batch1", "batch2")}
PRODUCT = {*MATRICES, "einsum", "MatMul", "Einsum", "sum"}
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, eq=False)
class Contraction:
    """result[out] = sum of first[a] times second[b]; a, b, out: one letter an axis; first_value, second_value: in the program."""

    a: str
    b: str
    out: str
    first: Tensor
    second: Tensor
    first_value: int
    second_value: int
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def summed(self) -> str:
        """The letters over which it sums."""
        return "".join(x for x in self.a if x in self.b and x not in self.out)

    def free(self, mine: str, other: str) -> str:
        """Letters of the result that only one factor has, in the order of the result."""
        return "".join(x for x in self.out if x in mine and x not in other)

    @property
    def shared(self) -> str:
        """Letters of the result that both factors have, in its order."""
        return "".join(x for x in self.out if x in self.a and x in self.b)

    def swapped(self) -> "Contraction":
        """With the factors exchanged."""
        return Contraction(self.b, self.a, self.out, self.second, self.first, self.second_value, self.first_value, self.sizes)

    def factor(self, first: bool, letters: str) -> Tensor:
        """A factor with these axes, repeated along those that it lacks."""
        own, t = (self.a, self.first) if first else (self.b, self.second)
        t = t.permute([own.index(x) for x in letters if x in own])
        for i, x in enumerate(letters):
            if x not in own:
                t = t.unsqueeze(i)
        return t.expand([self.sizes[x] for x in letters])


def contraction(side: Side, node: Node) -> Contraction | None:
    """The product of two values that this step computes; None for another step."""
    found = _equation(side, node)
    if found is None:
        return None
    equation, one, two = found
    inner, out = equation.replace(" ", "").split("->")
    a, b = inner.split(",")
    first, second = side.numbers(one), side.numbers(two)
    if "." in equation:
        found_letters = _spelled(a, b, out, first.ndim, second.ndim)
        if found_letters is None:
            return None
        a, b, out = found_letters
    if first.ndim != len(a) or second.ndim != len(b) or any(len(set(x)) < len(x) for x in (a, b, out)):
        return None
    sizes: dict[str, int] = {}
    for letters, t in ((a, first), (b, second)):
        for x, n in zip(letters, t.shape, strict=True):
            sizes[x] = max(n, sizes.get(x, 1))
    first, second = (
        t.expand([sizes[x] for x in letters]) for letters, t in ((a, first), (b, second))
    )  # axes of size 1 are broadcast
    if set(out) - set(a) - set(b) or any(x not in out for x in set(a) ^ set(b)):
        return None  # one factor is summed alone
    return Contraction(a, b, out, first, second, one, two, sizes)


def _equation(side: Side, node: Node) -> tuple[str, int, int] | None:
    moving = [x for x in dict.fromkeys(node.inputs) if x in side.moving and side.is_number(x)]
    read = [x for x in (references(node) or node.inputs) if x in moving]
    if node.op in ("einsum", "Einsum"):
        spelled = node.equation or (node.step.args[0] if node.step is not None and node.step.args else "")
        return (spelled, read[0], read[1]) if isinstance(spelled, str) and "->" in spelled and len(read) == 2 else None
    if node.op == "sum":
        return _written_out(side, node)
    names = MATRICES.get(node.op)
    if names is not None and node.step is not None:
        first = ("self", *names) if node.op == "baddbmm" else names
        given = [x.id for name, x in arguments(node, *first).items() if name in names and hasattr(x, "id")]
        read = [x for x in given if x in moving]
    elif node.op != "MatMul":
        return None
    if len(read) != 2 or any(side.high[x].ndim < 2 for x in read):
        return None
    n, m = (side.high[x].ndim - 2 for x in read)
    lead = LETTERS[3 : 3 + max(n, m)]
    return f"{lead[len(lead) - n :]}ab,{lead[len(lead) - m :]}bc->{lead}ac", read[0], read[1]


def _written_out(side: Side, node: Node) -> tuple[str, int, int] | None:
    """The sum over one axis of a product of two broadcast values."""
    before = side.maker.get(node.inputs[0]) if node.inputs else None
    if before is None or before.op not in ("mul", "rmul", "Mul") or side.high[before.value].ndim < 3:
        return None
    whole = side.high[before.value].shape
    dim = arguments(node, "input", "dim").get("dim")
    dim = dim[0] if isinstance(dim, list | tuple) and len(dim) == 1 else dim
    read = [x for x in before.inputs if x in side.moving]
    if not isinstance(dim, int) or len(read) != 2 or any(side.high[x].ndim != len(whole) for x in read):
        return None
    if side.high[node.value].ndim != len(whole) - 1:
        return None
    letters = LETTERS[: len(whole)]
    return f"{letters},{letters}->{''.join(x for i, x in enumerate(letters) if i != dim % len(whole))}", read[0], read[1]


def _spelled(a: str, b: str, out: str, n: int, m: int) -> tuple[str, str, str] | None:
    """The letters with an ellipsis spelled out."""
    free = [x for x in LETTERS if x not in a + b + out]
    more = max(n - len(a.replace("...", "")) if "..." in a else 0, m - len(b.replace("...", "")) if "..." in b else 0)
    lead = "".join(free[:more])
    spelled = []
    for letters, rank in ((a, n), (b, m), (out, None)):
        own = more if rank is None else rank - len(letters.replace("...", ""))
        if own < 0:
            return None
        spelled.append(letters.replace("...", lead[len(lead) - own :]) if "..." in letters else letters)
    return spelled[0], spelled[1], spelled[2]


@dataclass(frozen=True, eq=False)
class QueryKeyProduct:
    """The product of queries and keys. query [G, N, K], key [G, M, K]; order: the axes of the result that are G…, N, M.

    lead  the sizes of the axes of G
    query_axes, key_axes  the axes of the two factors that are N and K, M and K
    """

    query: Tensor
    key: Tensor
    query_value: int
    key_value: int
    order: tuple[int, ...]
    lead: tuple[int, ...]
    query_axes: tuple[int, int]
    key_axes: tuple[int, int]


def pairs_of(c: Contraction) -> QueryKeyProduct | None:
    """Queries and keys of a product: rows are the axis of the result that comes first."""
    if len(c.summed) != 1:
        return None
    letters = c.a, c.b
    if not c.free(c.a, c.b) or not c.free(c.b, c.a):
        apart = _widened(c)
        if apart is None:
            return None
        c = apart
    ours, theirs = c.free(c.a, c.b), c.free(c.b, c.a)
    m = theirs[-1]
    n = next((x for x in ours if c.sizes[x] == c.sizes[m]), ours[-1])
    if c.out.index(n) > c.out.index(m):
        c, n, m, letters = c.swapped(), m, n, letters[::-1]
    lead = "".join(x for x in c.out if x not in (n, m))
    query, key = (c.factor(first, lead + x + c.summed).flatten(0, -3) if lead else c.factor(first, x + c.summed)[None]
                  for first, x in ((True, n), (False, m)))  # fmt: skip
    order = tuple(c.out.index(x) for x in lead + n + m)
    axes = [(own.index(x), own.index(c.summed)) for own, x in zip(letters, (n, m), strict=True)]
    return QueryKeyProduct(query, key, c.first_value, c.second_value, order, tuple(c.sizes[x] for x in lead), *axes)


def _widened(c: Contraction) -> Contraction | None:
    """A product that is written out: letters of size 1 in one factor are free in the other. None where there are no such."""
    a = "".join(x for x, step in zip(c.a, c.first.stride(), strict=True) if step or c.sizes[x] == 1)
    b = "".join(x for x, step in zip(c.b, c.second.stride(), strict=True) if step or c.sizes[x] == 1)
    first = c.first[tuple(slice(None) if x in a else 0 for x in c.a)]
    second = c.second[tuple(slice(None) if x in b else 0 for x in c.b)]
    found = Contraction(a, b, c.out, first, second, c.first_value, c.second_value, c.sizes)
    return found if found.free(a, b) and found.free(b, a) and len(found.summed) == 1 else None
