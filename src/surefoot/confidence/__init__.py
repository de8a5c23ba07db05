"""Confidence bounds on mean costs, one per file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.confidence.base import Confidence
from surefoot.confidence.bernstein import Bernstein
from surefoot.confidence.betting import Betting
from surefoot.confidence.eb_mixture import EBMixture
from surefoot.confidence.hoeffding import Hoeffding
from surefoot.confidence.kl_mixture import KLMixture
from surefoot.confidence.paper import Paper
from surefoot.rules import RuleError, choice, shown

FAMILY: dict[str, type[Confidence]] = {
    bound.name: bound for bound in (Paper, Hoeffding, Bernstein, KLMixture, EBMixture, Betting)
}
"""Every bound, by the name that the option `confidence` knows it by."""

__all__ = ["FAMILY", "Bernstein", "Betting", "Confidence", "EBMixture", "Hoeffding", "KLMixture", "Paper", "resolve"]


def resolve(confidence: str | Mapping[str, Any] | Confidence) -> Confidence:
    """The bound given by the option `confidence`: a bound, its name, or its name and parameters.

    Examples
    --------
    >>> resolve("betting")
    Betting(sides='both', bets=20, nodes=65)
    >>> resolve({"name": "hoeffding", "sides": "upper"})
    Hoeffding(sides='upper')
    >>> resolve("student")
    Traceback (most recent call last):
    RuleError: confidence must be 'paper' or 'hoeffding' or 'bernstein' or ..., got 'student'
    """
    if isinstance(confidence, Confidence):
        if FAMILY.get(confidence.name) is not type(confidence):  # it would not come back from a saved policy
            raise RuleError("confidence", "be of a class in surefoot.confidence.FAMILY", confidence)
        return confidence
    if not isinstance(confidence, Mapping):
        return FAMILY[choice("confidence", confidence, tuple(FAMILY))]()
    name = choice("confidence.name", confidence.get("name"), tuple(FAMILY))
    known = FAMILY[name]().parameters()
    parameters = {key: value for key, value in confidence.items() if key != "name"}
    if not set(parameters) <= set(known):
        allowed = ", ".join(["name", *known])
        received = shown(sorted(map(str, confidence)))
        raise RuleError("confidence", f"have no keys but {allowed}", confidence, received)
    return FAMILY[name](**parameters)
