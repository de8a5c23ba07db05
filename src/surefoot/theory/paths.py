"""What the proofs say about every path, or every path on which the clean event holds: right side minus left side.

Each function returns its smallest slack; it is negative where the statement fails. `feed` is what mirror descent was
given: the loss estimates, or for the weighted estimator (1 - gamma) times them. Symbols are those of the paper, u is a
comparator in the truncated simplex.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from surefoot.analysis.clean import truncated
from surefoot.policies.rates import Sized
from surefoot.rules import Floats, RuleError
from surefoot.theory.descent import moving
from surefoot.theory.trace import Trace

TOLERANCE = 1e-9
"""Rounding, relative to the largest term."""


def divergences(rates: Floats, u: Floats, x: Floats) -> Floats:
    """D(u, x) of the log-barrier, round by round: rates and x are (T, K)."""
    ratios = u / x
    return np.asarray(((ratios - 1.0 - np.log(ratios)) / rates).sum(axis=1))


def in_safe_sets(trace: Trace, u: Floats) -> Floats:
    """Whether u is in the truncated safe set that each step projects onto, (T,) of booleans."""
    return np.asarray((trace.lower[1:] @ u <= trace.problem.limits + 1e-12).all(axis=1))


def step_slack(trace: Trace, feed: Floats, u: Floats) -> float:
    """One step of mirror descent, for every u in its safe set: feed^T (x~_t - u) <= D(u, x~_t) - D(u, x~_{t+1}) + rest.

    The rest is eta (x~ feed)^2 / 2 at the played arm: the largest value of z (x - y) - D(y, x) over y is
    (s - ln(1 + s)) / eta with s = eta z x, and for s >= 0 that is at most s^2 / (2 eta). The paper has twice as much.
    Steps that are restarts, or left no safe set, are left out.
    """
    rates, here = trace.rates[:-1], trace.of_arms(trace.proposals)
    before, after = divergences(rates, u, trace.proposals[:-1]), divergences(rates, u, trace.proposals[1:])
    rest = 0.5 * trace.of_arms(rates) * (here * feed) ** 2
    left = feed * (here - u[trace.arms])
    slack = (before - after + rest - left) / np.maximum(1.0, np.maximum(before, after))
    usual = in_safe_sets(trace, u) & (trace.base_rates[1:] == trace.base_rates[:-1])
    return float(slack[usual].min(initial=math.inf))


def descent_terms(trace: Trace, feed: Floats, u: Floats, weights: Floats | float = 1.0) -> tuple[float, float]:
    """Both sides of Lemma 5: sum of weights feed^T (x~_t - u), and what bounds it if u is in every safe set.

    Right: C1 / eta (`moving`) + sum of weights eta_t (x~ feed)^2 / 2 - least weight * h^T u / (10 eta ln T). With
    weights other than 1 this is the step of Lemma 4 that does not follow: weighted differences of divergences do not
    telescope.
    """
    here, eta = trace.of_arms(trace.proposals), float(trace.base_rates[0])
    left = float((weights * feed * (here - u[trace.arms])).sum())
    squares = float((weights * 0.5 * trace.of_arms(trace.rates) * (here * feed) ** 2).sum())
    kept = float(np.min(weights)) * float(trace.caps[-1] @ u) / (10.0 * eta * math.log(trace.problem.rounds))
    sizes = Sized(trace.problem.n_arms, trace.problem.n_constraints, trace.problem.rounds, trace.problem.delta)
    return left, moving(sizes) / eta + squares - kept


def descent_slack(trace: Trace, feed: Floats, u: Floats, weights: Floats | float = 1.0) -> float:
    """Lemma 5: the sum over rounds, if u is in every safe set."""
    left, right = descent_terms(trace, feed, u, weights)
    return right - left if in_safe_sets(trace, u).all() else math.inf


def epochs(trace: Trace) -> list[slice]:
    """The rounds of each epoch of the doubling trick that are learnt from; the round that ends an epoch is not."""
    starts = [0, *(np.flatnonzero(np.diff(trace.base_rates)) + 1).tolist()]
    stops = [*(start - 1 for start in starts[1:]), trace.rounds]
    return [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]


def epochs_slack(trace: Trace, feed: Floats, u: Floats) -> float:
    """The doubling trick: Lemma 5 for each epoch, from the analytic centre with which it starts.

    First-order optimality of the centre c gives sum of u/c <= K, so D(u, c) <= K ln T / eta and h^T u <= 4 K at the
    start.
    """
    if not in_safe_sets(trace, u).all():
        return math.inf
    n_arms, log, worst = trace.problem.n_arms, math.log(trace.problem.rounds), math.inf
    here = trace.of_arms(trace.proposals)
    for rounds in epochs(trace):
        eta = trace.base_rates[rounds.start]
        left = float((feed * (here - u[trace.arms]))[rounds].sum())
        squares = 0.5 * float((trace.of_arms(trace.rates) * (here * feed) ** 2)[rounds].sum())
        start = (n_arms * log + n_arms * (log + 1.0) / (5.0 * log) + 4.0 * n_arms / (10.0 * log)) / eta
        kept = float(trace.caps[rounds.stop] @ u) / (10.0 * eta * log)
        worst = min(worst, start + squares - kept - left)
    return worst


def restarts_slack(trace: Trace, feed: Floats) -> float:
    """The doubling trick restarts when base_rate^2 times the sum of (1 - gamma) (x~ feed)^2 has passed K ln T.

    It restarts no earlier: an ended epoch is above; and no later: without its last round, the epoch is not above.
    """
    allowance = trace.problem.n_arms * math.log(trace.problem.rounds)
    squares, worst = trace.weights * (trace.of_arms(trace.proposals) * feed) ** 2, math.inf
    for rounds in epochs(trace):
        rate = float(trace.base_rates[rounds.start])
        worst = min(worst, allowance - rate**2 * float(squares[rounds].sum()))
        if rounds.stop < trace.rounds:
            ended = squares[rounds.start : rounds.stop + 1]
            worst = min(worst, rate**2 * float(ended.sum()) - allowance)
    return worst + TOLERANCE * allowance


def caps_slack(trace: Trace) -> float:
    """Caps and rates: h >= 1 / x~ of all rounds before in the epoch, h <= 2 T, rates at most e^(1 / ln 2) times eta.

    This holds while no safe set is empty: a proposal drawn at random may lie below every cap.
    """
    above = math.inf
    for rounds in epochs(trace):
        rows = slice(rounds.start, rounds.stop + 1)
        lowest = np.minimum.accumulate(trace.proposals[rows], axis=0)
        above = min(above, float((trace.caps[rows] * lowest - 1.0).min()))
    below = 2.0 - trace.caps.max() / trace.problem.rounds
    growth = math.exp(1.0 / math.log(2.0)) - (trace.rates.max(axis=1) / trace.base_rates).max()
    inside = trace.proposals.min() * trace.problem.rounds - 1.0
    return float(min(above, below, growth, inside)) + TOLERANCE


def mixing_slack(trace: Trace) -> float:
    """The mixture: 0 <= gamma <= max (1 - alpha) / (1 - theta), x >= (1 - gamma) x~, and every guardrail is met at the
    upper bounds, not only the one that asked for most."""  # noqa: D205, D209
    problem = trace.problem
    if problem.safe is None:
        raise RuleError("trace", "be of a problem with a safe strategy", None, "safe=None")
    gamma = trace.safe_weights
    ceiling = ((1.0 - problem.thresholds) / (1.0 - problem.safe.costs)).max(initial=0.0)
    costs = np.minimum(1.0, np.einsum("tia,ta->ti", trace.upper, trace.proposals))
    mixed = gamma[:, None] * problem.safe.costs + (1.0 - gamma[:, None]) * costs
    share = trace.strategies - (1.0 - gamma[:, None]) * trace.proposals
    parts = gamma.min(), ceiling - gamma.max(), (problem.thresholds - mixed).min(initial=math.inf), share.min()
    return float(min(parts)) + TOLERANCE


def violation_slack(trace: Trace) -> float:
    """Theorem 1 on the clean event, round by round: [g^T x_t - alpha]^+ <= K/T + 2 beta_{t-1}^T x_t."""
    violations = trace.strategies @ trace.mean_costs.T - trace.problem.thresholds
    allowed = trace.problem.n_arms * trace.problem.floor + 2.0 * (trace.radii * trace.strategies).sum(axis=1)
    return float((allowed[:, None] - np.maximum(0.0, violations)).min()) + TOLERANCE


def safety_slack(trace: Trace) -> float:
    """Theorem 3 on the clean event: alpha_i - g_i^T x_t in every round."""
    return float((trace.problem.thresholds - trace.strategies @ trace.mean_costs.T).min()) + TOLERANCE


def weight_slack(trace: Trace) -> float:
    """Lemma 3 on the clean event: gamma_{t-1} <= (2 beta_{t-1}^T x~_t + K/T) / rho in every round but the first."""
    problem = trace.problem
    widths = 2.0 * (trace.radii * trace.proposals).sum(axis=1) + problem.n_arms * problem.floor
    return float((widths / problem.margin - trace.safe_weights)[1:].min()) + TOLERANCE


class Martingales(NamedTuple):
    """The two sums of zero mean between regret and what mirror descent pays, and what Freedman's inequality needs."""

    own: float  # sum of w_t (l_t - l^_t)^T x~_t
    own_variance: float  # sum of w_t l_t^T x~_t, at least the sum of conditional variances
    other: float  # sum of w_t (l^_t - l_t)^T u
    other_variance: float  # h^T u times the sum of w_t l_t^T u
    other_range: float  # h^T u


