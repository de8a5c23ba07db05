"""Policies with smaller constants: safe sets that are tight, and rates that are spent, within a short test."""

from surefoot.policies.guarded import Guarded


def shrink_radius(policy: Guarded, factor: float) -> float:
    """Multiply the squared radius of a policy that has seen nothing yet; return the new one."""
    return shrink(policy, "known", "scale", factor)


def shrink_allowance(policy: Guarded, factor: float) -> float:
    """Multiply what a policy may spend before the doubling trick restarts it; return the new allowance."""
    return shrink(policy, "learner", "allowance", factor)


def shrink(policy: Guarded, part: str, constant: str, factor: float) -> float:
    """Multiply a constant of a policy's state; return the new one."""
    draft = getattr(policy._draft, part)
    setattr(draft, constant, factor * getattr(draft, constant))
    policy._attach()
    return float(getattr(draft, constant))
