"""A run in a folder: written part by part, resumed after a kill, read without being held in memory."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import surefoot as sf
from surefoot.simulation import parts
from surefoot.simulation.folder import Local, folder_at, held
from surefoot.simulation.parts import Finished
from surefoot.simulation.tasks import Backlog
from tests.simulation.players import quick

pytestmark = pytest.mark.filterwarnings("ignore:the margin")

SCENARIO = sf.scenarios.make("interior-safe-v1", horizon=600)
POLICIES = {"solb": quick(sf.SOLB), "colb": quick(sf.COLB)}
CHECKPOINTS = [1, 50, 600]


def run(seeds: Any = 6, policies: Any = POLICIES, **options: Any) -> sf.Run:
    return sf.simulate(SCENARIO, policies, seeds, CHECKPOINTS, **{"workers": 2, **options})


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("parts/*/*.parquet"))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files(folder)}


@pytest.fixture
def whole() -> sf.Run:
    return run()


@pytest.mark.parametrize("kind", ["path", "text", "file", "memory"])
def test_a_run_in_a_folder_is_the_run_in_memory(kind: str, whole: sf.Run, tmp_path: Path) -> None:
    folder: Any = {"path": tmp_path, "text": str(tmp_path), "file": f"file://{tmp_path}"}.get(
        kind, f"memory://{uuid.uuid4().hex}"
    )
    written = run(folder=folder)
    for one in (written, sf.Run.load(folder)):
        assert one.table.equals(whole.table)
        assert one.summary(all_checkpoints=True).equals(whole.summary(all_checkpoints=True))
        assert one.final().equals(whole.final())
        assert one.complete
    assert sf.Run.load(folder).provenance == written.provenance
    again = run(folder=folder)  # nothing is left to do
    assert (
        again.provenance["simulations"][0]["policy_seconds"] == written.provenance["simulations"][0]["policy_seconds"]
    )
    saved = f"memory://{uuid.uuid4().hex}" if kind == "memory" else tmp_path / "copy"
    again.save(saved)
    assert sf.Run.load(saved).table.equals(whole.table)


def test_parts_are_the_rows_of_whole_episodes_by_policy(tmp_path: Path, whole: sf.Run) -> None:
    run(folder=tmp_path)
    assert {path.parent.name.rpartition("-")[0] for path in files(tmp_path)} == {SCENARIO.id}
    found = [parquet.ParquetFile(path) for path in files(tmp_path)]
    for file in found:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            assert len(set(rows.column("policy").to_pylist())) == 1
            assert rows.column("round").to_pylist() == CHECKPOINTS * (rows.num_rows // len(CHECKPOINTS))
    others = pa.concat_tables(file.read() for file in found).replace_schema_metadata(None)  # as anyone else reads them
    order = [(name, "ascending") for name in ("policy", "seed", "round")]
    assert others.sort_by(order).equals(whole.table.sort_by(order))


def test_neither_the_order_of_parts_nor_how_they_were_cut_matters(tmp_path: Path, whole: sf.Run) -> None:
    run([4, 1], {"colb": POLICIES["colb"]}, folder=tmp_path)
    run([5, 2, 1], folder=tmp_path, workers=1)
    last = run(6, folder=tmp_path)
    assert last.table.equals(whole.table)
    assert sf.Run.load(tmp_path).table.equals(whole.table)
    fewer = run([2, 0], {"colb": POLICIES["colb"]}, folder=tmp_path)
    keep = whole.table.filter(pa.compute.equal(whole.table["policy"], "colb")).to_pylist()
    assert fewer.table.to_pylist() == [row for seed in (2, 0) for row in keep if row["seed"] == seed]


def test_the_same_episode_twice_counts_once(tmp_path: Path, whole: sf.Run) -> None:
    # two drivers on two machines, say, which do not see each other's lock
    run([0, 1, 2], folder=tmp_path / "one", workers=1)
    run(6, folder=tmp_path / "two", workers=1)
    for path in files(tmp_path / "one"):
        target = tmp_path / "two" / path.relative_to(tmp_path / "one")
        target.write_bytes(path.read_bytes())
    assert sf.Run.load(tmp_path / "two").table.equals(whole.table)


# Summaries without the table


@pytest.mark.parametrize("budget", [1, 300, 2**28])
def test_summaries_do_not_depend_on_how_much_is_read_at_once(
    budget: int, tmp_path: Path, whole: sf.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run([1, 4], folder=tmp_path)  # so that parts are out of order
    run(6, folder=tmp_path)
    monkeypatch.setattr(parts, "BUDGET", budget)
    loaded = sf.Run.load(tmp_path)
    assert loaded.summary(all_checkpoints=True).equals(whole.summary(all_checkpoints=True))
    for cell, rows in zip(loaded.cells(), (whole.episodes(SCENARIO.id),) * 2):
        episodes = [table.to_pylist() for (name, _), table in rows.items() if name == cell.policy]
        allocation = np.mean([[row["allocation"] for row in episode] for episode in episodes], axis=0)
        np.testing.assert_allclose(cell.means("allocation"), allocation, rtol=1e-14)
        assert cell.first() == episodes[0]
    assert "table" not in vars(loaded)  # it was not needed


def test_groups_are_the_rows_by_checkpoint(whole: sf.Run) -> None:
    for group in whole.groups():
        assert set(group.rows.column("round").to_pylist()) == {group.round}
        assert group.rows.column("seed").to_pylist() == list(range(6))


# Files that are not what they should be


def test_a_torn_part_is_named_ignored_and_run_again(tmp_path: Path, whole: sf.Run) -> None:
    run(folder=tmp_path)
    torn = files(tmp_path)[0]
    torn.write_bytes(torn.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=f"{torn.name} is ignored, because it is damaged"):
        part = sf.Run.load(tmp_path)
    assert not part.complete
    assert part.table.num_rows < whole.table.num_rows
    with pytest.warns(UserWarning, match="is ignored"):
        assert run(folder=tmp_path).table.equals(whole.table)
    assert sf.Run.load(tmp_path).table.equals(whole.table)


def test_a_part_whose_numbers_have_changed_is_refused_when_it_is_read(tmp_path: Path) -> None:
    run(folder=tmp_path)
    path = files(tmp_path)[0]
    changed = bytearray(path.read_bytes())
    group = parquet.read_metadata(path).row_group(0)
    names = [group.column(i).path_in_schema for i in range(group.num_columns)]
    column = group.column(names.index("regret"))
    changed[column.data_page_offset + column.total_compressed_size - 5] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ValueError, match=f"^folder must hold parts that can be read, got .*{path.name}"):
        assert sf.Run.load(tmp_path).table


def test_foreign_files_are_named_and_left_alone(tmp_path: Path, whole: sf.Run) -> None:
    run(folder=tmp_path)
    (inside,) = {path.parent for path in files(tmp_path)}
    (inside / "notes.txt").write_text("mine")
    parquet.write_table(pa.table({"a": [1]}), inside / "other.parquet")
    renamed = inside / f"{'0' * 32}.parquet"
    renamed.write_bytes(files(tmp_path)[0].read_bytes())
    (inside / ".half.parquet.123.new").write_text("PAR1")  # what a kill leaves
    with pytest.warns(UserWarning, match="is ignored, because") as told:
        loaded = sf.Run.load(tmp_path)
    named = sorted(str(one.message).split(" is ignored")[0].rpartition("/")[2] for one in told)
    assert named == sorted(["notes.txt", "other.parquet", renamed.name])
    assert loaded.table.equals(whole.table)
    with pytest.warns(UserWarning, match="is ignored"):
        assert run(folder=tmp_path).table.equals(whole.table)
    assert {path.name for path in inside.iterdir()} >= {"notes.txt", "other.parquet"}
    assert not list(inside.glob(".*"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"simulations": [{}]}'])
def test_provenance_that_says_nothing_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(ValueError, match=r"^folder must hold a provenance.json of this version of surefoot, got"):
        sf.Run.load(tmp_path)


def test_the_folder_of_another_run_is_refused_and_not_touched(tmp_path: Path) -> None:
    run(folder=tmp_path)
    before = content(tmp_path)
    other = sf.scenarios.make("three-arms-v1", horizon=300)
    with pytest.raises(ValueError, match=r"^folder must be a folder of its own for each run, got .*interior-safe-v1"):
        sf.simulate(other, POLICIES, 2, folder=tmp_path)
    assert content(tmp_path) == before


def test_a_folder_with_a_run_under_way_is_refused(tmp_path: Path) -> None:
    with held(Local(tmp_path)), pytest.raises(ValueError, match=r"^folder must be a folder in which no other run is"):
        run(folder=tmp_path)
    assert run(folder=tmp_path).complete


@pytest.mark.parametrize("folder", [3, b"here", "nonsense://here"])
def test_bad_folders_are_refused(folder: Any) -> None:
    with pytest.raises(ValueError, match=r"^folder must be .*, got"):
        folder_at(folder)


# The format of version 0.1 and 0.2


def write_earlier_format(run: sf.Run, folder: Path) -> None:
    folder.mkdir()
    told = run.table.replace_schema_metadata({"surefoot": json.dumps(run.provenance)})
    parquet.write_table(told, folder / "run.parquet", compression="zstd")
    (folder / "provenance.json").write_text(json.dumps(run.provenance))


def test_the_earlier_format_is_read_and_resumed(tmp_path: Path, whole: sf.Run) -> None:
    before = run(4)
    write_earlier_format(before, tmp_path / "old")
    loaded = sf.Run.load(tmp_path / "old")
    assert loaded.table.equals(before.table)
    assert loaded.provenance == before.provenance
    made: list[int] = []

    def counted(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
        made.append(seed)
        return POLICIES["colb"](problem, seed)

    again = run(policies={"solb": POLICIES["solb"], "colb": counted}, folder=tmp_path / "old")
    assert len(made) == 1 + 2  # one is looked at, two seeds are new
    assert again.table.equals(whole.table)
    assert sf.Run.load(tmp_path / "old").table.equals(whole.table)
    assert not (tmp_path / "old" / "run.parquet").exists()


# Machines


def test_parts_of_another_machine_are_refused_if_results_shall_be_exact(tmp_path: Path) -> None:
    run(folder=tmp_path)
    path = files(tmp_path)[0]
    table = parquet.read_table(path)
    about = json.loads(table.schema.metadata[b"surefoot"])
    about["made_by"]["machine"]["cpu"] = "pentium"
    old, new = (json.dumps(one).encode() for one in (json.loads(table.schema.metadata[b"surefoot"]), about))
    groups = parquet.ParquetFile(path)
    schema = table.schema.with_metadata({**table.schema.metadata, b"surefoot": new})
    with parquet.ParquetWriter(path.with_suffix(".new"), schema) as writer:
        for i in range(groups.num_row_groups):
            writer.write_table(groups.read_row_group(i).replace_schema_metadata(schema.metadata))
    path.with_suffix(".new").replace(path)
    assert old != new
    loaded = sf.Run.load(tmp_path)
    (elsewhere,) = loaded.provenance["simulations"][0]["made_elsewhere"]
    assert elsewhere["machine"]["cpu"] == "pentium"
    assert elsewhere["seeds"] == len(about["seeds"])
    with pytest.raises(ValueError, match=f"^exact must be False .*{path.name}, it was made on another processor"):
        run(folder=tmp_path, exact=True)
    run(folder=tmp_path / "fresh", exact=True)  # the control


# Tasks


@given(
    sizes=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 5)), min_size=1, max_size=4),
    workers=st.integers(1, 40),
    pace=st.sampled_from([1e-9, 1e-4, 1e-2, 10.0]),
)
def test_tasks_are_all_missing_episodes_once(sizes: list[tuple[int, int]], workers: int, pace: float) -> None:
    finished = [
        Finished(
            {
                "scenario": {"id": f"s{i}"},
                "checkpoints": [10, 100],
                "seeds": list(range(seeds)),
                "policies": {f"p{j}": j for j in range(policies)},
            }
        )
        for i, (seeds, policies) in enumerate(sizes)
    ]
    backlog, seen = Backlog(finished), []
    while (task := backlog.next(workers)) is not None:
        seen += [(task.simulation, name, seed) for name in task.policies for seed in task.seeds]
        assert task.rounds == 100 * len(task.policies) * len(task.seeds)
        backlog.learn(task, pace * task.rounds)
    wanted = [
        (i, f"p{j}", s) for i, (seeds, policies) in enumerate(sizes) for j in range(policies) for s in range(seeds)
    ]
    assert sorted(seen) == sorted(wanted)


def test_tasks_take_about_a_second() -> None:
    configuration = {
        "scenario": {"id": "s"},
        "checkpoints": [1000],
        "seeds": list(range(100_000)),
        "policies": {"p": 0},
    }
    for seconds_a_seed in (0.5, 0.01, 0.002):
        backlog, long = Backlog([Finished(configuration)]), []
        for _ in range(50):
            task = backlog.next(4)
            assert task is not None
            long.append(len(task.seeds) * seconds_a_seed)
            backlog.learn(task, long[-1])
        assert 0.5 <= np.median(long) <= 1.0


def test_a_seed_is_divided_where_workers_would_be_idle() -> None:
    configuration = {"scenario": {"id": "s"}, "checkpoints": [10], "seeds": [0], "policies": dict.fromkeys("abcdef", 0)}
    backlog, tasks = Backlog([Finished(configuration)]), []
    while (task := backlog.next(4)) is not None:
        tasks.append(task.policies)
    assert len(tasks) >= 3
    assert sorted("".join(map("".join, tasks))) == list("abcdef")


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_a_file_that_cannot_be_written_ends_the_run_with_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Local.write
    written: list[str] = []

    def full(self: Local, name: str, content: bytes) -> None:
        if name.startswith("parts"):
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            written.append(name)
        write(self, name, content)

    monkeypatch.setattr(Local, "write", full)
    with pytest.raises(OSError, match="No space left"):
        run(folder=tmp_path)
    monkeypatch.undo()
    assert len(files(tmp_path)) == 3
    assert run(folder=tmp_path).complete


def test_runs_of_a_version_without_a_column_are_read_with_that_column_empty(tmp_path: Path, whole: sf.Run) -> None:
    write_earlier_format(whole, tmp_path / "old")
    told = parquet.read_table(tmp_path / "old" / "run.parquet")
    parquet.write_table(told.drop_columns(["baseline_loss"]), tmp_path / "old" / "run.parquet")
    after = sf.Run.load(tmp_path / "old").table
    assert after.schema.names == whole.table.schema.names
    assert after.column("baseline_loss").null_count == after.num_rows
    assert after.drop_columns(["baseline_loss"]).equals(whole.table.drop_columns(["baseline_loss"]))


def test_parts_of_a_version_without_a_column_are_read_with_that_column_empty(tmp_path: Path, whole: sf.Run) -> None:
    whole.save(tmp_path)
    for path in (tmp_path / "parts").rglob("*.parquet"):
        rows = parquet.ParquetFile(path)
        groups = [rows.read_row_group(i).drop_columns(["baseline_loss"]) for i in range(rows.num_row_groups)]
        with parquet.ParquetWriter(path, groups[0].schema, write_page_checksum=True) as writer:
            for group in groups:
                writer.write_table(group)
    after = sf.Run.load(tmp_path)
    assert after.complete
    assert after.table.column("baseline_loss").null_count == after.table.num_rows
    assert after.table.drop_columns(["baseline_loss"]).equals(whole.table.drop_columns(["baseline_loss"]))
    assert after.summary().column("regret").equals(whole.summary().column("regret"))
