"""A running experiment in worlds where feedback is late, lost or repeated, and where costs change.

``python -m benchmarks.live`` prints the tables of docs/theory/measurements.md, and ``python -m benchmarks.live worlds``
one of them, by its name in `PARTS`. Seeds start at 5000.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.statistics import mean_interval, share_interval
from surefoot.experiments.events import MemoryLog
from surefoot.experiments.watch import Detector
from surefoot.kernels.detector import BETS, bets_against
from surefoot.theory import mutations
from surefoot.theory.live import Witness, World, in_batches, live_through, misses_late, rounds_to_alarm

FIRST_SEED, RUNS, ROUNDS = 5000, 400, 1_000
WORKERS = 2
DRIFTS = (0.12, 0.15, 0.20, 0.30)


class Run(NamedTuple):
    """What is kept of a run."""

    over: int  # decisions from a strategy over the limit
    excess: float  # the most by which one was
    gain: float  # a round
    alarm: int | None  # the round of the first alarm that holds


def of(live: Witness, rounds: int, alarmed: int | None = None) -> Run:
    if alarmed is None:
        alarmed = next((alarm.round for alarm in live._fold.alarms if alarm.holds), None)
    return Run(live.over, live.excess, live.gain / rounds, alarmed)


def seeds(work: Callable[[int], Any], runs: int) -> list[Any]:
    """The results of many seeds, on a few processes."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        return list(pool.map(work, range(FIRST_SEED, FIRST_SEED + runs), chunksize=10))


def table(head: str, rows: Iterator[str]) -> None:
    print(f"\n| {head} |\n|{'---|' * (head.count('|') + 1)}", flush=True)
    for row in rows:
        print(f"| {row} |", flush=True)


# Worlds: are strategies safe?


def lived(world: World, mutation: Any, rounds: int, seed: int) -> Run:
    found = live_through(world, rounds, seed, mutation)
    return of(found.live, rounds, found.alarmed)


def costs_of(world: World, seed: int) -> Iterator[list[float]]:
    chance = np.random.default_rng([seed, 1]).random(ROUNDS)
    return ([float(u < cost) for cost in world.costs] for u in chance)


def crashed(world: World, mutation: Any, rounds: int, seed: int) -> Run:
    """After a bad stretch the process dies, before the last report is written, and starts again from the same log."""
    log = MemoryLog()
    live = Witness(world.experiment(), seed, log=log)
    kept = live.truth, live.gains = np.array(world.costs), np.array(world.gains)
    recent: deque[float] = deque(maxlen=10)
    for t, costs in enumerate(costs_of(world, seed)):
        choice = live.decide(float(t))
        arm = world.arms.index(choice.arm)
        outcome = {"gain": world.gains[arm], "cost": costs[arm]}
        recent.append(costs[arm])
        if len(recent) == 10 and sum(recent) >= 5:
            recent.clear()
            seen = live.excess, live.over, live.gain
            live = Witness.of(log)  # type: ignore[assignment]
            live.truth, live.gains = kept
            live.excess, live.over, live.gain = seen
        live.feedback(choice.id, outcome, float(t))
    return of(live, rounds)


