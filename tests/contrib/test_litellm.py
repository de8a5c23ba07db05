"""LiteLLM's own Router, models behind HTTP, and the service: the guardrails hold, and every attempt counts once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it looks for prices on the network
litellm = pytest.importorskip("litellm", reason="litellm is not installed", exc_type=ImportError)

from litellm.caching import caching_handler  # noqa: E402
from litellm.litellm_core_utils import logging_callback_manager  # noqa: E402

from surefoot.client import AsyncClient  # noqa: E402
from surefoot.contrib.litellm import Answer, ProxyRouting, Routing, decision_of  # noqa: E402
from tests.contrib.models import Model, Models  # noqa: E402
from tests.servers import Server  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Item.* on TypedDict class:UserWarning")  # LiteLLM's own types

MESSAGES = [{"role": "user", "content": "Where is my parcel?"}]
LIMIT, MOST = 0.6, 1.2
EXPERIMENT: dict[str, Any] = {
    "arms": ["flagship", "fast", "in-house"],
    "objective": {"maximise": "quality"},
    "guardrails": [
        {"name": "spend", "at_most": LIMIT, "low": 0, "high": MOST, "unit": "cents"},
        {"name": "answered", "at_least": 0.8},
    ],
    "baseline": "in-house",
    "baseline_costs": {"spend": 0.1, "answered": 0.99},
    "timeout": 600,
}
ARMS = {arm: [f"openai/{arm}"] for arm in EXPERIMENT["arms"]}


@pytest.fixture(scope="module", autouse=True)
def quiet() -> None:
    litellm.suppress_debug_info = True
    litellm.disable_aiohttp_transport = True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("surefoot.db", tmp_path_factory.mktemp("litellm"))
    yield server
    server.stop()


@pytest.fixture
def models() -> Iterator[Models]:
    models = Models(
        {
            "flagship": Model(cents=1.0, quality=0.95),
            "fast": Model(cents=0.3, quality=0.9),
            "in-house": Model(cents=0.1, quality=0.2),
            "spare": Model(cents=0.1, quality=0.3),
        }
    )
    yield models
    models.close()


def measured(answer: Answer) -> dict[str, float | bool]:
    good = answer.response.choices[0].message.content == "good"
    return {"quality": good, "spend": 100 * answer.dollars, "answered": True}


class World:
    """A Router with the models, and an experiment that routes its requests."""

    def __init__(self, server: Server, name: str, router: Any, client: AsyncClient, routing: Routing) -> None:
        self.server, self.name, self.router, self.client, self.routing = server, name, router, client, routing

    async def ask(self, **options: Any) -> Any:
        return await self.router.acompletion("assistant", MESSAGES, **options)

    async def many(self, n: int, **options: Any) -> None:
        """Requests, eight at a time."""
        gate = asyncio.Semaphore(8)

        async def one() -> None:
            async with gate:
                await self.ask(**options)

        await asyncio.gather(*(one() for _ in range(n)))

    def status(self) -> Any:
        return self.server.call("GET", f"/v1/experiments/{self.name}")

    async def rounds(self, pending: int = 0) -> list[dict[str, Any]]:
        """What the service has learnt, when no more than `pending` decisions wait for feedback."""
        await until(lambda: self.status()["pending"] <= pending)
        assert self.status()["pending"] == pending
        return self.server.call("GET", f"/v1/experiments/{self.name}/rounds")  # type: ignore[no-any-return]


Begin = Callable[..., Any]


@pytest.fixture
def begin(server: Server, models: Models, request: pytest.FixtureRequest) -> Begin:
    name = re.sub(r"[^a-z0-9-]", "-", str(request.node.name))

    @asynccontextmanager
    async def begin(
        kind: type[Routing] = Routing,
        outcome: Callable[[Answer], Mapping[str, float | bool]] = measured,
        **options: Any,
    ) -> AsyncIterator[World]:
        spare = models.deployment("spare")
        deployments = [*(models.deployment(arm) for arm in ARMS), {**spare, "model_name": "spare"}]
        settings = {"num_retries": 0, "retry_after": 0, "disable_cooldowns": True, **options}
        router = litellm.Router(model_list=deployments, **settings)
        server.call("POST", "/v1/experiments", {**EXPERIMENT, "name": name})
        async with AsyncClient(server.address, server.key, flush_every=0.05) as client:
            routing = await kind.attach(
                router, client, name, model="assistant", arms=ARMS, outcome=outcome, failed={"spend": 0.0}
            )
            try:
                yield World(server, name, router, client, routing)
            finally:
                await routing.detach(timeout=0.1)

    return begin


def differ(models: Models, rounds: list[dict[str, Any]]) -> Counter[tuple[str, bool, float]]:
    """Calls that the experiment's models saw and the service did not learn as they were, or the other way round."""
    saw = Counter((one.arm, one.answered, round(models.cents(one), 9)) for one in models.calls if one.arm in ARMS)
    learnt = Counter(
        (one["arm"], one["costs"]["answered"] == 0.0, round(MOST * one["costs"]["spend"], 9)) for one in rounds
    )
    return (saw - learnt) + (learnt - saw)


