"""From the entries of a study file to scenarios and policies."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from surefoot.environments.feedback import Feedback
from surefoot.environments.scenario import Scenario
from surefoot.environments.scenarios import SCENARIOS, Table, make, parameters
from surefoot.policies import REGISTRY, Policy
from surefoot.policies.base import Contradiction
from surefoot.problem import Infeasible, Problem, SafeStrategy
from surefoot.rules import RuleError, fields, hint
from surefoot.simulation.condition import Condition
from surefoot.simulation.episode import Factory
from surefoot.simulation.grid import Cell, cells

TRUTH = "mean_costs"
"""The option of policies that know the true costs."""


class Named(BaseModel):
    """An entry that may have further options."""

    model_config = ConfigDict(extra="allow")
    name: Annotated[StrictStr | None, Field(pattern=r"\S", max_length=60, description="a text of at most 60 signs")] = (
        None
    )
    where: Annotated[StrictStr | None, Field(description="a condition, as a text")] = None

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


TRUTH = "mean_costs"
"""The option of policies that know the true costs."""


def not_among(argument: str, word: str, known: Iterable[str]) -> RuleError:
    """Return the error for a word that is not known, with a guess at what was meant."""
    return RuleError(argument, f"be one of {', '.join(known)}", word, f"{word!r}{hint(word, known)}")


def placed(error: ValueError, before: str = "", after: str = "") -> ValueError:
    """Return the same error with its place in the study, in front of the argument or at the end."""
    if isinstance(error, RuleError):
        return RuleError(f"{before}{error.argument}", error.rule, error.value, f"{error.received}{after}")
    kind = Infeasible if isinstance(error, Infeasible) else ValueError
    return kind(f"{before}{error}{after}")


NUMBER = re.compile(r"[-+.,\de]*\d")


class Notes:
    """Warnings, each told once for all scenarios, with the policy and the scenario it is about."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], dict[str, str]] = {}  # by policy and pattern: the message in each scenario

    @contextmanager
    def of(self, scenario: str, policy: str = "") -> Iterator[None]:
        """Keep the warnings of what is done here, for `tell`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for one in caught:
            message = str(one.message)
            self._kinds.setdefault((policy, pattern(message)), {}).setdefault(scenario, message)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Run episodes without the warnings that were kept, which policies that are made again would repeat.

        Nor does a policy say that its bounds contradict each other: the column ``clean`` tells, of each run.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Contradiction)
            for _, kind in self._kinds:
                warnings.filterwarnings("ignore", kind)
            yield

    def tell(self) -> None:
        """Warn of each kind once."""
        for (policy, _), messages in self._kinds.items():
            scenario, message = next(iter(messages.items()))
            whose, more = f"policy {quoted(policy)} " if policy else "", len(messages) - 1
            where = f"in scenario {quoted(scenario)}{f' and {more} more' if more else ''}"
            warnings.warn(f"{message} ({whose}{where})", stacklevel=3)


def quoted(name: str) -> str:
    """A name as part of a sentence: with a comma in it, in quotation marks."""
    return f'"{name}"' if "," in name else name


def pattern(message: str) -> str:
    """A regular expression for messages that differ in their numbers only, as those of the cells of a grid do."""
    return NUMBER.pattern.join(map(re.escape, NUMBER.split(message)))


@dataclass(frozen=True)
class Built:
    """What a cell of an entry describes."""

    place: int
    """The number of its entry."""
    entry: str
    """The name of its entry."""
    cell: Cell
    thing: Any
    """A scenario, or a function that makes a policy's factory in one."""
    given: Mapping[str, Any]
    """The values that conditions may use."""
    condition: Condition | None = None


def built(
    entries: Sequence[Any], where: str, build: Callable[[Any], Iterator[Built]], wrong: list[ValueError]
) -> dict[str, Built]:
    """Return what the cells of all entries describe, by name; append their errors to `wrong`."""
    made: dict[str, Built] = {}
    for i, entry in enumerate(entries):
        try:
            for one in build(entry):
                if one.cell.name in made:
                    rule = "be different from the names of the others"
                    wrong.append(RuleError(f"{where}[{i}].name", rule, one.cell.name))
                made[one.cell.name] = replace(one, place=i)
        except ValueError as error:
            wrong.append(placed(error, f"{where}[{i}]."))
    return made


def make_scenarios(entry: ScenarioEntry, folder: Path, horizon: Any, notes: Notes) -> Iterator[Built]:
    """Yield the scenarios of an entry: one, or one for each cell of its grid."""
    options = entry.options
    if (entry.id is None) == (entry.table is None):
        raise RuleError("id", "be given, or else table", entry.id, "both" if entry.id else "neither")
    if horizon is not None:
        options.setdefault("horizon", horizon)
    known = known_options(entry)
    check_options(options, known, f"scenario {entry.id}" if entry.id else "a scenario from a table")
    for needed in ("thresholds", "horizon") if entry.table is not None else ():
        if needed not in options:
            raise RuleError(needed, "be given for a scenario from a table", None, "nothing")
    name = entry.name or entry.id or Path(str(entry.table)).stem
    condition = None if entry.where is None else Condition(entry.where)
    keys = options if entry.feedback is None else {**options, "feedback": entry.feedback}
    kept = 0
    for cell in cells(keys, name):
        given = {**known, **cell.keys, **cell.at, "id": entry.id or name}
        if condition is None or condition.holds(given):
            kept += 1
            yield Built(0, name, cell, make_scenario(entry, cell, folder, notes), given)
    if not kept:
        raise RuleError("where", "leave one combination at least", entry.where)


