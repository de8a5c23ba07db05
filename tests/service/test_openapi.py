"""The OpenAPI document, and a running service held to it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.openapi.checks import JsonSchemaError, UndefinedStatusCode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from surefoot.service.openapi import document
from surefoot.service.routes import Routes
from tests.servers import ROUTING, Server
from tests.service.conftest import Api

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DOCUMENT = document(Routes(None, None).table())  # type: ignore[arg-type]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
EXAMPLES = int(os.environ.get("SUREFOOT_CASES", "5"))
"""How many cases for each operation; 400 for the figures of docs/performance-notes.md."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    server = Server("surefoot.db", folder)
    for name in ("routing", "steady"):  # cases may stop the first
        server.call("POST", "/v1/experiments", {**ROUTING, "name": name})
    yield server
    server.stop()
    assert "Traceback" not in (folder / "log").read_text()


def test_the_document_is_valid_and_served(api: Api) -> None:
    validate(DOCUMENT)
    assert api.client.get("/openapi.json").json() == DOCUMENT


def test_a_client_can_be_generated() -> None:
    """Every operation has its own id, a summary, an answer with a schema, and problems."""
    operations = [one for path in DOCUMENT["paths"].values() for one in path.values()]
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids) == 25
    for one in operations:
        assert one["summary"]
        good = next(answer for status, answer in one["responses"].items() if status.startswith("2"))
        assert "content" in good or "204" in one["responses"]
        if "security" in one:
            assert {"400", "401", "403", "429", "503"} <= set(one["responses"])


def asked(case: Any, server: Server) -> Any:
    """The answer to a case, which is about an experiment and a decision that exist, half of the time."""
    places = case.path_parameters or {}
    if len(str(places.get("name", ""))) % 2:
        places["name"] = "routing"
    if len(str(places.get("id", ""))) % 2:
        places["id"] = server.call("POST", "/v1/experiments/steady/decisions", {})["decisions"][0]["id"]
    (case.query or {}).pop("wait", None)  # nobody waits here
    return case.call(base_url=server.address, headers={"Authorization": f"Bearer {server.key}"})


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_service_keeps_to_its_document(case: Any, server: Server) -> None:
    answer = asked(case, server)
    case.validate_response(answer, checks=checks_of(answer))


def checks_of(answer: Any) -> list[Any]:
    """The checks for an answer. A wrong parameter without a value is not in the address, so nothing is wrong there."""
    sent = parse_qsl(urlsplit(answer.request.url).query, keep_blank_values=True)
    right = all(name in ("after", "limit") and re.fullmatch("[0-9]{1,15}", value) for name, value in sent)
    plain = answer.request.method == "GET" and right and len(dict(sent)) == len(sent)
    return [check for check in CHECKS if not plain or check is not negative_data_rejection]


def test_unknown_and_repeated_parameters_are_refused(api: Api) -> None:
    api.create()
    for path, said in (
        ("/v1/experiments?x=1", "'x' is not known here"),
        ("/v1/experiments/routing/rounds?after=1&after=2", "'after' is there twice"),
        ("/v1/experiments/routing/rounds?afer=1", "'afer' is not known here"),
    ):
        status, problem = api.problem("GET", path)
        assert (status, problem["type"]) == (400, "urn:surefoot:malformed")
        assert said in problem["detail"]
    assert api.problem("POST", "/v1/experiments/routing/hold?force=yes", {"reason": "x"})[0] == 400
    assert api.status()["state"] == "running"


def test_the_service_keeps_to_its_document_from_call_to_call(server: Server) -> None:
    """Calls that follow the links of the document: what was created, decided or held is used in the next one."""
    linked = schemathesis.openapi.from_dict(DOCUMENT)
    linked.config.update(base_url=server.address)
    workflow: Any = linked.as_state_machine()
    statuses: Counter[int] = Counter()

    class Workflow(workflow):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> Any:
            return {"headers": {"Authorization": f"Bearer {server.key}"}}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            statuses[response.status_code] += 1
            case.validate_response(response, checks=checks_of(response))

    run_state_machine_as_test(
        Workflow,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=10, suppress_health_check=list(HealthCheck), deadline=None
        ),
    )
    assert statuses[200] + statuses[201] + statuses[204] > EXAMPLES


@pytest.mark.parametrize(
    ("path", "check", "failure"),
    [
        ("/healthz", response_schema_conformance, JsonSchemaError),
        ("/v1/experiments", status_code_conformance, UndefinedStatusCode),
    ],
)
def test_a_document_that_is_wrong_is_noticed(server: Server, path: str, check: Any, failure: type) -> None:
    """The control: a field of another type, and a status that is not described."""
    wrong = deepcopy(DOCUMENT)
    wrong["components"]["schemas"]["Health"]["properties"]["status"] = {"type": "integer"}
    del wrong["paths"]["/v1/experiments"]["get"]["responses"]["401"]
    case = schemathesis.openapi.from_dict(wrong)[path]["GET"].Case()
    with pytest.raises(FailureGroup) as failures:
        case.validate_response(case.call(base_url=server.address), checks=[check])
    assert type(failures.value.exceptions[0]) is failure