def test_quality_rises_while_spend_keeps_its_limit(begin: Begin, models: Models) -> None:
    async def main() -> None:
        async with begin() as world:
            for _ in range(4):
                await world.many(40)
                strategy = world.status()["strategy"]
                assert sum(models[arm].cents * share for arm, share in strategy.items()) <= LIMIT
            rounds = await world.rounds()
            assert not differ(models, rounds)
            # By the strategy, which does not depend on the luck of the last draws: 0.84 on average, and at least 0.57
            # in each of 150 simulated runs.
            learnt = sum(models[arm].quality * share for arm, share in world.status()["strategy"].items())
            assert learnt > models["in-house"].quality + 0.25
            assert not world.status()["alarms"]

    asyncio.run(main())


class Shared(Routing):
    """The control: the attempt is kept in metadata that requests may share."""

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        found = await super().async_pre_call_deployment_hook(kwargs.copy(), call_type)
        kwargs["metadata"].update(found["metadata"])
        kwargs.pop(self._key, None)
        return kwargs


@pytest.mark.parametrize("kind", [Routing, Shared])
def test_an_attempt_is_reported_for_its_own_arm(begin: Begin, models: Models, kind: type[Routing]) -> None:
    models["fast"].fails = models["flagship"].fails = 0.5
    models["in-house"].fails = 0.2

    async def main() -> Any:
        async with begin(kind, num_retries=1, fallbacks=[{"assistant": ["spare"]}]) as world:
            await world.many(30, metadata={"customer": 7})  # one dictionary for all of them
            return differ(models, await world.rounds(pending=0 if kind is Routing else world.status()["pending"]))

    wrong = asyncio.run(main())
    assert any(not one.answered for one in models.calls)
    assert len(models.calls) > 30, "there were retries"
    assert not wrong if kind is Routing else wrong


def test_a_fallback_is_no_part_of_the_experiment(begin: Begin, models: Models) -> None:
    for arm in ARMS:
        models[arm].fails = 1.0

    async def main() -> None:
        async with begin(num_retries=2, fallbacks=[{"assistant": ["spare"]}]) as world:
            response = await world.ask()
            assert decision_of(response) is None
            rounds = await world.rounds()
            assert not differ(models, rounds)
            assert [one["source"] for one in rounds] == ["feedback"] * 3, "an attempt and two retries"
            assert [one["loss"] for one in rounds] == [1.0] * 3
            assert models.calls[-1].arm == "spare"

    asyncio.run(main())


def test_arms_that_cool_down_are_not_chosen(begin: Begin, models: Models) -> None:
    models["flagship"].fails = models["fast"].fails = 1.0
    cooling = {"disable_cooldowns": False, "allowed_fails": 0, "cooldown_time": 600}

    async def main() -> None:
        async with begin(**cooling, num_retries=2, fallbacks=[{"assistant": ["spare"]}]) as world:
            await world.many(30)
            rounds = await world.rounds()
            assert not differ(models, rounds)
            seen = Counter(one.arm for one in models.calls)
            assert seen["in-house"] > 20
            assert max(seen["flagship"], seen["fast"]) <= 8, "those under way when the first one failed"
            models["in-house"].fails = 1.0
            assert decision_of(await world.ask()) is None, "no arm is left, so the spare answers"
            assert (await world.rounds())[-1]["arm"] == "in-house"

    asyncio.run(main())


def test_nothing_is_served_if_no_available_arm_is_safe(begin: Begin, models: Models) -> None:
    models["in-house"].fails = 1.0
    cooling = {"disable_cooldowns": False, "allowed_fails": 0, "cooldown_time": 600}

    async def main() -> None:
        async with begin(**cooling) as world:
            world.server.call("POST", f"/v1/experiments/{world.name}/hold", {"reason": "an incident"})
            with pytest.raises(litellm.InternalServerError):
                await world.ask()
            with pytest.raises(litellm.ServiceUnavailableError, match=r"no arm of .* may be served"):
                await world.ask()
            assert not differ(models, await world.rounds())
            assert len(models.calls) == 1

    asyncio.run(main())


