"""What models of losses and costs have in common: parameters, and how they are described."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.rules import Floats

LONGEST = 1000
"""Arrays with more entries than this are described by shape and digest."""


class Model:
    """A model of losses or costs. Its attributes are its parameters; it has no state, so many episodes may share it."""

    n_rounds: int | None = None
    """How many rounds the model covers; None: any number."""

    def to_dict(self) -> dict[str, Any]:
        """The model as JSON-able data: its class and its parameters."""
        kind = type(self)
        own = {name: value for name, value in vars(kind).items() if not (name.startswith("_") or callable(value))}
        outside = identity(kind)
        shared = {"class_attributes": told(own)} if outside else {}  # a model has no state: these are parameters, too
        return {"model": kind.__qualname__, **outside, **shared, **told(vars(self))}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def identity(kind: type) -> dict[str, Any]:
    """What identifies a class from outside the package: its module, and the digest of its source."""
    if kind.__module__.startswith("surefoot."):
        return {}
    try:
        source = hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):  # typed into a console
        source = None
    return {"module": kind.__module__, "source_sha256": source}


def told(value: Any) -> Any:
    """A parameter as JSON-able data; a long array by its digest."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= LONGEST else {"shape": list(value.shape), "sha256": digest(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): told(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [told(part) for part in value]
    return value if isinstance(value, str | int | float | bool | None) else f"<{type(value).__qualname__}>"


def digest(array: Floats) -> str:
    """SHA-256 of the numbers of an array, read piece by piece."""
    seen = hashlib.sha256()
    for start in range(0, len(array), 65_536):
        seen.update(np.ascontiguousarray(array[start : start + 65_536], np.float64).tobytes())
    return seen.hexdigest()
