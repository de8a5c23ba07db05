"""Policies, one algorithm per file."""

from surefoot.policies.base import Policy
from surefoot.policies.colb import COLB
from surefoot.policies.solb import SOLB

REGISTRY: dict[str, type[Policy]] = {"colb": COLB, "solb": SOLB}
"""Every policy of the package, by the name under which the command line and the contract suite know it."""

__all__ = ["COLB", "REGISTRY", "SOLB", "Policy"]
