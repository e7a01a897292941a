"""The reader of tar archives in which files of one name and several extensions are a sample: the WebDataset format."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.dtypes import WORDS, DTypeLike, dtype, numpy_dtype
from dynamic.errors import ArgumentError, displayed, shown
from dynamic.io._address import is_address
from dynamic.io._bytes import Opened, Span, Version, is_of_the_system
from dynamic.io._remote import OpenedThere, Wanted, parts
from dynamic.io._store import DISK, Store

from ._archived import File, Found, Rule, all_differ, grouped, indexed, one_by_one
from ._checks import flag, word
from ._listing import Packed, unlisted, versions_of
from ._names import Names
from ._reader import Batches
from ._stored import Common, PathLike, Stored, Unusable, called_with, names_of_files, paths_of
from ._tar import AHEAD, BLOCK, DIGITS, begins, header_fits, headers_tell, members, plain_members, size_of, text
from ._words import Text, blocks

__all__ = ["Webdataset"]

_SHOWN = 12  # extensions that an error names
_MISSING = ("", "empty", "skip", "error")
_VERSIONS = (b"v1.1", b"v1.2")
_NEAR = 1 << 16  # bytes between components that are read for nothing, rather than in a second call
_FAR = 1 << 62  # bytes; no archive has so many
_COMPARED, _LEAST_COMPARED = 64, 2  # samples of indexes that are looked for in the archives first, and in each of them


class Webdataset(Stored["Components", Batches]):
    """Reads samples from tar archives in the format of WebDataset.

    Neighbouring files with one path up to the first dot of the name are a sample. The rest after that dot is the
    extension. Hidden files, and all but regular files, are passed over. Each output is a Batch of one-dimensional
    arrays: the bytes of the files with one extension.

    The name of a sample is the path of its archive, below the common folder of all archives, and its path in there.
    Archives are ustar, GNU or pax. One without zeros at its end was cut off, and is refused. Concatenated archives in
    one file are all read. An archive that changes after the listing is an error, whatever `on_error` is.

    Args:
        paths: The archives, one or several. They must not be compressed.
        ext: The extension of the files of each output, such as "jpg" or "seg.png". ";" separates alternatives: the
            first in the archive is taken.
        index_paths: An index for each archive: a text file with the places of its samples, as DALI's `wds2idx` writes
            it (versions 1.1 and 1.2). It is compared with the archive at each read, and for some samples at once. By
            default the archives are walked through, 1 to 4 us for each file.
        dtypes: The element type of the bytes of each output, in the byte order of this machine; by default uint8. For
            bool each byte is an element, true unless it is 0.
        missing_component_behavior: The treatment of samples that lack a file for an output: "empty" (or "") gives an
            array without elements; "skip" leaves the sample out; "error" is a DataError when the samples are listed. By
            default "empty", and an output for which no sample at all has a file is an ArgumentError.
        case_sensitive_extensions: Whether extensions distinguish "a" from "A".

    Raises:
        ArgumentError: An argument is wrong, there are no samples, or none has a file for an output.
        DataError: An archive or an index is damaged, or a sample lacks a file. At a read: the bytes of a sample are no
            multiple of the size of an element.

    >>> import io, pathlib, tarfile, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "photos.tar")
    >>> with tarfile.open(path, "w") as archive:
    ...     for name, data in [("1.jpg", b"first"), ("1.cls", b"7"), ("2.jpg", b"second"), ("2.cls", b"8")]:
    ...         entry = tarfile.TarInfo(name)
    ...         entry.size = len(data)
    ...         archive.addfile(entry, io.BytesIO(data))
    >>> reader = ndd.readers.Webdataset(paths=path, ext=["jpg", "cls"])
    >>> for jpegs, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(jpeg.array) for jpeg in jpegs], [bytes(label.array) for label in labels])
    [b'first', b'second'] [b'7', b'8']
    """

    _operator: ClassVar[str] = "readers.Webdataset"

    @called_with("paths")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        paths: PathLike | Sequence[PathLike],
        ext: str | Sequence[str],
        index_paths: PathLike | Sequence[PathLike] | None = None,
        dtypes: DTypeLike | Sequence[DTypeLike] = None,
        missing_component_behavior: str | None = None,
        case_sensitive_extensions: bool | None = True,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        archives = tuple(paths_of(operator, "paths", paths))
        listed = index_paths is not None and not (isinstance(index_paths, list) and not index_paths)
        indices = tuple(paths_of(operator, "index_paths", index_paths)) if index_paths is not None and listed else ()
        if indices and len(indices) != len(archives):
            expected = f"one for each of the {len(archives)} archives"
            raise ArgumentError(operator, "index_paths", expected, f"{len(indices)} paths")
        sensitive = flag(operator, "case_sensitive_extensions", case_sensitive_extensions, default=True)
        wanted = _extensions(ext, case_sensitive=sensitive)
        self._dtypes = _dtypes(dtypes, len(wanted))
        missing = "" if missing_component_behavior is None else missing_component_behavior
        missing = word(operator, "missing_component_behavior", missing, _MISSING) or "empty"
        missing = missing if missing_component_behavior is not None else ""
        columns = {
            extension: [k for k, some in enumerate(wanted) if extension in some]
            for some in wanted
            for extension in some
        }
        rule = Rule(columns, wanted, sensitive, missing)
        list_samples = functools.partial(_listed, archives, indices, rule)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        with listing.opened() as files:
            samples = self._each(
                indices,
                lambda number: self._typed(listing.components(number, files)),
                lambda numbers: self._read_many(numbers, files),
            )
        return tuple(
            Batch([sample[k] for sample in samples], origin=origin, dtype=kind, ndim=1)
            for k, kind in enumerate(self._dtypes)
        )

    def _read_many(
        self, numbers: list[int], files: Opened | OpenedThere
    ) -> tuple[list[list[Array]], dict[int, Exception]]:
        """The components of many samples, and errors by their places."""
        listing = self._listing
        near, spans = listing.spans(numbers)
        samples: list[list[Array]] = [[]] * len(numbers)
        errors = dict[int, Exception]()
        places = numpy.flatnonzero(near).tolist()
        for piece in files.pieces(spans):
            here = slice(piece.first, piece.first + len(piece.offsets) - 1)
            begins = numpy.array([start for _, start, _ in spans[here]])
            shifts = numpy.array(piece.offsets[:-1]) - begins
            some = [numbers[place] for place in places[here]]
            found, wrong = listing.taken(some, piece.memory, shifts)
            for i, place in enumerate(places[here]):
                if (error := piece.errors.get(piece.first + i)) is not None:
                    errors[place] = error
                else:
                    samples[place] = found[i]
                    if wrong[i]:
                        near[place] = False  # one by one, its error says why
        for place, number in enumerate(numbers):
            try:
                if place not in errors:
                    samples[place] = self._typed(samples[place] if near[place] else listing.components(number, files))
            except Unusable as error:
                errors[place] = error
            except OSError as error:
                if not is_of_the_system(error):
                    raise
                errors[place] = error
        return samples, errors

    def _typed(self, components: list[Array]) -> list[Array]:
        """Bytes as the element types of the outputs."""
        if self._dtypes == [numpy.uint8] * len(components):
            return components
        for k, (component, kind) in enumerate(zip(components, self._dtypes, strict=True)):
            if len(component) % kind.itemsize:
                raise Unusable(f"output {k} has {len(component)} bytes, which is no number of {kind}")
            components[k] = component != 0 if kind.kind == "b" else component.view(kind)  # no bool has other bits
        return components


@dataclass(frozen=True)
class Components(Packed):
    """The samples of archives.

    Attributes:
        archives: The path of each archive.
        numbers: For each sample the number of its archive: int32 of shape (N,).
        offsets: Where its components begin there: int64 of shape (N, outputs), -1 for those that it lacks.
        counts: How many bytes they have: int64 of shape (N, outputs).
        indexed: Whether an index says so, which is compared with the archive where a sample is read.
    """

    archives: Sequence[str]
    numbers: Any
    offsets: Any
    counts: Any
    indexed: bool = field(default=False, kw_only=True)

    def path(self, index: int) -> str:
        """The archive of a sample."""
        return self.archives[int(self.numbers[index])]

    def source(self, index: int) -> str:
        """The name of a sample in errors."""
        path = self.path(index)
        below = path.removeprefix(self.root + "/") if self.store.far else os.path.relpath(path, self.root)
        return f"{displayed(path)}: {displayed(self.names[index][len(below) + 1 :])}"

    def sizes_of(self, indices: Any) -> Any:
        """How many bytes the components of some samples have: int64 of shape (N,)."""
        return self.counts[indices].sum(axis=1)

    def digest(self, index: int) -> bytes:
        """A digest of the components of a sample."""
        hashed = hashlib.blake2b(digest_size=16)
        with self.opened() as files:
            for component in self.components(index, files):
                hashed.update(len(component).to_bytes(8, "little"))
                hashed.update(component.data)
        return hashed.digest()

    def components(self, index: int, files: Opened | OpenedThere) -> list[Array]:
        """The bytes of each component of a sample: in one call where they are near each other, as they mostly are."""
        path, offsets, sizes = self.path(index), self.offsets[index].tolist(), self.counts[index].tolist()
        spans = list(zip(offsets, sizes, strict=True))
        there = [(offset, offset + size) for offset, size in spans if size]
        for offset, end in there if self.indexed else ():
            if not header_fits(files.part(path, max(offset - BLOCK, 0), BLOCK), end - offset):
                raise Unusable(f"has no file of {end - offset} bytes at byte {offset}, where its index lists one")
        if not there:
            return [numpy.empty(0, numpy.uint8) for _ in spans]
        start, end = min(there)[0], max(end for _, end in there)
        if end - start > sum(sizes) + _NEAR:
            return [files.part(path, max(offset, 0), size) for offset, size in spans]
        data = files.part(path, start, end - start)
        return [data[offset - start : offset - start + size] if size else data[:0] for offset, size in spans]

    def wanted(self, indices: list[int]) -> list[Wanted]:
        """The parts of objects that some samples are."""
        return parts(self.spans(indices)[1], self.versions)

    def spans(self, indices: list[int]) -> tuple[Array, list[Span]]:
        """Which samples have components that are near each other, and where these are, with the headers before them.

        They end with blocks, so that those which follow each other in an archive can be read in one call.
        """
        offsets, sizes = self.offsets[indices], self.counts[indices]
        starts = numpy.where(sizes > 0, offsets, _FAR).min(axis=1) - BLOCK
        ends = -(-numpy.where(sizes > 0, offsets + sizes, 0).max(axis=1) // BLOCK) * BLOCK
        near = (starts >= 0) & (ends > starts) & (ends - starts <= sizes.sum(axis=1) + _NEAR)
        spans = list[Span]()
        for number, start, end in zip(
            self.numbers[indices][near].tolist(), starts[near].tolist(), ends[near].tolist(), strict=True
        ):
            path = self.archives[number]
            version = self.versions.get(path)
            spans.append((path, start, (end if version is None else min(end, version.size)) - start))
        return near, spans

    def taken(self, indices: list[int], memory: Array, shifts: Array) -> tuple[list[list[Array]], list[bool]]:
        """The components of samples that are in memory, and which of them are not as an index says.

        Args:
            indices: The numbers of the samples.
            memory: Where they are.
            shifts: Added to places in the archive, they make places in the memory.
        """
        sizes = self.counts[indices]
        places = self.offsets[indices] + shifts[:, None]
        wrong = numpy.zeros(len(indices), numpy.bool_)
        if self.indexed and len(memory):
            wrong = ((sizes > 0) & ~headers_tell(memory, places, sizes)).any(axis=1)
        firsts, ends = numpy.where(sizes > 0, places, 0), numpy.where(sizes > 0, places + sizes, 0)
        rows = zip(firsts.tolist(), ends.tolist(), strict=True)
        return [[memory[i:k] for i, k in zip(*row, strict=True)] for row in rows], wrong.tolist()


def _extensions(ext: str | Sequence[str], *, case_sensitive: bool) -> list[list[str]]:
    """For each output the extensions of its files."""
    operator, expected = Webdataset._operator, "an extension such as 'jpg', or a list with some for each output"
    given = [ext] if isinstance(ext, str) else ext
    if not isinstance(given, Sequence) or not given or not all(isinstance(some, str) for some in given):
        raise ArgumentError(operator, "ext", expected, shown(ext))
    wanted = []
    for k, some in enumerate(given):
        plain = [one.strip().removeprefix(".") for one in some.split(";")]
        if not any(plain):
            raise ArgumentError(operator, f"ext[{k}]", "extensions with ';' between them", shown(some))
        words = filter(None, dict.fromkeys([*plain, *some.split(";")]))  # a name may have two dots, or a space
        wanted.append([word if case_sensitive else word.lower() for word in words])
    return wanted


def _dtypes(dtypes: Any, outputs: int) -> list[numpy.dtype[Any]]:
    """The element type of each output."""
    if dtypes is None or (isinstance(dtypes, (list, tuple)) and not dtypes):
        return [numpy.dtype(numpy.uint8)] * outputs
    given = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]
    if len(given) != outputs:
        raise ArgumentError(Webdataset._operator, "dtypes", f"one for each of the {outputs} outputs", f"{len(given)}")
    found = []
    for k, each in enumerate(given):
        try:
            found.append(numpy_dtype(dtype(each)))
        except ArgumentError:
            raise ArgumentError(Webdataset._operator, f"dtypes[{k}]", WORDS, shown(each)) from None
    return found


def _listed(archives: Sequence[str], indices: Sequence[str], rule: Rule, store: Store) -> Components:
    """The samples of archives."""
    parts, counts = list[Found](), list[int]()
    archives, indices = [store.plain(path) for path in archives], [store.plain(path) for path in indices]
    store = store if any(map(is_address, [*archives, *indices])) else DISK
    root, titles = names_of_files(archives)
    versions = versions_of(Webdataset._operator, archives, store)
    fewest = max(_COMPARED // len(archives), _LEAST_COMPARED)
    looked = list[list[Found]]([[]]) * len(archives)

    def look(i: int) -> None:
        path = archives[i]
        version = versions.get(path)
        looked[i] = (
            _in_index(indices[i], path, rule, fewest, store, version)
            if indices
            else [_in_archive(path, rule, store, version)]
        )

    store.each(look, len(archives))
    for path, found in zip(archives, looked, strict=True):
        if rule.missing == "error":
            for part in found:
                _check_whole(part, path, rule)
        kept = [part.without_lacking() if rule.missing == "skip" else part for part in found]
        parts += kept
        counts.append(sum(len(part.lengths) for part in kept))
    if not sum(counts):
        raise ArgumentError(
            Webdataset._operator,
            "paths",
            "archives with samples of these extensions",
            "none in " + ", ".join(map(displayed, archives[:3])),
        )
    if not rule.missing:
        _check_outputs(archives, parts, rule)
    keys, lengths = b"".join(part.keys for part in parts), numpy.concatenate([part.lengths for part in parts])
    distinct = len(set(titles)) == len(titles) and all_differ(
        Text(numpy.frombuffer(keys, numpy.uint8)), lengths, counts
    )
    return Components(
        root,
        Names([os.fsencode(f"{title}/") for title in titles], counts, keys, lengths, distinct=distinct),
        numpy.zeros((len(lengths), 0), numpy.int32),
        versions,
        archives,
        numpy.repeat(numpy.arange(len(archives), dtype=numpy.int32), counts),
        numpy.concatenate([part.offsets for part in parts]),
        numpy.concatenate([part.sizes for part in parts]),
        indexed=bool(indices),
        store=store,
    )


def _check_outputs(archives: Sequence[str], parts: Sequence[Found], rule: Rule) -> None:
    """Refuse outputs for which no sample has a file: their extensions are mistyped."""
    for k, some in enumerate(rule.extensions):
        if any((part.offsets[:, k] >= 0).any() for part in parts):
            continue
        there = sorted({text(extension) for part in parts for extension in part.extensions})
        alike = {extension.lower() for extension in some}.intersection(map(str.lower, there))
        hint = "Pass case_sensitive_extensions=False." if alike else ""
        hint = hint or "Pass missing_component_behavior='empty' for components without elements."
        names = ", ".join(f"'{displayed(extension)}'" for extension in there[:_SHOWN])
        told = ", ".join(map(displayed, archives[:3])) + ", ..." * (len(archives) > 3)
        expected = f"an extension in {told}: {names}" + ", ..." * (len(there) > _SHOWN)
        raise ArgumentError(Webdataset._operator, f"ext[{k}]", expected, shown(";".join(some)), hint)


def _check_whole(found: Found, path: str, rule: Rule) -> None:
    """Refuse samples that lack a file."""
    for sample, output in numpy.argwhere(found.offsets < 0)[:1].tolist():
        ends = numpy.cumsum(found.lengths)
        key = text(found.keys[ends[sample] - found.lengths[sample] : ends[sample]])
        wanted = " or ".join(map(repr, rule.extensions[output]))
        raise _damaged(path, f"sample {key!r} has no file for output {output}, with the extension {wanted}")


_damaged = functools.partial(unlisted, Webdataset._operator)


def _in_archive(path: str, rule: Rule, store: Store, version: Version | None) -> Found:
    """The samples of an archive: the path of each up to the first dot of its name, and its files."""
    try:
        with store.file(path, AHEAD, version) as file:
            names, lengths, starts, sizes, at = plain_members(file)
            others = list(members(file, at))
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    parts = numpy.zeros(len(starts), numpy.int64)
    if others:
        titles = [name.encode("utf-8", "surrogateescape") for name, *_ in others]
        names = numpy.concatenate([names, numpy.frombuffer(b"".join(titles), numpy.uint8)])
        lengths = numpy.append(lengths, [len(title) for title in titles])
        rest = numpy.array([numbers for _, *numbers in others], numpy.int64)
        starts, sizes = numpy.append(starts, rest[:, 0]), numpy.append(sizes, rest[:, 1])
        parts = numpy.append(parts, rest[:, 2])
    return grouped(Text(names), lengths, parts, starts, sizes, rule)


def _parted(name: str) -> tuple[str, str]:
    """A path up to the first dot of its name, and the rest."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension


