"""Episodes on a GPU: thousands at once, one a thread, with the random numbers that the CPU has by counter."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from threading import Event, Lock
from typing import Any, cast

import numpy as np

from surefoot.analysis.hindsight import TIED
from surefoot.analysis.ledger import WorldLedger, anchor
from surefoot.environments.losses import Adversary, Losses
from surefoot.environments.scenario import Scenario
from surefoot.kernels.adversary import NOBODY
from surefoot.kernels.course import TOGETHER, Common, Desk, Sheet, course_of, roomy
from surefoot.kernels.device import compiled_for_device, config, numba_cuda
from surefoot.kernels.draws import FILLED
from surefoot.kernels.layout import Draft, layout_of
from surefoot.kernels.ledger import PlayRows, WorldRows
from surefoot.kernels.pcg import load, stored
from surefoot.kernels.pcg import stream as stream_of
from surefoot.kernels.types import Integers
from surefoot.kernels.watch import IDLE
from surefoot.policies.base import Contradiction, Policy, sequence
from surefoot.provenance import made_by
from surefoot.rules import Floats, RuleError
from surefoot.simulation.engine import Threads
from surefoot.simulation.episode import (
    Factory,
    Lived,
    Stage,
    Stopped,
    noted_columns,
    noted_places,
    plays_compiled,
)
from surefoot.simulation.tasks import Result, Task, Work
from surefoot.simulation.world import policy_seed

THREADS = 64
"""Threads that the device starts together."""
REGISTERS = 128
"""Registers of a thread: with fewer it waits for its own memory, with more there are fewer threads."""
A_PROCESSOR = 512
"""Threads for which one of the device's processors has so many registers."""
LOCAL = 2_048
"""Numbers of a state up to which a thread holds it in memory of its own."""
SHARE = 0.4
"""Share of the free memory that a wave may take; two of them are under way."""
SECONDS = 0.5
"""How long the device works before it is asked again: progress is shown then, and Ctrl-C heard."""
FIRST = 200
"""Rounds of the first launch."""


def why_not(player: Any, scenario: Scenario) -> str | None:
    """What a GPU needs that a policy or a scenario lacks; None if it lacks nothing."""
    losses = scenario.losses
    if scenario.random != "counter":
        return "random='counter'"
    if scenario.feedback is not None:
        return "a scenario in which feedback comes at once"
    if isinstance(losses, Losses) and losses.drawn(0, scenario.problem.rounds) is None:
        return "losses that are drawn by counter"
    if scenario.costs.drawn(0) is None:
        return "costs that are drawn by counter"
    if not isinstance(player, Policy) or not plays_compiled(player, scenario):
        return "policies and adversaries in compiled code"
    if player.algorithm.random:
        return "policies that draw no random numbers of their own when they learn"
    kind: Any = type(player)
    if noted_places(kind, player.algorithm.layout, player._draft.arrangement.sizes)[0] is None:
        return "policies that show leaves of their state"
    return None


def check(stage: Stage, name: str, player: Any) -> None:
    """Refuse a policy that cannot be run on a GPU in a scenario."""
    if isinstance(player, Policy) and player.problem != stage.scenario.problem:
        rule = "be made for the problem it is given"
        raise RuleError(f"policies[{name!r}]", rule, player.problem, "one for another problem")
    lacking = why_not(player, stage.scenario)
    if lacking is None and stage.hindsight.vertices is None:
        lacking = "a safe set with few enough vertices to list them"
    if lacking is not None:
        rule = f"be 'threads' or 'dask' for {name} in {stage.scenario.id}, because 'cuda' needs {lacking}"
        raise RuleError("engine", rule, "cuda")


def check_device() -> None:
    """Refuse a machine that has no GPU."""
    if not numba_cuda().is_available():
        raise RuleError("engine", "not be 'cuda' on a machine without a GPU of NVIDIA and its driver", "cuda")


def check_all(works: Sequence[Work]) -> None:
    """Refuse a study that has something which cannot be run on a GPU, and a machine that has none."""
    check_device()
    for work in works:
        for name, factory in work.policies.items():
            check(work.stage, name, factory(work.scenario.problem, 0))


def alike(factory: Factory) -> bool:
    """True if a factory surely makes policies that differ in their generators alone, so that one stands for all."""
    made = factory.func if isinstance(factory, partial) else factory
    return isinstance(made, type) and issubclass(made, Policy) and made.__module__.startswith("surefoot.")


def leaves(draft: Draft, floats: Any, integers: Any) -> dict[str, Any]:
    """The leaves of many drafts of the same layout, whose buffers are rows; the first axis counts the drafts."""
    found = {}
    for place in draft.arrangement.places.values():
        buffer = integers if place.field.integer else floats
        size = int(np.prod(place.shape))
        found[place.field.name] = buffer[:, place.start : place.start + size].reshape(len(buffer), *place.shape)
    return found


