import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import surefoot as sf
from surefoot.environments.losses import Adversary, Seen
from surefoot.rules import Floats
from surefoot.simulation.run import SCHEMA
from surefoot.simulation.world import World, policy_seed
from tests.simulation.players import always, quick

# A slow twin: it keeps every strategy, and makes each account from the definition of what is in it.

HORIZON = 400
CHECKPOINTS = [1, 7, 150, HORIZON]
Factory = Callable[[sf.Problem, int], Any]


class Round(NamedTuple):
    losses: list[float]
    strategy: list[float]
    proposal: list[float]
    safe_weight: float


def dot(one: Any, two: Any) -> float:
    return math.fsum(a * b for a, b in zip(one, two, strict=True))


def play(scenario: sf.Scenario, make: Factory, seed: int) -> list[tuple[list[Round], Any]]:
    """The history up to each checkpoint, and what the policy shows there."""
    problem, world = scenario.problem, World(scenario, seed)
    policy, counts = make(problem, policy_seed(seed)), np.zeros(problem.n_arms)
    history: list[Round] = []
    stops = []
    for losses, costs in world.blocks(problem.rounds):
        for now, price in zip(losses, costs, strict=True):
            if isinstance(scenario.losses, Adversary):
                scenario.losses.respond(
                    now, Seen(len(history), problem.rounds, policy.strategy, counts), world.loss_generator
                )
            history.append(
                Round(now.tolist(), policy.strategy.tolist(), policy.proposal.tolist(), float(policy.safe_weight))
            )
            decision = policy.ask()
            policy.tell(decision, float(now[decision.arm]), price[:, decision.arm].tolist())
            counts[decision.arm] += 1
            if len(history) in CHECKPOINTS:
                shown = {
                    "safe_weight": policy.safe_weight,
                    "empty_rounds": policy.empty_rounds,
                    "pending": None,
                    "lost": None,
                    "strategy": policy.strategy.tolist(),
                    "proposal": policy.proposal.tolist(),
                    "lower_costs": policy.lower_costs.ravel().tolist() if problem.n_arms == 3 else None,
                }
                stops.append((list(history), shown))
    return stops


def account(scenario: sf.Scenario, history: list[Round], since: int, best: list[float]) -> dict[str, Any]:
    """Every column that is a sum over the history, against the benchmark x*."""
    problem, arms = scenario.problem, range(scenario.problem.n_arms)
    safe = [0.0 for _ in arms] if problem.safe is None else problem.safe.strategy.tolist()
    excesses = [
        [dot(row, now.strategy) - limit for row, limit in zip(scenario.mean_costs, problem.thresholds, strict=True)]
        for now in history
    ]
    violations = [
        math.fsum(max(0.0, excess[i]) for excess in excesses if excess[i] > 1e-12) for i in range(problem.n_constraints)
    ]
    loose = [t for t, now in enumerate(history) if now.safe_weight < 0.1]
    return {
        "round": len(history),
        "loss": math.fsum(dot(now.losses, now.strategy) for now in history),
        "baseline_loss": None if problem.safe is None else math.fsum(dot(now.losses, safe) for now in history),
        "regret": math.fsum(dot(now.losses, now.strategy) - dot(now.losses, best) for now in history),
        "safety_regret": math.fsum(
            now.safe_weight * (dot(now.losses, safe) - dot(now.losses, best)) for now in history
        ),
        "learning_regret": math.fsum(
            (1 - now.safe_weight) * (dot(now.losses, now.proposal) - dot(now.losses, best)) for now in history
        ),
        "violation": max(violations, default=0.0),
        "violations": violations,
        "rounds_in_violation": sum(any(e > 1e-12 for e in excess) for excess in excesses),
        "worst_margin": min(-e for excess in excesses for e in excess) if problem.n_constraints else None,
        "rounds_until_loose": loose[0] if loose else None,
        "bandit_complexity": math.fsum(dot(now.losses, best) for now in history),
        "safety_complexity": None
        if problem.safe is None
        else math.sqrt(math.fsum((dot(now.losses, safe) - dot(now.losses, best)) ** 2 for now in history)),
        "allocation": [math.fsum(now.strategy[a] for now in history[since:]) / (len(history) - since) for a in arms],
        "benchmark": best,
    }


