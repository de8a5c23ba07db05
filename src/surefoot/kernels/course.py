"""A whole episode on one thread of a GPU: the kernels of the other modules, compiled for CUDA as they are.

A thread draws the losses of a few rounds by counter, lets the policy play them (`Algorithm.play`), adds them to the
accounts, and goes on. Nothing here knows how a policy learns. What a thread needs lies in a state of its own, a `Desk`,
declared as the states of policies are; what it has found at the checkpoints, in a `Sheet`.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from surefoot.kernels.adversary import Foe
from surefoot.kernels.counter import LOSSES, fill_uniform
from surefoot.kernels.device import numba_cuda
from surefoot.kernels.draws import Drawn, fill_losses, mean_at
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import Draft, derived, executed, layout_of
from surefoot.kernels.ledger import Account, PlayRows, PlaySums, WorldRows, WorldSums, add_world
from surefoot.kernels.notes import Notes
from surefoot.kernels.pcg import advanced, unit
from surefoot.kernels.types import Floats, Integers
from surefoot.kernels.watch import Watch

TOGETHER = 4
"""Rounds that a thread draws and plays together."""


class Desk(NamedTuple):
    """The running accounts of an episode, and room for some rounds. v: comparators, n: rounds drawn together."""

    world: WorldSums
    play: PlaySums
    above: Annotated[Integers, derived("m", "K")]  # this and what follows: as in `Watch`
    rounds: Annotated[Integers, derived(1)]
    missed: Annotated[Integers, derived(1)]
    places_above: Annotated[Integers, derived(1)]
    rounds_above: Annotated[Integers, derived(1)]
    taken: Annotated[Integers, derived(3)]  # rows filled: of the notes, of the play, of the world
    first: Annotated[Integers, derived(1)]  # rounds before the block
    counts: Annotated[Floats, derived("K")]  # as in `Foe`
    losses: Annotated[Floats, derived("n", "K")]
    costs: Annotated[Floats, derived("n", "m", "K")]
    mean_costs: Annotated[Floats, derived("n", "m", "K")]
    strategies: Annotated[Floats, derived("n", "K")]
    safe_weights: Annotated[Floats, derived("n")]
    uniforms: Annotated[Floats, derived("n")]
    tile: Annotated[Floats, derived("n")]
    observed: Annotated[Floats, derived("m")]
    left: Annotated[Integers, derived("v")]  # as in `Watch`; last, as its size is not known to the compiler


class Sheet(NamedTuple):
    """What is found at n checkpoints, as in `PlayRows`, `WorldRows` and `Notes`; p places of the state are noted."""

    loss: Annotated[Floats, derived("n")]
    learning_loss: Annotated[Floats, derived("n")]
    weighted_losses: Annotated[Floats, derived("n", "K")]
    violations: Annotated[Floats, derived("n", "m")]
    worst_margin: Annotated[Floats, derived("n")]
    allocation: Annotated[Floats, derived("n", "K")]
    rounds_over: Annotated[Integers, derived("n")]
    rounds_until_loose: Annotated[Integers, derived("n")]
    losses: Annotated[Floats, derived("n", "K")]
    best: Annotated[Integers, derived("n")]
    squared_gaps: Annotated[Floats, derived("n")]
    numbers: Annotated[Floats, derived("n", "p")]
    seen: Annotated[Integers, derived("n", 3)]
    waiting: Annotated[Integers, derived("n", 2)]


class Common(NamedTuple):
    """What all episodes of a scenario share; it is only read."""

    stops: Integers
    places: Integers
    costs: Floats  # this and the next two: as in `Watch`
    limits: Floats
    comparators: Floats
    thresholds: Floats
    safe_strategy: Floats
    vertices: Floats
    tied: float
    loss_model: Drawn
    cost_model: Drawn
    foe: Foe


SOURCE = """
def course(states, counts, desks, numbers, sheets, rows, seeds, luck, reached, last, common):
    e = cuda.grid(1)
    if e >= seeds.size:
        return
    floats, integers = {state}
    f, i = {desk}
    for n in range({local} * states.shape[1]):
        floats[n] = states[e, n]
    for n in range({local} * counts.shape[1]):
        integers[n] = counts[e, n]
    for n in range({local} * desks.shape[1]):
        f[n] = desks[e, n]
    for n in range({local} * numbers.shape[1]):
        i[n] = numbers[e, n]
    desk = open_desk(f, i)
    sheet = open_sheet(sheets[e], rows[e])
    seed, given, wanted = seeds[e], common.cost_model, common.loss_model
    costs = Drawn(
        given.kind, seed, desk.first, given.means, given.at, given.way, given.ones, given.zeros, given.coins,
        given.correlation, desk.tile,
    )
    losses = Drawn(
        wanted.kind, seed, desk.first, wanted.means, wanted.at, wanted.way, wanted.ones, wanted.zeros, wanted.coins,
        wanted.correlation, desk.tile,
    )
    foe = Foe(common.foe.target, common.foe.means, common.foe.strength, desk.counts)
    eye = Watch(
        common.costs, common.limits, common.comparators, desk.above, desk.left, desk.rounds, desk.missed,
        desk.places_above, desk.rounds_above,
    )
    plays = PlayRows(
        common.stops, desk.taken[1:2], sheet.loss, sheet.learning_loss, sheet.weighted_losses, sheet.violations,
        sheet.worst_margin, sheet.allocation, sheet.rounds_over, sheet.rounds_until_loose,
    )
    worlds = WorldRows(common.stops, desk.taken[2:3], sheet.losses, sheet.best, sheet.squared_gaps)
    steady = given.means.shape[0] == 1
    if steady:
        for c in range(desk.observed.size):
            for a in range(desk.counts.size):
                desk.mean_costs[0, c, a] = given.means[0, c, a]
    t, begin, playing = reached[e, 0], reached[e, 1], True
    high, low, upper, lower = luck[e, 0], luck[e, 1], luck[e, 2], luck[e, 3]
    while t < last and playing:
        n = min(desk.safe_weights.size, last - t)
        desk.first[0] = t
        block = desk.losses[:n]
        if common.foe.means.size > 0:
            fill_uniform(block[begin:], seed, LOSSES, t + begin, desk.tile)  # those before are losses already
        else:
            fill_losses(losses, block)
        before, under = high, low
        for s in range(begin, n):
            high, low = advanced(high, low, upper, lower)
            desk.uniforms[s] = unit(high, low)
        means = desk.mean_costs[:1]
        if not steady:
            means = desk.mean_costs[:n]
            for s in range(n):
                for c in range(desk.observed.size):
                    for a in range(desk.counts.size):
                        means[s, c, a] = mean_at(costs, t + s, c, a)
        account = Account(desk.play, plays, means, common.thresholds, common.safe_strategy)
        notes = Notes(
            common.stops, desk.taken[:1], desk.first, common.places, sheet.numbers, sheet.seen, sheet.waiting, account
        )
        played = play(
            floats, integers, desk.uniforms, eye, notes, block, desk.costs[:n], desk.strategies[:n],
            desk.safe_weights[:n], desk.observed[:{heeded}], begin, foe, costs,
        )
        if played < 0:
            high, low = before, under
            for s in range(begin, -played):
                high, low = advanced(high, low, upper, lower)
            begin, playing = -played, False
        else:
            add_world(desk.world, worlds, block, common.safe_strategy, common.vertices, common.tied)
            begin = 0
            t += n
    reached[e, 0], reached[e, 1] = t, begin
    luck[e, 0], luck[e, 1] = high, low
    for n in range({local} * states.shape[1]):
        states[e, n] = floats[n]
    for n in range({local} * counts.shape[1]):
        counts[e, n] = integers[n]
    for n in range({local} * desks.shape[1]):
        desks[e, n] = f[n]
    for n in range({local} * numbers.shape[1]):
        numbers[e, n] = i[n]
