"""Random numbers: streams and keyed draws (`RNG`), and the distributions.

Every function takes ``rng=``: a stream, which gives a batch its numbers by place, or ``rng.keyed(batch)``, which gives
every sample its own wherever it is. Both are explained in docs/randomness.md.
"""

from inspect import isfunction

from ._operators import batch_permutation, beta, choice, coin_flip, normal, uniform
from ._rng import RNG, Keyed, get_default_rng, set_seed

__all__ = [
    "RNG",
    "Keyed",
    "batch_permutation",
    "beta",
    "choice",
    "coin_flip",
    "get_default_rng",
    "normal",
    "set_seed",
    "uniform",
]


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


for _public in [globals()[name] for name in __all__]:  # errors, pickles and pages name the module of callers
    for _value in (_public, *filter(isfunction, vars(_public).values())):
        _value.__module__ = __name__
del _public, _value
