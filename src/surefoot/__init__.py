"""Surefoot: constrained multi-armed bandits. Decisions that learn while their guardrails hold."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surefoot.problem import Decision, EmptySafeSet, Infeasible, Problem, SafeStrategy

if TYPE_CHECKING:
    from surefoot.analysis.optimum import Benchmark, offline_optimum, safest_strategy
    from surefoot.policies import COLB, SOLB, Policy
    from surefoot.policies.projection import Projection, project

__version__ = "0.1.0"

# What needs compiled code or a solver is imported when it is first used: `import surefoot` stays fast.
_LAZY = {
    "COLB": "surefoot.policies",
    "Policy": "surefoot.policies",
    "SOLB": "surefoot.policies",
    "Projection": "surefoot.policies.projection",
    "project": "surefoot.policies.projection",
    "Benchmark": "surefoot.analysis.optimum",
    "offline_optimum": "surefoot.analysis.optimum",
    "safest_strategy": "surefoot.analysis.optimum",
}

__all__ = [
    "COLB",
    "SOLB",
    "Benchmark",
    "Decision",
    "EmptySafeSet",
    "Infeasible",
    "Policy",
    "Problem",
    "Projection",
    "SafeStrategy",
    "offline_optimum",
    "project",
    "safest_strategy",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
