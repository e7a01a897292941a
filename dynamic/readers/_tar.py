"""Tar archives: where the files in them lie. Not by `tarfile`, which some headers make hang, or take all memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy

from dynamic._arrays.array import Array
from dynamic.errors import displayed, shown
from dynamic.io._remote import Ranged

__all__ = [
    "AHEAD",
    "BLOCK",
    "DIGITS",
    "begins",
    "header_fits",
    "headers_tell",
    "members",
    "plain_members",
    "size_of",
    "text",
]

BLOCK = 512  # bytes, of which an archive is made
_ZEROS = bytes(BLOCK)
AHEAD = 1 << 12  # bytes that are read with a header: small files, and the headers after them
_FILES = b"0\0007"  # types of files
_LINKS = b"123456"  # types of links, devices and folders: of them there are no bytes, whatever size they have
_AHEAD_OF_FILES = b"LKxXg"  # types of headers that tell more of the file after them
DIGITS = 18  # of a size in text, at most
_RECORDS, _SPARSE = (b"path", b"size"), b"GNU.sparse."  # those of their records that are looked at
_LONGEST = 1 << 20  # bytes of the headers that hold a name or records of a file; where there are more it is damaged
_NAME = 100  # bytes of a header, at most
_KIND = 156  # the place of the type of the file after a header
_FEW, _MANY = 16, 4096  # headers that are looked at together, at first and at most
_SMALL, _WINDOW = 1 << 12, 1 << 18  # bytes of a file and its header, of which many are read at once, and how many
_AT_ONCE = 1 << 20  # bytes that are looked through for an end of zeros
_MOST_ZEROS = 1 << 24  # bytes behind the end of an archive; writers fill up a block of some kB, at most some MB
_OCTAL = 1 << 33  # bytes: sizes from here on do not fit where a header has them
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\3\4": "zip"}


def size_of(file: BinaryIO) -> int:
    """How many bytes a file has that is open, here or in a store."""
    return file.size if isinstance(file, Ranged) else os.fstat(file.fileno()).st_size


def plain_members(file: BinaryIO) -> tuple[Array, Array, Array, Array, int]:
    """The files that an archive begins with, as far as their headers are as most are, all at once.

    Returns:
        Their names one after the other (uint8), and how many bytes each has; where their bytes begin, and how many
        there are; and where the first other header is.
    """
    whole, at = size_of(file), 0
    names, lengths, starts, sizes = list[Array](), list[Array](), list[Array](), list[Array]()
    near = False
    while True:
        some = (_near_headers if near else _far_headers)(file, at, whole)
        other = numpy.flatnonzero(~_are_plain(some.headers))
        count = int(other[0]) if len(other) else len(some.headers)
        files = numpy.flatnonzero(some.headers[:count, _KIND] == ord("0"))
        titles = some.headers[files, :_NAME]
        closed = numpy.column_stack([titles == 0, numpy.ones(len(titles), numpy.bool_)])
        lengths.append(closed.argmax(axis=1))
        names.append(titles[numpy.arange(_NAME) < lengths[-1][:, None]])
        starts.append(some.starts[files])
        sizes.append(some.sizes[files])
        if not count or count < len(some.headers):
            break
        near, at = some.behind - at < count * _SMALL, some.behind
    at = int(some.starts[count]) - BLOCK if count < len(some.headers) else some.behind
    columns = [numpy.concatenate(column) for column in (names, lengths, starts, sizes)]
    return columns[0], columns[1], columns[2], columns[3], at


class _Some(NamedTuple):
    """Some headers, each of which tells where the next one is."""

    headers: Array  #: uint8 of shape (N, 512)
    starts: Array  #: where the bytes of their files begin
    sizes: Array
    behind: int  #: where the next header is


def _far_headers(file: BinaryIO, at: int, whole: int) -> _Some:
    """The next headers that may be of files, read one by one: there is much between them."""
    headers, starts, sizes = list[bytes](), list[int](), list[int]()
    begin = at
    while len(headers) < _FEW or (len(headers) < _MANY and at - begin >= len(headers) * _SMALL):
        block = _read_at(file, BLOCK, at)
        try:
            size = int(block[124:135], 8)
        except ValueError:
            break
        if len(block) < BLOCK or not 0 <= size <= whole - at - BLOCK:
            break
        headers.append(block)
        starts.append(at + BLOCK)
        sizes.append(size)
        at += BLOCK + -(-size // BLOCK) * BLOCK
    table = numpy.frombuffer(b"".join(headers), numpy.uint8).reshape(-1, BLOCK)
    return _Some(table, numpy.array(starts, numpy.int64), numpy.array(sizes, numpy.int64), at)


def _near_headers(file: BinaryIO, at: int, whole: int) -> _Some:
    """The same for many that are near each other: each block of a part of the archive is taken for a header first."""
    data = _read_at(file, _WINDOW, at)
    table = numpy.frombuffer(data, numpy.uint8, len(data) // BLOCK * BLOCK).reshape(-1, BLOCK)
    digits = table[:, 124:135] - numpy.uint8(ord("0"))
    sizes = digits.astype(numpy.int64) @ (8 ** numpy.arange(10, -1, -1))
    starts = at + BLOCK * numpy.arange(1, len(table) + 1)
    following = numpy.arange(1, len(table) + 1) + -(-sizes // BLOCK)
    following[(digits > 7).any(axis=1) | (sizes > whole - starts)] = -1
    chain, place, nexts = list[int](), 0, following.tolist()
    while place < len(nexts) and (after := nexts[place]) >= 0:
        chain.append(place)
        place = after
    return _Some(table[chain], starts[chain], sizes[chain], at + BLOCK * place)


def _read_at(file: BinaryIO, size: int, at: int) -> bytes:
    if isinstance(file, Ranged):
        return file.read_at(size, at)
    if hasattr(os, "pread"):
        data: bytes = os.pread(file.fileno(), size, at)
        return data
    file.seek(at)  # pragma: no cover - Windows
    return file.read(size)


def _are_plain(headers: Array) -> Array:
    """Whether headers are of files or folders, whose names and sizes stand where they mostly do, and sums are right."""
    kinds, sizes, sums = headers[:, _KIND], headers[:, 124:135], headers[:, 148:154]
    right = (kinds == ord("0")) | ((kinds == ord("5")) & (sizes == ord("0")).all(axis=1))
    right &= (headers[:, 345] == 0) & (headers[:, 0] != 0)
    for digits in (sizes, sums):
        right &= ((digits >= ord("0")) & (digits <= ord("7"))).all(axis=1)
    right &= numpy.isin(headers[:, [135, 154, 155]], (0, ord(" "))).all(axis=1)
    told = (sums - numpy.uint8(ord("0"))).astype(numpy.int64) @ (8 ** numpy.arange(5, -1, -1))
    found = headers.sum(axis=1, dtype=numpy.int64) - headers[:, 148:156].sum(axis=1, dtype=numpy.int64)
    right &= told == found + 8 * ord(" ")
    return right


def members(file: BinaryIO, at: int = 0) -> Iterator[tuple[str, int, int, int]]:
    """The regular files in an archive: their names, where their bytes begin, how many there are, and in which part.

    Behind the zeros that end an archive another may begin, the next part.

    Args:
        file: The archive.
        at: Where the first header is that is looked at.

    Raises:
        ValueError: The archive is damaged; the message says where.
    """
    whole, part = size_of(file), 0
    records: dict[bytes, bytes] = {}  # fields for the next file in headers of their own
    told = 0  # bytes in these headers
    while True:
        file.seek(at)
        block = file.read(BLOCK)
        if block == _ZEROS:
            at += BLOCK
            following = file.read(BLOCK)
            if following.strip(b"\0"):
                continue  # one alone ends nothing
            if records:
                raise ValueError(f"is damaged at byte {at}: it ends where a file should follow")
            at = _behind_zeros(file, at + len(following))
            if at == whole:
                break
            part += 1
            continue
        kind, name, size = _header(block, at, records)
        at += BLOCK
        if size > whole - at:
            raise ValueError(f"is damaged or cut off: {size} bytes should follow byte {at}")
        if kind in _AHEAD_OF_FILES:
            told += size
            if told > _LONGEST:
                raise ValueError(f"is damaged at byte {at}: headers of more than {_LONGEST} bytes for one file")
            records |= _records(kind, file.read(size), at)
        else:
            if kind in _FILES:
                yield text(name), at, size, part
            records, told = {}, 0
        at += -(-size // BLOCK) * BLOCK


def _behind_zeros(file: BinaryIO, at: int) -> int:
    """Where the block of an archive begins that is not all zeros, from some place on; or where the archive ends."""
    start = at
    while data := file.read(_AT_ONCE):
        if left := len(data.lstrip(b"\0")):
            return at + (len(data) - left) // BLOCK * BLOCK
        at += len(data)
        if at - start > _MOST_ZEROS:
            raise ValueError(f"is damaged at byte {start}: more than {_MOST_ZEROS} zeros follow")
    return at


def _header(block: bytes, at: int, records: dict[bytes, bytes]) -> tuple[bytes, bytes, int]:
    """The type, name and size of the file after a header, by its fields and the records of headers before it."""
    kind, size = block[156:157], _octal(block[124:136])
    summed = block[:148] + block[156:]
    total = 256 + sum(summed.translate(None, b"\0"))  # most bytes are 0
    signed = [total - 256 * sum(byte > 127 for byte in summed)] if _octal(block[148:156]) != total else []
    if len(block) < BLOCK or size is None or (signed and _octal(block[148:156]) not in signed):
        raise ValueError(_no_header(block, at))
    name = block[:100].partition(b"\0")[0]
    if block[345] and block[257:263] == b"ustar\0":  # GNU has other things in this place
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    if kind in _AHEAD_OF_FILES:
        return kind, name, size
    if records:
        told = records.get(b"size") or b"%d" % size
        if not told.isdigit() or len(told) > DIGITS:
            raise ValueError(f"is damaged at byte {at}: a size of {shown(text(told))}")
        name, size = records.get(b"path") or name, int(told)
    if kind == b"S" or any(key.startswith(_SPARSE) for key in records):
        raise ValueError(f"has holes in {displayed(text(name))}, which is not supported")
    return kind, name, 0 if kind in _LINKS else size


def _no_header(block: bytes, at: int) -> str:
    """The error of an archive that lacks a header in some place."""
    packed = [word for magic, word in _PACKED.items() if block.startswith(magic)]
    if packed and not at:
        return f"is compressed ({packed[0]}), and must be unpacked first"
    if len(block) < BLOCK:
        return f"is cut off: it ends at byte {at + len(block)} without the zeros that close an archive"
    return f"is damaged at byte {at}" if at else "is no tar archive, or a damaged one"


def _octal(field: bytes) -> int | None:
    """The number in a field of a header; None where there is none."""
    if field[:1] >= b"\x80":
        return int.from_bytes(field[1:], "big") + (field[0] - 0x80 << 88)  # a negative one is beyond any file
    digits = field.partition(b"\0")[0].strip(b" ") or b"0"
    return None if digits.strip(b"01234567") else int(digits, 8)


def _records(kind: bytes, data: bytes, at: int) -> dict[bytes, bytes]:
    """The fields for the next file in a header of its own: its name alone, or lines "length key=value"."""
    if kind == b"L":
        return {b"path": data.partition(b"\0")[0]}
    found: dict[bytes, bytes] = {}
    place, end = 0, len(data.rstrip(b"\0")) if kind in b"xX" else 0
    while place < end:
        length = data[place : place + 20].partition(b" ")[0]
        size = int(length) if length.isdigit() else 0
        line = data[place : place + size]
        key, _, value = line[len(length) + 1 :].partition(b"=")
        if len(line) < size or not value.endswith(b"\n"):
            raise ValueError(f"is damaged at byte {at + place}: no record of a header")
        if key in _RECORDS or key.startswith(_SPARSE):
            found[key] = value[:-1]
        place += size
    return found


def text(name: bytes) -> str:
    """A name as text; other bytes are surrogates (PEP 383)."""
    return name.decode("utf-8", "surrogateescape")


def begins(archive: BinaryIO, start: int, size: int) -> bool:
    """Whether the bytes of a regular file of this size begin in some place of an archive."""
    archive.seek(max(start - BLOCK, 0))
    return start > 0 and header_fits(archive.read(BLOCK), size)


def header_fits(block: bytes | Array, size: int) -> bool:
    """Whether a block is the header of a regular file of this size."""
    try:
        kind, _, told = _header(bytes(block), 0, {})
    except ValueError:
        return False
    return kind in _FILES and (told == size or size >= _OCTAL)


def headers_tell(memory: Array, places: Array, sizes: Array) -> Array:
    """Whether before some places there are headers that tell files of these sizes, in the way that most do."""
    field = places[..., None] + (numpy.arange(124, 135) - BLOCK)
    digits = memory.take(field, mode="clip") - numpy.uint8(ord("0"))
    told = digits.astype(numpy.int64) @ (8 ** numpy.arange(10, -1, -1))
    kinds = memory.take(places + (_KIND - BLOCK), mode="clip")
    right: Array = (digits < 8).all(axis=-1) & (told == sizes) & (kinds == ord("0"))
    return right
