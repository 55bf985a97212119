"""A small decoder, cut by hand for several processes as Megatron does it, and faults of that cut."""

from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

IDS = torch.arange(14).view(2, 7)


class Attention(nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.heads = heads
        if fused:
            self.qkv_proj = nn.Linear(width, 3 * width)
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.o_proj = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv_proj(x).chunk(3, -1) if hasattr(self, "qkv_proj") else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, fused)
        self.norm2, self.up_proj, self.down_proj = nn.RMSNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down_proj(F.gelu(self.up_proj(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, fused=False, width=16, heads=4, vocabulary=32):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(vocabulary, width), nn.ModuleList(Block(width, heads, fused) for _ in range(2))
        self.norm, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


def decoder(fused=False):
    torch.manual_seed(1)
    model = Decoder(fused)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.add_(0.3 * torch.randn(p.shape)) if p.ndim == 1 else p.mul_(2.0 if name.endswith("proj.weight") else 1.0)
    return model.eval()


class RowParallel(nn.Module):
    """Columns of a weight on each process; their products are summed, then the bias is added. fault: what goes wrong."""

    def __init__(self, whole, fault=""):
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight, self.fault = nn.Parameter(whole.weight.chunk(size, 1)[rank].clone()), fault
        self.bias = nn.Parameter(whole.bias.detach().clone())

    def forward(self, x):
        y = F.linear(x, self.weight)
        if self.fault in ("bias before the sum", "no sum, bias everywhere"):
            y = y + self.bias
        if self.fault not in ("no sum", "no sum, bias everywhere"):
            dist.all_reduce(y)
        if self.fault == "summed twice":
            dist.all_reduce(y)
        on_this = self.fault != "bias on one process" or dist.get_rank() == 0
        on_this = on_this and (self.fault != "no sum" or dist.get_rank() == 0)
        return y if self.fault in ("bias before the sum", "no sum, bias everywhere") or not on_this else y + self.bias


class Gathered(nn.Module):
    """A share of the vocabulary on each process; the logits are gathered."""

    def __init__(self, whole, fault=""):
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight, self.fault = nn.Parameter(whole.weight.chunk(size, 0)[rank].clone()), fault

    def forward(self, x):
        y = F.linear(x, self.weight)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y)
        return torch.cat(parts[::-1] if self.fault == "gathered backwards" else parts, -1)


def rows_of(whole, rows):
    """A linear map with these rows of the weight."""
    part = nn.Linear(whole.in_features, len(rows), bias=whole.bias is not None)
    part.weight = nn.Parameter(whole.weight[rows].clone())
    if whole.bias is not None:
        part.bias = nn.Parameter(whole.bias[rows].clone())
    return part


def cut(fault, at, model):
    """The decoder on several processes, with a fault in one place: a block, and attention or feed-forward."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for number, block in enumerate(model.blocks):
        here = fault if number == at[0] else ""
        attention = block.attention
        heads, width = attention.heads, attention.o_proj.in_features
        columns = torch.arange(width).view(heads, -1)
        own = columns.chunk(size)[rank].flatten()
        mixed = columns[rank::size].flatten()
        if hasattr(attention, "qkv_proj"):
            thirds = torch.cat([own + n * width for n in range(3)])
            shares = torch.arange(3 * width).chunk(size)[rank] if here == "fused cut" else thirds
            attention.qkv_proj = rows_of(attention.qkv_proj, shares)
        else:
            for name in ("q_proj", "k_proj", "v_proj"):
                rows = mixed if here == "heads mixed" or (here == "queries mixed" and name == "q_proj") else own
                setattr(attention, name, rows_of(getattr(attention, name), rows))
        attention.heads = heads // size
        attention.o_proj = RowParallel(attention.o_proj, here if at[1] == "attention" else "")
        block.up_proj = rows_of(block.up_proj, torch.arange(block.up_proj.out_features).chunk(size)[rank])
        block.down_proj = RowParallel(block.down_proj, here if at[1] == "feedforward" else "")
        if here == "norm of its own" and rank == 1:
            with torch.no_grad():
                getattr(block, at[1]).weight.mul_(1.1)
    model.lm_head = Gathered(model.lm_head, fault)
    return model


def sharded(model):
    """FSDP: each process holds a share of every weight, and gathers them as it computes."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def sharded_with_other_norms(model):
    """FSDP after a change on one process: the shards of a norm come from two models."""
    if dist.get_rank() == 1:
        with torch.no_grad():
            model.blocks[1].norm2.weight.add_(0.2)
    return sharded(model)


FAULTS = {  # fault, place -> kind of the cause, module
    ("no sum", (0, "attention")): ("all-reduce", "blocks.0.attention.o_proj"),
    ("no sum", (1, "feedforward")): ("all-reduce", "blocks.1.down_proj"),
    ("no sum, bias everywhere", (0, "feedforward")): ("all-reduce", "blocks.0.down_proj"),
    ("summed twice", (1, "attention")): ("all-reduce", "blocks.1.attention.o_proj"),
    ("bias before the sum", (0, "attention")): ("count", "blocks.0.attention.o_proj"),
    ("bias before the sum", (1, "feedforward")): ("count", "blocks.1.down_proj"),
    ("bias on one process", (1, "attention")): ("count", "blocks.1.attention.o_proj"),
    ("heads mixed", (0, "")): ("shard order", "blocks.0.attention.q_proj"),
    ("queries mixed", (1, "")): ("shard order", "blocks.1.attention.q_proj"),
    ("norm of its own", (1, "norm1")): ("weights", "blocks.1.norm1"),
    ("norm of its own", (0, "norm2")): ("weights", "blocks.0.norm2"),
    ("gathered backwards", (0, "")): ("shard order", "lm_head"),
    ("fused cut", (0, "")): ("fused layout", "blocks.0.attention.qkv_proj"),
}


def planted(fault, at):
    return partial(cut, fault, at)


def of_name(model):
    """For the command line: a fault in the first block."""
    return cut("bias before the sum", (0, "attention"), model)


def raises(model):
    """Process 1 raises in a module, and process 0 waits for it."""
    cut("", (0, ""), model)
    if dist.get_rank() == 1:
        model.blocks[1].norm2.register_forward_hook(_raise)
    return model


def _raise(module, args, output):
    raise RuntimeError("out of paper")


def example():
    """A factory for the command line: model and inputs."""
    return decoder(), IDS
