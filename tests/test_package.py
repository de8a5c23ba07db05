"""The package as a whole: its public names, its rooms and doors, how fast it opens."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import surefoot as sf
from surefoot.extras import EXTRAS, needed_by

SOURCE = Path(sf.__file__).parent

PUBLIC = {
    "AlwaysSafe", "AtLeast", "AtMost", "Benchmark", "COLB", "Choice", "Conflict", "Contradiction", "Decision",
    "DoublyOptimistic", "EmptySafeSet", "EpsilonGreedy", "Exp3", "Exp3IX", "Experiment", "Feedback", "Infeasible",
    "LinConTS", "Live", "Log", "LogBarrier", "LogFailure", "Maximise", "MemoryLog", "Minimise", "OPB", "OptimisticLP",
    "Oracle", "PessimisticOptimistic", "Policy", "PrimalDual", "Problem", "Projection", "QueuePrimalDual", "RuleError",
    "Run", "SOLB", "SafeExp3", "SafeOptimisticLP", "SafeStrategy", "Scenario", "Snapshot", "SoftExp3", "Stopped",
    "Table", "ThompsonSampling", "TsallisINF", "UCB1", "Unavailable", "Unknown", "confidence", "costs", "losses",
    "offline_optimum", "project", "safest_strategy", "scenarios", "simulate", "write_report",
}  # fmt: skip

# from the top of the house to its foundation: a room may import from lower rows only
ORDER = [
    {"testing"},
    {"cli"},
    {"service"},
    {"storage"},
    {"reporting"},
    {"theory"},
    {"simulation"},
    {"analysis"},
    {"environments", "experiments"},
    {"policies"},
    {"confidence"},
    {"kernels"},
    {"problem"},
    {"contrib"},
    {"client"},
    {"rules", "extras", "provenance"},
]


def test_public_names_are_these_and_all_exist() -> None:
    assert set(sf.__all__) == PUBLIC
    assert PUBLIC <= set(dir(sf))
    for name in PUBLIC:
        assert getattr(sf, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sf.nonsense  # type: ignore[attr-defined]


def test_public_functions_have_an_example() -> None:
    modules = {"confidence", "costs", "losses", "scenarios"}
    results = {"Benchmark", "Choice", "Projection"}
    bases = {"Log", "MemoryLog", "Policy"}
    problems = {
        "Conflict",
        "Contradiction",
        "EmptySafeSet",
        "Infeasible",
        "LogFailure",
        "Stopped",
        "Unavailable",
        "Unknown",
    }
    for name in PUBLIC - modules - results - bases - problems:
        assert ">>>" in (getattr(sf, name).__doc__ or ""), name
    for module in (sf.confidence, sf.costs, sf.losses):
        for name in set(module.__all__) - {"Adversary", "Confidence", "Costs", "FAMILY", "Losses", "Seen"}:
            assert ">>>" in (getattr(module, name).__doc__ or ""), name


def test_contracts_are_exported_and_have_an_example() -> None:
    contracts = importlib.import_module("surefoot.testing")
    assert set(contracts.__all__) == {
        "ConfidenceContract", "PolicyContract", "StorageContract", "make_problem", "true_costs",
    }  # fmt: skip
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


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own; kernels are not compiled there."""
    quick = os.environ | {"NUMBA_DISABLE_JIT": "1"} | environment
    return subprocess.run([sys.executable, "-c", code], env=quick, capture_output=True, text=True, check=False)


