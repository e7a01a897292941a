"""JPEG files natively: the same pixels and errors as the way of Python, for any call and any damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import corpus
import fuzz_jpeg
import hostile_files
import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from test_core import compiled
from test_core_pixels import alike, outcome

import dynamic as ndd
from dynamic import _core, as_batch, decoders
from dynamic._core import jpeg as core
from dynamic.decoders import _photos
from dynamic.kernels.cpu import images
from dynamic.random import RNG

pytestmark = [
    compiled,
    pytest.mark.skipif(not core.is_here() or not _photos.is_exact(), reason="Pillow has no libjpeg-turbo to call"),
]
BAD = [data for data, _ in corpus.bad().values()]
OTHERS = [corpus.encoded(corpus.photo(), format) for format in ("PNG", "BMP")]
sizes = st.integers(1, 70) | st.sampled_from([8, 16, 32, 64])


@pytest.fixture(autouse=True, scope="module")
def for_few_files() -> Iterator[None]:
    """Single small files go natively too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_photos, "_FEW", 1)
        yield


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """JPEG files as cameras and programs write them; some are damaged, or of other formats."""
    kind = draw(st.sampled_from(["simplejpeg"] * 4 + ["Pillow"] * 6 + ["other", "bad"]))
    if kind == "other":
        return draw(st.sampled_from(OTHERS))
    if kind == "bad":
        return draw(st.sampled_from(BAD))
    photo, quality = corpus.photo(draw(sizes), draw(sizes)), draw(st.integers(30, 98))
    if kind == "simplejpeg":
        sampling = draw(st.sampled_from(["444", "422", "420", "440", "411", "Gray"]))
        if sampling == "Gray":
            return simplejpeg.encode_jpeg(photo[..., :1].copy(), quality, "GRAY", sampling)
        return simplejpeg.encode_jpeg(photo, quality, "RGB", sampling)
    options: dict[str, Any] = {"subsampling": draw(st.integers(0, 2)), "progressive": draw(st.booleans())}
    if draw(st.booleans()):
        options["restart_marker_rows"] = 1
    return corpus.encoded(photo, "JPEG", draw(st.integers(1, 8)), quality=quality, **options)


arguments = st.fixed_dictionaries(
    {
        "adjust_orientation": st.booleans(),
        "output_type": st.sampled_from(["RGB", "RGB", "BGR", "GRAY", "ANY_DATA", "YCbCr"]),
        "use_fast_idct": st.booleans(),
        "on_error": st.sampled_from(["raise", "skip", "null"]),
        "dtype": st.sampled_from(["uint8", "uint8", "uint8", "float32"]),
    },
    optional={"max_scans": st.sampled_from([1, 20]), "max_pixels": st.just(900), "formats": st.just(["PNG", "JPEG"])},
)


def batch(given: list[bytes], *, strided: bool = False) -> ndd.Batch:
    """Read-only files."""
    arrays = [np.frombuffer(bytes(data), np.uint8) for data in given]
    return as_batch([np.repeat(array, 2)[::2] for array in arrays] if strided else arrays)


@given(given=st.lists(files(), min_size=1, max_size=5), how=arguments, shared=st.booleans(), strided=st.booleans())
def test_both_ways_decode_alike(given: list[bytes], how: dict[str, Any], shared: bool, strided: bool) -> None:
    """Whole images, and random windows of them."""
    data = batch(given, strided=strided)
    alike(lambda: decoders.image(data, **how), shared=shared)
    alike(lambda: decoders.image_random_crop(data, rng=RNG(len(given)), **how), shared=shared)
    alike(lambda: decoders.image(given[0], **how), shared=False)


@given(
    given=st.lists(files(), min_size=1, max_size=5),
    dtype=st.sampled_from(["int64", "int32", "float32", "uint16"]),
    kind=st.sampled_from(["RGB", "GRAY", "ANY_DATA", "YCbCr"]),
    upright=st.booleans(),
    policy=st.sampled_from(["raise", "skip", "null"]),
)
def test_both_ways_peek_alike(given: list[bytes], dtype: str, kind: str, upright: bool, policy: str) -> None:
    """Shapes that headers tell."""
    how: dict[str, Any] = {"dtype": dtype, "image_type": kind, "adjust_orientation": upright, "on_error": policy}
    alike(lambda: ndd.peek_image_shape(batch(given), max_pixels=2000, **how), shared=False)


