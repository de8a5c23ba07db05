"""Episodes: policies play the world of a seed, and their accounts are written at the checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from threading import Event
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from surefoot.analysis.clean import CleanEvent
from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.ledger import PlayLedger, Settled, WorldLedger
from surefoot.environments.feedback import Feedback
from surefoot.environments.losses import Adversary, Seen
from surefoot.environments.scenario import Scenario
from surefoot.kernels.queue import NONE, Queue, Waiting, admit, due, new_queue
from surefoot.kernels.types import Integers
from surefoot.kernels.watch import look
from surefoot.policies.base import Policy
from surefoot.problem import Decision, Problem
from surefoot.rules import SHARE, SUM_TOLERANCE, WHOLE, Floats, RuleError, is_numeric
from surefoot.simulation.run import SCHEMA
from surefoot.simulation.world import World, policy_seed

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


class Episode:
    """One policy in one world."""

    def __init__(self, name: str, player: Player, scenario: Scenario, seed: int, hindsight: Hindsight) -> None:
        self.name, self.player, self.scenario, self.seed = name, player, scenario, seed
        self.ledger = PlayLedger(scenario.problem)
        feedback = scenario.feedback
        self._queue = None if feedback is None else empty_queue(scenario.problem, feedback)
        self._decisions: list[Any] = [None] * (0 if self._queue is None else self._queue.arms.size)  # by slot
        self.table = SCHEMA.empty_table()
        self._rows: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.counts = np.zeros(scenario.problem.n_arms)
        self._seen = self.counts.view()
        self._seen.flags.writeable = False
        self._lived = 0
        if isinstance(player, Policy) and player.problem != scenario.problem:
            rule = "be made for the problem it is given"
            raise RuleError(f"policies[{name!r}]", rule, player.problem, "one for another problem")
        self._strategies, self._safe_weights = np.empty((0, self.counts.size)), np.empty(0)
        self._clean = CleanEvent(scenario.problem, hindsight)
        steady = len(scenario.costs.phases) == 1
        self._shows_bounds = steady and hasattr(player, "lower_costs") and hasattr(player, "upper_costs")
        if isinstance(player, Policy) and self._shows_bounds:
            player.watched(self._clean.eye)

    def live(
        self, losses: Floats, costs: Floats, mean_costs: Floats, fates: Integers | None, generator: np.random.Generator
    ) -> None:
        """Play some rounds."""
        if len(self._strategies) < len(losses):
            self._strategies, self._safe_weights = np.empty_like(losses), np.empty(len(losses))
        strategies, safe_weights = self._strategies[: len(losses)], self._safe_weights[: len(losses)]
        started = time.thread_time()
        adversary = self.scenario.losses
        waiting = None if self._queue is None or fates is None else Waiting(self._queue, fates)
        if isinstance(adversary, Adversary):
            self._ask_and_tell(losses, costs, strategies, safe_weights, waiting, adversary, generator)
        elif isinstance(self.player, Policy):
            if waiting is None:
                self.player.live(losses, costs, strategies, safe_weights)
            else:
                self.player.live_waiting(losses, costs, strategies, safe_weights, waiting)
        else:
            self._ask_and_tell(losses, costs, strategies, safe_weights, waiting)
        self.seconds += time.thread_time() - started
        self._lived += len(losses)
        if not type(self.player).__module__.startswith("surefoot."):
            self._check_block(strategies, safe_weights)
        self.ledger.add(losses, mean_costs, strategies, safe_weights)

    def _ask_and_tell(
        self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats, waiting: Waiting | None,
        adversary: Adversary | None = None, generator: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        player, horizon, first = self.player, self.scenario.problem.rounds, self._lived
        for t in range(len(losses)):
            strategies[t] = strategy = self._valid(player.strategy)
            safe_weights[t] = self._weight()
            if adversary is not None and generator is not None:
                losses[t] = np.nan  # entries that the policy does not write are rejected
                adversary.respond(losses[t], Seen(first + t, horizon, strategy, self._seen), generator)
                if not (losses[t].min() >= 0.0 and losses[t].max() <= 1.0):
                    raise RuleError("losses", f"be {SHARE}", losses[t].copy())
            decision = player.ask()
            arm = self._known(decision[0] if isinstance(decision, Sequence) and decision else decision)
            if waiting is None:
                self._tell(decision, losses[t, arm], costs[t, :, arm])
            else:
                slot = admit(waiting.queue, arm, 1.0, 1.0, losses, costs, waiting.fates, t)
                self._decisions[slot] = decision if waiting.queue.in_order else unnumbered(decision)
                self._tell_due(waiting.queue)
            self.counts[arm] += 1

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
            look(self._clean.eye, lower, upper, arm)

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

    def _feedback(self) -> dict[str, Any]:
        queue = self._queue
        if queue is None:
            return {"pending": None, "lost": None}
        return {"pending": int(queue.pending[0]), "lost": queue.lost.item() / queue.round.item()}

    def close(self) -> None:
        """Make a table of the rows."""
        self.table = pa.Table.from_pylist(self._rows, SCHEMA)

    def check(self, world: Settled) -> None:
        """Write a row: the account, and the state of the policy after the round."""
        player = self.player
        proposal = getattr(player, "proposal", None)
        lower = getattr(player, "lower_costs", None) if self.counts.size == DRAWN else None
        self._rows.append({
            "scenario": self.scenario.id,
            "policy": self.name,
            "seed": self.seed,
            **self.ledger.entry(world),
            "safe_weight": self._weight(),
            "empty_rounds": getattr(player, "empty_rounds", None),
            **self._feedback(),
            **self._clean.entry(world.benchmark),
            "strategy": np.asarray(player.strategy).tolist(),
            "proposal": None if proposal is None else np.asarray(proposal).tolist(),
            "lower_costs": None if lower is None else np.ravel(lower).tolist(),
        })  # fmt: skip


def unnumbered(decision: Any) -> Any:
    """A decision that a policy takes in any order, and again."""
    return decision._replace(number=None) if isinstance(decision, Decision) else decision


def empty_queue(problem: Problem, feedback: Feedback) -> Queue:
    """The queue of an episode before its first round."""
    in_order = feedback.handling == "live"
    n_arms, n_constraints, horizon = problem.n_arms, problem.n_constraints, problem.rounds
    return new_queue(n_arms, n_constraints, horizon, feedback.timeout, feedback.level, in_order)


def live_through(
    scenario: Scenario, hindsight: Hindsight, factories: Mapping[str, Factory], seed: int, checkpoints: Sequence[int],
    advance: Callable[[int], None], stop: Event,
) -> list[Episode]:  # fmt: skip
    """Play all policies of a seed side by side in the same world; in an adaptive scenario, each in its own."""
    if scenario.adaptive and len(factories) > 1:
        alone = [{name: factory} for name, factory in factories.items()]
        return [live_through(scenario, hindsight, one, seed, checkpoints, advance, stop)[0] for one in alone]
    problem, own_seed = scenario.problem, policy_seed(seed)
    episodes = [
        Episode(name, factory(problem, own_seed), scenario, seed, hindsight) for name, factory in factories.items()
    ]
    world, ledger, lived = World(scenario, seed), WorldLedger(problem, hindsight), 0
    for losses, costs in world.blocks(checkpoints[-1]):
        fates, means = world.fates(len(losses)), np.array(scenario.costs.means_in(lived, len(losses)), order="C")
        inside = [c - lived for c in checkpoints if lived < c <= lived + len(losses)]
        cuts = sorted({0, *inside, len(losses)})
        for begin, end in pairwise(cuts):
            expected, those = means[begin:end] if len(means) > 1 else means, None if fates is None else fates[begin:end]
            for episode in episodes:
                episode.live(losses[begin:end], costs[begin:end], expected, those, world.loss_generator)
                advance(end - begin)
                if stop.is_set():
                    raise Stopped
            ledger.add(losses[begin:end])
            if end in inside:
                settled = ledger.settle()
                for episode in episodes:
                    episode.check(settled)
        lived += len(losses)
    for episode in episodes:
        episode.close()
    return episodes
