"""The service in a process of its own, a fake of it with faults, and both clients under one face."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from surefoot.client import AsyncClient, Client
from tests.servers import ROUTING, Server

Reply = tuple[int, Any, dict[str, str]]


class Dropped(Exception):
    """Close the connection without an answer."""


class Fake:
    """A service that answers as a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[str, str, Any], Any] = lambda method, path, body: (404, problem("unknown"))
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.loads(content) if content else None
                fake.seen.append((self.command, self.path, body))
                fake.headers.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    status, found, *more = fake.answer(self.command, self.path, body)
                except Dropped:
                    self.close_connection = True
                    return
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                if status != 304:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if status != 304:
                    self.wfile.write(data)
                self.wfile.flush()

            def log_message(self, *_: object) -> None: ...

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def paths(self, method: str = "POST") -> list[str]:
        return [path for one, path, _ in self.seen if one == method]


def problem(kind: str, detail: str = "no", status: int = 0) -> dict[str, Any]:
    return {"type": f"urn:surefoot:{kind}", "title": "No", "status": status, "detail": detail}


def decided(id: str = "5ca1ab1e-0", arm: str = "fast", epoch: int = 0, count: int = 1) -> dict[str, Any]:
    one = {"id": id, "arm": arm, "propensity": 0.5, "epoch": epoch, "mode": "live", "due": time.time() + 60}
    return {"decisions": [one] * count}


class Blocking:
    """An `AsyncClient` whose methods block: its event loop runs in a thread of its own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = AsyncClient(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found
        return lambda *arguments, **options: asyncio.run_coroutine_threadsafe(
            found(*arguments, **options), self._loop
        ).result(60)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "on_problem":
            setattr(self._client, name, value)
        super().__setattr__(name, value)

    def end(self) -> None:
        """End the event loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


Make = Callable[..., Any]


@pytest.fixture(params=["threads", "asyncio"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make clients, of one kind and of the other."""
    made: list[Any] = []

    def make(address: str, key: str = "sf_key", **options: Any) -> Any:
        options = {"flush_every": 0.02, **options}
        made.append((Client if request.param == "threads" else Blocking)(address, key, **options))
        return made[-1]

    yield make
    for client in made:
        client.close(0.1)
        if isinstance(client, Blocking):
            client.end()


@pytest.fixture
def fake() -> Iterator[Fake]:
    fake = Fake()
    yield fake
    fake.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("client")
    server = Server(str(folder / "surefoot.db"), folder)
    yield server
    server.stop()


@pytest.fixture
def name(server: Server, request: pytest.FixtureRequest) -> str:
    """The name of a new experiment on the server."""
    name = "".join(one if one.isalnum() else "-" for one in request.node.name)
    server.call("POST", "/v1/experiments", {**ROUTING, "name": name})
    return name


def eventually(true: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def dead_port() -> str:
    """An address where nobody listens."""
    fake = Fake()
    fake.close()
    return fake.address


FOLDER = Path(__file__).parents[2]
