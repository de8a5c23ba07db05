"""What a decision of a running experiment costs: in memory, and with its log on disk."""

from __future__ import annotations

import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import surefoot as sf
from benchmarks.timing import best_of
from surefoot.experiments.fold import replay

BATCH = 100
CALLERS = 64
OUTCOME = {"quality": 0.5, "miss": 0.0}


def experiment() -> sf.Experiment:
    """Five arms and one guardrail."""
    return sf.Experiment(
        "speed",
        arms=["a", "b", "c", "d", "e"],
        objective=sf.Maximise("quality"),
        guardrails=[sf.AtMost("miss", 0.3)],
        baseline="e",
        baseline_costs={"miss": 0.1},
        timeout=1e6,
    )


def turn(live: sf.Live) -> None:
    """A decision and its feedback."""
    live.feedback(live.decide(now=0.0).id, OUTCOME, now=0.0)


def batch(live: sf.Live) -> None:
    """The same for many at once."""
    live.feedback_many([(one.id, OUTCOME) for one in live.decide(now=0.0, n=BATCH)], now=0.0)


def repeat(work: Callable[[sf.Live], None], live: sf.Live, times: int) -> None:
    for _ in range(times):
        work(live)


def in_memory() -> dict[str, float]:
    """Seconds per decision with its feedback, beside ask and tell of the policy."""
    live = sf.Live(experiment(), seed=1)
    policy = sf.SOLB(experiment().problem(), seed=1)
    for _ in range(3000):
        turn(live)
        policy.tell(policy.ask(), 0.5, [0.0])
    found = best_of({
        "ask and tell": lambda: policy.tell(policy.ask(), 0.5, [0.0]),
        "decide and feedback": lambda: turn(live),
        f"in batches of {BATCH}": lambda: batch(live),
    })  # fmt: skip
    found[f"in batches of {BATCH}"] /= BATCH
    return found


def memory() -> float:
    """Bytes per pending decision."""
    live = sf.Live(experiment(), seed=1)
    live.decide(now=0.0)
    tracemalloc.start()
    before, n = tracemalloc.get_traced_memory()[0], 20_000
    for i in range(n):
        live.decide(now=float(i))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / n


def on_disk(folder: Path) -> dict[str, float]:
    """Settled decisions a second with the log in a SQLite file; then events a second replayed from it."""
    live = sf.Live.open(folder / "speed.db", experiment(), seed=1)
    batch(live)
    found = {}
    with live:
        found["one commit each"] = rate(lambda: repeat(turn, live, 100), 100)
        found[f"batches of {BATCH}"] = rate(lambda: repeat(batch, live, 60), 60 * BATCH)
        found[f"{CALLERS} callers"] = rate(lambda: callers(live, 60), 60 * CALLERS)
        started = time.perf_counter()
        fold = replay(live.log)
        found["rounds replayed"] = fold.rounds / (time.perf_counter() - started)
    return found


def rate(work: Callable[[], None], n: int) -> float:
    """How many of n pieces of work are done a second."""
    started = time.perf_counter()
    work()
    return n / (time.perf_counter() - started)


def callers(live: sf.Live, each: int) -> None:
    """Many threads, each waiting for its own answers."""
    threads = [threading.Thread(target=repeat, args=(turn, live, each)) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def report() -> None:
    print("\nA running experiment, K = 5, m = 1: microseconds per decision with its feedback, in memory")
    print("  " + ", ".join(f"{name} {seconds * 1e6:.1f}" for name, seconds in in_memory().items()))
    print(f"  bytes per pending decision: {memory():.0f}")
    with tempfile.TemporaryDirectory() as folder:
        found = on_disk(Path(folder))
    one = found["one commit each"]
    print("Settled decisions a second with the log in a SQLite file, and how many times one commit each")
    print("  " + ", ".join(f"{name} {n:,.0f} ({n / one:.0f}x)" for name, n in found.items()))


if __name__ == "__main__":
    report()
