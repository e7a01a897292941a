"""Outputs of pipelines: Batches that also have the methods of DALI's outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy
from numpy.typing import NDArray

from dynamic import ArgumentError, Batch, Tensor, as_batch
from dynamic.data import Shapes
from dynamic.dtypes import DType, dtype, numpy_dtype
from dynamic.errors import nearest, shown
from dynamic.random._rng import keyed_only

__all__ = ["Declared", "Output", "OutputTensor", "Varying", "named", "names", "stepped"]

_ALIGNED = (
    "Leave the same samples out of all: decode with on_error='null', take kept = [i for i, image in enumerate(images) "
    "if image.size], and return images[kept], labels[kept]. on_error='skip' or 'replace' of a reader is aligned."
)


class _Shapes(Shapes):
    """The extents of each sample of an output; ``shape()`` is the same list, as DALI's is."""

    __slots__ = ()

    def __call__(self) -> list[tuple[int, ...]]:  # type: ignore[override] # a list of DALI's, no Batch
        return list(self)


class _Shape(tuple[int, ...]):
    """The extents of a Tensor; ``shape()`` is a list of them, as DALI's is."""

    __slots__ = ()

    def __call__(self) -> list[int]:
        return list(self)


class _Layout(str):
    """A layout; ``layout()`` is the same, as DALI has it. None is "", which equals None too."""

    __slots__ = ()

    def __new__(cls, layout: str | None) -> Self:
        return super().__new__(cls, layout or "")

    def __call__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, "" if other is None else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class OutputTensor(Tensor):
    """A sample of an output, or all of one: a Tensor that also has the methods of DALI's TensorCPU and TensorGPU."""

    __slots__ = ()

    @staticmethod
    def of(tensor: Tensor) -> OutputTensor:
        """A Tensor with these methods; they share their memory."""
        return OutputTensor(tensor.array, tensor.layout, tensor.origin)

    @property
    def shape(self) -> _Shape:
        """The extents; ``shape()`` is a list of them."""
        return _Shape(super().shape)

    @property
    def layout(self) -> _Layout:
        """A letter for each dimension, or ""; ``layout()`` is the same."""
        return _Layout(super().layout)

    def as_cpu(self) -> OutputTensor:
        """The Tensor on the CPU: itself if it is there."""
        return OutputTensor.of(self.to_device("cpu"))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return _address(self.array)

    def copy_to_external(self, ptr: Any) -> None:
        """Copy the elements, one after the other, to memory of the CPU.

        Args:
            ptr: The address, a number or a ``ctypes.c_void_p``: nobody can check it.
        """
        array = numpy.ascontiguousarray(self.to_device("cpu").array)
        ctypes.memmove(ptr, array.ctypes.data, array.nbytes)

    def source_info(self) -> str:
        """The file that the sample comes from, as its reader names it; "" if none is known."""
        return "" if self.origin is None or len(self.origin) != 1 else str(self.origin.names[0])

    def get_property(self, key: str) -> str:
        """`source_info` or the layout.

        Args:
            key: "source_info" or "layout".
        """
        if key not in ("source_info", "layout"):
            raise ArgumentError("get_property", "key", "'source_info' or 'layout'", shown(key))
        return self.source_info() if key == "source_info" else str(self.layout)


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, numpy.ndarray) else array.data.ptr)


