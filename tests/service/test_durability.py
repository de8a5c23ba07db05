"""Nothing acknowledged is lost: the server killed, the disk full, PostgreSQL restarted."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.servers import GOOD, ROUTING, Postgres, Server

CALLERS = 4
KILLS = int(os.environ.get("SUREFOOT_KILLS", "3"))
"""How often a process is killed; 20 for the figures of docs/performance-notes.md."""


class Load:
    """Callers that decide and report without pause, and remember what was acknowledged.

    Each call goes to the next of several servers. Decisions that are in no log were not acknowledged.
    """

    def __init__(self, *servers: Server) -> None:
        self._servers = servers
        self.unlogged = 0
        self.decided: list[dict[str, Any]] = []
        self.reported: list[str] = []
        self.wrong: list[str] = []
        self.refused: set[int] = set()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        headers = {"Authorization": f"Bearer {self._servers[0].key}"}
        with httpx2.Client(headers=headers, timeout=15.0, verify=False) as client:
            while not self._ended.is_set():
                try:
                    self._turn(client, *random.choices(self._servers, k=2))
                except httpx2.TransportError:
                    time.sleep(0.3)

    def _turn(self, client: httpx2.Client, deciding: Server, reporting: Server) -> None:
        answer = client.post(f"{deciding.address}/v1/experiments/routing/decisions", json={"count": 2})
        if answer.status_code != 201:
            self.refused.add(answer.status_code)
            time.sleep(0.2)
            return
        decisions = answer.json()["decisions"]
        if decisions[0]["id"].startswith("unlogged"):
            assert {(one["mode"], one["arm"]) for one in decisions} == {("safe", "in-house")}
            self.unlogged += len(decisions)
            time.sleep(0.05)
            return
        self.decided += decisions
        id = decisions[0]["id"]  # the second one stays open
        taken = client.put(f"{reporting.address}/v1/decisions/{id}/feedback", json={"outcome": GOOD})
        if taken.status_code == 200:
            self.reported.append(id)
        elif taken.status_code != 503:  # the decision was acknowledged
            self.wrong.append(taken.text)

    def wait_for(self, n: int, unlogged: bool = False) -> None:
        """Return when so many more decisions are acknowledged, or are served without the database."""
        goal = self._count(unlogged) + n
        for _ in range(3000):
            if self._count(unlogged) >= goal:
                return
            time.sleep(0.02)
        found = self._count(unlogged)
        raise AssertionError(f"{found} of {goal} decisions after a minute; refused with {self.refused}")

    def _count(self, unlogged: bool) -> int:
        return self.unlogged if unlogged else len(self.decided)


def check(server: Server, load: Load, db: str) -> None:
    """Every acknowledged decision is there, once; every acknowledged report was taken; a replay is equal."""
    assert load.wrong == []
    ids = [one["id"] for one in load.decided]
    assert len(set(ids)) == len(ids)
    items = [{"id": id, "outcome": GOOD} for id in load.reported]
    for start in range(0, len(items), 1000):
        taken = server.call("POST", "/v1/feedback", {"items": items[start : start + 1000]})["items"]
        assert {one.get("status") for one in taken} == {"replayed"}
    items = [{"id": id, "outcome": GOOD} for id in set(ids) - set(load.reported)]
    for start in range(0, len(items), 1000):
        taken = server.call("POST", "/v1/feedback", {"items": items[start : start + 1000]})["items"]
        assert {one.get("status") for one in taken} <= {"accepted", "replayed"}  # taken, and its answer lost
    learnt = [one["id"] for one in server.call("GET", "/v1/experiments/routing/rounds")]
    assert len(set(learnt)) == len(learnt)
    arms = {one["id"]: one["arm"] for one in server.call("GET", "/v1/experiments/routing/rounds")}
    assert all(arms.get(one["id"], one["arm"]) == one["arm"] for one in load.decided)
    replayed = subprocess.run(
        [sys.executable, "-m", "surefoot", "replay", "routing", "--db", db], capture_output=True, text=True, check=False
    )
    assert replayed.stdout.startswith("equal: "), replayed.stderr


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(str(tmp_path / "surefoot.db"), tmp_path)
    server.call("POST", "/v1/experiments", ROUTING)
    yield server
    server.kill()


def test_the_server_is_killed_under_load(server: Server, tmp_path: Path) -> None:
    with Load(server) as load:
        for _ in range(KILLS):
            load.wait_for(60)
            server.kill()
            server.start()
        load.wait_for(20)
    check(server, load, str(tmp_path / "surefoot.db"))


def test_the_check_notices_what_is_lost(server: Server, tmp_path: Path) -> None:
    """The control: an acknowledged report that is not in the log."""
    with Load(server) as load:
        load.wait_for(20)
    load.reported.append(load.decided[-1]["id"])
    with pytest.raises(AssertionError):
        check(server, load, str(tmp_path / "surefoot.db"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write to a file until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_the_disk_is_full_for_a_while(small_disk: Path, tmp_path: Path) -> None:
    db = str(small_disk / "surefoot.db")
    server = Server(db, tmp_path)
    try:
        server.call("POST", "/v1/experiments", ROUTING)
        with Load(server) as load:
            load.wait_for(20)
            ballast = small_disk / "ballast"
            fill(ballast)
            for _ in range(600):
                if 503 in load.refused:
                    break
                time.sleep(0.05)
            assert load.refused == {503}
            answer = httpx2.post(
                f"{server.address}/v1/experiments/routing/decisions", headers={"Authorization": f"Bearer {server.key}"}
            )
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            ballast.unlink()
            load.wait_for(20)
        shutil.copytree(small_disk, tmp_path / "copy")  # a replay needs room, too
        check(server, load, str(tmp_path / "copy" / "surefoot.db"))
    finally:
        server.kill()


def test_postgresql_restarts_under_load(postgres: Postgres, tmp_path: Path) -> None:
    db = postgres.database("restarts")
    server = Server(db, tmp_path)
    try:
        server.call("POST", "/v1/experiments", ROUTING)
        with Load(server) as load:
            for how in (signal.SIGINT, signal.SIGQUIT):
                load.wait_for(40)
                postgres.stop(how)
                time.sleep(0.5)
                postgres.start()
                load.wait_for(40)
        assert load.refused == {503}
        server.kill()
        server.start()
        check(server, load, db)
    finally:
        server.kill()
