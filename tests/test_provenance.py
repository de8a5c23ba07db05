"""Resuming mixes nothing: what other source code, other libraries or another processor made is run again.

The package is copied, run, changed and run again in processes of their own. Kernels are not compiled there (that takes
a minute); what is compared is the source all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import surefoot as sf
from surefoot.provenance import made_by

UCB1 = ("policies/ucb1.py", "math.sqrt(2.0 * math.log(rounds)", "math.sqrt(0.1 * math.log(rounds)")
KERNEL = ("kernels/ledger.py", '"""', '"""Changed. ')
REPORT = ("reporting/style.py", '"""', '"""Changed. ')
COMMAND = ("cli/lists.py", '"""', '"""Changed. ')
STUDY = """
seeds = {seeds}
horizon = 60
scenarios = [{{id = "three-arms-v1"}}, {{id = "stochastic-v1"}}]
policies = [{{policy = "ucb1"}}]
"""
RESUMED = """
import sys, surefoot as sf
folder, seeds, before = sys.argv[1], int(sys.argv[2]), None
if len(sys.argv) > 3:
    before = sf.Run.load(sys.argv[3])
scenario = sf.scenarios.make("three-arms-v1", horizon=60)
sf.simulate(scenario, {"ucb1": sf.UCB1}, seeds, [60], 1, resume=before).save(folder)
"""
NOT_REUSED = "the earlier run is not reused, because the source code of surefoot"


class Copy:
    """A copy of the package that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "surefoot"
        shutil.copytree(Path(sf.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def change(self, name: str, old: str, new: str) -> None:
        path = self.package / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def python(self, *arguments: object) -> str:
        """Run Python on this copy; what it writes to stderr."""
        where = {"PYTHONPATH": str(self.package.parent), "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-W", "ignore:the margin", *map(str, arguments)]
        done = subprocess.run(command, env=os.environ | where, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def regrets(folder: Path) -> list[float]:
    return [float(value) for value in sf.Run.load(folder).table.column("regret").to_pylist()]


def elapsed(folder: Path) -> list[float]:
    """Seconds that the policies have taken: of episodes that are not run again, those of the first time."""
    told = json.loads((folder / "provenance.json").read_text())["simulations"]
    return [part["policy_seconds"]["ucb1"] for part in told]


def test_a_run_of_a_policy_that_has_changed_since_is_run_again(copy: Copy, tmp_path: Path) -> None:
    before, after, fresh = (tmp_path / name for name in ("before", "after", "fresh"))
    copy.python("-c", RESUMED, before, 2)
    copy.change(*UCB1)
    assert NOT_REUSED in copy.python("-c", RESUMED, after, 3, before)
    copy.python("-c", RESUMED, fresh, 3)
    assert regrets(after) == regrets(fresh)
    assert regrets(after)[:2] != regrets(before)  # the change does change results


@pytest.mark.parametrize("change", [None, REPORT, COMMAND])
def test_a_run_of_the_same_source_is_reused(change: tuple[str, str, str] | None, copy: Copy, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    copy.python("-c", RESUMED, before, 2)
    if change:
        copy.change(*change)
    assert "reused" not in copy.python("-c", RESUMED, after, 2, before)
    assert elapsed(after) == elapsed(before)


def test_a_study_of_a_policy_that_has_changed_since_is_run_again(copy: Copy, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"

    def run(seeds: int, out: str) -> str:
        study.write_text(STUDY.format(seeds=seeds))
        return copy.python("-m", "surefoot", "run", study, "--out", tmp_path / out, "--workers", "1")

    run(2, "out")
    first = elapsed(tmp_path / "out")
    assert "reused" not in run(2, "out")
    assert elapsed(tmp_path / "out") == first
    copy.change(*UCB1)
    assert run(3, "out").count(NOT_REUSED) == 1  # for two scenarios
    run(3, "fresh")
    assert regrets(tmp_path / "out") == regrets(tmp_path / "fresh")


def test_a_change_of_any_file_that_simulations_use_is_noticed(copy: Copy) -> None:
    code = "from surefoot.provenance import made_by; print(made_by()['source'], file=__import__('sys').stderr)"
    seen = [copy.python("-c", code)]
    for change in (UCB1, KERNEL):
        copy.change(*change)
        seen.append(copy.python("-c", code))
    (copy.package / "policies" / "another.py").touch()
    seen.append(copy.python("-c", code))
    assert len(set(seen)) == 4
    copy.change(*REPORT)
    copy.change(*COMMAND)
    assert copy.python("-c", code) == seen[-1]


def with_numba(part: dict[str, Any]) -> None:
    part["versions"]["numba"] = "0.1"


def with_processor(part: dict[str, Any]) -> None:
    part["machine"]["cpu"] = "pentium"


def with_narrow_vectors(part: dict[str, Any]) -> None:
    part["machine"]["features"] = ["sse2"]


def with_nothing(part: dict[str, Any]) -> None:
    for name in ("source", "machine"):  # as saved by version 0.1.0
        del part[name]


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (with_numba, r"numba was 0\.1 and is \d"),
        (with_processor, "it was made on another processor or C library"),
        (with_narrow_vectors, "it was made on another processor or C library"),
        (with_nothing, "the source code of surefoot has changed"),
    ],
)
def test_what_was_made_otherwise_is_not_reused(alter: Callable[[dict[str, Any]], None], why: str) -> None:
    made: list[int] = []

    def counted(problem: sf.Problem, seed: int) -> sf.UCB1:
        made.append(seed)
        return sf.UCB1(problem, seed)

    scenario = sf.scenarios.make("three-arms-v1", horizon=500)
    before = sf.simulate(scenario, {"a": counted}, 2, [500], 1)
    made.clear()
    sf.simulate(scenario, {"a": counted}, 2, [500], 1, resume=before)
    assert len(made) == 1  # to check it
    alter(before.provenance["simulations"][0])
    with pytest.warns(UserWarning, match=f"^the earlier run is not reused, because {why}"):
        sf.simulate(scenario, {"a": counted}, 2, [500], 1, resume=before)
    assert len(made) == 1 + 3


def test_the_version_of_surefoot_is_told_but_the_source_counts() -> None:
    scenario = sf.scenarios.make("three-arms-v1", horizon=500)
    before = sf.simulate(scenario, {"a": sf.UCB1}, 2, [500], 1)
    before.provenance["simulations"][0]["versions"]["surefoot"] = "0.0.1"
    after = sf.simulate(scenario, {"a": sf.UCB1}, 2, [500], 1, resume=before)
    seconds = [run.provenance["simulations"][0]["policy_seconds"] for run in (before, after)]
    assert seconds[0] == seconds[1]


def test_provenance_survives_json() -> None:
    assert json.loads(json.dumps(made_by())) == made_by()
