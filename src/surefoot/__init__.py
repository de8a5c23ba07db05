"""Surefoot: constrained multi-armed bandits. Decisions that learn while their guardrails hold."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surefoot.problem import Decision, EmptySafeSet, Infeasible, Problem, SafeStrategy
from surefoot.rules import RuleError

if TYPE_CHECKING:
    from surefoot import confidence
    from surefoot.analysis.optimum import Benchmark, offline_optimum, safest_strategy
    from surefoot.environments import costs, losses, scenarios
    from surefoot.environments.scenario import Scenario
    from surefoot.environments.scenarios import Table
    from surefoot.policies import (
        COLB,
        OPB,
        SOLB,
        UCB1,
        AlwaysSafe,
        DoublyOptimistic,
        Exp3,
        Exp3IX,
        LinConTS,
        LogBarrier,
        OptimisticLP,
        Oracle,
        PessimisticOptimistic,
        Policy,
        PrimalDual,
        QueuePrimalDual,
        SafeExp3,
        SafeOptimisticLP,
        SoftExp3,
        ThompsonSampling,
        TsallisINF,
    )
    from surefoot.policies.projection import Projection, project
    from surefoot.reporting.report import write_report
    from surefoot.simulation.run import Run
    from surefoot.simulation.simulate import simulate

__version__ = "0.1.0"

# What needs compiled code or a solver is imported when it is first used: `import surefoot` stays fast.
_LAZY = {
    "COLB": "surefoot.policies",
    "OPB": "surefoot.policies",
    "SOLB": "surefoot.policies",
    "AlwaysSafe": "surefoot.policies",
    "Exp3": "surefoot.policies",
    "Exp3IX": "surefoot.policies",
    "LinConTS": "surefoot.policies",
    "LogBarrier": "surefoot.policies",
    "OptimisticLP": "surefoot.policies",
    "Oracle": "surefoot.policies",
    "Policy": "surefoot.policies",
    "DoublyOptimistic": "surefoot.policies",
    "PessimisticOptimistic": "surefoot.policies",
    "QueuePrimalDual": "surefoot.policies",
    "PrimalDual": "surefoot.policies",
    "ThompsonSampling": "surefoot.policies",
    "UCB1": "surefoot.policies",
    "TsallisINF": "surefoot.policies",
    "SafeExp3": "surefoot.policies",
    "SafeOptimisticLP": "surefoot.policies",
    "SoftExp3": "surefoot.policies",
    "Projection": "surefoot.policies.projection",
    "project": "surefoot.policies.projection",
    "Benchmark": "surefoot.analysis.optimum",
    "offline_optimum": "surefoot.analysis.optimum",
    "safest_strategy": "surefoot.analysis.optimum",
    "confidence": "surefoot.confidence",
    "costs": "surefoot.environments",
    "losses": "surefoot.environments",
    "scenarios": "surefoot.environments",
    "Scenario": "surefoot.environments.scenario",
    "Table": "surefoot.environments.scenarios",
    "write_report": "surefoot.reporting.report",
    "Run": "surefoot.simulation.run",
    "simulate": "surefoot.simulation.simulate",
}

__all__ = [
    "COLB",
    "OPB",
    "SOLB",
    "UCB1",
    "AlwaysSafe",
    "Benchmark",
    "Decision",
    "DoublyOptimistic",
    "EmptySafeSet",
    "Exp3",
    "Exp3IX",
    "Infeasible",
    "LinConTS",
    "LogBarrier",
    "OptimisticLP",
    "Oracle",
    "PessimisticOptimistic",
    "Policy",
    "PrimalDual",
    "Problem",
    "Projection",
    "QueuePrimalDual",
    "RuleError",
    "Run",
    "SafeExp3",
    "SafeOptimisticLP",
    "SafeStrategy",
    "Scenario",
    "SoftExp3",
    "Table",
    "ThompsonSampling",
    "TsallisINF",
    "confidence",
    "costs",
    "losses",
    "offline_optimum",
    "project",
    "safest_strategy",
    "scenarios",
    "simulate",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
    home = import_module(_LAZY[name])
    if home.__name__ == f"surefoot.{name}":
        return home
    value = getattr(home, name, None) or import_module(f"{_LAZY[name]}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
