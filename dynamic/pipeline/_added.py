"""Functions of pipelines beside the operators of `dynamic`: constants, functions of Python, and former names."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

import dynamic
from dynamic import ArgumentError, Batch, Tensor
from dynamic._arrays.array import Array
from dynamic._lift.binding import check_given
from dynamic.data import Shapes
from dynamic.dtypes import dtype as element_type
from dynamic.dtypes import numpy_dtype, of_32_bits
from dynamic.errors import shown
from dynamic.readers._checks import natural

__all__ = ["ADDED", "FORMER", "Constant", "called", "constant", "input_sets"]

#: Former and other names of operators and readers of DALI, and the present ones.
FORMER: Mapping[str, str] = {
    "audio_decoder": "decoders.audio",
    "caffe2_reader": "readers.caffe2",
    "caffe_reader": "readers.caffe",
    "coco_reader": "readers.coco",
    "coin_flip": "random.coin_flip",
    "fast_resize_crop_mirror": "resize_crop_mirror",
    "experimental.inflate": "decoders.inflate",
    "file_reader": "readers.file",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "mxnet_reader": "readers.mxnet",
    "nemo_asr_reader": "readers.nemo_asr",
    "normal_distribution": "random.normal",
    "numpy_reader": "readers.numpy",
    "sequence_reader": "readers.sequence",
    "tfrecord_reader": "readers.tfrecord",
    "transform_translation": "transforms.translation",
    "uniform": "random.uniform",
    "video_reader": "readers.video",
    "video_reader_resize": "readers.video_resize",
    **{
        f"experimental.{name}": name
        for name in (
            "audio_resample",
            "debayer",
            "decoders.image",
            "decoders.image_crop",
            "decoders.image_random_crop",
            "decoders.image_slice",
            "decoders.video",
            "equalize",
            "filter",
            "peek_image_shape",
            "readers.fits",
            "resize",
            "tensor_resize",
        )
    },
}
_SHORT = {"float64": "float32", "int64": "int32", "uint64": "uint32"}


class Scalar(Tensor):
    """A constant that is one number; ``Constant(5).uint8()`` is it in another type, as in DALI: without its fraction.

    >>> from dynamic.pipeline import types
    >>> types.Constant(5.75).uint8().item(), str(types.Constant(5.75).uint8().dtype)
    (5, 'u8')
    """

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The number."""
        return self.item()

    def _of(self, kind: str) -> Tensor:
        number = self.value
        whole = kind.startswith(("int", "uint"))
        if whole and not math.isfinite(number):
            raise ArgumentError("types.Constant", "value", f"a number in the range of {kind}", str(number))
        return Constant(bool(number) if kind == "bool" else int(number) if whole else number, kind)

    bool = functools.partialmethod(_of, "bool")
    int8 = functools.partialmethod(_of, "int8")
    int16 = functools.partialmethod(_of, "int16")
    int32 = functools.partialmethod(_of, "int32")
    int64 = functools.partialmethod(_of, "int64")
    uint8 = functools.partialmethod(_of, "uint8")
    uint16 = functools.partialmethod(_of, "uint16")
    uint32 = functools.partialmethod(_of, "uint32")
    uint64 = functools.partialmethod(_of, "uint64")
    float16 = functools.partialmethod(_of, "float16")
    float32 = functools.partialmethod(_of, "float32")
    float64 = functools.partialmethod(_of, "float64")


