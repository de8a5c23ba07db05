"""What travels between a client and the service, without sending it: requests, answers, errors."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

URN = "urn:surefoot:"
FIRST_PAUSE = 0.05
JITTER = 0.1


class Decision(NamedTuple):
    """Serve `arm`, and report what happens under `id`.

    If it is not `logged`, the service knows nothing of it: it is the baseline, served because nothing answered.

    Examples
    --------
    >>> Decision("5ca1ab1e-7", "balanced", 0.31, 0, "live", 1790000000.0).logged
    True
    """

    id: str | None
    arm: str
    propensity: float
    epoch: int | None
    mode: str  # "live", "safe" (the baseline) or "shadow" (the baseline, while the policy only watches)
    due: float | None  # when feedback must have come, in seconds since 1970
    would: str | None = None  # in shadow mode: the arm that the policy would have served
    logged: bool = True


class ArgumentError(ValueError):
    """An argument breaks a rule."""


class ServiceError(Exception):
    """The service refused a request.

    Parameters
    ----------
    status
        The HTTP status; 0 if nothing answered.
    type
        The kind of problem, such as "conflict" (see the table of errors in docs/service.md); None if the answer does
        not come from the service.
    detail
        The sentence.
    pointer
        Which value of the body, or which header or query parameter, it is about.
    """

    def __init__(self, status: int, type: str | None, detail: str, pointer: str | None = None) -> None:
        super().__init__(status, type, detail, pointer)
        self.status, self.type, self.detail, self.pointer = status, type, detail, pointer

    def __str__(self) -> str:
        return self.detail if self.pointer is None else f"{self.detail} (at {self.pointer})"


class Stopped(ServiceError):
    """The experiment was stopped: serve your own default."""


class NoAnswer(ServiceError):
    """The service does not answer, and nothing can be served in its place."""


# What a step asks for. The logic of the client is written once, as generators that yield these and receive what comes
# of them; the two clients only carry them out, one with threads, the other with asyncio.


class Send(NamedTuple):
    """Send a request; its `Answer` is received."""

    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]
    timeout: float


class Wait(NamedTuple):
    """Wait for so many seconds, or only until `Wake` if it is `light`."""

    seconds: float
    light: bool = False


class Wake(NamedTuple):
    """End the light sleep of the work in the background."""


class Start(NamedTuple):
    """Start a piece of work in the background, unless it runs already."""

    work: str
    name: str = ""


Step: TypeAlias = Send | Wait | Wake | Start
Steps: TypeAlias = Generator[Step, Any, T]


class Answer(NamedTuple):
    """What came back; the status is 0 if nothing did."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    why: str = ""  # nothing came back
    sent: bool = True  # whether the request may have reached the service

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next attempt, if the answer tells."""
        try:
            seconds = float(self.headers.get("retry-after", "nan"))
        except ValueError:  # a date
            return None
        return seconds if 0.0 <= seconds < math.inf else None


class Trouble(Exception):
    """No answer that can be used; the request may be sent again."""

    def __init__(self, why: str, answer: Answer | None = None) -> None:
        super().__init__(why)
        self.answer = answer


def request(method: str, path: str, timeout: float, body: Any = None, **headers: str) -> Send:
    """A request with a JSON body; `headers` are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Send(method, path, None if body is None else encoded(body), named, timeout)


def encoded(body: Any) -> bytes:
    """JSON; what JSON cannot hold is refused in a sentence."""
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"values must be text, finite numbers or booleans: {error}") from None


def read(answer: Answer, shape: Callable[[Any], T]) -> T:
    """What an answer says.

    Raises
    ------
    Trouble
        Nothing came, the service is not able to answer, or the answer makes no sense: try again.
    ServiceError
        The request was refused, and will be again.
    """
    if answer.status == 0:
        raise Trouble(answer.why, answer)
    if 200 <= answer.status < 300:
        try:
            return shape(json.loads(answer.content) if answer.content else None)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise Trouble(f"the answer {answer.status} is not what the service would say", answer) from None
    error = error_of(answer)
    if answer.status == 429 or answer.status >= 500:
        raise Trouble(f"the service answers {answer.status}: {error.detail}", answer)
    raise error


def error_of(answer: Answer) -> ServiceError:
    """The error in an answer; one without a problem in its body does not come from the service."""
    try:
        problem = json.loads(answer.content)
        kind, detail = problem["type"], str(problem["detail"])
        if not kind.startswith(URN):
            raise TypeError
        pointer = problem.get("pointer") or problem.get("parameter")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return ServiceError(answer.status, None, f"the answer {answer.status} does not come from the service")
    name = kind.removeprefix(URN)
    error = Stopped if name == "stopped" else ServiceError
    return error(answer.status, name, detail, None if pointer is None else str(pointer))


def pause_before(attempt: int, answer: Answer | None) -> float:
    """Seconds to wait before the next attempt: what the service asks for, else longer each time.

    Clients that failed together must not come back together, hence the jitter.
    """
    after = None if answer is None else answer.retry_after
    if after is not None:
        return after * random.uniform(1.0, 1.0 + JITTER)
    return FIRST_PAUSE * 2.0 ** min(attempt, 30) * random.uniform(0.5, 1.5)


UNLOGGED = "unlogged-"
"""How the id of a decision begins that the service made without a log."""


def decisions_of(count: int) -> Callable[[Any], list[Decision]]:
    """How to read that many decisions."""

    def shape(body: Any) -> list[Decision]:
        found = [
            Decision(
                text(one["id"]), text(one["arm"]), share(one["propensity"]), int(one["epoch"]), text(one["mode"]),
                float(one["due"]), one.get("would"),
            )
            for one in body["decisions"]
        ]  # fmt: skip
        found = [one._replace(id=None, logged=False) if str(one.id).startswith(UNLOGGED) else one for one in found]
        if len(found) != count:
            raise TypeError
        return found

    return shape


def text(value: Any) -> str:
    """The value if it is text that is not empty."""
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def share(value: Any) -> float:
    """The value if it is a probability."""
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise TypeError
    return number


def strategy_of(value: Any) -> dict[str, float]:
    """The value if it is a strategy: shares of arms that sum to 1."""
    shares = {text(arm): share(p) for arm, p in value.items()}
    if abs(math.fsum(shares.values()) - 1.0) > 1e-6:
        raise TypeError
    return shares


def drawn_from(shares: Mapping[str, float]) -> str:
    """An arm, drawn from a strategy; by the system's generator, so that processes after a fork draw on their own."""
    u, arm = random.SystemRandom().random(), ""
    for name, p in shares.items():
        if p > 0.0:
            arm, u = name, u - p
            if u < 0.0:
                break
    return arm
