"""Affine transforms as matrices of n rows and n + 1 columns, for `warp_affine` and `coord_transform`.

A matrix maps a point p to ``matrix[:, :n] @ p + matrix[:, n]``. All matrices of a batch are computed
at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, cast

import numpy

from ._arrays.array import Array, asarray
from ._base.docstrings import described_as
from ._lift import frames as _frames
from ._lift.argument import GIVEN, Argument, Numbers, PerSample
from ._lift.binding import Binder, common_size, signature_without
from .data import Batch, Tensor, as_one
from .data._transfer import moved
from .devices import Device, DeviceLike, device_of_call
from .errors import ArgumentError, DeviceError, shown

__all__ = ["combine", "crop", "rotation", "scale", "shear", "translation"]


def __dir__() -> list[str]:
    """The names that completion offers."""
    return __all__


P = ParamSpec("P")

_COMMON = ("batch_size", "device")
_LAYOUT = "**"
_RIGHT_ANGLE = 90.0
_MOST = float(numpy.finfo(numpy.float32).max)
_BEFORE = "A positional argument is a transform to be applied before; give all others by name."

_LENGTHS = {"angles": 2, "axis": 3, "shear": 2}  # of vectors for no samples; of the others 1


def _transform(function: Callable[P, Tensor | Batch]) -> Callable[P, Tensor | Batch]:
    """Check calls of a function against its declaration, and spread arguments laid out as frames."""
    name = f"transforms.{function.__name__}"
    binder = Binder(function, name, ("call",), _COMMON)

    def run(inputs: Sequence[Any], arguments: dict[str, Any]) -> Tensor | Batch:
        body: Any = function
        with numpy.errstate(over="ignore", invalid="ignore"):
            return cast("Tensor | Batch", body(*inputs, **arguments, call=_Call(binder, inputs, arguments)))

    @functools.wraps(function)
    def checked(*inputs: P.args, **arguments: P.kwargs) -> Tensor | Batch:
        if inputs:
            binder.check_inputs(len(inputs))
        binder.check_names(arguments, _BEFORE if inputs else "")
        given = {key: value for key, value in arguments.items() if value is not None}
        if not _frames.are_in((*inputs, *given.values())):
            return run(inputs, given)
        given = _named(inputs) | given

        def called(given: dict[str, Any], frames: int) -> Any:
            """One matrix for each frame: a result laid out as frames, as `warp_affine` takes it."""
            return run([given.pop(key) for key in _named(inputs)], given | {"batch_size": frames})

        return _frames.each_of(called, name, given, common_size(name, given.pop("batch_size", None), given))

    vars(checked).update(__signature__=signature_without(function, "call"), arguments=binder.arguments)
    return checked


def _named(inputs: Sequence[Any]) -> dict[str, Any]:
    """The given matrices by their names in errors."""
    named = {"input" if len(inputs) < 2 else f"inputs[{i}]": value for i, value in enumerate(inputs)}
    return {name: value for name, value in named.items() if value is not None}


class _Call:
    """One call: its matrices and vectors as float64, with one more dimension in front where there is one a sample.

    Args:
        binder: The declaration.
        inputs: Matrices, as given; None are left out.
        arguments: As given, without None.
    """

    def __init__(self, binder: Binder, inputs: Sequence[Any], arguments: Mapping[str, Any]) -> None:
        self.name, known = binder.name, binder.arguments
        if (device_of_call(arguments.get("device"), self.name) or Device.CPU).device_type != "cpu":
            raise DeviceError(f"{self.name}() runs on cpu; pass device='cpu' and move its result.")
        given = {p.name: arguments.get(p.name, p.default) for p in binder.keyword}
        given = {name: value for name, value in given.items() if value is not None}
        self.values = {name: known[name].one(value) for name, value in given.items() if not known[name].per_sample}
        vectors = {name: value for name, value in given.items() if known[name].per_sample}
        named = _named(inputs)
        self.n = common_size(self.name, arguments.get("batch_size"), named | vectors)
        self.origin = next((x.origin for x in named.values() if isinstance(x, Batch)), None)
        self.matrices = [self._matrix(name, value) for name, value in named.items()]
        self.vectors = {name: self._vector(known[name], value) for name, value in vectors.items()}

    def _vector(self, known: Argument, value: Any) -> Array:
        """Numbers, in one dimension, or in two where there are some for each sample."""
        if isinstance(value, (int, float)) and abs(value) <= _MOST:
            return numpy.array([value], numpy.float64)
        if not isinstance(value, Batch):
            return self._float32(known.name, known.one(value))
        whole = as_one(value) if len(value) else None
        fits = isinstance(whole, numpy.ndarray) and (known.plain is not float or whole.size == len(whole))
        if whole is not None and fits and _are_float32(whole):
            return whole.reshape(len(whole), math.prod(whole.shape[1:])).astype(numpy.float64)
        rows = enumerate(known.each(value, len(value)))
        each = [self._float32(f"{known.name}[{i}]", numbers) for i, numbers in rows]
        return self._stacked(known.name, each, (_LENGTHS.get(known.name, 1),))

    def _float32(self, name: str, numbers: Any) -> Array:
        """Numbers in one dimension, which are finite as matrices hold them."""
        row = numpy.asarray(numbers, numpy.float64).reshape(-1)
        if not _are_float32(row):
            raise ArgumentError(self.name, name, "finite float32 numbers", shown(row.tolist()))
        return row

    def _stacked(self, name: str, each: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """One array of those of all samples; where there are none, of a shape that all functions take."""
        shapes = {array.shape for array in each}
        if len(shapes) > 1:
            raise ArgumentError(self.name, name, "as many numbers for one sample as for another", f"shapes {shapes}")
        return numpy.stack(each) if each else numpy.empty((0, *shape))

    def _matrix(self, name: str, value: Any) -> Array:
        """A transform, or one for each sample: nested lists or a list row by row, with or without a last row."""
        if isinstance(value, Batch):
            whole = value.whole
            array = self._stacked(name, value.samples, (2, 3)) if whole is None else whole
        else:
            array = value.array if isinstance(value, Tensor) else asarray(value, self.name, name)
        array = array if isinstance(array, numpy.ndarray) else moved(array, Device.CPU)
        array = array.astype(numpy.float64)
        lead = array.shape[: isinstance(value, Batch)]
        if array.ndim == 1 + len(lead):
            size = array.shape[-1]
            dims = math.isqrt(size)
            columns = dims + 1 if dims * (dims + 1) == size else max(1, dims)
            if size % columns == 0:
                array = array.reshape(*lead, size // columns, columns)
        rows, columns = array.shape[-2:] if array.ndim == 2 + len(lead) else (0, 0)
        if columns < 2 or rows not in {columns, columns - 1}:
            raise ArgumentError(self.name, name, "a finite matrix of n rows and n + 1 columns", f"shape {array.shape}")
        if not _are_float32(array):
            raise ArgumentError(self.name, name, "a finite matrix of float32 numbers", "others")
        if rows == columns and (array[..., -1, :] != numpy.eye(columns)[-1]).any():
            expected = f"affine: its last row is {[0] * (columns - 1) + [1]}, or left out"
            raise ArgumentError(self.name, name, expected, "another last row")
        return array[..., : columns - 1, :]

    def dims(self, asked: int | None = None, *names: str) -> int:
        """The number of dimensions that the input and all vectors agree on; vectors of one number fit any."""
        known = [("input", self.matrices[0].shape[-2])] if self.matrices else []
        known += [("ndim", asked)] if asked is not None else []
        known += [(name, self.vectors[name].shape[-1]) for name in names if name in self.vectors]
        known = [(name, size) for name, size in known if size != 1 or name in {"input", "ndim"}]
        first, dims = known[0] if known else ("", 1)
        for name, size in known:
            if size != dims:
                expected = f"for {dims} dimensions, which {first!r} has"
                raise ArgumentError(self.name, name, expected, f"{size} of them")
        return dims

    def identity(self, dims: int) -> Array:
        """Matrices that change nothing, as many as the vectors need."""
        lead = () if all(vector.ndim < 2 for vector in self.vectors.values()) else (self.n,)
        matrices = numpy.zeros((*lead, dims, dims + 1))
        _diagonal(matrices)[...] = 1
        return matrices

    def about(self, matrices: Array) -> Array:
        """The linear part of matrices applied about the argument `center`."""
        center = self.vectors.get("center")
        if center is not None:
            dims = matrices.shape[-2]
            if center.shape[-1] not in {1, dims}:
                expected = f"one number or {dims}, one for each dimension"
                raise ArgumentError(self.name, "center", expected, f"{center.shape[-1]} numbers")
            center = numpy.broadcast_to(center, (*center.shape[:-1], dims))
            matrices[..., -1] = center - (matrices[..., :-1] @ center[..., None])[..., 0]
        return matrices

    def result(self, matrices: Array) -> Tensor | Batch:
        """The result for the function's own transforms: these together with the input, in float32."""
        if self.matrices:
            before, dims = self.matrices[0], matrices.shape[-2]
            if before.shape[-2] != dims:
                expected = f"a transform of {dims} dimensions"
                hint = "Rotations of three dimensions need axis=." if self.name.endswith("rotation") else ""
                raise ArgumentError(self.name, "input", expected, f"one of {before.shape[-2]}", hint)
            matrices = _after(before, matrices) if self.values["reverse_order"] else _after(matrices, before)
        return self.wrapped(matrices)

    def wrapped(self, matrices: Array) -> Tensor | Batch:
        """Matrices as a Tensor or a Batch."""
        if self.n is None:
            return Tensor(matrices.astype(numpy.float32), _LAYOUT)
        whole = numpy.empty((self.n, *matrices.shape[-2:]), numpy.float32)
        whole[...] = matrices
        return Batch(whole, _LAYOUT, self.origin)


