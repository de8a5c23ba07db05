"""Keys, and what this process is: for admins."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

import surefoot
from surefoot.experiments.live import Live
from surefoot.rules import Range, RuleError
from surefoot.rules import number as checked_number
from surefoot.service import models
from surefoot.service.acts import MOST_PENDING
from surefoot.service.dashboard import words
from surefoot.service.dashboard.frame import Frame, Visit, see
from surefoot.service.dashboard.session import LASTS, MADE, MADE_LASTS, cookie_name, set_cookie
from surefoot.service.host import Host
from surefoot.service.problems import Problem
from surefoot.service.routes import MOST_BYTES
from surefoot.storage.keys import ROLES, create_key, list_keys, revoke_key

DAYS = Range(0, 36_500, open_low=True)


class Admin:
    """Makes and revokes keys.

    Parameters
    ----------
    frame
        What all pages have in common.
    host
        Has the keys.
    """

    def __init__(self, frame: Frame, host: Host) -> None:
        self._frame, self._host = frame, host

    async def keys(self, visit: Visit, status: int = 200, error: str | None = None) -> Response:
        """The keys; one that was just made is shown, once."""
        self._host.check_ready()
        found = await asyncio.to_thread(list_keys, self._host.database)
        now, made = self._host.now(), visit.request.cookies.get(cookie_name(visit.request, MADE))
        rows = [(key, "revoked" if key.revoked else "valid" if key.valid(now) else "expired") for key in found.values()]
        rows.sort(key=lambda row: (row[1] != "valid", row[0].id))
        response = await self._frame.page(
            visit, "keys.html", status, rows=rows, roles=ROLES, names=sorted(self._host.names), made=made, error=error,
        )  # fmt: skip
        if made is not None:
            set_cookie(visit.request, response, "", 0, MADE)
        return response

    async def new_key(self, visit: Visit) -> Response:
        """Make a key. It travels to the page that shows it in a cookie, so that a reload makes no other."""
        self._host.check_ready()
        now, days = self._host.now(), visit.text("days").strip()
        try:
            lasts = None if not days else 86_400 * checked_number("days", words.number_typed(days), DAYS)
            made = await asyncio.to_thread(
                create_key, self._host.database, visit.text("name").strip(), visit.form.get("roles", []), now,
                visit.text("experiment").strip() or None, None if lasts is None else now + lasts, visit.who,
            )  # fmt: skip
        except RuleError as error:
            return await self.keys(visit, 422, error=str(error))
        await asyncio.to_thread(self._host.read_keys)
        response = see("/keys")
        set_cookie(visit.request, response, made, MADE_LASTS, MADE)
        return response

    async def _key(self, visit: Visit) -> Any:
        self._host.check_ready()
        found = await asyncio.to_thread(list_keys, self._host.database)
        wanted = visit.request.path_params["id"]
        key = next((one for one in found.values() if str(one.id) == wanted), None)
        if key is None:
            raise Problem(404, "unknown", f"there is no key {wanted}")
        return key

    async def ask_revoke(self, visit: Visit) -> Response:
        """Ask for a confirmation."""
        return await self._frame.page(visit, "revoke.html", key=await self._key(visit))

    async def revoke(self, visit: Visit) -> Response:
        """Revoke a key."""
        key = await self._key(visit)
        await asyncio.to_thread(revoke_key, self._host.database, key.id, self._host.now(), visit.who)
        await asyncio.to_thread(self._host.read_keys)
        return see("/keys")

    async def about(self, visit: Visit) -> Response:
        """What this process is, and its limits."""
        host = self._host
        learnt = sum(isinstance(one, Live) for one in host.lives.values())
        facts = {
            "Version": surefoot.__version__,
            "Role of this process": host.role,
            "Database": {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(host.database.engine.dialect.name, "?"),
            "Other processes": "may work on the same database" if host.shares else "none: this one works alone",
            "State": "ready" if host.ready else "the database has failed; it is opened again",
            "Experiments": f"{len(host.names)}, of which {learnt} are learnt here",
            "Time": f"{words.clock(host.now())} UTC",
        }
        limits = {
            "Arms of an experiment": models.MOST_ARMS,
            "Guardrails of an experiment": models.MOST_GUARDRAILS,
            "Decisions in one request": models.MOST_DECISIONS,
            "Items of feedback in one request": models.MOST_ITEMS,
            "Decisions that wait for feedback, in each experiment": MOST_PENDING,
            "Bytes of a request": MOST_BYTES,
            "Hours until one must log in again": LASTS // 3600,
        }
        return await self._frame.page(visit, "about.html", facts=facts, limits=limits)
