"""Hard guardrails: the bounds for the presets "guaranteed" and "led" of SOLB, and for variants that are no preset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from surefoot.policies.led import FOLLOWER_SHARE, usual_share
from surefoot.rules import number
from surefoot.theory.instance import AMOUNT, Bound, Instance
from surefoot.theory.soft import enough_rounds

MOST_OBSERVED = 1e9
"""The width of the bets is proved up to so many observations of an arm (docs/theory/practical.md, Step 7)."""

FAILING = 4.0
"""Times delta: with at most this probability a bound fails that Theorem L needs; exactly 2 K / (K - 1), at most 4."""

AT_ONE_OVER_T = "The mean regret of SOLB run with this preset and delta = 1 / T is at most this."


class Clock(NamedTuple):
    """What stands for ln T, and what depends on that."""

    log: float  # ln T; without a horizon ln(K + t), now
    first: float  # its least value
    slack: float  # the most that the squared slacks of the limits add up to

    @classmethod
    def with_horizon(cls, instance: Instance) -> Clock:
        """Ln T at all times, and a slack of K / T in every round."""
        log = math.log(instance.horizon)
        return cls(log, log, instance.n_arms**2 / instance.horizon)

    @classmethod
    def without_horizon(cls, instance: Instance) -> Clock:
        """The slack is K / (K + t) when a batch begins, at most 15 rounds before the last."""
        n_arms = instance.n_arms
        return cls(math.log(n_arms + instance.horizon), math.log(n_arms + 1), n_arms + 16.0)

    @property
    def barrier(self) -> float:
        """L: the most that the barrier of a comparator of the shares can be."""
        return 11 + 2 * self.log

    @property
    def root_of_follower(self) -> float:
        """What sqrt(K ln T (1 + Q)) is multiplied by: 2.61, or more if the rate may have been least early on."""
        return 1.565 + 1.045 * math.sqrt(self.log / self.first)

    @property
    def root_of_shares(self) -> float:
        """What sqrt(L (1 + S)) is multiplied by: 2.51, or more."""
        return 1.248 + 1.262 * math.sqrt(self.barrier / (11 + 2 * self.first))


def bet_scale(instance: Instance, level: float) -> float:
    """C of the bets: squared width of a cost's bounds, times how often its arm was played, at most."""
    tests = instance.n_arms * max(1, instance.n_constraints)
    return 8.0 / 3.0 * (math.log(tests / level) + 4.0)


def theorem_r(instance: Instance) -> Bound:
    """Mean regret of SOLB with preset "guaranteed", run with delta = 1 / T; losses are fixed in advance.

    The delta of the instance is not used. "mixing" is sqrt(Gamma) (S + sqrt(L*)), Gamma being the most that the squared
    safe weights add up to on average; "moving", "variance" and "range" are what the follower of the leader pays;
    "failure" is for lower or upper bounds that fail, with probability 2 / T at most: then the benchmark may leave the
    safe set, or bounds contradict each other and begin again.

    References
    ----------
    Our own; proved in docs/theory/practical.md, for horizons up to 10^9.

    Examples
    --------
    >>> instance = Instance(5, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    >>> f"{theorem_r(instance).total:.3g}"
    '5.47e+04'
    """
    scale = bet_scale(instance, 1 / instance.horizon)
    return mean_bound(instance, "Theorem R: guaranteed", AT_ONE_OVER_T, alone(instance, scale, 2.0))


def theorem_r_two_levels(instance: Instance) -> Bound:
    """Mean regret of a variant of preset "guaranteed" at any delta, with lower bounds at the level 1 / T.

    As `theorem_r`, with the delta of the instance for the upper bounds, so for safety, and 1 / T for the lower bounds.
    Nothing happens when a lower bound is above its upper bound. No preset is this variant.

    References
    ----------
    Our own; proved in docs/theory/practical.md ("With lower bounds at the level 1 / T"), for horizons up to 10^9.

    Examples
    --------
    >>> instance = Instance(5, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    >>> bound = theorem_r_two_levels(instance)
    >>> f"{bound.total:.3g}", bound.terms["failure"]
    ('4.78e+04', 1.0)
    """
    tests = instance.n_arms * max(1, instance.n_constraints)
    upper, lower = math.log(tests / instance.delta) + 4, math.log(tests * instance.horizon) + 4
    scale = 2.0 / 3.0 * (math.sqrt(upper) + math.sqrt(lower)) ** 2
    statement = "The mean regret of this variant of SOLB, run with any delta, is at most this."
    return mean_bound(instance, "Theorem R, two levels", statement, alone(instance, scale, 1.0))


