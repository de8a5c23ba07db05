"""Strategies over three arms as points in a triangle: the paper's Figure 1, drawn from a real run."""

from __future__ import annotations

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
MARKS = {  # shapes, not colours: those belong to the policies
    "safe strategy": ("s", "#1a1a1a"),
    "proposal": ("^", "#ffffff"),
    "strategy played": ("o", "#1a1a1a"),
    "best in hindsight": ("*", "#ffffff"),
}
PANELS = 6


def subject(scenario: ScenarioResult) -> PolicyResult | None:
    """The policy to be drawn: one that estimates a safe set over three arms, with hard constraints if there is one."""
    size = 3 * scenario.problem.n_constraints
    able = [
        p
        for p in scenario.policies
        if size and scenario.problem.n_arms == 3 and len(p.first[0]["lower_costs"] or []) == size
    ]
    return min(able, key=lambda policy: policy.kind != "hard", default=None)


def still(scenario: ScenarioResult, policy: PolicyResult) -> Figure:
    """One triangle, after the last round."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    triangle(axes, scenario, policy.first[-1], names=True)
    last = policy.first[-1]
    axes.set_title(f"{policy.name}, seed {last['seed']}, after {last['round']:,} rounds")
    axes.legend(handles=key(), loc="center left", bbox_to_anchor=(1.0, 0.5))
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
    figure.legend(handles=key(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def triangle(axes: Axes, scenario: ScenarioResult, row: dict[str, object], names: bool) -> None:
    """The true safe set, the estimated one, and the strategies of a row of the run."""
    problem = scenario.problem
    axes.set_aspect("equal")
    axes.axis("off")
    axes.add_patch(Polygon(CORNERS, closed=True, fc="#f6f6f6", ec="#666666", lw=1))
    lower = np.array(row["lower_costs"]).reshape(problem.n_constraints, 3)
    area(axes, lower, problem.limits, fc=ESTIMATED, alpha=0.35, ec=ESTIMATED)
    area(axes, scenario.mean_costs, problem.thresholds, fc=TRUE, alpha=0.35, ec=TRUE)
    points = {
        "safe strategy": None if problem.safe is None else problem.safe.strategy,
        "proposal": np.array(row["proposal"]),
        "strategy played": np.array(row["strategy"]),
        "best in hindsight": np.array(row["benchmark"]),
    }
    if points["safe strategy"] is not None:
        axes.plot(
            *np.array([points["safe strategy"], points["proposal"]]).dot(CORNERS).T, color="#666666", lw=0.8, ls="--"
        )
    for name, strategy in points.items():
        if strategy is not None:
            shape, colour = MARKS[name]
            size = 13 if shape == "*" else 7
            axes.plot(
                *(strategy @ CORNERS), shape, color=colour, ms=size, mec="#1a1a1a", mew=0.9, clip_on=False, zorder=3
            )
    if names:
        for arm, (corner, align) in enumerate(zip(CORNERS, ("right", "left", "center"), strict=True)):
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


def key() -> list[Patch | Line2D]:
    """The legend."""
    sets = [
        Patch(fc=TRUE, ec=TRUE, alpha=0.5, label="true safe set"),
        Patch(fc=ESTIMATED, ec=ESTIMATED, alpha=0.5, label="estimated set"),
    ]
    marks = [
        Line2D([], [], marker=m, color=c, ls="", mec="#1a1a1a", ms=11 if m == "*" else 8, label=n)
        for n, (m, c) in MARKS.items()
    ]
    return [*sets, *marks]
