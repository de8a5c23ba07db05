"""What comes in at the door of `Experiment` and `Live`: natural units in, one sentence out when something is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from tests.experiments.worlds import GOOD, digest, make, replayed

NAN, INF = math.nan, math.inf
BASE: dict[str, Any] = {
    "name": "routing",
    "arms": ["a", "b", "c"],
    "objective": {"maximise": "quality", "low": 0, "high": 2},
    "guardrails": [
        {"name": "spend", "at_most": 0.4, "high": 2, "unit": "cents"},
        {"name": "answered", "at_least": 0.7},
    ],
    "baseline": "c",
    "baseline_costs": {"spend": 0.1, "answered": 0.95},
    "timeout": 10,
}
SPEND, ANSWERED = BASE["guardrails"]
GONE = object()

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": GONE}, "experiment must have the key 'name', got ['arms', "),
    ({"arms": GONE}, "experiment must have the key 'arms', got ["),
    ({"objective": GONE}, "experiment must have the key 'objective', got ["),
    ({"guardrails": GONE}, "experiment must have the key 'guardrails', got ["),
    ({"baseline": GONE}, "experiment must have the key 'baseline', got ["),
    ({"timeout": GONE}, "experiment must have the key 'timeout', got ["),
    ({"colour": "red"}, "experiment must have no keys but name, arms, objective, "),
    ({"tmeout": 5}, "experiment must have no keys but name, arms, objective, guardrails, baseline, baseline_costs, "
        "timeout, policy, options, delta, horizon, margin, alarm_every, got ['tmeout'] (did you mean timeout?)"),
    ({"name": ""}, 'name must be 1 to 100 letters, digits, ".", "_" or "-", starting with a letter or digit, got \'\''),
    ({"name": "a b"}, "starting with a letter or digit, got 'a b'"),
    ({"name": "../x"}, "starting with a letter or digit, got '../x'"),
    ({"name": "x" * 101}, "starting with a letter or digit, got 'xxxxx"),
    ({"name": "x\n"}, "starting with a letter or digit, got 'x\\n'"),
    ({"name": 5}, "starting with a letter or digit, got 5"),
    ({"arms": ["a"]}, "arms must be a list of at least two names, got ['a']"),
    ({"arms": "abc"}, "arms must be a list of at least two names, got 'abc'"),
    ({"arms": {"a": 1, "b": 2}}, "arms must be a list of at least two names, got {'a': 1, 'b': 2}"),
    ({"arms": ["a", 5, "c"]}, "arms[1].name must be text of 1 to 200 characters without spaces around it, got 5"),
    ({"arms": ["a", " b", "c"]}, "arms[1].name must be text of 1 to 200 characters without spaces around it, got ' b'"),
    ({"arms": ["a", "", "c"]}, "arms[1].name must be text of 1 to 200 characters without spaces around it, got ''"),
    ({"arms": ["a", "c", "a"]}, "arms[2] must differ from all other arms, got 'a'"),
    ({"objective": "quality"}, "objective must have exactly one of the keys 'maximise' and 'minimise', got 'quality'"),
    ({"objective": {"low": 0}}, "objective must have exactly one of the keys 'maximise' and 'minimise', got {'low': "),
    ({"objective": {"maximise": "q", "minimise": "q"}}, "objective must have exactly one of the keys"),
    ({"objective": {"maximise": "q", "unit": "x"}}, "objective must have no keys but low, high, got ['unit']"),
    ({"objective": {"maximise": 3}}, "objective.name must be text of 1 to 200 characters"),
    ({"objective": {"maximise": "q", "low": 1}}, "objective.high must be above low = 1, got 1.0"),
    ({"objective": {"maximise": "q", "high": NAN}}, "objective.high must be in [-1e+12, 1e+12], got nan"),
    ({"objective": {"maximise": "q", "high": INF}}, "objective.high must be in [-1e+12, 1e+12], got inf"),
    ({"objective": {"maximise": "q", "high": "1"}}, "objective.high must be a number in [-1e+12, 1e+12], got '1'"),
    ({"objective": {"maximise": "q", "high": True}}, "objective.high must be a number in [-1e+12, 1e+12], got True"),
    ({"guardrails": "spend"}, "guardrails must be a list, got 'spend'"),
    ({"guardrails": {"name": "spend"}}, "guardrails must be a list, got {'name': 'spend'}"),
    ({"guardrails": [5]}, "guardrails[0] must have exactly one of the keys 'at_most' and 'at_least', got 5"),
    ({"guardrails": [{"name": "x"}]}, "guardrails[0] must have exactly one of the keys 'at_most' and 'at_least', got"),
    ({"guardrails": [SPEND, {"at_most": 1}]}, "guardrails[1] must have a name, got {'at_most': 1}"),
    ({"guardrails": [{**SPEND, "limit": 1}]}, "guardrails[0] must have no keys but name, low, high, unit, got ['limi"),
    ({"guardrails": [{**SPEND, "at_most": 2.5}]}, "guardrails['spend'].limit must be in [0, 2], got 2.5"),
    ({"guardrails": [{**SPEND, "at_most": NAN}]}, "guardrails['spend'].limit must be in [0, 2], got nan"),
    ({"guardrails": [{**SPEND, "at_most": True}]}, "guardrails['spend'].limit must be a number in [0, 2], got True"),
    ({"guardrails": [{**SPEND, "at_most": ".4"}]}, "guardrails['spend'].limit must be a number in [0, 2], got '.4'"),
    ({"guardrails": [{**SPEND, "unit": 5}]}, "guardrails['spend'].unit must be text or None, got 5"),
    ({"guardrails": [{**SPEND, "high": -1}]}, "guardrails['spend'].high must be above low = 0, got -1.0"),
    ({"guardrails": [SPEND, SPEND]}, "guardrails[1].name must differ from the other names, got 'spend'"),
    ({"guardrails": [{**SPEND, "name": "quality"}]}, "guardrails[0].name must differ from the other names, got 'qual"),
    ({"baseline": "d"}, "baseline must be one of the arms, got 'd'"),
    ({"baseline": "in-hose", "arms": ["in-house", "fast"]}, "got 'in-hose' (did you mean in-house?)"),
    ({"baseline": ["c"]}, "baseline must be an arm or a table of shares by arm, got ['c']"),
    ({"baseline": {"d": 1}}, "baseline must have shares of the arms only, got 'd'"),
    ({"baseline": {"a": 0.5, "b": 0.4}}, "baseline must sum to 1, got a sum of 0.9"),
    ({"baseline": {}}, "baseline must sum to 1, got a sum of 0"),
    ({"baseline": {"a": -0.5, "b": 1.5}}, "baseline['a'] must be in [0, 1], got -0.5"),
    ({"baseline": {"a": NAN, "b": 1}}, "baseline['a'] must be in [0, 1], got nan"),
    ({"baseline": {"a": True}}, "baseline['a'] must be a number in [0, 1], got True"),
    ({"baseline_costs": {"spend": 0.1}}, "baseline_costs must have a value for each of spend, answered, got ['spend']"),
    ({"baseline_costs": [0.1, 0.9]}, "baseline_costs must have a value for each of spend, answered, got [0.1, 0.9]"),
    ({"baseline_costs": {"spend": 0.1, "answered": 1, "x": 0}}, "baseline_costs must have a value for each of spend,"),
    ({"baseline_costs": {"spend": 0.4, "answered": 1}}, "baseline_costs['spend'] must be below the limit 0.4 (learni"),
    ({"baseline_costs": {"spend": 0.1, "answered": 0.7}}, "baseline_costs['answered'] must be above the limit 0.7 (l"),
    ({"baseline_costs": {"spend": 0.1, "answered": 0.6}}, "baseline_costs['answered'] must be above the limit 0.7 (l"),
    ({"baseline_costs": {"spend": -0.1, "answered": 1}}, "baseline_costs['spend'] must be in [0, 2], got -0.1"),
    ({"baseline_costs": {"spend": NAN, "answered": 1}}, "baseline_costs['spend'] must be in [0, 2], got nan"),
    ({"baseline_costs": {"spend": "0", "answered": 1}}, "baseline_costs['spend'] must be a number in [0, 2], got '0'"),
    ({"baseline_costs": {"spend": 0.1, "answered": True}}, "baseline_costs['answered'] must be a number in [0, 1], g"),
    ({"timeout": 0}, "timeout must be in (0, 1e+09], got 0"),
    ({"timeout": -1.5}, "timeout must be in (0, 1e+09], got -1.5"),
    ({"timeout": INF}, "timeout must be in (0, 1e+09], got inf"),
    ({"timeout": NAN}, "timeout must be in (0, 1e+09], got nan"),
    ({"timeout": "10"}, "timeout must be a number in (0, 1e+09], got '10'"),
    ({"timeout": True}, "timeout must be a number in (0, 1e+09], got True"),
    ({"policy": "best"}, "policy must be "),
    ({"policy": "oracle"}, "policy must be "),
    ({"policy": "exp3"}, "policy must be "),
    ({"options": [1]}, "options must be a table of options by name, got [1]"),
    ({"options": {"learning_rate": NAN}}, "options must be values that JSON can hold, got {'learning_rate': nan}"),
    ({"delta": 0}, "delta must be in (0, 1), got 0"),
    ({"delta": 1}, "delta must be in (0, 1), got 1"),
    ({"delta": NAN}, "delta must be in (0, 1), got nan"),
    ({"horizon": 2}, "horizon must be a whole number in [3, 1e+15], got 2"),
    ({"horizon": 10.5}, "horizon must be a whole number in [3, 1e+15], got 10.5"),
    ({"margin": 1}, "margin must be in [0, 1), got 1"),
    ({"margin": -0.1}, "margin must be in [0, 1), got -0.1"),
    ({"alarm_every": 5}, "alarm_every must be in [100, 1e+12], got 5"),
]  # fmt: skip
IDS = [f"{next(iter(change))}-{i}" for i, (change, _) in enumerate(WRONG)]


def changed(change: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**BASE, **change}.items() if value is not GONE}


def toml(value: Any) -> str:
    """A value in TOML, tables in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)


