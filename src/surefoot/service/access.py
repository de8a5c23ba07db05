"""Who may do what: keys, roles and limits on the rate of requests."""

from __future__ import annotations

from starlette.requests import Request

from surefoot.service.host import Host
from surefoot.service.problems import Problem
from surefoot.storage.keys import Key, digest_of

BURST = 2.0
"""Seconds' worth of requests that a key may send at once."""


class Rates:
    """A token bucket for each key.

    Parameters
    ----------
    rate
        Requests a second.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._tokens: dict[int, tuple[float, float]] = {}

    def take(self, key: int, now: float) -> None:
        """Count a request; refuse it if there were too many."""
        most = max(1.0, self._rate * BURST)
        tokens, at = self._tokens.get(key, (most, now))
        tokens = min(most, tokens + max(0.0, now - at) * self._rate)
        if tokens < 1.0:
            wait = (1.0 - tokens) / self._rate
            raise Problem(429, "too-many", f"a key may send {self._rate:g} requests a second", retry_after=wait)
        self._tokens[key] = tokens - 1.0, now


class Access:
    """Checks the key of a request."""

    def __init__(self, host: Host, rate: float) -> None:
        self._host, self._rates = host, Rates(rate)

    def key(self, request: Request) -> Key:
        """The key of a request, if it is valid.

        It is found by its digest. How long that takes tells nothing about a key that somebody tries to guess, as nobody
        can choose a digest.
        """
        self._host.check_started()
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Problem(401, "unauthorised", "send a key as Authorization: Bearer KEY")
        now, key = self._host.now(), self._host.keys.get(digest_of(secret))
        if key is None:
            raise Problem(401, "unauthorised", "the key is not known")
        if not key.valid(now):
            raise Problem(401, "unauthorised", "the key has expired or was revoked")
        self._rates.take(key.id, now)
        return key


def check_role(key: Key, roles: tuple[str, ...], experiment: str | None) -> None:
    """Refuse a key that has none of these roles for an experiment; None: for all of them."""
    if not any(key.allows(role, experiment) for role in roles):
        where = "all experiments" if experiment is None else experiment
        raise Problem(403, "forbidden", f"the key {key.name!r} has no role {' or '.join(roles)} for {where}")
