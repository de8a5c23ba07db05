"""Servers that tests start: PostgreSQL, and the decision service in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import psycopg

ROUTING: dict[str, Any] = {
    "name": "routing",
    "arms": ["fast", "balanced", "in-house"],
    "objective": {"maximise": "quality"},
    "guardrails": [
        {"name": "spend", "at_most": 0.4, "low": 0, "high": 2, "unit": "cents"},
        {"name": "answered", "at_least": 0.7},
    ],
    "baseline": "in-house",
    "baseline_costs": {"spend": 0.08, "answered": 0.99},
    "timeout": 600,
}
GOOD = {"quality": 0.8, "spend": 0.31, "answered": True}


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, if it is installed."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class Postgres:
    """A PostgreSQL server on a socket in a folder.

    Without fsync, a server that is killed still keeps what it has committed; a machine that fails would not.
    """

    def __init__(self, folder: Path, fsync: bool = False) -> None:
        self.folder, self._data, self._fsync = folder, folder / "data", fsync
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-N", "-U", "postgres")
        self.start()

    def _command(self, program: str, *arguments: str) -> list[str]:
        bin = programs()
        assert bin is not None
        user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        return [*user, str(bin / program), *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(self._command(program, *arguments), check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = self._command(
            "postgres", "-D", str(self._data), "-k", str(self.folder), "-h", "", "-c",
            f"fsync={'on' if self._fsync else 'off'}",
        )  # fmt: skip

        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(300):
            try:
                psycopg.connect(self._conninfo("postgres")).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, how: signal.Signals) -> None:
        """Stop: SIGINT is fast, SIGQUIT is immediate, as a crash would be."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), how)
        self._process.wait(30)

    def _conninfo(self, database: str) -> str:
        return f"host={self.folder} user=postgres dbname={database}"

    def database(self, name: str) -> str:
        """The address of a new database."""
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"postgresql://postgres@/{name}?host={self.folder}"


class Server:
    """`surefoot serve` in a process of its own."""

    def __init__(self, db: str, folder: Path, role: str = "all", key: str = "") -> None:
        self._db, self._folder, self._role, self.key, self._port = db, folder, role, key, 0
        self.start()

    def start(self) -> None:
        """Start, and wait until it is ready."""
        log = (self._folder / "log").open("a")
        command = [sys.executable, "-m", "surefoot", "serve", "--db", self._db, "--port", str(self._port)]
        command += ["--role", self._role]
        self.process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        assert self.process.stdout is not None
        address = self.process.stdout.readline()
        assert address.startswith("address: http://127.0.0.1:"), (self._folder / "log").read_text()
        self.address = address.removeprefix("address: ").strip()
        self._port = int(self.address.rpartition(":")[2])
        if not self.key:
            self.key = self.process.stdout.readline().removeprefix("admin key: ").strip()
        with httpx2.Client(verify=False) as client:
            for _ in range(600):
                try:
                    if client.get(f"{self.address}/readyz").status_code == 200:
                        return
                except httpx2.TransportError:
                    assert self.process.poll() is None, (self._folder / "log").read_text()
                time.sleep(0.2)
        raise AssertionError("the service does not become ready")

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self._ended()

    def stop(self) -> None:
        """Ask the process to end."""
        self.process.terminate()
        self._ended()

    def _ended(self) -> None:
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """A request that must succeed."""
        answer = httpx2.request(
            method, self.address + path, content=None if body is None else json.dumps(body),
            headers={"Authorization": f"Bearer {self.key}", **(headers or {})}, timeout=30.0,
        )  # fmt: skip
        assert answer.is_success, answer.text
        return [json.loads(line) for line in answer.text.splitlines()] if "/rounds" in path else answer.json()
