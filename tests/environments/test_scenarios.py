import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.environments.lower_bound import lower_bound
from surefoot.environments.scenarios import about, parameters
from surefoot.rules import Floats
from surefoot.simulation.world import World
from tests.environments.chance import ALARM, flips, p_value
from tests.environments.hostile import TABLES, write_parquet, write_text

SCENARIOS = sorted(sf.scenarios.SCENARIOS)
SHORT = 5_000  # long enough for no scenario to warn of its margin
REFUSED = r"must .*, got"


def world(scenario: sf.Scenario, seed: int = 1) -> tuple[Floats, Floats]:
    """All losses and costs of a seed."""
    blocks = [(losses.copy(), costs.copy()) for losses, costs in World(scenario, seed).blocks(scenario.problem.rounds)]
    return tuple(map(np.concatenate, zip(*blocks)))  # type: ignore[return-value]


# The built-in ones


@pytest.mark.parametrize("id", SCENARIOS)
def test_its_safe_strategy_is_strictly_safe(id: str) -> None:
    scenario = sf.scenarios.make(id, horizon=SHORT)
    safe, thresholds = scenario.problem.safe, scenario.problem.thresholds
    assert safe is not None
    assert (scenario.mean_costs @ safe.strategy <= safe.costs + 1e-15).all()
    assert (safe.costs < thresholds).all()


@pytest.mark.parametrize("id", SCENARIOS)
def test_it_has_an_offline_optimum(id: str) -> None:
    scenario = sf.scenarios.make(id, horizon=SHORT)
    problem = scenario.problem
    losses = np.random.default_rng(1).random(problem.n_arms)
    best = sf.offline_optimum(losses, scenario.mean_costs, problem.thresholds)
    assert problem.safe is not None
    assert best.value <= losses @ problem.safe.strategy + 1e-9


@pytest.mark.parametrize("id", SCENARIOS)
def test_its_costs_have_the_means_it_is_judged_by(id: str) -> None:
    # false-alarm rate at most ALARM: nothing in [0, 1] varies more than a coin flip; the control is 0.1 off
    scenario = sf.scenarios.make(id, horizon=SHORT)
    _, costs = world(scenario)
    means = scenario.costs.means_in(0, SHORT)
    assert costs.shape == (SHORT, *scenario.mean_costs.shape)
    assert means.max(axis=0) == pytest.approx(scenario.mean_costs, rel=1e-15)
    assert p_value(costs, means, flips(means)) > ALARM
    shifted = np.abs(means - 0.1)
    assert p_value(costs, shifted, flips(shifted) + 1e-9) < ALARM


@pytest.mark.parametrize("id", SCENARIOS)
def test_two_makes_are_the_same(id: str) -> None:
    one, two = (sf.scenarios.make(id, horizon=SHORT) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    assert json.loads(json.dumps(one.to_dict())) == one.to_dict()
    assert one.to_dict() != sf.scenarios.make(id, horizon=SHORT + 1).to_dict()
    if not one.adaptive:
        assert all((a == b).all() for a, b in zip(world(one), world(two), strict=True))


@pytest.mark.parametrize("id", SCENARIOS)
def test_it_says_what_it_is(id: str) -> None:
    scenario = sf.scenarios.make(id, horizon=SHORT)
    assert scenario.id == id
    assert scenario.problem.horizon == SHORT
    assert scenario.about.endswith(".")
    assert about(id)
    assert "\n" not in scenario.about
    assert len(set(scenario.arms)) == scenario.problem.n_arms
    assert len(set(scenario.guardrails)) == scenario.problem.n_constraints
    assert {"horizon", "delta"} <= set(parameters(id))


@pytest.mark.parametrize("id", SCENARIOS)
def test_its_default_horizon_brings_no_warning(id: str) -> None:
    assert sf.scenarios.make(id).problem.horizon == parameters(id)["horizon"]  # a warning is an error here


@pytest.mark.parametrize("id", SCENARIOS)
def test_options_that_it_does_not_have_are_refused(id: str) -> None:
    with pytest.raises(ValueError, match=rf"^options of {id} must be among horizon, .*, got 'horzon'"):
        sf.scenarios.make(id, horzon=3)


@pytest.mark.parametrize("horizon", [0, 2, -5, 2.5, math.nan, True, "5000", None, [5000]])
@pytest.mark.parametrize("id", SCENARIOS)
def test_bad_horizons_are_refused(id: str, horizon: Any) -> None:
    with pytest.raises(ValueError, match=r"^horizon must .*, got"):
        sf.scenarios.make(id, horizon=horizon)


@pytest.mark.parametrize("id", SCENARIOS)
def test_whole_numbers_may_be_written_as_floats(id: str) -> None:
    whole = {name: value for name, value in parameters(id).items() if isinstance(value, int)}
    assert {"horizon"} <= set(whole)
    for kind in (float, np.float64, np.int64):
        natural = sf.scenarios.make(id, **{name: kind(value) for name, value in whole.items()})
        assert natural.to_dict() == sf.scenarios.make(id).to_dict()


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan, True, "0.1", None])
@pytest.mark.parametrize("id", SCENARIOS)
def test_bad_deltas_are_refused(id: str, delta: Any) -> None:
    with pytest.raises(ValueError, match=r"^delta must .*, got"):
        sf.scenarios.make(id, horizon=SHORT, delta=delta)


