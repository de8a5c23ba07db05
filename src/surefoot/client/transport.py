"""Between httpx2 and the protocol."""

from __future__ import annotations

from typing import Any

import httpx2

from surefoot.client.protocol import Answer

OPTIONS: dict[str, Any] = {
    # the service closes a connection that was idle for 5 seconds; leave it earlier
    "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0),
}
UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def answer_of(response: httpx2.Response) -> Answer:
    """An answer that came."""
    return Answer(response.status_code, response.headers, response.content)


def failure_of(error: httpx2.HTTPError) -> Answer:
    """An answer that did not come."""
    said = " ".join(str(error).split())
    name = type(error).__name__
    return Answer(0, {}, b"", f"{name}: {said}" if said else name, sent=not isinstance(error, UNSENT))
