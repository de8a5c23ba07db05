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

from surefoot.experiments.errors import Stopped, Unknown
from surefoot.experiments.events import ELSEWHERE, number_in
from surefoot.experiments.live import Live
from surefoot.rules import RuleError
from surefoot.service import models
from surefoot.service.access import check_role, check_still
from surefoot.service.acts import answered, prepare
from surefoot.service.elsewhere import LEASE
from surefoot.service.forecast import forecast
from surefoot.service.host import Host
from surefoot.service.metrics import Metrics
from surefoot.service.models import changes_of, experiment_of, parse
from surefoot.service.problems import HEADERS, Problem, pointing_into, problem_of
from surefoot.service.rounds import shown
from surefoot.storage.inbox import blocks_of, new_block
from surefoot.storage.keys import Key, read_audit

T = TypeVar("T")

MOST_BYTES = 1_000_000
LONGEST_POLL = 30.0
LOOK_EVERY = 0.1
LINES_AT_ONCE = 1_000
MOST_ENTRIES = 1_000
MOST_ROUNDS = 10**12
OFREP = {404: (404, "FLAG_NOT_FOUND"), 410: (400, "GENERAL"), 422: (400, "INVALID_CONTEXT")}
"""What the problems of a decision are called there: the status and the code."""


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


class Json(Response):
    """JSON, with the usual headers."""

    def init_headers(self, headers: Any = None) -> None:
        """Set the headers, most of which are always the same."""
        own = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self.raw_headers = [*USUAL, (b"content-length", str(len(self.body)).encode()), *own]


USUAL = [
    (name.lower().encode(), value.encode()) for name, value in {**HEADERS, "Content-Type": "application/json"}.items()
]


