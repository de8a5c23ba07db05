"""What docs/theory/led.md says of the preset "led", on recorded and on forced paths; each step with a control."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import surefoot as sf
from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.ledger import WorldLedger
from surefoot.kernels.follower import due
from surefoot.kernels.layout import layout_of
from surefoot.kernels.plans import Plans, compare, set_share, start_plans
from surefoot.kernels.safety import mix_anchored
from surefoot.kernels.trio import Trio, barrier, blend_trio, mix_twice, set_shares, start_trio, stepped, weigh
from surefoot.rules import Floats
from surefoot.simulation.world import World, policy_seed

ROUNDS = 4000
WORLDS = ("stochastic-v1", "interior-safe-v1", "tight-margin-v1")
RESTARTED = "switching-v1"  # losses are forgotten twice


class Path(NamedTuple):
    """Row t of what has T + 1 rows is of the time before round t + 1."""

    problem: sf.Problem
    costs: Floats
    best: Floats
    losses: Floats  # (T, K)
    arms: Any
    baselines: Floats  # of the follower, cut
    means: Floats  # the same, not cut
    proposals: Floats  # (T + 1, K)
    strategies: Floats  # (T + 1, K)
    plans: Floats  # (T + 1, 3, K)
    shares: Floats  # (T + 1, 3)
    of_proposal: Floats  # (T + 1, 3) weights of the proposal in the plans
    safe_weights: Floats  # (T + 1, 3)
    rates: Floats  # (T + 1,)
    closed: Any  # (T,) whether the round ended a batch of the follower
    lower: Floats  # (T + 1, m, K)
    counts: Floats  # (T + 1, K)
    restarts: Any  # (T + 1,) how often losses were forgotten

    @property
    def fed(self) -> Floats:
        rows = np.arange(len(self.arms))
        return np.asarray((self.losses[rows, self.arms] - self.baselines) / self.strategies[rows, self.arms])

    @property
    def weight(self) -> Floats:
        """The share of the proposal in what is played."""
        return np.asarray((self.shares * self.of_proposal).sum(1))

    def batches(self) -> list[tuple[int, int]]:
        """First round of each batch of the follower, and the round after its last, counted from 0."""
        ends = [*np.flatnonzero(self.closed) + 1, len(self.arms)]
        starts = [0, *ends[:-1]]
        return [(int(a), int(b)) for a, b in zip(starts, ends, strict=True) if b > a]

    def stretches(self) -> list[list[tuple[int, int]]]:
        """The batches between two restarts."""
        last = int(self.restarts[-1])
        return [[batch for batch in self.batches() if self.restarts[batch[0]] == n] for n in range(last + 1)]

    def step(self, batch: tuple[int, int]) -> Floats:
        """Proposal times the sum of the estimates, for each arm."""
        total = np.zeros(self.problem.n_arms)
        for t in range(*batch):
            total[self.arms[t]] += self.fed[t]
        return np.asarray(self.proposals[batch[0]] * total)


def torn() -> sf.Scenario:
    """What loses nothing costs too much, and what costs little loses all."""
    problem = sf.Problem(2, [0.5], ROUNDS, 0.05, sf.SafeStrategy([0, 1], [0.1]))
    costs = sf.costs.Beta(np.array([[0.9, 0.1]]), 200.0)
    return sf.Scenario("torn-v1", problem, sf.losses.Bernoulli([0.0, 1.0]), costs)


@cache
def path(name: str, seed: int = 11, share: float = 0.1) -> Path:
    scenario = torn() if name == "torn" else sf.scenarios.make(name, horizon=ROUNDS)
    policy = sf.SOLB(scenario.problem, policy_seed(seed), preset="led", follower_share=share)
    state = policy._state
    rows: dict[str, list[Any]] = {key: [] for key in Path._fields[3:]}

    def write() -> None:
        now = {
            "proposals": state.learner.proposal, "strategies": state.strategy, "plans": state.trio.strategies,
            "shares": state.trio.shares, "of_proposal": state.trio.proposal_weights,
            "safe_weights": state.trio.safe_weights, "lower": state.known.lower, "counts": state.known.counts,
        }  # fmt: skip
        for key, value in now.items():
            rows[key].append(value.copy())
        rows["rates"].append(float(state.learner.learning_rates[0]))
        rows["restarts"].append(int(state.trio.restarts[0]))

    for losses, costs in World(scenario, seed).blocks(ROUNDS):
        for of_arms, its_costs in zip(losses, costs, strict=True):
            write()
            decision, learner = policy.ask(), state.learner
            mean = float(learner.recent_loss[0] / max(1.0, learner.recent_rounds[0]))
            of_proposal = float((state.trio.shares * state.trio.proposal_weights).sum())
            rows["means"].append(mean)
            rows["baselines"].append(min(mean, 0.25 * of_proposal / rows["rates"][-1]))
            rows["losses"].append(of_arms)
            rows["arms"].append(decision.arm)
            policy.tell(decision, float(of_arms[decision.arm]), its_costs[:, decision.arm].tolist())
            rows["closed"].append(state.batch_rounds[0] == 0)
    write()
    assert state.trio.restarts[0] == (2 if name == RESTARTED else 0)
    assert not policy.contradicted
    ledger = WorldLedger(scenario.problem, Hindsight(scenario.mean_costs, scenario.problem.thresholds), [ROUNDS])
    ledger.add(np.array(rows["losses"]))
    best = ledger.settled().benchmarks[0]
    found = Path(scenario.problem, scenario.mean_costs, best, *(np.array(rows[key]) for key in Path._fields[3:]))
    spent = sum(float((found.step(batch) ** 2).sum()) for batch in found.stretches()[-1])
    assert float(state.learner.spent[0]) == pytest.approx(spent, rel=1e-6)  # what is written down is what was fed
    return found


# Section 2: the proposal has its share


@pytest.mark.parametrize("share", [0.1, 0.02])
@pytest.mark.parametrize("name", [*WORLDS, RESTARTED])
def test_step_1_the_proposal_has_its_share(name: str, share: float) -> None:
    it = path(name, share=share)
    w = it.of_proposal[:, 2]
    assert (it.weight >= w * share / 2 - 1e-12).all()
    assert (it.weight < w / 20).any() == (share < 0.1)
    assert (it.strategies >= it.weight[:, None] * it.proposals - 1e-12).all()
    assert (it.shares[:, 1] <= 1 - share).all()
    assert it.strategies == pytest.approx((it.shares[:, :, None] * it.plans).sum(1), abs=1e-12)
    assert (it.weight < w / 5).any()


def test_step_1_an_arm_that_is_hardly_safe_would_leave_the_proposal_too_little() -> None:
    rng, least, without = np.random.default_rng(1), 1.0, 1.0
    for _ in range(3000):
        K, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        safe, upper = np.eye(K)[0], rng.random((m, K))
        theta = upper[:, 0] * rng.random()
        alpha = theta + (1 - theta) * rng.uniform(0.01, 0.9, m)
        proposal, totals, plan = rng.dirichlet(np.full(K, 0.5)), rng.normal(size=K), np.zeros(K)
        draft = layout_of(Trio).new(K=K, m=m)
        start_trio(draft, alpha, safe, theta, 0.05)
        trio = draft.opened()
        mix_twice(trio, proposal, totals, 1.0, upper, alpha, safe, theta, np.zeros(m))
        true = upper * rng.random((m, K))
        true[:, 0] = theta
        assert (true @ trio.strategies.T <= alpha[:, None] + 1e-12).all()
        w = float(trio.proposal_weights[2])
        least = min(least, float(trio.proposal_weights[0]) / w)
        assert (trio.strategies[0] >= trio.proposal_weights[0] * proposal - 1e-12).all()
        mix_anchored(plan, proposal, totals, 1.0, upper, alpha, safe, theta, np.zeros(m), 1)
        without = min(without, float((plan / proposal).min()) / w)
    assert 0.5 <= least < 0.55
    assert without < 0.1


# Section 3: the follower, in batches


@pytest.mark.parametrize(("name", "share"), [*((name, 0.1) for name in [*WORLDS, RESTARTED]), (WORLDS[0], 0.02)])
def test_step_2_batches_take_small_steps(name: str, share: float) -> None:
    it, kept = path(name, 13, share), 0
    longest, worst_uncut = 0.0, 0.0
    for first, end in it.batches():
        rate, step = it.rates[first], it.step((first, end))
        v = rate * step
        assert v.min() >= -0.5 - 1e-9
        assert (v - np.log1p(v)).sum() / rate <= 0.78 * rate * (step**2).sum() + 1e-12
        assert end - first <= 16
        kept += end - first - 1
        longest = max(longest, -v.min())
        for t in range(first, end):
            arm = it.arms[t]
            uncut = rate * it.proposals[t, arm] * (it.losses[t, arm] - it.means[t]) / it.strategies[t, arm]
            worst_uncut = min(worst_uncut, uncut)
    assert kept > ROUNDS / 4
    assert longest > 0.25
    assert worst_uncut < -0.9  # with the plain mean for a baseline steps are too long


def fed_regret(it: Path, best: Floats) -> list[tuple[float, float]]:
    """Left and right side of Step 2 between restarts, for the truncation of a strategy."""
    K, found = it.problem.n_arms, []
    u = (1 - K / ROUNDS) * best + 1 / ROUNDS
    for batches in it.stretches():
        rows = np.arange(batches[0][0], batches[-1][1])
        arms = it.arms[rows]
        left = float((it.fed[rows] * (it.proposals[rows, arms] - u[arms])).sum())
        squares = sum(it.rates[first] * (it.step((first, end)) ** 2).sum() for first, end in batches)
        rate = it.rates[batches[-1][0]]  # no less than after the last batch, when it may have been forgotten
        found.append((left, float(-np.log(K * u).sum() / rate + 0.78 * squares)))
    return found


@pytest.mark.parametrize("name", [*WORLDS, "torn", RESTARTED])
def test_step_2_the_leader_in_batches(name: str) -> None:
    it = path(name)
    sides = fed_regret(it, it.best)
    assert len(sides) == (3 if name == RESTARTED else 1)
    assert all(left <= right + 1e-6 for left, right in sides)
    if name == "torn":
        ((left, right),) = fed_regret(it, np.array([1.0, 0.0]))
        assert left > 2 * right  # a strategy that has left the sets beats the bound


@pytest.mark.parametrize("name", [*WORLDS, RESTARTED])
def test_step_3_the_rate_tunes_itself(name: str) -> None:
    it = path(name)
    scale, ranges = it.problem.n_arms * math.log(ROUNDS), 2 / float(it.weight.min()) ** 2
    for batches in it.stretches():
        Q, spent, rate = 0.0, 0.0, 1.0
        for first, end in batches:
            square = float((it.step((first, end)) ** 2).sum())
            assert it.rates[first] == pytest.approx(rate)
            assert square <= 1 / (8 * rate**2) + 2 / it.weight[first:end].min() ** 2 + 1e-9
            spent, Q = spent + rate * square, Q + square
            rate = min(rate, math.sqrt(scale / (1 + Q)))
        assert spent <= 2 * math.sqrt(scale * (1 + Q)) + 1 / (8 * rate) + ranges
        assert 1 / rate <= 1 + math.sqrt((1 + Q) / scale)
        assert spent > 0.5 * math.sqrt(scale * (1 + Q))  # it is of that order


@pytest.mark.parametrize("name", [*WORLDS, RESTARTED])
def test_step_4_what_a_round_adds_on_average(name: str) -> None:
    it = path(name)
    x, played, weight = it.proposals[:-1], it.strategies[:-1], it.weight[:-1]
    mean = (x**2 / played * (it.losses - it.baselines[:, None]) ** 2).sum(1)
    assert (mean <= 1 / weight + 1e-9).all()
    assert (mean > 1).any()  # more than without company


# Section 4: safe weights


def test_step_5_counts_grow_by_an_eighth_at_most_between_looks() -> None:
    counts = [n for n in range(1, 200_000) if due(n)]
    assert counts[:16] == list(range(1, 17))
    assert max((b - 1) / a for a, b in zip(counts[:-1], counts[1:], strict=True)) <= 9 / 8
    assert max((b - 1) / a for a, b in zip(counts[:-1], counts[1:], strict=True)) > 1.11


@pytest.mark.parametrize("share", [0.1, 0.02])
@pytest.mark.parametrize("name", [*WORLDS, RESTARTED])
def test_step_5_safe_weights(name: str, share: float) -> None:
    it = path(name, share=share)
    K, rho = it.problem.n_arms, it.problem.margin
    C = 8 / 3 * (math.log(K * it.problem.n_constraints / it.problem.delta) + 4)
    shares = (it.strategies[:-1] / np.maximum(1, it.counts[:-1])).sum(1)
    squares = it.safe_weights[:-1, 2] ** 2
    assert (squares <= (4.5 / share * C * shares + 2 * (K / ROUNDS) ** 2) / rho**2 + 1e-9).all()
    assert (squares > 0.01 * C * shares / rho**2).any()  # far less is too little
    assert sum(1 / max(1, it.counts[t, it.arms[t]]) for t in range(ROUNDS)) <= K * (2 + math.log(ROUNDS))


# Section 5: the shares


class Weighed(NamedTuple):
    """What shares have lost against a plan by the estimates, the squares of their steps, and the bound of Step 6."""

    lost: float
    squares: float
    bound: float


def of_comparator(i: int, n: int) -> Floats:
    """All but 1/n to a plan; the program's, whose share ends at 0.9, as at the start."""
    if i == 1:
        return np.array([0.05, 0.9, 0.05])
    u = np.full(3, 1 / n)
    u[i] = 1 - 2 / n
    return u


