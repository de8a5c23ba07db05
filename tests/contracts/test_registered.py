"""The contract, on every policy of the package: as it comes, and at a learning rate at which things happen."""

import inspect
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.policies import REGISTRY
from surefoot.simulation.study import TRUTH, policy_options
from tests.contracts.suite import PolicyContract


def contract(name: str, options: dict[str, Any]) -> type[PolicyContract]:
    cls = REGISTRY[name]

    class Contract(PolicyContract):
        @staticmethod
        def make(problem: sf.Problem, seed: int) -> sf.Policy:
            truth = {}
            if TRUTH in inspect.signature(cls).parameters:
                size, limits = getattr(problem, "n_arms", 2), getattr(problem, "thresholds", [0.5])
                truth = {TRUTH: np.outer(limits, np.linspace(0.5, 0.9, size))}
            return cls(problem, seed, **truth, **options)

    return Contract


for policy_name, policy_class in REGISTRY.items():
    globals()[f"Test_{policy_name}"] = contract(policy_name, {})
    if "learning_rate" in policy_options(policy_class):
        globals()[f"Test_{policy_name}_moving"] = contract(policy_name, {"learning_rate": 0.3})

Test_colb_paper = contract("colb", {"preset": "paper"})
Test_solb_paper = contract("solb", {"preset": "paper"})
Test_solb_guaranteed = contract("solb", {"preset": "guaranteed", "confidence": "eb-mixture"})
Test_colb_doubling = contract("colb", {"learning_rate": "doubling"})
Test_solb_weighted_doubling = contract("solb", {"learning_rate": "doubling", "estimator": "weighted"})

BETTING = {"name": "betting", "sides": "upper"}
Test_opb_betting = contract("opb", {"confidence": BETTING})
Test_safe_exp3_betting = contract("safe-exp3", {"confidence": BETTING, "learning_rate": 0.3})
Test_soft_exp3_bernstein = contract("soft-exp3", {"confidence": "bernstein"})
Test_safe_optimistic_lp_betting = contract("safe-optimistic-lp", {"confidence": BETTING})
Test_optimistic_lp_eb_mixture = contract("optimistic-lp", {"confidence": "eb-mixture"})
