"""Made-up data for the pages, rich enough to see every part of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.experiments.errors import Unknown
from surefoot.service.dashboard.views import (
    Arm,
    Course,
    Detail,
    Epoch,
    Explained,
    Option,
    Rail,
    Summary,
    Waiting,
    Watched,
)

NOW = 1_790_000_000.0
MARKUP = "<script>alert(1)</script>"
QUOTES = """it's "R&D" <b>bold</b>"""
TURNED, HEBREW = "\u202eevil", "\u05e9\u05dc\u05d5\u05dd (1)"
REASON = "<img src=x onerror=alert(1)> & why"
DECISION, ODD_DECISION = "f3k9-17", "m4rk-18"
PREFIXES = {"f3k9": "llm-routing", "m4rk": "markup"}

MODELS = ["in-house", "balanced", "flagship", "fast", "reasoning"]
SPENDING = [
    ("spend", "cents", True, 0.40, 2.0, 0.31, 0.37),
    ("latency miss", None, True, 0.20, 1.0, 0.11, 0.16),
    ("answered", None, False, 0.95, 1.0, 0.978, 0.956),
]
EIGHT = [
    *SPENDING,
    ("refunds", "EUR", True, 1.5, 20.0, 0.9, 1.2),
    ("complaints per thousand", None, True, 3.0, 100.0, 1.1, 2.0),
    ("uptime", "%", False, 99.0, 100.0, 99.6, 99.2),
    ("energy", "Wh", True, 5.0, 12.0, 3.1, 4.2),
    ("unsafe answers", None, True, 0.01, 1.0, 0.002, 0.006),
]
BROKEN = [("spend", "cents", True, 0.40, 2.0, 0.47, 0.55), ("answered", None, False, 0.95, 1.0, 0.981, 0.962)]

MADE: dict[str, dict[str, Any]] = {
    "llm-routing": {},
    "checkout-discount": {
        "state": "held", "tone": "bad", "rails": BROKEN, "reason": "alarm: the spend that is served breaks its limit",
        "verdict": "It is held: spend was served at 0.47 cents against a limit of 0.4. Look at what changed, then "
        "resume.", "better": -0.04, "alarms": 1,
    },
    "search-ranking": {
        "state": "measuring", "tone": "wait", "better": None, "per_minute": None, "fresh": True,
        "verdict": "It measures the baseline first: about 1,200 decisions to go. There is nothing to do.",
    },
    "old-banner": {
        "state": "stopped", "tone": "off", "reason": "the best arm is clear", "verdict": "It was stopped in March.",
    },
    "markup": {"arms": [MARKUP, QUOTES, "plain"], "reason": REASON, "state": "held", "tone": "bad", "shadow": True,
               "verdict": f"It is held: {REASON}"},
    "turned": {"arms": ["plain", TURNED, HEBREW], "reason": TURNED, "state": "held", "tone": "bad",
               "rails": [(TURNED, None, True, 0.4, 1.0, 0.3, 0.35)],
               "verdict": f"{TURNED} is above its limit: {HEBREW}."},
    "fifty-arms": {"arms": [f"variant {i:02}" for i in range(50)], "rails": EIGHT},
    "thousand-arms": {"arms": [f"headline {i:04}" for i in range(1000)], "rails": EIGHT[:2]},
}  # fmt: skip


def shares_of(n: int) -> list[float]:
    """Shares that fall quickly."""
    raw = [math.exp(-1.1 * i) if i < 6 else 1e-4 / (i + 1) for i in range(n)]
    raw[:2] = raw[1::-1]
    return [one / sum(raw) for one in raw]


