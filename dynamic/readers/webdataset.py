"""The reader of tar archives in which files of one name and several extensions are a sample: the WebDataset format."""

from __future__ import annotations

import functools
import hashlib
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._array import Array
from dynamic._origin import Origin
from dynamic.data import Batch
from dynamic.dtypes import DTypeLike, dtype, numpy_dtype
from dynamic.errors import ArgumentError, DataError, displayed, shown

from ._bytes import Opened, contents
from ._checks import flag, word
from ._listing import Listing, _Once, unlisted
from ._reader import Outputs
from ._stored import Common, PathLike, Stored, Unusable, names_of_files, paths_of

__all__ = ["Webdataset"]

_MISSING = ("", "empty", "skip", "error")
_VERSIONS = ("v1.1", "v1.2")
_BLOCK = 512  # bytes, of which an archive is made
_NEAR = 1 << 16  # bytes between components that are read for nothing, rather than in a second call


class Webdataset(Stored["Components", Outputs]):
    """Reads samples from tar archives in the format of WebDataset.

    The files of an archive that follow each other and whose paths are the same up to the first dot of the name are one
    sample; what follows that dot is the extension. Files whose names begin with a dot are passed over, and so is what
    is no regular file. Each output is a Batch of one-dimensional arrays, the bytes of the files with one extension.

    A sample is known by the path of its archive, below the folder that all archives lie in, and its path in there.

    Args:
        max_batch_size: Default of the batch size, and the largest that is allowed.
        name: A name to show.
        device: "cpu", where files are read.
        num_inputs: 0; readers have none.
        paths: The archives, one or several. They must not be compressed.
        ext: For each output the extension of its files, such as "jpg" or "seg.png". Several may be given, with ";"
            between them: of a sample with more than one of them, the first in the archive is taken.
        index_paths: For each archive a text file that says where its samples are, as DALI's `wds2idx` writes it
            (versions 1.1 and 1.2). By default the archives are gone through, which takes about 20 us for each file.
        dtypes: For each output the element type that its bytes are of; by default uint8.
        missing_component_behavior: What becomes of samples that lack a file for an output: "empty" (or "") gives an
            array without elements; "skip" leaves the sample out; "error" is a DataError when the samples are listed.
        case_sensitive_extensions: Whether extensions distinguish "a" from "A".

    Raises:
        ArgumentError: An argument is wrong, or there are no samples.
        DataError: An archive or an index is damaged, or a sample lacks a file and must not. The bytes of a sample are
            checked when it is read: their number must be a multiple of the size of their element type.

    >>> import io, tarfile
    >>> path = getfixture("tmp_path") / "photos.tar"
    >>> with tarfile.open(path, "w") as archive:
    ...     for name, data in [("1.jpg", b"first"), ("1.cls", b"7"), ("2.jpg", b"second"), ("2.cls", b"8")]:
    ...         entry = tarfile.TarInfo(name)
    ...         entry.size = len(data)
    ...         archive.addfile(entry, io.BytesIO(data))
    >>> reader = dynamic.readers.Webdataset(paths=path, ext=["jpg", "cls"])
    >>> for jpegs, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(jpeg.array) for jpeg in jpegs], [bytes(label.array) for label in labels])
    [b'first', b'second'] [b'7', b'8']
    """

    _operator: ClassVar[str] = "readers.Webdataset"

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
        indices = (
            () if index_paths is None or index_paths == [] else tuple(paths_of(operator, "index_paths", index_paths))
        )
        if indices and len(indices) != len(archives):
            expected = f"one for each of the {len(archives)} archives"
            raise ArgumentError(operator, "index_paths", expected, f"{len(indices)} paths")
        sensitive = flag(operator, "case_sensitive_extensions", case_sensitive_extensions, default=True)
        wanted = _extensions(ext, case_sensitive=sensitive)
        self._dtypes = _dtypes(dtypes, len(wanted))
        missing = word(operator, "missing_component_behavior", missing_component_behavior or "", _MISSING)
        columns = {extension: [k for k, some in enumerate(wanted) if extension in some]
                   for some in wanted for extension in some}  # fmt: skip
        rule = _Rule(columns, len(wanted), sensitive, missing or "empty")
        list_samples = functools.partial(_listed, archives, indices, rule)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        with Opened() as files:
            samples = self._each(indices, lambda number: self._typed(listing.components(number, files)))
        return tuple(
            Batch([sample[k] for sample in samples], origin=origin, dtype=kind, ndim=1)
            for k, kind in enumerate(self._dtypes)
        )

    def _typed(self, components: list[Array]) -> list[Array]:
        """Bytes as the element types of the outputs."""
        for k, (component, kind) in enumerate(zip(components, self._dtypes, strict=True)):
            if kind.itemsize == 1:
                components[k] = component.view(kind)
            elif len(component) % kind.itemsize:
                raise Unusable(f"output {k} has {len(component)} bytes, which is no number of {kind}")
            else:
                components[k] = component.copy().view(kind)  # a part of a file may begin anywhere
        return components


