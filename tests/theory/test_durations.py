"""How long the trials of claims take is said before they start."""

from __future__ import annotations

import pytest

from surefoot.theory import durations
from surefoot.theory.catalogue import CLAIMS, claim
from surefoot.theory.durations import WEIGHTS, estimate, weight
from tests.theory.made import made_up


def test_every_claim_has_been_measured() -> None:
    # of a new one: the processor time of its quick trials, divided by that of durations.yardstick()
    assert list(WEIGHTS) == [one.name for one in CLAIMS]


def test_more_claims_more_runs_and_slower_machines_take_longer() -> None:
    def seconds(claims: object, full: bool = False, workers: int = 1, unit: float = 0.05) -> float:
        return estimate(claims, full, workers, unit).seconds  # type: ignore[arg-type]

    assert seconds(CLAIMS[:2]) < seconds(CLAIMS[:3]) < seconds(CLAIMS)
    assert seconds(CLAIMS) < seconds(CLAIMS, full=True)
    assert seconds(CLAIMS, unit=0.1) == pytest.approx(2 * seconds(CLAIMS))
    assert seconds(CLAIMS, workers=2) == pytest.approx(seconds(CLAIMS) / 2 + durations.START)
    assert seconds([claim("Lemma 1")], full=True) == pytest.approx(0.05 * WEIGHTS["Lemma 1"] * 2500 / 400)


def test_one_long_trial_is_not_divided_among_processes() -> None:
    tried = claim("Theorem 5")
    alone = WEIGHTS["Theorem 5"] / (1 + len(tried.mutations))
    assert estimate([tried], False, 64, 0.05).seconds >= 0.05 * alone


def test_a_claim_that_was_not_measured_is_taken_for_an_average_one() -> None:
    assert weight(made_up("new"), False) == pytest.approx(sum(WEIGHTS.values()) / len(WEIGHTS))


def test_the_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = estimate([claim("Lemma 1")], False, 1)
    assert found.low < found.seconds < found.high
    monkeypatch.setattr(durations, "yardstick", lambda: 1.0)
    assert estimate([claim("Lemma 1")], False, 1).seconds == pytest.approx(WEIGHTS["Lemma 1"])
