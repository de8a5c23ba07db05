"""Hours in the life of the service, shortened by a clock that runs fast, with everything that goes wrong.

Run as a program, this module is the service with that clock: ``python -m tests.service.soak DB ORIGIN SPEED``.
"""

from __future__ import annotations

import heapq
import http.client
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import uvicorn

from surefoot.service.app import build
from surefoot.service.serve import bound
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key, list_keys, revoke_key

TIMEOUT, LIMIT, BATCH = 600.0, 0.3, 8
STEADY, DRIFTING = "steady", "drifting"
COSTS, AFTER = {"bold": 0.15, "risky": 0.6, "base": 0.1}, {"bold": 0.7, "risky": 0.7, "base": 0.1}
"""How often an arm misses; and in the experiment that drifts, after a third of the time."""
QUALITY = {"bold": 0.9, "risky": 0.8, "base": 0.2}


class FastClock:
    """Seconds that pass `speed` times as fast as others, since `origin`."""

    def __init__(self, origin: float, speed: float) -> None:
        self.origin, self.speed = origin, speed

    def __call__(self) -> float:
        return self.origin + (time.time() - self.origin) * self.speed


def serve(db: str, clock: FastClock) -> None:
    """The service, on a port that it prints."""
    with bound("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(build(db, rate=1e9, clock=clock), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


class Service:
    """The service in a process of its own, which may be killed, and a connection to it."""

    def __init__(self, db: str, clock: FastClock, key: str) -> None:
        self.db, self.clock, self.key = db, clock, key
        self.lives: list[list[float]] = []  # of each process, the memory that it had, in MB
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.service.soak", self.db, str(self.clock.origin), str(self.clock.speed)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.connection = http.client.HTTPConnection("127.0.0.1", int(self.process.stdout.readline()), timeout=60)
        while self.call("GET", "/readyz")[0] != 200:
            time.sleep(0.1)
        self.lives.append([])
        self.weigh()

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(60)
        self.connection.close()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def weigh(self) -> None:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        self.lives[-1].append(int(status.split("VmRSS:")[1].split()[0]) / 1024)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the answer."""
        content = None if body is None else json.dumps(body)
        self.connection.request(method, path, content, {"Authorization": f"Bearer {self.key}", **headers})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        lines = "/rounds" in path and answer.status == 200
        return answer.status, [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer to a request that must succeed; it is sent again while the service fails."""
        for _ in range(600):
            status, answer = self.call(method, path, body, **headers)
            if status < 300:
                return answer
            assert status == 503, answer
            time.sleep(0.1)
        raise AssertionError("the service does not come back")


@dataclass
class Soaked:
    """What happened. `lost`, `twice`, `mistaken` and `unsafe` must be 0."""

    decisions: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    resumed: int = 0  # after an alarm
    restarts: int = 0
    keys: int = 0
    lost: int = 0  # acknowledged, and not learnt
    twice: int = 0  # learnt twice
    mistaken: int = 0  # learnt in another way than was answered
    dropped: int = 0  # forgotten by the new epoch after the alarm, as it should be
    unsafe: int = 0  # looks at a strategy that was over the limit
    looks: int = 0
    drifted: int = 0  # the same between the drift and its alarm
    alarm_after: float | None = None  # seconds from the drift to the alarm
    memory: list[tuple[float, float]] = field(default_factory=list)  # MB of each process, first and last
    size: tuple[float, float] = (0.0, 0.0)  # MB of the database, after a tenth of the time and at its end
    p99: tuple[float, float] = (0.0, 0.0)  # milliseconds of a decision, the first and the last tenth of them


class Day:
    """The callers."""

    def __init__(self, folder: Path, seconds: float, hours: float, restarts: int, seed: int) -> None:
        self.length = 3600 * hours
        self.rng, self.clock = Random(seed), FastClock(time.time(), self.length / seconds)
        self.db = str(folder / "soak.db")
        self.found = Soaked()
        self.service = Service(self.db, self.clock, self.new_key())
        self.begin = self.clock()
        # Late: on this clock a restart takes longer than the time-out, so what is open counts as the worst case, and
        # the watch may raise an alarm.
        self.moments = [self.begin + self.length * (0.7 + 0.2 * i / restarts) for i in range(restarts)]
        self.coming: list[tuple[float, int, str, dict[str, Any]]] = []
        self.made: dict[str, dict[str, str]] = {STEADY: {}, DRIFTING: {}}  # what was last answered
        self.epochs: dict[str, int] = {}
        self.times: list[float] = []  # of decisions, in seconds
        self.held: dict[str, float] = {}  # since when

    # Keys.

    def new_key(self) -> str:
        """A key that replaces the earlier ones."""
        database = Database.open(self.db)
        try:
            old = [key.id for key in list_keys(database).values() if key.revoked is None]
            key = create_key(database, f"caller {self.found.keys}", ["admin"], self.clock())
            for id in old:
                revoke_key(database, id, self.clock())
        finally:
            database.close()
        self.found.keys += 1
        return key

    def change_key(self) -> None:
        """The old key is refused soon, and the new one is known by then."""
        key, until = self.new_key(), time.monotonic() + 30
        while self.service.call("GET", "/v1/experiments")[0] != 401:
            assert time.monotonic() < until, "a revoked key is still taken"
            time.sleep(0.05)
        self.service.key = key
        self.service.ok("GET", "/v1/experiments")

    # Traffic.

    @property
    def drift(self) -> float:
        return self.begin + self.length / 3

    def cost(self, name: str, arm: str) -> float:
        return (AFTER if name == DRIFTING and self.clock() >= self.drift else COSTS)[arm]

    def decide(self, name: str, turn: int) -> None:
        """Some decisions; their feedback is late if it is bad, and may be lost or repeated."""
        started = time.perf_counter()
        body, key = {"count": BATCH}, f"turn {turn}"
        path = f"/v1/experiments/{name}/decisions"
        decisions = self.service.ok("POST", path, body, **{"Idempotency-Key": key})["decisions"]
        self.times.append(time.perf_counter() - started)
        now = self.clock()
        if self.rng.random() < 0.05:  # as if the answer had been lost
            again = self.service.ok("POST", path, body, **{"Idempotency-Key": key})["decisions"]
            assert again == decisions
        for one in decisions:
            assert one["id"] not in self.made[name]
            self.made[name][one["id"]], self.epochs[one["id"]] = "decided", one["epoch"]
            miss = self.rng.random() < self.cost(name, one["arm"])
            delay = self.rng.expovariate(1 / 200 if miss else 1 / 20)  # the time-out is 600
            if self.rng.random() < (0.05 if miss else 0.01):
                continue
            outcome = {"quality": QUALITY[one["arm"]], "miss": miss}
            for _ in range(self.rng.choice([1, 1, 1, 1, 3])):
                when = now + delay + self.rng.expovariate(1 / 5)
                heapq.heappush(self.coming, (when, self.rng.getrandbits(60), one["id"], outcome))

    def report(self) -> None:
        items: list[dict[str, Any]] = []
        while self.coming and self.coming[0][0] <= self.clock() and len(items) < 1000:
            _, _, id, outcome = heapq.heappop(self.coming)
            items.append({"id": id, "outcome": outcome})
        if not items:
            return
        for one in self.service.ok("POST", "/v1/feedback", {"items": items})["items"]:
            assert "status" in one, one
            self.found.answers[one["status"]] += 1
            made = next(made for made in self.made.values() if one["id"] in made)
            if one["status"] == "late":
                made[one["id"]] = "late"
            else:
                assert made[one["id"]] != "late", "late feedback was taken the second time"
                made[one["id"]] = "taken"

    def look(self, name: str) -> None:
        """Whether the strategy is within the limit in truth."""
        answer = self.service.ok("GET", f"/v1/experiments/{name}/strategy")
        over = sum(share * self.cost(name, arm) for arm, share in answer["strategy"].items()) > LIMIT + 1e-9
        self.found.looks += 1
        drifted = name == DRIFTING and self.clock() >= self.drift
        if drifted and self.found.alarm_after is None:
            self.found.drifted += over
        else:
            self.found.unsafe += over
        if self.service.ok("GET", f"/v1/experiments/{name}")["state"] != "held":
            return
        since = self.held.setdefault(name, self.clock())
        if drifted and self.found.alarm_after is None:
            self.found.alarm_after = self.clock() - self.drift
        if self.clock() > since + self.length / 20:
            del self.held[name]
            self.service.ok("POST", f"/v1/experiments/{name}/resume", {"reason": "looked at"})
            self.found.resumed += 1

    def restart(self) -> None:
        """Killed while a request waits for its answer, or asked to end, in turn."""
        self.found.restarts += 1
        if self.found.restarts % 2 == 0:
            self.service.end(signal.SIGTERM)
        else:
            path = f"/v1/experiments/{STEADY}/decisions"
            headers = {"Authorization": f"Bearer {self.service.key}", "Idempotency-Key": "lost"}
            self.service.connection.request("POST", path, '{"count": 100}', headers)
            self.service.end(signal.SIGKILL)
        self.service.start()

    def live(self) -> Soaked:
        """From the beginning to the end."""
        for name in (STEADY, DRIFTING):
            self.service.ok("POST", "/v1/experiments", {
                "name": name, "arms": list(COSTS), "objective": {"maximise": "quality"}, "timeout": TIMEOUT,
                "guardrails": [{"name": "miss", "at_most": LIMIT}], "baseline": "base",
                "baseline_costs": {"miss": 0.15},
            })  # fmt: skip
        turn, sizes, keyed = 0, [0.0, 0.0], self.begin
        while self.moments or self.clock() < self.begin + self.length:
            turn += 1
            for name in (STEADY, DRIFTING):
                self.decide(name, turn)
                self.look(name)
            self.report()
            if self.moments and self.clock() >= self.moments[0]:
                self.moments.pop(0)
                self.restart()
            if self.clock() >= keyed + self.length / 6:
                keyed = self.clock()
                self.change_key()
            if turn % 20 == 0:
                self.service.weigh()
            if sizes[0] == 0.0 and self.clock() > self.begin + self.length / 10:
                sizes[0] = self.size()
            time.sleep(0.005)
        while self.coming or any(self.pending(name) for name in (STEADY, DRIFTING)):
            self.report()
            time.sleep(0.05)
        self.service.weigh()
        self.found.size = sizes[0], self.size()
        self.check()
        self.service.end(signal.SIGTERM)
        return self.found

    def pending(self, name: str) -> int:
        return int(self.service.ok("GET", f"/v1/experiments/{name}")["pending"])

    def size(self) -> float:
        return sum(path.stat().st_size for path in Path(self.db).parent.glob("soak.db*")) / 1e6

    def check(self) -> None:
        """Compare what was answered with what was learnt."""
        found = self.found
        for name, made in self.made.items():
            rounds = self.service.ok("GET", f"/v1/experiments/{name}/rounds")
            assert [one["seq"] for one in rounds] == list(range(1, len(rounds) + 1))
            learnt = Counter(one["id"] for one in rounds)
            source = {one["id"]: one["source"] for one in rounds}
            found.decisions += len(made)
            found.twice += sum(times > 1 for times in learnt.values())
            epoch = self.service.ok("GET", f"/v1/experiments/{name}")["epoch"]
            missing = [self.epochs[id] < epoch for id in made if id not in learnt]
            found.dropped += sum(missing)
            found.lost += len(missing) - sum(missing)
            expected = {"taken": "feedback", "late": "timeout", "decided": "timeout"}
            found.mistaken += sum(source.get(id, expected[how]) != expected[how] for id, how in made.items())
        tenth = max(1, len(self.times) // 10)
        first, last = (float(np.quantile(some, 0.99)) * 1e3 for some in (self.times[:tenth], self.times[-tenth:]))
        found.p99 = first, last
        found.memory = [(life[0], life[-1]) for life in self.service.lives]


def soak(folder: Path, seconds: float, hours: float, restarts: int, seed: int) -> Soaked:
    """Live through some hours in this many seconds."""
    day = Day(folder, seconds, hours, restarts, seed)
    try:
        return day.live()
    finally:
        if day.service.process.poll() is None:
            day.service.end(signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1], FastClock(float(sys.argv[2]), float(sys.argv[3])))
