"""Studies that outgrow a process: ``python -m benchmarks.scale overhead|files|engines|memory|report|deaths``."""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import surefoot as sf
from surefoot.provenance import made_by
from surefoot.simulation.cluster import local_cluster
from surefoot.simulation.episode import live_through
from surefoot.simulation.folder import Local
from surefoot.simulation.parts import About, Part, encoded
from surefoot.simulation.schema import SCHEMA
from surefoot.simulation.simulate import Simulation, prepared


def scenario(horizon: int) -> sf.Scenario:
    return sf.scenarios.make("stochastic-v1", horizon=horizon)  # K = 5, m = 1


def solb(problem: sf.Problem, seed: int) -> sf.SOLB:
    return sf.SOLB(problem, seed, preset="paper", learning_rate=0.01)


def peak() -> float:
    """The most memory that this process has used, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def overhead(episodes: int = 2_000, horizon: int = 1_000) -> None:
    """Processor time a run beyond its rounds: tasks, part files and bookkeeping, with one worker."""
    simulation = Simulation(prepared(scenario(horizon), {"solb": solb}, episodes, None))
    found = []
    for _ in range(3):
        before = time.process_time()
        for seed in range(episodes):
            live_through(simulation.work.stage, {"solb": solb}, seed, lambda rounds: None, threading.Event())
        between = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            sf.simulate(scenario(horizon), {"solb": solb}, episodes, workers=1, folder=folder)
        found.append((between - before, time.process_time() - between))
    bare, whole = (min(column) for column in zip(*found, strict=True))
    print(f"{episodes} runs of {horizon} rounds: {bare:.2f} s of processor time bare, {whole:.2f} s in a study")
    print(f"overhead: {1e3 * (whole - bare) / episodes:.3f} ms a run")


def files(runs: int = 320, horizon: int = 100_000) -> None:
    """What a run takes on disk, and how long the file of a task takes to be written and flushed."""
    with tempfile.TemporaryDirectory() as folder:
        sf.simulate(scenario(horizon), {"solb": solb}, runs, workers=2, folder=folder)
        contents = [path.read_bytes() for path in Path(folder).glob("parts/*/*")]
        spent = []
        for i, content in enumerate(contents):
            started = time.perf_counter()
            Local(Path(folder)).write(f"parts/again/{i}.parquet", content)
            spent.append(time.perf_counter() - started)
    size = sum(map(len, contents)) / runs
    print(
        f"{runs} runs in {len(contents)} part files: {size / 1e3:.1f} kB a run, {1e3 * np.median(spent):.1f} ms to write one"
    )


def engines(seconds: float = 60.0, turns: int = 2, horizon: int = 100_000) -> None:
    """Rounds a second with two threads and with two Dask workers, by the clock and by processor time of all processes.

    Where other programs use the same cores, only processor time tells the engines apart.
    """
    import distributed

    world, policies = scenario(horizon), {"solb": solb}
    sf.simulate(world, policies, 2, workers=2)  # compiles, which is not to be measured
    sample = sf.simulate(world, policies, 8, workers=2).provenance["simulations"][0]["elapsed_seconds"]
    seeds = max(8, int(8 * seconds / sample))
    found: dict[str, list[tuple[float, float]]] = {"threads": [], "dask": []}
    tables = {}
    typed: Any = distributed
    with (
        local_cluster(2) as cluster,
        typed.Client(cluster, set_as_default=False) as client,
    ):
        options: dict[str, dict[str, Any]] = {
            "threads": {"workers": 2},
            "dask": {"engine": "dask", "scheduler": cluster.scheduler_address},
        }

        def processor() -> float:
            return time.process_time() + float(sum(client.run(time.process_time).values()))

        for given in options.values():
            sf.simulate(world, policies, 8, **given)
        for turn in range(turns):  # in turns, because the machine may have other work
            for engine, given in options.items():
                with tempfile.TemporaryDirectory() as folder:
                    started, spent = time.perf_counter(), processor()
                    tables[engine] = sf.simulate(world, policies, seeds, folder=folder, **given).table
                    rounds = seeds * horizon / 1e6
                    found[engine].append((rounds / (time.perf_counter() - started), rounds / (processor() - spent)))
                by_clock, by_processor = found[engine][-1]
                print(
                    f"{engine}, turn {turn + 1}: {by_clock:.2f} million rounds/s, {by_processor:.2f} a second of processor time"
                )
    print(f"equal to the bit: {tables['threads'].equals(tables['dask'])}")
    clock, spent = np.mean(found["dask"], axis=0) / np.mean(found["threads"], axis=0)
    print(f"dask / threads: {clock:.2f} by the clock, {spent:.2f} by processor time")


def memory(engine: str = "threads") -> None:
    """Memory of the driver after 1,000 runs and after ten and a hundred times as many."""
    for episodes in (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            sf.simulate(scenario(100), {"greedy": sf.EpsilonGreedy}, episodes, [10, 100], workers=2, folder=folder, engine=engine)  # fmt: skip
            files = len(list(Path(folder).glob("parts/*/*")))
        print(f"{episodes:,} runs in {files} parts: {peak():.0f} MB, {time.perf_counter() - started:.0f} s")


def synthetic(folder: Path, episodes: int, block: int = 500) -> None:
    """So many runs of one policy, with default checkpoints: numbers of the right shape, made up."""
    simulation = Simulation(prepared(scenario(100_000), {"solb": sf.SOLB}, episodes, None))
    finished, rounds = simulation.finished, simulation.plan.checkpoints
    rng, size = np.random.default_rng(1), block * len(rounds)
    columns: dict[str, Any] = {}
    for field in SCHEMA:
        if pa.types.is_list(field.type):
            width = 1 if field.name == "violations" else 5
            flat = pa.array(rng.integers(0, 100, size * width) / 100)
            columns[field.name] = pa.ListArray.from_arrays(pa.array(np.arange(size + 1) * width, pa.int32()), flat)
        elif pa.types.is_boolean(field.type):
            columns[field.name] = pa.array(np.ones(size, bool))
        else:
            columns[field.name] = pa.array(rng.integers(0, 100, size)).cast(field.type)
    columns |= {"scenario": [finished.configuration["scenario"]["id"]] * size, "policy": ["solb"] * size}
    columns["round"] = rounds * block
    for first in range(0, episodes, block):
        seeds = list(range(first, first + block))
        columns["seed"] = np.repeat(seeds, len(rounds))
        about = About(finished.identity, finished.policies, seeds, {"solb": 1.0}, 1.0, made_by())
        Part.written(Local(folder), finished.folder, about, encoded(about, [pa.table(columns, SCHEMA)]))
    simulation.run().write_provenance(Local(folder))


REPORT = """
import resource, sys, time, surefoot as sf
started = time.perf_counter()
run = sf.Run.load(sys.argv[1])
print(f"opened {run} in {time.perf_counter() - started:.0f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
sf.write_report(run, sys.argv[2])
print(f"report after {time.perf_counter() - started:.0f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
"""


def report(episodes: int = 1_000_000) -> None:
    """Memory for the report of a million runs, all of one policy in one scenario, which is the hardest case."""
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name), time.perf_counter()
        synthetic(folder, episodes)
        size = sum(path.stat().st_size for path in folder.glob("parts/*/*"))
        print(f"{episodes:,} runs made up in {time.perf_counter() - started:.0f} s, {size / 1e9:.1f} GB")
        subprocess.run([sys.executable, "-W", "ignore", "-c", REPORT, name, name], check=True)


def deaths(every: float = 10.0, seconds: float = 60.0, horizon: int = 100_000) -> None:
    """A worker killed again and again: the table must be the undisturbed one."""
    import distributed

    typed: Any = distributed
    world = scenario(horizon)
    sample = sf.simulate(world, {"solb": solb}, 8, workers=2).provenance["simulations"][0]["elapsed_seconds"]
    seeds = max(8, int(8 * seconds * 2 / sample))
    undisturbed = sf.simulate(world, {"solb": solb}, seeds, workers=2).table
    with (
        typed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=60
        ) as cluster,
        typed.Client(cluster, set_as_default=False) as client,
    ):
        done, killed = threading.Event(), []

        def kill() -> None:
            while not done.wait(every):
                for pid in [*client.run(os.getpid, on_error="ignore").values()][:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        started = time.perf_counter()
        run = sf.simulate(world, {"solb": solb}, seeds, engine="dask", scheduler=cluster.scheduler_address)
        took = time.perf_counter() - started
        done.set()
        killer.join()
    print(f"{len(killed)} workers killed in {took:.0f} s; equal to the bit: {run.table.equals(undisturbed)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["overhead", "files", "engines", "memory", "report", "deaths"])
    parser.add_argument("--seconds", type=float, help="of each study, for engines and deaths")
    parser.add_argument("--turns", type=int, help="of each engine, for engines")
    parser.add_argument("--engine", choices=["threads", "dask"], help="for memory")
    given = vars(parser.parse_args())
    globals()[given.pop("what")](**{name: value for name, value in given.items() if value is not None})
