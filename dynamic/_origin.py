"""Where samples came from: readers put it on their batches, operators hand it on, errors and keyed draws use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

__all__ = ["Origin"]


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The epoch and the identity of the samples of a batch, in the order of the batch."""

    epoch: int
    ids: Any  #: uint64 array of shape (N,): the sample ids
    names: Sequence[str]  #: N names to tell a person: paths relative to the reader's root

    def __len__(self) -> int:
        return len(self.names)

    def take(self, indices: Sequence[int]) -> Origin:
        """The origin of some of the samples."""
        return Origin(self.epoch, self.ids[numpy.asarray(indices, numpy.intp)], [self.names[i] for i in indices])

    @staticmethod
    def joined(origins: Sequence[Origin | None]) -> Origin | None:
        """The origin of samples put together, or None where one has none or their epochs differ."""
        if origins[0] is None:
            return None
        known = [origin for origin in origins if origin is not None]
        if not known or len(known) != len(origins) or len({origin.epoch for origin in known}) > 1:
            return None
        names = [name for origin in known for name in origin.names]
        return Origin(known[0].epoch, numpy.concatenate([origin.ids for origin in known]), names)
