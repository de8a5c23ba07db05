"""A baseline whose costs are not known is measured first, by serving it alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import surefoot as sf
from surefoot.experiments import fold as fold_module
from surefoot.experiments.events import Created, Measured, MemoryLog
from surefoot.experiments.order import rounds
from tests.experiments.worlds import digest, fails, make, replayed, serve

RATES = {"new": 0.15, "old": 0.1}


def measure(live: sf.Live, rates: dict[str, float], seed: int = 0, most: int = 5_000) -> int:
    """Serve until the state changes; returns how many decisions that took."""
    rng, n = np.random.default_rng(seed), 0
    while live._fold.state == "measuring" and n < most:
        n += 1
        d = live.decide(0.0)
        live.feedback(d.id, {"gain": 0.5, "fail": bool(rng.random() < rates[d.arm])}, 0.0)
    return n


def test_measuring_ends_when_the_margin_is_certain() -> None:
    live = sf.Live(fails(baseline_costs=None), 1)
    status = live.status()
    assert (status.state, status.strategy, status.safe_weight) == ("measuring", {"new": 0.0, "old": 1.0}, 1.0)
    modes = {live.decide(0.0).mode for _ in range(3)}
    assert modes == {"safe"}
    for one in range(3):
        live.feedback(f"{live.prefix}-{one}", {"gain": 0.5, "fail": False}, 0.0)
    n = 3 + measure(live, RATES)
    assert 30 < n < 300
    assert live.status().state == "running"
    (costs,) = [event.costs for _, event in live.log.read() if isinstance(event, Measured)]
    assert RATES["old"] < costs[0] <= 0.3 * 0.9
    assert live._fold.policy.problem.safe.costs.tolist() == list(costs)
    assert live._fold.policy.problem.delta == pytest.approx(0.05 * 0.8)
    assert live.status().guardrails["fail"].baseline is None
    assert live._fold.policy.round == n == len(list(rounds(live.log.read()))), "all rounds are learnt, the last as well"
    assert digest(live) == replayed(live)
    serve(live, 300, RATES)
    assert live.status().strategy["new"] > 0.5
    assert digest(live) == replayed(live)


def test_measuring_shows_what_is_known() -> None:
    live = sf.Live(
        make(baseline_costs=None, guardrails=[sf.AtLeast("answered", 0.5), sf.AtMost("spend", 1.0, high=2.0)]), 1
    )
    for i in range(30):
        d = live.decide(0.0)
        live.feedback(d.id, {"quality": 1.0, "answered": i % 5 > 0, "spend": 0.5}, 0.0)
    assert live.status().state == "measuring"
    answered, spend = (live.status().guardrails[name].baseline for name in ("answered", "spend"))
    assert answered is not None
    assert spend is not None
    assert answered.count == spend.count == 30
    assert answered.mean == pytest.approx(0.8)
    assert spend.mean == pytest.approx(0.5)
    assert 0.3 < answered.lower < 0.8 < answered.upper < 1.0
    assert 0.0 < spend.lower < 0.5 < spend.upper < 1.2


def test_the_margin_decides_how_long() -> None:
    taken = [measure(sf.Live(fails(baseline_costs=None, margin=margin), 1), RATES) for margin in (0.0, 0.3, 0.5)]
    assert taken[0] < taken[1] < taken[2]


def test_a_baseline_without_margin_raises_an_alarm() -> None:
    live = sf.Live(fails(baseline_costs=None), 1)
    n = measure(live, {"new": 0.1, "old": 0.6})
    assert n < 200
    status = live.status()
    assert status.state == "held"
    (alarm,) = status.alarms
    assert (alarm.kind, alarm.guardrail, alarm.holds) == ("baseline", "fail", True)
    lower = live._fold.baseline_costs()[2][0, 0]  # type: ignore[index]
    assert alarm.message == (
        f"the baseline's fail is at least {lower:.4g}, which does not leave 10% of the limit 0.3 unused: "
        "learning cannot begin"
    )
    serve(live, 50, {"new": 0.1, "old": 0.6})
    assert len(live.status().alarms) == 1
    assert live.decide(0.0).arm == "old"
    live.resume("it is repaired")
    assert (live.status().state, live.status().epoch) == ("measuring", 1)
    assert measure(live, RATES) < 300
    assert live.status().state == "running"
    assert digest(live) == replayed(live)


def test_the_alarm_speaks_natural_units() -> None:
    live = sf.Live(make(baseline_costs=None, guardrails=[sf.AtLeast("answered", 0.9)]), 1)
    for _ in range(60):
        live.feedback(live.decide(0.0).id, {"quality": 1.0, "answered": False}, 0.0)
    (alarm,) = live.status().alarms
    assert "the baseline's answered is at most 0." in alarm.message
    assert "of the limit 0.9 unused" in alarm.message


def test_feedback_that_never_comes_counts_as_the_worst() -> None:
    live = sf.Live(fails(baseline_costs=None), 1)
    for i in range(200):
        d = live.decide(float(i))
        if i % 2:
            live.feedback(d.id, {"gain": 0.5, "fail": False}, float(i))
    live.expire(1e3)
    assert live.status().state == "held"
    assert "baseline" in {alarm.kind for alarm in live.status().alarms}


def test_a_baseline_of_several_arms_is_measured_as_one() -> None:
    """One arm alone is over the limit; half of it is not."""
    rates = {"new": 0.35, "old": 0.0}
    live = sf.Live(fails(baseline_costs=None, baseline={"new": 0.5, "old": 0.5}), 1)
    assert measure(live, rates) < 1_000
    assert live.status().state == "running"
    assert 0.17 < live._fold.measured[0] <= 0.27  # type: ignore[index]


def test_measuring_goes_on_while_held_and_in_shadow() -> None:
    live = sf.Live(fails(baseline_costs=None), 1, mode="shadow")
    live.hold("wait")
    rng = np.random.default_rng(0)
    for _ in range(300):
        live.feedback(live.decide(0.0).id, {"gain": 0.5, "fail": bool(rng.random() < 0.05)}, 0.0)
    assert live.status().state == "held"
    live.resume("go")
    assert live.status().state == "running"
    d = live.decide(0.0)
    assert (d.mode, d.arm) == ("shadow", "old")
    assert d.would in ("new", "old")


RUNS = 150


def wrong_bounds(monkeypatch: pytest.MonkeyPatch, share: float) -> int:
    """In how many runs the measured bound is below the truth, which leaves too little margin."""
    monkeypatch.setattr(fold_module, "MEASURING_SHARE", share)
    found, experiment = 0, fails(baseline_costs=None, delta=0.1, margin=0.0)
    for seed in range(RUNS):
        live = sf.Live(experiment, seed)
        n = measure(live, {"new": 0.1, "old": 0.301}, seed, most=200)
        found += n < 200 and live._fold.state == "running"
    return found


def test_measured_bounds_hold_with_their_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound fails with probability delta / 5 = 0.02 at most: more than 11 of 150 runs with probability 1e-4."""
    assert wrong_bounds(monkeypatch, 0.2) <= binom.isf(1e-4, RUNS, 0.02)


