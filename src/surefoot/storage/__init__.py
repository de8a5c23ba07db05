"""Where the log of an experiment is kept."""

from __future__ import annotations

from pathlib import Path

from surefoot.experiments.events import Log
from surefoot.extras import needed_by
from surefoot.rules import RuleError


def open_log(path: str | Path) -> Log:
    """Open the log in a SQLite file, or begin one.

    Parameters
    ----------
    path
        The file. Its folder must exist.
    """
    if not str(path):
        raise RuleError("path", "be the path of a file", path)
    with needed_by("Live.open"):
        from surefoot.storage.sql import SqlLog
    return SqlLog.open(Path(path))


__all__ = ["open_log"]
