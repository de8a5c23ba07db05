"""The figures of a scenario. Each function draws one; `figures` names them all."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.reporting.simplex import sequence, still, subject
from surefoot.reporting.style import FAINT, INK, Colour, Look, arm_colours, label, thousands
from surefoot.rules import Floats

WIDE = ("allocation", "simplex-sequence")
"""Figures that take the whole width of the report."""
FEW = 8
"""Largest number of policies for a figure of the usual size."""
MOST_ARMS = 7
"""Number of arms drawn separately in an allocation; the others are drawn together."""


CAPTIONS = {
    "plane": "Regret against total violation at the end: down and to the left is better. Each point is the mean over "
    "the seeds, with 95 % intervals.",
    "regret": "Regret over the rounds: how much more was lost than by the best safe strategy in hindsight. Mean over "
    "the seeds; the band reaches from the 10 to the 90 % quantile.",
    "violation": "Total violation over the rounds, of the guardrail violated most. Mean and band as for regret.",
    "allocation": "What was played: the share of each arm between two checkpoints, mean over the seeds; on the right "
    "the best safe strategy in hindsight, mean over the seeds.",
    "safe-weight": "The weight of the safe strategy in what is played: how much caution is left. Below 0.1 the "
    "guardrails count as loosened.",
    "simplex": "The strategies over three arms as a triangle, after the last round of one run: a corner is an arm, and "
    "the played strategy lies between the proposal and the safe strategy.",
    "simplex-sequence": "The same run as time goes by.",
}
"""What each figure shows, in words."""


class Drawn(NamedTuple):
    """A figure and its name."""

    name: str
    draw: Callable[[], Figure]

    @property
    def caption(self) -> str:
        """What it shows, in words."""
        return CAPTIONS[self.name]


def figures(scenario: ScenarioResult, look: Look) -> list[Drawn]:
    """All figures that can be drawn of a scenario."""
    drawn = [Drawn("regret", lambda: over_rounds(scenario, look, "regret"))]
    if scenario.guardrails:
        drawn.insert(0, Drawn("plane", lambda: plane(scenario, look)))
        drawn.append(Drawn("violation", lambda: over_rounds(scenario, look, "violation")))
    if any(mixes(policy) for policy in scenario.policies):
        drawn.append(Drawn("safe-weight", lambda: safe_weight(scenario, look)))
    drawn.append(Drawn("allocation", lambda: allocation(scenario)))
    chosen = subject(scenario)
    if chosen is not None:
        drawn.append(Drawn("simplex", lambda: still(scenario, chosen)))
        drawn.append(Drawn("simplex-sequence", lambda: sequence(scenario, chosen)))
    return drawn


def canvas(lines: int) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, larger if there are many lines to label."""
    figure = Figure(figsize=(5.6, 3.4) if lines <= FEW else (9.6, 6.0), layout="constrained")
    return figure, figure.add_subplot()


def over_rounds(scenario: ScenarioResult, look: Look, column: str) -> Figure:
    """A quantity over the rounds, with bands."""
    figure, axes = canvas(len(scenario.policies))
    draw_courses(axes, scenario.policies, look, column)
    title = {"regret": "Regret", "violation": "Total violation"}[column]
    axes.set(title=title, xlabel="round", ylabel=column, xlim=(0, None))
    axes.axhline(0, color=INK, lw=0.8)
    if column == "violation":
        axes.set_ylim(bottom=0.0, top=None if any(p.final["violation"] > 0 for p in scenario.policies) else 1.0)
    thousands(axes, y=True)
    return figure


