"""Dask's workers: the same bits as threads, whoever dies, joins or differs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import app
from surefoot.simulation import cluster, tasks
from surefoot.simulation.study import Study
from surefoot.simulation.world import policy_seed
from tests.simulation.players import Always, Slow, quick

distributed: Any = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:the margin"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(os.name == "nt", reason="signals"),
]

SCENARIO = sf.scenarios.make("interior-safe-v1", horizon=600)
ADAPTIVE = sf.scenarios.make("adaptive-v1", horizon=600)
CHECKPOINTS = [1, 50, 600]


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """Two workers, one thread each."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=60
    ) as processes:
        yield processes


@pytest.fixture
def address(local: Any) -> str:
    return str(local.scheduler_address)


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    with distributed.Client(address, set_as_default=False) as found:
        found.wait_for_workers(2, timeout=30)
        yield found


def simulate(policies: Any, seeds: Any = 6, scenario: sf.Scenario = SCENARIO, **options: Any) -> sf.Run:
    rounds = [at for at in CHECKPOINTS if at <= scenario.problem.rounds]
    return sf.simulate(scenario, policies, seeds, rounds, **options)


def test_dask_gives_the_same_bits_as_threads(address: str, tmp_path: Path) -> None:
    shift = 0.3  # a closure, which only cloudpickle takes

    class Mine(Always):
        """A policy that no module has."""

        def __init__(self, problem: sf.Problem, seed: int) -> None:
            super().__init__(np.r_[shift, 1 - shift, np.zeros(problem.n_arms - 2)], seed)

    policies = {"greedy": lambda problem, seed: sf.EpsilonGreedy(problem, seed), "solb": quick(sf.SOLB), "mine": Mine}
    for scenario in (SCENARIO, ADAPTIVE):
        threads = simulate(policies, scenario=scenario, workers=2)
        dask = simulate(policies, scenario=scenario, engine="dask", scheduler=address, folder=tmp_path / scenario.id)
        assert dask.table.equals(threads.table)
        assert sf.Run.load(tmp_path / scenario.id).table.equals(threads.table)
        assert dask.provenance["simulations"][0]["made_elsewhere"] == []


STUDY = """
seeds = 3
horizon = 400
scenarios = [{id = "dose-finding-v1"}, {id = "three-arms-v1"}]
policies = [{policy = "epsilon-greedy"}, {policy = "ucb1"}]
"""


def test_a_study_runs_on_a_cluster_and_goes_on_with_threads(address: str, tmp_path: Path) -> None:
    first = Study.parse(STUDY, tmp_path, "study.toml").run(
        tmp_path / "out", engine="dask", scheduler=address, exact=True
    )
    assert first.complete
    more = STUDY.replace("seeds = 3", "seeds = 5")
    resumed = Study.parse(more, tmp_path, "study.toml", sf.Run.load(tmp_path / "out")).run(tmp_path / "out")
    assert resumed.table.equals(Study.parse(more, tmp_path, "study.toml").run().table)
    assert all(part.seeds.size <= 3 for one in resumed.finished for part in one.parts)  # the first ones are still there


def test_the_command_passes_its_options_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def run(self: Study, folder: Path, workers: int | None, **options: Any) -> sf.Run:
        given.append((workers, options))
        raise ConnectionError("lost the scheduler")

    monkeypatch.setattr(Study, "run", run)
    (tmp_path / "study.toml").write_text(STUDY)
    command = ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--exact", "--engine"]
    lost = CliRunner().invoke(app, [*command, "dask", "--scheduler", "tcp://here:1"])
    assert (lost.exit_code, lost.stderr) == (2, "lost the scheduler\n")
    assert given == [(None, {"engine": "dask", "scheduler": "tcp://here:1", "exact": True})]
    refused = CliRunner().invoke(app, [*command, "threads", "--scheduler", "tcp://here:1"])
    assert refused.exit_code == 2
    assert refused.stderr.startswith("scheduler must be an address, and go with engine 'dask', got 'tcp://here:1'")
    assert len(given) == 1


