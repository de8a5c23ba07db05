"""The rounds and the history of an experiment as files."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from surefoot.experiments.events import Log
from surefoot.experiments.history import history
from surefoot.reporting.served import EXPERIMENT, HISTORY, LINES, ROUNDS
from surefoot.rules import RuleError
from surefoot.service.rounds import shown
from surefoot.simulation.run import Run

AT_ONCE = 20_000
"""Rounds that are held in memory."""


def write_export(log: Log, out: Path, db: str) -> int:
    """Write the rounds as Parquet and NDJSON, the experiment and its history as JSON; return how many rounds.

    Parameters
    ----------
    db
        The database that the log is in, for the command that makes the export again.
    """
    if Run.is_in(out):
        raise RuleError("out", "be a folder without the results of a study", out, str(out))
    out.mkdir(parents=True, exist_ok=True)
    (out / HISTORY).unlink(missing_ok=True)  # it is written last: without it, an export is not complete
    found = history(log)
    # an address may hold a password, and a report is shown around
    where = '"$SUREFOOT_DB"' if "://" in db else shlex.quote(db)
    experiment = found["epochs"][-1]["experiment"]
    found["command"] = f"surefoot export {experiment['name']} --db {where} --out {shlex.quote(str(out))}"
    found["exported"] = datetime.now(UTC).isoformat(timespec="seconds")
    names = {one["name"] for epoch in found["epochs"] for one in epoch["experiment"]["guardrails"]}
    # the service may go on meanwhile: rounds that came later than the history are left out
    rounds = (shown(one, found["prefix"]) for one in log.rounds(limit=found["rounds"]))
    columns = schema(sorted(names))
    with (out / LINES).open("w", encoding="utf-8") as lines, pq.ParquetWriter(out / ROUNDS, columns) as table:
        while chunk := list(islice(rounds, AT_ONCE)):
            lines.writelines(json.dumps(one) + "\n" for one in chunk)
            table.write_table(pa.Table.from_pylist(chunk, columns))
    (out / EXPERIMENT).write_text(json.dumps(experiment, indent=2) + "\n", encoding="utf-8")
    (out / HISTORY).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return int(found["rounds"])


def schema(guardrails: list[str]) -> pa.Schema:
    """The columns of the rounds."""
    costs = pa.struct([(name, pa.float64()) for name in guardrails])
    return pa.schema([
        ("seq", pa.int64()), ("id", pa.string()), ("epoch", pa.int64()), ("arm", pa.string()),
        ("propensity", pa.float64()), ("source", pa.string()), ("loss", pa.float64()),
        *([("costs", costs)] if guardrails else []), ("at", pa.float64()),
    ])  # fmt: skip
