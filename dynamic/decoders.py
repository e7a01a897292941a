"""Images from encoded bytes: JPEG, PNG, BMP, PNM, WebP, TIFF, GIF and JPEG 2000.

Nothing is taken on trust: formats are recognised by content, sizes are checked before memory is allocated, and what a
library would only warn of is an error. All samples of a batch are tried, and one error names every one that failed.
"""
# mypy: disable-error-code="arg-type, assignment"

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy

from . import _pool
from ._argument import Between, DTypeArgument, ImageType
from ._array import Array
from ._call import Spec
from ._operator import operator
from ._origin import Origin
from .data import Batch, Tensor
from .dtypes import DType, numpy_dtype
from .errors import ArgumentError, DataError, Failure, shown
from .kernels.cpu import images

__all__ = ["image", "imread", "peek_image_shape"]

_AtLeastOne: TypeAlias = Annotated[int, Between(1)]
_LIMITS = images.Limits()


def _buffer(encoded: Array, operator_name: str) -> memoryview:
    if encoded.ndim != 1:
        got = f"{encoded.ndim} dimensions, shape {encoded.shape}"
        raise ArgumentError(operator_name, "encoded", "the bytes of one file, of one dimension", got)
    return memoryview(numpy.ascontiguousarray(encoded))


def _decoded(
    encoded: Array, /, *, adjust_orientation: bool, dtype: DType, output_type: str, max_pixels: int,
    max_scans: int, max_encoded_bytes: int, **_: Any,
) -> Spec:  # fmt: skip
    """Shape and dtype of what `image` makes of a file."""
    limits = images.Limits(max_pixels, max_scans, max_encoded_bytes)
    head = images.header(_buffer(encoded, "decoders.image"), limits)
    shape = head.shape(images.convert.channels(head.colours, output_type), adjust_orientation=adjust_orientation)
    return shape, numpy_dtype(dtype)


@operator(dtypes="uint8", output=_decoded, output_of_values=True, out_layout="HWC", name="decoders.image")
def image(
    encoded: Array, /, *, adjust_orientation: bool = True, dtype: DTypeArgument = "uint8",
    jpeg_fancy_upsampling: bool = False, output_type: ImageType = "RGB", use_fast_idct: bool = False,
    max_pixels: _AtLeastOne = _LIMITS.pixels, max_scans: _AtLeastOne = _LIMITS.scans,
    max_encoded_bytes: _AtLeastOne = _LIMITS.encoded_bytes, out: Array,
) -> Array:  # fmt: skip
    """Decode image files, each given as its bytes: a Batch of one-dimensional uint8, or `bytes` for one.

    Args:
        adjust_orientation: Turn the image upright as its EXIF orientation says.
        dtype: Element type. The full range of the file's values becomes the full range of the type, [0, 1] for floats.
        jpeg_fancy_upsampling: Without effect, as on DALI's CPU decoder: colour is always interpolated.
        output_type: "RGB", "BGR", "GRAY", "YCbCr" (BT.601, limited range) or "ANY_DATA", the file's own channels.
        use_fast_idct: Decode JPEG a tenth faster, with values up to 7 off.
        max_pixels: The largest width times height.
        max_scans: The most passes over a progressive JPEG.
        max_encoded_bytes: The largest file.

    Returns:
        Images of shape (height, width, channels), layout "HWC". Alpha is dropped unless "ANY_DATA" is asked for. Pixels
        of a JPEG in RGB are those of libjpeg-turbo, bit for bit.

    Raises:
        DecodeError: Some samples are no image (UnsupportedImage), end too early (TruncatedImage), contradict their
            format (CorruptImage) or exceed a limit (ImageTooLarge); the message names all of them.

    >>> dynamic.decoders.image(b"P5 2 1 255 " + bytes([0, 255]), output_type="GRAY").tolist()
    [[[0], [255]]]
    """
    limits = images.Limits(max_pixels, max_scans, max_encoded_bytes)
    images.decode(
        _buffer(encoded, "decoders.image"), limits, output_type,
        adjust_orientation=adjust_orientation, fast_idct=use_fast_idct, out=out,
    )  # fmt: skip
    return out


def _peeked(encoded: Array, /, *, dtype: DType, **_: Any) -> Spec:
    return (3,), numpy_dtype(dtype)


@operator(dtypes="uint8", output=_peeked, out_layout=lambda _layout, **_: None)
def peek_image_shape(
    encoded: Array, /, *, adjust_orientation: bool = True, dtype: DTypeArgument = "int64",
    image_type: ImageType = "RGB", out: Array,
) -> Array:  # fmt: skip
    """Read the shape of images from the headers of their files, without decoding them.

    Args:
        adjust_orientation: Give the shape of the image turned upright as its EXIF orientation says.
        dtype: Element type of the result.
        image_type: What the image would be decoded to; it decides the number of channels.

    Returns:
        Height, width and channels of each image: shape (3,).

    Raises:
        DecodeError: Some samples are no image; the message names all of them.

    >>> peek_image_shape(b"P5 2 1 255 " + bytes([0, 255])).tolist()
    [1, 2, 3]
    """
    head = images.header(_buffer(encoded, "peek_image_shape"), _LIMITS)
    out[...] = head.shape(images.convert.channels(head.colours, image_type), adjust_orientation=adjust_orientation)
    return out


def imread(path: Any, /, **arguments: Any) -> Any:
    """Read and decode image files.

    Args:
        path: A path, or a sequence of paths.
        **arguments: Those of `image`, and `device`.

    Returns:
        A Tensor for one path, a Batch for a sequence; see `image`.

    Raises:
        DataError: Some files cannot be read; the message names all of them.
        DecodeError: Some files are no image.

    >>> imread("missing.png")
    Traceback (most recent call last):
    dynamic.errors.DataError: imread(): 1 of 1 samples cannot be read.
      sample 0 (missing.png): No such file or directory
    """
    one = isinstance(path, (str, bytes, os.PathLike))
    if not one and not isinstance(path, Iterable):
        raise ArgumentError("imread", "path", "a path or a sequence of paths", shown(path))
    paths = [path] if one else list(path)
    for i, item in enumerate(paths):
        if not isinstance(item, (str, bytes, os.PathLike)):
            raise ArgumentError("imread", "path" if one else f"path[{i}]", "a path", shown(item))
    names = [os.fsdecode(item) for item in paths]
    origin = Origin(0, numpy.zeros(len(names), numpy.uint64), names)
    files = _read(names)
    if one:
        return image(Tensor(files[0], None, origin), **arguments)
    return image(Batch(files, None, origin, numpy.dtype("uint8"), 1), **arguments)


def _read(names: list[str]) -> list[Array]:
    """The bytes of files, or one error for all that cannot be read."""
    files: list[Any] = [None] * len(names)
    failures: dict[int, Failure] = {}

    def read(i: int) -> None:
        try:
            if not stat.S_ISREG(Path(names[i]).stat().st_mode):  # a pipe would be waited for
                failures[i] = Failure(i, "not a regular file", source=names[i])
                return
            files[i] = numpy.fromfile(names[i], numpy.uint8)
        except (OSError, ValueError) as error:
            failures[i] = Failure(i, getattr(error, "strerror", None) or str(error), source=names[i])

    _pool.run(read, len(names), len(names) << 16)
    if failures:
        raise DataError("imread", [failures[i] for i in sorted(failures)], len(names))
    return files
