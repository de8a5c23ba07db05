"""One projection with active constraints: the kernel, `surefoot.project`, and general-purpose solvers.

Everyone solves the same instances. The kernel works to 1e-10 or better, the others to their default tolerance.
"""

from __future__ import annotations

import clarabel
import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

import surefoot as sf
from benchmarks.timing import best_of
from surefoot.kernels.compile import njit
from surefoot.kernels.dual import BASE, Workspace
from surefoot.kernels.layout import zeros
from surefoot.kernels.projection import project
from surefoot.rules import Floats


@njit(error_model="numpy", _nrt=False)
def repeat(n, rates, lower, limits, floor, strategy, multipliers, work):  # type: ignore[no-untyped-def]
    for _ in range(n):
        project(rates, lower, limits, floor, strategy, multipliers, work)


def instance(n_arms: int, n_constraints: int, active: int, seed: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """A step from a random strategy with the given number of active constraints."""
    rng = np.random.default_rng(seed)
    while True:
        center = 0.9 * rng.dirichlet(np.ones(n_arms)) + 0.1 / n_arms
        rates, loss = np.full(n_arms, 0.1), np.zeros(n_arms)
        arm = rng.integers(n_arms)
        loss[arm] = rng.random() / center[arm]
        lower = rng.random((n_constraints, n_arms))
        limits = lower @ center + 0.01 * rng.normal(size=n_constraints)
        try:
            answer = sf.project(center, rates, loss, lower, limits, FLOOR)
        except sf.EmptySafeSet:
            continue
        if (answer.multipliers > 0).sum() == active:
            return center, rates, loss, lower, limits


FLOOR = 1e-5


def conic_solver(center: Floats, rates: Floats, loss: Floats, lower: Floats, limits: Floats) -> clarabel.DefaultSolver:
    """The program in Clarabel's own form: x and t = ln x, with one exponential cone an arm."""
    n_arms, n_constraints = center.size, limits.size
    cost = np.concatenate([loss + 1 / (rates * center), -1 / rates])
    cones = sp.lil_matrix((3 * n_arms, 2 * n_arms))
    offset = np.zeros(3 * n_arms)
    for a in range(n_arms):
        cones[3 * a, n_arms + a], cones[3 * a + 2, a], offset[3 * a + 1] = -1, -1, 1
    nothing = sp.csc_matrix((1, n_arms))
    matrix = sp.vstack([
        sp.hstack([np.ones((1, n_arms)), nothing]),
        sp.hstack([-sp.identity(n_arms), sp.csc_matrix((n_arms, n_arms))]),
        sp.hstack([lower, sp.csc_matrix((n_constraints, n_arms))]),
        cones,
    ]).tocsc()  # fmt: skip
    right = np.concatenate([[1.0], np.full(n_arms, -FLOOR), limits, offset])
    kinds = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n_arms + n_constraints)]
    kinds += [clarabel.ExponentialConeT()] * n_arms
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    return clarabel.DefaultSolver, (sp.csc_matrix((2 * n_arms,) * 2), cost, matrix, right, kinds, settings)


def parametrised(n_arms: int, n_constraints: int) -> tuple[cp.Problem, list[cp.Parameter]]:
    """The program through cvxpy, compiled once, with parameters for everything that changes."""
    x = cp.Variable(n_arms)
    slope, weight = cp.Parameter(n_arms), cp.Parameter(n_arms, pos=True)
    lower, limits = cp.Parameter((n_constraints, n_arms)), cp.Parameter(n_constraints)
    objective = cp.Minimize(slope @ x - weight @ cp.log(x))
    return cp.Problem(objective, [cp.sum(x) == 1, x >= FLOOR, lower @ x <= limits]), [slope, weight, lower, limits]


def sequential(center: Floats, rates: Floats, loss: Floats, lower: Floats, limits: Floats) -> object:
    """The program through SciPy's SLSQP, with gradients."""
    return minimize(
        lambda x: loss @ x + ((x / center - np.log(x)) / rates).sum(),
        center,
        jac=lambda x: loss + (1 / center - 1 / x) / rates,
        bounds=[(FLOOR, 1)] * center.size,
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(x.size)},
            {"type": "ineq", "fun": lambda x: limits - lower @ x, "jac": lambda x: -lower},
        ],
        method="SLSQP",
    )


def compare(n_arms: int, n_constraints: int, active: int, seeds: range) -> dict[str, float]:
    """Median seconds over several instances, by solver."""
    program, parameters = parametrised(n_arms, n_constraints)
    times = []
    for seed in seeds:
        case = instance(n_arms, n_constraints, active, seed)
        center, rates, loss, lower, limits = case
        strategy, multipliers = np.empty(n_arms), np.empty(n_constraints)
        work = zeros(Workspace, K=n_arms, m=n_constraints)
        work.arms[BASE] = 1 / (rates * center) + loss
        solver, arguments = conic_solver(*case)

        def resolve(values=(loss + 1 / (rates * center), 1 / rates, lower, limits)) -> None:  # type: ignore[no-untyped-def]
            for parameter, value in zip(parameters, values, strict=True):
                parameter.value = value
            program.solve(solver=cp.CLARABEL)

        found = best_of({
            "kernel": lambda: repeat(1000, rates, lower, limits, FLOOR, strategy, multipliers, work),
            "sf.project": lambda: sf.project(*case, FLOOR),
            "Clarabel": lambda: solver(*arguments).solve(),
            "cvxpy": resolve,
            "SLSQP": lambda: sequential(*case),
        })  # fmt: skip
        times.append({**found, "kernel": found["kernel"] / 1000})
    return {name: float(np.median([t[name] for t in times])) for name in times[0]}


def report() -> None:
    print("One projection (median over instances)")
    print(f"{'K':>6} {'m':>3} {'active':>6} {'kernel':>10} {'sf.project':>11} | times slower than the kernel: "
          f"{'Clarabel':>8} {'cvxpy':>8} {'SLSQP':>8} | Clarabel / sf.project")  # fmt: skip
    for n_arms, n_constraints, active in ((10, 2, 1), (10, 2, 2), (100, 5, 1), (100, 5, 5)):
        t = compare(n_arms, n_constraints, active, range(5))
        print(f"{n_arms:>6} {n_constraints:>3} {active:>6} {t['kernel'] * 1e9:>7.0f} ns {t['sf.project'] * 1e6:>8.1f} us | "
              f"{'':30}{t['Clarabel'] / t['kernel']:>7.0f}x {t['cvxpy'] / t['kernel']:>7.0f}x {t['SLSQP'] / t['kernel']:>7.0f}x | "
              f"{t['Clarabel'] / t['sf.project']:.0f}x")  # fmt: skip
