"""What makes arguments fit their samples where annotations cannot tell, for the strategies that draw calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

#: Changes the arguments of a call, `varying` and `fixed`, so that they fit its samples and their layout.
Fit: TypeAlias = Callable[[st.DrawFn, list[np.ndarray], str | None, dict[str, list[Any]], dict[str, Any]], None]


def _dimensions(
    draw: st.DrawFn,
    samples: list[np.ndarray],
    layout: str | None,
    varying: dict[str, list[Any]],
    fixed: dict[str, Any],
) -> None:
    """Dimensions that are there, each once, by number or by letter."""
    ndim = samples[0].ndim
    some = st.lists(st.integers(0, ndim - 1), unique=True, max_size=3) if ndim else st.just([])
    if "axes" in fixed:
        axes = tuple(axis - ndim if draw(st.booleans()) else axis for axis in draw(some))
        fixed["axes"] = axes[0] if len(axes) == 1 and draw(st.booleans()) else axes
    if "axis_names" in fixed:
        fixed["axis_names"] = "".join(layout[axis] for axis in draw(some)) if layout and "axes" not in fixed else None


def spatial_letters(ndim: int, layout: str | None) -> str:
    """The dimensions of a sample but frames and channels, as filters take them."""
    letters = layout or {1: "W", 2: "HW", 3: "HWC", 4: "FHWC", 5: "FDHWC"}.get(ndim, "")
    return letters.replace("F", "").replace("C", "")


def _sized(length: int | None = None, /, **values: st.SearchStrategy[Any]) -> Fit:
    """Give arguments one value, or one for each spatial dimension."""

    def fit(draw: st.DrawFn, samples: Any, layout: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]) -> None:
        count = length or max(1, len(spatial_letters(samples[0].ndim, layout)))
        for name, each in values.items():
            some = st.lists(each, min_size=count, max_size=count).map(tuple) if draw(st.booleans()) else each
            if name in varying:
                varying[name] = [draw(some) for _ in samples]
            if name in fixed:
                fixed[name] = draw(some)

    return fit


def _normalized(
    draw: st.DrawFn, samples: list[np.ndarray], layout: str | None, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Dimensions that the samples have, and a mean and a deviation for each place along the last."""
    axes = sorted(draw(st.sets(st.integers(0, max(0, samples[0].ndim - 1)), min_size=1)))
    if "axes" in fixed:
        fixed["axes"] = tuple(axes)
    if "axis_names" in fixed:
        fixed["axis_names"] = "".join((layout or "")[axis : axis + 1] for axis in axes)
    if "axes" in fixed or not layout:
        fixed.pop("axis_names", None)
    for name in ("mean", "stddev"):
        drawn = [draw(npst.arrays(np.float32, x.shape[-1:], elements=st.floats(-9, 9, width=16))) for x in samples]
        if name in varying:
            varying[name] = drawn
        if name in fixed:
            fixed[name] = drawn[0]


def _boxes(draw: st.DrawFn, samples: list[np.ndarray], _: Any, __: Any, ___: Any, rows: int | None = None) -> None:
    """Boxes, as many as a sample has elements, in Fortran's order or in C's."""
    for i, sample in enumerate(samples):
        order = np.asfortranarray if draw(st.booleans()) else np.ascontiguousarray
        samples[i] = order(np.resize(sample, (rows or sample.size, 4)))
        samples[i].flags.writeable = False


def _turned_boxes(
    draw: st.DrawFn, samples: list[np.ndarray], layout: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Three boxes, and an image with a height and a width."""
    _boxes(draw, samples, layout, varying, fixed, 3)
    fixed["bbox_layout"] = draw(st.sampled_from(["xyXY", "xyWH"]))
    fixed["shape_layout"] = draw(st.sampled_from(["HW", "WH", "HWC", "CHW"]))
    extents = st.lists(st.integers(1, 900), min_size=3, max_size=3).map(tuple)
    _redrawn(draw, "input_shape", extents, varying, fixed)
    if fixed.get("keep_size"):
        varying.pop("size", None)
        fixed.pop("size", None)
    elif "size" in varying or "size" in fixed:
        _redrawn(draw, "size", st.tuples(st.floats(1, 900, width=16), st.floats(1, 900, width=16)), varying, fixed)


def _redrawn(
    draw: st.DrawFn, name: str, values: st.SearchStrategy[Any], varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Another value for an argument, or others where each sample has its own."""
    if name in varying:
        varying[name] = [draw(values) for _ in varying[name]]
    else:
        fixed[name] = draw(values)


def _anchored_boxes(
    draw: st.DrawFn, samples: list[np.ndarray], layout: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Three boxes, some anchors, and deviations that are not 0."""
    _boxes(draw, samples, layout, varying, fixed, 3)
    fixed["anchors"] = draw(npst.arrays(np.float32, (draw(st.integers(1, 5)), 4), elements=st.floats(-9, 9, width=16)))
    if "stds" in fixed:
        fixed["stds"] = tuple(abs(deviation) + 1 for deviation in fixed["stds"])


def _masks_of_polygons(draw: st.DrawFn, samples: list[np.ndarray], _: Any, __: Any, ___: Any) -> None:
    """Some of the masks 0 to 3."""
    some = st.lists(st.integers(0, 3), unique=True, max_size=4)
    samples[:] = [np.array(draw(some), sample.dtype) for sample in samples]


_REDUCTIONS = ("sum", "mean", "mean_square", "rms", "max", "min", "variance", "std_dev")
_MASKS = _sized(2, mask_size=st.integers(2, 5), anchor=st.integers(-1, 1))

#: What makes arguments fit their samples where annotations cannot tell.
FITTING: dict[str, Fit] = {
    "bb_flip": _boxes,
    "bbox_paste": _boxes,
    "bbox_rotate": _turned_boxes,
    "box_encoder": _anchored_boxes,
    "segmentation.select_masks": _masks_of_polygons,
    **{f"reductions.{name}": _dimensions for name in _REDUCTIONS},
    "experimental.dilate": _MASKS,
    "experimental.erode": _MASKS,
    "experimental.median_blur": _sized(2, window_size=st.sampled_from([1, 3, 5, 7])),
    "filter": _sized(anchor=st.integers(-1, 1)),
    "gaussian_blur": _sized(sigma=st.floats(0.25, 3, width=16), window_size=st.sampled_from([1, 3, 5, 11])),
    "laplacian": _sized(
        scale=st.floats(-2, 2, width=16), smoothing_size=st.sampled_from([1, 3, 5]), window_size=st.sampled_from([3, 5])
    ),
    "normalize": _normalized,
}

#: Further inputs of operators that need them, made from the first.
FURTHER_INPUTS: dict[str, Callable[[Any], list[Any]]] = {
    "bbox_rotate": lambda _: [np.arange(3, dtype=np.int32)],
    "box_encoder": lambda _: [np.arange(3, dtype=np.int32)],
    "filter": lambda data: [_a_filter(data)],
    "segmentation.select_masks": lambda _: [
        np.array([[0, 0, 3], [1, 3, 7], [3, 1, 4], [2, 7, 10]], np.int32),
        np.arange(20, dtype=np.float32).reshape(10, 2),
    ],
}  # fmt: skip


def _a_filter(data: Any) -> np.ndarray:
    """A kernel of as many dimensions as are spatial in the data, two in what is no data at all."""
    count = len(spatial_letters(getattr(data, "ndim", 2), getattr(data, "layout", None)))
    shape = (3, 2, 2)[:count]
    return np.arange(float(np.prod(shape))).reshape(shape)
