"""Serve one page on loopback: nothing else is reachable, from nowhere else, and no path of a request is ever opened.

One thread speaks with all tabs and computes nothing. Answers are made in lanes: a lane is a thread that makes one after the other,
and does not begin what nobody waits for any more. Whatever runs a model shares one lane, so that it runs once at a time.
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

FIELDS, LONGEST = 8, 64_000  # of a question, and letters in it: the order of 8192 tokens has 40,000
MOST = 400_000_000  # bytes of an answer: a browser reads no text of more than 512 MB
CONNECTIONS = 200  # a tab has six at most
SLOW = 20.0  # seconds within which a question is said, or a part of an answer is taken
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",  # what a page cannot say of itself
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Answer = Callable[[dict[str, str]], bytes]  # of what stands behind the "?", to JSON; raises InputError where it is no question
Said = tuple[int, str, bytes]  # status, kind, content


def server(
    page: str | Callable[[], str], port: int, answers: Mapping[str, Answer] | None = None, runs: Mapping[str, Answer] | None = None,
    *, ports: int = TRIES, largest: int = MOST, seconds: float = SLOW,
) -> "Server":  # fmt: skip
    """The page is served on the first free port from `port` on, until it is closed. It answers when this returns.

    page     the page, or what makes it when it is asked for
    answers  to questions of the page, by their path: "/entries"
    runs     answers that run a model: of them all one at a time
    ports    that are tried
    largest  answer, in bytes
    seconds  within which a request arrives, or a part of an answer is taken
    raises   InputError where none of these ports is free
    """
    for candidate in range(port, min(port + ports, 65536)):
        listening = _listening(candidate)
        if listening is not None:
            return Server(listening, page, answers or {}, runs or {}, largest, seconds)
    raise InputError(f"No port from {port} to {port + ports - 1} is free. Choose another one with --port.")


def _listening(port: int) -> socket.socket | None:
    """A socket on loopback; nothing where the port is not free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said, so that asyncio sends small parts at once
    if os.name == "posix":  # a port whose last server was killed; elsewhere that would share a busy one
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(CONNECTIONS)
    except OSError:
        made.close()
        return None
    return made


