"""Policies with smaller constants: safe sets that are tight, and rates that are spent, within a short test."""

from surefoot.policies.mirror import MirrorDescent

from surefoot.policies.base import leaves


def shrink_radius(policy: MirrorDescent, factor: float) -> float:
    """Multiply the squared radius of a policy that has seen nothing yet; return the new one."""
    known = policy._state.known
    scale = float(known.scale * factor)
    policy._state = policy._state._replace(known=known._replace(scale=scale))
    policy._leaves = tuple(leaves(policy._state))
    return scale


def shrink_allowance(policy: MirrorDescent, factor: float) -> float:
    """Multiply what a policy may spend before the doubling trick restarts it; return the new allowance."""
    learner = policy._state.learner
    allowance = float(learner.allowance * factor)
    policy._state = policy._state._replace(learner=learner._replace(allowance=allowance))
    policy._leaves = tuple(leaves(policy._state))
    return allowance
