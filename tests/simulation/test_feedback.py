"""Rehearsals: policies in worlds whose feedback is late, lost or repeated, and whose costs change."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import surefoot as sf
from surefoot.environments.feedback import DRAWS
from surefoot.kernels.queue import Waiting
from surefoot.policies import REGISTRY
from surefoot.rules import Floats
from surefoot.simulation.episode import empty_queue
from surefoot.simulation.study import Study, StudyError
from surefoot.simulation.world import Streams, World, policy_seed, streams
from tests.environments.chance import ALARM
from tests.reference.queue import Rehearsal
from tests.simulation.players import Disguised, quick

pytestmark = [
    pytest.mark.filterwarnings("ignore:the margin"),
    pytest.mark.filterwarnings("ignore::surefoot.Contradiction"),
    pytest.mark.filterwarnings("ignore:learning_rate"),
]

Factory = Callable[[sf.Problem, int], Any]
FEEDBACKS = {
    "fixed": sf.Feedback(7),
    "late misses": sf.Feedback(bad={"delay": 30}),
    "random, lost, repeated": sf.Feedback({"geometric": 6}, 0.1, 0.5, bad={"lost": 0.4}, timeout=15),
    "lost at once": sf.Feedback(lost=0.3, timeout=0),
    "naive": sf.Feedback({"uniform": [0, 12]}, bad={"lost": 0.3}, repeated=0.5, timeout=12, handling="arrival"),
    "naive, many times": sf.Feedback(repeated=3, handling="arrival"),
}


class InTurn(sf.SOLB):
    """A policy that is learnt in Python, round by round."""

    _in_turn: ClassVar[bool] = True


POLICIES: dict[str, Factory] = {
    "solb": sf.SOLB, "solb, paper": quick(sf.SOLB), "colb, paper": quick(sf.COLB), "thompson": sf.ThompsonSampling,
    "exp3": sf.Exp3, "in turn": InTurn,
}  # fmt: skip


def scenario_with(feedback: sf.Feedback | None, id: str = "interior-safe-v1", horizon: int = 400) -> sf.Scenario:
    return sf.Scenario(**{**vars(sf.scenarios.make(id, horizon=horizon)), "feedback": feedback})


def misleading(feedback: sf.Feedback) -> sf.Scenario:
    """Costs are all 1 at first and 0 ever after, so that safe sets become empty."""
    horizon = 2_000
    costs = np.zeros((horizon, 1, 2))
    costs[:200] = 1.0
    problem = sf.Problem(2, [0.15], horizon, 0.9, sf.SafeStrategy([0.5, 0.5], [0.1]))
    losses = sf.losses.Fixed(np.random.default_rng(4).random((horizon, 2)))
    return sf.Scenario("misleading", problem, losses, sf.costs.Fixed(costs), feedback=feedback)


def witnessed(scenario: sf.Scenario, make: Factory, seed: int = 3) -> tuple[Any, Any, Floats, Floats]:
    """A policy by blocks, one by its slow twin; the strategies of both."""
    problem, feedback = scenario.problem, scenario.feedback
    assert feedback is not None
    world, horizon = World(scenario, seed), problem.rounds
    losses, costs = next(world.blocks(horizon))
    assert len(losses) == horizon
    fates = world.fates(horizon)
    assert fates is not None
    fast, slow = (make(problem, policy_seed(seed)) for _ in range(2))
    queue, strategies, weights = empty_queue(problem, feedback), np.empty((horizon, problem.n_arms)), np.empty(horizon)
    for begin, end in zip([0, 1, 150], [1, 150, horizon]):
        cut = slice(begin, end)
        fast.live_waiting(losses[cut], costs[cut], strategies[cut], weights[cut], Waiting(queue, fates[cut]))
    twin, seen = Rehearsal(slow, horizon, feedback.timeout, feedback.handling, feedback.level), []
    for t in range(horizon):
        seen.append(slow.strategy)
        twin.round(losses[t], costs[t], fates[t].tolist())
    assert (len(twin.waiting), twin.lost, twin.told) == (queue.pending[0], queue.lost[0], queue.learnt[0])
    return fast, slow, strategies, np.array(seen)


def same(one: Any, two: Any) -> bool:
    """Whether two policies are in the same state; decisions that wait are not in that of a block."""
    told = [{name: policy.to_dict()[name] for name in ("round", "generator", "state")} for policy in (one, two)]
    return bool(told[0] == told[1])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", FEEDBACKS)
def test_blocks_equal_the_slow_twin_bit_for_bit(name: str, policy: str) -> None:
    fast, slow, strategies, seen = witnessed(scenario_with(FEEDBACKS[name]), POLICIES[policy])
    assert (strategies == seen).all()
    assert same(fast, slow)
    assert 0 < fast.round <= 400
    if name == "naive, many times":
        assert fast.round == 400  # it was told as often as its horizon allows


@pytest.mark.parametrize("policy", ["solb, paper", "colb, paper"])
@pytest.mark.parametrize("name", ["fixed", "random, lost, repeated", "naive"])
def test_empty_safe_sets_in_the_middle_of_a_round_do_not_matter(name: str, policy: str) -> None:
    fast, slow, strategies, seen = witnessed(misleading(FEEDBACKS[name]), POLICIES[policy])
    assert (strategies == seen).all()
    assert same(fast, slow)
    assert fast.empty_rounds > 0  # else this would not test what happens then


def doors() -> dict[Any, Factory]:
    """A policy of the registry for each way to generate the compiled loop."""
    found: dict[Any, Factory] = {}
    problem, truth = scenario_with(None).problem, scenario_with(None).mean_costs
    for name, cls in REGISTRY.items():
        known = "mean_costs" in inspect.signature(cls).parameters
        make = partial(cls, mean_costs=truth) if known else cls
        algorithm = make(problem, 0).algorithm
        found[name if algorithm.update is None else (algorithm.random, algorithm._reaction)] = make
    return found


def test_every_way_to_generate_the_loop_equals_the_slow_twin() -> None:
    assert len(doors()) >= 4
    for make in doors().values():
        fast, slow, strategies, seen = witnessed(scenario_with(FEEDBACKS["random, lost, repeated"]), make)
        assert (strategies == seen).all()
        assert same(fast, slow)


def test_the_order_in_which_feedback_is_learnt_matters() -> None:
    # the control of the tests above: what a naive loop learns is something else
    kept = FEEDBACKS["random, lost, repeated"].to_dict()
    runs = [
        witnessed(scenario_with(sf.Feedback.from_dict({**kept, "handling": handling})), sf.SOLB)[2]
        for handling in ("live", "arrival")
    ]
    assert (runs[0] != runs[1]).any()


def test_fates_of_other_rounds_are_refused() -> None:
    scenario = scenario_with(FEEDBACKS["fixed"])
    assert scenario.feedback is not None
    policy, queue = sf.Exp3(scenario.problem, 1), empty_queue(scenario.problem, scenario.feedback)
    block = np.zeros((3, 4)), np.zeros((3, 2, 4)), np.empty((3, 4)), np.empty(3)
    with pytest.raises(
        sf.RuleError, match=r"^waiting.fates must be an array of shape \(3, 2, 2\), got one of shape \(2"
    ):
        policy.live_waiting(*block, Waiting(queue, np.zeros((2, 2, 2), np.int64)))
    assert policy.round == queue.round[0] == 0


# Through `simulate`


def simulated(scenario: sf.Scenario, policies: Any, seeds: int = 2) -> pa.Table:
    checkpoints = [1, 50, 333, scenario.problem.rounds]
    return sf.simulate(scenario, policies, seeds, checkpoints, 1).table


WAITING = ["pending", "lost"]


@pytest.mark.parametrize("handling", ["live", "arrival"])
@pytest.mark.parametrize("id", ["interior-safe-v1", "adaptive-v1"])
def test_feedback_at_once_is_what_it_always_was(id: str, handling: str) -> None:
    plain = simulated(scenario_with(None, id), POLICIES)
    at_once = simulated(scenario_with(sf.Feedback(timeout=9, handling=handling), id), POLICIES)
    assert at_once.drop_columns(WAITING).equals(plain.drop_columns(WAITING))
    assert set(plain.column("pending").to_pylist() + plain.column("lost").to_pylist()) == {None}
    assert set(at_once.column("pending").to_pylist() + at_once.column("lost").to_pylist()) == {0}
    late = simulated(scenario_with(sf.Feedback(3, handling=handling), id), POLICIES)
    assert not late.drop_columns(WAITING).equals(plain.drop_columns(WAITING))  # the control


def test_a_further_stream_leaves_the_others_as_they_were() -> None:
    before = np.random.SeedSequence(5).spawn(3)
    now = streams(5)
    assert Streams._fields[:3] == ("losses", "costs", "policy")
    for old, new in zip(before, now):
        assert (old.generate_state(8) == new.generate_state(8)).all()
    assert len({tuple(one.generate_state(8)) for one in now}) == 4
    plain, late = World(scenario_with(None), 5), World(scenario_with(FEEDBACKS["naive"]), 5)
    drawn = np.random.Generator(np.random.PCG64(now.feedback)).random((100, DRAWS))
    assert np.array_equal(np.asarray(late.fates(100)), FEEDBACKS["naive"].fates(drawn))
    for one, two in zip(plain.blocks(400), late.blocks(400), strict=True):
        assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert plain.fates(100) is None


def test_where_blocks_are_cut_does_not_matter() -> None:
    scenario = scenario_with(FEEDBACKS["random, lost, repeated"])
    whole, world = World(scenario, 3).fates(400), World(scenario, 3)
    assert whole is not None
    assert (np.concatenate([world.fates(n) for n in (1, 150, 249)]) == whole).all()


@pytest.mark.parametrize("id", ["interior-safe-v1", "adaptive-v1"])
@pytest.mark.parametrize("name", FEEDBACKS)
def test_asking_and_telling_is_the_same(name: str, id: str) -> None:
    scenario = scenario_with(FEEDBACKS[name], id)
    make = quick(sf.SOLB)
    by_block = simulated(scenario, {"one": make})
    by_round = simulated(scenario, {"one": lambda problem, seed: Disguised(make(problem, seed))})
    assert by_block.num_rows == 8
    assert by_block.equals(by_round)


def test_other_policies_checkpoints_and_workers_do_not_matter() -> None:
    scenario = scenario_with(FEEDBACKS["random, lost, repeated"])
    table = simulated(scenario, POLICIES).drop_columns(["allocation"])
    for options in ({"workers": 2}, {"checkpoints": [49, 50, 400]}):
        given: Any = {"seeds": 2, "checkpoints": [50, 400], "workers": 1, **options}
        other = sf.simulate(scenario, {"exp3": sf.Exp3, "solb": sf.SOLB}, **given).table.drop_columns(["allocation"])
        for row in other.to_pylist():
            if row["round"] != 49:
                assert row in table.to_pylist()


def test_what_waits_and_what_was_lost_is_in_the_table() -> None:
    table = simulated(scenario_with(sf.Feedback(100, timeout=200)), {"solb": sf.SOLB})
    assert table.column("pending").to_pylist() == [1, 50, 100, 100] * 2
    assert table.column("lost").to_pylist() == [0.0] * 8
    table = simulated(scenario_with(sf.Feedback(lost=1.0, timeout=50)), {"solb": sf.SOLB})
    assert table.column("pending").to_pylist() == [1, 50, 50, 50] * 2
    assert table.column("lost").to_pylist() == [0.0, 0.0, 283 / 333, 350 / 400] * 2


def test_a_policy_from_outside_is_told_its_own_decisions() -> None:
    seen: list[tuple[Any, float]] = []

    class Numbered:
        strategy = np.full(4, 0.25)

        def __init__(self) -> None:
            self.asked, self.rng = -1, np.random.default_rng(1)

        def ask(self) -> tuple[int, str]:
            self.asked += 1
            return int(self.rng.integers(4)), f"decision {self.asked}"

        def tell(self, decision: Any, loss: float, costs: Any) -> None:
            seen.append((decision, loss))

    scenario = scenario_with(sf.Feedback(5, timeout=9))
    sf.simulate(scenario, {"mine": lambda problem, seed: Numbered()}, 1, [400], 1)
    assert [decision[1] for decision, _ in seen] == [f"decision {t}" for t in range(395)]
    losses, _ = next(World(scenario, 0).blocks(400))
    assert [loss for _, loss in seen] == [losses[t, decision[0]] for t, (decision, _) in enumerate(seen)]


# The worlds in which a naive loop breaks the guarantee. Handled live, a run may break a guardrail with probability
# delta = 0.05: of 40 runs more than UNSAFE do so with probability below ALARM, the false-alarm rate of each test.

RUNS, DELTA = 40, 0.05
UNSAFE = int(stats.binom.isf(ALARM, RUNS, DELTA))
WORLDS = {
    "late-misses-v1": 40,  # runs that a naive loop makes unsafe, at the least
    "lost-misses-v1": 40,
    "repeated-v1": UNSAFE + 6,
}


def unsafe_rounds(scenario: sf.Scenario) -> Floats:
    run = sf.simulate(scenario, {"solb": sf.SOLB}, RUNS, [scenario.problem.rounds], 1)
    return np.array(run.final().column("rounds_in_violation").to_pylist())


@pytest.mark.parametrize("id", WORLDS)
def test_in_order_with_time_outs_and_once_every_run_is_safe(id: str) -> None:
    assert (unsafe_rounds(sf.scenarios.make(id)) > 0).sum() <= UNSAFE


@pytest.mark.parametrize("id", WORLDS)
def test_as_it_arrives_it_is_not(id: str) -> None:
    rounds = unsafe_rounds(sf.scenarios.make(id, handling="arrival"))
    assert (rounds > 0).sum() >= WORLDS[id] > UNSAFE
    if id == "lost-misses-v1":
        assert np.median(rounds) > 0.9 * 20_000


# Costs that change


def test_rounds_are_judged_by_the_costs_of_that_round() -> None:
    problem = sf.Problem(2, [0.3], 1_000, safe=sf.SafeStrategy([0.0, 1.0], [0.1]))
    means = [[[0.5, 0.1]], [[0.1, 0.1]], [[0.9, 0.1]]]
    drifted = sum(0.1 + 0.4 * t / 999 - 0.3 for t in range(500, 1_000))
    for costs, over, violation in (
        (sf.costs.Switching(means, [100, 700]), 100 + 300, 100 * 0.2 + 300 * 0.6),
        (sf.costs.Drifting([[0.1, 0.1]], [[0.5, 0.1]]), 500, drifted),
    ):
        scenario = sf.Scenario("changing", problem, sf.losses.Fixed([0.1, 0.9]), costs)
        bold: Factory = lambda problem, seed: Bold()  # noqa: E731
        for checkpoints in ([1_000], [1, 99, 100, 101, 700, 1_000], list(range(1, 1_001))):
            final = sf.simulate(scenario, {"bold": bold}, 1, checkpoints, 1).final()
            assert final.column("rounds_in_violation").to_pylist() == [over]
            assert final.column("violation").to_pylist() == [pytest.approx(violation, abs=1e-9)]


class Bold:
    """Plays the first of two arms for ever."""

    strategy = np.array([1.0, 0.0])

    def ask(self) -> tuple[int, float]:
        return 0, 1.0

    def tell(self, decision: Any, loss: float, costs: Any) -> None:
        """Learn nothing."""


def test_the_benchmark_is_safe_in_every_phase() -> None:
    # arms that change places: half of each is safe in both phases, although each has a phase in which it is not
    problem = sf.Problem(3, [0.3], 600, safe=sf.SafeStrategy([0, 0, 1], [0.1]))
    means = [[[0.1, 0.5, 0.1]], [[0.5, 0.1, 0.1]]]
    for costs in (sf.costs.Switching(means, 300), sf.costs.Drifting(means[0], means[1])):
        scenario = sf.Scenario("places", problem, sf.losses.Fixed([0.2, 0.2, 0.9]), costs)
        (row,) = sf.simulate(scenario, {"solb": sf.SOLB}, 1, [600], 1).table.to_pylist()
        assert row["benchmark"] == pytest.approx([0.5, 0.5, 0.0])
        assert row["bandit_complexity"] == pytest.approx(0.2 * 600)
        assert (row["clean"], row["benchmark_kept"]) == (None, None)  # there is no one cost to be within the bounds
        assert scenario.mean_costs.tolist() == [[0.5, 0.5, 0.1]]


def test_costs_that_no_strategy_can_meet_in_every_phase_are_refused() -> None:
    problem = sf.Problem(2, [0.3], 600)
    costs = sf.costs.Switching([[[0.1, 0.5]], [[0.9, 0.5]]], 300)
    scenario = sf.Scenario("hopeless", problem, sf.losses.Fixed([0.2, 0.9]), costs)
    with pytest.raises(sf.Infeasible):
        sf.simulate(scenario, {"colb": sf.COLB}, 1, [600], 1)


def test_a_jump_breaks_the_guardrail_until_the_bounds_contradict_each_other() -> None:
    """Seeded. Each run plays the better arm alone before the jump, and it then costs more than twice the limit.

    Then bounds begin again: the arm is played as often as it may be at its new cost, and no guardrail breaks.
    """
    run = sf.simulate(sf.scenarios.make("jump-v1"), {"solb": sf.SOLB}, 5, [10_000, 12_000, 20_000], 1)
    before, found, after = (
        run.table.filter(pa.compute.equal(run.table["round"], at)) for at in (10_000, 12_000, 20_000)
    )
    assert before.column("rounds_in_violation").to_pylist() == [0] * 5
    assert all(100 < rounds < 1_000 for rounds in found.column("rounds_in_violation").to_pylist())
    assert after.column("rounds_in_violation") == found.column("rounds_in_violation")
    assert all(0.6 < weight < 0.7 for weight in after.column("safe_weight").to_pylist())


# Studies

STUDY = """
seeds = 1
horizon = 300
checkpoints = [300]
policies = [{policy = "colb"}]

