"""How a command says what is wrong with its arguments."""

from __future__ import annotations

import typer
from rich.console import Console


def refuse(error: Exception, advice: str = "") -> typer.Exit:
    """Print the error on stderr, and return the exit to raise."""
    Console(stderr=True).print(f"{error}{advice}", style="red", highlight=False, markup=False, soft_wrap=True)
    return typer.Exit(2)
