"""The preset "practical" against the paper, the strongest peers, and those peers with the same bounds.

``python -m benchmarks.practical`` prints the tables of docs/practical.md. Seeds start at 2000; none was used to tune or to choose. A
"fresh" world is another instance for every seed, drawn at random.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import surefoot as sf
from surefoot.analysis.statistics import Interval, mean_interval, share_interval
from surefoot.environments.scenarios import COSTS, MEANS, five_arms
from surefoot.problem import Floats
from surefoot.simulation.study import Study
from surefoot.simulation.world import World, policy_seed

FIRST_SEED = 2000
STUDY = Path(__file__).parent.parent / "studies" / "practical.toml"
PEERS = ("opb, our bounds", "opb, our bounds, narrow", "safe-exp3, our bounds")
MOVING = ("switching-v1", "drifting-v1", "llm-routing-v1", "adaptive-v1", "adaptive-proposal-v1")
OF_PAPER = {"stochastic-v1": 1 / 6, "switching-v1": 1 / 6, "drifting-v1": 1 / 6, "small-loss-v1": 1 / 50}
OURS = sf.confidence.Betting(sides="upper")
Maker = Callable[[int], sf.Scenario]  # a scenario for a seed
Regrets = dict[str, Floats]  # by policy, one number a seed


def policies(scenario: sf.Scenario) -> dict[str, Callable[..., Any]]:
    truth = scenario.mean_costs
    return {
        "practical": lambda p, s: sf.SOLB(p, s, preset="practical"),
        "guaranteed": lambda p, s: sf.SOLB(p, s, preset="guaranteed"),
        "paper": lambda p, s: sf.SOLB(p, s, preset="paper"),
        "opb": sf.OPB,
        "opb, our bounds": lambda p, s: sf.OPB(p, s, confidence=OURS),
        "opb, our bounds, narrow": lambda p, s: sf.OPB(p, s, safe_loss=0.0, confidence=OURS),  # no proof
        "safe-exp3": sf.SafeExp3,
        "safe-exp3, our bounds": lambda p, s: sf.SafeExp3(p, s, confidence=OURS),
        "oracle": lambda p, s: sf.Oracle(p, s, mean_costs=truth),
    }


def fresh(
    kind: str, n_arms: int = 5, m: int = 1, margin: float = 0.3, horizon: int = 100_000, interior: bool = False
) -> Maker:
    """Worlds drawn at random: the cheaper an arm in loss, the dearer in cost, more or less; the safe ones lose much."""

    def make(seed: int) -> sf.Scenario:
        rng = np.random.default_rng([seed, n_arms, m])
        means = rng.uniform(0.1, 0.8, n_arms)
        costs = np.clip(1.0 - means + rng.uniform(-0.25, 0.25, (m, n_arms)), 0.05, 0.95)
        strategy = np.eye(n_arms)[0]
        means[0], costs[:, 0] = 0.8, 0.5 - margin
        if interior:  # half of each of two arms, which are not safe alone if the margin is small and m at least 2
            apart = min(margin + 0.1, 0.48 - margin) * (-1.0) ** np.arange(m)
            strategy = 0.5 * (np.eye(n_arms)[0] + np.eye(n_arms)[1])
            means[1], costs[:, 0], costs[:, 1] = 0.75, 0.5 - margin - apart, 0.5 - margin + apart
        if kind == "small loss":  # some arm that is safe by 0.15, and all dearer ones, lose 1 %
            means[-1], costs[:, -1] = 0.01, 0.35
            means[1:-1] = np.where(costs[:, 1:-1].max(axis=0) > 0.5, 0.01, means[1:-1])
        others = np.arange(2 if interior else 1, n_arms)
        rows = [means]
        for _ in range(2):
            rows.append(means.copy())
            rows[-1][others] = means[rng.permutation(others)]
        losses: Any = sf.losses.Bernoulli(means)
        if kind == "switching":
            losses = sf.losses.Switching(rows, [horizon // 3, 2 * horizon // 3])
        elif kind == "drift":
            losses = sf.losses.Drifting(rows[0], rows[1])
        elif kind == "adaptive":
            losses = sf.losses.RaiseMostPlayed(means, 0.4)
        problem = sf.Problem(n_arms, [0.5] * m, horizon, 0.05, sf.SafeStrategy(strategy, costs @ strategy))
        drawn = sf.costs.Beta(costs, 30.0) if kind == "Beta costs" else sf.costs.Bernoulli(costs)
        return sf.Scenario("fresh-v1", problem, losses, drawn)

    return make


def built_in(id: str, **options: Any) -> Maker:
    return lambda seed: sf.scenarios.make(id, **options)


def beta_costs(horizon: int) -> Maker:
    """stochastic-v1 with costs of standard deviation 0.09 instead of 0.46."""
    problem, costs = five_arms(horizon, 0.05), sf.costs.Beta(COSTS, 30.0)
    return lambda seed: sf.Scenario("beta-v1", problem, sf.losses.Bernoulli(MEANS), costs)


class Row(NamedTuple):
    """A line of the grid."""

    name: str
    make: Maker
    still: bool  # losses independent over time, with means that stay
    of_paper: float | None = None  # bars: the largest ratio to a policy that is asked for
    of_opb: float | None = None
    seeds: int = 20


T = 100_000
GRID = [
    Row("fresh stochastic", fresh("stochastic"), True, 1 / 6, 0.8),
    Row("fresh switching", fresh("switching"), False, 1 / 6, 0.8),
    Row("fresh drift", fresh("drift"), False, 1 / 6, 0.8),
    Row("fresh Beta costs", fresh("Beta costs"), True, 1 / 15, 0.8),
    Row("fresh small loss", fresh("small loss"), True, 1 / 50, 0.8),
    Row("fresh K = 8, m = 2", fresh("stochastic", 8, 2), True, 1 / 4, 0.8),
    Row("fresh K = 8, m = 3", fresh("stochastic", 8, 3), True, 1 / 4, 0.8),
    Row("T = 1e4, fresh stochastic", fresh("stochastic", horizon=10_000), True, None, 1.0),
    Row("T = 1e4, fresh switching", fresh("switching", horizon=10_000), False, None, 1.0),
    Row("T = 1e4, stochastic-v1", built_in("stochastic-v1", horizon=10_000), True, None, 1.0),
    Row("T = 1e4, switching-v1", built_in("switching-v1", horizon=10_000), False, None, 1.0),
    Row("fresh K = 50", fresh("stochastic", 50), True, None, 1.0, 5),
    Row("adaptive-v1", built_in("adaptive-v1", horizon=T), False, 1 / 6, 0.8, 3),
    Row("Beta costs", beta_costs(T), True, 1 / 15, 0.8, 5),
    Row("fresh K = 8, m = 2, switching", fresh("switching", 8, 2), False, 1 / 4, 0.8, 5),
    Row("fresh K = 8, m = 3, drift", fresh("drift", 8, 3), False, 1 / 4, 0.8, 5),
    Row("fresh K = 3", fresh("stochastic", 3), True, seeds=5),
    Row("fresh K = 10", fresh("stochastic", 10), True, seeds=5),
    Row("fresh K = 20", fresh("stochastic", 20), True, seeds=5),
    Row("fresh K = 50, switching", fresh("switching", 50), False, None, 1.0, 5),
    Row("fresh K = 10, m = 5", fresh("stochastic", 10, 5), True, seeds=5),
    Row("fresh margin 0.15", fresh("stochastic", margin=0.15), True, seeds=5),
    Row("fresh margin 0.05", fresh("stochastic", margin=0.05), True, seeds=5),
    Row("fresh margin 0.05, switching", fresh("switching", margin=0.05), False, seeds=5),
    Row("fresh interior, m = 2, margin 0.15", fresh("stochastic", 5, 2, 0.15, interior=True), True, seeds=5),
    Row("fresh interior, m = 2, drift", fresh("drift", 5, 2, interior=True), False, seeds=5),
    Row("T = 1e6, stochastic-v1", built_in("stochastic-v1", horizon=1_000_000), True, seeds=3),
    Row("T = 1e6, drifting-v1", built_in("drifting-v1", horizon=1_000_000), False, seeds=3),
]


class Tally:
    """Runs of "practical", those with any violation, and rounds in which its solver failed."""

    def __init__(self) -> None:
        self.runs = self.violating = self.empty = 0

    def add(self, row: dict[str, Any]) -> None:
        self.runs += 1
        self.violating += row["rounds_in_violation"] > 0
        self.empty += row["empty_rounds"]

    def __str__(self) -> str:
        share = share_interval(self.violating, self.runs)
        return (
            f"{self.violating} of {self.runs:,} runs with any violation, {100 * share.value:.2f} % (exact 95 % interval "
            f"{100 * share.low:.2f} to {100 * share.high:.2f} %); rounds with a solver failure: {self.empty}"
        )


def lived(make: Maker, seeds: range, tally: Tally, names: tuple[str, ...] | None = None) -> Regrets:
    """The regret of every policy on every seed."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        scenario = make(seed)
        players = {name: it for name, it in policies(scenario).items() if names is None or name in names}
        for row in sf.simulate(scenario, players, [seed], [scenario.problem.rounds], 1).table.to_pylist():
            found.setdefault(row["policy"], []).append(row["regret"])
            if row["policy"] == "practical":
                tally.add(row)
    return {name: np.array(values) for name, values in found.items()}


