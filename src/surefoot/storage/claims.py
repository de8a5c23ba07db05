"""Claims on experiments in files: one process runs an experiment, and others are refused.

A claim is a lock on a file beside the database. The system lets go of it when the process ends, however it ends. Within
a process it may be held several times, so that a log can be opened again without closing it first. If two of those
write, the numbers of their events collide, and the second is refused then.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import IO, Any

from surefoot.experiments.events import LogFailure

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

_LOCK = threading.Lock()
_HELD: dict[tuple[int, Path], tuple[IO[bytes], int]] = {}
"""By process and path: the file that is locked, and how often it is claimed. A forked process has to claim anew."""


def claim(database: Path, name: str) -> Path:
    """Claim an experiment; returns what `release` takes."""
    path = database.with_name(f"{database.name}.{name}.lock")
    if fcntl is None:
        return path
    with _LOCK:
        held = _HELD.get((os.getpid(), path))
        if held is not None:
            _HELD[os.getpid(), path] = held[0], held[1] + 1
            return path
        file = path.open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise LogFailure(f"the experiment {name} in {database.name} is open in another process") from None
        _HELD[os.getpid(), path] = file, 1
    return path


def release(path: Path) -> None:
    """Give a claim back."""
    with _LOCK:
        held = _HELD.pop((os.getpid(), path), None)
        if held is not None and held[1] > 1:
            _HELD[os.getpid(), path] = held[0], held[1] - 1
        elif held is not None:
            held[0].close()
