"""Three plans, weighed by a log-barrier: what the preset "led" plays, and what its proof is about.

The plans are the proposal mixed with what costs least (the follower's), the solution of a linear program, and the
proposal mixed with the safe strategy, for which regret is bounded. All are safe at the upper cost bounds, and so is
every mean of the three.

Let q be the shares and x the mean that is played, l the loss of the arm a that was drawn and b a number known before.
The estimate of how much more plan i loses than x is ``c_i = (y_i(a) / x(a) - 1) (l - b)``. Since q_i y_i <= x, no
``q_i c_i`` exceeds 1, however small the share: under the log-barrier, which divides by q, every step is small by
itself. So no share needs a floor, and the regret against either plan with the proposal in it is of order sqrt(n ln n)
(docs/theory/led.md).

Shares are kept while the steps since they were set are small together; the sums of a batch then count as one step.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.layout import COUNT, NOT_NEGATIVE, derived, saved, sized
from surefoot.kernels.linear import Program
from surefoot.kernels.plans import FOLLOWER, LEAST_SHARE, PROGRAM
from surefoot.kernels.record import Record, mean_of, radius
from surefoot.kernels.safety import PATIENCE, mix, pessimistic_cost, safe_share, weight_of
from surefoot.kernels.types import Floats
from surefoot.rules import SHARE, Range

SAFE = 2
"""The third plan: the proposal, mixed with the safe strategy alone."""

PRIOR = np.array([0.5 * LEAST_SHARE, 1.0 - LEAST_SHARE, 0.5 * LEAST_SHARE])
"""The shares before the first round, from which the barrier is counted."""

FASTEST = 0.25
"""Largest rate of the shares."""

TIGHTNESS = 0.64
"""The squared rate is at most this times the barrier of a comparator over 1 + the sum of the squared steps."""

SMALL = 0.25
"""Shares are kept while the steps since add up to a shorter vector than this; no entry of a single step is larger."""

LEAST_KEPT = 0.5
"""An arm is mixed in only if the proposal keeps this much of the weight that the safe strategy would leave it."""

WORTH_A_TRY = 3.0
"""An arm gains more in the program if this much more of it could be played, were its costs what is believed."""

BELIEVED = 0.5
"""How much of the distance between an arm's mean costs and their lower bounds is believed there."""

HOPE = 2.0
"""The gain of an arm in the program is raised by at least this share of it over the root of its number of costs."""

NARROWEST = 1e-3
"""Margins below this count as this much there, so that no gain becomes too large for the program."""

LARGEST = 1e100
"""Sums of estimates are kept within this: feedback on decisions with absurd propensities could overflow them."""


class Trio(NamedTuple):
    """Three plans, their shares, and what each has lost more than what was played."""

    strategies: Annotated[Floats, saved(3, "K", rule=SHARE)]  # of the follower, the program, and with the safe strategy
    safe_weights: Annotated[Floats, saved(3, rule=SHARE)]  # of the safe strategy in each, because of the guardrails
    proposal_weights: Annotated[Floats, saved(3, rule=SHARE)]  # of the proposal in each
    shares: Annotated[Floats, saved(3, rule=SHARE)]  # q
    lost: Annotated[Floats, saved(3)]  # sums of c since losses last changed
    steps: Annotated[Floats, saved(3)]  # sums of q c since the shares were set
    squares: Annotated[Floats, saved(1, rule=NOT_NEGATIVE)]  # of the steps of all batches before
    rate: Annotated[Floats, saved(1, rule=Range(1e-300, FASTEST))]
    restarts: Annotated[Floats, saved(1, rule=COUNT)]  # how often losses were forgotten
    program: Annotated[Program, sized(K="K + 1")]  # over the arms, with the safe strategy as one more arm
    vertex: Annotated[Floats, derived("K + 1")]  # the solution of the program
    evidence: Annotated[float, derived()]  # ln(K m / delta): how optimistic the program is
    most_of_program: Annotated[float, derived()]  # what the program's share never exceeds


def start_trio(
    trio: Any, thresholds: Floats, safe_strategy: Floats, safe_costs: Floats, delta: float,
    follower_share: float = LEAST_SHARE,
) -> None:  # fmt: skip
    """Before the first round all plans are the safe strategy."""
    n_arms, m = safe_strategy.size, thresholds.size
    trio.strategies = safe_strategy
    trio.safe_weights = 1.0
    trio.shares = PRIOR
    trio.rate = FASTEST
    trio.program.limits = thresholds
    trio.program.costs[:, n_arms] = safe_costs
    trio.evidence = np.log(n_arms * max(1, m) / delta)
    trio.most_of_program = 1.0 - follower_share


