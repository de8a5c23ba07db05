"""The verdict in plain sentences: who kept the guardrails, and at which gain over the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from surefoot.reporting.courses import CostCourse, changes, costs_change, drifts
from surefoot.reporting.results import PolicyResult, ScenarioResult
from surefoot.reporting.standings import Standing, is_safe

KEPT, CLOSE, BROKEN, NONE = "kept", "close", "broken", "none"
MARKS = {
    KEPT: "\N{CHECK MARK}",
    CLOSE: "\N{ALMOST EQUAL TO}",
    BROKEN: "\N{MULTIPLICATION SIGN}",
    NONE: "\N{MIDDLE DOT}",
}
GLUE = "\N{NO-BREAK SPACE}"
LITTLE = 0.05
"""Guardrails are nearly kept if none is over by more than this share of its limit, on average over such rounds."""
MOST_SENTENCES = 8
"""Number of policies up to which each has a sentence of its own."""
MOST_NAMED = 2
"""Number of guardrails that a sentence names."""

GROUPS = {
    "safe": (KEPT, "kept the guardrails as often as delta requires"),
    "hard": (BROKEN, "promised to keep the guardrails in every round, and broke them more often than delta allows"),
    "soft": (NONE, "promise only a small total violation, and exceeded limits in more runs than delta allows"),
    "none": (BROKEN, "promise nothing about the guardrails, and broke them"),
}
"""The verdict over several scenarios: the safe policies, and the others by what they promise."""


class Line(NamedTuple):
    """A sentence of the verdict: whom it is about, how they did, and the rest of the sentence."""

    name: str
    how: str  # KEPT, CLOSE, BROKEN or NONE
    text: str


def over(policy: PolicyResult, scenario: ScenarioResult) -> list[float]:
    """By how much each guardrail was over, on average over the rounds in violation, as a share of its limit."""
    mean = policy.violations / max(policy.final["rounds_in_violation"], 1e-300)
    return [float(one / (limit or 1.0)) for one, limit in zip(mean, scenario.problem.thresholds, strict=True)]


def how(policy: PolicyResult, scenario: ScenarioResult) -> str:
    """Whether a policy kept the guardrails in every round, nearly kept them, or broke them."""
    if not scenario.guardrails:
        return NONE
    if policy.final["violating_runs"] == 0:
        return KEPT
    return CLOSE if max(over(policy, scenario)) <= LITTLE else BROKEN


def verdict(policy: PolicyResult, scenario: ScenarioResult) -> str:
    """Whether the guardrails held, in a few words."""
    final = policy.final
    if not scenario.guardrails:
        return "there are none"
    runs, violating = final["seeds"], final["violating_runs"]
    if violating == 0:
        return f"kept in every round{f' of all {runs} runs' if runs > 1 else ''}"
    share = percent(final["rounds_in_violation"] / final["round"])
    little = ", by little" if how(policy, scenario) == CLOSE else ""
    some = "" if violating == runs else f"; kept in {runs - violating} of {runs} runs"
    return f"over in {share} of the rounds{little}{some}"


def sentence(policy: PolicyResult, scenario: ScenarioResult) -> Line:
    """How a policy did, in a sentence that follows its name."""
    done = how(policy, scenario)
    clauses = of_guardrails(policy, scenario, done), of_delta(policy, scenario), of_gain(policy)
    return Line(policy.name, done, "; ".join(filter(None, clauses)) + ".")


def of_guardrails(policy: PolicyResult, scenario: ScenarioResult, done: str) -> str:
    """Whether the guardrails held, and by how much they did not."""
    final, count = policy.final, len(scenario.guardrails)
    runs = f" of all {final['seeds']} runs" if final["seeds"] > 1 else ""
    which = {1: "the guardrail", 2: "both guardrails"}.get(count, f"all {count} guardrails")
    if done == NONE:
        return ""
    if done == KEPT:
        return f"kept {which} in every round{runs}"
    share, shares = percent(final["rounds_in_violation"] / final["round"]), over(policy, scenario)
    worst = [i for i in np.argsort(np.negative(shares), kind="stable").tolist() if shares[i] > LITTLE]
    seeds, violating = final["seeds"], final["violating_runs"]
    if done == CLOSE:
        some = f"kept {which} in {seeds - violating} of {seeds} runs, and " if violating < seeds else ""
        closest = named(policy, scenario, int(np.argmax(shares)))
        return f"{some}was over in {share} of the rounds, but by little: {closest}"
    broken = "the guardrail" if count == 1 else f"{len(worst)} of {count} guardrails"
    broken += f" in {violating} of {seeds} runs" if violating < seeds else ""
    more = len(worst) - MOST_NAMED
    told = listed([named(policy, scenario, i) for i in worst[:MOST_NAMED]] + ([f"{more} more"] if more > 0 else []))
    return f"broke {broken}, in {share} of the rounds: {told}"


def of_delta(policy: PolicyResult, scenario: ScenarioResult) -> str:
    """Whether delta allows the unsafe runs of a policy that promises to keep the guardrails in every round."""
    final, delta = policy.final, scenario.problem.delta
    if policy.kind != "hard" or not scenario.guardrails or final["violating_runs"] == 0:
        return ""
    if costs_change(scenario):
        return f"delta = {delta:g} is for mean costs that do not change"
    if is_safe([(scenario, final)]):
        return f"delta = {delta:g} allows {one_in(delta)}"
    return f"that is more than delta = {delta:g} allows, {one_in(delta)}"


def probable(failure: float) -> str:
    """The probability of what fails with a probability of `failure`: in percent, rounded down, never 100.

    Examples
    --------
    >>> probable(0.05), probable(0.001), probable(1e-7), probable(1e-30), probable(0.25)
    ('95 %', '99.9 %', '99.99999 %', '99.99999999 %', '75 %')
    """
    exact = 100 * (1 - Decimal(f"{max(failure, 1e-10):.6g}"))
    return f"{exact.quantize(Decimal('1e-8'), ROUND_DOWN).normalize():f} %"


def one_in(share: float) -> str:
    """A share of runs, in whole numbers unless these are large.

    >>> one_in(0.05), one_in(0.03), one_in(1e-6), one_in(1 / 3) == f"33.3{GLUE}% of the runs"
    ('1 run in 20', '3 runs in 100', '1 run in 1,000,000', True)
    >>> one_in(1e-30), one_in(0.999999) == f"99.9{GLUE}% of the runs"
    ('less than 1 run in a billion', True)
    """
    if share < 1e-9:
        return "less than 1 run in a billion"
    exact = Fraction(repr(float(share)))
    if exact.numerator > 999:
        return f"{min(99.9, 100 * share):.3g}{GLUE}% of the runs"
    return f"{exact.numerator:,} run{'s' * (exact.numerator != 1)} in {exact.denominator:,}"


def named(policy: PolicyResult, scenario: ScenarioResult, i: int) -> str:
    """A guardrail that was over: its average; or, if that hides it or is not known, by how much it was over."""
    low, high = policy_costs(policy, scenario).average
    name, limit = scenario.guardrails[i], float(scenario.problem.thresholds[i])
    if low[i] == high[i] and high[i] > limit:
        return f"{name} averaged {beside(float(high[i]), limit)} against a limit of {limit:g}"
    excess = float(policy.violations[i]) / policy.final["rounds_in_violation"]
    return f"{name} was over its limit of {limit:g}, there by {excess:.2g} on average"


def of_gain(policy: PolicyResult) -> str:
    """What was gained over the baseline."""
    if policy.gain is None or policy.baseline is None:
        return ""
    loss = policy.baseline - policy.gain.value
    if abs(policy.gain.value) <= 1e-9 * max(policy.baseline, 1e-9):
        return f"lost as much as the baseline, {policy.baseline:.3g} a round"
    less = f"{share_of(policy)} {'less' if policy.gain.value > 0 else 'more'}"
    return f"lost {less} than the baseline ({loss:.3g} a round against {policy.baseline:.3g})"


def share_of(policy: PolicyResult) -> str:
    """The gain as a share of the baseline's loss, without its sign."""
    if policy.gain is None or not policy.baseline:
        return "infinitely"
    share = abs(policy.gain.value) / policy.baseline
    return f"{100 * share:.2g}{GLUE}%" if share < 0.1 else percents(share)


