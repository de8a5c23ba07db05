"""The command `surefoot bounds`, as its user types it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.cli.bounds import brief
from surefoot.theory.bounds import BOUNDS

PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"


def call(*arguments: object, columns: int = 80) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bounds", *map(str, arguments)], env={"COLUMNS": str(columns)})
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_every_bound_has_a_row_that_fits(columns: int) -> None:
    code, told, _ = call(columns=columns)
    assert code == 0
    assert len(re.findall(r"^ (?:Lemma|Theorem|Weighted|Corollary)", told, re.M)) == 2 * len(BOUNDS)
    assert max(map(len, told.splitlines())) <= columns
    assert "\N{HORIZONTAL ELLIPSIS}" not in told
    assert re.search(r"Theorem 1: COLB violation +90 % +. 35,619 +. 50,000 +yes +48,581", told)
    assert re.search(r"Theorem 2: COLB regret +80 % +. 1.2e6 +. 90,000 +no +7.4e10", told)
    assert "A bound says more if its conditions are met" in told


def test_the_page_shows_what_the_command_says() -> None:
    page = PAGE.read_text()
    for line in call()[1].splitlines():
        assert line.rstrip() in page


def test_the_loss_may_be_given_in_total() -> None:
    assert call("--benchmark-loss", 10_000)[1] == call("--omega", 0.1)[1]
    assert call("--benchmark-loss", 200_000)[2] == "benchmark_loss must be at most horizon = 100000, got 200000.0\n"


def test_the_old_name_of_guardrails_still_works_and_is_not_shown() -> None:
    assert call("--constraints", 3) == call("--guardrails", 3) != call()
    assert "5 arms, 3 guardrails" in call("--guardrails", 3)[1]
    assert "--guardrails" in call("--help")[1]
    assert "constraints" not in call("--help")[1]


def test_conditions_that_are_not_met_are_named() -> None:
    _, told, _ = call("--margin", 0.0002, "--horizon", 3_000, "--arms", 2)
    assert "not met: margin >= 12 n_arms / horizon" in told
    assert "not met: n_arms >= 3" in told
    assert "> 1e30" in told


def test_what_breaks_a_rule_is_refused() -> None:
    for arguments, sentence in (
        (("--margin", 0.7), "margin must be at most threshold = 0.5, got 0.7\n"),
        (("--horizon", 2), "horizon must be a whole number in [3, 1e+15], got 2\n"),
        (("--gap", 2), "gap must be in [0, 1], got 2.0\n"),
    ):
        code, told, error = call(*arguments)
        assert (code, told, error) == (2, "", sentence)
    assert call("--omega", 2)[0] == 2


def test_numbers_are_brief() -> None:
    shown = {0: "0", 0.05678: "0.0568", 5: "5", 105.2: "105", 999.6: "1,000", 35618.7: "35,619", 999_999.7: "1e6",
             1.24e10: "1.2e10", float("inf"): "infinite"}  # fmt: skip
    assert {value: brief(value) for value in shown} == shown
