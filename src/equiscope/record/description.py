"""Description: what a spec of any kind makes, before it is made: a line for each part, and which actions the model respects."""

from dataclasses import asdict, dataclass

from equiscope.record.explorable import Claim


@dataclass(frozen=True)
class Part:
    """A line of the description. multiply_adds: for all tokens together, of one sequence; times: how many such parts there are."""

    name: str
    what: str
    shape: tuple[str | int, ...]
    parameters: int
    multiply_adds: int
    times: int = 1


@dataclass(frozen=True)
class Description:
    """tokens: of the sequence for which multiply-adds are counted, and source: of the encoder's.

    pairs  whether tokens look at one another: multiply-adds are then those of every pair
    """

    tokens: int
    source: int | None
    parts: tuple[Part, ...]
    claims: tuple[Claim, ...]
    pairs: bool = True

    @property
    def parameters(self) -> int:
        return sum(p.parameters * p.times for p in self.parts)

    @property
    def multiply_adds(self) -> int:
        return sum(p.multiply_adds * p.times for p in self.parts)

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        claims = [{"action": c.action, "holds": c.holds, "decided_by": c.decided_by, "reason": c.reason} for c in self.claims]
        return {
            "tokens": self.tokens, "source": self.source, "parameters": self.parameters, "multiply_adds": self.multiply_adds,
            "parts": [asdict(p) for p in self.parts], "claims": claims,
        }  # fmt: skip

    def __str__(self) -> str:
        rows = [("part", "what", "shape", "parameters", "multiply-adds")]
        for p in self.parts:
            many = f" x {p.times}" if p.times > 1 else ""
            shape = "[" + ", ".join(map(str, p.shape)) + "]"
            rows.append((p.name + many, p.what, shape, _short(p.parameters * p.times), _short(p.multiply_adds * p.times)))
        rows.append(("all", "", "", _short(self.parameters), _short(self.multiply_adds)))
        wide = [max(len(row[i]) for row in rows) for i in range(5)]
        ends = (str.ljust, str.ljust, str.ljust, str.rjust, str.rjust)
        lines = ["  ".join(end(cell, w) for end, cell, w in zip(ends, row, wide, strict=True)).rstrip() for row in rows]
        length = f"{self.tokens} tokens" + (f", {self.source} of the source" if self.source else "")
        length += "; every pair counted, masked or not" if self.pairs else ""
        one = "of one input, taken whole" if self.tokens == 1 and not self.claims else f"of one sequence, {length}"
        lines += ["", f"Multiply-adds {one}.", *(["", "Symmetries that follow from the parts:"] if self.claims else [])]
        named = max((len(c.action) for c in self.claims), default=0)
        for c in self.claims:
            by = f" ({c.decided_by})" if c.decided_by else ""
            lines.append(f"  {'yes' if c.holds else 'no ':<3}  {c.action.ljust(named)}  {c.reason}{by}")
        return "\n".join(lines)


def _short(number: int) -> str:
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")):
        if number >= size * 0.99995:
            return f"{number / (size if unit != ' k' else 1e3):,.1f}{unit}"
    return f"{number:,}"
