"""Who carries out tasks: an engine. `Threads` are those of this process; `cluster.py` has Dask's workers."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Any, Protocol, Self

from surefoot.provenance import made_by
from surefoot.simulation.episode import Stopped
from surefoot.simulation.progress import Bar
from surefoot.simulation.tasks import Backlog, Result, Task, Work

WAIT = 0.2
"""Seconds until the driver looks again whether it should stop."""
Done = list[tuple[Task, Result]]


class Engine(Protocol):
    """What carries out tasks, in any order. It is a context: its workers are there inside."""

    name: str
    advances: bool
    """True if tasks report their rounds while they run."""
    seeds_together: int | None
    """How many seeds a task should have; None where the time that a task takes decides."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def workers(self) -> int:
        """How many tasks run at once, as far as is known now."""

    @property
    def maker(self) -> dict[str, Any]:
        """What makes the results, as in `surefoot.provenance.made_by`; where workers differ, what most of them are."""

    def submit(self, task: Task, work: Work) -> None:
        """Have a task carried out."""

    def wait(self, seconds: float) -> Done:
        """The tasks that have finished since the last call; waits for one if there is none, for so long at most."""

    def halt(self) -> Done:
        """Drop the tasks that have not finished, and return those that have."""


class Threads:
    """The threads of this process. Kernels hold no lock, so all cores are busy."""

    name, advances = "threads", True
    seeds_together: int | None = None

    def __init__(self, workers: int, advance: Callable[[int], None], stop: Event) -> None:
        self.workers, self._advance, self._stop = workers, advance, stop
        self._results: queue.SimpleQueue[tuple[Task, Result]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(self.workers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)

    @property
    def maker(self) -> dict[str, Any]:
        """What makes the results: this process."""
        return made_by()

    def submit(self, task: Task, work: Work) -> None:
        """Have a task carried out."""
        self._pool.submit(self._do, task, work)

    def _do(self, task: Task, work: Work) -> None:
        result = self._done(task, work)
        if result.error is not None:
            self._stop.set()  # what waits does not begin, even if the driver has no turn before it
        self._results.put((task, result))

    def _done(self, task: Task, work: Work) -> Result:
        return work.do(task, self._advance, self._stop)

    def wait(self, seconds: float) -> Done:
        """The tasks that have finished since the last call."""
        found: Done = []
        with suppress(queue.Empty):
            found.append(self._results.get(timeout=seconds))
            while True:
                found.append(self._results.get_nowait())
        return found

    def halt(self) -> Done:
        """Drop the tasks that have not finished, and return those that have."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)
        return self.wait(0.001)


def carry_out(
    engine: Engine, works: Sequence[Work], backlog: Backlog, bar: Bar, stop: Event, take: Callable[[Task, Result], None]
) -> None:
    """Keep the workers of an engine busy until nothing is left or `stop` is set; give all results to `take`.

    An error ends it, when all that is finished by then has been taken.
    """
    waiting, errors = 0, Errors()
    with errors:
        while not (stop.is_set() or errors.first):
            while (
                waiting < 2 * engine.workers
                and (task := backlog.next(engine.workers, engine.seeds_together)) is not None
            ):
                engine.submit(task, works[task.simulation])
                waiting += 1
            if not waiting:
                return
            for task, result in engine.wait(WAIT):
                waiting -= 1
                with errors:
                    received(engine, backlog, bar, take, task, result)
    for task, result in engine.halt():
        with errors:
            received(engine, backlog, bar, take, task, result)
    if isinstance(errors.first, KeyboardInterrupt | Stopped):
        stop.set()
    elif errors.first is not None:
        raise errors.first


class Errors:
    """Keeps the first error that is raised inside, and lets none through."""

    def __init__(self) -> None:
        self.first: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.first = self.first or error
        return True


def received(
    engine: Engine, backlog: Backlog, bar: Bar, take: Callable[[Task, Result], None], task: Task, result: Result
) -> None:
    """Take a result; raise the error that ended its task."""
    if result.content:
        take(task, result)
        backlog.learn(task, result.about.elapsed)
    if not engine.advances:
        bar.advance(task.rounds)
    if result.error is not None:
        raise result.error
