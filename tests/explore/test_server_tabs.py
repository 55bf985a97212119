"""Many tabs ask one server: each gets its own answer, a model runs once at a time, and for nobody it does not begin."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.explore.test_server import PAGE, ask

from equiscope.explore.server import server

PATIENCE = 20.0  # seconds that a test waits for what must come
ALONE = 19565  # a port that no other test asks for, so that nobody listens there afterwards


class Model:
    """Runs when it is let, and writes down what it was asked."""

    def __init__(self):
        self.began, self.ended, self.at_once, self.most = [], [], 0, 0
        self.go, self.lock = threading.Event(), threading.Lock()

    def run(self, asked):
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.began.append(asked["offset"])
        assert self.go.wait(PATIENCE)
        with self.lock:
            self.at_once -= 1
            self.ended.append(asked["offset"])
        return json.dumps(asked["offset"]).encode()


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def running(model):
    with server(PAGE, 18865, {"/head": lambda asked: b"head"}, {"/rerun": model.run, "/step": model.run}) as made:
        yield made
        model.go.set()


def until(holds):
    """Waits for what another thread does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def asking(running, path):
    line = socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE)
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n".encode())
    return line


def test_each_tab_gets_its_own_answer_and_the_model_runs_once_at_a_time(running, model):
    model.go.set()
    with ThreadPoolExecutor(8) as tabs:
        paths = [f"/{'rerun' if i % 2 else 'step'}?offset={i}" for i in range(40)]
        found = list(tabs.map(lambda path: ask(running, path)[1], paths))
    assert found == [f'"{i}"' for i in range(40)]
    assert (model.most, len(model.ended)) == (1, 40)


def test_while_the_model_runs_the_page_and_its_small_answers_come(running, model):
    with asking(running, "/rerun?offset=1"):
        until(lambda: model.began == ["1"])
        assert ask(running)[1] == PAGE
        assert ask(running, "/head?layer=0")[1] == "head"
        assert model.ended == []
        assert running.busy


def test_a_question_that_was_taken_back_is_not_begun(running, model):
    first = asking(running, "/rerun?offset=1")
    until(lambda: model.began == ["1"])
    dragged = [asking(running, f"/rerun?offset={i}") for i in range(2, 30)]  # a slider
    last = asking(running, "/rerun?offset=30")
    until(lambda: len(running._uvicorn.server_state.connections) == 30)
    for line in dragged:
        line.close()
    until(lambda: len(running._uvicorn.server_state.connections) == 2)  # by now it has heard that they are gone
    assert ask(running, "/head")[1] == "head"
    model.go.set()
    with first, last:
        assert body(last) == b'"30"'
        assert body(first) == b'"1"'
    assert model.began == ["1", "30"]


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(running, model, capfd):
    left = asking(running, "/rerun?offset=1")
    until(lambda: model.began == ["1"])
    left.close()
    model.go.set()
    assert ask(running, "/rerun?offset=2")[1] == '"2"'
    assert capfd.readouterr() == ("", "")


def test_it_closes_at_once_while_a_tab_waits_and_while_the_model_runs(model, capfd):
    with server(PAGE, ALONE, runs={"/rerun": model.run}) as made:
        computed, waits = asking(made, "/rerun?offset=1"), asking(made, "/rerun?offset=2")
        idle = socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE)
        until(lambda: model.began == ["1"])
        until(lambda: len(made._uvicorn.server_state.connections) == 3)  # by now it has heard of all of them
        assert ask(made)[1] == PAGE
    assert made.busy
    for line in (computed, waits):
        assert heard(line).endswith(b"The command has ended.\n")
    assert heard(idle) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", made.port), timeout=1)
    model.go.set()
    until(lambda: not made.busy)
    time.sleep(0.05)
    assert model.began == ["1"], "what was waiting is not begun"
    assert capfd.readouterr() == ("", "")
    made.close()  # twice is once


def body(line):
    """What an answer says, which may come in pieces."""
    text = b""
    while b"\r\n\r\n" not in text or len(text.partition(b"\r\n\r\n")[2]) < int(text.partition(b"content-length: ")[2].split()[0]):
        more = line.recv(1 << 16)
        assert more, text
        text += more
    return text.partition(b"\r\n\r\n")[2]


def heard(line):
    """All that comes until the other side hangs up."""
    text = b""
    try:
        while more := line.recv(1 << 16):
            text += more
    except ConnectionResetError:
        pass
    line.close()
    return text


def test_no_thread_is_left_behind(model):
    model.go.set()
    before = threading.active_count()
    for _ in range(5):
        with server(PAGE, 18865, {"/head": lambda asked: b"head"}, {"/rerun": model.run}) as made:
            ask(made, "/head")
            ask(made, "/rerun?offset=1")
    until(lambda: threading.active_count() <= before)


def test_what_a_failed_run_held_is_let_go(model):
    import gc
    import weakref

    held = []

    class Large:
        pass

    def run(asked):
        large = Large()
        held.append(weakref.ref(large))
        raise RuntimeError("out of memory")

    with server(PAGE, 18865, runs={"/rerun": run}) as made:
        assert "not enough memory" in ask(made, "/rerun")[1]
        gc.collect()
        until(lambda: held[0]() is None)
