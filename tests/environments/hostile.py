"""What no model takes, and files that hold it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

HOSTILE: dict[str, Any] = {
    "nothing": None,
    "a word": "losses",
    "a number in quotes": "0.5",
    "words": ["0.5", "0.5"],
    "a word among numbers": [0.5, "0.5"],
    "truth values": [True, False],
    "a hole": [0.5, None],
    "NaN": [0.5, np.nan],
    "infinity": [0.5, np.inf],
    "above 1": [0.5, 1.0 + 1e-9],
    "below 0": [-1e-9, 0.5],
    "complex": [0.5, 1j],
    "ragged": [[0.1, 0.2], [0.3]],
    "four dimensions": np.zeros((2, 2, 2, 2)),
    "an object": object(),
    "a mapping": {"a": 0.5},
    "masked": np.ma.masked_array([0.5, 0.5], [False, True]),
}


def rows(values: Any) -> Any:
    """The same as a row of a matrix, where it is a plain row; else itself."""
    if isinstance(values, np.ma.MaskedArray):
        return values[None, :]
    return [values] if isinstance(values, list) and not isinstance(values[0], list) else values


def write_npy(array: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.save(folder / "file.npy", array, allow_pickle=True)
        return folder / "file.npy"

    return write


def write_text(text: str | bytes, name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def write_parquet(**columns: list[Any]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "file.parquet"
        parquet.write_table(pa.table(columns), path)
        return path

    return write


def write_zip(folder: Path) -> Path:
    path = folder / "file.npz"
    np.savez(path, array=np.zeros((2, 2)))
    return path.rename(folder / "file.npy")


def write_folder(folder: Path) -> Path:
    path = folder / "folder.csv"
    path.mkdir()
    return path


def write_cut(folder: Path) -> Path:
    path = write_npy(np.zeros((100, 3)))(folder)
    path.write_bytes(path.read_bytes()[:200])
    return path


TABLES: dict[str, Callable[[Path], Path]] = {
    "missing": lambda folder: folder / "missing.csv",
    "a folder": write_folder,
    "of no kind": write_text("a,b\n0.1,0.2\n", "file.txt"),
    "an empty csv": write_text("", "file.csv"),
    "a csv with no rows": write_text("success_rate,value,cost\n", "file.csv"),
    "a csv with a hole": write_text("success_rate,value\n0.1,\n0.2,0.3\n", "file.csv"),
    "a csv with NaN": write_text("success_rate,value\n0.1,nan\n0.2,0.3\n", "file.csv"),
    "a csv above 1": write_text("success_rate,value\n0.1,0.3\n1.2,0.3\n", "file.csv"),
    "a ragged csv": write_text("success_rate,value\n0.1\n0.2,0.3\n", "file.csv"),
    "a csv of words": write_text("success_rate,value\na,b\nc,d\n", "file.csv"),
    "a csv of truth values": write_text("success_rate,value\ntrue,false\n", "file.csv"),
    "a csv of noise": write_text(bytes(range(256)) * 4, "file.csv"),
    "an empty parquet": write_text("", "file.parquet"),
    "a parquet of noise": write_text("PAR1 this is none PAR1", "file.parquet"),
    "a parquet with a hole": write_parquet(success_rate=[0.1, None], value=[0.2, 0.3]),
    "a parquet with NaN": write_parquet(success_rate=[0.1, np.nan], value=[0.2, 0.3]),
    "a parquet of words": write_parquet(success_rate=["0.1", "0.2"], value=["0.3", "0.4"]),
}
"""Tables that are neither an array of losses nor a table of arms."""


def arrays(*shape: int) -> dict[str, Callable[[Path], Path]]:
    """Arrays that are wrong, though of that shape after the rounds where they can be."""
    late = np.full((70_000, *shape), 0.5)
    late[-1] = 1.1  # beyond the first piece that is looked at
    return {
        "a missing npy": lambda folder: folder / "missing.npy",
        "an npy with NaN": write_npy(np.full((3, *shape), np.nan)),
        "an npy above 1 at its end": write_npy(late),
        "an npy of words": write_npy(np.full((3, *shape), "a")),
        "an npy of objects": write_npy(np.full((3, *shape), 0.5, object)),
        "an npy of truth values": write_npy(np.full((3, *shape), True)),
        "a complex npy": write_npy(np.full((3, *shape), 0.5j)),
        "an npy with no rounds": write_npy(np.zeros((0, *shape))),
        "an npy of one dimension": write_npy(np.zeros(3)),
        "an npy of four dimensions": write_npy(np.zeros((2, 2, 2, 2))),
        "an npy of noise": write_text("this is no array", "file.npy"),
        "an npy cut short": write_cut,
    }
