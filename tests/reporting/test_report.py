"""The report stands alone, shows everything it should, and survives odd runs."""

from __future__ import annotations

import base64
import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import surefoot as sf
from surefoot.reporting import figures, story, words
from surefoot.reporting.report import write_report
from surefoot.reporting.results import results
from surefoot.reporting.simplex import still, subject
from surefoot.reporting.style import Look, short, styled

POLICIES: dict[str, Any] = {
    "solb": lambda problem, seed: sf.SOLB(problem, seed, preset="paper", learning_rate=0.3),
    "colb": lambda problem, seed: sf.COLB(problem, seed, preset="paper", learning_rate=0.3),
    "<i>no & guardrails</i>": lambda problem, seed: sf.LogBarrier(problem, seed, learning_rate=0.3),
}


def simulated(id: str, seeds: int = 3, **options: Any) -> sf.Run:
    return sf.simulate(sf.scenarios.make(id, horizon=600, **options), POLICIES, seeds, workers=1)


class Page(HTMLParser):
    """The tags of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def attributes(self, tag: str, name: str) -> list[str]:
        return [attributes.get(name) or "" for found, attributes in self.tags if found == tag]


@pytest.fixture(scope="module")
def three_arms(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    path = write_report(simulated("three-arms-v1"), folder, "surefoot run x.toml")
    return path.read_text(encoding="utf-8"), folder


def test_the_page_needs_nothing_else(three_arms: tuple[str, Path]) -> None:
    text, _ = three_arms
    page = Page(text)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.attributes("img", "src"))
    assert not {"link", "iframe"} & {tag for tag, _ in page.tags}
    assert page.attributes("script", "src") == [""]  # one, which is in the page
    assert all(target.startswith(("#", "data:text/csv;base64,")) for target in page.attributes("a", "href"))
    assert "url(" not in text
    assert "viewport" in page.attributes("meta", "name")
    assert "@media print" in text


def test_every_figure_is_there_with_words_and_in_two_formats(three_arms: tuple[str, Path]) -> None:
    text, folder = three_arms
    page = Page(text)
    names = {path.stem.removeprefix("three-arms-v1-") for path in (folder / "figures").glob("*.svg")}
    assert names == set(figures.CAPTIONS)
    assert len(page.attributes("img", "alt")) == len(names)
    assert all(page.attributes("img", "alt"))
    for name in names:
        assert (folder / "figures" / f"three-arms-v1-{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(folder / "figures" / f"three-arms-v1-{name}.svg")


def test_axes_are_labelled(three_arms: tuple[str, Path]) -> None:
    _, folder = three_arms
    for name, labels in {
        "regret": ("round", "regret"),
        "violation": ("round", "violation"),
        "plane": ("total violation", "regret"),
        "safe-weight": ("round", "safe weight"),
        "allocation": ("round", "share of each arm"),
    }.items():
        drawn = (folder / "figures" / f"three-arms-v1-{name}.svg").read_text()
        for label in labels:
            assert f">{label}</text>" in drawn, (name, label)


def test_names_are_escaped(three_arms: tuple[str, Path]) -> None:
    text, _ = three_arms
    assert "<i>no" not in text
    assert "&lt;i&gt;no &amp; guardrails&lt;/i&gt;" in text


def test_the_baseline_has_one_name(three_arms: tuple[str, Path]) -> None:
    text, folder = three_arms
    drawn = "".join(path.read_text() for path in (folder / "figures").glob("*.svg"))
    for said in (re.sub(r"data:[^\"]*", "", text), drawn):
        said = re.sub(r"best\s+safe\s+strategy", "", said)  # the benchmark
        assert not re.search(r"safe\s+strategy", said)
        assert "baseline" in said


def test_only_figures_that_a_phone_cannot_show_whole_are_scrolled(three_arms: tuple[str, Path]) -> None:
    text, _ = three_arms
    wide = re.findall(r'<figure(?: class="(wide)")?>.*?download="three-arms-v1-([a-z-]+)\.csv"', text)
    assert [name for found, name in wide if found] == ["allocation", "simplex-sequence"]  # one guardrail: costs fit


def test_names_of_corners_are_not_cut() -> None:
    (drawn,) = results(simulated("three-arms-v1"))
    chosen = subject(drawn)
    assert chosen is not None
    with styled():
        figure = still(drawn, chosen)
        figure.draw_without_rendering()
        corners = [text for text in figure.axes[0].texts if text.get_text() in drawn.arms]
        assert len(corners) == 3
        assert all(text.get_window_extent().x0 >= 0 for text in corners)


def test_how_to_make_it_again_is_told(three_arms: tuple[str, Path]) -> None:
    text, _ = three_arms
    assert "<pre>surefoot run x.toml</pre>" in text
    assert f"surefoot {sf.__version__}" in text


def test_the_simplex_is_drawn_for_three_arms_and_a_hard_policy_first() -> None:
    drawn = results(simulated("three-arms-v1"))[0]
    chosen = subject(drawn)
    assert chosen is not None
    assert chosen.name == "solb"
    assert subject(results(simulated("stochastic-v1"))[0]) is None
    alone = sf.simulate(sf.scenarios.make("three-arms-v1", horizon=300), {"free": sf.LogBarrier}, 1, workers=1)
    assert subject(results(alone)[0]) is None


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize("id", ["many-constraints-v1", "many-arms-v1", "adaptive-v1"])
def test_other_sizes_can_be_reported(id: str, tmp_path: Path) -> None:
    assert write_report(simulated(id, seeds=1), tmp_path, "again").is_file()


def test_a_plain_bandit_can_be_reported(tmp_path: Path) -> None:
    scenario = sf.Scenario("plain-v1", sf.Problem(2, [], 100), sf.losses.Bernoulli([0.2, 0.8]))
    run = sf.simulate(scenario, {"free": sf.LogBarrier}, 1, workers=1)
    assert "no guardrails" in write_report(run, tmp_path, "again").read_text()


def test_a_run_that_was_stopped_says_so(tmp_path: Path) -> None:
    run = simulated("three-arms-v1")
    run.provenance["simulations"][0]["missing_episodes"] = 3
    assert "not complete" in write_report(run, tmp_path, "again").read_text()


def test_every_figure_offers_its_data(three_arms: tuple[str, Path]) -> None:
    text, folder = three_arms
    page = Page(text)
    offered = [(one["download"], one["href"]) for tag, one in page.tags if tag == "a" and "download" in one]
    assert {name for name, _ in offered} == {f"{path.stem}.csv" for path in (folder / "figures").glob("*.svg")}
    for name, address in offered:
        assert name is not None
        assert address is not None
        content = base64.b64decode(address.removeprefix("data:text/csv;base64,"))
        assert (folder / "figures" / name).read_bytes() == content
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        assert {row["policy"] for row in rows} <= set(POLICIES)
        assert len(rows) >= 1


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_data_of_a_figure_is_what_it_shows(three_arms: tuple[str, Path]) -> None:
    _, folder = three_arms
    (drawn,) = results(simulated("three-arms-v1"))
    for name in ("regret", "violation"):
        rows = read(folder / "figures" / f"three-arms-v1-{name}.csv")
        for policy in drawn.policies:
            mine = [float(row[name]) for row in rows if row["policy"] == policy.name]
            assert mine == policy.series(name).tolist()
    shares = read(folder / "figures" / "three-arms-v1-allocation.csv")
    assert all(sum(float(row[arm]) for arm in drawn.arms) == pytest.approx(1.0) for row in shares)


def test_few_policies_have_a_colour_each_and_of_many_the_best_do() -> None:
    names = [f"policy {i}" for i in range(22)]
    few = Look(names[:7])
    assert len(set(few.colour.values())) == 7
    assert all(map(few.stands_out, names[:7]))
    look = Look(names, best=["policy 9", "policy 3"])
    assert look.stands_out("policy 9")
    assert look.stands_out("policy 3")
    assert sum(map(look.stands_out, names)) == 7
    assert len({look.colour[name] for name in names if look.stands_out(name)}) == 7
    assert Look([*names, *names], best=["policy 9", "policy 3"]).colour == look.colour
    kin = Look(["a", "b"], families={"a, x=1": "a", "a, x=2": "a"})
    assert kin.colour["a, x=1"] == kin.colour["a, x=2"] == kin.colour["a"] != kin.colour["b"]


class TestWords:
    def verdict(self, strategies: list[list[float]], costs: list[list[float]], thresholds: list[float]) -> str:
        class Plays:
            def __init__(self, problem: sf.Problem, seed: int) -> None:
                self.strategy = np.array(strategies[seed_number(seed) % len(strategies)])

            def ask(self) -> sf.Decision:
                return sf.Decision(int(self.strategy.argmax()), float(self.strategy.max()))

            def tell(self, decision: sf.Decision, loss: float, costs: list[float]) -> None:
                pass

        def seed_number(seed: int) -> int:
            from surefoot.simulation.world import policy_seed

            return [policy_seed(number) for number in range(4)].index(seed) if seed else 0

        problem = sf.Problem(len(costs[0]), thresholds, 50)
        scenario = sf.Scenario("x-v1", problem, sf.losses.Fixed([0.5] * len(costs[0])), sf.costs.Fixed(costs))
        drawn = results(sf.simulate(scenario, {"p": Plays}, 4, workers=1))[0]
        return story.verdict(drawn.policies[0], drawn).replace(story.GLUE, " ")

    def test_kept(self) -> None:
        assert self.verdict([[0, 1]], [[0.9, 0.1]], [0.5]) == "kept in every round of all 4 runs"

    def test_broken_in_all_runs(self) -> None:
        told = self.verdict([[1, 0]], [[0.9, 0.1], [0.1, 0.1]], [0.5, 0.5])
        assert told == "over in 100 % of the rounds"

    def test_broken_in_some_runs(self) -> None:
        told = self.verdict([[1, 0], [0, 1]], [[0.9, 0.1]], [0.5])
        assert told == "over in 50 % of the rounds; kept in 2 of 4 runs"

    def test_just_over(self) -> None:
        assert self.verdict([[0.51, 0.49]], [[0.9, 0.1]], [0.5]) == "over in 100 % of the rounds, by little"

    def test_no_share_reads_as_nothing_or_everything_when_it_is_not(self) -> None:
        told = [words.percent(share).replace(story.GLUE, " ") for share in (0.001, 0.9999, 1.0, 0.5)]
        assert told == ["less than 1 %", "more than 99 %", "100 %", "50 %"]

    def test_numbers(self) -> None:
        assert [words.number(x) for x in (0, 12345.6, -5.678, 0.0123)] == ["0", "12,346", "-5.68", "0.0123"]
        assert [short(x) for x in (0, 1500, -2e6, 0.25)] == ["0", "1.5k", "\N{MINUS SIGN}2M", "0.25"]
        told = words.safe_share(results(simulated("three-arms-v1", 10))[0].policies[0])
        assert told == f"10 of 10 (69\N{EN DASH}100{story.GLUE}%)"


@pytest.mark.parametrize("run", ["x", None, {}, sf.Run])
def test_what_is_no_run_is_refused(run: Any, tmp_path: Path) -> None:
    with pytest.raises(sf.RuleError, match=r"^run must be a Run, got"):
        sf.write_report(run, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_may_be_a_text_or_a_path_and_nothing_else(tmp_path: Path) -> None:
    run = simulated("stochastic-v1", seeds=1)
    told, pathlike = (sf.write_report(run, kind(tmp_path / kind.__name__)) for kind in (str, Path))
    assert told.read_text() == pathlike.read_text()
    with pytest.raises(sf.RuleError, match=r"^folder must be the name of a folder, got 3$"):
        sf.write_report(run, 3)  # type: ignore[arg-type]


def test_a_percent_sign_of_a_verdict_stays_with_its_number(three_arms: tuple[str, Path]) -> None:
    lines = re.findall(r'<li class="(?:kept|close|broken|none)">.*?</li>', three_arms[0])
    assert any("\N{NO-BREAK SPACE}%" in line for line in lines)
    assert not any(" %" in line for line in lines)
