"""How kernels are compiled: once per machine, cached on disk, and never without saying so.

The options mean: division by zero gives infinity, as in NumPy (``error_model``); threads may run kernels side by side
(``nogil``); small pieces are merged into their callers (``forceinline``); arrays are not reference-counted (``_nrt``),
which is most of the cost of a small kernel and needless where nothing is allocated.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

njit: Any = numba.njit  # its own types do not know all of its options
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "forceinline": True, "_nrt": False}
MERGED: Any = {name: value for name, value in OPTIONS.items() if name not in ("cache", "nogil")}  # overloads


def compiled(function: F) -> F:
    """Compile a kernel: scalar loops over arrays, no allocation, no exceptions."""
    return _shared(njit(**OPTIONS), function)


def compiled_apart(function: F) -> F:
    """Compile a kernel that is too large to be merged into its callers."""
    return _shared(njit(**{**OPTIONS, "forceinline": False}), function)


def merged(function: F) -> F:
    """Compile a kernel as part of each of its callers and never on its own: no second round of optimisation."""
    return _shared(njit(**{**OPTIONS, "inline": "always"}), function)


def compiled_inside(function: F) -> F:
    """Compile generated code as part of its callers; it is never kept on its own."""
    return cast(F, njit(**{**OPTIONS, "cache": False, "inline": "always"})(function))


def compiled_sum(function: F) -> F:
    """Compile a sum, whose terms may be added in any order, and so vectorised. Nothing else may be reordered."""
    return _shared(njit(**OPTIONS, fastmath={"reassoc", "contract", "nsz"}), function)


def compiled_door(function: F) -> F:
    """Compile a function that Python calls and that allocates its answer."""
    return _shared(njit(cache=True, error_model="numpy", nogil=True), function)


def _shared(compiler: Any, function: F) -> F:
    """Compile, and make the cached code stale when any kernel changes, not only the file the function stands in.

    Kernels are merged into their callers, so a caller's machine code contains that of other files.
    """
    dispatcher = compiler(function)
    if hasattr(dispatcher, "_cache"):  # not so when compilation is switched off for debugging
        dispatcher._cache._cache_file._source_stamp = _STAMP
    return cast(F, dispatcher)


_PACKAGE = Path(__file__).parent.parent
_COMPILED = [
    path.stat() for pattern in ("problem.py", "kernels/*.py", "policies/*.py") for path in _PACKAGE.glob(pattern)
]
_STAMP = (max(file.st_mtime for file in _COMPILED), sum(file.st_size for file in _COMPILED))


class _Announcer(event.Listener):
    """Says on stderr, once per process, that kernels are being compiled."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, happening: event.Event) -> None:
        dispatcher = (happening.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
        if module.startswith("surefoot.") and not self.said:
            self.said = True
            print(
                "surefoot: compiling kernels (first use of these on this machine; the result is kept) ...",
                file=sys.stderr,
            )

    def on_end(self, happening: event.Event) -> None:
        pass


_register: Any = event.register
_register("numba:compile", _Announcer())
