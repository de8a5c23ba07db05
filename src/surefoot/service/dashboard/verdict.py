"""The verdict on an experiment, in a sentence or two: does it hold, does it learn, what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from surefoot.experiments.quantities import Guardrail
from surefoot.experiments.watch import LOST_SHARE
from surefoot.service.dashboard.views import Rail

LITTLE = 0.005
"""A share that is not worth a word."""

STALLED, STALLED_SHARE = 100, 0.1
"""So many decisions of an arm, and such a share, are reported and not learnt yet, before that is worth a word."""


class Known(NamedTuple):
    """What a verdict is about."""

    state: str
    reason: str | None
    shadow: bool
    rounds: int  # in this epoch
    hard: bool  # whether every round is promised to be safe
    rails: Sequence[Rail]
    alarms: Sequence[Mapping[str, Any]]  # of this epoch, newest first
    better: float | None
    clear: bool  # whether the difference to the baseline is more than noise
    safe_weight: float
    lost: Mapping[str, float]  # share of time-outs, by arm
    lost_share: float  # of all
    lost_lately: float = 0.0  # of the newest rounds
    fresh: bool = True  # whether some process learns it
    behind: Mapping[str, int] = {}  # reported decisions that are not learnt yet, by arm
    settled: Mapping[str, int] = {}  # by arm


def verdict(known: Known) -> tuple[str, str]:
    """The verdict, and its tone: "good", "wait", "bad" or "off"."""
    holding = [alarm for alarm in known.alarms if alarm["holds"]]
    if known.state == "stopped":
        return f"Stopped: {sentence(known.reason)}", "off"
    if not known.fresh:
        return (
            "No process is learning it: deciders serve the baseline, and nothing is logged. "
            "The figures are the last that are known. Start a learner.", "bad",
        )  # fmt: skip
    if known.state == "held" and holding:
        return after_alarm(holding, known), "bad"
    if known.state == "held":
        return f"Held by an operator: {sentence(known.reason)} The baseline is served until somebody resumes.", "wait"
    if known.state == "measuring":
        return f"Measuring the baseline: {count(known.rounds, 'round')} so far; nothing else is served yet.", "wait"
    wide = [rail for rail in known.rails if known.hard and rail.bound is not None and not within(rail, rail.bound)]
    if wide:
        return f"At its bounds, the strategy may break the limit on {wide[0].name}. Hold it, and find out why.", "bad"
    lossy = loss_of_feedback(known)
    if lossy is not None:
        return lossy
    stalled = max(known.behind, key=known.behind.__getitem__, default=None)
    if stalled is not None and known.behind[stalled] >= stalls_from(known.settled.get(stalled, 0)):
        return (
            f"{count(known.behind[stalled], 'reported decision')} on {stalled} are not learnt yet: an older one waits "
            "for feedback. They are learnt when it comes or times out.", "wait",
        )  # fmt: skip
    if known.rounds == 0:
        return "Ready: no feedback has come in this epoch yet.", "wait"
    if known.shadow:
        return "Shadow mode: the baseline is served, and the policy only watches. Go live when you trust it.", "wait"
    over = [rail for rail in known.rails if not rail.kept]
    if over and known.hard:
        named = " and ".join(rail.name for rail in over)
        words = f"So far {named} {'is' if len(over) == 1 else 'are'} on the wrong side of the limit, "
        return words + "which may be chance: there is no alarm. Look at the guardrails.", "wait"
    if over:
        return f"On average {on_average(over[0])}. This policy may exceed a limit while it learns.", "wait"
    parts = [holds(known), learns(known)]
    if LITTLE <= known.safe_weight < 1.0 - LITTLE:
        parts.append(f"still {percent(known.safe_weight)} cautious")
    elif known.safe_weight >= 1.0 - LITTLE:
        parts.append("only the baseline is served until more is known")
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}.", "good" if known.safe_weight < 1.0 - LITTLE else "wait"


def stalls_from(settled: int) -> float:
    """How many decisions that are not learnt yet are worth a word."""
    return max(STALLED, STALLED_SHARE * settled)


def holds(known: Known) -> str:
    """Whether the guardrails hold, as far as the policy promises it."""
    n = len(known.rails)
    if n == 0:
        return "no guardrails are set"
    if known.hard:
        return {1: "the guardrail holds", 2: "both guardrails hold"}.get(n, f"all {n} guardrails hold")
    return {1: "the guardrail was kept on average", 2: "both guardrails were kept on average"}.get(
        n, f"all {n} guardrails were kept on average"
    )


def learns(known: Known) -> str:
    """How it compares with the baseline."""
    if known.better is None:
        return "too early to compare it with the baseline"
    if not known.clear:
        return "no clear difference from the baseline"
    word = "better" if known.better > 0 else "worse"
    return f"{'' if math.isinf(known.better) else percent(abs(known.better)) + ' '}{word} than the baseline"


def after_alarm(holding: Sequence[Mapping[str, Any]], known: Known) -> str:
    """What happened and what to do after alarms that hold, newest first; an operator may hold it as well."""
    first = holding[-1]
    rail = next((one for one in known.rails if one.name == first["guardrail"]), None)
    what, act = sentence(first["message"]), "Find out what changed, then resume: this begins a new epoch."
    if rail is not None and first["kind"] == "served":
        what = f"{over_its_limit(rail)}."
        if is_over(rail) and any(alarm["kind"] == "baseline" for alarm in holding):
            act = f"The baseline, which is served now, is {side_of(rail)} it too: find out at once what changed."
    elif first["kind"] == "baseline":
        act = "Find out what changed, or begin a new epoch with its true costs."
    elif first["kind"] == "infeasible":
        act = "Loosen a limit, or change the arms."
    elif first["kind"] != "contradiction":
        act = "Begin a new epoch with another horizon, or stop."
    lost = max(known.lost_share, known.lost_lately)
    if first["kind"] in ("served", "contradiction") and lost >= LOST_SHARE:
        lasts = known.lost_lately >= LOST_SHARE
        so = f", which puts {rail.name} {side_of(rail)} its limit" if rail is not None else ""
        what = f"{part(lost).lower()} of the feedback {'is' if lasts else 'was'} lost and counts as the worst case{so}."
        act = "Repair the feedback, then resume" if lasts else "Feedback comes again, so you can resume"
        act += ": this begins a new epoch."
    words = f"Held since an alarm: {what} {act}"
    if known.reason not in (None, *(alarm["message"] for alarm in holding)):
        words += f" An operator holds it as well: {sentence(known.reason)}"
    return words


def over_its_limit(rail: Rail) -> str:
    """What is said of a guardrail after an alarm."""
    limit = f"{side_of(rail)} its limit of {shown(rail, rail.limit)}"
    if not is_over(rail):
        return f"{rail.name} was {limit}"
    assert rail.recent is not None
    return f"{rail.name} is {limit}, lately {shown(rail, rail.recent)}"


def is_over(rail: Rail) -> bool:
    """Whether the newest rounds are on the wrong side of the limit."""
    return rail.recent is not None and not within(rail, rail.recent)


def side_of(rail: Rail) -> str:
    """The wrong side of a limit."""
    return "above" if rail.at_most else "below"


def loss_of_feedback(known: Known) -> tuple[str, str] | None:
    """What is to be said if much feedback is lost, and the tone."""
    if known.lost_lately >= LOST_SHARE:
        lost = f"{part(known.lost_lately)} of the feedback is lost"
        return f"{lost}, so bounds stay wide and little is learnt. Repair the feedback.", "bad"
    if known.lost_share >= LOST_SHARE:
        lost = f"{part(known.lost_share)} of the feedback in this epoch was lost"
        return f"{lost}, so bounds are still wide. Lately it comes again.", "wait"
    arms = [alarm["arm"] for alarm in known.alarms if alarm["kind"] == "lost"]
    worst = max(arms, key=lambda arm: known.lost.get(arm, 0.0), default=None)
    if worst is None or known.lost.get(worst, 0.0) < LOST_SHARE:
        return None
    lost = f"{part(known.lost[worst])} of the feedback on {worst} is lost"
    return f"{lost}, so its bounds stay wide. Repair the feedback.", "bad"


def within(rail: Rail, value: float) -> bool:
    """Whether a value keeps the limit, but for rounding."""
    excess = value - rail.limit if rail.at_most else rail.limit - value
    return excess <= 1e-6 * (rail.high - rail.low)


def on_average(rail: Rail) -> str:
    """What was served of a guardrail that is not kept."""
    assert rail.served is not None
    return f"{rail.name} was {shown(rail, rail.served)}, {side_of(rail)} its limit of {shown(rail, rail.limit)}"


def shown(rail: Rail | Guardrail, value: float) -> str:
    """A value with its unit.

    Examples
    --------
    >>> from surefoot.experiments.quantities import AtMost
    >>> shown(AtMost("spend", 0.4, unit="cents"), 0.61234)
    '0.612 cents'
    """
    return f"{value:.3g}" + (f" {rail.unit}" if rail.unit else "")


def percent(share: float) -> str:
    """A share for people.

    Examples
    --------
    >>> percent(0.18), percent(0.004), percent(0.9996), percent(0.0)
    ('18 %', '0.4 %', '99.96 %', '0 %')
    """
    text = f"{100 * share:.0f}"
    if share not in (0.0, 1.0) and not 0.01 <= share <= 0.99:
        text = f"{100 * share:.2g}" if share < 0.5 else f"{100 - 100 * float(f'{1 - share:.2g}'):g}"
    return f"{text} %"


def part(share: float) -> str:
    """A share at the beginning of a sentence.

    Examples
    --------
    >>> part(0.49), part(0.23)
    ('Half', '23 %')
    """
    return "Half" if 0.45 <= share <= 0.55 else percent(share)


def count(n: int, what: str) -> str:
    """A number of things.

    Examples
    --------
    >>> count(1, "round"), count(12_000, "round")
    ('1 round', '12,000 rounds')
    """
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def sentence(text: str | None) -> str:
    """A text that ends as a sentence does."""
    text = (text or "no reason was given").strip()
    return text if text[-1] in ".!?" else f"{text}."
