"""Simulate policies and seeds on all cores, or on many machines. What runs them does not change the result."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from surefoot.environments.model import identity, told
from surefoot.environments.scenario import Scenario, is_name
from surefoot.policies.base import Policy
from surefoot.provenance import difference, made_by
from surefoot.rules import Range, RuleError, number, shown
from surefoot.simulation.engine import Engine, Threads, carry_out
from surefoot.simulation.episode import Factory, warm_up
from surefoot.simulation.folder import Folder, Local, Memory, folder_at, held
from surefoot.simulation.interruption import until_interrupted
from surefoot.simulation.parts import Finished, Part
from surefoot.simulation.progress import Bar
from surefoot.simulation.run import Run, clear, tally
from surefoot.simulation.tasks import Backlog, Result, Task, Work

SEEDS = Range(1, 1e6, whole=True)
SEED = Range(0, 9.2e18, whole=True)  # what a column of int64 can hold
CHECKPOINTS = Range(1, 1e4, whole=True)
CHECKPOINT = Range(1, 1e15, whole=True)
WORKERS = Range(1, 4096, whole=True)
LOG_SPACED, EVEN = 15, 20
"""Default numbers of checkpoints: on a logarithmic scale, and evenly spaced."""
ENGINES = ("threads", "dask", "cuda")


class Plan(NamedTuple):
    """A checked plan of what to simulate."""

    scenario: Scenario
    policies: dict[str, Factory]
    seeds: list[int]
    checkpoints: list[int]
    described: dict[str, dict[str, Any]]  # the policies, for provenance

    @property
    def rounds(self) -> int:
        """Number of rounds in all episodes together."""
        return len(self.policies) * len(self.seeds) * self.checkpoints[-1]


def simulate(
    scenario: Scenario,
    policies: Mapping[str, Factory],
    seeds: int | Iterable[int] = 20,
    checkpoints: int | Sequence[int] | None = None,
    workers: int | None = None,
    *,
    random: str | None = None,
    progress: bool | None = None,
    resume: Run | None = None,
    folder: str | Path | None = None,
    engine: str = "threads",
    scheduler: str | None = None,
    exact: bool = False,
) -> Run:
    """Play policies in a scenario, once per seed, and compute their regret and violations exactly.

    In the world of a seed every policy meets the same losses and costs (an adaptive adversary flips the same coins).
    The result does not depend on the number of workers, on interruptions or on which other policies take part.

    Parameters
    ----------
    scenario
        The world.
    policies
        A factory for each name: it takes a problem and a seed and returns a policy. This may be a policy's class, or a
        function that passes options.
    seeds
        How many (0, 1, ...), or the seeds themselves.
    checkpoints
        The rounds at which results are recorded, or their number, evenly spaced on a logarithmic scale up to the
        horizon. By default, 15 of these and 20 evenly spaced ones. Nothing is played after the last one.
    workers
        Number of threads, or of processes if `engine` is "dask"; by default, one per core.
    random
        How the random numbers of the world are made; by default, as the scenario says, which is "numpy" unless it was
        made otherwise. "numpy" draws all losses and costs one after the other from NumPy's generators. "counter" makes
        each number from the seed, the round, the arm and the guardrail alone (Philox 4x32-10), so that only the costs
        of the arms that are played have to be drawn: another world for the same seed, drawn faster where costs are
        slow to draw or many. Models without compiled code (your own, correlated costs, the lower bound's) are filled
        as with "numpy". A run is not resumed with other random numbers.
    progress
        Whether to show a progress bar on stderr; by default, only if stderr is a terminal.
    resume
        An earlier run. Its results are reused where scenario, policy and checkpoints are the same, and the source
        code of surefoot, the libraries and the processor too; a warning says which are not, and why.
    folder
        Where to write runs as they are finished, so that memory does not grow with their number: the name of a
        folder, or an address that fsspec knows, such as ``"s3://bucket/study"``. If it holds an earlier run of the
        same scenario, that is resumed. By default, results are held in memory.
    engine
        "threads" of this process; "dask" for processes, on this machine or on many, for which policies and models of
        your own are pickled; or "cuda" for an NVIDIA GPU, with `random` "counter" (docs/gpu.md says what can be run
        there). Results of a GPU may differ from those of a processor in the last digits, and are marked as such.
    scheduler
        The address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, whose workers are to be used. By default,
        Dask starts workers on this machine.
    exact
        Whether to refuse workers whose libraries or processor differ from the others', on which results may differ in
        the last digits. By default they are named in a warning, and recorded in the provenance.

    Returns
    -------
    Run
        After Ctrl-C it holds the runs that were finished by then, `complete` is false, and a warning says so; pass
        it as `resume` to go on.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=2, thresholds=[0.5], horizon=1000)
    >>> scenario = sf.Scenario("mine-v1", problem, sf.losses.Fixed([0.2, 0.6]), sf.costs.Bernoulli([[0.9, 0.1]]))
    >>> run = sf.simulate(scenario, {"colb": sf.COLB}, seeds=2, checkpoints=[1000], workers=1)
    >>> run.table.column("bandit_complexity").to_pylist()  # half of each arm: 0.4 a round
    [400.0, 400.0]
    """
    if random is not None and isinstance(scenario, Scenario):
        scenario = scenario.drawn_by(random)
    options = Options.checked(workers, progress, engine, scheduler, exact)
    plan = prepared(scenario, policies, seeds, checkpoints)
    if resume is None and folder is not None and Run.is_in(folder):
        resume = earlier_run(folder, scenario)
    run = carried_out([Simulation(plan, resume)], options, folder)
    if not run.complete:
        left = run.provenance["simulations"][0]["missing_episodes"]
        how = "pass resume=run" if folder is None else "call it again with the same folder"
        warnings.warn(f"stopped with {left} runs missing; {how} to go on", stacklevel=2)
    return run


def prepared(
    scenario: Scenario,
    policies: Mapping[str, Factory],
    seeds: int | Iterable[int],
    checkpoints: int | Sequence[int] | None,
) -> Plan:
    """Check all arguments before the first round."""
    if not isinstance(scenario, Scenario):
        raise RuleError("scenario", "be a Scenario", scenario)
    if not is_mapping(policies):
        raise RuleError("policies", "be a mapping of names to policies, with one at least", policies)
    described = {}
    for name, factory in policies.items():
        if not (is_name(name) and callable(factory)):
            raise RuleError("policies", "map names to callables", factory, f"{shown(name)}: {shown(factory)}")
        player = factory(scenario.problem, 0)
        described[name] = describe(name, player)
        warm_up(player, scenario)
    last = scenario.problem.rounds
    return Plan(scenario, dict(policies), chosen_seeds(seeds), chosen_rounds(checkpoints, last), described)


def describe(name: str, player: Any) -> dict[str, Any]:
    """A policy as JSON-able data."""
    for needed in ("strategy", "ask", "tell"):
        if not hasattr(player, needed):
            raise RuleError(f"policies[{name!r}]", "make something with strategy, ask and tell", player)
    options = (
        player._options if isinstance(player, Policy) else getattr(player, "options", getattr(player, "__dict__", {}))
    )
    kind = str(getattr(player, "kind", "none"))
    return {"policy": type(player).__qualname__, "kind": kind, "options": told(options), **identity(type(player))}


def earlier_run(folder: str | Path, scenario: Scenario) -> Run:
    """The run that is already in the folder, if it is of the same scenario."""
    run = Run.load(folder)
    ids = [part["scenario"]["id"] for part in run.provenance["simulations"]]
    if ids != [scenario.id]:
        received = f"{folder} with the results of {', '.join(ids)}"
        raise RuleError("folder", "be a folder of its own for each run", folder, received)
    return run


class Options(NamedTuple):
    """How a study is run, which changes nothing in its results but the last digits of a GPU's."""

    workers: int
    progress: bool | None
    engine: str
    scheduler: str | None
    exact: bool

    @classmethod
    def checked(
        cls, workers: int | None = None, progress: bool | None = None, engine: str = "threads",
        scheduler: str | None = None, exact: bool = False,
    ) -> Options:  # fmt: skip
        """Check the options."""
        count = int(number("workers", os.cpu_count() or 1 if workers is None else workers, WORKERS))
        if engine not in ENGINES:
            raise RuleError("engine", f"be one of {', '.join(ENGINES)}", engine)
        if not isinstance(exact, bool):
            raise RuleError("exact", "be True or False", exact)
        if scheduler is not None and (engine != "dask" or not is_name(scheduler)):
            raise RuleError("scheduler", "be an address, and go with engine 'dask'", scheduler)
        if scheduler is not None and workers is not None:
            raise RuleError("workers", "be left out with a scheduler, which has its own", workers)
        return cls(count, progress, engine, scheduler, exact)

    def open(self, advance: Callable[[int], None], stop: Event) -> Engine:
        """The engine."""
        if self.engine == "threads":
            return Threads(self.workers, advance, stop)
        if self.engine == "cuda":
            from surefoot.simulation.cuda import Cuda  # as Dask, imported only where it is used

            return Cuda(advance, stop)
        from surefoot.simulation.cluster import Dask

        return Dask(self.workers, self.scheduler, stop, exact=self.exact)


