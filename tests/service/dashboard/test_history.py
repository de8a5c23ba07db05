"""A history is a fold over rounds: the same whatever the chunks, bounded, and never trusted more than the rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.service.dashboard import histories as keeping
from surefoot.service.dashboard import history as history_module
from surefoot.service.dashboard.histories import Histories
from surefoot.service.dashboard.history import MOST_BUCKETS, RECENT_BUCKETS, RECENT_WIDTH, UNIT, History, Row
from surefoot.storage.database import Database
from surefoot.storage.histories import load_history, rounds_after, save_history
from surefoot.storage.schema import experiments, rounds
from tests.service.dashboard.worlds import noted
from tests.storage.test_databases import url

__all__ = ["url"]


def made(lengths: list[int], n_arms: int = 5, seed: int = 0) -> list[Row]:
    """Rounds of epochs of these lengths; some time out, some are observations, guardrails come and go."""
    rng, found = np.random.default_rng(seed), list[Row]()
    for epoch, length in enumerate(lengths):
        names = ["spend", 'a "quoted" name'][: 1 + epoch % 2] + ["extra"] * (epoch % 3 == 2)
        for _ in range(length):
            seq, source = len(found) + 1, rng.choice(["feedback", "timeout", "observation"], p=[0.8, 0.15, 0.05])
            costs = json.dumps({name: float(rng.random()) for name in names})
            arm, at = f"arm {rng.integers(n_arms)}", 10.0 * seq - float(rng.random())
            if source == "observation":
                found.append(Row(seq, epoch, None, arm, str(source), None, costs, 0.0))
            else:
                found.append(Row(seq, epoch, 7 * seq, arm, str(source), float(rng.random()), costs, at))
    return found


def fed(rows: list[Row], sizes: list[int]) -> History:
    """The history of these rounds in chunks of these sizes, by turns."""
    history, start, turn = History(), 0, 0
    while start < len(rows):
        end = start + sizes[turn % len(sizes)]
        history.add(rows[start:end])
        start, turn = end, turn + 1
    return history


@pytest.mark.parametrize("lengths", [[3_000], [1, 2, 700, 0, 5, 1_500], [900, 900, 900]], ids=str)
def test_chunks_make_no_difference(lengths: list[int]) -> None:
    rows = made(lengths)
    expected = fed(rows, [len(rows)])
    for sizes in ([1], [2, 3], [977], [1, 500, 13], [400]):
        assert fed(rows, sizes) == expected
    saved = History.from_bytes(fed(rows[:1_234], [100]).to_bytes())
    saved.add(rows[1_234:])
    assert saved == expected


def test_chunks_would_make_a_difference_to_careless_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with sums in floating point the test above would fail."""
    monkeypatch.setattr(history_module, "UNIT", 2.0**-52)  # finer than sums of doubles can be kept
    monkeypatch.setattr(history_module, "in_units", lambda values: values / 2.0**-52)
    rows = made([3_000])
    assert fed(rows, [len(rows)]) != fed(rows, [977])


def test_it_is_what_a_loop_over_the_rounds_finds() -> None:
    rows = made([40, 5_000, 300])
    history = fed(rows, [512])
    assert history.seq == rows[-1].seq
    start = 0
    served = [row for row in rows if row.decision is not None]
    for bucket in history.buckets:
        some = served[start : start + bucket.count]
        start += bucket.count
        assert {row.epoch for row in some} == {bucket.epoch}
        assert (bucket.last, bucket.decision) == (some[-1].seq, some[-1].decision)
        assert (bucket.since, bucket.at) == (min(row.at for row in some), max(row.at for row in some))
        assert bucket.lost == sum(row.source == "timeout" for row in some) == bucket.count - bucket.fed
        assert bucket.loss * UNIT == pytest.approx(sum(row.loss or 0.0 for row in some if row.source == "feedback"))
        for name in json.loads(some[0].costs):
            assert bucket.costs[name] * UNIT == pytest.approx(sum(json.loads(row.costs)[name] for row in some))
        for place, count in bucket.arms.items():
            assert count == sum(row.arm == history.arms[place] for row in some)
        assert sum(bucket.arms.values()) == bucket.count
    assert start == len(served)
    for epoch, totals in history.totals.items():
        for place, total in totals.items():
            some = [row for row in served if row.epoch == epoch and row.arm == history.arms[place]]
            losses = np.array([row.loss for row in some if row.source == "feedback"])
            assert (total.count, total.fed, total.lost) == (len(some), len(losses), len(some) - len(losses))
            assert (total.mean, total.variance) == pytest.approx((losses.mean(), losses.var()))
    newest = [row for row in served if row.epoch == 2]
    kept = sum(one.count for one in history.recent)
    assert kept == min(len(newest), RECENT_WIDTH * (RECENT_BUCKETS - 1) + (len(newest) - 1) % RECENT_WIDTH + 1)
    assert sum(one.costs["spend"] for one in history.recent) * UNIT == pytest.approx(
        sum(json.loads(row.costs)["spend"] for row in newest[-kept:])
    )


