"""The base class of policies: ask, tell, and a state that survives a restart."""

from __future__ import annotations

import copy
import math
import threading
import warnings
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

import surefoot.policies.saving as saving
from surefoot.kernels.adversary import NOBODY, Foe
from surefoot.kernels.draws import FILLED, Drawn
from surefoot.kernels.episode import Algorithm, draw
from surefoot.kernels.layout import Draft
from surefoot.kernels.notes import UNNOTED, Notes
from surefoot.kernels.queue import NONE, Queue, Waiting, admit, due
from surefoot.kernels.types import CONTRADICTED, Integers
from surefoot.kernels.watch import IDLE, Watch, look
from surefoot.problem import Decision, Problem
from surefoot.rules import (
    OUTCOME,
    SHARE,
    WHOLE,
    Floats,
    Range,
    RuleError,
    frozen,
    number,
    numbers,
)

S = TypeVar("S")

Seed = int | np.random.SeedSequence | None
"""What a policy's random generator is made from; None for another one each time."""

SALT = 0x5AFEF007
"""Sets a policy's random numbers apart from those of a world that is simulated with the same seed."""

RAREST = 1e-15
"""An arm with a smaller probability is never drawn in as many rounds as a policy may play."""

NOT_COPIED = {
    "_lock", "_eye", "_state", "_strategy", "_weight", "_row", "_costs", "_heeded", "_room", "_buffers", "_update",
    "_open",
}  # fmt: skip
"""What a copy of a policy makes for itself."""

NO_COSTS = np.zeros(0)
BLOCK = ("losses", "costs", "strategies", "safe_weights")


class Setting(NamedTuple):
    """How the rounds of a simulated block go, where they are not plain."""

    waiting: Waiting | None  # feedback does not come at once
    foe: Foe  # an adversary turns the losses, which are coins until then, into losses
    model: Drawn  # the costs of an arm are drawn when it is played
    notes: Notes  # what is noted at checkpoints


PLAIN = Setting(None, NOBODY, FILLED, UNNOTED)


class ShownLeaf(property):
    """A property that shows a leaf of the state: an array, or the number of a leaf that counts."""

    def __init__(self, path: str, doc: str, *, count: bool = False) -> None:
        self.path, read = tuple(path.split(".")), attrgetter(path)

        def shown(policy: Any) -> Any:
            leaf = read(policy._state)
            return int(leaf[0]) if count else policy._shown(leaf)

        super().__init__(shown, doc=doc)


class Contradiction(UserWarning):
    """A lower bound on a cost is above its upper bound: bad luck, or costs are not what a policy assumes."""