def policy_costs(policy: PolicyResult, scenario: ScenarioResult) -> CostCourse:
    """The expected costs of a policy, computed once."""
    known = policy.__dict__.get("_costs")
    if known is None:
        known = policy.__dict__["_costs"] = CostCourse(policy, scenario)
    return known


def averages(policy: PolicyResult, scenario: ScenarioResult, most: int = 3) -> list[str]:
    """The average cost of each guardrail beside its limit; of many, those that are most over it or closest to it."""
    if not scenario.guardrails:
        return []
    low, high = policy_costs(policy, scenario).average
    limits = scenario.problem.thresholds
    shown = sorted(np.argsort((limits - high) / np.where(limits > 0, limits, 1.0), kind="stable")[:most].tolist())
    told = []
    for i in shown:
        value = span(float(low[i]), float(high[i]), float(limits[i]))
        told.append(f"{scenario.guardrails[i]} {value}{GLUE}/{GLUE}{limits[i]:g}")
    return told


def span(low: float, high: float, limit: float) -> str:
    """An average that lies between two ends, as text to stand beside its limit."""
    ends = [beside(low, limit), beside(high, limit)]
    return ends[1] if ends[0] == ends[1] else " to ".join(ends)


def beside(value: float, limit: float) -> str:
    """A number to three digits, or more where it is close to its limit: rounding never moves it onto or over the limit.

    Examples
    --------
    >>> beside(0.84379, 0.4), beside(0.401194, 0.4), beside(0.3999996, 0.4), beside(0.4, 0.4)
    ('0.844', '0.4012', '0.3999996', '0.4')
    """
    near = abs(value - limit) <= LITTLE * max(abs(limit), 1e-12)
    for digits in range(4 if near else 3, 15):
        text = f"{value:.{digits}g}"
        if (float(text) > limit, float(text) == limit) == (value > limit, value == limit):
            return text
    return f"{limit:g}"


