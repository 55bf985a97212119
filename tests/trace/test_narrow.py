"""Products in dtypes that the CPU at hand cannot multiply go through float32; any CPU is told here that it cannot."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from equiscope.attention import Causal, LinearAttention, kernels
from equiscope.attention.shown import shown
from equiscope.models import PRESETS, Mixed, build, generate, prepared
from equiscope.models.packed import Packed, Ways
from equiscope.models.presets import tiny
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens
from equiscope.tokens.stem import Stem
from equiscope.trace import narrow, ops
from equiscope.trace.recorder import Recorder, using
from equiscope.train import cost, muon

BOTH = frozenset({torch.bfloat16, torch.float16})
dtypes = pytest.mark.parametrize("dtype", sorted(BOTH, key=str), ids=str)


@pytest.fixture(autouse=True)
def no_instructions(monkeypatch):
    monkeypatch.setattr(narrow, "SLOW", BOTH)
    monkeypatch.setattr(narrow, "HALF", frozenset())
    monkeypatch.setattr(narrow, "TINY", 0)
    monkeypatch.setattr(muon, "SLOW", BOTH)


@pytest.fixture
def half(monkeypatch):
    """A CPU that multiplies bfloat16 at half of float32's speed."""
    monkeypatch.setattr(narrow, "SLOW", frozenset())
    monkeypatch.setattr(narrow, "HALF", frozenset({torch.bfloat16}))
    monkeypatch.setattr(muon, "SLOW", frozenset())
    monkeypatch.setattr(muon, "HALF", frozenset({torch.bfloat16}))


@pytest.fixture
def fast(monkeypatch):
    """Back to a CPU that can."""
    return lambda: monkeypatch.setattr(narrow, "SLOW", frozenset())