def test_errors_name_their_parts() -> None:
    """What a rule refuses is raised as a RuleError, never as a plain ValueError with a sentence of its own."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                assert ast.unparse(node.exc.func) != "ValueError", f"{path.name}, line {node.lineno}"


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


@pytest.mark.parametrize(
    "heavy", ["numba", "numpy", "scipy", "matplotlib", "rich", "typer", "pyarrow", "pydantic", "pytest"]
)
def test_importing_the_package_is_light(heavy: str) -> None:
    done = python(f"import sys, surefoot; dir(surefoot); sys.exit({heavy!r} in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_the_problem_needs_no_compiler_and_no_solver() -> None:
    code = "import sys, surefoot; surefoot.Problem(2, [0.5], 10); sys.exit(bool({'numba', 'scipy'} & set(sys.modules)))"
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_help_is_light_and_the_version_is_told() -> None:
    heavy = {"numba", "matplotlib", "scipy", "pyarrow", "pydantic"}
    assert (
        python(f"import sys; from surefoot.cli import app; sys.exit(bool({heavy} & set(sys.modules)))").returncode == 0
    )
    told = subprocess.run([sys.executable, "-m", "surefoot", "--version"], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == f"surefoot {sf.__version__}"


def test_policies_that_are_wrong_on_purpose_are_loaded_by_verify_only() -> None:
    loaded = "sys.exit('surefoot.theory.mutations' in sys.modules)"
    done = python(f"import sys, surefoot as sf; [getattr(sf, name) for name in sf.__all__]; {loaded}")
    assert done.returncode == 0, done.stderr
    assert python(f"import sys, surefoot.cli.verify; {loaded}").returncode == 1  # the control


# Extras: what is not installed is not needed, or named

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
import surefoot as sf
"""
CORE = """
problem = sf.Problem(3, [0.5], 50, safe=sf.SafeStrategy([0, 0, 1], costs=[0.2]))
for name in sorted(sf.__all__):
    if name in ("Run", "simulate", "write_report"):
        continue
    kind = getattr(sf, name)
    if isinstance(kind, type) and issubclass(kind, sf.Policy) and kind is not sf.Policy:
        options = {"mean_costs": [[0.9, 0.4, 0.2]]} if kind is sf.Oracle else {}
        policy = kind(problem, seed=1, **options)
        policy.tell(policy.ask(), 0.5, [0.5])
        assert kind.from_dict(policy.to_dict()).ask() == policy.ask(), name
sf.project([0.5, 0.3, 0.2], [0.1] * 3, [4.0, 0, 0], [[0.9, 0.6, 0.1]], [0.6], floor=0.001)
sf.offline_optimum([10.0, 20.0, 60.0], [[0.9, 0.5, 0.1]], [0.6])
sf.safest_strategy([[0.9, 0.2], [0.1, 0.6]], [0.5, 0.5])
for bound in sf.confidence.FAMILY:
    sf.SOLB(problem, confidence=bound, seed=1).ask()
sf.Scenario("mine-v1", problem, sf.losses.Bernoulli([0.1, 0.5, 0.8]), sf.costs.Bernoulli([[0.9, 0.4, 0.2]]))
sf.scenarios.make("three-arms-v1")
"""


def without(blocked: set[str], code: str) -> subprocess.CompletedProcess[str]:
    return python("import warnings; warnings.simplefilter('ignore')\n" + BLOCK.format(blocked=blocked) + code)


def test_the_core_needs_no_extra() -> None:
    done = without(set(EXTRAS), CORE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("blocked", "code", "sentence"),
    [
        ("pyarrow", "sf.simulate", "simulate needs pyarrow: pip install 'surefoot[lab]'"),
        ("pyarrow", "sf.Run", "Run needs pyarrow: pip install 'surefoot[lab]'"),
        ("pyarrow", "sf.Table('arms.csv', [0.5], 9)", "a table in a file needs pyarrow: pip install 'surefoot[lab]'"),
        ("rich", "from surefoot.simulation.progress import Bar; Bar('', 1, True).__enter__()",
         "a progress bar needs rich: pip install 'surefoot[lab]'"),
        ("matplotlib", "sf.write_report", "write_report needs matplotlib: pip install 'surefoot[report]'"),
        ("jinja2", "sf.write_report", "write_report needs jinja2: pip install 'surefoot[report]'"),
    ],
)  # fmt: skip
def test_a_missing_extra_is_named(blocked: str, code: str, sentence: str) -> None:
    tried = f"try:\n    {code}\nexcept ImportError as error:\n    print(error)"
    assert without({blocked}, tried).stdout == f"{sentence}\n"
    done = without(set(EXTRAS) - {blocked}, "import " + blocked)
    assert done.returncode == 0, "the control"


@pytest.mark.parametrize(
    ("blocked", "arguments"),
    [
        ("typer", []),
        ("pydantic", ["league"]),
        ("matplotlib", ["demo"]),
        ("pyarrow", ["show", "x"]),
        ("rich", ["forecast"]),
    ],
)
def test_the_command_without_its_extra_says_so_in_a_sentence(blocked: str, arguments: list[str]) -> None:
    code = f"sys.argv = {['surefoot', *arguments]}; from surefoot.__main__ import main; main()"
    done = without({blocked}, code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"the command surefoot needs {blocked}: pip install 'surefoot[cli]'\n"


def test_another_module_that_is_missing_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="nonsense"), needed_by("this"):
        import nonsense  # type: ignore[import-not-found]  # noqa: F401


def test_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", one).group() for one in project["dependencies"]]  # type: ignore[union-attr]
    assert sorted(names) == ["numba", "numpy", "scipy"]
    for extra in set(EXTRAS.values()):
        brought = {re.match(r"[\w-]+", one).group() for one in project["optional-dependencies"][extra]}  # type: ignore[union-attr]
        assert {name.replace("-", "_") for name in brought - {"surefoot"}} == {
            module for module, home in EXTRAS.items() if home == extra
        }


def test_a_tree_that_is_not_installed_has_a_version(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "surefoot", ignore=shutil.ignore_patterns("__pycache__"))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import surefoot; print(surefoot.__version__)"
    isolated = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert isolated.stdout == "0+unknown\n"
