"""A study: scenarios, policies and seeds in one TOML file, checked before anything runs."""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from surefoot.environments.feedback import Feedback
from surefoot.environments.scenario import Scenario
from surefoot.environments.scenarios import SCENARIOS, Table, make, parameters
from surefoot.policies import REGISTRY, Policy
from surefoot.problem import HORIZON, Infeasible, Problem, SafeStrategy
from surefoot.rules import WHOLE, RuleError, fields
from surefoot.simulation.episode import Factory
from surefoot.simulation.run import Run
from surefoot.simulation.simulate import Options, Simulation, carried_out, prepared

EXAMPLE = """\
# A study: every policy meets every scenario, once per seed. Run it with
#     surefoot run {name}
# and open the report it writes. Stop it with Ctrl-C; the same command goes on where it stopped.

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
# feedback.delay = 20           # rounds until an outcome is told; losses, repeats and time-outs are in docs/lab.md

# A scenario may also come from a table of arms, in a CSV or Parquet file beside this one:
# [[scenarios]]
# table = "arms.csv"            # columns success_rate and value; or loss, and cost_1, cost_2, ...
# thresholds = [0.5]            # one per cost
# horizon = 50_000

# `surefoot policies` lists them with their options.
[[policies]]
policy = "solb"

[[policies]]
policy = "solb"
name = "solb, paper"
preset = "paper"                # the paper to the letter; by default the preset is "practical"

[[policies]]
policy = "colb"

[[policies]]
policy = "log-barrier"
name = "no guardrails"
learning_rate = 0.05            # at the theorems' rate of 5e-5 nothing would be seen to move
"""


TRUTH = "mean_costs"
"""The option of policies that know the true costs."""


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


class Named(BaseModel):
    """An entry that may have further options."""

    model_config = ConfigDict(extra="allow")
    name: Annotated[StrictStr | None, Field(pattern=r"\S", max_length=60, description="a text of at most 60 signs")] = (
        None
    )

    @property
    def options(self) -> dict[str, Any]:
        """The keys of this entry beyond those that all entries have."""
        return dict(self.model_extra or {})


class ScenarioEntry(Named):
    """One of [[scenarios]]."""

    id: Annotated[StrictStr | None, Field(description=f"one of {', '.join(SCENARIOS)}")] = None
    table: Annotated[StrictStr | None, Field(description="the name of a file")] = None
    feedback: Annotated[dict[str, Any] | None, Field(description="a table")] = None


class PolicyEntry(Named):
    """One of [[policies]]."""

    policy: Annotated[StrictStr, Field(description=f"one of {', '.join(REGISTRY)}")]


class StudyFile(BaseModel):
    """The contents of a study file."""

    model_config = ConfigDict(extra="forbid")
    title: Annotated[StrictStr, Field(description="a text")] = ""
    seeds: Annotated[
        Whole | list[Whole], Field(description="a whole number >= 1, or a list of different whole numbers >= 0")
    ] = 10
    horizon: Annotated[Whole | None, Field(ge=HORIZON.low, description=str(HORIZON))] = None
    checkpoints: Annotated[
        Whole | list[Whole] | None, Field(description="a whole number >= 1, or a list of increasing rounds")
    ] = None
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

    def __init__(self, title: str, simulations: list[Simulation], source: dict[str, str]) -> None:
        self.title, self.simulations, self.source = title, simulations, source

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
            raise StudyError([RuleError(name, "be TOML", text, f"a text that is not: {error}")]) from None
        try:
            file = StudyFile.model_validate(data)
        except ValidationError as error:
            raise StudyError(rule_error(one, data) for one in first_of_each(error)) from None
        wrong: list[ValueError] = []
        scenarios = built(file.scenarios, "scenarios", lambda entry: make_scenario(entry, folder, file.horizon), wrong)
        makers = built(file.policies, "policies", make_factory, wrong)
        simulations = []
        if not wrong:
            wrong = [one for scenario in scenarios.values() for one in refusals(makers, scenario)]
        for scenario in scenarios.values() if not wrong else ():
            try:
                factories = {name: factory_in(scenario) for name, factory_in in makers.items()}
                plan = prepared(scenario, factories, file.seeds, file.checkpoints)
                simulations.append(Simulation(plan, resume))
            except ValueError as error:
                wrong.append(placed(error, after=f" (in scenario {scenario.id})"))
        if wrong:
            raise StudyError(wrong)
        source = {"name": name, "path": str((folder / name).resolve()), "text": text}
        return cls(file.title or Path(name).stem, simulations, source)

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
        return carried_out(self.simulations, options, folder, title=self.title, study=self.source)


def first_of_each(error: ValidationError) -> list[Any]:
    """The errors, one per key: a key that may be several things fails once for each of them."""
    seen: dict[tuple[Any, ...], Any] = {}
    for one in error.errors():
        where = one["loc"][: 3 if one["loc"][0] in ("scenarios", "policies") else 1]
        seen.setdefault(where, {**one, "loc": where})
    return list(seen.values())


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
        return RuleError(key, rule, None, "nothing")
    value = data
    for part in place:
        value = value[part]
    return RuleError(key, rule, value)


