"""Two ways to try examples: always the same ones (`make test`), and ten times as many new ones (`make fuzz`)."""

import os
import subprocess
import sys

import pytest
from hypothesis import settings

STATES_ITS_NUMBER = "tests/environments/test_losses.py::test_where_blocks_are_cut_does_not_matter[nu_1]"


@pytest.mark.parametrize(("profile", "examples"), [("surefoot", 20), ("fuzz", 200)])
def test_fuzzing_tries_ten_times_as_many_examples(profile: str, examples: int) -> None:
    command = [sys.executable, "-m", "pytest", "--hypothesis-show-statistics", STATES_ITS_NUMBER]
    environment = os.environ | {"HYPOTHESIS_PROFILE": profile}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"Stopped because settings.max_examples={examples}\n" in done.stdout, done.stdout + done.stderr


def test_only_fuzzing_tries_new_examples() -> None:
    assert settings.get_profile("surefoot").derandomize
    assert not settings.get_profile("fuzz").derandomize
