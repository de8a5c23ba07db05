"""Why a decision got its arm: the state at that moment, rebuilt from the log, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from surefoot.experiments.events import (
    ELSEWHERE,
    Cancelled,
    Decided,
    Event,
    Expired,
    Late,
    Log,
    MemoryLog,
    Reported,
    id_of,
)
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.fold import HELD, MEASURING, Fold
from surefoot.experiments.plans import Plan, usual
from surefoot.rules import Floats
from surefoot.service.dashboard.verdict import count, percent, sentence, shown
from surefoot.service.dashboard.views import Explained, Option

MOST_EVENTS = 200_000
"""Events that are replayed to explain a decision."""
LOOK_BACK = 1_000
"""Events before a decision among which the strategy it was drawn from is looked for."""
MOST_ROUNDS = 200_000
"""Rounds after a decision among which its own is looked for."""
SAME = 1e-9
USED_UP = 0.95
"""A strategy that uses as much of a limit is at the limit: bounds become a little narrower until the next strategy."""
MOST_NAMED = 3
SETTLED, TIMED_OUT = "settled by feedback", "timed out"
LEARNT = (SETTLED, TIMED_OUT)


class TooMany(Exception):
    """More events would have to be replayed than allowed."""


class Moment(NamedTuple):
    """The state of an experiment when a decision could be drawn."""

    plan: Plan
    state: str
    by_operator: str | None  # why it was held
    by_alarm: str | None
    rounds: int
    experiment: Experiment
    bounds: tuple[Any, Floats, Floats] | None  # counts, lower and upper bounds of the costs
    worst: Sequence[float] | None  # for each guardrail the most that the strategy can cost at the bounds


def drew(fold: Fold, decided: Decided) -> bool:
    """Whether a decision may have been drawn in this state."""
    plan, arms = usual(fold), fold.experiment.arms
    if fold.epoch != decided.epoch or plan.mode != decided.mode or decided.arm not in arms:
        return False
    share = plan.strategy[arms.index(decided.arm)]
    return bool(abs(share - decided.propensity) <= SAME and abs(plan.weight - decided.weight) <= SAME)


def moment_of(fold: Fold) -> Moment:
    """The present state of an experiment."""
    plan, known = usual(fold), fold.known_costs()
    return Moment(
        plan, fold.state, fold.held_by_operator, fold.held_by_alarm, fold.rounds, fold.experiment,
        None if known is None else (known[0].copy(), known[2].copy(), known[3].copy()),
        None if known is None else fold.worst_costs(plan.strategy),
    )  # fmt: skip


class Bounded(MemoryLog):
    """A log to read from, but not too much."""

    def __init__(self, log: Log, most: int) -> None:
        super().__init__()
        self._log, self._left = log, most

    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """All events after a number; raises `TooMany`."""
        for one in self._log.read(after):
            self._left -= 1
            if self._left < 0:
                raise TooMany
            yield one


def explain(log: Log, prefix: str, number: int, most: int = MOST_EVENTS) -> Explained | None:
    """Explain a decision. It reads and replays events, so call it in a thread.

    Parameters
    ----------
    log
        Of the experiment.
    prefix
        How the ids of its decisions begin.
    number
        Of the decision.
    most
        Events that may be replayed. If it takes more, the strategy is left out.

    Returns
    -------
    Explained
        None if there is no such decision.

    Examples
    --------
    >>> import surefoot as sf
    >>> experiment = sf.Experiment(
    ...     "checkout", arms=["new", "old"], objective=sf.Maximise("revenue", high=100.0),
    ...     guardrails=[sf.AtMost("refused", 0.05)], baseline="old", baseline_costs={"refused": 0.02}, timeout=60.0,
    ... )
    >>> live = sf.Live(experiment, seed=7)
    >>> decision = live.decide(now=0.0)
    >>> for words in explain(live.log, live.prefix, 0).words:
    ...     print(words)
    old had a share of 97 % because it is the baseline; new was held back by refused.
    97 % of the strategy was the baseline, so that the limits hold at the bounds.
    Its feedback has not arrived yet.
    """
    found = log.decided(number)
    if found is None:
        return None
    seq, decided = found
    about = log.about(number)
    past = rebuilt(log, seq, decided, most)
    moment, experiment = past.drawn or past.now, past.experiment
    round, all_seen = round_of(log, number, past.rounds)
    known: dict[str, float] = {}
    for one in about:
        if isinstance(one, Reported):
            known.update(one.outcome)
    missing = [one.name for one in experiment.quantities if one.name not in known]
    state = state_of(about, round is not None or not missing)
    words = why(decided, past) + aftermath(about, state, list(known), missing)
    if state in LEARNT and round is None and all_seen:
        words.append(
            f"It is not learnt yet: an earlier decision of {decided.arm} is open, or a new epoch has begun since."
        )
    return Explained(
        id=id_of(prefix, number), experiment=experiment.name, arm=decided.arm, propensity=decided.propensity,
        mode=decided.mode, epoch=decided.epoch, at=decided.at, due=decided.due, unit=decided.unit, state=state,
        outcome=known or None, reported=[(one.at, one.outcome) for one in about if isinstance(one, Reported)],
        late=[(one.at, one.outcome) for one in about if isinstance(one, Late)], round=round,
        strategy=() if moment is None else options(moment), snapshot=None if moment is None else moment.rounds,
        words=words,
    )  # fmt: skip


class Past(NamedTuple):
    """What is known of the time of a decision."""

    experiment: Experiment
    rounds: int  # the last round by then, or before
    now: Moment | None  # the state when it came into the log; None if too many events would have to be replayed
    drawn: Moment | None  # the state that it was drawn in, if it was found


def rebuilt(log: Log, seq: int, decided: Decided, most: int) -> Past:
    """The state just before an event, replayed from a checkpoint, and the one that a decision was drawn in."""
    look_back = LOOK_BACK if decided.number >= ELSEWHERE else 0
    bounded = Bounded(log, most)
    fold, drawn = restored_before(bounded, log, max(1, seq - look_back)), None
    try:
        fold.replay(takewhile(lambda one: one[0] < seq - look_back, bounded.read(fold.last)))
        for number, event in bounded.read(fold.last) if look_back else ():
            if number >= seq:
                break
            if drew(fold, decided):
                drawn = moment_of(fold)
            fold.apply(event)
        now = moment_of(fold)
    except TooMany:
        return Past(fold.experiment, fold.seq, None, None)
    return Past(fold.experiment, fold.seq, now, now if drew(fold, decided) else drawn)


def restored_before(bounded: Bounded, log: Log, seq: int) -> Fold:
    """The state at the newest checkpoint before an event, or after the first event."""
    saved = log.checkpoint(before=seq)
    if saved is not None:
        with suppress(ValueError, KeyError, TypeError):  # it is not the truth: the events are
            fold = Fold.from_bytes(bounded, saved[1])
            if fold.last == saved[0]:
                return fold
    fold = Fold(bounded)
    fold.apply(next(log.read())[1])
    return fold


def state_of(about: Sequence[Event], complete: bool) -> str:
    """What became of a decision.

    Parameters
    ----------
    complete
        Whether its feedback was complete, if it did not time out.
    """
    for kind, state in ((Expired, TIMED_OUT), (Cancelled, "cancelled"), (Reported, SETTLED)):
        if any(isinstance(one, kind) for one in about) and (complete or kind is not Reported):
            return state
    return "waiting"


def round_of(log: Log, number: int, after: int) -> tuple[int | None, bool]:
    """The round in which a decision was learnt, and whether all rounds were looked at."""
    seen = 0
    for one in log.rounds(after, MOST_ROUNDS):
        seen += 1
        if one.decision == number:
            return one.seq, False
    return None, seen < MOST_ROUNDS


# The strategy.


def options(moment: Moment) -> list[Option]:
    """Each arm at the moment of the decision, those with the largest shares first."""
    arms, shares = moment.experiment.arms, moment.plan.strategy.tolist()
    order = sorted(range(len(arms)), key=lambda place: -shares[place])
    return [Option(arms[place], shares[place], words_on(moment, place)) for place in order]


def words_on(moment: Moment, place: int) -> str:
    """What was known of an arm."""
    experiment = moment.experiment
    share = experiment.safe_strategy[place]
    if not experiment.guardrails:
        return "there are no guardrails"
    if share == 1.0:
        return (
            "the baseline, whose costs were stated or measured"
            if experiment.hard and moment.state != MEASURING
            else "the baseline"
        )
    also = "part of the baseline; " if share > 0.0 else ""
    if moment.bounds is None:
        return also + "no bounds on its costs are known"
    counts, _, upper = moment.bounds
    if counts[:, place].max() == 0:
        return also + "nothing is known of its costs yet"
    over = [
        f"its {one.name} may be as {'high' if one.less_is_better else 'low'} as "
        f"{shown(one, one.value(min(1.0, float(upper[i, place]))))}, "
        f"{'over' if one.less_is_better else 'under'} the limit of {shown(one, one.limit)}"
        for i, one in enumerate(experiment.guardrails)
        if upper[i, place] > one.threshold
    ]
    return also + ("; ".join(over) if over else "within all limits at the upper bounds")


def held_back(moment: Moment, chosen: str) -> str:
    """Which other arms a guardrail held back: the strategy used up its limit, and they are over it, at the bounds."""
    if moment.bounds is None or moment.worst is None or moment.plan.mode != "live" or not moment.experiment.hard:
        return ""
    upper, experiment = moment.bounds[2], moment.experiment
    rails: dict[str, tuple[str, ...]] = {}
    for i, guardrail in enumerate(experiment.guardrails):
        if moment.worst[i] >= USED_UP * guardrail.threshold:
            for place in np.argsort(-upper[i], kind="stable").tolist():
                arm = experiment.arms[place]
                if upper[i, place] > guardrail.threshold and arm != chosen and experiment.safe_strategy[place] < 1.0:
                    rails[arm] = (*rails.get(arm, ()), guardrail.name)
    parts = []
    for names in dict.fromkeys(rails.values()):
        arms = [arm for arm in rails if rails[arm] == names]
        more = [f"{len(arms) - MOST_NAMED} more"] if len(arms) > MOST_NAMED else []
        verb = "was" if len(arms) == 1 else "were"
        parts.append(f"{listed(arms[:MOST_NAMED] + more)} {verb} held back by {listed(names)}")
    return ", ".join(parts)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def have(names: Sequence[str]) -> str:
    """The verb for some names."""
    return "has" if len(names) == 1 else "have"


# Sentences.


def why(decided: Decided, past: Past) -> list[str]:
    """Why this arm."""
    had, moment = f"{decided.arm} had a share of {percent(decided.propensity)}", past.drawn or past.now
    if moment is None:
        return [f"{had}.", "The strategy of that moment cannot be shown: too many events would have to be replayed."]
    words = {"live": served_live, "safe": served_safe, "shadow": served_shadow}[decided.mode](decided, moment, had)
    if past.drawn is None:
        words += not_found(decided)
    elif past.drawn is not past.now:
        words.append("It was drawn from a strategy published a moment earlier.")
    return words


def served_live(decided: Decided, moment: Moment, had: str) -> list[str]:
    """Of a decision that was drawn from the policy's strategy."""
    if decided.arm not in moment.experiment.arms:
        return [f"{had}, in an earlier epoch."]
    back = held_back(moment, decided.arm)
    place = moment.experiment.arms.index(decided.arm)
    alone = moment.experiment.safe_strategy[place] == 1.0
    because = " because it is the baseline" if alone else f": {words_on(moment, place)}"
    words = [f"{had}{because}" + (f"; {back}." if back else ".")]
    if not moment.experiment.hard and moment.experiment.guardrails:
        words.append("This policy may exceed a limit in single rounds; its total violation grows slowly.")
    safe = 1.0 - decided.weight
    if safe >= 0.005 and moment.experiment.hard:
        words.append(f"{percent(safe)} of the strategy was the baseline, so that the limits hold at the bounds.")
    return words


