"""What a live experiment served, from the files of `surefoot export`: by epoch, in natural units."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from surefoot.experiments.experiment import Experiment
from surefoot.experiments.quantities import Guardrail
from surefoot.experiments.watch import interval
from surefoot.rules import Floats, RuleError

ROUNDS, LINES, EXPERIMENT, HISTORY = "rounds.parquet", "rounds.ndjson", "experiment.json", "history.json"
LEVEL = 0.05
"""Probability with which chance alone makes the mean of an epoch look over its limit."""
WITHIN, CHANCE, OVER, NONE = "within the limit", "over the limit, as chance alone may do", "over the limit", "no rounds"


class Verdict(NamedTuple):
    """A guardrail in an epoch."""

    epoch: int
    guardrail: Guardrail
    mean: float | None  # over the rounds served, in natural units; a time-out counts as the worst case
    rounds: int
    lost: int  # of these, timed out
    words: str  # one of `WITHIN`, `CHANCE`, `OVER` and `NONE`
    alarm: int | None = None  # the last round before the first alarm about it: the mean may hide a rise


@dataclass(frozen=True)
class Epoch:
    """What was served in an epoch: a value for each settled decision, in their order. Observations are left out."""

    number: int
    experiment: Experiment
    kept: bool  # whether what was learnt before was kept
    reason: str | None
    after: int  # the last round before it
    seq: Floats  # numbers of the rounds
    arms: Any  # indices into `Served.arms`
    lost: Any  # whether each timed out
    objective: Floats  # in natural units; the worst value if it is missing
    costs: dict[str, Floats]  # by guardrail, as the objective
    observed: int  # outcomes of arms that were chosen elsewhere

    def verdict(self, guardrail: Guardrail) -> Verdict:
        """Whether the mean of what was served keeps the limit.

        The interval around it holds for all numbers of rounds at once, so that it may be looked at after an alarm.
        """
        values, n = self.costs[guardrail.name], len(self.seq)
        if n == 0:
            return Verdict(self.number, guardrail, None, 0, 0, NONE)
        mean = float(values.mean())
        cost = guardrail.cost(mean)
        words = WITHIN if cost <= guardrail.threshold + 1e-12 else OVER
        if words == OVER and interval(cost, n, LEVEL)[0] <= guardrail.threshold:
            words = CHANCE
        return Verdict(self.number, guardrail, mean, n, int(self.lost.sum()), words)

    def shares_of_baseline(self, names: list[str]) -> dict[int, float]:
        """The baseline: its arms, as indices into `names`, with their shares."""
        shares = zip(self.experiment.arms, self.experiment.safe_strategy, strict=True)
        return {names.index(arm): share for arm, share in shares if share > 0.0}


@dataclass(frozen=True)
class Served:
    """A live experiment, as it was exported.

    Attributes
    ----------
    history
        What history.json says.
    arms
        Names of all arms, of all epochs.
    """

    history: dict[str, Any]
    arms: list[str]
    epochs: list[Epoch]

    @property
    def experiment(self) -> Experiment:
        """The experiment in its last epoch."""
        return self.epochs[-1].experiment

    @property
    def rounds(self) -> int:
        """Settled decisions, in all epochs."""
        return sum(len(epoch.seq) for epoch in self.epochs)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """One for each guardrail and epoch, the last epoch first."""
        alarms: dict[tuple[int, str], int] = {}
        for alarm in self.history["alarms"]:
            alarms.setdefault((alarm["epoch"], alarm["guardrail"]), alarm["after"])
        return [
            epoch.verdict(one)._replace(alarm=alarms.get((epoch.number, one.name)))
            for epoch in reversed(self.epochs)
            for one in epoch.experiment.guardrails
        ]

    @classmethod
    def load(cls, folder: str | Path) -> Served:
        """Read the files of an export."""
        folder = Path(folder)
        for name in (HISTORY, ROUNDS):
            if not (folder / name).is_file():
                raise RuleError("folder", f"hold the {name} of a complete export", folder, str(folder))
        try:
            history = json.loads((folder / HISTORY).read_text(encoding="utf-8"))
            table = pq.read_table(folder / ROUNDS, columns=["seq", "epoch", "arm", "source", "loss"])
            costs = costs_of(folder / ROUNDS)
            experiments = [Experiment.from_dict(one["experiment"]) for one in history["epochs"]]
        except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
            raise RuleError("folder", "hold an export that can be read", folder, f"{folder}: {error}") from None
        if table.num_rows != history["rounds"]:
            raise RuleError(
                "folder", f"hold all {history['rounds']} rounds of the history", folder, f"{table.num_rows} rounds"
            )
        names = list(dict.fromkeys(arm for one in experiments for arm in one.arms))
        arms = pc.index_in(table["arm"], pa.array(names, pa.string())).to_numpy()
        source, epochs = table["source"], table["epoch"].to_numpy()
        served, lost = pc.not_equal(source, "observation").to_numpy(), pc.equal(source, "timeout").to_numpy()
        seq, loss = table["seq"].to_numpy(), table["loss"].to_numpy()
        found = []
        for told, experiment in zip(history["epochs"], experiments, strict=True):
            here = epochs == told["epoch"]
            rows = np.flatnonzero(here & served)
            found.append(Epoch(
                told["epoch"], experiment, told["kept"], told["reason"], told["after"], seq[rows], arms[rows],
                lost[rows], natural(experiment.objective, loss[rows]),
                {one.name: natural(one, costs[one.name][rows]) for one in experiment.guardrails},
                int(here.sum()) - len(rows),
            ))  # fmt: skip
        return cls(history, names, found)


def costs_of(path: Path) -> dict[str, Floats]:
    """The costs of all rounds by guardrail, in [0, 1]."""
    if "costs" not in pq.read_schema(path).names:
        return {}
    costs = pq.read_table(path, columns=["costs"])["costs"]
    return {one.name: pc.struct_field(costs, [i]).to_numpy() for i, one in enumerate(costs.type)}


def natural(quantity: Any, costs: Floats) -> Floats:
    """Costs in natural units."""
    return np.asarray(quantity.value(np.asarray(costs, np.float64)), np.float64)


def is_export(folder: Path) -> bool:
    """Whether a folder looks like an export."""
    return (folder / ROUNDS).is_file()
