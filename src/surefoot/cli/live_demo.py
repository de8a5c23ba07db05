"""`surefoot demo --live`: the decision service at work, on simulated traffic, in about a minute."""

from __future__ import annotations

import heapq
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from surefoot.client import Client, Decision, NoAnswer
from surefoot.simulation.interruption import until_interrupted
from surefoot.simulation.progress import Bar

NAME = "llm-routing"
EXPERIMENT: dict[str, Any] = {
    "name": NAME,
    "arms": ["reasoning", "flagship", "balanced", "fast", "in-house"],
    "objective": {"maximise": "quality"},
    "guardrails": [
        {"name": "spend", "at_most": 0.40, "high": 2.0, "unit": "cents"},
        {"name": "latency miss", "at_most": 0.20},
        {"name": "answered", "at_least": 0.95},
    ],
    "baseline": "in-house",
    "baseline_costs": {"spend": 0.08, "latency miss": 0.05, "answered": 0.99},
    "timeout": 3.0,
}
BATCH = 50
DRIFTING = "balanced"


class Model(NamedTuple):
    """Mean outcomes of a backend."""

    quality: float
    spend: float
    miss: float
    answered: float


class World:
    """Backends that answer late, or not at all.

    An answer that misses its deadline is late by nature, so bad feedback comes after good feedback. One in 200 outcomes
    is lost. While the experiment learns, it moves most traffic to the balanced backend, whose answers are good and
    cheap. Then that backend becomes slow: from 10 % to 60 % of its answers miss their deadline. With 70 % of the
    traffic there, half of what is served misses it, where 20 % may.

    With these figures, and `Sizes` as they are, `sf.Live` raised the alarm in 20 of 20 runs (seeds 1 to 20), never
    before the drift, and 1,350 to 1,900 decisions after it. Most of that is waiting: the watch takes decisions in their
    order, so it waits 3 seconds, or 1,800 decisions, for the next one whose outcome is lost. The new epoch had no
    alarm, and had left the baseline by its end in 19 of 20 runs.
    """

    LOST = 0.005

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.models = {
            "reasoning": Model(0.90, 1.10, 0.45, 0.975),
            "flagship": Model(0.84, 0.60, 0.22, 0.985),
            "balanced": Model(0.76, 0.30, 0.10, 0.990),
            "fast": Model(0.62, 0.12, 0.03, 0.990),
            "in-house": Model(0.45, 0.08, 0.04, 0.992),
        }

    def drift(self) -> None:
        """Let one backend become slow."""
        self.models[DRIFTING] = self.models[DRIFTING]._replace(miss=0.6)

    def serve(self, arm: str) -> tuple[dict[str, Any], float | None]:
        """The outcome of a request, and after how many seconds it is known; None: it gets lost on the way."""
        model, draw = self.models[arm], self._random
        missed = draw.random() < model.miss
        outcome = {
            "quality": min(1.0, max(0.0, draw.gauss(model.quality, 0.1))),
            "spend": min(2.0, max(0.0, draw.gauss(model.spend, 0.2 * model.spend))),
            "latency miss": missed,
            "answered": draw.random() < model.answered,
        }
        delay = draw.uniform(0.8, 1.5) if missed else draw.uniform(0.05, 0.4)
        return outcome, None if draw.random() < self.LOST else delay


class Sizes(NamedTuple):
    """How much traffic: decisions before the drift, at most until the alarm, while held, in the new epoch; a second."""

    learn: int = 14_000
    patience: int = 8_000
    held: int = 1_200
    again: int = 14_000
    rate: float = 600.0


@dataclass
class Phase:
    """What was served in a phase."""

    name: str
    arms: Counter[str] = field(default_factory=Counter)
    totals: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    alarms: int = 0

    @property
    def decisions(self) -> int:
        """How many decisions were made."""
        return self.arms.total()

    def add(self, arm: str, outcome: dict[str, Any]) -> None:
        """Count a decision."""
        self.arms[arm] += 1
        for name, value in outcome.items():
            self.totals[name] += float(value)

    def mean(self, name: str) -> float:
        """The mean of a quantity."""
        return self.totals[name] / max(1, self.decisions)


