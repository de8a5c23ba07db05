"""How things are timed: interleaved, repeated, and the best of each taken, so that the machine's mood cancels."""

import time
from collections.abc import Callable


def best_of(calls: dict[str, Callable[[], object]], repeats: int = 7, seconds: float = 0.05) -> dict[str, float]:
    """Seconds per call of each candidate: the smallest of `repeats` interleaved measurements of about `seconds` each."""
    counts = {}
    for name, call in calls.items():
        call()
        started = time.perf_counter()
        call()
        counts[name] = max(1, int(seconds / max(1e-9, time.perf_counter() - started)))
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            started = time.perf_counter()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - started) / counts[name])
    return best
