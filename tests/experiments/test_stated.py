"""Live experiments whose policy takes the baseline's costs as stated: safe if they are, and noticed if they are not."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom

import surefoot as sf
from surefoot.experiments.fold import HELD
from surefoot.theory.claims import Outcome
from surefoot.theory.live import DELTA, World, live_through, misses_late, rounds_to_alarm
from surefoot.theory.mutations import NeverAlarms

NEEDED: dict[str, Any] = {"confidence": {"name": "betting", "sides": "needed"}}


class Stated(World):
    """A world whose operator leaves the baseline out of the union bound."""

    options: ClassVar[dict[str, Any]] = NEEDED

    def experiment(self) -> sf.Experiment:
        plain = super().experiment()
        return sf.Experiment(
            "live", arms=plain.arms, objective=plain.objective, guardrails=plain.guardrails, baseline=plain.baseline,
            baseline_costs=plain.baseline_costs, timeout=plain.timeout, delta=plain.delta,
            alarm_every=plain.alarm_every, options=self.options,
        )  # fmt: skip


class StatedLed(Stated):
    """The same with preset "led", which does so by itself."""

    options: ClassVar[dict[str, Any]] = {"preset": "led"}


@pytest.mark.parametrize("world", [Stated, StatedLed])
@pytest.mark.parametrize("how", ["late", "lost", "repeated"])
def test_every_strategy_that_is_served_is_safe(world: type[Stated], how: str) -> None:
    """Refuted beyond the 1e-3 quantile of runs that may fail at delta: six cells, false alarms 6e-3 at most."""
    made = {
        "late": world(delay=misses_late), "lost": world(lost=(0.05, 0.8), timeout=20.0), "repeated": world(copies=6),
    }[how]  # fmt: skip
    found = [live_through(made, 300, seed, None) for seed in range(40)]
    outcomes: list[Outcome] = [lived.outcome for lived in found]
    assert not any(outcome.breaks for outcome in outcomes)
    assert sum(outcome.fails for outcome in outcomes) <= int(binom.isf(1e-3, 40, DELTA))
    upper = found[0].live._fold.policy.upper_costs
    assert upper[0, -1] == pytest.approx(0.1)  # whatever was lost
    assert not any(lived.live._fold.policy.contradicted for lived in found)


@pytest.mark.parametrize("world", [Stated, StatedLed])
def test_a_baseline_that_costs_more_than_stated_is_noticed(world: type[Stated]) -> None:
    """As soon as Theorem D says; an experiment that nobody watches goes on."""
    wrong = world((0.5, 0.6), stated=0.1)
    few = rounds_to_alarm(0.6, 0.1, 2.0 * wrong.alarm_every, 0.1)
    late = 0
    for seed in range(20):
        lived = live_through(wrong, 50 + 2 * few, seed, None)
        late += lived.alarmed is None or lived.baseline > few
        assert lived.alarmed is None or lived.live.status().state == HELD
    assert late <= int(binom.isf(1e-3, 20, 0.1))
    unwatched = live_through(wrong, 50 + 2 * few, 1, NeverAlarms)
    assert unwatched.alarmed is None


def test_a_measured_baseline_takes_its_bound() -> None:
    live = sf.Live(
        sf.Experiment(
            "live", arms=["new", "old"], objective=sf.Maximise("gain"), guardrails=[sf.AtMost("cost", 0.3)],
            baseline="old", timeout=10.0, delta=DELTA, options=NEEDED,
        ),
        seed=1,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    for t in range(600):
        choice = live.decide(float(t))
        cost = float(rng.random() < {"new": 0.5, "old": 0.1}[choice.arm])
        live.feedback(choice.id, {"gain": 1.0, "cost": cost}, float(t))
        if live._fold.policy is not None:
            break
    policy = live._fold.policy
    assert policy is not None
    assert (policy.upper_costs[:, 1] == policy.problem.safe.costs).all()
    assert 0.1 < policy.upper_costs[0, 1] < 0.3
