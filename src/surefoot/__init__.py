"""Surefoot: constrained multi-armed bandits. Decisions that learn while their guardrails hold.

The public names are listed once, in ``__init__.pyi``, each with the module that defines it. That module is imported
when the name is first used: `import surefoot` is fast, and a missing extra matters only to those who use it.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from surefoot.extras import needed_by

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.M)}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOMES:
        with needed_by(name):
            home = import_module(_HOMES[name])
            value = vars(home)[name] if name in vars(home) else import_module(f"{_HOMES[name]}.{name}")
    else:
        raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    """The version that was installed; a source tree that is not installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("surefoot")
    except PackageNotFoundError:
        return "0+unknown"
