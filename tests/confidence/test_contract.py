"""Every bound under contract, COLB and SOLB with every bound under theirs, and a bound that is too narrow refused."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom

import surefoot as sf
from surefoot.confidence import FAMILY, Bernstein, Betting, Confidence, EBMixture, Hoeffding, KLMixture, Paper, resolve
from surefoot.kernels.costs import CostBound
from surefoot.kernels.types import EMPTY
from surefoot.policies.saving import sealed
from surefoot.policies.solb import update
from surefoot.rules import Floats
from surefoot.testing import ConfidenceContract, PolicyContract, make_problem


class TooNarrow(Hoeffding):
    """A tenth of the radius."""

    name: ClassVar[str] = "too narrow"

    def bound(self, problem: sf.Problem) -> CostBound:
        bound = super().bound(problem)
        return bound._replace(scale=0.01 * bound.scale)


class Forgetful(Hoeffding):
    """As wide at every delta."""

    name: ClassVar[str] = "forgetful"

    def evidence(self, problem: sf.Problem) -> float:
        return 5.0


class Vague(Hoeffding):
    """Ten times the radius."""

    name: ClassVar[str] = "vague"

    def bound(self, problem: sf.Problem) -> CostBound:
        bound = super().bound(problem)
        return bound._replace(scale=100.0 * bound.scale)


@pytest.mark.parametrize(
    ("wrong", "clause"),
    [
        (TooNarrow, "test_bounds_hold_with_their_probability"),
        (Forgetful, "test_bounds_are_wider_at_a_smaller_delta"),
        (Vague, "test_bounds_narrow_around_a_constant_cost"),
    ],
)
def test_wrong_bounds_are_refused(wrong: type[Confidence], clause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILY, wrong.name, wrong)

    class Contract(ConfidenceContract):
        make: Any = staticmethod(wrong)

    with pytest.raises(AssertionError):
        getattr(Contract(), clause)()


for family_name in FAMILY:
    globals()[f"Test_{family_name}"] = type("Test", (ConfidenceContract,), {"make": staticmethod(FAMILY[family_name])})
Test_coarse_betting = type(
    "Test", (ConfidenceContract,), {"make": staticmethod(lambda: Betting(bets=3, nodes=2, sides="upper"))}
)

OTHERS = [name for name in FAMILY if name != "paper"]  # the paper's is under contract with its preset


def contract(cls: Any, confidence: Any) -> type[PolicyContract]:
    class Contract(PolicyContract):
        @staticmethod
        def make(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
            made: sf.Policy[Any] = cls(problem, seed, preset="paper", learning_rate=0.3, confidence=confidence)
            return made

    return Contract


for bound_name in OTHERS:
    globals()[f"Test_SOLB_{bound_name}"] = contract(sf.SOLB, bound_name)
    globals()[f"Test_COLB_{bound_name}"] = contract(sf.COLB, FAMILY[bound_name](sides="upper"))  # type: ignore[call-arg]
Test_SOLB_coarse = contract(sf.SOLB, {"name": "betting", "bets": 3, "nodes": 2})

PROBLEM = make_problem("K=5 m=2")


@pytest.mark.parametrize("preset", ["paper", "practical"])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Paper(), "paper"),
        ("hoeffding", "hoeffding"),
        (Bernstein(sides="upper"), {"name": "bernstein", "sides": "upper"}),
        ({"name": "bernstein", "sides": "both"}, "bernstein"),
        (KLMixture(bets=30), {"name": "kl-mixture", "sides": "both", "bets": 30}),
        (EBMixture(), "eb-mixture"),
        (Betting(bets=np.int64(8)), {"name": "betting", "sides": "both", "bets": 8, "nodes": 65}),  # type: ignore[arg-type]
    ],
)
def test_options_survive_json(given: Any, kept: Any, preset: str) -> None:
    policy = sf.SOLB(PROBLEM, 1, preset=preset, confidence=given)
    data = json.loads(json.dumps(policy.to_dict()))
    assert data["options"]["confidence"] == kept
    assert sf.SOLB.from_dict(data).to_dict() == policy.to_dict()
    assert resolve(kept) == (given if isinstance(given, Confidence) else resolve(given))


def test_the_papers_bounds_follow_from_counts_and_means() -> None:
    """Whatever else a saved state says, of arms that were observed or not."""
    policy = sf.SOLB(PROBLEM, 1, preset="paper")
    for _ in range(20):
        policy.tell((0, 0.5), 0.5, [0.5, 0.0])
    data = policy.to_dict()
    for field in ("lower", "upper"):
        data["state"]["known"][field] = np.full((2, 5), 0.5).tolist()
    again = sf.SOLB.from_dict(sealed(data))
    assert again.to_dict() == policy.to_dict()


REMEMBERED = {
    "betting": ["lower", "upper", "reach", "upper_wealth", "lower_wealth", "nodes"],
    "bernstein": ["squares"],
    "eb-mixture": ["squares", "reach"],
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, fields in REMEMBERED.items() for field in fields])
def test_bounds_of_arms_never_seen_are_refused(name: str, field: str) -> None:
    policy = sf.SOLB(PROBLEM, 1, preset="paper", confidence=name)
    for _ in range(20):
        policy.tell((0, 0.5), 0.5, [0.5, 0.0])
    data = policy.to_dict()
    array = np.array(data["state"]["known"][field])
    array[0, 3] = 0.5  # an arm, and all that is remembered of it
    data["state"]["known"][field] = array.tolist()
    with pytest.raises(ValueError, match=rf"state.known.{field} must be . for an arm that was never observed, got"):
        sf.SOLB.from_dict(data)


def test_costs_that_were_not_counted_are_refused() -> None:
    policy = sf.SOLB(PROBLEM, 1, preset="paper", confidence="kl-mixture")
    policy.tell((0, 0.5), 0.5, [0.5, 0.0])
    data = policy.to_dict()
    data["state"]["known"]["nodes"][1][0][-1] = 3.0
    with pytest.raises(ValueError, match=r"state.known.nodes must hold as many costs as state.known.counts, got"):
        sf.SOLB.from_dict(data)


COSTS = np.array([[0.1, 0.45, 0.6, 0.8]])
RUNS = 60


class Heedless(sf.SOLB):
    """SOLB that goes on when its bounds contradict each other; the safe strategy would hide that they are wrong."""

    _in_turn = True

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        if update(self._state, arm, propensity, weight, loss, costs) == EMPTY:
            self._recover()


def violating_runs(confidence: Any, weakened: bool = False) -> int:
    """In how many runs SOLB, drawn towards the dearest arm, has ever played an unsafe strategy."""
    horizon, found = 3000, 0
    problem = sf.Problem(4, [0.5], horizon, 0.1, sf.SafeStrategy([1, 0, 0, 0], [0.1]))
    losses = np.ascontiguousarray(np.broadcast_to([1.0, 0.6, 0.3, 0.0], (horizon, 4)))
    for seed in range(RUNS):
        cls = Heedless if weakened else sf.SOLB
        policy = cls(problem, seed, preset="paper", learning_rate=0.1, confidence=confidence)
        if weakened:
            policy._state.known.mixture.shares[:] += 4.3
        costs = (np.random.default_rng(seed).random((horizon, 1, 4)) < COSTS).astype(float)
        strategies, weights = np.empty((horizon, 4)), np.empty(horizon)
        policy.live(losses, costs, strategies, weights)
        found += bool((strategies @ COSTS[0] > 0.5 + 1e-12).any())
    return found


@pytest.mark.parametrize("name", FAMILY)
def test_every_bound_keeps_every_round_safe(name: str) -> None:
    """False alarm at most 1e-3, over all bounds, if runs violate with probability delta = 0.1: more than 16 of 60."""
    assert violating_runs(name) <= binom.isf(1e-3 / len(FAMILY), RUNS, 0.1)


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction")
@pytest.mark.parametrize("name", ["kl-mixture", "eb-mixture", "betting"])
def test_too_little_evidence_is_unsafe(name: str) -> None:
    """The control, at 74 times the level, violates in 40 runs or more; with a chance of 1/2 it is caught at 0.9998."""
    assert violating_runs(name, weakened=True) > binom.isf(1e-3 / len(FAMILY), RUNS, 0.1)


def test_hoeffding_narrows_what_the_paper_leaves_wide() -> None:
    costs = [0.5, 0.0]
    for cls in (sf.COLB, sf.SOLB):
        wide, narrow = (cls(PROBLEM, 1, preset="paper", confidence=bounds) for bounds in (Paper(), Hoeffding()))
        for _ in range(100):
            wide.tell((0, 0.5), 0.5, costs)
            narrow.tell((0, 0.5), 0.5, costs)
        assert (
            (narrow.upper_costs - narrow.lower_costs)[:, 0] < 0.7 * (wide.upper_costs - wide.lower_costs)[:, 0]
        ).all()


def test_a_bound_that_policies_cannot_find_by_name_is_refused() -> None:
    """They would take the one of that name in its place, without a word."""

    class Wide(Betting):
        pass

    with pytest.raises(sf.RuleError, match=r"confidence must be of a class in surefoot.confidence.FAMILY, got"):
        sf.SOLB(PROBLEM, 1, confidence=Wide())
