"""The readers of databases for Caffe and Caffe2: LMDB, with a message of Protocol Buffers in each record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.errors import ArgumentError

from ._alike import Alike
from ._checks import flag, natural
from ._lmdb import InDatabases
from ._reader import Batches
from ._stored import Common, PathLike, Unusable, a_path, called_with
from ._wire import BYTES, FOUR, VARINT, Malformed, fields, length, varints

__all__ = ["Caffe", "Caffe2"]

_UINT8, _INT32, _INT64, _FLOAT32 = map(numpy.dtype, ("uint8", "int32", "int64", "float32"))
_SINGLE, _SPARSE, _DENSE, _WEIGHTED, _NONE = range(5)  # kinds of labels
_FLOAT, _INT, _BYTE, _STRING, _LONG = 1, 2, 3, 4, 10  # types of the data of a tensor
_WORDS = {_FLOAT: "FLOAT", _INT: "INT32", _BYTE: "BYTE", _STRING: "STRING", _LONG: "INT64"}
_BOX = 4  # numbers
_MOST = 1 << 31  # of classes


class _Databases(Alike[InDatabases]):
    """A reader of LMDB databases."""

    _empty: list[tuple[numpy.dtype[Any], int]]  # types and dimensions of the outputs, where no sample tells

    def _read(self, indices: list[int], origin: Origin) -> Batches:
        listing = self._listing
        databases = listing.databases(indices)
        samples = self._each(indices, lambda i: self._parsed(listing.record(i, databases)))
        return self._outputs(samples, indices, self._empty, origin)

    def _sample(self, index: int) -> list[Array]:
        return self._parsed(self._listing.record(index, self._listing.databases([index])))

    def _parsed(self, record: Array) -> list[Array]:
        """The arrays of a record."""
        raise NotImplementedError


def _lister(operator: str, path: Any, verify: Any) -> Callable[..., InDatabases]:
    """A function that lists the records of databases."""
    several = isinstance(path, Sequence) and not isinstance(path, (str, bytes))
    given = {f"path[{i}]": one for i, one in enumerate(path)} if several else {"path": path}
    if not given:
        raise ArgumentError(operator, "path", "a path, or a list of at least one", "none")
    paths = [a_path(operator, name, one, here=True) for name, one in given.items()]
    sound = flag(operator, "verify", verify, default=True)
    return functools.partial(InDatabases.of, operator, paths, verify=sound)


class Caffe(_Databases):
    """Reads images and labels from LMDB databases, as Caffe has them: a Datum in each record.

    The outputs are the bytes of each image, mostly of a JPEG file, and its label, int32. A raw image is an array of
    height, width and channels; its channels mostly are blue, green and red. A record without an image or a label that
    is asked for is an error; see `on_error`. Needs lmdb: ``pip install 'dynamic-batch[lmdb]'``.

    A sample is known by the path of its database, below the folder that all lie in, and its key.

    Args:
        path: The databases, one or several: folders with a file "data.mdb", or such files. They must be on this
            machine, as the library maps them.
        image_available: Whether the first output is the image.
        label_available: Whether the last is the label.
        verify: Look whether the files are sound before the library maps them: a damaged one may end the process. That
            takes about 10 us for each record, once.

    Raises:
        ArgumentError: An argument is wrong, or there are no records.
        DataError: A database is damaged.

    >>> import lmdb, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train_lmdb")
    >>> with lmdb.open(str(path)) as database, database.begin(write=True) as transaction:
    ...     for label, image in [(7, b"first image"), (8, b"second image")]:
    ...         datum = bytes([34, len(image), *image, 40, label, 56, 1])  # data, label, and that it is encoded
    ...         _ = transaction.put(b"%08d" % label, datum)
    >>> reader = ndd.readers.Caffe(path=path)
    >>> for images, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(image.array) for image in images], labels.tolist(), images.origin.names[0])
    [b'first image', b'second image'] [[7], [8]] train_lmdb#00000007
    """

    _operator: ClassVar[str] = "readers.Caffe"

    @called_with("path")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        path: PathLike | Sequence[PathLike],
        image_available: bool | None = True,
        label_available: bool | None = True,
        verify: bool | None = True,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        self._image = flag(operator, "image_available", image_available, default=True)
        self._label = flag(operator, "label_available", label_available, default=True)
        if not self._image and not self._label:
            raise ArgumentError(operator, "label_available", "True with image_available=False", "bool False")
        self._empty = [(_UINT8, 1)] * self._image + [(_INT32, 1)] * self._label
        super().__init__(max_batch_size, name, device, num_inputs, _lister(operator, path, verify), **common)

    def _parsed(self, record: Array) -> list[Array]:
        try:
            datum = _datum(memoryview(record))
        except Malformed as error:
            raise Unusable(f"holds no Datum: {error}") from None
        found = [_image_of(datum, record)] if self._image else []
        if self._label:
            if datum.label is None:
                raise Unusable("has no label")
            found.append(numpy.array([datum.label], numpy.int32))
        return found


@dataclass
class _Datum:
    """A record of Caffe."""

    shape: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0, 3: 0})  #: channels, height and width
    data: tuple[int, int] | None = None  #: where it begins and ends
    label: int | None = None
    encoded: bool = True
    floats: bool = False


def _datum(record: memoryview) -> _Datum:
    """The message of a record. Of several fields with one number it is the last that counts."""
    datum = _Datum()
    for number, wire, start, stop in fields(record):
        if wire == BYTES and number == 4:
            datum.data = start, stop
        elif number == 6 and wire in (BYTES, FOUR):
            datum.floats = True
        elif wire == VARINT:
            value = _signed(length(record, start)[0])
            if number in datum.shape:
                datum.shape[number] = value
            elif number == 5:
                datum.label = value
            elif number == 7:
                datum.encoded = bool(value)
    return datum


def _signed(value: int) -> int:
    """A number of 32 bits, of which a message may have more."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def _image_of(datum: _Datum, record: Array) -> Array:
    if datum.data is None:
        raise Unusable("has floats for an image, which are not supported" if datum.floats else "has no image")
    data = record[slice(*datum.data)]
    if datum.encoded:
        return data
    shape = tuple(datum.shape.values())
    if min(shape) < 0 or shape[0] * shape[1] * shape[2] != len(data):
        told = "{} channels, height {} and width {}".format(*shape)
        raise Unusable(f"has {len(data)} bytes for a raw image of {told}")
    return numpy.ascontiguousarray(data.reshape(shape).transpose(1, 2, 0))


