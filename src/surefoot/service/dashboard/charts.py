"""Charts as Plotly draws them, each with a sentence and a table that say the same.

A colour is the name of a variable in the style sheet, such as ``--s1``: the page puts in its value, light or dark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.service.dashboard.views import OTHERS, Course, Rail, unlike
from surefoot.service.dashboard.words import clock, number, percent, tame

SERIES = ("--s1", "--s3", "--s5", "--s4", "--s6", "--s7", "--s2")
"""Colours that the colour-blind can tell apart; beyond these, areas are hatched. The second one stands for limits."""
HATCHES = ("/", "x")
MOST_ARMS = 12
"""Arms in a chart of bounds; the table has the others."""
MOST_ROWS = 12
"""Rows of the table beside a chart; a page of its own has all of them."""
VISIBLE = 0.01
"""An arm with less than this share all the time is shown among the others."""
MOST_POINTS = 100
"""Points of a line: with more of them, chance hides what they show."""
LONGEST = 22
HEIGHT, ROW_HEIGHT = 260, 26
MINUTE = 60_000  # milliseconds, as Plotly counts

Figure = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A chart, what it says in a sentence, and its data."""

    id: str
    title: str
    words: str
    figure: str  # JSON
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def table(course: Course) -> tuple[list[str], list[list[str]]]:
    """Everything about the course, a row for each bucket."""
    head = ["until", "round", "epoch"]
    columns: list[list[str]] = [
        [clock(at) for at in course.at],
        [f"{n:,}" for n in course.rounds],
        [str(epoch) for epoch in course.epochs],
    ]
    groups: list[tuple[str, Mapping[str, Sequence[float | None]], Any]] = [
        ("share of {}", course.shares, percent),
        ("{}", course.costs, number),
        ("limit on {}", course.limits, number),
        ("", {"objective": course.objective}, number),
        ("", {"safe weight": course.safe_weight, "lost feedback": course.lost}, percent),
    ]
    for title, group, shown in groups:
        for name, values in group.items():
            head.append(title.format(name) if title else name)
            columns.append([shown(value) for value in values])
    return head, [list(row) for row in zip(*columns, strict=True)]


