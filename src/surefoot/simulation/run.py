"""A run: the table of results, and how to reproduce it."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from surefoot.analysis.statistics import QUANTILES, share_interval, summaries
from surefoot.provenance import difference
from surefoot.rules import RuleError
from surefoot.simulation.folder import NEW, Folder, Memory, Remote, folder_at
from surefoot.simulation.parts import IS_PART, KNOWN, PARTS, About, Cell, Finished, Part, completed, encoded
from surefoot.simulation.schema import SCHEMA as SCHEMA

PROVENANCE = "provenance.json"
TABLE = "run.parquet"
"""The whole table in a file, as versions up to 0.2 wrote it."""
NUMBERS = ("loss", "regret", "safety_regret", "learning_regret", "violation", "rounds_in_violation", "safe_weight")
"""The columns that a summary has statistics of."""
SUMMARY = pa.schema({
    **{"scenario": pa.string(), "policy": pa.string(), "round": pa.int64(), "seeds": pa.int64()},
    **{
        f"{name}{of}": pa.float64()
        for name in NUMBERS
        for of in ("", "_low", "_high", *(f"_q{round(100 * q)}" for q in QUANTILES))
    },
    "violating_runs": pa.int64(),
    "violating_share": pa.float64(),
    "violating_share_low": pa.float64(),
    "violating_share_high": pa.float64(),
    "worst_margin": pa.float64(),
    "loose_runs": pa.int64(),
    "rounds_until_loose_q50": pa.float64(),
})  # fmt: skip


class Group(NamedTuple):
    """The rows of one policy in one scenario at one checkpoint, over the seeds."""

    scenario: str
    policy: str
    round: int
    rows: pa.Table


class Run:
    """What `simulate` returns: one row per scenario, policy, seed and checkpoint.

    The rows of a run that was written to a folder, or loaded from one, stay there until they are asked for. `table`
    reads all of them into memory; `cells` and `summary` read a policy of a scenario at a time, and of a large one a
    few columns.

    Attributes
    ----------
    table
        The columns ``scenario, policy, seed, round``; up to that round: ``loss`` (expected, cumulative),
        ``baseline_loss`` (of the safe strategy, null if there is none), ``regret``,
        ``safety_regret``, ``learning_regret``, ``violation`` (V_T) and ``violations`` (one per guardrail),
        ``rounds_in_violation``, ``worst_margin``, ``rounds_until_loose`` (rounds before the first with a safe weight
        below 0.1), ``bandit_complexity`` (loss of the best safe strategy), ``safety_complexity``; the ``benchmark``
        itself and the ``allocation`` since the checkpoint before; ``clean``, whether every true cost was within the
        policy's confidence bounds in every round (the event E(delta) of Lemma 1), ``empty_rounds``, after how many
        rounds the truncated safe set was empty, and ``benchmark_kept``, whether the benchmark, moved to the truncated
        simplex, was in every truncated safe set (Lemma 2), each null for a policy without such bounds (``clean`` and
        ``benchmark_kept`` also where costs change); ``lost``, the share of decisions that have timed out, and
        ``pending``, how many are not learnt yet, both null where feedback comes at once; after that round:
        ``safe_weight``, ``strategy``, ``proposal`` and, with three arms, ``lower_costs`` row by row.
    provenance
        The whole configuration, versions, platform and times.

    Examples
    --------
    >>> import surefoot as sf
    >>> scenario = sf.scenarios.make("stochastic-v1", horizon=1000)
    >>> run = sf.simulate(scenario, {"colb": sf.COLB}, seeds=3, checkpoints=[100, 1000], workers=1)
    >>> run.table.num_rows, run.final().num_rows
    (6, 3)
    >>> run.summary().column("seeds").to_pylist()
    [3]
    """

    def __init__(self, finished: Sequence[Finished], provenance: dict[str, Any]) -> None:
        self.finished, self.provenance = finished, provenance

    def __repr__(self) -> str:
        parts = (f"{part['scenario']['id']} ({', '.join(part['policies'])})" for part in self.provenance["simulations"])
        rows = sum(one.count * len(one.checkpoints) for one in self.finished)
        return f"Run of {'; '.join(parts)}: {rows} rows{'' if self.complete else ', not complete'}"

    @cached_property
    def table(self) -> pa.Table:
        """All rows, read into memory when this is first used."""
        return joined(cell.table() for cell in self.cells())

    @property
    def complete(self) -> bool:
        """True if every requested run is in the table."""
        return not any(part["missing_episodes"] for part in self.provenance["simulations"])

    @classmethod
    def joined(cls, runs: Sequence[Run], **provenance: Any) -> Run:
        """Join runs of different scenarios into one."""
        parts = [part for run in runs for part in run.provenance["simulations"]]
        return cls([one for run in runs for one in run.finished], {**provenance, "simulations": parts})

    def cells(self) -> Iterator[Cell]:
        """The finished runs by scenario and policy, each read when it is asked for."""
        for one in self.finished:
            yield from one.cells()

    def episodes(self, scenario: str) -> dict[tuple[str, int], pa.Table]:
        """The rows of each run of a scenario, by policy and seed."""
        found = {}
        for cell in self.cells():
            if cell.scenario == scenario:
                table, length = cell.table(), len(cell.checkpoints)
                for i, seed in enumerate(cell.seeds.tolist()):
                    found[cell.policy, seed] = table.slice(i * length, length)
        return found

    def groups(self) -> Iterator[Group]:
        """The rows by scenario, policy and checkpoint, in the order of the table."""
        for cell in self.cells():
            table = cell.table()
            for i, round_ in enumerate(cell.checkpoints):
                rows = table.take(np.arange(i, table.num_rows, len(cell.checkpoints)))
                yield Group(cell.scenario, cell.policy, round_, rows)

    def final(self) -> pa.Table:
        """The rows of the last checkpoint of every run."""
        return joined(cell.table(last=True) for cell in self.cells())

    def summary(self, *, all_checkpoints: bool = False) -> pa.Table:
        """One row per scenario and policy at the last checkpoint, or at every one: statistics over the seeds.

        For each of loss, regret, its parts, violation, rounds in violation, safe weight: the mean, its 95 % interval
        (``_low``, ``_high``) and the 10, 50 and 90 % quantiles. ``violating_share`` is the share of runs with any
        violation, with its exact 95 % interval. All of them are exact, however large the run is.
        """
        rows = (summarise(cell, last=not all_checkpoints) for cell in self.cells())
        return pa.concat_tables([SUMMARY.empty_table(), *(pa.Table.from_pylist(one, SUMMARY) for one in rows)])

    def save(self, folder: str | Path) -> Path | str:
        """Write the parts and provenance.json into a folder; return the folder.

        A run that is already there is replaced: the new provenance.json takes the place of the old one in a single
        step when all parts are there, and says which parts count.

        Parameters
        ----------
        folder
            Its name, or an address that fsspec knows, such as ``"s3://bucket/study"``.
        """
        place = folder_at(folder)
        copies = [one.copied_to(place) for one in self.finished]
        self.write_provenance(place)
        clear(place, copies)
        return folder if isinstance(place, Remote) and isinstance(folder, str) else Path(folder)

    def write_provenance(self, folder: Folder) -> None:
        """Write provenance.json, which says which parts count."""
        folder.write(PROVENANCE, json.dumps(self.provenance, indent=1).encode())

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """True if there is a run in a folder, or what looks like one."""
        place = folder_at(folder)
        return place.has(PROVENANCE) or place.has(TABLE)

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Open a run in a folder, or at an address that fsspec knows; its rows are read when they are asked for.

        Files among the parts that are damaged or foreign are ignored, and a warning names them.
        """
        place = folder_at(folder)
        if place.has(TABLE):
            return earlier_format(place)
        try:
            provenance = json.loads(place.read(PROVENANCE))
            finished = [Finished(part) for part in provenance["simulations"]]
        except OSError:
            raise RuleError("folder", f"hold a run ({PROVENANCE} and {PARTS})", folder, str(folder)) from None
        except (ValueError, KeyError, TypeError):
            rule = f"hold a {PROVENANCE} of this version of surefoot"
            raise RuleError("folder", rule, folder, str(folder)) from None
        for one in finished:
            for sentence in one.look(place):
                warnings.warn(sentence, stacklevel=2)
        for part, one in zip(provenance["simulations"], finished, strict=True):
            part |= tally(one)
        return cls(finished, provenance)


