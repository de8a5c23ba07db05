"""How kernels are compiled for a GPU: from the same functions, by Numba's compiler for CUDA.

Five things differ from what that compiler does by itself. Constants among the arguments of a call are typed as
variables, as on the CPU (`compile.py`), or there would be a copy of a kernel for each value. Sums keep their order: of
the freedoms that `compiled_sum` gives, CUDA knows only all or none. A product and a sum are rounded one after the
other, as on the CPU, and not together. An index is never
negative, so none is checked for that. And loops are not unrolled: their lengths are known only at run time, the code
would not fit into the device's caches, and threads would wait for instructions.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numba.core import config as _config
from numba.core import types as _types

from surefoot.extras import needed_by

config: Any = _config  # these have no type hints
types: Any = _types
USUAL = {"debug": False, "lineinfo": False, "opt": True, "fastmath": False, "lto": False}
LABEL = re.compile(r'"?([\w.$]+)"?:')
JUMP = re.compile(r"\s+br .*label %")
TARGET = re.compile(r'label %"?([\w.$]+)"?')
_compiling = threading.RLock()
"""Held while a kernel is compiled: what `our_way` changes is of the whole process."""
FIRST_NOTE = 1_000_000
"""Numbers of metadata from here on are not used by Numba."""


def numba_cuda() -> Any:
    """Numba's module for CUDA, which is imported only where it is used."""
    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010  (NumPy 2.5 dropped it; numba-cuda 0.30 looks for it)
    with needed_by("engine 'cuda'"):
        import numba_cuda  # noqa: F401  (it takes the place of an older module in Numba)
    from numba import cuda

    return cuda


def compiled_for_device(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a kernel that is launched on the device, when it first is."""
    if config.ENABLE_CUDASIM:
        return numba_cuda().jit(function)
    return _classes()[0](function, {**USUAL, "device": False, "extensions": [], **options})


def device_kernel(function: Callable[..., Any], *, merged: bool) -> Any:
    """A kernel as code on the device calls it; `merged` as in `compile.py`."""
    return _classes()[1](function, {**USUAL, "device": True, "inline": "always" if merged else "never"})


@cache
def _classes() -> tuple[Any, Any]:
    """The classes for kernels that are launched, and for those that these call; Numba's must be imported first."""
    numba_cuda()
    from numba.cuda import codegen as _codegen
    from numba.cuda import dispatcher as _dispatcher
    from numba.cuda.np import arrayobj as _arrayobj

    codegen: Any = _codegen
    dispatcher: Any = _dispatcher
    arrays: Any = _arrayobj

    class Library(codegen.CUDACodeLibrary):
        """The code of a kernel, with loops that stay loops, and separate roundings."""

        @property
        def llvm_strs(self) -> Any:
            self._nvvm_options["fma"] = 0
            return [rolled(text) for text in super().llvm_strs]

    def index(context: Any, builder: Any, kind: Any, value: Any, size: Any) -> Any:
        return context.cast(builder, value, kind, types.intp if kind.signed else types.uintp)

    @contextmanager
    def our_way(generator: Any) -> Iterator[None]:
        usual, generator._library_class = arrays.fix_integer_index, Library
        arrays.fix_integer_index = index
        try:
            yield
        finally:
            arrays.fix_integer_index = usual
            del generator._library_class  # that of its class is left

    class Launched(dispatcher.CUDADispatcher):
        def compile(self, signature: Any) -> Any:
            with _compiling, our_way(self.targetctx.codegen()):
                return super().compile(signature)

    class Called(dispatcher.CUDADispatcher):
        def get_call_template(self, args: Any, kws: Any) -> Any:
            plain = [types.unliteral(kind) for kind in args]
            return super().get_call_template(plain, {name: types.unliteral(kind) for name, kind in kws.items()})

    return Launched, Called


def rolled(text: str) -> str:
    r"""A module in LLVM's language, with a note at each jump backwards that forbids to unroll the loop.

    Examples
    --------
    >>> print(rolled("define void @f() {\nloop:\n  br label %loop\n}"))
    define void @f() {
    loop:
      br label %loop, !llvm.loop !1000001
    }
    !1000000 = !{!"llvm.loop.unroll.disable"}
    !1000001 = distinct !{!1000001, !1000000}
    """
    passed: set[str] = set()
    lines, notes = [], [f'!{FIRST_NOTE} = !{{!"llvm.loop.unroll.disable"}}']
    for line in text.split("\n"):
        if line.startswith("define"):
            passed = set()
        if label := LABEL.match(line):
            passed.add(label[1])
        elif JUMP.match(line) and "!llvm.loop" not in line and passed.intersection(TARGET.findall(line)):
            number = FIRST_NOTE + len(notes)
            notes.append(f"!{number} = distinct !{{!{number}, !{FIRST_NOTE}}}")
            line += f", !llvm.loop !{number}"
        lines.append(line)
    return "\n".join(lines + notes) if len(notes) > 1 else text
