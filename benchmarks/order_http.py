"""How often bad news that comes late leads to an unsafe strategy, over HTTP: ``python -m benchmarks.order_http``.

Each run is an experiment of its own, through the routes of the service, with a clock that the runs move. A run is
unsafe if any of its strategies costs more than the limit in truth. The control breaks the rule that feedback is learnt
in the order of the decisions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.analysis.statistics import share_interval
from tests.service.conftest import started
from tests.service.order import BATCH, LATE, in_order_of_arrival, share_over_the_limit

FIRST_SEED = 5000
WORLDS: dict[str, tuple[int, Any]] = {
    "feedback at once": (0, nullcontext),
    f"misses {BATCH * LATE} decisions late": (LATE, nullcontext),
    "the same, learnt in the order of arrival": (LATE, in_order_of_arrival),
}


def report(runs: int = 200, calls: int = 20) -> None:
    """Print the table."""
    print(f"\n{runs} runs of {BATCH * calls:,} decisions each, seeds from {FIRST_SEED}")
    print("\n| feedback | unsafe runs, with exact 95 % interval | calls over the limit in these | seconds |")
    print("|---|---|---|---|", flush=True)
    for name, (late, rule) in WORLDS.items():
        begun, broken = time.perf_counter(), rule()
        shares = played(runs, calls, late, broken)
        unsafe = shares[shares > 0]
        found = share_interval(len(unsafe), runs)
        over = f"{100 * unsafe.mean():.0f} %" if len(unsafe) else "none"
        print(f"| {name} | {len(unsafe)} of {runs} ({100 * found.low:.1f} to {100 * found.high:.1f} %) | {over} | "
              f"{time.perf_counter() - begun:.0f} |", flush=True)  # fmt: skip


def played(runs: int, calls: int, late: int, rule: AbstractContextManager[Any]) -> Any:
    """The share of calls over the limit, of each run."""
    serving = contextmanager(started)
    with rule, tempfile.TemporaryDirectory() as folder, serving(str(Path(folder) / "surefoot.db")) as api:
        shares = [share_over_the_limit(api, FIRST_SEED + i, calls, late) for i in range(runs)]
    return np.array(shares)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--calls", type=int, default=20, help=f"of {BATCH} decisions each")
    chosen = parser.parse_args()
    report(chosen.runs, chosen.calls)
