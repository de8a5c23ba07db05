"""Grids in study files: their product, their names, their conditions, and what is refused."""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefoot as sf
from surefoot.simulation import grid
from surefoot.simulation.condition import Condition
from surefoot.simulation.study import Study, StudyError

pytestmark = pytest.mark.filterwarnings("ignore:the margin")

HEAD = "seeds = 2\nhorizon = 300\ncheckpoints = [300]\n"
COLB = '[[policies]]\npolicy = "colb"\n'
LOWER = '[[scenarios]]\nid = "lower-bound-v1"\n'


def parse(text: str, folder: Path = Path()) -> Study:
    return Study.parse(text, folder, "study.toml")


def ids(study: Study) -> list[str]:
    return [simulation.plan.scenario.id for simulation in study.simulations]


# The product


def test_every_combination_is_a_cell_with_its_own_values() -> None:
    study = parse(HEAD + LOWER + "margin = {grid = [0.1, 0.2]}\nn_arms = {grid = [3, 5, 8]}\n" + COLB)
    assert ids(study) == [f"lower-bound-v1, margin={m}, n_arms={k}" for m in (0.1, 0.2) for k in (3, 5, 8)]
    for simulation in study.simulations:
        at = study.provenance["grid"]["scenarios"][simulation.plan.scenario.id]["at"]
        assert simulation.plan.scenario.problem.n_arms == at["n_arms"]
        assert simulation.plan.scenario.problem.margin == pytest.approx(at["margin"])


def test_a_cell_is_the_scenario_with_these_parameters() -> None:
    gridded = parse(HEAD + LOWER + "margin = {grid = [0.1, 0.2]}\n" + COLB).run(workers=1)
    plain = [
        parse(HEAD + LOWER + f'name = "lower-bound-v1, margin={margin}"\nmargin = {margin}\n' + COLB).run(workers=1)
        for margin in (0.1, 0.2)
    ]
    assert gridded.table.equals(sf.Run.joined(plain).table)


def test_policies_have_grids_too_and_meet_every_cell() -> None:
    policy = '[[policies]]\npolicy = "colb"\npreset = {grid = ["paper", "practical"]}\n'
    study = parse(HEAD + LOWER + "margin = {grid = [0.1, 0.2]}\n" + policy + '[[policies]]\npolicy = "ucb1"\n')
    for simulation in study.simulations:
        assert list(simulation.plan.policies) == ["colb, preset=paper", "colb, preset=practical", "ucb1"]
        kinds = [described["options"].get("preset") for described in simulation.plan.described.values()]
        assert kinds[:2] == ["paper", "practical"]
    assert study.provenance["grid"]["policies"] == {
        f"colb, preset={preset}": {"entry": "colb", "at": {"preset": preset}} for preset in ("paper", "practical")
    }


def test_the_horizon_of_the_study_may_be_a_grid() -> None:
    text = "seeds = 2\nhorizon = {grid = [300, 1e3]}\n" + LOWER + LOWER + 'name = "own"\nhorizon = 500\n' + COLB
    study = parse(text)
    assert ids(study) == ["lower-bound-v1, horizon=300", "lower-bound-v1, horizon=1000", "own"]
    assert study.rounds == 2 * (300 + 1000 + 500)


def test_lists_and_tables_may_vary_and_what_is_inside_tables(tmp_path: Path) -> None:
    (tmp_path / "arms.csv").write_text("loss,cost\n0.5,0.1\n0.1,0.7\n")
    table = (
        '[[scenarios]]\ntable = "arms.csv"\nthresholds = {grid = [[0.3], [0.5]]}\nfeedback.delay = {grid = [1, 20]}\n'
    )
    study = parse(HEAD + table + COLB, tmp_path)
    assert ids(study)[0] == "arms, thresholds=[0.3], delay=1"
    last = study.simulations[-1].plan.scenario
    assert last.problem.thresholds.tolist() == [0.5]
    assert last.feedback is not None
    assert last.feedback.timeout == 20  # by default the longest delay


def test_the_place_of_each_cell_is_kept_with_the_run(tmp_path: Path) -> None:
    run = parse(HEAD + LOWER + "margin = {grid = [0.1, 0.2]}\n" + COLB).run(tmp_path / "out", workers=1)
    kept = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert kept["grid"] == run.provenance["grid"]
    assert kept["grid"]["scenarios"]["lower-bound-v1, margin=0.2"] == {"entry": "lower-bound-v1", "at": {"margin": 0.2}}
    assert "grid" not in parse(HEAD + LOWER + COLB).provenance


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{from = 0.1, to = 0.3, count = 3}", [0.1, 0.2, 0.3]),
        ("{from = 1_000, to = 100_000, count = 3, scale = 'log'}", [1_000, 10_000, 100_000]),
        ("{from = 0.02, to = 0.4, count = 4, scale = 'log'}", [0.02, 0.05429, 0.1474, 0.4]),
        ("{from = 3, to = 10, count = 3}", [3, 6, 10]),
        ("{from = -1, to = 1.0, count = 2}", [-1, 1.0]),
    ],
)
def test_ranges(text: str, values: list[float]) -> None:
    got = grid.values_of(tomllib.loads(f"grid = {text}")["grid"], "x")
    assert got == values
    assert [type(value) for value in got[1:-1]] == [type(value) for value in values[1:-1]]


