"""A table of when guardrails loosen and when learning starts to pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from surefoot.analysis.statistics import Interval
from surefoot.cli.bounds import brief
from surefoot.cli.machine import print_json
from surefoot.cli.refusal import of_options, refuse
from surefoot.policies.presets import PRESETS
from surefoot.rules import Range, number
from surefoot.theory.plan import FORECAST_PRESETS, Forecast

if TYPE_CHECKING:
    from surefoot.theory.rehearsal import Rehearsal

TRAFFIC = Range(0, 1e15, open_low=True)
LEGEND = (
    "Loose: from then on the safe strategy has a weight below 0.1 on average, so SOLB no longer holds back. The "
    "formula is an estimate (docs/forecast.md){}. It pays once it has lost less than the safe strategy alone would "
    "have. This assumes that the other arms are as much worse than the safe strategy as the best is better. Read it "
    "as an order of magnitude."
)
SOONER = (
    "; led and practical are mostly much sooner, though not always, because they follow a linear "
    "program that plays few arms"
)
MEASURE = " --simulate measures all of this."
UPPER = " (upper estimate)"


def print_forecast(
    arms: int,
    guardrails: int,
    margin: float,
    delta: float,
    traffic: float,
    deviation: float,
    gap: float,
    threshold: float,
    slack: float,
    seeds: int,
    as_json: bool = False,
) -> None:
    """Rounds and days until the guardrails loosen, what they cost until then, and when it pays."""
    try:
        forecasts = {
            name: Forecast(arms, guardrails, margin, delta, deviation, gap, threshold, slack, PRESETS[name].optimism)
            for name in FORECAST_PRESETS
        }
        number("traffic", traffic, TRAFFIC)
        found = {name: simulated(forecasts[name], name, seeds) for name in forecasts} if seeds else {}
    except ValueError as error:
        raise refuse(of_options(error)) from None
    if as_json:
        print_json({name: as_data(one, traffic, found.get(name)) for name, one in forecasts.items()})
        return
    console = Console(highlight=False)
    limits = "limit" if guardrails == 1 else "limits"
    best = f"stays {slack:g} below the {limits}" if slack else f"the {limits} hold{'s' * (guardrails == 1)} back"
    console.print(
        f"[bold]{arms} arms, {guardrails} guardrail{'s' * (guardrails != 1)}, margin {margin:g}[/]; "
        f"delta {delta:g}, limit {threshold:g}, costs deviate by {deviation:g}; "
        f"the safe strategy loses {gap:g} a round more than the best, which {best}"
    )
    cells = {name: simulated_cells(one, forecasts[name], traffic) for name, one in found.items()}
    console.print(overview(forecasts, traffic, cells, seeds))
    console.print(LEGEND.format("" if slack else SOONER) + MEASURE * (not seeds), style="italic")


def overview(forecasts: dict[str, Forecast], traffic: float, found: dict[str, list[str]], seeds: int) -> Table:
    """One block of rows per preset."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("preset", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("formula", justify="right", no_wrap=True)
    if found:
        table.add_column(f"mean of {seeds} runs (95 %)", justify="right", no_wrap=True)
    for preset, forecast in forecasts.items():
        upper = UPPER * (preset != "guaranteed" and forecast.slack == 0 and not found)
        rows = {
            f"rounds until loose{upper}": forecast.loose_after,
            f"days of {brief(traffic)} decisions": forecast.loose_after / traffic,
            "regret paid to safety": forecast.regret,
            "rounds until it pays": forecast.break_even,
            "days": forecast.break_even / traffic,
        }
        names, told = [preset, *[""] * 4], [[cell] for cell in found.get(preset, [])] or [[]] * 5
        for name, (label, value), cells in zip(names, rows.items(), told, strict=True):
            table.add_row(name, label, brief(value), *cells)
        table.add_section()
    return table


def simulated(forecast: Forecast, preset: str, seeds: int) -> Rehearsal:
    """The results of a simulation."""
    from surefoot.theory.rehearsal import rehearse

    return rehearse(forecast, preset, seeds)


def simulated_cells(found: Rehearsal, forecast: Forecast, traffic: float) -> list[str]:
    """The same rows as those of the formula, from a simulation."""
    late = f"not all within {brief(found.rounds)}"
    return [
        told(found.loose_after, 1.0, late),
        told(found.loose_after, 1.0 / traffic),
        told(found.safe_rounds, forecast.gap),
        told(found.break_even, 1.0, late),
        told(found.break_even, 1.0 / traffic),
    ]


def as_data(forecast: Forecast, traffic: float, found: Rehearsal | None) -> dict[str, Any]:
    """A forecast for machines, and the simulation of it if there was one."""
    return {
        "parameters": forecast,
        "rounds_until_loose": forecast.loose_after,
        "days_until_loose": forecast.loose_after / traffic,
        "regret_paid_to_safety": forecast.regret,
        "rounds_until_it_pays": forecast.break_even,
        "days_until_it_pays": forecast.break_even / traffic,
        "simulated": found,
    }


def told(interval: Interval | None, unit: float, otherwise: str = "") -> str:
    """A mean and its interval, for values of 0 or more; a low end below a thousandth of the high end becomes 0."""
    if interval is None:
        return otherwise
    low = interval.low if interval.low > 0.001 * interval.high else 0.0
    return f"{brief(unit * interval.value)} ({brief(unit * low)} to {brief(unit * interval.high)})"
