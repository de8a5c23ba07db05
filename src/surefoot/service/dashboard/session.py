"""Logging in: a key is exchanged for a cookie, which is not the key and does not reveal it.

The cookie is a random token. The database keeps its SHA-256 and the number of the key, so every process knows a
session, and a session ends everywhere at once: by logging out, after some hours, or within seconds when its key is
revoked or expires. Nobody can make a token from what is in the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from surefoot.service.access import Access, Rates
from surefoot.service.host import Host
from surefoot.service.problems import Problem
from surefoot.storage.keys import Key
from surefoot.storage.sessions import begin_session, end_session, key_of_session

LASTS = 12 * 3600
"""Seconds after which one must log in again."""
LOGINS_A_SECOND, LOGINS_AT_ONCE = 1.0, 20.0
"""How often one address may try to log in."""
MADE, MADE_LASTS = "surefoot-made", 60
"""The cookie in which a new key travels to the page that shows it, and for how many seconds at most."""


class Session(NamedTuple):
    """Somebody who is logged in."""

    key: Key
    csrf: str  # what every form of this session has in it


class Sessions:
    """Begins, finds and ends sessions.

    Parameters
    ----------
    host
        Knows the keys and the time.
    access
        Counts the requests of each key.
    """

    def __init__(self, host: Host, access: Access) -> None:
        self._host, self._access = host, access
        self._logins = Rates(
            LOGINS_A_SECOND, LOGINS_AT_ONCE, "too many attempts to log in from this address; wait some seconds"
        )

    async def begin(self, request: Request, secret: str, response: Response) -> None:
        """Log in with a key: set the cookie of a new session."""
        self._host.check_ready()
        now, token = self._host.now(), secrets.token_urlsafe(32)
        self._logins.take(request.client.host if request.client else "", now)
        key = self._access.admitted(secret)
        await asyncio.to_thread(begin_session, self._host.database, token, key.id, now + LASTS, now)
        set_cookie(request, response, token, LASTS)

    async def end(self, request: Request, response: Response) -> None:
        """Log out: the session is forgotten, here and in the browser."""
        await asyncio.to_thread(end_session, self._host.database, token_in(request))
        set_cookie(request, response, "", 0)

    async def find(self, request: Request) -> Session | None:
        """The session of a request, if it has one that is valid."""
        self._host.check_started()
        token, now = token_in(request), self._host.now()
        id = await asyncio.to_thread(key_of_session, self._host.database, token, now) if token else None
        key = next((key for key in self._host.keys.values() if key.id == id), None)
        if key is None or not key.valid(now):
            return None
        self._access.count(key)
        return Session(key, form_token(token))


def check_origin(request: Request) -> None:
    """Refuse a change that a page of another site has sent. It is all that protects the login, which has no session."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = [request.headers.get(name) for name in ("host", "x-forwarded-host")]
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and origin.partition("://")[2] not in own
    if foreign:
        raise Problem(403, "forbidden", "a page of another site has sent this; do it here instead")


def check_csrf(session: Session, sent: str) -> None:
    """Refuse a change whose form is not of this session."""
    if not hmac.compare_digest(session.csrf.encode(), sent.encode("utf-8", "replace")):
        raise Problem(403, "forbidden", "the form is not of this session; load the page again and repeat it")


def token_in(request: Request) -> str:
    """The token in the cookie of a request."""
    return request.cookies.get(cookie_name(request), "")


def form_token(token: str) -> str:
    """What the forms of a session have in them: only who has the token, or has seen a form, knows it."""
    return hashlib.sha256(f"surefoot form {token}".encode()).hexdigest()


def set_cookie(request: Request, response: Response, value: str, lasts: int, name: str = "surefoot") -> None:
    """Set a cookie that only this site sees and no script can read, for some seconds; 0: forget it."""
    response.set_cookie(
        cookie_name(request, name), value, max_age=lasts, path="/", secure=is_https(request), httponly=True,
        samesite="strict",
    )  # fmt: skip


def is_https(request: Request) -> bool:
    """Whether the browser sent the request by https, here or to a proxy in front."""
    told = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return request.url.scheme == "https" or told == "https"


def cookie_name(request: Request, name: str = "surefoot") -> str:
    """The name of a cookie; browsers let no other host and no plain page set one that begins with `__Host-`."""
    return f"__Host-{name}" if is_https(request) else name
