"""Why a decision got its arm: the strategy is the one it was drawn from, and every sentence is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.experiments.events import ELSEWHERE, Decided, number_in
from surefoot.service.dashboard import explain as explain_module
from surefoot.service.dashboard.explain import explain
from surefoot.service.dashboard.views import Explained
from tests.experiments.worlds import DurableMemory
from tests.service.dashboard.worlds import noted, routing, serve, usual_outcome


def explained(live: sf.Live, decision: Any, **options: Any) -> Explained:
    number = number_in(decision.id, live.prefix)
    assert number is not None
    found = explain(live.log, live.prefix, number, **options)
    assert found is not None
    assert found.id == decision.id
    return found


@pytest.fixture
def live() -> sf.Live:
    live = sf.Live(routing(), seed=1)
    serve(live, 600)
    return live


def test_no_such_decision(live: sf.Live) -> None:
    assert explain(live.log, live.prefix, 600) is None
    assert explain(live.log, live.prefix, ELSEWHERE) is None


def test_the_strategy_is_the_one_it_was_drawn_from() -> None:
    """Each decision, while feedback keeps changing the strategy."""
    live, expected, rng = sf.Live(routing(), seed=1), [], np.random.default_rng(0)
    for i in range(120):
        live.expire(now=float(i))  # as `decide` does first
        status = live.status()
        one = live.decide(now=float(i))
        expected.append((one, status.strategy, status.rounds))
        if i % 7:
            live.feedback(one.id, usual_outcome(one.arm, rng), now=float(i))
    assert len({tuple(strategy.values()) for _, strategy, _ in expected}) > 20
    for one, strategy, rounds in expected[::10] + expected[-3:]:
        found = explained(live, one)
        assert {option.name: option.share for option in found.strategy} == strategy
        assert found.snapshot == rounds
        assert (found.arm, found.propensity) == (one.arm, one.propensity)
        assert found.propensity == strategy[one.arm]
        assert not any("published" in words or "caller" in words for words in found.words)
        shares = [option.share for option in found.strategy]
        assert shares == sorted(shares, reverse=True)  # type: ignore[type-var]


def test_words_about_arms(live: sf.Live) -> None:
    one = live.decide(now=9_000.0)
    found = explained(live, one)
    words = {option.name: option.words for option in found.strategy}
    assert words["in-house"] == "the baseline, whose costs were stated or measured"
    upper = live.status().guardrails["spend"].arms["flagship"].upper
    assert words["flagship"].startswith(f"its spend may be as high as {upper:.3g} cents, over the limit of 0.4 cents")
    assert found.words[0].startswith(f"{one.arm} had a share of {100 * one.propensity:.0f} %: {words[one.arm]}")
    assert one.arm == "balanced"
    assert found.words[0] == (
        f"balanced had a share of {100 * one.propensity:.0f} %: within all limits at the upper bounds; "
        "flagship was held back by spend."
    )
    assert found.state == "waiting"
    assert found.words[-1] == "Its feedback has not arrived yet."


def test_an_arm_within_all_limits(live: sf.Live) -> None:
    serve(live, 3_000, now=5_000.0)
    words = {option.name: option.words for option in explained(live, live.decide(now=9_000.0)).strategy}
    assert words["balanced"] == "within all limits at the upper bounds"


def test_an_arm_that_is_not_wanted_is_not_held_back() -> None:
    """It is over the limit at the bounds, but the strategy is far from the limit."""
    live = sf.Live(routing(), seed=1)
    poor = {"quality": 0.0, "spend": 1.5, "answered": True}
    good = {"quality": 1.0, "spend": 0.05, "answered": True}
    serve(live, 3_000, lambda arm, rng: poor if arm == "flagship" else good)
    found = explained(live, live.decide(now=9_000.0))
    words = {option.name: option.words for option in found.strategy}
    assert "over the limit of 0.4 cents" in words["flagship"]
    assert not any("held back" in words for words in found.words)


def test_what_became_of_it(live: sf.Live) -> None:
    full = {"quality": 0.5, "spend": 0.1, "answered": True}
    accepted, parts, late, silent, cancelled, open = live.decide(now=2_000.0, n=6)
    live.feedback(accepted.id, full, now=2_001.0)
    for name, value in full.items():
        live.feedback(parts.id, {name: value}, now=2_002.0)
    live.feedback(late.id, {"quality": 0.5, "spend": 0.1}, now=2_003.0)
    live.cancel(cancelled.id, "the user left")
    half = explained(live, late)
    assert half.state == "waiting"
    assert half.words[-1] == "So far quality and spend have been reported; answered has not."
    live.expire(2_010.5)
    assert live.feedback(late.id, full, now=2_011.0) == "late"
    rounds = {one.decision: one.seq for one in live.log.rounds()}
    found = {one: explained(live, one) for one in (accepted, parts, late, silent, cancelled, open)}
    assert {one.state for one in found.values()} == {"settled by feedback", "timed out", "cancelled"}
    assert found[accepted].words[-1] == "Its feedback came in time."
    assert found[accepted].outcome == full
    assert found[parts].words[-1] == "Its feedback came in 3 parts."
    assert [at for at, _ in found[parts].reported] == [2_002.0] * 3
    assert found[late].words[-2:] == [
        "Of its feedback, answered did not come in time and counts as the worst case.",
        "Feedback that came after the time-out is kept for the record, but not learnt from.",
    ]
    assert found[late].late == [(2_011.0, full)]
    assert found[silent].words[-1] == "Its feedback did not come in time, so it counts as the worst case."
    assert found[cancelled].words[-1] == "It was cancelled, so nothing is learnt from it: the user left."
    assert found[cancelled].round is None
    for one in (accepted, parts, late, silent, open):
        assert found[one].round == rounds[number_in(one.id, live.prefix)]


def test_what_waits_behind_an_open_decision(live: sf.Live) -> None:
    choices = live.decide(now=2_000.0, n=30)
    first = next(one for one in choices if sum(other.arm == one.arm for other in choices) > 1)
    second = next(one for one in choices if one.arm == first.arm and one is not first)
    live.feedback(second.id, {"quality": 0.5, "spend": 0.1, "answered": True}, now=2_001.0)
    found = explained(live, second)
    assert (found.state, found.round) == ("settled by feedback", None)
    assert found.words[-1].startswith(f"It is not learnt yet: an earlier decision of {first.arm} is open")


def test_modes(live: sf.Live) -> None:
    live.hold("a release")
    words = explained(live, live.decide(now=2_000.0)).words
    assert (
        words[0]
        == "in-house had a share of 100 %: the baseline was served because an operator held the experiment: a release."
    )
    live.resume("go on")
    live.switch("shadow", "to look")
    one = live.decide(now=2_001.0)
    words = explained(live, one).words
    assert words[0] == (
        "in-house had a share of 100 %: the baseline was served, because in shadow mode the policy only watches. "
        f"The policy would have served {one.would}."
    )
    measuring = sf.Live(routing(baseline_costs=None), seed=1)
    serve(measuring, 12)
    words = explained(measuring, measuring.decide(now=2_000.0)).words
    assert words[0] == (
        "in-house had a share of 100 %: the baseline was served because its costs were still being measured (12 rounds "
        "by then)."
    )


def test_after_an_alarm() -> None:
    live = sf.Live(routing(), seed=1)
    now = serve(live, 1_500)
    while live.status().state == "running":
        now = serve(live, 50, lambda arm, rng: {"quality": 0.5, "answered": True, "spend": 1.5}, now=now)
    words = explained(live, live.decide(now=now)).words
    assert words[0].startswith(
        "in-house had a share of 100 %: the baseline was served because an alarm held the experiment: the mean spend"
    )
    live.hold("an incident.")
    words = explained(live, live.decide(now=now)).words
    assert words[0].startswith(
        "in-house had a share of 100 %: the baseline was served because an operator held the experiment (an incident) "
        "and so did an alarm: the mean spend"
    )


def test_some_of_the_arms(live: sf.Live) -> None:
    one = live.decide(now=2_000.0, arms=["balanced", "in-house"])
    found = explained(live, one)
    assert one.mode == "live"
    assert found.words[-2].startswith("The caller allowed only some of the arms")
    old = live.decide(now=2_000.0, snapshot=live.snapshot(now=0.0, lease=1.0))
    assert old.mode == "safe"
    assert (
        explained(live, old)
        .words[0]
        .startswith(
            "in-house had a share of 100 %: the baseline was served because the caller allowed only some of the arms"
        )
    )


def test_a_soft_policy_promises_less() -> None:
    live = sf.Live(routing(policy="colb", baseline_costs=None), seed=1)
    serve(live, 100)
    words = explained(live, live.decide(now=2_000.0)).words
    assert "This policy may exceed a limit in single rounds; its total violation grows slowly." in words
    assert not any("held back" in one for one in words)


def drawn_elsewhere(live: sf.Live, i: int, snapshot: sf.Snapshot) -> sf.experiments.live.Choice:  # type: ignore[name-defined]
    """A decision that another process draws from a snapshot."""
    arm, share = snapshot.draw(0.5)
    one = Decided(
        ELSEWHERE + i, snapshot.arms[arm], share, snapshot.weight, snapshot.mode, snapshot.epoch, 2_000.0, 2_010.0
    )
    assert live.admit([one]) == ["logged"]
    return live._choice(one)


def test_a_strategy_published_a_moment_earlier(live: sf.Live) -> None:
    old, before = live.snapshot(now=2_000.0), live.status()
    fresh = explained(live, drawn_elsewhere(live, 0, live.snapshot(now=2_000.0)))
    assert not any("earlier" in words for words in fresh.words)
    serve(live, 50, now=2_000.0)
    found = explained(live, drawn_elsewhere(live, 1, old))
    assert "It was drawn from a strategy published a moment earlier." in found.words
    assert {option.name: option.share for option in found.strategy} == before.strategy
    assert found.snapshot is not None
    assert before.rounds <= found.snapshot <= before.rounds + 50  # the same strategy may serve for some rounds
    serve(live, explain_module.LOOK_BACK, now=3_000.0)
    lost = explained(live, drawn_elsewhere(live, 2, old))
    assert "It was drawn from a strategy published earlier, which is not the one shown here." in lost.words
    live.hold("a release")
    held = live.snapshot(now=5_000.0)
    live.resume("go on")
    words = explained(live, drawn_elsewhere(live, 3, held)).words
    assert words[0].endswith("the baseline was served because an operator held the experiment: a release.")


def test_checkpoints_shorten_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sf.experiments.live, "CHECKPOINT_EVERY", 200)  # type: ignore[attr-defined]
    log = DurableMemory()
    live = sf.Live(routing(), seed=1, log=log)
    serve(live, 500)
    one = live._choice(log.decided(430)[1])  # type: ignore[index]
    full = explained(live, one)
    read: list[int] = []
    monkeypatch.setattr(log, "read", noted(log.read, read))
    assert explained(live, one, most=210) == full
    assert sorted(read)[1] >= 600  # a log in memory looks for the decision from its start
    monkeypatch.setattr(log, "_checkpoints", {})
    cut = explained(live, one, most=210)
    assert cut.strategy == ()
    assert cut.snapshot is None
    assert cut.words[1].startswith("The strategy of that moment cannot be shown")
    assert cut.round == full.round
    assert cut.state == full.state
    monkeypatch.setattr(log, "_checkpoints", {700: b"broken"})
    assert explained(live, one) == full


def test_a_change_that_keeps_what_was_learnt_counts_what_it_reads(live: sf.Live) -> None:
    """Replaying the change reads the log again: that is bounded, too."""
    live.change(routing(delta=0.02), "careful")
    one = live.decide(now=2_000.0)
    assert explained(live, one).strategy
    events = live.last
    assert explained(live, one, most=events + 10).strategy == ()


def test_from_a_file(tmp_path: Path) -> None:
    with sf.Live.open(tmp_path / "x.db", routing(), seed=1) as live:
        serve(live, 40)
        one = live.decide(now=2_000.0)
        status = live.status()
        found = explained(live, one)
        assert {option.name: option.share for option in found.strategy} == status.strategy
