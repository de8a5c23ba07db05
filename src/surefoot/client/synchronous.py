"""The client for ordinary code, with threads in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, overload

import httpx2

from surefoot.client.core import Core
from surefoot.client.processes import follow
from surefoot.client.protocol import Answer, Decision, Send, Start, Step, Steps, Wait, Wake
from surefoot.client.transport import OPTIONS, answer_of, failure_of

T = TypeVar("T")

AT_EXIT = 5.0
"""Seconds that the process waits for feedback to be sent when it ends."""

logger = logging.getLogger("surefoot.client")


class Client:
    """Asks the decision service, and serves the baseline when nothing answers. Threads may share it.

    Parameters
    ----------
    address
        Of the service, such as ``http://127.0.0.1:8000``.
    key
        With the roles decide and feedback; with read the client learns the baseline by itself.
    timeout
        Seconds to wait for an answer, for each attempt.
    retries
        How often to try again after the first attempt.
    baselines
        For each experiment what to serve when nothing answers: an arm, or the shares of arms. By default what the
        service says it is.
    flush_every
        Seconds between two batches of feedback.
    local
        Draw decisions in this process, from a strategy that the service has certified. They are logged every
        `flush_every` seconds by a timer, never because an outcome is there: their place in the log must not depend on
        how they went. A call with `arms`, `unit` or `key` still goes to the service.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:9", "sf_key", retries=0, baselines={"llm-routing": "in-house"})
    >>> decision = client.decide("llm-routing")         # nothing answers on this port
    >>> decision.arm, decision.mode, decision.logged
    ('in-house', 'safe', False)
    >>> client.feedback(decision.id, {"quality": 0.8})  # the service knows nothing of it
    >>> client.dropped
    {'unlogged': 1}
    >>> client.close()
    """

    def __init__(
        self,
        address: str,
        key: str,
        *,
        timeout: float = 1.0,
        retries: int = 2,
        baselines: Mapping[str, str | Mapping[str, float]] | None = None,
        flush_every: float = 0.2,
        local: bool = False,
    ) -> None:
        self._core = Core(address, key, timeout, retries, baselines, flush_every, local)
        self._begin()
        follow(self)

    def _begin(self) -> None:
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._connection: httpx2.Client | None = None
        self._works: dict[Start, threading.Thread] = {}

    # Deciding.

    @overload
    def decide(
        self, name: str, n: None = None, arms: Sequence[str] | None = None, unit: str | None = None,
        key: str | None = None,
    ) -> Decision: ...  # fmt: skip

    @overload
    def decide(
        self, name: str, n: int, arms: Sequence[str] | None = None, unit: str | None = None, key: str | None = None
    ) -> list[Decision]: ...

    def decide(
        self,
        name: str,
        n: int | None = None,
        arms: Sequence[str] | None = None,
        unit: str | None = None,
        key: str | None = None,
    ) -> Decision | list[Decision]:
        """Decide which arm to serve.

        Parameters
        ----------
        name
            Of the experiment.
        n
            How many decisions to make at once; a list is returned if it is given.
        arms
            The arms that are available now, if not all are.
        unit
            Whom the decision is for: who waits for feedback gets the same decision again.
        key
            Idempotency key: a call with the same key returns the same decisions. By default each call has its own, and
            its repetitions share it.

        Returns
        -------
        Decision
            The decision, or a list of decisions if `n` is given. If nothing answers, it is the baseline, and not
            `logged`.

        Raises
        ------
        Stopped
            The experiment was stopped: serve your own default.
        ServiceError
            The request was refused.
        NoAnswer
            Nothing answers, and no baseline is known, or it needs an arm that is not among `arms`.
        """
        return self._run(self._core.decide(name, n, arms, unit, key))

    # Feedback.

    def feedback(self, id: str | Decision | None, outcome: Mapping[str, Any]) -> None:
        """Report what a decision led to, at once or in parts: it is queued, and sent in batches in the background.

        Parameters
        ----------
        id
            Of the decision, or the decision itself. Feedback on one that was not logged is dropped, and counted.
        outcome
            A value for each quantity, in natural units.
        """
        self._run(self._core.feedback(id, outcome))

    def report(self, id: str | Decision, outcome: Mapping[str, Any]) -> str:
        """Report what a decision led to, now.

        Returns
        -------
        str
            "accepted", "partial", "replayed" or "late", as of `sf.Live.feedback`.
        """
        return self._run(self._core.report(id, outcome))

    def cancel(self, id: str, reason: str) -> None:
        """Take back a decision that was never carried out. Never cancel because of how it went."""
        self._run(self._core.cancel(id, reason))

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all feedback that was given so far is sent; returns whether it is, within so many seconds."""
        return self._run(self._core.flush(timeout))

    @property
    def dropped(self) -> dict[str, int]:
        """How much feedback was given up, by reason: a type of problem, "unlogged", "late", "full" or "closed"."""
        return dict(self._core.outbox.dropped)

    @property
    def on_problem(self) -> Callable[[str | None, Mapping[str, Any]], None] | None:
        """Called with the id and the problem whenever feedback is given up; the first of each kind is also logged."""
        return self._core.outbox.on_problem

    @on_problem.setter
    def on_problem(self, call: Callable[[str | None, Mapping[str, Any]], None] | None) -> None:
        self._core.outbox.on_problem = call

    # Operating.

    def create(self, experiment: Any, mode: str = "live", dry_run: bool = False) -> dict[str, Any]:
        """Begin an experiment, or only check it; returns its status, or how it is understood and a forecast."""
        return self._run(self._core.create(experiment, mode, dry_run))

    def experiments(self) -> list[dict[str, Any]]:
        """The experiments that the key may read."""
        return self._run(self._core.experiments())

    def status(self, name: str) -> dict[str, Any]:
        """What is going on in an experiment."""
        return self._run(self._core.status(name))

    def change(self, name: str, epoch: int, **fields: Any) -> dict[str, Any]:
        """Begin a new epoch with other fields; `epoch` is the one that you have read."""
        return self._run(self._core.change(name, epoch, fields))

    def hold(self, name: str, reason: str) -> dict[str, Any]:
        """Serve the baseline until `resume`."""
        return self._run(self._core.turn(name, "hold", reason))

    def resume(self, name: str, reason: str, experiment: Any = None) -> dict[str, Any]:
        """End a hold; after an alarm about costs this begins a new epoch, if given with another experiment."""
        return self._run(self._core.turn(name, "resume", reason, experiment))

    def stop(self, name: str, reason: str) -> dict[str, Any]:
        """End an experiment for good."""
        return self._run(self._core.turn(name, "stop", reason))

    def hold_all(self, reason: str) -> list[str]:
        """Hold every experiment; returns their names."""
        return self._run(self._core.hold_all(reason))

    # The course of life.

    def close(self, timeout: float | None = 10.0) -> None:
        """Send what is queued, for at most so many seconds, and let go of the connections."""
        self._run(self._core.close(timeout))
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at_exit(self) -> None:
        self.close(AT_EXIT)

    def _after_fork(self) -> None:
        self._core.reset()
        self._begin()

    # Carrying out steps.

    def _run(self, steps: Steps[T], connection: httpx2.Client | None = None) -> T:
        found: Any = None
        while True:
            try:
                step = steps.send(found)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            found = self._carry_out(step, connection)

    def _carry_out(self, step: Step, connection: httpx2.Client | None) -> Answer | None:
        match step:
            case Send():
                return self._send(step, connection or self._connected())
            case Wait(seconds, light):
                if light:
                    self._wake.wait(seconds)
                    self._wake.clear()
                else:
                    time.sleep(seconds)
            case Wake():
                self._wake.set()
            case Start():
                self._start(step)
        return None

    def _send(self, step: Send, connection: httpx2.Client) -> Answer:
        try:
            response = connection.request(
                step.method, step.path, content=step.body, headers=dict(step.headers), timeout=step.timeout
            )
        except httpx2.HTTPError as error:
            return failure_of(error)
        return answer_of(response)

    def _connect(self) -> httpx2.Client:
        core = self._core
        return httpx2.Client(
            base_url=core.address, headers=core.headers, verify=core.address.startswith("https"), **OPTIONS
        )

    def _connected(self) -> httpx2.Client:
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection

    def _start(self, step: Start) -> None:
        if step in self._works:
            return
        with self._lock:
            if step in self._works:
                return
            self._works[step] = threading.Thread(
                target=self._work, args=(step,), name=f"surefoot-{step.work}", daemon=True
            )
            self._works[step].start()

    def _work(self, step: Start) -> None:
        try:
            with self._connect() as connection:  # its own: `close` must not break off what it sends
                self._run(self._core.work(step), connection)
        except Exception:
            logger.exception("the work in the background failed; it is started again when it is needed")
        finally:
            self._works.pop(step, None)
