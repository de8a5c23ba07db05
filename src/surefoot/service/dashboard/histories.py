"""The histories of all experiments: read on from where they were left, saved now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from surefoot.experiments.events import LogFailure
from surefoot.rules import RuleError
from surefoot.service.dashboard.history import History, Row
from surefoot.service.problems import logger
from surefoot.storage.database import Database
from surefoot.storage.histories import last_round, load_history, rounds_after, save_history

AT_ONCE = 2_000
SAVE_EVERY = 20_000
"""Rounds after which a history is saved: a process that starts reads no more than these again."""


class Histories:
    """The histories, as far as they were read. Use them from threads, and only while holding `lock`.

    Several processes may do so on one database: each has its own, and the one that got furthest is saved. A saved one
    that cannot be read, or that is ahead of the rounds, is thrown away: the rounds are the truth.

    Parameters
    ----------
    database
        Gives the database, which may have been opened again.
    """

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self.lock = threading.Lock()
        self._known: dict[int, History] = {}
        self._saved: dict[int, int] = {}
        self._wrong: set[int] = set()  # experiments whose saved history is wrong

    def catch_up(self, experiment: int, seconds: float) -> bool:
        """Read rounds that are new, for about this long; returns whether that was all."""
        database = self._database()
        until, done, data = time.monotonic() + seconds, False, None
        while not done and data is None:
            with self.lock:  # not for all of it: somebody may be looking
                history = self.of(experiment)
                rows = rounds_after(database, experiment, history.seq, AT_ONCE, Row._fields)
                done = len(rows) < AT_ONCE
                if done or not self._further(database, experiment, history.seq + AT_ONCE):
                    history.add(rows)
                if history.seq - self._saved[experiment] >= SAVE_EVERY:
                    seq, data = history.seq, history.to_bytes()
            if time.monotonic() >= until:
                break
        if data is not None:
            self._save(database, experiment, seq, data)
        return done

    def of(self, experiment: int) -> History:
        """The history of an experiment, as far as it was read."""
        if experiment not in self._known:
            self._known[experiment], self._saved[experiment] = History(), 0
            self._further(self._database(), experiment, 0)
        return self._known[experiment]

    def _further(self, database: Database, experiment: int, after: int) -> bool:
        """Go on with the saved history, if it goes beyond a round."""
        data = None if experiment in self._wrong else load_history(database, experiment, after)
        if data is None:
            return False
        try:
            found = History.from_bytes(data)
            last = last_round(database, experiment)
            if found.seq > last:
                raise RuleError("history", f"end at round {last} or before", found.seq)
        except RuleError as error:
            logger.warning("the history of experiment %s is made again from its rounds: %s", experiment, error)
            self._wrong.add(experiment)
            return False
        self._known[experiment], self._saved[experiment] = found, found.seq
        return True

    def _save(self, database: Database, experiment: int, seq: int, data: bytes) -> None:
        try:
            save_history(database, experiment, seq, data, anyway=experiment in self._wrong)
        except LogFailure as error:  # it can be made again, and will be tried again
            logger.warning("the history of experiment %s is not saved: %s", experiment, error)
        else:
            self._wrong.discard(experiment)
        self._saved[experiment] = seq
