"""The report: one self-contained HTML file, and the figures beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.reporting import words
from surefoot.reporting.figures import FEW, WIDE, figures
from surefoot.reporting.pages import FIGURES, image, slug, write_page
from surefoot.reporting.results import ScenarioResult, results
from surefoot.reporting.style import Look, styled, write
from surefoot.rules import RuleError
from surefoot.simulation.run import Run


def write_report(run: Run, folder: str | Path, command: str = "see provenance.json") -> Path:
    """Write report.html and the figures (SVG and PNG) into a folder; return the path of the report.

    `command` is the command that reproduces the run.

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
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    scenarios = [scenario for scenario in results(run) if scenario.policies]
    look = Look([name for part in run.provenance["simulations"] for name in part["policies"]])
    with styled():
        sections = [section(scenario, look, folder / FIGURES) for scenario in scenarios]
    return write_page(
        folder,
        "report.html",
        title=run.provenance.get("title", "Surefoot run"),
        complete=run.complete,
        sections=sections,
        columns=words.COLUMNS,
        colours=look.colour,
        command=command,
        study=run.provenance.get("study", {}).get("text"),
        parts=run.provenance["simulations"],
    )


def section(scenario: ScenarioResult, look: Look, folder: Path) -> dict[str, Any]:
    """What the report says of a scenario."""
    problem, name = scenario.problem, slug(scenario.id)
    guardrails = zip(scenario.guardrails, problem.thresholds, scenario.mean_costs, strict=True)
    drawn = figures(scenario, look)
    images = [image(write(figure.draw(), folder, f"{name}-{figure.name}")) for figure in drawn]
    return {
        "id": scenario.id,
        "slug": name,
        "about": scenario.about,
        "facts": facts(scenario),
        "arms": scenario.arms,
        "guardrails": [
            {"name": guardrail, "threshold": f"{limit:g}", "costs": [f"{cost:.3g}" for cost in costs]}
            for guardrail, limit, costs in guardrails
        ],
        "safe": [] if problem.safe is None else [f"{share:.2g}" if share else "" for share in problem.safe.strategy],
        "rows": [words.cells(policy, scenario) for policy in scenario.policies],
        "described": [(policy.name, policy.described) for policy in scenario.policies],
        "figures": [
            {"caption": figure.caption, "image": at, "wide": figure.name in WIDE or len(scenario.policies) > FEW}
            for figure, at in zip(drawn, images, strict=True)
        ],
    }


def facts(scenario: ScenarioResult) -> str:
    """The size of a scenario in a line."""
    problem = scenario.problem
    seeds = len(scenario.provenance["seeds"])
    margin = (
        "" if problem.safe is None or not scenario.guardrails else f", safe strategy with margin {problem.margin:.3g}"
    )
    count = len(scenario.guardrails)
    rails = "no guardrails" if not count else f"{count} guardrail{'s' if count > 1 else ''}"
    return (
        f"{problem.n_arms} arms, {rails}, {scenario.rounds[-1]:,} rounds, delta {problem.delta:g}{margin}; "
        f"{seeds} seed{'s' if seeds > 1 else ''}"
    )
