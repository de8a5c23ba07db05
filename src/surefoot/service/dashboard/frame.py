"""What all pages have in common: templates, headers, the check of session, role and form, errors shown as pages."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from surefoot.service.access import check_role
from surefoot.service.dashboard import words
from surefoot.service.dashboard.assets import Assets
from surefoot.service.dashboard.session import Session, Sessions, check_csrf, check_origin
from surefoot.service.dashboard.views import Rail
from surefoot.service.problems import TITLES, Problem, problem_of
from surefoot.service.routes import Call, read_body

T = TypeVar("T")

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every page."""
TONES = {"good": "All well", "wait": "Wait", "bad": "Act", "off": "Off"}
MOST_PARTS = 2_000
"""Parts of pages that are kept for the next viewer."""
OVER = 1.5
"""How much of a limit's allowance the bar of a guardrail can show."""


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
Answer = Callable[[Request], Awaitable[Response]]


class Page:
    """A page of the site, its answers counted."""

    def __init__(self, answer: Answer, seen: Callable[[int, float], None]) -> None:
        self._answer, self._seen = answer, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = time.perf_counter()
        response = await self._answer(Request(scope, receive))
        self._seen(response.status_code, time.perf_counter() - started)
        await response(scope, receive, send)


class Frame:
    """Renders pages, and lets in who may see them.

    Parameters
    ----------
    sessions
        Who is logged in.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.sessions, self.assets = sessions, Assets()
        self._threads = ThreadPoolExecutor(2, "surefoot-render")
        self._environment = Environment(
            loader=PackageLoader("surefoot.service.dashboard"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        filters = (words.number, words.percent, words.compared, words.clock, words.duration, words.plenty,
                   words.outcome, words.tame, words.turning,
                   used)  # fmt: skip
        self._environment.filters |= {one.__name__: one for one in filters}
        self._environment.globals |= {"urls": self.assets.urls, "tones": TONES, "once": self.once}
        self._parts: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[], T]) -> T:
        """Do something in a thread of the pages: decisions, keys and claims must not wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # Who may see a page.

    def inside(self, handler: Handler, role: str | None) -> Answer:
        """The handler, with the session, the role and the form checked, and errors shown as pages.

        Parameters
        ----------
        handler
            Answers a visit.
        role
            What the key must allow for the experiment in the path, or for all of them if there is none; None: nothing.
        """

        async def answer(request: Request) -> Response:
            session: Session | None = None
            try:
                session = await self.sessions.find(request)
                if session is None:
                    return to_login(request)
                return await handler(await self._let_in(request, session, role))
            except Exception as error:
                return await self.failure(request, problem_of(error), session)

        return answer

    @staticmethod
    async def _let_in(request: Request, session: Session, role: str | None) -> Visit:
        visit = Visit(request, session)
        if request.method == "POST":
            check_origin(request)
            visit.form = await sent(request)
            check_csrf(session, visit.text("csrf") or request.headers.get("x-csrf-token", ""))
        if role is not None:
            check_role(session.key, (role,), request.path_params.get("name"))
        return visit

    # Rendering.

    def once(self, make: Callable[[Any], T], one: Any) -> T:
        """What a function or macro makes of something, made once for all who look: with many viewers it adds up."""
        found = self._parts.get(id(one))
        if found is None or found[0] is not one:
            found = self._parts[id(one)] = one, make(one)
            while len(self._parts) > MOST_PARTS:
                self._parts.popitem(last=False)
        return found[1]

    async def render(
        self, request: Request, template: str, session: Session | None, status: int = 200, **data: Any
    ) -> Response:
        """A page. It is made in a thread, so that decisions do not wait for it."""
        page = self._environment.get_template(template)
        text = await self.run(partial(page.render, session=session, path=request.url.path, **data))
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


def to_login(request: Request) -> Response:
    """Send somebody who is not logged in to the login, and back from there."""
    if request.method == "POST":
        raise Problem(401, "unauthorised", "log in first, then repeat it")
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return see(f"/login?{urlencode({'next': back})}" if back != "/" else "/login")


def see(path: str) -> Response:
    """Send the browser to another page."""
    return RedirectResponse(path, 303, HEADERS)


async def sent(request: Request) -> dict[str, list[str]]:
    """The fields of the form that was sent."""
    body = await read_body(request)
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000, errors="strict")
    except ValueError:
        raise Problem(400, "malformed", "the form cannot be read") from None


def used(rail: Rail, value: float | None) -> float | None:
    """How much of what the limit allows is used up: 1 at the limit, and `OVER` at most."""
    if value is None:
        return None
    allowed = rail.limit - rail.low if rail.at_most else rail.high - rail.limit
    cost = value - rail.low if rail.at_most else rail.high - value
    if allowed <= 0:
        return 0.0 if cost <= 0 else OVER
    return min(OVER, max(0.0, cost / allowed))
