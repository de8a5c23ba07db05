"""From a policy's kernels to what Python calls: one round, or a block of rounds, over the buffers of its state.

A policy brings a state (`layout.py`) and a compiled function that takes in the feedback of a round,
``update(state, arm, propensity, weight, loss, costs) -> status``. The weight is that of the proposal in the draw. A
policy that draws random numbers of its own when it learns has ``update(state, generator, arm, ...)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from textwrap import indent
from typing import Any, Generic, TypeVar, cast

from surefoot.kernels.adversary import respond
from surefoot.kernels.betting import ask_for_more, begin_again
from surefoot.kernels.compile import compiled, compiled_apart, compiled_door, merged
from surefoot.kernels.costs import BETTING
from surefoot.kernels.costs import observe as observe_costs
from surefoot.kernels.draws import UNDRAWN, draw_costs
from surefoot.kernels.layout import Layout, executed, layout_of
from surefoot.kernels.ledger import add_round
from surefoot.kernels.notes import next_stop, note, note_waiting
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
        self._plays: dict[str, Callable[..., int]] = {}

    @cached_property
    def step(self) -> Callable[..., int]:
        """`update`, then the check that the cost bounds need, if any; for compiled code."""
        source = f"""
def step(state, {self._chance}arm, propensity, weight, loss, costs):
    status = update(state, {self._chance}arm, propensity, weight, loss, costs)
    return {self._reaction}
"""
        return merged(self._made(source, "step", self.update, react=self.react))

    @property
    def _reaction(self) -> str:
        """The step after an update: nothing, or a check whether the bounds on the costs contradict each other."""
        return "(react(state, status) if state.known.contradicted[0] > 0 else status)" if self._bounds else "status"

    @property
    def _bounds(self) -> bool:
        """Whether the state has bounds on the costs."""
        return "known" in getattr(self.state, "_fields", ())

    @cached_property
    def react(self) -> Callable[..., int]:
        """What follows a contradiction; for compiled code. It returns the status of an update, or CONTRADICTED.

        The first time, bounds that bet begin again, and with them what is played. The second time, and at once with
        other bounds, a hard policy plays the safe strategy from then on, and a soft one goes on.
        """
        begins = self._begin is not None and not self.random
        retreats = "safe_strategy" in getattr(self.state, "_fields", ())
        source = f"""
def react(state, status):
    known = state.known
    if known.contradicted[0] > known.begun[0]:
        if known.kind == BETTING and known.begun[0] == 0 and {begins}:
            begin_again(known)
            {"if status != EMPTY: action(state)" * begins}
        {"else: retreat(state.strategy, state.safe_weight, state.safe_strategy)" * retreats}
    return EMPTY if status == EMPTY else CONTRADICTED
"""
        return compiled_apart(self._made(source, "react", self._begin or self.update))

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
        return self._entrance(source, "tell", self.update, step=self.step)

    def play(self, *, queued: bool = False) -> Callable[..., int]:
        """Play a block of rounds; made when it is first asked for.

        It takes the two buffers, a number from [0, 1) for each draw (a policy that draws random numbers of its own: a
        generator), an eye, the `Notes`, losses, costs, strategies, safe weights, room for the costs of a round and the
        round of the block to begin with; then a `Foe` (or `NOBODY`), a model of the costs, which are drawn when an arm
        is played (or `FILLED`), and, if feedback is queued, the queue and what happens to feedback.

        It returns the number of rounds of the block when it has played them. If the safe set was found empty in round
        t, it returns -(t + 1): call again, to begin with the round after it, or with that same round if feedback is
        queued, because the round is not over then.
        """
        name = "play" + "_queued" * queued
        if name not in self._plays:
            source = self._play_source(name, queued)
            self._plays[name] = self._entrance(source, name, self.update, step=self.step)
        return self._plays[name]

    def device_play(self, **sizes: int) -> Callable[..., int]:
        """The same for a GPU, and for states of these sizes alone, which makes the code shorter."""
        source = self._play_source("device_play", queued=False)
        opener = self.layout.opener_of(**sizes)
        return compiled_apart(self._made(source, "device_play", self.update, step=self.step, opened=opener))

    def _play_source(self, name: str, queued: bool) -> str:
        further = ", queue, fates" * queued
        source, drawn_at = ("generator", "generator.random()") if self.random else ("uniforms", "uniforms[t]")
        choose = f"""
        for a in range(strategy.size):
            strategies[t, a] = strategy[a]
        safe_weights[t] = state.safe_weight[0]
        if answered:
            respond(foe, losses, t, strategy)
        arm = draw(strategy, {drawn_at})
        if answered:
            foe.counts[arm] += 1.0
        if model.kind != UNDRAWN:
            draw_costs(model, costs, t, arm)
        if accounted:
            add_round(notes.account, t, losses, strategy, state.safe_weight[0])
        weight = 1.0 - state.safe_weight[0]
