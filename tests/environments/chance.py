"""One test for all samples here: is the mean what it should be?"""

import numpy as np
from scipy.special import erfc

from surefoot.rules import Floats

ALARM = 1e-6
"""How often a test of a right model would fail, over all seeds; with the seed fixed, never or always."""


def p_value(samples: Floats, means: Floats, variances: Floats) -> float:
    """How likely sums so far from their expectation are, if the means are right (Bonferroni over what is not a round).

    `samples` has one row a round. Normal approximation: fit for hundreds of rounds and more. What has no variance must
    be equal.
    """
    means, variances = np.broadcast_to(means, samples.shape), np.broadcast_to(variances, samples.shape)
    spread = np.sqrt(variances.sum(axis=0))
    excess = np.abs((samples - means).sum(axis=0))
    random = spread > 0
    if (samples != means)[:, ~random].any():
        return 0.0
    z = excess[random] / spread[random]
    return float(min(1.0, erfc(z / np.sqrt(2)).min(initial=1.0) * random.sum()))


def flips(means: Floats) -> Floats:
    """The variance of coin flips with these means."""
    return means * (1 - means)
