"""The reader of images in FITS files."""

from __future__ import annotations

import io
import math
import re
import zlib
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.dtypes import WORDS, DTypeLike, dtype, numpy_dtype
from dynamic.errors import ArgumentError, shown
from dynamic.io._bytes import Changed

from ._alike import Alike
from ._checks import natural
from ._listing import Listing
from ._reader import Batches
from ._stored import Common, PathLike, Unusable, called_with
from .npy import source_of_arrays

__all__ = ["Fits"]

_STORED = {8: "u1", 16: "i2", 32: "i4", 64: "i8", -32: "f4", -64: "f8"}  # by BITPIX
_WHOLE = tuple(map(numpy.dtype, ("int16", "uint16", "int32", "uint32")))
_DENSEST = 1 << 14  # bytes of an image that a compressed one has for each of its file, at most
_MOST = 1 << 31  # HDUs
_BLOCK, _CARD, _NAME = 2880, 80, 8  # bytes of a block of a file, of a line of a header, and of a keyword
_AXES = 32  # dimensions of an array, at most
_FIRST = re.compile(rb"SIMPLE  = +T *(?:/.*)?|XTENSION= '(\w+) *' *(?:/.*)?")  # the first line of a header
_NUMBER = re.compile(rb"= +([-+]?\d{1,20}(?:\.\d{0,20})?(?:[DE][-+]?\d{1,3})?) *(?:/.*)?")
_TEXT = {b"COMMENT ", b"HISTORY ", b"CONTINUE", b" " * _NAME}  # keywords that a header has any number of times
_ENDING = b"END".ljust(_NAME)


class Fits(Alike[Listing]):
    """Reads images from FITS files: the arrays of one HDU, or of several.

    The outputs are an array for each of `hdu_indices`, in C order: its shape has the axes of the header from the last
    to the first. Arrays are of the type that the header tells: scaled integers (BSCALE and BZERO) are of the least
    integers, from 16 bits, that hold all that they can be, and float32 or float64 where they may have fractions.
    Compressed images (Rice, gzip, PLIO, HCOMPRESS) come as others do. All arrays of an output must have one dtype and
    number of dimensions; with an `on_error` other than "raise", others are left out. Needs astropy:
    ``pip install 'dynamic-batch[fits]'``.

    Args:
        file_root: The folder whose files, and the files of whose folders, are the samples; with `files` or `file_list`,
            the start of their paths.
        files: A path, or several. A path may occur more than once: each occurrence is a sample.
        file_list: A text file with a path on each line; relative paths start from its folder.
        file_filter: A shell pattern; with `file_root` alone, files that do not match it are not samples.
        hdu_indices: The numbers of the HDUs, one or several: 1 is the primary one.
        dtypes: For each output the type that its arrays must have; by default they may have any.

    Raises:
        ArgumentError: An argument is wrong, or there are no files. Files are checked when they are read.

    >>> import pathlib, tempfile
    >>> from astropy.io import fits
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for i in range(3):
    ...     image = fits.ImageHDU(numpy.arange(6, dtype=numpy.int16).reshape(2, 3) + 10 * i)
    ...     fits.HDUList([fits.PrimaryHDU(), image]).writeto(root / f"{i}.fits")
    >>> reader = ndd.experimental.readers.Fits(file_root=root)
    >>> for arrays, in reader.next_epoch(batch_size=2):
    ...     print(arrays.dtype, arrays.tolist())
    i16 [[[0, 1, 2], [3, 4, 5]], [[10, 11, 12], [13, 14, 15]]]
    i16 [[[20, 21, 22], [23, 24, 25]]]
    """

    _operator: ClassVar[str] = "readers.Fits"

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
        file_filter: str | None = "*.fits",
        hdu_indices: int | Sequence[int] | None = None,
        dtypes: DTypeLike | Sequence[DTypeLike] = None,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        _library(operator)
        several = [2] if hdu_indices is None else hdu_indices
        several = several if isinstance(several, Sequence) else [several]
        if not several or isinstance(several, (str, bytes)):
            raise ArgumentError(operator, "hdu_indices", "a number from 1 on, or a list of them", shown(hdu_indices))
        one = len(several) == 1
        self._indices = tuple(
            natural(operator, "hdu_indices" if one else f"hdu_indices[{k}]", number, 1, _MOST)
            for k, number in enumerate(several)
        )
        self._dtypes = _types(dtypes, len(self._indices))
        pattern = "*.fits" if file_filter is None else file_filter
        list_samples = source_of_arrays(operator, file_root, files, file_list, pattern)
        super().__init__(max_batch_size, name, device, num_inputs, list_samples, **common)

    def _read(self, indices: list[int], origin: Origin) -> Batches:
        samples = self._each(indices, self._sample)
        empty = [(kind or numpy.dtype(numpy.uint8), 1) for kind in self._dtypes]
        return self._outputs(samples, indices, empty, origin)

    def _sample(self, index: int) -> list[Array]:
        try:
            arrays = _images(self._listing.read(index), self._indices)
        except MemoryError as error:
            raise Unusable(f"is too large: {error}") from None
        except Changed:
            if self._listing.store.far:
                raise
            raise Unusable("changed while it was read") from None
        for number, array, wanted in zip(self._indices, arrays, self._dtypes, strict=True):
            if wanted is not None and array.dtype != wanted:
                raise Unusable(f"HDU {number} is of {array.dtype}, where dtypes asks for {wanted}")
        return arrays