class Server(AbstractContextManager["Server"]):
    """A page that is served. Any thread may close it; nothing is waited for then, not even an answer that is being made."""

    def __init__(
        self, listening: socket.socket, page: str | Callable[[], str], answers: Mapping[str, Answer], runs: Mapping[str, Answer],
        largest: int = MOST, seconds: float = SLOW,
    ) -> None:  # fmt: skip
        self.port = int(listening.getsockname()[1])
        self.url = f"http://{HOST}:{self.port}/"
        self._lanes = {path: _Lane() for path in ["/", *answers]} | dict.fromkeys(runs, _Lane())
        makes: dict[str, Callable[[bytes], Said]] = {"/": _page(page)}
        makes |= {path: partial(_answer, answer, largest) for path, answer in {**answers, **runs}.items()}
        config = uvicorn.Config(
            _app({path: (make, self._lanes[path]) for path, make in makes.items()}, self.port), loop="asyncio", http=_http(seconds),
            ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False, proxy_headers=False,
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
        """Whether an answer is being made."""
        return any(lane.busy for lane in self._lanes.values())

    def wait(self) -> None:
        """Until it is closed. Ctrl-C goes through."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # without a limit Windows would not hear of Ctrl-C

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.end()
        self._uvicorn.should_exit = self._uvicorn.force_exit = True
        self._thread.join(5)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, listening: socket.socket) -> None:
        async def run() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # a tab that was closed is no fault
            await self._uvicorn.serve(sockets=[listening])
            await asyncio.sleep(0)  # whoever waits is told that it has ended
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
    """HTTP; who is slow to say what is asked, or to take what is answered, is not waited for."""

    seconds = SLOW
    _left = 0  # bytes that were not taken at the last look
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_later()

    def on_response_complete(self) -> None:
        self._left = 0
        self._look_later()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.seconds, self._look)

    def _look(self) -> None:
        left, before = self.transport.get_write_buffer_size(), self._left
        answering = self.cycle is not None and not self.cycle.response_complete
        stuck = left == before if left else not answering
        if stuck:
            self.transport.abort()
        else:
            self._left = left
            self._look_later()


def _http(seconds: float) -> type[_Http]:
    """The protocol with another patience: uvicorn makes its instances itself."""
    return type("_Http", (_Http,), {"seconds": seconds})


class _Lane:
    """A thread that makes one answer after the other, from the first one that it is asked for on."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Future[Said], Callable[[], Said]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="equiscope answers", daemon=True)
        self._ended, self.busy = False, False

    def ask(self, make: Callable[[], Said]) -> Future[Said]:
        """What comes of it. Who cancels that before it is begun is never answered."""
        if self._thread.ident is None:
            self._thread.start()
        answer: Future[Said] = Future()
        self._asked.put((answer, make))
        return answer

    def end(self) -> None:
        """Begin nothing more."""
        self._ended = True
        self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None and not self._ended:
            answer, make = asked
            if answer.set_running_or_notify_cancel():
                self.busy = True
                try:
                    answer.set_result(make())
                except BaseException as error:  # one that cannot even be put into words
                    answer.set_exception(error)
                self.busy = False
            del asked, answer, make  # nothing is kept while it waits


def _page(page: str | Callable[[], str]) -> Callable[[bytes], Said]:
    if callable(page):
        return lambda asked: _tried(lambda: (200, "text/html", page().encode()))
    content = page.encode()
    return lambda asked: (200, "text/html", content)


def _answer(answer: Answer, largest: int, asked: bytes) -> Said:
    def made() -> Said:
        content = answer(_fields(asked))
        if len(content) > largest:
            size = f"{len(content) / 1e6:.0f} MB, and a browser reads {largest / 1e6:.0f} MB at most"
            return _refused(413, f"The answer would have {size}. Ask for less, or give a shorter input.")
        return 200, "application/json", content

    return _tried(made)


def _tried(make: Callable[[], Said]) -> Said:
    """What it makes, or why it could not: a model of somebody's own may raise anything."""
    try:
        return make()
    except EquiscopeError as error:
        return _refused(400, str(error))
    except BaseException as error:
        words = f"{type(error).__name__}: {error}".strip().split("\n")[0].removesuffix(".")[:300]
        full = isinstance(error, MemoryError) or "memory" in words.lower()
        what = "There is not enough memory for this" if full else "This could not be computed"
        return _refused(500, f"{what} ({words}). The page goes on: ask for {'less' if full else 'something else'}.")


def _refused(status: int, sentence: str) -> Said:
    return status, "text/plain", f"{sentence}\n".encode()


def _fields(query: bytes) -> dict[str, str]:
    try:
        found = parse_qs(query.decode("latin-1"), max_num_fields=FIELDS)
    except ValueError as error:
        raise InputError(f"A question has {FIELDS} fields at most.") from error
    return {name: values[-1] for name, values in found.items()}


# ---------------------------------------------------------------------------------------------------- what is asked, and by whom


def _app(makes: Mapping[str, tuple[Callable[[bytes], Said], _Lane]], port: int) -> Starlette:
    def endpoint(make: Callable[[bytes], Said], lane: _Lane) -> Callable[[Request], object]:
        async def answered(request: Request) -> Response:
            return _response(await _while_wanted(request, lane.ask(partial(make, request.scope["query_string"]))))

        return answered

    return Starlette(
        routes=[Route(path, endpoint(*makes[path]), methods=["GET"]) for path in makes],
        middleware=[Middleware(_Guard, paths=list(makes), port=port)],
    )


async def _while_wanted(request: Request, answer: Future[Said]) -> Said:
    """The answer. Where the tab goes away meanwhile, it is not begun, or dropped."""
    made: asyncio.Future[Said] = asyncio.wrap_future(answer)
    gone: asyncio.Future[None] = asyncio.ensure_future(_gone(request))
    both: set[asyncio.Future[Said] | asyncio.Future[None]] = {made, gone}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return made.result() if made.done() else _refused(499, "Nobody waits for this any more.")
    except asyncio.CancelledError:
        return _refused(503, "The command has ended.")
    finally:
        made.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(said: Said) -> Response:
    status, kind, content = said
    return Response(content, status, HEADERS, kind)


class _Guard:
    """Refuses what a page of this server would never ask, before anybody reads it."""

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
        refused.headers.update({"Allow": "GET, HEAD", "Connection": "close"})  # what else was sent is not read
        await refused(scope, receive, send)

    def _refusal(self, request: Request) -> tuple[int, str] | None:
        headers, path, query = request.headers, request.scope["raw_path"].decode("latin-1"), request.scope["query_string"]
        if headers.get("host") not in self.names:  # a page elsewhere may point a name of its own at this address
            return 403, "This page answers on this machine only."
        elsewhere = path != "/" and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")  # as a picture there
        if elsewhere or headers.get("origin", self.origins[0]) not in self.origins:
            return 403, "Another page may not ask here."
        if request.method not in ("GET", "HEAD"):
            return 405, "Ask by GET."
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return 413, "A question here has no body."
        if path not in self.paths:
            return 404, "There is one page here: /"
        if len(query) > LONGEST:
            return 414, f"A question has {LONGEST:,} letters at most, but this one has {len(query):,}."
        return None
