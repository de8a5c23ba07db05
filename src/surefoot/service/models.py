"""The shapes of requests and answers. Parsing is strict: no NaN, no text for a number, no unknown or repeated key."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from surefoot.experiments.experiment import Experiment
from surefoot.service.problems import Problem, pointer_of

T = TypeVar("T")

MOST_ARMS, MOST_GUARDRAILS, MOST_DECISIONS, MOST_ITEMS = 1_000, 32, 100, 1_000

Value = float | bool
Outcome = dict[str, Value]
Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\u0000]*[^\u0000\s][^\u0000]*$")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Arms = Annotated[list[str], Meta(min_length=1, max_length=MOST_ARMS)]


class Body(Struct, forbid_unknown_fields=True):
    """A request."""


# Experiments.


class ObjectiveBody(Body):
    """What to make large or small: exactly one of `maximise` and `minimise`, and the range of its values."""

    maximise: str | UnsetType = UNSET
    minimise: str | UnsetType = UNSET
    low: float = 0.0
    high: float = 1.0


class GuardrailBody(Body):
    """A limit on a mean, in natural units: exactly one of `at_most` and `at_least`."""

    name: str
    at_most: float | UnsetType = UNSET
    at_least: float | UnsetType = UNSET
    low: float = 0.0
    high: float = 1.0
    unit: str | UnsetType | None = UNSET


Guardrails = Annotated[list[GuardrailBody], Meta(max_length=MOST_GUARDRAILS)]


class ExperimentBody(Body):
    """What is to be decided, what must hold, and what is known to be safe."""

    name: Name
    arms: Arms
    objective: ObjectiveBody
    guardrails: Guardrails
    baseline: str | dict[str, float]
    timeout: float
    baseline_costs: dict[str, float] | None = None
    policy: str = "solb"
    options: dict[str, Any] = {}
    delta: float = 0.05
    horizon: int | None = None
    margin: float = 0.1
    alarm_every: float = 1e6


class ChangeBody(Body):
    """What changes in the experiment, and why. Whatever is absent stays as it is."""

    reason: Text = "changed over HTTP"
    keep: bool = True
    arms: Arms | UnsetType = UNSET
    objective: ObjectiveBody | UnsetType = UNSET
    guardrails: Guardrails | UnsetType = UNSET
    baseline: str | dict[str, float] | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    baseline_costs: dict[str, float] | UnsetType | None = UNSET
    policy: str | UnsetType = UNSET
    options: dict[str, Any] | UnsetType = UNSET
    delta: float | UnsetType = UNSET
    horizon: int | UnsetType | None = UNSET
    margin: float | UnsetType = UNSET
    alarm_every: float | UnsetType = UNSET


class Estimate(Struct):
    """What is known of the mean of a guardrail for one arm, in natural units."""

    count: int
    mean: float | None
    lower: float
    upper: float


class GuardrailStatus(Struct):
    """A guardrail: its limit, what is known of each arm, and the worst that the strategy can cost at the bounds."""

    name: str
    limit: float
    arms: dict[str, Estimate]
    baseline: Estimate | None
    bound: float | None


class Alarm(Struct):
    """What the watch found. If it `holds`, the baseline is served until the experiment is resumed."""

    kind: str
    guardrail: str | None
    arm: str | None
    round: int
    message: str
    holds: bool


class Alarms(Struct):
    """All alarms of an experiment, oldest first."""

    alarms: list[Alarm]


State = Literal["measuring", "running", "held", "stopped"]


class Watched(Struct):
    """How near a guardrail is to an alarm: 0 if nothing speaks against it, 1 at the alarm."""

    what: Literal["served", "baseline"]
    guardrail: str
    level: float


class Status(Struct):
    """The status of an experiment; `experiment` is what was asked for."""

    name: str
    state: State
    reason: str | None
    shadow: bool
    epoch: int
    rounds: int
    decisions: int
    pending: int
    strategy: dict[str, float]
    safe_weight: float
    lost: dict[str, float]
    alarms: list[Alarm]
    guardrails: list[GuardrailStatus]
    delta_spent: float
    settled: dict[str, int]
    waiting: dict[str, int]
    behind: dict[str, int]
    watch: list[Watched]
    experiment: dict[str, Any]


class Summary(Struct):
    """An experiment in a list."""

    name: str
    state: State
    epoch: int
    rounds: int
    pending: int
    alarms: int


class Experiments(Struct):
    """The experiments that the key may read."""

    experiments: list[Summary]


class Forecast(Struct):
    """When the guardrails loosen and what they cost until then: an estimate, that of `surefoot forecast`.

    It takes costs to be coin flips (deviation 0.5) and the baseline to lose `gap` a round more than the best strategy.
    """

    margin: float
    threshold: float
    deviation: float
    gap: float
    loose_after: float
    safe_rounds: float
    regret: float
    break_even: float


class DryRun(Struct):
    """A check of an experiment: how it is understood, and a forecast where the policy is "solb" and has guardrails."""

    experiment: dict[str, Any]
    forecast: Forecast | None


class Changed(Struct):
    """The new epoch, and whether what was learnt before is kept."""

    epoch: int
    kept: bool


# Decisions and feedback.


class DecideBody(Body):
    """How many decisions to make, among which arms, for whom."""

    count: Annotated[int, Meta(ge=1, le=MOST_DECISIONS)] = 1
    arms: Arms | None = None
    unit: Text | None = None


class Decision(Struct):
    """A decision: serve `arm`, and report what happens under `id` before `due` (seconds since 1970).

    In shadow mode, `would` is the arm that the policy would have served.
    """

    id: str
    arm: str
    propensity: float
    epoch: int
    mode: Literal["live", "safe", "shadow"]
    due: float
    would: str | UnsetType = UNSET


class Decisions(Struct):
    """The decisions."""

    decisions: list[Decision]


class FeedbackBody(Body):
    """What a decision led to, all of it or a part, in natural units."""

    outcome: Outcome


class FeedbackItem(Body):
    """Feedback on one of many decisions."""

    id: str
    outcome: Outcome


class FeedbackBatch(Body):
    """Feedback on many decisions."""

    items: Annotated[list[FeedbackItem], Meta(min_length=1, max_length=MOST_ITEMS)]


class Taken(Struct):
    """How feedback was taken."""

    status: Literal["accepted", "partial", "replayed", "late"]


class ProblemBody(Struct):
    """An error, after RFC 9457: `detail` is one sentence, `pointer` or `parameter` says what it is about."""

    type: str
    title: str
    status: int
    detail: str
    pointer: str | UnsetType = UNSET
    parameter: str | UnsetType = UNSET


class TakenItem(Struct):
    """How the feedback on one of many decisions was taken, or what is wrong with it."""

    id: str
    status: Literal["accepted", "partial", "replayed", "late"] | UnsetType = UNSET
    problem: ProblemBody | UnsetType = UNSET


class TakenItems(Struct):
    """How the feedback on many decisions was taken, in their order."""

    items: list[TakenItem]


class Observation(Body):
    """An outcome of an arm that was chosen elsewhere."""

    arm: str
    outcome: Outcome


class Observations(Body):
    """Outcomes of arms that were chosen elsewhere."""

    items: Annotated[list[Observation], Meta(min_length=1, max_length=MOST_ITEMS)]
    reason: Text


class Counted(Struct):
    """How many items were taken."""

    count: int


class Strategy(Struct):
    """A strategy to draw from until `lease` (seconds since 1970), or for `lease_seconds`, in the order of the arms."""

    strategy: dict[str, float]
    safe_weight: float
    epoch: int
    mode: Literal["live", "safe", "shadow"]
    rounds: int
    lease: float
    lease_seconds: float


class Nothing(Body):
    """An empty object."""


class Block(Struct):
    """Ids for decisions that the caller draws: `prefix-block.0`, `prefix-block.1`, and so on up to 2^32 - 1.

    Feedback is due `timeout` seconds after a decision.
    """

    prefix: str
    block: int
    timeout: float


class DrawnItem(Body):
    """A decision that the caller has drawn from the strategy."""

    id: str
    arm: str
    propensity: float
    safe_weight: float
    mode: Literal["live", "safe", "shadow"]
    epoch: int
    at: float
    due: float


class DrawnBody(Body):
    """Decisions that the caller has drawn, in their order. Log them before their outcomes are known."""

    items: Annotated[list[DrawnItem], Meta(min_length=1, max_length=MOST_ITEMS)]


class LoggedItem(Struct):
    """What became of a decision that the caller has drawn."""

    id: str
    status: Literal["logged", "replayed"] | UnsetType = UNSET
    problem: ProblemBody | UnsetType = UNSET


class LoggedItems(Struct):
    """What became of decisions that the caller has drawn, in their order."""

    items: list[LoggedItem]


# Operating.


class ReasonBody(Body):
    """Why."""

    reason: Text


class SwitchBody(Body):
    """Begin or end shadow mode."""

    mode: Literal["live", "shadow"]
    reason: Text


class ResumeBody(Body):
    """Why; and, after an alarm, an experiment to go on with."""

    reason: Text
    experiment: ExperimentBody | None = None


class Done(Struct):
    """The state that the experiment is in now."""

    name: str
    state: State
    epoch: int


class Held(Struct):
    """The experiments that are held now."""

    held: list[str]


class AuditEntry(Struct):
    """Who did what, when and why."""

    id: int
    at: float
    who: str
    action: str
    experiment: str | None
    reason: str | None
    detail: dict[str, Any]


class Audit(Struct):
    """Entries of the audit, oldest first."""

    entries: list[AuditEntry]


class Round(Struct):
    """A settled decision, or an observation (without an id), as it is learnt; losses and costs are in [0, 1]."""

    seq: int
    id: str | None
    epoch: int
    arm: str
    propensity: float | None
    source: Literal["feedback", "timeout", "observation"]
    loss: float | None
    costs: dict[str, float]
    at: float


class Health(Struct):
    """Whether the service works."""

    status: str


class EvaluationBody(Struct):
    """OFREP: the context of an evaluation. `targetingKey` is the unit; other keys are ignored."""

    context: dict[str, Any] = {}


class Evaluation(Struct):
    """OFREP: the arm to serve. `metadata` has the id under which to report feedback."""

    key: str
    value: str
    variant: str
    reason: Literal["SPLIT", "DEFAULT"]
    metadata: dict[str, str | float | bool]


class EvaluationFailure(Struct):
    """OFREP: why there is no answer."""

    key: str
    errorCode: str  # noqa: N815 (the name in the protocol)
    errorDetails: str  # noqa: N815


def parse(kind: type[T], body: bytes) -> T:
    """Read a request; what is wrong with it is a problem with a pointer."""
    text = body or b"{}"
    try:
        if text != b"{}":  # what most decisions ask for
            STRICT.decode(text.decode())
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        sentence, _, path = str(error).partition(" - at `$")
        raise Problem(422, "invalid", sentence, pointer=pointer_of(path.rstrip("`")) or None) from None
    except (ValueError, RecursionError) as error:  # of which those of both readers are
        raise Problem(400, "malformed", f"the body is not JSON: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise Problem(400, "malformed", f"the key {repeated!r} is there twice")
    return found


def _never(constant: str) -> Any:
    raise Problem(400, "malformed", f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Problem(400, "malformed", f"{text[:30]} is too large for a number")
    return number


STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_never, parse_float=_finite)
"""Made once: `json.loads` with hooks makes one for each call, which takes longer than to read a small request."""


def experiment_of(body: ExperimentBody) -> Experiment:
    """The experiment that a request describes."""
    return Experiment.from_dict(msgspec.to_builtins(body))


def changes_of(body: ChangeBody) -> dict[str, Any]:
    """The fields of the experiment that a request changes."""
    return {name: value for name, value in msgspec.to_builtins(body).items() if name not in ("reason", "keep")}