def _library(operator: str) -> None:
    try:
        from astropy.io import fits  # noqa: F401
    except ImportError as error:
        hint = "pip install 'dynamic-batch[fits]'"
        raise ArgumentError(operator, "files", f"read by the library astropy: {hint}", f"{error}") from None


def _types(dtypes: Any, outputs: int) -> list[numpy.dtype[Any] | None]:
    """The type of each output, as far as they are given."""
    if dtypes is None or (isinstance(dtypes, (list, tuple)) and not dtypes):
        return [None] * outputs
    given = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]
    if len(given) != outputs:
        raise ArgumentError(Fits._operator, "dtypes", f"one for each of the {outputs} HDUs", f"{len(given)}")
    found = list[numpy.dtype[Any] | None]()
    for k, each in enumerate(given):
        try:
            found.append(numpy_dtype(dtype(each)))
        except ArgumentError:
            raise ArgumentError(Fits._operator, f"dtypes[{k}]", WORDS, shown(each)) from None
    return found


class _Image(NamedTuple):
    """An array as it is stored."""

    start: int  #: of its first byte
    shape: tuple[int, ...]
    bits: int  #: BITPIX
    scale: float
    zero: float


def _images(data: Array, indices: Sequence[int]) -> list[Array]:
    """The arrays of some HDUs of a file. The library takes a millisecond for each header, so plain ones are read here.

    Raises:
        Unusable: One has none, or the file is damaged.
    """
    images = _plain(memoryview(data), indices)
    return _by_astropy(data, indices) if images is None else [_read(data, *image) for image in images]


def _plain(data: memoryview, indices: Sequence[int]) -> list[_Image] | None:
    """Where some HDUs have their arrays; None if a header is not plain, or an HDU is no image."""
    images, at = list[_Image | None](), 0
    try:
        for _ in range(max(indices)):
            image, at = _hdu(data, at)
            images.append(image)
    except (KeyError, ValueError):
        return None
    found = [image for number in indices if (image := images[number - 1]) is not None]
    return found if len(found) == len(indices) else None


