"""Where the log of an experiment is kept: SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from surefoot.experiments.events import Log
from surefoot.extras import needed_by
from surefoot.rules import RuleError


def open_log(path: str | Path, name: str | None = None, *, alone: bool = False) -> Log:
    """Open the log of an experiment, or begin one.

    Parameters
    ----------
    path
        A SQLite file, whose folder must exist, or the address of a PostgreSQL database.
    name
        The experiment, if the database has several.
    alone
        Whether to refuse a log that another process has open, if it is in a file.
    """
    if not str(path):
        raise RuleError("path", "be the path of a file", path)
    with needed_by("Live.open"):
        from surefoot.storage.database import Database
        from surefoot.storage.log import SqlLog
    database = Database.open(path)
    try:
        return SqlLog(database, name, alone=alone)
    except BaseException:
        database.close()
        raise


__all__ = ["open_log"]
