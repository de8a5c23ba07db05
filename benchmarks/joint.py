"""One bet against all arms at once, instead of a box of bounds: how much narrower, and how much dearer.

In a round one arm is played, so the product over the arms of the wealths against g is a supermartingale at the true
costs g, and the set of all g with a product below 1 / delta holds for all time, without a union over arms. The cost of
a strategy is then at most the largest g^T y over that set. ``python -m benchmarks.joint`` prints the table of
docs/confidence.md. Wealths are those of `Betting`, with each halved and 1/2 kept aside, or any arm that the strategy does
not play would lend its losses to those it does. The second table has the plans that "led" looks at, with the counts that it
has by then, in fresh scenarios (`Fresh` in `benchmarks/practical.py`).
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np

import surefoot as sf
from benchmarks.practical import Fresh, markdown
from surefoot.rules import Floats
from surefoot.simulation.world import World, policy_seed

GRID = np.linspace(0.0005, 0.9995, 2000)
DELTA = 0.05


def log_wealth(ones: int, n: int, aside: bool) -> Floats:
    """Logarithm of the mixture's wealth against each candidate of the grid, after n coins."""
    bound = sf.confidence.Betting(sides="upper").bound(sf.Problem(2, [0.5], 1000, 0.5))
    f, odds = bound.fractions[:, None], GRID / (1 - GRID)
    shares = np.exp(bound.shares - bound.shares.max())
    shares /= shares.sum()
    logs = np.log(shares)[:, None] + (n - ones) * np.log1p(f * odds) + ones * np.log1p(-f)
    top = logs.max(axis=0)
    wealth = top + np.log(np.exp(logs - top).sum(axis=0))
    return np.asarray(np.logaddexp(np.log(0.5), np.log(0.5) + wealth) if aside else wealth)


def box(logs: list[Floats], strategy: Floats) -> float:
    """The cost of a strategy at the upper bounds, each at the level delta / K."""
    enough, cost = np.log(len(logs) / DELTA), 0.0
    for share, one in zip(strategy, logs, strict=True):
        cost += float(share) * (float(GRID[np.argmax(one >= enough)]) if (one >= enough).any() else 1.0)
    return cost


def joint(logs: list[Floats], strategy: Floats) -> float:
    """The largest cost of a strategy over the joint set, by its dual, which is no less."""
    table, enough = np.array(logs), np.log(1 / DELTA)

    def value(price: float) -> float:
        return float(price * enough + (strategy[:, None] * GRID - price * table).max(axis=1).sum())

    prices = np.geomspace(1e-6, 1.0, 60)
    best = prices[np.argmin([value(price) for price in prices])]
    finer = np.geomspace(best / 1.3, best * 1.3, 30)
    return min(1.0, *(value(price) for price in finer))


def main(streams: int = 20) -> None:
    """Excess over the true cost of a strategy, of the box and of the joint set."""
    print("| arms | plays of each | strategy | box | joint | joint / box |\n|---|---|---|---|---|---|")
    rng, spent = np.random.default_rng(1), {"box": 0.0, "joint": 0.0}
    for K in (2, 5, 20):
        for n in (100, 10_000):
            for kind, strategy in (
                ("one arm", np.eye(K)[0]),
                ("two arms", np.eye(K)[:2].mean(0)),
                ("all arms", np.full(K, 1 / K)),
            ):
                if kind == "two arms" and K == 2:
                    continue
                found = {"box": 0.0, "joint": 0.0}
                for _ in range(streams):
                    ones = rng.binomial(n, 0.3, K)
                    for name, how in (("box", box), ("joint", joint)):
                        logs = [log_wealth(int(k), n, name == "joint") for k in ones]
                        started = time.process_time()
                        found[name] += (how(logs, strategy) - 0.3) / streams
                        spent[name] += time.process_time() - started
                ratio = found["joint"] / found["box"]
                print(f"| {K} | {n:,} | {kind} | {found['box']:.3f} | {found['joint']:.3f} | {ratio:.2f} |", flush=True)
    print(f"\nprocessor time of the joint set over that of the box: {spent['joint'] / spent['box']:.0f}")


def looked_at(seeds: int = 20, rounds: tuple[int, ...] = (1_000, 10_000, 100_000)) -> None:
    """The same for what "led" looks at: the solution of its program, and its proposal, which is then mixed."""
    rows = []
    for K in (5, 20):
        found: dict[tuple[int, str], list[tuple[float, float]]] = {}
        for seed in range(2000, 2000 + seeds):
            scenario = Fresh("stochastic", K)(seed)
            policy, done = sf.SOLB(scenario.problem, policy_seed(seed), preset="led"), 0
            for losses, costs in World(scenario, seed).blocks(scenario.problem.rounds):
                ends = [n - done for n in rounds if done < n <= done + len(losses)]
                for start, end in pairwise([0, *ends, len(losses)]):
                    some = losses[start:end]
                    policy.live(some, costs[start:end], np.empty(some.shape), np.empty(len(some)))
                    if end in ends:
                        known, plans = policy._state.known, policy._state.trio.strategies
                        counts = [
                            (round(float(g * n)), int(n)) for g, n in zip(known.means[0], known.counts, strict=True)
                        ]
                        logs = [[log_wealth(*one, aside) for one in counts] for aside in (False, True)]
                        for name, plan in (("program", plans[1]), ("proposal", policy.proposal)):
                            truth = float(scenario.mean_costs[0] @ plan)
                            pair = (box(logs[0], plan) - truth, joint(logs[1], plan) - truth)
                            found.setdefault((done + end, name), []).append(pair)
                done += len(losses)
        for (n, name), widths in found.items():
            wide, narrow = np.mean(widths, axis=0)
            rows.append([str(K), f"{n:,}", name, f"{wide:.4f}", f"{narrow:.4f}", f"{narrow / wide:.2f}"])
            print(rows[-1], flush=True)
    markdown(("arms", "after rounds", "plan", "box", "joint", "joint / box"), rows)


if __name__ == "__main__":
    main()
    looked_at()
