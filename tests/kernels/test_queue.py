"""The queue of decisions that wait for feedback: by hand, and against a slow twin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.kernels.queue import NONE, Queue, admit, due, new_queue
from tests.reference.queue import Rehearsal

Told = tuple[int, float, tuple[float, ...], int]  # arm, loss, costs, round of the decision


class World(NamedTuple):
    arms: list[int]  # the arm of each round
    losses: Any  # (T, K)
    costs: Any  # (T, m, K)
    fates: Any  # (T, 2, 2)
    timeout: int
    handling: str


class Scripted:
    """Plays given arms; the decision carries the round, and what is told is kept."""

    def __init__(self, arms: list[int]) -> None:
        self.arms, self.asked = arms, 0
        self.told: list[Told] = []

    def ask(self) -> tuple[int, int]:
        self.asked += 1
        return self.arms[self.asked - 1], self.asked - 1

    def tell(self, decision: tuple[int, int], loss: float, costs: list[float]) -> None:
        self.told.append((decision[0], loss, tuple(costs), decision[1]))


def slow(world: World) -> tuple[list[list[Told]], list[tuple[int, int]]]:
    """What is told in each round; after it, how many decisions wait, and how many were lost."""
    player = Scripted(world.arms)
    rehearsal = Rehearsal(player, len(world.arms), world.timeout, world.handling)
    told, counts = [], []
    for t in range(len(world.arms)):
        rehearsal.round(world.losses[t], world.costs[t], world.fates[t].tolist())
        told.append(player.told)
        player.told = []
        counts.append((len(rehearsal.waiting), rehearsal.lost))
    return told, counts


def quick(world: World) -> tuple[list[list[Told]], list[tuple[int, int]]]:
    horizon, n_arms = world.losses.shape
    in_order = world.handling == "live"
    queue: Queue = new_queue(n_arms, world.costs.shape[1], horizon, world.timeout, 0.5, in_order)
    told, counts = [], []
    for t, arm in enumerate(world.arms):
        admit(queue, arm, t / 1000, 1.0, world.losses, world.costs, world.fates, t)
        now = []
        while (slot := due(queue)) != NONE:
            decided = round(1000 * queue.propensities[slot])
            now.append((int(queue.arms[slot]), float(queue.losses[slot]), tuple(queue.costs[slot].tolist()), decided))
        told.append(now)
        counts.append((int(queue.pending[0]), int(queue.lost[0])))
    return told, counts


@st.composite
def worlds(draw: st.DrawFn) -> World:
    seed = draw(st.integers(0, 2**32 - 1))
    rng, horizon, n_arms = np.random.default_rng(seed), draw(st.integers(3, 40)), draw(st.integers(2, 3))
    timeout, longest = draw(st.integers(0, 12)), draw(st.integers(0, 14))
    fates = np.stack([rng.integers(-1, longest + 1, (horizon, 2)), rng.integers(1, 4, (horizon, 2))], axis=2)
    m = draw(st.integers(0, 2))
    shape = horizon, m, n_arms
    return World(
        rng.integers(0, n_arms, horizon).tolist(), rng.random((horizon, n_arms)), rng.random(shape), fates, timeout,
        draw(st.sampled_from(["live", "arrival"])),
    )  # fmt: skip


@given(world=worlds())
def test_it_does_what_its_slow_twin_does(world: World) -> None:
    assert quick(world) == slow(world)


def by_hand(arms: str, delays: list[int], timeout: int, handling: str = "live", copies: int = 1) -> list[list[int]]:
    """The rounds whose decisions are learnt in each round; negative for those that were lost, from 1."""
    horizon = len(arms)
    fates = np.array([[[delay, copies]] * 2 for delay in delays])
    world = World(
        ["ab".index(arm) for arm in arms], np.zeros((horizon, 2)), np.zeros((horizon, 1, 2)), fates, timeout, handling
    )
    told, _ = quick(world)
    assert told == slow(world)[0]
    assert all((one[1], one[2]) in ((0.0, (0.0,)), (1.0, (1.0,))) for now in told for one in now)
    return [[(one[3] + 1) * (-1 if one[1] == 1.0 else 1) for one in now] for now in told]


@pytest.mark.parametrize(
    ("arms", "delays", "timeout", "learnt"),
    [
        ("aaaa", [0, 0, 0, 0], 0, [[1], [2], [3], [4]]),  # at once
        ("aaaa", [2, 2, 2, 2], 2, [[], [], [1], [2]]),
        ("aaaa", [2, 0, 0, 0], 2, [[], [], [1, 2, 3], [4]]),  # the second and third wait for the first
        ("abab", [2, 0, 0, 0], 2, [[], [2], [1, 3], [4]]),  # another arm does not wait
        ("aaaa", [-1, 0, 0, 0], 2, [[], [], [-1, 2, 3], [4]]),  # lost, so settled after 2 rounds
        ("aaaa", [3, 0, 0, 0], 2, [[], [], [-1, 2, 3], [4]]),  # too late is lost
        ("abba", [-1, 1, 0, 0], 2, [[], [], [-1, 2, 3], [4]]),  # a time-out comes before feedback of the same round
        ("abba", [2, -1, 0, 0], 1, [[], [-1], [-2, 3], [4]]),
        ("aaaa", [2, 1, 0, 0], 3, [[], [], [1, 2, 3], [4]]),  # of the same round, by decision
        ("aaaa", [-1, -1, -1, -1], 0, [[-1], [-2], [-3], [-4]]),
        ("aaaa", [3, 0, 0, 0], 9, [[], [], [], [1, 2, 3, 4]]),
        ("aaaa", [4, 0, 0, 0], 9, [[], [], [], []]),  # what is open at the end is not learnt
    ],
)
def test_decisions_of_an_arm_are_learnt_in_order(
    arms: str, delays: list[int], timeout: int, learnt: list[list[int]]
) -> None:
    assert by_hand(arms, delays, timeout) == learnt
    assert by_hand(arms, delays, timeout, copies=3) == learnt  # repeats are ignored


@pytest.mark.parametrize(
    ("delays", "copies", "learnt"),
    [
        ([0, 0, 0, 0], 1, [[1], [2], [3], [4]]),
        ([2, 0, 0, 0], 1, [[], [2], [1, 3], [4]]),  # nobody waits
        ([-1, 0, 0, 0], 1, [[], [2], [3], [4]]),  # lost is dropped
        ([1, -1, -1, -1], 2, [[], [1, 1], [], []]),
        ([0, 0, 0, 0], 2, [[1, 1], [2], [], [4]]),  # the horizon leaves three before the last round
        ([2, -1, -1, -1], 5, [[], [], [1, 1, 1], []]),
    ],
)
def test_as_it_arrives_feedback_is_learnt_at_once_and_again(
    delays: list[int], copies: int, learnt: list[list[int]]
) -> None:
    assert by_hand("aaaa", delays, 2, "arrival", copies) == learnt


def test_an_outcome_is_bad_from_the_level_on() -> None:
    fates = np.array([[[0, 1], [1, 1]]] * 6)
    costs = np.array([[[0.0], [0.49]], [[0.5], [0.0]], [[0.0], [0.51]]] * 2)  # two guardrails, one arm
    costs = np.concatenate([costs, costs], axis=2)
    told, _ = quick(World([0] * 6, np.zeros((6, 2)), costs, fates, 1, "arrival"))
    assert [[one[3] for one in now] for now in told] == [[0], [], [1], [2, 3], [], [4]]


@pytest.mark.parametrize(("timeout", "horizon", "slots"), [(0, 100, 1), (7, 100, 8), (10**6, 100, 101)])
def test_memory_is_bounded_by_the_time_out_and_the_horizon(timeout: int, horizon: int, slots: int) -> None:
    queue = new_queue(2, 1, horizon, timeout, 0.5, True)
    assert queue.arms.size == queue.costs.shape[0] == slots
    assert max(part.size for part in queue if isinstance(part, np.ndarray)) <= max(slots, 2)
