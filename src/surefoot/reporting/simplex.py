"""Strategies over three arms as points in a triangle: the paper's Figure 1, drawn from a real run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from surefoot.analysis.hindsight import vertices
from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.rules import Floats

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
TRUE, ESTIMATED = "#009E73", "#56B4E9"
SAFE, PROPOSAL, REST, PLAYED, BEST = (
    "baseline", "proposal", "played without the baseline", "played next", "best in hindsight"
)  # fmt: skip
MARKS = {  # shapes, not colours: those belong to the policies. Hollow, and one within the other, so that none hides any
    BEST: ("*", "none", 17),
    SAFE: ("s", "none", 11),
    PROPOSAL: ("^", "none", 9),
    REST: ("D", "none", 6),
    PLAYED: ("o", "#1a1a1a", 3),
}
SAME = 1e-6
"""Strategies are the same if no share differs by more."""
PANELS = 6


def subject(scenario: ScenarioResult) -> PolicyResult | None:
    """The policy to be drawn: one that estimates a safe set over three arms, with hard guardrails if there is one."""
    size = 3 * scenario.problem.n_constraints
    able = [
        p
        for p in scenario.policies
        if size and scenario.problem.n_arms == 3 and len(p.first[0]["lower_costs"] or []) == size
    ]
    return min(able, key=lambda policy: policy.kind != "hard", default=None)


def points(scenario: ScenarioResult, row: Mapping[str, Any]) -> dict[str, Floats]:
    """The strategies of a row of the run.

    What is played next is the safe strategy, with its weight, and the rest: x = gamma x^diamond + (1 - gamma) rest.
    With the paper's preset the rest is the proposal. Presets "led" and "practical" play the mean of several plans:
    there the rest is what all of them have beside the safe strategy, and the proposal does not belong to all.
    """
    safe, played, weight = scenario.problem.safe, np.array(row["strategy"]), row["safe_weight"] or 0.0
    found = {BEST: np.array(row["benchmark"]), PROPOSAL: np.array(row["proposal"]), PLAYED: played}
    if safe is not None:
        found[SAFE] = safe.strategy
        if weight < 1.0 - SAME:
            rest = np.maximum(played - weight * safe.strategy, 0.0) / (1.0 - weight)
            if np.abs(rest - found[PROPOSAL]).max() > SAME:
                found[REST] = rest / rest.sum()
    return {name: found[name] for name in MARKS if name in found}


def several_plans(scenario: ScenarioResult, policy: PolicyResult) -> bool:
    """True if what a policy plays is not its proposal and the baseline alone."""
    return any(REST in points(scenario, row) for row in policy.first)


def still(scenario: ScenarioResult, policy: PolicyResult) -> Figure:
    """One triangle, after the last round."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    triangle(axes, scenario, policy.first[-1], names=True)
    last = policy.first[-1]
    axes.set_title(f"{policy.name}, seed {last['seed']}, after {last['round']:,} rounds")
    figure.legend(handles=key(scenario, policy), loc="outside right center", fontsize=8)
    return figure


def sequence(scenario: ScenarioResult, policy: PolicyResult) -> Figure:
    """Triangles at a few rounds, spread over the checkpoints."""
    places = np.unique(np.linspace(0, len(policy.first) - 1, PANELS).round().astype(int))
    wide = min(3, places.size)
    tall = -(-places.size // wide)
    figure = Figure(figsize=(3.2 * wide, 2.8 * tall + 0.5), layout="constrained")
    for panel, place in enumerate(places):
        axes = figure.add_subplot(tall, wide, panel + 1)
        triangle(axes, scenario, policy.first[place], names=panel == 0)
        axes.set_title(f"round {policy.first[place]['round']:,}", fontsize=9)
    figure.legend(handles=key(scenario, policy), loc="outside upper left", ncols=2, fontsize=8)  # a phone shows it
    return figure


def triangle(axes: Axes, scenario: ScenarioResult, row: Mapping[str, Any], names: bool) -> None:
    """The true safe set, the estimated one, and the strategies of a row of the run."""
    problem = scenario.problem
    axes.set_aspect("equal")
    axes.axis("off")
    axes.add_patch(Polygon(CORNERS, closed=True, fc="#f6f6f6", ec="#666666", lw=1))
    lower = np.array(row["lower_costs"]).reshape(problem.n_constraints, 3)
    area(axes, lower, problem.limits, fc=ESTIMATED, alpha=0.35, ec=ESTIMATED)
    area(axes, scenario.mean_costs, problem.thresholds, fc=TRUE, alpha=0.35, ec=TRUE)
    shown = points(scenario, row)
    if SAFE in shown:
        ends = np.array([shown[SAFE], shown.get(REST, shown[PROPOSAL])])
        axes.plot(*(ends @ CORNERS).T, color="#666666", lw=0.8, ls="--", gid="mixture")
    for name, strategy in shown.items():
        shape, colour, size = MARKS[name]
        axes.plot(
            *(strategy @ CORNERS), shape, mfc=colour, ms=size, mec="#1a1a1a", mew=0.9, clip_on=False, zorder=3,
            gid=name.replace(" ", "-"),
        )  # fmt: skip
    if names:
        for arm, (corner, align) in enumerate(zip(CORNERS, ("left", "right", "center"), strict=True)):
            down = arm < 2
            axes.annotate(
                scenario.arms[arm], corner, (0, -8 if down else 8), textcoords="offset points", ha=align,
                va="top" if down else "bottom",
            )  # fmt: skip
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.08, 0.95))


def area(axes: Axes, costs: Floats, limits: Floats, **look: object) -> None:
    """The strategies under the limits, as a polygon."""
    corners = vertices(costs, limits)
    if corners is None or len(corners) < 2:
        return
    flat = corners @ CORNERS
    middle = flat.mean(axis=0)
    around = np.argsort(np.arctan2(*(flat - middle).T[::-1]))
    axes.add_patch(Polygon(flat[around], closed=True, lw=1.2, **look))


def key(scenario: ScenarioResult, policy: PolicyResult) -> list[Patch | Line2D]:
    """The legend, of what is drawn."""
    sets = [
        Patch(fc=TRUE, ec=TRUE, alpha=0.5, label="true safe set"),
        Patch(fc=ESTIMATED, ec=ESTIMATED, alpha=0.5, label="safe at the lower cost bounds"),
    ]
    shown = {name for row in policy.first for name in points(scenario, row)}
    marks = [
        Line2D([], [], marker=shape, color=colour, mfc=colour, ls="", mec="#1a1a1a", ms=min(size, 12), label=name)
        for name, (shape, colour, size) in MARKS.items()
        if name in shown
    ]
    return [*sets, *marks]
