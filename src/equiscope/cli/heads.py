"""`equiscope explore --model MODEL INPUT`: every attention of any model on a text, a picture, a sound, or example inputs."""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from equiscope import trained
from equiscope.audit.inputs.targets import Target, target
from equiscope.cli.explore import PageOutput, is_run, serve, wrote
from equiscope.cli.side_by_side import align_inputs, short_names
from equiscope.cli.tokenizer import no_tokenizer, tokenizer
from equiscope.data.picture_files import address, converted
from equiscope.errors import InputError
from equiscope.explore import write
from equiscope.explore.heads.model_inputs import (
    ANSWER,
    LONGEST,
    LabelledInputs,
    check_ids,
    encoded,
    patch_sequences,
    sound_clip,
    token_sequence,
)
from equiscope.explore.heads.predictions import PredictionReader, classes, model_reader, token_reader
from equiscope.explore.page import html
from equiscope.explore.pages.attribution import attribution as page_of_answer
from equiscope.explore.pages.attribution import attribution_response
from equiscope.explore.pages.heads import RUNS, UNTRAINED, HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.models import PRESETS, Built, Model, folder_of
from equiscope.program import watch
from equiscope.program.lower import lowered
from equiscope.record import Attribution, TokenSequence
from equiscope.spec_base import read_object
from equiscope.tokens import Tokens, read_sound
from equiscope.tokens.images import picture
from equiscope.tokens.labels import partial_letter_note
from equiscope.training import Task, load_run, load_task

PIXELS, SECONDS = 100_000_000, 60.0  # of a picture, of a sound
SILENT = "The sound is silent: all its samples are alike."
CELLS = 14  # patches along a side, of a model whose places go on: as ViT cuts 224 pixels
PHOTOGRAPH = (
    "This model has learned clothes, bright on black, from grey images of 28×28 pixels. On a photograph its attention means "
    "nothing. A photograph needs a model that is trained on photographs, such as a ViT that transformers has saved: "
    "equiscope explore --image FILE --model FOLDER. With weights chosen by hand: equiscope explore --page image --image FILE."
)
PREPROCESSOR = "preprocessor_config.json"
RATE, FASTEST = 16000, 1_000_000  # samples a second: of models that say none, and of any sound
NUMBERS = 20_000_000  # parameters of a model whose numbers a page holds
LARGE = 8_000_000  # bytes of a file from which on a smaller one is offered


@dataclass(frozen=True)
class ModelInput:
    """What a person wants to see a model look at; all None: example inputs. second_image: to take values from."""

    text: str | None = None
    image: Path | None = None
    audio: Path | None = None
    second_image: Path | None = None

    @property
    def title(self) -> str:
        """In a few words, for a title."""
        if self.text is not None:
            return self.text if len(self.text) <= 48 else self.text[:47] + "…"
        path = self.image or self.audio
        return path.name if path is not None else "example inputs"

    @property
    def heading(self) -> str:
        """The title with a text in quotes, as the heading of a page has it."""
        return self.title if self.text is None else f"“{self.title}”"


@dataclass(kw_only=True)
class PreparedModel(LabelledInputs):
    """A model, what it is called with, what stands in its rows, and how its answer is read.

    origin     what the model is, and where its weights come from, in sentences
    warning  what a reader must know before anything else, such as that the weights are random
    second   makes another input of the model from a text, or from one of `choices`; None: it has none
    model_lines  lines that make the model, in plain Python
    """

    model: nn.Module
    warning: str = ""
    origin: list[str] = field(default_factory=list)
    reader: PredictionReader | None = None
    second: Callable[[str], LabelledInputs] | None = None
    choices: list[str] = field(default_factory=list)
    model_lines: str = ""


