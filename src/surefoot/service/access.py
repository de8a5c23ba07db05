"""Who may do what: keys, roles and limits on the rate of requests."""

from __future__ import annotations

from collections.abc import Hashable

from starlette.requests import Request

from surefoot.service.host import Host
from surefoot.service.problems import Problem
from surefoot.storage.keys import Key, digest_of

BURST = 2.0
"""Seconds' worth of requests that a key may send at once."""
MANY = 10_000
"""Buckets that are kept before those that are full again are forgotten."""


class Rates:
    """A token bucket for each key, or for each of whatever else sends requests.

    Parameters
    ----------
    rate
        Requests a second.
    most
        Requests at once; by default `BURST` seconds' worth.
    sentence
        What a refusal says; it may mention the rate.
    """

    def __init__(
        self, rate: float, most: float | None = None, sentence: str = "a key may send {:g} requests a second"
    ) -> None:
        self._rate, self._most, self._sentence = rate, most or max(1.0, rate * BURST), sentence.format(rate)
        self._tokens: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float) -> None:
        """Count a request; refuse it if there were too many."""
        tokens, at = self._tokens.get(key, (self._most, now))
        tokens = min(self._most, tokens + max(0.0, now - at) * self._rate)
        if tokens < 1.0:
            raise Problem(429, "too-many", self._sentence, retry_after=(1.0 - tokens) / self._rate)
        if len(self._tokens) > MANY:  # a bucket that is full again need not be remembered
            full = self._most / self._rate
            self._tokens = {one: (left, at) for one, (left, at) in self._tokens.items() if now - at < full}
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
        return self.admitted(secret)

    def admitted(self, secret: str) -> Key:
        """The key that this text is, if it is valid and has not sent too much."""
        key = self._host.keys.get(digest_of(secret))
        if key is None:
            raise Problem(401, "unauthorised", "the key is not known")
        check_valid(key, self._host.now())
        self.count(key)
        return key

    def count(self, key: Key) -> None:
        """Count a request of a key; refuse it if there were too many."""
        self._rates.take(key.id, self._host.now())


def check_valid(key: Key | None, now: float) -> None:
    """Refuse a key that has expired or was revoked."""
    if key is None or not key.valid(now):
        raise Problem(401, "unauthorised", "the key has expired or was revoked")


def check_still(key: Key, host: Host) -> None:
    """Refuse a key that has expired, or was revoked, while its request was waiting."""
    check_valid(next((one for one in host.keys.values() if one.id == key.id), None), host.now())


def check_role(key: Key, roles: tuple[str, ...], experiment: str | None) -> None:
    """Refuse a key that has none of these roles for an experiment; None: for all of them."""
    if not any(key.allows(role, experiment) for role in roles):
        where = "all experiments" if experiment is None else experiment
        raise Problem(403, "forbidden", f"the key {key.name!r} has no role {' or '.join(roles)} for {where}")
