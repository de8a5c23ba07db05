import json
import math
import os
import signal
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import surefoot as sf
from surefoot.environments.losses import Adversary, Seen
from surefoot.rules import Floats
from surefoot.simulation.run import SCHEMA
from surefoot.simulation.simulate import Keeper, chosen_rounds
from surefoot.simulation.tasks import Result, Task
from surefoot.simulation.world import World, policy_seed
from tests.environments.chance import ALARM, p_value
from tests.simulation.players import Always, Disguised, always, quick

pytestmark = pytest.mark.filterwarnings("ignore:the margin")

HORIZON, CHECKPOINTS, SEEDS = 600, [1, 50, 333, 600], 4
POLICIES = {"solb": quick(sf.SOLB), "colb": quick(sf.COLB), "blind": quick(sf.LogBarrier)}
SCENARIOS = {
    "plain": sf.scenarios.make("interior-safe-v1", horizon=HORIZON),
    "adaptive": sf.scenarios.make("adaptive-v1", horizon=HORIZON),
    "correlated": sf.scenarios.make("llm-routing-v1", horizon=HORIZON),
}


def rows(table: pa.Table, **wanted: Any) -> pa.Table:
    """The rows with these values, as one piece."""
    for name, value in wanted.items():
        values = value if isinstance(value, list) else [value]
        table = table.filter(pc.is_in(table.column(name), pa.array(values)))
    return table.combine_chunks()


def equal(one: pa.Table, two: pa.Table) -> bool:
    """Whether two tables are the same, bit for bit, and hold something."""
    return one.num_rows > 0 and bool(one.combine_chunks().equals(two.combine_chunks()))


def run(name: str = "plain", policies: Any = POLICIES, **options: Any) -> sf.Run:
    chosen = {"seeds": SEEDS, "checkpoints": CHECKPOINTS, "workers": 1, **options}
    return sf.simulate(SCENARIOS[name], policies, **chosen)


# What a result does not depend on


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_number_of_workers_does_not_matter(name: str) -> None:
    alone = run(name)
    assert alone.table.num_rows == len(POLICIES) * SEEDS * len(CHECKPOINTS)
    for workers in (2, 5):
        assert equal(run(name, workers=workers).table, alone.table)


@pytest.mark.parametrize("name", SCENARIOS)
def test_other_policies_do_not_matter(name: str) -> None:
    together = run(name).table
    for policy, factory in POLICIES.items():
        assert equal(run(name, {policy: factory}).table, rows(together, policy=policy))
    turned = run(name, dict(reversed(POLICIES.items()))).table
    assert all(equal(rows(turned, policy=policy), rows(together, policy=policy)) for policy in POLICIES)


@pytest.mark.parametrize("name", SCENARIOS)
def test_other_checkpoints_do_not_matter(name: str) -> None:
    # but for the allocation, which is since the checkpoint before
    table = run(name).table.drop_columns(["allocation"])
    for checkpoints in ([333], list(range(1, 601)), [50, 51, 52, 599, 600], 7):
        other = run(name, checkpoints=checkpoints).table.drop_columns(["allocation"])
        common = sorted({*CHECKPOINTS} & {*other.column("round").to_pylist()})
        assert common
        assert equal(rows(other, round=common), rows(table, round=common))


def test_nothing_is_played_after_the_last_checkpoint() -> None:
    made = []

    def factory(problem: sf.Problem, seed: int) -> Always:
        made.append(Always([0.5, 0.5, 0.0, 0.0], seed))
        return made[-1]

    run(policies={"one": factory}, seeds=1, checkpoints=[5, 40])
    assert [len(player.told) for player in made] == [0, 40]  # the first is only looked at


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_order_of_seeds_does_not_matter(name: str) -> None:
    table, other = run(name, seeds=[0, 1, 2, 3]).table, run(name, seeds=[3, 1, 7]).table
    assert equal(run(name, seeds=4).table, table)
    for seed in (1, 3):
        assert equal(rows(other, seed=seed), rows(table, seed=seed))
    assert list(dict.fromkeys(other.column("seed").to_pylist())) == [3, 1, 7]


