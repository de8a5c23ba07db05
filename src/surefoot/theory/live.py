"""Live experiments in worlds where feedback is late, lost or repeated, arms are missing, or costs change.

The claims are those of docs/theory/live.md. Their trials run `Live` itself, through its public methods; a witness who
knows the true costs looks at every strategy that is served.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from surefoot.experiments.errors import Unavailable
from surefoot.experiments.events import Decided, Event, Log
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.fold import HELD, Fold
from surefoot.experiments.live import Choice, Live
from surefoot.experiments.plans import Plan
from surefoot.experiments.quantities import AtMost, Maximise
from surefoot.kernels.detector import BETS, bets_against
from surefoot.rules import Floats
from surefoot.theory.claims import Finding, Outcome, always, both, rarely

DELTA = 0.05
TOLERANCE = 1e-9
WATCHED = ("served", "baseline")
"""The kinds of alarms that are about costs as they are served."""


def at_once(arm: int, cost: int, t: int) -> int:
    """Feedback comes in the same round."""
    return 0


def misses_late(arm: int, cost: int, t: int) -> int:
    """Feedback on a miss comes 100 rounds later than that on a hit."""
    return 100 * cost


def in_batches(arm: int, cost: int, t: int) -> int:
    """Feedback on the first arm comes once in 400 rounds."""
    return 399 - t % 400 if arm == 0 else 0


@dataclass(frozen=True)
class World:
    """A world of one guardrail, in which costs are 0 or 1. The last arm is the baseline.

    Attributes
    ----------
    costs, gains
        The mean cost of each arm, and its gain.
    limit, stated
        Of the guardrail, and what is said of the baseline's cost; by default the truth.
    delay
        Called with the arm, the cost and the round of a decision: how many rounds later its feedback comes.
    lost
        The probabilities with which feedback is lost, of decisions that cost 0 and 1.
    copies
        How often feedback is delivered.
    missing
        The probability with which an arm is not available in a round, for each arm.
    later, change
        The costs from round `change` on.
    """

    costs: tuple[float, ...] = (0.5, 0.1)
    gains: tuple[float, ...] = (1.0, 0.0)
    limit: float = 0.3
    stated: float | None = None
    delay: Callable[[int, int, int], int] = at_once
    timeout: float = 150.0
    lost: tuple[float, float] = (0.0, 0.0)
    copies: int = 1
    missing: tuple[float, ...] = ()
    later: tuple[float, ...] = ()
    change: int = 0
    alarm_every: float = 1e6

    @property
    def arms(self) -> list[str]:
        """Names of the arms."""
        return [f"arm {k}" for k in range(len(self.costs) - 1)] + ["baseline"]

    def experiment(self) -> Experiment:
        """The experiment of an operator in this world."""
        return Experiment(
            "live",
            arms=self.arms,
            objective=Maximise("gain"),
            guardrails=[AtMost("cost", self.limit)],
            baseline="baseline",
            baseline_costs={"cost": self.costs[-1] if self.stated is None else self.stated},
            timeout=self.timeout,
            delta=DELTA,
            alarm_every=self.alarm_every,
        )


class Witness(Live):
    """A live experiment that is seen by someone who knows the true costs."""

    def _start(self, log: Log, fold: Fold) -> None:
        super()._start(log, fold)
        self.truth: Floats = np.zeros(len(fold.experiment.arms))
        self.excess = -math.inf  # the most by which a strategy that was served costs more than the limit
        self.over = 0  # decisions that were drawn from such a strategy
        self.gain = 0.0  # expected, of all strategies that were served
        self.gains: Floats = self.truth

    def _draw(self, plan: Plan, now: float, key: str | None, unit: str | None, events: list[Event]) -> Decided:
        excess = float(plan.strategy @ self.truth) - self._fold.experiment.guardrails[0].threshold
        self.excess = max(self.excess, excess)
        self.over += excess > TOLERANCE
        self.gain += float(plan.strategy @ self.gains)
        return super()._draw(plan, now, key, unit, events)

    @property
    def clean(self) -> bool:
        """Whether every true cost is below its upper bound. Without a contradiction these never rise: the last tell."""
        policy = self._fold.policy
        return not policy.contradicted and bool((policy.upper_costs[0] >= self.truth).all())


class Lived(NamedTuple):
    """What became of a run."""

    live: Witness
    alarm: Any  # the first one that holds
    alarmed: int | None  # the round before which it was raised
    baseline: int  # decisions for the baseline until then
    after: int  # decisions after it for which something else was drawn from

    @property
    def outcome(self) -> Outcome:
        """Whether every strategy was safe."""
        return Outcome(0.0, self.live.clean, TOLERANCE - self.live.excess)


def witness(mutation: Any) -> type[Witness]:
    """The class of a live experiment that is wrong in one way, or in none, and is witnessed."""
    return Witness if mutation is None else type(f"{mutation.__name__}Witness", (mutation, Witness), {})


def live_through(world: World, rounds: int, seed: int, mutation: Any = None) -> Lived:
    """A run: one decision a round; feedback comes at the end of a round."""
    live = witness(mutation)(world.experiment(), seed)
    live.truth, live.gains = np.array(world.costs), np.array(world.gains)
    names = world.arms
    places = {name: place for place, name in enumerate(names)}
    chance = np.random.default_rng([seed, 1]).random((rounds, 2 + len(names))).tolist()
    coming: defaultdict[int, list[tuple[str, dict[str, float]]]] = defaultdict(list)
    costs, alarmed, baseline, after = world.costs, None, 0, 0
    for t in range(rounds):
        now = float(t)
        if world.later and t == world.change:
            costs, live.truth = world.later, np.array(world.later)
        choice = decide(live, world, chance[t], now)
        if choice is not None:
            arm = places[choice.arm]
            cost = int(chance[t][0] < costs[arm])
            if chance[t][1] >= world.lost[cost]:
                outcome = {"gain": world.gains[arm], "cost": float(cost)}
                coming[t + world.delay(arm, cost, t)] += [(choice.id, outcome)] * world.copies
            baseline += alarmed is None and arm == len(names) - 1
            after += alarmed is not None and choice.mode != "safe"
        if t in coming:
            live.feedback_many(coming.pop(t), now)
        if alarmed is None and any(alarm.kind in WATCHED for alarm in live._fold.alarms):
            alarmed = t
    found = [alarm for alarm in live._fold.alarms if alarm.kind in WATCHED]
    return Lived(live, found[0] if found else None, alarmed, baseline, after)


def decide(live: Live, world: World, chance: list[float], now: float) -> Choice | None:
    """A decision among the arms that are there, or None if no strategy of them is known to be safe."""
    if not world.missing:
        choice: Choice = live.decide(now)
        return choice
    there = [name for name, u, p in zip(world.arms, chance[2:], world.missing, strict=True) if u >= p]
    try:
        return live.decide(now, arms=there) if there else None
    except Unavailable:
        return None


# Safety


def try_late(mutation: Any, runs: int) -> Finding:
    """Feedback on bad outcomes comes late."""
    world = World(delay=misses_late)
    return rarely([live_through(world, 300, seed, mutation).outcome for seed in range(runs)], DELTA)


def try_lost(mutation: Any, runs: int) -> Finding:
    """Feedback on bad outcomes is lost."""
    world = World(lost=(0.05, 0.8), timeout=20.0)
    return rarely([live_through(world, 300, seed, mutation).outcome for seed in range(runs)], DELTA)


def try_repeated(mutation: Any, runs: int) -> Finding:
    """Feedback is delivered again and again."""
    world = World(copies=6)
    return rarely([live_through(world, 300, seed, mutation).outcome for seed in range(runs)], DELTA)


def try_unavailable(mutation: Any, runs: int) -> Finding:
    """Arms are missing now and then."""
    world = World(costs=(0.5, 0.02, 0.1), gains=(1.0, 0.7, 0.0), missing=(0.2, 0.5, 0.1))
    found = [live_through(world, 400, seed, mutation).outcome for seed in range(runs)]
    return always([Outcome(outcome.path, outcome.clean) for outcome in found])


# The watch


@cache
def rounds_to_alarm(mean: float, limit: float, enough: float, chance: float) -> int:
    """Decisions within which an alarm is raised, but for this chance, once the mean is this much or more.

    The chance of none within n is at most (BETS A)^s E[(1 + bet (x - limit))^-s]^n for every bet and every s > 0; x is
    1 with probability `mean`, which is the worst case (docs/theory/live.md).

    Examples
    --------
    >>> rounds_to_alarm(0.3, 0.1, 2e6, 0.05)
    237
    """
    best = math.inf
    for bet in bets_against(np.array([limit]))[0]:
        for s in 2.0 ** np.arange(-8.0, 4.0, 0.125):  # any s will do
            factor = mean * (1.0 + bet * (1.0 - limit)) ** -s + (1.0 - mean) * (1.0 - bet * limit) ** -s
            if factor < 1.0:
                best = min(best, (s * math.log(BETS * enough) - math.log(chance)) / -math.log(factor))
    return math.ceil(best)


def try_alarms(mutation: Any, runs: int) -> Finding:
    """A drift of all costs, and a baseline that costs more than stated: how long until the baseline is held."""
    drift = World((0.07, 0.05), limit=0.1, later=(0.3, 0.3), change=200)
    wrong = World((0.5, 0.6), stated=0.1)
    late, enough = 0.1, 2.0 * drift.alarm_every
    soon, few = rounds_to_alarm(0.3, 0.1, enough, late), rounds_to_alarm(0.6, 0.1, enough, late)
    early = DELTA + drift.change / drift.alarm_every  # by a strategy that is not safe, or for no reason

    def outcome(world: World, rounds: int, seed: int, allowed: int) -> Outcome:
        lived = live_through(world, rounds, seed, mutation)
        if lived.alarmed is None or lived.alarmed < world.change:
            return Outcome(-1.0)
        took = lived.alarmed + 1 - world.change if world.later else lived.baseline
        held = lived.live.status().state == HELD and lived.after == 0
        return Outcome(float(allowed - took), path=0.0 if held else -1.0)

    return both(
        rarely([outcome(drift, 250 + soon, seed, soon) for seed in range(runs)], late + early),
        rarely([outcome(wrong, 50 + 2 * few, seed, few) for seed in range(runs)], late),
    )


def try_false_alarms(mutation: Any, runs: int) -> Finding:
    """Alarms of runs in which nothing is wrong, but one arm costs more than the limit and reports in batches."""
    rounds = 800
    world = World(delay=in_batches, timeout=500.0, alarm_every=20.0 * rounds)
    found = [live_through(world, rounds, seed, mutation) for seed in range(runs)]
    outcomes = [Outcome(0.0 if lived.alarmed is None else -1.0) for lived in found]
    return rarely(outcomes, DELTA + rounds / world.alarm_every)
