"""The signed cumulative violation, which long-term constraints are about."""

from __future__ import annotations

import numpy as np

import surefoot as sf
from surefoot.rules import Floats


def signed_violations(run: sf.Run, scenario: sf.Scenario) -> dict[str, Floats]:
    """By policy: the sum of g_i^T x_t - alpha_i up to each checkpoint, of the worst constraint; a row per seed."""
    found: dict[str, list[Floats]] = {}
    for (name, _), rows in run.episodes(scenario.id).items():
        rounds = np.array(rows.column("round").to_pylist())
        shares = np.array(rows.column("allocation").to_pylist())  # mean strategies between checkpoints
        played = np.cumsum(shares * np.diff(rounds, prepend=0)[:, None], axis=0)
        sums = played @ scenario.mean_costs.T - rounds[:, None] * scenario.problem.thresholds
        found.setdefault(name, []).append(sums.max(axis=1))
    return {name: np.array(rows) for name, rows in found.items()}


def slope(rounds: list[int], values: Floats) -> float:
    """Least-squares slope on a log-log scale."""
    return float(np.polyfit(np.log(rounds), np.log(values), 1)[0])