def Constant(  # noqa: N802, as in DALI
    value: Any,
    dtype: Any = None,
    shape: int | Sequence[int] | None = None,
    layout: str | None = None,
    device: Any = None,
    name: str | None = None,  # noqa: ARG001 - DALI's
) -> Tensor:
    """A value that is the same for all samples. A number has a method for each type: ``Constant(5).uint8()``.

    Args:
        value: A number, nested lists of them, or an array.
        dtype: Element type; fractions are rounded and saturated to it. By default the value's, of 32 bits where that is
            an array of 64.
        shape: Extents; a single number fills them.
        layout: A letter for each dimension.
        device: Where it is; by default on the CPU.
        name: Makes no difference.

    Raises:
        ArgumentError: There are not as many numbers as the shape has places, or letters as it has dimensions, or
            integers are out of the type's range.

    >>> from dynamic.pipeline import types
    >>> types.Constant([1, 2, 3, 4], shape=(2, 2)).tolist()
    [[1, 2], [3, 4]]
    """
    given = dynamic.as_tensor(value)
    if dtype is None:
        dtype = _SHORT.get(given.dtype.word, given.dtype) if given.ndim else given.dtype
    _check_range("types.Constant", "value", given, numpy_dtype(element_type(dtype)))
    made = _laid_out("types.Constant", "value", given, dtype, shape, layout).to_device(device or "cpu")
    return made if made.ndim else Scalar(made.array)


def _check_range(name: str, argument: str, given: Tensor, kind: numpy.dtype[Any]) -> None:
    """Refuse integers that an integer type does not hold."""
    if kind.kind in "iu" and numpy_dtype(given.dtype).kind in "iu" and given.size:
        limits, array = numpy.iinfo(kind), given.cpu().array
        least, most = int(array.min()), int(array.max())
        if not limits.min <= least <= most <= limits.max:
            raise ArgumentError(name, argument, f"integers in the range of {kind}", f"{least} to {most}")


def _laid_out(
    name: str, argument: str, given: Tensor, dtype: Any, shape: int | Sequence[int] | None, layout: str | None
) -> Tensor:
    """Numbers in a shape."""
    array = dynamic.as_tensor(given, dtype=dtype).array
    if shape is not None:
        extents = tuple(numpy.atleast_1d(numpy.asarray(shape)).tolist())
        if not all(isinstance(extent, int) and extent >= 0 for extent in extents):
            raise ArgumentError(name, "shape", "extents of at least 0", shown(shape))
        if array.size not in (1, numpy.prod(extents, dtype=int)):
            raise ArgumentError(name, argument, f"one number, or as many as a shape of {extents} has", str(array.size))
        array = numpy.broadcast_to(array.reshape(()), extents) if array.size == 1 else array.reshape(extents)
    return dynamic.as_tensor(array, layout=layout or None)


def _constant(
    *,
    fdata: Any = None,
    idata: Any = None,
    dtype: Any = None,
    layout: str | None = None,
    shape: int | Sequence[int] | None = None,
    device: Any = None,
    batch_size: int | None = None,
) -> Batch | Tensor:
    """The same numbers for each sample: DALI's ``fn.constant``."""
    if (fdata is None) == (idata is None):
        raise ArgumentError.either("fn.constant", "fdata", "idata", both=fdata is not None)
    kind, argument, data = ("int32", "idata", idata) if fdata is None else ("float32", "fdata", fdata)
    given = dynamic.as_tensor(data)
    if argument == "idata" and numpy_dtype(given.dtype).kind not in "biu":
        raise ArgumentError("fn.constant", "idata", "integers", shown(idata), "Pass others as fdata.")
    _check_range("fn.constant", argument, given, numpy.dtype(kind))
    given = dynamic.as_tensor(numpy.ravel(dynamic.as_tensor(given, dtype=kind).array))
    made = _laid_out("fn.constant", argument, given, kind if dtype is None else dtype, shape, layout)
    return _of_each(made, device, batch_size)


def _of_each(made: Tensor, device: Any, batch_size: int | None) -> Batch | Tensor:
    """A Tensor for so many samples, or alone."""
    made = made.to_device(device or "cpu")
    return made if batch_size is None else Batch.broadcast(made, batch_size)