def served_safe(decided: Decided, moment: Moment, had: str) -> list[str]:
    """Of a decision for which the baseline was served."""
    if moment.state == MEASURING:
        because = f"its costs were still being measured ({count(moment.rounds, 'round')} by then)"
    elif moment.state == HELD and moment.by_operator and moment.by_alarm:
        because = f"an operator held the experiment ({bare(moment.by_operator)}) and so did an alarm: "
        because += bare(moment.by_alarm)
    elif moment.state == HELD and moment.by_operator:
        because = f"an operator held the experiment: {bare(moment.by_operator)}"
    elif moment.state == HELD:
        because = f"an alarm held the experiment: {bare(moment.by_alarm)}"
    elif decided.number >= ELSEWHERE:
        because = "the process that drew it had no strategy in force"
    else:
        because = (
            "the caller allowed only some of the arms or used an old strategy, and nothing else was known to be safe"
        )
    return [f"{had}: the baseline was served because {because}."]


def bare(text: str | None) -> str:
    """A text without the full stop at its end."""
    return sentence(text).rstrip(".")


def served_shadow(decided: Decided, moment: Moment, had: str) -> list[str]:
    """Of a decision in shadow mode."""
    would = f" The policy would have served {decided.would}." if decided.would is not None else ""
    return [f"{had}: the baseline was served, because in shadow mode the policy only watches.{would}"]


