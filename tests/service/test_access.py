"""Keys and roles, attacked."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from itertools import product

import pytest

from surefoot.service import host as host_module
from surefoot.storage.keys import ROLES, create_key, digest_of, list_keys, revoke_key
from tests.servers import GOOD, ROUTING
from tests.service.conftest import Api

REQUESTS = {
    ("POST", "/v1/experiments"): {"admin"},
    ("GET", "/v1/experiments"): {"read"},
    ("GET", "/v1/experiments/routing"): {"read"},
    ("PATCH", "/v1/experiments/routing"): {"admin"},
    ("POST", "/v1/experiments/routing/decisions"): {"decide"},
    ("GET", "/v1/experiments/routing/strategy"): {"read", "decide"},
    ("POST", "/v1/experiments/routing/blocks"): {"decide"},
    ("POST", "/v1/experiments/routing/drawn"): {"decide"},
    ("POST", "/v1/experiments/routing/observations"): {"admin"},
    ("POST", "/v1/experiments/routing/hold"): {"admin"},
    ("POST", "/v1/experiments/routing/resume"): {"admin"},
    ("POST", "/v1/experiments/routing/switch"): {"admin"},
    ("POST", "/v1/experiments/routing/stop"): {"admin"},
    ("GET", "/v1/experiments/routing/rounds"): {"read"},
    ("GET", "/v1/experiments/routing/alarms"): {"read"},
    ("GET", "/v1/experiments/routing/audit"): {"admin"},
    ("GET", "/v1/audit"): {"admin"},
    ("POST", "/v1/hold"): {"admin"},
    ("PUT", "/v1/decisions/x-0/feedback"): {"feedback"},
    ("POST", "/v1/feedback"): {"feedback"},
    ("POST", "/v1/decisions/x-0/cancel"): {"feedback"},
    ("POST", "/ofrep/v1/evaluate/flags/routing"): {"decide"},
}
"""Every request that needs a key, and the roles that allow it; admin always does."""


def test_every_route_that_needs_a_key_is_tried_here(routing: Api) -> None:
    needed = {
        (method.upper(), path)
        for path, operations in routing.client.get("/openapi.json").json()["paths"].items()
        for method, operation in operations.items()
        if "security" in operation
    }
    tried = {(method, path.replace("/x-0/", "/{id}/").replace("/routing", "/{name}")) for method, path in REQUESTS}
    assert tried == needed


@pytest.mark.parametrize(("request_", "role"), [*product(REQUESTS, ROLES)])
def test_a_role_allows_what_it_should_and_nothing_else(keyed: Api, request_: tuple[str, str], role: str) -> None:
    key = KEYS[role]
    method, path = request_
    answer = keyed(method, path, b"[]" if method != "GET" else None, key=key)  # a body that no route takes
    allowed = role == "admin" or role in REQUESTS[request_]
    assert (answer.status_code != 403) == allowed, answer.text
    if method != "GET" and allowed:
        assert answer.status_code in (400, 404, 422)
    elsewhere = keyed(method, path, b"[]" if method != "GET" else None, key=KEYS[f"{role} elsewhere"])
    if "/routing" in path or path in ("/v1/hold", "/v1/audit"):
        assert elsewhere.status_code == 403, elsewhere.text


KEYS: dict[str, str] = {}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    from tests.service.conftest import started

    for api in started(str(tmp_path_factory.mktemp("keys") / "surefoot.db")):
        api.create()
        for role in ROLES:
            KEYS[role], KEYS[f"{role} elsewhere"] = api.new_key(role), api.new_key(role, experiment="elsewhere")
        yield api


@pytest.mark.parametrize(
    "header",
    [
        {},
        *(
            {"Authorization": value}
            for value in ("", "Bearer", "Bearer ", "Basic YQ==", "Bearer sf_wrong", "Bearer \xff")
        ),
        {"X-API-Key": "sf_wrong"},
    ],
)
def test_without_a_valid_key_nothing_is_answered(keyed: Api, header: dict[str, str]) -> None:
    sent = {name: value.encode("latin-1") for name, value in header.items()}
    for method, path in REQUESTS:
        answer = keyed.client.request(method, path, headers=sent)  # type: ignore[arg-type]
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_key_for_one_experiment_sees_no_other(routing: Api) -> None:
    routing.create(name="other")
    key = routing.new_key("admin", experiment="other")
    mine, theirs = routing.decide("other"), routing.decide()
    assert [one["name"] for one in routing.ok("GET", "/v1/experiments", key=key)["experiments"]] == ["other"]
    items = [{"id": one["id"], "outcome": GOOD} for one in (mine, theirs)]
    taken = routing.ok("POST", "/v1/feedback", {"items": items}, key=key)["items"]
    assert taken[0]["status"] == "accepted"
    assert taken[1]["problem"]["status"] == 404
    for action, body in (("feedback", {"outcome": GOOD}), ("cancel", {"reason": "x"})):
        method = "PUT" if action == "feedback" else "POST"
        assert routing(method, f"/v1/decisions/{theirs['id']}/{action}", body, key=key).status_code == 404
    for path in ("/v1/experiments", "/v1/experiments?dry_run=true"):
        assert routing("POST", path, {**ROUTING, "name": "third"}, key=key).status_code == 403
    for method, path in REQUESTS:
        if "routing" in path or path in ("/v1/audit", "/v1/hold"):
            assert routing(method, path, {}, key=key).status_code == 403, path
    assert routing.status()["pending"] == 1
    assert [one["action"] for one in routing.ok("GET", "/v1/experiments/routing/audit")["entries"]] == ["create"]


def test_a_key_expires(routing: Api) -> None:
    key = routing.new_key("read", expires=routing.clock() + 10.0)
    assert routing("GET", "/v1/experiments", key=key).status_code == 200
    routing.clock.time += 10.0
    assert routing("GET", "/v1/experiments", key=key).status_code == 401


def test_a_revoked_key_is_refused_within_seconds(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host_module.KEYS_EVERY <= 1.5  # and a moment to read them
    key = routing.new_key("read")
    number = list_keys(routing.host.database)[digest_of(key)].id
    assert revoke_key(routing.host.database, number, routing.clock())
    assert not revoke_key(routing.host.database, 99, routing.clock())
    routing.clock.time += 2.0
    for _ in range(200):
        if routing("GET", "/v1/experiments", key=key).status_code == 401:
            return
        routing.client.portal.call(__import__("asyncio").sleep, 0.05)  # type: ignore[union-attr]
    raise AssertionError("the key still works")


def test_a_key_that_is_revoked_while_its_request_waits(routing: Api) -> None:
    """A long poll of half a minute must not outlive its key by as much."""
    path = "/v1/experiments/routing/strategy"
    for end in ("revoked", "expired"):
        key = routing.new_key("read", expires=routing.clock() + 50.0)
        tag = routing("GET", path, key=key).headers["etag"]
        found: list[int] = []

        def wait(key: str = key, tag: str = tag, found: list[int] = found) -> None:
            found.append(routing("GET", f"{path}?wait=30", key=key, If_None_Match=tag).status_code)

        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        if end == "revoked":
            revoke_key(routing.host.database, list_keys(routing.host.database)[digest_of(key)].id, routing.clock())
        else:
            routing.clock.time += 60.0
        waiting.join(5.0)
        assert found == [401]


def test_keys_are_not_kept_and_not_logged(routing: Api, db: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        routing("GET", "/v1/experiments", key="sf_secret-that-is-wrong")
        routing("POST", "/v1/experiments/routing/decisions", b"{")
    assert routing.key not in caplog.text
    assert "sf_secret" not in caplog.text
    with sqlite3.connect(db) as connection:
        dump = "\n".join(connection.iterdump())
    assert digest_of(routing.key) in dump
    assert routing.key not in dump
    assert routing.key not in routing("GET", "/v1/audit").text


def test_every_change_is_in_the_audit_with_who_and_why(routing: Api) -> None:
    who = routing.new_key("admin", who="tester")
    path = "/v1/experiments/routing"
    routing.ok("POST", f"{path}/hold", {"reason": "incident"}, key=who)
    routing.ok("POST", f"{path}/resume", {"reason": "over"}, key=who)
    routing.ok("POST", f"{path}/switch", {"mode": "shadow", "reason": "look"}, key=who)
    routing.ok("POST", f"{path}/stop", {"reason": "done"}, key=who)
    assert routing("POST", f"{path}/hold", {"reason": "again"}, key=who).status_code == 410  # changes nothing
    entries = routing.ok("GET", f"{path}/audit")["entries"]
    assert [(one["action"], one["reason"]) for one in entries] == [
        ("create", None), ("hold", "incident"), ("resume", "over"), ("switch to shadow", "look"), ("stop", "done"),
    ]  # fmt: skip
    assert [one["who"] for one in entries] == ["tester (key 1)"] + ["test (key 2)"] * 4
    assert routing.ok("GET", f"{path}/audit?after={entries[1]['id']}&limit=1")["entries"] == entries[2:3]
    everything = routing.ok("GET", "/v1/audit")["entries"]
    assert [one["action"] for one in everything[:2]] == ["create key", "create"]


def test_answers_have_safe_headers(routing: Api) -> None:
    for path in ("/v1/experiments", "/nothing", "/metrics", "/openapi.json", "/v1/experiments/routing/rounds"):
        headers = routing("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("", ["read"]), "name"), (("x" * 61, ["read"]), "name"), (("a\nb", ["read"]), "name"),
        (("x", []), "roles"), (("x", ["root"]), "role"),
    ],
)  # fmt: skip
def test_a_key_that_makes_no_sense_is_refused(routing: Api, arguments: tuple[str, list[str]], argument: str) -> None:
    import surefoot as sf

    with pytest.raises(sf.RuleError) as error:
        create_key(routing.host.database, *arguments, 0.0)
    assert error.value.argument == argument
    with pytest.raises(sf.RuleError):
        create_key(routing.host.database, "x", ["read"], 0.0, experiment="a/b")
