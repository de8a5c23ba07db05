"""When guardrails loosen and it starts to pay, as a table."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from surefoot.analysis.statistics import Interval
from surefoot.cli.bounds import brief
from surefoot.cli.studies import refuse
from surefoot.problem import number
from surefoot.theory.plan import Forecast

PRESETS = {"guaranteed": 1.0, "practical": 0.5}
"""Presets of SOLB, and how optimistic their proposals are."""

LEGEND = (
    "Guardrails are loose once the safe strategy has a weight below 0.1. The formula is an estimate (docs/choosing.md); "
    "for practical it is the latest to expect: arms that are certified safe can take over much sooner. It pays when less "
    "has been lost than by playing the safe strategy alone, other arms being as much worse than that as the best is better."
)


def print_plan(
    arms: int,
    constraints: int,
    margin: float,
    delta: float,
    traffic: float,
    deviation: float,
    gap: float,
    threshold: float,
    slack: float,
    seeds: int,
) -> None:
    """Rounds and days until the guardrails loosen, what they cost until then, and when it pays."""
    try:
        forecasts = {
            preset: Forecast(arms, constraints, margin, delta, deviation, gap, threshold, slack, optimism)
            for preset, optimism in PRESETS.items()
        }
        number("traffic", traffic)
    except ValueError as error:
        raise refuse(str(error)) from None
    console = Console(highlight=False)
    console.print(
        f"[bold]{arms} arms, {constraints} constraint{'s' * (constraints != 1)}, margin {margin:g}[/]; delta {delta:g}, "
        f"threshold {threshold:g}, costs deviate by {deviation:g}; the safe strategy loses {gap:g} a round more than "
        f"the best, which {f'stays {slack:g} below the thresholds' if slack else 'the thresholds hold back'}"
    )
    console.print(overview(forecasts, traffic, seeds))
    console.print(LEGEND, style="italic")


def overview(forecasts: dict[str, Forecast], traffic: float, seeds: int) -> Table:
    """One block of rows per preset."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("preset", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("formula", justify="right", no_wrap=True)
    if seeds:
        table.add_column(f"{seeds} simulated runs", justify="right", no_wrap=True)
    for preset, forecast in forecasts.items():
        days = [forecast.loose_after / traffic, forecast.break_even / traffic]
        rows: list[tuple[str, float, str]] = [
            ("rounds until loose", forecast.loose_after, ""),
            (f"days, {brief(traffic)} decisions each", days[0], ""),
            ("regret paid to safety", forecast.regret, ""),
            ("rounds until it pays", forecast.break_even, ""),
            ("days", days[1], ""),
        ]
        if seeds:
            rows = [
                (*row[:2], told) for row, told in zip(rows, simulated(forecast, preset, traffic, seeds), strict=True)
            ]
        for i, (label, value, told) in enumerate(rows):
            table.add_row(preset if i == 0 else "", label, brief(value), *([told] if seeds else []))
        table.add_section()
    return table


def simulated(forecast: Forecast, preset: str, traffic: float, seeds: int) -> list[str]:
    """The same rows, from a simulation."""
    from surefoot.theory.rehearsal import rehearse

    found = rehearse(forecast, preset, seeds)

    def told(interval: Interval | None, unit: float, otherwise: str) -> str:
        if interval is None:
            return otherwise
        return (
            f"{brief(unit * interval.value)} ({brief(unit * max(0.0, interval.low))} to {brief(unit * interval.high)})"
        )

    late = f"not all within {brief(found.rounds)}"
    return [
        told(found.loose_after, 1.0, late),
        told(found.loose_after, 1.0 / traffic, ""),
        told(found.safe_rounds, forecast.gap, ""),
        told(found.break_even, 1.0, late),
        told(found.break_even, 1.0 / traffic, ""),
    ]
