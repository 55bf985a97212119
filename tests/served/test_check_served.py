"""`equiscope check http://...`: its records and files, what it refuses, and what it never does."""

import json
import math
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse
from starlette.routing import Route
from torch import nn

import equiscope as eq
from equiscope.audit.served.answers import Answer, TokenLogprobs, difference, read
from equiscope.audit.served.checking import _Judge, check_served
from equiscope.audit.served.connection import Connection, Dropped
from equiscope.audit.served.noise import Noise
from equiscope.audit.served.session import Findings
from equiscope.audit.served.statements import SERVED
from equiscope.cli import main
from equiscope.errors import InputError, UnknownName
from tests.served.server import served, tiny


def said(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["equiscope", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


# --------------------------------------------------------------------------------------------------------------- what it gives


def test_the_command_writes_every_file_and_exits_with_one(monkeypatch, capsys, tmp_path):
    files = {option: str(tmp_path / option) for option in ("html", "junit", "save", "reproduce")}
    with tiny("padding-attended") as (url, api):
        code, out, err = said(
            monkeypatch, capsys, "check", url, "--effort=quick", *[f"--{option}={file}" for option, file in files.items()]
        )
        again = subprocess.run([sys.executable, files["reproduce"]], capture_output=True, text=True, timeout=60)
    assert code == 1
    assert "✗  batch" in out
    assert "in a batch of 2" in out
    assert err.startswith(f"At most 150 requests go to {url}, without a key, and nowhere else.")
    audit = json.loads((tmp_path / "save").read_text())
    assert audit["served"]["requests"] <= api.requests <= 150
    assert "in a batch of 2" in (tmp_path / "junit").read_text()
    assert url in (tmp_path / "html").read_text()
    assert again.returncode == 0, again.stderr
    assert "batch: the prompt" in again.stdout
    assert again.stdout.count("\n    then ") == again.stdout.count("\n    now ") > 1


def test_python_gives_the_same_audit():
    with tiny() as (url, _):
        audit = eq.check(url, model="tiny", properties=["limit", "stop"], effort="quick")
    assert [(row.name, row.verdict) for row in audit] == [("limit", "holds"), ("stop", "holds")]
    assert audit.served.api == "completions"


def test_a_single_name_of_a_property_is_taken():
    with tiny() as (url, _):
        assert [row.name for row in eq.check(url, properties="limit", effort="quick")] == ["limit"]


def test_rows_beyond_the_budget_are_undecided_and_it_is_never_exceeded():
    with tiny() as (url, api):
        audit, _ = check_served(url, requests=40)
    assert api.requests <= 40
    assert audit["temperature"].verdict == "undecided"
    assert "budget" in audit["temperature"].note
    assert audit["probabilities"].verdict == "holds"
    assert not audit.finished


def test_the_list_has_every_row(monkeypatch, capsys):
    code, out, _ = said(monkeypatch, capsys, "check", "--list")
    assert code == 0
    assert all(f"  {statement.name}" in out for statement in SERVED)


# ------------------------------------------------------------------------------------------------------------- what it refuses


def completion(**choice):
    return {"choices": [{"index": 0, "text": " a", "finish_reason": "length", **choice}], "usage": {}}


async def slow(_):
    import asyncio

    await asyncio.sleep(3)
    return JSONResponse({})


BAD = {
    "401": (lambda _: JSONResponse({"error": "no"}, 401), "asks for a key (401). Put the key into the environment variable"),
    "404": (lambda _: PlainTextResponse("no", 404), "does not exist (404)"),
    "500": (lambda _: JSONResponse({"error": {"message": "CUDA is out of memory"}}, 500), "answered 500: CUDA is out of memory"),
    "html": (lambda _: HTMLResponse("<html>"), "answered with HTML, not with JSON"),
    "text": (lambda _: PlainTextResponse("hello"), "answered with something else, not with JSON"),
    "list": (lambda _: JSONResponse([1]), "returned no list of choices"),
    "no choices": (lambda _: JSONResponse({"choices": []}), "returned 0 choices"),
    "no logprobs": (lambda _: JSONResponse(completion()), "returns no logprobs"),
    "refuses logprobs": (lambda _: JSONResponse({"detail": "Unsupported fields: {'logprobs'}"}, 422), "returns no logprobs (422"),
    "redirect": (lambda _: RedirectResponse("http://example.com/v1", 307), "redirects to 'http://example.com/v1' (307)"),
    "slow": (slow, "gave no complete answer within 0.5 s"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_server_that_cannot_be_asked_gets_one_sentence(kind, monkeypatch, capsys):
    answer, sentence = BAD[kind]
    routes = [Route(f"/v1/{path}", answer, methods=["POST"]) for path in ("completions", "chat/completions")]
    with served(Starlette(routes=routes)) as url:
        start = time.monotonic()
        code, out, err = said(monkeypatch, capsys, "check", url, "--model=m", "--timeout=0.5")
        assert time.monotonic() - start < 60
    assert (code, out) == (2, "")
    _, line = err.splitlines()
    assert line.startswith("equiscope: ")
    assert sentence in line


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["http://127.0.0.1:9/v1"], "Nobody answers at http://127.0.0.1:9/v1 (Connection refused)"),
        (["http:///v1"], "is no address of an endpoint"),
        (["http://a:99999/v1"], "is no address of an endpoint"),
        (["http://me:secret@127.0.0.1:9/v1"], "holds a user name or a password"),
        (["http://127.0.0.1:9/v1", "--key=NO_SUCH"], "The environment variable NO_SUCH is empty or not set"),
        (["http://127.0.0.1:9/v1", "--property=batches"], "no property of a served model called 'batches'. Did you mean batch?"),
        (["http://127.0.0.1:9/v1", "--action=shift"], "--action does not apply to a served model"),
        (["gpt2", "--requests=20"], "--requests is for a served model"),
    ],
)
def test_a_wrong_command_gets_one_sentence(arguments, sentence, monkeypatch, capsys):
    code, _, err = said(monkeypatch, capsys, "check", *arguments)
    assert code == 2
    assert sentence in err.splitlines()[-1]
    assert "secret" not in err


def test_python_refuses_what_a_server_cannot_take():
    with pytest.raises(InputError, match="inputs cannot be given"):
        eq.check("http://127.0.0.1:9/v1", [1, 2])
    with pytest.raises(InputError, match="are for the address of a server"):
        eq.check(nn.Identity(), model="tiny")


def test_of_several_models_one_must_be_named():
    names = {"data": [{"id": "one"}, {"id": "two"}]}
    with served(Starlette(routes=[Route("/v1/models", lambda _: JSONResponse(names))])) as url, pytest.raises(UnknownName) as error:
        check_served(url)
    assert error.value.known == ["one", "two"]


# ---------------------------------------------------------------------------------------------------------- what it never does


def test_the_key_is_sent_and_is_nowhere_else(tmp_path):
    seen = []
    with tiny("stop-early") as (url, api):
        app = api.app()

        async def guarded(scope, receive, send):
            seen.append(dict(scope["headers"]).get(b"authorization"))
            await app(scope, receive, send)

        with served(guarded) as second:
            audit, script = check_served(second, key="MINE", environment={"MINE": "sk-123"}, effort="quick")
    assert set(seen) == {b"Bearer sk-123"}
    assert audit.failed
    assert "sk-123" not in script + str(audit) + url


def test_proxies_of_the_environment_are_used_only_if_asked(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with tiny() as (url, _):
        audit, _ = check_served(url, properties=["limit"], effort="quick")
        assert audit["limit"].holds
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(InputError, match="Nobody answers"):
            check_served(url, properties=["limit"], effort="quick", proxy=True)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"])
def test_a_closed_connection_is_no_missing_server(answer: bytes):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answers() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=answers)
        thread.start()
        with pytest.raises(Dropped, match="closed the connection before its answer was complete"):
            Connection(f"http://127.0.0.1:{server.getsockname()[1]}/v1", timeout=5).get("/models")
        thread.join()


def test_answers_of_a_list_are_ordered_by_their_index_and_infinities_are_equal():
    choices: list[dict[str, Any]] = [
        {"index": i, "text": str(i), "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-math.inf, math.nan]}} for i in range(12)
    ]
    answers = read({"choices": choices[::-1]}, chat=False, echo=False, count=12, number=0)
    assert [answer.text for answer in answers] == [str(i) for i in range(12)]
    assert [step.logprob for step in answers[0].steps] == [-math.inf, None]
    assert difference("", answers[0], answers[1]).most == 0


def test_answers_without_logprobs_are_no_sample():
    findings, one = Findings(), Answer("a", (TokenLogprobs("a", -1.0, {}),))
    findings.compare("", one, Answer("a", ()))
    findings.compare("", one, one)
    assert (findings.samples, len(findings.differences)) == (1, 1)


def _first_step(**top: float) -> Answer:
    return Answer("", (TokenLogprobs(max(top, key=lambda token: top[token]), max(top.values()), dict(top)),))


def test_answers_that_share_no_token_are_compared_by_what_each_leaves_out():
    far = difference("", _first_step(a=-0.1, b=-3.0), _first_step(c=-0.2, d=-4.0))
    assert far.most == pytest.approx(3.9)
    assert far.worst is not None
    assert (far.worst.token, far.worst.b, far.worst.bound) == ("a", -4.0, True)
    findings = Findings()
    findings.add(difference("", _first_step(a=-5.0, b=-5.01), _first_step(c=-5.0, d=-5.01)))
    assert findings.differences[0].most == pytest.approx(0.01)  # almost uniform: other tokens may lead


def test_a_logprob_that_is_infinite_in_one_answer_is_the_cause():
    pair = difference("beside others", _first_step(a=-1.0, b=-math.inf), _first_step(a=-1.0, b=-2.0))
    assert pair.most == math.inf
    findings = Findings()
    findings.add(pair)
    row = _Judge(Noise(1e-6, 1e-7, 1.0), 1e-2, False, {}).row(SERVED[-1], findings)
    assert row.verdict == "broken"
    assert "the logprob of 'b' (token 1) is -inf in one answer and -2 in the other" in row.cause
