"""The contract, on every policy of the package: as it comes, and at a learning rate at which things happen."""

import inspect
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.policies import REGISTRY
from surefoot.simulation.entries import TRUTH, policy_options
from surefoot.testing import PolicyContract, true_costs
from tests.contracts.mirror import MirrorDescentContract

SLOW = 0.1  # the share of the best arm, for a policy that has learnt little after 1,000 rounds: one at a theorem's rate

KNOWN: dict[str, dict[str, Any]] = {
    "always-safe": {"learnt_share": None, "weighs_losses": False},
    "log-barrier": {"learnt_share": SLOW},
    "primal-dual": {"learnt_share": None},  # it shrinks losses by 1 + 2 / margin, in the contract 41
    "opb": {"learnt_share": SLOW, "weighs_losses": False, "proposal_keeps_limits": False},
    "thompson": {"draws_when_told": True, "weighs_losses": False},
    "lincon-ts": {"draws_when_told": True, "weighs_losses": False},
    **{
        name: {"weighs_losses": False}
        for name in (
            "doubly-optimistic", "epsilon-greedy", "optimistic-lp", "pessimistic-optimistic", "safe-optimistic-lp",
            "ucb1",
        )
    },
}  # fmt: skip
"""What the contract has to know about some policies."""


def contract(name: str, options: dict[str, Any], base: Any = PolicyContract, **known: Any) -> type[PolicyContract]:
    cls = REGISTRY[name]

    def make(problem: Any, seed: int) -> sf.Policy[Any]:  # also of what is no problem
        truth = {}
        if TRUTH in inspect.signature(cls).parameters:
            truth = {TRUTH: true_costs(problem) if isinstance(problem, sf.Problem) else np.zeros((1, 2))}
        return cls(problem, seed, **truth, **options)

    return type("Contract", (base,), {"make": staticmethod(make), **KNOWN.get(name, {}), **known})


PAPER = {"preset": "paper"}

for policy_name, policy_class in REGISTRY.items():
    globals()[f"Test_{policy_name}"] = contract(policy_name, {})
    if "learning_rate" in policy_options(policy_class):
        of_the_paper = (PAPER, MirrorDescentContract) if policy_name in ("colb", "solb") else ({}, PolicyContract)
        globals()[f"Test_{policy_name}_moving"] = contract(
            policy_name, {"learning_rate": 0.3, **of_the_paper[0]}, of_the_paper[1]
        )

Test_colb_paper = contract("colb", PAPER, MirrorDescentContract, learnt_share=SLOW)
Test_solb_paper = contract("solb", PAPER, MirrorDescentContract, learnt_share=SLOW)
Test_solb_guaranteed = contract("solb", {"preset": "guaranteed", "confidence": "eb-mixture"})
Test_solb_practical = contract("solb", {"preset": "practical"})
DOUBLING = {**PAPER, "learning_rate": "doubling"}
Test_colb_doubling = contract("colb", DOUBLING, MirrorDescentContract, doubling=True)
Test_solb_weighted_doubling = contract(
    "solb", {**DOUBLING, "estimator": "weighted"}, MirrorDescentContract, doubling=True, weighted=True
)

BETTING = {"name": "betting", "sides": "upper"}
Test_opb_betting = contract("opb", {"confidence": BETTING})
Test_safe_exp3_betting = contract("safe-exp3", {"confidence": BETTING, "learning_rate": 0.3})
Test_soft_exp3_bernstein = contract("soft-exp3", {"confidence": "bernstein"})
Test_safe_optimistic_lp_betting = contract("safe-optimistic-lp", {"confidence": BETTING})
Test_optimistic_lp_eb_mixture = contract("optimistic-lp", {"confidence": "eb-mixture"})
