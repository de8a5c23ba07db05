"""How often a limit is broken in designs that are made to break it: "practical", and "led" with two follower shares.

``python -m benchmarks.safety_designs`` prints unsafe runs with exact (Clopper-Pearson) 95 % intervals, for each design and
in all, and writes docs/data/safety-designs.csv. Attractive arms cost just above the limit, and the safe arm loses always,
so nothing but the bounds keeps a policy from playing them. The default preset has 10,000 runs of each design at each
delta, the others have 400. No two designs share a seed.

These attacks bite early, so runs are short (`Design.rounds`): "just above, long" is the first design for three times as
many rounds. Elsewhere longer runs use up more of delta, which covers all rounds together; docs/practical.md has a million.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import surefoot as sf
from surefoot.analysis.statistics import share_interval

FIRST_SEED = 50_000
DELTAS = (0.05, 0.5)
POLICIES: dict[str, dict[str, Any]] = {
    "practical": {"preset": "practical"},
    "led": {"preset": "led"},
    "led, 0.01": {"preset": "led", "follower_share": 0.01},
}
RUNS = {"practical": 400, "led": 10_000, "led, 0.01": 400}
DATA = Path(__file__).parent.parent / "docs" / "data" / "safety-designs.csv"
FIELDS = ("delta", "design", "arms", "guardrails", "margin", "policy", "rounds", "runs", "unsafe")


class Design(NamedTuple):
    """A world in which every arm but the safe one is attractive and breaks a limit by a little, if played alone."""

    name: str
    n_arms: int
    m: int
    margin: float
    limit: float = 0.5
    excess: float = 0.02  # of the attractive arms over the limit
    kind: str = "coins"
    rounds: int = 2_000

    def costs(self) -> Any:
        """Mean costs, (m, K); the safe arm is the last one."""
        means = np.full((self.m, self.n_arms), self.limit + self.excess)
        if self.kind == "opposed":  # every arm breaks one limit, and is cheap under the others
            means[:] = 0.5 * self.limit
            for a in range(self.n_arms):
                means[a % self.m, a] = self.limit + self.excess
        elif self.kind == "one bad":  # the most attractive arm is over, the others are under by as much
            means[:, 1:] = self.limit - self.excess
        elif self.kind == "on the limit":  # the most attractive arm is over, the others cost just the limit
            means[:, 1:] = self.limit
        elif self.kind == "far over":  # half of the arms cost nearly everything
            means[:, : self.n_arms // 2] = 0.95
        means[:, -1] = self.limit - self.margin
        if self.kind == "mixture":  # of the last two arms, each over one limit
            means[:, -2:] = self.limit - self.margin
            means[:2, -2:] += np.array([[-0.1, 0.1], [0.1, -0.1]])
        return means

    def scenario(self, delta: float) -> sf.Scenario:
        """The world; the same means in every run."""
        means = self.costs()
        losses = np.linspace(0.0, 0.4, self.n_arms)
        losses[-1] = 1.0
        safe = np.eye(self.n_arms)[-1]
        if self.kind == "mixture":
            losses[-2], safe = 1.0, 0.5 * (np.eye(self.n_arms)[-1] + np.eye(self.n_arms)[-2])
        met: Any = sf.losses.Bernoulli(losses)
        if self.kind == "switching":  # losses of the attractive arms are turned round twice
            turned = np.append(losses[-2::-1], 1.0)
            met = sf.losses.Switching([losses, turned, losses], [self.rounds // 3, 2 * self.rounds // 3])
        drawn: Any = sf.costs.Bernoulli(means, correlation=0.9 if self.kind == "correlated" else 0.0)
        if self.kind == "Beta":
            drawn = sf.costs.Beta(means, 30.0)
        problem = sf.Problem(
            self.n_arms, [self.limit] * self.m, self.rounds, delta, sf.SafeStrategy(safe, means @ safe)
        )  # fmt: skip
        return sf.Scenario("designed-v1", problem, met, drawn)

    def unsafe(self, policy: str, delta: float, runs: int) -> int:
        """How many of the first runs played a strategy that costs more than a limit, in any round."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # contradictions, and margins that are said to be small
            players = {policy: partial(sf.SOLB, **POLICIES[policy])}
            first = FIRST_SEED + max(RUNS.values()) * DESIGNS.index(self)
            seeds = range(first, first + runs)
            run = sf.simulate(self.scenario(delta), players, seeds, [self.rounds], 1, progress=False)
        return sum(row["rounds_in_violation"] > 0 for row in run.table.to_pylist())


