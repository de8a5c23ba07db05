"""From a policy's kernels to what Python calls: one round, or a block of rounds, over the buffers of its state.

A policy brings a state (`layout.py`) and a compiled function that takes in the feedback of a round,
``update(state, arm, propensity, weight, loss, costs) -> status``. The weight is that of the proposal in the draw. A
policy that draws random numbers of its own when it learns has ``update(state, generator, arm, ...)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from surefoot.kernels.compile import compiled, compiled_apart, merged
from surefoot.kernels.costs import observe as observe_costs
from surefoot.kernels.layout import Layout, executed, layout_of
from surefoot.kernels.queue import NONE, OVER, admit, due
from surefoot.kernels.types import CONTRADICTED, EMPTY, Floats
from surefoot.kernels.watch import look

S = TypeVar("S")


class Algorithm(Generic[S]):
    """A state and the kernels that act on it.

    Parameters
    ----------
    state
        The named tuple that declares the state. It has the leaves ``strategy`` (K,), what is played, and
        ``safe_weight`` (1,), the weight of the safe strategy in it.
    update
        Takes in the feedback of a round; None for a policy that learns in Python.
    begin
        ``begin(state)`` sets what follows from the problem and the options, before the first round.
    restore
        ``restore(state)`` sets what follows from the saved leaves of a state that was loaded; `begin` if left out.
    random
        Whether `update` and `begin` take a generator as their second argument. `restore` never does.
    """

    def __init__(
        self,
        state: type[S],
        update: Callable[..., int] | None = None,
        begin: Callable[..., Any] | None = None,
        restore: Callable[..., Any] | None = None,
        *,
        random: bool = False,
    ) -> None:
        self.state, self.update, self.random = state, update, random
        self.layout: Layout = layout_of(cast(Any, state))
        self._begin, self._restore = begin, restore or begin

    @cached_property
    def step(self) -> Callable[..., int]:
        """`update`, then the check that the cost bounds need, if any; for compiled code."""
        source = f"""
def step(state, {self._chance}arm, propensity, weight, loss, costs):
    status = update(state, {self._chance}arm, propensity, weight, loss, costs)
    return {self._reaction}
"""
        return merged(self._made(source, "step", self.update))

    @property
    def _reaction(self) -> str:
        """The step after an update: nothing, or a check whether the bounds on the costs contradict each other."""
        parts = getattr(self.state, "_fields", ())
        if "known" not in parts:
            return "status"
        if "safe_strategy" not in parts:
            return "noted(state.known, status)"
        return "retreat(state.known, state.strategy, state.safe_weight, state.safe_strategy, status)"

    @cached_property
    def tell(self) -> Callable[..., int]:
        """Take in rounds: the two buffers (and a generator), then rows, then room for the costs of one.

        Each row has the arm, the propensity, the weight and the loss of a round, then its costs. Returns the status of
        the last one, or -(t + 1) if round t found the safe set empty: call again for the rounds after it.
        """
        source = f"""
def tell(floats, integers, {self._chance}rows, observed):
    state = opened(floats, integers)
    status = 0
    for t in range(len(rows)):
        for i in range(observed.size):
            observed[i] = rows[t, 4 + i]
        status = step(state, {self._chance}int(rows[t, 0]), rows[t, 1], rows[t, 2], rows[t, 3], observed)
        if status == EMPTY:
            return -(t + 1)
    return status
"""
        return compiled_apart(self._made(source, "tell", self.update, step=self.step))

    @cached_property
    def play(self) -> Callable[..., int]:
        """Play a block of rounds; return how many were played, negative if the last one found the safe set empty."""
        watched = "known" in getattr(self.state, "_fields", ())
        source = f"""
def play(floats, integers, generator, eye, losses, costs, strategies, safe_weights, observed):
    state = opened(floats, integers)
    strategy = state.strategy
    for t in range(len(losses)):
        for a in range(strategy.size):
            strategies[t, a] = strategy[a]
        safe_weights[t] = state.safe_weight[0]
        arm = draw(strategy, generator.random())
        for i in range(observed.size):
            observed[i] = costs[t, i, arm]
        weight = 1.0 - state.safe_weight[0]
        status = step(state, {self._chance}arm, strategy[arm], weight, losses[t, arm], observed)
        {"look(eye, state.known.lower, state.known.upper, arm)" if watched else "pass"}
        if status == EMPTY:
            return -(t + 1)
    return len(losses)
