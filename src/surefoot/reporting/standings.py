"""Standings: policies compared over all scenarios of a run. Who is safe, who loses least, who is fast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surefoot.analysis.statistics import LEVEL, Interval, mean_interval, share_interval
from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.rules import Floats

RESAMPLED = 1_000
"""How many times the seeds are drawn again for the interval of a rank."""
FEWEST_SEEDS = 5
"""Number of seeds from which on a rank has an interval."""
KNOWS = "mean_costs"
"""The option of a policy that is told the true costs: it is a yardstick, and has no rank."""


class Standing(NamedTuple):
    """A policy over all scenarios that it played in."""

    policy: str
    kind: str
    safe: bool  # no scenario, nor all of them together, shows more unsafe runs than delta allows
    rank: int | None
    ranks: tuple[int, int] | None  # the interval of the rank, over the seeds
    unsafe: Interval  # share of runs with a violation, where there are guardrails
    unsafe_runs: int
    runs: int
    regret: Interval  # a round, mean over scenarios
    violation: Interval
    microseconds: float | None  # median over scenarios
    scenarios: int


def standings(scenarios: list[ScenarioResult]) -> list[Standing]:
    """The policies of a run, best first.

    Safe ones come first, by regret a round; then the others, by violation a round; then those that did not play in
    every scenario. A policy counts as safe if no scenario shows more unsafe runs than delta allows, and neither do all
    of them together: binomial tests at 5 % for each policy. The test of all together takes runs as
    independent; scenarios share their seeds, so its level is not exact.
    """
    played: dict[str, list[tuple[ScenarioResult, PolicyResult]]] = {}
    for scenario in scenarios:
        for policy in scenario.policies:
            played.setdefault(policy.name, []).append((scenario, policy))
    most = max((len(them) for them in played.values()), default=0)
    listed = [standing(name, them) for name, them in played.items()]
    listed.sort(key=lambda one: (one.scenarios < most, not one.safe, (one.regret if one.safe else one.violation).value))
    ranked = [one for one in listed if one.scenarios == most and not knows(played[one.policy])]
    spans = rank_spans([played[one.policy] for one in ranked], [one.safe for one in ranked])
    places = {one.policy: place for place, one in enumerate(ranked, 1)}
    return [
        one._replace(rank=places[one.policy], ranks=spans[places[one.policy] - 1]) if one.policy in places else one
        for one in listed
    ]


def knows(them: list[tuple[ScenarioResult, PolicyResult]]) -> bool:
    """True if the policy is told the true costs."""
    scenario, policy = them[0]
    return KNOWS in scenario.provenance["policies"][policy.name]["options"]


def standing(name: str, them: list[tuple[ScenarioResult, PolicyResult]]) -> Standing:
    """One policy, before it is ranked."""
    railed = [(scenario, policy.final) for scenario, policy in them if scenario.guardrails]
    unsafe, runs = (sum(final[key] for _, final in railed) for key in ("violating_runs", "seeds"))
    times = [policy.microseconds for _, policy in them if policy.microseconds is not None]
    regret, violation = (by_seed(them, column) for column in ("regret", "violation"))
    return Standing(
        policy=name,
        kind=them[0][1].kind,
        safe=is_safe(railed),
        rank=None,
        ranks=None,
        unsafe=share_interval(unsafe, runs) if runs else Interval(0.0, 0.0, 1.0),
        unsafe_runs=unsafe,
        runs=runs,
        regret=mean_interval(list(regret.values())),
        violation=mean_interval(list(violation.values())),
        microseconds=float(np.median(times)) if times else None,
        scenarios=len(them),
    )


def is_safe(railed: list[tuple[ScenarioResult, dict[str, int]]]) -> bool:
    """True if runs do not show more violations than delta allows, in any scenario or in all of them together."""
    if not railed:
        return True
    level = 1 - 2 * (1 - LEVEL) / (len(railed) + 1)  # the lower end of an interval, in one of so many tests
    counts = [(final["violating_runs"], final["seeds"], scenario.problem.delta) for scenario, final in railed]
    total = sum(unsafe for unsafe, _, _ in counts), sum(runs for _, runs, _ in counts), max(d for _, _, d in counts)
    return all(share_interval(unsafe, runs, level).low <= delta for unsafe, runs, delta in [*counts, total])


def by_seed(them: list[tuple[ScenarioResult, PolicyResult]], column: str) -> dict[int, float]:
    """The mean over scenarios of a quantity a round, for each seed that finished in all of them."""
    each = [
        dict(zip(policy.seeds.tolist(), policy.ends[column] / policy.final["round"], strict=True)) for _, policy in them
    ]
    common = set(each[0]).intersection(*each[1:]) or set()
    if not common:  # a run that was stopped: means of what there is
        return {0: float(np.mean([np.mean(list(values.values())) for values in each]))}
    return {seed: float(np.mean([values[seed] for values in each])) for seed in sorted(common)}


def rank_spans(
    ranked: list[list[tuple[ScenarioResult, PolicyResult]]], safe: list[bool]
) -> list[tuple[int, int] | None]:
    """The interval of each rank: seeds are drawn again and again, with replacement, the same for all policies."""
    columns = [by_seed(them, "regret" if is_safe else "violation") for them, is_safe in zip(ranked, safe, strict=True)]
    seeds = sorted(set.intersection(*map(set, columns))) if columns else []
    if len(seeds) < FEWEST_SEEDS:
        return [None] * len(ranked)
    values = np.array([[column[seed] for seed in seeds] for column in columns])
    drawn = np.random.default_rng(0).multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), RESAMPLED)
    means: Floats = drawn @ values.T / len(seeds)
    ranks = np.empty(means.shape, int)
    first = sum(safe)  # those that are not safe stay behind those that are
    for part, offset in ((slice(0, first), 1), (slice(first, None), first + 1)):
        ranks[:, part] = means[:, part].argsort(axis=1).argsort(axis=1) + offset
    ends = np.quantile(ranks, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="nearest")
    return [(int(low), int(high)) for low, high in ends.T]
