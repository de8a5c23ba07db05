"""`surefoot demo --live`: it shows what it says, says so if it does not, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import typer

from surefoot.cli import live_demo
from surefoot.cli.live_demo import Sizes, World, carry_out
from tests.cli.test_cli import call

SHORT = Sizes(learn=12_000, patience=12_000, held=200, again=600, rate=1_500.0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_alarm_the_hold_and_the_new_epoch_are_shown(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    carry_out(3, SHORT)
    told = capsys.readouterr().out
    lines = [line.partition(":")[0] for line in told.splitlines()]
    for line in ("address", "learning", "drift", "held", "resumed by the operator", "new epoch"):
        assert line in lines, told
    assert re.search(r"^alarm after \d+ decisions: ", told, re.M)
    rows = {line[:32].strip(): line[32:].split() for line in told.splitlines()}
    assert rows["share of in-house"][2] == "100.0%", told
    learning, drifted, *_ = re.findall(r"([\d.]+)( over)?", told[told.index("mean latency miss, at most 0.2") + 30 :])
    assert learning[1] == "", "kept"
    # How far it rises depends on how soon the alarm comes; the standard error of the difference is 0.006 at most.
    assert float(drifted[0]) - float(learning[0]) > 0.03, told
    assert list(folder.iterdir()) == []


def test_no_alarm_is_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: nothing drifts."""
    monkeypatch.setattr(World, "drift", lambda self: None)
    with pytest.raises(typer.Exit) as caught:
        carry_out(3, Sizes(learn=100, patience=100))
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == "no alarm within 100 decisions after the drift\n"


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_nothing_behind(how: signal.Signals, code: int, folder: Path) -> None:
    command = [sys.executable, "-m", "surefoot", "demo", "--live"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        address = demo.stdout.readline().removeprefix("address: ").strip()
        assert httpx2.get(f"{address}/healthz", timeout=30.0).status_code == 200
        assert list(folder.iterdir()) != []
        demo.send_signal(how)
        assert demo.wait(30) == code
        assert demo.stderr is not None
        assert demo.stderr.read() == ("stopped\n" if code == 130 else "")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{address}/healthz")
    assert list(folder.iterdir()) == []


def test_the_command_passes_the_seed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(live_demo, "carry_out", seeds.append)
    assert call("demo", "--live", "--seed", 7)[0] == 0
    assert seeds == [7]


def test_the_traffic_is_the_same_for_the_same_seed() -> None:
    one, two, other = World(1), World(1), World(2)
    arms = ["balanced", "fast", "in-house"] * 10
    served = [one.serve(arm) for arm in arms]
    assert served == [two.serve(arm) for arm in arms]
    assert served != [other.serve(arm) for arm in arms]
    good = [delay for outcome, delay in served if delay and not outcome["latency miss"]]
    bad = [delay for outcome, delay in served if delay and outcome["latency miss"]]
    assert bad
    assert max(good) < min(bad), "a miss is a late answer"