def shared(
    plans: Any, arms: Any, losses: Any, i: int, exponential: bool = False, lazily: bool = False
) -> Weighed:  # fmt: skip
    """Forced draws: the bound is about every path."""
    n, K = len(arms), plans.shape[-1]
    draft = layout_of(Trio).new(K=K, m=1)
    start_trio(draft, np.array([0.5]), np.eye(K)[0], np.array([0.2]), 0.05)
    trio, x, u = draft.opened(), np.zeros(K), of_comparator(i, n)
    other = layout_of(Plans).new(K=K, m=1)
    start_plans(other, np.array([0.5]), np.eye(K)[0], np.array([0.2]), 0.05, True)
    two, lost, squares = other.opened(), 0.0, 0.0
    for t, (arm, loss) in enumerate(zip(arms, losses, strict=True)):
        trio.strategies[:] = plans[t % len(plans)]
        two.strategies[:] = trio.strategies[:2]
        if exponential:
            trio.shares[:] = two.share[0], 1 - two.share[0], 0.0
        blend_trio(trio, x)
        before = trio.lost.copy()
        weigh(trio, int(arm), float(x[arm]), float(loss))
        lost += float((trio.shares - u) @ (trio.lost - before))
        compare(two, int(arm), float(loss / x[arm]))
        set_share(two)
        if exponential:
            squares += stepped(trio)
            trio.steps[:] = 0.0
        elif not lazily or t % 16 == 15 or trio.rate[0] ** 2 * stepped(trio) >= 1 / 16:
            set_shares(trio, math.log(n))
    squares += float(trio.squares[0]) + stepped(trio)
    L = barrier(math.log(n))
    if i == 1:
        return Weighed(lost, squares, 1.26 * math.sqrt(L * (1 + squares)) + 1.2)
    return Weighed(lost, squares, 4.04 * L + 2.51 * math.sqrt(L * (1 + squares)) + 0.78)


