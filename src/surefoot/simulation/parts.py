"""The files that a run is made of, and what they hold.

A part is a Parquet file: a block of seeds of one scenario, with a row group for each policy, in which every seed has a
row for each checkpoint. Its metadata say what it holds and what made it, so a part needs nothing but itself to be used
again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from surefoot.kernels.types import Integers
from surefoot.rules import Floats, RuleError
from surefoot.simulation.folder import NEW, Folder, Memory
from surefoot.simulation.schema import LATER, SCHEMA

PARTS, SUFFIX = "parts", ".parquet"
IS_PART = re.compile(rf"{PARTS}/[^/]+/[0-9a-f]{{32}}{re.escape(SUFFIX)}")
ABOUT = b"surefoot"
"""The key of the metadata of a part."""
REPEATED = ["scenario", "policy", "seed", "round"]
"""Columns whose values are listed once. For all others such a list takes twice the time, and makes the file larger."""
BUDGET = 2**28
"""Bytes of numbers that a cell reads at once, if one column at one checkpoint has not more."""
KNOWN = (SCHEMA.names, [name for name in SCHEMA.names if name not in LATER])
"""The columns of a part, of this version and of earlier ones."""


def digest(*what: Any) -> str:
    """Thirty-two hexadecimal digits that stand for JSON-able data."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]


def identity_of(configuration: Mapping[str, Any]) -> str:
    """The digest of what all parts of a simulation have in common: all but policies, seeds and the processor."""
    versions = {name: version for name, version in configuration.get("versions", {}).items() if name != "surefoot"}
    return digest(configuration["scenario"], configuration["checkpoints"], configuration.get("source"), versions)


def folder_of(configuration: Mapping[str, Any]) -> str:
    """The folder of the parts of a simulation: its scenario, so that people find it, and the start of its digest."""
    readable = re.sub(r"[^A-Za-z0-9.=_-]+", "-", configuration["scenario"]["id"]).strip(".-")[:60]
    return f"{PARTS}/{readable}-{identity_of(configuration)[:12]}"


class About(NamedTuple):
    """What a part holds, and what made it."""

    simulation: str  # identity_of
    policies: dict[str, str]  # the digest of each one's description, in the order of the row groups
    seeds: list[int]
    seconds: dict[str, float]  # processor time of each policy
    elapsed: float  # seconds that the task took
    made_by: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the file: equal for equal contents."""
        return f"{digest(self.simulation, self.policies, self.seeds)}{SUFFIX}"


def encoded(about: About, tables: Sequence[pa.Table]) -> bytes:
    """The content of a part; a table for each policy."""
    sink = pa.BufferOutputStream()
    schema = SCHEMA.with_metadata({ABOUT: json.dumps(about._asdict())})
    options = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": REPEATED}
    with parquet.ParquetWriter(sink, schema, **options) as writer:
        for table in tables:
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=max(table.num_rows, 1))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def completed(table: pa.Table, wanted: Sequence[str]) -> pa.Table:
    """The table with all wanted columns; those that its version did not have are empty."""
    for place, name in enumerate(wanted):
        if name not in table.column_names:
            table = table.add_column(place, SCHEMA.field(name), pa.nulls(table.num_rows, SCHEMA.field(name).type))
    return table


@lru_cache(maxsize=64)
def shared(text: str) -> dict[str, Any]:
    """The data of a JSON text: one copy of what thousands of parts say alike."""
    return json.loads(text)  # type: ignore[no-any-return]


class NotAPart(Exception):
    """Raised for a file among the parts that is none; says why."""


class Part:
    """A file of finished episodes."""

    __slots__ = ("_folder", "elapsed", "made_by", "name", "policies", "seconds", "seeds", "simulation")

    def __init__(self, folder: Folder, name: str, about: About) -> None:
        self._folder, self.name, self.simulation = folder, name, about.simulation
        self.policies = shared(json.dumps(about.policies))
        self.seconds, self.elapsed = about.seconds, about.elapsed
        self.seeds = np.array(about.seeds, np.int64)
        self.made_by = shared(json.dumps(about.made_by))

    @classmethod
    def written(cls, folder: Folder, under: str, about: About, content: bytes) -> Part:
        """Write a part into a folder."""
        name = f"{under}/{about.name}"
        folder.write(name, content)
        return cls(folder, name, about)

    @classmethod
    def found(cls, folder: Folder, name: str, checkpoints: int) -> Part:
        """The part in a file; raises NotAPart with the reason why a file is not one."""
        try:
            metadata = parquet.read_metadata(folder.open(name))
            about = About(**json.loads(metadata.metadata[ABOUT]))
            rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            names = metadata.schema.to_arrow_schema().names
            fits = names in KNOWN and rows == [len(about.seeds) * checkpoints] * len(about.policies)
        except (pa.ArrowException, OSError) as error:
            raise NotAPart(f"it is damaged ({error})") from None
        except (KeyError, TypeError, ValueError):
            raise NotAPart("it was not written by surefoot") from None
        if not fits or about.name != name.rpartition("/")[2]:
            raise NotAPart("it does not hold what it says")
        return cls(folder, name, about)

    def copied_to(self, folder: Folder, under: str) -> Part:
        """The same part in another folder; itself if it is there already."""
        name = f"{under}/{self.name.rpartition('/')[2]}"
        there = type(self._folder) is type(folder) and str(self._folder) == str(folder)
        if self._folder is folder or (there and not isinstance(folder, Memory)):
            return self
        folder.write(name, self._folder.read(self.name))
        copy = object.__new__(Part)
        for slot in self.__slots__:
            setattr(copy, slot, getattr(self, slot))
        copy._folder, copy.name = folder, name
        return copy

    def rows(self, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a policy."""
        try:
            with parquet.ParquetFile(self._folder.open(self.name), page_checksum_verification=True) as file:
                wanted, there = SCHEMA.names if columns is None else columns, set(file.schema_arrow.names)
                # without Arrow's threads: one that is still at work while Python ends can abort the process
                table = file.read_row_group(group, [name for name in wanted if name in there], use_threads=False)
        except (pa.ArrowException, OSError) as error:
            where = f"{self._folder}: {self.name}: {error}"
            raise RuleError("folder", "hold parts that can be read", str(self._folder), where) from None
        return completed(table, wanted).replace_schema_metadata(None)


