"""The HTTP service: routes, keys and errors put together."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

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

    for route in [*table, Route("GET", "/openapi.json", openapi, "This document")]:
        handle = endpoint(route, access, metrics)
        app.add_api_route(route.path, handle, methods=[route.method], include_in_schema=False)
    return app


def endpoint(route: Route, access: Access, metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    """The handler of a route, with its key checked, its errors answered and its answers counted."""
    seen = metrics.counter_of(route.method, route.path)

    async def handle(request: Request) -> Response:
        started = time.perf_counter()
        try:
            key = access.key(request) if route.roles else NOBODY
            if route.roles:
                check_role(key, route.roles, request.path_params.get("name", key.experiment))
            response = await route.handler(Call(request, key))
        except Exception as error:
            response = problem_of(error).response()
        seen(response.status_code, time.perf_counter() - started)
        return response

    return handle


async def not_found(_: Request, error: Exception) -> Response:
    """Answer a request for which there is no route."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        return Problem(405, "method", "this address does not know the method").response()
    return Problem(404, "unknown", "there is nothing at this address").response()
