"""Compiling the code of policies ahead of time."""

from __future__ import annotations

import inspect
import time
import warnings
from typing import Any

import numpy as np

from surefoot.cli.refusal import refuse
from surefoot.experiments.experiment import live_policies
from surefoot.experiments.live import warm
from surefoot.kernels.compile import kept_in
from surefoot.policies import REGISTRY
from surefoot.policies.guarded import Guarded
from surefoot.problem import Problem, SafeStrategy
from surefoot.rules import choice
from surefoot.simulation.entries import TRUTH

PROBLEM = Problem(2, [0.5], 100, safe=SafeStrategy([0.0, 1.0], costs=[0.1]))


def carry_out(names: list[str]) -> None:
    """Compile the code with which policies start, decide, learn and play blocks; print how long it took."""
    for name in names:
        try:
            choice("policy", name, tuple(REGISTRY))
        except ValueError as error:
            raise refuse(error) from None
    for name in names:
        start = time.perf_counter()
        use(name)
        if name in live_policies():
            warm(name)
        print(f"{name}: ready after {time.perf_counter() - start:.1f} s")
    folder = kept_in()
    print("nothing is kept: no folder can be written to" if folder is None else f"compiled code is kept in {folder}")


def use(name: str) -> None:
    """Build and use a policy, once for each of its presets."""
    cls = REGISTRY[name]
    options: dict[str, Any] = {TRUTH: [[0.4, 0.1]]} if TRUTH in inspect.signature(cls).parameters else {}
    presets = [{"preset": preset} for preset in cls.methods] if issubclass(cls, Guarded) else [{}]
    for preset in presets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a learning rate that is too small does not matter here
            policy = cls(PROBLEM, 1, **options, **preset)
        policy.tell(policy.ask(), 0.5, [0.5])
        shapes = (1, 2), (1, 1, 2), (1, 2), (1,)
        policy.live(*(np.zeros(shape) for shape in shapes))
        policy.live(*(np.ones(shape) for shape in shapes))
        cls.from_dict(policy.to_dict())
