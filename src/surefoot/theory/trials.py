"""How the claims are tried: one function each, in the order of the paper.

A trial takes a mutation (None: the unchanged policy) and a number of runs; seeds are 0, 1, 2, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from surefoot.analysis.clean import truncated
from surefoot.environments.lower_bound import lower_bound
from surefoot.environments.scenario import Scenario
from surefoot.policies.colb import COLB
from surefoot.policies.rates import halving_log, log_vertices, peeled_log
from surefoot.policies.solb import SOLB
from surefoot.rules import Floats
from surefoot.simulation.episode import Factory
from surefoot.simulation.simulate import simulate
from surefoot.theory import mutations, paths
from surefoot.theory.bounds import (
    Instance,
    lemma_3,
    lemma_3_sharp,
    lemma_4,
    safe_arm_rounds,
    theorem_1,
    theorem_2,
    theorem_5,
)
from surefoot.theory.claims import Finding, Outcome, always, at_most, both, rarely, slope_within
from surefoot.theory.descent import cost_log, sampling_log
from surefoot.theory.families import THRESHOLD, boundary, constant_gap, inside, lopsided, switching
from surefoot.theory.trace import Trace, record

DELTA = 0.05


def maker(policy: type[COLB] | type[SOLB], mutation: Any, **options: Any) -> Factory:
    """A factory of a policy, or of the mutation of it."""
    cls = policy if mutation is None else mutations.mutant(policy, mutation)
    return lambda problem, seed: cls(problem, seed, preset="paper", **options)


def practical(total: float) -> dict[str, Any]:
    """Options for a learning rate that is large enough to learn: the one for a known benchmark loss."""
    return {"learning_rate": "practical", "benchmark_loss": total}


def rows(scenario: Scenario, factory: Factory, runs: int) -> list[dict[str, Any]]:
    """The last rows of simulated runs."""
    run = simulate(scenario, {"policy": factory}, seeds=runs, checkpoints=[scenario.problem.rounds], workers=1)
    found: list[dict[str, Any]] = run.table.to_pylist()
    return found


def traces(scenario: Scenario, factory: Factory, runs: int) -> Iterator[Trace]:
    """Whole paths."""
    return (record(scenario, factory, seed) for seed in range(runs))


# Lemmas 1 and 2, Theorem 1: costs -------------------------------------------------------------------------------------


def try_bounds(mutation: Any, runs: int) -> Finding:
    """Lemma 1: whether every true cost is within its bounds at all times."""
    scenario = boundary(2_000, n_constraints=2)
    found = rows(scenario, maker(COLB, mutation, learning_rate=0.1), runs)
    return rarely([Outcome(0.0 if row["clean"] else -1.0, clean=row["clean"]) for row in found], DELTA)


def try_inclusion(mutation: Any, runs: int) -> Finding:
    """Lemma 2: whether the benchmark's truncation is in every safe set, and none empty."""
    found = rows(inside(5_000, cost=THRESHOLD), maker(COLB, mutation, learning_rate=0.1), runs)
    kept = [0.0 if row["benchmark_kept"] and row["empty_rounds"] == 0 else -1.0 for row in found]
    return rarely([Outcome(0.0, row["clean"], slack) for slack, row in zip(kept, found, strict=True)], DELTA)


