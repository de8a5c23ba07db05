"""The buttons of an experiment: each asks for a reason, and does what the same call over HTTP does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from surefoot.service import models
from surefoot.service.dashboard.frame import Frame, Visit, see
from surefoot.service.host import Host
from surefoot.service.models import parse
from surefoot.service.problems import Problem, problem_of


class Act(NamedTuple):
    """What an operator can do to an experiment."""

    title: str
    explanation: str
    verb: str
    arguments: Mapping[str, Any] = {}
    grave: bool = False

    def fits(self, state: str, shadow: bool) -> bool:
        """Whether it makes sense in this state."""
        if self.verb == "switch":
            return state != "stopped" and shadow == (self.arguments["mode"] == "live")
        return {"hold": state in ("measuring", "running"), "resume": state == "held"}.get(self.verb, state != "stopped")


ACTS = {
    "hold": Act("Hold", "The baseline is served to everybody until you resume. Feedback is still taken.", "hold"),
    "resume": Act(
        "Resume", "Learning goes on. After an alarm about costs this begins a new epoch, which forgets what was learnt "
        "and spends its own delta.", "resume", {"experiment": None},
    ),
    "live": Act("Go live", "Shadow mode ends: the policy's own choices are served from now on.", "switch",
                {"mode": "live"}),
    "shadow": Act("Shadow", "The baseline is served, and what the policy would have served is only noted down.",
                  "switch", {"mode": "shadow"}),
    "stop": Act("Stop", "The experiment ends for good, and decisions are refused. This cannot be undone.", "stop",
                grave=True),
}  # fmt: skip


class Operate:
    """Holds, resumes, switches and stops experiments.

    Parameters
    ----------
    frame
        What all pages have in common.
    host
        Carries it out.
    """

    def __init__(self, frame: Frame, host: Host) -> None:
        self._frame, self._host = frame, host

    def _act(self, visit: Visit) -> tuple[str, Act]:
        slug = str(visit.request.path_params["act"])
        if slug not in ACTS:
            raise Problem(404, "unknown", "there is nothing at this address")
        return slug, ACTS[slug]

    async def ask_act(self, visit: Visit, error: Problem | None = None) -> Response:
        """Ask for the reason and a confirmation."""
        slug, act = self._act(visit)
        await self._host.find(visit.name)
        return await self._frame.page(
            visit, "act.html", error.status if error else 200, name=visit.name, slug=slug, act=act,
            reason=visit.text("reason"), error=error.detail if error else None,
        )  # fmt: skip

    async def act(self, visit: Visit) -> Response:
        """Hold, resume, stop or switch an experiment, as the HTTP API does."""
        _, act = self._act(visit)
        try:
            body = parse(models.ReasonBody, msgspec.json.encode({"reason": visit.text("reason")}))
            await self._host.ask(visit.name, act.verb, visit.who, reason=body.reason, **act.arguments)
        except Exception as error:
            return await self.ask_act(visit, problem_of(error))
        return see(f"/experiments/{visit.name}")