"""


def course_of(algorithm: Algorithm[Any], state: Draft, desk: Draft, *, local: bool) -> Any:
    """The kernel that lives through episodes, for `compiled_for_device`: each thread plays one, up to a round.

    It takes the buffers of states, desks and sheets, an episode a row; the seeds, and the streams of the policies'
    draws (`pcg.py`); how far each episode has come, and in which round of its block it goes on; the round to reach; and
    what is common to all. An episode whose safe set was found empty stops before that round.

    Parameters
    ----------
    algorithm
        That of the policy.
    state, desk
        Such as the kernel will find in the rows of the buffers: it is made for their sizes.
    local
        Whether threads hold state and desk in memory of their own while they play.
    """
    buffers = {"state": "states[e], counts[e]", "desk": "desks[e], numbers[e]"}
    if local:
        for name, draft in (("state", state), ("desk", desk)):
            sizes = draft.floats.size, roomy(draft.integers.size)
            buffers[name] = "cuda.local.array({}, float64), cuda.local.array({}, int64)".format(*sizes)
    n_arms, n_constraints, *_ = desk.arrangement.sizes
    fixed = dict(zip(state.layout.symbols, state.arrangement.sizes, strict=True))
    return executed(
        SOURCE.format(**buffers, local=int(local), heeded=fixed["m"]), "course", algorithm.state, cuda=numba_cuda(),
        float64=np.float64, int64=np.int64, open_desk=desk.layout.opener_of(K=n_arms, m=n_constraints, n=TOGETHER),
        open_sheet=layout_of(Sheet).opener, play=algorithm.device_play(**fixed),
        Drawn=Drawn, Foe=Foe, Watch=Watch, PlayRows=PlayRows, WorldRows=WorldRows, Account=Account, Notes=Notes,
        LOSSES=LOSSES, fill_uniform=fill_uniform, fill_losses=fill_losses, mean_at=mean_at, add_world=add_world,
        advanced=advanced, unit=unit,
    )  # fmt: skip


def roomy(size: int) -> int:
    """A size that smaller ones share, so that they share a compiled kernel."""
    return -(-size // 128) * 128
