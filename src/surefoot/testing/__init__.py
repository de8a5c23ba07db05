"""Contracts to test a policy or a confidence bound against, your own included.

Inherit from `PolicyContract` or `ConfidenceContract` in a test file, define `make`, and run pytest. The package's own
policies and bounds are tested against the same classes. Nothing else in the package imports this module.
"""

try:
    import hypothesis  # noqa: F401
    import pytest
except ImportError:
    raise ImportError("surefoot.testing needs pytest and hypothesis: pip install pytest hypothesis") from None

pytest.register_assert_rewrite("surefoot.testing.confidence", "surefoot.testing.policies")

from surefoot.testing.confidence import ConfidenceContract  # noqa: E402
from surefoot.testing.policies import PolicyContract  # noqa: E402
from surefoot.testing.worlds import make_problem, true_costs  # noqa: E402

__all__ = ["ConfidenceContract", "PolicyContract", "make_problem", "true_costs"]
