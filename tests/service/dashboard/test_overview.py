"""What the pages say of experiments that go well, drift, lose feedback, stand still, or have a thousand arms."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.service.dashboard import overview
from surefoot.service.dashboard.overview import MOST_SHARES
from surefoot.service.dashboard.verdict import Known, verdict
from surefoot.service.dashboard.views import OTHERS, Epoch, Rail
from surefoot.service.learning import status_of
from tests.service.dashboard.worlds import QUALITY, history_of, marks_of, routing, serve, shown, usual_outcome


def test_zero_rounds() -> None:
    page = shown(sf.Live(routing(), seed=1))
    one = page.summary
    assert (one.state, one.rounds, one.mean, one.better, one.baseline_mean) == ("running", 0, None, None, None)
    assert (one.verdict, one.tone) == ("Ready: no feedback has come in this epoch yet.", "wait")
    assert [(rail.served, rail.recent, rail.kept) for rail in one.rails] == [(None, None, True)] * 2
    assert page.course.rounds == page.course.at == []
    assert page.epochs == [Epoch(0, None, None, False, 0.05, 0)]
    assert [item.level for item in page.watch] == [0.0] * 4


@pytest.fixture(scope="module")
def well() -> sf.Live:
    live = sf.Live(routing(), seed=1)
    serve(live, 4_000)
    return live


def test_an_experiment_that_goes_well(well: sf.Live) -> None:
    page = shown(well)
    one, rounds = page.summary, list(well.log.rounds())
    assert one.tone == "good"
    assert one.verdict.startswith("Both guardrails hold; ")
    assert "better than the baseline" in one.verdict
    assert one.baseline_mean == pytest.approx(QUALITY["in-house"], abs=0.02)
    assert one.mean == pytest.approx(1.0 - np.mean([each.loss or 0.0 for each in rounds]))
    assert one.mean is not None
    assert one.baseline_mean is not None
    assert one.better == pytest.approx(one.mean / one.baseline_mean - 1.0)
    spend, answered = one.rails
    assert spend.served == pytest.approx(2.0 * np.mean([each.costs["spend"] for each in rounds]))
    assert answered.served == pytest.approx(1.0 - np.mean([each.costs["answered"] for each in rounds]))
    assert spend.recent == pytest.approx(2.0 * np.mean([each.costs["spend"] for each in rounds[-500:]]), rel=0.05)
    bounds = [each.bound for each in one.rails if each.bound is not None]
    served = [each.served for each in one.rails if each.served is not None]
    assert served[0] < bounds[0] <= spend.limit + 1e-9
    assert served[1] > bounds[1] >= answered.limit - 1e-9
    assert [arm.share for arm in spend.arms] == sorted((arm.share for arm in spend.arms), reverse=True)
    assert sum(arm.share for arm in spend.arms) == pytest.approx(1.0)
    course = page.course
    assert course.rounds[-1] == 4_000
    assert set(course.shares) == set(QUALITY)
    assert np.allclose(np.sum(list(course.shares.values()), axis=0), 1.0)
    assert course.safe_weight[0] == pytest.approx(1.0, abs=0.2)
    assert course.safe_weight[-1] == pytest.approx(one.safe_weight, abs=0.02)
    assert set(course.limits["spend"]) == {0.4}
    slow = {item.arm: (item.median, item.slow) for item in page.waiting}
    assert slow["balanced"] == (0.5, 0.5)
    assert sum(item.settled for item in page.waiting) == 4_000
    assert all(0.0 <= item.level < 0.9 for item in page.watch)
    assert page.epochs[0].rounds == 4_000
    assert page.epochs[0].since == 1_000.0


def test_the_bound_is_what_the_engine_certifies(well: sf.Live) -> None:
    fold, status = well._fold, well.status()
    strategy = np.array(list(status.strategy.values()))
    assert fold.certifies(strategy)
    only = np.array([1.0, 0.0, 0.0])
    assert not fold.certifies(only)
    worst = fold.worst_costs(only)
    assert worst[0] == pytest.approx(min(1.0, fold.policy.upper_costs[0, 0]))
    spend = status.guardrails["spend"].bound
    assert spend == pytest.approx(2.0 * fold.worst_costs(strategy)[0])


def test_a_comparison_needs_enough_of_the_baseline() -> None:
    live = sf.Live(routing(), seed=1)
    serve(live, overview.ENOUGH - 1)
    before = shown(live).summary
    assert before.mean is not None
    assert (before.baseline_mean, before.better) == (None, None)
    assert "too early to compare" in before.verdict
    serve(live, 40)
    assert shown(live).summary.baseline_mean is not None


def test_noise_is_not_called_a_difference() -> None:
    live = sf.Live(routing(), seed=1)
    serve(live, 300, lambda arm, rng: {**usual_outcome(arm, rng), "quality": float(rng.random())})
    assert "no clear difference from the baseline" in shown(live).summary.verdict


def test_a_drift_to_an_alarm_and_a_new_epoch() -> None:
    live = sf.Live(routing(), seed=1)
    now = serve(live, 1_500)
    bad = {"quality": 0.5, "answered": True}
    while live.status().state == "running":
        now = serve(live, 50, lambda arm, rng: {**bad, "spend": 0.08 if arm == "in-house" else 1.5}, now=now)
    now = serve(live, 20, lambda arm, rng: {**bad, "spend": 0.08}, now=now)
    page = shown(live)
    one = page.summary
    assert (one.state, one.tone) == ("held", "bad")
    assert one.alarms[0]["holds"]
    assert one.alarms[-1]["kind"] == "served"
    assert one.verdict == (
        "Held since an alarm: spend was above its limit of 0.4 cents. Find out what changed, then resume: this begins "
        "a new epoch."
    )
    assert [rail.alarm for rail in one.rails] == [True, False]
    live.hold("an incident")
    assert shown(live).summary.verdict == f"{one.verdict} An operator holds it as well: an incident."
    assert ("served", "spend", 1.0) in [(item.what, item.guardrail, item.level) for item in page.watch]
    live.resume("fixed")
    again = shown(live)
    assert again.summary.epoch == 1
    assert again.summary.alarms == []
    assert [alarm["epoch"] for alarm in again.alarms] == [0] * len(page.alarms)
    assert again.summary.rails[0].served is None
    serve(live, 100, now=now)
    after = shown(live)
    assert [(item.number, item.reason, item.kept) for item in after.epochs] == [(0, None, False), (1, "fixed", False)]
    assert after.epochs[1].since == now
    assert after.delta_spent == pytest.approx(0.1)
    assert after.course.epochs[-1] == 1
    new = [each.costs["spend"] for each in live.log.rounds() if each.epoch == 1]
    assert after.summary.rails[0].served == pytest.approx(2.0 * np.mean(new))


def test_half_of_the_feedback_is_lost() -> None:
    live = sf.Live(routing(), seed=1)
    now = serve(live, 800, lambda arm, rng: usual_outcome(arm, rng) if rng.random() < 0.5 else None)
    live.expire(now + 20.0)
    page = shown(live)
    assert page.summary.tone == "bad"
    assert page.summary.verdict == (
        "Half of the feedback is lost, so bounds stay wide and little is learnt. Repair the feedback."
    )
    lost = {item.arm: item.lost for item in page.waiting}
    assert lost["in-house"] == pytest.approx(0.5, abs=0.1)
    assert np.average(page.course.lost, weights=np.diff([0, *page.course.rounds])) == pytest.approx(0.5, abs=0.05)
    fed = [each.loss or 0.0 for each in live.log.rounds() if each.source == "feedback"]
    assert page.summary.mean == pytest.approx(1.0 - np.mean(fed))
    assert page.summary.rails[0].served is not None
    assert page.summary.rails[0].served > 0.9  # a time-out counts as the worst case


def test_one_open_decision_holds_the_others_of_its_arm_back() -> None:
    live = sf.Live(routing(timeout=1e4), seed=1)
    first = live.decide(0.0)
    now = serve(live, 400)
    status = live.status()
    assert status.behind[first.arm] > 100
    assert sum(status.behind.values()) + status.rounds + status.pending == status.decisions
    page = shown(live)
    assert page.summary.tone == "wait"
    assert page.summary.verdict.startswith(
        f"{status.behind[first.arm]} reported decisions on {first.arm} are not learnt"
    )
    assert {item.arm: item.behind for item in page.waiting} == status.behind
    live.expire(now + 1e4)
    assert set(live.status().behind.values()) == {0}
    times = shown(live).course.at  # the rounds that were held back were decided before those that were not
    assert times == sorted(times)
    assert times != [one.at for one in history_of(live).buckets]  # the control: each for itself, they are not in order
    assert shown(live).summary.tone == "good"


def test_held_stopped_shadow_measuring() -> None:
    live = sf.Live(routing(), seed=1)
    serve(live, 10)
    live.hold("a release")
    one = shown(live).summary
    assert one.verdict == "Held by an operator: a release. The baseline is served until somebody resumes."
    assert one.tone == "wait"
    live.stop("enough was learnt!")
    assert (shown(live).summary.verdict, shown(live).summary.tone) == ("Stopped: enough was learnt!", "off")
    shadow = sf.Live(routing(), seed=1, mode="shadow")
    serve(shadow, 10)
    assert shown(shadow).summary.verdict.startswith("Shadow mode: the baseline is served")
    measuring = sf.Live(routing(baseline_costs=None), seed=1)
    serve(measuring, 12)
    page = shown(measuring).summary
    assert page.verdict == "Measuring the baseline: 12 rounds so far; nothing else is served yet."
    measured = [one.baseline for one in measuring.status().guardrails.values()]
    assert measured[0] is not None
    assert measured[1] is not None
    assert (page.rails[0].bound, page.rails[1].bound) == (measured[0].upper, measured[1].lower)


def test_a_soft_policy_is_not_said_to_hold() -> None:
    live = sf.Live(routing(policy="colb", baseline_costs=None), seed=1)
    serve(live, 600)
    one = shown(live).summary
    assert "hold" not in one.verdict
    assert "on average" in one.verdict.lower()
    assert [item.what for item in shown(live).watch] == []


def test_no_guardrails() -> None:
    live = sf.Live(routing(arms=["balanced", "in-house"], guardrails=[], baseline_costs=None), seed=1)
    serve(live, 500, lambda arm, rng: {"quality": usual_outcome(arm, rng)["quality"]})
    one = shown(live).summary
    assert one.rails == []
    assert one.verdict.startswith("No guardrails are set; ")


def test_minimising_is_better_when_it_is_less() -> None:
    live = sf.Live(routing(objective=sf.Minimise("minutes", high=60.0)), seed=1)

    def outcome(arm: str, rng: np.random.Generator) -> dict[str, float]:
        found = usual_outcome(arm, rng)
        return {"minutes": 60.0 * (1.0 - found.pop("quality")), **found}

    serve(live, 3_000, outcome)
    one = shown(live).summary
    assert one.baseline_mean == pytest.approx(30.0, abs=1.0)
    assert one.mean is not None
    assert one.mean < 28.0
    assert one.better is not None
    assert one.better > 0.05


@pytest.mark.parametrize(("n_arms", "n_guardrails"), [(50, 8), (1_000, 2)])
def test_many_arms_and_guardrails(n_arms: int, n_guardrails: int) -> None:
    arms = [f"arm {i}" for i in range(n_arms)]
    rails = [sf.AtMost(f"cost {i}", 0.3) for i in range(n_guardrails)]
    live = sf.Live(
        routing(
            arms=arms, guardrails=rails, baseline="arm 0",
            baseline_costs={rail.name: 0.1 for rail in rails}, timeout=1e6,
        ),
        seed=1,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    items = [(one.id, {"quality": 0.5, **{rail.name: float(rng.random() < 0.1) for rail in rails}})
             for one in live.decide(now=0.0, n=1_500)]  # fmt: skip
    live.feedback_many(items, now=1.0)
    history, marks = history_of(live), marks_of(live)
    started = time.perf_counter()
    page = overview.detail(status_of(live), history, marks)
    assert time.perf_counter() - started < 1.0
    assert len(page.summary.rails) == n_guardrails
    assert len(page.summary.rails[0].arms) == n_arms
    assert len(page.course.shares) <= MOST_SHARES + 1
    assert OTHERS in page.course.shares
    assert np.allclose(np.sum(list(page.course.shares.values()), axis=0), 1.0)
    assert len(page.waiting) == n_arms
    assert len(overview.summary(status_of(live), history, marks, most_arms=5).rails[0].arms) == 5


def test_guardrails_and_objectives_of_earlier_epochs() -> None:
    live = sf.Live(routing(), seed=1)
    serve(live, 40)
    more = routing(
        objective=sf.Maximise("clicks"),
        guardrails=[sf.AtMost("spend", 0.3, high=2.0, unit="cents"), sf.AtMost("errors", 0.2)],
        baseline_costs={"spend": 0.1, "errors": 0.01},
    )
    live.change(more, "clicks now")
    serve(live, 40, lambda arm, rng: {"clicks": 0.5, "spend": 0.1, "errors": 0.0})
    course = shown(live).course
    first, last = course.epochs.index(0), course.epochs.index(1)
    assert set(course.costs) == {"spend", "errors"}
    assert (course.limits["spend"][first], course.limits["spend"][last]) == (0.4, 0.3)
    assert (course.costs["errors"][first], course.limits["errors"][first]) == (None, None)
    assert course.costs["errors"][last] == 0.0
    assert (course.objective[first], course.objective[last]) == (None, 0.5)


# The words.


def rail(**changes: Any) -> Rail:
    usual: dict[str, Any] = {
        "name": "spend", "unit": "cents", "at_most": True, "limit": 0.4, "low": 0.0, "high": 2.0, "served": 0.3,
             "recent": 0.3, "bound": 0.4, "arms": (), "kept": True,
    }  # fmt: skip
    return Rail(**{**usual, **changes})


def known(**changes: Any) -> Known:
    usual: dict[str, Any] = {
        "state": "running", "reason": None, "shadow": False, "rounds": 1_000, "hard": True, "rails": [rail()] * 3,
             "alarms": [], "better": 0.18, "clear": True, "safe_weight": 0.06, "lost": {}, "lost_share": 0.0,
    }  # fmt: skip
    return Known(**{**usual, **changes})


def alarm(kind: str, guardrail: str | None = None, message: str = "what it says", **changes: Any) -> dict[str, Any]:
    return {"kind": kind, "guardrail": guardrail, "arm": None, "round": 9, "message": message, "holds": True, **changes}


@pytest.mark.parametrize(
    ("given", "said", "tone"),
    [
        (known(), "All 3 guardrails hold; 18 % better than the baseline; still 6 % cautious.", "good"),
        (
            known(fresh=False),
            "No process is learning it: deciders serve the baseline, and nothing is logged. The figures are the last "
            "that are known. Start a learner.",
            "bad",
        ),
        (
            known(behind={"a": 1_234, "b": 2}, settled={"a": 500, "b": 9_000}),
            "1,234 reported decisions on a are not learnt yet: an older one waits for feedback. They are learnt when "
            "it comes or times out.",
            "wait",
        ),
        (
            known(behind={"a": 300}, settled={"a": 4_000}),
            "All 3 guardrails hold; 18 % better than the baseline; still 6 % cautious.",
            "good",
        ),
        (known(better=math.inf), "All 3 guardrails hold; better than the baseline; still 6 % cautious.", "good"),
        (
            known(rails=[rail(bound=0.41)], lost_share=0.5),
            "At its bounds, the strategy may break the limit on spend. Hold it, and find out why.",
            "bad",
        ),
        (known(safe_weight=0.001), "All 3 guardrails hold; 18 % better than the baseline.", "good"),
        (
            known(safe_weight=1.0, better=None),
            "All 3 guardrails hold; too early to compare it with the baseline; only the baseline is served until more "
            "is known.",
            "wait",
        ),
        (known(better=-0.04), "All 3 guardrails hold; 4 % worse than the baseline; still 6 % cautious.", "good"),
        (
            known(state="held", reason="x", alarms=[alarm("served", "answered", message="x")],
                  rails=[rail(name="answered", at_most=False, unit=None, limit=0.9, recent=0.8)]),
            "Held since an alarm: answered is below its limit of 0.9, lately 0.8. Find out what changed, then resume: "
            "this begins a new epoch.",
            "bad",
        ),
        (
            known(state="held", reason="x", alarms=[alarm("served", "spend", message="x")], rails=[rail(recent=0.1)]),
            "Held since an alarm: spend was above its limit of 0.4 cents. Find out what changed, then resume: this "
            "begins a new epoch.",
            "bad",
        ),
        (
            known(state="held", reason="x", alarms=[alarm("baseline", "spend"), alarm("served", "spend", message="x")],
                  rails=[rail(recent=0.5)]),
            "Held since an alarm: spend is above its limit of 0.4 cents, lately 0.5 cents. The baseline, which "
            "is served now, is above it too: find out at once what changed.",
            "bad",
        ),
        (
            known(state="held", reason="x", alarms=[alarm("baseline", "spend", message="x")], rails=[rail()]),
            "Held since an alarm: x. Find out what changed, or begin a new epoch with its true costs.",
            "bad",
        ),
        (
            known(state="held", reason="x", lost_lately=0.48, alarms=[alarm("served", "spend", message="x")],
                  rails=[rail(recent=0.9)]),
            "Held since an alarm: half of the feedback is lost and counts as the worst case, which puts spend above "
            "its limit. Repair the feedback, then resume: this begins a new epoch.",
            "bad",
        ),
        (
            known(state="held", reason="x", lost_share=0.3, alarms=[alarm("contradiction", message="x")]),
            "Held since an alarm: 30 % of the feedback was lost and counts as the worst case. Feedback comes again, so "
            "you can resume: this begins a new epoch.",
            "bad",
        ),
        (
            known(lost_share=0.3),
            "30 % of the feedback in this epoch was lost, so bounds are still wide. Lately it comes again.",
            "wait",
        ),
        (
            known(state="held", reason="x", alarms=[alarm("infeasible", message="no mixture of the arms can keep all "
                                                          "limits")]),
            "Held since an alarm: no mixture of the arms can keep all limits. Loosen a limit, or change the arms. An "
            "operator holds it as well: x.",
            "bad",
        ),
        (
            known(state="held", reason="the horizon is reached",
                  alarms=[alarm("horizon", message="the horizon is reached")]),
            "Held since an alarm: the horizon is reached. Begin a new epoch with another horizon, or stop.",
            "bad",
        ),
        (
            known(state="held", reason="lunch", alarms=[alarm("lost", holds=False)]),
            "Held by an operator: lunch. The baseline is served until somebody resumes.",
            "wait",
        ),
        (
            known(rails=[rail(kept=False, served=0.41)]),
            "So far spend is on the wrong side of the limit, which may be chance: there is no alarm. Look at the "
            "guardrails.",
            "wait",
        ),
        (
            known(hard=False, rails=[rail(kept=False, served=0.43, bound=0.6)]),
            "On average spend was 0.43 cents, above its limit of 0.4 cents. This policy may exceed a limit while it "
            "learns.",
            "wait",
        ),
        (
            known(hard=False, rails=[rail(bound=0.6)]),
            "The guardrail was kept on average; 18 % better than the baseline; still 6 % cautious.",
            "good",
        ),
        (
            known(rails=[rail(bound=0.41)]),
            "At its bounds, the strategy may break the limit on spend. Hold it, and find out why.",
            "bad",
        ),
        (
            known(lost={"fast": 0.23}, lost_share=0.05, alarms=[alarm("lost", arm="fast", holds=False)]),
            "23 % of the feedback on fast is lost, so its bounds stay wide. Repair the feedback.",
            "bad",
        ),
    ],
)  # fmt: skip
def test_verdicts(given: Known, said: str, tone: str) -> None:
    assert verdict(given) == (said, tone)
