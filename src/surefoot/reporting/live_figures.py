"""The figures of a live experiment. Each function draws one; `live_figures` names them all.

However many rounds there are, a figure shows some hundred points of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from surefoot.experiments.quantities import Guardrail
from surefoot.reporting.figures import canvas, colours_of, label_ends, most_played, stack
from surefoot.reporting.pages import slug
from surefoot.reporting.served import Epoch, Served
from surefoot.reporting.style import COLOURS, INK, label, thousands
from surefoot.rules import Floats

POINTS, BUCKETS, IN_BUCKET = 400, 200, 30
"""At most so many points of a line, and buckets of an allocation, each with at least so many rounds."""
SMALLEST_WINDOW, WINDOWS = 50, 20
MOST_LABELS = 8
"""Epochs whose lines have names, if there are no more."""
SETTLED = 30
"""Rounds after which a mean is calm enough to set the scale of a figure."""
MEAN, LATELY, ALARM = COLOURS[0], COLOURS[5], COLOURS[1]


class LiveFigure(NamedTuple):
    """A figure, its name in file names, and what it shows in words."""

    name: str
    caption: str
    wide: bool
    draw: Callable[[], Figure]


def live_figures(served: Served) -> list[LiveFigure]:
    """All figures that can be drawn of an experiment: none before the first round."""
    if not served.rounds:
        return []
    n = window(served)
    marks = "Dashed lines begin epochs." if len(served.epochs) > 1 else ""
    marks += " Triangles are alarms." if served.history["alarms"] else ""
    each = f"Thick: the mean of each epoch so far. Thin: the mean of the last {n:,} rounds."
    drawn = [
        LiveFigure("allocation", f"What was served: the share of each arm. {marks}", True, partial(allocation, served)),
        LiveFigure(
            f"objective-{slug(served.experiment.objective.name)}",
            f"{served.experiment.objective.name} of what was served, beside the mean of the baseline's arms. {each}",
            False, partial(objective, served),
        ),
    ]  # fmt: skip
    for guardrail in guardrails(served):
        caption = f"{guardrail.name} of what was served, and its limit. {each} Time-outs count as the worst case."
        drawn.append(LiveFigure(f"guardrail-{slug(guardrail.name)}", caption, False, partial(rail, served, guardrail)))
    if any(epoch.lost.any() for epoch in served.epochs):
        caption = f"The share of decisions that timed out, over the last {n:,} rounds."
        drawn.append(LiveFigure("lost", caption, False, partial(lost, served)))
    return drawn


def guardrails(served: Served) -> list[Guardrail]:
    """The guardrails of all epochs, each as it was last."""
    return list({one.name: one for epoch in served.epochs for one in epoch.experiment.guardrails}.values())


def window(served: Served) -> int:
    """How many rounds the windowed means are over."""
    return max(SMALLEST_WINDOW, served.rounds // WINDOWS)


def points(served: Served, epoch: Epoch) -> NDArray[np.int64]:
    """The places in an epoch that are drawn, its last one included."""
    n = len(epoch.seq)
    count = min(n, max(2, POINTS * n // served.rounds))
    return np.unique(np.linspace(0, n - 1, count).round().astype(np.int64))


def trailing(values: Any, at: NDArray[np.int64], over: int | None = None) -> Floats:
    """At each place, the mean of the values up to there: of the last `over` of them, or of all.

    Examples
    --------
    >>> trailing(np.array([1.0, 3.0, 5.0]), np.array([0, 2])), trailing(np.array([1.0, 3.0, 5.0]), np.array([2]), 2)
    (array([1., 3.]), array([4.]))
    """
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    end = at + 1
    start = np.zeros_like(end) if over is None else np.maximum(0, end - over)
    means: Floats = (sums[end] - sums[start]) / (end - start)
    return means


def baseline_mean(served: Served, epoch: Epoch, at: NDArray[np.int64]) -> Floats:
    """At each place, the mean objective of the baseline: its arms' means so far, mixed by its shares.

    It is not a number until all of these arms were served.
    """
    mean = np.zeros(len(at))
    for arm, share in epoch.shares_of_baseline(served.arms).items():
        played = epoch.arms == arm
        count, total = np.cumsum(played)[at], np.cumsum(np.where(played, epoch.objective, 0.0))[at]
        mean += share * np.where(count > 0, total / np.maximum(1, count), np.nan)
    return mean


def allocation_of(served: Served) -> tuple[NDArray[np.int64], Floats]:
    """The edges of buckets of rounds, and the share of each arm in each bucket."""
    seq, arms = (np.concatenate([getattr(epoch, name) for epoch in served.epochs]) for name in ("seq", "arms"))
    n = len(seq)
    buckets = min(BUCKETS, max(1, n // IN_BUCKET))
    place = np.arange(n) * buckets // n
    counts = np.bincount(place * len(served.arms) + arms, minlength=buckets * len(served.arms))
    shares = counts.reshape(buckets, -1) / np.bincount(place)[:, None]
    last = np.flatnonzero(np.diff(place, append=buckets))
    return np.concatenate([[seq[0] - 1], seq[last]]), shares


def allocation(served: Served) -> Figure:
    """The share of each arm over the rounds."""
    edges, shares = allocation_of(served)
    colours = colours_of(most_played(shares.mean(axis=0)))
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    axes = figure.add_subplot()
    stack(axes, shares, edges, colours)
    axes.set(title="Allocation\n", ylabel="share of each arm")
    mark(axes, served)
    baseline = served.epochs[-1].shares_of_baseline(served.arms)
    names = {arm: label(served.arms[arm]) if arm >= 0 else "the others" for arm in colours}
    handles = [
        Patch(color=colour, label=names[arm] + (" (baseline)" if arm in baseline else ""))
        for arm, colour in colours.items()
    ]
    axes.legend(handles=handles[::-1], loc="upper left", bbox_to_anchor=(1.01, 1.02), fontsize=8, handlelength=1)
    return figure


def rail(served: Served, guardrail: Guardrail) -> Figure:
    """The means of a guardrail against its limit."""
    figure, axes = canvas(1)
    course(axes, served, lambda epoch: epoch.costs.get(guardrail.name))
    for epoch, first, last in stretches(served):
        limit = next((one.limit for one in epoch.experiment.guardrails if one.name == guardrail.name), None)
        if limit is not None:
            axes.plot([first, last], [limit, limit], color=INK, lw=1.4, ls="--", label="limit", gid="limit")
    side = "at most" if guardrail.less_is_better else "at least"
    scale(axes)
    axes.set(title=f"{label(guardrail.name)}: {side} {guardrail.shown(guardrail.limit)}\n", xlabel="round")
    axes.set_ylabel(guardrail.unit or "mean")
    finish(axes, served)
    return figure


def objective(served: Served) -> Figure:
    """The means of the objective, and of the baseline's arms."""
    figure, axes = canvas(1)
    course(axes, served, lambda epoch: epoch.objective)
    for epoch, _, _ in stretches(served):
        at = points(served, epoch)
        values = baseline_mean(served, epoch, at)
        axes.plot(epoch.seq[at], values, color=INK, lw=1.4, ls=":", label="baseline", gid="baseline")
    aim = "less is better" if served.experiment.objective.less_is_better else "more is better"
    scale(axes)
    axes.set(title=f"{label(served.experiment.objective.name)}: {aim}\n", xlabel="round", ylabel="mean")
    finish(axes, served)
    return figure