class Caffe2(_Databases):
    """Reads images, labels and further tensors from LMDB databases, as Caffe2 has them: TensorProtos in each record.

    The outputs are the bytes of each image, mostly of a JPEG file, or an array of height, width and channels where it
    is raw; its labels; `additional_inputs` arrays of one dimension, float32, int32 or int64; and a box. A record with
    something else is an error; see `on_error`. Needs lmdb: ``pip install 'dynamic-batch[lmdb]'``.

    A sample is known by the path of its database, below the folder that all lie in, and its key.

    Args:
        path: The databases, one or several: folders with a file "data.mdb", or such files. They must be on this
            machine, as the library maps them.
        image_available: Whether the first output is the image.
        label_type: The labels, int32 or float32 as they are stored: 0 is one; 1 are numbers of classes, which become
            an array of ones and zeros; 2 are as many as are stored; 3 is the same as 1 with weights, float32, for
            ones; 4 is no such output.
        num_labels: The number of classes, for 1 and 3.
        additional_inputs: How many tensors follow the labels.
        bbox: Whether a box of four numbers, int32, follows these.
        verify: Look whether the files are sound before the library maps them: a damaged one may end the process. That
            takes about 10 us for each record, once.

    Raises:
        ArgumentError: An argument is wrong, or there are no records.
        DataError: A database is damaged.

    >>> import lmdb, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train_lmdb")
    >>> with lmdb.open(str(path)) as database, database.begin(write=True) as transaction:
    ...     for label, image in [(7, b"first image"), (8, b"other image")]:
    ...         image = bytes([8, 1, 16, 4, 50, len(image), *image])  # dims, the type STRING, a string
    ...         label = bytes([8, 1, 16, 2, 34, 1, label])  # dims, the type INT32, packed numbers
    ...         _ = transaction.put(image, bytes([10, len(image), *image, 10, len(label), *label]))
    >>> reader = ndd.readers.Caffe2(path=path)
    >>> for images, labels in reader.next_epoch(batch_size=2):
    ...     print([bytes(image.array) for image in images], labels.tolist())
    [b'first image', b'other image'] [[7], [8]]
    """

    _operator: ClassVar[str] = "readers.Caffe2"

    @called_with("path")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        path: PathLike | Sequence[PathLike],
        image_available: bool | None = True,
        label_type: int | None = 0,
        num_labels: int | None = 1,
        additional_inputs: int | None = 0,
        bbox: bool | None = False,
        verify: bool | None = True,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        self._image = flag(operator, "image_available", image_available, default=True)
        self._type = natural(operator, "label_type", 0 if label_type is None else label_type, 0, _NONE)
        self._classes = natural(operator, "num_labels", 1 if num_labels is None else num_labels, 1, _MOST - 1)
        self._more = natural(operator, "additional_inputs", 0 if additional_inputs is None else additional_inputs)
        self._box = flag(operator, "bbox", bbox)
        if not (self._image or self._type != _NONE or self._more or self._box):
            raise ArgumentError(operator, "label_type", "0 to 3 where nothing else is read", "4")
        labels = [(_FLOAT32 if self._type == _WEIGHTED else _INT32, 1)] * (self._type != _NONE)
        further = [(_FLOAT32, 1)] * self._more + [(_INT32, 1)] * self._box
        self._empty = [(_UINT8, 1)] * self._image + labels + further
        super().__init__(max_batch_size, name, device, num_inputs, _lister(operator, path, verify), **common)

    def _parsed(self, record: Array) -> list[Array]:
        data = memoryview(record)
        try:
            spans = [data[start:stop] for number, wire, start, stop in fields(data) if number == 1 and wire == BYTES]
            tensors = iter([_Tensor.of(span) for span in spans[: self._most]])
            return self._arrays(tensors)
        except Malformed as error:
            raise Unusable(f"holds no TensorProtos: {error}") from None
        except StopIteration:
            raise Unusable(f"has {len(spans)} tensors, where {self._most} are asked for") from None

    @property
    def _most(self) -> int:
        """How many tensors of a record are read."""
        labels = {_WEIGHTED: 2, _NONE: 0}.get(self._type, 1)
        return self._image + labels + self._more + self._box

    def _arrays(self, tensors: Any) -> list[Array]:
        found = list[Array]()
        if self._image:
            found.append(next(tensors).image())
        if self._type in (_SINGLE, _DENSE):
            labels = next(tensors).numbers("the label", (_FLOAT, _INT))
            if self._type == _SINGLE and len(labels) != 1:
                raise Unusable(f"has {len(labels)} labels, where one is asked for (label_type=0)")
            found.append(labels)
        elif self._type != _NONE:
            labels = next(tensors).numbers("the labels", (_FLOAT, _INT))
            weights = None
            if self._type == _WEIGHTED:
                weights = next(tensors).numbers("the weights", (_FLOAT,))
            found.append(self._spread(labels, weights))
        found += [next(tensors).numbers(f"additional input {k}", (_FLOAT, _INT, _LONG)) for k in range(self._more)]
        if self._box:
            box = next(tensors).numbers("the box", (_INT,))
            if len(box) != _BOX:
                raise Unusable(f"has a box of {len(box)} numbers, where {_BOX} are asked for (bbox=True)")
            found.append(box)
        return found

    def _spread(self, labels: Array, weights: Array | None) -> Array:
        """Numbers of classes as an array with a value for each class."""
        if weights is not None and len(weights) != len(labels):
            raise Unusable(f"has {len(weights)} weights for {len(labels)} labels")
        with numpy.errstate(invalid="ignore"):
            classes = labels.astype(numpy.int64)
        wrong = (labels < 0) | (labels >= self._classes) | (classes != labels)
        if wrong.any():
            raise Unusable(f"has label {labels[wrong][0]}, where num_labels is {self._classes}")
        found = numpy.zeros(self._classes, labels.dtype if weights is None else _FLOAT32)
        found[classes] = 1 if weights is None else weights
        return found


