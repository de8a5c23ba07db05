"""What a run with a grid varies: sheets, each of which becomes a map or a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.simulation.grid import labels

Place = tuple[int, ...]


class Axis(NamedTuple):
    """A value that varies."""

    name: str
    values: list[Any]

    @property
    def labels(self) -> list[str]:
        """The values as text."""
        return labels(self.values)

    @property
    def numeric(self) -> bool:
        """True if all values are numbers."""
        return all(isinstance(value, Real) and not isinstance(value, bool) for value in self.values)


class Measure(NamedTuple):
    """What a figure of a grid shows of each cell."""

    name: str
    title: str
    column: str
    caption: str

    def of(self, policy: PolicyResult) -> tuple[float, float, float]:
        """The value and its 95 % interval."""
        low, high = (policy.final[f"{self.column}_{end}"] for end in ("low", "high"))
        return policy.final[self.column], low, high


MEASURES = (
    Measure("regret", "Regret", "regret", "how much more was lost than by the best safe strategy in hindsight"),
    Measure("violation", "Total violation", "violation", "of the guardrail violated most"),
    Measure(
        "unsafe",
        "Share of unsafe runs",
        "violating_share",
        "runs with a violation in any round; a frame marks more of them than delta allows, "
        "by the 95 % interval of that combination alone",
    ),
)


class Sheet(NamedTuple):
    """Policies over the same axes."""

    title: str
    axes: list[Axis]
    policies: dict[str, dict[Place, PolicyResult]]  # by name, and by the place in the grid
    references: dict[str, PolicyResult]  # policies that do not vary here
    delta: float
    guarded: bool  # whether there are guardrails


def axes_of(places: Mapping[str, Mapping[str, Any]]) -> list[Axis]:
    """The axes of cells, with the values in the order in which they come; numbers in their own order."""
    found: dict[str, list[Any]] = {}
    for at in places.values():
        for name, value in at.items():
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    axes = [Axis(name, values) for name, values in found.items()]
    return [axis._replace(values=sorted(axis.values)) if axis.numeric else axis for axis in axes]


def place_in(axes: list[Axis], at: Mapping[str, Any]) -> Place:
    """The place of a cell in a grid."""
    return tuple(axis.values.index(at[axis.name]) for axis in axes)


def sheets(
    scenarios: list[ScenarioResult], grid: Mapping[str, Any]
) -> Iterator[tuple[str, list[ScenarioResult], list[Sheet]]]:
    """Yield, for each entry of the study that varies, its name, its cells and its sheets."""
    varied, policies = grid["scenarios"], grid["policies"]
    groups: dict[str, list[ScenarioResult]] = {}
    for scenario in scenarios:
        if scenario.id in varied or any(policy.name in policies for policy in scenario.policies):
            groups.setdefault(varied.get(scenario.id, {"entry": scenario.id})["entry"], []).append(scenario)
    for name, cells in groups.items():
        at = {cell.id: varied.get(cell.id, {"at": {}})["at"] for cell in cells}
        yield name, cells, list(sheets_of(name, cells, at, policies))


def sheets_of(
    name: str, cells: list[ScenarioResult], at: Mapping[str, Mapping[str, Any]], policies: Mapping[str, Any]
) -> Iterator[Sheet]:
    """Yield a sheet of the policies that do not vary, if the scenario does, and one for each set of policy options."""
    axes = axes_of(at)
    about = max(cell.problem.delta for cell in cells), any(cell.guardrails for cell in cells)
    plain = [policy.name for policy in in_order(cells) if policy.name not in policies]
    if axes and plain:
        yield sheet(name, axes, cells, at, {one: (one, {}) for one in plain}, about)
    families: dict[tuple[str, ...], dict[str, tuple[str, Mapping[str, Any]]]] = {}
    for policy in in_order(cells):
        if policy.name in policies:
            entry = policies[policy.name]
            families.setdefault(tuple(entry["at"]), {})[policy.name] = entry["entry"], entry["at"]
    for options, members in families.items():
        own = axes_of({one: where for one, (_, where) in members.items()})
        made = sheet(f"{name}: {', '.join(options)}", [*axes, *own], cells, at, members, about)
        yield made if axes else made._replace(references=references(cells[0], plain))


def in_order(cells: list[ScenarioResult]) -> list[PolicyResult]:
    """The policies of all cells, each once."""
    return list({policy.name: policy for cell in cells for policy in cell.policies}.values())


def references(scenario: ScenarioResult, names: list[str]) -> dict[str, PolicyResult]:
    """The results of policies that do not vary, in a scenario that does not either."""
    return {policy.name: policy for policy in scenario.policies if policy.name in names}


def sheet(
    title: str,
    axes: list[Axis],
    cells: list[ScenarioResult],
    at: Mapping[str, Mapping[str, Any]],
    members: Mapping[str, tuple[str, Mapping[str, Any]]],
    about: tuple[float, bool],
) -> Sheet:
    """The results of some policies at their places in a grid."""
    found: dict[str, dict[Place, PolicyResult]] = {}
    for cell in cells:
        for policy in cell.policies:
            if policy.name in members:
                family, own = members[policy.name]
                found.setdefault(family, {})[place_in(axes, {**at[cell.id], **own})] = policy
    return Sheet(title, axes, found, {}, *about)


def rows(sheet: Sheet, value: Callable[[PolicyResult], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The sheet as a long table: policy, axes, and what `value` says of each cell."""
    listed = [
        {"policy": name, **{axis.name: axis.values[i] for axis, i in zip(sheet.axes, place, strict=True)}, **value(one)}
        for name, cells in sheet.policies.items()
        for place, one in sorted(cells.items())
    ]
    blank = dict.fromkeys((axis.name for axis in sheet.axes), "")
    return listed + [{"policy": name, **blank, **value(one)} for name, one in sheet.references.items()]
