"""The commands and their options; each loads what it needs when it is called, so `--help` needs no torch."""

from pathlib import Path
from typing import Annotated

import typer

from equiscope import __version__

HINT = "Choose another file with --export."

app = typer.Typer(
    name="equiscope", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Build, see, check and compare transformers by their geometric priors.",
)  # fmt: skip


def _version(asked: bool) -> bool:
    if asked:
        print(f"equiscope {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


@app.command(short_help="See attention over a sentence, or of any model on an input; draw a model; look at a run.")
def explore(
    sentence: Annotated[
        str | None,
        typer.Argument(
            help="The words to look at, 'Love conquers all' unless said; a spec (a .json file) or a checkpoint folder to draw; "
            "the folder of a run; or a molecule (.xyz, .extxyz, .cjson, .sdf) to turn."
        ),
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", "--html", "--out", help="Write one offline HTML file here instead of serving.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="With a text, --image or --audio: every head of this model on it, a checkpoint folder, module:factory, "
            "transformers:CLASS, timm:NAME or a run. Without: draw it, a preset, a spec or a checkpoint folder."
        ),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="A picture that the model looks at.")] = None,
    audio: Annotated[Path | None, typer.Option(help="A sound that the model hears.")] = None,
    video: Annotated[Path | None, typer.Option(help="A film, for --page tokens.")] = None,
    page: Annotated[str | None, typer.Option(help="A page of one subject instead: masks, graph, cost or tokens.")] = None,
    beside: Annotated[
        str | None, typer.Option(help="Another model, as for --model, on the same input: compared head by head.")
    ] = None,
    frame: Annotated[int | None, typer.Option(help="Of a molecule with several frames: the first that is shown.")] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="With --export or --json, of all heads: a small file, whose numbers are rounded.")
    ] = False,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="With --model: every number of it and the step that made it, instead of all heads.")
    ] = False,
    position: Annotated[str, typer.Option(help="Position scheme to begin with; an unknown name lists the known ones.")] = "none",
    width: Annotated[int | None, typer.Option(min=1, help="Features of a word; 2 for each head unless said.")] = None,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads; they divide the width.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Hide later words to begin with.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the weights and of words that are spelled.")] = 0,
    port: Annotated[int, typer.Option(min=1, max=65535, help="First port to try.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the page's data instead.")] = False,
) -> None:
    """See self-attention over a sentence, number by number; every head of any model on a text, a picture or a sound; the drawing
    of a model, each part of which opens its numbers; or a run, which is watched while it trains."""
    from equiscope import outputs
    from equiscope.cli import molecule
    from equiscope.cli.explore import draw, is_model, is_run, run, show_run
    from equiscope.errors import InputError

    if export is not None and not json:
        outputs.check(export, HINT)  # before what may take long
    options = {"--position": position != "none", "--width": width is not None, "--heads": heads != 1, "--causal": causal}
    said = [option for option, given in options.items() if given]
    if page is not None:
        from equiscope.cli import pages

        others = said + [option for option, given in {"--model": model, "--beside": beside, "--compact": compact}.items() if given]
        pages.run(page, pages.Said(sentence, image, audio, video, seed), others, export, port, open_browser, json)
        return
    if sentence is not None and molecule.is_molecule(sentence):
        files = {"--image": image, "--audio": audio, "--video": video, "--compact": compact}
        others = said + [option for option, given in files.items() if given]
        molecule.run(Path(sentence), model, beside, 1 if frame is None else frame, others, seed, export, port, open_browser, json)
        return
    if frame is not None:
        raise InputError(f"--frame {frame} is of a molecule with several frames. Give its file: {', '.join(molecule.KINDS)}.")
    if (image or audio or video) and model is None:
        option = "--image" if image else "--audio" if audio else "--video"
        raise InputError(
            f"{option} needs a model that takes it. Add --model: a checkpoint folder, timm:NAME, module:factory or a run."
        )
    if numbers:
        from equiscope.cli import heads as looked

        others = said + [option for option, given in {"--beside": beside, "--compact": compact}.items() if given]
        looked.numbers(model, looked.Asked(sentence, image, audio), others, export, seed, port, open_browser, json)
        return
    if model is not None and (sentence is not None or image or audio or beside or ":" in model):
        from equiscope.cli import heads as looked

        looked.run(model, looked.Asked(sentence, image, audio), said, export, seed, port, open_browser, json, beside, compact)
        return
    if beside is not None:
        raise InputError(f"--beside {beside} needs a first model to stand beside. Add --model: a checkpoint folder or a run.")
    if compact:
        raise InputError("--compact makes the file of all heads of a model small. Add --model and an input, or leave it out.")
    sentence = "Love conquers all" if sentence is None else sentence
    if model is None and is_run(sentence):
        show_run(Path(sentence), said + ["--seed"] * (seed != 0), export, port, open_browser, json)
        return
    if model is not None or is_model(sentence):
        draw(model or sentence, said, export, seed, port, open_browser, json)
        return
    run(sentence, export, position, width or 2 * heads, heads, causal, seed, port, open_browser, json)


