"""What tools for ordinary PyTorch modules find in a built model: linear maps, tables and norms under their usual names (N2)."""

import warnings

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests.drawn import LISTED, VARIANTS, placed, title
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from equiscope.models import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer, Spec, build
from equiscope.positions import Fire, Learned, Position, Rope
from equiscope.tokens import Tokens

LLAMA = Spec(
    16, vocabulary=50, layers=2, outputs=50,
    block=Block(
        Attention(heads=4, kv_heads=2, position=Rope(), causal=True, qk_norm="rms"), Norm("rms"),
        FeedForward(32, "silu", bias=False, gated=True),
    ),
)  # fmt: skip
BERT = Spec(
    16, 50, InputLayer(types=2, norm=True), 2, Block(Attention(heads=4, position=Learned(12), bias=True), Norm(order="post")),
    outputs=50, tied=True, output=OutputLayer(bias=True, hidden="gelu", norm=True),
)  # fmt: skip
SPECS = pytest.mark.parametrize("spec", [LLAMA, BERT], ids=["llama", "bert"])
IDS = torch.arange(14).view(2, 7)
PLAN = {
    **{f"attention.{part}_proj": ColwiseParallel for part in "qkv"}, "attention.o_proj": RowwiseParallel,
    "feedforward.up_proj": ColwiseParallel, "feedforward.gate_proj": ColwiseParallel, "feedforward.down_proj": RowwiseParallel,
}  # fmt: skip
CALLED = {  # parts of schemes, in the order in which they are called
    **dict.fromkeys(["Learned", "LearnedNd", "T5Bias", "SwinBias"], ("table",)),
    **dict.fromkeys(["Fire", "DynamicBias", "LogCpb"], ("mlp.0", "mlp.1", "mlp.2", "mlp")),
}
PRODUCT = "all its rows are multiplied with queries, keys or weights, and a number is picked for each pair: no row is looked up"
BARE = {  # parameters of position schemes that no module of torch holds, and why
    "Shaw.key_table": PRODUCT,
    "Shaw.value_table": PRODUCT,
    "Deberta.key_table": PRODUCT,
    "Deberta.query_table": PRODUCT,
    "Cope.table": PRODUCT,
    "TransformerXL.weight": "a map of sinusoids that are never made: its transpose is applied to the queries, one part a head",
    "TransformerXL.word": "a row for each head that is added to its queries (the authors' r_w_bias)",
    "TransformerXL.distance": "a row for each head that is added to its queries (the authors' r_r_bias)",
    "Pope.phase": "angles that are added to angles",
    "MixedRope.directions": "angles a step: coordinates are multiplied in float32 where the model is narrower",
    "Fourier.directions": "angles a step: coordinates are multiplied in float32 where the model is narrower",
    "Kerple.strength": "a number for each head",
    "Kerple.shape": "a number for each head",
    "Fire.rate": "a number",
    "Fire.threshold": "a number",
}


def made(spec):
    torch.manual_seed(0)
    return build(spec).eval()


@SPECS
def test_every_matrix_belongs_to_a_linear_map_a_table_or_a_position_scheme(spec):
    model = made(spec)
    usual = {id(p) for part in model.modules() if isinstance(part, nn.Linear | nn.Embedding) for p in part.parameters()}
    rest = {name for name, p in model.named_parameters() if p.ndim > 1 and id(p) not in usual}
    assert not rest


def with_scheme(position):
    return made(Spec(8, vocabulary=5, block=Block(Attention(heads=2, position=position)), outputs=5))


def test_of_position_schemes_only_listed_parameters_are_bare():
    found = set()
    for position in LISTED + VARIANTS:
        for part in with_scheme(position).modules():
            bare = [name for name, _ in part.named_parameters(recurse=False)]
            if isinstance(part, Position):
                found |= {f"{type(part).__name__}.{name}" for name in bare}
            else:
                assert not bare or isinstance(part, nn.Linear | nn.Embedding | nn.LayerNorm), type(part)
    assert found == set(BARE)


@pytest.mark.parametrize("position", [p for p in LISTED if type(p).__name__ in CALLED], ids=title)
def test_hooks_see_the_tables_and_networks_of_schemes(position):
    model, seen = with_scheme(position), []
    for name, part in model.position.named_modules():
        part.register_forward_hook(lambda part, inputs, output, name=name: seen.append(name))
    model(placed(position, Tokens.of(torch.randn(7, 8))))
    assert tuple(seen) == CALLED[type(position).__name__]


def test_lora_and_eight_bits_change_the_network_of_a_scheme():
    peft = pytest.importorskip("peft")
    model = with_scheme(Fire())
    lora = peft.get_peft_model(model, peft.LoraConfig(target_modules=["mlp.0", "mlp.2"], r=2, init_lora_weights=False))
    tuned = lora(IDS % 5)
    assert (lora.merge_and_unload()(IDS % 5) - tuned).norm() / tuned.norm() < 1e-5  # float32: sums in another order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is deprecated, and still what people run
        small = torch.ao.quantization.quantize_dynamic(model.position, {nn.Linear})
    assert not [name for name, part in small.named_modules() if type(part) is nn.Linear]
    at = torch.arange(7.0)
    heads = torch.arange(2)[:, None, None]
    wanted, found = (scheme.score_bias(heads, (at[:, None],), (at[None],)) for scheme in (model.position, small))
    assert 0 < (found - wanted).norm() / wanted.norm() < 0.1  # eight bits a weight


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
    assert (model.output_layer.lm_head.weight is model.embedding.weight) == spec.tied
    moved = made(spec).double()
    assert (moved.output_layer.lm_head.weight is moved.embedding.weight) == spec.tied


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
    mp.start_processes(_one_of_two, (tmp_path,), nprocs=2, start_method="fork")  # which need not import for seconds
    with torch.no_grad():
        wanted = made(LLAMA)(IDS)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert (found - wanted).norm() / wanted.norm() < 1e-5  # float32: sums in another order