def _are_float32(numbers: Array) -> bool:
    """Whether all of some numbers are finite as float32."""
    return bool((numpy.abs(numbers, dtype=numpy.float64) <= _MOST).all())


def _diagonal(matrices: Array) -> Array:
    """A view of the main diagonals."""
    return matrices.reshape(*matrices.shape[:-2], math.prod(matrices.shape[-2:]))[..., :: matrices.shape[-1] + 1]


def _after(second: Array, first: Array) -> Array:
    """The transforms that apply `first` and then `second`."""
    both = second[..., :-1] @ first
    both[..., -1] += second[..., -1]
    return both


@_transform
def translation(
    input: Any = None,
    /,
    *,
    offset: PerSample[Numbers],
    reverse_order: bool = False,
    batch_size: int | None = None,
    device: DeviceLike = None,
    call: _Call = GIVEN,
) -> Tensor | Batch:
    """Move points by a vector.

    Args:
        offset: The vector; its length is the number of dimensions.
        reverse_order: Apply the input after this transform instead of before.
        batch_size: Number of samples, where nothing else says it.
        device: The CPU.

    Returns:
        Matrices of float32, layout "**"; a Tensor if nothing is a Batch and `batch_size` is not given.

    Raises:
        ArgumentError: The numbers of dimensions differ.

    >>> ndd.transforms.translation(offset=[5, 7]).tolist()
    [[1.0, 0.0, 5.0], [0.0, 1.0, 7.0]]
    """
    matrices = call.identity(call.dims(None, "offset"))
    matrices[..., -1] = call.vectors["offset"]
    return call.result(matrices)


