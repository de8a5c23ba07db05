"""Reference pages made from the code: Python names, commands, study files, HTTP."""

from __future__ import annotations

import json
import pkgutil
import re
from typing import Any

import typer.main

import surefoot
from surefoot.cli import app
from surefoot.theory import bounds

Page = dict[str, list[str]]

API: dict[str, tuple[str, str, list[str]]] = {
    "live": (
        "Running an experiment",
        "Define an experiment, decide, report what happened. The guide is [Run live](../../live.md).",
        [
            *("Experiment", "Maximise", "Minimise", "AtMost", "AtLeast", "Live", "Choice", "Snapshot", "Log"),
            *("MemoryLog", "Conflict", "LogFailure", "Stopped", "Unavailable", "Unknown"),
        ],
    ),
    "policies": (
        "SOLB and COLB",
        "The problem, the two algorithms, and what every policy can do. [Choose a policy](../../choosing.md) helps.",
        [
            *("Problem", "SafeStrategy", "Decision", "SOLB", "COLB", "Policy"),
            *("Contradiction", "EmptySafeSet", "Infeasible", "RuleError"),
        ],
    ),
    "peers": (
        "Other policies",
        "Published policies to compare with, and two yardsticks. [Policies](../../policies.md) has an overview.",
        [
            *("SafeExp3", "SoftExp3", "OPB", "SafeOptimisticLP", "OptimisticLP", "LinConTS", "DoublyOptimistic"),
            *("PessimisticOptimistic", "PrimalDual", "QueuePrimalDual", "LogBarrier", "Exp3", "Exp3IX", "TsallisINF"),
            *("UCB1", "ThompsonSampling", "EpsilonGreedy", "AlwaysSafe", "Oracle"),
        ],
    ),
    "confidence": (
        "Confidence bounds",
        "How sure a policy is of the mean costs. [Confidence bounds](../../confidence.md) says which to take.",
        [f"confidence.{name}" for name in surefoot.confidence.__all__ if name != "FAMILY"],
    ),
    "scenarios": (
        "Scenarios",
        "Scenarios for simulations: losses, costs, feedback. The guide is [Simulate](../../lab.md).",
        [
            *("Scenario", "Feedback", "Table", "scenarios.make", "scenarios.parameters"),
            *(f"losses.{name}" for name in surefoot.losses.__all__),
            *(f"costs.{name}" for name in surefoot.costs.__all__),
        ],
    ),
    "simulation": (
        "Simulation and analysis",
        "Run policies in scenarios, and judge them. The guide is [Simulate](../../lab.md).",
        [
            *("simulate", "Run", "write_report", "offline_optimum", "safest_strategy", "project"),
            *("Benchmark", "Projection"),
        ],
    ),
    "client": (
        "The client",
        "The caller's side of the decision service. The guide is [The client](../../client.md).",
        [
            *("client.Client", "client.AsyncClient", "client.Decision", "client.ArgumentError"),
            *("client.NoAnswer", "client.ServiceError", "client.Stopped"),
        ],
    ),
    "litellm": (
        "LiteLLM",
        "A LiteLLM Router, or LiteLLM's proxy, under guardrails. The guide is [LiteLLM](../../litellm.md).",
        [f"contrib.litellm.{name}" for name in ("Routing", "ProxyRouting", "Answer", "decision_of")],
    ),
    "bounds": (
        "Bounds of the theorems",
        "Every theorem as a number. [Bounds with their constants](../../bounds.md) explains them.",
        [f"theory.bounds.{name}" for name in bounds.__all__ if not name.isupper()],
    ),
    "testing": (
        "Contracts",
        "Test classes that your own policy, confidence bound or log must pass.",
        [
            *("testing.PolicyContract", "testing.ConfidenceContract", "testing.StorageContract"),
            *("testing.make_problem", "testing.true_costs"),
        ],
    ),
}
"""Pages of the Python reference: title, first sentence, names without `surefoot.`"""


