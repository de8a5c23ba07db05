"""From the arrays of an episode to its table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from surefoot.simulation.run import SCHEMA

KINDS = [(field.name, field.type) for field in SCHEMA]


def table_of(columns: Mapping[str, Any], rows: int) -> pa.Table:
    """The table of an episode; columns that are not given are empty."""
    return pa.Table.from_arrays([column(columns.get(name), kind, rows) for name, kind in KINDS], schema=SCHEMA)


def column(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of the table, out of an array, numbers and whether they are known, a list, or None.

    Arrays become columns as they lie in memory: `pa.array` would take ten times as long.
    """
    if isinstance(values, tuple):
        values, known = values
        if not known.all():
            return pa.array(values, kind, mask=~known)
    if isinstance(values, np.ndarray):
        if pa.types.is_list(kind):
            flat = column(np.ascontiguousarray(values).reshape(-1), kind.value_type, values.size)
            return pa.Array.from_buffers(kind, rows, [None, ends_of(rows, values.shape[1])], children=[flat])
        bits = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bits)])
    if isinstance(values, pa.Array):
        return values
    return nulls(rows, kind) if values is None else pa.array(values, kind)


@lru_cache(64)
def nulls(rows: int, kind: pa.DataType) -> pa.Array:
    """An empty column."""
    return pa.nulls(rows, kind)


@lru_cache(64)
def ends_of(rows: int, width: int) -> pa.Buffer:
    """Where the rows of a list column end."""
    return pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
