"""Where samples came from: readers put it on their batches, operators hand it on, errors and keyed draws use it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

__all__ = ["Origin", "sample_ids"]


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


def sample_ids(names: Iterable[bytes], hashes: Any = None) -> Any:
    """The ids of samples: uint64 hashes of their names, or those hashes where they are known.

    A name that occurs again is another sample: its second occurrence is hashed with a zero byte (which no path holds)
    and a 1 behind it, the third with a 2.

    >>> from dynamic._base.origin import sample_ids
    >>> [hex(i) for i in sample_ids([b"a", b"b", b"a"])]
    ['0x2f42665b399ef840', '0x754f854de3c27284', '0x1430b8865a685cd']
    """
    names = list(names) if isinstance(names, Iterator) else names  # where some occur again it is gone through again
    found = _hashes(names) if hashes is None else hashes
    ordered = numpy.sort(found)
    if (ordered[1:] == ordered[:-1]).any():  # else no name occurs again
        found = _hashes(_told_apart(names))
    return found


def _told_apart(names: Iterable[bytes]) -> Iterator[bytes]:
    seen: Counter[bytes] = Counter()
    for name in names:
        yield name + b"\0%d" % seen[name] if seen[name] else name
        seen[name] += 1


def _hashes(names: Iterable[bytes]) -> Any:
    blake2b = hashlib.blake2b
    hashes = b"".join([blake2b(name, digest_size=8).digest() for name in names])
    return numpy.frombuffer(hashes, "<u8").astype(numpy.uint64)
