"""The reader in a running process: alone on a file, and beside others on a database, in every role."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import surefoot as sf
from surefoot.service import elsewhere, host
from surefoot.service.dashboard import reader as reader_module
from surefoot.service.dashboard.overview import summary
from surefoot.service.dashboard.reader import Reader
from surefoot.service.dashboard.views import Detail, Explained, Summary
from tests.servers import ROUTING
from tests.service.conftest import Api, started
from tests.service.dashboard.worlds import noted
from tests.storage.test_databases import url

__all__ = ["url"]


class Pages:
    """The reader of a service, called from a test."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.reader: Reader = api.app.state.reader

    def _call(self, work: Any, *arguments: Any) -> Any:
        portal = self.api.client.portal
        assert portal is not None
        return portal.call(work, *arguments)

    def list(self, *names: str) -> list[Summary]:
        return self._call(self.reader.summaries, list(names))  # type: ignore[no-any-return]

    def detail(self, name: str = "routing", audit: bool = True) -> Detail:
        return self._call(self.reader.detail, name, audit)  # type: ignore[no-any-return]

    def explain(self, id: str) -> Explained:
        return self._call(self.reader.explain, id)  # type: ignore[no-any-return]

    def catch_up(self) -> None:
        self._call(self.reader._catch_up)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "FRESH", 0.0)
    monkeypatch.setattr(reader_module, "IDLE", 0.0)
    monkeypatch.setattr(reader_module, "DELAYS_EVERY", 0.0)
    monkeypatch.setattr(host, "LATELY", 0.0)


def until(what: Any) -> Any:
    """Wait until something is true; returns it."""
    for _ in range(300):
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(what)


def traffic(api: Api, n: int = 40) -> list[str]:
    ids = [one["id"] for one in api.decide(count=n)]
    for id in ids[: n - 2]:
        api.report(id)
    return ids


def test_everything_of_one_experiment(routing: Api) -> None:
    pages, ids = Pages(routing), traffic(routing)
    routing.ok("POST", "/v1/experiments/routing/hold", {"reason": "a look"})
    (one,) = pages.list("routing")
    assert (one.name, one.state, one.decisions, one.pending, one.rounds) == ("routing", "held", 40, 2, 38)
    assert len(one.rails[0].arms) == 3
    page = pages.detail()
    assert page.summary.rounds == page.course.rounds[-1] == 38
    assert sum(item.pending for item in page.waiting) == 2
    assert [entry["action"] for entry in page.audit] == ["hold", "create"]
    assert page.recent[0]["id"] in ids
    assert page.recent[0]["seq"] == 38
    assert len(page.recent) == reader_module.NEWEST_ROUNDS
    assert page.experiment["name"] == "routing"
    assert pages.detail(audit=False).audit == ()
    assert all(weight is not None for weight in page.course.safe_weight)
    found = pages.explain(ids[0])
    assert (found.state, found.round) == ("settled by feedback", 1)
    assert found.strategy
    for wrong in ("nonsense", ids[0][:-2] + "999"):
        with pytest.raises(sf.Unknown):
            pages.explain(wrong)
    with pytest.raises(sf.Unknown):
        pages.detail("other")


def test_alarms_have_their_time(routing: Api) -> None:
    pages = Pages(routing)
    bad = {"quality": 0.0, "spend": 2.0, "answered": False}
    while routing.status()["state"] == "running":
        routing.clock.time += 1.0
        for one in routing.decide(count=100):
            routing.report(one["id"], bad)
    page = pages.detail()
    assert page.summary.tone == "bad"
    assert page.summary.verdict.startswith("Held since an alarm: ")
    assert all(alarm["at"] == routing.clock.time for alarm in page.alarms if alarm["holds"])
    assert page.alarms[0]["epoch"] == 0


