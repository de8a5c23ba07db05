"""The pages of the service, for browsers: a table of what is where.

They are rendered here, readable without scripts, and alive with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from surefoot.service.access import Access
from surefoot.service.dashboard.admin import Admin
from surefoot.service.dashboard.edit import Edit
from surefoot.service.dashboard.frame import Answer, Frame, Handler, Page
from surefoot.service.dashboard.login import Login
from surefoot.service.dashboard.look import Look, Source
from surefoot.service.dashboard.operate import Operate
from surefoot.service.dashboard.session import Sessions
from surefoot.service.host import Host
from surefoot.service.metrics import Metrics
from surefoot.service.problems import Problem

API = ("/v1/", "/ofrep/")
ONE = "/experiments/{name}"


class Pages:
    """All pages.

    Parameters
    ----------
    host
        The experiments, for what is changed here.
    access
        Counts the requests of each key.
    metrics
        Counts the answers.
    source
        Where the data come from.
    """

    def __init__(self, host: Host, access: Access, metrics: Metrics, source: Source) -> None:
        self._metrics, self._frame = metrics, Frame(Sessions(host, access))
        self._login, self._look = Login(self._frame), Look(self._frame, host, source)
        self._operate, self._edit = Operate(self._frame, host), Edit(self._frame, host, source)
        self._admin = Admin(self._frame, host)

    def routes(self) -> list[routing.BaseRoute]:
        """The routes, none of which is in the OpenAPI document."""
        login, look, operate, edit, admin = self._login, self._look, self._operate, self._edit, self._admin
        outside: list[tuple[str, str, Answer]] = [
            ("GET", "/login", login.ask_login),
            ("POST", "/login", login.login),
            ("GET", "/static/{path}", login.static),
        ]
        inside: list[tuple[str, str, Handler, str | None]] = [
            ("POST", "/logout", login.logout, None),
            ("GET", "/", look.experiments, None),
            ("GET", ONE, look.experiment, "read"),
            ("GET", f"{ONE}/arms", look.arms, "read"),
            ("GET", f"{ONE}/course", look.course, "read"),
            ("GET", "/decisions", look.look_up, None),
            ("GET", "/decisions/{id}", look.decision, None),
            ("GET", "/new", edit.ask_new, None),
            ("POST", "/new", edit.new, None),
            ("GET", f"{ONE}/change", edit.ask_change, "admin"),
            ("POST", f"{ONE}/change", edit.change, "admin"),
            ("GET", f"{ONE}/{{act}}", operate.ask_act, "admin"),
            ("POST", f"{ONE}/{{act}}", operate.act, "admin"),
            ("GET", "/keys", admin.keys, "admin"),
            ("POST", "/keys", admin.new_key, "admin"),
            ("GET", "/keys/{id}/revoke", admin.ask_revoke, "admin"),
            ("POST", "/keys/{id}/revoke", admin.revoke, "admin"),
            ("GET", "/about", admin.about, "admin"),
        ]
        checked = [(method, path, self._frame.inside(handler, role)) for method, path, handler, role in inside]
        return [
            routing.Route(path, Page(answer, self._metrics.counter_of(method, path)), methods=[method])
            for method, path, answer in outside + checked
        ]

    def close(self) -> None:
        """Let go of the threads."""
        self._frame.close()

    def or_page(self, handler: Callable[[Request, Exception], Awaitable[Response]]) -> Any:
        """A handler of errors that shows browsers a page, and everybody else what `handler` answers."""

        async def chosen(request: Request, error: Exception) -> Response:
            html = "text/html" in request.headers.get("accept", "")
            if not html or request.url.path.startswith(API):
                return await handler(request, error)
            status = error.status_code if isinstance(error, HTTPException) else 500
            if status == 405:
                return await self._frame.failure(request, Problem(405, "method", "nothing can be sent here"), None)
            return await self._frame.failure(request, Problem(404, "unknown", "there is nothing at this address"), None)

        return chosen
