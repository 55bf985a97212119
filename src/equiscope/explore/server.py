"""Serve one page on loopback: nothing else is reachable, from nowhere else, and no path of a request is ever opened."""

import os
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs

from equiscope.errors import InputError

HOST = "127.0.0.1"
TRIES = 50

Answer = Callable[[dict[str, str]], bytes]  # of what stands behind the "?", to JSON; raises InputError where it is no question


def server(page: str | Callable[[], str], port: int, answers: dict[str, Answer] | None = None) -> ThreadingHTTPServer:
    """A server for the page on the first free port from `port` on. Raises InputError where none of the next 50 is free.

    page     the page, or what makes it when it is asked for
    answers  to questions of the page, by their path: "/entries"
    """
    made = page if callable(page) else lambda: page
    for candidate in range(port, min(port + TRIES, 65536)):
        try:
            return _Server((HOST, candidate), _handler(made, answers or {}))
        except OSError:
            continue
    raise InputError(f"No port from {port} to {port + TRIES - 1} is free. Choose another one with --port.")


class _Server(ThreadingHTTPServer):
    allow_reuse_address = os.name == "posix"  # a port whose last server was killed; elsewhere that would share a busy one
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet: a tab that was closed while it was answered is no fault."""


def _handler(page: Callable[[], str], answers: dict[str, Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30  # seconds that a silent caller may keep a thread

        def do_GET(self) -> None:
            if not self._local():
                self._answer(403, b"This page answers on this machine only.\n", "text/plain")
                return
            path, _, asked = self.path.partition("?")
            if path == "/":
                self._answer(200, page().encode("utf-8"), "text/html; charset=utf-8")
            elif path in answers:
                try:
                    self._answer(200, answers[path](_asked(asked)), "application/json")
                except InputError as error:
                    self._answer(400, f"{error}\n".encode(), "text/plain; charset=utf-8")
            else:
                self._answer(404, b"There is one page here: /\n", "text/plain")

        do_HEAD = do_GET

        def _local(self) -> bool:
            """A page elsewhere may point a name of its own at this address; its Host header gives it away."""
            port = cast(ThreadingHTTPServer, self.server).server_port
            return self.headers.get("Host", "") in (f"{HOST}:{port}", f"localhost:{port}")

        def _answer(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Security-Policy", "frame-ancestors 'none'")  # what a page cannot say of itself
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the terminal shows where the page is, not who reads it."""

    return Handler


def _asked(query: str) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(query, max_num_fields=8).items()}
    except ValueError as error:
        raise InputError("A question has eight fields at most.") from error
