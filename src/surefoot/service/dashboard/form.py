"""The form for an experiment: what people typed, what is wrong with it, and what it makes.

There are no rules here. The form is checked by building the experiment: an error is written beside its field, the field
is then given a value that will do, and the next try finds the next error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeVar

import msgspec

from surefoot.experiments.experiment import Experiment
from surefoot.rules import RuleError
from surefoot.service import models
from surefoot.service.forecast import forecast
from surefoot.service.models import parse
from surefoot.service.problems import Problem

T = TypeVar("T")

PLAIN = ("name", "timeout", "policy", "delta", "horizon", "margin", "alarm_every")
NUMBERS = ("timeout", "delta", "horizon", "margin", "alarm_every")
RAIL = ("name", "side", "limit", "low", "high", "unit", "cost")
BLANK = dict.fromkeys(RAIL, "") | {"side": "at_most"}
START = {"direction": "maximise", "policy": "solb", "mode": "live", "keep": "yes"}
ENDS = ("low", "high")
SPARE_ROWS = 2
DEFAULTS = {name: one.default for name, one in signature(Experiment).parameters.items() if one.default is not one.empty}


@dataclass
class Form:
    """What is in the fields, as text."""

    values: dict[str, str] = field(default_factory=lambda: dict(START))
    rails: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def sent(cls, form: Mapping[str, Sequence[str]]) -> Form:
        """The form that a browser has sent."""
        columns = [form.get(f"rail_{name}", ()) for name in RAIL]
        if len({len(column) for column in columns}) > 1:
            raise Problem(400, "malformed", "the rows of guardrails are not complete")
        rails = [dict(zip(RAIL, row, strict=True)) for row in zip(*columns, strict=True)]
        values = {name: texts[-1] for name, texts in form.items() if not name.startswith("rail_")}
        if values.get("do") == "rows":
            rails += [dict(BLANK)] * SPARE_ROWS
        return cls({**START, "keep": "", **values}, rails[: models.MOST_GUARDRAILS + 1])

    @classmethod
    def of(cls, experiment: Mapping[str, Any]) -> Form:
        """The form of an experiment, as `Experiment.to_dict` writes it."""
        values = dict(START) | {name: text(experiment[name]) for name in PLAIN}
        objective, costs = dict(experiment["objective"]), experiment["baseline_costs"] or {}
        values["direction"] = "maximise" if "maximise" in objective else "minimise"
        values["objective"] = objective[values["direction"]]
        values["objective_low"], values["objective_high"] = text(objective["low"]), text(objective["high"])
        arms, safe = experiment["arms"], experiment["baseline"]
        values["arms"] = "\n".join(arms) if one_line(arms) else json.dumps(arms)
        if isinstance(safe, str):
            values["baseline"] = safe
        else:
            lines = "\n".join(f"{arm}: {text(share)}" for arm, share in safe.items())
            values["baseline"] = lines if one_line(safe) else json.dumps(safe)
        values["options"] = json.dumps(experiment["options"]) if experiment["options"] else ""
        rails = []
        for rail in experiment["guardrails"]:
            side = "at_most" if "at_most" in rail else "at_least"
            rails.append({"name": rail["name"], "side": side, "limit": text(rail[side]), "low": text(rail["low"]),
                          "high": text(rail["high"]), "unit": rail.get("unit") or "",
                          "cost": text(costs.get(rail["name"]))})  # fmt: skip
        return cls(values, rails)

    def filled(self) -> list[tuple[int, dict[str, str]]]:
        """The rows of guardrails in which something was typed, with their places in the form."""
        return [(i, row) for i, row in enumerate(self.rails) if any(row[name] for name in RAIL if name != "side")]

    def rows(self) -> list[dict[str, str]]:
        """The rows of guardrails to show, in their places: those that are there, and spare ones after the last used."""
        last = max((i + 1 for i, _ in self.filled()), default=0)
        return self.rails + [dict(BLANK)] * max(0, last + SPARE_ROWS - len(self.rails))

    def data(self) -> dict[str, Any]:
        """The experiment as data. A number that is none stays text, for the rules to refuse."""
        found: dict[str, Any] = {"name": self.values.get("name", "").strip()}
        typed = self.values.get("arms", "")
        found["arms"] = as_json(typed, list) or lines_of(typed)
        side = self.values["direction"] if self.values["direction"] == "minimise" else "maximise"
        ends = {end: self.values.get(f"objective_{end}", "") for end in ENDS}
        found["objective"] = {side: self.values.get("objective", "").strip(), **given(ends)}
        found["guardrails"] = [guardrail(row) for _, row in self.filled()]
        found["baseline"] = baseline(self.values.get("baseline", ""), found["arms"])
        typed_costs = [(row["name"].strip(), row["cost"]) for _, row in self.filled() if row["cost"].strip()]
        costs = {name: amount(cost) for name, cost in reversed(typed_costs)}  # of two with one name, the first
        found["baseline_costs"] = costs or None
        found["policy"] = self.values.get("policy", "")
        found["options"] = options(self.values.get("options", ""))
        found |= given({name: self.values.get(name, "") for name in NUMBERS})
        found.setdefault("timeout", "")
        return found

    def check(self) -> Checked:
        """Build the experiment, or find out what is wrong."""
        try:
            trial, errors = self.data(), dict[str, str]()
            json.dumps(trial, ensure_ascii=False).encode()
        except (RecursionError, UnicodeEncodeError):
            return Checked(None, {"arms": "what was typed cannot be written down"})
        if len(trial["arms"]) > models.MOST_ARMS:
            return Checked(None, {"arms": f"arms must have at most {models.MOST_ARMS} names"})
        places = [i for i, _ in self.filled()]
        experiment = None
        while experiment is None and len(errors) < 50:
            try:
                experiment = Experiment.from_dict(trial)
            except RuleError as error:
                key, which, part = place(error.argument, trial)
                if which is not None:
                    errors.setdefault(f"rail_{places[which]}_{part}", str(error))
                else:
                    errors.setdefault(f"objective_{part}" if part in ENDS else key, str(error))
                repair(trial, key, which, part)
        if errors or experiment is None:
            return Checked(None, errors)
        try:
            parse(models.ExperimentBody, msgspec.json.encode(experiment.to_dict()))  # what the service allows beside
        except Problem as problem:
            return Checked(None, {(problem.pointer or "/name").split("/")[1]: problem.detail})
        return Checked(experiment, {})


@dataclass(frozen=True)
class Checked:
    """The experiment, or by field what is wrong."""

    experiment: Experiment | None
    errors: dict[str, str]

    @property
    def forecast(self) -> dict[str, Any] | None:
        """The forecast of `surefoot forecast`, where there is one."""
        return None if self.experiment is None else forecast(self.experiment)

    @property
    def json(self) -> str:
        """The experiment in JSON."""
        return "" if self.experiment is None else json.dumps(self.experiment.to_dict(), indent=2, ensure_ascii=False)

    @property
    def python(self) -> str:
        """The experiment in Python."""
        return "" if self.experiment is None else python_of(self.experiment)


def python_of(experiment: Experiment) -> str:
    """The call that makes an experiment.

    Examples
    --------
    >>> import surefoot as sf
    >>> made = sf.Experiment("x", arms=["a", "b"], objective=sf.Maximise("y"), guardrails=[sf.AtMost("z", 0.5)],
    ...                      baseline="a", timeout=60, delta=0.01)
    >>> print(python_of(made))
    import surefoot as sf
    <BLANKLINE>
    experiment = sf.Experiment(
        "x",
        arms=["a", "b"],
        objective=sf.Maximise("y"),
        guardrails=[
            sf.AtMost("z", 0.5),
        ],
        baseline="a",
        timeout=60.0,
        delta=0.01,
    )
    """

    def call(one: Any, *arguments: Any) -> str:
        ends = [f"{end}={value!r}" for end, value in (("low", one.low), ("high", one.high)) if value != (end == "high")]
        unit = [f"unit={quoted(one.unit)}"] if getattr(one, "unit", None) else []
        return f"sf.{type(one).__name__}({', '.join([quoted(one.name), *map(repr, arguments), *ends, *unit])})"

    lines = [f"    {quoted(experiment.name)},", f"    arms={quoted(list(experiment.arms))},"]
    lines.append(f"    objective={call(experiment.objective)},")
    rails = [f"        {call(rail, rail.limit)}," for rail in experiment.guardrails]
    lines += ["    guardrails=[", *rails, "    ],"] if rails else ["    guardrails=[],"]
    data = experiment.to_dict()
    for key in ("baseline", "baseline_costs", "timeout", "policy", "options", "delta", "horizon", "margin",
                "alarm_every"):  # fmt: skip
        if key in ("baseline", "timeout") or (data[key] != DEFAULTS[key] and data[key] != {}):
            lines.append(f"    {key}={quoted(data[key])},")
    return "\n".join(["import surefoot as sf", "", "experiment = sf.Experiment(", *lines, ")"])


def quoted(value: Any) -> str:
    """A value in Python, with double quotes."""
    if isinstance(value, str):
        plain = value.isprintable() and '"' not in value and "\\" not in value
        return f'"{value}"' if plain else repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)}: {quoted(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(quoted, value)) + "]"
    return repr(value)


def text(value: Any) -> str:
    """A value as the text of a field."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def amount(typed: str) -> Any:
    """The number that was typed, or the text if it is none."""
    try:
        return float(typed)
    except ValueError:
        return typed.strip()


