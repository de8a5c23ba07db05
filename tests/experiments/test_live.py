"""`Live` under threads, in little memory, and with answers that are durable before they are given."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import surefoot as sf
from surefoot.experiments import live as live_module
from surefoot.experiments import order as order_module
from surefoot.experiments.events import Decided, Event, Settled
from surefoot.experiments.fold import Fold
from surefoot.experiments.live import Live
from surefoot.experiments.plans import Plan, places_of
from surefoot.storage import open_log
from tests.experiments.soak import soak
from tests.experiments.test_machine import machine, walk
from tests.experiments.worlds import GOOD, DurableMemory, digest, make, replayed

THREADS, TURNS = 16, 2_000


def side_by_side(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run work on several threads; raise what it raises."""
    errors: list[BaseException] = []

    def run(place: int) -> None:
        try:
            work(place)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(place,)) for place in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_share_an_experiment() -> None:
    live = sf.Live(make(), 1)
    counts: list[Counter[str]] = [Counter() for _ in range(THREADS)]

    def work(place: int) -> None:
        rng, count = Random(place), counts[place]
        for i in range(TURNS):
            d = live.decide(float(i))
            count[d.arm] += 1
            if rng.random() < 0.9:
                count[live.feedback(d.id, GOOD, float(i))] += 1

    side_by_side(work)
    total = sum(counts, Counter())
    status = live.status()
    assert sum(total[arm] for arm in "abc") == status.decisions == THREADS * TURNS
    accepted = [event for _, event in live.log.read() if type(event).__name__ == "Reported"]
    assert len(accepted) == total["accepted"]
    live.expire(1e6)
    status = live.status()
    assert (status.pending, status.rounds) == (0, THREADS * TURNS)
    assert {arm: found.count for arm, found in status.guardrails["spend"].arms.items()} == {
        arm: total[arm] for arm in "abc"
    }
    assert digest(live) == replayed(live)


def test_threads_share_a_file(tmp_path: Path) -> None:
    live = sf.Live.open(tmp_path / "log.db", make(), seed=1)

    def work(place: int) -> None:
        for i in range(20):
            d = live.decide(0.0, key=f"{place % 4} {i}")  # four threads ask for the same
            live.feedback(d.id, GOOD, 0.0)

    side_by_side(work)
    status = live.status()
    assert status.decisions == status.rounds == 4 * 20
    live.close()
    with sf.Live.open(tmp_path / "log.db") as again:
        assert digest(again) == digest(live) == replayed(again)


