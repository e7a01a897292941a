"""The reader of arrays in NumPy's files."""

from __future__ import annotations

import dataclasses
import errno
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._arrays.memory import empty
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.errors import ArgumentError, DataError, Failure, shown
from dynamic.io import _npy
from dynamic.io._bytes import Changed, Version, is_of_the_system
from dynamic.io._store import Store
from dynamic.kernels.cpu import places, windows

from ._checks import flag, unless_empty, word
from ._labels import ANY
from ._listing import Listing, _Once, as_it_is, folders_in, listed_below, listed_files, listed_names, matcher
from ._reader import Batches
from ._stored import Common, PathLike, Stored, Unusable, a_path, called_with

__all__ = ["Numpy", "source_of_arrays"]

_POLICIES = ("error", "pad", "trim_to_shape")
_STARTS = ("roi_start", "rel_roi_start")
_ENDS = ("roi_end", "rel_roi_end", "roi_shape", "rel_roi_shape")
_BEGINNING = 4096  # bytes that are read of a file before it is known which more are needed
_AT_ONCE = 1 << 24  # bytes of a file that is read whole in one go; of larger ones no more than the array is read


class Numpy(Stored[Listing, Batches]):
    """Reads arrays from ``.npy`` files, whole or a region of each.

    The output is a tuple of one Batch. All arrays of a batch have one dtype and number of dimensions; their shapes may
    differ. If `on_error` is not "raise", arrays unlike the first readable one are left out. Fortran order and
    big-endian numbers are read too. Nothing is unpickled: Python objects, strings, dates, structures and complex
    numbers are refused.

    Of an array in C order, only the rows of the region are read from the file.

    Args:
        file_root: The folder whose files, and the files of whose folders, are the samples; with `files` or `file_list`,
            the start of their paths.
        files: A path, or several. A path may occur more than once: each occurrence is a sample.
        file_list: A text file with a path on each line; relative paths start from its folder.
        file_filter: A shell pattern; with `file_root` alone, files that do not match it are not samples.
        roi_start: Start of the region: an integer for each of its axes, or one for all.
        roi_end: End of the region, exclusive.
        roi_shape: Extents of the region.
        rel_roi_start: Start of the region, as parts of the shape of each array, between 0 and 1.
        rel_roi_end: End of the region, as parts.
        rel_roi_shape: Extents of the region, as parts.
        roi_axes: The dimensions of the numbers above; by default all. The region is whole along the others.
        out_of_bounds_policy: The treatment of a region that leaves the array: "error"; "pad" with `fill_value`; or
            "trim_to_shape", its inner part.
        fill_value: Values outside, rounded and saturated to the type of the array.
        cache_header_information: Makes no difference: headers that are alike are parsed once.
        register_buffers: Makes no difference.
        use_o_direct: Makes no difference.

    Raises:
        ArgumentError: An argument is wrong, or there are no files. Files are checked when they are read.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for i in range(3):
    ...     numpy.save(root / f"{i}.npy", numpy.arange(6).reshape(2, 3) + 10 * i)
    >>> reader = ndd.readers.Numpy(file_root=root, roi_start=[0, 1])
    >>> for arrays, in reader.next_epoch(batch_size=2):
    ...     print(arrays.tolist())
    [[[1, 2], [4, 5]], [[11, 12], [14, 15]]]
    [[[21, 22], [24, 25]]]
    """

    _operator: ClassVar[str] = "readers.Numpy"

    @called_with("file_root", "files", "file_list")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        file_root: PathLike | None = None,
        files: PathLike | Sequence[PathLike] | None = None,
        file_list: PathLike | None = None,
        file_filter: str | None = "*.npy",
        roi_start: int | Sequence[int] | None = None,
        roi_end: int | Sequence[int] | None = None,
        roi_shape: int | Sequence[int] | None = None,
        rel_roi_start: float | Sequence[float] | None = None,
        rel_roi_end: float | Sequence[float] | None = None,
        rel_roi_shape: float | Sequence[float] | None = None,
        roi_axes: int | Sequence[int] | None = None,
        out_of_bounds_policy: str | None = "error",
        fill_value: float | None = 0.0,
        cache_header_information: bool | None = False,
        register_buffers: bool | None = True,
        use_o_direct: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        flag(operator, "cache_header_information", cache_header_information)
        flag(operator, "register_buffers", register_buffers)
        flag(operator, "use_o_direct", use_o_direct)
        policy = unless_empty(out_of_bounds_policy)
        self._region = _region(
            {
                "roi_start": roi_start,
                "rel_roi_start": rel_roi_start,
                "roi_end": roi_end,
                "rel_roi_end": rel_roi_end,
                "roi_shape": roi_shape,
                "rel_roi_shape": rel_roi_shape,
            },
            roi_axes,
            word(operator, "out_of_bounds_policy", "error" if policy is None else policy, _POLICIES),
            _number("fill_value", 0.0 if fill_value is None else fill_value, float),
        )
        pattern = "*.npy" if file_filter is None else file_filter
        list_samples = source_of_arrays(operator, file_root, files, file_list, pattern)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch]:
        listing = self._listing
        kind = self._kind if self._on_error != "raise" else None
        if not indices:  # all were skipped
            dtype, ndim = (kind.dtype, kind.ndim) if kind else (numpy.dtype(numpy.uint8), 1)
            return (Batch([], origin=origin, dtype=dtype, ndim=ndim),)
        arrays = self._each(
            indices,
            lambda i: _array(listing, i, self._region),
            (lambda some: _arrays(*listing.read_all(some))) if self._region is None else None,
        )
        kind = kind or _Kind.of(arrays[0], listing.source(indices[0]))
        failures = [
            Failure(
                i, f"holds {_Kind.of(array, '')}, where {kind.source} holds {kind}", source=listing.source(indices[i])
            )
            for i, array in enumerate(arrays)
            if (array.dtype, array.ndim) != (kind.dtype, kind.ndim)
        ]
        if failures:
            raise DataError(self._operator, failures, len(arrays))
        return (Batch(arrays, origin=origin),)

    def _expect(self, indices: list[int]) -> None:
        if self._region is None:  # else a header tells which bytes are read
            super()._expect(indices)

    @_Once
    def _kind(self) -> _Kind | None:
        """The type of all samples where others are left out, whatever the batches: that of the first readable one."""
        listing = self._listing
        for i in listing.rows.tolist():
            try:
                return _Kind.of(_array(listing, i, self._region), listing.source(i))
            except Unusable:
                continue  # it is named when its turn comes
            except OSError as error:
                if not is_of_the_system(error):
                    raise
        return None


