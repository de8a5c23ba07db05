"""Reading users' files: arrays and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.extras import needed_by
from surefoot.rules import SHARE, Floats, RuleError, frozen, numbers

KINDS = (".npy", ".csv", ".parquet")


def read_columns(path: str | Path) -> dict[str, NDArray[Any]]:
    """The columns of a CSV or Parquet file, by name; those of numbers as floats."""
    with needed_by("a table in a file"):
        import pyarrow as pa
        from pyarrow import csv, parquet

    path = existing(path, KINDS[1:])
    try:
        table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
        names = table.column_names
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RuleError("path", "be a table that can be read", path, f"{path}: {reason}") from None
    if len(set(names)) < len(names) or any(map(is_number, names)):
        raise RuleError("path", "be a table whose first line has a different name for each column", path, str(path))
    columns = {}
    for name, column in zip(names, table.columns, strict=True):
        is_numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if is_numeric and column.null_count:
            raise RuleError(f"column {name!r} of {path.name}", "have no empty cells", column.null_count)
        columns[name] = column.to_numpy().astype(np.float64) if is_numeric else np.array(column.to_pylist(), object)
    return columns


def read_array(name: str, path: str | Path, dimensions: int) -> Floats:
    """The numbers in a file: rounds by arms. Arrays in ``.npy`` stay on disk."""
    path = existing(path, KINDS if dimensions == 2 else KINDS[:1])
    if path.suffix != ".npy":
        return frozen(numbers(name, np.column_stack(list(read_columns(path).values())), SHARE, None, None))
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise RuleError("path", "be a NumPy array", path, f"{path}: {error}") from None
    if not isinstance(array, np.ndarray) or array.ndim != dimensions or array.dtype.kind not in "iuf" or not array.size:
        received = f"one of shape {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise RuleError(name, f"be an array of numbers in {dimensions} dimensions", array, received)
    for start in range(0, len(array), 65_536):
        piece = array[start : start + 65_536]
        if not (float(piece.min()) in SHARE and float(piece.max()) in SHARE):
            numbers(name, piece, SHARE, *piece.shape)  # raises with the right message
    return array


def is_number(text: str) -> bool:
    """True if the text reads as a number, so that it is not a column name."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def rank(values: object) -> int:
    """Number of dimensions; 0 for rows of different lengths."""
    try:
        return np.ndim(values)  # type: ignore[arg-type]
    except ValueError:
        return 0


def existing(path: str | Path, kinds: tuple[str, ...]) -> Path:
    """The path, if it is a file of one of these kinds."""
    if not isinstance(path, str | Path):
        raise RuleError("path", "be the name of a file", path)
    path = Path(path)
    if path.suffix not in kinds:
        raise RuleError("path", f"end with {' or '.join(kinds)}", path, str(path))
    if not path.is_file():
        raise RuleError("path", "be a file", path, str(path))
    return path


def cost_means(columns: Mapping[str, NDArray[Any]]) -> Floats:
    """Mean costs from a table of arms: failure rates if it has success rates, else its columns named cost..."""
    if "success_rate" in columns:
        return 1.0 - numbers("success_rate", columns["success_rate"], SHARE, None)[None, :]
    named = {name: values for name, values in columns.items() if name.startswith("cost")}
    if not named:
        rule = "be a table with a column success_rate, or columns whose names start with cost"
        raise RuleError("path", rule, list(columns), f"one with {', '.join(columns)}")
    return np.array([numbers(name, values, SHARE, None) for name, values in named.items()])
