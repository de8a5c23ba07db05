"""How claims are judged: the tests behind the verdicts, and the trials side by side."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from surefoot.policies.rates import Motionless
from surefoot.theory import verify as of_verify
from surefoot.theory.catalogue import CLAIMS, claim, refuted_if
from surefoot.theory.claims import (
    LEVEL,
    Finding,
    Outcome,
    Verdict,
    always,
    at_most,
    both,
    most_failures,
    power,
    rarely,
    slope_within,
)
from surefoot.theory.verify import Result, attempt, runs_of, verify
from tests.theory.made import made_up


def tail(runs: int, probability: float, more_than: int) -> float:
    """The probability of more than so many failures, term by term."""
    return math.fsum(
        math.comb(runs, k) * probability**k * (1 - probability) ** (runs - k) for k in range(more_than + 1, runs + 1)
    )


# How many failures are too many

TABLE = {
    0.05: {60: 9, 100: 13, 200: 21, 500: 41},
    0.1: {60: 14, 100: 20, 200: 34},
    0.2: {60: 22, 100: 33, 200: 58},
    0.25: {100: 39, 200: 70},
}


@pytest.mark.parametrize("probability", TABLE)
def test_the_most_failures_that_leave_a_claim_standing(probability: float) -> None:
    for runs, most in TABLE[probability].items():
        assert most_failures(runs, probability) == most
    for runs in (1, 7, 25, 60, 300, 1_000):
        most = most_failures(runs, probability)
        assert tail(runs, probability, most) <= LEVEL
        assert most == 0 or tail(runs, probability, most - 1) > LEVEL
        assert power(runs, probability) == pytest.approx(tail(runs, 2 * probability, most), rel=1e-9, abs=1e-15)


def test_no_failure_can_be_twice_as_likely_as_sure() -> None:
    assert power(50, 0.7) == 1.0
    assert power(2_000, 0.05) > power(200, 0.05) > power(20, 0.05)


def outcomes(failures: int, runs: int, clean: bool = False) -> list[Outcome]:
    return [Outcome(-1.0, clean)] * failures + [Outcome(1.0)] * (runs - failures)


@pytest.mark.parametrize(("probability", "enough"), [(0.01, 299), (0.05, 59), (0.1, 29), (0.2, 14), (0.25, 11)])
def test_runs_without_failure_hold_a_claim_once_there_are_enough(probability: float, enough: int) -> None:
    assert (1 - probability) ** enough <= 0.05 < (1 - probability) ** (enough - 1)
    assert rarely(outcomes(0, enough), probability).verdict == "held"
    assert rarely(outcomes(0, enough - 1), probability).verdict == "not decided"


def test_rarely_reaches_every_verdict() -> None:
    assert tail(200, 0.05, 4) > 0.95 > tail(200, 0.05, 5)
    assert rarely(outcomes(4, 200), 0.05).verdict == "held"
    assert rarely(outcomes(5, 200), 0.05).verdict == "not decided"
    assert rarely(outcomes(21, 200), 0.05).verdict == "not decided"
    assert rarely(outcomes(22, 200), 0.05) == Finding(
        "refuted", "22 of 200 runs fail (probability at most 0.05: refuted from 22 on)"
    )
    # what may fail by chance may do so on the clean event, too; what that event implies may not
    assert rarely(outcomes(1, 200, clean=True), 0.05).verdict == "held"
    broken = [Outcome(1.0, True, -1.0), *[Outcome(1.0, True, 1.0)] * 199]
    assert rarely(broken, 0.05).verdict == "refuted"
    assert "1 of 200 clean paths, by up to 1" in rarely(broken, 0.05).figures
    assert rarely([Outcome(1.0, False, -1.0), *[Outcome(1.0, True, 1.0)] * 199], 0.05).verdict == "held"
    assert rarely([Outcome(1.0, clean=False)] * 200, 0.05).verdict == "not decided"  # the clean event was never met
    assert rarely([Outcome(0.0)] * 200, 0.05).verdict == "held"


def test_always_reaches_every_verdict() -> None:
    assert always([Outcome(0.5), Outcome(0.2), Outcome(-1.0, clean=False)]) == Finding(
        "held", "0 of 2 clean runs fail; least slack 0.2"
    )
    assert always([Outcome(0.5), Outcome(-0.3)]) == Finding("refuted", "1 of 2 clean runs fail, by up to 0.3")
    assert always([Outcome(-0.3, clean=False)]).verdict == "not decided"


def test_a_slack_that_is_no_number_is_no_evidence() -> None:
    assert always([Outcome(0.5), Outcome(math.nan)]).verdict == "refuted"
    assert rarely([Outcome(0.0, True, math.nan), *outcomes(0, 99)], 0.1).verdict == "refuted"
    assert rarely([Outcome(math.nan, clean=False)] * 30 + outcomes(0, 70), 0.1).verdict == "refuted"


# Slopes and means

PLACES = [1.0, 4.0, 16.0, 64.0]


def powers(exponents: Any) -> Any:
    return [[3.0 * place**exponent for place in PLACES] for exponent in exponents]


def test_slopes_reach_every_verdict() -> None:
    for exponents, verdict in (
        ([0.5, 0.5, 0.5], "held"),
        ([0.48, 0.5, 0.52] * 4, "held"),
        ([0.9, 0.91, 0.92] * 4, "refuted"),
        ([0.1, 0.11, 0.12] * 4, "refuted"),
        ([0.69, 0.7, 0.71] * 4, "not decided"),
        ([0.0, 1.0], "not decided"),
        ([0.5], "not decided"),  # there is no interval from one run
    ):
        assert slope_within(PLACES, powers(exponents), 0.3, 0.7, "it").verdict == verdict, exponents
    assert slope_within(PLACES, powers([0.5, 0.5]), 0.3, 0.7, "it").figures == (
        "slope of it 0.500, interval [0.500, 0.500], wanted [0.3, 0.7]"
    )
    spoilt = powers([0.5] * 10)
    spoilt[3][2] = 0.0
    assert slope_within(PLACES, spoilt, 0.3, 0.7, "it") == Finding("not decided", "it is not positive: 0")


def test_slopes_are_those_of_least_squares() -> None:
    values = np.random.default_rng(0).random((1, 4)) + 0.5
    slope, _ = np.polyfit(np.log(PLACES), np.log(values[0]), 1)
    assert f"slope of it {slope:.3f}, " in slope_within(PLACES, values, 0.3, 0.7, "it").figures


def test_a_true_slope_is_seldom_refuted_and_a_false_one_as_a_rule() -> None:
    """False alarms: 5e-4, of more than 2 refutations in 300 trials at a level of 1 in 2,000 each; seeded."""
    rng = np.random.default_rng(1)
    noise = np.exp(rng.normal(0.0, 0.3, (300, 12, 4)))
    edge = [slope_within(PLACES, powers([0.7])[0] * trial, 0.3, 0.7, "it").verdict for trial in noise]
    beyond = [slope_within(PLACES, powers([0.9])[0] * trial, 0.3, 0.7, "it").verdict for trial in noise]
    assert edge.count("refuted") <= 2
    assert beyond.count("refuted") >= 290


def test_means_reach_every_verdict() -> None:
    assert at_most([-1.0, -1.1, -0.9] * 4, "it").verdict == "held"
    assert at_most([1.0, 1.1, 0.9] * 4, "it").verdict == "refuted"
    assert at_most([-1.0, 1.0] * 6, "it").verdict == "not decided"
    assert at_most([-1.0], "it").verdict == "not decided"
    assert at_most([0.0, 0.0], "it") == Finding("held", "it: mean 0, interval [0, 0], wanted at most 0")


def test_all_of_several() -> None:
    order: tuple[Verdict, ...] = ("held", "not decided", "refuted")
    for words in itertools.product(order, repeat=3):
        found = both(*(Finding(verdict, str(n)) for n, verdict in enumerate(words)))
        assert found == Finding(max(words, key=order.index), "0; 1; 2")


# Trials side by side


def broken(mutation: Any, runs: int) -> Finding:
    raise RuntimeError("this trial cannot be")


@pytest.mark.parametrize("own", ["held", "refuted", "not decided"])
@pytest.mark.parametrize("mutated", list(itertools.product(["held", "refuted", "not decided"], repeat=2)))
def test_a_claim_is_held_only_if_every_mutation_is_refuted(own: Any, mutated: tuple[Any, Any]) -> None:
    found = {f"mutation {n}": Finding(verdict, "") for n, verdict in enumerate(mutated)}
    result = Result(made_up("mine"), 20, Finding(own, ""), found, 0.0)
    assert result.passed == [f"mutation {n}" for n, verdict in enumerate(mutated) if verdict != "refuted"]
    assert result.verdict == ("not decided" if own == "held" and result.passed else own)


def test_claims_that_are_not_in_the_catalogue_can_be_tried() -> None:
    advanced: list[int] = []
    claims = [made_up("caught", one="refuted", two="refuted"), made_up("missed", one="refuted", two="held")]
    first, second = verify(claims, workers=1, advance=advanced.append)
    assert (first.verdict, second.verdict) == ("held", "not decided")
    assert (first.passed, second.passed) == ([], ["two"])
    assert first.finding.figures == "None in [20]"
    assert first.mutations["one"].figures == "refuted in [20]"
    assert advanced == [1] * 6


def test_mutations_need_fewer_runs() -> None:
    few, many = made_up("few"), made_up("many", runs=(300, 2_000))
    assert [runs_of(few, full, None) for full in (False, True)] == [20, 800]
    assert [runs_of(few, full, "one") for full in (False, True)] == [20, 200]
    assert [runs_of(many, full, "one") for full in (False, True)] == [100, 500]


def test_rates_of_a_trial_are_not_warned_of() -> None:
    def still(mutation: Any, runs: int) -> Finding:
        warnings.warn("hardly moves", Motionless, stacklevel=2)
        return Finding("held", "")

    assert attempt(made_up("still", still), None, False)[0].verdict == "held"


def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start threads where there would be processes: the same in all that matters here, and at once."""
    monkeypatch.setattr(of_verify, "ProcessPoolExecutor", lambda workers, *_, **__: ThreadPoolExecutor(workers))


