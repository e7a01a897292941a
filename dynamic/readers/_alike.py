"""Samples that are arrays for each output, which must be of one type in a batch."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.errors import DataError, Failure
from dynamic.io._bytes import is_of_the_system

from ._listing import Listing, _Once
from ._reader import Batches
from ._stored import Stored, Unusable

__all__ = ["Alike"]

L = TypeVar("L", bound=Listing)
_Kinds: TypeAlias = "list[tuple[numpy.dtype[Any], int]]"


class _Of(NamedTuple):
    """The types and dimensions of a sample."""

    kinds: _Kinds
    source: str  #: the sample, for errors


class Alike(Stored[L, Batches]):
    """A reader of samples that are arrays.

    The arrays of an output must have one dtype and number of dimensions, those of the first sample of the batch; where
    others are left out (`on_error`), of the first readable sample of all, whatever the batches.
    """

    def _sample(self, index: int) -> list[Array]:
        """The arrays of a sample."""
        raise NotImplementedError

    def _outputs(self, samples: list[list[Array]], indices: list[int], empty: _Kinds, origin: Origin) -> Batches:
        """The batches of samples with these numbers; where all were left out, of these types if no sample tells."""
        listing = self._listing
        of = self._of_all if self._on_error != "raise" else None
        if not samples:
            kinds = of.kinds if of else empty
            return tuple(Batch([], origin=origin, dtype=dtype, ndim=ndim) for dtype, ndim in kinds)
        of = of or _Of(_kinds_of(samples[0]), listing.source(indices[0]))
        failures = list[Failure]()
        for i, sample in enumerate(samples):
            for k, (found, wanted) in enumerate(zip(_kinds_of(sample), of.kinds, strict=True)):
                if found != wanted:
                    reason = f"output {k} is {_told(found)}, where that of {of.source} is {_told(wanted)}"
                    failures.append(Failure(i, reason, source=listing.source(indices[i])))
                    break
        if failures:
            raise DataError(self._operator, failures, len(samples))
        return tuple(Batch(list(column), origin=origin) for column in zip(*samples, strict=True))

    @_Once
    def _of_all(self) -> _Of | None:
        for i in self._listing.rows.tolist():
            try:
                return _Of(_kinds_of(self._sample(i)), self._listing.source(i))
            except Unusable:
                continue  # it is named when its turn comes
            except OSError as error:
                if not is_of_the_system(error):
                    raise
        return None


def _kinds_of(sample: list[Array]) -> _Kinds:
    return [(array.dtype, array.ndim) for array in sample]


def _told(kind: tuple[numpy.dtype[Any], int]) -> str:
    return f"{kind[0]} of {kind[1]} dimensions"
