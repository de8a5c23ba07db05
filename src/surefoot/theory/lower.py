"""What no policy that is safe on all problems can avoid."""

from __future__ import annotations

import math

from surefoot.theory.instance import Bound, Instance


def theorem_5(instance: Instance) -> Bound:
    """The larger of the mean regrets on the instances nu_2 and nu_3, of any policy that is safe on nu_1.

    It is at least half of sqrt(omega (1 - omega) T) / 16 + Delta sqrt(T) / (96 rho). Here omega = L* / T and Delta,
    the gap, are the parameters of the scenario `lower-bound-v1`: its mean losses and gap are half of these, which
    is within the small-loss ball of the `corollary`.

    Notes
    -----
    Corrected against the paper: 96 for 48; K >= 3, which the construction needs; delta <= 0.39; Delta not below the
    difference of the good arms; rho at least epsilon = 1 / (6 sqrt(T)). The lower limits of omega and T are needed
    only to find a fixed sequence of losses in the ball; the bound on nu_2 and nu_3 holds without.

    The proof takes expectations under nu_4 for those under nu_2 and nu_3, and bits for nats. Done with care the
    1/16 survives: nu_4 differs from nu_2 in one arm and from nu_3 in the other, so their total variations sum to at
    most 1/4, and (psi / 2) T (1 - 3/2 * 1/4) = 0.078 sqrt(omega (1 - omega) T).

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Theorem 5 and its proof.

    Examples
    --------
    >>> instance = Instance(3, 1, 10_000, 0.05, margin=0.2, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> round(theorem_5(instance).total, 2)
    1.46
    """
    horizon, omega, gap, margin = instance.horizon, instance.omega, instance.known("gap"), instance.known("margin")
    root, log = math.sqrt(horizon), math.log(horizon)
    spread = math.sqrt(omega * (1 - omega))
    return Bound(
        "Theorem 5: any safe policy",
        "On one of two instances the mean regret of any policy that is safe on a third is at least this.",
        {"bandit": spread * root / 32, "safety": gap * root / (192 * margin)},
        trivial=0.0,
        probability=None,
        conditions=(
            ("n_arms >= 3", instance.n_arms >= 3),
            *of_the_family(instance),
            ("delta <= 0.39", instance.delta <= 0.39),
            ("gap >= sqrt(omega (1 - omega) / T) / 4", gap >= spread / (4 * root)),
            ("margin >= 1 / (6 sqrt(T))", margin >= 1 / (6 * root)),
            ("margin < 1/2", margin < 0.5),
            ("omega > (64/9) (11/2 + ln T) / T", omega > 64 / 9 * (5.5 + log) / horizon),
            ("omega < 1/2", omega < 0.5),
            ("T >= (64/9) (11 + 2 ln T)", horizon >= 64 / 9 * (11 + 2 * log)),
        ),
        lower=True,
    )


def safe_arm_rounds(instance: Instance) -> Bound:
    """How many rounds, in the mean, any policy that is safe on nu_1 gives to the safe arm on nu_2, nu_3 and nu_4.

    It is (0.646 - delta) T epsilon / (epsilon + rho) with epsilon = 1 / (6 sqrt(T)): on nu_1 the share of the safe
    arm must be epsilon / (epsilon + rho), and what happens in T rounds differs between the instances by at most
    sqrt(1/8) < 0.354 in probability.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", proof of Theorem 5.

    Examples
    --------
    >>> instance = Instance(3, 1, 10_000, 0.05, margin=0.2, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> round(safe_arm_rounds(instance).total, 1)
    49.3
    """
    margin = instance.known("margin")
    above = 1 / (6 * math.sqrt(instance.horizon))
    return Bound(
        "Theorem 5: safe arm's rounds",
        "The safe arm is played in at least so many rounds by any policy that is safe on a similar instance.",
        {"rounds": (0.646 - instance.delta) * instance.horizon * above / (above + margin)},
        trivial=0.0,
        probability=None,
        conditions=(
            ("n_arms >= 3", instance.n_arms >= 3),
            *of_the_family(instance),
            ("delta < 0.646", instance.delta < 0.646),
            ("margin < 1/2", margin < 0.5),
        ),
        lower=True,
    )


def of_the_family(instance: Instance) -> tuple[tuple[str, bool], ...]:
    """What the instances nu_1 to nu_4 have in common: a guardrail, and a threshold of 1/2."""
    return ("n_constraints >= 1", instance.n_constraints >= 1), ("threshold = 1/2", instance.threshold == 0.5)