@_transform
@described_as(translation)
def scale(
    input: Any = None,
    /,
    *,
    scale: PerSample[Numbers],
    center: PerSample[Numbers | None] = None,
    ndim: int | None = None,
    reverse_order: bool = False,
    batch_size: int | None = None,
    device: DeviceLike = None,
    call: _Call = GIVEN,
) -> Tensor | Batch:
    """Multiply coordinates by factors.

    Args:
        scale: A factor for each dimension, or one for all.
        center: The point that stays where it is; by default the origin.
        ndim: Number of dimensions, where `scale`, `center` and the input do not say it.

    Returns:
        Matrices of float32, layout "**"; a Tensor if nothing is a Batch and `batch_size` is not given.

    Raises:
        ArgumentError: The numbers of dimensions differ.

    >>> ndd.transforms.scale(scale=[2, 3], center=[1, 1]).tolist()
    [[2.0, 0.0, -1.0], [0.0, 3.0, -2.0]]
    """
    if ndim is not None and ndim < 1:
        raise ArgumentError("transforms.scale", "ndim", "an integer of at least 1", shown(ndim))
    matrices = call.identity(call.dims(ndim, "scale", "center"))
    _diagonal(matrices)[...] = call.vectors["scale"]
    return call.result(call.about(matrices))


