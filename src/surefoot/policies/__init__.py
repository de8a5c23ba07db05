"""Policies, one algorithm per file."""

from surefoot.policies.base import Policy
from surefoot.policies.colb import COLB
from surefoot.policies.solb import SOLB

REGISTRY: dict[str, type[Policy]] = {"colb": COLB, "solb": SOLB}
"""Every policy of the package, by name; the contract suite runs on each."""

__all__ = ["COLB", "REGISTRY", "SOLB", "Policy"]
