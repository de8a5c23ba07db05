"""From what is known of experiments to what the pages show of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from surefoot.experiments.events import Alarm, Changed, Created, Decided, Event, Expired, Late, Reported
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.quantities import Guardrail
from surefoot.service.dashboard.history import UNIT, Bucket, History
from surefoot.service.dashboard.verdict import Known, verdict
from surefoot.service.dashboard.views import OTHERS, Arm, Course, Detail, Epoch, Rail, Summary, Waiting, Watched, unlike

ENOUGH = 30
"""Rounds with feedback that each arm of the baseline must have for a comparison."""
CLEAR = 2.0
"""Standard errors that make a difference clear."""
MOST_SHARES = 12

Marks = Sequence[tuple[int, Event]]
"""Where epochs begin, and alarms, with the numbers of the events."""


class Compared(NamedTuple):
    """The objective in an epoch, over rounds with feedback, beside that of the baseline."""

    mean: float | None
    baseline: float | None
    better: float | None  # relative
    clear: bool  # whether it is more than noise


def summary(
    status: Mapping[str, Any],
    history: History,
    marks: Marks,
    per_minute: float | None = None,
    most_arms: int | None = None,
    fresh: bool = True,
) -> Summary:
    """An experiment in the list.

    Parameters
    ----------
    status
        As `Host.status` gives it.
    history
        Of its rounds.
    marks
        Its milestones.
    per_minute
        Decisions a minute.
    most_arms
        How many arms to show of each guardrail; None for all of them.
    fresh
        Whether some process learns it.
    """
    experiment = experiment_of(status["experiment"])
    epoch, objective = status["epoch"], experiment.objective
    compared = compare(experiment, history, epoch)
    alarms = [alarm for alarm in alarms_of(marks) if alarm["epoch"] == epoch]
    rails = rails_of(experiment, status, history, most_arms, [one["guardrail"] for one in alarms if one["holds"]])
    settled, lost = status["settled"], status["lost"]
    rounds = sum(settled.values())
    newest = [one for one in history.recent if one.epoch == epoch]
    share = sum(lost[arm] * settled[arm] for arm in settled) / max(1, rounds)
    lately = sum(one.lost for one in newest) / max(ENOUGH, sum(one.count for one in newest)) if newest else share
    said, tone = verdict(Known(
        status["state"], status["reason"], status["shadow"], rounds, experiment.hard, rails, alarms, compared.better,
        compared.clear, status["safe_weight"], lost,
        share, lately, fresh, status.get("behind", {}), settled,
    ))  # fmt: skip
    return Summary(
        name=experiment.name,
        state=status["state"],
        reason=status["reason"],
        shadow=status["shadow"],
        epoch=epoch,
        rounds=status["rounds"],
        decisions=status["decisions"],
        pending=status["pending"],
        per_minute=per_minute,
        objective=objective.name,
        unit=None,
        maximises=not objective.less_is_better,
        mean=compared.mean,
        baseline_mean=compared.baseline,
        better=compared.better,
        clear=compared.clear,
        safe_weight=status["safe_weight"],
        rails=rails,
        alarms=alarms,
        verdict=said,
        tone=tone,
    )


def compare(experiment: Experiment, history: History, epoch: int) -> Compared:
    """The objective in an epoch, and that of the baseline: its arms' means, mixed as the baseline is."""
    totals = {history.arms[place]: total for place, total in history.totals.get(epoch, {}).items() if total.fed}
    fed = sum(total.fed for total in totals.values())
    if not fed:
        return Compared(None, None, None, False)
    objective = experiment.objective
    loss = sum(total.loss for total in totals.values()) * UNIT / fed
    mean = objective.value(loss)
    shares = {arm: share for arm, share in zip(experiment.arms, experiment.safe_strategy, strict=True) if share > 0.0}
    if totals.keys() == shares.keys() and len(shares) == 1:  # nothing else was served yet
        return Compared(mean, mean, None, False)
    if any(arm not in totals or totals[arm].fed < ENOUGH for arm in shares):
        return Compared(mean, None, None, False)
    safe = sum(share * totals[arm].mean for arm, share in shares.items())
    variance = max(0.0, sum(total.square for total in totals.values()) * UNIT / fed - loss**2) / fed
    variance += sum(share**2 * totals[arm].variance / totals[arm].fed for arm, share in shares.items())
    baseline = objective.value(safe)
    gain = baseline - mean if objective.less_is_better else mean - baseline
    better = gain / abs(baseline) if baseline else math.copysign(math.inf, gain) if gain else 0.0
    return Compared(mean, baseline, better, abs(safe - loss) > CLEAR * math.sqrt(variance))


