"""The command, as its user types it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.cli import EXIT_CODES, app
from surefoot.confidence import FAMILY
from surefoot.policies import REGISTRY
from surefoot.reporting.results import results
from surefoot.theory.bounds import BOUNDS
from tests.servers import ROUTING

STUDY = """
title = "Small"
seeds = 3
horizon = 400
scenarios = [{id = "three-arms-v1"}, {id = "stochastic-v1"}]
policies = [{policy = "solb", preset = "paper", learning_rate = 0.3}, {policy = "log-barrier", name = "free"}]
"""


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


def test_a_study_leaves_everything_it_should(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, told, _ = call("run", study, "--out", out, "--workers", 2)
    assert code == 0
    assert "kept in every round of all 3 runs" in told
    assert told.rstrip().endswith("report.html")
    assert {path.name for path in out.iterdir()} == {"parts", "provenance.json", "report.html", "figures"}
    provenance = json.loads((out / "provenance.json").read_text())
    assert provenance["study"] == {"name": "small.toml", "path": str(study.resolve()), "text": STUDY}
    assert provenance["simulations"][0]["seeds"] == [0, 1, 2]
    assert sf.Run.load(out).provenance == provenance


def test_a_study_can_be_made_again_from_its_provenance(study: Path, tmp_path: Path) -> None:
    call("run", study, "--out", tmp_path / "one", "--no-figures")
    again = tmp_path / "again" / "small.toml"
    again.parent.mkdir()
    again.write_text(json.loads((tmp_path / "one" / "provenance.json").read_text())["study"]["text"])
    call("run", again, "--out", tmp_path / "two", "--workers", 1, "--no-figures")
    assert sf.Run.load(tmp_path / "one").table.equals(sf.Run.load(tmp_path / "two").table)


def test_an_extended_study_runs_only_what_is_new(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    call("run", study, "--out", out, "--no-figures")
    first = sf.Run.load(out)
    study.write_text(STUDY.replace("seeds = 3", "seeds = 4"))
    code, _, _ = call("run", study, "--out", out, "--no-figures")
    more = sf.Run.load(out)
    assert code == 0
    assert more.table.num_rows == first.table.num_rows * 4 // 3
    old = [row for row in more.table.to_pylist() if row["seed"] < 3]
    assert old == first.table.to_pylist()
    elapsed = [run.provenance["simulations"][0]["elapsed_seconds"] for run in (first, more)]
    assert elapsed[0] < elapsed[1]


def test_a_dry_run_says_how_large_a_study_is_and_runs_nothing(study: Path, tmp_path: Path) -> None:
    code, told, _ = call("run", study, "--out", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "Small: 2 scenarios, 2 policies, 4 pairs of them, 12 runs, 4,800 rounds." in told
    assert re.search(
        r"Time on \d+ threads?: about .* s, between .* s and .* s\. Measured on \d+ runs? of \d+ pairs?", told
    )
    assert re.search(r"Table: [\d,]+ rows, .*B in memory, about .*B on disk", told)
    assert not (tmp_path / "out").exists()
    call("run", study, "--out", tmp_path / "out", "--no-figures")
    assert "already holds 12 runs" in call("run", study, "--out", tmp_path / "out", "--dry-run")[1]
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("seeds = 0")
    assert call("run", wrong, "--dry-run")[0] == 2


def test_a_dry_run_says_that_it_forecasts_threads_only(study: Path, tmp_path: Path) -> None:
    for engine in ("cuda", "dask"):
        code, told, notes = call("run", study, "--out", tmp_path / "out", "--dry-run", "--engine", engine)
        assert code == 0
        assert "Time on" in told
        assert f"forecast of time is for threads of this process. What --engine {engine} takes is not forecast" in notes
    assert "forecast" not in call("run", study, "--out", tmp_path / "out", "--dry-run")[2]
    code, _, wrong = call("run", study, "--dry-run", "--scheduler", "tcp://127.0.0.1:1")
    assert (code, wrong.startswith("scheduler must")) == (2, True)
    assert data("run", study, "--out", tmp_path / "out", "--dry-run")["engine"] == "threads"


def test_show_draws_a_scenario_that_is_named(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    call("run", study, "--out", out, "--no-figures")
    assert not list((out / "figures").glob("*.svg"))
    code, told, _ = call("show", out, "three-arms-v1")
    assert code == 0
    assert "who kept the guardrails?" in told
    assert "stochastic-v1" not in told
    assert (out / "report-three-arms-v1.html").is_file()
    assert list((out / "figures").glob("three-arms-v1-regret.*"))
    code, _, wrong = call("show", out, "other")
    assert code == 2
    assert wrong.startswith("scenario must be one of three-arms-v1, stochastic-v1, got 'other'")


GRID = """
seeds = 2
horizon = 100
checkpoints = [100]
scenarios = [{id = "lower-bound-v1", margin = {grid = {from = 0.15, to = 0.45, count = 9}}}]
policies = [{policy = "always-safe"}, {policy = "ucb1"}]
"""


@pytest.mark.filterwarnings("ignore:the margin")
def test_a_grid_ends_in_standings(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    code, told, _ = call("run", path, "--out", tmp_path / "out")
    assert code == 0
    assert "Standings over 9 scenarios" in told
    assert "who kept the guardrails?" not in told
    assert "9 scenarios; complete" in call("show", tmp_path / "out")[1]


def test_show_lists_what_is_there(study: Path, tmp_path: Path) -> None:
    call("run", study, "--out", tmp_path / "out", "--no-figures")
    code, told, _ = call("show", tmp_path / "out")
    assert code == 0
    assert "three-arms-v1: solb, free; 3 seeds, 400 rounds; complete" in told
    assert call("show", tmp_path)[0] == 2


def test_wrong_studies_are_refused_in_sentences(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(STUDY.replace("solb", "slob").replace("three-arms-v1", "three-arms"))
    code, told, wrong = call("run", path, "--out", tmp_path / "out")
    assert (code, told) == (2, "")
    assert wrong.splitlines()[0].startswith("scenarios[0].id must be one of stochastic-v1,")
    assert wrong.splitlines()[1].endswith("got 'slob' (did you mean solb?)")
    assert "Traceback" not in wrong
    assert not (tmp_path / "out").exists()
    assert call("run", tmp_path / "missing.toml")[0] == 2


def test_a_folder_belongs_to_one_study(study: Path, tmp_path: Path) -> None:
    call("run", study, "--out", tmp_path / "out")
    other = tmp_path / "other.toml"
    other.write_text(STUDY)
    code, _, wrong = call("run", other, "--out", tmp_path / "out")
    assert code == 2
    assert f"with the results of {study.resolve()}" in wrong


def test_init_writes_an_example_that_runs_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert call("init", path)[0] == 0
    assert f"surefoot run {path}" in path.read_text()
    short = path.read_text().replace("# horizon = 50_000 ", "horizon = 300 ").replace("horizon = 20_000\n", "")
    path.write_text(short)
    assert call("run", path, "--out", tmp_path / "out")[0] == 0
    assert call("init", path)[0] == 2
    assert path.read_text() == short


def test_lists_name_everything() -> None:
    _, told, _ = call("scenarios")
    assert all(id in told for id in sf.scenarios.SCENARIOS)
    _, told, _ = call("policies")
    assert all(name in told for name in REGISTRY)
    assert told.count("'practical'") >= 2  # the presets of solb and colb that are meant if none is named
    assert data("policies")[0]["about"] == "Keeps every limit while it learns; needs a safe strategy."
    assert "OMD" not in told  # what the paper calls its algorithm says nothing of the preset "led"


def test_the_demo_says_who_kept_the_guardrails(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)], env={"COLUMNS": "100"})
    told = ended.stdout
    assert ended.exit_code == 0
    assert (tmp_path / "report.html").is_file()
    about, rest = told.split("llm-routing-v1: who kept the guardrails?")
    table, story = rest.split("10 runs of 200,000 rounds.")
    assert len(about.split("\n\n")[0].splitlines()) + len(story.splitlines()[:-1]) <= 10  # without the report's path
    assert len(table.strip().splitlines()) <= 7
    assert re.search(r"SOLB +kept +0\.39\d+ +0\.\d+ +0\.\d+ +\d+ %", table.replace("\N{NO-BREAK SPACE}", " "))
    assert re.search(r"unguarded +broken ", table)
    (found,) = results(sf.Run.load(tmp_path))
    solb, colb, free = found.policies
    flat = " ".join(story.split())
    assert "The baseline plays in-house" in flat
    assert "SOLB kept all 3 guardrails in every round of all 10 runs; lost" in flat
    assert "COLB was over in" in flat
    assert "but by little: spend averaged 0.40" in flat
    assert "unguarded broke 2 of 3 guardrails" in flat
    for policy in (solb, colb, free):  # figures of this very run
        assert policy.gain is not None
        assert policy.baseline is not None
        assert f"lost {policy.gain.value / policy.baseline:.0%} less".replace("%", " %") in flat
        assert f"({policy.baseline - policy.gain.value:.3g} a round against {policy.baseline:.3g})" in flat
    spend = float((free.allocation * np.diff(found.rounds, prepend=0)[:, None]).sum(0) @ found.mean_costs[0])
    assert f"spend averaged {spend / found.rounds[-1]:.3g} against a limit of 0.4" in flat


def test_two_studies_of_one_name_do_not_share_a_folder(study: Path, tmp_path: Path) -> None:
    call("run", study, "--out", tmp_path / "out", "--no-figures")
    other = tmp_path / "elsewhere" / study.name
    other.parent.mkdir()
    other.write_text(STUDY.replace("seeds = 3", "seeds = 2"))
    assert call("run", other, "--out", tmp_path / "out", "--no-figures")[0] == 2
    other.write_text(STUDY)  # the same study, moved
    assert call("run", other, "--out", tmp_path / "out", "--no-figures")[0] == 0


@pytest.mark.parametrize("name", ["[/b]", "$x_{$<b>", "a" * 60, "\N{GREEK SMALL LETTER NU}"])
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(
        f"seeds = 1\nhorizon = 300\nscenarios = [{{id = 'three-arms-v1', name = '{name}'}}]\n"
        f"policies = [{{policy = 'colb', name = '{name}'}}]\n"
    )
    code, told, wrong = call("run", path, "--out", tmp_path / "out")
    assert (code, wrong) == (0, ""), told


@pytest.mark.parametrize(
    "change",
    [
        ("seeds = 3", "seeds = 1_000_000_000"),
        ('name = "free"', f'name = "{"a" * 61}"'),
        ("seeds = 3", "checkpoints = 1_000_000_000_000_000"),
        ('{id = "three-arms-v1"}', '{id = "many-arms-v1", n_arms = 1_000_000_000}'),
        ('policy = "solb"', 'policy = "oracle", mean_costs = [[1]]'),
    ],
)
def test_enormous_and_needless_values_are_refused(change: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(STUDY.replace(*change))
    code, _, wrong = call("run", path, "--out", tmp_path / "out")
    assert code == 2
    assert re.search(r" must .*, got ", wrong)


def test_a_folder_that_cannot_be_made_is_refused(study: Path) -> None:
    code, _, wrong = call("run", study, "--out", study / "out")
    assert code == 2
    assert wrong.startswith("out must be a folder")


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(tmp_path: Path) -> None:
    path, out = tmp_path / "long.toml", tmp_path / "out"
    text = STUDY.replace("horizon = 400", "horizon = 150_000").replace("seeds = 3", "seeds = 40")
    path.write_text(text)
    command = [sys.executable, "-m", "surefoot", "run", str(path), "--out", str(out), "--workers", "2"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    while not out.exists() and running.poll() is None:  # it begins when the study is read and the kernels are loaded
        time.sleep(0.05)
    time.sleep(0.7)
    running.send_signal(signal.SIGINT)
    told, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "runs missing. To go on: surefoot run" in told
    assert not sf.Run.load(out).complete
    assert call("run", path, "--out", out, "--no-figures")[0] == 0
    assert call("run", path, "--out", tmp_path / "whole", "--no-figures")[0] == 0
    assert sf.Run.load(out).table.equals(sf.Run.load(tmp_path / "whole").table)


def test_warm_compiles_what_a_policy_needs(tmp_path: Path) -> None:
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    warm = [sys.executable, "-m", "surefoot", "warm", "ucb1", "oracle"]
    told = subprocess.run(warm, env=settings, check=True, capture_output=True, text=True)
    assert re.fullmatch(r"ucb1: ready after .* s\noracle: ready after .* s\ncompiled code is kept in .*\n", told.stdout)
    assert str(tmp_path) in told.stdout
    assert "compiling kernels" in told.stderr
    use = (
        "import surefoot as sf, numpy as np\n"
        "policy = sf.{}(sf.Problem(3, [0.5, 0.6], 9), 1)\n"
        "policy.tell(policy.ask(), 0.1, [0.2, 0.3])\n"
        "policy.live(*(np.zeros(shape) for shape in ((4, 3), (4, 2, 3), (4, 3), 4)))\n"
    )
    for name, words in (("UCB1", 0), ("Exp3", 1)):  # the second has not been warmed
        told = subprocess.run(
            [sys.executable, "-c", use.format(name)], env=settings, check=True, capture_output=True, text=True
        )
        assert told.stderr.count("compiling kernels") == words


def test_warm_refuses_what_is_no_policy() -> None:
    code, out, words = call("warm", "ucb1", "nonsense")
    assert (code, out) == (2, "")
    assert words.startswith("policy must be one of solb, colb, ")
    assert call("warm", "slob")[2].endswith("got 'slob' (did you mean solb?)\n")
    assert words.endswith("got 'nonsense'\n")


# Lists


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_ids_are_never_cut(columns: int) -> None:
    for command, ids in (("scenarios", sf.scenarios.SCENARIOS), ("policies", REGISTRY)):
        told = CliRunner().invoke(app, [command], env={"COLUMNS": str(columns)}).stdout
        firsts = [
            line.split("\N{BOX DRAWINGS LIGHT VERTICAL}")[1].strip()
            for line in told.splitlines()
            if line[0] == "\u2502"
        ]
        assert [one for one in firsts if one] == list(ids)


def test_names_of_policies_are_never_cut(tmp_path: Path) -> None:
    name = "a-rather-long-name-of-a-policy-which-nobody-would-choose"
    path = tmp_path / "long.toml"
    path.write_text(STUDY.replace('name = "free"', f'name = "{name}"'))
    result = CliRunner().invoke(
        app, ["run", str(path), "--out", str(tmp_path / "out"), "--no-figures"], env={"COLUMNS": "70"}
    )
    assert "\N{HORIZONTAL ELLIPSIS}" not in result.stdout
    firsts = "".join(line.split("  ")[0].strip() for line in result.stdout.splitlines())
    assert name in firsts


# For machines


def data(*arguments: object) -> Any:
    code, told, _ = call(*arguments, "--json")
    assert code == 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(told, parse_constant=refuse)


def test_lists_for_machines() -> None:
    listed = data("scenarios")
    assert [one["id"] for one in listed] == list(sf.scenarios.SCENARIOS)
    assert listed[0]["parameters"] == {"horizon": 50_000, "delta": 0.05}
    assert [one["id"] for one in listed if one["rehearsal"]] == list(sf.scenarios.REHEARSALS)
    listed = data("policies")
    assert [one["policy"] for one in listed] == list(REGISTRY)
    assert listed[0]["kind"] == "hard"
    assert set(listed[0]["allowed"]["preset"]) == {"paper", "guaranteed", "practical", "led"}
    assert listed[0]["allowed"]["confidence"] == list(FAMILY)
    assert listed[0]["options"]["preset"] == "led"


def test_bounds_and_plans_for_machines() -> None:
    found = data("bounds")
    assert len(found["bounds"]) == len(BOUNDS)
    assert found["instance"]["n_arms"] == 5
    theorem = next(one for one in found["bounds"] if one["name"] == "Theorem 1: COLB violation")
    assert round(theorem["value"]) == 35_619
    assert theorem["value"] == pytest.approx(sum(theorem["terms"].values()))
    assert theorem["from_horizon"] == 48_581
    silent = data("bounds", "--margin", 0.0002, "--horizon", 3_000, "--arms", 2)
    assert None in [one["from_horizon"] for one in silent["bounds"]]  # JSON has no infinity
    found = data("forecast", "--simulate", "--deviation", 0.1, "--seeds", 3)
    assert set(found) == {"guaranteed", "led", "practical"}
    assert found["guaranteed"]["rounds_until_loose"] == pytest.approx(10_000 * found["guaranteed"]["days_until_loose"])
    assert found["guaranteed"]["simulated"]["seeds"] == 3
    assert data("forecast")["guaranteed"]["simulated"] is None


def test_results_for_machines(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forecast = data("run", study, "--out", out, "--dry-run")
    assert (forecast["episodes"], forecast["episodes_there"]) == (12, 0)
    assert forecast["low"] <= forecast["seconds"] <= forecast["high"]
    ran = data("run", study, "--out", out, "--no-figures")
    assert ran["report"] == str(out / "report.html")
    shown = data("show", out)
    assert [ran[key] for key in ("results", "standings", "versions")] == [
        shown[key] for key in ("results", "standings", "versions")
    ]
    assert shown["complete"] is True
    assert [one["scenario"] for one in shown["simulations"]] == ["three-arms-v1", "stochastic-v1"]
    rows = {(one["scenario"], one["policy"]): one for one in shown["results"]}
    assert rows["three-arms-v1", "solb"]["guardrails"] == "kept"
    assert rows["stochastic-v1", "free"]["guardrails"] == "close"
    assert rows["stochastic-v1", "free"]["verdict"] == "over in 100 % of the rounds, by little"
    summary = {(row["scenario"], row["policy"]): row for row in sf.Run.load(out).summary().to_pylist()}
    for key, row in rows.items():
        assert row["regret"] == summary[key]["regret"]
        (cost,) = row["average_costs"]
        assert cost["low"] == cost["high"]
        assert (cost["high"] > cost["limit"]) == (row["guardrails"] != "kept")
    assert [one["policy"] for one in shown["standings"]] == ["solb", "free"]
    one = data("show", out, "stochastic-v1")
    assert {row["scenario"] for row in one["results"]} == {"stochastic-v1"}


def test_an_experiment_for_machines(tmp_path: Path) -> None:
    path = tmp_path / "routing.json"
    path.write_text(json.dumps(ROUTING))
    assert data("check", path) == sf.Experiment.from_dict(ROUTING).to_dict()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "With probability at least 95 % every decision of an epoch is drawn from a strategy whose mean keeps {}, "
             "if the baseline is as safe as stated, the mean of each guardrail under each arm does not change, no "
             "value is outside low and high, you serve the arm that was drawn and never ask again to get "),
        ({"delta": 0.001}, "With probability at least 99.9 % every decision"),
        ({"delta": 1e-7}, "With probability at least 99.99999 % every decision"),
        ({"options": {"confidence": "bernstein"}, "horizon": 1_000}, "no arm has more results than the horizon, the "
             "costs of an arm are independent and have one distribution and no feedback is lost (docs/live.md)."),
        ({"baseline_costs": None},
             "every decision of an epoch, after the baseline is measured, is drawn from a strategy whose mean keeps "
             "{}, if the mean of each guardrail"),
        ({"options": {"confidence": "eb-mixture"}}, "puts back an old copy and no feedback is lost (docs/live.md)."),
        ({"policy": "opb", "horizon": 10_000}, "(docs/live.md; live, this is proved for solb alone)."),
        ({"policy": "colb"}, "colb promises only a small total violation (proved for its preset"),
        ({"guardrails": [], "baseline_costs": None}, "There are no guardrails, and nothing is promised about them."),
    ],
)  # fmt: skip
def test_check_says_what_is_promised(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "routing.json"
    path.write_text(json.dumps({**ROUTING, **changes}))
    code, said, wrong = call("check", path)
    assert (code, wrong) == (0, "")
    count = len(ROUTING["guardrails"])
    assert told.format({1: "the limit", 2: "both limits"}.get(count, f"all {count} limits")) in " ".join(said.split())


def test_files_that_cannot_be_read_are_refused_in_a_sentence(tmp_path: Path) -> None:
    missing, binary = tmp_path / "nofile.toml", tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00\xd8")
    for command, what in (("run", "study"), ("check", "experiment")):
        assert call(command, missing)[2] == f"{what} must be a file that exists, got {missing}\n"
        assert call(command, binary)[2] == f"{what} must be a text file in UTF-8, got {binary}\n"
        wrong = call(command, tmp_path)[2]
        assert wrong.startswith(f"{what} must be a file that can be read (")
        assert wrong.endswith(f"got {tmp_path}\n")
        assert "Errno" not in wrong


@pytest.mark.parametrize("measured", [False, True])
def test_options_that_the_policy_refuses_are_found(tmp_path: Path, measured: bool) -> None:
    path = tmp_path / "routing.json"
    wrong = {**ROUTING, "options": {"preset": "leed"}} | ({"baseline_costs": None} if measured else {})
    path.write_text(json.dumps(wrong))
    code, _, told = call("check", path)
    assert code == 2
    assert "preset must be" in told


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["polices"], "'policies'"),
        (["keys", "lst"], "'list'"),
        (["serve", "--role", "learn"], "(did you mean learner?)"),
        (["verify", "Lema 1"], "(did you mean Lemma 1?)"),
    ],
)
def test_near_misses_are_guessed(arguments: list[str], guess: str) -> None:
    code, told, wrong = call(*arguments)
    assert (code, told) == (2, "")
    assert guess in wrong


@pytest.mark.parametrize(
    ("change", "guess"),
    [
        (('"solb"', '"slob"'), "got 'slob' (did you mean solb?)"),
        (('"solb"', '"SOLB"'), "got 'SOLB' (did you mean solb?)"),
        (('"paper"', '"papr"'), "got 'papr' (did you mean paper?)"),
        (('"three-arms-v1"', '"three-arms"'), "got 'three-arms' (did you mean three-arms-v1?)"),
        (("seeds = 3", "seed = 3"), "got 'seed' (did you mean seeds?)"),
        (("learning_rate", "learning_rte"), "got 'learning_rte' (did you mean learning_rate?)"),
        (('{policy = "solb"', '{polcy = "solb"'), "got nothing (is polcy a misspelt policy?)"),
    ],
)
def test_near_misses_in_a_study_are_guessed(change: tuple[str, str], guess: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(STUDY.replace(*change, 1))
    code, _, wrong = call("run", path, "--out", tmp_path / "out")
    assert code == 2
    assert wrong.splitlines()[0].endswith(guess)


def test_near_misses_of_what_is_in_a_folder_are_guessed(study: Path, tmp_path: Path) -> None:
    call("run", study, "--out", tmp_path / "out", "--no-figures")
    assert call("show", tmp_path / "out", "tree-arms-v1")[2].endswith("(did you mean three-arms-v1?)\n")


def test_allowed_values_are_in_the_help() -> None:
    for arguments, values in (
        (["serve"], ("all", "decider", "learner")),
        (["keys", "create"], ("decide", "feedback", "read", "admin")),
        (["run"], ("threads", "dask")),
    ):
        told = call(*arguments, "--help")[1]
        assert all(re.search(rf"\b{value}\b", told) for value in values)
    told = " ".join(call("policies")[1].split())
    assert "learning_rate: a number, theory, practical or doubling" in told
    assert f"confidence: {', '.join(FAMILY)}." in told
    assert "(practical, guaranteed, paper)" in told


def test_a_note_names_its_policy_once(tmp_path: Path) -> None:
    path = tmp_path / "noted.toml"
    path.write_text(
        "seeds = 1\nhorizon = 300\nscenarios = [{id = 'three-arms-v1'}, {id = 'stochastic-v1'}]\n"
        "policies = [{policy = 'colb', name = 'colb, paper', preset = 'paper', learning_rate = 'theory'}, "
        "{policy = 'solb'}]\n"
    )
    command = [sys.executable, "-m", "surefoot", "run", str(path), "--out", str(tmp_path / "out"), "--no-figures"]
    notes = subprocess.run(command, capture_output=True, text=True, check=True).stderr  # pytest would catch warnings
    (line,) = [line for line in notes.splitlines() if "compiling kernels" not in line]
    assert line.startswith("note: learning_rate = 'theory'")
    assert line.endswith('(policy "colb, paper" in scenario three-arms-v1 and 1 more)')
    assert line.count("colb") == 1
    assert 'three-arms-v1: "colb, paper", solb; 1 seeds' in call("show", tmp_path / "out")[1]


def test_exit_codes_are_told_and_kept(study: Path, tmp_path: Path) -> None:
    help = " ".join(call("--help")[1].split())
    assert EXIT_CODES in help
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    assert re.findall(r"^\| (\d+) \|", page, re.M) == re.findall(r"\b(\d+) ", EXIT_CODES) == ["0", "1", "2", "130"]
    assert call("scenarios")[0] == 0
    assert call("run", tmp_path / "missing.toml")[0] == 2
    assert call("bounds", "--arms", "many")[0] == 2
    assert call("nonsense")[0] == 2
    # 1 is in test_verify.py, and 130 both there and above


# The shell


SOURCE = Path(sf.__file__).parents[1]


def completed(*words: str, shell: str = "bash") -> list[str]:
    code = "import sys; sys.argv = ['surefoot']; from surefoot.__main__ import main; main()"
    line = " ".join(("surefoot", *words))
    env = {**os.environ, "_SUREFOOT_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words)),
           "_TYPER_COMPLETE_ARGS": line}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")


def test_the_shell_completes_commands_and_values(study: Path, tmp_path: Path) -> None:
    assert "policies" in completed("p")
    assert "plan" not in completed("p")  # hidden: the old name of forecast
    assert "forecast" in completed("f")
    assert {"solb", "safe-exp3"} <= set(completed("warm", "s"))
    assert "Lemma 1" in completed("verify", "Lemma")
    assert completed("verify", "--engine", "threads", "--policy", "op")[0] == "opb"
    assert "llm-routing-v1" in completed("verify", "--scenario", "llm")
    assert completed("keys", "create", "me", "--role", "fe")[0] == "feedback"
    call("run", study, "--out", tmp_path / "out", "--no-figures")
    assert completed("show", str(tmp_path / "out"), "th")[0] == "three-arms-v1"
    assert not any(completed("show", str(tmp_path / "nothing"), "th"))
    assert any("policies" in line for line in completed("p", shell="zsh"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_is_installed_and_works_in_a_shell(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "surefoot"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom surefoot.__main__ import main\n\nmain()\n")
    command.chmod(0o755)
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{command.parent}:{os.environ['PATH']}",
           "PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")])),
           "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # fmt: skip
    done = subprocess.run(
        [command, "--install-completion", "bash"], env=env, capture_output=True, text=True, check=True
    )
    assert "installed" in done.stdout
    script = (
        "source .bashrc; COMP_WORDS=(surefoot pol); COMP_CWORD=1; _surefoot_completion surefoot; echo ${COMPREPLY[@]}"
    )
    found = subprocess.run(["bash", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "policies"
    help = call("--help")[1]
    assert "--install-completion" in help
    assert "--show-completion" in help


def test_the_league_takes_the_options_of_an_engine(tmp_path: Path) -> None:
    """They reach the check at the door: nothing is compiled or written before it."""
    code, _, said = call("league", "--out", tmp_path / "league", "--scheduler", "tcp://127.0.0.1:1")
    assert code == 2
    assert "scheduler must be an address, and go with engine 'dask'" in " ".join(said.split())
    code, _, said = call("league", "--out", tmp_path / "league", "--engine", "dask", "--scheduler", "x", "--workers", 2)
    assert code == 2
    assert "workers must be left out with a scheduler" in " ".join(said.split())
    assert not (tmp_path / "league").exists()
