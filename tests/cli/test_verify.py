"""The command `surefoot verify`, as its user types it."""

from __future__ import annotations

import csv
import inspect
import json
import re
import signal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import surefoot as sf
from surefoot.analysis.statistics import share_interval
from surefoot.cli import app
from surefoot.policies import REGISTRY
from surefoot.theory import at_scale
from surefoot.theory.claims import Claim, Finding
from tests.theory.made import made_up


def call(*arguments: object, columns: int = 40) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(app, ["verify", *map(str, arguments)], env={"COLUMNS": str(columns)})
    wrong = [line for line in result.stderr.splitlines(keepends=True) if not line.startswith("surefoot: compiling")]
    return result.exit_code, result.stdout.splitlines(), "".join(wrong)


def refuted(mutation: Any, runs: int) -> Finding:
    return Finding("refuted", f"{runs} failures")


def never(mutation: Any, runs: int) -> Finding:
    raise AssertionError("this is not to be tried")


CAUGHT = made_up("Caught", one="refuted", two="refuted")
MISSED = made_up("Missed", one="refuted", two="held")
WRONG = made_up("Quite wrong", refuted, one="refuted")


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Any:
    def only(*claims: Claim) -> None:
        monkeypatch.setattr(import_module("surefoot.cli.verify"), "CLAIMS", claims)  # not the command

    return only


def test_a_line_for_each_claim_however_narrow_the_window(claims: Any) -> None:
    claims(CAUGHT, MISSED, WRONG)
    code, lines, wrong = call("--workers", 1)
    assert lines == [
        "held        Caught      None in [20]; 2 of 2 mutations refuted",
        "not decided Missed      None in [20]; 1 of 2 mutations refuted (not: two)",
        "refuted     Quite wrong 20 failures; 1 of 1 mutations refuted",
        "1 held, 1 refuted, 1 not decided",
    ]
    assert code == 1
    assert re.fullmatch(r"3 claims on 1 process: about .*, between .* and .*, as measured on .* now\. Code .*\n", wrong)


def test_the_exit_code_is_0_only_if_every_claim_is_held(claims: Any) -> None:
    for some, code in (((CAUGHT,), 0), ((CAUGHT, MISSED), 1), ((WRONG, CAUGHT), 1)):
        claims(*some)
        assert call("--workers", 1)[0] == code


def test_full_means_more_runs(claims: Any) -> None:
    claims(CAUGHT)
    assert "None in [800]" in call("--workers", 1, "--full")[1][0]


def test_a_real_claim() -> None:
    code, lines, _ = call("Lemma 1", "Lemma 1", "--workers", 1)  # named twice, tried once
    assert code == 0
    assert re.fullmatch(r"held +Lemma 1 0 of 300 runs fail .*; 1 of 1 mutations refuted", lines[0])
    assert lines[1:] == ["1 held, 0 refuted, 0 not decided"]


def test_the_page_has_every_claim(claims: Any, tmp_path: Path) -> None:
    claims(CAUGHT, MISSED, WRONG)
    out = tmp_path / "it is here.md"
    code, lines, _ = call("--workers", 1, "--full", "--out", out)
    assert code == 1
    assert f"Evidence: {out}" in lines
    page = out.read_text()
    assert f"`surefoot verify --full --out '{out}'`" in page
    for claim, verdict in ((CAUGHT, "held"), (MISSED, "not decided"), (WRONG, "refuted")):
        assert re.search(rf"^\| {claim.name} \| {verdict} \| 800 \| .+ \|$", page, re.M)
        section = page.split(f"## {claim.name}\n")[1].split("\n## ")[0]
        for part in (claim.sentence, claim.family, claim.pathwise, f"800 runs: {claim.test}", f"**{verdict}**"):
            assert part in section
        for words in claim.mutations:
            assert f"- Mutation, {words}: " in section
    assert "- Mutation, two: held; held in [200]." in page
    assert "**1 of 3 claims held.**" in page


def test_a_page_of_some_claims_says_so(tmp_path: Path) -> None:
    assert call("Lemma 1", "--workers", 1, "--out", tmp_path / "one.md")[0] == 0
    page = (tmp_path / "one.md").read_text()
    assert "`surefoot verify 'Lemma 1' --out " in page
    assert re.findall(r"^## (.*)$", page, re.M) == ["Lemma 1"]