@_transform
@described_as(translation, scale)
def rotation(
    input: Any = None,
    /,
    *,
    angle: PerSample[float],
    axis: PerSample[Numbers | None] = None,
    center: PerSample[Numbers | None] = None,
    reverse_order: bool = False,
    batch_size: int | None = None,
    device: DeviceLike = None,
    call: _Call = GIVEN,
) -> Tensor | Batch:
    """Turn points about a centre, from x to y; or, in three dimensions, about an axis.

    Args:
        angle: Degrees.
        axis: The (x, y, z) to turn about, of any length but 0; with it there are three dimensions.

    Returns:
        Matrices of float32, layout "**"; a Tensor if nothing is a Batch and `batch_size` is not given.

    Raises:
        ArgumentError: The numbers of dimensions differ, or the axis points nowhere.

    >>> ndd.transforms.rotation(angle=90, center=[1, 2]).tolist()
    [[0.0, -1.0, 3.0], [1.0, 0.0, 1.0]]
    """
    degrees = call.vectors["angle"][..., 0]
    radians = numpy.deg2rad(numpy.fmod(degrees, 360))
    cos, sin = numpy.cos(radians), numpy.sin(radians)
    exact = degrees % _RIGHT_ANGLE == 0
    if exact.any():
        cos, sin = (numpy.where(exact, numpy.rint(part), part) for part in (cos, sin))
    if "axis" not in call.vectors:
        matrices = call.identity(2)
        matrices[..., 0, 0] = matrices[..., 1, 1] = cos
        matrices[..., 0, 1], matrices[..., 1, 0] = -sin, sin
        return call.result(call.about(matrices))
    matrices = call.identity(3)
    matrices[..., :-1] = _about(call.vectors["axis"], cos[..., None, None], sin[..., None, None])
    return call.result(call.about(matrices))


def _about(axis: Array, cos: Array, sin: Array) -> Array:
    """The linear part of a rotation about an axis."""
    lengths = numpy.sqrt((axis * axis).sum(axis=-1, keepdims=True))
    if axis.shape[-1] != 3 or not (lengths > 0).all():
        raise ArgumentError("transforms.rotation", "axis", "three numbers, not all of them 0", f"{axis.tolist()}")
    axis = axis / lengths
    across = numpy.zeros((*axis.shape, 3))
    x, y, z = (axis[..., i] for i in range(3))
    across[..., 0, 1], across[..., 0, 2], across[..., 1, 2] = -z, y, -x
    across[..., 1, 0], across[..., 2, 0], across[..., 2, 1] = z, -y, x
    return cos * numpy.eye(3) + (1 - cos) * (axis[..., :, None] * axis[..., None, :]) + sin * across