def known_options(entry: ScenarioEntry) -> dict[str, Any]:
    """The parameters of the scenario of an entry, with their defaults."""
    if entry.id is None:
        signature = inspect.signature(Table).parameters.values()
        return {one.name: one.default for one in signature if one.name not in ("path", "id")}
    if entry.id not in SCENARIOS:
        raise not_among("id", entry.id, SCENARIOS)
    return parameters(entry.id)


def make_scenario(entry: ScenarioEntry, cell: Cell, folder: Path, notes: Notes) -> Scenario:
    """The scenario of a cell, under its name."""
    options = {name: value for name, value in cell.keys.items() if name != "feedback"}
    try:
        with notes.of(cell.name):
            scenario = make(entry.id, **options) if entry.id else from_table(folder / str(entry.table), options)
            own: dict[str, Any] = {} if cell.name == scenario.id else {"id": cell.name}
            if "feedback" in cell.keys:
                own["feedback"] = make_feedback(cell.keys["feedback"])
        return Scenario(**{**vars(scenario), **own}) if own else scenario
    except ValueError as error:
        raise (placed(error, after=f" (in {cell.name})") if cell.at else error) from None


def from_table(path: Path, options: dict[str, Any]) -> Scenario:
    """A scenario from a table of arms."""
    if isinstance(options.get("safe"), Mapping):
        options["safe"] = SafeStrategy(**fields("safe", options["safe"], "strategy", "costs"))
    try:
        return Table(path, **options)
    except RuleError as error:
        if error.argument != "path":
            raise
        raise RuleError("table", error.rule, error.value, error.received) from None


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


def make_policies(entry: PolicyEntry) -> Iterator[Built]:
    """Yield the policies of an entry: one, or one for each cell of its grid. Each is a function of the scenario."""
    if entry.policy not in REGISTRY:
        raise not_among("policy", entry.policy, REGISTRY)
    cls = REGISTRY[entry.policy]
    known = policy_options(cls)
    check_options(entry.options, known, f"policy {entry.policy}")
    name = entry.name or entry.policy
    condition = None if entry.where is None else Condition(entry.where)
    for cell in cells(entry.options, name):
        given = {**known, **cell.keys, **cell.at, "policy": entry.policy}
        yield Built(0, name, cell, factory_maker(cls, cell.keys), given, condition)


def factory_maker(cls: type[Policy[Any]], options: dict[str, Any]) -> Callable[[Scenario], Factory]:
    """A function that makes the factory of a policy in a scenario, with the true costs if it needs them."""
    needs_truth = TRUTH in inspect.signature(cls).parameters

    def factory_in(scenario: Scenario) -> Factory:
        truth: dict[str, Any] = {TRUTH: scenario.mean_costs} if needs_truth else {}
        return partial(cls, **truth, **options)

    return factory_in


def playing(policies: Mapping[str, Built], scenario: Built) -> dict[str, Factory]:
    """The factories of the policies that take part in a scenario: those whose condition holds there."""
    return {name: one.thing(scenario.thing) for name, one in policies.items() if takes_part(one, scenario)}


def noting(factory: Factory, notes: Notes, scenario: str, policy: str) -> Factory:
    """The factory, whose warnings are kept with their place."""

    def noted(problem: Problem, seed: int) -> Any:
        with notes.of(scenario, policy):
            return factory(problem, seed)

    return noted


def takes_part(policy: Built, scenario: Built) -> bool:
    """True if the condition of a policy holds in a scenario."""
    if policy.condition is None:
        return True
    problem = scenario.thing.problem
    sizes = {name: getattr(problem, name) for name in ("n_arms", "n_constraints", "horizon", "delta")}
    margin = {} if problem.safe is None else {"margin": problem.margin}
    try:
        return policy.condition.holds({**sizes, **margin, **scenario.given, **policy.given})
    except ValueError as error:
        raise placed(error, f"policies[{policy.place}].", f" (in scenario {scenario.cell.name})") from None


def refusals(
    policies: Mapping[str, Built], factories: Mapping[str, Factory], scenario: Scenario
) -> Iterator[ValueError]:
    """Yield an error for each policy that rejects its options or the scenario."""
    for name, factory in factories.items():
        place = policies[name].place
        try:
            factory(scenario.problem, 0)
        except ValueError as error:
            if isinstance(error, RuleError) and error.argument != "problem":
                yield placed(error, f"policies[{place}].")
            else:
                yield placed(error, f"policies[{place}] ({name}): ", f" (in scenario {scenario.id})")


def check_options(options: Mapping[str, Any], known: Mapping[str, Any], whose: str) -> None:
    """Reject keys that are not options."""
    for name in options:
        if name not in known:
            allowed = ", ".join(known) or "it has none"
            rule = f"be one of the options of {whose} ({allowed})"
            raise RuleError(name, rule, name, f"{name!r}{hint(name, known)}")