def percent(share: float) -> str:
    """A share as text. Rounding never turns a share above 0 into 0 %, or one below 1 into 100 %."""
    if 0 < share < 0.01:
        return f"less than 1{GLUE}%"
    if 0.99 < share < 1:
        return f"more than 99{GLUE}%"
    return percents(share)


def percents(share: float, digits: int = 0) -> str:
    """A share in percent, kept on one line.

    >>> percents(0.6284, 1) == "62.8" + GLUE + "%"
    True
    """
    return f"{100 * share:z.{digits}f}{GLUE}%"


def quoted(names: Sequence[str]) -> str:
    """Names in a list; those with a comma in quotation marks."""
    return ", ".join(marked(names))


def marked(names: Sequence[str]) -> list[str]:
    """The names; those with a comma in quotation marks."""
    return [f'"{name}"' if "," in name else name for name in names]


def listed(items: Sequence[str]) -> str:
    """Items as part of a sentence."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def story(scenario: ScenarioResult) -> list[Line]:
    """The verdict on a scenario: a sentence for each policy; of many, a sentence for each kind of outcome."""
    if len(scenario.policies) <= MOST_SENTENCES:
        return [sentence(policy, scenario) for policy in scenario.policies]
    lines = []
    for done, words in (
        (KEPT, "kept the guardrails in every round"),
        (CLOSE, "nearly kept them"),
        (BROKEN, "broke them"),
    ):
        them = [policy for policy in scenario.policies if how(policy, scenario) == done]
        if them:
            best = min(them, key=lambda policy: policy.final["loss"])
            text = f"{words}: {quoted([policy.name for policy in them])}. Of these {quoted([best.name])} lost least"
            gain = of_gain(best).removeprefix("lost ")
            text += f"{f': {gain}' if gain else ''}."
            for policy in them:
                if allowed := of_delta(policy, scenario):
                    unsafe = f"{policy.final['violating_runs']} of {policy.final['seeds']} runs"
                    text += f" {quoted([policy.name])} was over in {unsafe}; {allowed}."
            lines.append(Line(f"{len(them)} of {len(scenario.policies)}", done, text))
    if not scenario.guardrails:
        best = min(scenario.policies, key=lambda policy: policy.final["loss"])
        lines.append(Line(best.name, NONE, f"lost least, {best.final['loss'] / best.final['round']:.3g} a round."))
    return lines


def overall(scenarios: Sequence[ScenarioResult], standing: Sequence[Standing]) -> list[Line]:
    """The verdict on all scenarios together."""
    lines = []
    for group, (done, words) in GROUPS.items():
        them = [one for one in standing if group_of(one) == group]
        if not them:
            continue
        text = f"{words}: {quoted([one.policy for one in them])}."
        best = min((one for one in them if one.rank is not None), key=lambda one: one.rank or 0, default=None)
        if best is not None:
            what = (
                f"has the least regret, {best.regret.value:z.3f}"
                if group == "safe"
                else f"is over least, by {best.violation.value:.3f}"
            )
            text += f" Of these {quoted([best.policy])} {what} a round on average{gain_over(best.policy, scenarios)}."
        lines.append(Line(f"{len(them)} of {len(standing)}", done, text))
    return lines


def group_of(one: Standing) -> str:
    """The group of a policy in the verdict over several scenarios."""
    if one.safe:
        return "safe"
    return one.kind if one.kind in GROUPS else "none"


def gain_over(name: str, scenarios: Sequence[ScenarioResult]) -> str:
    """What a policy gained over the baseline, averaged over scenarios."""
    them = [policy for scenario in scenarios for policy in scenario.policies if policy.name == name]
    if not them or any(policy.gain is None or policy.baseline is None for policy in them):
        return ""
    gain = float(np.mean([policy.gain.value for policy in them if policy.gain is not None]))
    baseline = float(np.mean([policy.baseline for policy in them]))
    if not baseline:
        return ""
    if abs(gain) < 5e-3 * baseline:
        return ", and lost about as much as the baseline"
    return f", and lost {percents(abs(gain) / baseline)} {'less' if gain >= 0 else 'more'} than the baseline"


def baseline_of(scenario: ScenarioResult) -> str:
    """What the baseline plays."""
    safe = scenario.problem.safe
    if safe is None:
        return ""
    arms = [(scenario.arms[a], share) for a, share in enumerate(safe.strategy.tolist()) if share > 0]
    if len(arms) == 1:
        return arms[0][0]
    shown = " and ".join(f"{percents(share)} {arm}" for arm, share in arms[:3])
    return shown + (f" and {len(arms) - 3} more" if len(arms) > 3 else "")


def below_zero(scenario: ScenarioResult) -> str:
    """Why regret is negative, for the policies whose regret is."""
    below = [policy for policy in scenario.policies if policy.final["regret"] < 0]
    if not below:
        return ""
    names: dict[str, list[str]] = {}
    for policy in below:
        names.setdefault(how(policy, scenario), []).append(policy.name)
    moved = any("losses" in one.what for one in changes(scenario)) or any("losses" in one for one in drifts(scenario))
    over, follows = "went over the limits", "followed changes of the losses"
    why = {
        BROKEN: over,
        CLOSE: f"{follows} and {over} by little" if moved else f"{over} by little",
        KEPT: follows if moved else "happened to play arms whose losses came out low",
    }
    reasons = [f"{listed(marked(found))}, which {why.get(kind, why[KEPT])}" for kind, found in sorted(names.items())]
    return (
        "Regret compares with the best safe strategy in hindsight, the same in all rounds. "
        f"It is below 0 for {', and for '.join(reasons)}."
    )