@app.command(short_help="Say what a model is: shapes, cost, symmetries.")
def describe(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="A preset, a spec (a .json file) or a checkpoint folder; without it, all presets are listed."
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Length of the sequence whose cost is counted.")] = None,
    source_tokens: Annotated[int, typer.Option(min=1, help="Length of what an encoder reads.")] = 128,
    spec: Annotated[bool, typer.Option("--spec", help="Print the spec itself, as JSON.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what a model is: shapes, parameters, multiply-adds, and the symmetries it has, with the part that decides each."""
    from equiscope.cli.describe import run

    run(source, tokens, source_tokens, spec, json)


@app.command(short_help="Measure which symmetries and properties a model has.")
def check(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="module:factory, FILE.py:factory, a checkpoint folder, transformers:CLASS, timm:NAME, a preset or a spec (.json).",
        ),
    ] = None,
    action: Annotated[list[str] | None, typer.Option(help="Only this action; may be given several times.")] = None,
    property: Annotated[list[str] | None, typer.Option(help="Only this property; may be given several times.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every action and property, also those that cannot be asked.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List all actions and properties.")] = False,
    output: Annotated[str | None, typer.Option(help="How the output moves: invariant, vector, ...; else found out.")] = None,
    effort: Annotated[str, typer.Option(help="quick, default or thorough: how many samples.")] = "default",
    mode: Annotated[str, typer.Option(help="eval, or train (dropout off).")] = "eval",
    tolerance: Annotated[float, typer.Option(min=0, help="A true violation below this is called approximate.")] = 1e-2,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything that is random.")] = 0,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long; what was not reached is undecided.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report page here.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the whole record here, as JSON.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Measure which symmetries and properties a model has: verdict, counterexample, and where it breaks."""
    from equiscope.cli.check import Files, run

    code = run(
        target, action or [], property or [], everything, output, effort, mode, tolerance, seed, seconds, listed,
        Files(html, junit, save), json,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(short_help="Print the encoding table of a position scheme.")
def table(
    scheme: Annotated[str, typer.Argument(help="Position scheme, e.g. sinusoidal; an unknown name lists the known ones.")],
    length: Annotated[int, typer.Option(min=1, max=100_000, help="Number of places.")] = 4,
    width: Annotated[int, typer.Option(min=1, max=8192, help="Features.")] = 8,
    angles: Annotated[bool, typer.Option("--angles", help="The radians instead of their sines and cosines.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
) -> None:
    """Print the encoding table of a position scheme and the norm of every row."""
    from equiscope.cli.table import run

    run(scheme, length, width, angles, json, csv)


@app.command()
def study(
    name: Annotated[
        str | None, typer.Argument(help="The question to answer, or claims: the ledger. Without it, all are listed.")
    ] = None,
    claim: Annotated[
        str | None, typer.Argument(help="With claims: one sentence of the ledger, by its name; all unless said.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the finding (JSON) and its picture (PNG, SVG) into this folder.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything that is random.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller measurements: seconds.")] = False,
    names: Annotated[bool, typer.Option("--list", help="Name the questions, or the claims, and measure nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Answer one question about transformers by measuring it now, or check what the literature says: claims."""
    from equiscope.cli.study import run

    run(name, claim, out, seed, quick, json, names)


@app.command()
def generate(
    folder: Annotated[Path, typer.Argument(help="A checkpoint: config.json, safetensors and tokenizer.json.")],
    prompt: Annotated[
        str, typer.Argument(help="The text to go on with, or what an encoder is to read; - reads it from standard input.")
    ],
    steps: Annotated[int, typer.Option(min=1, help="New tokens at most.")] = 50,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the best token; larger is more even.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Only the k best.")] = None,
    top_p: Annotated[float | None, typer.Option(min=0, max=1, help="Only the best that have this much probability.")] = None,
    min_p: Annotated[float | None, typer.Option(min=0, max=1, help="Only those with this share of the best one's.")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Divisor of the logits of tokens that occurred before.")] = 1.0,
    beams: Annotated[int | None, typer.Option(min=1, help="Search for the best answer with so many beams.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Of beams: larger gives longer answers; 1 unless said.")] = None,
    window: Annotated[int | None, typer.Option(min=1, help="See only so many tokens back; then a text may go on for ever.")] = None,
    draft: Annotated[
        Path | None, typer.Option(help="A smaller model of the same tokens that writes ahead; what stays is as without.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of what is drawn.")] = 0,
    ids: Annotated[bool, typer.Option("--ids", help="The prompt is a list of ids; no tokenizer is needed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Go on with a text, token by token, or answer one."""
    from equiscope.cli.generate import run
    from equiscope.errors import InputError
    from equiscope.models import Beams

    sampling = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
    }
    if beams is None and length_penalty is not None:
        raise InputError("--length-penalty is of a search. Say --beams 4 beside it.")
    search = None if beams is None else Beams(beams, 1.0 if length_penalty is None else length_penalty)
    run(folder, prompt, steps, sampling, search, window, draft, seed, ids, json)


@app.command(short_help="Train by a recipe, or go on with a run.")
def train(
    source: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe (.toml); or the folder of a run, which goes on.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/RECIPE unless said. A run that is there goes on.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="field=value, e.g. optimiser.rate=3e-4; may be repeated.")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="The recipe's small form: a minute, on the samples beside it.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Processes on this machine, or GPUs; torchrun says it otherwise.")] = 1,
    live: Annotated[bool, typer.Option("--live", help="Show the run on a page of this machine while it trains.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="First port to try for --live.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page of --live in a browser.")] = True,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files into RUN/tensorboard.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the run as JSON when it is finished.")] = False,
) -> None:
    """Train by a recipe. A run that was stopped or killed goes on exactly where it was."""
    from equiscope.cli.train import train as run

    raise typer.Exit(run(source, out, change or [], small, devices, json, port if live else None, open_browser, tensorboard))


@app.command(short_help="Which prior is best here? Train many runs of a recipe, and say what the spread supports.")
def compare(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="A recipe or a question (.toml); the folder of a comparison, which goes on; its comparison.json; or several runs.",
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=VALUE,VALUE, e.g. position=none,rope,alibi; may be repeated: every combination is a candidate."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="How many, or which: 3, or 1,5,9. 3 unless said.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs and the report; comparisons/NAME unless said.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE for all candidates, e.g. budget.steps=500; may be repeated.")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="The recipe's small form, on the samples beside it.")] = False,
    equal: Annotated[
        str | None,
        typer.Option(help="Make equal, beside data and seeds: parameters (by the feed-forward's width), or compute (by steps)."),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Runs at a time on this machine.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of one run; the machine's cores over the processes unless said.")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Let a Ray cluster do the runs.")] = False,
    jobs: Annotated[bool, typer.Option("--jobs", help="Only write a command for each run, and a Slurm script.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Train nothing: tell what the runs say so far.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Train every candidate with every seed, and answer which is best: with spread, length extrapolation, cost and symmetries, as a
    table and one offline page. A comparison that was stopped or killed goes on where it was."""
    from equiscope.cli.compare import compare as run
    from equiscope.errors import InputError, UnknownName

    if equal not in (None, "parameters", "compute"):
        raise UnknownName("thing to make equal", equal, ["parameters", "compute"])
    if ray and jobs:
        raise InputError("Runs are done by --ray or written down by --jobs. Give one of them.")
    way = "ray" if ray else "jobs" if jobs else ""
    raise typer.Exit(
        run(sources, vary or [], seeds, out, change or [], small, equal or "", processes, threads, way, redraw, json)  # type: ignore[arg-type]
    )


@app.command(short_help="Measure a run on its data, or on new data.")
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    data: Annotated[
        list[str] | None,
        typer.Option(help="New labelled data instead, in any form that a recipe names; twice for two files: images labels, en de."),
    ] = None,
    part: Annotated[str | None, typer.Option(help="Only this part: validation, test, ...")] = None,
    last: Annotated[bool, typer.Option("--last", help="The last weights, instead of the best on the validation part.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Measure a run on the validation part of its data, and on others that its recipe names; or on new data."""
    from equiscope.cli.train import evaluate as run

    run(folder, data or [], part, last, json)


@app.command(short_help="Let a run answer.")
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Texts to go on with or to translate; files of pictures, sounds, molecules; - takes lines that are piped in."
        ),
    ],
    steps: Annotated[int | None, typer.Option(min=1, help="New tokens at most.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Of texts: 0 takes the best token; larger is more even.")] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Of translations: beginnings that are kept.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Of pictures and sounds: how many classes are said.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of what is drawn.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Continue texts, translate lines, name what is in pictures and sounds, tell energies of molecules."""
    from equiscope.cli.train import predict as run

    options = {"steps": steps, "temperature": temperature, "beams": beams, "top": top, "seed": seed}
    run(folder, inputs, {name: value for name, value in options.items() if value is not None}, json)


@app.command(short_help="List the data that recipes need, where to get it, and whether it is right.")
def data(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME | RECIPE.toml]", help="One of the list; or a recipe, whose files are looked for.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare every file that is here with its sum (sha256).")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the data that recipes need: where a user gets it, under which licence, whether it is here, and whether it is right."""
    from equiscope.cli.data import run

    raise typer.Exit(run(name, check, json))