def _hdu(data: memoryview, at: int) -> tuple[_Image | None, int]:
    """The array of an HDU if it is a plain image, and where the next HDU begins.

    Raises:
        KeyError: A keyword is missing.
        ValueError: The header is not plain, or the data end before it says.
    """
    kind = _FIRST.fullmatch(data[at : at + _CARD])
    cards, start = _header(data, at)
    if kind is None or (kind[1] is None) != (at == 0) or b"GROUPS" in cards:
        raise ValueError
    bits, axes = _integer(cards[b"BITPIX"]), _integer(cards[b"NAXIS"])
    if bits not in _STORED or not 0 <= axes <= _AXES:
        raise ValueError
    shape = tuple(_integer(cards[b"NAXIS%d" % k]) for k in range(axes, 0, -1))
    extra, groups = _integer(cards.get(b"PCOUNT", b"= 0")), _integer(cards.get(b"GCOUNT", b"= 1"))
    values = groups * (extra + math.prod(shape)) if shape else 0
    end = start + -(-values * abs(bits) // 8 // _BLOCK) * _BLOCK
    if min(extra, groups, *shape, 0) < 0 or end > len(data):
        raise ValueError
    if kind[1] not in (None, b"IMAGE") or not shape or (extra, groups) != (0, 1):
        return None, end
    scale, zero = _number(cards.get(b"BSCALE", b"= 1")), _number(cards.get(b"BZERO", b"= 0"))
    if not scale or not math.isfinite(scale) or not math.isfinite(zero):
        raise ValueError
    return _Image(start, shape, bits, scale, zero), end


def _header(data: memoryview, at: int) -> tuple[dict[bytes, bytes], int]:
    """The lines of a header by keyword, and where the data begin."""
    cards = dict[bytes, bytes]()
    for line in range(at, len(data) - _CARD + 1, _CARD):
        name = bytes(data[line : line + _NAME])
        if name == _ENDING:
            return cards, line + _BLOCK - (line % _BLOCK)
        key = name.rstrip()
        if key in cards and name not in _TEXT:
            raise ValueError  # which of the two counts?
        cards[key] = bytes(data[line + _NAME : line + _CARD])
    raise ValueError


def _number(line: bytes) -> float:
    """The number of a line of a header."""
    found = _NUMBER.fullmatch(line)
    if found is None:
        raise ValueError
    return float(found[1].replace(b"D", b"E"))


def _integer(line: bytes) -> int:
    """The integer of a line of a header."""
    number = _number(line)
    if not number.is_integer() or abs(number) >= 1 << 53:
        raise ValueError
    return int(number)


def _by_astropy(data: Array, indices: Sequence[int]) -> list[Array]:
    """The arrays of some HDUs of a file, as the library finds them.

    Raises:
        Unusable: One has none, or the file is damaged.
    """
    from astropy.io import fits
    from astropy.utils.exceptions import AstropyWarning

    try:
        with fits.open(
            io.BytesIO(data), memmap=False, lazy_load_hdus=True, do_not_scale_image_data=True, uint=False
        ) as hdus:
            return [_image(hdus, number, data) for number in indices]
    except (Unusable, MemoryError, TimeoutError):
        raise
    except (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
        raise Unusable(f"is no FITS file, or damaged: {error}") from None
    except (zlib.error, AstropyWarning, fits.VerifyError) as error:
        raise Unusable(f"is damaged: {error}") from None


def _image(hdus: Any, number: int, data: Array) -> Array:
    """The array of an HDU."""
    try:
        hdu = hdus[number - 1]
    except IndexError:
        raise Unusable(f"has no HDU {number}, but {len(hdus)}") from None
    header = hdu.header
    if not hdu.is_image:
        raise Unusable(f"HDU {number} is no image")
    shape = tuple(int(header[f"NAXIS{k}"]) for k in range(int(header["NAXIS"]), 0, -1))
    bits, scale, zero = int(header["BITPIX"]), float(header.get("BSCALE", 1)), float(header.get("BZERO", 0))
    if bits not in _STORED or not shape or min(shape) < 0:
        raise Unusable(f"HDU {number} holds no array: NAXIS is {len(shape)}, BITPIX {bits}")
    size = math.prod(shape) * numpy.dtype(_STORED[bits]).itemsize
    if not scale or not math.isfinite(scale) or not math.isfinite(zero):
        raise Unusable(f"HDU {number} cannot be scaled by BSCALE {scale} and BZERO {zero}")
    if hasattr(hdu, "compression_type"):
        if size > len(data) * _DENSEST:
            raise Unusable(f"HDU {number} should have {size} bytes, more than {len(data)} bytes can hold")
        return _scaled(numpy.asarray(hdu.data), bits, scale, zero)
    start = int(hdu.fileinfo()["datLoc"])
    if start + size > len(data):
        raise Unusable(f"ends too early: HDU {number} has {size} bytes from byte {start} on, of {len(data)}")
    return _read(data, start, shape, bits, scale, zero)


def _read(data: Array, start: int, shape: tuple[int, ...], bits: int, scale: float, zero: float) -> Array:
    """The array that is stored from a byte on."""
    kind = numpy.dtype(_STORED[bits]).newbyteorder(">")
    stored = numpy.frombuffer(data, kind, math.prod(shape), start).reshape(shape)
    return _scaled(stored, bits, scale, zero)


def _scaled(stored: Array, bits: int, scale: float, zero: float) -> Array:
    """Stored numbers times the scale, plus the zero, in the type that holds all that they may be."""
    kind = numpy.dtype(_STORED[bits])
    if (scale, zero) == (1, 0):
        return stored.astype(kind)
    if (bits, scale, zero) == (64, 1, 2.0**63):
        return stored.astype(kind).view(numpy.uint64) ^ numpy.uint64(1 << 63)
    if bits == 64 and scale.is_integer() and zero.is_integer():
        least, most = (int(end(stored, initial=0)) * int(scale) + int(zero) for end in (numpy.min, numpy.max))
        if max(abs(least), abs(most), abs(int(scale)), abs(int(zero))) >= 1 << 63:
            raise Unusable(f"has values beyond int64, scaled by BSCALE {scale} and BZERO {zero}")
        return stored.astype(kind) * numpy.int64(scale) + numpy.int64(zero)
    with numpy.errstate(over="ignore", invalid="ignore"):
        return (stored.astype(numpy.float64) * scale + zero).astype(_kind_of(bits, scale, zero))


def _kind_of(bits: int, scale: float, zero: float) -> numpy.dtype[Any]:
    """The type of scaled numbers."""
    if bits in (-32, -64, 64):
        return numpy.dtype(numpy.float32 if bits == -32 else numpy.float64)
    limits = numpy.iinfo(_STORED[bits])
    least, most = sorted((limits.min * scale + zero, limits.max * scale + zero))
    if scale.is_integer() and zero.is_integer() and zero <= 2**31:
        if (least, most) == (-128, 127):
            return numpy.dtype(numpy.int8)
        for kind in _WHOLE:
            if numpy.iinfo(kind).min <= least and most <= numpy.iinfo(kind).max:
                return kind
    return numpy.dtype(numpy.float32 if bits < 32 else numpy.float64)