def run(
    source: str, request: ModelInput, options: list[str], seed: int, output: PageOutput, other_source: str | None = None,
    compact: bool = False,
) -> None:  # fmt: skip
    """The page. beside: another model on the same input. compact: its file is small, and its numbers are rounded.

    raises  InputError where the model or the input is none, or where nothing attends, for options of a sentence, and where rows or
            heads of two models do not match
    """
    if options:
        raise InputError(f"Only a sentence alone takes {' and '.join(options)}; {source} brings all that. Leave that out.")
    _check_one_input(request)
    if request.second_image is not None and not request.second_image.is_file():
        raise InputError(
            f"There is no picture {request.second_image}. Give the path of a file that Pillow reads, e.g. PNG or JPEG."
        )
    if compact and output.is_served:
        raise InputError("--compact makes a file small, and a page that is served has every number. Add --export FILE, or --json.")
    ready = _prepare(source, request, seed)
    name = Path(source).resolve().name if folder_of(source) else source
    if other_source is None:
        ready.notes += ready.origin
        page, models = _heads_page(ready, f"{name} on {request.heading}", source, seed), [ready.model]
    else:
        other, called = _prepare(other_source, request, seed), short_names(source, other_source)
        align_inputs(ready, other, request == ModelInput())
        ready.notes += [f"{of}: {origin}" for of, one in zip(called, (ready, other), strict=True) for origin in one.origin]
        page = _heads_page(ready, f"{called[0]} beside {called[1]}, on {request.heading}", source, seed)
        page.set_side_by_side(_heads_page(other, called[1], other_source, seed), called)
        models = [ready.model, other.model]
    if output.json:
        output.show(page.file(compact))
    elif output.export is not None:
        path = write(page.file(compact), output.export, small=compact)
        wrote(path)
        if not compact:
            _offer_compact(path)
    else:
        print(_memory_note(page, models), flush=True)
        from equiscope.cli.book import other_pages

        links, frames = other_pages(page.content)
        answers, runs, own_frames = routes(page)
        text = html(page.content, policy=POLICY, links=links)
        serve(text, output.port, output.open_browser, answers, runs, frames | own_frames)


Route = Callable[[dict[str, str]], bytes]


def routes(page: HeadsPage) -> tuple[dict[str, Route], dict[str, Route], dict[str, Callable[[], str]]]:
    """What the page asks for by path: answers, answers that run the model, and the page as a file with what was computed so far."""
    model = page.interventions
    runs: dict[str, Route] = {"/rerun": page.answer_rerun, "/effect": model.answer_effect, "/rank": model.answer_rank}
    return {"/head": page.answer_head}, runs, {"/saved.html": lambda: html(page.file())}


def page_of(source: str, request: ModelInput | None = None, seed: int = 0) -> HeadsPage:
    """The page of a model's heads. Raises InputError as `run` does."""
    request = request or ModelInput()
    ready = _prepare(source, request, seed)
    ready.notes += ready.origin
    return _heads_page(ready, f"{source} on {request.heading}", source, seed)


def _offer_compact(path: Path, large: int = LARGE) -> None:
    """Name the option that makes a smaller file, where a file has more than `large` bytes. A pipe has no size."""
    if path.is_file() and path.stat().st_size > large:
        print("It has every query, key and value; --compact makes a smaller one, in which they are rounded or left out.")


def numbers(source: str | None, request: ModelInput, options: list[str], seed: int, output: PageOutput) -> None:
    """The page of a model's program on an input: every number, and the step that made it.

    raises  InputError without a model, for options of other pages, and for a model with more numbers than a page holds
    """
    source = _alone("--numbers", source, request, options)
    ready = _prepare(source, request, seed)
    many = sum(p.numel() for p in ready.model.parameters())
    if many > NUMBERS:
        raise InputError(
            f"A page of numbers holds at most {NUMBERS / 1e6:.0f} million parameters, but {source} has {many / 1e6:.0f} million. "
            "Leave --numbers out to see its heads, or use eq.watch in Python."
        )
    title = f"{Path(source).resolve().name if folder_of(source) else source} on {request.heading}"
    program = lowered(watch(ready.model, *ready.args, kwargs=ready.kwargs), arrays=False, title=title)
    notes = [*ready.origin, *ready.notes, *(program.notes or [])]
    output.show(msgspec.structs.replace(program, notes=notes))


def _alone(option: str, source: str | None, request: ModelInput, others: list[str]) -> str:
    """The model of a page that shows one model on one input. Raises InputError for anything else."""
    if source is None:
        raise InputError(f"{option} needs a model. Add --model: a checkpoint folder, module:factory, timm:NAME or a run.")
    if others:
        raise InputError(f"{option} shows one model without {' and '.join(others)}. Leave that out.")
    _check_one_input(request)
    return source


def _check_one_input(request: ModelInput) -> None:
    if sum(given is not None for given in (request.text, request.image, request.audio)) > 1:
        raise InputError("A text, --image and --audio are three inputs, but one page shows one. Give one of them.")