class _Kind(NamedTuple):
    """The common type of the arrays of a batch."""

    dtype: numpy.dtype[Any]
    ndim: int
    source: str  #: of an array that is such

    @classmethod
    def of(cls, array: Array, source: str) -> _Kind:
        """The type of an array."""
        return cls(array.dtype, array.ndim, source)

    def __str__(self) -> str:
        return f"{self.dtype} of {self.ndim} dimensions"


class _Region(NamedTuple):
    """Which part of each array is wanted, in the words of `places.sliced`."""

    bounds: dict[str, Any]
    axes: tuple[int, ...] | None
    policy: str
    fill: float

    def window(self, shape: tuple[int, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Where it begins in an array of some shape, and how large it is."""
        axes = tuple(range(len(shape))) if self.axes is None else self.axes
        try:
            return places.sliced(
                Numpy._operator,
                shape,
                None,
                None,
                None,
                axes=axes,
                axis_names=None,
                out_of_bounds_policy=self.policy,
                **self.bounds,
            )
        except ArgumentError as error:
            prefix = "roi_" if not error.argument.startswith("rel_") else "rel_roi_"
            name = prefix + error.argument.removeprefix("rel_")
            raise Unusable(f"its shape is {shape}, and {name} must be {error.expected}; got {error.got}") from None


def _array(listing: Listing, index: int, region: _Region | None) -> Array:
    """The array of a file, or a region of it."""
    try:
        return _taken(listing, index, region)
    except _npy.NoArray as error:
        raise Unusable(str(error)) from None
    except MemoryError as error:
        raise Unusable(f"is too large: {error}") from None
    except Changed:
        if listing.store.far:
            raise
        raise Unusable("changed while it was read") from None


def _arrays(files: list[Array], failed: Mapping[int, OSError]) -> tuple[list[Array], dict[int, Exception]]:
    """The arrays in the bytes of files, and errors by their places."""
    arrays, errors = list[Array](files), dict[int, Exception](failed)
    for i, data in enumerate(files):
        if i in errors:
            continue
        try:
            start = _npy.header_end(data)
            if start > len(data):
                raise Unusable("ends within its header")
            head = _npy.header(data[:start].tobytes())
            _enough(len(data), start + head.nbytes)
            arrays[i] = _npy.values(data[start : start + head.nbytes], head)
        except _npy.NoArray as error:
            errors[i] = Unusable(str(error))
        except Unusable as error:
            errors[i] = error
    return arrays, errors


def _taken(listing: Listing, index: int, region: _Region | None) -> Array:
    """As `_array`, where there is enough memory."""
    path = listing.path(index)
    version = _version(listing, index, path) if listing.store.far else Version.of(os.stat(path))  # noqa: PTH116
    contents = listing.store.contents
    there = version.size
    at_once = region is None and there <= _AT_ONCE
    data = contents(path, 0, there if at_once else min(there, _BEGINNING), version=version)
    start = _npy.header_end(data)
    if start > there:
        raise Unusable("ends within its header")
    if start > len(data):
        data = contents(path, 0, start, version=version)
    head = _npy.header(data[:start].tobytes())
    shape, kind = head.shape, head.dtype
    if region is None or not shape:
        if start + head.nbytes <= len(data):
            return _npy.values(data[start : start + head.nbytes], head)
        _enough(there, start + head.nbytes)
        return _npy.values(contents(path, start, head.nbytes, version=version), head)
    starts, extents = region.window(shape)
    if _npy.beyond(extents, kind):
        raise Unusable(f"has the shape {shape}, and the region one that cannot be: {shown(extents)}")
    row = math.prod(shape[1:]) * kind.itemsize
    first, last = 0, shape[0]
    if not head.fortran:
        first = min(max(starts[0], 0), shape[0])
        last = max(first, min(starts[0] + extents[0], shape[0]))
    _enough(there, start + shape[0] * row)
    rows = contents(path, start + first * row, (last - first) * row, version=version)
    array = _npy.values(rows, head._replace(shape=(last - first, *shape[1:])))
    out = empty(tuple(extents), array.dtype)
    windows.copied(array, [starts[0] - first, *starts[1:]], region.fill, out)
    return out


def _version(listing: Listing, index: int, path: str) -> Version:
    """The version of an object: as it was listed, or else as it is now."""
    version = listing.editions([index])[0] or listing.store.versions([path]).get(path)
    if version is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return version


def _enough(there: int, size: int) -> None:
    if there < size:
        raise Unusable(f"ends too early: {there} bytes of {size} are there")


def _region(given: dict[str, Any], axes: Any, policy: str, fill: float) -> _Region | None:
    """The region of the arguments; None for all of each array."""
    operator = Numpy._operator
    for alternatives in (_STARTS, _ENDS):
        found = [name for name in alternatives if given[name] is not None]
        if len(found) > 1:
            raise ArgumentError(operator, found[1], f"left out when {found[0]!r} is given", shown(given[found[1]]))
    bounds = {
        name.replace("roi_", ""): _numbers(name, value, float if name.startswith("rel_") else int)
        for name, value in given.items()
        if value is not None
    }
    bounds = {name: numbers for name, numbers in bounds.items() if numbers}  # an empty list says nothing
    chosen = None if axes is None else _numbers("roi_axes", axes, int)
    for name in ("roi_shape", "rel_roi_shape"):
        if min(bounds.get(name.replace("roi_", ""), ()), default=0) < 0:
            raise ArgumentError(operator, name, "0 or more", shown(given[name]))
    if not bounds:
        return None
    return _Region(bounds, chosen or None, policy, fill)


def _numbers(argument: str, value: Any, kind: type) -> Any:
    """Numbers of an argument, as a tuple."""
    if isinstance(value, Batch):
        hint = "All samples have one region."
        raise ArgumentError(Numpy._operator, argument, "a number, or one for each axis", "a Batch", hint)
    given = numpy.asarray(value).tolist() if hasattr(value, "__array__") else value
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        given = [given]
    return tuple(_number(f"{argument}[{i}]" if len(given) > 1 else argument, one, kind) for i, one in enumerate(given))


def _number(argument: str, value: Any, kind: type) -> Any:
    number = isinstance(value, (int, float, numpy.integer, numpy.floating)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or (kind is int and value != int(value)):
        expected = "an integer" if kind is int else "a finite number"
        raise ArgumentError(Numpy._operator, argument, expected, shown(value))
    return kind(value)


def source_of_arrays(
    operator: str,
    file_root: PathLike | None,
    files: PathLike | Sequence[PathLike] | None,
    file_list: PathLike | None,
    file_filter: str,
) -> Callable[[Store], Listing]:
    """A function that lists files of arrays, wherever the working folder is then."""
    root, listed = (
        None if path is None else a_path(operator, argument, path)
        for argument, path in (("file_root", file_root), ("file_list", file_list))
    )
    if files is not None and listed is not None:
        raise ArgumentError(operator, "files", "None where file_list is given", shown(files))
    if not isinstance(file_filter, str):
        raise ArgumentError(operator, "file_filter", "a pattern such as '*.npy'", shown(file_filter))
    if files is not None:
        return functools.partial(_files, root or "", as_it_is(files), operator=operator)
    if listed is not None:
        return functools.partial(listed_names, operator, listed, root or "")
    if root is None:
        raise ArgumentError(operator, "file_root", "a path, unless files or file_list is given", "None")
    return functools.partial(_folder, root, file_filter.replace("[^", "[!"), operator=operator)


def _files(root: str, files: PathLike | Sequence[PathLike], store: Store, operator: str = Numpy._operator) -> Listing:
    """The files of a list, which have no labels."""
    listing = listed_files(operator, root, files, None, ANY, store)
    return dataclasses.replace(listing, labels=listing.labels[:, None][:, :0])


def _folder(root: str, file_filter: str, store: Store, operator: str = Numpy._operator) -> Listing:
    """The files of a folder, then those of each folder in it, in the order of the bytes of their names."""

    def fault(path: str, error: OSError) -> ArgumentError:  # noqa: ARG001 - errors name the root
        hint = f"{error.strerror}."
        return ArgumentError(operator, "file_root", "a folder with arrays", shown(root), hint)

    root = store.plain(root)
    folders = folders_in(operator, root, store, "a folder with arrays")
    wanted = matcher([file_filter], case_sensitive=True)
    names, columns = listed_below(operator, root, ["", *folders], wanted, fault, store)
    if not len(names):
        got = f"{shown(root)}, where no file matches {file_filter!r}"
        raise ArgumentError(operator, "file_root", "a folder with arrays, or with folders of them", got)
    return Listing(root, names, numpy.zeros((len(names), 0), numpy.int32), **columns)
