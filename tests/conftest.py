"""Hypothesis: the same examples on every run, and no deadline (the first example of a run may compile)."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "surefoot",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("surefoot")
