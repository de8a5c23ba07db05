"""The state of an experiment: the fold of its events.

`Fold.apply` takes in one event and returns what follows from it: alarms, and the end of measuring. Whoever runs the
experiment appends those to the log as well, with the event that caused them, and applies them. A replay finds them in
the log and ignores what `apply` returns. So a log replayed on another processor, whose sums may differ in the last
digit, leads to the same alarms.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from surefoot.confidence import Betting
from surefoot.experiments.events import (
    Alarm,
    Cancelled,
    Changed,
    Created,
    Decided,
    Ended,
    Event,
    Expired,
    Held,
    Late,
    Log,
    Measured,
    Observed,
    Reported,
    Resumed,
    Settled,
    Switched,
)
from surefoot.experiments.experiment import MEASURING_SHARE, Experiment, policy_class
from surefoot.experiments.order import CANCELLED, EXPIRED, OBSERVED, Order, Pending, as_round, rounds
from surefoot.experiments.watch import Watch
from surefoot.kernels.costs import KnownCosts, observe, start_costs
from surefoot.kernels.layout import layout_of
from surefoot.kernels.safety import pessimistic_cost, safe_share
from surefoot.problem import Problem
from surefoot.rules import Floats, RuleError, frozen

MEASURING, RUNNING, HELD, STOPPED = "measuring", "running", "held", "stopped"
COST_ALARMS = frozenset({"served", "baseline", "contradiction", "infeasible"})
"""Alarms after which nothing that was learnt about costs may be used again."""

GATHERED = frozenset({Reported, Expired})
"""Events whose rounds need not be learnt at once in a replay."""
BACKLOG = 1_000_000
"""How many numbers may wait in a replay."""
PLAIN = (
    "last", "since", "epoch", "rounds", "seq", "shadow", "held_by_operator", "held_by_alarm", "stopped", "delta_spent",
    "lost", "settled", "measured",
)  # fmt: skip
"""What is saved of a state as it is."""


class Fold:
    """The state of an experiment after some events.

    Parameters
    ----------
    log
        Where the rounds of earlier epochs are read from, when a change of the experiment keeps what was learnt.
    """

    experiment: Experiment
    order: Order
    watch: Watch
    policy: Any  # None until the baseline is measured
    created: Created

    def __init__(self, log: Log) -> None:
        self._log = log
        self.unwritten: Sequence[Event] = ()  # events that were applied and are not in the log yet
        self.last = 0  # number of the last event that was applied
        self.since = 0  # number of the event that began what was learnt so far
        self.epoch = 0
        self.rounds = 0  # settled decisions that were learnt, or counted in the measurement of the baseline
        self.seq = 0  # of the last round, observations included
        self.policy = None
        self.noted: list[Settled] | None = None  # rounds, if somebody takes them
        self.shadow = False
        self.held_by_operator: str | None = None  # why
        self.held_by_alarm: str | None = None  # the message of the first alarm of this epoch that holds
        self.stopped: str | None = None
        self.alarms: list[Alarm] = []  # of all epochs
        self.alarmed: set[str] = set()  # kinds of alarms of this epoch that hold
        self.delta_spent = 0.0
        self.lost: dict[str, int] = {}
        self.settled: dict[str, int] = {}
        self.measured: list[float] | None = None
        self.retired: set[str] = set()  # quantities of earlier epochs
        self._baseline: Any = None  # what is known of the baseline's costs while they are measured
        self._empty = 0  # rounds of a soft policy without a feasible strategy, when last looked at
        self._gathers = False  # whether rounds wait in the next two to be learnt and watched together
        self._told, self._seen = array("d"), array("d")

    @property
    def state(self) -> str:
        """One of "measuring", "running", "held" and "stopped"."""
        if self.stopped is not None:
            return STOPPED
        if self.held is not None:
            return HELD
        return RUNNING if self.policy is not None else MEASURING

    @property
    def held(self) -> str | None:
        """Why the experiment is held, if it is."""
        return self.held_by_operator or self.held_by_alarm

    def apply(self, event: Event) -> list[Event]:
        """Take in an event; return the events that follow from it."""
        self.last += 1
        return STEPS[type(event)](self, event)

    def replay(self, events: Iterable[tuple[int, Event]]) -> None:
        """Take in events of the log, each with its number: the same as `apply` with each in turn, and faster.

        What follows from them is in the log as well, so nobody looks in between: rounds are learnt in blocks.
        """
        for _, event in events:
            kind = type(event)
            if kind is not Decided:
                self._gathers = kind in GATHERED and self.policy is not None
                if not self._gathers or len(self._told) > BACKLOG:
                    self._catch_up()
            self.apply(event)
        self._catch_up()
        self._gathers = False

    def _catch_up(self) -> None:
        """Learn and watch the rounds that were gathered."""
        if self.policy is None:
            return
        told, seen = rows_of(self._told, 4 + len(self._guardrails)), rows_of(self._seen, 3 + len(self._guardrails))
        self._told, self._seen = array("d"), array("d")
        self.policy.tell_many(told[: int(min(len(told), self._last_round - self.policy.round))])
        if len(seen):
            self.watch.see_many(seen, self.held is not None)
        self._note_empty()

    def has(self, event: Event) -> bool:
        """Whether an event that would follow has happened already: one event may lead to the same twice."""
        if isinstance(event, Alarm):
            return event.holds and event.kind in self.alarmed
        return isinstance(event, Measured) and self.policy is not None

    # One method per event.

    def _created(self, event: Created) -> list[Event]:
        self.created, self.shadow = event, event.shadow
        self._begin(Experiment.from_dict(event.experiment))
        self.order = Order(self._names())
        return []

    def _decided(self, event: Decided) -> list[Event]:
        self.order.decide(event)
        return []

    def _reported(self, event: Reported) -> list[Event]:
        settled = self.order.report(event)
        return [] if settled is None else self._release(settled)

    def _expired(self, event: Expired) -> list[Event]:
        return self._release(self.order.expire(event))

    def _cancelled(self, event: Cancelled) -> list[Event]:
        return self._release(self.order.cancel(event))

    def _late(self, event: Late) -> list[Event]:
        return []

    def _observed(self, event: Observed) -> list[Event]:
        return self._release(self.order.observe(event))

    def _alarm(self, event: Alarm) -> list[Event]:
        self.alarms.append(event)
        if event.holds:
            self.alarmed.add(event.kind)
            self.held_by_alarm = self.held_by_alarm or event.message
        return []

    def _measured(self, event: Measured) -> list[Event]:
        self.measured = list(event.costs)
        self._baseline = None
        self._start_policy()
        return self._recall()

    def _hold(self, event: Held) -> list[Event]:
        self.held_by_operator = event.reason
        return []

    def _resume(self, event: Resumed) -> list[Event]:
        self.held_by_operator = None
        return []

    def _switch(self, event: Switched) -> list[Event]:
        self.shadow = event.shadow
        return []

    def _stop(self, event: Ended) -> list[Event]:
        self.stopped = event.reason
        return []

    def _changed(self, event: Changed) -> list[Event]:
        before, after = self.experiment, Experiment.from_dict(event.experiment)
        self.retired |= {one.name for one in before.quantities} - {one.name for one in after.quantities}
        measured = self.measured
        self.epoch, self.held_by_alarm, self.alarmed = event.epoch, None, set()
        self._begin(after)
        self.order.change(event.epoch, event.kept, self._names())
        if not event.kept:
            self.since = self.last
        else:
            self.measured = still_measured(before, after, measured)
            if self.measured is not None:
                self._baseline = None
                self._start_policy()
            return self._recall()
        return []

    def _recall(self) -> list[Event]:
        """Learn all rounds since knowledge was last dropped; returns the alarms from that."""
        if self.policy is None:
            return []
        for past in rounds(self._history()):
            if past.arm in self._places:
                self._feed(past.arm, past.propensity, past.weight, past.outcome)
        return [] if self._gathers else self._judge()

    def _history(self) -> Iterable[tuple[int, Event]]:
        """The events since knowledge was last dropped, without the present one."""
        for number, event in self._log.read(max(0, self.since - 1)):
            if number >= self.last:
                return
            yield number, event
        first = self.last - len(self.unwritten) + 1
        yield from enumerate(self.unwritten[:-1], first)

    def certifies(self, strategy: Floats) -> bool:
        """Whether a strategy is safe at the upper bounds on the costs; a soft policy certifies every strategy."""
        if not self.experiment.hard:
            return True
        thresholds = self.policy.problem.thresholds
        return all(cost <= limit + 1e-9 for cost, limit in zip(self.worst_costs(strategy), thresholds, strict=True))

    def worst_costs(self, strategy: Floats) -> list[float]:
        """For each guardrail the most that a strategy can cost, at the upper bounds on the costs."""
        policy, n_guardrails = self.policy, len(self._guardrails)
        upper = np.minimum(1.0, policy.upper_costs) if self._bounded else np.ones((n_guardrails, len(strategy)))
        safe = policy.problem.safe
        if safe is None:
            return [float(cost) for cost in upper @ strategy]
        share = safe_share(strategy, safe.strategy)
        return [pessimistic_cost(i, strategy, upper, share, safe.strategy, safe.costs) for i in range(n_guardrails)]

    # What the events lead to.

    def _names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.experiment.quantities)

    def _begin(self, experiment: Experiment) -> None:
        """Begin an epoch."""
        self._set(experiment)
        self.policy, self.measured, self._baseline, self._empty = None, None, None, 0
        self.delta_spent += experiment.delta
        self.lost, self.settled = dict.fromkeys(experiment.arms, 0), dict.fromkeys(experiment.arms, 0)
        if experiment.measures_baseline:
            self._baseline = self._measurement()
            self.watch = Watch(experiment, None)
        else:
            self._start_policy()

    def _set(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._places = {arm: place for place, arm in enumerate(experiment.arms)}
        self._objective, self._guardrails = experiment.objective, experiment.guardrails
        self.safe = frozen(np.array(experiment.safe_strategy))
        self._last_round = math.inf if experiment.horizon is None else experiment.horizon

    def _measurement(self) -> Any:
        """Bounds on the baseline's costs, as on those of a single arm, before anything is observed."""
        delta = 2.0 * self.experiment.delta * MEASURING_SHARE  # half of it is for the arm that is never seen
        problem = Problem(n_arms=2, thresholds=np.ones(len(self._guardrails)), horizon=None, delta=delta)
        bound = Betting().bound(problem)
        draft = layout_of(KnownCosts).new(K=1, m=len(self._guardrails), **bound.sizes)
        start_costs(draft, bound)
        return draft

    def _start_policy(self) -> None:
        self._adopt(self._made_policy(self.measured))

    def try_options(self) -> None:
        """Make a policy if that must wait until the baseline is measured: for its error, if its options are wrong."""
        if self.policy is None:
            for i, guardrail in enumerate(self._guardrails):
                if guardrail.threshold <= 0.0:
                    rule = "leave room on its safe side, or no measurement can show that the baseline is safe"
                    raise RuleError(f"guardrails[{i}].limit", rule, guardrail.limit)
            self._made_policy([0.0] * len(self._guardrails))

    def _made_policy(self, measured: Sequence[float] | None) -> Any:
        experiment = self.experiment
        seed = hashlib.blake2b(f"{self.created.key} {self.epoch}".encode(), digest_size=8).digest()
        cls = policy_class(experiment.policy)
        try:
            return cls(experiment.problem(measured), int.from_bytes(seed, "little"), **experiment.options)
        except TypeError:
            raise RuleError("options", f"be those of the policy {experiment.policy!r}", experiment.options) from None

    def _adopt(self, policy: Any) -> None:
        """Learn with this policy from now on."""
        self.policy = policy
        policy.quiet = True  # a contradiction is an alarm here, not a warning
        self._bounded, self._rarest = hasattr(policy, "lower_costs"), policy.least_propensity
        safe = policy.problem.safe
        self.watch = Watch(self.experiment, None if safe is None else safe.costs)

    def _release(self, settled: Pending) -> list[Event]:
        """Learn and watch what is no longer behind an open decision."""
        follow: list[Event] = []
        for pending in self.order.released(settled.decided.arm):
            if pending.settled != CANCELLED:
                self.seq += 1
                if self.noted is not None:
                    self.noted.append(self._noted(pending))
                if pending.decided.arm in self._places:
                    self._learn(pending)
                    if not self._gathers and self.policy is not None:
                        follow += self._judge()
        for pending in self.order.passed():
            if pending.settled == CANCELLED:
                self._catch_up()
                alarm = self.watch.cancel(pending.decided.arm)
                follow += [] if alarm is None else [alarm]
            elif self._gathers:
                self._seen.extend(self.watch.row(pending, self._known(pending)))
            else:
                follow += self._watch(pending)
        return follow

    def _noted(self, pending: Pending) -> Settled:
        """A round as outsiders read it."""
        one, objective = as_round(pending), self._objective
        loss = objective.cost(one.outcome[objective.name]) if objective.name in one.outcome else 1.0
        costs = {
            guardrail.name: 1.0 if cost is None else cost
            for guardrail, cost in zip(self._guardrails, self._known(pending), strict=True)
        }
        return Settled(
            self.seq, self.epoch, one.number, one.arm, one.propensity, one.source,
            None if one.number is None else loss, costs, pending.decided.at,
        )  # fmt: skip

    def take_rounds(self) -> Sequence[Settled]:
        """The rounds that were settled since the last call."""
        taken, self.noted = self.noted or (), []
        return taken

    def _costs(self, outcome: Mapping[str, float]) -> list[float | None]:
        """The costs in [0, 1], None where feedback is missing."""
        return [one.cost(outcome[one.name]) if one.name in outcome else None for one in self._guardrails]

    def _known(self, pending: Pending) -> Sequence[float | None]:
        """The same of a settled decision. They are worked out once: what it waits for ends with the epoch."""
        if pending.costs is None:
            pending.costs = self._costs(pending.outcome or {})
        return pending.costs

    def _learn(self, pending: Pending) -> None:
        decided, outcome = pending.decided, pending.outcome or {}
        observed = pending.settled == OBSERVED
        if not observed:
            self.rounds += 1
            self.settled[decided.arm] += 1
            self.lost[decided.arm] += pending.settled == EXPIRED
        if self.policy is not None:  # else it is learnt when the baseline is measured
            propensity = None if observed else decided.propensity
            self._feed(decided.arm, propensity, decided.weight, outcome, self._known(pending))

    def _feed(
        self, arm: str, propensity: float | None, weight: float, outcome: Mapping[str, float],
        known: Sequence[float | None] | None = None,
    ) -> None:  # fmt: skip
        """Let the policy learn from a round, or from an observation; what is missing counts as the worst case."""
        policy, place, objective = self.policy, self._places[arm], self._objective
        costs: Sequence[Any] = self._costs(outcome) if known is None else known
        if None in costs:
            costs = [1.0 if cost is None else cost for cost in costs]
        if propensity is None:
            self._catch_up()
            if hasattr(policy, "observe"):  # the policy may be another one than when it was observed
                policy.observe(place, costs)
            return
        loss = objective.cost(outcome[objective.name]) if objective.name in outcome else 1.0
        propensity = max(propensity, self._rarest)
        if self._gathers:
            self._told.extend((place, propensity, weight, loss, *costs))
        elif policy.round < self._last_round:
            policy.tell((place, propensity, weight), loss, costs)

    def _judge(self) -> list[Event]:
        """Alarms from what was learnt: contradictions, infeasible limits, the end of the horizon."""
        policy = self.policy
        if policy.contradicted and "contradiction" not in self.alarmed:
            message = "a lower bound on a cost is above its upper bound: costs have changed, or feedback is wrong"
            return [Alarm("contradiction", None, None, self.rounds, message, True)]
        if (
            self._note_empty()
            and "infeasible" not in self.alarmed
            and self._bounded
            and infeasible(policy.lower_costs, policy.problem.thresholds)
        ):
            message = "no mixture of the arms can keep all limits"
            return [Alarm("infeasible", None, None, self.rounds, message, True)]
        if policy.round >= self._last_round and "horizon" not in self.alarmed:
            message = f"the horizon of {self._last_round} rounds is reached: the guarantee ends here"
            return [Alarm("horizon", None, None, self.rounds, message, True)]
        return []

    def _note_empty(self) -> bool:
        """Whether the rounds without a feasible strategy have doubled since this was last so: they are looked at."""
        count, before = getattr(self.policy, "empty_rounds", 0) if self.policy.kind == "soft" else 0, self._empty
        while count >= max(1, 2 * self._empty):
            self._empty = max(1, 2 * self._empty)
        return self._empty > before

    def _watch(self, pending: Pending) -> list[Event]:
        costs = self._known(pending)
        follow: list[Event] = [*self.watch.see(pending, costs, self.held is not None)]
        if self._baseline is not None and pending.decided.weight == 0.0:
            follow += self._measure([1.0 if cost is None else cost for cost in costs])
        return follow

    def _measure(self, costs: list[float]) -> list[Event]:
        """Take in a round of the baseline while its costs are measured."""
        known = self._baseline.opened()
        observe(known, 0, np.array(costs))
        if enough_margin(known.upper[:, 0], self.experiment):
            return [Measured(known.upper[:, 0].tolist())]
        asked = np.array([one.threshold for one in self._guardrails]) * (1.0 - self.experiment.margin)
        never = known.lower[:, 0] > asked
        if never.any() and "baseline" not in self.alarmed:
            guardrail = self._guardrails[int(never.argmax())]
            bound = guardrail.shown(guardrail.value(float(known.lower[int(never.argmax()), 0])))
            side = "at least" if guardrail.less_is_better else "at most"
            message = (
                f"the baseline's {guardrail.name} is {side} {bound}, which does not leave {self.experiment.margin:.0%} "
                f"of the limit {guardrail.shown(guardrail.limit)} unused: learning cannot begin"
            )
            return [Alarm("baseline", guardrail.name, None, self.rounds, message, True)]
        return []

    def known_costs(self) -> tuple[Any, Floats, Floats, Floats] | None:
        """Counts, means, lower and upper bounds of the costs, each (m, K), if the policy has them."""
        if self.policy is None or not self._bounded:
            return None
        return known_of(self.policy.known_costs)

    def baseline_costs(self) -> tuple[Any, Floats, Floats, Floats] | None:
        """The same for the baseline as a single arm, while its costs are measured."""
        return None if self._baseline is None else known_of(self._baseline.opened())

    # Checkpoints.

    def to_bytes(self) -> bytes:
        """The whole state, from which `from_bytes` goes on."""
        buffers = None if self._baseline is None else (self._baseline.floats, self._baseline.integers)
        saved = {
            **{name: getattr(self, name) for name in PLAIN},
            "alarms": [list(one) for one in self.alarms],
            "alarmed": sorted(self.alarmed), "retired": sorted(self.retired), "empty": self._empty,
            "created": list(self.created), "experiment": self.experiment.to_dict(), "order": self.order.to_dict(),
            "watch": self.watch.to_dict(),
            "baseline": None if buffers is None else [text(one.tobytes()) for one in buffers],
            "policy": None if self.policy is None else text(self.policy.to_bytes()),
        }  # fmt: skip
        return json.dumps(saved, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, log: Log, data: bytes) -> Fold:
        """The state that `to_bytes` wrote."""
        saved = json.loads(data)
        fold = cls(log)
        fold.created = Created(*saved["created"])
        fold._set(Experiment.from_dict(saved["experiment"]))
        for name in PLAIN:
            setattr(fold, name, saved[name])
        fold.alarms = [Alarm(*one) for one in saved["alarms"]]
        fold.alarmed, fold.retired, fold._empty = set(saved["alarmed"]), set(saved["retired"]), saved["empty"]
        fold.order = Order.from_dict(fold._names(), saved["order"])
        fold.policy = None
        if saved["policy"] is not None:
            kind = policy_class(fold.experiment.policy)
            fold._adopt(kind.from_bytes(base64.b64decode(saved["policy"])))
        else:
            fold._baseline = fold._measurement()
            for buffer, part in zip((fold._baseline.floats, fold._baseline.integers), saved["baseline"], strict=True):
                buffer[:] = np.frombuffer(base64.b64decode(part), buffer.dtype)
            fold.watch = Watch(fold.experiment, None)
        fold.watch.load(saved["watch"])
        return fold

    def digest(self) -> str:
        """A digest of the whole state: equal for equal states."""
        return hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()


