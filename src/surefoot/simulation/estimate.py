"""How large a study is and how long it will take, measured on a few of its episodes."""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from surefoot.analysis.statistics import mean_interval
from surefoot.rules import Floats
from surefoot.simulation.run import Run
from surefoot.simulation.simulate import Options, Plan, Simulation, carried_out
from surefoot.simulation.study import Study

SECONDS = 2.0
"""How long to measure, about."""
BATCH = 8
"""Number of scenarios that are measured together, as a study runs them."""
FIRST, TIMES = 1_000, 8
"""Rounds of the first attempt at an episode, and how many times as many each further one has."""
NOISE = 0.1
"""What a measurement may be off by, at least: other programs use the machine too."""
FEW_SAMPLES = 0.5
"""What the mean of one measured cell may be off by, where other cells were not measured."""
MOST_OFF = 3.0
"""A forecast that may be off by more than this many times itself says no more than that."""


class Sample(NamedTuple):
    """What was measured in a few scenarios: seconds a round, from optimistic to pessimistic, and bytes of the table."""

    rounds: int  # that they have in the study
    low: float
    high: float
    episodes: int
    memory: float  # bytes a row
    disk: float


class Estimate(NamedTuple):
    """The size of a study and a forecast of its running time."""

    cells: int
    scenarios: int
    policies: int
    episodes: int
    rounds: int
    rows: int
    workers: int
    low: float
    high: float
    memory: float
    disk: float
    measured_cells: int
    measured_episodes: int
    measured_seconds: float

    @property
    def seconds(self) -> float:
        """The middle of the forecast, on a logarithmic scale."""
        return float(np.sqrt(self.low * self.high))


def estimate(study: Study, workers: int | None = None, seconds: float = SECONDS) -> Estimate:
    """Measure a few cells of a study, with as many workers as the study would have, and forecast the whole."""
    plans = [simulation.plan for simulation in study.simulations]
    threads = Options.checked(workers).workers
    samples: list[Sample] = []
    order = spread(plans)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the study itself has told them
        short = plans[order[0]]._replace(checkpoints=[min(10, plans[order[0]].checkpoints[-1])], seeds=[0])
        timed([short], threads)  # what is done only once is not counted
        begun = time.perf_counter()
        for first in range(0, len(order), BATCH):
            samples.append(measured([plans[place] for place in order[first : first + BATCH]], threads, seconds / 4))
            if time.perf_counter() - begun > seconds:
                break
    took = time.perf_counter() - begun
    rounds, lows, highs = (np.array([sample[i] for sample in samples], np.float64) for i in range(3))
    unseen = study.rounds - rounds.sum()
    off = uncertainty(rounds, rounds * (lows + highs) / 2) if unseen else 0.0
    low = rounds @ lows * (1 + unseen / rounds.sum() / (1 + off))
    high = rounds @ highs * (1 + unseen / rounds.sum() * (1 + off))
    rows = sum(len(plan.policies) * len(plan.seeds) * len(plan.checkpoints) for plan in plans)
    memory, disk = np.mean([[sample.memory, sample.disk] for sample in samples], axis=0)
    seen = [plans[place] for place in order[: BATCH * len(samples)]]
    return Estimate(
        cells=sum(len(plan.policies) for plan in plans),
        scenarios=len(plans),
        policies=len({name for plan in plans for name in plan.policies}),
        episodes=sum(len(plan.policies) * len(plan.seeds) for plan in plans),
        rounds=study.rounds,
        rows=rows,
        workers=threads,
        low=float(low) * (1 - NOISE),
        high=float(high) * (1 + NOISE),
        memory=float(rows * memory),
        disk=float(rows * disk),
        measured_cells=sum(len(plan.policies) for plan in seen),
        measured_episodes=sum(sample.episodes for sample in samples),
        measured_seconds=took,
    )


def spread(plans: list[Plan]) -> list[int]:
    """The places of the plans in a random order, the same every time."""
    return [int(place) for place in np.random.default_rng(0).permutation(len(plans))]


def uncertainty(rounds: Floats, seconds: Floats) -> float:
    """Half the width of the 95 % interval of the seconds a round in all cells, as a share of them."""
    if len(rounds) < 2:
        return FEW_SAMPLES
    rate = seconds.sum() / rounds.sum()
    interval = mean_interval((seconds - rate * rounds) / rounds.mean())
    return float(min(interval.high / rate, MOST_OFF))


def measured(plans: list[Plan], workers: int, seconds: float) -> Sample:
    """Play a few scenarios for more and more rounds, to their end if that is quick, and say what a round takes.

    Where the end is not reached, the optimistic figure is what further rounds took, and the pessimistic one what all of
    them did: early rounds carry what an episode takes to begin with.
    """
    whole = sum(plan.rounds for plan in plans)
    plans = [plan._replace(seeds=plan.seeds[:workers]) for plan in plans]
    total, longest = sum(plan.rounds for plan in plans), max(plan.checkpoints[-1] for plan in plans)
    rounds, before = FIRST, (0, 0.0)
    while True:
        cut = [plan._replace(checkpoints=up_to(plan.checkpoints, rounds)) for plan in plans]
        played = sum(plan.rounds for plan in cut)
        run, took = timed(cut, workers)
        if rounds >= longest or took * TIMES >= 2 * seconds:
            break
        rounds, before = rounds * TIMES, (played, took)
    high = took / played
    later = max(0.0, took - before[1]) / (played - before[0]) if before[0] else high / 2
    low = min(high, (took + later * (total - played)) / total)
    episodes = sum(len(plan.policies) * len(plan.seeds) for plan in plans)
    return Sample(whole, low, high, episodes, run.table.nbytes / run.table.num_rows, on_disk(run))


def up_to(checkpoints: list[int], rounds: int) -> list[int]:
    """The checkpoints of the first rounds."""
    last = min(rounds, checkpoints[-1])
    return sorted({*(at for at in checkpoints if at <= last), last})


def timed(plans: list[Plan], workers: int) -> tuple[Run, float]:
    """Carry out plans, and say how long that takes."""
    simulations, options = [Simulation(plan) for plan in plans], Options.checked(workers, False)
    begun = time.perf_counter()
    run = carried_out(simulations, options)
    return run, time.perf_counter() - begun


def on_disk(run: Run) -> float:
    """Bytes a row on disk; a large table needs less, since it is compressed as a whole."""
    sink = pa.BufferOutputStream()
    parquet.write_table(run.table, sink, compression="zstd")
    return float(sink.getvalue().size / run.table.num_rows)
