"""The commands around the service, as their user types them."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import surefoot as sf
from surefoot.storage.database import Database, transaction
from surefoot.storage.keys import digest_of, list_keys
from surefoot.storage.log import SqlLog
from surefoot.storage.schema import events
from tests.cli.test_cli import call
from tests.servers import GOOD, ROUTING


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A database with an experiment of thirty rounds, of which the last timed out."""
    path = str(tmp_path / "surefoot.db")
    with sf.Live.of(SqlLog(Database.open(path), "routing"), sf.Experiment.from_dict(ROUTING), seed=1) as live:
        for i in range(29):
            live.feedback(live.decide(now=float(i)).id, GOOD, now=float(i))
        live._log.save_checkpoint(live._fold.last, live._fold.to_bytes())
        live.decide(now=30.0)
        live.expire(now=9_999.0)
    return path


def test_keys_are_made_listed_and_revoked(db: str) -> None:
    roles = ("--role", "decide", "--role", "feedback")
    code, key, _ = call("keys", "create", "checkout", *roles, "--experiment", "routing", "--days", 90, "--db", db)
    assert code == 0
    assert re.fullmatch(r"sf_[\w-]{43}\n", key)
    code, listed, _ = call("keys", "list", "--db", db)
    assert "checkout" in listed
    assert "decide feedback" in listed
    assert "valid" in listed
    assert key.strip() not in listed
    assert call("keys", "revoke", 1, "--db", db)[0] == 0
    assert "revoked" in call("keys", "list", "--db", db)[1]
    (told,) = json.loads(call("keys", "list", "--db", db, "--json")[1])
    assert {one: told[one] for one in ("id", "name", "roles", "experiment", "state")} == {
        "id": 1, "name": "checkout", "roles": ["decide", "feedback"], "experiment": "routing", "state": "revoked",
    }  # fmt: skip
    assert told["expires"] - told["created"] == pytest.approx(90 * 86_400)
    assert key.strip() not in json.dumps(told)
    database = Database.open(db)
    assert list_keys(database)[digest_of(key.strip())].revoked is not None
    database.close()
    for arguments, words in (
        (("create", "x", "--role", "root"), "role must be 'decide' or 'feedback' or 'read' or 'admin', got 'root'"),
        (("create", "x", "--role", "read", "--days", -1), "days must be"),
        (("revoke", 9), "id must be the number of a key"),
    ):
        code, _, told = call("keys", *arguments, "--db", db)
        assert code == 2
        assert words in told


def test_replay_says_that_states_are_equal(db: str) -> None:
    code, told, _ = call("replay", "routing", "--db", db)
    assert code == 0
    assert told.startswith("equal: 62 events from the first on, and 2 after the checkpoint, lead to the state ")


def test_replay_notices_a_log_that_was_tampered_with(db: str) -> None:
    with transaction(db) as connection:
        connection.exec_driver_sql("UPDATE events SET body = replace(body, '0.31', '0.32') WHERE seq = 3")
    code, _, told = call("replay", "routing", "--db", db)
    assert code == 2
    assert "log must lead to the rounds that were stored, as in round 1" in told
    with transaction(db) as connection:
        connection.exec_driver_sql("UPDATE rounds SET costs = replace(costs, '0.155', '0.16') WHERE seq = 1")
    code, _, told = call("replay", "routing", "--db", db)
    assert code == 2
    assert "log must lead to the state that follows from the checkpoint" in told


def test_export_writes_rounds(db: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, told, _ = call("export", "routing", "--db", db, "--out", out)
    assert code == 0
    assert told.startswith("30 rounds are in ")
    lines = [json.loads(line) for line in (out / "rounds.ndjson").read_text().splitlines()]
    assert pq.read_table(out / "rounds.parquet").to_pylist() == lines
    assert [line["seq"] for line in lines] == list(range(1, 31))
    assert [line["source"] for line in lines] == ["feedback"] * 29 + ["timeout"]
    assert lines[-1]["costs"] == {"spend": 1.0, "answered": 1.0}
    assert sf.Experiment.load(out / "experiment.json") == sf.Experiment.from_dict(ROUTING)
    assert told.splitlines()[-1] == f"Report: {out / 'report.html'}"


def test_the_report_of_an_export_is_drawn_without_the_database(db: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("export", "routing", "--db", db, "--out", out)[0] == 0
    drawn = (out / "report.html").read_text()
    (out / "report.html").unlink()
    Path(db).unlink()
    code, told, _ = call("show", out)
    assert code == 0
    assert "30 rounds in 1 epoch, 3 arms, 2 guardrails; policy solb" in told
    assert "The mean of every guardrail is within its limit in every epoch." in told
    assert (out / "report.html").read_text() == drawn
    told = json.loads(call("show", out, "--json")[1])
    assert told["experiment"] == "routing"
    assert [(one["guardrail"], one["rounds"], one["words"]) for one in told["verdicts"]] == [
        ("spend", 30, "within the limit"), ("answered", 30, "within the limit"),
    ]  # fmt: skip
    (out / "history.json").unlink()
    code, _, told = call("show", out)
    assert code == 2
    assert "folder must hold the history.json of a complete export" in told


def test_the_database_is_upgraded(tmp_path: Path, db: str) -> None:
    assert call("db", "upgrade", "--db", tmp_path / "new.db")[1] == "the tables have version 0003\n"
    assert call("db", "upgrade", "--db", db)[1] == "the tables have version 0003 already\n"


def test_an_upgrade_names_the_logs_that_it_cannot_read(db: str) -> None:
    database = Database.open(db)
    with database.engine.begin() as connection:
        connection.execute(events.update().values(decision=None))
        connection.execute(events.update().where(events.c.seq == 2).values(body="{"))
    database.close()
    code, out, err = call("db", "upgrade", "--db", db)
    assert (code, out) == (0, "the tables have version 0003 already\n")
    assert "the log of routing cannot be read (DecodeError: " in err
    assert "restore its events from a backup and run `surefoot db upgrade` again" in err


@pytest.mark.parametrize("command", [["replay", "x"], ["export", "x", "--out", "y"], ["keys", "list"]])
def test_what_does_not_exist_is_named(command: list[str], tmp_path: Path, db: str) -> None:
    code, _, told = call(*command, "--db", tmp_path / "nothing.db")
    assert code == 2
    assert "db must be a file that exists" in told
    if command[0] != "keys":
        code, _, told = call(*command, "--db", db)
        assert code == 2
        assert "experiment must be in the database, got 'x'" in told


def test_a_near_miss_of_an_experiment_is_guessed(db: str) -> None:
    code, _, told = call("replay", "rooting", "--db", db)
    assert code == 2
    assert told.endswith("got 'rooting' (did you mean routing?)\n")


def test_serve_refuses_what_it_cannot_serve(tmp_path: Path, db: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, told = call("serve", "--db", db, "--port", taken.getsockname()[1])
    assert code == 2
    assert "port must be free at 127.0.0.1" in told
    with transaction(db) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    code, _, told = call("serve", "--db", db, "--port", 0)
    assert code == 2
    assert "version 9999" in told
    code, _, told = call("serve", "--db", db, "--role", "boss")
    assert (code, told) == (2, "role must be 'all' or 'decider' or 'learner', got 'boss'\n")
