"""The client for asyncio, with tasks in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar, overload

import httpx2

from surefoot.client.core import Core
from surefoot.client.processes import follow
from surefoot.client.protocol import Answer, Decision, Send, Start, Step, Steps, Wait, Wake
from surefoot.client.transport import OPTIONS, answer_of, failure_of

T = TypeVar("T")

logger = logging.getLogger("surefoot.client")


class AsyncClient:
    """`Client` for asyncio: the same names, to be awaited, within one event loop.

    Nothing can be sent any more once the loop has ended, so end with ``async with`` or ``await client.close()``.

    Parameters
    ----------
    address, key, timeout, retries, baselines, flush_every, local
        As of `Client`.

    Examples
    --------
    >>> import asyncio
    >>> async def main() -> str:
    ...     baselines = {"llm-routing": "in-house"}
    ...     async with AsyncClient("http://127.0.0.1:9", "sf_key", retries=0, baselines=baselines) as client:
    ...         decision = await client.decide("llm-routing")  # nothing answers on this port
    ...     return decision.arm
    >>> asyncio.run(main())
    'in-house'
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
        self._wake = asyncio.Event()
        self._connection: httpx2.AsyncClient | None = None
        self._works: dict[Start, asyncio.Task[None]] = {}

    @overload
    async def decide(
        self, name: str, n: None = None, arms: Sequence[str] | None = None, unit: str | None = None,
        key: str | None = None,
    ) -> Decision: ...  # fmt: skip

    @overload
    async def decide(
        self, name: str, n: int, arms: Sequence[str] | None = None, unit: str | None = None, key: str | None = None
    ) -> list[Decision]: ...

    async def decide(
        self,
        name: str,
        n: int | None = None,
        arms: Sequence[str] | None = None,
        unit: str | None = None,
        key: str | None = None,
    ) -> Decision | list[Decision]:
        """See `Client.decide`."""
        return await self._run(self._core.decide(name, n, arms, unit, key))

    async def feedback(self, id: str | Decision | None, outcome: Mapping[str, Any]) -> None:
        """See `Client.feedback`."""
        await self._run(self._core.feedback(id, outcome))

    async def report(self, id: str | Decision, outcome: Mapping[str, Any]) -> str:
        """See `Client.report`."""
        return await self._run(self._core.report(id, outcome))

    async def cancel(self, id: str, reason: str) -> None:
        """See `Client.cancel`."""
        await self._run(self._core.cancel(id, reason))

    async def flush(self, timeout: float | None = None) -> bool:
        """See `Client.flush`."""
        return await self._run(self._core.flush(timeout))

    @property
    def dropped(self) -> dict[str, int]:
        """See `Client.dropped`."""
        return dict(self._core.outbox.dropped)

    @property
    def on_problem(self) -> Callable[[str | None, Mapping[str, Any]], None] | None:
        """See `Client.on_problem`."""
        return self._core.outbox.on_problem

    @on_problem.setter
    def on_problem(self, call: Callable[[str | None, Mapping[str, Any]], None] | None) -> None:
        self._core.outbox.on_problem = call

    async def create(self, experiment: Any, mode: str = "live", dry_run: bool = False) -> dict[str, Any]:
        """See `Client.create`."""
        return await self._run(self._core.create(experiment, mode, dry_run))

    async def experiments(self) -> list[dict[str, Any]]:
        """See `Client.experiments`."""
        return await self._run(self._core.experiments())

    async def status(self, name: str) -> dict[str, Any]:
        """See `Client.status`."""
        return await self._run(self._core.status(name))

    async def change(self, name: str, epoch: int, **fields: Any) -> dict[str, Any]:
        """See `Client.change`."""
        return await self._run(self._core.change(name, epoch, fields))

    async def hold(self, name: str, reason: str) -> dict[str, Any]:
        """See `Client.hold`."""
        return await self._run(self._core.turn(name, "hold", reason))

    async def resume(self, name: str, reason: str, experiment: Any = None) -> dict[str, Any]:
        """See `Client.resume`."""
        return await self._run(self._core.turn(name, "resume", reason, experiment))

    async def stop(self, name: str, reason: str) -> dict[str, Any]:
        """See `Client.stop`."""
        return await self._run(self._core.turn(name, "stop", reason))

    async def hold_all(self, reason: str) -> list[str]:
        """See `Client.hold_all`."""
        return await self._run(self._core.hold_all(reason))

    async def close(self, timeout: float | None = 10.0) -> None:
        """See `Client.close`."""
        await self._run(self._core.close(timeout))
        works = list(self._works.values())
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        if self._connection is not None:
            await self._connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _at_exit(self) -> None:
        self._core.outbox.give_up()

    def _after_fork(self) -> None:
        self._core.reset()
        self._begin()

    # Carrying out steps.

    async def _run(self, steps: Steps[T]) -> T:
        found: Any = None
        while True:
            try:
                step = steps.send(found)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            found = await self._carry_out(step)

    async def _carry_out(self, step: Step) -> Answer | None:
        match step:
            case Send():
                return await self._send(step)
            case Wait(seconds, light):
                if light:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await self._wake.wait()
                    self._wake.clear()
                else:
                    await asyncio.sleep(seconds)
            case Wake():
                self._wake.set()
            case Start():
                if step not in self._works:
                    self._works[step] = asyncio.create_task(self._work(step))
        return None

    async def _send(self, step: Send) -> Answer:
        if self._connection is None:
            core = self._core
            self._connection = httpx2.AsyncClient(
                base_url=core.address, headers=core.headers, verify=core.address.startswith("https"), **OPTIONS
            )
        try:
            response = await self._connection.request(
                step.method, step.path, content=step.body, headers=dict(step.headers), timeout=step.timeout
            )
        except httpx2.HTTPError as error:
            return failure_of(error)
        return answer_of(response)

    async def _work(self, step: Start) -> None:
        try:
            await self._run(self._core.work(step))
        except Exception:
            logger.exception("the work in the background failed; it is started again when it is needed")
        finally:
            self._works.pop(step, None)