class Ended(Exception):
    """The demo ends before its time; the exit code says why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Traffic:
    """Requests that come at a steady rate, and outcomes that are reported when they are known."""

    def __init__(self, client: Client, world: World, rate: float, stop: threading.Event, bar: Bar) -> None:
        self._client, self._world, self._rate, self._stop, self._bar = client, world, rate, stop, bar
        self._due: list[tuple[float, int, str, dict[str, Any]]] = []
        self._numbers = count()
        self.by_baseline = Phase("baseline")

    def drive(self, phase: Phase, decisions: int, until: Callable[[Decision], bool] = lambda one: False) -> bool:
        """Serve so many requests, or stop early; returns whether `until` became true."""
        started = time.monotonic()
        while phase.decisions < decisions:
            if self._stop.is_set():
                raise Ended(130, "stopped")
            found = self._client.decide(NAME, n=BATCH)
            for decision in found:
                self._serve(decision, phase)
            self._report()
            self._bar.advance(BATCH)
            if any(map(until, found)):
                return True
            time.sleep(max(0.0, started + phase.decisions / self._rate - time.monotonic()))
        return False

    def _serve(self, decision: Decision, phase: Phase) -> None:
        outcome, delay = self._world.serve(decision.arm)
        phase.add(decision.arm, outcome)
        if decision.arm == EXPERIMENT["baseline"]:
            self.by_baseline.add(decision.arm, outcome)
        if decision.id is not None and delay is not None:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), decision.id, outcome))

    def _report(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, id, outcome = heapq.heappop(self._due)
            self._client.feedback(id, outcome)


def carry_out(seed: int, sizes: Sizes | None = None) -> None:
    """Run the demo; exits with 1 if what it is to show does not happen, and with 130 if it is interrupted."""
    try:
        with (
            until_interrupted() as stop,
            terminated(),
            tempfile.TemporaryDirectory(prefix="surefoot-") as folder,
            service(Path(folder), stop) as (address, key),
        ):
            show(address, key, seed, sizes or Sizes(), stop)
    except Ended as end:
        print(end, file=sys.stderr)
        raise typer.Exit(end.code) from None


def show(address: str, key: str, seed: int, sizes: Sizes, stop: threading.Event) -> None:
    """Drive traffic through all phases, and tell what happens."""
    world = World(seed)
    learning, drifted, held, again = (Phase(name) for name in ("learning", "drifted", "held", "new epoch"))
    total = sizes.learn + sizes.held + sizes.again
    with (
        Client(address, key, timeout=30.0, baselines={NAME: EXPERIMENT["baseline"]}) as client,
        Bar("traffic", total, unit="decisions") as bar,
    ):
        client.create(EXPERIMENT)
        traffic = Traffic(client, world, sizes.rate, stop, bar)
        say(f"{sizes.rate:,.0f} requests a second; only the baseline, {EXPERIMENT['baseline']}, is known to be safe")

        if traffic.drive(learning, sizes.learn, is_held):
            raise Ended(1, f"a false alarm, before anything has drifted: {alarms_of(client)[-1]['message']}")
        say(f"learning: {shares(learning)}; now {shares_of(client)}")

        world.drift()
        say(f"drift: the {DRIFTING} backend has become slow; nobody tells the service")
        if not traffic.drive(drifted, sizes.patience, is_held):
            raise Ended(1, f"no alarm within {sizes.patience} decisions after the drift")
        alarms = alarms_of(client)
        drifted.alarms = len(alarms)
        say(f"alarm after {drifted.decisions} decisions: {alarms[0]['message']}")
        say(f"held: the service serves the baseline, {EXPERIMENT['baseline']}")
        traffic.drive(held, sizes.held)
        for alarm in alarms_of(client)[drifted.alarms :]:  # from decisions that were made before the hold
            held.alarms += 1
            say(f"another alarm: {alarm['message']}")

        epoch = client.resume(NAME, f"the {DRIFTING} backend stays slow: learn again")["epoch"]
        say(f"resumed by the operator: epoch {epoch} begins, and what was learnt is forgotten")
        traffic.drive(again, sizes.again)
        again.alarms = len(alarms_of(client)) - drifted.alarms - held.alarms
        say(f"new epoch: {shares(again)}; now {shares_of(client)}")
        if client.dropped:
            say(f"feedback that was not learnt: {client.dropped}")
    Console(highlight=False).print(table([learning, drifted, held, again], traffic.by_baseline.mean("quality")))


def is_held(decision: Decision) -> bool:
    """Whether the service serves the baseline because of an alarm, not the client because nothing answers."""
    return decision.mode == "safe" and decision.logged


def say(what: str) -> None:
    """Tell what happens, in a line."""
    print(what, flush=True)


def shares(phase: Phase) -> str:
    """The share of each arm in a phase."""
    return ", ".join(f"{arm} {n / phase.decisions:.0%}" for arm, n in phase.arms.most_common())


def shares_of(client: Client) -> str:
    """The strategy as it is now."""
    strategy = client.status(NAME)["strategy"]
    return ", ".join(f"{arm} {p:.0%}" for arm, p in sorted(strategy.items(), key=lambda one: -one[1]) if p > 0.005)


def alarms_of(client: Client) -> list[dict[str, Any]]:
    """All alarms so far after which the baseline is served."""
    return [alarm for alarm in client.status(NAME)["alarms"] if alarm["holds"]]


def table(phases: list[Phase], baseline: float) -> Table:
    """What was served in each phase, by what was measured."""
    found = Table("", *(phase.name for phase in phases), box=None, pad_edge=False, title="What was served")
    for column in found.columns[1:]:
        column.justify = "right"
    found.add_row("decisions", *(f"{phase.decisions:,}" for phase in phases))
    for arm in EXPERIMENT["arms"]:
        found.add_row(f"share of {arm}", *(f"{phase.arms[arm] / max(1, phase.decisions):.1%}" for phase in phases))
    for guardrail in EXPERIMENT["guardrails"]:
        name, most = guardrail["name"], guardrail.get("at_most")
        limit = guardrail["at_least"] if most is None else most
        cells = []
        for phase in phases:
            mean = phase.mean(name)
            over = mean < limit if most is None else mean > limit
            cells.append(f"{mean:.3f}{' over' if over else ''}")
        found.add_row(f"mean {name}, {'at least' if most is None else 'at most'} {limit:g}", *cells)
    found.add_row("mean quality", *(f"{phase.mean('quality'):.3f}" for phase in phases))
    found.add_row(
        f"more than the baseline's {baseline:.3f}", *(f"{phase.mean('quality') - baseline:+.3f}" for phase in phases)
    )
    found.add_row("alarms", *(str(phase.alarms) for phase in phases))
    return found


# The service.


@contextmanager
def terminated() -> Iterator[None]:
    """End by SystemExit on SIGTERM, so that the service ends, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def service(folder: Path, stop: threading.Event) -> Iterator[tuple[str, str]]:
    """Run the service on a free port until the end; yields its address and a key."""
    command = [sys.executable, "-m", "surefoot", "serve", "--db", str(folder / "demo.db"), "--port", "0"]
    with (folder / "log").open("w") as log, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True  # Ctrl-C is for the demo alone
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            said = [process.stdout.readline().strip().partition(": ")[2] for _ in range(2)]
            if not all(said):
                raise Ended(1, f"the service does not start: {(folder / 'log').read_text().strip()}")
            address, key = said
            say(f"address: {address}")
            say(f"admin key: {key}  (open the address in a browser and log in with it to watch)")
            say("the service starts; the first time it compiles, which takes a minute or two")
            wait_until_ready(address, key, process, stop)
            yield address, key
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_until_ready(address: str, key: str, process: subprocess.Popen[str], stop: threading.Event) -> None:
    """Return when the service answers."""
    with Client(address, key, retries=0) as client:
        while process.poll() is None:
            if stop.wait(0.2):
                raise Ended(130, "stopped")
            try:
                client.experiments()
            except NoAnswer:
                continue
            return
    raise Ended(1, "the service has ended before it was ready")
