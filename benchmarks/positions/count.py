"""Operations and memory traffic of a pass, counted call by call, not timed.

Operations: multiply-adds of products, and one for each number that another call returns. A fused kernel counts as the products it
computes, a causal one only those below the diagonal; its softmax is not counted. Bytes: what each call reads and writes, where a
number that is read several times counts once.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
FREE = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "lift_fresh", "_local_scalar_dense")
PRODUCTS = {aten.mm: (0, 1), aten.bmm: (0, 1), aten.addmm: (1, 2), aten.baddbmm: (1, 2), aten.baddbmm_: (1, 2), aten.addmm_: (1, 2)}


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = self.bytes = 0

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        out = call(*args, **(kwargs or {}))
        if not call.is_view and call.overloadpacket.__name__ not in FREE:
            self.operations += operations(call.overloadpacket, args, out)
            self.bytes += sum(size(t) for t in tree_leaves((args, kwargs, out)) if isinstance(t, torch.Tensor))
        return out


def operations(call, args, out):
    name = call.__name__
    if "scaled_dot_product" in name:
        backward = "backward" in name
        q, k, v = args[1:4] if backward else args[:3]
        causal = args[7 if backward else 4] if len(args) > (7 if backward else 4) else False
        whole = math.prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])
        return whole * (2.5 if backward else 1) * ((1 + 1 / q.shape[-2]) / 2 if causal else 1)
    if call in PRODUCTS:
        a, b = (args[i] for i in PRODUCTS[call])
        return a.numel() * b.shape[-1]
    return sum(t.numel() for t in tree_leaves(out) if isinstance(t, torch.Tensor))


def size(t):
    return min(t.numel() * t.element_size(), t.untyped_storage().nbytes())


def count(run):
    """Operations and bytes of one call of run()."""
    with Count() as counted:
        run()
    return counted.operations, counted.bytes
