"""docs/theory/safety.md and practical.md on recorded paths; each step with a control that fails."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import surefoot as sf
from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.ledger import WorldLedger
from surefoot.confidence import Betting
from surefoot.kernels.costs import observe
from surefoot.kernels.layout import layout_of, zeros
from surefoot.kernels.linear import Program
from surefoot.kernels.plans import LEAST_SHARE, Plans, blend, compare, set_share, start_plans
from surefoot.kernels.safety import lose_least, mix_anchored, pessimistic_cost, safe_share
from surefoot.kernels.types import SOLVED
from surefoot.policies.practical import TINY
from surefoot.rules import Floats
from surefoot.simulation.world import World, policy_seed

ROUNDS = 3000
CASES = [("stochastic-v1", True), ("stochastic-v1", False), ("interior-safe-v1", True), ("switching-v1", False)]


def learner_of(policy: sf.Policy[Any]) -> Any:
    return policy._state.learner


def plans_of(policy: sf.Policy[Any]) -> Any:
    return policy._state.plans


class LongSteps(sf.SOLB):
    """SOLB with the plain mean of earlier losses as the baseline, and nothing else changed: the control of Step 4."""

    def _start(self, state: Any) -> None:
        super()._start(state)
        state.learner.caps_baseline = 0


class Mixing(NamedTuple):
    """A problem whose costs are known, to make plans for."""

    costs: Floats  # (m, K) true means
    safe: Floats
    safe_costs: Floats
    thresholds: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Mixing:
        """Between two and six arms, one to three constraints, and every second time a safe strategy of one arm."""
        K, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        safe = rng.dirichlet(np.full(K, 0.3)) if rng.random() < 0.5 else np.eye(K)[rng.integers(K)]
        costs = rng.random((m, K))
        theta = costs @ safe
        return cls(costs, safe, theta, theta + (1 - theta) * rng.uniform(0.01, 0.9, m))

    def follower_plan(self, rng: np.random.Generator, upper: Floats) -> tuple[Floats, Floats, float]:
        """A proposal, what is made of it at the upper bounds, and the weight of the safe strategy in that."""
        m, K = self.costs.shape
        plan, proposal = np.zeros(K), rng.dirichlet(np.full(K, 0.3))
        totals = rng.normal(size=(K,))
        weight = mix_anchored(
            plan, proposal, totals, 1.0, upper, self.thresholds, self.safe, self.safe_costs, np.zeros(m), 1
        )
        return proposal, plan, weight

    def program_plan(self, rng: np.random.Generator, upper: Floats) -> tuple[Floats, float]:
        """The strategy that loses least at the upper bounds, and the weight of the safe strategy in it."""
        m, K = self.costs.shape
        task, vertex, plan = zeros(Program, K=K + 1, m=m), np.zeros(K + 1), np.zeros(K)
        task.losses[:K], task.limits[:], task.costs[:, K] = rng.normal(size=K), self.thresholds, self.safe_costs
        assert lose_least(task, vertex, upper, self.safe, self.safe_costs, plan) == SOLVED
        return plan, float(vertex[K])

    def excess(self, strategy: Floats) -> float:
        """By how much the true costs of a strategy are over a threshold at most."""
        return float((self.costs @ strategy - self.thresholds).max())


class Path(NamedTuple):
    """Row t of what has T + 1 rows is of the time before round t + 1."""

    problem: sf.Problem
    costs: Floats  # (m, K) true means
    best: Floats  # x* of these losses
    losses: Floats  # (T, K)
    arms: Any  # (T,)
    met: Floats  # (T,) losses of the played arms
    fed: Floats  # (T,) what the leader's follower was fed for the played arm
    baselines: Floats  # (T,)
    proposals: Floats  # (T + 1, K)
    strategies: Floats  # (T + 1, K)
    weights: Floats  # (T + 1,) of the proposal
    rates: Floats  # (T + 1,)
    limits: Floats  # (T + 1, m)
    lower: Floats  # (T + 1, m, K)
    upper: Floats  # (T + 1, m, K)
    counts: Floats  # (T + 1, K)

    def played(self, rows: Floats) -> Floats:
        """The entry of the arm that was played, out of each of the first T rows."""
        return np.asarray(rows[: len(self.arms)][np.arange(len(self.arms)), self.arms])

    @property
    def floor(self) -> float:
        """Of the proposals."""
        return TINY if self.problem.horizon is None else self.problem.floor

    @property
    def squares(self) -> Floats:
        """(x~ z)^2 of each round."""
        return np.asarray((self.played(self.proposals) * self.fed) ** 2)

    @property
    def steps(self) -> Floats:
        """v = rate x~ z of each round."""
        return np.asarray(self.rates[:-1] * self.played(self.proposals) * self.fed)

    @property
    def stability(self) -> Floats:
        """z^T (x~_t - x~_{t+1}) - D_{t-1}(x~_{t+1}, x~_t) of each round."""
        ratio = self.proposals[1:] / self.proposals[:-1]
        divergence = (ratio - 1 - np.log(ratio)).sum(1) / self.rates[:-1]
        moved = self.proposals[:-1] - self.proposals[1:]
        return np.asarray(self.fed * self.played(moved) - divergence)

    def inside(self, u: Floats) -> Any:
        """Whether a strategy is in the safe set of each time, the first being before round 1."""
        return (self.lower @ u <= self.limits + 1e-12).all(1) & (u.min() >= self.floor * (1 - 1e-9))


@cache
def path(name: str, known_end: bool, seed: int = 11, cls: Any = sf.SOLB, confidence: str | None = None) -> Path:
    scenario = sf.scenarios.make(name, horizon=ROUNDS)
    given = scenario.problem
    problem = sf.Problem(given.n_arms, given.thresholds, ROUNDS if known_end else None, 0.05, given.safe)
    policy = cls(problem, policy_seed(seed), preset="guaranteed", confidence=confidence)
    rows: dict[str, list[Any]] = {key: [] for key in Path._fields[3:]}

    def write() -> None:
        learner, known = learner_of(policy), policy._state.known
        now = {
            "proposals": learner.proposal, "strategies": policy._state.strategy, "limits": learner.limits,
            "lower": known.lower, "upper": known.upper, "counts": known.counts,
        }  # fmt: skip
        for key, value in now.items():
            rows[key].append(value.copy())
        rows["weights"].append(1.0 - policy.safe_weight)
        rows["rates"].append(float(learner.learning_rates[0]))

    for losses, costs in World(scenario, seed).blocks(ROUNDS):
        for of_arms, its_costs in zip(losses, costs, strict=True):
            write()
            decision = policy.ask()
            loss, mean = float(of_arms[decision.arm]), float(np.mean(rows["met"])) if rows["met"] else 0.0
            if cls is sf.SOLB:
                mean = min(mean, rows["weights"][-1] / (2 * rows["rates"][-1]))
            for key, value in (("losses", of_arms), ("arms", decision.arm), ("met", loss), ("baselines", mean)):
                rows[key].append(value)
            rows["fed"].append((loss - mean) / decision.propensity)
            policy.tell(decision, loss, its_costs[:, decision.arm].tolist())
    write()
    squares = [(x[arm] * z) ** 2 for x, arm, z in zip(rows["proposals"], rows["arms"], rows["fed"])]
    assert float(learner_of(policy).spent[0]) == pytest.approx(sum(squares))  # what is written down is what was fed
    ledger = WorldLedger(given, Hindsight(scenario.mean_costs, given.thresholds), [ROUNDS])
    ledger.add(np.array(rows["losses"]))
    best = ledger.settled().benchmarks[0]
    return Path(problem, scenario.mean_costs, best, *(np.array(rows[key]) for key in Path._fields[3:]))


def comparator(it: Path, best: Floats, n: int) -> Floats:
    """The truncated benchmark for the first n rounds."""
    K = it.problem.n_arms
    share = 1.0 / (n + K) if it.problem.horizon is None else 1.0 / it.problem.horizon
    return np.asarray((1 - K * share) * best + share)


def logs(it: Path) -> Floats:
    """The logarithm in the rate after each round, the first being before round 1."""
    K = it.problem.n_arms
    if it.problem.horizon is not None:
        return np.full(ROUNDS + 1, math.log(ROUNDS))
    return np.log(K + np.arange(ROUNDS + 1))


# Section 2: safety


def test_step_1_any_proposal_is_made_safe_by_upper_bounds_that_hold() -> None:
    rng = np.random.default_rng(2)
    most = {"bounds that hold": -1.0, "bounds that do not": -1.0}
    by_arm = 0
    for _ in range(4000):
        it = Mixing.draw(rng)
        wide = it.costs + (1 - it.costs) * rng.random(it.costs.shape) * rng.random()
        for what, upper in (("bounds that hold", wide), ("bounds that do not", 0.9 * it.costs)):
            proposal, strategy, weight = it.follower_plan(rng, upper)
            by_arm += bool(weight == 0 and (strategy != proposal).any())
            assert abs(strategy.sum() - 1) < 1e-12
            most[what] = max(most[what], it.excess(strategy))
    assert by_arm > 100
    assert most["bounds that hold"] <= 1e-12
    assert most["bounds that do not"] > 0.01


def test_step_1_the_known_part_may_be_no_larger_than_it_is() -> None:
    rng, worst = np.random.default_rng(3), {1.0: 1.0, 2.0: 1.0}
    for _ in range(2000):
        safe, strategy, costs = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)), rng.random((1, 4))
        share, upper = safe_share(strategy, safe), costs + (1 - costs) * rng.random((1, 4))
        assert (strategy - share * safe).min() > -1e-15
        bound = pessimistic_cost(0, strategy, upper, share, safe, costs @ safe)
        assert bound >= float(costs[0] @ strategy) - 1e-12
        for factor in worst:  # the rest bounded arm by arm, where it is negative, too
            known = factor * share * safe
            worst[factor] = min(
                worst[factor], float(costs[0] @ known + upper[0] @ (strategy - known) - costs[0] @ strategy)
            )
    assert worst[1.0] >= -1e-12
    assert worst[2.0] < -0.1


def test_step_1_the_mean_of_two_plans_of_whatever_rounds_is_safe() -> None:
    rng = np.random.default_rng(4)
    most = {(plan, holds): -1.0 for plan in ("proposal", "follower", "program", "mean") for holds in (True, False)}
    mixed, moved = 0, 0
    for _ in range(3000):
        it = Mixing.draw(rng)
        for holds in (True, False):
            first, second = (  # bounds of two rounds, neither pair above the other
                it.costs + (1 - it.costs) * rng.random(it.costs.shape) if holds else 0.9 * it.costs for _ in range(2)
            )
            proposal, follower, _ = it.follower_plan(rng, first)
            led, weight = it.program_plan(rng, second)
            mixed += bool((follower != proposal).any())
            moved += weight < 0.5
            share = rng.random()
            mean = share * follower + (1 - share) * led
            assert abs(mean.sum() - 1) < 1e-12
            tried = {"proposal": proposal, "follower": follower, "program": led, "mean": mean}
            for plan, strategy in tried.items():
                most[plan, holds] = max(most[plan, holds], it.excess(strategy))
    assert min(mixed, moved) > 1000
    assert most["proposal", True] > 0.1  # mixing is needed
    for plan in ("follower", "program", "mean"):
        assert most[plan, True] <= 1e-12
        assert most[plan, False] > 0.01


# Section 3: the leader on shrinking sets


@pytest.mark.parametrize(("name", "known_end"), CASES)
def test_step_2_sets_shrink(name: str, known_end: bool) -> None:
    it = path(name, known_end)
    assert (np.diff(it.lower, axis=0) >= 0).all()
    assert (np.diff(it.limits, axis=0) <= 0).all()
    assert (np.diff(it.rates) <= 0).all()
    if known_end:  # the paper's bounds move both ways
        assert (np.diff(path(name, True, confidence="paper").lower, axis=0) < 0).any()


def excess(it: Path, best: Floats) -> float:
    """By how much the fed regret is at most above its bound of step 3, over all n while u is in the sets."""
    K, worst, fed = it.problem.n_arms, -math.inf, np.zeros(it.problem.n_arms)
    own, terms = 0.0, 0.0
    x, stability = it.played(it.proposals), it.stability
    for n in range(1, ROUNDS + 1):
        own, terms = own + it.fed[n - 1] * x[n - 1], terms + stability[n - 1]
        fed[it.arms[n - 1]] += it.fed[n - 1]
        u = comparator(it, best, n)
        barrier = -np.log(K * u).sum()
        worst = max(worst, own - fed @ u - barrier / it.rates[n] - terms)
    return worst


@pytest.mark.parametrize(("name", "known_end"), CASES)
@pytest.mark.parametrize("cls", [sf.SOLB, LongSteps])
def test_step_3_the_leader_on_shrinking_sets(name: str, known_end: bool, cls: Any) -> None:
    it = path(name, known_end, cls=cls)
    assert it.inside(comparator(it, it.best, ROUNDS)).all()
    assert excess(it, it.best) <= 1e-6
    outside = np.eye(it.problem.n_arms)[(it.losses.sum(0) + 1e6 * (it.costs.max(0) < 0.6)).argmin()]
    assert not it.inside(comparator(it, outside, ROUNDS))[-1]
    assert excess(it, outside) > 10  # a comparator that has left the sets beats the bound


@pytest.mark.parametrize(("name", "known_end"), CASES)
def test_step_4_stability(name: str, known_end: bool) -> None:
    it, longer = path(name, known_end), path(name, known_end, cls=LongSteps)
    for one in (it, longer):
        v, rate = one.steps, one.rates[:-1]
        over = v > -1
        assert (one.stability[over] <= ((v - np.log1p(np.maximum(v, -1 + 1e-16))) / rate)[over] + 1e-7).all()
        small = v >= -0.5
        assert (one.stability <= 0.78 * rate * one.squares + 1e-7)[small].all()
    assert it.steps.min() >= -0.5 - 1e-12
    # the plain mean for a baseline takes larger steps, and there the inequality fails
    assert longer.steps.min() < -0.9
    assert (longer.stability > 0.78 * longer.rates[:-1] * longer.squares).any()


def test_step_4_the_constant() -> None:
    v = np.linspace(-0.5, 30, 1_000_001)
    assert (v - np.log1p(v) <= 0.78 * v**2).all()
    assert -0.6 - math.log(0.4) > 0.78 * 0.36  # not beyond
    assert -0.5 - math.log(0.5) > 0.77 * 0.25  # nor with less


@pytest.mark.parametrize(("name", "known_end"), CASES)
def test_step_5_the_rate_tunes_itself(name: str, known_end: bool) -> None:
    it = path(name, known_end)
    K, q, log = it.problem.n_arms, it.squares, logs(it)
    Q = np.concatenate([[0.0], q.cumsum()])
    tuned = np.minimum(1, np.sqrt(K * log[1:] / (1 + Q[1:])))
    assert it.rates[1:] == pytest.approx(np.minimum.accumulate(tuned), rel=1e-6)
    root = np.sqrt(K * log[1:] * (1 + Q[1:]))
    spent = (it.rates[:-1] * q).cumsum()
    assert (spent <= 2 * root + np.maximum.accumulate(q)).all()
    assert spent[-1] > root[-1] + q.max()  # the 2 is needed
    if known_end:
        assert (K * log[1:] / it.rates[1:] <= K * log[1:] + root + 1e-6).all()
    else:
        assert (1 / it.rates[1:] <= 1 + np.sqrt((1 + Q[1:]) / (K * math.log(K + 1)))).all()


@pytest.mark.parametrize(("name", "known_end"), CASES)
def test_step_6_what_a_round_adds_on_average(name: str, known_end: bool) -> None:
    it = path(name, known_end)
    x, played, w = it.proposals[:-1], it.strategies[:-1], it.weights[:-1]
    off = (it.losses - it.baselines[:, None]) ** 2
    mean = (x**2 / played * off).sum(1)
    assert (mean <= (x * off).sum(1) / w + 1e-9).all()
    assert (mean > (x * off).sum(1) + 1e-9).any()  # the weight is needed
    assert (mean <= ((it.losses * played).sum(1) / w + it.baselines) / w + 1e-9).all()
    assert it.problem.safe is not None
    least = ((it.problem.thresholds - it.problem.safe.costs) / (1 - it.problem.safe.costs)).min()
    assert w.min() >= least - 1e-12
    total, n = it.met.cumsum(), np.arange(1, ROUNDS + 1)
    assert (it.baselines.cumsum() <= (1 + np.log(n)) * total).all()


def test_step_6_means_of_the_past_add_up_to_a_logarithm() -> None:
    losses = np.zeros(1000)
    losses[0] = 1.0
    means = np.concatenate([[0.0], losses.cumsum()[:-1] / np.arange(1, 1000)])
    assert 1.0 * (1 + math.log(1000)) >= means.sum() > 1.0 * math.log(1000)  # the logarithm is needed


# Section 5: safety regret


def width_scale(problem: sf.Problem) -> float:
    """C of section 5 for betting bounds."""
    return 8 / 3 * (math.log(problem.n_arms * problem.n_constraints / problem.delta) + 4)


@pytest.mark.parametrize(
    "kind", ["coin .5", "coin .02", "all 0", "all 1", "first 0, then 1", "in turn", "Beta", "half"]
)
def test_step_7_betting_bounds_are_as_narrow_as_the_proof_needs(kind: str) -> None:
    rng, n = np.random.default_rng(5), 20_000
    stream = {
        "coin .5": rng.random(n) < 0.5, "coin .02": rng.random(n) < 0.02, "all 0": np.zeros(n), "all 1": np.ones(n),
        "first 0, then 1": np.arange(n) >= n // 2, "in turn": np.arange(n) % 2, "Beta": rng.beta(2, 3, n),
        "half": np.full(n, 0.5),
    }[kind]  # fmt: skip
    problem = sf.Problem(2, [0.5], None, 0.05)
    known, widths = Betting(sides="upper").new_costs(problem), np.empty(n)
    for t in range(n):
        observe(known, 0, np.array([float(stream[t])]))
        widths[t] = known.upper[0, 0] - known.lower[0, 0]
    allowed = np.sqrt(width_scale(problem) / np.arange(1, n + 1))
    assert (widths <= allowed).all()
    if kind == "coin .5":
        assert (widths > allowed / 2).any()  # not with a quarter of C


@pytest.mark.parametrize(("name", "known_end"), CASES)
def test_step_8_safe_weights(name: str, known_end: bool) -> None:
    it = path(name, known_end)
    K, C, rho = it.problem.n_arms, width_scale(it.problem), it.problem.margin
    shares = (it.strategies[:-1] / np.maximum(1, it.counts[:-1])).sum(1)
    slack = (it.limits[:-1] - it.problem.thresholds).max(1)
    squares = (1 - it.weights[:-1]) ** 2
    b = ((it.upper - it.lower)[:-1] * it.proposals[:-1][:, None, :]).sum(2).max(1)
    assert (b**2 <= C * shares / it.weights[:-1] + 1e-9).all()
    assert (squares <= (2 * C * shares + 2 * slack**2) / rho**2 + 1e-9).all()
    assert (squares > (2 * 0.01 * C * shares) / rho**2).any()  # a hundredth of C is too little
    seen = 1 / np.maximum(1, it.played(it.counts))
    assert seen.sum() <= K * (2 + math.log(ROUNDS))
    assert (slack**2).sum() <= (K**2 / ROUNDS if known_end else K + 1) + 1e-9


# Section 7, "With lower bounds at the level 1 / T"


@pytest.mark.parametrize("kind", ["coin .5", "coin .02", "Beta"])
def test_two_levels_the_width(kind: str) -> None:
    """Upper bounds at one level and lower bounds at another: C = (2/3) (sqrt(ln(1/e) + 4) + sqrt(ln(1/e') + 4))^2."""
    rng, n, levels = np.random.default_rng(8), 5_000, (0.05, 1e-6)
    stream = {"coin .5": rng.random(n) < 0.5, "coin .02": rng.random(n) < 0.02, "Beta": rng.beta(2, 3, n)}[kind]
    up, low = (Betting(sides="upper").new_costs(sf.Problem(2, [0.5], None, 2 * level)) for level in levels)
    widths = np.empty(n)
    for t in range(n):
        for known in (up, low):
            observe(known, 0, np.array([float(stream[t])]))
        widths[t] = up.upper[0, 0] - low.lower[0, 0]
    scale = 2 / 3 * sum(math.sqrt(math.log(1 / level) + 4) for level in levels) ** 2
    allowed = np.sqrt(scale / np.arange(1, n + 1))
    assert (widths <= allowed).all()
    if kind == "coin .5":
        assert (widths > allowed / 2).any()  # not with a quarter of C


def test_safe_weights_ask_for_widths_alone() -> None:
    """Step 8 for any bounds, right or wrong, also where lower bounds are above upper ones."""
    rng, crossed, close = np.random.default_rng(9), 0, 0.0
    for _ in range(4000):
        K, m, C = int(rng.integers(2, 6)), int(rng.integers(1, 4)), 20.0
        counts = (10.0 ** rng.uniform(0, 5, K)).astype(int)
        widths = np.sqrt(C / np.maximum(1, counts))
        lower = rng.random((m, K))
        upper = np.minimum(1.0, lower + rng.uniform(-2, 1, (m, K)) * widths)
        proposal, slack = rng.dirichlet(np.full(K, 0.7)), 10.0 ** rng.uniform(-5, -1)
        thresholds = np.maximum(lower @ proposal - slack, 0.02)
        theta = thresholds * rng.uniform(0, 0.98, m)
        costs, rho = np.minimum(1.0, upper @ proposal), float((thresholds - theta).min())
        ratios = (costs - thresholds) / np.where(costs > thresholds, costs - theta, 1.0)
        gamma = float(max(0.0, ratios.max()))
        played = (1 - gamma) * proposal + gamma * np.eye(K)[0]
        right = (2 * C * float((played / np.maximum(1, counts)).sum()) + 2 * slack**2) / rho**2
        assert gamma**2 <= right + 1e-12
        crossed += bool((lower > upper).any())
        close = max(close, gamma**2 / right)
    assert crossed > 1000
    assert close > 0.1


# Section 6: the comparator


@pytest.mark.parametrize("known_end", [True, False])
def test_step_9_the_comparator_and_what_replaces_the_horizon(known_end: bool) -> None:
    it = path("stochastic-v1", known_end)
    K = it.problem.n_arms
    for n in (1, 10, 100, ROUNDS):
        u = comparator(it, it.best, n)
        cost = it.costs @ u
        assert u.min() >= it.floor * (1 - 1e-12)
        assert (cost <= it.limits[n] + 1e-12).all()  # even were the costs known
        assert n * float(np.abs(u - it.best).sum()) <= 2 * K
        assert -np.log(K * u).sum() <= K * math.log((n + K) / K if not known_end else ROUNDS / K) + 1e-9
    assert (it.costs @ comparator(it, it.best, ROUNDS) > it.problem.thresholds).any()  # the slack is needed


# Section 9: two plans


def lost(ds: Floats, tuned: bool = True) -> tuple[float, float, float, float]:
    """What the mean of two plans loses against each, D_n and V_n, if d is as told; or with a rate that stays 2."""
    draft = layout_of(Plans).new(K=2, m=1)
    start_plans(draft, np.array([0.5]), np.eye(2)[0], np.array([0.2]), 0.05, True)
    draft.strategies = np.eye(2)
    plans = draft.opened()
    to_follower, to_program = 0.0, 0.0
    for d in ds:
        share = float(plans.share[0])
        to_follower, to_program = to_follower - (1 - share) * d, to_program + share * d
        compare(plans, 0, float(d))
        if tuned:
            set_share(plans)
        else:
            plans.share[0] = max(0.1, 1 / (1 + 9 * math.exp(min(50, 2 * (plans.lost_more[0] - plans.lost_less[0])))))
    return to_follower, to_program, float(plans.lost_more[0] - plans.lost_less[0]), float(plans.squares[0])


def test_step_11_the_mean_of_two_plans_against_each() -> None:
    rng = np.random.default_rng(6)
    paths: list[Floats] = [
        scale * rng.standard_t(tail, n) + drift
        for scale in (0.01, 1.0, 30.0) for drift in (-0.5, 0.0, 0.5) for tail in (1, 3) for n in (1, 30, 1000)
    ]  # fmt: skip
    paths += [np.tile([-size, size], 500) for size in (0.1, 1.0, 10.0)] + [np.array([3.6]), np.array([-3.6])]
    paths += [sign * 2.0 ** np.arange(60.0) for sign in (-1.0, 1.0)]
    close = 0.0
    for ds in paths:
        to_follower, to_program, ahead, squares = lost(ds)
        root = math.sqrt(1 + squares)
        assert to_follower <= 2.35 * root
        assert to_program <= max(0.0, ahead) / 10 + 1.2 * root
        close = max(close, to_follower / root)
    assert close > 0.85  # not with a third of the constant
    swaying = np.tile([-1.0, 1.0], 500)
    assert lost(swaying, tuned=False)[0] > 2.35 * math.sqrt(1 + len(swaying))  # the rate has to fall


def test_step_11_the_constant_of_the_errors() -> None:
    r = np.geomspace(1e-4, 1e4, 1_000_001)
    ratio = np.minimum(r**2 / 4, 0.9 * r) / (r**2 / (np.sqrt(1 + r**2) + 1))
    assert 1.18 < ratio.max() < 1.19
    assert r[ratio.argmax()] == pytest.approx(3.6, rel=1e-3)


def against_the_follower(stubborn: bool) -> tuple[float, float]:
    """What "practical" loses against the follower's plans, as estimated, and its bound by Step 11 for old shares.

    Whatever the program would play most loses 1, all else 0.3. A stubborn program keeps its share all the same.
    """
    problem = sf.Problem(3, [0.5], 4000, 0.05, sf.SafeStrategy([1, 0, 0], [0.2]))
    policy, rng, true_costs = sf.SOLB(problem, 3, preset="practical"), np.random.default_rng(5), [0.2, 0.4, 0.45]
    plans, learner = plans_of(policy), learner_of(policy)
    lost_to_it, errors, ends, since, at = 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(4000):
        squares, share, both = float(plans.squares[0]), float(plans.share[0]), plans.strategies.copy()
        decision, mean = policy.ask(), learner.recent_loss[0] / max(1.0, learner.recent_rounds[0])
        loss = 1.0 if decision.arm == both[1].argmax() else 0.3
        d = float((both[0] - both[1])[decision.arm]) * (loss - mean) / decision.propensity
        policy.tell(decision, loss, [float(rng.random() < true_costs[decision.arm])])
        lost_to_it, since, squares = lost_to_it - (1 - share) * d, since + d, squares + d * d
        restarted = bool(learner.recent_rounds[0] == 0)
        if restarted or share != plans.share[0] or (both != plans.strategies).any():  # weighed
            errors += min(since**2 / (4 * math.sqrt(1 + at)), 0.9 * abs(since))
            since, at = 0.0, 0.0 if restarted else squares
        if restarted:
            ends += math.log(10) / 2 * math.sqrt(1 + squares)
        else:
            assert plans.squares[0] == pytest.approx(squares)
        if stubborn:
            plans.share[0] = LEAST_SHARE
            policy._state.safe_weight[0] = blend(plans, policy._state.strategy)
    errors += min(since**2 / (4 * math.sqrt(1 + at)), 0.9 * abs(since))
    return lost_to_it, errors + ends + math.log(10) / 2 * math.sqrt(1 + float(plans.squares[0]))


def test_step_11_on_a_path_that_punishes_the_program() -> None:
    lost_to_it, bound = against_the_follower(stubborn=False)
    assert 0 < lost_to_it <= bound
    lost_to_it, bound = against_the_follower(stubborn=True)
    assert lost_to_it > bound
