"""All verbs in any order, as in tests/experiments/test_machine.py, over HTTP: the same rules and the same model."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

import surefoot as sf
from surefoot.experiments.live import Live
from surefoot.service import learning as learning_module
from surefoot.service.acts import Acts
from surefoot.service.elsewhere import LEASE
from surefoot.storage.log import SqlLog
from tests.experiments.model import cost
from tests.experiments.test_machine import CHANCE, FUZZ, Machine, assert_safe, walk
from tests.service.conftest import Api, Clock, started
from tests.service.test_openapi import DOCUMENT

ERRORS: dict[tuple[int, str], Callable[[str], Exception]] = {
    (404, "unknown"): sf.Unknown,
    (409, "conflict"): sf.Conflict,
    (422, "conflict"): sf.Conflict,
    (409, "unavailable"): sf.Unavailable,
    (410, "stopped"): sf.Stopped,
    (422, "invalid"): lambda detail: sf.RuleError("the request", "be valid", None, detail),
    (412, "changed"): LookupError,
    (428, "condition"): KeyError,
}
"""What a problem is in Python; none of the others may come up here."""


ONE, DECISION = "/v1/experiments/{name}", "/v1/decisions/{id}"


class Remote:
    """The verbs of `sf.Live`, over HTTP. What the service keeps to itself is read from the experiment behind it."""

    def __init__(self, api: Api, experiment: sf.Experiment) -> None:
        self.api, self.name = api, experiment.name
        self.call("POST", "/v1/experiments", experiment.to_dict())

    def __getattr__(self, name: str) -> Any:
        if name not in ("_fold", "_narrowed", "log"):
            raise AttributeError(name)
        return getattr(self.api.host.lives[self.name], name)

    def call(
        self, method: str, path: str, body: Any = None, now: float | None = None, id: str = "", **headers: str
    ) -> Any:
        """A request; its answer must be one that is described. A problem is raised as an error."""
        if now is not None:
            self.api.clock.time = now
        answer = self.api(method, path.format(name=self.name, id=id), body, **headers)
        described = DOCUMENT["paths"][path][method.lower()]["responses"][str(answer.status_code)]
        if answer.status_code < 400:
            return answer
        assert answer.headers["content-type"] in described["content"]
        error = error_of(answer.json())
        if isinstance(error, sf.Conflict):
            assert (answer.status_code == 422) == ("Idempotency_Key" in headers)
        raise error

    def decide(
        self,
        now: float,
        n: int | None = None,
        arms: Sequence[str] | None = None,
        key: str | None = None,
        unit: str | None = None,
        snapshot: None = None,
    ) -> Any:
        body = {"count": n, "arms": arms, "unit": unit}
        body = {name: value for name, value in body.items() if value is not None}
        headers = {} if key is None else {"Idempotency_Key": key}
        answer = self.call("POST", f"{ONE}/decisions", body, now, **headers)
        choices = [sf.Choice(**one) for one in answer.json()["decisions"]]
        return choices[0] if n is None else choices

    def feedback(self, id: str, outcome: Mapping[str, Any], now: float) -> str:
        return str(self.call("PUT", f"{DECISION}/feedback", {"outcome": outcome}, now, id).json()["status"])

    def feedback_many(self, items: Sequence[tuple[str, Any]], now: float) -> list[str | Exception]:
        body = {"items": [{"id": id, "outcome": outcome} for id, outcome in items]}
        found = self.call("POST", "/v1/feedback", body, now).json()["items"]
        assert [one["id"] for one in found] == [id for id, _ in items]
        return [one["status"] if "status" in one else error_of(one["problem"]) for one in found]

    def cancel(self, id: str) -> None:
        self.call("POST", f"{DECISION}/cancel", {"reason": "not carried out"}, id=id)

    def observe(self, arm: str, outcome: Mapping[str, Any]) -> None:
        body = {"items": [{"arm": arm, "outcome": outcome}], "reason": "seen elsewhere"}
        assert self.call("POST", f"{ONE}/observations", body).json() == {"count": 1}

    def change(self, experiment: sf.Experiment, reason: str, keep: bool) -> bool:
        body = {**experiment.to_dict(), "reason": reason, "keep": keep}
        del body["name"]
        return bool(self.call("PATCH", ONE, body, If_Match=f'"{self._fold.epoch}"').json()["kept"])

    def hold(self, reason: str) -> None:
        self.call("POST", f"{ONE}/hold", {"reason": reason})

    def resume(self, reason: str) -> None:
        self.call("POST", f"{ONE}/resume", {"reason": reason})

    def stop(self, reason: str) -> None:
        self.call("POST", f"{ONE}/stop", {"reason": reason})

    def switch(self, mode: str, reason: str) -> None:
        self.call("POST", f"{ONE}/switch", {"mode": mode, "reason": reason})

    def expire(self, now: float) -> None:
        """What the service does four times a second."""

        async def tick() -> None:
            self.api.host.lives[self.name].expire(now)
            await self.api.host.durable()

        self.api.clock.time = now
        assert self.api.client.portal is not None
        self.api.client.portal.call(tick)

    def status(self) -> Any:
        return SimpleNamespace(**self.call("GET", ONE).json())

    def rounds(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.call("GET", f"{ONE}/rounds").text.splitlines()]


def error_of(problem: Mapping[str, Any]) -> Exception:
    """The error that a problem is in Python."""
    return ERRORS[problem["status"], problem["type"].removeprefix("urn:surefoot:")](problem["detail"])


class HttpMachine(Machine):
    """The machine with the service between it and the experiment. Time stands still unless the machine moves it."""

    storage, fewest = "http", 1
    weights = {**Machine.weights, "out_of_date": 1}  # noqa: RUF012

    def start(self, experiment: sf.Experiment, seed: int) -> None:
        self.still = mock.patch.object(learning_module, "EXPIRE_EVERY", 1e6)
        self.still.start()
        self.clock, self.key = Clock(), ""
        self.serve()
        with mock.patch.object(os, "urandom", lambda n: bytes([seed]) * n):  # the draws are the same in every run
            self.live = Remote(self.api, experiment)
        self.log = self.live.log

    def serve(self) -> None:
        self.service = contextmanager(started)(str(self.folder / "surefoot.db"), self.clock, self.key, rate=1e9)
        self.api = self.service.__enter__()
        self.key = self.api.key

    def end(self) -> None:
        self.service.__exit__(None, None, None)
        self.still.stop()

    # What differs.

    @rule()
    def expire(self, _: Any = None) -> None:
        self.model.expire(self.now, inclusive=True)
        self.live.expire(self.now)

    @rule(rng=CHANCE)
    def take_snapshot(self, rng: Random) -> None:
        """The strategy for those who draw by themselves, which is never passed to `decide` over HTTP."""
        if self.model.stopped:
            self.refused(sf.Stopped, lambda: self.live.call("GET", f"{ONE}/strategy", now=self.now))
            return
        answer = self.live.call("GET", f"{ONE}/strategy", now=self.now)
        found, plan = answer.json(), self.live._narrowed(None)
        assert list(found["strategy"].items()) == list(zip(self.model.experiment.arms, plan.strategy.tolist()))
        assert (found["epoch"], found["rounds"], found["mode"]) == (self.model.epoch, self.model.rounds, plan.mode)
        assert found["lease"] == self.now + LEASE
        tag = answer.headers["etag"]
        assert self.live.call("GET", f"{ONE}/strategy", If_None_Match=tag).status_code == 304

    @rule(rng=CHANCE)
    def crash(self, rng: Random) -> None:
        """The service is closed, and starts again on its database."""
        before = self.live._fold.digest()
        self.service.__exit__(None, None, None)
        self.serve()
        self.live.api = self.api
        self.log = self.live.log
        assert self.live._fold.digest() == before

    @rule(rng=CHANCE)
    def out_of_date(self, rng: Random) -> None:
        """A change by somebody who has read another epoch, or none."""
        body, epoch = {"delta": 0.01, "reason": "careful"}, self.model.epoch
        told = rng.choice([f'"{epoch + 1}"', f'"{epoch - 1}"', "nonsense"])
        self.refused(LookupError, lambda: self.live.call("PATCH", ONE, body, If_Match=told), f"the epoch is {epoch}")
        self.refused(KeyError, lambda: self.live.call("PATCH", ONE, body))

    def wrong(self, id: str, now: float) -> dict[str, Any]:
        live, about_types = self.live, ("snapshot", "now", "reason", r"outcome\['quality'\] must be a number")
        return {
            **{key: call for key, call in super().wrong(id, now).items() if not key.startswith(about_types)},
            "Expected .* got `str`": lambda: live.feedback(id, {"quality": "1"}, now),
            "Expected `str` matching": lambda: live.hold(" "),
            "Expected `int` >= 1": lambda: live.decide(now, 0),
            "Expected `array` of length >= 1": lambda: live.feedback_many([], now),
        }

    def not_held(self, resume: Any) -> tuple[type[Exception], Any, str]:
        if self.model.stopped:
            return super().not_held(resume)
        return sf.Conflict, resume, "only one that is held can be resumed"

    # After every step.

    @invariant()
    def rounds_are_what_happened(self) -> None:
        """Numbered without a gap, each decision once, as the model has learnt them."""
        found, prefix, model = self.live.rounds(), self.live._fold.created.key[:8], self.model
        assert [one["seq"] for one in found] == list(range(1, len(found) + 1))
        expected = [
            {"id": None if number is None else f"{prefix}-{number}", "arm": arm, "source": source}
            for number, arm, source, _ in model.learnt
        ]
        assert [{name: one[name] for name in ("id", "arm", "source")} for one in found] == expected
        for one, told in zip(found, model.told, strict=True):
            loss, *costs = told.values()
            assert one["loss"] == (None if one["source"] == "observation" else loss)
            assert list(one["costs"].values()) == costs

    @invariant()
    def limits_hold_at_the_upper_bounds(self) -> None:
        """By what the status tells, in natural units."""
        status, experiment = self.live.status(), self.model.experiment
        assert status.experiment == experiment.to_dict()
        policy = self.live._fold.policy
        if policy is None or not experiment.hard:  # the baseline is being measured, or the limits are soft
            return
        upper = []
        for one, told in zip(experiment.guardrails, status.guardrails, strict=True):
            worst = "upper" if one.less_is_better else "lower"
            upper.append([cost(one, told["arms"][arm][worst]) for arm in experiment.arms])
        thresholds = [one.threshold for one in experiment.guardrails]
        strategy = np.array(list(status.strategy.values()))
        assert_safe(strategy, experiment.safe_strategy, policy.problem.safe.costs, np.array(upper), thresholds)


def test_any_order_of_requests() -> None:
    examples = 150 if FUZZ else 8
    run_state_machine_as_test(HttpMachine, settings=settings(max_examples=examples, stateful_step_count=20))


def test_long_walks_over_http() -> None:
    for seed in range(2):
        walk(HttpMachine, Random().getrandbits(32) if FUZZ else seed, 80)


# The control: what is broken on purpose is found.


def taken_twice(acts: Any, items: Any) -> Any:
    """Feedback is taken twice."""
    FEEDBACK(acts, items)
    return FEEDBACK(acts, items)


def never_late(live: Any, items: Any, now: float) -> Any:
    """Feedback as if no time had passed."""
    return FEEDBACK_MANY(live, items, -1e9)


def unconditional(acts: Any, epoch: str, **rest: Any) -> Any:
    """A change whatever epoch the caller has read."""
    return CHANGE(acts, epoch=str(acts._live.status().epoch), **rest)


def told_twice(log: Any, after: int, limit: int) -> Any:
    """Rounds of which the first is there twice."""
    found = list(ROUNDS(log, after, limit))
    return iter(found[:1] + found)


FEEDBACK, CHANGE, FEEDBACK_MANY, ROUNDS = Acts.feedback, Acts.change, Live.feedback_many, SqlLog.rounds
BROKEN: dict[str, tuple[Any, str, Any]] = {
    "feedback is taken twice": (Acts, "feedback", taken_twice),
    "late feedback is accepted": (Live, "feedback_many", never_late),
    "If-Match is ignored": (Acts, "change", unconditional),
    "rounds are told twice": (SqlLog, "rounds", told_twice),
}


@pytest.mark.parametrize("name", BROKEN)
def test_walks_find_a_broken_service(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[name])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        walks()


def walks() -> None:
    for seed in range(10):
        walk(HttpMachine, seed, 40)
