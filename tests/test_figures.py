"""Figures on pages are those of their data: appendices, data files, or the command that makes them."""

from __future__ import annotations

import csv
import math
import re
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import surefoot as sf
from benchmarks import safety_designs
from surefoot.analysis.statistics import share_interval
from surefoot.cli.studies import DEMO
from surefoot.policies.solb import HardMirror
from surefoot.reporting.results import results
from surefoot.reporting.story import GLUE
from surefoot.reporting.words import told
from surefoot.simulation.study import Study
from surefoot.theory.at_scale import LEVEL
from surefoot.theory.bounds import Instance, led, theorem_r
from website.pictures import loosening, routing

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
Row = dict[str, str]


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def flat(path: str) -> str:
    return " ".join(text(path).split())


def tables(path: str) -> list[list[Row]]:
    """The tables of a page; a row has its cells by the head of their column."""
    found: list[list[Row]] = []
    head: list[str] = []
    for line in text(path).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
            found.append([])
        elif not set(line) <= set("|- "):
            found[-1].append(dict(zip(head, cells, strict=True)))
    return found


def number(cell: str) -> float:
    return float(cell.strip("* ").replace(",", ""))


def near(cell: str, value: float) -> bool:
    """Whether a figure is that of a simulation; on another processor the last digits of a run may differ."""
    return abs(number(cell) - value) <= max(2.0, 0.01 * abs(value))


# The league

NAMES = {
    "SOLB": "solb", "OPB": "opb", "SafeExp3": "safe-exp3", "SafeOptimisticLP": "safe-optimistic-lp",
    "SOLB, paper": "solb, paper", "safe strategy alone": "always-safe", "COLB": "colb", "OptimisticLP": "optimistic-lp",
    "SoftExp3": "soft-exp3", "LinConTS": "lincon-ts", "COLB, paper": "colb, paper",
}  # fmt: skip


@cache
def league() -> dict[tuple[str, str], list[str]]:
    """What the appendix says of a policy in a world: regret, violation, runs without violation, time."""
    found = {}
    for rows in tables("docs/league-data.md"):
        for row in rows:
            for world, cell in list(row.items())[1:]:
                found[row["policy"], world] = [one.strip() for one in cell.split("/")]
    return found


def test_the_league_has_the_figures_of_its_appendix() -> None:
    hard, soft = tables("docs/league.md")
    worlds = {world for _, world in league()}
    assert {row["scenario"].strip("`") for row in hard} == {row["scenario"].strip("`") for row in soft} == worlds
    best, unsafe = 0, dict.fromkeys(NAMES, 0)
    for row in hard:
        world = row["scenario"].strip("`")
        for name in list(row)[1:]:
            regret, violation, kept, _ = league()[NAMES[name], world]
            assert row[name].strip("*") == regret, (name, world)
            unsafe[name] += 10 - int(kept)
            assert (violation == "0") == (kept == "10")
        least = min(list(row)[1:], key=lambda name: number(row[name]))
        assert [name for name in row if "**" in row[name]] == [least]
        best += least == "SOLB"
    assert {name: runs for name, runs in unsafe.items() if runs} == {"SOLB": 1}
    assert "unsafe in 1 of 140 runs" in flat("docs/league.md")
    assert best == 13
    for row in soft:
        for name in list(row)[1:]:
            assert row[name] == " / ".join(league()[NAMES[name], row["scenario"].strip("`")][:2])


def test_sentences_of_the_league_follow_from_the_appendix() -> None:
    def violation(policy: str, world: str) -> float:
        return number(league()[policy, world][1])

    worlds = {world for _, world in league()}
    fewer = [
        world
        for world in worlds
        if violation("colb", world) > 0
        and all(violation("colb", world) < 0.4 * violation(peer, world) for peer in ("optimistic-lp", "soft-exp3"))
    ]
    assert len(fewer) == 10
    assert violation("colb", "stochastic-v1") == 372
    assert "the sum is 372 after 20,000 rounds: 0.019 a round" in flat("docs/faq.md")


# The presets

