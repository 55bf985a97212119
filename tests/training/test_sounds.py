"""Telling recordings apart: what is learned, measured and answered, and what a model must not be."""

from pathlib import Path

import pytest
import soundfile
import torch

from equiscope.errors import InputError
from equiscope.models import build
from equiscope.record import unpack
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens
from equiscope.training import fit, load_run, load_task, open_task, read_recipe, recipe, resolve_spec
from equiscope.training.reading import merged
from equiscope.training.sounds import SoundsTask
from tests.pairwise import few

RECIPES = Path(__file__).parents[2] / "recipes"
DIGITS = RECIPES / "samples" / "fsdd"


def digits(**changes):
    """A small recipe of the spoken digits that come along."""
    said = {
        "title": "digits", "seed": 1,
        "data": {
            "task": "sounds", "train": str(DIGITS), "pattern": "{label}_{speaker}_{index}",
            "mels": 16, "hop_ms": 20, "window_ms": 32,
            "where": {"validation": {"index": 10}, "test": {"index": 5}},
        },
        "model": {"width": 16, "layers": 1, "block": {"attention": {"heads": 2, "position": "sinusoidal"}}},
        "budget": {"steps": 4, "batch": 6},
        "optimiser": {"rate": 5e-3},
        "evaluation": {"every": 2, "samples": 2},
    }  # fmt: skip
    return recipe(merged(said, changes))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run."""
    found = digits()
    folder = tmp_path_factory.mktemp("runs") / "digits"
    return fit(found, open_task(found), folder), folder


def test_accuracy_comes_first_and_is_to_rise(run):
    made, _ = run
    assert made.state == "finished"
    assert list(made.result) == ["validation", "test"]
    assert next(iter(made.result["test"])) == "accuracy"
    assert SoundsTask.better == "more"
    assert made.result["test"]["accuracy"] * 20 == round(made.result["test"]["accuracy"] * 20)


def test_what_is_learned_is_better_than_a_guess(tmp_path):
    found = digits(budget={"steps": 40, "batch": 12}, evaluation={"every": 40})
    made = fit(found, open_task(found), tmp_path / "run")
    assert made.result["validation"]["accuracy"] >= 0.3  # of ten classes; measured 0.5


def test_a_run_answers_files_without_its_data(run):
    from equiscope.training import load_run

    _, folder = run
    _, task = load_task(folder)
    assert list(task.classes) == list("0123456789")
    answer = task.predict(load_run(folder), [str(DIGITS / "3_theo_5.wav")])[0]
    assert answer.answer in task.classes
    assert next(iter(answer.more)) == answer.answer
    assert len(answer.more) == 3
    every = task.predict(load_run(folder), [str(DIGITS / "3_theo_5.wav")], top=99)[0].more
    assert sum(every.values()) == pytest.approx(1, abs=1e-5)


def test_answers_are_those_that_were_measured(run):
    from equiscope.training import load_run

    made, folder = run
    _, task = load_task(folder)
    files = sorted(DIGITS.glob("*_5.wav"))
    right = sum(a.answer == f.name[0] for a, f in zip(task.predict(load_run(folder), list(map(str, files))), files, strict=True))
    assert right / len(files) == made.result["test"]["accuracy"]


def test_a_file_of_another_rate_is_brought_to_the_runs(run, tmp_path):
    _, folder = run
    _, task = load_task(folder)
    samples, _ = soundfile.read(DIGITS / "3_theo_5.wav", dtype="float32")
    soundfile.write(tmp_path / "fast.wav", samples.repeat(2), 16000)
    assert task.predict(build(resolve_spec(task)), [str(tmp_path / "fast.wav")])[0].answer in task.classes


def test_what_cannot_be_answered_is_refused(run, tmp_path):
    _, folder = run
    _, task = load_task(folder)
    model = build(resolve_spec(task))
    with pytest.raises(InputError, match=r"There is no .*none\.wav"):
        task.predict(model, [str(tmp_path / "none.wav")])
    soundfile.write(tmp_path / "short.wav", torch.zeros(80).numpy(), 8000)
    with pytest.raises(InputError, match=r"short\.wav lasts 10 ms, but one token takes 32 ms"):
        task.predict(model, [str(tmp_path / "short.wav")])
    for wrong in ("nan", "inf"):
        wave = torch.zeros(8000)
        wave[99] = float(wrong)
        soundfile.write(tmp_path / "wrong.wav", wave.numpy(), 8000, subtype="FLOAT")
        with pytest.raises(InputError, match=r"wrong\.wav has samples that are no numbers\. Give another file\."):
            task.predict(model, [str(tmp_path / "wrong.wav")])
    with pytest.raises(InputError, match=r"no option of the task sounds called .beams.* Known: top"):
        task.predict(model, [str(DIGITS / "3_theo_5.wav")], beams=2)
    (folder / "sound_format.json").rename(folder / "away.json")
    with pytest.raises(InputError, match=r"sound_format\.json, which says how this run reads a sound, cannot be read"):
        load_task(folder)
    (folder / "away.json").rename(folder / "sound_format.json")


@pytest.mark.parametrize("tokens", ["log-mel", "raw", "patches"])
@pytest.mark.parametrize("readout", ["mean", "class"])
def test_a_padded_batch_answers_as_each_recording_alone(tokens, readout):
    scheme = {"scheme": "fourier", "axes": 2} if tokens == "patches" else "rope"
    spec = {"readout": readout, "block": {"attention": {"position": scheme}}}
    task = open_task(digits(data={"tokens": tokens, "patch": [2, 4]}, model=spec))
    model = build(resolve_spec(task)).eval()
    t = task.batch(0).tensors
    with torch.no_grad():
        together = model(Tokens(x=t["inputs"], positions=t["positions"], order=t["order"], valid=t["valid"]))
        for row, real in enumerate(t["valid"]):
            alone = model(Tokens(x=t["inputs"][row][real], positions=t["positions"][row][real], order=t["order"][real]))
            assert relative_error(together[row], alone) < 1e-4  # float32


def test_the_loss_of_a_step_is_the_same_for_one_process_and_for_three():
    task = open_task(digits())
    model = build(resolve_spec(task))
    whole = task.loss(model, task.batch(5))
    parts = [task.batch(5, share, 3) for share in range(3)]
    assert {part.terms for part in parts} == {6}
    assert sum(part.size for part in parts) == 6
    assert relative_error(sum(task.loss(model, part) for part in parts), whole) < 1e-5


def test_samples_are_recordings_far_apart_with_their_class():
    task = open_task(digits())
    some = task.samples(build(resolve_spec(task)), 3)
    assert [s.step for s in some] == [3, 3]
    assert [s.target for s in some] == [s.prompt[0] for s in some]
    assert some[0].target != some[1].target


@pytest.mark.parametrize("readout", ["mean", "class"])
def test_what_windows_drew_from_each_other_is_kept_with_their_times(readout):
    task = open_task(digits(model={"readout": readout}))
    first, second = task.samples(build(resolve_spec(task)), 2)
    assert first.tokens[:3] == ["0.016 s", "0.036 s", "0.056 s"]
    weights = unpack(first.attention)
    assert weights.shape == (1, 2, len(first.tokens), len(first.tokens))
    if readout == "mean":
        assert abs(weights.sum(-1) - 1).max() < 0.02  # of so many, rounded to three decimals
    assert second.attention is None


def test_the_data_decides_the_first_map_and_the_answers():
    spec = resolve_spec(open_task(digits()))
    assert (spec.input.features, spec.outputs, spec.readout, spec.vocabulary) == (16, 10, "mean", None)
    assert resolve_spec(open_task(digits(data={"tokens": "raw"}))).input.features == 256
    preset = resolve_spec(open_task(digits(model={"preset": "sound", "layers": 1, "width": 16})))
    assert (preset.input.patch, preset.input.features) == (None, 16)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"outputs": 4}, r"model\.outputs is 4, but the recordings have 10"),
        ({"input": {"features": 80}}, r"model\.input\.features is 80, but the recordings have 16"),
        ({"vocabulary": 30}, r"model\.vocabulary is 30, but sounds have no vocabulary"),
        ({"readout": "each"}, r'model\.readout "each" answers for every token'),
    ],
)
def test_a_model_that_does_not_fit_the_recordings_is_refused(model, said):
    with pytest.raises(InputError, match=said):
        resolve_spec(open_task(digits(model=model)))


def test_a_run_goes_on_from_another_of_the_same_windows(run, tmp_path):
    _, folder = run
    found = digits(seed=2)
    begun = recipe(found.to_dict() | {"model": {"start": str(folder)}})
    assert resolve_spec(open_task(begun)).outputs == 10
    other = recipe(digits(data={"mels": 20}).to_dict() | {"model": {"start": str(folder)}})
    with pytest.raises(InputError, match=r"takes 16 numbers a token and gives 10 answers, but these recordings make 20"):
        resolve_spec(open_task(other))


@pytest.mark.parametrize("name", few(["fsdd-raw", "fsdd-mel"], 1))  # tests/journeys/test_recipes.py has the other
def test_the_recipes_are_tried_on_the_samples(name, tmp_path):
    path = RECIPES / f"{name}.toml"
    found = read_recipe(path, ["budget.steps=2", "optimiser.warmup=1", "evaluation.every=2"], small=True)
    made = fit(found, open_task(found, path.parent), tmp_path / "run", recipe_folder=path.parent)
    assert made.state == "finished"


# --- what a token is --------------------------------------------------------------------------------------------------
FRAMES = {"tokens": "raw", "window_ms": 8, "hop_ms": 8}  # 64 samples at 8 kHz
STEM = [1, 4, 8, 8, 12, 12, 12]
ENTRIES = {"raw": {"map": False}, "linear": {}, "stem": {"stem": STEM}}


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_same_waveforms_are_learned_raw_mapped_and_through_convolutions(entry, tmp_path):
    found = digits(data=FRAMES, model={"width": 64, "input": ENTRIES[entry]})
    task = open_task(found)
    made = fit(found, task, tmp_path / "run")
    assert made.state == "finished"
    model = build(resolve_spec(task))
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(p)
    t = task.batch(0).tensors
    assert t["inputs"].shape[-1] == 64
    with torch.no_grad():
        together = model(Tokens(x=t["inputs"], positions=t["positions"], order=t["order"], valid=t["valid"]))
        for row, real in enumerate(t["valid"]):
            alone = model(Tokens(x=t["inputs"][row][real], positions=t["positions"][row][real], order=t["order"][real]))
            assert relative_error(together[row], alone) < 1e-4  # float32


def test_a_run_with_a_stem_answers_and_goes_on_elsewhere(tmp_path):
    from equiscope.training import load_run

    found = digits(data=FRAMES, model={"input": {"stem": STEM}})
    fit(found, open_task(found), tmp_path / "run")
    _, task = load_task(tmp_path / "run")
    model = load_run(tmp_path / "run")
    assert (model.spec.input.patch, model.spec.input.features, model.spec.input.channels) == ((64,), 12, 1)
    assert task.predict(model, [str(DIGITS / "3_theo_5.wav")])[0].answer in task.classes
    begun = recipe(found.to_dict() | {"model": {"start": str(tmp_path / "run")}})
    assert resolve_spec(open_task(begun)) == model.spec
    other = recipe(digits(data=FRAMES | {"hop_ms": 4}).to_dict() | {"model": {"start": str(tmp_path / "run")}})
    with pytest.raises(InputError, match="read raw frames of 64 samples of 1 channel"):
        resolve_spec(open_task(other))


@pytest.mark.parametrize(
    ("data", "stem"), [({}, STEM), (FRAMES | {"window_ms": 16}, STEM), (FRAMES, [1, 8]), (FRAMES, [2, *STEM[1:]])]
)
def test_a_stem_that_does_not_read_these_frames_is_refused(data, stem):
    with pytest.raises(InputError, match=r'Set data\.tokens = "raw", window_ms = [\d.]+ and hop_ms = [\d.]+, no gaps'):
        resolve_spec(open_task(digits(data=data, model={"input": {"stem": stem}})))


def test_raw_frames_wider_than_the_model_are_refused():
    with pytest.raises(InputError, match="64 of them are more than the width, 16"):
        resolve_spec(open_task(digits(data=FRAMES, model={"input": {"map": False}})))


# --- gaps -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("positions", ["seconds", "index"])
def test_recordings_with_gaps_are_learned_measured_and_answered_alike(positions, tmp_path):
    from equiscope.training import load_run

    found = digits(data={"gaps": 0.4, "positions": positions})
    made = fit(found, open_task(found), tmp_path / "run")
    _, task = load_task(tmp_path / "run")
    files = sorted(DIGITS.glob("*_5.wav"))
    answers = task.predict(load_run(tmp_path / "run"), list(map(str, files)))
    right = sum(a.answer == f.name[0] for a, f in zip(answers, files, strict=True))
    assert right / len(files) == made.result["test"]["accuracy"]


def test_a_sound_of_samples_whose_energy_is_no_number_is_refused(run, tmp_path):
    _, folder = run
    _, task = load_task(folder)
    soundfile.write(tmp_path / "loud.wav", [1e30] * 4000, 8000, subtype="FLOAT")
    with pytest.raises(InputError, match=r"loud\.wav has samples of up to 1e\+30, and sounds have some from -1 to 1"):
        task.predict(load_run(folder), [str(tmp_path / "loud.wav")])


@pytest.mark.parametrize("change", [{"bands": 4}, {"windows": 4}, {"warp": 0.3}])
def test_what_hides_nothing_is_said(change):
    changes = {"augment": change}
    assert not open_task(digits(data=changes)).notes
    assert "nothing of raw tokens" in open_task(digits(data={"tokens": "raw"} | changes)).notes[0]


@pytest.mark.parametrize(("name", "far"), [("gain", 1e6), ("shift", 1e5), ("noise", 1e30)])
def test_changes_that_leave_no_sound_are_refused(name, far):
    with pytest.raises(InputError, match=f"data.augment.{name}"):
        digits(data={"augment": {name: far}})
    with pytest.raises(InputError, match=r"data\.hop_ms"):
        digits(data={"hop_ms": 1e300})


def test_a_recording_that_changes_may_make_longer_than_a_table_of_positions_is_refused_first(tmp_path):
    def learned(length, **changes):
        model = {"block": {"attention": {"heads": 2, "position": {"scheme": "learned", "length": length}}}}
        found = digits(model=model, data={"positions": "index", "augment": changes})
        return found, open_task(found)

    _, task = learned(12)
    most = max(int(at.max()) for _, at in task.longest()) + 1
    for changes in ({"speed": 0.5}, {"shift": 100.0}):
        found, task = learned(most, **changes)
        assert max(int(at.max()) for _, at in task.longest()) + 1 > most
        with pytest.raises(InputError, match="Learned knows positions"):
            fit(found, task, tmp_path / "run")
        assert not (tmp_path / "run").exists()
    _, task = learned(most, speed=0.5, shift=100.0)
    some = max(task.batch(step).tensors["inputs"].shape[1] for step in range(40))
    assert most < some <= max(int(at.max()) for _, at in task.longest()) + 1


def test_a_recording_that_is_longer_than_a_table_of_positions_is_refused_first(tmp_path):
    learned = {"block": {"attention": {"heads": 2, "position": {"scheme": "learned", "length": 12}}}}
    found = digits(model=learned, data={"positions": "index"})
    with pytest.raises(InputError, match=r"Learned knows positions 0\.\.11, but got \d+"):
        fit(found, open_task(found), tmp_path / "run")
    assert not (tmp_path / "run").exists()