class Output(Batch):
    """An output of a pipeline: a Batch, which also has the methods of DALI's TensorList.

    >>> from dynamic.pipeline import pipeline_def
    >>> with pipeline_def(batch_size=2)(lambda: [1, 2])() as pipe:
    ...     (output, _) = pipe.run()
    >>> output.at(1).item(), output.as_array().tolist(), output[0].shape()
    (1, [1, 1], [])
    """

    __slots__ = ()

    @staticmethod
    def of(batch: Batch) -> Output:
        """A Batch as the output of a pipeline; they share their memory."""
        if isinstance(batch, Output):
            return batch
        storage = batch.samples if batch.whole is None else batch.whole
        return Output(storage, batch.layout, batch.origin, numpy_dtype(batch.dtype), batch.ndim)

    @property
    def shape(self) -> Shapes:
        """The extents of each sample; ``shape()`` is the same."""
        return _Shapes(super().shape)

    @property
    def layout(self) -> _Layout:
        """A letter for each dimension of a sample, or ""; ``layout()`` is the same."""
        return _Layout(super().layout)

    def _sample(self, index: int) -> Tensor:
        try:
            return OutputTensor.of(super()._sample(index))
        except IndexError as error:
            hint = "The last batch of an epoch may be smaller: ask for len(), or let the reader pad_last_batch=True."
            raise IndexError(f"{error}. {hint}") from None

    def __iter__(self) -> Iterator[Tensor]:
        return map(self._sample, range(len(self)))

    def as_cpu(self) -> Output:
        """The output on the CPU: itself if it is there."""
        return Output.of(self.to_device("cpu"))

    def at(self, index: int) -> NDArray[Any]:
        """One sample as an array of NumPy.

        Args:
            index: Of the sample; from the end if it is negative.
        """
        return self._sample(index).to_device("cpu").numpy()

    def is_dense_tensor(self) -> bool:
        """Whether the samples have one shape, so that they can be one array."""
        return len(set(self.shape)) <= 1

    def as_array(self) -> NDArray[Any]:
        """All samples as one array of NumPy, (N, ...).

        Raises:
            ValueError: Their shapes differ.
        """
        return self.as_cpu().numpy()

    def as_tensor(self) -> OutputTensor:
        """All samples as one Tensor, (N, ...).

        Raises:
            ValueError: Their shapes differ.
        """
        return OutputTensor(self.dense(), "N" + self.layout if self.layout or not self.ndim else None, self.origin)

    def as_reshaped_tensor(self, new_shape: Sequence[int]) -> OutputTensor:
        """All samples as one Tensor of another shape.

        Raises:
            ValueError: Their shapes differ, or it has not as many numbers.
        """
        return OutputTensor(self.dense().reshape(tuple(new_shape)))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return _address(self.samples[0])

    def data_at(self, index: int) -> int:
        """The address of the first element of a sample.

        Args:
            index: Of the sample.
        """
        return _address(self._sample(index).array)

    def copy_to_external(self, ptr: Any) -> None:
        """Copy all samples, one after the other, to memory of the CPU.

        Args:
            ptr: The address, a number or a ``ctypes.c_void_p``: nobody can check it.
        """
        address = ptr if isinstance(ptr, int) else ptr.value
        for sample in self.to_device("cpu").samples:
            OutputTensor(sample).copy_to_external(address)
            address += sample.nbytes


class Declared:
    """The dtypes, numbers of dimensions and layouts that the outputs of a pipeline must have.

    Args:
        output_dtype: An element type for all outputs, or a list of one for each, None for any.
        output_ndim: A number of dimensions of samples, or a list, likewise.
        output_layout: A layout, or a list, likewise; "" is that there is none.

    Raises:
        ArgumentError: There is no such type, number or layout.
    """

    def __init__(self, output_dtype: Any, output_ndim: Any, output_layout: Any) -> None:
        self._all = (
            ("dtype", _of_all(output_dtype, _element_type)),
            ("ndim", _of_all(output_ndim, _number_of_dimensions)),
            ("layout", _of_all(output_layout, _layout)),
        )

    def of_each(self, name: str, count: int) -> list[Any]:
        """The "dtype", "ndim" or "layout" of each of so many outputs; None is any."""
        wanted = dict(self._all)[name]
        return wanted if isinstance(wanted, list) else [wanted] * count

    def check(self, outputs: Sequence[Batch]) -> None:
        """Refuse other outputs.

        Raises:
            ArgumentError: An output has another type, number of dimensions or layout, or there are more or fewer.
        """
        for name, wanted in self._all:
            if isinstance(wanted, list) and len(wanted) != len(outputs):
                expected = f"one for each of the {len(outputs)} outputs"
                raise ArgumentError("Pipeline", f"output_{name}", expected, str(len(wanted)))
            for place, output in enumerate(outputs):
                one, found = wanted[place] if isinstance(wanted, list) else wanted, getattr(output, name)
                found = "no layout" if found in (None, "") else found
                if one is not None and one != found:
                    raise ArgumentError("Pipeline", f"output_{name}", f"{found}, which output {place} has", str(one))


