"""Pages that list things cannot rot: what they name exists, and nothing that they must name is missing."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from surefoot.cli import app
from surefoot.simulation.run import SCHEMA
from surefoot.theory.catalogue import CLAIMS
from website import pages, reference

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "paper-to-code.md").read_text(encoding="utf-8")
LINES = {"Algorithm 1": 22, "Algorithm 2": 28}
READINGS = {"C": 10, "S": 12, "P": 19, "B": 7}


def tables(page: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """The tables of a page: the heading above, the head, the rows."""
    heading, rows = "", []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            yield heading, rows[0], rows[2:]
            rows = []
        if line.startswith("## "):
            heading = line[3:]


def column(page: str, name: str) -> list[str]:
    return [row[head.index(name)] for _, head, rows in tables(page) if name in head for row in rows]


@cache
def names_in(path: Path) -> set[str]:
    """The functions of a test file, those of classes with the name of their class."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def exists(label: str, target: str) -> bool:
    """Whether a name, `module.name` or that of a test, is to be found in the file that it links to."""
    path = (DOCS / target).resolve()
    if not path.is_file():
        return False
    if "src" not in path.parts:
        return label in names_in(path)
    rooms = path.with_suffix("").parts[path.parts.index("src") + 1 :]
    stem = label.split(".").index(rooms[-1]) if rooms[-1] in label.split(".") else -1
    before, after = label.split(".")[: stem + 1], label.split(".")[stem + 1 :]
    found: object = importlib.import_module(".".join(rooms))
    for name in after:
        found = getattr(found, name, None)
    return found is not None and bool(before) and list(rooms[-len(before) :]) == before


def numbers(cell: str) -> set[int]:
    """The lines that a cell of an algorithm's table is about, such as "6", "7, 8 spaces" or "12 to 18 rates"."""
    found = set(map(int, re.findall(r"\b\d+\b", cell)))
    for low, high in re.findall(r"(\d+) to (\d+)", cell):
        found |= set(range(int(low), int(high) + 1))
    return found


def wrong(page: str) -> list[str]:
    """What is wrong with a page, in words."""
    said = []
    defined = dict(re.findall(r"^\[`(.+?)`\]: (\S+)$", page, re.M))
    used = set(re.findall(r"\[`([^`]+)`\](?![:(])", page))
    said += [f"{label} has no link" for label in used - set(defined)]
    said += [f"{label} is linked and not used" for label in set(defined) - used]
    said += [f"{label} is not in {target}" for label, target in defined.items() if not exists(label, target)]
    for target in re.findall(r"\]\(([^)#]+)", page):
        said += [] if (DOCS / target).exists() else [f"{target} does not exist"]
    for words in re.findall(r"\bcolumns? ((?:`\w+`(?:, | and )?)+)", page):
        said += [f"no column {name}" for name in re.findall(r"`(\w+)`", words) if name not in SCHEMA.names]
    shorts = set(column(page, "short"))
    tests = {word.strip() for cell in column(page, "tests") for word in cell.split(",") if word.strip()}
    said += [f"no test is called {word}" for word in tests - shorts]
    said += [f"the test {word} is not needed" for word in shorts - tests]
    named = {name for cell in column(page, "claim") for name in re.findall(r"`(.+?)`", cell)}
    known = {claim.name for claim in CLAIMS}
    said += [f"no claim is called {name}" for name in named - known]
    said += [f"the claim {name} is not mentioned" for name in known - named]
    for algorithm, last in LINES.items():
        rows = [row for heading, _, rows in tables(page) if heading.startswith(algorithm) for row in rows]
        found = set().union(*(numbers(row[0]) for row in rows))
        said += [f"line {n} of {algorithm} is missing" for n in set(range(1, last + 1)) - found]
        said += [f"{algorithm} has no line {n}" for n in found - set(range(1, last + 1))]
    first = [row[0] for _, _, rows in tables(page) for row in rows]
    for letter, last in READINGS.items():
        said += [f"{letter}{n} is missing" for n in range(1, last + 1) if f"{letter}{n}" not in first]
    said += [f"line {n} is longer than 130" for n, line in enumerate(page.splitlines(), 1) if len(line) > 130]
    return said


def test_the_map_from_the_paper_to_the_code_is_right() -> None:
    assert wrong(PAGE) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("`learner.descend`", "`learner.ascend`", "learner.ascend is not in ../src/surefoot/kernels/learner.py"),
        ("kernels/learner.py", "kernels/pupil.py", "learner.descend is not in ../src/surefoot/kernels/pupil.py"),
        ("`kernels.costs.bound`", "`policies.costs.bound`", "policies.costs.bound is not in"),
        ("`test_d4_mixing`", "`test_d4`", "test_d4 is not in ../tests/policies/test_pathwise.py"),
        ("(bounds.md)", "(limits.md)", "limits.md does not exist"),
        ("column `worst_margin`", "column `best_margin`", "no column best_margin"),
        ("| D4, ", "| D9, ", "no test is called D9"),
        ("`Remark 3` |", "`Remark 4` |", "the claim Remark 3 is not mentioned"),
        ("`Remark 3` |", "`Remark 4` |", "no claim is called Remark 4"),
        ("| 19 to 21 else", "| 19 to 20 else", "line 21 of Algorithm 1 is missing"),
        ("| P17 |", "| P20 |", "P17 is missing"),
    ],
)
def test_a_map_that_has_rotted_is_noticed(old: str, new: str, sentence: str) -> None:
    assert old in PAGE
    assert any(sentence in words for words in wrong(PAGE.replace(old, new)))


# The command line

COMMANDS = (DOCS / "command-line.md").read_text(encoding="utf-8")


def listed(page: str) -> dict[str, str]:
    """The commands of a page, and what it says of each."""
    [rows] = [rows for _, head, rows in tables(page) if head[:1] == ["command"]]
    return {row[0].strip("`"): row[1] for row in rows}


def test_every_command_has_its_line() -> None:
    """A new command needs a line, and the line is what `surefoot --help` says of it."""
    root = typer.main.get_command(app)
    made = {path: reference.first(one.help) for path, one in reference.commands(root, "surefoot")}
    assert listed(COMMANDS) == made
    assert len(made) > 15
    assert "surefoot plan" not in made  # hidden: the old name of forecast


def test_on_the_site_every_command_leads_to_its_options() -> None:
    anchors = re.findall(r"\]\(reference/commands.md#([a-z-]+)\)", pages.with_reference(COMMANDS))
    assert anchors == [path.replace(" ", "-") for path in listed(COMMANDS)]
    for anchor in anchors:
        assert f"{{: #{anchor} }}" in reference.commands_page()


def test_commands_with_json_are_those_that_the_page_names() -> None:
    root = typer.main.get_command(app)
    have = {path.removeprefix("surefoot ") for path, one in reference.commands(root, "surefoot") if takes_json(one)}
    said = re.search(r"in place of tables: (.+?) have it\.", " ".join(COMMANDS.split()))
    assert said is not None
    assert set(re.findall(r"`([a-z ]+)`", said[1])) == have


def takes_json(command: Any) -> bool:
    return any("--json" in parameter.opts for parameter in command.params)
