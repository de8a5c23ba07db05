"""The data of each figure, as tables and CSV files."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.reporting.simplex import points
from surefoot.reporting.story import policy_costs

Rows = Sequence[dict[str, Any]]


def written(rows: Rows, path: Path) -> str:
    """Write a CSV file; return it as a data URL too, so that a page that stands alone can offer it."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["nothing"], lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    content = text.getvalue().encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return "data:text/csv;base64," + base64.b64encode(content).decode()


def of_figure(name: str, scenario: ScenarioResult, subject: PolicyResult | None) -> Rows:
    """What a figure of a scenario shows."""
    if name == "plane":
        columns = [f"{one}{end}" for one in ("regret", "violation") for end in ("", "_low", "_high")]
        return [{"policy": one.name, **{column: one.final[column] for column in columns}} for one in scenario.policies]
    if name == "allocation":
        return [row for policy in scenario.policies for row in allocation(policy, scenario.arms)]
    if name == "costs":
        return [row for policy in scenario.policies for row in costs(policy, scenario)]
    if subject is not None and name.startswith("simplex"):
        return simplex(subject, scenario)
    column = name.replace("-", "_")
    return [
        {"policy": policy.name, "round": row["round"], **{f"{column}{end}": row[f"{column}{end}"] for end in ENDS}}
        for policy in scenario.policies
        for row in policy.course
    ]


ENDS = ("", "_q10", "_q90")


def costs(policy: PolicyResult, scenario: ScenarioResult) -> Rows:
    """The expected cost of what was played since the checkpoint before, of each guardrail, and its limit.

    Where costs change between two checkpoints, the cost is between `low` and `high`.
    """
    course = policy_costs(policy, scenario)
    ends = {"cost": course.high} if course.exact else {"low": course.low, "high": course.high}
    ends |= {"q10": course.band[0], "q90": course.band[1]}
    return [
        {
            **{"policy": policy.name, "guardrail": name, "round": at, "limit": float(scenario.problem.thresholds[i])},
            **{end: float(values[place, i]) for end, values in ends.items()},
        }
        for i, name in enumerate(scenario.guardrails)
        for place, at in enumerate(scenario.rounds)
    ]


def allocation(policy: PolicyResult, arms: list[str]) -> Rows:
    """The share of each arm up to each checkpoint, and in the best safe strategy."""
    rounds = [row["round"] for row in policy.course]
    played = [
        {"policy": policy.name, "round": at, **dict(zip(arms, shares.tolist(), strict=True))}
        for at, shares in zip(rounds, policy.allocation, strict=True)
    ]
    return [
        *played,
        {"policy": policy.name, "round": "best", **dict(zip(arms, policy.benchmark.tolist(), strict=True))},
    ]


def simplex(policy: PolicyResult, scenario: ScenarioResult) -> Rows:
    """The strategies of the first seed at each checkpoint."""
    return [
        {
            "policy": policy.name,
            "seed": row["seed"],
            "round": row["round"],
            "what": kind,
            **dict(zip(scenario.arms, shares.tolist(), strict=True)),
        }
        for row in policy.first
        for kind, shares in points(scenario, row).items()
    ]
