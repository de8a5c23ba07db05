"""Language models that tests run: OpenAI-compatible endpoints with prices, latencies and failures of their own."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call that an endpoint saw. No two calls have as many tokens."""

    arm: str
    tokens: int
    answered: bool


@dataclass
class Model:
    """How an endpoint behaves."""

    cents: float  # mean price of an answer
    quality: float  # share of good answers
    fails: float = 0.0  # share of calls that are refused
    breaks: bool = False  # whether streams break off
    seconds: float = 0.0


class Models:
    """Endpoints on one port, at a path for each arm."""

    def __init__(self, models: dict[str, Model]) -> None:
        self.models, self.calls = models, list[Call]()
        self._numbers, self._random = itertools.count(), random.Random(7)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self._answer))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __getitem__(self, arm: str) -> Model:
        return self.models[arm]

    def deployment(self, arm: str, id: str | None = None, **params: Any) -> dict[str, Any]:
        """A deployment of an arm for LiteLLM's Router. 1,000 tokens and a little cost the arm's price."""
        price = self.models[arm].cents / 100 / 1_000
        address = f"http://127.0.0.1:{self._server.server_port}/{arm}"
        return {
            "model_name": "assistant",
            "litellm_params": {
                "model": f"openai/{arm}", "api_base": address, "api_key": "none", "max_retries": 0,
                "input_cost_per_token": 0.0, "output_cost_per_token": price, **params,
            },
            "model_info": {"id": id or f"{arm}-1"},
        }  # fmt: skip

    def cents(self, call: Call) -> float:
        """What a call cost."""
        return self.models[call.arm].cents * call.tokens / 1_000 if call.answered else 0.0

    def _answer(self, arm: str, stream: bool) -> tuple[int, list[Any]]:
        model, number = self.models[arm], next(self._numbers)
        tokens = 950 + number % 100 if not stream else 950  # LiteLLM counts the tokens of a stream by itself
        failed = self._random.random() < model.fails
        self.calls.append(Call(arm, tokens, not failed and not (stream and model.breaks)))
        time.sleep(model.seconds)
        text = "good" if self._random.random() < model.quality else "bad"
        usage = {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": tokens + 1}
        body = {"id": f"call-{number}", "created": 1, "model": arm, "usage": usage}
        if failed:
            return 500, [{"error": {"message": "out of order"}}]
        if not stream:
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            return 200, [{**body, "object": "chat.completion", "choices": [choice]}]
        chunks = [
            {**body, "object": "chat.completion.chunk", "usage": None,
             "choices": [{"index": 0, "delta": {"role": "assistant", "content": part}, "finish_reason": None}]}
            for part in text
        ]  # fmt: skip
        if model.breaks:
            return 200, [*chunks, None]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return 200, [*chunks, {**body, "object": "chat.completion.chunk", **end}]


def handler_of(answer: Callable[[str, bool], tuple[int, list[Any]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stream = bool(body.get("stream"))
            status, parts = answer(self.path.split("/")[1], stream)
            self.send_response(status)
            if not stream or status != 200:
                content = json.dumps(parts[0]).encode()
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                return
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in parts:
                if part is None:  # the connection breaks
                    self.close_connection = True
                    return
                line = b"data: " + json.dumps(part).encode() + b"\n\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            line = b"data: [DONE]\n\n"
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
