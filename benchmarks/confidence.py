"""Confidence bounds: time of an update, memory, width, and what they are worth to SOLB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import surefoot as sf
from benchmarks.timing import best_of
from surefoot.confidence import FAMILY, Confidence
from surefoot.kernels.compile import njit
from surefoot.kernels.costs import KnownCosts, observe, unknown_costs
from surefoot.rules import Floats

PROBLEM = sf.Problem(5, [0.5, 0.5], 10_000, 0.05)
MARKS = (100, 1000, 10_000)
STREAMS = 20
LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "coin of 0.05": lambda rng, n: (rng.random(n) < 0.05).astype(float),
    "coin of 0.5": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "Beta, mean 0.5, deviation 0.05": lambda rng, n: rng.beta(49.5, 49.5, n),
}
BOUNDS: dict[str, Confidence] = {name: bound() for name, bound in FAMILY.items()}
SCENARIOS = ("stochastic-v1", "drifting-v1", "llm-routing-v1")
SEEDS, HORIZON = 10, 20_000
UPPER = "betting, upper"


@njit(error_model="numpy", _nrt=False)
def follow(known, costs, row, marks, widths):  # type: ignore[no-untyped-def]
    mark = 0
    for t in range(costs.size):
        row[0] = costs[t]
        observe(known, 0, row)
        if t + 1 == marks[mark]:
            widths[mark] = 0.5 * (known.upper[0, 0] - known.lower[0, 0])
            mark += 1


def first_arm(bound: Confidence) -> KnownCosts:
    """Estimates of one arm with one guardrail, at the level it has in the problem."""
    return unknown_costs(1, 1, bound.bound(PROBLEM))


def remembered(known: KnownCosts) -> int:
    """Bytes that a bound needs for each arm and guardrail, beside count, mean and the bounds themselves."""
    return sum(
        leaf.nbytes for leaf in (known.squares, known.reach, known.upper_wealth, known.lower_wealth, known.nodes)
    )


def widths_and_times() -> None:
    print(f"half-widths after {', '.join(f'{n:,}' for n in MARKS)} observations (mean of {STREAMS} streams; K = 5, m = 2, "
          "T = 10,000, delta = 0.05), and time of an update:")  # fmt: skip
    marks, row = np.array(MARKS), np.zeros(1)
    for law, draw in LAWS.items():
        rng = np.random.default_rng(0)
        streams = [draw(rng, MARKS[-1]) for _ in range(STREAMS)]
        calls: dict[str, Callable[[], object]] = {
            name: partial(lambda bound: follow(first_arm(bound), streams[0], row, marks, np.zeros(3)), bound)
            for name, bound in BOUNDS.items()
        }
        times = best_of(calls, repeats=5, seconds=0.02)
        for name, bound in BOUNDS.items():
            found = np.zeros((STREAMS, 3))
            for stream, width in zip(streams, found, strict=True):
                follow(first_arm(bound), stream, row, marks, width)
            shown = " / ".join(f"{width:.2g}" for width in found.mean(axis=0))
            memory = remembered(first_arm(bound))
            print(f"  {law}, {name}: {shown}, {times[name] / MARKS[-1] * 1e9:.0f} ns, {memory} bytes")


def regrets(seeds: int = SEEDS, names: Sequence[str] = (*FAMILY, UPPER)) -> None:
    """Regret and safety with each bound, and regrets of the runs that met a contradiction."""
    print(f'SOLB(preset="paper", learning_rate="practical"), {HORIZON:,} rounds, {seeds} seeds: regret (95 % interval); '
          "unsafe runs; runs in which a bound failed; regrets of runs with a contradiction:")  # fmt: skip
    variants = {**BOUNDS, UPPER: sf.confidence.Betting(sides="upper")}
    for id in SCENARIOS:
        made: dict[str, list[sf.SOLB]] = {name: [] for name in names}

        def make(problem: sf.Problem, seed: Any, name: str, made: dict[str, list[sf.SOLB]] = made) -> sf.SOLB:
            bound = variants[name]
            made[name].append(sf.SOLB(problem, seed, preset="paper", learning_rate="practical", confidence=bound))
            return made[name][-1]

        factories = {name: partial(make, name=name) for name in names}
        run = sf.simulate(sf.scenarios.make(id, horizon=HORIZON), factories, seeds=seeds, checkpoints=1, workers=1)
        for row in run.summary().to_pylist():
            ends = [end for end in run.final().to_pylist() if end["policy"] == row["policy"]]
            failed = sum(not end["clean"] for end in ends)
            played = zip(ends, made[row["policy"]][-seeds:], strict=True)
            met = ", ".join(f"{end['regret']:,.0f}" for end, policy in played if policy.contradicted) or "none"
            print(f"  {id}, {row['policy']}: {row['regret']:,.0f} ({row['regret_low']:,.0f} to {row['regret_high']:,.0f}); "
                  f"{row['violating_runs']}; {failed}; {met}", flush=True)  # fmt: skip


def report() -> None:
    widths_and_times()
    regrets()
    sys.stdout.flush()
