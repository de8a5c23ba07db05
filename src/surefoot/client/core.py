"""What a client does, step by step, without doing any of it: see `protocol`."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from surefoot.client.fallback import Baselines, Breaker
from surefoot.client.local import Drawer, Moment
from surefoot.client.outbox import Outbox, batched
from surefoot.client.protocol import (
    Answer,
    ArgumentError,
    Decision,
    NoAnswer,
    Send,
    ServiceError,
    Start,
    Steps,
    Stopped,
    Trouble,
    Wait,
    Wake,
    decisions_of,
    pause_before,
    read,
    request,
    text,
)

T = TypeVar("T")

OPERATING_TIMEOUT = 30.0
"""Seconds to wait for what an operator asks for: the service may have to compile, or to learn everything again."""
PATIENCE = 10.0
"""Seconds that a call may wait before its next attempt, if nothing can be served in its place."""
LONGEST_PAUSE = 5.0
"""Seconds between two attempts in the background."""
HURRY = 0.2
LOOK_EVERY = 0.01
POLL = 10.0
REFRESH_EVERY = 0.5
"""Seconds between two strategies: an older one is as safe."""

logger = logging.getLogger("surefoot.client")


class Core:
    """All that the two clients share.

    Parameters
    ----------
    address, key, timeout, retries, baselines, flush_every, local
        As of `Client`.
    """

    def __init__(
        self,
        address: str,
        key: str,
        timeout: float,
        retries: int,
        baselines: Mapping[str, str | Mapping[str, float]] | None,
        flush_every: float,
        local: bool,
    ) -> None:
        if not filled(key):
            raise ArgumentError("key must be text that is not empty")  # never show it
        if not filled(address) or not address.startswith(("http://", "https://")):
            raise ArgumentError(f"address must begin with http:// or https://, got {address!r}")
        for name, seconds in (("timeout", timeout), ("flush_every", flush_every)):
            if not 0.0 < seconds < 1e6:
                raise ArgumentError(f"{name} must be a positive number of seconds, got {seconds!r}")
        check_whole("retries", retries, 0)
        self.address = address.rstrip("/")
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.timeout, self.attempts, self.flush_every, self.local = timeout, retries + 1, flush_every, local
        self.baselines, self.outbox = Baselines(baselines), Outbox()
        self.reset()

    def reset(self) -> None:
        """Begin with nothing under way: after a fork, all of that is the parent's."""
        self.outbox.reset()
        self.breaker = Breaker(self.attempts)
        self.drawers: dict[str, Drawer] = {}
        self.closing = self.hurry = False

    # Calls.

    def call(
        self,
        send: Send,
        shape: Callable[[Any], T],
        attempts: int | None = None,
        patience: float = PATIENCE,
        repeatable: bool = True,
    ) -> Steps[T]:
        """Send a request until it is answered.

        Parameters
        ----------
        repeatable
            Whether to send it again if it may have been carried out.
        """
        self._check_open()
        attempts, why = self.attempts if attempts is None else attempts, ""
        for attempt in range(attempts):
            answer: Answer = yield send
            try:
                return read(answer, shape)
            except Trouble as trouble:
                why = str(trouble)
            if not repeatable and answer.sent and answer.status not in (429, 503):
                why = f"{why}; it may have been carried out, so look before you repeat it"
                break
            if attempt + 1 == attempts or (answer.retry_after or 0.0) > patience:
                break
            yield Wait(pause_before(attempt, answer))
        raise NoAnswer(0, None, f"{self.address} gives no answer: {why}")

    def _is_open(self) -> bool:
        return not self.closing

    def _check_open(self) -> None:
        if self.closing:
            raise ArgumentError("the client must be open, and it was closed")

    def decide(
        self, name: str, n: int | None, arms: Sequence[str] | None, unit: str | None, key: str | None
    ) -> Steps[Decision | list[Decision]]:
        """Decide: by the service, or from its strategy, or else the baseline."""
        self._check_open()
        count = 1 if n is None else check_whole("n", n, 1)
        if key is not None and not (filled(key) and key.isascii() and key.isprintable()):
            raise ArgumentError(f"key must be text of ASCII characters, got {key!r}")
        by_itself = self.local and arms is None and unit is None and key is None
        drawn = self.drawers[name].draw(count) if by_itself and name in self.drawers else None
        if drawn is None:
            attempts, why = self.breaker.attempts(name), f"{self.address} gave no answer a moment ago"
            try:
                if attempts and by_itself:
                    drawn = yield from self._begin_drawing(name, count, attempts)
                elif attempts:
                    drawn = yield from self._ask(name, count, arms, unit, key, attempts)
                self._answered(name, bool(attempts))
            except NoAnswer as error:
                why = str(error)
                if self.breaker.fail(name):
                    logger.warning("the baseline of %s is served: %s", name, why)
            except ServiceError:
                self._answered(name, True)
                raise
            if drawn is None:
                drawn = self.baselines.serve(name, count, arms, why)
        return drawn[0] if n is None else drawn

    def _answered(self, name: str, asked: bool) -> None:
        if asked and self.breaker.succeed(name):
            logger.warning("the service answers again for %s", name)

    def _ask(
        self, name: str, count: int, arms: Sequence[str] | None, unit: str | None, key: str | None, attempts: int
    ) -> Steps[list[Decision]]:
        body = {"count": count, "arms": None if arms is None else list(arms), "unit": unit}
        send = request("POST", f"{path_of(name)}/decisions", self.timeout, body,
                       Idempotency_Key=uuid.uuid4().hex if key is None else key)  # fmt: skip
        drawn = yield from self.call(send, decisions_of(count), attempts, self.timeout)
        yield from self._learn_baseline(name, drawn[-1].epoch)
        return drawn

    def _learn_baseline(self, name: str, epoch: int | None) -> Steps[None]:
        """Ask once in each epoch what to serve when nothing answers, if the key may read it."""
        if not self.baselines.wanted(name, epoch):
            return
        answer = yield request("GET", path_of(name), self.timeout)
        try:
            read(answer, lambda body: self.baselines.learn(name, epoch, body["experiment"]["baseline"]))
        except Trouble:
            return
        except ServiceError:
            self.baselines.learn(name, epoch, None)

    # Operating.

    def create(self, experiment: Any, mode: str, dry_run: bool) -> Steps[dict[str, Any]]:
        """Begin an experiment, or check it."""
        path = f"/v1/experiments?mode={quote(mode, safe='')}&dry_run={str(bool(dry_run)).lower()}"
        return self._operate("POST", path, mapping_of(experiment), repeatable=dry_run)

    def experiments(self) -> Steps[list[dict[str, Any]]]:
        """List experiments."""
        return self._operate("GET", "/v1/experiments", field="experiments")

    def status(self, name: str) -> Steps[dict[str, Any]]:
        """Look at an experiment."""
        return self._operate("GET", path_of(name))

    def change(self, name: str, epoch: int, fields: Mapping[str, Any]) -> Steps[dict[str, Any]]:
        """Begin a new epoch."""
        return self._operate("PATCH", path_of(name), dict(fields), repeatable=False, If_Match=f'"{epoch}"')

    def turn(self, name: str, how: str, reason: str, experiment: Any = None) -> Steps[dict[str, Any]]:
        """Hold, resume or stop an experiment."""
        body = {"reason": reason} | ({} if experiment is None else {"experiment": mapping_of(experiment)})
        return self._operate("POST", f"{path_of(name)}/{how}", body, repeatable=how == "hold")

    def hold_all(self, reason: str) -> Steps[list[str]]:
        """Hold every experiment."""
        return self._operate("POST", "/v1/hold", {"reason": reason}, field="held")

    def cancel(self, id: str, reason: str) -> Steps[None]:
        """Take back a decision."""
        return self._operate("POST", f"{path_to(id)}/cancel", {"reason": reason})

    def _operate(
        self, method: str, path: str, body: Any = None, field: str | None = None, repeatable: bool = True,
        **headers: str,
    ) -> Steps[Any]:  # fmt: skip
        send = request(method, path, max(self.timeout, OPERATING_TIMEOUT), body, **headers)
        return self.call(send, lambda found: found if field is None else found[field], repeatable=repeatable)

    # Feedback.

    def feedback(self, id: str | Decision | None, outcome: Mapping[str, Any]) -> Steps[None]:
        """Take in feedback, to be sent in the background."""
        self._check_open()
        id = id_of(id)
        drawer = self._drawer_of(id)
        full = self.outbox.put(id, outcome, drawer is not None)
        if drawer is not None and id is not None:
            drawer.look_again(id, self.outbox)
        yield Start("deliver")
        if full:
            yield Wake()

    def report(self, id: str | Decision | None, outcome: Mapping[str, Any]) -> Steps[str]:
        """Send feedback at once, or, if the decision was drawn here, as soon as it is logged."""
        id = id_of(id)
        if id is None:
            raise ArgumentError("id must be that of a decision that was logged, got None")
        until = time.monotonic() + PATIENCE
        while (drawer := self._drawer_of(id)) is not None:
            if drawer.is_refused(id):
                raise ServiceError(0, "unlogged", f"decision {id} could not be logged, so it is not reported")
            if time.monotonic() > until:
                raise NoAnswer(0, None, f"decision {id} is not logged yet, so it is not reported")
            yield Wait(LOOK_EVERY)
        send = request("PUT", f"{path_to(id)}/feedback", self.timeout, {"outcome": dict(outcome)})
        return (yield from self.call(send, lambda body: text(body["status"])))

    def _drawer_of(self, id: str | None) -> Drawer | None:
        """Where a decision waits to be logged, or was refused."""
        for drawer in self.drawers.values():
            if id is not None and (drawer.is_unlogged(id) or drawer.is_refused(id)):
                return drawer
        return None

    # In the background.

    def work(self, start: Start) -> Steps[None]:
        """The steps of a piece of work."""
        match start:
            case Start("follow", name):
                return self.follow(name)
            case Start("log_drawn"):
                return self.log_drawn()
        return self.deliver()

    def deliver(self) -> Steps[None]:
        """Send feedback in batches, for as long as the client is open."""
        failures, news = 0, True
        pause = self.flush_every
        while self._is_open():
            yield Wait(pause, light=True)
            pause = min(self.flush_every, HURRY) if self.hurry else self.flush_every
            while self._is_open() and (batch := self.outbox.batch()):
                answer = yield batched("/v1/feedback", batch, max(self.timeout, PATIENCE))
                try:
                    self.outbox.settle(batch, answer)
                    failures, news = 0, True
                except Trouble as trouble:
                    if news:
                        logger.warning("feedback waits, and is sent again: %s", trouble)
                    failures, news = failures + 1, False
                    pause = self._back_off(failures, answer)
                    break

    def _back_off(self, failures: int, answer: Answer) -> float:
        pause = min(pause_before(failures, answer), LONGEST_PAUSE)
        return min(pause, HURRY) if self.hurry else max(pause, self.flush_every)

    def flush(self, timeout: float | None) -> Steps[bool]:
        """Wait until everything taken in so far is sent."""
        mark, until = self.outbox.mark(), time.monotonic() + (float("inf") if timeout is None else timeout)
        self.hurry = True
        try:
            if self.outbox.waiting:
                yield Start("deliver")
                yield Wake()  # feedback only: decisions are logged by the timer
            while not self._flushed(mark):
                if time.monotonic() >= until:
                    return False
                yield Wait(LOOK_EVERY)
            return True
        finally:
            self.hurry = False

    def _flushed(self, mark: int) -> bool:
        return self.outbox.sent(mark) and not any(drawer.unlogged for drawer in self.drawers.values())

    def close(self, timeout: float | None) -> Steps[None]:
        """Flush, then give up what is left."""
        if self.closing:
            return
        flushed = yield from self.flush(timeout)
        self.closing = True
        if not flushed:
            left = sum(drawer.unlogged for drawer in self.drawers.values())
            if left:
                logger.warning("%d decisions were not logged before the client was closed", left)
            self.outbox.give_up()
        yield Wake()

    # Drawing.

    def _begin_drawing(self, name: str, count: int, attempts: int) -> Steps[list[Decision] | None]:
        """Get a strategy and ids, keep them fresh from now on, and draw."""
        drawer = self.drawers.setdefault(name, Drawer())
        for attempt in range(attempts):
            try:
                epoch = yield from self._refresh(name, drawer, 0.0)
                break
            except Trouble as trouble:
                if attempt + 1 == attempts:
                    raise NoAnswer(0, None, f"{self.address} gives no answer: {trouble}") from None
                yield Wait(min(pause_before(attempt, trouble.answer), self.timeout))
        yield Start("follow", name)
        yield Start("log_drawn")
        yield from self._learn_baseline(name, epoch)
        return drawer.draw(count)

    def _refresh(self, name: str, drawer: Drawer, wait: float) -> Steps[int]:
        """Get the strategy, and ids if need be; returns the epoch."""
        headers = {} if drawer.tag is None else {"If-None-Match": drawer.tag}
        query = f"?wait={wait:g}" if headers and wait else ""
        sent = Moment.now()
        answer = yield Send("GET", f"{path_of(name)}/strategy{query}", None, headers, self.timeout + wait)
        epoch = drawer.take(answer, sent)
        if drawer.lacks_block(epoch):
            drawer.take_block((yield request("POST", f"{path_of(name)}/blocks", self.timeout, {})), epoch)
        return epoch

    def follow(self, name: str) -> Steps[None]:
        """Keep a strategy fresh, for as long as the client is open."""
        drawer, failures = self.drawers[name], 0
        while self._is_open():
            pause = REFRESH_EVERY
            try:
                epoch = yield from self._refresh(name, drawer, POLL)
                yield from self._learn_baseline(name, epoch)
                failures = 0
            except Stopped as error:
                drawer.stopped = error
                return
            except (Trouble, ServiceError) as trouble:
                if failures == 0:
                    logger.warning("the strategy of %s is not renewed: %s", name, trouble)
                failures += 1
                answer = trouble.answer if isinstance(trouble, Trouble) else None
                pause = max(REFRESH_EVERY, min(pause_before(failures, answer), LONGEST_PAUSE))
            yield Wait(pause)

    def log_drawn(self) -> Steps[None]:
        """Log drawn decisions, in their order, for as long as the client is open.

        A timer sets the pace, and nothing else: see `Drawer`.
        """
        failures = 0
        while self._is_open():
            yield Wait(self.flush_every)
            for name, drawer in list(self.drawers.items()):
                while self._is_open() and (batch := drawer.batch()):
                    answer = yield batched(f"{path_of(name)}/drawn", batch, max(self.timeout, PATIENCE))
                    try:
                        drawer.settle(batch, answer, self.outbox)
                        failures = 0
                    except Trouble as trouble:
                        if failures == 0:
                            logger.warning("decisions of %s wait to be logged: %s", name, trouble)
                        failures += 1
                        yield Wait(min(pause_before(failures, answer), LONGEST_PAUSE))
                        break


def filled(value: Any) -> bool:
    """Whether a value is text that is not empty."""
    return isinstance(value, str) and bool(value.strip())


def check_whole(name: str, value: Any, least: int) -> int:
    """Return a whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name} must be a whole number, {least} or more, got {value!r}")
    return value


def path_of(name: str) -> str:
    """The path of an experiment."""
    if not filled(name):
        raise ArgumentError(f"name must be the name of an experiment, got {name!r}")
    return f"/v1/experiments/{quote(name, safe='')}"


def path_to(id: str) -> str:
    """The path of a decision."""
    if not filled(id):
        raise ArgumentError(f"id must be the id of a decision, got {id!r}")
    return f"/v1/decisions/{quote(id, safe='')}"


def id_of(id: str | Decision | None) -> str | None:
    """The id of a decision; None if it was not logged."""
    if isinstance(id, Decision):
        return id.id if id.logged else None
    return id


def mapping_of(experiment: Any) -> dict[str, Any]:
    """An experiment as JSON-able data; an `sf.Experiment` will do, too."""
    return dict(experiment.to_dict() if hasattr(experiment, "to_dict") else experiment)