def lost(served: Served) -> Figure:
    """The share of time-outs."""
    figure, axes = canvas(1)
    for epoch, _, _ in stretches(served):
        at = points(served, epoch)
        shares = trailing(epoch.lost, at, window(served))
        axes.plot(epoch.seq[at], shares, color=MEAN, lw=1.6, label="timed out", gid="lost")
    axes.set(title="Lost to time-outs\n", xlabel="round", ylabel="share of decisions", ylim=(0, None))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    finish(axes, served)
    return figure


def course(axes: Axes, served: Served, values_of: Callable[[Epoch], Floats | None]) -> None:
    """Draw the mean of each epoch so far, and the mean of the last rounds."""
    for epoch, _, _ in stretches(served):
        values = values_of(epoch)
        if values is not None:
            at = points(served, epoch)
            x = epoch.seq[at]
            axes.plot(x, trailing(values, at, window(served)), color=LATELY, lw=1, label="lately", gid="lately")
            axes.plot(x, trailing(values, at), color=MEAN, lw=2, label="mean", gid="mean")


def stretches(served: Served) -> Iterator[tuple[Epoch, float, float]]:
    """The epochs with rounds, and the numbers of their first and last round."""
    for epoch in served.epochs:
        if len(epoch.seq):
            yield epoch, float(epoch.seq[0]), float(epoch.seq[-1])


def scale(axes: Axes) -> None:
    """Let the calm part of the lines set the scale: the first few rounds of a mean are all over the place."""
    seen = []
    for line in axes.lines:
        x, y = (np.asarray(data, np.float64) for data in line.get_data())
        calm = y[x - x[0] >= min(SETTLED, (x[-1] - x[0]) / 2)]
        seen.append(calm[np.isfinite(calm)])
    values = np.concatenate(seen)
    low, high = values.min(), values.max()
    room = 0.08 * (high - low) or 0.05 * abs(high) or 0.05
    axes.set_ylim(low - room, high + room)


def finish(axes: Axes, served: Served) -> None:
    """Name the lines at their right ends, mark epochs and alarms."""
    axes.set_xlim(0, max(float(epoch.seq[-1]) for epoch, _, _ in stretches(served)))
    thousands(axes, y=axes.get_ylabel() != "share of decisions")
    last: dict[str, tuple[float, str, str]] = {}
    for line in axes.lines:
        values = np.asarray(line.get_ydata(), np.float64)
        if np.isfinite(values[-1]):
            last[str(line.get_label())] = (float(values[-1]), str(line.get_label()), str(line.get_color()))
    label_ends(axes, list(last.values()))
    mark(axes, served)


def mark(axes: Axes, served: Served) -> None:
    """Mark where epochs begin, and alarms."""
    across = axes.get_xaxis_transform()
    if len(served.epochs) > 1:
        few = len(served.epochs) <= MOST_LABELS
        for epoch in served.epochs[1:]:
            axes.axvline(epoch.after, color=INK, lw=0.8, ls=(0, (4, 3)), gid="epoch")
            if few:
                axes.annotate(f"epoch {epoch.number}", (epoch.after, 1.02), xycoords=across, fontsize=8, color=INK,
                              annotation_clip=False)  # fmt: skip
    alarms = [alarm["after"] for alarm in served.history["alarms"]]
    if alarms:
        axes.plot(
            alarms, np.ones(len(alarms)), "v", transform=across, color=ALARM, ms=7, mec="white", gid="alarm",
            clip_on=False, zorder=5,
        )  # fmt: skip
