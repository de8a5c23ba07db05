"""Errors, as RFC 9457 describes them: one sentence each, with a pointer to the value that it is about."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import msgspec
from starlette.responses import Response

from surefoot.experiments.errors import Conflict, Stopped, Unavailable, Unknown
from surefoot.experiments.events import LogFailure
from surefoot.rules import RuleError

TITLES = {
    "malformed": "The request cannot be read",
    "invalid": "A value breaks a rule",
    "unauthorised": "A valid key is needed",
    "forbidden": "The key does not allow this",
    "unknown": "It does not exist",
    "method": "The method is not allowed here",
    "conflict": "What was first stands",
    "changed": "The experiment has changed",
    "condition": "The header If-Match is needed",
    "stopped": "The experiment was stopped",
    "unavailable": "No safe strategy is left",
    "too-large": "The request is too large",
    "too-many": "Too much at once",
    "log": "The log cannot be written",
    "busy": "The service is not ready",
    "internal": "An error of the service",
}
STATUS: dict[type[Exception], tuple[int, str]] = {
    Unknown: (404, "unknown"),
    Conflict: (409, "conflict"),
    Stopped: (410, "stopped"),
    Unavailable: (409, "unavailable"),
    RuleError: (422, "invalid"),
    LogFailure: (503, "log"),
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""The headers of every answer."""

logger = logging.getLogger("surefoot.service")


class Problem(Exception):
    """An error to answer with.

    Parameters
    ----------
    status
        The HTTP status.
    kind
        A key of `TITLES`; the end of the problem's type.
    detail
        The sentence.
    pointer
        Which value of the body it is about, as a JSON pointer.
    parameter
        Which header or query parameter it is about.
    retry_after
        After how many seconds to try again.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        pointer: str | None = None,
        parameter: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.pointer, self.parameter, self.retry_after = pointer, parameter, retry_after

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Problem:
        """The problem with this body."""
        kind = str(body["type"]).rpartition(":")[2]
        retry_after = 1.0 if body["status"] in (429, 503) else None
        return cls(body["status"], kind, body["detail"], body.get("pointer"), body.get("parameter"), retry_after)

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer."""
        body = {
            "type": f"urn:surefoot:{self.kind}", "title": TITLES[self.kind], "status": self.status,
            "detail": self.detail, "pointer": self.pointer, "parameter": self.parameter,
        }  # fmt: skip
        return {name: value for name, value in body.items() if value is not None}

    def response(self) -> Response:
        """The answer."""
        headers = dict(HEADERS)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, round(self.retry_after)))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(
            msgspec.json.encode(self.to_dict()), self.status, headers, media_type="application/problem+json"
        )


def problem_of(error: Exception) -> Problem:
    """The problem that an error is. One that is not expected is written to the log."""
    if isinstance(error, Problem):
        return error
    for kind, (status, name) in STATUS.items():
        if isinstance(error, kind):
            where = pointer_of(error.argument) if isinstance(error, RuleError) else None
            return Problem(status, name, str(error), where, retry_after=1 if status == 503 else None)
    logger.error("a request failed", exc_info=error)
    return Problem(500, "internal", "the service has a fault, which its log describes")


@contextmanager
def pointing_into(body: Mapping[str, Any]) -> Iterator[None]:
    """Have errors about an experiment point to values of the body that describes it."""
    try:
        yield
    except (RuleError, Problem) as error:
        problem = problem_of(error)
        if problem.pointer is not None:
            problem.pointer = pointer_into(body, problem.pointer)
        raise problem from None


def pointer_into(body: Mapping[str, Any], pointer: str) -> str:
    """A pointer that has the names of JSON, from one with the names of the Python API.

    Examples
    --------
    >>> body = {"guardrails": [{"name": "spend", "at_most": 3}], "options": {"preset": "leed"}}
    >>> pointer_into(body, "/guardrails/spend/limit"), pointer_into(body, "/preset"), pointer_into(body, "/delta")
    ('/guardrails/0/at_most', '/options/preset', '/delta')
    """
    parts, here = pointer.split("/")[1:], cast(Any, body)
    found = ["options"] if parts[0] not in body and parts[0] in body.get("options", ()) else []
    for part in parts:
        key: Any = part
        if isinstance(here, list) and not part.isdigit():
            key = next((i for i, one in enumerate(here) if one.get("name") == part), part)
        elif part in WRITTEN and isinstance(here, Mapping):
            key = next((name for name in WRITTEN[part] if name in here), part)
        found.append(str(key))
        try:
            here = here[int(key) if isinstance(here, list) else key]
        except (KeyError, IndexError, TypeError, ValueError):
            here = {}
    return "".join(f"/{part}" for part in found)


WRITTEN = {"limit": ("at_most", "at_least"), "name": ("name", "maximise", "minimise")}
"""How JSON writes what has another name in Python."""


def pointer_of(path: str) -> str:
    """A JSON pointer from a path.

    Examples
    --------
    >>> pointer_of("guardrails[0].limit"), pointer_of("outcome['spend']"), pointer_of(".items[3].outcome[...]")
    ('/guardrails/0/limit', '/outcome/spend', '/items/3/outcome')
    """
    for old, new in (("[...]", ""), ("']", ""), ("['", "."), ("]", ""), ("[", ".")):
        path = path.replace(old, new)
    return "".join(f"/{part}" for part in path.split(".") if part)