@pytest.mark.parametrize("lazily", [False, True])
def test_step_6_shares_against_each_plan_on_every_path(lazily: bool) -> None:
    rng, close = np.random.default_rng(4), 0.0
    for case in range(60):
        n, K = int(rng.integers(20, 1500)), int(rng.integers(2, 5))
        plans = rng.dirichlet(np.full(K, 0.3), size=(int(rng.integers(1, 4)), 3))
        plans = 0.999 * plans + 0.001 / K
        arms = rng.integers(K, size=n)
        losses = np.sign(rng.normal(size=n) + rng.normal()) * rng.random(n) if case % 2 else rng.uniform(-1, 1, n)
        for i in range(3):
            found = shared(plans, arms, losses, i, lazily=lazily)
            assert found.lost <= found.bound
            close = max(close, found.lost / found.bound)
    for punished in (0, 1, 2):  # the arm of a plan loses whenever it is drawn, which is always
        plans = np.eye(3)[None]
        found = shared(plans, np.full(2000, punished), np.ones(2000), (punished + 1) % 3, lazily=lazily)
        assert found.lost <= found.bound
        close = max(close, found.lost / found.bound)
    assert close > 0.25


def share_after(arms: Any, losses: Any) -> float:
    """The follower's share under exponential weights, two plans of an arm each."""
    draft = layout_of(Plans).new(K=2, m=1)
    start_plans(draft, np.array([0.5]), np.eye(2)[0], np.array([0.2]), 0.05, True)
    draft.strategies = np.eye(2)
    two = draft.opened()
    for arm, loss in zip(arms, losses, strict=True):
        compare(two, int(arm), float(loss / (two.share[0] if arm == 0 else 1 - two.share[0])))
        set_share(two)
    return float(two.share[0])


