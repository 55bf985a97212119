"""`equiscope explore INPUT --model A --side-by-side B`: two models on one input."""

import pytest
import torch
from tests.cli.test_cli import equi, refused
from tests.cli.test_heads_command import TINY, folders, letters, page, photo
from tests.judges import transformers

__all__ = ["equi", "folders", "photo"]  # fixtures


@pytest.fixture(scope="module")
def after(tmp_path_factory):
    """Checkpoints of the same kinds with other weights."""
    place = tmp_path_factory.mktemp("after")
    torch.manual_seed(7)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    made = {
        "gpt2": transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=257, n_embd=32, n_layer=2, n_head=4, n_positions=64)
        ),
        "t5": transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=257, decoder_start_token_id=0, **sizes)),
        "vit": transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **TINY)),
    }  # fmt: skip
    for name, model in made.items():
        model.save_pretrained(place / name)
        letters(place / name, special=name == "t5")
    return place


def test_two_checkpoints_of_one_name_are_told_apart(equi, folders, after):
    found = page(equi, "the dog", "--model", folders / "gpt2", "--side-by-side", after / "gpt2")
    assert found["side_by_side"]["names"] == [str(folders / "gpt2"), str(after / "gpt2")]
    assert found["title"].endswith(", on “the dog”")
    assert len(found["side_by_side"]["total_variation"]) == 2
    assert all(0 < one < 1 for row in found["side_by_side"]["total_variation"] for one in row)


def test_both_decoders_read_the_same_answer(equi, folders, after):
    found = page(equi, "love conquers all", "--model", folders / "t5", "--side-by-side", after / "t5")
    assert all(found["side_by_side"]["layers"])
    assert found["notes"][0] == "The decoders of both models read the answer of the first one."
    origins = [note for note in found["notes"] if "Weights: " in note]
    assert [note.split(": ")[0] for note in origins] == found["side_by_side"]["names"]


def test_a_picture_is_seen_by_both(equi, folders, after, photo):
    found = page(equi, "--image", photo, "--model", folders / "vit", "--side-by-side", after / "vit")
    assert [len(row) for row in found["side_by_side"]["total_variation"]] == [4, 4]


def test_made_up_inputs_are_those_of_the_first(equi, folders):
    found = page(equi, "--model", folders / "gpt2", "--side-by-side", folders / "gpt2")
    assert found["side_by_side"]["total_variation"] == [[0.0] * 4] * 2


def test_what_cannot_be_compared_is_refused(equi, folders, photo, tmp_path):
    refused(equi("explore", "a", "--side-by-side", folders / "gpt2"), "--side-by-side", "needs a first model")
    refused(equi("explore", "--model", folders / "gpt2", "--side-by-side", folders / "vit"), "that differ", "Give a text")
    refused(equi("explore", "ab", "--model", folders / "gpt2", "--side-by-side", folders / "t5"), "2 words", "3 words")
    refused(equi("explore", "ab", "--model", folders / "gpt2", "--side-by-side", "nowhere"), "There is no model", "nowhere")
    refused(equi("explore", "--image", photo, "--model", folders / "vit", "--side-by-side", folders / "gpt2"), "takes no picture")
