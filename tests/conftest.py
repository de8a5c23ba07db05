"""Hypothesis: which examples are tried. Without a deadline, since the first example of a run may compile.

The profile "surefoot" tries the same examples on every run. "fuzz" (``make fuzz``) tries new random ones, ten times as
many; a failure prints the line that repeats it.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "surefoot")
MORE = 10

settings.register_profile(
    "surefoot",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fuzz", settings.get_profile("surefoot"), derandomize=False, print_blob=True)
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Multiply the examples of every test, those that state their number included, in the profile "fuzz"."""
    if PROFILE != "fuzz":
        return
    functions = [item.obj for item in items if isinstance(item, pytest.Function)]
    for test in {getattr(function, "__func__", function) for function in functions}:
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            test._hypothesis_internal_use_settings = settings(chosen, max_examples=MORE * chosen.max_examples)
