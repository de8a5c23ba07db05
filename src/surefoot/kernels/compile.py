"""How kernels are compiled: once per machine, cached on disk, and never without saying so.

The options mean: division by zero gives infinity, as in NumPy (``error_model``); threads may run kernels side by side
(``nogil``); small pieces are merged into their callers (``forceinline``).
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = {"cache": True, "error_model": "numpy", "nogil": True, "forceinline": True}


def compiled(function: F) -> F:
    """Compile a kernel: scalar loops over arrays, no allocation, no exceptions."""
    return _with_common_stamp(njit(**OPTIONS)(function))


def compiled_sum(function: F) -> F:
    """Compile a sum, whose terms may be added in any order, and so vectorised. Nothing else may be reordered."""
    return _with_common_stamp(njit(**OPTIONS, fastmath={"reassoc", "contract", "nsz"})(function))


def _with_common_stamp(dispatcher: Any) -> Any:
    """Make the cached code stale when any kernel changes, not only the file the function stands in.

    Kernels are merged into their callers, so a caller's machine code contains that of other files.
    """
    dispatcher._cache._cache_file._source_stamp = _STAMP
    return dispatcher


_PACKAGE = Path(__file__).parent.parent
_COMPILED = [path.stat() for room in ("kernels", "policies") for path in (_PACKAGE / room).glob("*.py")]
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
            print("surefoot: compiling kernels (first use on this machine; the result is kept) ...", file=sys.stderr)

    def on_end(self, happening: event.Event) -> None:
        pass


event.register("numba:compile", _Announcer())
