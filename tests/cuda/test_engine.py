"""A GPU lives through the same episodes as the processor.

Numba's simulator runs the kernels as Python on the processor, so there the tables are equal to the bit. On a device,
functions such as the logarithm may differ in the last digit, and so may what follows from them.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import config

import surefoot as sf
from surefoot.kernels.device import numba_cuda
from surefoot.policies import REGISTRY
from surefoot.simulation import cuda as engine
from surefoot.simulation.episode import Stage, Stopped
from surefoot.simulation.world import policy_seed

SIMULATED = bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
ROUNDS, SEEDS = (70, 2) if SIMULATED else (2_000, 64)
PAPER = partial(sf.SOLB, preset="paper", learning_rate=0.05)
WORLDS = [
    "stochastic-v1", "three-arms-v1", "switching-v1", "drifting-v1", "tight-margin-v1", "interior-safe-v1",
    "llm-routing-v1", "dose-finding-v1", "jump-v1", "drifting-costs-v1", "adaptive-v1", "adaptive-proposal-v1",
    "lower-bound-v1", "many-constraints-v1",
]  # fmt: skip
IN_THE_KNOW = {"oracle"}  # it needs the true costs
DRAWING = {"thompson", "lincon-ts"}
NEAR = 1e-9
"""How far numbers may be apart, as a share of them if they are above 1: most columns are sums over rounds, and so are
their roundings. On an H200, sums of hundreds were 5e-9 apart at most, a share of about 1.5e-11."""


def has_device() -> bool:
    if SIMULATED:
        return True
    try:
        return bool(numba_cuda().is_available())
    except ImportError:
        return False


pytestmark = pytest.mark.skipif(not has_device(), reason="there is no GPU here, nor is its simulator on")


def world(name: str = "stochastic-v1", horizon: int = ROUNDS) -> sf.Scenario:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the horizon is too short for the theorems
        return sf.scenarios.make(name, horizon=horizon).drawn_by("counter")


def lived(scenario: sf.Scenario, policies: dict[str, Any], on: str, seeds: Any = SEEDS, **given: Any) -> sf.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sf.simulate(scenario, policies, seeds, [10, scenario.problem.rounds], 2, engine=on, **given)


def equal(one: pa.Table, other: pa.Table) -> bool:
    """True if all columns are equal: to the bit in the simulator, to `NEAR` in nine of ten rows on a device."""
    if SIMULATED:
        return bool(one.equals(other))
    near = np.ones(one.num_rows, bool)
    for name in one.column_names:
        here, there = one.column(name).to_pylist(), other.column(name).to_pylist()
        if name in ("bandit_complexity", "benchmark", "baseline_loss") and here != there:
            return False  # these are of the world alone
        near &= [np.allclose(flat(a), flat(b), NEAR, NEAR) for a, b in zip(here, there, strict=True)]
    return float(near.mean()) >= 0.9


def flat(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return [hash(value) % 1000]
    return np.ravel(np.array(value, float))


@pytest.mark.parametrize("name", WORLDS)
def test_worlds(name: str) -> None:
    scenario, policies = world(name), {"paper": PAPER, "practical": sf.SOLB}
    if SIMULATED and name == "llm-routing-v1":
        del policies["practical"]  # Python's own expm1 raises an error where the compiled one returns infinity
    assert equal(lived(scenario, policies, "cuda").table, lived(scenario, policies, "threads").table)


@pytest.mark.parametrize("name", [*sorted(REGISTRY.keys() - IN_THE_KNOW - DRAWING), "led"])
def test_policies(name: str) -> None:
    made: Any = partial(sf.SOLB, preset="led") if name == "led" else REGISTRY[name]
    assert equal(lived(world(), {name: made}, "cuda").table, lived(world(), {name: made}, "threads").table)


def surprised(problem: sf.Problem, seed: int) -> sf.COLB:
    """A policy that has seen the highest costs everywhere: it finds its safe set empty."""
    policy = sf.COLB(problem, seed, preset="paper", learning_rate=0.05)
    for arm in range(problem.n_arms):
        for _ in range(400):
            policy.observe(arm, [1.0] * problem.n_constraints)
    return policy


def test_an_empty_safe_set_is_left_to_python() -> None:
    scenario, policies = world("three-arms-v1"), {"surprised": surprised}
    there, here = (lived(scenario, policies, on).table for on in ("cuda", "threads"))
    assert min(here.column("empty_rounds").to_pylist()) >= 10
    assert equal(there, here)


@pytest.mark.parametrize("name", ["adaptive-v1", "adaptive-proposal-v1"])
def test_an_empty_safe_set_against_an_adversary(name: str) -> None:
    """What the adversary has written in the block before is not drawn again."""
    there, here = (lived(world(name), {"surprised": surprised}, on).table for on in ("cuda", "threads"))
    assert min(here.column("empty_rounds").to_pylist()) >= 10
    assert equal(there, here)


def test_kernels_are_told_apart_by_the_guardrails_of_the_problem() -> None:
    """A policy that heeds no guardrail has the same state in both, but the accounts differ."""
    policies = {"log-barrier": partial(REGISTRY["log-barrier"], learning_rate=0.05)}
    for n_constraints in (2, 1):
        problem = sf.Problem(3, [0.5] * n_constraints, ROUNDS)
        costs = sf.costs.Bernoulli([[0.9, 0.3, 0.2]] * n_constraints)
        scenario = sf.Scenario("own-v1", problem, sf.losses.Bernoulli([0.2, 0.5, 0.8]), costs, random="counter")
        there, here = (lived(scenario, policies, on).table for on in ("cuda", "threads"))
        assert equal(there, here)
    assert {(3, 1), (3, 2)} <= {key[2] for key in engine._kernels}


def test_policies_with_generators_of_their_own() -> None:
    def reseeded(problem: sf.Problem, seed: int) -> sf.SOLB:
        policy = sf.SOLB(problem, seed, preset="paper", learning_rate=0.05)
        policy.reseed(5)
        return policy

    there, here = (lived(world(), {"own": reseeded}, on).table for on in ("cuda", "threads"))
    assert equal(there, here)


def test_a_policy_for_another_problem_is_refused() -> None:
    other = sf.Problem(5, [0.99], ROUNDS)
    with pytest.raises(ValueError, match="be made for the problem it is given"):
        lived(world(), {"other": lambda problem, seed: sf.COLB(other, seed)}, "cuda")


def test_control_other_draws_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = lived(world(), {"paper": PAPER}, "threads").table
    assert equal(lived(world(), {"paper": PAPER}, "cuda").table, here)
    monkeypatch.setattr(engine, "policy_seed", lambda seed: seed + 1)
    assert not equal(lived(world(), {"paper": PAPER}, "cuda").table, here)


def test_waves_that_fit_into_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lived(world(), {"paper": PAPER}, "cuda", 3).table
    sizes = []
    wave = engine.Scene._wave

    def counted(self: Any, seeds: Any, *rest: Any) -> Any:
        sizes.append(len(seeds))
        return wave(self, seeds, *rest)

    monkeypatch.setattr(engine.Scene, "_wave", counted)
    monkeypatch.setattr(engine, "free_memory", lambda: 1.0)
    assert lived(world(), {"paper": PAPER}, "cuda", 3).table.equals(whole)
    assert sizes == [1, 1, 1]


def test_a_wave_is_as_large_as_the_memory_of_its_runs_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer states and sheets make smaller waves; two of them, which are under way at once, leave some memory free."""
    assert 0.0 < 2 * engine.SHARE < 1.0
    sizes, held_by, all_lived = [], [], engine.Scene._lived

    def weighed(self: Any, seeds: Any, held: Any, seconds: float) -> Any:
        sizes.append(len(seeds))
        held_by.append(sum(array.nbytes for array in held) / len(seeds))
        return all_lived(self, seeds, held, seconds)

    monkeypatch.setattr(engine.Scene, "_lived", weighed)
    scene = engine.Scene(Stage(world(), [ROUNDS]), "paper", PAPER)
    roomier = engine.Scene(Stage(world(), list(range(1, ROUNDS + 1))), "paper", PAPER)
    for one in (scene, roomier):
        assert len(list(one.live(range(5), lambda rounds: None, Event()))) == 5
    small, large = held_by
    assert sizes == [5, 5]  # there is room enough
    assert large > 3 * small
    sizes.clear()
    monkeypatch.setattr(engine, "free_memory", lambda: 2.5 * small / engine.SHARE)
    assert [one.seed for one in scene.live(range(5), lambda rounds: None, Event())] == [0, 1, 2, 3, 4]
    assert sizes == [2, 2, 1]
    sizes.clear()
    assert [one.seed for one in roomier.live(range(3), lambda rounds: None, Event())] == [0, 1, 2]
    assert sizes == [1, 1, 1]