@_transform
@described_as(translation, scale)
def shear(
    input: Any = None,
    /,
    *,
    angles: PerSample[Numbers | None] = None,
    center: PerSample[Numbers | None] = None,
    reverse_order: bool = False,
    shear: PerSample[Numbers | None] = None,
    batch_size: int | None = None,
    device: DeviceLike = None,
    call: _Call = GIVEN,
) -> Tensor | Batch:
    """Move points along each axis in proportion to their other coordinates.

    Args:
        angles: The angles whose tangents are the factors, in degrees from -90 to 90, instead of `shear`.
        shear: The factors: how far x moves for each unit of y, and y for each of x; in three dimensions x for y and z,
            y for x and z, z for x and y.

    Returns:
        Matrices of float32, layout "**"; a Tensor if nothing is a Batch and `batch_size` is not given.

    Raises:
        ArgumentError: There are neither angles nor factors, or both, or not n * (n - 1) of them, or the numbers of
            dimensions differ.

    >>> ndd.transforms.shear(shear=[2, 0]).tolist()
    [[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if (angles is None) == (shear is None):
        raise ArgumentError.either("transforms.shear", "shear", "angles", both=shear is not None)
    if shear is None:
        degrees = call.vectors["angles"]
        if (numpy.abs(degrees) > _RIGHT_ANGLE).any():
            raise ArgumentError("transforms.shear", "angles", "in [-90, 90]", shown(degrees.tolist()))
        factors, name = numpy.tan(numpy.deg2rad(degrees)), "angles"
    else:
        factors, name = call.vectors["shear"], "shear"
    count = factors.shape[-1]
    dims = (1 + math.isqrt(1 + 4 * count)) // 2
    if dims < 2 or dims * (dims - 1) != count:
        expected = "2 numbers, or 6 for three dimensions"
        raise ArgumentError("transforms.shear", name, expected, str(count))
    matrices = call.identity(dims)
    rows, columns = (~numpy.eye(dims, dtype=bool)).nonzero()
    matrices[..., rows, columns] = factors
    return call.result(call.about(matrices))


@_transform
@described_as(translation, scale)
def crop(
    input: Any = None,
    /,
    *,
    absolute: bool = False,
    from_end: PerSample[Numbers] = 1.0,
    from_start: PerSample[Numbers] = 0.0,
    reverse_order: bool = False,
    to_end: PerSample[Numbers] = 1.0,
    to_start: PerSample[Numbers] = 0.0,
    batch_size: int | None = None,
    device: DeviceLike = None,
    call: _Call = GIVEN,
) -> Tensor | Batch:
    """Map one box to another: `from_start` to `to_start`, and `from_end` to `to_end`.

    A corner is a number for each dimension, or one for all.

    Args:
        absolute: Swap the coordinates of a start and an end where the start is larger.
        from_end: The upper corner of the box to map.
        from_start: Its lower corner.
        to_end: The upper corner of the box to map to.
        to_start: Its lower corner.

    Returns:
        Matrices of float32, layout "**"; a Tensor if nothing is a Batch and `batch_size` is not given.

    Raises:
        ArgumentError: The numbers of dimensions differ, or the box to map is empty.

    >>> ndd.transforms.crop(from_start=[1, 2], from_end=[3, 6]).tolist()
    [[0.5, 0.0, -0.5], [0.0, 0.25, -0.5]]
    """
    matrices = call.identity(call.dims(None, "from_start", "from_end", "to_start", "to_end"))
    start, end, to, until = (call.vectors[name] for name in ("from_start", "from_end", "to_start", "to_end"))
    if call.values["absolute"]:
        start, end = numpy.minimum(start, end), numpy.maximum(start, end)
        to, until = numpy.minimum(to, until), numpy.maximum(to, until)
    extents = end - start
    if not extents.all():
        raise ArgumentError(call.name, "from_end", "different from from_start in each dimension", "equal numbers")
    factors = (until - to) / extents
    _diagonal(matrices)[...] = factors
    matrices[..., -1] = to - factors * start
    return call.result(matrices)


@_transform
def combine(
    *inputs: Any,
    reverse_order: bool = False,
    batch_size: int | None = None,
    device: DeviceLike = None,
    call: _Call = GIVEN,
) -> Tensor | Batch:
    """Make one transform of several, which applies them in the order in which they are given.

    Args:
        reverse_order: Apply them in the reverse order.
        batch_size: Number of samples, where no transform is a Batch.
        device: The CPU.

    Returns:
        Matrices of float32, layout "**"; a Tensor if nothing is a Batch and `batch_size` is not given.

    Raises:
        ArgumentError: The numbers of dimensions differ, or there is no transform.

    >>> double, right = ndd.transforms.scale(scale=[2, 2]), ndd.transforms.translation(offset=[1, 0])
    >>> ndd.transforms.combine(double, right).tolist()
    [[2.0, 0.0, 1.0], [0.0, 2.0, 0.0]]
    """
    if not call.matrices or len(call.matrices) < len(inputs):
        raise ArgumentError("transforms.combine", "inputs", "one or more transforms", "nothing")
    dims = [matrices.shape[-2] for matrices in call.matrices]
    if len(set(dims)) > 1:
        raise ArgumentError(call.name, "inputs", "transforms of equal numbers of dimensions", f"{dims}")
    ordered = call.matrices[::-1] if call.values["reverse_order"] else call.matrices
    return call.wrapped(functools.reduce(lambda first, second: _after(second, first), ordered))
