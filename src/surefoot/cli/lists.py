"""Lists of the built-in scenarios and policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from surefoot.cli.machine import print_json
from surefoot.confidence import FAMILY
from surefoot.environments.scenarios import REHEARSALS, SCENARIOS, about, parameters
from surefoot.policies import REGISTRY, Policy
from surefoot.policies.guarded import Guarded
from surefoot.simulation.entries import policy_options

CAPTION = (
    "none: left to the policy, or to its preset. "
    "learning_rate: a number, theory, practical or doubling. confidence: {}."
)
ABOUT = {
    "solb": "Keeps every limit while it learns; needs a safe strategy.",
    "colb": "Exceeds limits a little while it learns: the total violation grows slowly. Needs no safe strategy.",
    "log-barrier": "Learns from losses alone and does not look at costs: the unguarded learner of the demo.",
}
"""What users need to know of the policies that have presets: their docstrings name the paper's algorithms."""
KINDS = {"hard": "hard: all rounds safe", "soft": "soft: total violation grows slowly", "none": "none: ignored"}


def print_scenarios(as_json: bool = False) -> None:
    """Every built-in scenario."""
    if as_json:
        print_json([
            {"id": id, "about": about(id), "parameters": parameters(id), "rehearsal": id in REHEARSALS}
            for id in SCENARIOS
        ])  # fmt: skip
        return
    listed = Table(title="Scenarios", title_justify="left", show_lines=True)
    add_columns(listed, SCENARIOS, "id", "what it is", "parameters")
    for id in SCENARIOS:
        listed.add_row(id, about(id), settings(parameters(id)))
    Console().print(listed)


def print_policies(as_json: bool = False) -> None:
    """Every policy."""
    if as_json:
        print_json([
            {
                "policy": name, "kind": cls.kind, "guardrails": KINDS[cls.kind], "about": words(cls),
                "options": policy_options(cls), "allowed": allowed(cls),
            }
            for name, cls in REGISTRY.items()
        ])  # fmt: skip
        return
    listed = Table(
        title="Policies", title_justify="left", show_lines=True,
        caption=CAPTION.format(", ".join(FAMILY)), caption_justify="left",
    )  # fmt: skip
    add_columns(listed, REGISTRY, "policy", "guardrails", "what it is", "options")
    for name, cls in REGISTRY.items():
        named = f" ({', '.join(presets(cls))})" if presets(cls) else ""
        options = re.sub(r"^preset = .*$", rf"\g<0>{named}", settings(policy_options(cls)), flags=re.M)
        listed.add_row(name, KINDS[cls.kind], words(cls), options)
    Console().print(listed)


def add_columns(table: Table, ids: Mapping[str, Any], first: str, *others: str) -> None:
    """Columns of a list: ids are never cut or wrapped, however narrow the window; the rest gives way."""
    table.add_column(first, no_wrap=True, min_width=max(map(len, ids)))
    for name in others:
        table.add_column(name, overflow="fold")


def words(cls: type[Policy[Any]]) -> str:
    """What a policy is, in a line."""
    return ABOUT.get(cls.name) or (cls.__doc__ or "").strip().splitlines()[0]


def presets(cls: type) -> list[str]:
    """The presets that a policy has."""
    return list(cls.methods) if issubclass(cls, Guarded) else []


def allowed(cls: type[Policy[Any]]) -> dict[str, list[str]]:
    """The words that options of a policy may be, where there are any."""
    known = {"preset": presets(cls), "confidence": list(FAMILY)}
    return {name: values for name, values in known.items() if values and name in policy_options(cls)}


def settings(options: Mapping[str, Any]) -> str:
    """Options and their defaults, one a line."""
    return "\n".join(f"{name} = {'none' if value is None else repr(value)}" for name, value in options.items())