@pytest.mark.parametrize("id", ["stochastic", "", None, 3, "stochastic-v2"])
def test_unknown_ids_are_refused(id: Any) -> None:
    for call in (sf.scenarios.make, parameters, about):
        with pytest.raises(ValueError, match=r"^id must .*, got"):
            call(id)


def test_margins_and_numbers_of_arms_are_as_asked() -> None:
    assert sf.scenarios.make("tight-margin-v1", horizon=9_000, margin=0.01).problem.margin == pytest.approx(0.01)
    for n_arms in (3, 7, 250):
        scenario = sf.scenarios.make("many-arms-v1", horizon=10_000, n_arms=n_arms)
        assert scenario.problem.n_arms == n_arms
        assert scenario.problem.margin > 0


@pytest.mark.filterwarnings("ignore:the margin")
def test_two_arms_have_a_margin_too() -> None:
    assert sf.scenarios.make("many-arms-v1", horizon=SHORT, n_arms=2).problem.margin > 1e-9


@pytest.mark.parametrize("margin", ["0.1", None, 0.7, math.nan, True, 0.0])
def test_bad_margins_are_refused(margin: Any) -> None:
    with pytest.raises(ValueError, match=r"^margin must .*, got"):
        sf.scenarios.make("tight-margin-v1", horizon=SHORT, margin=margin)


@pytest.mark.parametrize("n_arms", ["5", None, 2.5, 0, -1, True])
def test_bad_numbers_of_arms_are_refused(n_arms: Any) -> None:
    with pytest.raises(ValueError, match=r"^n_arms must .*, got"):
        sf.scenarios.make("many-arms-v1", horizon=SHORT, n_arms=n_arms)


def test_a_single_arm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^n_arms must .*, got 1"):
        sf.scenarios.make("many-arms-v1", horizon=SHORT, n_arms=1)


