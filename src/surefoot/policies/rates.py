"""Learning rates: the theorems' values, a practical one, and one that needs no benchmark loss."""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol

from surefoot.problem import Problem
from surefoot.rules import Range, RuleError, shown

RATE = Range(1e-12, 1e6)
BENCHMARK_LOSS = Range(0)

FASTEST = 0.5
"""The most a practical rate may be, and where the doubling trick starts."""


class Sizes(Protocol):
    """The numbers that a rate depends on; every `Problem` has them."""

    @property
    def n_arms(self) -> int:
        """Number of arms (K)."""

    @property
    def n_constraints(self) -> int:
        """Number of guardrails (m)."""

    @property
    def horizon(self) -> float:
        """Number of rounds (T)."""

    @property
    def delta(self) -> float:
        """Probability of failure."""


class Sized(NamedTuple):
    """Sizes alone, with a horizon that may be longer than any problem's."""

    n_arms: int
    n_constraints: int
    horizon: float
    delta: float


class Motionless(UserWarning):
    """A learning rate with which the strategy hardly moves within the horizon."""


def learning_rate_cap(horizon: float, delta: float) -> float:
    """The largest rate the theorems allow: 1 / (40 H ln T ln(H / delta)), H = ln(ceil(ln T) ceil(3 ln T) / delta).

    Examples
    --------
    >>> f"{learning_rate_cap(10_000, 0.05):.2g}"
    '6.1e-05'
    """
    peeled = peeled_log(Sized(1, 0, horizon, delta))
    return 1.0 / (40.0 * peeled * math.log(horizon) * (math.log(peeled) - math.log(delta)))


def peeled_log(sizes: Sizes) -> float:
    """ln(ceil(ln T) ceil(3 ln T) / delta), which the paper calls H."""
    log = math.log(sizes.horizon)
    return math.log(math.ceil(log) * math.ceil(3 * log)) - math.log(sizes.delta)


def halving_log(sizes: Sizes, log_union: float = 0.0) -> float:
    """ln((ceil(log2(2 T)) + 2) / delta): the price of Freedman's inequality at a variance and range not known before.

    Let X_t be martingale differences with X_t <= B_t, predictable and in [1, 2 T], whose conditional variances sum
    to V, at most 4 T^2 log. Since exp(y) <= 1 + y + y^2 for y <= 1, the sum of X_t is at most s V + log / s for all
    s of the grid 1, 1/2, 1/4, ... that are at most 1 / max B_t, with probability 1 - delta. The best s, min(1 / B,
    sqrt(log / V)), is on the grid up to a factor of 2:

        sum of X_t <= 3 sqrt(V log) + 2 B log.

    `log_union` is the logarithm of the number of sums for which this is to hold at once.
    """
    return math.log(math.ceil(math.log2(2 * sizes.horizon)) + 2) + log_union - math.log(sizes.delta)


def log_vertices(sizes: Sizes) -> float:
    """The logarithm of C(K + m, m + 1), the most vertices that a safe set can have."""
    n_arms, n_constraints = sizes.n_arms, sizes.n_constraints
    return math.lgamma(n_arms + n_constraints + 1) - math.lgamma(n_constraints + 2) - math.lgamma(n_arms)


def comparators_log(sizes: Sizes) -> float:
    """The product iota' ln T, iota' being `halving_log` for all vertices at once."""
    return halving_log(sizes, log_vertices(sizes)) * math.log(sizes.horizon)


def balanced_rate(cap: float, n_arms: int, budget: float) -> float:
    """sqrt(K / budget), if that is below the cap."""
    return min(cap, math.sqrt(n_arms / budget)) if budget > 0.0 else cap


def theory_rate(sizes: Sizes, benchmark_loss: float, margin: float = 1.0) -> float:
    """The rate of Theorem 2 (margin 1) and Theorem 4 (margin rho): the cap, or sqrt(K / (L* ln(1 / delta))) if less."""
    cap = margin * learning_rate_cap(sizes.horizon, sizes.delta)
    return balanced_rate(cap, sizes.n_arms, benchmark_loss * -math.log(sizes.delta))


