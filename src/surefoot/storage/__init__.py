"""Where the log of an experiment is kept: SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from surefoot.experiments.events import Log
from surefoot.extras import needed_by
from surefoot.rules import RuleError


def open_log(path: str | Path, name: str | None = None) -> Log:
    """Open the log of an experiment, or begin one.

    Parameters
    ----------
    path
        A SQLite file, whose folder must exist, or the address of a PostgreSQL database.
    name
        The experiment, if the database has several.
    """
    if not str(path):
        raise RuleError("path", "be the path of a file", path)
    with needed_by("Live.open"):
        from surefoot.storage.database import Database
        from surefoot.storage.log import SqlLog
    return SqlLog(Database.open(path), name)


__all__ = ["open_log"]
