"""Our own models, watched like any: the record gives what the model gives, on any numbers."""

import threading
from dataclasses import replace

import msgspec
import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.attention import MultiHeadAttention
from equiscope.errors import InputError, UnknownName
from equiscope.models import READOUTS
from equiscope.positions import Cope, Fire, Index, Learned, NoPosition, Rope, T5Bias
from equiscope.program.replay import replay
from equiscope.record import unpack
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens
from tests.drawn import HEADS, LISTED, VARIANTS, VARIED, WIDTH, placed, randomised, title, words
from tests.pairwise import each_value
from tests.recorded import recorded

EXACT = 1e-12  # float64: a fused path against the readable one
VALID = torch.tensor([True, True, True, True, True, False])

schemes = pytest.mark.parametrize("scheme", VARIED, ids=title)
settings = pytest.mark.parametrize("setting", ["plain", "causal", "padded", "class", "batch"])


def model(scheme, setting="plain", seed=0, readout="each"):
    attention = eq.Attention(heads=HEADS, position=scheme, causal=setting == "causal", bias=True)
    block = eq.Block(attention=attention, feedforward=eq.FeedForward(10))
    readout = "class" if setting == "class" else readout
    return randomised(eq.build(eq.Spec(width=WIDTH, layers=2, block=block, readout=readout)), seed)


def given(setting, seed=0, scheme=None):
    tokens = words(seed, batch=(2,)) if setting == "batch" else words(seed)
    tokens = tokens if scheme is None else placed(scheme, tokens)
    return replace(tokens, valid=VALID) if setting == "padded" else tokens


@schemes
def test_checks_of_positions_leave_no_note(scheme):
    """A check reads numbers in Python, but only raises: whatever numbers pass it take the same steps."""
    assert recorded(model(scheme), given("plain", scheme=scheme), arrays=False).notes is msgspec.UNSET


@pytest.mark.parametrize("scheme", [T5Bias(), Fire()], ids=title)
def test_the_table_or_network_of_a_scheme_is_a_step_of_the_attention_that_calls_it(scheme):
    one = model(scheme)
    program = eq.watch(one, given("plain"))
    found = {step.op: step.where for step in program.steps if step.where.endswith("blocks.0.attention")}
    assert {"embedding"} <= found.keys() if isinstance(scheme, T5Bias) else {"linear", "relu"} <= found.keys()
    assert not [step.where for step in program.steps if step.where.startswith("position")]


def test_checks_of_ids_leave_no_note_and_still_raise():
    one = eq.build(eq.Spec(width=WIDTH, vocabulary=5, block=eq.Block(eq.Attention(HEADS, position=Learned(3)))))
    assert recorded(one, torch.arange(3), arrays=False).notes is msgspec.UNSET
    with pytest.raises(InputError, match=r"ids 0\.\.4, but got 0\.\.5"):
        eq.watch(one, torch.tensor([0, 5]))
    with pytest.raises(InputError, match=r"knows positions 0\.\.2, but got 3"):
        eq.watch(one, torch.zeros(4, dtype=torch.long))


@each_value(settings, pytest.mark.parametrize("scheme", LISTED + VARIANTS, ids=title))
def test_a_replay_on_other_numbers_is_the_model_on_those_numbers(scheme, setting):
    """Other words, other places, other weights: had a number been frozen into the program, one of them would differ."""
    one, other, here = model(scheme, setting), model(scheme, setting, seed=1), given(setting, scheme=scheme)
    program = recorded(one, here, arrays=False)
    weights = dict(other.named_parameters())
    there = replace(given(setting, seed=1, scheme=scheme), positions=here.positions + 7, order=here.order + 7)
    leaves = {}
    for leaf in program.leaves:
        value = torch.from_numpy(unpack(leaf.array))
        match leaf.kind:
            case "weight":
                weight = weights[leaf.id.removesuffix(".mT")]
                leaves[leaf.id] = weight.mT if leaf.id.endswith(".mT") else weight
            case "content":
                leaves[leaf.id] = there.x
            case "coordinate" | "order":
                leaves[leaf.id] = value + 7
    again, moved = replay(program)[program.outputs[0]], replay(program, leaves)[program.outputs[0]]
    assert relative_error(again, one(here)) < EXACT
    assert relative_error(moved, other(there)) < EXACT
    assert relative_error(moved, again) > 1e-3


@each_value(settings, schemes)
def test_watching_changes_nothing_and_names_every_number(scheme, setting):
    made, tokens = model(scheme, setting), given(setting, scheme=scheme)
    before = made(tokens)
    program = recorded(made, tokens)
    assert torch.equal(made(tokens), before)
    output = next(step for step in program.steps if step.id == program.outputs[0])
    assert relative_error(torch.from_numpy(unpack(output.array)), before) < EXACT
    assert all(leaf.symbol for leaf in program.leaves)
    for entry in [*program.leaves, *program.steps]:
        assert entry.array is None or len(entry.axes) == len(entry.array.shape), entry.id
    ids = [entry.id for entry in [*program.leaves, *program.steps]]
    assert len(set(ids)) == len(ids)
    seen = {leaf.id for leaf in program.leaves}
    for step in program.steps:
        assert seen.issuperset(step.inputs)
        seen.add(step.id)


