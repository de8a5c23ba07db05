"""The preset "led" against "practical", on every line of docs/practical.md: the same scenarios, the same seeds.

``python -m benchmarks.led`` prints the table of docs/led-data.md. ``python -m benchmarks.led 40 8000 K=20 K=50`` prints
these lines for 40 seeds from 8000 on.
"""

from __future__ import annotations

import sys
import tomllib
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import surefoot as sf
from benchmarks.practical import FIRST_SEED, GRID, SEEDS, STUDY, T, around, least_times, markdown
from surefoot.analysis.statistics import Interval, mean_interval
from surefoot.policies.base import Contradiction
from surefoot.rules import Floats

PRESETS = ("practical", "led")


class Named(NamedTuple):
    """A line of the table."""

    name: str
    make: Callable[[int], sf.Scenario]


class Found:
    """Regrets of both presets on a line, in how many worlds one met a contradiction, and the restarts of "led"."""

    def __init__(self) -> None:
        self.regrets: dict[str, list[float]] = {preset: [] for preset in PRESETS}
        self.contradicted = 0
        self.restarts = 0.0

    def live(self, scenario: sf.Scenario, seed: int) -> None:
        """Both presets in the world of a seed."""
        made: dict[str, sf.SOLB] = {}

        def make(problem: sf.Problem, seed: Any, preset: str) -> sf.SOLB:
            made[preset] = sf.SOLB(problem, seed, preset=preset)
            return made[preset]

        players: dict[str, Any] = {preset: partial(make, preset=preset) for preset in PRESETS}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Contradiction)
            run = sf.simulate(scenario, players, [seed], [scenario.problem.rounds], 1, progress=False)
        for row in run.table.to_pylist():
            self.regrets[row["policy"]].append(row["regret"])
        self.contradicted += any(policy.contradicted for policy in made.values())
        self.restarts = max(self.restarts, float(made["led"]._state.trio.restarts[0]))

    def row(self) -> list[str]:
        """Mean regrets, their ratio or difference, and the two counts."""
        old, new = (np.array(self.regrets[preset]) for preset in PRESETS)
        cells = [around(mean_interval(old)), around(mean_interval(new)), compared(old, new)]
        return [*cells, str(self.contradicted), f"{self.restarts:g}"]


def compared(old: Floats, new: Floats) -> str:
    """The ratio of mean regrets, or their difference where the first may be below 0; with 95 % intervals."""
    if mean_interval(old).low <= 0.0:
        return f"({around(mean_interval(new - old))})"
    ratio = float(new.mean() / old.mean())
    half = mean_interval(new - ratio * old)
    spread = (half.high - half.low) / 2 / float(old.mean())
    return around(Interval(ratio, ratio - spread, ratio + spread), 2)


def lines() -> list[Named]:
    """The grid and the study; adaptive-v1 as in the study, which is shorter."""
    found = [Named(line.name, line.make.__call__) for line in GRID if line.name != "adaptive-v1"]
    for one in tomllib.loads(STUDY.read_text())["scenarios"]:
        name, horizon = one.pop("name", one["id"]), one.pop("horizon", T)
        found.append(Named(name, partial(built_in, horizon=horizon, **one)))
    return found


def built_in(seed: int, id: str, **options: Any) -> sf.Scenario:
    """A scenario that is the same for every seed."""
    return sf.scenarios.make(id, **options)


def cost_of_a_round(repeats: int = 7) -> None:
    for n_arms, m in ((5, 1), (50, 3)):
        best = least_times(sf.SOLB, PRESETS, n_arms, m, repeats)
        told = ", ".join(f"{name} {1e9 * t:,.0f} ns" for name, t in best.items())
        print(f"K = {n_arms}, m = {m}: {told}, {best['led'] / best['practical']:.2f} times", flush=True)


def main(seeds: int = SEEDS, first: int = FIRST_SEED, *names: str) -> None:
    """Time, then every line; or some lines."""
    if not names:
        cost_of_a_round()
    rows = []
    for line in lines():
        if names and line.name not in names:
            continue
        found = Found()
        for seed in range(first, first + seeds):
            found.live(line.make(seed), seed)
        rows.append([line.name, *found.row()])
        print(rows[-1], file=sys.stderr, flush=True)
    markdown(("scenario", *PRESETS, "led / practical", "contradicted", "restarts"), rows)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else SEEDS, int(given[1]) if len(given) > 1 else FIRST_SEED, *given[2:])