def test_seeds_do_matter() -> None:
    table = run().table
    for policy in POLICIES:
        losses = rows(table, policy=policy, round=HORIZON).column("loss").to_pylist()
        assert len(set(losses)) == SEEDS


# Where the safe set becomes empty: costs that are all 1 at first and 0 ever after, with a mean below the threshold


def misleading(horizon: int = 2_000) -> sf.Scenario:
    costs = np.zeros((horizon, 1, 2))
    costs[: horizon // 10] = 1.0
    problem = sf.Problem(2, [0.15], horizon, 0.9, sf.SafeStrategy([0.5, 0.5], [0.1]))
    losses = np.random.default_rng(4).random((horizon, 2))
    return sf.Scenario("misleading", problem, sf.losses.Fixed(losses), sf.costs.Fixed(costs))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [*SCENARIOS, "misleading"])
def test_blocks_equal_asking_and_telling_bit_for_bit(name: str, policy: str) -> None:
    scenario = SCENARIOS.get(name) or misleading()
    horizon = scenario.problem.rounds
    checkpoints = [1, 50, 333, horizon]
    disguised = {policy: lambda problem, seed: Disguised(POLICIES[policy](problem, seed))}
    by_block = sf.simulate(scenario, {policy: POLICIES[policy]}, 3, checkpoints, 1).table
    by_round = sf.simulate(scenario, disguised, 3, checkpoints, 1).table
    assert equal(by_block, by_round)
    if name == "misleading" and policy != "blind":  # else this would not test what happens then
        assert min(rows(by_block, round=horizon).column("empty_rounds").to_pylist()) > 0


# One world for all


def test_every_policy_of_a_seed_meets_the_same_world() -> None:
    made: dict[str, list[Always]] = {"even": [], "odd": []}

    def factory(name: str, strategy: list[float]) -> Callable[[sf.Problem, int], Always]:
        def build(problem: sf.Problem, seed: int) -> Always:
            made[name].append(Always(strategy, seed + len(name)))  # draws of their own
            return made[name][-1]

        return build

    scenario = sf.Scenario(
        "two", sf.Problem(2, [0.5], HORIZON), sf.losses.Bernoulli([0.3, 0.6]), sf.costs.Beta([[0.2, 0.7]], 5)
    )
    policies = {"even": factory("even", [0.5, 0.5]), "odd": factory("odd", [0.9, 0.1])}
    sf.simulate(scenario, policies, [8, 9], [HORIZON], 1)
    for seed, even, odd in zip([8, 9], made["even"][1:], made["odd"][1:], strict=True):
        (losses, costs), *_ = World(scenario, seed).blocks(HORIZON)
        for player in (even, odd):
            met = [(arm, losses[t, arm], (costs[t, 0, arm],)) for t, (arm, *_) in enumerate(player.told)]
            assert player.told == met
        arms = Counter((one[0], two[0]) for one, two in zip(even.told, odd.told, strict=True))
        assert set(arms) == set(product((0, 1), repeat=2))  # they did not just play alike
    assert made["even"][1].told != made["even"][2].told


def test_losses_costs_and_policies_draw_from_streams_of_their_own() -> None:
    # products of independent uniform numbers have mean 1/4 and variance 7/144; false-alarm rate ALARM (1e-6), and the
    # control is a stream with itself
    n, world = 20_000, World(SCENARIOS["plain"], 5)
    parts = [world.loss_generator.random(n), world._cost_generator.random(n)]
    parts.append(np.random.default_rng(policy_seed(5)).random(n))
    products = np.column_stack([parts[0] * parts[1], parts[1] * parts[2], parts[2] * parts[0]])
    assert p_value(products, np.full(3, 1 / 4), np.full(3, 7 / 144)) > ALARM
    assert p_value(parts[0][:, None] ** 2, np.full(1, 1 / 4), np.full(1, 7 / 144)) < ALARM


