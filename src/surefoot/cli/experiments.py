"""An experiment file, checked and summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from surefoot.cli.machine import print_json
from surefoot.cli.refusal import refuse
from surefoot.cli.studies import read_text
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.live import Live
from surefoot.reporting.story import listed, probable, quoted


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
        f"by {experiment.policy}, delta {experiment.delta:g}; feedback is due "
        f"{experiment.timeout:g} time units after the decision (seconds, if you pass seconds)"
    )
    table = Table("guardrail", "limit", "baseline", "margin left", box=None, pad_edge=False)
    for guardrail in experiment.guardrails:
        side = "at most" if guardrail.less_is_better else "at least"
        baseline, margin = "measured first", f"{experiment.margin * 100:.0f} % of the allowed room"
        if experiment.baseline_costs is not None:
            value = experiment.baseline_costs[guardrail.name]
            baseline, margin = guardrail.shown(value), guardrail.shown(abs(guardrail.limit - value))
        table.add_row(guardrail.name, f"{side} {guardrail.shown(guardrail.limit)}", baseline, margin)
    console.print(table)
    console.print(promise(experiment))
    shares = experiment.baseline if isinstance(experiment.baseline, str) else dict(experiment.baseline)
    console.print(f"The baseline, {shares}, is served while the experiment is held.")


PROVED = (None, "betting", "hoeffding", "paper")
"""Confidence bounds for which the promise is proved however feedback gets lost; None: those of the preset."""
AS_STATED = "the baseline is as safe as stated"
CONDITIONS = (
    "the mean of each guardrail under each arm does not change",
    "no value is outside low and high",
    "you serve the arm that was drawn and never ask again to get a different one",
    "nobody cancels decisions because of their arm or outcome",
    "results from elsewhere have the same means and were not selected",
    "there is one log, of which nobody puts back an old copy",
)
"""What the promise needs; docs/live.md says more."""
UNION = "no arm has more results than the horizon"
NEEDED: Mapping[Any, Sequence[str]] = {
    "paper": [UNION],
    "hoeffding": [UNION],
    "bernstein": [UNION, "the costs of an arm are independent and have one distribution"],
}
"""What it needs in addition with some confidence bounds; docs/confidence.md says more."""


def promise(experiment: Experiment) -> str:
    """What is promised about the guardrails, and under which conditions, in a sentence."""
    count = len(experiment.guardrails)
    limits = {1: "the limit", 2: "both limits"}.get(count, f"all {count} limits")
    if not count:
        return "There are no guardrails, and nothing is promised about them."
    if not experiment.hard:
        proof = ' (proved for its preset "paper" and immediate feedback)' if experiment.policy == "colb" else ""
        return (
            f"{experiment.policy} promises only a small total violation{proof}: decisions may exceed a limit a little."
        )
    given = experiment.options.get("confidence")
    bound = given.get("name") if isinstance(given, Mapping) else getattr(given, "name", given)
    stated = [] if experiment.measures_baseline else [AS_STATED]
    needed = [*stated, *CONDITIONS, *NEEDED.get(bound, ()), *([] if bound in PROVED else ["no feedback is lost"])]
    measured = ", after the baseline is measured," if experiment.measures_baseline else ""
    alone = "" if experiment.policy == "solb" else "; live, this is proved for solb alone"
    return (
        f"With probability at least {probable(experiment.delta)} every decision of an epoch{measured} is drawn "
        f"from a strategy whose mean keeps {limits}, if {listed(needed)} (docs/live.md{alone})."
    )