def test_bounds_that_spend_too_much_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: about 25 times as much delta."""
    assert wrong_bounds(monkeypatch, 4.9) > binom.isf(1e-4, RUNS, 0.02)


# Changes of a measured experiment.


def measured(**changes: object) -> sf.Live:
    live = sf.Live(make(**{**LOOSE, **changes}), 1)
    for _ in range(200):
        live.feedback(live.decide(0.0).id, {"quality": 1.0, "spend": 0.1, "answered": True}, 0.0)
    assert live.status().state == "running"
    return live


SPEND, ANSWERED = sf.AtMost("spend", 1.6, high=2.0), sf.AtLeast("answered", 0.3)
LOOSE = {"baseline_costs": None, "guardrails": [SPEND, ANSWERED], "margin": 0.0, "delta": 0.5}


def test_measured_costs_are_kept_by_name_and_in_natural_units() -> None:
    live = measured()
    bounds = dict(zip(("spend", "answered"), live._fold.measured or ()))
    cases: dict[str, list[sf.AtMost | sf.AtLeast]] = {
        "turned round": [ANSWERED, SPEND],
        "wider": [sf.AtMost("spend", 1.6, low=-8.0, high=4.0), ANSWERED],
        "fewer": [ANSWERED],
    }
    for name, guardrails in cases.items():
        assert live.change(make(**{**LOOSE, "guardrails": guardrails}), name)
        assert live.status().state == "running", name
        costs = live._fold.policy.problem.safe.costs
        for guardrail, cost in zip(guardrails, costs):
            before = SPEND if guardrail.name == "spend" else ANSWERED
            assert guardrail.value(cost) == pytest.approx(before.value(bounds[guardrail.name])), name
        assert digest(live) == replayed(live)
        assert live.change(make(**LOOSE), "back") == (name != "wider" and name != "fewer")
        live = measured()


@pytest.mark.parametrize(
    "change",
    [
        {"guardrails": [sf.AtMost("spend", 0.2, high=2.0), ANSWERED]},
        {"margin": 0.95},
        {"baseline": "b"},
        {"baseline": {"b": 0.5, "c": 0.5}},
    ],
)
def test_measured_costs_without_margin_are_measured_again(change: dict[str, object]) -> None:
    live = measured()
    assert live.change(make(**{**LOOSE, **change}), "tighter")
    assert live.status().state == "measuring"
    assert live.decide(0.0).mode == "safe"
    assert digest(live) == replayed(live)


def test_options_of_the_policy_are_checked_before_the_baseline_is_measured() -> None:
    """At the door, for a new experiment and for a change; a log that already has them is read as before."""
    wrong = fails(baseline_costs=None, options={"preset": "leed"})
    with pytest.raises(sf.RuleError, match="preset must be"):
        sf.Live(wrong, 1)
    live = sf.Live(fails(baseline_costs=None), 1)
    before = digest(live)
    with pytest.raises(sf.RuleError, match="preset must be"):
        live.change(wrong, "wrong")
    assert digest(live) == before
    fold = fold_module.Fold(MemoryLog())
    fold.apply(Created(wrong.to_dict(), "00", False, {}))
    assert fold.state == "measuring"
