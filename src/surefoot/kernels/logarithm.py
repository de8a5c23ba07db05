"""A natural logarithm that compilers turn into vector instructions, accurate to one unit in the last place.

A library's logarithm is one call per number, 10 ns. A loop over this one handles many numbers at once, 2 ns each. The
method is that of Sun's fdlibm: x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and the logarithm of
1 + f = (1 + s) / (1 - s) as a polynomial in s^2.
"""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from surefoot.kernels.compile import MERGED

extension: Any = intrinsic  # its type hints do not describe how it is called

HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the former times k is exact


@extension  # type: ignore[untyped-decorator]
def _bits(context: Any, number: Any) -> Any:
    return types.int64(types.float64), lambda _, builder, __, given: builder.bitcast(given[0], ir.IntType(64))


@extension  # type: ignore[untyped-decorator]
def _number(context: Any, bits: Any) -> Any:
    return types.float64(types.int64), lambda _, builder, __, given: builder.bitcast(given[0], ir.DoubleType())


def logarithm(x: float) -> float:
    """Ln x of a positive number that is finite and no smaller than 1e-300."""
    return math.log(x)  # if compilation is off; otherwise the code below


@overload(logarithm, jit_options=MERGED)
def _compiled_logarithm(x: Any) -> Any:
    def compiled(x: Any) -> Any:
        k = (_bits(x) - HALF_ROOT) >> 52
        f = _number(_bits(x) - (k << 52)) - 1.0
        s = f / (2.0 + f)
        z, half = s * s, 0.5 * f * f
        rest = z * (0.6666666666666735130 + z * (0.3999999999940941908 + z * (0.2857142874366239149 + z * (
            0.2222219843214978396 + z * (0.1818357216161805012 + z * (0.1531383769920937332 + z * 0.1479819860511658591)
        )))))  # fmt: skip
        return k * LN2_HIGH - ((half - (s * (half + rest) + k * LN2_LOW)) - f)

    return compiled
