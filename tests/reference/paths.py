"""What the proofs say of a path once more, by loops over rounds, arms and constraints, written from the paper."""

from __future__ import annotations

import math
from typing import Any

from surefoot.rules import Floats
from surefoot.theory.trace import Trace


class Slowly:
    """Every slack by loops over rounds, arms and constraints."""

    def __init__(self, trace: Trace) -> None:
        problem = trace.problem
        self.path, self.K, self.T = trace, problem.n_arms, problem.rounds
        self.alpha, self.ln = problem.thresholds.tolist(), math.log(problem.rounds)
        self.rounds, self.arms = range(len(trace.losses)), range(problem.n_arms)
        self.feed = [trace.losses[t, trace.arms[t]] / trace.strategies[t, trace.arms[t]] for t in self.rounds]
        self.w = [1 - trace.safe_weights[t] for t in self.rounds]

    def psi(self, eta: Floats, x: Floats) -> float:
        return float(sum(math.log(1 / x[a]) / eta[a] for a in self.arms))

    def bregman(self, eta: Floats, u: Floats, x: Floats) -> float:
        slope = [-1 / (eta[a] * x[a]) for a in self.arms]
        return float(self.psi(eta, u) - self.psi(eta, x) - sum(slope[a] * (u[a] - x[a]) for a in self.arms))

    def dot(self, x: Any, y: Any) -> float:
        return math.fsum(x[a] * y[a] for a in self.arms)

    def inside(self, t: int, u: Floats) -> bool:
        """Whether u is in S~_t, which round t, counted from 0, leads to."""
        lower = self.path.lower[t + 1]
        return all(self.dot(lower[i], u) <= alpha + self.K / self.T + 1e-12 for i, alpha in enumerate(self.alpha))

    def restart(self, t: int) -> bool:
        return bool(self.path.base_rates[t + 1] != self.path.base_rates[t])

    def gain(self, t: int, u: Floats) -> float:
        a = self.path.arms[t]
        return float(self.feed[t] * (self.path.proposals[t, a] - u[a]))

    def square(self, t: int) -> float:
        a = self.path.arms[t]
        return float(self.path.rates[t, a] * (self.path.proposals[t, a] * self.feed[t]) ** 2 / 2)

    def step(self, u: Floats) -> float:
        worst = math.inf
        for t in self.rounds:
            if self.inside(t, u) and not self.restart(t):
                before = self.bregman(self.path.rates[t], u, self.path.proposals[t])
                after = self.bregman(self.path.rates[t], u, self.path.proposals[t + 1])
                slack = before - after + self.square(t) - self.gain(t, u)
                worst = min(worst, slack / max(1, before, after))
        return worst

    def descent(self, u: Floats, w: list[float]) -> tuple[float, float]:
        eta = self.path.base_rates[0]
        left = sum(w[t] * self.gain(t, u) for t in self.rounds)
        first = self.K * math.log(self.T / self.K)
        raised, never = self.K * (self.ln + 1) / (5 * self.ln), self.K / (5 * self.ln)
        kept = min(w) * self.dot(self.path.caps[-1], u) / (10 * eta * self.ln)
        return left, (first + raised + never) / eta + sum(w[t] * self.square(t) for t in self.rounds) - kept

    def epochs(self, u: Floats) -> float:
        if not all(self.inside(t, u) for t in self.rounds):
            return math.inf
        slacks, start, learnt = [], 0, []
        for t in [*self.rounds, None]:  # None: the end
            if t is not None and not self.restart(t):
                learnt.append(t)
                continue
            eta, last = self.path.base_rates[start], len(self.path.losses) if t is None else t
            moving = self.K * self.ln + self.K * (self.ln + 1) / (5 * self.ln) + 4 * self.K / (10 * self.ln)
            kept = self.dot(self.path.caps[last], u) / (10 * eta * self.ln)
            rest = sum(self.square(s) - self.gain(s, u) for s in learnt)
            slacks.append(moving / eta - kept + rest)
            start, learnt = last + 1, []
        return float(min(slacks))

    def caps(self) -> float:
        found, lowest = [], [math.inf] * self.K
        for t, (x, h, eta) in enumerate(zip(self.path.proposals, self.path.caps, self.path.rates)):
            if t and self.restart(t - 1):
                lowest = [math.inf] * self.K
            lowest = [min(before, now) for before, now in zip(lowest, x)]
            found += [h[a] * lowest[a] - 1 for a in self.arms]
            found += [2 - h[a] / self.T for a in self.arms]
            found += [math.exp(1 / math.log(2)) - eta[a] / self.path.base_rates[t] for a in self.arms]
            found += [x[a] * self.T - 1 for a in self.arms]
        return float(min(found))

    def mixing(self) -> float:
        safe = self.path.problem.safe
        assert safe is not None
        ceiling, found = max((1 - a) / (1 - c) for a, c in zip(self.alpha, safe.costs)), []
        for t, gamma in enumerate(self.path.safe_weights):
            found += [gamma, ceiling - gamma]
            for a in self.arms:
                found.append(self.path.strategies[t, a] - (1 - gamma) * self.path.proposals[t, a])
            for i, alpha in enumerate(self.alpha):
                cost = min(1, self.dot(self.path.upper[t, i], self.path.proposals[t]))
                found.append(alpha - gamma * safe.costs[i] - (1 - gamma) * cost)
        return float(min(found))

    def costs(self, x: Floats) -> list[float]:
        return [self.dot(row, x) for row in self.path.mean_costs]

    def radius(self, t: int, x: Floats) -> float:
        upper, lower = self.path.upper[t, 0], self.path.lower[t, 0]
        return self.dot([(upper[a] - lower[a]) / 2 for a in self.arms], x)

    def violation(self) -> float:
        slacks = (
            self.K / self.T + 2 * self.radius(t, x) - max(0, cost - alpha)
            for t, x in enumerate(self.path.strategies)
            for cost, alpha in zip(self.costs(x), self.alpha)
        )
        return float(min(slacks))

    def safety(self) -> float:
        slacks = (alpha - cost for x in self.path.strategies for cost, alpha in zip(self.costs(x), self.alpha))
        return float(min(slacks))

    def weight(self) -> float:
        x, rho = self.path.proposals, self.path.problem.margin
        wanted = ((2 * self.radius(t, x[t]) + self.K / self.T) / rho for t in range(1, len(x)))
        return float(min(most - weight for most, weight in zip(wanted, self.path.safe_weights[1:])))

    def martingales(self, u: Floats) -> tuple[float, ...]:
        own = own_loss = other = other_loss = 0.0
        for t in self.rounds:
            loss, x, a = self.path.losses[t], self.path.proposals[t], self.path.arms[t]
            own_loss += self.w[t] * self.dot(loss, x)
            other_loss += self.w[t] * self.dot(loss, u)
            own += self.w[t] * (self.dot(loss, x) - self.feed[t] * x[a])
            other += self.w[t] * (self.feed[t] * u[a] - self.dot(loss, u))
        reach = self.dot(self.path.caps[-1], u)
        return own, own_loss, other, reach * other_loss, reach

    def fed(self) -> float:
        found = []
        for t in self.rounds:
            a = self.path.arms[t]
            given = self.w[t] * self.feed[t]
            found += [self.path.losses[t, a] - self.path.proposals[t, a] * given, self.path.caps[t, a] - given]
        return float(min(found))
