"""The OpenAPI document, from the table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

import surefoot
from surefoot.service import models
from surefoot.service.routes import LONGEST_POLL, Route

PROBLEMS = {
    400: "The request cannot be read.",
    401: "A valid key is needed.",
    403: "The key does not allow this.",
    404: "It does not exist.",
    409: "It conflicts with what was first.",
    410: "The experiment was stopped.",
    412: "The experiment has changed.",
    413: "The body is too large.",
    422: "A value breaks a rule.",
    428: "The header If-Match is needed.",
    429: "Too much at once; try again later.",
    503: "The service is not ready, or its log cannot be written; try again later.",
}
WHOLE = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
PARAMETERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "dry_run": ("query", {"type": "boolean"}, "Only check the experiment, and answer with a forecast (status 200)."),
    "mode": ("query", {"enum": ["live", "shadow"]}, "Begin live, or in shadow mode."),
    "If-Match": ("header", {"type": "string"}, "The epoch that you have read."),
    "If-None-Match": ("header", {"type": "string"}, "The ETag that you have."),
    "Idempotency-Key": (
        "header", {"type": "string", "minLength": 1, "maxLength": 500},
        "A call with the same key returns the same decisions and makes none.",
    ),
    "wait": (
        "query", {"type": "number", "minimum": 0, "maximum": LONGEST_POLL},
        "Seconds to wait for a change, if the ETag is still the same.",
    ),
    "after": ("query", WHOLE, "Only what comes after this number."),
    "limit": ("query", WHOLE, "How many at most."),
    "name": ("path", {"type": "string"}, "The name of the experiment."),
    "id": ("path", {"type": "string"}, "The id of the decision."),
}  # fmt: skip
NAME, DECISION = {"name": "$response.body#/name"}, {"id": "$response.body#/decisions/0/id"}
LINKS = {
    "create": {"get": NAME, "decide": NAME, "patch": NAME, "strategy": NAME, "hold": NAME, "rounds": NAME},
    "decide": {"feedback": DECISION, "cancel": DECISION},
    "hold": {"resume": NAME, "decide": NAME},
    "resume": {"decide": NAME},
}
"""By operation: what can be done next with its answer, and where that has its parameters from."""
REQUIRED = {"If-Match"}
OTHER = {
    "/metrics": "text/plain",
    "/v1/experiments/{name}/rounds": "application/x-ndjson",
}
"""Answers that are not JSON."""


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these routes."""
    extra = (models.ProblemBody, models.DryRun, models.EvaluationFailure)
    types = {one for route in routes for one in (route.request, route.response) if one is not None} | set(extra)
    ordered = sorted(types, key=lambda one: str(one.__name__))
    _, schemas = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Surefoot",
            "version": surefoot.__version__,
            "summary": "Decisions that learn while their guardrails hold.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of the service."}},
        },
    }


def operation(route: Route) -> dict[str, Any]:
    """One operation."""
    inside = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    found: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": [parameter(name) for name in (*inside, *route.parameters)],
        "responses": responses(route),
    }
    if route.roles:
        found["security"] = [{"key": []}]
        found["description"] = f"Needs the role {' or '.join(route.roles)}; admin will always do."
    if route.request is not None:
        schema = {"application/json": {"schema": reference(route.request)}}
        required = any(one.required for one in msgspec.structs.fields(route.request))
        found["requestBody"] = {"required": required, "content": schema}
    return found


def parameter(name: str) -> dict[str, Any]:
    """One parameter."""
    where, schema, text = PARAMETERS[name]
    required = where == "path" or name in REQUIRED
    return {"name": name, "in": where, "required": required, "schema": schema, "description": text}


def responses(route: Route) -> dict[str, Any]:
    """The answers of an operation, errors included."""
    good: dict[str, Any] = {"description": route.summary}
    media = OTHER.get(route.path, "application/json")
    if route.response is not None:
        good["content"] = {media: {"schema": reference(route.response)}}
    elif media != "application/json":
        good["content"] = {media: {"schema": {"type": "string"}}}
    if route.handler.__name__ in LINKS:
        good["links"] = {
            name: {"operationId": name, "parameters": parameters}
            for name, parameters in LINKS[route.handler.__name__].items()
        }
    found = {str(route.status): good}
    if "dry_run" in route.parameters:
        content = {"application/json": {"schema": reference(models.DryRun)}}
        found["200"] = {"description": "The experiment was checked.", "content": content}
    if "If-None-Match" in route.parameters:
        found["304"] = {"description": "Nothing has changed."}
    common = (400, 401, 403, 429, 503) if route.roles else ()
    body = (413,) if route.request is not None else ()
    for status in sorted({*common, *body, *route.problems, *((503,) if route.path == "/readyz" else ())}):
        problem = {"application/problem+json": {"schema": reference(models.ProblemBody)}}
        found[str(status)] = {"description": PROBLEMS[status], "content": problem}
    if route.request is models.EvaluationBody:
        failure = {"application/json": {"schema": reference(models.EvaluationFailure)}}
        for status in (400, 404):
            found[str(status)] = {"description": "There is no answer.", "content": failure}
    return found


def reference(kind: Any) -> dict[str, str]:
    """A reference to the schema of a type."""
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