def ratio(ours: Floats, theirs: Floats) -> Interval:
    """Mean regret over mean regret of the same seeds, with a 95 % interval by linearisation."""
    value = float(ours.mean() / theirs.mean())
    half = mean_interval(ours - value * theirs)
    spread = abs((half.high - half.low) / 2 / theirs.mean())
    return Interval(value, value - spread, value + spread)


def around(interval: Interval, places: int = 0) -> str:
    return f"{interval.value:,.{places}f} ± {(interval.high - interval.low) / 2:,.{places}f}"


def judged(regrets: Regrets, peer: str, bar: float | None) -> str:
    """The ratio to a peer and whether a bar is met: "yes", "mean" or "no".

    The bar is judged by the mean of practical - bar * peer over the seeds: "yes" if all of its 95 % interval is at most
    0, "mean" if the mean is. Where the peer's regret may be below 0 the difference stands in place of the ratio.
    """
    ours, theirs = regrets["practical"], regrets[peer]
    if mean_interval(theirs).low > 0.0:
        cell = around(ratio(ours, theirs), 3 if peer == "paper" else 2)
    else:
        cell = f"({around(mean_interval(ours - theirs))})"
    if bar is None:
        return cell
    excess = mean_interval(ours - bar * theirs)
    return f"{cell} {'yes' if excess.high <= 0.0 else 'mean' if excess.value <= 0.0 else 'no'}"


