"""What `eq.show` makes of a model, a run, an audit or a record, and what is chosen on it, without a browser."""

import re
import subprocess
import sys

import msgspec
import pytest
import torch
from tests.explore.audits import audit
from tests.explore.runs import run as ran
from tests.explore.short import short_page  # noqa: F401
from tests.judges import transformers
from torch import nn

import equiscope as eq
from equiscope.errors import InputError, UnknownName
from equiscope.explore import notebook
from equiscope.explore.notebook import PageCell, linked, selected
from equiscope.explore.pages.sentence import Choice
from equiscope.record import AttentionTensors, Heads, unpack

pytestmark = pytest.mark.xdist_group("notebook")
IDS = torch.tensor([[5, 9, 14, 3, 5, 31]])
HEADS = {"layer": None, "head": None, "row": None, "column": None}


def gpt2():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_positions=24, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    ).eval()


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "dog": 2, "lawn": 3}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


@pytest.fixture(scope="module")
def view():
    return eq.show(gpt2(), IDS)


def test_the_package_costs_nothing_and_brings_no_widget_before_it_is_used():
    code = "import sys, equiscope; print({'anywidget', 'torch', 'ipywidgets'} & set(sys.modules), 'show' in dir(equiscope))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "set() True\n"


def test_ids_of_a_model_become_a_page_of_all_its_heads(view):
    assert isinstance(view.content, Heads)
    assert (len(view.content.layers), view.content.target) == (2, "GPT2LMHeadModel")


def test_a_text_is_read_by_the_tokenizer_and_its_words_stand_in_the_rows():
    made = eq.show(gpt2(), "the dog the cat", tokenizer=tokenizer())
    (line,) = made.content.sequences
    assert [label.strip() for label in line.labels] == ["the", "dog", "the", "⟨[UNK] for cat⟩"]
    assert made.content.title.endswith("the dog the cat")


def test_a_tokenizer_of_transformers_gives_the_same_rows():
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer(), unk_token="[UNK]")
    one, other = (eq.show(gpt2(), "the lawn", tokenizer=t).content.sequences for t in (fast, tokenizer()))
    assert one == other


def test_the_page_says_what_the_model_answers():
    said, model = eq.show(gpt2(), "the dog", tokenizer=tokenizer()).content.predictions, gpt2()
    with torch.no_grad():
        best = model(torch.tensor([[1, 2]])).logits[0].argmax(-1).tolist()
    assert (said.kind, said.indices.shape) == ("next", [2, 5])
    assert [said.names[i] for i in unpack(said.indices)[:, 0]] == [tokenizer().id_to_token(i) or str(i) for i in best]


def test_a_model_with_a_decoder_reads_its_own_answer():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "decoder_start_token_id": 0}
    made = eq.show(transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=50, **sizes)), IDS)
    assert [line.name for line in made.content.sequences][-1] == "answer"
    assert any(layer.cross for layer in made.content.layers)


def test_a_picture_is_shown_in_patches():
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    model = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes))
    (line,) = eq.show(model, {"pixel_values": torch.randn(1, 3, 32, 32)}).content.sequences
    assert (line.kind, line.grid, line.prefix_tokens) == ("patches", [4, 4], 1)
    assert line.picture.startswith("data:image/png;base64,")


def test_a_model_in_training_is_looked_at_as_in_use_and_left_in_training():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.5, batch_first=True), 1).train()
    model.layers[0].dropout.eval()
    x = torch.randn(1, 5, 16)
    one, other = (eq.show(model, x, selection={"layer": 0, "head": 0}).weights() for _ in range(2))
    assert torch.equal(one, other)
    assert model.training
    assert not model.layers[0].dropout.training


@pytest.mark.usefixtures("short_page")
def test_drawings_audits_runs_and_records_have_their_pages(tmp_path):
    made = eq.build(eq.models.tiny(eq.models.PRESETS["gpt2"]()))
    run = ran()
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(run))
    best_weights = [eq.show(one) for one in (made, made.spec, audit(), run, tmp_path, str(tmp_path), Choice("Love conquers all"))]
    kinds = [type(one.content).__name__ for one in best_weights]
    assert kinds == ["Drawing", "Drawing", "Report", "RunReport", "RunReport", "RunReport", "Explorable"]
    assert eq.show(best_weights[0].content).content is best_weights[0].content
    assert all("srcdoc=" in one.static() and repr(one).endswith("writes it as one file.") for one in best_weights)


