"""Decisions that wait for their feedback, in buffers that never grow.

Round after round, `admit` takes in a decision, and `due` returns what is to be learnt, one decision at a time. A
decision of round t has the slot t modulo the number of slots. There is one slot more than the time-out has rounds, so a
decision has been settled, and learnt, before its slot is needed again. The decisions whose feedback arrives in the same
round are a linked list, and so are those of the same arm. At most one decision times out in a round.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.types import Floats, Integers

SETTLED, COMING, LOST = 0, 1, 2
"""A decision: settled by feedback or time-out; its feedback will arrive in time; it will not."""
OVER, TIMEOUTS, ARRIVALS = 0, 1, 2
"""A round: nothing is left to do; next are the decisions that time out; next is the feedback that arrives."""
NONE = -1


class Queue(NamedTuple):
    """Decisions that wait, n of them at most, and where the current round stands."""

    timeout: int
    most: int  # how often the policy may be told
    level: float  # an outcome is bad if any cost is at least this
    in_order: bool  # whether the decisions of an arm are learnt in order, or else feedback as it arrives
    arms: Integers  # (n,) by slot: the decision
    propensities: Floats  # (n,)
    weights: Floats  # (n,)
    losses: Floats  # (n,) its outcome
    costs: Floats  # (n, m)
    states: Integers  # (n,) SETTLED, COMING or LOST
    copies: Integers  # (n,) how often its feedback arrives
    next_of_arm: Integers  # (n,) the slot of the arm's next decision, or NONE
    next_to_arrive: Integers  # (n,) the slot of the next feedback in the same round, or NONE
    first_to_arrive: Integers  # (n,) by round of arrival, modulo n: the first slot, or NONE
    last_to_arrive: Integers  # (n,) the last one, if there is a first
    first_of_arm: Integers  # (K,) the slot of its oldest decision that is not learnt, or NONE
    last_of_arm: Integers  # (K,) the slot of its latest, if there is a first
    round: Integers  # (1,) the current one, from 0
    stage: Integers  # (1,) OVER, TIMEOUTS or ARRIVALS
    at_hand: Integers  # (1,) in order: the arm whose decisions are being learnt; else the slot; or NONE
    copies_left: Integers  # (1,) how often the slot at hand is still to be learnt
    pending: Integers  # (1,) decisions that are not learnt yet
    learnt: Integers  # (1,) rounds that were learnt
    lost: Integers  # (1,) decisions that have timed out


class Waiting(NamedTuple):
    """What a block of rounds needs where feedback does not come at once."""

    queue: Queue
    fates: Integers  # (rounds, 2, 2) for a good and for a bad outcome: the delay, or -1, and how often feedback arrives


def new_queue(n_arms: int, n_constraints: int, horizon: int, timeout: int, level: float, in_order: bool) -> Queue:
    """A queue before the first round. What times out after the horizon does not matter, so no slots are kept for it."""
    timeout = min(timeout, horizon)
    n = timeout + 1
    return Queue(
        timeout=timeout,
        most=horizon,
        level=level,
        in_order=in_order,
        arms=np.zeros(n, np.int64),
        propensities=np.zeros(n),
        weights=np.zeros(n),
        losses=np.zeros(n),
        costs=np.zeros((n, n_constraints)),
        states=np.full(n, SETTLED),
        copies=np.zeros(n, np.int64),
        next_of_arm=np.full(n, NONE),
        next_to_arrive=np.full(n, NONE),
        first_to_arrive=np.full(n, NONE),
        last_to_arrive=np.full(n, NONE),
        first_of_arm=np.full(n_arms, NONE),
        last_of_arm=np.full(n_arms, NONE),
        round=np.zeros(1, np.int64),
        stage=np.full(1, OVER),
        at_hand=np.full(1, NONE),
        copies_left=np.zeros(1, np.int64),
        pending=np.zeros(1, np.int64),
        learnt=np.zeros(1, np.int64),
        lost=np.zeros(1, np.int64),
    )


@compiled
def admit(
    queue: Queue, arm: int, propensity: float, weight: float, losses: Floats, costs: Floats, fates: Integers, t: int,
) -> int:  # fmt: skip
    """Take in the decision of the current round, which is row t of the block; return its slot."""
    n = queue.arms.size
    slot, bad = int(queue.round[0] % n), 0
    queue.arms[slot], queue.propensities[slot], queue.weights[slot] = arm, propensity, weight
    queue.losses[slot] = losses[t, arm]
    for i in range(queue.costs.shape[1]):
        queue.costs[slot, i] = costs[t, i, arm]
        if costs[t, i, arm] >= queue.level:
            bad = 1
    delay, queue.copies[slot] = fates[t, bad, 0], fates[t, bad, 1]
    queue.next_of_arm[slot] = queue.next_to_arrive[slot] = NONE
    if queue.in_order:
        append(queue.first_of_arm, queue.last_of_arm, queue.next_of_arm, arm, slot)
    queue.states[slot] = LOST
    if 0 <= delay <= queue.timeout:
        queue.states[slot] = COMING
        day = (queue.round[0] + delay) % n
        append(queue.first_to_arrive, queue.last_to_arrive, queue.next_to_arrive, day, slot)
    queue.pending[0] += 1
    queue.stage[0] = TIMEOUTS
    return slot


@compiled
def append(first: Integers, last: Integers, following: Integers, which: int, slot: int) -> None:
    """Put a slot at the end of a linked list."""
    if first[which] == NONE:
        first[which] = slot
    else:
        following[last[which]] = slot
    last[which] = slot


@compiled
def due(queue: Queue) -> int:
    """The slot of the next decision to learn from in this round; NONE if the round is over."""
    while True:
        slot = released(queue)
        if slot != NONE:
            before_last = queue.round[0] < queue.most - 1  # a policy that was told `most` times cannot be asked again
            if queue.learnt[0] < queue.most - before_last:
                queue.learnt[0] += 1
                return slot
        elif not happened(queue):
            queue.round[0] += 1
            queue.stage[0] = OVER
            return NONE


@compiled
def released(queue: Queue) -> int:
    """The slot of a decision that the last event has made ready to be learnt, or NONE."""
    at_hand = int(queue.at_hand[0])
    if at_hand == NONE:
        return NONE
    if queue.in_order:
        slot = int(queue.first_of_arm[at_hand])
        if slot != NONE and queue.states[slot] == SETTLED:
            queue.first_of_arm[at_hand] = queue.next_of_arm[slot]
            queue.pending[0] -= 1
            return slot
    elif queue.copies_left[0] > 0:
        queue.copies_left[0] -= 1
        return at_hand
    queue.at_hand[0] = NONE
    return NONE


@compiled
def happened(queue: Queue) -> bool:
    """Let the next event of this round happen; False if there is none."""
    n = queue.arms.size
    if queue.stage[0] == TIMEOUTS:
        queue.stage[0] = ARRIVALS
        slot = (queue.round[0] - queue.timeout) % n
        if queue.round[0] >= queue.timeout and queue.states[slot] == LOST:
            queue.lost[0] += 1
            queue.losses[slot] = 1.0
            queue.costs[slot, :] = 1.0
            settle(queue, slot, 0)
            return True
    today = queue.round[0] % n
    slot = queue.first_to_arrive[today]
    if slot == NONE:
        return False
    queue.first_to_arrive[today] = queue.next_to_arrive[slot]
    settle(queue, slot, queue.copies[slot])
    return True


@compiled
def settle(queue: Queue, slot: int, copies: int) -> None:
    """Settle a decision. As feedback arrives, it is learnt that many times; in order, once."""
    queue.states[slot] = SETTLED
    if queue.in_order:
        queue.at_hand[0] = queue.arms[slot]
    else:
        queue.at_hand[0], queue.copies_left[0] = slot, copies
        queue.pending[0] -= 1