def written(tmp_path: Path, data: dict[str, Any], kind: str) -> Path:
    path = tmp_path / f"experiment.{kind}"
    path.write_text(
        json.dumps(data) if kind == "json" else "\n".join(f"{key} = {toml(one)}" for key, one in data.items()),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(("change", "sentence"), WRONG, ids=IDS)
def test_wrong_experiments_are_refused_in_a_sentence(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    data = changed(change)
    messages = []
    doors: tuple[Callable[[], Any], ...] = (
        lambda: sf.Experiment.from_dict(data),
        lambda: sf.Experiment.load(written(tmp_path, data, "json")),
        lambda: sf.Experiment.load(written(tmp_path, data, "toml")),
    )
    for make_it in doors:
        with pytest.raises(sf.RuleError) as error:
            make_it()
        messages.append(str(error.value))
    assert sentence in messages[0]
    assert messages[0] == messages[1] == messages[2]
    assert "\n" not in messages[0]


PYTHON: list[tuple[dict[str, Any], str]] = [
    ({"objective": "quality"}, "objective must be Maximise(...) or Minimise(...), got 'quality'"),
    ({"objective": sf.AtMost("x", 0.5)}, "objective must be Maximise(...) or Minimise(...), got AtMost(name='x', "),
    ({"guardrails": sf.AtMost("x", 0.5)}, "guardrails must be a list of AtMost(...) and AtLeast(...), got AtMost("),
    ({"guardrails": [sf.Maximise("x")]}, "guardrails[0] must be AtMost(...) or AtLeast(...), got Maximise(name='x', "),
    ({"guardrails": [{"name": "x", "at_most": 1}]}, "guardrails[0] must be AtMost(...) or AtLeast(...), got {'name'"),
    ({"arms": np.array(["a", "b"])}, "arms must be a list of at least two names, got array("),
    ({"arms": {"a", "b", "c"}}, "arms must be a list of at least two names, got {"),
    ({"baseline": {1: 1.0}}, "baseline must have shares of the arms only, got 1"),
    ({"baseline_costs": {1: 0.1, "spend": 0.1}}, "baseline_costs must have a value for each of spend, answered, got "),
    ({"options": {1: 2}}, "options must be a table of options by name, got {1: 2}"),
    ({"options": {"x": object()}}, "options must be values that JSON can hold, got {'x': <object"),
    ({"timeout": 1j}, "timeout must be a number in (0, 1e+09], got 1j"),
    ({"timeout": 10**400}, "timeout must be in (0, 1e+09], got"),
    ({"timeout": None}, "timeout must be a number in (0, 1e+09], got None"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), PYTHON, ids=[str(i) for i in range(len(PYTHON))])
def test_wrong_arguments_are_refused_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(sf.RuleError) as error:
        make(**change)
    assert sentence in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, text, sentence in (
        ("x.json", "{", r"x.json must be a file in TOML or JSON, got Expecting property name"),
        ("x.toml", "a = ", r"x.toml must be a file in TOML or JSON, got Invalid value"),
        ("y.json", "[1]", r"experiment must be a table of keys and values, got \[1\]"),
        ("z.json", json.dumps(BASE).replace("10", "1e400"), r"timeout must be in \(0, 1e\+09\], got inf"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(sf.RuleError, match=sentence):
            sf.Experiment.load(tmp_path / name)
    (tmp_path / "latin.toml").write_bytes('name = "caf\u00e9"'.encode("latin-1"))
    with pytest.raises(sf.RuleError, match=r"latin.toml must be a file in TOML or JSON, got .*utf-8"):
        sf.Experiment.load(tmp_path / "latin.toml")
    with pytest.raises(FileNotFoundError):
        sf.Experiment.load(tmp_path / "nothing.toml")


def test_all_forms_are_the_same_experiment(tmp_path: Path) -> None:
    made = make()
    assert made == sf.Experiment.from_dict(BASE)
    assert made == sf.Experiment.from_dict(json.loads(json.dumps(made.to_dict())))
    for kind in ("json", "toml"):
        assert made == sf.Experiment.load(written(tmp_path, BASE, kind))
    for change in (
        {"baseline": {"a": 0.25, "c": 0.75}},
        {"baseline_costs": None},
        {"horizon": 1e5},
        {"options": {"preset": "guaranteed"}},
    ):
        other = make(**change)
        assert other != made
        assert other == sf.Experiment.from_dict(other.to_dict())


# Natural units.


def test_quantities_translate_both_ways() -> None:
    cases: list[tuple[Any, float, float]] = [
        (sf.AtMost("x", 15, low=10, high=20), 12.5, 0.25),
        (sf.AtLeast("x", 15, low=10, high=20), 12.5, 0.75),
        (sf.Maximise("x", -1, 3), 2.0, 0.25),
        (sf.Minimise("x", -1, 3), 2.0, 0.75),
    ]
    for quantity, value, cost in cases:
        assert quantity.cost(value) == cost
        assert quantity.value(cost) == value
        assert quantity.cost(quantity.worst) == 1.0
    assert sf.AtMost("x", 12.5, 10, 20).threshold == sf.AtLeast("x", 17.5, 10, 20).threshold == 0.25


def test_status_is_in_natural_units() -> None:
    """Costs that differ from arm to arm: bounds around each mean, each on its side, and strategies that know it."""
    experiment = make(
        objective=sf.Maximise("quality", low=-1.0, high=1.0),
        guardrails=[sf.AtMost("spend", 6.0, low=2.0, high=10.0), sf.AtLeast("answered", 0.5)],
        baseline_costs={"spend": 3.0, "answered": 0.9},
    )
    live, rng = sf.Live(experiment, 3), np.random.default_rng(1)
    worlds = {"a": (0.8, 4.0, 0.8), "b": (0.9, 9.0, 0.9), "c": (-0.5, 3.0, 0.95)}
    for _ in range(1500):
        d = live.decide(0.0)
        quality, spend, answered = worlds[d.arm]
        outcome = {"quality": quality, "spend": spend + rng.uniform(-1, 1), "answered": bool(rng.random() < answered)}
        live.feedback(d.id, outcome, 0.0)
    status = live.status()
    assert status.guardrails["spend"].limit == 6.0
    assert status.guardrails["answered"]["limit"] == 0.5
    for arm, (_, spend, answered) in worlds.items():
        for name, truth in (("spend", spend), ("answered", answered)):
            found = status.guardrails[name].arms[arm]
            assert found.count > 10
            assert found.mean is not None
            assert found.lower <= found.mean <= found.upper
            assert found.lower <= truth <= found.upper
            assert abs(found.mean - truth) < 0.2
            assert found.upper - found.lower < (4.0 if name == "spend" else 0.5)
    assert status.strategy["a"] > status.strategy["b"] > 0.0  # b is better, and too dear to be served alone
    assert status.strategy["a"] > status.strategy["c"]
    assert status.to_dict()["guardrails"][0]["name"] == "spend"
    json.dumps(status.to_dict(), allow_nan=False)


def test_only_what_was_stated_is_known_at_first() -> None:
    status = sf.Live(make(), 1).status()
    for name, high in (("spend", 2.0), ("answered", 1.0)):
        for arm in ("a", "b"):
            found = status.guardrails[name].arms[arm]
            assert (found.count, found.mean, found.lower, found.upper) == (0, None, 0.0, high)
    spend, answered = (status.guardrails[name].arms["c"] for name in ("spend", "answered"))  # the baseline
    assert spend.count == answered.count == 0
    assert spend.mean is None is answered.mean
    assert [spend.lower, spend.upper, answered.lower, answered.upper] == pytest.approx([0.0, 0.1, 0.95, 1.0])


def test_the_objective_has_a_direction() -> None:
    """The same outcomes, maximised and minimised, lead to the opposite arms."""
    found = {}
    for objective in (sf.Maximise("quality"), sf.Minimise("quality")):
        live = sf.Live(make(objective=objective, guardrails=[], baseline_costs={}), 1)
        for _ in range(600):
            d = live.decide(0.0)
            live.feedback(d.id, {"quality": {"a": 0.9, "b": 0.1, "c": 0.5}[d.arm]}, 0.0)
        found[type(objective)] = max(live.status().strategy.items(), key=lambda item: item[1])[0]
    assert found == {sf.Maximise: "a", sf.Minimise: "b"}


# The door of Live.


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ({}, "outcome must have values of quality, spend, answered, got {}"),
        (None, "outcome must have values of quality, spend, answered, got None"),
        ([0.5], "outcome must have values of quality, spend, answered, got [0.5]"),
        ("good", "outcome must have values of quality, spend, answered, got 'good'"),
        ({"quality": 1.0, "other": 1.0}, "outcome must have no keys but quality, spend, answered, got 'other'"),
        ({1: 1.0}, "outcome must have no keys but quality, spend, answered, got 1"),
        ({"quality": 2.5}, "outcome['quality'] must be in [0, 2], got 2.5"),
        ({"quality": -1e-9}, "outcome['quality'] must be in [0, 2], got -1e-09"),
        ({"quality": NAN}, "outcome['quality'] must be in [0, 2], got nan"),
        ({"quality": np.float64(NAN)}, "outcome['quality'] must be in [0, 2], got nan"),
        ({"quality": INF}, "outcome['quality'] must be in [0, 2], got inf"),
        ({"quality": -INF}, "outcome['quality'] must be in [0, 2], got -inf"),
        ({"quality": "1"}, "outcome['quality'] must be a number in [0, 2], got '1'"),
        ({"quality": None}, "outcome['quality'] must be a number in [0, 2], got None"),
        ({"quality": [1.0]}, "outcome['quality'] must be a number in [0, 2], got [1.0]"),
        ({"quality": 10**400}, "outcome['quality'] must be in [0, 2], got"),
    ],
)
def test_wrong_outcomes_are_refused(outcome: Any, sentence: str) -> None:
    live = sf.Live(make(), 1)
    d = live.decide(0.0)
    before = digest(live)
    with pytest.raises(sf.RuleError) as error:
        live.feedback(d.id, outcome, 1.0)
    assert sentence in str(error.value)
    assert digest(live) == before
    (answer,) = live.feedback_many([(d.id, outcome)], 1.0)
    assert str(answer) == str(error.value)
    assert live.feedback(d.id, GOOD, 1.0) == "accepted"


@pytest.mark.parametrize("value", [True, 1, 1.0, np.True_, np.int64(1), np.float32(1.0)])
def test_booleans_and_whole_numbers_are_numbers(value: Any) -> None:
    live = sf.Live(make(), 1)
    d = live.decide(0.0)
    assert live.feedback(d.id, {**GOOD, "answered": value}, 1.0) == "accepted"
    assert live.feedback(d.id, {**GOOD, "answered": 1.0}, 1.0) == "replayed"
    with pytest.raises(sf.Conflict, match=r"answered = 1 was reported first for decision .* and stands, got 0"):
        live.feedback(d.id, {**GOOD, "answered": False}, 1.0)
    assert digest(live) == replayed(live)


@pytest.mark.parametrize(
    "id", ["", "x", "0", 0, None, b"x", "{}-1", "{}-00", "{}-0 ", "{}-\u0660", "{}--0", "{}-" + "9" * 30]
)
def test_unknown_ids(id: Any) -> None:
    live = sf.Live(make(), 1)
    prefix = live.decide(0.0).id.partition("-")[0]
    wrong = id.format(prefix) if isinstance(id, str) else id
    for call in (lambda: live.feedback(wrong, GOOD, 0.0), lambda: live.cancel(wrong)):
        with pytest.raises(sf.Unknown, match="no decision of routing has the id"):
            call()
    assert isinstance(live.feedback_many([(wrong, GOOD)], 0.0)[0], sf.Unknown)


def test_calls_that_are_refused() -> None:
    live = sf.Live(make(), 1)
    live.decide(0.0, key="k", unit="u")
    text = "must be text of 1 to 500 characters, got"
    cases: list[tuple[Any, str]] = [
        (lambda: sf.Live("routing"), "experiment must be an Experiment, got 'routing'"),  # type: ignore[arg-type]
        (lambda: sf.Live(make(), mode="dry"), "mode must be 'live' or 'shadow', got 'dry'"),
        (lambda: sf.Live(make(), -1), "seed must be a whole number in [0, 3.40282e+38], got -1"),
        (lambda: sf.Live(make(), 2**600), "seed must be a whole number in [0, 3.40282e+38], got 4149"),
        (lambda: sf.Live(make(), log=live.log), "log must be empty (`Live.of` goes on with one that is not), got <su"),
        (lambda: sf.Live(make(options={"colour": 1})), "options must be those of the policy 'solb', got {'colour': 1}"),
        (lambda: sf.Live(make(options={"preset": "x"})), "preset must be 'practical' or 'led' or 'guaranteed' or"),
        (lambda: live.decide(NAN), "now must be in [-1e+15, 1e+15], got nan"),
        (lambda: live.decide("0"), "now must be a number in [-1e+15, 1e+15], got '0'"),  # type: ignore[arg-type]
        (lambda: live.decide(True), "now must be a number in [-1e+15, 1e+15], got True"),
        (lambda: live.decide(0.0, n=0), "n must be a whole number in [1, 100000], got 0"),
        (lambda: live.decide(0.0, n=1.5), "n must be a whole number in [1, 100000], got 1.5"),  # type: ignore[arg-type]
        (lambda: live.decide(0.0, n=2, unit="v"), "n must be 1 if a unit is given, got 2"),
        (lambda: live.decide(0.0, key=""), f"key {text} ''"),
        (lambda: live.decide(0.0, key="x" * 501), f"key {text} 'xxx"),
        (lambda: live.decide(0.0, unit=5), f"unit {text} 5"),  # type: ignore[arg-type]
        (lambda: live.decide(0.0, arms=[]), "arms must be a list of at least one arm, got []"),
        (lambda: live.decide(0.0, arms="a"), "arms must be a list of at least one arm, got 'a'"),
        (lambda: live.decide(0.0, arms=["a", "z"]), "arms must be among a, b, c, got 'z'"),
        (lambda: live.decide(0.0, snapshot=5), "snapshot must be a Snapshot, got 5"),  # type: ignore[arg-type]
        (lambda: live.decide(0.0, arms=["a"], snapshot=live.snapshot(0.0)), "arms must be left out if a snapshot is "),
        (lambda: live.snapshot(0.0, lease=-1.0), "lease must be in [0, 1e+09], got -1.0"),
        (lambda: live.snapshot(0.0).draw(1.0), "u must be in [0, 1), got 1.0"),
        (lambda: live.feedback_many(5, 0.0), "items must be a list, got 5"),  # type: ignore[arg-type]
        (lambda: live.observe_many("ab"), "items must be a list, got 'ab'"),  # type: ignore[arg-type]
        (lambda: live.observe_many([5]), "items[0] must be an arm and an outcome, got 5"),  # type: ignore[list-item]
        (lambda: sf.Live(make(guardrails=[sf.AtMost("spend", 0.0)], baseline_costs=None)), "guardrails[0].limit must l"
                 "eave room on its safe side, or no measurement can show that the baseline is safe, got 0.0"),
        (lambda: live.feedback("x", GOOD, INF), "now must be in [-1e+15, 1e+15], got inf"),
        (lambda: live.expire(None), "now must be a number in [-1e+15, 1e+15], got None"),  # type: ignore[arg-type]
        (lambda: live.cancel("x", reason=""), f"reason {text} ''"),
        (lambda: live.hold(""), f"reason {text} ''"),
        (lambda: live.stop(" "), f"reason {text} ' '"),
        (lambda: live.switch("dry", "x"), "mode must be 'live' or 'shadow', got 'dry'"),
        (lambda: live.switch("live", 5), f"reason {text} 5"),  # type: ignore[arg-type]
        (lambda: live.resume("x"), "resume must be called while the experiment is held, got a call while running"),
        (lambda: live.change(make(), ""), f"reason {text} ''"),
        (lambda: live.change("x", "y"), "experiment must be an Experiment, got 'x'"),  # type: ignore[arg-type]
        (lambda: live.change(renamed(), "y"), "experiment must keep its name, 'routing', got 'other'"),
        (lambda: live.change(make(options={"x": 1}), "y"), "options must be those of the policy 'solb', got {'x': 1}"),
        (lambda: live.observe("z", GOOD), "arm must be one of a, b, c, got 'z'"),
        (lambda: live.observe("a", {"spend": 0.1}), "outcome must have a value of answered, got {'spend': 0.1}"),
        (lambda: live.observe("a", {**GOOD, "spend": NAN}), "outcome['spend'] must be in [0, 2], got nan"),
    ]  # fmt: skip
    before = digest(live)
    for call, sentence in cases:
        with pytest.raises(sf.RuleError) as error:
            call()
        assert sentence in str(error.value)
        assert digest(live) == before, sentence
    for call, sentence in (
        (lambda: live.decide(0.0, key="k", n=2), "key 'k' was used for another request"),
        (lambda: live.decide(0.0, key="k"), "key 'k' was used for another request"),
        (lambda: live.decide(0.0, unit="u", arms=[live_other(live)]), "already has arm"),
    ):
        with pytest.raises(sf.Conflict, match=sentence):
            call()
    with pytest.raises(
        sf.Unavailable,
        match=r"arms must include 'c', which the baseline needs, as no strategy of the other arms is known to be safe, "
        r"got \['a', 'b'\]",
    ):
        live.decide(0.0, arms=["a", "b"])
    assert digest(live) == before == replayed(live)
    live.hold("wait")
    for wrong, sentence in (("x", "be an Experiment"), (renamed(), "keep its name")):
        with pytest.raises(sf.RuleError, match=sentence):
            live.resume("go", wrong)  # type: ignore[arg-type]
    assert live.status().state == "held"


def renamed() -> sf.Experiment:
    return sf.Experiment.from_dict({**make().to_dict(), "name": "other"})


def live_other(live: sf.Live) -> str:
    """An arm that the first decision does not have."""
    served = live.decide(0.0, unit="u").arm
    return next(arm for arm in live.experiment.arms if arm != served)


def test_what_was_stopped_or_closed_refuses() -> None:
    live = sf.Live(make(), 1)
    d = live.decide(0.0)
    live.stop("enough")
    for call in (
        lambda: live.decide(0.0),
        lambda: live.hold("x"),
        lambda: live.change(make(), "x"),
        lambda: live.stop("y"),
    ):
        with pytest.raises(sf.Stopped, match="the experiment routing was stopped: enough"):
            call()
    assert live.feedback(d.id, GOOD, 0.0) == "accepted"
    assert (live.status().state, live.status().reason) == ("stopped", "enough")
    live.close()
    with pytest.raises(RuntimeError, match="this experiment must be opened again: it was closed"):
        live.decide(0.0)


def test_a_malformed_list_of_feedback_loses_nothing() -> None:
    """What came before the item that cannot be read is learnt, and is in the log."""
    live = sf.Live(make(), 1)
    d = live.decide(0.0)
    for wrong in (("x",), 1, "ab", None):
        with pytest.raises(sf.RuleError, match=r"items\[1\] must be an id and an outcome, got"):
            live.feedback_many([(d.id, GOOD), wrong], 1.0)
    assert digest(live) == replayed(live)
    assert live.feedback(d.id, GOOD, 1.0) == "replayed"
