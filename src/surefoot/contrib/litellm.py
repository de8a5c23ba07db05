"""Surefoot decides which deployments a LiteLLM Router may use, and learns from what they cost and answer.

One attempt is one decision. LiteLLM asks for the healthy deployments of a model before every attempt, so a retry or a
fallback is a new decision, and every attempt is reported for its own arm, whether it was answered or failed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

import litellm
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.utils import CallTypes

from surefoot.client import ArgumentError, AsyncClient, Decision, ServiceError, Stopped

HIDDEN = "surefoot_decision"
HEADER = "x-surefoot-decision"
LOOK_EVERY = 0.01

logger = logging.getLogger("surefoot.contrib.litellm")


class Answer(NamedTuple):
    """An attempt that was answered; a stream is answered when it has ended."""

    kwargs: Mapping[str, Any]  # of the call, as LiteLLM gives them to its loggers
    response: Any  # for a stream, the whole of it
    seconds: float  # from the decision to the end of the answer
    dollars: float  # NaN if LiteLLM does not know the price


@dataclass(eq=False)
class Attempt:
    """What travels with an attempt."""

    decision: Decision
    started: datetime

    def __deepcopy__(self, _: Any) -> Attempt:
        """The same attempt, however often LiteLLM copies a request: it is reported once."""
        return self


class Routing(CustomLogger):
    """Narrows the deployments of a model to those of the arm that Surefoot chooses, and reports what happens.

    Made by `attach`.
    """

    def __init__(
        self,
        client: AsyncClient,
        experiment: str,
        model: str,
        outcome: Callable[[Answer], Mapping[str, float | bool]],
        failed: Mapping[str, float | bool],
    ) -> None:
        super().__init__()
        self.experiment, self.model = experiment, model
        self._client, self._outcome, self._failed = client, outcome, failed
        self._arm_of: Mapping[str, str] = {}  # none until `_begin`: so nothing is served without a decision
        self._key = f"surefoot:{self.experiment}"
        self._told: set[str] = set()
        self._open: weakref.WeakSet[Attempt] = weakref.WeakSet()  # to be reported; requests may be given up

    async def _begin(self, router: litellm.Router, arms: Mapping[str, Sequence[str]]) -> None:
        """Check everything against the experiment and the router."""
        definition = (await self._client.status(self.experiment))["experiment"]
        ranges = ranges_of(definition)
        unknown = set(self._failed) - set(ranges)
        if unknown:
            raise ArgumentError(f"failed names {min(unknown)!r}, which {self.experiment} does not measure")
        arm_of = arms_of(arms, definition, self.model, router.get_model_list(model_name=self.model) or [])
        self._ranges = ranges
        self._failed = {**{name: worst for name, (_, _, worst) in ranges.items()}, **self._failed}
        baseline = definition["baseline"]
        self._baseline: dict[str, float] = {baseline: 1.0} if isinstance(baseline, str) else dict(baseline)
        self._arm_of = arm_of

    @classmethod
    async def attach(
        cls,
        router: litellm.Router,
        client: AsyncClient,
        experiment: str,
        *,
        model: str,
        arms: Mapping[str, Sequence[str]],
        outcome: Callable[[Answer], Mapping[str, float | bool]],
        failed: Mapping[str, float | bool] | None = None,
    ) -> Self:
        """Check everything, then decide for all calls of a model from now on.

        Parameters
        ----------
        router
            Call it with `acompletion`; `completion` is refused, as LiteLLM does not ask there.
        client
            Its key needs the roles decide, feedback and read.
        experiment
            The name of the experiment.
        model
            The model name (the group of deployments) that requests ask for.
        arms
            For every arm of the experiment, its deployments: each a `model_info` id, or the `model` of
            `litellm_params`, which stands for all deployments that have it. Every deployment belongs to one arm.
        outcome
            What to report of an attempt that was answered, in the units of the experiment. The application reports the
            quantities that it leaves out.
        failed
            What to report of an attempt that failed, where that is not the worst case: say what a failure costs.

        Raises
        ------
        ArgumentError
            The arms, their deployments or the names of quantities do not fit the experiment or the router.
        """
        taken = [one for one in litellm.callbacks if isinstance(one, Routing) and one.model == model]
        if taken:
            raise ArgumentError(f"model {model!r} is routed by the experiment {taken[0].experiment} already")
        routing = cls(client, experiment, model, outcome, failed or {})
        await routing._begin(router, arms)
        litellm.logging_callback_manager.add_litellm_callback(routing)
        if routing not in litellm.callbacks:
            raise ArgumentError("litellm.callbacks must have room for one more: LiteLLM did not take this one")
        return routing

    async def detach(self, timeout: float = 10.0) -> None:
        """End: wait for what is still to be reported, then let LiteLLM route by itself, without guardrails.

        Parameters
        ----------
        timeout
            Seconds to wait. What is not answered by then is not reported.
        """
        until = time.monotonic() + timeout
        while self._open and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY)
        litellm.logging_callback_manager.remove_callback_from_all_lists(self)

    # Deciding.

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """The healthy deployments of the arm that is chosen among those that have any."""
        if model != self.model:
            return healthy_deployments
        available: dict[str, list[dict[str, Any]]] = {}
        for deployment in healthy_deployments:
            arm = self._arm_of.get(deployment["model_info"]["id"])
            if arm is not None:
                available.setdefault(arm, []).append(deployment)
        if not available or request_kwargs is None:
            return []  # LiteLLM says why there is none
        try:
            decision = await self._decide(list(available))
        except ServiceError as error:
            raise litellm.ServiceUnavailableError(
                f"no arm of {self.experiment} may be served: {error}", llm_provider="surefoot", model=model
            ) from error
        # In the arguments of this attempt, which no other has. The metadata may be shared by many requests.
        request_kwargs[self._key] = Attempt(decision, datetime.now())
        return available[decision.arm]

    async def _decide(self, arms: list[str]) -> Decision:
        try:
            return await self._client.decide(self.experiment, arms=arms)
        except Stopped as error:
            self._tell_once("stopped", f"the baseline of {self.experiment} is served from now on: {error}")
            missing = [arm for arm, share in self._baseline.items() if share > 0.0 and arm not in arms]
            if missing:
                raise
            (arm,) = random.choices(list(self._baseline), list(self._baseline.values()))
            return Decision(None, arm, self._baseline[arm], None, "safe", None, logged=False)

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        """Let the decision travel on, to the loggers, in metadata that this attempt alone has."""
        attempt = kwargs.pop(self._key, None)
        arm = self._arm_of.get((kwargs.get("model_info") or {}).get("id", ""))
        if attempt is not None and attempt.decision.arm == arm and call_type == CallTypes.acompletion:
            kwargs["metadata"] = {**(kwargs.get("metadata") or {}), self._key: attempt}
            if attempt.decision.logged:
                self._open.add(attempt)
        elif (kwargs.get("litellm_metadata") or kwargs.get("metadata") or {}).get("model_group") == self.model:
            if attempt is not None and attempt.decision.logged:
                self._open.add(attempt)
                with suppress(ServiceError):  # it would time out as the worst case, and was never carried out
                    await self._cancel(attempt, f"{call_type} is refused")
            raise ArgumentError(f"{self.experiment} decides for acompletion only, and did not decide this {call_type}")
        return kwargs

    def pre_call_check(self, deployment: dict[str, Any]) -> None:
        """Refuse calls that LiteLLM routes without asking."""
        if deployment.get("model_name") == self.model:
            raise ArgumentError(f"{self.experiment} decides for acompletion only: LiteLLM does not ask in completion")

    # Reporting.

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: datetime
    ) -> None:
        """Report an attempt that was answered."""
        attempt = self._attempt(kwargs.get("litellm_params"))
        if attempt is None:
            return
        if kwargs.get("cache_hit"):
            await self._cancel(attempt, "LiteLLM's cache had the answer")
            return
        cost, seconds = kwargs.get("response_cost"), (end_time - attempt.started).total_seconds()
        answer = Answer(kwargs, response_obj, seconds, math.nan if cost is None else float(cost))
        await self._report(attempt, lambda: self._outcome(answer))

    async def _cancel(self, attempt: Attempt, reason: str) -> None:
        """Take back a decision that was not carried out; from the cache comes an answer that may be of another arm."""
        if attempt in self._open and attempt.decision.id is not None:
            try:
                await self._client.cancel(attempt.decision.id, reason)
            finally:
                self._open.discard(attempt)

    async def async_post_call_failure_deployment_hook(
        self, request_data: Any, exception: Exception, call_type: Any, fallback_depth: int | None = None
    ) -> None:
        """Report an attempt that failed."""
        await self._report(self._attempt(request_data), lambda: self._failed)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Report a stream that broke off; other failures were reported by then."""
        await self._report(self._attempt(kwargs.get("litellm_params")), lambda: self._failed)

    def _attempt(self, call: Mapping[str, Any] | None) -> Attempt | None:
        return ((call or {}).get("metadata") or {}).get(self._key)

    async def _report(self, attempt: Attempt | None, outcome: Callable[[], Mapping[str, float | bool]]) -> None:
        if attempt is None or attempt not in self._open:
            return
        self._open.discard(attempt)
        try:
            await self._client.feedback(attempt.decision.id, self._within(outcome()))
        except Exception:
            logger.exception("decision %s is not reported, and counts as the worst case", attempt.decision.id)

    def _within(self, outcome: Mapping[str, float | bool]) -> dict[str, float | bool]:
        """The outcome, with what lies outside its range moved to the end of it, as the service would refuse it."""
        found = dict(outcome)
        for name, value in outcome.items():
            low, high, _ = self._ranges.get(name, (-math.inf, math.inf, 0.0))
            if value < low or value > high:
                found[name] = min(max(value, low), high)
                self._tell_once(name, f"{name} was {value:g}, and counts as {found[name]:g}, the end of its range")
        return found

    def _tell_once(self, what: str, sentence: str) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.warning(sentence)

    # For the application.

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        """Attach the decision to a response."""
        self._mark(response, self._attempt(request_data))

    async def async_post_call_streaming_deployment_hook(
        self, request_data: Any, response_chunk: Any, call_type: Any
    ) -> None:
        """Attach the decision to a chunk."""
        self._mark(response_chunk, self._attempt(request_data.get("litellm_params")))

    def _mark(self, response: Any, attempt: Attempt | None) -> None:
        hidden = getattr(response, "_hidden_params", None)
        if attempt is not None and hidden is not None:
            hidden[HIDDEN] = attempt.decision