class Slow(DurableMemory):
    """Nothing is durable until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.through = threading.Event()
        self.through.set()
        self.safe = 0

    def wait(self, ticket: int) -> None:
        assert self.through.wait(20.0)
        self.safe = max(self.safe, ticket)


@pytest.mark.parametrize("what", ["key", "unit", "feedback", "part", "cancel", "snapshot", "many"])
def test_repeated_answers_are_as_durable_as_the_first(what: str) -> None:
    """Two threads ask the same; neither has an answer before the commit."""
    log = Slow()
    live = sf.Live(make(), 1, log=log)
    d = live.decide(0.0)
    calls: dict[str, Callable[[], Any]] = {
        "key": lambda: live.decide(0.0, key="k"),
        "unit": lambda: live.decide(0.0, unit="u"),
        "feedback": lambda: live.feedback(d.id, GOOD, 0.0),
        "part": lambda: live.feedback(d.id, {"quality": 1.0}, 0.0),
        "cancel": lambda: live.cancel(d.id),
        "snapshot": lambda: live.snapshot(0.0),
        "many": lambda: live.feedback_many([(d.id, GOOD)], 0.0),
    }
    first = calls["feedback" if what == "snapshot" else what]
    log.through.clear()
    answered: list[bool] = []
    threads = [threading.Thread(target=first, daemon=True)]
    threads[0].start()
    while live._fold.last < 3:  # the first call is at the point where it waits
        pass
    threads.append(threading.Thread(target=lambda: answered.append(calls[what]() is not answered), daemon=True))
    threads[1].start()
    threads[1].join(0.2)
    assert not answered
    log.through.set()
    for thread in threads:
        thread.join()
    assert answered


def test_a_pending_decision_takes_less_than_a_kilobyte() -> None:
    """In the state: what the log keeps in memory is counted apart."""

    class Nowhere(sf.MemoryLog):
        def append(self, events: Any, rounds: Any = ()) -> int:
            return 1

    live = sf.Live(make(), 1, log=Nowhere())
    live.decide(0.0, n=100)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        live.decide(0.0, n=1_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert live.pending == 20_100
    assert grown / 20_000 < 1_000


def test_settled_decisions_take_nothing() -> None:
    """Of 20,000 decisions that were settled nothing is left but what the policy knows."""

    class Nowhere(sf.MemoryLog):
        def append(self, events: Any, rounds: Any = ()) -> int:
            return 1

    live = sf.Live(make(), 1, log=Nowhere())
    for _ in range(2):
        live.feedback_many([(d.id, GOOD) for d in live.decide(0.0, n=100)], 0.0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(20):
        live.feedback_many([(d.id, GOOD) for d in live.decide(i * 20.0, n=1_000)], i * 20.0)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 250_000  # the heap of due times is emptied as time passes


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_long_life_with_losses_duplicates_and_restarts(kind: str, tmp_path: Path) -> None:
    log = open_log(tmp_path / "log.db") if kind == "sqlite" else DurableMemory()
    found = soak(log, rounds=3_000 if kind == "memory" else 400, restarts=10, seed=1)
    assert found.lost > 10
    assert found.late > 10
    assert found.duplicates > 50


# The controls: what is broken on purpose is found.


def out_of_order(order: Any, arm: str) -> Any:
    """Release everything that is settled, also behind an open decision."""
    queue = order._queues.get(arm, [])
    for pending in [one for one in queue if one.settled]:
        queue.remove(pending)
        pending.queued = False
        yield pending


def renormalised(live: Any, arms: Any) -> Plan:
    """Scale the strategy up when arms are missing."""
    plan = live._current()
    if arms is None:
        return plan  # type: ignore[no-any-return]
    rest = plan.strategy * places_of(live._fold, arms)
    return Plan(rest / rest.sum(), plan.weight, plan.mode) if rest.sum() > 0 else plan


def heedless(live: Any) -> Plan:
    """Serve the policy's strategy also while held."""
    policy = live._fold.policy
    return Plan(policy.strategy if policy else live._fold.safe, 1.0 - policy.safe_weight if policy else 0.0, "live")


def forgetful_draw(live: Any, *arguments: Any) -> Decided:
    """Every tenth number is used twice."""
    decided = DRAW(live, *arguments)
    if decided.number % 10 == 9:
        live._fold.order.issued -= 1
    return decided


def optimistic(fold: Any, outcome: Any) -> list[float]:
    """What is missing counts as the best case."""
    return [one.cost(outcome[one.name]) if one.name in outcome else 0.0 for one in fold._guardrails]


def no_time_outs(live: Any, now: float, inclusive: bool) -> list[Any]:
    return []


def unwritten_time_outs(live: Any, now: float, inclusive: bool) -> list[Any]:
    EXPIRED(live, now, inclusive)
    return []


def kept_always(before: Any, after: Any) -> bool:
    return {one.name for one in after.quantities} <= {one.name for one in before.quantities}


def half_a_checkpoint(fold: Any) -> bytes:
    """A checkpoint that forgets how many rounds were learnt."""
    saved = json.loads(TO_BYTES(fold))
    return json.dumps({**saved, "rounds": 0}).encode()