@given(given=st.lists(files(), min_size=1, max_size=4), how=arguments, data=st.data())
def test_both_ways_decode_windows_alike(given: list[bytes], how: dict[str, Any], data: st.DataObject) -> None:
    """Those of `image_crop` and `image_slice`, inside of the images or not."""
    count, extents = len(given), st.tuples(st.integers(0, 40), st.integers(0, 40))
    encoded = batch(given)
    crops = as_batch(data.draw(st.lists(extents, min_size=count, max_size=count)))
    alike(lambda: decoders.image_crop(encoded, crop=crops, crop_pos_x=0.25, **how), shared=False)
    alike(lambda: decoders.image_slice(encoded, rel_start=(0.25, 0.5), rel_shape=(0.5, 0.25), **how), shared=False)


def test_hostile_files_are_refused_alike() -> None:
    """One by one, and all in a batch, of which the error names each."""
    found = [file.data for file in hostile_files.files().values() if file.data[:2] == b"\xff\xd8"]
    limits = {"max_pixels": 1 << 24}
    for data in found:
        alike(lambda data=data: decoders.image(data, **limits), shared=False)
    encoded = batch(found)
    for policy in ("raise", "skip", "null"):
        alike(lambda policy=policy: decoders.image(encoded, on_error=policy, **limits), shared=policy == "skip")


def test_photos_are_decoded_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither their headers nor their pixels take a function of Python."""
    given = [corpus.encoded(corpus.photo(30, 50), "JPEG", k, progressive=k % 2 == 1) for k in range(1, 9)]
    given.append(corpus.encoded(corpus.photo(30, 50)[..., 0], "JPEG", restart_marker_rows=1))
    encoded = batch(given)
    calls = [decoders.image, lambda data: decoders.image_random_crop(data, rng=RNG(1))]
    for side in (3, 7, 14):
        calls.append(lambda data, least=(side, side): decoders.image(data, at_least=least))
        calls.append(lambda data, least=(side, side): decoders.image_random_crop(data, rng=RNG(1), at_least=least))
    with _core.left_out():
        expected = [outcome(lambda call=call: call(encoded)) for call in calls]
    monkeypatch.setattr(images.jpeg, "header", None)
    monkeypatch.setattr(images.jpeg, "decode", None)
    assert [outcome(lambda call=call: call(encoded)) for call in calls] == expected
    assert outcome(lambda: decoders.image(given[0]))[2] == outcome(lambda: decoders.image(encoded))[2][:1]


def test_one_file_goes_natively_where_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of a large file; all of it, and small files, go the way of Python, which is as fast."""
    monkeypatch.setattr(_photos, "_FEW", 4)
    large, small = (corpus.encoded(corpus.noise((side, side, 3)), "JPEG", quality=95) for side in (300, 30))
    seen: list[int] = []
    decode = core.Files.decode

    def spy(files: core.Files, *given: Any, **how: Any) -> Any:
        seen.append(len(files.known))
        return decode(files, *given, **how)

    monkeypatch.setattr(core.Files, "decode", spy)
    for file in (large, small):
        decoders.image(file)
        decoders.image_crop(file, crop=(9, 9))
        decoders.image_random_crop(file, rng=RNG(0))
        decoders.image(batch([file] * 3))
    assert seen == [1, 1]
    decoders.image(batch([small] * 4))
    assert seen == [1, 1, 4]


def test_results_do_not_depend_on_the_files_before() -> None:
    """A file without tables is refused after one that has them."""
    good = corpus.encoded(corpus.photo(), "JPEG")
    bare = good.replace(b"\xff\xdb", b"\xff\xec").replace(b"\xff\xc4", b"\xff\xec")
    with pytest.raises(ndd.DecodeError, match="2 of 4 samples"):
        decoders.image(batch([good, bare, good, bare]))


def test_a_library_that_does_not_fit_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Then Python decodes."""
    path = tmp_path / "libjpeg.so"
    path.write_bytes(b"no library")
    for places in ((), (path,), ("libc.so.6",)):
        monkeypatch.setattr(core, "_places", lambda places=places: iter(places))
        core._library.cache_clear()
        assert not core.is_here()
        assert decoders.image(corpus.encoded(corpus.photo(), "JPEG")).shape == (21, 33, 3)
    monkeypatch.undo()
    core._library.cache_clear()
    assert core.is_here()


def test_damage_is_found_alike() -> None:
    """A short run of `fuzz_jpeg.py`."""
    found = fuzz_jpeg.run(3000)
    assert found["decoded by C"] > 400
