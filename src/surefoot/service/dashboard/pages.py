"""The pages of the service, for browsers: rendered here, readable without scripts, alive with them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qs, quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

import surefoot
from surefoot.experiments.errors import Unknown
from surefoot.experiments.experiment import live_policies
from surefoot.experiments.live import Live
from surefoot.rules import Range, RuleError
from surefoot.rules import number as checked_number
from surefoot.service import models
from surefoot.service.access import Access, check_role
from surefoot.service.acts import MOST_PENDING
from surefoot.service.dashboard import charts, words
from surefoot.service.dashboard.assets import Assets
from surefoot.service.dashboard.form import Checked, Form, one_line
from surefoot.service.dashboard.session import LASTS, Session, Sessions, check_csrf, check_origin
from surefoot.service.dashboard.views import Detail, Explained, Rail, Summary
from surefoot.service.host import Host
from surefoot.service.models import parse
from surefoot.service.problems import TITLES, Problem, problem_of
from surefoot.service.routes import MOST_BYTES, Call, read_body
from surefoot.storage.keys import ROLES, create_key, list_keys, revoke_key

T = TypeVar("T")

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every page."""
API = ("/v1/", "/ofrep/")
TONES = {"good": "All well", "wait": "Wait", "bad": "Act", "off": "Off"}
ORDER = {"bad": 0, "wait": 1, "good": 2, "off": 3}
ARMS_AT_ONCE = 100
DAYS = Range(0, 36_500, open_low=True)
OVER = 1.5
"""How much of a limit's allowance the bar of a guardrail can show."""


class Source(Protocol):
    """Where the pages have their data from."""

    async def summaries(self, names: list[str]) -> list[Summary]:
        """These experiments, in this order."""
        ...

    async def detail(self, name: str, audit: bool) -> Detail:
        """An experiment, with its audit or without; raises `Unknown`."""
        ...

    async def explain(self, id: str) -> Explained:
        """A decision; raises `Unknown`."""
        ...


class Act(NamedTuple):
    """What an operator can do to an experiment."""

    title: str
    explanation: str
    verb: str
    arguments: Mapping[str, Any] = {}
    grave: bool = False

    def fits(self, state: str, shadow: bool) -> bool:
        """Whether it makes sense in this state."""
        if self.verb == "switch":
            return state != "stopped" and shadow == (self.arguments["mode"] == "live")
        return {"hold": state in ("measuring", "running"), "resume": state == "held"}.get(self.verb, state != "stopped")


ACTS = {
    "hold": Act("Hold", "The baseline is served to everybody until you resume. Feedback is still taken.", "hold"),
    "resume": Act(
        "Resume", "Learning goes on. After an alarm about costs this begins a new epoch, which forgets what was learnt "
        "and spends its own delta.", "resume", {"experiment": None},
    ),
    "live": Act("Go live", "Shadow mode ends: the policy's own choices are served from now on.", "switch",
                {"mode": "live"}),
    "shadow": Act("Shadow", "The baseline is served, and what the policy would have served is only noted down.",
                  "switch", {"mode": "shadow"}),
    "stop": Act("Stop", "The experiment ends for good, and decisions are refused. This cannot be undone.", "stop",
                grave=True),
}  # fmt: skip