def test_adversaries_flip_the_same_coins_for_every_policy() -> None:
    class Witness(Adversary):
        """Losses that are the uniform numbers themselves."""

        n_arms = 2

        def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
            rng.random(out=out)

    made: list[Always] = []

    def factory(arm: int) -> Callable[[sf.Problem, int], Always]:
        def build(problem: sf.Problem, seed: int) -> Always:
            made.append(Always(np.eye(2)[arm], seed))
            return made[-1]

        return build

    scenario = sf.Scenario("witness", sf.Problem(2, [], 50), Witness())
    table = sf.simulate(scenario, {"a": factory(0), "b": factory(0), "c": factory(1)}, [1], [50], 1).table
    _, _, _, one, two, other = made  # three that are only looked at come first
    assert one.told == two.told != other.told
    assert len(set(table.column("bandit_complexity").to_pylist())) == 1


def test_adversaries_see_what_was_played() -> None:
    seen: list[Seen] = []

    class Watching(sf.losses.RaiseMostPlayed):
        def respond(self, out: Floats, seen_: Seen, rng: np.random.Generator) -> None:
            seen.append(Seen(seen_.round, seen_.horizon, seen_.strategy.copy(), seen_.counts.copy()))
            super().respond(out, seen_, rng)

    scenario = sf.Scenario("watched", sf.Problem(2, [], 40), Watching([0.5, 0.5], 0.5))
    player = Always([0.25, 0.75], 1)
    sf.simulate(scenario, {"one": lambda problem, seed: player}, [1], [7, 40], 1)
    assert [one.round for one in seen] == list(range(40))
    for t, one in enumerate(seen):
        assert one.horizon == 40
        assert one.strategy.tolist() == [0.25, 0.75]
        assert one.counts.tolist() == [sum(told[0] == arm for told in player.told[:t]) for arm in (0, 1)]


# Interruption


class Counted:
    """Makes policies, counts how often for which seed, and stops the run in the world of one seed, once it is armed."""

    def __init__(self, stop_at: int | None = None, how: Callable[[], None] | None = None, **options: Any) -> None:
        self.stop_at = None if stop_at is None else policy_seed(stop_at)
        self.how, self.options, self.calls = how, options, Counter[int]()

    def __call__(self, problem: sf.Problem, seed: int) -> "Stoppable":
        self.calls[seed] += 1
        return Stoppable(quick(sf.COLB, **self.options)(problem, seed), self.how if seed == self.stop_at else None)

    def made(self) -> dict[int, int]:
        """How often for which of the first seeds; the plan itself makes one with seed 0, to look at it."""
        assert self.calls[0] == 1
        return {seed: self.calls[policy_seed(seed)] for seed in range(9) if self.calls[policy_seed(seed)]}


class Stoppable(Disguised):
    def __init__(self, policy: sf.Policy[Any], how: Callable[[], None] | None) -> None:
        super().__init__(policy)
        self.how = how

    def ask(self) -> sf.Decision:
        if self.policy.round == 100 and self.how is not None:
            self.how()
        return super().ask()


def interrupt() -> None:
    raise KeyboardInterrupt


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # until the main thread has heard it: it listens to the next one as usual again
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            return
        time.sleep(0.01)


@pytest.fixture(params=[interrupt, press_ctrl_c])
def how(request: pytest.FixtureRequest) -> Callable[[], None]:
    if request.param is press_ctrl_c and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("someone else listens to Ctrl-C")
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_interrupted_run_goes_on_where_it_stopped(how: Callable[[], None], workers: int) -> None:
    whole = run(policies={"a": Counted(), "b": quick(sf.SOLB)}, seeds=6)
    with pytest.warns(UserWarning, match=r"^stopped with \d+ runs missing; pass resume=run to go on"):
        part = run(policies={"a": Counted(3, how), "b": quick(sf.SOLB)}, seeds=6, workers=workers)
    assert not part.complete
    assert whole.complete
    done = {(row["policy"], row["seed"]) for row in part.table.to_pylist()}
    assert ("a", 3) not in done
    for policy, seed in done:
        assert equal(rows(part.table, policy=policy, seed=seed), rows(whole.table, policy=policy, seed=seed))
    counted = Counted()
    resumed = run(policies={"a": counted, "b": quick(sf.SOLB)}, seeds=6, resume=part, workers=workers)
    assert resumed.complete
    assert equal(resumed.table, whole.table)
    assert counted.made() == {seed: 1 for seed in range(6) if ("a", seed) not in done}


