"""The contract has teeth: policies that are wrong in one way are refused, each by the clause named here."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import surefoot as sf
from surefoot.policies.colb import COLB
from surefoot.policies.guarded import Guarded
from surefoot.policies.saving import sealed
from surefoot.policies.solb import SOLB
from surefoot.rules import Floats
from surefoot.testing import make_problem
from surefoot.testing.policies import COPIES
from surefoot.testing.worlds import BINDING
from surefoot.theory import mutations
from surefoot.theory.mutations import mutant
from tests.contracts.mirror import MirrorDescentContract

BOTH = (COLB, SOLB)


class TakesRepeats(Guarded):
    """Learns from a decision again."""

    def tell(self, decision: Any, loss: float, costs: Any = ()) -> None:
        is_open = any(decision[3] in numbers for numbers in self._open.values())
        super().tell(decision if is_open else decision[:3], loss, costs)


class TakesAnyOrder(Guarded):
    """Learns from any open decision of an arm."""

    def tell(self, decision: Any, loss: float, costs: Any = ()) -> None:
        opened = self._open[decision[0]]
        if decision[3] in opened:
            opened.remove(decision[3])
            decision = decision[:3]
        super().tell(decision, loss, costs)


class TakesOthers(Guarded):
    """Learns from decisions with numbers that it never gave."""

    def tell(self, decision: Any, loss: float, costs: Any = ()) -> None:
        super().tell(decision if decision[3] < self._asked else decision[:3], loss, costs)


class LearnsThenRefuses(Guarded):
    """Refuses a decision only after learning from it."""

    def tell(self, decision: Any, loss: float, costs: Any = ()) -> None:
        try:
            super().tell(decision, loss, costs)
        except sf.RuleError:
            super().tell(decision[:3], loss, costs)
            raise


class CountsNoBlocks(Guarded):
    """Gives the rounds of a block no numbers."""

    def live(self, losses: Floats, *others: Any) -> None:
        super().live(losses, *others)
        self._asked -= len(losses)


class ForgetsOpen(Guarded):
    """Does not save which decisions are open."""

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        return sealed({**data, "asked": min(data["asked"], data["round"]), "open": []})


class DrawsWhenLoaded(Guarded):
    """A policy that is loaded has used up a draw."""

    @classmethod
    def from_bytes(cls, data: Any) -> Any:
        policy = super().from_bytes(data)
        policy._rng.random()
        return policy


class SharesOpen(Guarded):
    """Its copies settle its decisions."""

    def __copy__(self) -> Any:
        twin = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        twin._open = self._open
        return twin


# mutation: the clause that refuses it, and as which policies. All of them are about what a policy shows and plays.
REFUSED_BY: dict[str, tuple[str, tuple[Any, ...]]] = {
    "NarrowRadius": ("test_bounds_hold_with_their_probability", BOTH),
    "NeverRestarts": ("test_restarts_come_when_the_rate_has_spent_its_allowance", BOTH),
    "RestartsEarly": ("test_restarts_come_when_the_rate_has_spent_its_allowance", BOTH),
    "Unprojected": ("test_proposals_stay_in_the_estimated_safe_set", BOTH),
    "Stuck": ("test_learns_which_arm_is_best", BOTH),
    "FedTwice": ("test_every_step_is_the_projection", BOTH),
    "DividedByProposal": ("test_late_feedback_uses_the_propensity_of_its_own_decision", BOTH),
    "Unmixed": ("test_hard_policies_keep_the_thresholds_at_the_upper_bounds", (SOLB,)),
    "AlwaysSafe": ("test_learns_which_arm_is_best", (SOLB,)),
    "MixedByLower": ("test_hard_policies_keep_the_thresholds_at_the_upper_bounds", (SOLB,)),
    "GivesUp": ("test_hard_policies_keep_the_thresholds_at_the_upper_bounds", (SOLB,)),
    "LiteralMaximum": ("test_learns_which_arm_is_best", (SOLB,)),
}
# The same for what a policy does with decisions.
OF_DECISIONS: list[tuple[type[Guarded], str]] = [
    (TakesRepeats, "test_feedback_is_told_once"),
    (TakesAnyOrder, "test_feedback_on_an_arm_is_told_in_the_order_of_asking"),
    (TakesOthers, "test_decisions_that_the_policy_has_not_made_are_refused"),
    (LearnsThenRefuses, "test_feedback_is_told_once"),
    (LearnsThenRefuses, "test_feedback_on_an_arm_is_told_in_the_order_of_asking"),
    (LearnsThenRefuses, "test_decisions_that_the_policy_has_not_made_are_refused"),
    (CountsNoBlocks, "test_a_block_of_rounds_equals_asking_and_telling"),
    (ForgetsOpen, "test_state_round_trip_is_exact"),
    (SharesOpen, "test_copies_are_apart_and_have_the_same_future"),
    (DrawsWhenLoaded, "test_a_policy_that_is_loaded_in_every_round_plays_the_same"),
]
CASES: list[tuple[type[Guarded], str, Any]] = [
    *((getattr(mutations, wrong), clause, cls) for wrong, (clause, policies) in REFUSED_BY.items() for cls in policies),
    *((wrong, clause, SOLB) for wrong, clause in OF_DECISIONS),
]
REFUSAL = (AssertionError, sf.RuleError, pytest.fail.Exception)  # the last if nothing was raised where it should be


def put_to(clause: str, cls: Any, *wrongs: Any) -> None:
    """Run one clause of the contract, on all its problems, on a policy that is wrong in these ways."""
    rate: float | str = "doubling" if "restarts" in clause else 0.3

    class Contract(MirrorDescentContract):
        doubling = rate == "doubling"

        @staticmethod
        def make(problem: sf.Problem, seed: int) -> Any:
            return (mutant(cls, *wrongs) if wrongs else cls)(problem, seed, preset="paper", learning_rate=rate)

    test = getattr(Contract(), clause)
    names = test.__func__.__code__.co_varnames[1 : test.__func__.__code__.co_argcount]
    choices: dict[str, list[Any]] = {
        "problem": [make_problem("K=5 m=2")],
        "plain": [make_problem("K=5 m=2")],
        "binding": [make_problem(size, Contract.rounds_to_bind) for size in BINDING],
        "way": [*COPIES],
    }
    try:
        for arguments in product(*(choices[name] for name in names)):
            test(*arguments)
    except pytest.skip.Exception as skipped:
        pytest.fail(f"{clause} skips {cls.__name__}: {skipped}")


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize(("wrong", "clause", "cls"), CASES)
def test_every_mutation_is_refused(wrong: type[Guarded], clause: str, cls: Any) -> None:
    with pytest.raises(REFUSAL) as refusal:
        put_to(clause, cls, wrong)
    assert "tested nothing" not in str(refusal.value)
    assert " skips " not in str(refusal.value)


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize(("clause", "cls"), sorted({case[1:] for case in CASES}, key=str))
def test_what_alters_nothing_is_not(clause: str, cls: Any) -> None:
    put_to(clause, cls, mutations.Altered)


OF_PROOFS = {"BaselineNotCut", "ProgramTakesAll"}
"""Wrong for the regret theorems of other presets only: tests/theory/test_company.py refutes them."""


def test_no_mutation_is_left_out() -> None:
    made = [found for found in vars(mutations).values() if getattr(found, "__module__", "") == mutations.__name__]
    policies = {found.__name__ for found in made if isinstance(found, type) and issubclass(found, sf.Policy)}
    assert policies == {*REFUSED_BY, *OF_PROOFS, "Altered"}
