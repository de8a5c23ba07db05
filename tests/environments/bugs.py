"""A mark for tests that show a bug in the package."""

import pytest


def bug(why: str) -> pytest.MarkDecorator:
    """The test fails because of a bug; when that is mended it passes, and fails for the mark until the mark is gone."""
    return pytest.mark.xfail(strict=True, reason=f"BUG: {why}")
