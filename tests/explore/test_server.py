"""The server: one page, on this machine only, whatever is asked of it."""

import http.client
import socket
import threading
import time

import pytest

from equiscope.errors import InputError, ShapeError
from equiscope.explore import server as room
from equiscope.explore.server import server

PAGE = "<p>Love conquers all \u2764</p>"


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError


def fails(asked):
    if asked.get("how") == "unspeakable":
        raise Unspeakable
    raise {"memory": MemoryError, "shape": ShapeError, "exit": SystemExit}.get(asked.get("how"), RuntimeError)(
        "size 3 must match size 4.\n  File \"model.py\", line 7"
    )  # fmt: skip


@pytest.fixture(scope="module")
def running():
    answers = {"/said": lambda asked: repr(asked).encode(), "/fails": fails, "/long": lambda asked: bytes(int(asked["of"]))}
    with server(PAGE, 18765, answers, frames={"/figures/a.html": lambda: "<p>a figure"}) as made:
        yield made


def ask(running, path="/", host=None, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{running.port}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def say(running, words, patience=10.0):
    """What comes back to any bytes, until the server hangs up or has said something."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=patience) as line:
        line.sendall(words)
        try:
            return line.recv(1 << 16)
        except ConnectionResetError:
            return b""


# --- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/?words=x"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_page_is_there(running, path, name):
    answer, body = ask(running, path, f"{name}:{running.port}")
    assert (answer.status, body) == (200, PAGE)
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"


def test_a_page_in_a_frame_is_for_this_page_only(running):
    answer, body = ask(running, "/figures/a.html")
    assert (answer.status, body) == (200, "<p>a figure")
    assert answer.getheader("Content-Security-Policy") == "frame-ancestors 'self'"
    assert ask(running, "/figures/a.html", sec_fetch_site="same-origin")[0].status == 200
    assert ask(running, "/figures/a.html", sec_fetch_site="cross-site")[0].status == 403
    assert ask(running, "/figures/../a.html")[0].status == 404


@pytest.mark.parametrize("path", ["/", "/said", "/nothing", "/fails"])
def test_every_answer_says_who_may_read_it(running, path):
    answer, _ = ask(running, path)
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Content-Security-Policy") == "frame-ancestors 'none'"
    assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert answer.getheader("Cache-Control") == "no-store"
    assert answer.getheader("Server") is None


def test_a_page_that_cannot_be_made_says_why(running):
    def page():
        raise InputError("The run has gone.")

    with server(page, 18765) as made:
        answer, body = ask(made)
        assert (answer.status, body) == (400, "The run has gone.\n")


def test_a_head_has_no_body(running):
    answer, body = ask(running, method="HEAD")
    assert (answer.status, body) == (200, "")
    assert int(answer.getheader("Content-Length")) == len(PAGE.encode())


# --- who asks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:18765", "127.0.0.1", "127.0.0.1:1", "[::1]", "localhost.:18765"])
def test_a_name_that_somebody_points_here_gets_nothing(running, host):
    answer, body = ask(running, host=host)
    assert answer.status == 403
    assert "Love" not in body


def test_without_a_name_there_is_no_answer(running):
    answer, body = ask(running, host="")
    assert answer.status in (400, 403)
    assert "Love" not in body


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1:18765", ""])
def test_another_page_gets_no_answer(running, origin):
    assert ask(running, "/said?a=1", Origin=origin)[0].status == 403


def test_its_own_page_gets_one(running):
    own = {"Origin": f"http://localhost:{running.port}", "Sec_Fetch_Site": "same-origin"}
    assert ask(running, "/said?a=1", **own)[1] == "{'a': '1'}"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_picture_on_another_page_makes_no_model_run(running, site):
    assert ask(running, "/said?a=1", Sec_Fetch_Site=site)[0].status == 403
    assert ask(running, "/", Sec_Fetch_Site=site)[1] == PAGE  # a link may lead here


# --- what is asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/pyproject.toml", "/../../etc/passwd", "/%2e%2e/", "/index.html", "/s%61id", "/said/", "//said", "http://a.b/", "*"]
)
def test_there_is_no_other_path(running, path):
    answer, body = ask(running, path)
    assert (answer.status, body) == (404, "There is one page here: /\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(running, method):
    answer, body = ask(running, method=method)
    assert (answer.status, body, answer.getheader("Allow")) == (405, "Use GET.\n", "GET, HEAD")


@pytest.mark.parametrize("sent", [{"Content_Length": "9000000000"}, {"Transfer_Encoding": "chunked"}, {"Content_Length": "5"}])
def test_a_question_has_no_body(running, sent):
    answer, body = ask(running, "/said", **sent)
    assert (answer.status, body) == (413, "A request here has no body.\n")
    assert answer.getheader("Connection") == "close"


def test_of_a_field_that_is_said_twice_the_last_one_counts(running):
    assert ask(running, "/said?a=1&b=%C3%A9+&a=2&empty=")[1] == "{'a': '2', 'b': '\u00e9 '}"


def test_a_question_has_few_fields(running):
    answer, body = ask(running, "/said?" + "&".join(f"f{i}=1" for i in range(9)))
    assert (answer.status, body) == (400, "A request has 8 fields at most.\n")


def test_a_question_has_a_length(running):
    assert ask(running, "/said?a=" + "1" * (room.LONGEST - 2))[0].status == 200
    answer, body = ask(running, "/said?a=" + "1" * room.LONGEST)
    assert (answer.status, body) == (414, "A query has 64,000 characters at most, but this one has 64,002.\n")
    assert b" 400 " in say(running, b"GET /said?a=" + b"1" * 500_000)


def test_an_answer_has_a_size():
    with server(PAGE, 18765, {"/long": lambda asked: bytes(int(asked["of"]))}, largest=3_000_000) as small:
        assert len(ask(small, "/long?of=3000000")[1]) == 3_000_000
        answer, body = ask(small, "/long?of=5000000")
    assert (answer.status, body) == (
        413, "The response would have 5 MB, and a browser reads 3 MB at most. Request less, or give a shorter input.\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "what", "kind", "next_step"),
    [
        ("", "This could not be computed", "RuntimeError", "something else"),
        ("exit", "This could not be computed", "SystemExit", "something else"),
        ("memory", "There is not enough memory for this", "MemoryError", "less"),
    ],
)
def test_what_a_model_raises_is_a_sentence_and_the_server_goes_on(running, how, what, kind, next_step):
    for _ in range(3):
        answer, body = ask(running, f"/fails?how={how}")
        assert answer.status == 500
        assert body == f"{what} ({kind}: size 3 must match size 4). The page still works: request {next_step}.\n"
    assert ask(running)[1] == PAGE


def test_what_cannot_be_put_into_words_is_no_end(running, capfd):
    assert ask(running, "/fails?how=unspeakable")[0].status == 500
    assert ask(running, "/fails?how=memory")[0].status == 500
    assert capfd.readouterr() == ("", "")


def test_what_torch_says_of_memory_is_understood(running, monkeypatch):
    def full(asked):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: 4 bytes")

    with server(PAGE, 18765, runs={"/rerun": full}) as made:
        assert "There is not enough memory for this (RuntimeError: [enforce fail" in ask(made, "/rerun")[1]


def test_a_mistake_is_said_in_its_own_words(running):
    answer, body = ask(running, "/fails?how=shape")
    assert (answer.status, body.split("\n")[0]) == (400, "size 3 must match size 4.")


# --- who asks badly ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        b"\x00\xff\xfe\x00" * 500 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",  # somebody speaks TLS
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:18765\r\nContent-Length: -5\r\n\r\n",
        b"GET /\xe2\x9d\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"A" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
    ],
    ids=["bytes", "TLS", "no path", "version", "two hosts", "negative", "letters", "HTTP/2", "endless", "headers"],
)
def test_what_is_no_question_is_refused(running, words, capfd):
    assert say(running, words)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403", b"")
    assert ask(running)[1] == PAGE
    assert capfd.readouterr() == ("", "")


def test_a_tab_that_goes_away_leaves_no_word(running, capfd):
    question = f"GET /long?of=30000000 HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n".encode()
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", running.port)) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # it hangs up without a goodbye
            line.sendall(question)
            line.recv(10)
    assert ask(running)[1] == PAGE
    assert capfd.readouterr() == ("", "")


def test_who_is_slow_to_ask_or_to_listen_is_not_waited_for():
    with server(PAGE, 18765, {"/long": lambda asked: bytes(50_000_000)}, seconds=0.2) as made:
        ends = []
        for begin in (b"", b"GET / HT", f"GET /long HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n\r\n".encode()):
            line = socket.create_connection(("127.0.0.1", made.port), timeout=20)
            line.sendall(begin)
            ends.append(line)
        trickling = threading.Event()

        def trickle():
            for letter in b"GET / HTTP/1.1\r\nX: ":
                if trickling.wait(0.05):
                    return
                try:
                    ends[1].send(bytes([letter]))
                except OSError:
                    return

        threading.Thread(target=trickle, daemon=True).start()
        time.sleep(2)
        for line, most in zip(ends, (0, 0, 49_999_999), strict=True):
            assert heard(line) <= most
        trickling.set()
        assert ask(made)[1] == PAGE


def test_more_lines_than_tabs_have_are_refused_and_cut_off(capfd):
    with server(PAGE, 18765, seconds=0.5) as made:
        idle = [socket.create_connection(("127.0.0.1", made.port), timeout=20) for _ in range(room.CONNECTIONS)]
        assert ask(made)[0].status in (200, 503)  # 200 where the first were cut off already
        assert [heard(line) for line in idle] == [0] * room.CONNECTIONS
        assert ask(made)[1] == PAGE
    assert capfd.readouterr() == ("", "")


def test_who_asks_on_without_listening_is_cut_off():
    with server(PAGE, 18765, {"/long": lambda asked: bytes(20_000_000)}, seconds=0.3) as made:
        question = f"GET /long HTTP/1.1\r\nHost: 127.0.0.1:{made.port}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", made.port), timeout=20) as line:
            line.sendall(question * 3)
            end = time.monotonic() + 20
            while made._uvicorn.server_state.connections or not made._lanes["/long"]._thread.ident:
                assert time.monotonic() < end
                time.sleep(0.01)


def test_a_socket_that_stays_open_is_not_offered(running, capfd):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "eA=="}
    assert ask(running, **upgrade)[1] == PAGE
    assert capfd.readouterr() == ("", "")


def heard(line):
    """How many bytes come until the other side hangs up."""
    count = 0
    try:
        while found := line.recv(1 << 20):
            count += len(found)
    except ConnectionResetError:
        pass
    line.close()
    return count


def test_a_thousand_questions_on_one_line_and_two_hundred_lines(running):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    for i in range(1000):
        connection.request("GET", f"/said?a={i}")
        assert connection.getresponse().read() == b"{'a': '%s'}" % str(i).encode()
    connection.close()
    assert {ask(running)[1] for _ in range(200)} == {PAGE}


def test_questions_that_are_not_waited_for_come_back_in_their_order(running):
    host = f"Host: 127.0.0.1:{running.port}\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as line:
        line.sendall("".join(f"GET /said?a={i} HTTP/1.1\r\n{host}\r\n" for i in range(20)).encode())
        text = b""
        while b"'19'" not in text:
            text += line.recv(1 << 16)
    assert [text.index(b"'%d'" % i) for i in range(20)] == sorted(text.index(b"'%d'" % i) for i in range(20))


# --- where it listens --------------------------------------------------------------------------------------------------


def test_it_listens_on_loopback_only(running):
    assert running.url == f"http://127.0.0.1:{running.port}/"
    with socket.socket() as elsewhere:  # another address of this machine is still free
        elsewhere.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        elsewhere.bind(("127.0.0.2", running.port))


def test_a_busy_port_moves_on_to_the_next(running):
    with server(PAGE, running.port) as other:
        assert running.port < other.port < running.port + room.TRIES


def test_where_no_port_is_free_the_option_is_named(running):
    wanted = f"No port from {running.port} to {running.port} is free. Choose another one with --port"
    with pytest.raises(InputError, match=wanted):
        server(PAGE, running.port, ports=1)


def test_a_port_is_free_again_at_once():
    with server(PAGE, 19665) as made:  # a port that no other test asks for
        port = made.port
        ask(made)
    with server(PAGE, port) as other:
        assert other.port == port
