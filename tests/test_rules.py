"""What checks all input: ranges, arrays, and the error with one sentence."""

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from surefoot import rules
from surefoot.rules import OUTCOME, POSITIVE, REAL, SHARE, WHOLE, Range, RuleError


def test_an_error_is_one_sentence_and_its_parts_can_be_read() -> None:
    error = RuleError("thresholds[1]", "be in [0, 1]", 1.3)
    assert str(error) == "thresholds[1] must be in [0, 1], got 1.3"
    assert (error.argument, error.rule, error.value) == ("thresholds[1]", "be in [0, 1]", 1.3)
    assert isinstance(error, ValueError)
    assert str(RuleError("strategy", "sum to 1", [0.2], "a sum of 0.2")) == "strategy must sum to 1, got a sum of 0.2"


@pytest.mark.parametrize("received", [None, "a sum of 5"])
def test_an_error_survives_pickling(received: str | None) -> None:
    error = RuleError("costs", "sum to 1", [2, 3], received)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is RuleError
    assert str(again) == str(error)
    assert (again.argument, again.rule, again.value) == (error.argument, error.rule, error.value)


def test_the_sentence_shows_the_value_of_the_moment() -> None:
    received = [1, 2]
    error = RuleError("values", "be fewer", received)
    received.append(3)
    assert str(error) == "values must be fewer, got [1, 2]"


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        (SHARE, [0, 1, 0.5, np.float32(0.5), np.int8(1), Fraction(1, 3)], [-1e-9, 1.1, True, np.False_, "0.5", 0.5j]),
        (OUTCOME, [0, 1, 0.5, True, False, np.True_, np.False_], [-1, 1.5, "True", None]),
        (WHOLE, [0, 7, 7.0, np.float64(1e5), 10**15, Fraction(4, 2)], [-1, 0.5, 1e5 + 0.5, True, np.True_, 10**400]),
        (Range(0, whole=True, booleans=True), [True, False, 3.0], [0.5]),
        (Range(0, 1, open_low=True, open_high=True), [1e-12, 0.5], [0, 1, 0.0, 1.0]),
        (POSITIVE, [1e-15, 1e15], [0, 1e16]),
        (REAL, [-1e6, 1e6], [1e7]),
        (Range(), [-1e300, 1e300], []),
    ],
)
def test_what_is_in_a_range(rule: Range, inside: list[Any], outside: list[Any]) -> None:
    for value in inside:
        assert value in rule, value
    for value in [*outside, math.nan, math.inf, -math.inf, None, [0], np.array([0])]:
        assert value not in rule, value


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Range(), "a finite number"),
        (Range(0, open_low=True), "a finite number > 0"),
        (Range(2, whole=True), "a whole number >= 2"),
        (Range(2, 1000, whole=True), "a whole number in [2, 1000]"),
        (Range(0, 1, open_high=True), "in [0, 1)"),
    ],
)
def test_a_range_in_words(rule: Range, words: str) -> None:
    assert str(rule) == words


