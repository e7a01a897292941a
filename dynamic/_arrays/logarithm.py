"""The natural logarithm in single operations that IEEE 754 defines to the last bit, so that all machines agree."""

from __future__ import annotations

from typing import Any

__all__ = ["FLOAT64_TERMS", "log", "polynomial"]

_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_SQRT_HALF = 0x3FE6A09E667F3BCD  # the bits of the square root of 1/2 as a float64
FLOAT64_TERMS = 11  #: of its series, for all digits of a float64


def polynomial(z: Any, coefficients: list[float]) -> Any:
    """The value at z, the coefficient of z to the power of 0 first; z is as it was."""
    total = z * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        total += c
        total *= z
    total += coefficients[0]
    return total


def log(xp: Any, x: Any, terms: int) -> Any:
    """The natural logarithm: of the exponent, and of 1 + f in [sqrt(1/2), sqrt(2)) by the series of artanh."""
    bits = x.view(xp.int64)
    exponent = bits - _SQRT_HALF >> 52
    f = (bits - (exponent << 52)).view(xp.float64)
    f -= 1.0
    s = f + 2.0
    xp.divide(f, s, out=s)
    z = s * s
    small = polynomial(z, [2.0 / (2 * k + 3) for k in range(terms)])
    small *= z
    square = xp.multiply(f, f, out=z)
    square *= 0.5
    small += square
    small *= s
    e = exponent.astype(xp.float64)
    small += xp.multiply(e, _LN2_LOW, out=s)
    square -= small
    f -= square
    e *= _LN2_HIGH
    e += f
    return e
