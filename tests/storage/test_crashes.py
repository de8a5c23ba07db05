"""Nothing that was answered is lost: killed processes, full disks, two writers."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import surefoot as sf
from surefoot.experiments import live as live_module
from surefoot.experiments.events import Cancelled, Created, Decided, Expired, Reported
from surefoot.storage import open_log
from surefoot.storage.database import Database
from surefoot.storage.log import SqlLog
from tests.experiments.worlds import GOOD, digest, make, replayed

FORK = multiprocessing.get_context("fork")  # so that nothing is imported again
KILLS = 12


@contextmanager
def child(work: Callable[[Path, Any], None], path: Path) -> Iterator[tuple[Any, Any]]:
    """Run work in another process, which sends what was answered."""
    receiver, sender = os.pipe()
    process = FORK.Process(target=work, args=(path, sender))
    process.start()
    os.close(sender)
    with os.fdopen(receiver) as lines:
        yield process, lines
    process.join()


def say(sender: int, *words: object) -> None:
    """Send a line at once."""
    os.write(sender, (" ".join(map(str, words)) + "\n").encode())


def full_flight(path: Path, sender: int) -> None:
    """Decide and report from several threads; say every answer."""
    live_module.CHECKPOINT_EVERY = 15
    live = sf.Live.open(path)

    def work(thread: int) -> None:
        rng = random.Random()  # nobody counts on these numbers
        while True:
            now = time.time()
            d = live.decide(now, key=f"key {rng.random()}" if thread == 0 else None)
            say(sender, "decided", d.id, d.arm)
            fate = rng.random()
            if fate < 0.1:
                live.cancel(d.id)
                say(sender, "cancelled", d.id)
            elif fate < 0.8:
                quality = rng.choice([0.5, 1.0, 2.0])
                assert live.feedback(d.id, {**GOOD, "quality": quality}, now) == "accepted"
                say(sender, "reported", d.id, quality)
            elif fate < 0.9:
                live.expire(now)

    for thread in range(4):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    threading.Event().wait()


def killed_again_and_again(path: Path, kills: int) -> list[list[str]]:
    """Kill a process at random moments while it runs on the same file; returns what it had answered."""
    rng, said = random.Random(1), []
    for _ in range(kills):
        with child(full_flight, path) as (process, lines):
            said.append(lines.readline())
            time.sleep(rng.uniform(0.0, 0.4))
            process.kill()
            said += lines.readlines()
        assert process.exitcode == -signal.SIGKILL
    return [line.split() for line in said if line.endswith("\n")]


def lost(path: Path, said: list[list[str]]) -> list[list[str]]:
    """Which answers the log does not have."""
    log = open_log(path)
    events = [event for _, event in log.read()]
    assert isinstance(events[0], Created)
    prefix = events[0].key[:8]
    has = {("decided", f"{prefix}-{one.number}", one.arm) for one in events if isinstance(one, Decided)}
    has |= {
        ("reported", f"{prefix}-{one.number}", str(one.outcome["quality"]))
        for one in events
        if isinstance(one, Reported)
    }
    has |= {("cancelled", f"{prefix}-{one.number}") for one in events if isinstance(one, Cancelled)}  # type: ignore[misc]
    log.close()
    return [words for words in said if tuple(words) not in has]


def test_killed_in_full_flight(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    sf.Live.open(path, make(timeout=0.05), seed=1).close()
    said = killed_again_and_again(path, KILLS)
    decided = [words[1] for words in said if words[0] == "decided"]
    assert len(decided) > KILLS
    assert len(set(decided)) == len(decided), "an id was given twice"
    assert lost(path, said) == []
    with sf.Live.open(path) as live:
        assert live.log.checkpoint() is not None
        assert digest(live) == replayed(live)
        numbers = [event.number for _, event in live.log.read() if isinstance(event, Decided)]
        assert numbers == list(range(len(numbers)))
        assert any(isinstance(event, Expired) for _, event in live.log.read())
        assert live.status().rounds > KILLS


def test_answers_before_the_commit_would_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a log that does not wait."""
    path = tmp_path / "log.db"
    sf.Live.open(path, make(timeout=0.05), seed=1).close()
    monkeypatch.setattr(SqlLog, "wait", lambda *_: None)
    said = killed_again_and_again(path, 1)
    monkeypatch.undo()
    assert lost(path, said)


# A full disk.


def until_it_fails(live: sf.Live, sender: int = -1) -> tuple[list[str], Exception]:
    """Decide until the log fails; returns the ids that were given."""
    given: list[str] = []
    while True:
        try:
            d = live.decide(0.0, unit="x" * 400 + str(len(given)))
        except Exception as error:
            return given, error
        given.append(d.id)


def assert_reopens(path: Path, given: list[str]) -> None:
    """Everything that was answered is there, and the experiment goes on."""
    with sf.Live.open(path) as again:
        assert again.status().decisions >= len(given) > 0
        assert digest(again) == replayed(again)
        for id in given:
            assert again.feedback(id, GOOD, 1.0) == "accepted"
        assert again.decide(2.0).id not in given


FULL = r"the log could not be written \(.*\); what was not answered is lost, open it again to go on"