async def end_of(stream: Any) -> Any:
    return [chunk async for chunk in stream][-1]


def test_streams(begin: Begin, models: Models) -> None:
    async def main() -> None:
        async with begin() as world:
            chunks = await asyncio.gather(*[end_of(await world.ask(stream=True)) for _ in range(5)])
            rounds = await world.rounds()
            assert not differ(models, rounds)
            assert {decision_of(one).id for one in chunks} == {one["id"] for one in rounds}  # type: ignore[union-attr]
            for arm in ARMS:
                models[arm].breaks = True
            with pytest.raises(litellm.APIConnectionError):
                await end_of(await world.ask(stream=True))
            rounds = await world.rounds()
            assert not differ(models, rounds)
            assert [one["loss"] for one in rounds[5:]] == [1.0]

    asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1200):
        if true():
            return
        await asyncio.sleep(0.025)
    raise AssertionError("it never comes")


def test_what_is_never_reported_waits_for_the_timeout(
    begin: Begin, models: Models, caplog: pytest.LogCaptureFixture
) -> None:
    for arm in ARMS:
        models[arm].seconds = 0.5

    def broken(answer: Answer) -> dict[str, float | bool]:
        raise KeyError("no such field")

    async def main() -> None:
        async with begin(outcome=broken) as world:
            await world.ask()
            await until(lambda: "is not reported, and counts as the worst case" in caplog.text)
            asking = asyncio.create_task(world.ask())
            await until(lambda: len(models.calls) == 2)
            asking.cancel()  # nobody waits for the answer any more
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert not await world.rounds(pending=2)

    asyncio.run(main())


def test_a_timeout_is_a_failure(begin: Begin, models: Models) -> None:
    for arm in ARMS:
        models[arm].seconds = 1.0

    async def main() -> None:
        async with begin() as world:
            with pytest.raises(litellm.Timeout):
                await world.ask(timeout=0.2)
            (one,) = await world.rounds()
            assert (one["source"], one["loss"], one["costs"]) == ("feedback", 1.0, {"spend": 0.0, "answered": 1.0})

    asyncio.run(main())


def test_a_failure_counts_even_if_nothing_is_logged(begin: Begin, models: Models) -> None:
    for arm in ARMS:
        models[arm].fails = 1.0

    async def main() -> None:
        async with begin(num_retries=1) as world:
            with pytest.raises(litellm.InternalServerError):
                await world.ask(**{"no-log": True})
            assert not differ(models, await world.rounds())
            assert len(models.calls) == 2

    asyncio.run(main())


def test_an_answer_from_the_cache_is_no_outcome_of_an_arm(
    begin: Begin, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "cache", None)  # the Router sets it
    # Asks about streams by importing LiteLLM's proxy, which needs packages that LiteLLM does not.
    monkeypatch.setattr(caching_handler, "_should_defer_streaming_cache_hit_callbacks", lambda **_: False)

    async def main() -> None:
        async with begin(cache_responses=True) as world:
            for _ in range(12):
                await world.ask()
            rounds = await world.rounds()
            assert len(models.calls) == 1
            assert not differ(models, rounds), "one arm answered, others got its answer"

    asyncio.run(main())


def test_the_application_reports_what_it_learns_later(
    begin: Begin, models: Models, caplog: pytest.LogCaptureFixture
) -> None:
    def at_once(answer: Answer) -> dict[str, float | bool]:
        assert 0.0 < answer.seconds < 60.0
        return {"spend": 1e6 * answer.dollars, "answered": True}  # far out of range

    async def main() -> None:
        async with begin(outcome=at_once) as world:
            decision = decision_of(await world.ask())
            assert decision is not None
            assert not await world.rounds(pending=1)
            await world.client.feedback(decision.id, {"quality": 0.75})
            (one,) = await world.rounds()
            assert (one["id"], one["arm"], one["loss"]) == (decision.id, models.calls[0].arm, 0.25)
            assert one["costs"] == {"spend": 1.0, "answered": 0.0}
            assert "and counts as 1.2, the end of its range" in caplog.text

    asyncio.run(main())


def test_the_baseline_without_the_service(begin: Begin, models: Models, server: Server) -> None:
    async def main() -> None:
        async with begin() as world:
            await world.ask()
            await world.rounds()
            server.process.send_signal(signal.SIGSTOP)
            try:
                await world.many(4)
            finally:
                server.process.send_signal(signal.SIGCONT)
            assert [one.arm for one in models.calls[1:]] == ["in-house"] * 4
            assert not world.client.dropped, "nothing was to be reported"
            assert world.status()["rounds"] == 1

    asyncio.run(main())