def answer(data: Any, status: int = 200, **headers: str) -> Response:
    """Data as JSON."""
    return Json(msgspec.json.encode(data), status, headers)


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
        self._blocks: set[tuple[str, int]] = set()  # who was given which

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
            Route("POST", f"{one}/blocks", self.new_block, "Ids for decisions that the caller draws", ("decide",),
                  m.Nothing, m.Block, 201, problems=(404, 422)),
            Route("POST", f"{one}/drawn", self.drawn, "Log decisions that the caller has drawn", ("decide",),
                  m.DrawnBody, m.LoggedItems, problems=(404, 422)),
            Route("GET", f"{one}/strategy", self.strategy, "The strategy, to draw from for a while",
                  ("read", "decide"), None, m.Strategy, parameters=("If-None-Match", "wait"), problems=(404, 410, 422)),
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
        body = await call.body(models.ExperimentBody)
        with pointing_into(msgspec.to_builtins(body)):
            experiment = experiment_of(body)
            check_role(call.key, ("admin",), experiment.name)
            if dry:
                await asyncio.to_thread(prepare, experiment)
                return answer({"experiment": experiment.to_dict(), "forecast": forecast(experiment)})
            return answer(await self.host.create(experiment, mode, call.who), 201, ETag='"0"')

    async def list_all(self, call: Call) -> Response:
        """List the experiments that the key may read."""
        self.host.check_ready()
        names = [name for name in self.host.names if call.key.experiment in (None, name)]
        found = [summary(await self.host.status(name)) for name in names]
        return answer({"experiments": found})

    async def get(self, call: Call) -> Response:
        """The status of an experiment."""
        found = await self.host.status(call.name)
        return answer(found, ETag=f'"{found["epoch"]}"')

    async def patch(self, call: Call) -> Response:
        """Begin a new epoch."""
        body = await call.body(models.ChangeBody)
        await self.host.find(call.name)
        told = call.request.headers.get("if-match")
        if told is None:
            raise Problem(428, "condition", "send the epoch that you have read as If-Match", parameter="If-Match")
        with pointing_into(msgspec.to_builtins(body)):
            found = await self.host.ask(
                call.name, "change", call.who, fields=changes_of(body), reason=body.reason, keep=body.keep,
                epoch=told.strip().strip('"'),
            )  # fmt: skip
        return answer(found, ETag=f'"{found["epoch"]}"')

    async def strategy(self, call: Call) -> Response:
        """The strategy; with If-None-Match and `wait`, when it has changed."""
        wait = call.query("wait", 0.0, number_up_to(LONGEST_POLL))
        seen = [tag.strip() for tag in call.request.headers.get("if-none-match", "").split(",")]
        until = asyncio.get_running_loop().time() + wait
        while True:
            found = await self.host.strategy(call.name)
            tag = f'"{hashlib.blake2b(msgspec.json.encode(found), digest_size=12).hexdigest()}"'
            if tag not in seen:
                break
            if asyncio.get_running_loop().time() >= until:
                return Response(None, 304, HEADERS | {"ETag": tag})
            await asyncio.sleep(LOOK_EVERY)
            check_still(call.key, self.host)
        lease = {"rounds": await self.host.learnt(call.name), "lease": self.host.now() + LEASE, "lease_seconds": LEASE}
        return answer({**found, **lease}, ETag=tag)

    # Decisions and feedback.

    async def decide(self, call: Call) -> Response:
        """Make decisions."""
        body = await call.body(models.DecideBody)
        key = call.request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key.strip()) <= len(key) <= 500:
            raise Problem(422, "invalid", "the header must have 1 to 500 characters", parameter="Idempotency-Key")
        found = await self._decide(call.name, body.count, body.arms, body.unit, key)
        return answer({"decisions": [decision(one) for one in found]}, 201)

    async def _decide(
        self, name: str, count: int, arms: list[str] | None, unit: str | None, key: str | None = None
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.host.ask(name, "decide", count=count, arms=arms, unit=unit, key=key)
        for one in found:
            self.metrics.decided(name, one["mode"])
        return found

    async def new_block(self, call: Call) -> Response:
        """Ids for decisions that the caller draws by itself."""
        await call.body(models.Nothing)
        found = await self.host.find(call.name)
        block = await asyncio.to_thread(new_block, self.host.database, call.who, self.host.now())
        timeout = found.experiment.timeout if isinstance(found, Live) else found.timeout
        return answer({"prefix": found.prefix, "block": block, "timeout": timeout}, 201)

    async def drawn(self, call: Call) -> Response:
        """Log decisions that the caller has drawn, in their order."""
        items = msgspec.to_builtins((await call.body(models.DrawnBody)).items)
        prefix = (await self.host.find(call.name)).prefix
        blocks = [(number_in(item["id"], prefix) or 0) // ELSEWHERE for item in items]
        mine = await self._blocks_of(call.who, {*blocks} - {0})
        own = [item for item, block in zip(items, blocks, strict=True) if block in mine]
        taken = iter(await self.host.ask(call.name, "drawn", items=own) if own else ())
        found = [
            next(taken) if block in mine else answered(item["id"], Unknown(f"no block of the key has {item['id']!r}"))
            for item, block in zip(items, blocks, strict=True)
        ]
        return answer({"items": found})

    async def _blocks_of(self, who: str, among: set[int]) -> set[int]:
        """Which of these blocks the caller was given: an id in another one would take the place of a decision there."""
        new = [block for block in among if (who, block) not in self._blocks]
        if new:
            given = await asyncio.to_thread(blocks_of, self.host.database, who, new)
            self._blocks |= {(who, block) for block in given}
        return {block for block in among if (who, block) in self._blocks}

    async def feedback(self, call: Call) -> Response:
        """Take feedback on a decision."""
        body = await call.body(models.FeedbackBody)
        item = {"id": call.request.path_params["id"], "outcome": body.outcome}
        (found,) = await self._feedback(self._deciding(call, item["id"]), [item])
        if "problem" in found:
            raise Problem.of(found["problem"])
        return answer({"status": found["status"]})

    async def feedback_many(self, call: Call) -> Response:
        """Take feedback on many decisions, each on its own."""
        body = await call.body(models.FeedbackBatch)
        items: list[dict[str, Any]] = msgspec.to_builtins(body.items)
        found: list[dict[str, Any]] = [{}] * len(items)
        places: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            try:
                places.setdefault(self._deciding(call, item["id"]), []).append(i)
            except Unknown as error:
                found[i] = answered(item["id"], error)
        taken = await asyncio.gather(
            *(self._feedback(name, [items[i] for i in some]) for name, some in places.items()), return_exceptions=True
        )
        for some, answers in zip(places.values(), taken, strict=True):
            if isinstance(answers, BaseException):
                if len(places) == 1 or not isinstance(answers, Exception):
                    raise answers
                answers = [answered(items[i]["id"], answers) for i in some]
            for i, one in zip(some, answers, strict=True):
                found[i] = one
        return answer({"items": found})

    async def _feedback(self, name: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.host.ask(name, "feedback", items=items)
        for one in found:
            if "status" in one:
                self.metrics.reported(name, one["status"])
        return found

    def _deciding(self, call: Call, id: str) -> str:
        """The experiment that made a decision, if the key is for it; else no such decision is known."""
        name = self.host.name_of(id)
        if call.key.experiment not in (None, name):
            raise Unknown(f"there is no decision {id!r}")
        return name

    async def cancel(self, call: Call) -> Response:
        """Take back a decision."""
        body, id = await call.body(models.ReasonBody), call.request.path_params["id"]
        await self.host.ask(self._deciding(call, id), "cancel", call.who, id=id, reason=body.reason)
        return Response(None, 204, HEADERS)

    async def observe(self, call: Call) -> Response:
        """Learn from arms that were chosen elsewhere: all items, or none if one of them is wrong."""
        body = await call.body(models.Observations)
        items = msgspec.to_builtins(body.items)
        count = await self.host.ask(call.name, "observe", call.who, items=items, reason=body.reason)
        return answer({"count": count})

    # Operating.

    async def hold(self, call: Call) -> Response:
        """Hold an experiment."""
        return await self._operate(call, "hold", models.ReasonBody)

    async def stop(self, call: Call) -> Response:
        """End an experiment."""
        return await self._operate(call, "stop", models.ReasonBody)

    async def switch(self, call: Call) -> Response:
        """Begin or end shadow mode."""
        return await self._operate(call, "switch", models.SwitchBody)

    async def resume(self, call: Call) -> Response:
        """End a hold."""
        return await self._operate(call, "resume", models.ResumeBody)

    async def _operate(self, call: Call, verb: str, kind: type[msgspec.Struct]) -> Response:
        arguments = msgspec.to_builtins(await call.body(kind))
        return answer(await self.host.ask(call.name, verb, call.who, **arguments))

    async def hold_all(self, call: Call) -> Response:
        """Hold every experiment that is not stopped."""
        check_role(call.key, ("admin",), None)
        body = await call.body(models.ReasonBody)
        names = self.host.names
        done = await asyncio.gather(
            *(self.host.ask(name, "hold", call.who, reason=body.reason) for name in names), return_exceptions=True
        )
        failed = [one for one in done if isinstance(one, BaseException) and not isinstance(one, Stopped)]
        if failed:  # one that cannot be held now does not keep the others from it
            raise failed[0]
        held = [name for name, one in zip(names, done, strict=True) if not isinstance(one, Stopped)]
        return answer({"held": held})

    # Reading.

    async def alarms(self, call: Call) -> Response:
        """All alarms of an experiment."""
        return answer({"alarms": (await self.host.status(call.name))["alarms"]})

    async def rounds(self, call: Call) -> Response:
        """The settled rounds after a number, one a line."""
        after, limit = page(call, MOST_ROUNDS)
        prefix, found = await self.host.rounds(call.name, after, limit)
        source = (shown(one, prefix) for one in found)
        first = await asyncio.to_thread(lines, source)  # an error comes before the answer begins

        async def body() -> AsyncIterator[bytes]:
            chunk = first
            while chunk:
                yield chunk
                chunk = await asyncio.to_thread(lines, source)

        return StreamingResponse(body(), 200, HEADERS, media_type="application/x-ndjson")

    async def audit(self, call: Call) -> Response:
        """Who changed an experiment."""
        await self.host.find(call.name)
        return await self._audit(call, call.name)

    async def audit_all(self, call: Call) -> Response:
        """Who changed what."""
        check_role(call.key, ("admin",), None)
        return await self._audit(call, None)

    async def _audit(self, call: Call, name: str | None) -> Response:
        self.host.check_ready()
        after, limit = page(call, MOST_ENTRIES)
        entries = await asyncio.to_thread(read_audit, self.host.database, name, after, limit)
        return answer({"entries": entries})

    async def health(self, _: Call) -> Response:
        """The process is alive."""
        return answer({"status": "alive"})

    async def readiness(self, _: Call) -> Response:
        """The experiments are open. A decider that has lost the database is still of use."""
        if self.host.role != "decider":
            self.host.check_ready()
        self.host.check_started()
        return answer({"status": "ready" if self.host.ready else "degraded"})

    async def measure(self, _: Call) -> Response:
        """Metrics for Prometheus."""
        text = await asyncio.to_thread(self.metrics.text)
        return Response(text, 200, HEADERS, media_type="text/plain; version=0.0.4; charset=utf-8")

    # OFREP.

    async def evaluate(self, call: Call) -> Response:
        """Decide for an OpenFeature client: the flag is the experiment, the targeting key is the unit."""
        try:
            context = (await call.body(models.EvaluationBody)).context
        except Problem as error:
            if error.status not in (400, 422):
                raise
            return evaluation_failure(call.name, 400, "PARSE_ERROR", error.detail)
        unit = context.get("targetingKey")
        if unit is not None and not isinstance(unit, str):
            return evaluation_failure(call.name, 400, "INVALID_CONTEXT", "targetingKey must be text")
        try:
            (choice,) = await self._decide(call.name, 1, None, unit)
        except (Unknown, RuleError, Stopped, Problem) as error:
            problem = problem_of(error)
            if problem.status not in OFREP:
                raise
            return evaluation_failure(call.name, *OFREP[problem.status], problem.detail)
        metadata = {name: choice[name] for name in ("id", "propensity", "epoch", "mode", "due")}
        return answer({
            "key": call.name, "value": choice["arm"], "variant": choice["arm"],
            "reason": "SPLIT" if choice["mode"] == "live" else "DEFAULT", "metadata": metadata,
        })  # fmt: skip


async def read_body(request: Request) -> bytes:
    """The body of a request, if it is not too large."""
    announced = request.headers.get("content-length", "0")
    size, body, more = int(announced) if announced.isdigit() else 0, b"", True
    while more and size <= MOST_BYTES:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "malformed", "the connection ended before the body did")
        body += message.get("body", b"")
        size, more = max(size, len(body)), message.get("more_body", False)
    if size > MOST_BYTES:
        raise Problem(413, "too-large", f"a body may have {MOST_BYTES} bytes")
    return body


def decision(choice: dict[str, Any]) -> dict[str, Any]:
    """A decision; what the policy would have served is there in shadow mode only."""
    return {name: value for name, value in choice.items() if value is not None}


def summary(status: dict[str, Any]) -> dict[str, Any]:
    """An experiment in a list."""
    names = ("name", "state", "epoch", "rounds", "pending")
    return {**{name: status[name] for name in names}, "alarms": len(status["alarms"])}


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