def test_the_memory_that_is_free_is_asked_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_memory_info=lambda: (3 * 10**9, 8 * 10**9))  # free, and in all
    monkeypatch.setattr(engine, "numba_cuda", lambda: SimpleNamespace(current_context=lambda: context))
    assert engine.free_memory() == 3e9


@pytest.fixture(scope="module")
def brink() -> int:
    """How many costs of 0, after 100 of 1, leave no cost that both agree with; one less does."""
    problem, n = free_of_cost().problem, 0
    policy = on_the_brink(problem, 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.Contradiction)
        while not policy.contradicted:
            n += 1
            for arm in range(problem.n_arms):
                policy.observe(arm, [0.0])
    return n


def free_of_cost() -> sf.Scenario:
    problem = sf.Problem(2, [0.5], ROUNDS)
    costs = sf.costs.Bernoulli([[0.0, 0.0]])
    return sf.Scenario("free-v1", problem, sf.losses.Bernoulli([0.2, 0.5]), costs, random="counter")


def on_the_brink(problem: sf.Problem, seed: int, n: int) -> sf.COLB:
    policy = sf.COLB(problem, seed)
    for cost in (*[1.0] * 100, *[0.0] * n):
        for arm in range(problem.n_arms):
            policy.observe(arm, [cost])
    return policy


