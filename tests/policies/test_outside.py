"""A policy from outside the package, in one file, by the five steps of CONTRIBUTING."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import pytest

import surefoot as sf
from surefoot.kernels.compile import compiled
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.types import SOLVED, Integers
from surefoot.rules import SHARE, Floats
from surefoot.testing import PolicyContract, make_problem


class State(NamedTuple):  # step 1: a class, and the state of it
    counts: Annotated[Integers, saved("K", rule=COUNT)]
    means: Annotated[Floats, saved("K", rule=SHARE)]
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]


@compiled
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:  # step 2
    state.counts[arm] += 1
    state.means[arm] += (loss - state.means[arm]) / state.counts[arm]
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    best = 0
    for a in range(state.means.size):
        if state.means[a] < state.means[best]:
            best = a
    for a in range(state.means.size):
        state.strategy[a] = 0.1 / state.means.size + (0.9 if a == best else 0.0)


class EpsilonGreedy(sf.Policy[State]):
    """Plays what was best so far, and one time in ten anything."""

    name: ClassVar[str] = "epsilon-greedy"
    kind: ClassVar[str] = "none"
    algorithm = Algorithm(State, update, choose)

    def __init__(self, problem: sf.Problem, seed: int | None = None) -> None:  # it has no options
        super().__init__(problem, seed)


class Plainly(EpsilonGreedy):
    """The same without compiled code: a `_learn` in plain Python."""

    algorithm = Algorithm(State, begin=choose)

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        state = self._state
        state.counts[arm] += 1
        state.means[arm] += (loss - state.means[arm]) / state.counts[arm]
        state.strategy[:] = 0.1 / state.means.size
        state.strategy[state.means.argmin()] += 0.9


class TestContract(PolicyContract):  # step 4: the contract; step 3, the registry, is for the package's own
    make = staticmethod(EpsilonGreedy)
    weighs_losses = False


class TestPlainContract(TestContract):
    make = staticmethod(Plainly)


class Forgetful(EpsilonGreedy):
    """Forgets its seed: a mistake that is not in the mathematics."""

    def __init__(self, problem: sf.Problem, seed: int | None = None) -> None:
        super().__init__(problem, None)


def test_the_contract_refuses_an_outside_policy_that_breaks_it() -> None:
    class Contract(TestContract):
        make = staticmethod(Forgetful)

    with pytest.raises(AssertionError):
        Contract().test_same_seed_same_run(make_problem("K=5 m=2"))


def test_it_can_be_simulated_and_learns() -> None:  # step 5: what it is for, and a control
    scenario = sf.Scenario("plain-v1", sf.Problem(4, [], 4000), sf.losses.Bernoulli([0.2, 0.5, 0.6, 0.7]))
    run = sf.simulate(scenario, {"greedy": EpsilonGreedy, "plain": Plainly, "exp3": sf.Exp3}, 5, workers=2)
    regret = {row["policy"]: row["regret"] for row in run.summary().to_pylist()}
    assert regret["greedy"] == pytest.approx(regret["plain"])
    assert regret["greedy"] < 0.2 * 4000 * 0.3  # a uniform policy has 0.3 a round


OUTSIDE = """
from typing import Annotated, NamedTuple
import surefoot as sf
from surefoot.kernels.compile import compiled
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived
from surefoot.kernels.types import Floats

class State(NamedTuple):
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]

@compiled
def update(state, arm, propensity, weight, loss, costs):
    return 0

class Mine(sf.Policy):
    name = "mine"
    kind = "none"
    algorithm = Algorithm(State, update)
    def _start(self, state):
        state.strategy = 0.5
"""
PLAY = """
import numpy as np, surefoot as sf
block = [np.zeros(shape) for shape in ((1, 2), (1, 0, 2), (1, 2), 1)]
POLICY(sf.Problem(2, [], 9), 1).live(*block)
"""


def test_an_outside_policy_leaves_the_cache_of_kernels_readable(tmp_path: Path) -> None:
    # the cache names the types of states: one that a later process cannot import must not be in it
    (tmp_path / "mine.py").write_text(OUTSIDE)
    (tmp_path / "cache").mkdir()
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, then = "import mine" + PLAY.replace("POLICY", "mine.Mine"), PLAY.replace("POLICY", "sf.UCB1")
    for code, folder in ((first, tmp_path), (then, tmp_path / "cache")):
        told = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=settings, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
