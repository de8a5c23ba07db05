"""The HTTP service: routes, keys and errors put together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from surefoot.service.access import Access, check_role
from surefoot.service.dashboard.look import Source
from surefoot.service.dashboard.pages import Pages
from surefoot.service.dashboard.reader import Reader
from surefoot.service.host import Host
from surefoot.service.metrics import Metrics
from surefoot.service.openapi import document
from surefoot.service.problems import Problem, problem_of
from surefoot.service.routes import Call, Route, Routes, answer
from surefoot.storage.keys import Key

RATE = 5_000.0
HOT = {("POST", "/v1/experiments/{name}/decisions"), ("PUT", "/v1/decisions/{id}/feedback")}
"""What is called most."""
NOBODY = Key(0, "nobody", (), None, 0.0, None, None)


def build(
    url: str,
    rate: float = RATE,
    clock: Callable[[], float] = time.time,
    role: str = "all",
    source: Callable[[Host], Source] | None = None,
) -> FastAPI:
    """The service on a database.

    Parameters
    ----------
    url
        A SQLite file, or the address of a PostgreSQL database.
    rate
        Requests a second that each key may send.
    clock
        Tells the time, in seconds since 1970.
    role
        "all", "learner" or "decider"; see `Host`.
    source
        Makes what the pages have their data from, for tests of the pages; by default a `Reader`.
    """
    host = Host(url, clock, role)
    metrics, access, reader = Metrics(host), Access(host, rate), Reader(host)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await host.start()
        keeping_up = asyncio.create_task(reader.keep_up())
        yield
        keeping_up.cancel()
        reader.close()
        pages.close()
        await host.stop()

    app = Service(
        title="Surefoot", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    app.state.host, app.state.reader = host, reader
    table = Routes(host, metrics).table()
    described = document(table)

    async def openapi(_: Call) -> Response:
        return answer(described)

    for route in [*table, Route("GET", "/openapi.json", openapi, "This document")]:
        endpoint = Endpoint(route, access, metrics)
        found = routing.Route(route.path, endpoint, methods=[route.method])
        found.methods = {route.method}  # without HEAD
        app.router.routes.append(found)
        if (route.method, route.path) in HOT:
            app.hot[route.method, *shape(route.path)[::2]] = endpoint
    pages = Pages(host, access, metrics, reader if source is None else source(host))
    app.router.routes += pages.routes()
    app.add_exception_handler(HTTPException, pages.or_page(not_found))
    return app


class Service(FastAPI):
    """The application. What is called most is answered before the framework looks for a route."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hot: dict[tuple[str, ...], Endpoint] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            what, which, verb = shape(scope["path"])
            endpoint = self.hot.get((scope["method"], what, verb))
            if endpoint is not None and which:
                scope["path_params"] = {"name" if what == "experiments" else "id": which}
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def shape(path: str) -> tuple[str, str, str]:
    """The parts of a path of the form /v1/what/which/verb, empty for another path.

    Examples
    --------
    >>> shape("/v1/experiments/routing/decisions"), shape("/v1/experiments")
    (('experiments', 'routing', 'decisions'), ('', '', ''))
    """
    parts = path.split("/")
    if len(parts) != 5 or parts[0] or parts[1] != "v1":
        return "", "", ""
    return parts[2], parts[3], parts[4]


class Endpoint:
    """The handler of a route, with its key checked, its errors answered and its answers counted.

    It is an ASGI application: the wrappers that FastAPI puts around a function cost more than a decision.
    """

    def __init__(self, route: Route, access: Access, metrics: Metrics) -> None:
        self._route, self._access = route, access
        self._seen = metrics.counter_of(route.method, route.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = time.perf_counter()
        response = await self._response(Request(scope, receive))
        self._seen(response.status_code, time.perf_counter() - started)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        route, key = self._route, NOBODY
        try:
            if route.roles:
                key = self._access.key(request)
                check_role(key, route.roles, request.path_params.get("name", key.experiment))
                if request.scope["query_string"]:
                    check_query(request, route)
            return await route.handler(Call(request, key))
        except Exception as error:
            return problem_of(error).response()


def check_query(request: Request, route: Route) -> None:
    """Refuse query parameters that the route does not have, or that are there twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in route.parameters or names.count(name) > 1:
            said = "is there twice" if name in route.parameters else "is not known here"
            raise Problem(400, "malformed", f"the query parameter {name[:100]!r} {said}", parameter=name[:100])


async def not_found(_: Request, error: Exception) -> Response:
    """Answer a request for which there is no route."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        return Problem(405, "method", "this address does not know the method").response()
    return Problem(404, "unknown", "there is nothing at this address").response()