def given(fields: Mapping[str, str]) -> dict[str, Any]:
    """Numbers, without the fields that are empty."""
    return {name: amount(typed) for name, typed in fields.items() if typed.strip()}


def guardrail(row: Mapping[str, str]) -> dict[str, Any]:
    """A guardrail as data."""
    side = "at_least" if row["side"] == "at_least" else "at_most"
    found = {"name": row["name"].strip(), side: amount(row["limit"]), **given({end: row[end] for end in ENDS})}
    return found | ({"unit": row["unit"].strip()} if row["unit"].strip() else {})


def baseline(typed: str, arms: Sequence[str]) -> Any:
    """The baseline: an arm, or a line ``arm: share`` for each of several."""
    lines, shares = lines_of(typed), as_json(typed, dict)
    if shares:
        return shares
    if len(lines) < 2 and (typed.strip() in arms or ":" not in typed):
        return typed.strip()
    parts = [line.rpartition(":") for line in lines]
    return {arm.strip(): amount(share) for arm, _, share in parts}


def lines_of(typed: str) -> list[str]:
    """The lines that are not empty."""
    return [line.strip() for line in re.split(r"[\r\n]+", typed) if line.strip()]


def one_line(names: Iterable[str]) -> bool:
    """Whether each name fits in a line of a field."""
    return not any(re.search(r"[\r\n]", name) for name in names)


