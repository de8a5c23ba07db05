"""How input is checked: ranges of numbers, and one error, `RuleError`, with one sentence.

The sentence names the argument, the rule and the value received: ``thresholds[1] must be in [0, 1], got 1.3``. Each
rule is stated where the argument is used; this module only knows how to check one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

SUM_TOLERANCE = 1e-9
"""How far from 1 the sum of a given strategy may be. The strategy is then normalised."""


class RuleError(ValueError):
    """An argument breaks a rule.

    Parameters
    ----------
    argument
        Name of the argument, with the place of the value in it: ``thresholds[1]``.
    rule
        What the argument must do, as a verb phrase: ``be in [0, 1]``.
    value
        The value received.
    received
        How the message describes the value; by default `shown` does.

    Examples
    --------
    >>> import surefoot as sf
    >>> try:
    ...     sf.Problem(n_arms=2, thresholds=[0.5, 1.3], horizon=100)
    ... except sf.RuleError as error:
    ...     print(error, "|", error.argument, "|", error.rule, "|", error.value)
    thresholds[1] must be in [0, 1], got 1.3 | thresholds[1] | be in [0, 1] | 1.3
    """

    def __init__(self, argument: str, rule: str, value: object, received: str | None = None) -> None:
        self.argument, self.rule, self.value = argument, rule, value
        self.received = received or shown(value)
        super().__init__(argument, rule, value, self.received)  # all of them, so that the error can be pickled

    def __str__(self) -> str:
        return f"{self.argument} must {self.rule}, got {self.received}"


class Range(NamedTuple):
    """Where a number may lie. An infinite end is never included: every input is finite.

    Ends such as 1e-300 and 1e15 keep products and quotients finite, and input within the range that has been tested.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False  # floats such as 1e5 are whole numbers, too
    booleans: bool = False  # whether False and True count as 0 and 1

    def __contains__(self, value: object) -> bool:
        if type(value) is float:  # nearly always: the rest takes three times as long
            number = value
        elif isinstance(value, bool | np.bool_) and not self.booleans:
            return False
        elif isinstance(value, Real | np.bool_):
            try:
                number = float(value)
            except OverflowError:  # a whole number too large for a float
                return False
        else:
            return False
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        fits = above and below and math.isfinite(number)
        return fits and (not self.whole or isinstance(value, Integral) or number.is_integer())

    def __str__(self) -> str:
        number = "a whole number" if self.whole else "a finite number"
        if math.isinf(self.low):
            return number
        if math.isinf(self.high):
            return f"{number} {'>' if self.open_low else '>='} {self.low:g}"
        span = f"in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"
        return f"{number} {span}" if self.whole else span


SHARE = Range(0, 1)
OUTCOME = Range(0, 1, booleans=True)
"""A loss or a cost that was observed; one that happens or not may be given as a boolean."""
POSITIVE = Range(1e-15, 1e15)
REAL = Range(-1e6, 1e6)
WHOLE = Range(0, whole=True)


def shown(value: object) -> str:
    """The value as an error message shows it: NumPy numbers as plain ones, long text cut short."""
    try:
        text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    except ValueError:  # Python does not write integers of thousands of digits
        return "an integer too long to show"
    return text if len(text) <= 60 else text[:57] + "..."


def number(name: str, value: Any, rule: Range) -> Any:
    """Return `value` if it keeps the rule; as an int if the rule asks for a whole number."""
    if value not in rule:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        says_number = rule.whole or math.isinf(rule.low) or math.isinf(rule.high)
        raise RuleError(name, f"be {rule}" if is_number or says_number else f"be a number {rule}", value)
    return int(value) if rule.whole else value


def numbers(name: str, values: ArrayLike, rule: Range, *shape: int | None) -> Floats:
    """Return a new, contiguous array of this shape (None: any length) if each entry keeps the rule.

    Where an array with one axis may have length 1, a single number stands for that array.
    """
    if not is_numeric(values, rule.booleans):
        raise RuleError(name, "be an array of numbers", values)
    array = np.array(values, np.float64, order="C")
    single = array.ndim == 0 and shape in ((1,), (None,))
    if single:
        array = array.reshape(1)
    if array.size == 0 and 0 in shape and None not in shape:
        array = array.reshape([length or 0 for length in shape])
    if array.ndim != len(shape) or any(n not in (None, k) for n, k in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any number" if length is None else str(length) for length in shape)
        raise RuleError(name, f"be an array of shape {wanted}", values, f"one of shape {array.shape}")
    is_whole = not rule.whole or bool((array == np.floor(array)).all())
    if array.size and not (is_whole and array.min() in rule and array.max() in rule):
        for place in np.ndindex(array.shape):
            where = "" if single else f"[{', '.join(map(str, place))}]"
            number(f"{name}{where}", array[place], rule)
    return array


def is_numeric(values: ArrayLike, booleans: bool = False) -> bool:
    """Return whether these are numbers in rows of equal length, with nothing missing; booleans only where allowed."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return False
    if array.dtype.kind not in ("biuf" if booleans else "iuf") or np.ma.is_masked(values):
        return False
    mixed = not booleans and not isinstance(values, np.ndarray)  # NumPy makes numbers of booleans among numbers
    return not mixed or not any(isinstance(one, bool | np.bool_) for one in np.array(values, object).flat)


def fields(name: str, data: Any, *expected: str) -> Mapping[str, Any]:
    """Return `data` if it is a mapping with exactly these keys."""
    if not isinstance(data, Mapping) or set(data) != set(expected):
        received = shown(sorted(map(str, data))) if isinstance(data, Mapping) else None
        raise RuleError(name, f"have the keys {', '.join(expected)}", data, received)
    return data


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the allowed words; the error guesses which one was meant."""
    if not isinstance(value, str) or value not in allowed:
        guess = f"{shown(value)}{hint(value, allowed)}" if isinstance(value, str) else None
        few = len(allowed) <= 8
        rule = " or ".join(map(repr, allowed)) if few else f"one of {', '.join(allowed)}"
        raise RuleError(name, f"be {rule}", value, guess)
    return value


def hint(word: str, known: Iterable[str]) -> str:
    """A guess at what was meant, for the end of a message; empty if nothing is close.

    Examples
    --------
    >>> hint("slob", ["solb", "colb"]), hint("SOLB", ["solb", "colb"]), hint("x", ["solb"])
    (' (did you mean solb?)', ' (did you mean solb?)', '')
    """
    import difflib  # only when something is wrong

    whole = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), list(whole), 1)
    return f" (did you mean {whole[close[0]]}?)" if close else ""


def simplex(name: str, values: ArrayLike, length: int | None) -> Floats:
    """Return a strategy: shares that sum to 1 to within `SUM_TOLERANCE`, normalised."""
    strategy = numbers(name, values, SHARE, length)
    total = math.fsum(strategy)
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise RuleError(name, "sum to 1", values, f"a sum of {total:.12g}")
    return strategy if abs(total - 1.0) < 1e-15 else strategy / total


def frozen(array: Floats) -> Floats:
    """Return the array, made read-only."""
    array.flags.writeable = False
    return array