# Names

VALUES = st.one_of(
    st.integers(-10**9, 10**9), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.text(max_size=40),
    st.lists(st.floats(0, 1), max_size=6),
)  # fmt: skip
AXES = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=25), st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4
)


@given(AXES, st.text(min_size=1, max_size=60))
def test_names_are_short_and_different(axes: dict[str, list[Any]], name: str) -> None:
    keys = {}
    for key, values in axes.items():
        distinct = list({grid.text(value): value for value in values}.values())
        keys[key] = {"grid": distinct}
    names = [cell.name for cell in grid.cells(keys, name)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= grid.LONGEST_NAME


def test_long_names_are_cut_and_then_numbered() -> None:
    keys = {"learning_rate": {"grid": [0.1]}, "first_exploration": {"grid": [2.5]}, "preset": {"grid": ["practical"]}}
    assert grid.cells(keys, "log-barrier")[0].name == "log-barrier, lr=0.1, fe=2.5, pres=practical"
    assert grid.cells(keys, "x" * 58)[0].name == "x" * 57 + " #1"
    assert grid.cells({"a": {"grid": [[0.123456] * 3, [0.2]]}}, "y")[1].name == "y, a=#2"


# Conditions


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("n_arms * margin < 2", True),
        ("n_arms * margin < 0.5", False),
        ("1 < n_arms <= 5 and not margin == 0.2", True),
        ("n_arms in [3, 5] or id == 'x'", True),
        ("-margin + n_arms ** 2 / 5 - 4.9 > 0", False),
        ("id != 'lower' and id not in ['a', 'b']", False),
        ("margin > 1 and margin / 0 > 1", False),  # what is decided is not computed
        ("late", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    assert Condition(text).holds({"n_arms": 5, "margin": 0.1, "id": "lower", "late": True}) is holds


@pytest.mark.parametrize(
    "text",
    [
        "", "n_arms <", "n_arms", "1", "'a'", "n_arms and margin", "n_arms.real < 3",
        "__import__('os').system('x') == 0", "(lambda: True)()", "[x for x in [1]] == [1]",
        "n_arms if True else False", "f'{n_arms}' == '5'", "n_arms[0] < 3", "'a' * 10 == 'b'", "n_arms < 'a'",
        "n_arms / 0 < 1", "9 ** 9 ** 9 ** 9 < 1", "(0 - 8) ** 0.5 < 1", "n_arms := 3", "wrong < 3", "n_arms << 3 < 9",
        "n_arms < 3; True", "(" * 400 + "True" + ")" * 400, "\0", "n_arms is True", "None == None",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused_and_never_run(text: str) -> None:
    with pytest.raises(sf.RuleError, match=r"^where must "):
        Condition(text).holds({"n_arms": 5, "margin": 0.1})


def test_cells_are_left_out_before_they_are_built() -> None:
    wrong = LOWER + "margin = {grid = [0.1, 0.7]}\n"  # 0.7 is not a margin
    assert ids(parse(HEAD + wrong + 'where = "margin < 0.5 and horizon == 300 and gap == 0.2"\n' + COLB)) == [
        "lower-bound-v1, margin=0.1"
    ]


def test_a_policy_may_leave_out_scenarios() -> None:
    text = (
        HEAD
        + LOWER
        + "n_arms = {grid = [3, 5, 50]}\n"
        + COLB
        + '[[policies]]\npolicy = "ucb1"\nwhere = "n_arms < 50"\n'
    )
    study = parse(text)
    assert [list(one.plan.policies) for one in study.simulations] == [["colb", "ucb1"], ["colb", "ucb1"], ["colb"]]
    alone = parse(HEAD + LOWER + "n_arms = {grid = [3, 50]}\n" + COLB + 'where = "n_arms < 50 and margin > 0.1"\n')
    assert ids(alone) == ["lower-bound-v1, n_arms=3"]


# What is refused


def refused(text: str) -> str:
    with pytest.raises(StudyError) as raised:
        parse(text)
    assert {type(error) for error in raised.value.errors} <= {sf.RuleError, sf.Infeasible}
    return str(raised.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("margin = {grid = []}", "margin.grid must be a list of values, or {from, to, count, scale}, got []"),
        ("margin = {grid = 3}", "margin.grid must be a list of values, or {from, to, count, scale}, got 3"),
        ("margin = {grid = [0.1, 0.2, 1e-1]}", "margin.grid[2] must be different from .*, got 0.1"),
        ("margin = {grid = [0.1], to = 3}", "margin must hold nothing but grid, or no grid, got grid and to"),
        ("margin = {grid = {from = 1}}", "margin.grid must have the keys from, to, count .*, got .*"),
        ("margin = {grid = {from = 1, to = 2, count = 2, by = 1}}", "margin.grid must have the keys .*"),
        ("margin = {grid = {from = 2, to = 1, count = 2}}", "margin.grid.to must be .* above from = 2, got 1"),
        ("margin = {grid = {from = nan, to = 1, count = 2}}", "margin.grid.from must be .*, got nan"),
        ("margin = {grid = {from = 0, to = 1, count = 1}}", "margin.grid.count must be .*, got 1"),
        ("margin = {grid = {from = 0, to = 1, count = 3, scale = 'log'}}", "margin.grid.from must be above 0 .*"),
        ("margin = {grid = {from = 0, to = 1, count = 3, scale = 3}}", "margin.grid.scale must be .*, got 3"),
        ("n_arms = {grid = {from = 3, to = 5, count = 9}}", "n_arms.grid.count must leave different .*, got 9"),
        ("margin = {grid = [0.1, 0.7]}", "margin must be .*, got 0.7 (in lower-bound-v1, margin=0.7)"),
        ("margn = {grid = [0.1]}", "margn must be one of .*, got 'margn' (did you mean margin?)"),
        ("margin = {gird = [0.1, 0.2]}", "margin must be .*, got {'gird': [0.1, 0.2]}"),
        ("where = 'margin < 0.1'", "where must leave one combination at least, got 'margin < 0.1'"),
        ("where = 3", "where must be a condition, as a text, got 3"),
        ("where = 'margn < 1'", "where must use only the names horizon, .*, got 'margn'"),
        ("name = {grid = ['a', 'b']}", "name must be a text of at most 60 signs, got .*"),
        (
            "margin = {grid = {from = 0.1, to = 0.4, count = 999}}\ngap = {grid = {from = 0.1, to = 0.4, count = 999}}",
            "margin, gap must have at most 100,000 combinations, got 998,001",
        ),
    ],
)  # fmt: skip
def test_a_wrong_grid_is_refused_at_its_place(line: str, sentence: str) -> None:
    pattern = re.escape(f"scenarios[0].{sentence}").replace(r"\.\*", ".*")
    assert re.fullmatch(pattern, refused(HEAD + LOWER + line + "\n" + COLB))


def test_wrong_cells_of_policies_are_refused_at_their_place() -> None:
    told = refused(HEAD + LOWER + '[[policies]]\npolicy = "colb"\nlearning_rate = {grid = [0.1, -1]}\n')
    assert told.startswith("policies[0].learning_rate must be")
    assert "got -1" in told
    never = refused(HEAD + LOWER + COLB + '[[policies]]\npolicy = "ucb1"\nwhere = "n_arms > 99"\n')
    assert never == "policies[1].where must leave the policy in one scenario at least, got 'ucb1'"
    unknown = refused(HEAD + LOWER + COLB + '[[policies]]\npolicy = "ucb1"\nwhere = "arms > 99"\n')
    assert unknown.startswith("policies[1].where must use only the names n_arms,")
    assert refused(f"horizon = {{grid = [300, 2]}}\n{LOWER}{COLB}").startswith(
        "horizon.grid[1] must be a whole number in"
    )


def test_cells_with_one_name_are_refused() -> None:
    text = HEAD + LOWER + "margin = {grid = [0.1, 0.2]}\n" + LOWER + "margin = {grid = [0.2, 0.3]}\n" + COLB
    assert refused(text).startswith(
        "scenarios[1].name must be different from the names of the others, got 'lower-bound-v1, "
    )


def test_a_warning_is_told_once_for_all_cells_and_names_one() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parse(HEAD + LOWER + "margin = {grid = [0.01, 0.02, 0.3]}\nn_arms = {grid = [3, 9]}\n" + COLB)
    (told,) = [str(one.message) for one in caught if "margin" in str(one.message)]
    assert told.endswith('(in scenario "lower-bound-v1, margin=0.01, n_arms=3" and 4 more)')


def test_what_was_told_is_not_told_again_while_it_runs() -> None:
    text = HEAD + LOWER + '[[policies]]\npolicy = "colb"\nlearning_rate = "theory"\npreset = "paper"\n'
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study = parse(text)
        before = [str(one.message) for one in caught]
        study.run(workers=1)
    assert [message for message in before if message.startswith("learning_rate = 'theory'")]
    assert all(message.endswith("(policy colb in scenario lower-bound-v1)") for message in before)
    assert len(caught) == len(before)
