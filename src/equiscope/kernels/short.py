"""Short rows in bfloat16 on a CPU: training with the table of all weights, which torch's kernel for long rows avoids.

torch's CPU kernel converts bfloat16 blocks to float32 and back for every block of queries, forward and backward. Where all
weights fit into a small table, three products of it take less time.
"""

import math

import torch
from torch import Tensor

from equiscope.kernels import private
from equiscope.kernels.bias import causal_mask
from equiscope.kernels.private import overridable

SHORT = 512  # rows up to which the table is faster, forward and backward


def supports(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether bfloat16 rows on a CPU are few, and a gradient will be asked for."""
    if q.device.type != "cpu" or q.dtype != torch.bfloat16 or torch.compiler.is_exporting():  # there a size compared is a guard
        return False
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))):
        return False
    if max(q.shape[-2], k.shape[-2]) > SHORT:
        return False
    return torch.compiler.is_compiling() or not private.transformed(q, k, v)


@overridable
def table_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, causal: bool) -> Tensor:
    """q [..., N, K], k [..., M, K], v [..., M, V] to [..., N, V], the weights in the dtype of the rows.

    Scores are rounded to it once more, which adds a third to the error (4e-3 instead of 3e-3 of the output, normal q, k, v).
    """
    n, m = q.shape[-2], k.shape[-2]
    added = q.new_full((n, m), -math.inf).triu(1) if causal else q.new_zeros((1, 1))
    if mask is not None:
        mask = mask & causal_mask(q, k) if causal else mask
        nonempty = mask.any(-1, keepdim=True)  # a row with every key masked has no softmax
        added = q.new_zeros(()).masked_fill(~mask & nonempty, -math.inf).expand(*q.shape[:-1], m).reshape(-1, n, m)
    queries, keys, values = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    weights = torch.baddbmm(added, queries, keys.mT, alpha=scale).softmax(-1)
    output = torch.bmm(weights, values).reshape(*q.shape[:-1], v.shape[-1])
    return output if mask is None else output.masked_fill(~nonempty, 0.0)
