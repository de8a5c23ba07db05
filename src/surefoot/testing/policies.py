"""The contract of every policy, as a test class to inherit from."""

from __future__ import annotations

import copy
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot as sf
from surefoot.rules import Floats
from surefoot.testing.worlds import BINDING, SIZES, binding_rounds, make_problem, rounds, true_costs

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "bytes": lambda policy: type(policy).from_bytes(policy.to_bytes()),
}
"""Ways to get a second policy with the same future, besides `to_dict`."""

ASKING = ("generator", "asked", "open", "digest")
"""What `ask` changes in a saved policy."""


@pytest.mark.filterwarnings("ignore:the margin")
class PolicyContract:
    """The contract of `surefoot.Policy`, one test a clause. Inherit from it and define `make`.

    The clauses use public attributes only. A policy that shows `lower_costs`, `upper_costs` or `proposal` is tested for
    what these names promise; one that does not skips those clauses. Where a clause has to know something about the
    policy, a class attribute says it.

    Attributes
    ----------
    draws_when_told
        True if `tell` uses the policy's random generator, as Thompson sampling does. Replaying such a policy with
        another seed gives other strategies.
    weighs_losses
        True if a loss counts by the propensity of its decision (importance weighting), False if the propensity makes no
        difference.
    proposal_keeps_limits
        True if the policy's `proposal` keeps every limit at the lower bounds, False if `proposal` means something else.
    learnt_share
        The least share of a clearly best arm after 1,000 rounds. None for a policy that does not learn from losses, or
        takes longer.
    rounds_to_bind
        The horizon of the problems in which limits must bind. Raise it if a clause says that it tested nothing.

    Examples
    --------
    A test file with this class puts `UCB1` under contract:

    >>> import surefoot as sf
    >>> from surefoot.testing import PolicyContract
    >>> class TestMine(PolicyContract):
    ...     weighs_losses = False
    ...
    ...     @staticmethod
    ...     def make(problem, seed):
    ...         return sf.UCB1(problem, seed)
    >>> TestMine().test_learns_which_arm_is_best()
    """

    draws_when_told: bool = False
    weighs_losses: bool = True
    proposal_keeps_limits: bool = True
    learnt_share: float | None = 0.5
    rounds_to_bind: int = 800

    @staticmethod
    def make(problem: sf.Problem, seed: int) -> Any:
        """Build the policy under contract. Every problem has a safe strategy."""
        raise NotImplementedError

    @pytest.fixture(params=SIZES)
    def problem(self, request: pytest.FixtureRequest) -> sf.Problem:
        """Problems of several sizes."""
        return make_problem(request.param)

    @pytest.fixture(params=BINDING)
    def binding(self, request: pytest.FixtureRequest) -> sf.Problem:
        """Problems in which limits bind."""
        return make_problem(request.param, self.rounds_to_bind)

    @pytest.fixture
    def plain(self) -> sf.Problem:
        """A problem for clauses to which the size makes no difference."""
        return make_problem("K=5 m=2")

    def play(self, policy: Any, n_rounds: int, seed: int = 0) -> list[sf.Decision]:
        """Ask and tell in turn, with random feedback."""
        decisions = []
        for loss, costs in islice(rounds(policy.problem, seed), n_rounds):
            decisions.append(policy.ask())
            policy.tell(decisions[-1], loss, costs)
        return decisions

    # What is played

    def test_strategies_are_strategies(self, problem: sf.Problem) -> None:
        """Strategies are distributions over the arms; a proposal that has learning rates keeps above the floor."""
        policy = self.make(problem, 3)
        strategies, proposals = [], []
        for loss, costs in islice(rounds(problem, 0), problem.rounds):
            strategies.append(policy.strategy)
            if hasattr(policy, "learning_rates"):
                proposals.append(policy.proposal)
            policy.tell(policy.ask(), loss, costs)
        assert_strategies(np.array(strategies), problem.n_arms, 0.0)
        if proposals:
            assert_strategies(np.array(proposals), problem.n_arms, problem.floor)

    def test_proposals_stay_in_the_estimated_safe_set(self, binding: sf.Problem) -> None:
        """At the lower bounds a proposal keeps every limit, also when the losses pull it over one."""
        policy = self.make(binding, 3)
        if policy.kind == "none" or not hasattr(policy, "proposal") or not self.proposal_keeps_limits:
            pytest.skip("promises no such thing")
        uniform, bound = np.full(binding.n_arms, 1 / binding.n_arms), 0
        for feedback in binding_rounds(binding):
            policy.tell(*feedback)
            lower, proposal = policy.lower_costs, policy.proposal
            assert (lower @ proposal <= binding.limits + 1e-9).all(), f"over a limit in round {policy.round}"
            bound += bool((lower @ uniform > binding.limits).any())
        assert getattr(policy, "empty_rounds", 0) == 0
        assert bound >= 200, f"tested nothing: limits excluded the uniform strategy in {bound} rounds only"

    def test_hard_policies_keep_the_thresholds_at_the_upper_bounds(self, binding: sf.Problem) -> None:
        """At the upper bounds what a hard policy plays keeps every threshold; the safe strategy has known costs."""
        policy = self.make(binding, 3)
        if policy.kind != "hard" or not has_bounds(policy):
            pytest.skip("promises no such thing")
        safe, bound = binding.safe, 0
        assert safe is not None
        part = safe.strategy > 0
        for feedback in binding_rounds(binding):
            policy.tell(*feedback)
            strategy, weight, upper = policy.strategy, policy.safe_weight, policy.upper_costs
            assert 0.0 <= weight <= 1.0
            assert (strategy >= weight * safe.strategy - 1e-12).all(), "safe_weight is more than what is played"
            share = (strategy[part] / safe.strategy[part]).min()  # the share of the safe strategy in what is played
            rest = np.maximum(0.0, strategy - share * safe.strategy)
            costs = share * safe.costs + np.minimum(1 - share, upper @ rest)
            assert (costs <= binding.thresholds + 1e-12).all(), f"unsafe in round {policy.round}"
            bound += bool((upper < 1).any() and (upper[:, 0] > binding.thresholds).any())
        assert bound >= 200, f"tested nothing: there was something to know, and a limit to keep, in {bound} rounds only"

    def test_bounds_hold_with_their_probability(self) -> None:
        """The true costs are within the bounds that a policy shows, in all rounds, with probability 1 - delta.

        If they are, more than 6 of 12 runs fail with probability 5e-7.
        """
        problem = sf.Problem(4, [1.0, 1.0], 300, 0.05, sf.SafeStrategy([0, 0, 0, 1], [0.5, 0.5]))
        if not has_bounds(self.make(problem, 0)):
            pytest.skip("has no bounds")
        truth, failed = true_costs(problem), 0
        for seed in range(12):
            policy, rng = self.make(problem, seed), np.random.default_rng(seed + 1_000)
            inside = True
            for _ in range(10):
                costs = (rng.random((30, *truth.shape)) < truth).astype(float)
                policy.live(rng.random((30, 4)), costs, np.empty((30, 4)), np.empty(30))
                lower, upper = policy.lower_costs, policy.upper_costs
                inside &= bool((lower <= truth + 1e-12).all() and (truth <= upper + 1e-12).all())
            failed += not inside
        assert failed <= 6, f"a true cost was outside its bounds in {failed} of 12 runs"

    def test_learns_which_arm_is_best(self) -> None:
        """If one arm, well within the limits, loses nothing and all others lose 1, a policy learns to play that arm."""
        if self.learnt_share is None:
            pytest.skip("need not learn within 1,000 rounds")
        problem = sf.Problem(4, [0.6, 0.95], 1_000, 0.05, sf.SafeStrategy([0, 0, 0, 1], [0.3, 0.9]))
        policy, costs = self.make(problem, 3), true_costs(problem)
        best = 2
        losses = np.tile(np.arange(4) != best, (1_000, 1)).astype(float)
        strategies = np.empty((1_000, 4))
        policy.live(losses, np.tile(costs, (1_000, 1, 1)), strategies, np.empty(1_000))
        share = strategies[-100:, best].mean()
        assert share >= self.learnt_share, f"the best arm has a share of {share:.3g}"

    def test_without_a_horizon_it_says_so_or_plays_on(self, problem: sf.Problem) -> None:
        """A policy plays on without a horizon, or refuses a problem that has none."""
        endless = sf.Problem(problem.n_arms, problem.thresholds, None, problem.delta, problem.safe)
        try:
            policy = self.make(endless, 3)
        except ValueError:
            with pytest.raises(ValueError, match=r"problem must have a horizon for \w+.*, got horizon=None"):
                self.make(endless, 3)
            return
        self.play(policy, 2 * problem.rounds)
        assert policy.round == 2 * problem.rounds
        assert restored(policy).ask() == policy.ask()

    # Chance

    def test_same_seed_same_run(self, problem: sf.Problem) -> None:
        """The seed, and nothing else, decides what chance does."""
        one, two, other = self.make(problem, 3), self.make(problem, 3), self.make(problem, 4)
        first = self.play(one, 60)
        assert first == self.play(two, 60)
        if any(decision.propensity < 1 for decision in first):  # otherwise the policy did not use chance
            assert first != self.play(other, 60)
        assert (one.strategy == two.strategy).all()

    def test_ask_follows_the_strategy(self, problem: sf.Problem) -> None:
        """Arms are drawn with the probabilities of the strategy: a chi-square test at level 1e-6."""
        policy = self.make(problem, 3)
        self.play(policy, 40)
        strategy = policy.strategy
        decisions = [policy.ask() for _ in range(2000)]
        assert all(d.propensity == strategy[d.arm] for d in decisions)
        counts = np.bincount([d.arm for d in decisions], minlength=problem.n_arms)
        assert chi_square_p(counts, strategy) > 1e-6
        tilted = np.linspace(0.5, 1.5, problem.n_arms) / problem.n_arms
        wrong = np.roll(strategy, 1) if np.ptp(strategy) > 0.1 else tilted
        assert chi_square_p(counts, wrong) < 1e-6  # the control: the test would notice another strategy

    def test_draws_are_independent_of_a_world_with_the_same_seed(self, plain: sf.Problem) -> None:
        """A simulation that gives its world and the policy the same seed number is not misled.

        The correlation of 480 independent pairs is above 0.25 with probability 1e-7.
        """
        arms, chances = [], []
        for seed in range(60):
            policy, world = self.make(plain, seed), np.random.default_rng(seed)
            arms += [policy.ask().arm for _ in range(8)]
            chances += world.random(8).tolist()
        if np.ptp(arms) == 0:
            pytest.skip("the first strategy is a single arm: nothing is drawn")
        assert abs(np.corrcoef(arms, chances)[0, 1]) < 0.25

    def test_reseeding_changes_the_draws_alone(self, plain: sf.Problem) -> None:
        """`reseed` changes the draws and nothing else."""
        policy = self.make(plain, 3)
        self.play(policy, 20)
        other = restored(policy)
        other.reseed(8)
        assert shown(other) == shown(policy)
        draws = [[one.ask() for _ in range(100)] for one in (restored(policy), restored(other))]
        if any(decision.propensity < 1 - 1e-6 for decision in draws[0]):
            assert draws[0] != draws[1]
        for one in (policy, other):
            one.reseed(9)
        assert policy.to_dict() == other.to_dict()
        for seed in (-1, 1.5, "7", True):
            with pytest.raises(ValueError, match="seed must be a whole number >= 0, got"):
                policy.reseed(seed)

    def test_asking_teaches_nothing(self, problem: sf.Problem) -> None:
        """`ask` draws from the generator and numbers the decision. It changes nothing else."""
        policy = self.make(problem, 3)
        self.play(policy, 20)
        before, seen = policy.to_dict(), shown(policy)
        policy.ask()
        after = policy.to_dict()
        assert after != before
        assert {**after, **dict.fromkeys(ASKING)} == {**before, **dict.fromkeys(ASKING)}
        assert shown(policy) == seen

    # Feedback

    def test_a_block_of_rounds_equals_asking_and_telling(self, problem: sf.Problem) -> None:
        """`live` does in a block what `ask` and `tell` do in turn, bit for bit, wherever blocks are cut."""
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

    def test_replay_equals_live_however_late(self, plain: sf.Problem) -> None:
        """Feedback from one policy teaches another the same, for any seed of the other.

        Delays are arbitrary as long as every arm has its feedback in the order of asking.
        """
        if self.draws_when_told:
            pytest.skip("tell draws from the generator")

        @settings(max_examples=12, deadline=None, derandomize=True, database=None)
        @given(late_feedback(plain.n_constraints))
        def replay(told: list[tuple[float, list[float], int]]) -> None:
            live, replayed = self.make(plain, 3), self.make(plain, 99)
            for decision, loss, costs in in_order_of_arrival(live, told):
                live.tell(sf.Decision(*json.loads(json.dumps(decision))), loss, costs)
                replayed.tell(decision[:3], loss, costs)  # without the number: another policy has made the decision
                assert_strategies(live.strategy[None], plain.n_arms, 0.0)
            assert live.round == replayed.round == len(told)
            if getattr(live, "empty_rounds", 0) == 0:
                assert (live.strategy == replayed.strategy).all()

        replay()

    def test_late_feedback_uses_the_propensity_of_its_own_decision(self, problem: sf.Problem) -> None:
        """Late feedback counts by the propensity in its decision, or propensities make no difference at all."""
        policy, twin = self.make(problem, 3), self.make(problem, 3)
        kept, costs = policy.ask(), [0.0] * problem.n_constraints
        assert twin.ask() == kept
        for one in (policy, twin):
            for loss, others in islice(rounds(problem, 0), 20):
                overtaking = one.ask()
                if overtaking.arm != kept.arm:
                    one.tell(overtaking, loss, others)
        policy.tell(kept, 0.9, costs)
        twin.tell(kept._replace(propensity=kept.propensity / 2), 0.9, costs)
        assert (policy.to_dict() != twin.to_dict()) == self.weighs_losses

    def test_delayed_equals_immediate_when_nothing_happened_between(self, problem: sf.Problem) -> None:
        """Asking in between does not change what feedback teaches."""
        if self.draws_when_told:
            pytest.skip("tell draws from the generator")
        policy, twin = self.make(problem, 3), self.make(problem, 3)
        costs = [0.0] * problem.n_constraints
        for one in (policy, twin):
            self.play(one, 10)
        kept = policy.ask()
        policy.ask()
        policy.ask()
        policy.tell(kept, 1.0, costs)
        twin.tell(twin.ask(), 1.0, costs)
        assert shown(policy) == shown(twin)

    def test_feedback_is_told_once(self, problem: sf.Problem) -> None:
        """A decision that was told already is refused, by `tell` and by `lost`, and changes nothing."""
        policy, costs = self.make(problem, 3), [0.5] * problem.n_constraints
        decisions = self.play(policy, 10)
        decisions.append(policy.ask())
        policy.lost(decisions[-1])
        before = policy.to_dict()
        for decision in decisions:
            for call in (lambda one: policy.tell(one, 0.5, costs), policy.lost):
                with pytest.raises(ValueError, match=r"decision must be told only once .*sf\.Live.*, got number"):
                    call(decision)
        assert policy.to_dict() == before
        policy.tell(decisions[-1][:3], 0.5, costs)  # the control: without a number nobody knows
        assert policy.round == 12

    def test_feedback_on_an_arm_is_told_in_the_order_of_asking(self, problem: sf.Problem) -> None:
        """A decision is refused while an older one of its arm is open. That changes nothing, and other arms go on."""
        policy, costs = self.make(problem, 3), [0.5] * problem.n_constraints
        self.play(policy, 10)
        waiting = [policy.ask() for _ in range(problem.n_arms + 1)]  # an arm comes twice
        waiting.sort(key=lambda decision: decision.arm)  # feedback on one arm overtakes that on others
        twin = restored(policy)
        while waiting:
            first, *waiting = waiting
            before = policy.to_dict()
            for early in [decision for decision in waiting if decision.arm == first.arm]:
                for call in (lambda one: policy.tell(one, 0.5, costs), policy.lost):
                    with pytest.raises(ValueError, match=r"decision must be the oldest open one .*sf\.Live.*, got"):
                        call(early)
            assert policy.to_dict() == before
            for one in (policy, twin):
                one.tell(first, 0.5, costs)
        assert policy.round == problem.n_arms + 11
        assert policy.to_dict() == twin.to_dict()

    def test_decisions_that_the_policy_has_not_made_are_refused(self, problem: sf.Problem) -> None:
        """A number that was never given, or was given to another arm, is refused and changes nothing."""
        policy, costs = self.make(problem, 3), [0.5] * problem.n_constraints
        self.play(policy, 10)
        good = policy.ask()
        before = policy.to_dict()
        for wrong in (good._replace(number=11), good._replace(arm=(good.arm + 1) % problem.n_arms)):
            with pytest.raises(ValueError, match=r"decision must be one that this policy has made .*sf\.Live.*, got"):
                policy.tell(wrong, 0.5, costs)
        for nonsense in (-1, 1.5, "1", True, np.nan):
            with pytest.raises(ValueError, match=r"number must be a whole number >= 0, got"):
                policy.tell((*good[:3], nonsense), 0.5, costs)
        assert policy.to_dict() == before
        policy.tell(good, 0.5, costs)  # the control

    def test_feedback_may_be_boolean(self, problem: sf.Problem) -> None:
        """A boolean loss or cost counts as 0 or 1."""
        numbers, booleans = self.make(problem, 3), self.make(problem, 3)
        for t in range(12):
            no, yes = (np.False_, np.True_) if t % 2 else (False, True)
            told = [(t + i) % 3 == 0 for i in range(problem.n_constraints)]
            numbers.tell(numbers.ask(), float(t % 3 == 1), [float(cost) for cost in told])
            costs: Any = [yes if cost else no for cost in told]
            booleans.tell(booleans.ask(), yes if t % 3 == 1 else no, np.array(costs, bool) if t % 4 == 3 else costs)
        assert booleans.to_dict() == numbers.to_dict()

    def test_one_cost_may_be_a_number(self, problem: sf.Problem) -> None:
        """With one guardrail `costs` may be a plain number; with none or several that is refused."""
        policy, twin = self.make(problem, 3), self.make(problem, 3)
        decision = policy.ask()
        assert twin.ask() == decision
        if problem.n_constraints == 1:
            policy.tell(decision, 0.5, 0.3)
            twin.tell(decision, 0.5, [0.3])
        else:
            with pytest.raises(ValueError, match=r"costs must .*, got"):
                policy.tell(decision, 0.5, 0.3)
        assert policy.to_dict() == twin.to_dict()

    def test_lost_feedback_counts_as_the_worst(self, problem: sf.Problem) -> None:
        """`lost` is `tell` with a loss of 1 and all costs 1."""
        policy, twin = self.make(problem, 3), self.make(problem, 3)
        for _ in range(5):
            policy.lost(policy.ask())
            twin.tell(twin.ask(), 1.0, [1.0] * problem.n_constraints)
        assert policy.to_dict() == twin.to_dict()

    def test_hostile_input_is_refused_and_changes_nothing(self, problem: sf.Problem) -> None:
        """Feedback that breaks a rule raises `ValueError` in one sentence, and teaches nothing."""
        policy = self.make(problem, 3)
        self.play(policy, 10)
        good, costs = policy.ask(), [0.5] * problem.n_constraints
        before, seen = policy.to_dict(), shown(policy)
        wrong_decisions: list[Any] = [
            None, 3, "ab", (), (1,), (-1, 0.5), (problem.n_arms, 0.5), (1.5, 0.5), (True, 0.5), ("1", 0.5), (None, 0.5),
            (np.True_, 0.5), (0, 0.0), (0, -0.1), (0, 1.5), (0, np.nan), (0, np.inf), (0, None), (0, "1"), (0, True),
            (0, np.True_),
        ]  # fmt: skip
        wrong_losses: list[Any] = [-0.1, 1.1, np.nan, np.inf, -np.inf, None, "0.5", [0.5], 1j]
        wrong_costs: list[Any] = [[*costs, 0.5], None, "costs", [[*costs, 0.1]]]
        wrong_costs += [0.5] if problem.n_constraints != 1 else [1.5, np.nan]
        for bad in (-0.1, 1.1, np.nan, np.inf, None, "0.5"):
            wrong_costs += [[*costs[:-1], bad]] if costs else []
        calls: list[tuple[Any, Any, Any]] = [(decision, 0.5, costs) for decision in wrong_decisions]
        calls += [(good, loss, costs) for loss in wrong_losses]
        calls += [(good, 0.5, wrong) for wrong in wrong_costs]
        for call in calls:
            with pytest.raises(ValueError, match=r"must .*, got"):
                policy.tell(*call)
            assert shown(policy) == seen, call
        assert policy.to_dict() == before

    @pytest.mark.parametrize("propensity", [1e-299, 0.9e-15])
    def test_propensities_that_cannot_have_been_drawn_are_refused(self, plain: sf.Problem, propensity: float) -> None:
        """A propensity below 1e-15 is refused: no policy draws an arm with it, and dividing by it ruins an estimate."""
        policy = self.make(plain, 3)
        before = policy.to_dict()
        with pytest.raises(ValueError, match=r"propensity must .*, got"):
            policy.tell((0, propensity), 0.5, [0.5, 0.5])
        assert policy.to_dict() == before

    def test_after_a_contradiction_a_hard_policy_plays_safe(self) -> None:
        """Costs that no mean explains put a lower bound above its upper bound, and nothing is known of them any more.

        What is played is safe, then, whatever the costs are. It is the safe strategy from then on, or bounds begin
        again from later costs alone.
        """
        problem = make_problem("K=2 m=1")
        policy, safe = self.make(problem, 3), problem.safe
        if policy.kind != "hard" or not has_bounds(policy):
            pytest.skip("promises no such thing")
        assert safe is not None
        crossed, begun, limit = False, False, problem.thresholds[0] + 1e-9
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for t in range(250):
                policy.tell((0, 0.5), 0.0, [float(t >= 100)])
                strategy, upper, before = policy.strategy, policy.upper_costs[0], crossed
                crossed = crossed or (policy.lower_costs > policy.upper_costs).any() or policy.contradicted
                if crossed and not before:
                    begun = upper[0] == 1.0
                if begun:
                    part = safe.strategy > 0
                    rest = strategy - (strategy[part] / safe.strategy[part]).min() * safe.strategy
                    most = min(upper @ strategy, (1.0 - rest.sum()) * safe.costs[0] + upper @ rest)
                    assert most <= limit, f"may cost {most} in round {policy.round}"
                elif crossed:
                    assert (strategy == safe.strategy).all(), f"not the safe strategy in round {policy.round}"
        if not crossed:
            pytest.skip("its bounds did not contradict each other")
        assert policy.contradicted
        assert restored(policy).contradicted
        assert (restored(policy).strategy == policy.strategy).all()
        assert [issubclass(warning.category, UserWarning) for warning in caught] == [True]

    def test_no_block_goes_beyond_the_horizon(self, problem: sf.Problem) -> None:
        """A block of more rounds than are left is refused as a whole."""
        policy, n = self.make(problem, 3), problem.rounds + 1
        before = policy.to_dict()
        block = np.zeros((n, problem.n_arms)), np.zeros((n, problem.n_constraints, problem.n_arms))
        with pytest.raises(ValueError, match="horizon"):
            policy.live(*block, np.empty((n, problem.n_arms)), np.empty(n))
        assert policy.to_dict() == before

    def test_nothing_goes_beyond_the_horizon(self) -> None:
        """After the last round a policy refuses to go on."""
        policy = self.make(make_problem("K=2 m=1", horizon=25), 3)
        last = self.play(policy, 25)[-1]
        before = policy.to_dict()
        for call in (policy.ask, lambda: policy.tell(last, 0.5, [0.5])):
            with pytest.raises(ValueError, match="horizon"):
                call()
        assert policy.to_dict() == before

    def test_as_many_arms_as_rounds(self) -> None:
        """A policy survives a horizon with one round per arm."""
        policy = self.make(sf.Problem(6, [0.9], 6, 0.05, sf.SafeStrategy(np.eye(6)[-1], [0.1])), 3)
        self.play(policy, 6)
        assert_strategies(policy.strategy[None], 6, 0.0)

    def test_bad_seeds_and_problems_are_refused(self, plain: sf.Problem) -> None:
        """What a policy is built from is checked."""
        for seed in (-1, 1.5, "7", True, np.True_):
            with pytest.raises(ValueError, match="seed must be a whole number >= 0, got"):
                self.make(plain, seed)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="problem must be a Problem, got"):
            self.make(None, 3)  # type: ignore[arg-type]

    def test_threads_may_share_a_policy(self) -> None:
        """Sixteen threads that ask and tell leave a policy that counts every round, mixes nothing up, and can be saved.

        All costs of a round are equal, so the bounds of all guardrails are: costs of two rounds in one would show.
        Threads overtake each other, so they tell decisions without their numbers.
        """
        problem = make_problem("K=10 m=12")
        policy, alone = self.make(problem, 3), self.make(problem, 3)
        failures: list[Exception] = []
        numbers: list[int | None] = []

        def work(shared: Any, seed: int) -> None:
            try:
                for cost in np.random.default_rng(seed).random(15).tolist():
                    decision = shared.ask()
                    numbers.append(decision.number)
                    shared.tell(decision[:3], 0.5, [cost] * problem.n_constraints)
            except Exception as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(policy, seed)) for seed in range(16)]
        patience = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(patience)
        assert sorted(numbers, key=str) == sorted(range(16 * 15), key=str)
        work(alone, 0)
        assert failures == []
        assert policy.round == 16 * 15
        assert restored(policy).to_dict() == policy.to_dict()
        if has_bounds(policy) and (alone.upper_costs == alone.upper_costs[0]).all():
            assert (policy.upper_costs == policy.upper_costs[0]).all()
            assert (policy.lower_costs == policy.lower_costs[0]).all()

    # What a policy shows, and its copies

    def test_shown_arrays_are_read_only_copies(self, plain: sf.Problem) -> None:
        """An array that a policy has shown is read-only and never changes."""
        policy = self.make(plain, 3)
        before = policy.strategy
        with pytest.raises(ValueError, match="read-only"):
            before[0] = 1.0
        kept = before.copy()
        self.play(policy, 5)
        assert (before == kept).all()

    def test_state_round_trip_is_exact(self, problem: sf.Problem) -> None:
        """A policy that went through JSON has the same future, and the same decisions are open."""
        policy = self.make(problem, 3)
        self.play(policy, 50)
        late = [policy.ask() for _ in range(5)]
        twin = restored(policy)
        assert twin.round == policy.round == 50
        assert shown(twin) == shown(policy)
        assert twin.to_dict() == policy.to_dict()
        for decision in late:
            policy.lost(decision)
            twin.lost(decision)
        assert self.play(twin, 50, seed=9) == self.play(policy, 50, seed=9)
        assert twin.to_dict() == policy.to_dict()

    def test_a_policy_that_is_loaded_in_every_round_plays_the_same(self, binding: sf.Problem) -> None:
        """Saving and loading in every round changes nothing, with a horizon and, if the policy needs none, without."""
        endless = sf.Problem(binding.n_arms, binding.thresholds, None, binding.delta, binding.safe)
        for problem in (binding, endless):
            try:
                policy, twin = self.make(problem, 3), self.make(problem, 3)
            except ValueError:
                assert problem is endless
                continue
            for loss, costs in islice(rounds(problem, 0), min(250, binding.rounds)):
                decision = policy.ask()
                policy.tell(decision, loss, costs)
                assert twin.ask() == decision
                twin.tell(decision, loss, costs)
                twin = type(twin).from_bytes(twin.to_bytes())
            assert shown(twin) == shown(policy)

    @pytest.mark.parametrize("way", COPIES)
    def test_copies_are_apart_and_have_the_same_future(self, plain: sf.Problem, way: str) -> None:
        """Playing a copy leaves the original unchanged; the original then plays the same."""
        policy = self.make(plain, 3)
        self.play(policy, 20)
        late = policy.ask()
        before, twin = policy.to_dict(), COPIES[way](policy)
        assert twin.to_dict() == before
        twin.lost(late)
        future = self.play(twin, 30, seed=9)
        assert policy.to_dict() == before
        policy.lost(late)
        assert self.play(policy, 30, seed=9) == future
        assert policy.to_dict() == twin.to_dict()

    def test_spoilt_bytes_are_refused(self, plain: sf.Problem) -> None:
        """Bytes that were cut, lengthened or altered raise `ValueError` in one sentence."""
        policy = self.make(plain, 3)
        self.play(policy, 10)
        data = policy.to_bytes()
        places = sorted({0, 1, 7, *np.random.default_rng(0).integers(len(data), size=20).tolist(), len(data) - 1})
        spoilt: list[Any] = [b"", b"nonsense", data + b"\0", None, "text"]
        spoilt += [data[:place] for place in places]
        spoilt += [data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :] for place in places]
        for wrong in spoilt:
            with pytest.raises(ValueError, match=r"must .*, got"):
                type(policy).from_bytes(wrong)

    def test_json_holds_no_integer_beyond_64_bits(self, plain: sf.Problem) -> None:
        """JSON readers in any language read the same numbers."""
        policy = self.make(plain, 3)
        self.play(policy, 10)
        assert all(-(2**63) <= number < 2**64 for number in whole_numbers(policy.to_dict()))

    @pytest.mark.parametrize("size", ["K=5 m=0", "K=5 m=2"])
    def test_foreign_and_spoilt_states_are_refused(self, size: str) -> None:
        """Data of another policy, or data in which any one entry is missing, added or wrong, raises `ValueError`."""
        problem = make_problem(size)
        policy = self.make(problem, 3)
        self.play(policy, 11)
        policy.ask()
        policy.ask()
        state = policy.to_dict()
        stranger = sf.AlwaysSafe if not isinstance(policy, sf.AlwaysSafe) else sf.UCB1
        for data in (None, "a", [], {}, stranger(problem, 3).to_dict(), *spoils(state)):
            with pytest.raises(ValueError, match=r"must .*, got"):
                type(policy).from_dict(data)
        assert restored(policy).to_dict() == state  # the control

    def test_states_with_bounds_too_narrow_are_refused(self, plain: sf.Problem) -> None:
        """A lowered upper bound of a played arm, or a raised delta, is refused: safety rests on both."""
        policy = self.make(plain, 3)
        if not has_bounds(policy):
            pytest.skip("has no bounds")
        for t in range(40):
            policy.tell((t % 5, 0.2), 0.5, [0.25, 0.25])
        data = policy.to_dict()
        for wrong in (*bolder(data, plain), *lowered(data, policy.upper_costs)):
            with pytest.raises(ValueError, match=r"must .*, got"):
                type(policy).from_dict(wrong)


