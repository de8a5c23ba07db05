"""The pages in a real browser: every page, every button, nothing forbidden, nothing from elsewhere."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from surefoot.service.app import build
from surefoot.service.host import Host
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key
from tests.servers import ROUTING
from tests.service.dashboard.conftest import known
from tests.service.dashboard.fake import DECISION, MADE, MARKUP, ODD_DECISION, PREFIXES, Fake

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

PICTURES = Path(__file__).parents[3] / "test-output" / "screenshots"
MORE = [f"team-{i:02}-test" for i in range(93)]
PAGES = {
    "experiments": "/?q=-r", "experiment": "/experiments/llm-routing", "markup": "/experiments/markup",
    "held": "/experiments/checkout-discount",
    "measuring": "/experiments/search-ranking", "fifty-arms": "/experiments/fifty-arms",
    "arms": "/experiments/fifty-arms/arms?q=variant+0", "course": "/experiments/llm-routing/course",
    "act": "/experiments/routing/stop", "change": "/experiments/routing/change", "lookup": "/decisions",
    "decision": f"/decisions/{DECISION}", "new": "/new", "keys": "/keys", "revoke": "/keys/1/revoke", "about": "/about",
    "missing": "/nowhere", "login": "/login",
}  # fmt: skip

CENTRAL = ("experiments", "experiment", "decision", "new")
QUICKER = """{
    const wait = window.setTimeout;
    window.setTimeout = (work, ms, ...rest) => wait(work, ms >= 1000 ? ms / 8 : ms, ...rest);
}"""
"""Pages look for news eight times as often as they do elsewhere."""
FAULTS = {"resultTypes": ["violations"]}
ALIKE = ("markup", "held", "measuring", "fifty-arms")
"""Pages that look like another one: it is enough to look once."""


class Site:
    """The service on a port."""

    def __init__(self, folder: Path) -> None:
        db = str(folder / "surefoot.db")
        database = Database.open(db)
        self.admin = create_key(database, "operations", ["admin"], time.time())
        self.reader = create_key(database, "a reader", ["read"], time.time())
        self.one = create_key(database, "one", ["admin"], time.time(), experiment="llm-routing")
        self.decider = create_key(database, "checkout", ["decide"], time.time())
        database.close()
        self.sources: list[Fake] = []
        self.app = build(db, source=self._source)
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()

    def _source(self, host: Host) -> Fake:
        self.sources.append(Fake(host, len(MORE)))
        return self.sources[0]

    @property
    def host(self) -> Host:
        return self.app.state.host  # type: ignore[no-any-return]

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()


COOKIES: dict[str | None, Any] = {}


class Tab:
    """A page of a browser that is logged in, and everything that went wrong on it."""

    def __init__(self, browser: Any, site: Site, key: str | None, **options: Any) -> None:
        self.site, self.faults, self.requests = site, list[str](), list[str]()
        self.context = browser.new_context(**options)
        self.context.add_init_script(QUICKER)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on(
            "console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        if key in COOKIES:  # whoever has logged in before comes back
            self.context.add_cookies(COOKIES[key])
        elif key is not None:
            self.go("/login")
            self.page.fill("[name=key]", key)
            self.page.click("text=Log in >> visible=true >> nth=-1")
            self.page.wait_for_url(f"{site.address}/")
            COOKIES[key] = self.context.cookies()

    def go(self, path: str) -> Any:
        return self.page.goto(self.site.address + path)

    def drawn(self) -> None:
        """Wait until the charts in sight are drawn."""
        self.page.wait_for_selector(".chart .main-svg", state="attached")

    def check(self) -> None:
        """Nothing was refused or failed, and nothing was asked of another origin."""
        assert self.faults == []
        assert [url for url in self.requests if not url.startswith(self.site.address + "/")] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with known([*MADE, *MORE]):
        site = Site(tmp_path_factory.mktemp("browser"))
        deadline = time.monotonic() + 120
        while not site.host.ready and time.monotonic() < deadline:
            time.sleep(0.05)
        site.host.prefixes |= PREFIXES
        yield site
        site.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Any, site: Site) -> Iterator[Tab]:
    tab = Tab(browser, site, site.admin)
    yield tab
    tab.context.close()


@pytest.fixture(scope="module")
def routing(site: Site, browser: Any) -> str:
    """An experiment that the service really runs, begun with the form."""
    tab = Tab(browser, site, site.admin)
    page = tab.page
    tab.go("/new")
    page.fill("[name=name]", "rou ting")
    page.wait_for_selector("#error-name:has-text('must be 1 to 100 letters')")
    assert page.get_attribute("[name=name]", "aria-invalid") == "true"
    assert page.inner_text("#error-arms") == ""  # nobody has typed there yet
    page.fill("[name=name]", "routing")
    page.fill("[name=arms]", "\n".join(ROUTING["arms"]))
    page.fill("[name=objective]", "quality")
    page.fill("[name=rail_name] >> nth=0", "spend")
    page.fill("[name=rail_limit] >> nth=0", "3")
    page.wait_for_selector("#error-rail_0_limit:has-text('must be in [0, 1], got 3.0')")
    page.fill("[name=rail_high] >> nth=0", "2")
    page.fill("[name=rail_limit] >> nth=0", "0.4")
    page.fill("[name=rail_cost] >> nth=0", "0.08")
    page.click("[data-add-row]")
    page.fill("[name=rail_name] >> nth=-1", "answered")
    page.select_option("[name=rail_side] >> nth=-1", "at_least")
    page.fill("[name=rail_limit] >> nth=-1", "0.7")
    page.fill("[name=rail_cost] >> nth=-1", "0.6")
    page.fill("[name=baseline]", "in-house")
    page.fill("[name=timeout]", "600")
    page.wait_for_selector("#error-rail_2_cost:has-text('must be above the limit 0.7')")
    page.fill("[name=rail_cost] >> nth=-1", "0.99")
    page.fill("[name=traffic]", "10000")
    page.wait_for_selector("#result:has-text('hold learning back for about')")
    assert page.inner_text("#error-rail_2_cost") == ""
    assert 'sf.AtMost("spend", 0.4, high=2.0)' in page.inner_text("#result")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=PICTURES / "form-filled-1280-light.png", full_page=True)
    page.click("text=Begin the experiment")
    page.wait_for_url(f"{site.address}/experiments/routing")
    tab.check()
    tab.context.close()
    return "routing"


@pytest.fixture(scope="module")
def reader(browser: Any, site: Site, routing: str) -> Iterator[Tab]:
    """One tab for all pages that are only looked at."""
    tab = Tab(browser, site, site.admin)
    yield tab
    tab.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read_on_any_screen(reader: Tab, name: str) -> None:
    page, path = reader.page, PAGES[name]
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    assert reader.go(path).status == (404 if name == "missing" else 200)
    all_four = ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark"))
    for width, scheme in all_four if name in CENTRAL else all_four[::3]:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": width, "height": min(height, 8000)})  # so that all charts are in sight
        page.wait_for_selector(".chart:not([data-drawn])", state="detached")
        page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png")
        if name in ALIKE:
            break
        if scheme == "light" if width == 1280 else scheme == "dark" and name in ("experiment", "new"):
            found = axe.Axe().run(page, context={"exclude": [".main-svg"]}, options=FAULTS).response["violations"]
            assert [  # but for charts, each of which is a picture with a text
                (one["id"], one["nodes"][0]["target"]) for one in found if one["impact"] in ("serious", "critical")
            ] == []
    reader.faults = [one for one in reader.faults if name != "missing" or "404" not in one]
    reader.check()


def test_scripts_and_styles_weigh_less_than_2_mb_and_stay_in_the_cache(browser: Any, site: Site) -> None:
    tab, sizes = Tab(browser, site, site.admin), dict[str, int]()
    tab.page.on("requestfinished", lambda one: sizes.update({one.url: one.sizes()["responseBodySize"]}))
    tab.go("/experiments/llm-routing")
    tab.drawn()
    assert sum(size for url, size in sizes.items() if "/static/" in url) < 2_000_000
    sizes.clear()
    tab.go("/experiments/checkout-discount")
    tab.drawn()
    assert sum(size for url, size in sizes.items() if "/static/" in url) <= 0  # no answer at all counts as less
    tab.check()
    tab.context.close()


def test_a_page_changes_by_itself_and_keeps_what_is_open(tab: Tab) -> None:
    page = tab.page
    tab.go("/experiments/llm-routing")
    tab.drawn()
    page.click("summary >> nth=0")
    marks = page.evaluate("document.querySelector('details').mark = document.querySelector('.chart').mark = 1")
    tab.site.sources[0].verdicts["llm-routing"] = "Something new is the case."
    page.wait_for_selector(".lead:has-text('Something new is the case.')")
    tab.site.sources[0].verdicts.clear()
    page.wait_for_selector(".lead:has-text('All guardrails hold')")
    assert page.evaluate("document.querySelector('details').mark + document.querySelector('.chart').mark") == 2 * marks
    assert page.evaluate("document.querySelector('details').open")
    with page.expect_response(lambda answer: answer.url.endswith("/llm-routing")) as answer:
        pass
    assert answer.value.status == 304
    page.route("**/*", lambda route: route.abort())
    page.wait_for_selector("#stale:visible")
    tab.faults.clear()
    tab.context.close()


def test_roles_decide_what_is_shown(browser: Any, site: Site) -> None:
    tab = Tab(browser, site, site.reader)
    assert tab.page.locator("nav a").all_inner_texts() == ["Experiments", "Decisions"]
    tab.go("/experiments/llm-routing")
    assert tab.page.locator(".acts, dialog, #audit").count() == 0
    tab.check()
    tab.context.close()
    tab = Tab(browser, site, site.one)
    assert tab.page.locator("#found h2").all_inner_texts() == ["llm-routing"]
    tab.go("/experiments/llm-routing")
    assert tab.page.locator(".acts a").count() == 4
    tab.check()
    tab.context.close()
    tab = Tab(browser, site, site.decider)
    assert "may not read experiments" in tab.page.inner_text("main")
    tab.page.click("text=Log out")
    tab.page.wait_for_url(f"{site.address}/login")
    tab.go("/")
    tab.page.wait_for_url(f"{site.address}/login")
    tab.check()
    tab.context.close()


def test_a_hundred_experiments_can_be_searched(tab: Tab) -> None:
    page = tab.page
    tab.go("/")
    shown = page.locator("#found > li:visible")
    assert shown.count() >= 100
    assert page.locator("#found h2").first.inner_text() == "checkout-discount"  # what needs somebody comes first
    page.fill("#filter", "team-4")
    assert shown.count() == 10
    with page.expect_response(lambda answer: answer.url.endswith("/")):  # the page is loaded again meanwhile
        pass
    assert shown.count() == 10
    page.fill("#filter", "no such name")
    assert page.locator("#none").is_visible()
    tab.check()


def test_a_thousand_arms_do_not_freeze_a_page(tab: Tab) -> None:
    tab.go("/experiments/thousand-arms")
    tab.drawn()
    assert tab.page.evaluate("document.querySelectorAll('*').length") < 5000
    tab.page.click("text=All 1,000 arms >> nth=0")
    tab.page.click("text=Next")
    tab.page.wait_for_selector("text=page 2 of 10")
    tab.page.fill("#q", "0999")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("th:has-text('headline 0999')")
    tab.check()


def test_names_with_markup_stay_text(tab: Tab) -> None:
    alerts: list[str] = []

    def alerted(dialog: Any) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    tab.page.on("dialog", alerted)
    tab.go("/experiments/markup")
    tab.drawn()
    assert "<script>" in "".join(tab.page.locator("#allocation .legendtext").all_text_contents())
    tab.go(f"/decisions/{ODD_DECISION}")
    assert MARKUP in tab.page.inner_text("h1")
    assert alerts == []
    tab.check()


def test_a_decision_is_looked_up(tab: Tab) -> None:
    tab.go("/decisions")
    tab.page.fill("[name=id]", DECISION)
    tab.page.click("main button")
    tab.page.wait_for_url(f"{tab.site.address}/decisions/{DECISION}")
    assert "probability of 71 %" in tab.page.inner_text(".lead")
    tab.check()


def test_a_key_is_made_shown_once_used_and_revoked(browser: Any, tab: Tab, site: Site) -> None:
    page = tab.page
    tab.go("/keys")
    page.fill("[name=name]", "a colleague")
    page.check("[value=read]")
    page.click("text=Create the key")
    key = page.inner_text(".key")
    assert key.startswith("sf_")
    assert page.url == f"{site.address}/keys"
    page.reload()  # makes no other key, and does not show this one again
    assert (page.locator(".key").count(), page.locator("text=a colleague").count()) == (0, 1)
    other = Tab(browser, site, key)
    tab.go("/keys")
    assert page.locator(".key").count() == 0
    page.click("[aria-label='Revoke a colleague']")
    page.click("main button")
    page.wait_for_url(f"{site.address}/keys")
    other.page.wait_for_url(f"{site.address}/login")  # its page notices by itself
    other.page.fill("[name=key]", key)
    other.page.click("main button")
    other.page.wait_for_selector("text=expired or was revoked")
    other.context.close()
    tab.check()


def test_everything_works_without_scripts(browser: Any, site: Site, routing: str) -> None:
    COOKIES.clear()  # so that the login works without them, too
    tab = Tab(browser, site, site.admin, java_script_enabled=False)
    page = tab.page
    page.fill("[name=q]", "llm")
    page.click(".search button")
    assert page.locator("#found > li:visible").count() == 1
    page.click("text=llm-routing")
    assert "All guardrails hold" in page.inner_text(".lead")
    page.click("summary >> nth=0")
    assert page.locator("#allocation-data tr").count() == 13
    tab.go("/experiments/routing")
    page.click("#open-hold")
    page.fill("[name=reason]", "by hand")
    page.click("main button")
    assert "by hand" in page.inner_text(".reason")
    page.click("#open-resume")
    page.fill("[name=reason]", "over")
    page.click("main button")
    assert "running" in page.inner_text(".states")
    tab.go("/new")
    page.fill("[name=name]", "a b")
    page.click("text=Check >> visible=true >> nth=-1")
    assert "name must be 1 to 100 letters" in page.inner_text("#error-name")
    page.click("text=More guardrails")
    assert page.locator(".rail-form").count() >= 3
    tab.check()
    tab.context.close()


def test_an_operator_holds_resumes_switches_and_stops(tab: Tab, routing: str) -> None:
    page = tab.page

    def state() -> str:
        return str(tab.site.host.lives["routing"].status().state)

    def do(slug: str, reason: str, shown: str) -> None:
        page.click(f"#open-{slug}")
        dialog = page.locator(f"#dialog-{slug}")
        assert dialog.is_visible()
        assert page.evaluate("document.activeElement.name") == "reason"
        dialog.locator("button").first.click()  # without a reason nothing is sent
        assert dialog.is_visible()
        page.screenshot(path=PICTURES / f"dialog-{slug}.png")
        page.keyboard.press("Escape")
        assert not dialog.is_visible()
        page.click(f"#open-{slug}")
        dialog.locator("text=Cancel").click()
        assert not dialog.is_visible()
        page.click(f"#open-{slug}")
        dialog.locator("[name=reason]").fill(reason)
        dialog.locator("button").first.click()
        page.wait_for_selector(f".states:has-text('{shown}')")

    tab.go("/experiments/routing")
    assert page.locator("#open-resume").count() == 0
    do("hold", "an incident", "held")
    assert state() == "held"
    assert "an incident" in page.inner_text(".reason")
    do("resume", "over", "running")
    do("shadow", "look first", "shadow")
    do("live", "looks good", "running")
    page.click("#open-change")
    page.fill("[name=reason]", "more careful")
    page.click("summary:has-text('More settings')")
    page.fill("[name=delta]", "0.01")
    page.click("text=Begin a new epoch")
    page.wait_for_url(f"{tab.site.address}/experiments/routing")
    live = tab.site.host.lives["routing"]
    assert (live.status().epoch, live.experiment.delta) == (1, 0.01)
    do("stop", "done", "stopped")
    assert state() == "stopped"
    assert page.locator(".acts a").count() == 0
    tab.check()
    entries = [(one.action, one.who, one.reason) for one in audit(tab.site)]
    assert entries[-6:] == [
        (action, "operations (key 1)", reason)
        for action, reason in (
            ("hold", "an incident"), ("resume", "over"), ("switch to shadow", "look first"),
            ("switch to live", "looks good"), ("change", "more careful"), ("stop", "done"),
        )
    ]  # fmt: skip


def audit(site: Site) -> Any:
    import sqlalchemy as sa

    from surefoot.storage.schema import audit as table

    return site.host.database.rows(sa.select(table).where(table.c.experiment == "routing").order_by(table.c.id))
