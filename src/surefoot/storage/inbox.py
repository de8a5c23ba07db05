"""What other processes tell the one that learns: decisions that they have drawn, and requests.

Rows of the inbox become visible in the order of their numbers, since one commit at a time may add some. So the learner
reads on from the last row that it took in, misses none, and takes decisions in an order that was fixed before their
answers left: no outcome can change it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import sqlalchemy as sa
from msgspec.json import decode, encode
from sqlalchemy.exc import SQLAlchemyError

from surefoot.experiments.events import Decided, LogFailure
from surefoot.storage.bodies import read
from surefoot.storage.database import Database, Rows, Work, failure_of, notify
from surefoot.storage.schema import answers, blocks, events, inbox, snapshots
from surefoot.storage.snapshots import Superseded, only_one

CALLS, ANSWERS = "surefoot_inbox", "surefoot_answers"
"""The channels on which PostgreSQL tells of new requests and answers."""
DECIDED, REQUEST = "decided", "request"
"""The kinds of rows."""
IN_ONE_ROW = 100
"""A row with this many decisions takes no more."""
ROW = ("experiment", "caller", "call", "kind", "at", "key")

IN_FORCE = sa.select(snapshots.c.experiment, snapshots.c.epoch, snapshots.c.mode).where(
    snapshots.c.experiment.in_(sa.bindparam("drawn", expanding=True))
)
OWN = (
    snapshots.update()
    .where(snapshots.c.experiment == sa.bindparam("which"), snapshots.c.owner == sa.bindparam("me"))
    .values(owner=snapshots.c.owner)
)


class Gate:
    """What every commit of a service passes.

    * Events are written by the owner of the experiment only.
    * Decisions go into the inbox only if the epoch and the mode that they were drawn in are still in force, and if
      there are none yet under their idempotency key. Many share a row.

    Parameters
    ----------
    owner
        The name of this process.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.refused: set[int] = set()
        """Calls whose decisions must be drawn again."""
        self.repeated: set[int] = set()
        """Calls whose decisions were made before, under the same key."""

    def __call__(self, connection: sa.Connection, by_table: dict[sa.Table, Rows]) -> None:
        """Check what is about to be written; take out what must not be."""
        if events in by_table:
            self._own(connection, {row["experiment"] for row in by_table[events]})
        if inbox in by_table:
            only_one(connection)
            by_table[inbox] = together(self._admitted(connection, by_table[inbox]))
            if any(row["kind"] == REQUEST for row in by_table[inbox]):  # nobody waits until decisions are taken in
                notify(connection, CALLS)
        if answers in by_table:
            notify(connection, ANSWERS)

    def _own(self, connection: sa.Connection, some: set[int]) -> None:
        for experiment in sorted(some):
            if connection.execute(OWN, {"which": experiment, "me": self.owner}).rowcount != 1:
                raise Superseded

    def _admitted(self, connection: sa.Connection, rows: Rows) -> Rows:
        """The rows without decisions that must not be made."""
        now, used = in_force(connection, rows), keys_used(connection, rows)
        kept = []
        for row in rows:
            drawn_in, key = row["drawn_in"], (row["experiment"], row["key"])
            if drawn_in is not None and drawn_in != now.get(row["experiment"]):
                self.refused.add(row["call"])
            elif row["key"] is not None and key in used:
                self.repeated.add(row["call"])
            else:
                used.add(key)
                kept.append(row)
        return kept


def together(rows: Rows) -> Rows:
    """The rows as they are written: decisions for an experiment that follow one another are in one row.

    Those with an idempotency key stay in a row of their own, where they are found by it.
    """
    written: Rows = []
    for row in rows:
        last = written[-1] if written else {"kind": REQUEST}
        if (
            last["kind"] == row["kind"] == DECIDED
            and last["key"] is row["key"] is None
            and len(last["body"]) < IN_ONE_ROW
            and last["experiment"] == row["experiment"]
        ):
            last["body"] += row["body"]
        else:
            copied = list(row["body"]) if row["kind"] == DECIDED else row["body"]
            written.append({name: row[name] for name in ROW} | {"body": copied})
    for row in written:
        if row["kind"] == DECIDED:
            row["body"] = encode(row["body"]).decode()
    return written


def in_force(connection: sa.Connection, rows: Rows) -> dict[int, tuple[int, str]]:
    """By experiment: the epoch and the mode, where decisions were drawn."""
    drawn = {row["experiment"] for row in rows if row["drawn_in"] is not None}
    found = connection.execute(IN_FORCE, {"drawn": sorted(drawn)}).all() if drawn else ()
    return {experiment: (epoch, mode) for experiment, epoch, mode in found}


