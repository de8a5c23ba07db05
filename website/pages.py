"""All pages of the site in one folder: those of docs/, those of the repository's root, those made from code.

MkDocs then only has to render them. No hook or plugin of its own is needed, so another renderer can take its place.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from website import notebooks, reference

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
"""Files of the repository's root that are pages of the site, under these names."""
MARK = ".written-by-website"
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".conf": "nginx", ".service": "ini"}
LINK = re.compile(r"(\]\(|^\[[^\]\n]+\]: )([^)\s#]+)", re.M)
FORMULAS = '\n<div class="formulas" hidden></div>\n'  # extra.css wraps the code blocks of such a page
GLUE = "\N{NO-BREAK SPACE}"
TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=\S) (?=± )|(?<=±) (?=\S)")
PAIR = re.compile(r"(?<=\| )(-?[\d.,]+) / (-?[\d.,]+)(?= \|)")
CODE = re.compile(r"(^[ >]*(```+|~~~+).*?^[ >]*\2|`[^`\n]+`)", re.M | re.S)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\.svg\)")
PROMPT = re.compile(r"^```python\n(?=>>> )", re.M)


def write(folder: Path, docs: Path = ROOT / "docs") -> None:
    """Write all pages to a folder. One that was written before is emptied first; any other must be empty."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise FileExistsError(f"{folder} is not empty, and was not written by this program")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(docs, folder)
    (folder / MARK).touch()
    texts = {str(path.relative_to(docs)): path.read_text(encoding="utf-8") for path in docs.rglob("*.md")}
    texts |= {uri: moved((ROOT / name).read_text(encoding="utf-8"), name) for name, uri in OUTSIDE.items()}
    texts["index.md"] = "---\nhide: [navigation]\n---\n\n" + texts["index.md"]
    texts["command-line.md"] = with_reference(texts["command-line.md"])
    texts |= reference.pages()
    for uri in [uri for uri in texts if uri.startswith("tutorials/") and not uri.endswith("index.md")]:
        texts[uri.replace(".md", ".ipynb")] = notebooks.notebook(texts[uri])
        texts[uri] = with_notebook(texts[uri], Path(uri).stem)
    for uri in [uri for uri in texts if uri.startswith("theory/")]:
        texts[uri] += FORMULAS
    for uri in [uri for uri in texts if uri.endswith(".md")]:
        for path in {outside(target, uri) for _, target in LINK.findall(texts[uri])} - {None, *OUTSIDE}:
            texts[f"source/{path}.md"] = source_page(str(path))
        texts[uri] = PROMPT.sub("```pycon\n", for_phones(glued(led_inside(texts[uri], uri)), uri, docs))
    for uri, text in texts.items():
        (folder / uri).parent.mkdir(parents=True, exist_ok=True)
        (folder / uri).write_text(text, encoding="utf-8")


def glued(text: str) -> str:
    """A page whose numbers stay on the line of their percent sign, interval or second half; code is left alone."""
    found, end = [], 0
    for match in [*CODE.finditer(text), None]:
        words = text[end : match.start() if match else None]
        words = TOGETHER.sub(GLUE, words)
        found += [
            re.sub(r"^\|.*", lambda row: PAIR.sub(rf"\1{GLUE}/{GLUE}\2", row[0]), words, flags=re.M),
            match[0] if match else "",
        ]
        end = match.end() if match else end
    return "".join(found)


def for_phones(text: str, uri: str, docs: Path) -> str:
    """A page that shows NAME-narrow.svg in place of NAME.svg on a narrow screen, where there is such a picture."""
    place = uri.removesuffix(".md").removesuffix("index") or "."  # the page is a folder of the site

    def chosen(match: re.Match[str]) -> str:
        narrow = normpath(join(dirname(uri), match[1])) + "-narrow.svg"
        if not (docs / narrow).is_file():
            return match[0]
        return f'<picture><source media="(max-width: 45em)" srcset="{relpath(narrow, place)}">{match[0]}</picture>'

    return PICTURE.sub(chosen, text)


def outside(target: str, uri: str) -> str | None:
    """The file of the repository, outside docs/, that a link of a page leads to; None if it leads elsewhere."""
    path = normpath(join("docs", dirname(uri), target))
    elsewhere = re.match(r"[a-z]+:", target) or path.startswith(("docs/", "..")) or not (ROOT / path).is_file()
    return None if elsewhere else path


def led_inside(text: str, uri: str) -> str:
    """A page whose links out of docs/ lead to the pages of these files."""

    def led(match: re.Match[str]) -> str:
        path = outside(match[2], uri)
        if path is None:
            return match[0]
        return match[1] + relpath(OUTSIDE.get(path, f"source/{path}.md"), dirname(uri) or ".")

    return LINK.sub(led, text)


def moved(text: str, name: str) -> str:
    """A page of the repository's root as if it were in docs/."""

    def led(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[2]):
            return match[0]
        path = normpath(join(dirname(name), match[2]))
        return match[1] + (path.removeprefix("docs/") if path.startswith("docs/") else join("..", path))

    return LINK.sub(led, text)


def with_notebook(text: str, name: str) -> str:
    """A tutorial with a link to its notebook below the title."""
    note = f'[Download as a notebook]({name}.ipynb){{: download="{name}.ipynb" }}\n'
    return re.sub(r"\A(# .+\n)", rf"\1\n{note}", text)


def with_reference(text: str) -> str:
    """The list of commands, each with a link to its options, which only the site has."""
    return re.sub(r"^\| `(surefoot [a-z ]+)` \|", led_to_command, text, flags=re.M)


def led_to_command(match: re.Match[str]) -> str:
    """The first column of a command's line."""
    return f"| [`{match[1]}`](reference/commands.md#{match[1].replace(' ', '-')}) |"


def source_page(path: str) -> str:
    """A file of the repository as a page, left out of the search."""
    text = (ROOT / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n~~~~{language}\n{text.rstrip()}\n~~~~\n"
