"""An experiment file, checked and summed up."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from surefoot.cli.machine import print_json
from surefoot.cli.refusal import refuse
from surefoot.cli.studies import read_text
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.live import Live
from surefoot.reporting.story import quoted


def print_experiment(path: Path, as_json: bool = False) -> None:
    """Check an experiment file and print what it says, or what is wrong with it."""
    read_text(path, "experiment")  # for its error, if there is no such file
    try:
        experiment = Experiment.load(path)
        Live(experiment, seed=0)  # the policy checks its options
    except ValueError as error:
        raise refuse(error) from None
    if as_json:
        print_json(experiment.to_dict())
        return
    console = Console(highlight=False)
    goal = "Minimise" if experiment.objective.less_is_better else "Maximise"
    console.print(
        f"[bold]{experiment.name}[/]: {goal} {experiment.objective.name} over {quoted(experiment.arms)}, "
        f"by {experiment.policy}, delta {experiment.delta:g}; feedback is due after {experiment.timeout:g}"
    )
    table = Table("guardrail", "limit", "baseline", "margin left", box=None, pad_edge=False)
    for guardrail in experiment.guardrails:
        side = "at most" if guardrail.less_is_better else "at least"
        baseline, margin = "measured first", f"{experiment.margin:.0%} of the limit is asked for"
        if experiment.baseline_costs is not None:
            value = experiment.baseline_costs[guardrail.name]
            baseline, margin = guardrail.shown(value), guardrail.shown(abs(guardrail.limit - value))
        table.add_row(guardrail.name, f"{side} {guardrail.shown(guardrail.limit)}", baseline, margin)
    console.print(table)
    shares = experiment.baseline if isinstance(experiment.baseline, str) else dict(experiment.baseline)
    console.print(f"The baseline, {shares}, is served while the experiment is held.")