def _in_index(index: str, path: str, rule: Rule, fewest: int, store: Store, version: Version | None) -> list[Found]:
    """The samples of an archive as an index lists them, of which so many are looked for in the archive."""
    fault = functools.partial(unlisted, Webdataset._operator, index)
    try:
        data = store.contents(index).tobytes().rstrip()
    except OSError as error:
        raise fault(error.strerror or str(error)) from None
    first, _, rest = data.partition(b"\n")
    head, count = first.split(), data.count(b"\n")
    if len(head) != 2 or head[0] not in _VERSIONS or not head[1].isdigit():
        raise fault(f"should begin with 'v1.2' and the number of samples; got {shown(text(first))}")
    if head[1].lstrip(b"0") != (b"%d" % count).lstrip(b"0"):
        raise fault(f"says that there are {text(head[1][:20])} samples, and lists {count}")
    try:
        archive = store.file(path, AHEAD, version)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    with archive:
        whole, named = size_of(archive), head[0] == _VERSIONS[-1]
        lines, step = rest.split(b"\n") if count else [], -(-count // fewest)
        parts = [indexed(block, whole, rule) for block in blocks(rest)] if named else [None]
        plain = [part for part in parts if part is not None]

        def samples(numbers: range) -> Iterator[tuple[str, list[File]]]:
            for number in numbers:
                line = lines[number]
                files, key = _indexed(line, 4 if named else 3)
                if not files:
                    raise fault(f"line {number + 2} lists no files as extension, offset, size: {shown(text(line))}")
                compared = number % step == 0
                for _, start, size in files:
                    if start % BLOCK or start + size > whole or (compared and not begins(archive, start, size)):
                        raise fault(f"line {number + 2}: {displayed(path)} has no file of {size} bytes at byte {start}")
                yield _parted(key)[0] if named else f"#{number}", files

        if len(plain) < len(parts):
            return [one_by_one(samples(range(count)), rule)]
        for _ in samples(range(0, count, step or 1)):
            pass  # the others are compared when they are read
        return plain


def _indexed(line: bytes, width: int) -> tuple[list[File], str]:
    """The files in a line of an index, each of so many words, and the last of those; no files where it is damaged."""
    words = line.split()
    rows = [words[i : i + width] for i in range(0, len(words), width)]
    if not all(
        len(row) == width and (row[1] + row[2]).isdigit() and len(max(row[1:3], key=len)) <= DIGITS for row in rows
    ):
        rows = _with_spaces(line.removesuffix(b"\r")) if width == 4 else []
    return [File(text(row[0]), int(row[1]), int(row[2])) for row in rows], text(rows[0][-1]) if rows else ""


def _with_spaces(line: bytes) -> list[list[bytes]]:
    """The files in a line of an index: extension, offset, size, and a name that may have spaces. None if damaged.

    A name ends where its extension does. Each byte is looked at a few times, however long the line is.
    """
    rows, place = list[list[bytes]](), 0
    while place < len(line):
        row = list[bytes]()
        for _ in range(3):
            if (end := line.find(b" ", place)) < 0:
                return []
            row.append(line[place:end])
            place = end + 1
        if not (row[1] and row[2] and (row[1] + row[2]).isdigit() and len(max(row[1:], key=len)) <= DIGITS):
            return []
        ending = b"." + row[0]
        end = line.find(ending + b" ", place + 1)
        end = end + len(ending) if end >= 0 else len(line) if line.endswith(ending, place + 1) else place
        if end == place or line[place : place + 1].isspace():
            return []
        rows.append([*row, line[place:end]])
        place = end + 1
    return rows