class Policy(Generic[S]):
    """Base class of all policies. Subclasses hold the mathematics; this class talks to the caller.

    The contract, for callers and for authors of policies (`surefoot.testing` checks it):

    * A policy is built by ``cls(problem, seed, **options)``. It has its own random generator: the same
      problem, options, seed and calls give the same run.
    * ``ask()`` draws an arm from `strategy`, numbers the decision and keeps its number until feedback arrives. It
      changes nothing else, and may be called any number of times before that.
    * ``tell(decision, loss, costs)`` learns from an earlier decision, by the propensity it carries; it counts as one
      round. Input that breaks a rule raises `RuleError` and changes nothing.
    * Safety rests on feedback exactly once for every decision, and for each arm in the order of asking. `tell` refuses
      a numbered decision that would break this: one that was told already, one that is not the oldest open decision of
      its arm, or one that this policy has not made. A decision without a number is taken as it is, and settles none of
      the numbered ones: with such decisions the caller vouches for all of this. `surefoot.Live` does it for you.
    * ``lost(decision)`` counts feedback that will never come as the worst case.
    * `to_dict` and `to_bytes` return data from which `from_dict` and `from_bytes` make a policy whose future is the
      same, bit for bit.
    * After `horizon` rounds `ask`, `tell`, `lost` and `live` refuse: no guarantee reaches further. Policies that need
      no horizon go on.
    * Threads may share a policy; the order of asking within each arm is up to them. A copy shares nothing with its
      original.

    A subclass names itself (`name`), says what it promises (`kind`), and brings an `algorithm`: its state and the
    kernels that act on it. `_start` fills in the state before the first round; the rest is done here.
    """

    name: ClassVar[str]
    """What studies and the command line call the policy."""

    kind: ClassVar[str]
    """What the policy promises about the guardrails: "hard", "soft" or "none"."""

    algorithm: ClassVar[Algorithm[Any]]
    """The state, and the kernels that act on it."""

    _in_turn: ClassVar[bool] = False
    """Whether `live` calls `_learn` round by round although there is compiled code; for subclasses that override it."""

    quiet: bool = False
    """Whether a contradiction is left to the caller, who looks at `contradicted`, instead of a warning."""

    _endless: bool = False
    """Whether the policy can do without a horizon."""

    def __init__(self, problem: Problem, seed: Seed = None, **options: Any) -> None:
        if not isinstance(problem, Problem):
            raise RuleError("problem", "be a Problem", problem)
        if problem.horizon is None and not self._endless:
            raise RuleError("problem", f"have a horizon for {type(self).__name__}", problem, "horizon=None")
        self.problem = problem
        self._last = math.inf if problem.horizon is None else problem.horizon
        self._options = options
        self._lock = threading.Lock()
        self._round = self._asked = self._observed = 0
        self._open: defaultdict[int, deque[int]] = defaultdict(deque)  # numbers of open decisions, for each arm asked
        self._eye: Watch | None = None
        self._warned, self._alarmed = 0, False  # contradictions that were warned of; whether one is to be looked at
        self._rng = generator(seed)
        self._draft = self.algorithm.layout.new(**self._sizes())
        self._start(self._draft)
        self._attach()
        chance = (self._rng,) if self.algorithm.random else ()
        self.algorithm.begin(*self._buffers, *chance)
        self._rarest = self._least_propensity()

    def _sizes(self) -> dict[str, int]:
        """The sizes of the state: the number of arms, of the guardrails it looks at, and others it declares."""
        return {"K": self.problem.n_arms, "m": self.problem.n_constraints}

    def _start(self, state: Any) -> None:
        """Fill in what is not 0 before the first round, and what `algorithm.begin` does not set.

        ``state.rate = 0.1`` sets a constant, ``state.totals = 1.0`` fills an array.
        """

    def _set_added(self, tree: Mapping[str, Any]) -> None:
        """Set leaves that a state from an older version lacks and whose initial values would be wrong."""

    def _check(self) -> None:
        """Reject a loaded state whose leaves are inconsistent."""

    def _least_propensity(self) -> float:
        """The smallest probability with which the policy can have drawn an arm."""
        return RAREST

    def _attach(self) -> None:
        """Set what points into the buffers, and what `ask` and `tell` look up in every round."""
        self._state: S = self._draft.opened()
        self._strategy: Floats = self._played.strategy
        self._weight: Floats = self._played.safe_weight
        self._row: Floats = np.zeros((1, 4 + self.problem.n_constraints))  # a round, as `algorithm.tell` takes it
        self._costs = self._row[0, 4:]
        self._heeded = self._costs[: self._sizes()["m"]]
        self._room: Floats = np.zeros(len(self._heeded))
        self._buffers = self._draft.floats, self._draft.integers
        self._update = self.algorithm.tell if self.algorithm.update is not None else None
        self._draws = self.algorithm.random

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        """Take in the feedback of one decision; the input is valid. By default, the algorithm's update."""
        row = self._row[0]
        row[0], row[1], row[2], row[3] = arm, propensity, weight, loss
        if costs is not self._heeded:
            self._heeded[:] = costs
        self._learn_rows(self._row)

    def _learn_rows(self, rows: Floats) -> None:
        """Take in rounds as `tell_many` has them."""
        if self._update is None:
            raise NotImplementedError(f"{type(self).__name__} must have an update or its own _learn")
        chance, status = (self._rng,) if self._draws else (), -1
        while status < 0:
            status = self._update(*self._buffers, *chance, rows, self._room)
            if status < 0:
                self._recover()
                self._alarmed |= self.contradicted
                rows = rows[-status:]
        self._alarmed |= status == CONTRADICTED

    def _recover(self) -> None:
        """Find a strategy after an update has reported an empty safe set."""
        raise NotImplementedError(f"{type(self).__name__} never finds an empty safe set")

    def _shown(self, array: Floats) -> Floats:
        """A read-only copy, so that the value of a property does not change when the policy learns."""
        with self._lock:
            return frozen(array.copy())

    @property
    def strategy(self) -> Floats:
        """The probabilities from which `ask` draws (x_t); a read-only copy."""
        return self._shown(self._strategy)

    @property
    def safe_weight(self) -> float:
        """The weight of the safe strategy in what is played (gamma_{t-1}); 0 for policies that never mix it in."""
        return self._weight.item()

    @property
    def _played(self) -> Any:
        """The state, which has ``strategy`` and ``safe_weight``; its type parameter cannot say so."""
        return self._state

    @property
    def round(self) -> int:
        """How many rounds of feedback the policy has seen."""
        return self._round

    @property
    def least_propensity(self) -> float:
        """The smallest probability with which the policy can have drawn an arm; `tell` refuses smaller ones."""
        return self._rarest

    @property
    def contradicted(self) -> bool:
        """True once a lower bound on a cost was above its upper bound, with bets by ten times the evidence.

        Then costs are not what the policy assumes, or a bound has failed by bad luck, within delta. The first time,
        bounds that bet begin again, from later costs alone. The second time, or at once with other bounds, a hard
        policy plays the safe strategy from then on.
        """
        known = getattr(self._state, "known", None)
        return known is not None and bool(known.contradicted[0])

    def ask(self) -> Decision:
        """Draw an arm from the strategy; keep the decision for `tell`."""
        with self._lock:
            if self._round >= self._last:
                self._refuse("ask")
            arm, asked = draw(self._strategy, self._rng.random()), self._asked
            self._asked = asked + 1
            self._open[arm].append(asked)
            drawn = arm, self._strategy.item(arm), 1.0 - self._weight.item(), asked
        return tuple.__new__(Decision, drawn)  # as Decision(*drawn), in half the time

    def tell(self, decision: Decision | Sequence[Any], loss: float, costs: ArrayLike = NO_COSTS) -> None:
        """Learn from the loss and the costs that a decision has led to.

        Feedback may be late, and that on one arm may overtake that on another. Within each arm, tell decisions once and
        in the order of asking: any other call with a decision of `ask` is refused. With a decision that you made
        yourself, without a number, you vouch for this, on which safety rests.

        Parameters
        ----------
        decision
            What `ask` returned; or an arm, its propensity, and the weight of the proposal in the draw (1 if left out).
        loss
            The loss, in [0, 1].
        costs
            One cost in [0, 1] per guardrail.

        Examples
        --------
        >>> import surefoot as sf
        >>> policy = sf.UCB1(sf.Problem(n_arms=2, thresholds=[], horizon=100))
        >>> first, second = policy.ask(), policy.ask()  # both of arm 0
        >>> policy.tell(second, loss=0.4)
        Traceback (most recent call last):
        surefoot.rules.RuleError: decision must be the oldest open one of its arm, and number 0 of arm 0 is ...
        >>> policy.tell(first, loss=0.2)
        >>> policy.tell(second, loss=0.4)
        """
        arm, propensity, weight, asked = self._checked_decision(decision)
        if not is_share(loss):
            loss = float(number("loss", loss, OUTCOME))
        with self._lock:
            if self._round >= self._last:
                self._refuse("tell")
            opened = None
            if asked is not None:
                opened = self._open[arm]
                if not opened or opened[0] != asked:
                    self._refuse_decision(arm, asked)
            self._set_costs(costs)
            self._learn(arm, propensity, weight, loss, self._heeded)
            if opened is not None:
                opened.popleft()
            if self._eye is not None:
                self._look(arm)
            self._round += 1
        if self._alarmed:
            self._warn()

    def tell_many(self, rows: Floats) -> None:
        """Learn from many rounds: the same as `tell` with each in turn, bit for bit, and faster.

        Parameters
        ----------
        rows
            One round a row, (n, 4 + m): arm, propensity, weight of the proposal, loss, costs. They count as decisions
            without a number, and the values are not checked: the caller does both.

        Examples
        --------
        >>> import numpy as np
        >>> import surefoot as sf
        >>> policy = sf.UCB1(sf.Problem(n_arms=2, thresholds=[], horizon=100))
        >>> policy.tell_many(np.array([[0, 1.0, 1.0, 0.2], [1, 1.0, 1.0, 0.4]]))
        >>> policy.round
        2
        """
        shape = (len(rows), 4 + self.problem.n_constraints)
        if rows.shape != shape:
            raise RuleError("rows", f"be an array of shape {shape}", rows, f"one of shape {rows.shape}")
        with self._lock:
            if self._round + len(rows) > self._last:
                self._refuse("tell_many")
            if self.plays_compiled and self._eye is None:
                self._learn_rows(np.ascontiguousarray(rows, np.float64))
            else:
                for arm, propensity, weight, loss, *costs in rows.tolist():
                    self._costs[:] = costs
                    self._learn(int(arm), propensity, weight, loss, self._heeded)
                    self._look(int(arm))
            self._round += len(rows)
        if self._alarmed:
            self._warn()

    def lost(self, decision: Decision | Sequence[Any]) -> None:
        """Give up on the feedback of a decision: it counts as the worst case, a loss of 1 and every cost 1."""
        self.tell(decision, 1.0, [1.0] * self.problem.n_constraints)

    def reseed(self, seed: Seed = None) -> None:
        """Switch to another random stream; otherwise copies and restored policies draw the same arms."""
        fresh = generator(seed)
        with self._lock:
            self._rng = fresh

    def live(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        """Play a block of rounds: the same as `ask` and `tell` in turn, bit for bit, and faster.

        It is refused while decisions wait for feedback.

        Parameters
        ----------
        losses
            Loss of every arm in every round, (n, K). Neither losses nor costs are checked: the caller does that.
        costs
            Costs of every arm in every round, (n, m, K).
        strategies
            Filled with the strategy of each round, (n, K).
        safe_weights
            Filled with the weight of the safe strategy in it, (n,).
        """
        self._live(losses, costs, strategies, safe_weights, PLAIN)
        if self._alarmed or self.contradicted:
            self._warn()

    def live_waiting(
        self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats, waiting: Waiting
    ) -> None:
        """Play a block of rounds where feedback does not come at once; the rounds that count are those learnt.

        The arguments are those of `live`, and in `waiting` the decisions that wait, and what happens to the feedback of
        each round.
        """
        self._live(losses, costs, strategies, safe_weights, PLAIN._replace(waiting=waiting))
        if self._alarmed or self.contradicted:
            self._warn()

    def live_in(
        self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats, setting: Setting
    ) -> None:
        """Play a block of rounds in a simulation. The arguments are those of `live`, and how the rounds go.

        A policy without compiled rounds (`plays_compiled`) takes no adversary, draws no costs and notes nothing.
        """
        self._live(losses, costs, strategies, safe_weights, setting)
        if self._alarmed or self.contradicted:
            self._warn()

    def _live(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats, setting: Setting) -> None:
        n, n_arms, n_constraints, waiting = (
            len(losses),
            self.problem.n_arms,
            self.problem.n_constraints,
            setting.waiting,
        )
        shapes = (n, n_arms), (n, n_constraints, n_arms), (n, n_arms), (n,)
        for name, array, shape in zip(BLOCK, (losses, costs, strategies, safe_weights), shapes, strict=True):
            if array.shape != shape:
                raise RuleError(name, f"be an array of shape {shape}", array, f"one of shape {array.shape}")
        if waiting is not None and waiting.fates.shape != (n, 2, 2):
            rule = f"be an array of shape {(n, 2, 2)}"
            raise RuleError("waiting.fates", rule, waiting.fates, f"one of shape {waiting.fates.shape}")
        with self._lock:
            if waiting is None and self._round + n > self._last:
                self._refuse("live")
            if any(self._open.values()):
                raise RuleError(
                    "live", "be called when no decision waits for feedback, which a block would overtake", None,
                    f"a call with {sum(map(len, self._open.values()))} open",
                )  # fmt: skip
            before = 0 if waiting is None else waiting.queue.learnt.item()
            if self.plays_compiled:
                self._live_compiled(losses, costs, strategies, safe_weights, setting)
            elif waiting is None:
                self._live_in_turn(losses, costs, strategies, safe_weights)
            else:
                self._live_queued(losses, costs, strategies, safe_weights, *waiting)
            learnt = n if waiting is None else waiting.queue.learnt.item() - before
            self._round += learnt
            self._asked += learnt

    @property
    def plays_compiled(self) -> bool:
        """True if blocks of rounds are played in compiled code."""
        return self.algorithm.update is not None and not self._in_turn

    def watched(self, eye: Watch) -> None:
        """Let an observer who knows the true costs check the confidence bounds after every round."""
        self._eye = eye

    def _look(self, arm: int) -> None:
        if self._eye is not None and hasattr(self._state, "known"):
            look(self._eye, self._played.known.lower, self._played.known.upper, arm)

    def _live_in_turn(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        for t in range(len(losses)):
            strategies[t], safe_weights[t] = self._strategy, self._weight[0]
            arm = draw(self._strategy, self._rng.random())
            self._costs[:] = costs[t, :, arm]
            weight = 1.0 - float(safe_weights[t])
            self._learn(arm, float(strategies[t, arm]), weight, float(losses[t, arm]), self._heeded)
            self._look(arm)

    def _live_queued(
        self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats, queue: Queue, fates: Integers
    ) -> None:
        for t in range(len(losses)):
            strategies[t], safe_weights[t] = self._strategy, self._weight[0]
            arm = draw(self._strategy, self._rng.random())
            weight = 1.0 - float(safe_weights[t])
            admit(queue, arm, float(strategies[t, arm]), weight, losses, costs, fates, t)
            while (slot := due(queue)) != NONE:
                arm = int(queue.arms[slot])
                self._costs[:] = queue.costs[slot]
                drawn = float(queue.propensities[slot]), float(queue.weights[slot])
                self._learn(arm, *drawn, float(queue.losses[slot]), self._heeded)
                self._look(arm)

    def _live_compiled(
        self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats, setting: Setting
    ) -> None:
        waiting, foe, model, notes = setting
        play, further = self.algorithm.play(queued=waiting is not None), (foe, model, *(waiting or ()))
        uniforms = None if self._draws else self._rng.random(len(losses))
        chance = self._rng if uniforms is None else uniforms
        block = chance, self._eye or IDLE, notes, losses, costs, strategies, safe_weights, self._heeded
        played = play(*self._buffers, *block, 0, *further)
        while played < 0:
            begun = -played
            if uniforms is not None:  # what `_recover` draws comes before the draws of later rounds
                cast(np.random.PCG64, self._rng.bit_generator).advance(begun - len(losses))
            self._recover()
            if uniforms is not None:
                self._rng.random(out=uniforms[begun:])
            again = begun - (waiting is not None)  # that round is not over
            played = play(*self._buffers, *block, again, *further)

    def _warn(self) -> None:
        self._alarmed = False
        known = cast(Any, self._state).known
        if self._warned < known.contradicted[0] and not self.quiet:
            self._warned = int(known.contradicted[0])
            if self._warned == known.begun[0]:
                now = "forgets its bounds on the costs, and learns them again"
            else:
                now = "plays the safe strategy from now on" if self.kind == "hard" else "goes on"
            warnings.warn(
                f"{type(self).__name__} has found a lower bound on a cost above its upper bound by round "
                f"{self._round}: costs have changed or depend on each other, feedback was late, lost or repeated, or a "
                f"bound has failed by bad luck, within delta; the policy {now}",
                Contradiction,
                stacklevel=3,
            )

    # Floats in plain sequences, the usual input, take a short cut; anything else is checked by `number` and `numbers`.

    def _checked_decision(self, decision: Decision | Sequence[Any]) -> tuple[int, float, float, int | None]:
        try:
            arm, propensity, n = decision[0], decision[1], len(decision)
            weight = decision[2] if n > 2 else 1.0
            asked = decision[3] if n > 3 else None
        except (TypeError, IndexError, KeyError):
            raise RuleError("decision", "start with an arm and a propensity", decision) from None
        arm = self._checked_arm(arm)
        if not (is_share(propensity) and propensity >= self._rarest):
            propensity = float(number("propensity", propensity, Range(self._rarest, 1)))
        if not is_share(weight):
            weight = float(number("proposal_weight", weight, SHARE))
        if asked is not None and (type(asked) is not int or asked < 0):
            asked = number("number", asked, WHOLE)
        return arm, propensity, weight, asked

    def _checked_arm(self, arm: Any) -> int:
        if type(arm) is not int or arm < 0:
            arm = number("arm", arm, WHOLE)
        if arm >= self.problem.n_arms:
            raise RuleError("arm", f"be below n_arms = {self.problem.n_arms}", arm)
        return int(arm)

    def _set_costs(self, costs: Any) -> None:
        if type(costs) in (list, tuple) and len(costs) == self._costs.size:
            for i, cost in enumerate(costs):
                if not is_share(cost):
                    break
                self._costs[i] = cost
            else:
                return
        self._costs[:] = numbers("costs", costs, OUTCOME, self._costs.size)

    def _refuse_decision(self, arm: int, asked: int) -> NoReturn:
        of_arm = next((one for one, waiting in self._open.items() if asked in waiting), None)
        received = f"number {asked}"
        if of_arm == arm:
            rule = (
                f"be the oldest open one of its arm, and number {self._open[arm][0]} of arm {arm} is still open: "
                "tell that first or settle it with lost (sf.Live keeps the order for you)"
            )
        elif of_arm is None and asked < self._asked:
            rule, received = "be told only once (sf.Live notices repeated feedback)", f"{received}, told already"
        else:
            rule = "be one that this policy has made (sf.Live knows which are)"
            received += f" of arm {arm}"
        raise RuleError("decision", rule, asked, received)

    def _refuse(self, what: str) -> NoReturn:
        raise RuleError(
            what,
            f"not be called after horizon = {self.problem.horizon} rounds (the guarantees end there)",
            self._round,
            f"a call after round {self._round}",
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole policy as JSON-able data, for people to read."""
        with self._lock:
            return saving.to_dict(self)

    def to_bytes(self) -> bytes:
        """The whole policy as bytes: a header in JSON, then the saved part of its buffers."""
        with self._lock:
            return saving.to_bytes(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The policy that `to_dict` described: its next draws and answers are the same."""
        return cast(Self, saving.from_dict(cls, data))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """The policy that `to_bytes` wrote: its next draws and answers are the same."""
        return cast(Self, saving.from_bytes(cls, data))

    def _loaded(self) -> None:
        """Check that the loaded leaves are consistent, and recompute the derived ones."""
        self._attach()
        self.algorithm.restore(*self._buffers)
        self._check()
        known = getattr(self._state, "known", None)
        self._warned = 0 if known is None else int(known.contradicted[0])

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            kept = {name: value for name, value in self.__dict__.items() if name not in NOT_COPIED}
            kept["_draft"] = self._draft.floats, self._draft.integers
            kept["_open"] = saving.listed(self._open)
            problem = kept.pop("problem")  # it never changes
            return {"problem": problem, **copy.deepcopy(kept)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        layout = self.algorithm.layout
        self._draft = Draft(layout, layout.arrangement(**self._sizes()), *kept["_draft"])
        self._lock, self._eye = threading.Lock(), None
        self._open = saving.opened(kept["_open"])
        self._attach()

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"{type(self).__name__}({self.problem!r}{options}) at round {self._round}"


class WithoutOptions(Policy[S]):
    """A policy that is made from a problem and a seed alone."""

    def __init__(self, problem: Problem, seed: Seed = None) -> None:
        super().__init__(problem, seed)


def generator(seed: Seed) -> np.random.Generator:
    """The generator of a policy, whose stream differs from ``np.random.default_rng(seed)``."""
    return np.random.Generator(np.random.PCG64(sequence(seed)))


def sequence(seed: Seed) -> np.random.SeedSequence:
    """What the generator of a policy is made from."""
    if isinstance(seed, np.random.SeedSequence):
        entropy, key = seed.entropy, tuple(seed.spawn_key)
    else:
        entropy, key = None if seed is None else number("seed", seed, WHOLE), ()
    return np.random.SeedSequence(entropy, spawn_key=(*key, SALT))


def plain(name: str, value: float, rule: Range) -> float:
    """A checked option as a plain float, which JSON can hold."""
    return float(number(name, value, rule))


def optional(name: str, value: float | None, rule: Range) -> float | None:
    """The same for an option that may be left to the policy."""
    return None if value is None else plain(name, value, rule)


def is_share(value: object) -> bool:
    """True if the value is a plain float in [0, 1]."""
    return type(value) is float and 0.0 <= value <= 1.0
