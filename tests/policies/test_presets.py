"""The preset is the one that is named, or else the default; options of another preset are refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import surefoot as sf

PROBLEM = sf.Problem(4, [0.5], 2000, 0.05, sf.SafeStrategy([0, 0, 0, 1], [0.2]))
PRESETS = ("paper", "practical", "guaranteed")
DEFAULT: dict[Any, str] = {sf.SOLB: "led", sf.COLB: "practical"}

ANYWHERE: list[dict[str, Any]] = [
    {},
    {"learning_rate": None, "benchmark_loss": None},
    {"learning_rate": 0.1},
    {"learning_rate": np.float32(0.1), "confidence": "betting"},
    {"confidence": "betting"},
    {"confidence": "paper"},
]
OF_PAPER: list[dict[str, Any]] = [
    {"learning_rate": "theory"},
    {"learning_rate": "practical"},  # the name of a rate, not of a preset
    {"learning_rate": "doubling"},
    {"benchmark_loss": 100.0},
    {"benchmark_loss": 0.0},
]
OF_SOLB: list[dict[str, Any]] = [{"estimator": "paper"}, {"estimator": "weighted"}]


def feedback(policy: sf.Policy[Any], rounds: int = 200) -> dict[str, Any]:
    """What a policy has become after some rounds."""
    rng = np.random.default_rng(3)
    for _ in range(rounds):
        decision = policy.ask()
        policy.tell(decision, float(rng.random()), [float(rng.random() < 0.1 + 0.2 * decision.arm)])
    return policy.to_dict()


@pytest.mark.parametrize("options", [*ANYWHERE, {"estimator": None}], ids=str)
@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_no_option_chooses_a_preset(cls: Any, options: dict[str, Any]) -> None:
    """To the bit: the same state as with the default by name, which is another one for any other preset."""
    if cls is sf.COLB and "estimator" in options:
        pytest.skip("an option of SOLB")
    left, named, other = (
        feedback(cls(PROBLEM, 5, **options, **preset)) for preset in ({}, {"preset": DEFAULT[cls]}, {"preset": "paper"})
    )
    assert left == named
    assert left["options"]["preset"] == DEFAULT[cls]
    assert left["state"] != other["state"]
    data = json.loads(json.dumps(left))
    assert cls.from_dict(data).to_dict() == left
    assert f"preset='{DEFAULT[cls]}'" in repr(cls.from_dict(data))


@pytest.mark.parametrize(
    ("cls", "options"),
    [(cls, options) for cls in (sf.SOLB, sf.COLB) for options in OF_PAPER]
    + [(sf.SOLB, options) for options in OF_SOLB],
    ids=str,
)
@pytest.mark.parametrize("preset", [None, "practical", "guaranteed"])
def test_options_of_the_paper_are_refused_elsewhere(cls: Any, options: dict[str, Any], preset: str | None) -> None:
    """In a sentence that names the option, the preset that was chosen, and the preset to which the option belongs."""
    ((name, value),) = options.items()
    chosen = {} if preset is None else {"preset": preset}
    message = (
        rf"^{name} must .* for preset '{preset or DEFAULT[cls]}' \(.* belongs? to preset 'paper'\), got {value!r}$"
    )
    with pytest.raises(sf.RuleError, match=message) as caught:
        cls(PROBLEM, 5, **options, **chosen)
    assert (caught.value.argument, caught.value.value) == (name, value)
    assert cls(PROBLEM, 5, preset="paper", **options).preset.name == "paper"


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
@pytest.mark.parametrize("preset", ["fast", None, 3, "Paper"])
def test_a_preset_must_be_one(cls: Any, preset: Any) -> None:
    with pytest.raises(
        sf.RuleError, match=r"^preset must be 'practical' or ('led' or )?'guaranteed' or 'paper', got"
    ) as caught:
        cls(PROBLEM, 5, preset=preset)
    assert caught.value.value == preset


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_presets_differ(cls: Any) -> None:
    """The control of the first test: whatever is named is what is played."""
    states = [feedback(cls(PROBLEM, 5, preset=preset))["state"] for preset in PRESETS]
    assert all(one != other for one, other in zip(states, [*states[1:], states[0]]))
    assert [cls(PROBLEM, preset=preset).preset.name for preset in PRESETS] == list(PRESETS)


def test_options_of_the_paper_are_what_they_were() -> None:
    usual = {"preset": "paper", "learning_rate": "theory", "confidence": "paper", "benchmark_loss": None}
    assert sf.COLB(PROBLEM, preset="paper").to_dict()["options"] == usual
    assert sf.SOLB(PROBLEM, preset="paper").to_dict()["options"] == {**usual, "estimator": "paper"}


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_without_a_horizon_nothing_need_be_said(cls: Any) -> None:
    endless = sf.Problem(4, [0.5], None, safe=PROBLEM.safe)
    assert feedback(cls(endless, 5))["options"]["preset"] == DEFAULT[cls]
    with pytest.raises(ValueError, match="problem must have a horizon for preset 'paper', got horizon=None"):
        cls(endless, 5, preset="paper", learning_rate=0.1)


def test_results_tell_the_preset() -> None:
    scenario = sf.scenarios.make("three-arms-v1", horizon=200)
    makers = {
        "solb": sf.SOLB,
        "moving": lambda problem, seed: sf.SOLB(problem, seed, preset="paper", learning_rate=0.1),
    }
    told = sf.simulate(scenario, makers, seeds=1, checkpoints=[200], workers=1).provenance["simulations"][0]
    presets = {name: entry["options"]["preset"] for name, entry in told["policies"].items()}
    assert presets == {"solb": "led", "moving": "paper"}


@pytest.mark.filterwarnings("ignore")
def test_a_rate_that_a_tiny_margin_leads_to_can_be_loaded() -> None:
    """The theorems' rate is below 1e-15 here."""
    problem = sf.Problem(3, [0.5], 1000, 0.05, sf.SafeStrategy([0, 0, 1], [0.5 - 1e-12]))
    policy = sf.SOLB(problem, 1, preset="paper")
    assert policy.learning_rates.max() < 1e-15
    policy.tell(policy.ask(), 0.5, [0.0])
    assert sf.SOLB.from_dict(policy.to_dict()).to_dict() == policy.to_dict()