[[scenarios]]
id = "late-misses-v1"
handling = "arrival"

[[scenarios]]
id = "stochastic-v1"
name = "late"
feedback = {delay = {geometric = 20}, bad = {lost = 0.4}, timeout = 100}

[[scenarios]]
table = "arms.csv"
thresholds = 0.5

[scenarios.feedback]
delay = 7
"""


def test_a_study_may_say_how_feedback_comes(tmp_path: Path) -> None:
    (tmp_path / "arms.csv").write_text("arm,success_rate,value\n0,0.9,0.2\n1,0.4,0.8\n")
    study = Study.parse(STUDY, tmp_path, "study.toml")
    scenarios = [simulation.plan.scenario for simulation in study.simulations]
    assert [scenario.id for scenario in scenarios] == ["late-misses-v1", "late", "arms"]
    assert [scenario.feedback for scenario in scenarios] == [
        sf.Feedback(bad={"delay": 100}, handling="arrival"),
        sf.Feedback({"geometric": 20}, bad={"lost": 0.4}, timeout=100),
        sf.Feedback(7),
    ]
    run = study.run(tmp_path / "results", workers=1)
    kept = sf.Run.load(tmp_path / "results")
    assert kept.table.equals(run.table)
    assert kept.provenance["simulations"][2]["scenario"]["feedback"] == sf.Feedback(7).to_dict()
    assert run.table.column("pending").to_pylist()[2] == 7


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        ("3", "scenarios[0].feedback must be a table, got 3"),
        ("{dealy = 3}", "scenarios[0].feedback.dealy must be one of the options of feedback (delay, lost, repeated, "
         "good, bad, level, timeout, handling), got 'dealy' (did you mean delay?)"),
        ("{lost = 0.5}", "scenarios[0].feedback.timeout must be given where feedback may be lost"),
        ("{bad = {lost = 2}, timeout = 3}", "scenarios[0].feedback.bad.lost must be in [0, 1], got 2"),
    ],
)  # fmt: skip
def test_mistakes_in_a_study_are_told(feedback: str, message: str, tmp_path: Path) -> None:
    text = f'policies = [{{policy = "colb"}}]\n[[scenarios]]\nid = "stochastic-v1"\nfeedback = {feedback}\n'
    with pytest.raises(StudyError) as error:
        Study.parse(text, tmp_path, "study.toml")
    assert str(error.value).startswith(message)


def test_an_earlier_run_with_other_feedback_is_not_reused() -> None:
    make = {"colb": sf.COLB}
    run = sf.simulate(scenario_with(sf.Feedback(3)), make, 1, [400], 1)
    with pytest.warns(UserWarning, match="not reused, because its scenario changed"):
        sf.simulate(scenario_with(sf.Feedback(4)), make, 1, [400], 1, resume=run)


def test_a_report_can_be_written(tmp_path: Path) -> None:
    runs = [sf.simulate(scenario, {"solb": sf.SOLB}, 2, [10, 300], 1) for scenario in (
        scenario_with(FEEDBACKS["naive"], "three-arms-v1", 300), sf.scenarios.make("drifting-costs-v1", horizon=300),
    )]  # fmt: skip
    sf.write_report(sf.Run.joined(runs, title="Rehearsal"), tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000
