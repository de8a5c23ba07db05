"""``python -m benchmarks``: all comparisons, one after the other."""

import platform
import subprocess
import sys

import numba
import numpy

from benchmarks import (
    confidence,
    episodes,
    estimators,
    feedback,
    forecast,
    linear,
    live,
    live_speed,
    practical,
    projection,
    rounds,
    service,
    simulation,
    state,
)


def opening() -> None:
    """How long it takes to open the package, and to compile or load the kernels."""
    for what, code in (
        ("import surefoot", "import surefoot"),
        ("first SOLB, kernels cached on disk", "import surefoot as sf; p = sf.Problem(3, [0.5], 100, safe="
         "sf.SafeStrategy([0, 0, 1], [0.1])); s = sf.SOLB(p, 1); s.tell(s.ask(), 0.5, [0.5])"),
    ):  # fmt: skip
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        command = [sys.executable, "-W", "ignore", "-c", timed]
        best = min(float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(3))
        print(f"{what}: {best:.2f} s")


print(f"Python {platform.python_version()}, NumPy {numpy.__version__}, Numba {numba.__version__}, {platform.machine()}")
opening()
rounds.report()
state.report()
live_speed.report()
live.report()
service.report()
simulation.report()
episodes.report()
feedback.report()
linear.report()
confidence.report()
practical.report()
projection.report()
estimators.report()
forecast.report()