class _Rule(NamedTuple):
    """Which files of a sample are its components."""

    columns: dict[str, list[int]]  #: the outputs of each extension
    outputs: int
    case_sensitive: bool
    missing: str


class _File(NamedTuple):
    """A file of a sample."""

    extension: str
    offset: int
    size: int


@dataclass(frozen=True)
class Components(Listing):
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
        return f"{displayed(self.path(index))}: {displayed(self.names[index].rpartition('.tar/')[2])}"

    @_Once
    def sizes(self) -> Any:
        """How many bytes the components of each sample have: int64 of shape (N,)."""
        return self.counts.sum(axis=1)

    def digest(self, index: int) -> bytes:
        """A digest of the components of a sample."""
        hashed = hashlib.blake2b(digest_size=16)
        with Opened() as files:
            for component in self.components(index, files):
                hashed.update(len(component).to_bytes(8, "little"))
                hashed.update(component.data)
        return hashed.digest()

    def components(self, index: int, files: Opened) -> list[Array]:
        """The bytes of each component of a sample: in one call where they are near each other, as they mostly are."""
        path, spans = (
            self.path(index),
            list(zip(self.offsets[index].tolist(), self.counts[index].tolist(), strict=True)),
        )
        there = [(offset, offset + size) for offset, size in spans if size]
        if not there:
            return [numpy.empty(0, numpy.uint8) for _ in spans]
        start, end = min(there)[0], max(end for _, end in there)
        if end - start > sum(end - start for start, end in there) + _NEAR:
            return [files.part(path, max(offset, 0), size) for offset, size in spans]
        data = files.part(path, start, end - start)
        return [data[offset - start : offset - start + size] if size else data[:0] for offset, size in spans]


def _extensions(ext: str | Sequence[str], *, case_sensitive: bool) -> list[list[str]]:
    """For each output the extensions of its files."""
    operator, expected = Webdataset._operator, "an extension such as 'jpg', or a list with some for each output"
    given = [ext] if isinstance(ext, str) else ext
    if not isinstance(given, Sequence) or not given or not all(isinstance(some, str) for some in given):
        raise ArgumentError(operator, "ext", expected, shown(ext))
    wanted = [[one.strip().removeprefix(".") for one in some.split(";")] for some in given]
    for k, some in enumerate(wanted):
        if not all(some):
            raise ArgumentError(operator, f"ext[{k}]", "extensions with ';' between them", shown(given[k]))
    return wanted if case_sensitive else [[one.lower() for one in some] for some in wanted]


def _dtypes(dtypes: Any, outputs: int) -> list[numpy.dtype[Any]]:
    """The element type of each output."""
    if dtypes is None or (isinstance(dtypes, (list, tuple)) and not dtypes):
        return [numpy.dtype(numpy.uint8)] * outputs
    given = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]
    if len(given) != outputs:
        raise ArgumentError(Webdataset._operator, "dtypes", f"one for each of the {outputs} outputs", f"{len(given)}")
    return [numpy_dtype(dtype(each)) for each in given]


def _listed(archives: Sequence[str], indices: Sequence[str], rule: _Rule) -> Components:
    """The samples of archives."""
    names: list[str] = []
    numbers: list[int] = []
    offsets: list[list[int]] = []
    counts: list[list[int]] = []
    root, titles = names_of_files(archives)
    for number, path in enumerate(archives):
        samples = _in_index(indices[number], path) if indices else _in_archive(path)
        for key, files in samples:
            chosen = _components(files, rule)
            if -1 in chosen[0] and rule.missing != "empty":
                if rule.missing == "skip":
                    continue
                lacking = chosen[0].index(-1)
                reason = f"sample {key!r} has no file for output {lacking}"
                raise _damaged(path, reason)
            names.append(f"{titles[number]}/{key}")
            numbers.append(number)
            offsets.append(chosen[0])
            counts.append(chosen[1])
    if not names:
        raise ArgumentError(Webdataset._operator, "paths", "archives with samples of these extensions", "none in "
                            + ", ".join(map(displayed, archives[:3])))  # fmt: skip
    nothing = numpy.zeros((len(names), 0), numpy.int32)
    return Components(root, names, nothing, archives, numpy.array(numbers, numpy.int32),
                      numpy.array(offsets, numpy.int64), numpy.array(counts, numpy.int64))  # fmt: skip


