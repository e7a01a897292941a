"""Which files a reader has: a snapshot of their names and labels, in a fixed order."""

# ruff: noqa: PTH100, PTH117, PTH118, PTH120 - paths are strings here: a data set has millions

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import sample_ids
from dynamic._base.pool import run
from dynamic.errors import ArgumentError, DataError, EmptyClassWarning, Failure, displayed, shown, warn_caller
from dynamic.io._address import BY_HTTP, check_address, is_address, scheme_of
from dynamic.io._bytes import NotOfTheSample, Opened, Version, _at_once, can_be, is_of_the_system, kind_of
from dynamic.io._remote import Edition, OpenedThere, Remote, Wanted, wholes
from dynamic.io._store import DISK, Store

from ._labels import Labels, labels_given, lines_of
from ._names import Names, normal
from ._order import sorted_by

__all__ = [
    "FILE_FILTERS",
    "Listing",
    "Packed",
    "as_it_is",
    "folders_in",
    "is_folder",
    "is_sample",
    "listed_below",
    "listed_files",
    "listed_folder",
    "listed_lines",
    "listed_names",
    "listed_paths",
    "matcher",
    "packed",
    "unlisted",
    "versions_of",
]

#: The endings that are taken for data where no `file_filters` are given.
FILE_FILTERS = (
    "*.jpg",
    "*.jpeg",
    "*.png",
    "*.bmp",
    "*.tif",
    "*.tiff",
    "*.pnm",
    "*.ppm",
    "*.pgm",
    "*.pbm",
    "*.jp2",
    "*.webp",
    "*.flac",
    "*.ogg",
    "*.wav",
)

_ENDING = re.compile(r"\*[ -)+->@-Z^-~]*")  # a pattern of names that end so: "*" and ASCII that means itself
_NAMED = 5  # folders that a warning names
_MARK = b"\xef\xbb\xbf"  # that a text is UTF-8, which some editors put before it
_NOTHING = re.compile(r"/(?:\.?/)+")  # separators that mean the same as "/" in a path


X = TypeVar("X")


