"""Tasks on Dask's workers: processes of this machine, or of any cluster that has a scheduler."""

from __future__ import annotations

import json
import logging
import pickle
import queue
import signal
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from threading import Event
from types import TracebackType
from typing import Any, NamedTuple, Self

from surefoot.extras import needed_by
from surefoot.provenance import made_by
from surefoot.rules import RuleError
from surefoot.simulation.engine import WAIT, Done
from surefoot.simulation.tasks import Result, Task, Work

TRIES = 10
"""How many times a task is begun whose workers die. Dask itself begins one again 3 times each time."""
CONNECT = 10.0
"""Seconds that a scheduler has to answer."""
LOOK = 2.0
"""Seconds between two looks at who the workers are."""
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
"""A worker is one thread, and so is what it calls."""
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "2 s",
    "distributed.admin.system-monitor.interval": "5 s",
    "distributed.admin.tick.interval": "500 ms",
}
"""Workers of a machine share its cores with Dask's own housekeeping: for tasks of a second, less of it will do."""


class Submitted(NamedTuple):
    """A task that is under way."""

    task: Task
    work: Work
    future: Any
    tries: int


class Dask:
    """Workers of Dask `distributed`.

    Tasks are pure, so Dask begins one again when its worker dies, and gives tasks to workers that join. What a task
    needs to know of its simulation travels once to each worker, pickled by cloudpickle.
    """

    name, advances = "dask", False
    seeds_together: int | None = None

    def __init__(self, workers: int, scheduler: str | None, stop: Event, *, exact: bool) -> None:
        self._count, self._scheduler, self._stop, self._exact = workers, scheduler, stop, exact
        self._under_way: dict[str, Submitted] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._works: dict[str, Any] = {}  # what workers know of the last few simulations, as futures
        self._makers: dict[str, dict[str, Any]] = {}  # of each worker that was seen
        self._said: set[tuple[type[Warning], str]] = set()
        self._threads, self._looked = 1, 0.0
        self.maker = made_by()

    def __enter__(self) -> Self:
        with needed_by("engine 'dask'"):
            import distributed

            typed: Any = distributed  # half of its functions are not
        with ExitStack() as stack:
            address = self._scheduler
            if address is None:
                address = stack.enter_context(local_cluster(self._count))
            try:
                self._client = stack.enter_context(typed.Client(address, set_as_default=False, timeout=CONNECT))
            except (OSError, ValueError, TypeError) as error:
                rule = "be the address of a Dask scheduler that answers"
                raise RuleError("scheduler", rule, address, f"{address}: {error}") from None
            if self._scheduler is None:
                self._client.register_plugin(deaf(), name="surefoot: Ctrl-C is the driver's")
            self._await_workers()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way.clear()
        self._works.clear()
        self._stack.close()

    def _await_workers(self) -> None:
        """Wait for the first worker, and compare all that are there."""
        since, said = time.monotonic(), False
        while not self._client.nthreads() and not self._stop.wait(WAIT):
            if not said and time.monotonic() - since > LOOK:
                said = True
                warnings.warn(f"no worker has come to {self._scheduler} yet; waiting for one", stacklevel=2)
        self._look()
        kinds = Counter(json.dumps(maker) for maker in self._makers.values())
        if kinds and json.dumps(self.maker) not in kinds:
            self.maker = json.loads(min(kinds, key=lambda kind: (-kinds[kind], kind)))
        self._name(self._makers)

    def _look(self) -> list[str]:
        """Count the threads of all workers; return the addresses of those not seen before."""
        threads = self._client.nthreads()
        self._threads, self._looked = max(1, sum(threads.values())), time.monotonic()
        new = [address for address in threads if address not in self._makers]
        if new:
            found = self._client.run(made_by, workers=new, on_error="return")
            for address, maker in found.items():
                if isinstance(maker, ModuleNotFoundError):
                    rule = "have workers on which surefoot is installed"
                    raise RuleError("scheduler", rule, self._scheduler, f"{address}: {maker}")
                if isinstance(maker, Mapping):  # else it has died meanwhile
                    self._makers[address] = dict(maker)
        return [address for address in new if address in self._makers]

    def _name(self, addresses: Sequence[str] | Mapping[str, Any]) -> None:
        """Name the workers that are not like the others; refuse other source code, and with `exact` all of them."""
        unlike: dict[str, list[str]] = {}
        for address in addresses:
            if why := unlikeness(self._makers[address], self.maker):
                unlike.setdefault(why, []).append(address)
            if self._makers[address]["source"] != made_by()["source"]:
                rule = "have workers with the same source code of surefoot as this process"
                raise RuleError("scheduler", rule, self._scheduler, f"other source code on {address}")
        for why, those in unlike.items():
            who = f"{len(those)} worker{'s' if len(those) > 1 else ''} ({', '.join(those[:5])})"
            if self._exact:
                raise RuleError("exact", "be False where workers differ", True, f"True, and {who} with {why}")
            warnings.warn(f"results may differ in the last digits: {who} with {why}", stacklevel=2)

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        if time.monotonic() - self._looked > LOOK:
            self._name(self._look())
        return self._threads

    def submit(self, task: Task, work: Work) -> None:
        """Have a task carried out."""
        self._begin(task, work, 1)

    def _begin(self, task: Task, work: Work, tries: int) -> None:
        key = f"surefoot-{work.key(task)}-{tries}"
        future = self._client.submit(do, self._known(work), task, key=key)
        self._under_way[key] = Submitted(task, work, future, tries)
        future.add_done_callback(lambda done: self._ended.put(done.key))

    def _known(self, work: Work) -> Any:
        """A future of the pickled work, which the scheduler hands to the workers that need it."""
        if work.identity not in self._works:
            import cloudpickle

            try:
                content = cloudpickle.dumps(work)
            except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
                rule = "be possible to pickle, with the scenario, for engine 'dask'"
                raise RuleError("policies", rule, work.policies, str(error)) from None
            for old in list(self._works)[:-7]:  # tasks that need it have it
                del self._works[old]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is large
                self._works[work.identity] = self._client.submit(bytes, content, pure=True)
        return self._works[work.identity]

    def wait(self, seconds: float) -> Done:
        """The tasks that have finished since the last call."""
        keys: list[str] = []
        with suppress(queue.Empty):
            keys.append(self._ended.get(timeout=seconds))
            while True:
                keys.append(self._ended.get_nowait())
        return [done for key in keys if key in self._under_way and (done := self._received(key)) is not None]

    def _received(self, key: str) -> tuple[Task, Result] | None:
        """The result of a task; None if its workers died, and it was begun again."""
        from distributed import KilledWorker

        task, work, future, tries = self._under_way.pop(key)
        try:
            result, said = future.result()
            self._warn(said)
            return task, result
        except KilledWorker as error:
            if tries == TRIES:
                raise RuntimeError(f"{tries * 4} workers died with seeds {task.seeds} of {task.policies}") from error
        except BaseException as error:  # a cancelled task is not an Exception
            if self._client.status != "running":
                raise ConnectionError(
                    f"lost the scheduler {self._client.scheduler}; finished tasks are kept"
                ) from error
            if future.status != "cancelled" or tries == TRIES:
                raise
        self._begin(task, work, tries + 1)
        return None

    def _warn(self, said: set[tuple[type[Warning], str]]) -> None:
        """Give the warnings that a worker gave, each once."""
        for kind, text in sorted(said - self._said, key=str):
            warnings.warn(text, kind, stacklevel=2)
        self._said |= said

    def halt(self) -> Done:
        """Drop the tasks that have not finished, and return those that have."""
        ready = {key for key, one in self._under_way.items() if one.future.status == "finished"}
        with suppress(Exception):  # no scheduler, nothing to cancel
            self._client.cancel([one.future for key, one in self._under_way.items() if key not in ready])
        found: Done = []
        for key in ready:
            with suppress(Exception):
                task, _, future, _ = self._under_way.pop(key)
                found.append((task, future.result(timeout=10 * WAIT)[0]))
        return found