"""
        learn = f"""
        status = step(state, {self._chance}arm, propensity, weight, loss, observed)
        {"look(eye, state.known.lower, state.known.upper, arm)" * self._bounds}
        if status == EMPTY:
            return -(t + 1)
"""
        at_once = f"""{choose}
        for i in range(observed.size):
            observed[i] = costs[t, i, arm]
        propensity, loss = strategy[arm], losses[t, arm]
{learn}
"""
        later = f"""
        if queue.stage[0] == OVER:
{indent(choose, "    ")}
            admit(queue, arm, strategy[arm], weight, losses, costs, fates, t)
        slot = due(queue)
        while slot != NONE:
            arm, loss = queue.arms[slot], queue.losses[slot]
            propensity, weight = queue.propensities[slot], queue.weights[slot]
            for i in range(observed.size):
                observed[i] = queue.costs[slot, i]
{indent(learn, "    ")}
            slot = due(queue)
"""
        return f"""
def {name}(floats, integers, {source}, eye, notes, losses, costs, strategies, safe_weights, observed, begin, foe,
         model{further}):
    state = opened(floats, integers)
    strategy = state.strategy
    stop, accounted = next_stop(notes), notes.stops.size > 0
    answered = foe.means.size > 0
    for t in range(begin, len(losses)):
        if t == stop:
            {"note_waiting(notes, queue)" * queued}
            stop = note(notes, floats, eye)
{later if queued else at_once}
    if stop == len(losses):
        {"note_waiting(notes, queue)" * queued}
        note(notes, floats, eye)
    return len(losses)
"""

    @cached_property
    def begin(self) -> Callable[..., None]:
        """Set what follows from the problem and the options; takes the two buffers (and a generator)."""
        chance = ", generator" if self.random else ""
        source = f"""
def begin(floats, integers{chance}):
    action(opened(floats, integers){chance})
"""
        return self._entrance(source, "begin", self._begin) if self._begin else _nothing

    @cached_property
    def restore(self) -> Callable[..., None]:
        """Recompute the derived leaves from the saved ones; takes the two buffers."""
        source = f"""
def restore(floats, integers):
    state = opened(floats, integers)
    action(state)
    {"if state.known.begun[0] > 0: ask_for_more(state.known)" * self._bounds}
    status = 0
    {self._reaction}
"""
        return self._entrance(source, "restore", self._restore, react=self.react) if self._restore else _nothing

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
        return self._entrance(source, "observe", self._restore, learn=observe_costs, react=self.react)

    @property
    def _chance(self) -> str:
        return "generator, " if self.random else ""

    def _entrance(self, source: str, name: str, kernel: Any, **names: Any) -> Callable[..., Any]:
        """What Python calls. If it takes a generator, it lies behind a door that counts references.

        Numba takes a reference to a generator in every call, and gives it back only where references are counted.
        """
        made = self._made(source, name, kernel, **names)
        given = made.__code__.co_varnames[: made.__code__.co_argcount]
        kept = compiled_apart(made)
        if "generator" not in given:
            return kept
        listed, door = ", ".join(given), f"{name}_counted"
        return compiled_door(self._made(f"def {door}({listed}):\n    return kept({listed})", door, kernel, kept=kept))

    def _made(self, source: str, name: str, kernel: Any, **names: Any) -> Callable[..., Any]:
        """A generated function. Its name is unique for each pair of kernel and state."""
        opened = names.pop("opened", None) or self.layout.opener
        door: Callable[..., Any] = executed(
            source, name, kernel, opened=opened, update=kernel, action=kernel, retreat=retreat, draw=draw, look=look,
            EMPTY=EMPTY, CONTRADICTED=CONTRADICTED, BETTING=BETTING, begin_again=begin_again, ask_for_more=ask_for_more,
            admit=admit, due=due, OVER=OVER, NONE=NONE, note=note, note_waiting=note_waiting, next_stop=next_stop,
            add_round=add_round, respond=respond, draw_costs=draw_costs, UNDRAWN=UNDRAWN, **names,
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
def retreat(strategy: Floats, safe_weight: Floats, safe_strategy: Floats) -> None:
    """Play the safe strategy, if there is one."""
    total = 0.0
    for a in range(strategy.size):
        total += safe_strategy[a]
    if total > 0.0:  # a soft policy may share its state with a hard one, and has zeros there
        safe_weight[0] = 1.0
        for a in range(strategy.size):
            strategy[a] = safe_strategy[a]
