"""Grids in study files: values that vary, their product, and what its cells are called."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from surefoot.rules import Range, RuleError, choice, number

GRID = "grid"
MOST_CELLS = 100_000
"""Number of combinations that one entry may have: a typing error should not fill the memory."""
COUNT = Range(2, 10_000, whole=True)
END = Range(-1e15, 1e15)
LONGEST_NAME = 60
LONGEST_VALUE = 20
"""Number of signs up to which a list or a table is written out in the name of a cell."""
DIGITS = 4
"""Significant digits of the values inside a range, so that the name of a cell shows exactly what is run."""


class Axis(NamedTuple):
    """A value that varies: where it is in its entry, what it is called, and what it takes."""

    path: tuple[str, ...]
    name: str
    values: list[Any]
    labels: list[str]


class Cell(NamedTuple):
    """One combination of an entry's values."""

    keys: dict[str, Any]
    """The entry with one value in place of each grid."""
    at: dict[str, Any]
    """The value of each axis."""
    name: str
    """The name of the entry and what varies; the plain name where nothing does."""


def cells(keys: Mapping[str, Any], name: str) -> list[Cell]:
    """All combinations of an entry; just the entry itself if it has no grid.

    Examples
    --------
    >>> for cell in cells({"id": "x-v1", "margin": {"grid": [0.1, 0.2]}, "delta": 0.05}, "x-v1"):
    ...     print(cell.name, cell.keys)
    x-v1, margin=0.1 {'id': 'x-v1', 'margin': 0.1, 'delta': 0.05}
    x-v1, margin=0.2 {'id': 'x-v1', 'margin': 0.2, 'delta': 0.05}
    """
    axes = named(found(keys))
    if not axes:
        return [Cell(dict(keys), {}, name)]
    size = math.prod(len(axis.values) for axis in axes)
    if size > MOST_CELLS:
        names = ", ".join(axis.name for axis in axes)
        raise RuleError(names, f"have at most {MOST_CELLS:,} combinations", size, f"{size:,}")
    places = product(*(range(len(axis.values)) for axis in axes))
    return [
        Cell(
            replaced(keys, {axis.path: axis.values[i] for axis, i in zip(axes, at, strict=True)}),
            {axis.name: axis.values[i] for axis, i in zip(axes, at, strict=True)},
            called,
        )
        for at, called in zip(places, cell_names(name, axes), strict=True)
    ]


def found(keys: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield where each grid of an entry is, and its values."""
    for key, value in keys.items():
        place = (*before, key)
        if isinstance(value, Mapping) and GRID in value:
            if len(value) > 1:
                others = ", ".join(other for other in value if other != GRID)
                raise RuleError(".".join(place), "hold nothing but grid, or no grid", value, f"grid and {others}")
            yield place, values_of(value[GRID], ".".join((*place, GRID)))
        elif isinstance(value, Mapping):
            yield from found(value, place)


def values_of(given: Any, argument: str) -> list[Any]:
    """The values of a grid: a list of different ones, or a range."""
    if isinstance(given, Mapping):
        return spaced(given, argument)
    if not isinstance(given, list) or not given:
        raise RuleError(argument, "be a list of values, or {from, to, count, scale}", given)
    seen: list[str] = [text(value) for value in given]
    for i, one in enumerate(seen):
        if one in seen[:i]:
            raise RuleError(f"{argument}[{i}]", "be different from the values before it", given[i])
    return list(given)


def spaced(given: Mapping[str, Any], argument: str) -> list[Any]:
    """The values of a range; whole numbers if both ends are."""
    known = ("from", "to", "count", "scale")
    if not {"from", "to", "count"} <= set(given) <= set(known):
        raise RuleError(argument, "have the keys from, to, count and, if you like, scale", given)
    low, high = number(f"{argument}.from", given["from"], END), given["to"]
    if high not in END or high <= low:
        raise RuleError(f"{argument}.to", f"be a finite number above from = {low:g}", high)
    count, scale = number(f"{argument}.count", given["count"], COUNT), given.get("scale", "linear")
    choice(f"{argument}.scale", scale, ("linear", "log"))
    if scale == "log" and low <= 0:
        raise RuleError(f"{argument}.from", "be above 0 on a logarithmic scale", low)
    whole = isinstance(low, int) and isinstance(high, int)
    between = (np.geomspace if scale == "log" else np.linspace)(low, high, count)[1:-1].tolist()
    inner = [round(value) if whole else float(f"{value:.{DIGITS}g}") for value in between]
    values = [low, *inner, high]
    if any(one >= other for one, other in pairwise(values)):
        kind = "whole numbers" if whole else f"numbers of {DIGITS} digits"
        raise RuleError(f"{argument}.count", f"leave different {kind} between {low:g} and {high:g}", count)
    return values


def named(places: Iterator[tuple[tuple[str, ...], list[Any]]]) -> list[Axis]:
    """The axes, each under its last key, or under all of them where that is not unique."""
    all_places = list(places)
    last = [path[-1] for path, _ in all_places]
    return [
        Axis(path, path[-1] if last.count(path[-1]) == 1 else ".".join(path), values, labels(values))
        for path, values in all_places
    ]


def replaced(keys: Mapping[str, Any], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """A copy of the entry with these values at their places."""
    made = {key: copy.deepcopy(dict(value)) if isinstance(value, Mapping) else value for key, value in keys.items()}
    for path, value in values.items():
        inner = made
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
    return made


def labels(values: list[Any]) -> list[str]:
    """The values as names and figures show them; long ones by their place in the grid."""
    texts = [text(value) for value in values]
    return texts if max(map(len, texts)) <= LONGEST_VALUE else [f"#{i}" for i in range(1, len(values) + 1)]


def text(value: Any) -> str:
    """A value as text, without loss.

    Examples
    --------
    >>> text(1_000_000), text(0.05), text(1 / 3), text(True), text([0.3, 0.5]), text("paper")
    ('1e6', '0.05', '0.3333333333333333', 'true', '[0.3, 0.5]', 'paper')
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return json.dumps(value, default=str)
    if isinstance(value, str):
        return value
    short = f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return short if float(short) == value else repr(value)


def cell_names(name: str, axes: list[Axis]) -> list[str]:
    """The names of all cells in the order of their product: what varies, in at most 60 signs.

    Where the whole name of an axis does not fit it is cut short; where not even that fits, cells are numbered.
    """
    for shown in ([axis.name for axis in axes], initials([axis.name for axis in axes])):
        pairs = [[f"{one}={label}" for label in axis.labels] for one, axis in zip(shown, axes, strict=True)]
        longest = len(name) + sum(2 + max(map(len, pair)) for pair in pairs)
        if longest <= LONGEST_NAME:
            return [", ".join((name, *at)) for at in product(*pairs)]
    size = math.prod(len(axis.values) for axis in axes)
    room = LONGEST_NAME - len(f" #{size}")
    return [f"{name[:room]} #{i}" for i in range(1, size + 1)]


def initials(names: list[str]) -> list[str]:
    """Short forms of names, all different: learning_rate is lr, and margin is marg."""
    short = ["".join(word[:1] for word in one.split("_")) if "_" in one else one[:4] for one in names]
    return short if len(set(short)) == len(short) else names