def test_step_6_one_draw_at_a_tiny_share_breaks_exponential_weights() -> None:
    """The program falls behind until its share is 1e-4, is drawn once, and wins; then it loses.

    Exponential weights whose rate tunes itself by the squared estimates are made blind by the one draw: the program
    keeps its 9 tenths for thousands of rounds. Under the log-barrier the draw is one step of length 1.
    """
    plans = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    behind = 64
    arms = np.concatenate([np.zeros(behind, int), [1], np.ones(3000, int)])
    losses = np.concatenate([np.full(behind, -1.0), [-1.0], np.ones(3000)])
    assert 0.5e-4 < 1 - share_after(arms[:behind], losses[:behind]) < 2e-4
    assert 1 - share_after(arms[: behind + 1], losses[: behind + 1]) > 0.8
    assert 1 - share_after(arms, losses) > 0.8
    with_barrier = shared(plans, arms, losses, 0)
    assert with_barrier.lost <= with_barrier.bound
    blind = shared(plans, arms, losses, 0, exponential=True)
    assert blind.lost > 2 * blind.bound


def test_step_6_the_barrier_of_a_comparator() -> None:
    prior = np.array([0.05, 0.9, 0.05])
    for n in (3, 10, 1e3, 1e6, 1e9):
        for i in (0, 2):
            ratio = of_comparator(i, int(n)) / prior
            assert (ratio - 1 - np.log(ratio)).sum() <= 11 + 2 * math.log(n)
    assert barrier(1.0) == 13.0


