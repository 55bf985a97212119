"""The commands and their options. Each command imports what it needs when it is called, so `--help` needs no torch."""

from pathlib import Path
from typing import Annotated

import typer

from equiscope import __version__, trained

HINT = "Choose another file with --export."

app = typer.Typer(
    name="equiscope", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Check, visualize, build, train and compare transformers.",
)  # fmt: skip


def _version(requested: bool) -> bool:
    if requested:
        print(f"equiscope {__version__}")
        raise typer.Exit
    return requested


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command(short_help="Show attention over a sentence or in a model, the drawing of a model, or a run.")
def explore(
    sentence: Annotated[
        str | None,
        typer.Argument(
            help="A sentence (default: 'Love conquers all'); a spec (.json) or a checkpoint folder to draw; the folder of a run; "
            "or a molecule (.xyz, .extxyz, .cjson, .sdf)."
        ),
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", "--html", "--out", help="Write one offline HTML file instead of serving a page.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="With a text, --image or --audio: show every head of this model: a checkpoint folder, module:factory, "
            "transformers:CLASS, timm:NAME, a run, or a trained model (characters, clothes, ethanol), which without input shows an "
            "example. Without input: draw a preset, a spec or a checkpoint folder."
        ),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="An image as the input of --model (default of --model: clothes).")] = None,
    second_image: Annotated[
        Path | None,
        typer.Option(help="With --image: another image, whose values can replace those of the first on the served page."),
    ] = None,
    audio: Annotated[Path | None, typer.Option(help="A sound as the input of the model.")] = None,
    video: Annotated[Path | None, typer.Option(help="A video, for --page tokens.")] = None,
    page: Annotated[
        str | None, typer.Option(help="A page about one subject: masks, graph, cost, tokens, image, molecule or reach.")
    ] = None,
    side_by_side: Annotated[
        str | None, typer.Option(help="A second model, as for --model, on the same input: heads are compared one by one.")
    ] = None,
    frame: Annotated[int | None, typer.Option(help="First frame to show, of a molecule with several; counted from 0.")] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="With --model and --export or --json: a small file with rounded numbers.")
    ] = False,
    numbers: Annotated[
        bool,
        typer.Option(
            "--numbers", help="With --model: show every number of the model and the step that computes it, instead of heads."
        ),
    ] = False,
    attribution: Annotated[
        bool,
        typer.Option("--attribution", help="With --model: which tokens, layers and parts decide the answer, instead of heads."),
    ] = False,
    token: Annotated[
        int | None,
        typer.Option(
            help="With --attribution: read the answer after this token, from 0 (default: the last; of a translation the middle)."
        ),
    ] = None,
    position: Annotated[str, typer.Option(help="Initial position scheme; an unknown name lists the known ones.")] = "none",
    width: Annotated[int | None, typer.Option(min=1, help="Features of a token (default: 2 for each head).")] = None,
    heads: Annotated[int, typer.Option(min=1, help="Number of attention heads; must divide the width.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Start with a causal mask.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the weights and of word vectors.")] = 0,
    port: Annotated[int, typer.Option(min=1, max=65535, help="First port to try.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the data of the page as JSON.")] = False,
) -> None:
    """Show self-attention over a sentence number by number; every head of a model on a text, an image or a sound; the drawing of a
    model, whose parts open their numbers; or a run, live while it trains."""
    from equiscope import outputs
    from equiscope.cli import molecule
    from equiscope.cli.explore import IMAGES, PageOutput, draw, example, is_model, is_run, run, show_run
    from equiscope.errors import InputError

    if export is not None and not json:
        outputs.check(export, HINT)  # before anything slow
    output = PageOutput(export, port, open_browser, json)
    options = {
        "--position": position != "none", "--width": width is not None, "--heads": heads != 1, "--causal": causal,
        "--model": model, "--side-by-side": side_by_side, "--compact": compact, "--image": image, "--audio": audio,
        "--video": video, "--token": token is not None, "--seed": seed != 0,
    }  # fmt: skip

    def given(*others: str) -> list[str]:
        """The options that are set, of those of a sentence and of others."""
        return [option for option in ("--position", "--width", "--heads", "--causal", *others) if options[option]]

    if page is not None:
        from equiscope.cli import pages

        others = given("--model", "--side-by-side", "--compact")
        pages.run(page, pages.PageInputs(sentence, image, audio, video, seed), others, output)
        return
    if model in trained.NAMES and not (sentence or image or audio or video):
        sentence, image = example(model)
    if sentence is not None and molecule.is_molecule(sentence):
        path, files = Path(sentence), ("--image", "--audio", "--video", "--compact")
        if attribution:
            molecule.attribution(path, model, frame or 0, given(*files, "--side-by-side", "--token"), seed, output)
        else:
            molecule.run(path, model, side_by_side, frame or 0, given(*files), seed, output)
        return
    if frame is not None:
        raise InputError(f"--frame {frame} is for a molecule with several frames. Give its file: {', '.join(molecule.KINDS)}.")
    if image and not (audio or video) and model is None:
        model = IMAGES
    if second_image is not None and (image is None or numbers or attribution or not output.is_served):
        raise InputError(
            "--second-image is for the served page of a model's heads on an image. Give it with --image, and without --export."
        )
    if (audio or video) and model is None:
        option = "--audio" if audio else "--video"
        raise InputError(
            f"{option} needs a model that takes it. Add --model: a checkpoint folder, timm:NAME, module:factory or a run."
        )
    if token is not None and not (numbers or attribution):
        raise InputError(f"--token {token} is for --attribution. Add it, or leave --token out.")
    has_input = sentence is not None or image or audio or side_by_side or (model is not None and ":" in model)
    if numbers or attribution or (model is not None and has_input):
        from equiscope.cli import heads as heads_page

        request = heads_page.ModelInput(sentence, image, audio, second_image)
        if numbers:
            heads_page.numbers(model, request, given("--side-by-side", "--compact"), seed, output)
        elif attribution:
            heads_page.attribution(model, request, given("--side-by-side", "--compact"), token, seed, output)
        elif model is not None:
            heads_page.run(model, request, given(), seed, output, side_by_side, compact)
        return
    if side_by_side is not None:
        raise InputError(f"--side-by-side {side_by_side} needs a first model. Add --model: a checkpoint folder or a run.")
    if compact:
        raise InputError("--compact is for the heads of a model. Add --model and an input, or leave it out.")
    sentence = "Love conquers all" if sentence is None else sentence
    if model is None and is_run(sentence):
        show_run(trained.path_of(sentence), given("--seed"), output)
    elif model is not None or is_model(sentence):
        draw(model or sentence, given(), seed, output)
    else:
        run(sentence, position, width or 2 * heads, heads, causal, seed, output)


