"""Policies, one algorithm per file."""

from typing import Any

from surefoot.policies.base import Policy
from surefoot.policies.colb import COLB
from surefoot.policies.constrained_exp3 import SafeExp3, SoftExp3
from surefoot.policies.doubly_optimistic import DoublyOptimistic
from surefoot.policies.exp3 import Exp3, Exp3IX
from surefoot.policies.lincon_ts import LinConTS
from surefoot.policies.log_barrier import LogBarrier
from surefoot.policies.opb import OPB
from surefoot.policies.optimistic_lp import OptimisticLP, SafeOptimisticLP
from surefoot.policies.pessimistic_optimistic import PessimisticOptimistic
from surefoot.policies.primal_dual import PrimalDual
from surefoot.policies.queue_primal_dual import QueuePrimalDual
from surefoot.policies.solb import SOLB
from surefoot.policies.thompson import ThompsonSampling
from surefoot.policies.tsallis_inf import TsallisINF
from surefoot.policies.ucb1 import UCB1
from surefoot.policies.yardsticks import AlwaysSafe, Oracle

REGISTRY: dict[str, type[Policy[Any]]] = {
    policy.name: policy
    for policy in (
        SOLB, COLB, LogBarrier, Exp3, Exp3IX, OptimisticLP, SafeOptimisticLP, OPB, SoftExp3, SafeExp3, LinConTS,
        TsallisINF, UCB1, ThompsonSampling, PrimalDual, QueuePrimalDual, PessimisticOptimistic, DoublyOptimistic,
        AlwaysSafe, Oracle,
    )
}  # fmt: skip
"""Every policy of the package, by name; the contract suite runs on each."""

__all__ = [
    "COLB",
    "OPB",
    "REGISTRY",
    "SOLB",
    "UCB1",
    "AlwaysSafe",
    "DoublyOptimistic",
    "Exp3",
    "Exp3IX",
    "LinConTS",
    "LogBarrier",
    "OptimisticLP",
    "Oracle",
    "PessimisticOptimistic",
    "Policy",
    "PrimalDual",
    "QueuePrimalDual",
    "SafeExp3",
    "SafeOptimisticLP",
    "SoftExp3",
    "ThompsonSampling",
    "TsallisINF",
]