def weighted_rate(sizes: Sizes, benchmark_loss: float) -> float:
    """The rate for weighted estimates: 1 / (40 iota' ln T), or sqrt(K ln T / ((6.25 + 45 iota' ln T) L*)) if less.

    It does not depend on the margin (docs/theory/weighted-estimator.md).

    Examples
    --------
    >>> f"{weighted_rate(Sized(5, 1, 10_000, 0.05), 1_000):.2g}"
    '0.00032'
    """
    union_log = comparators_log(sizes)
    per_rate = (6.25 + 45.0 * union_log) * benchmark_loss / math.log(sizes.horizon)
    return balanced_rate(1.0 / (40.0 * union_log), sizes.n_arms, per_rate)


def practical_rate(sizes: Sizes, benchmark_loss: float) -> float:
    """The rate that balances the two terms of the regret without the constants of the proof: sqrt(K ln T / L*).

    It is at most 1/2.
    """
    return balanced_rate(FASTEST, sizes.n_arms, benchmark_loss / math.log(sizes.horizon))


def doubling_allowance(learning_rate: float | str, problem: Problem) -> float:
    """The largest base_rate^2 * spent before a restart at half the rate: K ln T for "doubling", else infinity."""
    return problem.n_arms * math.log(problem.rounds) if learning_rate == "doubling" else math.inf


class Chosen(NamedTuple):
    """The options that determine a rate."""

    learning_rate: float | str
    n_arms: int
    n_constraints: int
    delta: float
    benchmark_loss: float | None
    margin: float
    weighted: bool

    def at(self, horizon: float) -> float:
        """The rate for a horizon."""
        sizes = Sized(self.n_arms, self.n_constraints, horizon, self.delta)
        loss = horizon if self.benchmark_loss is None else self.benchmark_loss  # by default its worst case
        match self.learning_rate:
            case "theory" if self.weighted:
                return weighted_rate(sizes, loss)
            case "theory":
                return theory_rate(sizes, loss, self.margin)
            case "practical":
                return practical_rate(sizes, loss)
            case "doubling":
                return FASTEST
            case str():
                rule = "be a number, 'theory', 'practical' or 'doubling'"
                raise RuleError("learning_rate", rule, self.learning_rate)
        return float(self.learning_rate)


def resolve_rate(
    learning_rate: float | str,
    problem: Problem,
    benchmark_loss: float | None,
    margin: float = 1.0,
    weighted: bool = False,
) -> float:
    """The rate given by the option `learning_rate`, a number or a name; warns if it is too small to move anything."""
    if benchmark_loss is not None and benchmark_loss > problem.rounds:
        raise RuleError("benchmark_loss", f"be at most horizon = {problem.rounds}", benchmark_loss)

    chosen = Chosen(
        learning_rate, problem.n_arms, problem.n_constraints, problem.delta, benchmark_loss, margin, weighted
    )
    rate = chosen.at(problem.rounds)
    if moves_after(problem.n_arms, problem.rounds, rate) > problem.rounds:
        needed = needed_by(chosen, problem.rounds)
        warnings.warn(
            f"learning_rate = {shown(learning_rate)} ({rate:.2g}) leaves the strategy all but motionless for "
            f"{problem.rounds:,} rounds: it would need about {needed:.2g}",
            Motionless,
            stacklevel=2,
        )
    return rate


@lru_cache(64)  # a simulation makes many policies with the same options
def needed_by(chosen: Chosen, horizon: float) -> float:
    """The shortest horizon at which the rate for it moves the strategy."""
    return shortest_moving(chosen.n_arms, horizon, chosen.at)


def moves_after(n_arms: int, horizon: float, rate: float) -> float:
    """K ln T / eta: how much loss it takes to move the strategy from one end of the simplex to the other."""
    return n_arms * math.log(horizon) / rate


def shortest_moving(n_arms: int, horizon: float, rate_at: Callable[[float], float]) -> float:
    """The shortest horizon, from the given one on, at which K ln T / eta <= T, to two digits.

    Examples
    --------
    >>> f"{shortest_moving(5, 1000, lambda horizon: 1e-3):.2g}"
    '5.5e+04'
    """
    longest = horizon
    while moves_after(n_arms, longest, rate_at(longest)) > longest and longest < 1e30:
        longest *= 2.0
    shortest = longest / 2.0
    while longest / shortest > 1.005:
        middle = math.sqrt(shortest * longest)
        if moves_after(n_arms, middle, rate_at(middle)) > middle:
            shortest = middle
        else:
            longest = middle
    return longest
