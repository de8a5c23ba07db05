"""How long a hold takes to reach every decider: ``python -m benchmarks.hold``.

One learner and three deciders run as processes of their own on one database, PostgreSQL (if it is installed) and a
SQLite file, while each decider answers a decision every few milliseconds. Times count from when the request to hold is
sent: until it is answered, and until the last decision that was not drawn from the baseline is answered, by any
decider. The bar is 2 seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import numpy as np

from tests.servers import GOOD, ROUTING, Postgres, Server, programs

BAR = 2.0
HOLDS, DECIDERS, PAUSE = 30, 3, 0.02
SETTLE = BAR + 0.5
"""Seconds after a hold in which decisions are looked at."""
PATIENCE = 30.0


class Hold(NamedTuple):
    """Seconds from sending the request to hold."""

    answered: float
    last_live: float  # until the last decision with mode "live" was answered; 0 if none was after the request
    decisions: int  # answered in the time that was looked at
    sent_after: int  # live decisions whose request was sent after the hold was answered


class Load:
    """Decisions from one decider, one after the other, and feedback on them."""

    def __init__(self, server: Server) -> None:
        self._server, self._ended = server, threading.Event()
        self.seen: list[tuple[float, float, str]] = []  # when a decision was asked for, when it was answered, its mode
        self.failed = 0
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        headers = {"Authorization": f"Bearer {self._server.key}"}
        with httpx2.Client(headers=headers, timeout=PATIENCE, base_url=self._server.address, verify=False) as client:
            while not self._ended.wait(PAUSE):
                sent = time.perf_counter()
                answer = client.post("/v1/experiments/routing/decisions", json={})
                at = time.perf_counter()
                if not answer.is_success:
                    self.failed += 1
                    continue
                (one,) = answer.json()["decisions"]
                self.seen.append((sent, at, one["mode"]))
                client.put(f"/v1/decisions/{one['id']}/feedback", json={"outcome": GOOD})

    def end(self) -> None:
        """Stop, and wait until that is done."""
        self._ended.set()
        self._thread.join()


def hold_once(server: Server, loads: list[Load]) -> Hold:
    """Hold through one of the processes, look, resume, and wait until all deciders are live again."""
    begun = time.perf_counter()
    server.call("POST", "/v1/experiments/routing/hold", {"reason": "benchmark"})
    answered = time.perf_counter()
    time.sleep(SETTLE)
    end = time.perf_counter()
    seen = [one for load in loads for one in list(load.seen) if begun <= one[1] <= end]
    live = [one for one in seen if one[2] == "live"]
    server.call("POST", "/v1/experiments/routing/resume", {"reason": "benchmark"})
    resumed = time.perf_counter()
    wait_until(lambda: all(sent > resumed and mode == "live" for sent, _, mode in (load.seen[-1] for load in loads)))
    return Hold(
        answered - begun, max((at for _, at, _ in live), default=begun) - begun, len(seen),
        sum(sent > answered for sent, _, _ in live),
    )  # fmt: skip


def wait_until(met: Callable[[], Any]) -> None:
    """Wait for a condition."""
    until = time.monotonic() + PATIENCE
    while not met():
        if time.monotonic() > until:
            raise SystemExit("the deciders do not serve what the learner publishes")
        time.sleep(0.02)


def measured(db: str, folder: Path, holds: int) -> tuple[list[Hold], int]:
    """Holds sent to the learner and to a decider by turns, and how many decisions were refused."""
    with ExitStack() as stack:
        servers: list[Server] = []
        for i, role in enumerate(["learner", *["decider"] * DECIDERS]):
            (folder / str(i)).mkdir()
            servers.append(Server(db, folder / str(i), role, servers[0].key if servers else ""))
            stack.callback(servers[-1].kill)
        servers[0].call("POST", "/v1/experiments", ROUTING)
        wait_until(lambda: all(drawn(server) == "live" for server in servers[1:]))
        loads = [Load(server) for server in servers[1:]]
        for load in loads:
            stack.callback(load.end)
        time.sleep(1.0)
        found = [hold_once(servers[i % 2], loads) for i in range(holds)]
        return found, sum(load.failed for load in loads)


def drawn(server: Server) -> str | None:
    """The mode of a decision; None if the process does not know the experiment yet."""
    address, key = f"{server.address}/v1/experiments/routing/decisions", {"Authorization": f"Bearer {server.key}"}
    answer = httpx2.post(address, json={}, headers=key, timeout=PATIENCE)
    return str(answer.json()["decisions"][0]["mode"]) if answer.is_success else None


@contextmanager
def databases() -> Iterator[dict[str, tuple[str, Path]]]:
    """The databases to measure with, by name: an address, and a folder for the processes."""
    root = Path(tempfile.mkdtemp(prefix="surefoot-"))
    root.chmod(0o755)
    found = {}
    server = None
    try:
        for name in ("PostgreSQL", "SQLite"):
            (root / name).mkdir()
        if programs() is not None:
            data = root / "server"
            data.mkdir()
            if os.getuid() == 0:
                shutil.chown(data, "postgres")
            server = Postgres(data, fsync=True)
            found["PostgreSQL"] = server.database("hold"), root / "PostgreSQL"
        found["SQLite"] = str(root / "SQLite" / "surefoot.db"), root / "SQLite"
        yield found
    finally:
        if server is not None:
            server.stop(signal.SIGINT)
        shutil.rmtree(root)


def spread(seconds: list[float]) -> str:
    """Median and worst, in milliseconds."""
    return f"{1000 * np.median(seconds):,.0f} / {1000 * max(seconds):,.0f}"


def report(holds: int = HOLDS) -> bool:
    """Print the table; return whether all holds were within the bar."""
    print(f"\n{holds} holds each, one learner and {DECIDERS} deciders, in milliseconds (median / worst)")
    print("\n| database | hold answered | last live decision answered | asked for after the hold was answered, and live "
          "| decisions looked at | refused |\n|---|---|---|---|---|---|", flush=True)  # fmt: skip
    within = True
    with databases() as all:
        for name, (db, folder) in all.items():
            found, failed = measured(db, folder, holds)
            within &= max(one.last_live for one in found) <= BAR
            print(f"| {name} | {spread([one.answered for one in found])} | {spread([one.last_live for one in found])} | "
                  f"{sum(one.sent_after for one in found)} | {sum(one.decisions for one in found):,} | {failed} |",
                  flush=True)  # fmt: skip
    print(f"\nall {'within' if within else 'NOT within'} {BAR:g} s")
    return within


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--holds", type=int, default=HOLDS)
    raise SystemExit(not report(parser.parse_args().holds))
