"""The demo: one small story, SOLB and COLB side by side, a table and a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from rich.table import Table

from surefoot.analysis.optimum import Benchmark, offline_optimum
from surefoot.policies import COLB, SOLB, Policy
from surefoot.problem import Floats, Problem, SafeStrategy

STORY = (
    "A help desk can answer with four assistants. Some leave more customers unhappy than others (the loss), and some "
    "hand more conversations to a human (the cost). At most 35 % may be handed over: that is the guardrail. Nothing is "
    "known of the assistants, but that the one that goes by the book hands over 10 %."
)
# large model, tuned model, small model, by the book
LOSSES = np.array([0.45, 0.20, 0.60, 0.75])
COSTS = np.array([0.80, 0.30, 0.50, 0.10])
PROBLEM = Problem(4, [0.35], 30_000, 0.05, SafeStrategy([0, 0, 0, 1], [0.10]))
SEED = 7
RATE = 0.05
"""Learning rate of the demo: at the theorems' rate of 5e-5 nothing would be seen to move in 30,000 rounds."""

COLOURS = {"SOLB": "#0072B2", "COLB": "#D55E00"}  # told apart by the colour-blind, too


class Course(NamedTuple):
    """What a policy played: the expected loss and the expected cost of its strategy in every round."""

    losses: Floats
    costs: Floats

    @property
    def rounds_over(self) -> int:
        """How many rounds were over the guardrail."""
        return int((self.costs > PROBLEM.thresholds[0] + 1e-12).sum())


def run(policy: Policy, seed: int, tick: Callable[[], None]) -> Course:
    """Let a policy live through the story; losses and costs are coin flips."""
    horizon = policy.problem.horizon
    flips = np.random.default_rng(seed).random((horizon, 2))
    losses, costs = np.empty(horizon), np.empty(horizon)
    for t in range(horizon):
        strategy = policy.strategy
        losses[t], costs[t] = strategy @ LOSSES, strategy @ COSTS
        decision = policy.ask()
        unhappy, handed_over = flips[t] < (LOSSES[decision.arm], COSTS[decision.arm])
        policy.tell(decision, float(unhappy), [float(handed_over)])
        tick()
    return Course(losses, costs)


def policies() -> dict[str, Policy]:
    """The two policies of the demo, by name."""
    return {cls.__name__: cls(PROBLEM, SEED, learning_rate=RATE) for cls in (SOLB, COLB)}


def benchmark() -> Benchmark:
    """The best strategy for someone who knows all losses and costs."""
    return offline_optimum(LOSSES, COSTS[None, :], PROBLEM.thresholds)


def verdict(course: Course) -> str:
    """What became of the guardrail, in words."""
    if course.rounds_over == 0:
        return "kept it in every round"
    last = int(np.flatnonzero(course.costs > PROBLEM.thresholds[0] + 1e-12)[-1]) + 1
    when = "" if last == len(course.costs) else f", none after round {last:,}"
    return f"over it in {course.rounds_over:,} rounds{when}"


def table(courses: dict[str, Course]) -> Table:
    """One row a policy."""
    best = benchmark()
    made = Table(title="Who kept the guardrail?", title_justify="left")
    for column in ("policy", "guardrail of 35 %"):
        made.add_column(column)
    for column in ("highest cost", "mean loss", "regret"):
        made.add_column(column, justify="right")
    for name, course in courses.items():
        regret = course.losses.sum() - best.value * len(course.losses)
        made.add_row(
            name, verdict(course), f"{course.costs.max():.1%}", f"{course.losses.mean():.1%}", f"{regret:,.0f}"
        )
    made.add_row("best in hindsight", "kept it", f"{best.strategy @ COSTS:.1%}", f"{best.value:.1%}", "0")
    return made


def picture(courses: dict[str, Course], folder: Path) -> Path:
    """Cost and loss of the strategies over the rounds."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    best, threshold = benchmark(), PROBLEM.thresholds[0]
    rounds = np.arange(1, PROBLEM.horizon + 1)
    figure, (cost_axes, loss_axes) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    cost_axes.axhspan(threshold, 0.5, color="#D55E00", alpha=0.08, lw=0)
    cost_axes.axhline(threshold, color="black", lw=1)
    cost_axes.annotate("guardrail", (rounds[-1], threshold), (0, 4), textcoords="offset points", ha="right")
    loss_axes.axhline(best.value, color="black", lw=1)
    loss_axes.annotate("best in hindsight", (rounds[-1], best.value), (0, -12), textcoords="offset points", ha="right")
    for name, course in courses.items():
        cost_axes.plot(rounds, course.costs, color=COLOURS[name], lw=1.4)
        loss_axes.plot(rounds, course.losses, color=COLOURS[name], lw=1.4)
        at, below = len(rounds) // 6, -16 if name == "SOLB" else 8
        for axes, values, offset in ((cost_axes, course.costs, below), (loss_axes, course.losses, 8)):
            style = {"color": COLOURS[name], "weight": "bold", "textcoords": "offset points"}
            axes.annotate(name, (rounds[at], values[at]), (4, offset), **style)
    cost_axes.set(title="Conversations handed over", ylabel="expected cost of the strategy", ylim=(0, 0.5))
    loss_axes.set(title="Unhappy customers", ylabel="expected loss of the strategy", ylim=(0, 0.8))
    for axes in (cost_axes, loss_axes):
        axes.set(xlabel="round", xlim=(0, rounds[-1]))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "demo.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def live(named: Iterable[tuple[str, Policy]], tick: Callable[[], None]) -> dict[str, Course]:
    """Run all policies of the demo on the same coin flips."""
    return {name: run(policy, SEED, tick) for name, policy in named}
