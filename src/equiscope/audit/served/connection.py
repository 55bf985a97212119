"""Connection: HTTP to the one host that the user named.

Python's `http.client` follows no redirect, reads no proxy from the environment and contacts nothing but the host it is given. The
clients that would do more for us (retries, pools, redirects, proxies) do what must not happen here.
"""

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from equiscope.errors import InputError, reason, short_repr

LARGEST = 64_000_000  # bytes of an answer
BUSY, WAITS = (429, 503), (1.0, 3.0)  # seconds until a busy server is asked again


class Refused(Exception):
    """The server answered with an error status. status; sentence: its own message."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(status, sentence)
        self.status, self.sentence = status, sentence

    def __str__(self) -> str:
        return f"the server answered {self.status}{': ' + self.sentence if self.sentence else ''}"


class Dropped(Refused):
    """The server took a request and closed the connection before its answer was complete."""

    def __init__(self) -> None:
        super().__init__(500, "")

    def __str__(self) -> str:
        return "the server closed the connection before its answer was complete"


@dataclass(frozen=True)
class Connection:
    """Where requests go.

    url      of the endpoint, which ends before /completions
    key      sent as a bearer token; it is in no message and no record
    timeout  seconds within which an answer must be complete
    proxy    whether the proxies of the environment (http_proxy, https_proxy, no_proxy) are used
    """

    url: str
    key: str | None = None
    timeout: float = 60.0
    proxy: bool = False

    def __post_init__(self) -> None:
        parts = _split(self.url)
        if parts.username or parts.password:
            raise InputError("The address holds a user name or a password. Put a key into an environment variable instead.")
        if self.key is not None and (not self.key.isascii() or not self.key.isprintable()):
            raise InputError("The key holds characters that an HTTP header cannot carry, such as a line break. Set it again.")

    @property
    def host(self) -> str:
        """Host and port."""
        return _split(self.url).netloc

    def get(self, path: str) -> Any:
        """The JSON behind a path. Raises Refused, or InputError where nothing sensible answers."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON of an answer. Raises Refused, or InputError where nothing sensible answers."""
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        for wait in (*WAITS, None):
            status, kind, content, location = self._exchange(method, path, body)
            if status in BUSY and wait is not None:
                time.sleep(wait)
                continue
            return self._read(path, status, kind, content, location)

    def _exchange(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str, bytes, str]:
        """Status, kind, content and the address of a redirect."""
        deadline = time.monotonic() + self.timeout
        parts = _split(self.url)
        connection, target = self._open(parts, parts.path.rstrip("/") + path)
        headers = {"Accept": "application/json", "User-Agent": "equiscope"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        data, answered = None, False
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            connection.connect()
            answered = True
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            content = bytearray()
            while chunk := answer.read1(1 << 16):
                content += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(content) > LARGEST:
                    raise InputError(f"{self.url}{path} answered with more than {LARGEST // 10**6} MB. Is this the right address?")
            if answer.length:
                raise Dropped
            return answer.status, answer.getheader("Content-Type", ""), bytes(content), answer.getheader("Location", "")
        except TimeoutError:
            raise InputError(
                f"{self.url}{path} gave no complete answer within {self.timeout:g} s. Allow more with --timeout."
            ) from None
        except ssl.SSLError as error:
            raise InputError(f"{self.host} does not speak HTTPS as expected: {reason(error)}. Is it http:// instead?") from None
        except (OSError, http.client.HTTPException) as error:
            if answered:
                raise Dropped from None
            why = reason(error) or type(error).__name__
            raise InputError(f"Nobody answers at {self.url} ({why}). Start the server, or correct the address.") from None
        finally:
            connection.close()

    def _open(self, parts: SplitResult, path: str) -> tuple[http.client.HTTPConnection, str]:
        host, port, secure = str(parts.hostname), parts.port, parts.scheme == "https"
        proxy = getproxies_environment().get(parts.scheme) if self.proxy and not proxy_bypass(parts.netloc) else None
        if proxy is None:
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            return kind(host, port, timeout=self.timeout), path
        through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if through.hostname is None or through.username or through.password:
            raise InputError(f"The proxy of the environment must be http://HOST:PORT, but is {short_repr(proxy)}.")
        if secure:
            connection = http.client.HTTPSConnection(through.hostname, through.port, timeout=self.timeout)
            connection.set_tunnel(host, port)
            return connection, path
        return http.client.HTTPConnection(through.hostname, through.port, timeout=self.timeout), f"http://{parts.netloc}{path}"

    def _read(self, path: str, status: int, kind: str, content: bytes, location: str) -> Any:
        at = f"{self.url}{path}"
        if 300 <= status < 400:
            raise InputError(
                f"{at} redirects to {short_repr(location)} ({status}), and redirects are not followed. Give the final address."
            )
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        if status in (401, 403):
            what = "asks for a key" if self.key is None else "refuses the key"
            raise InputError(
                f"{at} {what} ({status}). Put the key into the environment variable EQUISCOPE_KEY, or name another one with --key."
            )
        if status >= 400:
            raise Refused(status, _sentence(found))
        if found is None:
            what = "HTML" if "html" in kind or content.lstrip()[:1] == b"<" else "something else"
            raise InputError(
                f"{at} answered with {what}, not with JSON. Give the address of an OpenAI-compatible endpoint, such as "
                "http://HOST:PORT/v1."
            )
        return found


def is_address(text: object) -> TypeGuard[str]:
    """Whether a target is that of a server."""
    return isinstance(text, str) and text.strip().lower().startswith(("http://", "https://"))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        fine = parts.hostname is not None and (parts.port is None or parts.port > 0) and url.isascii() and url.isprintable()
    except ValueError:
        fine = False
    if not fine or " " in url or parts.query or parts.fragment:
        raise InputError(f"{short_repr(url)} is no address of an endpoint. Give one like http://HOST:PORT/v1.")
    return parts


def _sentence(reply: Any) -> str:
    """The server's own message, in one line."""
    error = reply.get("error", reply.get("detail", reply.get("message", ""))) if isinstance(reply, dict) else ""
    text = error.get("message", "") if isinstance(error, dict) else error
    text = " ".join(str(text).split()) if text else ""
    return (text if len(text) <= 200 else f"{text[:200]}…").rstrip(".")
