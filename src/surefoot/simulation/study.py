"""A study: scenarios, policies and seeds in one TOML file, checked before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from surefoot.problem import HORIZON
from surefoot.rules import WHOLE, RuleError, hint, number
from surefoot.simulation.entries import (
    Built,
    Notes,
    PolicyEntry,
    ScenarioEntry,
    built,
    make_policies,
    make_scenarios,
    not_among,
    noting,
    placed,
    playing,
    refusals,
)
from surefoot.simulation.episode import Factory
from surefoot.simulation.grid import found
from surefoot.simulation.run import Run
from surefoot.simulation.simulate import Options, Plan, Simulation, carried_out, prepared

MOST_ERRORS = 20
"""Number of mistakes after which no further cell is tried."""

EXAMPLE = """\
# A study: every policy meets every scenario, once per seed. Run it with
#     surefoot run {name}
# and open the report it writes. With --dry-run it says how long that takes. Stop it with Ctrl-C; the same command goes
# on where it stopped.

title = "Who keeps the guardrails?"
seeds = 10                      # how many, or a list of them: [3, 14, 15]
# horizon = 50_000              # rounds, for all scenarios; each has its own if this is left out
# checkpoints = 30              # how many, on a logarithmic scale, or a list of rounds: [1_000, 50_000]

# `surefoot scenarios` lists the built-in ones and their parameters.
[[scenarios]]
id = "three-arms-v1"

[[scenarios]]
id = "lower-bound-v1"
name = "nu_2"                   # what tables and figures call it; the id if left out
instance = 2
horizon = 20_000
# feedback.delay = 20           # rounds until an outcome is reported; losses, repeats and time-outs are in docs/lab.md

# A scenario may also come from a table of arms, in a CSV or Parquet file beside this one:
# [[scenarios]]
# table = "arms.csv"            # columns arm, loss and cost_NAME for each guardrail; or success_rate and value
# thresholds = [0.5]            # the limits, one per cost
# horizon = 50_000

# Any value of a scenario or a policy may be a grid: every combination is run (docs/studies.md).
# [[scenarios]]
# id = "lower-bound-v1"
# name = "margins"
# margin = {{ grid = [0.05, 0.1, 0.2] }}
# n_arms = {{ grid = {{ from = 3, to = 30, count = 4, scale = "log" }} }}
# where = "n_arms * margin < 4"  # leaves out the other combinations

# `surefoot policies` lists them with their options.
[[policies]]
policy = "solb"

[[policies]]
policy = "solb"
name = "solb, paper"
preset = "paper"                # the paper's algorithm; the default is "led", for colb "practical"

[[policies]]
policy = "colb"