def local_cluster(workers: int) -> Any:
    """Workers on this machine: processes with one thread each, that do nothing but their tasks."""
    import dask
    from distributed import LocalCluster

    typed: Any = LocalCluster
    with dask.config.set(QUIET):
        return typed(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",  # any free port
            env=ONE_THREAD,
            silence_logs=logging.ERROR,
        )


def deaf() -> Any:
    """A plugin that has workers ignore Ctrl-C, which a terminal sends to all processes: the driver ends the run."""
    from distributed import WorkerPlugin

    class Deaf(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Deaf()


def unlikeness(maker: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """What a worker has that others do not; empty if there is nothing."""
    versions, machine = usual["versions"], usual["machine"]
    found = [
        f"{name} {maker['versions'].get(name)} in place of {version}"
        for name, version in versions.items()
        if name != "surefoot" and maker["versions"].get(name) != version
    ]
    if maker["machine"] != machine:
        words = [f"{key} {maker['machine'].get(key)}" for key in ("cpu", "libc")]
        usually = [f"{key} {machine.get(key)}" for key in ("cpu", "libc")]
        features = "" if words != usually else ", with other vector instructions"
        found.append(f"{', '.join(words)} in place of {', '.join(usually)}{features}")
    return "; ".join(found)


@lru_cache(maxsize=8)
def known(content: bytes) -> Work:
    """What a worker knows of a simulation: unpickled once, with all that is computed once."""
    return pickle.loads(content)  # type: ignore[no-any-return]


def do(content: bytes, task: Task) -> tuple[Result, set[tuple[type[Warning], str]]]:
    """Carry out a task, on a worker; return its result and the warnings it gave."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = known(content).do(task, lambda rounds: None, Event())
    texts = {(type(one.message), str(one.message)) for one in said if isinstance(one.message, Warning)}
    try:
        pickle.dumps(result.error)
    except Exception:
        result = result._replace(error=RuntimeError(f"{type(result.error).__name__}: {result.error}"))
    return result, texts
