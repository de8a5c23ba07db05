"""Hypothesis: which examples are tried. Without a deadline, since the first example of a run may compile.

The profile "surefoot" tries the same examples on every run. "fuzz" (``make fuzz``) tries new random ones, ten times as
many; a failure prints the line that repeats it.

`--seconds` is for `make coverage`, which runs kernels uncompiled, about a hundred times slower.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.servers import Postgres

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job ignores Ctrl-C, which tests send
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A PostgreSQL server, for tests that need a real one."""
    from tests.servers import Postgres, programs

    if programs() is None:
        pytest.skip("PostgreSQL is not installed: no initdb is found")
    folder = Path(tempfile.mkdtemp(prefix="surefoot-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    folder.chmod(0o755)
    server = Postgres(folder)
    yield server
    server.stop(signal.SIGQUIT)
    shutil.rmtree(folder)
