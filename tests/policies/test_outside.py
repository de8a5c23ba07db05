"""A policy from outside the package, in one file, by the five steps of CONTRIBUTING."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import surefoot as sf
from surefoot.kernels.compile import OPTIONS, njit
from surefoot.kernels.dual import SOLVED
from surefoot.kernels.episode import lives_by
from surefoot.problem import Floats
from tests.contracts.suite import PolicyContract


class State(NamedTuple):  # step 1: a class, and the state of it
    counts: Floats
    means: Floats
    strategy: Floats
    safe_weight: Floats


@njit(**{**OPTIONS, "cache": False})
def update(state, arm, propensity, loss, costs):  # type: ignore[no-untyped-def]  # step 2: one round, compiled
    state.counts[arm] += 1
    state.means[arm] += (loss - state.means[arm]) / state.counts[arm]
    best = 0
    for a in range(state.means.size):
        if state.means[a] < state.means[best]:
            best = a
    for a in range(state.means.size):
        state.strategy[a] = 0.1 / state.means.size + (0.9 if a == best else 0.0)
    return SOLVED


lives_by(State, update)


class EpsilonGreedy(sf.Policy):
    """Plays what was best so far, and one time in ten anything."""

    kind: ClassVar[str] = "none"

    def __init__(self, problem: sf.Problem, seed: int | None = None) -> None:  # it has no options
        super().__init__(problem, seed)

    def _start(self) -> State:
        n_arms = self.problem.n_arms
        return State(np.zeros(n_arms), np.zeros(n_arms), np.full(n_arms, 1 / n_arms), np.zeros(1))

    def _restored(self) -> None:
        best = self._state.means.argmin()
        self._state.strategy[:] = 0.1 / self.problem.n_arms + 0.9 * (np.arange(self.problem.n_arms) == best)


plain_update: Any = getattr(update, "py_func", update)  # not compiled in the first place under NUMBA_DISABLE_JIT


class Plainly(EpsilonGreedy):
    """The same without compiled code: a `_learn` in plain Python."""

    def _start(self) -> State:
        n_arms = self.problem.n_arms
        return Unknown(np.zeros(n_arms), np.zeros(n_arms), np.full(n_arms, 1 / n_arms), np.zeros(1))  # type: ignore[return-value]

    def _learn(self, arm: int, propensity: float, loss: float, costs: Floats) -> None:
        plain_update(self._state, arm, propensity, loss, costs)


class Unknown(NamedTuple):
    counts: Floats
    means: Floats
    strategy: Floats
    safe_weight: Floats


class TestContract(PolicyContract):  # step 4: the contract; step 3, the registry, is for the package's own
    make = staticmethod(EpsilonGreedy)


class TestPlainContract(PolicyContract):
    make = staticmethod(Plainly)


def test_it_can_be_simulated_and_learns() -> None:  # step 5: what it is for, and a control
    scenario = sf.Scenario("plain-v1", sf.Problem(4, [], 4000), sf.losses.Bernoulli([0.2, 0.5, 0.6, 0.7]))
    run = sf.simulate(scenario, {"greedy": EpsilonGreedy, "plain": Plainly, "exp3": sf.Exp3}, 5, workers=2)
    regret = {row["policy"]: row["regret"] for row in run.summary().to_pylist()}
    assert regret["greedy"] == pytest.approx(regret["plain"])
    assert regret["greedy"] < 0.2 * 4000 * 0.3  # a uniform policy has 0.3 a round


OUTSIDE = """
from typing import NamedTuple
import numpy as np, surefoot as sf
from surefoot.kernels.compile import OPTIONS, njit
from surefoot.kernels.episode import lives_by

class State(NamedTuple):
    strategy: np.ndarray
    safe_weight: np.ndarray

@njit(**{**OPTIONS, "cache": False})
def update(state, arm, propensity, loss, costs):
    return 0

lives_by(State, update)

class Mine(sf.Policy):
    kind = "none"
    def _start(self):
        return State(np.full(2, 0.5), np.zeros(1))
"""
PLAY = """
import numpy as np, surefoot as sf
block = [np.zeros(shape) for shape in ((1, 2), (1, 0, 2), (1, 2), 1)]
POLICY(sf.Problem(2, [], 9), 1).live(*block)
"""


def test_an_outside_policy_leaves_the_cache_of_kernels_readable(tmp_path: Path) -> None:
    # the cache names the types of states: one that a later process cannot import must not be in it
    (tmp_path / "mine.py").write_text(OUTSIDE)
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, then = "import mine" + PLAY.replace("POLICY", "mine.Mine"), PLAY.replace("POLICY", "sf.UCB1")
    for code, folder in ((first, tmp_path), (then, tmp_path / "cache")):
        told = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=settings, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
