"""The report of a live experiment says what the exported rounds say, and nothing that cannot be known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.experiments.events import Created
from surefoot.reporting import live, live_figures
from surefoot.reporting.served import CHANCE, NONE, OVER, WITHIN, Served
from surefoot.service.export import write_export
from tests.reporting.test_report import Page

ARMS = ["bold", "<b>mild</b>", "base"]
EXPERIMENT = sf.Experiment(
    "routing",
    arms=ARMS,
    objective=sf.Maximise("quality", high=10.0),
    guardrails=[sf.AtMost("spend", 0.8, high=2.0, unit="cents"), sf.AtLeast("answered", 0.7)],
    baseline={"base": 0.75, "<b>mild</b>": 0.25},
    baseline_costs={"spend": 0.3, "answered": 0.9},
    timeout=40.0,
    alarm_every=1_000.0,
)
QUALITY = {"bold": 9.0, "<b>mild</b>": 5.0, "base": 2.0}
SPEND = {"bold": 1.2, "<b>mild</b>": 0.5, "base": 0.2}


def play(live: sf.Live, rounds: int, spend: dict[str, float], start: float, lost: float = 0.03) -> None:
    """Rounds in which feedback comes at once or never; some is partial."""
    rng = np.random.default_rng(int(start) + 7)
    for t in range(rounds):
        now = start + t
        choice = live.decide(now)
        fate = rng.random()
        outcome = {
            "quality": float(np.clip(rng.normal(QUALITY[choice.arm], 1.0), 0.0, 10.0)),
            "spend": float(np.clip(rng.normal(spend[choice.arm], 0.2), 0.0, 2.0)),
            "answered": bool(rng.random() < 0.93),
        }
        if fate < lost / 2:
            outcome.pop("quality")
        if fate >= lost or fate < lost / 2:
            live.feedback(choice.id, outcome, now)


def exported(log: Any, out: Path, db: str = "surefoot.db") -> Served:
    write_export(log, out, db)
    live.write_live_report(out)
    return Served.load(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment in which spend rises: an alarm, a new epoch with another limit, time-outs and observations."""
    running = sf.Live(EXPERIMENT, seed=3)
    play(running, 1_500, SPEND, 0.0)
    play(running, 600, {arm: 3 * spend for arm, spend in SPEND.items()}, 2_000.0)
    running.expire(now=5_000.0)
    assert [alarm.kind for alarm in running.status().alarms if alarm.holds]
    running.resume("prices are back")
    play(running, 900, SPEND, 6_000.0)
    running.observe("bold", {"spend": 1.0, "answered": True})
    running.hold("lunch")
    running.cancel(running.decide(7_500.0).id, "nobody came")
    running.expire(now=9_000.0)
    out = tmp_path_factory.mktemp("live")
    exported(running.log, out)
    return out


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[dict[str, Any]]:
    """The rounds that were served, as NDJSON has them."""
    rounds = [json.loads(line) for line in (folder / "rounds.ndjson").read_text().splitlines()]
    return [one for one in rounds if one["source"] != "observation"]


def spend_of(lines: list[dict[str, Any]], epoch: int) -> list[float]:
    return [2.0 * one["costs"]["spend"] for one in lines if one["epoch"] == epoch]


def test_verdicts_are_those_of_the_rounds(folder: Path, lines: list[dict[str, Any]]) -> None:
    served = Served.load(folder)
    assert [(one.epoch, one.guardrail.name) for one in served.verdicts] == [
        (1, "spend"), (1, "answered"), (0, "spend"), (0, "answered"),
    ]  # fmt: skip
    for verdict in served.verdicts:
        here = [one for one in lines if one["epoch"] == verdict.epoch]
        costs = [one["costs"][verdict.guardrail.name] for one in here]
        mean = sum(costs) / len(costs)
        assert verdict.mean == pytest.approx(2.0 * mean if verdict.guardrail.name == "spend" else 1.0 - mean)
        assert verdict.rounds == len(here)
        assert verdict.lost == sum(one["source"] == "timeout" for one in here) > 0
        assert verdict.words == WITHIN
    assert [verdict.alarm is None for verdict in served.verdicts] == [True, True, False, True]


def test_an_epoch_whose_mean_hides_a_rise_is_not_praised(folder: Path) -> None:
    """Spend was over its limit for a while, and the mean of the epoch is not: the alarm must show beside it."""
    text = (folder / "report.html").read_text()
    assert re.search(r"within the limit; alarm after round 1,\d\d\d", text)
    assert '<p class="warning">The mean of every guardrail is within its limit in every epoch.' in text
    assert "the mean spend served is above the limit 0.8 cents" in text


def line(axes: Any, name: str, epoch: int = 0) -> tuple[np.ndarray, np.ndarray]:
    found = [one for one in axes.lines if one.get_gid() == name]
    return tuple(np.asarray(data, float) for data in found[epoch].get_data())  # type: ignore[return-value]


