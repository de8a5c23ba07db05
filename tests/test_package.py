"""The package as a whole: its public names, its rooms and doors, how fast it opens."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot as sf

SOURCE = Path(sf.__file__).parent

PUBLIC = {
    "AlwaysSafe", "Benchmark", "COLB", "Decision", "DoublyOptimistic", "EmptySafeSet", "Exp3", "Exp3IX",
    "Infeasible", "LinConTS", "LogBarrier", "OPB", "OptimisticLP", "Oracle", "PessimisticOptimistic", "Policy",
    "PrimalDual", "Problem", "Projection", "QueuePrimalDual", "Run", "SOLB", "SafeExp3", "SafeOptimisticLP",
    "SafeStrategy", "Scenario", "SoftExp3", "Table", "ThompsonSampling", "TsallisINF", "UCB1", "confidence", "costs",
    "losses", "offline_optimum", "project", "safest_strategy", "scenarios", "simulate", "write_report",
}  # fmt: skip

# from the top of the house to its foundation: a room may import from lower rows only
ORDER = [
    {"testing"},
    {"cli"},
    {"reporting"},
    {"theory"},
    {"simulation"},
    {"analysis"},
    {"environments", "policies"},
    {"confidence"},
    {"kernels"},
    {"problem"},
]


def test_public_names_are_these_and_all_exist() -> None:
    assert set(sf.__all__) == PUBLIC
    assert PUBLIC <= set(dir(sf))
    for name in PUBLIC:
        assert getattr(sf, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sf.nonsense


def test_public_functions_have_an_example() -> None:
    modules = {"confidence", "costs", "losses", "scenarios"}
    for name in PUBLIC - modules - {"Benchmark", "EmptySafeSet", "Infeasible", "Policy", "Projection"}:
        assert ">>>" in (getattr(sf, name).__doc__ or ""), name
    for module in (sf.confidence, sf.costs, sf.losses):
        for name in set(module.__all__) - {"Adversary", "Confidence", "Costs", "FAMILY", "Losses", "Seen"}:
            assert ">>>" in (getattr(module, name).__doc__ or ""), name


def test_contracts_are_exported_and_have_an_example() -> None:
    contracts = importlib.import_module("surefoot.testing")
    assert set(contracts.__all__) == {"ConfidenceContract", "PolicyContract", "make_problem", "true_costs"}
    for name in contracts.__all__:
        assert ">>>" in (getattr(contracts, name).__doc__ or ""), name


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_imports_go_downwards_only() -> None:
    height = {room: row for row, rooms in enumerate(ORDER) for room in rooms}
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                target = room_of(name)
                if name.startswith("surefoot.") and target != room:
                    assert height[target] > height[room], f"{path.name} imports {name}"


def test_only_the_contracts_import_what_tests_need() -> None:
    for path in SOURCE.rglob("*.py"):
        imports = re.search(r"^\s*(?:import|from) (?:pytest|hypothesis)\b", path.read_text(), re.M)
        assert not imports or path.relative_to(SOURCE).parts[0] == "testing", path.name


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_contracts_say_what_they_need(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import surefoot.testing"
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    wanted = "ImportError: surefoot.testing needs pytest and hypothesis: pip install pytest hypothesis"
    assert told.stderr.strip().splitlines()[-1] == wanted
    assert "During handling" not in told.stderr


@pytest.mark.parametrize("heavy", ["numba", "scipy", "matplotlib", "rich", "typer", "pyarrow", "pydantic", "pytest"])
def test_importing_the_package_is_light(heavy: str) -> None:
    code = f"import sys, surefoot; surefoot.Problem(2, [0.5], 10); sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_is_light_and_the_version_is_told() -> None:
    heavy = {"numba", "matplotlib", "scipy", "pyarrow", "pydantic"}
    code = f"import sys; from surefoot.cli import app; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    told = subprocess.run([sys.executable, "-m", "surefoot", "--version"], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == f"surefoot {sf.__version__}"
    pyproject = (SOURCE.parent.parent / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"', pyproject, re.M).group(1) == sf.__version__  # type: ignore[union-attr]
