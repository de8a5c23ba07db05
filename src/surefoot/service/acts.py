"""What can be asked of an experiment, by name, with JSON-able arguments and answers.

A request that comes over HTTP and one that another process has put into the inbox are carried out here alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from surefoot.experiments.errors import Conflict, Unknown
from surefoot.experiments.events import ELSEWHERE, Decided, number_in
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.live import Choice, Live, warm
from surefoot.rules import Range, RuleError, number
from surefoot.service.problems import Problem, problem_of
from surefoot.storage.keys import audit_row
from surefoot.storage.log import SqlLog

MOST_PENDING = 100_000
PREPARED: set[tuple[str, str]] = set()
"""Policies and options for which everything is compiled."""
SLOW = frozenset({"change", "resume"})
"""What may take long, as the log is read again or something is compiled."""


class Acts:
    """What can be asked of an experiment that is learnt in this process. Nothing here waits for the disk.

    Parameters
    ----------
    live
        The experiment.
    now
        The time of the request.
    who
        Who asks, as the audit names it.
    """

    def __init__(self, live: Live, now: float, who: str) -> None:
        self._live, self._now, self._who = live, now, who

    # Decisions and feedback.

    def decide(
        self, count: int = 1, arms: list[str] | None = None, unit: str | None = None, key: str | None = None
    ) -> list[dict[str, Any]]:
        """Make decisions."""
        check_pending(self._live.pending, count)
        try:
            choices: list[Choice] = self._live.decide(self._now, count, arms, key, unit)
        except Conflict as error:
            if key is None:
                raise
            raise Problem(422, "conflict", str(error), parameter="Idempotency-Key") from None
        return [choice._asdict() for choice in choices]

    def feedback(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Take feedback on some decisions, each on its own."""
        taken = self._live.feedback_many([(item["id"], item["outcome"]) for item in items], self._now)
        return [answered(item["id"], one) for item, one in zip(items, taken, strict=True)]

    def drawn(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Take in decisions that a client has drawn from the strategy, in their order."""
        found = [self._drawn(item) for item in items]
        good = [one for one in found if isinstance(one, Decided)]
        check_pending(self._live.pending, len(good))
        taken = iter(self._live.admit(good))
        return [
            answered(item["id"], next(taken) if isinstance(one, Decided) else one)
            for item, one in zip(items, found, strict=True)
        ]

    def _drawn(self, item: Mapping[str, Any]) -> Decided | Exception:
        i = number_in(item["id"], self._live.prefix)
        if i is None or i < ELSEWHERE:
            return Unknown(f"no block of {self._live.experiment.name} has the id {item['id']!r}")
        try:  # feedback on other decisions would wait for one that is due far away
            number("due", item["due"], Range(-1e15, self._now + self._live.experiment.timeout + 1.0))
        except RuleError as error:
            return error
        weight = 1.0 - item["safe_weight"]
        return Decided(i, item["arm"], item["propensity"], weight, item["mode"], item["epoch"], item["at"], item["due"])

    def cancel(self, id: str, reason: str) -> None:
        """Take back a decision."""
        with self._audited("cancel", reason, decision=id):
            self._live.cancel(id, reason)

    def observe(self, items: Sequence[Mapping[str, Any]], reason: str) -> int:
        """Learn from arms that were chosen elsewhere: all items, or none if one of them is wrong."""
        with self._audited("observe", reason, count=len(items)):
            self._live.observe_many([(item["arm"], item["outcome"]) for item in items])
        return len(items)

    # Operating.

    def hold(self, reason: str) -> dict[str, Any]:
        """Hold the experiment."""
        with self._audited("hold", reason):
            self._live.hold(reason)
        return self._state()

    def stop(self, reason: str) -> dict[str, Any]:
        """End the experiment."""
        with self._audited("stop", reason):
            self._live.stop(reason)
        return self._state()

    def switch(self, mode: str, reason: str) -> dict[str, Any]:
        """Begin or end shadow mode."""
        with self._audited(f"switch to {mode}", reason):
            self._live.switch(mode, reason)
        return self._state()

    def resume(self, reason: str, experiment: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """End a hold."""
        state = self._live.status().state
        if state not in ("held", "stopped"):
            name = self._live.experiment.name
            raise Conflict(f"the experiment {name} is {state}, and only one that is held can be resumed")
        after = None if experiment is None else Experiment.from_dict(experiment)
        if after is not None:
            prepare(after)
        with self._audited("resume", reason):
            self._live.resume(reason, after)
        return self._state()

    def change(self, fields: Mapping[str, Any], reason: str, keep: bool, epoch: str) -> dict[str, Any]:
        """Begin a new epoch, if the caller knows the present one."""
        current = self._live.status().epoch
        if epoch != str(current):
            raise Problem(412, "changed", f"the epoch is {current}, and If-Match is {epoch}", parameter="If-Match")
        experiment = Experiment.from_dict(self._live.experiment.to_dict() | dict(fields))
        prepare(experiment)
        with self._audited("change", reason, experiment=experiment.to_dict()):
            kept = self._live.change(experiment, reason, keep)
        return {"epoch": self._live.status().epoch, "kept": kept}

    def _state(self) -> dict[str, Any]:
        status = self._live.status()
        return {"name": status.name, "state": status.state, "epoch": status.epoch}

    @contextmanager
    def _audited(self, action: str, reason: str, **detail: Any) -> Iterator[None]:
        """What is changed inside goes into the audit, in the same commit; if nothing is, nothing does."""
        log = cast(SqlLog, self._live.log)
        log.beside = [audit_row(self._now, self._who, action, self._live.experiment.name, reason, detail)]
        try:
            yield
        finally:
            log.beside = []


def ids_in(verb: str, arguments: Mapping[str, Any]) -> list[str]:
    """The decisions that a request is about."""
    if verb in ("feedback", "drawn"):
        return [item["id"] for item in arguments["items"]]
    return [arguments["id"]] if verb == "cancel" else []


def answered(id: str, found: str | Exception) -> dict[str, Any]:
    """What became of one item of many."""
    if isinstance(found, Exception):
        return {"id": id, "problem": problem_of(found).to_dict()}
    return {"id": id, "status": found}


def check_pending(pending: int, count: int) -> None:
    """Refuse decisions while too many wait for feedback."""
    if pending + count > MOST_PENDING:
        raise Problem(429, "too-many", f"{pending} decisions wait for feedback, and {MOST_PENDING} may", retry_after=1)


def prepare(experiment: Experiment) -> None:
    """Compile what an experiment will use, so that no request has to wait for it."""
    how = experiment.policy, json.dumps(dict(experiment.options), sort_keys=True, default=repr)
    if how not in PREPARED:
        warm(experiment.policy, experiment.options)
        PREPARED.add(how)
