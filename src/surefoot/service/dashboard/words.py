"""How pages write numbers and times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from unicodedata import bidirectional

NOTHING = "\N{EN DASH}"
DIRECTIONS = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
"""Characters that turn the direction of what follows."""
TURNS = {"R", "AL", "AN", "LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def number(value: float | None, unit: str | None = None) -> str:
    """A number with three digits, and its unit.

    Examples
    --------
    >>> number(0.31456, "cents"), number(12345.6)
    ('0.315 cents', '12,346')
    """
    if value is None:
        return NOTHING
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}" if unit else text


def percent(share: float | None) -> str:
    """A share; one that is small but not zero, or large but not one, is shown as such.

    Examples
    --------
    >>> percent(0.1834), percent(0.0004), percent(0.9999), percent(0.0)
    ('18.3 %', '< 0.1 %', '> 99.9 %', '0 %')
    """
    if share is None:
        return NOTHING
    if 0.0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1.0:
        return "> 99.9 %"
    return f"{100.0 * share:.1f}".removesuffix(".0") + " %"


def compared(better: float | None, clear: bool = True) -> str:
    """How the objective compares with the baseline's, if the difference is more than noise.

    Examples
    --------
    >>> compared(0.18), compared(-0.0234), compared(0.18, clear=False), compared(None), compared(math.inf)
    ('18 % better', '2.3 % worse', 'no clear difference', 'not known yet', 'better')
    """
    if better is None:
        return "not known yet"
    if not clear or abs(better) < 0.0005:
        return "no clear difference"
    word = "better" if better > 0 else "worse"
    return word if math.isinf(better) else f"{percent(abs(better))} {word}"


def clock(at: float | None) -> str:
    """A time, in UTC.

    Examples
    --------
    >>> clock(1_700_000_000.5)
    '2023-11-14 22:13:20'
    """
    return NOTHING if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """A length of time.

    Examples
    --------
    >>> duration(0.25), duration(90), duration(7200), duration(200_000)
    ('250 ms', '1.5 min', '2 h', '2.3 days')
    """
    if seconds is None:
        return NOTHING
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if unit != "days" else f"{seconds / size:.1f} days"
    return f"{1000.0 * seconds:.3g} ms"


def plenty(value: float) -> str:
    """A forecast, of which the order of magnitude counts.

    Examples
    --------
    >>> plenty(32_812), plenty(1.2e7), plenty(3e9)
    ('33 thousand', '12 million', '3 billion')
    """
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if value >= size:
            return f"{float(f'{value / size:.2g}'):,.0f} {word}" if value >= 10 * size else f"{value / size:.2g} {word}"
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def outcome(value: float | bool) -> str:
    """What was observed.

    Examples
    --------
    >>> outcome(True), outcome(0.8)
    ('yes', '0.8')
    """
    return number(value) if not isinstance(value, bool) else "yes" if value else "no"


def number_typed(typed: str) -> float | str:
    """The number that was typed, or the text if it is none."""
    try:
        return float(typed)
    except ValueError:
        return typed


def turning(names: Iterable[str]) -> list[str]:
    r"""The names that are written from right to left, or have marks that turn the direction; the longest first.

    Examples
    --------
    >>> ascii(turning(["in-house", "\u05d0", "\u202eevil"]))
    "['\\u202eevil', '\\u05d0']"
    """
    found = {name for name in names if any(bidirectional(letter) in TURNS for letter in name)}
    return sorted(found, key=len, reverse=True)


def tame(text: str, names: Iterable[str] = ()) -> str:
    r"""A sentence in which no name turns the rest around: marks are left out, and the names given are isolated.

    Examples
    --------
    >>> tame("\u202eevil is above its limit", ["\u202e"])
    'evil is above its limit'
    >>> ascii(tame("\u05d0 (1) 12 %", ["\u05d0 (1)"]))
    "'\\u2068\\u05d0 (1)\\u2069 12 %'"
    """
    text = text.translate(DIRECTIONS)
    for name in filter(None, (name.translate(DIRECTIONS) for name in names)):
        text = text.replace(name, f"\u2068{name}\u2069")
    return text
