"""Pages over HTTP: login, cookies, forms of others, roles, markup, headers, errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from surefoot.service.access import Access, Rates
from surefoot.service.dashboard import frame as frame_module
from surefoot.service.dashboard import session as session_module
from surefoot.service.dashboard.form import Form
from surefoot.service.dashboard.frame import Frame, used
from surefoot.service.dashboard.session import Sessions
from surefoot.service.dashboard.views import Rail
from surefoot.service.problems import Problem
from surefoot.storage.keys import digest_of, list_keys, revoke_key
from surefoot.storage.schema import sessions
from tests.servers import ROUTING
from tests.service.conftest import Api
from tests.service.dashboard.conftest import Browser
from tests.service.dashboard.fake import DECISION, HEBREW, MARKUP, ODD_DECISION, QUOTES, REASON, TURNED
from tests.service.test_roles import started

LOOKING = [
    "/", "/experiments/llm-routing", "/experiments/llm-routing/arms", "/experiments/llm-routing/course", "/decisions",
    f"/decisions/{DECISION}", "/new", "/keys", "/keys/1/revoke", "/about", "/experiments/routing/hold",
    "/experiments/routing/change",
]  # fmt: skip
CHANGING = [
    "/experiments/routing/hold", "/experiments/routing/resume", "/experiments/routing/stop",
    "/experiments/routing/shadow", "/experiments/routing/live", "/experiments/routing/change", "/new", "/keys",
    "/keys/1/revoke", "/logout",
]  # fmt: skip


# Logging in.


def test_without_a_session_a_page_leads_to_the_login_and_back(site: Api) -> None:
    somebody = Browser(site)
    for path in LOOKING:
        answer = somebody.get(path)
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/login")
    answer = somebody.get("/experiments/llm-routing/arms?q=a&page=2")
    page = somebody.get(answer.headers["location"]).text
    back = re.search(r'name="next" value="([^"]*)"', page)
    assert back
    assert somebody.login(site.key, next=back.group(1).replace("&amp;", "&")).headers["location"] == (
        "/experiments/llm-routing/arms?q=a&page=2"
    )


@pytest.mark.parametrize("elsewhere", ["https://x.example/", "//x.example/", "/\\x.example", "javascript:alert(1)"])
def test_a_login_leads_nowhere_else(site: Api, elsewhere: str) -> None:
    site.clock.time += 60.0
    assert Browser(site).login(site.key, next=elsewhere).headers["location"] == "/"


def test_the_cookie_is_not_the_key_and_scripts_cannot_read_it(site: Api) -> None:
    somebody = Browser(site)
    cookie = somebody.login(site.key).headers["set-cookie"]
    assert site.key not in cookie
    assert digest_of(site.key) not in cookie
    for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert part in cookie
    assert "Secure" not in cookie


@pytest.mark.parametrize("how", ["https://testserver", "http://testserver"])
def test_the_cookie_is_secure_behind_https(site: Api, how: str) -> None:
    headers = {} if how.startswith("https") else {"X-Forwarded-Proto": "https"}
    somebody = Browser(site)
    answer = somebody.client.post(f"{how}/login", data={"key": site.key}, headers=headers)
    cookie = answer.headers["set-cookie"]
    assert "Secure" in cookie
    assert cookie.startswith("__Host-surefoot=")
    value = cookie.partition(";")[0].partition("=")[2]
    for name, status in (("__Host-surefoot", 200), ("surefoot", 303)):  # a cookie from a plain page does not count
        answer = Browser(site).get("/", headers={"X-Forwarded-Proto": "https", "Cookie": f"{name}={value}"})
        assert answer.status_code == status


@pytest.mark.parametrize("key", ["", "sf_wrong", "\xff", "x" * 5000])
def test_a_wrong_key_is_refused(site: Api, key: str) -> None:
    site.clock.time += 60.0
    answer = Browser(site).login(key)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "the key is not known" in answer.text


def test_attempts_to_log_in_are_limited(site: Api) -> None:
    site.clock.time += 600.0
    somebody = Browser(site)
    statuses = [somebody.login("sf_guess").status_code for _ in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert "Retry-After" in somebody.login(site.key).headers  # not even a right key
    site.clock.time += 2.0
    assert somebody.login(site.key).status_code == 303
    site.clock.time += 600.0


def test_a_token_that_was_changed_is_no_session(site: Api) -> None:
    site.clock.time += 60.0
    token = Browser(site, site.key).client.cookies["surefoot"]
    with site.host.database.engine.connect() as connection:
        digests = [digest for (digest,) in connection.execute(sa.select(sessions.c.digest))]
    assert digest_of(token) in digests
    assert token not in digests
    for one in (token[:-1], f"{token}0", token.upper(), "", "x", site.key, *digests, "\xb2"):
        answer = Browser(site).get("/", headers={"Cookie": f"surefoot={one}".encode("latin-1")})
        assert answer.status_code == 303, one
    assert Browser(site).get("/", headers={"Cookie": f"surefoot={token}"}).status_code == 200  # the control


def test_a_session_ends_with_time_logout_and_its_key(site: Api) -> None:
    site.clock.time += 60.0
    short = site.new_key("read", expires=site.clock() + 100.0)
    key = site.new_key("read")
    expiring, revoked, leaving, staying = (Browser(site, one) for one in (short, key, site.key, site.key))
    token = leaving.client.cookies["surefoot"]
    assert leaving.post("/logout").headers["location"] == "/login"
    assert "surefoot" not in leaving.client.cookies
    assert Browser(site).get("/", headers={"Cookie": f"surefoot={token}"}).status_code == 303  # nor a copy of it
    revoke_key(site.host.database, list_keys(site.host.database)[digest_of(key)].id, site.clock())
    site.host.read_keys()  # as the service does every second
    assert revoked.get("/").status_code == 303
    assert expiring.get("/").status_code == 200
    site.clock.time += 100.0
    assert expiring.get("/").status_code == 303
    assert staying.get("/").status_code == 200
    site.clock.time += session_module.LASTS
    assert staying.get("/").status_code == 303


def test_every_process_of_a_database_knows_a_session(tmp_path: Path) -> None:
    """Also that it has ended."""
    with started(str(tmp_path / "surefoot.db")) as processes:
        one, two = processes.start("learner"), processes.start("decider")
        somebody = Browser(one, one.key)
        cookie = {"Cookie": f"surefoot={somebody.client.cookies['surefoot']}"}
        assert Browser(two).get("/", headers=cookie).status_code == 200
        assert somebody.post("/logout").status_code == 303
        assert Browser(two).get("/", headers=cookie).status_code == 303


# Forms that somebody else has sent.


@pytest.mark.parametrize("path", CHANGING)
def test_a_change_needs_the_token_of_the_session(site: Api, path: str) -> None:
    site.clock.time += 60.0
    mine, theirs = Browser(site, site.key), Browser(site, site.key)
    before = site.ok("GET", "/v1/audit")
    for fields in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": theirs.csrf}):
        answer = mine.client.post(path, data={"reason": "x", **fields})
        assert answer.status_code == 403, answer.text
        assert "not of this session" in answer.text
    assert Browser(site).client.post(path, data={"reason": "x", "csrf": mine.csrf}).status_code == 401
    assert site.ok("GET", "/v1/audit") == before


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"}],
)  # fmt: skip
def test_a_form_of_another_site_is_refused(site: Api, headers: dict[str, str]) -> None:
    site.clock.time += 60.0
    somebody = Browser(site, site.key)
    answer = somebody.client.post(
        "/experiments/routing/hold", data={"reason": "x", "csrf": somebody.csrf}, headers=headers
    )
    assert answer.status_code == 403
    answer = Browser(site).client.post("/login", data={"key": site.key}, headers=headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    for fine in ({"Origin": "http://testserver"}, {"Sec-Fetch-Site": "same-origin", "Origin": "http://renamed"},
                 {"Origin": "https://public", "X-Forwarded-Host": "public"}):  # fmt: skip
        assert Browser(site).client.post("/login", data={"key": site.key}, headers=fine).status_code == 303


def test_a_token_in_a_header_will_do(admin: Browser) -> None:
    answer = admin.client.post("/new", data={"name": "x", "do": "check"}, headers={"X-CSRF-Token": admin.csrf})
    assert answer.status_code == 200


# Roles.


def test_each_role_sees_what_it_may(site: Api) -> None:
    site.clock.time += 60.0
    expected = {
        "read": {"/": 200, "/experiments/llm-routing": 200, "/new": 403, "/keys": 403, "/about": 403,
                 f"/decisions/{DECISION}": 200, "/experiments/routing/hold": 403, "/experiments/routing/change": 403},
        "decide": {"/": 200, "/experiments/llm-routing": 403, f"/decisions/{DECISION}": 404, "/keys": 403,
                   "/experiments/llm-routing/arms": 403, "/experiments/llm-routing/course": 403},
        "feedback": {"/": 200, "/experiments/llm-routing": 403, f"/decisions/{DECISION}": 404},
    }  # fmt: skip
    for role, pages in expected.items():
        somebody = Browser(site, site.new_key(role))
        assert {path: somebody.get(path).status_code for path in pages} == pages, role
        for path in CHANGING[:-1]:
            assert somebody.post(path, reason="x").status_code == 403, (role, path)
    reader = Browser(site, site.new_key("read"))
    page = reader.text("/experiments/llm-routing")
    assert "<dialog" not in page
    assert "Audit" not in page
    assert "/hold" not in page
    for role in ("decide", "feedback"):
        page = Browser(site, site.new_key(role)).text("/")
        assert f"This key may not read experiments. It has the role {role}" in page
        assert "llm-routing" not in page
    assert site.status()["state"] == "running"


def test_a_key_for_one_experiment_sees_that_one_only(site: Api) -> None:
    site.clock.time += 60.0
    somebody = Browser(site, site.new_key("admin", experiment="llm-routing"))
    page = somebody.text("/")
    assert re.findall(r"/experiments/([\w-]+)", page) == ["llm-routing"]
    assert "Keys" not in page
    assert "<dialog" in somebody.text("/experiments/llm-routing")
    for path, status in {"/experiments/markup": 403, f"/decisions/{ODD_DECISION}": 404, f"/decisions/{DECISION}": 200,
                         "/keys": 403, "/about": 403, "/experiments/routing/hold": 403}.items():  # fmt: skip
        assert somebody.get(path).status_code == status, path
    assert somebody.post("/experiments/routing/hold", reason="x").status_code == 403
    assert somebody.post("/keys", name="x", roles="admin").status_code == 403
    unknown = somebody.get("/decisions/f3k9-99").text
    assert somebody.get(f"/decisions/{ODD_DECISION}").text.replace(ODD_DECISION, "") == unknown.replace("f3k9-99", "")
    assert somebody.post("/new", **fields(name="another"), do="create").status_code == 403


# Operating.


def test_an_act_is_carried_out_as_over_http_and_is_in_the_audit(site: Api, admin: Browser) -> None:
    path = "/experiments/routing"
    for slug, state in (("hold", "held"), ("resume", "running"), ("shadow", "running"), ("live", "running")):
        assert "Reason" in admin.text(f"{path}/{slug}")
        answer = admin.post(f"{path}/{slug}", reason=f"why {slug}")
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert site.status()["state"] == state
        entry = site.ok("GET", f"/v1{path}/audit")["entries"][-1]
        assert (entry["who"], entry["reason"]) == ("tester (key 1)", f"why {slug}")


def test_what_cannot_be_done_is_said_on_the_page(site: Api, admin: Browser) -> None:
    answer = admin.post("/experiments/routing/resume", reason="x")
    assert answer.status_code == 409
    assert "only one that is held can be resumed" in answer.text
    answer = admin.post("/experiments/routing/hold", reason="  ")
    assert answer.status_code == 422
    answer = admin.post("/experiments/nothing/hold", reason="x")
    assert answer.status_code == 404
    assert admin.post("/experiments/routing/explode", reason="x").status_code == 404
    assert admin.get("/experiments/routing/explode").status_code == 404


def fields(**changes: str) -> dict[str, Any]:
    return {
        "name": "made", "arms": "a\nb\nc", "objective": "quality", "direction": "maximise", "baseline": "a",
        "timeout": "60", "policy": "solb", "rail_name": ["spend"], "rail_side": ["at_most"], "rail_limit": ["0.4"],
        "rail_low": [""], "rail_high": ["2"], "rail_unit": ["cents"], "rail_cost": ["0.1"], **changes,
    }  # fmt: skip


def test_an_experiment_is_made_with_the_form(site: Api, admin: Browser) -> None:
    page = admin.post("/new", **fields(), do="check", traffic="10000").text
    assert "hold learning back for about" in page
    assert "sf.AtMost(&#34;spend&#34;, 0.4, high=2.0, unit=&#34;cents&#34;)" in page
    assert "made" not in site.host.lives
    answer = admin.post("/new", **fields(delta="7"), do="create")
    assert answer.status_code == 422
    assert "delta must be in (0, 1), got 7.0" in answer.text
    answer = admin.post("/new", **fields(), do="create", mode="shadow")
    assert answer.headers["location"] == "/experiments/made"
    status = site.status("made")
    assert status["shadow"]
    rail = {"name": "spend", "at_most": 0.4, "low": 0, "high": 2, "unit": "cents"}
    assert status["experiment"]["guardrails"] == [rail]
    answer = admin.post("/new", **fields(), do="create")
    assert (answer.status_code, "already" in answer.text) == (409, True)


def test_an_epoch_begins_with_the_form_if_nobody_else_was_quicker(site: Api, admin: Browser) -> None:
    site.create(name="changing")
    page = admin.text("/experiments/changing/change")
    assert 'name="epoch" value="0"' in page
    assert 'name="rail_limit" value="0.4"' in page
    form = {**fields(), "arms": "\n".join(ROUTING["arms"]), "baseline": "in-house", "epoch": "0", "keep": "yes"}
    answer = admin.post("/experiments/changing/change", **form, do="change")
    assert (answer.status_code, "reason" in answer.text) == (422, True)
    answer = admin.post("/experiments/changing/change", **form, do="change", reason="fewer")
    assert answer.headers["location"] == "/experiments/changing"
    status = site.status("changing")
    assert (status["epoch"], len(status["guardrails"]), status["name"]) == (1, 1, "changing")
    answer = admin.post("/experiments/changing/change", **form, do="change", reason="late")
    assert answer.status_code == 412
    assert "somebody has begun another epoch meanwhile" in answer.text
    site.ok("POST", "/v1/experiments/changing/hold", {"reason": "x"})
    answer = admin.post("/experiments/changing/change", **form, do="resume", reason="with other values")
    assert answer.status_code == 303, answer.text
    assert site.status("changing")["state"] == "running"


def test_keys_are_made_shown_once_and_revoked(site: Api, admin: Browser, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    answer = admin.post("/keys", name=QUOTES, roles=["read", "decide"], experiment="llm-routing", days="2")
    assert (answer.status_code, answer.headers["location"], answer.content) == (303, "/keys", b"")
    for part in ("HttpOnly", "SameSite=strict", "Max-Age=60"):
        assert part in answer.headers["set-cookie"]
    answer = admin.get("/keys")
    found = re.search(r"sf_[\w-]{43}", answer.text)
    assert found
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert found.group() not in caplog.text
    made = len(list_keys(site.host.database))
    key = list_keys(site.host.database)[digest_of(found.group())]
    assert (key.name, key.roles, key.experiment) == (QUOTES, ("decide", "read"), "llm-routing")
    assert key.expires == site.clock() + 2 * 86_400
    assert "sf_" not in admin.text("/keys")
    assert len(list_keys(site.host.database)) == made
    entry = site.ok("GET", "/v1/audit")["entries"][-1]
    assert (entry["action"], entry["who"]) == ("create key", "tester (key 1)")
    mistakes: list[dict[str, Any]] = [
        {"name": ""}, {"roles": []}, {"experiment": "a/b"}, {"days": "-1"}, {"days": "x"}, {"roles": ["root"]},
    ]  # fmt: skip
    for wrong in mistakes:
        answer = admin.post("/keys", **{"name": "n", "roles": ["read"], **wrong})
        assert (answer.status_code, " must " in answer.text) == (422, True), wrong
    assert QUOTES not in admin.text(f"/keys/{key.id}/revoke")
    assert admin.post(f"/keys/{key.id}/revoke").headers["location"] == "/keys"
    assert list_keys(site.host.database)[digest_of(found.group())].revoked == site.clock()
    assert admin.get("/keys/999/revoke").status_code == 404


# Markup, headers, errors.


@pytest.mark.parametrize("path", ["/experiments/markup", "/experiments/markup/arms", "/experiments/markup/course",
                                  "/experiments/markup/change", f"/decisions/{ODD_DECISION}", "/"])  # fmt: skip
def test_names_and_reasons_are_escaped(admin: Browser, path: str) -> None:
    page = admin.text(path)
    assert MARKUP not in page
    assert "<img src=x" not in page
    assert "<b>bold" not in page
    assert ("&lt;script&gt;" in page) or path == "/"
    assert "style=" not in page
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=\"|<style", page)


@pytest.mark.parametrize("path", ["/", "/experiments/turned", "/experiments/turned/arms", "/experiments/turned/course"])
def test_a_name_that_turns_the_direction_does_so_for_itself_only(admin: Browser, path: str) -> None:
    page = re.sub(r"<pre.*?</pre>", "", admin.text(path), flags=re.DOTALL)
    assert (f"<bdi>{TURNED}</bdi>" in page) or path.endswith("course")
    outside = re.sub(r"<[^>]+>", "", re.sub(r"<bdi>[^<]*</bdi>", "", page))
    assert "\u202e" not in outside
    if path == "/experiments/turned":
        assert f"\u2068evil\u2069 is above its limit: \u2068{HEBREW}\u2069." in outside


@pytest.mark.parametrize(
    "path", ["/?q=", "/decisions/", "/experiments/", "/login?next=", "/experiments/thousand-arms/arms?q="]
)
def test_what_is_in_the_address_is_escaped(admin: Browser, path: str) -> None:
    page = admin.get(path + "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E").text
    assert "<script>alert" not in page


def test_a_reason_with_markup_is_sent_back_escaped(admin: Browser) -> None:
    answer = admin.post("/experiments/routing/resume", reason=REASON)
    assert REASON not in answer.text
    assert "&lt;img src=x" in answer.text


@pytest.mark.parametrize("path", [*LOOKING, "/login", "/nowhere", "/experiments/nothing"])
def test_every_page_has_safe_headers(admin: Browser, path: str) -> None:
    for answer in (admin.get(path), Browser(admin.api).get(path)):
        policy = answer.headers["content-security-policy"]
        assert set(policy.split("; ")) == {
            "default-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
        }  # fmt: skip
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


def test_errors_are_pages_for_browsers_and_problems_for_the_rest(site: Api, admin: Browser) -> None:
    for path in ("/nowhere", "/experiments/nothing", "/static/nothing.js"):
        answer = admin.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")
    assert admin.get("/logout").status_code == 405
    for path in ("/v1/nowhere", "/v1/experiments/nothing"):
        answer = admin.get(path)  # even if it is a browser that asks
        assert answer.headers["content-type"] == "application/problem+json"
    assert site("GET", "/nowhere").headers["content-type"] == "application/problem+json"
    assert admin.get("/v1/experiments").status_code == 401  # the cookie is no key there


def test_pages_are_not_in_the_openapi_document(site: Api) -> None:
    paths = site.ok("GET", "/openapi.json")["paths"]
    assert all(path.startswith(("/v1/", "/ofrep/", "/healthz", "/readyz", "/metrics")) for path in paths)


def test_answers_of_pages_are_counted_by_route(site: Api, admin: Browser) -> None:
    def count(method: str, route: str, status: int) -> float:
        labels = f'method="{method}",route="{route}",status="{status}"'
        found = re.search(
            rf"^surefoot_answers_total{{{re.escape(labels)}}} ([\d.]+)$", site("GET", "/metrics").text, re.M
        )
        return float(found.group(1)) if found else 0.0

    one = "/experiments/{name}"
    routes = [("GET", "/", 200), ("GET", one, 200), ("GET", one, 404), ("GET", "/static/{path}", 404),
              ("POST", "/keys", 422), ("POST", "/login", 401)]  # fmt: skip
    before = [count(*route) for route in routes]
    for path in ("/", "/experiments/llm-routing", "/experiments/markup", "/experiments/nothing", "/static/nothing.js"):
        admin.get(path)
    admin.client.post("/keys", data={"csrf": admin.csrf})  # which looks at the list for the token
    Browser(site).login("sf_wrong")
    assert [count(*route) - seen for route, seen in zip(routes, before, strict=True)] == [2, 2, 1, 1, 1, 1]
    assert "llm-routing" not in str(re.findall(r'route="([^"]*)"', site("GET", "/metrics").text))


def test_what_is_made_for_one_viewer_is_made_again_for_new_data_only(
    site: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_module, "MOST_PARTS", 3)
    frame, made = Frame(Sessions(site.host, Access(site.host, 1.0))), list[str]()

    def make(one: list[str]) -> str:
        made.append(one[0])
        return one[0]

    some = [[name] for name in "abcd"]
    assert [frame.once(make, one) for one in some[:3] + some[:3]] == [*"abcabc"]
    assert frame.once(make, list(some[0])) == "a"  # the same, but another object
    assert frame.once(make, some[3]) == "d"
    assert made == [*"abcad"]
    assert len(frame._parts) == 3
    frame.close()


def test_a_page_that_has_not_changed_is_not_sent_again(admin: Browser) -> None:
    answer = admin.get("/experiments/llm-routing")
    again = admin.get("/experiments/llm-routing", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert Browser(admin.api).get("/", headers={"If-None-Match": answer.headers["etag"]}).status_code == 303


def test_assets_are_small_cached_and_change_their_address(admin: Browser) -> None:
    page = admin.text("/experiments/llm-routing")
    found = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    assert {path.rpartition(".")[2] for path in found} == {"js", "css", "svg"}
    weight = 0
    for path in found:
        with admin.client.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
            weight += len(b"".join(answer.iter_raw()))
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        assert re.search(r"-[0-9a-f.]+\.\w+$", path)
    assert weight < 2_000_000
    assert admin.get(next(iter(found)), headers={"Accept-Encoding": "identity"}).headers.get("content-encoding") is None


def test_a_form_that_is_too_large_or_not_text_is_refused(admin: Browser) -> None:
    csrf = admin.csrf
    assert admin.client.post("/new", data={"csrf": csrf, "arms": "x" * 1_000_001}).status_code == 413
    answer = admin.client.post("/new", content=b"\xff=\xff", headers={"X-CSRF-Token": csrf})
    assert answer.status_code == 400


def test_a_thousand_arms_are_a_short_page(admin: Browser) -> None:
    assert len(admin.text("/experiments/thousand-arms")) < 300_000
    page = admin.text("/experiments/thousand-arms/arms?page=10")
    assert page.count("<tr>") == 101
    assert "page 10 of 10" in page
    for odd in ("0", "-1", "11", "x", "9" * 9):
        assert admin.get(f"/experiments/thousand-arms/arms?page={odd}").status_code == 200


@pytest.mark.parametrize(
    ("at_most", "limit", "value", "expected"),
    [(True, 0.4, 0.2, 0.5), (False, 0.9, 0.95, 0.5), (True, 0.4, 1.0, 1.5), (True, 0.0, 0.0, 0.0),
     (True, 0.0, 0.1, 1.5), (False, 1.0, 0.9, 1.5), (True, 0.4, None, None)],
)  # fmt: skip
def test_the_bar_of_a_guardrail_is_full_at_its_limit(
    at_most: bool, limit: float, value: float | None, expected: float | None
) -> None:
    rail = Rail("x", None, at_most, limit, 0.0, 1.0, value, value, value, [], True)
    assert used(rail, value) == (None if expected is None else pytest.approx(expected))


def test_buckets_that_are_full_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.service.access.MANY", 10)
    rates = Rates(1.0, 2.0, "slow down")
    for i in range(1000):
        rates.take(i, float(i))
    assert len(rates._tokens) < 20
    rates.take("a", 1000.0)
    rates.take("a", 1000.0)
    with pytest.raises(Problem, match="slow down"):
        rates.take("a", 1000.0)


def test_the_form_is_checked_for_admins_only(site: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one takes time, which nobody else may ask for."""
    site.clock.time += 60.0
    somebody, checked = Browser(site, site.new_key("decide")), list[str]()
    monkeypatch.setattr(Form, "check", lambda form: checked.append("yes"))
    assert somebody.post("/new", do="check", arms="a").status_code in (401, 403)
    csrf = re.search(r'name="csrf" value="([^"]+)"', somebody.text("/"))
    assert csrf is not None
    assert somebody.client.post("/new", data={"csrf": csrf.group(1), "do": "check"}).status_code == 403
    assert checked == []


def test_an_origin_that_is_none(site: Api) -> None:
    assert Browser(site).client.post("/login", data={"key": "x"}, headers={"Origin": "http://["}).status_code == 403


def test_an_experiment_that_is_not_open_is_shown(site: Api, admin: Browser) -> None:
    site.host.learning.closed["broken"] = "the experiment broken is not open"
    try:
        assert "the experiment broken is not open" in admin.text("/")
    finally:
        del site.host.learning.closed["broken"]
