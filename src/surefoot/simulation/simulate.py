"""Simulate policies and seeds in one scenario on all cores. The number of cores does not change the result."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import UTC, datetime
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from surefoot.analysis.hindsight import Hindsight
from surefoot.environments.model import identity, told
from surefoot.environments.scenario import Scenario, is_name
from surefoot.policies.base import Policy
from surefoot.provenance import difference, made_by
from surefoot.rules import Range, RuleError, number, shown
from surefoot.simulation.episode import Episode, Factory, Stopped, live_through, warm_up
from surefoot.simulation.interruption import until_interrupted
from surefoot.simulation.progress import Bar
from surefoot.simulation.run import SCHEMA, Run

SEEDS = Range(1, 1e6, whole=True)
SEED = Range(0, 9.2e18, whole=True)  # what a column of int64 can hold
CHECKPOINTS = Range(1, 1e4, whole=True)
CHECKPOINT = Range(1, 1e15, whole=True)
WORKERS = Range(1, 4096, whole=True)
LOG_SPACED, EVEN = 15, 20
"""Default numbers of checkpoints: on a logarithmic scale, and evenly spaced."""
KEPT_EVERY = 10.0
"""Seconds between two saves of the finished episodes."""
Key = tuple[str, int]  # policy and seed


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
) -> Run:
    """Play policies in a scenario, once per seed, and compute their regret and violations exactly.

    In the world of a seed every policy meets the same losses and costs (of an adaptive adversary: the same coin flips).
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
        The rounds at which accounts are made, or how many of them, evenly spaced on a logarithmic scale up to the
        horizon. By default, 15 of these and 20 that are evenly spaced. Nothing is played after the last one.
    workers
        Number of threads; by default, one per core.
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
        An earlier run. Its episodes are reused where scenario, policy and checkpoints are the same, and the source
        code of surefoot, the libraries and the processor too; a warning says which are not, and why.

    Returns
    -------
    Run
        After Ctrl-C it holds the episodes that were finished by then, `complete` is false, and a warning says so; pass
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
    simulation = Simulation(prepared(scenario, policies, seeds, checkpoints), resume)
    threads = chosen_workers(workers)
    with Bar("simulating", simulation.plan.rounds, progress) as bar, until_interrupted() as stop:
        simulation.carry_out(threads, bar, stop)
    run = simulation.run()
    if not run.complete:
        left = run.provenance["simulations"][0]["missing_episodes"]
        warnings.warn(f"stopped with {left} episodes missing; pass resume=run to go on", stacklevel=2)
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


def chosen_workers(workers: int | None) -> int:
    """The number of threads."""
    return int(number("workers", os.cpu_count() or 1 if workers is None else workers, WORKERS))


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
        phases, n_arms = plan.scenario.costs.phases, plan.scenario.problem.n_arms
        limits = np.tile(plan.scenario.problem.thresholds, len(phases))
        self._hindsight = Hindsight(phases.reshape(limits.size, n_arms), limits)
        self._hindsight.best(np.zeros(n_arms), np.zeros((n_arms, n_arms)))  # raises if the thresholds cannot be met
        self._done: dict[Key, pa.Table] = {}
        self._seconds: dict[str, float] = {}
        self._elapsed = 0.0
        if resume is not None:
            self._recall(resume)

    def _recall(self, resume: Run) -> None:
        """Take over the episodes of an earlier run that are part of this one."""
        if not isinstance(resume, Run):
            raise RuleError("resume", "be a Run", resume)
        now, id = self._configuration(), self.plan.scenario.id
        episodes = resume.episodes(id)
        for before in resume.provenance["simulations"]:
            if before["scenario"]["id"] != id or not episodes:
                continue
            if why := difference(before, now):
                _say(f"the earlier run is not reused, because {why}")
                continue
            if changed := [f"its {part}" for part in ("scenario", "checkpoints") if before[part] != now[part]]:
                _say(f"the earlier run of {id} is not reused, because {' and '.join(changed)} changed")
                continue
            had = Counter(name for name, _ in episodes)
            same = {name for name, described in now["policies"].items() if before["policies"].get(name) == described}
            for name in sorted((had.keys() & now["policies"].keys()) - same):
                _say(f"the earlier run of {name} in {id} is not reused, because the policy changed")
            for key, rows in episodes.items():
                if key[0] in same and key[1] in self.plan.seeds and rows.num_rows == len(self.plan.checkpoints):
                    self._done[key] = rows
            self._elapsed = before["elapsed_seconds"]
            kept = Counter(name for name, _ in self._done)
            self._seconds = {name: before["policy_seconds"].get(name, 0.0) * kept[name] / had[name] for name in kept}

    def carry_out(self, workers: int, bar: Bar, stop: Event, keep: Callable[[], None] = lambda: None) -> None:
        """Run the missing episodes until `stop` is set. Call `keep` every ten seconds and at the end."""
        missing = [key for key in self._order() if key not in self._done]
        by_seed = {seed: {n: self.plan.policies[n] for n, s in missing if s == seed} for _, seed in missing}
        bar.advance(len(self._done) * self.plan.checkpoints[-1])
        before, started, kept = self._elapsed, time.perf_counter(), time.monotonic()
        scenario, hindsight, checkpoints = self.plan.scenario, self._hindsight, self.plan.checkpoints
        with ExitStack() as at_the_end, ThreadPoolExecutor(workers) as pool:
            at_the_end.callback(keep)  # also after an error
            waiting = {
                pool.submit(live_through, scenario, hindsight, policies, seed, checkpoints, bar.advance, stop)
                for seed, policies in by_seed.items()
            }
            try:
                while waiting and not stop.is_set():
                    finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in finished:
                        self._take(future.result())
                    self._elapsed = before + time.perf_counter() - started
                    if finished and time.monotonic() - kept > KEPT_EVERY:
                        keep()
                        kept = time.monotonic()
            except (KeyboardInterrupt, Stopped):
                stop.set()
            finally:
                for future in waiting:
                    future.cancel()
                if waiting:
                    stop.set()
            for future in waiting:  # episodes that finished although the run was stopped
                if not future.cancelled() and future.exception() is None:
                    self._take(future.result())

    def _take(self, episodes: list[Episode]) -> None:
        for episode in episodes:
            self._done[episode.name, episode.seed] = episode.table
            self._seconds[episode.name] = self._seconds.get(episode.name, 0.0) + episode.seconds

    def _order(self) -> list[Key]:
        return [(name, seed) for name in self.plan.policies for seed in self.plan.seeds]

    def _configuration(self) -> dict[str, Any]:
        return {
            "scenario": self.plan.scenario.to_dict(),
            "policies": self.plan.described,
            "seeds": self.plan.seeds,
            "checkpoints": self.plan.checkpoints,
            **made_by(),
        }

    def run(self) -> Run:
        """The run of all finished episodes, in the order of the plan, with its provenance."""
        order = self._order()
        provenance = {
            **self._configuration(),
            "missing_episodes": sum(key not in self._done for key in order),
            "policy_seconds": self._seconds,
            "elapsed_seconds": self._elapsed,
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        tables = [self._done[key] for key in order if key in self._done]
        table = pa.concat_tables([SCHEMA.empty_table(), *tables]).combine_chunks()
        return Run(table, {"simulations": [provenance]})


def _say(sentence: str) -> None:
    """Warn the caller of `simulate` or `Study.parse`; Python shows the same sentence once, for all scenarios."""
    warnings.warn(sentence, stacklevel=5)


def is_mapping(value: object) -> bool:
    """True if the value is a non-empty mapping."""
    return isinstance(value, Mapping) and bool(value)