@pytest.mark.parametrize(
    ("what", "inputs", "more", "sentence"),
    [
        (gpt2, (), {}, "GPT2LMHeadModel needs inputs. Add them"),
        (gpt2, ("the dog",), {}, "A text needs the tokenizer"),
        (gpt2, ("the", "dog"), {"tokenizer": 1}, "A text is the only input, but got 2 inputs"),
        (gpt2, (" ",), {"tokenizer": 1}, "The text is empty"),
        (gpt2, ("the",), {"tokenizer": 1}, "int did not turn the text into ids"),
        (gpt2, ("the " * 40,), {"tokenizer": "ours"}, "The text has 40 tokens, but the model has 24 positions"),
        (gpt2, (IDS,), {"labels": ["a", "b"]}, "There are 2 labels, but axes of the inputs are 1, 6 long"),
        (gpt2, (IDS,), {"selection": {"layer": 5, "head": 0}}, "There is no layer 5 here: they are numbered 0 to"),
        (lambda: nn.Linear(4, 4), (torch.randn(1, 4),), {}, "attention"),
        (lambda: "Love conquers all", (), {}, "'Love conquers all', which is no run's folder"),
        (lambda: 3, (), {}, "but got an object of type int."),
        (lambda: 3, (IDS,), {}, "Inputs are the arguments of a model, but int is no model"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_sentence(what, inputs, more, sentence):
    if more.get("tokenizer") == "ours":
        more = {"tokenizer": tokenizer()}
    with pytest.raises(InputError, match=re.escape(sentence)):
        eq.show(what(), *inputs, **more)


# ---------------------------------------------------------------------------------------------------------------- what is chosen


def test_the_program_of_any_module_is_shown_and_exported(tmp_path):
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(1, 3, 8)
    program = eq.watch(layer, x)
    assert 'id="programrecord"' in eq.show(program).document()
    assert eq.export(program, tmp_path / "mine.html").stat().st_size > 10_000


def test_nothing_is_chosen_at_first(view):
    assert selected(view.content, "") == HEADS


@pytest.mark.parametrize(
    ("link", "chosen"),
    [
        ("head=0.1", {"layer": 0, "head": 1}),
        ("head=1.3&query=2&key=0", {"layer": 1, "head": 3, "row": 2, "column": 0}),
        ("query=5", {"row": 5}),
        ("head=x&query=&key=1.2", {}),
        ("head=00.1&query=-1&key=٣", {}),
    ],
)
def test_a_link_and_a_selection_count_from_zero(view, link, chosen):
    assert selected(view.content, link) == HEADS | chosen
    assert selected(view.content, linked(view.content, chosen, "")) == HEADS | chosen


def test_what_is_not_named_stays_as_it_is(view):
    link = "head=0.1&query=2&mask=off&hide=0_1&hide=1_0"
    found = linked(view.content, {"head": 2, "column": 1, "row": None}, link)
    assert found == "head=0.2&key=1&mask=off&hide=0_1&hide=1_0"


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"layer": 0}, "A layer and a head are selected together"),
        ({"layer": 0, "head": 4}, "There is no head 4 here: they are numbered 0 to 3"),
        ({"layer": 0, "head": 0, "row": 6}, "There is no row 6 here: they are numbered 0 to 5"),
        ({"layer": 0, "head": 0, "column": -1}, "There is no column -1 here"),
        ({"layer": True, "head": 0}, "There is no layer True here"),
        ({"row": 1.0}, "There is no row 1.0 here"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(view, chosen, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        view.selection = HEADS | chosen
    assert view.selection == HEADS


def test_a_word_that_no_selection_has_is_refused(view):
    with pytest.raises(UnknownName, match="Known: layer, head, row, column"):
        linked(view.content, {"token": 1}, "")


@pytest.mark.usefixtures("short_page")
def test_other_pages_say_what_their_link_says():
    made = eq.show(Choice("Love conquers all"), selection={"story": "slide"})
    made.selection = {"slide": "11"}
    assert (made.link, made.selection) == ("slide=11&story=slide", {"slide": "11", "story": "slide"})


def test_the_weights_are_those_of_the_model():
    model = gpt2()
    made = eq.show(model, IDS, selection={"layer": 1, "head": 2})
    model.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = model(IDS, output_attentions=True).attentions[1][0, 2].double()
    assert (made.weights() - theirs).abs().max() < 1e-6  # float32 of the model


def test_weights_of_no_head_are_refused(view):
    with pytest.raises(InputError, match="No head of a model is selected"):
        PageCell(view.content, view.heads_page, "", 0).weights()


# ----------------------------------------------------------------------------------------------------------------- what is kept


def test_a_cell_has_words_and_a_copy_with_its_size(view):
    bundle = view._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"].startswith("equiscope: GPT2LMHeadModel. 8 heads in 2 attention layers")
    copy = data["text/html"]
    kilobytes = int(re.search(r"This copy has ([\d,]+) kB", copy)[1].replace(",", ""))
    assert kilobytes == pytest.approx(len(copy) / 1000, rel=0.3)
    assert 'sandbox="allow-scripts allow-downloads"' in copy
    assert "<td>" in copy
    assert "<script" not in copy  # but in the frame's own text, where it is &lt;script


def test_a_large_page_is_kept_small_and_says_so():
    heads_page = eq.show(gpt2(), torch.arange(24)[None]).heads_page  # 18 kB of queries, keys and values; 6 kB rounded
    best_weights = PageCell(heads_page.content, heads_page, "", 0)
    best_weights.copy_bytes = 12_000
    rounded, said = best_weights._bounded_copy()
    assert all(layer.tensors.relative_error > 0 for layer in rounded.layers)
    assert said.startswith("Its numbers are rounded as with --compact")
    best_weights.copy_bytes = 100
    bare, said = best_weights._bounded_copy()
    assert not any(layer.tensors for layer in bare.layers)
    assert said.startswith("It has the overview only")


def test_hostile_words_are_words():
    hostile = ["</script><img src=x onerror=alert(1)>", '" onload="alert(1)', "'", "&amp;", "</iframe>", "\u202e"]
    copy = eq.show(gpt2(), IDS, labels=hostile, title="<b>bold</b>", selection={"row": 0}).static()
    assert "<b>bold" not in copy
    assert "<img src=x" not in copy
    assert copy.count("</iframe>") == 1


def test_it_is_saved_as_explore_exports_it(view, tmp_path):
    whole, small = view.save(tmp_path / "whole.html"), view.save(str(tmp_path / "small.html"), compact=True)
    assert whole.read_text().startswith("<!doctype html>")
    assert small.stat().st_size < whole.stat().st_size
    with pytest.raises(InputError, match="cannot be written"):
        view.save(tmp_path / "nowhere" / "x.html")


def test_the_page_asks_and_the_model_answers(view):
    status, body = view.answer("/head?layer=1&head=2")
    assert status == 200
    assert unpack(msgspec.json.decode(body, type=AttentionTensors).q)[0].shape == (6, 8)
    status, body = view.answer("/rerun?order=5,4,3,2,1,0")
    assert status == 200
    assert msgspec.json.decode(body, type=Heads).rerun.order == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("question", ["/head?layer=9&head=0", "/head", "/etc/passwd", "", "/head?" + "&".join("abcdefghij")])
def test_what_is_no_question_gets_a_sentence(view, question):
    status, body = view.answer(question)
    assert status == 400
    assert body.decode()


def test_without_anywidget_a_cell_has_the_copy(monkeypatch):
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    made = eq.show(gpt2(), IDS)
    assert type(made) is PageCell
    assert set(made._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_both_sides_of_a_widget_say_the_same():
    pytest.importorskip("anywidget", reason="Install the extra: pip install -e '.[notebook]' in the clone.")
    made, heard = eq.show(gpt2(), IDS), []
    made.observe(lambda change: heard.append(change["new"]), "selection")
    made.selection = {"layer": 1, "head": 2}
    assert made.link == "head=1.2"
    made.set_state({"link": "head=0.1&query=2&key=0&mask=off"})  # as the page does
    assert made.selection == {"layer": 0, "head": 1, "row": 2, "column": 0}
    made.selection = {**made.selection, "row": 4}
    assert made.link == "head=0.1&query=4&key=0&mask=off"
    assert [one["row"] for one in heard] == [None, 2, 4]


def test_a_widget_brings_what_a_kernel_shows_and_what_a_file_keeps():
    pytest.importorskip("anywidget", reason="Install the extra: pip install -e '.[notebook]' in the clone.")
    data, _ = eq.show(gpt2(), IDS)._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
