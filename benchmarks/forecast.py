"""How well `surefoot forecast` forecasts: measured over formula, on scenarios drawn at random."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from surefoot.policies.presets import PRESETS
from surefoot.theory.plan import FORECAST_PRESETS, Forecast
from surefoot.theory.rehearsal import live, world_of

SEED, SCENARIOS, RUNS, WORK = 2026, 40, 3, 5e6
CHOICES = {
    "n_arms": (3, 4, 6, 10, 20), "n_constraints": (1, 1, 2, 3), "margin": (0.05, 0.1, 0.15, 0.25, 0.3),
    "delta": (0.1, 0.05, 0.01, 0.001), "deviation": (0.5, 0.5, 0.2, 0.1, 0.05), "gap": (0.05, 0.1, 0.2, 0.3),
}  # fmt: skip


def drawn(slacks: tuple[float, ...], rng: np.random.Generator) -> Iterator[Forecast]:
    """Forecasts whose scenarios take seconds to try."""
    while True:
        made = {name: rng.choice(values).item() for name, values in {**CHOICES, "slack": slacks}.items()}
        made["n_arms"] = max(made["n_arms"], made["n_constraints"] + 2)
        forecast = Forecast(**made)
        if forecast.loose_after * forecast.n_arms * (forecast.n_constraints + 1) < WORK:
            yield forecast


def as_made(forecast: Forecast) -> Forecast:
    """With the deviation that the arms of the best strategy have in the scenario, rather than that at the threshold."""
    world = world_of(forecast)
    means = world.costs[0, : forecast.support]
    return replace(forecast, deviation=math.sqrt(np.mean(means * (1 - means)) / (world.concentration + 1)))


def report(presets: tuple[str, ...] = FORECAST_PRESETS) -> None:
    rng = np.random.default_rng(SEED)
    for name, slacks, times in (("held back", (0.0,), 2), ("slack", (0.02, 0.05, 0.1, 0.15), 10)):
        found: dict[str, list[float]] = {}
        scenarios = drawn(slacks, rng)
        for number in range(SCENARIOS):
            forecast = next(scenarios)
            rounds = int(max(times * forecast.loose_after, 4 * forecast.break_even, 5000))
            measured = {}
            for preset in presets:
                said = replace(as_made(forecast), optimism=PRESETS[preset].optimism)
                runs = np.array([live(forecast, preset, 1000 * SEED + RUNS * number + i, rounds) for i in range(RUNS)])
                measured[preset] = loose, weights, even = runs.mean(axis=0)
                found.setdefault(f"{preset}: loose", []).append(loose / said.loose_after)
                found.setdefault(f"{preset}: sum of shares", []).append(weights / said.safe_rounds)
                found.setdefault(f"{preset}: not loose in time", []).append(float((runs[:, 0] > 0.9 * rounds).any()))
                if said.others:
                    found.setdefault(f"{preset}: it pays", []).append(even / said.break_even)
            for preset in [one for one in presets if one != "guaranteed" in presets]:
                ratio = measured[preset][0] / measured["guaranteed"][0]
                found.setdefault(f"{preset} / guaranteed", []).append(ratio)
        for what, ratios in found.items():
            if what.endswith("in time"):
                print(f"{name}: {what}: {sum(ratios):.0f} of {SCENARIOS} scenarios")
                continue
            least, low, middle, high, most = np.quantile(ratios, [0, 0.1, 0.5, 0.9, 1])
            print(f"{name}: {what}: median {middle:.2f}, 80 % {low:.2f} to {high:.2f}, range {least:.3f} to {most:.2f}")


if __name__ == "__main__":
    report()