def test_lines_are_those_of_the_rounds(folder: Path, lines: list[dict[str, Any]]) -> None:
    served = Served.load(folder)
    width = live_figures.window(served)
    spend = EXPERIMENT.guardrails[0]
    axes = live_figures.rail(served, spend).axes[0]
    for epoch in (0, 1):
        values = spend_of(lines, epoch)
        places = {one["seq"]: i for i, one in enumerate(one for one in lines if one["epoch"] == epoch)}
        for name, over in (("mean", len(values)), ("lately", width)):
            x, y = line(axes, name, epoch)
            assert places[int(x[-1])] == len(values) - 1
            for seq, drawn in list(zip(x, y, strict=True))[::17]:
                end = places[int(seq)] + 1
                assert drawn == pytest.approx(np.mean(values[max(0, end - over) : end]))
        assert set(line(axes, "limit", epoch)[1]) == {0.8}
    begins = [np.asarray(one.get_xdata())[0] for one in axes.lines if one.get_gid() == "epoch"]
    assert begins == [sum(one["epoch"] == 0 for one in lines)]
    alarms = served.history["alarms"]
    assert list(line(axes, "alarm")[0]) == [alarm["after"] for alarm in alarms]
    assert alarms[0]["kind"] == "served"


def test_the_baseline_is_mixed_by_its_shares(folder: Path, lines: list[dict[str, Any]]) -> None:
    served = Served.load(folder)
    _, drawn = line(live_figures.objective(served).axes[0], "baseline", 1)
    here = [one for one in lines if one["epoch"] == 1]
    means = {arm: 10.0 * (1.0 - np.mean([one["loss"] for one in here if one["arm"] == arm])) for arm in ARMS}
    assert drawn[-1] == pytest.approx(0.75 * means["base"] + 0.25 * means["<b>mild</b>"])


def test_shares_of_arms_and_of_time_outs(folder: Path, lines: list[dict[str, Any]]) -> None:
    served = Served.load(folder)
    edges, shares = live_figures.allocation_of(served)
    for low, high, found in list(zip(edges, edges[1:], shares, strict=False))[::9]:
        arms = [one["arm"] for one in lines if low < one["seq"] <= high]
        assert found == pytest.approx([arms.count(arm) / len(arms) for arm in ARMS])
    assert shares.sum(axis=1) == pytest.approx(1.0)
    _, y = line(live_figures.lost(served).axes[0], "lost", 1)
    newest = lines[-live_figures.window(served) :]
    assert y[-1] == pytest.approx(np.mean([one["source"] == "timeout" for one in newest]))


