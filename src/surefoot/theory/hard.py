"""Hard guardrails: the bounds for SOLB as in the paper; those of the presets that follow the leader: `leader.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from surefoot.policies.rates import comparators_log, halving_log, learning_rate_cap, theory_rate, weighted_rate
from surefoot.rules import number
from surefoot.theory.descent import Descent, cost_log, most_played_loss, moving, printed_descent, settled
from surefoot.theory.instance import AMOUNT, Bound, Instance
from surefoot.theory.soft import enough_rounds

FROM_COUNTS = math.e / (math.e - 1.0)
"""A sum of conditional means is at most this times the sum of the outcomes, in [0, 1], plus ln(1 / delta).

For E exp(-Y) <= exp(-(1 - 1/e) E Y), the chord of exp(-y) over [0, 1]."""

Condition = tuple[str, bool]


def lemma_3(instance: Instance, *, heavy_rounds: float | None = None) -> Bound:
    """Safety regret of SOLB, with the constants of the paper.

    Parameters
    ----------
    instance
        What it is about.
    heavy_rounds
        Number of rounds in which the safe strategy had more than half of the weight, if measured; else the most there
        can be.

    Notes
    -----
    "light rounds", with a safe weight of at most 1/2: the root of the sum of its squares, at most
    (K / rho) sqrt(768 L + 1024 L^2 + 2) with L = ln(T K m / delta), times the safety complexity.
    "heavy rounds": in each the drawn arm has a radius of at least rho^2 / 8 with probability rho^2 / 24 or more, and
    that can happen K (1 + 256 L / rho^4) times. The paper takes the expected for the actual number; to go from one to
    the other costs a factor of e / (e - 1) and another delta.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Lemma 3.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> {term: f"{value:.2g}" for term, value in lemma_3(instance).terms.items()}
    {'light rounds': '1.5e+05', 'heavy rounds': '9.2e+08'}
    """
    n_arms, margin, log = instance.n_arms, instance.known("margin"), cost_log(instance)
    if heavy_rounds is None:
        wide = n_arms * (1 + 256 * log / margin**4)
        heavy = 24 / margin**2 * FROM_COUNTS * (wide - math.log(instance.delta))
    else:
        heavy = float(number("heavy_rounds", heavy_rounds, AMOUNT))
    weights = n_arms / margin * math.sqrt(768 * log + 1024 * log**2 + 2)
    terms = {"light rounds": weights * instance.safety_complexity, "heavy rounds": heavy}
    events, conditions = 3 if heavy_rounds is None else 2, (wide_margin(instance),)
    return safety_bound(instance, "Lemma 3: safety regret", terms, events, conditions)


def lemma_3_sharp(instance: Instance) -> Bound:
    """Safety regret of SOLB with either estimator, in one term and for any margin.

    Parameters
    ----------
    instance
        What it is about.

    Notes
    -----
    While the cost estimates are within their radii: let the guardrail that asks for the safe weight exceed its
    threshold by d, pessimistically, and the safe strategy stay r >= rho below. The safe weight is d / (d + r), that
    of the proposal r / (d + r), and d <= 2 beta^T x~ + K / T. By Jensen's inequality, where the paper has that of
    Cauchy and Schwarz, (beta^T x~)^2 <= 4 L sum of x~ / max(1, N), and x~ <= x (d + r) / r. So in every round the
    squared safe weight is at most 32 L / rho^2 times the sum of x / max(1, N), plus 2 (K / (T rho))^2. These sums are
    conditional means of 1 / max(1, N) of the drawn arm, together at most M = e / (e - 1) (K (2 + ln T) + ln(1 /
    delta)), but for probability delta. "mixing" is sqrt(32 L M + 2 K^2 / T) / rho times the safety complexity.

    The proposal has a small weight only where d is large, and then the radii are wide. That spares the count of heavy
    rounds and the paper's condition on the margin: sqrt(K) / rho in place of K / rho, and nothing in place of
    K / rho^6.

    References
    ----------
    Our own, after Lemma 3 of "Data-Dependent Regret Bounds for Constrained MABs"; proved in
    docs/theory/weighted-estimator.md.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> {term: round(value) for term, value in lemma_3_sharp(instance).terms.items()}
    {'mixing': 13548}
    """
    n_arms, horizon, margin, log = instance.n_arms, instance.horizon, instance.known("margin"), cost_log(instance)
    means = FROM_COUNTS * (n_arms * (2 + math.log(horizon)) - math.log(instance.delta))
    weights = math.sqrt(32 * log * means + 2 * n_arms**2 / horizon) / margin
    terms = {"mixing": weights * instance.safety_complexity}
    return safety_bound(instance, "Lemma 3 sharp: safety regret", terms, events=2)


def safety_bound(
    instance: Instance, name: str, terms: Mapping[str, float], events: int, conditions: tuple[Condition, ...] = ()
) -> Bound:
    """A bound on safety regret. The trivial bound is at most the root of the horizon times the safety complexity."""
    complexity = instance.safety_complexity
    return Bound(
        name,
        "What SOLB loses by mixing in the safe strategy is at most this.",
        terms,
        trivial=min(instance.horizon - instance.benchmark_loss, math.sqrt(instance.horizon) * complexity),
        probability=instance.sure(events),
        conditions=conditions,
    )


def wide_margin(instance: Instance) -> Condition:
    """The condition that the margin is not lost in the truncation."""
    return "margin >= 12 n_arms / horizon", instance.known("margin") >= 12 * instance.n_arms / instance.horizon


def printed_rate(instance: Instance) -> tuple[float, tuple[Condition, ...]]:
    """The learning rate of Theorem 4, or the given one, and the conditions on it."""
    margin = instance.known("margin")
    rate = instance.learning_rate or theory_rate(instance, instance.benchmark_loss, margin)
    capped = rate <= margin * learning_rate_cap(instance.horizon, instance.delta)
    return rate, (enough_rounds(instance), ("learning_rate <= margin / (40 H ln T ln(H / delta))", capped))


def lemma_4(instance: Instance, *, total_loss: float | None = None) -> Bound:
    """Learning regret of SOLB, as printed.

    Parameters
    ----------
    instance
        What it is about; its learning rate is by default that of Theorem 4.
    total_loss
        Total expected loss of what was played (the column `loss` of a run), if measured; else the horizon.

    Notes
    -----
    As Theorem 2, with eta / rho before the losses and rho before what is gained by increasing rates, but the proof
    has a gap. It multiplies the inequality of each round by the weight of the proposal in that round; as these
    weights change, the divergences no longer cancel, and what remains is not accounted for. `weighted` has no such
    gap.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Lemma 4.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> f"{lemma_4(instance).total:.3g}"
    '2.15e+06'
    """
    rate, conditions = printed_rate(instance)
    descent = printed_descent(instance, rate, instance.known("margin"))
    return Bound(
        "Lemma 4: learning regret",
        "What the proposals of SOLB lose, by their weight, against the best safe strategy is at most this.",
        settled(descent, instance.benchmark_loss, instance.horizon if total_loss is None else total_loss),
        trivial=instance.horizon - instance.benchmark_loss,
        probability=instance.sure(4),
        conditions=conditions,
        gap=True,
    )


def theorem_4(instance: Instance, *, total_loss: float | None = None, heavy_rounds: float | None = None) -> Bound:
    """Regret of SOLB: `lemma_3` and `lemma_4`, solved together for the total loss, R + L*.

    Parameters
    ----------
    instance
        What it is about; its learning rate is by default that of the theorem.
    total_loss, heavy_rounds
        As for the lemmas; but the total loss, if not measured, is the most it can be.

    Notes
    -----
    The gap in the proof of `lemma_4` is a gap here, too. The terms that the paper's O-notation drops are kept.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Theorem 4.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> f"{theorem_4(instance).total:.3g}"
    '9.24e+08'
    """
    rate, conditions = printed_rate(instance)
    descent = printed_descent(instance, rate, instance.known("margin"))
    safety = lemma_3(instance, heavy_rounds=heavy_rounds)
    whole = descent._replace(fixed={**descent.fixed, **safety.terms})
    terms = settled(whole, instance.benchmark_loss, total_loss)
    events = 6 if heavy_rounds is None else 5
    bound = regret_bound(instance, "Theorem 4: SOLB regret", terms, events, (*conditions, *safety.conditions))
    return replace(bound, gap=True)


def weighted(instance: Instance, *, total_loss: float | None = None) -> Bound:
    """Regret of SOLB whose loss estimates are multiplied by the weight of the proposal (`estimator="weighted"`).

    Parameters
    ----------
    instance
        What it is about; its learning rate is by default `weighted_rate`.
    total_loss
        Total expected loss of what was played (the column `loss` of a run), if measured; the bound uses it where it
        is less than the most that the proposals can lose.

    Notes
    -----
    Mirror descent on (1 - gamma) times the estimates proves the weighted regret itself, so that nothing has to
    cancel across rounds, and since (1 - gamma) x~ <= x it meets losses of at most 1. Hence no margin in its terms:
    the learning regret is at most C1 / eta + (5/2) eta (2.5 W + 3.5 iota) + 45 eta iota' ln T (L* + K) +
    3 sqrt(W iota) + 2 iota + K, if eta is at most 1 / (40 iota' ln T). W, the sum of (1 - gamma) l^T x~, is what the
    proposals lose by their weight. It is at most the learning regret plus L*, which makes this a quadratic in
    sqrt(W), and at most what is played loses. iota is `halving_log`, iota' the same for all vertices of the safe set
    at once, of which there are at most C(K + m, m + 1): the bound holds against adaptive adversaries. To this add
    `lemma_3_sharp`, the only term with the margin.

    References
    ----------
    Our own, proved in docs/theory/weighted-estimator.md; it answers the question whether bandit complexity has to be
    divided by the margin.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> f"{weighted(instance).total:.3g}"
    '1.41e+05'
    """
    iota, union_log, loss = halving_log(instance), comparators_log(instance), instance.benchmark_loss
    rate = instance.learning_rate or weighted_rate(instance, loss)
    fixed = {
        "moving": moving(instance) / rate,
        "variance": 2.5 * rate * 3.5 * iota,
        "estimation": 45 * rate * union_log * (loss + instance.n_arms),
        "sampling": 2 * iota,
        "truncation": float(instance.n_arms),
    }
    descent = Descent(fixed, slope=2.5 * rate * 2.5, root=3 * math.sqrt(iota))
    if total_loss is not None:
        total_loss = min(float(number("total_loss", total_loss, AMOUNT)), most_played_loss(descent, loss))
    capped = rate <= 1 / (40 * union_log)
    return regret_bound(
        instance,
        "Weighted: SOLB regret",
        {**settled(descent, loss, total_loss), **lemma_3_sharp(instance).terms},
        5,
        (enough_rounds(instance), ("learning_rate <= 1 / (40 iota' ln T)", capped)),
    )


def regret_bound(
    instance: Instance, name: str, terms: Mapping[str, float], events: int, conditions: tuple[Condition, ...]
) -> Bound:
    """A bound on safety regret and learning regret together."""
    return Bound(
        name,
        "The regret of SOLB, against the best safe strategy in hindsight, is at most this.",
        terms,
        trivial=instance.horizon - instance.benchmark_loss,
        probability=instance.sure(events),
        conditions=conditions,
    )


def corollary(instance: Instance) -> Bound:
    """Mean regret of SOLB on all losses with this L* and gap, or less: `theorem_4` at delta = 1 / T, plus 6.

    The delta of the instance is not used: the policy is to be run with delta = 1 / T. It then fails to keep the bound
    with a probability of at most 6 / T, and loses at most T if it does.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", the corollary on constrained small-loss balls, for which
    L* = omega T, and the safety complexity is Delta sqrt(T).

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> f"{corollary(instance).total:.3g}"
    '1.34e+09'
    """
    bound = theorem_4(instance.changed(delta=1 / instance.horizon))
    return Bound(
        "Corollary: SOLB mean regret",
        "The mean regret of SOLB run with delta = 1 / T is at most this.",
        {**bound.terms, "failure": 6.0},
        trivial=bound.trivial,
        probability=None,
        conditions=bound.conditions,
        gap=True,
    )
