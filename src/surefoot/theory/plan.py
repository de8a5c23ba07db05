"""When guardrails loosen and learning starts to pay: a forecast for SOLB, before anything has been played.

The derivation, and how well it fits simulations, is in docs/forecast.md. It is an estimate, not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.kernels.ledger import LOOSE
from surefoot.problem import DELTA, N_ARMS
from surefoot.rules import SHARE, Range, RuleError, number
from surefoot.theory.instance import MARGIN

MIXTURE = 2.0
"""Price of validity at all times for a mixture of bets, in units of ln(1 / level)."""
SECOND_ORDER = 0.25
"""Factor of the term in 1 / n of a confidence bound that adapts to the variance."""
LEARNING = 0.3
"""Rounds of the proposal until it tells good arms from bad, in units of K / gap^2."""
PAYING = 0.5
"""Rounds of the proposal until it has lost less than the safe strategy would have, in the same units."""
LONGEST = 1e30
FORECAST_PRESETS = ("guaranteed", "led", "practical")
"""Presets of SOLB that the formula is for. "paper" has other bounds and another learning rate, and takes far longer."""


@dataclass(frozen=True)
class Forecast:
    """What SOLB's safe weight will do, and when it will have lost less than the safe strategy.

    "Rounds of the proposal" are rounds times the weight of the proposal in them: the sum of 1 - safe_weight.

    Parameters
    ----------
    n_arms, n_constraints, margin, delta
        As of a `Problem` with a safe strategy (K, m, rho, delta).
    deviation
        Standard deviation of a cost; 0.5, coin flips, at worst. Costs whose mean is the threshold cannot deviate by
        more than ``sqrt(threshold (1 - threshold))``, and what is larger is taken for that.
    gap
        What the safe strategy loses more a round than the best safe one. Arms that are no part of the best strategy
        are taken to lose as much more than the safe strategy.
    threshold
        The smallest threshold (alpha).
    slack
        0 if the best safe strategy is held back by the thresholds: it mixes min(m + 1, K - 1) arms, some of them
        above a threshold. Else the best strategy is an arm that stays below every threshold by this much.
    optimism
        Of the preset: 1 for "guaranteed" and "led", 0.5 for "practical". In "led" and "practical" arms that are
        certified safe may take the place of the safe strategy, and most of the play follows a linear program. With no
        slack they are mostly loose much sooner than forecast, but may be later where the safe strategy is nearly as
        good as others to mix with.

    Examples
    --------
    >>> forecast = Forecast(n_arms=5, n_constraints=1, margin=0.3)
    >>> f"{forecast.loose_after:.3g}", f"{forecast.safe_rounds:.3g}", f"{forecast.regret:.3g}"
    ('3.28e+04', '6.03e+03', '1.21e+03')
    """

    n_arms: int
    n_constraints: int
    margin: float
    delta: float = 0.05
    deviation: float = 0.5
    gap: float = 0.2
    threshold: float = 0.5
    slack: float = 0.0
    optimism: float = 1.0

    def __post_init__(self) -> None:
        for name, rule in RULE_OF.items():
            object.__setattr__(self, name, number(name, getattr(self, name), rule))
        for name in ("margin", "slack"):
            if getattr(self, name) > self.threshold:
                raise RuleError(name, f"be at most threshold = {self.threshold:g}", getattr(self, name))

    @property
    def support(self) -> int:
        """How many arms the best strategy mixes: at most one more than there are guardrails that hold it back."""
        return 1 if self.slack else min(self.n_constraints + 1, self.n_arms - 1)

    @property
    def others(self) -> int:
        """How many arms are neither part of the best strategy nor the safe one."""
        return self.n_arms - 1 - self.support

    @property
    def evidence(self) -> float:
        """ln(1 / level) of one bound on one cost of one arm, and the price of all times."""
        return math.log(self.n_arms * self.n_constraints / self.delta) + MIXTURE

    def excess(self, played: float) -> float:
        """By how much the proposal passes a threshold at the upper bounds, after it was played so many rounds (W)."""
        if not played:
            return 1.0 - self.threshold
        share = min(1.0 / self.n_arms, 0.25 / self.gap / math.sqrt(played * self.n_arms * math.log(math.e + played)))
        variance = min(self.deviation**2, self.threshold * (1.0 - self.threshold))
        roots = math.sqrt(self.support) + self.others * math.sqrt(share)
        radius = math.sqrt(2.0 * variance * self.evidence / played) * roots
        radius += SECOND_ORDER * self.evidence * self.support / played
        if self.slack:
            beyond = radius - self.slack * (1.0 - self.others * share)
        else:  # beyond the threshold by the lower bounds and K / n, and judged by the upper ones
            beyond = (1.0 + self.optimism) * radius + self.n_arms / played
        return max(0.0, min(1.0 - self.threshold, beyond))

    def safe_weight(self, played: float) -> float:
        """The weight of the safe strategy that makes up for the excess, W / (W + margin)."""
        return self.excess(played) / (self.excess(played) + self.margin)

    def rounds(self, played: float) -> float:
        """How many rounds it takes until the proposal has been played in so many: the integral of 1 + W / margin."""
        first = min(1.0, played)
        at = np.geomspace(first, played, 1000) if played > first else np.full(1, first)
        longer = np.array([1.0 + self.excess(n) / self.margin for n in at])
        return float(first * longer[0] + np.sum(np.diff(at) * (longer[1:] + longer[:-1]) / 2.0))

    @property
    def learnt_after(self) -> float:
        """Rounds of the proposal until it tells good arms from bad."""
        return LEARNING * self.n_arms / self.gap**2

    @property
    def played_when_loose(self) -> float:
        """Rounds of the proposal until the weight of the safe strategy is below 0.1, the excess being margin / 9."""
        if self.safe_weight(1.0) < LOOSE:
            return 0.0
        tight, loose = 1.0, LONGEST
        while loose / tight > 1.0 + 1e-9:
            middle = math.sqrt(tight * loose)
            tight, loose = (tight, middle) if self.safe_weight(middle) < LOOSE else (middle, loose)
        return loose + self.learnt_after

    @property
    def loose_after(self) -> float:
        """Rounds until the weight of the safe strategy is below 0.1."""
        return self.rounds(self.played_when_loose)

    @property
    def safe_rounds(self) -> float:
        """How many of these rounds go to the safe strategy: the sum of its weights."""
        return self.loose_after - self.played_when_loose

    @property
    def regret(self) -> float:
        """The cost of these rounds: gap times the sum of weights. It does not include learning which arm is best."""
        return self.gap * self.safe_rounds

    @property
    def break_even(self) -> float:
        """Rounds until SOLB has lost less than the safe strategy alone would have; 0 if no arm is worse than that."""
        return self.rounds(PAYING * self.n_arms / self.gap**2) if self.others else 0.0


RULE_OF = {
    "n_arms": N_ARMS,
    "n_constraints": Range(1, whole=True),
    "margin": MARGIN,
    "delta": DELTA,
    "deviation": Range(0, 0.5),
    "gap": Range(1e-6, 1),
    "threshold": Range(0, 1, open_low=True),
    "slack": SHARE,
    "optimism": SHARE,
}
"""The rule for each parameter of a forecast."""
