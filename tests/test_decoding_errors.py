"""What becomes of samples that cannot be decoded: one error for all, or a smaller batch, or images without pixels."""

from __future__ import annotations

import os

import corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, Batch, DataError, DecodeError, Tensor, as_batch, decoders, peek_image_shape
from dynamic._base.origin import Origin
from dynamic.io import _bytes
from dynamic.random import RNG

GOOD = {name: np.frombuffer(file, np.uint8) for name, file in corpus.small_files().items()}
JPEG = GOOD["JPEG"]
BAD = {
    "no bytes": np.zeros(0, np.uint8),
    "text": np.frombuffer(b"this is no image", np.uint8),
    "a header alone": GOOD["PNG"][:40],
    "pixels that are cut": np.concatenate([JPEG[: len(JPEG) * 9 // 10], np.frombuffer(b"\xff\xd9", np.uint8)]),
    "a wrong checksum": np.where(np.arange(len(GOOD["PNG"])) == 60, GOOD["PNG"] ^ 1, GOOD["PNG"]),
}
DECODERS = {
    decoders.image: {},
    decoders.image_crop: {"crop": (2, 2)},
    decoders.image_slice: {"start": 1, "shape": 2, "axes": (0, 1)},
    decoders.image_random_crop: {},
}
FORMATS = {"PNM" if name == "PPM" else name: file for name, file in GOOD.items() if name.split(" ")[-1].isupper()}
FORMATS |= {name: GOOD[name] for name in ("WebP", "JPEG 2000")}
every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=lambda function: function.__name__)
files = st.lists(st.sampled_from([*GOOD, *BAD]), min_size=1, max_size=6)


def batch_of(names: list[str]) -> Batch:
    arrays = [GOOD[name] if name in GOOD else BAD[name] for name in names]
    origin = Origin(0, np.arange(len(names), dtype=np.uint64), [f"{i}/{name}" for i, name in enumerate(names)])
    return Batch(arrays, None, origin)


def arguments_of(decoder) -> dict:
    return DECODERS[decoder] | ({"rng": RNG(5)} if decoder is decoders.image_random_crop else {})


@every_decoder
@given(names=files, output=st.sampled_from(["RGB", "GRAY", "ANY_DATA"]), dtype=st.sampled_from(["uint8", "float32"]))
def test_the_others_stay_what_they_are(decoder, names, output, dtype):
    kind = {"output_type": output, "dtype": dtype}
    batch, good = batch_of(names), [i for i, name in enumerate(names) if name in GOOD]
    null = decoder(batch, on_error="null", **kind, **arguments_of(decoder))
    skip = decoder(batch, on_error="skip", **kind, **arguments_of(decoder))
    assert (len(null), len(skip)) == (len(names), len(good))
    assert list(null.origin.names) == batch.origin.names
    assert skip.origin.names == [batch.origin.names[i] for i in good]
    for result in (null, skip):
        assert (result.dtype, result.ndim, result.layout) == (ndd.dtypes.dtype(dtype), 3, "HWC")
    for i, name in enumerate(names):
        if name in BAD:
            assert null.shape[i][:2] == (0, 0)
            assert null.shape[i][2] in ((1,) if output == "GRAY" else (1, 3, 4) if output == "ANY_DATA" else (3,))
    for place, i in enumerate(good):
        assert np.array_equal(skip.samples[place], null.samples[i])
        if decoder is not decoders.image_random_crop:
            assert np.array_equal(null.samples[i], decoder(GOOD[names[i]], **kind, **DECODERS[decoder]).array)
    if len(good) == len(names):
        raised = decoder(batch, **kind, **arguments_of(decoder))
        assert all(np.array_equal(a, b) for a, b in zip(raised.samples, skip.samples, strict=True))
        return
    with pytest.raises(DecodeError) as caught:
        decoder(batch, **kind, **arguments_of(decoder))
    assert [failure.index for failure in caught.value.failures] == [i for i, name in enumerate(names) if name in BAD]
    assert [failure.source for failure in caught.value.failures] == [
        batch.origin.names[i] for i, name in enumerate(names) if name in BAD
    ]
    assert caught.value.total == len(names)


@every_decoder
def test_equal_images_stay_one_array(decoder):
    batch = batch_of(["JPEG", "text", "JPEG", "pixels that are cut", "PNG"])
    if decoder is decoders.image_random_crop:
        found = decoder(batch, on_error="skip", random_area=(1, 1), random_aspect_ratio=(1, 1), rng=RNG(1))
    else:
        found = decoder(batch, on_error="skip", **DECODERS[decoder])
    assert found.whole is not None
    assert len(found) == 3


@every_decoder
@pytest.mark.parametrize("name", BAD)
def test_one_file_that_is_not_in_a_batch(decoder, name):
    with pytest.raises(DecodeError):
        decoder(BAD[name], **arguments_of(decoder))
    with pytest.raises(DecodeError):  # there is no batch to leave it out of
        decoder(BAD[name], on_error="skip", **arguments_of(decoder))
    null = decoder(BAD[name], on_error="null", **arguments_of(decoder))
    assert isinstance(null, Tensor)
    assert null.shape == (0, 0, 3)
    assert null.layout == "HWC"
    assert decoder(JPEG, on_error="skip", **arguments_of(decoder)).ndim == 3
    several = decoder(BAD[name], on_error="null", batch_size=2, **arguments_of(decoder))
    assert several.shape == [(0, 0, 3)] * 2
    assert len(decoder(BAD[name], on_error="skip", batch_size=2, **arguments_of(decoder))) == 0


@every_decoder
def test_wrong_arguments_are_errors_whatever_on_error_says(decoder):
    batch = batch_of(["JPEG", "text"])
    for word in ("ignore", "", None.__class__, 1):
        with pytest.raises(ArgumentError, match="'on_error'"):
            decoder(batch, on_error=word, **arguments_of(decoder))
    with pytest.raises(ArgumentError):
        decoders.image_crop(batch, crop=(100, 100), on_error="skip")
    empty = Batch([], dtype=np.dtype("uint8"), ndim=1)
    for word in ("raise", "skip", "null"):
        assert len(decoder(empty, on_error=word, **arguments_of(decoder))) == 0


def test_random_windows_of_the_others_do_not_depend_on_bad_files():
    names = ["JPEG", "PNG", "BMP", "JPEG turned"]
    with_bad = ["JPEG", "text", "BMP", "pixels that are cut"]
    all_of_them = decoders.image_random_crop(batch_of(names), rng=RNG(9))
    some = decoders.image_random_crop(batch_of(with_bad), rng=RNG(9), on_error="null")
    for i in (0, 2):
        assert np.array_equal(some.samples[i], all_of_them.samples[i])


def test_shapes_of_files_that_are_no_images():
    batch = batch_of(["JPEG", "text", "PNG", "no bytes"])
    assert [s.tolist() for s in peek_image_shape(batch, on_error="null")] == [[5, 7, 3], [], [5, 7, 3], []]
    assert peek_image_shape(batch, on_error="skip").tolist() == [[5, 7, 3]] * 2
    with pytest.raises(ndd.errors.ImageTooLarge, match="max_pixels=34"):
        peek_image_shape(JPEG, max_pixels=34)
    with pytest.raises(ndd.errors.ImageTooLarge, match="max_encoded_bytes=9"):
        peek_image_shape(JPEG, max_encoded_bytes=9)


def test_labels_can_be_kept_in_step():
    batch, labels = batch_of(["JPEG", "text", "PNG", "no bytes"]), as_batch([[10], [11], [12], [13]])
    images = decoders.image(batch, on_error="null")
    kept = [i for i, image in enumerate(images) if image.size]
    assert labels[kept].tolist() == [[10], [12]]
    assert images[kept].shape == [(5, 7, 3)] * 2


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "good.jpg").write_bytes(bytes(JPEG))
    (tmp_path / "text.jpg").write_bytes(b"text")
    os.mkfifo(tmp_path / "fifo.jpg")
    paths = [tmp_path / f"{name}.jpg" for name in ("none", "good", "text", "fifo", "good")]
    with pytest.raises(DataError) as caught:
        ndd.imread(paths)
    failures = caught.value.failures
    assert [(failure.index, failure.source) for failure in failures] == [(i, str(paths[i])) for i in (0, 2, 3)]
    assert [failure.reason[:5] for failure in failures] == ["No su", "bytes", "is a "]
    assert ndd.imread(paths, on_error="skip").shape == [(5, 7, 3)] * 2
    assert ndd.imread(paths, on_error="null").shape == [(0, 0, 3), (5, 7, 3), (0, 0, 3), (0, 0, 3), (5, 7, 3)]
    assert ndd.imread(paths[0], on_error="null").shape == (0, 0, 3)
    with pytest.raises(DataError, match="No such file"):
        ndd.imread(paths[0], on_error="skip")


def test_strange_names_are_told_on_one_line_of_text(tmp_path):
    names = [os.fsdecode(name) for name in (b"a\nb.jpg", b"\xff\xfe.jpg", b"\x1b[31m.jpg", "ü.jpg".encode())]
    for name in names:
        (tmp_path / name).write_bytes(b"text")
    with pytest.raises(DecodeError) as caught:
        ndd.imread([tmp_path / name for name in names])
    lines = str(caught.value).encode().decode().splitlines()
    assert len(lines) == 1 + len(names)
    assert [failure.source for failure in caught.value.failures] == [str(tmp_path / name) for name in names]
    assert "ü.jpg" in lines[-1]
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("beginning", [JPEG, np.zeros(3, np.uint8)], ids=["JPEG", "zeros"])
def test_of_a_file_that_is_refused_only_the_beginning_is_read(beginning, tmp_path, monkeypatch):
    path, read, into = tmp_path / "large.jpg", [], _bytes._read_into
    monkeypatch.setattr(_bytes, "_read_into", lambda *arguments: read.append(into(*arguments)) or read[-1])
    with path.open("wb") as file:
        file.write(bytes(beginning))
        file.truncate(1 << 40)  # a hole of a terabyte
    for limits in ({}, {"max_encoded_bytes": 5000}):
        with pytest.raises(DecodeError) as caught:
            ndd.imread(path, **limits)
        assert caught.value.failures[0].source == str(path)
        if beginning is JPEG:
            assert isinstance(caught.value, ndd.errors.ImageTooLarge)
            assert f"max_encoded_bytes={limits.get('max_encoded_bytes', 1 << 30)}" in str(caught.value)
        assert ndd.imread([path], on_error="skip", **limits).shape == []
    assert sum(read) <= 4 << 16
    for wrong in (0, -1, 1.5):
        with pytest.raises(ArgumentError, match="max_encoded_bytes"):
            ndd.imread(tmp_path / "none", max_encoded_bytes=wrong)


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_errors_are_those_that_scripts_expect(kind, tmp_path):
    for read in (lambda: decoders.image(b"no image"), lambda: ndd.imread(tmp_path / "none.jpg")):
        with pytest.raises(kind) as caught:
            read()
        assert isinstance(caught.value, DataError)
    with pytest.raises((ValueError, TypeError)) as refused:
        ndd.rotate(np.zeros((2, 2), np.uint8), angle="x")
    assert isinstance(refused.value, ArgumentError)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_may_be_switched_off(name):
    """Before a decoder sees a byte, and with the reason told; windows, shapes and paths have the same switch."""
    data, others = FORMATS[name], tuple(other for other in FORMATS if other != name)
    for spelled in (name, name.lower(), name.upper()):
        assert decoders.image(data, formats=(spelled,)).size
    for function in (*DECODERS, peek_image_shape):
        arguments = {} if function is peek_image_shape else arguments_of(function)
        for formats in (others, [], others[:1]):
            with pytest.raises(ndd.errors.UnsupportedImage, match="is none of formats=.*name it to accept") as caught:
                function(data, formats=formats, **arguments)
            assert caught.value.failures[0].format == name
        batch = as_batch([data])
        assert len(function(batch, formats=others, on_error="skip", **arguments)) == 0
        assert function(batch, formats=[name], **arguments)[0].size
    for wrong in (("JPEG", "XCF"), "JPEG", 7, [None]):
        with pytest.raises(ArgumentError, match="'formats' must be a sequence of items, each one of 'JPEG', 'PNG'"):
            decoders.image(data, formats=wrong)


def test_imread_takes_formats(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(FORMATS["GIF"].tobytes())
    with pytest.raises(ndd.errors.UnsupportedImage, match="GIF: this format is none of formats"):
        ndd.imread(path, formats=("jpeg", "jp2"))
    assert ndd.imread(path, formats=("gif",)).size