@pytest.mark.parametrize("workers", [1, 2])
def test_stop_leaves_out_the_rest(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_threads(monkeypatch)
    stop, claims, found = Event(), [made_up(f"claim {n}", one="refuted") for n in range(5)], []
    for result in verify(claims, workers=workers, stop=stop):
        found.append(result.claim.name)
        if len(found) == 2:
            stop.set()
    assert found[:2] == ["claim 0", "claim 1"]
    assert len(found) == 2 or workers == 2  # what is finished already is told
    assert list(verify(claims, workers=workers, stop=stop)) == []


def test_a_claim_is_not_told_by_half() -> None:
    stop = Event()
    assert list(verify([made_up("mine", one="refuted")], workers=1, stop=stop, advance=lambda _: stop.set())) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_trial_that_breaks_is_not_swallowed(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_threads(monkeypatch)
    with pytest.raises(RuntimeError, match="this trial cannot be"):
        list(verify([made_up("mine"), made_up("broken", broken)], workers=workers))


def test_whoever_wants_no_more_need_not_wait_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    in_threads(monkeypatch)
    tried: list[int] = []

    def slow(mutation: Any, runs: int) -> Finding:
        tried.append(runs)
        time.sleep(0.05)
        return Finding("held", "")

    results = verify([made_up(f"claim {n}", slow) for n in range(40)], workers=2)
    assert next(results).verdict == "held"
    results.close()  # type: ignore[attr-defined]
    assert len(tried) < 40


def test_two_processes_find_what_one_finds_and_in_the_same_order() -> None:
    claims = [claim("Lemma 1"), made_up("quick", one="refuted"), claim("Theorem 2, small losses")]
    one, two = (list(verify(claims, workers=workers)) for workers in (1, 2))
    assert [result._replace(seconds=0.0) for result in one] == [result._replace(seconds=0.0) for result in two]
    assert [result.claim.name for result in two] == [tried.name for tried in claims]
    assert {result.verdict for result in two} == {"held"}


# The catalogue


def test_the_catalogue_has_every_statement_of_the_paper() -> None:
    names = [tried.name for tried in CLAIMS]
    assert len(names) == len(set(names))
    wanted = [f"Lemma {n}" for n in range(1, 6)] + [f"Theorem {n}" for n in range(1, 6)] + ["Corollary", "Remark 3"]
    assert set(wanted) <= set(names)
    for tried in CLAIMS:
        assert claim(tried.name) is tried
        assert tried.mutations, tried.name
        assert tried.sentence.endswith("."), tried.name
        assert 0 < tried.runs[0] < tried.runs[1], tried.name
        for wrong in tried.mutations.values():
            assert isinstance(wrong, str) or wrong.__doc__.endswith("."), tried.name
    assert "power 0.90 (quick) and 1.00 (full)" in refuted_if(0.05, (500, 5_000))


def test_an_unknown_claim_is_refused() -> None:
    with pytest.raises(ValueError, match=r"claim must be one of Lemma 1, .*Theorem 5, .*, got 'Lemma 9'"):
        claim("Lemma 9")