def test_every_epoch_keeps_its_resolution() -> None:
    history = fed(made([6_000, 10, 6_000]), [1_000])
    counts = [sum(one.epoch == epoch for one in history.buckets) for epoch in range(3)]
    assert MOST_BUCKETS / 2 <= sum(counts) <= MOST_BUCKETS
    assert counts[0] >= MOST_BUCKETS / 8
    assert counts[2] >= MOST_BUCKETS / 8
    assert counts[1] >= 5


def test_more_epochs_than_buckets() -> None:
    history = fed(made([2] * 500), [7])
    assert len(history.buckets) <= MOST_BUCKETS
    assert history.buckets[-1].epoch == 499
    assert set(history.totals) == set(history.widths) == {one.epoch for one in history.buckets}


def test_a_thousand_arms_are_few_bytes() -> None:
    history = fed(made([8_000], n_arms=1_000), [5_000])
    assert len(history.arms) > 990
    assert len(history.to_bytes()) < 500_000


@pytest.mark.parametrize("data", [b"", b"nonsense", History().to_bytes()[:-4]])
def test_what_is_no_history_is_refused(data: bytes) -> None:
    with pytest.raises(sf.RuleError, match="data must be a history that `to_bytes` wrote, got"):
        History.from_bytes(data)


# Kept in a database.


@pytest.fixture(autouse=True)
def _smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "AT_ONCE", 100)
    monkeypatch.setattr(keeping, "SAVE_EVERY", 250)


def filled(url: str, rows: list[Row]) -> Database:
    database = Database.open(url)
    with database.engine.begin() as connection:
        connection.execute(experiments.insert().values(id=1, name="x"))
    more(database, rows)
    return database


def more(database: Database, rows: list[Row]) -> None:
    with database.engine.begin() as connection:
        connection.execute(rounds.insert(), [{"experiment": 1, "propensity": None, **row._asdict()} for row in rows])


def caught_up(database: Database) -> Histories:
    histories = Histories(lambda: database)
    while not histories.catch_up(1, 1.0):
        pass
    return histories


def test_a_history_is_read_on_and_survives_a_restart(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made([600, 700])
    database = filled(url, rows[:1_000])
    first = caught_up(database)
    assert first.of(1) == fed(rows[:1_000], [50])
    more(database, rows[1_000:])
    read: list[int] = []
    monkeypatch.setattr(keeping, "rounds_after", noted(rounds_after, read, 2))
    again = caught_up(database)
    assert again.of(1) == fed(rows, [50])
    assert 750 <= min(read) <= 1_000  # it went on from the one that was saved
    behind = Histories(lambda: database)
    behind._known[1], behind._saved[1] = History(), 0
    read.clear()
    while not behind.catch_up(1, 1.0):
        pass
    assert behind.of(1) == again.of(1)
    assert len(read) < 6  # also one that another process was faster with
    database.close()


@pytest.mark.parametrize("how", ["broken", "ahead"])
def test_rounds_are_the_truth(url: str, how: str) -> None:
    rows = made([1_000])
    database = filled(url, rows[:600])
    ahead = fed(rows, [50])
    save_history(database, 1, 1_000, ahead.to_bytes() if how == "ahead" else b"broken")
    histories = caught_up(database)
    assert histories.of(1) == fed(rows[:600], [600])
    assert load_history(database, 1, 999) is None  # it was replaced
    assert caught_up(database).of(1) == fed(rows[:600], [600])
    database.close()


def test_two_processes_do_no_harm(url: str) -> None:
    rows = made([2_000])
    database = filled(url, rows[:500])
    slow, fast = Histories(lambda: database), Histories(lambda: database)
    slow.catch_up(1, 0.0)
    more(database, rows[500:])
    while not fast.catch_up(1, 1.0):
        pass
    saved = load_history(database, 1)
    while not slow.catch_up(1, 1.0):
        pass
    assert slow.of(1) == fast.of(1) == fed(rows, [2_000])
    assert load_history(database, 1) == saved
    database.close()


def test_a_history_that_cannot_be_saved_is_of_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made([700])
    database = filled(str(tmp_path / "x.db"), rows)

    def fails(*_: Any, **__: Any) -> None:
        raise sf.LogFailure("disk full")

    monkeypatch.setattr(keeping, "save_history", fails)
    assert caught_up(database).of(1) == fed(rows, [700])
    database.close()
