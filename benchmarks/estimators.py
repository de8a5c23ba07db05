"""SOLB with the paper's and with weighted estimates: learning regret against the margin, where the gap is 0.

Measured, not timed; every figure is a mean over 20 seeds with its 95 % interval. Both estimators meet the world of a
seed, so differences are taken seed by seed. Also alone: ``python -m benchmarks.estimators``.
"""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any, cast

import numpy as np
from numba import njit

import surefoot as sf
from surefoot.analysis.statistics import mean_interval
from surefoot.environments.losses import Losses
from surefoot.kernels.costs import CostBound, unknown_costs
from surefoot.kernels.episode import draw
from surefoot.kernels.layout import layout_of
from surefoot.kernels.learner import Learner, descend, start_learner
from surefoot.policies.rates import Motionless, Sized, practical_rate
from surefoot.rules import Floats
from surefoot.simulation.episode import Factory
from surefoot.theory.families import three_arms
from surefoot.theory.mutations import NarrowRadius, mutant

SEEDS = 20
MARGINS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
HORIZONS = (20_000, 200_000)
BETTER, WORSE = 0.1, 0.3
ESTIMATORS = ("paper", "weighted")
RADII = {"paper radius": sf.SOLB, "a tenth of it": mutant(sf.SOLB, NarrowRadius)}
COLUMNS = tuple(f"{radius}: {what}" for radius in RADII for what in (*ESTIMATORS, "difference"))


class Tied(Losses):
    """Coin flips of two arms; the third, which is safe, loses what the first does, in every round.

    The first arm is the better one, but up to round `at` it is the worse one.
    """

    def __init__(self, at: int) -> None:
        self.at = at

    @property
    def n_arms(self) -> int:
        return 3

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        turned = np.arange(first, first + len(out)) >= self.at
        means = np.where(turned[:, None], (BETTER, WORSE), (WORSE, BETTER))
        out[:, :2] = rng.random((len(out), 2)) < means
        out[:, 2] = out[:, 0]


def told(values: Any) -> str:
    mean, low, _ = mean_interval(values)
    return f"{mean:,.0f} +- {mean - low:,.0f}"


def measured(horizon: int, margin: float, at: int) -> list[str]:
    """Learning regret of both estimators under both radii; the regret is the same, as the gap is 0."""
    loss = at * WORSE + (horizon - at) * BETTER

    def factory(cls: Any, estimator: str) -> Factory:
        options = {"preset": "paper", "learning_rate": "practical", "benchmark_loss": loss, "estimator": estimator}
        return lambda problem, seed: cls(problem, seed, **options)

    world = three_arms(horizon, Tied(at), margin, [[0.45, 0.35]])
    policies = {f"{radius}, {name}": factory(cls, name) for radius, cls in RADII.items() for name in ESTIMATORS}
    rows = sf.simulate(world, policies, SEEDS, [horizon], workers=1, progress=False).table.to_pylist()
    assert max(abs(row["regret"] - row["learning_regret"]) for row in rows) < 1e-6
    assert max(row["empty_rounds"] for row in rows) == 0
    found = np.array([[row["learning_regret"] for row in rows if row["policy"] == name] for name in policies])
    return [told(x) for one, two in (found[:2], found[2:]) for x in (one, two, one - two)]


def table(first: str, rows: list[list[str]], head: tuple[str, ...] = COLUMNS) -> None:
    for row in ([first, *head], ["---"] * (1 + len(head)), *rows):
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def against_the_margin() -> None:
    for share, words in ((0.0, "the first arm is better throughout"), (0.1, "it is worse for the first tenth")):
        for horizon in HORIZONS:
            print(f"learning regret, T = {horizon:,}; {words}\n")
            rows = [[f"{margin:g}", *measured(horizon, margin, int(share * horizon))] for margin in MARGINS]
            table("margin", rows)


def against_the_turn() -> None:
    horizon, margin = HORIZONS[-1], MARGINS[0]
    print(f"learning regret, T = {horizon:,}, margin {margin:g}, by the share of rounds before the turn\n")
    shares = (0.01, 0.03, 0.1, 0.25, 0.45)
    rows = [[f"{share:g}", *measured(horizon, margin, int(share * horizon))] for share in shares]
    table("share", rows)


@njit(error_model="numpy")
def weighted_regret(learner, known, horizon, weighs, rng):  # type: ignore[no-untyped-def]
    """The first arm, which is the safe strategy, loses while the weight is 0.1, then the other at weight 1."""
    regret = 0.0
    for t in range(horizon):
        weight, loser = (0.1, 0) if t < horizon // 2 else (1.0, 1)
        regret += weight * (learner.proposal[loser] - (1.0 if loser == 0 else 0.0))
        mixture = weight * learner.proposal
        mixture[0] += 1.0 - weight
        arm = draw(mixture, rng.random())
        loss = 1.0 if arm == loser else 0.0
        descend(learner, known, arm, loss / mixture[arm] * (weight if weighs else 1.0), 1.0)
    return regret


def two_arms(rate: float, floor: float, growth: float) -> Learner:
    """A learner with two arms and no constraints, which never restarts."""
    draft = layout_of(Learner).new(K=2)
    start_learner(draft, 2, np.zeros(0), rate, floor, growth, math.inf)
    return cast(Learner, draft.opened())


def against_two_phases() -> None:
    print("weighted regret of mirror descent, weights 0.1 and then 1, the better arm worse in the first half\n")

    def runs(horizon: int, rate: float, weighs: bool) -> str:
        growth, known = math.exp(1 / math.log(horizon)), unknown_costs(2, 0, CostBound(scale=1.0))
        found = []
        for seed in range(SEEDS):
            learner = two_arms(rate, 1 / horizon, growth)
            found.append(weighted_regret(learner, known, horizon, weighs, np.random.default_rng(seed)))
        return told(found)

    rows = []
    for horizon in (2_000, *HORIZONS):
        practical = practical_rate(Sized(2, 0, horizon, 0.05), horizon / 2)
        rows += [
            [f"{horizon:,}", f"{rate:.2g}", runs(horizon, rate, False), runs(horizon, rate, True)]
            for rate in (0.15, practical)
        ]
    table("horizon", rows, ("rate", *ESTIMATORS))


def report() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Motionless)
        against_the_margin()
        against_the_turn()
        against_two_phases()
    sys.stdout.flush()


if __name__ == "__main__":
    report()
