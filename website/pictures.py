"""The pictures of the README and the tutorials: ``python -m website.pictures`` draws them into docs/images."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

import surefoot as sf
from surefoot.cli.studies import DEMO
from surefoot.simulation.study import Study

Courses = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
STRETCH = 2_000
"""Requests that a point of the picture stands for."""
LOOKS = {"SOLB": "#0072B2", "unguarded": "#D55E00", "the baseline alone": "#777777"}
STYLE: Any = {
    "svg.hashsalt": "surefoot",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
}


def routing(horizon: int = 200_000, seed: int = 0) -> Courses:
    """Spend and quality a request, stretch by stretch, in the scenario of the demo; by policy."""
    scenario = sf.scenarios.make("llm-routing-v1", horizon=horizon)
    policies: dict[str, Any] = {
        "SOLB": sf.SOLB,
        "unguarded": lambda problem, seed: sf.LogBarrier(problem, seed, learning_rate=0.05),
        "the baseline alone": sf.AlwaysSafe,
    }
    checkpoints = list(range(STRETCH, horizon + 1, STRETCH))
    run = sf.simulate(scenario, policies, seeds=[seed], checkpoints=checkpoints, workers=1)
    spend = np.asarray(scenario.mean_costs)[0]
    courses = {}
    for name in policies:
        rows = [row for row in run.table.to_pylist() if row["policy"] == name]
        allocations = np.array([row["allocation"] for row in rows])
        losses = np.diff([0.0, *(row["loss"] for row in rows)]) / STRETCH
        courses[name] = allocations @ spend, 1.0 - losses
    return courses


def side_by_side(narrow: bool) -> tuple[Any, Any]:
    """Two pairs of axes beside each other or, for phones, one below the other."""
    import matplotlib.pyplot as plt

    shape, size = ((2, 1), (4.4, 5.8)) if narrow else ((1, 2), (10.0, 3.6))
    return plt.subplots(*shape, figsize=size, layout="constrained")


def draw_routing(path: Path, narrow: bool = False) -> None:
    """The picture of the README."""
    import matplotlib.pyplot as plt

    courses = routing()
    with mpl.rc_context(STYLE):
        figure, (left, right) = side_by_side(narrow)
        for name, (spend, quality) in courses.items():
            requests = STRETCH * np.arange(1, len(spend) + 1) / 1_000
            left.plot(requests, spend, color=LOOKS[name], label=name)
            right.plot(requests, quality, color=LOOKS[name], label=name)
        left.axhline(0.40, color="black", linestyle="--", linewidth=1.2)
        left.text(200, 0.42, "limit: 0.40 cents", ha="right", va="bottom")
        left.set(title="Spend a request (cents)", xlabel="thousand requests", ylim=(0, 1.0), xlim=(0, 200))
        right.set(title="Quality of the answers", xlabel="thousand requests", ylim=(0.3, 1.0), xlim=(0, 200))
        for name, (_, quality) in courses.items():
            if narrow and name == "unguarded":  # too little room below
                right.text(198, quality[-20:].max() + 0.01, name, color=LOOKS[name], ha="right", va="bottom")
            else:
                right.text(198, quality[-20:].min() - 0.015, name, color=LOOKS[name], ha="right", va="top")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def loosening(
    rounds: int = 20_000, seed: int = 3
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """One run of SOLB with three arms, round by round: strategies, their true cost, their cost at the upper bounds.

    With the preset "guaranteed", whose strategies change smoothly; those of "practical" are harder to look at.
    """
    costs, losses = np.array([0.9, 0.4, 0.1]), np.array([0.1, 0.4, 0.8])
    problem = sf.Problem(3, [0.5], None, safe=sf.SafeStrategy([0, 0, 1], [0.1]))
    policy, world = sf.SOLB(problem, seed, preset="guaranteed"), np.random.default_rng(seed)
    strategies, bounds = np.empty((rounds, 3)), np.empty(rounds)
    for t in range(rounds):
        strategies[t], upper = policy.strategy, policy.upper_costs[0].copy()
        upper[2] = min(upper[2], 0.1)  # the cost of the safe strategy is known
        bounds[t] = strategies[t] @ upper
        decision = policy.ask()
        policy.tell(
            decision, float(world.random() < losses[decision.arm]), [float(world.random() < costs[decision.arm])]
        )
    return strategies, strategies @ costs, bounds


def draw_loosening(path: Path, narrow: bool = False) -> None:
    """The picture of the page on concepts."""
    import matplotlib.pyplot as plt

    strategies, true, bounds = loosening()
    shown = np.unique(np.geomspace(1, len(true), 250).astype(int)) - 1
    rounds, last = shown + 1, len(true)
    strategies, true, bounds = strategies[shown], true[shown], bounds[shown]
    names = ("best, too expensive alone", "good, affordable", "baseline")
    with mpl.rc_context(STYLE):
        figure, (left, right) = side_by_side(narrow)
        left.stackplot(rounds, strategies.T, colors=("#0072B2", "#56B4E9", "#BBBBBB"), labels=names)
        left.set(title="The strategy: share of each arm", xlabel="round", xlim=(1, last), ylim=(0, 1), xscale="log")
        left.legend(loc="upper left", frameon=True, framealpha=0.9)
        right.axhline(0.5, color="black", linestyle="--", linewidth=1.2)
        right.text(last, 0.515, "limit", ha="right", va="bottom")
        right.plot(rounds, bounds, color="#D55E00", label="at the upper bounds")
        right.plot(rounds, true, color="#0072B2", label="true, unknown to SOLB")
        right.set(title="Mean cost of the strategy", xlabel="round", xlim=(1, last), ylim=(0, 0.65), xscale="log")
        right.legend(loc="lower right", frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def draw_report(folder: Path) -> None:
    """Figures of the demo's report, for the tutorial that explains them."""
    with TemporaryDirectory() as made:
        study = Study.parse(DEMO, Path(made), "demo")
        sf.write_report(study.run(), Path(made) / "report")
        for name in ("costs", "plane", "regret", "safe-weight", "allocation"):
            shutil.copy(Path(made) / "report" / "figures" / f"llm-routing-v1-{name}.svg", folder / f"report-{name}.svg")


def main() -> None:
    """Draw all pictures."""
    mpl.use("svg")
    for end, narrow in (("", False), ("-narrow", True)):  # the site shows the narrow ones on phones
        draw_routing(IMAGES / f"routing{end}.svg", narrow)
        draw_loosening(IMAGES / f"loosening{end}.svg", narrow)
    draw_report(IMAGES)


if __name__ == "__main__":
    main()
