"""The contract, on every policy of the package: as it comes, and at a learning rate at which things happen."""

from typing import Any

import surefoot as sf
from surefoot.policies import REGISTRY
from tests.contracts.suite import PolicyContract


def contract(cls: type[sf.Policy], options: dict[str, Any]) -> type[PolicyContract]:
    class Contract(PolicyContract):
        @staticmethod
        def make(problem: sf.Problem, seed: int) -> sf.Policy:
            return cls(problem, seed, **options)

    return Contract


for name, policy_class in REGISTRY.items():
    globals()[f"Test_{name}"] = contract(policy_class, {})
    globals()[f"Test_{name}_moving"] = contract(policy_class, {"learning_rate": 0.3})