@pytest.mark.parametrize(
    ("value", "rule", "message"),
    [
        (1.3, SHARE, "x must be in [0, 1], got 1.3"),
        ("1.3", SHARE, "x must be a number in [0, 1], got '1.3'"),
        (True, SHARE, "x must be a number in [0, 1], got True"),
        (None, OUTCOME, "x must be a number in [0, 1], got None"),
        (np.float64(2.5), WHOLE, "x must be a whole number >= 0, got 2.5"),
        ("2", WHOLE, "x must be a whole number >= 0, got '2'"),
        ([2], Range(0), "x must be a finite number >= 0, got [2]"),
    ],
)
def test_numbers_are_refused_in_one_sentence(value: Any, rule: Range, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        rules.number("x", value, rule)
    assert str(caught.value) == message
    assert caught.value.argument == "x"
    assert caught.value.value is value


def test_a_number_comes_back_as_it_is_and_a_whole_one_as_an_int() -> None:
    value = np.float64(0.5)
    assert rules.number("x", value, SHARE) is value
    assert rules.number("x", True, OUTCOME) is True
    for whole in (5, 5.0, np.float64(5), np.int8(5)):
        back = rules.number("x", whole, WHOLE)
        assert (back, type(back)) == (5, int)


@pytest.mark.parametrize("values", [0.5, np.float32(0.5), np.array(0.5), [0.5], (0.5,), np.array([0.5])])
@pytest.mark.parametrize("length", [1, None])
def test_a_single_number_is_an_array_of_length_one(values: Any, length: int | None) -> None:
    array = rules.numbers("x", values, SHARE, length)
    assert array.tolist() == [0.5]
    assert array.dtype == np.float64
    assert array.flags.c_contiguous


@pytest.mark.parametrize("shape", [(2,), (0,), (1, 1), (None, None), ()])
def test_a_single_number_is_no_other_array(shape: tuple[int | None, ...]) -> None:
    if not shape:
        assert rules.numbers("x", 0.5, SHARE) == 0.5
        return
    with pytest.raises(RuleError, match=r"^x must be an array of shape .*, got one of shape \(\)$"):
        rules.numbers("x", 0.5, SHARE, *shape)


@pytest.mark.parametrize(
    "values",
    [
        True,
        [True],
        [True, 0.5],
        [0.5, np.True_],
        np.array([True]),
        (np.False_,),
        [np.array([True, False])],
        [[1, True]],
    ],
)
def test_booleans_count_as_numbers_only_where_the_rule_says_so(values: Any) -> None:
    shape = [None] * max(1, np.ndim(values))
    with pytest.raises(RuleError, match=r"^x must be an array of numbers, got"):
        rules.numbers("x", values, SHARE, *shape)
    told = rules.numbers("x", values, OUTCOME, *shape)
    assert told.tolist() == np.atleast_1d(np.asarray(values, np.float64)).tolist()


@pytest.mark.parametrize(
    ("values", "rule", "message"),
    [
        ([0.5, 1.3], SHARE, "x[1] must be in [0, 1], got 1.3"),
        ([math.nan, 0.5], SHARE, "x[0] must be in [0, 1], got nan"),
        (1.3, SHARE, "x must be in [0, 1], got 1.3"),
        ([0, 2.5, 4], WHOLE, "x[1] must be a whole number >= 0, got 2.5"),
        (["a"], OUTCOME, "x must be an array of numbers, got ['a']"),
        ([True, None], OUTCOME, "x must be an array of numbers, got [True, None]"),
        (np.ma.masked_array([0.5], [True]), OUTCOME, "x must be an array of numbers, got masked_array("),
    ],
)
def test_arrays_are_refused_in_one_sentence(values: Any, rule: Range, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        rules.numbers("x", values, rule, None)
    assert str(caught.value).startswith(message)


def test_arrays_of_whole_numbers_are_taken() -> None:
    assert rules.numbers("x", [3, 4.0], WHOLE, None).tolist() == [3, 4]


def test_long_values_are_cut_short() -> None:
    with pytest.raises(RuleError) as caught:
        rules.numbers("x", ["x" * 1000], SHARE, None)
    assert len(str(caught.value)) < 150
    assert caught.value.value == ["x" * 1000]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: rules.choice("word", "c", ("a", "b")), "word must be 'a' or 'b', got 'c'"),
        (lambda: rules.choice("word", ["a"], ("a", "b")), "word must be 'a' or 'b', got ['a']"),
        (
            lambda: rules.choice("word", "x", tuple("abcdefghi")),
            "word must be one of a, b, c, d, e, f, g, h, i, got 'x'",
        ),
        (lambda: rules.fields("data", {"b": 1}, "a"), "data must have the keys a, got ['b']"),
        (lambda: rules.fields("data", 3, "a"), "data must have the keys a, got 3"),
        (lambda: rules.simplex("shares", [0.5, 0.6], 2), "shares must sum to 1, got a sum of 1.1"),
        (lambda: rules.simplex("shares", [0.5, 0.5], 3), "shares must be an array of shape 3, got one of shape (2,)"),
    ],
)
def test_other_checks_raise_the_same_error(check: Callable[[], object], message: str) -> None:
    with pytest.raises(RuleError) as caught:
        check()
    assert str(caught.value) == message
