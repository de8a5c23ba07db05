"""The contract has teeth: policies that are wrong in one way are refused, each by the clause named here."""

from __future__ import annotations

from typing import Any

import pytest

import surefoot as sf
from surefoot.policies.colb import COLB
from surefoot.policies.solb import SOLB
from surefoot.testing import make_problem
from surefoot.testing.worlds import BINDING
from surefoot.theory import mutations
from surefoot.theory.mutations import mutant
from tests.contracts.mirror import MirrorDescentContract

BOTH = (COLB, SOLB)

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
CASES = [(wrong, clause, cls) for wrong, (clause, policies) in REFUSED_BY.items() for cls in policies]


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
    problems = {
        "problem": [make_problem("K=5 m=2")],
        "binding": [make_problem(size, Contract.rounds_to_bind) for size in BINDING],
    }
    try:
        for arguments in [(problem,) for problem in problems[names[0]]] if names else [()]:
            test(*arguments)
    except pytest.skip.Exception as skipped:
        pytest.fail(f"{clause} skips {cls.__name__}: {skipped}")


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize(("wrong", "clause", "cls"), CASES)
def test_every_mutation_is_refused(wrong: str, clause: str, cls: Any) -> None:
    with pytest.raises(AssertionError) as refusal:
        put_to(clause, cls, getattr(mutations, wrong))
    assert "tested nothing" not in str(refusal.value)


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize(("clause", "cls"), sorted({case[1:] for case in CASES}, key=str))
def test_what_alters_nothing_is_not(clause: str, cls: Any) -> None:
    put_to(clause, cls, mutations.Altered)


def test_no_mutation_is_left_out() -> None:
    made = [found for found in vars(mutations).values() if getattr(found, "__module__", "") == mutations.__name__]
    assert {found.__name__ for found in made if isinstance(found, type)} == {*REFUSED_BY, "Altered"}
