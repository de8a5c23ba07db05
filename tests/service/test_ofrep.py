"""OpenFeature's own OFREP provider against a running service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openfeature import api as openfeature
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from openfeature.provider import FeatureProvider

from tests.servers import GOOD, ROUTING, Server

ARMS = ROUTING["arms"]
DEFAULT = "what the application has"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("surefoot.db", tmp_path_factory.mktemp("ofrep"))
    yield server
    server.stop()


def provider_of(address: str, key: str) -> FeatureProvider:
    provider = OFREPProvider(address, headers_factory=lambda: {"Authorization": f"Bearer {key}"})
    provider.session.trust_env = False  # a proxy of the machine does not know this service
    return provider


class Application:
    """What a caller does: ask for a flag, report under the id in its metadata."""

    def __init__(self, server: Server, name: str, key: str | None = None) -> None:
        self.name = name
        self._server, self._path = server, f"/v1/experiments/{name}"
        openfeature.set_provider(provider_of(server.address, key or server.key), domain=name)
        self.client = openfeature.get_client(domain=name)

    def __call__(self, unit: str | None = None, **attributes: Any) -> FlagEvaluationDetails[str]:
        return self.client.get_string_details(self.name, DEFAULT, EvaluationContext(unit, attributes))

    def report(self, found: FlagEvaluationDetails[str]) -> str:
        path = f"/v1/decisions/{found.flag_metadata['id']}/feedback"
        return str(self._server.call("PUT", path, {"outcome": GOOD})["status"])

    def operate(self, action: str, **body: str) -> None:
        self._server.call("POST", f"{self._path}/{action}", {"reason": "a test", **body})

    @property
    def pending(self) -> int:
        return int(self._server.call("GET", self._path)["pending"])


@pytest.fixture
def app(server: Server, request: pytest.FixtureRequest) -> Application:
    """An application with an experiment of its own."""
    name = str(request.node.name).replace("_", "-")
    server.call("POST", "/v1/experiments", {**ROUTING, "name": name})
    return Application(server, name)


def refused(found: FlagEvaluationDetails[Any], code: ErrorCode) -> str:
    """The message of an evaluation that gave the caller's default."""
    assert (found.value, found.reason, found.error_code) == (DEFAULT, Reason.ERROR, code), found
    return found.error_message or ""


def test_an_evaluation_is_a_decision(app: Application) -> None:
    found = app()
    assert found.value == found.variant in ARMS
    assert (found.reason, found.error_code) == (Reason.SPLIT, None)
    assert set(found.flag_metadata) == {"id", "propensity", "epoch", "mode", "due"}
    assert 0.0 < float(found.flag_metadata["propensity"]) <= 1.0
    assert (found.flag_metadata["epoch"], found.flag_metadata["mode"]) == (0, "live")
    assert app.pending == 1
    assert app.report(found) == "accepted"
    assert app.report(found) == "replayed"
    assert app.pending == 0


def test_the_targeting_key_keeps_a_user_on_one_arm(app: Application) -> None:
    found = app("user-1", country="CH", visits=3)
    assert {str(app("user-1").flag_metadata["id"]) for _ in range(5)} == {found.flag_metadata["id"]}
    assert app("user-2").flag_metadata["id"] != found.flag_metadata["id"]
    assert app.pending == 2
    assert app.report(found) == "accepted"
    assert app("user-1").flag_metadata["id"] != found.flag_metadata["id"], "feedback ends it"


def test_the_baseline_while_held(app: Application) -> None:
    app.operate("hold")
    found = app()
    assert (found.value, found.reason, found.flag_metadata["mode"]) == (ROUTING["baseline"], Reason.DEFAULT, "safe")
    app.operate("resume")
    assert app().reason == Reason.SPLIT


def test_the_baseline_in_shadow_mode(app: Application) -> None:
    app.operate("switch", mode="shadow")
    found = app()
    assert (found.value, found.reason, found.flag_metadata["mode"]) == (ROUTING["baseline"], Reason.DEFAULT, "shadow")


def test_the_callers_default_after_the_end(app: Application) -> None:
    app.operate("stop")
    assert "stopped" in refused(app(), ErrorCode.GENERAL)
    assert app.pending == 0


def test_the_callers_default_for_an_unknown_flag(server: Server) -> None:
    assert "nothing" in refused(Application(server, "nothing")(), ErrorCode.FLAG_NOT_FOUND)


def test_the_callers_default_without_a_key(server: Server, app: Application) -> None:
    stranger = Application(server, app.name, key="sf_wrong")
    assert refused(stranger(), ErrorCode.GENERAL) == "unauthorized"
    assert app.pending == 0


def test_the_callers_default_for_a_context_that_breaks_a_rule(app: Application) -> None:
    assert "unit" in refused(app("u" * 1_000), ErrorCode.INVALID_CONTEXT)
    assert "targetingKey" in refused(app(targetingKey=7), ErrorCode.INVALID_CONTEXT)


def test_the_callers_default_for_another_type(app: Application) -> None:
    found = app.client.get_boolean_details(app.name, True)
    assert (found.value, found.reason, found.error_code) == (True, Reason.ERROR, ErrorCode.TYPE_MISMATCH)


def test_the_callers_default_when_nothing_answers(server: Server) -> None:
    with httpx2.Client(verify=False) as client, pytest.raises(httpx2.ConnectError):
        client.get("http://127.0.0.1:9/")  # the control: nobody listens there
    openfeature.set_provider(provider_of("http://127.0.0.1:9", server.key), domain="nobody")
    refused(openfeature.get_client(domain="nobody").get_string_details("routing", DEFAULT), ErrorCode.GENERAL)


def test_no_bulk_evaluation(server: Server, app: Application) -> None:
    """It would make a decision of every experiment, and nobody would report on most of them."""
    headers = {"Authorization": f"Bearer {server.key}"}
    answer = httpx2.post(f"{server.address}/ofrep/v1/evaluate/flags", json={"context": {}}, headers=headers)
    assert answer.status_code == 404
    assert app.pending == 0


def test_the_example_of_the_page(server: Server) -> None:
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```py\n(.*?)^```$", page[page.index("## OpenFeature") :], re.M | re.S)
    server.call("POST", "/v1/experiments", {**ROUTING, "name": "llm-routing"})
    served: list[str] = []
    reported: list[str] = []
    exec(example, {"address": server.address, "key": server.key, "serve": served.append, "report": reported.append})
    path = f"/v1/decisions/{reported[0]}/feedback"
    assert (served[0] in ARMS, server.call("PUT", path, {"outcome": GOOD})) == (True, {"status": "accepted"})
