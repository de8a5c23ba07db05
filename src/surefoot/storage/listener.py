"""Hearing of news from PostgreSQL as soon as it is committed. Without it, news is found by looking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import sqlalchemy as sa

LOOK_UP = 0.5
RETRY_AFTER = 1.0

logger = logging.getLogger("surefoot.storage")


class Listener:
    """A thread that listens on channels of PostgreSQL, and connects again when it has to.

    Parameters
    ----------
    engine
        Of the database.
    channels
        What to listen to.
    heard
        Called in the thread with the channel of each piece of news, and with each channel after connecting.
    """

    def __init__(self, engine: sa.Engine, channels: Sequence[str], heard: Callable[[str], None]) -> None:
        self._engine, self._channels, self._heard = engine, channels, heard
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="surefoot-listener", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except Exception as error:  # whatever it was: the database is looked at now and then in any case
                logger.warning("news is found by looking for it until the database answers: %s", error)
                self._ended.wait(RETRY_AFTER)

    def _listen(self) -> None:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            try:
                for channel in self._channels:
                    connection.exec_driver_sql(f"LISTEN {channel}")
                for channel in self._channels:
                    self._heard(channel)  # what was told before
                driver = connection.connection.driver_connection
                assert driver is not None
                while not self._ended.is_set():
                    for news in driver.notifies(timeout=LOOK_UP):
                        self._heard(news.channel)
            finally:
                connection.invalidate()  # nobody else should hear it

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join(5.0)