def test_what_was_finished_before_an_interruption_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    # one after the other; the last is interrupted when the others have been taken in
    taken, take = threading.Semaphore(0), Keeper.take

    def taking(self: Keeper, task: Task, result: Result) -> None:
        take(self, task, result)
        for _ in result.about.seeds:
            taken.release()

    def late() -> None:
        for _ in range(2):  # the third is perhaps in the same task
            taken.acquire(timeout=60)
        raise KeyboardInterrupt

    monkeypatch.setattr(Keeper, "take", taking)
    with pytest.warns(UserWarning, match="^stopped with 1 runs missing"):
        part = run(policies={"a": Counted(3, late)}, seeds=4)
    assert set(part.table.column("seed").to_pylist()) == {0, 1, 2}
    assert part.provenance["simulations"][0]["missing_episodes"] == 1


def test_ctrl_c_is_as_before_when_a_run_is_over() -> None:
    before = signal.getsignal(signal.SIGINT)
    run(seeds=1)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ValueError, match="told"):
        run(policies={"one": always([0.5, 0.5, 0.0, 0.0], tell=fail)}, seeds=1)
    assert signal.getsignal(signal.SIGINT) is before


def fail(*_: Any) -> None:
    raise ValueError("told")


def test_a_run_that_is_complete_is_not_run_again(tmp_path: Path) -> None:
    whole = run(policies={"a": Counted()})
    whole.save(tmp_path)
    for before in (whole, sf.Run.load(tmp_path)):
        counted = Counted()
        again = run(policies={"a": counted}, resume=before)
        assert equal(again.table, whole.table)
        assert counted.made() == {}


def test_seeds_that_are_new_are_run() -> None:
    before = run(policies={"a": Counted()}, seeds=[0, 2])
    counted = Counted()
    more = run(policies={"a": counted}, seeds=4, resume=before)
    assert counted.made() == {1: 1, 3: 1}
    assert equal(more.table, run(policies={"a": Counted()}).table)
    fewer = run(policies={"a": counted}, seeds=[2], resume=before)
    assert equal(fewer.table, rows(more.table, seed=2))


def test_a_policy_with_other_options_is_run_again_and_no_other() -> None:
    before = run(policies={"a": Counted(), "b": Counted()})
    same, changed = Counted(), Counted(learning_rate=0.1)
    with pytest.warns(UserWarning, match=r"^the earlier run of b in .* is not reused, because the policy changed$"):
        after = run(policies={"a": same, "b": changed}, resume=before)
    assert same.made() == {}
    assert changed.made() == {0: 1, 1: 1, 2: 1, 3: 1}
    assert equal(rows(after.table, policy="a"), rows(before.table, policy="a"))
    fresh = run(policies={"a": Counted(), "b": Counted(learning_rate=0.1)})
    assert equal(after.table, fresh.table)
    assert not equal(after.table, before.table)


def other_scenarios() -> Iterator[sf.Scenario]:
    plain = SCENARIOS["plain"]
    parts = {name: getattr(plain, name) for name in ("id", "problem", "losses", "costs", "about", "arms", "guardrails")}
    problem = plain.problem.to_dict()
    yield sf.Scenario(**{**parts, "id": "another"})
    yield sf.Scenario(**{**parts, "losses": sf.losses.Bernoulli([0.6, 0.7, 0.3, 0.21])})
    yield sf.Scenario(**{**parts, "costs": sf.costs.Bernoulli(plain.mean_costs, correlation=0.1)})
    yield sf.Scenario(**{**parts, "problem": sf.Problem.from_dict({**problem, "delta": 0.1})})
    yield sf.Scenario(**{**parts, "problem": sf.Problem.from_dict({**problem, "horizon": HORIZON + 1})})


@pytest.mark.parametrize("which", range(5))
def test_nothing_of_another_scenario_is_used(which: int) -> None:
    scenario = list(other_scenarios())[which]
    before, counted = run(policies={"a": Counted()}, seeds=2), Counted()
    with pytest.warns(UserWarning, match="is not reused, because its scenario changed$") if which else nullcontext():
        after = sf.simulate(scenario, {"a": counted}, 2, CHECKPOINTS, 1, resume=before)
    assert counted.made() == {0: 1, 1: 1}
    assert equal(after.table, sf.simulate(scenario, {"a": Counted()}, 2, CHECKPOINTS, 1).table)


