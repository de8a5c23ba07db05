"""A safe arm whose costs are known: what `sides="needed"` saves, at a delta of 0.5.

``python -m benchmarks.stated`` prints the table of docs/confidence.md. The other arms cost 0.9 every time, so their
bounds are soon narrow, and whether a run is unsafe depends on the safe arm, a coin; then worlds in which the other arms
are coins just above the limit.
"""

from __future__ import annotations

import numpy as np

import surefoot as sf
from benchmarks.practical import around
from surefoot.analysis.statistics import mean_interval, share_interval

ROUNDS, RUNS, DELTA, LIMIT = 1500, 200, 0.5, 0.5


def lived(preset: str, sides: str, K: int, theta: float, dear: float, coins: bool, seed: int) -> tuple[bool, float]:
    """Whether a run had a round that was not safe, and its regret against the best safe strategy."""
    costs, losses = np.full(K, dear), np.full(K, 0.2)
    costs[-1], losses[-1] = theta, 0.8
    share = (LIMIT - theta) / (dear - theta)
    best = share * 0.2 + (1 - share) * 0.8
    problem = sf.Problem(K, [LIMIT], ROUNDS, DELTA, sf.SafeStrategy(np.eye(K)[-1], [theta]))
    policy = sf.SOLB(problem, seed, preset=preset, confidence=sf.confidence.Betting(sides=sides))
    policy.quiet = True
    rng, unsafe, regret = np.random.default_rng([7, seed]), False, 0.0
    for _ in range(ROUNDS):
        strategy = policy.strategy
        unsafe |= bool(strategy @ costs > LIMIT + 1e-12)
        regret += float(strategy @ losses) - best
        decision = policy.ask()
        drawn = coins or decision.arm == K - 1
        cost = float(rng.random() < costs[decision.arm]) if drawn else dear
        policy.tell(decision, float(losses[decision.arm]), [cost])
    return unsafe, regret


def main() -> None:
    """A line for each world and preset."""
    print("| preset | other arms | arms | safe arm | unsafe, upper | needed | regret, upper | needed |")
    print("|---|---|---|---|---|---|---|---|")
    for preset in ("practical", "led"):
        for K, theta, dear, coins in (
            (2, 0.45, 0.9, False), (5, 0.45, 0.9, False), (2, 0.3, 0.9, False), (2, 0.45, 0.55, True), (5, 0.45, 0.55, True),
        ):  # fmt: skip
            cells, regrets = [], []
            for sides in ("upper", "needed"):
                found = [lived(preset, sides, K, theta, dear, coins, seed) for seed in range(RUNS)]
                share = share_interval(sum(unsafe for unsafe, _ in found), RUNS)
                cells.append(f"{100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})")
                regrets.append(around(mean_interval(np.array([regret for _, regret in found]))))
            kind = f"coins of {dear:g}" if coins else f"{dear:g}"
            print(f"| {preset} | {kind} | {K} | {theta:g} | {' | '.join(cells)} | {' | '.join(regrets)} |", flush=True)


if __name__ == "__main__":
    main()
