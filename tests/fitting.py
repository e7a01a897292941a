"""What makes arguments fit their samples where annotations cannot tell, for the strategies that draw calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dynamic import dtypes
from dynamic.types import DALIInterpType

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
    fixed.pop("batch", None)  # with it, a sample depends on the others
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


def _boxes_in_images(draw: st.DrawFn, count: int) -> np.ndarray:
    """Boxes in units of their image, starts and ends."""
    corners = np.random.default_rng(draw(st.integers(0, 999))).random((count, 2, 2))
    return np.sort(corners, axis=1).reshape(count, 4)


def _boxes(draw: st.DrawFn, samples: list[np.ndarray], _: Any, __: Any, ___: Any, rows: int | None = None) -> None:
    """Boxes, as many as a sample has elements, of any numbers or in their images; in Fortran's order or in C's."""
    for i, sample in enumerate(samples):
        order, count = np.asfortranarray if draw(st.booleans()) else np.ascontiguousarray, rows or sample.size
        inside = sample.dtype.kind == "f" and draw(st.booleans())
        boxes = _boxes_in_images(draw, count).astype(sample.dtype) if inside else np.resize(sample, (count, 4))
        samples[i] = order(boxes)
        samples[i].flags.writeable = False


def _turned_boxes(
    draw: st.DrawFn, samples: list[np.ndarray], layout: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Three boxes, and an image with a height and a width."""
    _boxes(draw, samples, layout, varying, fixed, 3)
    fixed["bbox_layout"] = draw(st.sampled_from(["xyXY", "xyWH"]))
    fixed["shape_layout"] = draw(st.sampled_from(["HW", "WH", "HWC", "CHW"]))
    extents = st.lists(st.integers(1, 900), min_size=3, max_size=3).map(tuple)
    _draw_again("input_shape", extents, draw, varying, fixed)
    if fixed.get("keep_size"):
        varying.pop("size", None)
        fixed.pop("size", None)
    elif "size" in varying or "size" in fixed:
        _draw_again("size", st.tuples(st.floats(1, 900, width=16), st.floats(1, 900, width=16)), draw, varying, fixed)


