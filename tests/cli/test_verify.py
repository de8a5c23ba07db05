"""The command `surefoot verify`, as its user types it."""

from __future__ import annotations

import json
import re
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from surefoot.cli import app
from surefoot.theory.claims import Claim, Finding
from tests.theory.made import made_up


def call(*arguments: object, columns: int = 40) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(app, ["verify", *map(str, arguments)], env={"COLUMNS": str(columns)})
    return result.exit_code, result.stdout.splitlines(), result.stderr


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
    assert re.fullmatch(r"3 claims on 1 process: about .*, between .* and .*, as measured on .* now\.\n", wrong)


def test_the_exit_code_is_0_only_if_every_claim_is_held(claims: Any) -> None:
    for some, code in (((CAUGHT,), 0), ((CAUGHT, MISSED), 1), ((WRONG, CAUGHT), 1)):
        claims(*some)
        assert call("--workers", 1)[0] == code


def test_full_means_more_runs(claims: Any) -> None:
    claims(CAUGHT)
    assert "None in [800]" in call("--workers", 1, "--full")[1][0]


def test_a_real_claim() -> None:
    code, lines, _ = call("Lemma 1", "--workers", 1)
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
