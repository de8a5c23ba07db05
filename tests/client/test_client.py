"""Both clients against the service itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from surefoot.client import ArgumentError, Client, Decision, ServiceError, Stopped
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key
from tests.client.conftest import FOLDER, Make, eventually
from tests.servers import GOOD, ROUTING, Server


def learnt(server: Server, name: str) -> list[str]:
    return [one["id"] for one in server.call("GET", f"/v1/experiments/{name}/rounds")]


def test_the_client_needs_neither_numba_nor_numpy() -> None:
    code = "import sys, surefoot.client; print(sorted({'numba', 'numpy', 'scipy'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told == "[]\n"
    told = subprocess.run(
        [sys.executable, "-c", code.replace("surefoot.client", "surefoot.rules")], check=True, capture_output=True,
        text=True,
    ).stdout  # fmt: skip
    assert "numpy" in told, "the control"


def test_decide_and_report(server: Server, name: str, make: Make) -> None:
    client = make(server.address, server.key)
    one = client.decide(name)
    assert isinstance(one, Decision)
    assert (one.mode, one.logged, one.epoch, one.would) == ("live", True, 0, None)
    assert one.arm in ROUTING["arms"]
    assert client.report(one.id, {"quality": 0.8}) == "partial"
    assert client.report(one.id, GOOD) == "accepted"
    assert client.report(one, GOOD) == "replayed"
    several = client.decide(name, n=7)
    assert len({decision.id for decision in several}) == 7
    for decision in several:
        client.feedback(decision.id, GOOD)
    assert client.flush(20)
    assert set(learnt(server, name)) == {one.id, *(decision.id for decision in several)}
    assert client.dropped == {}


def test_keys_units_and_arms_go_to_the_service(server: Server, name: str, make: Make) -> None:
    client = make(server.address, server.key, local=True)
    assert client.decide(name, key="request 1") == client.decide(name, key="request 1")
    assert client.decide(name, unit="user-12").id == client.decide(name, unit="user-12").id
    assert client.decide(name, arms=["in-house"]).arm == "in-house"
    first, second = client.decide(name, key="a"), client.decide(name, key="b")
    assert first.id != second.id, "the control"


def test_operating(server: Server, name: str, make: Make) -> None:
    client = make(server.address, server.key)
    assert client.create({**ROUTING, "name": "other"}, dry_run=True)["experiment"]["name"] == "other"
    assert name in [one["name"] for one in client.experiments()]
    assert client.create({**ROUTING, "name": f"{name}-2"}, mode="shadow")["shadow"]
    with pytest.raises(ServiceError, match="there is an experiment") as caught:
        client.create({**ROUTING, "name": name})
    assert (caught.value.status, caught.value.type) == (409, "conflict")
    assert client.hold(name, "an incident")["state"] == "held"
    assert client.decide(name).mode == "safe"
    assert client.resume(name, "over")["state"] == "running"
    assert client.change(name, 0, delta=0.01, reason="careful") == {"epoch": 1, "kept": True}
    with pytest.raises(ServiceError) as caught:
        client.change(name, 0, delta=0.02)
    assert (caught.value.status, caught.value.type) == (412, "changed")
    assert client.status(name)["epoch"] == 1
    decision = client.decide(name)
    client.cancel(decision.id, "the user left")
    with pytest.raises(ServiceError, match="cancelled"):
        client.report(decision.id, GOOD)
    assert name in client.hold_all("maintenance")
    assert client.stop(name, "the best arm is clear")["state"] == "stopped"
    with pytest.raises(Stopped, match="the best arm is clear"):
        client.decide(name)
    for other in client.experiments():
        if other["state"] == "held":
            client.resume(other["name"], "over")


def test_refusals_are_sentences(server: Server, name: str, make: Make) -> None:
    client = make(server.address, server.key)
    with pytest.raises(ServiceError, match="no experiment 'nothing'") as caught:
        client.decide("nothing")
    assert (caught.value.status, caught.value.type) == (404, "unknown")
    decision = client.decide(name)
    with pytest.raises(ServiceError) as caught:
        client.report(decision.id, {"quality": 7.0})
    assert (caught.value.status, caught.value.pointer) == (422, "/outcome/quality")
    assert "\n" not in str(caught.value)
    wrong = make(server.address, "sf_wrong")
    with pytest.raises(ServiceError, match="key is not known") as caught:
        wrong.decide(name)
    assert "sf_wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (("ftp://x", "k"), {}, "address must begin with http:// or https://, got 'ftp://x'"),
        (("http://x", ""), {}, "key must be text that is not empty"),
        (("http://x", "k"), {"timeout": 0}, "timeout must be a positive number of seconds, got 0"),
        (("http://x", "k"), {"retries": -1}, "retries must be a whole number, 0 or more, got -1"),
        (("http://x", "k"), {"flush_every": float("nan")}, "flush_every must be a positive number of seconds"),
        (("http://x", "k"), {"baselines": {"a": {"b": 0.5}}}, "baselines['a'] must be an arm, or shares of arms"),
        (("http://x", "k"), {"baselines": {"a": 3}}, "baselines['a'] must be an arm, or shares of arms"),
    ],
)
def test_wrong_arguments_are_named(arguments: Any, options: Any, sentence: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Client(*arguments, **options)
    assert str(caught.value).startswith(sentence)


def test_wrong_feedback_is_refused_at_the_door(make: Make) -> None:
    client = make("http://127.0.0.1:9")
    for id, outcome, sentence in (
        ("a-1", {"quality": float("nan")}, "values must be text, finite numbers or booleans"),
        ("a-1", {"quality": object()}, "values must be text, finite numbers or booleans"),
        ("a-1", 0.5, "outcome must be a mapping"),
        (7, {}, "id must be the id of a decision, got 7"),
        ("a-1", {"x": "y" * 1_000_000}, "outcome must have less than 900000 bytes"),
    ):
        with pytest.raises(ArgumentError, match=sentence):
            client.feedback(id, outcome)
    with pytest.raises(ArgumentError, match="n must be a whole number, 1 or more, got 0"):
        client.decide("a", n=0)
    for key in ("", "a\nb", "\N{SNOWMAN}"):
        with pytest.raises(ArgumentError, match="key must be text of ASCII characters"):
            client.decide("a", key=key)
    client.close()
    for call, arguments in ((client.feedback, ("a-1", {})), (client.decide, ("a",))):
        with pytest.raises(ArgumentError, match="the client must be open, and it was closed"):
            call(*arguments)


def test_one_bad_item_does_not_spoil_its_batch(
    server: Server, name: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    client = make(server.address, server.key, flush_every=0.3)
    told: list[Any] = []

    def tell(id: str, problem: Any) -> None:
        told.append((id, problem["type"]))

    client.on_problem = tell
    decisions = client.decide(name, n=20)
    for i, decision in enumerate(decisions):
        client.feedback(decision.id, {"quality": "good"} if i == 13 else {"quality": 9.0} if i == 5 else GOOD)
    client.feedback("ffffffff-1", GOOD)
    client.feedback("ffffffff-2", GOOD)
    assert client.flush(20)
    assert client.dropped == {"invalid": 2, "unknown": 2}
    wrong = {decisions[13].id, decisions[5].id}
    for decision in decisions:
        assert client.report(decision.id, GOOD) == ("accepted" if decision.id in wrong else "replayed")
    assert {id for id, kind in told if kind == "urn:surefoot:invalid"} == wrong
    assert len([one for one in caplog.records if "(unknown" in one.message]) == 1
    assert server.key not in caplog.text


def test_a_key_that_may_not_read_learns_no_baseline(server: Server, name: str, make: Make) -> None:
    database = Database.open(server._db)
    key = create_key(database, "decider", ["decide"], time.time())
    database.close()

    def known() -> bool:
        try:
            make(server.address, key).decide(name)
        except ServiceError:
            return False
        return True

    eventually(known)  # the service reads new keys once a second
    client = make(server.address, key)
    client.decide(name)
    assert client._core.baselines._learnt == {}
    reader = make(server.address, server.key)
    reader.decide(name)
    assert reader._core.baselines._learnt == {name: {"in-house": 1.0}}, "the control"


def test_threads_share_a_client(server: Server, name: str) -> None:
    found: list[Decision] = []

    def call() -> None:
        for _ in range(20):
            decision = client.decide(name)
            found.append(decision)
            client.feedback(decision.id, GOOD)

    with Client(server.address, server.key, timeout=10.0) as client:
        threads = [threading.Thread(target=call) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({one.id for one in found}) == 120
    assert sorted(learnt(server, name)) == sorted(str(one.id) for one in found)


EXIT = """
import os, sys
from surefoot.client import Client
client = Client(sys.argv[1], sys.argv[2], flush_every=60.0, timeout=10.0)
for decision in client.decide(sys.argv[3], n=5):
    client.feedback(decision.id, {"quality": 0.8, "spend": 0.31, "answered": True})
