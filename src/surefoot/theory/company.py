"""What docs/theory/practical.md and led.md say about every path of the presets "guaranteed" and "led", and its trials.

A follower of the leader keeps a proposal for a batch of rounds (one, in "guaranteed"). Each function returns right side
minus left side, which is negative where a statement fails.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.ledger import WorldLedger
from surefoot.environments.scenario import Scenario
from surefoot.kernels.layout import layout_of
from surefoot.kernels.plans import LEAST_SHARE
from surefoot.kernels.trio import SMALL, Trio, barrier, blend_trio, set_shares, start_trio, stepped, weigh
from surefoot.policies.led import MOST_KEPT, usual_share
from surefoot.policies.solb import SOLB
from surefoot.rules import Floats
from surefoot.simulation.world import World, policy_seed
from surefoot.theory.claims import Finding, Outcome, always, at_most, both
from surefoot.theory.families import boundary
from surefoot.theory.mutations import BaselineNotCut

TOLERANCE = 1e-7


class Followed(NamedTuple):
    """A path of a follower of the leader. Row t of what has T + 1 rows is of the time before round t + 1."""

    n_arms: int
    best: Floats  # (K,) x* of these losses
    margin: float
    scale: float  # C: squared width of the bounds times the count, at most
    arms: Any  # (T,)
    fed: Floats  # (T,) loss less baseline, over the probability of the draw
    proposals: Floats  # (T + 1, K)
    strategies: Floats  # (T + 1, K)
    company: Floats  # (T + 1,) the share of the proposal in what is played
    weights: Floats  # (T + 1,) of the proposal in its mixture with the safe strategy
    rates: Floats  # (T + 1,)
    starts: Any  # (T,) whether a batch begins with the round
    lower: Floats  # (T + 1, m, K)
    counts: Floats  # (T + 1, K)
    limits: Floats  # (m,)
    spent: float  # what the policy has counted itself
    clean: bool  # no bounds met, and no losses were forgotten

    def steps(self) -> list[tuple[int, Floats]]:
        """For each batch its first round, and proposal times the sum of what was fed, arm by arm."""
        firsts = np.flatnonzero(self.starts)
        found = []
        for first, end in zip(firsts, [*firsts[1:], len(self.arms)], strict=True):
            total = np.bincount(self.arms[first:end], self.fed[first:end], self.n_arms)
            found.append((int(first), np.asarray(self.proposals[first] * total)))
        return found


def record_followed(scenario: Scenario, cls: Any, preset: str, seed: int) -> Followed:
    """Play SOLB with one of the two presets in the world of a seed, and record everything."""
    problem = scenario.problem
    policy = cls(problem, policy_seed(seed), preset=preset)
    policy.quiet = True
    state, cuts, led = policy._state, not issubclass(cls, BaselineNotCut), preset == "led"
    rows: dict[str, list[Any]] = {name: [] for name in Followed._fields}
    losses_met = []

    def write() -> None:
        own = 1.0 - policy.safe_weight
        if led:
            own = 1.0 - float(state.trio.safe_weights[2])
            share = float(state.trio.shares @ state.trio.proposal_weights)
        now = {
            "proposals": state.learner.proposal.copy(), "strategies": state.strategy.copy(), "weights": own,
            "company": share if led else own, "rates": float(state.learner.learning_rates[0]),
            "lower": state.known.lower.copy(), "counts": state.known.counts.copy(),
        }  # fmt: skip
        for name, value in now.items():
            rows[name].append(value)

    for losses, costs in World(scenario, seed).blocks(problem.rounds):
        losses_met.append(losses)
        for of_arms, its_costs in zip(losses, costs, strict=True):
            write()
            learner, decision = state.learner, policy.ask()
            baseline = float(learner.recent_loss[0] / max(1.0, learner.recent_rounds[0]))
            if cuts:
                baseline = min(baseline, (SMALL if led else 0.5) * rows["company"][-1] / rows["rates"][-1])
            rows["arms"].append(decision.arm)
            rows["fed"].append((float(of_arms[decision.arm]) - baseline) / decision.propensity)
            rows["starts"].append(not led or state.batch_rounds[0] == 0)
            policy.tell(decision, float(of_arms[decision.arm]), its_costs[:, decision.arm].tolist())
    write()
    ledger = WorldLedger(problem, Hindsight(scenario.mean_costs, problem.thresholds), [problem.rounds])
    ledger.add(np.concatenate(losses_met))
    scale = 8.0 / 3.0 * (math.log(problem.n_arms * max(1, problem.n_constraints) / problem.delta) + 4.0)
    written: dict[str, Any] = {name: np.array(values) for name, values in rows.items() if values}
    return Followed(
        n_arms=problem.n_arms, best=ledger.settled().benchmarks[0], margin=problem.margin, scale=scale,
        limits=problem.limits, spent=float(state.learner.spent[0]),
        clean=not bounds_met(policy) and int(state.learner.recent_rounds[0]) == problem.rounds, **written,
    )  # fmt: skip


def bounds_met(policy: Any) -> bool:
    """Whether a lower bound came to lie above its upper bound, which was then taken for both (`kernels/betting.py`).

    If bounds contradicted each other after that, they have begun again, and no longer show it.
    """
    if policy.contradicted:
        return True
    met = policy.lower_costs >= policy.upper_costs
    exempt = policy._state.known.exempt  # an arm whose costs are stated: nothing can contradict them
    return bool((np.delete(met, exempt, axis=1) if exempt >= 0 else met).any())


def small_steps_slack(path: Followed) -> float:
    """No batch takes a step below -1/2, and each costs at most 0.78 rate times its square, as a multiple of that.

    -inf if a batch is too long, or what the policy counted is not what was fed.
    """
    slack, total = math.inf, 0.0
    for first, step in path.steps():
        v = path.rates[first] * step
        square = float((v**2).sum())
        slack = min(slack, float(v.min()) + 0.5)
        if v.min() > -1.0 and square > TOLERANCE:
            slack = min(slack, 0.78 - float((v - np.log1p(v)).sum()) / square)
        total += float((step**2).sum())
    longest = int(np.diff([*np.flatnonzero(path.starts), len(path.arms)]).max())
    as_said = longest <= MOST_KEPT and abs(total - path.spent) <= TOLERANCE * (1.0 + total)
    return slack + TOLERANCE if as_said else -math.inf


def leader_slack(path: Followed) -> float:
    """What the follower pays for u, the truncated benchmark: psi(u) / rate + 0.78 (sum of rate times squares)."""
    rounds = len(path.arms)
    u = (1.0 - path.n_arms / rounds) * path.best + 1.0 / rounds
    if not ((path.lower @ u) <= path.limits + 1e-12).all():
        return math.inf  # the lower bounds have failed
    played = path.proposals[np.arange(rounds), path.arms]
    left = float((path.fed * (played - u[path.arms])).sum())
    squares = sum(path.rates[first] * float((step**2).sum()) for first, step in path.steps())
    return float(-np.log(path.n_arms * u).sum() / path.rates[-1] + 0.78 * squares - left + TOLERANCE)


def company_slack(path: Followed) -> float:
    """The proposal has w / c or more of what is played, and safe weights are as small as widths allow.

    By how much what is played falls short of the proposal's share of it, if it does.
    """
    c = 2.0 / usual_share(path.n_arms, path.limits.size)
    share = path.company - path.weights / c
    short = float((path.strategies - path.company[:, None] * path.proposals).min())
    if short < -TOLERANCE:
        return short
    sigma = (path.strategies[:-1] / np.maximum(1.0, path.counts[:-1])).sum(axis=1)
    slack = 2.0 * (path.n_arms / len(path.arms)) ** 2
    most = (2.25 * c * path.scale * sigma + slack) / path.margin**2 - (1.0 - path.weights[:-1]) ** 2
    return float(min(share.min(), most.min())) + TOLERANCE


def try_followed(preset: str, mutation: Any, runs: int) -> Finding:
    """What is said of every path of a preset. Paths that forget losses or end with the safe strategy are left out."""
    cls = SOLB if mutation is None else type(mutation.__name__ + "SOLB", (mutation, SOLB), {})
    outcomes = []
    for seed in range(runs):
        path = record_followed(boundary(3_000), cls, preset, seed)
        slack = min(small_steps_slack(path), leader_slack(path))
        outcomes.append(Outcome(min(slack, company_slack(path)) if preset == "led" else slack, path.clean))
    return always(outcomes)


def try_guaranteed(mutation: Any, runs: int) -> Finding:
    """Theorem R: the follower of the leader alone."""
    return try_followed("guaranteed", mutation, runs)


def try_led(mutation: Any, runs: int) -> Finding:
    """Theorem L: the follower of the leader in company."""
    return try_followed("led", mutation, runs)


class Forced(NamedTuple):
    """Forced draws of arms, for three plans that stay as they are."""

    plans: Floats  # (3, K)
    arms: Any  # (n,)
    losses: Floats  # (n,) counted from the baseline, in [-1, 1]

    @classmethod
    def blinding(cls) -> Forced:
        """The program falls behind, is drawn once at a tiny share, and wins; then it loses."""
        arms = np.concatenate([np.zeros(64, np.int64), np.ones(3_001, np.int64)])
        losses = np.concatenate([np.full(65, -1.0), np.ones(3_000)])
        return cls(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), arms, losses)

    @classmethod
    def drawn(cls, seed: int) -> Forced:
        """Plans, arms and losses drawn at random."""
        rng = np.random.default_rng(seed)
        n_arms, n = int(rng.integers(2, 5)), int(rng.integers(50, 1_500))
        plans = 0.999 * rng.dirichlet(np.full(n_arms, 0.3), size=3) + 0.001 / n_arms
        return cls(plans, rng.integers(n_arms, size=n), np.clip(rng.normal(size=n) + rng.normal(), -1.0, 1.0))


def shares_slack(forced: Forced, plan: int, wrong: str | None = None) -> float:
    """What shares lose against a plan by the estimates: at most 4.04 L + 2.51 sqrt(L (1 + S)) + 0.78."""
    n, n_arms = len(forced.arms), forced.plans.shape[1]
    draft = layout_of(Trio).new(K=n_arms, m=1)
    start_trio(draft, np.array([0.5]), np.eye(n_arms)[0], np.array([0.2]), 0.05)
    draft.strategies = forced.plans
    trio, played = draft.opened(), np.zeros(n_arms)
    u = np.full(3, 1.0 / n)
    u[plan] = 1.0 - 2.0 / n
    lost, squares, ahead, variance = 0.0, 0.0, 0.0, 0.0
    for arm, loss in zip(forced.arms, forced.losses, strict=True):
        blend_trio(trio, played)
        before = trio.lost.copy()
        weigh(trio, int(arm), float(played[arm]), float(loss))
        more = trio.lost - before
        lost += float((trio.shares - u) @ more)
        if wrong is None:
            if trio.rate[0] ** 2 * stepped(trio) >= SMALL**2:
                set_shares(trio, math.log(n))
            continue
        squares += stepped(trio)
        trio.steps[:] = 0.0
        ahead, variance = ahead + more[0] - more[1], variance + (more[0] - more[1]) ** 2
        odds = (1.0 / LEAST_SHARE - 1.0) * math.exp(min(700.0, 2.0 * ahead / math.sqrt(1.0 + variance)))
        follower = max(LEAST_SHARE, 1.0 / (1.0 + odds))
        trio.shares[:] = 0.5 * follower, 1.0 - follower, 0.5 * follower
    squares += float(trio.squares[0]) + stepped(trio)
    bound = barrier(math.log(n))
    return 4.04 * bound + 2.51 * math.sqrt(bound * (1.0 + squares)) + 0.78 - lost


def try_shares(mutation: Any, runs: int) -> Finding:
    """Theorem L: the shares against the plans with the proposal in them, on forced paths."""
    paths = [Forced.blinding(), *(Forced.drawn(seed) for seed in range(runs - 1))]
    return always([Outcome(min(shares_slack(path, plan, mutation) for plan in (0, 2))) for path in paths])


def squares_of_shares(kept: int, rounds: int, seed: int, left_out: bool = False) -> float:
    """S a round, in batches of so many rounds, of losses that react so that two shares stay level.

    The squared length of what a batch adds up to is largest there: in each of its rounds the plan with more of the play
    loses 1 and the other one nothing.
    """
    rng = np.random.default_rng(seed)
    draft = layout_of(Trio).new(K=3, m=1)
    start_trio(draft, np.array([0.5]), np.eye(3)[0], np.array([0.2]), 0.05)
    draft.strategies = np.eye(3)
    trio, played, squares = draft.opened(), np.zeros(3), 0.0
    for _ in range(rounds // kept):
        blend_trio(trio, played)
        larger = int(trio.shares[1] > trio.shares[0])
        before = trio.lost.copy()
        for arm in rng.choice(3, size=kept, p=played / played.sum()):
            weigh(trio, int(arm), float(played[arm]), float(arm in (larger, 2)))
        squares += float(((trio.lost - before) ** 2).sum()) if left_out else stepped(trio)
        set_shares(trio, math.log(rounds))
    return squares / rounds


def squares_of_proposal(kept: int, rounds: int, seed: int) -> float:
    """Q a round, of a proposal that stays and has half of the play, in batches of so many rounds; losses are 1."""
    rng = np.random.default_rng(seed)
    proposal = np.array([0.98, 0.01, 0.01])
    played = 0.5 * proposal + 0.5 * np.array([0.0, 0.5, 0.5])
    arms = rng.choice(3, size=(rounds // kept, kept), p=played)
    counts = (arms[:, :, None] == np.arange(3)).sum(axis=1)
    return float(((counts * proposal / played) ** 2).sum()) / rounds


def try_squares(mutation: Any, runs: int) -> Finding:
    """Theorem L: the squares of both kinds, on average."""
    kept = 128 if mutation == "batches of 128 rounds" else int(MOST_KEPT)
    left_out = mutation == "shares left out"
    of_shares = [squares_of_shares(kept, 3_200, seed, left_out) - 5.6 for seed in range(runs)]
    of_proposal = [squares_of_proposal(kept, 3_200, seed) - 2 * (1 / 0.5 + 16) for seed in range(runs)]
    return both(at_most(of_shares, "S a round minus 5.6"), at_most(of_proposal, "Q a round minus 2 (1 / pi + 16)"))
