"""The wheel, built and installed into environments of its own: with the core dependencies only, and with the extra cli.

Dependencies are those of the environment that runs the tests, so nothing is downloaded.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ("numpy", "scipy", "numba", "llvmlite")


def call(*command: object, code: int = 0) -> str:
    """Run a command, expecting this exit code; what it says."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(list(map(str, command)), env=clean, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    call(*pip, "--wheel-dir", folder, ROOT)
    (built,) = folder.iterdir()
    return built


def environment(folder: Path, wheel: Path, sites: list[str]) -> Path:
    """The programs of a new environment with the wheel in it, and the modules of these folders."""
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    call(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "others.pth").write_text("\n".join(sites))  # of folders named here, other .pth files are not read
    return folder / "bin"


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    links = tmp_path_factory.mktemp("links")
    for name in CORE:
        for entry in {Path(file).parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            (links / entry).symlink_to(distribution(name).locate_file(entry))  # type: ignore[arg-type]
    return environment(tmp_path_factory.mktemp("core"), wheel, [str(links)])


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sites = dict.fromkeys(str(distribution(name).locate_file("")) for name in (*CORE, "typer", "pyarrow"))
    return environment(tmp_path_factory.mktemp("full"), wheel, list(sites))


def test_the_wheel_holds_what_it_needs(wheel: Path) -> None:
    assert re.match(r"surefoot-\d+\.\d+\.\d+", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "py.typed",
        "__init__.py",
        "__init__.pyi",
        "reporting/templates/base.html",
        "service/dashboard/templates/base.html",
        "service/dashboard/static/surefoot.js",
    ):
        assert f"surefoot/{needed}" in names
    files = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "surefoot").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == files


def test_the_core_works_with_its_dependencies_alone(core: Path) -> None:
    code = """
import importlib.util
for extra in ("pyarrow", "rich", "typer", "pydantic", "matplotlib", "jinja2"):
    assert importlib.util.find_spec(extra) is None, extra
import surefoot as sf
problem = sf.Problem(3, [0.5], 50_000, safe=sf.SafeStrategy([0, 0, 1], costs=[0.2]))
policy = sf.SOLB(problem, seed=1)
policy.tell(policy.ask(), 0.5, [0.5])
sf.offline_optimum([10.0, 20.0, 60.0], [[0.9, 0.5, 0.1]], [0.6])
try:
    sf.simulate
except ImportError as error:
    print(sf.__version__, sf.__file__, error)
"""
    told = call(core / "python", "-W", "ignore", "-c", code).split(maxsplit=2)
    assert re.match(r"\d+\.\d+\.\d+", told[0])
    assert Path(told[1]).is_relative_to(core.parent)  # not the source tree
    assert told[2] == "simulate needs pyarrow: pip install 'surefoot[lab]'\n"


def test_the_command_of_the_core_names_its_extra(core: Path) -> None:
    assert (
        call(core / "surefoot", "--help", code=1) == "the command surefoot needs typer: pip install 'surefoot[cli]'\n"
    )


def test_the_command_works_with_its_extra(full: Path, tmp_path: Path) -> None:
    assert "Usage: surefoot" in call(full / "surefoot", "--help")
    version = call(full / "surefoot", "--version").split()[1]
    assert version == call(full / "python", "-c", "import surefoot; print(surefoot.__version__)").strip()
    study = tmp_path / "small.toml"
    study.write_text('seeds = 1\nhorizon = 60\nscenarios = [{id = "stochastic-v1"}]\npolicies = [{policy = "ucb1"}]\n')
    call(full / "surefoot", "run", study, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "report.html").is_file()
