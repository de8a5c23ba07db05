"""What was played against what the world did: expected costs between checkpoints, and when the world changes."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.statistics import QUANTILES
from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.rules import Floats

DRIFTS = {
    "Drifting": "drift",
    "RaiseMostPlayed": "react to what is played",
    "PunishProposal": "react to what is played",
}
"""What losses or costs of some models do in every round."""


class Change(NamedTuple):
    """A moment at which means change at once."""

    after: int  # rounds
    what: str  # losses, costs, or both


def changes(scenario: ScenarioResult) -> list[Change]:
    """When losses and costs change at once, within the rounds that were played."""
    found: dict[int, list[str]] = {}
    for what in ("losses", "costs"):
        model = scenario.provenance["scenario"][what]
        if is_own(model, "Switching"):
            for after in model["at"]:
                found.setdefault(int(after), []).append(what)
    last = scenario.rounds[-1]
    return [Change(after, " and ".join(what)) for after, what in sorted(found.items()) if 0 < after < last]


def drifts(scenario: ScenarioResult) -> list[str]:
    """What changes in every round, as clauses: "losses drift"."""
    told = scenario.provenance["scenario"]
    clauses = []
    for what in ("losses", "costs"):
        model = told[what]
        if model.get("model") in DRIFTS and "module" not in model:
            clauses.append(f"{what} {DRIFTS[model['model']]}")
    return clauses


def costs_change(scenario: ScenarioResult) -> bool:
    """True if mean costs change, at once or in every round."""
    return any("costs" in one.what for one in changes(scenario)) or any("costs" in one for one in drifts(scenario))


def is_own(model: dict[str, Any], name: str) -> bool:
    """True if this is a model of this package, and its arrays are short enough to be in the provenance."""
    return model.get("model") == name and "module" not in model and not any(isinstance(v, dict) for v in model.values())


class MeanCosts(NamedTuple):
    """The mean costs of the rounds between checkpoints, each array (checkpoints, m, K)."""

    least: Floats
    largest: Floats
    known: bool  # False: the model may change in a way that the provenance does not tell; these are then upper bounds

    @property
    def exact(self) -> bool:
        """True if no mean changes between two checkpoints, so that expected costs follow from what was played."""
        return self.known and bool((self.least == self.largest).all())


def mean_costs(scenario: ScenarioResult) -> MeanCosts:
    """The least and the largest mean costs between checkpoints: equal, unless costs change between two of them."""
    model = scenario.provenance["scenario"]["costs"]
    edges = [0, *scenario.rounds]
    spans = list(pairwise(edges))
    if is_own(model, "Switching"):
        phases, at = np.array(model["by_phase"], np.float64), np.array(model["at"])
        first, last = np.searchsorted(at, np.array(spans).T - [[0], [1]], side="right")
        inside = [phases[one : other + 1] for one, other in zip(first, last, strict=True)]
        return MeanCosts(np.array([p.min(axis=0) for p in inside]), np.array([p.max(axis=0) for p in inside]), True)
    if is_own(model, "Drifting"):
        start, end = (np.array(model[name], np.float64) for name in ("start", "end"))
        passed = np.minimum(np.array([(a, b - 1) for a, b in spans]) / (model["rounds"] - 1), 1.0)[:, :, None, None]
        both = (1 - passed) * start + passed * end  # (checkpoints, 2, m, K)
        return MeanCosts(both.min(axis=1), both.max(axis=1), True)
    constant = np.broadcast_to(scenario.mean_costs, (len(spans), *scenario.mean_costs.shape))
    own = "module" not in model and model.get("model") not in ("Switching", "Drifting")
    return MeanCosts(constant, constant, own)


class CostCourse:
    """The expected costs of what a policy played, between checkpoints and on average.

    The expected cost of a round is the mean costs times the strategy. Its mean between two checkpoints follows exactly
    from the mean strategy, if the mean costs do not change in between; else it lies between `low` and `high`.
    """

    def __init__(self, policy: PolicyResult, scenario: ScenarioResult) -> None:
        self._policy, self._means, self._rounds = policy, mean_costs(scenario), scenario.rounds

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """(checkpoints, seeds, m), by the least and by the largest mean costs."""
        low, high = [], []
        for _, which, played in self._policy.cell.values(["allocation"]):
            low.append(np.einsum("csk,cmk->csm", played, self._means.least[which]))
            high.append(np.einsum("csk,cmk->csm", played, self._means.largest[which]))
        return np.concatenate(low), np.concatenate(high)

    @property
    def exact(self) -> bool:
        """True if `low` and `high` are the same, and the costs."""
        return self._means.exact

    @property
    def known(self) -> bool:
        """False if the model may change in a way that the provenance does not tell."""
        return self._means.known

    @cached_property
    def low(self) -> Floats:
        """Mean over the seeds, (checkpoints, m)."""
        return np.asarray(self._ends[0].mean(axis=1))

    @cached_property
    def high(self) -> Floats:
        """Mean over the seeds, (checkpoints, m)."""
        return np.asarray(self._ends[1].mean(axis=1))

    @cached_property
    def band(self) -> tuple[Floats, Floats]:
        """The 10 % quantile over the seeds of the lower end, and the 90 % quantile of the upper, (checkpoints, m)."""
        low, high = np.quantile(self._ends[0], QUANTILES[0], axis=1), np.quantile(self._ends[1], QUANTILES[-1], axis=1)
        return np.asarray(low), np.asarray(high)

    @cached_property
    def average(self) -> tuple[Floats, Floats]:
        """The lower and the upper end of the average over all rounds and seeds, each (m,)."""
        weights = np.diff(self._rounds, prepend=0) / self._rounds[-1]
        return weights @ self.low, weights @ self.high
