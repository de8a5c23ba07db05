"""Two learners and two deciders on PostgreSQL, killed, stopped and cut off under load: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.servers import ROUTING, Postgres, Server
from tests.service.test_durability import KILLS, Load, check


class Machines:
    """Processes on one database."""

    def __init__(self, db: str, folder: Path) -> None:
        self.db, self._folder = db, folder
        first = self._start("learner", 0)
        self.key = first.key
        first.call("POST", "/v1/experiments", ROUTING)
        self.learners = [first, self._start("learner", 1)]
        self.deciders = [self._start("decider", 2), self._start("decider", 3)]

    def _start(self, role: str, number: int) -> Server:
        folder = self._folder / f"{role} {number}"
        folder.mkdir()
        return Server(self.db, folder, role, getattr(self, "key", ""))

    @property
    def all(self) -> list[Server]:
        return [*self.learners, *self.deciders]

    def close(self) -> None:
        for server in self.all:
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.kill()


@pytest.fixture(scope="module")
def machines(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(postgres.database("machines"), tmp_path_factory.mktemp("machines"))
    yield machines
    machines.close()


class Lookout:
    """Looks at what is served, all the time: no strategy may be over a limit at the upper bounds."""

    def __init__(self, *servers: Server) -> None:
        self._servers, self._ended = servers, threading.Event()
        self.looks, self.over = 0, list[Any]()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Lookout:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        assert self.over == []
        assert self.looks > 0

    def _look(self) -> None:
        headers = {"Authorization": f"Bearer {self._servers[0].key}"}
        with httpx2.Client(headers=headers, timeout=5.0, verify=False) as client:
            while not self._ended.wait(0.05):
                for server in self._servers:
                    try:
                        answer = client.get(f"{server.address}/v1/experiments/routing")
                    except httpx2.TransportError:
                        continue
                    if answer.is_success:
                        self.looks += 1
                        if not within_limits(answer.json()):
                            self.over.append(answer.json())


def within_limits(status: Any) -> bool:
    """Whether a strategy keeps all limits at the bounds, with the baseline's costs as stated."""
    for guardrail in status["guardrails"]:
        worst = "upper" if guardrail["name"] == "spend" else "lower"
        stated = ROUTING["baseline_costs"][guardrail["name"]]
        value = sum(
            share * (stated if arm == ROUTING["baseline"] else guardrail["arms"][arm][worst])
            for arm, share in status["strategy"].items()
        )
        sign = 1.0 if worst == "upper" else -1.0
        if sign * value > sign * guardrail["limit"] + 1e-9:
            return False
    return True


def test_the_check_notices_a_strategy_over_a_limit() -> None:
    """The control."""
    arms = {arm: {"upper": 1.0, "lower": 0.5} for arm in ROUTING["arms"]}
    status = {
        "strategy": {"fast": 0.5, "balanced": 0.0, "in-house": 0.5},
        "guardrails": [{"name": "spend", "limit": 0.4, "arms": arms}],
    }  # fmt: skip
    assert not within_limits(status)
    status["strategy"] = {"fast": 0.1, "balanced": 0.0, "in-house": 0.9}
    assert within_limits(status)


def test_processes_are_killed_under_load(machines: Machines) -> None:
    """The learner each time, so that the other one takes over; now and then a decider as well."""
    with Load(*machines.deciders) as load, Lookout(*machines.all):
        for i in range(KILLS):
            load.wait_for(40)
            learner = machines.learners[i % 2]
            learner.kill()
            load.wait_for(20)
            learner.start()
            if i % 3 == 0:
                machines.deciders[0].kill()
                machines.deciders[0].start()
        load.wait_for(20)
    check(machines.deciders[0], load, machines.db)


def test_a_learner_that_stands_still_and_wakes_up(machines: Machines) -> None:
    with Load(*machines.deciders) as load, Lookout(*machines.deciders):
        load.wait_for(40)
        for learner in machines.learners:
            learner.process.send_signal(signal.SIGSTOP)
        time.sleep(4.0)
        for learner in machines.learners:
            learner.process.send_signal(signal.SIGCONT)
        load.wait_for(40)
    check(machines.deciders[1], load, machines.db)


def learns(server: Server) -> bool:
    """Whether a process learns the experiment."""
    metrics = httpx2.get(f"{server.address}/metrics", timeout=10.0, verify=False).text
    return 'surefoot_rounds{experiment="routing"}' in metrics


def test_a_learner_that_stands_still_for_long_is_replaced(machines: Machines) -> None:
    """When it wakes up, it can write nothing."""
    with Load(*machines.deciders) as load, Lookout(*machines.deciders):
        load.wait_for(20)
        stopped, spare = sorted(machines.learners, key=learns, reverse=True)
        stopped.process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 90.0
        while not learns(spare) and time.monotonic() < end:
            time.sleep(0.2)
        load.wait_for(20)
        stopped.process.send_signal(signal.SIGCONT)
        load.wait_for(20)
        assert learns(spare)
        assert not learns(stopped)
    check(machines.deciders[0], load, machines.db)


def test_postgresql_restarts_under_many_processes(machines: Machines, postgres: Postgres) -> None:
    """Without the database deciders serve the baseline, and say so."""
    with Load(*machines.deciders) as load, Lookout(*machines.all):
        for how in (signal.SIGINT, signal.SIGQUIT):
            load.wait_for(40)
            postgres.stop(how)
            load.wait_for(1, unlogged=True)
            postgres.start()
            load.wait_for(40)
    check(machines.deciders[0], load, machines.db)


def test_a_hold_has_reached_every_decider_when_it_is_answered(machines: Machines) -> None:
    with Load(*machines.deciders) as load:
        load.wait_for(40)
        machines.deciders[0].call("POST", "/v1/experiments/routing/hold", {"reason": "incident"})
        for decider in machines.deciders:
            body = {"count": 50}
            decisions = decider.call("POST", "/v1/experiments/routing/decisions", body)["decisions"]
            assert {(one["mode"], one["arm"]) for one in decisions} == {("safe", "in-house")}
