"""What the service answers. A handler calls the engine, waits for the commit if anything changed, and answers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from surefoot.experiments.errors import Conflict, Stopped, Unknown
from surefoot.experiments.events import LogFailure
from surefoot.experiments.live import Choice, Live
from surefoot.experiments.status import Status
from surefoot.rules import RuleError
from surefoot.service import models
from surefoot.service.access import check_role
from surefoot.service.forecast import forecast
from surefoot.service.host import Host, prepare
from surefoot.service.metrics import Metrics
from surefoot.service.models import experiment_of, parse
from surefoot.service.problems import HEADERS, Problem, problem_of
from surefoot.service.rounds import settled_rounds
from surefoot.storage.keys import Key, read_audit

T = TypeVar("T")

MOST_BYTES = 1_000_000
MOST_PENDING = 100_000
LONGEST_POLL = 30.0
LOOK_EVERY = 0.1
LEASE = 60.0
LINES_AT_ONCE = 1_000
MOST_ENTRIES = 1_000
MOST_ROUNDS = 10**12


@dataclass
class Call:
    """A request whose key is valid."""

    request: Request
    key: Key

    @property
    def name(self) -> str:
        """The experiment in the path."""
        return str(self.request.path_params["name"])

    @property
    def who(self) -> str:
        """The caller, as the audit names it."""
        return f"{self.key.name} (key {self.key.id})"

    async def body(self, kind: type[T]) -> T:
        """The body, checked."""
        return parse(kind, await read_body(self.request))

    def query(self, name: str, default: T, allowed: Callable[[str], T | None]) -> T:
        """A query parameter; `allowed` returns None for what it refuses."""
        text = self.request.query_params.get(name)
        value = default if text is None else allowed(text)
        if value is None:
            raise Problem(422, "invalid", f"the query parameter {name} cannot be {text!r}", parameter=name)
        return value


Handler = Callable[[Call], Awaitable[Response]]


class Route(NamedTuple):
    """A route: for the server, and for the OpenAPI document."""

    method: str
    path: str
    handler: Handler
    summary: str
    roles: tuple[str, ...] = ()  # one of them is needed; none: anybody may call
    request: type[Any] | None = None
    response: Any = None
    status: int = 200
    parameters: tuple[str, ...] = ()  # names in `openapi.PARAMETERS`
    problems: tuple[int, ...] = ()  # beside those that every route has


def answer(data: Any, status: int = 200, **headers: str) -> Response:
    """Data as JSON."""
    return Response(msgspec.json.encode(data), status, HEADERS | headers, media_type="application/json")


class Routes:
    """All routes.

    Parameters
    ----------
    host
        The experiments.
    metrics
        What is counted.
    """

    def __init__(self, host: Host, metrics: Metrics) -> None:
        self.host, self.metrics = host, metrics

    def table(self) -> list[Route]:
        """Every route of the service, except that of the OpenAPI document."""
        m = models
        one, decision = "/v1/experiments/{name}", "/v1/decisions/{id}"
        read, admin, feedback = ("read",), ("admin",), ("feedback",)
        changing = (404, 409, 410, 422)
        return [
            Route("POST", "/v1/experiments", self.create, "Begin an experiment, or check one (dry_run)", admin,
                  m.ExperimentBody, m.Status, 201, ("dry_run", "mode"), (409, 422)),
            Route("GET", "/v1/experiments", self.list_all, "List experiments", read, None, m.Experiments),
            Route("GET", one, self.get, "The status of an experiment", read, None, m.Status, problems=(404,)),
            Route("PATCH", one, self.patch, "Change an experiment: begin a new epoch", admin, m.ChangeBody, m.Changed,
                  parameters=("If-Match",), problems=(*changing, 412, 428)),
            Route("POST", f"{one}/decisions", self.decide, "Decide", ("decide",), m.DecideBody, m.Decisions, 201,
                  ("Idempotency-Key",), changing),
            Route("GET", f"{one}/strategy", self.strategy, "The strategy, to draw from for a while",
                  ("read", "decide"), None, m.Strategy, parameters=("If-None-Match", "wait"), problems=(404, 422)),
            Route("POST", f"{one}/observations", self.observe, "Learn from arms that were chosen elsewhere", admin,
                  m.Observations, m.Counted, problems=changing),
            Route("POST", f"{one}/hold", self.hold, "Serve the baseline until resumed", admin, m.ReasonBody, m.Done,
                  problems=changing),
            Route("POST", f"{one}/resume", self.resume, "End a hold", admin, m.ResumeBody, m.Done, problems=changing),
            Route("POST", f"{one}/stop", self.stop, "End the experiment", admin, m.ReasonBody, m.Done,
                  problems=changing),
            Route("POST", f"{one}/switch", self.switch, "Begin or end shadow mode", admin, m.SwitchBody, m.Done,
                  problems=changing),
            Route("GET", f"{one}/rounds", self.rounds, "Settled rounds, one a line", read, None, m.Round,
                  parameters=("after", "limit"), problems=(404, 422)),
            Route("GET", f"{one}/alarms", self.alarms, "Alarms", read, None, m.Alarms, problems=(404,)),
            Route("GET", f"{one}/audit", self.audit, "Who changed the experiment", admin, None, m.Audit,
                  parameters=("after", "limit"), problems=(404, 422)),
            Route("GET", "/v1/audit", self.audit_all, "Who changed what", admin, None, m.Audit,
                  parameters=("after", "limit"), problems=(422,)),
            Route("POST", "/v1/hold", self.hold_all, "Hold every experiment", admin, m.ReasonBody, m.Held,
                  problems=(422,)),
            Route("PUT", f"{decision}/feedback", self.feedback, "Report what a decision led to", feedback,
                  m.FeedbackBody, m.Taken, problems=(404, 409, 422)),
            Route("POST", "/v1/feedback", self.feedback_many, "Report on many decisions", feedback, m.FeedbackBatch,
                  m.TakenItems, problems=(422,)),
            Route("POST", f"{decision}/cancel", self.cancel, "Take back a decision that was never carried out",
                  feedback, m.ReasonBody, None, 204, problems=(404, 409, 422)),
            Route("POST", "/ofrep/v1/evaluate/flags/{name}", self.evaluate, "OFREP: evaluate a flag", ("decide",),
                  m.EvaluationBody, m.Evaluation),
            Route("GET", "/healthz", self.health, "The process is alive", (), None, m.Health),
            Route("GET", "/readyz", self.readiness, "The service answers requests", (), None, m.Health),
            Route("GET", "/metrics", self.measure, "Metrics for Prometheus"),
        ]  # fmt: skip

    # Experiments.

    async def create(self, call: Call) -> Response:
        """Begin an experiment, or only check it."""
        dry = call.query("dry_run", False, lambda text: {"true": True, "false": False}.get(text))
        mode = call.query("mode", "live", lambda text: text if text in ("live", "shadow") else None)
        experiment = experiment_of(await call.body(models.ExperimentBody))
        check_role(call.key, ("admin",), experiment.name)
        if dry:
            await asyncio.to_thread(prepare, experiment)
            return answer({"experiment": experiment.to_dict(), "forecast": forecast(experiment)})
        live = await self.host.create(experiment, mode, call.who)
        return self._status(live, 201)

    async def list_all(self, call: Call) -> Response:
        """List the experiments that the key may read."""
        lives = [live for name, live in self.host.lives.items() if call.key.experiment in (None, name)]
        found = await asyncio.to_thread(lambda: [summary(live.status()) for live in lives])
        return answer({"experiments": found})

    async def get(self, call: Call) -> Response:
        """The status of an experiment."""
        return self._status(await self.host.open(call.name))

    def _status(self, live: Live, status: int = 200) -> Response:
        found = live.status()
        return answer({**found.to_dict(), "experiment": live.experiment.to_dict()}, status, ETag=f'"{found.epoch}"')

    async def patch(self, call: Call) -> Response:
        """Begin a new epoch."""
        body = await call.body(models.ChangeBody)
        live = await self.host.open(call.name)
        check_epoch(call.request, live.status().epoch)
        experiment = experiment_of(body, live.experiment)

        def begin() -> bool:
            prepare(experiment)
            return live.change(experiment, body.reason, body.keep)

        kept = await self.host.change(live, call.who, "change", body.reason, begin, experiment=experiment.to_dict())
        epoch = live.status().epoch
        return answer({"epoch": epoch, "kept": kept}, ETag=f'"{epoch}"')

    async def strategy(self, call: Call) -> Response:
        """The strategy; with If-None-Match and `wait`, when it has changed."""
        wait = call.query("wait", 0.0, number_up_to(LONGEST_POLL))
        seen = [tag.strip() for tag in call.request.headers.get("if-none-match", "").split(",")]
        until = asyncio.get_running_loop().time() + wait
        while True:
            snapshot = (await self.host.open(call.name)).snapshot(self.host.now(), LEASE)
            await self.host.durable()  # nobody draws from what may be forgotten
            parts = f"{snapshot.epoch} {snapshot.mode} {snapshot.weight}".encode() + snapshot.strategy.tobytes()
            tag = f'"{hashlib.blake2b(parts, digest_size=12).hexdigest()}"'
            if tag not in seen:
                break
            if asyncio.get_running_loop().time() >= until:
                return Response(None, 304, HEADERS | {"ETag": tag})
            await asyncio.sleep(LOOK_EVERY)
        found = {
            "strategy": dict(zip(snapshot.arms, snapshot.strategy.tolist(), strict=True)),
            "safe_weight": 1.0 - snapshot.weight, "epoch": snapshot.epoch, "rounds": snapshot.seq,
            "mode": snapshot.mode, "lease": snapshot.lease,
        }  # fmt: skip
        return answer(found, ETag=tag)

    # Decisions and feedback.

    async def decide(self, call: Call) -> Response:
        """Make decisions."""
        body = await call.body(models.DecideBody)
        key = call.request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key.strip()) <= len(key) <= 500:
            raise Problem(422, "invalid", "the header must have 1 to 500 characters", parameter="Idempotency-Key")
        live = await self.host.open(call.name)
        choices = self._decide(live, body.count, body.arms, body.unit, key)
        await self.host.durable()
        return answer({"decisions": [decision(choice) for choice in choices]}, 201)

    def _decide(
        self, live: Live, count: int, arms: list[str] | None, unit: str | None, key: str | None = None
    ) -> list[Choice]:
        if live.pending + count > MOST_PENDING:
            raise Problem(
                429, "too-many", f"{live.pending} decisions wait for feedback, and {MOST_PENDING} may", retry_after=1
            )
        try:
            choices: list[Choice] = live.decide(self.host.now(), count, arms, key, unit)
        except Conflict as error:
            if key is None:
                raise
            raise Problem(422, "conflict", str(error), parameter="Idempotency-Key") from None
        for choice in choices:
            self.metrics.decisions.labels(live.experiment.name, choice.mode).inc()
        return choices

    def _deciding(self, call: Call, id: str) -> str:
        """The experiment that made a decision, if the key is for it; else no such decision is known."""
        name = self.host.name_of(id)
        if call.key.experiment not in (None, name):
            raise Unknown(f"there is no decision {id!r}")
        return name

    async def feedback(self, call: Call) -> Response:
        """Take feedback on a decision."""
        body, id = await call.body(models.FeedbackBody), call.request.path_params["id"]
        live = await self.host.open(self._deciding(call, id))
        status = live.feedback(id, body.outcome, self.host.now())
        await self.host.durable()
        self.metrics.feedback.labels(live.experiment.name, status).inc()
        return answer({"status": status})

    async def feedback_many(self, call: Call) -> Response:
        """Take feedback on many decisions, each on its own."""
        body = await call.body(models.FeedbackBatch)
        await self.host.idle(*self.host.lives)
        found = [self._take(call, item) for item in body.items]
        await self.host.durable()
        return answer({"items": found})

    def _take(self, call: Call, item: models.FeedbackItem) -> dict[str, Any]:
        try:
            live = self.host.live(self._deciding(call, item.id))
            status = live.feedback(item.id, item.outcome, self.host.now())
        except LogFailure:
            raise
        except (Problem, Unknown, Conflict, RuleError) as error:
            return {"id": item.id, "problem": problem_of(error).to_dict()}
        self.metrics.feedback.labels(live.experiment.name, status).inc()
        return {"id": item.id, "status": status}

    async def cancel(self, call: Call) -> Response:
        """Take back a decision."""
        body, id = await call.body(models.ReasonBody), call.request.path_params["id"]
        live = await self.host.open(self._deciding(call, id))
        with self.host.audited(live, call.who, "cancel", body.reason, decision=id):
            live.cancel(id, body.reason)
        await self.host.durable()
        return Response(None, 204, HEADERS)

    async def observe(self, call: Call) -> Response:
        """Learn from arms that were chosen elsewhere: all items, or none if one of them is wrong."""
        body = await call.body(models.Observations)
        live = await self.host.open(call.name)
        with self.host.audited(live, call.who, "observe", body.reason, count=len(body.items)):
            live.observe_many([(item.arm, item.outcome) for item in body.items])
        await self.host.durable()
        return answer({"count": len(body.items)})

    # Operating.

    async def hold(self, call: Call) -> Response:
        """Hold an experiment."""
        body = await call.body(models.ReasonBody)
        return await self._operate(call, "hold", body.reason, lambda live: live.hold(body.reason))

    async def stop(self, call: Call) -> Response:
        """End an experiment."""
        body = await call.body(models.ReasonBody)
        return await self._operate(call, "stop", body.reason, lambda live: live.stop(body.reason))

    async def switch(self, call: Call) -> Response:
        """Begin or end shadow mode."""
        body = await call.body(models.SwitchBody)
        return await self._operate(call, f"switch to {body.mode}", body.reason,
                                   lambda live: live.switch(body.mode, body.reason))  # fmt: skip

    async def resume(self, call: Call) -> Response:
        """End a hold."""
        body = await call.body(models.ResumeBody)
        after = None if body.experiment is None else experiment_of(body.experiment)
        live = await self.host.open(call.name)
        state = live.status().state
        if state not in ("held", "stopped"):
            raise Conflict(f"the experiment {call.name} is {state}, and only one that is held can be resumed")

        def begin() -> None:
            if after is not None:
                prepare(after)
            live.resume(body.reason, after)

        await self.host.change(live, call.who, "resume", body.reason, begin)
        return done(live)

    async def _operate(self, call: Call, action: str, reason: str, work: Callable[[Live], None]) -> Response:
        live = await self.host.open(call.name)
        with self.host.audited(live, call.who, action, reason):
            work(live)
        await self.host.durable()
        return done(live)

    async def hold_all(self, call: Call) -> Response:
        """Hold every experiment that is not stopped."""
        check_role(call.key, ("admin",), None)
        body = await call.body(models.ReasonBody)
        held = []
        for name in list(self.host.lives):
            live = await self.host.open(name)
            with self.host.audited(live, call.who, "hold", body.reason):
                try:
                    live.hold(body.reason)
                except Stopped:
                    continue
            held.append(name)
        await self.host.durable()
        return answer({"held": held})

    # Reading.

    async def alarms(self, call: Call) -> Response:
        """All alarms of an experiment."""
        return answer({"alarms": (await self.host.open(call.name)).status().to_dict()["alarms"]})

    async def rounds(self, call: Call) -> Response:
        """The settled rounds after a number, one a line."""
        after, limit = page(call, MOST_ROUNDS)
        live = await self.host.open(call.name)
        source = islice(settled_rounds(live.log, live.prefix), after, after + limit)
        first = await asyncio.to_thread(lines, source)  # an error comes before the answer begins

        async def body() -> AsyncIterator[bytes]:
            chunk = first
            while chunk:
                yield chunk
                chunk = await asyncio.to_thread(lines, source)

        return StreamingResponse(body(), 200, HEADERS, media_type="application/x-ndjson")

    async def audit(self, call: Call) -> Response:
        """Who changed an experiment."""
        await self.host.open(call.name)
        return await self._audit(call, call.name)

    async def audit_all(self, call: Call) -> Response:
        """Who changed what."""
        check_role(call.key, ("admin",), None)
        return await self._audit(call, None)

    async def _audit(self, call: Call, name: str | None) -> Response:
        after, limit = page(call, MOST_ENTRIES)
        entries = await asyncio.to_thread(read_audit, self.host.database, name, after, limit)
        return answer({"entries": entries})

    async def health(self, _: Call) -> Response:
        """The process is alive."""
        return answer({"status": "alive"})

    async def readiness(self, _: Call) -> Response:
        """The experiments are open."""
        self.host.check_ready()
        return answer({"status": "ready"})

    async def measure(self, _: Call) -> Response:
        """Metrics for Prometheus."""
        text = await asyncio.to_thread(self.metrics.text)
        return Response(text, 200, HEADERS, media_type="text/plain; version=0.0.4; charset=utf-8")

    # OFREP.

    async def evaluate(self, call: Call) -> Response:
        """Decide for an OpenFeature client: the flag is the experiment, the targeting key is the unit."""
        try:
            context = (await call.body(models.EvaluationBody)).context
            unit = context.get("targetingKey")
            if unit is not None and not isinstance(unit, str):
                return evaluation_failure(call.name, 400, "INVALID_CONTEXT", "targetingKey must be text")
            choice = self._decide(await self.host.open(call.name), 1, None, unit)[0]
        except Unknown as error:
            return evaluation_failure(call.name, 404, "FLAG_NOT_FOUND", str(error))
        except RuleError as error:
            return evaluation_failure(call.name, 400, "INVALID_CONTEXT", str(error))
        except Stopped as error:
            return evaluation_failure(call.name, 400, "GENERAL", str(error))
        except Problem as error:
            if error.status not in (400, 422):
                raise
            return evaluation_failure(call.name, 400, "PARSE_ERROR", error.detail)
        await self.host.durable()
        metadata = {"id": choice.id, "propensity": choice.propensity, "epoch": choice.epoch, "mode": choice.mode,
                    "due": choice.due}  # fmt: skip
        return answer({
            "key": call.name, "value": choice.arm, "variant": choice.arm,
            "reason": "SPLIT" if choice.mode == "live" else "DEFAULT", "metadata": metadata,
        })  # fmt: skip


async def read_body(request: Request) -> bytes:
    """The body of a request, if it is not too large."""
    announced = request.headers.get("content-length", "0")
    body = b""
    if not announced.isdigit() or int(announced) <= MOST_BYTES:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                break
        else:
            return body
    raise Problem(413, "too-large", f"a body may have {MOST_BYTES} bytes")


def decision(choice: Choice) -> dict[str, Any]:
    """A decision; what the policy would have served is there in shadow mode only."""
    return {name: value for name, value in choice._asdict().items() if value is not None}


def done(live: Live) -> Response:
    """The state that an experiment is in after an operation."""
    status = live.status()
    return answer({"name": status.name, "state": status.state, "epoch": status.epoch})


def summary(status: Status) -> dict[str, Any]:
    """An experiment in a list."""
    names = ("name", "state", "epoch", "rounds", "pending")
    return {**{name: getattr(status, name) for name in names}, "alarms": len(status.alarms)}


def check_epoch(request: Request, epoch: int) -> None:
    """Refuse a change of an experiment that has changed since the caller read it."""
    told = request.headers.get("if-match")
    if told is None:
        raise Problem(428, "condition", "send the epoch that you have read as If-Match", parameter="If-Match")
    if told.strip().strip('"') != str(epoch):
        raise Problem(412, "changed", f"the epoch is {epoch}, and If-Match is {told}", parameter="If-Match")


def number_up_to(most: float) -> Callable[[str], float | None]:
    """Reads a number from 0 to `most`."""

    def read(text: str) -> float | None:
        try:
            number = float(text)
        except ValueError:
            return None
        return number if 0.0 <= number <= most else None

    return read


def whole(text: str) -> int | None:
    """Reads a whole number from 0 on."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def page(call: Call, most: int) -> tuple[int, int]:
    """The query parameters `after` and `limit`; by default, and at most, `most` are returned."""
    return call.query("after", 0, whole), min(most, call.query("limit", most, whole))


def lines(source: Iterator[dict[str, Any]]) -> bytes:
    """The next lines of rounds."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in islice(source, LINES_AT_ONCE))


def evaluation_failure(flag: str, status: int, code: str, details: str) -> Response:
    """OFREP: why there is no answer."""
    return answer({"key": flag, "errorCode": code, "errorDetails": details}, status)
