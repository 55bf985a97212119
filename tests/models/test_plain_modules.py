"""What tools for ordinary PyTorch modules find in a built model: linear maps, tables and norms under their usual names (N2)."""

import warnings

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from equiscope.models import Attention, Block, Entry, FeedForward, Head, Norm, Spec, build
from equiscope.positions import Learned, Rope

LLAMA = Spec(
    16, vocabulary=50, layers=2, outputs=50,
    block=Block(
        Attention(heads=4, kv_heads=2, position=Rope(), causal=True, qk_norm="rms"), Norm("rms"),
        FeedForward(32, "silu", bias=False, gated=True),
    ),
)  # fmt: skip
BERT = Spec(
    16, 50, Entry(types=2, norm=True), 2, Block(Attention(heads=4, position=Learned(12), bias=True), Norm(order="post")),
    outputs=50, tied=True, head=Head(bias=True, hidden="gelu", norm=True),
)  # fmt: skip
SPECS = pytest.mark.parametrize("spec", [LLAMA, BERT], ids=["llama", "bert"])
IDS = torch.arange(14).view(2, 7)
PLAN = {
    **{f"attention.{part}_proj": ColwiseParallel for part in "qkv"}, "attention.o_proj": RowwiseParallel,
    "feedforward.up_proj": ColwiseParallel, "feedforward.gate_proj": ColwiseParallel, "feedforward.down_proj": RowwiseParallel,
}  # fmt: skip


def made(spec):
    torch.manual_seed(0)
    return build(spec).eval()


@SPECS
def test_every_matrix_belongs_to_a_linear_map_a_table_or_a_position_scheme(spec):
    model = made(spec)
    usual = {id(p) for part in model.modules() if isinstance(part, nn.Linear | nn.Embedding) for p in part.parameters()}
    rest = {name for name, p in model.named_parameters() if p.ndim > 1 and id(p) not in usual}
    assert rest <= {"position.table"}


@SPECS
def test_hooks_see_every_projection(spec):
    model, seen = made(spec), []
    for name, part in model.named_modules():
        if name.endswith("_proj"):
            part.register_forward_hook(lambda part, inputs, output, name=name: seen.append(name))
    model(IDS)
    each = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", *(["gate_proj"] if spec is LLAMA else []), "down_proj"]
    assert sorted(name.split(".")[-1] for name in seen) == sorted(each * 2)


@SPECS
def test_a_tied_head_is_the_table_itself(spec):
    model = made(spec)
    assert (model.head.lm_head.weight is model.embedding.weight) == spec.tied
    moved = made(spec).double()
    assert (moved.head.lm_head.weight is moved.embedding.weight) == spec.tied


@SPECS
def test_lora_trains_and_leaves_the_rest_alone(spec):
    peft = pytest.importorskip("peft")
    model = made(spec)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tied tables, which are no targets here
        lora = peft.get_peft_model(model, peft.LoraConfig(target_modules=targets, r=2)).train()
    learned = [p for p in lora.parameters() if p.requires_grad]
    assert len(learned) == 2 * len(targets) * spec.layers
    optimiser = torch.optim.AdamW(learned, lr=0.02)
    losses = []
    for _ in range(30):
        loss = nn.functional.cross_entropy(lora(IDS).flatten(0, 1), IDS.roll(1, 1).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    merged = dict(lora.unload().named_parameters())
    assert all(torch.equal(merged[name], value) for name, value in before.items())


@SPECS
def test_dynamic_quantisation_changes_every_linear_map(spec):
    model = made(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is deprecated, and still what people run
        small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    assert not [name for name, part in small.named_modules() if type(part) is nn.Linear]
    with torch.no_grad():
        far = (small(IDS) - model(IDS)).norm() / model(IDS).norm()
    assert 0 < far < 0.1  # eight bits a weight


def _one_of_two(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    model, mesh = made(LLAMA), init_device_mesh("cpu", (2,))
    for block in model.blocks:
        parallelize_module(block, mesh, {name: style() for name, style in PLAN.items()})
        block.attention.heads, block.attention.kv_heads = 2, 1  # those of this process
    with torch.no_grad():
        torch.save(model(IDS), folder / f"{rank}.pt")
    dist.destroy_process_group()


def test_a_column_and_row_parallel_plan_on_two_processes_equals_one(tmp_path):
    mp.spawn(_one_of_two, (tmp_path,), nprocs=2)
    with torch.no_grad():
        wanted = made(LLAMA)(IDS)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert (found - wanted).norm() / wanted.norm() < 1e-5  # float32: sums in another order
