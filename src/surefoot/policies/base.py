"""What every policy is: ask, tell, and a state that survives a restart."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from surefoot.kernels.costs import PAPER, Costs
from surefoot.kernels.dual import EMPTY
from surefoot.kernels.episode import UPDATES, noticed, play, play_outside, step
from surefoot.kernels.learner import draw
from surefoot.kernels.watch import IDLE, Watch
from surefoot.problem import (
    RULES,
    Decision,
    Floats,
    Problem,
    choice,
    fields,
    frozen,
    number,
    numbers,
    shown,
)

STATE_VERSION = 2
BLOCK = ("losses", "costs", "strategies", "safe_weights")

NO_COSTS = np.zeros(0)


class Policy(ABC):
    """A way to decide. Subclasses hold the mathematics; this class the conversation with the caller.

    The contract, for callers and for those who write a policy (`tests/contracts` checks it):

    * A policy is built by ``cls(problem, seed, **options)``. Its randomness comes from one generator of its own: same
      problem, options, seed and calls, same run.
    * ``ask()`` draws an arm from `strategy` and changes nothing but the generator. It may be called any number of times
      before feedback arrives.
    * ``tell(decision, loss, costs)`` learns from any earlier decision, in any order, by the propensity it carries; it
      counts as one round. Input that breaks a rule raises `ValueError` and changes nothing.
    * `to_dict` returns JSON-able data from which `from_dict` makes a policy whose future is the same, bit for bit.
    * After `horizon` rounds both refuse: no guarantee reaches further. Policies that need none do without.
    """

    kind: ClassVar[str]
    """What the policy promises about the constraints: "hard", "soft" or "none"."""

    @property
    def _derived(self) -> frozenset[str]:
        """Fields of the state that are not saved, since `_restored` can compute them: by default, none."""
        return frozenset()

    _in_turn: ClassVar[bool] = False
    """Whether `live` goes through `_learn` round by round although there is compiled code: for those who change it."""

    _eye: Watch | None = None
    """Whoever watches the confidence bounds."""

    _endless: bool = False
    """Whether the policy can do without a horizon."""

    _weighs: bool = False
    """Whether `tell` multiplies a loss by the weight that the proposal had in the draw."""

    def __init__(self, problem: Problem, seed: int | np.random.SeedSequence | None = None, **options: Any) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(f"problem must be a Problem, got {shown(problem)}")
        if seed is not None and not isinstance(seed, np.random.SeedSequence):
            number("seed", seed)
        if problem.horizon is None and not self._endless:
            raise ValueError(f"problem must have a horizon for {type(self).__name__}, got horizon=None")
        self.problem = problem
        self._last = math.inf if problem.horizon is None else problem.horizon
        self._options = options
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._round = 0
        self._costs = np.zeros(problem.n_constraints)
        self._state = self._start()
        self._leaves = tuple(leaves(self._state))

    @abstractmethod
    def _start(self) -> Any:
        """The state before the first round: arrays, in (nested) named tuples, that `_learn` changes in place.

        It has the fields ``strategy`` (K,), the probabilities from which `ask` draws, and ``safe_weight`` (1,).
        """

    def _learn(self, arm: int, propensity: float, loss: float, costs: Floats) -> None:
        """Take in the feedback of one decision; the input is valid. By default, the update tied to the state."""
        if step(self._state, self._rng, arm, propensity, loss, costs[: self._n_heeded]) == EMPTY:
            self._recover()

    def _recover(self) -> None:
        """Find a strategy after an update that has found the safe set empty, and said so."""
        raise NotImplementedError(f"{type(self).__name__} never finds an empty safe set")

    @property
    def _n_heeded(self) -> int:
        """How many of the costs, counted from the first, the update looks at."""
        return self.problem.n_constraints

    @property
    def strategy(self) -> Floats:
        """The probabilities from which `ask` draws (x_t); a read-only copy."""
        return snapshot(self._state.strategy)

    @property
    def safe_weight(self) -> float:
        """The weight of the safe strategy in what is played (gamma_{t-1}); 0 for policies that never mix it in."""
        return float(self._state.safe_weight[0])

    @property
    def round(self) -> int:
        """How many rounds of feedback the policy has seen."""
        return self._round

    def ask(self) -> Decision:
        """Draw an arm from the strategy; keep the decision for `tell`."""
        if self._round >= self._last:
            self._refuse("ask")
        strategy = self._state.strategy
        arm = draw(strategy, self._rng.random())
        return Decision(arm, float(strategy[arm]), 1.0 - float(self._state.safe_weight[0]))

    def tell(self, decision: Decision | Sequence[Any], loss: float, costs: ArrayLike = NO_COSTS) -> None:
        """Learn from the loss and the costs that a decision has led to."""
        if self._round >= self._last:
            self._refuse("tell")
        arm, propensity, weight = self._checked_decision(decision)
        if not is_share(loss):
            loss = float(number("loss", loss))
        if self._weighs:
            loss *= weight
        self._learn(arm, propensity, loss, self._checked_costs(costs))
        if self._eye is not None:
            noticed(self._state, self._eye, arm)
        self._round += 1

    def live(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        """Live through a block of rounds: the same as `ask` and `tell` in turn, bit for bit, and faster.

        Parameters
        ----------
        losses
            Of every arm in every round, (n, K). Like the costs they are not checked: that is up to whoever made them.
        costs
            (n, m, K).
        strategies
            Filled with the strategy of each round, (n, K).
        safe_weights
            Filled with the weight of the safe strategy in it, (n,).
        """
        n, n_arms, n_constraints = len(losses), self.problem.n_arms, self.problem.n_constraints
        shapes = (n, n_arms), (n, n_constraints, n_arms), (n, n_arms), (n,)
        for name, array, shape in zip(BLOCK, (losses, costs, strategies, safe_weights), shapes, strict=True):
            if array.shape != shape:
                raise ValueError(f"{name} must be an array of shape {shape}, got one of shape {array.shape}")
        if self._round + n > self._last:
            self._refuse("live")
        if type(self._state) in UPDATES and not self._in_turn:
            self._live_compiled(losses, costs, strategies, safe_weights)
        else:
            self._live_in_turn(losses, costs, strategies, safe_weights)
        self._round += len(losses)

    def watched(self, eye: Watch) -> None:
        """From now on let someone who knows the true costs look at the confidence bounds after every round."""
        self._eye = eye

    def _live_in_turn(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        for t in range(len(losses)):
            strategies[t], safe_weights[t] = self._state.strategy, self.safe_weight
            arm = draw(self._state.strategy, self._rng.random())
            received = np.ascontiguousarray(costs[t, :, arm])
            loss = float(losses[t, arm]) * (1.0 - self.safe_weight if self._weighs else 1.0)
            self._learn(arm, float(strategies[t, arm]), loss, received)
            if self._eye is not None:
                noticed(self._state, self._eye, arm)

    def _live_compiled(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        lived, observed, eye = 0, np.zeros(self._n_heeded), self._eye or IDLE
        rounds_of = play if type(self._state).__module__.startswith("surefoot.") else play_outside
        while lived < len(losses):
            rest = losses[lived:], costs[lived:], strategies[lived:], safe_weights[lived:]
            rounds = rounds_of(self._state, self._rng, eye, *rest, observed)
            lived += abs(rounds)
            if rounds < 0:
                self._recover()

    # Floats in plain sequences, the usual input, are checked here and now; for anything else `number` and `numbers`
    # decide, and find the words if they refuse.

    def _checked_decision(self, decision: Decision | Sequence[Any]) -> tuple[int, float, float]:
        try:
            arm, propensity = decision[0], decision[1]
            weight = decision[2] if len(decision) > 2 else 1.0
        except (TypeError, IndexError, KeyError):
            raise ValueError(f"decision must start with an arm and a propensity, got {shown(decision)}") from None
        if type(arm) is not int or arm < 0:
            arm = int(number("arm", arm))
        if arm >= self.problem.n_arms:
            raise ValueError(f"arm must be below n_arms = {self.problem.n_arms}, got {arm}")
        if not (is_share(propensity) and propensity > 1e-300):
            propensity = float(number("propensity", propensity))
        if not is_share(weight):
            weight = float(number("proposal_weight", weight))
        return arm, propensity, weight

    def _checked_costs(self, costs: Any) -> Floats:
        if type(costs) in (list, tuple) and len(costs) == self._costs.size:
            for i, cost in enumerate(costs):
                if not is_share(cost):
                    break
                self._costs[i] = cost
            else:
                return self._costs
        return numbers("costs", costs, self._costs.size)

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"{what} must not be called after horizon = {self.problem.horizon} rounds (the guarantees end there), "
            f"got a call after round {self._round}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole policy as JSON-able data."""
        return {
            "policy": type(self).__name__,
            "version": STATE_VERSION,
            "problem": self.problem.to_dict(),
            "options": dict(self._options),
            "round": self._round,
            "generator": self._rng.bit_generator.state,
            "state": pack(self._state, self._derived),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The policy that `to_dict` described: its next draws and answers are the same."""
        fields("data", data, "policy", "version", "problem", "options", "round", "generator", "state")
        choice("policy", data["policy"], (cls.__name__,))
        if type(data["version"]) is not int or data["version"] != STATE_VERSION:
            raise ValueError(f"version must be {STATE_VERSION}, got {shown(data['version'])}")
        problem = Problem.from_dict(data["problem"])
        try:
            with warnings.catch_warnings():  # whoever made the policy has been warned
                warnings.simplefilter("ignore", UserWarning)
                policy = cls(problem, **data["options"])
        except TypeError:
            raise ValueError(f"options must be those of {cls.__name__}, got {shown(data['options'])}") from None
        fields("options", data["options"], *policy._options)
        generator = policy._rng.bit_generator
        with suppress(TypeError, ValueError, KeyError, OverflowError):  # whatever went wrong shows in the next line
            generator.state = data["generator"]
        if generator.state != data["generator"] or generator.state["state"]["inc"] % 2 == 0:
            raise ValueError(f"generator must be the state of a PCG64, got {shown(data['generator'])}")
        policy._round = int(number("round", data["round"]))
        if policy._round > policy._last:
            raise ValueError(f"round must be at most horizon = {problem.horizon}, got {policy._round}")
        unpack(policy._state, data["state"], policy._derived)
        policy._restored()
        return policy

    def _restored(self) -> None:  # noqa: B027 (a policy that saves all it has needs nothing here)
        """Check what was loaded against itself, and compute what was not saved."""

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"{type(self).__name__}({self.problem!r}{options}) at round {self._round}"


def plain(name: str, value: float) -> float:
    """A checked option as a plain float, which JSON can hold."""
    return float(number(name, value))


def optional(name: str, value: float | None) -> float | None:
    """The same for an option that may be left to the policy."""
    return None if value is None else plain(name, value)


def is_share(value: object) -> bool:
    """Tell a plain float in [0, 1]."""
    return type(value) is float and 0.0 <= value <= 1.0


# What the states of the package's policies hold beside what they have learnt: copies from the problem, what follows
# from the rest, scratch space.
DERIVED = frozenset({
    "limits", "multipliers", "work", "lower", "upper", "strategy", "safe_strategy", "safe_costs", "thresholds", "task",
    "vertex", "observed_loss", "scores", "settings", "memory",
})  # fmt: skip


def learnt(state: Any, derived: frozenset[str]) -> dict[str, Any]:
    """The arrays, and bundles of them, that a state has learnt."""
    if isinstance(state, Costs) and state.kind == PAPER:  # bounds that follow from counts and means
        derived = derived | {"lower", "upper", "memory"}
    parts = state._asdict().items()
    return {name: value for name, value in parts if isinstance(value, np.ndarray | tuple) and name not in derived}


def pack(state: Any, derived: frozenset[str]) -> dict[str, Any]:
    """What a state has learnt, as nested lists."""
    parts = learnt(state, derived).items()
    return {name: value.tolist() if isinstance(value, np.ndarray) else pack(value, derived) for name, value in parts}


def unpack(state: Any, data: Any, derived: frozenset[str]) -> None:
    """Fill a state with what `pack` made of one, checked as all input is."""
    parts = learnt(state, derived)
    fields("state", data, *parts)
    for name, value in parts.items():
        if isinstance(value, np.ndarray):
            rule = f"state.{name}" if f"state.{name}" in RULES else "state.other"
            received = numbers(rule, data[name], *value.shape)
            if name in ("counts", "empty_rounds") and not (received == np.floor(received)).all():
                raise ValueError(f"state.{name} must be whole numbers, got {shown(data[name])}")
            value[...] = received
        else:
            unpack(value, data[name], derived)


def leaves(state: Any) -> Iterator[Any]:
    """The arrays and constants of nested named tuples, in order."""
    for value in state:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value


def snapshot(array: Floats) -> Floats:
    """A read-only copy: what a property shows stays as it is when the policy learns on."""
    return frozen(array.copy())