def rails_of(
    experiment: Experiment,
    status: Mapping[str, Any],
    history: History,
    most_arms: int | None = None,
    alarmed: Sequence[str | None] = (),
) -> list[Rail]:
    """The guardrails, some of which have raised an alarm that holds the experiment."""
    strategy = status["strategy"]
    arms = sorted(strategy, key=strategy.__getitem__, reverse=True)[:most_arms]
    epoch = status["epoch"]
    sums, count = history.costs.get(epoch, {}), sum(one.count for one in history.totals.get(epoch, {}).values())
    recent = [one for one in history.recent if one.epoch == status["epoch"]]
    found = []
    for guardrail, known in zip(experiment.guardrails, status["guardrails"], strict=True):
        at_most = guardrail.less_is_better
        served, bound = mean_of(guardrail, sums.get(guardrail.name, 0), count), known.get("bound")
        if known["baseline"] is not None:  # while it is measured, nothing else is served
            bound = known["baseline"]["upper" if at_most else "lower"]
        kept = served is None or (served <= guardrail.limit if at_most else served >= guardrail.limit)
        shown = [Arm(name=arm, share=strategy[arm], **known["arms"][arm]) for arm in arms]
        found.append(Rail(
            guardrail.name, guardrail.unit, at_most, guardrail.limit, guardrail.low, guardrail.high, served,
            mean_cost(guardrail, recent), bound, shown, kept, guardrail.name in alarmed,
        ))  # fmt: skip
    return found


def mean_cost(guardrail: Guardrail, buckets: Iterable[Bucket]) -> float | None:
    """The mean of a guardrail in some buckets, in natural units; None if there is nothing in them."""
    some = [one for one in buckets if guardrail.name in one.costs]
    return mean_of(guardrail, sum(one.costs[guardrail.name] for one in some), sum(one.count for one in some))


def mean_of(guardrail: Guardrail, cost: int, count: int) -> float | None:
    """The mean of a guardrail, in natural units; None if there is nothing."""
    return guardrail.value(cost * UNIT / count) if count else None


def alarms_of(marks: Marks) -> list[dict[str, Any]]:
    """The alarms, newest first, each with its epoch and the number of its event."""
    found, epoch = [], 0
    for seq, event in marks:
        if isinstance(event, Changed):
            epoch = event.epoch
        elif isinstance(event, Alarm):
            found.append({**event._asdict(), "epoch": epoch, "seq": seq})
    return found[::-1]


def experiments_in(marks: Marks) -> dict[int, Experiment]:
    """The experiment of each epoch."""
    begun = (one for _, one in marks if isinstance(one, Created | Changed))
    return {getattr(one, "epoch", 0): experiment_of(one.experiment) for one in begun}


def experiment_of(data: Mapping[str, Any]) -> Experiment:
    """The experiment that `to_dict` wrote."""
    return _experiment(msgspec.json.encode(data))


@lru_cache(1_000)
def _experiment(data: bytes) -> Experiment:
    return Experiment.from_dict(msgspec.json.decode(data))


def detail(
    status: Mapping[str, Any],
    history: History,
    marks: Marks,
    per_minute: float | None = None,
    delays: Mapping[str, Sequence[float]] | None = None,
    decided: Mapping[int, Decided] | None = None,
    times: Mapping[int, float | None] | None = None,
    audit: Sequence[Mapping[str, Any]] = (),
    recent: Sequence[Mapping[str, Any]] = (),
    fresh: bool = True,
) -> Detail:
    """The page of an experiment.

    Parameters
    ----------
    status, history, marks, per_minute, fresh
        As for `summary`.
    delays
        By arm: how long feedback took lately.
    decided
        The last decision of each bucket, by its number.
    times
        When alarms were raised, by the number of the event.
    audit
        Entries of the audit, newest first.
    recent
        The newest rounds.
    """
    decided, times = decided or {}, times or {}
    shown = summary(status, history, marks, per_minute, fresh=fresh)
    return Detail(
        summary=shown,
        course=course_of(history, experiments_in(marks), decided),
        waiting=waiting_of(status, delays or {}),
        watch=watch_of(status, shown.alarms),
        epochs=epochs_of(history, marks),
        delta_spent=status["delta_spent"],
        alarms=[{**alarm, "at": times.get(alarm["seq"])} for alarm in alarms_of(marks)],
        audit=audit,
        experiment=status["experiment"],
        recent=recent,
    )


