"""A run as the report shows it: by scenario and policy, averaged over the seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

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
    course: list[dict[str, Any]]  # the summary at every checkpoint
    allocation: Floats  # (checkpoints, K) mean over the seeds, since the checkpoint before
    benchmark: Floats  # (K,) the best strategy in hindsight, mean over the seeds
    violations: Floats  # (m,) mean over the seeds at the last checkpoint
    first: list[dict[str, Any]]  # the rows of the first seed
    microseconds: float | None  # processor time per round, in the policy

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
        """Names of the constraints."""
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
    """The scenarios of a run, each with the policies that played in it."""
    parts = zip(run.provenance["simulations"], run.finished, strict=True)
    return [ScenarioResult(part, [_policy(part, cell) for cell in finished.cells()]) for part, finished in parts]


def _policy(part: dict[str, Any], cell: Cell) -> PolicyResult:
    described, course = part["policies"][cell.policy], summarise(cell, last=False)
    options = ", ".join(f"{key}={value}" for key, value in described["options"].items() if value is not None)
    seconds = part["policy_seconds"].get(cell.policy)
    return PolicyResult(
        name=cell.policy,
        kind=described["kind"],
        described=f"{described['policy']}({options})",
        final=course[-1],
        course=course,
        allocation=cell.means("allocation"),
        benchmark=cell.means("benchmark", last=True)[0],
        violations=cell.means("violations", last=True)[0],
        first=cell.first(),
        microseconds=None if seconds is None else 1e6 * seconds / (cell.checkpoints[-1] * cell.seeds.size),
    )
