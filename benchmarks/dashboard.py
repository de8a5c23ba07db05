"""How long the data of the pages take: 100 experiments and 1,000,000 rounds, half of them in one experiment."""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import surefoot as sf
from surefoot.service.dashboard.histories import Histories
from surefoot.service.dashboard.reader import Reader
from surefoot.service.host import Host
from surefoot.storage.database import Database
from surefoot.storage.log import SqlLog
from surefoot.storage.schema import histories as saved

EXPERIMENTS, ROUNDS = 100, 1_000_000
BATCH = 1_000
LARGE = "large"
VIEWERS, LOOK_EVERY = 5, 2.0
SECONDS = 10.0


def experiment(name: str) -> sf.Experiment:
    return sf.Experiment(
        name, arms=["reasoning", "flagship", "balanced", "fast", "in-house"], objective=sf.Maximise("quality"),
        guardrails=[
            sf.AtMost("spend", 0.40, high=2.0, unit="cents"), sf.AtMost("miss", 0.20), sf.AtLeast("answered", 0.90)
        ],
        baseline="in-house", baseline_costs={"spend": 0.10, "miss": 0.05, "answered": 0.97}, timeout=60.0,
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


async def timed(
    work: Callable[[], Awaitable[Any]], forget: Callable[[], None], repeats: int = 15
) -> tuple[float, float]:
    """The median and the worst of some calls, in milliseconds, each without what was made for another viewer."""
    taken = []
    for _ in range(repeats):
        forget()
        started = time.perf_counter()
        await work()
        taken.append(1e3 * (time.perf_counter() - started))
    return statistics.median(taken), max(taken)


async def decides(host: Host, seconds: float) -> float:
    """Decisions a second, each with its feedback, by 16 callers."""
    made, until, rng = 0, time.perf_counter() + seconds, random.Random(2)

    async def call(name: str) -> None:
        nonlocal made
        while time.perf_counter() < until:
            (one,) = await host.ask(name, "decide", count=1, arms=None, unit=None, key=None)
            await host.ask(name, "feedback", items=[{"id": one["id"], "outcome": outcome(one["arm"], rng)}])
            made += 1

    await asyncio.gather(*(call(LARGE) for _ in range(16)))
    return made / seconds


async def look(reader: Reader, names: list[str]) -> None:
    """Somebody has a page open."""
    while True:
        await reader.summaries(names)
        await reader.detail(LARGE, True)
        await asyncio.sleep(LOOK_EVERY)


async def measure(url: str) -> None:
    database = Database.open(url)
    with database.engine.begin() as connection:
        connection.execute(saved.delete())
    histories = Histories(lambda: database)
    started = time.perf_counter()
    while not histories.catch_up(1, 60.0):
        pass
    taken = time.perf_counter() - started
    read = histories.of(1).seq
    database.close()
    print(f"  history of {read:,} rounds from the table: {taken:.2f} s, {read / taken:,.0f} rounds/s")
    host = Host(url)
    await host.start()
    while not host.ready:
        await asyncio.sleep(0.1)
    reader, names = Reader(host), host.names
    started = time.perf_counter()
    await reader.summaries(names)
    print(f"  list, first look: {1e3 * (time.perf_counter() - started):.0f} ms")
    started = time.perf_counter()
    await reader.detail(LARGE, True)
    print(f"  experiment, first look: {1e3 * (time.perf_counter() - started):.0f} ms")
    await reader._catch_up()

    def forget() -> None:
        for made in (reader._made, reader._delays, reader._weights, reader._rounds, host._made):
            made.clear()

    for what, work in {
        f"list of {len(names)}": lambda: reader.summaries(names),
        "experiment": lambda: reader.detail(LARGE, True),
    }.items():
        median, worst = await timed(work, forget)
        print(f"  {what}: {median:.0f} ms, at worst {worst:.0f} ms")
    prefix = host.lives[LARGE].prefix
    for number in (5, host.lives[LARGE].rounds // 2):
        started = time.perf_counter()
        found = await reader.explain(f"{prefix}-{number}")
        print(f"  decision {number:,}: {1e3 * (time.perf_counter() - started):.0f} ms; {found.words[0]}")
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(3):  # by turns, as the machine has its moods
        for seen in rates:
            viewers = [asyncio.create_task(look(reader, names)) for _ in range(VIEWERS if seen else 0)]
            rates[seen].append(await decides(host, SECONDS / 2))
            for one in viewers:
                one.cancel()
    alone, watched = (statistics.median(rates[seen]) for seen in (False, True))
    print(f"  decides/s: {alone:,.0f} alone, {watched:,.0f} with {VIEWERS} viewers ({watched / alone - 1:+.1%})")
    reader.close()
    await host.stop()


def report(path: Path | None = None, experiments: int = EXPERIMENTS, rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = path or Path(folder) / "surefoot.db"
        print(f"\nData of the pages: {experiments} experiments, {rounds:,} rounds")
        if not file.exists():
            started = time.perf_counter()
            fill(str(file), experiments, rounds)
            print(f"  written in {time.perf_counter() - started:.0f} s, {file.stat().st_size / 1e6:,.0f} MB")
        asyncio.run(measure(str(file)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--db", type=Path, help="a SQLite file, filled if it does not exist")
    given = parser.parse_args()
    report(given.db, given.experiments, given.rounds)
