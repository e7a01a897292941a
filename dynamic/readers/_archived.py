"""Samples of tar archives: which of their files belong together, and where these are, for all files at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy

from dynamic._arrays.array import Array

from ._names import starts_of
from ._order import mix
from ._tar import BLOCK, text
from ._words import Text, decimals, ending, words

__all__ = ["File", "Found", "Rule", "all_differ", "grouped", "indexed", "one_by_one"]

_FEW = 64  # extensions that are told apart by comparing with each
_OF_INDEX = 4  # words for each file in an index: extension, offset, size and name


class Rule(NamedTuple):
    """Which files of a sample are its components."""

    columns: Mapping[str, list[int]]  #: the outputs of each extension
    extensions: list[list[str]]  #: the extensions of each output
    case_sensitive: bool
    missing: str  #: the treatment of samples without a file for an output; "" is "empty", where none was asked for

    def outputs(self, extension: bytes) -> Sequence[int]:
        """Of which outputs files with an extension are."""
        word = text(extension)
        return self.columns.get(word if self.case_sensitive else word.lower(), ())


class File(NamedTuple):
    """A file of a sample."""

    extension: str
    offset: int
    size: int


class Found(NamedTuple):
    """Samples of an archive.

    Attributes:
        keys: Their names, one after the other.
        lengths: How many bytes each of these has: int64 of shape (N,).
        offsets: Where their components begin: int64 of shape (N, outputs), -1 for those that they lack.
        sizes: How many bytes they have: int64 of shape (N, outputs).
        extensions: Those of all their files, whether asked for or not.
    """

    keys: bytes
    lengths: Array
    offsets: Array
    sizes: Array
    extensions: frozenset[bytes]

    def without_lacking(self) -> Found:
        """Those that lack nothing."""
        kept = (self.offsets >= 0).all(axis=1)
        if kept.all():
            return self
        keys = numpy.frombuffer(self.keys, numpy.uint8)[numpy.repeat(kept, self.lengths)].tobytes()
        return Found(keys, self.lengths[kept], self.offsets[kept], self.sizes[kept], self.extensions)


def one_by_one(samples: Iterable[tuple[str, Sequence[File]]], rule: Rule) -> Found:
    """Samples from their names and files."""
    keys, offsets, sizes, there = list[bytes](), list[list[int]](), list[list[int]](), set[bytes]()
    for key, files in samples:
        begins, lengths = [-1] * len(rule.extensions), [0] * len(rule.extensions)
        for extension, offset, size in files:
            there.add(extension.encode("utf-8", "surrogateescape"))
            for k in rule.columns.get(extension if rule.case_sensitive else extension.lower(), ()):
                if begins[k] < 0:
                    begins[k], lengths[k] = offset, size
        keys.append(key.encode("utf-8", "surrogateescape"))
        offsets.append(begins)
        sizes.append(lengths)
    shape = len(keys), len(rule.extensions)
    return Found(
        b"".join(keys),
        numpy.array([len(key) for key in keys], numpy.int64),
        numpy.array(offsets, numpy.int64).reshape(shape),
        numpy.array(sizes, numpy.int64).reshape(shape),
        frozenset(there),
    )


def grouped(names: Text, lengths: Array, parts: Array, offsets: Array, sizes: Array, rule: Rule) -> Found:
    """The samples of an archive whose files have these names, one after the other in a text.

    Files that follow each other, and whose paths are the same up to the first dot of the name, are one sample.
    """
    ends = starts_of(lengths)
    starts, ends = ends[:-1], ends[1:]
    bases, dots = _parted(names, starts, ends)
    named = numpy.flatnonzero(dots > bases)  # no other name is before a dot
    starts, ends, dots, parts = starts[named], ends[named], dots[named], parts[named]
    first = numpy.ones(len(named), numpy.bool_)
    first[1:] = (parts[1:] != parts[:-1]) | _differ(names.data, starts, dots)
    sample = numpy.cumsum(first) - 1
    firsts = numpy.flatnonzero(first)
    extensions = numpy.minimum(dots + 1, ends)
    chosen = _chosen(names, extensions, ends, sample, len(firsts), offsets[named], sizes[named], rule)
    return Found(_joined(names.data, starts[firsts], dots[firsts]), (dots - starts)[firsts], *chosen)


def indexed(block: Text, whole: int, rule: Rule) -> Found | None:
    """The samples in lines of an index of an archive of so many bytes; None where one is not as it mostly is."""
    found = words(block)
    if found is None or len(found[0]) % _OF_INDEX:
        return None
    starts, ends = (places.reshape(-1, _OF_INDEX) for places in found)
    closes = block.data[ends] == ord("\n")
    if closes[:, :-1].any():
        return None
    numbers = decimals(block, starts[:, 1:3].ravel(), ends[:, 1:3].ravel())
    if numbers is None:
        return None
    offsets, sizes = numbers.reshape(-1, 2).T
    if (offsets % BLOCK).any() or (offsets + sizes > whole).any():
        return None
    first = numpy.ones(len(starts), numpy.bool_)
    first[1:] = closes[:-1, -1]
    sample = numpy.cumsum(first) - 1
    firsts = numpy.flatnonzero(first)
    begin, stop = starts[firsts, -1], ends[firsts, -1]
    _, dots = _parted(block, begin, stop)
    chosen = _chosen(block, starts[:, 0], ends[:, 0], sample, len(firsts), offsets, sizes, rule)
    return Found(_joined(block.data, begin, dots), dots - begin, *chosen)


def all_differ(keys: Text, lengths: Array, counts: Sequence[int]) -> bool:
    """Whether no two names in a group are the same, as far as can be told by their lengths, first and last letters."""
    ends, some = numpy.cumsum(lengths), numpy.minimum(lengths, 8)
    numbers = ending(keys, ends, some)
    for more in (ending(keys, ends - lengths + some, some), lengths, numpy.repeat(numpy.arange(len(counts)), counts)):
        mix(numbers)
        numbers ^= more.astype(numpy.uint64)
    numbers.sort()
    return not bool((numbers[1:] == numbers[:-1]).any())


def _parted(names: Text, starts: Array, ends: Array) -> tuple[Array, Array]:
    """Where the last parts of paths begin, and the first dot in there is; that is the end where there is none."""
    slashes, dots = numpy.flatnonzero(names.data == ord("/")), numpy.flatnonzero(names.data == ord("."))
    before = numpy.concatenate([[-1], slashes])[numpy.searchsorted(slashes, ends)]
    bases = numpy.maximum(starts, before + 1)
    after = numpy.append(dots, len(names.data))[numpy.searchsorted(dots, bases)]
    return bases, numpy.minimum(after, ends)


def _differ(data: Array, starts: Array, ends: Array) -> Array:
    """Whether each of some parts of a text but the first is another than the one before it."""
    lengths = ends - starts
    different = lengths[1:] != lengths[:-1]
    alike = numpy.flatnonzero(~different)
    counts = lengths[alike]
    places, within = starts_of(counts), numpy.arange(counts.sum())
    shifts = numpy.repeat(places[:-1], counts)
    unlike = (
        data[within + numpy.repeat(starts[alike], counts) - shifts]
        != (data[within + numpy.repeat(starts[alike + 1], counts) - shifts])
    )
    different[alike] = numpy.diff(starts_of(unlike)[places]) > 0
    return different


def _joined(data: Array, starts: Array, ends: Array) -> bytes:
    """Parts of a text, one after the other."""
    counts = ends - starts
    shifts = numpy.repeat(starts - starts_of(counts)[:-1], counts)
    joined: bytes = data[shifts + numpy.arange(len(shifts))].tobytes()
    return joined


def _chosen(
    names: Text, starts: Array, ends: Array, sample: Array, count: int, offsets: Array, sizes: Array, rule: Rule
) -> tuple[Array, Array, frozenset[bytes]]:
    """Where the components of samples begin, their sizes, and all extensions.

    The component of an output is the first file with such an extension.
    """
    codes, extensions = _codes(names, starts, ends)
    found = numpy.full((count, len(rule.extensions)), -1, numpy.int64)
    lengths = numpy.zeros_like(found)
    outputs = [rule.outputs(extension) for extension in extensions]
    for k in range(len(rule.extensions)):
        files = numpy.flatnonzero(numpy.array([k in some for some in outputs], numpy.bool_)[codes])
        owners = sample[files]
        first = numpy.ones(len(files), numpy.bool_)
        first[1:] = owners[1:] != owners[:-1]
        found[owners[first], k] = offsets[files[first]]
        lengths[owners[first], k] = sizes[files[first]]
    return found, lengths, frozenset(extensions)


def _codes(names: Text, starts: Array, ends: Array) -> tuple[Array, list[bytes]]:
    """Words as numbers, and the words by these."""
    lengths = ends - starts
    if len(lengths) and lengths.max() <= 8:
        letters, codes, found = ending(names, ends, lengths), numpy.full(len(starts), -1), list[bytes]()
        while len(found) < _FEW and len(left := numpy.flatnonzero(codes < 0)):
            one = left[0]
            codes[(letters == letters[one]) & (lengths == lengths[one])] = len(found)
            found.append(names.data[starts[one] : ends[one]].tobytes())
        if not (codes < 0).any():
            return codes, found
    numbers = dict[bytes, int]()
    data, spans = names.data.tobytes(), zip(starts.tolist(), ends.tolist(), strict=True)
    codes = numpy.array([numbers.setdefault(data[i:k], len(numbers)) for i, k in spans], numpy.intp)
    return codes, list(numbers)
