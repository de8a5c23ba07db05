"""docs/service.md and docs/operate.md: their shell commands work, and their tables are complete."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from surefoot.service.problems import TITLES
from tests.servers import Server
from tests.service.conftest import Api

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "service.md").read_text(encoding="utf-8")
SCRIPT = "\n".join(re.findall(r"^```bash\n(.*?)^```$", PAGE, re.M | re.S))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("surefoot.db", tmp_path_factory.mktemp("examples"))
    yield server
    server.stop()


def run(script: str, server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    careful = "set -euo pipefail; shopt -s inherit_errexit\n"
    environment = {"ADDRESS": server.address, "KEY": server.key, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    return subprocess.run(
        ["bash", "-c", careful + script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_commands_of_the_page_work(server: Server, tmp_path: Path) -> None:
    done = run(SCRIPT, server, tmp_path)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    for words in ('"forecast":', '"status":"partial"', '"status":"accepted"', '"epoch":1,"kept":true', '"count":1'):
        assert words in done.stdout
    wrong = run(SCRIPT.replace('"spend": 0.31}', '"spend": 3.1}'), server, tmp_path)
    assert wrong.returncode != 0, "the control"


def test_every_route_is_shown(api: Api) -> None:
    for path in api.client.get("/openapi.json").json()["paths"]:
        shown = path.replace("{name}", "llm-routing").replace("{id}", "$ID")
        assert shown in PAGE, path


def test_every_problem_and_every_metric_is_explained(api: Api) -> None:
    table = PAGE[PAGE.index("## Errors") : PAGE.index("## Keys and roles")]
    for kind in set(TITLES) - {"internal"}:
        assert re.search(rf"\b{kind}\b", table), kind
    metrics = (DOCS / "operate.md").read_text(encoding="utf-8")
    for name in re.findall(r"^# TYPE (\w+) (?:gauge|counter|histogram)", api.client.get("/metrics").text, re.M):
        if not name.endswith("_created"):
            assert f"`{name}`" in metrics, name
