"""Rounds whose feedback is late, lost or repeated, against plain ones, in the same run."""

from __future__ import annotations

import sys
import time
from typing import Any

import surefoot as sf

SEEDS, HORIZON, REPEATS = 10, 50_000, 7
FEEDBACKS: dict[str, sf.Feedback | None] = {
    "plain": None,
    "at once": sf.Feedback(timeout=200),
    "20 rounds late": sf.Feedback(20),
    "geometric, 10 % lost, some repeated": sf.Feedback({"geometric": 20}, 0.1, 0.2, timeout=200),
    "misses 1,000 rounds late": sf.Feedback(bad={"delay": 1000}),
    "geometric, as it arrives": sf.Feedback({"geometric": 20}, 0.1, timeout=200, handling="arrival"),
}
POLICIES: dict[str, Any] = {
    "solb": sf.SOLB,
    "solb, paper": lambda problem, seed: sf.SOLB(problem, seed, preset="paper", learning_rate=0.01),
    "exp3": sf.Exp3,
}


def scenario(feedback: sf.Feedback | None, horizon: int) -> sf.Scenario:
    return sf.Scenario(**{**vars(sf.scenarios.make("stochastic-v1", horizon=horizon)), "feedback": feedback})


def seconds(feedback: sf.Feedback | None, policy: Any) -> tuple[float, float]:
    """Processor time a round: of the whole simulation, and of the policy alone."""
    started = time.process_time()
    run = sf.simulate(scenario(feedback, HORIZON), {"one": policy}, SEEDS, [HORIZON], 1)
    rounds = SEEDS * HORIZON
    return (time.process_time() - started) / rounds, run.provenance["simulations"][0]["policy_seconds"]["one"] / rounds


def report() -> None:
    for name, policy in POLICIES.items():
        for feedback in FEEDBACKS.values():
            sf.simulate(scenario(feedback, 1_000), {"one": policy}, 1, workers=1)  # kernels compiled or loaded
        times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in FEEDBACKS}
        for _ in range(REPEATS):
            for kind, feedback in FEEDBACKS.items():
                times[kind].append(seconds(feedback, policy))
        best = {kind: tuple(map(min, zip(*taken, strict=True))) for kind, taken in times.items()}
        for kind, (whole, alone) in best.items():
            plain = best["plain"]
            print(f"a simulated round of {name}, K = 5, m = 1, {kind}: {whole * 1e9:.0f} ns, ratio {whole / plain[0]:.2f}; "
                  f"the policy alone {alone * 1e9:.0f} ns, ratio {alone / plain[1]:.2f}")  # fmt: skip
    sys.stdout.flush()
