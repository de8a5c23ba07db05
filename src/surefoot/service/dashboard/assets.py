"""Scripts and styles, served from here: ours, and the chart library's from its installed package."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from surefoot.service.problems import Problem

MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
OWN = ("surefoot.css", "surefoot.js", "icon.svg")
HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Vary": "Accept-Encoding",
}
STYLES = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')


class Assets:
    """The files, each at an address that changes with its content."""

    def __init__(self) -> None:
        folder = files("surefoot.service.dashboard") / "static"
        self._files = {name: (folder / name).read_bytes() for name in OWN}
        self._packed: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self.urls: dict[str, str] = {}
        for name, content in self._files.items():
            self._add(name, hashlib.sha256(content).hexdigest()[:12])
        self._add("plotly.js", version("plotly"))

    def _add(self, name: str, tag: str) -> None:
        stem, _, ending = name.rpartition(".")
        path = f"{stem}-{tag}.{ending}"
        self._names[path], self.urls[name] = name, f"/static/{path}"

    @cached_property
    def plotly(self) -> bytes:
        """The script of Plotly."""
        return (files("plotly") / "package_data" / "plotly.min.js").read_bytes()

    @cached_property
    def style_ids(self) -> list[str]:
        """Ids of the style elements that Plotly's script would add, for maps, if elements of these ids were not there.

        The policy of the pages forbids such elements.
        """
        return sorted({id.decode() for id in STYLES.findall(self.plotly)})

    def response(self, request: Request) -> Response:
        """A file; this may take a moment."""
        path = request.path_params["path"]
        name = self._names.get(path)
        if name is None:
            raise Problem(404, "unknown", "there is nothing at this address")
        headers = HEADERS | {"Content-Type": MEDIA[name.rpartition(".")[2]]}
        content = self.plotly if name == "plotly.js" else self._files[name]
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(content, 200, headers)
        if name not in self._packed:
            self._packed[name] = gzip.compress(content, 9, mtime=0)
        return Response(self._packed[name], 200, headers | {"Content-Encoding": "gzip"})