def test_what_cannot_be_done_is_refused_before_anything_is_tried(claims: Any, tmp_path: Path) -> None:
    claims(made_up("Never", never))
    code, lines, wrong = call("Lemma 9")
    assert (code, lines) == (2, [])
    assert re.fullmatch(
        r"claim must be one of Lemma 1, .*, Theorem 5, .*, got 'Lemma 9' \(did you mean Lemma \d\?\)\n", wrong
    )
    for out in (tmp_path / "missing" / "page.md", tmp_path):
        code, lines, wrong = call("--out", out)
        assert (code, lines, wrong) == (2, [], f"out must be a file in a folder that exists, got {out}\n")
    assert call("--workers", 0)[0] == 2


def test_a_file_that_cannot_be_written_is_named(
    claims: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    claims(CAUGHT)
    monkeypatch.setattr(Path, "write_text", full)
    code, lines, wrong = call("--workers", 1, "--out", tmp_path / "page.md")
    assert (code, len(lines)) == (2, 1)
    assert wrong.splitlines()[1:] == [
        f"out must be a file that can be written, got {tmp_path / 'page.md'}: no space left"
    ]


def test_ctrl_c_ends_after_the_trial_at_hand(claims: Any, tmp_path: Path) -> None:
    def interrupted(mutation: Any, runs: int) -> Finding:
        signal.raise_signal(signal.SIGINT)
        return Finding("held", "just so")

    claims(CAUGHT, made_up("Interrupted", interrupted), made_up("Never", never))
    before = signal.getsignal(signal.SIGINT)
    code, lines, _ = call("--workers", 1, "--out", tmp_path / "page.md")
    assert code == 130
    assert [line.split()[1] for line in lines[:2]] == ["Caught", "Interrupted"]
    assert lines[2:] == ["Stopped: 1 of 3 claims not tried."]
    assert not (tmp_path / "page.md").exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_results_for_machines(claims: Any) -> None:
    claims(CAUGHT, MISSED)
    result = CliRunner().invoke(app, ["verify", "--workers", "1", "--json"])
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert (first["claim"], first["verdict"], first["runs"]) == ("Caught", "held", 20)
    assert second["mutations"]["two"] == {"verdict": "held", "figures": "held in [20]"}


AT_SCALE = ("--engine", "threads", "--workers", 1, "--rounds", 300, "--scenario", "three-arms-v1")
POLICY = "solb, practical"


@pytest.fixture
def unsafe(monkeypatch: pytest.MonkeyPatch) -> str:
    """The control: a policy that promises nothing, counted among those that do."""
    monkeypatch.setitem(at_scale.POLICIES, "control", REGISTRY["exp3"])
    return "control"


def test_unsafe_runs_are_counted(tmp_path: Path) -> None:
    out = tmp_path / "shares.csv"
    options = (*AT_SCALE, "--scenario", "switching-v1", "--runs", 20, "--policy", POLICY, "--policy", "opb")
    code, lines, wrong = call(*options, "--out", out)
    _, low, high = share_interval(0, 20, at_scale.LEVEL)
    told = f"300 rounds: 0 of 20 runs unsafe ({low:.2%} to {high:.2%})"
    pairs = [(policy, id) for id in ("three-arms-v1", "switching-v1") for policy in (POLICY, "opb")]
    assert (code, wrong) == (0, "")
    assert lines == [f"{policy} in {id}, {told}" for policy, id in pairs]
    head, *rows = csv.reader(out.read_text().splitlines())
    assert head[:9] == ["policy", "scenario", "delta", "rounds", "runs", "unsafe", "low", "high", "mean_regret"]
    assert [(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows] == [
        (policy, id, "0.05", "300", "20", "0") for policy, id in pairs
    ]
    first = dict(zip(head, rows[0], strict=True))
    run = sf.simulate(
        sf.scenarios.make("three-arms-v1", horizon=300, delta=0.05).drawn_by("counter"),
        {"p": partial(sf.SOLB, preset="practical")},
        20,
        [300],
    )
    regret = run.table.column("regret").to_numpy()
    assert float(first["mean_regret"]) == pytest.approx(regret.mean(), rel=1e-5)
    assert float(first["q0.5"]) == pytest.approx(np.median(regret), rel=1e-5)
    assert first["q0.9"] == ""  # fewer than five runs lie beyond


def test_an_unsafe_policy_refutes_the_promise(unsafe: str, tmp_path: Path) -> None:
    code, lines, _ = call(*AT_SCALE, "--runs", 20, "--policy", unsafe, "--policy", POLICY, columns=200)
    assert code == 1
    assert re.fullmatch(r"control in three-arms-v1, 300 rounds: 20 of 20 runs unsafe \(.*% to 100.00%\)", lines[0])
    assert lines[2:] == ["1 share above delta: the promise is refuted"]


def test_shares_for_machines(unsafe: str) -> None:
    code, lines, wrong = call(*AT_SCALE, "--runs", 10, "--policy", POLICY, "--policy", unsafe, "--json")
    safe, control = json.loads("\n".join(lines))
    assert (code, wrong) == (1, "")
    assert (safe["policy"], safe["scenario"], safe["delta"]) == (POLICY, "three-arms-v1", 0.05)
    assert (safe["rounds"], safe["runs"], safe["unsafe"], safe["refuted"]) == (300, 10, 0, False)
    assert (control["unsafe"], control["refuted"]) == (10, True)
    assert list(safe["quantiles"]) == [f"{level:g}" for level in at_scale.QUANTILES]
    assert safe["quantiles"]["0.5"] is not None
    assert safe["quantiles"]["0.9"] is None


def test_the_number_of_workers_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = [], sf.simulate

    def noted(*arguments: Any, **options: Any) -> Any:
        seen.append(inspect.signature(real).bind(*arguments, **options).arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(at_scale, "simulate", noted)
    assert call(*AT_SCALE, "--runs", 2, "--policy", POLICY)[0] == 0
    assert [(one["workers"], one["engine"], one["seeds"]) for one in seen] == [(1, "threads", 2)]


def test_what_cannot_be_counted_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(*_: object, **__: object) -> None:
        raise AssertionError("this is not to be run")

    monkeypatch.setattr(at_scale, "simulate", simulate)
    engine = "be left out with --engine, which counts unsafe runs (choose by --policy and --scenario)"
    for options, sentence in (
        (
            (*AT_SCALE, "--policy", "solb, practicl"),
            r"policy must be one of solb, .*\(did you mean solb, practical\?\)",
        ),
        ((*AT_SCALE, "--policy", "colb"), r"policy must be one of .*; opb; .*, got 'colb'"),
        ((*AT_SCALE, "--scenario", "switchin-v1"), r"scenario must be .* \(did you mean switching-v1\?\)"),
        ((*AT_SCALE, "--out", tmp_path), re.escape(f"out must be a file in a folder that exists, got {tmp_path}")),
        ((*AT_SCALE, "--out", tmp_path / "no" / "f.csv"), "out must be a file in a folder that exists, got .*"),
        (("Lemma 1", *AT_SCALE), re.escape(f"claims must {engine}, got ['Lemma 1']")),
        ((*AT_SCALE, "--full"), re.escape(f"full must {engine}, got True")),
        (("--engine", "cuda", "--workers", 2), "workers must be left out with --engine cuda: .*, got 2"),
        (("--runs", 20), "runs must go with --engine, got 20"),
        (("--rounds", 200), "rounds must go with --engine, got 200"),
        (("--policy", "opb"), r"policy must go with --engine, got \['opb'\]"),
        (("Lemma 1", "--scenario", "x"), r"scenario must go with --engine, got \['x'\]"),
    ):
        code, lines, wrong = call(*options)
        assert (code, lines) == (2, []), options
        assert re.fullmatch(sentence, wrong.removesuffix("\n")), wrong


def test_a_table_of_shares_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    out = tmp_path / "shares.csv"
    code, _, wrong = call(*AT_SCALE, "--runs", 2, "--policy", "opb", "--out", out)
    assert (code, wrong) == (2, f"out must be a file that can be written, got {out}: no space left\n")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_ctrl_c_ends_the_count(options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted before is kept; a share of the runs that happened to be finished is none."""

    def interrupted(problem: sf.Problem, seed: int) -> sf.SOLB:
        signal.raise_signal(signal.SIGINT)
        return sf.SOLB(problem, seed=seed)

    monkeypatch.setitem(at_scale.POLICIES, "interrupted", interrupted)
    before, out = signal.getsignal(signal.SIGINT), tmp_path / "shares.csv"
    chosen = ("--policy", POLICY, "--policy", "interrupted", "--policy", "opb")
    code, lines, wrong = call(*AT_SCALE, "--runs", 50, *chosen, "--out", out, *options, columns=200)
    stopped = "Stopped: what is not listed was not tried."
    assert code == 130
    if options:
        assert (lines, wrong) == ([], f"{stopped}\n")
    else:
        assert [line.partition(" in ")[0] for line in lines] == [POLICY, stopped]
    assert [row[0] for row in csv.reader(out.read_text().splitlines())] == ["policy", POLICY]
    assert signal.getsignal(signal.SIGINT) is before