STEPS = cast(
    "dict[type, Callable[[Fold, Any], list[Event]]]",
    {
        Created: Fold._created, Decided: Fold._decided, Reported: Fold._reported, Expired: Fold._expired,
        Cancelled: Fold._cancelled, Late: Fold._late, Observed: Fold._observed, Alarm: Fold._alarm,
        Measured: Fold._measured, Held: Fold._hold, Resumed: Fold._resume, Switched: Fold._switch,
        Ended: Fold._stop, Changed: Fold._changed,
    },
)  # fmt: skip


def known_of(known: KnownCosts) -> tuple[Any, Floats, Floats, Floats]:
    """Counts, means, lower and upper bounds, all of the same shape.

    An arm whose costs are stated has the stated one for an upper bound, or its mean while that is higher.
    """
    upper = known.upper
    if known.exempt >= 0:
        upper = upper.copy()
        upper[:, known.exempt] = np.maximum(upper[:, known.exempt], known.means[:, known.exempt])
    return np.broadcast_to(known.counts, known.means.shape), known.means, known.lower, upper


def text(data: bytes) -> str:
    """Bytes as text that JSON can hold."""
    return base64.b64encode(data).decode()


def replay(log: Log) -> Fold:
    """The state that a log leads to, from its first event."""
    fold = Fold(log)
    fold.replay(log.read())
    return fold


