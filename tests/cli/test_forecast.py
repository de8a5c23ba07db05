"""The command `surefoot forecast`, as its user types it."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.theory import rehearsal


def call(*arguments: object, columns: int = 80) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["forecast", *map(str, arguments)], env={"COLUMNS": str(columns)})
    return result.exit_code, result.stdout, result.stderr


def said(label: str, *arguments: object) -> float:
    """The first figure of a row, that of the formula for guaranteed."""
    found = re.search(rf"{label}\D*? +([\d.,e]+)", call(*arguments)[1])
    assert found is not None
    return float(found[1].replace(",", ""))


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("more", [(), ("--simulate", "--deviation", 0.1, "--seeds", 3)])
def test_it_fits(columns: int, more: tuple[object, ...]) -> None:
    code, told, _ = call(*more, columns=columns)
    assert code == 0
    assert max(map(len, told.splitlines())) <= columns
    assert "\N{HORIZONTAL ELLIPSIS}" not in told
    for word in (
        "guaranteed",
        "led",
        "practical",
        "rounds until loose",
        "regret paid to safety",
        "rounds until it pays",
    ):
        assert word in told
    assert len(re.findall(r"\([\d.,e]+ to [\d.,e]+\)", told)) == (15 if more else 0)


def test_old_names_still_work_and_are_not_shown() -> None:
    """They are the names of before: `surefoot plan`, and --constraints."""
    new = CliRunner().invoke(app, ["forecast", "--guardrails", "2"]).stdout
    assert "2 guardrails" in new
    for words in ("forecast --constraints 2", "plan --guardrails 2", "plan --constraints 2"):
        assert CliRunner().invoke(app, words.split()).stdout == new
    shown = CliRunner().invoke(app, ["--help"]).stdout + call("--help")[1]
    assert "forecast" in shown
    assert "--guardrails" in shown
    assert not re.search(r"\bplan\b|constraints", shown)


def test_harder_is_later() -> None:
    label = "rounds until loose"
    assert said(label) < said(label, "--margin", 0.1) < said(label, "--margin", 0.05)
    assert said(label) < said(label, "--delta", 0.001)
    assert said(label, "--deviation", 0.1) < said(label)
    days = "days of [\\d.,e]+ decisions"
    assert said(days, "--traffic", 100_000) < said(days) < said(days, "--traffic", 100)
    assert said(days, "--traffic", 1000) == pytest.approx(said(label) / 1000, rel=0.01)


def test_that_the_formula_is_an_upper_estimate_is_said_beside_it() -> None:
    _, told, _ = call()
    rows = {line.split()[0]: line for line in told.splitlines() if "rounds until loose" in line}
    assert ["(upper estimate)" in rows[name] for name in ("guaranteed", "led", "practical")] == [False, True, True]
    assert "--simulate measures all of this" in told
    assert "upper estimate" not in call("--slack", 0.1)[1]  # there it is not
    simulated = call("--simulate", "--deviation", 0.1, "--seeds", 3)[1]
    assert "(upper estimate)" not in simulated  # the measured number stands beside it
    assert "--simulate measures" not in simulated


def test_it_names_the_page_with_the_derivation_and_speaks_of_limits() -> None:
    for told in (call()[1], call("--guardrails", 2, "--slack", 0.1)[1]):
        assert "docs/forecast.md" in told
        assert "threshold" not in told
    assert "which the limit holds back" in " ".join(call()[1].split())


def test_what_takes_too_long_to_simulate_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "WORK", 60_000)
    assert "not all within 1,000" in call("--simulate", "--margin", 0.01, "--seeds", 6)[1]


def test_what_breaks_a_rule_is_refused() -> None:
    for arguments, sentence in (
        (("--margin", 0.7), "margin must be at most threshold = 0.5, got 0.7\n"),
        (("--arms", 1), "arms must be a whole number >= 2, got 1\n"),
        (("--traffic", 0), "traffic must be in (0, 1e+15], got 0.0\n"),
        (("--deviation", 0.6), "deviation must be in [0, 0.5], got 0.6\n"),
        (
            ("--arms", 5000, "--simulate"),
            "arms (guardrails + 1) must be at most 2000 to be simulated 10 times in seconds, got 10000\n",
        ),
    ):
        assert call(*arguments) == (2, "", sentence)
    assert call("--seeds", 1)[0] == 2
