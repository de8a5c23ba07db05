"""What the pages of the service read: rounds and milestones of an experiment, and saved summaries of its rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.json import decode
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from surefoot.experiments.events import Decided, Event, LogFailure, Settled
from surefoot.storage.bodies import read
from surefoot.storage.database import Database, failure_of
from surefoot.storage.schema import MILESTONE, events, experiments, histories, rounds
from surefoot.storage.snapshots import chunks

IDS_AT_ONCE = 500


def numbers_of(database: Database) -> dict[str, int]:
    """The numbers of all experiments, by name."""
    query = sa.select(experiments.c.name, experiments.c.id).order_by(experiments.c.id)
    return {name: number for name, number in database.rows(query)}


def rounds_after(database: Database, experiment: int, after: int, limit: int, fields: Sequence[str]) -> Sequence[Any]:
    """The next rounds of an experiment that are on disk, as tuples of these fields."""
    query = sa.select(*(rounds.c[name] for name in fields)).where(rounds.c.experiment == experiment)
    return database.tuples(query.where(rounds.c.seq > after).order_by(rounds.c.seq).limit(limit))


def newest_rounds(database: Database, experiment: int, limit: int) -> list[Settled]:
    """The newest rounds that are on disk, newest first."""
    query = sa.select(*(rounds.c[name] for name in Settled._fields)).where(rounds.c.experiment == experiment)
    found = database.rows(query.order_by(rounds.c.seq.desc()).limit(limit))
    return [Settled(**{**row._mapping, "costs": decode(row.costs)}) for row in found]


def last_round(database: Database, experiment: int) -> int:
    """The number of the last round."""
    query = sa.select(sa.func.max(rounds.c.seq)).where(rounds.c.experiment == experiment)
    return int(database.rows(query)[0][0] or 0)


def milestones(database: Database, among: Iterable[int]) -> dict[int, list[tuple[int, Event]]]:
    """By experiment: where epochs begin, and alarms, with the numbers of the events."""
    found: dict[int, list[tuple[int, Event]]] = {one: [] for one in among}
    columns = events.c.experiment, events.c.seq, events.c.kind, events.c.body
    for some in chunks(sorted(found), IDS_AT_ONCE):
        query = sa.select(*columns).where(events.c.experiment.in_(some), MILESTONE)
        for experiment, seq, kind, body in sorted(database.rows(query)):  # SQLite would sort by reading all events
            found[experiment].append((seq, read(kind, body)))
    return found


def events_between(database: Database, experiment: int, first: int, last: int) -> list[tuple[int, Event]]:
    """The events with these numbers that are on disk."""
    query = sa.select(events.c.seq, events.c.kind, events.c.body).where(events.c.experiment == experiment)
    query = query.where(events.c.seq >= first, events.c.seq <= last).order_by(events.c.seq)
    return [(seq, read(kind, body)) for seq, kind, body in database.tuples(query)]


def last_event(database: Database, experiment: int) -> int:
    """The number of the last event."""
    query = sa.select(sa.func.max(events.c.seq)).where(events.c.experiment == experiment)
    return int(database.rows(query)[0][0] or 0)


def decisions(database: Database, experiment: int, numbers: Iterable[int]) -> dict[int, Decided]:
    """Decisions by their numbers, as far as there are any."""
    found = {}
    for some in chunks(sorted(numbers), IDS_AT_ONCE):
        query = sa.select(events.c.body).where(events.c.experiment == experiment, events.c.decision.in_(some))
        for (body,) in database.rows(query.where(events.c.kind == "decided")):
            one = Decided(**decode(body))
            found[one.number] = one
    return found


def load_history(database: Database, experiment: int, after: int = 0) -> bytes | None:
    """The saved summary of the rounds of an experiment, if it goes beyond a round."""
    query = sa.select(histories.c.data).where(histories.c.experiment == experiment, histories.c.seq > after)
    rows = database.rows(query)
    return bytes(rows[0][0]) if rows else None


def save_history(database: Database, experiment: int, seq: int, data: bytes, anyway: bool = False) -> None:
    """Save a summary, in a commit of its own, unless another process has saved one that goes further.

    Parameters
    ----------
    anyway
        True to replace one that goes further, but is wrong.
    """
    of = histories.c.experiment == experiment
    older = of if anyway else sa.and_(of, histories.c.seq < seq)
    try:
        with database.engine.begin() as connection:
            replaced = connection.execute(histories.update().where(older).values(seq=seq, data=data)).rowcount
            if not replaced and connection.execute(sa.select(histories.c.seq).where(of)).first() is None:
                connection.execute(histories.insert().values(experiment=experiment, seq=seq, data=data))
    except IntegrityError:
        pass  # another process was faster
    except SQLAlchemyError as error:
        raise LogFailure(failure_of(error)) from error
