"""What only part of the package needs, and the sentence that names it when it is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {
    "alembic": "serve",
    "distributed": "dask",
    "fastapi": "serve",
    "fsspec": "dask",
    "httptools": "serve",
    "httpx2": "client",
    "msgspec": "storage",
    "numba_cuda": "cuda",
    "plotly": "serve",
    "prometheus_client": "serve",
    "psycopg": "postgres",
    "uvicorn": "serve",
    "uvloop": "serve",
    "pyarrow": "lab",
    "rich": "lab",
    "jinja2": "report",
    "matplotlib": "report",
    "pydantic": "cli",
    "sqlalchemy": "storage",
    "typer": "cli",
}
"""For each such module, the extra of pyproject.toml that brings it."""


class MissingExtra(ImportError):
    """Something is used whose extra is not installed."""


@contextmanager
def needed_by(what: str, extra: str | None = None) -> Iterator[None]:
    """Name the extra to install when an import inside fails for lack of it; `extra` if given, else the module's own.

    Examples
    --------
    >>> with needed_by("simulate"):
    ...     raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
    Traceback (most recent call last):
    surefoot.extras.MissingExtra: simulate needs pyarrow: pip install 'surefoot[lab]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise MissingExtra(f"{what} needs {module}: pip install 'surefoot[{extra or EXTRAS[module]}]'") from None
