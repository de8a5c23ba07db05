"""The figures of a scenario. Each function draws one; `figures` names them all."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from surefoot.reporting.courses import Change, changes, drifts
from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.reporting.simplex import sequence, several_plans, still, subject
from surefoot.reporting.story import BROKEN, how, listed, policy_costs
from surefoot.reporting.style import FAINT, INK, Look, arm_colours, label, thousands
from surefoot.rules import Floats

WIDE = ("costs", "allocation", "simplex-sequence")
"""Figures that take the whole width of the report."""
FEW = 8
"""Largest number of policies for a figure of the usual size."""
MOST_ARMS = 7
"""Number of arms drawn separately in an allocation; the others are drawn together."""
MOST_RAILS = 6
"""Number of guardrails whose costs are drawn: those that are closest to their limits, or over."""
FIRST_ROUNDS = 0.05
"""The share of the rounds that does not count for the scale close to a limit: what is safe is learnt in these."""
SPREAD = 3.0
"""How many times more room all policies need than those that keep the guardrails, before these get their own panel."""


PHONE = 5.2
"""Inches of a wide figure that a phone shows at once."""
OVER = "#7a1f1f"
"""What is over a limit; no policy has this colour."""

CAPTIONS = {
    "costs": "The expected cost of what was played, against the limit: the shaded area is over it. Mean over "
    "the seeds, and a band from the 10 to the 90 % quantile. Rounds are on a logarithmic scale.",
    "plane": "Regret against total violation at the end: down and to the left is better. Each point is the mean over "
    "the seeds, with 95 % intervals.",
    "regret": "Regret over the rounds: how much more was lost than by the best safe strategy in hindsight. Mean over "
    "the seeds; the band reaches from the 10 to the 90 % quantile.",
    "violation": "Total violation over the rounds, of the guardrail violated most. Mean and band as for regret.",
    "allocation": "What was played: the share of each arm between two checkpoints, mean over the seeds; on the right "
    "the best safe strategy in hindsight, mean over the seeds.",
    "safe-weight": "The weight of the baseline in what is played: how much caution is left. Below 0.1 "
    "SOLB no longer holds back. Rounds are on a logarithmic scale.",
    "simplex": "Strategies over three arms as a triangle, after the last round of one run: a corner is an arm. What is "
    "played next lies between the baseline and the rest of what is played.",
    "simplex-sequence": "The same run as time goes by.",
}
"""What each figure shows, in words."""
PLANS = " This preset plays the mean of several plans, and the proposal does not belong to all of them."


class Drawn(NamedTuple):
    """A figure and its name."""

    name: str
    draw: Callable[[], Figure]
    note: str = ""

    @property
    def caption(self) -> str:
        """What it shows, in words."""
        return CAPTIONS[self.name] + self.note


def figures(scenario: ScenarioResult, look: Look) -> list[Drawn]:
    """All figures that can be drawn of a scenario."""
    moved, drawn = change_note(scenario), []
    if scenario.guardrails:
        drawn.append(Drawn("costs", lambda: costs(scenario, look), cost_note(scenario) + moved))
        drawn.append(Drawn("plane", lambda: plane(scenario, look), scale_note(plane_scales(scenario))))
    note = scale_note(scales(scenario, series_of("regret")))
    drawn.append(Drawn("regret", lambda: over_rounds(scenario, look, "regret"), note + moved))
    if scenario.guardrails:
        note = scale_note(scales(scenario, series_of("violation")))
        drawn.append(Drawn("violation", lambda: over_rounds(scenario, look, "violation"), note + moved))
    if any(mixes(policy) for policy in scenario.policies):
        drawn.append(Drawn("safe-weight", lambda: safe_weight(scenario, look), moved))
    drawn.append(Drawn("allocation", lambda: allocation(scenario), moved))
    chosen = subject(scenario)
    if chosen is not None:
        plans = PLANS if several_plans(scenario, chosen) else ""
        drawn.append(Drawn("simplex", lambda: still(scenario, chosen), plans))
        drawn.append(Drawn("simplex-sequence", lambda: sequence(scenario, chosen)))
    return drawn


def change_note(scenario: ScenarioResult) -> str:
    """What the dotted lines are, and what changes all the time."""
    told = [f"{' and '.join(drifts(scenario)).capitalize()}."] if drifts(scenario) else []
    if found := changes(scenario):
        what = listed(list(dict.fromkeys(one.what for one in found)))
        rounds = listed([f"{one.after:,}" for one in found])
        told.insert(0, f"Dotted lines: {what} change after round{'s' * (len(found) > 1)} {rounds}.")
    return "".join(f" {one}" for one in told)


def scale_note(groups: list[list[PolicyResult]]) -> str:
    """What the panels are, if there are two."""
    if len(groups) == 1:
        return ""
    return " Above: policies that kept the guardrails, or nearly. Below, on another scale: all of them."


def cost_note(scenario: ScenarioResult) -> str:
    """What a reader of the costs has to know: what is not drawn, and what is not known."""
    told, rails = "", len(scenario.guardrails)
    if len(cost_groups(scenario, drawn_rails(scenario))) > 1:
        told += " Above: policies that kept the guardrails, or nearly, close to the limit. Below: all policies."
    if rails > MOST_RAILS:
        told += f" The {MOST_RAILS} of {rails} guardrails that are closest to their limits, or over, are drawn."
    course = policy_costs(scenario.policies[0], scenario)
    if not course.known:
        told += " If the mean costs of this model change, these are upper bounds."
    elif not course.exact:
        told += " Where costs change between two checkpoints, the cost is somewhere in the darker band."
    return told


def canvas(lines: int) -> tuple[Figure, Axes]:
    """A figure with one pair of axes, larger if there are many lines to label."""
    figure = Figure(figsize=(5.6, 3.4) if lines <= FEW else (9.6, 6.0), layout="constrained")
    return figure, figure.add_subplot()


def series_of(column: str) -> Callable[[PolicyResult], Floats]:
    """A column of the summary, of any policy."""
    return lambda policy: policy.series(column)


def scales(scenario: ScenarioResult, values: Callable[[PolicyResult], Floats]) -> list[list[PolicyResult]]:
    """The policies of each panel: all in one; or, if they would be flattened, first those that keep the guardrails."""
    near = [policy for policy in scenario.policies if how(policy, scenario) != BROKEN]
    if near and len(near) < len(scenario.policies):
        own, whole = (span([values(policy) for policy in them]) for them in (near, scenario.policies))
        if 0.0 < SPREAD * own < whole:
            return [near, scenario.policies]
    return [scenario.policies]


def span(values: list[Floats]) -> float:
    """The extent of some values, and of 0."""
    return float(max(0.0, *(one.max() for one in values)) - min(0.0, *(one.min() for one in values)))


def stacked(groups: list[list[PolicyResult]]) -> tuple[Figure, list[Axes], list[float]]:
    """A figure with a pair of axes for each group, one below the other, and their heights in inches."""
    if len(groups) == 1:
        figure, axes = canvas(len(groups[0]))
        return figure, [axes], [2.7 if len(groups[0]) <= FEW else 5.2]
    wide = 5.6
    heights = [max(2.5, 0.17 * len(groups[0])), max(1.6, 0.17 * len(to_name(groups, 1)))]
    if len(groups[1]) > FEW:
        wide = 9.6
    figure = Figure(figsize=(wide, sum(heights) + 1.3), layout="constrained")
    grid = figure.add_gridspec(2, 1, height_ratios=heights)
    return figure, [figure.add_subplot(grid[i]) for i in range(2)], heights


def to_name(groups: list[list[PolicyResult]], place: int) -> list[PolicyResult]:
    """The policies to name in a panel: of many, the panel of all leaves out what the panel above it names."""
    if place == 0 or len(groups[1]) <= FEW:
        return groups[place]
    return [policy for policy in groups[1] if policy not in groups[0]]


KEEPERS = ": guardrails kept, or nearly"


def over_rounds(scenario: ScenarioResult, look: Look, column: str) -> Figure:
    """A quantity over the rounds, with bands."""
    groups = scales(scenario, series_of(column))
    figure, panels, heights = stacked(groups)
    title = {"regret": "Regret", "violation": "Total violation"}[column]
    for place, (axes, group, height) in enumerate(zip(panels, groups, heights, strict=True)):
        named = to_name(groups, place)
        draw_courses(axes, group, look, column, named, height)
        over = "" if len(groups) == 1 else (KEEPERS, ": all policies")[place]
        axes.set(title=title + over, ylabel=column, xlim=(0, None))
        axes.axhline(0, color=INK, lw=0.8)
        if column == "violation":
            axes.set_ylim(bottom=0.0, top=None if any(p.final["violation"] > 0 for p in group) else 1.0)
        mark_changes(
            axes, changes(scenario), named=not place, top=is_free_above(axes, group, column, changes(scenario))
        )
        thousands(axes, y=True)
    panels[-1].set_xlabel("round")
    return figure


def draw_courses(
    axes: Axes,
    policies: list[PolicyResult],
    look: Look,
    column: str,
    named: list[PolicyResult] | None = None,
    height: float = 2.7,
) -> None:
    """Draw a line and band for each policy, with names at their ends; policies without violation share one label."""
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
        if named is not None and policy not in named:
            continue
        if column == "violation" and values[-1] == 0.0:
            still.append(policy.name)
        else:
            ends.append((float(values[-1]), policy.name, colour))
    if still:
        lines = textwrap.wrap("no violation: " + ", ".join(map(label, still)), 50)
        axes.annotate("\n".join(lines), (0.02, 0.98), xycoords="axes fraction", color=INK, fontsize=8, va="top")
    label_ends(axes, ends, look, height)


def is_free_above(axes: Axes, policies: list[PolicyResult], column: str, found: list[Change]) -> bool:
    """True if words beside the changes hide less of the bands at the top of the axes than at the bottom.

    A course that stays at 0 is on the axis or the line of 0, where words do not hide it.
    """
    low, high = axes.get_ylim()
    rounds = [one.after for one in found]
    policies = [policy for policy in policies if np.any(policy.series(column + "_q90"))] or policies
    ends = [
        np.interp(rounds, policy.series("round"), policy.series(column + end))
        for policy in policies
        for end in ("_q10", "_q90")
    ]
    return bool(rounds) and high - float(np.max(ends)) > float(np.min(ends)) - low


def mark_changes(axes: Axes, found: list[Change], named: bool = True, top: bool = True) -> None:
    """Draw a dotted line where the world changes, with words if there are few."""
    for one in found:
        axes.axvline(one.after, color="white", lw=2.4, alpha=0.6, zorder=1.4)  # so that it shows on dark areas
        axes.axvline(one.after, color="#777777", lw=1.0, ls=(0, (1, 1.5)), zorder=1.5, gid="change")
        if named and len(found) <= 4:
            at = (one.after, 0.98) if top else (one.after, 0.02)
            axes.annotate(
                f"{one.what} change", at, (-2, 0), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                rotation=90, ha="right", va="top" if top else "bottom", fontsize=7, color="#777777", zorder=1.5,
            )  # fmt: skip


def label_ends(axes: Axes, ends: list[tuple[float, str, str]], look: Look | None = None, height: float = 2.7) -> None:
    """Write names beside the right ends of lines, apart from each other; `height` is that of the axes, in inches."""
    low, high = axes.get_ylim()
    size = 9.0 if len(ends) <= FEW else 8.0
    apart = 1.3 * size / 72.0 / height * (high - low)
    places: list[float] = []
    for value, _, _ in sorted(ends):
        places.append(max(value, places[-1] + apart) if places else value)
    beyond = max(0.0, places[-1] - high) if places else 0.0
    for place, (_, name, colour) in zip(places, sorted(ends), strict=True):
        axes.annotate(
            label(name), (1.01, place - beyond), xycoords=axes.get_yaxis_transform(), color=colour, va="center",
            weight="bold" if look is None or look.stands_out(name) else "normal", fontsize=size, annotation_clip=False,
        )  # fmt: skip


def plane_scales(scenario: ScenarioResult) -> list[list[PolicyResult]]:
    """The panels of regret against violation: two, if either would be flattened."""
    each = [scales(scenario, lambda policy, c=c: np.array([policy.final[c]])) for c in ("violation", "regret")]  # type: ignore[misc]
    return max(each, key=len)


def plane(scenario: ScenarioResult, look: Look) -> Figure:
    """Regret against violation, one point a policy."""
    groups = plane_scales(scenario)
    figure, panels, _ = stacked(groups)
    for place, (axes, group) in enumerate(zip(panels, groups, strict=True)):
        for policy in group:
            final, colour = policy.final, look.colour[policy.name]
            if final["seeds"] > 1:
                ends = max(0.0, final["violation_low"]), final["violation_high"]
                axes.hlines(final["regret"], *ends, color=colour, lw=1)
                axes.vlines(final["violation"], final["regret_low"], final["regret_high"], color=colour, lw=1)
            axes.plot(  # hollow, in shapes of their own: a mark under another one stays visible
                final["violation"], final["regret"], look.marker[policy.name], mec=colour, mfc="none", ms=8,
                mew=look.width[policy.name], zorder=4,
            )  # fmt: skip
        axes.axhline(0, color=INK, lw=0.8)
        axes.axvline(0, color=INK, lw=0.8)
        axes.margins(0.0, 0.18)
        if len(group) > FEW:  # names one below the other need room
            low, high = axes.get_ylim()
            axes.set_ylim(low - 0.25 * (high - low), high)
        furthest = max(policy.final["violation"] for policy in group) or 1.0
        over = "" if len(groups) == 1 else (KEEPERS, ": all policies")[place]
        axes.set(title="Regret against violation" + over, ylabel="regret")
        axes.set_xlim(-0.04 * furthest, 1.3 * furthest)
        thousands(axes, y=True)
    panels[-1].set_xlabel("total violation")
    figure.draw_without_rendering()  # the layout must be settled before names can be placed
    figure.set_layout_engine("none")
    for place, axes in enumerate(panels):
        label_points(axes, to_name(groups, place), look)
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


def costs(scenario: ScenarioResult, look: Look) -> Figure:
    """The expected cost of what was played over the rounds: a panel a guardrail or, if that would be flat, two."""
    shown = drawn_rails(scenario)
    groups = cost_groups(scenario, shown)
    wide = min(3, len(shown))
    tall = -(-len(shown) // wide)
    heights = [2.3] if len(groups) == 1 else [2.3, 1.7]
    key = cost_key(scenario, look)
    columns = key_columns([str(handle.get_label()) for handle in key])
    above = 0.16 * -(-len(key) // columns)
    size = max(2.9 * wide, 5.6), tall * (sum(heights) + 0.25 * len(groups)) + 0.4 + above
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(tall * len(groups), wide, height_ratios=tall * heights)
    edges = 1 + np.array([0, *scenario.rounds])  # rounds are counted from 1, where a logarithmic axis can begin
    for place, rail in enumerate(shown):
        limit = float(scenario.problem.thresholds[rail])
        for row, group in enumerate(groups):
            axes = figure.add_subplot(grid[place // wide * len(groups) + row, place % wide])
            low, high = cost_span(group, scenario, rail, late=len(groups) == 2 and row == 0)
            room = (high - low) or 0.1 * (limit or 1.0)
            low, high = low - 0.08 * room, high + 0.12 * room
            for policy in group:
                draw_cost(axes, policy, scenario, rail, edges, look, (low, high))
            axes.axhline(limit, color=OVER, lw=1.2, gid="limit", zorder=1.8)  # under what is close to it
            axes.axhspan(limit, high, color=OVER, alpha=0.08, lw=0, zorder=0.5)
            axes.set(xscale="log", xlim=(1, max(2, edges[-1])), ylim=(low, high))
            axes.xaxis.set_minor_formatter(NullFormatter())
            mark_changes(axes, changes(scenario), named=False)
            thousands(axes)
            if row == 0:
                axes.set_title(f"{label(scenario.guardrails[rail])}: at most {limit:g}")
            if place % wide == 0:
                axes.set_ylabel("expected cost" + ("" if len(groups) == 1 else COST_ROWS[row]))
            if row == len(groups) - 1 and place + wide >= len(shown):
                axes.set_xlabel("round")
    figure.legend(handles=key, loc="outside upper left", ncols=columns, fontsize=8, handlelength=2.4)
    return figure


COST_ROWS = (",\nclose to the limit", ",\nall policies")
"""What two panels of costs show, one above the other."""


def cost_key(scenario: ScenarioResult, look: Look) -> list[Line2D | Patch]:
    """The legend of the costs."""
    lines: list[Line2D | Patch] = [
        Line2D([], [], color=look.colour[p.name], ls=look.dashes[p.name], lw=look.width[p.name], label=label(p.name))
        for p in scenario.policies
    ]
    return [*lines, Patch(fc=(*to_rgb(OVER), 0.12), ec=OVER, label="over the limit")]


def key_columns(labels: list[str]) -> int:
    """The columns of a legend at the upper left of a wide figure: a phone shows all of them."""
    lengths = sorted(map(len, labels), reverse=True)
    return max(1, *(n for n in range(1, len(labels) + 1) if 0.6 * n + 0.055 * sum(lengths[:n]) <= PHONE))


def cost_groups(scenario: ScenarioResult, rails: list[int]) -> list[list[PolicyResult]]:
    """The policies of each panel of a guardrail: all in one; or first those that keep the guardrails, on their scale.

    Their scale is that of what they play after the first twentieth of the rounds, when they are close to the limit.
    """
    near, every = [policy for policy in scenario.policies if how(policy, scenario) != BROKEN], scenario.policies
    for rail in rails if near else []:
        own, whole = (high - low for low, high in (cost_span(near, scenario, rail, True),
                                                   cost_span(every, scenario, rail, False)))  # fmt: skip
        if SPREAD * own < whole:
            return [near, every]
    return [every]


def cost_span(policies: list[PolicyResult], scenario: ScenarioResult, rail: int, late: bool) -> tuple[float, float]:
    """The least and the largest cost of some policies and the limit; `late`: after the first rounds."""
    rounds = np.array(scenario.rounds)
    there = rounds > (FIRST_ROUNDS * rounds[-1] if late else 0)
    found = [policy_costs(policy, scenario) for policy in policies]
    limit = float(scenario.problem.thresholds[rail])
    return (
        float(min(limit, *(course.low[there, rail].min() for course in found))),
        float(max(limit, *(course.high[there, rail].max() for course in found))),
    )


def drawn_rails(scenario: ScenarioResult) -> list[int]:
    """The guardrails that are drawn: all, or those of which some policy comes closest to the limit, or most over it."""
    rails = len(scenario.guardrails)
    if rails <= MOST_RAILS:
        return list(range(rails))
    limits = scenario.problem.thresholds
    averages = np.array([policy_costs(policy, scenario).average[1] for policy in scenario.policies])
    room = (limits - averages.max(axis=0)) / np.where(limits > 0, limits, 1.0)
    return sorted(np.argsort(room, kind="stable")[:MOST_RAILS].tolist())


def draw_cost(
    axes: Axes, policy: PolicyResult, scenario: ScenarioResult, rail: int, edges: NDArray[np.int64], look: Look,
    sight: tuple[float, float],
) -> None:  # fmt: skip
    """The cost of a guardrail under what a policy played: a line, and a band where it is not known exactly.

    Only what is in sight is drawn: bands of lines that are elsewhere say nothing.
    """
    course, colour = policy_costs(policy, scenario), look.colour[policy.name]
    seen = (course.high[:, rail] >= sight[0]) & (course.low[:, rail] <= sight[1])
    low, high, least, most = (np.where(seen, end[:, rail], np.nan) for end in (course.low, course.high, *course.band))
    if look.stands_out(policy.name):
        axes.stairs(most, edges, baseline=least, fill=True, color=colour, alpha=0.15, lw=0)
    style: dict[str, Any] = {"color": colour, "ls": look.dashes[policy.name], "zorder": 3}
    if course.exact:
        axes.stairs(high, edges, baseline=None, lw=look.width[policy.name], gid="cost", **style)
        return
    axes.stairs(high, edges, baseline=low, fill=True, color=colour, alpha=0.35, lw=0, gid="cost", zorder=3)
    for end in (low, high):
        axes.stairs(end, edges, baseline=None, lw=0.5, **style)


def allocation(scenario: ScenarioResult) -> Figure:
    """The share of each arm over the rounds, one panel a policy, and the benchmark beside them."""
    policies = scenario.policies
    weight = sum(policy.allocation.mean(axis=0) for policy in policies) + policies[0].benchmark
    shown = most_played(np.asarray(weight))
    colours = colours_of(shown)
    wide = min(3, len(policies))
    tall = -(-len(policies) // wide)
    figure = Figure(figsize=(max(2.9 * wide + 0.9, 5.6), 2.5 * tall + 0.9), layout="constrained")
    grid = figure.add_gridspec(tall, wide + 1, width_ratios=[*[1.0] * wide, 0.16])
    edges = np.array([0, *scenario.rounds])
    for place, policy in enumerate(policies):
        axes = figure.add_subplot(grid[place // wide, place % wide])
        stack(axes, policy.allocation, edges, colours)
        mark_changes(axes, changes(scenario), named=False)
        axes.set_title(label(policy.name))
        axes.locator_params(axis="x", nbins=4)
        if place % wide:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel("share of each arm")
    key = benchmark_bar(figure.add_subplot(grid[0, wide]), scenario, colours)
    columns = key_columns([str(handle.get_label()) for handle in key])
    figure.legend(handles=key, loc="outside upper left", ncols=columns, fontsize=8, handlelength=1)
    return figure


def stack(axes: Axes, allocation: Floats, edges: NDArray[np.int64], colours: dict[int, str]) -> None:
    """Draw the share of each arm (columns of `allocation`) between edges, one above the other."""
    below = np.zeros(len(edges) - 1)
    for arm, colour in colours.items():
        share = allocation[:, arm] if arm >= 0 else 1.0 - below
        axes.stairs(below + share, edges, baseline=below, fill=True, fc=colour, ec="white", lw=0.4)
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


def colours_of(shown: list[int]) -> dict[int, str]:
    """The colour of each arm that is drawn separately, and of the others."""
    return {arm: colour if arm >= 0 else FAINT for arm, colour in zip(shown, arm_colours(len(shown)), strict=True)}


def benchmark_bar(axes: Axes, scenario: ScenarioResult, colours: dict[int, str]) -> list[Patch]:
    """The best safe strategy as a bar; returns the legend of the arms."""
    benchmark = np.mean([policy.benchmark for policy in scenario.policies], axis=0)
    below = 0.0
    for arm, colour in colours.items():
        share = benchmark[arm] if arm >= 0 else 1.0 - below
        axes.bar(0, share, 1, below, color=colour, ec="white", lw=0.4)
        below += share
    axes.set(ylim=(0, 1), xticks=[], yticks=[])
    axes.set_title("best safe", loc="right")  # to the left there is room for it
    axes.grid(False)
    return [
        Patch(fc=colour, ec="white", lw=0.4, label=label(scenario.arms[arm]) if arm >= 0 else "the others")
        for arm, colour in colours.items()
    ]


def safe_weight(scenario: ScenarioResult, look: Look) -> Figure:
    """The weight of the baseline over the rounds."""
    mixing = [policy for policy in scenario.policies if mixes(policy)]
    figure, axes = canvas(len(mixing))
    draw_courses(axes, mixing, look, "safe_weight")
    axes.axhline(0.1, color=INK, lw=0.8, ls=":")
    axes.annotate("0.1: loose", (0.01, 0.11), xycoords=axes.get_yaxis_transform(), color=INK, fontsize=8)
    axes.set(title="Weight of the baseline", xlabel="round", ylabel="safe weight", ylim=(0, 1.02))
    axes.set_xscale("log")
    first, last = scenario.rounds[0], scenario.rounds[-1]
    axes.set_xlim(first if first < last else 0.5, last)
    mark_changes(axes, changes(scenario))
    thousands(axes)
    return figure


def mixes(policy: PolicyResult) -> bool:
    """True if a policy ever mixes in the baseline."""
    return bool(policy.series("safe_weight_q90").max() > 0.0)
