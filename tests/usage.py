"""How people use operators: calls of photos, points, boxes and so on, with arguments that make sense."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cv2
import numpy as np
from corpus import encoded, recorded, sound
from dali_oracle import Samples
from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]


class Each(NamedTuple):
    """Values of an argument that may differ from sample to sample, or always do."""

    values: Strategy
    always: bool = False


class Call(NamedTuple):
    """What an operator is called with."""

    inputs: list[Samples]
    varying: dict[str, list[Any]]
    fixed: dict[str, Any]


@dataclass(frozen=True)
class Use:
    """How an operator is used.

    Attributes:
        inputs: Of as many samples as it is given.
        needed: Arguments that each call has.
        optional: Those that half of the calls have.
        draws: Whether it is random: then both draw from one stream.
    """

    inputs: Callable[[int], Strategy]
    needed: dict[str, Strategy | Each] = field(default_factory=dict)
    optional: dict[str, Strategy | Each] = field(default_factory=dict)
    draws: bool = False


@st.composite
def calls(draw: st.DrawFn, use: Use) -> Call:
    """A call of one to four samples."""
    n = draw(st.integers(1, 4))
    inputs = draw(use.inputs(n))
    varying: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}
    chosen = dict(use.needed)
    for name, values in use.optional.items():
        if draw(st.booleans()):
            chosen[name] = values
    for name, values in chosen.items():
        if isinstance(values, Each) and inputs and (values.always or draw(st.booleans())):
            varying[name] = [draw(values.values) for _ in range(n)]
        else:
            fixed[name] = draw(values.values if isinstance(values, Each) else values)
    return Call(inputs, varying, fixed)


# -- what operators get ------------------------------------------------------------------------------------------------


def floats(low: float, high: float) -> Strategy:
    """Numbers of float32, of many digits: with few, places are often half-way between two pixels."""
    return st.integers(0, 2**20).map(lambda i: float(np.float32(low + (high - low) * i / 2**20)))


def pairs(values: Strategy) -> Strategy:
    return st.tuples(values, values)


def photo(shape: tuple[int, ...], layout: str, dtype: str, seed: int) -> np.ndarray:
    """Smooth colours with some grain, as photos have them; floats are 0 to 1."""
    generator = np.random.default_rng(seed)
    extent = dict(zip(layout, shape, strict=True))
    stacked = [extent.get(letter, 1) for letter in "FDHWC"]
    image = np.empty(stacked, np.float32)
    for place in np.ndindex(*stacked[:2]):
        coarse = generator.random((4, 5, stacked[4]), np.float32)
        image[place] = cv2.resize(coarse, (stacked[3], stacked[2]), interpolation=cv2.INTER_CUBIC).reshape(stacked[2:])
    image = np.clip(image + generator.normal(0, 0.03, image.shape), 0, 1).astype(np.float32)
    image = image.transpose(
        ["FDHWC".index(letter) for letter in layout] + [i for i, letter in enumerate("FDHWC") if letter not in layout]
    ).reshape(shape)
    if dtype == "float32":
        return image
    low, high = (-2000, 2000) if dtype == "int16" else (0, np.iinfo(dtype).max)
    return np.rint(low + image * (high - low)).astype(dtype)


def photos(
    layouts: str = "HWC", dtypes: str = "uint8", channels: tuple[int, ...] = (3, 1), least: int = 8
) -> Callable[[int], Strategy]:
    """A batch of photos, of one shape or several."""

    @st.composite
    def batch(draw: st.DrawFn, n: int) -> list[Samples]:
        layout, dtype = draw(st.sampled_from(layouts.split())), draw(st.sampled_from(dtypes.split()))
        extents = {"F": st.integers(1, 3), "D": st.integers(2, 4), "C": st.just(draw(st.sampled_from(channels)))}
        shape = st.tuples(*[extents.get(letter, st.integers(least, 60)) for letter in layout])
        shape = st.just(draw(shape)) if draw(st.booleans()) else shape
        seed = draw(st.integers(0, 2**20))
        return [Samples([photo(draw(shape), layout, dtype, seed + i) for i in range(n)], layout)]

    return batch


def files(*formats: str) -> Callable[[int], Strategy]:
    """Image files of photos, in colour and grey."""
    kinds = st.tuples(
        st.sampled_from(formats), st.booleans(), st.integers(12, 60), st.integers(12, 60), st.integers(0, 99)
    )

    def file(kind: str, gray: bool, height: int, width: int, seed: int) -> np.ndarray:
        image = photo((height, width, 3), "HWC", "uint8", seed)
        return np.frombuffer(encoded(image[..., 0].copy() if gray else image, kind), np.uint8)

    return lambda n: st.lists(kinds, min_size=n, max_size=n).map(
        lambda found: [Samples([file(*each) for each in found])]
    )


def arrays(
    ndim: tuple[int, int] = (1, 3),
    dtypes: str = "uint8 int16 int32 float32",
    low: float = -40,
    high: float = 40,
    count: int = 1,
) -> Callable[[int], Strategy]:
    """Batches of arrays of numbers, of the same shapes."""

    @st.composite
    def batch(draw: st.DrawFn, n: int) -> list[Samples]:
        shape = st.tuples(*[st.integers(1, 6)] * draw(st.integers(*ndim)))
        shapes = [draw(shape) for _ in range(n)]
        found = []
        for _ in range(count):
            dtype, generator = (
                np.dtype(draw(st.sampled_from(dtypes.split()))),
                np.random.default_rng(draw(st.integers(0, 2**20))),
            )
            least = max(low, 0) if dtype.kind == "u" else low
            values = [generator.uniform(least, high, s) for s in shapes]
            found.append(Samples([(np.rint(v) if dtype.kind != "f" else v).astype(dtype) for v in values]))
        return found

    return batch


@st.composite
def points(draw: st.DrawFn, n: int, dims: int = 2) -> list[Samples]:
    """Points, in units of an image."""
    generator = np.random.default_rng(draw(st.integers(0, 2**20)))
    return [Samples([generator.random((draw(st.integers(1, 9)), dims)).astype(np.float32) for _ in range(n)])]


@st.composite
def boxes(draw: st.DrawFn, n: int, labels: bool = False) -> list[Samples]:
    """Boxes as starts and ends, of a tenth of the image or more; and their labels."""
    generator = np.random.default_rng(draw(st.integers(0, 2**20)))
    found = []
    for _ in range(n):
        start = generator.uniform(0, 0.6, (draw(st.integers(1, 6)), 2))
        end = start + generator.uniform(0.1, 0.4, start.shape)
        found.append(np.concatenate([start, end], 1).astype(np.float32))
    return [Samples(found), *([Samples([np.arange(len(b), dtype=np.int32) + 1 for b in found])] if labels else [])]


def halves(n: int) -> Strategy:
    """Boxes that are inside of the image as corners, and as a corner and extents."""
    return boxes(n).map(lambda found: [Samples([array / 2 for array in found[0].samples])])


def hundreds(n: int) -> Strategy:
    """Points of integers."""
    return points(n).map(lambda found: [Samples([(100 * a).astype(np.int16) for a in found[0].samples])])


def signals(dtypes: str = "float32", least: int = 60, power: bool = False) -> Callable[[int], Strategy]:
    """Sounds of two tones and some noise, silent before and after; their squares."""

    def signal(count: int, before: int, after: int, seed: int, dtype: str) -> np.ndarray:
        values = np.pad(sound(count, 1, seed)[:, 0], (before, after))
        values = values**2 if power else values
        return np.asarray(values if dtype == "float32" else np.rint(values * np.iinfo(dtype).max)).astype(dtype)

    each = st.tuples(st.integers(least, 400), st.integers(0, 90), st.integers(0, 90), st.integers(0, 99))
    kinds = st.sampled_from(dtypes.split())
    return lambda n: kinds.flatmap(
        lambda kind: st.lists(each, min_size=n, max_size=n).map(
            lambda found: [Samples([signal(*x, kind) for x in found])]
        )
    )


def spectra(*layouts: str) -> Callable[[int], Strategy]:
    """Spectra of 65 frequencies."""

    def spectrum(layout: str, times: int, seed: int) -> np.ndarray:
        shape = [65 if letter == "f" else times for letter in layout]
        return (np.random.default_rng(seed).random(shape) ** 4).astype(np.float32)

    each = st.tuples(st.integers(1, 9), st.integers(0, 99))
    return lambda n: st.sampled_from(layouts).flatmap(
        lambda layout: st.lists(each, min_size=n, max_size=n).map(
            lambda found: [Samples([spectrum(layout, *x) for x in found], layout)]
        )
    )


def recordings(*kinds: tuple[str, str]) -> Callable[[int], Strategy]:
    """Sound files of one channel or two."""
    each = st.tuples(st.integers(30, 400), st.integers(1, 2), st.integers(0, 99), st.sampled_from(kinds))
    return lambda n: st.lists(each, min_size=n, max_size=n).map(
        lambda found: [Samples([np.frombuffer(recorded(sound(*x[:3]), *x[3]), np.uint8) for x in found])]
    )


def films(n: int) -> Strategy:
    """Videos of 30 frames, of the codecs that DALI decodes on the CPU."""
    from videos import DALIS, video  # which needs PyAV

    names = st.lists(st.sampled_from(DALIS), min_size=n, max_size=n)
    return names.map(lambda found: [Samples([np.frombuffer(video(name).data, np.uint8) for name in found])])


def rows_of_two(values: Strategy) -> Each:
    """Two pairs for each sample."""
    return Each(st.lists(pairs(values), min_size=2, max_size=2).map(np.float32))


def pairs_of(*values: float) -> Strategy:
    return pairs(st.sampled_from(values))


def kernels(n: int) -> Strategy:
    """A filter of 3 x 5 for each sample."""
    return st.integers(0, 999).map(
        lambda seed: [Samples([*np.random.default_rng(seed).uniform(-1, 1, (n, 3, 5)).astype(np.float32)])]
    )


def polygons(n: int) -> Strategy:
    """Some of four polygons, and their vertices."""
    ids = st.permutations(range(4)).map(lambda chosen: np.array(chosen[:2], np.int32))
    parts = [[0, 0, 3], [1, 3, 7], [3, 1, 4], [2, 7, 10]]
    rest = [Samples([np.array(parts, np.int32)] * n), Samples([np.arange(20, dtype=np.float32).reshape(10, 2)] * n)]
    return st.lists(ids, min_size=n, max_size=n).map(lambda found: [Samples(found), *rest])


def together(second: Callable[[np.ndarray], np.ndarray]) -> Callable[[int], Strategy]:
    """Arrays, and others that are made of them."""
    return lambda n: arrays((2, 2))(n).map(lambda x: [*x, Samples([second(a) for a in x[0].samples])])


def nothing(_: int) -> Strategy:
    return st.just([])


def also(first: Callable[[int], Strategy], *others: Callable[[int], Strategy]) -> Callable[[int], Strategy]:
    """Inputs of several operands."""
    return lambda n: st.tuples(first(n), *(other(n) for other in others)).map(lambda found: [*itertools.chain(*found)])


# -- how each is used --------------------------------------------------------------------------------------------------

USED: dict[str, Use] = {}
#: With more kinds of data and arguments than the page has figures of.
WIDE: dict[str, Use] = {}


def wide(name: str, inputs: Callable[[int], Strategy], needed: dict[str, Any] | None = None, /, **more: Any) -> None:
    WIDE[name] = Use(inputs, needed or {}, more)


def use(
    name: str,
    inputs: Callable[[int], Strategy],
    needed: dict[str, Any] | None = None,
    /,
    *,
    draws: bool = False,
    **optional: Any,
) -> None:
    USED[name] = Use(inputs, needed or {}, optional, draws)


# fmt: off
flags = st.integers(0, 1)
level = st.integers(0, 200).map(float)
filters = st.sampled_from(["nn", "linear", "cubic", "lanczos3", "triangular", "gaussian"])
numbers = "uint8 int16 float32"
to = st.sampled_from(["uint8", "float32"])
side = st.integers(5, 70)
unit = floats(0, 1)

near, around, moved = floats(0.5, 1.5), floats(-0.5, 0.5), floats(-9, 9)
matrices = st.tuples(near, around, moved, around, near, moved)
rows = matrices.map(lambda m: np.array(m, np.float32).reshape(2, 3))

use("flip", photos("HWC CHW FHWC", numbers), horizontal=Each(flags), vertical=Each(flags))
for kind in ("linear", "nn"):
    use(f"rotate, {kind}", photos("HWC FHWC", numbers), {"angle": Each(floats(-180, 180)),
        "interp_type": st.just(kind)}, fill_value=floats(0, 255), keep_size=st.booleans())
    use(f"warp_affine, {kind}", photos("HWC FHWC", numbers), {"matrix": Each(rows), "interp_type": st.just(kind)},
        fill_value=floats(0, 255), size=st.tuples(side, side), inverse_map=st.booleans())
sized = st.sampled_from(["default", "stretch", "not_larger", "not_smaller"])
use("resize, size", photos("HWC CHW FHWC", numbers), {"size": Each(st.tuples(side, side))}, mode=sized,
    interp_type=filters, antialias=st.booleans(), dtype=st.just("float32"))
use("resize, one side", photos("HWC CHW", numbers), {"resize_shorter": Each(side)}, interp_type=filters,
    max_size=st.integers(20, 90))
starts, ends, parts = (Each(pairs(floats(low, high))) for low, high in ((0, 0.4), (0.5, 1), (0.2, 0.6)))
smooth = st.sampled_from(["linear", "cubic", "lanczos3", "triangular", "gaussian"])
use("resize, region", photos("HWC", numbers), {"resize_x": side, "resize_y": side, "roi_start": starts,
    "roi_end": ends, "roi_relative": st.just(True)}, interp_type=smooth, mag_filter=smooth, min_filter=smooth)
for name, kinds in (("resize_crop_mirror", smooth), ("resize_crop_mirror, nn", st.just("nn"))):
    use(name, photos("HWC", numbers), {"resize_shorter": st.integers(30, 60), "crop": st.just((20, 25)),
        "interp_type": kinds}, mirror=Each(flags), crop_pos_x=Each(unit), crop_pos_y=Each(unit))
use("tensor_resize", arrays((2, 3), "uint8 int16 float32", 0, 200), {"sizes": st.just((9,)), "axes": st.just((0,))},
    interp_type=st.sampled_from(["linear", "cubic", "nn"]), antialias=st.booleans())
use("sphere", photos("HWC", "uint8 float32"), mask=Each(flags))
use("water", photos("HWC", "uint8 float32"), ampl_x=floats(1, 9), ampl_y=floats(1, 9), freq_x=floats(0.01, 0.2),
    phase_x=floats(0, 3), fill_value=floats(0, 255), mask=Each(flags))

use("coord_flip", points, {"layout": st.just("xy")}, flip_x=Each(flags), flip_y=Each(flags), center_x=Each(unit))
use("coord_transform", points, {"MT": Each(rows)})
use("coord_transform, M and T", points, M=Each(matrices.map(lambda m: np.array(m[:4], np.float32).reshape(2, 2))),
    T=Each(pairs(floats(-9, 9))))
pair = Each(pairs(floats(0.5, 9)))
use("transforms.translation", nothing, {"offset": pair})
use("transforms.scale", nothing, {"scale": pair}, center=pair)
use("transforms.rotation", nothing, {"angle": Each(floats(-180, 180))}, center=pair)
use("transforms.shear", nothing, {"angles": Each(pairs(floats(-60, 60)))}, center=pair)
use("transforms.combine", lambda n: st.lists(rows, min_size=2 * n, max_size=2 * n).map(
    lambda found: [Samples(found[:n]), Samples(found[n:])]), reverse_order=st.booleans())
use("transforms.crop", nothing, from_start=starts, from_end=ends,
    to_start=Each(pairs(floats(0, 4))), to_end=Each(pairs(floats(5, 10))))

use("crop", photos("HWC CHW FHWC", numbers), {"crop": st.just((8, 7))}, crop_pos_x=Each(unit), crop_pos_y=Each(unit),
    rounding=st.sampled_from(["round", "truncate"]), dtype=st.just("float32"))
use("crop_mirror_normalize", photos("HWC", numbers, (3,)), crop=st.just((8, 8)), mirror=Each(flags),
    mean=st.just((120.0, 110.0, 100.0)), std=st.just((60.0, 61.0, 62.0)), scale=floats(0.1, 2), shift=floats(-1, 1),
    dtype=st.sampled_from(["float32", "float16", "uint8"]), crop_pos_x=Each(unit))
use("slice", photos("HWC CHW", numbers), {"rel_start": starts, "rel_shape": parts})
use("slice, beyond", photos("HWC", numbers), {"start": Each(pairs(st.integers(-9, 9))), "shape": Each(pairs(side)),
    "out_of_bounds_policy": st.just("pad")}, fill_values=level)
use("pad", photos("HWC", numbers), axis_names=st.sampled_from(["HW", "W", "HWC"]), fill_value=level,
    align=st.sampled_from([1, 4, 16]))
use("erase", photos("HWC", numbers), {"anchor": Each(pairs(floats(0, 0.8))), "shape": Each(pairs(floats(0.1, 0.5))),
    "normalized": st.just(True)}, fill_value=level, centered_anchor=st.booleans())
use("paste", photos(channels=(3,)), {"ratio": Each(floats(1, 3)), "fill_value": st.just((9, 99, 199))},
    paste_x=Each(unit), paste_y=Each(unit))
outside, inside, sizes = (Each(st.lists(pairs(st.integers(*ends)), min_size=2, max_size=2).map(np.int32))
                          for ends in ((0, 30), (0, 9), (1, 10)))
use("multi_paste", photos("HWC", numbers, (3,), 20), {"in_ids": Each(st.just(np.int32([0, 0]))), "shapes": sizes,
    "output_size": st.just((40, 50)), "out_anchors": outside}, in_anchors=inside)
use("grid_mask", photos("HWC", numbers), tile=Each(st.integers(5, 20)), ratio=Each(floats(0.1, 0.9)),
    angle=Each(floats(-1, 1)), shift_x=Each(st.integers(0, 9).map(float)))

factor = Each(floats(0.2, 2))
use("brightness", photos("HWC FHWC", numbers), brightness=factor, brightness_shift=Each(floats(-0.3, 0.3)), dtype=to)
use("contrast", photos("HWC FHWC", numbers), contrast=factor, contrast_center=Each(floats(0, 200)), dtype=to)
use("brightness_contrast", photos("HWC FHWC", numbers), brightness=factor, contrast=factor, dtype=to)
use("hue", photos("HWC FHWC", numbers, (3,)), {"hue": Each(floats(-180, 180))}, dtype=to)
use("saturation", photos("HWC FHWC", numbers, (3,)), saturation=factor, dtype=to)
use("hsv", photos("HWC FHWC", numbers, (3,)), hue=Each(floats(-180, 180)), saturation=factor, value=factor, dtype=to)
use("color_twist", photos("HWC FHWC", numbers, (3,)), brightness=factor, contrast=factor, hue=Each(floats(-180, 180)),
    saturation=factor, dtype=to)
use("color_space_conversion", photos(channels=(3,)), {"image_type": st.sampled_from(["RGB", "BGR"]),
    "output_type": st.sampled_from(["YCbCr", "GRAY"])})
use("equalize", photos("HWC"))
use("clahe", photos("HWC"), {"tiles_x": st.integers(1, 8), "tiles_y": st.integers(1, 8), "clip_limit": floats(0.5, 4)},
    luma_only=st.booleans())
use("jpeg_compression_distortion", photos("HWC FHWC", channels=(3,)), quality=Each(st.integers(1, 100)))
keys, values = st.just(tuple(range(200))), st.just(tuple(range(255, 55, -1)))
use("lookup_table", photos("HWC HW"), {"keys": keys, "values": values}, default_value=floats(0, 9), dtype=to)

window = Each(st.sampled_from([1, 3, 5, 7]))
use("gaussian_blur", photos("HWC CHW FHWC", numbers), {"sigma": Each(floats(0.5, 3))}, window_size=window,
    dtype=st.just("float32"))
use("laplacian", photos("HWC CHW FHWC", numbers), window_size=Each(st.sampled_from([3, 5, 7])),
    scale=Each(floats(0.05, 1)), smoothing_size=Each(st.sampled_from([1, 3])), dtype=st.just("float32"))
use("filter", also(photos("HWC CHW", "uint8 float32"), kernels), dtype=st.just("float32"),
    border=st.sampled_from(["101", "clamp", "wrap"]))

use("noise.gaussian", photos("HWC", numbers), draws=True, mean=floats(0, 9), stddev=floats(1, 20))
use("noise.salt_and_pepper", photos("HWC", "uint8 float32"), draws=True, prob=floats(0.01, 0.5),
    per_channel=st.booleans())
use("noise.shot", photos("HWC"), {"factor": floats(1, 40)}, draws=True)

kinds = st.sampled_from(["uint8", "int8", "int16", "int32", "float32", "bool"])
use("cast", arrays(), {"dtype": kinds})
use("cast_like", also(arrays(), arrays()))
use("copy", arrays())
use("normalize", photos("HWC CHW", numbers), axes=st.sampled_from([(0, 1), (0, 1, 2), (2,)]), scale=floats(0.5, 90),
    shift=floats(0, 128), ddof=flags, epsilon=floats(0, 1), dtype=to)
for name in ("zeros", "ones"):
    use(name, nothing, {"shape": st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)}, dtype=kinds)
    use(f"{name}_like", arrays(), dtype=kinds)
use("full", arrays((0, 0), "int32 float32"), {"shape": st.just((2, 3))})
use("full_like", also(arrays(), arrays((0, 0), "int32 float32")))
use("expand_dims", arrays(), {"axes": st.sampled_from([0, 1, (0, 1)])})
use("reinterpret", arrays((1, 2), "int32 float32"), {"dtype": st.just("uint8")})
use("reshape", arrays(), {"shape": st.just((-1,))}, layout=st.just("X"))
use("transpose", arrays((3, 3)), {"perm": st.permutations(range(3)).map(tuple)})
use("cat", together(lambda a: a[:1]), axis=st.just(0))
use("stack", together(lambda a: a * 2), axis=st.sampled_from([0, 1, -1]))
use("one_hot", arrays((0, 2), "uint8 int32", 0, 9), {"num_classes": st.integers(1, 12)}, on_value=floats(0, 9),
    axis=st.just(-1))
use("sequence_rearrange", photos("FHWC"), {"new_order": Each(st.just((0, 0)))})
use("element_extract", photos("FHWC"), {"element_map": st.just(0)})
use("get_property", photos("HWC CHW"), {"key": st.just("layout")})
use("per_frame", arrays(), replace=st.booleans())
use("permute_batch", arrays(), {"indices": Each(st.just(0), always=True)})

use("bb_flip", boxes, {"ltrb": st.just(True)}, horizontal=Each(flags), vertical=Each(flags))
use("bbox_paste", boxes, {"ltrb": st.just(True), "ratio": Each(floats(1, 3)), "paste_x": Each(unit),
    "paste_y": Each(unit)})
labelled = functools.partial(boxes, labels=True)
use("bbox_rotate", labelled, {"angle": Each(floats(-90, 90)), "input_shape": st.just((40, 50)),
    "shape_layout": st.just("HW"), "bbox_layout": st.just("xyXY")}, keep_size=st.booleans())
anchors = st.just(tuple(np.float32([0.1, 0.1, 0.5, 0.5, 0.3, 0.2, 0.9, 0.8, 0, 0, 1, 1]).tolist()))
use("box_encoder", labelled, {"anchors": anchors}, criteria=floats(0.2, 0.8))
use("random_bbox_crop", labelled, {"bbox_layout": st.just("xyXY")}, draws=True,
    scaling=st.just((0.3, 1.0)), aspect_ratio=st.just((0.5, 2.0)), thresholds=st.just((0.0, 0.1, 0.3, 0.5)),
    num_attempts=st.integers(1, 20))
use("segmentation.select_masks", polygons, reindex_masks=st.booleans())
masks = arrays((2, 3), "uint8 int32", 0, 2)
use("segmentation.random_mask_pixel", masks, draws=True, foreground=Each(flags))
use("segmentation.random_object_bbox", masks, draws=True, format=st.sampled_from(["anchor_shape", "start_end", "box"]))

colours = st.sampled_from(["RGB", "BGR", "GRAY"])  # "ANY_DATA" of grey JPEG ends DALI's process
use("decoders.image", files("JPEG", "PNG", "BMP", "PPM", "TIFF"), output_type=colours,
    dtype=st.sampled_from(["uint8", "uint16", "float32"]))
use("decoders.image_crop", files("JPEG", "PNG"), {"crop": st.just((7, 8))}, crop_pos_x=Each(unit),
    crop_pos_y=Each(unit))
use("decoders.image_slice", files("JPEG", "PNG"), {"rel_start": starts, "rel_shape": parts})
use("peek_image_shape", files("JPEG", "PNG", "BMP", "PPM", "TIFF"))

windows = {"window_length": st.sampled_from([16, 61, 64]), "nfft": st.sampled_from([64, 90, 128])}
use("spectrogram", signals(), windows, window_step=st.integers(5, 60), power=st.integers(1, 2),
    center_windows=st.booleans(), reflect_padding=st.booleans(), layout=st.sampled_from(["ft", "tf"]))
use("power_spectrum", spectra("f", "tf"), {"axis": st.just(-1)}, nfft=st.just(64), power=st.integers(1, 2))
use("mel_filter_bank", spectra("f", "ft", "tf"), {"sample_rate": st.sampled_from([8000.0, 16000.0])},
    freq_low=floats(0, 500), freq_high=floats(2000, 4000), nfilter=st.integers(1, 40), normalize=st.booleans(),
    mel_formula=st.sampled_from(["slaney", "htk"]))
use("mfcc", spectra("ft", "tf"), n_mfcc=st.integers(1, 70), dct_type=st.integers(2, 4), lifter=floats(0, 30),
    normalize=st.booleans(), axis=flags)
use("to_decibels", signals(power=True), multiplier=st.sampled_from([10.0, 20.0]), reference=floats(0.1, 9),
    cutoff_db=floats(-100, -20))
use("preemphasis_filter", signals("float32 int16 uint8"), preemph_coeff=Each(unit),
    border=st.sampled_from(["clamp", "zero", "reflect"]), dtype=st.sampled_from(["float32", "int16"]))
use("nonsilent_region", signals("int16"), {"window_length": st.sampled_from([8, 64, 256])}, cutoff_db=floats(-60, -3))
use("audio_resample", signals("float32 int16 uint8"), {"scale": Each(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]))},
    quality=floats(0, 100), dtype=st.sampled_from(["float32", "int16"]))
uncompressed = recordings(*((kind, "PCM_16") for kind in ("WAV", "FLAC", "AIFF")), ("WAV", "PCM_U8"), ("WAV", "PCM_24"))
use("decoders.audio", uncompressed, downmix=st.booleans(), dtype=st.sampled_from(["int16", "float32"]),
    sample_rate=Each(st.sampled_from([4000.0, 16000.0])))
use("decoders.audio, compressed", recordings(("OGG", "VORBIS"), ("OGG", "OPUS"), ("WAV", "ULAW"), ("WAV", "IMA_ADPCM")),
    downmix=st.booleans(), dtype=st.just("float32"))

_film = {"start_frame": Each(st.integers(0, 20)), "stride": Each(st.integers(1, 9))}
_lengths = {"sequence_length": Each(st.integers(0, 12)), "fill_value": st.integers(0, 255) | st.just((1, 20, 255))}
use("decoders.video", films, **_film, **_lengths)
use("decoders.video, ends", films, _film, end_frame=Each(st.integers(21, 40)))
use("decoders.video, frames", films, {"frames": Each(st.lists(st.integers(0, 35), min_size=3, max_size=3))})

for name in ("abs", "asinh", "atan", "cbrt", "ceil", "cos", "cosh", "exp", "fabs", "floor", "sin", "sinh", "tan",
             "tanh"):
    use(f"math.{name}", arrays(dtypes="float32 int32", low=-9, high=9))
for name in ("sqrt", "rsqrt", "log", "log2", "log10", "acosh"):
    use(f"math.{name}", arrays(dtypes="float32 int32", low=1, high=9))
for name in ("asin", "acos", "atanh"):
    use(f"math.{name}", arrays(dtypes="float32", low=-0.9, high=0.9))
for name in ("min", "max", "atan2", "fpow"):
    use(f"math.{name}", arrays(count=2, dtypes="float32 int32 uint8", low=0.5 if name == "fpow" else -9, high=9))
use("math.pow", arrays(count=2, dtypes="int32 uint8", low=0, high=5))
use("math.clamp", arrays(count=3, dtypes="float32 int16 uint8"))
for name in ("max", "mean", "mean_square", "min", "rms", "sum"):
    use(f"reductions.{name}", photos("HWC CHW FHWC", numbers), axes=st.sampled_from([0, (0, 1), (1, 2), 2]),
        keep_dims=st.booleans())
for name in ("variance", "std_dev"):
    use(f"reductions.{name}", also(photos("HWC CHW", "uint8 int16 float32"), arrays((0, 0), "float32", 0, 1)),
        ddof=flags, keep_dims=st.booleans())
for name in ("&", "//"):
    use(name, arrays(count=2, dtypes="int32 int16 uint8", low=1, high=9))
for name in ("+", "-", "*", "/", "<", "=="):
    use(name, arrays(count=2, low=1, high=9))

size = {"batch_size": st.integers(1, 6)}
use("random.uniform", nothing, size, draws=True, range=st.tuples(floats(-9, 0), floats(1, 9)), shape=st.just((2, 3)))
use("random.normal", nothing, size, draws=True, mean=floats(-9, 9), stddev=floats(0.1, 9), shape=st.just((2, 3)))
use("random.coin_flip", nothing, size, draws=True, probability=unit, shape=st.just((5,)))
use("random.beta", nothing, size, draws=True, alpha=floats(1, 4), beta=floats(1, 4), shape=st.just((3,)))
use("random.choice", arrays((0, 0), "int32", 1, 9), draws=True, shape=st.just((4,)))

# -- any kind of data and arguments ------------------------------------------------------------------------------------

#: Axes of rotations. Where two parts are alike, two extents may point in one direction alike, and rounding chooses.
axes = st.tuples(*[floats(-1, 1)] * 3).filter(lambda axis: len(set(map(abs, axis)) - {0.0}) == sum(map(bool, axis)))
sides = st.tuples(*[st.integers(5, 20)] * 3)
policies = st.sampled_from(
    ["pad", "constant", "trim_to_shape", "edge", "reflect", "reflect_1001", "reflect_101", "wrap"])
cubes = st.integers(0, 999).map(
    lambda seed: (np.eye(3, 4) + np.random.default_rng(seed).normal(0, 0.3, (3, 4)) * [1, 1, 1, 9]).astype(np.float32))
fills = st.sampled_from([(3.0,), (1.0, 2.0, 3.0)])

wide("flip, volumes", photos("DHWC CHW FHWC FDHWC", numbers), horizontal=Each(flags), vertical=Each(flags))
wide("rotate, volumes", photos("DHWC", numbers), {"angle": Each(floats(-180, 180)), "axis": axes}, fill_value=level)
wide("warp_affine, volumes", photos("DHWC FDHWC", numbers), {"matrix": Each(cubes)}, fill_value=level,
     inverse_map=st.booleans())
wide("water, all waves", photos("HWC", "uint8 float32"), {"interp_type": st.just("linear")}, ampl_x=floats(0, 2),
     ampl_y=floats(0, 2), freq_x=floats(0, 2), freq_y=floats(0, 2), phase_x=floats(0, 2), phase_y=floats(0, 2))
wide("resize, volumes", photos("DHWC FDHWC", numbers), {"size": Each(sides)}, mode=sized, interp_type=smooth)
wide("resize, filters", photos("HWC CHW FHWC", numbers), {"resize_longer": Each(floats(1, 90))}, mag_filter=smooth,
     min_filter=smooth, subpixel_scale=st.booleans(), max_size=floats(2, 90), dtype=st.just("float32"))
wide("resize_crop_mirror, volumes", photos("DHWC"), {"size": sides, "crop": st.just((3, 9, 8))}, interp_type=smooth,
     crop_pos_z=Each(unit), mirror=Each(st.integers(0, 7)))
wide("tensor_resize, scales", arrays((2, 2), "uint8 float32", 0, 200), {"scales": pairs(floats(0.5, 2))},
     interp_type=smooth, alignment=pairs(unit), size_rounding=st.sampled_from(["round", "truncate", "ceil"]))

wide("coord_flip, xyz", functools.partial(points, dims=3), {"layout": st.permutations("xyz").map("".join)},
     flip_x=Each(flags), flip_y=Each(flags), flip_z=Each(flags), center_x=Each(unit), center_z=Each(unit))
wide("coord_transform, types", hundreds, {"MT": Each(rows)}, dtype=st.sampled_from(["int16", "float32"]))
wide("bb_flip, extents", halves, {"ltrb": st.just(False)}, horizontal=Each(flags), vertical=Each(flags))
wide("bbox_paste, extents", halves, {"ratio": Each(floats(1, 9))}, paste_x=Each(unit), paste_y=Each(unit))
wide("box_encoder, offsets", labelled, {"anchors": anchors, "offset": st.just(True)}, criteria=floats(0.2, 0.8),
     scale=floats(0.5, 300), means=st.just((0.1, 0.2, 0.3, 0.4)), stds=st.just((0.1, 0.1, 0.2, 0.2)))

wide("crop, any policy", photos("HWC", numbers, (3,)), {"crop": pairs(side), "out_of_bounds_policy": policies},
     crop_pos_x=Each(unit), crop_pos_y=Each(unit), fill_values=fills, rounding=st.sampled_from(["round", "truncate"]))
wide("crop_mirror_normalize, beyond", photos("HWC", numbers, (3,)), {"crop": pairs(side), "out_of_bounds_policy":
     st.just("pad")}, fill_values=fills, mean=st.just((100.0, 50.0, 25.5)), std=st.just((20.0, 30.0, 40.0)),
     mirror=Each(flags), output_layout=st.sampled_from(["CHW", "HWC"]))
wide("slice, any policy", photos("HWC", numbers), {"start": Each(pairs(st.integers(-9, 9))), "shape": Each(pairs(side)),
     "axis_names": st.sampled_from(["HW", "WH"]), "out_of_bounds_policy": policies}, fill_values=level)
wide("slice, parts", photos("HWC", numbers, (4,)), {"rel_start": Each(pairs(unit)), "rel_shape": parts, "axis_names":
     st.sampled_from(["HW", "WC"]), "out_of_bounds_policy": policies}, fill_values=level)
wide("pad, shape", photos("HWC", numbers, (1,)), {"shape": pairs(st.integers(-1, 70)), "axis_names":
     st.sampled_from(["HW", "WH"])}, align=pairs(st.integers(1, 5)), fill_value=level)
wide("erase, regions", photos("HWC", numbers, (3,)), {"anchor": st.tuples(*[floats(-3, 40)] * 4), "shape":
     st.tuples(*[floats(0, 12)] * 4), "axis_names": st.sampled_from(["HW", "WH"])}, centered_anchor=st.booleans(),
     fill_value=fills)
wide("erase, one axis", photos(channels=(3,)), {"anchor": st.tuples(unit), "shape": st.tuples(unit), "axis_names":
     st.sampled_from(["W", "C"]), "normalized": st.just(True)}, centered_anchor=st.booleans())
wide("paste, canvas", photos(channels=(3,)), {"ratio": floats(1, 4), "fill_value": st.sampled_from([(9,), (1, 2, 3)])},
     min_canvas_size=st.integers(0, 90).map(float), paste_x=unit, paste_y=unit)
wide("multi_paste, parts", photos("HWC", numbers, (3,), 20), {"in_ids": Each(st.just(np.int32([0, 0]))), "shapes_rel":
     rows_of_two(floats(0.1, 0.5)), "output_size": st.just((70, 71))}, in_anchors_rel=rows_of_two(floats(0, 0.5)),
     out_anchors_rel=rows_of_two(floats(0, 0.5)), dtype=to)
wide("grid_mask, any angle", photos("HWC", numbers), tile=Each(st.integers(1, 20)), ratio=Each(unit),
     angle=Each(floats(-4, 4)), shift_x=floats(-30, 30), shift_y=floats(-30, 30))

wide("brightness_contrast, channels", photos("HWC FHWC", numbers, (1, 2, 4)), brightness=Each(floats(-1, 3)),
     contrast=Each(floats(-1, 3)), brightness_shift=floats(-1, 1), contrast_center=floats(-10, 300), dtype=to)
wide("hsv, float16", photos("HWC", numbers, (3,)), hue=Each(floats(-400, 400)), saturation=floats(0, 3),
     value=floats(0, 3), dtype=st.just("float16"))
for name in ("RGB", "BGR", "YCbCr", "GRAY"):
    wide(f"color_space_conversion, {name}", photos("HWC FHWC", channels=(1 if name == "GRAY" else 3,)), {"image_type":
         st.just(name), "output_type": st.sampled_from(sorted({"RGB", "BGR", "YCbCr", "GRAY"} - {name}))})
wide("equalize, channels", photos("HWC FHWC", channels=(1, 2, 3, 4)))
wide("jpeg_compression_distortion, any", photos("HWC FHWC", channels=(3,)), quality=Each(st.integers(-10, 120)))
wide("lookup_table, types", arrays((1, 2), "int8 uint16 int32", 0, 120), {"keys": st.just(tuple(range(0, 600, 3))),
     "values": st.just(tuple(np.float32(np.linspace(-70000, 70000, 200)).tolist()))}, default_value=floats(-9, 9),
     dtype=st.sampled_from(["uint8", "int16", "float32"]))

borders = st.sampled_from(["101", "1001", "clamp", "wrap", "constant"])
wide("gaussian_blur, two windows", photos("HWC CHW FHWC", numbers), {"sigma": pairs(floats(0.3, 4)), "window_size":
     pairs_of(1, 3, 7, 15)}, dtype=st.just("float32"))
wide("gaussian_blur, volumes", photos("DHWC FDHWC", numbers), {"sigma": Each(floats(0.5, 3))})
wide("laplacian, two windows", photos("HWC CHW FHWC", numbers), {"window_size": pairs_of(3, 5, 7), "scale":
     pairs_of(0.25, 2.0**-7, -1.0)}, smoothing_size=pairs_of(1, 3, 5), dtype=st.just("float32"))
wide("laplacian, normalized", photos("HWC DHWC", numbers), {"normalized_kernel": st.just(True)},
     window_size=st.sampled_from([3, 5, 7]))
wide("filter, anchors", also(photos("HWC CHW FHWC", "uint8 float32"), kernels), {"border": borders, "anchor":
     st.tuples(st.integers(-1, 2), st.integers(-1, 4))}, dtype=st.just("float32"))
wide("filter, valid", also(photos("HWC CHW", "uint8 float32"), kernels), {"mode": st.just("valid")})
wide("normalize, batch", photos("HWC", numbers, (3,)), {"batch": st.just(True), "axes": st.sampled_from([(0, 1),
     (0, 1, 2)])}, scale=floats(0.5, 90), shift=floats(0, 128), ddof=flags, epsilon=floats(0, 1))
wide("one_hot, axis", arrays((1, 2), "uint8 int64 float32", 0, 9), {"num_classes": st.integers(1, 7), "axis":
     st.sampled_from([0, 1, -1])}, on_value=floats(0, 9), off_value=floats(0, 9),
     dtype=st.sampled_from(["uint8", "int32", "float32"]))

wholes = "uint8 int8 uint16 int16 uint32 int64 float64"
for name in ("abs", "cbrt", "ceil", "exp", "log", "rsqrt", "sinh", "sqrt"):
    wide(f"math.{name}, types", arrays(dtypes=wholes, low=1, high=9))
for name in ("min", "max", "atan2", "fpow", "pow"):
    wide(f"math.{name}, types", arrays(count=2, dtypes=wholes, low=0 if name == "pow" else 1, high=7))
for name in ("max", "mean", "mean_square", "min", "rms", "sum"):
    wide(f"reductions.{name}, types", arrays(dtypes="int8 uint16 int64 float32", low=0, high=90), axes=st.just(0),
         keep_dims=st.booleans())
    wide(f"reductions.{name}, letters", photos("HWC", "uint8 float32"), {"axis_names":
         st.sampled_from(["HW", "C", "WC", "H", ""])}, keep_dims=st.booleans())
# fmt: on

#: Why some are not compared.
APART = {
    **dict.fromkeys(
        ["experimental.remap", "experimental.median_blur", "experimental.dilate", "experimental.erode", "jitter"],
        "DALI has it on GPUs",
    ),
    **dict.fromkeys(
        [
            "random_crop_generator",
            "random_resized_crop",
            "roi_random_crop",
            "decoders.image_random_crop",
            "ssd_random_crop",
        ],
        "its distribution is DALI's, its draws are not",
    ),
    **dict.fromkeys(["decoders.imread", "decoders.numpy", "io.file.read"], "of files: they have tests of their own"),
    "random.batch_permutation": "DALI calls it batch_permutation",
    **dict.fromkeys(["debayer", "dump_image", "decoders.inflate"], "each of its cases is compared by tests of its own"),
    **dict.fromkeys(["together", "sometimes", "mixup", "cutmix"], "DALI has none"),
    "squeeze": "DALI 2.4 fails to make it",
    "experimental.warp_perspective": "DALI's steps are of 1/32 pixel",
}
