"""Commands around the decision service and its database."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from surefoot.cli.machine import print_json
from surefoot.cli.refusal import refuse
from surefoot.experiments.events import LogFailure
from surefoot.experiments.fold import Fold
from surefoot.experiments.live import restored
from surefoot.extras import needed_by
from surefoot.rules import Range, RuleError, choice, hint, number

DAYS = Range(0, 36_500, open_low=True)


@contextmanager
def errors_told() -> Iterator[None]:
    """Print what is wrong with the arguments or the database, and exit."""
    try:
        yield
    except (ValueError, LogFailure) as error:
        raise refuse(ValueError(str(error))) from None


@contextmanager
def opened(db: str, fresh: bool = False) -> Iterator[Any]:
    """The database, which must exist unless it may be `fresh`."""
    with errors_told(), needed_by("the service", "serve"):
        from surefoot.storage.database import Database

        if not fresh and "://" not in db and not Path(db).is_file():
            raise RuleError("db", "be a file that exists, or the address of a database", db)
        database = Database.open(db)
        try:
            yield database
        finally:
            database.close()


def run_service(db: str, host: str, port: int, rate: float, role: str) -> None:
    """Run the service."""
    with errors_told(), needed_by("surefoot serve", "serve"):
        from surefoot.service.host import ROLES
        from surefoot.service.serve import serve

        serve(db, host, port, rate, choice("role", role, ROLES))


def upgrade_database(db: str) -> None:
    """Make or migrate the tables."""
    with errors_told(), needed_by("surefoot db upgrade", "serve"):
        from surefoot.storage.upgrade import upgrade

        before, after, unfilled = upgrade(db)
    print(f"the tables have version {after}" + (" already" if before == after else ""))
    for name, reason in unfilled.items():
        print(
            f"the log of {name} cannot be read ({reason}), so this experiment stays closed, and the others are not "
            "affected: restore its events from a backup and run `surefoot db upgrade` again",
            file=sys.stderr,
        )


def create(db: str, name: str, roles: list[str], experiment: str | None, days: float | None) -> None:
    """Make a key and print it."""
    with opened(db, fresh=True) as database:
        from surefoot.storage.keys import create_key

        now = time.time()
        expires = None if days is None else now + 86_400 * number("days", days, DAYS)
        print(create_key(database, name, roles, now, experiment, expires))


def list_all(db: str, as_json: bool = False) -> None:
    """Print the keys, without the keys themselves."""
    with opened(db) as database:
        from surefoot.storage.keys import list_keys

        listed = list(list_keys(database).values())
        if as_json:
            print_json([
                {
                    "id": key.id, "name": key.name, "roles": list(key.roles), "experiment": key.experiment,
                    "created": key.created, "expires": key.expires, "revoked": key.revoked, "state": state_of(key),
                }
                for key in listed
            ])  # fmt: skip
            return
        table = Table(box=None, pad_edge=False)
        for name in ("id", "name", "roles", "experiment", "created", "expires", "state"):
            table.add_column(name, overflow="fold", no_wrap=name in ("id", "state"))
        for key in listed:
            table.add_row(
                str(key.id), key.name, " ".join(key.roles), key.experiment or "all", day(key.created),
                "never" if key.expires is None else day(key.expires), state_of(key),
            )  # fmt: skip
        Console(highlight=False).print(table)


def state_of(key: Any) -> str:
    """Whether a key is valid now."""
    return "revoked" if key.revoked is not None else "valid" if key.valid(time.time()) else "expired"


def day(at: float) -> str:
    """A time for people."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def revoke(db: str, id: int) -> None:
    """Revoke a key."""
    with opened(db) as database:
        from surefoot.storage.keys import revoke_key

        if not revoke_key(database, id, time.time()):
            raise RuleError("id", "be the number of a key (`surefoot keys list`)", id)
    print(f"key {id} is revoked; a running service refuses it within 2 seconds")


def check_replay(db: str, experiment: str) -> None:
    """Compare what the whole log leads to with the rounds that were stored and the state from the newest checkpoint."""
    with opened(db) as database:
        log = log_of(database, experiment)
        state = restored(log)
        start = state.last
        for _, event in log.read(start):
            state.apply(event)
        replayed, stored = Fold(log), log.rounds()
        replayed.take_rounds()
        for _, event in takewhile(lambda one: one[0] <= state.last, log.read()):
            replayed.apply(event)
            for one in replayed.take_rounds():
                found = next(stored, None)
                if found != one:
                    raise RuleError("log", f"lead to the rounds that were stored, as in round {one.seq}", found)
        if replayed.digest() != state.digest():
            raise RuleError(
                "log", f"lead to the state that follows from the checkpoint after event {start}", None,
                f"{replayed.digest()}, not {state.digest()}",
            )  # fmt: skip
    print(f"equal: {state.last} events from the first on, and {state.last - start} after the checkpoint, "
          f"lead to the state {state.digest()}")  # fmt: skip


def export(db: str, experiment: str, out: Path) -> None:
    """Write the settled rounds as Parquet and NDJSON, the experiment and its history as JSON, and the report."""
    with opened(db) as database:
        from surefoot.reporting.live import write_live_report
        from surefoot.service.export import write_export

        count = write_export(log_of(database, experiment), out, db)
        report = write_live_report(out)
    print(f"{count} rounds are in {out / 'rounds.parquet'} and {out / 'rounds.ndjson'}\nReport: {report}")


def log_of(database: Any, experiment: str) -> Any:
    """The log of an experiment, which must exist."""
    from surefoot.storage.log import SqlLog

    log = SqlLog(database, experiment)
    if log.empty:
        import sqlalchemy as sa

        from surefoot.storage.schema import experiments

        names = [row[0] for row in database.rows(sa.select(experiments.c.name))]
        raise RuleError("experiment", "be in the database", experiment, f"{experiment!r}{hint(experiment, names)}")
    return log
