"""The command `surefoot`. Commands are thin: they parse, call, and print."""

from pathlib import Path
from typing import Annotated

import typer

import surefoot

app = typer.Typer(
    help="Constrained multi-armed bandits: decisions that learn while their guardrails hold.",
    no_args_is_help=True,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"surefoot {surefoot.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    """Constrained multi-armed bandits: decisions that learn while their guardrails hold."""


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("runs/demo")) -> None:
    """Run a small built-in story with SOLB and COLB; print a table and save a picture."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from surefoot.reporting import demo as story

    console = Console()
    console.print(story.STORY, "\n", width=min(100, console.width))
    policies = story.policies()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("rounds", total=len(policies) * story.PROBLEM.horizon)
        courses = story.live(policies.items(), lambda: progress.advance(bar))
    console.print(story.table(courses))
    console.print(f"\nPicture: {story.picture(courses, out)}", highlight=False, soft_wrap=True)
