"""Slow twins of the peers with soft constraints, written from their formulas; nothing of the package is used."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def nearest_price(v: Array, limit: float) -> Array:
    """Projection onto {x >= 0, sum x <= limit}, by sorting."""
    clipped = np.maximum(v, 0)
    if clipped.sum() <= limit:
        return clipped
    descending = np.sort(v)[::-1]
    shifts = (np.cumsum(descending) - limit) / np.arange(1, v.size + 1)
    last = np.flatnonzero(descending > shifts)[-1]
    return np.asarray(np.maximum(v - shifts[last], 0))


def kl(p: float, q: float) -> float:
    """Divergence of coins."""
    terms = [(p, q), (1 - p, 1 - q)]
    if any(a > 0 and b == 0 for a, b in terms):
        return math.inf
    return sum(a * math.log(a / b) for a, b in terms if a > 0)


def kl_lower(p: float, n: float, level: float) -> float:
    """The least q <= p with n kl(p, q) <= level, to the last digit."""
    if n == 0:
        return 0.0
    low, high = 0.0, p
    for _ in range(55):
        middle = (low + high) / 2
        low, high = (low, middle) if n * kl(p, middle) <= level else (middle, high)
    return low


class Twin:
    """Sums from which means follow; row 0 is the loss."""

    def __init__(self, K: int, T: int, alpha: list[float], delta: float = 0.05, rho: float = 1.0) -> None:
        self.K, self.T, self.m, self.alpha, self.delta, self.rho = K, T, len(alpha), np.array(alpha), delta, rho
        self.N = np.zeros(K)
        self.sums = np.zeros((self.m + 1, K))
        self.t = 0
        self.start()

    def start(self) -> None:
        raise NotImplementedError

    def round(self, a: int, p: float, loss: float, costs: list[float]) -> None:
        self.t += 1
        self.N[a] += 1
        self.sums[:, a] += [loss, *costs]
        self.learn(a, p, loss, np.array(costs))

    def learn(self, a: int, p: float, loss: float, costs: Array) -> None:
        """Nothing beside the sums."""

    def lower(self, rows: int) -> Array:
        """Hoeffding's lower bounds, that many rows holding at once, of loss and costs; at least 0."""
        log = math.log(2 * self.T * self.K * rows / self.delta) if rows else 0.0
        n = np.maximum(1, self.N)
        return np.where(self.N == 0, 0, np.maximum(0, self.sums / n - np.minimum(1, np.sqrt(log / (2 * n)))))


class PrimalDual(Twin):
    def start(self) -> None:
        self.eta = math.sqrt(2 * math.log(self.K) / (self.K * self.T))
        self.prices = np.zeros(self.m)
        self.L = np.zeros(self.K)
        self.x = np.full(self.K, 1 / self.K)

    def learn(self, a: int, p: float, loss: float, costs: Array) -> None:
        excess = costs - self.alpha
        y = loss + self.prices @ excess
        if self.m:
            y = (y + 1 / self.rho) / (1 + 2 / self.rho)
            step = math.sqrt(2) / (self.rho * math.sqrt(self.m * self.T))
            self.prices = nearest_price(self.prices + step * excess, 1 / self.rho)
        self.L[a] += y / (p + self.eta / 2)
        w = np.exp(-self.eta * (self.L - self.L.min()))
        self.x = w / w.sum()


class QueuePrimalDual(Twin):
    def start(self) -> None:
        self.x = np.full(self.K, 1 / self.K)
        self.Q = np.zeros(self.m)

    def learn(self, a: int, p: float, loss: float, costs: Array) -> None:
        V, step, mix = math.sqrt(self.T), self.T, 1 / self.T
        f = np.zeros(self.K)
        f[a] = loss / (p + V / step / 2)
        g = self.lower(self.m)[1:]
        w = ((1 - mix) * self.x + mix / self.K) * np.exp(-(V * f + self.Q @ g) / step)
        self.x = w / w.sum()
        self.Q = np.maximum(0, self.Q + g @ self.x - self.alpha)


class PessimisticOptimistic(Twin):
    def start(self) -> None:
        self.Q = np.zeros(self.m)

    def learn(self, a: int, p: float, loss: float, costs: Array) -> None:
        eps = min(self.rho / 2, self.m**0.25 / math.sqrt(6 * self.t))
        self.Q = np.maximum(0, self.Q + costs - self.alpha + eps)

    @property
    def index(self) -> Array:
        V = self.rho * self.m**0.25 * math.sqrt(2 * (self.t + 1) / 3)
        bounds = self.lower(self.m + 1)
        return np.asarray(bounds[0] + (self.Q @ (bounds[1:] - self.alpha[:, None]) / V if self.m else 0.0))

    @property
    def x(self) -> Array:
        return np.asarray(np.eye(self.K)[np.argmin(self.index)])


class DoublyOptimistic(Twin):
    def start(self) -> None:
        pass

    @property
    def index(self) -> list[tuple[float, float]]:
        """Largest excess, then loss: the least of these pairs is played."""
        t = self.t + 1
        level = math.log(t) + (3 * math.log(math.log(t)) if math.log(t) > 1 else 0)
        means = self.sums / np.maximum(1, self.N)
        pairs = []
        for a in range(self.K):
            loss, *costs = (kl_lower(mean, self.N[a], level) for mean in means[:, a])
            pairs.append((max([0.0, *(np.array(costs) - self.alpha)]), loss))
        return pairs

    @property
    def x(self) -> Array:
        pairs = self.index
        return np.asarray(np.eye(self.K)[pairs.index(min(pairs))])
