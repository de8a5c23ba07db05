"""Episodes on a GPU: ``python -m benchmarks.cuda rates|agreement``, on a machine that has one.

Rounds a second are counted from the end of the first launch to the end of the last, so without compilation and
without what the host does before and after; losses and costs are drawn, and all accounts are kept.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from threading import Event
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.simulation.cuda import Scene
from surefoot.simulation.episode import Stage, live_through
from surefoot.simulation.simulate import chosen_rounds

PAPER: dict[str, Any] = {"preset": "paper", "learning_rate": 0.01}
CASES: dict[str, tuple[dict[str, Any], int, int, int]] = {  # options, arms, guardrails, rounds
    "paper": (PAPER, 5, 1, 100_000),
    "paper-10": (PAPER, 10, 2, 100_000),
    "practical": ({"preset": "practical"}, 5, 1, 100_000),
    "practical-20": ({"preset": "practical"}, 20, 3, 20_000),
    "led": ({"preset": "led"}, 5, 1, 100_000),
    "led-20": ({"preset": "led"}, 20, 3, 20_000),
}


def world(n_arms: int, n_constraints: int, horizon: int) -> sf.Scenario:
    """Coin flips: every other arm is too costly, and the better arms are."""
    safe = np.eye(n_arms)[-1]
    problem = sf.Problem(
        n_arms, [0.4] * n_constraints, horizon, delta=0.05, safe=sf.SafeStrategy(safe, [0.2] * n_constraints)
    )
    losses = np.linspace(0.2, 0.8, n_arms)
    costs = np.where(np.arange(n_arms) % 2 == 0, 0.6, 0.3) * np.ones((n_constraints, 1))
    costs[:, -1] = 0.2
    return sf.Scenario("coins-v1", problem, sf.losses.Bernoulli(losses), sf.costs.Bernoulli(costs), random="counter")


def rates(names: list[str], episodes: int, rounds: int | None) -> None:
    """Million rounds a second of each case."""
    for name in names:
        options, n_arms, n_constraints, usual = CASES[name]
        horizon = rounds or usual
        scenario = world(n_arms, n_constraints, horizon)
        started = time.perf_counter()
        scene = Scene(Stage(scenario, chosen_rounds(None, horizon)), name, partial(sf.SOLB, **options))
        for _ in scene.live(range(64), lambda _: None, Event()):
            pass
        compiled, marks = time.perf_counter() - started, []
        started = time.perf_counter()
        lived = list(scene.live(range(episodes), lambda more: marks.append((time.perf_counter(), more)), Event()))
        whole = time.perf_counter() - started
        done, seconds = sum(more for _, more in marks[1:]), marks[-1][0] - marks[0][0]
        print(
            f"{name}: K = {n_arms}, m = {n_constraints}, T = {horizon:,}, {len(lived):,} episodes: "
            f"{done / seconds / 1e6:,.0f} million rounds/s on the device ({seconds:.2f} s), "
            f"{episodes * horizon / whole / 1e6:,.0f} with the host's part; first call {compiled:.0f} s",
            flush=True,
        )


def agreement(names: list[str], episodes: int, rounds: int | None) -> None:
    """How far the total loss of each episode is from that of the same episode on the CPU."""
    for name in names:
        options, n_arms, n_constraints, usual = CASES[name]
        horizon = rounds or usual
        stage = Stage(world(n_arms, n_constraints, horizon), chosen_rounds(None, horizon))
        factory = partial(sf.SOLB, **options)
        there = list(Scene(stage, name, factory).live(range(episodes), lambda _: None, Event()))
        worst = [[], []]  # type: list[list[float]]
        for one in there:
            here = live_through(stage, {name: factory}, one.seed, lambda _: None, Event())[0]
            apart = np.abs(one.rows.loss - here.rows.loss)
            worst[0].append(float(apart[-1]))
            worst[1].append(float(np.abs(one.world._rows.losses - here.world._rows.losses).max()))
        shares = [np.mean(np.array(worst[0]) < level) for level in (1e-9, 1e-6, 1e-3)]
        print(
            f"{name}: T = {horizon:,}, {episodes} episodes: total losses within 1e-9 in {shares[0]:.1%}, 1e-6 in "
            f"{shares[1]:.1%}, 1e-3 in {shares[2]:.1%}; farthest {max(worst[0]):.2g}; worlds {max(worst[1]):.2g} apart",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rates", "agreement"])
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = given.cases or list(CASES)
    if given.what == "rates":
        rates(chosen, given.episodes or 67_584, given.rounds)
    else:
        agreement(chosen, given.episodes or 64, given.rounds)
