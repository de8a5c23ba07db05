"""The pages to look at: experiments, one of them, its arms and its course, and a decision."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

from starlette.responses import Response

from surefoot.experiments.errors import Unknown
from surefoot.service.dashboard import charts, words
from surefoot.service.dashboard.frame import Frame, Visit, see
from surefoot.service.dashboard.operate import ACTS
from surefoot.service.dashboard.views import Detail, Explained, Summary
from surefoot.service.host import Host

ORDER = {"bad": 0, "wait": 1, "good": 2, "off": 3}
ARMS_AT_ONCE = 100


class Source(Protocol):
    """Where the pages have their data from."""

    async def summaries(self, names: list[str]) -> list[Summary]:
        """These experiments, in this order."""
        ...

    async def detail(self, name: str, audit: bool) -> Detail:
        """An experiment, with its audit or without; raises `Unknown`."""
        ...

    async def explain(self, id: str) -> Explained:
        """A decision; raises `Unknown`."""
        ...


class Look:
    """What can be seen.

    Parameters
    ----------
    frame
        What all pages have in common.
    host
        Knows the names of the experiments.
    source
        Where the data come from.
    """

    def __init__(self, frame: Frame, host: Host, source: Source) -> None:
        self._frame, self._host, self._source = frame, host, source

    async def experiments(self, visit: Visit) -> Response:
        """The list of experiments."""
        self._host.check_ready()
        key, text = visit.session.key, visit.query("q")
        if not key.allows("read", key.experiment):
            return await self._frame.page(visit, "nothing.html")
        names = [name for name in self._host.names if key.experiment in (None, name)]
        every = await self._source.summaries(names)
        ordered = sorted(every, key=lambda one: (ORDER.get(one.tone, 0), one.name))
        counts = {tone: sum(one.tone == tone for one in every) for tone in ORDER}
        closed = {
            name: why for name, why in self._host.learning.closed.items()
            if name not in names and key.experiment in (None, name)
        }  # fmt: skip
        return await self._frame.page(
            visit, "experiments.html", found=ordered, text=text, counts=counts, closed=closed,
            matches=[text.lower() in one.name.lower() for one in ordered],
        )  # fmt: skip

    async def experiment(self, visit: Visit) -> Response:
        """The page of an experiment."""
        detail = await self._source.detail(visit.name, visit.may("admin", visit.name))
        style_ids = await self._frame.run(lambda: self._frame.assets.style_ids)
        data = await self._frame.run(partial(self._frame.once, drawn, detail))
        acts = ACTS if visit.may("admin", visit.name) else {}
        return await self._frame.page(visit, "experiment.html", style_ids=style_ids, acts=acts, **data)

    async def arms(self, visit: Visit) -> Response:
        """All arms under all guardrails, some at once."""
        detail = await self._source.detail(visit.name, False)
        found, text = await self._frame.run(partial(matrix, detail)), visit.query("q")
        chosen = [row for row in found if text.lower() in row["name"].lower()]
        pages = max(1, -(-len(chosen) // ARMS_AT_ONCE))
        wanted = visit.query("page")
        at = min(pages, int(wanted)) if wanted.isascii() and wanted.isdigit() and 0 < len(wanted) < 7 else 1
        rows = chosen[max(0, at - 1) * ARMS_AT_ONCE :][:ARMS_AT_ONCE]
        return await self._frame.page(
            visit, "arms.html", summary=detail.summary, rows=rows, text=text, at=max(1, at), pages=pages,
            count=len(chosen), total=len(found),
        )  # fmt: skip

    async def course(self, visit: Visit) -> Response:
        """The data of the charts over time."""
        detail = await self._source.detail(visit.name, False)
        head, rows = await self._frame.run(partial(charts.table, detail.course))
        return await self._frame.page(visit, "course.html", summary=detail.summary, head=head, rows=rows[::-1])

    async def look_up(self, visit: Visit) -> Response:
        """The box to look up a decision."""
        id = visit.query("id")
        return see(f"/decisions/{quote(id, safe='')}") if id else await self._look_up(visit)

    async def _look_up(self, visit: Visit, status: int = 200, id: str = "", error: str | None = None) -> Response:
        return await self._frame.page(visit, "lookup.html", status, id=id, error=error)

    async def decision(self, visit: Visit) -> Response:
        """The page of a decision."""
        id = str(visit.request.path_params["id"])
        missing = Unknown(f"there is no decision {id!r}")
        try:
            if not visit.may("read", self._host.name_of(id)):  # as if it were not there
                raise missing
            found = await self._source.explain(id)
        except Unknown as error:
            said = str(missing if visit.session.key.experiment else error)
            return await self._look_up(visit, 404, id, said)
        return await self._frame.page(visit, "decision.html", found=found)


def drawn(detail: Detail) -> dict[str, Any]:
    """What the page of an experiment shows, with its charts."""
    course, summary = charts.coarser(detail.course), detail.summary
    held = any(one["holds"] for one in summary.alarms)
    alarms = {
        rail.name: [one["at"] for one in detail.alarms if one["guardrail"] == rail.name and one.get("at") is not None]
        for rail in summary.rails
    }
    rails = [
        (
            rail,
            charts.cost(rail, course, f"cost-{i}", alarms[rail.name]),
            charts.bounds(rail, f"bounds-{i}", held and rail.bound is None),
        )
        for i, rail in enumerate(summary.rails)
    ]
    weight = words.percent(summary.safe_weight)
    why = ", as the experiment is held" if summary.state == "held" else ". It falls as bounds narrow"
    mean = words.number(summary.mean, summary.unit)
    lost = [waiting.lost * waiting.settled for waiting in detail.waiting]
    share = sum(lost) / max(1, sum(waiting.settled for waiting in detail.waiting))
    return {
        "detail": detail,
        "summary": summary,
        "rails": rails,
        "share_lost": share,
        "allocation": charts.allocation(course) if course.at else None,
        "weight": charts.line(course, "weight", "Safe weight", f"The weight of the baseline is {weight} now{why}.",
                              course.safe_weight, True),
        "objective": charts.line(course, "objective", summary.objective, f"Mean of {summary.objective} in this epoch: "
                                 f"{mean}.", course.objective, False),
        "lost": charts.line(course, "lost", "Lost feedback", f"{words.percent(share)} of the feedback in this "
                            "epoch was lost. What is lost counts as the worst case.", course.lost, True),
        "json": json.dumps(dict(detail.experiment), indent=2, ensure_ascii=False),
    }  # fmt: skip


def matrix(detail: Detail) -> list[dict[str, Any]]:
    """All arms, those with the largest shares first: what is known of each under each guardrail."""
    by_name: dict[str, dict[str, Any]] = {}
    for waiting in detail.waiting:
        by_name[waiting.arm] = {"name": waiting.arm, "share": waiting.share, "waiting": waiting, "rails": []}
    for rail in detail.summary.rails:
        for arm in rail.arms:
            row = by_name.setdefault(arm.name, {"name": arm.name, "share": arm.share, "waiting": None, "rails": []})
            row["rails"].append((rail, arm))
    return sorted(by_name.values(), key=lambda row: (-row["share"], row["name"]))
