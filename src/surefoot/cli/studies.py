"""Running studies and showing their results."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from surefoot.cli.machine import print_json
from surefoot.cli.refusal import refuse
from surefoot.environments.scenarios import REHEARSALS, SCENARIOS
from surefoot.extras import MissingExtra
from surefoot.policies import REGISTRY
from surefoot.reporting import story, words
from surefoot.reporting.live import facts, headline, table, write_live_report
from surefoot.reporting.report import FEW_SCENARIOS, flat, write_report, write_results
from surefoot.reporting.results import PolicyResult, ScenarioResult, results
from surefoot.reporting.served import Served, is_export
from surefoot.reporting.standings import standings
from surefoot.rules import RuleError
from surefoot.simulation.estimate import estimate
from surefoot.simulation.run import Run
from surefoot.simulation.simulate import Options
from surefoot.simulation.study import EXAMPLE, Study, StudyError

DEMO = """\
title = "Routing requests among language models"
seeds = 10

[[scenarios]]
id = "llm-routing-v1"

[[policies]]
policy = "solb"
name = "SOLB"

[[policies]]
policy = "colb"
name = "COLB"

[[policies]]
policy = "log-barrier"
name = "unguarded"
learning_rate = 0.05
"""
ABOUT = (
    "Route requests among five language models, and answer as well as possible. Guardrails, on average over requests: "
    "at most 0.40 cents of spend, 20 % that miss the latency objective, 20 % refused."
)
"""What the demo is, in two lines; the report says more."""

PRESETS = ("solb", "colb")
"""Policies that enter the league twice: with default options, and with the preset "paper"."""


def league_study(seeds: int, horizon: int) -> str:
    """The study of every policy in every built-in scenario that keeps what policies assume."""
    lines = ['title = "The league"', f"seeds = {seeds}", f"horizon = {horizon}", ""]
    lines += [f'[[scenarios]]\nid = "{id}"\n' for id in SCENARIOS if id not in REHEARSALS]
    for policy in REGISTRY:
        rate = '\nlearning_rate = "practical"' if policy == "log-barrier" else ""  # the theorem's rate is too small
        lines.append(f'[[policies]]\npolicy = "{policy}"{rate}\n')
        if policy in PRESETS:
            lines.append(f'[[policies]]\npolicy = "{policy}"\nname = "{policy}, paper"\npreset = "paper"\n')
    return "\n".join(lines)


def read_text(path: Path, what: str = "study") -> str:
    """The text of a file that describes a study or an experiment."""
    rule = "be a file that exists"
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        pass
    except OSError as error:
        rule = f"be a file that can be read ({(error.strerror or 'it cannot').lower()})"
    except UnicodeDecodeError:
        rule = "be a text file in UTF-8"
    raise refuse(RuleError(what, rule, path, str(path)))


def carry_out(
    text: str, folder: Path, name: str, out: Path, workers: int | None, command: str, as_story: bool = False,
    figures: bool | None = None, as_json: bool = False, **engine: Any,
) -> None:  # fmt: skip
    """Run a study, or its missing part, and write the report.

    `figures` says whether each scenario has its own; `engine` are options of `Study.run`.
    """
    console = Console()
    try:
        Options.checked(workers, None, **engine)
        study = Study.parse(text, folder, name, earlier_run(out, name, text, folder))
    except (RuleError, StudyError) as error:
        raise refuse(error) from None
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(RuleError("out", "be a folder that can be made", out, f"{out}: {error}")) from None
    if as_story:
        console.print(ABOUT + "\n", width=min(100, console.width), highlight=False)
    try:
        run = study.run(out, workers, **engine)
    except (RuleError, MissingExtra, ConnectionError) as error:
        raise refuse(error) from None
    if not run.complete:
        missing = sum(part["missing_episodes"] for part in run.provenance["simulations"])
        told = Console(stderr=as_json)
        told.print(f"Stopped with {missing} runs missing. To go on: {command}", soft_wrap=True, highlight=False)
        raise typer.Exit(130)
    scenarios = results(run)
    if as_json:
        report = write_results(run, scenarios, out, command, figures)
        print_json({**run_data(run, scenarios), "report": report})
        return
    if as_story:
        console.print(words.brief_table(scenarios[0]))
        console.print(words.verdict_grid(scenarios[0], console.width), highlight=False)
    else:
        show_tables(scenarios, console)
    report = write_results(run, scenarios, out, command, figures)
    console.print(f"Report: {report}", soft_wrap=True, highlight=False)


def print_estimate(
    text: str, folder: Path, name: str, out: Path, workers: int | None, as_json: bool = False, **engine: Any
) -> None:
    """Say how large a study is and how long it takes on threads, from a second or two of its episodes."""
    earlier = earlier_run(out, name, text, folder)
    try:
        wanted = Options.checked(workers, None, **engine).engine
        study = Study.parse(text, folder, name)
    except (RuleError, StudyError) as error:
        raise refuse(error) from None
    parts = [] if earlier is None else earlier.provenance["simulations"]
    there = sum(len(part["policies"]) * len(part["seeds"]) - part["missing_episodes"] for part in parts)
    found = estimate(study, workers)
    if wanted != "threads":
        note = f"The forecast of time is for threads of this process. What --engine {wanted} takes is not forecast."
        Console(stderr=True).print(note, soft_wrap=True, highlight=False)
    if as_json:
        told = {"title": study.title, **found._asdict(), "seconds": found.seconds, "engine": "threads"}
        print_json({**told, "episodes_there": there})
        return
    for line in words.forecast(study.title, found):
        Console().print(line, soft_wrap=True, highlight=False, markup=False)
    if earlier is not None:
        again = "those that have not changed are not run again"
        Console().print(f"{out} already holds {there:,} runs: {again}.", soft_wrap=True, highlight=False)


def earlier_run(out: Path, name: str, text: str, folder: Path) -> Run | None:
    """The run that is already in the folder, if it belongs to the same study."""
    if not Run.is_in(out):
        return None
    try:
        earlier = Run.load(out)
    except ValueError as error:
        raise refuse(error, "; choose another folder with --out") from None
    other = earlier.provenance.get("study", {})
    here = str((folder / name).resolve())
    if other.get("name") != name or (other.get("path") != here and other.get("text") != text):
        whose = other.get("path", "another run")
        rule = "be a folder of its own for each study"
        raise refuse(RuleError("out", rule, out, f"{out} with the results of {whose}"))
    return earlier


def show_tables(scenarios: list[ScenarioResult], console: Console) -> None:
    """The results of each scenario; of many, the standings."""
    if len(scenarios) > FEW_SCENARIOS:
        console.print(words.standings_table(standings(scenarios), len(scenarios)))
        return
    for scenario in scenarios:
        console.print(words.table(scenario))
    if len(scenarios) == 1:
        console.print(words.verdict_grid(scenarios[0], console.width), highlight=False)


def run_data(run: Run, scenarios: list[ScenarioResult]) -> dict[str, Any]:
    """The results of a run for machines: how it was made, a row for each policy in each scenario, and the standings."""
    parts = run.provenance["simulations"]
    return {
        "title": run.provenance.get("title", ""),
        "complete": run.complete,
        "simulations": [
            {
                "scenario": part["scenario"]["id"],
                "policies": list(part["policies"]),
                "seeds": len(part["seeds"]),
                "rounds": part["checkpoints"][-1],
                **{key: part[key] for key in ("missing_episodes", "elapsed_seconds", "finished")},
            }
            for part in parts
        ],
        "results": [result_data(policy, scenario) for scenario in scenarios for policy in scenario.policies],
        "standings": [flat(one) for one in standings(scenarios)],
        "versions": parts[0]["versions"] if parts else {},
    }


def result_data(policy: PolicyResult, scenario: ScenarioResult) -> dict[str, Any]:
    """A policy in a scenario: the verdict, average costs beside their limits, the gain, and the summary."""
    low, high = story.policy_costs(policy, scenario).average if scenario.guardrails else ((), ())
    limits = scenario.problem.thresholds
    costs = [
        {"guardrail": name, "limit": limits[i], "low": low[i], "high": high[i]}
        for i, name in enumerate(scenario.guardrails)
    ]
    return {
        **{"kind": policy.kind, "guardrails": story.how(policy, scenario)},
        "verdict": story.verdict(policy, scenario).replace(story.GLUE, " "),
        **{"average_costs": costs, "baseline_loss_a_round": policy.baseline, "gain_a_round": policy.gain},
        **policy.final,
    }


def show_scenarios(folder: Path, names: list[str], as_json: bool = False) -> None:
    """The results of some scenarios of a study, or cells of its grid; draws their figures."""
    console = Console()
    try:
        run = Run.load(folder)
        again = shlex.join(["surefoot", "show", str(folder), *names])
        report = write_report(run, folder, again, only=names)
    except ValueError as error:
        raise refuse(error) from None
    shown = [scenario for scenario in results(run) if scenario.id in names]
    if as_json:
        print_json({**run_data(run, shown), "report": report})
        return
    for scenario in shown:
        console.print(words.table(scenario))
    console.print(f"Report: {report}", soft_wrap=True, highlight=False)


def show_folder(folder: Path, scenarios: list[str], as_json: bool = False) -> None:
    """The results in a folder: of a study, or of some of its scenarios, or an export of a live experiment."""
    if scenarios:
        show_scenarios(folder, scenarios, as_json)
    elif is_export(folder) and not Run.is_in(folder):
        show_export(folder, as_json)
    else:
        show_run(folder, as_json)


def show_export(folder: Path, as_json: bool = False) -> None:
    """What an exported experiment served against its limits; draws its report again, without the database."""
    console = Console()
    try:
        served = Served.load(folder)
        report = write_live_report(folder)
    except ValueError as error:
        raise refuse(error) from None
    except OSError as error:
        raise refuse(RuleError("folder", "be a folder that can be written to", folder, f"{folder}: {error}")) from None
    if as_json:
        verdicts = [
            {**one._asdict(), "guardrail": one.guardrail.name, "limit": one.guardrail.limit} for one in served.verdicts
        ]
        told = {"experiment": served.experiment.name, "facts": facts(served), "headline": headline(served)}
        print_json({**told, "verdicts": verdicts, "report": report})
        return
    console.print(facts(served), highlight=False, markup=False, soft_wrap=True)
    console.print(table(served))
    console.print(headline(served), highlight=False, markup=False, soft_wrap=True)
    console.print(f"Report: {report}", soft_wrap=True, highlight=False)


def show_run(folder: Path, as_json: bool = False) -> None:
    """The results of a study, and how they were made."""
    console = Console()
    try:
        run = Run.load(folder)
    except ValueError as error:
        raise refuse(error) from None
    if as_json:
        print_json(run_data(run, results(run)))
        return
    console.print(run.provenance.get("title", ""), style="bold", highlight=False, markup=False)
    parts = run.provenance["simulations"]
    if len(parts) > FEW_SCENARIOS:
        missing, seconds = (sum(part[key] for part in parts) for key in ("missing_episodes", "elapsed_seconds"))
        state = "complete" if not missing else f"{missing} runs missing"
        console.print(
            f"{len(parts):,} scenarios; {state}, {seconds:.1f} s, finished {parts[-1]['finished']}", highlight=False
        )
    for part in parts if len(parts) <= FEW_SCENARIOS else []:
        id, seeds, missing = part["scenario"]["id"], len(part["seeds"]), part["missing_episodes"]
        state = "complete" if not missing else f"{missing} runs missing"
        played = story.quoted(list(part["policies"]))
        console.print(
            f"{id}: {played}; {seeds} seeds, {part['checkpoints'][-1]:,} rounds; {state}, "
            f"{part['elapsed_seconds']:.1f} s, finished {part['finished']}",
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
    show_tables(results(run), console)
    versions = parts[0]["versions"]
    console.print(", ".join(f"{name} {version}" for name, version in versions.items()), style="dim", highlight=False)


def write_example(path: Path) -> None:
    """Write the example of a study file; never overwrite a file."""
    if path.exists():
        raise refuse(RuleError("path", "not exist yet", path, str(path)))
    if not path.parent.is_dir():
        raise refuse(RuleError("path", "be a file in a folder that exists", path, str(path)))
    try:
        path.write_text(EXAMPLE.format(name=path), encoding="utf-8")
    except OSError as error:
        raise refuse(RuleError("path", "be writable", path, f"{path}: {error}")) from None
    Console().print(f"Wrote {path}. Run it: surefoot run {path}", soft_wrap=True, highlight=False)