def attribution(
    source: str | None, request: ModelInput, options: list[str], token: int | None, seed: int, output: PageOutput
) -> None:  # fmt: skip
    """The page of an answer: which tokens, layers and parts decide it.

    raises  InputError without a model, for options of other pages, and for a model whose output is no logits
    """
    source = _alone("--attribution", source, request, options)
    ready = _prepare(source, request, seed)
    name = Path(source).resolve().name if folder_of(source) else source
    notes = [*([ready.warning] if ready.warning else []), *ready.origin, *ready.notes]

    def content(token: int | None, answer: int | None = None) -> Attribution:
        return page_of_answer(
            ready.model, ready.args, ready.kwargs, ready.sequences, ready.reader, f"{name} on {request.heading}", name, notes,
            token, answer, output.is_served,
        )  # fmt: skip

    first = content(token)
    if not output.is_served:
        output.show(first)
        return
    from equiscope.cli.book import other_pages

    links, frames = other_pages(first)
    text, runs = html(first, policy=POLICY, links=links), {"/attribution": attribution_response(content)}
    serve(text, output.port, output.open_browser, runs=runs, frames=frames)


def _memory_note(page: HeadsPage, models: Sequence[nn.Module]) -> str:
    """What a page that is served keeps in memory, in a sentence."""
    read = [*page.attentions, *(page.other.attentions if page.other is not None else [])]
    parameters = _bytes(t for model in models for t in (*model.parameters(), *model.buffers()))
    held = _bytes(t for one in read for t in vars(one).values() if isinstance(t, Tensor))
    return (
        f"In memory: {parameters / 1e6:.1f} MB of parameters, {held / 1e6:.1f} MB of queries, keys and values; "
        f"each of the last {RUNS} runs on moved tokens adds as much as those."
    )


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Total bytes; tensors that share memory count once."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def _prepare(source: str, request: ModelInput, seed: int) -> PreparedModel:
    return _from_run(trained.path_of(source), request) if is_run(source) else _from_target(source, request, seed)


def _heads_page(ready: PreparedModel, title: str, source: str, seed: int) -> HeadsPage:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        page = HeadsPage(
            ready.model, ready.args, ready.kwargs, ready.sequences, title, source, ready.notes, ready.reader, ready.warning
        )
    page.interventions.model_lines = ready.model_lines or page.interventions.model_lines
    if ready.second is not None:
        page.set_second_input(ready.second, ready.choices)
    return page


def _from_run(folder: Path, request: ModelInput) -> PreparedModel:
    """A run of ours, with an input of its task."""
    _, task = load_task(folder)
    given = request.text if request.text is not None else request.image or request.audio
    if given is None:
        raise InputError(
            f"{folder} is a run of the task {task.name}: give it something to look at, as `equiscope predict` takes it."
        )
    wanted = {"images": "image", "sounds": "audio"}.get(task.name, "text")
    if getattr(request, wanted) is None:
        option = {"image": "--image FILE", "audio": "--audio FILE", "text": "a text"}[wanted]
        raise InputError(
            f"{folder} is a run of the task {task.name}, which takes {option}, but got {request.title!r}. Give it that, or name "
            "another --model."
        )
    model = load_run(folder).eval()
    with torch.no_grad():
        inputs = task.model_inputs(model, str(given))
    sequences = inputs.sequences
    if request.audio is not None:
        sequences = [_with_sound(sequence, request.audio) for sequence in sequences]
    ready = PreparedModel(inputs.args, inputs.kwargs, sequences, model=model, reader=_of_task(task))
    name = trained.name_of(folder)
    ready.model_lines = f"import equiscope as eq\n\nmodel = eq.load({name or str(folder)!r})"
    files = {file.stem: file for file in trained.examples(name)} if name is not None and wanted != "text" else {}
    if request.second_image is not None:
        files[request.second_image.name] = request.second_image
    ready.choices = list(files)
    if files or wanted == "text":
        ready.second = lambda text: _task_inputs(task, model, str(files.get(text, text)))
    if name is not None:
        ready.notes.append(trained.summary(name))
        ready.warning = PHOTOGRAPH * (request.image is not None and _is_photograph(request.image))
    if any(sequence.sound is not None and not any(b64decode(sequence.sound.samples)) for sequence in sequences):
        ready.notes.append(SILENT)
    _note_partial_letters(ready)
    return ready


