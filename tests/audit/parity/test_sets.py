"""`equiscope.parity` at pairs that others planted: where the differences begin and why, and no alarm at healthy pairs.

`known_failures.json` of a folder lists the pairs that it gets wrong, with its answer: a test fails when a listed pair passes, so
that the list stays true.
"""

import json
from pathlib import Path

import pytest

from .planted_again import cases as again
from .planted_by_others import judged as by_others
from .planted_by_others.judged import judge, judge_healthy
from .planted_five_a import cases as five_a
from .planted_five_b import cases as five_b
from .planted_fourth import cases as fourth
from .planted_kinds import cases as kinds
from .planted_recorded import cases as recorded
from .planted_sixth import cases as sixth
from .planted_third import cases as third

HERE = Path(__file__).parent
SETS = {
    "planted_by_others": by_others, "planted_again": again, "planted_third": third, "planted_kinds": kinds,
    "planted_recorded": recorded, "planted_fourth": fourth, "planted_five_b": five_b,
    "planted_five_a": five_a, "planted_sixth": sixth,
}  # fmt: skip
KNOWN = {name: json.loads((HERE / name / "known_failures.json").read_text()) for name in SETS}
DEFAULT = {  # causes that test_planted.py has not, and of the others one of each kind of side and of model
    "planted_by_others": {
        "norm_missing-mixed-torch-queries_and_keys", "mixed-bfloat16", "bias_missing-neox-torch", "softmax_scale-vit-onnx",
        "head_order-qwen2-torch", "llama-pairs", "gpt2-onnx", "bert-padding",
    },
    "planted_again": {
        "nano-bias-torch", "nano-norm_bias-npz", "alibi-slopes-torch", "recurrent-transposed-torch", "experts-softmax_axis-torch",
        "healthy-recurrent-torch",
    },
    "planted_third": {"moe-norm_kind-torch", "healthy-whisper-torch"},
    "planted_kinds": {
        "kinds-apart_chunks-mask_alignment-torch", "kinds-translator-embedding_scale-torch", "kinds-row_by_copy-scale-torch",
        "healthy-kinds-bank-torch",
    },
    "planted_recorded": {
        "gemma-rope_base-every-blocks-float32", "bert-mode-modules-float32", "diffusion-epsilon-modules-float64",
        "healthy-modernbert-modules_no_output-float16",
    },
    "planted_fourth": {
        "llama-layer_before-torch", "clip-text_not_normalised-torch", "gpt2-head_of_another_vocabulary-torch",
        "mamba-inputs_and_outputs_of_the_state-torch", "healthy-tabular-onnx",
    },
    "planted_five_b": {
        "five_b-unet-values_and_keys_of_the_text-torch", "five_b-recommender-stale_answers-torch", "five_b-gptj-interpolated-onnx",
        "five_b-falcon-padding_seen-onnx-swapped", "healthy-five_b-reranker-rows_of_padding",
    },
    "planted_five_a": {
        "conformer-letters_over_time-torch", "gemma3-one_base-torch", "healthy-conformer-norm_folded_into_the_taps",
        "healthy-gemma3-scale_in_the_norm",
    },
    "planted_sixth": {"albert-positions_from_two-onnx", "healthy-albert-onnx"},
}  # fmt: skip


def params(names):
    """Set and name of each pair, of which the default ones run without --thorough."""
    return [
        pytest.param(one, name, id=f"{one}-{name}", marks=() if name in DEFAULT[one] else pytest.mark.thorough)
        for one in SETS
        for name in names(SETS[one])
    ]


@pytest.mark.parametrize("one", SETS)
def test_names_are_distinct_and_the_lists_know_them(one):
    names = [c.name for c in SETS[one].CASES] + list(SETS[one].HEALTHY)
    assert len(set(names)) == len(names)
    assert set(KNOWN[one]) | DEFAULT[one] <= set(names)


@pytest.mark.parametrize(("one", "name"), params(lambda cases: [c.name for c in cases.CASES]))
def test_the_first_differing_step_and_its_cause_are_found(one, name):
    answer = judge(next(c for c in SETS[one].CASES if c.name == name))
    assert (answer.step and answer.cause) != (name in KNOWN[one]), answer


@pytest.mark.parametrize(("one", "name"), params(lambda cases: cases.HEALTHY))
def test_a_healthy_pair_raises_no_alarm(one, name):
    answer = judge_healthy(name, SETS[one].HEALTHY[name])
    assert answer.step != (name in KNOWN[one]), answer