class Piece(NamedTuple):
    """What a cell takes of a part."""

    part: Part
    group: int  # the row group
    taken: Integers  # which of its seeds
    places: Integers  # where they are among the seeds of the simulation


class Finished:
    """The finished episodes of a simulation: which there are, and in which parts."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self.configuration, self.identity = configuration, identity_of(configuration)
        self.folder = folder_of(configuration)
        self.policies = {name: digest(described) for name, described in configuration["policies"].items()}
        self.checkpoints: list[int] = configuration["checkpoints"]
        self.seeds = np.array(configuration["seeds"], np.int64)
        self.parts: list[Part] = []
        self._sorted = np.argsort(self.seeds, kind="stable")
        self._done = np.zeros((len(self.policies), self.seeds.size), bool)
        self._pieces: dict[str, list[Piece]] = {name: [] for name in self.policies}

    def add(self, part: Part) -> bool:
        """Take from a part what is asked for and not there yet; True if there is any such thing."""
        before = len(self.parts)
        if part.simulation != self.identity:
            return False
        at = np.searchsorted(self.seeds, part.seeds, sorter=self._sorted)
        places = self._sorted[np.minimum(at, self.seeds.size - 1)]
        wanted = self.seeds[places] == part.seeds
        for group, (name, known) in enumerate(part.policies.items()):
            if self.policies.get(name) != known:
                continue
            done = self._done[list(self.policies).index(name)]
            taken = np.flatnonzero(wanted & ~done[places])
            if taken.size:
                done[places[taken]] = True
                self._pieces[name].append(Piece(part, group, taken, places[taken]))
                self.parts += [part] if len(self.parts) == before else []
        return len(self.parts) > before

    def look(self, folder: Folder) -> Iterator[str]:
        """Add the parts that are in a folder; yield a sentence for each file there that is none."""
        for name in folder.names(self.folder):
            if name.endswith(NEW):
                continue
            try:
                self.add(Part.found(folder, name, len(self.checkpoints)))
            except NotAPart as error:
                yield f"{folder}: {name} is ignored, because {error}"

    def copied_to(self, folder: Folder) -> Finished:
        """The same episodes in another folder; parts that are there already are not copied."""
        copy = Finished(self.configuration)
        for part in self.parts:
            copy.add(part.copied_to(folder, self.folder))
        return copy

    @property
    def missing(self) -> int:
        """Number of episodes that are not there."""
        return int(self._done.size - self._done.sum())

    @property
    def count(self) -> int:
        """Number of episodes that are there."""
        return int(self._done.sum())

    def to_do(self) -> list[tuple[tuple[str, ...], Integers]]:
        """The missing episodes: policies, and the seeds that lack just these."""
        patterns, which = np.unique(self._done, axis=1, return_inverse=True)
        names = np.array(list(self.policies), object)
        groups = [(tuple(names[~done]), np.flatnonzero(which.ravel() == i)) for i, done in enumerate(patterns.T)]
        return [(lacking, self.seeds[places]) for lacking, places in groups if lacking]

    def seconds(self) -> dict[str, float]:
        """Processor time of the episodes of each policy."""
        return {
            name: math.fsum(p.part.seconds[name] * (p.taken.size / p.part.seeds.size) for p in pieces)
            for name, pieces in self._pieces.items()
            if pieces
        }

    def cells(self) -> Iterator[Cell]:
        """What there is, by policy."""
        for row, (name, pieces) in enumerate(self._pieces.items()):
            if pieces:
                rank = np.cumsum(self._done[row]) - 1
                ranked = [piece._replace(places=rank[piece.places]) for piece in pieces]
                seeds = self.seeds[self._done[row]]
                yield Cell(self.configuration["scenario"]["id"], name, seeds, self.checkpoints, ranked)


class Cell:
    """The finished episodes of a policy in a scenario, read when they are asked for, in the order of the seeds.

    Attributes
    ----------
    scenario, policy
        Their names.
    seeds
        The seeds of the finished episodes.
    checkpoints
        The rounds of their rows.
    """

    def __init__(
        self, scenario: str, policy: str, seeds: Integers, checkpoints: list[int], pieces: Sequence[Piece]
    ) -> None:
        self.scenario, self.policy, self.seeds, self.checkpoints = scenario, policy, seeds, checkpoints
        self._pieces = pieces

    def table(self, *, last: bool = False) -> pa.Table:
        """All rows, or those of the last checkpoint."""
        rounds = np.arange(len(self.checkpoints))[-1 if last else 0 :]
        tables, places = [], []
        for part, group, taken, rank in self._pieces:
            rows = part.rows(group)
            whole = taken.size == part.seeds.size and not last
            wanted = (taken[:, None] * len(self.checkpoints) + rounds).ravel()
            tables.append(rows if whole else rows.take(wanted))
            places.append((rank[:, None] * rounds.size + np.arange(rounds.size)).ravel())
        order = np.argsort(np.concatenate(places), kind="stable")
        table = pa.concat_tables(tables)
        return (table if (order[1:] > order[:-1]).all() else table.take(order)).combine_chunks()

    def first(self) -> list[dict[str, Any]]:
        """The rows of the first seed."""
        piece = min(self._pieces, key=lambda piece: int(piece.places.min()))
        row = int(piece.taken[piece.places.argmin()]) * len(self.checkpoints)
        found: list[dict[str, Any]] = piece.part.rows(piece.group).slice(row, len(self.checkpoints)).to_pylist()
        return found

    def values(self, columns: Sequence[str], *, last: bool = False) -> Iterator[tuple[str, list[int], Floats]]:
        """Columns as arrays of checkpoints x seeds (x entries), a few at a time, so that memory stays bounded.

        Yields the name of the column, the numbers of the checkpoints, and the array; nan where the table has nothing.
        A column comes in several pieces if it is too large for one.
        """
        rounds, left = list(range(len(self.checkpoints)))[-1 if last else 0 :], list(columns)
        sizes = {name: 8 * self.seeds.size * len(rounds) * self._width(name) for name in columns}
        while left:
            batch, size = [left[0]], sizes[left.pop(0)]
            while left and size + sizes[left[0]] <= BUDGET:
                size += sizes[left[0]]
                batch.append(left.pop(0))
            step = max(1, len(rounds) * BUDGET // max(size, BUDGET))
            for start in range(0, len(rounds), step):
                chosen = rounds[start : start + step]
                yield from ((name, chosen, array) for name, array in self._read(batch, chosen).items())

    def means(self, column: str, *, last: bool = False) -> Floats:
        """The mean over the seeds of a column, at each checkpoint or at the last: checkpoints (x entries)."""
        parts = [values.mean(axis=1) for _, _, values in self.values([column], last=last)]
        return np.concatenate(parts)

    def _width(self, column: str) -> int:
        if not pa.types.is_list(SCHEMA.field(column).type):
            return 1
        part, group, *_ = self._pieces[0]
        return len(part.rows(group, [column]).column(column)[0].as_py())

    def _read(self, columns: Sequence[str], rounds: list[int]) -> dict[str, Floats]:
        arrays: dict[str, Floats] = {}
        for part, group, taken, rank in self._pieces:
            rows = part.rows(group, columns)
            for name in columns:
                found = plain(rows.column(name), part.seeds.size, len(self.checkpoints))
                if name not in arrays:
                    arrays[name] = np.empty((len(rounds), self.seeds.size, *found.shape[2:]))
                arrays[name][:, rank] = found[taken][:, rounds].swapaxes(0, 1)
        return arrays


def plain(column: pa.ChunkedArray, seeds: int, checkpoints: int) -> Floats:
    """A column as an array of seeds x checkpoints (x entries)."""
    if pa.types.is_list(column.type):
        return pc.list_flatten(column).to_numpy().reshape(seeds, checkpoints, -1)  # type: ignore[no-any-return]
    return column.cast(pa.float64(), safe=False).to_numpy().reshape(seeds, checkpoints)  # type: ignore[no-any-return]
