"""Lists of the built-in scenarios and policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from surefoot.environments.scenarios import SCENARIOS, about, parameters
from surefoot.policies import REGISTRY
from surefoot.simulation.entries import policy_options

KINDS = {"hard": "kept in every round", "soft": "kept on average", "none": "not looked at"}


def print_scenarios() -> None:
    """Every built-in scenario."""
    listed = Table("id", "what it is", "parameters", title="Scenarios", title_justify="left", show_lines=True)
    for id in SCENARIOS:
        listed.add_row(id, about(id), settings(parameters(id)))
    Console().print(listed)


def print_policies() -> None:
    """Every policy."""
    listed = Table(
        "policy", "guardrails", "what it is", "options",
        title="Policies", title_justify="left", show_lines=True,
        caption="none: left to the policy, or to its preset", caption_justify="left",
    )  # fmt: skip
    for name, cls in REGISTRY.items():
        words = (cls.__doc__ or "").strip().splitlines()[0]
        listed.add_row(name, KINDS[cls.kind], words, settings(policy_options(cls)))
    Console().print(listed)


def settings(options: Mapping[str, Any]) -> str:
    """Options and their defaults, one a line."""
    return "\n".join(f"{name} = {'none' if value is None else repr(value)}" for name, value in options.items())