def test_switches_are_where_the_words_say() -> None:
    for horizon in (3_000, 3_001, 3_002):
        losses = sf.scenarios.make("switching-v1", horizon=horizon).losses
        assert losses.at == (horizon // 3, 2 * horizon // 3)  # type: ignore[union-attr]
    assert sf.scenarios.make("llm-routing-v1", horizon=5_000).losses.at == (2_000, 3_500)  # type: ignore[union-attr]


def test_no_single_arm_is_safe_in_interior_safe() -> None:
    scenario = sf.scenarios.make("interior-safe-v1", horizon=SHORT)
    assert (scenario.mean_costs.max(axis=0) >= scenario.problem.thresholds.max()).all()


def test_the_best_of_small_loss_hardly_loses() -> None:
    scenario = sf.scenarios.make("small-loss-v1", horizon=SHORT)
    best = sf.offline_optimum(scenario.losses.means, scenario.mean_costs, [0.5])  # type: ignore[union-attr]
    assert best.value == pytest.approx(0.01)


# The lower bound: the table in the proof of Theorem 5, with sqrt(omega (1 - omega) / T) / 4 for psi and 1 / (6 sqrt(T))
# for epsilon

OMEGA, GAP, MARGIN, FEW = 0.4, 0.25, 0.3, 4
LOSSES = {1: "WW", 2: "WY", 3: "YW", 4: "YY"}  # of the first two arms, doubled; the third has (W + Delta) / 2
COSTS = {1: "DD", 2: "BB", 3: "BB", 4: "BB"}  # the third has C
MEANS = {
    "W": OMEGA,
    "Y": OMEGA + math.sqrt(OMEGA * (1 - OMEGA) / FEW) / 4,  # 0.061 more, with so few rounds
    "B": 1 / 2,
    "C": 1 / 2 - MARGIN,
    "D": 1 / 2 + 1 / (6 * math.sqrt(FEW)),
}
ROUNDS = 40_000


def draws(scenario: sf.Scenario) -> tuple[Floats, Floats]:
    """Many rounds of a scenario, whatever its horizon."""
    n_arms, rng = scenario.problem.n_arms, np.random.default_rng(3)
    losses, costs = np.empty((ROUNDS, n_arms)), np.empty((ROUNDS, 1, n_arms))
    scenario.costs.fill(costs, 0, rng)
    scenario.losses.fill(losses, 0, scenario.problem.rounds, rng, costs)  # type: ignore[union-attr]
    return losses, costs[:, 0]


def named(names: str) -> Floats:
    return np.array([MEANS[name] for name in names])


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize("instance", [1, 2, 3, 4])
def test_instances_are_those_of_the_table(instance: int) -> None:
    # false-alarm rate ALARM for each p-value; as control, the means of another instance
    scenario = lower_bound(FEW, instance, OMEGA, GAP, MARGIN)
    losses, costs = draws(scenario)
    W, doubled = 2 * losses[:, 2] - GAP, 2 * losses[:, :2]
    assert set(W.ravel()) == {0.0, 1.0} == set(doubled.ravel()) == set(costs.ravel())
    for arm, name in enumerate(LOSSES[instance]):
        assert (doubled[:, arm] == W).all() == (name == "W")  # one W for all arms that have it
    assert LOSSES[instance] != "YY" or (doubled[:, 0] == doubled[:, 1]).all()  # and one Y
    assert (costs[:, 0] == costs[:, 1]).all()
    assert (costs[:, 0] != costs[:, 2]).any()
    samples = np.column_stack([doubled, W, costs])
    means = named(LOSSES[instance] + "W" + COSTS[instance] + "C")
    assert p_value(samples, means, flips(means)) > ALARM
    other = named(LOSSES[instance % 4 + 1] + "W" + COSTS[instance % 4 + 1] + "C")
    assert p_value(samples, other, flips(other)) < ALARM


@pytest.mark.filterwarnings("ignore:the margin")
def test_the_sequences_of_the_table_are_independent() -> None:
    # false-alarm rate ALARM; the control is W with itself
    losses, costs = draws(lower_bound(FEW, 2, OMEGA, GAP, MARGIN))
    parts = {"W": 2 * losses[:, 0], "Y": 2 * losses[:, 1], "B": costs[:, 0], "C": costs[:, 2]}
    pairs = [(one, two) for one in parts for two in parts if one < two]
    products = np.column_stack([parts[one] * parts[two] for one, two in pairs])
    means = np.array([MEANS[one] * MEANS[two] for one, two in pairs])
    assert p_value(products, means, flips(means)) > ALARM
    assert p_value((parts["W"] ** 2)[:, None], np.full(1, OMEGA**2), flips(np.full(1, OMEGA**2))) < ALARM


@pytest.mark.parametrize("instance", [1, 2, 3, 4])
def test_what_is_known_about_an_instance_is_true(instance: int) -> None:
    scenario = lower_bound(10_000, instance, 0.1, 0.2, 0.2)
    risky = 0.5 + 1 / 600 if instance == 1 else 0.5
    assert scenario.mean_costs == pytest.approx(np.array([[risky, risky, 0.3]]), abs=1e-15)
    assert scenario.losses.shift == pytest.approx(0.3 / 100 / 4, rel=1e-12)  # type: ignore[union-attr]
    safe = scenario.problem.safe
    assert safe is not None
    assert safe.strategy.tolist() == [0, 0, 1]
    assert scenario.problem.margin == pytest.approx(0.2)


@pytest.mark.parametrize("n_arms", [4, 9])
def test_padding_arms_have_loss_1_and_cost_1(n_arms: int) -> None:
    scenario = lower_bound(2_000, 2, OMEGA, GAP, MARGIN, n_arms)
    losses, costs = draws(scenario)
    assert (losses[:, 3:] == 1).all()
    assert (costs[:, 3:] == 1).all()
    assert (scenario.mean_costs[0, 3:] == 1).all()
    three = draws(lower_bound(2_000, 2, OMEGA, GAP, MARGIN))
    assert (losses[:, :3] == three[0]).all()
    assert (costs[:, :3] == three[1]).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instance", 0), ("instance", 5), ("instance", 2.5), ("instance", True), ("instance", "2"),
        ("omega", 0), ("omega", 0.5), ("omega", -0.1), ("omega", math.nan), ("omega", "0.1"), ("omega", None),
        ("gap", -0.1), ("gap", 1.1), ("gap", math.nan), ("gap", [0.2]),
        ("margin", 0), ("margin", 0.5), ("margin", math.nan), ("margin", "0.2"),
        ("n_arms", 2), ("n_arms", 3.5), ("n_arms", 10_001), ("n_arms", True), ("n_arms", None),
    ],
)  # fmt: skip
def test_wrong_parameters_of_the_lower_bound_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must .*, got"):
        sf.scenarios.make("lower-bound-v1", **{name: value})


