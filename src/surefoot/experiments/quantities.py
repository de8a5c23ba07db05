"""What an experiment measures, in natural units: the objective and the guardrails.

A policy knows losses and costs in [0, 1], less being better. A quantity knows its range and its direction, and
translates between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from surefoot.rules import Range, RuleError, hint, number, shown

NATURAL = Range(-1e12, 1e12)
LONGEST_NAME = 200


@dataclass(frozen=True)
class Quantity:
    """A number that every decision leads to: its name and its range."""

    name: str
    low: float = 0.0
    high: float = 1.0

    less_is_better: ClassVar[bool]
    verb: ClassVar[str]
    """The key under which JSON has what is special to the kind of quantity."""

    def _check(self, where: str) -> None:
        checked_name(where, self.name)
        for end in ("low", "high"):
            object.__setattr__(self, end, float(number(f"{where}.{end}", getattr(self, end), NATURAL)))
        if not self.low < self.high:
            raise RuleError(f"{where}.high", f"be above low = {self.low:g}", self.high)

    def checked(self, value: Any) -> float:
        """Return an observed value as a number; reject one that is outside the range. True counts as 1."""
        if type(value) is not float:
            value = float(number(f"outcome[{self.name!r}]", value, Range(self.low, self.high, booleans=True)))
        elif not self.low <= value <= self.high:
            number(f"outcome[{self.name!r}]", value, Range(self.low, self.high))
        return value  # type: ignore[no-any-return]

    def cost(self, value: float) -> float:
        """The value as a loss or cost in [0, 1]."""
        part = value - self.low if self.less_is_better else self.high - value
        return part / (self.high - self.low)

    def value(self, cost: float) -> float:
        """The natural value of a loss or cost."""
        part = cost * (self.high - self.low)
        return self.low + part if self.less_is_better else self.high - part

    @property
    def worst(self) -> float:
        """The value that counts when feedback is lost."""
        return self.high if self.less_is_better else self.low


@dataclass(frozen=True)
class Objective(Quantity):
    """What the experiment makes as large or as small as the guardrails allow."""

    def __post_init__(self) -> None:
        self._check("objective")

    def to_dict(self) -> dict[str, Any]:
        """The objective as JSON-able data."""
        return {self.verb: self.name, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Maximise(Objective):
    """An objective that is better the larger it is.

    Parameters
    ----------
    name
        What outcomes call it.
    low, high
        Its range. Values outside are refused.

    Examples
    --------
    >>> Maximise("revenue", high=20.0).cost(5.0)
    0.75
    """

    less_is_better: ClassVar[bool] = False
    verb: ClassVar[str] = "maximise"


@dataclass(frozen=True)
class Minimise(Objective):
    """An objective that is better the smaller it is; its parameters are those of `Maximise`.

    Examples
    --------
    >>> Minimise("minutes", high=60.0).cost(15.0)
    0.25
    """

    less_is_better: ClassVar[bool] = True
    verb: ClassVar[str] = "minimise"


@dataclass(frozen=True, init=False)
class Guardrail(Quantity):
    """A quantity whose mean must stay on one side of a limit."""

    limit: float = 0.0
    unit: str | None = None

    def __init__(self, name: str, limit: float, low: float = 0.0, high: float = 1.0, unit: str | None = None) -> None:
        for field, value in {"name": name, "low": low, "high": high, "unit": unit}.items():
            object.__setattr__(self, field, value)
        where = f"guardrails[{name!r}]"
        self._check(where)
        if unit is not None and not isinstance(unit, str):
            raise RuleError(f"{where}.unit", "be text or None", unit)
        checked = float(number(f"{where}.limit", limit, Range(self.low, self.high)))
        object.__setattr__(self, "limit", checked)

    @property
    def threshold(self) -> float:
        """The limit as a cost in [0, 1]."""
        return self.cost(self.limit)

    def to_dict(self) -> dict[str, Any]:
        """The guardrail as JSON-able data."""
        unit = {} if self.unit is None else {"unit": self.unit}
        return {"name": self.name, self.verb: self.limit, "low": self.low, "high": self.high, **unit}

    def shown(self, value: float) -> str:
        """The value with its unit, for people."""
        return f"{value:.4g}" + (f" {self.unit}" if self.unit else "")


class AtMost(Guardrail):
    """A guardrail whose mean must be at most its limit.

    Parameters
    ----------
    name
        What outcomes call it.
    limit
        The limit on its mean, in natural units.
    low, high
        Its range. Values outside are refused.
    unit
        For people.

    Examples
    --------
    >>> spend = AtMost("spend", 0.40, high=2.0, unit="cents")
    >>> spend.threshold, spend.cost(0.31)
    (0.2, 0.155)
    """

    less_is_better: ClassVar[bool] = True
    verb: ClassVar[str] = "at_most"


class AtLeast(Guardrail):
    """A guardrail whose mean must be at least its limit; its parameters are those of `AtMost`.

    Examples
    --------
    >>> AtLeast("answered", 0.75).threshold
    0.25
    """

    less_is_better: ClassVar[bool] = False
    verb: ClassVar[str] = "at_least"


def checked_name(where: str, name: Any) -> str:
    """Return a name for people and outcomes: text that is neither empty nor too long, without spaces around it.

    A zero character is refused, since PostgreSQL has no text with one.
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or name != name.strip() or "\0" in name:
        raise RuleError(f"{where}.name", f"be text of 1 to {LONGEST_NAME} characters without spaces around it", name)
    return name


def objective_from(data: Any) -> Objective:
    """Read an objective from JSON-able data."""
    kinds: tuple[type[Objective], ...] = (Maximise, Minimise)
    kind, rest = read_kind("objective", data, kinds)
    name = rest.pop(kind.verb)
    objective: Objective = kind(name=name, **known_keys("objective", rest, "low", "high"))
    return objective


def guardrail_from(data: Any, where: str) -> Guardrail:
    """Read a guardrail from JSON-able data."""
    kinds: tuple[type[Guardrail], ...] = (AtMost, AtLeast)
    kind, rest = read_kind(where, data, kinds)
    if "name" not in rest:
        raise RuleError(where, "have a name", data)
    limit = rest.pop(kind.verb)
    guardrail: Guardrail = kind(limit=limit, **known_keys(where, rest, "name", "low", "high", "unit"))
    return guardrail


def read_kind(where: str, data: Any, kinds: tuple[type[Any], ...]) -> tuple[type[Any], dict[str, Any]]:
    """Tell the kind of a quantity by the one key that names it."""
    verbs = [kind.verb for kind in kinds]
    found = [kind for kind in kinds if isinstance(data, Mapping) and kind.verb in data]
    if len(found) != 1:
        raise RuleError(where, f"have exactly one of the keys {' and '.join(map(repr, verbs))}", data)
    return found[0], dict(data)


def known_keys(where: str, data: Mapping[str, Any], *allowed: str) -> dict[str, Any]:
    """Return the data if it has no other keys than these."""
    unknown = sorted(str(key) for key in data if key not in allowed)
    if unknown:
        guess = hint(unknown[0], allowed) if len(unknown) == 1 else ""
        raise RuleError(where, f"have no keys but {', '.join(allowed)}", data, f"{shown(unknown)}{guess}")
    return dict(data)
