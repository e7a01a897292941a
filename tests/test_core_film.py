"""Native colours of frames: those of libswscale, bit for bit."""

from __future__ import annotations

import platform

import av
import numpy as np
import pytest
import videos
from av.video.reformatter import Interpolation
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import _core
from dynamic._core import film
from dynamic.io import _video

FLAGS = int(Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT)
pytestmark = [
    pytest.mark.skipif(not _core.in_use(), reason="the native library is not in use"),
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="libswscale rounds as it likes elsewhere"),
]


def frame_of(format: str, height: int, width: int, seed: int, kind: str) -> av.VideoFrame:
    """A frame of noise, or of the ends of the range, where sums overflow."""
    generator, frame = np.random.default_rng(seed), av.VideoFrame(width, height, format)
    for plane in frame.planes:
        shape = plane.height, plane.line_size
        values = generator.integers(0, 256, shape) if kind == "noise" else generator.choice([0, 255], shape)
        plane.update(np.ascontiguousarray(values, np.uint8))
    return frame


def by_swscale(frame: av.VideoFrame) -> np.ndarray:
    (plane,) = frame.reformat(format="rgb24", interpolation=FLAGS, threads=1).planes
    rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
    return rows[:, : 3 * frame.width].reshape(frame.height, frame.width, 3)


@given(
    st.sampled_from(sorted(_video._PLANAR)), st.integers(16, 90), st.integers(16, 700), st.integers(0, 99),
    st.sampled_from(["noise", "ends"]), st.sampled_from([1, 2, 5, 6, 9]), st.sampled_from([0, 1, 2]),
)  # fmt: skip
def test_colours_are_those_of_libswscale(format, height, width, seed, kind, space, range):
    frame = frame_of(format, height, width, seed, kind)
    frame.colorspace, frame.color_range = space, range
    out = np.zeros((height, width, 3), np.uint8)
    assert _video._rgb(frame, _video._planes(frame), out, film.SITES[0])
    assert np.array_equal(out, by_swscale(frame))


@pytest.mark.parametrize("width", [*range(16, 80), 719, 1279, 1281, 1920])
def test_every_width_has_its_neighbours(width):
    frame = frame_of("yuv420p", 17, width, width, "noise")
    out = np.zeros((17, width, 3), np.uint8)
    assert _video._rgb(frame, _video._planes(frame), out, film.SITES[0])
    assert np.array_equal(out, by_swscale(frame))


def test_other_frames_are_left_to_libswscale():
    planes = [np.zeros((15, 40), np.uint8), *[np.zeros((8, 20), np.uint8)] * 2]
    assert not film.rgb(planes, np.zeros((15, 40, 3), np.uint8), 2, film.SITES[0], full=False)
    planes = [np.zeros((32, 40), np.uint8), *[np.zeros((16, 20), np.uint8)] * 2]
    assert not film.rgb(planes, np.zeros((32, 40, 3), np.uint8), 8, film.SITES[0], full=False)
    assert not film.rgb(planes, np.zeros((32, 80, 3), np.uint8)[:, ::2], 2, film.SITES[0], full=False)


@pytest.mark.parametrize("name", ["H.264", "MPEG-2", "HEVC", "VP9", "VP9, odd sizes", "MJPEG, odd sizes", "FFV1"])
def test_the_site_of_chroma_is_found_by_a_frame(name, monkeypatch):
    found, native = [], _video.film.rgb
    monkeypatch.setattr(film, "rgb", lambda *a, **k: found.append(a[3]) or native(*a, **k))
    ndd.decoders.video(videos.video(name).data)
    sites = found[len(film.SITES) :]
    expected = {"H": film.SITES[1], "M": film.SITES[1] if name == "MPEG-2" else film.SITES[0], "V": film.SITES[0]}
    assert sites == [expected[name[0]]] * 29 if name != "FFV1" else not found


def test_the_site_of_a_flat_frame_is_left_open():
    flat = av.VideoFrame(40, 32, "yuv420p")
    for plane in flat.planes:
        plane.update(b"\x70" * plane.buffer_size)
    assert _video._site_of(flat, by_swscale(flat)) is None
    assert _video._site_of(flat, by_swscale(flat) + np.uint8(1)) == ()


@given(st.integers(16, 200), st.integers(16, 40), st.integers(0, 9), st.sampled_from(film.SITES))
def test_the_site_is_told_by_a_part_of_a_frame(height, width, seed, site):
    frame, out = frame_of("yuv420p", height, width, seed, "noise"), np.zeros((height, width, 3), np.uint8)
    assert _video._rgb(frame, _video._planes(frame), out, site)
    assert _video._site_of(frame, out) == site


@pytest.mark.parametrize("name", videos.VIDEOS)
def test_videos_are_the_same_without_it(name):
    found = ndd.decoders.video(videos.video(name).data).array
    with _core.left_out():
        assert np.array_equal(ndd.decoders.video(videos.video(name).data).array, found)
