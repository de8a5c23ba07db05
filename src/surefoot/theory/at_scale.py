"""The promise of safety, tried in very many runs: the share of unsafe runs of hard policies, and the tail of regret."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.statistics import share_interval
from surefoot.environments import scenarios
from surefoot.policies import REGISTRY
from surefoot.policies.presets import PRESETS
from surefoot.rules import RuleError, hint, shown
from surefoot.simulation.simulate import simulate

SCENARIOS = (
    "stochastic-v1", "three-arms-v1", "switching-v1", "drifting-v1", "small-loss-v1", "tight-margin-v1",
    "interior-safe-v1", "many-arms-v1", "many-constraints-v1", "llm-routing-v1", "dose-finding-v1", "lower-bound-v1",
    "adaptive-v1", "adaptive-proposal-v1",
)  # fmt: skip
"""Built-in scenarios for which safety is promised (costs keep their means, feedback is at once) and GPUs can run."""
POLICIES: dict[str, Any] = {
    **{f"solb, {preset}": partial(REGISTRY["solb"], preset=preset) for preset in PRESETS},
    **{name: REGISTRY[name] for name in ("opb", "safe-exp3", "safe-optimistic-lp")},
}
"""Every policy that promises safety in every round and learns; of SOLB, every preset."""
LEVEL = 0.999
"""Confidence of the interval of a share."""
QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
BEYOND = 5
"""Runs that must lie beyond a quantile for it to be told."""


class Share(NamedTuple):
    """What became of the runs of a policy in a scenario."""

    policy: str
    scenario: str
    delta: float
    rounds: int
    runs: int
    unsafe: int
    low: float
    high: float
    regret: float
    quantiles: tuple[float | None, ...]

    @property
    def refuted(self) -> bool:
        """True if the promise cannot be true, but for chance of (1 - LEVEL) / 2 at most."""
        return self.low > self.delta


def shares(
    policies: Sequence[str], ids: Sequence[str], runs: int, rounds: int, *, delta: float = 0.05, engine: str = "cuda",
    workers: int | None = None,
) -> Iterator[Share]:  # fmt: skip
    """Run every policy in every scenario, and yield the share of unsafe runs of each.

    Examples
    --------
    >>> [share] = shares(["solb, practical"], ["three-arms-v1"], runs=4, rounds=1000, engine="threads")
    >>> share.runs, share.unsafe
    (4, 0)
    """
    for argument, named, known in (("policy", policies, tuple(POLICIES)), ("scenario", ids, SCENARIOS)):
        for name in named:
            if name not in known:
                raise RuleError(argument, f"be one of {'; '.join(known)}", name, f"{shown(name)}{hint(name, known)}")
    for id in ids:
        scenario = scenarios.make(id, horizon=rounds, delta=delta).drawn_by("counter")
        for name in policies:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a contradiction is counted, if it leads to an unsafe run
                run = simulate(scenario, {name: POLICIES[name]}, runs, [rounds], workers, engine=engine)
            if not run.complete:
                raise KeyboardInterrupt
            yield share_of(name, id, delta, rounds, run.table)


def share_of(policy: str, scenario: str, delta: float, rounds: int, table: Any) -> Share:
    """The share of a table with one row a run."""
    unsafe = int(np.count_nonzero(table.column("rounds_in_violation").to_numpy()))
    regret, runs = table.column("regret").to_numpy(), table.num_rows
    _, low, high = share_interval(unsafe, runs, LEVEL)
    told = [float(np.quantile(regret, q)) if runs * (1.0 - q) >= BEYOND else None for q in QUANTILES]
    return Share(policy, scenario, delta, rounds, runs, unsafe, low, high, float(regret.mean()), tuple(told))


def csv_line(share: Share | None = None) -> str:
    """A line of the file that keeps the shares; without a share, its head."""
    if share is None:
        names = [*Share._fields[:-1], *(f"q{quantile:g}" for quantile in QUANTILES)]
        return ",".join("mean_regret" if name == "regret" else name for name in names)
    counts = [share.rounds, share.runs, share.unsafe]
    numbers = [
        f"{share.delta:g}",
        *map(str, counts),
        *(f"{value:.6g}" for value in (share.low, share.high, share.regret)),
    ]
    told = ["" if value is None else f"{value:.6g}" for value in share.quantiles]
    return ",".join([f'"{share.policy}"', share.scenario, *numbers, *told])