def is_best(scenario: sf.Scenario, history: list[Round], strategy: list[float]) -> bool:
    """Whether a strategy is an offline optimum of the history (there may be several, so the row's own is looked at)."""
    totals = [math.fsum(now.losses[a] for now in history) for a in range(scenario.problem.n_arms)]
    wanted = sf.offline_optimum(totals, scenario.mean_costs, scenario.problem.thresholds).value
    kept = all(
        dot(row, strategy) <= limit + 1e-9
        for row, limit in zip(scenario.mean_costs, scenario.problem.thresholds, strict=True)
    )
    simple = min(strategy) >= 0 and abs(math.fsum(strategy) - 1) < 1e-12
    return kept and simple and abs(dot(totals, strategy) - wanted) < 1e-9 * max(1, wanted)


NOISE = np.random.default_rng(5).random((HORIZON, 8))


def scenario(kind: str) -> sf.Scenario:
    """Small worlds with 0, 1 and 3 constraints."""
    one = sf.costs.Bernoulli([[0.9, 0.6, 0.1]])
    mild = sf.costs.Bernoulli([[0.1, 0.6, 0.1]])  # the best arm is soon known to be cheap, and SOLB lets go
    three = sf.costs.Beta([[0.9, 0.3, 0.5, 0.1], [0.1, 0.8, 0.4, 0.2], [0.3, 0.4, 0.9, 0.1]], [0, 5, 30], 0.5)
    safe_arm = sf.SafeStrategy([0, 0, 1], [0.15])
    mixed = sf.SafeStrategy([0, 0.25, 0.25, 0.5], [0.3, 0.45, 0.45])
    worlds: dict[str, tuple[list[float], int, sf.SafeStrategy | None, Any, Any]] = {
        "m=0": ([], 4, None, sf.losses.Bernoulli([0.8, 0.4, 0.2, 0.6]), None),
        "m=0, safe": ([], 4, sf.SafeStrategy([0, 0, 0, 1], []), sf.losses.Fixed(NOISE[:, :4]), None),
        "m=1": ([0.55], 3, None, sf.losses.Fixed(NOISE[:, :3] * [0.2, 1, 1]), one),
        "m=1, safe, tight": (
            [0.55],
            3,
            sf.SafeStrategy([0, 0.2, 0.8], [0.25]),
            sf.losses.Fixed(NOISE[:, :3] * [0.2, 1, 1]),
            one,
        ),
        "m=1, safe": ([0.9], 3, safe_arm, sf.losses.Drifting([0.1, 0.5, 0.9], [0.9, 0.5, 0.4]), mild),
        "m=1, safe, adaptive": ([0.85], 3, safe_arm, sf.losses.RaiseMostPlayed([0.1, 0.3, 0.9], 0.3), mild),
        "m=3": ([0.5, 0.6, 0.6], 4, None, sf.losses.Switching([[0.1, 0.9, 0.5, 0.7], [0.9, 0.1, 0.5, 0.7]], 99), three),
        "m=3, safe": ([0.8, 0.9, 0.9], 4, mixed, sf.losses.Fixed(NOISE[:, 4:]), three),
        "m=3, adaptive": ([0.5, 0.6, 0.6], 4, None, sf.losses.PunishProposal([0.1, 0.2, 0.3, 0.9], 0.5), three),
    }
    thresholds, n_arms, safe, losses, costs = worlds[kind]
    problem = sf.Problem(n_arms, thresholds, HORIZON, 0.05, safe)
    return sf.Scenario(kind, problem, losses, costs)


POLICIES = {"solb": quick(sf.SOLB), "colb": quick(sf.COLB), "log-barrier": quick(sf.LogBarrier)}
WITHOUT = [(kind, name) for kind in ("m=0", "m=1", "m=3", "m=3, adaptive") for name in ("colb", "log-barrier")]
WITH = [
    (kind, name)
    for kind in ("m=0, safe", "m=1, safe", "m=1, safe, tight", "m=1, safe, adaptive", "m=3, safe")
    for name in POLICIES
]


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize(("kind", "name"), WITHOUT + WITH)
def test_every_column_is_what_the_twin_finds(kind: str, name: str) -> None:
    world = scenario(kind)
    run = sf.simulate(world, {name: POLICIES[name]}, seeds=[3], checkpoints=CHECKPOINTS, workers=1)
    since = 0
    for row, (history, shown) in zip(run.table.to_pylist(), play(world, POLICIES[name], 3), strict=True):
        assert is_best(world, history, row["benchmark"])
        sums = account(world, history, since, row["benchmark"])
        # with the paper's radius; tests/simulation/test_clean.py has others
        clean = None if name == "log-barrier" or not world.problem.n_constraints else True
        wanted = {"scenario": kind, "policy": name, "seed": 3, **sums, **shown, "clean": clean, "benchmark_kept": clean}
        assert set(wanted) == set(SCHEMA.names) == set(row)
        for column, value in wanted.items():
            if value is None or isinstance(value, str | int):
                assert row[column] == value, column
            else:
                assert row[column] == pytest.approx(value, rel=1e-10, abs=1e-9), column
        since = len(history)


