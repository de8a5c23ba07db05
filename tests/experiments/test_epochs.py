"""Alarms, what `resume` does after each, and epochs: what is kept, what is dropped, what it costs."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.stats import poisson

import surefoot as sf
from surefoot.experiments import live as live_module
from surefoot.experiments import watch as watch_module
from surefoot.experiments.events import Alarm, Changed, Decided
from surefoot.experiments.order import rounds
from tests.experiments.worlds import GOOD, DurableMemory, digest, fails, make, replayed, serve

SAFE = {"new": 0.15, "old": 0.08}


def the_alarm(live: sf.Live, kind: str) -> Alarm:
    (found,) = [alarm for alarm in live.status().alarms if alarm.kind == kind]
    return found


def assert_held(live: sf.Live, kind: str) -> Alarm:
    """The alarm holds the experiment: the baseline is served, also from snapshots."""
    alarm = the_alarm(live, kind)
    assert alarm.holds
    status = live.status()
    assert (status.state, status.reason) == ("held", alarm.message)
    assert status.safe_weight == 1.0
    assert {live.decide(0.0).mode for _ in range(5)} == {"safe"}
    assert digest(live) == replayed(live)
    return alarm


def knows(live: sf.Live) -> dict[str, int]:
    """How many rounds of each arm the policy has learnt."""
    known = live._fold.known_costs()
    assert known is not None
    return {arm: int(known[0][0, place]) for place, arm in enumerate(live.experiment.arms)}


# Alarms.


def test_drift_raises_an_alarm_and_resume_forgets() -> None:
    live = sf.Live(fails(), 1)
    serve(live, 1_000, SAFE)
    assert live.status().strategy["new"] > 0.5
    old = live.snapshot(0.0, lease=1e6)
    serve(live, 1_500, {"new": 0.9, "old": 0.08}, seed=2)
    served = [alarm for alarm in live.status().alarms if alarm.holds]
    assert served
    assert served[0].kind in ("served", "contradiction")
    assert live.status().state == "held"
    assert live.decide(0.0, snapshot=old).arm == "old"
    live.resume("the release was rolled back")
    status = live.status()
    assert (status.state, status.epoch, status.reason) == ("running", 1, None)
    assert status.delta_spent == pytest.approx(0.1)
    assert knows(live) == {"new": 0, "old": 0}
    assert live.decide(0.0, snapshot=old).mode == "safe"
    assert digest(live) == replayed(live)
    serve(live, 1_000, SAFE, seed=3, now=100.0)  # when what was decided above is due
    assert live.status().state == "running"
    assert live.status().strategy["new"] > 0.5


def test_what_is_served_is_watched_on_its_own() -> None:
    """A drift of the baseline's own arm, whose costs the policy does not look at."""
    live = sf.Live(fails(alarm_every=1e4), 1)
    live.switch("shadow", "only the baseline")
    serve(live, 300, {"new": 0.1, "old": 0.7})
    kinds = {alarm.kind for alarm in live.status().alarms}
    assert "served" in kinds or "baseline" in kinds
    alarm = next(alarm for alarm in live.status().alarms if alarm.holds)
    assert alarm.guardrail == "fail"
    assert alarm.message in (
        "the mean fail served is above the limit 0.3",
        "the mean fail of the baseline is above what was stated or measured, 0.1",
    )


def test_a_false_baseline_is_found_and_measured_by_resume() -> None:
    """It costs .25 where .1 was stated: under the limit, so only the baseline's own watch can tell."""
    live = sf.Live(fails(alarm_every=1e4), 1)
    live.switch("shadow", "only the baseline")
    serve(live, 400, {"new": 0.1, "old": 0.25})
    alarm = assert_held(live, "baseline")
    assert (alarm.guardrail, alarm.arm) == ("fail", None)
    assert alarm.message == "the mean fail of the baseline is above what was stated or measured, 0.1"
    assert {alarm.kind for alarm in live.status().alarms} == {"baseline"}
    live.resume("look again")
    assert (live.status().state, live.experiment.baseline_costs) == ("measuring", None)
    assert digest(live) == replayed(live)


