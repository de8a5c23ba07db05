"""Results in words, and as tables on the terminal."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surefoot.analysis.statistics import Interval
from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.reporting.standings import Standing
from surefoot.reporting.story import (
    BROKEN,
    CLOSE,
    GLUE,
    KEPT,
    MARKS,
    averages,
    baseline_of,
    how,
    percents,
    policy_costs,
    span,
    story,
    verdict,
)
from surefoot.reporting.story import percent as percent
from surefoot.simulation.estimate import Estimate

if TYPE_CHECKING:
    from rich.table import Table


def with_interval(policy: PolicyResult, column: str) -> str:
    """A mean over the seeds, with half the width of its 95 % interval."""
    return mean_of(policy.final, column)


def mean_of(final: Mapping[str, Any], column: str) -> str:
    """A mean of a summary, with half the width of its 95 % interval."""
    value, high = final[column], final[f"{column}_high"]
    if high is None or math.isnan(high):
        return number(value)
    half = high - value
    return f"{number(value)} ± {half:,.0f}" if half >= 1 and abs(value) >= 100 else f"{number(value)} ± {number(half)}"


def number(value: float) -> str:
    """A number with a readable number of digits."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def safe_share(policy: PolicyResult) -> str:
    """Runs without any violation, and the exact interval of their share."""
    final = policy.final
    low, high = 1 - final["violating_share_high"], 1 - final["violating_share_low"]
    return (
        f"{final['seeds'] - final['violating_runs']} of {final['seeds']} ({100 * low:.0f}\N{EN DASH}{percents(high)})"
    )


STANDING = (
    "rank",
    "policy",
    "promises",
    "unsafe runs",
    "regret a round",
    "violation a round",
    "\N{MICRO SIGN}s a round",
)


def standing(one: Standing, scenarios: int) -> tuple[str, ...]:
    """A row of the standings."""
    rank = "\N{EN DASH}" if one.rank is None else str(one.rank)
    span = "" if one.ranks is None or one.ranks[0] == one.ranks[1] else f" ({one.ranks[0]} to {one.ranks[1]})"
    played = "" if one.scenarios == scenarios else f" (in {one.scenarios} of {scenarios})"
    share = (
        f"{one.unsafe_runs} of {one.runs} ({percents(one.unsafe.low, 1)} to {percents(one.unsafe.high, 1)})"
        if one.runs
        else ""
    )
    return (
        rank + span,
        one.policy + played,
        {"hard": "every round", "soft": "in total", "none": "nothing"}.get(one.kind, one.kind),
        share,
        spanned(one.regret),
        spanned(one.violation),
        "" if one.microseconds is None else f"{one.microseconds:.2f}",
    )


def spanned(interval: Interval) -> str:
    """A mean with half the width of its interval, to three places."""
    half = "" if math.isnan(interval.high) else f" ± {interval.high - interval.value:.3f}"
    return f"{interval.value:z.3f}{half}"  # z: never -0.000


def standings_table(listed: list[Standing], scenarios: int) -> Table:
    """The standings, for the terminal; the report says more."""
    from rich.markup import escape
    from rich.table import Table

    title = f"Standings over {counted(scenarios, 'scenario')}; regret and violation a round"
    made = Table(title=title, title_justify="left", box=None)
    for name in ("rank", "policy", "unsafe runs", "regret", "violation", "\N{MICRO SIGN}s a round"):
        made.add_column(
            name, justify="left" if name in ("rank", "policy") else "right", no_wrap=name[0] != "\N{MICRO SIGN}"
        )
    for before, one in zip([None, *listed], listed, strict=False):
        if before is not None and before.safe and not one.safe:
            made.add_row("", "not safe:", style="dim")
        rank, policy, _, _, regret, _, time = standing(one, scenarios)
        unsafe = f"{one.unsafe_runs} of {one.runs}" if one.runs else ""
        made.add_row(rank, escape(policy), unsafe, regret, f"{one.violation.value:.3f}", time)
    return made


STANDINGS = (
    "Safe policies come first, by regret a round. Below the line are those with more unsafe runs than delta allows, by "
    "violation a round: more in one scenario or in all together, by tests with 5 % false alarms a policy. A run is "
    "unsafe if it violates a guardrail in any round. Means over scenarios, with 95 % intervals over the seeds. "
    "The test of all together takes runs as independent, though scenarios share seeds. "
    "A policy without a rank knows the true costs, or did not play everywhere."
)
"""How to read the standings."""


def forecast(title: str, study: Estimate) -> list[str]:
    """The size of a study and how long it takes, in a few lines."""
    threads = f"{study.workers} thread{'s' if study.workers > 1 else ''}"
    return [
        f"{title}: {counted(study.scenarios, 'scenario')}, {counted(study.policies, 'policy', 'policies')}, "
        f"{counted(study.cells, 'pair')} of them, {counted(study.episodes, 'run')}, {counted(study.rounds, 'round')}.",
        f"Time on {threads}: about {duration(study.seconds)}, "
        f"between {duration(study.low)} and {duration(study.high)}. "
        f"Measured on {counted(study.measured_episodes, 'run')} of {counted(study.measured_cells, 'pair')} "
        f"in {study.measured_seconds:.1f} s; other programs on this machine change it.",
        f"Table: {counted(study.rows, 'row')}, {size(study.memory)} in memory, about {size(study.disk)} on disk.",
    ]


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A time in the unit that reads best."""
    for unit, length in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}" if seconds < 100 * length else f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{max(seconds, 0.1):.1f} s"


def size(count: float) -> str:
    """A number of bytes."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{max(count / 1e3, 1):.3g} kB"


