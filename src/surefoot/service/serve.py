"""Running the service on a port."""

from __future__ import annotations

import gc
import socket
import sys
import time
from contextlib import closing

import uvicorn

from surefoot.rules import RuleError
from surefoot.service.app import RATE, build
from surefoot.storage.database import Database
from surefoot.storage.keys import first_key, list_keys

PATIENCE = 5
"""Seconds that open requests have to end when the service is stopped."""

SWITCH = 1e-4
"""Seconds after which threads take turns: with more, a commit waits for the requests that it does not hold up."""


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens on an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # by which asyncio knows: no delay
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise RuleError("port", f"be free at {host}", port, f"{port} ({error})") from None
    return listener


def tune() -> None:
    """Set up the interpreter for many short requests, when everything is imported.

    What is loaded by then stays, so the collector need not look at it again: that would hold up requests for 0.1 s.
    """
    sys.setswitchinterval(SWITCH)
    gc.freeze()


def serve(url: str, host: str, port: int, rate: float = RATE, role: str = "all") -> None:
    """Answer requests until the process is asked to end; print the address and, at the first start, an admin key."""
    with bound(host, port) as listener:
        with closing(Database.open(url)) as database:
            key = None if list_keys(database) else first_key(database, time.time())
        app = build(url, rate, role=role)
        tune()
        shown = f"[{host}]" if ":" in host else host
        print(f"address: http://{shown}:{listener.getsockname()[1]}", flush=True)
        if key is not None:
            print(f"admin key: {key}", flush=True)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody can send them
            timeout_graceful_shutdown=PATIENCE,
        )
        uvicorn.Server(config).run(sockets=[listener])
