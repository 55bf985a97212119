"""Special cases, constructed: other layers as attention, as a recurrence or as a dense layer. Equal up to rounding.

    convolution_as_dense      a convolution is a dense layer whose weight repeats itself along diagonals (Toeplitz)
    convolution_as_attention  ... and multi-head attention with a head for each number in the kernel (Cordonnier et al. 2020)
    recurrence_of             causal linear attention is a recurrent network (Katharopoulos et al. 2020)
    tokens_mlp_as_attention   a fixed mixing of tokens is attention with fixed weights, a head for each sign
    unrolled_rnn_as_mlp       a recurrent network, unrolled, is a deep MLP with tied weights

Borders are those of the convolution: "valid" (padding 0: only where the whole kernel fits), zeros, or circular.
Each function takes a torch layer with its weights and returns a module that shares no tensor with it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from equiscope.attention.linear import LinearAttention
from equiscope.attention.multihead import MultiHeadAttention
from equiscope.attention.normalizer import Softmax
from equiscope.errors import InputError, ShapeError
from equiscope.positions import AxisPositions, NoPosition, Position
from equiscope.symmetry import Shift
from equiscope.tokens import Tokens

Convolution = nn.Conv1d | nn.Conv2d
Index = tuple[int | slice, ...]


# --- a convolution as a dense layer ------------------------------------------------------------------------------------
def convolution_as_dense(conv: Convolution, size: Sequence[int]) -> nn.Linear:
    """One matrix for inputs of this size: channels and cells in one row, [..., C_in * prod(size)] to [..., C_out * prod(out)].

    size    cells of the input, (length,) or (height, width)
    raises  InputError for borders that are neither zeros nor circular, ShapeError where the kernel does not fit
    """
    kernels, out = _dense_kernels(conv), output_size(conv, size)
    weight = kernels.new_zeros(conv.out_channels, *out, conv.in_channels, *size)
    every = slice(None)
    for cell in itertools.product(*map(range, out)):
        for offset in itertools.product(*map(range, conv.kernel_size)):
            source_cell = [c * s - p + o * d for c, s, p, o, d in zip(cell, *_geometry(conv), offset, conv.dilation, strict=True)]
            if conv.padding_mode == "circular":
                source_cell = [a % n for a, n in zip(source_cell, size, strict=True)]
            if all(0 <= a < n for a, n in zip(source_cell, size, strict=True)):
                there: Index = (every, *cell, every, *source_cell)
                here: Index = (every, every, *offset)
                weight[there] += kernels[here]
    rows, columns = conv.out_channels * math.prod(out), conv.in_channels * math.prod(size)
    dense = nn.Linear(columns, rows, bias=conv.bias is not None, dtype=kernels.dtype, device=kernels.device)
    with torch.no_grad():
        dense.weight.copy_(weight.reshape(rows, columns))
        if conv.bias is not None:
            dense.bias.copy_(conv.bias.repeat_interleave(math.prod(out)))
    return dense


def output_size(conv: Convolution, size: Sequence[int]) -> list[int]:
    """Cells of a convolution's output. Raises ShapeError where the kernel does not fit once."""
    _check(conv)
    if len(size) != len(conv.kernel_size):
        raise ShapeError(f"{type(conv).__name__} reads {len(conv.kernel_size)} axes, but got size={tuple(size)}.")
    strides, pads = _geometry(conv)
    reach = [d * (k - 1) + 1 for k, d in zip(conv.kernel_size, conv.dilation, strict=True)]
    out = [(n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, pads, reach, strides, strict=True)]
    if min(out) < 1:
        raise ShapeError(f"A kernel that reaches over {tuple(reach)} cells does not fit into {tuple(size)} with padding {pads}.")
    return out


