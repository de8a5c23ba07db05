"""The service in this process, with a clock that tests move."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from surefoot.service.app import build
from surefoot.service.host import Host
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key
from tests.servers import GOOD, ROUTING


class Clock:
    """The time, which passes when a test says so."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


class Api:
    """A client of the service, with a key."""

    def __init__(self, client: TestClient, app: FastAPI, clock: Clock, key: str) -> None:
        self.client, self.app, self.clock, self.key = client, app, clock, key

    @property
    def host(self) -> Host:
        return self.app.state.host  # type: ignore[no-any-return]

    def __call__(self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Any:
        """Any request; `headers` are written with underscores."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(
            method, path, content=content, headers={"Authorization": f"Bearer {key or self.key}", **named}
        )

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer to a request that must succeed."""
        answer = self(method, path, body, **headers)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def problem(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """The status and the problem of a request that must fail."""
        answer = self(method, path, body, **headers)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert problem["type"].startswith("urn:surefoot:")
        assert problem["title"]
        assert "\n" not in problem["detail"]
        return answer.status_code, problem

    def create(self, **changes: Any) -> Any:
        return self.ok("POST", "/v1/experiments", {**ROUTING, **changes})

    def decide(self, name: str = "routing", **body: Any) -> Any:
        """One decision, or several if `count` is given."""
        found = self.ok("POST", f"/v1/experiments/{name}/decisions", body)["decisions"]
        return found if "count" in body else found[0]

    def report(self, id: str, outcome: dict[str, Any] | None = None) -> str:
        return str(self.ok("PUT", f"/v1/decisions/{id}/feedback", {"outcome": outcome or GOOD})["status"])

    def status(self, name: str = "routing") -> Any:
        return self.ok("GET", f"/v1/experiments/{name}")

    def new_key(self, *roles: str, **options: Any) -> str:
        """A key with these roles, known to the service at once."""
        key = create_key(self.host.database, "test", roles, self.clock(), **options)
        self.host.read_keys()
        return key

    def wait_until_ready(self) -> None:
        for _ in range(1200):
            if self.client.get("/readyz").status_code == 200:
                return
            time.sleep(0.05)
        raise AssertionError("the service does not become ready")


def started(db: str, clock: Clock | None = None, key: str = "", **options: Any) -> Iterator[Api]:
    """The service on a database, with a clock and a key of an earlier one or with new ones."""
    clock = clock or Clock()
    if not key:
        database = Database.open(db)
        key = create_key(database, "tester", ["admin"], clock())
        database.close()
    app = build(db, clock=clock, **options)
    with TestClient(app) as client:
        api = Api(client, app, clock, key)
        api.wait_until_ready()
        yield api


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "surefoot.db")


@pytest.fixture
def api(db: str) -> Iterator[Api]:
    """The service on a new database, without experiments."""
    yield from started(db)


@pytest.fixture
def routing(api: Api) -> Api:
    """The service with one experiment."""
    api.create()
    return api