def as_json(typed: str, kind: type[T]) -> T | None:
    """What was typed, if it is JSON of this kind: names with line breaks are written so."""
    try:
        found = json.loads(typed)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, kind) else None


def options(typed: str) -> Any:
    """The options of the policy."""
    try:
        return json.loads(typed) if typed.strip() else {}
    except (ValueError, RecursionError):
        return typed


def place(argument: str, data: Mapping[str, Any]) -> tuple[str, int | None, str]:
    """Which field an error is about: its key, the guardrail's place in the list, and the part of it.

    Examples
    --------
    >>> data = {"guardrails": [{"name": "a"}, {"name": "b]"}]}
    >>> place("guardrails['b]'].limit", data), place("objective.low", data), place("baseline_costs['a']", data)
    (('guardrails', 1, 'limit'), ('objective', None, 'low'), ('baseline_costs', 0, 'cost'))
    """
    found = re.match(r"\w*", argument)
    key = found.group() if found else ""
    rest = argument[len(key) :]
    part = rest.rpartition("]")[2].rpartition(".")[2]
    if key in ("guardrails", "baseline_costs") and rest:
        for i, rail in enumerate(data["guardrails"]):
            if rest.startswith((f"[{i}]", f"[{rail['name']!r}]")):
                return key, i, "cost" if key == "baseline_costs" else part or "name"
    return key, None, part


def repair(data: dict[str, Any], key: str, which: int | None, part: str) -> None:
    """Put something that keeps all rules in the place of what does not."""
    fine: dict[str, Any] = {"name": "x", "baseline": data["arms"][0] if data["arms"] else "a", "timeout": 1.0}
    if key == "baseline_costs":
        data[key] = None
    elif which is not None:
        name, other = data["guardrails"][which]["name"], f"\x01{which}"
        data["guardrails"][which] = {"name": other, "at_most": 0.5}
        if data["baseline_costs"] is not None:
            if all(rail["name"] != name for rail in data["guardrails"]):
                data["baseline_costs"].pop(name, None)
            data["baseline_costs"][other] = 0.25
    elif key == "arms":
        data["arms"], data["baseline"] = ["a", "b"], "a"
    elif key == "policy":
        data["policy"], data["options"] = "solb", {}
    elif key == "objective" and part in ENDS:
        data[key] = {verb: name for verb, name in data[key].items() if verb not in ENDS}
    elif key == "objective":
        data[key] = {**{end: data[key][end] for end in ENDS if end in data[key]}, "maximise": "\x01"}
    else:
        data[key] = fine.get(key, DEFAULTS.get(key))
