"""Figures of a grid: a map for two axes, small multiples for more, lines for one; and policies by scenarios."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from surefoot.reporting.figures import label_ends
from surefoot.reporting.sheets import Axis, Measure, Place, Sheet, rows
from surefoot.reporting.style import INK, Look, label, short
from surefoot.rules import Floats

WARM = LinearSegmentedColormap.from_list("warm", ["#f7f7f5", "#f3c677", "#d55e00", "#5f1f00"])
MOST_PANELS = 60
"""Number of maps in a figure; beyond that some values of the further axes are left out of it."""
MOST_ACROSS = 6
"""Number of maps side by side."""
MOST_SCENARIOS = 24
"""Number of scenarios up to which values are written into the map of all of them."""
WIDTH, PANEL, CELL, CELL_WRITTEN = 10.2, 1.5, 0.4, 0.3
"""Inches: the most of a figure, the least of a map, a cell, and a cell that a number fits into."""
SPREAD = 30.0
"""Ratio of the largest value to the smallest from which on colours follow the logarithm."""


class Panel(NamedTuple):
    """One map of a figure."""

    name: str
    further: str  # the values of the further axes
    values: Floats  # (rows, columns)
    framed: list[tuple[int, int]]


def draw(sheet: Sheet, measure: Measure, look: Look) -> Figure:
    """The figure of a measure over the axes of a sheet."""
    if len(sheet.axes) == 1:
        return lines(sheet, measure, look)
    return maps(sheet, measure)


def lines(sheet: Sheet, measure: Measure, look: Look) -> Figure:
    """A line for each policy over one axis, with 95 % intervals."""
    (axis,) = sheet.axes
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    ticks = np.array(axis.values, np.float64) if axis.numeric else np.arange(len(axis.values), dtype=np.float64)
    ends = []
    for name, cells in sheet.policies.items():
        places = sorted(cells)
        at = ticks[[place[0] for place in places]]
        value, low, high = np.array([measure.of(cells[place]) for place in places], np.float64).T
        axes.fill_between(at, low, high, color=look.colour[name], alpha=0.15, lw=0)
        axes.plot(at, value, color=look.colour[name], ls=look.dashes[name], lw=look.width[name], marker="o", ms=4)
        ends.append((float(value[-1]), name, look.colour[name]))
    for name, policy in sheet.references.items():
        value = measure.of(policy)[0]
        axes.axhline(value, color=look.colour[name], ls=":", lw=look.width[name])
        ends.append((float(value), name, look.colour[name]))
    if axis.numeric and is_wide(ticks):
        axes.set_xscale("log")
    axes.set_xticks(ticks, axis.labels, rotation=0 if sum(map(len, axis.labels)) < 50 else 40, minor=False)
    axes.minorticks_off()
    axes.set(title=f"{measure.title} over {axis.name}", xlabel=axis.name, ylabel=measure.title.lower())
    axes.axhline(0, color=INK, lw=0.8)
    axes.yaxis.set_major_formatter(lambda value, _: short(value))
    if measure.name == "unsafe":
        axes.axhline(sheet.delta, color=INK, lw=0.8, ls=":")
        axes.set_ylim(-0.02, 1.02)
    label_ends(axes, ends, look)
    return figure


def is_wide(values: Floats) -> bool:
    """True if a logarithmic scale shows positive values better."""
    return bool(values.min() > 0 and values.max() / values.min() >= SPREAD / 3)


def maps(sheet: Sheet, measure: Measure) -> Figure:
    """Maps over the two longest axes, one for each policy and value of the further axes."""
    across, down, rest = arranged(sheet.axes)
    panels = [
        panel(sheet, measure, name, at, (across, down, rest)) for at in chosen(sheet, rest) for name in sheet.policies
    ]
    in_rows = bool(rest) and len(sheet.policies) <= MOST_ACROSS
    wide = len(sheet.policies) if in_rows else min(MOST_ACROSS - 1, len(panels))
    return tiled(panels, wide, sheet.axes[across], sheet.axes[down], measure, in_rows)


def arranged(axes: list[Axis]) -> tuple[int, int, list[int]]:
    """The numbers of the axes across, down, and of those that separate maps."""
    order = sorted(range(len(axes)), key=lambda i: -len(axes[i].values))
    return order[0], order[1], sorted(order[2:])


def chosen(sheet: Sheet, rest: list[int]) -> list[Place]:
    """The values of the further axes that are drawn: all, or some, evenly spaced."""
    every = list(product(*(range(len(sheet.axes[i].values)) for i in rest)))
    most = max(1, MOST_PANELS // len(sheet.policies))
    if len(every) <= most:
        return every
    return [every[i] for i in np.unique(np.linspace(0, len(every) - 1, most).round().astype(int))]


def panel(sheet: Sheet, measure: Measure, name: str, at: Place, arrangement: tuple[int, int, list[int]]) -> Panel:
    """The map of one policy at given values of the further axes."""
    across, down, rest = arrangement
    x, y = sheet.axes[across], sheet.axes[down]
    values = np.full((len(y.values), len(x.values)), np.nan)
    framed = []
    for place, policy in sheet.policies[name].items():
        if tuple(place[i] for i in rest) == at:
            where = place[down], place[across]
            values[where], low, _ = measure.of(policy)
            if measure.name == "unsafe" and low > sheet.delta:
                framed.append(where)
    further = ", ".join(f"{sheet.axes[i].name}={sheet.axes[i].labels[j]}" for i, j in zip(rest, at, strict=True))
    return Panel(label(name), further, values, framed)


def tiled(panels: list[Panel], wide: int, x: Axis, y: Axis, measure: Measure, in_rows: bool) -> Figure:
    """Maps side by side with one scale of colours; a row for each value of the further axes, if there is room."""
    tall = -(-len(panels) // wide)
    beside = 1.3 + 0.07 * max(map(len, y.labels))  # inches for labels and the scale
    width = min(max(PANEL, CELL * len(x.values)), (WIDTH - beside) / wide)
    height = min(max(0.9, 0.24 * len(y.values)), 3.5) if tall <= 3 else max(0.8, 0.13 * len(y.values))
    roomy = width / len(x.values) >= CELL_WRITTEN and height / len(y.values) >= 0.12
    heads = 0.28 if in_rows else 0.42
    figure = Figure(figsize=(wide * width + beside, tall * (height + heads) + 0.9), layout="constrained")
    norm, colours = scaled(np.concatenate([one.values.ravel() for one in panels]), measure)
    grid = figure.subplots(tall, wide, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
            continue
        one = panels[place]
        image = painted(axes, one, norm, colours, roomy)
        first, last = place % wide == 0, place + wide >= len(panels)
        if not in_rows:
            axes.set_title("\n".join(filter(None, (one.name, one.further))), fontsize=8)
        elif place < wide:
            axes.set_title(one.name, fontsize=8)
        if in_rows and first:
            axes.set_ylabel(one.further, fontsize=8, weight="bold")
        axes.set_yticks(range(len(y.values)), y.labels if first else [])
        axes.set_xticks(range(len(x.values)), x.labels if last else [], rotation=0 if fits(x, width) else 90)
    figure.supxlabel(x.name, fontsize=9)
    figure.supylabel(y.name, fontsize=9)
    bar = figure.colorbar(
        image, ax=grid, format=lambda value, _: short(value), fraction=0.05, aspect=min(40, 14 * tall)
    )
    bar.set_label(measure.title.lower())
    return figure


def fits(axis: Axis, width: float) -> bool:
    """True if the labels of an axis stand side by side."""
    return sum(map(len, axis.labels)) * 0.085 + 0.1 * len(axis.labels) < width


def scaled(values: Floats, measure: Measure) -> tuple[Normalize, Colormap]:
    """The scale of the colours: logarithmic where the values differ by more than a factor."""
    there = values[np.isfinite(values)]
    low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 1.0)
    if measure.column == "violating_share":
        return Normalize(0.0, 1.0), WARM
    colours = WARM if low >= 0 and measure.name == "violation" else matplotlib.colormaps["viridis_r"]
    if low > 0 and high / low > SPREAD:
        return LogNorm(low, high), colours
    largest = max(abs(low), abs(high))
    positive = np.abs(there[there != 0])
    if positive.size and largest / float(positive.min()) > SPREAD:
        return SymLogNorm(largest / SPREAD, vmin=low, vmax=high), colours
    return Normalize(low, high if high > low else low + 1.0), colours


def painted(axes: Axes, panel: Panel, norm: Normalize, colours: Colormap, roomy: bool) -> AxesImage:
    """Draw a map: colours, numbers if there is room, frames; cells that were not run are grey."""
    axes.set_facecolor("#e2e2e2")
    image = axes.imshow(panel.values, norm=norm, cmap=colours, aspect="auto", origin="lower", interpolation="nearest")
    axes.tick_params(length=0, labelsize=7)
    axes.grid(False)
    for (row, column), value in np.ndenumerate(panel.values) if roomy else ():
        if np.isfinite(value):
            red, green, blue, _ = colours(float(norm(value)))
            dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
            text = written(float(value))
            axes.text(column, row, text, ha="center", va="center", fontsize=6, color="white" if dark else INK)
    for row, column in panel.framed:
        axes.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, ec=INK, lw=0.8))
    return image


def written(value: float) -> str:
    """A number in a cell of a map: two digits."""
    return short(float(f"{value:.2g}"))


def table_map(
    names: list[str], scenarios: list[str], values: Floats, framed: list[tuple[int, int]], measure: Measure
) -> Figure:
    """Policies (rows, the first on top) by scenarios."""
    flipped = Panel("", "", values[::-1], [(len(names) - 1 - row, column) for row, column in framed])
    width = 0.46 if len(scenarios) <= MOST_SCENARIOS else WIDTH / len(scenarios)
    figure = Figure(figsize=(2.6 + width * len(scenarios), 1.5 + 0.21 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    norm, colours = scaled(values.ravel(), measure)
    image = painted(axes, flipped, norm, colours, len(scenarios) <= MOST_SCENARIOS)
    axes.set_yticks(range(len(names)), [label(name) for name in names[::-1]])
    axes.set_xticks(range(len(scenarios)), [label(one) for one in scenarios], rotation=45, ha="right")
    axes.set_title(measure.title, fontsize=10)
    figure.colorbar(image, format=lambda value, _: short(value), fraction=0.05)
    return figure


def data(sheet: Sheet, measure: Measure) -> list[dict[str, Any]]:
    """What a figure of a sheet shows, as a table."""
    return rows(
        sheet,
        lambda policy: {
            "seeds": policy.final["seeds"],
            **dict(zip(("value", "low", "high"), measure.of(policy), strict=True)),
        },
    )


def note(sheet: Sheet) -> str:
    """What a reader of a figure of a sheet has to know: what is not drawn."""
    if len(sheet.axes) == 1:
        return "; the band is the 95 % interval" + ("; dotted: policies that do not vary" if sheet.references else "")
    _, _, rest = arranged(sheet.axes)
    every, drawn = math.prod(len(sheet.axes[i].values) for i in rest), len(chosen(sheet, rest))
    left_out = (
        f"; {drawn} of {every} combinations of the further axes are drawn, and the data has all"
        if drawn < every
        else ""
    )
    size = math.prod(len(axis.values) for axis in sheet.axes)
    empty = (
        "; grey combinations are not part of the study"
        if any(len(cells) < size for cells in sheet.policies.values())
        else ""
    )
    return left_out + empty