def _python_function(
    *inputs: Any,
    function: Callable[..., Any],
    num_outputs: int = 1,
    batch_processing: bool = False,
    output_layouts: str | Sequence[str] | None = None,
    device: Any = None,
    batch_size: int | None = None,
) -> Batch | tuple[Batch, ...] | None:
    """Call a function with the arrays of each sample, or of all of them: DALI's ``fn.python_function``."""
    name = "fn.python_function"
    if not callable(function):
        raise ArgumentError(name, "function", "a function", shown(function))
    num_outputs = natural(name, "num_outputs", num_outputs)
    data = [x if isinstance(x, (Batch, Tensor)) else dynamic.as_tensor(x) for x in inputs]
    data = [x if device is None else x.to_device(device) for x in data]
    batches = [x for x in data if isinstance(x, Batch)]
    n = len(batches[0]) if batches else batch_size or 0
    if any(len(batch) != n for batch in batches):
        raise ArgumentError(name, "input", "Batches of one size", f"sizes {[len(batch) for batch in batches]}")
    columns = [[_unwritable(a) for a in (x.samples if isinstance(x, Batch) else [x.array] * n)] for x in data]
    if batch_processing:
        results = _each_of(name, function(*columns), num_outputs)
    else:
        rows = []
        for i in range(n):
            try:
                rows.append(_each_of(name, function(*(column[i] for column in columns)), num_outputs))
            except Exception as error:
                error.add_note(f"In {name}, sample {i} of {n}.")
                raise
        results = tuple([row[k] for row in rows] for k in range(num_outputs))
    layouts: list[Any] = [output_layouts]
    if isinstance(output_layouts, list | tuple | None):
        layouts = list(output_layouts or ())
    if len(layouts) > num_outputs:
        raise ArgumentError(name, "output_layouts", f"one for each of the {num_outputs} outputs", shown(layouts))
    made = []
    for column, layout in itertools.zip_longest(results, layouts):
        if not isinstance(column, (list, tuple, Batch)) and not getattr(column, "ndim", 0):
            raise ArgumentError(name, "function", f"a function from {n} samples to {n}", shown(column))
        if len(column) != n:
            raise ArgumentError(name, "function", f"a function from {n} samples to {n}", f"{len(column)} samples")
        batch = dynamic.as_batch(list(column), layout=layout or None)
        made.append(Batch(list(batch.samples), batch.layout, batches[0].origin if batches else None))
    return tuple(made) if num_outputs > 1 else made[0] if made else None


def _dl_tensor_python_function(
    *inputs: Any,
    function: Callable[..., Any],
    num_outputs: int = 1,
    batch_processing: bool = False,
    output_layouts: str | Sequence[str] | None = None,
    synchronize_stream: bool = True,  # noqa: ARG001 - DALI's
    device: Any = None,
    batch_size: int | None = None,
) -> Batch | tuple[Batch, ...] | None:
    """Call a function with Tensors, which all libraries take by DLPack: DALI's ``fn.dl_tensor_python_function``.

    It returns data for `as_tensor`, such as capsules of DLPack.
    """

    def taken(found: Any) -> Any:
        if isinstance(found, (tuple, list)):
            return type(found)(map(taken, found))
        return found if found is None else dynamic.as_tensor(found)

    def copied(array: Array) -> Tensor:  # older consumers of DLPack take only memory that may be written to
        return Tensor(array.copy())

    def of_arrays(*given: Any) -> Any:
        if batch_processing:
            return taken(function(*(list(map(copied, column)) for column in given)))
        return taken(function(*map(copied, given)))

    return _python_function(
        *inputs,
        function=function if not callable(function) else of_arrays,
        num_outputs=num_outputs,
        batch_processing=batch_processing,
        output_layouts=output_layouts,
        device=device,
        batch_size=batch_size,
    )


def _unwritable(array: Array) -> Array:
    """The same memory, which a function cannot write to: it may belong to somebody else."""
    if not isinstance(array, numpy.ndarray):
        return array
    view = array.view()
    view.setflags(write=False)
    return view


