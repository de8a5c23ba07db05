"""Policies, one algorithm per file. The package finds every policy in this folder by the `name` of its class."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from surefoot.policies.base import Policy


def _registered() -> dict[str, type[Policy[Any]]]:
    """Every policy of the package by its name; SOLB and COLB come first."""
    found: dict[str, type[Policy[Any]]] = {}
    for module in iter_modules(__path__):
        for cls in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(cls, type) and issubclass(cls, Policy) and hasattr(cls, "name"):
                found[cls.name] = cls
    return {name: found[name] for name in ("solb", "colb", *sorted(found.keys() - {"solb", "colb"}))}


REGISTRY = _registered()
"""Every policy of the package, by name; the contract suite runs on each."""

__all__ = ["REGISTRY", "Policy"]
