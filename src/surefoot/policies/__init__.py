"""Policies, one algorithm per file."""

from surefoot.policies.base import Policy
from surefoot.policies.colb import COLB
from surefoot.policies.exp3 import Exp3, Exp3IX
from surefoot.policies.log_barrier import LogBarrier
from surefoot.policies.solb import SOLB

REGISTRY: dict[str, type[Policy]] = {
    "colb": COLB,
    "exp3": Exp3,
    "exp3-ix": Exp3IX,
    "log-barrier": LogBarrier,
    "solb": SOLB,
}
"""Every policy of the package, by name; the contract suite runs on each."""

__all__ = ["COLB", "REGISTRY", "SOLB", "Exp3", "Exp3IX", "LogBarrier", "Policy"]