def rows_of(numbers: array[float], width: int) -> Floats:
    """Numbers as rows, which must be such as a policy and the watch can take in."""
    rows = np.frombuffer(numbers).reshape(-1, width)
    if not ((rows[:, 1:] >= 0.0) & (rows[:, 1:] <= 1.0)).all():
        raise RuleError("log", "hold values within their ranges", None, "one outside")
    return rows


def still_measured(before: Experiment, after: Experiment, measured: Sequence[float] | None) -> list[float] | None:
    """The bounds on the baseline's costs in another experiment, None if they must be measured there."""
    if measured is None or not after.measures_baseline or after.baseline != before.baseline:
        return None
    values = {one.name: one.value(cost) for one, cost in zip(before.guardrails, measured, strict=True)}
    if not all(one.name in values for one in after.guardrails):
        return None
    costs = [one.cost(values[one.name]) for one in after.guardrails]
    return costs if enough_margin(np.array(costs), after) else None


def enough_margin(costs: Floats, experiment: Experiment) -> bool:
    """Whether bounds on the baseline's costs leave enough of every limit unused for learning to begin."""
    limits = np.array([one.threshold for one in experiment.guardrails])
    return bool((costs <= limits * (1.0 - experiment.margin)).all() and (costs < limits).all())


def infeasible(lower: Floats, thresholds: Floats) -> bool:
    """True if no strategy keeps all thresholds even at the lower bounds of the costs."""
    from scipy.optimize import linprog

    m, n_arms = lower.shape
    excess = linprog(
        np.r_[np.zeros(n_arms), 1.0],
        A_ub=np.c_[lower, -np.ones(m)], b_ub=thresholds,
        A_eq=np.r_[np.ones(n_arms), 0.0][None], b_eq=[1.0],
        bounds=[(0, 1)] * n_arms + [(None, None)],
    )  # fmt: skip
    return bool(excess.status == 0 and excess.fun > 1e-9)
