"""Contracts to test a policy, a confidence bound or a log against, your own included.

Inherit from `PolicyContract` or `ConfidenceContract` in a test file and define `make`, or from `StorageContract` and
define `open`, and run pytest. The package's own policies, bounds and logs are tested against the same classes. Nothing
else in the package imports this module.
"""

try:
    import hypothesis  # noqa: F401
    import pytest
except ImportError:
    raise ImportError("surefoot.testing needs pytest and hypothesis: pip install pytest hypothesis") from None

pytest.register_assert_rewrite("surefoot.testing.confidence", "surefoot.testing.policies", "surefoot.testing.storage")

from surefoot.testing.confidence import ConfidenceContract  # noqa: E402
from surefoot.testing.policies import PolicyContract  # noqa: E402
from surefoot.testing.storage import StorageContract  # noqa: E402
from surefoot.testing.worlds import make_problem, true_costs  # noqa: E402

__all__ = ["ConfidenceContract", "PolicyContract", "StorageContract", "make_problem", "true_costs"]