def _task_inputs(task: Task, model: Built, given: str) -> LabelledInputs:
    with torch.no_grad():
        inputs = task.model_inputs(model, given)
    return LabelledInputs(inputs.args, inputs.kwargs, inputs.sequences)


def _is_photograph(path: Path) -> bool:
    """Whether an image is no grey one of the size that the trained classifier of clothes knows."""
    image = picture(path, str(path))
    return image.size != (28, 28) or image.mode not in ("L", "1")


def _of_task(task: Task) -> PredictionReader | None:
    """How the answer of a run of ours is read: names of classes, or pieces of text."""
    if task.classes:
        return PredictionReader("class", classes(task.classes))
    read = getattr(task, "tokenizer", None)
    return None if read is None else token_reader(read.inner)


def _with_sound(line: TokenSequence, path: Path) -> TokenSequence:
    """A line of slices with the sound that they cover."""
    wave, rate = read_sound(path, longest=SECONDS)
    covered = round((line.seconds[-1] + line.duration) * rate)
    return msgspec.structs.replace(line, sound=sound_clip(wave[:covered], rate))


def _from_target(source: str, request: ModelInput, seed: int) -> PreparedModel:
    target_ = target(source, seed=seed)
    ready = PreparedModel(target_.args, dict(target_.kwargs), model=target_.model.eval(), warning=UNTRAINED * target_.untrained)
    folder = Path(f"preset {source}" if source in PRESETS else source)  # a preset has no files; a folder of its name is ./NAME
    if request.text is not None:
        _set_text(ready, target_, folder, request.text)
        ready.second = lambda text: _second_text(target_, folder, text)
    elif request.image is not None:
        _set_image(ready, target_, folder, request.image)
        if (second := request.second_image) is not None:
            ready.choices, ready.second = [second.name], lambda name: _second_image(target_, folder, second)
    elif request.audio is not None:
        _set_audio(ready, target_, folder, request.audio)
    else:
        given = "made-up ones of the right shapes" if target_.generated else f"those that {source} returns"
        ready.notes.append(f"No input was given, so these are {given}.")
    ready.reader = model_reader(target_.model, tokenizer(folder))
    _note_partial_letters(ready)
    ready.model_lines = _lines_of(target_.model, source)
    ready.origin = [f"This is {target_.title}."] * (source in PRESETS) + list(target_.notes)
    return ready


def _second_image(target: Target, folder: Path, path: Path) -> LabelledInputs:
    """Another image for the same model."""
    ready = PreparedModel(target.args, dict(target.kwargs), model=target.model)
    _set_image(ready, target, folder, path)
    return ready


def _lines_of(model: nn.Module, source: str) -> str:
    """Lines that load the model of a folder again; empty for others."""
    room, name = type(model).__module__, type(model).__name__
    if not folder_of(source):
        return ""
    if room.startswith("transformers."):
        return f"from transformers import {name}\n\nmodel = {name}.from_pretrained({source!r}).eval()"
    if name == "SentenceEncoder":
        load = "load_sentence_encoder"
        return f"from equiscope.checkpoints.sentence_encoder import {load}\n\nmodel = {load}({source!r})"
    return f"import equiscope as eq\n\nmodel = eq.load({source!r}).eval()" if room.startswith("equiscope.") else ""


def _second_text(target: Target, folder: Path, text: str) -> LabelledInputs:
    """Another text for the same model."""
    ready = PreparedModel(target.args, dict(target.kwargs), model=target.model)
    _set_text(ready, target, folder, text)
    return ready


def _note_partial_letters(ready: PreparedModel) -> None:
    """A note where labels are no whole letters."""
    note = next(
        (note_of_line for line in ready.sequences if line.kind == "words" and (note_of_line := partial_letter_note(line.labels))),
        "",
    )
    ready.notes += [note] if note else []


# ---------------------------------------------------------------------------------------------------------------------- text


