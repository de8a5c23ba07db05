"""Whole simulations: against ask and tell, against river's loop, one worker against two."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from river.bandit import Exp3

import surefoot as sf
from benchmarks.timing import best_of
from surefoot.policies.solb import SOLB
from surefoot.problem import Problem
from surefoot.rules import Floats

SEEDS, HORIZON = 100, 100_000


def scenario(horizon: int = HORIZON) -> sf.Scenario:
    return sf.scenarios.make("stochastic-v1", horizon=horizon)  # K = 5, m = 1


def solb(problem: Problem, seed: int) -> SOLB:
    return SOLB(problem, seed, preset="paper", learning_rate=0.01)


class OnlyAskAndTell:
    """A policy that hides its compiled loop."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._policy = solb(problem, seed)
        self.ask, self.tell = self._policy.ask, self._policy.tell

    @property
    def strategy(self) -> Floats:
        return self._policy.strategy

    @property
    def safe_weight(self) -> float:
        return self._policy.safe_weight


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def against_ask_and_tell() -> None:
    def run(policy: Any, seeds: int) -> float:
        world = scenario(20_000)
        return seconds(lambda: sf.simulate(world, {"solb": policy}, seeds, workers=1)) / (seeds * 20_000)

    blocks, rounds = run(solb, 50), run(OnlyAskAndTell, 2)
    print(f"a study through ask and tell {rounds * 1e6:.1f} us a round, block-wise {blocks * 1e6:.3f} us, "
          f"ratio {rounds / blocks:.0f}")  # fmt: skip


def against_river() -> None:
    world, arms, rng = scenario(), list(range(5)), np.random.default_rng(0)
    peer, means = Exp3(gamma=0.1, seed=1), world.losses.means  # type: ignore[union-attr]

    def river_round() -> None:
        arm = peer.pull(arms)
        peer.update(arm, 1.0 - float(rng.random() < means[arm]))

    def simulated() -> None:
        sf.simulate(world, {"solb": solb}, 5, workers=1)

    best = best_of({"river": river_round, "surefoot": simulated}, repeats=3, seconds=0.3)
    ours = best["surefoot"] / (5 * HORIZON)
    print(f"a simulated SOLB round, accounts included, {ours * 1e6:.3f} us; a round of river's Exp3 in a loop "
          f"{best['river'] * 1e6:.2f} us, ratio {best['river'] / ours:.0f}")  # fmt: skip


def workers() -> None:
    for checkpoints, named in ((None, "default checkpoints"), ([HORIZON], "one checkpoint")):
        times = {1: float("inf"), 2: float("inf")}
        for _ in range(4):
            for count in times:
                once = seconds(lambda: sf.simulate(scenario(), {"solb": solb}, SEEDS, checkpoints, workers=count), 1)
                times[count] = min(times[count], once)
        print(f"{SEEDS} seeds x {HORIZON:,} rounds of SOLB, {named}: {times[1]:.2f} s with one worker, {times[2]:.2f} s "
              f"with two, ratio {times[1] / times[2]:.2f}")  # fmt: skip


def one_command() -> None:
    head = f'seeds = {SEEDS}\nhorizon = {HORIZON}\nscenarios = [{{id = "stochastic-v1"}}]\n'
    study = head + 'policies = [{policy = "solb", preset = "paper"}]\n'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(study)
        command = [sys.executable, "-m", "surefoot", "run", str(path), "--out", folder + "/out"]
        took = seconds(lambda: subprocess.run(command, check=True, capture_output=True), 1)
    print(f"surefoot run, {SEEDS} seeds x {HORIZON:,} rounds of SOLB, from the command to the report: {took:.1f} s")


def report() -> None:
    sf.simulate(scenario(1000), {"a": solb, "b": OnlyAskAndTell}, 1, workers=1)  # kernels compiled or loaded
    against_ask_and_tell()
    against_river()
    workers()
    one_command()
    sys.stdout.flush()
