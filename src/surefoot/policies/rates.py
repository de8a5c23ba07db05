"""Learning rates."""

import math
from typing import Protocol

from surefoot.problem import Problem, shown


class Sizes(Protocol):
    """What a rate depends on; every `Problem` has it."""

    @property
    def n_arms(self) -> int:
        """Number of arms (K)."""

    @property
    def horizon(self) -> float:
        """Number of rounds (T)."""

    @property
    def delta(self) -> float:
        """Probability of failure."""


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


def theory_rate(problem: Sizes, benchmark_loss: float, margin: float = 1.0) -> float:
    """The rate of Theorem 2 (margin 1) and Theorem 4 (margin rho): the cap, or sqrt(K / (L* ln(1 / delta))) if less."""
    cap = margin * learning_rate_cap(problem.horizon, problem.delta)
    budget = benchmark_loss * -math.log(problem.delta)
    return min(cap, math.sqrt(problem.n_arms / budget)) if budget > 0.0 else cap


def practical_rate(problem: Problem, benchmark_loss: float) -> float:
    """The rate that balances the two terms of the regret without the constants of the proof: sqrt(K ln T / L*).

    It is at most 1/2.
    """
    budget = problem.n_arms * math.log(problem.horizon)
    return min(0.5, math.sqrt(budget / benchmark_loss)) if benchmark_loss > 0.0 else 0.5


def resolve_rate(
    learning_rate: float | str, problem: Problem, benchmark_loss: float | None, margin: float = 1.0
) -> float:
    """The number behind a `learning_rate` option: itself, or what its name stands for."""
    if benchmark_loss is None:
        benchmark_loss = float(problem.horizon)  # its worst case
    elif benchmark_loss > problem.horizon:
        raise ValueError(f"benchmark_loss must be at most horizon = {problem.horizon}, got {shown(benchmark_loss)}")
    if isinstance(learning_rate, str):
        if learning_rate == "practical":
            return practical_rate(problem, float(benchmark_loss))
        if learning_rate == "theory":
            return theory_rate(problem, float(benchmark_loss), margin)
        raise ValueError(f"learning_rate must be a number, 'theory' or 'practical', got {shown(learning_rate)}")
    return learning_rate
