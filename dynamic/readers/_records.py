"""Records that lie one after the other in files: where they are, by going through the files or by an index."""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Self, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic.errors import ArgumentError, displayed, shown
from dynamic.io._address import is_address
from dynamic.io._bytes import Span, Version
from dynamic.io._remote import Wanted, parts
from dynamic.io._store import DISK, Store

from ._listing import Packed, unlisted, versions_of
from ._names import Names
from ._stored import names_of_files
from ._tar import size_of
from ._words import blocks, decimals, words

__all__ = ["Beginnings", "InFiles", "Places", "pairs_in", "whole_of"]

#: Where the records of a file begin, and how many bytes of data they have: int64.
Places: TypeAlias = tuple[Array, Array]

_SMALL, _WALKED = 1 << 11, 1 << 18  # bytes of records of which many are read to see where they are, and how many
_EMPTY = numpy.empty(0, numpy.int64)
_LINE = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*")


@dataclass(frozen=True)
class InFiles(Packed):
    """The samples of files of records.

    Attributes:
        files: The path of each file.
        numbers: For each sample the number of its file: int32 of shape (N,).
        offsets: Where its record begins there: int64 of shape (N,).
        counts: How many bytes of data it has: int64 of shape (N,).
        before: How many bytes lie before the data of each record.
        after: How many lie behind it.
    """

    before: ClassVar[int] = 0
    after: ClassVar[int] = 0

    files: Sequence[str]
    numbers: Any
    offsets: Any
    counts: Any

    @classmethod
    def of(
        cls,
        operator: str,
        files: Sequence[str],
        indices: Sequence[str],
        store: Store,
        find: Callable[[int, str, str | None, Store, Mapping[str, Version]], Places],
    ) -> Self:
        """The records of files.

        Args:
            operator: The reader.
            files: Their paths.
            indices: Those of their indices, one for each; or none.
            store: Where all lie.
            find: Finds the records of a file by its number and path, and the path of its index.
        """
        files, indices = [store.plain(path) for path in files], [store.plain(path) for path in indices]
        store = store if any(map(is_address, [*files, *indices])) else DISK
        root, titles = names_of_files(files)
        versions = versions_of(operator, files, store)
        found: list[Places] = [(_EMPTY, _EMPTY)] * len(files)

        def find_one(i: int) -> None:
            found[i] = find(i, files[i], indices[i] if indices else None, store, versions)

        store.each(find_one, len(files))
        counts = [len(places) for places, _ in found]
        if not sum(counts):
            told = ", ".join(map(displayed, files[:3]))
            raise ArgumentError(operator, "path", "files with records", f"none in {told}")
        names = Names([os.fsencode(f"{title}#") for title in titles], counts, distinct=len(set(titles)) == len(titles))
        return cls(
            root,
            names,
            numpy.zeros((len(names), 0), numpy.int32),
            versions,
            files,
            numpy.repeat(numpy.arange(len(files), dtype=numpy.int32), counts),
            numpy.concatenate([places for places, _ in found]),
            numpy.concatenate([sizes for _, sizes in found]),
            store=store,
        )

    def path(self, index: int) -> str:
        """The file of a sample."""
        return self.files[int(self.numbers[index])]

    def source(self, index: int) -> str:
        """The name of a sample in errors."""
        return f"{displayed(self.path(index))}: record {self.names[index].rpartition('#')[2]}"

    def sizes_of(self, indices: Any) -> Any:
        """How many bytes of data some records have: int64 of shape (N,)."""
        return self.counts[indices]

    def digest(self, index: int) -> bytes:
        """A digest of the data of a record."""
        path, start, size = self.path(index), int(self.offsets[index]) + self.before, int(self.counts[index])
        data = self.store.contents(path, start, size, version=self.versions.get(path))
        return hashlib.blake2b(data.data, digest_size=16).digest()

    def wanted(self, indices: list[int]) -> list[Wanted]:
        """The parts of objects that some records are."""
        return parts(self.spans(indices), self.versions)

    def span(self, index: int) -> Span:
        """The place of a record with its frame."""
        return self.spans([index])[0]

    def spans(self, indices: list[int]) -> list[Span]:
        """Where some records are."""
        numbers, starts = self.numbers[indices], self.offsets[indices]
        sizes = self.counts[indices] + (self.before + self.after)
        paths = [self.files[number] for number in numbers.tolist()]
        return list(zip(paths, starts.tolist(), sizes.tolist(), strict=True))


class Beginnings:
    """The first bytes of the records of a file. Where these are small, many are read at once.

    Args:
        file: The file.
        size: How many bytes of each are asked for.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._first, self._data = 0, b""  # the last bytes that were read, and their place

    def at(self, place: int, count: int) -> bytes:
        """Those of the record at some place, before which there are so many records."""
        here = place - self._first
        if here + self._size > len(self._data):
            self._file.seek(place)
            self._first, here = place, 0
            self._data = _some_of(self._file, _WALKED if count * _SMALL > place else self._size)
        return self._data[here : here + self._size]


def _some_of(file: BinaryIO, size: int) -> bytes:
    """The next bytes of a file, so many if it has them."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def whole_of(operator: str, path: str, store: Store, version: Version | None) -> int:
    """The size of a file of records."""
    try:
        with store.file(path, version=version) as file:
            return size_of(file)
    except OSError as error:
        raise unlisted(operator, path, error.strerror or str(error)) from None


def pairs_in(operator: str, index: str, store: Store, expected: str) -> tuple[Array, Sequence[int]]:
    """The two numbers in each line of an index, int64 of shape (N, 2), and the numbers of the lines.

    Args:
        operator: The reader.
        index: The path of the index.
        store: Where it lies.
        expected: Their description, for errors.
    """
    damaged = functools.partial(unlisted, operator, index)
    try:
        data = store.contents(index)
    except OSError as error:
        raise damaged(error.strerror or str(error)) from None
    plain = _plain_pairs(data)
    if plain is not None:
        return plain, range(1, len(plain) + 1)
    found, lines = list[tuple[int, int]](), list[int]()
    for number, line in enumerate(data.tobytes().split(b"\n"), 1):
        if words_of_line := _LINE.fullmatch(line):
            found.append((int(words_of_line[1]), int(words_of_line[2])))
            lines.append(number)
        elif line.strip():
            raise damaged(f"line {number} should be {expected}; got {shown(line)}")
    return numpy.array(found, numpy.int64).reshape(-1, 2), lines


def _plain_pairs(data: Array) -> Array | None:
    """The numbers of an index as it mostly is, all at once: int64 of shape (N, 2)."""
    found_parts = list[Array]()
    for text in blocks(data.tobytes().replace(b"\t", b" ")):
        found = words(text)
        if found is None or len(found[1]) % 2:
            return None
        plain = (text.data[found[1]].reshape(-1, 2) == (ord(" "), ord("\n"))).all()
        numbers = decimals(text, *found) if plain else None
        if numbers is None:
            return None
        found_parts.append(numbers.reshape(-1, 2))
    return numpy.concatenate(found_parts) if found_parts else None
