"""Small experiments, and what happens in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.experiments.fold import replay

GOOD = {"quality": 1.0, "spend": 0.1, "answered": True}
BAD = {"quality": 0.0, "spend": 2.0, "answered": False}


class DurableMemory(sf.MemoryLog):
    """A log that outlives the process as far as a test can tell, so checkpoints are kept."""

    durable = True


def make(**changes: Any) -> sf.Experiment:
    """An experiment with two guardrails in natural units, one in each direction."""
    usual: dict[str, Any] = {
        "arms": ["a", "b", "c"],
        "objective": sf.Maximise("quality", high=2.0),
        "guardrails": [sf.AtMost("spend", 0.4, high=2.0, unit="cents"), sf.AtLeast("answered", 0.7)],
        "baseline": "c",
        "baseline_costs": {"spend": 0.1, "answered": 0.95},
        "timeout": 10.0,
    }
    return sf.Experiment("routing", **{**usual, **changes})


def fails(**changes: Any) -> sf.Experiment:
    """An experiment with one guardrail: how often something fails, at most .3 of the time."""
    usual: dict[str, Any] = {
        "arms": ["new", "old"],
        "objective": sf.Maximise("gain"),
        "guardrails": [sf.AtMost("fail", 0.3)],
        "baseline": "old",
        "baseline_costs": {"fail": 0.1},
        "timeout": 10.0,
    }
    return sf.Experiment("failing", **{**usual, **changes})


def serve(live: sf.Live, n: int, rates: Mapping[str, float], seed: int = 0, now: float = 0.0) -> None:
    """Make n decisions; each fails at the rate of its arm, and "new" gains more."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        d = live.decide(now=now)
        failed = bool(rng.random() < rates[d.arm])
        live.feedback(d.id, {"gain": 0.9 if d.arm == "new" else 0.1, "fail": failed}, now=now)


def digest(live: sf.Live) -> str:
    """The digest of a running experiment's state."""
    return live._fold.digest()


def replayed(live: sf.Live) -> str:
    """The digest of the state that its log leads to, from the first event."""
    return replay(live._log).digest()
