"""What is noted of a policy at the checkpoints, while it plays a block of rounds: some numbers of its state."""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.ledger import Account, add_rounds, play_rows, play_sums, settle_play, upcoming
from surefoot.kernels.queue import Queue
from surefoot.kernels.types import Floats, Integers
from surefoot.kernels.watch import Watch


class Notes(NamedTuple):
    """One row per checkpoint. A state has all its numbers in one buffer, so places in it say what to note."""

    stops: Integers  # (n,) the checkpoints: rounds, increasing
    taken: Integers  # (1,) how many rows are filled
    lived: Integers  # (1,) rounds before the block
    places: Integers  # (p,) in the buffer of the state
    numbers: Floats  # (n, p) what was there
    seen: Integers  # (n, 3) counts of the eye: rounds, missed, rounds above
    waiting: Integers  # (n, 2) counts of the queue: pending, lost
    account: Account  # what was played, and how it is judged


def new_notes(places: Integers, account: Account) -> Notes:
    """Notes before the first round."""
    stops, one = account.rows.stops, np.zeros(1, np.int64)
    n = stops.size
    rows = np.zeros((n, places.size)), np.zeros((n, 3), np.int64), np.zeros((n, 2), np.int64)
    return Notes(stops, one, one.copy(), places, *rows, account)


NOWHERE = np.zeros(0, np.int64)
UNNOTED = new_notes(NOWHERE, Account(play_sums(0, 0), play_rows(NOWHERE, 0, 0), np.zeros((1, 0, 0)), *np.zeros((2, 0))))
"""For blocks in which nothing is noted; it is never written to."""


@compiled
def next_stop(notes: Notes) -> int:
    """The round of the block before which the next row is due; -1 if there is none."""
    stop = upcoming(notes.stops, notes.taken)
    return stop - int(notes.lived[0]) if stop >= 0 else -1


@compiled
def account_for(notes: Notes, end: int, losses: Floats, strategies: Floats, safe_weights: Floats) -> None:
    """Take into the account the rounds of the block before this one that are not in it yet."""
    first = int(notes.account.sums.rounds[0] - notes.lived[0])
    add_rounds(notes.account, first, end, losses, strategies, safe_weights)


@compiled
def note(notes: Notes, floats: Floats, eye: Watch) -> int:
    """Fill the next row, settle the account, and return when the row after it is due."""
    n = notes.taken[0]
    for p in range(notes.places.size):
        notes.numbers[n, p] = floats[notes.places[p]]
    notes.seen[n, 0], notes.seen[n, 1], notes.seen[n, 2] = eye.rounds[0], eye.missed[0], eye.rounds_above[0]
    notes.taken[0] += 1
    if notes.places.size > 0:  # else the account is kept in Python
        settle_play(notes.account.sums, notes.account.rows)
    return next_stop(notes)


@compiled
def note_waiting(notes: Notes, queue: Queue) -> None:
    """Fill the next row with what waits for feedback."""
    n = notes.taken[0]
    notes.waiting[n, 0], notes.waiting[n, 1] = queue.pending[0], queue.lost[0]