def test_resume_takes_costs_that_are_stated_again() -> None:
    live = sf.Live(fails(alarm_every=1e4), 1)
    live.switch("shadow", "only the baseline")
    serve(live, 400, {"new": 0.1, "old": 0.25})
    live.resume("it is .26", fails(alarm_every=1e4, baseline_costs={"fail": 0.26}))
    assert (live.status().state, live.status().epoch) == ("running", 1)
    assert knows(live) == {"new": 0, "old": 0}
    assert live._fold.policy.problem.safe.costs.tolist() == [0.26]


def test_a_contradiction_raises_an_alarm() -> None:
    """Costs of an arm that were .0 for long and are 1 now, in observations, which the watch does not see."""
    live = sf.Live(fails(), 1)
    for cost in (0.0, 1.0):
        for _ in range(300):
            live.observe("new", {"fail": cost})
    alarm = assert_held(live, "contradiction")
    assert alarm.message == "a lower bound on a cost is above its upper bound: costs have changed, or feedback is wrong"
    live.resume("new data")
    assert (live.status().state, live.status().epoch) == ("running", 1)
    assert knows(live) == {"new": 0, "old": 0}
    assert live.experiment.baseline_costs == {"fail": 0.1}


def test_limits_that_nothing_can_keep_raise_an_alarm() -> None:
    live = sf.Live(fails(policy="colb", baseline_costs=None), 1)
    serve(live, 1_500, {"new": 0.8, "old": 0.7})
    alarm = assert_held(live, "infeasible")
    assert alarm.message == "no mixture of the arms can keep all limits"
    live.resume("try again")
    assert (live.status().state, live.status().epoch) == ("running", 1)


def test_lost_feedback_raises_an_alarm_and_nothing_is_held() -> None:
    live = sf.Live(fails(alarm_every=1e4), 1)
    for i in range(600):
        d = live.decide(float(i))
        if d.arm == "new" or i % 3:
            live.feedback(d.id, {"gain": 0.1, "fail": False}, float(i))
    live.expire(1e4)
    alarm = the_alarm(live, "lost")
    assert not alarm.holds
    assert alarm.arm == "old"
    assert alarm.message == "feedback of old is lost more often than 10%: it counts as the worst case"
    assert live.status().state == "running"
    assert live.status().lost["old"] == pytest.approx(1 / 3, abs=0.1)
    assert live.status().lost["new"] == 0.0
    with pytest.raises(sf.RuleError, match="resume must be called while the experiment is held"):
        live.resume("x")
    assert digest(live) == replayed(live)


def test_lost_feedback_of_the_baseline_is_no_alarm_about_costs() -> None:
    """Its costs were stated, so nothing that is missing counts against them."""
    live = sf.Live(fails(alarm_every=1e4), 1)
    live.switch("shadow", "only the baseline")
    for i in range(500):
        d = live.decide(float(i))
        if i % 2:
            live.feedback(d.id, {"gain": 0.1, "fail": False}, float(i))
    live.expire(1e4)
    assert {alarm.kind for alarm in live.status().alarms} == {"lost"}


def test_cancellations_that_differ_raise_an_alarm() -> None:
    live = sf.Live(fails(), 1)
    for i in range(800):
        d = live.decide(0.0)
        if d.arm == "new" and i % 2:
            live.cancel(d.id)
        else:
            live.feedback(d.id, {"gain": 0.5, "fail": False}, 0.0)
    alarm = the_alarm(live, "cancelled")
    assert (alarm.holds, alarm.arm) == (False, "new")
    assert alarm.message == "new is cancelled more often than old: if that depends on outcomes, the bounds are wrong"
    assert live.status().state == "running"


def test_cancellations_behind_an_open_decision_are_replayed_in_their_place() -> None:
    """All pass the watch at once, with the last feedback: a replay counts them among the others, not before them."""
    live = sf.Live(fails(), 1)
    first, *rest = live.decide(0.0, n=1_000)
    for d in rest:
        if d.arm == "new":
            live.cancel(d.id)
        else:
            live.feedback(d.id, {"gain": 0.5, "fail": False}, 0.0)
    assert not live.status().alarms
    live.feedback(first.id, {"gain": 0.5, "fail": False}, 0.0)
    assert the_alarm(live, "cancelled").arm == "new"
    assert digest(live) == replayed(live)