def led(instance: Instance, *, restarts: float | None = None, follower_share: float | None = None) -> Bound:
    """Mean regret of SOLB with preset "led", run with delta = 1 / T; losses are fixed in advance.

    If the safe strategy is a single arm, its stated costs must be its mean costs.

    Parameters
    ----------
    instance
        What it is about. Its delta is not used.
    restarts
        How often losses are forgotten, on average, if measured; else the most it can be, ln T.
    follower_share
        The option of SOLB: the least share of the follower in what is played; by default the same as there.

    Notes
    -----
    The terms of `theorem_r`, for a follower in company, and "shares" for what is lost against the plan in which the
    follower's proposal is mixed with the safe strategy. "failure": lower bounds and upper bounds of all K arms, with
    the upper bound that would have been learnt for a safe arm, at the level delta / ((K - 1) m), fail with probability
    2 K / (K - 1) / T at most, so 4 / T. Otherwise no bounds meet, which is what comes before a contradiction.

    References
    ----------
    Our own; proved in docs/theory/led.md, for horizons up to 10^9.

    Examples
    --------
    >>> instance = Instance(5, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    >>> f"{led(instance).total:.3g}"
    '1.56e+06'
    >>> f"{led(instance, restarts=0).total:.3g}"
    '5.76e+05'
    >>> f"{led(instance, restarts=0, follower_share=0.02).total:.3g}"
    '1.13e+06'
    >>> many = Instance(20, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    >>> led(many).total == led(many, follower_share=0.01).total > led(many, follower_share=0.1).total
    True
    """
    clock, scale = Clock.with_horizon(instance), bet_scale(instance, 1 / instance.horizon)
    terms = in_company(instance, clock, scale, FAILING, restarts, parts_of(instance, follower_share))
    return mean_bound(instance, "Theorem L: led", AT_ONE_OVER_T, terms)


def led_without_horizon(
    instance: Instance, *, restarts: float | None = None, follower_share: float | None = None
) -> Bound:  # fmt: skip
    """Mean regret of SOLB with preset "led" in the first T rounds, if it was given no horizon.

    Parameters
    ----------
    instance
        What it is about. Its horizon is the number of rounds played; its delta is the one that SOLB is run with.
    restarts, follower_share
        As for `led`.

    Notes
    -----
    As `led`, with ln(K + T) for ln T. delta cannot depend on the number of rounds, so "failure" is linear:
    4 delta T.

    References
    ----------
    Our own; proved in docs/theory/led.md, section 1 ("Without a horizon"), for at most 10^9 - K rounds.

    Examples
    --------
    >>> instance = Instance(5, 1, 100_000, 0.01, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    >>> bound = led_without_horizon(instance)
    >>> f"{bound.total:.3g}", bound.terms["failure"]
    ('1.89e+06', 4000.0)
    """
    clock, scale = Clock.without_horizon(instance), bet_scale(instance, instance.delta)
    failure = min(1.0, FAILING * instance.delta) * instance.horizon
    terms = in_company(instance, clock, scale, failure, restarts, parts_of(instance, follower_share))
    statement = "The mean regret of SOLB run with this preset and no horizon is at most this."
    return mean_bound(instance, "Theorem L: led, no horizon", statement, terms, MOST_OBSERVED - instance.n_arms)


def theorem_h(instance: Instance, *, follower_share: float | None = None) -> Bound:
    """Regret of a variant of preset "led" with high probability; losses may react to what is played.

    Parameters
    ----------
    instance
        What it is about. Its delta is that of the policy, and once more what chance may take (delta''), so the bound
        holds with probability 1 - 5 delta.
    follower_share
        As for `led`.

    Notes
    -----
    The variant has no baselines, and adds v = sqrt(iota / (K A + 3 T)) to the propensities in its estimates (implicit
    exploration), iota = ln((K + 7) / delta''). The terms are those of `led` with sums for means, and "chance" for the
    estimates. A is the most that the inverse shares of the proposal add up to. No preset is this variant.

    References
    ----------
    Our own; proved in docs/theory/led.md, section 9, for horizons up to 10^9; implicit exploration after Neu (2015).

    Examples
    --------
    >>> instance = Instance(5, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    >>> bound = theorem_h(instance)
    >>> f"{bound.total:.3g}", bound.probability
    ('3.94e+06', 0.75)
    """
    n_arms, horizon, margin = instance.n_arms, instance.horizon, instance.known("margin")
    clock, c = Clock.with_horizon(instance), parts_of(instance, follower_share)
    epochs, iota, L = 1 + clock.log, math.log((n_arms + 7) / instance.delta), clock.barrier
    weights = 3.6 * c * bet_scale(instance, instance.delta) * (n_arms * (2 + clock.log) + iota) + 2 * clock.slack
    gamma = weights / margin**2
    inverse = c * horizon + c / margin * math.sqrt(horizon * gamma)  # A
    squares = 16 * (1.72 * inverse + (c / margin) ** 2 * iota)
    spread = n_arms * inverse + 3 * horizon
    added = math.sqrt(iota / spread)  # v
    roots = math.sqrt(2 * iota * inverse) + math.sqrt(2 * iota * horizon)
    terms = {
        "mixing": math.sqrt(gamma) * (instance.safety_complexity + math.sqrt(instance.benchmark_loss)),
        "moving": epochs * 1.05 * n_arms * clock.log,
        "range": epochs * 1.56 * c**2 / margin**2,
        "shares": epochs * (4.04 * L + 0.78) + 2.51 * math.sqrt(epochs * L * (epochs + 16 * horizon)) + 2,
        "truncation": float(n_arms),
        "variance": 2.61 * math.sqrt(epochs * n_arms * clock.log * (epochs + squares)),
        "chance": iota / (added * horizon) + 2 * math.sqrt(iota * spread) + roots,
    }
    return Bound(
        "Theorem H: variant of led",
        "The regret of this variant of SOLB, against the best safe strategy in hindsight, is at most this.",
        terms,
        trivial=horizon - instance.benchmark_loss,
        probability=instance.sure(5),
        conditions=(enough_rounds(instance), short_enough(instance, MOST_OBSERVED)),
        longest=MOST_OBSERVED,
    )