def _components(files: Sequence[_File], rule: _Rule) -> tuple[list[int], list[int]]:
    """Where the components of a sample begin, and how many bytes they have."""
    offsets, sizes = [-1] * rule.outputs, [0] * rule.outputs
    for file in files:
        for k in rule.columns.get(file.extension if rule.case_sensitive else file.extension.lower(), ()):
            if offsets[k] < 0:
                offsets[k], sizes[k] = file.offset, file.size
    return offsets, sizes


_damaged = functools.partial(unlisted, Webdataset._operator)


def _in_archive(path: str) -> Iterator[tuple[str, list[_File]]]:
    """The samples of an archive: the path of each up to the first dot of its name, and its files."""
    before, files = "", list[_File]()
    for name, offset, size in _entries(path):
        key, extension = _parted(name)
        if key.rpartition("/")[2] == "":
            continue  # the name begins with a dot
        if files and key != before:
            yield before, files
            files = []
        before = key
        files.append(_File(extension, offset, size))
    if files:
        yield before, files


def _parted(name: str) -> tuple[str, str]:
    """A path up to the first dot of its name, and what follows that."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension


def _entries(path: str) -> Iterator[tuple[str, int, int]]:
    """The regular files in an archive: their names, where their bytes begin, and how many there are."""
    try:
        whole = Path(path).stat().st_size
        with tarfile.open(path, "r:", errors="surrogateescape") as archive:  # "r:" refuses compressed ones
            before = -1
            while (entry := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined] # it would keep them all
                if entry.offset <= before or entry.size < 0 or entry.offset_data + entry.size > whole:
                    raise _damaged(path, f"the archive is damaged at byte {entry.offset}")
                before = entry.offset
                if entry.isreg():
                    if entry.sparse is not None:
                        raise unlisted(
                            Webdataset._operator, path, f"{displayed(entry.name)!r} has holes, which is not supported"
                        )
                    yield entry.name, entry.offset_data, entry.size
            end = archive.offset
        last = contents(path, end, min(_BLOCK, max(whole - end, 0)))
        if not len(last) or last.any():
            raise _damaged(path, f"the archive is damaged or cut off at byte {end}")
    except DataError:
        raise
    except (tarfile.TarError, EOFError, OverflowError, RecursionError, ValueError) as error:
        raise _damaged(path, f"is no tar archive, or a damaged one: {error}") from None
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None


def _in_index(index: str, path: str) -> Iterator[tuple[str, list[_File]]]:
    """The samples of an archive as an index lists them."""
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from None
    try:
        lines = Path(index).read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError as error:
        raise _damaged(index, error.strerror or str(error)) from None
    head = lines[0].split() if lines else []
    if len(head) != 2 or head[0] not in _VERSIONS or not head[1].isdecimal():
        raise unlisted(
            Webdataset._operator,
            index,
            f"should begin with 'v1.2' and the number of samples; got {shown(lines[0] if lines else '')}",
        )
    count = int(head[1]) if len(head[1]) < 19 else -1
    if len(lines) - 1 < count or count < 0:
        raise unlisted(
            Webdataset._operator, index, f"says that there are {head[1]} samples, and lists {len(lines) - 1}"
        )
    named = head[0] == _VERSIONS[-1]
    for number, line in enumerate(lines[1 : count + 1]):
        files = _indexed(line.split(), 4 if named else 3)
        if not files:
            raise unlisted(
                Webdataset._operator,
                index,
                f"line {number + 2} lists no files as extension, offset, size: {shown(line)}",
            )
        for file in files:
            if file.offset % _BLOCK or file.offset + file.size > size:
                reason = f"line {number + 2}: {file.size} bytes from byte {file.offset} on are not in {displayed(path)}"
                raise _damaged(index, reason)
        yield _parted(line.split()[3])[0] if named else f"#{number}", files


def _indexed(words: list[str], width: int) -> list[_File]:
    """The files of a line of an index, each of so many words; none where it is damaged."""
    rows = [words[i : i + width] for i in range(0, len(words), width)]
    if not all(len(row) == width and all(w.isdecimal() and len(w) < 19 for w in row[1:3]) for row in rows):
        return []
    return [_File(row[0], int(row[1]), int(row[2])) for row in rows]
