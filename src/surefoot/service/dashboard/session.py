"""Logging in: a key is exchanged for a cookie, which is not the key and does not reveal it.

The cookie is a token signed with the digest of the key. All processes of a database know the digest, so any of them can
check a token, and nothing about sessions is stored. A token ends with its key: when that is revoked or expires, every
process knows it within seconds. Who can read the digests in the database could sign tokens, as with any secret there.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from surefoot.service.access import Access, Rates
from surefoot.service.host import Host
from surefoot.service.problems import Problem
from surefoot.storage.keys import Key, digest_of

LASTS = 12 * 3600
"""Seconds after which one must log in again."""
LOGINS_A_SECOND, LOGINS_AT_ONCE = 1.0, 20.0
"""How often one address may try to log in."""


class Session(NamedTuple):
    """Somebody who is logged in."""

    key: Key
    csrf: str  # what every form of this session has in it
    nonce: str


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
        self._ended: dict[str, float] = {}  # sessions that were logged out here, until they expire anyway

    def begin(self, request: Request, secret: str, response: Response) -> None:
        """Log in with a key: set the cookie of a new session."""
        self._host.check_started()
        self._logins.take(request.client.host if request.client else "", self._host.now())
        key = self._access.admitted(secret)
        token = f"{key.id}.{int(self._host.now()) + LASTS}.{secrets.token_urlsafe(16)}"
        self._set_cookie(request, response, f"{token}.{signed('session', digest_of(secret), token)}", LASTS)

    def end(self, request: Request, session: Session, response: Response) -> None:
        """Log out: this process forgets the session, and the browser its cookie."""
        now = self._host.now()
        self._ended = {nonce: until for nonce, until in self._ended.items() if until > now}
        self._ended[session.nonce] = now + LASTS
        self._set_cookie(request, response, "", 0)

    def find(self, request: Request) -> Session | None:
        """The session of a request, if it has one that is valid."""
        self._host.check_started()
        token, _, signature = request.cookies.get(cookie_name(request), "").rpartition(".")
        id, _, rest = token.partition(".")
        expires, _, nonce = rest.partition(".")
        if not (id.isascii() and id.isdigit() and expires.isascii() and expires.isdigit()):
            return None
        now = self._host.now()
        found = next(((digest, key) for digest, key in self._host.keys.items() if str(key.id) == id), None)
        if found is None or nonce in self._ended:
            return None
        digest, key = found
        genuine = hmac.compare_digest(signed("session", digest, token).encode(), signature.encode())
        if not genuine or now >= int(expires) or not key.valid(now):
            return None
        self._access.count(key)
        return Session(key, signed("form", digest, token), nonce)

    @staticmethod
    def _set_cookie(request: Request, response: Response, value: str, lasts: int) -> None:
        response.set_cookie(
            cookie_name(request), value, max_age=lasts, path="/", secure=is_https(request), httponly=True,
            samesite="strict",
        )  # fmt: skip


def check_origin(request: Request) -> None:
    """Refuse a change that a page of another site has sent. It is all that protects the login, which has no session."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = [request.headers.get(name) for name in ("host", "x-forwarded-host")]
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and urlsplit(origin).netloc not in own
    if foreign:
        raise Problem(403, "forbidden", "a page of another site has sent this; do it here instead")


def check_csrf(session: Session, sent: str) -> None:
    """Refuse a change whose form is not of this session."""
    if not hmac.compare_digest(session.csrf.encode(), sent.encode("utf-8", "replace")):
        raise Problem(403, "forbidden", "the form is not of this session; load the page again and repeat it")


def signed(purpose: str, digest: str, text: str) -> str:
    """The signature of a text under the digest of a key.

    Examples
    --------
    >>> signed("session", "00", "a") == signed("form", "00", "a")
    False
    """
    return hmac.new(digest.encode(), f"surefoot {purpose} {text}".encode(), hashlib.sha256).hexdigest()


def is_https(request: Request) -> bool:
    """Whether the browser sent the request by https, here or to a proxy in front."""
    told = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return request.url.scheme == "https" or told == "https"


def cookie_name(request: Request) -> str:
    """The name of the cookie; browsers let no other host and no plain page set one that begins with `__Host-`."""
    return "__Host-surefoot" if is_https(request) else "surefoot"
