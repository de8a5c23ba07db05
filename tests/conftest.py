"""Hypothesis: the same examples on every run, and no deadline (the first example of a run may compile).

`--seconds` is for `make coverage`, which runs kernels uncompiled, about a hundred times slower.
"""

import signal
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "surefoot",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("surefoot")


OURS = tuple(str(Path(__file__).parents[1] / folder) for folder in ("src", "tests"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, help="stop each test after this much computing time, as if skipped")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    seconds = item.config.getoption("--seconds")
    if seconds is None:
        return (yield)

    def stop(_: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename.startswith(OURS):
            pytest.skip(f"stopped after {seconds:g} s")
        signal.setitimer(signal.ITIMER_PROF, 0.01)  # other people's code may hold a lock: wait until it returns

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