@pytest.mark.parametrize("quiet", [False, True])
def test_contradictions_are_told_once_with_their_number(brink: int, quiet: bool) -> None:
    """Runs 1 and 3 of five have seen costs of 1, and see costs of 0 on the device."""
    scenario, strange = free_of_cost(), {policy_seed(1), policy_seed(3)}

    def made(problem: sf.Problem, seed: int) -> sf.COLB:
        policy = on_the_brink(problem, seed, brink - 1) if seed in strange else sf.COLB(problem, seed)
        assert not policy.contradicted
        policy.quiet = quiet
        return policy

    scene = engine.Scene(Stage(scenario, [ROUNDS]), "strange", made)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        list(scene.live(range(5), lambda rounds: None, Event()))
    told = [str(one.message) for one in said if one.category is sf.Contradiction]
    sentence = "strange has found a lower bound on a cost above its upper bound in 2 of 5 runs: "
    assert [one.startswith(sentence) for one in told] == ([] if quiet else [True])


def test_runs_without_a_contradiction_say_nothing() -> None:
    scene = engine.Scene(Stage(free_of_cost(), [ROUNDS]), "colb", sf.COLB)
    with warnings.catch_warnings():
        warnings.simplefilter("error", sf.Contradiction)
        assert len(list(scene.live(range(3), lambda rounds: None, Event()))) == 3


def test_a_run_is_resumed_and_told_apart(tmp_path: Path) -> None:
    policies = {"paper": PAPER}
    first = lived(world(), policies, "cuda", 2, folder=tmp_path)
    assert first.provenance["simulations"][0]["engine"] == "cuda"
    before = {path.name for path in tmp_path.glob("parts/*/*")}
    more = lived(world(), policies, "cuda", 3, folder=tmp_path)
    assert before < {path.name for path in tmp_path.glob("parts/*/*")}
    assert more.table.slice(0, first.table.num_rows).equals(first.table)
    with pytest.raises(ValueError, match=r"engine must be that of the earlier run.* 2 of its parts were made on a GPU"):
        lived(world(), policies, "threads", 3, folder=tmp_path)
    assert lived(world(), policies, "cuda", 3, folder=tmp_path).table.equals(more.table)


