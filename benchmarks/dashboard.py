"""The dashboard over HTTP: how long pages take, what they weigh, and whether viewers slow decisions down.

Half of the rounds are of one experiment. Decisions with and without viewers are measured in turns, and each turn with
viewers is compared with those just before and after it, so that the moods of the machine cancel. A service reads its
rounds for the pages whether anybody looks or not, but only every half minute if nobody does: so that no turn does the
reading of another, it is asked to read every few seconds in all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import uvicorn
from starlette import routing
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

import surefoot as sf
from surefoot.service.app import build
from surefoot.service.serve import bound, tune
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key
from surefoot.storage.log import SqlLog
from surefoot.storage.schema import histories

EXPERIMENTS, ROUNDS = 100, 1_000_000
BATCH = 1_000
LARGE = "large"
LIST_AIM, PAGE_AIM, WEIGHT_AIM, SLOWER_AIM = 300.0, 500.0, 2.0e6, 0.05
LOOKS = 15
CALLERS = 16
VIEWERS, LOOK_EVERY, READ_EVERY = 5, 2.0, 3.0
PAIRS, SECONDS = 8, 4.0
TICKS = os.sysconf("SC_CLK_TCK")


# The database.


def experiment(name: str) -> sf.Experiment:
    return sf.Experiment(
        name, arms=["reasoning", "flagship", "balanced", "fast", "in-house"], objective=sf.Maximise("quality"),
        guardrails=[
            sf.AtMost("spend", 0.40, high=2.0, unit="cents"), sf.AtMost("miss", 0.20), sf.AtLeast("answered", 0.90)
        ],
        baseline="in-house", baseline_costs={"spend": 0.15, "miss": 0.07, "answered": 0.96}, timeout=60.0,
    )  # fmt: skip


def outcome(arm: str, rng: random.Random) -> dict[str, Any]:
    spend, quality = {"reasoning": (0.9, 0.9), "flagship": (0.6, 0.8), "balanced": (0.3, 0.7), "fast": (0.2, 0.5)}.get(
        arm, (0.08, 0.4)
    )
    return {
        "quality": min(1.0, quality + 0.2 * rng.random()),
        "spend": spend * (0.5 + rng.random()),
        "miss": rng.random() < 0.05,
        "answered": rng.random() < 0.98,
    }


def fill(url: str, experiments: int = EXPERIMENTS, rounds: int = ROUNDS) -> None:
    """A database as the engine writes it; half of the rounds are of one experiment, a hundredth is lost."""
    rng, database = random.Random(1), Database.open(url)
    for i in range(experiments):
        name, n = (LARGE, rounds // 2) if i == 0 else (f"small-{i}", rounds // 2 // max(1, experiments - 1))
        live = sf.Live.of(SqlLog(database, name), experiment(name), seed=i)
        now = time.time() - 86_400.0
        for _ in range(-(-n // BATCH)):
            now += 60.0
            drawn = live.decide(now=now, n=min(n, BATCH))
            live.feedback_many([(one.id, outcome(one.arm, rng)) for one in drawn if rng.random() > 0.01], now=now + 2.0)
        live.expire(now + 90.0)
    database.close()


def forget_histories(url: str) -> None:
    """As if the database were of a version without pages."""
    database = Database.open(url)
    with database.engine.begin() as connection:
        connection.execute(histories.delete())
    database.close()


# The service, in a process of its own.


def child(url: str) -> None:
    """Serve, with two routes for this benchmark: forget what was made for other viewers, and read all rounds."""
    app = build(url, rate=1e9)
    reader, host = app.state.reader, app.state.host

    async def forget(_: Request) -> Response:
        for made in (reader._made, reader._delays, reader._weights, reader._rounds, host._made):
            made.clear()
        return PlainTextResponse("forgotten")

    async def catch_up(request: Request) -> Response:
        await reader._catch_up(request.query_params.getlist("name") or None)
        return PlainTextResponse("caught up")

    for path, handler in (("/forget", forget), ("/catch-up", catch_up)):
        app.router.routes.insert(0, routing.Route(path, handler, methods=["POST"]))
    tune()
    with bound("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])


class Answer(NamedTuple):
    """An answer, and the milliseconds until all of it was there."""

    status: int
    headers: dict[str, str]
    body: bytes
    ms: float


class Connection:
    """A connection to the service that is kept open, with the headers of a caller or a browser."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._port, self.headers = port, headers
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        lines = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        started = time.perf_counter()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        reader, writer = self._streams
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
        first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        found = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        content = await reader.readexactly(int(found.get("content-length", 0)))
        return Answer(int(first.split(" ")[1]), found, content, 1e3 * (time.perf_counter() - started))

    async def get(self, path: str, **headers: str) -> Answer:
        found = await self.ask("GET", path, b"", **headers)
        assert found.status in (200, 304), (path, found.status, found.body[:300])
        return found


