"""What docs/theory/led.md, section 9, says of the estimates of Theorem H, by enumeration of the draws, and its trial.

Each function returns right side minus left side, which is negative where a statement fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surefoot.rules import Floats
from surefoot.theory.claims import Finding, Outcome, always

TOLERANCE = 1e-12
ROUNDS = 30
"""Rounds in a run of the trial."""


class Setting(NamedTuple):
    """What is known before a draw, and its losses."""

    plans: Floats  # (3, K); the first is the proposal
    shares: Floats  # (3,)
    losses: Floats  # (K,)
    added: float  # v

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Setting:
        """At random; many shares are tiny."""
        n_arms = int(rng.integers(2, 7))
        plans = 0.999 * rng.dirichlet(np.full(n_arms, rng.choice([0.1, 1.0])), size=3) + 0.001 / n_arms
        shares = 0.999 * rng.dirichlet(np.full(3, rng.choice([0.1, 1.0]))) + 0.001 / 3
        losses = rng.random(n_arms) if rng.random() < 0.5 else (rng.random(n_arms) < 0.5).astype(float)
        return cls(plans, shares, losses, 10.0 ** rng.uniform(-2, 0))

    @property
    def played(self) -> Floats:
        """The mean of the plans."""
        return np.asarray(self.shares @ self.plans)

    def changed(self, wrong: str | None) -> tuple[Floats, float]:
        """The losses that are estimated, and what is added to propensities, if something is wrong."""
        return self.losses - 0.5 * (wrong == "with a baseline"), 0.0 if wrong == "without v" else self.added


def arms_slack(at: Setting, wrong: str | None = None) -> float:
    """For each arm the mean of exp(2 v z) is at most exp(2 v l); in logarithms, as a multiple of 2 v l."""
    losses, added = at.changed(wrong)
    estimates = losses / (at.played + added)
    means = np.logaddexp(np.log(at.played) + 2.0 * at.added * estimates, np.log1p(-at.played))
    return least(2.0 * at.added * losses, means)


def plans_slack(at: Setting, wrong: str | None = None) -> float:
    """For each plan the mean of exp(2 v c) is at most exp(2 v l^T y); in logarithms, as a multiple of 2 v l^T y."""
    losses, added = at.changed(wrong)
    estimates = at.plans * losses / (at.played + added * at.plans)
    means = np.logaddexp.reduce(np.log(at.played) + 2.0 * at.added * estimates, axis=1)
    return least(2.0 * at.added * (at.plans @ losses), means)


def least(bounds: Floats, values: Floats) -> float:
    """The least slack as a multiple of the bound; where that is 0, nothing is estimated."""
    some = bounds != 0.0
    return float(((bounds - values)[some] / np.abs(bounds[some])).min(initial=np.inf))


def short_slack(at: Setting, wrong: str | None = None) -> float:
    """On average the proposal's estimate is short by at most v K / pi and that of the play by 3 v; squares are small.

    By how much an estimate of what is played is outside of [0, 1], if one is.
    """
    losses, added = at.changed(wrong)
    x, proposal, share = at.played, at.plans[0], at.shares[0]
    of_proposal = proposal * losses / (x + added)
    of_played = at.shares @ (at.plans * losses / (x + added * at.plans))
    outside = min(of_played.min(), 1.0 - of_played.max())
    if outside < -TOLERANCE:
        return float(outside)
    bounds = np.array([at.added * x.size / share, 1.0 / share, 3.0 * at.added])
    values = [losses @ proposal - x @ of_proposal, x @ of_proposal**2, losses @ x - x @ of_played]
    return least(bounds, np.array(values))


def try_chance(mutation: str | None, runs: int) -> Finding:
    """Theorem H: the means behind its supermartingales, in rounds drawn at random."""
    outcomes = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        drawn = [Setting.drawn(rng) for _ in range(ROUNDS)]
        slacks = [slack(at, mutation) for at in drawn for slack in (arms_slack, plans_slack, short_slack)]
        outcomes.append(Outcome(min(slacks) + TOLERANCE))
    return always(outcomes)