def parts_of(instance: Instance, follower_share: float | None) -> float:
    """C in pi >= w / c: 40 or 200 by default."""
    if follower_share is None:
        follower_share = usual_share(instance.n_arms, instance.n_constraints)
    return 2 / float(number("follower_share", follower_share, FOLLOWER_SHARE))


def alone(instance: Instance, scale: float, failure: float) -> dict[str, float]:
    """The terms of Theorem R."""
    n_arms, horizon, margin = instance.n_arms, instance.horizon, instance.known("margin")
    log, loss = math.log(horizon), instance.benchmark_loss
    gamma = (2 * scale * n_arms * (2 + log) + 2 * n_arms**2 / horizon) / margin**2
    fixed = {
        "mixing": math.sqrt(gamma) * (instance.safety_complexity + math.sqrt(loss)),
        "moving": n_arms * log,
        "range": 0.78 / margin**2,
        "truncation": float(n_arms),
        "failure": failure,
    }
    most = horizon + math.sqrt(horizon * gamma) / margin
    root = 2.56 * math.sqrt(n_arms * log)
    variance = root * root_of_squares(1.0, most, (2 + log) / margin**2, loss, sum(fixed.values()), root)
    return {**fixed, "variance": variance}


def in_company(
    instance: Instance, clock: Clock, scale: float, failure: float, restarts: float | None, parts: float
) -> dict[str, float]:  # fmt: skip
    """The terms of Theorem L."""
    n_arms, horizon, margin = instance.n_arms, instance.horizon, instance.known("margin")
    log, loss, L = math.log(horizon), instance.benchmark_loss, clock.barrier
    epochs = 1 + (clock.log if restarts is None else float(number("restarts", restarts, AMOUNT)))
    gamma = (2.25 * parts * scale * n_arms * (2 + log) + 2 * clock.slack) / margin**2
    of_shares = clock.root_of_shares * math.sqrt(epochs * L * (epochs + 5.6 * horizon))
    fixed = {
        "mixing": math.sqrt(gamma) * (instance.safety_complexity + math.sqrt(loss)),
        "moving": epochs * 1.05 * n_arms * clock.log,
        "range": epochs * 1.56 * parts**2 / margin**2,
        "shares": epochs * (4.04 * L + 0.78) + of_shares + 2,
        "truncation": float(n_arms),
        "failure": failure,
    }
    most = 2 * (parts + 16) * horizon + 2 * parts * math.sqrt(horizon * gamma) / margin
    root = clock.root_of_follower * math.sqrt(epochs * n_arms * clock.log)
    slope = (2 * parts * (parts + 16) + 2 * (parts + 16) * (1 + log)) / margin**2
    variance = root * root_of_squares(float(epochs), most, slope, loss, sum(fixed.values()), root)
    return {**fixed, "variance": variance}


def root_of_squares(start: float, most: float, slope: float, loss: float, fixed: float, root: float) -> float:
    """The largest that sqrt(start + Q) can be if Q <= most, Q <= slope (L* + R) and R <= fixed + root sqrt(start + Q).

    Examples
    --------
    >>> y = root_of_squares(1.0, 1e12, 2.0, 10.0, 5.0, 3.0)
    >>> abs(y**2 - (1.0 + 2.0 * (10.0 + 5.0 + 3.0 * y))) < 1e-9
    True
    """
    half = 0.5 * slope * root
    return min(math.sqrt(start + most), half + math.sqrt(half**2 + start + slope * (fixed + loss)))


def mean_bound(
    instance: Instance, name: str, statement: str, terms: Mapping[str, float], longest: float = MOST_OBSERVED
) -> Bound:  # fmt: skip
    """A bound on the mean regret of SOLB."""
    return Bound(
        name,
        statement,
        terms,
        trivial=instance.horizon - instance.benchmark_loss,
        probability=None,
        conditions=(enough_rounds(instance), short_enough(instance, longest)),
        longest=longest,
    )


def short_enough(instance: Instance, longest: float) -> tuple[str, bool]:
    """The condition that no arm is observed more often than the width of the bets is proved for."""
    words = "horizon <= 1e9" if longest == MOST_OBSERVED else "horizon <= 1e9 - n_arms"
    return words, instance.horizon <= longest
