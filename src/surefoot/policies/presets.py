"""Presets of COLB and SOLB: one named field per feature."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The features of a preset.

    Examples
    --------
    >>> PRESETS["practical"].optimism, PRESETS["guaranteed"].forgets
    (0.5, False)
    """

    name: str
    follows: bool
    """Whether the proposal follows the regularised leader; else it is found by mirror descent, as in the paper."""
    optimism: float = 1.0
    """How much of the distance between a mean cost and its lower bound the proposal believes; 1 keeps the benchmark."""
    lag: float = 0.0
    """How far the proposal may be behind the losses (`kernels/follower.py`)."""
    forgets: bool = False
    """Whether losses that have changed are forgotten (`kernels/record.py`)."""
    caps_baseline: bool = False
    """Whether losses count from at most weight / (2 rate), so that no step is too long for the proof."""
    mixes_anchors: bool = False
    """Whether SOLB may mix in arms that are certified safe, beside the safe strategy."""
    plays_program: bool = False
    """Whether SOLB plays the solution of a linear program beside the proposal (`kernels/plans.py`)."""


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("practical", True, 0.5, 0.3, forgets=True, mixes_anchors=True, plays_program=True),
        Preset("guaranteed", True, caps_baseline=True),
        Preset("led", True, lag=0.25, forgets=True, caps_baseline=True, mixes_anchors=True, plays_program=True),
        Preset("paper", False),
    )
}
