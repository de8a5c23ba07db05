"""The forecast of a study: exact sizes, and a time that is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies import REGISTRY
from surefoot.reporting import words
from surefoot.rules import Floats
from surefoot.simulation import estimate as estimates
from surefoot.simulation.estimate import estimate, uncertainty
from surefoot.simulation.simulate import Plan
from surefoot.simulation.study import Study

TEXT = """
seeds = 3
checkpoints = [100, 200]
scenarios = [{id = "lower-bound-v1", n_arms = {grid = [3, 5, 9]}, horizon = {grid = [200, 2_000]}}]
policies = [{policy = "colb"}, {policy = "ucb1", where = "n_arms < 9"}]
"""


@pytest.mark.filterwarnings("ignore:the margin")
def test_sizes_are_exact() -> None:
    study = Study.parse(TEXT, Path(), "study.toml")
    told = estimate(study, workers=1, seconds=0.1)
    assert (told.scenarios, told.policies, told.cells, told.episodes) == (6, 2, 10, 30)
    assert told.rounds == study.rounds == 30 * 200
    run = study.run(workers=1)
    assert told.rows == run.table.num_rows
    assert told.memory == pytest.approx(run.table.nbytes, rel=0.3)
    assert 0 < told.low <= told.seconds <= told.high


class Clock:
    """Stands in for the measurement: an episode takes 3 ms, and 2 us a round."""

    def __init__(self) -> None:
        self.longest = 0

    def __call__(self, plans: list[Plan], _: int) -> tuple[sf.Run, float]:
        self.longest = max(self.longest, *(plan.checkpoints[-1] for plan in plans))
        run = sf.simulate(sf.scenarios.make("three-arms-v1", horizon=10), {"x": sf.COLB}, 1, [10], 1)
        each = [len(plan.policies) * len(plan.seeds) * self.seconds(plan.checkpoints[-1]) for plan in plans]
        return run, sum(each)

    @staticmethod
    def seconds(rounds: int) -> float:
        return 3e-3 + 2e-6 * rounds


@pytest.mark.filterwarnings("ignore:the margin")
@pytest.mark.parametrize("horizon", [500, 20_000, 10_000_000])
def test_the_true_time_is_within_the_forecast(horizon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(estimates, "timed", clock)
    text = f"seeds = 4\nhorizon = {horizon}\nscenarios = [{{id = 'three-arms-v1'}}]\npolicies = [{{policy = 'colb'}}]"
    told = estimate(Study.parse(text, Path(), "study.toml"), workers=2)
    true = 4 * clock.seconds(horizon)
    assert told.low < true < told.high
    assert told.high < 2 * told.low
    assert clock.longest <= horizon


def test_cells_that_differ_make_the_forecast_wider() -> None:
    rounds = np.full(8, 1000.0)
    even: Floats = np.full(8, 1.0)
    uneven = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0])
    assert uncertainty(rounds, even) < 1e-12 < uncertainty(rounds, uneven)
    assert uncertainty(rounds[:1], even[:1]) == estimates.FEW_SAMPLES
    assert uncertainty(np.array([10.0, 1000.0]), np.array([0.1, 10.0])) < 1e-12  # longer, but not slower


def test_a_forecast_runs_nothing_of_a_study_that_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []

    class Counting(sf.COLB):
        def live(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
            played.append(len(losses))
            super().live(losses, costs, strategies, safe_weights)

    monkeypatch.setitem(REGISTRY, "colb", Counting)
    text = "seeds = 900\nscenarios = [{id = 'stochastic-v1', horizon = 100_000_000}]\npolicies = [{policy = 'colb'}]"
    told = estimate(Study.parse(text, Path(), "study.toml"), workers=1, seconds=0.2)
    assert told.rounds == 900 * 100_000_000
    assert sum(played) < 5_000_000


def test_words() -> None:
    assert [words.duration(s) for s in (0.01, 3.21, 45, 200, 20_000, 300_000)] == [
        "0.1 s", "3.2 s", "45 s", "3.3 min", "5.6 h", "3.5 days",
    ]  # fmt: skip
    assert [words.size(n) for n in (10, 5e4, 2.34e6, 7e9, 1e12)] == ["1 kB", "50 kB", "2.34 MB", "7 GB", "1 TB"]
    assert words.counted(1, "policy", "policies") == "1 policy"
    assert words.counted(2000, "cell") == "2,000 cells"