def tables(lines: list[tuple[Row, Regrets]]) -> None:
    """Regrets, and ratios with the bars, in Markdown."""
    for names in (("practical", "guaranteed", "paper", "oracle"), ("opb", *PEERS[:2], "safe-exp3", PEERS[2])):
        print("\n| world | seeds |", " | ".join(names), "|\n|---|---|" + "---|" * len(names))
        for row, regrets in lines:
            cells = (around(mean_interval(regrets[name])) for name in names)
            print(f"| {row.name} | {regrets['practical'].size} |", " | ".join(cells), "|")
    print("\n| world |", " | ".join(("paper", "opb", *PEERS)), "|\n|---|---|---|---|---|---|")
    for row, regrets in lines:
        asked = {"paper": row.of_paper, "opb": row.of_opb, **dict.fromkeys(PEERS, 1.1 if row.still else 1.0)}
        print(f"| {row.name} |", " | ".join(judged(regrets, peer, bar) for peer, bar in asked.items()), "|")
    sys.stdout.flush()


def grid() -> tuple[list[tuple[Row, Regrets]], Tally]:
    """Every line of the grid."""
    tally = Tally()
    return [(row, lived(row.make, range(FIRST_SEED, FIRST_SEED + row.seeds), tally)) for row in GRID], tally


