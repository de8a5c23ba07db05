"""Every log keeps the contract, and logs that are wrong in one way do not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import surefoot as sf
from surefoot.experiments.events import Decided, Event, Log, Settled
from surefoot.storage import open_log
from surefoot.testing import StorageContract
from tests.servers import Postgres


class TestMemory(StorageContract):
    def open(self, path: Path) -> Log:
        return sf.MemoryLog()


class TestSQLite(StorageContract):
    def open(self, path: Path) -> Log:
        return open_log(path)


class TestPostgreSQL(StorageContract):
    """A path is the name of a database."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self._postgres, self._known = postgres, dict[Path, str]()

    def open(self, path: Path) -> Log:
        if path not in self._known:
            self._known[path] = self._postgres.database(f"contract_{uuid.uuid4().hex}")
        return open_log(self._known[path])


class TestOneOfSeveral(StorageContract):
    """A log that shares its database with another experiment, which has as many decisions, keys and checkpoints."""

    def open(self, path: Path) -> Log:
        if not path.exists():
            other = open_log(path)
            live = sf.Live(
                sf.Experiment(
                    "other", arms=["a", "b"], objective=sf.Maximise("y"), guardrails=[], baseline="a", timeout=1
                ),
                seed=1,
                log=other,
            )
            for i in range(15):
                live.decide(0.0, key="k" if i < 3 else None)
            live.expire(9.0)
            other.save_checkpoint(3, b"other")
            other.close()
        return open_log(path, "contract")


class Rounding(sf.MemoryLog):
    """It keeps six digits."""

    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        for number, event in super().read(after):
            fields: dict[str, Any] = {name: float(f"{value:.6g}") if type(value) is float else value
                      for name, value in event._asdict().items()}  # fmt: skip
            kind: Any = type(event)
            yield number, kind(**fields)


class FromZero(sf.MemoryLog):
    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        for number, event in super().read(after):
            yield number - 1, event


class Backwards(sf.MemoryLog):
    def append(self, events: Sequence[Event], rounds: Sequence[Settled] = ()) -> int:
        return super().append(list(reversed(events)), rounds)


class LooseKeys(sf.MemoryLog):
    """Keys are compared without case, as some databases do."""

    def with_key(self, key: str) -> list[Decided]:
        return [one for name, some in self._keys.items() if name.lower() == key.lower() for one in some]


class Forgetful(sf.MemoryLog):
    """It says that it is durable, and is not."""

    durable = True


class FirstCheckpoint(sf.MemoryLog):
    def save_checkpoint(self, last: int, state: bytes) -> None:
        if not self._checkpoints:
            super().save_checkpoint(last, state)


class NewestCheckpoint(sf.MemoryLog):
    """It keeps no earlier ones."""

    def save_checkpoint(self, last: int, state: bytes) -> None:
        self._checkpoints = {last: state}


class EveryCheckpoint(sf.MemoryLog):
    """It drops none."""

    def save_checkpoint(self, last: int, state: bytes) -> None:
        self._checkpoints[last] = state


class NotBefore(sf.MemoryLog):
    """It gives a state that the event is in."""

    def checkpoint(self, before: int | None = None) -> tuple[int, bytes] | None:
        return super().checkpoint(None if before is None else before + 1)


class DecidedByPlace(sf.MemoryLog):
    """It takes the number of a decision for its place in the log."""

    def decided(self, number: int) -> tuple[int, Decided] | None:
        found = [one for one in self.read() if isinstance(one[1], Decided)]
        return found[number] if number < len(found) else None  # type: ignore[return-value]


class AboutAll(sf.MemoryLog):
    """What is about decision 11 counts as about decision 1."""

    def about(self, number: int) -> list[Event]:
        return [event for i, some in self._about.items() if str(i).startswith(str(number)) for event in some]


class FirstRounds(sf.MemoryLog):
    """It counts rounds from 0."""

    def rounds(self, after: int = 0, limit: int | None = None) -> Iterator[Settled]:
        return super().rounds(max(0, after - 1), limit)


class Hiding(sf.MemoryLog):
    """It shows only what was waited for."""

    shown = 0

    def wait(self, ticket: int) -> None:
        self.shown = ticket

    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        return (one for one in super().read(after) if one[0] <= self.shown)


REFUSED_BY: dict[Any, str] = {
    Rounding: "test_events_come_back_exactly",
    FromZero: "test_events_are_numbered_from_1_in_the_order_of_append",
    Backwards: "test_events_are_numbered_from_1_in_the_order_of_append",
    LooseKeys: "test_with_key_gives_the_decisions_under_a_key",
    Forgetful: "test_a_log_outlives_its_process",
    FirstCheckpoint: "test_the_newest_checkpoint_is_kept",
    NewestCheckpoint: "test_earlier_checkpoints_are_kept_but_not_too_many",
    EveryCheckpoint: "test_checkpoints_are_not_too_large_together",
    NotBefore: "test_checkpoints_are_not_too_large_together",
    DecidedByPlace: "test_decided_gives_a_decision_and_the_number_of_its_event",
    AboutAll: "test_about_gives_what_followed_a_decision",
    FirstRounds: "test_rounds_are_read_from_a_number_on",
    Hiding: "test_what_was_appended_is_seen_at_once",
}


@pytest.mark.parametrize("wrong", REFUSED_BY, ids=lambda wrong: str(wrong.__name__))
def test_wrong_logs_are_refused(wrong: Any, tmp_path: Path) -> None:
    class Contract(StorageContract):
        def open(self, path: Path) -> Log:
            return wrong()  # type: ignore[no-any-return]

    clause = REFUSED_BY[wrong]
    arguments = ("decided",) if clause == "test_events_come_back_exactly" else ()
    with pytest.raises((AssertionError, ValueError)):
        getattr(Contract(), clause)(tmp_path / "log", *arguments)