def _each_of(name: str, found: Any, count: int) -> tuple[Any, ...]:
    """The results of a function, as many as it is said to have."""
    if count == 0:
        return ()
    results = tuple(found) if isinstance(found, tuple) or (count > 1 and isinstance(found, list)) else (found,)
    if len(results) != count:
        got = f"{len(results)}: {shown(found)}"
        raise ArgumentError(name, "function", f"a function with num_outputs={count} results", got)
    return results


def _literal(value: Any) -> Any:
    """An array or scalar of NumPy in place of a Batch, as a constant of 32 bits."""
    return of_32_bits(numpy.asarray(value)) if isinstance(value, (numpy.ndarray, numpy.generic)) else value


def constant(value: Any) -> Tensor:
    """A result of a pipeline's function that is not a Batch, as one sample.

    Raises:
        ArgumentError: It is no numbers, or a list of Batches.
    """
    if isinstance(value, (tuple, list)) and any(isinstance(item, Batch) for item in value):
        hint = "Each Batch is an output by itself: return *images, labels."
        raise ArgumentError("Pipeline", "function", "one that returns Batches", shown(value), hint)
    return dynamic.as_tensor(_literal(value))


def input_sets(path: str, inputs: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The inputs of each call of an operator, of which there are several where lists of Batches are given.

    Those are the multiple input sets of DALI: ``fn.rotate([image, mask], angle=angles)`` is a list. A constant in one
    is for all samples.

    Raises:
        ArgumentError: The lists have different lengths, or other things than Batches in them.
    """
    if all(isinstance(x, Batch) for x in inputs):
        return [inputs]
    inputs = tuple(map(_literal, inputs))
    sets = [isinstance(x, (list, tuple)) and any(isinstance(item, Batch) for item in x) for x in inputs]
    given = [x for x, is_set in zip(inputs, sets, strict=True) if is_set]
    if not given:
        return [inputs]
    if any(not isinstance(item, (Batch, Tensor)) for x in given for item in x) or len({len(x) for x in given}) > 1:
        got = " and ".join(f"[{', '.join(type(item).__name__ for item in x)}]" for x in given)
        raise ArgumentError(f"fn.{path}", "input", "lists of equally many Batches", got)
    rows = range(len(given[0]))
    return [tuple(x[i] if is_set else x for x, is_set in zip(inputs, sets, strict=True)) for i in rows]


def called(function: Callable[..., Any], sets: Sequence[tuple[Any, ...]], arguments: Mapping[str, Any]) -> Any:
    """The result of one set of inputs, or a list of those of all; of several results a list of each.

    Every set gets the same random numbers, so that an image and its mask are cropped alike.
    """
    results = []
    for i, inputs in enumerate(sets, 1 - len(sets)):
        alike = {"rng": copy.copy(arguments["rng"])} if i and "rng" in arguments else {}
        results.append(function(*inputs, **{**arguments, **alike}))
    if len(results) == 1:
        return results[0]
    return [list(each) for each in zip(*results, strict=True)] if isinstance(results[0], tuple) else results


def _shapes(input: Any, *, dtype: Any = "int64", device: Any = None, batch_size: int | None = None) -> Any:
    """The extents of each sample: DALI's ``fn.shapes``, for which ``input.shape()`` does as well."""
    if isinstance(input, Batch):
        return Shapes(input.shape)(dtype).to_device(device or "cpu")
    extents = numpy.array(dynamic.as_tensor(input).shape, numpy.int64)
    return _of_each(dynamic.as_tensor(extents, dtype=dtype), device, batch_size)


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function name the wrong arguments of a call."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*inputs: Any, **arguments: Any) -> Any:
        check_given(name, parameters, inputs, arguments)
        return function(*inputs, **arguments)

    return called


#: The functions that only pipelines have.
ADDED: Mapping[str, Callable[..., Any]] = {
    "constant": _checked("fn.constant", _constant),
    "dl_tensor_python_function": _checked("fn.dl_tensor_python_function", _dl_tensor_python_function),
    "python_function": _checked("fn.python_function", _python_function),
    "shapes": _checked("fn.shapes", _shapes),
}