def course_of(history: History, by_epoch: Mapping[int, Experiment], decided: Mapping[int, Decided]) -> Course:
    """The course of an experiment."""
    buckets = [one for one in history.buckets if one.epoch in by_epoch]
    now = by_epoch[max(by_epoch)]
    quantities = [{one.name: one for one in by_epoch[bucket.epoch].guardrails} for bucket in buckets]
    return Course(
        at=list(accumulate((one.at for one in buckets), max)),
        rounds=[one.last for one in buckets],
        epochs=[one.epoch for one in buckets],
        shares=shares_of(history.arms, buckets),
        costs={
            name: [mean_cost(known[name], [one]) if name in known else None
                   for one, known in zip(buckets, quantities, strict=True)]
            for name in (one.name for one in now.guardrails)
        },
        limits={
            name: [known[name].limit if name in known else None for known in quantities]
            for name in (one.name for one in now.guardrails)
        },
        objective=[mean_objective(one, by_epoch[one.epoch], now) for one in buckets],
        safe_weight=[1.0 - decided[one.decision].weight if one.decision in decided else None for one in buckets],
        lost=[one.lost / one.count for one in buckets],
    )  # fmt: skip


def mean_objective(bucket: Bucket, then: Experiment, now: Experiment) -> float | None:
    """The mean of the present objective over the rounds of a bucket with feedback."""
    if not bucket.fed or then.objective.name != now.objective.name:
        return None
    return then.objective.value(bucket.loss * UNIT / bucket.fed)


def shares_of(arms: Sequence[str], buckets: Sequence[Bucket]) -> dict[str, list[float]]:
    """The share of each arm in each bucket: of those that were ever served most, and of all others together."""
    largest: dict[int, float] = {}
    for one in buckets:
        for place, count in one.arms.items():
            largest[place] = max(largest.get(place, 0.0), count / (one.count + ENOUGH))  # a bucket of few says little
    chosen = sorted(largest, key=largest.__getitem__, reverse=True)[:MOST_SHARES]
    found = {arms[place]: [one.arms.get(place, 0) / one.count for one in buckets] for place in sorted(chosen)}
    if len(largest) > len(chosen):
        rest = [sum(found[arm][i] for arm in found) for i in range(len(buckets))]
        found[unlike(OTHERS, found)] = [max(0.0, 1.0 - share) for share in rest]
    return found


def delays_of(newest: Sequence[tuple[int, Event]], decided: Mapping[int, Decided]) -> dict[str, list[float]]:
    """By arm: how long feedback took, from the decision to its last part, over the newest events."""
    last = {event.number: event.at for _, event in newest if isinstance(event, Reported)}
    found: dict[str, list[float]] = {}
    for number, at in last.items():
        if number in decided:
            found.setdefault(decided[number].arm, []).append(max(0.0, at - decided[number].at))
    return found


def waiting_of(status: Mapping[str, Any], delays: Mapping[str, Sequence[float]]) -> list[Waiting]:
    """Feedback of each arm, those with the largest shares first."""
    found = []
    for arm, share in status["strategy"].items():
        some = sorted(delays.get(arm, ()))
        slow = some[min(len(some) - 1, math.ceil(0.9 * len(some)) - 1)] if some else None
        found.append(Waiting(
            arm, share, status["settled"][arm], status["waiting"][arm], status.get("behind", {}).get(arm, 0),
            status["lost"][arm], statistics.median(some) if some else None, slow,
        ))  # fmt: skip
    return sorted(found, key=lambda one: one.share, reverse=True)


def watch_of(status: Mapping[str, Any], alarms: Sequence[Mapping[str, Any]]) -> list[Watched]:
    """The watch. After an alarm its evidence begins at 0 again, so the alarm itself counts."""
    raised = {(alarm["kind"], alarm["guardrail"]) for alarm in alarms}
    levels = (Watched(**one) for one in status["watch"])
    return [replace(one, level=1.0) if (one.what, one.guardrail) in raised else one for one in levels]


def epochs_of(history: History, marks: Marks) -> list[Epoch]:
    """The epochs, oldest first."""
    since = {one.epoch: one.since for one in reversed(history.buckets)}
    found = []
    for _, event in marks:
        if isinstance(event, Created | Changed):
            number = getattr(event, "epoch", 0)
            rounds = sum(total.count for total in history.totals.get(number, {}).values())
            found.append(Epoch(
                number, since.get(number), getattr(event, "reason", None), getattr(event, "kept", False),
                float(event.experiment["delta"]), rounds,
            ))  # fmt: skip
    return found


def time_of(events: Sequence[tuple[int, Event]]) -> float | None:
    """The time of the last of some events that has one."""
    return next((one.at for _, one in reversed(events) if isinstance(one, Decided | Reported | Expired | Late)), None)