def test_a_run_of_the_processor_is_not_continued(tmp_path: Path) -> None:
    policies = {"paper": PAPER}
    lived(world(), policies, "threads", 2, folder=tmp_path)
    before = sorted(tmp_path.glob("parts/*/*"))
    with pytest.raises(ValueError, match="parts were made on a processor"):
        lived(world(), policies, "cuda", 3, folder=tmp_path)
    assert sorted(tmp_path.glob("parts/*/*")) == before


def test_it_stops_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FIRST", 5)
    monkeypatch.setattr(engine, "SECONDS", 0.0)
    scene = engine.Scene(Stage(world(), [ROUNDS]), "paper", PAPER)
    stop, heard = Event(), []  # type: Event, list[int]

    def advance(rounds: int) -> None:
        heard.append(rounds)
        if len(heard) == 2:
            stop.set()

    with pytest.raises(Stopped):
        list(scene.live(range(2), advance, stop))
    assert heard == [10, 10]
    stuck = engine.Scene(Stage(world("three-arms-v1"), [ROUNDS]), "surprised", surprised)
    with pytest.raises(Stopped):  # it is heard between two recoveries, too
        list(stuck.live(range(2), heard.append, stop))
    assert heard == [10, 10]


class InPython:
    """A policy of one's own."""

    def __init__(self, problem: sf.Problem, seed: int) -> None:
        self.strategy = np.full(problem.n_arms, 1 / problem.n_arms)

    def ask(self) -> tuple[int, float]:
        return 0, float(self.strategy[0])

    def tell(self, decision: Any, loss: float, costs: Any) -> None:
        pass


def tabled() -> sf.Scenario:
    """Losses that are told by the costs."""
    problem, costs = sf.Problem(2, [0.5], ROUNDS), sf.costs.Bernoulli([[0.1, 0.6]])
    return sf.Scenario("table-v1", problem, sf.losses.OfSuccess([0.2, 0.8]), costs, random="counter")


def correlated(n_arms: int, m: int, costs: Any) -> sf.Scenario:
    concentration = (5.0,) if costs is sf.costs.Beta else ()
    drawn = costs(np.full((m, n_arms), 0.3), *concentration, correlation=0.5)
    losses = sf.losses.Bernoulli(np.full(n_arms, 0.5))
    return sf.Scenario("correlated-v1", sf.Problem(n_arms, [0.5] * m, ROUNDS), losses, drawn, random="counter")


@pytest.mark.parametrize(
    ("scenario", "policy", "lacking"),
    [
        (world().drawn_by("numpy"), sf.SOLB, "needs random='counter'"),
        (world("late-misses-v1"), sf.SOLB, "a scenario in which feedback comes at once"),
        (tabled(), sf.COLB, "losses that are drawn by counter"),
        (correlated(3, 2, sf.costs.Beta), sf.COLB, "costs that are drawn by counter"),
        (correlated(12, 12, sf.costs.Bernoulli), sf.COLB, "a safe set with few enough vertices to list them"),
        (world(), InPython, "policies and adversaries in compiled code"),
        (world(), sf.ThompsonSampling, "policies that draw no random numbers of their own"),
    ],
)
def test_refused(scenario: sf.Scenario, policy: Any, lacking: str) -> None:
    with pytest.raises(ValueError, match=rf"engine must be 'threads' or 'dask' for one in .*{lacking}"):
        lived(scenario, {"one": policy}, "cuda")


def test_policies_that_differ_by_their_seed_are_made_one_by_one() -> None:
    def by_seed(problem: sf.Problem, seed: int) -> sf.SOLB:
        return sf.SOLB(problem, seed, preset="paper", learning_rate=0.01 * (1 + seed % 7))

    assert not engine.alike(by_seed)
    assert engine.alike(sf.SOLB)
    assert engine.alike(PAPER)
    there, here = (lived(world(), {"own": by_seed}, on, 4).table for on in ("cuda", "threads"))
    assert equal(there, here)
