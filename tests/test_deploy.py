"""The files in deploy/ agree with the program, and with each other. Docker and systemd are not run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml  # type: ignore[import-untyped]

from surefoot.cli import app

DEPLOY = Path(__file__).parents[1] / "deploy"
DOCKERFILE, UNIT, NGINX = ((DEPLOY / name).read_text() for name in ("Dockerfile", "surefoot.service", "nginx.conf"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "surefoot"]
OTHERS = {
    "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES",  # Numba
    "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED",  # Python
    "PGPASSWORD",  # the client of PostgreSQL
    "SETUPTOOLS_SCM_PRETEND_VERSION",  # the build
}  # fmt: skip
"""Variables that others than Surefoot read."""


def found(pattern: str, text: str) -> str:
    """The only match."""
    (match,) = re.findall(pattern, text, re.MULTILINE)
    return str(match)


def commands() -> Iterator[tuple[str, list[str]]]:
    """What is passed to the program, and where."""
    yield "Dockerfile", json.loads(found(r"^CMD (.*)", DOCKERFILE))
    for number, line in enumerate(re.findall(r"surefoot (warm[^&\\\n]*)", DOCKERFILE)):
        yield f"Dockerfile, build {number}", shlex.split(line)
    yield "unit", shlex.split(found(r"^ExecStart=/opt/surefoot/bin/surefoot (.*)", UNIT))
    yield "unit, comment", shlex.split(found(r"^# .*bin/surefoot (\w.*)", UNIT))
    for name in OURS:
        yield name, SERVICES[name]["command"]


COMMANDS = dict(commands())


def parse(arguments: list[str]) -> dict[str, Any]:
    """The parameters of the command that arguments name, read as the program reads them; nothing is run."""
    command: Any = typer.main.get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    return dict(command.make_context("surefoot", rest).params)


@pytest.mark.parametrize("where", COMMANDS)
def test_the_program_takes_what_it_is_told(where: str) -> None:
    parse(COMMANDS[where])


def test_a_wrong_option_is_noticed() -> None:
    """The control."""
    with pytest.raises(Exception, match="No such option"):
        parse(["serve", "--hosts", "x"])


def test_variables_are_read_by_somebody() -> None:
    serve: Any = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    ours = {one.envvar for one in serve.params} - {None}
    block = found(r"^ENV ((?:.*\\\n)*.*)", DOCKERFILE)
    told = {*re.findall(r"(\w+)=", block), *re.findall(r"^Environment=(\w+)=", UNIT, re.MULTILINE)}
    for name in OURS:
        told |= set(SERVICES[name]["environment"])
    assert "SUREFOOT_DB" in told
    assert told <= ours | OTHERS


def test_ports_agree() -> None:
    ports = {int(told[told.index("--port") + 1]) for told in COMMANDS.values() if "--port" in told}
    ports.add(int(found(r"^EXPOSE (\d+)", DOCKERFILE)))
    ports.add(int(found(r"http://127.0.0.1:(\d+)/readyz", DOCKERFILE)))
    ports.add(int(found(r"proxy_pass http://\$decider:(\d+);", NGINX)))
    assert ports == {8000}
    assert SERVICES["proxy"]["ports"] == [f"127.0.0.1:8080:{found(r'listen (.*);', NGINX)}"]
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    for variable, value in service.get("environment", {}).items():
        assert "PASSWORD" not in variable or value.startswith("${POSTGRES_PASSWORD:?")


def test_nothing_is_answered_before_it_is_on_disk() -> None:
    assert {"synchronous_commit=on", "fsync=on"} <= set(SERVICES["database"]["command"])


def test_compiled_code_may_run() -> None:
    assert "MemoryDenyWriteExecute" not in re.sub(r"^#.*", "", UNIT, flags=re.MULTILINE)
    assert "/opt/surefoot/kernels" in found(r"^Environment=NUMBA_CACHE_DIR=(.*)", UNIT)


def test_the_builder_gets_what_it_copies() -> None:
    sent = re.findall(r"^!(.*)", (DEPLOY.parent / ".dockerignore").read_text(), re.MULTILINE)
    copied = [
        source for line in re.findall(r"^COPY (?!--)(.*)", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]
    ]
    assert sorted(copied) == sorted(sent)
    assert all((DEPLOY.parent / name).exists() for name in copied)