def safety(each: int = 10) -> None:
    """Every size, margin and kind of safe strategy, T = 1e4; no two runs share a seed."""
    kinds, cell, tally = ("stochastic", "switching", "drift", "Beta costs", "small loss"), 0, Tally()
    for n_arms, m, margin, interior in product((3, 5, 10, 20, 50), (1, 2, 3, 5), (0.05, 0.15, 0.3), (False, True)):
        make = fresh(kinds[cell % 5], n_arms, m, margin, 10_000, interior)
        for seed in range(10_000 + cell * each, 10_000 + (cell + 1) * each):
            scenario = make(seed)
            policy = sf.SOLB(scenario.problem, policy_seed(seed), preset="practical")
            over = 0
            for losses, costs in World(scenario, seed).blocks(10_000):
                strategies = np.empty(losses.shape)
                policy.live(losses, costs, strategies, np.empty(len(losses)))
                excess = strategies @ scenario.mean_costs.T - scenario.problem.thresholds
                over += int((excess > 1e-12).any(axis=1).sum())
            tally.add({"rounds_in_violation": over, "empty_rounds": policy.empty_rounds})
        cell += 1
    print(f"safety over {cell} cells (K, m, margin, vertex or interior; T = 10,000): {tally}", flush=True)


def cost_of_a_round(repeats: int = 5) -> None:
    """Whole runs, in turns: the least processor time of each preset."""
    for n_arms, m in ((5, 1), (50, 3)):
        scenario = fresh("stochastic", n_arms, m)(FIRST_SEED)
        best = dict.fromkeys(("paper", "practical", "guaranteed"), float("inf"))
        for _ in range(repeats):
            players = {preset: sf.SOLB(scenario.problem, 1, preset=preset) for preset in best}
            spent = dict.fromkeys(best, 0.0)
            for losses, costs in World(scenario, FIRST_SEED).blocks(T):
                room = np.empty(losses.shape), np.empty(len(losses))
                for preset, policy in players.items():
                    started = time.process_time()
                    policy.live(losses, costs, *room)
                    spent[preset] += time.process_time() - started
            best = {preset: min(best[preset], spent[preset] / T) for preset in best}
        told = ", ".join(f"{name} {1e9 * t:,.0f} ns ({t / best['paper']:.2f}x)" for name, t in best.items())
        print(f"processor time of a round, K = {n_arms}, m = {m}, T = {T:,}: {told}", flush=True)


def study() -> tuple[list[tuple[Row, Regrets]], Tally]:
    """Every built-in scenario, by the study file."""
    tally, found = Tally(), {}
    for row in Study.read(STUDY).run(workers=1).final().to_pylist():
        found.setdefault(row["scenario"], {}).setdefault(row["policy"], []).append(row["regret"])
        if row["policy"] == "practical":
            tally.add(row)
    lines = []
    for id, values in found.items():
        asked = OF_PAPER.get(id)
        row = Row(id, built_in(id), id not in MOVING, asked, 0.8 if asked else None)
        lines.append((row, {name: np.array(each) for name, each in values.items()}))
    return lines, tally


def report() -> None:
    """What is quick: time, and safety."""
    cost_of_a_round()
    safety()


if __name__ == "__main__":
    report()
    for part in (grid, study):
        measured, counted = part()
        tables(measured)
        print(f"\nthe {part.__name__}: {counted}", flush=True)
