"""How a command says what is wrong with its arguments."""

from __future__ import annotations

import re

import typer
from rich.console import Console

OPTIONS = {"n_arms": "arms", "n_constraints": "guardrails"}
"""Arguments that options have another name for."""


def refuse(error: Exception, advice: str = "") -> typer.Exit:
    """Print the error on stderr, and return the exit to raise."""
    Console(stderr=True).print(f"{error}{advice}", style="red", highlight=False, markup=False, soft_wrap=True)
    return typer.Exit(2)


def of_options(error: Exception) -> ValueError:
    """The error, about options in place of arguments."""
    return ValueError(re.sub("|".join(OPTIONS), lambda found: OPTIONS[found[0]], str(error)))
