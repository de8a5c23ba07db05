"""Soft guardrails: the bounds for cost estimates and for COLB."""

from __future__ import annotations

import math

from surefoot.policies.rates import learning_rate_cap, theory_rate
from surefoot.rules import number
from surefoot.theory.descent import cost_log, printed_descent, settled
from surefoot.theory.instance import AMOUNT, Bound, Instance


def radius(instance: Instance, observations: float | None = None) -> Bound:
    """How far the mean of so many observed costs can be from the truth (Lemma 1's beta).

    Parameters
    ----------
    instance
        What it is about.
    observations
        Number of times the arm was played; by default an even share of the horizon.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Lemma 1.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> round(radius(instance, 1_000).total, 3)
    0.235
    """
    if observations is None:
        count = instance.horizon / instance.n_arms
    else:
        count = float(number("observations", observations, AMOUNT))
    width = min(1.0, math.sqrt(4 * cost_log(instance) / max(1.0, count))) if count else 1.0
    return Bound(
        "Lemma 1: cost radius",
        "Every mean of observed costs, of every arm at every time, is this close to its expectation.",
        {"radius": width},
        trivial=1.0,
        probability=instance.sure(1),
    )


def theorem_1(instance: Instance, *, sum_of_radii: float | None = None) -> Bound:
    """Violation of COLB: K + 12 sqrt(K T ln(T K m / delta)) + 2 sqrt(2 T ln(1 / delta)).

    Parameters
    ----------
    instance
        What it is about.
    sum_of_radii
        The sum over rounds of beta_{t-1}^T x_t, if measured. The violation is then at most K plus twice that, with
        probability 1 - delta.

    Notes
    -----
    In a round it is at most K / T + 2 beta_{t-1}^T x_t whenever the cost estimates are within their radii. Azuma's
    inequality goes from x_t to the arm drawn, and the radii of an arm played N times sum to at most
    3 sqrt(4 N ln(T K m / delta)). The last display of the proof has lost a factor of 2, which is back here.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Theorem 1.

    Examples
    --------
    >>> instance = Instance(5, 1, 10**8, 0.05, margin=0.3, benchmark_loss=10**7, gap=0.2, threshold=0.5)
    >>> bound = theorem_1(instance)
    >>> round(bound.total), bound.says_something
    (1336540, True)
    >>> theorem_1(instance, sum_of_radii=10_000.0).total
    20005.0
    """
    n_arms, horizon = instance.n_arms, instance.horizon
    if sum_of_radii is None:
        terms = {
            "radii": 12 * math.sqrt(n_arms * horizon * cost_log(instance)),
            "sampling": 2 * math.sqrt(-2 * horizon * math.log(instance.delta)),
            "truncation": float(n_arms),
        }
    else:
        terms = {"radii": 2 * float(number("sum_of_radii", sum_of_radii, AMOUNT)), "truncation": float(n_arms)}
    return Bound(
        "Theorem 1: COLB violation",
        "What COLB exceeds any one threshold by, summed over the rounds in which it does, is at most this.",
        terms,
        trivial=horizon * (1.0 - instance.threshold),
        probability=instance.sure(2 if sum_of_radii is None else 1),
    )


def theorem_2(instance: Instance, *, total_loss: float | None = None) -> Bound:
    """Regret of COLB.

    Parameters
    ----------
    instance
        What it is about; its learning rate is by default that of the theorem.
    total_loss
        Total expected loss of what was played (the column `loss` of a run), if measured; else the most it can be.

    Notes
    -----
    With y^2 the total loss, R + L*, the proof comes to (1 - 10 eta) y^2 - 2 sqrt(iota) y <= A + L*, solved for y; see
    `descent`. What is added to the paper: constants; the terms that its O-notation drops; 40 where it has 160, which
    is what the inequality of the means gives. Its 5 eta before the sum of losses is kept; 5/2 eta would do, since a
    step of the log-barrier gains (s - ln(1 + s)) / eta <= s^2 / 2 eta with s = eta times the loss met, and no rate
    grows beyond 4.24 times the first.

    The inequality for the benchmark's estimate, with H inside and out, follows from that of `halving_log` as soon
    as ln(H / delta) >= 1, so from T = 8 on. It needs a fixed benchmark: losses that were fixed in advance. Against an
    adaptive adversary, delta is to be divided by the number of vertices of the safe set there.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Theorem 2.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> bound = theorem_2(instance)
    >>> f"{bound.total:.3g}", bound.trivial, max(bound.terms, key=bound.terms.get)
    ('6.56e+05', 9000.0, 'moving')
    """
    rate = instance.learning_rate or theory_rate(instance, instance.benchmark_loss)
    return Bound(
        "Theorem 2: COLB regret",
        "The regret of COLB, against the best safe strategy in hindsight, is at most this.",
        settled(printed_descent(instance, rate), instance.benchmark_loss, total_loss),
        trivial=instance.horizon - instance.benchmark_loss,
        probability=instance.sure(4),
        conditions=(
            enough_rounds(instance),
            (
                "learning_rate <= 1 / (40 H ln T ln(H / delta))",
                rate <= learning_rate_cap(instance.horizon, instance.delta),
            ),
        ),
    )


def enough_rounds(instance: Instance) -> tuple[str, bool]:
    """The condition that shares of at least 1 / T leave room to move."""
    return "horizon > n_arms", instance.horizon > instance.n_arms
