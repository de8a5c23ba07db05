"""A long life of a running experiment, every answer checked: ``python -m benchmarks.soak --rounds 1000000``."""

from __future__ import annotations

import argparse
import time

from surefoot.storage import open_log
from tests.experiments.soak import soak
from tests.experiments.worlds import DurableMemory

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--db", help="a new SQLite file; by default the log is in memory")
    chosen = parser.parse_args()
    log, begin = open_log(chosen.db) if chosen.db else DurableMemory(), time.process_time()
    found = soak(log, chosen.rounds, chosen.restarts, chosen.seed)
    print(f"{found}, {chosen.restarts} restarts, {time.process_time() - begin:.0f} s of computing: no difference found")