def home(name: str) -> str:
    """The full path of a public name: where it is defined, which is where its docstring is."""
    if name.startswith("contrib."):  # not to be imported: it needs what it is for
        return f"surefoot.{name}"
    found: Any = pkgutil.resolve_name(f"surefoot.{name}")
    return f"{found.__module__}.{found.__qualname__}"


def api_page(key: str) -> str:
    """One page of the Python reference."""
    title, sentence, names = API[key]
    module = names[0].rpartition(".")[0]
    statement = "import surefoot as sf"
    if key in ("client", "litellm", "bounds", "testing"):
        statement = f"from surefoot.{module} import {names[0].rpartition('.')[2]}"
    parts = [f"# {title}\n\n{sentence}\n\n```python\n{statement}\n```\n"]
    for name in names:
        public = name.split(".")[0] not in ("client", "contrib", "theory", "testing")
        shown = f"sf.{name}" if public else name.rpartition(".")[2]
        label = name if public else shown
        parts.append(f'::: {home(name)}\n    options:\n      heading: "{shown}"\n      toc_label: "{label}"\n')
    return "\n".join(parts)


def commands_page() -> str:
    """The command line, from the commands themselves."""
    root: Any = typer.main.get_command(app)
    parts = [
        "# Options of all commands\n",
        "This page is made from the commands themselves: `surefoot COMMAND --help` prints the same.\n",
        "| command | what it does |\n|---|---|",
    ]
    entries = list(commands(root, "surefoot"))
    parts += [f"| [`{path}`](#{path.replace(' ', '-')}) | {first(one.help)} |" for path, one in entries]
    for path, one in entries:
        parts.append(f"\n## `{path}` {{: #{path.replace(' ', '-')} }}\n")
        parts.append(" ".join((one.help or "").split()) + "\n")
        given = [p for p in one.params if p.param_type_name == "argument"]
        usage = " ".join([path, *(p.name.upper() if p.required else f"[{p.name.upper()}]" for p in given), "[OPTIONS]"])
        parts.append(f"```console\n$ {usage}\n```\n")
        rows = [option(p) for p in one.params if p.name != "help" and not getattr(p, "hidden", False)]
        if rows:
            parts.append("| argument or option | meaning | default |\n|---|---|---|")
            parts += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(parts) + "\n"


def commands(group: Any, path: str) -> list[tuple[str, Any]]:
    """All commands below a group, those of groups inside it included, in the order of `--help`."""
    found: list[tuple[str, Any]] = []
    for name, one in group.commands.items():
        if one.hidden:  # an old name
            continue
        found += commands(one, f"{path} {name}") if hasattr(one, "commands") else [(f"{path} {name}", one)]
    return found


