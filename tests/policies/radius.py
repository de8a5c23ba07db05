"""Policies with a smaller confidence radius than the paper's, under which safe sets are tight within a short test."""

from surefoot.policies.mirror import MirrorDescent


def shrink_radius(policy: MirrorDescent, factor: float) -> float:
    """Multiply the squared radius of a policy that has seen nothing yet; return the new one."""
    known = policy._state.known
    scale = float(known.scale * factor)
    policy._state = policy._state._replace(known=known._replace(scale=scale))
    policy._leaves = tuple(scale if leaf is known.scale else leaf for leaf in policy._leaves)
    return scale