class _Once(Generic[X]):
    """A property that is found out once. That of `functools` holds a lock in Python 3.11, even in a forked child."""

    def __init__(self, find: Callable[[Any], X]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __get__(self, listing: Any, kind: type) -> X:
        found = self._find(listing)
        listing.__dict__[self._find.__name__] = found
        return found


@dataclass(frozen=True)
class Listing:
    """The samples of a data set of files.

    Attributes:
        root: The folder that names are relative to.
        names: A path for each sample, relative to the root where it is below it, with "/" between its parts. Bytes
            that are not text are surrogates, as everywhere in Python (PEP 383).
        labels: int32 or float32 of shape (N,), or (N, k) where each sample has several.
        beside: Ids of the samples of another listing whose order this one takes, row by row; None for its own order.
        classes: Their names by label, where labels have names.
        store: Where the files lie.
        sizes: Of objects, as their store lists them: int64 of shape (N,); None where nothing was listed.
        tags: Numbers that tell contents of objects apart, in the same way: uint64, 0 where there is none.
        chosen: The numbers of the samples that are visited, in listed order; None for all. Digests are of these alone.
    """

    root: str
    names: Sequence[str]
    labels: Any
    beside: Any = field(default=None, kw_only=True)
    classes: Any = field(default=None, kw_only=True)
    store: Store = field(default=DISK, kw_only=True)
    sizes: Any = field(default=None, kw_only=True)
    tags: Any = field(default=None, kw_only=True)
    chosen: Any = field(default=None, kw_only=True)

    @property
    def rows(self) -> Any:
        """The numbers of the samples that are visited."""
        return numpy.arange(len(self.names)) if self.chosen is None else self.chosen

    @_Once
    def chosen_ids(self) -> Any:
        """The ids of the samples that are visited."""
        return self.ids if self.chosen is None else self.ids[self.chosen]

    @_Once
    def ids(self) -> Any:
        """The sample ids: uint64 of shape (N,)."""
        names = self.names
        if not isinstance(names, Names):
            return sample_ids([os.fsencode(normal(n)) for n in names])
        hashes = names.hashes()
        return hashes if hashes is not None and names.distinct else sample_ids(names.normal(), hashes)

    def ids_of(self, indices: Any) -> Any:
        """The ids of some samples. As long as few have been asked for, only these are found."""
        names, asked = self.names, self.__dict__.get("_asked", 0) + len(indices)
        if "ids" in self.__dict__ or not isinstance(names, Names) or not names.distinct or asked > len(names) // 8:
            return self.ids[indices]
        self.__dict__["_asked"] = asked
        return sample_ids(names.normal(indices))

    def path(self, index: int) -> str:
        """Where to open a sample."""
        return self.paths([index])[0] if self.store.far else os.path.join(self.root, self.names[index])

    def paths(self, indices: Sequence[int]) -> list[str]:
        """Where to open some samples."""
        names, root = self.take(indices), self.root
        if self.store.far:
            return [name if name[:1] == "/" or is_address(name) else f"{root}/{name}" for name in names]
        if os.sep != "/" or not root or root[-1] == "/":
            return [os.path.join(root, name) for name in names]
        return [f"{root}/{name}" if name[:1] != "/" else name for name in names]

    def take(self, indices: Sequence[int]) -> list[str]:
        """The names of some samples."""
        names = self.names
        return names.take(indices) if isinstance(names, Names) else [names[i] for i in indices]

    def source(self, index: int) -> str:
        """The name of a sample in errors."""
        return displayed(self.path(index))

    def labels_of(self, indices: Any) -> Any:
        """The numbers of some samples beside their bytes, of shape (N, ...)."""
        return self.labels[indices]

    def sizes_of(self, indices: Any) -> Any:
        """The sizes of some files in bytes: int64 of shape (N,), -1 where there is no such file."""
        if self.sizes is not None:
            return self.sizes[indices]
        paths = self.paths(indices)
        try:
            return self.store.sizes(paths)
        except NotOfTheSample as error:
            raise unlisted("get_state", paths[0], str(error.strerror)) from None

    def editions(self, indices: Sequence[int]) -> list[Version | None]:
        """The versions of some objects, as they were listed."""
        if self.sizes is None:
            return [None] * len(indices)
        rows = zip(self.sizes[indices].tolist(), self.tags[indices].tolist(), strict=True)
        return [Edition(size, None, tag or None) for size, tag in rows]

    def wanted(self, indices: list[int]) -> list[Wanted]:
        """The objects, or parts of them, that some samples are."""
        return wholes(self.paths(indices), self.editions(indices))

    def read(self, index: int) -> Array:
        """The bytes of a file."""
        version = self.editions([index])[0] if self.store.far else None
        return self.store.contents(self.path(index), version=version)

    def read_all(self, indices: list[int]) -> tuple[list[Array], dict[int, OSError]]:
        """The bytes of some files, and errors by their places."""
        return self.store.together(self.paths(indices), self.editions(indices) if self.store.far else None)

    @_Once
    def contents(self) -> Any:
        """A digest of the contents of each file, read once: uint8 of shape (N, 16), 0 where it cannot be read."""
        digests = numpy.zeros((len(self.names), 16), numpy.uint8)

        def one(i: int) -> None:
            try:
                digests[i] = numpy.frombuffer(self.digest(i), numpy.uint8)
            except OSError as error:
                if not is_of_the_system(error):
                    raise

        rows = self.rows.tolist()
        if self.store.far:
            self.store.each(lambda k: one(rows[k]), len(rows))
        else:
            run(lambda k: one(rows[k]), len(rows), len(rows) << 16)
        return digests

    def digest(self, index: int) -> bytes:
        """A digest of the stored bytes of a sample, 16 bytes."""
        if self.store.far:
            return hashlib.blake2b(self.read(index).data, digest_size=16).digest()
        with open(self.path(index), "rb", opener=_at_once) as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()

    def digests(self, *, sort: bool, contents: bool, sized: int) -> dict[str, str]:
        """The identity of this data set: digests over the ids, labels, sizes and perhaps contents.

        Args:
            sort: Whether the order of the list makes no difference. Samples beside others are sorted as these are, so
                that the digests tell which stands beside which.
            contents: Whether to digest the contents of the files; else that digest is empty.
            sized: Of how many samples to digest the sizes: those of the least ids.
        """
        found = {"names": self.digest_of("names", sort), "labels": self.digest_of("labels", sort)}
        found["sizes"] = self.digest_of("sizes", sort, min(sized, len(self.rows)))
        return found | {"contents": self.digest_of("contents", sort) if contents else ""}

    def digest_of(self, column: str, sort: bool, count: int | None = None) -> str:
        """A digest over a column of all samples, or of so many; made once."""
        key = column, sort, count
        if key not in self._known and column == "names" and sort and count is None and self.beside is None:
            self._known[key] = _digest(numpy.sort(self.ids[self.rows]).astype("<u8"))
        if column == "labels" and not self.labels.size and type(self).labels_of is Listing.labels_of:
            self._known[key] = _digest(self.labels)
        if key not in self._known:
            order = self._order(len(self.rows) if count is None else count, sort=sort)
            columns: dict[str, Callable[[], Any]] = {
                "names": lambda: self.ids[order].astype("<u8"),
                "labels": lambda: _little(self.labels_of(order)),
                "sizes": lambda: self.sizes_of(order).astype("<i8"),
                "contents": lambda: self.contents[order],
            }
            self._known[key] = _digest(columns[column]())
        return self._known[key]

    @_Once
    def _known(self) -> dict[tuple[str, bool, int | None], str]:
        return {}

    def _order(self, count: int, *, sort: bool) -> Any:
        """The samples of the least ids, so many, as they are listed or sorted."""
        some = self.rows
        if count < len(some):
            some = some[numpy.sort(numpy.argpartition(self.chosen_ids, count)[:count])]
        by = self.ids if self.beside is None else self.beside
        return some[sorted_by(by[some])] if sort else some


def _digest(column: Any) -> str:
    return hashlib.blake2b(column.tobytes(), digest_size=16).hexdigest()


def _little(labels: Any) -> Any:
    """Labels as a digest is made of them."""
    return labels.astype("<f4" if labels.dtype.kind == "f" else "<i4")


@dataclass(frozen=True)
class Packed(Listing):
    """Samples that lie in places of files, many in each.

    Attributes:
        versions: Of the files, by path: they are of no other.
    """

    versions: Mapping[str, Version]

    def opened(self) -> Opened | OpenedThere:
        """The files, to read parts of them."""
        return self.store.opened(self.versions)

    def __getstate__(self) -> dict[str, Any]:
        """For a process that may be on a machine with its own copies of the files."""
        return self.__dict__ | {"versions": {path: version.elsewhere() for path, version in self.versions.items()}}


def versions_of(operator: str, paths: Sequence[str], store: Store) -> dict[str, Version]:
    """The versions of files, before they are looked into. Those that cannot be had are left out, and named there."""
    try:
        return store.versions(paths)
    except NotOfTheSample as error:
        raise unlisted(operator, paths[0], str(error.strerror)) from None


def unlisted(operator: str, path: str, reason: str) -> DataError:
    """The error that a file which holds, or lists, many samples cannot be read."""
    return DataError(operator, [Failure(-1, reason, source=path)], 0)


def listed_folder(
    operator: str,
    root: str,
    file_filters: Sequence[str],
    dir_filters: Sequence[str] | None,
    store: Store,
    *,
    case_sensitive: bool,
    advice: str,
) -> Listing:
    """The files of the folders in a folder: each folder is a class, numbered in the order of the bytes of its name.

    Empty folders are classes too; hidden files and folders and links are like others. Files beside the class
    folders or in folders within them is not listed.

    Args:
        operator: Of the reader.
        root: The folder.
        file_filters: Shell patterns of files.
        dir_filters: Shell patterns of folders; None for all.
        store: Where they lie.
        case_sensitive: Whether patterns distinguish "a" from "A".
        advice: The way to leave out folders without files.

    Warns:
        EmptyClassWarning: Folders have no files, and were not asked for by `dir_filters`.
    """
    wanted_dir = matcher(dir_filters or ["*"], case_sensitive=case_sensitive)
    wanted_file = matcher(file_filters, case_sensitive=case_sensitive)
    root = store.plain(root)
    folders = folders_in(operator, root, store, "a folder with a folder for each class")
    folders = [name for name in folders if wanted_dir(os.fsencode(name))]

    def fault(path: str, error: OSError) -> DataError:
        return unlisted(operator, path, error.strerror or str(error))

    names, columns = listed_below(operator, root, folders, wanted_file, fault, store)
    if not len(names):
        own, _ = listed_below(operator, root, [""], wanted_file, fault, store)
        expected = "a folder with a folder of data files for each class"
        got = f"{shown(root)}, where no file in {len(folders)} folders matches {' '.join(file_filters)}"
        hint = "Name other files by file_filters=."
        if len(own):
            hint = f"The folder itself has {len(own)} such files: for files without class folders pass files=[...]."
        raise ArgumentError(operator, "file_root", expected, got, hint)
    blank = [name for name, count in zip(folders, names.counts, strict=True) if not count]
    if blank and dir_filters is None:
        some = ", ".join(f"'{displayed(name)}'" for name in blank[:_NAMED]) + ", ..." * (len(blank) > _NAMED)
        text = (
            f"{operator}(): {len(blank)} of {len(folders)} folders of {displayed(root)} have no files that match, and "
            f"count as classes, as in DALI: {some}. Labels of later folders are shifted. {advice}"
        )
        warn_caller(text, EmptyClassWarning)
    labels = numpy.repeat(numpy.arange(len(folders), dtype=numpy.int32), names.counts)
    return Listing(root, names, labels, classes=tuple(folders), **columns)


def folders_in(operator: str, root: str, store: Store, expected: str) -> list[str]:
    """The folders in a folder, in the order of the bytes of their names."""
    if scheme_of(root) in BY_HTTP:
        hint = "http:// and https:// have no listings: give files= or file_list=."
        raise ArgumentError(operator, "file_root", expected, shown(root), hint)
    try:
        if isinstance(store, Remote) and is_address(root):
            found = [entry.name for entry in store.folder(root) if entry.is_folder]
        else:
            with os.scandir(root) as entries:
                found = [entry.name for entry in entries if is_folder(entry)]
    except OSError as error:
        raise ArgumentError(operator, "file_root", expected, shown(root), f"{error.strerror}.") from error
    return sorted(found, key=os.fsencode)


def listed_below(
    operator: str,
    root: str,
    folders: Sequence[str],
    wanted: Callable[[bytes], bool],
    fault: Callable[[str, OSError], Exception],
    store: Store,
    arrange: Callable[[str, list[bytes]], None] | None = None,
) -> tuple[Names, dict[str, Any]]:
    """The files of some folders in a folder, or of itself (""), in the order of the bytes of their names.

    Args:
        operator: Of the reader.
        root: The folder.
        folders: Those in it.
        wanted: Whether a file of some name is listed.
        fault: The error to raise where a folder cannot be listed, by its path and the reason.
        store: Where they lie.
        arrange: Puts the names of the files of a folder in order, by its path; by default they are sorted.

    Returns:
        The names, and columns of the listing where they are of objects.
    """
    own, lengths, counts, columns = list[bytes](), list[Array](), list[int](), dict[str, Any]()

    def put(path: str, files: list[bytes]) -> None:
        if arrange is None:
            files.sort()
        else:
            arrange(path, files)
        own.append(b"".join(files))
        lengths.append(numpy.fromiter(map(len, files), numpy.int64, len(files)))
        counts.append(len(files))

    if isinstance(store, Remote) and is_address(root):
        versions = list[Version]()
        paths = [f"{root}/{folder}" if folder else root for folder in folders]
        for path, found in zip(paths, store.entries(paths), strict=True):
            if isinstance(found, OSError):
                raise fault(path, found)
            there = {os.fsencode(entry.name): entry.version for entry in found if not entry.is_folder}
            files = [name for name in there if wanted(name)]
            put(path, files)
            versions += [there[name] for name in files]
        sizes = numpy.array([version.size for version in versions], numpy.int64)
        tags = numpy.array([version.number or 0 for version in versions], numpy.uint64)
        columns, folders_here = {"store": store, "sizes": sizes, "tags": tags}, list[str]()
    else:
        folders_here = list(folders)
    for folder in folders_here:
        path = os.path.join(root, folder)
        try:
            with os.scandir(os.fsencode(path)) as entries:
                files = [
                    name
                    for entry in entries
                    if wanted(name := entry.name)
                    and (entry.is_file(follow_symlinks=False) or is_sample(operator, entry))
                ]
        except OSError as error:
            raise fault(path, error) from error
        put(path, files)
    groups = [os.fsencode(f"{folder}/" if folder else "") for folder in folders]
    return Names(groups, counts, b"".join(own), numpy.concatenate([*lengths, ()]), distinct=True), columns


def is_folder(entry: os.DirEntry[Any]) -> bool:
    """Whether an entry of a folder is a folder, or a link to one. One that leads to itself leads to nothing."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def is_sample(operator: str, entry: os.DirEntry[Any]) -> bool:
    """Whether an entry of a folder is a sample; refuse one that is not a file."""
    if is_folder(entry):
        return False
    try:
        if entry.is_file():
            return True
        mode = entry.stat().st_mode
    except OSError:
        return True  # a link to nothing is a sample that cannot be read now, and is named then
    reason = f"is a {kind_of(mode)}, not a regular file"
    raise unlisted(operator, os.fsdecode(entry.path), reason)


def listed_files(operator: str, root: str, files: Any, labels: Any, wanted: Labels, store: Store) -> Listing:
    """The files of a list, or one; the labels are their places in it where none are given."""
    if isinstance(files, (str, bytes, os.PathLike)):
        files = [files]
    if not isinstance(files, Iterable) or getattr(files, "ndim", 1) == 0:
        raise ArgumentError(operator, "files", "a path or a list of paths", shown(files))
    files = files if isinstance(files, (list, tuple)) else list(files)
    named = _Namer(operator, "files", root, store)
    names = _plain(files)
    if names is None:
        found = list[str]()
        for file in files:
            if not isinstance(file, (str, bytes, os.PathLike)) or not can_be(path := os.fsdecode(file)):
                raise ArgumentError(operator, f"files[{len(found)}]", "a path", shown(file))
            found.append(named(path))
        names = packed(found)
    if not len(names):
        raise ArgumentError(operator, "files", "at least one path", "none")
    numbers, classes = labels_given(operator, range(len(names)) if labels is None else labels, len(names), wanted)
    return Listing(named.root or str(Path.cwd()), names, numbers, classes=classes, store=named.store)


def _plain(files: Sequence[Any]) -> Names | None:
    """The names of files whose paths are relative and of plain ASCII; None where there is a closer look to take."""
    if os.sep != "/" or set(map(type, files)) != {str}:
        return None
    whole = "\0".join(files)
    if not whole.isascii() or whole.count("\0") >= len(files) or "://" in whole or whole[:1] == "/" or "\0/" in whole:
        return None
    return packed(files)


def listed_lines(operator: str, file_list: str, root: str, wanted: Labels, store: Store) -> Listing:
    """The files of a text file: a line for each, with its path, white space, and its labels; empty lines are nothing.

    Paths are relative to the root, or else to the folder of the text file.
    """
    file_list = store.plain(file_list)
    try:
        lines = _lines(file_list, store)
    except OSError as error:
        raise ArgumentError(
            operator, "file_list", "a text file of lines 'path label'", shown(file_list), f"{error.strerror}."
        ) from error
    named = _Namer(operator, "file_list", root or os.path.dirname(file_list), store)
    paths, (numbers, classes) = lines_of(operator, file_list, lines, wanted)
    return Listing(named.root, packed(list(map(named, paths))), numbers, classes=classes, store=named.store)


def listed_names(operator: str, file_list: str, root: str, store: Store) -> Listing:
    """The files of a text file with a path on each line; empty lines are nothing.

    Paths are relative to the root, or else to the folder of the text file.
    """
    file_list = store.plain(file_list)
    try:
        lines = _lines(file_list, store)
    except OSError as error:
        raise ArgumentError(
            operator, "file_list", "a text file with a path on each line", shown(file_list), f"{error.strerror}."
        ) from error
    named = _Namer(operator, "file_list", root or os.path.dirname(file_list), store)
    names = [named(os.fsdecode(path)) for line in lines if (path := line.removesuffix(b"\r"))]
    for number, name in enumerate(names):
        if "\0" in name:
            raise ArgumentError(
                operator, "file_list", "a text file with a path on each line", f"one with NUL in path {number}"
            )
    if not names:
        raise ArgumentError(operator, "file_list", "a text file with a path on each line", "an empty one")
    return Listing(named.root, names, numpy.zeros((len(names), 0), numpy.int32), store=named.store)


def listed_paths(paths: list[str], root: str) -> Names:
    """Paths as names."""
    if os.sep != "/" or any(path[:1] == "/" for path in paths):
        paths = [_relative(path, root) for path in paths]
    return packed(paths)


def packed(names: Sequence[str]) -> Names:
    """Names in one piece of memory."""
    hashes = numpy.sort(numpy.fromiter(map(hash, names), numpy.int64, len(names)))
    distinct, whole = bool((hashes[1:] != hashes[:-1]).all()), "".join(names)
    if whole.isascii():
        lengths = numpy.fromiter(map(len, names), numpy.int64, len(names))
        return Names([b""], [len(names)], whole.encode(), lengths, distinct=distinct)
    encoded = [os.fsencode(name) for name in names]
    return Names([b""], [len(names)], b"".join(encoded), list(map(len, encoded)), distinct=distinct)


class _Namer:
    """Makes names of paths and addresses.

    Attributes:
        root: The folder that names are relative to.
        store: Where the files lie, as far as is known by now.
    """

    def __init__(self, operator: str, argument: str, root: str, store: Store) -> None:
        self._operator, self._argument, self._of_addresses, self._count = operator, argument, store, 0
        self.root = store.plain(root)
        self._far = is_address(root)
        self.store = store if self._far else DISK
        self._known = set[str]()  # schemes that can be read

    def __call__(self, path: str) -> str:
        """The name of the next path."""
        self._count += 1
        if "://" not in path or not is_address(path):
            return path if self._far else _relative(path, self.root)
        scheme = path.partition(":")[0]
        if scheme not in self._known:
            check_address(self._operator, f"{self._argument}[{self._count - 1}]", path)
            self._known.add(scheme)
        self.store = self._of_addresses
        return self.store.plain(path).removeprefix(f"{self.root}/")


def _relative(path: str, root: str) -> str:
    """The path as a name: relative to the root where it is given in full and lies below it."""
    if not os.path.isabs(path):
        return path.replace(os.sep, "/")
    path = _in_full(path)
    return path.removeprefix(_in_full(os.path.join(os.path.abspath(root), ""))) if root else path


def _in_full(path: str) -> str:
    """An absolute path with "/" once between its parts, none of which is "."; ".." stays, as it may follow a link."""
    drive, rest = os.path.splitdrive(path)
    drive, rest = drive.replace(os.sep, "/"), rest.replace(os.sep, "/")
    return drive + (_NOTHING.sub("/", rest) if "//" in rest or "/./" in rest else rest)


def _lines(path: str, store: Store) -> list[bytes]:
    """The lines of a text file."""
    text: bytes = store.contents(path).tobytes()
    return text.removeprefix(_MARK).split(b"\n")


def as_it_is(values: Any) -> Any:
    """A list as it is now, whatever becomes of it until the samples are listed. Other values are refused then."""
    if isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable):
        return values
    return tuple(values) if getattr(values, "ndim", 1) else values


def matcher(filters: Sequence[str], *, case_sensitive: bool) -> Callable[[bytes], bool]:
    """Whether a name matches any of some shell patterns."""
    patterns = [fnmatch.translate(re.sub(r"\[\^", "[!", pattern)) for pattern in filters]
    compiled = re.compile("|".join(patterns), re.NOFLAG if case_sensitive else re.IGNORECASE)
    if not all(_ENDING.fullmatch(pattern) for pattern in filters):
        return lambda name: compiled.match(os.fsdecode(name)) is not None
    endings = tuple(pattern[1:].encode() for pattern in filters)
    if case_sensitive:
        return lambda name: name.endswith(endings)
    endings = tuple(ending.lower() for ending in endings)
    return lambda name: (
        name.lower().endswith(endings) if name.isascii() else compiled.match(os.fsdecode(name)) is not None
    )