print(os.getpid())
if sys.argv[4:]:
    os._exit(0)
"""


def test_feedback_is_sent_when_the_process_ends(server: Server, name: str) -> None:
    command = [sys.executable, "-c", EXIT, server.address, server.key, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert len(learnt(server, name)) == 5
    subprocess.run([*command, "cut off"], capture_output=True, text=True, timeout=60, check=True)
    assert len(learnt(server, name)) == 5, "the control"


FORK = """
import os, sys, time
from surefoot.client import Client
address, key, name = sys.argv[1:]
outcome = {"quality": 0.8, "spend": 0.31, "answered": True}
client = Client(address, key, flush_every=0.05, timeout=10.0)
client.feedback(client.decide(name).id, outcome)        # the thread runs, a connection is open
client._core.outbox._lock.acquire()                     # and another thread may hold a lock at that moment
child = os.fork()
if child == 0:
    for decision in client.decide(name, n=3):
        client.feedback(decision.id, outcome)
    sent = client.flush(20)
    os._exit(0 if sent and not client.dropped else 1)
client._core.outbox._lock.release()
_, status = os.waitpid(child, 0)
client.feedback(client.decide(name).id, outcome)
client.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_client_works_after_a_fork(server: Server, name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, server.address, server.key, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert len(learnt(server, name)) == 5


def test_the_examples_of_the_page_work(server: Server, tmp_path: Path) -> None:
    page = (FOLDER / "docs" / "client.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    server.call("POST", "/v1/experiments", {**ROUTING, "name": "llm-routing"})
    script = "\n".join(blocks)
    environment = {**os.environ, "SUREFOOT_ADDRESS": server.address, "SUREFOOT_KEY": server.key}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert server.call("GET", "/v1/experiments/llm-routing")["decisions"] > 0
