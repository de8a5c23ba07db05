"""What every policy must keep, as a test class to inherit from.

To run it on a policy of your own::

    from tests.contracts.suite import PolicyContract

    class TestMine(PolicyContract):
        @staticmethod
        def make(problem, seed):
            return MyPolicy(problem, seed)

A policy that needs no safe strategy is given one all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import surefoot as sf

SIZES = {
    "K=2 m=1": (2, [0.5]),
    "K=5 m=0": (5, []),
    "K=5 m=2": (5, [0.4, 0.7]),
    "K=10 m=12": (10, [0.5] * 12),
    "thresholds of 0 and 1": (4, [1.0, 0.3]),
}


def make_problem(size: str, horizon: int = 300) -> sf.Problem:
    n_arms, thresholds = SIZES[size]
    safe = sf.SafeStrategy(np.eye(n_arms)[-1], [t / 2 for t in thresholds])
    return sf.Problem(n_arms, thresholds, horizon, 0.05, safe)


def rounds(problem: sf.Problem, seed: int) -> Iterator[tuple[float, list[float]]]:
    """Losses and costs, the same for whoever asks."""
    rng = np.random.default_rng(seed)
    while True:
        yield float(rng.random()), [float(cost) for cost in rng.random(problem.n_constraints) < 0.5]


@pytest.mark.filterwarnings("ignore:the margin")
class PolicyContract:
    """The contract of `surefoot.Policy`, one test a clause."""

    @staticmethod
    def make(problem: sf.Problem, seed: int) -> Any:
        raise NotImplementedError

    @pytest.fixture(params=SIZES)
    def problem(self, request: pytest.FixtureRequest) -> sf.Problem:
        return make_problem(request.param)

    def play(self, policy: Any, n_rounds: int, seed: int = 0) -> list[sf.Decision]:
        decisions = []
        for _, (loss, costs) in zip(range(n_rounds), rounds(policy.problem, seed), strict=False):
            decisions.append(policy.ask())
            policy.tell(decisions[-1], loss, costs)
        return decisions

    def test_strategies_are_strategies(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        for _ in range(problem.horizon):
            strategy = policy.strategy
            assert strategy.shape == (problem.n_arms,)
            assert np.isfinite(strategy).all()
            assert (strategy >= 0).all()
            assert abs(strategy.sum() - 1) < 1e-12
            if hasattr(policy, "inverse_caps"):
                assert (policy.proposal >= problem.floor).all()
                assert abs(policy.proposal.sum() - 1) < 1e-12
            self.play(policy, 1, seed=policy.round)

    def test_proposals_stay_in_the_estimated_safe_set(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        if not hasattr(policy, "inverse_caps") or policy.kind == "none":
            pytest.skip("has no truncated safe set")
        for _ in range(problem.horizon):
            self.play(policy, 1, seed=policy.round)
            if policy.empty_rounds == 0:
                assert (policy.lower_costs @ policy.proposal <= problem.limits + 1e-9).all()

    def test_hard_policies_keep_the_thresholds_at_the_upper_bounds(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        if policy.kind != "hard" or not hasattr(policy, "upper_costs"):
            pytest.skip("promises no such thing")
        for _ in range(problem.horizon):
            self.play(policy, 1, seed=policy.round)
            weight = policy.safe_weight
            assert 0.0 <= weight <= 1.0
            preset = getattr(policy, "preset", None)
            if preset is None or preset.name == "paper":  # the safe strategy alone is mixed in, and nothing else known
                upper = np.minimum(1.0, policy.upper_costs @ policy.proposal)
                assert (weight * problem.safe.costs + (1 - weight) * upper <= problem.thresholds + 1e-12).all()
            # whatever is mixed in: of what is played, the part that is the safe strategy has known costs
            strategy, safe = policy.strategy, problem.safe
            share = (strategy / np.where(safe.strategy > 0, safe.strategy, np.nan))[safe.strategy > 0].min()
            rest = np.maximum(0.0, strategy - share * safe.strategy)
            costs = share * safe.costs + np.minimum(1 - share, policy.upper_costs @ rest)
            assert (costs <= problem.thresholds + 1e-12).all()

    def test_without_a_horizon_it_says_so_or_plays_on(self, problem: sf.Problem) -> None:
        endless = sf.Problem(problem.n_arms, problem.thresholds, None, problem.delta, problem.safe)
        try:
            policy = self.make(endless, 3)
        except ValueError:
            with pytest.raises(ValueError, match=r"problem must have a horizon for \w+.*, got horizon=None"):
                self.make(endless, 3)
            return
        self.play(policy, 2 * problem.horizon)
        assert policy.round == 2 * problem.horizon
        assert type(policy).from_dict(json.loads(json.dumps(policy.to_dict()))).ask() == policy.ask()

    def test_same_seed_same_run(self, problem: sf.Problem) -> None:
        one, two, other = self.make(problem, 3), self.make(problem, 3), self.make(problem, 4)
        first = self.play(one, 60)
        assert first == self.play(two, 60)
        if any(decision.propensity < 1 for decision in first):  # else nothing was left to chance
            assert first != self.play(other, 60)
        assert (one.strategy == two.strategy).all()

    def test_ask_follows_the_strategy(self, problem: sf.Problem) -> None:
        # chi-square against the strategy; the 1e-6 quantile is the false-alarm rate, and the uniform strategy (or a
        # skewed one, where the strategy is uniform) is the control that must be caught
        policy = self.make(problem, 3)
        self.play(policy, 40)
        strategy = policy.strategy
        decisions = [policy.ask() for _ in range(4000)]
        assert all(d.propensity == strategy[d.arm] for d in decisions)
        counts = np.bincount([d.arm for d in decisions], minlength=problem.n_arms)
        assert chi_square_p(counts, strategy) > 1e-6
        wrong = (
            np.roll(strategy, 1) if np.ptp(strategy) > 0.1 else np.linspace(0.5, 1.5, problem.n_arms) / problem.n_arms
        )
        assert chi_square_p(counts, wrong) < 1e-6

    def test_asking_changes_nothing_but_the_generator(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        self.play(policy, 20)
        before = policy.to_dict()
        policy.ask()
        after = policy.to_dict()
        assert before.pop("generator") != after.pop("generator")
        assert before == after

    def test_state_round_trip_is_exact(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        self.play(policy, 50)
        restored = type(policy).from_dict(json.loads(json.dumps(policy.to_dict())))
        assert restored.round == policy.round == 50
        assert restored.to_dict() == policy.to_dict()
        assert self.play(restored, 50, seed=9) == self.play(policy, 50, seed=9)
        assert restored.to_dict() == policy.to_dict()

    def test_a_block_of_rounds_equals_asking_and_telling(self, problem: sf.Problem) -> None:
        by_block, by_round = self.make(problem, 3), self.make(problem, 3)
        rng = np.random.default_rng(5)
        losses = rng.random((120, problem.n_arms))
        costs = (rng.random((120, problem.n_constraints, problem.n_arms)) < 0.5).astype(float)
        strategies, weights = np.empty_like(losses), np.empty(120)
        for cut in (slice(0, 1), slice(1, 50), slice(50, 120)):
            by_block.live(losses[cut], costs[cut], strategies[cut], weights[cut])
        for t in range(120):
            assert (by_round.strategy == strategies[t]).all()
            assert by_round.safe_weight == weights[t]
            decision = by_round.ask()
            by_round.tell(decision, losses[t, decision.arm], costs[t, :, decision.arm])
        assert by_block.to_dict() == by_round.to_dict()

    def test_no_block_goes_beyond_the_horizon(self, problem: sf.Problem) -> None:
        policy, n = self.make(problem, 3), problem.horizon + 1
        before = policy.to_dict()
        block = np.zeros((n, problem.n_arms)), np.zeros((n, problem.n_constraints, problem.n_arms))
        with pytest.raises(ValueError, match="horizon"):
            policy.live(*block, np.empty((n, problem.n_arms)), np.empty(n))
        assert policy.to_dict() == before

    def test_replay_equals_live(self, problem: sf.Problem) -> None:
        live, replayed = self.make(problem, 3), self.make(problem, 99)
        for decision, (loss, costs) in zip(self.play(live, 60), rounds(problem, 0), strict=False):
            replayed.tell(sf.Decision(*decision), loss, costs)
        if getattr(live, "empty_rounds", 0) == 0 and not samples(live):
            assert (live.strategy == replayed.strategy).all()

    def test_late_feedback_uses_the_propensity_of_its_own_decision(self, problem: sf.Problem) -> None:
        # two decisions drawn from one strategy: told at once or later, in either order, each counts by what it carries
        policy, twin = self.make(problem, 3), self.make(problem, 3)
        one, two = policy.ask(), policy.ask()
        assert (twin.ask(), twin.ask()) == (one, two)
        costs = [0.0] * problem.n_constraints
        policy.tell(one, 0.5, costs)
        twin.tell(one, 0.5, costs)
        copied = sf.Decision(*json.loads(json.dumps(two)))
        policy.tell(two, 0.9, costs)
        twin.tell(copied, 0.9, costs)
        assert (policy.strategy == twin.strategy).all()

    def test_delayed_equals_immediate_when_nothing_happened_between(self, problem: sf.Problem) -> None:
        policy, twin = self.make(problem, 3), self.make(problem, 3)
        if samples(policy):
            pytest.skip("asking moves the generator that learning draws from")
        costs = [0.0] * problem.n_constraints
        kept = policy.ask()
        policy.ask()
        policy.ask()
        policy.tell(kept, 1.0, costs)
        twin.tell(twin.ask(), 1.0, costs)
        assert (policy.strategy == twin.strategy).all()

    def test_hostile_input_is_refused_and_changes_nothing(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        self.play(policy, 10)
        good, costs = policy.ask(), [0.5] * problem.n_constraints
        before = policy.to_dict()
        wrong_decisions: list[Any] = [
            None, 3, "ab", (), (1,), (-1, 0.5), (problem.n_arms, 0.5), (1.5, 0.5), (True, 0.5), ("1", 0.5), (None, 0.5),
            (0, 0.0), (0, -0.1), (0, 1.5), (0, np.nan), (0, np.inf), (0, None), (0, "1"), (0, True),
        ]  # fmt: skip
        wrong_losses: list[Any] = [-0.1, 1.1, np.nan, np.inf, -np.inf, None, "0.5", [0.5], 1j, True]
        wrong_costs: list[Any] = [[*costs, 0.5], None, "costs", 0.5, [[*costs, 0.1]]]
        for bad in (-0.1, 1.1, np.nan, np.inf, None, "0.5"):
            wrong_costs += [[*costs[:-1], bad]] if costs else []
        calls: list[tuple[Any, Any, Any]] = [(decision, 0.5, costs) for decision in wrong_decisions]
        calls += [(good, loss, costs) for loss in wrong_losses]
        calls += [(good, 0.5, wrong) for wrong in wrong_costs]
        for call in calls:
            with pytest.raises(ValueError, match=r"must .*, got"):
                policy.tell(*call)
            assert policy.to_dict() == before, call

    def test_nothing_goes_beyond_the_horizon(self) -> None:
        problem = make_problem("K=2 m=1", horizon=25)
        policy = self.make(problem, 3)
        last = self.play(policy, 25)[-1]
        before = policy.to_dict()
        for call in (policy.ask, lambda: policy.tell(last, 0.5, [0.5])):
            with pytest.raises(ValueError, match="horizon"):
                call()
        assert policy.to_dict() == before

    def test_as_many_arms_as_rounds(self) -> None:
        safe = sf.SafeStrategy(np.eye(6)[0], [0.1])
        policy = self.make(sf.Problem(6, [0.5], 6, 0.05, safe), 3)
        self.play(policy, 6)
        assert abs(policy.strategy.sum() - 1) < 1e-12

    def test_shown_arrays_are_read_only_copies(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        before = policy.strategy
        with pytest.raises(ValueError, match="read-only"):
            before[0] = 1.0
        kept = before.copy()
        self.play(policy, 5)
        assert (before == kept).all()

    def test_bad_seeds_and_problems_are_refused(self, problem: sf.Problem) -> None:
        for seed in (-1, 1.5, "7", True):
            with pytest.raises(ValueError, match="seed must be a whole number >= 0, got"):
                self.make(problem, seed)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="problem must be a Problem, got"):
            self.make(None, 3)  # type: ignore[arg-type]

    def test_foreign_and_spoilt_states_are_refused(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        self.play(policy, 10)
        state = policy.to_dict()
        spoilt: list[Any] = [None, "a", [], {}]
        spoilt += [{name: value for name, value in state.items() if name != left_out} for left_out in state]
        for name, values in {
            "policy": ["Other", None],
            "version": [99, True, "1"],
            "problem": [None, {}, []],
            "options": [None, {"nonsense": 1}, 3, {"seed": 3, **state["options"]}],
            "round": [-1, 2.5, "7", True, None, problem.horizon + 1],
            "generator": [None, 3, {}, {"bit_generator": "PCG64"}, spoilt_generator(-1), spoilt_generator(2**200)],
            "state": [None, {}, [], {**state["state"], "more": [1]}],
        }.items():
            spoilt += [{**state, name: value} for value in values]
        for data in spoilt:
            with pytest.raises(ValueError, match=r"must .*, got"):
                type(policy).from_dict(data)

    def test_no_number_of_a_state_can_be_spoilt(self, problem: sf.Problem) -> None:
        policy = self.make(problem, 3)
        self.play(policy, 10)

        def spoil(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
            for name, value in part.items():
                if isinstance(value, dict):
                    yield from spoil(value, (*path, name))
                elif np.size(value):
                    for bad in (np.nan, -7.0, np.inf):
                        array = np.array(value, float)
                        array.flat[0] = bad
                        yield (*path, name), array.tolist()
                    yield (*path, name), value[:-1]
                    yield (*path, name), "text"

        for path, value in spoil(policy.to_dict()["state"]):
            data = policy.to_dict()
            part = data["state"]
            for name in path[:-1]:
                part = part[name]
            part[path[-1]] = value
            with pytest.raises(ValueError, match=r"must .*, got"):
                type(policy).from_dict(data)


def spoilt_generator(value: int) -> dict[str, Any]:
    state: dict[str, Any] = dict(np.random.PCG64(1).state)
    return {**state, "state": {**state["state"], "state": value}}


def samples(policy: Any) -> bool:
    """Whether a policy draws random numbers of its own when it learns."""
    return bool(getattr(policy, "algorithm", None) and policy.algorithm.random)


def chi_square_p(counts: np.ndarray, strategy: np.ndarray) -> float:
    """P-value of Pearson's test, rare arms put together."""
    from scipy.stats import chi2

    expected = strategy * counts.sum()
    rare = expected < 5
    if (counts[rare].sum() > 0) and expected[rare].sum() == 0:
        return 0.0
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0
    statistic = ((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum()
    return float(chi2.sf(statistic, max(1, keep.sum() - 1)))