@pytest.mark.filterwarnings("ignore:the margin")
def test_things_happen_in_these_worlds() -> None:
    # else the twin would agree about nothing but zeros
    rows = {
        (kind, name): sf.simulate(scenario(kind), {name: POLICIES[name]}, [3], CHECKPOINTS, 1).table.to_pylist()
        for kind, name in WITHOUT + WITH
    }
    for name in ("colb", "log-barrier"):
        assert all(count > 0 for count in rows["m=3", name][-1]["violations"][:2])
        assert 0 < rows["m=1", name][-1]["rounds_in_violation"] < HORIZON
    for kind in ("m=1, safe", "m=1, safe, adaptive", "m=3, safe"):
        first, *_, last = rows[kind, "solb"]
        assert first["rounds_until_loose"] is None
        assert kind == "m=3, safe" or 0 < last["rounds_until_loose"] < HORIZON
        assert last["safety_regret"] != 0
        assert last["safety_complexity"] > 0
        assert last["worst_margin"] > 0
    assert sum(share > 0 for share in rows["m=1, safe, tight", "solb"][-1]["benchmark"]) == 2  # a mixture is best
    for kind, name in rows:
        first, *_, last = rows[kind, name]
        assert last["learning_regret"] != 0
        assert first["strategy"] != pytest.approx(last["strategy"], abs=1e-3)
    assert any(row["regret"] < 0 for row in rows["m=1", "log-barrier"])


# Long sums


def test_regret_is_the_sum_of_its_parts_after_a_million_rounds() -> None:
    # 0.1, 0.3 and 0.7 are not exact in binary: plain sums of a million of them are off by more than is allowed here
    horizon, losses = 1_000_000, np.array([0.1, 0.3, 0.7])
    problem = sf.Problem(3, [0.5], horizon, safe=sf.SafeStrategy([0, 0, 1], [0.15]))
    world = sf.Scenario("long", problem, sf.losses.Fixed(losses), sf.costs.Bernoulli([[0.9, 0.4, 0.1]]))
    row = sf.simulate(world, {"solb": quick(sf.SOLB)}, [7], [horizon], 1).table.to_pylist()[0]
    assert abs(row["regret"] - row["safety_regret"] - row["learning_regret"]) < 1e-8
    assert row["safety_regret"] > 1
    assert row["bandit_complexity"] == pytest.approx(dot(losses, row["benchmark"]) * horizon, abs=1e-8)

    policy, strategies, weights = quick(sf.SOLB)(problem, policy_seed(7)), np.empty((horizon, 3)), np.empty(horizon)
    done = 0
    for block, costs in World(world, 7).blocks(horizon):
        part = slice(done, done := done + len(block))
        policy.live(block, costs, strategies[part], weights[part])
    met = strategies[:, 0] * losses[0] + strategies[:, 1] * losses[1] + strategies[:, 2] * losses[2]
    assert abs(row["loss"] - math.fsum(met)) < 1e-8
    assert abs(np.cumsum(np.full(horizon, losses[1]))[-1] - horizon * losses[1]) > 1e-6  # the control: a plain sum


def test_parts_of_regret_add_up_with_losses_of_any_kind() -> None:
    horizon = 100_000
    losses = np.random.default_rng(3).beta(0.7, 1.3, (horizon, 4))
    problem = sf.Problem(4, [0.5, 0.6], horizon, safe=sf.SafeStrategy([0, 0, 0.5, 0.5], [0.3, 0.3]))
    costs = sf.costs.Beta([[0.9, 0.4, 0.1, 0.3], [0.1, 0.9, 0.3, 0.1]], 7)
    world = sf.Scenario("beta", problem, sf.losses.Fixed(losses), costs)
    policies = {"solb": quick(sf.SOLB), "colb": quick(sf.COLB)}
    for row in sf.simulate(world, policies, [7], workers=1).table.to_pylist():
        assert abs(row["regret"] - row["safety_regret"] - row["learning_regret"]) < 1e-8


# By hand: constant losses and costs, and a strategy that never changes

T = 256