def test_cancellations_that_do_not_differ_raise_none() -> None:
    """False alarm at most 1e-3."""
    live, rng = sf.Live(fails(), 1), np.random.default_rng(0)
    for _ in range(1_500):
        d = live.decide(0.0)
        if rng.random() < 0.3:
            live.cancel(d.id)
        else:
            live.feedback(d.id, {"gain": 0.5, "fail": False}, 0.0)
    assert live.status().alarms == []


def test_the_horizon_ends_learning() -> None:
    live = sf.Live(fails(horizon=300), 1)
    serve(live, 299, SAFE)
    assert live.status().state == "running"
    d = [live.decide(0.0) for _ in range(3)]
    for one in d:
        live.feedback(one.id, {"gain": 0.5, "fail": False}, 0.0)
    alarm = assert_held(live, "horizon")
    assert alarm.message == "the horizon of 300 rounds is reached: the guarantee ends here"
    assert live._fold.policy.round == 300
    assert live.status().rounds == 302
    with pytest.raises(
        sf.RuleError, match="experiment must be given, with another horizon, after the horizon is reached"
    ):
        live.resume("more")
    live.resume("more", fails(horizon=1_000))
    assert (live.status().state, live.status().epoch) == ("running", 1)
    assert live._fold.policy.round == 302
    assert digest(live) == replayed(live)


def false_alarms(rate: float, runs: int, rounds: int, every: float) -> int:
    """Alarms in runs whose baseline costs exactly this, where .1 was stated."""
    experiment, found = fails(alarm_every=every), 0
    for seed in range(runs):
        watch = watch_module.Watch(experiment, np.array([0.1]))
        failed = np.random.default_rng(seed).random(rounds) < rate
        for one in failed:
            assert watch.baseline is not None
            found += watch.baseline.see(np.array([float(one)])) >= 0
    return found


def test_false_alarms_are_as_rare_as_promised() -> None:
    """One in `alarm_every` at most, for two detectors of one guardrail: 20 runs of 2,000 rounds at 1,000 lead to 20 on
    average at most; more than 38 with probability 1e-4.
    """
    most = poisson.isf(1e-4, 20)
    assert false_alarms(0.1, 20, 2_000, 1_000.0) <= most
    assert false_alarms(0.2, 20, 2_000, 1_000.0) > most, "the control: a baseline that is worse than stated"


def test_only_the_whole_line_is_watched() -> None:
    """An arm over the limit whose share keeps the mean under it: feedback of the good arm comes late, and no alarm."""
    live = sf.Live(fails(alarm_every=1e3), 1)
    late: list[str] = []
    rng = np.random.default_rng(0)
    for i in range(1_500):
        d = live.decide(i * 0.01)
        if d.arm == "new":
            live.feedback(d.id, {"gain": 0.9, "fail": bool(rng.random() < 0.5)}, i * 0.01)
        else:
            late.append(d.id)
        if len(late) == 200:
            for id in late:
                live.feedback(id, {"gain": 0.1, "fail": bool(rng.random() < 0.05)}, i * 0.01)
            late.clear()
    assert live.status().alarms == []


# Epochs.

