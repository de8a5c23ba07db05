"""Files around the code: the workflow runs what a developer runs, and templates and citation can be read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[1]


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_runs_the_same_commands_on_every_version() -> None:
    jobs = read(".github/workflows/test.yml")["jobs"]
    commands = {name: [step.get("run", "") for step in job["steps"]] for name, job in jobs.items()}
    assert "make test" in commands["test"]
    assert "make test-oldest" in commands["oldest"]
    assert "make site" in commands["build"]
    assert any("-m build" in command for command in commands["build"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r"Python :: 3\.\d", one)}
    assert listed == set(jobs["test"]["strategy"]["matrix"]["python"])
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"\bmake ([\w-]+)", " ".join(" ".join(one) for one in commands.values())):
        assert target in targets


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_templates_of_issues_ask_something(name: str) -> None:
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"]
    assert form["description"]
    assert any(field["type"] == "textarea" for field in form["body"])


def test_the_citation_names_the_paper_as_the_page_does() -> None:
    citation = read("CITATION.cff")
    [paper] = citation["references"]
    page = " ".join((ROOT / "docs" / "paper.md").read_text(encoding="utf-8").replace(">", " ").split())
    assert paper["title"] in page
    assert f"({paper['url']})" in page
    assert f"{paper['conference']['name']}." in page
    assert f"({paper['url']})" in (ROOT / "README.md").read_text(encoding="utf-8")
    for author in paper["authors"]:
        assert f"{author['given-names']} {author['family-names']}" in page
    assert citation["license"] == "MIT"


def test_all_files_agree_with_the_changelog_on_what_is_released() -> None:
    """A version with a date is released: the citation names it, and no page says that there is no release."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = [head for head in re.findall(r"^## \[(.+?)\](?: - (.+))?$", changelog, re.M) if head != ("Unreleased", "")]
    released = [(version, date) for version, date in heads if re.fullmatch(r"\d{4}-\d\d-\d\d", date)]
    others = {date.partition(", ")[2] or date for version, date in heads if (version, date) not in released}
    assert others <= {"not yet released", "never published"}
    citation = read("CITATION.cff")
    named = [str(citation[key]) for key in ("version", "date-released") if key in citation]
    assert named == list(released[0] if released else ())
    for path in ("SECURITY.md", "RELEASING.md", "docs/faq.md"):
        assert ("not released yet" in (ROOT / path).read_text(encoding="utf-8")) == (not released), path