@schemes
def test_every_recorded_number_is_the_one_that_a_replay_makes(scheme):
    program = recorded(model(scheme), given("plain", scheme=scheme))
    values = replay(program)
    for step in program.steps:  # to the last bits: a product sums in another order where a weight lies otherwise in memory
        if step.array is not None:  # a part of a call has none: what is before a bias
            seen = torch.from_numpy(unpack(step.array)).double()
            assert torch.allclose(values[step.id].double(), seen, rtol=1e-13, atol=1e-13), step.id


@pytest.mark.parametrize("readout", READOUTS)
def test_every_read_out_is_part_of_the_program(readout):
    made, tokens = model(Rope(), readout=readout), given("plain" if readout == "concatenation" else "padded")
    program = recorded(made, tokens)
    assert relative_error(replay(program)[program.outputs[0]], made(tokens)) < EXACT


def test_a_program_runs_on_a_longer_sentence():
    made = model(Rope())
    program, longer = recorded(made, words()), words(3, length=9)
    values = replay(program, {"X": longer.x, "positions": longer.positions})
    assert relative_error(values[program.outputs[0]], made(longer)) < EXACT


def test_ids_that_are_looked_up_are_named_too():
    made = eq.build(eq.Spec(width=8, vocabulary=5)).double()
    program = recorded(made, torch.tensor([0, 3, 3]))
    assert [leaf.id for leaf in program.leaves][:2] == ["embedding.weight", "input.0"]
    values = replay(program, {"input.0": torch.tensor([1, 2, 4])})
    assert relative_error(values[program.outputs[0]], made(torch.tensor([1, 2, 4]))) < EXACT


def test_axes_of_ids_and_of_a_second_sequence_are_named():
    made = eq.build(eq.Spec(width=8, vocabulary=5)).double()
    program = recorded(made, torch.tensor([[0, 3, 3]]))
    assert next(leaf.axes for leaf in program.leaves if leaf.id == "input.0") == ["batch", "token"]
    assert program.steps[0].axes == ["batch", "token", "feature"]
    cross = MultiHeadAttention(8, heads=2).double()
    answers = Tokens.of(torch.randn(5, 8).double())
    program = recorded(cross, words(), kwargs={"source": answers})
    assert next(step.axes for step in program.steps if step.symbol == "A") == ["head", "token", "source"]


@each_value(
    pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str),
    pytest.mark.parametrize("scheme", LISTED, ids=title),
)
def test_no_number_is_lost_between_dtypes(scheme, dtype):
    """float64 coordinates with a model of less: every cast is a step, so a slide still reaches the output."""
    made = model(scheme).to(dtype)
    given = placed(scheme, replace(words(), x=words().x.to(dtype)))
    program = recorded(made, given)
    assert [leaf.id for leaf in program.leaves if leaf.kind == "opaque"] == []
    moved = replay(program, {"positions": given.positions * 3.0} if "positions" in {leaf.id for leaf in program.leaves} else {})
    still = replay(program)
    if not isinstance(scheme, NoPosition | Index | Cope):  # a LayerNorm takes an index off again; CoPE reads only who came first
        assert relative_error(moved[program.outputs[0]], still[program.outputs[0]]) > 1e-6


def test_a_model_run_by_another_thread_is_not_written_down():
    made, other = model(Rope()), model(Rope())

    class Alone(nn.Module):
        def forward(self, tokens):
            return made(tokens)

    class Busy(nn.Module):
        def forward(self, tokens):
            beside = threading.Thread(target=other, args=(tokens,))
            beside.start()
            beside.join()
            return made(tokens)

    assert len(recorded(Busy(), words()).steps) == len(recorded(Alone(), words()).steps)


def test_without_arrays_leaves_keep_theirs():
    program = recorded(model(Rope()), words(), arrays=False)
    assert all(leaf.array is not None for leaf in program.leaves)
    assert all(step.array is None for step in program.steps)


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = MultiHeadAttention(WIDTH)

    def forward(self, tokens):
        self.inner(tokens)
        raise RuntimeError("on purpose")


def test_a_model_that_fails_leaves_nobody_recording():
    made = Fails()
    with pytest.raises(RuntimeError, match="on purpose"):
        recorded(made, words().to(torch.float32))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in made.modules())
    recorded(made.inner, words().to(torch.float32))


class Adds(nn.Module):
    def forward(self, x):
        return x + x


def test_watching_leaves_gradients_and_training_alone():
    made = model(Rope()).train()
    recorded(made, words())
    assert made.training
    made(words()).sum().backward()
    assert all(p.grad is not None for p in made.parameters())


def test_an_unknown_leaf_lists_the_known_ones():
    program = recorded(Adds(), torch.ones(2, 2))
    with pytest.raises(UnknownName, match=r"no leaf called 'W'. Known: input.0"):
        replay(program, {"W": torch.ones(1)})


def test_a_leaf_without_numbers_says_so():
    from msgspec.structs import replace as changed

    program = recorded(Adds(), torch.ones(2, 2))
    empty = changed(program, leaves=[changed(leaf, array=None) for leaf in program.leaves])
    with pytest.raises(InputError, match=r"Leaf 'input\.0' has no numbers of its own"):
        replay(empty)
    assert replay(empty, {"input.0": torch.ones(2, 2)})[program.outputs[0]].sum() == 8


def test_a_foreign_module_runs_once():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return x * self.count

    made = Counting()
    program = recorded(made, torch.ones(2))
    assert made.count == 1
    assert torch.equal(replay(program)[program.outputs[0]], torch.ones(2).double())