def test_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    live = sf.Live.open(path, make(), seed=1)
    database: Database = live.log.database  # type: ignore[attr-defined]

    def limit(connection: sa.Connection) -> None:  # of the writer: each connection has its own
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")

    database.wait(database.add([], {"limit": limit}))
    given, error = until_it_fails(live)
    assert isinstance(error, sf.LogFailure)
    with pytest.raises(sf.LogFailure, match=FULL.replace(".*", "database or disk is full")):
        raise error
    for call in (
        lambda: live.decide(0.0),
        lambda: live.feedback(given[0], GOOD, 0.0),
        live.status,
        lambda: live.hold("x"),
    ):
        with pytest.raises(
            sf.LogFailure, match=r"this experiment must be opened again: the log could not be written \("
        ):
            call()
    live.close()
    assert_reopens(path, given)


def file_limit(path: Path, sender: int) -> None:
    """Run with a limit on the size of files, and say what was answered."""
    live = sf.Live.open(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    given, error = until_it_fails(live)
    for id in given:
        say(sender, "given", id)
    say(sender, type(error).__name__, error)


def test_file_that_may_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    sf.Live.open(path, make(), seed=1).close()
    with child(file_limit, path) as (_, lines):
        *said, last = lines.readlines()
    assert last.startswith("LogFailure the log could not be written ("), last
    assert_reopens(path, [line.split()[1] for line in said])


# Two writers.


def open_elsewhere(path: Path, sender: Any) -> None:
    try:
        sf.Live.open(path)
    except sf.LogFailure as error:
        say(sender, type(error).__name__, error)


def test_an_experiment_is_run_by_one_process(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    first = sf.Live.open(path, make(), seed=1)
    with child(open_elsewhere, path) as (_, lines):
        assert lines.read() == "Claimed the experiment routing is open in another process\n"
    assert first.feedback(first.decide(0.0).id, GOOD, 0.0) == "accepted"
    other = sf.Experiment.from_dict({**make().to_dict(), "name": "other"})
    with sf.Live.open(path, other, seed=1) as beside:  # another experiment in the same file
        beside.decide(0.0)
    first.close()
    with sf.Live.open(path, make()) as again:
        assert again.status().rounds == 1


def test_the_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    first = sf.Live.open(path, make(), seed=1)
    second = sf.Live.open(path)
    d = first.decide(0.0)
    with pytest.raises(sf.LogFailure, match="the log was written by another process meanwhile; open it again to go on"):
        second.decide(0.0)
    with pytest.raises(sf.LogFailure, match="must be opened again"):
        second.feedback(d.id, GOOD, 0.0)
    second.close()
    assert first.feedback(d.id, GOOD, 0.0) == "accepted"
    assert digest(first) == replayed(first)
    first.close()
    assert_reopens_as(path, digest(first))


def assert_reopens_as(path: Path, expected: str) -> None:
    with sf.Live.open(path) as again:
        assert digest(again) == replayed(again) == expected


def test_a_writer_that_comes_back_is_refused(tmp_path: Path) -> None:
    """Also if the other one is gone, and has written less than this one wants to."""
    path = tmp_path / "log.db"
    first = sf.Live.open(path, make(), seed=1)
    first.decide(0.0)
    with sf.Live.open(path) as other:
        d = other.decide(0.0)
        expected = digest(other)
    with pytest.raises(sf.LogFailure, match="another process"):
        first.decide(0.0, n=5)
    first.close()
    assert_reopens_as(path, expected)
    with sf.Live.open(path) as again:
        assert again.feedback(d.id, GOOD, 0.0) == "accepted"


def test_two_beginnings(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    logs = open_log(path), open_log(path)
    live = sf.Live(make(), 1, log=logs[0])
    with pytest.raises(sf.Conflict, match="already"):
        sf.Live(make(), 2, log=logs[1])
    live.decide(0.0)
    assert digest(live) == replayed(live)
    for log in logs:
        log.close()


# What is not a log.


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, other, folder = tmp_path / "text", tmp_path / "other.db", tmp_path / "no" / "log.db"
    text.write_text("hello " * 1000)
    with pytest.raises(sf.LogFailure, match="the database cannot be opened: file is not a database"):
        sf.Live.open(text, make())
    with pytest.raises(sf.LogFailure, match="the database cannot be opened: unable to open database file"):
        sf.Live.open(folder, make())
    import sqlite3

    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE things (x)")
    connection.close()
    with pytest.raises(sf.RuleError, match="db must be empty or have the tables of surefoot, got tables things"):
        sf.Live.open(other, make())
    with pytest.raises(sf.RuleError, match=r"path must be a log that exists, if no experiment is given, got .*new\.db"):
        sf.Live.open(tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
    (tmp_path / "empty.db").touch()
    with pytest.raises(sf.RuleError, match="experiment must be given to begin a log that is empty, got None"):
        sf.Live.open(tmp_path / "empty.db")
    with pytest.raises(sf.RuleError, match="path must be the path of a file, got ''"):
        sf.Live.open("")


def test_another_experiment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    sf.Live.open(path, make(), seed=1).close()
    with pytest.raises(
        sf.RuleError, match=r"experiment must be the one in the log, or left out \(`change` begins a new"
    ):
        sf.Live.open(path, make(timeout=11.0))
    sf.Live.open(path, make()).close()