[[policies]]
policy = "log-barrier"
name = "unguarded"
learning_rate = 0.05            # at the theorems' rate of 5e-5 nothing would be seen to move
"""


def whole(value: object) -> object:
    """Return a float that is a whole number, such as 1e5, as an int."""
    return int(value) if isinstance(value, float) and value in WHOLE else value


Whole = Annotated[StrictInt, BeforeValidator(whole)]


class StudyError(ValueError):
    """A study file that cannot be run. `errors` says why; the message has one line for each of them."""

    def __init__(self, errors: Iterable[ValueError]) -> None:
        self.errors = tuple({str(error): error for error in errors}.values())
        super().__init__(self.errors)

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


class StudyFile(BaseModel):
    """The contents of a study file."""

    model_config = ConfigDict(extra="forbid")
    title: Annotated[StrictStr, Field(description="a text")] = ""
    seeds: Annotated[
        Whole | list[Whole], Field(description="a whole number >= 1, or a list of different whole numbers >= 0")
    ] = 10
    horizon: Annotated[
        Annotated[Whole, Field(ge=HORIZON.low)] | dict[str, Any] | None, Field(description=str(HORIZON))
    ] = None
    checkpoints: Annotated[
        Whole | list[Whole] | None, Field(description="a whole number >= 1, or a list of increasing rounds")
    ] = None
    random: Annotated[Literal["numpy", "counter"], Field(description='"numpy" or "counter"')] = "numpy"
    scenarios: Annotated[list[ScenarioEntry], Field(min_length=1, description="one or more tables [[scenarios]]")]
    policies: Annotated[list[PolicyEntry], Field(min_length=1, description="one or more tables [[policies]]")]


class Study:
    """A study that has been checked and can be run.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "study.toml"
    >>> _ = path.write_text('''
    ... seeds = 2
    ... horizon = 500
    ... scenarios = [{id = "stochastic-v1"}]
    ... policies = [{policy = "colb"}]
    ... ''')
    >>> Study.read(path).run(workers=1).summary().column("regret").to_pylist()
    [...]
    """

    def __init__(
        self,
        title: str,
        simulations: list[Simulation],
        source: dict[str, str],
        grid: dict[str, Any] | None = None,
        notes: Notes | None = None,
    ) -> None:
        self.title, self.simulations, self.source, self.grid = title, simulations, source, grid
        self._notes = notes or Notes()

    @classmethod
    def read(cls, path: str | Path, resume: Run | None = None) -> Study:
        """Read and check a study file; episodes that `resume` holds will not be run again."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            unreadable = RuleError("study", "be a file that can be read", path, f"{path}: {error}")
            raise StudyError([unreadable]) from None
        return cls.parse(text, path.parent, path.name, resume)

    @classmethod
    def parse(cls, text: str, folder: Path, name: str, resume: Run | None = None) -> Study:
        """The study that a text describes; tables of arms are looked for in `folder`."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise StudyError([RuleError(name, "be valid TOML", text, f"{error}")]) from None
        try:
            file = StudyFile.model_validate(data)
        except ValidationError as error:
            raise StudyError(rule_error(one, data) for one in first_of_each(error)) from None
        wrong: list[ValueError] = []
        horizon = own_horizon(file.horizon, wrong)
        notes = Notes()
        scenarios = built(
            file.scenarios, "scenarios", lambda entry: make_scenarios(entry, folder, horizon, notes), wrong
        )
        policies = built(file.policies, "policies", make_policies, wrong)
        plans = [] if wrong else list(planned(scenarios, policies, file, notes, wrong))
        simulations = [] if wrong else list(begun(plans, resume, wrong))
        if wrong:
            raise StudyError(wrong)
        notes.tell()
        source = {"name": name, "path": str((folder / name).resolve()), "text": text}
        grid = {"scenarios": varied(scenarios), "policies": varied(policies)}
        return cls(file.title or Path(name).stem, simulations, source, grid if any(grid.values()) else None, notes)

    @property
    def rounds(self) -> int:
        """Number of rounds in all episodes together."""
        return sum(simulation.plan.rounds for simulation in self.simulations)

    def run(
        self, folder: str | Path | None = None, workers: int | None = None, progress: bool | None = None,
        *, engine: str = "threads", scheduler: str | None = None, exact: bool = False,
    ) -> Run:  # fmt: skip
        """Run the missing episodes, and write each into `folder` when it is finished.

        After Ctrl-C the run is not `complete`. The options are those of `simulate`.
        """
        options = Options.checked(workers, progress, engine, scheduler, exact)
        with self._notes.told():
            return carried_out(self.simulations, options, folder, **self.provenance)

    @property
    def provenance(self) -> dict[str, Any]:
        """What a run of this study says of it: title, file and, if it has a grid, the place of each cell in it."""
        return {"title": self.title, "study": self.source, **({} if self.grid is None else {"grid": self.grid})}


def own_horizon(given: int | dict[str, Any] | None, wrong: list[ValueError]) -> Any:
    """The horizon of the study, which may be a grid; append what is wrong with it to `wrong`."""
    try:
        if isinstance(given, dict):
            for i, value in enumerate(next((values for _, values in found({"horizon": given})), [given])):
                number(f"horizon.grid[{i}]", value, HORIZON)
    except ValueError as error:
        wrong.append(error)
        return None
    return given


def planned(
    scenarios: Mapping[str, Built],
    policies: Mapping[str, Built],
    file: StudyFile,
    notes: Notes,
    wrong: list[ValueError],
) -> Iterator[Plan]:
    """Yield a checked plan for each scenario in which a policy takes part; append errors to `wrong`."""
    seen: set[str] = set()
    for name, scenario in scenarios.items():
        factories: dict[str, Factory] = {}
        try:
            factories = playing(policies, scenario)
            seen.update(factories)
            if factories:
                noted = {one: noting(made, notes, name, policies[one].entry) for one, made in factories.items()}
                plan = prepared(scenario.thing.drawn_by(file.random), noted, file.seeds, file.checkpoints)
                yield plan._replace(policies=factories)
        except ValueError as error:
            refused = list(refusals(policies, factories, scenario.thing))
            wrong += refused or [placed(error, after="" if is_placed(error) else f" (in scenario {name})")]
            if len(wrong) >= MOST_ERRORS:
                return
    if not wrong:
        wrong += [
            RuleError(f"policies[{one.place}].where", "leave the policy in one scenario at least", one.cell.name)
            for name, one in policies.items()
            if name not in seen
        ]


def begun(plans: Iterable[Plan], resume: Run | None, wrong: list[ValueError]) -> Iterator[Simulation]:
    """Yield a simulation for each plan; append errors to `wrong`."""
    for plan in plans:
        try:
            yield Simulation(plan, resume)
        except ValueError as error:
            wrong.append(placed(error, after=f" (in scenario {plan.scenario.id})"))


def is_placed(error: ValueError) -> bool:
    """True if an error names its place in the study."""
    return isinstance(error, RuleError) and error.argument.startswith("policies[")


def varied(built: Mapping[str, Built]) -> dict[str, Any]:
    """The cells that belong to a grid: the entry of each, and the value of each axis."""
    return {name: {"entry": one.entry, "at": one.cell.at} for name, one in built.items() if one.cell.at}


def first_of_each(error: ValidationError) -> list[Any]:
    """The errors, one per key: a key that may be several things fails once for each of them."""
    seen: dict[tuple[Any, ...], Any] = {}
    for one in error.errors():
        where = one["loc"][: 3 if one["loc"][0] in ("scenarios", "policies") else 1]
        seen.setdefault(where, {**one, "loc": where})
    return list(seen.values())


def mistyped(place: tuple[Any, ...], data: Any) -> str:
    """Which of the keys beside a missing one was meant to be it, if one looks like it."""
    for part in place[:-1]:
        data = data[part]
    beside = [key for key in data if key not in ("name", "where")] if isinstance(data, Mapping) else []
    close = [key for key in beside if hint(str(key), [place[-1]])]
    return f" (is {close[0]} a misspelt {place[-1]}?)" if close else ""


def rule_error(error: Mapping[str, Any], data: Any) -> RuleError:
    """Convert a Pydantic error to ours: the key, the rule, the value received."""
    place = error["loc"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    model: Any = {"scenarios": ScenarioEntry, "policies": PolicyEntry}.get(place[0]) if len(place) == 3 else StudyFile
    known = model.model_fields
    if error["type"] == "extra_forbidden":
        return not_among("a key of the study", key, known)
    if len(place) == 2:
        return RuleError(key, f"be a table [[{place[0]}]]", error["input"])
    rule = f"be {known[place[-1]].description}"
    if error["type"] == "missing":
        return RuleError(key, rule, None, f"nothing{mistyped(place, data)}")
    value = data
    for part in place:
        value = value[part]
    return RuleError(key, rule, value)
