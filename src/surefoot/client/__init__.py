"""The caller's side of the decision service: decide, report what happened, serve the baseline when nothing answers.

It imports neither Numba nor NumPy, so it costs a caller little; its only dependency is httpx2.
"""

from surefoot.client.protocol import ArgumentError, Decision, NoAnswer, ServiceError, Stopped
from surefoot.extras import needed_by

with needed_by("surefoot.client", "client"):
    from surefoot.client.asynchronous import AsyncClient
    from surefoot.client.synchronous import Client

__all__ = ["ArgumentError", "AsyncClient", "Client", "Decision", "NoAnswer", "ServiceError", "Stopped"]
