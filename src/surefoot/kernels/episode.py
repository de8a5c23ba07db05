"""A policy's life through a block of rounds, in compiled code: one loop for all policies.

A policy brings the type of its state and a compiled function that takes in the feedback of a round,
``update(state, arm, propensity, loss, costs) -> status``, tied to each other by `lives_by`; a policy that draws random
numbers of its own has ``update(state, generator, arm, ...)``. The state has the fields ``strategy`` (K,), what is
played, and ``safe_weight`` (1,).
"""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

from surefoot.kernels.compile import MERGED, OPTIONS, compiled_apart, njit
from surefoot.kernels.dual import EMPTY, Floats
from surefoot.kernels.learner import draw
from surefoot.kernels.watch import Watch, look

UPDATES: dict[type, Callable[..., int]] = {}
RANDOM: set[type] = set()


def lives_by(state: type, update: Callable[..., int], *, random: bool = False) -> None:
    """Tie the type of a state to the compiled function that takes in the feedback of a round."""
    UPDATES[state] = update
    if random:
        RANDOM.add(state)


def step(state: Any, generator: Any, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Take in the feedback of a round, by the update that belongs to the state."""
    update, chance = UPDATES[type(state)], (generator,) if type(state) in RANDOM else ()
    return update(state, *chance, arm, propensity, loss, costs)


@overload(step, jit_options=MERGED)
def _compiled_step(state: Any, generator: Any, arm: Any, propensity: Any, loss: Any, costs: Any) -> Any:
    update = UPDATES[state.instance_class]

    def by_chance(state: Any, generator: Any, arm: Any, propensity: Any, loss: Any, costs: Any) -> Any:
        return update(state, generator, arm, propensity, loss, costs)

    def taken_in(state: Any, generator: Any, arm: Any, propensity: Any, loss: Any, costs: Any) -> Any:
        return update(state, arm, propensity, loss, costs)

    return by_chance if state.instance_class in RANDOM else taken_in


def noticed(state: Any, eye: Watch, arm: int) -> None:
    """Let whoever watches look at the confidence bounds of a state, if it has any."""
    known = getattr(state, "known", None)
    if known is not None:
        look(eye, known.lower, known.upper, arm)


@overload(noticed, jit_options=MERGED)
def _compiled_noticed(state: Any, eye: Any, arm: Any) -> Any:
    def look_at(state: Any, eye: Any, arm: Any) -> None:
        look(eye, state.known.lower, state.known.upper, arm)

    def look_away(state: Any, eye: Any, arm: Any) -> None:
        pass

    return look_at if "known" in state.fields else look_away


def _play(
    state: Any,
    generator: Any,
    eye: Watch,
    losses: Floats,
    costs: Floats,
    strategies: Floats,
    safe_weights: Floats,
    observed: Floats,
) -> int:
    """Live through a block of rounds: how many there were, negative if the last left an empty safe set and ended it."""
    strategy = state.strategy
    for t in range(len(losses)):
        for a in range(strategy.size):
            strategies[t, a] = strategy[a]
        safe_weights[t] = state.safe_weight[0]
        arm = draw(strategy, generator.random())
        for i in range(observed.size):
            observed[i] = costs[t, i, arm]
        status = step(state, generator, arm, strategy[arm], losses[t, arm], observed)
        noticed(state, eye, arm)
        if status == EMPTY:
            return -(t + 1)
    return len(losses)


play = compiled_apart(_play)
# The cache on disk names the types it was compiled for, and cannot be read where an outside state cannot be imported.
play_outside = njit(**{**OPTIONS, "cache": False, "forceinline": False})(_play)
