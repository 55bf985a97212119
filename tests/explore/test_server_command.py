"""The command that serves ends on request, and costs nobody who serves nothing."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from tests.cli.test_cli import equi

from equiscope.cli import heads

__all__ = ["equi"]  # the fixture
SERVES = """
import sys, time
from equiscope.cli.explore import serve
def slow(asked):
    print("begun", flush=True)
    {slow}
serve("<p>page</p>", 18965, False, {{}}, {{"/rerun": slow}})
print("after", flush=True)
"""
BUSY = "import torch\n    x = torch.zeros(3000, 3000)\n    while True: x = x @ x"


def test_what_serves_nothing_loads_no_server():
    code = (
        "import sys, equiscope, equiscope.cli.app, equiscope.cli.explore, equiscope.cli.check, equiscope.cli.heads;"
        "print(*sorted({'starlette', 'uvicorn', 'h11', 'anyio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


FACTORY = """
import torch
from torch import nn
def made():
    layer = nn.TransformerEncoderLayer(512, 4, 512, batch_first=True)
    layer.self_attn.out_proj.weight = layer.linear1.weight
    return layer, torch.ones(1, 250, 512)
"""


def test_what_is_kept_in_memory_is_said(equi, tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(heads, "serve", lambda page, port, browser, answers, runs, frames: asked.update(answers=answers, runs=runs))
    (tmp_path / "two.py").write_text(FACTORY, encoding="utf-8")
    code, out, err = equi("explore", "--model", f"{tmp_path / 'two.py'}:made")
    assert (code, err) == (0, "")
    parameters = 5 * 512 * 512 + 10 * 512  # queries, keys, values, the feed-forward's two, of which one is also behind the heads
    held = 4 * 250 * 512  # queries, keys, values, and what they give
    assert (f"{4 * parameters / 1e6:.1f}", f"{4 * held / 1e6:.1f}") == ("5.3", "2.0")
    assert out.startswith("In memory: 5.3 MB of parameters, 2.0 MB of queries, keys and values; each of the last 4 runs ")
    assert (list(asked["answers"]), list(asked["runs"])) == (["/head"], ["/rerun", "/effect", "/rank"])


def heard():
    """Ctrl-C is heard even where these tests run in the background of a shell, which hands on that it is not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def serving():
    """serving(slow) -> a process that serves, and the line on which its model runs."""
    begun = []

    def begin(slow):
        process = subprocess.Popen(
            [sys.executable, "-c", SERVES.format(slow=slow)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"}, preexec_fn=heard if os.name == "posix" else None,
        )  # fmt: skip
        begun.append(process)
        said = process.stdout.readline()
        assert said.startswith("equiscope shows the page at http://127.0.0.1:"), process.stderr.read()
        port = int(said.split(":")[2].split("/")[0])
        line = socket.create_connection(("127.0.0.1", port), timeout=20)
        line.sendall(f"GET /rerun HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert process.stdout.readline() == "begun\n"
        return process, line

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="signals of a process")
@pytest.mark.parametrize("slow", ["time.sleep(600)", BUSY], ids=["sleeps", "computes"])
def test_ctrl_c_ends_it_while_the_model_runs(serving, slow):
    process, _ = serving(slow)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "\nThe page has ended.\n", "")


@pytest.mark.skipif(os.name != "posix", reason="signals of a process")
def test_an_impatient_person_sees_no_traceback(serving):
    process, _ = serving("time.sleep(0.2); return b''")
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("\nThe page has ended.\n")


@pytest.mark.skipif(os.name != "posix", reason="signals of a process")
def test_it_can_be_told_to_end(serving):
    process, _ = serving("time.sleep(600)")
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (-signal.SIGTERM, "", "")