def not_found(decided: Decided) -> list[str]:
    """Where the strategy that is shown is not the one that was drawn from."""
    if decided.number >= ELSEWHERE:
        return ["It was drawn from a strategy published earlier, which is not the one shown here."]
    if decided.mode == "live":
        return [
            "The caller allowed only some of the arms, so it was drawn from a strategy over those, not the one shown."
        ]
    return []


def aftermath(about: Sequence[Event], state: str, known: Sequence[str], missing: Sequence[str]) -> list[str]:
    """What became of a decision.

    Parameters
    ----------
    known, missing
        The quantities that were reported in time, and those that were not.
    """
    parts = sum(isinstance(one, Reported) for one in about)
    if state == SETTLED:
        words = [f"Its feedback came in {parts} parts." if parts > 1 else "Its feedback came in time."]
    elif state == TIMED_OUT:
        counts = "counts" if len(missing) == 1 else "count"
        some = f"Of its feedback, {listed(missing)} did not come in time and {counts} as the worst case."
        words = [some if known and missing else "Its feedback did not come in time, so it counts as the worst case."]
    elif state == "cancelled":
        reason = next(one.reason for one in about if isinstance(one, Cancelled))
        words = [f"It was cancelled, so nothing is learnt from it: {sentence(reason)}"]
    elif known:
        words = [f"So far {listed(known)} {have(known)} been reported; {listed(missing)} {have(missing)} not."]
    else:
        words = ["Its feedback has not arrived yet."]
    if any(isinstance(one, Late) for one in about):
        words.append("Feedback that came after the time-out is kept for the record, but not learnt from.")
    return words
