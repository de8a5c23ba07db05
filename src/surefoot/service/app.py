"""The HTTP service: routes, keys and errors put together."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from surefoot.service.access import Access, check_role
from surefoot.service.host import Host
from surefoot.service.metrics import Metrics
from surefoot.service.openapi import document
from surefoot.service.problems import Problem, problem_of
from surefoot.service.routes import Call, Route, Routes, answer
from surefoot.storage.keys import Key

RATE = 5_000.0
NOBODY = Key(0, "nobody", (), None, 0.0, None, None)


def build(url: str, rate: float = RATE, clock: Callable[[], float] = time.time, role: str = "all") -> FastAPI:
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
    """
    host = Host(url, clock, role)
    metrics, access = Metrics(host), Access(host, rate)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await host.start()
        yield
        await host.stop()

    app = FastAPI(
        title="Surefoot", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    app.state.host = host
    app.add_exception_handler(HTTPException, not_found)
    table = Routes(host, metrics).table()
    described = document(table)

    async def openapi(_: Call) -> Response:
        return answer(described)

    for route in sorted([*table, Route("GET", "/openapi.json", openapi, "This document")], key=rank):
        found = routing.Route(route.path, Endpoint(route, access, metrics), methods=[route.method])
        found.methods = {route.method}  # without HEAD
        app.router.routes.append(found)
    return app


def rank(route: Route) -> bool:
    """False for what is called most: routes are tried one after the other, so these come first."""
    return not {"decide", "feedback"} & {*route.roles}


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
            return await route.handler(Call(request, key))
        except Exception as error:
            return problem_of(error).response()


async def not_found(_: Request, error: Exception) -> Response:
    """Answer a request for which there is no route."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        return Problem(405, "method", "this address does not know the method").response()
    return Problem(404, "unknown", "there is nothing at this address").response()
