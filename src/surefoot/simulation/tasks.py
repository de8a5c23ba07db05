"""The work of a study, cut into tasks of about a second: some policies, in the worlds of some seeds of a scenario.

A task is pure: what it returns is determined by its key. So it may be run anywhere, in any order, and again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any, NamedTuple

import pyarrow as pa

from surefoot.environments.scenario import Scenario
from surefoot.kernels.types import Integers
from surefoot.provenance import made_by
from surefoot.simulation.episode import Factory, Lived, Stage, live_in_turn
from surefoot.simulation.parts import About, Finished, digest, encoded

SECONDS = 1.0
"""How long a task should take."""
SHORT = 0.05
"""A task is not made shorter than this to have all workers stop together."""
A_SECOND = 50
"""How many tasks may finish in a second, on all workers together; with more workers, tasks are longer."""
ROWS = 50_000
"""Rows that a task may return."""
ROWS_TOGETHER = 2_500_000
"""The same on an engine that runs seeds together."""

FADING = 0.8
"""How much of what was measured counts when one more task is measured: the first one of a process loads kernels."""


Live = Callable[
    [Stage, Mapping[str, Factory], Sequence[int], Callable[[int], None], Event], Iterable[tuple[int, list[Lived]]]
]
"""What runs the policies of some seeds: for each seed, one episode a policy."""


class Task(NamedTuple):
    """Some policies in the worlds of some seeds."""

    simulation: int  # its number in the study
    policies: tuple[str, ...]
    seeds: list[int]
    rounds: int  # of all its episodes together


class Result(NamedTuple):
    """What a task has come to: a part with the seeds that were finished, and why the others were not."""

    about: About
    content: bytes  # of the part; empty if no seed was finished
    error: BaseException | None = None


@dataclass
class Work:
    """All that a worker has to know of a simulation."""

    scenario: Scenario
    policies: dict[str, Factory]
    checkpoints: list[int]
    identity: str  # of its parts
    digests: dict[str, str]  # of the policies

    @cached_property
    def stage(self) -> Stage:
        """What all episodes share."""
        return Stage(self.scenario, self.checkpoints)

    def key(self, task: Task) -> str:
        """The digest of what determines the result of a task."""
        return digest(self.identity, {name: self.digests[name] for name in task.policies}, task.seeds)

    def do(
        self, task: Task, advance: Callable[[int], None], stop: Event, live: Live = live_in_turn, **maker: Any
    ) -> Result:
        """Run the episodes of a task, seed by seed, until `stop` is set or something goes wrong.

        `live` runs them, and `maker` says what it adds to what makes the result.
        """
        started, done, error = time.perf_counter(), [], None
        lived: dict[str, list[Lived]] = {name: [] for name in task.policies}
        factories = {name: self.policies[name] for name in task.policies}
        try:
            for seed, episodes in live(self.stage, factories, task.seeds, advance, stop):
                for one in episodes:
                    lived[one.policy].append(one)
                done.append(seed)
        except BaseException as problem:  # also KeyboardInterrupt: in a thread, nobody else would hear of it
            error = problem
        elapsed, digests = time.perf_counter() - started, {name: self.digests[name] for name in task.policies}
        seconds = {name: sum(one.seconds for one in many) for name, many in lived.items()}
        about = About(self.identity, digests, done, seconds, elapsed, made_by(**maker))
        try:
            tables = [self.stage.table(many[: len(done)]) for many in lived.values()] if done else []
            content = encoded(about, tables) if done else b""
        except pa.ArrowException as problem:
            content, error = b"", error or problem
        return Result(about, content, error)


class Backlog:
    """The missing episodes of a study, cut into tasks when they are asked for, by the speed measured until then."""

    def __init__(self, finished: Sequence[Finished]) -> None:
        self._checkpoints = [one.checkpoints for one in finished]
        self._groups = [(i, names, seeds) for i, one in enumerate(finished) for names, seeds in one.to_do()]
        self._groups.reverse()
        self._left = sum(len(names) * seeds.size * finished[i].checkpoints[-1] for i, names, seeds in self._groups)
        self._spent: dict[int | None, tuple[float, float]] = {}  # seconds and rounds, by simulation, and (None) in all

    def __bool__(self) -> bool:
        return bool(self._groups)

    def next(self, workers: int, seeds_together: int | None = None) -> Task | None:
        """The next task, or None if there is none left. An engine that runs seeds together says how many."""
        if not self._groups:
            return None
        number, names, seeds = self._groups.pop()
        checkpoints = self._checkpoints[number]
        if seeds_together is None:
            names, others = self._divided(names, seeds, workers)
            size = self._size(number, len(names), checkpoints, workers)
        else:  # policies share nothing there
            names, others = names[:1], names[1:]
            size = max(1, min(seeds_together, ROWS_TOGETHER // len(checkpoints)))
        if seeds.size > size:
            self._groups.append((number, names + others, seeds[size:]))
        if others:
            self._groups.append((number, others, seeds[:size]))
        rounds = len(names) * min(size, seeds.size) * checkpoints[-1]
        self._left -= rounds
        return Task(number, names, seeds[:size].tolist(), rounds)

    def _divided(
        self, names: tuple[str, ...], seeds: Integers, workers: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The policies of the next task and the others: all of them, unless that would leave workers idle."""
        waiting = len(self._groups) + seeds.size  # tasks at least, if each had all policies and one seed
        count = len(names) if waiting >= workers else math.ceil(len(names) * waiting / workers)
        return names[:count], names[count:]

    def _size(self, number: int, policies: int, checkpoints: list[int], workers: int) -> int:
        """How many seeds the next task gets."""
        spent, rounds = self._spent.get(number) or self._spent.get(None) or (0.0, 0.0)
        if not rounds:
            return 1
        pace = spent / rounds
        wanted = max(SECONDS, workers / A_SECOND) * (1.0 if number in self._spent else 0.25)
        fair = pace * self._left / (2 * workers)  # at the end, smaller ones: all workers should stop together
        size = max(min(wanted, fair), SHORT) / max(pace * policies * checkpoints[-1], 1e-9)
        return max(1, min(int(size), ROWS // (policies * len(checkpoints))))

    def learn(self, task: Task, seconds: float) -> None:
        """Take note of how long a task took."""
        for key in (task.simulation, None):
            spent, rounds = self._spent.get(key, (0.0, 0.0))
            self._spent[key] = FADING * spent + seconds, FADING * rounds + task.rounds