def not_among(argument: str, word: str, known: Iterable[str]) -> RuleError:
    """Return the error for a word that is not known, with a guess at what was meant."""
    return RuleError(argument, f"be one of {', '.join(known)}", word, f"{word!r}{hint(word, known)}")


def placed(error: ValueError, before: str = "", after: str = "") -> ValueError:
    """Return the same error with its place in the study, in front of the argument or at the end."""
    if isinstance(error, RuleError):
        return RuleError(f"{before}{error.argument}", error.rule, error.value, f"{error.received}{after}")
    kind = Infeasible if isinstance(error, Infeasible) else ValueError
    return kind(f"{before}{error}{after}")


def hint(word: str, known: Any) -> str:
    """A guess at what was meant."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def built(entries: list[Any], where: str, build: Any, wrong: list[ValueError]) -> dict[str, Any]:
    """Return what the entries describe, by name; append their errors to `wrong`."""
    made: dict[str, Any] = {}
    for i, entry in enumerate(entries):
        try:
            name, thing = build(entry)
        except ValueError as error:
            wrong.append(placed(error, f"{where}[{i}]."))
            continue
        if name in made:
            wrong.append(RuleError(f"{where}[{i}].name", "be different from the names of the others", name))
        made[name] = thing
    return made


def make_scenario(entry: ScenarioEntry, folder: Path, horizon: int | None) -> tuple[str, Scenario]:
    """The scenario of an entry, under its name."""
    options = dict(entry.options)
    if (entry.id is None) == (entry.table is None):
        raise RuleError("id", "be given, or else table", entry.id, "both" if entry.id else "neither")
    if horizon is not None:
        options.setdefault("horizon", horizon)
    if entry.id is not None:
        if entry.id not in SCENARIOS:
            raise not_among("id", entry.id, SCENARIOS)
        known = parameters(entry.id)
        check_options(options, known, f"scenario {entry.id}")
        scenario = make(entry.id, **options)
    else:
        known = {name: None for name in inspect.signature(Table).parameters if name not in ("path", "id")}
        check_options(options, known, "a scenario from a table")
        for needed in ("thresholds", "horizon"):
            if needed not in options:
                raise RuleError(needed, "be given for a scenario from a table", None, "nothing")
        if isinstance(options.get("safe"), Mapping):
            options["safe"] = SafeStrategy(**fields("safe", options["safe"], "strategy", "costs"))
        try:
            scenario = Table(folder / str(entry.table), **options)
        except RuleError as error:
            if error.argument != "path":
                raise
            raise RuleError("table", error.rule, error.value, error.received) from None
    own: dict[str, Any] = {} if entry.name is None else {"id": entry.name}
    if entry.feedback is not None:
        own["feedback"] = make_feedback(entry.feedback)
    return entry.name or scenario.id, Scenario(**{**vars(scenario), **own}) if own else scenario


def make_feedback(table: Mapping[str, Any]) -> Feedback:
    """The model of feedback that a table describes."""
    known = inspect.signature(Feedback).parameters
    try:
        check_options(table, known, "feedback")
        return Feedback(**table)
    except RuleError as error:
        raise placed(error, "feedback.") from None


def policy_options(cls: type[Policy[Any]]) -> dict[str, Any]:
    """The options of a policy with their defaults, without the true costs: those come from the scenario."""
    named = inspect.signature(cls).parameters.values()
    keywords = [one for one in named if one.kind is inspect.Parameter.KEYWORD_ONLY]
    return {one.name: one.default for one in keywords if one.name != TRUTH}


def make_factory(entry: PolicyEntry) -> tuple[str, Callable[[Scenario], Factory]]:
    """The name of an entry's policy, and a function that makes its factory in a scenario, with true costs if needed."""
    if entry.policy not in REGISTRY:
        raise not_among("policy", entry.policy, REGISTRY)
    cls, options, known_options = REGISTRY[entry.policy], entry.options, policy_options(REGISTRY[entry.policy])
    check_options(options, known_options, f"policy {entry.policy}")

    def factory_in(scenario: Scenario) -> Factory:
        truth = {TRUTH: scenario.mean_costs} if TRUTH in inspect.signature(cls).parameters else {}

        def factory(problem: Problem, seed: int) -> Policy[Any]:
            return cls(problem, seed, **truth, **options)

        return factory

    return entry.name or entry.policy, factory_in


def refusals(makers: Mapping[str, Callable[[Scenario], Factory]], scenario: Scenario) -> Iterator[ValueError]:
    """Yield an error for each policy that rejects its options or the scenario."""
    for i, (name, factory_in) in enumerate(makers.items()):
        try:
            factory_in(scenario)(scenario.problem, 0)
        except ValueError as error:
            if isinstance(error, RuleError) and error.argument != "problem":
                yield placed(error, f"policies[{i}].")
            else:
                yield placed(error, f"policies[{i}] ({name}): ", f" (in scenario {scenario.id})")


def check_options(options: Mapping[str, Any], known: Mapping[str, Any], whose: str) -> None:
    """Reject keys that are not options."""
    for name in options:
        if name not in known:
            allowed = ", ".join(known) or "it has none"
            rule = f"be one of the options of {whose} ({allowed})"
            raise RuleError(name, rule, name, f"{name!r}{hint(name, known)}")