def draw_courses(axes: Axes, policies: list[PolicyResult], look: Look, column: str) -> None:
    """Draw a labelled line and band for each policy; policies without violation share one label."""
    ends, still = [], []
    for policy in policies:
        rounds, colour, values = policy.series("round"), look.colour[policy.name], policy.series(column)
        band = policy.series(f"{column}_q10"), policy.series(f"{column}_q90")
        if look.stands_out(policy.name):
            axes.fill_between(rounds, *band, color=colour, alpha=0.15, lw=0)
        axes.plot(
            rounds, values, color=colour, ls=look.dashes[policy.name], lw=look.width[policy.name],
            zorder=3 if look.stands_out(policy.name) else 2,
        )  # fmt: skip
        if column == "violation" and values[-1] == 0.0:
            still.append(policy.name)
        else:
            ends.append((float(values[-1]), policy.name, colour))
    if still:
        lines = textwrap.wrap("no violation: " + ", ".join(map(label, still)), 50)
        axes.annotate("\n".join(lines), (0.02, 0.98), xycoords="axes fraction", color=INK, fontsize=8, va="top")
    label_ends(axes, ends, look)


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], look: Look | None = None) -> None:
    """Write names beside the right ends of lines, apart from each other."""
    low, high = axes.get_ylim()
    size = 9.0 if len(ends) <= FEW else 8.0
    apart = (0.075 if len(ends) <= FEW else 0.036) * (high - low)
    places: list[float] = []
    for value, _, _ in sorted(ends):
        places.append(max(value, places[-1] + apart) if places else value)
    beyond = max(0.0, places[-1] - high) if places else 0.0
    for place, (_, name, colour) in zip(places, sorted(ends), strict=True):
        axes.annotate(
            label(name), (1.01, place - beyond), xycoords=axes.get_yaxis_transform(), color=colour, va="center",
            weight="bold" if look is None or look.stands_out(name) else "normal", fontsize=size, annotation_clip=False,
        )  # fmt: skip


def plane(scenario: ScenarioResult, look: Look) -> Figure:
    """Regret against violation, one point a policy."""
    figure, axes = canvas(len(scenario.policies))
    for policy in scenario.policies:
        final, colour = policy.final, look.colour[policy.name]
        if final["seeds"] > 1:
            axes.hlines(final["regret"], max(0.0, final["violation_low"]), final["violation_high"], color=colour, lw=1)
            axes.vlines(final["violation"], final["regret_low"], final["regret_high"], color=colour, lw=1)
        axes.plot(
            final["violation"], final["regret"], "o", color=colour, ms=5 + 2 * look.width[policy.name], mec="white"
        )
    axes.axhline(0, color=INK, lw=0.8)
    axes.axvline(0, color=INK, lw=0.8)
    axes.margins(0.0, 0.18)
    furthest = max(policy.final["violation"] for policy in scenario.policies) or 1.0
    axes.set(title="Regret against violation", xlabel="total violation", ylabel="regret")
    axes.set_xlim(-0.04 * furthest, 1.3 * furthest)
    thousands(axes, y=True)
    figure.draw_without_rendering()  # the layout must be settled before names can be placed
    label_points(axes, scenario.policies, look)
    return figure


def label_points(axes: Axes, policies: list[PolicyResult], look: Look) -> None:
    """Write names beside points; where points are close, one below the other."""
    written: list[tuple[float, float]] = []
    few = len(policies) <= FEW
    points_per_pixel = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    for policy in sorted(policies, key=lambda policy: -policy.final["regret"]):
        point = policy.final["violation"], policy.final["regret"]
        x, y = axes.transData.transform(point) * points_per_pixel
        lowest = min((above for beside, above in written if abs(x - beside) < 90), default=np.inf)
        at = min(y + 3, lowest - (11 if few else 9))
        written.append((x, at))
        axes.annotate(
            label(policy.name), point, (8, at - y), textcoords="offset points", color=look.colour[policy.name],
            weight="bold" if look.stands_out(policy.name) else "normal", fontsize=9 if few else 8,
            bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 0.5},
        ).set_in_layout(False)  # fmt: skip


