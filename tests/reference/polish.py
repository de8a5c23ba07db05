"""The last digits of a minimum that a conic solver has found to five or six: Newton on the optimality conditions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def polished(
    start: Array, gradient: Callable[[Array], Array], curvature: Callable[[Array], Array], rows: Array, limits: Array,
    floor: float,
) -> Array:  # fmt: skip
    """The minimum of a separable convex function on {sum x = 1, x >= floor, rows @ x <= limits}, from close by.

    What is active is guessed from the start and put right until all signs are: a multiplier of the wrong sign lets its
    constraint go, one that is broken is held.
    """
    x = np.maximum(start, floor)
    free, held = x > floor + 1e-7, rows @ x > limits - 1e-6
    for _ in range(50):
        x, level, multipliers = solved(x, gradient, curvature, rows, limits, floor, free, held)
        pull = gradient(x) + level + multipliers @ rows  # 0 for free arms; pushes the others below the floor if < 0
        wrong = [
            *((free, a, False) for a in np.flatnonzero(free & (x < floor - 1e-13))),
            *((free, a, True) for a in np.flatnonzero(~free & (pull < -1e-9))),
            *((held, i, False) for i in np.flatnonzero(held & (multipliers < -1e-9))),
            *((held, i, True) for i in np.flatnonzero(~held & (rows @ x > limits + 1e-12))),
        ]
        if not wrong:
            return np.maximum(x, floor)
        which, place, value = wrong[0]
        which[place] = value
    raise AssertionError("no active set fits")


def solved(
    x: Array, gradient: Callable[[Array], Array], curvature: Callable[[Array], Array], rows: Array, limits: Array,
    floor: float, free: npt.NDArray[np.bool_], held: npt.NDArray[np.bool_],
) -> tuple[Array, float, Array]:  # fmt: skip
    """The minimum with these arms free, the others at the floor, and these constraints held as equalities."""
    x, sides = np.where(free, x, floor), np.vstack([np.ones(x.size), rows[held]])
    wanted, forces = np.append(1.0, limits[held]), np.zeros(len(sides))
    for _ in range(200):
        moving = sides[:, free]
        system = np.block([[np.diag(curvature(x)[free]), moving.T], [moving, np.zeros((len(sides), len(sides)))]])
        right = -np.append(gradient(x)[free] + forces @ moving, sides @ x - wanted)
        step = np.linalg.lstsq(system, right)[0]
        change, shift = np.zeros(x.size), step[free.sum() :]
        change[free] = step[: free.sum()]
        length = 1.0  # shares stay positive
        while (x + length * change <= 0.1 * x).any():
            length /= 2
        x, forces = x + length * change, forces + length * shift
        if np.abs(change).max() < 1e-15:
            break
    multipliers = np.zeros(len(limits))
    multipliers[held] = forces[1:]
    return x, float(forces[0]), multipliers