def _coloured(
    draw: st.DrawFn, samples: list[np.ndarray], layout: str | None, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Three channels, or one of grey images."""
    if layout is None or "C" not in layout:
        if "image_type" in fixed:
            fixed["image_type"] = "GRAY"
        return
    gray = fixed["image_type"] == "GRAY" if "image_type" in fixed else draw(st.booleans())
    place, channels = layout.index("C"), 1 if gray else 3
    for i, sample in enumerate(samples):
        if sample.shape[place] != channels:
            samples[i] = np.take(sample, np.arange(channels) % sample.shape[place], axis=place)
            samples[i].flags.writeable = False


def _table(
    draw: st.DrawFn, samples: list[np.ndarray], layout: str | None, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """A value for each key of a table."""
    table = draw(st.dictionaries(st.integers(0, 65535) | st.integers(0, 300), st.floats(-400, 400, width=32)))
    fixed["keys"], fixed["values"] = tuple(table), tuple(table.values())


def _raw(
    draw: st.DrawFn, samples: list[np.ndarray], layout: str | None, _: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """One channel, three pixels or more a side, and an algorithm for the dtype."""
    layout = layout or {2: "HW", 3: "HWC"}[samples[0].ndim]
    for i, sample in enumerate(samples):
        extents = {"H": draw(st.integers(3, 9)), "W": draw(st.integers(3, 9)), "C": 1}
        samples[i] = np.resize(sample, [extents.get(letter, 2) for letter in layout])
        samples[i].flags.writeable = False
    if fixed.get("algorithm") == "vng_ocv" and samples[0].dtype != np.uint8:
        del fixed["algorithm"]


_COLOURED = ("color_space_conversion", "color_twist", "hsv", "hue", "jpeg_compression_distortion", "saturation")


def _draw_again(
    name: str, values: st.SearchStrategy[Any], draw: st.DrawFn, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Another value for an argument; for each sample where there was one for each."""
    if name in varying:
        varying[name] = [draw(values) for _ in varying[name]]
    else:
        fixed[name] = draw(values)


def _rows(rows: int, columns: int) -> st.SearchStrategy[tuple[float, ...]]:
    """A matrix, row by row."""
    return st.lists(st.floats(-3, 3, width=16), min_size=rows * columns, max_size=rows * columns).map(tuple)


def _fit_affine(
    draw: st.DrawFn, _: Any, layout: str | None, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    dims = sum(letter in "DHW" for letter in layout or "")
    _draw_again("matrix", _rows(dims, dims + 1), draw, varying, fixed)
    _with_a_size(draw, _, layout, varying, fixed)


def _with_a_size(
    draw: st.DrawFn, _: Any, layout: str | None, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """A canvas that has no pixels in one case of eight only."""
    count = sum(letter in "DHW" for letter in layout or "")
    least = 0 if draw(st.integers(0, 7)) == 7 else 1
    if "size" in varying or "size" in fixed:
        _draw_again("size", st.tuples(*[st.floats(least, 12, width=32)] * count), draw, varying, fixed)


def _fit_perspective(draw: st.DrawFn, _: Any, __: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]) -> None:
    _draw_again("matrix", _rows(3, 3), draw, varying, fixed)


def _fit_points(
    draw: st.DrawFn, samples: list[np.ndarray], _: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    samples[:] = [sample[..., :3] if sample.ndim else sample[None] for sample in samples]
    extents = {sample.shape[-1] for sample in samples}
    fixed["layout"] = draw(st.permutations("xyz"[: min(extents)]).map("".join)) if len(extents) == 1 else ""


def _fit_linear(
    draw: st.DrawFn, samples: list[np.ndarray], _: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    samples[:] = [sample if sample.ndim else sample[None] for sample in samples]
    extents = {sample.shape[-1] for sample in samples}
    rows, columns = (2, min(extents)) if len(extents) == 1 else (1, 0)
    names = draw(st.sampled_from([("M", "T"), ("MT",)]))
    for name in {"M", "T", "MT"} - set(names):
        fixed.pop(name, None)
        varying.pop(name, None)
    for name in names:
        _draw_again(name, _rows(rows, {"M": columns, "T": 1, "MT": columns + 1}[name] or 1), draw, varying, fixed)


def _drop(names: str, *arguments: dict[str, Any]) -> None:
    for values in arguments:
        for name in names.split():
            values.pop(name, None)


def _some_axes(draw: st.DrawFn, samples: list[np.ndarray], fixed: dict[str, Any]) -> int:
    """Say which dimensions are meant, and how many they are."""
    _drop("axes axis_names", fixed)
    fixed["axes"] = tuple(draw(st.lists(st.integers(0, max(0, samples[0].ndim - 1)), unique=True)))[: samples[0].ndim]
    return len(fixed["axes"])


def _numbers(draw: st.DrawFn, values: st.SearchStrategy[Any], count: int) -> tuple[Any, ...]:
    return tuple(draw(st.lists(values, min_size=count, max_size=count)))


def _fit_slice(draw: st.DrawFn, samples: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]) -> None:
    _drop("axes start end shape rel_start rel_end rel_shape", varying, fixed)
    count = _some_axes(draw, samples, fixed)
    begin, end = draw(st.sampled_from([("start", "shape"), ("start", "rel_shape"), ("rel_start", "shape")]))
    kinds = {"start": st.integers(-2, 4), "shape": st.integers(0, 5)}
    parts = st.floats(0, 1, width=32)
    fixed[end] = _numbers(draw, kinds.get(end, parts), count)
    varying[begin] = [_numbers(draw, kinds.get(begin, parts), count) for _ in samples]


def _fit_erase(draw: st.DrawFn, samples: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]) -> None:
    _drop("axes anchor shape", varying, fixed)
    fixed["axes"] = (draw(st.integers(0, samples[0].ndim - 1)),) if samples[0].ndim else ()
    if samples[0].ndim:
        count = draw(st.integers(1, 3))
        varying["anchor"] = [_numbers(draw, st.floats(-2, 4, width=32), count) for _ in samples]
        fixed["shape"] = _numbers(draw, st.floats(-1, 4, width=32), count)


def _fit_pad(draw: st.DrawFn, samples: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]) -> None:
    _drop("axes axis_names shape align", varying, fixed)
    count = samples[0].ndim
    fixed["shape"] = _numbers(draw, st.integers(1, 6), count)  # not -1, with which a result depends on other samples
    varying["align"] = [_numbers(draw, st.integers(1, 4), count) for _ in samples]


def _fit_multi_paste(
    draw: st.DrawFn, samples: Any, layout: Any, varying: dict[str, Any], fixed: dict[str, Any]
) -> None:
    _drop("in_anchors in_anchors_rel in_ids out_anchors out_anchors_rel output_size shapes shapes_rel", varying, fixed)
    count = sum(letter in "DHW" for letter in layout)
    fixed["output_size"] = (9,) * count
    fixed[draw(st.sampled_from(["shapes_rel", "in_anchors_rel"]))] = (_numbers(draw, st.floats(0, 1, width=32), count),)
    varying["out_anchors"] = [(_numbers(draw, st.integers(0, 2), count),) for _ in samples]


def _fit_image_crop(_draw: st.DrawFn, _s: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]) -> None:
    for name in ("crop_h", "crop_w"):
        if name in fixed:
            fixed[name] = min(fixed[name], 6)
        if name in varying:
            varying[name] = [min(value, 6) for value in varying[name]]
    _drop("crop max_pixels max_scans max_encoded_bytes", varying, fixed)