@compiled
def weigh(trio: Trio, arm: int, propensity: float, loss: float) -> None:
    """Count what each plan loses more than what was played, given a loss that counts from the baseline."""
    for i in range(3):
        more = (trio.strategies[i, arm] / propensity - 1.0) * loss
        trio.lost[i] = min(LARGEST, max(-LARGEST, trio.lost[i] + more))
        trio.steps[i] = min(LARGEST, max(-LARGEST, trio.steps[i] + trio.shares[i] * more))


@compiled
def stepped(trio: Trio) -> float:
    """The squared length of the steps since the shares were set."""
    return float(trio.steps[0] ** 2 + trio.steps[1] ** 2 + trio.steps[2] ** 2)


@compiled
def forget_trio(trio: Trio) -> None:
    """Forget which plan has done better."""
    for i in range(3):
        trio.lost[i] = 0.0
        trio.steps[i] = 0.0
    trio.squares[0] = 0.0
    trio.rate[0] = FASTEST
    trio.restarts[0] += 1.0


@compiled
def barrier(log_rounds: float) -> float:
    """At least the barrier of every plan, less 1 / n for each of the others: 11 + 2 ln n."""
    return 11.0 + 2.0 * log_rounds


@compiled_apart
def set_shares(trio: Trio, log_rounds: float) -> None:
    """Close the batch, tune the rate, and set the shares that minimise lost @ q + barrier / rate."""
    trio.squares[0] = min(LARGEST, trio.squares[0] + stepped(trio))
    for i in range(3):
        trio.steps[i] = 0.0
    trio.rate[0] = min(trio.rate[0], math.sqrt(TIGHTNESS * barrier(log_rounds) / (1.0 + trio.squares[0])))
    rate, most = trio.rate[0], trio.most_of_program
    first = 1.0 / PRIOR[FOLLOWER] + rate * trio.lost[FOLLOWER]
    second = 1.0 / PRIOR[PROGRAM] + rate * trio.lost[PROGRAM]
    third = 1.0 / PRIOR[SAFE] + rate * trio.lost[SAFE]
    # Shares are 1 / (these + price). If the program has all it may have, the other two share the rest.
    low, larger, smaller = first, FOLLOWER, SAFE
    if third < first:
        low, larger, smaller = third, SAFE, FOLLOWER
    apart = abs(first - third)
    scaled = apart * (1.0 - most)
    price = (1.0 + 2.0 / (math.sqrt(4.0 + scaled * scaled) + scaled)) / (1.0 - most)  # counted from `low`
    trio.shares[PROGRAM], trio.shares[smaller] = most, 1.0 / (apart + price)
    if second - low + price > 1.0 / most:
        a, b = max(0.0, low - second), max(0.0, second - low)  # counted from the least, the price is between 1 and 3
        price = 1.0  # where one alone is 1: Newton's method goes up to the root from there
        for _ in range(60):
            p, q, r = 1.0 / (a + price), 1.0 / (b + price), 1.0 / (a + apart + price)
            more = (p + q + r - 1.0) / (p * p + q * q + r * r)
            price += more
            if not more > 1e-15:
                break
        trio.shares[PROGRAM], trio.shares[smaller] = min(most, 1.0 / (b + price)), 1.0 / (a + apart + price)
    trio.shares[larger] = 1.0 - trio.shares[PROGRAM] - trio.shares[smaller]


@compiled
def hope(trio: Trio, known: Any, record: Record, safe_strategy: Floats) -> None:
    """Let the loss of an arm count as no more than its mean less HOPE times its gain over the root of its costs seen.

    What is not known of an arm's costs keeps a share of it out of the play, of order 1 / sqrt(n) after n costs. All of
    its gain over the safe strategy is lost on that share. Where losses are known well and costs are not, a program
    without hope stays with a dear arm beside the safe strategy, and never learns that another one is cheap.
    """
    if known.upper.shape[0] > 0:
        safe_loss = 0.0
        for a in range(safe_strategy.size):
            safe_loss += safe_strategy[a] * mean_of(record, a)
        for a in range(safe_strategy.size):
            mean = mean_of(record, a)
            hoped = mean - max(0.0, safe_loss - mean) * HOPE / math.sqrt(max(1.0, known.counts[a]))
            trio.program.losses[a] = min(trio.program.losses[a], hoped)