SPEND, ANSWERED = make().guardrails
KEPT: dict[str, dict[str, Any]] = {
    "looser": {"guardrails": [sf.AtMost("spend", 1.0, high=2.0), ANSWERED]},
    "tighter": {"guardrails": [sf.AtMost("spend", 0.2, high=2.0), ANSWERED]},
    "an arm more": {"arms": ["d", "a", "b", "c"]},
    "an arm less": {"arms": ["a", "c"]},
    "a guardrail less": {"guardrails": [ANSWERED], "baseline_costs": {"answered": 0.95}},
    "wider": {"guardrails": [sf.AtMost("spend", 0.4, low=-1.0, high=3.0), ANSWERED]},
    "another baseline": {"baseline": "b"},
    "another policy": {"policy": "colb"},
}
DROPPED: dict[str, dict[str, Any]] = {
    "narrower": {"guardrails": [sf.AtMost("spend", 0.4, high=1.0), ANSWERED]},
    "the other direction": {"guardrails": [SPEND, sf.AtMost("answered", 0.97)]},
    "a guardrail more": {
        "guardrails": [SPEND, ANSWERED, sf.AtMost("slow", 0.5)],
        "baseline_costs": {"spend": 0.1, "answered": 0.95, "slow": 0.1},
    },
    "the other goal": {"objective": sf.Minimise("quality", high=2.0)},
    "another goal": {"objective": sf.Maximise("revenue", high=2.0)},
}


def running(log: sf.Log | None = None) -> sf.Live:
    """A running experiment with 60 rounds, and two decisions that wait."""
    live = sf.Live(make(), 1, log=log)
    for _ in range(60):
        live.feedback(live.decide(0.0).id, GOOD, 0.0)
    live.decide(0.0, n=2)
    return live


@pytest.mark.parametrize("name", KEPT)
def test_what_still_means_the_same_is_kept(name: str) -> None:
    live = running()
    before = knows(live)
    after = make(**KEPT[name])
    assert live.change(after, name)
    now = knows(live)
    assert now == {arm: before.get(arm, 0) for arm in after.arms}
    assert (live.status().epoch, live.status().pending) == (1, 2)
    assert live.status().delta_spent == pytest.approx(0.1)
    # what was decided before and is reported now is learnt, too
    for i in (60, 61):
        outcome = {key: value for key, value in GOOD.items() if key in {one.name for one in after.quantities}}
        assert live.feedback(f"{live.prefix}-{i}", outcome, 0.0) == "accepted"
    for _, event in live.log.read():
        if isinstance(event, Decided) and event.number >= 60:
            before[event.arm] += 1
    assert knows(live) == {arm: before.get(arm, 0) for arm in after.arms}
    assert digest(live) == replayed(live)


@pytest.mark.parametrize("name", DROPPED)
def test_what_means_something_else_is_dropped(name: str) -> None:
    live = running()
    assert not live.change(make(**DROPPED[name]), name)
    assert set(knows(live).values()) == {0}
    live.expire(1e3)
    assert set(knows(live).values()) == {0}, "decisions of the epoch before are not learnt"
    assert live.status().pending == 0
    assert digest(live) == replayed(live)


def test_knowledge_is_dropped_on_demand_and_after_alarms() -> None:
    live = running()
    assert not live.change(make(), "a new release", keep=False)
    assert set(knows(live).values()) == {0}
    for cost in (0.0, 2.0):
        for _ in range(300):
            live.observe("a", {"spend": cost, "answered": True})
    assert live.status().state == "held"
    assert not live.change(make(), "go on")
    assert set(knows(live).values()) == {0}
    assert live.status().delta_spent == pytest.approx(0.15)


def test_a_hold_by_the_operator_outlives_a_change() -> None:
    live = running()
    live.hold("an incident")
    live.change(make(**KEPT["tighter"]), "more careful")
    assert (live.status().state, live.status().reason) == ("held", "an incident")
    assert live.decide(0.0).mode == "safe"
    assert digest(live) == replayed(live)
    live.resume("over")
    assert (live.status().state, live.status().epoch) == ("running", 1)


def test_what_was_dropped_does_not_come_back() -> None:
    live = running()
    live.change(make(), "forget", keep=False)
    for _ in range(10):
        live.feedback(live.decide(0.0).id, GOOD, 0.0)
    live.change(make(arms=["a", "b", "c", "d"]), "keep")
    assert sum(knows(live).values()) == 10


def test_a_kept_epoch_is_the_policy_that_saw_it_all() -> None:
    """The same as one policy of the new problem that is told all rounds in order."""
    live = running()
    after = make(**KEPT["looser"])
    live.change(after, "looser")
    again = sf.Live(after, 1)
    policy = again._fold.policy
    for one in rounds(live.log.read()):
        again._fold._feed(one.arm, one.propensity, one.weight, one.outcome)
    assert (policy.strategy == live._fold.policy.strategy).all()
    assert (policy.upper_costs == live._fold.policy.upper_costs).all()