def tally(finished: Finished) -> dict[str, Any]:
    """What the provenance says of finished episodes: how many are missing, how long they took, and who else made them.

    ``made_elsewhere`` has an entry for each other set of libraries or other processor than the configuration has.
    """
    elsewhere: dict[str, dict[str, Any]] = {}
    for part in finished.parts:
        if why := difference(part.made_by, finished.configuration):
            entry = elsewhere.setdefault(json.dumps(part.made_by), {"why": why, "seeds": 0, **part.made_by})
            entry["seeds"] += part.seeds.size
    return {
        "missing_episodes": finished.missing,
        "policy_seconds": finished.seconds(),
        "elapsed_seconds": math.fsum(part.elapsed for part in finished.parts),
        "made_elsewhere": [elsewhere[key] for key in sorted(elsewhere)],
    }


def clear(folder: Folder, finished: Sequence[Finished]) -> None:
    """Remove the parts of earlier runs that no longer count, and halves of files; leave all others."""
    counts = {part.name for one in finished for part in one.parts}
    for name in folder.names(PARTS):
        if name.endswith(NEW) or (IS_PART.fullmatch(name) and name not in counts):
            folder.remove(name)
    folder.remove(TABLE)


def earlier_format(folder: Folder) -> Run:
    """The run in a run.parquet, as versions up to 0.2 wrote it."""
    try:
        table = parquet.read_table(folder.open(TABLE))
    except (pa.ArrowException, OSError) as error:
        raise RuleError("folder", f"hold a {TABLE} that can be read", str(folder), f"{folder}: {error}") from None
    if table.schema.names not in KNOWN or b"surefoot" not in (table.schema.metadata or {}):
        raise RuleError("folder", f"hold a {TABLE} of this version of surefoot", str(folder), str(folder))
    provenance, memory = json.loads(table.schema.metadata[b"surefoot"]), Memory()
    table = completed(table, SCHEMA.names)
    finished = [Finished(part) for part in provenance["simulations"]]
    for part, one in zip(provenance["simulations"], finished, strict=True):
        made_by = {key: part[key] for key in ("source", "versions", "machine") if key in part}
        elapsed = part["elapsed_seconds"]
        here = table.filter(pc.equal(table.column("scenario"), part["scenario"]["id"]))
        for name, known in one.policies.items():
            rows = here.filter(pc.equal(here.column("policy"), name)).combine_chunks()
            seeds = rows.column("seed").to_pylist()[:: len(one.checkpoints)]
            if seeds:
                seconds = {name: part["policy_seconds"].get(name, 0.0)}
                about = About(one.identity, {name: known}, seeds, seconds, elapsed, made_by)
                elapsed = 0.0  # counted once
                one.add(Part.written(memory, one.folder, about, encoded(about, [rows])))
        part |= tally(one)
    return Run(finished, provenance)


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Tables one below the other, as one piece."""
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).combine_chunks()


def summarise(cell: Cell, *, last: bool) -> list[dict[str, Any]]:
    """Statistics over the seeds of one policy in one scenario, at the last checkpoint or at every one."""
    rounds, seeds = cell.checkpoints[-1 if last else 0 :], cell.seeds.size
    rows: dict[int, dict[str, Any]] = {
        round_: {"scenario": cell.scenario, "policy": cell.policy, "round": round_, "seeds": seeds} for round_ in rounds
    }
    violating = dict.fromkeys(rounds, 0)
    for column, which, values in cell.values(NUMBERS, last=last):
        found = summaries(column, values)
        for i, number in enumerate(which):
            rows[cell.checkpoints[number]] |= {name: float(entries[i]) for name, entries in found.items()}
            if column == "rounds_in_violation":
                violating[cell.checkpoints[number]] = int((values[i] > 0).sum())
    for round_, row in rows.items():
        share = share_interval(violating[round_], seeds)
        row |= {"violating_runs": violating[round_], "violating_share": share.value}
        row |= {"violating_share_low": share.low, "violating_share_high": share.high}
    for column, which, values in cell.values(["worst_margin", "rounds_until_loose"], last=last):
        for number, ones in zip(which, values, strict=True):
            there = ones[~np.isnan(ones)]
            row = rows[cell.checkpoints[number]]
            if column == "worst_margin":
                row["worst_margin"] = float(there.min()) if there.size else None
            else:
                row["loose_runs"] = int(there.size)
                row["rounds_until_loose_q50"] = float(np.median(there)) if there.size == seeds else None
    return list(rows.values())