@pytest.mark.parametrize("checkpoints", [[50, 600], [2, 50, 333, 600], [1, 50, 333, 599]])
def test_nothing_with_other_checkpoints_is_used(checkpoints: list[int]) -> None:
    before, counted = run(policies={"a": Counted()}, seeds=1), Counted()
    with pytest.warns(UserWarning, match="is not reused, because its checkpoints changed$"):
        after = run(policies={"a": counted}, seeds=1, checkpoints=checkpoints, resume=before)
    assert counted.made() == {0: 1}
    assert after.table.column("round").to_pylist() == checkpoints


# Errors at the door


@pytest.mark.parametrize(
    "seeds", [0, -1, 1.5, True, None, "3", math.nan, 2 * 10**9, [], [1, 1], [-1], [1.5], [True], [None], ["1"], [[1]]]
)
def test_bad_seeds_are_refused(seeds: Any) -> None:
    with pytest.raises(ValueError, match=r"^seeds.* must .*, got"):
        run(seeds=seeds)


def test_seeds_too_large_for_the_table_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^seeds.* must .*, got"):
        run(seeds=[2**63])


@pytest.mark.parametrize(
    "checkpoints",
    [0, -1, 1.5, True, "3", math.nan, [], [0, 5], [5, 5], [5, 3], [601], [1.5], [True], [None], ["1"], [[1]], 10**400],
)
def test_bad_checkpoints_are_refused(checkpoints: Any) -> None:
    with pytest.raises(ValueError, match=r"^checkpoints.* must .*, got"):
        run(checkpoints=checkpoints)


def test_whole_numbers_may_be_written_as_floats() -> None:
    natural = run(seeds=2.0, checkpoints=[np.float64(1e2), 6e2], workers=1.0)
    plain = run(seeds=2, checkpoints=[100, 600], workers=1)
    assert natural.table == plain.table
    assert json.dumps(natural.provenance["simulations"][0]["checkpoints"]) == "[100, 600]"
    assert run(seeds=[0.0, np.int64(1)], checkpoints=[100, 600]).table == plain.table


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "3", 5000, [2]])
def test_bad_workers_are_refused(workers: Any) -> None:
    with pytest.raises(ValueError, match=r"^workers must .*, got"):
        run(workers=workers)


@pytest.mark.parametrize(
    "policies",
    [
        None, {}, [], [sf.COLB], sf.COLB, "colb", {"a": None}, {"a": "colb"}, {1: sf.COLB}, {"": sf.COLB},
        {" ": sf.COLB}, {"a\nb": sf.COLB}, {"a": sf.COLB, "b": None}, {"a": lambda problem, seed: None},
        {"a": lambda problem, seed: object()}, {"a": sf.COLB(SCENARIOS["plain"].problem)},
    ],
)  # fmt: skip
def test_bad_policies_are_refused(policies: Any) -> None:
    with pytest.raises(ValueError, match=r"^policies.* must .*, got"):
        run(policies=policies)


@pytest.mark.parametrize("scenario", [None, "stochastic-v1", SCENARIOS["plain"].problem, sf.Scenario])
def test_bad_scenarios_are_refused(scenario: Any) -> None:
    with pytest.raises(ValueError, match=r"^scenario must be a Scenario, got"):
        sf.simulate(scenario, POLICIES)


@pytest.mark.parametrize("resume", ["run", 3, {}, pa.table({})])
def test_bad_runs_to_resume_are_refused(resume: Any) -> None:
    with pytest.raises(ValueError, match=r"^resume must be a Run, got"):
        run(resume=resume)


def test_thresholds_that_cannot_be_met_are_refused() -> None:
    scenario = sf.Scenario(
        "hopeless", sf.Problem(2, [0.5], 100), sf.losses.Bernoulli([0.1, 0.2]), sf.costs.Bernoulli([[0.8, 0.9]])
    )
    with pytest.raises(sf.Infeasible, match=r"^thresholds\[0\] = 0.5 cannot be met"):
        sf.simulate(scenario, {"colb": sf.COLB}, 1)


