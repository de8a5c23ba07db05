"""The preset "practical" against the paper, the strongest peers, and those peers with the same bounds.

``python -m benchmarks.practical`` prints the tables of docs/practical-data.md. Seeds start at 2000; settings were chosen on
others. A "fresh" scenario is another instance for every seed, drawn at random.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import surefoot as sf
from surefoot.analysis.statistics import Interval, mean_interval, share_interval
from surefoot.environments.scenarios import COSTS, MEANS, five_arms
from surefoot.rules import Floats
from surefoot.simulation.progress import Bar
from surefoot.simulation.study import Study
from surefoot.simulation.world import World

T = 100_000
FIRST_SEED, CROSS_SEED, SEEDS = 2000, 10_000, 20
STUDY = Path(__file__).parent.parent / "studies" / "practical.toml"
OURS = sf.confidence.Betting(sides="upper")
PEERS = ("opb", "opb, our bounds", "safe-exp3", "safe-exp3, our bounds")
FEW = ("practical", "paper", *PEERS)
NARROW = "opb, our bounds, narrow"
Rows = list[dict[str, Any]]  # of the table of a run: policy, regret, rounds_in_violation, empty_rounds
Regrets = dict[str, Floats]  # by policy, one number a seed


def policies(scenario: sf.Scenario) -> dict[str, Callable[..., Any]]:
    truth = scenario.mean_costs
    return {
        "practical": lambda p, s: sf.SOLB(p, s, preset="practical"),
        "guaranteed": lambda p, s: sf.SOLB(p, s, preset="guaranteed"),
        "paper": lambda p, s: sf.SOLB(p, s, preset="paper"),
        "opb": sf.OPB,
        "opb, our bounds": lambda p, s: sf.OPB(p, s, confidence=OURS),
        NARROW: lambda p, s: sf.OPB(p, s, safe_loss=0.0, confidence=OURS),  # no proof
        "safe-exp3": sf.SafeExp3,
        "safe-exp3, our bounds": lambda p, s: sf.SafeExp3(p, s, confidence=OURS),
        "oracle": lambda p, s: sf.Oracle(p, s, mean_costs=truth),
    }


class Fresh(NamedTuple):
    """Scenarios drawn at random: the cheaper an arm in loss, the dearer in cost, more or less; safe ones lose much."""

    kind: str
    n_arms: int = 5
    m: int = 1
    margin: float = 0.3
    horizon: int = T
    safe: str = "arm"

    def __call__(self, seed: int) -> sf.Scenario:
        kind, n_arms, m, margin, horizon, safe = self
        rng = np.random.default_rng([seed, n_arms, m])
        means = rng.uniform(0.1, 0.8, n_arms)
        costs = np.clip(1.0 - means + rng.uniform(-0.25, 0.25, (m, n_arms)), 0.05, 0.95)
        strategy = np.eye(n_arms)[0]
        means[0], costs[:, 0] = 0.8, 0.5 - margin
        if safe == "mixture":  # of two arms, which are not safe alone if the margin is small and m at least 2
            apart = min(margin + 0.1, 0.48 - margin) * (-1.0) ** np.arange(m)
            strategy = 0.5 * (np.eye(n_arms)[0] + np.eye(n_arms)[1])
            means[1], costs[:, 0], costs[:, 1] = 0.75, 0.5 - margin - apart, 0.5 - margin + apart
        if kind == "small loss":  # some arm that is safe by 0.15, and all dearer ones, lose 1 %
            means[-1], costs[:, -1] = 0.01, 0.35
            means[1:-1] = np.where(costs[:, 1:-1].max(axis=0) > 0.5, 0.01, means[1:-1])
        others = np.arange(2 if safe == "mixture" else 1, n_arms)
        rows = [means]
        for _ in range(2):
            rows.append(means.copy())
            rows[-1][others] = means[rng.permutation(others)]
        losses: Any = sf.losses.Bernoulli(means)
        if kind == "switching":
            losses = sf.losses.Switching(rows, [horizon // 3, 2 * horizon // 3])
        elif kind == "drift":
            losses = sf.losses.Drifting(rows[0], rows[1])
        problem = sf.Problem(n_arms, [0.5] * m, horizon, 0.05, sf.SafeStrategy(strategy, costs @ strategy))
        drawn = sf.costs.Beta(costs, 30.0) if kind == "Beta costs" else sf.costs.Bernoulli(costs)
        return sf.Scenario("fresh-v1", problem, losses, drawn)


class BuiltIn(NamedTuple):
    """A scenario that is the same for every seed; "Beta costs": stochastic-v1, costs of deviation 0.09, not 0.46."""

    id: str
    horizon: int = T

    def __call__(self, seed: int) -> sf.Scenario:
        if self.id == "Beta costs":
            costs = sf.costs.Beta(COSTS, 30.0)
            return sf.Scenario("beta-v1", five_arms(self.horizon, 0.05), sf.losses.Bernoulli(MEANS), costs)
        return sf.scenarios.make(self.id, horizon=self.horizon)


class Line(NamedTuple):
    """A line of a table, and the bars: the largest ratio to a policy that is asked for."""

    name: str
    make: Fresh | BuiltIn
    of_paper: float | None = None
    of_opb: float | None = None
    names: tuple[str, ...] = (*FEW, "guaranteed", NARROW, "oracle")

    @property
    def of_ours(self) -> float:
        """Against peers with our bounds: more where losses are independent over time, with means that stay."""
        what = self.make.kind if isinstance(self.make, Fresh) else self.make.id
        moving = ("switching", "drift", "adaptive", "llm-routing")
        return 1.0 if what.startswith(moving) else 1.1


SIXTH = (1 / 6, 0.8)  # of the paper's regret, and of OPB's
QUARTER = (1 / 4, 0.8)
SHORT = (None, 1.0)
GRID = [
    Line("fresh stochastic", Fresh("stochastic"), *SIXTH),
    Line("fresh switching", Fresh("switching"), *SIXTH),
    Line("fresh drift", Fresh("drift"), *SIXTH),
    Line("fresh Beta costs", Fresh("Beta costs"), 1 / 15, 0.8),
    Line("fresh small loss", Fresh("small loss"), 1 / 50, 0.8),
    Line("Beta costs", BuiltIn("Beta costs"), 1 / 15, 0.8),
    *(
        Line(f"K=8, m={m}, {kind}", Fresh(kind, 8, m), *QUARTER)
        for m, kind in product((2, 3), ("stochastic", "switching", "drift"))
    ),
    Line("K=50", Fresh("stochastic", 50), *SHORT),
    Line("K=50, switching", Fresh("switching", 50), *SHORT),
    Line("K=50, drift", Fresh("drift", 50), *SHORT),
    Line("T=1e4, stochastic", Fresh("stochastic", horizon=10_000), *SHORT),
    Line("T=1e4, switching", Fresh("switching", horizon=10_000), *SHORT),
    Line("T=1e4, drift", Fresh("drift", horizon=10_000), *SHORT),
    Line("T=1e4, stochastic-v1", BuiltIn("stochastic-v1", 10_000), *SHORT),
    Line("T=1e4, switching-v1", BuiltIn("switching-v1", 10_000), *SHORT),
    Line("K=3", Fresh("stochastic", 3)),
    Line("K=10", Fresh("stochastic", 10)),
    Line("K=20", Fresh("stochastic", 20)),
    Line("K=10, m=5", Fresh("stochastic", 10, 5)),
    Line("margin 0.15", Fresh("stochastic", margin=0.15)),
    Line("margin 0.05", Fresh("stochastic", margin=0.05)),
    Line("margin 0.05, switching", Fresh("switching", margin=0.05)),
    Line("mixture, m=2, margin 0.15", Fresh("stochastic", 5, 2, 0.15, safe="mixture")),
    Line("mixture, m=2, drift", Fresh("drift", 5, 2, safe="mixture")),
    Line("T=1e6, stochastic-v1", BuiltIn("stochastic-v1", 1_000_000)),
    Line("T=1e6, switching-v1", BuiltIn("switching-v1", 1_000_000)),
    Line("T=1e6, drifting-v1", BuiltIn("drifting-v1", 1_000_000)),
    Line("adaptive-v1", BuiltIn("adaptive-v1"), *SIXTH, FEW),
]
BARS = {**dict.fromkeys(("stochastic-v1", "switching-v1", "drifting-v1"), SIXTH), "small-loss-v1": (1 / 50, 0.8)}
KINDS = ("stochastic", "switching", "drift", "Beta costs", "small loss")
CROSS = [
    Fresh(KINDS[i % 5], n_arms, m, margin, 10_000, safe)
    for i, (n_arms, m, margin, safe) in enumerate(
        product((3, 5, 10, 20, 50), (1, 2, 3, 5), (0.05, 0.15, 0.3), ("arm", "mixture"))
    )
]


class Tally:
    """Runs of "practical", those with any violation, and rounds in which its solver failed."""

    def __init__(self) -> None:
        self.runs = self.violating = self.empty = 0

    def add(self, rows: Rows) -> None:
        for row in rows:
            if row["policy"] == "practical":
                self.runs += 1
                self.violating += row["rounds_in_violation"] > 0
                self.empty += row["empty_rounds"]

    def __str__(self) -> str:
        share = share_interval(self.violating, self.runs)
        return (
            f"{self.violating} of {self.runs:,} runs with any violation, {100 * share.value:.2f} % (exact 95 % "
            f"interval {100 * share.low:.2f} to {100 * share.high:.2f} %); rounds with a solver failure: {self.empty}"
        )


def lived(line: Line, seed: int) -> Rows:
    """What became of every policy in the world of a seed."""
    scenario = line.make(seed)
    players = {name: one for name, one in policies(scenario).items() if name in line.names}
    table = sf.simulate(scenario, players, [seed], [scenario.problem.rounds], 1, progress=False).table
    rows: Rows = table.select(["policy", "regret", "rounds_in_violation", "empty_rounds"]).to_pylist()
    return rows


def measured(tasks: list[tuple[Line, int]]) -> Iterable[Rows]:
    """All of that, in turn, by two processes."""
    with (
        Bar("measuring", len(tasks), unit="runs") as bar,
        ProcessPoolExecutor(2, get_context("spawn")) as pool,
    ):
        for rows in pool.map(lived, *zip(*tasks, strict=True)):
            bar.advance(1)
            yield rows


def by_policy(rows: Rows) -> Regrets:
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["policy"], []).append(row["regret"])
    return {name: np.array(values) for name, values in found.items()}


def ratio(ours: Floats, theirs: Floats) -> Interval:
    """Mean regret over mean regret of the same seeds, with a 95 % interval by linearisation."""
    value = float(ours.mean() / theirs.mean())
    half = mean_interval(ours - value * theirs)
    spread = abs((half.high - half.low) / 2 / theirs.mean())
    return Interval(value, value - spread, value + spread)


def around(interval: Interval, places: int = 0) -> str:
    return f"{interval.value:,.{places}f} ± {(interval.high - interval.low) / 2:,.{places}f}"


def judged(regrets: Regrets, peer: str, bar: float | None = None) -> str:
    """The ratio to a peer and whether a bar is met: "yes", "mean" or "no".

    The bar is judged by the mean of practical - bar * peer over the seeds: "yes" if all of its 95 % interval is at
    most 0, "mean" if the mean is. Where the peer's regret may be below 0 the difference stands in place of the ratio.
    """
    if peer not in regrets:
        return ""
    ours, theirs = regrets["practical"], regrets[peer]
    if mean_interval(theirs).low > 0.0:
        cell = around(ratio(ours, theirs), 3 if peer == "paper" else 2)
    else:
        cell = f"({around(mean_interval(ours - theirs))})"
    if bar is None:
        return cell
    excess = mean_interval(ours - bar * theirs)
    return f"{cell} {'yes' if excess.high <= 0.0 else 'mean' if excess.value <= 0.0 else 'no'}"


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = [name.replace("our bounds", "ours").replace("ours, narrow", "narrow") for name in head]
    print("\n|", " | ".join(head), "|\n|" + "---|" * len(head))
    for row in rows:
        print("|", " | ".join(row), "|", flush=True)


def tables(found: list[tuple[Line, Regrets]]) -> None:
    """Regrets, and ratios with the bars."""
    for names in (("practical", "guaranteed", "paper", "oracle"), ("opb", PEERS[1], NARROW, *PEERS[2:])):
        markdown(
            ("scenario", *names),
            ((at.name, *(around(mean_interval(of[n])) if n in of else "" for n in names)) for at, of in found),
        )
    rows = []
    for at, of in found:
        asked = {"paper": at.of_paper, "opb": at.of_opb, PEERS[1]: at.of_ours, NARROW: None, PEERS[3]: at.of_ours}
        rows.append((at.name, *(judged(of, peer, bar) for peer, bar in asked.items())))
    markdown(("practical /", "paper", "opb", PEERS[1], NARROW, PEERS[3]), rows)


def grid() -> None:
    """Every line of the grid."""
    tasks = [(line, FIRST_SEED + i) for line in GRID for i in range(SEEDS)]
    tally = Tally()
    found: dict[Line, Rows] = {}
    for (line, _), rows in zip(tasks, measured(tasks), strict=True):
        found.setdefault(line, []).extend(rows)
        tally.add(rows)
    tables([(line, by_policy(rows)) for line, rows in found.items()])
    print(f"\nthe grid: {tally}", flush=True)


def cross(each: int = SEEDS) -> None:
    """Every size, margin and kind of safe strategy, T = 1e4, losses in turn; no two runs share a seed."""
    cells = [cell for cell in CROSS for _ in range(each)]
    tasks = [(Line("", cell, names=FEW), CROSS_SEED + i) for i, cell in enumerate(cells)]
    tally = Tally()
    groups: dict[tuple[str, str], Rows] = {}
    for cell, rows in zip(cells, measured(tasks), strict=True):
        safe = f"{cell.margin}, {cell.safe}"
        for key in (("K, m", f"{cell.n_arms}, {cell.m}"), ("margin, safe strategy", safe), ("losses", cell.kind)):
            groups.setdefault(key, []).extend(rows)
        tally.add(rows)
    for what in dict.fromkeys(what for what, _ in groups):
        found = {name: by_policy(rows) for (other, name), rows in groups.items() if other == what}
        markdown(
            (what, "practical", *(f"/ {name}" for name in FEW[1:])),
            (
                (n, around(mean_interval(of["practical"])), *(judged(of, peer) for peer in FEW[1:]))
                for n, of in found.items()
            ),
        )
    print(f"\nthe cross, {len(CROSS)} settings: {tally}", flush=True)


def least_times(made: Any, presets: Sequence[str], n_arms: int, m: int, repeats: int) -> dict[str, float]:
    """The least processor time of a round of each preset, over whole runs in turns."""
    scenario = Fresh("stochastic", n_arms, m)(FIRST_SEED)
    best = dict.fromkeys(presets, float("inf"))
    for _ in range(repeats):
        players = {preset: made(scenario.problem, 1, preset=preset) for preset in presets}
        spent = dict.fromkeys(presets, 0.0)
        for losses, costs in World(scenario, FIRST_SEED).blocks(T):
            room = np.empty(losses.shape), np.empty(len(losses))
            for preset, policy in players.items():
                started = time.process_time()
                policy.live(losses, costs, *room)
                spent[preset] += time.process_time() - started
        best = {preset: min(best[preset], spent[preset] / T) for preset in presets}
    return best


def cost_of_a_round(repeats: int = 5) -> None:
    for made, n_arms, m in ((sf.SOLB, 5, 1), (sf.SOLB, 50, 3), (sf.COLB, 5, 1), (sf.COLB, 50, 3)):
        presets = [preset for preset in ("paper", "practical", "led", "guaranteed") if preset in made.methods]
        best = least_times(made, presets, n_arms, m, repeats)
        told = ", ".join(f"{name} {1e9 * t:,.0f} ns ({t / best['paper']:.2f}x)" for name, t in best.items())
        print(f"processor time of a round of {made.__name__}, K = {n_arms}, m = {m}, T = {T:,}: {told}", flush=True)


def study(run: sf.Run | None = None) -> None:
    """Every built-in scenario, by the study file, or a run of it."""
    tally = Tally()
    found: dict[str, Rows] = {}
    for row in (Study.read(STUDY).run(workers=2) if run is None else run).final().to_pylist():
        found.setdefault(row["scenario"], []).append(row)
        tally.add([row])
    tables([(Line(id, BuiltIn(id), *BARS.get(id, ())), by_policy(rows)) for id, rows in found.items()])
    print(f"\nthe study: {tally}", flush=True)


def chase() -> None:
    """How often the arm that the adversary of adaptive-v1 raises changes, and what the raise costs."""
    scenario = sf.scenarios.make("adaptive-v1", horizon=T)
    players, strength = policies(scenario), 0.4
    for name, seed in product(("practical", "opb, our bounds", "safe-exp3, our bounds"), (1, 2)):
        rng, policy = np.random.default_rng(seed), players[name](scenario.problem, seed)
        counts, raised, changes, price = np.zeros(5), 0, 0, 0.0
        for _ in range(T):
            before, raised = raised, int(counts.argmax())
            changes += raised != before
            price += strength * policy.strategy[raised]
            decision = policy.ask()
            counts[decision.arm] += 1
            mean = (1 - strength) * MEANS[decision.arm] + strength * (decision.arm == raised)
            loss = float(rng.random() < mean)
            policy.tell(decision, loss, [float(rng.random() < COSTS[0, decision.arm])])
        print(
            f"{name}, seed {seed}: the raised arm changes {changes:,} times, the raise costs {price:,.0f}", flush=True
        )


def report() -> None:
    """What is quick: time, and a run for each setting of the cross."""
    cost_of_a_round()
    cross(1)


if __name__ == "__main__":
    cost_of_a_round()
    for part in (cross, grid, study, chase):
        part()
