"""Many arrays of one dtype, whose shapes may differ."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy
from numpy.typing import NDArray

from dynamic._arrays import dlpack
from dynamic._arrays.array import Array, current, is_array, library
from dynamic._arrays.described import Views, rows
from dynamic._base.layout import after_indexing, checked, combined, ndim_after_indexing
from dynamic._base.origin import Origin
from dynamic.devices import Device, DeviceLike
from dynamic.dtypes import DTypeLike, convert, storable
from dynamic.errors import ArgumentError

from . import _repr
from ._arithmetic import operand, spoken
from ._index import deciding, in_pipeline, new_axes, plain_index
from ._joined import evaluated, joined
from ._operators import Data, checked_batch_size, foreign_operand, into_arrays, no_operand, wanted_device
from ._storage import is_storage, ready
from ._tensor import Tensor, jax_array, torch_tensor
from ._transfer import moved, moved_samples

if TYPE_CHECKING:
    import jax
    import torch


class Batch(Data):
    """N samples of one dtype, device, number of dimensions and layout; their shapes may differ.

    Made by `as_batch` (shares memory) and `batch` (copies), by readers and by operators. It is a sequence of samples:
    ``len``, iteration, ``batch[i]`` (a Tensor), ``batch[1:3]`` and ``batch[[2, 0]]`` (Batches).
    Another operand is one value for all samples: ``labels == [1, 2]`` compares each label with both.

    Args:
        storage: Anything that `as_batch` takes; arrays of one dtype and number of dimensions are kept as they are.
        layout: A letter for each dimension of a sample.
        origin: Where the samples came from.
        dtype: Element type to convert to; that of the samples where `storage` is an empty list.
        ndim: Number of dimensions of a sample; needed where `storage` is an empty list.
        device: Where to put them; by default where they are.

    >>> b = ndd.as_batch([[1, 2, 3], [4, 5]])
    >>> b
    Batch(
        [[1 2 3],
        [4 5]],
        dtype=i32,
        device="cpu",
        num_samples=2,
        shape=[(3,), (2,)])
    >>> (b * 2)[1].tolist()
    [8, 10]
    """

    __slots__ = ("__weakref__", "_dtype", "_layout", "_ndim", "_origin", "_ready", "_samples", "_whole")

    _of_anything: ClassVar[Callable[..., Batch]]  #: that of a Batch

    def __init__(
        self,
        storage: Any,
        layout: str | None = None,
        origin: Origin | None = None,
        dtype: DTypeLike = None,
        ndim: int | None = None,
        *,
        device: DeviceLike = None,
    ) -> None:
        if device is not None or not is_storage(storage, dtype):
            made: Batch = Batch._of_anything("Batch", storage, dtype, device, layout)
            storage = made.samples if made.whole is None else made.whole
            layout, origin, dtype, ndim = made.layout, origin or made.origin, made._numpy_dtype, made.ndim
        separate = storage.__class__ is list or isinstance(storage, Views)
        self._layout, self._origin = layout or None, origin
        self._whole: Array | None = None if separate else storage
        self._samples: list[Array] | Views | None = storage if separate else None
        first: Any = storage[0] if storage.__class__ is list and storage else storage
        self._ready = ready(first)
        self._dtype: numpy.dtype[Any] | None = dtype if first.__class__ is list else first.dtype
        self._ndim: int | None = ndim if first.__class__ is list else first.ndim if separate else first.ndim - 1
        if layout and (layout.__class__ is not str or len(layout) != self._ndim):
            checked(layout, self.ndim, "Batch", "sample")

    @staticmethod
    def broadcast(sample: Any, batch_size: int, device: DeviceLike = None, dtype: DTypeLike = None) -> Batch:
        """Repeat one sample `batch_size` times. All samples share its memory.

        Args:
            sample: A Tensor, or anything that `as_tensor` takes.
            batch_size: Number of samples, 0 or more.
            device: The device of the Batch; by default that of the sample.
            dtype: Element type to convert to.

        Returns:
            A Batch of equal samples.

        Raises:
            ArgumentError: The sample is a Batch, or the number is below 0.

        >>> ndd.Batch.broadcast([1, 2], 3).shape
        [(2,), (2,), (2,)]
        """
        if isinstance(sample, Batch):
            raise ArgumentError("Batch.broadcast", "sample", "one sample", "a Batch")
        count = checked_batch_size("Batch.broadcast", batch_size)
        made = Tensor._of_anything("Batch.broadcast", sample, dtype, device)
        return Batch(library(made.array).broadcast_to(made.array, (count, *made.shape)), made.layout)

    @property
    def whole(self) -> Array | None:
        """The (N, ...) array of all samples, if one holds them; else None. It is ready on the current stream."""
        if self._ready is not None:
            self._here()
        return self._whole

    @property
    def samples(self) -> Sequence[Array]:
        """The arrays of the samples: the storage itself, ready on the current stream. Do not write to them."""
        if self._ready is not None:
            self._here()
        if self._samples is None:
            whole = self._whole
            assert whole is not None, "a Batch has one of three storages"
            if self._ready is not None:
                self._samples = rows(whole)
            else:
                self._samples = list(whole) if whole.ndim > 1 else [whole[i, ...] for i in range(len(whole))]
        return self._samples

    def _here(self) -> None:
        """Let the current stream wait for data on a GPU, where another made it."""
        assert self._ready is not None, "asked of data on a GPU"
        owners = [self._whole] if self._whole is not None else self._samples
        owners = [owners.keeper] if isinstance(owners, Views) else owners
        self._ready.here(*(owners or ()))

    @property
    def batch_size(self) -> int:
        """Number of samples."""
        return len(self)

    @property
    def layout(self) -> str | None:
        """A letter for each dimension of a sample ("HWC"), or None."""
        return self._layout

    @property
    def origin(self) -> Origin | None:
        """Epoch, ids and names of the samples, if a reader gave them; else None."""
        return self._origin

    @property
    def shape(self) -> Shapes:
        """The extents of each sample: a list of tuples. ``shape()``, as in pipelines of DALI, is a Batch of them."""
        if self._whole is not None:
            return Shapes([self._whole.shape[1:]] * len(self._whole))
        if isinstance(self._samples, Views):
            return Shapes(self._samples.shapes)
        return Shapes([sample.shape for sample in self._samples or ()])

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        assert self._ndim is not None, "an empty Batch is made with ndim="
        return self._ndim

    @property
    def _numpy_dtype(self) -> numpy.dtype[Any]:
        assert self._dtype is not None, "an empty Batch is made with dtype="
        return self._dtype

    @property
    def device(self) -> Device:
        """The device of the data: the CPU, or a GPU by number."""
        return Device.CPU if self._ready is None else Device("gpu", self._ready.device_id)

    @property
    def tensors(self) -> TensorList:
        """The samples as a list of Tensors."""
        return TensorList(self)

    @property
    def slice(self) -> SampleIndexer:
        """Indexing inside the samples: ``batch.slice[0, 2:5]`` is a Batch of ``sample[0, 2:5]``.

        An index or a bound may be a Batch of integers, which gives each sample its own.

        >>> b = ndd.as_batch([[1, 2, 3], [4, 5]])
        >>> b.slice[ndd.as_batch([2, 0])].tolist()
        [3, 4]
        """
        return SampleIndexer(self)

    def select(self, sample_range: Any) -> Tensor | Batch:
        """Select samples, also in a pipeline, where brackets index inside them.

        Args:
            sample_range: An integer; a slice, list or array; or ``...`` for all.

        Returns:
            A Tensor for an integer, else a Batch.

        Raises:
            IndexError: There is no such sample, or this is no index.

        >>> ndd.as_batch([[1], [2, 3], [4]]).select([2, 0]).tolist()
        [[4], [1]]
        """
        return self if sample_range is Ellipsis else self._selected(sample_range)

    def to_device(self, device: DeviceLike, force_copy: bool = False) -> Batch:
        """Move the Batch to a device. One that is there already is given back as it is.

        Args:
            device: "cpu", "gpu", "gpu:1" or a Device.
            force_copy: Whether to copy also where the data is there already.

        Returns:
            A Batch of the same samples, layout and origin.

        Raises:
            DeviceError: This machine has no such device, or no CuPy.
        """
        target = wanted_device(device)
        if target == self.device and not force_copy:
            return self
        if self._whole is None and len(self):
            return self._like(moved_samples(self.samples, target))
        whole = numpy.empty((0,) * (1 + self.ndim), self._numpy_dtype) if self._whole is None else self.whole
        return Batch(moved(whole, target), self._layout, self._origin)

    def _like(self, samples: list[Array] | Views, origin: Origin | None = None) -> Batch:
        return Batch(samples, self._layout, origin or self._origin, self._dtype, self._ndim)

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers: a list for each sample, or a number if it has no dimensions.

        >>> ndd.as_batch([[1, 2], [3]]).tolist()
        [[1, 2], [3]]
        """
        host = self.cpu()
        whole = host.whole
        return [sample.tolist() for sample in host.samples] if whole is None else list(whole.tolist())

    def dense(self, pad: bool = False) -> Array:
        """Return the samples as one (N, ...) array, on their device. Storage that is one array is not copied.

        Args:
            pad: Whether to fill smaller samples with zeros, at the end of each dimension.

        Returns:
            A NumPy or CuPy array. Do not write to it.

        Raises:
            ValueError: The shapes differ, and `pad` is False.

        >>> ndd.as_batch([[1, 2], [3]]).dense(pad=True).tolist()
        [[1, 2], [3, 0]]
        """
        whole = self.whole
        return joined(self.samples, self.shape, self._numpy_dtype, self.ndim, pad=pad) if whole is None else whole

    def numpy(self, pad: bool = False) -> NDArray[Any]:
        """Return the samples as one read-only NumPy array (N, ...).

        Args:
            pad: Whether to fill smaller samples with zeros, at the end of each dimension.

        Raises:
            TypeError: The Batch is on a GPU; call ``cpu()`` first.
            ValueError: The shapes differ, and `pad` is False.

        >>> ndd.as_batch([[1, 2], [3, 4], [5, 6]]).numpy().shape
        (3, 2)
        """
        return Tensor(self.dense(pad)).numpy()

    def torch(self, copy: bool | None = None, pad: bool = False) -> torch.Tensor:
        """Return the samples as one torch tensor (N, ...), of the same dtype and on the same device.

        Args:
            copy: False shares the memory or raises; True copies; None shares where torch can.
            pad: Whether to fill smaller samples with zeros, at the end of each dimension.

        Returns:
            A tensor that shares memory with the Batch, or owns a copy.

        Raises:
            ImportError: torch is not installed.
            BufferError: `copy` is False, and the samples are not one array that torch can share.
            ValueError: The shapes differ, and `pad` is False.
        """
        if copy is False and self._whole is None:
            raise BufferError("This Batch is not one array; pass copy=None.")
        return torch_tensor(Tensor(self.dense(pad)), copy if self._whole is not None else None)

    def cupy(self, pad: bool = False) -> Any:
        """Return the samples as one CuPy array (N, ...), ready on the current stream.

        Args:
            pad: Whether to fill smaller samples with zeros, at the end of each dimension.

        Raises:
            TypeError: The Batch is on the CPU; call ``gpu()`` first.
            ValueError: The shapes differ, and `pad` is False.
        """
        return Tensor(self.dense(pad)).cupy()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy is False and self._whole is None:
            raise BufferError("A Batch of separate samples cannot be exported through DLPack without a copy.")
        return dlpack.exported(self.dense(), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self._ready is None else (2, self._ready.device_id)

    def jax(self, pad: bool = False) -> jax.Array:
        """Return the samples as one array of JAX (N, ...): on the same GPU, or from the CPU on JAX's default device.

        Args:
            pad: Whether to fill smaller samples with zeros, at the end of each dimension.

        Raises:
            ImportError: JAX is not installed.
            ArgumentError: The dtype has 64 bits, and ``jax_enable_x64`` is not set.
            ValueError: The shapes differ, and `pad` is False.
        """
        return jax_array(Tensor(self.dense(pad)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False and self._whole is None:
            raise ValueError("A Batch of separate samples cannot become one array without a copy.")
        return Tensor(self.dense()).__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs or method == "at":
            return into_arrays(ufunc, method, inputs, kwargs)
        if method != "__call__":
            hint = "dynamic.reductions has it for each sample, and as_tensor(batch) makes one array of all"
            raise TypeError(f"numpy.{ufunc.__name__}.{method} of a Batch: {hint}.")
        operands: list[Batch | Array] = []
        for x in inputs:
            value = x if isinstance(x, Batch) else x.array if isinstance(x, Tensor) else operand(x)
            if value is None:
                value = foreign_operand(x, short=in_pipeline.get())
            if value is None:
                return no_operand(ufunc, inputs, x)
            if isinstance(x, (list, tuple)) and self._ready is not None:
                value = moved(value, self.device)
            operands.append(value)
        batches = [x for x in operands if isinstance(x, Batch)]
        sizes = {len(b) for b in batches}
        if len(sizes) > 1:
            raise ArgumentError(spoken(ufunc), "operand", "Batches of one size", f"sizes {sorted(sizes)}")
        layouts = [x.layout for x in inputs if isinstance(x, (Batch, Tensor))]
        result = evaluated(ufunc, operands, sizes.pop(), kwargs)
        parts = [_assembled(part, layouts, batches[0].origin, spoken(ufunc)) for part in result]
        return parts[0] if ufunc.nout == 1 else tuple(parts)

    def __len__(self) -> int:
        storage: Any = self._samples if self._whole is None else self._whole
        return len(storage)

    def __iter__(self) -> Iterator[Tensor]:
        return map(self._sample, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: builtins.slice | Sequence[int] | Tensor | Batch | NDArray[Any]) -> Batch: ...
    def __getitem__(self, index: Any) -> Tensor | Batch:
        return self.slice[index] if in_pipeline.get() else self._selected(index)

    def _selected(self, index: Any) -> Tensor | Batch:
        """Samples, whatever an index in brackets means."""
        if isinstance(index, Batch):
            index = index.dense()
        if isinstance(index, tuple):
            raise IndexError("a Batch has one index, over its samples; batch.slice[...] indexes inside them")
        (plain,) = plain_index(index)
        if hasattr(plain, "__index__") and not getattr(plain, "ndim", 0):
            return self._sample(plain.__index__())
        if plain is None or plain is Ellipsis:
            raise IndexError("the index of a Batch is an integer, a slice, or a list or array of integers or bools")
        if is_array(plain):
            plain = moved(plain, Device.CPU)
        places = numpy.arange(len(self))[plain]
        if places.ndim != 1:
            raise IndexError(f"the index of a Batch has one dimension, not {places.ndim}")
        origin = self._origin.take(places.tolist()) if self._origin is not None else None
        whole = self.whole
        if whole is not None and (isinstance(plain, slice) or not self.ndim):
            with current(self.device):
                return Batch(whole[plain if isinstance(plain, slice) else places], self._layout, origin)
        samples = self.samples
        if isinstance(samples, Views):
            return self._like(samples.take(places), origin)
        return self._like([samples[i] for i in places], origin)

    def _sample(self, index: int) -> Tensor:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"sample {index} of a Batch of {n}")
        origin = self._origin.take([index % n]) if self._origin is not None else None
        whole = self.whole
        array = whole[index, ...] if whole is not None else self.samples[index]
        return Tensor(array, self._layout, origin)

    def __contains__(self, value: object) -> bool:
        parts = [Tensor(self.whole)] if isinstance(value, (int, float)) and self.whole is not None else self
        return any(value in part if part.ndim else bool(part == value) for part in parts)

    def __bool__(self) -> bool:
        decide = deciding.get()
        if decide is not None:
            return decide(self)
        hint = " For one of each sample: pipeline_def(enable_conditionals=True)." if in_pipeline.get() else ""
        raise ValueError(f"The truth value of a Batch is ambiguous: use len(batch), or compare its samples.{hint}")

    def __repr__(self) -> str:
        return _repr.of_batch(self)

    def _repr_html_(self) -> str:
        samples = [self._sample(i).array for i in range(min(len(self), _repr.SHOWN))]
        return _repr.html_of(self, samples, repr(self))

    def __reduce__(self) -> tuple[Callable[..., Batch], tuple[Any, ...]]:
        copied = self.to_device(Device.CPU, force_copy=True)
        storage = list(copied.samples) if copied.whole is None else copied.whole
        return _restored, (storage, self._layout, self._origin, self._dtype, self._ndim, self.device)


def _restored(storage: Any, layout: Any, origin: Any, dtype: Any, ndim: Any, device: Device) -> Batch:
    return Batch(storage, layout, origin, dtype, ndim).to_device(device)


def _assembled(
    result: Array | Sequence[Array], layouts: list[str | None], origin: Origin | None, operator: str
) -> Batch:
    ndim = result[0].ndim if isinstance(result, Sequence) else result.ndim - 1
    return Batch(result, combined(layouts, ndim, operator), origin)


class Shapes(list[tuple[int, ...]]):
    """The extents of each sample of a Batch."""

    __slots__ = ()

    def __call__(self, dtype: DTypeLike = "int64") -> Batch:
        """The extents as data, an array for each sample.

        Args:
            dtype: Element type; larger numbers become its largest.

        >>> ndd.Batch.broadcast([1, 2], 2).shape().tolist()
        [[2], [2]]
        """
        kind = storable(dtype, "shape")
        return Batch([convert(numpy, numpy.array(own, "int64"), kind) for own in self], dtype=kind, ndim=1)


class TensorList(Sequence[Tensor]):
    """The samples of a Batch as a list of Tensors; its slices and selections are lists too."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: builtins.slice | Sequence[int]) -> TensorList: ...
    def __getitem__(self, index: Any) -> Tensor | TensorList:
        found = self._batch._selected(index)
        return TensorList(found) if isinstance(found, Batch) else found

    def select(self, index: Any) -> Tensor | TensorList:
        """The Tensors of an index: one for an integer, a list for a slice, a list or ``...``."""
        return self if index is Ellipsis else self[index]

    def tolist(self) -> list[Tensor]:
        """The Tensors in a Python list."""
        return list(self)

    def as_batch(self, copy: bool = False) -> Batch:
        """Return the Tensors as a Batch.

        Args:
            copy: Whether to give it memory of its own.

        Returns:
            A Batch of these samples, over their memory unless `copy` is True.
        """
        return self._batch.to_device(self._batch.device, force_copy=copy)

    def __repr__(self) -> str:
        return f"TensorList of {self._batch!r}"


class SampleIndexer:
    """``batch.slice``: indexing inside the samples of a Batch."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __getitem__(self, index: Any) -> Batch:
        batch = self._batch
        entries = index if isinstance(index, tuple) else (index,)
        if any(isinstance(value, Batch) for entry in entries for value in _values(entry)):
            return self._each(entries)
        plain = plain_index(entries)
        if batch.whole is not None and all(e.__class__ is int or isinstance(e, slice) or e is Ellipsis for e in plain):
            with contextlib.suppress(IndexError):  # the samples tell which of them
                part = batch.whole[(slice(None), *plain)]
                return Batch(part, after_indexing(batch.layout, plain, part.ndim - 1), batch.origin)
        return self._each(entries)

    def _each(self, entries: tuple[Any, ...]) -> Batch:
        batch, n = self._batch, len(self._batch)
        if not n:
            plain = plain_index(tuple(map(_for_nothing, entries)))
            ndim = ndim_after_indexing(batch.ndim, plain)
            layout = after_indexing(batch.layout, plain, ndim, new_axes(entries))
            return Batch([], layout, batch.origin, batch._numpy_dtype, ndim)
        columns, parts = [_column(entry, n) for entry in entries], []
        for i in range(n):
            row = tuple(column[i] for column in columns)
            try:
                part = Tensor(batch.samples[i], batch.layout)[row]
            except IndexError as error:
                error.add_note(f"In slice[...], sample {i} of {n}: shape {batch.samples[i].shape}.")
                raise
            parts.append(part.array)
            layout = part.layout
        if len({part.ndim for part in parts}) > 1:
            raise IndexError("the parts of the samples have different numbers of dimensions")
        return Batch(parts, layout, batch.origin)


def _values(entry: Any) -> tuple[Any, ...]:
    return (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,)


def _for_nothing(entry: Any) -> Any:
    """An entry that leaves as many dimensions as one whose parts are Batches, for samples that there are not."""
    if isinstance(entry, slice):
        return slice(None)
    return numpy.zeros((1,) * entry.ndim, entry._numpy_dtype)[()] if isinstance(entry, Batch) else entry


def _column(entry: Any, n: int) -> list[Any]:
    """The index that each of n samples gets for an entry, whose parts may be Batches."""
    parts = [_spread(value, n) for value in _values(entry)]
    return [slice(*row) for row in zip(*parts, strict=True)] if isinstance(entry, slice) else parts[0]


def _spread(value: Any, n: int) -> list[Any]:
    if not isinstance(value, Batch):
        return [value] * n
    if len(value) != n:
        raise ArgumentError("slice", "index", f"one for each of the {n} samples", f"{len(value)} values")
    return list(value)
