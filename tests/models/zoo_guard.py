"""Small language models and scorers, healthy and with planted leaks, for the tests of the guard."""

import torch
import torch.nn.functional as F
from torch import nn

V, D = 31, 16


class Base(nn.Module):
    """Embedding, a mixer of tokens, head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))

    def forward(self, ids):
        return self.head(self.mix(self.embed(ids)))

    def attend(self, x, mask):
        s = self.q(x) @ self.k(x).mT / D**0.5
        return s.masked_fill(~mask, -torch.inf).softmax(-1) @ self.v(x)

    def mix(self, x):
        n = x.shape[1]
        return x + self.attend(x, torch.ones(n, n, dtype=torch.bool).tril())


def block_mask(n, block, whole_only=False):
    """Causal, and open within blocks: a query reads to the end of its block."""
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    same = i // block == j // block
    if whole_only:
        same = same & ((i // block + 1) * block <= n)
    return (j <= i) | same


class LeakInBlocks(Base):
    block, whole = 64, False

    def mix(self, x):
        return x + self.attend(x, block_mask(x.shape[1], self.block, self.whole))


class LeakInWholeBlocks(LeakInBlocks):
    whole = True


class LeakInPairs(LeakInBlocks):
    block = 2


class SuffixStatistics(Base):
    """Normalises by the mean of all tokens."""

    def mix(self, x):
        return super().mix(x) / x.std(1, keepdim=True).mean(-1, keepdim=True)


class TinySuffixStatistics(Base):
    """The same, ten million times weaker: as small as rounding in float32."""

    def mix(self, x):
        return super().mix(x) + 3e-6 * x.mean(1, keepdim=True)


class ReversedScan(Base):
    def mix(self, x):
        return x + x.flip(1).cumsum(1).flip(1) / x.shape[1]


class ScanOverTheBatch(Base):
    def mix(self, x):
        return super().mix(x) + x.cumsum(0)


class ScanOverTokens(Base):
    """Healthy."""

    def mix(self, x):
        return x + x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


class OneAhead(Base):
    """Each token reads the next one, at one border only."""

    def mix(self, x):
        y = super().mix(x).clone()
        if x.shape[1] > 64:
            y[:, 63] += x[:, 64]
        return y


class Remembers(Base):
    """Adds what it saw in the last call."""

    last = None

    def mix(self, x):
        y = super().mix(x)
        if self.last is not None:
            y = y + self.last
        self.last = x.mean()
        return y


class Drops(Base):
    def mix(self, x):
        return F.dropout(super().mix(x), 0.1, self.training)


class Bidirectional(Base):
    def mix(self, x):
        return x + self.attend(x, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool))


class ShortTable(Base):
    """Healthy, with at most 40 positions."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(40, D)

    def mix(self, x):
        return super().mix(x + self.places(torch.arange(x.shape[1])))


class Recurrent(Base):
    """Healthy."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, D, batch_first=True)

    def mix(self, x):
        return self.lstm(x)[0]


class Convolution(Base):
    """Healthy: padded on the left."""

    def __init__(self, left=4):
        super().__init__()
        self.conv, self.left = nn.Conv1d(D, D, 5), left

    def mix(self, x):
        return self.conv(F.pad(x.mT, (self.left, 4 - self.left))).mT


class ExpertsChoose(Base):
    """Each expert takes the quarter of all tokens that it scores highest, later ones included."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(D, 4), nn.ModuleList(nn.Linear(D, D) for _ in range(4))

    def mix(self, x):
        y = super().mix(x)
        out, score = torch.zeros_like(y), self.router(y)
        for e, expert in enumerate(self.experts):
            rows = score[..., e].topk(max(y.shape[1] // 4, 1), 1).indices[..., None].expand(-1, -1, D)
            out = out.scatter(1, rows, expert(y.gather(1, rows)))
        return y + out


class CircularConvolution(Base):
    """A convolution by the fast Fourier transform without padding: the end of the text reaches its beginning."""

    def mix(self, x):
        kernel = torch.exp(-torch.arange(x.shape[1], dtype=x.dtype)[:, None])
        product = torch.fft.rfft(x, dim=1) * torch.fft.rfft(kernel, dim=0)
        return torch.fft.irfft(product, x.shape[1], dim=1)


def scorer(model):
    """nll of each token after the first."""

    def nll(tokens):
        logits = model(tokens[None])[0, :-1]
        return F.cross_entropy(logits, tokens[1:], reduction="none")

    return nll


def tilted(vocabulary, counts_scored, weight=0.3):
    """A uniform model mixed with bigram counts of the text so far; `counts_scored`: the scored token is counted first."""

    def nll(tokens):
        counts, result = {}, []
        ids = tokens.tolist()
        for i, token in enumerate(ids):
            seen = counts.setdefault(ids[i - 1] if i else -1, {})
            if counts_scored:
                seen[token] = seen.get(token, 0) + 1
            total = sum(seen.values())
            p = (1 - weight) / vocabulary + weight * seen.get(token, 0) / total if total else 1 / vocabulary
            result.append(-torch.tensor(p).log())
            if not counts_scored:
                seen[token] = seen.get(token, 0) + 1
        return torch.stack(result)

    return nll


def adapts(before_scoring):
    """A unigram model that learns from each token: before it is scored, or after."""

    def nll(tokens):
        logits, result = torch.zeros(V), []
        for token in tokens:
            step = F.one_hot(token, V) - logits.softmax(0)
            if before_scoring:
                logits = logits + 0.5 * step
            result.append(-logits.log_softmax(0)[token])
            if not before_scoring:
                logits = logits + 0.5 * step
        return torch.stack(result)

    return nll


def adapts_to_the_text(tokens):
    """Learns the unigram frequencies of the whole text, then scores it."""
    counts = torch.bincount(tokens, minlength=V) + 1.0
    return -(counts / counts.sum()).log()[tokens]


class KeepsAdapting:
    """A proper online model, whose counts go on to the next call."""

    def __init__(self):
        self.counts = torch.ones(V)

    def __call__(self, tokens):
        result = []
        for token in tokens:
            result.append(-(self.counts[token] / self.counts.sum()).log())
            self.counts[token] += 1
        return torch.stack(result)
