"""Episodes: policies play the world of a seed, and their accounts are written at the checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from numbers import Real
from threading import Event
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from surefoot.analysis.clean import CleanEvent
from surefoot.analysis.hindsight import MORE_NUMBERS, MOST_NUMBERS, Hindsight
from surefoot.analysis.ledger import PlayLedger, WorldLedger, anchor, settled
from surefoot.analysis.ledger import columns as account_columns
from surefoot.environments.feedback import DRAWS, Feedback
from surefoot.environments.losses import Adversary, Seen
from surefoot.environments.scenario import Scenario
from surefoot.kernels.adversary import NOBODY, respond
from surefoot.kernels.draws import FILLED
from surefoot.kernels.layout import Layout
from surefoot.kernels.ledger import PlayRows
from surefoot.kernels.notes import NOWHERE, UNNOTED, new_notes, note, note_waiting
from surefoot.kernels.queue import NONE, Queue, Waiting, admit, due, new_queue
from surefoot.kernels.types import Integers
from surefoot.kernels.watch import look
from surefoot.policies.base import Policy, Setting, ShownLeaf
from surefoot.problem import Decision, Problem
from surefoot.rules import SHARE, SUM_TOLERANCE, WHOLE, Floats, RuleError, is_numeric
from surefoot.simulation.columns import table_of
from surefoot.simulation.world import Block, Room, World, policy_seed, room_for

STATE = {"safe_weight", "empty_rounds", "strategy", "proposal", "lower_costs"}
"""Columns of the table that tell the state of a policy after the round."""
NOTHING = np.zeros(0)
DRAWN = 3
"""Number of arms for which the estimated safe set is kept at the checkpoints: with three, it can be drawn."""


class Player(Protocol):
    """The interface that a simulation needs. Every `Policy` has it.

    `safe_weight`, `proposal`, `empty_rounds`, `lower_costs` and `upper_costs` are read if present.
    """

    @property
    def strategy(self) -> Floats:
        """The probabilities of the next draw."""

    def ask(self) -> Any:
        """A decision that starts with the arm."""

    def tell(self, decision: Any, loss: float, costs: Any) -> None:
        """Learn from a decision."""


Factory = Callable[[Problem, int], Player]


class Stopped(Exception):
    """Raised when an episode is asked to stop before its end."""


class Stage:
    """What all episodes of a scenario share.

    Parameters
    ----------
    scenario
        The world.
    checkpoints
        The rounds at which accounts are made.
    """

    def __init__(self, scenario: Scenario, checkpoints: Sequence[int]) -> None:
        self.scenario, self.stops = scenario, np.array(checkpoints, np.int64)
        phases, n_arms = scenario.costs.phases, scenario.problem.n_arms
        limits = np.tile(scenario.problem.thresholds, len(phases))
        most = MORE_NUMBERS if scenario.random == "counter" else MOST_NUMBERS  # a GPU needs the vertices
        self.hindsight = Hindsight(phases.reshape(limits.size, n_arms), limits, most)
        self.clean = CleanEvent(scenario.problem, self.hindsight)

    def table(self, lived: Sequence[Lived]) -> pa.Table:
        """The table of some episodes of a policy, one after the other."""
        world = settled([one.world for one in lived])
        seen, waiting = (np.concatenate([getattr(one, name) for one in lived]) for name in ("seen", "waiting"))
        safe, rows = anchor(self.scenario.problem), len(seen)
        waits = self.scenario.feedback is not None
        columns = {
            "scenario": pa.repeat(self.scenario.id, rows),
            "policy": pa.repeat(lived[0].policy, rows),
            "seed": np.repeat([one.seed for one in lived], self.stops.size),
            "pending": waiting[:, 0] if waits else None,
            "lost": waiting[:, 1] / np.tile(self.stops, len(lived)) if waits else None,
            **account_columns([one.rows for one in lived], world, safe),
            **self.clean.columns(seen, [one.left for one in lived], world.benchmarks),
            **{name: joined([one.state.get(name) for one in lived], self.stops.size) for name in STATE},
        }
        return table_of(columns, rows)


class Lived(NamedTuple):
    """What is left of an episode when it is over."""

    policy: str
    seed: int
    seconds: float  # of processor time
    world: WorldLedger
    rows: PlayRows
    seen: Integers  # (n, 3) counts of the eye
    waiting: Integers  # (n, 2) counts of the queue
    left: Integers  # what the eye saw leave the safe set
    state: Mapping[str, Any]  # columns that tell the state of the policy


class Episode:
    """One policy in one world. Its accounts are written into arrays."""

    def __init__(self, name: str, player: Player, stage: Stage, seed: int) -> None:
        scenario = stage.scenario
        self.name, self.player, self.scenario, self.seed = name, player, scenario, seed
        of = player.problem if isinstance(player, Policy) else scenario.problem
        if of is not scenario.problem and of != scenario.problem:
            rule = "be made for the problem it is given"
            raise RuleError(f"policies[{name!r}]", rule, of, "one for another problem")
        feedback, n_arms = scenario.feedback, scenario.problem.n_arms
        self.ledger = PlayLedger(scenario.problem, stage.stops)
        self._queue = None if feedback is None else empty_queue(scenario.problem, feedback)
        self._decisions: list[Any] = [None] * (0 if self._queue is None else self._queue.arms.size)  # by slot
        self.seconds = 0.0
        self.counts = np.zeros(n_arms)
        self._seen = self.counts.view()
        self._seen.flags.writeable = False
        self._eye = stage.clean.eye()
        steady = len(scenario.costs.phases) == 1
        self._shows_bounds = steady and hasattr(player, "lower_costs") and hasattr(player, "upper_costs")
        if isinstance(player, Policy) and self._shows_bounds:
            player.watched(self._eye)
        self._compiled = plays_compiled(player, scenario)
        self._at: Mapping[str, slice] | None = None
        chosen = NOWHERE
        if isinstance(player, Policy) and self._compiled and not vars(player).keys() & STATE:
            kind: Any = type(player)
            self._at, chosen = noted_places(kind, player.algorithm.layout, player._draft.arrangement.sizes)
        self._notes = new_notes(chosen, self.ledger.account)
        self._shown: list[dict[str, Any]] = []  # what cannot be noted in compiled code, by checkpoint

    def live(self, block: Block, world: World, room: Room, passed: Callable[[int], None]) -> None:
        """Play a block of rounds; `passed` hears how many have been played, and may raise to stop."""
        if self._at is not None:
            self._play(block, world, room)
            passed(len(block.losses))
            return
        last = block.first + len(block.losses)
        inside = [int(stop) for stop in self._notes.stops if block.first < stop <= last]
        for begin, end in pairwise(sorted({block.first, *inside, last})):
            self._play(block.part(begin - block.first, end - block.first), world, room)
            passed(end - begin)
            if end in inside:
                self._show()

    def _play(self, block: Block, world: World, room: Room) -> None:
        losses, costs, n = block.losses, block.costs, len(block.losses)
        strategies, safe_weights = room.strategies[:n], room.safe_weights[:n]
        waiting = None if self._queue is None or block.fates is None else Waiting(self._queue, block.fates)
        self._notes.lived[0], player = block.first, self.player
        if not self._compiled:
            world.fill_costs()
        elif world.model is not None:
            world.model.first[0] = block.first
        started = time.thread_time()
        if isinstance(player, Policy) and self._compiled:
            account = self._notes.account._replace(mean_costs=block.mean_costs)
            notes = UNNOTED if self._at is None else self._notes._replace(account=account)
            setting = Setting(waiting, world.foe or NOBODY, world.model or FILLED, notes)
            player.live_in(losses, costs, strategies, safe_weights, setting)
        elif not isinstance(player, Policy) or self.scenario.adaptive:
            self._ask_and_tell(block, strategies, safe_weights, waiting, world)
        elif waiting is None:
            player.live(losses, costs, strategies, safe_weights)
        else:
            player.live_waiting(losses, costs, strategies, safe_weights, waiting)
        self.seconds += time.thread_time() - started
        if not type(player).__module__.startswith("surefoot."):
            self._check_block(strategies, safe_weights)
        if self._at is None:
            self.ledger.add(losses, block.mean_costs, strategies, safe_weights)

    def _ask_and_tell(
        self, block: Block, strategies: Floats, safe_weights: Floats, waiting: Waiting | None, world: World
    ) -> None:
        player, losses, costs = self.player, block.losses, block.costs
        for t in range(len(losses)):
            strategies[t] = strategy = self._valid(player.strategy)
            safe_weights[t] = self._weight()
            if self.scenario.adaptive:
                self._meet(losses, t, Seen(block.first + t, self.scenario.problem.rounds, strategy, self._seen), world)
            decision = player.ask()
            arm = self._known(decision[0] if isinstance(decision, Sequence) and decision else decision)
            if waiting is None:
                self._tell(decision, losses[t, arm], costs[t, :, arm])
            else:
                slot = admit(waiting.queue, arm, 1.0, 1.0, losses, costs, waiting.fates, t)
                self._decisions[slot] = decision if waiting.queue.in_order else unnumbered(decision)
                self._tell_due(waiting.queue)
            self.counts[arm] += 1
            if world.foe is not None:
                world.foe.counts[arm] += 1

    def _meet(self, losses: Floats, t: int, seen: Seen, world: World) -> None:
        """Let the adversary write the losses of a round."""
        adversary = self.scenario.losses
        if world.foe is not None:
            respond(world.foe, losses, t, np.array(seen.strategy))
        elif isinstance(adversary, Adversary):
            losses[t] = np.nan  # entries that the adversary does not write are rejected
            adversary.respond(losses[t], seen, world.loss_generator)
            if not (losses[t].min() >= 0.0 and losses[t].max() <= 1.0):
                raise RuleError("losses", f"be {SHARE}", losses[t].copy())

    def _tell_due(self, queue: Queue) -> None:
        """Tell the player what is due in this round."""
        while (slot := due(queue)) != NONE:
            self._tell(self._decisions[slot], queue.losses[slot], queue.costs[slot])

    def _tell(self, decision: Any, loss: float, costs: Floats) -> None:
        self.player.tell(decision, float(loss), costs.tolist())
        if self._shows_bounds and not isinstance(self.player, Policy):
            self._look()

    def _check_block(self, strategies: Floats, safe_weights: Floats) -> None:
        """Reject strategies that are not distributions, and safe weights out of range."""
        sums = strategies.sum(axis=1)
        if not (strategies.min() >= 0.0 and np.abs(sums - 1.0).max() <= SUM_TOLERANCE):
            wrong = int(np.argmax(~((strategies.min(axis=1) >= 0.0) & (np.abs(sums - 1.0) <= SUM_TOLERANCE))))
            self._refuse_strategy(strategies[wrong])
        largest = 0.0 if self.scenario.problem.safe is None else 1.0
        if not (safe_weights.min() >= 0.0 and safe_weights.max() <= largest):
            wrong_weight = safe_weights[~((safe_weights >= 0.0) & (safe_weights <= largest))][0]
            rule = f"be {SHARE}" if largest else "be 0 where there is no safe strategy"
            raise RuleError(f"safe_weight of {self.name}", rule, wrong_weight)

    def _look(self) -> None:
        """Check all bounds of a policy from outside the package: it may change any of them in a round."""
        lower, upper = self._bounds("lower_costs"), self._bounds("upper_costs")
        for arm in range(self.counts.size if lower.size and upper.size else 0):
            look(self._eye, lower, upper, arm)

    def _bounds(self, name: str) -> Floats:
        shown_bounds, shape = getattr(self.player, name), self.scenario.mean_costs.shape
        if not is_numeric(shown_bounds):
            raise RuleError(f"{name} of {self.name}", "be an array of numbers", shown_bounds)
        bounds = np.array(shown_bounds, np.float64, order="C")
        if bounds.size and bounds.shape != shape:
            raise RuleError(f"{name} of {self.name}", f"have the shape {shape}", bounds.shape)
        return bounds

    def _weight(self) -> float:
        weight = getattr(self.player, "safe_weight", 0.0)
        if not isinstance(weight, Real):
            raise RuleError(f"safe_weight of {self.name}", "be a number", weight)
        return float(weight)

    def _refuse_strategy(self, strategy: object) -> None:
        raise RuleError(f"strategy of {self.name}", f"be {self.counts.size} shares that sum to 1", strategy)

    def _known(self, arm: Any) -> int:
        if arm not in WHOLE or arm >= self.counts.size:
            raise RuleError(f"arm of {self.name}", f"be a whole number below {self.counts.size}", arm)
        return int(arm)

    def _valid(self, strategy: Any) -> Floats:
        array = np.asarray(strategy, np.float64)
        fits = array.shape == self.counts.shape
        if not (fits and array.min() >= 0.0 and abs(array.sum() - 1.0) <= SUM_TOLERANCE):
            self._refuse_strategy(strategy)
        return array

    def _show(self) -> None:
        """Write down the state of the policy at a checkpoint."""
        player, eye, queue = self.player, self._eye, self._queue
        proposal, lower = getattr(player, "proposal", None), None
        if self.counts.size == DRAWN:
            lower = getattr(player, "lower_costs", None)
        self._shown.append({
            "safe_weight": self._weight(),
            "empty_rounds": getattr(player, "empty_rounds", None),
            "strategy": np.asarray(player.strategy).tolist(),
            "proposal": None if proposal is None else np.asarray(proposal).tolist(),
            "lower_costs": None if lower is None else np.ravel(lower).tolist(),
        })  # fmt: skip
        if queue is not None:
            note_waiting(self._notes, queue)
        note(self._notes, NOTHING, eye)

    def _state(self) -> dict[str, Any]:
        """The state of the policy after each checkpoint, by column."""
        if self._at is None:
            return {name: [row[name] for row in self._shown] for name in STATE}
        return noted_columns(self._notes.numbers, self._at)

    def lived(self, world: WorldLedger) -> Lived:
        """What is left of it at its end."""
        notes, rows = self._notes, self.ledger.rows
        left = self._eye.left
        return Lived(self.name, self.seed, self.seconds, world, rows, notes.seen, notes.waiting, left, self._state())


def plays_compiled(player: Player, scenario: Scenario) -> bool:
    """True if whole blocks of rounds are played in compiled code."""
    if not isinstance(player, Policy) or (isinstance(scenario.losses, Adversary) and scenario.losses.foe() is None):
        return False
    own = type(player).live is not Policy.live or type(player).live_waiting is not Policy.live_waiting
    return player.plays_compiled and not own


def warm_up(player: Any, scenario: Scenario) -> None:
    """Compile the kernels of a policy in the main thread, before anything is timed."""
    if not isinstance(player, Policy) or player.problem != scenario.problem:  # an episode refuses the latter
        return
    problem, feedback, world = scenario.problem, scenario.feedback, World(scenario, 0)
    shape = problem.n_constraints, problem.n_arms
    block = np.zeros((1, shape[1])), np.zeros((1, *shape)), np.empty((1, shape[1])), np.empty(1)
    waiting = None
    if feedback is not None:
        waiting = Waiting(empty_queue(problem, feedback), feedback.fates(np.zeros((1, DRAWS))))
    if plays_compiled(player, scenario):
        player.live_in(*block, Setting(waiting, world.foe or NOBODY, world.model or FILLED, UNNOTED))
    elif scenario.adaptive:
        player.tell(player.ask(), 0.0, np.zeros(shape[0]))
    elif waiting is None:
        player.live(*block)
    else:
        player.live_waiting(*block, waiting)


@lru_cache(1024)
def noted_places(kind: Any, layout: Layout, sizes: tuple[int, ...]) -> tuple[Mapping[str, slice] | None, Integers]:
    """Where the columns of the state are in the buffer of a policy, and in a row of notes on these places.

    There is no mapping if the columns have to be asked for.
    """
    if kind.strategy is not Policy.strategy or kind.safe_weight is not Policy.safe_weight:
        return None, NOWHERE
    paths: dict[str, tuple[str, ...]] = {"strategy": ("strategy",), "safe_weight": ("safe_weight",)}
    arrangement = layout.arrangement(**dict(zip(layout.symbols, sizes, strict=True)))
    for name in ("proposal", "empty_rounds", "lower_costs"):
        shown = getattr(kind, name, None)
        if not isinstance(shown, ShownLeaf | None):
            return None, NOWHERE
        if shown is not None and (name != "lower_costs" or arrangement.places["strategy",].shape == (DRAWN,)):
            paths[name] = shown.path
    at, places = {}, NOWHERE
    for name, path in paths.items():
        place = arrangement.places[path]
        if place.field.integer:
            return None, NOWHERE
        length = math.prod(place.shape)
        at[name] = slice(places.size, places.size + length)
        places = np.concatenate([places, np.arange(place.start, place.start + length)])
    return at, places


def noted_columns(numbers: Floats, at: Mapping[str, slice]) -> dict[str, Any]:
    """The columns of the state, out of what was noted at the checkpoints."""
    columns: dict[str, Any] = {name: numbers[:, where] for name, where in at.items()}
    columns["safe_weight"] = columns["safe_weight"][:, 0]
    if "empty_rounds" in columns:
        columns["empty_rounds"] = columns["empty_rounds"][:, 0].astype(np.int64)
    return columns


def unnumbered(decision: Any) -> Any:
    """A decision that a policy takes in any order, and again."""
    return decision._replace(number=None) if isinstance(decision, Decision) else decision


def empty_queue(problem: Problem, feedback: Feedback) -> Queue:
    """The queue of an episode before its first round."""
    in_order = feedback.handling == "live"
    n_arms, n_constraints, horizon = problem.n_arms, problem.n_constraints, problem.rounds
    return new_queue(n_arms, n_constraints, horizon, feedback.timeout, feedback.level, in_order)


def joined(parts: Sequence[Any], rows: int) -> Any:
    """A column of several episodes, out of an array, a list or None for each of them."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    if all(part is None for part in parts):
        return None
    return [value for part in parts for value in ([None] * rows if part is None else list(part))]