def test_workers_that_die_do_not_matter(client: Any, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SECONDS", 0.2)
    killed: list[int] = []

    def kill() -> None:
        while len(killed) < 3 and not done.wait(0.5):
            for pid in [*client.run(os.getpid, on_error="ignore").values()][:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    undisturbed = simulate({"slow": Slow}, 40, workers=2)
    done = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        disturbed = simulate({"slow": Slow}, 40, engine="dask", scheduler=address)
    finally:
        done.set()
        killer.join()
    assert len(set(killed)) >= 2
    assert disturbed.table.equals(undisturbed.table)


def test_ctrl_c_keeps_what_is_finished(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("someone else listens to Ctrl-C")
    monkeypatch.setattr(tasks, "SECONDS", 0.1)

    def press() -> None:
        until = time.monotonic() + 30
        while len(list(tmp_path.glob("parts/*/*.parquet"))) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.warns(UserWarning, match=r"^stopped with \d+ runs missing; call it again with the same folder"):
        part = simulate({"slow": Slow}, 60, engine="dask", scheduler=address, folder=tmp_path)
    thread.join()
    assert not part.complete
    assert part.table.num_rows >= 3 * len(CHECKPOINTS)
    kept = {path.name for path in tmp_path.glob("parts/*/*.parquet")}
    again = simulate({"slow": Slow}, 60, engine="dask", scheduler=address, folder=tmp_path)
    assert again.table.equals(simulate({"slow": Slow}, 60).table)
    assert {path.name for path in tmp_path.glob("parts/*/*.parquet")} >= kept


class Breaks(Slow):
    seed_was = 0

    def live(self, *block: Any) -> None:
        super().live(*block)
        if self.seed_was == 3 and self.round > 1:
            raise RuntimeError("broken")


def sometimes(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
    made = Breaks(problem, seed)
    made.seed_was = 3 if seed == policy_seed(3) else 0
    return made


def test_an_error_on_a_worker_is_the_error_of_the_run(address: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^broken$"):
        simulate({"it": sometimes}, engine="dask", scheduler=address, folder=tmp_path)
    kept = sf.Run.load(tmp_path)
    assert 3 not in kept.table.column("seed").to_pylist()
    assert kept.table.num_rows > 0


def pretend(part: str, key: str, value: str | None) -> None:
    """On a worker: say that it is another machine; the truth if there is no value."""
    from surefoot import provenance
    from surefoot.simulation import tasks

    true = vars(provenance).setdefault("truth", provenance.made_by)

    def told() -> dict[str, Any]:
        made = true()
        made |= {key: value} if part == "" else {part: made[part] | {key: value}}
        return made  # type: ignore[no-any-return]

    for module in (provenance, tasks):
        vars(module)["made_by"] = true if value is None else told


@pytest.fixture
def disguise(client: Any) -> Iterator[Any]:
    one = sorted(client.nthreads())[0]
    yield lambda *what: (client.run(pretend, *what, workers=[one]), one)[1]
    client.run(pretend, "", "", None, workers=[one])


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (("versions", "numpy", "1.0"), r"numpy 1\.0 in place of \d"),
        (("machine", "cpu", "pentium"), r"cpu pentium, libc \S.* in place of cpu \S+"),
    ],
)
def test_a_worker_that_differs_is_named_and_refused_if_asked(
    what: tuple[str, str, str], why: str, disguise: Any, address: str, tmp_path: Path
) -> None:
    odd = disguise(*what)
    with pytest.warns(UserWarning, match=rf"^results may differ in the last digits: 1 worker \({odd}\) with {why}"):
        run = simulate({"slow": Slow}, 20, engine="dask", scheduler=address, folder=tmp_path / "mixed")
    (elsewhere,) = run.provenance["simulations"][0]["made_elsewhere"]
    assert elsewhere[what[0]][what[1]] == what[2]
    assert 0 < elsewhere["seeds"] < 20
    assert simulate({"slow": Slow}, 20, folder=tmp_path / "mixed").table.equals(run.table)  # all of it is reused
    with pytest.raises(
        ValueError, match=rf"^exact must be False where workers differ, got True, and 1 worker \({odd}\)"
    ):
        simulate({"slow": Slow}, engine="dask", scheduler=address, exact=True, folder=tmp_path / "exact")
    assert not list(tmp_path.glob("exact/parts/*/*"))


def test_a_worker_with_other_source_code_is_refused(disguise: Any, address: str) -> None:
    odd = disguise("", "source", "0")
    with pytest.raises(ValueError, match=f"^scheduler must have workers with the same source code .* on {odd}"):
        simulate({"slow": Slow}, engine="dask", scheduler=address)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"engine": "spark"}, "engine must be one of threads, dask"),
        ({"engine": None}, "engine must be one of"),
        ({"scheduler": "tcp://127.0.0.1:1"}, "scheduler must be an address, and go with engine 'dask'"),
        ({"engine": "dask", "scheduler": 7}, "scheduler must be an address"),
        ({"engine": "dask", "scheduler": " "}, "scheduler must be an address"),
        ({"engine": "dask", "scheduler": "tcp://127.0.0.1:1", "workers": 2}, "workers must be left out"),
        ({"exact": 1}, "exact must be True or False"),
        (
            {"engine": "dask", "scheduler": "tcp://127.0.0.1:1"},
            "scheduler must be the address of a Dask scheduler that",
        ),
        ({"engine": "dask", "scheduler": "nonsense://x"}, "scheduler must be the address of a Dask scheduler that"),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    with pytest.raises(ValueError, match=f"^{what}.*, got"):
        simulate({"slow": Slow}, **options)


def test_what_cannot_be_pickled_is_refused(address: str) -> None:
    lock = threading.Lock()

    def factory(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
        with lock:
            return Slow(problem, seed)

    with pytest.raises(ValueError, match=r"^policies must be possible to pickle.* for engine 'dask', got .*lock"):
        simulate({"it": factory}, engine="dask", scheduler=address)


DRIVER = """
import sys, surefoot as sf
from tests.simulation.players import Slow
if __name__ == "__main__":
    scenario = sf.scenarios.make("interior-safe-v1", horizon=600)
    sf.simulate(scenario, {"slow": Slow}, 40, [1, 50, 600], 2, engine=sys.argv[1], folder=sys.argv[2])
"""


def test_a_driver_that_is_killed_twice_gives_the_same_table(tmp_path: Path) -> None:
    # the first has workers of its own, which must not outlive it
    script, folder, left = tmp_path / "driver.py", tmp_path / "run", []
    script.write_text(DRIVER)
    for engine, count in (("dask", 3), ("threads", 9)):
        command = [sys.executable, str(script), engine, str(folder)]
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.getcwd()})
        until = time.monotonic() + 60
        while len(parts(folder)) < count and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.wait()
        assert process.returncode == -signal.SIGKILL
        left.append(parts(folder))
        assert not sf.Run.load(folder).complete
        while any(alive(pid) for pid in children) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(alive(pid) for pid in children)
    assert left[0].items() < left[1].items()
    resumed = simulate({"slow": Slow}, 40, folder=folder)
    assert resumed.table.equals(simulate({"slow": Slow}, 40).table)
    assert sf.Run.load(folder).table.equals(resumed.table)
    assert parts(folder).items() >= left[1].items()  # what was there has not been run again


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("parts/*/*.parquet")}


def alive(pid: str) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