def coarser(course: Course, most: int = MOST_POINTS) -> Course:
    """The course with fewer buckets: neighbours in an epoch are taken together."""
    size = -(-len(course.at) // most)
    if size <= 1:
        return course
    weights = [last - before for before, last in zip([0, *course.rounds], course.rounds, strict=False)]
    runs: list[range] = []
    for i, epoch in enumerate(course.epochs):
        if runs and len(runs[-1]) < size and course.epochs[runs[-1].start] == epoch:
            runs[-1] = range(runs[-1].start, i + 1)
        else:
            runs.append(range(i, i + 1))

    def mean(values: Sequence[float | None]) -> list[float | None]:
        return [weighted([(values[i], weights[i]) for i in run]) for run in runs]

    def last(values: Sequence[Any]) -> list[Any]:
        return [values[run[-1]] for run in runs]

    return Course(
        at=last(course.at), rounds=last(course.rounds), epochs=last(course.epochs),
        shares={arm: [one or 0.0 for one in mean(values)] for arm, values in course.shares.items()},
        costs={name: mean(values) for name, values in course.costs.items()},
        limits={name: last(values) for name, values in course.limits.items()}, objective=mean(course.objective),
        safe_weight=last(course.safe_weight), lost=[one or 0.0 for one in mean(course.lost)],
    )  # fmt: skip


def weighted(values: Sequence[tuple[float | None, float]]) -> float | None:
    """The mean of the values that are known, each with its weight."""
    known = [(value, weight) for value, weight in values if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def so_far(course: Course, values: Sequence[float | None]) -> list[float | None]:
    """The mean since the beginning of the epoch, at each bucket."""
    found: list[float | None] = []
    epoch, total, count, before = None, 0.0, 0, 0
    for present, last, value in zip(course.epochs, course.rounds, values, strict=True):
        if present != epoch:
            epoch, total, count = present, 0.0, 0
        if value is not None:
            total, count = total + (last - before) * value, count + last - before
        found.append(total / count if count else None)
        before = last
    return found


def thinned(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Some rows at even distances, the last one among them."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    step = (len(rows) - 1) / (MOST_ROWS - 1)
    return [rows[round(i * step)] for i in range(MOST_ROWS)]


def over_time(course: Course, id: str, title: str, words: str, traces: list[Figure], layout: Figure) -> Chart:
    """A chart over time, with the beginnings of epochs marked."""
    times = [round(1000.0 * at) for at in course.at]  # as Plotly reads dates
    shapes, notes = layout.pop("shapes", []), layout.pop("annotations", [])
    for i in range(1, len(times)):
        if course.epochs[i] != course.epochs[i - 1]:
            shapes.append(mark(times[i - 1], "--faint"))
            notes.append(note(times[i - 1], f"epoch {course.epochs[i]}", "--quiet"))
    alone = len(times) == 1  # a line needs two points
    data = [{"x": times, "type": "scatter", "mode": "markers" if alone else "lines", **trace} for trace in traces]
    head = ["until", *(trace["name"] for trace in traces)]
    shown = percent if layout.get("yaxis", {}).get("tickformat") == ".0%" else number
    rows = [[at, *(shown(trace["y"][i]) for trace in traces)] for i, at in enumerate(map(clock, course.at))]
    for trace in data:
        trace["name"] = label(trace["name"])
    span = {"range": [times[0] - MINUTE, times[0] + MINUTE]} if alone else {}
    layout = {"height": HEIGHT, "xaxis": {"type": "date", **span}, "shapes": shapes, "annotations": notes, **layout}
    return Chart(id, title, words, packed(data, layout), head, thinned(rows))


def allocation(course: Course) -> Chart:
    """Which share of the decisions each arm got."""
    traces = []
    for i, (name, shares) in enumerate(worth_showing(course.shares).items()):
        colour = SERIES[i % len(SERIES)] if name.rstrip() != OTHERS else "--faint"
        trace = {"name": name, "y": list(shares), "stackgroup": "arms", "line": {"width": 0.5, "color": colour},
                 "fillcolor": colour, "hovertemplate": "%{y:.1%}"}  # fmt: skip
        if i >= len(SERIES) and name.rstrip() != OTHERS:
            hatch = HATCHES[(i // len(SERIES) - 1) % len(HATCHES)]
            trace["fillpattern"] = {"shape": hatch, "bgcolor": colour, "fgcolor": "--panel", "size": 6}
        traces.append(trace)
    last = sorted(((shares[-1], name) for name, shares in course.shares.items() if shares and shares[-1]), reverse=True)
    said = ", ".join(f"{name} {percent(share)}" for share, name in last[:3])
    layout = {"height": 320, "yaxis": {"range": [0, 1], "tickformat": ".0%"}, "showlegend": True}
    return over_time(course, "allocation", "Share of each arm over time", f"Most recently: {said}.", traces, layout)


def worth_showing(shares: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """The shares, those that nobody would see among the others."""
    small = [name for name, some in shares.items() if max(some, default=0.0) < VISIBLE]
    last = [*shares, ""][len(shares) - 1]
    if small and last.rstrip() == OTHERS and last not in small:
        small.append(last)
    if len(small) < 2:
        return dict(shares)
    found = {name: some for name, some in shares.items() if name not in small}
    rest = [sum(some) for some in zip(*(shares[name] for name in small), strict=True)]
    return {**found, unlike(OTHERS, found): rest}


def cost(rail: Rail, course: Course, id: str, alarms: Sequence[float] = ()) -> Chart:
    """What was served under a guardrail, its mean, the limit, and when there were alarms."""
    costs, limits = course.costs.get(rail.name, ()), course.limits.get(rail.name, ())
    means = so_far(course, costs) if costs else []
    figures = "%{y:.3g}"
    traces: list[Figure] = [
        {"name": "each stretch", "y": list(costs), "line": {"color": "--faded", "width": 1.5},
         "hovertemplate": figures},
        {"name": "mean so far", "y": means, "line": {"color": "--s1", "width": 2.5},
         "hovertemplate": figures},
        {"name": "limit", "y": list(limits), "line": {"color": "--s2", "width": 2, "dash": "dash", "shape": "hv"},
         "hovertemplate": figures},
    ]  # fmt: skip
    known = [one for one in costs if one is not None]
    newest = f"{number(known[-1], rail.unit)} most recently" if known else "nothing served yet"
    side = "at most" if rail.at_most else "at least"
    words = f"Mean of {rail.name}: {newest}; the limit is {side} {number(rail.limit, rail.unit)}."
    marks = [mark(round(1000.0 * at), "--s2") for at in alarms]
    notes = [note(round(1000.0 * at), "alarm", "--s2-text") for at in alarms[:1]]
    layout = {"yaxis": {"title": {"text": label(rail.unit or "")}}, "showlegend": True, "shapes": marks,
              "annotations": notes}  # fmt: skip
    return over_time(course, id, "Served over time", words, traces, layout)


def mark(at: int, colour: str) -> Figure:
    """A vertical line at a time."""
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": colour, "width": 1, "dash": "dot"}}  # fmt: skip


def note(at: int, text: str, colour: str) -> Figure:
    """A word above a vertical line."""
    return {"x": at, "y": 1, "yref": "paper", "text": text, "showarrow": False, "xanchor": "left", "yanchor": "bottom",
            "font": {"size": 11, "color": colour}}  # fmt: skip


def bounds(rail: Rail, id: str, refuted: bool = False) -> Chart:
    """What is known of each arm, beside the limit; an alarm may have refuted it."""
    arms = list(rail.arms[:MOST_ARMS])[::-1]
    names = [label(arm.name) for arm in arms]
    ends_x: list[float | None] = []
    ends_y: list[int | None] = []
    for i, arm in enumerate(arms):
        ends_x += [arm.lower, arm.upper, None]
        ends_y += [i, i, None]
    means = [(i, arm.mean) for i, arm in enumerate(arms) if arm.mean is not None]
    data: list[Figure] = [
        {"type": "scatter", "mode": "lines", "name": "bounds", "x": ends_x, "y": ends_y, "hoverinfo": "skip",
         "line": {"color": "--faint" if refuted else "--s1", "width": 5}, "opacity": 0.45},
        {"type": "scatter", "mode": "markers", "name": "mean", "x": [mean for _, mean in means],
         "y": [i for i, _ in means], "marker": {"color": "--s1", "size": 9},
         "text": [names[i] for i, _ in means], "hovertemplate": "%{text}: %{x:.3g}<extra></extra>"},
    ]  # fmt: skip
    layout = {
        "height": max(HEIGHT, 70 + ROW_HEIGHT * len(arms)),
        "shapes": [{"type": "line", "x0": rail.limit, "x1": rail.limit, "y0": 0, "y1": 1, "yref": "paper",
                    "line": {"color": "--s2", "width": 2, "dash": "dash"}}],
        "annotations": [{"x": rail.limit, "y": 1, "yref": "paper", "text": "limit", "showarrow": False,
                         "yanchor": "bottom", "font": {"size": 11, "color": "--s2-text"}}],
        "xaxis": {"title": {"text": label(rail.unit or "")},
                  "rangemode": "tozero" if rail.low >= 0 and rail.at_most else "normal"},
        "yaxis": {"tickvals": list(range(len(arms))), "ticktext": names, "range": [-0.6, len(arms) - 0.4]},
        "hovermode": "closest",
    }  # fmt: skip
    safe = sum(arm.upper <= rail.limit if rail.at_most else arm.lower >= rail.limit for arm in rail.arms)
    words = f"Mean and bounds: {safe} of {len(rail.arms)} arms keep the limit at their bounds."
    if refuted:
        words = "Mean and bounds. An alarm has refuted these bounds: do not rely on them."
    return Chart(id, "Each arm", words, packed(data, layout))


def line(course: Course, id: str, title: str, words: str, values: Sequence[float | None], share: bool) -> Chart:
    """One line over time."""
    hover = "%{y:.1%}" if share else "%{y:.3g}"
    trace = {"name": title.lower(), "y": list(values), "line": {"color": "--s1", "width": 2}, "hovertemplate": hover}
    axis: Figure = {"tickformat": ".0%", "rangemode": "tozero"} if share else {}
    return over_time(course, id, title, words, [trace], {"height": 220, "yaxis": axis})


def packed(data: list[Figure], layout: Figure) -> str:
    """A figure as JSON, its numbers short."""
    return json.dumps(rounded({"data": data, "layout": layout}), separators=(",", ":"), allow_nan=False)


def rounded(value: Any) -> Any:
    """The value with five digits of each number, which is more than a chart shows."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def label(name: str) -> str:
    """A name in a chart: not too long, and without markup, which Plotly would interpret.

    Examples
    --------
    >>> label("<b>R&D</b>"), label("a name that is much too long")
    ('&lt;b>R&amp;D&lt;/b>', 'a name that is much t…')
    """
    name = tame(name)
    short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;")
