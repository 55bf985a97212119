"""Serve one page on loopback: nothing else is reachable, from nowhere else, and no path of a request is ever opened."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from equiscope.errors import InputError

HOST = "127.0.0.1"
TRIES = 50


def server(page: str, port: int) -> ThreadingHTTPServer:
    """A server for the page on the first free port from `port` on. Raises InputError where none of the next 50 is free."""
    body = page.encode("utf-8")
    for candidate in range(port, min(port + TRIES, 65536)):
        try:
            return _Server((HOST, candidate), _handler(body))
        except OSError:
            continue
    raise InputError(f"No port from {port} to {port + TRIES - 1} is free. Choose another one with --port.")


class _Server(ThreadingHTTPServer):
    allow_reuse_address = False  # on some systems it would share a busy port instead of moving on
    daemon_threads = True


def _handler(body: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._local():
                self._answer(403, b"This page answers on this machine only.\n", "text/plain")
            elif self.path.split("?")[0] != "/":
                self._answer(404, b"There is one page here: /\n", "text/plain")
            else:
                self._answer(200, body, "text/html; charset=utf-8")

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
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the terminal shows where the page is, not who reads it."""

    return Handler
