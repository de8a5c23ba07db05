"""Slow twins of the policies that know no constraints, written from the papers; nothing of the package is used.

Each has `played`, the strategy, and `round(a, p, loss)`, the feedback on arm a, drawn with probability p.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Exp3:
    """Losses, importance-weighted; with implicit exploration `gamma`, EXP3-IX (Neu 2015, Algorithm 1)."""

    def __init__(self, K: int, eta: float, gamma: float = 0.0) -> None:
        self.eta, self.gamma, self.L = eta, gamma, np.zeros(K)

    def played(self) -> Array:
        w = np.exp(-self.eta * (self.L - self.L.min()))
        return np.asarray(w / w.sum())

    def round(self, a: int, p: float, loss: float) -> None:
        self.L[a] += loss / (p + self.gamma)


class Exp3Gains:
    """Auer, Cesa-Bianchi, Freund, Schapire 2002, Figure 1, with gain = 1 - loss."""

    def __init__(self, K: int, gamma: float) -> None:
        self.K, self.gamma, self.w = K, gamma, np.ones(K)

    def played(self) -> Array:
        return np.asarray((1 - self.gamma) * self.w / self.w.sum() + self.gamma / self.K)

    def round(self, a: int, p: float, loss: float) -> None:
        self.w[a] *= math.exp(self.gamma * ((1 - loss) / p) / self.K)


class TsallisINF:
    """Zimmert, Seldin 2021, Algorithm 1 with alpha = 1/2; the normalisation by bisection."""

    def __init__(self, K: int, reduced: bool) -> None:
        self.K, self.reduced, self.t, self.L = K, reduced, 1, np.zeros(K)

    def eta(self) -> float:
        return (4 if self.reduced else 2) / math.sqrt(self.t)

    def played(self) -> Array:
        eta, least = self.eta(), self.L.min()
        low, high = least - 2 * math.sqrt(self.K) / eta, least - 2 / eta  # at most 1/K each; one arm has it all
        for _ in range(200):
            x = (low + high) / 2
            if (4 / (eta * (self.L - x)) ** 2).sum() > 1:
                high = x
            else:
                low = x
        w = 4 / (eta * (self.L - low)) ** 2
        return np.asarray(w / w.sum())

    def round(self, a: int, p: float, loss: float) -> None:
        B = np.where(self.played() >= self.eta() ** 2, 0.5, 0.0) if self.reduced else np.zeros(self.K)
        estimate = B.copy()
        estimate[a] += (loss - B[a]) / p
        self.L += estimate
        self.t += 1


class UCB1:
    """Auer, Cesa-Bianchi, Fischer 2002, Figure 1, for losses; there, `scale` is 2."""

    def __init__(self, K: int, scale: float = 2.0) -> None:
        self.K, self.scale = K, scale
        self.seen: list[list[float]] = [[] for _ in range(K)]

    def played(self) -> Array:
        for a in range(self.K):
            if not self.seen[a]:
                return np.asarray(np.eye(self.K)[a])
        n = sum(map(len, self.seen))
        index = [sum(losses) / len(losses) - math.sqrt(self.scale * math.log(n) / len(losses)) for losses in self.seen]
        return np.asarray(np.eye(self.K)[index.index(min(index))])

    def round(self, a: int, p: float, loss: float) -> None:
        self.seen[a].append(loss)
