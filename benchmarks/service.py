"""What a decision over HTTP costs: durable, at 16 connections, beside one commit per request and an empty route."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette import routing

from surefoot.service import app as app_module
from surefoot.service.app import build
from surefoot.service.routes import Call, Route
from surefoot.service.serve import bound, tune
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key
from tests.servers import Postgres, programs

CONNECTIONS = 16
REQUESTS = 4_000
EXPERIMENT = {
    "name": "speed", "arms": ["a", "b", "c", "d", "e"], "objective": {"maximise": "quality"},
    "guardrails": [{"name": "miss", "at_most": 0.3}], "baseline": "e", "baseline_costs": {"miss": 0.1},
    "timeout": 1e6,
}  # fmt: skip
TICKS = os.sysconf("SC_CLK_TCK")


def one_at_a_time(route: Route) -> Route:
    """The same route, with a commit for each request of its own."""
    lock = asyncio.Lock()

    async def handler(call: Call) -> Response:
        async with lock:
            return await route.handler(call)

    return route._replace(handler=handler)


def child(db: str, single: bool) -> None:
    """Serve, with empty routes added: one of FastAPI, and one of Starlette."""
    if single:
        plain = app_module.Endpoint
        app_module.Endpoint = lambda route, *rest: plain(one_at_a_time(route), *rest)  # type: ignore[misc, assignment]
    app: FastAPI = build(db, rate=1e9)

    async def empty(request: Request) -> Response:
        return Response(b"{}", media_type="application/json")

    app.add_api_route("/empty", empty, methods=["POST"])
    app.router.routes.append(routing.Route("/starlette", empty, methods=["POST"]))
    app.router.routes[:] = app.router.routes[-2:] + app.router.routes[:-2]  # found as soon as that of a decision
    tune()
    with bound("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])


class Caller:
    """One server, and requests to it."""

    def __init__(self, db: str, key: str, *, single: bool = False) -> None:
        command = [sys.executable, "-m", "benchmarks.service", db, "single" if single else "shared"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port, self._key = int(self.process.stdout.readline()), key

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._key}\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    async def talk(self, requests: Iterator[bytes], times: list[float]) -> bytes:
        """Send requests over one connection, one after the other; the last answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = b""
        for request in requests:
            started = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            body = await reader.readexactly(int(length.split(b":")[1]))
            times.append(time.perf_counter() - started)
            assert int(head.split(b" ", 2)[1]) < 400 or b"readyz" in request, (head, body)
        writer.close()
        return body

    def once(self, request: bytes) -> Any:
        return json.loads(asyncio.run(self.talk(iter([request]), [])))

    def cpu(self) -> float:
        """Seconds of computing of the server so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def load(self, request: bytes, n: int) -> dict[str, float]:
        """Requests a second, computing per request, and quantiles of the time to an answer."""
        times: list[float] = []
        left = iter(range(n))

        async def all_connections() -> None:
            await asyncio.gather(*(self.talk((request for _ in left), times) for _ in range(CONNECTIONS)))

        started, cpu = time.perf_counter(), self.cpu()
        asyncio.run(all_connections())
        p50, p99 = np.quantile(times, [0.5, 0.99])
        return {
            "rate": n / (time.perf_counter() - started), "cpu": (self.cpu() - cpu) / n,
            "p50": float(p50), "p99": float(p99),
        }  # fmt: skip


@contextmanager
def sqlite() -> Iterator[Callable[[str], str]]:
    """New databases, by name."""
    with tempfile.TemporaryDirectory() as folder:
        yield lambda name: str(Path(folder) / f"{name}.db")


@contextmanager
def postgresql() -> Iterator[Callable[[str], str]]:
    """New databases of a PostgreSQL server that loses nothing, by name."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        server = Postgres(Path(folder), fsync=True)
        try:
            yield server.database
        finally:
            server.stop(signal.SIGINT)


@contextmanager
def serving(database: Callable[[str], str], *, single: bool = False) -> Iterator[Caller]:
    db = database("single" if single else "shared")
    with closing(Database.open(db)) as keys:
        caller = Caller(db, create_key(keys, "benchmark", ["admin"], time.time()), single=single)
    try:
        while caller.once(caller.request("GET", "/readyz")).get("status") != "ready":
            time.sleep(0.2)
        caller.once(caller.request("POST", "/v1/experiments", EXPERIMENT))
        yield caller
    finally:
        caller.process.terminate()
        caller.process.wait()


def measure(database: Callable[[str], str], n: int = REQUESTS, rounds: int = 3) -> dict[str, dict[str, float]]:
    """Each candidate in turn, several times; the best of each."""
    with serving(database) as shared, serving(database, single=True) as single:
        candidates = {
            "empty route": (shared, shared.request("POST", "/empty", {}), n),
            "empty route of Starlette": (shared, shared.request("POST", "/starlette", {}), n),
            "decide": (shared, shared.request("POST", "/v1/experiments/speed/decisions", {}), n),
            "decide, one commit each": (single, single.request("POST", "/v1/experiments/speed/decisions", {}), n // 8),
        }
        found: dict[str, list[dict[str, float]]] = {name: [] for name in candidates}
        for _ in range(rounds):
            for name, (caller, request, count) in candidates.items():
                found[name].append(caller.load(request, count))
    return {
        name: {key: (max if key == "rate" else min)(one[key] for one in runs) for key in runs[0]}
        for name, runs in found.items()
    }


def report() -> None:
    show("SQLite", sqlite)
    if programs() is not None:
        show("PostgreSQL", postgresql)


def show(storage: str, databases: Callable[[], AbstractContextManager[Callable[[str], str]]]) -> None:
    with databases() as database:
        found = measure(database)
    print(f"\nDecisions over HTTP, each on disk before its answer, {CONNECTIONS} connections, {storage} (K = 5, m = 1)")
    for name, one in found.items():
        print(
            f"  {name}: {one['rate']:,.0f} requests/s, {one['cpu'] * 1e6:.0f} us of computing each, "
            f"p50 {one['p50'] * 1e3:.1f} ms, p99 {one['p99'] * 1e3:.1f} ms"
        )
    decide, single = found["decide"], found["decide, one commit each"]
    empty, bare = found["empty route"], found["empty route of Starlette"]
    print(
        f"  requests/s {decide['rate'] / single['rate']:.1f} times one commit each; "
        f"computing {decide['cpu'] / empty['cpu']:.2f} times the empty route "
        f"({decide['cpu'] / bare['cpu']:.2f} times that of Starlette); "
        f"p99 {decide['p99'] / decide['p50']:.1f} times p50"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        child(sys.argv[1], sys.argv[2] == "single")
    else:
        report()