def allocation(scenario: ScenarioResult) -> Figure:
    """The share of each arm over the rounds, one panel a policy, and the benchmark beside them."""
    policies = scenario.policies
    weight = sum(policy.allocation.mean(axis=0) for policy in policies) + policies[0].benchmark
    shown = most_played(np.asarray(weight))
    colours = colours_of(shown)
    wide = min(3, len(policies))
    tall = -(-len(policies) // wide)
    figure = Figure(figsize=(2.9 * wide + 2.4, 2.5 * tall + 0.6), layout="constrained")
    grid = figure.add_gridspec(tall, wide + 1, width_ratios=[*[1.0] * wide, 0.16])
    edges = np.array([0, *scenario.rounds])
    for place, policy in enumerate(policies):
        axes = figure.add_subplot(grid[place // wide, place % wide])
        stack(axes, policy.allocation, edges, colours)
        axes.set_title(label(policy.name))
        axes.locator_params(axis="x", nbins=4)
        if place % wide:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel("share of each arm")
    benchmark_bar(figure.add_subplot(grid[0, wide]), scenario, colours)
    return figure


def stack(axes: Axes, allocation: Floats, edges: NDArray[np.int64], colours: dict[int, Colour | str]) -> None:
    """Draw the share of each arm (columns of `allocation`) between edges, one above the other."""
    below = np.zeros(len(edges) - 1)
    for arm, colour in colours.items():
        share = allocation[:, arm] if arm >= 0 else 1.0 - below
        axes.stairs(below + share, edges, baseline=below, fill=True, color=colour)
        below = below + share
    axes.set(xlabel="round", xlim=(edges[0], edges[-1]), ylim=(0, 1))
    axes.grid(False)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    thousands(axes)


def most_played(weight: Floats) -> list[int]:
    """The arms to draw separately, in their order; -1 stands for the others."""
    if len(weight) <= MOST_ARMS + 1:
        return list(range(len(weight)))
    return [*sorted(np.argsort(-weight, kind="stable")[:MOST_ARMS].tolist()), -1]


def colours_of(shown: list[int]) -> dict[int, Colour | str]:
    """The colour of each arm that is drawn separately, and of the others."""
    return {arm: colour if arm >= 0 else FAINT for arm, colour in zip(shown, arm_colours(len(shown)), strict=True)}


def benchmark_bar(axes: Axes, scenario: ScenarioResult, colours: dict[int, Colour | str]) -> None:
    """The best safe strategy as a bar, with the names of the arms."""
    benchmark = np.mean([policy.benchmark for policy in scenario.policies], axis=0)
    below = 0.0
    handles = []
    for arm, colour in colours.items():
        share = benchmark[arm] if arm >= 0 else 1.0 - below
        handles.append(
            axes.bar(0, share, 1, below, color=colour, label=scenario.arms[arm] if arm >= 0 else "the others")
        )
        below += share
    axes.set(title="best", ylim=(0, 1), xticks=[], yticks=[])
    axes.grid(False)
    axes.legend(handles=handles[::-1], loc="upper left", bbox_to_anchor=(1.1, 1.02), fontsize=8, handlelength=1)


def safe_weight(scenario: ScenarioResult, look: Look) -> Figure:
    """The weight of the safe strategy over the rounds."""
    mixing = [policy for policy in scenario.policies if mixes(policy)]
    figure, axes = canvas(len(mixing))
    draw_courses(axes, mixing, look, "safe_weight")
    axes.axhline(0.1, color=INK, lw=0.8, ls=":")
    axes.annotate("0.1: loose", (0.01, 0.11), xycoords=axes.get_yaxis_transform(), color=INK, fontsize=8)
    axes.set(title="Weight of the safe strategy", xlabel="round", ylabel="safe weight", ylim=(0, 1.02), xlim=(0, None))
    thousands(axes)
    return figure


def mixes(policy: PolicyResult) -> bool:
    """True if a policy ever mixes in the safe strategy."""
    return bool(policy.series("safe_weight_q90").max() > 0.0)