def test_what_a_status_knows_before_the_database_is_seen_soon(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody looks while a new epoch is being written."""
    monkeypatch.setattr(reader_module, "FRESH", 0.0)
    monkeypatch.setattr(reader_module, "IDLE", 60.0)
    pages = Pages(routing)
    before = pages.detail()
    routing.ok("POST", "/v1/experiments/routing/hold", {"reason": "a look"})
    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "read_audit", lambda *_, **__: before.audit)
        assert [entry["action"] for entry in pages.detail().audit] == ["create"]
    assert [entry["action"] for entry in pages.detail().audit] == ["hold", "create"]


def test_many_look_and_it_is_made_once(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "FRESH", 60.0)
    monkeypatch.setattr(reader_module, "IDLE", 60.0)
    pages, made = Pages(routing), list[Any]()
    monkeypatch.setattr(reader_module, "summary", noted(summary, made))
    for _ in range(5):
        pages.list("routing")
    assert len(made) == 1
    routing.ok("POST", "/v1/experiments/routing/hold", {"reason": "a look"})
    assert pages.list("routing")[0].state == "held"  # an operator sees at once what was done
    assert len(made) == 2


def test_an_experiment_that_is_being_changed_does_not_keep_the_list_waiting(routing: Api) -> None:
    pages = Pages(routing)
    pages.list("routing")
    routing.host.busy.add("routing")
    began = time.monotonic()
    assert [one.name for one in pages.list("routing")] == ["routing"]
    assert time.monotonic() - began < 5.0
    routing.host.busy.discard("routing")


def test_the_pace(routing: Api) -> None:
    pages = Pages(routing)
    assert pages.list("routing")[0].per_minute is None
    traffic(routing)
    routing.clock.time += 60.0
    assert pages.list("routing")[0].per_minute == pytest.approx(40.0, rel=0.1)
    routing.clock.time += 30.0
    assert pages.list("routing")[0].per_minute == pytest.approx(27.0, rel=0.1)


def test_a_page_does_not_wait_for_all_rounds(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is read in the background."""
    from surefoot.service.dashboard import histories

    pages = Pages(routing)
    traffic(routing)
    monkeypatch.setattr(histories, "AT_ONCE", 5)
    monkeypatch.setattr(reader_module, "BUDGET", 1e-9)
    assert pages.detail().course.rounds[-1] == 5
    pages.catch_up()
    assert pages.detail().course.rounds[-1] == 38


def test_a_look_has_only_its_own_rounds_read(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many experiments, reading those of all for each viewer would slow down the deciders."""
    routing.ok("POST", "/v1/experiments", {**ROUTING, "name": "other"})
    pages, read = Pages(routing), []
    traffic(routing)
    numbers = {name: pages.reader._number(pages.reader._host.database, name) for name in ("routing", "other")}
    catch_up = pages.reader.histories.catch_up

    def noted_catch_up(experiment: int, seconds: float) -> bool:
        read.append(experiment)
        return catch_up(experiment, seconds)

    monkeypatch.setattr(pages.reader.histories, "catch_up", noted_catch_up)
    pages._call(pages.reader._catch_up, ["routing"])
    assert set(read) == {numbers["routing"]}
    monkeypatch.setattr(reader_module, "BUDGET", 0.0)  # nothing in the page's own time: it is left to the background
    asked: list[Any] = []
    monkeypatch.setattr(pages.reader, "_read_on", lambda names: asked.append(list(names)))
    traffic(routing)
    pages.detail()
    assert asked == [["routing"]]
    read.clear()
    pages.catch_up()
    assert set(read) == set(numbers.values())


@pytest.fixture
def two(url: str) -> Iterator[tuple[Api, Api]]:
    """A learner and a decider on one database."""
    (learner,) = (started(url, role="learner"),)
    first = next(learner)
    decider = started(url, clock=first.clock, key=first.key, role="decider")
    yield first, next(decider)
    for one in (decider, learner):
        next(one, None)


def test_deciders_show_the_same(two: tuple[Api, Api]) -> None:
    learner, decider = two
    decider.create()
    ids = until(lambda: traffic(decider))
    until(lambda: learner.status()["rounds"] == 38)
    here, there = Pages(learner), Pages(decider)
    until(lambda: [one.rounds for one in there.list("routing")] == [38])
    (one,), (other,) = here.list("routing"), there.list("routing")
    assert (other.rounds, other.pending, other.verdict) == (one.rounds, one.pending, one.verdict)
    assert there.detail().course == here.detail().course
    assert there.explain(ids[0]).words == here.explain(ids[0]).words
    decider.ok("POST", "/v1/experiments/routing/hold", {"reason": "a look"})
    assert there.list("routing")[0].state == "held"


def test_nobody_learns(two: tuple[Api, Api], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the page does not say that all is well."""
    learner, decider = two
    decider.create()
    until(lambda: traffic(decider))
    there = Pages(decider)
    until(lambda: there.list("routing") and not there.list("routing")[0].verdict.startswith("No process"))
    monkeypatch.setattr(elsewhere, "LEASE", -1.0)
    assert there.list("routing")[0].verdict.startswith("No process is learning it")
    assert there.detail().summary.tone == "bad"
    assert learner.host.is_learnt("routing")


def test_what_an_alarm_has_refuted_is_not_said(routing: Api) -> None:
    """The baseline was stated to cost less: after the alarm no bound rests on that."""
    for _ in range(8):
        some = routing.decide(count=50)
        items = [{"id": one["id"], "outcome": {"quality": 0.5, "spend": 2.0, "answered": False}} for one in some]
        routing.ok("POST", "/v1/feedback", {"items": items})
    status = routing.status()
    assert {"baseline", "served"} & {alarm["kind"] for alarm in status["alarms"]}
    assert [one["bound"] for one in status["guardrails"]] == [None] * len(ROUTING["guardrails"])


def test_the_status_has_what_the_contract_says(routing: Api) -> None:
    assert all(one["bound"] is not None for one in routing.status()["guardrails"])
    traffic(routing)
    status = routing.status()
    assert status["settled"] == {arm: len([1 for one in routing.host.lives["routing"].log.rounds() if one.arm == arm])
                                 for arm in ROUTING["arms"]}  # fmt: skip
    assert sum(status["waiting"].values()) == status["pending"] == 2
    assert {one["what"] for one in status["watch"]} == {"served", "baseline"}
