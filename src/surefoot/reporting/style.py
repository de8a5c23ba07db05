"""How figures look: colours that the colour-blind can tell apart, one per policy, the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# after Okabe and Ito
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
Dashes = str | tuple[float, tuple[float, ...]]
DASHES: tuple[Dashes, ...] = ("-", (0, (4, 1.6)), (0, (1, 1.2)), (0, (5, 1.4, 1, 1.4)))
# after Tol's muted scheme, ordered so that neighbours in a stack are easy to tell apart, for the colour-blind too
ARMS = ("#88CCEE", "#332288", "#117733", "#44AA99", "#DDCC77", "#CC6677", "#EEEEBB", "#882255")
INK, FAINT = "#1a1a1a", "#dddddd"

Colour = str

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans", "Arial"],  # the list is repeated with every text of a drawing
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
    """The colour, the dashes, the marker and the width of each policy's line.

    A few policies have a colour each, and solid lines. Of more than that, the best few do; the others share the colours
    in thin lines with other dashes, so that colour and dashes together tell all of up to 28 apart. Policies of one
    family look alike.
    """

    def __init__(self, names: list[str], best: Sequence[str] = (), families: Mapping[str, str] | None = None) -> None:
        distinct = list(dict.fromkeys(names))
        first = [name for name in dict.fromkeys([*best, *distinct]) if name in distinct][: len(COLOURS)]
        if len(distinct) <= len(COLOURS):
            first = distinct
        self._first = set(first)
        self.colour: dict[str, str] = {}
        self.dashes: dict[str, Dashes] = {}
        self.marker: dict[str, str] = {}
        self.width: dict[str, float] = {}
        for place, name in enumerate([*first, *(name for name in distinct if name not in first)]):
            row, column = divmod(place, len(COLOURS))
            self.colour[name], self.dashes[name] = COLOURS[column], DASHES[row % len(DASHES)]
            self.marker[name], self.width[name] = MARKERS[column], 1.6 if name in self._first else 1.0
        for name, family in (families or {}).items():
            self.colour[name], self.dashes[name] = self.colour[family], self.dashes[family]
            self.marker[name], self.width[name] = self.marker[family], self.width[family]
            if family in self._first:
                self._first.add(name)

    def stands_out(self, name: str) -> bool:
        """True if a policy has a colour for itself."""
        return name in self._first

    def key(self, name: str) -> dict[str, Any]:
        """How a page shows which line is whose."""
        dashes = self.dashes[name]
        pattern = "" if isinstance(dashes, str) else " ".join(f"{1.6 * one:g}" for one in dashes[1])
        return {"colour": self.colour[name], "dashes": pattern, "width": 1.4 * self.width[name]}


def arm_colours(count: int) -> list[str]:
    """Colours of the arms, from another family than those of the policies; neighbours differ most."""
    return [ARMS[i % len(ARMS)] for i in range(count)]


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
    figure.set_layout_engine("none")  # everything has its place: finding it again takes as long as drawing
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    return path
