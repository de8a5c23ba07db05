"""Clients and processes: a fork takes no connection, thread or queue along, and an exit loses no feedback."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol


class Follower(Protocol):
    """A client that follows its process."""

    def _after_fork(self) -> None: ...

    def _at_exit(self) -> None: ...


_clients: weakref.WeakSet[Follower] = weakref.WeakSet()


def follow(client: Follower) -> None:
    """Tell a client when its process forks or ends."""
    _clients.add(client)


def _forked() -> None:
    for client in list(_clients):
        client._after_fork()


def _ended() -> None:
    for client in list(_clients):
        client._at_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_ended)