def martingales(trace: Trace, u: Floats) -> Martingales:
    """The terms in the decomposition of learning regret; w_t = 1 - gamma_{t-1}, which is 1 for COLB."""
    weights, estimates = trace.weights, trace.loss_estimates
    own_loss = float((weights * (trace.losses * trace.proposals[:-1]).sum(axis=1)).sum())
    other_loss = float((weights * (trace.losses @ u)).sum())
    reach = float(trace.caps[-1] @ u)
    return Martingales(
        own=own_loss - float((weights * estimates * trace.of_arms(trace.proposals)).sum()),
        own_variance=own_loss,
        other=float((weights * estimates * u[trace.arms]).sum()) - other_loss,
        other_variance=reach * other_loss,
        other_range=reach,
    )


def freedman(variance: float, largest: float, iota: float) -> float:
    """3 sqrt(V iota) + 2 B iota: Freedman's inequality with variance and range that are only known afterwards."""
    return 3.0 * math.sqrt(variance * iota) + 2.0 * largest * iota


def feed_slack(trace: Trace) -> float:
    """What makes weighted estimates work, in every round: w x~ l^ <= l, and w l^ u <= u / x~ <= h u."""
    here, weights = trace.of_arms(trace.proposals), trace.weights
    feed = weights * trace.loss_estimates
    first = (trace.of_arms(trace.losses) - here * feed).min()
    second = (trace.of_arms(trace.caps) - feed).min()
    return float(min(first, second)) + TOLERANCE


def squared_weight_slack(trace: Trace) -> float:
    """Ours, on the clean event: gamma_{t-1}^2 <= (8 sum of beta_{t-1}^2 x_t + 2 (K/T)^2) / rho^2 in every round."""
    problem = trace.problem
    widths = 8.0 * (trace.radii**2 * trace.strategies).sum(axis=1) + 2.0 * (problem.n_arms * problem.floor) ** 2
    return float((widths / problem.margin**2 - trace.safe_weights**2).min()) + TOLERANCE


def truncated_benchmark(trace: Trace) -> Floats:
    """The comparator of the proofs: (1 - K/T) x* + 1/T."""
    return truncated(trace.benchmark, trace.problem)


def truncation_cost(trace: Trace, u: Floats) -> float:
    """What the comparator loses beyond the benchmark: at most K."""
    return float((trace.losses @ (u - trace.benchmark)).sum())