# Scenarios of a user's own

PROBLEM = sf.Problem(2, [0.5], 100)
ANYHOW: Any = sf.Scenario  # also with what its types forbid
LOSS, COST = sf.losses.Bernoulli([0.1, 0.2]), sf.costs.Bernoulli([[0.1, 0.2]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sf.Scenario("", PROBLEM, LOSS, COST), "^id must be a name, got ''"),
        (lambda: sf.Scenario(" ", PROBLEM, LOSS, COST), "^id must be a name, got"),
        (lambda: sf.Scenario("a\nb", PROBLEM, LOSS, COST), "^id must be a name, got"),
        (lambda: ANYHOW(3, PROBLEM, LOSS, COST), "^id must be a name, got 3"),
        (lambda: ANYHOW(None, PROBLEM, LOSS, COST), "^id must be a name, got None"),
        (lambda: ANYHOW("a", None, LOSS, COST), "^problem must be a Problem, got None"),
        (lambda: ANYHOW("a", None, LOSS), "^problem must be a Problem, got None"),
        (lambda: ANYHOW("a", PROBLEM.to_dict(), LOSS, COST), "^problem must be a Problem, got"),
        (lambda: ANYHOW("a", PROBLEM, COST, COST), "^losses must be a model of losses, got"),
        (lambda: ANYHOW("a", PROBLEM, [0.1, 0.2], COST), "^losses must be a model of losses, got"),
        (lambda: ANYHOW("a", PROBLEM, sf.losses.Bernoulli, COST), "^losses must be a model of losses, got"),
        (lambda: ANYHOW("a", PROBLEM, LOSS, LOSS), "^costs must be a model of costs, got"),
        (lambda: ANYHOW("a", PROBLEM, LOSS, [[0.1, 0.2]]), "^costs must be a model of costs, got"),
        (lambda: sf.Scenario("a", PROBLEM, sf.losses.Bernoulli([0.1] * 3), COST), "^losses must .* 2 arms, got 3"),
        (lambda: sf.Scenario("a", PROBLEM, sf.losses.Bernoulli([]), COST), "^losses must .* 2 arms, got 0"),
        (
            lambda: sf.Scenario("a", PROBLEM, sf.losses.PunishProposal([0.1] * 3), COST),
            "^losses must .* 2 arms, got 3",
        ),
        (
            lambda: sf.Scenario("a", PROBLEM, LOSS, sf.costs.Bernoulli([[0.1, 0.2, 0.3]])),
            r"^costs must have means of shape \(1, 2\), .*, got \(1, 3\)",
        ),
        (lambda: sf.Scenario("a", PROBLEM, LOSS, sf.costs.Fixed(np.zeros((2, 2)))), r"^costs must .*, got \(2, 2\)"),
        (lambda: sf.Scenario("a", PROBLEM, LOSS), r"^costs must .*, got \(0, 2\)"),
        (
            lambda: sf.Scenario("a", PROBLEM, sf.losses.Fixed(np.zeros((99, 2))), COST),
            "^losses must have at least horizon = 100 rounds, got 99",
        ),
        (
            lambda: sf.Scenario("a", PROBLEM, LOSS, sf.costs.Fixed(np.zeros((99, 1, 2)))),
            "^costs must have at least horizon = 100 rounds, got 99",
        ),
        (
            lambda: sf.Scenario("a", PROBLEM, sf.losses.OfSuccess([0.1, 0.2], 1), COST),
            "^constraint must be below 1, got 1",
        ),
        (lambda: ANYHOW("a", PROBLEM, LOSS, COST, arms=["x"]), "^arms must be 2 names, got 1"),
        (lambda: ANYHOW("a", PROBLEM, LOSS, COST, guardrails=["x", "y"]), "^guardrails must be 1 names, got 2"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("arms", [3, None])
def test_arms_that_are_no_names_are_refused(arms: Any) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.Scenario("a", PROBLEM, LOSS, COST, arms=arms)


def test_as_many_given_rounds_as_needed_will_do() -> None:
    scenario = sf.Scenario(
        "a", PROBLEM, sf.losses.Fixed(np.zeros((100, 2))), sf.costs.Fixed(np.full((120, 1, 2), 0.25))
    )
    losses, costs = world(scenario)
    assert losses.shape == (100, 2)
    assert costs.shape == (100, 1, 2)


def test_without_constraints_there_need_be_no_costs() -> None:
    scenario = sf.Scenario("a", sf.Problem(2, [], 100), LOSS)
    assert scenario.mean_costs.shape == (0, 2)
    assert world(scenario)[1].shape == (100, 0, 2)


def test_arms_and_guardrails_have_names_of_their_own_or_numbers() -> None:
    scenario = sf.Scenario("a", PROBLEM, LOSS, COST)
    assert scenario.arms == ("arm 0", "arm 1")
    assert scenario.guardrails == ("cost",)
    assert ANYHOW("a", PROBLEM, LOSS, COST, arms=["x", "y"]).arms == ("x", "y")
    two = sf.Scenario("a", sf.Problem(2, [0.5, 0.5], 100), LOSS, sf.costs.Fixed(np.zeros((2, 2))))
    assert two.guardrails == ("cost 0", "cost 1")


def test_a_promise_that_is_not_true_brings_a_warning() -> None:
    def scenario(told: float) -> sf.Scenario:
        problem = sf.Problem(2, [0.5], 1000, safe=sf.SafeStrategy([0.5, 0.5], [told]))
        return sf.Scenario("mine-v1", problem, LOSS, sf.costs.Bernoulli([[0.3, 0.4]]))

    with pytest.warns(UserWarning, match=r"safe.costs\[0\] = 0.34 is below the true cost 0.35 .* in scenario mine-v1"):
        scenario(0.34)
    scenario(0.35)  # a warning would be an error
    scenario(0.4)


@pytest.mark.parametrize("place", [0, 1_000, 65_535, 65_536, 69_999])
def test_long_arrays_are_told_by_their_digest(place: int) -> None:
    # digests are made piece by piece, of 65 536 rounds each
    long = np.random.default_rng(1).random((70_000, 2))
    told = sf.losses.Fixed(long).to_dict()
    assert len(json.dumps(told)) < 500
    assert told == sf.losses.Fixed(long.copy()).to_dict()
    long[place, 1] /= 2
    assert told != sf.losses.Fixed(long).to_dict()


def test_models_of_ones_own_are_told_apart_from_the_built_in() -> None:
    class Bernoulli(sf.losses.Bernoulli):
        pass

    mine, theirs = Bernoulli([0.1, 0.2]).to_dict(), LOSS.to_dict()
    assert mine != theirs
    assert mine["means"] == theirs["means"] == [0.1, 0.2]


# Scenarios from tables

ARMS = "arm,success_rate,value\n0,0.875,0.25\n1,0.75,1.0\n2,0.25,0.5\n"
PLAIN = "name,loss,cost_a,cost_b\nx,0.25,0.5,0.125\ny,0.5,0.25,0.25\n"


@pytest.mark.parametrize(
    "write",
    [write_text(ARMS, "arms.csv"), write_parquet(success_rate=[0.875, 0.75, 0.25], value=[0.25, 1.0, 0.5])],
)
def test_tables_of_success(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    scenario = sf.Table(path, thresholds=0.5, horizon=1000)
    assert scenario.id == path.stem
    assert scenario.mean_costs.tolist() == [[0.125, 0.25, 0.75]]
    assert scenario.problem.to_dict() == {
        "n_arms": 3,
        "thresholds": [0.5],
        "horizon": 1000,
        "delta": 0.05,
        "safe": {"strategy": [1, 0, 0], "costs": [0.125]},
    }
    losses, costs = world(scenario)
    assert (losses == 1 - np.array([0.25, 1.0, 0.5]) * (1 - costs[:, 0])).all()
    assert (losses[costs[:, 0] == 1] == 1).all()
    assert set(costs.ravel()) == {0.0, 1.0}


@pytest.mark.parametrize(
    "write",
    [write_text(PLAIN, "plain.csv"), write_parquet(loss=[0.25, 0.5], cost_a=[0.5, 0.25], cost_b=[0.125, 0.25])],
)
def test_tables_of_means(write: Callable[[Path], Path], tmp_path: Path) -> None:
    scenario = sf.Table(str(write(tmp_path)), [0.625, 0.5], 1000, delta=0.1, id="mine-v1")
    assert scenario.id == "mine-v1"
    assert scenario.problem.delta == 0.1
    assert scenario.mean_costs.tolist() == [[0.5, 0.25], [0.125, 0.25]]
    assert scenario.losses.means.tolist() == [0.25, 0.5]  # type: ignore[union-attr]
    assert scenario.problem.safe == sf.SafeStrategy([0, 1], [0.25, 0.25])  # margins 0.125 and 0.25
    json.dumps(scenario.to_dict())


@pytest.mark.parametrize(
    ("head", "first", "arms", "guardrails"),
    [
        ("arm,loss,cost_spend,cost_late answers", "a", ("a", "b"), ("spend", "late answers")),
        ("arm,loss,cost_1,cost_2", "a", ("a", "b"), ("cost 0", "cost 1")),
        ("arm,loss,cost_spend,costs", "a", ("a", "b"), ("cost 0", "cost 1")),
        ("arm,loss,cost_spend,cost_2", "b", ("arm 0", "arm 1"), ("cost 0", "cost 1")),
        ("arm,loss,cost_spend,cost_late", "", ("arm 0", "arm 1"), ("spend", "late")),
        ("note,loss,cost_spend,cost_late", "a", ("arm 0", "arm 1"), ("spend", "late")),
    ],
)
def test_a_table_names_arms_and_guardrails(
    head: str, first: str, arms: tuple[str, ...], guardrails: tuple[str, ...], tmp_path: Path
) -> None:
    path = write_text(f"{head}\n{first},0.2,0.3,0.4\nb,0.6,0.1,0.2\n", "arms.csv")(tmp_path)
    scenario = sf.Table(path, 0.5, 1000)
    assert (scenario.arms, scenario.guardrails) == (arms, guardrails)


def test_a_table_leans_on_the_arm_it_is_told(tmp_path: Path) -> None:
    path = write_text(ARMS, "arms.csv")(tmp_path)
    assert sf.Table(path, 0.5, 1000, safe=1).problem.safe == sf.SafeStrategy([0, 1, 0], [0.25])
    assert sf.Table(path, 0.5, 1000, safe=np.int64(1)).problem.safe == sf.SafeStrategy([0, 1, 0], [0.25])  # type: ignore[arg-type]
    mixed = sf.SafeStrategy([0.5, 0.5, 0], [0.2])
    assert sf.Table(path, 0.5, 1000, safe=mixed).problem.safe == mixed


def test_a_table_without_a_safe_arm_has_no_safe_strategy(tmp_path: Path) -> None:
    path = write_text(ARMS, "arms.csv")(tmp_path)
    assert sf.Table(path, 0.125, 1000).problem.safe is None  # on the threshold is not below it
    assert sf.Table(path, 0.05, 1000).problem.safe is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": 1.5}, r"^thresholds must .*, got 1.5"),
        ({"thresholds": math.nan}, r"^thresholds must .*, got nan"),
        ({"thresholds": "0.5"}, "^thresholds must .*, got"),
        ({"thresholds": None}, "^thresholds must .*, got"),
        ({"thresholds": True}, "^thresholds must .*, got"),
        ({"thresholds": [0.5, 0.5]}, r"^thresholds must be one for each cost \(1\), got 2$"),
        ({"thresholds": []}, "^thresholds must .*, got"),
        ({"thresholds": [[0.5]]}, "^thresholds must .*, got"),
        ({"horizon": 2}, "^horizon must .*, got 2"),
        ({"horizon": "long"}, "^horizon must .*, got 'long'"),
        ({"delta": 0}, "^delta must .*, got 0"),
        ({"safe": 3}, "^safe must be an arm: a number below 3, or its name in the table, got 3$"),
        ({"safe": -1}, "^safe must be an arm: a number below 3, or its name in the table, got -1$"),
        ({"safe": 2}, r"^safe.costs\[0\] must be below its threshold .*, got 0.75"),
        ({"safe": sf.SafeStrategy([1, 0], [0.1])}, "^safe.strategy must have n_arms = 3 entries, got 2"),
        ({"safe": sf.SafeStrategy([1, 0, 0], [0.1, 0.1])}, "^safe.costs must .*, got 2"),
        ({"id": 3}, "^id must be a name, got 3"),
    ],
)
def test_wrong_options_of_a_table_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write_text(ARMS, "arms.csv")(tmp_path)
    with pytest.raises(ValueError, match=message):
        sf.Table(path, **{"thresholds": 0.5, "horizon": 1000, **options})


def test_the_safe_arm_of_a_table_may_be_named(tmp_path: Path) -> None:
    path = write_text("arm,loss,cost_spend\nin-house,0.5,0.1\nfast,0.4,0.2\nflagship,0.1,0.6\n", "arms.csv")(tmp_path)
    assert sf.Table(path, 0.5, 1000, safe="fast").problem.safe == sf.Table(path, 0.5, 1000, safe=1).problem.safe
    with pytest.raises(sf.RuleError, match=r"'fast' or 'flagship', got 'fest' \(did you mean fast\?\)$"):
        sf.Table(path, 0.5, 1000, safe="fest")


@pytest.mark.parametrize("safe", ["0", 0.5, [0], True, {"strategy": [1, 0, 0], "costs": [0.2]}])
def test_what_is_neither_arm_nor_safe_strategy_is_refused(safe: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^safe must .*, got"):
        sf.Table(write_text(ARMS, "arms.csv")(tmp_path), 0.5, 1000, safe=safe)


def test_ragged_thresholds_of_a_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^thresholds must .*, got"):
        sf.Table(write_text(ARMS, "arms.csv")(tmp_path), [[0.1], [0.2, 0.3]], 1000)


@pytest.mark.parametrize("what", TABLES)
def test_tables_with_wrong_content_are_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.Table(TABLES[what](tmp_path), 0.5, 1000)


@pytest.mark.parametrize(
    "text",
    [
        "success_rate\n0.5\n0.6\n",
        "loss\n0.5\n0.6\n",
        "cost\n0.5\n0.6\n",
        "value\n0.5\n0.6\n",
        "success_rate,value\n0.5,1.2\n0.5,0.5\n",
        "success_rate,value\n-0.5,0.2\n0.5,0.5\n",
        "loss,cost\n1.5,0.2\n0.5,0.5\n",
        "loss,cost\n0.5,0.2\n0.5,1.5\n",
        "loss,cost\n0.5,0.2\n",
    ],
)
def test_tables_that_lack_something_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.Table(write_text(text, "arms.csv")(tmp_path), 0.5, 1000)


# Real instances, where the folder that holds them is at hand

DATA = Path(__file__).parents[2].parent / "shared" / "data"
beside_the_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"needs {DATA}")


@beside_the_data
def test_edx_has_its_published_optimum() -> None:
    scenario = sf.Table(DATA / "edx.csv", thresholds=0.5, horizon=50_000)
    values = scenario.losses.values  # type: ignore[union-attr]
    assert scenario.problem.n_arms == 290
    mean_losses = 1 - values * (1 - scenario.mean_costs[0])
    best = sf.offline_optimum(mean_losses, scenario.mean_costs, [0.5])
    assert 1 - best.value == pytest.approx(0.0139, abs=5e-5)  # published with four digits


@beside_the_data
@pytest.mark.parametrize(("name", "threshold"), [("edx", 0.5), ("coupon", 0.75)])
@pytest.mark.filterwarnings("ignore:the margin")
def test_losses_and_costs_of_real_instances_go_together(name: str, threshold: float) -> None:
    scenario = sf.Table(DATA / f"{name}.csv", threshold, horizon=10_000)
    losses, costs = world(scenario)
    values = scenario.losses.values  # type: ignore[union-attr]
    assert (losses == 1 - values * (1 - costs[:, 0])).all()
    assert 0 < costs.mean() < 1
    assert p_value(costs, scenario.mean_costs, flips(scenario.mean_costs)) > ALARM