@pytest.mark.parametrize("every", [3, 37])
def test_many_epochs_replay_alike_from_scratch_and_from_a_checkpoint(every: int) -> None:
    with mock.patch.object(live_module, "CHECKPOINT_EVERY", every):
        log = DurableMemory()
        live, rng = running(log), np.random.default_rng(0)
        for changes in [*KEPT.values(), *DROPPED.values(), {"baseline_costs": None}]:
            live.change(make(**changes), "next", keep=bool(rng.random() < 0.8))
            names = {one.name for one in live.experiment.quantities}
            for i in range(8):
                d = live.decide(float(i), unit=f"u{i % 3}")
                outcome = {key: value for key, value in {**GOOD, "slow": 0.0, "revenue": 1.0}.items() if key in names}
                if i % 4 == 1:
                    outcome.pop(live.experiment.objective.name)
                if i % 4 < 3:
                    live.feedback(d.id, outcome, float(i))
            saved = log.checkpoint()
            assert saved is not None
            assert saved[0] > 1
            assert digest(sf.Live.of(log)) == digest(live) == replayed(live)
        assert sum(isinstance(event, Changed) for _, event in log.read()) == 14


def test_a_unit_is_not_given_an_arm_that_was_removed() -> None:
    live = sf.Live(make(), 1)
    first = [live.decide(0.0, unit=f"u{i}") for i in range(40)]
    assert "a" in {d.arm for d in first}
    assert [live.decide(0.0, unit=f"u{i}").id for i in range(40)] == [d.id for d in first]
    live.change(make(arms=["b", "c"]), "a is dangerous")
    assert "a" not in {live.decide(0.0, unit=f"u{i}").arm for i in range(40)}


def test_a_unit_whose_decision_is_due_is_given_another() -> None:
    live = sf.Live(make(), 1)
    first = live.decide(0.0, unit="u")
    assert live.decide(9.0, unit="u") == first
    assert live.decide(10.0, unit="u").id != first.id
    assert live.feedback(first.id, GOOD, 10.0) == "late"


def test_a_change_can_complete_a_decision() -> None:
    """What was missing is not asked for any more; the next report settles it."""
    live = sf.Live(make(), 1)
    d = live.decide(0.0)
    assert live.feedback(d.id, {"quality": 1.0, "spend": 0.1}, 1.0) == "partial"
    live.change(make(guardrails=[SPEND], baseline_costs={"spend": 0.1}), "fewer")
    assert live.feedback(d.id, {"answered": True}, 2.0) == "accepted"
    assert live.status().rounds == 1
    assert digest(live) == replayed(live)


def test_a_contradiction_among_rounds_that_are_learnt_again_is_an_alarm() -> None:
    """With a larger delta they contradict each other at once; nothing that is certified with new bounds is served."""

    def made(delta: float) -> sf.Experiment:
        return sf.Experiment(
            "x", arms=["a", "base"], objective=sf.Minimise("loss"), guardrails=[sf.AtMost("cost", 0.5)],
            baseline="base", baseline_costs={"cost": 0.2}, timeout=1000.0, delta=delta,
        )  # fmt: skip

    live, rng = sf.Live(made(1e-9), seed=1), np.random.default_rng(0)
    for now, cost in enumerate(np.repeat([0.05, 0.45], [600, 165])):
        decision = live.decide(now=float(now))
        loss, cost = {"a": (0.1, cost), "base": (0.9, 0.2)}[decision.arm]
        outcome = {"loss": float(rng.random() < loss), "cost": float(rng.random() < cost)}
        live.feedback(decision.id, outcome, now=now + 0.5)
    assert not live.status().alarms
    live.change(made(0.5), "wider", keep=True)
    assert [alarm.kind for alarm in live.status().alarms] == ["contradiction"]
    assert live.status().state == "held"
    assert live.decide(now=2000.0).arm == "base"
    assert replayed(live) == digest(live)
