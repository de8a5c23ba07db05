"""The columns of a run: one row per scenario, policy, seed and checkpoint."""

from __future__ import annotations

import pyarrow as pa

FLOATS = pa.list_(pa.float64())
SCHEMA = pa.schema({
    "scenario": pa.string(),
    "policy": pa.string(),
    "seed": pa.int64(),
    "round": pa.int64(),
    "loss": pa.float64(),
    "baseline_loss": pa.float64(),
    "regret": pa.float64(),
    "safety_regret": pa.float64(),
    "learning_regret": pa.float64(),
    "violation": pa.float64(),
    "violations": FLOATS,
    "rounds_in_violation": pa.int64(),
    "worst_margin": pa.float64(),
    "safe_weight": pa.float64(),
    "rounds_until_loose": pa.int64(),
    "empty_rounds": pa.int64(),
    "pending": pa.int64(),
    "lost": pa.float64(),
    "clean": pa.bool_(),
    "benchmark_kept": pa.bool_(),
    "bandit_complexity": pa.float64(),
    "safety_complexity": pa.float64(),
    "allocation": FLOATS,
    "strategy": FLOATS,
    "proposal": FLOATS,
    "lower_costs": FLOATS,
    "benchmark": FLOATS,
})  # fmt: skip
LATER = ("baseline_loss",)
"""Columns that runs of earlier versions do not have: they are empty there."""
