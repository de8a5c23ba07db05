"""What it is worth that a safe arm, whose costs are known, has no part of delta: `sides="needed"` beside "upper".

``python -m benchmarks.sides`` prints the table of docs/led-data.md: mean regret of preset "led" after 100,000 rounds in
fresh scenarios (`Fresh` in `benchmarks/practical.py`), and the share of unsafe runs at delta = 0.5, where it can be counted.
Seeds in which one of the two met a contradiction are left out of the regrets.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import numpy as np

import surefoot as sf
from benchmarks.led import compared
from benchmarks.practical import Fresh, around, markdown
from surefoot.analysis.statistics import mean_interval
from surefoot.policies.base import Contradiction

MARGINS, ARMS, GUARDRAILS = (0.05, 0.15, 0.3), (5, 20, 50), (1, 3)
SIDES = ("upper", "needed")
SEEDS, FIRST_SEED, RUNS = 20, 2000, 200


def solb(problem: sf.Problem, seed: Any, sides: Any, made: dict[str, sf.SOLB] | None = None) -> sf.SOLB:
    """The preset "led" with bounds on these sides; it is kept, if asked for."""
    policy = sf.SOLB(problem, seed, preset="led", confidence=sf.confidence.Betting(sides=sides))
    if made is not None:
        made[sides] = policy
    return policy


def regrets(make: Fresh, seeds: int) -> dict[str, list[float]]:
    """By sides, of the seeds without a contradiction."""
    found: dict[str, list[float]] = {sides: [] for sides in SIDES}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        made: dict[str, sf.SOLB] = {}
        players = {sides: partial(solb, sides=sides, made=made) for sides in SIDES}
        scenario = make(seed)
        run = sf.simulate(scenario, players, [seed], [scenario.problem.rounds], 1, progress=False)
        if not any(policy.contradicted for policy in made.values()):
            for row in run.table.to_pylist():
                found[row["policy"]].append(row["regret"])
    return found


def unsafe(make: Fresh, runs: int) -> dict[str, int]:
    """By sides, runs with any violation in 3,000 rounds at delta = 0.5, with a fresh scenario for each."""
    found = dict.fromkeys(SIDES, 0)
    for seed in range(FIRST_SEED, FIRST_SEED + runs):
        fresh = make._replace(horizon=3_000)(seed)
        old = fresh.problem
        problem = sf.Problem(old.n_arms, old.thresholds, old.horizon, 0.5, old.safe)
        scenario = sf.Scenario("sides-v1", problem, fresh.losses, fresh.costs)
        players = {sides: partial(solb, sides=sides) for sides in SIDES}
        run = sf.simulate(scenario, players, [seed], [3_000], 1, progress=False)
        for row in run.table.to_pylist():
            found[row["policy"]] += row["rounds_in_violation"] > 0
    return found


def main(seeds: int = SEEDS, runs: int = RUNS) -> None:
    """A line for each margin and numbers of arms and guardrails."""
    warnings.simplefilter("ignore", Contradiction)
    rows = []
    for m in GUARDRAILS:
        for K in ARMS:
            for margin in MARGINS:
                make = Fresh("stochastic", K, m, margin)
                old, new = (np.array(of) for of in regrets(make, seeds).values())
                broken = unsafe(make, runs)
                cells = [
                    around(mean_interval(old)),
                    around(mean_interval(new)),
                    compared(old, new),
                    str(seeds - len(old)),
                ]
                rows.append(
                    [f"{K}, {m}, {margin:g}", *cells, *(f"{100 * broken[sides] / runs:.1f} %" for sides in SIDES)]
                )
                print(rows[-1], file=sys.stderr, flush=True)
    heads = ("arms, guardrails, margin", *SIDES, "needed / upper", "left out", *(f"unsafe, {sides}" for sides in SIDES))
    markdown(heads, rows)


if __name__ == "__main__":
    main(*(int(number) for number in sys.argv[1:]))