def test_the_page_stands_alone_and_names_are_escaped(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    page = Page(text)
    sources = page.attributes("img", "src")
    assert len(sources) == 5
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert not {"script", "link", "iframe", "b"} & {tag for tag, _ in page.tags}
    assert "&lt;b&gt;mild&lt;/b&gt;" in text
    assert "surefoot export routing --db surefoot.db --out" in text
    assert "regret" not in text
    assert "hindsight" not in text


def test_everything_that_happened_is_told_in_its_order(folder: Path) -> None:
    told = [what for what, _, _ in live.events(Served.load(folder))]
    assert told[:2] == ["epoch 0", "alarm: served, hold"]
    assert told[-4:] == ["epoch 1", "resumed", "measured", "held"]
    accounts = live.accounts(Served.load(folder))
    assert accounts.startswith("Of 3,001 decisions, 3,000 are settled and in this report, 1 cancelled, and 0 wait")
    assert "1 observation of arms chosen elsewhere is not in the means" in accounts


def test_neither_the_key_of_the_draws_nor_a_password_is_exported(tmp_path: Path) -> None:
    running = sf.Live(EXPERIMENT, seed=3)
    exported(running.log, tmp_path, "postgresql://me:secret@host/db?password=secret")
    (_, created), *_ = running.log.read()
    assert isinstance(created, Created)
    for path in tmp_path.glob("*.*"):
        assert b"secret" not in path.read_bytes()
        assert created.key.encode() not in path.read_bytes()


def test_rounds_that_come_during_the_export_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = sf.Live(EXPERIMENT, seed=3)
    play(running, 20, SPEND, 0.0, lost=0.0)
    rounds = running.log.rounds

    def later(*arguments: Any, **options: Any) -> Any:
        play(running, 5, SPEND, 100.0, lost=0.0)
        return rounds(*arguments, **options)

    monkeypatch.setattr(running.log, "rounds", later)
    assert exported(running.log, tmp_path).rounds == 20


def test_nothing_settled(tmp_path: Path) -> None:
    running = sf.Live(EXPERIMENT, seed=3)
    running.decide(0.0)
    served = exported(running.log, tmp_path)
    assert {one.words for one in served.verdicts} == {NONE}
    assert live_figures.live_figures(served) == []
    text = (tmp_path / "report.html").read_text()
    assert "No decision was settled yet." in text
    assert "nan" not in text


def test_arms_that_are_never_served(tmp_path: Path) -> None:
    """One of the baseline's arms among them: then nobody knows what the baseline is worth."""
    running = sf.Live(EXPERIMENT, seed=3)
    running.feedback(running.decide(0.0).id, {"quality": 5, "spend": 0.1, "answered": True}, 1.0)
    served = exported(running.log, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "not all served" in text
    assert "nan" not in text
    assert sum(int(cells[1]) for cells in (live.arm(served, served.epochs[0], arm) for arm in ARMS)) == 1


def test_many_arms_and_guardrails(tmp_path: Path) -> None:
    rails = [sf.AtMost(f"cost.{i} $x_{i}$", 0.5) for i in range(8)]
    arms = [f"arm {i}" for i in range(60)]
    experiment = sf.Experiment(
        "wide", arms=arms, objective=sf.Minimise("time"), guardrails=rails, baseline=arms[-1],
        baseline_costs={one.name: 0.1 for one in rails}, timeout=10.0,
    )  # fmt: skip
    running, rng = sf.Live(experiment, seed=1), np.random.default_rng(1)
    for t in range(400):
        outcome = {one.name: float(rng.random() < 0.3) for one in rails}
        running.feedback(running.decide(float(t)).id, {"time": 0.5, **outcome}, float(t))
    served = exported(running.log, tmp_path)
    assert len(Page((tmp_path / "report.html").read_text()).attributes("img", "src")) == 10
    costs = [
        json.loads(line)["costs"]["cost.3 $x_3$"] for line in (tmp_path / "rounds.ndjson").read_text().splitlines()
    ]
    assert served.verdicts[3].mean == pytest.approx(np.mean(costs))


def test_a_mean_over_its_limit_is_told_from_chance(tmp_path: Path) -> None:
    experiment = sf.Experiment(
        "bad", arms=["a", "b"], objective=sf.Maximise("y"), guardrails=[sf.AtMost("c", 0.3), sf.AtMost("d", 0.3)],
        baseline="b", baseline_costs={"c": 0.1, "d": 0.1}, timeout=10.0,
    )  # fmt: skip
    running = sf.Live(experiment, seed=1)
    for t in range(200):
        outcome = {"y": 1.0, "c": 0.32, "d": 0.9}
        running.feedback(running.decide(float(t)).id, outcome, float(t))
    served = exported(running.log, tmp_path)
    assert [one.words for one in served.verdicts] == [CHANCE, OVER]
    assert "Over the limit: c (epoch 0), d (epoch 0)." in (tmp_path / "report.html").read_text()


def test_a_change_of_limits_and_of_arms(tmp_path: Path) -> None:
    """A guardrail that is new, one that is gone, an arm that is removed: each epoch has its own."""
    running = sf.Live(EXPERIMENT, seed=3)
    play(running, 100, SPEND, 0.0, lost=0.0)
    fewer = {**EXPERIMENT.to_dict(), "arms": ["bold", "base"], "baseline": "base"}
    fewer["guardrails"] = [{"name": "spend", "at_most": 1.0, "high": 2.0}]
    fewer["baseline_costs"] = {"spend": 0.3}
    assert running.change(sf.Experiment.from_dict(fewer), "cheaper") is True
    for t in range(50):
        running.feedback(running.decide(500.0 + t).id, {"quality": 1, "spend": 1.5}, 500.0 + t)
    served = exported(running.log, tmp_path)
    assert [(one.epoch, one.guardrail.name, one.guardrail.limit) for one in served.verdicts] == [
        (1, "spend", 1.0), (0, "spend", 0.8), (0, "answered", 0.7),
    ]  # fmt: skip
    assert served.verdicts[0].mean == pytest.approx(1.5)
    axes = live_figures.rail(served, EXPERIMENT.guardrails[0]).axes[0]
    assert [set(line(axes, "limit", epoch)[1]) for epoch in (0, 1)] == [{0.8}, {1.0}]
    assert "answered" in (tmp_path / "report.html").read_text()


def test_what_is_no_complete_export_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(sf.RuleError, match=r"hold the history\.json of a complete export"):
        Served.load(tmp_path)
    (tmp_path / "rounds.parquet").write_bytes((folder / "rounds.parquet").read_bytes())
    told = json.loads((folder / "history.json").read_text())
    (tmp_path / "history.json").write_text(json.dumps({**told, "rounds": 1}))
    with pytest.raises(sf.RuleError, match="folder must hold all 1 rounds of the history, got 3001 rounds"):
        Served.load(tmp_path)
    (tmp_path / "history.json").write_text("{}")
    with pytest.raises(sf.RuleError, match="hold an export that can be read"):
        Served.load(tmp_path)
    (tmp_path / "run.parquet").touch()
    with pytest.raises(sf.RuleError, match="out must be a folder without the results of a study"):
        write_export(sf.Live(EXPERIMENT, seed=3).log, tmp_path, "x.db")
