"""What users bring themselves, policies and models, is held to the same rules as what is built in."""

from __future__ import annotations

import json
from threading import Event
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import surefoot as sf
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import saved
from surefoot.rules import SHARE, Floats
from surefoot.simulation.simulate import Options, Simulation, carried_out, prepared
from surefoot.simulation.tasks import Task
from surefoot.simulation.world import policy_seed

PROBLEM = sf.Problem(3, [0.5], 200)
SCENARIO = sf.Scenario("mine-v1", PROBLEM, sf.losses.Bernoulli([0.2, 0.5, 0.9]), sf.costs.Bernoulli([[0.9, 0.4, 0.1]]))


@pytest.mark.parametrize("other", [sf.Problem(2, [0.5], 200), sf.Problem(300, [0.5] * 4, 300), sf.Problem(3, [], 200)])
def test_a_policy_for_another_problem_is_refused(other: sf.Problem) -> None:
    with pytest.raises(ValueError, match=r"must be made for the problem it is given, got"):
        sf.simulate(SCENARIO, {"a": lambda problem, seed: sf.COLB(other, seed)}, 1, workers=1)


def test_blocks_of_other_shapes_are_refused_and_change_nothing() -> None:
    policy = sf.COLB(PROBLEM, 1)
    before = policy.to_dict()
    good = np.zeros((4, 3)), np.zeros((4, 1, 3)), np.empty((4, 3)), np.empty(4)
    wrong = np.zeros((4, 2)), np.zeros((4, 2, 3)), np.empty((3, 3)), np.empty(5)
    for place, name in enumerate(("losses", "costs", "strategies", "safe_weights")):
        block = [wrong[place] if i == place else part for i, part in enumerate(good)]
        with pytest.raises(ValueError, match=rf"^{name} must be an array of shape"):
            policy.live(*block)
    assert policy.to_dict() == before


class Forgetful(sf.losses.Losses):
    """Returns the losses instead of writing them."""

    n_arms = 3

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> Any:
        return rng.random(out.shape)


class ForgetfulAdversary(sf.losses.Adversary):
    n_arms = 3

    def respond(self, out: Floats, seen: sf.losses.Seen, rng: np.random.Generator) -> Any:
        return rng.random(3)


class ForgetfulCosts(sf.costs.Costs):
    means: Any = np.full((1, 3), 0.5)

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        out[::2] = 0.5


@pytest.mark.parametrize("losses", [Forgetful(), ForgetfulAdversary()])
def test_losses_that_were_not_written_are_refused(losses: Any) -> None:
    scenario = sf.Scenario("forgetful-v1", PROBLEM, losses, SCENARIO.costs)
    with pytest.raises(ValueError, match=r"^losses.* must be in \[0, 1\], got"):
        sf.simulate(scenario, {"colb": sf.COLB}, 1, workers=1)


def test_costs_that_were_not_written_are_refused() -> None:
    scenario = sf.Scenario("forgetful-v1", PROBLEM, SCENARIO.losses, ForgetfulCosts())
    with pytest.raises(ValueError, match=r"^costs.* must be in \[0, 1\], got nan"):
        sf.simulate(scenario, {"colb": sf.COLB}, 1, workers=1)


class MeddlingAdversary(sf.losses.Adversary):
    n_arms = 3

    def respond(self, out: Floats, seen: sf.losses.Seen, rng: np.random.Generator) -> None:
        seen.counts[0] = 99


def test_an_adversary_cannot_change_what_it_sees() -> None:
    scenario = sf.Scenario("meddling-v1", PROBLEM, MeddlingAdversary(), SCENARIO.costs)
    with pytest.raises(ValueError, match="read-only"):
        sf.simulate(scenario, {"colb": sf.COLB}, 1, workers=1)


class Odd(NamedTuple):
    strategy: Annotated[Floats, saved("K", rule=SHARE)]
    safe_weight: Annotated[Floats, saved(1, rule=SHARE)]
    scores: Annotated[Floats, saved("K")]  # a name that the package uses for what it need not save


class Outsider(sf.Policy[Odd]):
    name: ClassVar[str] = "outsider"
    kind: ClassVar[str] = "none"
    algorithm = Algorithm(Odd)

    def __init__(self, problem: sf.Problem, seed: int | None = None) -> None:
        super().__init__(problem, seed)

    def _start(self, state: Any) -> None:
        state.strategy = 1 / self.problem.n_arms

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        self._state.scores[arm] -= loss
        weights = np.exp(0.1 * self._state.scores)
        self._state.strategy[:] = weights / weights.sum()