@dataclass
class Visit:
    """A request of somebody who is logged in."""

    request: Request
    session: Session
    form: dict[str, list[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The experiment in the path."""
        return str(self.request.path_params["name"])

    @property
    def who(self) -> str:
        """The caller, as the audit names it."""
        return Call(self.request, self.session.key).who

    def text(self, name: str) -> str:
        """A field of the form."""
        return self.form.get(name, [""])[-1]

    def query(self, name: str) -> str:
        """A parameter of the address."""
        return self.request.query_params.get(name, "").strip()

    def may(self, role: str, experiment: str | None = None) -> bool:
        """Whether the key allows a role for an experiment; None: for all of them."""
        return self.session.key.allows(role, experiment)


Handler = Callable[[Visit], Awaitable[Response]]


class Page:
    """The handler of a page, with the session, the role and the form checked, and errors shown as pages.

    Parameters
    ----------
    pages
        The pages it is one of.
    handler
        Answers.
    role
        What the key must allow for the experiment in the path, or for all of them if there is none; None: nothing.
    """

    def __init__(self, pages: Pages, handler: Handler, role: str | None) -> None:
        self._pages, self._handler, self._role = pages, handler, role

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        session: Session | None = None
        try:
            session = await self._pages.sessions.find(request)
            response = await self._answer(request, session)
        except Exception as error:
            response = await self._pages.failure(request, problem_of(error), session)
        await response(scope, receive, send)

    async def _answer(self, request: Request, session: Session | None) -> Response:
        if session is None:
            if request.method == "POST":
                raise Problem(401, "unauthorised", "log in first, then repeat it")
            back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return see(f"/login?{urlencode({'next': back})}" if back != "/" else "/login")
        visit = Visit(request, session)
        if request.method == "POST":
            check_origin(request)
            visit.form = await sent(request)
            check_csrf(session, visit.text("csrf") or request.headers.get("x-csrf-token", ""))
        if self._role is not None:
            check_role(session.key, (self._role,), request.path_params.get("name"))
        return await self._handler(visit)


class Pages:
    """All pages.

    Parameters
    ----------
    host
        The experiments, for what is changed here.
    access
        Counts the requests of each key.
    source
        Where the data come from.
    """

    def __init__(self, host: Host, access: Access, source: Source) -> None:
        self._host, self._source = host, source
        self._threads = ThreadPoolExecutor(2, "surefoot-render")
        self.sessions, self._assets = Sessions(host, access), Assets()
        self._environment = Environment(
            loader=PackageLoader("surefoot.service.dashboard"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        filters = (words.number, words.percent, words.compared, words.clock, words.duration, words.plenty,
                   words.outcome, used)  # fmt: skip
        self._environment.filters |= {one.__name__: one for one in filters}
        self._environment.globals |= {"urls": self._assets.urls, "tones": TONES, "version": surefoot.__version__}

    def routes(self) -> list[routing.BaseRoute]:
        """The routes, none of which is in the OpenAPI document."""
        one = "/experiments/{name}"
        table: list[tuple[str, str, Handler, str | None]] = [
            ("GET", "/", self.experiments, None),
            ("POST", "/logout", self.logout, None),
            ("GET", one, self.experiment, "read"),
            ("GET", f"{one}/arms", self.arms, "read"),
            ("GET", f"{one}/course", self.course, "read"),
            ("GET", f"{one}/change", self.ask_change, "admin"),
            ("POST", f"{one}/change", self.change, "admin"),
            ("GET", f"{one}/{{act}}", self.ask_act, "admin"),
            ("POST", f"{one}/{{act}}", self.act, "admin"),
            ("GET", "/decisions", self.look_up, None),
            ("GET", "/decisions/{id}", self.decision, None),
            ("GET", "/new", self.ask_new, None),
            ("POST", "/new", self.new, None),
            ("GET", "/keys", self.keys, "admin"),
            ("POST", "/keys", self.new_key, "admin"),
            ("GET", "/keys/{id}/revoke", self.ask_revoke, "admin"),
            ("POST", "/keys/{id}/revoke", self.revoke, "admin"),
            ("GET", "/about", self.about, "admin"),
        ]
        found: list[routing.BaseRoute] = [
            routing.Route(path, Page(self, handler, role), methods=[method]) for method, path, handler, role in table
        ]
        found.append(routing.Route("/login", self.ask_login, methods=["GET"]))
        found.append(routing.Route("/login", self.login, methods=["POST"]))
        found.append(routing.Route("/static/{path}", self.static, methods=["GET"]))
        return found

    async def _run(self, work: Callable[[], T]) -> T:
        """Do something in a thread of the pages: decisions, keys and claims must not wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # Rendering.

    async def render(
        self, request: Request, template: str, session: Session | None, status: int = 200, **data: Any
    ) -> Response:
        """A page. It is made in a thread, so that decisions do not wait for it."""
        page = self._environment.get_template(template)
        text = await self._run(partial(page.render, session=session, path=request.url.path, **data))
        body = text.encode("utf-8", "replace")
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        if status == 200 and request.method == "GET":
            if tag in request.headers.get("if-none-match", ""):
                return Response(None, 304, HEADERS | {"ETag": tag})
            return Response(body, 200, HEADERS | {"ETag": tag}, media_type="text/html")
        return Response(body, status, HEADERS, media_type="text/html")

    async def page(self, visit: Visit, template: str, status: int = 200, **data: Any) -> Response:
        """A page for somebody who is logged in."""
        return await self.render(visit.request, template, visit.session, status, visit=visit, **data)

    async def failure(self, request: Request, problem: Problem, session: Session | None) -> Response:
        """A page that says what went wrong."""
        response = await self.render(
            request, "error.html", session, problem.status, title=TITLES[problem.kind], detail=problem.detail
        )
        if problem.retry_after is not None:
            response.headers["Retry-After"] = str(max(1, round(problem.retry_after)))
        return response

    def or_page(self, handler: Callable[[Request, Exception], Awaitable[Response]]) -> Any:
        """A handler of errors that shows browsers a page, and everybody else what `handler` answers."""

        async def chosen(request: Request, error: Exception) -> Response:
            html = "text/html" in request.headers.get("accept", "")
            if not html or request.url.path.startswith(API):
                return await handler(request, error)
            status = error.status_code if isinstance(error, HTTPException) else 500
            if status == 405:
                return await self.failure(request, Problem(405, "method", "nothing can be sent here"), None)
            return await self.failure(request, Problem(404, "unknown", "there is nothing at this address"), None)

        return chosen

    async def static(self, request: Request) -> Response:
        """Scripts and styles."""
        try:
            return await self._run(partial(self._assets.response, request))
        except Problem as problem:
            return await self.failure(request, problem, None)

    # Logging in and out.

    async def ask_login(self, request: Request) -> Response:
        """The page to log in."""
        return await self.render(request, "login.html", None, back=local(request.query_params.get("next", "")))

    async def login(self, request: Request) -> Response:
        """Exchange a key for a cookie."""
        back = ""
        try:
            check_origin(request)
            form = await sent(request)
            back = local(form.get("next", [""])[-1])
            response = see(back or "/")
            await self.sessions.begin(request, form.get("key", [""])[-1].strip(), response)
            return response
        except Exception as error:
            problem = problem_of(error)
            found = await self.render(request, "login.html", None, problem.status, back=back, error=problem.detail)
            if problem.retry_after is not None:
                found.headers["Retry-After"] = str(max(1, round(problem.retry_after)))
            return found

    async def logout(self, visit: Visit) -> Response:
        """End the session."""
        response = see("/login")
        await self.sessions.end(visit.request, response)
        return response

    # Looking.

    async def experiments(self, visit: Visit) -> Response:
        """The list of experiments."""
        self._host.check_ready()
        key, text = visit.session.key, visit.query("q")
        if not key.allows("read", key.experiment):
            return await self.page(visit, "nothing.html")
        names = [name for name in self._host.names if key.experiment in (None, name)]
        every = await self._source.summaries(names)
        ordered = sorted(every, key=lambda one: (ORDER.get(one.tone, 0), one.name))
        counts = {tone: sum(one.tone == tone for one in every) for tone in ORDER}
        closed = {
            name: why for name, why in self._host.learning.closed.items()
            if name not in names and key.experiment in (None, name)
        }  # fmt: skip
        return await self.page(
            visit, "experiments.html", found=ordered, text=text, counts=counts, closed=closed,
            matches=[text.lower() in one.name.lower() for one in ordered],
        )  # fmt: skip

    async def experiment(self, visit: Visit) -> Response:
        """The page of an experiment."""
        detail = await self._source.detail(visit.name, visit.may("admin", visit.name))
        style_ids = await self._run(lambda: self._assets.style_ids)
        data = await self._run(partial(shown, detail, visit))
        return await self.page(visit, "experiment.html", style_ids=style_ids, **data)

    async def arms(self, visit: Visit) -> Response:
        """All arms under all guardrails, some at once."""
        detail = await self._source.detail(visit.name, False)
        found, text = await self._run(partial(matrix, detail)), visit.query("q")
        chosen = [row for row in found if text.lower() in row["name"].lower()]
        pages = max(1, -(-len(chosen) // ARMS_AT_ONCE))
        wanted = visit.query("page")
        at = min(pages, int(wanted)) if wanted.isascii() and wanted.isdigit() and 0 < len(wanted) < 7 else 1
        rows = chosen[max(0, at - 1) * ARMS_AT_ONCE :][:ARMS_AT_ONCE]
        return await self.page(
            visit, "arms.html", summary=detail.summary, rows=rows, text=text, at=max(1, at), pages=pages,
            count=len(chosen), total=len(found),
        )  # fmt: skip

    async def course(self, visit: Visit) -> Response:
        """The data of the charts over time."""
        detail = await self._source.detail(visit.name, False)
        head, rows = await self._run(partial(charts.table, detail.course))
        return await self.page(visit, "course.html", summary=detail.summary, head=head, rows=rows[::-1])

    async def look_up(self, visit: Visit) -> Response:
        """The box to look up a decision."""
        id = visit.query("id")
        return see(f"/decisions/{quote(id, safe='')}") if id else await self._look_up(visit)

    async def _look_up(self, visit: Visit, status: int = 200, id: str = "", error: str | None = None) -> Response:
        return await self.page(visit, "lookup.html", status, id=id, error=error)

    async def decision(self, visit: Visit) -> Response:
        """The page of a decision."""
        id = str(visit.request.path_params["id"])
        missing = Unknown(f"there is no decision {id!r}")
        try:
            if not visit.may("read", self._host.name_of(id)):  # as if it were not there
                raise missing
            found = await self._source.explain(id)
        except Unknown as error:
            said = str(missing if visit.session.key.experiment else error)
            return await self._look_up(visit, 404, id, said)
        return await self.page(visit, "decision.html", found=found)

    # Operating.

    def _act(self, visit: Visit) -> tuple[str, Act]:
        slug = str(visit.request.path_params["act"])
        if slug not in ACTS:
            raise Problem(404, "unknown", "there is nothing at this address")
        return slug, ACTS[slug]

    async def ask_act(self, visit: Visit, error: Problem | None = None) -> Response:
        """Ask for the reason and a confirmation."""
        slug, act = self._act(visit)
        await self._host.find(visit.name)
        return await self.page(
            visit, "act.html", error.status if error else 200, name=visit.name, slug=slug, act=act,
            reason=visit.text("reason"), error=error.detail if error else None,
        )  # fmt: skip

    async def act(self, visit: Visit) -> Response:
        """Hold, resume, stop or switch an experiment, as the HTTP API does."""
        _, act = self._act(visit)
        try:
            body = parse(models.ReasonBody, msgspec.json.encode({"reason": visit.text("reason")}))
            await self._host.ask(visit.name, act.verb, visit.who, reason=body.reason, **act.arguments)
        except Exception as error:
            return await self.ask_act(visit, problem_of(error))
        return see(f"/experiments/{visit.name}")

    # The form.

    async def ask_new(self, visit: Visit) -> Response:
        """The form for a new experiment."""
        key, form = visit.session.key, Form()
        check_role(key, ("admin",), key.experiment)
        if key.experiment is not None:
            form.values["name"] = key.experiment
        return await self._form(visit, form, Checked(None, {}))

    async def new(self, visit: Visit) -> Response:
        """Check the form; begin the experiment if that was asked for."""
        key = visit.session.key
        check_role(key, ("admin",), key.experiment)
        form, checked = await self._checked(visit)
        experiment = checked.experiment
        if visit.text("do") != "create" or experiment is None:
            return await self._form(visit, form, checked)
        check_role(key, ("admin",), experiment.name)
        try:
            mode = "shadow" if form.values["mode"] == "shadow" else "live"
            await self._host.create(experiment, mode, visit.who)
        except Exception as error:
            return await self._form(visit, form, checked, problem_of(error))
        return see(f"/experiments/{experiment.name}")

    async def ask_change(self, visit: Visit) -> Response:
        """The form for a new epoch, filled in."""
        detail = await self._source.detail(visit.name, False)
        data = detail.experiment
        objective = data["objective"]
        named = [objective.get("maximise") or objective.get("minimise"), *(one["name"] for one in data["guardrails"])]
        if not one_line(str(name) for name in named):
            raise Problem(409, "conflict", "a name has a line break, which a form cannot hold; use PATCH over HTTP")
        form = Form.of(data)
        form.values["epoch"] = str(detail.summary.epoch)
        return await self._form(visit, form, await self._run(form.check), name=visit.name)

    async def change(self, visit: Visit) -> Response:
        """Check the form; begin the epoch if that was asked for."""
        visit.form["name"] = [visit.name]
        form, checked = await self._checked(visit)
        experiment = checked.experiment
        if visit.text("do") not in ("change", "resume") or experiment is None:
            return await self._form(visit, form, checked, name=visit.name)
        data = experiment.to_dict()
        try:
            reason = parse(models.ReasonBody, msgspec.json.encode({"reason": visit.text("reason")})).reason
            if visit.text("do") == "resume":
                await self._host.ask(visit.name, "resume", visit.who, reason=reason, experiment=data)
            else:
                await self._host.ask(
                    visit.name, "change", visit.who, fields={key: data[key] for key in data if key != "name"},
                    reason=reason, keep=form.values["keep"] == "yes", epoch=visit.text("epoch"),
                )  # fmt: skip
        except Exception as error:
            return await self._form(visit, form, checked, problem_of(error), visit.name)
        return see(f"/experiments/{visit.name}")

    async def _checked(self, visit: Visit) -> tuple[Form, Checked]:
        form = Form.sent(visit.form)
        if visit.text("do") == "rows":
            return form, Checked(None, {})
        return form, await self._run(form.check)

    async def _form(
        self, visit: Visit, form: Form, checked: Checked, problem: Problem | None = None, name: str | None = None
    ) -> Response:
        status = problem.status if problem else 422 if checked.errors and visit.text("do") != "check" else 200
        errors = dict(checked.errors)
        if problem is not None and problem.pointer == "/reason":
            errors["reason"] = problem.detail
        return await self.page(
            visit, "form.html", status, form=form, rows=form.rows(), checked=checked, errors=errors, name=name,
            policies=[(one, one) for one in live_policies()], traffic=traffic(form.values.get("traffic", "")),
            problem=problem.detail if problem and "reason" not in errors else None,
        )  # fmt: skip

    # Keys, and what this process is.

    async def keys(
        self, visit: Visit, status: int = 200, made: str | None = None, error: str | None = None
    ) -> Response:
        """The keys."""
        self._host.check_ready()
        found = await asyncio.to_thread(list_keys, self._host.database)
        now = self._host.now()
        rows = [(key, "revoked" if key.revoked else "valid" if key.valid(now) else "expired") for key in found.values()]
        rows.sort(key=lambda row: (row[1] != "valid", row[0].id))
        return await self.page(
            visit, "keys.html", status, rows=rows, roles=ROLES, names=sorted(self._host.names), made=made, error=error,
        )  # fmt: skip

    async def new_key(self, visit: Visit) -> Response:
        """Make a key and show it, once."""
        self._host.check_ready()
        now, days = self._host.now(), visit.text("days").strip()
        try:
            lasts = None if not days else 86_400 * checked_number("days", number_typed(days), DAYS)
            made = await asyncio.to_thread(
                create_key, self._host.database, visit.text("name").strip(), visit.form.get("roles", []), now,
                visit.text("experiment").strip() or None, None if lasts is None else now + lasts, visit.who,
            )  # fmt: skip
        except RuleError as error:
            return await self.keys(visit, 422, error=str(error))
        await asyncio.to_thread(self._host.read_keys)
        return await self.keys(visit, made=made)

    async def _key(self, visit: Visit) -> Any:
        self._host.check_ready()
        found = await asyncio.to_thread(list_keys, self._host.database)
        wanted = visit.request.path_params["id"]
        key = next((one for one in found.values() if str(one.id) == wanted), None)
        if key is None:
            raise Problem(404, "unknown", f"there is no key {wanted}")
        return key

    async def ask_revoke(self, visit: Visit) -> Response:
        """Ask for a confirmation."""
        return await self.page(visit, "revoke.html", key=await self._key(visit))

    async def revoke(self, visit: Visit) -> Response:
        """Revoke a key."""
        key = await self._key(visit)
        await asyncio.to_thread(revoke_key, self._host.database, key.id, self._host.now(), visit.who)
        await asyncio.to_thread(self._host.read_keys)
        return see("/keys")

    async def about(self, visit: Visit) -> Response:
        """What this process is, and its limits."""
        host = self._host
        learnt = sum(isinstance(one, Live) for one in host.lives.values())
        facts = {
            "Version": surefoot.__version__,
            "Role of this process": host.role,
            "Database": {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(host.database.engine.dialect.name, "?"),
            "Other processes": "may work on the same database" if host.shares else "none: this one works alone",
            "State": "ready" if host.ready else "the database has failed; it is opened again",
            "Experiments": f"{len(host.names)}, of which {learnt} are learnt here",
            "Time": f"{words.clock(host.now())} UTC",
        }
        limits = {
            "Arms of an experiment": models.MOST_ARMS,
            "Guardrails of an experiment": models.MOST_GUARDRAILS,
            "Decisions in one request": models.MOST_DECISIONS,
            "Items of feedback in one request": models.MOST_ITEMS,
            "Decisions that wait for feedback, in each experiment": MOST_PENDING,
            "Bytes of a request": MOST_BYTES,
            "Hours until one must log in again": LASTS // 3600,
        }
        return await self.page(visit, "about.html", facts=facts, limits=limits)


def see(path: str) -> Response:
    """Send the browser to another page."""
    return RedirectResponse(path, 303, HEADERS)


def local(path: str) -> str:
    """The path, if it is one of this site; a login must not lead elsewhere.

    Examples
    --------
    >>> local("/experiments/x?q=1"), local("//elsewhere.example"), local("https://elsewhere.example")
    ('/experiments/x?q=1', '', '')
    """
    fine = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if fine and not path.startswith(("/login", "/logout")) else ""


async def sent(request: Request) -> dict[str, list[str]]:
    """The fields of the form that was sent."""
    body = await read_body(request)
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000, errors="strict")
    except ValueError:
        raise Problem(400, "malformed", "the form cannot be read") from None


def number_typed(typed: str) -> float | str:
    """The number that was typed, or the text if it is none."""
    try:
        return float(typed)
    except ValueError:
        return typed


def traffic(typed: str) -> float | None:
    """Decisions a day, if they were typed."""
    found = number_typed(typed)
    return found if isinstance(found, float) and 0 < found < 1e15 else None


def used(rail: Rail, value: float | None) -> float | None:
    """How much of what the limit allows is used up: 1 at the limit, and `OVER` at most."""
    if value is None:
        return None
    allowed = rail.limit - rail.low if rail.at_most else rail.high - rail.limit
    cost = value - rail.low if rail.at_most else rail.high - value
    if allowed <= 0:
        return 0.0 if cost <= 0 else OVER
    return min(OVER, max(0.0, cost / allowed))


def shown(detail: Detail, visit: Visit) -> dict[str, Any]:
    """What the page of an experiment has, besides the data themselves."""
    course, summary = detail.course, detail.summary
    rails = [
        (rail, charts.cost(rail, course, f"cost-{i}"), charts.bounds(rail, f"bounds-{i}"))
        for i, rail in enumerate(summary.rails)
    ]
    weight = words.percent(summary.safe_weight)
    mean = words.number(summary.mean, summary.unit)
    lost = [waiting.lost * waiting.settled for waiting in detail.waiting]
    share = sum(lost) / max(1, sum(waiting.settled for waiting in detail.waiting))
    return {
        "detail": detail,
        "summary": summary,
        "rails": rails,
        "allocation": charts.allocation(course) if course.at else None,
        "weight": charts.line(course, "weight", "Safe weight", f"Weight of the baseline: {weight} now. It falls as "
                              "bounds narrow.", course.safe_weight, True),
        "objective": charts.line(course, "objective", summary.objective, f"Mean of {summary.objective} in this epoch: "
                                 f"{mean}.", course.objective, False),
        "lost": charts.line(course, "lost", "Lost feedback", f"Share of feedback that was lost in this epoch: "
                            f"{words.percent(share)}.", course.lost, True),
        "json": json.dumps(dict(detail.experiment), indent=2, ensure_ascii=False),
        "acts": ACTS if visit.may("admin", summary.name) else {},
    }  # fmt: skip


def matrix(detail: Detail) -> list[dict[str, Any]]:
    """All arms, those with the largest shares first: what is known of each under each guardrail."""
    by_name: dict[str, dict[str, Any]] = {}
    for waiting in detail.waiting:
        by_name[waiting.arm] = {"name": waiting.arm, "share": waiting.share, "waiting": waiting, "rails": []}
    for rail in detail.summary.rails:
        for arm in rail.arms:
            row = by_name.setdefault(arm.name, {"name": arm.name, "share": arm.share, "waiting": None, "rails": []})
            row["rails"].append((rail, arm))
    return sorted(by_name.values(), key=lambda row: (-row["share"], row["name"]))