DESIGNS = (
    Design("just above", 2, 1, 0.1),
    Design("just above, thin margin", 2, 1, 0.02),
    Design("just above, margin 0.001", 2, 1, 0.001),
    Design("just above, long", 2, 1, 0.1, rounds=6_000),
    Design("just above by 0.01", 2, 1, 0.1, excess=0.01),
    Design("just above, five arms", 5, 1, 0.1),
    Design("just above, three guardrails", 5, 3, 0.1),
    Design("just above, twenty arms", 20, 1, 0.1),
    Design("just above, fifty arms", 50, 1, 0.1),
    Design("just above, twelve guardrails", 10, 12, 0.1, rounds=1_000),
    Design("rare spikes", 2, 1, 0.01, limit=0.05, excess=0.01),
    Design("rare spikes, margin 0.001", 2, 1, 0.001, limit=0.05, excess=0.01),
    Design("rarer spikes", 2, 1, 0.005, limit=0.01, excess=0.005, rounds=4_000),
    Design("rare spikes, five arms", 5, 1, 0.01, limit=0.05, excess=0.01),
    Design("rare spikes, three guardrails", 5, 3, 0.01, limit=0.05, excess=0.01),
    Design("near 1", 2, 1, 0.05, limit=0.9, excess=0.02),
    Design("little variance", 2, 1, 0.1, excess=0.005, kind="Beta"),
    Design("little variance, five arms", 5, 2, 0.02, excess=0.005, kind="Beta"),
    Design("a guardrail for each arm", 5, 4, 0.1, kind="opposed"),
    Design("a guardrail for each arm, twelve", 13, 12, 0.05, kind="opposed", rounds=1_000),
    Design("costs go together", 3, 6, 0.1, kind="correlated"),
    Design("one bad arm of five", 5, 1, 0.1, kind="one bad"),
    Design("others on the limit", 5, 1, 0.1, kind="on the limit"),
    Design("half far over", 6, 1, 0.05, kind="far over"),
    Design("losses switch", 3, 1, 0.1, kind="switching"),
    Design("a safe mixture", 4, 2, 0.05, kind="mixture"),
)


class Job(NamedTuple):
    """A line of the table."""

    delta: float
    design: Design
    policy: str
    runs: int

    def unsafe(self) -> int:
        """The unsafe runs."""
        return self.design.unsafe(self.policy, self.delta, self.runs)

    def row(self, unsafe: int) -> dict[str, Any]:
        """A line of the file."""
        name, n_arms, m, margin = self.design[:4]
        values = (self.delta, name, n_arms, m, margin, self.policy, self.design.rounds, self.runs, unsafe)
        return dict(zip(FIELDS, values, strict=True))


def main(most: int | None = None) -> None:
    """Every design at every delta, then all of them together. The file is written only if no runs were left out."""
    started = time.perf_counter()
    jobs = [
        Job(delta, design, policy, min(runs, most or runs))
        for delta in DELTAS for design in DESIGNS for policy, runs in RUNS.items()
    ]  # fmt: skip
    rows = []
    with ProcessPoolExecutor() as pool:
        for job, unsafe in zip(jobs, pool.map(Job.unsafe, jobs), strict=True):
            rows.append(job.row(unsafe))
            print(f"delta {job.delta:g}, {job.design.name}, {job.policy}: {told(unsafe, job.runs)}", flush=True)
    for delta in DELTAS:
        for policy in POLICIES:
            of = [row for row in rows if row["delta"] == delta and row["policy"] == policy]
            worst = max(of, key=lambda row: row["unsafe"])
            total = told(sum(row["unsafe"] for row in of), sum(row["runs"] for row in of))
            print(f"delta {delta:g}, {policy}, all designs: {total}; most in one: {worst['design']}", flush=True)
    print(f"{time.perf_counter() - started:,.0f} s", flush=True)
    if most is None:
        with DATA.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def told(unsafe: int, runs: int) -> str:
    """A share of runs with its exact interval."""
    share = share_interval(unsafe, runs)
    percent = f"{100 * share.value:.2f} % ({100 * share.low:.2f} to {100 * share.high:.2f} %)"
    return f"{unsafe:,} of {runs:,} unsafe, {percent}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