class Products(TorchDispatchMode):
    """The products that torch was asked for in a narrow dtype."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        multiplies = name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot") or "conv" in name or "attention" in name
        if multiplies and any(isinstance(a, Tensor) and a.dtype in BOTH for a in args):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def none_narrow() -> Iterator[None]:
    with Products() as products:
        yield
    assert products.found == []


def rows(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_()


@dtypes
def test_an_affine_map_is_the_rounded_float32_one_and_so_are_its_gradients(dtype):
    x, w, b = rows(5, 12, dtype=dtype), rows(12, 8, dtype=dtype), rows(8, dtype=dtype)
    wide, g = [t.detach().float().requires_grad_() for t in (x, w, b)], torch.randn(5, 8).to(dtype)
    with none_narrow():
        got = ops.affine(x, w, b)
        mine = torch.autograd.grad(got, (x, w, b), g)
    wanted = ops.affine(*wide)
    assert got.dtype == dtype
    assert torch.equal(got, wanted.to(dtype))
    for slope, theirs in zip(mine, torch.autograd.grad(wanted, wide, g.float()), strict=True):
        assert slope.dtype == dtype
        assert torch.equal(slope, theirs.to(dtype))


def test_the_watch_for_narrow_products_sees_them(fast):
    fast()
    with Products() as products:
        ops.affine(rows(5, 12), rows(12, 8), None).sum().backward()
    assert len(products.found) == 3


@dtypes
def test_a_product_is_as_near_to_float64_as_torchs_own(dtype, fast):
    a, b = rows(33, 200, dtype=dtype), rows(200, 17, dtype=dtype)
    exact, ours = a.double() @ b.double(), ops.matmul(a, b)
    fast()
    assert relative_error(ours.double(), exact) <= relative_error((a @ b).double(), exact) * 1.01


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_that_is_learned_or_asks_for_one_row_is_the_rounded_float32_one(causal, biased):
    q, k, v = (rows(2, 3, 40, 16) for _ in range(3))
    bias = torch.randn(40, 40) if biased else None
    with none_narrow():
        got = kernels.fused(q, k, v, 0.25, causal=causal, bias=bias)
        slopes = torch.autograd.grad(got.float().sum(), (q, k, v))
    assert torch.equal(got, kernels.fused(*(t.float() for t in (q, k, v)), 0.25, causal=causal, bias=bias).bfloat16())
    assert {slope.dtype for slope in slopes} == {torch.bfloat16}
    with torch.no_grad(), none_narrow():
        kernels.fused(q[..., :1, :], k, v, 0.25, bias=None if bias is None else bias[:1])


def test_what_is_kept_for_the_way_back_is_kept_narrow_and_must_not_be_changed():
    x, w, wide = rows(64, 96), rows(96, 80), []

    def compute(*operands: Tensor) -> Tensor:
        wide.extend(StorageWeakRef(t.untyped_storage()) for t in operands)
        return operands[0] @ operands[1]

    made = narrow.through(compute, x, w)
    assert [ref.expired() for ref in wide] == [True, True]
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        made.sum().backward()


def test_what_else_is_kept_must_not_be_changed_either():
    q, k, v = (rows(2, 3, 40, 16) for _ in range(3))
    for bias in (torch.randn(40, 40), torch.randn(40, 40, requires_grad=True)):
        made = kernels.fused(q, k, v, 0.25, bias=bias)
        with torch.no_grad():
            bias.mul_(5)
        with pytest.raises(RuntimeError, match="changed in place"):
            made.float().sum().backward()


def test_what_no_gradient_needs_is_not_kept():
    w, rest = rows(96, 80).detach(), rows(64, 96) * 1
    made, there = ops.affine(rest, w, None), StorageWeakRef(rest.untyped_storage())
    del rest
    assert there.expired()
    made.float().sum().backward()


def test_what_is_computed_once_more_keeps_nothing_and_fake_tensors_pass():
    x, w, wide = rows(64, 96), rows(96, 80), []

    def compute(*operands: Tensor) -> Tensor:
        wide.extend(StorageWeakRef(t.untyped_storage()) for t in operands)
        return operands[0] @ operands[1]

    made = checkpoint(lambda x, w: narrow.through(compute, x * 2, w), x, w, use_reentrant=False)
    assert [ref.expired() for ref in wide] == [True, True]
    (slope,) = torch.autograd.grad(made.float().sum(), w)
    assert torch.equal(slope, torch.autograd.grad(ops.affine(x * 2, w, None).float().sum(), w)[0])
    with FakeTensorMode():
        assert ops.affine(rows(5, 12), rows(12, 8), None).shape == (5, 8)


def test_second_derivatives_of_maps_and_transforms_hold():
    x, w = rows(4, 6), rows(6, 5)
    (slope,) = torch.autograd.grad(ops.affine(x, w, None).float().square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.float().sum(), w)
    wide = [t.detach().float().requires_grad_() for t in (x, w)]
    (wanted,) = torch.autograd.grad(ops.affine(*wide, None).square().sum(), wide[0], create_graph=True)
    assert relative_error(second.float(), torch.autograd.grad(wanted.sum(), wide[1])[0]) < 3e-2
    mapped = torch.func.vmap(torch.func.grad(lambda row: ops.affine(row, w.detach(), None).float().square().sum()))(x.detach())
    assert relative_error(mapped.float(), slope.detach().float()) < 1e-2


def test_under_autocast_operands_are_rounded_and_sums_are_not(fast):
    x, w, b = torch.randn(5, 12), torch.randn(12, 8), torch.randn(8)
    q, k, v = (torch.randn(2, 3, 40, 16, requires_grad=True) for _ in range(3))
    bias = torch.randn(40, 40)

    def asked():
        with torch.autocast("cpu", torch.bfloat16):
            look = kernels.fused(q, k, v, 0.25, causal=True), kernels.fused(q, k, v, 0.25, bias=bias), *shown(q, k, v, 0.25)
            assert torch.is_autocast_enabled("cpu")
            return ops.affine(x, w, b), *look

    with none_narrow():
        got = asked()
    wanted = x.bfloat16().float() @ w.bfloat16().float() + b.bfloat16().float()
    assert torch.equal(got[0], wanted.bfloat16())
    fast()
    for mine, theirs in zip(got, asked(), strict=True):
        assert mine.dtype == theirs.dtype
        assert relative_error(mine.double(), theirs.double()) < 1e-2


def test_what_torch_multiplies_well_or_refuses_is_left_to_it():
    x, w = torch.randn(5, 12), torch.randn(12, 8)
    assert narrow.meant(x, w) is None
    assert narrow.meant(x.double(), w.double()) is None
    assert narrow.meant(x.bfloat16(), w.bfloat16(), None) == torch.bfloat16
    assert narrow.meant(x.to("meta", torch.bfloat16)) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert narrow.meant(x.double(), w.double()) is None
        whole = torch.tensor([[257, 1]])
        assert torch.equal(ops.matmul(whole, whole.mT), whole @ whole.mT)
    with pytest.raises(RuntimeError, match="dtype"):
        ops.affine(x.bfloat16(), w, None)


def test_tensors_of_other_kinds_and_of_inference_are_left_to_torch():
    eye, x = torch.eye(8).bfloat16(), torch.randn(8, 8).bfloat16()
    assert torch.equal(narrow.product(eye.to_sparse(), x), x)
    with torch.inference_mode():
        never = torch.randn(5, 12).bfloat16()
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        ops.affine(never, rows(12, 8), None)
    with torch.no_grad():
        assert ops.affine(never, rows(12, 8), None).shape == (5, 8)


def test_weights_of_rows_in_two_dtypes_are_shown_under_autocast(fast):
    q, k, v = torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        got = shown(q, k, v, 0.3)
        fast()
        for mine, theirs in zip(got, shown(q, k, v, 0.3), strict=True):
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("name", ["gpt2", "llama-1b", "bert-base", "transformer-base"])
def test_no_preset_of_text_learns_by_narrow_products(name):
    torch.manual_seed(0)
    model, ids = Mixed(build(tiny(PRESETS[name]()))), torch.randint(11, (2, 9))
    with none_narrow():
        answer = model(ids, source=ids) if name == "transformer-base" else model(ids)
        answer.float().square().sum().backward()


def test_pictures_neither():
    model = Mixed(build(tiny(PRESETS["vit-ti"]())))
    with none_narrow():
        model(torch.randn(2, 3, 8, 8)).float().square().sum().backward()


def test_a_whole_model_answers_alike_watched_or_not_and_as_on_a_cpu_that_can(fast):
    torch.manual_seed(0)
    model = build(tiny(PRESETS["llama-1b"]())).bfloat16()
    ids = torch.randint(11, (2, 9))
    answer = model(ids).float()
    with torch.no_grad(), using(Recorder()), none_narrow():  # step by step
        assert relative_error(model(ids).float(), answer) < 3e-2
    fast()
    assert relative_error(answer, model(ids).float()) < 3e-2


@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_and_convolutions_compute_so_too(causal):
    attention = LinearAttention(16, 2, 8, mask=Causal() if causal else None).bfloat16()
    stem = Stem((3, 8, 16)).bfloat16()
    with none_narrow():
        attention(Tokens.of(torch.randn(2, 7, 16).bfloat16())).float().sum().backward()
        stem(torch.randn(2, 3, 8, 8).bfloat16()).x.float().sum().backward()
    exact = Stem((3, 8, 16))
    exact.load_state_dict(stem.state_dict())
    picture = torch.randn(2, 3, 8, 8)
    assert relative_error(stem(picture.bfloat16()).x.float(), exact(picture).x) < 2e-2


@pytest.mark.parametrize(
    ("a", "b", "wide"),
    [
        ((narrow.MANY, 40), (40, narrow.BROAD), True),
        ((2, 32, 40), (40, narrow.BROAD), True),  # 64 rows for one matrix
        ((2, 32, 40), (2, 40, 64), False),  # 32 for each of two
        ((2, narrow.MANY, 40), (2, 40, 64), True),
        ((narrow.MANY - 1, 40), (40, 64), False),
        ((narrow.MANY, 40), (40, narrow.BROAD - 1), False),
        ((40,), (2, 40, 64), False),
        ((narrow.MANY, 40), (40,), False),
        ((narrow.MANY, 0), (0, 64), False),
    ],
)
def test_at_half_speed_products_of_many_rows_alone_are_converted(half, a, b, wide):
    x, y = torch.randn(a).bfloat16().requires_grad_(), torch.randn(b).bfloat16().requires_grad_()
    with Products() as products:
        got = narrow.product(x, y)
        if len(b) == 2:
            assert torch.equal(narrow.linear(x, y, None), got)
    assert (not products.found) == wide
    exact = x.double() @ y.double()
    assert got.shape == exact.shape
    assert got.dtype == torch.bfloat16
    assert relative_error(got.double(), exact) < 2**-8
    with Products() as products:
        got.float().sum().backward()
    assert (not products.found) == wide
    halves = torch.randn(a).half(), torch.randn(b).half()
    with Products() as products:
        narrow.product(*halves)
    assert products.found


def test_at_half_speed_attention_that_is_learned_is_of_float32_and_one_row_is_not(half):
    q, k, v = (rows(2, 3, 40, 16) for _ in range(3))
    for bias in (None, torch.randn(40, 40)):
        with none_narrow():
            kernels.fused(q, k, v, 0.25, bias=bias).float().sum().backward()
        with torch.no_grad(), Products() as products:
            kernels.fused(q[..., :1, :], k, v, 0.25, bias=None if bias is None else bias[:1])
        assert products.found
    with none_narrow():
        assert muon.orthogonal(torch.randn(1, 80, 100), (3.4445, -4.7750, 2.0315), 5, 1e-7).dtype == torch.float32


def test_at_half_speed_a_prepared_model_reads_one_row_as_before_and_a_model_learns_in_float32(half):
    torch.manual_seed(0)
    model = build(PRESETS["gpt2"](256, 2, 4, vocabulary=300, places=64)).bfloat16().eval()
    assert {layer.asking.way for layer in prepared(model, measured=False).layers} != {"turned"}  # which may be the fastest way
    mixed, ids = Mixed(build(model.spec)), torch.randint(300, (2, 40))
    with none_narrow():
        mixed(ids).float().square().sum().backward()


@pytest.mark.compile
def test_compiled_at_half_speed_rows_decide_too(half):
    torch.compiler.reset()
    compiled = torch.compile(lambda x, w: ops.affine(x, w, None), fullgraph=True)
    for many in (5, 80, 3, 90):
        x, w = rows(many, 48), rows(48, 40)
        with torch.no_grad():
            assert torch.equal(compiled(x, w), ops.affine(x, w, None))
        assert compiled(x, w).requires_grad


@dtypes
@pytest.mark.parametrize("many", [1, narrow.FEW, narrow.FEW + 1, 50])
def test_packed_weights_lie_turned_and_many_rows_are_converted(dtype, many):
    weight, bias, x = torch.randn(256, 200).to(dtype), torch.randn(200).to(dtype), torch.randn(many, 256).to(dtype)
    packed = Packed([weight], [bias], way=Ways())
    assert packed.way == "turned"
    with Products() as products:
        answer = packed(x)
    assert bool(products.found) == (many <= narrow.FEW)
    assert answer.dtype == dtype
    assert relative_error(answer.double(), x.double() @ weight.double() + bias.double()) < 4 * torch.finfo(dtype).eps


def test_a_prepared_model_writes_as_the_model_does():
    torch.manual_seed(0)
    model = build(PRESETS["gpt2"](256, 2, 4, vocabulary=300, places=64)).bfloat16().eval()
    fast, exact = prepared(model), build(model.spec).eval()
    assert not fast.why
    assert {layer.asking.way for layer in fast.layers} == {"turned"}
    exact.load_state_dict(model.state_dict())
    text = torch.arange(5)
    assert torch.equal(generate(fast, text, 3)[0], generate(exact, text, 3)[0])


def test_muon_and_the_rate_of_the_machine_are_of_float32_here():
    with none_narrow():
        made = muon.orthogonal(torch.randn(1, 80, 100), (3.4445, -4.7750, 2.0315), 5, 1e-7)
        assert cost.best_rate(torch.device("cpu"), torch.bfloat16) > 0
    assert made.dtype == torch.float32


def test_what_is_exported_knows_nothing_of_this_cpu(fast):
    class Map(torch.nn.Module):
        def forward(self, x: Tensor, w: Tensor) -> Tensor:
            return ops.affine(x, w, None)

    def graph():
        return [str(n.target) for n in torch.export.export(Map(), (rows(5, 12).detach(), rows(12, 8).detach())).graph.nodes]

    here = graph()
    fast()
    assert here == graph()


@pytest.mark.compile
def test_compiled_it_is_the_same():
    x, w = rows(5, 12), rows(12, 8)
    torch.compiler.reset()
    compiled = torch.compile(lambda x, w: ops.affine(x, w, None), fullgraph=True)
    assert torch.equal(compiled(x, w), ops.affine(x, w, None))
    with torch.no_grad():
        assert torch.equal(compiled(x, w), ops.affine(x, w, None))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(compiled(x.float(), w.float()), ops.affine(x, w, None))


@pytest.mark.compile
def test_a_compiled_model_is_one_graph():
    torch.compiler.reset()
    model = build(tiny(PRESETS["gpt2"]())).bfloat16()
    found = torch._dynamo.explain(model)(torch.randint(11, (2, 9)))
    assert (found.graph_count, found.graph_break_count) == (1, 0)
