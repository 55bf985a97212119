"""Serve a page on the loopback interface: nothing else is reachable, and no path of a request is ever opened.

One thread talks to all tabs and computes nothing. Responses are computed in lanes: a lane is a thread that computes one response
after another, and skips requests whose client has gone. All requests that run a model share a lane: one runs at a time.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from types import TracebackType
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from equiscope.errors import EquiscopeError, InputError

HOST = "127.0.0.1"
TRIES = 50

FIELDS, LONGEST = 8, 64_000  # fields and characters of a query: the order of 8192 tokens has 40,000
MOST = 400_000_000  # bytes of a response: a browser reads no text of more than 512 MB
CONNECTIONS = 200  # a tab has six at most
SLOW = 20.0  # seconds for a request to arrive, or for a part of a response to be read
FRAMES = "Content-Security-Policy"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    FRAMES: "frame-ancestors 'none'",  # what a page cannot set itself
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Answer = Callable[[dict[str, str]], bytes]  # from the query to JSON; raises InputError for an invalid query
Reply = tuple[int, str, bytes]  # status, kind, content


def server(
    page: str | Callable[[], str], port: int, answers: Mapping[str, Answer] | None = None, runs: Mapping[str, Answer] | None = None,
    *, frames: Mapping[str, Callable[[], str]] | None = None, ports: int = TRIES, largest: int = MOST, seconds: float = SLOW,
) -> "Server":  # fmt: skip
    """Serve the page on the first free port from `port` on, until it is closed. It responds when this returns.

    page     the page, or a function that makes it on request
    answers  handlers of the page's requests, by path: "/entries"
    runs     handlers that run a model: one at a time in all
    frames   pages that the page shows in frames, by path, each made on request: "/figures/masks.html"
    ports    that are tried
    largest  answer, in bytes
    seconds  within which a request arrives, or a part of an answer is taken
    raises   InputError where none of these ports is free
    """
    for candidate in range(port, min(port + ports, 65536)):
        listening = _listening(candidate)
        if listening is not None:
            return Server(listening, page, answers or {}, runs or {}, frames or {}, largest, seconds)
    raise InputError(f"No port from {port} to {port + ports - 1} is free. Choose another one with --port.")


def _listening(port: int) -> socket.socket | None:
    """A socket on the loopback interface; None where the port is not free."""
    listener = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # explicit, so that asyncio sends small parts at once
    if os.name == "posix":  # a port whose last server was killed; elsewhere that would share a busy one
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(CONNECTIONS)
    except OSError:
        listener.close()
        return None
    return listener


class Server(AbstractContextManager["Server"]):
    """A page that is served. Any thread may close it; closing waits for nothing, not even for a response in progress."""

    def __init__(
        self, listening: socket.socket, page: str | Callable[[], str], answers: Mapping[str, Answer], runs: Mapping[str, Answer],
        frames: Mapping[str, Callable[[], str]], largest: int = MOST, seconds: float = SLOW,
    ) -> None:  # fmt: skip
        self.port = int(listening.getsockname()[1])
        self.url = f"http://{HOST}:{self.port}/"
        self._lanes = {path: _Lane() for path in ["/", *answers, *frames]} | dict.fromkeys(runs, _Lane())
        makes: dict[str, Callable[[bytes], Reply]] = {"/": _page(page)} | {path: _page(frame) for path, frame in frames.items()}
        makes |= {path: partial(_answer, answer, largest) for path, answer in {**answers, **runs}.items()}
        config = uvicorn.Config(
            _app({path: (make, self._lanes[path]) for path, make in makes.items()}, self.port, set(frames)),
            loop="asyncio", http=_http(seconds), ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False,
            proxy_headers=False,
            server_header=False, limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=2 * LONGEST,
            timeout_graceful_shutdown=0,
        )  # fmt: skip
        self._answers, self._uvicorn = Event(), _Uvicorn(config)
        self._uvicorn.ready = self._answers.set
        self._thread = Thread(target=self._run, args=(listening,), name="equiscope page", daemon=True)
        self._thread.start()
        self._answers.wait()
        assert self._uvicorn.started

    @property
    def busy(self) -> bool:
        """Whether a response is being computed."""
        return any(lane.busy for lane in self._lanes.values())

    def wait(self) -> None:
        """Block until it is closed. Ctrl-C interrupts."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # without a timeout Windows would not handle Ctrl-C

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.end()
        self._uvicorn.should_exit = self._uvicorn.force_exit = True
        self._thread.join(5)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, listening: socket.socket) -> None:
        async def run() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # a closed tab is no error
            await self._uvicorn.serve(sockets=[listening])
            await asyncio.sleep(0)  # waiting requests get their response
            for connection in list(self._uvicorn.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

        try:
            asyncio.run(run())
        finally:
            self._answers.set()


class _Uvicorn(uvicorn.Server):
    ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()


class _Http(H11Protocol):
    """HTTP; a client that is slow to send its request or to read the response is disconnected."""

    seconds = SLOW
    _left = 0  # unread bytes at the last check
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._schedule_check()

    def on_response_complete(self) -> None:
        self._left = 0
        self._schedule_check()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _schedule_check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.seconds, self._check_progress)

    def _check_progress(self) -> None:
        left, before = self.transport.get_write_buffer_size(), self._left
        answering = self.cycle is not None and not self.cycle.response_complete
        stuck = left == before if left else not answering
        if stuck:
            self.transport.abort()
        else:
            self._left = left
            self._schedule_check()


def _http(seconds: float) -> type[_Http]:
    """The protocol with another patience: uvicorn makes its instances itself."""
    return type("_Http", (_Http,), {"seconds": seconds})