def assert_strategies(strategies: Floats, n_arms: int, floor: float) -> None:
    """Each row is a distribution over the arms, with at least this share for each."""
    assert strategies.shape[1:] == (n_arms,)
    assert np.isfinite(strategies).all()
    assert (strategies >= floor).all()
    assert (np.abs(strategies.sum(axis=1) - 1) < 1e-12).all()


def has_bounds(policy: Any) -> bool:
    """True if a policy bounds the costs; one that ignores guardrails may show arrays without rows."""
    return hasattr(policy, "upper_costs") and policy.upper_costs.size > 0


def restored(policy: Any) -> Any:
    """A policy that went through JSON."""
    return type(policy).from_dict(json.loads(json.dumps(policy.to_dict())))


def shown(policy: Any) -> dict[str, Any]:
    """What a policy shows, as plain data."""
    names = ("round", "strategy", "safe_weight", "proposal", "learning_rates", "lower_costs", "upper_costs")
    return {name: np.asarray(getattr(policy, name)).tolist() for name in names if hasattr(policy, name)}


def late_feedback(n_constraints: int) -> st.SearchStrategy[list[tuple[float, list[float], int]]]:
    """Losses, costs, and after how many rounds they arrive."""
    share = st.floats(0.0, 1.0)
    costs = st.lists(share, min_size=n_constraints, max_size=n_constraints)
    return st.lists(st.tuples(share, costs, st.integers(0, 5)), min_size=1, max_size=20)