def test_a_hard_policy_without_a_safe_strategy_is_refused() -> None:
    scenario = sf.Scenario("no-safe", sf.Problem(2, [], 100), sf.losses.Bernoulli([0.1, 0.2]))
    with pytest.raises(ValueError, match=r"^problem must have a safe strategy for SOLB, got safe=None"):
        sf.simulate(scenario, {"colb": sf.COLB, "solb": sf.SOLB}, 1)


# Worlds and policies of a user's own that break the rules


class Spoilt(sf.losses.Bernoulli):
    """One loss that is none, in round 77."""

    value = 1.2

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        super().fill(out, first, horizon, rng, costs)
        if first <= 77 < first + len(out):
            out[77 - first, 1] = self.value


class SpoiltCosts(sf.costs.Bernoulli):
    value = 1.2

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        super().fill(out, first, rng)
        if first <= 77 < first + len(out):
            out[77 - first, 0, 1] = self.value


class SpoiltAdversary(sf.losses.RaiseMostPlayed):
    value = 1.2

    def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
        super().respond(out, seen, rng)
        if seen.round == 77:
            out[1] = self.value


@pytest.mark.parametrize("value", [1.2, -0.1, math.nan, math.inf])
@pytest.mark.parametrize("what", ["losses", "costs", "adversary"])
def test_worlds_that_leave_the_range_are_refused(what: str, value: float) -> None:
    losses: Any = Spoilt([0.3, 0.6]) if what == "losses" else sf.losses.Bernoulli([0.3, 0.6])
    costs: Any = SpoiltCosts([[0.3, 0.2]]) if what == "costs" else sf.costs.Bernoulli([[0.3, 0.2]])
    if what == "adversary":
        losses = SpoiltAdversary([0.3, 0.6])
    for model in (losses, costs):
        model.value = value
    scenario = sf.Scenario("spoilt", sf.Problem(2, [0.5], HORIZON), losses, costs)
    named = {"losses": r"losses\[77, 1\]", "costs": r"costs\[77, 0, 1\]", "adversary": "losses"}[what]
    with pytest.raises(ValueError, match=rf"^{named} must be in \[0, 1\], got .*{value}"):
        sf.simulate(scenario, {"colb": sf.COLB}, 2, [HORIZON], 2)


@pytest.mark.parametrize(
    "strategy", [[0.5, 0.6], [0.5, 0.4], [1.5, -0.5], [math.nan, 1.0], [1.0], [0.5, 0.25, 0.25], [[0.5, 0.5]], []]
)
def test_what_is_no_strategy_is_refused(strategy: Any) -> None:
    scenario = sf.Scenario("two", sf.Problem(2, [], 100), sf.losses.Bernoulli([0.1, 0.2]))
    with pytest.raises(ValueError, match=r"^strategy of mine must be 2 shares that sum to 1, got"):
        sf.simulate(scenario, {"mine": always(strategy)}, 1, [100], 1)


@pytest.mark.parametrize("arm", [-1, 2])
def test_arms_that_do_not_exist_are_refused(arm: int) -> None:
    scenario = sf.Scenario("two", sf.Problem(2, [], 100), sf.losses.Bernoulli([0.1, 0.2]))
    with pytest.raises(ValueError, match=r"must .*, got"):
        sf.simulate(scenario, {"mine": always([0.5, 0.5], ask=lambda: sf.Decision(arm, 0.5))}, 1, [100], 1)


def test_an_error_of_a_policy_comes_through() -> None:
    with pytest.raises(ValueError, match="told"):
        run(policies={"good": quick(sf.COLB), "bad": always([0.5, 0.5, 0.0, 0.0], tell=fail)}, workers=2)


# What is kept


