"""What the theorems promise, as tables."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from surefoot.cli.machine import print_json
from surefoot.cli.refusal import of_options, refuse
from surefoot.reporting.story import probable
from surefoot.theory.bounds import BOUNDS, LONGEST, Bound, Instance, nontrivial_horizon

LEGEND = (
    "A bound says more if its conditions are met and it is better than what is true anyway. With the same losses per "
    "round, it says more from the horizon in the last column on. None: not within the 1e9 rounds for which it is "
    "proved. The corollary and Theorems R and L are for a run with delta = 1 / horizon, except in the rows "
    '"two levels" and "no horizon", which are for the delta given. The variants in the rows "two levels" and '
    '"Theorem H" are not presets. docs/bounds.md has all conditions.'
)

GAP = "*"
OF_GAPS = f"{GAP} The published proof has a gap (docs/theory/weighted-estimator.md): not proved."

GLUE = "\N{NO-BREAK SPACE}"


def print_bounds(
    arms: int,
    guardrails: int,
    horizon: int,
    delta: float,
    margin: float,
    benchmark_loss: float,
    gap: float,
    threshold: float,
    as_json: bool = False,
) -> None:
    """Print every bound on one instance, and the terms of each."""
    try:
        instance = Instance(arms, guardrails, horizon, delta, margin, benchmark_loss, gap, threshold)
    except ValueError as error:
        raise refuse(of_options(error)) from None
    bounds = [bound(instance) for bound in BOUNDS]
    horizons = [nontrivial_horizon(bound, instance) for bound in BOUNDS]
    if as_json:
        print_json({"instance": instance, "bounds": [told(*one) for one in zip(bounds, horizons, strict=True)]})
        return
    console = Console(highlight=False)
    console.print(
        f"[bold]{arms} arms, {guardrails} guardrail{'s' * (guardrails != 1)}, {horizon:,} rounds[/]; "
        f"delta {delta:g}, margin {margin:g}, threshold {threshold:g}; "
        f"the best safe strategy loses {instance.omega:g} a round, the safe one {gap:g} more"
    )
    console.print(overview(bounds, horizons, f"after\n{brief(horizon)}"))
    console.print(f"{LEGEND}\n{OF_GAPS}\n", style="italic")
    console.print("[bold]What each bound is the sum of[/]")
    console.print(details(bounds, console.width))


def told(bound: Bound, since: float) -> dict[str, Any]:
    """A bound for machines; `from_horizon` is null if it is silent at every horizon that was tried."""
    return {
        "name": bound.name,
        "statement": bound.statement,
        "lower": bound.lower,
        "probability": bound.probability,
        "value": bound.total,
        "trivial": bound.trivial,
        "says_more": bound.says_something,
        "from_horizon": since,
        "terms": bound.terms,
        "conditions": [{"condition": words, "met": holds} for words, holds in bound.conditions],
    }


def overview(bounds: list[Bound], horizons: list[float], when: str) -> Table:
    """One row per bound."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("\nbound", no_wrap=True)
    for heading in ("holds\nwith", when, "true\nanyway", "says\nmore?", "from\nhorizon"):
        table.add_column(heading, justify="right", no_wrap=True)
    for bound, since in zip(bounds, horizons, strict=True):
        sign = "\N{GREATER-THAN OR EQUAL TO}" if bound.lower else "\N{LESS-THAN OR EQUAL TO}"
        table.add_row(
            bound.name + f" {GAP}" * bound.gap,
            "mean" if bound.probability is None else probable(1.0 - bound.probability),
            f"{sign} {brief(bound.total)}",
            f"{sign} {brief(bound.trivial)}",
            "[green]yes[/]" if bound.says_something else "[red]no[/]",
            brief(since) if math.isfinite(since) else f"> {brief(LONGEST)}" if math.isinf(bound.longest) else "none",
        )
    return table


def details(bounds: list[Bound], width: int) -> Table:
    """The terms of each bound, the largest first, and the conditions that are not met."""
    table = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    left = width - max(len(bound.name) for bound in bounds) - 6
    for bound in bounds:
        terms = sorted(bound.terms.items(), key=lambda term: -term[1])
        pieces = [f"{name} {brief(value)}".replace(" ", GLUE) for name, value in terms]  # keep it on one line
        lines = [line.replace(GLUE, " ") for line in textwrap.wrap(f"{GLUE}+ ".join(pieces), max(left, 30))]
        lines += [f"[red]not met:[/] {words}" for words, holds in bound.conditions if not holds]
        table.add_row(bound.name, "\n".join(lines))
    return table


def brief(value: float) -> str:
    """A number as text in a table: whole from a thousand on, in powers of ten from a million on."""
    if not math.isfinite(value):
        return "infinite"
    if abs(value) >= 999_999.5:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits.removesuffix('.0')}e{int(power)}"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
