"""Policies, one algorithm per file."""

from surefoot.policies.base import Policy
from surefoot.policies.colb import COLB
from surefoot.policies.log_barrier import LogBarrier
from surefoot.policies.solb import SOLB

REGISTRY: dict[str, type[Policy]] = {"colb": COLB, "log-barrier": LogBarrier, "solb": SOLB}
"""Every policy of the package, by name; the contract suite runs on each."""

__all__ = ["COLB", "REGISTRY", "SOLB", "LogBarrier", "Policy"]