def _fit_image_slice(
    draw: st.DrawFn, samples: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]
) -> None:
    _drop("axes axis_names start end shape rel_start rel_end rel_shape", varying, fixed)
    _drop("max_pixels max_scans max_encoded_bytes", fixed)
    varying["rel_start"] = [_numbers(draw, st.floats(0, 0.5, width=32), 2) for _ in samples]
    fixed["rel_shape"] = _numbers(draw, st.floats(0.125, 0.5, width=32), 2)


def _constants(varying: dict[str, list[Any]]) -> None:
    """What stands for words in a Batch, which has none."""
    for name in ("interp_type", "mag_filter", "min_filter"):
        if name in varying:
            varying[name] = [np.int32(DALIInterpType[f"INTERP_{word.upper()}"]) for word in varying[name]]


def _resized(
    draw: st.DrawFn, samples: list[np.ndarray], layout: str | None, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """One way to give a size, and regions that are not too small: results would have no end."""
    _constants(varying)
    count = sum(letter in "DHW" for letter in layout or "")
    sizes = st.integers(-9, 12) | st.floats(0.25, 12, width=16)
    tensor = "sizes" in {*varying, *fixed} or "scales" in {*varying, *fixed} or count == 0
    count = samples[0].ndim if tensor else count
    methods = ["sizes", "scales"] if tensor else ["size", "resize_shorter", "resize_longer", "resize_x"]
    method = draw(st.sampled_from(methods))
    for name in ("save_attrs", "roi_start", "roi_end", "axes", "axis_names", "resize_y", "resize_z", *methods):
        varying.pop(name, None)
        fixed.pop(name, None)
    each = {"resize_shorter": st.integers(1, 9), "scales": st.floats(0.25, 2, width=16)}.get(method, sizes)
    several = (
        st.lists(each, min_size=count, max_size=count).map(tuple) if method in ("size", "sizes", "scales") else each
    )
    target = draw(st.sampled_from([varying, fixed]))
    target[method] = [draw(several) for _ in samples] if target is varying else draw(several)
    if method not in ("size", "sizes"):
        fixed.pop("mode", None)
    if draw(st.booleans()):
        starts = [draw(st.integers(-1, 3)) for _ in range(count)]
        fixed["roi_start"] = tuple(map(float, starts))
        fixed["roi_end"] = tuple(start + draw(st.sampled_from([-3.0, 1.5, 2.0, 6.0])) for start in starts)
    if isinstance(fixed.get("max_size"), tuple):
        fixed["max_size"] = (5.0,) * count
    for name in ("alignment",):
        if name in varying:
            varying[name] = [draw(st.floats(0, 1, width=16)) for _ in samples]
        if name in fixed:
            fixed[name] = draw(st.floats(0, 1, width=16))


def _shape_of_samples(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    """A shape of as many elements as the samples have."""
    for name in ("rel_shape", "src_dims", "shape", "layout", "dtype"):
        varying.pop(name, None)
        fixed.pop(name, None)
    ndim = samples[0].ndim
    match draw(st.sampled_from(["flat", "places", "own", "factors", "layout"])):
        case "flat":
            fixed["shape"] = (-1,)
        case "places":
            fixed["src_dims"] = (-1, *draw(st.permutations(range(ndim))))
        case "own":
            varying["shape"] = [tuple(reversed(sample.shape)) for sample in samples]
        case "factors":
            varying["rel_shape"] = [(1.0,) * ndim for _ in samples]
        case "layout":
            fixed["layout"] = "ABCDEFG"[:ndim]


def _dimensions_of_samples(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    """Dimensions of extent 1, new dimensions, or all dimensions in another order, whichever the operator wants."""
    ndim = samples[0].ndim
    if "axes" in fixed:
        fixed["axes"] = [i for i in range(ndim) if all(sample.shape[i] == 1 for sample in samples)]
    if "perm" in fixed:
        fixed["perm"] = draw(st.permutations(range(-ndim, 0)))
    fixed.pop("axis_names", None)
    fixed.pop("output_layout", None)


def _new_dimension(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    ndim = samples[0].ndim
    for name in ("axis_name", "new_axis_names"):
        fixed.pop(name, None)
    if "axes" in fixed:
        fixed["axes"] = draw(st.sampled_from([(0,), (-1,), (0, ndim + 1)]))
    if "axis" in fixed:
        fixed["axis"] = draw(st.integers(-ndim - 1, ndim))


def _dimension_of_classes(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    fixed["num_classes"] = draw(st.integers(0, 5))
    _new_dimension(draw, samples, layout, varying, fixed)
    if samples[0].ndim > 1 or any(sample.size != 1 for sample in samples):
        fixed.setdefault("axis", -1)


def _old_dimension(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    fixed.pop("axis_name", None)
    if samples[0].ndim:
        fixed["axis"] = draw(st.integers(-samples[0].ndim, samples[0].ndim - 1))


def _small_shape(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    """Shapes of a few elements, of two dimensions where they vary."""
    extents = st.integers(0, 4)
    if "shape" in fixed:
        fixed["shape"] = (*draw(st.lists(extents, max_size=2)), *samples[0].shape)
    if "shape" in varying:
        del varying["shape"]
        fixed["shape"] = samples[0].shape
    fixed.pop("layout", None)


def _frames_of_samples(draw: st.DrawFn, samples: Any, layout: Any, varying: Any, fixed: Any) -> None:
    samples[:] = [sample if sample.ndim else sample[None] for sample in samples]
    varying.pop("new_order", None)
    if len(samples) > 1 and draw(st.booleans()):
        fixed.pop("new_order", None)
        varying["new_order"] = [
            tuple(draw(st.lists(st.integers(-len(x), len(x) - 1), min_size=1, max_size=3))) for x in samples
        ]
    else:
        fixed["new_order"] = draw(st.sampled_from([0, (0, -1)]))


def _anchored_boxes(
    draw: st.DrawFn, samples: list[np.ndarray], layout: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Three boxes, some anchors, of any numbers or in their image, and deviations that are not 0."""
    _boxes(draw, samples, layout, varying, fixed, 3)
    count = draw(st.integers(1, 9))
    anchors = npst.arrays(np.float32, (count, 4), elements=st.floats(-9, 9, width=16))
    fixed["anchors"] = draw(anchors) if draw(st.booleans()) else _boxes_in_images(draw, count).astype(np.float32)
    if "stds" in fixed:
        fixed["stds"] = tuple(abs(deviation) + 1 for deviation in fixed["stds"])


def _masks_of_polygons(draw: st.DrawFn, samples: list[np.ndarray], _: Any, __: Any, ___: Any) -> None:
    """Some of the masks 0 to 3."""
    some = st.lists(st.integers(0, 3), unique=True, max_size=4)
    samples[:] = [np.array(draw(some), sample.dtype) for sample in samples]


def _signals(samples: list[np.ndarray]) -> list[int]:
    """Make samples one signal each, that is not empty; their lengths."""
    for i, sample in enumerate(samples):
        if sample.ndim:
            samples[i] = sample.reshape(-1, *[1] * (sample.ndim - 1))
            samples[i].flags.writeable = False
    return [sample.size for sample in samples]


def _fit_spectrogram(draw: st.DrawFn, samples: Any, _layout: Any, varying: Any, fixed: dict[str, Any]) -> None:
    least = min(_signals(samples))
    length = fixed["window_length"] = draw(st.integers(1, 12 if fixed.get("center_windows", True) else min(12, least)))
    if "nfft" in fixed:
        fixed["nfft"] = length + draw(st.integers(0, 5))
    if "window_fn" in fixed:
        fixed["window_fn"] = _numbers(draw, st.floats(-2, 2, width=16), length)


def _fit_mel(draw: st.DrawFn, _samples: Any, _layout: Any, varying: Any, fixed: dict[str, Any]) -> None:
    fixed["sample_rate"] = draw(st.floats(8000, 48000, width=16))
    fixed["freq_low"] = draw(st.floats(0, 900, width=16))
    fixed["freq_high"] = draw(st.just(0.0) | st.floats(1000, 4000, width=16))


def _fit_frequencies(draw: st.DrawFn, samples: Any, _layout: Any, varying: Any, fixed: dict[str, Any]) -> None:
    ndim = samples[0].ndim
    fixed["axis"] = draw(st.integers(-ndim, ndim - 1)) if ndim else 0
    if fixed.get("dct_type") == 1 and (
        fixed.get("normalize") or ndim == 0 or 1 in {x for a in samples for x in a.shape}
    ):
        fixed["dct_type"] = 2


def _fit_resampling(draw: st.DrawFn, samples: Any, _layout: Any, varying: Any, fixed: dict[str, Any]) -> None:
    samples[:] = [np.resize(x, (3, 2) if x.ndim > 1 else 4) if x.ndim not in (1, 2) else x for x in samples]
    _drop("in_rate out_rate out_length scale", varying, fixed)
    rates = st.floats(0.25, 4, width=16)
    match draw(st.sampled_from(["scale", "rates", "length"])):
        case "scale":
            fixed["scale"] = draw(rates)
        case "rates":
            fixed["in_rate"], varying["out_rate"] = draw(rates), [draw(rates) for _ in samples]
        case "length":
            varying["out_length"] = [draw(st.integers(0, 9)) for _ in samples]


def _fit_audio(draw: st.DrawFn, samples: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]) -> None:
    _drop("max_values", fixed)
    for values in (fixed, varying):
        if "sample_rate" in values:
            rates = [draw(st.sampled_from([0.0, 4000.0, 11025.0])) for _ in samples]
            values["sample_rate"] = rates if values is varying else rates[0]


def _fit_blocks(
    draw: st.DrawFn, samples: list[np.ndarray], _layout: Any, varying: dict[str, list[Any]], fixed: dict[str, Any]
) -> None:
    """Blocks of LZ4, one or several in a sample, and the shape of their arrays."""
    compress = pytest.importorskip("lz4.block", reason="lz4 is not installed").compress

    _drop("shape chunk_offsets chunk_sizes layout sequence_axis_name", varying, fixed)
    kind = dtypes.numpy_dtype(dtypes.dtype(fixed.get("dtype", "uint8")))
    ndim, several = draw(st.integers(0, 3)), draw(st.booleans())
    shape = fixed["shape"] = _numbers(draw, st.integers(0, 4), ndim)  # an empty Batch of shapes tells no dimensions
    sizes = []
    for i in range(len(samples)):
        generator = np.random.default_rng(draw(st.integers(0, 999)))
        count = draw(st.integers(1, 3)) if several else 1
        arrays = generator.integers(0, 3, (count, math.prod(shape) * kind.itemsize), np.uint8)
        blocks = [compress(array, store_size=False) for array in arrays]
        samples[i] = np.frombuffer(b"".join(blocks), np.uint8)
        sizes.append(tuple(map(len, blocks)))
    if several:
        varying["chunk_sizes"] = sizes
    if draw(st.booleans()):
        fixed["layout"] = "ABC"[:ndim]


def _fit_video(draw: st.DrawFn, samples: Any, _layout: Any, varying: dict[str, Any], fixed: dict[str, Any]) -> None:
    _drop("max_values", fixed)
    wanted = {"frames": st.lists(st.integers(-3, 12), max_size=4), "start_frame": st.integers(-1, 5),
              "end_frame": st.integers(6, 12), "sequence_length": st.integers(0, 9)}  # fmt: skip
    others = ["start_frame", "end_frame", "sequence_length", "stride"]
    given = {*fixed, *varying}
    excluded = others if "frames" in given else ["end_frame"] if "sequence_length" in given else []
    for values in (fixed, varying):
        for name in excluded:
            _drop(name, values)
        for name in wanted.keys() & values.keys():
            values[name] = [draw(wanted[name]) for _ in samples] if values is varying else draw(wanted[name])
    if fixed.get("pad_mode") == "none":
        fixed["pad_mode"] = "edge"


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
    **dict.fromkeys(_COLOURED, _coloured),
    "clahe": _coloured,
    "debayer": _raw,
    "decoders.inflate": _fit_blocks,
    "audio_resample": _fit_resampling,
    "decoders.audio": _fit_audio,
    "decoders.video": _fit_video,
    "mel_filter_bank": _fit_mel,
    "mfcc": _fit_frequencies,
    "nonsilent_region": lambda _draw, samples, *_: _signals(samples) and None,
    "power_spectrum": _fit_frequencies,
    "spectrogram": _fit_spectrogram,
    "lookup_table": _table,
    "decoders.image_crop": _fit_image_crop,
    "decoders.image_slice": _fit_image_slice,
    "erase": _fit_erase,
    "multi_paste": _fit_multi_paste,
    "pad": _fit_pad,
    "slice": _fit_slice,
    "coord_flip": _fit_points,
    "coord_transform": _fit_linear,
    "experimental.dilate": _MASKS,
    "experimental.erode": _MASKS,
    "experimental.median_blur": _sized(2, window_size=st.sampled_from([1, 3, 5, 7])),
    "experimental.warp_perspective": _fit_perspective,
    "filter": _sized(anchor=st.integers(-1, 1)),
    "gaussian_blur": _sized(sigma=st.floats(0.25, 3, width=16), window_size=st.sampled_from([1, 3, 5, 11])),
    "laplacian": _sized(
        scale=st.floats(-2, 2, width=16), smoothing_size=st.sampled_from([1, 3, 5]), window_size=st.sampled_from([3, 5])
    ),
    "normalize": _normalized,
    "rotate": _with_a_size,
    "warp_affine": _fit_affine,
    "resize": _resized,
    "resize_crop_mirror": _resized,
    "tensor_resize": _resized,
    "reshape": _shape_of_samples,
    "reinterpret": _shape_of_samples,
    "squeeze": _dimensions_of_samples,
    "transpose": _dimensions_of_samples,
    "expand_dims": _new_dimension,
    "stack": _new_dimension,
    "one_hot": _dimension_of_classes,
    "cat": _old_dimension,
    "full": _small_shape,
    "zeros": _small_shape,
    "ones": _small_shape,
    "sequence_rearrange": _frames_of_samples,
}

#: Further inputs of operators that need them, made from the first.
FURTHER_INPUTS: dict[str, Callable[[Any], list[Any]]] = {
    "bbox_rotate": lambda _: [np.arange(3, dtype=np.int32)],
    "box_encoder": lambda _: [np.arange(1, 4, dtype=np.int32)],
    "experimental.remap": lambda _: [np.linspace(-1, 4, 6).reshape(2, 3), np.eye(2, 3, dtype=np.float32)],
    "filter": lambda data: [_a_filter(data)],
    "segmentation.select_masks": lambda _: [
        np.array([[0, 0, 3], [1, 3, 7], [3, 1, 4], [2, 7, 10]], np.int32),
        np.arange(20, dtype=np.float32).reshape(10, 2),
    ],
}


def _a_filter(data: Any) -> np.ndarray:
    """A kernel of as many dimensions as are spatial in the data, two in what is no data at all."""
    count = len(spatial_letters(getattr(data, "ndim", 2), getattr(data, "layout", None)))
    shape = (3, 2, 2)[:count]
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
