"""How figures look: colours that the colour-blind can tell apart, one per policy, the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# after Okabe and Ito
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("--", ":", "-.", "-")  # of grey lines
INK, FAINT, GREY = "#1a1a1a", "#b8b8b8", "#8a8a8a"

Colour = tuple[float, float, float, float]

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.parse_math": False,  # print names literally: no character in them is markup
    "svg.hashsalt": "surefoot",
    "savefig.dpi": 130,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw without a screen, in the style of this package."""
    with matplotlib.rc_context(SETTINGS):
        yield


class Look:
    """The colour, the dashes and the width of each policy's line.

    Each of a few policies has a colour. Of more than that, the best few have one, and all others are grey: the names
    beside the lines tell them apart. Policies of one family look alike.
    """

    def __init__(self, names: list[str], best: Sequence[str] = (), families: Mapping[str, str] | None = None) -> None:
        distinct = list(dict.fromkeys(names))
        coloured = [name for name in dict.fromkeys([*best, *distinct]) if name in distinct][: len(COLOURS)]
        if len(distinct) <= len(COLOURS):
            coloured = distinct
        others = [name for name in distinct if name not in coloured]
        self.colour = dict(zip(coloured, COLOURS, strict=False)) | dict.fromkeys(others, GREY)
        self.dashes = dict.fromkeys(coloured, "-") | {one: DASHES[i % len(DASHES)] for i, one in enumerate(others)}
        self.width = dict.fromkeys(coloured, 1.6) | dict.fromkeys(others, 0.8)
        for name, family in (families or {}).items():
            self.colour[name], self.dashes[name] = self.colour[family], self.dashes[family]
            self.width[name] = self.width[family]

    def stands_out(self, name: str) -> bool:
        """True if a policy has a colour."""
        return self.colour[name] != GREY


def arm_colours(count: int) -> list[Colour]:
    """Colours of the arms, from another family than those of the policies."""
    return [tuple(colour) for colour in matplotlib.colormaps["cividis"](np.linspace(0.05, 0.95, max(count, 2)))][:count]


def thousands(axes: Axes, x: bool = True, y: bool = False) -> None:
    """Write large numbers short."""
    for axis in ([axes.xaxis] if x else []) + ([axes.yaxis] if y else []):
        axis.set_major_formatter(lambda value, _: short(value))


def label(name: str) -> str:
    """A name in a form that figures can show."""
    return name if len(name) <= 26 else name[:25] + "\N{HORIZONTAL ELLIPSIS}"


def short(value: float) -> str:
    """A number as the label of a tick."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}".replace("-", "\N{MINUS SIGN}")
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def write(figure: Figure, folder: Path, name: str) -> Path:
    """Write a figure as SVG and PNG; return the path of the SVG file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png")
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    return path
