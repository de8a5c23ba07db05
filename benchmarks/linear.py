"""Small linear programs: the compiled simplex method against SciPy's HiGHS, called as a user would."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from benchmarks.timing import best_of
from surefoot.kernels.compile import njit
from surefoot.kernels.layout import zeros
from surefoot.kernels.linear import Program, minimise


@njit(error_model="numpy", _nrt=False)
def repeat(n, task, strategy):  # type: ignore[no-untyped-def]
    for _ in range(n):
        minimise(task, strategy)


def report() -> None:
    print("linear programs over the simplex (mean over 20 random instances with active constraints):")
    for n_arms, n_constraints in ((10, 1), (10, 3), (100, 5), (300, 1)):
        ours, theirs = 0.0, 0.0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            task, strategy = zeros(Program, K=n_arms, m=n_constraints), np.zeros(n_arms)
            task.losses[:], task.costs[:] = rng.random(n_arms), rng.random((n_constraints, n_arms))
            task.limits[:] = 0.4
            equations = np.ones((1, n_arms))

            def compiled() -> None:
                repeat(200, task, strategy)

            def highs() -> None:
                linprog(task.losses, task.costs, task.limits, equations, [1.0], method="highs")

            best = best_of({"ours": compiled, "highs": highs}, repeats=3, seconds=0.01)
            ours, theirs = ours + best["ours"] / 200 / 20, theirs + best["highs"] / 20
        print(f"  K = {n_arms}, m = {n_constraints}: kernel {ours * 1e6:.2f} us, linprog {theirs * 1e6:.0f} us, "
              f"ratio {theirs / ours:.0f}")  # fmt: skip
