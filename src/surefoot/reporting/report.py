"""The report: one self-contained HTML file, and the figures and their data beside it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from surefoot.reporting import data, maps, words
from surefoot.reporting.courses import costs_change
from surefoot.reporting.figures import FEW, WIDE, figures
from surefoot.reporting.pages import FIGURES, REPORT, image, slug, write_page
from surefoot.reporting.results import ScenarioResult, results
from surefoot.reporting.sheets import MEASURES, Measure, Sheet, rows, sheets
from surefoot.reporting.simplex import subject
from surefoot.reporting.standings import Standing, standings
from surefoot.reporting.story import MARKS, Line, baseline_of, below_zero, overall, quoted, story
from surefoot.reporting.style import Look, styled, write
from surefoot.rules import RuleError, hint
from surefoot.simulation.grid import text
from surefoot.simulation.run import Run

FEW_SCENARIOS = 8
"""Number of scenarios up to which each has its figures; of more, the report has maps of all, and tables."""
MOST_ROWS = 1_000
"""Number of rows of a table in the report; its data has all of them."""
PIXELS = 105
"""How large an inch of a wide figure is drawn at most."""
NARROW = 6.0
"""Width in inches up to which a figure fits on a phone."""
A_ROUND = (
    Measure("regret", "Regret a round", "regret", "how much more was lost than by the best safe strategy"),
    Measure("violation", "Violation a round", "violation", "of the guardrail violated most"),
    MEASURES[2],
)


def write_report(
    run: Run,
    folder: str | Path,
    command: str = "see provenance.json",
    *,
    figures: bool | None = None,
    only: Sequence[str] = (),
) -> Path:
    """Write report.html and the figures (SVG, PNG and their data as CSV) into a folder; return the path of the report.

    Parameters
    ----------
    run
        What to show.
    folder
        Where to write.
    command
        The command that reproduces the run.
    figures
        Whether each scenario has its own figures; by default, if there are at most eight. A grid has maps instead.
    only
        Names of scenarios, such as those of a grid: write the page of these, with their figures, and leave report.html.

    Examples
    --------
    >>> import tempfile, surefoot as sf
    >>> scenario = sf.scenarios.make("stochastic-v1", horizon=500)
    >>> run = sf.simulate(scenario, {"colb": sf.COLB}, seeds=2, workers=1)
    >>> sf.write_report(run, tempfile.mkdtemp()).name
    'report.html'
    """
    if not isinstance(run, Run):
        raise RuleError("run", "be a Run", run)
    if not isinstance(folder, str | Path):
        raise RuleError("folder", "be the name of a folder", folder)
    ids = [part["scenario"]["id"] for part in run.provenance["simulations"]]
    for name in only:
        if name not in ids:
            shown = f"{quoted(ids[:20])}{', ...' if len(ids) > 20 else ''}"
            raise RuleError("scenario", f"be one of {shown}", name, f"{name!r}{hint(name, ids)}")
    return write_results(run, results(run), Path(folder), command, figures, only)


def write_results(
    run: Run,
    scenarios: list[ScenarioResult],
    folder: Path,
    command: str,
    figures: bool | None = None,
    only: Sequence[str] = (),
) -> Path:
    """Write the report of results that have been read."""
    folder.mkdir(parents=True, exist_ok=True)
    grid = run.provenance.get("grid", {"scenarios": {}, "policies": {}})
    listed = standings(scenarios)
    look = look_of(run, listed, grid)
    with styled():
        page = Page(folder / FIGURES, look)
        if only:
            parts: dict[str, Any] = {"standings": None, "grids": [], "maps": []}
            shown = [scenario for scenario in scenarios if scenario.id in only]
            drawn = True
        else:
            grids = list(sheets(scenarios, grid))
            inside = {cell.id for _, cells, _ in grids for cell in cells}
            shown = [scenario for scenario in scenarios if scenario.id not in inside]
            drawn = len(shown) <= FEW_SCENARIOS if figures is None else figures
            parts = {
                "standings": page.standings(listed, len(scenarios)) if len(scenarios) > 1 and len(listed) > 1 else None,
                "grids": [page.grid(*one) for one in grids],
                "maps": page.overview(shown, listed) if len(shown) > FEW_SCENARIOS else [],
            }
        sections = [page.scenario(scenario, drawn) for scenario in shown]
    return write_page(
        folder,
        "report.html",
        page=f"report-{slug(' '.join(only))}.html" if only else REPORT,
        title=run.provenance.get("title", "Surefoot run"),
        complete=run.complete,
        sections=sections,
        drawn=drawn,
        hint=shlex.join(["surefoot", "show", str(folder), scenarios[0].id])
        if scenarios and not (drawn and shown)
        else "",
        **parts,
        verdict=headline(shown if only else scenarios, listed),
        baseline=baseline(shown[0]) if len(shown) == 1 and (only or len(scenarios) == 1) else "",
        keys={name: look.key(name) for name in look.colour},
        marks=MARKS,
        command=command,
        study=run.provenance.get("study", {}).get("text"),
        parts=run.provenance["simulations"],
    )


def headline(scenarios: list[ScenarioResult], listed: list[Standing]) -> list[Line]:
    """The verdict at the top: on the only scenario, or on all of them together."""
    if len(scenarios) == 1:
        return story(scenarios[0])
    here = {policy.name for scenario in scenarios for policy in scenario.policies}
    whole = len({one.scenarios for one in listed} | {len(scenarios)}) == 1
    return overall(scenarios, [one for one in listed if one.policy in here] if whole else standings(scenarios))


def baseline(scenario: ScenarioResult) -> str:
    """What the baseline is, and whether guarantees apply."""
    played = baseline_of(scenario)
    safe = f"The baseline plays {played}, which is known to be safe." if played else ""
    moved = "Mean costs change in this scenario: the guarantees of policies are for mean costs that do not."
    return f"{safe} {moved if costs_change(scenario) else ''}".strip()


def look_of(run: Run, listed: list[Standing], grid: dict[str, Any]) -> Look:
    """The look of all policies: those of one entry of a grid look alike, and of many the best have the colours."""
    names = [name for part in run.provenance["simulations"] for name in part["policies"]]
    family = {name: grid["policies"].get(name, {"entry": name})["entry"] for name in dict.fromkeys(names)}
    return Look(list(family.values()), [family[one.policy] for one in listed], family)


class Page:
    """The parts of a report; figures and data are written into a folder on the way."""

    def __init__(self, folder: Path, look: Look) -> None:
        self._folder, self._look = folder, look

    def figure(
        self, name: str, draw: Callable[[], Figure], caption: str, rows: data.Rows, wide: bool
    ) -> dict[str, Any]:
        """Draw a figure and write its data; return what the template shows."""
        drawn = draw()
        return {
            "caption": caption,
            "image": image(write(drawn, self._folder, name)),
            "wide": wide and drawn.get_figwidth() > NARROW,
            "width": round(PIXELS * drawn.get_figwidth()) if wide else None,
            "data": data.written(rows, self._folder / f"{name}.csv"),
            "name": f"{name}.csv",
        }

    def standings(self, listed: list[Standing], scenarios: int) -> dict[str, Any]:
        """The table of the standings."""
        return {
            "columns": words.STANDING,
            "rows": [words.standing(one, scenarios) for one in listed[:MOST_ROWS]],
            "unsafe": [place for place, one in enumerate(listed[:MOST_ROWS]) if not one.safe],
            "about": words.STANDINGS,
            "data": data.written([flat(one) for one in listed], self._folder / "standings.csv"),
        }

    def overview(self, scenarios: list[ScenarioResult], listed: list[Standing]) -> list[dict[str, Any]]:
        """Maps of policies by scenarios."""
        names, ids = [one.policy for one in listed], [scenario.id for scenario in scenarios]
        made = []
        for measure in A_ROUND if any(scenario.guardrails for scenario in scenarios) else A_ROUND[:1]:
            values, framed, table = np.full((len(names), len(ids)), np.nan), [], []
            for column, scenario in enumerate(scenarios):
                for policy in scenario.policies:
                    row = names.index(policy.name)
                    scale = 1.0 if measure.name == "unsafe" else 1.0 / policy.final["round"]
                    value, low, high = (scale * end for end in measure.of(policy))
                    values[row, column] = value
                    if measure.name == "unsafe" and low > scenario.problem.delta:
                        framed.append((row, column))
                    table.append(
                        {"scenario": scenario.id, "policy": policy.name, "value": value, "low": low, "high": high}
                    )
            caption = (
                f"{measure.title}: {measure.caption}. Mean over the seeds; policies in the order of the standings."
            )
            draw = partial(maps.table_map, names, ids, values, framed, measure)
            made.append(self.figure(f"scenarios-{measure.name}", draw, caption, table, True))
        return made

    def grid(self, name: str, cells: list[ScenarioResult], listed: list[Sheet]) -> dict[str, Any]:
        """An entry of the study that varies: its maps, and a table of all cells."""
        about = [self.sheet(sheet) for sheet in listed]
        return {
            "id": name,
            "slug": slug(name),
            "about": cells[0].about if len({cell.about for cell in cells}) == 1 else "",
            "facts": f"{words.counted(len(cells), 'combination')}: {', '.join(extent(axis) for axis in listed[0].axes)}"
            if listed
            else "",
            "sheets": about,
        }

    def sheet(self, sheet: Sheet) -> dict[str, Any]:
        """Figures and table of some policies over the same axes."""
        drawn, quiet = [], []
        over = (
            " and ".join(axis.name for axis in sheet.axes)
            if len(sheet.axes) < 3
            else ", ".join(axis.name for axis in sheet.axes)
        )
        for measure in MEASURES if sheet.guarded else MEASURES[:1]:
            table = maps.data(sheet, measure)
            if measure.name != "regret" and not any(row["value"] for row in table):
                quiet.append(measure.title.lower())
                continue
            caption = (
                f"{measure.title} over {over}: {measure.caption}. Mean over the seeds, at the end{maps.note(sheet)}."
            )
            draw = partial(maps.draw, sheet, measure, self._look)
            drawn.append(self.figure(f"{slug(sheet.title)}-{measure.name}", draw, caption, table, len(sheet.axes) > 1))
        full = rows(
            sheet,
            lambda policy: {
                "seeds": policy.final["seeds"],
                **{column: policy.final[column] for measure in MEASURES for column in columns_of(measure)},
            },
        )
        return {
            "title": sheet.title,
            "figures": drawn,
            "quiet": f"No run violated a guardrail in any of these combinations: {' and '.join(quiet)} are 0."
            if quiet
            else "",
            "columns": ["policy", *(axis.name for axis in sheet.axes), "regret", "violation", "unsafe runs"],
            "rows": [cell_row(sheet, row) for row in full[:MOST_ROWS]],
            "left_out": max(0, len(full) - MOST_ROWS),
            "data": data.written(full, self._folder / f"{slug(sheet.title)}.csv"),
            "name": f"{slug(sheet.title)}.csv",
        }

    def scenario(self, scenario: ScenarioResult, drawn: bool) -> dict[str, Any]:
        """What the report says of a scenario."""
        problem, name = scenario.problem, slug(scenario.id)
        guardrails = zip(scenario.guardrails, problem.thresholds, scenario.mean_costs, strict=True)
        chosen = subject(scenario) if drawn else None
        return {
            "id": scenario.id,
            "slug": name,
            "about": scenario.about,
            "facts": facts(scenario),
            "arms": scenario.arms,
            "guardrails": [
                {"name": guardrail, "limit": f"{limit:g}", "costs": [f"{cost:.3g}" for cost in costs]}
                for guardrail, limit, costs in guardrails
            ],
            "safe": []
            if problem.safe is None
            else [f"{share:.2g}" if share else "" for share in problem.safe.strategy],
            "story": story(scenario),
            "baseline": baseline(scenario),
            "below_zero": below_zero(scenario),
            "costs_change": costs_change(scenario),
            **results_table(scenario),
            "described": [(policy.name, policy.described) for policy in scenario.policies],
            "figures": [
                self.figure(
                    f"{name}-{one.name}",
                    one.draw,
                    one.caption,
                    data.of_figure(one.name, scenario, chosen),
                    one.name in WIDE or len(scenario.policies) > FEW,
                )
                for one in (figures(scenario, self._look) if drawn else [])
            ],
        }


def results_table(scenario: ScenarioResult) -> dict[str, Any]:
    """The table of results, without columns that are empty: a gain needs a baseline, and costs need guardrails."""
    rows = [words.cells(policy, scenario) for policy in scenario.policies]
    kept = [i for i in range(len(words.COLUMNS)) if any(row[i] for row in rows)]
    return {"columns": [words.COLUMNS[i] for i in kept], "rows": [[row[i] for i in kept] for row in rows]}


def flat(one: Standing) -> dict[str, Any]:
    """A standing as a row of its data."""
    low, high = one.ranks or ("", "")
    made: dict[str, Any] = {
        "rank": one.rank,
        "rank_low": low,
        "rank_high": high,
        "policy": one.policy,
        "kind": one.kind,
        "safe": one.safe,
    }
    made |= {"unsafe_runs": one.unsafe_runs, "runs": one.runs, "scenarios": one.scenarios}
    for name in ("unsafe", "regret", "violation"):
        interval = getattr(one, name)
        made |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return {**made, "microseconds": one.microseconds}


def columns_of(measure: Measure) -> tuple[str, str, str]:
    """The columns of a summary that a measure shows."""
    return measure.column, f"{measure.column}_low", f"{measure.column}_high"


def cell_row(sheet: Sheet, row: dict[str, Any]) -> list[str]:
    """A row of the table of a grid."""
    at = [text(row[axis.name]) for axis in sheet.axes]
    regret, violation = (words.mean_of(row, column) for column in ("regret", "violation"))
    unsafe = round(row["violating_share"] * row["seeds"])
    return [row["policy"], *at, regret, violation, f"{unsafe} of {row['seeds']}"]


def extent(axis: Any) -> str:
    """The values of an axis in a line."""
    named = axis.labels
    return f"{axis.name} {', '.join(named) if len(named) <= 8 else f'{named[0]} to {named[-1]} ({len(named)} values)'}"


def facts(scenario: ScenarioResult) -> str:
    """The size of a scenario in a line."""
    problem = scenario.problem
    seeds = len(scenario.provenance["seeds"])
    margin = "" if problem.safe is None or not scenario.guardrails else f", baseline with margin {problem.margin:.3g}"
    count = len(scenario.guardrails)
    rails = "no guardrails" if not count else f"{count} guardrail{'s' if count > 1 else ''}"
    return (
        f"{problem.n_arms} arms, {rails}, {scenario.rounds[-1]:,} rounds, delta {problem.delta:g}{margin}; "
        f"{seeds} seed{'s' if seeds > 1 else ''}"
    )
