"""Which preset is meant when none is named, and that it is what shows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import surefoot as sf

PROBLEM = sf.Problem(4, [0.5], 2000, 0.05, sf.SafeStrategy([0, 0, 0, 1], [0.2]))

MEANT = [
    ({}, "practical"),
    ({"preset": None, "learning_rate": None, "benchmark_loss": None}, "practical"),
    ({"confidence": "betting"}, "practical"),
    ({"confidence": "paper"}, "practical"),  # bounds alone choose no preset
    ({"learning_rate": "theory"}, "paper"),
    ({"learning_rate": "practical"}, "paper"),  # the name of a rate, not of a preset
    ({"learning_rate": "doubling"}, "paper"),
    ({"learning_rate": 0.1}, "paper"),
    ({"learning_rate": np.float32(0.1), "confidence": "betting"}, "paper"),
    ({"benchmark_loss": 100.0}, "paper"),
    ({"benchmark_loss": 0.0}, "paper"),
    ({"preset": "practical", "learning_rate": 0.1}, "practical"),
    ({"preset": "guaranteed", "learning_rate": 0.1}, "guaranteed"),
    ({"preset": "guaranteed"}, "guaranteed"),
    ({"preset": "paper"}, "paper"),
]
OF_SOLB = [({"estimator": "paper"}, "paper"), ({"estimator": "weighted"}, "paper"), ({"estimator": None}, "practical")]


def feedback(policy: sf.Policy, rounds: int = 200) -> dict[str, Any]:
    """What a policy has become after some rounds."""
    rng = np.random.default_rng(3)
    for _ in range(rounds):
        decision = policy.ask()
        policy.tell(decision, float(rng.random()), [float(rng.random() < 0.1 + 0.2 * decision.arm)])
    return policy.to_dict()


@pytest.mark.parametrize(
    ("cls", "options", "preset"),
    [(cls, *case) for cls in (sf.SOLB, sf.COLB) for case in MEANT] + [(sf.SOLB, *case) for case in OF_SOLB],
)
def test_the_preset_that_is_meant_is_what_is_played_and_saved(cls: Any, options: dict[str, Any], preset: str) -> None:
    """To the bit: the same state as with the preset by name, which is another one for any other preset."""
    left, named = (feedback(cls(PROBLEM, 5, **chosen)) for chosen in (options, {**options, "preset": preset}))
    assert left == named
    assert left["options"]["preset"] == preset
    data = json.loads(json.dumps(left))
    assert cls.from_dict(data).to_dict() == left
    assert f"preset='{preset}'" in repr(cls.from_dict(data))


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_presets_differ(cls: Any) -> None:
    """The control of the test above."""
    states = [feedback(cls(PROBLEM, 5, preset=preset))["state"] for preset in ("paper", "practical", "guaranteed")]
    assert all(one != other for one, other in zip(states, [*states[1:], states[0]]))


def test_options_of_the_paper_are_what_they_were() -> None:
    usual = {"preset": "paper", "learning_rate": "theory", "confidence": "paper", "benchmark_loss": None}
    assert sf.COLB(PROBLEM, preset="paper").to_dict()["options"] == usual
    assert sf.SOLB(PROBLEM, preset="paper").to_dict()["options"] == {**usual, "estimator": "paper"}


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_without_a_horizon_nothing_need_be_said(cls: Any) -> None:
    endless = sf.Problem(4, [0.5], None, safe=PROBLEM.safe)
    assert feedback(cls(endless, 5))["options"]["preset"] == "practical"
    with pytest.raises(ValueError, match="problem must have a horizon for preset 'paper', got horizon=None"):
        cls(endless, 5, learning_rate=0.1)


def test_results_tell_the_preset() -> None:
    scenario = sf.scenarios.make("three-arms-v1", horizon=200)
    makers = {"solb": sf.SOLB, "moving": lambda problem, seed: sf.SOLB(problem, seed, learning_rate=0.1)}
    told = sf.simulate(scenario, makers, seeds=1, checkpoints=[200], workers=1).provenance["simulations"][0]
    presets = {name: entry["options"]["preset"] for name, entry in told["policies"].items()}
    assert presets == {"solb": "practical", "moving": "paper"}


@pytest.mark.filterwarnings("ignore")
def test_a_rate_that_a_tiny_margin_leads_to_can_be_loaded() -> None:
    """The theorems' rate is below 1e-15 here."""
    problem = sf.Problem(3, [0.5], 1000, 0.05, sf.SafeStrategy([0, 0, 1], [0.5 - 1e-12]))
    policy = sf.SOLB(problem, 1, preset="paper")
    assert policy.learning_rates.max() < 1e-15
    policy.tell(policy.ask(), 0.5, [0.0])
    assert sf.SOLB.from_dict(policy.to_dict()).to_dict() == policy.to_dict()
