"""All verbs of `Live` in any order: answers are predicted, and after every step the state is the fold of the log."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import surefoot as sf
from surefoot.experiments import live as live_module
from surefoot.experiments.events import Alarm, Cancelled, Changed, Created, Decided, Expired, Log, Measured, Reported
from surefoot.experiments.fold import replay
from surefoot.experiments.order import names_in, rounds
from surefoot.experiments.plans import Plan
from surefoot.storage import open_log
from tests.experiments.model import Model
from tests.experiments.worlds import BAD, GOOD, DurableMemory, make
from tests.reference.order import learnt

SPEND, ANSWERED = sf.AtMost("spend", 0.4, high=2.0, unit="cents"), sf.AtLeast("answered", 0.7)
MEASURED = {"baseline_costs": None, "margin": 0.0, "delta": 0.5}
CHANGES: dict[str, dict[str, Any]] = {
    "the same": {},
    "looser": {"guardrails": [sf.AtMost("spend", 0.8, high=2.0), ANSWERED]},
    "tighter": {"guardrails": [sf.AtMost("spend", 0.2, high=2.0), ANSWERED]},
    "turned round": {"guardrails": [ANSWERED, SPEND]},
    "an arm less": {"arms": ["a", "c"]},
    "an arm more": {"arms": ["d", "a", "b", "c"]},
    "a quantity less": {"guardrails": [SPEND], "baseline_costs": {"spend": 0.1}},
    "a quantity more": {
        "guardrails": [SPEND, ANSWERED, sf.AtMost("slow", 0.5)],
        "baseline_costs": {"spend": 0.1, "answered": 0.95, "slow": 0.1},
    },
    "wider": {"guardrails": [sf.AtMost("spend", 0.4, low=-1.0, high=4.0), ANSWERED]},
    "narrower": {"guardrails": [sf.AtMost("spend", 0.4, high=1.5), ANSWERED]},
    "a mixed baseline": {"baseline": {"b": 0.25, "c": 0.75}},
    "minimised": {"objective": sf.Minimise("quality", high=2.0)},
    "shorter": {"timeout": 3.0},
    "measured": {**MEASURED, "guardrails": [sf.AtMost("spend", 1.6, high=2.0)]},
    "measured, reordered": {
        **MEASURED,
        "guardrails": [sf.AtLeast("answered", 0.1), sf.AtMost("spend", 1.9, high=2.0)],
    },
    "soft": {"policy": "colb"},
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "quality": [0.0, 1, 2.0], "spend": [0.0, 0.1, 1.25, 1.5], "answered": [True, False, 1.0],
    "slow": [0.25, np.float64(1)],
}  # fmt: skip
NAMES = sorted(VALUES)
CHANCE = st.randoms(use_true_random=False)
WEIGHTS = {
    "decide_plainly": 4, "decide": 5, "whole_feedback": 6, "feedback": 4, "feedback_many": 2, "time_passes": 4,
    "cancel": 1, "observe": 2, "expire": 1, "bad_input": 3, "operate": 3, "take_snapshot": 1, "crash": 2,
}  # fmt: skip
"""How often a walk takes each step."""
AT_ONCE = ("now", "arm ", "reason", "Expected")
"""How the sentences begin with which a call is refused before it looks at the time."""


class Machine(RuleBasedStateMachine):
    storage: str
    live: Any  # `sf.Live`, or what has its verbs
    log: Log
    weights = WEIGHTS
    fewest = 0  # items in a call of `feedback_many`

    def __init__(self) -> None:
        super().__init__()
        self.patch = mock.patch.object(live_module, "CHECKPOINT_EVERY", 7)
        self.patch.start()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 0.0
        self.keys: dict[str, tuple[list[sf.Choice], str | None]] = {}
        self.snapshots: list[sf.Snapshot] = []
        self.choices: list[sf.Choice] = []
        self.seen = 0  # events of the log that were looked at
        self.settled: Counter[int] = Counter()

    def new_log(self) -> Log:
        if self.storage == "sqlite":
            return open_log(self.folder / "log.db")
        return DurableMemory() if self.storage == "durable memory" else sf.MemoryLog()

    def start(self, experiment: sf.Experiment, seed: int) -> None:
        self.log = self.new_log()
        self.live = sf.Live(experiment, seed, log=self.log)

    def end(self) -> None:
        self.log.close()

    def teardown(self) -> None:
        self.end()
        self.patch.stop()
        shutil.rmtree(self.folder)

    @initialize(rng=CHANCE)
    def begin(self, rng: Random) -> None:
        experiment = make(**CHANGES[rng.choice(["the same", "the same", "measured", "soft", "a mixed baseline"])])
        self.start(experiment, rng.randrange(5))
        self.model = Model(experiment)

    # What rules share.

    def expect(self, answer: Any, call: Any) -> None:
        """The call must return this, or raise this error; nothing may follow from an error but what time brings."""
        if not (isinstance(answer, type) and issubclass(answer, Exception)):
            assert call() == answer
            return
        before = self.live._fold.last
        with pytest.raises(answer):
            call()
        for _, event in self.log.read(before):
            assert isinstance(event, Expired | Alarm | Measured)

    def refused(self, answer: type[Exception], call: Any, sentence: str | None = None) -> None:
        """The call must raise this error and change nothing at all."""
        before = self.live._fold.digest()
        with pytest.raises(answer, match=sentence):
            call()
        assert self.live._fold.digest() == before

    def outcome(self, rng: Random, names: list[str]) -> dict[str, Any]:
        allowed = [name for name in names if name in self.model.needed | self.model.retired]
        return {name: rng.choice(VALUES[name]) for name in allowed}

    # Time.

    @rule(rng=CHANCE)
    def time_passes(self, rng: Random) -> None:
        self.now += rng.choice([1.0, 3.0, 10.0, 25.0, -1.0, -30.0])

    # Deciding.

    @rule(rng=CHANCE)
    def decide_plainly(self, rng: Random) -> None:
        self.decide_with(rng.choice([None, 1, 4]))

    @rule(rng=CHANCE)
    def decide(self, rng: Random) -> None:
        arms = snapshot = None
        if rng.random() < 0.4:
            arms = rng.sample(self.model.experiment.arms, rng.randint(1, len(self.model.experiment.arms)))
        elif self.snapshots and rng.random() < 0.7:
            snapshot = rng.choice(self.snapshots)
        key = rng.choice([None, None, "k1", "k2", "k3"])
        unit = rng.choice([None, None, None, "u1", "u2"])
        self.decide_with(rng.choice([None, None, 1, 3]), key, unit, arms, snapshot)

    def decide_with(
        self,
        n: int | None,
        key: str | None = None,
        unit: str | None = None,
        arms: list[str] | None = None,
        snapshot: sf.Snapshot | None = None,
    ) -> None:
        model, live, count = self.model, self.live, 1 if n is None else n

        def call() -> Any:
            return live.decide(self.now, n, arms, key, unit, snapshot=snapshot)

        if unit is not None and count > 1:
            return self.refused(sf.RuleError, call, "n must be 1 if a unit is given, got 3")
        if model.stopped:
            return self.refused(sf.Stopped, call, "the experiment routing was stopped: enough")
        model.expire(self.now, inclusive=True)
        earlier: list[sf.Choice] | None = None
        if key in self.keys:
            earlier, for_unit = self.keys[key]
            if for_unit != unit or len(earlier) != count:
                return self.expect(sf.Conflict, call)
        elif unit is not None and (waiting := model.of_unit(unit)) is not None:
            earlier = [one for one in self.choices if one.id == waiting.id]
        if earlier is not None:
            if arms is not None and any(one.arm not in arms for one in earlier):
                return self.expect(sf.Conflict, call)
            assert call() == (earlier[0] if n is None else earlier)
            return None
        try:
            got = call()
        except sf.Unavailable:
            assert arms is not None
            assert not {arm for arm, share in zip(model.experiment.arms, live._fold.safe) if share > 0} <= set(arms)
            return None
        choices: list[sf.Choice] = [got] if n is None else got
        assert len(choices) == count
        self.follow()  # a time-out may have raised an alarm, before the draw
        if snapshot is not None:
            usable = snapshot.epoch == model.epoch and self.now <= snapshot.lease
            usable = usable and live.status().state == "running" and not model.shadow
            plan = (
                Plan(snapshot.strategy, snapshot.weight, snapshot.mode)
                if usable
                else Plan(live._fold.safe, 0.0, "safe")
            )
        else:
            plan = live._narrowed(arms)
        for choice in choices:
            model.decided(choice, unit)
        self.choices += choices
        self.drawn_from(choices, plan)
        assert arms is None or {choice.arm for choice in choices} <= set(arms)
        if key is not None:
            self.keys[key] = choices, unit
        return None

    def drawn_from(self, choices: list[sf.Choice], plan: Plan) -> None:
        """The decisions were drawn from this plan, which is safe at what is known now."""
        model, policy = self.model, self.live._fold.policy
        arms = model.experiment.arms
        if model.held or policy is None or model.shadow:
            assert plan.weight == 0.0
            assert plan.strategy.tolist() == list(model.experiment.safe_strategy)
        for choice in choices:
            assert choice.propensity == plan.strategy[arms.index(choice.arm)] > 0.0
            assert choice.epoch == model.epoch
            assert choice.mode == plan.mode
            assert choice.due == self.now + model.experiment.timeout
            assert (choice.would is None) == (choice.mode != "shadow")
        if policy is not None and model.experiment.hard:
            problem = policy.problem
            assert_safe(
                plan.strategy, problem.safe.strategy, problem.safe.costs, policy.upper_costs, problem.thresholds
            )

    @rule(rng=CHANCE)
    def take_snapshot(self, rng: Random) -> None:
        self.snapshots.append(self.live.snapshot(self.now, rng.choice([0.0, 5.0, 100.0])))

    # Feedback.

    @precondition(lambda self: self.model.made)
    @rule(rng=CHANCE)
    def feedback(self, rng: Random) -> None:
        id = rng.choice(list(self.model.made))
        outcome = self.outcome(rng, rng.sample(NAMES, rng.randint(1, 4)))
        if outcome:
            self.model.expire(self.now, inclusive=False)
            answer = self.model.feedback(id, outcome)
            self.expect(answer, lambda: self.live.feedback(id, outcome, self.now))

    @precondition(lambda self: self.model.open)
    @rule(rng=CHANCE)
    def whole_feedback(self, rng: Random) -> None:
        """On one decision, or on all that wait, in order or not; once or twice."""
        waiting, good = self.model.open, rng.random() < 0.8
        self.model.expire(self.now, inclusive=False)
        for one in rng.sample(waiting, len(waiting) if rng.random() < 0.4 else 1):
            outcome: dict[str, Any] = {"slow": 0.0, **(GOOD if good else {**BAD, "spend": 1.5})}
            outcome = {name: outcome[name] for name in self.model.needed}
            for _ in range(rng.choice([1, 1, 2])):
                answer = self.model.feedback(one.id, outcome)
                self.expect(answer, lambda: self.live.feedback(one.id, outcome, self.now))

    @precondition(lambda self: self.model.made)
    @rule(rng=CHANCE)
    def feedback_many(self, rng: Random) -> None:
        items: list[tuple[str, Any]] = []
        self.model.expire(self.now, inclusive=False)
        answers: list[Any] = []
        for _ in range(rng.randint(self.fewest, 5)):
            id = rng.choice(list(self.model.made)) + rng.choice(["", "", "", "", "x"])
            outcome: Any = self.outcome(rng, rng.sample(NAMES, rng.randint(1, 4)))
            if rng.random() < 0.2 or not outcome:
                outcome = {"quality": 3.0}
            items.append((id, outcome))
            if id not in self.model.made:
                answers.append(sf.Unknown)
            else:
                answers.append(sf.RuleError if outcome == {"quality": 3.0} else self.model.feedback(id, outcome))
        got = self.live.feedback_many(items, self.now)
        assert [type(one) if isinstance(one, Exception) else one for one in got] == answers

    @precondition(lambda self: self.model.made)
    @rule(rng=CHANCE)
    def cancel(self, rng: Random) -> None:
        id = rng.choice(list(self.model.made))
        self.expect(self.model.cancel(id), lambda: self.live.cancel(id))

    @rule(rng=CHANCE)
    def observe(self, rng: Random) -> None:
        arm, outcome = rng.choice(self.model.experiment.arms), self.outcome(rng, NAMES)
        self.model.observe(arm, outcome)
        self.live.observe(arm, outcome)

    @rule()
    def expire(self, _: Any = None) -> None:
        self.model.expire(self.now, inclusive=True)
        expected, self.model.timed_out = self.model.timed_out, 0
        assert self.live.expire(self.now) == expected

    # What is refused.

    def wrong(self, id: str, now: float) -> dict[str, Any]:
        """Calls that are refused, by the sentence."""
        live = self.live
        return {
            "outcome must have values of": lambda: live.feedback(id, {}, now),
            "outcome must have no keys but": lambda: live.feedback(id, {"quality": 1.0, "nonsense": 1.0}, now),
            r"outcome\['quality'\] must be in": lambda: live.feedback(id, {"quality": 2.5}, now),
            r"outcome\['quality'\] must be a number in": lambda: live.feedback(id, {"quality": "1"}, now),
            "no decision of routing has the id": lambda: live.feedback(id + "x", GOOD, now),
            "arms must be among": lambda: live.decide(now, arms=["nobody"]),
            "snapshot must be a Snapshot": lambda: live.decide(now, snapshot="x"),
            "now must be": lambda: live.decide(float("nan")),
            "arm must be one of": lambda: live.observe("nobody", GOOD),
            "reason must be text": lambda: live.hold(" "),
        }

    @rule(rng=CHANCE)
    def bad_input(self, rng: Random) -> None:
        late = rng.random() < 0.5
        now = self.now if late else -1e6  # at which nothing is due
        id = rng.choice(list(self.model.made)) if self.model.made else "nobody-1"
        calls = self.wrong(id, now)
        sentence = rng.choice(sorted(calls))
        call, error = calls[sentence], sf.RuleError
        if sentence.startswith("no decision") or (sentence.startswith("outcome") and not self.model.made):
            error, sentence = sf.Unknown, "no decision"  # type: ignore[assignment]
        deciding = sentence.startswith(("arms", "snapshot"))
        if deciding and self.model.stopped:
            return self.refused(sf.Stopped, call)
        if not late or sentence.startswith(AT_ONCE):
            return self.refused(error, call, sentence)
        self.model.expire(now, inclusive=deciding)
        return self.expect(error, call)

    # Operating: one rule, so that examples are about decisions and feedback most of the time.

    @rule(rng=CHANCE)
    def operate(self, rng: Random) -> None:
        verb = rng.choice(["change"] * 8 + ["hold", "resume", "resume", "switch"] * 3 + ["stop"])
        mode, keep, after = (
            rng.choice(["live", "shadow"]),
            rng.random() < 0.8,
            make(**CHANGES[rng.choice(list(CHANGES))]),
        )
        model, live = self.model, self.live
        calls: dict[str, Any] = {
            "change": lambda: live.change(after, "better", keep=keep),
            "hold": lambda: live.hold("wait"),
            "resume": lambda: live.resume("go"),
            "switch": lambda: live.switch(mode, "look"),
            "stop": lambda: live.stop("enough"),
        }
        if verb == "resume" and not model.held:
            return self.refused(*self.not_held(calls[verb]))
        if model.stopped:
            return self.refused(sf.Stopped, calls[verb], "the experiment routing was stopped: enough")
        answer = calls[verb]()
        if verb == "change":
            assert answer == model.change(after, keep)
        elif verb == "switch":
            model.shadow = mode == "shadow"
        elif verb == "stop":
            model.stopped = True
        else:
            model.held = model.by_operator = verb == "hold"
        if verb == "resume" and live._fold.epoch > model.epoch:
            assert model.alarmed
            model.change(live._fold.experiment, keep=True)
        return None

    def not_held(self, resume: Any) -> tuple[type[Exception], Any, str]:
        """How it is refused to resume what is not held."""
        return sf.RuleError, resume, "resume must be called while the experiment is held"

    @rule(rng=CHANCE)
    def crash(self, rng: Random) -> None:
        """What runs is thrown away; the log is opened again, with its checkpoint or without."""
        before = self.live._fold.digest()
        if isinstance(self.log, sf.MemoryLog):
            if rng.random() < 0.5:
                self.log._checkpoints = {}
        else:
            self.log.database.engine.dispose()  # type: ignore[attr-defined]
            self.log = self.new_log()
        self.live = sf.Live.of(self.log)
        assert self.live._fold.digest() == before
        self.model.timed_out = 0

    # After every step.

    def follow(self) -> None:
        """Look at new events: alarms hold, and each decision is settled once."""
        for number, event in self.log.read(self.seen):
            assert number == self.seen + 1
            self.seen = number
            if isinstance(event, Alarm) and event.holds:
                self.model.held = True
                self.model.alarmed.add(event.kind)
            elif isinstance(event, Expired | Cancelled):
                self.settled[event.number] += 1

    @invariant()
    def state_is_the_fold_of_the_log(self) -> None:
        self.follow()
        fold = self.live._fold
        assert fold.last == self.seen
        assert replay(self.log).digest() == fold.digest()

    @invariant()
    def decisions_are_settled_once(self) -> None:
        complete: Counter[int] = Counter()
        got: dict[int, set[str]] = {}
        needed: Any = set()
        numbers = []
        for _, event in self.log.read():
            if isinstance(event, Created | Changed):
                needed = names_in(event.experiment)
            elif isinstance(event, Decided):
                numbers.append(event.number)
            elif isinstance(event, Reported):
                assert not got.get(event.number, set()) & set(event.outcome), "a quantity was taken twice"
                got.setdefault(event.number, set()).update(event.outcome)
                complete[event.number] += needed <= got[event.number]
        assert numbers == list(range(len(numbers)))
        assert all(self.settled[number] + complete[number] <= 1 for number in numbers)

    @invariant()
    def rounds_are_learnt_in_order(self) -> None:
        history = [(one.number, one.arm, one.source, one.outcome) for one in rounds(self.log.read())]
        assert history == self.model.learnt
        assert history == learnt(event for _, event in self.log.read())
        for arm in {one[1] for one in history}:
            numbers = [one[0] for one in history if one[1] == arm and one[0] is not None]
            assert numbers == sorted(numbers)

    @invariant()
    def status_is_what_happened(self) -> None:
        status, model = self.live.status(), self.model
        assert status.pending == len(model.open)
        assert status.rounds == model.rounds
        assert status.decisions == len(model.made)
        assert status.epoch == model.epoch
        assert status.shadow == model.shadow
        assert (status.state == "stopped") == model.stopped
        assert model.stopped or (status.state == "held") == model.held
        assert np.isclose(status.delta_spent, model.delta_spent)
        assert np.isclose(sum(status.strategy.values()), 1.0)

    @invariant()
    def costs_are_those_that_were_learnt(self) -> None:
        known, experiment = self.live._fold.known_costs(), self.model.experiment
        if known is None:
            return
        for place, arm in enumerate(experiment.arms):
            for i, costs in enumerate(self.model.costs(arm).values()):
                assert known[0][i, place] == len(costs)
                assert not costs or np.isclose(known[1][i, place], np.mean(costs), atol=1e-12)


def assert_safe(strategy: Any, safe: Any, stated: Any, upper: Any, thresholds: Any) -> None:
    """At the upper bounds the strategy keeps every limit; the baseline's share costs what was stated."""
    share = min(1.0, min(x / s for x, s in zip(strategy, safe) if s > 0))
    rest = np.maximum(0.0, strategy - share * np.asarray(safe))
    for i, limit in enumerate(thresholds):
        bounds = np.minimum(1.0, upper[i])
        assert min(share * stated[i] + bounds @ rest, bounds @ strategy) <= limit + 1e-9


