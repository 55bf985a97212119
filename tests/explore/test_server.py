"""The server: one page, on this machine only, whatever is asked of it."""

import http.client
import threading

import pytest

from equiscope.errors import InputError
from equiscope.explore import server as room
from equiscope.explore.server import server

PAGE = "<p>Love conquers all \u2764</p>"


@pytest.fixture(scope="module")
def running():
    with server(PAGE, 18765) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(running, path="/", host=None, method="GET"):
    port = running.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


@pytest.mark.parametrize("path", ["/", "/?words=x#scheme=rope"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_page_is_there(running, path, name):
    answer, body = ask(running, path, f"{name}:{running.server_address[1]}")
    assert (answer.status, body) == (200, PAGE)
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Cache-Control") == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:18765", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_name_that_somebody_points_here_gets_nothing(running, host):
    answer, body = ask(running, host=host)
    assert answer.status == 403
    assert "Love" not in body


@pytest.mark.parametrize("path", ["/pyproject.toml", "/../../etc/passwd", "/%2e%2e/", "/index.html"])
def test_there_is_no_other_path(running, path):
    answer, body = ask(running, path)
    assert (answer.status, body) == (404, "There is one page here: /\n")


def test_a_head_has_no_body_and_other_methods_are_not_known(running):
    answer, body = ask(running, method="HEAD")
    assert (answer.status, body) == (200, "")
    assert int(answer.getheader("Content-Length")) == len(PAGE.encode())
    assert ask(running, method="POST")[0].status == 501


def test_it_listens_on_loopback_only(running):
    assert running.server_address[0] == "127.0.0.1"


def test_a_busy_port_moves_on_to_the_next(running):
    busy = running.server_address[1]
    with server(PAGE, busy) as other:
        assert busy < other.server_address[1] < busy + room.TRIES


def test_where_no_port_is_free_the_option_is_named(running, monkeypatch):
    monkeypatch.setattr(room, "TRIES", 1)
    port = running.server_address[1]
    with pytest.raises(InputError, match=f"No port from {port} to {port} is free. Choose another one with --port"):
        server(PAGE, port)
