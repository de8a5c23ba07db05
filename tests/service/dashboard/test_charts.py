"""Charts: what is drawn together, and what is marked."""

from __future__ import annotations

import json

import numpy as np
import pytest

from surefoot.service.dashboard import charts
from surefoot.service.dashboard.views import OTHERS, Arm, Course, Rail


def course(n: int = 250, change: int = 100) -> Course:
    """Buckets of different sizes, with a new epoch in between."""
    rng = np.random.default_rng(1)
    costs = rng.random(n).tolist()
    return Course(
        at=[float(i) for i in range(n)], rounds=np.cumsum(rng.integers(1, 9, n)).tolist(),
        epochs=[int(i >= change) for i in range(n)], shares={"a": [0.25] * n, "b": [0.75] * n},
        costs={"spend": [None, *costs[1:]]}, limits={"spend": [0.4 if i < change else 0.3 for i in range(n)]},
        objective=costs, safe_weight=costs, lost=[0.5] * n,
    )  # fmt: skip


def rail(**changes: float | None) -> Rail:
    arms = [Arm("a", 9, 0.2, 0.1, 0.3, 0.5), Arm("b", 9, 0.5, 0.4, 0.6, 0.5)]
    return Rail("spend", "cents", True, 0.4, 0.0, 1.0, 0.2, 0.2, changes.get("bound", 0.3), arms, True)


def test_fewer_buckets_have_the_same_means_and_keep_epochs_apart() -> None:
    fine = course()
    coarse = charts.coarser(fine, 100)
    assert len(coarse.at) <= 102
    assert coarse.rounds[-1] == fine.rounds[-1]
    assert set(coarse.at) <= set(fine.at)
    assert coarse.limits["spend"] == [0.4 if epoch == 0 else 0.3 for epoch in coarse.epochs]
    for values, merged in ((fine.costs["spend"], coarse.costs["spend"]), (fine.objective, coarse.objective)):
        assert charts.so_far(fine, values)[-1] == pytest.approx(charts.so_far(coarse, merged)[-1], rel=0.05)
    assert coarse.shares["b"] == pytest.approx([0.75] * len(coarse.at))
    assert charts.coarser(fine, 250) is fine


def test_the_mean_so_far_begins_again_with_an_epoch() -> None:
    fine = course()
    found = charts.so_far(fine, fine.costs["spend"])
    assert found[0] is None
    assert found[100] == fine.costs["spend"][100]
    weights = np.diff([0, *fine.rounds])[100:]
    assert found[-1] == pytest.approx(np.average(np.array(fine.costs["spend"][100:], float), weights=weights))


def test_arms_that_nobody_would_see_are_shown_together() -> None:
    shares = {"a": [0.9, 0.98], "b": [0.005, 0.004], "c": [0.005, 0.006], OTHERS: [0.09, 0.01]}
    found = charts.worth_showing(shares)
    assert list(found) == ["a", OTHERS]
    assert found[OTHERS] == pytest.approx([0.1, 0.02])
    found = charts.worth_showing({OTHERS: [0.99, 0.98], "b": [0.005, 0.01], "c": [0.005, 0.005], "d": [0.0, 0.005]})
    assert list(found) == [OTHERS, "b", f"{OTHERS} "]  # an arm of that name
    assert charts.worth_showing({"a": [0.999], "b": [0.001]}) == {"a": [0.999], "b": [0.001]}


def test_alarms_are_marked_and_refuted_bounds_are_pale() -> None:
    drawn = json.loads(charts.cost(rail(), course(), "x", [5.0, 7.0]).figure)["layout"]
    assert [one["x0"] for one in drawn["shapes"]] == [5_000, 7_000, 99_000]  # two alarms and an epoch
    assert [one["text"] for one in drawn["annotations"]] == ["alarm", "epoch 1"]
    fine, refuted = charts.bounds(rail(), "x"), charts.bounds(rail(bound=None), "x", True)
    assert fine.words == "Mean and bounds: 1 of 2 arms keep the limit at their bounds."
    assert "An alarm has refuted these bounds" in refuted.words
    colours = [json.loads(one.figure)["data"][0]["line"]["color"] for one in (fine, refuted)]
    assert colours == ["--s1", "--faint"]


def test_a_single_stretch_is_drawn_as_points_around_its_time() -> None:
    """A line needs two points, and Plotly would show an axis of milliseconds."""
    one = json.loads(charts.allocation(course(1)).figure)
    assert {trace["mode"] for trace in one["data"]} == {"markers"}
    assert one["layout"]["xaxis"]["range"] == [-60_000, 60_000]
    two = json.loads(charts.allocation(course(2)).figure)
    assert {trace["mode"] for trace in two["data"]} == {"lines"}
    assert "range" not in two["layout"]["xaxis"]
