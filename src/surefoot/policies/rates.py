"""Learning rates: the theorems' values, a practical one, and one that needs no benchmark loss."""

import math
import warnings
from collections.abc import Callable

from surefoot.problem import Problem, shown

FASTEST = 0.5
"""The most a practical rate may be, and where the doubling trick starts."""


class Motionless(UserWarning):
    """A learning rate with which the strategy hardly moves within the horizon."""


def learning_rate_cap(horizon: float, delta: float) -> float:
    """The largest rate the theorems allow: 1 / (40 H ln T ln(H / delta)), H = ln(ceil(ln T) ceil(3 ln T) / delta).

    Examples
    --------
    >>> f"{learning_rate_cap(10_000, 0.05):.2g}"
    '6.1e-05'
    """
    log = math.log(horizon)
    peeling = math.log(math.ceil(log) * math.ceil(3 * log)) - math.log(delta)
    return 1.0 / (40.0 * peeling * log * (math.log(peeling) - math.log(delta)))


def peeled_log(horizon: float, delta: float, n_comparators: int = 1) -> float:
    """ln(J n / delta), J = ceil(log2(2 T)) + 2: the price of Freedman's inequality at an unknown variance and range.

    For n comparators at once. The inequality is proved in docs/theory/weighted-estimator.md.
    """
    return math.log((math.ceil(math.log2(2 * horizon)) + 2) * n_comparators) - math.log(delta)


def weighted_rate_cap(n_arms: int, n_constraints: int, horizon: float, delta: float) -> float:
    """The largest rate the theorem on weighted estimates allows: 1 / (40 ln T iota), iota by `peeled_log`.

    The comparators are the vertices of the safe set, at most (K + m choose m + 1).

    Examples
    --------
    >>> f"{weighted_rate_cap(5, 1, 10_000, 0.05):.2g}"
    '0.00032'
    """
    iota = peeled_log(horizon, delta, math.comb(n_arms + n_constraints, n_constraints + 1))
    return 1.0 / (40.0 * math.log(horizon) * iota)


def balanced_rate(cap: float, n_arms: int, budget: float) -> float:
    """sqrt(K / budget), if that is below the cap."""
    return min(cap, math.sqrt(n_arms / budget)) if budget > 0.0 else cap


def theory_rate(problem: Problem, benchmark_loss: float, margin: float = 1.0, horizon: float | None = None) -> float:
    """The rate of Theorem 2 (margin 1) and Theorem 4 (margin rho): the cap, or sqrt(K / (L* ln(1 / delta))) if less."""
    cap = margin * learning_rate_cap(horizon or problem.horizon, problem.delta)
    return balanced_rate(cap, problem.n_arms, benchmark_loss * -math.log(problem.delta))


def weighted_rate(problem: Problem, benchmark_loss: float, horizon: float | None = None) -> float:
    """The rate for weighted loss estimates: as `theory_rate`, under a cap that knows no margin."""
    cap = weighted_rate_cap(problem.n_arms, problem.n_constraints, horizon or problem.horizon, problem.delta)
    return balanced_rate(cap, problem.n_arms, benchmark_loss * -math.log(problem.delta))


def practical_rate(problem: Problem, benchmark_loss: float, horizon: float | None = None) -> float:
    """The rate that balances the two terms of the regret without the constants of the proof: sqrt(K ln T / L*).

    It is at most 1/2.
    """
    return balanced_rate(FASTEST, problem.n_arms, benchmark_loss / math.log(horizon or problem.horizon))


def doubling_allowance(learning_rate: float | str, problem: Problem) -> float:
    """What base_rate^2 * spent may come to before a restart at half the rate: K ln T for "doubling", else infinity."""
    return problem.n_arms * math.log(problem.horizon) if learning_rate == "doubling" else math.inf


def resolve_rate(
    learning_rate: float | str,
    problem: Problem,
    benchmark_loss: float | None,
    margin: float = 1.0,
    weighted: bool = False,
) -> float:
    """The number behind a `learning_rate` option, itself or what its name stands for; a warning if it moves nothing."""
    if benchmark_loss is not None and benchmark_loss > problem.horizon:
        raise ValueError(f"benchmark_loss must be at most horizon = {problem.horizon}, got {shown(benchmark_loss)}")

    def loss(horizon: float) -> float:
        return horizon if benchmark_loss is None else benchmark_loss  # by default its worst case

    def rate_at(horizon: float) -> float:
        match learning_rate:
            case "theory" if weighted:
                return weighted_rate(problem, loss(horizon), horizon)
            case "theory":
                return theory_rate(problem, loss(horizon), margin, horizon)
            case "practical":
                return practical_rate(problem, loss(horizon), horizon)
            case "doubling":
                return FASTEST
            case str():
                raise ValueError(
                    f"learning_rate must be a number, 'theory', 'practical' or 'doubling', got {shown(learning_rate)}"
                )
        return float(learning_rate)

    rate = rate_at(problem.horizon)
    if moves_after(problem.n_arms, problem.horizon, rate) > problem.horizon:
        needed = shortest_moving(problem.n_arms, problem.horizon, rate_at)
        warnings.warn(
            f"learning_rate = {shown(learning_rate)} ({rate:.2g}) leaves the strategy all but motionless for "
            f"{problem.horizon:,} rounds: it would need about {needed:.2g}",
            Motionless,
            stacklevel=2,
        )
    return rate


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
