"""What it costs to call, save, load and copy a policy."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable

import numpy as np

import surefoot as sf
from benchmarks.timing import best_of

SIZES = ((5, 1), (50, 3))
PRESETS = ("practical", "paper")


def costs_of(preset: str, n_arms: int, n_constraints: int) -> dict[str, float]:
    """Seconds per call, of a policy that has seen 3,000 rounds."""
    safe = sf.SafeStrategy(np.append(np.zeros(n_arms - 1), 1.0), [0.2] * n_constraints)
    problem = sf.Problem(n_arms, [0.5] * n_constraints, 10**7, 0.05, safe)
    policy = sf.SOLB(problem, 1, preset=preset)
    decision, costs = copy.copy(policy).ask()[:3], [0.3] * n_constraints  # without a number: can be told repeatedly
    for _ in range(3000):
        policy.tell(decision, 0.5, costs)
    data, saved = json.loads(json.dumps(policy.to_dict())), policy.to_bytes()
    asked = copy.copy(policy)  # it keeps all the decisions that are never told
    update, buffers, row, room = policy.algorithm.tell, policy._buffers, policy._row.copy(), policy._room
    calls: dict[str, Callable[[], object]] = {
        "compiled update": lambda: update(*buffers, row, room),
        "ask": asked.ask,
        "tell": lambda: policy.tell(decision, 0.5, costs),
        "ask and tell": lambda: policy.tell(policy.ask(), 0.5, costs),
        "to_dict": policy.to_dict,
        "from_dict": lambda: sf.SOLB.from_dict(data),
        "to_bytes": policy.to_bytes,
        "from_bytes": lambda: sf.SOLB.from_bytes(saved),
        "copy": lambda: copy.copy(policy),
    }
    return best_of(calls)


def report() -> None:
    print("\nCalls of SOLB from Python, in microseconds")
    for preset in PRESETS:
        for n_arms, n_constraints in SIZES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = costs_of(preset, n_arms, n_constraints)
            listed = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in found.items())
            print(f"  {preset}, K = {n_arms}, m = {n_constraints}: {listed}")


if __name__ == "__main__":
    report()