def chosen_seeds(seeds: int | Iterable[int]) -> list[int]:
    """The seeds themselves."""
    if not isinstance(seeds, Iterable) or isinstance(seeds, str | bytes):
        return list(range(number("seeds", seeds, SEEDS)))
    listed = [number(f"seeds[{i}]", seed, SEED) for i, seed in enumerate(seeds)]
    if not listed or len(set(listed)) < len(listed):
        raise RuleError("seeds", "be one or more, each once", listed)
    return listed


def chosen_rounds(checkpoints: int | Sequence[int] | None, horizon: int) -> list[int]:
    """The rounds at which accounts are made."""
    if checkpoints is None:
        return sorted({*log_spaced(LOG_SPACED, horizon), *(horizon * i // EVEN for i in range(1, EVEN + 1))} - {0})
    if not isinstance(checkpoints, Iterable) or isinstance(checkpoints, str):
        if checkpoints not in CHECKPOINTS:
            raise RuleError("checkpoints", f"be {CHECKPOINTS}, or a list of rounds", checkpoints)
        return log_spaced(int(checkpoints), horizon)
    listed = [number(f"checkpoints[{i}]", round_, CHECKPOINT) for i, round_ in enumerate(checkpoints)]
    if not listed or sorted(set(listed)) != listed or listed[-1] > horizon:
        raise RuleError("checkpoints", f"be increasing rounds up to horizon = {horizon}", listed)
    return listed


def log_spaced(count: int, horizon: int) -> list[int]:
    """Rounds up to the horizon, evenly spaced on a logarithmic scale; fewer where they would coincide."""
    first = min(10, horizon) if count > 1 else horizon
    return sorted({round(float(at)) for at in np.geomspace(first, horizon, count)})


class Simulation:
    """The episodes of a plan, finished and unfinished."""

    def __init__(self, plan: Plan, resume: Run | None = None) -> None:
        self.plan = plan
        self._configuration = {
            "scenario": plan.scenario.to_dict(),
            "policies": plan.described,
            "seeds": plan.seeds,
            "checkpoints": plan.checkpoints,
            **made_by(),
        }
        self.finished = Finished(self._configuration)
        identity, digests = self.finished.identity, self.finished.policies
        self.work = Work(plan.scenario, plan.policies, plan.checkpoints, identity, digests)
        n_arms = plan.scenario.problem.n_arms
        self.work.stage.hindsight.best(np.zeros(n_arms), np.zeros((n_arms, n_arms)))  # raises if limits cannot be met
        if resume is not None:
            self._recall(resume)

    def _recall(self, resume: Run) -> None:
        """Take over the episodes of an earlier run that are part of this one."""
        if not isinstance(resume, Run):
            raise RuleError("resume", "be a Run", resume)
        now, id = self._configuration, self.plan.scenario.id
        for before, earlier in zip(resume.provenance["simulations"], resume.finished, strict=True):
            if before["scenario"]["id"] != id or not earlier.count:
                continue
            if why := difference(before, now, same_machine=before.get("engine") != "dask"):
                _say(f"the earlier run is not reused, because {why}")
                continue
            if changed := [f"its {part}" for part in ("scenario", "checkpoints") if before[part] != now[part]]:
                _say(f"the earlier run of {id} is not reused, because {' and '.join(changed)} changed")
                continue
            for cell in earlier.cells():
                policy = self.plan.described.get(cell.policy)
                if policy is not None and policy != before["policies"][cell.policy]:
                    _say(f"the earlier run of {cell.policy} in {id} is not reused, because the policy changed")
            for part in earlier.parts:
                self.finished.add(part)

    def check_engine(self, engine: str) -> None:
        """Refuse to go on with episodes of a processor on a GPU, or the other way round: their last digits differ."""
        on_gpu = engine == "cuda"
        if others := sum(("gpu" in part.made_by["machine"]) != on_gpu for part in self.finished.parts):
            where = "a processor" if on_gpu else "a GPU"
            rule = f"be that of the earlier run, or have another folder: {others} of its parts were made on {where}"
            raise RuleError("engine", rule, engine)

    def run(self, engine: str = "threads") -> Run:
        """The run of all finished episodes, in the order of the plan, with its provenance."""
        provenance = {
            **self._configuration,
            **tally(self.finished),
            "engine": engine,
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return Run([self.finished], {"simulations": [provenance]})


def carried_out(
    simulations: Sequence[Simulation], options: Options, folder: str | Path | None = None, **told: Any
) -> Run:
    """Run the missing episodes of all simulations on one engine, and write them into a folder as they are finished.

    `told` goes into the provenance.
    """
    place: Folder = Memory() if folder is None else made(folder)
    rounds = sum(simulation.plan.rounds for simulation in simulations)
    for simulation in simulations:
        simulation.check_engine(options.engine)
    if options.engine == "cuda":
        from surefoot.simulation.cuda import check_all

        check_all([simulation.work for simulation in simulations])

    def so_far() -> Run:
        return Run.joined([simulation.run(options.engine) for simulation in simulations], **told)

    with held(place), Bar("simulating", rounds, options.progress) as bar, until_interrupted() as stop:
        for simulation in simulations:
            simulation.finished = simulation.finished.copied_to(place)
            bar.advance(simulation.finished.count * simulation.plan.checkpoints[-1])
        finished = [simulation.finished for simulation in simulations]
        backlog = Backlog(finished)
        so_far().write_provenance(place)
        clear(place, finished)
        try:
            if backlog or options.exact:
                with options.open(bar.advance, stop) as engine:
                    keep = Keeper(engine, place, finished, exact=options.exact)
                    carry_out(engine, [simulation.work for simulation in simulations], backlog, bar, stop, keep.take)
        finally:
            so_far().write_provenance(place)
    return so_far()


def made(folder: str | Path) -> Folder:
    """A folder that is there, and made if it was not."""
    place = folder_at(folder)
    if isinstance(place, Local):
        place.path.mkdir(parents=True, exist_ok=True)
    return place


class Keeper:
    """Writes results as they come, if they come from where they may."""

    def __init__(self, engine: Engine, folder: Folder, finished: Sequence[Finished], *, exact: bool) -> None:
        self._maker, self._folder, self._finished, self._exact = engine.maker, folder, finished, exact
        for part in (part for one in finished for part in one.parts):
            self._check(part.made_by, f"{folder}: {part.name}")

    def _check(self, made_by: Mapping[str, Any], what: str) -> None:
        if self._exact and (why := difference(made_by, self._maker)):
            raise RuleError("exact", "be False for results of different machines", True, f"True, but of {what}, {why}")

    def take(self, task: Task, result: Result) -> None:
        """Write a part."""
        self._check(result.about.made_by, f"seeds {shown(result.about.seeds)}")
        finished = self._finished[task.simulation]
        finished.add(Part.written(self._folder, finished.folder, result.about, result.content))


def _say(sentence: str) -> None:
    """Warn the caller of `simulate` or `Study.parse`; Python shows the same sentence once, for all scenarios."""
    warnings.warn(sentence, stacklevel=5)


def is_mapping(value: object) -> bool:
    """True if the value is a non-empty mapping."""
    return isinstance(value, Mapping) and bool(value)