@compiled
def foresee(trio: Trio, known: Any, safe_strategy: Floats, safe_costs: Floats) -> None:
    """Raise the gain of arms in the program of which much more could be played if their costs were known.

    At the upper bounds an arm that was hardly played can have a small share only, the smaller the margin. A program
    that goes by this share alone may never learn that the arm is cheap. Let `now` be the largest share of the arm
    beside the safe strategy by its upper bounds, and `then` that by what is believed of its costs. What the arm gains
    over the safe strategy is multiplied by then / now / WORTH_A_TRY, if that is more than 1.
    """
    losses, safe_loss = trio.program.losses, 0.0
    for a in range(safe_strategy.size):
        safe_loss += safe_strategy[a] * losses[a]
    for a in range(safe_strategy.size):
        now, then = 1.0, 1.0
        for i in range(safe_costs.size):
            spare = max(NARROWEST, trio.program.limits[i] - safe_costs[i])
            now = min(now, spare / max(spare, min(1.0, known.upper[i, a]) - safe_costs[i]))
            cost = known.means[i, a] - BELIEVED * (known.means[i, a] - known.lower[i, a])
            then = min(then, spare / max(spare, cost - safe_costs[i]))
        if then > WORTH_A_TRY * now and losses[a] < safe_loss and safe_strategy[a] == 0.0:
            losses[a] = safe_loss - (safe_loss - losses[a]) * then / (WORTH_A_TRY * now)


@compiled
def because_of_guardrails(trio: Trio, record: Record, safe_strategy: Floats) -> float:
    """The part of the program's plan that is the safe strategy because of the guardrails, once it was solved.

    The program has the safe strategy as one more arm. If the safe strategy is a single arm, that is the same arm twice,
    and either column may be played. Without guardrails the program would play the arm with the least loss alone. So all
    of a safe arm is there because of the guardrails if another arm loses less, and none of it otherwise. In the first
    rounds, while the loss of any arm may be anything, the program looks at the safe arm only to learn its loss: that
    counts as the former.
    """
    losses, plan = trio.program.losses, trio.strategies[PROGRAM]
    for safe in range(plan.size):
        if safe_strategy[safe] == 1.0:
            for a in range(plan.size):
                known = record.seen[a] > 0.0 and radius(record, a, trio.evidence) < 1.0
                if losses[a] < losses[safe] or not known:
                    return float(plan[safe])
            return 0.0
    return float(trio.vertex[plan.size])


@compiled
def blend_trio(trio: Trio, strategy: Floats) -> float:
    """Set the strategy to the mean of the plans; return the weight of the safe strategy in it."""
    first, second, third = trio.shares[0], trio.shares[1], trio.shares[2]
    for a in range(strategy.size):
        strategy[a] = (
            first * trio.strategies[0, a] + second * trio.strategies[1, a] + third * trio.strategies[2, a]
        )  # fmt: skip
    return float(first * trio.safe_weights[0] + second * trio.safe_weights[1] + third * trio.safe_weights[2])


@compiled
def proposal_share(trio: Trio) -> float:
    """The share of the proposal in what is played, without what the program has of its arms."""
    return float(
        trio.shares[FOLLOWER] * trio.proposal_weights[FOLLOWER] + trio.shares[SAFE] * trio.proposal_weights[SAFE]
    )


@compiled
def mix_twice(
    trio: Trio, proposal: Floats, totals: Floats, rounds: float, upper: Floats, thresholds: Floats,
    safe_strategy: Floats, safe_costs: Floats, excess: Floats,
) -> None:  # fmt: skip
    """Mix the proposal with the safe strategy, and with what costs least of that and the arms that are certified safe.

    An arm takes the place of the safe strategy only if it leaves the proposal half of the weight or more.
    """
    n_arms, weight = proposal.size, 0.0
    share = safe_share(proposal, safe_strategy)
    for i in range(thresholds.size):
        cost = pessimistic_cost(i, proposal, upper, share, safe_strategy, safe_costs)
        excess[i] = cost - thresholds[i]
        if excess[i] > 0.0:
            weight = max(weight, excess[i] / (excess[i] + thresholds[i] - safe_costs[i]))
    mix(trio.strategies[SAFE], weight, safe_strategy, proposal)
    trio.safe_weights[SAFE], trio.proposal_weights[SAFE] = weight, 1.0 - weight
    anchor, least = -1, weight
    if weight > 0.0:
        own, safe_total = 0.0, 0.0
        for a in range(n_arms):
            own += proposal[a] * totals[a]
            safe_total += safe_strategy[a] * totals[a]
        price = weight * ((safe_total - own) / rounds + PATIENCE)
        for k in range(n_arms):
            other = weight_of(k, upper, thresholds, excess)
            if other > 0.0 and 1.0 - other >= LEAST_KEPT * (1.0 - weight):
                its_price = other * ((totals[k] - own) / rounds + PATIENCE)
                if its_price < price:
                    anchor, least, price = k, other, its_price
    trio.proposal_weights[FOLLOWER] = 1.0 - least
    if anchor < 0:
        trio.safe_weights[FOLLOWER] = weight
        for a in range(n_arms):
            trio.strategies[FOLLOWER, a] = trio.strategies[SAFE, a]
    else:
        trio.safe_weights[FOLLOWER] = least if safe_strategy[anchor] == 1.0 else 0.0  # to rounding they cost the same
        for a in range(n_arms):
            trio.strategies[FOLLOWER, a] = (1.0 - least) * proposal[a]
        trio.strategies[FOLLOWER, anchor] += least
