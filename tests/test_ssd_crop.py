"""The random crop of SSD: windows that overlap boxes, the boxes in them, and DALI's distribution."""

from __future__ import annotations

import numpy as np
import pytest
from dali_oracle import dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG

BOXES = np.array([[0.2, 0.3, 0.5, 0.6], [0.4, 0.35, 0.8, 0.9], [0.7, 0.1, 0.75, 0.2]], np.float32)


def numbered(height, width, layout, channels=2):
    """An image whose pixels are numbered."""
    extents = {"H": height, "W": width, "C": channels}
    numbers = np.arange(height * width).reshape([extents[x] if x in "HW" else 1 for x in layout])
    return np.broadcast_to(numbers, [extents[x] for x in layout]).astype(np.int32)


def boxes_of(generator, count, kind):
    return np.sort(generator.random((count, 2, 2)), axis=1).reshape(count, 4).astype(kind)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 4)), min_size=1, max_size=4),
    st.sampled_from(["HWC", "HW", "CHW"]),
    st.sampled_from(["float32", "float64", "float16"]),
    st.integers(1, 9),
    st.integers(0, 999),
)
def test_windows_boxes_and_labels_belong_together(sizes, layout, kind, attempts, seed):
    generator = np.random.default_rng(seed)
    images = [numbered(h, w, layout) for h, w, _ in sizes]
    boxes = [boxes_of(generator, count, kind) for *_, count in sizes]
    labels = [np.arange(2 * count).reshape(count, 2) for *_, count in sizes]
    keyed = RNG(seed).keyed(range(len(sizes)))
    batches = ndd.as_batch(images, layout=layout), ndd.as_batch(boxes), ndd.as_batch(labels)
    windows, left, kept = ndd.ssd_random_crop(*batches, num_attempts=attempts, rng=keyed)
    assert (windows.layout, windows.dtype, left.dtype, left.ndim, kept.ndim) == (layout, "int32", kind, 2, 2)
    for i, (height, width, _) in enumerate(sizes):
        window = windows.samples[i].transpose([layout.index(x) for x in "HWC" if x in layout])
        plane = window[..., 0] if "C" in layout else window
        top, first = divmod(int(plane[0, 0]), width)
        part = numbered(height, width, "HW")[top : top + plane.shape[0], first : first + plane.shape[1]]
        assert np.array_equal(plane, part)
        if plane.shape == (height, width) and len(kept.samples[i]) == len(boxes[i]):
            continue
        own, inside = boxes[i][kept.samples[i][:, 0] // 2].astype(float), left.samples[i].astype(float)
        assert len(own) >= 1
        start, extent = np.array([first, top] * 2), np.array([plane.shape[1], plane.shape[0]] * 2)
        shown = np.clip(
            (own * [width, height] * 2 if False else own * np.array([width, height] * 2)) - start, 0, extent
        )
        assert (np.abs(inside * extent - shown) <= 1.01 + 0.01 * extent).all()  # windows end between pixels
    alone = ndd.ssd_random_crop(*(x[:1] for x in batches), num_attempts=attempts, rng=RNG(seed).keyed([0]))
    for one, many in zip(alone, (windows, left, kept), strict=True):
        assert np.array_equal(one.samples[0], many.samples[0])


def statistics(windows, boxes, size):
    """The share of whole images; the mean height, width and number of boxes of the others."""
    shapes = np.array([window.shape[:2] for window in windows]) / size
    parts = (shapes < 1).any(1)
    counts = np.array([len(each) for each in boxes])[parts]
    return np.array([parts.mean(), *shapes[parts].mean(0), counts.mean()]), parts.sum()


@pytest.mark.parametrize("attempts", [1, 20])
def test_the_distribution_is_that_of_dali(dali, attempts):
    theirs = dali.script(
        f"""
from nvidia.dali import fn, pipeline_def
@pipeline_def(batch_size=2000, num_threads=1, device_id=None, seed=5)
def cropped():
    image = fn.external_source(lambda: [x] * 2000)
    boxes, labels = fn.external_source(lambda: ([b] * 2000, [l] * 2000), num_outputs=2)
    return tuple(fn.ssd_random_crop(image, boxes, labels, num_attempts={attempts}))
pipe = cropped()
pipe.build()
windows, left, _ = pipe.run()
result = (np.array([np.asarray(w).shape[:2] for w in windows]), np.array([len(np.asarray(x)) for x in left]))
""",
        x=np.zeros((100, 100, 3), np.uint8), b=BOXES, l=np.arange(3, dtype=np.int32),
    )  # fmt: skip
    shapes, counts = theirs
    expected, n = statistics([np.empty(tuple(shape)) for shape in shapes], [range(c) for c in counts], 100)
    images = ndd.as_batch([np.zeros((100, 100, 3), np.uint8)] * 2000)
    windows, left, _ = ndd.ssd_random_crop(images, BOXES, np.arange(3), num_attempts=attempts, rng=RNG(8))
    found, m = statistics(windows.samples, left.samples, 100)
    spread = np.array([0.5 * 2000**-0.5 * 2**0.5, *np.array([0.2, 0.2, 0.8]) * (1 / n + 1 / m) ** 0.5])
    assert (np.abs(found - expected) < 4 * spread).all(), (found, expected, spread)


def test_wrong_inputs_are_refused():
    image = np.zeros((4, 5, 3), np.uint8)
    with pytest.raises(ArgumentError, match="'boxes' must be floats of shape"):
        ndd.ssd_random_crop(image, np.zeros((2, 6), np.float32), [1, 2])
    with pytest.raises(ArgumentError, match="'labels' must be one for each of the 3 boxes"):
        ndd.ssd_random_crop(image, BOXES, [1, 2])


def test_an_empty_batch_and_images_without_boxes():
    image = np.zeros((4, 5, 3), np.uint8)
    empty = ndd.ssd_random_crop(ndd.as_batch([image])[:0], BOXES, [1, 2, 3])
    assert [(len(x), x.ndim) for x in empty] == [(0, 3), (0, 2), (0, 1)]
    whole, none, labels = ndd.ssd_random_crop(image, np.zeros((0, 4), np.float32), np.zeros(0, np.int32), rng=RNG(1))
    assert (whole.shape, none.shape, labels.shape) == ((4, 5, 3), (0, 4), (0,))


def test_pipelines_have_it():
    image = np.zeros((40, 50, 3), np.uint8)

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=3)
    def cropped():
        images, boxes, labels = fn.external_source(
            lambda: ([image] * 4, [BOXES] * 4, [np.arange(3)] * 4), num_outputs=3
        )
        return fn.ssd_random_crop(images, boxes, labels, num_attempts=5)

    pipe = cropped()
    windows, left, labels = pipe.run()
    assert [len(x) for x in left.samples] == [len(x) for x in labels.samples]
    assert len({x.shape for x in windows.samples}) > 1