LINES = {
    "five arms, one guardrail": "fresh stochastic", "the same, losses switch": "fresh switching",
    "the same, losses drift": "fresh drift", "the same, costs vary little": "fresh Beta costs",
    "the same, the best hardly loses": "fresh small loss", "eight arms, three guardrails": "K=8, m=3, stochastic",
    "fifty arms": "K=50", "a margin of 0.05": "margin 0.05",
}  # fmt: skip


PAIR = ("led", "practical")


@cache
def beside_practical() -> dict[str, Row]:
    """What docs/led-data.md says of "led" beside "practical", by world."""
    rows = next(rows for rows in tables("docs/led-data.md") if "restarts" in rows[0])
    return {row["scenario"]: row for row in rows}


@cache
def regrets() -> dict[str, Row]:
    """The grid of the appendix: by world, the regret of each policy."""
    found: dict[str, Row] = {}
    for rows in tables("docs/practical-data.md"):
        for row in rows:
            if "scenario" in row:
                found.setdefault(row["scenario"], {}).update(row)
    return found


def test_the_regrets_of_the_presets_are_those_of_the_appendix() -> None:
    shown = next(rows for rows in tables("docs/practical.md") if "scenario" in rows[0])
    assert {row["scenario"] for row in shown} == set(LINES)
    for row in shown:
        source = regrets()[LINES[row["scenario"]]]
        assert [row[name] for name in PAIR] == [beside_practical()[LINES[row["scenario"]]][name] for name in PAIR]
        for name in ("guaranteed", "paper", "oracle"):
            assert row[name] == source[name], (row["scenario"], name)
        assert row["OPB"] == source["opb"]


@pytest.mark.parametrize(
    ("world", "share", "words"),
    [
        ("fresh stochastic", "7", "7 % of it on random scenarios"),
        ("fresh Beta costs", "2", "2 % if costs vary little"),
        ("fresh small loss", "0.3", "0.3 % if the best safe strategy hardly loses"),
    ],
)
def test_shares_of_the_papers_regret_follow_from_the_appendix(world: str, share: str, words: str) -> None:
    led, paper = (number(row.split(" ±")[0]) for row in (beside_practical()[world]["led"], regrets()[world]["paper"]))
    assert f"{100 * led / paper:.{len(share.partition('.')[2])}f}" == share
    assert words in flat("docs/practical.md")
    if world == "fresh stochastic":
        assert f'{share} % of that of "paper" on random scenarios' in flat("README.md")


def test_the_measured_regrets_beside_the_theorems_are_those_of_the_appendices() -> None:
    rows = next(rows for rows in tables("docs/theory/beyond-the-paper.md") if '"led"' in rows[0])
    for row in rows:
        world = next(iter(row.values()))
        assert [row[f'"{name}"'] for name in PAIR] == [beside_practical()[world][name] for name in PAIR], world


def test_theorems_for_the_losses_of_scenarios_are_what_is_computed() -> None:
    [rows] = [
        rows for rows in tables("docs/theory/beyond-the-paper.md") if "Theorem R" in rows[0] and "T - L*" in rows[0]
    ]
    for row in rows:
        scenario = sf.scenarios.make(row[""], horizon=1_000_000, delta=1e-6)
        run = sf.simulate(scenario, {"safe": sf.AlwaysSafe}, [700], [1_000_000], 1, progress=False)
        instance = Instance.measured(scenario.problem, run.table.to_pylist()[0])
        assert number(row["T - L*"]) == round(theorem_r(instance).trivial)
        assert number(row["Theorem R"]) == round(theorem_r(instance).total)
        assert number(row["Theorem L"]) == round(led(instance).total)
    assert f"it says {rows[0]['Theorem R']}" in flat("docs/theory/practical.md")


def test_what_pages_say_of_led_beside_practical_follows_from_its_table() -> None:
    """On how many lines it loses at most a tenth more, and the mean ratio; differences count if they are clear."""
    within, ratios = 0, []
    for row in beside_practical().values():
        found, half = row["led / practical"].strip("()").split(" ± ")
        if "(" in row["led / practical"]:
            within += number(found) <= number(half)
        else:
            within += number(found) <= 1.1
            ratios.append(number(found))
    assert (within, len(beside_practical()), len(ratios)) == (45, 49, 37)
    assert f"mean of the 37 ratios is {np.mean(ratios):.2f}" in flat("docs/led-data.md")
    assert "On 45 of 49 lines" in flat("docs/led-data.md")
    for page in ("docs/choosing.md", "CHANGELOG.md"):
        assert 'at most a tenth more than "practical" in 45 of 49' in flat(page)


