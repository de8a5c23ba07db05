"""Whole episodes against a bare loop over the same rounds; draws by counter; adversaries in compiled code.

``python -m benchmarks.episodes [WORKERS ...]`` measures with these numbers of threads, by default 1 and 2.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.environments.losses import Seen
from surefoot.rules import Floats
from surefoot.simulation.world import BLOCK_NUMBERS, policy_seed

PRESETS = ("paper", "practical")
SIZES = {10_000: 400, 100_000: 40}  # rounds: seeds for each worker; a call has a fixed cost of some 10 ms
REPEATS = 4


def solb(preset: str) -> Callable[[sf.Problem, int], sf.SOLB]:
    return lambda problem, seed: sf.SOLB(problem, seed, preset=preset)


def bare(scenario: Any, make: Callable[[sf.Problem, int], Any], seeds: int, workers: int) -> None:
    """The policy is made, the world is drawn, the rounds are played in compiled code. Nothing is accounted for."""
    problem, own = scenario.problem, threading.local()
    length = min(problem.rounds, BLOCK_NUMBERS // (problem.n_arms * (problem.n_constraints + 1)))

    def live(seed: int) -> None:
        if not hasattr(own, "room"):
            shapes = (length, problem.n_arms), (length, *scenario.mean_costs.shape), (length, problem.n_arms), (length,)
            own.room = [np.empty(shape) for shape in shapes]
        policy, first, second = make(problem, policy_seed(seed)), np.random.default_rng(seed), np.random.default_rng()
        for begin in range(0, problem.rounds, length):
            losses, costs, *rest = (part[: problem.rounds - begin] for part in own.room)
            scenario.costs.fill(costs, begin, second)
            scenario.losses.fill(losses, begin, problem.rounds, first, costs)
            policy.live(losses, costs, *rest)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(live, range(seeds)))


def best(calls: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, tuple[float, float]]:
    """The least wall and processor time of each, in turns."""
    found = {name: (float("inf"), float("inf")) for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            wall, processor = time.perf_counter(), time.process_time()
            call()
            took = time.perf_counter() - wall, time.process_time() - processor
            found[name] = min(found[name][0], took[0]), min(found[name][1], took[1])
    return found


def against_a_bare_loop(counts: list[int]) -> None:
    for preset in PRESETS:
        for horizon, each in SIZES.items():
            scenario, make = sf.scenarios.make("stochastic-v1", horizon=horizon), solb(preset)
            for workers in counts:
                seeds = each * workers
                took = best({
                    "simulate": lambda: sf.simulate(scenario, {"solb": make}, seeds, workers=workers),
                    "bare": lambda: bare(scenario, make, seeds, workers),
                })  # fmt: skip
                rates = {name: [seeds * horizon / second / 1e6 for second in both] for name, both in took.items()}
                wall, processor = (rates["simulate"][i] / rates["bare"][i] for i in (0, 1))
                print(f"SOLB {preset}, K = 5, m = 1, {horizon:,} rounds, default checkpoints, workers {workers}: "
                      f"simulate {rates['simulate'][0]:.2f} M rounds/s, bare loop {rates['bare'][0]:.2f}, "
                      f"ratio {wall:.0%} (by processor time {processor:.0%})", flush=True)  # fmt: skip


def by_counter() -> None:
    safe = sf.SafeStrategy([0, 0, 0, 0, 0, 1], [0.2, 0.3])
    problem = sf.Problem(6, [0.5, 0.6], 10_000, safe=safe)
    means = [[0.9, 0.7, 0.4, 0.5, 0.3, 0.2], [0.2, 0.6, 0.7, 0.8, 0.4, 0.3]]
    losses = sf.losses.Bernoulli([0.1, 0.2, 0.3, 0.4, 0.5, 0.8])
    for name, costs in {"Beta": sf.costs.Beta(means, 20), "Bernoulli": sf.costs.Bernoulli(means)}.items():
        scenario = sf.Scenario(f"{name}-v1", problem, losses, costs)

        def run(random: str, scenario: sf.Scenario = scenario) -> sf.Run:
            return sf.simulate(scenario, {"solb": sf.SOLB}, 20, workers=1, random=random)

        took = best({random: partial(run, random) for random in ("numpy", "counter")})
        rates = {random: 20 * 10_000 / seconds[1] / 1e6 for random, seconds in took.items()}
        print(f"{name} costs, K = 6, m = 2, 10,000 rounds, one worker, by processor time: numpy {rates['numpy']:.2f} "
              f"M rounds/s, counter {rates['counter']:.2f}, ratio {rates['counter'] / rates['numpy']:.1f}")  # fmt: skip


class InPython(sf.losses.RaiseMostPlayed):
    """The built-in adversary, called round by round."""

    def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
        super().respond(out, seen, rng)


def adversaries() -> None:
    whole = sf.scenarios.make("adaptive-v1", horizon=10_000)
    model: Any = whole.losses
    losses = {"compiled": model, "in Python": InPython(model.means, model.strength)}
    scenarios = {name: sf.Scenario("adaptive-v1", whole.problem, one, whole.costs) for name, one in losses.items()}
    for preset in PRESETS:
        play = partial(sf.simulate, policies={"solb": solb(preset)}, seeds=3, workers=1)
        took = best({name: partial(play, one) for name, one in scenarios.items()})
        each = {name: seconds[1] / 30_000 * 1e6 for name, seconds in took.items()}
        print(f"SOLB {preset} against an adversary, a round by processor time: in Python {each['in Python']:.1f} us, "
              f"compiled {each['compiled']:.2f} us, ratio {each['in Python'] / each['compiled']:.0f}")  # fmt: skip


def report(counts: list[int] | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        against_a_bare_loop(counts or [1, 2])
        by_counter()
        adversaries()


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores")
    report([int(count) for count in sys.argv[1:]])
