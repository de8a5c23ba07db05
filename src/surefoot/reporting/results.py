"""A run as the report shows it: by scenario and policy, averaged over the seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefoot.problem import Problem
from surefoot.rules import Floats
from surefoot.simulation.run import Run


@dataclass(frozen=True)
class Detail:
    """The course of one policy in one scenario: what its figures show."""

    course: list[dict[str, Any]]  # the summary at every checkpoint
    allocation: Floats  # (checkpoints, K) mean over the seeds, since the checkpoint before
    benchmark: Floats  # (K,) the best strategy in hindsight, mean over the seeds
    first: list[dict[str, Any]]  # the rows of the first seed


@dataclass(frozen=True)
class PolicyResult:
    """One policy in one scenario."""

    name: str
    kind: str
    described: str  # the policy and its options
    final: dict[str, Any]  # the summary at the last checkpoint
    ends: dict[str, Floats]  # seed, regret and violation at the last checkpoint, one entry a seed
    violations: Floats  # (m,) mean over the seeds at the last checkpoint
    microseconds: float | None  # processor time per round, in the policy
    detail: Callable[[], Detail]

    @property
    def course(self) -> list[dict[str, Any]]:
        """The summary at every checkpoint."""
        return self.detail().course

    @property
    def allocation(self) -> Floats:
        """The mean allocation over the seeds, (checkpoints, K)."""
        return self.detail().allocation

    @property
    def benchmark(self) -> Floats:
        """The best strategy in hindsight, mean over the seeds."""
        return self.detail().benchmark

    @property
    def first(self) -> list[dict[str, Any]]:
        """The rows of the first seed."""
        return self.detail().first

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
    """The scenarios of a run, each with the policies that played in it. Courses are read when they are asked for."""
    summary = {(row["scenario"], row["policy"]): row for row in run.summary().to_pylist()}
    ends = {key: at_the_end(rows) for key, rows in last_rows(run)}
    return [ScenarioResult(part, list(policies_of(run, part, summary, ends))) for part in run.provenance["simulations"]]


def last_rows(run: Run) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    """Yield the rows of the last checkpoint, one a seed, by scenario and policy."""
    wanted = run.final().select(["scenario", "policy", "seed", "regret", "violation", "violations"])
    for group in run.groups(wanted.append_column("round", pa.nulls(wanted.num_rows))):
        yield (group.scenario, group.policy), group.rows


def at_the_end(rows: pa.Table) -> tuple[dict[str, Floats], Floats]:
    """What is kept of last rows: a few columns, and the mean violation of each guardrail."""
    columns = {name: rows.column(name).to_numpy() for name in ("seed", "regret", "violation")}
    flat = pc.list_flatten(rows.column("violations").combine_chunks()).to_numpy(zero_copy_only=False)
    return columns, np.asarray(flat.reshape(rows.num_rows, -1).mean(axis=0))


def policies_of(
    run: Run, part: dict[str, Any], summary: dict[tuple[str, str], dict[str, Any]], ends: dict[tuple[str, str], Any]
) -> Iterator[PolicyResult]:
    """Yield the policies of a scenario that have finished an episode."""
    id, last = part["scenario"]["id"], part["checkpoints"][-1]
    courses = Courses(run, part)
    for name, described in part["policies"].items():
        if (id, name) not in summary:
            continue
        final, (columns, violations) = summary[id, name], ends[id, name]
        options = ", ".join(f"{key}={value}" for key, value in described["options"].items() if value is not None)
        seconds = part["policy_seconds"].get(name)
        yield PolicyResult(
            name=name,
            kind=described["kind"],
            described=f"{described['policy']}({options})",
            final=final,
            ends=columns,
            violations=violations,
            microseconds=None if seconds is None else 1e6 * seconds / (last * final["seeds"]),
            detail=lambda name=name: courses.details[name],  # type: ignore[misc]
        )


class Courses:
    """The courses of a scenario, read when the first of them is asked for."""

    def __init__(self, run: Run, part: dict[str, Any]) -> None:
        self._run, self._part = run, part

    @cached_property
    def details(self) -> dict[str, Detail]:
        """What the figures of each policy show."""
        id = self._part["scenario"]["id"]
        rows: dict[str, list[list[dict[str, Any]]]] = {}
        for (name, _), episode in self._run.episodes(id).items():
            rows.setdefault(name, []).append(episode.to_pylist())
        alone = Run(self._run.table.filter(pc.equal(self._run.table.column("scenario"), id)), self._run.provenance)
        summaries: dict[str, list[dict[str, Any]]] = {}
        for row in alone.summary(all_checkpoints=True).to_pylist():
            summaries.setdefault(row["policy"], []).append(row)
        return {
            name: Detail(
                course=summaries[name],
                allocation=np.mean([[row["allocation"] for row in episode] for episode in episodes], axis=0),
                benchmark=np.mean([episode[-1]["benchmark"] for episode in episodes], axis=0),
                first=episodes[0],
            )
            for name, episodes in rows.items()
        }