def constant(
    losses: list[float], costs: list[list[float]], thresholds: list[float], safe: sf.SafeStrategy | None = None
) -> sf.Scenario:
    problem = sf.Problem(len(losses), thresholds, T, safe=safe)
    return sf.Scenario(
        "constant", problem, sf.losses.Fixed(losses), sf.costs.Fixed(np.reshape(costs, (-1, len(losses))))
    )


def played(world: sf.Scenario, strategy: list[float], **shown: Any) -> list[dict[str, Any]]:
    """The rows after a quarter of the rounds and after all, without the columns that name the episode."""
    table = sf.simulate(world, {"always": always(strategy, **shown)}, [5], [T // 4, T], 1).table
    return table.drop_columns(["scenario", "policy", "seed"]).to_pylist()  # type: ignore[no-any-return]


SAFE = sf.SafeStrategy([0, 1], [0.25, 0.5])
TWO = ([0.25, 0.75], [[0.75, 0.25], [0.25, 0.5]], [0.5, 0.625])  # half of each arm is best, and loses 1/2


def test_every_column_by_hand_when_one_of_two_constraints_is_broken() -> None:
    for row, n in zip(played(constant(*TWO, SAFE), [1.0, 0.0]), (T // 4, T)):
        assert row == {
            "round": n,
            "loss": n / 4,
            "baseline_loss": 3 * n / 4,
            "regret": -n / 4,  # it loses less than any safe strategy could
            "safety_regret": 0.0,
            "learning_regret": -n / 4,
            "violation": n / 4,
            "violations": [n / 4, 0.0],
            "rounds_in_violation": n,
            "worst_margin": -0.25,
            "safe_weight": 0.0,
            "rounds_until_loose": 0,
            "empty_rounds": None,
            "pending": None,
            "lost": None,
            "clean": None,
            "benchmark_kept": None,
            "bandit_complexity": n / 2,
            "safety_complexity": math.sqrt(n) / 4,
            "allocation": [1.0, 0.0],
            "strategy": [1.0, 0.0],
            "proposal": None,
            "lower_costs": None,
            "benchmark": [0.5, 0.5],
        }


def test_every_column_by_hand_with_the_safe_strategy_mixed_in() -> None:
    # half the proposal (1/2, 1/2) and half the safe strategy (0, 1): cost 3/8 and 7/16, loss 5/8
    rows = played(
        constant(*TWO, SAFE), [0.25, 0.75], safe_weight=0.5, proposal=np.array([0.5, 0.5]), empty_rounds=3
    )  # fmt: skip
    for row, n in zip(rows, (T // 4, T)):
        assert row == {
            "round": n,
            "loss": n * 5 / 8,
            "baseline_loss": 3 * n / 4,
            "regret": n / 8,
            "safety_regret": n / 8,  # half the time the safe arm, which loses 1/4 more than the best
            "learning_regret": 0.0,  # the proposal is the best
            "violation": 0.0,
            "violations": [0.0, 0.0],
            "rounds_in_violation": 0,
            "worst_margin": 0.125,
            "safe_weight": 0.5,
            "rounds_until_loose": None,
            "empty_rounds": 3,
            "pending": None,
            "lost": None,
            "clean": None,
            "benchmark_kept": None,
            "bandit_complexity": n / 2,
            "safety_complexity": math.sqrt(n) / 4,
            "allocation": [0.25, 0.75],
            "strategy": [0.25, 0.75],
            "proposal": [0.5, 0.5],
            "lower_costs": None,
            "benchmark": [0.5, 0.5],
        }


def test_every_column_by_hand_without_constraints() -> None:
    for row, n in zip(played(constant([0.25, 0.75], [], []), [0.5, 0.5]), (T // 4, T)):
        assert row == {
            "round": n,
            "loss": n / 2,
            "baseline_loss": None,
            "regret": n / 4,
            "safety_regret": 0.0,
            "learning_regret": n / 4,
            "violation": 0.0,
            "violations": [],
            "rounds_in_violation": 0,
            "worst_margin": None,
            "safe_weight": 0.0,
            "rounds_until_loose": 0,
            "empty_rounds": None,
            "pending": None,
            "lost": None,
            "clean": None,
            "benchmark_kept": None,
            "bandit_complexity": n / 4,
            "safety_complexity": None,
            "allocation": [0.5, 0.5],
            "strategy": [0.5, 0.5],
            "proposal": None,
            "lower_costs": None,
            "benchmark": [1.0, 0.0],
        }


def test_violations_do_not_pay_for_each_other() -> None:
    # below one threshold by 1/4, above the other by 1/8; and the worst constraint counts, not the sum
    world = constant([0.25, 0.75], [[0.75, 0.25], [0.75, 0.25]], [0.625, 0.6875])
    last = played(world, [1.0, 0.0])[-1]
    assert last["violations"] == [T / 8, T / 16]
    assert last["violation"] == T / 8
    assert last["rounds_in_violation"] == T
    assert last["worst_margin"] == -0.125


def test_rounds_below_the_threshold_do_not_pay_for_rounds_above() -> None:
    class Alternating:
        """Above the threshold by 1/4 in one round, below it by 1/4 in the next."""

        def __init__(self) -> None:
            self.round = 0

        @property
        def strategy(self) -> Floats:
            return np.array([1.0, 0.0]) if self.round % 2 == 0 else np.array([0.0, 1.0])

        def ask(self) -> sf.Decision:
            return sf.Decision(self.round % 2, 1.0)

        def tell(self, decision: sf.Decision, loss: float, costs: list[float]) -> None:
            self.round += 1

    world = constant([0.25, 0.75], [[0.75, 0.25]], [0.5])
    run = sf.simulate(world, {"alternating": lambda problem, seed: Alternating()}, [1], [1, 2, T - 1, T], 1)
    columns = run.table.select(["violation", "rounds_in_violation", "worst_margin", "allocation"]).to_pydict()
    assert columns["violation"] == [0.25, 0.25, T / 8, T / 8]
    assert columns["rounds_in_violation"] == [1, 1, T / 2, T / 2]
    assert columns["worst_margin"] == [-0.25] * 4
    assert columns["allocation"][:2] == [[1.0, 0.0], [0.0, 1.0]]  # each since the checkpoint before
    assert columns["allocation"][2] == pytest.approx([127 / 253, 126 / 253])
    assert columns["allocation"][3] == [0.0, 1.0]


@pytest.mark.parametrize("costs", [[0.9, 0.1], [0.7, 0.3], [0.55, 0.45], [1 / 3, 2 / 3], [0.81, 0.19]])
def test_on_the_threshold_is_no_violation(costs: list[float]) -> None:
    # the mean of the two is 1/2 but for rounding
    last = played(constant([0.25, 0.75], [costs], [0.5]), [0.5, 0.5])[-1]
    assert (last["violation"], last["rounds_in_violation"]) == (0.0, 0)
    assert last["worst_margin"] == pytest.approx(0.0, abs=1e-15)
    over = played(constant([0.25, 0.75], [costs], [0.5 - 1e-9]), [0.5, 0.5])[-1]  # the control
    assert over["rounds_in_violation"] == T
    assert over["violation"] == pytest.approx(1e-9 * T, rel=1e-6)


def test_a_threshold_of_1_is_never_broken() -> None:
    last = played(constant([0.25, 0.75], [[1.0, 0.5]], [1.0]), [1.0, 0.0])[-1]
    assert (last["violation"], last["rounds_in_violation"], last["worst_margin"]) == (0.0, 0, 0.0)
    assert last["benchmark"] == [1.0, 0.0]


def test_a_threshold_of_0_leaves_only_what_costs_nothing() -> None:
    world = constant([0.25, 0.75], [[0.5, 0.0]], [0.0])
    kept, broken = played(world, [0.0, 1.0])[-1], played(world, [0.25, 0.75])[-1]
    assert (kept["violation"], kept["regret"], kept["worst_margin"]) == (0.0, 0.0, 0.0)
    assert kept["benchmark"] == [0.0, 1.0]
    assert (broken["violation"], broken["rounds_in_violation"]) == (T / 8, T)
    assert broken["regret"] == -T / 8


def test_the_benchmark_is_of_the_losses_up_to_the_checkpoint() -> None:
    # the good arm changes: early the one is best, later the other
    losses = np.repeat([[0.0, 0.25], [1.0, 0.0]], [10, 30], axis=0)
    world = sf.Scenario("turning", sf.Problem(2, [], 40), sf.losses.Fixed(losses))
    rows = sf.simulate(world, {"first": always([1.0, 0.0])}, [1], [10, 11, 12, 13, 14, 40], 1).table.to_pylist()
    assert [row["bandit_complexity"] for row in rows] == [0.0, 1.0, 2.0, 2.5, 2.5, 2.5]
    assert [row["regret"] for row in rows] == [0.0, 0.0, 0.0, 0.5, 1.5, 27.5]
    assert rows[2]["benchmark"] == [1.0, 0.0]
    assert rows[3]["benchmark"] == [0.0, 1.0]
