"""Decisions that were drawn elsewhere, from a snapshot, and are taken in before their outcomes are known."""

from __future__ import annotations

from typing import Any

import pytest

import surefoot as sf
from surefoot.experiments.events import ELSEWHERE, Decided, id_of
from surefoot.experiments.fold import Fold
from tests.experiments.worlds import GOOD, digest, make, replayed


def drawn(i: int, block: int = 1, **changes: Any) -> Decided:
    return Decided(block * ELSEWHERE + i, "b", 0.5, 1.0, "live", 0, 0.0, 10.0)._replace(**changes)


def name(live: sf.Live, one: Decided) -> str:
    return id_of(live.prefix, one.number)


def test_they_are_settled_and_learnt_like_others() -> None:
    live = sf.Live(make(), seed=1)
    here = live.decide(0.0)
    some = [drawn(0), drawn(1), drawn(0, block=7)]
    assert live.admit(some) == ["logged"] * 3
    assert live.status().pending == live.status().decisions == 4
    for id in (name(live, one) for one in some):
        assert live.feedback(id, GOOD, 1.0) == "accepted"
        assert live.feedback(id, GOOD, 1.0) == "replayed"
    assert live.feedback(here.id, GOOD, 1.0) == "accepted"
    assert live.status().rounds == 4
    assert live.decide(2.0).id == f"{live.prefix}-1"
    assert digest(live) == replayed(live)


def test_the_order_is_that_of_the_log() -> None:
    """However their outcomes come: those behind an open decision of the same arm wait."""
    live = sf.Live(make(), seed=1)
    first, second = drawn(0), drawn(0, block=2)
    live.admit([first, second])
    live.feedback(name(live, second), GOOD, 1.0)
    assert live.status().rounds == 0
    live.expire(10.0)
    assert live.status().rounds == 2
    assert live.status().lost["b"] == 0.5


def test_taking_them_in_again_changes_nothing() -> None:
    live = sf.Live(make(), seed=1)
    some = [drawn(i) for i in range(3)]
    live.admit(some)
    live.feedback(name(live, some[0]), GOOD, 1.0)
    before = digest(live)
    assert live.admit(some) == ["replayed"] * 3
    assert digest(live) == before
    again = sf.Live.of(live.log)
    assert again.admit(some) == ["replayed"] * 3
    assert digest(again) == before


def test_one_that_was_overtaken_is_taken_in_all_the_same() -> None:
    live = sf.Live(make(), seed=1)
    assert live.admit([drawn(5), drawn(2)]) == ["logged", "logged"]
    assert live.admit([drawn(2), drawn(3)]) == ["replayed", "logged"]


def test_a_decision_that_was_never_taken_in_is_unknown() -> None:
    live = sf.Live(make(), seed=1)
    live.admit([drawn(0)])
    for id in (name(live, drawn(1)), name(live, drawn(0, block=2)), f"{live.prefix}-1.-1", f"{live.prefix}-01.0"):
        with pytest.raises(sf.Unknown):
            live.feedback(id, GOOD, 1.0)


@pytest.mark.parametrize("kept", [True, False])
def test_one_of_an_earlier_epoch(kept: bool) -> None:
    """It is learnt if what was known then is kept; else it is settled and never learnt."""
    live = sf.Live(make(), seed=1)
    live.change(live.experiment, "news", keep=kept)
    old, new = drawn(0), drawn(1, epoch=1)
    assert live.admit([old, new]) == ["logged", "logged"]
    assert live.feedback(name(live, new), GOOD, 1.0) == "accepted"
    assert live.status().rounds == (0 if kept else 1)
    assert live.feedback(name(live, old), GOOD, 1.0) == "accepted"
    assert live.status().rounds == (2 if kept else 1)
    assert digest(live) == replayed(live)


def test_a_saved_state_goes_on_alike() -> None:
    live = sf.Live(make(), seed=1)
    live.admit([drawn(0), drawn(1), drawn(0, block=3)])
    live.feedback(name(live, drawn(1)), GOOD, 1.0)
    assert Fold.from_bytes(live.log, live._fold.to_bytes()).digest() == digest(live)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"number": 3}, "number"),
        ({"number": 2**63}, "number"),
        ({"number": True}, "number"),
        ({"epoch": 1}, "epoch"),
        ({"epoch": -1}, "epoch"),
        ({"propensity": 0.0}, "propensity"),
        ({"propensity": float("nan")}, "propensity"),
        ({"propensity": 1.5}, "propensity"),
        ({"weight": -0.1}, "weight"),
        ({"mode": "fast"}, "mode"),
        ({"arm": "z"}, "arm"),
        ({"arm": 1}, "arm"),
        ({"at": float("inf")}, "at"),
        ({"due": float("nan")}, "due"),
        ({"unit": [1]}, "unit"),
        ({"unit": "\ud800"}, "unit"),
        ({"key": 5}, "key"),
        ({"would": 5}, "would"),
    ],
)
def test_what_cannot_be_is_refused_and_the_rest_is_taken(changes: dict[str, Any], argument: str) -> None:
    live = sf.Live(make(), seed=1)
    error, good = live.admit([drawn(0, **changes), drawn(1)])
    assert isinstance(error, sf.RuleError)
    assert error.argument == argument
    assert good == "logged"
    assert live.status().pending == 1


def test_what_is_no_list_of_decisions_is_refused() -> None:
    live = sf.Live(make(), seed=1)
    error, good = live.admit([5, drawn(1)])  # type: ignore[list-item]
    assert (str(error), good) == ("drawn must be decisions (Decided), got 5", "logged")
    wrong: Any
    for wrong in (5, None, "ab", {}):
        with pytest.raises(sf.RuleError, match=r"^drawn must be a list, got"):
            live.admit(wrong)
    assert live.status().pending == 1
