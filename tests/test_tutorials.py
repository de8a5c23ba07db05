"""The notebooks of the tutorials run. What the tutorials print is checked as doctests of the pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from website.notebooks import notebook

pytest.importorskip("nbclient", reason="the extra docs is not installed")
pytest.importorskip("ipykernel", reason="the extra docs is not installed")

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.stem != "index")
RUN = """
import sys, nbclient, nbformat
with open(sys.argv[1], encoding="utf-8") as file:
    made = nbformat.read(file, as_version=4)
nbformat.validate(made)
nbclient.NotebookClient(made, timeout=120).execute()
print(sum(bool(cell.get("outputs")) for cell in made.cells))
"""


def run(path: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=path.parent)


@pytest.mark.parametrize("page", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_the_notebook_of_a_tutorial_runs(page: Path, tmp_path: Path) -> None:
    path = tmp_path / "tutorial.ipynb"
    path.write_text(notebook(page.read_text(encoding="utf-8")), encoding="utf-8")
    done = run(path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 3, "cells show something"


def test_a_notebook_that_fails_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text(notebook("# Broken\n\n```python\n>>> 1 / 0\n\n```\n"), encoding="utf-8")
    assert "ZeroDivisionError" in run(path).stderr


def test_every_tutorial_is_in_the_index_and_in_the_menu() -> None:
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(TUTORIALS) >= 5
    for page in TUTORIALS:
        assert f"({page.name})" in index
        assert f"tutorials/{page.name}" in menu
        cells = json.loads(notebook(page.read_text(encoding="utf-8")))["cells"]
        assert sum(cell["cell_type"] == "code" for cell in cells) >= 4
