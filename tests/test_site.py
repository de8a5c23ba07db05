"""The documentation site: it builds without a warning, loads nothing from elsewhere, and its reference is complete."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import surefoot
from surefoot.service.openapi import document
from surefoot.service.routes import Routes
from website import notebooks, pages, reference

pytest.importorskip("mkdocs", reason="the extra docs is not installed")

ROOT = Path(__file__).parents[1]
BUILD = """
import logging, sys
from mkdocs.commands.build import build
from mkdocs.config import load_config
logging.basicConfig(level=logging.WARNING)
build(load_config(sys.argv[1], docs_dir=sys.argv[2], site_dir=sys.argv[3]))
"""
PAINT = {
    "img": "src",
    "script": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}


def build(config: Path, docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-c", BUILD, str(config), str(docs), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=config.parent)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages.write(folder / "pages")
    done = build(ROOT / "mkdocs.yml", folder / "pages", folder / "site")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "site"


def test_it_builds_without_a_warning(site: Path) -> None:
    assert (site / "index.html").exists()
    assert (site / "search" / "search_index.json").exists()


@pytest.mark.parametrize("page", ["[gone](gone.md)", "[gone](#gone)", "[gone](../src/gone.py)"])
def test_a_broken_link_fails_the_build(tmp_path: Path, page: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Fine\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    kept = re.search(r"^strict: true\n", settings, re.M), re.search(r"^validation:\n(?:  .+\n)+", settings, re.M)
    assert all(kept)
    text = "site_name: x\n" + "".join(one[0] for one in kept if one)
    (tmp_path / "mkdocs.yml").write_text(text)
    assert build(tmp_path / "mkdocs.yml", tmp_path / "docs", tmp_path / "site").returncode == 0
    (tmp_path / "docs" / "index.md").write_text(f"# Broken\n\n{page}\n")
    assert build(tmp_path / "mkdocs.yml", tmp_path / "docs", tmp_path / "site").returncode != 0


class Loads(HTMLParser):
    """What a page loads by itself: scripts, styles, fonts, images; not what a reader may click on."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [given.get(PAINT.get(tag, "")) or "", *(given.get("srcset") or "").split()]
        self.found += re.findall(r"url\(([^)]*)\)", given.get("style") or "")
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.found.append(given.get("href") or "")


def elsewhere(addresses: list[str]) -> list[str]:
    return [one for one in addresses if re.match(r"['\"]?(?:https?:)?//", one)]


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert elsewhere(Loads(path.read_text(encoding="utf-8")).found) == [], path
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert elsewhere(re.findall(r"(?:url\(|@import\s+)([^)\s;]+)", text)) == [], path
    control = (
        '<link rel="stylesheet" href="//a.b/c.css"><script src="https://a.b/c.js"></script><a href="https://a.b">x</a>'
    )
    assert elsewhere(Loads(control).found) == ["//a.b/c.css", "https://a.b/c.js"]


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in (site / "reference" / "api").rglob("*.html"))
    modules = {"confidence", "costs", "losses", "scenarios"}
    for name in set(surefoot.__all__) - modules:
        assert f'id="{reference.home(name)}"' in shown, name
    listed = {name for _, _, names in reference.API.values() for name in names}
    for module in sorted(modules):
        named = {name for name in getattr(surefoot, module).__all__ if not name.isupper() and name != "Table"}
        assert {f"{module}.{name}" for name in named} <= listed, module
    assert 'id="surefoot.policies.solb.LOLB"' not in shown


def test_every_command_and_route_is_in_the_reference() -> None:
    commands = reference.commands_page()
    told = subprocess.run(
        [sys.executable, "-m", "surefoot", "keys", "--help"], capture_output=True, text=True, check=True
    )
    for name in re.findall(r"^│ (\w+)  ", told.stdout, re.M):
        assert f"## `surefoot keys {name}`" in commands
    for name in ("demo", "run", "serve", "verify", "db upgrade", "keys create"):
        assert f"## `surefoot {name}`" in commands
    http = reference.http_page()
    for path, verbs in document(Routes(None, None).table())["paths"].items():  # type: ignore[arg-type]
        for verb in verbs:
            assert f"## `{verb.upper()} {path}`" in http


def test_a_notebook_has_the_code_and_not_what_it_printed() -> None:
    page = "# Title\n\nText.\n\n```python\n>>> if 1:\n...     print(2)\n2\n>>> 3\n3\n\n```\n\nMore.\n"
    cells = json.loads(notebooks.notebook(page))["cells"]
    assert [cell["source"] for cell in cells] == ["# Title\n\nText.", "if 1:\n    print(2)\n3", "More."]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "markdown"]


def test_links_work_in_the_repository_as_well() -> None:
    """As where the files are read without the site."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for _, target in pages.LINK.findall(path.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:|#", target):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_numbers_stay_with_their_percent_sign_and_code_is_left_alone() -> None:
    page = "At 5 % and 3 ± 1:\n\n| -1 / 2 | 3 ± 1 / 4 |\n\n```\n5 % 3 ± 1\n```\n\n`5 %` or 6 %.\n"
    glued = "At 5~% and 3~±~1:\n\n| -1~/~2 | 3~±~1 / 4 |\n\n```\n5 % 3 ± 1\n```\n\n`5 %` or 6~%.\n"
    assert pages.glued(page) == glued.replace("~", pages.GLUE)


def test_a_phone_gets_the_narrow_picture_where_there_is_one(site: Path) -> None:
    for page, picture in (("", "routing"), ("start/concepts/", "loosening")):
        text = (site / page / "index.html").read_text(encoding="utf-8")
        [narrow] = re.findall(rf'srcset="([^"]*{picture}-narrow.svg)"', text)
        assert (site / page / narrow).is_file()
    assert "srcset" not in (site / "tutorials" / "reading-a-report" / "index.html").read_text(encoding="utf-8")


def test_a_folder_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        pages.write(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    assert pages.led_inside("[a](../README.md#x)", "live.md") == "[a](index.md#x)"
    assert pages.led_inside("[a](../../src/surefoot/problem.py)", "theory/live.md") == (
        "[a](../source/src/surefoot/problem.py.md)"
    )
    assert pages.moved("[a](docs/live.md#x) [b](https://c.d)", "README.md") == "[a](live.md#x) [b](https://c.d)"


# In a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


CUT = "[...document.querySelectorAll('.highlight pre > code')].filter(x => x.scrollWidth > x.clientWidth + 1).length"


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Silent, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_in_a_browser_pages_fit_a_phone_and_sessions_are_copied_without_prompts(address: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": 390, "height": 844}, permissions=["clipboard-read", "clipboard-write"]
        )
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for path in ("theory/practical/", "theory/weighted-estimator/", "theory/led/"):
            page.goto(address + path)
            assert page.evaluate(CUT) == 0, f"{path}: formulas are cut"
        for path in ("", "faq/", "league/", "reference/http/", "reference/api/live/", "start/five-minutes/"):
            page.goto(address + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.locator("button.md-code__button").nth(2).click()
        copied = page.evaluate("navigator.clipboard.readText()")
        browser.close()
    assert all(one.startswith((address, "data:")) for one in asked)
    assert "status = live.status()" in copied.splitlines()
    assert ">>>" not in copied
    assert "('running', 3000, [])" not in copied
