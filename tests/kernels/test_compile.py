"""How kernels are compiled and kept: no side effects on other Numba code, nothing stale, read-only installations."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot as sf
from surefoot.kernels import compile as kernels
from surefoot.kernels.dual import gap

BOUND = """
from surefoot.kernels.costs import CostBound, bound, unknown_costs
known = unknown_costs(1, 1, CostBound(scale=4.0))
known.counts[0] = 16
bound(known, 0)
print(known.upper[0, 0])
"""
DUE = "from surefoot.kernels.follower import due; print(due(18))"
FOLDERS = "import surefoot.kernels.compile as kernels; kernels._is_writable = lambda folder: {}\n"


def python(code: str, source: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process, with the package from a folder and no settings of this process for the cache."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    settings = {**kept, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=settings, capture_output=True, text=True, check=True
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the package, in which nothing has been compiled."""
    folder = tmp_path / "installed"
    shutil.copytree(Path(sf.__file__).parent, folder / "surefoot", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def kept_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.nbc")}


def test_other_numba_code_compiles_as_if_the_package_were_not_there(tmp_path: Path) -> None:
    code = (
        "import types, numba, surefoot.policies\n"
        "nameless = types.FunctionType((lambda x: x + 1).__code__, {})\n"
        "assert nameless.__module__ is None\n"
        "print(numba.njit(nameless)(1))"
    )
    told = python(code, Path(sf.__file__).parents[1], NUMBA_CACHE_DIR=str(tmp_path))
    assert told.stdout == "2\n"
    assert told.stderr == ""


@pytest.mark.parametrize(
    "changed", [("kernels/costs.py", "min(1.0, ", "min(0.1, "), ("kernels/hoeffding.py", "/ n", "* n")]
)
def test_a_changed_kernel_is_compiled_again_although_time_and_size_are_the_same(
    source: Path, changed: tuple[str, str, str]
) -> None:
    name, old, new = changed  # the second is merged into a kernel of another file
    path = source / "surefoot" / name
    text, found = path.read_text(), path.stat()
    before = python(BOUND, source)
    assert (before.stdout, before.stderr.count("compiling")) == ("0.5\n", 1)
    again = python(BOUND, source)
    assert (again.stdout, again.stderr) == (before.stdout, "")  # the control: what has not changed is not compiled
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (found.st_mtime_ns, found.st_size)
    after = python(BOUND, source)
    assert after.stderr.count("compiling") == 1
    assert after.stdout == {"kernels/costs.py": "0.1\n", "kernels/hoeffding.py": "1.0\n"}[name]
    assert len(kept_in(source)) == 1  # nothing stale is left


def test_a_new_version_of_the_compiler_compiles_again(source: Path) -> None:
    python(DUE, source)
    told = python("import llvmlite; llvmlite.__version__ = 'next'\n" + DUE, source)
    assert "compiling" in told.stderr


def test_folders_in_order(source: Path, tmp_path: Path) -> None:
    chosen, own, shared = tmp_path / "chosen", tmp_path / "own", tmp_path / "shared"
    shared.mkdir()
    settings = {"XDG_CACHE_HOME": str(own), "TMPDIR": str(shared)}
    told = python(DUE, source, NUMBA_CACHE_DIR=str(chosen), **settings)
    assert "the result is kept)" in told.stderr
    assert [len(kept_in(folder)) for folder in (chosen, source, own, shared)] == [1, 0, 0, 0]
    told = python(DUE, source, **settings)
    assert "the result is kept)" in told.stderr
    assert [len(kept_in(folder)) for folder in (source, own, shared)] == [1, 0, 0]
    beside = source / "surefoot" / "__pycache__"
    shutil.rmtree(beside)
    beside.write_text("a file in the place of the folder: it can be neither made nor written to, even by root")
    told = python(DUE, source, **settings)
    assert told.stderr.count("\n") == 1
    assert f"kept in {own}" in told.stderr
    assert f"because {beside} cannot be written to" in told.stderr
    assert python(DUE, source, **settings).stderr == ""
    shutil.rmtree(own)
    own.write_text("likewise")
    told = python(DUE, source, **settings)
    assert told.stderr.count("\n") == 1
    assert f"kept in {shared}" in told.stderr
    assert python(DUE, source, **settings).stderr == ""


def test_without_any_folder_kernels_work_and_are_not_kept(source: Path) -> None:
    for _ in range(2):
        told = python(FOLDERS.format(False) + DUE, source)
        assert told.stdout == "True\n"
        assert told.stderr.count("\n") == 1
        assert "the result is not kept" in told.stderr


def test_a_complete_cache_may_be_read_only(source: Path) -> None:
    python(DUE, source)
    assert python(FOLDERS.format(False) + DUE, source).stderr == ""
    (path,) = source.rglob("*.nbc")
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()  # whoever may read the package may read this


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    private, open_to_all, link = tmp_path / "private", tmp_path / "open", tmp_path / "link"
    assert kernels._is_private(private)
    assert kernels._is_private(private)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link.symlink_to(private)
    assert not kernels._is_private(open_to_all)
    assert not kernels._is_private(link)


DOOR = """
import {module}
from surefoot.kernels.compile import compiled_door
text = "def door(x):\\n    return due(x) + {number}\\n"
names = {{"__name__": "{module}", "due": {module}.due}}
exec(text, names)
door = compiled_door(names["door"])
print(door(18))
"""
OUTSIDE = "from surefoot.kernels.follower import due\n"


def test_doors_made_by_exec_are_kept(source: Path) -> None:
    for number, words in ((1, 1), (1, 0), (2, 1)):  # the text of a door is part of its stamp
        told = python(DOOR.format(module="surefoot.kernels.follower", number=number), source)
        assert told.stdout == f"{1 + number}\n"
        assert told.stderr.count("compiling") == words


def test_functions_from_outside_are_kept_until_their_own_file_changes(source: Path) -> None:
    path = source / "outside.py"
    for text, words in ((OUTSIDE, 1), (OUTSIDE, 0), (OUTSIDE + "# changed\n", 1)):
        path.write_text(text)
        assert python(DOOR.format(module="outside", number=1), source).stderr.count("compiling") == words
    assert len(kept_in(source / "__pycache__")) == 1
    nowhere = "import sys, types; sys.modules['outside'] = types.ModuleType('outside')\n"
    nowhere += "from surefoot.kernels.follower import due; sys.modules['outside'].due = due\n"
    shutil.rmtree(source / "__pycache__")
    assert python(nowhere + DOOR.format(module="outside", number=1), source).stdout == "2\n"
    assert not (source / "__pycache__").exists()  # no file, no stamp, no cache


@kernels.compiled
def tenfold(x: int) -> int:
    return 10 * x


@kernels.compiled
def eleven_and(x: int) -> int:
    return tenfold(1) + tenfold(x) + 1


def test_what_compiled_code_calls_is_compiled_once_whatever_the_constants_and_not_made_executable() -> None:
    eleven_and._cache.flush()  # type: ignore[attr-defined]  # what an earlier run has left is not compiled again
    assert eleven_and(2) == 31
    assert len(tenfold._inner.overloads) == 1  # type: ignore[attr-defined]
    assert not tenfold.overloads  # type: ignore[attr-defined]
    assert tenfold(3) == 30
    assert len(tenfold.overloads) == 1  # type: ignore[attr-defined]


def test_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(gap)) is gap