_kernels: dict[Any, Any] = {}
"""Kernels by algorithm and sizes: each takes half a minute or more to compile."""
_making = Lock()


class Scene:
    """The episodes of one policy in a scenario, on the device."""

    def __init__(self, stage: Stage, name: str, factory: Factory) -> None:
        scenario, problem = stage.scenario, stage.scenario.problem
        self._stage, self._name, self._factory = stage, name, factory
        policy: Any = factory(problem, 0)
        self._policy = policy
        check(stage, name, policy)
        hindsight, eye = stage.hindsight, stage.clean.eye()
        if len(scenario.costs.phases) != 1 or not hasattr(self._policy, "lower_costs"):
            eye = IDLE
        layout, sizes = self._policy.algorithm.layout, self._policy._draft.arrangement.sizes
        kind: Any = type(policy)
        at, places = noted_places(kind, layout, sizes)
        self._at = at or {}
        losses = scenario.losses
        foe = losses.foe() if isinstance(losses, Adversary) else None
        drawn = losses.drawn(0, problem.rounds) if isinstance(losses, Losses) else None
        self._common = Common(
            stage.stops, places, eye.costs, eye.limits, eye.comparators, problem.thresholds.copy(), anchor(problem),
            cast(Floats, hindsight.vertices), TIED, drawn or FILLED, scenario.costs.drawn(0) or FILLED, foe or NOBODY,
        )  # fmt: skip
        arms, guardrails = problem.n_arms, problem.n_constraints
        self._desk = layout_of(Desk).new(K=arms, m=guardrails, v=len(eye.comparators), n=TOGETHER)
        self._desk.play.worst_margin, self._desk.play.rounds_until_loose = np.inf, -1
        self._sheet = layout_of(Sheet).new(K=arms, m=guardrails, n=stage.stops.size, p=places.size)
        self._drafts = self._policy._draft, self._desk, self._sheet
        sizes_there = policy._draft.arrangement.sizes, (arms, guardrails)  # a policy may heed fewer guardrails
        key = policy.algorithm, *sizes_there, roomy(self._desk.integers.size)
        with _making:
            if key not in _kernels:
                course = course_of(policy.algorithm, *self._drafts[:2], local=policy._draft.floats.size <= LOCAL)
                _kernels[key] = compiled_for_device(course, max_registers=REGISTERS)
        self._kernel = _kernels[key]

    def live(self, seeds: Sequence[int], advance: Callable[[int], None], stop: Event) -> Iterator[Lived]:
        """Live through the worlds of some seeds, as many at once as the memory holds."""
        size = sum(draft.floats.nbytes + draft.integers.nbytes for draft in self._drafts)
        fitting = max(1, int(min(len(seeds), SHARE * free_memory() / size)))
        for first in range(0, len(seeds), fitting):
            yield from self._wave(seeds[first : first + fitting], advance, stop)

    def _wave(self, seeds: Sequence[int], advance: Callable[[int], None], stop: Event) -> Iterator[Lived]:
        device = numba_cuda()
        started, problem, last = time.perf_counter(), self._stage.scenario.problem, int(self._stage.stops[-1])
        one = alike(self._factory)
        policies: dict[int, Any] = (
            {} if one else {n: self._factory(problem, policy_seed(seed)) for n, seed in enumerate(seeds)}
        )
        for policy in policies.values():
            check(self._stage, self._name, policy)
            if (
                policy.algorithm is not self._policy.algorithm
                or policy._draft.arrangement != self._policy._draft.arrangement
            ):
                rule = "make the same kind of policy for every seed on engine 'cuda'"
                raise RuleError(f"policies[{self._name!r}]", rule, policy)
        rows = [np.tile(buffer, (len(seeds), 1)) for draft in self._drafts for buffer in (draft.floats, draft.integers)]
        for n, policy in policies.items():
            rows[0][n], rows[1][n] = policy._draft.floats, policy._draft.integers
        luck = np.array(
            [
                stored(policies[n]._rng) if n in policies else stream_of(sequence(policy_seed(seed)))
                for n, seed in enumerate(seeds)
            ]
        )
        held = [*rows, np.array(seeds, np.int64), luck, np.zeros((len(seeds), 2), np.int64)]
        stream = device.stream()
        there = [device.to_device(array, stream) for array in held]
        common = on_device(self._common, stream)
        blocks, reached, step = -(-len(seeds) // THREADS), 0, FIRST
        while reached < last:
            target, before = min(last, reached + step), time.perf_counter()
            while True:
                self._kernel[blocks, THREADS, stream](*there, target, common)
                there[-1].copy_to_host(held[-1], stream)
                stream.synchronize()
                stuck = np.flatnonzero(held[-1][:, 0] < target)
                if not stuck.size:
                    break
                if stop.is_set():
                    raise Stopped
                self._recover(seeds, stuck, held, there, policies, stream)
            advance(len(seeds) * (target - reached))
            if stop.is_set():
                raise Stopped
            took, reached = time.perf_counter() - before, target
            step = max(FIRST, min(4 * step, int(step * SECONDS / max(took, 1e-6))))
        for n in (0, 1, 3, 4, 5):
            there[n].copy_to_host(held[n], stream)
        stream.synchronize()
        yield from self._lived(seeds, held, (time.perf_counter() - started) / len(seeds))

    def _recover(
        self, seeds: Sequence[int], stuck: Integers, held: list[Any], there: list[Any], policies: dict[int, Any],
        stream: Any,
    ) -> None:  # fmt: skip
        """Have Python find strategies where the safe set was found empty."""
        problem = self._stage.scenario.problem
        moving = (0, 1, 7)
        for n in moving:
            there[n].copy_to_host(held[n], stream)
        stream.synchronize()
        for n in stuck.tolist():
            if n not in policies:
                policies[n] = self._factory(problem, policy_seed(seeds[n]))
            policy = policies[n]
            policy._draft.floats[:], policy._draft.integers[:] = held[0][n], held[1][n]
            load(policy._rng, held[7][n])
            policy._recover()
            held[0][n], held[1][n], held[7][n] = policy._draft.floats, policy._draft.integers, stored(policy._rng)
        for n in moving:
            there[n].copy_to_device(held[n], stream)

    def _lived(self, seeds: Sequence[int], held: list[Any], seconds: float) -> Iterator[Lived]:
        stage = self._stage
        state, desk, sheet = (leaves(draft, *held[2 * n : 2 * n + 2]) for n, draft in enumerate(self._drafts))
        contradicted = state.get("known.contradicted")
        if contradicted is not None and contradicted.any() and not self._policy.quiet:
            warnings.warn(
                f"{self._name} has found a lower bound on a cost above its upper bound in "
                f"{int((contradicted > 0).any(axis=1).sum())} of {len(seeds)} runs: costs are not independent with "
                "fixed means, or bounds have failed by bad luck, within delta",
                Contradiction,
                stacklevel=2,
            )
        taken = np.array([stage.stops.size])
        for n, seed in enumerate(seeds):
            world = WorldRows(stage.stops, taken, *(sheet[name][n] for name in WorldRows._fields[2:]))
            play = PlayRows(stage.stops, taken, *(sheet[name][n] for name in PlayRows._fields[2:]))
            ledger = WorldLedger.of(stage.scenario.problem, stage.hindsight, world)
            columns = noted_columns(sheet["numbers"][n], self._at)
            yield Lived(
                self._name, seed, seconds, ledger, play, sheet["seen"][n], sheet["waiting"][n], desk["left"][n], columns
            )


def free_memory() -> float:
    """Bytes that are free on the device."""
    return float(numba_cuda().current_context().get_memory_info()[0])


def on_device(value: Any, stream: Any) -> Any:
    """A named tuple whose arrays are on the device."""
    if isinstance(value, tuple):
        return type(value)(*(on_device(part, stream) for part in value))
    return numba_cuda().to_device(value, stream) if isinstance(value, np.ndarray) else value


def live_on_device(
    stage: Stage, factories: Mapping[str, Factory], seeds: Sequence[int], advance: Callable[[int], None], stop: Event
) -> Iterator[tuple[int, list[Lived]]]:
    """Live through the worlds of some seeds, policy by policy, all seeds at once."""
    lived = [list(Scene(stage, name, factory).live(seeds, advance, stop)) for name, factory in factories.items()]
    for n, seed in enumerate(seeds):
        yield seed, [many[n] for many in lived]


class Cuda(Threads):
    """The first GPU of this machine. While it runs one task, the results of the one before are written."""

    name = "cuda"

    def __init__(self, advance: Callable[[int], None], stop: Event) -> None:
        super().__init__(1 if config.ENABLE_CUDASIM else 2, advance, stop)  # the simulator has one thread
        found = numba_cuda().get_current_device()
        name = getattr(found, "name", "simulated")
        self._device = {
            "gpu": name.decode() if isinstance(name, bytes) else str(name),
            "numba_cuda": version("numba-cuda"),
        }
        self.seeds_together = A_PROCESSOR * int(getattr(found, "MULTIPROCESSOR_COUNT", 1))

    @property
    def maker(self) -> dict[str, Any]:
        """What makes the results: this process, and the device."""
        return made_by(**self._device)

    def _done(self, task: Task, work: Work) -> Result:
        return work.do(task, self._advance, self._stop, live_on_device, **self._device)
