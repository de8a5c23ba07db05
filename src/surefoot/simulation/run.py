"""A run: the table of results, and how to reproduce it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from surefoot.analysis.statistics import QUANTILES, mean_interval, share_interval
from surefoot.rules import RuleError

TABLE, PROVENANCE = "run.parquet", "provenance.json"

FLOATS = pa.list_(pa.float64())
SCHEMA = pa.schema({
    "scenario": pa.string(),
    "policy": pa.string(),
    "seed": pa.int64(),
    "round": pa.int64(),
    "loss": pa.float64(),
    "regret": pa.float64(),
    "safety_regret": pa.float64(),
    "learning_regret": pa.float64(),
    "violation": pa.float64(),
    "violations": FLOATS,
    "rounds_in_violation": pa.int64(),
    "worst_margin": pa.float64(),
    "safe_weight": pa.float64(),
    "rounds_until_loose": pa.int64(),
    "empty_rounds": pa.int64(),
    "pending": pa.int64(),
    "lost": pa.float64(),
    "clean": pa.bool_(),
    "benchmark_kept": pa.bool_(),
    "bandit_complexity": pa.float64(),
    "safety_complexity": pa.float64(),
    "allocation": FLOATS,
    "strategy": FLOATS,
    "proposal": FLOATS,
    "lower_costs": FLOATS,
    "benchmark": FLOATS,
})  # fmt: skip


class Group(NamedTuple):
    """The rows of one policy in one scenario at one checkpoint, over the seeds."""

    scenario: str
    policy: str
    round: int
    rows: pa.Table


@dataclass(eq=False)
class Run:
    """What `simulate` returns: one row per scenario, policy, seed and checkpoint.

    Attributes
    ----------
    table
        The columns ``scenario, policy, seed, round``; up to that round: ``loss`` (expected, cumulative), ``regret``,
        ``safety_regret``, ``learning_regret``, ``violation`` (V_T) and ``violations`` (one per constraint),
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

    table: pa.Table
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        parts = (f"{part['scenario']['id']} ({', '.join(part['policies'])})" for part in self.provenance["simulations"])
        return f"Run of {'; '.join(parts)}: {self.table.num_rows} rows{'' if self.complete else ', not complete'}"

    @property
    def complete(self) -> bool:
        """True if every requested episode is in the table."""
        return not any(part["missing_episodes"] for part in self.provenance["simulations"])

    @classmethod
    def joined(cls, runs: Sequence[Run], **provenance: Any) -> Run:
        """Join runs of different scenarios into one."""
        parts = [part for run in runs for part in run.provenance["simulations"]]
        table = pa.concat_tables([run.table for run in runs]).combine_chunks()
        return cls(table, {**provenance, "simulations": parts})

    def episodes(self, scenario: str) -> dict[tuple[str, int], pa.Table]:
        """The rows of each episode of a scenario, by policy and seed."""
        table = self.table.filter(pc.equal(self.table.column("scenario"), scenario))
        keys = zip(table.column("policy").to_pylist(), table.column("seed").to_pylist(), strict=True)
        return {key: table.take(rows) for key, rows in by_key(keys).items()}

    def groups(self, table: pa.Table | None = None) -> Iterator[Group]:
        """The rows by scenario, policy and checkpoint, in the order of the table."""
        table = self.table if table is None else table
        keys = zip(*(table.column(name).to_pylist() for name in ("scenario", "policy", "round")), strict=True)
        for (scenario, policy, round_), rows in by_key(keys).items():
            yield Group(scenario, policy, round_, table.take(rows))

    def final(self) -> pa.Table:
        """The rows of the last checkpoint of every episode."""
        ends = {part["scenario"]["id"]: part["checkpoints"][-1] for part in self.provenance["simulations"]}
        last = pa.array([ends[scenario] for scenario in self.table.column("scenario").to_pylist()], pa.int64())
        return self.table.filter(pc.equal(self.table.column("round"), last))

    def summary(self, *, all_checkpoints: bool = False) -> pa.Table:
        """One row per scenario and policy at the last checkpoint, or at every one: statistics over the seeds.

        For each of loss, regret, its parts, violation, rounds in violation, safe weight: the mean, its 95 % interval
        (``_low``, ``_high``) and the 10, 50 and 90 % quantiles. ``violating_share`` is the share of runs with any
        violation, with its exact 95 % interval.
        """
        table = self.table if all_checkpoints else self.final()
        return pa.Table.from_pylist([summarise(group) for group in self.groups(table)])

    def save(self, folder: str | Path) -> Path:
        """Write run.parquet and provenance.json; each replaces an older one in a single step."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.provenance, indent=1)
        told = self.table.replace_schema_metadata({"surefoot": text})
        new_table, new_text = (folder / f".{name}.new" for name in (TABLE, PROVENANCE))
        parquet.write_table(told, new_table, compression="zstd")
        new_text.write_text(text)
        new_table.replace(folder / TABLE)
        new_text.replace(folder / PROVENANCE)
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Load a run that `save` wrote."""
        path = Path(folder) / TABLE
        if not path.is_file():
            raise RuleError("folder", f"hold a {TABLE}", folder, str(folder))
        try:
            table = parquet.read_table(path)
        except pa.ArrowException as error:
            raise RuleError("folder", f"hold a {TABLE} that can be read", folder, f"{folder}: {error}") from None
        if table.schema.names != SCHEMA.names or b"surefoot" not in (table.schema.metadata or {}):
            raise RuleError("folder", f"hold a {TABLE} of this version of surefoot", folder, str(folder))
        provenance = json.loads(table.schema.metadata[b"surefoot"])
        return cls(table.replace_schema_metadata(None).combine_chunks(), provenance)


def by_key(keys: Iterable[Any]) -> dict[Any, list[int]]:
    """The positions of each key."""
    places: dict[Any, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places


def summarise(group: Group) -> dict[str, Any]:
    """Statistics over the seeds of one policy in one scenario at one checkpoint."""
    columns = {
        name: np.array(group.rows.column(name).to_pylist(), np.float64)
        for name in (
            "loss", "regret", "safety_regret", "learning_regret", "violation", "rounds_in_violation", "safe_weight",
        )
    }  # fmt: skip
    seeds = group.rows.num_rows
    row: dict[str, Any] = {"scenario": group.scenario, "policy": group.policy, "round": group.round, "seeds": seeds}
    for name, values in columns.items():
        interval = mean_interval(values)
        row |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
        row |= {f"{name}_q{round(100 * q)}": float(np.quantile(values, q)) for q in QUANTILES}
    violating = int((columns["rounds_in_violation"] > 0).sum())
    share = share_interval(violating, seeds)
    row |= {"violating_runs": violating, "violating_share": share.value}
    row |= {"violating_share_low": share.low, "violating_share_high": share.high}
    margins = [margin for margin in group.rows.column("worst_margin").to_pylist() if margin is not None]
    loose = [rounds for rounds in group.rows.column("rounds_until_loose").to_pylist() if rounds is not None]
    row["worst_margin"] = min(margins, default=None)
    row["loose_runs"] = len(loose)
    row["rounds_until_loose_q50"] = float(np.median(loose)) if len(loose) == seeds else None
    return row
