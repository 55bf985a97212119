"""FlexAttention: biases and masks as functions of row numbers, compiled into the kernel. It has no backward on a CPU.

Source: Dong et al. 2024, "Flex Attention".
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import BlockMask


def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, mask: BlockMask | None = None,
    score_bias: Callable[..., Tensor] | None = None, compiled: bool = True,
) -> Tensor:  # fmt: skip
    """q [..., H, N, K], k [..., H, M, K], v [..., H, M, V] to [..., H, N, V].

    score_bias  changes one score: (score, batch, head, row of the query, row of the key) to a number
    compiled    False: torch's own readable form, which writes the table of scores
    """
    lead, heads = q.shape[:-3], q.shape[-3]
    flat = [t.reshape(-1, *t.shape[-3:]) for t in (q, k, v)]
    kernel: Any = torch.compile(torchs.flex_attention) if compiled else torchs.flex_attention
    options = {"num_stages": 2} if compiled else None  # with torch's three, an H100 has too little shared memory for a bias
    output = kernel(*flat, score_mod=score_bias, block_mask=mask, scale=scale, kernel_options=options)
    return output.reshape(*lead, heads, q.shape[-2], v.shape[-1])