def test_step_7_what_a_round_adds_to_the_squares_on_average() -> None:
    rng, most, drift = np.random.default_rng(5), 0.0, 0.0
    for _ in range(3000):
        K = int(rng.integers(2, 6))
        y, q = rng.dirichlet(np.full(K, 0.2), size=3), rng.dirichlet(np.full(3, rng.choice([0.1, 1, 10])))
        losses, x = rng.uniform(-1, 1, K), q @ y
        steps = q[:, None] * (y / np.maximum(x, 1e-300) - 1) * losses
        mean_square = float((x * (steps**2).sum(0)).sum())
        assert mean_square <= 1 - float((q**2).sum()) + 1e-9
        of_drift = float(((steps * x).sum(1) ** 2).sum())
        assert of_drift <= 4 / 27 * 4 + 1e-12  # losses in [-1, 1] here, twice the range
        most, drift = max(most, mean_square), max(drift, of_drift)
    assert most > 0.3
    grid = np.linspace(0, 1, 201)
    q1, q2 = np.meshgrid(grid, grid)
    q3 = 1 - q1 - q2
    inside = q3 >= 0
    squares = q1**2 * (1 - q1) ** 2 + q2**2 * (1 - q2) ** 2 + q3**2 * (1 - q3) ** 2
    assert squares[inside].max() <= 4 / 27 + 1e-12