def test_the_baseline_after_the_end(begin: Begin, models: Models) -> None:
    async def main() -> None:
        async with begin() as world:
            world.server.call("POST", f"/v1/experiments/{world.name}/stop", {"reason": "the best arm is clear"})
            await world.many(4)
            assert {one.arm for one in models.calls} == {"in-house"}
            assert not await world.rounds()

    asyncio.run(main())


def test_calls_that_litellm_routes_without_asking_are_refused(begin: Begin, models: Models) -> None:
    async def main() -> None:
        async with begin() as world:
            with pytest.raises(ValueError, match="decides for acompletion only"):
                world.router.completion("assistant", MESSAGES)
            with pytest.raises(ValueError, match="decides for acompletion only"):
                await world.router.aembedding("assistant", input=["a"])
            assert not models.calls
            assert not await world.rounds()
            assert world.status()["decisions"] == 1  # it was made, and taken back

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "nobody"}, "model must be a model name of the router, got 'nobody'"),
        ({"arms": {**ARMS, "huge": ["openai/huge"]}}, "arms must be arms of .*, which are flagship, .*, got 'huge'"),
        ({"arms": {"flagship": ["openai/flagship"]}}, r"arms\['fast'\] must be a list of at least one .*, got None"),
        ({"arms": {**ARMS, "fast": []}}, r"arms\['fast'\] must be a list of at least one deployment, got \[\]"),
        ({"arms": {**ARMS, "fast": "fast-1"}}, r"arms\['fast'\] must be a list of at least one .*, got 'fast-1'"),
        ({"arms": {**ARMS, "fast": ["fast-2"]}}, r"arms\['fast'\] must name deployments of 'assistant', got 'fast-2'"),
        ({"arms": {**ARMS, "fast": ["flagship-1"]}}, "arms must not share deployments, got 'flagship-1' in .*'fast'"),
        ({"arms": {**ARMS, "in-house": ["in-house-2"]}}, "arms must name every deployment .*'in-house-1' is missing"),
        ({"failed": {"latency": 1.0}}, "failed names 'latency', which .* does not measure"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_start(
    server: Server, models: Models, changes: dict[str, Any], sentence: str
) -> None:
    name = "checks"
    if name not in [one["name"] for one in server.call("GET", "/v1/experiments")["experiments"]]:
        server.call("POST", "/v1/experiments", {**EXPERIMENT, "name": name})

    async def main() -> None:
        deployments = [*(models.deployment(arm) for arm in ARMS), models.deployment("in-house", id="in-house-2")]
        router = litellm.Router(model_list=deployments)
        right: dict[str, Any] = {"model": "assistant", "arms": ARMS, "outcome": measured}
        async with AsyncClient(server.address, server.key) as client:
            with pytest.raises(ValueError, match=f"^{sentence}$"):
                await Routing.attach(router, client, name, **{**right, **changes})
            assert not [one for one in litellm.callbacks if isinstance(one, Routing)]
            by_id = {**ARMS, "in-house": ["in-house-1", "in-house-2"]}
            routing = await Routing.attach(router, client, name, **{**right, "arms": by_id})
            with pytest.raises(ValueError, match="'assistant' is routed by the experiment checks already"):
                await Routing.attach(router, client, name, **right)
            await routing.detach()

    asyncio.run(main())


def test_a_place_among_the_callbacks_is_needed(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_callback_manager, "MAX_CALLBACKS", 0)

    async def main() -> None:
        async with begin():
            pass

    with pytest.raises(ValueError, match=r"litellm\.callbacks must have room"):
        asyncio.run(main())


def example_of(language: str) -> str:
    page = (Path(__file__).parents[2] / "docs" / "litellm.md").read_text(encoding="utf-8")
    (example,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)
    return str(example)


def test_the_example_of_the_page(server: Server, models: Models) -> None:
    example = example_of("py")
    deployments = [*(models.deployment(arm) for arm in ARMS), models.deployment("in-house", id="in-house-2")]
    names: dict[str, Any] = {
        "model_list": deployments,
        "address": server.address,
        "key": server.key,
        "judge": lambda response: 0.5,
    }
    exec(example, names)
    asyncio.run(names["main"]())
    (one,) = server.call("GET", "/v1/experiments/llm-routing/rounds")
    assert (one["arm"], one["loss"]) == (models.calls[0].arm, 0.5)
    assert one["costs"]["spend"] == pytest.approx(models.cents(models.calls[0]) / 1.2)


def test_in_the_proxy_nothing_is_served_before_everything_is_checked(
    server: Server, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is made before the router of the proxy, and before the experiment is there."""
    router = litellm.Router(model_list=[models.deployment(arm) for arm in ARMS], num_retries=0, disable_cooldowns=True)
    monkeypatch.setitem(sys.modules, "litellm.proxy.proxy_server", SimpleNamespace(llm_router=router))

    async def main() -> None:
        client = AsyncClient(server.address, server.key, flush_every=0.05)
        routing = ProxyRouting(client, "proxied", model="assistant", arms=ARMS, outcome=measured)
        litellm.logging_callback_manager.add_litellm_callback(routing)  # as the proxy does
        try:
            with pytest.raises(litellm.ServiceUnavailableError, match="there is no experiment 'proxied'"):
                await router.acompletion("assistant", MESSAGES)
            assert not models.calls
            server.call("POST", "/v1/experiments", {**EXPERIMENT, "name": "proxied"})
            answers = await asyncio.gather(*(router.acompletion("assistant", MESSAGES) for _ in range(5)))
            for one in answers:
                headers = await routing.async_post_call_response_headers_hook({}, None, one, request_headers={})
                assert headers == {"x-surefoot-decision": decision_of(one).id}  # type: ignore[union-attr]
            assert await routing.async_post_call_response_headers_hook({}, None, None) is None
        finally:
            await routing.detach()
            await client.close()
        assert len(server.call("GET", "/v1/experiments/proxied/rounds")) == 5

    asyncio.run(main())


def test_litellms_proxy(server: Server, models: Models, tmp_path: Path) -> None:
    """LiteLLM's proxy in a process of its own, with the lines of the page. It needs the extra litellm[proxy]."""
    pytest.importorskip("litellm.proxy.proxy_server", reason="litellm[proxy] is not installed", exc_type=ImportError)
    name = "behind-the-proxy"
    guardrails = [*EXPERIMENT["guardrails"], {"name": "latency miss", "at_most": 0.2}]
    costs = {**EXPERIMENT["baseline_costs"], "latency miss": 0.05}
    experiment = {**EXPERIMENT, "name": name, "guardrails": guardrails, "baseline_costs": costs}
    server.call("POST", "/v1/experiments", experiment)
    (tmp_path / "routing.py").write_text(example_of("python").replace("llm-routing", name))
    deployments = [*(models.deployment(arm) for arm in ARMS), models.deployment("in-house", id="in-house-2")]
    settings = {"model_list": deployments, "litellm_settings": {"callbacks": ["routing.routing"]}}
    (tmp_path / "config.yaml").write_text(json.dumps(settings))  # which is YAML, too
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    key = "sk-" + "0123456789abcdef" * 4
    environment = {"SUREFOOT_ADDRESS": server.address, "SUREFOOT_KEY": server.key, "LITELLM_MASTER_KEY": key}
    command = [str(Path(sys.executable).parent / "litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
    with (tmp_path / "log").open("w") as log:
        proxy = subprocess.Popen(
            [*command, "--port", str(port)], cwd=tmp_path, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    headers = {"Authorization": f"Bearer {key}"}
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30.0) as client:
            wait_for(client, proxy, tmp_path / "log")
            body = {"model": "assistant", "messages": MESSAGES}
            for _ in range(8):
                answer = client.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
                good = answer.json()["choices"][0]["message"]["content"] == "good"
                report = {"outcome": {"quality": float(good)}}
                server.call("PUT", f"/v1/decisions/{answer.headers['x-surefoot-decision']}/feedback", report)
            client.post("/v1/chat/completions", json={**body, "stream": True})
            assert client.post("/v1/completions", json={"model": "assistant", "prompt": "a"}).status_code == 500
            asyncio.run(until(lambda: server.call("GET", f"/v1/experiments/{name}")["rounds"] >= 8))
        assert not differ(models, server.call("GET", f"/v1/experiments/{name}/rounds")) - Counter(
            [(one.arm, one.answered, round(models.cents(one), 9)) for one in models.calls[8:]]  # quality is missing
        )
    finally:
        proxy.terminate()
        proxy.wait(30)


def wait_for(client: httpx2.Client, proxy: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(400):
        try:
            if client.get("/health/liveliness").status_code == 200:
                return
        except httpx2.TransportError:
            assert proxy.poll() is None, log.read_text()
        time.sleep(0.2)
    raise AssertionError("the proxy does not start")
