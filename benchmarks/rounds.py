"""Whole rounds: SOLB and EXP3 as compiled loops of the same kind, ask and tell against river, and growth with K."""

from __future__ import annotations

import sys

import numpy as np
from river.bandit import Exp3

import surefoot as sf
from benchmarks.timing import best_of
from surefoot.kernels.compile import njit
from surefoot.kernels.episode import draw
from surefoot.policies.solb import HardMirror, State, update
from surefoot.rules import Floats


@njit(error_model="numpy", _nrt=False)
def solb_rounds(n, state, losses, costs, observed, rng):  # type: ignore[no-untyped-def]
    for _ in range(n):
        arm = draw(state.strategy, rng.random())
        propensity = state.strategy[arm]
        loss = 1.0 if rng.random() < losses[arm] else 0.0
        for i in range(costs.shape[0]):
            observed[i] = 1.0 if rng.random() < costs[i, arm] else 0.0
        update(state, arm, propensity, 1.0 - state.safe_weight[0], loss, observed)


@njit(error_model="numpy", _nrt=False)
def exp3_rounds(n, totals, strategy, rate, losses, costs, rng):  # type: ignore[no-untyped-def]
    for _ in range(n):
        lowest, norm, spent = np.inf, 0.0, 0
        for a in range(totals.size):
            lowest = min(lowest, totals[a])
        for a in range(totals.size):
            strategy[a] = np.exp(-rate * (totals[a] - lowest))
            norm += strategy[a]
        for a in range(totals.size):
            strategy[a] /= norm
        arm = draw(strategy, rng.random())
        loss = 1.0 if rng.random() < losses[arm] else 0.0
        for i in range(costs.shape[0]):
            spent += rng.random() < costs[i, arm]
        totals[arm] += loss / strategy[arm]


def solb_state(n_arms: int, rate: float | str, horizon: int = 100_000) -> State:
    problem = sf.Problem(n_arms, [0.5], horizon, 0.05, sf.SafeStrategy(np.eye(n_arms)[-1], [0.2]))
    state: State = sf.SOLB(problem, 1, preset="paper", learning_rate=rate)._state
    return state


def worlds(n_arms: int) -> tuple[Floats, Floats]:
    return np.linspace(0.2, 0.8, n_arms), np.linspace(0.9, 0.2, n_arms)[None, :]


def compiled_rounds() -> None:
    n = 100_000
    for name, rate in (("theory rate", "theory"), ("rate 0.01", 0.01)):
        losses, costs = worlds(5)
        rng = np.random.default_rng(0)

        def solb(rate: float | str = rate) -> None:
            solb_rounds(n, solb_state(5, rate), losses, costs, np.zeros(1), rng)

        def exp3() -> None:
            exp3_rounds(n, np.zeros(5), np.full(5, 0.2), 0.01, losses, costs, rng)

        t = best_of({"solb": solb, "exp3": exp3}, repeats=5, seconds=0.1)
        print(f"compiled round, K = 5, m = 1, whole run of 100,000, {name}: SOLB {t['solb'] / n * 1e9:.0f} ns, "
              f"EXP3 {t['exp3'] / n * 1e9:.0f} ns, ratio {t['solb'] / t['exp3']:.1f}")  # fmt: skip


def ask_and_tell() -> None:
    n_arms = 10
    problem = sf.Problem(n_arms, [0.5], 10**9, 0.05, sf.SafeStrategy(np.eye(n_arms)[-1], [0.2]))
    ours, theirs, arms = sf.SOLB(problem, 1, preset="paper"), Exp3(gamma=0.1, seed=1), list(range(n_arms))

    def solb() -> None:
        ours.tell(ours.ask(), 0.5, [0.5])

    def river() -> None:
        theirs.update(theirs.pull(arms), 0.5)

    t = best_of({"solb": solb, "river": river})
    print(f"ask + tell from Python, K = 10: SOLB {t['solb'] * 1e6:.1f} us, river's Exp3 pull + update "
          f"{t['river'] * 1e6:.1f} us, ratio {t['solb'] / t['river']:.2f}")  # fmt: skip


def growth() -> None:
    print("growth with K (m = 1, compiled SOLB round):")
    smallest = None
    for n_arms in (10, 100, 1000, 10_000):
        losses, costs = worlds(n_arms)
        rng, n = np.random.default_rng(0), max(200, 200_000 // n_arms)
        state = solb_state(n_arms, 0.01, horizon=10**7)
        t = best_of({"solb": lambda: solb_rounds(n, state, losses, costs, np.zeros(1), rng)}, repeats=3)["solb"] / n
        smallest = smallest or t
        plan = HardMirror.algorithm.layout.arrangement(K=n_arms, m=1)
        memory = 8 * (plan.n_floats + plan.n_integers)
        print(
            f"  K = {n_arms:>6}: {t * 1e6:>8.2f} us a round, {t / smallest:>7.1f} times K = 10; state {memory / 1024:.0f} kB"
        )


def report() -> None:
    compiled_rounds()
    ask_and_tell()
    growth()
    sys.stdout.flush()