"""
        return compiled_apart(self._made(source, "play", self.update, step=self.step))

    @cached_property
    def play_queued(self) -> Callable[..., int]:
        """Play a block of rounds with feedback through a queue; return how many were played.

        If the safe set was found empty in round t of the block, return -(t + 1). The round is not over then: call again
        for the rounds from t on.
        """
        watched = "known" in getattr(self.state, "_fields", ())
        source = f"""
def play_queued(floats, integers, generator, eye, losses, costs, strategies, safe_weights, observed, queue, fates):
    state = opened(floats, integers)
    strategy = state.strategy
    for t in range(len(losses)):
        if queue.stage[0] == OVER:
            for a in range(strategy.size):
                strategies[t, a] = strategy[a]
            safe_weights[t] = state.safe_weight[0]
            arm = draw(strategy, generator.random())
            admit(queue, arm, strategy[arm], 1.0 - state.safe_weight[0], losses, costs, fates, t)
        slot = due(queue)
        while slot != NONE:
            arm = queue.arms[slot]
            for i in range(observed.size):
                observed[i] = queue.costs[slot, i]
            status = step(
                state, {self._chance}arm, queue.propensities[slot], queue.weights[slot], queue.losses[slot], observed
            )
            {"look(eye, state.known.lower, state.known.upper, arm)" if watched else "pass"}
            if status == EMPTY:
                return -(t + 1)
            slot = due(queue)
    return len(losses)
"""
        return compiled_apart(self._made(source, "play_queued", self.update, step=self.step))

    @cached_property
    def begin(self) -> Callable[..., None]:
        """Set what follows from the problem and the options; takes the two buffers (and a generator)."""
        chance = ", generator" if self.random else ""
        source = f"""
def begin(floats, integers{chance}):
    action(opened(floats, integers){chance})
"""
        return compiled_apart(self._made(source, "begin", self._begin)) if self._begin else _nothing

    @cached_property
    def restore(self) -> Callable[..., None]:
        """Recompute the derived leaves from the saved ones; takes the two buffers."""
        source = f"""
def restore(floats, integers):
    state = opened(floats, integers)
    action(state)
    status = 0
    {self._reaction}
"""
        return compiled_apart(self._made(source, "restore", self._restore)) if self._restore else _nothing

    @cached_property
    def observe(self) -> Callable[..., int]:
        """Take in the costs of an arm chosen elsewhere; takes the two buffers, the arm and the costs."""
        source = f"""
def observe(floats, integers, arm, costs):
    state = opened(floats, integers)
    learn(state.known, arm, costs)
    action(state)
    status = 0
    return {self._reaction}
"""
        return compiled_apart(self._made(source, "observe", self._restore, learn=observe_costs))

    @property
    def _chance(self) -> str:
        return "generator, " if self.random else ""

    def _made(self, source: str, name: str, kernel: Any, **names: Any) -> Callable[..., Any]:
        """A Python entry point to a kernel. Its name is unique for each pair of kernel and state."""
        door: Callable[..., Any] = executed(
            source, name, kernel, opened=self.layout.opener, update=kernel, action=kernel, noted=noted,
            retreat=retreat, draw=draw, look=look, EMPTY=EMPTY, admit=admit, due=due, OVER=OVER, NONE=NONE, **names,
        )  # fmt: skip
        door.__qualname__ += f".{self.state.__module__}.{self.state.__qualname__}"
        return door


def _nothing(*_: Any) -> None:
    """Placeholder for a kernel that a policy does not need."""


@compiled
def draw(strategy: Floats, uniform: float) -> int:
    """The arm on which a number from [0, 1) falls when the shares are laid end to end."""
    last = 0
    for a in range(strategy.size):
        if strategy[a] > 0.0:
            last = a
            uniform -= strategy[a]
            if uniform < 0.0:
                return a
    return last


@compiled
def noted(known: Any, status: int) -> int:
    """The status of an update, or CONTRADICTED if the bounds on the costs contradict each other."""
    return CONTRADICTED if known.contradicted[0] > 0 and status != EMPTY else status


@compiled
def retreat(known: Any, strategy: Floats, safe_weight: Floats, safe_strategy: Floats, status: int) -> int:
    """The same status as `noted`; on a contradiction, play the safe strategy from then on, if there is one."""
    if known.contradicted[0] > 0:
        total = 0.0
        for a in range(strategy.size):
            total += safe_strategy[a]
        if total > 0.0:  # a soft policy may share its state with a hard one, and has zeros there
            safe_weight[0] = 1.0
            for a in range(strategy.size):
                strategy[a] = safe_strategy[a]
    return noted(known, status)