def in_order_of_arrival(
    policy: Any, told: list[tuple[float, list[float], int]]
) -> Iterator[tuple[sf.Decision, float, list[float]]]:
    """Ask in every round, and yield the feedback that is due, for each arm in the order of asking."""
    pending: list[tuple[int, sf.Decision, float, list[float]]] = []
    latest: dict[int, int] = {}
    for t in range(len(told) + 6):
        if t < len(told):
            loss, costs, delay = told[t]
            decision = policy.ask()
            latest[decision.arm] = max(t + delay, latest.get(decision.arm, 0))
            pending.append((latest[decision.arm], decision, loss, costs))
        due = [feedback for feedback in pending if feedback[0] == t]
        pending = [feedback for feedback in pending if feedback[0] > t]
        for _, decision, loss, costs in due:
            yield decision, loss, costs


def spoils(data: Any) -> Iterator[Any]:
    """Copies of nested data in which one entry is missing, added or wrong."""
    if isinstance(data, dict):
        yield from (3, {**data, "seed": 3})
        for name, value in data.items():
            if name == "name" or "name" not in data:  # an option that is named has defaults for the rest
                yield {key: kept for key, kept in data.items() if key != name}
            for wrong in spoils(value):
                yield {**data, name: wrong}
    elif isinstance(data, list) and np.size(data):
        yield from (data[:-1], "nonsense")
        for wrong in (np.nan, -7.0, np.inf):
            array = np.array(data, float)
            array.flat[0] = wrong
            yield array.tolist()
    elif isinstance(data, int):
        yield from ("nonsense", np.nan, 2.5, -(2**200), 2**200)
    elif isinstance(data, float):
        yield from ("nonsense", np.nan, -7.0)
    elif not isinstance(data, list):
        yield from ("nonsense", [])


def whole_numbers(data: Any) -> Iterator[int]:
    """All integers in nested data."""
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from whole_numbers(value)
    elif isinstance(data, int):
        yield data


def bolder(data: Any, problem: sf.Problem) -> Iterator[Any]:
    """Copies of nested data in which the problem has a higher delta."""
    if data == problem.to_dict():
        yield {**data, "delta": 0.5}
    elif isinstance(data, dict):
        for name, value in data.items():
            for wrong in bolder(value, problem):
                yield {**data, name: wrong}


def lowered(data: Any, upper: Floats) -> Iterator[Any]:
    """Copies of nested data in which a saved upper bound is lower, wherever all of them are found in a row."""
    if isinstance(data, dict):
        for name, value in data.items():
            for wrong in lowered(value, upper):
                yield {**data, name: wrong}
    elif isinstance(data, list):
        try:
            array = np.array(data, float)
        except (TypeError, ValueError):
            return
        flat = array.ravel()
        for start in range(flat.size - upper.size + 1):
            if (flat[start : start + upper.size] == upper.ravel()).all():
                changed = array.copy()
                changed.flat[start] /= 2
                yield changed.tolist()


def chi_square_p(counts: Any, strategy: Floats) -> float:
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
