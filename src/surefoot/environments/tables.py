"""Reading what users bring: arrays and tables in files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from surefoot.problem import RULES, Floats, frozen, numbers

KINDS = (".npy", ".csv", ".parquet")


def read_columns(path: str | Path) -> dict[str, Floats]:
    """The numeric columns of a CSV or Parquet file, by name."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    path = existing(path, KINDS[1:])
    try:
        table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"path must be a table that can be read, got {path}: {error}") from None
    kept = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            if column.null_count:
                raise ValueError(f"column {name!r} of {path.name} must have no empty cells, got {column.null_count}")
            kept[name] = column.to_numpy().astype(np.float64)
    return kept


def read_array(name: str, path: str | Path, dimensions: int) -> Floats:
    """The numbers in a file: rounds by arms. Arrays in ``.npy`` stay on disk."""
    path = existing(path, KINDS)
    if path.suffix != ".npy":
        columns = read_columns(path)
        if not columns:
            raise ValueError(f"path must be a table with columns of numbers, got {path}")
        return frozen(numbers(name, np.column_stack(list(columns.values())), None, None))
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise ValueError(f"path must be a NumPy array, got {path}: {error}") from None
    if array.ndim != dimensions or array.dtype.kind not in "iuf" or array.size == 0:
        raise ValueError(
            f"{name} must be an array of numbers in {dimensions} dimensions, got one of type {array.dtype} and shape "
            f"{array.shape}"
        )
    rule = RULES[name]
    for start in range(0, len(array), 65_536):
        piece = array[start : start + 65_536]
        if not (float(piece.min()) in rule and float(piece.max()) in rule):
            numbers(name, piece, *piece.shape)  # finds the words
    return np.asarray(array)


def rank(values: object) -> int:
    """Number of dimensions; 0 for rows of different lengths."""
    try:
        return np.ndim(values)  # type: ignore[arg-type]
    except ValueError:
        return 0


def existing(path: str | Path, kinds: tuple[str, ...]) -> Path:
    """The path, if it is a file of one of these kinds."""
    path = Path(path)
    if path.suffix not in kinds:
        raise ValueError(f"path must end with {' or '.join(kinds)}, got {path}")
    if not path.is_file():
        raise ValueError(f"path must be a file, got {path}")
    return path


def cost_means(columns: Mapping[str, Floats]) -> Floats:
    """Mean costs out of a table of arms: failures, where it tells success rates, else its columns named cost..."""
    if "success_rate" in columns:
        return 1.0 - numbers("success_rate", columns["success_rate"], None)[None, :]
    named = [values for name, values in columns.items() if name.startswith("cost")]
    if not named:
        raise ValueError(
            "path must be a table with a column success_rate, or columns whose names start with cost, got one with "
            f"{', '.join(columns)}"
        )
    return numbers("means", np.array(named), len(named), None)