def _geometry(conv: Convolution) -> tuple[list[int], list[int]]:
    """Stride and padding on each axis."""
    padding = conv.padding
    if isinstance(padding, str):
        reach = [d * (k - 1) for k, d in zip(conv.kernel_size, conv.dilation, strict=True)]
        if padding == "same" and any(r % 2 for r in reach):
            raise InputError('padding="same" with an even reach pads one side more. Give the padding as a number.')
        padding = tuple(r // 2 if padding == "same" else 0 for r in reach)
    return list(conv.stride), [int(p) for p in padding]


def _check(conv: Convolution) -> None:
    if not isinstance(conv, (nn.Conv1d, nn.Conv2d)):
        raise InputError(f"Give an nn.Conv1d or an nn.Conv2d, but got {type(conv).__name__}.")
    if conv.padding_mode not in ("zeros", "circular"):
        raise InputError(f'Borders are "zeros" (padding 0: valid) or "circular", but got {conv.padding_mode!r}.')


def _dense_kernels(conv: Convolution) -> Tensor:
    """The kernels [C_out, C_in, *kernel], zeros between the groups."""
    weight, groups = conv.weight.detach(), conv.groups
    kernels = weight.new_zeros(conv.out_channels, conv.in_channels, *conv.kernel_size)
    rows, columns = conv.out_channels // groups, conv.in_channels // groups
    for g in range(groups):
        part = slice(g * rows, (g + 1) * rows)
        kernels[part, g * columns : (g + 1) * columns] = weight[part]
    return kernels


# --- a convolution as attention ----------------------------------------------------------------------------------------
class Offsets(Position):
    """Head h attends to the cell at offsets[h] from the query: its scores fall with the squared distance from that cell.

    offsets    [H, A] whole steps from the query to the key
    sharpness  scores are -sharpness * distance^2, so one step off weighs exp(-sharpness); None: minus infinity one step off
    wraps      cells on each axis of a ring, or empty where the axes end
    Source: Cordonnier, Loukas & Jaggi 2020, "On the Relationship between Self-Attention and Convolutional Layers", section 3.
    """

    name = "offsets"
    title = "Offsets"
    summary = "Each head attends to the cell at its own offset."
    source = "Cordonnier 2020, equation 8"
    formula = "sᵢⱼ − α‖(pⱼ − pᵢ) − Δₕ‖²"
    because = "each head has its own signed offset"
    axes = None
    relative = True
    preserves = frozenset({Shift})

    def __init__(self, offsets: Tensor, sharpness: float | None = 100.0, wraps: Sequence[int] = ()) -> None:
        super().__init__()
        self.offsets, self.sharpness, self.wraps = offsets, sharpness, tuple(wraps)

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        squares: Tensor | None = None
        for axis, (q, k) in enumerate(zip(at_q, at_k, strict=True)):
            delta = self.offsets[:, axis].to(q.device, q.dtype)
            gap = (k - q) - delta[head.long()]
            if self.wraps:
                gap = gap % self.wraps[axis]
            square = gap.square()
            squares = square if squares is None else squares + square
        assert squares is not None
        if self.sharpness is not None:
            return squares * -self.sharpness
        here = squares < 0.5
        return (squares * 0.0).masked_fill(~here, -math.inf)


class ConvolutionAsAttention(nn.Module):
    """A convolution's numbers from multi-head attention: [B, C_in, *size] to [B, C_out, *out].

    Each cell is a token with its channels, placed on its grid. Queries stand where the kernel begins; head h finds the cell of
    the h-th number of the kernel by its position alone, W_V hands the cell's channels on, and W_O holds the kernel.
    Beyond the border there is no cell: with a finite sharpness the weight goes to a sink without a value (a null key), which
    beats every cell that is one step off; with sharpness None every key is masked, which gives 0.
    """

    def __init__(self, conv: Convolution, sharpness: float | None = 100.0) -> None:
        super().__init__()
        _check(conv)
        if sharpness is not None and not sharpness > 0:
            raise InputError(f"A sharpness is larger than 0, or None for a hard choice, but got {sharpness}.")
        self.conv = [conv]  # in a list: its parameters are not ours
        kernels, width = _dense_kernels(conv), conv.in_channels
        cells = list(itertools.product(*map(range, conv.kernel_size)))
        self.offsets = torch.tensor(cells) * torch.tensor(conv.dilation)
        self.sharpness, heads = sharpness, len(cells)
        sink = sharpness is not None and conv.padding_mode == "zeros" and any(_geometry(conv)[1])
        self.attention = MultiHeadAttention(width, heads, head_width=1, value_width=width, normalizer=Softmax(sink=sink))
        self.attention.to(kernels.device, kernels.dtype)
        with torch.no_grad():
            self.attention.q_proj.weight.zero_()
            self.attention.k_proj.weight.zero_()
            self.attention.v_proj.weight.copy_(torch.eye(width).repeat(heads, 1))
            if sink:
                self.attention.normalizer.get_parameter("sinks").fill_(-(sharpness or 0.0) / 2)  # between a hit, 0, and a miss
        stacked = kernels.flatten(2).transpose(1, 2).reshape(conv.out_channels, heads * width)
        self.attention.o_proj = nn.Linear(heads * width, conv.out_channels, conv.bias is not None, device="meta")
        self.attention.o_proj.weight = nn.Parameter(stacked.contiguous())
        if conv.bias is not None:
            self.attention.o_proj.bias = nn.Parameter(conv.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv[0]
        size = x.shape[2:]
        out, (strides, pads) = output_size(conv, size), _geometry(conv)
        cells = Tokens.of(x.flatten(2).mT)
        cells = replace(cells, positions=_grid(size, [1] * len(size), [0] * len(size)).to(cells.positions))
        queries = Tokens.of(x.new_zeros(*x.shape[:1], math.prod(out), x.shape[1]))
        queries = replace(queries, positions=_grid(out, strides, pads).to(cells.positions))
        position = Offsets(self.offsets, self.sharpness, size if conv.padding_mode == "circular" else ())
        return self.attention(queries, position, source=cells).mT.unflatten(-1, out)


def convolution_as_attention(conv: Convolution, sharpness: float | None = 100.0) -> ConvolutionAsAttention:
    """nn.Conv1d or nn.Conv2d, of any stride, dilation and groups, as attention with one head for each number of the kernel.

    sharpness  off by exp(-sharpness) (with a sink: half of it), 2e-22 for 100; None: exactly
    raises     InputError for borders that are neither zeros nor circular
    """
    return ConvolutionAsAttention(conv, sharpness)


def _grid(size: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> Tensor:
    """Positions [N, A] of cells in row-major order, every stride-th one, from -pad on."""
    axes = [torch.arange(n) * s - p for n, s, p in zip(size, strides, pads, strict=True)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)


# --- linear attention as a recurrence -----------------------------------------------------------------------------------
class RecurrentLinearAttention(nn.Module):
    """Causal linear attention as a recurrent network: row by row, with a state."""

    def __init__(self, attention: LinearAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, tokens: Tokens, position: Position | None = None) -> Tensor:
        """[..., N, D] to [..., N, D], for one text with rows in the order of their ranks."""
        rows = self.attention._rows(tokens, tokens, position or NoPosition())
        state = self.attention.cache()
        parts = zip(*(t.unbind(-2) for t in (rows.q, rows.k, rows.rotated_q, rows.rotated_k, rows.v)), strict=True)
        z = torch.stack([state.step(*row) for row in parts], -2)
        return self.attention._output(z.to(tokens.x.dtype))


def recurrence_of(attention: LinearAttention) -> RecurrentLinearAttention:
    """The same layer as a loop over steps. Raises InputError where its mask is not causal."""
    attention.cache()
    return RecurrentLinearAttention(attention)


# --- a fixed mixing of tokens as attention ------------------------------------------------------------------------------
class FixedWeights(Position):
    """Scores independent of content: the logarithm of weights [H, N, M], indexed by position."""

    name = "fixed-weights"
    title = "Fixed weights"
    summary = "Each head has a table of weights, one for each pair of positions."
    formula = "sᵢⱼ + log wₕ[i, j]"
    because = "every pair of positions has its own weight"

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor:
        _, n, m = self.weights.shape
        log_weights = self.weights.to(at_q[0].device).log().flatten()
        pair = head * (n * m) + (at_q[0] * m + at_k[0])
        return log_weights[pair.long()]


class FixedMixing(nn.Module):
    """x [..., N_in, D] to mixing @ x [..., N_out, D], with attention: a head for the positive weights, one for the negative.

    Attention weights are non-negative and sum to 1, so each head has |w| / scale, with scale the largest row sum, and gives the
    rest to a null key whose value is 0; W_O contains +scale and -scale.
    """

    def __init__(self, mixing: Tensor, width: int) -> None:
        super().__init__()
        if mixing.ndim != 2:
            raise ShapeError(f"The mixing is a matrix [N_out, N_in], but its shape is {tuple(mixing.shape)}.")
        signs = torch.stack([mixing.detach().clamp(min=0), (-mixing.detach()).clamp(min=0)])
        self.rows, self.scale = mixing.shape[0], float(signs.sum(-1).max()) or 1.0
        shares = signs / self.scale
        rest = (1 - shares.sum(-1, keepdim=True)).clamp(min=0)
        self.position = FixedWeights(torch.cat([shares, rest], -1))
        self.attention = MultiHeadAttention(width, heads=2, head_width=1, value_width=width).to(mixing.device, mixing.dtype)
        one = torch.eye(width, dtype=mixing.dtype, device=mixing.device)
        with torch.no_grad():
            self.attention.q_proj.weight.zero_()
            self.attention.k_proj.weight.zero_()
            self.attention.v_proj.weight.copy_(one.repeat(2, 1))
            assert self.attention.o_proj is not None
            self.attention.o_proj.weight.copy_(torch.cat([one, -one], 1) * self.scale)

    def tokens(self, x: Tensor) -> tuple[Tokens, Tokens]:
        """Queries, one for each row of the mixing (their content is not used), and keys, with the null key last."""
        queries = Tokens.of(x.new_zeros(*x.shape[:-2], self.rows, x.shape[-1]))
        return queries, Tokens.of(torch.cat([x, torch.zeros_like(x[..., :1, :])], -2))

    def forward(self, x: Tensor) -> Tensor:
        queries, keys = self.tokens(x)
        return self.attention(queries, self.position, source=keys)


def tokens_mlp_as_attention(mixing: Tensor, width: int) -> FixedMixing:
    """A linear layer over tokens (one of MLP-Mixer's, without its bias) as attention with fixed weights; mixing [N_out, N_in]."""
    return FixedMixing(mixing, width)


# --- an unrolled recurrence as an MLP -----------------------------------------------------------------------------------
class UnrolledRnn(nn.Module):
    """One layer for each step, all sharing their weights: layer t maps [x_t, h] to the next h.

    Every layer reads an input, so it is an MLP with skip connections from the input; only weight sharing makes it an RNN.
    """

    def __init__(self, rnn: nn.RNN, steps: int) -> None:
        super().__init__()
        if not isinstance(rnn, nn.RNN) or rnn.num_layers != 1 or rnn.bidirectional:
            raise InputError("Give an nn.RNN of one layer and one direction; more of them are one such after another.")
        if steps < 1:
            raise ShapeError(f"An MLP has at least one layer, but got steps={steps}.")
        self.activation = torch.tanh if rnn.nonlinearity == "tanh" else torch.relu
        weight = torch.cat([rnn.get_parameter("weight_ih_l0"), rnn.get_parameter("weight_hh_l0")], 1).detach()
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=rnn.bias, dtype=weight.dtype, device=weight.device)
        with torch.no_grad():
            layer.weight.copy_(weight)
            if rnn.bias:
                layer.bias.copy_(rnn.get_parameter("bias_ih_l0") + rnn.get_parameter("bias_hh_l0"))
        self.layers, self.hidden = nn.ModuleList([layer] * steps), rnn.hidden_size

    def forward(self, x: Tensor) -> Tensor:
        """x [..., T, D] to the hidden layers [..., T, H], from h = 0."""
        if x.shape[-2] != len(self.layers):
            raise ShapeError(f"This MLP has {len(self.layers)} layers, but got {x.shape[-2]} steps. Unroll it for as many.")
        h = x.new_zeros(*x.shape[:-2], self.hidden)
        hidden_states = []
        for layer, now in zip(self.layers, x.unbind(-2), strict=True):
            h = self.activation(layer(torch.cat([now, h], -1)))
            hidden_states.append(h)
        return torch.stack(hidden_states, -2)


def unrolled_rnn_as_mlp(rnn: nn.RNN, steps: int) -> UnrolledRnn:
    """An nn.RNN for texts of `steps` tokens as a deep MLP with tied weights. Raises InputError for several layers or directions."""
    return UnrolledRnn(rnn, steps)
