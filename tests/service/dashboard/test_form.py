"""The form: the rules of `Experiment`, its sentences, beside the fields."""

from __future__ import annotations

from typing import Any

import pytest

import surefoot as sf
from surefoot.service.dashboard.form import Form, python_of
from surefoot.service.problems import Problem
from tests.servers import ROUTING

EXPERIMENTS = [
    ROUTING,
    {**ROUTING, "objective": {"minimise": "cost's", "low": -1, "high": 3.5}, "guardrails": [], "baseline_costs": None},
    {**ROUTING, "arms": ['a "b"', "c: d", "in-house", "x\ny", "<b>"], "baseline": {"in-house": 0.7, "c: d": 0.3}},
    {**ROUTING, "baseline": {"in-house": 0.1, "fast": 0.9}, "options": {"preset": "guaranteed"}, "horizon": 1000,
     "delta": 0.01, "margin": 0.2, "alarm_every": 500},
    {**ROUTING, "arms": ["x\ny", "in-house"], "baseline": {"x\ny": 0.5, "in-house": 0.5}, "baseline_costs": None},
]  # fmt: skip


def sent(form: Form, **changes: str) -> Form:
    """The form as a browser sends it."""
    fields: dict[str, list[str]] = {name: [value] for name, value in {**form.values, **changes}.items()}
    for row in form.rows():
        for name, value in row.items():
            fields.setdefault(f"rail_{name}", []).append(value)
    return Form.sent(fields)


@pytest.mark.parametrize("data", EXPERIMENTS)
def test_an_experiment_comes_out_of_the_form_as_it_went_in(data: dict[str, Any]) -> None:
    experiment = sf.Experiment.from_dict(data)
    checked = sent(Form.of(experiment.to_dict())).check()
    assert checked.errors == {}
    assert checked.experiment == experiment


@pytest.mark.parametrize("data", EXPERIMENTS)
def test_the_python_makes_the_same_experiment(data: dict[str, Any]) -> None:
    experiment, names = sf.Experiment.from_dict(data), dict[str, Any]()
    exec(python_of(experiment), names)
    assert names["experiment"] == experiment


def routing() -> Form:
    return Form.of(sf.Experiment.from_dict(ROUTING).to_dict())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a b"), ("name", ""), ("arms", "one"), ("arms", "a\na"), ("baseline", "nobody"), ("baseline", ""),
        ("baseline", "fast: 0.5\nin-house: 0.6"), ("timeout", ""), ("timeout", "0"), ("timeout", "soon"),
        ("delta", "2"), ("delta", "nan"), ("horizon", "1.5"), ("margin", "1"), ("alarm_every", "inf"),
        ("policy", "best"), ("options", "{"), ("options", '{"x": 1}'), ("objective", "spend"), ("objective_low", "1"),
        ("objective_high", "x"),
    ],
)  # fmt: skip
def test_an_error_is_beside_its_field_in_the_words_of_the_rule(field: str, value: str) -> None:
    form = sent(routing(), **{field: value})
    with pytest.raises(sf.RuleError) as error:
        sf.Experiment.from_dict(form.data())
    found = form.check()
    assert found.experiment is None
    place = {"objective_low": "objective_high"}.get(field, field)  # the higher end is to blame
    if (field, value) == ("objective", "spend"):
        place = "rail_0_name"  # the guardrail comes later
    assert found.errors[place] == str(error.value)
    assert len(found.errors) == 1 or field == "arms"


def test_all_errors_are_found_at_once() -> None:
    form = routing()
    form.rails[0] |= {"limit": "3"}
    form.rails[1] |= {"cost": "0.1"}
    found = sent(form, name="?", delta="0", timeout="x", baseline="nobody").check().errors
    assert sorted(found) == ["baseline", "delta", "name", "rail_0_limit", "rail_1_cost", "timeout"]


def test_two_guardrails_of_one_name_are_told_apart() -> None:
    form = routing()
    form.rails[1]["name"] = "spend"
    assert [*sent(form).check().errors] == ["rail_1_name"]


def test_an_empty_row_between_others_keeps_errors_in_their_places() -> None:
    form = routing()
    form.rails.insert(1, dict.fromkeys(form.rails[0], "") | {"side": "at_most"})
    form.rails[2]["limit"] = "7"
    assert [*sent(form).check().errors] == ["rail_2_limit"]


def test_the_limits_of_the_service_hold_here_too() -> None:
    arms = "\n".join(f"arm {i}" for i in range(1001))
    assert [*sent(routing(), arms=arms, baseline="arm 0").check().errors] == ["arms"]


def test_a_cost_that_is_missing_for_one_guardrail_is_said() -> None:
    form = routing()
    form.rails[1]["cost"] = ""
    assert "have a value for each of spend, answered" in sent(form).check().errors["baseline_costs"]


@pytest.mark.parametrize("typed", ["[" * 100_000, '["\\ud800", "b"]', "\n".join(map(str, range(1_100)))])
def test_arms_that_cannot_be(typed: str) -> None:
    """They are refused at once, whatever their number."""
    assert list(sent(routing(), arms=typed).check().errors) == ["arms"]


def test_a_column_of_guardrails_that_is_missing() -> None:
    """Else all guardrails would be dropped without a word."""
    form = routing()
    fields = {f"rail_{name}": [row[name] for row in form.rails] for name in form.rails[0] if name != "unit"}
    with pytest.raises(Problem, match="the rows of guardrails are not complete"):
        Form.sent({**{name: [value] for name, value in form.values.items()}, **fields})
