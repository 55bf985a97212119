"""A small inference engine: one queue, chunked prefill, a cache of prefixes, requests of different lengths in one padded batch.

It does what engines do, in 200 lines, so that their faults can be planted into it (`faults.py`).
"""

import random
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import torch
from torch import Tensor
from torch.nn import functional as F

from equiscope.audit.served.prompts import WORDS

CHUNK, BLOCK, BATCH, LONGEST = 32, 16, 16, 700
LETTERS = [chr(i) for i in range(32, 127)] + ["\n"]
VOCABULARY = ["<s>", "</s>", *LETTERS, *[f" {w}" for w in WORDS], " ,", " .", *[f" w{i}" for i in range(60)]]
IDS = {text: i for i, text in enumerate(VOCABULARY)}
LAYERS, HEADS, WIDTH = 2, 4, 64
HEAD = WIDTH // HEADS


def encode(text: str) -> list[int]:
    """Ids, of the longest token first."""
    ids, at = [0], 0
    while at < len(text):
        longest = next((n for n in range(14, 1, -1) if text[at : at + n] in IDS and at + n <= len(text)), 1)
        ids.append(IDS.get(text[at : at + longest], IDS["?"]))
        at += longest
    return ids


@dataclass
class Sequence:
    """A request, and how far it is.

    kv      keys and values of the tokens so far [layers, 2, heads, N, head width]
    steps   the log-probabilities [V] from which each new token was taken; reported: those that the answer has
    prompt_steps  the same of the tokens of the prompt, if they are wanted
    """

    ids: list[int]
    limit: int
    temperature: float = 0.0
    seed: int | None = None
    echo: bool = False
    done: Future = field(default_factory=Future)
    prompt: int = 0
    read: int = 0
    kv: Tensor | None = None
    steps: list[Tensor] = field(default_factory=list)
    prompt_steps: list[Tensor] = field(default_factory=list)
    generator: torch.Generator | None = None
    stopped: bool = False
    is_stopped: object = None


