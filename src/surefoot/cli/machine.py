"""Results for machines: JSON on standard output, and nothing else there."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def print_json(data: Any) -> None:
    """Print data as JSON. Numbers that are not finite become null: JSON has none."""
    print(json.dumps(plain(data), indent=1, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """The value as JSON has it.

    Examples
    --------
    >>> plain({"a": (1.5, float("inf")), "b": np.float64(2.0), 3: None})
    {'a': [1.5, None], 'b': 2.0, '3': None}
    """
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    return value if isinstance(value, str | int | None) else str(value) if isinstance(value, Path) else repr(value)
