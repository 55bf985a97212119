"""Endpoint: asks prompts within a budget of requests, and keeps every request with its answer."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from equiscope.audit.served.answers import Answer, read
from equiscope.audit.served.connection import Connection, Dropped, Refused
from equiscope.errors import InputError, UnknownName, short_repr

TOP = 5  # alternatives of each token: the most that every server gives


class BudgetSpent(Exception):
    """Another request would exceed the budget."""


@dataclass
class Endpoint:
    """A server that answered once.

    model     that is asked
    budget    requests that may be made
    chat      whether prompts are messages of a chat; echo: whether the logprobs of a prompt are given
    lists     whether a request may hold several prompts
    requests  path, body and answer of each, by its number
    named     the models that the answers name
    """

    connection: Connection
    model: str
    budget: int
    chat: bool = False
    echo: bool = False
    lists: bool = False
    requests: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: int = 0

    @property
    def spent(self) -> int:
        """Requests so far."""
        return self._spent

    @property
    def path(self) -> str:
        return "/chat/completions" if self.chat else "/completions"

    # ------------------------------------------------------------------------------------------------------------ asking
    def ask(self, prompt: str, tokens: int = 1, **more: Any) -> Answer:
        """The answer to one prompt, with at most `tokens` new ones. more: of the body, such as stop="."."""
        return self._ask([prompt], tokens, more)[0]

    def ask_list(self, prompts: Sequence[str], tokens: int = 1, **more: Any) -> list[Answer]:
        """The answers to several prompts of one request."""
        return self._ask(list(prompts), tokens, more)

    def ask_together(self, prompts: Sequence[str], tokens: int = 1, **more: Any) -> list[Answer]:
        """The answers to several requests, sent at the same time."""
        if self._spent + len(prompts) > self.budget:
            raise BudgetSpent
        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda prompt: self.ask(prompt, tokens, **more), prompts))

    def _ask(self, prompts: list[str], tokens: int, more: dict[str, Any]) -> list[Answer]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": tokens, "temperature": 0}
        if self.chat:
            body |= {"messages": [{"role": "user", "content": prompts[0]}], "logprobs": True, "top_logprobs": TOP}
        else:
            body |= {"prompt": prompts if len(prompts) > 1 else prompts[0], "logprobs": TOP}
        body |= more
        number = self._count()
        found = self.connection.post(self.path, body)
        answers = read(found, self.chat, bool(more.get("echo")), len(prompts), number)
        with self._lock:
            if isinstance(name := found.get("model"), str):
                self.named.add(name)
            self.requests[number] = (self.path, body, found)
            self.answers += answers
        return answers

    def _count(self) -> int:
        with self._lock:
            if self._spent >= self.budget:
                raise BudgetSpent
            self._spent += 1
            self.requests.append(("", {}, None))
            return len(self.requests) - 1


def connect(connection: Connection, model: str | None, budget: int, prompts: Sequence[str]) -> Endpoint:
    """Find out what the server takes: completions or chat completions, echo, lists of prompts.

    prompts  two texts
    raises   InputError where it is no server that this check can ask, with the reason and the next step
    """
    endpoint = Endpoint(connection, model or "", budget)
    if model is None:
        endpoint.model = _only_model(endpoint)
    try:
        answer = endpoint.ask(prompts[0], 2)
    except Refused as refused:
        if refused.status not in (404, 405, 501) and "not supported" not in refused.sentence.lower():
            raise _refusal(endpoint, refused) from None
        endpoint.chat = True
        endpoint.notes.append("The server has no completions, so chat completions were asked: without batches, echo and chunks.")
        try:
            answer = endpoint.ask(prompts[0], 2)
        except Refused as again:
            raise _refusal(endpoint, again) from None
    _require_logprobs(endpoint, answer)
    if not endpoint.chat:
        endpoint.echo = _can(endpoint, lambda: bool(endpoint.ask(prompts[1], 1, echo=True).prompt_steps))
        endpoint.lists = _can(endpoint, lambda: len(endpoint.ask_list(prompts, 1)) == 2)
        if not endpoint.echo:
            endpoint.notes.append(
                "The server does not return the logprobs of a prompt (echo), so causal and echo were not measured."
            )
        if not endpoint.lists:
            endpoint.notes.append("The server takes no list of prompts, so batches were made of concurrent requests.")
    return endpoint


def _can(endpoint: Endpoint, ask: Any) -> bool:
    try:
        return bool(ask())
    except (Refused, InputError):
        return False


def _only_model(endpoint: Endpoint) -> str:
    endpoint._count()
    try:
        found = endpoint.connection.get("/models")
    except Refused as refused:
        if refused.status == 404:
            raise InputError(
                f"{endpoint.connection.url}/models does not exist (404). Give the address that ends before /models, usually "
                "http://HOST:PORT/v1, or name the model with --model."
            ) from None
        raise _refusal(endpoint, refused) from None
    data = found.get("data") if isinstance(found, dict) else None
    names = [str(one["id"]) for one in data if isinstance(one, dict) and "id" in one] if isinstance(data, list) else []
    if len(names) == 1:
        return names[0]
    if not names:
        raise InputError(f"{endpoint.connection.url}/models lists no model. Name one with --model.")
    raise UnknownName("model that is meant", None, names, "Name one with --model.")


def _refusal(endpoint: Endpoint, refused: Refused) -> InputError:
    at = f"{endpoint.connection.url}{endpoint.path}"
    if refused.status == 404:
        message = f" and says {short_repr(refused.sentence)}" if refused.sentence else ""
        return InputError(
            f"{at} does not exist (404){message}. Give the address that ends before /completions, usually http://HOST:PORT/v1, and "
            "a model that the server has."
        )
    if isinstance(refused, Dropped):
        return InputError(f"{at}: {refused}. See the log of the server.")
    if "logprobs" in refused.sentence.lower():
        return _no_logprobs(at, f" ({refused.status}: {refused.sentence})")
    message = f": {refused.sentence}" if refused.sentence else ""
    return InputError(f"{at} answered {refused.status}{message}. See the log of the server.")


def _require_logprobs(endpoint: Endpoint, answer: Answer) -> None:
    if not answer.steps or not any(step.logprob is not None for step in answer.steps):
        raise _no_logprobs(f"{endpoint.connection.url}{endpoint.path}", "")


def _no_logprobs(at: str, message: str) -> InputError:
    return InputError(
        f"{at} returns no logprobs{message}, and without them a fault looks like rounding. Switch them on in the server, or "
        "check the model itself: equiscope check FOLDER."
    )
