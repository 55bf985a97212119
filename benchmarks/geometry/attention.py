"""Attention among points in space: two layers, ours and of other libraries, as functions of (features, positions) to features."""

import math

import torch
from benchmarks.geometry.points import CUTOFF
from torch import nn

from equiscope.geometry import Features, SpaceBlock, neighbours

LAYERS, HEADS = 2, 4


class Ours(nn.Module):
    """Two blocks of C scalars and C / 2 vectors; dense, or over neighbour lists that are built in every pass."""

    def __init__(self, channels, form):
        super().__init__()
        widths = {"0e": channels, "1o": channels // 2}
        more = {} if form == "dense" else {"radial": 8, "cutoff": CUTOFF, "filtered": True}
        self.form, self.arrows = form, channels // 2
        self.blocks = nn.ModuleList(SpaceBlock(widths, HEADS, 2 * channels, value_heads=2, **more) for _ in range(LAYERS))

    def forward(self, x, at):
        return self.over(x, at, self.near(at))

    def near(self, at):
        return None if self.form == "dense" else neighbours(at, CUTOFF)

    def over(self, x, at, near):
        f = Features({"0e": x, "1o": x.new_zeros(*x.shape[:2], 3, self.arrows)})
        for block in self.blocks:
            f = block(f, at, near)
        return f["0e"].sum() + f["1o"].square().sum()


class Compiled(nn.Module):
    """The same with torch.compile; what an eager pass needs of the lists is computed before."""

    def __init__(self, inside):
        super().__init__()
        self.inside, self.run = inside, torch.compile(inside.over, dynamic=False)

    def forward(self, x, at):
        return self.run(x, at, self.inside.near(at))


class E3nn(nn.Module):
    """e3nn's transformer: keys and values by a tensor product with harmonics of the way, weighted by a network of the distance.

    form  "documented": as in its documentation, every channel with every other, weights from a bilinear product; "plain": weights
          from an inner product of queries and keys, and products channel by channel, then one linear map, as NequIP and MACE
    """

    def __init__(self, channels, form):
        super().__init__()
        from e3nn import o3
        from e3nn.nn import FullyConnectedNet

        self.form, self.o3 = form, o3
        self.irreps = o3.Irreps(f"{channels}x0e + {channels // 2}x1o")
        self.harmonics = o3.Irreps.spherical_harmonics(2)
        self.layers = nn.ModuleList()
        for _ in range(LAYERS):
            layer = nn.Module()
            layer.query = o3.Linear(self.irreps, self.irreps)
            for name in ("key", "value"):
                product, after = self.product()
                setattr(layer, name, product)
                setattr(layer, f"{name}_after", after)
                setattr(layer, f"{name}_net", FullyConnectedNet([10, 16, product.weight_numel], act=torch.nn.functional.silu))
            if form == "documented":
                layer.dot = o3.FullyConnectedTensorProduct(self.irreps, self.irreps, "0e")
            self.layers.append(layer)

    def product(self):
        o3, irreps = self.o3, self.irreps
        if self.form == "documented":
            return o3.FullyConnectedTensorProduct(irreps, self.harmonics, irreps, shared_weights=False), nn.Identity()
        made, steps = [], []
        for i, (many, one) in enumerate(irreps):
            for j, (_, other) in enumerate(self.harmonics):
                for out in one * other:
                    if out in irreps:
                        steps.append((i, j, len(made), "uvu", True))
                        made.append((many, out))
        middle = o3.Irreps(made)
        product = o3.TensorProduct(irreps, self.harmonics, middle, steps, shared_weights=False, internal_weights=False)
        return product, o3.Linear(middle, irreps)

    def forward(self, x, at):
        from e3nn.math import soft_one_hot_linspace, soft_unit_step

        x, at = x[0], at[0]
        f = torch.cat([x, x.new_zeros(len(x), self.irreps.dim - x.shape[-1])], -1)
        with torch.no_grad():
            i, j = ((torch.cdist(at, at) < CUTOFF) & ~torch.eye(len(at), dtype=torch.bool)).nonzero().T
        way = at[j] - at[i]
        length = way.norm(dim=1)
        basis = soft_one_hot_linspace(length, 0.0, CUTOFF, 10, basis="smooth_finite", cutoff=True) * math.sqrt(10)
        ends = soft_unit_step(10 * (1 - length / CUTOFF))
        told = self.o3.spherical_harmonics(self.harmonics, way, True, normalization="component")
        for layer in self.layers:
            q = layer.query(f)
            k = layer.key_after(layer.key(f[j], told, layer.key_net(basis)))
            v = layer.value_after(layer.value(f[j], told, layer.value_net(basis)))
            inner = (q[i] * k).sum(-1, keepdim=True) / math.sqrt(k.shape[-1])
            score = layer.dot(q[i], k) if self.form == "documented" else inner
            raw = ends[:, None] * score.exp()
            whole = raw.new_zeros(len(x), 1).index_add(0, i, raw)
            whole = torch.where(whole == 0, 1.0, whole)
            f = f + f.new_zeros(f.shape).index_add(0, i, (raw / whole[i]).relu().sqrt() * v)
        return f.square().sum()


class Se3Pytorch(nn.Module):
    """se3-transformer-pytorch."""

    def __init__(self, channels):
        super().__init__()
        from se3_transformer_pytorch import SE3Transformer

        self.inside = SE3Transformer(
            dim=channels,
            heads=HEADS,
            depth=LAYERS,
            dim_head=channels // HEADS,
            num_degrees=2,
            num_neighbors=16,
            differentiable_coors=True,
        )

    def forward(self, x, at):
        return self.inside(x, at, return_type=0).square().sum()


class EquiformerPytorch(nn.Module):
    """equiformer-pytorch."""

    def __init__(self, channels):
        super().__init__()
        from equiformer_pytorch import Equiformer

        self.inside = Equiformer(
            dim=(channels, channels // 2), dim_in=(channels,), num_degrees=2, input_degrees=1, heads=(HEADS, HEADS), depth=LAYERS,
            dim_head=(channels // HEADS, channels // HEADS), num_neighbors=16, reduce_dim_out=False, attend_self=True,
        )  # fmt: skip

    def forward(self, x, at):
        found = self.inside(x, at)
        return found.type0.square().sum()


WAYS = {
    "ours, dense": lambda channels: Ours(channels, "dense"),
    "ours, local": lambda channels: Ours(channels, "local"),
    "ours, dense, compiled": lambda channels: Compiled(Ours(channels, "dense")),
    "e3nn, plain inner product": lambda channels: E3nn(channels, "plain"),
    "e3nn, as its documentation": lambda channels: E3nn(channels, "documented"),
    "se3-transformer-pytorch": Se3Pytorch,
    "equiformer-pytorch": EquiformerPytorch,
}