@app.command(short_help="Put a page into another document, as a figure.")
def figure(
    file: Annotated[Path, typer.Argument(metavar="PAGE", help="A page that equiscope wrote, such as love.html.")],
    state: Annotated[str, typer.Option(help="The initial state: what stands after # in a link to the page.")] = "",
    part: Annotated[str, typer.Option(help="Names of the parts to show, with spaces between them (default: all).")] = "",
    title: Annotated[str, typer.Option(help="Accessible name of the figure (default: the title of the page).")] = "",
    embed: Annotated[
        Path | None, typer.Option(help="Write one piece of HTML to this file: script, page and tag, without files beside it.")
    ] = None,
) -> None:
    """Write equiscope-figure.js beside a page, and print the tag that shows the page in another document."""
    from equiscope.cli.figure import run

    run(file, state, part, title, embed)


@app.command(short_help="Open the book: prose and live figures, from one attention layer to your own model.")
def book(
    out: Annotated[
        Path | None,
        typer.Option(help="Write one offline file (.html), or a folder that any web server can host, instead of serving the book."),
    ] = None,
    words: Annotated[str, typer.Option(help="Your own words, with which the figures of a sentence begin.")] = "Love conquers all",
    port: Annotated[int, typer.Option(min=1, max=65535, help="First port to try.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the book: prose and live figures in one page, from one attention layer over three words to your own model."""
    from equiscope.cli.book import run

    run(out, words, port, open_browser)


@app.command(short_help="Describe a model: shapes, cost, symmetries.")
def describe(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A preset, a trained model, a spec (.json) or a checkpoint folder. Without it, list presets and trained models.",
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Sequence length for which the cost is counted.")] = None,
    source_tokens: Annotated[int, typer.Option(min=1, help="Sequence length of the encoder.")] = 128,
    spec: Annotated[bool, typer.Option("--spec", help="Print the spec as JSON.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a model: shapes, parameters, multiply-adds, and its symmetries, with the part that decides each."""
    from equiscope.cli.describe import run

    run(source, tokens, source_tokens, spec, json)


@app.command(short_help="Measure which symmetries and properties a model has.")
def check(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="module:factory, FILE.py:factory, a checkpoint folder or a run, transformers:CLASS, timm:NAME, a trained model, a "
            "preset or a spec (.json); or the address of a server, http://HOST:PORT/v1.",
        ),
    ] = None,
    action: Annotated[list[str] | None, typer.Option(help="Check only this action; may be repeated.")] = None,
    property: Annotated[list[str] | None, typer.Option(help="Check only this property; may be repeated.")] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show every action and every property but engines and embedding, applicable or not."),
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List all actions and properties.")] = False,
    output: Annotated[
        str | None, typer.Option(help="How the output transforms: invariant, vector, ... (default: inferred).")
    ] = None,
    effort: Annotated[str, typer.Option(help="Number of samples: quick, default or thorough.")] = "default",
    mode: Annotated[str, typer.Option(help="eval or train (with dropout off).")] = "eval",
    tolerance: Annotated[float, typer.Option(min=0, help="A violation below this error is approximate, not broken.")] = 1e-2,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Random seed.")] = 0,
    seconds: Annotated[float | None, typer.Option(min=0, help="Time limit; checks that it cuts off are undecided.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the full record to this file, as JSON.")] = None,
    badge: Annotated[Path | None, typer.Option(help="Write the JSON of a shields.io badge to this file.")] = None,
    model: Annotated[str | None, typer.Option(help="Of a server: the name of the model, if it has several.")] = None,
    requests: Annotated[
        int | None, typer.Option(min=10, help="Of a server: how many requests may be made (default: 150, 250 or 600 by effort).")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Of a server: the environment variable with its key (default: EQUISCOPE_KEY, if set).")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.1, help="Of a server: seconds for an answer (default: 60).")] = None,
    proxy: Annotated[bool, typer.Option("--proxy", help="Of a server: use the proxies of the environment.")] = False,
    reproduce: Annotated[
        Path | None, typer.Option(help="Of a server: write a script with the requests of the failing rows and both answers.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Rows that may fail, and why (TOML): they do not make the exit code 1.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the rows that fail now into the file of --baseline.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Measure which symmetries and properties a model has: verdict, counterexample, and where it breaks."""
    from equiscope.audit.served.connection import is_address
    from equiscope.cli.check import Files, Served, run, run_served
    from equiscope.errors import InputError

    of_server = {
        "--model": model,
        "--requests": requests,
        "--key": key,
        "--timeout": timeout,
        "--proxy": proxy,
        "--reproduce": reproduce,
    }
    if target is not None and is_address(target) and not listed:
        own = {"--action": action, "--output": output, "--all": everything, "--mode": mode != "eval"}
        others = [name for name, is_set in own.items() if is_set]
        served = Served(model, requests, key, 60.0 if timeout is None else timeout, proxy, reproduce)
        files = Files(html, junit, save, badge)
        raise typer.Exit(
            run_served(
                target, served, property or None, others, effort, tolerance, seed, seconds, files, baseline, update_baseline, json
            )
        )
    if given := [name for name, value in of_server.items() if value]:
        raise InputError(f"{given[0]} is for a served model. Give its address: equiscope check http://HOST:PORT/v1.")
    code = run(
        target, action or [], property or [], everything, output, effort, mode, tolerance, seed, seconds, listed,
        Files(html, junit, save, badge), baseline, update_baseline, json,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command(short_help="Compare two implementations: do they compute the same, where do they differ first, and why?")
def parity(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="module:factory, FILE.py:factory, a checkpoint folder, transformers:CLASS, timm:NAME, an .onnx file, or recorded "
            "activations (.npz, .safetensors).",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The same. Both get the inputs of the recorded activations, else A's.")],
    processes: Annotated[
        int | None,
        typer.Option(
            min=2, help="Run B on this many processes, connected by gloo: B is a function that makes a copy of A parallel."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Random seed.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write both sides, layer by layer, as one offline page to this file.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the full record to this file, as JSON.")] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Rows that may fail, and why (TOML): they do not make the exit code 1.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the rows that fail now into the file of --baseline.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON, without the single steps.")] = False,
) -> None:
    """Compare two implementations: verdict, the first step that differs, and its cause."""
    from equiscope.cli.parity import run

    raise typer.Exit(run(a, b, processes, seed, html, junit, save, baseline, update_baseline, json))


@app.command(short_help="Test that a language model, or a function that scores tokens, does not read what it should predict.")
def guard(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="module:factory, FILE.py:factory, a checkpoint folder or a run, transformers:CLASS, a trained model, a preset or "
            "a spec (.json); with --scorer, a function.",
        ),
    ],
    scorer: Annotated[
        bool,
        typer.Option("--scorer", help="TARGET is a function: ids [N] to the negative log-probability of each token, in nats."),
    ] = False,
    vocab: Annotated[int | None, typer.Option(min=2, help="Number of ids (default: that of the model).")] = None,
    longest: Annotated[int, typer.Option(min=2, max=520, help="Number of tokens of the longest input.")] = 520,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the weights and of the tokens.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Test, with at most 40 short calls, that no output of a language model depends on later tokens, on other sequences, on earlier
    calls or on chance; and of a function that scores tokens, that no score depends on the scored token itself."""
    from equiscope.cli.guard import run

    raise typer.Exit(run(target, scorer, vocab, longest, seed, json))


@app.command(short_help="Print the encoding table of a position scheme.")
def table(
    scheme: Annotated[str, typer.Argument(help="Position scheme, e.g. sinusoidal; an unknown name lists the known ones.")],
    length: Annotated[int, typer.Option(min=1, max=100_000, help="Number of positions.")] = 4,
    width: Annotated[int, typer.Option(min=1, max=8192, help="Number of features.")] = 8,
    angles: Annotated[
        bool, typer.Option("--angles", help="Print the angles in radians instead of their sines and cosines.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Print the encoding table of a position scheme and the norm of every row."""
    from equiscope.cli.table import run

    run(scheme, length, width, angles, json, csv)


@app.command(short_help="Answer a question about transformers by measuring, or check claims of the literature.")
def study(
    name: Annotated[str | None, typer.Argument(help="A question to answer, or claims. Without it, list all questions.")] = None,
    claim: Annotated[str | None, typer.Argument(help="With claims: the name of one claim (default: all).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result (JSON) and its figure (PNG, SVG) into this folder.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Random seed.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller measurements, in seconds.")] = False,
    names: Annotated[bool, typer.Option("--list", help="List the questions or the claims, without measuring.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Answer a question about transformers by measuring, or check claims of the literature."""
    from equiscope.cli.study import run

    run(name, claim, out, seed, quick, json, names)


@app.command(short_help="Continue a text, or generate the output of an encoder-decoder model.")
def generate(
    folder: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A checkpoint: config.json, safetensors and tokenizer.json; a run; or characters."),
    ],
    prompt: Annotated[str, typer.Argument(help="The text to continue, or the input of an encoder; - reads standard input.")],
    steps: Annotated[int, typer.Option(min=1, help="Maximum number of new tokens.")] = 50,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy; larger values make the distribution more uniform.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k most probable tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Sample from the most probable tokens that sum to this probability.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Sample from tokens with at least this share of the largest probability.")
    ] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Divisor of the logits of tokens that occurred before.")] = 1.0,
    beams: Annotated[int | None, typer.Option(min=1, help="Beam search with this many beams.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="For --beams: larger values favour longer outputs (default: 1).")
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="Attend to the last N tokens only, so that the length is unlimited.")
    ] = None,
    draft: Annotated[Path | None, typer.Option(help="A smaller model with the same vocabulary, for speculative decoding.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Random seed of sampling.")] = 0,
    ids: Annotated[bool, typer.Option("--ids", help="The prompt is a list of token ids; no tokenizer is needed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Continue a text token by token, or generate the output of an encoder-decoder model."""
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
        raise InputError("--length-penalty is for beam search. Add --beams 4.")
    search = None if beams is None else Beams(beams, 1.0 if length_penalty is None else length_penalty)
    run(trained.path_of(folder), prompt, steps, sampling, search, window, draft, seed, ids, json)


@app.command(short_help="Train a recipe, or resume a run.")
def train(
    source: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe (.toml), or the folder of a run to resume.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the run (default: runs/RECIPE). An existing run is resumed.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Override a field: field=value, e.g. optimiser.rate=3e-4; may be repeated.")
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Use the small form of the recipe: about a minute, on sample data.")
    ] = False,
    devices: Annotated[
        int, typer.Option(min=1, help="Number of processes or GPUs on this machine (torchrun sets it otherwise).")
    ] = 1,
    live: Annotated[bool, typer.Option("--live", help="Serve a page that shows the run while it trains.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="First port to try for --live.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page of --live in a browser.")] = True,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard files into RUN/tensorboard.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the finished run as JSON.")] = False,
) -> None:
    """Train a recipe. A run that was stopped or killed resumes exactly where it was."""
    from equiscope.cli.train import train as run

    raise typer.Exit(run(source, out, change or [], small, devices, json, port if live else None, open_browser, tensorboard))


@app.command(short_help="Train many runs of a recipe and compare them, with a verdict on every pair.")
def compare(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="A recipe or a question (.toml); the folder of a comparison to resume; its comparison.json; or several runs.",
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=VALUE,VALUE, e.g. position=none,rope,alibi; may be repeated: every combination is a candidate."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Number of seeds, or a list: 3 (default), or 1,5,9. For a folder: seeds in all; new ones are unplanned."),
    ] = None,
    looks: Annotated[
        str | None,
        typer.Option(help="4,8: test the pairs at 4 seeds, and train on to 8 only if a pair is undecided (default: all seeds)."),
    ] = None,
    smallest_effect: Annotated[
        float | None,
        typer.Option(help="Smallest difference of the metric that matters; smaller ones are equivalent (default: none)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs and the report (default: comparisons/NAME).")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a field of all candidates: FIELD=VALUE, e.g. budget.steps=500; may be repeated."),
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="Use the small form of the recipe, on sample data.")] = False,
    equal: Annotated[
        str | None,
        typer.Option(help="Also match parameters (by the feed-forward width) or compute (by steps) across candidates."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of runs at a time on this machine (default: one per core; one with a GPU).")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of one run (default: cores divided by processes).")] = None,
    together: Annotated[
        bool | None,
        typer.Option("--together/--apart", help="Train all seeds of a candidate as one batched model (default: on a GPU only)."),
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Run on a Ray cluster.")] = False,
    jobs: Annotated[bool, typer.Option("--jobs", help="Only write a command for each run, and a Slurm script.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Train nothing: report the runs so far.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Train every candidate with every seed, and report which is best, with spread, length extrapolation, cost and symmetries, as a
    table and one offline page. A comparison that was stopped or killed resumes where it was."""
    from equiscope.cli.compare import compare as run
    from equiscope.errors import InputError, UnknownName

    if equal not in (None, "parameters", "compute"):
        raise UnknownName("thing to make equal", equal, ["parameters", "compute"])
    if ray and jobs:
        raise InputError("--ray runs the jobs, and --jobs only writes them. Give one of them.")
    way = "ray" if ray else "jobs" if jobs else ""
    raise typer.Exit(
        run(
            sources, vary or [], seeds, looks, smallest_effect, out, change or [], small, equal or "",  # type: ignore[arg-type]
            processes, threads, together, way, redraw, json,
        )
    )  # fmt: skip


@app.command(short_help="Look at data, and write a recipe for it.")
def new(
    names: Annotated[list[str], typer.Argument(metavar="DATA...", help="Files or a folder: one data set.")],
    start: Annotated[Path | None, typer.Option(help="A checkpoint to fine-tune, for texts with a class or a number.")] = None,
    out: Annotated[Path | None, typer.Option(help="The recipe (default: NAME.toml, here).")] = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the training may take on this machine.")] = 10,
    target: Annotated[str | None, typer.Option(metavar="NAME", help="The column of a table that is predicted.")] = None,
    metadata: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Columns of a table that are read with each text, picture or recording."),
    ] = "",
    explain: Annotated[bool, typer.Option("--explain", help="Print what was understood, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at data that nobody prepared, and write a complete recipe for it: split, model and budget. The last lines printed are
    the next commands."""
    from equiscope.cli.new import new as run

    run(names, start, out, minutes, explain, json, force, metadata, target)


@app.command(short_help="Evaluate a run on its data, or on new data, alone or beside a second run.")
def evaluate(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN [RUN] [DATA]...",
            help="The folder of a run, or a trained model: clothes; a second one, for a comparison on the same examples; and new "
            "labelled data in any form that a recipe takes: files, folders, archives, patterns in quotes.",
        ),
    ],
    part: Annotated[str | None, typer.Option(help="Only this split: validation, test, ...")] = None,
    last: Annotated[bool, typer.Option("--last", help="Use the last weights instead of the best on the validation split.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write every answer beside its target: .csv, .json or .jsonl.")] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the report as one offline page: intervals, confusions, the worst examples as they are."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate a run on the validation split of its data and on other splits of its recipe, or on new data. Intervals are of 95 %,
    over the examples."""
    from equiscope.cli.train import evaluate as run

    run(words, part, last, out, json, html)


@app.command(short_help="Predict with a run.")
def predict(
    folder: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or a trained model: clothes.")],
    inputs: Annotated[
        list[str],
        typer.Argument(help="Texts; files of images, sounds, points or molecules; - reads lines from standard input."),
    ],
    steps: Annotated[int | None, typer.Option(min=1, help="Maximum number of new tokens.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="For texts: 0 is greedy; larger values make the distribution more uniform.")
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="For translations: number of beams.")] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="For classes and labels: how many to print with their probabilities.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Random seed of sampling.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the predictions: .csv, .json, .jsonl, or .extxyz of molecules.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Continue texts, translate lines, answer with classes, labels or numbers, label words, or compute energies of molecules."""
    from equiscope.cli.train import predict as run

    options = {"steps": steps, "temperature": temperature, "beams": beams, "top": top, "seed": seed}
    run(trained.path_of(folder), inputs, {name: value for name, value in options.items() if value is not None}, json, out)


@app.command(short_help="List the data that recipes need, where to get it, and whether it is complete.")
def data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME | RECIPE.toml]", help="A data set of the list, or a recipe whose files are searched."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Verify every local file by its SHA-256 sum.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the data that recipes need: where to get it, its licence, whether it is here, and whether it is complete."""
    from equiscope.cli.data import run

    raise typer.Exit(run(name, check, json))