def _set_text(ready: PreparedModel, target: Target, folder: Path, text: str) -> None:
    if not text.strip():
        raise InputError("The text is empty. Give at least one word.")
    name, slot = _slot(ready, lambda n, v: n == "input_ids" or (n.isdigit() and not v.is_floating_point() and v.ndim == 2))
    if name is None:
        raise InputError(f"{type(target.model).__name__} takes no text, but {_accepted_inputs(ready)}.")
    ids, line = _encoded(folder, text)
    if len(ids) > LONGEST:
        raise InputError(f"The text has {len(ids)} tokens; at most {LONGEST} are shown. Give a shorter one.")
    check_ids(target.model, ids)
    slot(torch.tensor([ids], device=next(target.model.parameters()).device))
    for name in ("attention_mask", "token_type_ids", "position_ids"):  # of the made-up input, of another length
        ready.kwargs.pop(name, None)
    ready.sequences.append(line)
    if "decoder_input_ids" in ready.kwargs:
        _set_answer(ready, target.model, folder, torch.tensor([ids]))


def _set_answer(ready: PreparedModel, model: Any, folder: Path, ids: Tensor) -> None:
    """What the decoder says, and then reads: the model's own answer."""
    try:
        with torch.no_grad():
            answer = model.generate(ids, max_new_tokens=ANSWER, do_sample=False, num_beams=1)[0].tolist()
    except Exception as error:  # a model that has no head to write with
        ready.notes.append(f"The model could not answer ({type(error).__name__}), so its decoder reads made-up tokens.")
        ready.sequences.append(
            TokenSequence(name="decoder", kind="tokens", labels=[str(i) for i in ready.kwargs["decoder_input_ids"][0].tolist()])
        )
        return
    answer = answer[:-1] if len(answer) > 1 else answer  # the last one is not read
    ready.kwargs["decoder_input_ids"] = torch.tensor([answer])
    ready.sequences.append(token_sequence("answer", tokenizer(folder), answer))


def _encoded(folder: Path, text: str) -> tuple[list[int], TokenSequence]:
    """Ids, and the line of what a person reads of each: the letters that it stands for; a special token by its name."""
    if (reads := tokenizer(folder)) is not None:
        return encoded(reads, text)
    if not re.fullmatch(r"[\d\s,]+", text):
        raise no_tokenizer(folder, "give the ids instead: '12 7 3'")
    ids = [int(word) for word in text.replace(",", " ").split()]
    return ids, token_sequence("text", None, ids)


# ------------------------------------------------------------------------------------------------------------- picture, sound


def _set_image(ready: PreparedModel, target: Target, folder: Path, path: Path) -> None:
    if not path.is_file():
        raise InputError(f"There is no picture {path}. Give the path of a file that Pillow reads, e.g. PNG or JPEG.")
    slot, (channels, height, width), dtype = _image_slot(ready, target.model)
    size = _config_size(target.model) or (height, width)
    pixels = converted(picture(path, str(path), most=PIXELS), size, channels)
    mean, spread, is_given = _normal(folder, target.model, channels)
    values = (torch.tensor(pixels).float() / 255 - mean[:, None, None]) / spread[:, None, None]
    slot(values[None].to(dtype))
    ready.sequences += patch_sequences(target.model, size, address(pixels))
    ready.notes.append(f"The picture was cut to its middle and brought to {size[1]}×{size[0]} pixels.")
    if not is_given:
        ready.notes.append("The model says no mean and spread of colours, so black is -1 and white is 1.")


def _image_slot(ready: PreparedModel, model: Any) -> tuple[Callable[[Tensor], None], tuple[int, ...], torch.dtype]:
    """What puts a picture in, and the channels, height, width and dtype that it has there.

    raises  InputError where nothing takes a picture
    """
    if isinstance(model, Model) and len(model.spec.input.patch or ()) == 2 and isinstance(ready.args[0], Tokens):
        input_layer = model.spec.input
        cells = getattr(model.position, "shape", (CELLS, CELLS))
        sides = (n * p for n, p in zip(cells, input_layer.patch or (), strict=True))

        def put(value: Tensor) -> None:
            ready.args = (value.to(next(model.parameters()).device), *ready.args[1:])

        return put, (input_layer.channels, *sides), ready.args[0].x.dtype
    name, slot = _slot(ready, lambda n, v: n == "pixel_values")
    if name is None:
        name, slot = _slot(ready, lambda n, v: v.is_floating_point() and v.ndim == 4)
    if name is None:
        takes = f"tokens of {model.spec.width} numbers" if isinstance(model, Model) else _accepted_inputs(ready)
        raise InputError(f"{type(model).__name__} takes no picture, but {takes}.")
    value = dict(ready.tensors())[name]
    return slot, tuple(value.shape[-3:]), value.dtype


