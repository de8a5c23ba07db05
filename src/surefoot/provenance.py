"""What the bits of a result depend on besides its configuration: source code, libraries and machine."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
from numba.core.registry import cpu_target

import surefoot

_PACKAGE = Path(__file__).parent
_NO_INFLUENCE = ("cli", "reporting", "storage")
"""Folders of the package that no simulation imports."""


def _source() -> str:
    """SHA-256 of all source files that can influence a simulation."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE)
        if name.parts[0] not in _NO_INFLUENCE:
            content = path.read_bytes()
            digest.update(f"{name.as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


_SOURCE = _source()  # computed at import: files may be edited later, while the process still runs the old code


def made_by(**machine: Any) -> dict[str, Any]:
    """The source code, libraries and machine that run simulations in this process; `machine` has more of the latter.

    ``source`` is the SHA-256 of the package's source code, ``versions`` those of the libraries, and ``machine`` the
    processor that kernels are compiled for, with its features (the width of its vectors sets the order of sums), and
    the C library, which computes the logarithms.
    """
    named = {module.__name__: module.__version__ for module in (surefoot, numba, np, scipy)}
    _, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    machine = {
        **machine,
        "cpu": cpu,
        "features": [name[1:] for name in features.split(",") if name.startswith("+")],
        "compiled": not numba.config.DISABLE_JIT,  # type: ignore[attr-defined]
        "libc": " ".join(platform.libc_ver()),
    }
    return {"source": _SOURCE, "versions": {"python": platform.python_version(), **named}, "machine": machine}


def difference(before: Mapping[str, Any], now: Mapping[str, Any], *, same_machine: bool = True) -> str | None:
    """Why the results of `before` may have other bits than those of `now`, or None if they have the same.

    The version of surefoot makes no difference: the source code does. With ``same_machine=False``, nor do the processor
    and the C library.
    """
    if before.get("source") != now["source"]:
        return "the source code of surefoot has changed"
    for name, version in now["versions"].items():
        earlier = before["versions"].get(name)
        if name != "surefoot" and earlier != version:
            return f"{name} was {earlier} and is {version}"
    if same_machine and before["machine"] != now["machine"]:
        return "it was made on another processor or C library"
    return None
