"""How long a learner takes to come back: from the newest checkpoint and what follows it, and from the first event."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

import surefoot as sf
from benchmarks.live_speed import experiment
from surefoot.experiments.fold import Fold, replay
from surefoot.storage import open_log

ROUNDS = 1_000_000
BATCH = 1_000


def fill(path: Path, rounds: int) -> None:
    """A log with this many rounds, whose outcomes vary."""
    rng = random.Random(1)
    with sf.Live.open(path, experiment(), seed=1) as live:
        for _ in range(rounds // BATCH):
            items = [
                (one.id, {"quality": rng.random(), "miss": float(rng.random() < 0.1)})
                for one in live.decide(now=0.0, n=BATCH)
            ]
            live.feedback_many(items, now=0.0)


def measure(path: Path) -> dict[str, float]:
    """Seconds for each way, and the rounds a second of the second."""
    started = time.perf_counter()
    with sf.Live.open(path) as live:
        live.decide(now=0.0)
        from_checkpoint = time.perf_counter() - started
        rounds = live.rounds
    log = open_log(path)
    started = time.perf_counter()
    fold: Fold = replay(log)
    from_nothing = time.perf_counter() - started
    assert fold.rounds == rounds
    log.close()
    return {"checkpoint": from_checkpoint, "nothing": from_nothing, "rate": rounds / from_nothing}


def report(rounds: int = ROUNDS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        started = time.perf_counter()
        fill(path, rounds)
        filled = time.perf_counter() - started
        found = measure(path)
        size = path.stat().st_size
    print(
        f"\nRecovery of {rounds:,} rounds from SQLite (K = 5, m = 1; written in {filled:.0f} s, {size / 1e6:,.0f} MB)"
    )
    print(f"  by checkpoint and tail: {found['checkpoint']:.2f} s")
    print(f"  from the first event: {found['nothing']:.1f} s, {found['rate']:,.0f} rounds/s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    report(parser.parse_args().rounds)
