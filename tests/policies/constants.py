"""Policies with smaller constants: safe sets that are tight, and rates that are spent, within a short test."""

from surefoot.policies.guarded import Guarded


def shrink_radius(policy: Guarded, factor: float) -> float:
    """Multiply the squared radius of a policy that has seen nothing yet; return the new one."""
    known = policy._draft.known
    known.scale = known.scale * factor
    policy._attach()
    return float(known.scale)


def shrink_allowance(policy: Guarded, factor: float) -> float:
    """Multiply what a policy may spend before the doubling trick restarts it; return the new allowance."""
    learner = policy._draft.learner
    learner.allowance = learner.allowance * factor
    policy._attach()
    return float(learner.allowance)
