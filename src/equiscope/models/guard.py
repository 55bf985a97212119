"""Guard: before a score of a language model is believed, see that no output reads what it should predict.

A causal model's output at a position depends on the tokens up to that position; a score of a token depends on the tokens before it
and on that token, as one of probabilities that sum to at most one. Neither depends on earlier calls or on other sequences of a
batch.
At most 40 calls of at most 520 tokens look for a counterexample, at lengths and positions on both sides of block boundaries: powers
of two, and those that the model itself names (`program/boundaries.py`).
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from equiscope.errors import EquiscopeError, GuardFailed, InputError, Leak, counted, one_line
from equiscope.program.boundaries import boundaries, lengths_around, positions_around
from equiscope.program.sizes_in_use import recording_sizes
from equiscope.symmetry.inputs import LENGTHS as COUNTS
from equiscope.symmetry.measure import shrinks

LONGEST, MOST = 520, 40  # tokens of a call, and calls
SHORTER = (512, 384, 256, 128, 64, 32, 16, 8, 4)  # lengths that are tried where a model takes no more
LENGTHS = {5: 3, 17: 11, 64: 41, 65: 41, 128: 83, 256: 157}  # shorter inputs, and the length of the unchanged prefix of each
# prefixes of the longest input: at powers of two, and at other lengths, mostly primes
CUTS = (64, 128, 256, 512, 1, 2, 3, 7, 101, 307, 29, 199, 449, 61, 509, 517)
OWN_LENGTHS, OWN_CUTS = 2, 8  # shorter inputs, and cuts of the longest, at boundaries that the model names
FLOAT32 = 2e-5  # relative error of one pass in float32 that is taken for rounding where a scorer cannot run in float64
EVIDENCE = math.log(1e6)  # a proper scorer exceeds it in one of a million guards (Ville's inequality)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)  # of the bets against a scorer


@dataclass(repr=False)
class Guard:
    """What was measured. As a context, it measures again at the end that the same call has the same result.

    model    what was called; scorer: whether it returns one number for each token
    calls    number of calls; lengths: of their inputs; positions: the number of positions at which the future was replaced
    notes    what could not be measured
    """

    model: Callable[..., Any]
    vocabulary: int
    scorer: bool
    calls: int = 0
    lengths: list[int] = field(default_factory=list)
    positions: int = 0
    notes: list[str] = field(default_factory=list)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    most: int = MOST
    first: tuple[Tensor, Tensor] | None = None

    def __repr__(self) -> str:
        """Calls, lengths and positions in one line."""
        what = "scorer" if self.scorer else "model"
        lengths = ", ".join(map(str, self.lengths))
        return (
            f"Guard: the {what} passed. {self.calls} calls of {lengths} tokens; the future replaced at {self.positions} positions"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.first is not None:
            self.most += 1
            tokens, before = self.first
            after = self.outputs(tokens)
            if differs(before, after):
                raise GuardFailed(
                    "state", "The same input has another output after the evaluation than before it: the evaluation, or a call, "
                    "changed the model. Score with a fresh copy.", self.calls, tokens.tolist(),
                )  # fmt: skip

    # --- calls
    def outputs(self, tokens: Tensor, model: Callable[..., Any] | None = None) -> Tensor:
        """[N, ...] of one sequence [N], or [B, N, ...] of several [B, N]. Raises InputError for what has no row a token."""
        model = self.model if model is None else model
        self.calls += 1
        with torch.no_grad():
            result = (
                model(tokens.clone())
                if self.scorer
                else model(_to(tokens if tokens.ndim > 1 else tokens[None], model), **self._kwargs(tokens))
            )
        if self.scorer:
            numbers = torch.as_tensor(result).detach().double().flatten().cpu()
            if len(numbers) not in (len(tokens), len(tokens) - 1):
                raise InputError(
                    f"The scorer got {counted(len(tokens), 'token')} and returned {counted(len(numbers), 'number')}. "
                    "Return one for each token, or "
                    "one for each token after the first."
                )
            return numbers
        found = _tensor(result, tokens.shape[-1])
        return (found if tokens.ndim > 1 else found[0]).detach().cpu()

    def _kwargs(self, tokens: Tensor) -> dict[str, Any]:
        """The arguments of a call; lengths count all tokens of each sequence."""
        size = tokens.shape[0] if tokens.ndim > 1 else 1
        return {
            n: v.new_full((size,), tokens.shape[-1]) if n in COUNTS and isinstance(v, Tensor) and v.ndim == 1 else v
            for n, v in self.kwargs.items()
        }

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return self.most - self.calls

    def before(self, outputs: Tensor, prefix: int, length: int) -> Tensor:
        """The outputs that may depend on the first `prefix` tokens only."""
        return outputs[: prefix - (length - len(outputs))] if self.scorer else outputs[:prefix]


def guard(
    model: Callable[..., Any], vocab: int | None = None, *, kwargs: Mapping[str, Any] | None = None, longest: int = LONGEST,
    seed: int = 0,
) -> Guard:  # fmt: skip
    """Raise if a language model, or a function that scores tokens, reads what it should predict.

    model    a module: ids [B, N] to logits [B, N, V], or an object with `logits`; it is called in the mode in which it is. Or a
             function nll: ids [N] to one number for each token, its negative log-probability in nats given the tokens before it;
             one number less where the first token is not scored
    vocab    ids are 0 .. vocab - 1; by default the rows of the first embedding of a module
    kwargs   of each call of a module; longest: tokens of a call, at most 520; seed: of the random tokens
    returns  a Guard, which is also a context: `with eq.guard(model): evaluate(model)` measures again at the end that nothing was
             kept between calls
    raises   GuardFailed, with the smallest counterexample found, for an output that depends on later tokens, on other sequences of
             the batch, on earlier calls or on chance, and for probabilities that sum to more than one; InputError where the model
             cannot be called
    """
    size = vocabulary(model) if vocab is None else vocab
    if size < 2:
        raise InputError(f"vocab is the number of ids, 2 or more, but got {size}.")
    if not 2 <= longest <= LONGEST:
        raise InputError(f"longest is 2 to {LONGEST} tokens, but got {longest}.")
    result = Guard(model, size, not isinstance(model, nn.Module), kwargs=kwargs or {})
    try:
        _Search(result, torch.Generator().manual_seed(seed), longest).run()
    except EquiscopeError:
        raise
    except (Exception, SystemExit) as error:  # an id without a row of the embedding, say
        raise InputError(
            f"The model took some ids from 0 to {size - 1} and raised on others: {one_line(error)}. "
            "Give vocab=, the number of ids, or longest=, the number of tokens that it takes."
        ) from error
    return result


class _Search:
    """One run of the guard.

    bets     log of the winnings of bets against a scorer, by rate
    precise  the model in float64, once it was needed; least: the smallest error that counts while a counterexample shrinks
    """

    def __init__(self, guard: Guard, generator: torch.Generator, longest: int) -> None:
        self.guard, self.generator, self.longest = guard, generator, longest
        self.bets = [0.0] * len(RATES)
        self.precise: Callable[..., Any] | None = None
        self.least = 0.0

    def tokens(self, *shape: int) -> Tensor:
        """Uniform random ids."""
        return torch.randint(self.guard.vocabulary, shape, generator=self.generator)

    def run(self) -> None:
        """All measurements, from the shortest inputs to the longest."""
        longest, sequence, outputs = self._longest()
        self._finite(outputs)
        self._repeats(sequence, outputs)
        likely, others = self._boundaries(longest)
        own = [n for n in lengths_around(likely, others) if n < longest and n not in LENGTHS][:OWN_LENGTHS] if likely else []
        prefixes = {n: prefix for n, prefix in LENGTHS.items() if n < longest} | {n: max(n * 5 // 8, 1) for n in own}
        self.guard.lengths = [*sorted(prefixes), longest]
        self._mass(sequence, outputs, 0)
        for length in self.guard.lengths[:-1]:
            short = self.tokens(length)
            base = self.guard.outputs(short)
            self._mass(short, base, 0)
            if self.guard.first is None:
                self.guard.first = short, base
            self._cut(short, base, prefixes[length])
        if self.guard.first is None:
            self.guard.first = sequence, outputs
        self._batch()
        self._enumerate()
        cuts = [*positions_around(longest, [*likely, *others])[:OWN_CUTS], *CUTS]
        for prefix in dict.fromkeys(n for n in cuts if n < longest):
            if self.guard.left > 3:
                self._cut(sequence, outputs, prefix)
        if self.guard.scorer and float(torch.tensor(self.bets).logsumexp(0)) - math.log(len(RATES)) > EVIDENCE:
            self._improper()
        short, base = self.guard.first
        if differs(base, self.guard.outputs(short)):
            self._fail("state", "The same input has another output after other inputs: the model keeps state between calls.", short)

    def _longest(self) -> tuple[int, Tensor, Tensor]:
        """The longest input that the model takes. Raises InputError with its message where it takes none."""
        wrong: BaseException | None = None
        for length in (self.longest, *(n for n in SHORTER if n < self.longest)):
            sequence = self.tokens(length)
            try:
                return length, sequence, self.guard.outputs(sequence)
            except InputError:
                raise
            except (Exception, SystemExit) as error:  # the user's code: a table of positions, say
                wrong = error
        text = " ".join(str(wrong).split())[:200]
        raise InputError(
            f"The model could not be called with ids from 0 to {self.guard.vocabulary - 1}: {type(wrong).__name__}: {text}. "
            "Give vocab=, the number of ids, and kwargs= of the call."
        ) from wrong

    def _finite(self, outputs: Tensor) -> None:
        """Raise InputError where no output is a number: NaN equals NaN, whatever it reads. Note positions without one."""
        blank = ~outputs.isfinite().flatten(1).any(1) if outputs.ndim > 1 else ~outputs.isfinite()
        if bool(blank.all()):
            raise InputError(
                "Every output is NaN or infinite, so a leak cannot be seen. Find where NaN comes from, and guard again."
            )
        if bool(blank.any()):
            self.guard.notes.append(
                f"At {int(blank.sum())} of {len(blank)} positions every output is NaN or infinite: there a leak is not seen."
            )

    def _boundaries(self, longest: int) -> tuple[list[int], list[int]]:
        """Where blocks of the model end, likely and perhaps: by its constants and masks, and by two calls."""
        sizes, irregular = list[set[int]](), set[int]()
        for length in (longest, max(longest - longest // 4, 1)):
            found = set[int]()
            try:
                with recording_sizes(found, irregular):
                    self.guard.outputs(self.tokens(length))
            except Exception:  # a script takes no recorded lengths
                break
            sizes.append(found)
        model = self.guard.model if isinstance(self.guard.model, nn.Module) else nn.Module()  # constants are read from modules only
        return boundaries(model, sizes, irregular)

    def _repeats(self, sequence: Tensor, outputs: Tensor) -> None:
        if not differs(outputs, self.guard.outputs(sequence)):
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            one = self.guard.outputs(sequence)
            torch.manual_seed(0)
            other = self.guard.outputs(sequence)
            random = not differs(one, other) and differs(other, self.guard.outputs(sequence))
        if random:
            training = isinstance(self.guard.model, nn.Module) and self.guard.model.training
            why = "It is in training mode: call model.eval()." if training else "Fix what is random, or seed it in each call."
            self._fail("random", f"The same input has another output in a second call, by chance. {why}", sequence)
        self._fail("state", "The same input has another output in a second call: the model keeps state between calls.", sequence)

    # --- the future
    def _cut(self, sequence: Tensor, outputs: Tensor, prefix: int) -> None:
        """Replace the tokens from `prefix` on."""
        if prefix >= len(sequence):
            return
        changed = torch.cat([sequence[:prefix], self.tokens(len(sequence) - prefix)])
        try:
            other = self.guard.outputs(changed)
        except EquiscopeError:
            raise
        except Exception:  # a limit that depends on the tokens, such as positions that skip padding
            note = f"The model takes some inputs of {len(sequence)} tokens and not others."
            self.guard.notes += [note] if note not in self.guard.notes else []
            return
        self.guard.positions += 1
        self._mass(changed, other, prefix)
        if torch.equal(changed, sequence):
            return
        if self._leaks(sequence, outputs, changed, other, prefix):
            self._shrink(sequence, changed, prefix)

    def _leaks(self, sequence: Tensor, outputs: Tensor, changed: Tensor, other: Tensor, prefix: int) -> bool:
        """Whether an output before the change differs, by more than rounding."""
        before, after = (self.guard.before(t, prefix, len(sequence)) for t in (outputs, other))
        if not differs(before, after):
            return False
        error = _relative(before, after)
        if error > 1e-3 or self.guard.scorer:
            return error > FLOAT32
        return self._in_float64(before, after, sequence, changed, prefix, error)

    def _in_float64(self, before: Tensor, after: Tensor, sequence: Tensor, changed: Tensor, prefix: int, error: float) -> bool:
        """Whether the difference stays in float64: a leak has the same size and direction there."""
        try:
            if self.precise is None:
                self.precise = copy.deepcopy(self.guard.model).double()  # type: ignore[attr-defined]
            high, low = (
                self.guard.before(self.guard.outputs(t, self.precise), prefix, len(t)).double() for t in (sequence, changed)
            )
        except Exception:  # a model that cannot be copied, or has an operation without float64
            return error > FLOAT32
        if shrinks(_relative(high, low), error):
            return False
        exact, rounded = (high - low).flatten(), (before.double() - after.double()).flatten()
        return bool((exact * rounded).sum() > 0.9 * exact.norm() * rounded.norm() > 0)

    def _shrink(self, sequence: Tensor, changed: Tensor, prefix: int) -> None:
        """Raise for the smallest change and the shortest input that still leak, within the calls that are left."""
        outputs = self.guard.outputs(sequence)
        other = self.guard.outputs(changed)
        self.least = _relative(*(self.guard.before(t, prefix, len(sequence)) for t in (outputs, other))) / 100
        if not self._leaks(sequence, outputs, changed, other, prefix):
            self._fail("state", "An output depends on earlier calls: the model keeps state between calls.", sequence[: prefix + 1])
        tokens = [i for i in range(prefix, len(sequence)) if sequence[i] != changed[i]]
        while len(tokens) > 1 and self.guard.left > 3:
            for half in (tokens[: len(tokens) // 2], tokens[len(tokens) // 2 :]):
                if self._still(sequence, outputs, changed, half, prefix):
                    tokens = half
                    break
            else:
                break
        end = tokens[-1] + 1
        if len(sequence) > end and self.guard.left > 2:
            short = sequence[:end]
            base = self.guard.outputs(short)
            if self._still(short, base, changed[:end], tokens, prefix):
                sequence, outputs, changed = short, base, changed[:end]
        final = sequence.clone()
        final[tokens] = changed[tokens]
        other = self.guard.outputs(final)
        before, after = (self.guard.before(t, prefix, len(sequence)).double() for t in (outputs, other))
        gaps = (before - after).flatten(1).norm(dim=-1) if before.ndim > 1 else (before - after).abs()
        position = int(gaps.argmax()) + (len(sequence) - len(outputs) if self.guard.scorer else 0)
        one = f"token {tokens[0]}" if len(tokens) == 1 else f"tokens {tokens[0]} to {tokens[-1]}"
        what = "score of token" if self.guard.scorer else "output at position"
        replaced = f" ({int(sequence[tokens[0]])} by {int(final[tokens[0]])})" if len(tokens) == 1 else ""
        self._fail(
            "future",
            f"Of {len(sequence)} tokens, the {what} {position} changes by {float(gaps.max()):.2g} when {one} is replaced"
            f"{replaced}: it reads later tokens.", sequence, position, tokens, final,
        )  # fmt: skip

    def _still(self, sequence: Tensor, outputs: Tensor, changed: Tensor, tokens: list[int], prefix: int) -> bool:
        candidate = sequence.clone()
        candidate[tokens] = changed[tokens]
        before, after = (self.guard.before(t, prefix, len(sequence)) for t in (outputs, self.guard.outputs(candidate)))
        return differs(before, after) and _relative(before, after) > self.least

    # --- other sequences of the batch
    def _batch(self) -> None:
        """One sequence of a batch of two does not depend on the other."""
        if self.guard.scorer:
            return
        length = min(13, self.longest)
        first, second, third = (self.tokens(2, length) for _ in range(3))
        second[0], third[1] = first[0], second[1]
        try:
            outputs = [self.guard.outputs(t) for t in (first, second, third)]
        except Exception:  # a model of one sequence
            self.guard.notes.append("The model takes no batch of two sequences, so their independence was not measured.")
            return
        for row, a, b in ((0, outputs[0], outputs[1]), (1, outputs[1], outputs[2])):
            if a.ndim > 1 and len(a) == 2 and differs(a[row], b[row]) and _relative(a[row], b[row]) > FLOAT32:
                self._fail(
                    "batch", f"In a batch of two sequences, the outputs of sequence {row} change when the other one is replaced.",
                    first[row],
                )  # fmt: skip

    # --- probabilities
    def _mass(self, sequence: Tensor, outputs: Tensor, prefix: int) -> None:
        """Bet against a scorer: of a uniform random token, V times its probability is 1 on average if probabilities sum to one."""
        if not self.guard.scorer:
            return
        scores = outputs[max(prefix - (len(sequence) - len(outputs)), 0) :]
        ratio = self.guard.vocabulary * torch.exp(-scores[scores.isfinite()])
        for i, rate in enumerate(RATES):
            self.bets[i] += float(torch.log1p(rate * (ratio - 1)).sum())

    def _improper(self) -> None:
        """Raise for probabilities that sum to more than one."""
        self._fail(
            "sum",
            f"On {self.guard.vocabulary} equally likely random tokens, the scorer gives the drawn token a higher probability than "
            "any distribution can: its probabilities sum to more than one, so a score may depend on the scored token itself.",
            self.tokens(0),
        )

    def _enumerate(self) -> None:
        """Of a small vocabulary, the probabilities of all continuations of one prefix."""
        size = self.guard.vocabulary
        if not self.guard.scorer or size > 8:
            return
        prefix = self.tokens(3)
        scores = torch.stack([self.guard.outputs(torch.cat([prefix, torch.tensor([v])]))[-1] for v in range(size)])
        total, bits = float(torch.exp(-scores).sum()), float(torch.exp2(-scores).sum())
        if total > 1 + 1e-4 and abs(bits - 1) > 1e-4:
            tokens = ", ".join(map(str, prefix.tolist()))
            self._fail("sum", f"After tokens {tokens} the probabilities of all {size} continuations sum to {total:.3g}.", prefix)
        if total < 1 - 1e-4 and abs(bits - 1) > 1e-4:
            self.guard.notes.append(f"The probabilities of the {size} ids after a prefix sum to {total:.3g}.")

    def _fail(
        self, kind: Leak, sentence: str, tokens: Tensor, position: int | None = None, changed: list[int] | None = None,
        other: Tensor | None = None,
    ) -> None:  # fmt: skip
        raise GuardFailed(
            kind, sentence, self.guard.calls, tokens.tolist(), position, changed or [], [] if other is None else other.tolist()
        )


def differs(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors differ; NaN equals NaN."""
    return a.shape != b.shape or not bool(((a == b) | (a.isnan() & b.isnan())).all())