def first(text: str | None) -> str:
    """The first paragraph of a help text, on one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def option(parameter: Any) -> tuple[str, str, str]:
    """A row of the table of a command: how it is written, what it means, its default."""
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.name.upper()}`"
    else:
        shown = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.envvar:
        shown += f" (or `${parameter.envvar}`)"
    default = parameter.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    stated = f"`{default}`" if plain or hasattr(default, "parts") else "required" if parameter.required else ""
    return shown, " ".join((parameter.help or "").split()).replace("|", "\\|"), stated


def document() -> dict[str, Any]:
    """The OpenAPI document of the service, which it also serves at /openapi.json."""
    from surefoot.service.openapi import document
    from surefoot.service.routes import Routes

    return document(Routes(None, None).table())  # type: ignore[arg-type]


def http_page() -> str:
    """The routes of the service, from its OpenAPI document."""
    found = document()
    parts = [
        "# HTTP\n",
        "This page is made from the service's own OpenAPI document, which it serves at `/openapi.json` "
        '([download](openapi.json){: download="openapi.json" }). Send your key as `Authorization: Bearer KEY`. '
        "[The service](../service.md) is the guide: examples, errors, keys and roles.\n",
        "| request | what it does |\n|---|---|",
    ]
    operations = [(path, verb, one) for path, verbs in found["paths"].items() for verb, one in verbs.items()]
    parts += [
        f"| [{breakable(verb, path)}](#{anchor(verb, path)}) | {one['summary']} |" for path, verb, one in operations
    ]
    for path, verb, one in operations:
        short = path.replace("/v1/experiments/{name}/", "\N{HORIZONTAL ELLIPSIS}/")
        head = f'`{verb.upper()} {path}` {{: #{anchor(verb, path)} data-toc-label="{verb.upper()} {short}" }}'
        parts.append(f"\n## {head}\n\n{one['summary']}.\n")
        rows = [f"| `{p['name']}` | {p['in']} | {p['description']} |" for p in one.get("parameters", [])]
        if rows:
            parts += ["| parameter | in | meaning |\n|---|---|---|", *rows, ""]
        body = one.get("requestBody")
        if body is not None:
            parts.append(f"Body: {kinds(body['content'])}\n")
        parts.append("| status | answer |\n|---|---|")
        for status, answer in one["responses"].items():
            content = kinds(answer.get("content", {}))
            parts.append(f"| {status} | {answer['description']}{' ' + content if content and status < '4' else ''} |")
    parts.append("\n## Shapes\n")
    for name, schema in sorted(found["components"]["schemas"].items()):
        parts.append(f"\n### `{name}` {{: #shape-{name.lower()} }}\n\n{schema.get('description', '')}\n")
        if "properties" in schema:
            needed = set(schema.get("required", []))
            parts.append("| field | type | needed |\n|---|---|---|")
            for field, of in schema["properties"].items():
                parts.append(f"| `{field}` | {kind(of)} | {'required' if field in needed else ''} |")
        else:
            parts.append(f"{kind(schema)}\n")
    return "\n".join(parts) + "\n"


def breakable(verb: str, path: str) -> str:
    """A request as code that a narrow screen may break before each part of its path."""
    return f"<code>{verb.upper()} {re.sub('(?<=.)/', '<wbr>/', path)}</code>"


def anchor(verb: str, path: str) -> str:
    """The anchor of a route."""
    return "-".join([verb, *(part.strip("{}") for part in path.strip("/").split("/"))]).replace(".", "-")


def kinds(content: dict[str, Any]) -> str:
    """What a body may be, with links to the shapes."""
    return ", ".join(f"{kind(one.get('schema', {}))} (`{name}`)" for name, one in content.items())


def kind(schema: Any) -> str:
    """The type of a value in words, with a link if it has a name."""
    if not isinstance(schema, dict):
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#shape-{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(kind(one) for one in schema[key])
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))


def studies_page() -> str:
    """The keys of a study file, and the example that `surefoot init` writes."""
    from surefoot.environments.scenarios import SCENARIOS
    from surefoot.policies import REGISTRY
    from surefoot.simulation.study import EXAMPLE

    scenarios = [f"| `{name}` | {first(made.__doc__)} |" for name, made in SCENARIOS.items()]
    policies = [f"| `{name}` | {first(made.__doc__)} |" for name, made in REGISTRY.items()]
    return "\n".join(
        [
            "# Study files\n",
            "A study file says which policies meet which scenarios, with how many seeds. `surefoot init` writes this "
            "example, `surefoot run study.toml` runs it, and with `--dry-run` it says how long that takes. "
            "[Studies](../studies.md) is the guide, and says what [grids](../studies.md#grids) are.\n",
            "```toml",
            EXAMPLE.format(name="study.toml").rstrip(),
            "```\n",
            "## Scenarios\n",
            "`surefoot scenarios` lists them with their parameters.\n",
            "| id | what happens |\n|---|---|",
            *scenarios,
            "\n## Policies\n",
            "`surefoot policies` lists them with their options.\n",
            "| policy | what it does |\n|---|---|",
            *policies,
        ]
    )


def pages() -> dict[str, str]:
    """All pages of the reference that are made from code, by their place below docs/."""
    made = {f"reference/api/{key}.md": api_page(key) for key in API}
    made["reference/commands.md"] = commands_page()
    made["reference/http.md"] = http_page()
    made["reference/openapi.json"] = json.dumps(document(), indent=1)
    made["reference/studies.md"] = studies_page()
    return made
