"""What the regret of mirror descent is made of, with all constants.

Every regret bound here has the form R <= fixed + slope V + root sqrt(V), where V = R + L* is the total expected loss
of what was played. Solved for V it gives the bound; `Descent` keeps the pieces apart. Where R is the learning regret
of SOLB alone, R + L* is no less than what its proposals lose by their weight, and takes the place of V.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from surefoot.policies.rates import Sizes, peeled_log
from surefoot.rules import number
from surefoot.theory.instance import AMOUNT, Instance


class Descent(NamedTuple):
    """R <= sum of `fixed` + `slope` V + `root` sqrt(V)."""

    fixed: Mapping[str, float]
    slope: float
    root: float


def most_played_loss(descent: Descent, benchmark_loss: float) -> float:
    """The largest V with V - L* <= fixed + slope V + root sqrt(V); infinite if the slope is 1 or more.

    Examples
    --------
    >>> most_played_loss(Descent({"one": 4.0}, slope=0.5, root=1.0), benchmark_loss=8.0)
    36.0
    """
    left = 1.0 - descent.slope
    if left <= 0.0:
        return math.inf
    rest = math.fsum(descent.fixed.values()) + benchmark_loss
    side = (descent.root + math.sqrt(descent.root**2 + 4.0 * left * rest)) / (2.0 * left)
    return side * side


def settled(descent: Descent, benchmark_loss: float, total_loss: float | None) -> dict[str, float]:
    """The terms of the bound on R at the V that was measured or, without one, at its largest."""
    if total_loss is None:
        loss = most_played_loss(descent, benchmark_loss)
    else:
        loss = float(number("total_loss", total_loss, AMOUNT))
    terms = dict(descent.fixed)
    terms["variance"] += descent.slope * loss
    terms["sampling"] += descent.root * math.sqrt(loss)
    return terms


def cost_log(instance: Instance) -> float:
    """ln(T K m / delta), of the union bound over all costs; 0 if there are none."""
    if not instance.n_constraints:
        return 0.0
    counted = math.log(instance.horizon) + math.log(instance.n_arms) + math.log(instance.n_constraints)
    return counted - math.log(instance.delta)


def sampling_log(instance: Instance) -> float:
    """ln(2 ceil(log2 T) / delta), of Freedman's inequality for what the policy itself loses."""
    return math.log(2 * math.ceil(math.log2(instance.horizon))) - math.log(instance.delta)


def moving(instance: Sizes) -> float:
    """The price of moving from the first proposal to the benchmark, times the learning rate.

    The divergence from the uniform strategy costs K ln(T / K). Each arm's last increase of its rate gives back
    h u / 10 ln T but for (ln T + 1) / 5 ln T; arms without one are counted in by another K / 5 ln T.
    """
    n_arms, log = instance.n_arms, math.log(instance.horizon)
    return n_arms * (log - math.log(n_arms)) + n_arms * (log + 1) / (5 * log) + n_arms / (5 * log)


def printed_descent(instance: Instance, rate: float, margin: float = 1.0) -> Descent:
    """The regret of the proposals as in Theorem 2 (margin 1) and Lemma 4 (margin rho).

    Terms: "moving"; "variance", 5 rate / margin times the sum of the losses met, which is at most 2 V + 2 iota;
    "estimation" of the benchmark's loss; "sampling", 2 sqrt(V iota) + iota; "truncation" to shares of at least 1 / T.
    """
    n_arms, log = instance.n_arms, math.log(instance.horizon)
    iota, peeled = sampling_log(instance), peeled_log(instance)
    twice = math.log(peeled) - math.log(instance.delta)
    comparator_loss = instance.benchmark_loss + n_arms
    fixed = {
        "moving": moving(instance) / rate,
        "variance": 10 * rate / margin * iota,
        "estimation": 40 * peeled**2 * rate * log * twice * comparator_loss / margin,
        "sampling": iota,
        "truncation": float(n_arms),
    }
    return Descent(fixed, slope=10 * rate / margin, root=2 * math.sqrt(iota))
