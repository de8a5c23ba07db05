"""A real experiment under traffic, seen in a real browser: it learns, drifts, is held, and begins again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Server
from tests.service.dashboard.test_browser import PICTURES, Tab, axe, browser, pytestmark  # noqa: F401

EXPERIMENT = {
    "name": "checkout", "arms": ["new", "newer", "old"], "objective": {"maximise": "gain"},
    "guardrails": [{"name": "fail", "at_most": 0.3}], "baseline": "old", "baseline_costs": {"fail": 0.1},
    "timeout": 600,
}  # fmt: skip


class Traffic:
    """Calls whose outcomes depend on the arm, and from some time on on nothing good."""

    def __init__(self, server: Server) -> None:
        self.server, self.rng, self.rates = server, random.Random(1), {"new": 0.15, "newer": 0.9, "old": 0.08}

    def serve(self, calls: int) -> list[dict[str, Any]]:
        decisions: list[dict[str, Any]] = []
        for _ in range(calls):
            made = self.server.call("POST", "/v1/experiments/checkout/decisions", {"count": 100})["decisions"]
            items = [
                {"id": one["id"], "outcome": {"gain": 0.9 if one["arm"] == "new" else 0.4,
                                              "fail": self.rng.random() < self.rates[one["arm"]]}}
                for one in made
            ]  # fmt: skip
            self.server.call("POST", "/v1/feedback", {"items": items})
            decisions += made
        return decisions


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(str(tmp_path / "surefoot.db"), tmp_path)
    server.admin = server.key  # type: ignore[attr-defined]
    yield server
    server.stop()


def test_an_alarm_appears_without_a_reload_and_the_operator_acts(browser: Any, server: Any) -> None:  # noqa: F811
    server.call("POST", "/v1/experiments", EXPERIMENT)
    traffic = Traffic(server)
    decisions = traffic.serve(20)
    tab = Tab(browser, server, server.admin, viewport={"width": 1280, "height": 4000})  # charts in sight are drawn
    page = tab.page
    tab.go("/experiments/checkout")
    page.evaluate("window.mark = 1")
    page.wait_for_selector(".lead:has-text('guardrail')")
    page.wait_for_selector("text=2,000")
    traffic.serve(1)
    page.wait_for_selector("text=2,100")
    page.wait_for_selector(".chart:not([data-drawn])", state="detached")
    page.screenshot(path=PICTURES / "live-running-1280-light.png", full_page=True)
    traffic.rates = dict.fromkeys(traffic.rates, 0.95)
    traffic.serve(5)
    page.wait_for_selector("#alarms:has-text('is above')", timeout=15_000)
    page.wait_for_selector(".lead:has-text('Held')")
    assert page.evaluate("window.mark") == 1  # the page was never loaded again
    page.screenshot(path=PICTURES / "live-held-1280-light.png", full_page=True)
    assert server.call("GET", "/v1/experiments/checkout")["state"] == "held"

    page.click(".acts >> text=Resume")
    page.fill("dialog[open] [name=reason]", "the new release is withdrawn")
    page.click("dialog[open] button >> text=Resume")
    page.wait_for_selector("#epochs:has-text('the new release is withdrawn')")
    page.wait_for_selector("#audit:has-text('the new release is withdrawn')")
    status = server.call("GET", "/v1/experiments/checkout")
    assert (status["state"], status["epoch"]) in (("running", 1), ("measuring", 1))

    late = next(one for one in reversed(decisions) if one["arm"] == "new")
    tab.go(f"/decisions/{late['id']}")
    words = page.inner_text("main")
    assert "new had" in words
    assert "newer" in words
    page.screenshot(path=PICTURES / "live-decision-1280-light.png", full_page=True)
    tab.go("/")
    page.wait_for_selector("h2:has-text('checkout')")
    page.screenshot(path=PICTURES / "live-experiments-1280-light.png", full_page=True)
    found = axe.Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    tab.check()
    tab.context.close()
