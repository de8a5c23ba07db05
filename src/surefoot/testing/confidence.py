"""The contract of every confidence bound, as a test class to inherit from."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import surefoot as sf
from surefoot.confidence import Confidence, resolve
from surefoot.rules import Floats

MEANS = np.array([0.05, 0.5, 0.9, 0.3])
RUNS = 12


class ConfidenceContract:
    """The contract of `surefoot.confidence.Confidence`, one test a clause. Inherit from it and define `make`.

    The tests read the bounds that a policy shows in `lower_costs` and `upper_costs`. A policy finds a bound by its name
    in `surefoot.confidence.FAMILY`, so enter yours there first.

    Examples
    --------
    >>> import surefoot as sf
    >>> from surefoot.testing import ConfidenceContract
    >>> class TestMine(ConfidenceContract):
    ...     @staticmethod
    ...     def make():
    ...         return sf.confidence.Betting(bets=8)
    >>> TestMine().test_the_option_survives_json()
    """

    @staticmethod
    def make() -> Confidence:
        """Build the bound under contract."""
        raise NotImplementedError

    def policy(self, seed: int = 0, horizon: int = 1_000, delta: float = 0.1) -> sf.COLB:
        """A policy that uses the bound."""
        return sf.COLB(sf.Problem(4, [0.5], horizon, delta), seed, preset="paper", confidence=self.make())

    def test_the_option_survives_json(self) -> None:
        """The bound can be written as JSON and comes back equal."""
        bound = self.make()
        assert resolve(json.loads(json.dumps(bound.option()))) == bound
        assert bound.option() in (bound.name, {"name": bound.name, **bound.parameters()})

    def test_a_horizon_is_needed_if_it_says_so(self) -> None:
        """`needs_horizon` is true: without a horizon a policy with this bound plays on, or refuses."""
        bound, endless = self.make(), sf.Problem(4, [0.5], None)
        if bound.needs_horizon:
            with pytest.raises(ValueError, match=r"problem must have a horizon for confidence .*, got horizon=None"):
                sf.COLB(endless, 0, preset="practical", confidence=bound)
        else:
            assert sf.COLB(endless, 0, preset="practical", confidence=bound).upper_costs.shape == (1, 4)

    def test_nothing_is_known_before_the_first_observation(self) -> None:
        """The first bounds allow every mean in [0, 1]."""
        policy = self.policy()
        assert (policy.lower_costs <= 0).all()
        assert (policy.upper_costs >= 1).all()

    def test_an_observation_moves_the_bounds_of_its_arm_alone(self) -> None:
        """Bounds of arms that were not played do not change."""
        policy = self.policy()
        for t in range(200):
            lower, upper = policy.lower_costs, policy.upper_costs
            policy.tell((t % 2, 0.5), 0.5, [0.25])
            others = np.arange(4) != t % 2
            assert (policy.lower_costs[:, others] == lower[:, others]).all()
            assert (policy.upper_costs[:, others] == upper[:, others]).all()

    def test_bounds_narrow_around_a_constant_cost(self) -> None:
        """After many equal costs the bounds are close to that cost on both sides."""
        policy = self.policy()
        for _ in range(600):
            policy.tell((0, 0.5), 0.5, [0.4])
        lower, upper = policy.lower_costs[0, 0], policy.upper_costs[0, 0]
        assert 0.0 < lower <= 0.4 <= upper < 0.8

    def test_bounds_are_wider_at_a_smaller_delta(self) -> None:
        """More confidence asks for wider bounds."""
        widths = []
        for delta in (0.5, 0.001):
            policy = self.policy(delta=delta)
            for t in range(600):
                policy.tell((0, 0.5), 0.5, [float(t % 2)])
            widths.append(float((policy.upper_costs - policy.lower_costs)[0, 0]))
        assert widths[0] < widths[1]

    def test_bounds_hold_with_their_probability(self) -> None:
        """All true means are within the bounds, at all times, with probability 1 - delta.

        With a delta of 0.1, more than 7 of 12 runs fail with probability 4e-6.
        """
        failed = sum(not self.run_is_clean(seed) for seed in range(RUNS))
        assert failed <= 7, f"a mean was outside its bounds in {failed} of {RUNS} runs"

    def run_is_clean(self, seed: int) -> bool:
        """True if all bounds hold throughout a run; each arm's costs are Bernoulli."""
        policy, rng = self.policy(seed), np.random.default_rng(seed)
        costs = (rng.random((1_000, 4)) < MEANS).astype(float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sf.Contradiction)  # bounds that are too narrow contradict each other
            for t in range(1_000):
                policy.tell((t % 4, 0.25), 0.5, [costs[t, t % 4]])
                if t % 10 == 0 and not inside(policy, MEANS):
                    return False
        return inside(policy, MEANS)

    def test_bounds_come_back_with_the_state(self) -> None:
        """A policy that went through JSON shows the same bounds, also after costs that rose."""
        policy = self.policy()
        for t in range(200):
            policy.tell((t % 4, 0.25), 0.5, [float(t > 100 and t % 3 == 0)])
            if t in (100, 199):
                restored = sf.COLB.from_dict(json.loads(json.dumps(policy.to_dict())))
                assert (restored.upper_costs == policy.upper_costs).all()
                assert (restored.lower_costs == policy.lower_costs).all()
                policy = restored
        assert (policy.upper_costs - policy.lower_costs).min() < 2


def inside(policy: sf.COLB, means: Floats) -> bool:
    """True if the means are within the bounds of the only guardrail."""
    return bool((policy.lower_costs[0] <= means).all() and (means <= policy.upper_costs[0]).all())
