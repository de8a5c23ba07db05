"""The tests of the engine "cuda" on Numba's simulator of a GPU, which must be on before Numba is imported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot as sf
from surefoot.theory import at_scale

ROOT = Path(__file__).parents[2]


def test_the_engine_in_the_simulator() -> None:
    simulated = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-W", "ignore::RuntimeWarning", "tests/cuda"]
    done = subprocess.run(command, cwd=ROOT, env=simulated, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 40, done.stdout[-2000:]
    assert "skipped" not in done.stdout


def test_refused_without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from numba import cuda

    monkeypatch.setattr(cuda, "is_available", lambda: False)
    scenario = sf.scenarios.make("stochastic-v1", horizon=1000).drawn_by("counter")
    with pytest.raises(ValueError, match="engine must not be 'cuda' on a machine without a GPU"):
        sf.simulate(scenario, {"solb": sf.SOLB}, 1, [1000], engine="cuda", folder=tmp_path)
    assert not list(tmp_path.glob("parts/*/*"))


def test_a_part_of_the_runs_is_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the count: a share of the runs that happened to be finished would be taken for one of all."""

    class Stopped:
        complete = False

    monkeypatch.setattr(at_scale, "simulate", lambda *args, **options: Stopped)
    with pytest.raises(KeyboardInterrupt):
        list(at_scale.shares(["opb"], ["three-arms-v1"], 4, 1000))