CLOSURES = """
from surefoot.kernels.compile import compiled

def made(factor):
    @compiled
    def times(x):
        return x * factor
    return times

print(made(2.0)(1.0), made(3.0)(1.0))
"""

RELOADED = """
import importlib, pathlib, sys
sys.path.insert(0, {folder!r})
module = pathlib.Path({folder!r}) / "edited.py"
text = "from surefoot.kernels.compile import compiled\\n@compiled\\ndef inner(x):\\n    return x + {{}}\\n"
text += "@compiled\\ndef outer(x):\\n    return inner(x)\\n"
module.write_text(text.format("1.0"))
import edited
found = [edited.outer(0.0)]
module.write_text(text.format("200.0"))
importlib.reload(edited)
print(*found, edited.outer(0.0))
"""


def test_closures_are_part_of_what_is_cached(source: Path, tmp_path: Path) -> None:
    script = tmp_path / "closures.py"  # with a file, so that what is compiled can be kept
    script.write_text(CLOSURES)
    for _ in range(2):
        assert python(f"exec(open({str(script)!r}).read())", source).stdout == "2.0 3.0\n"


def test_a_module_that_is_edited_and_reloaded_is_compiled_again(source: Path, tmp_path: Path) -> None:
    assert python(RELOADED.format(folder=str(tmp_path)), source, PYTHONDONTWRITEBYTECODE="1").stdout == "1.0 200.0\n"


def test_spoilt_files_are_compiled_again(source: Path) -> None:
    before = python(DUE, source).stdout
    for spoilt in (b"", b"nonsense"):
        for path in source.rglob("*.nbc"):
            path.write_bytes(spoilt)
        again = python(DUE, source)
        assert (again.stdout, "compiling" in again.stderr) == (before, True)
    assert python(DUE, source).stderr == ""
