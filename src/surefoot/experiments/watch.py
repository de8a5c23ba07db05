"""The watch: whether what is served keeps what was promised, and whether feedback can be trusted.

It sees decisions in the order in which they were made, over all arms: a single arm may cost more than a limit, so in
the order of release per arm it would raise false alarms.

Feedback that never came counts as the worst case, as it does in learning, but not for arms of the baseline: their costs
were stated, not learnt, so nothing that is missing there may count against them. Thus the mean cost of what is served,
counted in this way, is at most the limit whenever the bounds hold and the baseline's costs are as stated, whatever is
lost of the baseline's feedback, and of other arms as long as the lost share of each stays the same: an outage of all
feedback looks like a drift (docs/theory/live.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.experiments.events import Alarm
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.order import EXPIRED, Pending
from surefoot.kernels.detector import bets_against, detect, detect_one, detect_places, detect_rows
from surefoot.kernels.types import Floats, Integers

LOST_SHARE = 0.1
"""An arm whose feedback is lost more often than this raises an alarm."""
CANCEL_LEVEL = 1e-3
"""Probability of ever finding that cancellations differ between arms when they do not."""


class Detector:
    """Detects which of several means has risen above its limit."""

    def __init__(self, limits: Floats, enough: float) -> None:
        self.limits, self.enough = np.ascontiguousarray(limits, np.float64), enough
        self.bets = bets_against(self.limits)
        self.evidence = np.zeros_like(self.bets)

    def see(self, values: Floats) -> int:
        """Take in one value of each; return the index of one that has risen, or -1."""
        return int(detect(self.evidence, self.bets, self.limits, values, self.enough))

    def see_one(self, place: int, value: float) -> bool:
        """Take in one value of one of them; return whether it has risen."""
        return bool(detect_one(self.evidence, self.bets, self.limits, place, value, self.enough))

    def see_rows(self, rows: Floats) -> None:
        """Take in one value of each, many times."""
        detect_rows(self.evidence, self.bets, self.limits, np.ascontiguousarray(rows), self.enough)

    def see_places(self, places: Integers, values: Floats) -> Integers:
        """Take in one value of one of them, many times; return how often each has risen."""
        found = np.zeros(len(self.limits), np.int64)
        detect_places(self.evidence, self.bets, self.limits, places, values, self.enough, found)
        return found


class Watch:
    """The detectors of an epoch.

    Parameters
    ----------
    experiment
        What is promised.
    baseline_costs
        The baseline's costs in [0, 1] as stated or measured; None if they are not known yet.
    """

    def __init__(self, experiment: Experiment, baseline_costs: Floats | None) -> None:
        self.experiment = experiment
        self.seen = 0
        n_guardrails, n_arms = len(experiment.guardrails), len(experiment.arms)
        enough = experiment.alarm_every * 2 * max(1, n_guardrails)  # served and baseline, for each guardrail
        thresholds = np.array([guardrail.threshold for guardrail in experiment.guardrails])
        self.served = Detector(thresholds, enough) if experiment.hard and n_guardrails else None
        self.baseline = None
        if baseline_costs is not None and n_guardrails:
            self.baseline = Detector(baseline_costs, enough)
        self.lost = Detector(np.full(n_arms, LOST_SHARE), experiment.alarm_every * n_arms)
        self.reported_lost: set[str] = set()
        self.cancelled = {arm: 0 for arm in experiment.arms}
        self.ended = {arm: 0 for arm in experiment.arms}
        self.found_cancelled = False
        self._places = {arm: place for place, arm in enumerate(experiment.arms)}
        shares = experiment.safe_strategy
        self._in_baseline = [share > 0.0 for share in shares]
        self._alone = max(shares) == 1.0
        self._costs = np.zeros(n_guardrails)

    def see(self, pending: Pending, costs: Sequence[float | None], held: bool) -> list[Alarm]:
        """Watch one more decision that was carried out; return the alarms.

        Parameters
        ----------
        costs
            Its cost of each guardrail in [0, 1], None where feedback is missing.
        held
            Whether the experiment is held: then what is served is the baseline, and only that is watched.
        """
        self.seen += 1
        alarms: list[Alarm] = []
        arm = pending.decided.arm
        place, by_baseline, lost, *self._costs[:] = self.row(pending, costs)
        if self.served is not None and not held:
            found = self.served.see(self._costs)
            if found >= 0:
                alarms.append(self._rise("served", found, "served"))
        if self.baseline is not None and by_baseline:
            found = self.baseline.see(self._costs)
            if found >= 0:
                alarms.append(self._rise("baseline", found, "of the baseline"))
        self.ended[arm] += 1
        if self.lost.see_one(place, float(lost)) and arm not in self.reported_lost:
            self.reported_lost.add(arm)
            message = f"feedback of {arm} is lost more often than {LOST_SHARE:.0%}: it counts as the worst case"
            alarms.append(Alarm("lost", None, arm, self.seen, message, False))
        return alarms

    def row(self, pending: Pending, costs: Sequence[float | None]) -> tuple[Any, ...]:
        """A decision that was carried out: place of the arm, whether it is of the baseline, whether lost, costs."""
        place = self._places[pending.decided.arm]
        in_baseline = self._in_baseline[place]
        by_baseline = in_baseline and (self._alone or pending.decided.weight == 0.0)
        if None in costs:
            costs = [(0.0 if in_baseline else 1.0) if cost is None else cost for cost in costs]
        return place, by_baseline, pending.settled == EXPIRED, *costs

    def see_many(self, rows: Floats, held: bool) -> None:
        """Watch many decisions whose alarms are known: the same as `see` with each in turn, and faster."""
        places, costs = rows[:, 0].astype(np.int64), rows[:, 3:]
        if self.served is not None and not held:
            self.served.see_rows(costs)
        if self.baseline is not None:
            self.baseline.see_rows(costs[rows[:, 1] > 0.0])
        risen = self.lost.see_places(places, np.ascontiguousarray(rows[:, 2]))
        counts = np.bincount(places, minlength=len(risen))
        for arm, place in self._places.items():
            self.ended[arm] += int(counts[place])
            if risen[place]:
                self.reported_lost.add(arm)
        self.seen += len(rows)

    def _rise(self, kind: str, place: int, what: str) -> Alarm:
        guardrail = self.experiment.guardrails[place]
        detector = self.served if kind == "served" else self.baseline
        assert detector is not None
        limit = guardrail.shown(guardrail.value(float(detector.limits[place])))
        side = "above" if guardrail.less_is_better else "below"
        stated = "the limit" if kind == "served" else "what was stated or measured,"
        message = f"the mean {guardrail.name} {what} is {side} {stated} {limit}"
        return Alarm(kind, guardrail.name, None, self.seen, message, True)

    def cancel(self, arm: str) -> Alarm | None:
        """Count a cancellation; raise an alarm if some arm is cancelled more often than another."""
        self.cancelled[arm] += 1
        self.ended[arm] += 1
        if self.found_cancelled:
            return None
        level = CANCEL_LEVEL / len(self.ended)
        bounds = {
            name: interval(self.cancelled[name] / ended, ended, level) for name, ended in self.ended.items() if ended
        }
        most = max(bounds, key=lambda name: bounds[name][0])
        least = min(bounds, key=lambda name: bounds[name][1])
        if bounds[most][0] <= bounds[least][1]:
            return None
        self.found_cancelled = True
        message = f"{most} is cancelled more often than {least}: if that depends on outcomes, the bounds are wrong"
        return Alarm("cancelled", None, most, self.seen, message, False)

    def levels(self) -> list[dict[str, Any]]:
        """How near each guardrail is to an alarm: 0 if nothing speaks against it, 1 at the alarm, by the logarithm."""
        found = []
        for what, detector in (("served", self.served), ("baseline", self.baseline)):
            if detector is not None:
                levels = np.log1p(detector.evidence.mean(axis=1)) / math.log1p(detector.enough)
                for guardrail, level in zip(self.experiment.guardrails, levels.tolist(), strict=True):
                    found.append({"what": what, "guardrail": guardrail.name, "level": min(1.0, level)})
        return found

    def to_dict(self) -> dict[str, Any]:
        """The watch as JSON-able data."""
        detectors = {"served": self.served, "baseline": self.baseline, "lost": self.lost}
        return {
            "seen": self.seen,
            "evidence": {name: None if one is None else one.evidence.tolist() for name, one in detectors.items()},
            "reported_lost": sorted(self.reported_lost),
            "cancelled": self.cancelled,
            "ended": self.ended,
            "found_cancelled": self.found_cancelled,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on where `to_dict` was written."""
        self.seen, self.found_cancelled = saved["seen"], saved["found_cancelled"]
        self.reported_lost = set(saved["reported_lost"])
        self.cancelled, self.ended = dict(saved["cancelled"]), dict(saved["ended"])
        for name, evidence in saved["evidence"].items():
            detector = getattr(self, name)
            if detector is not None:
                detector.evidence[:] = evidence


def interval(share: float, n: int, level: float) -> tuple[float, float]:
    """Bounds on a probability that hold for all n at once, with probability 1 - level.

    Hoeffding's maximal inequality on each stretch from 2^j to 2^(j+1), with level / ((j + 1) (j + 2)) of the level.
    """
    j = n.bit_length() - 1
    radius = math.sqrt(2**j * math.log(2 * (j + 1) * (j + 2) / level)) / n
    return share - radius, share + radius