DRAW, EXPIRED, TO_BYTES = Live._draw, Live._expired, Fold.to_bytes
BROKEN: dict[str, tuple[Any, str, Any]] = {
    "learns out of order": (order_module.Order, "released", out_of_order),
    "renormalises": (Live, "_narrowed", renormalised),
    "serves while held": (Live, "_current", heedless),
    "uses numbers twice": (Live, "_draw", forgetful_draw),
    "takes what is missing as good": (Fold, "_costs", optimistic),
    "never times out": (Live, "_expired", no_time_outs),
    "does not write time-outs": (Live, "_expired", unwritten_time_outs),
    "keeps what means something else": (live_module, "means_the_same", kept_always),
    "checkpoints are not complete": (Fold, "to_bytes", half_a_checkpoint),
    "feedback again is learnt again": (Live, "_report_again", lambda live, i, values, now, events: "accepted"),
    "conflicts pass": (Live, "_agree", lambda *_: None),
    "units are not remembered": (Live, "_earlier", lambda *_: []),
    "cancelled rounds are learnt": (order_module, "CANCELLED", -1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_walks_find_what_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[name])
    with pytest.raises((AssertionError, ValueError, LookupError, RuntimeError)):
        walks(30, 60)


def walks(seeds: int, steps: int) -> None:
    for seed in range(seeds):
        walk(machine("durable memory"), seed, steps)


@pytest.mark.parametrize("state", [b"", b"{}", b"nonsense", b'{"created": 3}'])
def test_a_checkpoint_that_cannot_be_read_is_ignored(state: bytes) -> None:
    live = sf.Live(make(), seed=1)
    for t in range(20):
        live.feedback(live.decide(now=float(t)).id, GOOD, now=float(t))
    live.log.save_checkpoint(live._fold.last, state)
    assert sf.Live.of(live.log)._fold.digest() == live._fold.digest()
    live.log.save_checkpoint(live._fold.last + 5, live._fold.to_bytes())  # it claims events that are not in it
    assert sf.Live.of(live.log)._fold.digest() == live._fold.digest()


@pytest.mark.parametrize(
    "forged",
    [
        {"weight": 5.0}, {"weight": -1.0}, {"weight": float("nan")}, {"weight": None}, {"lease": None},
        {"strategy": [0.5, 0.2, 0.2]}, {"strategy": [1.0]}, {"strategy": None}, {"strategy": [float("nan")] * 3},
    ],
)  # fmt: skip
def test_forged_snapshots_are_refused_and_change_nothing(forged: dict[str, Any]) -> None:
    live = sf.Live(make(), seed=1)
    before = digest(live)
    with pytest.raises(sf.RuleError, match=rf"^snapshot\.{next(iter(forged))}"):
        live.decide(0.0, snapshot=live.snapshot(0.0)._replace(**forged))
    assert digest(live) == before


@pytest.mark.parametrize("forged", [{"mode": "foo"}, {"epoch": 7}, {"strategy": [1.0, 0.0, 0.0]}, {"lease": -1.0}])
def test_snapshots_that_do_not_hold_give_the_baseline(forged: dict[str, Any]) -> None:
    live = sf.Live(make(), seed=1)
    choice = live.decide(0.0, snapshot=live.snapshot(0.0)._replace(**forged))
    assert (choice.mode, choice.arm) == ("safe", "c")


def test_text_that_cannot_be_written_is_refused() -> None:
    live = sf.Live(make(), seed=1)
    with pytest.raises(sf.RuleError, match="key must be text"):
        live.decide(0.0, key="\ud800")


class Unwritable(sf.MemoryLog):
    """A log that fails after the state has changed."""

    fails = False

    def append(self, events: Sequence[Event], rounds: Sequence[Settled] = ()) -> int:
        if self.fails:
            raise ValueError("this cannot be written down")
        return super().append(events, rounds)


def test_a_state_that_is_ahead_of_its_log_is_not_used_again() -> None:
    log = Unwritable()
    live = sf.Live(make(), 1, log=log)
    live.decide(0.0)
    log.fails = True
    with pytest.raises(ValueError, match="cannot be written down"):
        live.decide(0.0)
    log.fails = False
    with pytest.raises(RuntimeError, match="must be opened again"):
        live.decide(0.0)
    assert sf.Live.of(log).status().decisions == 1


def test_an_interrupted_draw_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    live, drawn = sf.Live(make(), 1), Live._uniform

    def interrupted(self: Live, i: int, person: bytes = b"") -> float:
        if i == 3:
            raise KeyboardInterrupt
        return drawn(self, i, person)

    monkeypatch.setattr(Live, "_uniform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.decide(0.0, n=5)
    monkeypatch.undo()
    again = sf.Live.of(live.log)
    assert live.broken or digest(live) == digest(again)