def course_of(arms: Sequence[str], rails: Sequence[tuple[Any, ...]], points: int = 40) -> Course:
    rng = np.random.default_rng(7)
    t = np.linspace(0.0, 1.0, points)
    known, others = list(arms[:12]), len(arms) > 12
    final = np.array([*shares_of(len(arms))[:12], *([1e-3] if others else [])])
    start = np.full(len(final), 0.02)
    start[0] = 1.0
    mix = (1 - t)[:, None] ** 2 * start / start.sum() + (1 - (1 - t) ** 2)[:, None] * final / final.sum()
    shares = dict(zip([*known, *(["others"] if others else [])], (mix / mix.sum(1, keepdims=True)).T.tolist()))
    costs: dict[str, Sequence[float | None]] = {}
    for name, _, _, _, _, served, bound in rails:
        noise = rng.normal(0.0, abs(served - bound) / 2, points)
        costs[name] = [None, *(served * (0.55 + 0.45 * t) + noise if served < bound else served + noise)[1:].tolist()]
    return Course(
        at=(NOW - 86_400 * (1 - t)).tolist(),
        rounds=[int(48_000 * one) + 1 for one in t],
        epochs=[int(one > 0.4) for one in t],
        shares=shares,
        costs=costs,
        limits={name: [limit * (1.0 if one > 0.4 else 1.1) for one in t] for name, _, _, limit, *_ in rails},
        objective=(0.62 + 0.15 * t + rng.normal(0, 0.01, points)).tolist(),
        safe_weight=(0.9 * np.exp(-4 * t)).tolist(),
        lost=(0.01 + 0.005 * rng.random(points)).tolist(),
    )


def summary_of(name: str) -> Summary:
    made = MADE.get(name, {"small": True})
    arms, described = made.get("arms", MODELS), made.get("rails", SPENDING[: 1 + len(name) % 3])
    if name == "llm-routing":
        described = SPENDING
    shares = shares_of(len(arms))
    fresh = made.get("fresh", False)
    rails = []
    for title, unit, at_most, limit, high, served, bound in described:
        spread = abs(bound - served)
        known = [
            Arm(arm, 0 if fresh else int(20_000 * share), None if fresh else min(high, served * (0.4 + 0.25 * i)),
                0.0 if fresh else max(0.0, min(high, served * (0.4 + 0.25 * i)) - spread * (1 + 0.2 * i)),
                high if fresh else min(high, served * (0.4 + 0.25 * i) + spread * (1 + 0.2 * i)), share)
            for i, (arm, share) in enumerate(zip(arms, shares))
        ]  # fmt: skip
        known.sort(key=lambda arm: -arm.share)
        kept = served <= limit if at_most else served >= limit
        rails.append(
            Rail(title, unit, at_most, limit, 0.0, high, None if fresh else served, None if fresh else served * 1.02,
                 None if fresh else bound, known, kept)
        )  # fmt: skip
    alarm = {"kind": "served", "guardrail": "spend", "arm": None, "round": 41_200, "holds": True,
             "message": "spend was served at 0.47 cents, above its limit of 0.4"}  # fmt: skip
    return Summary(
        name, made.get("state", "running"), made.get("reason"), made.get("shadow", False), 1, 48_000, 48_213, 213,
        made.get("per_minute", 812.4), "quality", None, True, None if fresh else 0.771, None if fresh else 0.653,
        made.get("better", 0.18), 0.9 if fresh else 0.07, rails, [alarm] * made.get("alarms", 0),
        made.get("verdict", "All guardrails hold, and quality is 18 % better than with the baseline. Nothing to do."),
        made.get("tone", "good"),
    )  # fmt: skip