def test_the_whole_state_of_an_outside_policy_is_saved() -> None:
    policy = Outsider(PROBLEM, 1)
    for _ in range(20):
        policy.tell(policy.ask(), 0.5, [0.5])
    restored = Outsider.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert restored.to_dict() == policy.to_dict()
    assert (restored.strategy == policy.strategy).all()
    assert restored.ask() == policy.ask()


class NoStrategy(Outsider):
    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        self._state.strategy[:] = [2.0, -1.0, 0.0]


class NoWeight(Outsider):
    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        self._state.safe_weight[0] = 0.5  # of a safe strategy that there is not


def test_outside_policies_are_watched() -> None:
    with pytest.raises(ValueError, match=r"^strategy of it must be 3 shares that sum to 1, got"):
        sf.simulate(SCENARIO, {"it": NoStrategy}, 1, workers=1)
    with pytest.raises(ValueError, match=r"^safe_weight of it must be 0 where there is no safe strategy, got 0.5"):
        sf.simulate(SCENARIO, {"it": NoWeight}, 1, workers=1)


class Level(sf.losses.Losses):
    n_arms = 3
    level = 0.1

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        out[...] = self.level


def test_a_model_that_has_changed_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(resume: sf.Run | None = None) -> sf.Run:
        return sf.simulate(
            sf.Scenario("level-v1", PROBLEM, Level(), SCENARIO.costs), {"c": sf.COLB}, 1, workers=1, resume=resume
        )

    before = run()
    monkeypatch.setattr(Level, "level", 0.9)
    with pytest.warns(UserWarning, match="^the earlier run of level-v1 is not reused, because its scenario changed$"):
        after = run(before)
    assert after.final().column("loss")[0].as_py() == pytest.approx(180)
    assert before.final().column("loss")[0].as_py() == pytest.approx(20)


def test_costs_without_proper_means_are_refused() -> None:
    class Listed(ForgetfulCosts):
        means = [[0.1, 0.2, 0.3]]  # noqa: RUF012

    class Wild(ForgetfulCosts):
        means = np.full((1, 3), 1.5)

    for costs in (Listed(), Wild()):
        with pytest.raises(ValueError, match=r"means.* must .*, got"):
            sf.Scenario("x-v1", PROBLEM, SCENARIO.losses, costs)


def test_a_run_is_told_in_a_line() -> None:
    run = sf.simulate(SCENARIO, {"colb": sf.COLB}, 2, [200], workers=1)
    assert repr(run) == "Run of mine-v1 (colb): 2 rows"


class Breaks(Outsider):
    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        raise RuntimeError("broken")


def test_what_is_finished_is_kept_when_a_policy_breaks() -> None:
    # one worker: the seeds come one after the other, and the second is the one that breaks
    seen: list[int] = []

    def sometimes(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
        seen.append(seed)
        return Breaks(problem, seed) if len(seen) == 3 else Outsider(problem, seed)

    simulation = Simulation(prepared(SCENARIO, {"it": sometimes}, 2, [200]))
    with pytest.raises(RuntimeError, match="broken"):
        carried_out([simulation], Options.checked(workers=1))
    assert simulation.run().table.num_rows == 1


def test_a_factory_may_make_policies_of_different_kinds() -> None:
    """Compiled, from outside, and without a proposal: each seed has the rows that it has alone."""
    kinds = {policy_seed(0): sf.COLB, policy_seed(1): sf.EpsilonGreedy, policy_seed(2): Outsider}

    def made(problem: sf.Problem, seed: int) -> Any:
        return kinds.get(seed, sf.COLB)(problem, seed)

    def column(run: sf.Run, name: str) -> list[Any]:
        return list(run.table.column(name).to_pylist())

    simulation = Simulation(prepared(SCENARIO, {"a": made}, 3, [50, 200]))
    result = simulation.work.do(Task(0, ("a",), [0, 1, 2], 600), lambda rounds: None, Event())  # all in one task
    assert result.error is None
    together = parquet.read_table(pa.BufferReader(result.content))
    assert [value is None for value in together.column("proposal").to_pylist()] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    for seed, cls in enumerate(kinds.values()):
        alone = sf.simulate(SCENARIO, {"a": cls}, [seed], [50, 200], workers=1)
        for name in ("strategy", "proposal", "safe_weight", "empty_rounds", "clean", "benchmark_kept", "regret"):
            assert together.column(name).to_pylist()[2 * seed : 2 * seed + 2] == column(alone, name), (name, cls)