class Service:
    """The service, and connections to it."""

    def __init__(self, port: int, pid: int, key: str) -> None:
        self.port, self._pid, self._key = port, pid, key

    def caller(self) -> Connection:
        return Connection(self.port, {"Authorization": f"Bearer {self._key}"})

    async def browser(self) -> Connection:
        """Somebody who is logged in."""
        one = Connection(self.port, {"Accept": "text/html", "Accept-Encoding": "gzip"})
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        answer = await one.ask("POST", "/login", urlencode({"key": self._key}).encode(), **form)
        assert answer.status == 303, answer
        one.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
        return one

    async def ready(self) -> None:
        while True:
            with suppress(OSError):
                if (await self.caller().ask("GET", "/readyz")).status == 200:
                    return
            await asyncio.sleep(0.2)

    def cpu(self) -> float:
        """Seconds of computing so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def served(url: str) -> Iterator[Service]:
    database = Database.open(url)
    key = create_key(database, "benchmark", ["admin"], time.time())
    database.close()
    command = [sys.executable, "-m", "benchmarks.dashboard", "--serve", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Service(int(process.stdout.readline()), process.pid, key)
    finally:
        process.terminate()
        process.wait(60)


# Measurements.


def judged(what: str, value: str, reached: bool, aim: str) -> None:
    print(f"  {what}: {value} (aim {aim}: {'reached' if reached else 'MISSED'})")


async def first_looks(service: Service) -> None:
    """Nobody has looked before, and no history is saved."""
    await service.ready()
    browser = await service.browser()
    for what, path in (("list", "/"), ("experiment", f"/experiments/{LARGE}")):
        print(f"  {what}, first look without a saved history: {(await browser.get(path)).ms:.0f} ms")
    await browser.ask("POST", "/catch-up")


async def looks(service: Service) -> None:
    """Each page some times, each time made from nothing."""
    await service.ready()
    browser = await service.browser()
    await browser.ask("POST", "/catch-up")
    for what, path, aim in (("list", "/", LIST_AIM), ("experiment", f"/experiments/{LARGE}", PAGE_AIM)):
        taken, size = [], 0
        for _ in range(LOOKS):
            await browser.ask("POST", "/forget")
            answer = await browser.get(path)
            taken.append(answer.ms)
            size = len(answer.body)
        median = statistics.median(taken)
        value = f"{median:.0f} ms, at worst {max(taken):.0f} ms, {size / 1e3:.0f} kB"
        judged(what, value, median < aim, f"under {aim:.0f} ms")
    await weight(browser)
    await decisions(browser)


async def weight(browser: Connection) -> None:
    """What the scripts and styles of a page weigh."""
    page = (await browser.get(f"/experiments/{LARGE}")).body.decode()
    paths = sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page)))
    found = [len((await browser.get(path)).body) for path in paths]
    judged("scripts and styles", f"{sum(found) / 1e6:.2f} MB compressed", sum(found) < WEIGHT_AIM, "under 2 MB")


async def decisions(browser: Connection) -> None:
    """An old decision and a new one."""
    page = (await browser.get(f"/experiments/{LARGE}")).body.decode()
    newest = re.findall(r'"/decisions/([^"]+)"', page)
    prefix, _, number = newest[0].rpartition("-")
    for what, id in (("an early decision", f"{prefix}-5"), ("one half way", f"{prefix}-{int(number) // 2}"),
                     ("the newest", newest[0])):  # fmt: skip
        answer = await browser.get(f"/decisions/{id}")
        words = re.findall(r'<p class="lead">(.*?)</p>', answer.body.decode())
        print(f"  {what}: {answer.ms:.0f} ms; {words[0]}")


async def load(service: Service, seconds: float) -> float:
    """Decisions a second, each with its feedback, by some callers."""
    made, until, rng, browser = 0, time.perf_counter() + seconds, random.Random(2), await service.browser()

    async def read() -> None:
        while True:
            await browser.ask("POST", f"/catch-up?name={LARGE}")
            await asyncio.sleep(READ_EVERY)

    async def call() -> None:
        nonlocal made
        caller = service.caller()
        while time.perf_counter() < until:
            answer = await caller.ask("POST", f"/v1/experiments/{LARGE}/decisions", b"{}")
            (one,) = json.loads(answer.body)["decisions"]
            body = json.dumps({"outcome": outcome(one["arm"], rng)}).encode()
            answer = await caller.ask("PUT", f"/v1/decisions/{one['id']}/feedback", body)
            assert answer.status == 200, answer
            made += 1

    reading, started = asyncio.create_task(read()), time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    rate = made / (time.perf_counter() - started)
    reading.cancel()
    return rate


async def look(browser: Connection, path: str, wait: float) -> None:
    """Somebody has a page open: it asks again every two seconds, as the script of the page does."""
    tag = ""
    await asyncio.sleep(wait)
    while True:
        answer = await browser.get(path, If_None_Match=tag)
        tag = answer.headers.get("etag", tag)
        await asyncio.sleep(LOOK_EVERY)


@asynccontextmanager
async def viewers(service: Service) -> AsyncIterator[None]:
    """Five dashboards are open: two lists and three pages of the experiment."""
    paths = ["/", f"/experiments/{LARGE}", "/", f"/experiments/{LARGE}", f"/experiments/{LARGE}"]
    assert len(paths) == VIEWERS
    browsers = [await service.browser() for _ in paths]
    looking = [
        asyncio.create_task(look(one, path, LOOK_EVERY * i / VIEWERS))
        for i, (one, path) in enumerate(zip(browsers, paths, strict=True))
    ]
    try:
        yield
    finally:
        for one in looking:
            one.cancel()
        for found in await asyncio.gather(*looking, return_exceptions=True):
            if isinstance(found, Exception):
                raise found


async def viewed(service: Service, seconds: float) -> float:
    """The same as `load`, while dashboards are open."""
    async with viewers(service):
        return await load(service, seconds)


async def compare(service: Service, pairs: int, seconds: float) -> None:
    """Decisions with and without viewers, in turns: without, with, without, ..., with, without."""
    await service.ready()
    await (await service.browser()).ask("POST", "/catch-up")
    await viewed(service, seconds)  # everything is warm
    alone, watched = [await load(service, seconds)], []
    for _ in range(pairs):
        watched.append(await viewed(service, seconds))
        alone.append(await load(service, seconds))
    beside = [math.sqrt(before * after) for before, after in pairwise(alone)]
    ratios = [math.log(rate / other) for rate, other in zip(watched, beside, strict=True)]
    mean, error = statistics.mean(ratios), statistics.stdev(ratios) / math.sqrt(pairs)
    value = f"{statistics.median(alone):,.0f} alone, {math.expm1(mean):+.1%} with {VIEWERS} viewers"
    value += f" (standard error {error:.1%}, {pairs} turns)"
    judged("decisions a second", value, mean > math.log(1.0 - SLOWER_AIM), f"at most {SLOWER_AIM:.0%} fewer")
    if abs(mean - math.log(1.0 - SLOWER_AIM)) < 2.0 * error:
        print("    too noisy to be sure: repeat it with more --pairs, or on a quiet machine")


async def computing(service: Service, turns: int, seconds: float) -> None:
    """What viewers cost the service in computing, at a steady pace of decisions: it depends less on the machine."""
    rng, over = random.Random(3), asyncio.Event()

    async def steady() -> None:
        caller = service.caller()
        while not over.is_set():
            answer = await caller.ask("POST", f"/v1/experiments/{LARGE}/decisions", b'{"count": 20}')
            items = [
                {"id": one["id"], "outcome": outcome(one["arm"], rng)} for one in json.loads(answer.body)["decisions"]
            ]
            await caller.ask("POST", "/v1/feedback", json.dumps({"items": items}).encode())
            await asyncio.sleep(0.1)

    async def watched() -> float:
        cpu, started = service.cpu(), time.perf_counter()
        await asyncio.sleep(seconds)
        return 1e3 * (service.cpu() - cpu) / (time.perf_counter() - started)

    pace = asyncio.create_task(steady())
    extra = []
    for _ in range(turns):
        alone = await watched()
        async with viewers(service):
            extra.append(await watched() - alone)
    over.set()
    await pace
    value = f"{statistics.median(extra):.0f} ms a second (of {turns} turns: {min(extra):.0f} to {max(extra):.0f})"
    print(f"  computing for {VIEWERS} viewers: {value}; 10 ms are 1 % of a processor")


def report(
    path: Path | None = None,
    experiments: int = EXPERIMENTS,
    rounds: int = ROUNDS,
    pairs: int = PAIRS,
    seconds: float = SECONDS,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = path or Path(folder) / "surefoot.db"
        print(f"\nThe dashboard: {experiments} experiments, {rounds:,} rounds, load {os.getloadavg()[0]:.1f}")
        if not file.exists():
            started = time.perf_counter()
            fill(str(file), experiments, rounds)
            print(f"  written in {time.perf_counter() - started:.0f} s, {file.stat().st_size / 1e6:,.0f} MB")
        forget_histories(str(file))
        with served(str(file)) as service:
            asyncio.run(first_looks(service))
        with served(str(file)) as service:
            asyncio.run(looks(service))
        with served(str(file)) as service:
            asyncio.run(compare(service, pairs, seconds))
            asyncio.run(computing(service, max(2, pairs // 2), 4.0 * seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--db", type=Path, help="a SQLite file, filled if it does not exist; decisions are added to it")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="turns with viewers, at least 2")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each turn")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        child(given.serve)
    else:
        report(given.db, given.experiments, given.rounds, given.pairs, given.seconds)
