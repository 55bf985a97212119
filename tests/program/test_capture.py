"""Any module: watching changes nothing, and the program is the model, on the watched input and on another."""

import copy

import pytest
import torch
from torch import nn

from equiscope.errors import InputError, UnknownName
from equiscope.program import ReplayDiverged, watch
from equiscope.program.origins import tensors
from tests.program.zoo import ZOO, Branch, Hand, Linear, another, built, encoder_layer, small, wide

UNCOPIED = ("scripted",)
ROUNDING = 1e-12  # float64; measured 2e-15


def plain(model, args, kwargs, seed=3):
    torch.manual_seed(seed)
    with torch.no_grad():
        return model(*args, **kwargs)


def error(a, b):
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    assert torch.equal(a.isfinite(), b.isfinite())
    there = a.isfinite()
    wide = torch.complex128 if a.is_complex() else torch.float64
    return (a[there].to(wide) - b[there].to(wide)).abs().max().item() if there.any() else 0.0


def watched(name):
    """The program on one input, the model on another, and both inputs."""
    case = ZOO[name]
    model = built(case)
    fresh = (lambda: model) if name in UNCOPIED else (lambda: copy.deepcopy(model))
    args, kwargs = case.args(), case.kwargs()
    expected = plain(fresh(), args, kwargs)
    torch.manual_seed(3)
    program = watch(fresh(), *args, kwargs=kwargs)
    return case, fresh, args, kwargs, expected, program


@pytest.mark.parametrize("name", ZOO)
def test_a_program_is_the_model_on_the_watched_input_and_on_another(name, unchecked):
    case, fresh, args, kwargs, expected, program = watched(name)

    before, seen = dict(tensors(expected)), dict(tensors(program.output))
    assert before.keys() == seen.keys()
    assert all(error(seen[path], before[path]) < ROUNDING for path in seen)
    unknown = [leaf.name for leaf in program.leaves if leaf.kind == "unknown"]
    assert bool(unknown) == ("unknown" in case.again), unknown

    again = program.run()
    for value, t in again.values.items():
        assert error(t, program.values[value]) < ROUNDING, program.name(value)

    other, more = another((args, kwargs))
    changes = {f"input.{path.split('.', 1)[-1]}": t for path, t in tensors([list(other), more])}
    if "watch" in case.again:
        with pytest.raises(ReplayDiverged, match="Watch it again"):
            program.run(changes)
    elif not case.again:
        found = program.run(changes).outputs
        for path, t in tensors(plain(fresh(), other, more)):
            assert error(found[path], t) < ROUNDING, path


def test_every_step_says_its_module():
    program = watch(Hand().double(), *wide())
    assert [step.where for step in program.steps if step.op == "linear"] == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert {leaf.name for leaf in program.leaves} >= {"input.0", "q_proj.weight", "o_proj.bias"}


def test_a_changed_step_is_what_a_hook_would_make_of_it():
    model, (x,) = Hand().double(), wide()
    program = watch(model, x)
    q = program.names["q_proj.linear"]
    other = program.values[q] * 2
    model.q_proj.register_forward_hook(lambda *_: other)
    assert torch.allclose(program.run({"q_proj.linear": other}).outputs[""], model(x), atol=ROUNDING)


def test_a_branch_is_found_where_it_would_be_another():
    program = watch(Linear(lambda y, x: y if bool((y > 1e3).any()) else -y).double(), *small())
    assert program.run({"input.0": program.values[0] * 2}).outputs[""].shape == (2, 8)
    far = program.run({"input.0": program.values[0] * 1e6}, strict=False)
    assert [left.step.op for left in far.divergences] == ["bool"]
    assert "Watch it again" in str(far.divergences[0])


@pytest.mark.filterwarnings("ignore")  # torch's, of nested tensors
def test_torchs_fast_path_is_off_and_the_program_says_so():
    encoder = nn.TransformerEncoder(encoder_layer(), 2).double().eval()
    (x,), hidden = wide(), torch.tensor([[False, False, False, True, True], [False] * 5])
    program = watch(encoder, x, kwargs={"src_key_padding_mask": hidden})
    assert any("fast path" in note for note in program.notes)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert error(program.output, plain(encoder, (x,), {"src_key_padding_mask": hidden})) < ROUNDING
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_a_program_of_gpt_2_holds_the_weights_once_and_little_beside_them(unchecked):
    """A random model of the shape of GPT-2, with two of its twelve layers, on 64 tokens."""
    hf = pytest.importorskip("transformers")
    model, ids = hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=2)).eval(), torch.randint(0, 50000, (1, 64))
    program = watch(model, ids)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in program.values.values()}
    own = sum(p.nbytes for p in model.parameters())
    assert sum(storages.values()) - own < 50e6  # in the output 64 x 50257 numbers, 13 MB


def test_what_is_not_a_number_is_the_same_as_itself():
    program = watch(Linear(lambda y, x: y * (x.sum() * float("nan")).item()).double(), *small())
    assert program.run({"input.0": program.values[0] * 2}).outputs[""].isnan().all()


def test_wrong_changes_are_refused():
    program = watch(Branch().double(), *small())
    with pytest.raises(UnknownName, match=r"l\.weight"):
        program.run({"weight": torch.zeros(8, 8)})
    with pytest.raises(InputError, match="shape"):
        program.run({"l.weight": torch.zeros(8)})
