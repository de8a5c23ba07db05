"""Slow twins of both algorithms, written from the paper line by line; nothing of the package is used.

The argmin of the mirror-descent line is left to a general-purpose conic solver.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np
import numpy.typing as npt

from tests.reference.polish import polished

Array = npt.NDArray[np.float64]


class Colb:
    """Algorithm 1."""

    def __init__(
        self, K: int, T: int, alpha: list[float], delta: float, eta: float, scatter: Callable[[], Array],
        allowance: float = math.inf,
    ) -> None:  # fmt: skip
        self.K, self.T, self.m, self.alpha, self.delta = K, T, len(alpha), np.array(alpha), delta
        self.kappa = math.exp(1 / math.log(T))  # line 1
        self.x = np.full(K, 1 / K)  # line 2
        self.h = np.full(K, 2.0 * K)
        self.eta = np.full(K, eta)
        self.N = np.zeros(K)
        self.sums = np.zeros((self.m, K))
        self.g = np.zeros((self.m, K))
        self.beta = np.ones(K)
        self.scatter = scatter
        self.allowance, self.eta_epoch, self.Q, self.restarts = allowance, eta, 0.0, 0

    def played(self) -> Array:
        return self.x

    def round(self, a: int, loss: float, costs: list[float]) -> None:
        probability = self.played()[a]
        self.N[a] += 1  # line 6
        self.sums[:, a] += costs
        self.g = self.sums / np.maximum(1, self.N)
        radius = 4 * math.log(self.T * self.K * self.m / self.delta) if self.m else 0.0
        self.beta = np.where(self.N == 0, 1.0, np.minimum(1, np.sqrt(radius / np.maximum(1, self.N))))
        loss_estimate = np.zeros(self.K)  # line 10
        loss_estimate[a] = self.weight() * loss / probability
        self.Q += self.share() * (self.x[a] * loss_estimate[a]) ** 2
        if self.Q > self.allowance / self.eta_epoch**2:
            self.restart()
            return
        found = self.argmin(loss_estimate)  # lines 7 to 9, 11
        if found is None:
            self.x = self.scatter()  # line 20
            self.after_empty()
            return
        self.x = found
        for b in range(self.K):  # lines 12 to 18
            if 1 / self.x[b] > self.h[b]:
                self.h[b] = 2 / self.x[b]
                self.eta[b] *= self.kappa
        self.after_step()

    def weight(self) -> float:
        return 1.0

    def share(self) -> float:
        return 1.0

    def restart(self) -> None:
        """The doubling trick: half the rate, from the analytic centre of the safe set; costs are as they are."""
        self.eta_epoch /= 2
        self.restarts += 1
        self.Q, self.eta, self.x = 0.0, np.full(self.K, self.eta_epoch), np.full(self.K, 1 / self.K)
        self.h = np.full(self.K, 2.0 * self.K)
        found = self.argmin(np.zeros(self.K))
        if found is None:
            self.x = self.scatter()
            self.after_empty()
            return
        self.x = found
        self.h = np.maximum(2.0 * self.K, 2 / self.x)
        self.after_step()

    def after_empty(self) -> None:
        """Nothing more in Algorithm 1."""

    def after_step(self) -> None:
        """Nothing more in Algorithm 1."""

    def argmin(self, loss_estimate: Array) -> Array | None:
        x = cp.Variable(self.K)
        divergence = cp.sum(cp.multiply(1 / self.eta, cp.multiply(1 / self.x, x) - cp.log(x)))
        rows, limits = self.g - self.beta, self.alpha + self.K / self.T
        constraints = [cp.sum(x) == 1, x >= 1 / self.T, rows @ x <= limits]
        problem = cp.Problem(cp.Minimize(loss_estimate @ x + divergence), constraints)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=cp.CLARABEL)
        if x.value is None:
            return None
        return polished(
            np.asarray(x.value),
            lambda y: loss_estimate + (1 / self.x - 1 / y) / self.eta,
            lambda y: 1 / (self.eta * y**2),
            rows,
            limits,
            1 / self.T,
        )


class Solb(Colb):
    """Algorithm 2."""

    def __init__(
        self, K: int, T: int, alpha: list[float], delta: float, eta: float, scatter: Callable[[], Array],
        safe: list[float], theta: list[float], allowance: float = math.inf, weighted: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(K, T, alpha, delta, eta, scatter, allowance)
        self.weighted = weighted
        self.safe, self.theta = np.array(safe), np.array(theta)
        self.gamma = max((1 - a) / (1 - t) for a, t in zip(alpha, theta, strict=True)) if alpha else 0.0  # line 3

    def weight(self) -> float:
        return 1 - self.gamma if self.weighted else 1.0

    def share(self) -> float:
        return 1.0 if self.weighted else 1 - self.gamma

    def played(self) -> Array:
        return self.gamma * self.safe + (1 - self.gamma) * self.x  # lines 4 and 27

    def after_empty(self) -> None:
        self.gamma = 1.0  # line 25

    def after_step(self) -> None:  # lines 21 and 22, over violated constraints
        cost = np.minimum((self.g + self.beta) @ self.x, 1)
        violated = [(c - a) / (c - t) for c, a, t in zip(cost, self.alpha, self.theta, strict=True) if c > a]
        self.gamma = max(violated, default=0.0)
