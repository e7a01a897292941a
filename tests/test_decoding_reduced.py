"""JPEG decoded at a half, a quarter or an eighth of its size: libjpeg's pixels, of windows where the large ones are."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Iterator
from typing import Any

import corpus
import numpy as np
import pytest
import simplejpeg
import small_jpegs
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_core_pixels import alike

import dynamic as ndd
from dynamic import ArgumentError, DecodeError, _core, as_batch, decoders
from dynamic.decoders import _photos
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG

FACTORS = [
    ((h, v), (across, down))
    for h, v, across, down in itertools.product((1, 2, 3, 4), (1, 2, 3, 4), (1, 2), (1, 2))
    if h % across == 0 and v % down == 0 and h * v + 2 * across * down <= 10  # of blocks in a unit
]
sides = st.integers(1, 70) | st.sampled_from([8, 16, 32, 64])
least = st.tuples(st.integers(1, 20), st.integers(1, 20))


@pytest.fixture(autouse=True, scope="module")
def for_few_files() -> Iterator[None]:
    """Single small files go natively too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_photos, "_FEW", 1)
        yield


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Pixels turned the right way up."""
    pixels = pixels.swapaxes(0, 1) if orientation >= 5 else pixels
    pixels = pixels[::-1] if orientation in (3, 4, 7, 8) else pixels
    return pixels[:, ::-1] if orientation in (2, 3, 6, 7) else pixels


def by_pillow(file: bytes, scale: int) -> np.ndarray:
    """The whole image as stored, at 1 / scale of its size."""
    image = Image.open(io.BytesIO(file))
    size = [-(-extent // scale) for extent in image.size]
    mode = image.mode if image.mode in ("L", "CMYK") else "RGB"
    pixels = np.asarray(Image.frombytes(mode, tuple(size), file, "jpeg", mode, "", scale, 0))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def expected(file: bytes, orientation: int, window: tuple[slice, slice], at_least: tuple[int, int]) -> np.ndarray:
    """A window of the upright image, found by where its pixels are stored, of the image that Pillow reduces."""
    width, height = Image.open(io.BytesIO(file)).size
    there = upright(np.arange(height * width).reshape(height, width), orientation)[window]
    fitting = (s for s in (8, 4, 2) if there.shape[0] >= s * at_least[0] and there.shape[1] >= s * at_least[1])
    scale = next(fitting, 1) if max(height, width) >= 8 else 1
    where = []
    for stored, extent in ((there // width, height), (there % width, width)):
        first, last = int(stored.min()) / scale, (int(stored.max()) + 1) / scale
        ends = last == extent / scale
        where.append(slice(int(first + 0.5), -(-extent // scale) if ends else int(last + 0.5)))
    found = upright(by_pillow(file, scale)[tuple(where)], orientation)
    assert all(side >= min(want, now) for side, want, now in zip(found.shape, at_least, there.shape, strict=False))
    return found


@st.composite
def photos(draw: st.DrawFn) -> tuple[bytes, int]:
    """A JPEG file of any ordinary kind, and its orientation."""
    pixels = corpus.noise((draw(sides), draw(sides), 3))
    quality = draw(st.integers(50, 98))
    if draw(st.booleans()):
        sampling = draw(st.sampled_from(["444", "422", "420", "440", "411", "gray"]))
        if sampling == "gray":
            return simplejpeg.encode_jpeg(pixels[..., :1].copy(), quality, "GRAY"), 1
        return simplejpeg.encode_jpeg(pixels, quality, "RGB", sampling), 1
    options: dict[str, Any] = {"subsampling": draw(st.integers(0, 2)), "progressive": draw(st.booleans())}
    if draw(st.booleans()):
        options["restart_marker_rows"] = 1
    orientation = draw(st.integers(1, 8))
    return corpus.encoded(pixels, "JPEG", orientation, quality=quality, **options), orientation


def of(file: bytes, count: int = 1) -> ndd.Batch:
    """A batch of files."""
    return as_batch([np.frombuffer(file, np.uint8)] * count)


@given(photo=photos(), at_least=least, data=st.data(), native=st.booleans())
def test_windows_are_where_the_large_ones_are(
    photo: tuple[bytes, int], at_least: tuple[int, int], data: st.DataObject, native: bool
) -> None:
    """Whole images, and windows of all operators, natively or not."""
    file, orientation = photo
    height, width = ndd.peek_image_shape(file).tolist()[:2]
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    rows, columns = data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left))
    all_of_it = slice(0, height), slice(0, width)
    window = slice(top, top + rows), slice(left, left + columns)
    seed = data.draw(st.integers(0, 99))
    (y, x), (h, w) = ndd.random_crop_generator((height, width, 3), rng=RNG(seed))
    drawn = slice(int(y), int(y + h)), slice(int(x), int(x + w))

    how: dict[str, Any] = {"at_least": at_least, "output_type": "ANY_DATA"}
    corner = {"start": (top, left), "shape": (rows, columns), "axes": (0, 1)}
    with contextlib.nullcontext() if native else _core.left_out():
        for function, more, part in (
            (decoders.image, {}, all_of_it),
            (decoders.image_slice, corner, window),
            (decoders.image_random_crop, {"rng": RNG(seed)}, drawn),
        ):
            found = function(of(file), **how, **more)[0].array
            assert np.array_equal(found, expected(file, orientation, part, at_least))


@given(given=st.lists(photos(), min_size=1, max_size=5), at_least=least, data=st.data())
def test_both_ways_decode_alike(given: list[tuple[bytes, int]], at_least: tuple[int, int], data: st.DataObject) -> None:
    """Files of any kinds, one of which may be damaged, in one batch."""
    files = [np.frombuffer(file, np.uint8) for file, _ in given]
    files += data.draw(st.sampled_from([[], [files[0][:-9]], [np.frombuffer(corpus.small_files()["PNG"], np.uint8)]]))
    if data.draw(st.booleans()):  # C does not read bytes that are apart
        files[0] = np.repeat(files[0], 2)[::2]
    encoded = as_batch(files)
    how = {
        "at_least": at_least,
        "on_error": data.draw(st.sampled_from(["raise", "skip", "null"])),
        "output_type": data.draw(st.sampled_from(["RGB", "BGR", "GRAY", "YCbCr"])),
        "dtype": data.draw(st.sampled_from(["uint8", "float32"])),
        "adjust_orientation": data.draw(st.booleans()),
        "use_fast_idct": data.draw(st.booleans()),
    }
    shared = data.draw(st.booleans())
    alike(lambda: decoders.image(encoded, **how), shared=shared)
    alike(lambda: decoders.image_random_crop(encoded, rng=RNG(3), **how), shared=shared)
    alike(lambda: decoders.image_crop(encoded, crop=(20, 12), crop_pos_x=0.3, **how), shared=shared)
    alike(lambda: decoders.image(files[0], **how), shared=False)


@pytest.mark.parametrize("scale", [2, 4, 8])
@pytest.mark.parametrize(("luma", "chroma"), FACTORS)
def test_unusual_sampling_is_reduced_too(luma: tuple[int, int], chroma: tuple[int, int], scale: int) -> None:
    """Files of flat blocks, of which simplejpeg knows some."""
    levels = np.arange(8).reshape(2, 4) * 25 + 20
    blocks = [np.kron(levels, np.ones((v, h), int)) for h, v in (luma, chroma, chroma)]
    file = small_jpegs.flat([blocks[0], blocks[1] // 2 + 60, 160 - blocks[2] // 2], [luma, chroma, chroma])
    height, width = ndd.peek_image_shape(file).tolist()[:2]
    found = decoders.image(file, at_least=(height // scale, width // scale))
    assert found.shape == (height // scale, width // scale, 3)
    assert np.array_equal(found.array, by_pillow(file, scale))


def test_inks_are_reduced() -> None:
    """CMYK becomes RGB at the smaller size."""
    data = io.BytesIO()
    Image.fromarray(corpus.noise((40, 48, 4)), "CMYK").save(data, "JPEG", quality=95)
    file = data.getvalue()
    found = decoders.image(file, at_least=(5, 6), output_type="ANY_DATA")
    assert np.array_equal(found.array, np.invert(by_pillow(file, 8)))  # Pillow leaves Adobe's values as they are
    assert decoders.image(file, at_least=(10, 12)).shape == (10, 12, 3)


def test_draws_are_those_of_the_full_size() -> None:
    """The same windows, and the stream moves as far."""
    file = corpus.encoded(corpus.photo(300, 400), "JPEG")
    for native in (True, False):
        first, second = RNG(5), RNG(5)
        with contextlib.nullcontext() if native else _core.left_out():
            reduced = decoders.image_random_crop(of(file, 8), at_least=(16, 16), rng=first)
            whole = decoders.image_random_crop(of(file, 8), rng=second)
        assert first.state == second.state
        for small, large in zip(reduced.shape, whole.shape, strict=True):
            scale = max(s for s in (1, 2, 4, 8) if min(large[:2]) >= 16 * s)
            assert all(abs(a * scale - b) <= scale for a, b in zip(small[:2], large[:2], strict=True))


def test_other_formats_and_small_images_stay() -> None:
    """They are decoded as without it; `None` is all pixels."""
    for name, file in corpus.small_files().items():
        if not name.startswith("JPEG"):
            assert np.array_equal(decoders.image(file, at_least=(1, 1)).array, decoders.image(file).array)
    file = corpus.encoded(corpus.photo(300, 400), "JPEG")
    for at_least in (None, (151, 1), (1, 201), (10**30, 1), [300, 400], np.array([300, 400])):
        assert np.array_equal(decoders.image(file, at_least=at_least).array, decoders.image(file).array)


def test_damage_is_found_at_any_size() -> None:
    """The codes of all pixels are read."""
    file = corpus.encoded(corpus.photo(300, 400), "JPEG", quality=90)
    for bad in (file[:-300], file[: len(file) // 2] + b"\xff\xd9"):
        for count in (1, 4):
            with pytest.raises(DecodeError, match=f"{count} of {count} samples"):
                decoders.image(of(bad, count), at_least=(30, 40))
    assert len(decoders.image(as_batch([of(file)[0], of(bad)[0]]), at_least=(30, 40), on_error="skip")) == 1


@pytest.mark.parametrize("at_least", [0, 224, (0, 1), (1, 2, 3), (1.5, 2), "large", [None, 1], as_batch([[1, 2]])])
@pytest.mark.parametrize("function", [decoders.image, decoders.image_random_crop, decoders.imread])
def test_wrong_sizes_are_named(function: Any, at_least: Any, tmp_path: Any) -> None:
    """Height and width, each at least 1."""
    path = tmp_path / "a.jpg"
    path.write_bytes(corpus.encoded(corpus.photo(), "JPEG"))
    given = path if function is decoders.imread else path.read_bytes()
    name = "imread" if function is decoders.imread else f"decoders.{function.__name__}"
    with pytest.raises(ArgumentError, match=rf"^{name}\(\): argument 'at_least' must be a sequence of 2 integers"):
        function(given, at_least=at_least)


def test_pipelines_and_files_take_it(tmp_path: Any) -> None:
    """A pipeline, and `imread`."""
    path = tmp_path / "a.jpg"
    path.write_bytes(corpus.encoded(corpus.photo(300, 400), "JPEG"))
    image = ndd.imread(str(path), at_least=(70, 90))
    assert image.shape == (75, 100, 3)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def job() -> Any:
        files, _ = fn.readers.file(files=[str(path)] * 2)
        return fn.decoders.image(files, at_least=[70, 90])

    (found,) = job().run()
    assert np.array_equal(found.as_array()[1], image.array)


@pytest.mark.gpu
def test_on_a_gpu_reduced_files_are_those_of_the_cpu() -> None:
    """They are decoded there, and sent."""
    files = as_batch([*of(corpus.encoded(corpus.photo(300, 400), "JPEG"), 2), *of(corpus.small_files()["PNG"])])
    found, here = (decoders.image(files, at_least=(70, 90), **how) for how in ({"device": "gpu"}, {}))
    assert found.device == "gpu:0"
    assert [np.array_equal(a, b) for a, b in zip(found.cpu().samples, here.samples, strict=True)] == [True] * 3