class ProxyRouting(Routing):
    """`Routing` for LiteLLM's proxy: name it in `litellm_settings.callbacks`.

    The proxy makes its router after it has read its configuration, so everything is checked when the first request for
    the model comes. Until that has succeeded once, requests for the model fail, rather than being routed without
    guardrails. A response that is no stream has the id of its decision in the header `x-surefoot-decision`.

    Parameters
    ----------
    client, experiment, model, arms, outcome, failed
        As of `Routing.attach`.
    """

    def __init__(
        self,
        client: AsyncClient,
        experiment: str,
        *,
        model: str,
        arms: Mapping[str, Sequence[str]],
        outcome: Callable[[Answer], Mapping[str, float | bool]],
        failed: Mapping[str, float | bool] | None = None,
    ) -> None:
        super().__init__(client, experiment, model, outcome, failed or {})
        self._arms, self._lock = arms, asyncio.Lock()

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """As of `Routing`; first check everything, if that was not done before."""
        if model == self.model and not self._arm_of:
            async with self._lock:
                if not self._arm_of:
                    await self._begin_in_proxy()
        return await super().async_filter_deployments(
            model, healthy_deployments, messages, request_kwargs, parent_otel_span
        )

    async def _begin_in_proxy(self) -> None:
        from litellm.proxy.proxy_server import llm_router

        try:
            await self._begin(llm_router, self._arms)
        except (ArgumentError, ServiceError) as error:
            logger.error("model %s cannot be served: %s", self.model, error)
            raise litellm.ServiceUnavailableError(
                f"model {self.model} cannot be served: {error}", llm_provider="surefoot", model=self.model
            ) from error

    async def async_post_call_response_headers_hook(
        self, data: Any, user_api_key_dict: Any, response: Any, *_: Any, **__: Any
    ) -> dict[str, str] | None:
        """Tell the caller of the proxy under which id to report."""
        decision = decision_of(response)
        return None if decision is None or decision.id is None else {HEADER: decision.id}