def _relative(a: Tensor, b: Tensor) -> float:
    """Largest difference relative to the largest number; infinite where one is not finite and the other is."""
    a, b = a.double(), b.double()
    finite = a.isfinite() & b.isfinite()
    if not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    size = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    gap = float((a - b)[finite].abs().max()) if bool(finite.any()) else 0.0
    return gap / size if size else float(gap > 0)


def _tensor(result: Any, length: int) -> Tensor:
    """The logits [B, N, ...] that a model returned. Raises InputError where there are none."""
    result = getattr(result, "logits", result)
    options = [result] if isinstance(result, Tensor) else []
    if isinstance(result, Mapping):
        options = [result[name] for name in ("logits", *result) if isinstance(result.get(name), Tensor)]
    elif isinstance(result, (list, tuple)):
        options = [x for x in result if isinstance(x, Tensor)]
    found = next((t for t in options if t.ndim >= 2 and t.shape[1] == length and t.is_floating_point()), None)
    if found is None:
        shapes = ", ".join(str(list(t.shape)) for t in options) or type(result).__name__
        raise InputError(
            f"The model got ids of {length} tokens and returned {shapes}. Return logits [batch, tokens, vocabulary], or wrap it."
        )
    return found


def _to(tokens: Tensor, model: Any) -> Tensor:
    parameter = next(iter(model.parameters()), None) if isinstance(model, nn.Module) else None
    return tokens.clone() if parameter is None else tokens.to(parameter.device, copy=True)


def vocabulary(model: Any) -> int:
    """The number of ids of a module. Raises InputError where it cannot be seen."""
    if isinstance(model, nn.Module):
        sizes = [
            getattr(getattr(model, "spec", None), "vocabulary", None),
            getattr(getattr(model, "config", None), "vocab_size", None),
            next((m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)), None),
        ]
        for size in sizes:
            if isinstance(size, int) and size > 1:
                return size
    raise InputError(
        "The number of ids cannot be seen from this model. Give vocab=, such as eq.guard(model, vocab=50257), or --vocab 50257."
    )
