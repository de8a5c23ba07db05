"""Who learns an experiment, and what everybody else may draw from meanwhile.

A row of `snapshots` has both. The process that learns an experiment is its owner. A process that takes an experiment
over first writes its own name there, and then reads the log. From then on the former owner can write nothing about the
experiment, even if it has not noticed: every commit checks the owner's name (`Gate`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from surefoot.experiments.events import LogFailure
from surefoot.storage.database import Database, Work, failure_of, notify
from surefoot.storage.schema import experiments, inbox, snapshots

NEWS = "surefoot_snapshots"
"""The channel on which PostgreSQL tells of new snapshots."""
LOCK = 0x5F00_7B0C
"""The advisory lock of PostgreSQL under which rows are added to the inbox, and the epoch or the mode is changed."""
NOTHING = {"beat": 0, "taken": 0, "version": 0, "epoch": 0, "mode": "none", "body": "{}", "status": "{}"}


class Superseded(LogFailure):
    """Another process has taken the experiment over."""

    def __init__(self) -> None:
        super().__init__("another process learns the experiment now")


def take_over(database: Database, experiment: int) -> int:
    """Become the owner of an experiment; returns the last row of the inbox that was taken in."""
    try:
        with database.engine.begin() as connection:
            where = snapshots.c.experiment == experiment
            if connection.execute(snapshots.update().where(where).values(owner=database.owner)).rowcount == 0:
                row = {"experiment": experiment, "owner": database.owner, **NOTHING}
                connection.execute(snapshots.insert().values(**row))
            return int(connection.execute(sa.select(snapshots.c.taken).where(where)).scalar_one())
    except SQLAlchemyError as error:
        raise LogFailure(failure_of(error)) from error


def hand_over(experiment: int, owner: str) -> Work:
    """Stop being the owner."""
    return _owned(experiment, owner, {"owner": None})


def taken_in(experiment: int, owner: str, last: int) -> Work:
    """Note the last row of the inbox that was taken in."""
    return _owned(experiment, owner, {"taken": last})


def publish(experiment: int, owner: str, epoch: int, mode: str, body: Mapping[str, Any]) -> Work:
    """Publish what to draw from; another epoch or mode is in force for every decision that is not committed before."""
    values = {"epoch": epoch, "mode": mode, "body": json.dumps(body), "version": snapshots.c.version + 1}
    publishes = _owned(experiment, owner, values, NEWS)
    query = sa.select(snapshots.c.epoch, snapshots.c.mode).where(snapshots.c.experiment == experiment)

    def work(connection: sa.Connection) -> None:
        if tuple(connection.execute(query).one()) != (epoch, mode):
            only_one(connection)  # a decision that was checked before, and is not committed yet, comes first
        publishes(connection)

    return work


def only_one(connection: sa.Connection) -> None:
    """Wait until nobody else adds to the inbox, or changes what is in force, until the end of this transaction."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")


def publish_status(experiment: int, owner: str, status: Mapping[str, Any]) -> Work:
    """Publish the status."""
    return _owned(experiment, owner, {"status": json.dumps(status)})


def _owned(experiment: int, owner: str, values: Mapping[str, Any], news: str | None = None) -> Work:
    def work(connection: sa.Connection) -> None:
        where = snapshots.c.experiment == experiment, snapshots.c.owner == owner
        if connection.execute(snapshots.update().where(*where).values(**values)).rowcount != 1:
            raise Superseded
        if news is not None:
            notify(connection, news)

    return work


def beat(owner: str, experiments: Iterable[int]) -> Work:
    """Show that the owner is alive, and learns these experiments: one that it could not open has its name, too."""
    among = sorted(experiments)

    def work(connection: sa.Connection) -> None:
        where = snapshots.c.owner == owner, snapshots.c.experiment.in_(among)
        connection.execute(snapshots.update().where(*where).values(beat=snapshots.c.beat + 1))

    return work


def read_snapshots(database: Database, known: Mapping[int, int]) -> list[Any]:
    """The snapshots of all experiments; the body only where the version is not the known one.

    Parameters
    ----------
    known
        By experiment: the version that the caller has.
    """
    head = sa.select(
        snapshots.c.experiment, experiments.c.name, snapshots.c.beat, snapshots.c.version, snapshots.c.epoch,
        snapshots.c.mode,
    ).join(experiments, experiments.c.id == snapshots.c.experiment)  # fmt: skip
    rows = [dict(row._mapping) for row in database.rows(head)]
    new = [row["experiment"] for row in rows if known.get(row["experiment"]) != row["version"]]
    columns = snapshots.c.experiment, snapshots.c.version, snapshots.c.epoch, snapshots.c.mode, snapshots.c.body
    bodies = {}
    for some in chunks(new, 500):
        for row in database.rows(sa.select(*columns).where(snapshots.c.experiment.in_(some))):
            bodies[row.experiment] = {**row._mapping, "body": json.loads(row.body)}
    return [row | bodies.get(row["experiment"], {}) for row in rows]


def chunks(items: list[int], size: int) -> Iterable[list[int]]:
    """The items, some at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


def read_status(database: Database, experiment: int) -> dict[str, Any]:
    """The status of an experiment as it was published last."""
    rows = database.rows(sa.select(snapshots.c.status).where(snapshots.c.experiment == experiment))
    return dict(json.loads(rows[0][0])) if rows else {}


def read_statuses(database: Database, among: list[int]) -> dict[int, dict[str, Any]]:
    """The statuses of some experiments, as far as they were published."""
    found = {}
    for some in chunks(among, 500):
        query = sa.select(snapshots.c.experiment, snapshots.c.status).where(snapshots.c.experiment.in_(some))
        found.update({experiment: json.loads(status) for experiment, status in database.rows(query)})
    return {experiment: status for experiment, status in found.items() if status}


def check_taken_in(database: Database, experiment: int, name: str) -> None:
    """Refuse an experiment with rows in the inbox: only a learner takes them in."""
    last = sa.select(snapshots.c.taken).where(snapshots.c.experiment == experiment).scalar_subquery()
    query = sa.select(sa.func.count()).where(inbox.c.experiment == experiment, inbox.c.id > last)
    waiting = database.rows(query)[0][0]
    if waiting:
        raise LogFailure(
            f"processes of `surefoot serve` have left {waiting} decisions or requests that {name} has not taken in: "
            "stop its deciders and run `surefoot serve --role learner` on this database for a moment, then open it"
        )


def was_shared(database: Database) -> bool:
    """Whether processes have shared experiments here: decisions of theirs may still be in the inbox."""
    return bool(database.rows(sa.select(snapshots.c.experiment).limit(1)))