def _of_all(given: Any, checked: Callable[[Any], Any]) -> Any:
    if isinstance(given, (list, tuple)):
        return [None if one is None else checked(one) for one in given]
    return None if given is None else checked(given)


def _element_type(value: Any) -> DType:
    try:
        return dtype(value)
    except ArgumentError as error:
        raise ArgumentError("Pipeline", "output_dtype", f"{error.expected}, or a list of them", error.got) from error


def _number_of_dimensions(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, numpy.integer)) or value < 0:
        raise ArgumentError("Pipeline", "output_ndim", "an integer of at least 0, or a list of them", shown(value))
    return int(value)


def _layout(value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError("Pipeline", "output_layout", 'a string such as "HWC", or a list of them', shown(value))
    return value or "no layout"


def names(operator: str, output_map: Any) -> tuple[str, ...]:
    """The names of outputs, if they are distinct."""
    found = () if isinstance(output_map, str) or not isinstance(output_map, Iterable) else tuple(output_map)
    if not found or not all(isinstance(name, str) for name in found) or len(set(found)) < len(found):
        raise ArgumentError(operator, "output_map", "a list of distinct names, one for each output", shown(output_map))
    return found


class Varying:
    """The outputs whose samples may differ in shape: those that are padded, and those that become lists.

    Args:
        operator: Whose errors these are.
        dynamic_shape: Whether all are padded, or the names of those that are.
        ragged: The names of those that become lists.

    Raises:
        ArgumentError: One of these is something else, or a name is in both.
    """

    def __init__(self, operator: str, dynamic_shape: bool | Collection[str], ragged: Collection[str] = ()) -> None:
        several = dynamic_shape if not isinstance(dynamic_shape, (bool, numpy.bool_)) else ()
        for argument, value, or_bool in (("dynamic_shape", several, "True, False or "), ("ragged", ragged, "")):
            is_list = isinstance(value, Collection) and not isinstance(value, (str, Mapping))
            if not is_list or not all(isinstance(name, str) for name in value):
                raise ArgumentError(operator, argument, f"{or_bool}a list of names of outputs", shown(value))
        self._all = dynamic_shape is not several and bool(dynamic_shape)
        self._padded, self.ragged = frozenset(several), frozenset(ragged)
        if both := sorted(self._padded & self.ragged):
            raise ArgumentError(operator, "ragged", f"without {both[0]!r}, which is in dynamic_shape", shown(ragged))

    def pads(self, name: str) -> bool:
        """Whether smaller samples of an output are filled with zeros."""
        return (self._all or name in self._padded) and name not in self.ragged

    def __contains__(self, name: object) -> bool:
        return self._all or name in self._padded or name in self.ragged

    def check(self, operator: str, outputs: Collection[str]) -> None:
        """Refuse names that no output has."""
        for argument, some in (("dynamic_shape", self._padded), ("ragged", self.ragged)):
            if unknown := sorted(some - set(outputs)):
                expected = f"names of outputs, which are {', '.join(map(repr, outputs))}"
                raise ArgumentError(operator, argument, expected, repr(unknown[0]), nearest(unknown[0], outputs))


def named(
    operator: str, output_map: Sequence[str], outputs: Sequence[Batch], varying: Container[str], as_list: str = ""
) -> dict[str, Batch]:
    """Each output under its name.

    Args:
        operator: Whose errors these are.
        output_map: The names.
        outputs: The outputs.
        varying: The names of those whose samples may differ in shape.
        as_list: Advice for such an output, with "{0}" for its name.

    Raises:
        ArgumentError: There are not as many names as outputs, outputs have unequal numbers of samples, or samples
            differ in shape and must not.
    """
    if len(output_map) != len(outputs):
        expected = f"a list of {len(outputs)} names, one for each output"
        raise ArgumentError(operator, "output_map", expected, shown(list(output_map)))
    found = dict(zip(output_map, outputs, strict=True))
    first = next(iter(found))
    for name, output in found.items():
        if len(output) != len(found[first]):
            numbers = f"{len(found[first])} of {first!r}, {len(output)} of {name!r}"
            raise ArgumentError(operator, name, f"has outputs of unequal numbers of samples: {numbers}", "", _ALIGNED)
        if name not in varying and len(shapes := set(output.shape)) > 1:
            some = " and ".join(map(str, sorted(shapes)[:2]))
            expected = f"True for output {name!r}, whose samples have different shapes ({some})"
            hint = as_list.format(repr(name)) or "That pads them with zeros."
            hint += " Or resize or crop the images." if {*"HW"} <= {*(output.layout or "")} else ""
            raise ArgumentError(operator, "dynamic_shape", expected, "False", hint)
    return found


def stepped(
    operator: str,
    step: Callable[..., Any] | None,
    output_map: Sequence[str],
    outputs: Sequence[Batch],
    *,
    varying: Varying,
    as_list: str = "",
) -> dict[str, Batch]:
    """The outputs after a function of the user, each under its name.

    Args:
        operator: Whose errors these are.
        step: The function; it returns a Batch, a tuple, or a dict. A NumPy array with one entry for each sample does
            for a Batch.
        output_map: The names, unless it returns a dict.
        outputs: The outputs of a reader or a pipeline.
        varying: Those whose samples may differ in shape.
        as_list: Advice for such an output, with "{0}" for its name.

    Raises:
        ArgumentError: The function returns something else, or the names do not fit.
    """
    if step is not None:
        with keyed_only():
            result = step(*outputs)
        if result is None:
            hint = "Does it end without a return?"
            raise ArgumentError(operator, "step", "a function that returns its outputs", "one that returned None", hint)
        if isinstance(result, Mapping):
            output_map, result = tuple(result), tuple(result.values())
            if not output_map or not all(isinstance(name, str) for name in output_map):
                expected = "a function whose dict has the names of outputs as keys"
                raise ArgumentError(operator, "step", expected, f"the keys {list(output_map)}")
        found = result if isinstance(result, (tuple, list)) else (result,)
        given = len(outputs[0])
        count = next((len(each) for each in found if isinstance(each, Batch)), given)
        is_named = len(output_map) == len(found)
        told: Sequence[str | int] = output_map if is_named else range(len(found))
        outputs = [
            _of_step(operator, name, each, count, given, as_list) for name, each in zip(told, found, strict=True)
        ]
        if not is_named:
            expected = f"a function that returns one output for each of the names {', '.join(map(repr, output_map))}"
            got = f"one that returned {len(found)} output{'s' * (len(found) != 1)}"
            hint = 'Return a dict with a name for each, or pass output_map=["...", ...].'
            raise ArgumentError(operator, "step", expected, got, hint)
    varying.check(operator, output_map)
    return named(operator, output_map, outputs, varying, as_list)


def _of_step(operator: str, name: str | int, value: Any, count: int, given: int, as_list: str) -> Batch:
    """An output of a function of the user as a Batch of so many samples; or of as many as it was given, for `named`."""
    if isinstance(value, Batch):
        return value
    is_array, is_list = isinstance(value, numpy.ndarray), isinstance(value, (list, tuple))
    one = value[0] if is_list and value else value
    is_text = value.dtype.kind in "SUT" if is_array else isinstance(one, (str, bytes))
    if is_array and value.ndim and len(value) in (count, given) and not is_text:
        return as_batch(value)
    shape = getattr(value, "shape", None)
    hint = f"A NumPy array with one entry for each of the {count} samples will do."
    if isinstance(shape, tuple):
        got = f"{type(value).__name__} of shape {tuple(shape)} and dtype {value.dtype}"
        hint = "as_batch makes one." if shape and not is_array else hint
    elif is_list:
        got = f"{type(value).__name__} of {len(value)} {type(one).__name__ if value else 'entries'}"
        hint = f"as_batch makes one. {as_list.format(repr(name))}".rstrip()
    else:
        got = shown(value)
    if is_text:
        hint = "Text is no output: return jpegs.origin.ids, and look up names by reader.explain(id).name."
    raise ArgumentError(operator, "step", f"a function whose output {name!r} is a Batch", got, hint)