def test_a_run_survives_being_saved(tmp_path: Path) -> None:
    before = run()
    assert before.save(tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    after = sf.Run.load(tmp_path / "new" / "folder")
    assert after.table.equals(before.table)
    assert after.table.schema == SCHEMA
    assert after.provenance == before.provenance
    assert after.complete
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["parts", "provenance.json"]


def test_a_run_replaces_an_older_one(tmp_path: Path) -> None:
    run(seeds=1).save(tmp_path)
    new = run(seeds=2)
    new.save(str(tmp_path))
    assert sf.Run.load(str(tmp_path)).table.equals(new.table)


def test_an_empty_run_can_be_kept(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="stopped with 1 runs missing"):
        part = run(policies={"a": Counted(0, interrupt)}, seeds=1)
    part.save(tmp_path)
    loaded = sf.Run.load(tmp_path)
    assert loaded.table.num_rows == loaded.summary().num_rows == loaded.final().num_rows == 0
    assert not loaded.complete


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    foreign = [tmp_path / name for name in ("missing", "empty", "noise", "other", "bare")]
    for folder in foreign[1:]:
        folder.mkdir()
    (foreign[2] / "run.parquet").write_text("no table")
    parquet.write_table(pa.table({"a": [1]}), foreign[3] / "run.parquet")
    parquet.write_table(run(seeds=1).table, foreign[4] / "run.parquet")  # the table alone, without its provenance
    for folder in foreign:
        with pytest.raises(ValueError, match=r"^folder must hold a run.*, got"):
            sf.Run.load(folder)


def test_a_run_tells_how_to_make_it_again() -> None:
    (part,) = run(seeds=[3, 5]).provenance["simulations"]
    assert part["scenario"] == SCENARIOS["plain"].to_dict()
    assert part["seeds"] == [3, 5]
    assert part["checkpoints"] == CHECKPOINTS
    assert part["policies"]["colb"]["policy"] == "COLB"
    assert part["policies"]["colb"]["kind"] == "soft"
    assert part["policies"]["colb"]["options"]["learning_rate"] == 0.3
    assert part["versions"]["surefoot"] == sf.__version__
    assert part["missing_episodes"] == 0


# Summaries


def test_final_holds_the_last_checkpoint() -> None:
    made = run()
    assert equal(made.final(), rows(made.table, round=HORIZON))
    short = run(checkpoints=[1, 40])
    assert equal(short.final(), rows(short.table, round=40))


@pytest.mark.parametrize("name", ["loss", "regret", "safety_regret", "violation", "rounds_in_violation", "safe_weight"])
def test_summaries_are_what_numpy_finds(name: str) -> None:
    made = run(seeds=7)
    student = 2.4469118511449692  # 97.5 % of Student's t with 6 degrees of freedom
    summary = made.summary(all_checkpoints=True)
    assert summary.num_rows == len(POLICIES) * len(CHECKPOINTS)
    for row in summary.to_pylist():
        values = rows(made.table, policy=row["policy"], round=row["round"]).column(name).to_numpy().astype(float)
        half = student * math.sqrt(((values - values.mean()) ** 2).sum() / 6 / 7)
        assert row["seeds"] == len(values) == 7
        assert row[name] == pytest.approx(values.mean(), rel=1e-12, abs=1e-12)
        assert row[f"{name}_low"] == pytest.approx(values.mean() - half, rel=1e-9, abs=1e-9)
        assert row[f"{name}_high"] == pytest.approx(values.mean() + half, rel=1e-9, abs=1e-9)
        ordered = np.sort(values)  # the quantiles of seven: between the first and second, the fourth, ...
        for percent, place in ((10, 0.6), (50, 3.0), (90, 5.4)):
            below = int(place)
            between = ordered[below] + (place - below) * (ordered[min(below + 1, 6)] - ordered[below])
            assert row[f"{name}_q{percent}"] == pytest.approx(between, rel=1e-12, abs=1e-12)


def test_summaries_count_runs_with_violations() -> None:
    class Coin(Always):
        """Breaks the guardrail from round 11 on, in the worlds of some seeds, and lets go of the safe strategy."""

        def __init__(self, seed: int) -> None:
            super().__init__([0.0, 1.0], seed)
            self.wild, self.safe_weight = seed in map(policy_seed, (2, 3, 5)), 0.5

        def tell(self, decision: sf.Decision, loss: float, costs: list[float]) -> None:
            super().tell(decision, loss, costs)
            if self.wild and len(self.told) == 10:
                self.strategy, self.safe_weight = np.array([1.0, 0.0]), 0.0

    problem = sf.Problem(2, [0.5], 50, safe=sf.SafeStrategy([0.0, 1.0], [0.25]))
    scenario = sf.Scenario("coin", problem, sf.losses.Fixed([0.2, 0.6]), sf.costs.Fixed([[0.75, 0.25]]))
    made = sf.simulate(scenario, {"coin": lambda problem, seed: Coin(seed)}, 8, [10, 50], 1)
    early, late = made.summary(all_checkpoints=True).to_pylist()
    assert (early["violating_runs"], early["violating_share"], early["violating_share_low"]) == (0, 0.0, 0.0)
    assert (late["violating_runs"], late["violating_share"]) == (3, 3 / 8)
    assert 0.08 < late["violating_share_low"] < 3 / 8 < late["violating_share_high"] < 0.76  # binomial tables
    assert (early["worst_margin"], late["worst_margin"]) == (0.25, -0.25)
    assert (early["loose_runs"], late["loose_runs"]) == (0, 3)
    assert late["rounds_until_loose_q50"] is None  # not all did
    assert made.summary().to_pylist() == [late]
    wild = sf.simulate(scenario, {"coin": lambda problem, seed: Coin(seed)}, [2, 3], [50], 1)
    assert wild.summary().to_pylist()[0]["rounds_until_loose_q50"] == 10


# Checkpoints


@given(horizon=st.integers(3, 10**15), checkpoints=st.none() | st.integers(1, 60))
def test_checkpoints_end_with_the_horizon(horizon: int, checkpoints: int | None) -> None:
    rounds = chosen_rounds(checkpoints, horizon)
    assert rounds[-1] == horizon
    assert rounds[0] >= 1
    assert sorted(set(rounds)) == rounds
    assert checkpoints is None or len(rounds) <= checkpoints


def test_default_checkpoints_are_those_of_the_run() -> None:
    made = run(policies={"colb": quick(sf.COLB)}, seeds=1, checkpoints=None)
    rounds = made.table.column("round").to_pylist()
    assert rounds == made.provenance["simulations"][0]["checkpoints"]
    assert rounds[-1] == HORIZON
    assert 20 <= len(rounds) <= 40


# Sizes


def test_as_many_arms_as_rounds() -> None:
    problem = sf.Problem(6, [0.5], 6, safe=sf.SafeStrategy(np.eye(6)[0], [0.1]))
    costs = sf.costs.Bernoulli(np.linspace(0.1, 0.9, 6)[None, :])
    scenario = sf.Scenario("square", problem, sf.losses.Bernoulli(np.linspace(0.9, 0.1, 6)), costs)
    table = sf.simulate(scenario, POLICIES, 3, range(1, 7), 2).table
    assert table.num_rows == 3 * 3 * 6
    assert all(abs(sum(row["strategy"]) - 1) < 1e-12 for row in table.to_pylist())


def test_more_arms_than_a_block_is_meant_for() -> None:
    # a block has 64 rounds at least, however many arms
    n_arms = 2_600
    scenario = sf.Scenario("wide", sf.Problem(n_arms, [], n_arms), sf.losses.Bernoulli(np.linspace(0, 1, n_arms)))
    table = sf.simulate(scenario, {"one": always(np.eye(n_arms)[0])}, 1, [66], 1).table
    assert table.column("loss").to_pylist() == [0.0]


class Hoarder(sf.COLB):
    """Keeps every strategy it ever played."""

    def live(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        super().live(losses, costs, strategies, safe_weights)
        vars(self).setdefault("kept", []).append(strategies.copy())


def peak(policy: type[sf.Policy[Any]], horizon: int) -> int:
    """The most memory in use at once during a run, in bytes."""
    scenario = sf.scenarios.make("lower-bound-v1", horizon=horizon)
    tracemalloc.start()
    try:
        sf.simulate(scenario, {"one": policy}, 1, [horizon // 4, horizon // 2, horizon], 1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_horizon() -> None:
    peak(sf.COLB, 40_000)  # what is imported and compiled on the way does not count
    assert peak(sf.COLB, 400_000) < 2 * peak(sf.COLB, 40_000)
    peak(Hoarder, 40_000)
    assert peak(Hoarder, 400_000) > 2 * peak(Hoarder, 40_000)  # the control
