"""A run as the report shows it: by scenario and policy, averaged over the seeds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.analysis.statistics import Interval, mean_interval
from surefoot.kernels.types import Integers
from surefoot.problem import Problem
from surefoot.rules import Floats
from surefoot.simulation.parts import Cell
from surefoot.simulation.run import Run, summarise


@dataclass(frozen=True)
class PolicyResult:
    """One policy in one scenario."""

    name: str
    kind: str
    described: str  # the policy and its options
    final: dict[str, Any]  # the summary at the last checkpoint
    seeds: Integers
    ends: dict[str, Floats]  # regret and violation at the last checkpoint, one entry a seed
    violations: Floats  # (m,) mean over the seeds at the last checkpoint
    baseline: float | None  # loss of the safe strategy a round, mean over the seeds; None if there is none
    gain: Interval | None  # loss of the safe strategy less that of the policy, a round
    microseconds: float | None  # processor time per round, in the policy
    cell: Cell  # its rows

    @cached_property
    def course(self) -> list[dict[str, Any]]:
        """The summary at every checkpoint."""
        return summarise(self.cell, last=False)

    @cached_property
    def allocation(self) -> Floats:
        """The mean allocation over the seeds since the checkpoint before, (checkpoints, K)."""
        return self.cell.means("allocation")

    @cached_property
    def benchmark(self) -> Floats:
        """The best strategy in hindsight, mean over the seeds, (K,)."""
        return np.asarray(self.cell.means("benchmark", last=True)[0])

    @cached_property
    def first(self) -> list[dict[str, Any]]:
        """The rows of the first seed."""
        return self.cell.first()

    def series(self, column: str) -> Floats:
        """A column of the summary over the checkpoints."""
        return np.array([row[column] for row in self.course], np.float64)


@dataclass(frozen=True)
class ScenarioResult:
    """All policies in one scenario."""

    provenance: dict[str, Any]
    policies: list[PolicyResult]

    @property
    def id(self) -> str:
        """Its name."""
        return str(self.provenance["scenario"]["id"])

    @cached_property
    def problem(self) -> Problem:
        """What was to be solved."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told when the scenario was made
            return Problem.from_dict(self.provenance["scenario"]["problem"])

    @property
    def about(self) -> str:
        """What it is, in words."""
        return str(self.provenance["scenario"]["about"])

    @property
    def arms(self) -> list[str]:
        """Names of the arms."""
        return list(self.provenance["scenario"]["arms"])

    @property
    def guardrails(self) -> list[str]:
        """Names of the guardrails."""
        return list(self.provenance["scenario"]["guardrails"])

    @cached_property
    def mean_costs(self) -> Floats:
        """The true costs."""
        given = self.provenance["scenario"]["mean_costs"]
        return np.array(given, np.float64).reshape(self.problem.n_constraints, self.problem.n_arms)

    @property
    def rounds(self) -> list[int]:
        """The checkpoints."""
        return list(self.provenance["checkpoints"])


def results(run: Run) -> list[ScenarioResult]:
    """The scenarios of a run with the policies that played in them. Courses are read when they are asked for."""
    parts = zip(run.provenance["simulations"], run.finished, strict=True)
    found = [ScenarioResult(part, [policy_of(part, cell) for cell in finished.cells()]) for part, finished in parts]
    return [scenario for scenario in found if scenario.policies]


def gain_over_baseline(cell: Cell) -> tuple[float, Interval] | None:
    """The loss of the safe strategy a round, and how much less the policy lost; None without a safe strategy."""
    ends = {name: values[0] for name, _, values in cell.values(("loss", "baseline_loss"), last=True)}
    if np.isnan(ends["baseline_loss"]).any():
        return None
    rounds = cell.checkpoints[-1]
    return float(ends["baseline_loss"].mean()) / rounds, mean_interval((ends["baseline_loss"] - ends["loss"]) / rounds)


def option(value: Any) -> str:
    """An option as one would write it; a confidence bound with its settings.

    >>> option({"name": "betting", "sides": "upper", "bets": 20})
    'betting(sides=upper, bets=20)'
    """
    if not isinstance(value, Mapping) or "name" not in value:
        return str(value)
    return f"{value['name']}({', '.join(f'{key}={given}' for key, given in value.items() if key != 'name')})"


def policy_of(part: dict[str, Any], cell: Cell) -> PolicyResult:
    """The result of a policy in a scenario, from its last checkpoint alone."""
    described, (final,) = part["policies"][cell.policy], summarise(cell, last=True)
    options = ", ".join(f"{key}={option(value)}" for key, value in described["options"].items() if value is not None)
    seconds = part["policy_seconds"].get(cell.policy)
    gained = gain_over_baseline(cell)
    return PolicyResult(
        name=cell.policy,
        kind=described["kind"],
        described=f"{described['policy']}({options})",
        final=final,
        seeds=cell.seeds,
        ends={name: values[0] for name, _, values in cell.values(("regret", "violation"), last=True)},
        violations=cell.means("violations", last=True)[0],
        baseline=None if gained is None else gained[0],
        gain=None if gained is None else gained[1],
        microseconds=None if seconds is None else 1e6 * seconds / (cell.checkpoints[-1] * cell.seeds.size),
        cell=cell,
    )
