"""The reader of files in folders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.errors import ArgumentError, shown
from dynamic.io._store import Store

from ._checks import flag
from ._labels import Labels, LabelType
from ._listing import FILE_FILTERS, Listing, as_it_is, listed_files, listed_folder, listed_lines
from ._reader import Batches
from ._stored import Common, PathLike, Stored, a_path, called_with

__all__ = ["File"]

_ADVICE = "Select the folders by dir_filters=, such as ['[!.]*'] without hidden ones; ['*'] keeps all."


class File(Stored[Listing, Batches]):
    """Reads files and their labels: folders of classes, a list of paths, or a text file of paths and labels.

    A batch has the contents of the files (uint8, one dimension, no layout) and their labels (int32 or float32, shape
    (1,); shape (k,) for k labels of a file). Both have an origin: errors name files, and draws can be keyed.

    Epochs are exact: each gives every sample once. `random_shuffle` shuffles all of them anew in each epoch. See
    `next_epoch` for epochs, and `get_state` to go on later.

    Args:
        file_root: The folder whose folders are the classes; with `files` or `file_list`, the start of their paths.
        files: A path, or several. A path may occur more than once: each occurrence is a sample.
        labels: A label for each of `files`, or a row of labels: integers, floats or names of classes. By default it is
            the place in the list.
        file_list: A text file with a path, white space and a label on each line; relative paths start from its folder.
        label_type: The type of the labels of a list: "int" (int32), "float" (float32), or "class", names that become
            places in `classes`. By default that of the values of `labels`, and "int" for a `file_list`.
        num_labels: The number of labels on each line of a `file_list`, by default 1.
        classes: The names of classes in the order of their numbers; by default those that occur, sorted.
        file_filters: Shell patterns; with `file_root` alone, files that match none are not samples. By default those of
            .jpg, .jpeg, .png, .bmp, .tif, .tiff, .pnm, .ppm, .pgm, .pbm, .jp2, .webp, .flac, .ogg and .wav files.
        dir_filters: Shell patterns; with `file_root` alone, folders that match none are not classes. By default all
            folders are, with a warning of those without samples.
        case_sensitive_filter: Whether patterns distinguish "a" from "A".
        scalar_labels: Whether to give labels without dimensions, integers as int64: ``labels.torch()`` of a batch suits
            `cross_entropy` of PyTorch. By default they are of shape (1,) and int32, as in DALI.

    Raises:
        ArgumentError: An argument is wrong, or there are no files.
        DataError: A class folder holds something else than files and folders that matches the filters.

    Warns:
        EmptyClassWarning: Folders without samples count as classes, and no `dir_filters` are given.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"]:
    ...     (root / name).parent.mkdir(exist_ok=True)
    ...     _ = (root / name).write_bytes(name.encode())
    >>> reader = ndd.readers.File(file_root=root)
    >>> for jpegs, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(jpeg.array) for jpeg in jpegs], labels.tolist())
    [b'cat/1.jpg', b'cat/2.jpg'] [[0], [0]]
    [b'dog/1.jpg'] [[1]]
    """

    _operator: ClassVar[str] = "readers.File"
    _told_of: ClassVar[str] = "the name and the label"
    _scalar_labels = False  # of one that was pickled before there was the argument

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
        labels: Sequence[Any] | None = None,
        file_list: PathLike | None = None,
        label_type: LabelType | None = None,
        num_labels: int | None = None,
        classes: Sequence[str] | None = None,
        file_filters: Sequence[str] | None = None,
        dir_filters: Sequence[str] | None = None,
        case_sensitive_filter: bool | None = False,
        scalar_labels: bool | None = False,
        **common: Unpack[Common],
    ) -> None:
        self._scalar_labels = flag(self._operator, "scalar_labels", scalar_labels)
        list_samples = _source(
            file_root,
            files,
            labels,
            file_list,
            Labels.asked(self._operator, label_type, num_labels, classes, scalar=self._scalar_labels),
            _patterns("file_filters", file_filters) or FILE_FILTERS,
            _patterns("dir_filters", dir_filters),
            case_sensitive=flag(self._operator, "case_sensitive_filter", case_sensitive_filter),
        )
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, by label: of folders, or of labels that are names; None where labels have none."""
        classes: tuple[str, ...] | None = self._listing.classes
        return classes

    def _told(self, listed: Listing, rows: Any) -> Iterable[tuple[Any, ...]]:
        names = listed.names if listed.chosen is None else listed.take(rows.tolist())
        return zip(names, listed.labels[rows].tolist(), strict=True)

    def _groups(self, listed: Listing, rows: Any) -> Iterable[tuple[Array, Sequence[Any]]]:
        if listed.labels.ndim > 1:  # several for each file
            return
        labels, numbers = numpy.unique(listed.labels[rows], return_inverse=True)
        if listed.classes is not None:
            yield numbers, [listed.classes[label] for label in labels.tolist()]
        yield numbers, labels.tolist()

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, Batch]:
        numbers = self._listing.labels[indices]
        if self._scalar_labels:
            numbers = numbers.astype(numpy.int64) if numbers.dtype.kind == "i" else numbers
        elif numbers.ndim == 1:
            numbers = numbers[:, None]
        labels = Batch(numbers, origin=origin)
        if not indices:
            return Batch([], origin=origin, dtype=numpy.dtype(numpy.uint8), ndim=1), labels
        return Batch(self._files(indices), origin=origin), labels


def _source(
    file_root: PathLike | None,
    files: PathLike | Sequence[PathLike] | None,
    labels: Any,
    file_list: PathLike | None,
    wanted: Labels,
    file_filters: tuple[str, ...],
    dir_filters: tuple[str, ...] | None,
    *,
    case_sensitive: bool,
) -> Callable[[Store], Listing]:
    """A function that lists the samples, wherever the working folder is then."""
    operator = File._operator
    root, listed = (
        None if path is None else a_path(operator, argument, path)
        for argument, path in (("file_root", file_root), ("file_list", file_list))
    )
    if files is not None and file_list is not None:
        raise ArgumentError(operator, "files", "None where file_list is given", shown(files))
    if files is None and labels is not None:
        raise ArgumentError(operator, "labels", "None unless files are given", shown(labels))
    if files is not None:
        taken = numpy.array(labels) if hasattr(labels, "__array__") else as_it_is(labels)
        return functools.partial(listed_files, operator, root or "", as_it_is(files), taken, wanted)
    if listed is not None:
        return functools.partial(listed_lines, operator, listed, root or "", wanted)
    for argument, value in zip(("classes", "num_labels", "label_type"), wanted[2::-1], strict=True):
        if value is not None:
            hint = "Folders are classes in the order of their names: select them by dir_filters=."
            hint = hint if argument == "classes" else ""
            raise ArgumentError(operator, argument, "None unless files or file_list is given", shown(value), hint)
    if root is None:
        raise ArgumentError(operator, "file_root", "a path, unless files or file_list is given", "None")
    return functools.partial(
        listed_folder, operator, root, file_filters, dir_filters, case_sensitive=case_sensitive, advice=_ADVICE
    )


def _patterns(argument: str, patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    if patterns is None:
        return None
    several = as_it_is(patterns)
    if not isinstance(several, tuple) or not several or not all(isinstance(pattern, str) for pattern in several):
        raise ArgumentError(File._operator, argument, "a list of at least one pattern such as '*.jpg'", shown(patterns))
    return several
