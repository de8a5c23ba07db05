"""Reports as files: self-contained pages from templates, and the figures in them."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

REPORT, FIGURES = "report.html", "figures"


def write_page(folder: Path, template: str, *, page: str = REPORT, **values: Any) -> Path:
    """Write the report of a folder, or another page, from a template; return its path."""
    environment = Environment(
        loader=PackageLoader("surefoot.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    path = folder / page
    path.write_text(environment.get_template(template).render(**values), encoding="utf-8")
    return path


def image(path: Path) -> str:
    """A figure as a data URL."""
    return "data:image/svg+xml;base64," + base64.b64encode(smaller(path.read_text(encoding="utf-8")).encode()).decode()


LONG = re.compile(r"(?<![\w#.])(-?\d+\.\d{2})\d+")
PLACES, LINE = re.compile(r"(\.\d)\d+"), re.compile(r'<path d="[^"]*"| [xy]="[^"]*"')
NEEDLESS = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>| transform=\"rotate\(-?0 [^\"]*\)\"", re.DOTALL)
BETWEEN = re.compile(r">\s+<")
LINES = re.compile(r"\s*\n\s*")


def smaller(svg: str) -> str:
    r"""A drawing in fewer characters: positions to a tenth of a point, no comments, no blanks between tags.

    Examples
    --------
    >>> smaller('<g>\n <!-- a line --> <path d="M 10.123456 2.5 \nL 0.5 1"/>\n</g>')
    '<g><path d="M 10.1 2.5 L 0.5 1"/></g>'
    """
    pieces = re.split(r"((?<=>)[^<>]+(?=</text>))", NEEDLESS.sub("", svg))  # every second is a text, and stays
    for i in range(0, len(pieces), 2):
        rounded = LINE.sub(lambda found: PLACES.sub(r"\1", found[0]), LONG.sub(r"\1", pieces[i]))
        pieces[i] = LINES.sub(" ", BETWEEN.sub("><", rounded))
    return "".join(pieces)


def slug(text: str) -> str:
    """A name that is valid in file names and URLs, and differs for different texts."""
    clean = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50]
    return clean if clean == text else f"{clean}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".lstrip("-")
