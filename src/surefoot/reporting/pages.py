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
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def slug(text: str) -> str:
    """A name that is valid in file names and URLs, and differs for different texts."""
    clean = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50]
    return clean if clean == text else f"{clean}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".lstrip("-")
