"""The built-in scenarios. Each is a function of its horizon and a few parameters; `make` builds one by its id.

A change of behaviour is a new id.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.environments.costs import Bernoulli as CoinCosts
from surefoot.environments.costs import Beta, Costs
from surefoot.environments.costs import Drifting as DriftingCosts
from surefoot.environments.costs import Switching as SwitchingCosts
from surefoot.environments.feedback import Feedback
from surefoot.environments.losses import Bernoulli, Drifting, OfSuccess, PunishProposal, RaiseMostPlayed, Switching
from surefoot.environments.lower_bound import BELOW_HALF, MOST_ARMS, lower_bound
from surefoot.environments.scenario import Scenario
from surefoot.environments.tables import cost_means, read_columns
from surefoot.problem import HORIZON, Problem, SafeStrategy
from surefoot.rules import SHARE, Floats, Range, RuleError, choice, hint, number, numbers

__all__ = ["SCENARIOS", "Table", "make", "parameters"]

# Five arms, one guardrail: the cheaper in loss, the dearer in cost. The best safe strategy mixes two arms.
MEANS = np.array([0.8, 0.5, 0.6, 0.2, 0.1])
COSTS = np.array([[0.2, 0.3, 0.5, 0.7, 0.9]])


def five_arms(horizon: int, delta: float) -> Problem:
    """The problem of the plain scenarios: arm 0 is known to be safe, by 0.3."""
    return Problem(5, [0.5], horizon, delta, SafeStrategy(np.eye(5)[0], [0.2]))


def stochastic(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """Losses and costs are coin flips that never change; the best safe strategy mixes two arms."""
    return Scenario("stochastic-v1", five_arms(horizon, delta), Bernoulli(MEANS), CoinCosts(COSTS))


def three_arms(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """Three arms, so that strategies are points in a triangle: a risky one, a middling one and a safe one."""
    problem = Problem(3, [0.5], horizon, delta, SafeStrategy([0.0, 0.0, 1.0], [0.1]))
    costs = CoinCosts([[0.9, 0.4, 0.1]])
    return Scenario("three-arms-v1", problem, Bernoulli([0.1, 0.5, 0.8]), costs, arms=("risky", "middling", "safe"))


def switching(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """The losses of the arms change places twice, after a third and two thirds of the rounds."""
    problem = five_arms(horizon, delta)
    means = [MEANS, MEANS[[0, 3, 2, 1, 4]], MEANS[[0, 2, 3, 4, 1]]]
    at = [problem.rounds // 3, 2 * problem.rounds // 3]
    return Scenario("switching-v1", problem, Switching(means, at), CoinCosts(COSTS))


def drifting(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """Good arms slowly turn bad, and bad ones good."""
    losses = Drifting(MEANS, MEANS[[0, 3, 1, 4, 2]])
    return Scenario("drifting-v1", five_arms(horizon, delta), losses, CoinCosts(COSTS))


def small_loss(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """The best safe strategy hardly loses anything: 1 % of the rounds. Small-loss regret shows here."""
    return Scenario(
        "small-loss-v1", five_arms(horizon, delta), Bernoulli([0.5, 0.01, 0.3, 0.01, 0.01]), CoinCosts(COSTS)
    )


def adaptive(horizon: int = 20_000, delta: float = 0.05) -> Scenario:
    """An adversary raises the loss of whichever arm was played most so far."""
    return Scenario("adaptive-v1", five_arms(horizon, delta), RaiseMostPlayed(MEANS, 0.4), CoinCosts(COSTS))


def adaptive_proposal(horizon: int = 20_000, delta: float = 0.05) -> Scenario:
    """An adversary raises the loss of whichever arm is about to be played most."""
    return Scenario("adaptive-proposal-v1", five_arms(horizon, delta), PunishProposal(MEANS, 0.4), CoinCosts(COSTS))


def tight_margin(horizon: int = 50_000, delta: float = 0.05, margin: float = 0.02) -> Scenario:
    """The safe strategy is safe by a hair: `margin` below the threshold."""
    costs = COSTS.copy()
    costs[0, 0] = 0.5 - number("margin", margin, BELOW_HALF)
    problem = Problem(5, [0.5], horizon, delta, SafeStrategy(np.eye(5)[0], [costs[0, 0]]))
    return Scenario("tight-margin-v1", problem, Bernoulli(MEANS), CoinCosts(costs))


def interior_safe(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """No single arm is safe under both guardrails; only mixtures are, and the safe strategy is one."""
    costs = np.array([[0.1, 0.7, 0.5, 0.8], [0.7, 0.1, 0.6, 0.4]])
    strategy = np.array([0.5, 0.5, 0.0, 0.0])
    problem = Problem(4, [0.55, 0.55], horizon, delta, SafeStrategy(strategy, costs @ strategy))
    return Scenario("interior-safe-v1", problem, Bernoulli([0.6, 0.7, 0.3, 0.2]), CoinCosts(costs))


def many_arms(horizon: int = 50_000, delta: float = 0.05, n_arms: int = 100) -> Scenario:
    """A hundred arms on a circle of loss and cost, one of them known to be safe."""
    n_arms = number("n_arms", n_arms, Range(2, MOST_ARMS, whole=True))
    turn = np.pi / 4 + np.linspace(0.0, 2 * np.pi, n_arms, endpoint=False)
    losses, costs = 0.5 + 0.4 * np.cos(turn), 0.5 - 0.4 * np.sin(turn)
    safest = int(costs.argmin())
    safe = SafeStrategy(np.eye(n_arms)[safest], [costs[safest]])
    return Scenario(
        "many-arms-v1", Problem(n_arms, [0.5], horizon, delta, safe), Bernoulli(losses), CoinCosts(costs[None, :])
    )


def many_constraints(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """Ten arms under twelve guardrails; costs go together across guardrails."""
    arms, rows = np.arange(10), np.arange(12)[:, None]
    costs = 0.35 + 0.3 * np.cos(1.7 * rows + 2.3 * arms)
    costs[:, 0] = 0.15
    losses = 0.3 + 0.25 * np.sin(1.3 * arms)
    losses[0] = 0.9
    problem = Problem(10, [0.5] * 12, horizon, delta, SafeStrategy(np.eye(10)[0], [0.15] * 12))
    return Scenario("many-constraints-v1", problem, Bernoulli(losses), CoinCosts(costs, correlation=0.5))


def llm_routing(horizon: int = 200_000, delta: float = 0.05) -> Scenario:
    """Route each request to one of five language models.

    The loss is how far an answer falls short in quality. Guardrails, on average over requests: at most 0.40 cents of
    spend, 20 % that miss the latency objective, 20 % refused. The model run in-house is known to be safe, and is the
    weakest. After 40 % of the requests the balanced model is updated and gets better; after 70 % the flagship gets
    worse.
    """
    quality = np.array([[0.90, 0.82, 0.70, 0.55, 0.45], [0.90, 0.82, 0.80, 0.55, 0.45], [0.90, 0.68, 0.80, 0.55, 0.45]])
    costs = np.array([
        [0.85, 0.50, 0.28, 0.08, 0.04],  # spend, cents
        [0.40, 0.16, 0.10, 0.04, 0.05],  # latency objective missed
        [0.04, 0.05, 0.12, 0.25, 0.03],  # refused
    ])  # fmt: skip
    problem = Problem(5, [0.40, 0.20, 0.20], horizon, delta, SafeStrategy(np.eye(5)[4], costs[:, 4]))
    return Scenario(
        "llm-routing-v1",
        problem,
        Switching(1.0 - quality, [int(0.4 * problem.rounds), int(0.7 * problem.rounds)]),
        Beta(costs, concentration=[30.0, 0.0, 0.0]),
        arms=("reasoning", "flagship", "balanced", "fast", "in-house"),
        guardrails=("spend", "latency misses", "refusals"),
    )


def dose_finding(horizon: int = 50_000, delta: float = 0.05) -> Scenario:
    """Choose one of six doses for each patient of a long-running programme.

    The loss is a treatment without effect; the guardrail is toxicity, at most 30 %. The lowest dose is known to be
    safe. Effect rises with the dose and levels off; toxicity rises ever faster.
    """
    efficacy = np.array([0.15, 0.30, 0.46, 0.58, 0.65, 0.68])
    toxicity = np.array([[0.04, 0.08, 0.16, 0.28, 0.42, 0.60]])
    problem = Problem(6, [0.30], horizon, delta, SafeStrategy(np.eye(6)[0], [0.04]))
    doses = tuple(f"{dose} mg" for dose in (5, 10, 20, 40, 60, 80))
    return Scenario(
        "dose-finding-v1", problem, Bernoulli(1.0 - efficacy), CoinCosts(toxicity), arms=doses, guardrails=("toxicity",)
    )


def tempting(
    id: str, limit: float, costs: Costs, horizon: int, delta: float, feedback: Feedback | None = None
) -> Scenario:
    """The last arm is known to be safe, and all others lose less."""
    n_arms = costs.means.shape[1]
    safe = SafeStrategy(np.eye(n_arms)[-1], costs.means[:, -1])
    losses = Bernoulli(np.append(np.full(n_arms - 1, 0.2), 0.6))
    return Scenario(id, Problem(n_arms, [limit], horizon, delta, safe), losses, costs, feedback=feedback)


def late_misses(horizon: int = 20_000, delta: float = 0.05, handling: str = "live") -> Scenario:
    """Bad outcomes are reported 100 rounds late and good ones at once, as where an answer misses its deadline."""
    feedback = Feedback(bad={"delay": 100}, handling=handling)
    return tempting("late-misses-v1", 0.3, CoinCosts([[0.5, 0.1]]), horizon, delta, feedback)


def lost_misses(horizon: int = 20_000, delta: float = 0.05, handling: str = "live") -> Scenario:
    """The feedback on two of five bad outcomes never arrives; decisions time out after 100 rounds."""
    feedback = Feedback(bad={"lost": 0.4}, timeout=100, handling=handling)
    return tempting("lost-misses-v1", 0.3, CoinCosts([[0.5, 0.1]]), horizon, delta, feedback)


def repeated(horizon: int = 20_000, delta: float = 0.05, handling: str = "live") -> Scenario:
    """The same feedback arrives five times."""
    feedback = Feedback(repeated=4, handling=handling)
    return tempting("repeated-v1", 0.3, CoinCosts([[0.35, 0.35, 0.35, 0.35, 0.1]]), horizon, delta, feedback)


def jump(horizon: int = 20_000, delta: float = 0.05) -> Scenario:
    """After half of the rounds the cost of the better arm jumps from 0.10 to 0.45; its limit is 0.20."""
    costs = SwitchingCosts([[[0.1, 0.05]], [[0.45, 0.05]]], number("horizon", horizon, HORIZON) // 2)
    return tempting("jump-v1", 0.2, costs, horizon, delta)


def drifting_costs(horizon: int = 20_000, delta: float = 0.05) -> Scenario:
    """The cost of the better arm slowly rises from 0.10 to 0.45; its limit is 0.20."""
    return tempting("drifting-costs-v1", 0.2, DriftingCosts([[0.1, 0.05]], [[0.45, 0.05]]), horizon, delta)


REHEARSALS: dict[str, Callable[..., Scenario]] = {
    "late-misses-v1": late_misses,
    "lost-misses-v1": lost_misses,
    "repeated-v1": repeated,
    "jump-v1": jump,
    "drifting-costs-v1": drifting_costs,
}
"""Scenarios that break what policies assume: feedback is late, lost or repeated, or costs change."""

SCENARIOS: dict[str, Callable[..., Scenario]] = {
    "stochastic-v1": stochastic,
    "three-arms-v1": three_arms,
    "switching-v1": switching,
    "drifting-v1": drifting,
    "small-loss-v1": small_loss,
    "adaptive-v1": adaptive,
    "adaptive-proposal-v1": adaptive_proposal,
    "lower-bound-v1": lower_bound,
    "tight-margin-v1": tight_margin,
    "interior-safe-v1": interior_safe,
    "many-arms-v1": many_arms,
    "many-constraints-v1": many_constraints,
    "llm-routing-v1": llm_routing,
    "dose-finding-v1": dose_finding,
    **REHEARSALS,
}
"""Every built-in scenario, by id."""


def parameters(id: str) -> dict[str, Any]:
    """The parameters of a built-in scenario with their defaults."""
    signature = inspect.signature(SCENARIOS[choice("id", id, tuple(SCENARIOS))])
    return {name: parameter.default for name, parameter in signature.parameters.items()}


def about(id: str) -> str:
    """What a built-in scenario is, in words."""
    text = inspect.getdoc(SCENARIOS[choice("id", id, tuple(SCENARIOS))]) or ""
    return " ".join(text.split("Parameters\n")[0].replace("`", "").split())


def make(id: str, **options: Any) -> Scenario:
    """A built-in scenario, with its parameters where they are not the default ones.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.scenarios.make("lower-bound-v1", instance=1, horizon=5_000).problem.thresholds
    array([0.5])
    >>> sf.scenarios.make("jump-v1", horzon=5_000)
    Traceback (most recent call last):
    surefoot.rules.RuleError: options of jump-v1 must be among horizon, delta, got 'horzon' (did you mean horizon?)
    """
    known = parameters(id)
    for name in options:
        if name not in known:
            raise RuleError(f"options of {id}", f"be among {', '.join(known)}", name, f"{name!r}{hint(name, known)}")
    scenario = SCENARIOS[id](**options)
    return scenario if scenario.about else Scenario(**{**vars(scenario), "about": about(id)})


class Table(Scenario):
    r"""A scenario made of a table of arms in a CSV or Parquet file.

    Parameters
    ----------
    path
        The file. Either it has the columns ``success_rate`` and ``value``: playing an arm then leads to a success, with
        loss 1 - value and cost 0, or to a failure, with loss 1 and cost 1. Or it has a column ``loss`` and columns
        whose names start with ``cost``: the means of coin flips. A column ``arm`` with texts names the arms, and
        ``cost_spend`` names a guardrail "spend". Other columns are ignored.
    thresholds
        One per cost, or a number for all of them. A success rate of at least 0.9 is a threshold of 0.1.
    horizon, delta
        As for a `Problem`.
    safe
        A `SafeStrategy`, or the number or name of the arm to lean on. By default the arm with the largest smallest
        margin; none, if even that one is not below every threshold.
    id
        By default the name of the file.

    Examples
    --------
    >>> import pathlib, tempfile, surefoot as sf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "arms.csv"
    >>> _ = path.write_text("arm,loss,cost_spend\nin-house,0.5,0.1\nflagship,0.1,0.6\n")
    >>> scenario = sf.Table(path, thresholds=0.5, horizon=1000)
    >>> scenario.id, scenario.mean_costs, scenario.problem.safe.strategy
    ('arms', array([[0.1, 0.6]]), array([1., 0.]))
    >>> scenario.arms, scenario.guardrails
    (('in-house', 'flagship'), ('spend',))
    """

    def __init__(
        self,
        path: str | Path,
        thresholds: ArrayLike,
        horizon: int,
        delta: float = 0.05,
        safe: SafeStrategy | int | str | None = None,
        id: str | None = None,
    ) -> None:
        columns = read_columns(path)
        means = cost_means(columns)
        if "success_rate" in columns:
            losses: Bernoulli | OfSuccess = OfSuccess(numbers("value", column(columns, "value"), SHARE, None))
        else:
            losses = Bernoulli(numbers("loss", column(columns, "loss"), SHARE, None))
        each = [number("thresholds", thresholds, SHARE)] * len(means) if is_scalar(thresholds) else thresholds
        if isinstance(each, list | tuple) and len(each) != len(means):
            raise RuleError("thresholds", f"be one for each cost ({len(means)})", each, f"{len(each)}")
        limits = numbers("thresholds", each, SHARE, len(means))
        safe = leaning_on(safe, means, limits, arm_names(columns))
        problem = Problem(means.shape[1], limits, horizon, delta, safe)
        name = Path(path).name
        super().__init__(
            id or Path(path).stem,
            problem,
            losses,
            CoinCosts(means),
            about=f"{means.shape[1]} arms from the table {name}.",
            arms=arm_names(columns),
            guardrails=guardrail_names(columns),
        )


def arm_names(columns: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    """Names of the arms, if a table has texts for them, each another one."""
    given = columns.get("arm", np.array([]))
    names = tuple(given.tolist()) if given.dtype == object else ()
    return names if all(isinstance(name, str) and name for name in names) and len(set(names)) == len(names) else ()


def guardrail_names(columns: dict[str, NDArray[Any]]) -> tuple[str, ...]:
    """Names of the guardrails, if the columns of costs have them."""
    names = tuple(name.removeprefix("cost_") for name in columns if name.startswith("cost"))
    worded = all(name and not name.isdecimal() and not name.startswith("cost") for name in names)
    return names if worded and "success_rate" not in columns else ()


def is_scalar(value: object) -> bool:
    """Tell a number from a list of them."""
    return isinstance(value, Real)


def column(columns: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """A column of a table."""
    if name not in columns:
        raise RuleError("path", f"be a table with a column {name}", list(columns))
    return columns[name]


def leaning_on(
    safe: SafeStrategy | int | str | None, means: Floats, limits: Floats, names: tuple[str, ...]
) -> SafeStrategy | None:
    """The safe strategy a caller has named, or the safest single arm."""
    if isinstance(safe, SafeStrategy):
        return safe
    if isinstance(safe, str) and names:
        safe = names.index(choice("safe", safe, names))
    margins = (limits[:, None] - means).min(axis=0, initial=1.0)
    arm = int(margins.argmax()) if safe is None else safe
    if arm not in Range(0, margins.size, open_high=True, whole=True):
        raise RuleError("safe", f"be an arm: a number below {margins.size}, or its name in the table", safe)
    arm = int(arm)
    if safe is None and margins[arm] <= 0.0:
        return None
    return SafeStrategy(np.eye(margins.size)[arm], means[:, arm])