class _Lane:
    """A thread that computes one response after another; it starts with the first request."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[tuple[Future[Reply], Callable[[], Reply]] | None] = SimpleQueue()
        self._thread = Thread(target=self._serve, name="equiscope answers", daemon=True)
        self._ended, self.busy = False, False

    def submit(self, make: Callable[[], Reply]) -> Future[Reply]:
        """The future response. A request that is cancelled before it starts is never computed."""
        if self._thread.ident is None:
            self._thread.start()
        answer: Future[Reply] = Future()
        self._requests.put((answer, make))
        return answer

    def end(self) -> None:
        """Start no further response."""
        self._ended = True
        self._requests.put(None)

    def _serve(self) -> None:
        while (query := self._requests.get()) is not None and not self._ended:
            answer, make = query
            if answer.set_running_or_notify_cancel():
                self.busy = True
                try:
                    answer.set_result(make())
                except BaseException as error:  # any error, also one that cannot be formatted
                    answer.set_exception(error)
                self.busy = False
            del query, answer, make  # free memory while it waits


def _page(page: str | Callable[[], str]) -> Callable[[bytes], Reply]:
    if callable(page):
        return lambda query: _tried(lambda: (200, "text/html", page().encode()))
    content = page.encode()
    return lambda query: (200, "text/html", content)


def _answer(answer: Answer, largest: int, query: bytes) -> Reply:
    def made() -> Reply:
        content = answer(_fields(query))
        if len(content) > largest:
            size = f"{len(content) / 1e6:.0f} MB, and a browser reads {largest / 1e6:.0f} MB at most"
            return _refused(413, f"The response would have {size}. Request less, or give a shorter input.")
        return 200, "application/json", content

    return _tried(made)


def _tried(make: Callable[[], Reply]) -> Reply:
    """The response, or the reason for the failure: a user's model may raise anything."""
    try:
        return make()
    except EquiscopeError as error:
        return _refused(400, str(error))
    except BaseException as error:
        words = f"{type(error).__name__}: {error}".strip().split("\n")[0].removesuffix(".")[:300]
        full = isinstance(error, MemoryError) or "memory" in words.lower()
        what = "There is not enough memory for this" if full else "This could not be computed"
        return _refused(500, f"{what} ({words}). The page still works: request {'less' if full else 'something else'}.")


def _refused(status: int, sentence: str) -> Reply:
    return status, "text/plain", f"{sentence}\n".encode()


def _fields(query: bytes) -> dict[str, str]:
    try:
        values_by_name = parse_qs(query.decode("latin-1"), max_num_fields=FIELDS)
    except ValueError as error:
        raise InputError(f"A request has {FIELDS} fields at most.") from error
    return {name: values[-1] for name, values in values_by_name.items()}


# ------------------------------------------------------------------------------------------------------- requests and origins


def _app(makes: Mapping[str, tuple[Callable[[bytes], Reply], _Lane]], port: int, frames: set[str]) -> Starlette:
    def endpoint(path: str, make: Callable[[bytes], Reply], lane: _Lane) -> Callable[[Request], object]:
        headers = HEADERS | ({FRAMES: "frame-ancestors 'self'"} if path in frames else {})

        async def answered(request: Request) -> Response:
            return _response(await _while_wanted(request, lane.submit(partial(make, request.scope["query_string"]))), headers)

        return answered

    return Starlette(
        routes=[Route(path, endpoint(path, *makes[path]), methods=["GET"]) for path in makes],
        middleware=[Middleware(_Guard, paths=list(makes), port=port)],
    )


async def _while_wanted(request: Request, answer: Future[Reply]) -> Reply:
    """The response. Where the tab closes meanwhile, it is not started, or dropped."""
    reply: asyncio.Future[Reply] = asyncio.wrap_future(answer)
    gone: asyncio.Future[None] = asyncio.ensure_future(_gone(request))
    both: set[asyncio.Future[Reply] | asyncio.Future[None]] = {reply, gone}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return reply.result() if reply.done() else _refused(499, "The client closed the connection.")
    except asyncio.CancelledError:
        return _refused(503, "The command has ended.")
    finally:
        reply.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(reply: Reply, headers: Mapping[str, str] = HEADERS) -> Response:
    status, kind, content = reply
    return Response(content, status, headers, kind)


class _Guard:
    """Refuses requests that a page of this server never makes, before they are read."""

    def __init__(self, app: ASGIApp, paths: list[str], port: int) -> None:
        self.app, self.paths = app, paths
        self.names = [f"{HOST}:{port}", f"localhost:{port}"]
        self.origins = [f"http://{name}" for name in self.names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(Request(scope))
        if refusal is None:
            await self.app(scope, receive, send)
            return
        refused = _response(_refused(*refusal))
        refused.headers.update({"Allow": "GET, HEAD", "Connection": "close"})  # the rest of the request is not read
        await refused(scope, receive, send)

    def _refusal(self, request: Request) -> tuple[int, str] | None:
        headers, path, query = request.headers, request.scope["raw_path"].decode("latin-1"), request.scope["query_string"]
        if headers.get("host") not in self.names:  # another site may point its own name at this address
            return 403, "This page answers on this machine only."
        elsewhere = path != "/" and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")  # as a picture there
        if elsewhere or headers.get("origin", self.origins[0]) not in self.origins:
            return 403, "Another page may not request this."
        if request.method not in ("GET", "HEAD"):
            return 405, "Use GET."
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return 413, "A request here has no body."
        if path not in self.paths:
            return 404, "There is one page here: /"
        if len(query) > LONGEST:
            return 414, f"A query has {LONGEST:,} characters at most, but this one has {len(query):,}."
        return None
