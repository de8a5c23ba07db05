"""The report of a live experiment, from the files of `surefoot export`: what is known without knowing the truth."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import surefoot
from surefoot.reporting.live_figures import baseline_mean, live_figures
from surefoot.reporting.pages import FIGURES, image, write_page
from surefoot.reporting.served import CHANCE, NONE, OVER, Epoch, Served, Verdict
from surefoot.reporting.style import styled, write
from surefoot.reporting.words import number, percent

if TYPE_CHECKING:
    from rich.table import Table

DASH = "\N{EN DASH}"
VERDICTS = ("guardrail", "verdict", "mean served", "limit", "epoch", "rounds", "timed out")
OBJECTIVES = ("objective", "served", "baseline's arms", "epoch", "rounds", "of the baseline's arms")
EVENTS = ("what", "after round", "in words")


def write_live_report(folder: str | Path) -> Path:
    """Write report.html and its figures into a folder that `surefoot export` wrote; return the path of the report."""
    folder = Path(folder)
    served = Served.load(folder)
    with styled():
        drawn = [
            {
                "caption": figure.caption,
                "wide": figure.wide,
                "image": image(write(figure.draw(), folder / FIGURES, f"live-{figure.name}")),
            }
            for figure in live_figures(served)
        ]
    told, newest, experiment = served.history, served.epochs[-1], served.experiment
    return write_page(
        folder,
        "live.html",
        title=experiment.name,
        version=surefoot.__version__,
        exported=told["exported"],
        facts=facts(served),
        headline=headline(served),
        good=not holding(served) and not any(one.words in (OVER, CHANCE) for one in served.verdicts),
        verdict_head=VERDICTS,
        verdicts=[cells(one) for one in served.verdicts],
        objective_head=OBJECTIVES,
        objectives=[objective(served, epoch) for epoch in reversed(served.epochs)],
        drawn=drawn,
        epoch=newest.number,
        arm_head=("arm", "rounds", "share", "timed out", *(one.name for one in experiment.quantities)),
        arms=[arm(served, newest, name) for name in experiment.arms],
        event_head=EVENTS,
        events=events(served),
        accounts=accounts(served),
        command=told["command"],
        again=f"surefoot show {shlex.quote(str(folder))}",
        versions=told["engine"]["versions"],
        experiment=json.dumps(experiment.to_dict(), indent=2),
    )


def facts(served: Served) -> str:
    """The size of an experiment in a line."""
    experiment, spent = served.experiment, sum(epoch.experiment.delta for epoch in served.epochs)
    return (
        f"{plural(served.rounds, 'round')} in {plural(len(served.epochs), 'epoch')}, {len(experiment.arms)} arms, "
        f"{plural(len(experiment.guardrails), 'guardrail')}; policy {experiment.policy}, delta {spent:g} in all epochs"
    )


def headline(served: Served) -> str:
    """The conclusion in a sentence or two."""
    if not served.rounds:
        return "No decision was settled yet."
    over = [one for one in served.verdicts if one.words in (OVER, CHANCE)]
    if not served.verdicts:
        found = "There are no guardrails."
    elif over:
        named = ", ".join(f"{one.guardrail.name} (epoch {one.epoch})" for one in over[:4])
        more = f" and {len(over) - 4} more" if len(over) > 4 else ""
        sure = "" if any(one.words == OVER for one in over) else ", by no more than chance may do"
        found = f"Over the limit{sure}: {named}{more}."
    else:
        found = "The mean of every guardrail is within its limit in every epoch."
    held = holding(served)
    if held:
        found += f" {plural(len(held), 'alarm')} led to a hold, the first after round {held[0]['after']:,}: "
        found += f"{held[0]['message']}."
    return found


def holding(served: Served) -> list[dict[str, Any]]:
    """The alarms after which the baseline was served."""
    return [alarm for alarm in served.history["alarms"] if alarm["holds"]]


def cells(verdict: Verdict) -> tuple[str, ...]:
    """A row of the table of guardrails."""
    rail = verdict.guardrail
    side = "at most" if rail.less_is_better else "at least"
    alarm = "" if verdict.alarm is None else f"; alarm after round {verdict.alarm:,}"
    return (
        rail.name, verdict.words + alarm, DASH if verdict.mean is None else rail.shown(verdict.mean),
        f"{side} {rail.shown(rail.limit)}", str(verdict.epoch), f"{verdict.rounds:,}",
        share(verdict.lost, verdict.rounds),
    )  # fmt: skip


def objective(served: Served, epoch: Epoch) -> tuple[str, ...]:
    """A row of the table of objectives."""
    n = len(epoch.seq)
    shares = epoch.shares_of_baseline(served.arms)
    known = baseline_mean(served, epoch, np.array([n - 1]))[0] if n else np.nan
    return (
        epoch.experiment.objective.name, number(float(epoch.objective.mean())) if n else DASH,
        number(float(known)) if np.isfinite(known) else "not all served", str(epoch.number), f"{n:,}",
        f"{int(np.isin(epoch.arms, list(shares)).sum()):,}",
    )  # fmt: skip


def arm(served: Served, epoch: Epoch, name: str) -> tuple[str, ...]:
    """A row of the table of arms."""
    here = epoch.arms == served.arms.index(name)
    n = int(here.sum())
    values = [epoch.objective, *epoch.costs.values()]
    means = [number(float(one[here].mean())) if n else DASH for one in values]
    return (name, f"{n:,}", share(n, len(here)), share(int(epoch.lost[here].sum()), n), *means)


def events(served: Served) -> list[tuple[str, ...]]:
    """Rows for the epochs, alarms and holds, in their order."""
    rows = []
    for one in served.history["epochs"]:
        kept = "" if one["epoch"] == 0 else "; knowledge kept" if one["kept"] else "; knowledge of costs dropped"
        rows.append((one, f"epoch {one['epoch']}", (one["reason"] or "the experiment began") + kept))
    for one in served.history["alarms"]:
        kind = f"alarm: {one['kind']}"
        rows.append((one, kind + ", hold" if one["holds"] else kind, one["message"]))
    rows += [(one, one["kind"], wording(one)) for one in served.history["acts"]]
    rows.sort(key=lambda row: row[0]["event"])
    return [(what, f"{one['after']:,}", words) for one, what, words in rows]


def wording(act: dict[str, Any]) -> str:
    """An act in words."""
    if act["kind"] == "measured":
        return "the baseline's costs are bounded well enough: learning began"
    mode = {True: "shadow mode: ", False: "live mode: "}.get(act.get("shadow"), "")  # type: ignore[arg-type]
    return mode + str(act["reason"])


def accounts(served: Served) -> str:
    """What became of decisions that are no rounds."""
    told = served.history
    observed = sum(epoch.observed for epoch in served.epochs)
    absent = told["decisions"] - told["cancelled"] - served.rounds
    return (
        f"Of {plural(told['decisions'], 'decision')}, {served.rounds:,} are settled and in this report, "
        f"{told['cancelled']:,} cancelled, and {absent:,} wait for feedback or for an earlier decision, or were "
        f"open when an epoch dropped what was known. {plural(told['late'], 'report')} came after the time-out and did "
        f"not count. {plural(observed, 'observation')} of arms chosen elsewhere {'is' if observed == 1 else 'are'} not "
        "in the means."
    )


def share(part: int, whole: int) -> str:
    """A share as text, or a dash."""
    return percent(part / whole) if whole else DASH


def plural(count: int, what: str) -> str:
    """A number of things."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def table(served: Served) -> Table:
    """The verdicts, for the terminal."""
    from rich.markup import escape
    from rich.table import Table

    made = Table(title=f"{escape(served.experiment.name)}: does what was served keep the limits?", title_justify="left")
    for column in VERDICTS:
        made.add_column(column)
    for verdict in served.verdicts:
        style = {OVER: "red", CHANCE: "yellow", NONE: "dim"}.get(verdict.words)
        made.add_row(*map(escape, cells(verdict)), style=style)
    return made