COLUMNS = (
    "policy",
    "guardrails",
    "average cost / limit",
    "rounds in violation",
    "loss a round",
    "gain over the baseline",
    "regret",
    "violation",
    "safe runs",
    "\N{MICRO SIGN}s a round",
)


def cells(policy: PolicyResult, scenario: ScenarioResult) -> tuple[str, ...]:
    """A row of the table of results."""
    return (
        policy.name,
        verdict(policy, scenario),
        "\n".join(averages(policy, scenario)),
        number(policy.final["rounds_in_violation"]),
        f"{policy.final['loss'] / policy.final['round']:.3f}",
        gain(policy),
        with_interval(policy, "regret"),
        with_interval(policy, "violation"),
        safe_share(policy),
        "" if policy.microseconds is None else f"{policy.microseconds:.2f}",
    )


def gain(policy: PolicyResult) -> str:
    """How much less than the baseline was lost, as a share of the baseline's loss, with its 95 % interval."""
    if policy.gain is None or not policy.baseline:
        return ""
    value, high = policy.gain.value / policy.baseline, policy.gain.high / policy.baseline
    return percents(value, 1) if math.isnan(high) else f"{percents(value, 1)} ± {percents(high - value, 1)}"


def gain_share(policy: PolicyResult) -> str:
    """The same as a share alone."""
    if policy.gain is None or not policy.baseline:
        return ""
    return percents(policy.gain.value / policy.baseline)


def table(scenario: ScenarioResult) -> Table:
    """The results of a scenario, for the terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    title = f"{escape(scenario.id)}: who kept the guardrails?"
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    columns = ["policy", "guardrails", "average / limit", "gain", "regret", "violation"]
    shown = [
        (policy.name, verdict(policy, scenario), in_two("".join(averages(policy, scenario, 1))), gain_share(policy),
         number(policy.final["regret"]), number(policy.final["violation"]))
        for policy in scenario.policies
    ]  # fmt: skip
    kept = [i for i in range(len(columns)) if i < 2 or any(row[i] for row in shown)]  # without a baseline, no gain
    for i in kept:
        made.add_column(columns[i], justify="left" if i < 3 else "right", overflow="fold", no_wrap=i > 2)
    for row in shown:
        made.add_row(*(escape(row[i]) for i in kept))
    return made


HOW = {KEPT: "kept", CLOSE: "nearly kept", BROKEN: "broken"}


def brief_table(scenario: ScenarioResult) -> Table:
    """The average cost of each guardrail and the gain, in a line for each policy; a verdict in words says the rest."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    limits = scenario.problem.thresholds
    title = f"{escape(scenario.id)}: who kept the guardrails?"
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("policy", no_wrap=True)
    made.add_column("guardrails", no_wrap=True)
    for name, limit in zip(scenario.guardrails, limits, strict=True):
        made.add_column(f"{escape(name)}\n\N{LESS-THAN OR EQUAL TO} {limit:g}", justify="right")
    made.add_column("gain over\nthe baseline", justify="right")
    for policy in scenario.policies:
        low, high = policy_costs(policy, scenario).average
        costs = [span(*ends) for ends in zip(low.tolist(), high.tolist(), limits.tolist(), strict=True)]
        made.add_row(escape(policy.name), HOW.get(how(policy, scenario), ""), *costs, gain_share(policy))
    return made


def in_two(average: str) -> str:
    r"""An average on two lines, the name above its numbers, so that a narrow table breaks it nowhere else.

    >>> in_two(f"late 2 0.1 to 0.2{GLUE}/{GLUE}0.3").replace(GLUE, " ")
    'late 2\n0.1 to 0.2 / 0.3'
    """
    return re.sub(rf" (?=[-+.\de]+(?: to [-+.\de]+)?{GLUE}/)", "\n", average, count=1)


def told(scenario: ScenarioResult) -> list[tuple[str, str]]:
    """The verdict on a scenario for the terminal: marks, and sentences beside them."""
    runs, rounds = max(len(policy.seeds) for policy in scenario.policies), scenario.rounds[-1]
    played = baseline_of(scenario)
    size = f"{counted(runs, 'run')} of {rounds:,} rounds"
    lines = [("", f"{size}. {f'The baseline plays {played}, which is known to be safe.' if played else ''}".rstrip())]
    lines += [(MARKS[line.how], f"{line.name} {line.text}") for line in story(scenario)]
    return lines


def verdict_grid(scenario: ScenarioResult, width: int) -> Table:
    """The verdict on a scenario, for a terminal of some width. Rich would break lines at non-breaking spaces."""
    from rich.markup import escape
    from rich.table import Table

    made = Table.grid(padding=(0, 1))
    made.add_column(width=1)
    made.add_column()
    for mark, text in told(scenario):
        made.add_row(mark, escape(textwrap.fill(text, max(20, min(110, width - 3)), break_on_hyphens=False)))
    return made