def machine(kind: str) -> Any:
    """The machine with a kind of log."""
    return type(f"Machine with {kind}", (Machine,), {"storage": kind})


KINDS = ["memory", "durable memory", "sqlite"]
FUZZ = settings.get_current_profile_name() == "fuzz"
EXAMPLES = 150 if FUZZ else 15


@pytest.mark.parametrize("kind", KINDS)
def test_any_order_of_calls(kind: str) -> None:
    run_state_machine_as_test(machine(kind), settings=settings(max_examples=EXAMPLES, stateful_step_count=20))


@pytest.mark.parametrize(
    ("kind", "seeds", "steps"), [("memory", 5, 100), ("durable memory", 7, 100), ("sqlite", 3, 60)]
)
def test_long_walks(kind: str, seeds: int, steps: int) -> None:
    """The same steps in long sequences, which Hypothesis seldom tries."""
    for seed in range(seeds):
        walk(machine(kind), Random().getrandbits(32) if FUZZ else seed, steps)


def walk(kind: type[Machine], seed: int, steps: int) -> Machine:
    """Take random steps, and check after each."""
    rng, walker = Random(seed), kind()
    found = {name: value for cls in reversed(kind.__mro__) for name, value in vars(cls).items()}
    checks = [name for name, value in found.items() if hasattr(value, "hypothesis_stateful_invariant")]
    try:
        walker.begin(rng)
        for _ in range(steps):
            step = rng.choices(list(kind.weights), list(kind.weights.values()))[0]
            if step in ("feedback", "feedback_many", "cancel", "whole_feedback") and not walker.model.open:
                step = "decide_plainly"
            getattr(walker, step)(rng)
            for check in checks:
                getattr(walker, check)()
    finally:
        walker.teardown()
    return walker