def detail_of(name: str, audit: bool) -> Detail:
    made, summary = MADE.get(name, {}), summary_of(name)
    arms, rails = made.get("arms", MODELS), made.get("rails", SPENDING)
    shares = shares_of(len(arms))
    waiting = [
        Waiting(
            arm,
            share,
            int(20_000 * share),
            int(90 * share),
            int(30 * share),
            0.01 + 0.002 * (i % 5),
            0.8 + 0.1 * (i % 7),
            4.5,
        )
        for i, (arm, share) in enumerate(zip(arms, shares))
    ]
    limits = [one.name for one in summary.rails]
    experiment = {
        "name": name, "arms": list(arms), "objective": {"maximise": "quality", "low": 0.0, "high": 1.0},
        "guardrails": [
            {"name": one.name, "at_most" if one.at_most else "at_least": one.limit, "low": one.low, "high": one.high,
             **({"unit": one.unit} if one.unit else {})} for one in summary.rails
        ],
        "baseline": arms[0], "baseline_costs": None, "timeout": 600.0, "policy": "solb", "options": {}, "delta": 0.05,
        "horizon": None, "margin": 0.1, "alarm_every": 1e6,
    }  # fmt: skip
    entries = [
        {"id": 3, "at": NOW - 100, "who": "ops (key 1)", "action": "hold", "experiment": name, "reason": REASON,
         "detail": {}},
        {"id": 1, "at": NOW - 90_000, "who": "ops (key 1)", "action": "create", "experiment": name, "reason": None,
         "detail": {}},
    ]  # fmt: skip
    fresh = made.get("fresh", False)
    course = course_of(arms, rails if rails else (), 1 if fresh else 40)
    recent = [
        {"seq": 48_000 - i, "id": f"f3k9-{17 + i}", "epoch": 1, "arm": arms[i % 3], "propensity": 0.7,
         "source": "feedback" if i % 4 else "timeout", "loss": 0.2, "costs": {}, "at": NOW - 3 * i}
        for i in range(8)
    ]  # fmt: skip
    return Detail(
        summary, course, waiting,
        [Watched(what, name, 0.06 + 0.21 * i) for i, name in enumerate(limits[:3]) for what in ("served", "baseline")],
        [Epoch(1, NOW - 50_000, "a tighter limit on spend", True, 0.05, 28_000),
         Epoch(0, NOW - 90_000, None, True, 0.05, 20_000)],
        0.1, summary.alarms, entries if audit else [], experiment, recent,
    )  # fmt: skip


class Fake:
    """A source of made-up data for `MADE`, for `more` other names, and for the experiments of a host.

    Of the latter, the state and the experiment are true.
    """

    def __init__(self, host: Any, more: int = 0) -> None:
        self._host = host
        self.names = [*MADE, *(f"team-{i:02}-test" for i in range(more))]
        self.verdicts: dict[str, str] = {}

    def _true(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"verdict": self.verdicts[name]} if name in self.verdicts else {}
        if name in self._host.lives:
            status = self._host.lives[name].status()
            found |= {"state": status.state, "reason": status.reason, "shadow": status.shadow, "epoch": status.epoch}
        elif name not in self.names:
            raise Unknown(f"there is no experiment {name!r}")
        return found

    async def summaries(self, names: list[str]) -> list[Summary]:
        return [replace(summary_of(name), **self._true(name)) for name in names]

    async def detail(self, name: str, audit: bool) -> Detail:
        true, detail = self._true(name), detail_of(name, audit)
        live = self._host.lives.get(name)
        experiment = detail.experiment if live is None else live.experiment.to_dict()
        return replace(detail, summary=replace(detail.summary, **true), experiment=experiment)

    async def explain(self, id: str) -> Explained:
        experiments = {DECISION: "llm-routing", ODD_DECISION: "markup"}
        if id not in experiments:
            raise Unknown(f"there is no decision {id!r}")
        odd = id != DECISION
        arm = MARKUP if odd else "balanced"
        return Explained(
            id, experiments[id], arm, 0.71, "live", 1, NOW - 60, NOW + 540, QUOTES if odd else "user-12",
            "settled by feedback", {"quality": 0.8, "spend": 0.31, "answered": True},
            [(NOW - 58, {"spend": 0.31}), (NOW - 40, {"quality": 0.8, "answered": True})],
            [(NOW, {"quality": 0.1})] if odd else [], 47_990,
            [Option(arm, 0.71, "within all limits at the upper bounds"),
             Option("in-house", 0.21, "the baseline"),
             Option("flagship", 0.08, "its spend may be as high as 0.61 cents, over 0.4")],
            47_902,
            [f"{arm} was drawn with a probability of 71 %, the largest share of the strategy.",
             "The strategy keeps every limit even if each arm costs as much as its upper bound allows.",
             "flagship has a small share because its spend may be as high as 0.61 cents, over the limit of 0.4."],
        )  # fmt: skip
