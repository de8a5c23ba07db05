"""A running experiment: decide, take feedback, report the state."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from surefoot.experiments.errors import Conflict, Stopped, Unknown
from surefoot.experiments.events import (
    BLOCKS,
    ELSEWHERE,
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
    LogFailure,
    MemoryLog,
    Observed,
    Reported,
    Resumed,
    Switched,
    id_of,
    number_in,
)
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.fold import COST_ALARMS, Fold
from surefoot.experiments.plans import Plan, held_elsewhere, narrowed, usual
from surefoot.experiments.quantities import AtMost, Minimise, checked_name
from surefoot.experiments.snapshot import Snapshot
from surefoot.experiments.status import Status, status_of
from surefoot.kernels.episode import draw
from surefoot.provenance import made_by
from surefoot.rules import SHARE, Range, RuleError, choice, number, shown

TIME = Range(-1e15, 1e15)
PROPENSITY = SHARE._replace(open_low=True)
AT_ONCE = Range(1, 100_000, whole=True)
LEASE = Range(0, 1e9)
SEED = Range(0, 2**128, whole=True)
LONGEST_TEXT = 500
STORAGE = "surefoot.storage"
"""What opens a log in a file; asked for by name, as it builds on this package, not the other way round."""
PREFIX = 8
"""How many digits of the key the ids of decisions begin with."""
CHECKPOINT_EVERY = 20_000
"""Events between two checkpoints of a durable log."""


class Choice(NamedTuple):
    """A decision of a running experiment: serve `arm`, and report what happens under `id`."""

    id: str
    arm: str
    propensity: float
    epoch: int
    mode: str  # "live", "safe" (the baseline) or "shadow" (the baseline, while the policy only watches)
    due: float  # when feedback must have come
    would: str | None = None  # in shadow mode: the arm that the policy would have served


class Live:
    """A running experiment.

    It keeps what safety rests on: for each arm, feedback is learnt in the order of the decisions; feedback that does
    not come in time counts as the worst case; a decision is settled once. It watches what is served, and serves the
    baseline after an alarm. Time is an argument, in any unit. Threads may share it.

    Parameters
    ----------
    experiment
        What is to be decided.
    seed
        Seed of the draws. By default they cannot be predicted.
    mode
        "live", or "shadow": the baseline is served, and each decision says what the policy would have served.
    log
        Where events are kept; by default in memory. `Live.open` keeps them in a file.

    Examples
    --------
    >>> import surefoot as sf
    >>> experiment = sf.Experiment(
    ...     "checkout", arms=["new", "old"], objective=sf.Maximise("revenue", high=100.0),
    ...     guardrails=[sf.AtMost("refused", 0.05)], baseline="old", baseline_costs={"refused": 0.02}, timeout=60.0,
    ... )
    >>> live = sf.Live(experiment, seed=7)
    >>> decision = live.decide(now=0.0)
    >>> decision.arm, decision.mode, decision.due
    ('old', 'live', 60.0)
    >>> live.feedback(decision.id, {"revenue": 42.0, "refused": False}, now=1.5)
    'accepted'
    >>> live.feedback(decision.id, {"revenue": 42.0, "refused": False}, now=1.6)
    'replayed'
    >>> live.status().state, live.status().rounds
    ('running', 1)
    """

    def __init__(
        self, experiment: Experiment, seed: int | None = None, *, mode: str = "live", log: Log | None = None
    ) -> None:
        if not isinstance(experiment, Experiment):
            raise RuleError("experiment", "be an Experiment", experiment)
        shadow = choice("mode", mode, ("live", "shadow")) == "shadow"
        key = key_of(int.from_bytes(os.urandom(16), "little") if seed is None else number("seed", seed, SEED))
        log = MemoryLog() if log is None else log
        if next(iter(log.read()), None) is not None:
            raise RuleError("log", "be empty (`Live.of` goes on with one that is not)", log)
        created = Created(experiment.to_dict(), key, shadow, made_by())
        fold = Fold(log)
        fold.apply(created)  # what is wrong with the options of the policy shows here, before anything is written
        fold.try_options()
        self._start(log, fold)
        log.wait(log.append([created]))

    def _start(self, log: Log, fold: Fold) -> None:
        self._log, self._fold, self._lock = log, fold, threading.RLock()
        fold.take_rounds()
        self._key = bytes.fromhex(fold.created.key)
        self._prefix = fold.created.key[:PREFIX]
        self._broken: BaseException | None = None
        self._plan: Plan | None = None
        self._timed_out = 0
        self._ticket = 0  # of what was written last
        self._checkpointed = fold.last
        self._read_experiment()

    def _read_experiment(self) -> None:
        experiment = self._fold.experiment
        self._quantities = {one.name: one for one in experiment.quantities}
        self._plan = None

    @classmethod
    def open(
        cls, path: str | Path, experiment: Experiment | None = None, *, seed: int | None = None, mode: str = "live"
    ) -> Live:
        """Run an experiment whose log is in a file (SQLite), and go on exactly where it was left.

        Every answer is in the file before it is given. To begin, `experiment` is needed; later it may be left out, or
        must be the one in the file. One process at a time may run an experiment; another one is refused. So is an
        experiment of `surefoot serve` with decisions of other processes that no learner has taken in yet.
        """
        if experiment is None and "://" not in str(path) and not Path(path).exists():
            raise RuleError("path", "be a log that exists, if no experiment is given", path, str(path))
        name = None if experiment is None else experiment.name
        log = import_module(STORAGE).open_log(path, name, alone=True)
        try:
            return cls.of(log, experiment, seed=seed, mode=mode)
        except BaseException:
            log.close()
            raise

    @classmethod
    def of(cls, log: Log, experiment: Experiment | None = None, *, seed: int | None = None, mode: str = "live") -> Live:
        """Run the experiment of a log, or begin it if the log is empty; see `open`."""
        fold = restored(log)
        fold.replay(log.read(fold.last))
        if fold.last == 0:
            if experiment is None:
                raise RuleError("experiment", "be given to begin a log that is empty", None)
            return cls(experiment, seed, mode=mode, log=log)
        if experiment is not None and experiment != fold.experiment:
            rule = "be the one in the log, or left out (`change` begins a new epoch)"
            raise RuleError("experiment", rule, experiment, f"another one than {fold.experiment.name!r} in the log")
        live = cls.__new__(cls)
        live._start(log, fold)
        return live

    @property
    def experiment(self) -> Experiment:
        """The experiment in its present form."""
        return self._fold.experiment

    @property
    def prefix(self) -> str:
        """How the ids of its decisions begin."""
        return self._prefix

    @property
    def broken(self) -> bool:
        """Whether it must be opened again, after an error that may have left it half changed."""
        return self._broken is not None

    @property
    def stopped(self) -> str | None:
        """Why it was stopped, if it was."""
        return self._fold.stopped

    @property
    def standing(self) -> tuple[int, str, str | None, bool]:
        """The epoch, the state, why it is held, and whether it is in shadow mode."""
        fold = self._fold
        return fold.epoch, fold.state, fold.held, fold.shadow

    @property
    def pending(self) -> int:
        """How many decisions wait for feedback."""
        return len(self._fold.order.open)

    @property
    def rounds(self) -> int:
        """How many settled decisions were learnt."""
        return self._fold.rounds

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._fold.last

    @property
    def log(self) -> Log:
        """The log of events, from which everything else is computed."""
        return self._log

    # Deciding.

    def decide(
        self,
        now: float,
        n: int | None = None,
        arms: Sequence[str] | None = None,
        key: str | None = None,
        unit: str | None = None,
        *,
        snapshot: Snapshot | None = None,
    ) -> Any:
        """Draw an arm to serve.

        Parameters
        ----------
        now
            The present time.
        n
            How many decisions to make at once; a list is returned if it is given.
        arms
            The arms that are available now, if not all are. Their shares are not just scaled up: you get a strategy of
            these arms that is known to be safe, or `Unavailable` is raised.
        key
            Idempotency key: a call with the same key returns the same decisions and makes none.
        unit
            Such as a user. While a decision of this epoch for the same unit waits for feedback, the same one
            is returned.
        snapshot
            Draw from this strategy, which another process may have held for a while. If its lease or its epoch is over,
            or it is not within the limits at the upper bounds, the baseline is served.

        Returns
        -------
        Choice
            The decision, or a list of decisions if `n` is given.
        """
        now, count = self._time(now), 1 if n is None else number("n", n, AT_ONCE)
        for name, value in (("key", key), ("unit", unit)):
            if value is not None:
                checked_text(name, value)
        if unit is not None and count > 1:
            raise RuleError("n", "be 1 if a unit is given", n)
        with self._lock:
            self._ready()
            if self._fold.stopped is not None:
                raise Stopped(f"the experiment {self._fold.experiment.name} was stopped: {self._fold.stopped}")
            events = self._expired(now, inclusive=True)
            try:
                decided = self._earlier(key, unit, count, arms)
                if not decided:
                    plan = self._narrowed(arms) if snapshot is None else held_elsewhere(self._fold, snapshot, arms, now)
                    decided = [self._draw(plan, now, key, unit, events) for _ in range(count)]
            finally:
                ticket = self._append(events)
        self._wait(ticket)
        choices = [self._choice(one) for one in decided]
        return choices[0] if n is None else choices

    def _draw(self, plan: Plan, now: float, key: str | None, unit: str | None, events: list[Event]) -> Decided:
        fold = self._fold
        i = fold.order.issued
        u = self._uniform(i)
        place = int(draw(plan.strategy, u))
        arms, would = fold.experiment.arms, None
        if plan.mode == "shadow" and fold.policy is not None:
            would = arms[int(draw(fold.policy.strategy, self._uniform(i, b"shadow")))]
        due = now + fold.experiment.timeout
        decided = Decided(
            i, arms[place], plan.strategy.item(place), plan.weight, plan.mode, fold.epoch, now, due, unit, key, would
        )
        self._apply(decided, events)
        return decided

    def _uniform(self, i: int, person: bytes = b"") -> float:
        """The number in [0, 1) that belongs to a decision: the same whenever it is asked for."""
        digest = hashlib.blake2b(i.to_bytes(8, "little"), digest_size=8, key=self._key, person=person).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

    def _earlier(self, key: str | None, unit: str | None, count: int, arms: Sequence[str] | None) -> list[Decided]:
        """The decisions that were made for this key or unit before."""
        order, decided = self._fold.order, []
        if key is not None:
            decided = self._log.with_key(key)
            if decided and (len(decided) != count or decided[0].unit != unit):
                raise Conflict(f"key {key!r} was used for another request")
        if not decided and unit is not None and unit in order.units:
            waiting = order.open[order.units[unit]].decided
            decided = [waiting] if waiting.epoch == self._fold.epoch else []  # its arm may have been removed
        for one in decided:
            if arms is not None and one.arm not in arms:
                raise Conflict(f"decision {self._id(one.number)} already has arm {one.arm!r}, which is not in arms")
        return decided

    def _current(self) -> Plan:
        """What the next decision is drawn from, if all arms are available."""
        if self._plan is None:
            self._plan = usual(self._fold)
        return self._plan

    def _narrowed(self, arms: Sequence[str] | None) -> Plan:
        return self._current() if arms is None else narrowed(self._fold, self._current(), arms)

    def snapshot(self, now: float, lease: float = 60.0) -> Snapshot:
        """The present strategy, for deciders that draw from it for a while without asking; see `Snapshot`."""
        now, lease = self._time(now), float(number("lease", lease, LEASE))
        with self._lock:
            self._ready()
            plan, fold = self._current(), self._fold
            snapshot = Snapshot(
                plan.strategy, plan.weight, fold.epoch, fold.rounds, now + lease, fold.experiment.arms, plan.mode
            )
            ticket = self._ticket
        self._wait(ticket)
        return snapshot

    def bulletin(self) -> dict[str, Any]:
        """What other processes need to draw decisions from the present strategy, as JSON-able data."""
        with self._lock:
            self._ready()
            plan, fold = self._current(), self._fold
            shadows = plan.mode == "shadow" and fold.policy is not None
            return {
                "prefix": self._prefix, "arms": list(fold.experiment.arms), "strategy": plan.strategy.tolist(),
                "weight": plan.weight, "mode": plan.mode, "epoch": fold.epoch, "rounds": fold.rounds,
                "would": fold.policy.strategy.tolist() if shadows else None, "baseline": fold.safe.tolist(),
                "timeout": fold.experiment.timeout, "pending": len(fold.order.open), "stopped": fold.stopped,
            }  # fmt: skip

    def admit(self, drawn: Sequence[Decided]) -> list[str | Exception]:
        """Take in decisions that were drawn elsewhere, from snapshots, before their outcomes are known.

        Returns
        -------
        list
            For each decision "logged", "replayed" if it was taken in before, or the error that refuses it.
        """
        events: list[Event] = []
        with self._lock:
            self._ready()
            try:
                answers = [self._admit(one, events) for one in listed("drawn", drawn)]
            finally:
                ticket = self._append(events)
        self._wait(ticket)
        return answers

    def _admit(self, one: Decided, events: list[Event]) -> str | Exception:
        if not isinstance(one, Decided):
            return RuleError("drawn", "be decisions (Decided)", one)
        try:
            self._check_drawn(one)
        except RuleError as error:
            return error
        order = self._fold.order
        if not order.is_new(one.number) and (one.number in order.open or self._log.about(one.number)):
            return "replayed"
        self._apply(one, events)
        return "logged"

    def _check_drawn(self, one: Any) -> None:
        fold = self._fold
        if type(one.number) is not int or not ELSEWHERE <= one.number < BLOCKS * ELSEWHERE:
            raise RuleError("number", "be in a block for decisions drawn elsewhere", one.number)
        if type(one.epoch) is not int or not 0 <= one.epoch <= fold.epoch:
            raise RuleError("epoch", f"be {Range(0, fold.epoch, whole=True)}", one.epoch)
        number("propensity", one.propensity, PROPENSITY)
        number("weight", one.weight, SHARE)
        choice("mode", one.mode, ("live", "safe", "shadow"))
        number("at", one.at, TIME)
        number("due", one.due, TIME)
        if not isinstance(one.arm, str) or (one.epoch == fold.epoch and one.arm not in fold.experiment.arms):
            raise RuleError("arm", f"be one of {', '.join(fold.experiment.arms)}", one.arm)
        checked_name("arm", one.arm)  # what cannot be an arm cannot be one of an earlier epoch
        for name in ("unit", "key", "would"):
            if (value := getattr(one, name)) is not None:
                checked_text(name, value)

    # Feedback.

    def feedback(self, id: str, outcome: Mapping[str, Any], now: float) -> str:
        """Report what a decision led to, at once or in parts.

        Returns
        -------
        str
            "accepted"; "partial" if some quantities are still missing; "replayed" if all of it was reported before;
            "late" if the decision had timed out: it is kept for audit and not learnt.

        Raises
        ------
        Unknown
            There is no such decision.
        Conflict
            Something else was reported before. The first report stands.
        """
        now = self._time(now)
        with self._lock:
            self._ready()
            events = self._expired(now, inclusive=False)
            try:
                answer = self._report(id, outcome, now, events)
            finally:
                ticket = self._append(events)
        self._wait(ticket)
        return answer

    def feedback_many(self, items: Sequence[Any], now: float) -> list[str | Exception]:
        """Report on many decisions in one write: for each the answer of `feedback`, or the error it would raise.

        Each item is an id and an outcome. An item of another form raises `RuleError`, and later items are not read.
        """
        now, answers = self._time(now), []
        with self._lock:
            self._ready()
            events = self._expired(now, inclusive=False)
            try:
                for i, item in enumerate(listed("items", items)):
                    item = pair(f"items[{i}]", "an id and an outcome", item)
                    try:
                        answers.append(self._report(item[0], item[1], now, events))
                    except (Unknown, Conflict, RuleError) as error:
                        answers.append(error)  # type: ignore[arg-type]
            finally:
                ticket = self._append(events)
        self._wait(ticket)
        return answers  # type: ignore[return-value]

    def _report(self, id: str, outcome: Mapping[str, Any], now: float, events: list[Event]) -> str:
        """Apply a report; events that it leads to are added to those that have not been written yet."""
        i, fold = self._number(id), self._fold
        values = self._checked(outcome)
        pending = fold.order.open.get(i)
        if pending is None:
            return self._report_again(i, values, now, events)
        before = pending.outcome
        if before is not None:
            self._agree(i, values, before)
            values = {name: value for name, value in values.items() if name not in before}
            if not values and not fold.order.needed <= before.keys():  # else a change has made it complete
                return "replayed"
        self._apply(Reported(i, values, now), events)
        return "partial" if i in fold.order.open else "accepted"

    def _report_again(self, i: int, values: Mapping[str, float], now: float, events: list[Event]) -> str:
        """Feedback on a decision that is settled."""
        known: dict[str, float] = {}
        expired = cancelled = False
        about = [*self._log.about(i), *(one for one in events if getattr(one, "number", None) == i)]
        for event in about:
            expired, cancelled = expired or isinstance(event, Expired), cancelled or isinstance(event, Cancelled)
            known.update(getattr(event, "outcome", {}))
        if cancelled:
            raise Conflict(f"decision {self._id(i)} was cancelled")
        if not expired:
            self._agree(i, values, known)
            return "replayed"
        if any(known.get(name) != value for name, value in values.items()):
            self._apply(Late(i, values, now), events)
        return "late"

    def _agree(self, i: int, values: Mapping[str, float], known: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name in known and known[name] != value:
                raise Conflict(
                    f"{name} = {known[name]:g} was reported first for decision {self._id(i)} and stands, got {value:g}"
                )

    def _checked(self, outcome: Any) -> dict[str, float]:
        if not isinstance(outcome, Mapping) or not outcome:
            raise RuleError("outcome", f"have values of {', '.join(self._quantities)}", outcome)
        values = {}
        for name, value in outcome.items():
            quantity = self._quantities.get(name)
            if quantity is not None:
                values[name] = quantity.checked(value)
            elif name not in self._fold.retired:
                raise RuleError("outcome", f"have no keys but {', '.join(self._quantities)}", outcome, shown(name))
        return values

    def cancel(self, id: str, reason: str = "not carried out") -> None:
        """Take back a decision that was never carried out: nothing is learnt from it.

        Never cancel because of how it went: report that, or let it time out.
        """
        checked_text("reason", reason)
        with self._lock:
            self._ready()
            i = self._number(id)
            events: list[Event] = []
            pending = self._fold.order.open.get(i)
            if pending is None:
                if not any(isinstance(event, Cancelled) for event in self._log.about(i)):
                    raise Conflict(f"decision {id} is settled")
            elif pending.outcome is not None:
                raise Conflict(f"decision {id} has feedback, so it was carried out")
            else:
                self._apply(Cancelled(i, reason), events)
            ticket = self._append(events)
        self._wait(ticket)

    def observe(self, arm: str, outcome: Mapping[str, Any]) -> None:
        """Learn the costs of an arm that was chosen elsewhere, such as in an earlier experiment.

        Its means must be the same as here, and observations must not have been selected by their values. All
        guardrails are needed. The objective is ignored: the probability with which the arm was chosen is not known.
        """
        self.observe_many([(arm, outcome)])

    def observe_many(self, items: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Learn many observations in one write; if one of them is wrong, none is learnt."""
        with self._lock:
            self._ready()
            pairs = [pair(f"items[{i}]", "an arm and an outcome", one) for i, one in enumerate(listed("items", items))]
            checked = [self._observed(arm, outcome) for arm, outcome in pairs]
            events: list[Event] = []
            for event in checked:
                self._apply(event, events)
            ticket = self._append(events)
        self._wait(ticket)

    def _observed(self, arm: str, outcome: Mapping[str, Any]) -> Observed:
        fold = self._fold
        if arm not in fold.experiment.arms:
            raise RuleError("arm", f"be one of {', '.join(fold.experiment.arms)}", arm)
        values = self._checked(outcome)
        for guardrail in fold.experiment.guardrails:
            if guardrail.name not in values:
                raise RuleError("outcome", f"have a value of {guardrail.name}", outcome)
        if fold.policy is not None and not hasattr(fold.policy, "observe"):
            raise RuleError("policy", "be solb or colb to learn from observations", fold.experiment.policy)
        return Observed(arm, values)

    def expire(self, now: float) -> int:
        """Settle every decision that is due as the worst case; `decide` and `feedback` do so, too.

        Returns
        -------
        int
            How many decisions have timed out since the last call.
        """
        now = self._time(now)
        with self._lock:
            self._ready()
            ticket = self._append(self._expired(now, inclusive=True))
            count, self._timed_out = self._timed_out, 0
        self._wait(ticket)
        return count

    def _expired(self, now: float, inclusive: bool) -> list[Event]:
        events: list[Event] = []
        if now < self._fold.order.next_due:
            return events
        for i in self._fold.order.due_by(now, inclusive):
            self._timed_out += 1
            self._apply(Expired(i, now), events)
        return events

    # Operating.

    def status(self) -> Status:
        """The present state of the experiment."""
        with self._lock:
            self._ready()
            plan = self._current()
            return status_of(self._fold, plan.strategy, 1.0 - plan.weight)

    def hold(self, reason: str) -> None:
        """Serve the baseline until `resume`."""
        self._operate(Held(checked_text("reason", reason)))

    def stop(self, reason: str) -> None:
        """End the experiment: `decide` refuses from now on, feedback is still taken."""
        self._operate(Ended(checked_text("reason", reason)))

    def switch(self, mode: str, reason: str) -> None:
        """Begin or end shadow mode."""
        shadow = choice("mode", mode, ("live", "shadow")) == "shadow"
        self._operate(Switched(shadow, checked_text("reason", reason)))

    def resume(self, reason: str, experiment: Experiment | None = None) -> None:
        """End a hold.

        After an alarm about costs this begins a new epoch, which forgets what was learnt and spends a delta of its own.
        If the alarm was about the baseline, its costs are measured first, unless `experiment` states them again.
        """
        checked_text("reason", reason)
        with self._lock:
            self._ready()
            fold = self._fold
            if fold.held is None:
                raise RuleError("resume", "be called while the experiment is held", None, f"a call while {fold.state}")
            if experiment is not None:
                self._check_change(experiment)
            if experiment is None and not fold.alarmed & COST_ALARMS:
                if "horizon" in fold.alarmed:
                    raise RuleError("experiment", "be given, with another horizon, after the horizon is reached", None)
                ticket = self._operate_now(Resumed(reason))
            else:
                after = fold.experiment if experiment is None else experiment
                if experiment is None and fold.experiment.hard and "baseline" in fold.alarmed:
                    after = Experiment.from_dict({**after.to_dict(), "baseline_costs": None})
                ticket, _ = self._change(after, reason, True, Resumed(reason))
        self._wait(ticket)

    def change(self, experiment: Experiment, reason: str, keep: bool = True) -> bool:
        """Begin a new epoch with another experiment, and a delta of its own.

        What was learnt is replayed into it if it still means the same: the same quantities, or fewer, in the same
        directions and in ranges at least as wide, and no alarm about costs. A hold by `hold` goes on until `resume`.

        Parameters
        ----------
        keep
            False to forget what was learnt in any case, such as after a new release of what is behind an arm.

        Returns
        -------
        bool
            Whether what was learnt is kept.
        """
        checked_text("reason", reason)
        with self._lock:
            self._ready()
            self._check_change(experiment)
            ticket, kept = self._change(experiment, reason, keep)
        self._wait(ticket)
        return kept

    def _check_change(self, experiment: Any) -> None:
        if not isinstance(experiment, Experiment):
            raise RuleError("experiment", "be an Experiment", experiment)
        name = self._fold.experiment.name
        if experiment.name != name:
            raise RuleError("experiment", f"keep its name, {name!r}", experiment, repr(experiment.name))

    def _change(self, experiment: Experiment, reason: str, keep: bool, *after: Event) -> tuple[int, bool]:
        """Begin an epoch; returns the ticket, and whether what was learnt is kept."""
        kept = keep and not self._fold.alarmed & COST_ALARMS and means_the_same(self._fold.experiment, experiment)
        if self._fold.stopped is not None:
            raise Stopped(f"the experiment {experiment.name} was stopped: {self._fold.stopped}")
        tried = Fold(MemoryLog())  # whether the policy takes its options
        tried.apply(Created(experiment.to_dict(), "00", False, {}))
        tried.try_options()
        ticket = self._operate_now(Changed(self._fold.epoch + 1, experiment.to_dict(), kept, reason), *after)
        self._read_experiment()
        return ticket, kept

    def _operate(self, event: Event) -> None:
        with self._lock:
            self._ready()
            ticket = self._operate_now(event)
        self._wait(ticket)

    def _operate_now(self, *operations: Event) -> int:
        if self._fold.stopped is not None:
            raise Stopped(f"the experiment {self._fold.experiment.name} was stopped: {self._fold.stopped}")
        events: list[Event] = []
        for event in operations:
            self._apply(event, events)
        return self._append(events)

    def close(self) -> None:
        """Let go of the log; later calls are refused."""
        with self._lock:
            self._broken = self._broken or ValueError("it was closed")
            self._log.close()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Events.

    def _apply(self, event: Event, events: list[Event]) -> None:
        """Apply an event and everything that follows from it; all of it is added to the events to write."""
        fold, before = self._fold, len(events)
        if type(event) is not Decided:  # which changes nothing that is drawn from
            self._plan = None
        try:
            events.append(event)
            fold.unwritten = events
            for one in fold.apply(event):
                if not fold.has(one):
                    self._apply(one, events)
        except BaseException as error:
            self._broken = error  # the state may be half changed, and what is in the log is right
            del events[before:]
            raise

    def _append(self, events: Sequence[Event]) -> int:
        """Write events; returns the ticket that the answer must wait for.

        An answer without events repeats an earlier one, which another thread may still be writing.
        """
        self._fold.unwritten = ()
        if not events:
            return self._ticket
        try:
            self._ticket = self._log.append(events, self._fold.take_rounds())
        except BaseException as error:
            self._broken = error  # the state is ahead of the log
            raise
        due = max(CHECKPOINT_EVERY, 4 * len(self._fold.order.open))
        if self._log.durable and self._fold.last - self._checkpointed >= due:
            self._checkpointed = self._fold.last
            self._log.save_checkpoint(self._fold.last, self._fold.to_bytes())
        return self._ticket

    def _wait(self, ticket: int) -> None:
        if ticket and self._log.durable:
            try:
                self._log.wait(ticket)
            except BaseException as error:
                self._broken = error
                raise

    def _ready(self) -> None:
        if self._broken is not None:
            kind = LogFailure if isinstance(self._broken, LogFailure) else RuntimeError
            raise kind(f"this experiment must be opened again: {self._broken}") from self._broken

    # Names.

    def _id(self, i: int) -> str:
        return id_of(self._prefix, i)

    def _choice(self, one: Decided) -> Choice:
        return Choice(self._id(one.number), one.arm, one.propensity, one.epoch, one.mode, one.due, one.would)

    def knows(self, id: str) -> bool:
        """Whether a decision with this id may have been made: later ones have been. The log is not read."""
        with self._lock:
            return self._possible(id) is not None

    def settled(self, ids: Iterable[str]) -> set[int]:
        """The numbers of those decisions that are known to the log alone, as nothing waits for them any more."""
        with self._lock:
            possible = (self._possible(id) for id in ids)
            return {i for i in possible if i is not None and i not in self._fold.order.open}

    def _possible(self, id: Any) -> int | None:
        i, order = number_in(id, self._prefix), self._fold.order
        return i if i is not None and (i < order.issued or (i >= ELSEWHERE and not order.is_new(i))) else None

    def _found(self, id: Any) -> int | None:
        i = self._possible(id)
        known = i is not None and (i < ELSEWHERE or i in self._fold.order.open or self._log.about(i))
        return i if known else None

    def _number(self, id: Any) -> int:
        """The number of a decision, from its id."""
        i = self._found(id)
        if i is not None:
            return i
        raise Unknown(f"no decision of {self._fold.experiment.name} has the id {shown(id)}")

    @staticmethod
    def _time(now: Any) -> float:
        return now if type(now) is float and -1e15 <= now <= 1e15 else float(number("now", now, TIME))

    def __repr__(self) -> str:
        return f"Live({self._fold.experiment.name!r}) {self._fold.state} at round {self._fold.rounds}"