def live_in_turn(
    stage: Stage, factories: Mapping[str, Factory], seeds: Sequence[int], advance: Callable[[int], None], stop: Event
) -> Iterator[tuple[int, list[Lived]]]:
    """Live through the worlds of some seeds, one after the other."""
    for seed in seeds:
        yield seed, live_through(stage, factories, seed, advance, stop)


def live_through(
    stage: Stage, factories: Mapping[str, Factory], seed: int, advance: Callable[[int], None], stop: Event
) -> list[Lived]:
    """Play all policies of a seed side by side in the same world; in an adaptive scenario, each in its own."""
    scenario = stage.scenario
    if scenario.adaptive and len(factories) > 1:
        alone = [{name: factory} for name, factory in factories.items()]
        return [live_through(stage, one, seed, advance, stop)[0] for one in alone]
    problem, own_seed = scenario.problem, policy_seed(seed)
    episodes = [Episode(name, factory(problem, own_seed), stage, seed) for name, factory in factories.items()]

    def passed(rounds: int) -> None:
        advance(rounds)
        if stop.is_set():
            raise Stopped

    world, ledger = World(scenario, seed), WorldLedger(problem, stage.hindsight, stage.stops)
    with room_for(problem) as room:
        for block in world.rounds(int(stage.stops[-1]), room):
            for episode in episodes:
                episode.live(block, world, room, passed)
            ledger.add(block.losses)
    return [episode.lived(ledger) for episode in episodes]