@dataclass
class _Tensor:
    """A tensor of a record of Caffe2."""

    message: memoryview
    kind: int
    spans: dict[int, list[tuple[int, int, int]]]  #: of each field the wire types, and where they begin and end

    @classmethod
    def of(cls, message: memoryview) -> _Tensor:
        """The tensor of a message."""
        tensor = cls(message, _FLOAT, {})
        for number, wire, start, stop in fields(message):
            if number == 2 and wire == VARINT:
                tensor.kind = length(message, start)[0]
            else:
                tensor.spans.setdefault(number, []).append((wire, start, stop))
        return tensor

    def image(self) -> Array:
        """The bytes of a file, or a raw image."""
        if self.kind == _STRING:
            strings = self._bytes_of(6)
            if not strings:
                raise Unusable("has no string for the image")
            return numpy.frombuffer(strings[0], numpy.uint8)
        if self.kind != _BYTE:
            raise Unusable(f"has an image of the type {_WORDS.get(self.kind, self.kind)}, not STRING or BYTE")
        data, dims = self._bytes_of(5)[-1:], self._varints_of(1).tolist()
        shape = dims if len(dims) == 3 else [*dims, 1]
        size = len(data[0]) if data else 0
        if len(shape) != 3 or min(shape) < 0 or shape[0] * shape[1] * shape[2] != size:
            raise Unusable(f"has {size} bytes for a raw image of the dimensions {dims}")
        return numpy.frombuffer(data[0] if data else b"", numpy.uint8).reshape(shape)

    def numbers(self, words: str, kinds: Sequence[int]) -> Array:
        """The numbers, which must be of one of some types."""
        if self.kind not in kinds:
            wanted = " or ".join(_WORDS[kind] for kind in kinds)
            raise Unusable(f"{words} should be of the type {wanted}; got {_WORDS.get(self.kind, self.kind)}")
        if self.kind == _FLOAT:
            parts = [self.message[a:b] for wire, a, b in self.spans.get(3, ()) if wire in (BYTES, FOUR)]
            if any(len(part) % 4 for part in parts):
                raise Malformed("a list of floats is cut off")
            return numpy.frombuffer(b"".join(parts), "<f4").astype(_FLOAT32)
        if self.kind == _INT:
            return self._varints_of(4).astype(_INT32)  # of more than 32 bits the lower ones count
        return self._varints_of(10)

    def _bytes_of(self, number: int) -> list[memoryview]:
        return [self.message[start:stop] for wire, start, stop in self.spans.get(number, ()) if wire == BYTES]

    def _varints_of(self, number: int) -> Array:
        """The numbers of a field, in one piece or each for itself: int64."""
        parts = [self.message[a:b] for wire, a, b in self.spans.get(number, ()) if wire in (BYTES, VARINT)]
        return numpy.concatenate([numpy.empty(0, _INT64), *map(varints, parts)])
