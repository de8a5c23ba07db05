"""Several guardrails, one test: what is gained if arms are certified along rays, without a union over guardrails.

``python -m benchmarks.violated_direction`` prints the tables of docs/theory/together.md in two minutes. On the ray from the safe strategy to an arm one guardrail is broken first, whichever strategy is played. So upper
bounds at the level delta / (K - 1), without m, certify rays; `SOLB` has them if its delta is m times as large.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import linprog

import surefoot as sf
from benchmarks.practical import around, markdown
from surefoot.analysis.statistics import mean_interval, share_interval
from surefoot.rules import Floats

DELTA, FIRST_SEED = 0.05, 7000
LIMIT, MARGIN = 0.5, 0.1


def one_arm(m: int, bad: int, excess: float, horizon: int, delta: float) -> sf.Scenario:
    """A safe arm that loses always, and one that never does and is over the limit of the first `bad` guardrails."""
    costs = np.full((m, 2), LIMIT - MARGIN)
    costs[:, 0] = np.where(np.arange(m) < bad, LIMIT + excess, 0.1)
    problem = sf.Problem(2, [LIMIT] * m, horizon, delta, sf.SafeStrategy([0, 1], costs[:, 1]))
    return sf.Scenario("ray-v1", problem, sf.losses.Bernoulli([0.0, 1.0]), sf.costs.Bernoulli(costs))


def lived(m: int, bad: int, excess: float, horizon: int, factor: float, runs: int) -> Any:
    """Runs of "led", whose bounds have the level delta / m times the factor; a violation is one of the limits."""
    scenario = one_arm(m, bad, excess, horizon, factor * DELTA)
    players = {"it": lambda problem, seed: sf.SOLB(problem, seed, preset="led")}
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    return sf.simulate(scenario, players, seeds, [horizon], 1, progress=False).table


def one_ray(attacks: int = 1000, runs: int = 20) -> None:
    """K = 2, where the ray is everything: unsafe runs under attack, and regret where the arm costs 0.6."""
    rows = []
    for m in (1, 3, 12):
        for way, factor in (("union", 1.0), ("ray", float(m))):
            cells = []
            for bad in sorted({1, m}):
                unsafe = np.array(lived(m, bad, 0.02, 2_000, factor, attacks)["rounds_in_violation"]) > 0
                share = share_interval(int(unsafe.sum()), attacks)
                cells.append(f"{100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f} %)")
            table = lived(m, 1, 0.1, 20_000, factor, runs)
            regret = mean_interval(np.array(table["regret"])[np.array(table["clean"])])
            rows.append([str(m), way, cells[0], cells[-1], around(regret)])
    markdown(("guardrails", "level", "unsafe, one is over", "unsafe, all are over", "regret, T = 20,000"), rows)


def uppers(problem: sf.Problem, costs: Floats, observations: int, factor: float, seed: int) -> Floats:
    """Upper bounds after so many observations of every arm, at a delta that is larger by the factor."""
    loose = sf.Problem(problem.n_arms, problem.thresholds, None, factor * problem.delta, problem.safe)
    policy, rng = sf.SOLB(loose, 1, preset="led"), np.random.default_rng(seed)
    for draws in rng.random((observations, *costs.shape)) < costs:
        for arm in range(1, problem.n_arms):
            policy.observe(arm, draws[:, arm].astype(float))
    return np.array(policy.upper_costs)


def least(losses: Floats, rows: Floats, limits: Floats) -> float:
    """The least loss of a strategy that keeps to these limits."""
    ones = np.ones((1, losses.size))
    return float(linprog(losses, rows, limits, ones, np.ones(1)).fun)


def many_rays(observations: int = 300, worlds: int = 20, n_arms: int = 8) -> None:
    """How much more than the best the best certified strategy loses: all limits at the union's level, or the rays."""
    rows = []
    for m, margin in ((1, 0.1), (3, 0.1), (12, 0.1), (12, 0.3)):
        lost: dict[str, list[float]] = {"union": [], "rays": []}
        for seed in range(FIRST_SEED, FIRST_SEED + worlds):
            rng = np.random.default_rng([seed, m])
            losses = rng.uniform(0.1, 0.8, n_arms)
            costs = np.clip(1.0 - losses + rng.uniform(-0.25, 0.25, (m, n_arms)), 0.05, 0.95)
            losses[0], costs[:, 0] = 0.8, LIMIT - margin
            safe = sf.SafeStrategy(np.eye(n_arms)[0], costs[:, 0])
            problem = sf.Problem(n_arms, [LIMIT] * m, None, DELTA, safe)
            best = least(losses, costs, problem.thresholds)
            upper = uppers(problem, costs, observations, 1.0, seed)
            lost["union"].append(least(losses, upper, problem.thresholds) - best)
            looser = uppers(problem, costs, observations, float(m), seed)
            over = np.maximum(0.0, (looser - costs[:, :1]) / margin).max(axis=0)  # 1 / the largest share on the ray
            over = np.where(np.arange(n_arms) == 0, 0.0, np.maximum(over, 1.0))
            lost["rays"].append(least(losses, over[None], np.ones(1)) - best)
        cells = [around(mean_interval(np.array(lost[way])), 3) for way in lost]
        rows.append([str(m), f"{margin:g}", *cells])
    markdown(("guardrails", "margin", "lost a round, union", "lost a round, rays"), rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    one_ray()
    many_rays()
