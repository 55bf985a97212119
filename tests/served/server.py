"""An OpenAI-compatible server over the engine, for tests: completions with logprobs and echo, chat completions, models."""

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.served.engine import LONGEST, VOCABULARY, Engine, Sequence, encode


def decode(ids: list[int]) -> str:
    return "".join(VOCABULARY[i] for i in ids if i > 1)


class Api:
    """fault: a planted one; features: "completions", "list", "echo", "chat"."""

    def __init__(self, engine: Engine, fault: str = "", features: tuple[str, ...] = ("completions", "list", "echo", "chat")):
        self.engine, self.fault, self.features = engine, fault, features
        self.requests = 0

    def app(self) -> Starlette:
        routes = [Route("/v1/models", self.models)]
        if "completions" in self.features:
            routes.append(Route("/v1/completions", self.completions, methods=["POST"]))
        if "chat" in self.features:
            routes.append(Route("/v1/chat/completions", self.chat, methods=["POST"]))
        return Starlette(routes=routes)

    async def models(self, request: Request) -> JSONResponse:
        self.requests += 1
        return JSONResponse({"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    async def completions(self, request: Request) -> JSONResponse:
        self.requests += 1
        body = json.loads(await request.body())
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        if len(prompts) > 1 and "list" not in self.features:
            return _refused("prompt must be a string.")
        if body.get("echo") and "echo" not in self.features:
            return _refused("echo is not supported.")
        try:
            answered = await self._answer(body, prompts)
        except ValueError as error:
            return _refused(str(error))
        choices = []
        for index, (s, text, reason) in enumerate(answered):
            echo = bool(body.get("echo"))
            tokens, own, top = self._logprobs(s, int(body.get("logprobs") or 0), echo)
            logprobs = {"tokens": tokens, "token_logprobs": own, "top_logprobs": top} if body.get("logprobs") else None
            text = prompts[index] + text if echo else text
            choices.append({"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason})
        return JSONResponse({"object": "text_completion", "model": "tiny", "choices": choices, "usage": self._usage(answered)})

    async def chat(self, request: Request) -> JSONResponse:
        self.requests += 1
        body = json.loads(await request.body())
        prompt = "".join(f"{m['role']}: {m['content']}\n" for m in body["messages"]) + "assistant:"
        try:
            answered = await self._answer(body, [prompt])
        except ValueError as error:
            return _refused(str(error))
        [(s, text, reason)] = answered
        tokens, own, top = self._logprobs(s, int(body.get("top_logprobs") or 0), False)
        content = [
            {"token": t, "logprob": p, "top_logprobs": [{"token": u, "logprob": q} for u, q in among.items()]}
            for t, p, among in zip(tokens, own, top, strict=True)
        ]
        choice = {
            "index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason,
            "logprobs": {"content": content} if body.get("logprobs") else None,
        }  # fmt: skip
        return JSONResponse({"object": "chat.completion", "model": "tiny", "choices": [choice], "usage": self._usage(answered)})

    async def _answer(self, body: dict, prompts: list[str]) -> list[tuple[Sequence, str, str]]:
        stops = body.get("stop") or []
        stops = [stops] if isinstance(stops, str) else stops
        sequences = []
        for prompt in prompts:
            s = Sequence(encode(prompt), int(body.get("max_tokens", 16)), float(body.get("temperature", 1.0)), body.get("seed"),
                         bool(body.get("echo")))  # fmt: skip
            if len(s.ids) + s.limit > LONGEST:
                raise ValueError(f"This model's maximum context length is {LONGEST} tokens, but {len(s.ids) + s.limit} were asked.")
            before = prompt if self.fault == "stop-in-prompt" else ""
            s.is_stopped = lambda ids, before=before: any(stop in before + decode(ids) for stop in stops)
            sequences.append(s)
        await asyncio.gather(*[asyncio.wrap_future(self.engine.submit(s)) for s in sequences])
        return [(s, *self._ended(s, stops)) for s in sequences]

    def _ended(self, s: Sequence, stops: list[str]) -> tuple[str, str]:
        text = decode(s.ids[s.prompt :])
        found = [text.find(stop) for stop in stops if stop in text]
        reason = "stop" if found or s.ids[-1] == 1 or len(s.ids) - s.prompt < s.limit else "length"
        if found:
            end = min(found)
            if self.fault == "stop-early":
                end = max(0, end - 1)
            if self.fault == "stop-returned":
                end += max(len(stop) for stop in stops if text.startswith(stop, end))
            text = text[:end]
        if self.fault == "space-dropped":
            text = re.sub(" (?=you|w|,)", "", text)
        return text, "stop" if self.fault == "finish-reason" else reason

    def _logprobs(self, s: Sequence, count: int, echo: bool):
        rows = ([None, *s.prompt_steps[:-1]] if echo else []) + s.steps
        if echo and self.fault == "echo-shift":
            rows = [*s.prompt_steps[:-1], None, *s.steps]
        ids = s.ids if echo else s.ids[s.prompt :]
        ids = [i for i in ids if i != 1]
        tokens, own, top = [], [], []
        for i, row in zip(ids, rows, strict=False):
            tokens.append(VOCABULARY[i])
            own.append(None if row is None else float(row[i]))
            if row is None:
                top.append(None)
                continue
            best = row.topk(max(count, 2))
            among = {VOCABULARY[j]: float(row[j]) for j in best.indices.tolist()[:count]} | {VOCABULARY[i]: float(row[i])}
            if self.fault == "wrong-token":
                own[-1] = float(best.values[1])
            top.append(among)
        return tokens, own, top

    def _usage(self, answered) -> dict:
        prompt = sum(s.prompt for s, _, _ in answered)
        completion = sum(len(s.ids) - s.prompt for s, _, _ in answered)
        if self.fault == "usage":
            completion += prompt
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _refused(sentence: str) -> JSONResponse:
    return JSONResponse({"error": {"message": sentence, "type": "invalid_request_error"}}, status_code=400)


@contextlib.contextmanager
def served(app) -> Iterator[str]:
    """The address of an application that runs in a thread."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(5)
        listener.close()


@contextlib.contextmanager
def tiny(fault: str = "", dtype: torch.dtype = torch.float32, caching: bool = True, **options) -> Iterator[tuple[str, Api]]:
    """The address of the engine's server with a planted fault, and its interface."""
    engine = Engine(fault, dtype, caching)
    api = Api(engine, fault, **options)
    with served(api.app()) as url:
        yield url, api
    engine.close()