def try_violation(mutation: Any, runs: int) -> Finding:
    """Theorem 1: the whole violation against the bound, and each round's against the radii."""
    scenario = boundary(20_000)
    factory = maker(COLB, mutation, **practical(6_000.0))
    found = rows(scenario, factory, runs)
    bound = [theorem_1(Instance.measured(scenario.problem, row)).total - row["violation"] for row in found]
    whole = [Outcome(slack, row["clean"]) for slack, row in zip(bound, found, strict=True)]
    paths_of = traces(scenario, factory, max(2, runs // 20))
    return both(rarely(whole, 2 * DELTA), always([Outcome(paths.violation_slack(t), t.clean) for t in paths_of]))


def try_growth(mutation: Any, runs: int) -> Finding:
    """Theorem 1: how violation grows with the horizon."""
    horizons = [10_000, 30_000, 100_000, 300_000]
    values = [
        [row["violation"] for row in rows(boundary(T), maker(COLB, mutation, **practical(0.3 * T)), runs)]
        for T in horizons
    ]
    return slope_within(horizons, np.transpose(values), 0.3, 0.7, "violation in the horizon")


# Mirror descent, Theorem 2 and the doubling trick: losses of COLB -----------------------------------------------------


def comparators(trace: Trace) -> Iterator[Any]:
    """The truncated benchmark and, for what holds of all strategies, others on both sides of the thresholds."""
    yield paths.truncated_benchmark(trace)
    for strategy in ([0, 0, 1], [1, 0, 0], [0, 1, 0], [0.3, 0.3, 0.4]):
        yield truncated(np.array(strategy, np.float64), trace.problem)


def try_descent(mutation: Any, runs: int) -> Finding:
    """Lemma 5: each step of mirror descent, and their sum."""

    def slack(trace: Trace) -> float:
        feed = trace.loss_estimates
        steps = [paths.step_slack(trace, feed, u) + paths.TOLERANCE for u in comparators(trace)]
        sums = [paths.descent_slack(trace, feed, u) for u in comparators(trace)]
        return min(*steps, *sums, paths.caps_slack(trace))

    # true of any radius while there are safe sets: with a narrow one the thresholds are felt from the start
    narrow = mutations.mutant(COLB, *filter(None, (mutation, mutations.NarrowRadius)))
    scenario = boundary(1_500, n_constraints=2)
    found = traces(scenario, lambda problem, seed: narrow(problem, seed, preset="paper", learning_rate=0.2), runs)
    return always([Outcome(slack(trace), trace.empty_rounds == 0) for trace in found])


def printed_sampling(instance: Instance, variance: float) -> float:
    """The paper's Freedman for what the policy itself loses: 2 sqrt(V iota) + iota."""
    iota = sampling_log(instance)
    return 2.0 * math.sqrt(variance * iota) + iota


def printed_estimation(instance: Instance, variance: float, largest: float) -> float:
    """The paper's Freedman for what the benchmark loses: H (sqrt(8 V ln(H / delta)) + 2 B ln(H / delta))."""
    peeled = peeled_log(instance)
    twice = math.log(peeled) - math.log(instance.delta)
    return peeled * (math.sqrt(8.0 * variance * twice) + 2.0 * largest * twice)


def measured(trace: Trace) -> Instance:
    """The instance that a path met."""
    row = {
        "round": trace.rounds,
        "bandit_complexity": float((trace.losses @ trace.benchmark).sum()),
        "safety_complexity": float(np.sqrt((safe_gaps(trace) ** 2).sum())),
    }
    return Instance.measured(trace.problem, row, float(trace.base_rates[0]))


def safe_gaps(trace: Trace) -> Floats:
    """By how much the safe strategy loses more than the benchmark, round by round."""
    safe = trace.problem.safe
    return np.zeros(trace.rounds) if safe is None else trace.losses @ (safe.strategy - trace.benchmark)


def learning_outcome(trace: Trace, weights: Any = 1.0) -> Outcome:
    """Each part of learning regret against its bound: two martingales may fail by chance, the rest never."""
    u, instance = paths.truncated_benchmark(trace), measured(trace)
    found = paths.martingales(trace, u)
    return Outcome(
        min(
            printed_sampling(instance, found.own_variance) - found.own,
            printed_estimation(instance, found.other_variance, found.other_range) - found.other,
        ),
        trace.clean,
        min(
            paths.descent_slack(trace, trace.loss_estimates, u, weights),
            trace.problem.n_arms - paths.truncation_cost(trace, u),
        ),
    )


def try_regret(mutation: Any, runs: int) -> Finding:
    """Theorem 2: each part of COLB's regret against the bound of that part."""
    found = traces(inside(2_000), maker(COLB, mutation, **practical(100.0)), runs)
    outcomes = [learning_outcome(trace) for trace in found]
    closed = theorem_2(Instance(3, 1, 2_000, DELTA, None, 100.0, None, 0.5)).total
    finding = rarely(outcomes, 4 * DELTA)
    return finding._replace(figures=f"{finding.figures}; the closed form says {closed:.2g} of 2,000")


def try_small_losses(mutation: Any, runs: int) -> Finding:
    """Theorem 2: how regret grows with the benchmark's loss."""
    horizon, shares = 20_000, [1 / 256, 1 / 64, 1 / 16, 1 / 4]
    rate = "practical" if mutation == "worst-case rate" else "doubling"
    values = [
        [row["regret"] for row in rows(inside(horizon, share), maker(COLB, None, learning_rate=rate), runs)]
        for share in shares
    ]
    return slope_within(shares, np.transpose(values), 0.3, 0.7, "regret in the benchmark loss")


def try_doubling(mutation: Any, runs: int) -> Finding:
    """Remark 3: each step, and each epoch of the doubling trick."""

    def slack(trace: Trace) -> float:
        feed = trace.loss_estimates
        steps = [paths.step_slack(trace, feed, u) + paths.TOLERANCE for u in comparators(trace)]
        sums = paths.epochs_slack(trace, feed, paths.truncated_benchmark(trace))
        return min(*steps, sums, paths.caps_slack(trace), paths.restarts_slack(trace, feed))

    found = [
        always([
            Outcome(slack(trace), trace.clean)
            for trace in traces(inside(3_000, 0.3), maker(policy, mutation, learning_rate="doubling"), runs)
        ])
        for policy in (COLB, SOLB)
    ]  # fmt: skip
    return both(*found)


# Theorem 3 and Lemma 3: the mixture of SOLB ---------------------------------------------------------------------------


def try_safety(mutation: Any, runs: int) -> Finding:
    """Theorem 3: the least margin of any round."""
    found = rows(boundary(3_000, 0.05, 2), maker(SOLB, mutation, learning_rate=0.1), runs)
    return rarely([Outcome(0.0, row["clean"], row["worst_margin"] + 1e-12) for row in found], DELTA)


def try_mixing(mutation: Any, runs: int) -> Finding:
    """Algorithm 2: weights, mixtures, and all guardrails at the upper bounds."""
    narrow = mutations.mutant(SOLB, *filter(None, (mutation, mutations.NarrowRadius)))  # so that upper bounds are low
    found = traces(
        lopsided(2_000), lambda problem, seed: narrow(problem, seed, preset="paper", learning_rate=0.2), runs
    )
    return always([Outcome(paths.mixing_slack(trace), trace.empty_rounds == 0) for trace in found])


def try_safety_regret(mutation: Any, runs: int) -> Finding:
    """Lemma 3: weights round by round, light and heavy rounds, and safety regret."""

    def outcome(trace: Trace) -> Outcome:
        problem, gamma, instance = trace.problem, trace.safe_weights[:-1], measured(trace)
        heavy, regret = int((gamma > 0.5).sum()), float(gamma @ safe_gaps(trace))
        wide = int((trace.of_arms(trace.radii) >= problem.margin**2 / 8).sum())
        light = math.sqrt(float((gamma[gamma <= 0.5] ** 2).sum())) * instance.safety_complexity
        told = lemma_3(instance, heavy_rounds=heavy)
        chance = min(
            told.terms["light rounds"] - light,
            lemma_3(instance).terms["heavy rounds"] - heavy,
            told.total - regret,
        )
        few = problem.n_arms * (1 + 256 * cost_log(instance) / problem.margin**4)
        return Outcome(chance, trace.clean, min(paths.weight_slack(trace), few - wide))

    found = traces(boundary(20_000), maker(SOLB, mutation, **practical(6_000.0)), runs)
    return rarely([outcome(trace) for trace in found], 3 * DELTA)


def try_sharp_safety_regret(mutation: Any, runs: int) -> Finding:
    """Ours: squared weights round by round, and safety regret without heavy rounds."""

    def outcome(trace: Trace) -> Outcome:
        regret = float(trace.safe_weights[:-1] @ safe_gaps(trace))
        return Outcome(lemma_3_sharp(measured(trace)).total - regret, trace.clean, paths.squared_weight_slack(trace))

    found = traces(boundary(20_000), maker(SOLB, mutation, **practical(6_000.0)), runs)
    return rarely([outcome(trace) for trace in found], 2 * DELTA)


def try_gap(mutation: Any, runs: int) -> Finding:
    """Lemma 3: how safety regret grows with the gap."""
    gaps, factory = [0.05, 0.1, 0.2, 0.4], maker(SOLB, mutation, **practical(1_000.0))
    none = [abs(row["safety_regret"]) for row in rows(constant_gap(5_000, 0.0), factory, runs)]
    values = [[row["safety_regret"] for row in rows(constant_gap(5_000, gap), factory, runs)] for gap in gaps]
    zero = Finding("held" if max(none) <= 1e-8 else "refuted", f"{max(none):.2g} at gap 0")
    return both(zero, slope_within(gaps, np.transpose(values), 0.8, 1.2, "safety regret in the gap"))


# Lemma 4, ours and theirs, and what follows from both lemmas ----------------------------------------------------------


def try_learning_regret(mutation: Any, runs: int) -> Finding:
    """Lemma 4 as printed."""

    def outcome(trace: Trace) -> Outcome:
        steps = [paths.step_slack(trace, trace.loss_estimates, u) + paths.TOLERANCE for u in comparators(trace)]
        found = learning_outcome(trace, trace.weights)
        return found._replace(path=min(found.path, *steps))

    found = traces(inside(3_000), maker(SOLB, mutation, **practical(150.0)), runs)
    return rarely([outcome(trace) for trace in found], 4 * DELTA)


def try_weighted(mutation: Any, runs: int) -> Finding:
    """Our Lemma 4: what mirror descent pays for weighted estimates, step by step and in all."""
    estimator = "paper" if mutation == "not weighted" else "weighted"
    wrong = None if mutation == "not weighted" else mutation

    def outcome(trace: Trace) -> Outcome:
        problem, feed = trace.problem, trace.weights * trace.loss_estimates
        u = paths.truncated_benchmark(trace)
        terms, instance = paths.martingales(trace, u), measured(trace)
        union = halving_log(instance, log_vertices(instance))
        steps = [paths.step_slack(trace, feed, v) + paths.TOLERANCE for v in comparators(trace)]
        chance = min(
            paths.freedman(terms.own_variance, 1.0, halving_log(instance)) - terms.own,
            paths.freedman(terms.other_variance, terms.other_range, union) - terms.other,
        )
        certain = min(
            *steps,
            paths.feed_slack(trace),
            paths.descent_slack(trace, feed, u),
            problem.n_arms - paths.truncation_cost(trace, u),
        )
        return Outcome(chance, trace.clean, certain)

    factory = maker(SOLB, wrong, estimator=estimator, **practical(150.0))
    found = traces(inside(3_000), factory, runs)
    return rarely([outcome(trace) for trace in found], 3 * DELTA)


def regret_excess(trace: Trace) -> tuple[float, float]:
    """Both parts of regret minus their bounds, without sums of zero mean: Cauchy-Schwarz, and Lemma 5 and K."""
    instance, u = measured(trace), paths.truncated_benchmark(trace)
    gamma, gaps = trace.safe_weights[:-1], trace.proposals[:-1] - trace.benchmark
    mixing = math.sqrt(float((gamma**2).sum())) * instance.safety_complexity
    _, descent = paths.descent_terms(trace, trace.loss_estimates, u, trace.weights)
    learning = float((trace.weights * (trace.losses * gaps).sum(axis=1)).sum())
    return float(gamma @ safe_gaps(trace)) - mixing, learning - descent - trace.problem.n_arms


def try_theorem_4(mutation: Any, runs: int) -> Finding:
    """Theorem 4: regret against the sum of all its parts."""

    def outcome(trace: Trace) -> Outcome:
        u, instance = paths.truncated_benchmark(trace), measured(trace)
        terms, excess = paths.martingales(trace, u), sum(regret_excess(trace))
        sampling = printed_sampling(instance, terms.own_variance)
        estimation = printed_estimation(instance, terms.other_variance, terms.other_range)
        found = learning_outcome(trace, trace.weights)
        return found._replace(slack=min(found.slack, sampling + estimation - excess))

    found = traces(inside(3_000), maker(SOLB, mutation, **practical(150.0)), runs)
    finding = rarely([outcome(trace) for trace in found], 6 * DELTA)
    closed = lemma_4(Instance(3, 1, 3_000, DELTA, 0.3, 150.0, 0.65, 0.5)).total
    return finding._replace(figures=f"{finding.figures}; the closed form of Lemma 4 alone says {closed:.2g} of 3,000")


def try_corollary(mutation: Any, runs: int) -> Finding:
    """The corollary: regret in the mean, where the martingales vanish."""
    findings = []
    for name, family in (("i.i.d.", inside), ("switching", switching)):
        factory = maker(SOLB, mutation, **practical(150.0))
        scenario = family(3_000, delta=1 / 3_000)
        excess = np.array([regret_excess(trace) for trace in traces(scenario, factory, runs)])
        for part, values in zip(("safety", "learning"), excess.T, strict=True):
            findings.append(at_most(values, f"{part} regret minus its bound, {name} losses"))
    return both(*findings)


def try_lower_bound(mutation: Any, runs: int) -> Finding:
    """Theorem 5: what SOLB pays on nu_2 and nu_3 for being safe on nu_1."""
    horizon, omega, gap, margin = 10_000, 0.1, 0.2, 0.2
    factory = maker(SOLB, mutation, **practical(omega * horizon / 2))
    worlds = {i: lower_bound(horizon, i, omega, gap, margin) for i in (1, 2, 3)}
    found = {i: rows(world, factory, runs) for i, world in worlds.items()}
    premise = rarely([Outcome(0.0, row["clean"], row["worst_margin"] + 1e-12) for row in found[1]], DELTA)
    instance = Instance(3, 1, horizon, DELTA, margin, omega * horizon, gap, 0.5)
    least, share = theorem_5(instance).total, safe_arm_rounds(instance).total
    worse = max((2, 3), key=lambda i: float(np.mean([row["regret"] for row in found[i]])))
    regret = at_most(
        [least - row["regret"] for row in found[worse]], f"lower bound of {least:.3g} minus regret on nu_{worse}"
    )
    played = [
        at_most(
            [share - horizon * row["allocation"][2] for row in found[i]],
            f"lower bound of {share:.3g} minus rounds of the safe arm on nu_{i}",
        )
        for i in (2, 3)
    ]
    return both(premise, regret, *played)
