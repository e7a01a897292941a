"""Colours of raw images, whose sensor has one colour for each pixel."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import numpy

from dynamic._arrays.array import Array
from dynamic._lift.argument import GIVEN, Between, Layout, PerSample, Two, Word
from dynamic._lift.call import Call, Plan
from dynamic._lift.operator import operator
from dynamic.errors import ArgumentError, DeviceError
from dynamic.kernels.cpu import bayer

__all__ = ["debayer"]

_Place: TypeAlias = Annotated[int, Between(0, 1)]
_Algorithm: TypeAlias = Annotated[str, Word(dict.fromkeys(bayer.ALGORITHMS, ()))]
_NAME = "debayer"


def _plan(call: Call) -> Plan:
    algorithm, layout = call.fixed["algorithm"], call.layout or ""
    if call.device.device_type == "gpu" and algorithm != "bilinear_ocv":
        raise DeviceError(f"{_NAME}() with {algorithm!r} runs on cpu; its input is on a GPU. Move it with .cpu().")
    if algorithm == "vng_ocv" and call.dtype != numpy.uint8:
        raise ArgumentError(_NAME, "algorithm", "'bilinear_ocv' or 'edgeaware_ocv' for uint16", "'vng_ocv'")
    channels, ndim = 1 if algorithm == "gray_ocv" else 3, len(layout) - ("C" in layout)
    for i, shape in enumerate(call.shapes):
        if "C" in layout and shape[-1] != 1:
            raise call.noted(i, ArgumentError(_NAME, "image", "of one channel", f"{shape[-1]} channels"))
        if 0 not in shape and min(shape[ndim - 2 : ndim]) < bayer.LEAST:
            expected = f"at least {bayer.LEAST} pixels high and wide"
            raise call.noted(i, ArgumentError(_NAME, "image", expected, f"shape {shape}"))
    shapes = [(*shape[:ndim], channels) for shape in call.shapes]
    return Plan(shapes, call.dtype, layout[:ndim] + "C", ndim + 1, data=call.column("blue_position"), weight=8.0)


@operator(layouts=("HW", "HWC", "FHW", "FHWC"), dtypes="u8 u16", plan=_plan, gpu=True)
def debayer(
    image: Array,
    /,
    *,
    algorithm: _Algorithm = "bilinear_ocv",
    blue_position: PerSample[Two[_Place]],
    layout: Layout = GIVEN,
    plan: tuple[int, int] = GIVEN,
    out: Array = GIVEN,
) -> Array:
    """Find the colours of raw images, whose sensor has one colour for each pixel, in a pattern of 2 x 2.

    Args:
        algorithm: OpenCV's: "bilinear_ocv", "edgeaware_ocv", "vng_ocv" (variable number of gradients, for uint8), or
            "gray_ocv", which finds the brightness. A GPU runs "bilinear_ocv".
        blue_position: Row and column, 0 or 1, of the blue pixel in a tile of 2 x 2 pixels. The tile begins at the
            second row and the second column: (0, 0) is BGGR, (0, 1) GBRG, (1, 0) GRBG, (1, 1) RGGB, as OpenCV names
            patterns.

    Returns:
        Images of the same height, width and dtype with the channels red, green and blue, or with one for "gray_ocv";
        layout "HWC", of videos "FHWC".

    Raises:
        ArgumentError: An image is less than 3 pixels high or wide or has several channels, or "vng_ocv" is given
            uint16.
        DeviceError: A GPU does not run the algorithm.

    >>> raw = numpy.array([[9, 7, 9, 7], [7, 5, 7, 5], [9, 7, 9, 7], [7, 5, 7, 5]], "uint8")
    >>> ndd.debayer(raw, blue_position=(0, 0)).numpy()[1, 1].tolist()
    [9, 7, 5]
    """
    if out.size:
        sides, channels = out.shape[-3:-1], out.shape[-1]
        frames, results = image.reshape(-1, *sides), out.reshape(-1, *sides, channels)
        for frame, result in zip(frames, results, strict=True):
            bayer.demosaiced(frame, plan, algorithm, result)
    return out
