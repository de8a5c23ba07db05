"""The model of feedback: what happens to the feedback of a round, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot as sf
from surefoot.environments.feedback import DRAWS, LOST
from surefoot.kernels.types import Integers
from tests.environments.chance import ALARM

GOOD, BAD, DELAY, COPIES = 0, 1, 0, 1
ROUNDS = 40_000


def fates(feedback: sf.Feedback, rounds: int = ROUNDS) -> Integers:
    return feedback.fates(np.random.default_rng(1).random((rounds, DRAWS)))


def test_by_default_feedback_comes_at_once() -> None:
    feedback = sf.Feedback()
    assert (fates(feedback) == [[0, 1], [0, 1]]).all()
    assert (feedback.timeout, feedback.level, feedback.handling) == (0, 0.5, "live")


def test_parts_differ_from_the_rest_where_they_say_so() -> None:
    feedback = sf.Feedback(delay=3, repeated=2, bad={"delay": 5}, good={"repeated": 0})
    assert (fates(feedback) == [[3, 1], [5, 3]]).all()
    assert feedback.timeout == 5


# False-alarm rate of each of these: ALARM. The controls, off by a fifth of the value, are caught.


def fits(delays: Any, law: Any, cells: int) -> bool:
    """A chi-squared test of delays against a distribution of whole numbers, the last cell for all that are longer."""
    seen = np.bincount(np.minimum(delays, cells), minlength=cells + 1)
    expected = len(delays) * np.append(law.pmf(np.arange(cells)), law.sf(cells - 1))
    return bool(stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue > ALARM)


def test_delays_are_uniform() -> None:
    delays = fates(sf.Feedback(delay={"uniform": [2, 11]}))[:, GOOD, DELAY]
    assert (delays.min(), delays.max()) == (2, 11)
    assert fits(delays - 2, stats.randint(0, 10), 9)
    assert not fits(delays - 2, stats.randint(0, 12), 11)


def test_delays_are_geometric() -> None:
    delays = fates(sf.Feedback(delay={"geometric": 20.0}, timeout=9))[:, GOOD, DELAY]
    assert delays.min() == 0
    for mean, right in ((20.0, True), (16.0, False), (24.0, False)):
        assert fits(delays, stats.geom(1 / (1 + mean), loc=-1), 60) is right


@pytest.mark.parametrize(("part", "other"), [("bad", GOOD), ("good", BAD)])
def test_feedback_is_lost_with_its_probability(part: str, other: int) -> None:
    made: Any = {part: {"lost": 0.4}}
    gone = fates(sf.Feedback(**made, timeout=9))[:, :, DELAY] == LOST
    assert not gone[:, other].any()
    count = int(gone[:, 1 - other].sum())
    assert stats.binomtest(count, ROUNDS, 0.4).pvalue > ALARM
    assert stats.binomtest(count, ROUNDS, 0.32).pvalue < ALARM


def test_feedback_is_repeated_as_often_as_it_says() -> None:
    copies = fates(sf.Feedback(repeated=2.3))[:, GOOD, COPIES]
    assert set(copies) == {3, 4}
    assert stats.binomtest(int((copies == 4).sum()), ROUNDS, 0.3).pvalue > ALARM
    assert stats.binomtest(int((copies == 4).sum()), ROUNDS, 0.24).pvalue < ALARM
    assert (fates(sf.Feedback(repeated=4))[:, :, COPIES] == 5).all()


def test_delay_loss_and_repeats_are_independent() -> None:
    # each of three pairs at ALARM, by chi-squared tests of 2 x 2 tables; the control is what goes together
    drawn = fates(sf.Feedback({"uniform": [0, 9]}, 0.5, 0.5, bad={"lost": 0.0}, timeout=9))
    late, gone, again = drawn[:, BAD, DELAY] >= 5, drawn[:, GOOD, DELAY] == LOST, drawn[:, BAD, COPIES] == 2

    def p_value(one: Any, two: Any) -> float:
        table = [[int((one & two).sum()), int((one & ~two).sum())], [int((~one & two).sum()), int((~one & ~two).sum())]]
        return float(stats.chi2_contingency(table).pvalue)

    for one, two in ((late, gone), (late, again), (gone, again)):
        assert p_value(one, two) > ALARM
    assert p_value(late, drawn[:, BAD, DELAY] >= 6) < ALARM


def test_one_thing_does_not_change_the_draws_of_another() -> None:
    plain, late = sf.Feedback(lost=0.3, timeout=5), sf.Feedback(3, lost=0.3, repeated=1.5, timeout=5)
    assert ((fates(plain)[:, :, DELAY] == LOST) == (fates(late)[:, :, DELAY] == LOST)).all()


@pytest.mark.parametrize(
    "feedback",
    [
        sf.Feedback(),
        sf.Feedback(100, 0.25, 1.5, timeout=7),
        sf.Feedback({"uniform": [0, 40]}, bad={"delay": {"geometric": 20}, "lost": 0.4}, level=0.1, timeout=200),
        sf.Feedback(handling="arrival", good={"repeated": 3}),
    ],
)
def test_a_dictionary_makes_the_same_again(feedback: sf.Feedback) -> None:
    data = json.loads(json.dumps(feedback.to_dict()))
    assert sf.Feedback.from_dict(data) == feedback
    assert hash(sf.Feedback.from_dict(data)) == hash(feedback)
    assert sf.Feedback.from_dict(data).to_dict() == feedback.to_dict()
    assert feedback != sf.Feedback(77)


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert sf.Feedback(1e2, timeout=2e2) == sf.Feedback(100, timeout=200)  # type: ignore[arg-type]


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError):
        sf.Feedback().timeout = 3  # type: ignore[misc]


KEYS = "delay, lost, repeated"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay must be a whole number in [0, 1e+06], {'uniform': [low, high]} or {'geometric': mean}, "
         "got -1"),
        ({"delay": 2.5}, "delay must be a whole number in"),
        ({"delay": True}, "delay must be a whole number in"),
        ({"delay": None}, "delay must be a whole number in"),
        ({"delay": {"normal": 3}}, "delay must be a whole number in"),
        ({"delay": {}}, "delay must be a whole number in"),
        ({"delay": {"uniform": [0, 5], "geometric": 3}}, "delay must be a whole number in"),
        ({"delay": {"uniform": [5, 4]}}, "delay.uniform must have a low end that is not above the high end, got [5, "),
        ({"delay": {"uniform": 5}}, "delay.uniform must be an array of shape 2"),
        ({"delay": {"uniform": [0, 1.5]}}, "delay.uniform[1] must be a whole number in [0, 1e+06], got 1.5"),
        ({"delay": {"geometric": 0}, "timeout": 3}, "delay.geometric must be in (0, 1e+06], got 0"),
        ({"lost": 1.5, "timeout": 3}, "lost must be in [0, 1], got 1.5"),
        ({"lost": math.nan, "timeout": 3}, "lost must be in [0, 1], got nan"),
        ({"repeated": -1}, "repeated must be in [0, 1000], got -1"),
        ({"bad": {"lost": 2}, "timeout": 3}, "bad.lost must be in [0, 1], got 2"),
        ({"good": {"delay": "soon"}}, "good.delay must be a whole number in"),
        ({"bad": {"lots": 0.5}}, f"bad must have keys among {KEYS}, got 'lots'"),
        ({"bad": 0.5}, f"bad must have keys among {KEYS}, got 0.5"),
        ({"level": 2}, "level must be in [0, 1], got 2"),
        ({"timeout": -1}, "timeout must be a whole number in [0, 1e+06], got -1"),
        ({"timeout": 1e7}, "timeout must be a whole number in [0, 1e+06], got 10000000.0"),
        ({"handling": "naive"}, "handling must be 'live' or 'arrival', got 'naive'"),
        ({"lost": 0.1}, "timeout must be given where feedback may be lost or delays have no limit, got None"),
        ({"bad": {"lost": 0.1}}, "timeout must be given where"),
        ({"delay": {"geometric": 3}}, "timeout must be given where"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.RuleError) as error:
        sf.Feedback(**options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("data", [{"late": 3}, [3], None])
def test_dictionaries_with_other_keys_are_refused(data: Any) -> None:
    with pytest.raises(sf.RuleError, match=r"^feedback must have keys among delay, lost, .*, handling, got"):
        sf.Feedback.from_dict(data)


@pytest.mark.parametrize("feedback", [3, {"delay": 3}, sf.Feedback, "late"])
def test_a_scenario_takes_nothing_else(feedback: Any) -> None:
    plain = sf.scenarios.make("stochastic-v1")
    with pytest.raises(sf.RuleError, match=r"^feedback must be a Feedback, got"):
        sf.Scenario(**{**vars(plain), "feedback": feedback})