def threaded(world: World, mutation: Any, rounds: int, seed: int) -> Run:
    """Four threads decide and report, each of them a miss only four decisions later."""
    live = Witness(world.experiment(), seed)
    live.truth, live.gains = np.array(world.costs), np.array(world.gains)

    def work(thread: int) -> None:
        rng, late = np.random.default_rng([seed, thread]), deque[tuple[str, dict[str, float]]]()
        for _ in range(rounds // 4):
            choice = live.decide(0.0)
            arm = world.arms.index(choice.arm)
            cost = float(rng.random() < world.costs[arm])
            report = choice.id, {"gain": world.gains[arm], "cost": cost}
            if cost:
                late.append(report)
            else:
                live.feedback(*report, 0.0)
            if len(late) > 4:
                live.feedback(*late.popleft(), 0.0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return of(live, rounds)


MISSING = World(costs=(0.5, 0.02, 0.1), gains=(1.0, 0.7, 0.0), missing=(0.2, 0.5, 0.1))
WORLDS: dict[str, tuple[Callable[..., Run], World, Any]] = {
    "feedback at once": (lived, World(), None),
    "misses 100 rounds late": (lived, World(delay=misses_late), mutations.ArrivalOrder),
    "misses lost with probability 0.2": (lived, World(lost=(0.0, 0.2), timeout=20.0), mutations.DropsTimeouts),
    "misses lost with probability 0.4": (lived, World(lost=(0.0, 0.4), timeout=20.0), mutations.DropsTimeouts),
    "20 % lost, whatever they are": (lived, World(lost=(0.2, 0.2), timeout=20.0), None),
    "delivered 5 times": (lived, World(copies=5), mutations.LearnsAgain),
    "an arm reports in batches": (lived, World(delay=in_batches, timeout=500.0), None),
    "arms missing": (lived, MISSING, mutations.ScalesUp),
    "crash after bad stretches": (crashed, World(), None),
    "four threads": (threaded, World(), None),
}


def unsafe(runs: list[Run]) -> str:
    failed = sum(run.over > 0 for run in runs)
    found = share_interval(failed, len(runs))
    return f"{failed} of {len(runs)} ({100 * found.low:.1f} to {100 * found.high:.1f} %)"


def worlds(runs: int = RUNS) -> None:
    """Runs with a strategy over the limit, and what is gained."""

    def rows() -> Iterator[str]:
        for name, (run, world, mutation) in WORLDS.items():
            found = seeds(partial(run, world, None, ROUNDS), runs)
            gain = mean_interval([one.gain for one in found])
            wrong = "" if mutation is None else unsafe(seeds(partial(run, world, mutation, ROUNDS), runs // 4))
            gained = f"{gain.value:.3f} +- {gain.high - gain.value:.3f}"
            alarms = sum(one.alarm is not None for one in found)
            yield f"{name} | {unsafe(found)} | {gained} | {alarms} | {wrong}"

    table(
        "scenario | unsafe runs, with 95 % interval | gain a round | runs with an alarm | unsafe if it is wrong", rows()
    )


# The watch: how soon, and how often for no reason?


def first_alarms(runs: int, rounds: int, mean: float, enough: float, change: int = 0) -> list[int | None]:
    """In which round a detector finds costs of this mean, which was 0.07 until `change`; the limit is 0.1."""
    detector, rng = Detector(np.full(runs, 0.1), enough), np.random.default_rng(FIRST_SEED)
    found: list[int | None] = [None] * runs
    for t in range(rounds):
        detector.see((rng.random(runs) < (mean if t >= change else 0.07)).astype(float))
        for run in np.flatnonzero(detector.evidence[:, 0] == 0.0):  # it begins again after an alarm
            found[run] = t if found[run] is None else found[run]
    return found


def growth(mean: float, limit: float) -> float:
    """The mean by which the best bet's logarithm grows in a decision."""
    bets = bets_against(np.array([limit]))[0]
    return float(np.max(mean * np.log1p(bets * (1 - limit)) + (1 - mean) * np.log1p(-bets * limit)))


def took(found: list[int | None], change: int) -> str:
    """Decisions from the change to the alarm: the mean, and the 95 % quantile."""
    times = [alarm + 1 - change for alarm in found if alarm is not None]
    if len(times) < len(found):
        return f"{len(times)} of {len(found)} runs"
    spent = mean_interval(times)
    return f"{spent.value:,.0f} +- {spent.high - spent.value:,.0f} | {np.quantile(times, 0.95):,.0f}"


def drifts(runs: int = RUNS, change: int = 1_000) -> None:
    """Decisions from a drift to an alarm about what is served."""

    def rows() -> Iterator[str]:
        for alarm_every in (1e5, 1e6):
            enough = 2.0 * alarm_every
            for mean in DRIFTS:
                most = rounds_to_alarm(mean, 0.1, enough, 0.05)
                found = first_alarms(runs, change + 3 * most, mean, enough, change)
                late = sum(alarm is None or alarm + 1 - change > most for alarm in found)
                divergence = mean * np.log(mean / 0.1) + (1 - mean) * np.log((1 - mean) / 0.9)
                yield (
                    f"{alarm_every:,.0f} | {mean:.2f} | {took(found, change)} | "
                    f"{np.log(BETS * enough) / growth(mean, 0.1):,.0f} | {np.log(enough) / divergence:,.0f} | {most:,} | "
                    f"{late} of {runs}"
                )

    table(
        "alarm_every | drift to | decisions until the alarm | 95 % of runs | ln(7 A) / growth | ln(A) / KL | "
        "proved for 95 % | later than that",
        rows(),
    )


def all_arms(runs: int = 100, change: int = 200) -> None:
    """Decisions from a drift of all arms to the hold: here the baseline's own detector is first."""

    def rows() -> Iterator[str]:
        for mean, rounds in zip(DRIFTS, (3_000, 1_200, 600, 300), strict=True):
            world = World((0.07, 0.07), limit=0.1, later=(mean, mean), change=change)
            found = [run.alarm for run in seeds(partial(lived, world, None, change + rounds), runs)]
            yield f"{mean:.2f} | {took(found, change)}"

    table("drift of all arms from 0.07 to | decisions until the hold | 95 % of runs", rows())


def false_alarms(runs: int = RUNS, rounds: int = 20_000) -> None:
    """Alarms of the watch in runs without a drift."""

    def rows() -> Iterator[str]:
        for alarm_every in (1e4, 1e5, 1e6):
            for mean in (0.07, 0.1):
                alarms = sum(alarm is not None for alarm in first_alarms(runs, rounds, mean, 2.0 * alarm_every))
                found, most = share_interval(alarms, runs), rounds / (2.0 * alarm_every)
                shown = f"{alarms} of {runs} ({100 * found.low:.1f} to {100 * found.high:.1f} %)"
                yield f"{alarm_every:,.0f} | {mean:.2f} | {shown} | {100 * min(1.0, most):.0f} %"

    table(f"alarm_every | served at, limit 0.10 | runs of {rounds:,} decisions with an alarm | proved: at most", rows())


def dear_arm(runs: int = 100, rounds: int = 4_000, change: int = 1_500) -> None:
    """One arm becomes dearer: what is over the limit until the hold, and what the hold costs."""

    def rows() -> Iterator[str]:
        for mean in (0.4, 0.5, 0.6, 0.8):
            world = World((0.3, 0.1), limit=0.2, later=(mean, 0.1), change=change)
            found = seeds(partial(lived, world, None, rounds), runs)
            over, held = mean_interval([run.over for run in found]), [run for run in found if run.alarm is not None]
            most = max(run.excess for run in found)
            best = (0.2 - 0.1) / (mean - 0.1)  # the share of the arm that is safe after the drift
            yield (
                f"{mean:.1f} | {len(held)} of {runs} | {over.value:,.0f} +- {over.high - over.value:,.0f} | "
                f"{100 * over.value / rounds:.1f} % | {most:.3f} | {best:.2f}"
            )

    table(
        f"drift of the arm from 0.3 to | held within {rounds - change:,} decisions | decisions over the limit | "
        "of all | most excess | gain a round given up while held",
        rows(),
    )


PARTS = {"worlds": worlds, "drifts": drifts, "false_alarms": false_alarms, "all_arms": all_arms, "dear_arm": dear_arm}


def report() -> None:
    """Print all tables."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