def _config_size(model: Any) -> tuple[int, int] | None:
    """The size of pictures that a configuration of transformers says."""
    size = getattr(getattr(model, "config", None), "image_size", None)
    if isinstance(size, int):
        return size, size
    return (int(size[0]), int(size[1])) if isinstance(size, (list, tuple)) and len(size) == 2 else None


def _normal(folder: Path, model: Any, channels: int) -> tuple[Tensor, Tensor, bool]:
    """Mean and spread that pictures are brought to: the folder's, timm's, or 0.5; and whether any was said."""
    path, statistics = folder / PREPROCESSOR, dict[str, Any]()
    if path.exists():
        read = read_object(path)
        statistics = {"mean": read.get("image_mean"), "std": read.get("image_std")}
    elif isinstance(getattr(model, "default_cfg", None), dict):
        statistics = model.default_cfg
    mean, spread = (_colours(path, statistics.get(key), key) for key in ("mean", "std"))
    return (
        torch.tensor(np.resize(mean, channels)),
        torch.tensor(np.resize(spread, channels)),
        any(statistics.get(key) is not None for key in ("mean", "std")),
    )


def _colours(path: Path, value: Any, key: str) -> np.ndarray:
    """A number, or one a channel; 0.5 unless value. Raises InputError for others, and for a spread that is not above 0."""
    if value is None:
        return np.asarray(0.5, dtype=np.float32)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    fits = all(
        isinstance(n, (int, float)) and not isinstance(n, bool) and np.isfinite(n) and (key == "mean" or n > 0) for n in numbers
    )
    if not numbers or not fits:
        raise InputError(f"{path}: image_{key} is {value!r}, but should be a number for each channel{' above 0' * (key == 'std')}.")
    return np.asarray(numbers, dtype=np.float32)


def _set_audio(ready: PreparedModel, target: Target, folder: Path, path: Path) -> None:
    name, slot = _slot(ready, lambda n, v: n == "input_values")
    if name is None:
        raise InputError(
            f"{type(target.model).__name__} takes no sound as samples, but {_accepted_inputs(ready)}. "
            "Our own runs on sounds and models like wav2vec 2.0 do."
        )
    config = folder / PREPROCESSOR
    rate = read_object(config).get("sampling_rate", RATE) if config.exists() else RATE
    if not isinstance(rate, int) or isinstance(rate, bool) or not 1 <= rate <= FASTEST:
        raise InputError(f"{config}: sampling_rate is {rate!r}, but should be a whole number of 1 to {FASTEST:,} a second.")
    wave, _ = read_sound(path, rate, longest=SECONDS)
    quiet = wave.std() < 1e-7
    slot(((wave - wave.mean()) / (1.0 if quiet else wave.std()))[None].float())
    if quiet:
        ready.notes.append(SILENT)
    convolutions = [m for m in target.model.modules() if isinstance(m, nn.Conv1d) and m.stride[0] > 1]
    hop, seen = 1, 1  # samples from slice to slice, and in one
    for one in convolutions:
        seen, hop = seen + (one.kernel_size[0] - 1) * hop, hop * one.stride[0]
    if convolutions:
        whole = sound_clip(wave, rate)
        for count in range(max(1, len(wave) // hop - 2), len(wave) // hop + 2):
            times = [i * hop / rate for i in range(count)]
            labels = [f"{t:.3g} s" for t in times]
            ready.sequences.append(
                TokenSequence(name="sound", kind="slices", labels=labels, seconds=times, duration=seen / rate, sound=whole)
            )


def _slot(ready: PreparedModel, fits: Any) -> tuple[str | None, Any]:
    """The argument that takes such an input, and what puts one there."""
    for name, value in sorted(ready.tensors(), key=lambda one: one[0].isdigit()):  # the source of a translator has a name
        if fits(name, value):

            def put(new_value: Tensor, name: str = name) -> None:
                if name.isdigit():
                    ready.args = tuple(new_value if i == int(name) else a for i, a in enumerate(ready.args))
                else:
                    ready.kwargs[name] = new_value

            return name, put
    return None, None


def _accepted_inputs(ready: PreparedModel) -> str:
    """What it takes instead, in words."""
    named = [f"{'input ' + n if n.isdigit() else n} {list(v.shape)}" for n, v in ready.tensors()]
    return ", ".join(named) or "something else"
