"""Where the files of a run are: in memory, in a folder of this machine, or at any address that fsspec knows."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from surefoot.extras import needed_by
from surefoot.rules import RuleError

NEW = ".new"
"""How the name of a file ends that is being written. One that is left over is half of a file."""


class Folder(Protocol):
    """Files by name. A name has forward slashes; a file is there whole or not at all."""

    def names(self, under: str) -> list[str]:
        """The names that start with the folder `under`, sorted; none if there is no such folder."""

    def has(self, name: str) -> bool:
        """True if there is such a file."""

    def open(self, name: str) -> Any:
        """Something that pyarrow can read a file from."""

    def read(self, name: str) -> bytes:
        """The content of a file; raises FileNotFoundError if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or replace it, in a single step."""

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""


class Memory:
    """Files in memory."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def names(self, under: str) -> list[str]:
        """The names below a folder."""
        return sorted(name for name in self._files if name.startswith(f"{under}/"))

    def has(self, name: str) -> bool:
        """True if there is such a file."""
        return name in self._files

    def open(self, name: str) -> Any:
        """Something that pyarrow can read a file from."""
        return pa.BufferReader(self.read(name))

    def read(self, name: str) -> bytes:
        """The content of a file."""
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        self._files[name] = content

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._files.pop(name, None)

    def __str__(self) -> str:
        return "memory"


class Local:
    """A folder of this machine. What is written has reached the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, under: str) -> list[str]:
        """The names below a folder."""
        found = (self.path / under).rglob("*")
        return sorted(path.relative_to(self.path).as_posix() for path in found if path.is_file())

    def has(self, name: str) -> bool:
        """True if there is such a file."""
        return (self.path / name).is_file()

    def open(self, name: str) -> Any:
        """Something that pyarrow can read a file from."""
        return str(self.path / name)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write under another name, wait for the disk, rename."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{NEW}")
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        if os.name != "nt":
            with opened(path.parent) as folder:
                os.fsync(folder)

    def remove(self, name: str) -> None:
        """Remove a file, and its folder if that is empty then."""
        path = self.path / name
        path.unlink(missing_ok=True)
        if path.parent != self.path:
            with suppress(OSError):
                path.parent.rmdir()

    def __str__(self) -> str:
        return str(self.path)


class Remote:
    """A folder at an address, through fsspec. How lasting a write is depends on what is behind the address."""

    def __init__(self, address: str) -> None:
        with needed_by("a folder at an address"):
            from fsspec.core import url_to_fs
        self.address = address.rstrip("/")
        try:
            self._files, self._root = url_to_fs(self.address)
        except (ValueError, ImportError) as error:
            raise RuleError("folder", "be an address that fsspec knows", address, f"{address}: {error}") from None

    def names(self, under: str) -> list[str]:
        """The names below a folder."""
        self._files.invalidate_cache()
        try:
            found = self._files.find(f"{self._root}/{under}")
        except FileNotFoundError:
            return []
        return sorted(path[len(self._root) :].lstrip("/") for path in found)

    def has(self, name: str) -> bool:
        """True if there is such a file."""
        return bool(self._files.isfile(f"{self._root}/{name}"))

    def open(self, name: str) -> Any:
        """Something that pyarrow can read a file from."""
        return self._files.open(f"{self._root}/{name}", "rb")

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Write under another name, then move."""
        path = f"{self._root}/{name}"
        folder, _, last = path.rpartition("/")
        new = f"{folder}/.{last}.{uuid.uuid4().hex[:8]}{NEW}"
        self._files.makedirs(folder, exist_ok=True)
        self._files.pipe_file(new, content)
        self._files.mv(new, path)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def __str__(self) -> str:
        return self.address


def folder_at(folder: str | Path) -> Local | Remote:
    """The folder of a path or an address."""
    if not isinstance(folder, str | Path):
        raise RuleError("folder", "be the name of a folder, or an address", folder)
    text = str(folder)
    if isinstance(folder, str) and "://" in text:
        return Local(Path(text[7:])) if text.startswith("file://") else Remote(text)
    return Local(Path(folder))


@contextmanager
def held(folder: Folder) -> Iterator[None]:
    """Keep other processes of this machine from running in the same folder; a process that is killed lets go."""
    if os.name == "nt" or not isinstance(folder, Local):  # there, two runs in one folder are not noticed
        yield
        return
    import fcntl

    with opened(folder.path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            rule = "be a folder in which no other run is under way"
            raise RuleError("folder", rule, folder.path, str(folder.path)) from None
        except OSError:  # a file system without such locks
            pass
        yield


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """The descriptor of a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
