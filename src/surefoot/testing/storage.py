"""The contract of every log, as a test class to inherit from."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from surefoot.experiments import events as ev
from surefoot.experiments.events import Event, Log

AWKWARD = (0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.12345679)
"""Numbers that a careless writer rounds."""


class StorageContract:
    """The contract of `surefoot.Log`, one test a clause. Inherit from it and define `open`.

    Examples
    --------
    >>> import surefoot as sf
    >>> from surefoot.testing import StorageContract
    >>> class TestMine(StorageContract):
    ...     def open(self, path):
    ...         return sf.MemoryLog()
    >>> TestMine().test_a_new_log_is_empty(None)
    """

    def open(self, path: Path) -> Log:
        """Open the log at this place, or begin one. The file exists only if `open` has made it."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Where the log of a test is kept."""
        return tmp_path / "log"

    def begun(self, path: Path, more: int = 0) -> Log:
        """A log of an experiment with this many decisions."""
        log = self.open(path)
        log.wait(log.append([first(), *(decided(i) for i in range(more))]))
        return log

    def test_a_new_log_is_empty(self, path: Path) -> None:
        """Nothing is in it, and to ask for anything is no error."""
        log = self.open(path)
        assert list(log.read()) == []
        assert log.checkpoint() is None
        assert log.about(0) == []
        assert log.with_key("k") == []
        assert log.decided(0) is None
        log.close()

    def test_events_are_numbered_from_1_in_the_order_of_append(self, path: Path) -> None:
        """Numbers have no gaps, within a call and between calls."""
        log = self.open(path)
        written: list[Event] = [first(), *(decided(i) for i in range(50))]
        for start, end in ((0, 1), (1, 2), (2, 30), (30, 51)):
            log.append(written[start:end])
        assert list(log.read()) == list(enumerate(written, 1))
        log.close()

    def test_tickets_are_never_0(self, path: Path) -> None:
        """`append` returns a ticket that is true, and larger than those before."""
        log = self.open(path)
        tickets = [log.append([first()]), log.append([decided(0)]), log.append([decided(1), decided(2)])]
        assert 0 < tickets[0] < tickets[1] < tickets[2]
        log.close()

    def test_reading_begins_after_a_number(self, path: Path) -> None:
        """`read(after)` gives what comes after it, with the same numbers."""
        log = self.begun(path, 20)
        everything = list(log.read())
        for after in (0, 1, 7, 20, 21, 100):
            assert list(log.read(after)) == everything[after:]
        log.close()

    def test_more_events_than_are_read_at_once(self, path: Path) -> None:
        """Long logs are read completely."""
        log = self.begun(path, 12_000)
        assert [number for number, _ in log.read()] == list(range(1, 12_002))
        assert [event.number for _, event in log.read(1)] == list(range(12_000))  # type: ignore[union-attr]
        log.close()

    def test_what_was_appended_is_seen_at_once(self, path: Path) -> None:
        """`read`, `about`, `decided` and `with_key` see events that nobody has waited for."""
        log = self.begun(path)
        log.append([decided(0, key="k"), ev.Reported(0, {"y": 0.5}, 1.0)])
        assert [number for number, _ in log.read()] == [1, 2, 3]
        log.append([decided(1, key="k"), ev.Expired(1, 2.0)])
        assert log.about(1) == [ev.Expired(1, 2.0)]
        assert log.decided(1) == (4, decided(1, key="k"))
        assert log.with_key("k") == [decided(0, key="k"), decided(1, key="k")]
        log.close()

    def test_about_gives_what_followed_a_decision(self, path: Path) -> None:
        """All of it, in order, and nothing about other decisions; the decision itself is not part of it."""
        log = self.begun(path, 12)
        follow: list[Event] = [ev.Reported(1, {"y": 0.5}, 1.0), ev.Expired(1, 9.0), ev.Late(1, {"x": 0.25}, 10.0)]
        log.append([follow[0], ev.Cancelled(11, "no"), follow[1]])
        log.wait(log.append([ev.Held("wait"), ev.Observed("a", {"x": 1.0}), ev.Reported(0, {"y": 0.0}, 2.0)]))
        log.append([follow[2]])
        assert log.about(1) == follow
        assert log.about(11) == [ev.Cancelled(11, "no")]
        assert log.about(5) == []
        log.close()

    def test_decided_gives_a_decision_and_the_number_of_its_event(self, path: Path) -> None:
        """Also of one that was drawn elsewhere, and never what followed it."""
        log, far = self.begun(path, 12), 7 * ev.ELSEWHERE + 1
        log.append([ev.Reported(1, {"y": 0.5}, 1.0), decided(far)])
        log.wait(log.append([ev.Expired(far, 9.0)]))
        assert log.decided(1) == (3, decided(1))
        assert log.decided(11) == (13, decided(11))
        assert log.decided(far) == (15, decided(far))
        assert log.decided(12) is None
        log.close()

    def test_with_key_gives_the_decisions_under_a_key(self, path: Path) -> None:
        """Exactly that key, whatever its characters."""
        log, keys = self.begun(path), ["k", "K", "k ", "k%", "_", "ключ", "k'; --", "x" * 500]
        log.append([decided(i, key=key) for i, key in enumerate(keys)])
        log.wait(log.append([decided(8, key="k"), decided(9)]))
        assert log.with_key("k") == [decided(0, key="k"), decided(8, key="k")]
        for i, key in enumerate(keys[1:], 1):
            assert log.with_key(key) == [decided(i, key=key)]
        assert log.with_key("None") == []
        log.close()

    @pytest.mark.parametrize("kind", sorted(ev.KINDS))
    def test_events_come_back_exactly(self, path: Path, kind: str) -> None:
        """Every kind of event, with every field, floats bit for bit."""
        log = self.open(path)
        log.wait(log.append([first(), *(made(kind, number) for number in AWKWARD)]))
        if log.durable:
            log.close()
            log = self.open(path)
        back = [event for _, event in log.read(1)]
        for event, number in zip(back, AWKWARD, strict=True):
            assert repr(plain(event)) == repr(plain(made(kind, number)))  # -0.0 and 0.0 are not the same
            assert type(event) is ev.KINDS[kind]
        log.close()

    def test_no_kind_of_event_is_left_out(self) -> None:
        """The clause above has an example of each kind."""
        assert {kind: type(made(kind, 0.5)) for kind in ev.KINDS} == ev.KINDS

    def test_rounds_are_read_from_a_number_on(self, path: Path) -> None:
        """As many as asked for, exactly as they were, also those that nobody has waited for."""
        log = self.begun(path)
        rounds = [settled(i, AWKWARD[i % len(AWKWARD)]) for i in range(1, 9)]
        log.append([decided(0)], rounds[:3])
        log.wait(log.append([decided(1)], rounds[3:5]))
        log.append([decided(2)], rounds[5:])
        assert list(log.rounds()) == rounds
        for after in (0, 2, 7, 8, 20):
            assert list(log.rounds(after)) == rounds[after:]
            assert list(log.rounds(after, 3)) == rounds[after : after + 3]
        log.close()
        if log.durable:
            log = self.open(path)
            assert list(log.rounds()) == rounds
            log.close()

    def test_the_newest_checkpoint_is_kept(self, path: Path) -> None:
        """A state comes back byte for byte once later events are durable; a newer one takes its place."""
        log, state = self.begun(path, 3), bytes(range(256)) * 5
        log.save_checkpoint(2, b"old")
        log.wait(log.append([decided(3)]))
        log.save_checkpoint(5, state)
        log.wait(log.append([decided(4)]))
        assert log.checkpoint() == (5, state)
        log.close()
        if log.durable:
            log = self.open(path)
            assert log.checkpoint() == (5, state)
            assert [number for number, _ in log.read(5)] == [6]
            log.close()

    def test_earlier_checkpoints_are_kept_but_not_too_many(self, path: Path) -> None:
        """The newest one before an event is found; older ones lie further apart."""
        log, saved = self.begun(path), list(range(100, 30_100, 100))
        for last in saved:
            log.save_checkpoint(last, str(last).encode())
            if last % 1_000 == 0:
                log.wait(log.append([decided(last)]))
        found, before = [], None
        while (one := log.checkpoint(before)) is not None:
            assert before is None or one[0] < before
            before = one[0]
            assert one[1] == str(before).encode()
            found.append(before)
        log.close()
        assert found[0] == 30_000
        assert set(found) <= set(saved)
        assert 16 <= len(found) <= ev.MOST_CHECKPOINTS
        ages = [found[0] - seq for seq in found]
        assert all(later <= 2 * age + 2_000 for age, later in itertools.pairwise(ages))

    def test_checkpoints_are_not_too_large_together(self, path: Path) -> None:
        """Fewer are kept if they are large, but always the newest."""
        log, most = self.begun(path), 100_000
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ev.superfluous, "__defaults__", (ev.MOST_CHECKPOINTS, most))
            for i in range(5):
                log.save_checkpoint(i + 1, bytes(most // 3))
                log.wait(log.append([decided(i)]))
            log.save_checkpoint(6, bytes(most + 1))
            log.wait(log.append([decided(5)]))
        found = log.checkpoint()
        assert found is not None
        assert found[0] == 6
        assert log.checkpoint(before=6) is None
        log.close()

    def test_wait_from_many_threads(self, path: Path) -> None:
        """Appending one at a time and waiting side by side: all events are there, each once."""
        log, lock = self.begun(path), threading.Lock()
        errors: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(25):
                    with lock:
                        ticket = log.append([decided(next(numbers))])
                    log.wait(ticket)
            except BaseException as error:
                errors.append(error)

        numbers = iter(range(1_000))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert [event.number for _, event in log.read(1)] == list(range(200))  # type: ignore[union-attr]
        log.close()

    def test_a_log_outlives_its_process(self, path: Path) -> None:
        """A durable log has everything again when it is opened, and goes on with the next number."""
        log = self.begun(path, 4)
        before = list(log.read())
        log.append([decided(4)])  # nobody waits: `close` makes it durable
        log.close()
        if log.durable:
            log = self.open(path)
            assert list(log.read()) == [*before, (6, decided(4))]
            log.wait(log.append([decided(5)]))
            assert list(log.read(6)) == [(7, decided(5))]
            log.close()

    def test_what_was_waited_for_survives_a_crash(self, path: Path) -> None:
        """A durable log that was never closed has everything that `wait` returned for."""
        log = self.begun(path, 4)
        if log.durable:
            again = self.open(path)
            assert list(again.read()) == list(enumerate([first(), *(decided(i) for i in range(4))], 1))
            again.close()
        log.close()


def first() -> ev.Created:
    """The first event of a log; a log knows nothing of an experiment but its name."""
    return ev.Created({"name": "contract"}, "00ff", False, {"python": "3"})


def decided(number: int, key: str | None = None) -> ev.Decided:
    """A decision."""
    return ev.Decided(number, "a", 0.1 + 0.2, 0.7, "live", 0, 1.0, 61.0, None, key)


def settled(seq: int, number: float) -> ev.Settled:
    """A round; every third one is an observation."""
    if seq % 3 == 0:
        return ev.Settled(seq, 1, None, "ö", None, "observation", None, {"y": number}, 0.0)
    return ev.Settled(seq, 0, 7 * 2**32 + seq, "a", number, "feedback", number, {"y": number, "ö": 1.0}, number)


def made(kind: str, number: float) -> Event:
    """An event of a kind, with a number in it if the kind has numbers."""
    experiment = {"name": "contract", "arms": ["a", "ö"], "delta": number, "horizon": None}
    examples: dict[str, Event] = {
        "created": ev.Created(experiment, "00ff", True, {"cpu": "x", "lanes": 4}),
        "decided": ev.Decided(7, "ö", number, number, "shadow", 2, number, number, "unit", "key", "a"),
        "reported": ev.Reported(7, {"y": number, "ö": 1.0}, number),
        "expired": ev.Expired(7, number),
        "late": ev.Late(7, {"y": number}, number),
        "cancelled": ev.Cancelled(7, "because\n\"'"),
        "observed": ev.Observed("a", {"y": number}),
        "alarm": ev.Alarm("served", "spend", None, 12, "too high", True),
        "measured": ev.Measured([number, 0.5]),
        "held": ev.Held("wait"),
        "resumed": ev.Resumed("go"),
        "switched": ev.Switched(True, "look"),
        "ended": ev.Ended("enough"),
        "changed": ev.Changed(3, experiment, False, "new"),
    }
    return examples[kind]


def plain(event: Event) -> dict[str, Any]:
    """The fields of an event; a log may give lists for tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in event._asdict().items()}