def keys_used(connection: sa.Connection, rows: Rows) -> set[tuple[int, str]]:
    """The idempotency keys of these rows that were used before, with their experiments."""
    keys = sorted({row["key"] for row in rows if row["key"] is not None})
    among = sorted({row["experiment"] for row in rows if row["key"] is not None})
    if not keys:
        return set()
    both = (
        sa.select(table.c.experiment, table.c.key).where(table.c.experiment.in_(among), table.c.key.in_(keys))
        for table in (events, inbox)
    )
    return {(experiment, key) for experiment, key in connection.execute(sa.union_all(*both))}


def drawn_under(database: Database, experiment: int, key: str) -> list[Decided]:
    """The decisions that were made under an idempotency key, taken in by the learner or not yet."""
    for _ in range(2):  # they may move from the inbox to the log between the two looks
        of = events.c.experiment == experiment, events.c.key == key
        found = database.rows(sa.select(events.c.kind, events.c.body).where(*of).order_by(events.c.seq))
        if found:
            return [cast(Decided, read(kind, body)) for kind, body in found]
        waiting = database.rows(sa.select(inbox.c.body).where(inbox.c.experiment == experiment, inbox.c.key == key))
        if waiting:
            return [Decided(*one) for one in json.loads(waiting[0][0])]
    return []


def call(
    experiment: int,
    caller: int,
    number: int,
    kind: str,
    at: float,
    body: Any,
    drawn_in: tuple[int, str] | None = None,
    key: str | None = None,
) -> tuple[sa.Table, dict[str, Any]]:
    """A row for the inbox, as the gate takes it.

    Parameters
    ----------
    body
        Decisions, or what is asked for.
    drawn_in
        For decisions, the epoch and the mode that they were drawn in.
    key
        For decisions, the idempotency key under which they were drawn.
    """
    return inbox, {
        "experiment": experiment, "caller": caller, "call": number, "kind": kind, "at": at, "key": key,
        "body": body if kind == DECIDED else json.dumps(body, separators=(",", ":")), "drawn_in": drawn_in,
    }  # fmt: skip


class Letter(NamedTuple):
    """A row of the inbox, as the learner reads it."""

    id: int
    experiment: int
    kind: str
    caller: int
    call: int
    at: float
    body: Any


LETTER = sa.select(*(inbox.c[name] for name in Letter._fields)).order_by(inbox.c.id)


def take(database: Database, experiments: Iterable[int], after: int, limit: int) -> list[Letter]:
    """The next rows for some experiments, in their order."""
    new = inbox.c.id > after, inbox.c.experiment.in_(sorted(experiments))
    return [Letter._make((*row[:-1], decode(row[-1]))) for row in database.tuples(LETTER.where(*new).limit(limit))]


def answer(caller: int, number: int, at: float, body: Any) -> tuple[sa.Table, dict[str, Any]]:
    """A row for the answers."""
    return answers, {"caller": caller, "call": number, "at": at, "body": json.dumps(body, separators=(",", ":"))}


def collect(database: Database, caller: int, numbers: Iterable[int]) -> dict[int, Any]:
    """The answers to some calls, as far as there are any."""
    query = sa.select(answers.c.call, answers.c.body)
    rows = database.rows(query.where(answers.c.caller == caller, answers.c.call.in_(sorted(numbers))))
    return {number: json.loads(body) for number, body in rows}


def clear(taken: Mapping[int, int], before: float) -> Work:
    """Remove rows that were taken in, and answers that nobody has fetched."""

    def work(connection: sa.Connection) -> None:
        some = sorted(taken.items())
        for start in range(0, len(some), 200):
            done = (sa.and_(inbox.c.experiment == one, inbox.c.id <= last) for one, last in some[start : start + 200])
            connection.execute(inbox.delete().where(sa.or_(*done)))
        # Skip the ones that another process is removing: waiting for it could be a deadlock.
        own = sa.tuple_(answers.c.caller, answers.c.call)
        old = sa.select(answers.c.caller, answers.c.call).where(answers.c.at < before)
        connection.execute(answers.delete().where(own.in_(old.with_for_update(skip_locked=True))))

    return work


def new_block(database: Database, who: str, at: float) -> int:
    """A block of numbers for decisions that are drawn outside the learner."""
    try:
        with database.engine.begin() as connection:
            added = connection.execute(blocks.insert().values(who=who, at=at))
            return int(added.inserted_primary_key[0])  # type: ignore[index]
    except SQLAlchemyError as error:
        raise LogFailure(failure_of(error)) from error


def blocks_of(database: Database, who: str, among: Iterable[int]) -> set[int]:
    """Which of these blocks were given to somebody."""
    query = sa.select(blocks.c.id).where(blocks.c.who == who, blocks.c.id.in_(sorted(among)))
    return {block for (block,) in database.rows(query)}
