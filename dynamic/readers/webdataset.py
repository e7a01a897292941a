"""The reader of tar archives in which files of one name and several extensions are a sample: the WebDataset format."""

from __future__ import annotations

import array
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.dtypes import WORDS, DTypeLike, dtype, numpy_dtype
from dynamic.errors import ArgumentError, displayed, shown
from dynamic.io._bytes import Opened, contents

from ._checks import flag, word
from ._listing import Packed, unlisted, versions_of
from ._reader import Batches
from ._stored import Common, PathLike, Stored, Unusable, called_with, names_of_files, paths_of
from ._tar import BLOCK, DIGITS, begins, members, opened, text

__all__ = ["Webdataset"]

_MISSING = ("", "empty", "skip", "error")
_VERSIONS = (b"v1.1", b"v1.2")
_NEAR = 1 << 16  # bytes between components that are read for nothing, rather than in a second call
_COMPARED = 64  # samples of an index that are looked for in the archive


class Webdataset(Stored["Components", Batches]):
    """Reads samples from tar archives in the format of WebDataset.

    The files of an archive that follow each other and whose paths are the same up to the first dot of the name are one
    sample; what follows that dot is the extension. Files whose names begin with a dot are passed over, and so is what
    is no regular file. Each output is a Batch of one-dimensional arrays, the bytes of the files with one extension.

    A sample is known by the path of its archive, below the folder that all archives lie in, and its path in there.
    Archives are ustar, GNU or pax; one that does not end with zeros was cut off, and is refused. Archives that follow
    each other in one file, as ``cat`` puts them there, are all read. One that was replaced or changed after it was
    listed is an error, whatever `on_error` says.

    Args:
        paths: The archives, one or several. They must not be compressed.
        ext: For each output the extension of its files, such as "jpg" or "seg.png". Several may be given, with ";"
            between them: of a sample with more than one of them, the first in the archive is taken.
        index_paths: For each archive a text file that says where its samples are, as DALI's `wds2idx` writes it
            (versions 1.1 and 1.2). Some samples of each are compared with the archive. By default the archives are gone
            through, which takes about 7 us for each file.
        dtypes: For each output the element type that its bytes are of, in the byte order of this machine; by default
            uint8. For bool, each byte is one, and true unless it is 0.
        missing_component_behavior: What becomes of samples that lack a file for an output: "empty" (or "") gives an
            array without elements; "skip" leaves the sample out; "error" is a DataError when the samples are listed.
        case_sensitive_extensions: Whether extensions distinguish "a" from "A".

    Raises:
        ArgumentError: An argument is wrong, or there are no samples.
        DataError: An archive or an index is damaged, or a sample lacks a file and must not. The bytes of a sample are
            checked when it is read: their number must be a multiple of the size of their element type.

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
        missing_component_behavior: str | None = "",
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
        missing = word(operator, "missing_component_behavior", missing, _MISSING)
        columns = {
            extension: [k for k, some in enumerate(wanted) if extension in some]
            for some in wanted
            for extension in some
        }
        rule = _Rule(columns, wanted, sensitive, missing or "empty")
        list_samples = functools.partial(_listed, archives, indices, rule)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        with Opened(listing.versions) as files:
            samples = self._each(indices, lambda number: self._typed(listing.components(number, files)))
        return tuple(
            Batch([sample[k] for sample in samples], origin=origin, dtype=kind, ndim=1)
            for k, kind in enumerate(self._dtypes)
        )

    def _typed(self, components: list[Array]) -> list[Array]:
        """Bytes as the element types of the outputs."""
        for k, (component, kind) in enumerate(zip(components, self._dtypes, strict=True)):
            if len(component) % kind.itemsize:
                raise Unusable(f"output {k} has {len(component)} bytes, which is no number of {kind}")
            components[k] = component != 0 if kind.kind == "b" else component.view(kind)  # no bool has other bits
        return components


class _Rule(NamedTuple):
    """Which files of a sample are its components."""

    columns: dict[str, list[int]]  #: the outputs of each extension
    extensions: list[list[str]]  #: the extensions of each output
    case_sensitive: bool
    missing: str


class _File(NamedTuple):
    """A file of a sample."""

    extension: str
    offset: int
    size: int


@dataclass(frozen=True)
class Components(Packed):
    """The samples of archives.

    Attributes:
        archives: The path of each archive.
        numbers: For each sample the number of its archive: int32 of shape (N,).
        offsets: Where its components begin there: int64 of shape (N, outputs), -1 for those that it lacks.
        counts: How many bytes they have: int64 of shape (N, outputs).
    """

    archives: Sequence[str]
    numbers: Any
    offsets: Any
    counts: Any

    def path(self, index: int) -> str:
        """The archive of a sample."""
        return self.archives[int(self.numbers[index])]

    def source(self, index: int) -> str:
        """What to call a sample where it cannot be read."""
        path = self.path(index)
        return f"{displayed(path)}: {displayed(self.names[index][len(os.path.relpath(path, self.root)) + 1 :])}"

    def sizes_of(self, indices: Any) -> Any:
        """How many bytes the components of some samples have: int64 of shape (N,)."""
        return self.counts[indices].sum(axis=1)

    def digest(self, index: int) -> bytes:
        """A digest of the components of a sample."""
        hashed = hashlib.blake2b(digest_size=16)
        with Opened(self.versions) as files:
            for component in self.components(index, files):
                hashed.update(len(component).to_bytes(8, "little"))
                hashed.update(component.data)
        return hashed.digest()

    def components(self, index: int, files: Opened) -> list[Array]:
        """The bytes of each component of a sample: in one call where they are near each other, as they mostly are."""
        path, offsets, sizes = self.path(index), self.offsets[index].tolist(), self.counts[index].tolist()
        spans = list(zip(offsets, sizes, strict=True))
        there = [(offset, offset + size) for offset, size in spans if size]
        if not there:
            return [numpy.empty(0, numpy.uint8) for _ in spans]
        start, end = min(there)[0], max(end for _, end in there)
        if end - start > sum(sizes) + _NEAR:
            return [files.part(path, max(offset, 0), size) for offset, size in spans]
        data = files.part(path, start, end - start)
        return [data[offset - start : offset - start + size] if size else data[:0] for offset, size in spans]


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


def _listed(archives: Sequence[str], indices: Sequence[str], rule: _Rule) -> Components:
    """The samples of archives."""
    names: list[str] = []
    numbers, offsets, counts = array.array("i"), array.array("q"), array.array("q")  # lists would be ten times as large
    root, titles = names_of_files(archives)
    versions = versions_of(archives)
    for number, path in enumerate(archives):
        samples = _in_index(indices[number], path) if indices else _in_archive(path)
        for key, files in samples:
            starts, sizes = _components(files, rule)
            if -1 in starts and rule.missing != "empty":
                if rule.missing == "skip":
                    continue
                lacking = starts.index(-1)
                wanted = " or ".join(map(repr, rule.extensions[lacking]))
                reason = f"sample {key!r} has no file for output {lacking}, with the extension {wanted}"
                raise _damaged(path, reason)
            names.append(f"{titles[number]}/{key}")
            numbers.append(number)
            offsets.extend(starts)
            counts.extend(sizes)
    if not names:
        raise ArgumentError(
            Webdataset._operator,
            "paths",
            "archives with samples of these extensions",
            "none in " + ", ".join(map(displayed, archives[:3])),
        )
    shape, nothing = (len(names), len(rule.extensions)), numpy.zeros((len(names), 0), numpy.int32)
    return Components(
        root,
        names,
        nothing,
        versions,
        archives,
        numpy.array(numbers, numpy.int32),
        numpy.array(offsets, numpy.int64).reshape(shape),
        numpy.array(counts, numpy.int64).reshape(shape),
    )


def _components(files: Sequence[_File], rule: _Rule) -> tuple[list[int], list[int]]:
    """Where the components of a sample begin, and how many bytes they have."""
    offsets, sizes = [-1] * len(rule.extensions), [0] * len(rule.extensions)
    for extension, offset, size in files:
        for k in rule.columns.get(extension if rule.case_sensitive else extension.lower(), ()):
            if offsets[k] < 0:
                offsets[k], sizes[k] = offset, size
    return offsets, sizes


_damaged = functools.partial(unlisted, Webdataset._operator)


def _in_archive(path: str) -> Iterator[tuple[str, list[_File]]]:
    """The samples of an archive: the path of each up to the first dot of its name, and its files."""
    before, files = ("", 0), list[_File]()
    for name, offset, size, part in _entries(path):
        key, extension = _parted(name)
        if key.rpartition("/")[2] == "":
            continue  # the name begins with a dot
        if files and (key, part) != before:
            yield before[0], files
            files = []
        before = key, part
        files.append(_File(extension, offset, size))
    if files:
        yield before[0], files


def _parted(name: str) -> tuple[str, str]:
    """A path up to the first dot of its name, and what follows that."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension


def _entries(path: str) -> Iterator[tuple[str, int, int, int]]:
    """The regular files in an archive: their names, where their bytes begin, how many there are, and in which part."""
    try:
        with opened(path) as file:
            yield from members(file)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def _in_index(index: str, path: str) -> Iterator[tuple[str, list[_File]]]:
    """The samples of an archive as an index lists them."""
    fault = functools.partial(unlisted, Webdataset._operator, index)
    try:
        lines = contents(index).tobytes().rstrip().split(b"\n")
    except OSError as error:
        raise fault(error.strerror or str(error)) from None
    head, count = lines[0].split(), len(lines) - 1
    if len(head) != 2 or head[0] not in _VERSIONS or not head[1].isdigit():
        raise fault(f"should begin with 'v1.2' and the number of samples; got {shown(text(lines[0]))}")
    if head[1].lstrip(b"0") != (b"%d" % count).lstrip(b"0"):
        raise fault(f"says that there are {text(head[1][:20])} samples, and lists {count}")
    try:
        archive = opened(path)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    with archive:
        whole, named = os.fstat(archive.fileno()).st_size, head[0] == _VERSIONS[-1]
        for number, line in enumerate(lines[1:]):
            files, key = _indexed(line, 4 if named else 3)
            if not files:
                raise fault(f"line {number + 2} lists no files as extension, offset, size: {shown(text(line))}")
            compared = number % -(-count // _COMPARED) == 0
            for _, start, size in files:
                if start % BLOCK or start + size > whole or (compared and not begins(archive, start, size)):
                    raise fault(f"line {number + 2}: {displayed(path)} has no file of {size} bytes at byte {start}")
            yield _parted(key)[0] if named else f"#{number}", files


def _indexed(line: bytes, width: int) -> tuple[list[_File], str]:
    """The files in a line of an index, each of so many words, and the last of those; no files where it is damaged."""
    words = line.split()
    rows = [words[i : i + width] for i in range(0, len(words), width)]
    if not all(
        len(row) == width and (row[1] + row[2]).isdigit() and len(max(row[1:3], key=len)) <= DIGITS for row in rows
    ):
        rows = _with_spaces(line.removesuffix(b"\r")) if width == 4 else []
    return [_File(text(row[0]), int(row[1]), int(row[2])) for row in rows], text(rows[0][-1]) if rows else ""


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