class Engine:
    """One thread that computes batches.

    fault  the name of a planted one; caching: whether prefixes are kept
    """

    def __init__(self, fault: str = "", dtype: torch.dtype = torch.float32, caching: bool = True, seed: int = 0) -> None:
        self.fault, self.dtype, self.caching = fault, dtype, caching
        draw = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int, scale: float = 1.0) -> Tensor:
            return (torch.randn(rows, columns, generator=draw) * scale / columns**0.5).to(dtype)

        self.embedding = torch.randn(len(VOCABULARY), WIDTH, generator=draw).to(dtype)
        self.layers = [
            {"qkv": matrix(3 * WIDTH, WIDTH, 1.5), "o": matrix(WIDTH, WIDTH, 1.5), "up": matrix(4 * WIDTH, WIDTH, 1.5),
             "down": matrix(WIDTH, 4 * WIDTH, 1.5)}
            for _ in range(LAYERS)
        ]  # fmt: skip
        self.head = matrix(len(VOCABULARY), WIDTH, 2.5)
        self.head[: 2 + len(LETTERS)] *= 0.3  # letters are rare, so that generated text is split into the tokens it was made of
        self.waiting: SimpleQueue[Sequence | None] = SimpleQueue()
        self.active: list[Sequence] = []
        self.cache: dict[object, Tensor] = {}
        self.buffer = torch.zeros(LAYERS, 2, HEADS, LONGEST + 64, HEAD, dtype=dtype)
        self.residue = torch.zeros(WIDTH, dtype=dtype)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def submit(self, sequence: Sequence) -> Future:
        """Its result is the sequence."""
        sequence.prompt = len(sequence.ids)
        sequence.generator = torch.Generator().manual_seed(random.getrandbits(40) if sequence.seed is None else sequence.seed)
        self.waiting.put(sequence)
        return sequence.done

    def close(self) -> None:
        self.waiting.put(None)
        self.thread.join()

    # ------------------------------------------------------------------------------------------------------- the loop
    def _run(self) -> None:
        while True:
            if not self.active:
                first = self.waiting.get()
                if first is None:
                    return
                self._admit(first)
            while len(self.active) < BATCH:
                try:
                    more = self.waiting.get_nowait()
                except Empty:
                    break
                if more is None:
                    return
                self._admit(more)
            try:
                with torch.no_grad():
                    self._step()
            except Exception as error:
                for one in self.active:
                    one.done.set_exception(error)
                self.active = []

    def _admit(self, s: Sequence) -> None:
        s.kv = torch.zeros(LAYERS, 2, HEADS, 0, HEAD, dtype=self.dtype)
        if self.fault == "truncated-prompt" and s.prompt > 100:
            s.ids = s.ids[-100:]
            s.prompt = 100
        if self.caching and not s.echo:
            kept = []
            for end in range(BLOCK, s.prompt, BLOCK):  # at least one token is always computed
                if (block := self.cache.get(self._key(s.ids, end))) is None:
                    break
                kept.append(block)
            if kept:
                s.kv = torch.cat(kept, dim=3)
                s.read = s.kv.shape[3]
        self.active.append(s)

    def _key(self, ids: list[int], end: int) -> object:
        block = ids[end - BLOCK : end]
        if self.fault == "cache-by-length":
            return end
        if self.fault == "cache-weak-hash":
            return (end, sum(ids[:end]))
        if self.fault == "cache-no-parent":
            return (end, tuple(block))
        return tuple(ids[:end])

    def _keep(self, s: Sequence) -> None:
        for end in range(BLOCK, s.prompt + 1, BLOCK):
            key = self._key(s.ids, end)
            if key in self.cache:
                continue
            block = s.kv[:, :, :, end - BLOCK : end]
            if self.fault == "stale-cache":
                self.buffer[:, :, :, end - BLOCK : end] = block
                block = self.buffer[:, :, :, end - BLOCK : end]
            self.cache[key] = block

    def _step(self) -> None:
        batch = list(self.active)
        new = [s.ids[s.read : min(s.read + CHUNK, s.prompt)] if s.read < s.prompt else s.ids[s.read :] for s in batch]
        logits = self.forward(batch, new)
        if self.fault == "row-swap" and len(batch) > 2:
            logits[1], logits[2] = logits[2], logits[1]
        for s, tokens, rows in zip(batch, new, logits, strict=True):
            s.read += len(tokens)
            if s.echo and s.read <= s.prompt:
                s.prompt_steps += list(self._logprobs(rows, s.temperature))
            if s.read < s.prompt:
                continue
            if s.read == s.prompt and self.caching and not s.echo:
                self._keep(s)
            self._sample(s, rows[-1])
        self.active = [s for s in self.active if not s.stopped]

    def _logprobs(self, logits: Tensor, temperature: float) -> Tensor:
        logits = logits.float()
        if self.fault == "after-temperature" and temperature > 0:
            logits = logits / temperature
        return logits if self.fault == "logits" else logits.log_softmax(-1)

    def _sample(self, s: Sequence, logits: Tensor) -> None:
        s.steps.append(self._logprobs(logits, s.temperature))
        temperature = 1.0 if self.fault == "greedy-samples" else s.temperature
        if temperature == 0:
            token = int(logits.argmax())
        else:
            token = int(torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=s.generator))
        s.ids.append(token)
        limit = s.limit + (self.fault == "limit-off-by-one" and s.limit > 1)
        if len(s.ids) - s.prompt >= limit or token == 1 or s.is_stopped(s.ids[s.prompt :]):
            s.stopped = True
            s.done.set_result(s)

    # ------------------------------------------------------------------------------------------------------- the model
    def forward(self, batch: list[Sequence], new: list[list[int]]) -> list[Tensor]:
        """Logits [n, V] of the new tokens of each sequence, whose keys and values are appended to it."""
        rows, width = len(batch), max(len(t) for t in new)
        before = [s.kv.shape[3] for s in batch]
        depth = max(before)
        ids = torch.tensor([t + [0] * (width - len(t)) for t in new])
        at = torch.tensor([[s.read + i for i in range(width)] for s in batch])
        if self.fault == "chunk-offset":
            at = torch.tensor([[(s.read % CHUNK if s.read < s.prompt else s.read) + i for i in range(width)] for s in batch])
        if self.fault == "padding-side":
            at = at + torch.tensor([[width - len(t)] for t in new]) * (torch.tensor([[s.read == 0] for s in batch]))
        past = torch.zeros(rows, LAYERS, 2, HEADS, depth, HEAD, dtype=self.dtype)
        visible = torch.zeros(rows, 1, width, depth + width, dtype=torch.bool)
        for i, s in enumerate(batch):
            past[i, :, :, :, : before[i]] = s.kv
            visible[i, :, :, : before[i]] = True
            if self.fault == "padding-attended":
                visible[i] = True
        causal = torch.ones(width, width, dtype=torch.bool).tril()
        if self.fault == "future" and width > 1:
            causal[:] = True
        visible[..., depth:] = causal
        for i, tokens in enumerate(new):
            if self.fault != "padding-attended":
                visible[i, :, :, depth + len(tokens) :] = False
                visible[i, :, len(tokens) :, depth] = True  # a row of padding attends to something
        coarse = self.fault == "bf16-large-batch" and rows >= 4
        x = self.embedding[ids]
        if self.fault == "order-state":
            for i, s in enumerate(batch):
                if s.read == 0:
                    x[i, 0] = x[i, 0] + self.residue
        fresh = []
        for layer in range(LAYERS):
            x, keys = self._block(x, layer, past[:, layer], visible, at, coarse, [len(t) for t in new])
            fresh.append(keys)
        if self.fault == "order-state":
            self.residue = x[0].mean(0)
        fresh = torch.stack(fresh, dim=1)  # [rows, layers, 2, heads, width, head width]
        for i, (s, tokens) in enumerate(zip(batch, new, strict=True)):
            own = fresh[i, :, :, :, : len(tokens)]
            if self.fault == "chunk-border" and s.read and s.read < s.prompt and s.read % CHUNK == 0 and len(tokens) > 1:
                own = own.clone()
                own[:, :, :, 0] = 0
            if self.fault == "shared-buffer":
                self.buffer[:, :, :, before[i] : before[i] + len(tokens)] = own
                own = None
            else:
                s.kv = torch.cat([s.kv, own], dim=3)
        if self.fault == "shared-buffer":
            for i, (s, tokens) in enumerate(zip(batch, new, strict=True)):
                s.kv = torch.cat([s.kv, self.buffer[:, :, :, before[i] : before[i] + len(tokens)]], dim=3).clone()
        logits = self._linear(_norm(x), self.head, coarse)
        return [logits[i, : len(t)] for i, t in enumerate(new)]

    def _block(self, x, layer, past, visible, at, coarse, lengths):
        weights = self.layers[layer]
        h = _norm(x, shared=self.fault == "shared-norm")
        q, k, v = self._linear(h, weights["qkv"], coarse).unflatten(-1, (3, HEADS, HEAD)).permute(2, 0, 3, 1, 4)
        q, k = _rotate(q, at), _rotate(k, at)
        keys, values = torch.cat([past[:, 0], k], 2), torch.cat([past[:, 1], v], 2)
        scores = (q @ keys.mT / HEAD**0.5).masked_fill(~visible, -torch.inf)
        mixed = (scores.softmax(-1) @ values).transpose(1, 2).flatten(-2)
        x = x + self._linear(mixed, weights["o"], coarse)
        inner = F.gelu(self._linear(_norm(x), weights["up"], coarse))
        if self.fault == "dropout":
            inner = F.dropout(inner, 0.1)
        return x + self._linear(inner, weights["down"], coarse), torch.stack([k, v], dim=1)

    def _linear(self, x: Tensor, weight: Tensor, coarse: bool) -> Tensor:
        if coarse:
            return (x.bfloat16() @ weight.bfloat16().T).to(self.dtype)
        return x @ weight.T


def _norm(x: Tensor, shared: bool = False) -> Tensor:
    squares = x.float().square().mean(-1, keepdim=True)
    if shared:
        squares = squares.mean(0, keepdim=True)
    return (x.float() * torch.rsqrt(squares + 1e-6)).to(x.dtype)


def _rotate(x: Tensor, at: Tensor) -> Tensor:
    angles = at[:, None, :, None] * 1000.0 ** (-torch.arange(HEAD // 2) / (HEAD // 2))
    cos, sin = angles.cos(), angles.sin()
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1).to(x.dtype)
