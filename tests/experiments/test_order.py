"""The order of learning, against a slow twin."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot as sf
from surefoot.experiments import events as ev
from surefoot.experiments import order as order_module
from surefoot.experiments.order import Order, rounds
from tests.experiments.worlds import GOOD, digest, make, replayed
from tests.reference.order import Learnt, learnt

PARTS = [{"quality": 1.0}, {"spend": 0.5}, {"answered": 1.0}, {"quality": 0.5, "spend": 0.1, "answered": 0.0}]


def history(rng: Random, length: int) -> list[ev.Event]:
    """Events that can follow each other."""
    events: list[ev.Event] = [ev.Created(make().to_dict(), "00", False, {})]
    open_: dict[int, set[str]] = {}
    needed, epoch = {"quality", "spend", "answered"}, 0
    next_in = {0: 0, 1: 0, 2: 0}  # by block: of this process, and of two that draw elsewhere
    for _ in range(length):
        fate = rng.random()
        if fate < 0.4 or not open_:
            block = rng.choice([0, 0, 1, 2])
            drawn_in = max(0, epoch - rng.choice([0, 0, 1])) if block else epoch
            number = block * ev.ELSEWHERE + next_in[block]
            events.append(ev.Decided(number, rng.choice("abc"), 0.5, 1.0, "live", drawn_in, 0.0, 10.0))
            open_[number] = set()
            next_in[block] += 1
        elif fate < 0.8:
            one = rng.choice(sorted(open_))
            part = {name: value for name, value in rng.choice(PARTS).items() if name not in open_[one]}
            events.append(ev.Reported(one, part, 0.0))
            open_[one] |= part.keys()
            if needed <= open_[one]:
                del open_[one]
        elif fate < 0.93:
            one = rng.choice(sorted(open_))
            events.append(ev.Expired(one, 0.0) if rng.random() < 0.5 else ev.Cancelled(one, "x"))
            del open_[one]
        elif fate < 0.96:
            events.append(ev.Observed(rng.choice("abc"), {"spend": 0.1, "answered": 1.0}))
        else:
            fewer = rng.random() < 0.5
            guardrails = make().guardrails[: 1 if fewer else 2]
            after = make(guardrails=guardrails, baseline_costs=None)
            needed = {"quality", "spend"} if fewer else {"quality", "spend", "answered"}
            epoch += 1
            events.append(ev.Changed(epoch, after.to_dict(), rng.random() < 0.7, "x"))
    return events


def order_of(events: list[ev.Event]) -> list[Learnt]:
    return [(one.number, one.arm, one.source, dict(one.outcome)) for one in rounds(enumerate(events, 1))]


@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=False), length=st.integers(0, 60))
def test_rounds_are_learnt_in_the_order_of_the_twin(rng: Random, length: int) -> None:
    events = history(rng, length)
    assert order_of(events) == learnt(events)


def test_long_histories() -> None:
    total = 0
    for seed in range(20):
        events = history(Random(seed), 250)
        found = order_of(events)
        assert found == learnt(events)
        total += len(found)
    assert total > 200


def test_saved_orders_go_on_alike() -> None:
    """An order that was saved and loaded after every event releases the same."""
    for seed in range(5):
        events = [one for one in history(Random(seed), 120) if not isinstance(one, ev.Changed)]
        order, again = (Order({"quality", "spend", "answered"}) for _ in range(2))
        for event in events:
            released = []
            for one in (order, again):
                settled = None
                if isinstance(event, ev.Decided):
                    one.decide(event)
                elif type(event) in order_module.STEPS:
                    settled = order_module.STEPS[type(event)](one, event)
                if settled is not None:
                    both = [*one.released(settled.decided.arm)], [*one.passed()]
                    released.append([[pending.decided.number for pending in some] for some in both])
            assert len(released) in (0, 2)
            assert not released or released[0] == released[1]
            assert order.to_dict() == again.to_dict()
            again = Order.from_dict(again.needed, again.to_dict())


def test_bad_outcomes_that_come_late_are_learnt_in_their_place() -> None:
    """Hits are reported at once and misses later: nothing is learnt past the first miss until it is there."""
    events: list[ev.Event] = [ev.Created(make().to_dict(), "00", False, {})]
    events += [ev.Decided(i, "a", 0.5, 1.0, "live", 0, 0.0, 10.0) for i in range(6)]
    whole = {"quality": 1.0, "spend": 0.1, "answered": 1.0}
    events += [ev.Reported(i, whole, 0.0) for i in (0, 1, 3, 5)]
    assert [one[0] for one in order_of(events)] == [0, 1]
    events += [ev.Reported(4, whole, 5.0), ev.Expired(2, 10.0)]
    assert [one[0] for one in order_of(events)] == [0, 1, 2, 3, 4, 5]
    assert [one[2] for one in order_of(events)] == ["feedback"] * 2 + ["timeout"] + ["feedback"] * 3


def test_the_twin_is_not_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: an order that does not wait for older decisions is found."""

    def released(order: Order, arm: str) -> list[order_module.Pending]:
        queue = order._queues.get(arm, deque())
        found = [one for one in queue if one.settled]
        for one in found:
            queue.remove(one)
        return found

    monkeypatch.setattr(Order, "released", released)
    assert any(order_of(events) != learnt(events) for events in (history(Random(seed), 100) for seed in range(5)))


def test_an_observation_does_not_overtake_an_open_decision() -> None:
    """Else it would depend on the outcome of the decision which of them is learnt first."""
    live = sf.Live(make(), seed=1)
    choice = live.decide(0.0)
    live.observe(choice.arm, {"spend": 0.3, "answered": 1.0})
    live.observe("b" if choice.arm != "b" else "a", {"spend": 0.2, "answered": 1.0})
    again = sf.Live.of(live.log)
    for one in (live, again):
        assert one.status().guardrails["spend"].arms[choice.arm].count == 0
    live.feedback(choice.id, GOOD, 1.0)
    assert live.status().guardrails["spend"].arms[choice.arm].count == 2
    assert [one.source for one in rounds(live.log.read())] == ["observation", "feedback", "observation"]
    assert digest(live) == replayed(live)
