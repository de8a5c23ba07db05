"""Reports of grids and of many scenarios: maps, standings, tables that sort, pages of single cells."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import surefoot as sf
from surefoot.reporting import maps, report, words
from surefoot.reporting.report import write_report
from surefoot.reporting.results import results
from surefoot.reporting.sheets import MEASURES, Axis, Sheet, sheets
from surefoot.reporting.standings import FEWEST_SEEDS, standings
from surefoot.simulation.study import Study

pytestmark = pytest.mark.filterwarnings("ignore:the margin")

GRID = """
seeds = 2
checkpoints = [200]
horizon = {grid = [200, 400]}
[[scenarios]]
id = "lower-bound-v1"
margin = {grid = [0.1, 0.2, 0.3]}
n_arms = {grid = [3, 5, 8, 9]}
where = "not (n_arms == 9 and margin == 0.3)"
[[policies]]
policy = "always-safe"
[[policies]]
policy = "ucb1"
where = "n_arms < 9"
[[policies]]
policy = "epsilon-greedy"
gap = {grid = [0.1, 0.5]}
"""
LINES = """
seeds = 3
horizon = 200
checkpoints = [200]
scenarios = [{id = "stochastic-v1"}]
policies = [
  {policy = "epsilon-greedy", gap = {grid = [0.1, 0.3, 0.5]}}, {policy = "ucb1"}, {policy = "always-safe"},
]
"""


def ran(text: str) -> sf.Run:
    return Study.parse(text, Path(), "grid.toml").run(workers=1)


@pytest.fixture(scope="module")
def gridded() -> sf.Run:
    return ran(GRID)


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def sheets_in(run: sf.Run) -> list[Sheet]:
    ((_, _, listed),) = sheets(results(run), run.provenance["grid"])
    return listed


# What varies


def test_policies_that_vary_and_those_that_do_not_have_sheets_of_their_own(gridded: sf.Run) -> None:
    plain, own = sheets_in(gridded)
    assert [axis.name for axis in plain.axes] == ["margin", "n_arms", "horizon"]
    assert [axis.name for axis in own.axes] == ["margin", "n_arms", "horizon", "gap"]
    assert [len(cells) for cells in plain.policies.values()] == [22, 18]  # without what conditions leave out
    assert [len(cells) for cells in own.policies.values()] == [44]


def test_every_cell_is_at_its_place(gridded: sf.Run) -> None:
    at = gridded.provenance["grid"]["scenarios"]
    for sheet in sheets_in(gridded):
        for cells in sheet.policies.values():
            for place, policy in cells.items():
                there = {axis.name: axis.values[i] for axis, i in zip(sheet.axes, place, strict=True)}
                assert at[policy.final["scenario"]]["at"].items() <= there.items()


def test_a_map_has_the_values_of_its_cells(gridded: sf.Run) -> None:
    sheet, _ = sheets_in(gridded)
    across, down, rest = maps.arranged(sheet.axes)
    assert (sheet.axes[across].name, sheet.axes[down].name) == ("n_arms", "margin")
    drawn = maps.panel(sheet, MEASURES[0], "ucb1", (1,), (across, down, rest))
    assert drawn.further == "horizon=400"
    assert np.isnan(drawn.values[:, 3]).all()  # with 9 arms it did not play
    row = {(one["scenario"], one["policy"]): one for one in gridded.summary().to_pylist()}
    cell = row["lower-bound-v1, margin=0.2, n_arms=8, horizon=400", "ucb1"]
    assert drawn.values[1, 2] == cell["regret"]


def test_cells_that_are_surely_unsafe_are_framed_and_no_others() -> None:
    run = ran(
        LINES.replace(
            'id = "stochastic-v1"', 'id = "tight-margin-v1", margin = {grid = [0.1, 0.2]}, delta = {grid = [0.01, 0.9]}'
        )
    )
    sheet, _ = sheets_in(run)
    framed = maps.panel(sheet._replace(delta=0.01), MEASURES[2], "ucb1", (), (0, 1, [])).framed
    assert len(framed) == 4  # 3 of 3 runs: an interval from 0.29 on
    assert maps.panel(sheet._replace(delta=0.3), MEASURES[2], "ucb1", (), (0, 1, [])).framed == []
    assert maps.panel(sheet._replace(delta=0.01), MEASURES[2], "always-safe", (), (0, 1, [])).framed == []


def test_what_does_not_vary_is_a_reference_where_only_a_policy_does() -> None:
    (sheet,) = sheets_in(ran(LINES))
    assert list(sheet.references) == ["ucb1", "always-safe"]
    assert [axis.values for axis in sheet.axes] == [[0.1, 0.3, 0.5]]


def test_more_maps_than_fit_are_thinned_and_the_reader_is_told() -> None:
    axes = [Axis(name, list(range(size))) for name, size in (("a", 9), ("b", 9), ("c", 5), ("d", 30))]
    sheet = Sheet("x", axes, {"p": {}, "q": {}}, {}, 0.05, True)
    across, down, rest = maps.arranged(sheet.axes)
    assert (across, down, rest) == (3, 0, [1, 2])
    assert len(maps.chosen(sheet, rest)) == maps.MOST_PANELS // 2
    assert "30 of 45 combinations" in maps.note(sheet)


# The page


@pytest.mark.parametrize("text", [GRID, LINES])
def test_a_grid_is_shown_by_maps_and_lines_with_their_data(text: str, gridded: sf.Run, tmp_path: Path) -> None:
    run = gridded if text == GRID else ran(text)
    page = write_report(run, tmp_path, "again").read_text()
    figures = sorted(path.stem for path in (tmp_path / "figures").glob("*.svg"))
    listed = sheets_in(run)
    assert len(figures) == 3 * len(listed)
    assert page.count("<img ") == len(figures)
    for name in figures:
        ElementTree.parse(tmp_path / "figures" / f"{name}.svg")
        assert read(tmp_path / "figures" / f"{name}.csv")
    assert page.count("<h2>") == (4 if text == GRID else 3)  # no section for a cell
    count = sum(len(cells) for sheet in listed for cells in sheet.policies.values())
    count += sum(len(sheet.references) for sheet in listed)
    assert page.count('<tr role="row">') >= count


def test_a_grid_without_violations_says_so_instead_of_drawing_zeros(tmp_path: Path) -> None:
    text = LINES.replace('{policy = "ucb1"}, ', "").replace(
        '"epsilon-greedy", gap = {grid = [0.1, 0.3, 0.5]}', '"solb", preset = {grid = ["paper", "practical"]}'
    )
    page = write_report(ran(text), tmp_path, "again").read_text()
    assert page.count("<img ") == 1
    assert "No run violated a guardrail in any of these combinations" in page


def test_a_cell_has_a_page_of_its_own_when_it_is_asked_for(gridded: sf.Run, tmp_path: Path) -> None:
    name = "lower-bound-v1, margin=0.2, n_arms=8, horizon=400"
    path = write_report(gridded, tmp_path, "again", only=[name])
    assert path.name.startswith("report-lower-bound-v1-margin-0-2")
    page = path.read_text()
    assert f"<h2>{name}</h2>" in page
    assert page.count("<img ") >= 3
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(sf.RuleError, match=r"^scenario must be one of \"lower-bound-v1, .*, \.\.\., got 'other'$"):
        write_report(gridded, tmp_path / "new", only=["other"])
    assert not (tmp_path / "new").exists()


def test_many_scenarios_have_maps_and_their_figures_only_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(worlds=2)
    assert write_report(run, tmp_path / "all").read_text().count("<img ") == 2 * 5
    monkeypatch.setattr(report, "FEW_SCENARIOS", 1)
    few = write_report(run, tmp_path / "few").read_text()
    assert few.count("<img ") == 3
    assert "surefoot show" in few
    assert not list((tmp_path / "few" / "figures").glob("w0*"))
    drawn: list[str] = []

    def noted(_: object, name: str, *__: object) -> dict[str, object]:
        drawn.append(name)
        return {"caption": "", "image": "", "wide": False}

    monkeypatch.setattr(report.Page, "figure", noted)
    write_report(run, tmp_path / "demanded", figures=True)
    assert sum(name.startswith("w") for name in drawn) == 2 * 5


# Standings


class Plays:
    """Plays one arm, or another one in some seeds."""

    def __init__(self, arm: int, kind: str = "none") -> None:
        self._arm, self.kind = arm, kind

    def __call__(self, problem: sf.Problem, seed: int) -> Any:
        class Player:
            kind = self.kind
            strategy = np.eye(problem.n_arms)[self._arm]

            def ask(player) -> sf.Decision:  # noqa: N805
                return sf.Decision(self._arm, 1.0)

            def tell(player, decision: sf.Decision, loss: float, costs: list[float]) -> None:  # noqa: N805
                pass

        return Player()


def played(seeds: int = FEWEST_SEEDS, worlds: int = 3) -> sf.Run:
    problem = sf.Problem(3, [0.5], 60)
    runs = [
        sf.simulate(
            sf.Scenario(f"w{i}", problem, sf.losses.Bernoulli([0.1, 0.5, 0.8]), sf.costs.Fixed([[0.9, 0.2, 0.1]])),
            {"risky": Plays(0), "good": Plays(1, "hard"), "bad": Plays(2)},
            seeds, [60], 1,
        )
        for i in range(worlds)
    ]  # fmt: skip
    return sf.Run.joined(runs)


def test_safe_policies_come_first_and_then_those_that_lose_least() -> None:
    listed = standings(results(played()))
    assert [(one.policy, one.rank, one.safe) for one in listed] == [
        ("good", 1, True),
        ("bad", 2, True),
        ("risky", 3, False),
    ]
    assert listed[0].ranks == (1, 1)  # 180 rounds apart by 0.3 a round
    assert [one.unsafe_runs for one in listed] == [0, 0, 3 * FEWEST_SEEDS]
    assert listed[2].violation.value == pytest.approx(0.4)
    assert listed[0].regret.value < listed[1].regret.value


def test_ranks_have_intervals_only_from_enough_seeds() -> None:
    assert all(one.ranks is None for one in standings(results(played(seeds=FEWEST_SEEDS - 1))))


def test_ranks_of_equals_overlap() -> None:
    problem = sf.Problem(2, [], 50)
    scenario = sf.Scenario("w", problem, sf.losses.Bernoulli([0.5, 0.5]))
    run = sf.simulate(scenario, {"one": Plays(0), "other": Plays(1)}, 8, [50], 1)
    assert [one.ranks for one in standings(results(run))] == [(1, 2), (1, 2)]


def test_one_unsafe_run_of_many_is_not_held_against_a_policy() -> None:
    run = played(seeds=8)
    drawn = results(run)
    for scenario in drawn:
        scenario.policies[0].final.update(violating_runs=0)
    drawn[0].policies[0].final.update(violating_runs=1)
    assert standings(drawn)[0].policy == "risky"
    drawn[0].policies[0].final.update(violating_runs=5)  # far more than delta = 0.05 of 8
    assert standings(drawn)[-1].policy == "risky"


def test_who_knows_the_costs_or_did_not_play_everywhere_has_no_rank() -> None:
    text = """
    seeds = 2
    horizon = 100
    scenarios = [{id = "stochastic-v1"}, {id = "three-arms-v1"}]
    policies = [{policy = "oracle"}, {policy = "always-safe"}, {policy = "safe-exp3", where = "n_arms == 3"}]
    """
    listed = standings(results(ran(text)))
    assert {one.policy: one.rank for one in listed} == {"oracle": None, "always-safe": 1, "safe-exp3": None}
    assert words.standing(listed[-1], 2)[1] == "safe-exp3 (in 1 of 2)"


def test_the_standings_are_in_the_report_and_their_data_beside_it(tmp_path: Path) -> None:
    page = write_report(played(), tmp_path, figures=False).read_text()
    assert page.index("<h2>Standings</h2>") < page.index("<h2>w0</h2>")
    rows = read(tmp_path / "figures" / "standings.csv")
    assert [(row["rank"], row["policy"]) for row in rows] == [("1", "good"), ("2", "bad"), ("3", "risky")]
    assert page.count('class="unsafe"') == 1


def test_tables_sort_in_the_browser(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium")
    path = write_report(played(), tmp_path, figures=False)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.goto(f"file://{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        names = "[...document.querySelectorAll('#standings tbody tr')].map(row => row.cells[1].textContent)"
        assert page.evaluate(names) == ["good", "bad", "risky"]
        page.click("#standings th:has-text('policy') button")
        assert page.evaluate(names) == ["bad", "good", "risky"]
        page.click("#standings th:has-text('violation') button")
        assert page.evaluate(names)[-1] == "risky"
        page.click("#standings th:has-text('violation') button")
        assert page.evaluate(names)[0] == "risky"
        assert page.get_attribute("#standings th:has-text('violation')", "aria-sort") == "descending"
        browser.close()
