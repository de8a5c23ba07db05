"""Many arms, many guardrails, narrow margins, adversaries: SOLB against OPB with our bounds and a narrow radius.

``python -m benchmarks.many_arms`` prints the tables of docs/led-data.md in about ten minutes;
``python -m benchmarks.many_arms 200 K=20 K=50 many-constraints-v1`` those lines with 200 seeds. Seeds start at 7000; settings were
chosen on seeds from 1000 to 2639.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

import surefoot as sf
from benchmarks.led import compared
from benchmarks.practical import NARROW, OURS, BuiltIn, Fresh, T, around, markdown
from surefoot.analysis.statistics import mean_interval
from surefoot.policies.base import Contradiction
from surefoot.rules import Floats
from surefoot.simulation.world import World, policy_seed

FIRST_SEED, SEEDS = 7000, 20
LINES: dict[str, Fresh | BuiltIn] = {
    "K=20": Fresh("stochastic", 20),
    "K=50": Fresh("stochastic", 50),
    "many-constraints-v1": BuiltIn("many-constraints-v1"),
    "margin 0.05": Fresh("stochastic", margin=0.05),
    "tight-margin-v1, 0.02": BuiltIn("tight-margin-v1"),
    "fresh stochastic": Fresh("stochastic"),
    "K=50, switching": Fresh("switching", 50),
    "K=50, drift": Fresh("drift", 50),
    "adaptive-v1": BuiltIn("adaptive-v1"),
    "adaptive-v1, T=2e4": BuiltIn("adaptive-v1", 20_000),
    "adaptive-proposal-v1, T=2e4": BuiltIn("adaptive-proposal-v1", 20_000),
}
PROFILED: dict[str, Fresh | BuiltIn] = {
    **{line: LINES[line] for line in ("K=20", "K=50", "many-constraints-v1")},
    "small-loss-v1": BuiltIn("small-loss-v1"),
    "fresh small loss": Fresh("small loss"),
}
MADE: dict[str, Callable[..., Any]] = {
    NARROW: partial(sf.OPB, safe_loss=0.0, confidence=OURS),
    "practical": partial(sf.SOLB, preset="practical"),
    "led": partial(sf.SOLB, preset="led"),
    "led, 0.1": partial(sf.SOLB, preset="led", follower_share=0.1),
    "led, 0.01": partial(sf.SOLB, preset="led", follower_share=0.01),
    "opb, our bounds": partial(sf.OPB, confidence=OURS),
    "safe-exp3, our bounds": partial(sf.SafeExp3, confidence=OURS),
}


def lived(scenario: sf.Scenario, seed: int) -> dict[str, float]:
    """Regrets in the world of a seed."""
    run = sf.simulate(scenario, MADE, [seed], [scenario.problem.rounds], 1, progress=False)
    return {row["policy"]: float(row["regret"]) for row in run.table.to_pylist()}


def compare(seeds: int = SEEDS, *names: str) -> None:
    """Regrets, the worst run, and the ratio to narrow OPB; where its regret may be below 0, the difference."""
    rows, ratios = [], []
    for line in names or LINES:
        make = LINES[line]
        found = [lived(make(seed), seed) for seed in range(FIRST_SEED, FIRST_SEED + seeds)]
        of = {name: np.array([regrets[name] for regrets in found]) for name in MADE}
        rows.append([line, *(f"{around(mean_interval(of[name]))}, {of[name].max():,.0f}" for name in MADE)])
        ratios.append([line, *(compared(of[NARROW], of[name]) for name in list(MADE)[1:])])
        print(rows[-1], ratios[-1], file=sys.stderr, flush=True)
    markdown(("regret, worst run", *MADE), rows)
    markdown((f"/ {NARROW}", *list(MADE)[1:]), ratios)


def paid(scenario: sf.Scenario, seed: int, every: int = 50) -> Floats:
    """Where the regret of "led" comes from: by plan its share, how much more it loses than the best, and what is paid.

    Sums over the rounds, by the mean losses, with strategies looked at every 50 rounds.
    """
    problem, means = scenario.problem, scenario.losses.means  # type: ignore[union-attr]
    best = linprog(
        means, scenario.mean_costs, problem.thresholds, np.ones((1, problem.n_arms)), np.ones(1)
    ).fun  # fmt: skip
    policy, total = sf.SOLB(problem, policy_seed(seed), preset="led"), np.zeros((3, 3))
    trio = policy._state.trio
    for losses, costs in World(scenario, seed).blocks(problem.rounds):
        for start in range(0, len(losses), every):
            some = losses[start : start + every]
            more = trio.strategies @ means - best
            total += len(some) * np.array([trio.shares, more, trio.shares * more])
            policy.live(some, costs[start : start + every], np.empty(some.shape), np.empty(len(some)))
    return total


def profile(seeds: int = 40) -> None:
    """What each plan of "led" costs: the program, and the follower with its twin."""
    rows = []
    for line, make in PROFILED.items():
        worlds = range(FIRST_SEED, FIRST_SEED + seeds)
        share, more, price = np.mean([paid(make(seed), seed) for seed in worlds], axis=0)
        cells = [more[1], price[1], more[0], price[0] + price[2]]
        rows.append([line, f"{100 * share[1] / T:.0f} %", *(f"{cell:,.0f}" for cell in cells)])
    markdown(
        ("world", "program's share", "it alone", "paid for it", "follower alone", "paid for it and its twin"), rows
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore", Contradiction)
    if len(sys.argv) > 1:
        compare(int(sys.argv[1]), *sys.argv[2:])
    else:
        profile()
        compare()