def key_of(seed: int) -> str:
    """The key of the draws that belongs to a seed."""
    entropy = seed.to_bytes(64, "little").rstrip(b"\0")
    return hashlib.blake2b(entropy, digest_size=16, person=b"surefoot live").hexdigest()


def restored(log: Log) -> Fold:
    """The state at the last checkpoint; without one that can be read, the state before the first event."""
    saved = log.checkpoint()
    if saved is not None:
        with suppress(ValueError, KeyError, TypeError):  # it is not the truth: the events are
            fold = Fold.from_bytes(log, saved[1])
            if fold.last == saved[0]:
                return fold
    return Fold(log)


def warm(policy: str = "solb", options: Mapping[str, Any] | None = None) -> None:
    """Compile everything that a running experiment uses, by running one for a moment."""
    experiment = Experiment(
        "warm", arms=["a", "b"], objective=Minimise("loss"), guardrails=[AtMost("cost", 0.5)], baseline="b",
        baseline_costs={"cost": 0.1}, timeout=1.0, policy=policy, options=options, horizon=100,
    )  # fmt: skip
    live = Live(experiment, seed=1)
    live.feedback(live.decide(now=0.0).id, {"loss": 0.5, "cost": 0.0}, now=0.0)
    if hasattr(live._fold.policy, "observe"):
        live.observe("a", {"cost": 0.0})
    live.decide(now=1.0, arms=["b"])
    live.expire(now=9.0)
    Fold.from_bytes(live.log, live._fold.to_bytes())


def listed(name: str, items: Any) -> Iterable[Any]:
    """Return what is a list, or another iterable that is no text and no table."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise RuleError(name, "be a list", items)
    return items


def pair(name: str, of: str, item: Any) -> Sequence[Any]:
    """Return an item of two parts."""
    if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
        raise RuleError(name, f"be {of}", item)
    return item


def checked_text(name: str, value: Any) -> str:
    """Return a reason, key or unit: text that is neither empty nor too long."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT or not is_unicode(value):
        raise RuleError(name, f"be text of 1 to {LONGEST_TEXT} characters", value)
    return value


def is_unicode(text: str) -> bool:
    """True if the text can be written down: halves of characters cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def means_the_same(before: Experiment, after: Experiment) -> bool:
    """Whether outcomes of one experiment can be learnt in another."""
    old = {one.name: one for one in before.quantities}
    return type(after.objective) is type(before.objective) and all(
        one.name in old
        and one.less_is_better == old[one.name].less_is_better
        and one.low <= old[one.name].low
        and one.high >= old[one.name].high
        for one in after.quantities
    )