MANY = (
    "K=8, m=2, stochastic", "K=8, m=3, stochastic", "K=50", "K=10", "K=20", "K=10, m=5", "mixture, m=2, margin 0.15",
    "many-arms-v1", "many-constraints-v1",
)  # fmt: skip
"""Lines with more than 8 arms times guardrails whose losses do not change."""


def test_led_with_many_arms_or_guardrails_is_as_pages_say() -> None:
    ratios = [number(beside_practical()[line]["led / practical"].split(" ±")[0]) for line in MANY]
    for page in ("docs/choosing.md", "docs/policies.md"):
        assert f"{min(ratios):.2f} to {max(ratios):.2f} times as much" in flat(page)


def test_groups_of_small_settings_are_as_the_page_says() -> None:
    [cross] = [rows for rows in tables("docs/practical-data.md") if "K, m" in rows[0]]
    worst = {peer: max(number(row[f"/ {peer}"].split(" ±")[0]) for row in cross) for peer in ("paper", "opb")}
    assert worst["paper"] < 0.49
    assert worst["opb"] == 0.58
    assert "at most 0.49 times the regret of paper" in flat("docs/practical.md")


@cache
def safety() -> dict[str, tuple[int, int]]:
    """From docs/data/safety.csv: runs with a violation and all runs, by preset."""
    found: dict[str, tuple[int, int]] = {}
    with (DOCS / "data" / "safety.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            bad, all_ = found.get(row["policy"], (0, 0))
            found[row["policy"]] = bad + (int(row["rounds_in_violation"]) > 0), all_ + 1
            assert int(row["rounds_in_violation"]) == 0 or row["clean"] == "False"
    return found


def test_how_much_of_delta_is_used_is_what_the_study_found() -> None:
    assert safety() == {"practical": (6, 220), "paper": (0, 220), "guaranteed": (2, 220), "led": (3, 220)}
    shown = next(rows for rows in tables("docs/practical.md") if "rounds" in rows[0])[1]
    for preset, (bad, runs) in safety().items():
        interval = binomtest(bad, runs).proportion_ci(method="exact")
        low, high = (100 * float(end) for end in interval)
        ends = f"({low:.1f} to {high:.1f} %)" if bad else f"(0 to {high:.1f} %)"
        assert shown[preset] == (f"{bad}: {100 * bad / runs:.1f} % {ends}" if bad else f"none {ends}")
    assert '"led" exceeded a limit in 3 runs and "paper" in none' in flat("README.md")
    assert '"led" exceeded a limit in 3 (1.4 %) and "paper" in none' in flat("docs/faq.md")
    choosing = next(rows for rows in tables("docs/choosing.md") if "preset" in rows[0])
    assert [row[list(row)[-1]].split()[0] for row in choosing] == ["3", "6", "2", "0"]


@cache
def designs() -> list[Row]:
    with (DOCS / "data" / "safety-designs.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def exact(bad: int, runs: int, places: int) -> str:
    """A share in percent with its exact 95 % interval."""
    low, high = binomtest(bad, runs).proportion_ci(method="exact")
    return f"{100 * bad / runs:.{places}f} % ({100 * low:.{places}f} to {100 * high:.{places}f} %)"


def test_unsafe_runs_under_attack_are_those_of_the_data() -> None:
    shown = next(rows for rows in tables("docs/practical.md") if "most in one design" in rows[0])
    assert len(shown) == len(safety_designs.DELTAS) * len(safety_designs.POLICIES)
    for line in shown:
        delta = number(line["delta"].removesuffix(" %")) / 100
        of = [row for row in designs() if float(row["delta"]) == delta and row["policy"] == line["policy"]]
        assert [row["design"] for row in of] == [design.name for design in safety_designs.DESIGNS]
        bad, runs = (sum(int(row[name]) for row in of) for name in ("unsafe", "runs"))
        assert runs >= 10_000
        assert line["unsafe runs"] == f"{bad:,} of {runs:,}: {exact(bad, runs, 2)}"
        worst = max(of, key=lambda row: int(row["unsafe"]))
        most, each = int(worst["unsafe"]), int(worst["runs"])
        assert line["most in one design"] == f"{most:,} of {each:,}: {exact(most, each, 1)}, {worst['design']}"
        assert all(int(row["unsafe"]) <= delta * int(row["runs"]) for row in of)
    ends = []
    for delta in safety_designs.DELTAS:
        of = [row for row in designs() if float(row["delta"]) == delta and row["policy"] == "led"]
        assert all(int(row["runs"]) == 10_000 for row in of)
        ends.append(max(share_interval(int(row["unsafe"]), 10_000).high for row in of))
        assert ends[-1] < delta
    words = "at {:.1f} % or less where delta is 5 %, and at {:.1f} % or less where it is 50 %"
    assert words.format(*(100 * end for end in ends)) in flat("docs/practical.md")
    short, long = (
        next(row for row in designs() if (row["delta"], row["design"], row["policy"]) == ("0.5", name, "led"))
        for name in ("just above", "just above, long")
    )
    assert int(long["rounds"]) == 3 * int(short["rounds"])
    words = f"had {int(short['unsafe']):,} unsafe runs of 10,000 in 2,000 rounds, and {int(long['unsafe']):,} when"
    assert words in flat("docs/practical.md")
    assert f"{len(safety_designs.DESIGNS)} designs are made to break a limit" in flat("docs/practical.md")


@pytest.mark.parametrize("policy", safety_designs.POLICIES)
def test_unsafe_runs_under_attack_are_what_a_simulation_gives(policy: str) -> None:
    design = safety_designs.DESIGNS[0]
    [row] = [row for row in designs() if (row["delta"], row["design"], row["policy"]) == ("0.5", design.name, policy)]
    assert near(row["unsafe"], design.unsafe(policy, 0.5, int(row["runs"])))


def test_the_table_of_choosing_is_what_a_simulation_gives() -> None:
    rows = next(rows for rows in tables("docs/choosing.md") if "policy" in rows[0])
    made: dict[str, Any] = {
        "`SOLB`, led": lambda problem, seed: sf.SOLB(problem, seed, preset="led"),
        "`SOLB`, practical": lambda problem, seed: sf.SOLB(problem, seed, preset="practical"),
        "`SOLB`, guaranteed": lambda problem, seed: sf.SOLB(problem, seed, preset="guaranteed"),
        "`OPB`": sf.OPB,
        "`SafeExp3`": sf.SafeExp3,
    }
    assert [row["policy"] for row in rows] == list(made)
    for world in ("stochastic-v1", "switching-v1", "drifting-v1"):
        scenario = sf.scenarios.make(world, horizon=20_000)
        run = sf.simulate(scenario, made, seeds=10, checkpoints=[20_000], workers=2)
        found = {row["policy"]: row for row in run.summary().to_pylist()}
        for row in rows:
            one = found[row["policy"]]
            shown = re.findall(r"-?[\d,]+", row[world])
            for cell, key in zip(shown, ("regret", "regret_low", "regret_high"), strict=True):
                assert near(cell, one[key]), (world, row["policy"], key)
            assert one["violating_runs"] == 0


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction")
def test_rehearsals_have_the_figures_of_their_study() -> None:
    run = Study.read(ROOT / "studies" / "rehearsals.toml").run()
    over: dict[str, list[int]] = {}
    for row in run.table.to_pylist():
        over.setdefault(row["scenario"], []).append(row["rounds_in_violation"])

    def unsafe(scenario: str) -> list[int]:
        return [rounds for rounds in over[scenario] if rounds]

    rows = next(rows for rows in tables("docs/lab.md") if 'unsafe runs of 100, "live"' in rows[0])
    for row in rows:
        name = row["scenario"].strip("`")
        naive = unsafe(f"{name}, handling=arrival")
        counts = [len(unsafe(f"{name}, handling=live")), len(naive), median(naive)]
        assert all(near(cell, value) for cell, value in zip(list(row.values())[2:], counts, strict=True)), name
    words = (
        r"in `jump-v1` (\d+) of 100 runs are unsafe, for (\d+) rounds .* "
        r"in `drifting-costs-v1` (\d+), for ([\d,]+) rounds"
    )
    said = re.search(words, flat("docs/lab.md"))
    assert said is not None
    changing = [over["jump-v1"], over["drifting-costs-v1"]]
    found = [value for rounds in changing for value in (sum(map(bool, rounds)), median(rounds))]
    assert all(near(cell, value) for cell, value in zip(said.groups(), found, strict=True))


# Performance


def test_figures_of_performance_are_in_its_appendix() -> None:
    known = set(re.findall(r"\d[\d,.]*\d|\d", text("docs/performance-notes.md")))
    for rows in tables("docs/performance.md"):
        for row in rows:
            for head in ("figure", "ours", "compared with"):
                for figure in re.findall(r"\d[\d,.]*\d|\d", row.get(head, "")):
                    assert figure in known or figure == "99", (row["what"], figure)


def test_figures_in_the_prose_of_performance_are_in_its_appendix() -> None:
    """Whatever has a unit outside tables; "about" a figure is for the reader to round."""
    prose = " ".join(line for line in text("docs/performance.md").splitlines() if not line.startswith("|"))
    known = re.sub(r"\s+", " ", text("docs/performance-notes.md"))
    found = re.findall(r"(?<!about )(\d[\d,.]*) (ms|us|ns|s|%|times|GHz)\b", prose)
    found += re.findall(r"(?<!about )(\d[\d,.]*) (%)", prose)
    assert len(found) > 8
    for figure, unit in found:
        written = [f"{figure} {unit}", f"{figure}x", f"| {figure} ", f" {figure} to ", f"to {figure} "]
        assert any(one in known for one in written), (figure, unit)


def test_the_state_of_a_policy_is_as_large_as_the_appendix_says() -> None:
    rows = next(rows for rows in tables("docs/performance-notes.md") if "K (m = 1)" in rows[0])
    [shown] = [row for row in rows if row["K (m = 1)"] == "state"]
    for arms, cell in list(shown.items())[1:]:
        plan = HardMirror.algorithm.layout.arrangement(K=int(number(arms)), m=1)
        assert cell == f"{8 * (plan.n_floats + plan.n_integers) / 1024:,.0f} kB"


def test_the_size_of_results_and_the_times_of_large_studies_follow_from_the_page(tmp_path: Path) -> None:
    page = flat("docs/scale.md")
    said = re.search(r"([\d.]+) kB a run", page)
    assert said is not None
    scenario = sf.scenarios.make("stochastic-v1", horizon=100_000)
    paper = {"solb": lambda problem, seed: sf.SOLB(problem, seed, preset="paper", learning_rate=0.01)}
    sf.simulate(scenario, paper, 64, workers=1, folder=tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.glob("parts/*/*")) / 64 / 1e3
    assert abs(size - float(said[1])) < 0.25 * size  # a part has a fixed size too, and tasks follow the speed
    pace, runs, cores = 3e6, 1e12 / 1e5, {"1": "3.9 days", "16": "6 hours", "1,000": "6 minutes"}
    shown = next(rows for rows in tables("docs/scale.md") if "cores" in rows[0])
    assert {row["cores"]: row["time"] for row in shown} == cores
    seconds = {"days": 86_400, "hours": 3_600, "minutes": 60}
    for count, time in cores.items():
        figure, unit = time.split()
        assert abs(float(figure) - 1e12 / pace / number(count) / seconds[unit]) < 0.1 * float(figure)
    assert f"{runs * float(said[1]) / 1e6:.0f} GB" in page
    assert f"30,000 runs a second are {30_000 * float(said[1]) / 1e3:.0f} MB a second" in page


# The README


def test_the_picture_of_the_readme_shows_what_is_said_below_it() -> None:
    courses = routing()
    spend, quality = courses["SOLB"]
    assert (f"{spend.max():.3f}", f"{quality.mean():.2f}") == ("0.399", "0.80")
    assert f"{courses['unguarded'][0][-1]:.2f}" == "0.85"
    assert f"{courses['the baseline alone'][1].mean():.2f}" == "0.45"
    said = flat("README.md")
    for figure in ("at most 0.399 cents", "guardrails ends at 0.85", "0.80 on average; the baseline alone has 0.45"):
        assert figure in said


def test_the_picture_of_the_concepts_shows_what_is_said_below_it() -> None:
    strategies, true, bounds = loosening()
    assert bounds.max() <= 0.5 + 1e-9
    assert bounds.min() >= 0.5 - 1e-3
    assert true.max() < 0.5
    assert [f"{100 * one:.0f} %" for one in strategies[[0, -1], 2]] == ["56 %", "7 %"]
    assert "the baseline starts with 56 % and ends with 7 %" in flat("docs/start/concepts.md")


def test_the_verdicts_of_the_demo_are_what_it_prints(tmp_path: Path) -> None:
    run = Study.parse(DEMO, tmp_path, "demo").run()
    said, figure = flat("README.md"), r"\d+(?:\.\d+)?"
    for mark, words in told(results(run)[0]):
        sentence = (f"{mark} {words}" if mark.strip() else words).replace(GLUE, " ")
        shown = re.search(re.sub(figure, "@", re.escape(sentence).replace(r"\.", ".")).replace("@", figure), said)
        assert shown is not None or not mark.strip(), sentence
        if shown is not None:
            for one, other in zip(re.findall(figure, shown[0]), re.findall(figure, sentence), strict=True):
                assert abs(float(one) - float(other)) <= 0.02 * abs(float(other)), (shown[0], sentence)
    unguarded = next(row for row in run.summary().to_pylist() if row["policy"] == "unguarded")
    assert near("-21,698", unguarded["regret"])
    assert near("88,767", unguarded["violation"])
    assert "regret of -21,698 and a violation of 88,767" in flat("docs/faq.md")
    solb = next(row for row in run.summary().to_pylist() if row["policy"] == "SOLB")
    assert near("-1,195", solb["regret"])
    assert (solb["violating_runs"], solb["seeds"], solb["round"]) == (0, 10, 200_000)
    assert "SOLB has a regret of -1,195 with no violation" in flat("docs/faq.md")


def test_the_regrets_of_one_scenario_on_several_pages_are_theirs() -> None:
    short, middle, long = (row for rows in tables("docs/faq.md") if "seeds" in rows[0] for row in rows)
    assert short["regret"] == league()["solb", "llm-routing-v1"][0]
    a_round = float(short["regret"]) / 20_000
    assert f"SOLB           {a_round:6.3f} " in text("docs/tutorials/reading-a-report.md")
    assert middle["regret"] == beside_practical()["llm-routing-v1"]["led"].split(" ±")[0]
    assert long["regret"] == "-1,195"  # by the test above


def test_the_readme_is_short() -> None:
    assert len(text("README.md").splitlines()) < 120


WORDS = r"\b(?:whoever|anew|equally safe|to the letter|is as safe,|told already|by turns|led by the nose)\b"


OLD = (
    r"\b(?:episodes?|violating runs?|(?:one|two|three|hard|soft) constraints?"
    r"|(?:random|made-up) worlds?|(?:how many|names of|these|other) cells)\b"
)
OLD_COMMANDS = r"surefoot plan\b|--constraints\b"
CODE = r"`[^`\n]*`|^>>>.*$|\S+\.py\b"
"""Names of the Python API, columns, keys and files: these stay as they are."""


def test_pages_call_things_by_the_names_of_the_glossary() -> None:
    for path in [*(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")), *DOCS.rglob("*.md")]:
        said = path.read_text(encoding="utf-8")
        assert re.findall(OLD_COMMANDS, said) == [], path
        assert re.findall(OLD, re.sub(CODE, "", said, flags=re.M)) == [], path
    assert re.findall(OLD, "two constraints, 3 episodes") == ["two constraints", "episodes"]


def test_pages_keep_to_plain_words() -> None:
    """Phrases that were hard to read, or that claimed more than is proved."""
    plain = ["README.md", *(f"docs/{path.relative_to(DOCS)}" for path in DOCS.rglob("*.md"))]
    for path in plain:
        if not path.startswith("docs/theory/") and not path.endswith(("-data.md", "-notes.md", "to-code.md")):
            assert re.findall(WORDS, text(path), re.I) == [], path


def test_the_shares_of_unsafe_runs_on_a_gpu_are_those_of_their_data() -> None:
    with (DOCS / "data" / "safety-at-scale.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    told = [table for table in tables("docs/gpu.md") if "worst scenario" in table[0]]
    for rounds, table in zip(("100000", "1000000"), told, strict=True):
        assert {row["policy"] for row in table} == {line["policy"] for line in lines}
        for row in table:
            mine = [line for line in lines if (line["policy"], line["rounds"]) == (row["policy"], rounds)]
            runs, unsafe = (sum(int(line[name]) for line in mine) for name in ("runs", "unsafe"))
            _, low, high = share_interval(unsafe, runs, LEVEL)
            worst = max(mine, key=lambda line: int(line["unsafe"]) / int(line["runs"]))
            there = [100 * float(worst[name]) for name in ("low", "high")]
            assert [row["scenarios"], row["runs"], row["unsafe"]] == [str(len(mine)), f"{runs:,}", f"{unsafe:,}"]
            assert row["share"] == f"{100 * low:.2f} to {100 * high:.2f} %"
            assert row["worst scenario"] == (worst["scenario"] if unsafe else "none")
            assert row["share there"] == f"{there[0]:.2f} to {there[1]:.2f} %"
    assert sum(int(line["runs"]) for line in lines if line["rounds"] == "100000") > 1_700_000
    assert all(float(line["low"]) < 0.05 for line in lines)


def test_the_tail_of_regret_on_a_gpu_is_that_of_its_data() -> None:
    with (DOCS / "data" / "safety-at-scale.csv").open(encoding="utf-8") as file:
        lines = {(line["policy"], line["rounds"]): line for line in csv.DictReader(file) if "three" in line["scenario"]}
    names = {"mean": "mean_regret", "median": "q0.5", **{f"0.{'9' * n}": f"q0.{'9' * n}" for n in range(1, 6)}}
    [table] = [table for table in tables("docs/gpu.md") if "0.99999" in table[0]]
    for row in table:
        line = lines[row["policy"], row["rounds"].replace(",", "")]
        assert row["runs"] == f"{int(line['runs']):,}"
        for shown, name in names.items():
            assert row[shown] == (f"{float(line[name]):,.0f}" if line[name] else ""), (row["policy"], shown)


def test_the_tail_since_contradictions_need_more_is_that_of_its_data() -> None:
    with (DOCS / "data" / "tail.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    [table] = [table for table in tables("docs/gpu.md") if "unsafe" in table[0] and "0.99" in table[0]]
    for row, line in zip(table, lines, strict=True):
        share = (100 * float(one) for one in (int(line["unsafe"]) / int(line["runs"]), line["low"], line["high"]))
        assert row["unsafe"] == "{:.2f} % ({:.2f} to {:.2f} %)".format(*share)
        assert (row["rounds"], row["policy"]) == (f"{int(line['rounds']):,}", line["policy"])
        assert [row[name] for name in ("runs", "mean", "median", "0.9", "0.99")] == [
            f"{float(line[name]):,.0f}" for name in ("runs", "mean_regret", "q0.5", "q0.9", "q0.99")
        ]


def test_what_delta_costs_is_as_in_its_data() -> None:
    with (DOCS / "data" / "delta.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    [table] = [table for table in tables("docs/practical.md") if "largest" in table[0] and "delta" in table[0]]
    assert len(table) == len({line["delta"] for line in lines})
    for row in table:
        delta = float(row["delta"].removesuffix(" %")) / 100
        mine = [line for line in lines if math.isclose(float(line["delta"]), delta)]
        regret = np.array([float(line["regret"]) for line in mine])
        half = 1.96 * regret.std(ddof=1) / math.sqrt(regret.size)
        assert regret.size == 400
        assert row["mean regret"] == f"{regret.mean():,.0f} ± {half:,.0f}"
        assert row["median"] == f"{np.median(regret):,.0f}"
        assert row["largest"] == f"{regret.max():,.0f}"
        assert int(row["unsafe runs"]) == sum(int(line["rounds_in_violation"]) > 0 for line in mine)
