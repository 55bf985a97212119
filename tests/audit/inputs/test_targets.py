"""A target becomes a model with inputs, or raises one clear sentence."""

import json
import sys

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit import check
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.audit.inputs.targets import target
from equiscope.audit.inputs.tiny_config import tiny
from equiscope.errors import EquiscopeError, InputError
from equiscope.models import PRESETS
from equiscope.models import tiny as small

OWN = """
import torch
from torch import nn

class Wide(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.map = nn.Linear(width, 6)
    def forward(self, x):
        return self.map(x)

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)
    def forward(self, ids, extra=None):
        return self.table(ids) if extra is None else self.table(ids) + extra

class Needy(Wide):
    def __init__(self, width, depth):
        super().__init__(width)

class Odd(nn.Module):
    def forward(self, graph):
        raise TypeError("a graph, please")

ready = Wide()
alone = lambda: Wide()
with_inputs = lambda: (Words(), torch.arange(5)[None])
with_both = lambda: (Words(), (torch.arange(5)[None],), {"extra": torch.ones(4)})
by_name = lambda: (Words(), {"ids": torch.arange(5)[None]})
several = lambda: (Words(), (torch.arange(5)[None], torch.ones(4)))
odd = Odd
empty = lambda: None
crowd = lambda: (Wide(), 1, 2, 3)
number = 3

def crashes():
    raise ValueError("no weights here")

def leaves():
    raise SystemExit(3)
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own_models.py").write_text(OWN)
    return f"{tmp_path / 'own_models.py'}:"


def refused(text):
    with pytest.raises(InputError) as caught:
        target(text)
    return str(caught.value)


@pytest.mark.parametrize("name", ["Wide", "ready", "alone", "with_inputs", "with_both", "by_name", "several"])
def test_a_factory_of_ones_own_gives_a_model_that_answers(own, name):
    found = target(own + name)
    assert torch.is_tensor(found.model(*found.args, **found.kwargs))
    assert found.title.endswith(name)


def test_what_a_factory_gives_is_what_the_model_is_called_with(own):
    assert torch.equal(target(own + "with_inputs").args[0], torch.arange(5)[None])
    assert target(own + "with_both").kwargs["extra"].shape == (4,)
    assert list(target(own + "by_name").kwargs) == ["ids"]
    assert len(target(own + "several").args) == 2


def test_a_module_of_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "models_of_mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert type(target("models_of_mine:Wide").model).__name__ == "Wide"
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Needy", "It needs width, depth"),
        ("crashes", "no weights here"),
        ("leaves", "SystemExit"),
        ("empty", "returned nothing (None), not a torch.nn.Module"),
        ("number", "an int, which is neither"),
        ("crowd", "returned 4 values"),
        ("nobody", "called 'nobody'. Known: Wide"),
        ("odd", "No inputs could be made for Odd. Tried: "),
        ("", "names no factory"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(own, name, words):
    assert words in refused(own + name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "No model was named"),
        ("gpt-two", "There is no model 'gpt-two'. Give module:factory"),
        ("no_such_module:make", "There is no module 'no_such_module'"),
        ("nowhere.py:make", "There is no file nowhere.py"),
        ("spec.json", "spec.json"),
        ("torch.nn:Linear", "It needs in_features, out_features"),
        ("torch.nn:functional", "neither a torch.nn.Module nor something that makes one"),
        ("math:pi", "is a float"),
        (":make", "names no module"),
    ],
)
def test_a_name_that_means_nothing_says_what_would(text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(text)


def test_a_file_with_a_fault_says_which(tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_library_at_all\n")
    assert "no_such_library_at_all" in refused(f"{tmp_path / 'broken.py'}:make")
    (tmp_path / "syntax.py").write_text("def (\n")
    assert "SyntaxError" in refused(f"{tmp_path / 'syntax.py'}:make")
    assert "Name what to check in it" in refused(str(tmp_path / "syntax.py"))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_target(name):
    found = target(name)
    answer = found.model(*found.args, **found.kwargs)
    assert bool(torch.isfinite(answer).all())


def test_a_spec_is_a_target(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(small(PRESETS["nanogpt-char"]()).to_json())
    found = target(str(path))
    audit = check(found.model, *found.args, properties=["causal"], actions=[], effort="quick", proof=False)
    assert audit["causal"].verdict == "holds"
    path.write_text("{")
    assert "spec.json" in refused(str(path))


def test_one_seed_gives_one_model_and_leaves_the_random_numbers_alone():
    before = torch.random.get_rng_state()
    a, b, c = target("nanogpt-char", seed=1), target("nanogpt-char", seed=1), target("nanogpt-char", seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    first = [next(found.model.parameters()) for found in (a, b, c)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])


class Pointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.map = nn.Embedding(20, 4), nn.Linear(3, 4)

    def forward(self, z, pos, batch=None):
        return (self.table(z) + self.map(pos)).sum(-2)


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (nn.Linear(5, 2), [(1, 13, 5)]),
        (nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)), [(1, 13)]),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), [(1, 3, 32, 32)]),
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [(1, 13, 8)]),
        (nn.MultiheadAttention(8, 2, batch_first=True), [(1, 13, 8)] * 3),
        (nn.Transformer(8, 2, 1, 1, 16, batch_first=True), [(1, 13, 8)] * 2),
        (nn.TransformerEncoderLayer(8, 2, 16), [(13, 8)]),
    ],
    ids=["linear", "words", "picture", "encoder", "attention", "transformer", "steps first"],
)
def test_inputs_are_guessed_from_the_first_layers(model, shapes):
    given = inputs_for(model)
    assert [tuple(a.shape) for a in given.args] == shapes


def test_a_model_of_points_is_given_points_and_atoms():
    given = inputs_for(Pointed())
    assert given.kwargs["pos"].shape == (1, 13, 3)
    assert not given.kwargs["z"].is_floating_point()


def test_trying_leaves_a_model_as_it_was():
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)).train()
    mean = model[1].running_mean.clone()
    inputs_for(model)
    assert model.training
    assert torch.equal(model[1].running_mean, mean)


# ------------------------------------------------------------------------------------------------------------- transformers


@pytest.fixture
def hf():
    library = pytest.importorskip("transformers")
    library.logging.set_verbosity_error()
    return library


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("LlamaForCausalLM", {"input_ids"}),
        ("LlamaConfig", {"input_ids"}),
        ("T5ForConditionalGeneration", {"input_ids", "decoder_input_ids"}),
        ("ViTModel", {"pixel_values"}),
        ("CLIPModel", {"input_ids", "pixel_values"}),
        ("WhisperForConditionalGeneration", {"input_features", "decoder_input_ids"}),
        ("Wav2Vec2Model", {"input_values"}),
    ],
)
def test_a_class_of_transformers_is_made_tiny_with_inputs_of_its_kind(hf, name, given):
    found = target(f"transformers:{name}")
    assert set(found.kwargs) == given
    assert sum(p.numel() for p in found.model.parameters()) < 5_000_000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LlamaForCausal", "Did you mean LlamaForCausalLM"),
        ("AutoModel", "neither a model nor a configuration"),
        ("Gemma4AssistantForCausalLM", "has no default"),
    ],
)
def test_a_class_that_there_is_not_or_that_cannot_be_made_is_one_sentence(hf, name, words):
    assert words in refused(f"transformers:{name}")


def test_ids_keep_away_from_special_tokens_and_their_number_is_no_size_of_the_model(hf):
    config = tiny(hf.GPT2Config, bos_token_id=0, eos_token_id=50, n_embd=52, n_head=4)
    model = hf.GPT2LMHeadModel(config)
    ids = inputs_for(model).kwargs["input_ids"]
    sizes = {size for p in model.parameters() for size in p.shape}
    assert ids.shape[-1] not in sizes
    assert 50 not in range(int(ids.min()), int(ids.max()) + 1)


@pytest.fixture
def folder(hf, tmp_path):
    torch.manual_seed(0)
    hf.Qwen2ForCausalLM(tiny(hf.Qwen2Config)).save_pretrained(tmp_path)
    return tmp_path


def test_a_checkpoint_folder_is_read_by_the_class_that_it_names(hf, folder):
    found = target(str(folder))
    assert type(found.model).__name__ == "Qwen2ForCausalLM"
    other = eq.load(folder)
    with torch.no_grad():
        near = torch.allclose(found.model(**found.kwargs).logits, other(found.kwargs["input_ids"]), atol=1e-4)
    assert near


def test_a_checkpoint_of_ours_is_a_target(hf, tmp_path):
    eq.save(eq.build(small(PRESETS["gpt2"]())), tmp_path)
    assert type(target(str(tmp_path)).model).__name__ == "GPT2LMHeadModel"


def test_a_pickle_is_never_opened(hf, folder):
    (folder / "model.safetensors").unlink()
    planted = folder / "opened"
    (folder / "pytorch_model.bin").write_bytes(f"cos\nsystem\n(S'touch {planted}'\ntR.".encode())
    said = refused(str(folder))
    assert "a pickle" in said
    assert "save_pretrained" in said
    assert not planted.exists()


def test_a_folder_with_a_fault_says_which(hf, folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["MineForCausalLM"]}))
    assert "names MineForCausalLM" in refused(str(folder))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"not tensors")
    assert "is damaged or incomplete" in refused(str(folder))
    (folder / "config.json").unlink()
    assert "config.json" in refused(str(folder))


@pytest.mark.parametrize("library", ["transformers", "timm"])
def test_a_library_that_is_not_installed_is_named_with_the_way_to_install_it(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    assert f"pip install {library}" in refused(f"{library}:something")


def test_every_refusal_is_an_error_of_ours():
    with pytest.raises(EquiscopeError):
        target("nothing of that name")


def test_angles_that_follow_the_length_are_read_beyond_the_original_maximum(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=97,
                         max_position_embeddings=8, rope_parameters=rope)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    found = target(str(tmp_path))
    assert found.kwargs["input_ids"].shape[-1] == 11
    row = check(found.model, *found.args, kwargs=found.kwargs, actions=[], properties=["causal"], effort="quick").rows[0]
    assert row.verdict == "broken"
    assert "length" in row.cause