def decision_of(response: Any) -> Decision | None:
    """The decision behind a response, or behind a chunk of a stream: report under its id."""
    found = (getattr(response, "_hidden_params", None) or {}).get(HIDDEN)
    return found if isinstance(found, Decision) else None


def ranges_of(definition: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """For each quantity of an experiment: its lowest, highest and worst value."""
    found = {}
    for one in (definition["objective"], *definition["guardrails"]):
        low, high = one.get("low", 0.0), one.get("high", 1.0)
        name = one.get("maximise") or one.get("minimise") or one["name"]
        found[name] = low, high, low if "maximise" in one or "at_least" in one else high
    return found


def arms_of(
    arms: Mapping[str, Sequence[str]], definition: Mapping[str, Any], model: str, deployments: Sequence[Any]
) -> dict[str, str]:
    """The arm of each deployment, by the id of the deployment."""
    name = definition["name"]
    for arm in arms:
        if arm not in definition["arms"]:
            raise ArgumentError(f"arms must be arms of {name}, which are {', '.join(definition['arms'])}, got {arm!r}")
    if not deployments:
        raise ArgumentError(f"model must be a model name of the router, got {model!r}")
    arm_of: dict[str, str] = {}
    for arm in definition["arms"]:
        if isinstance(arms.get(arm, ()), str) or not arms.get(arm):
            raise ArgumentError(f"arms[{arm!r}] must be a list of at least one deployment, got {arms.get(arm)!r}")
        for wanted in arms[arm]:
            ids = [one["model_info"]["id"] for one in deployments
                   if wanted in (one["model_info"]["id"], one["litellm_params"]["model"])]  # fmt: skip
            if not ids:
                raise ArgumentError(f"arms[{arm!r}] must name deployments of {model!r}, got {wanted!r}")
            for id in ids:
                if arm_of.setdefault(id, arm) != arm:
                    raise ArgumentError(
                        f"arms must not share deployments, got {wanted!r} in {arm_of[id]!r} and {arm!r}"
                    )
    for one in deployments:
        if one["model_info"]["id"] not in arm_of:
            raise ArgumentError(
                f"arms must name every deployment of {model!r}, and {one['model_info']['id']!r} is missing"
            )
    return arm_of
