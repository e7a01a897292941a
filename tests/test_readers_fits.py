"""Readers of FITS files: types, HDUs, compressed images, and files that are damaged."""

from __future__ import annotations

import contextlib
import gzip

import numpy as np
import pytest
from astropy.io import fits
from hypothesis import given, settings
from hypothesis import strategies as st
from record_stored import plain_fits

import dynamic
from dynamic.errors import ArgumentError, DataError
from dynamic.readers import Fits
from dynamic.readers import fits as _fits
from dynamic.readers._stored import Unusable

KINDS = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def write(path, *hdus):
    fits.HDUList([fits.PrimaryHDU(), *hdus]).writeto(path, overwrite=True)
    return path


def one(path, **arguments):
    """The arrays of a file."""
    return [np.asarray(batch.samples[0]) for batch in Fits(files=path, **arguments)(1)]


@given(kind=st.sampled_from(KINDS), shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), seed=st.integers(0, 99),
       compressed=st.sampled_from(["", "GZIP_1", "GZIP_2"]))  # fmt: skip
def test_what_was_written_is_read(tmp_path_factory, kind, shape, seed, compressed):
    chance = np.random.default_rng(seed)
    array = chance.normal(0, 100, shape).astype(kind) if kind[0] == "f" else None
    if array is None:
        limits = np.iinfo(kind)
        array = chance.integers(limits.min, limits.max, shape, kind, endpoint=True)
    image = fits.CompImageHDU(array, compression_type=compressed, quantize_level=0) if compressed else None
    path = write(tmp_path_factory.mktemp("d") / "a.fits", image or fits.ImageHDU(array))
    np.testing.assert_array_equal(one(path)[0], array, strict=True)


def test_each_of_dalis_names_is_the_reader(tmp_path):
    assert dynamic.experimental.readers.Fits is dynamic.readers.Fits


@pytest.mark.parametrize(("scale", "zero", "expected"), [
    (0.5, 0, np.arange(-6, 6) * 0.5), (1, 0.5, np.arange(-6, 6) + 0.5), (-2, 7, np.arange(-6, 6) * -2 + 7),
])  # fmt: skip
def test_long_integers_keep_their_fractions_and_digits(tmp_path, scale, zero, expected):
    (tmp_path / "a.fits").write_bytes(plain_fits(64, scale, zero))
    np.testing.assert_array_equal(one(tmp_path / "a.fits")[0].ravel(), expected, strict=True)


def test_values_that_fit_no_type_are_refused(tmp_path):
    (tmp_path / "a.fits").write_bytes(plain_fits(64, 2.0**62, 1))
    with pytest.raises(DataError, match="has values beyond int64, scaled by BSCALE"):
        one(tmp_path / "a.fits")
    (tmp_path / "a.fits").write_bytes(plain_fits(16, 0, 1))
    with pytest.raises(DataError, match=r"HDU 2 cannot be scaled by BSCALE 0\.0"):
        one(tmp_path / "a.fits")


def test_types_are_compared_where_they_are_given(tmp_path):
    path = write(tmp_path / "a.fits", fits.ImageHDU(np.ones((2, 3), np.int16)), fits.ImageHDU(np.ones(3, np.float32)))
    assert [array.dtype for array in one(path, hdu_indices=[2, 3], dtypes=[dynamic.int16, "float32"])] == ["i2", "f4"]
    with pytest.raises(DataError, match="HDU 2 is of int16, where dtypes asks for uint8"):
        one(path, dtypes="uint8")
    with pytest.raises(ArgumentError, match="'dtypes' must be one for each of the 1 HDUs; got 2"):
        one(path, dtypes=["uint8"] * 2)


@pytest.mark.parametrize("indices", [0, [], [1, 0], "2", 1.5, [True]])
def test_numbers_of_hdus_are_checked(indices):
    with pytest.raises(ArgumentError, match="'hdu_indices"):
        Fits(files="a", hdu_indices=indices)


def test_arrays_of_another_type_are_named_or_left_out(tmp_path):
    for i, kind in enumerate(["int16", "float32", "int16"]):
        write(tmp_path / f"{i}.fits", fits.ImageHDU(np.full((2, 2), i, kind)))
    told = r"1\.fits\): output 0 is float32 of 2 dimensions, where that of .*0\.fits is int16 of 2 dimensions"
    with pytest.raises(DataError, match=told):
        Fits(file_root=tmp_path)(3)
    for batch_size in (1, 3):
        reader = Fits(file_root=tmp_path, on_error="skip")
        assert [int(array[0, 0]) for (batch,) in reader.next_epoch(batch_size) for array in batch.samples] == [0, 2]


def test_what_is_no_image_is_named(tmp_path):
    table = fits.BinTableHDU.from_columns([fits.Column("a", "I", array=np.arange(3))])
    path = write(tmp_path / "a.fits", table, fits.ImageHDU())
    for indices, told in ((1, "HDU 1 holds no array: NAXIS is 0"), (2, "HDU 2 is no image"), (3, "HDU 3 holds no"),
                          (4, "has no HDU 4, but 3")):  # fmt: skip
        with pytest.raises(DataError, match=rf"a\.fits\): {told}"):
            one(path, hdu_indices=indices)
    (tmp_path / "a.fits").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match=r"a\.fits\): is no FITS file, or damaged"):
        one(tmp_path / "a.fits")


def changed_header(data, name, value):
    """A file with another value of a keyword of the second header."""
    at = data.index(f"{name:8}=".encode(), 2880)
    return data[:at] + f"{name:8}= {value:>20}".encode() + data[at + 30 :]


@pytest.mark.parametrize("hdu", [fits.ImageHDU, fits.CompImageHDU])
def test_sizes_that_lie_take_no_memory(tmp_path, hdu):
    path = write(tmp_path / "a.fits", hdu(np.ones((20, 30), np.int16)))
    name = "NAXIS2" if hdu is fits.ImageHDU else "ZNAXIS2"
    path.write_bytes(changed_header(path.read_bytes(), name, 2**40))
    with pytest.raises(
        DataError, match=r"a\.fits\): (ends too early|HDU 2 should have|is no FITS file, or damaged|is damaged)"
    ):
        one(path)


def test_a_file_that_is_cut_off_is_named(tmp_path):
    path = write(tmp_path / "a.fits", fits.ImageHDU(np.ones((100, 100), np.float64)))
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(DataError, match=r"a\.fits\): .*(ends too early|truncated)"):
        one(path)


@settings(max_examples=40)
@given(kinds=st.lists(st.sampled_from([*KINDS, "table", "scaled"]), min_size=1, max_size=4), cards=st.integers(0, 40),
       text=st.text("abAB 012/='", max_size=60))  # fmt: skip
def test_plain_headers_tell_what_the_library_tells(tmp_path_factory, kinds, cards, text):
    hdus = []
    for i, kind in enumerate(kinds):
        if kind == "table":
            column = fits.Column("a", "PI()", array=np.array([np.arange(i + k) for k in range(3)], object))
            hdus.append(fits.BinTableHDU.from_columns([column]))
        else:
            hdus.append(fits.ImageHDU(np.arange(6 + i).astype("int16" if kind == "scaled" else kind)))
            if kind == "scaled":
                hdus[-1].scale("int16", bscale=0.5, bzero=-1e-3)
        for k in range(cards):
            hdus[-1].header[f"KEY{k}"] = (k / 3 if k % 2 else text, "a comment")
    data = np.fromfile(write(tmp_path_factory.mktemp("d") / "a.fits", *hdus), np.uint8)
    numbers = [i for i, kind in enumerate(kinds, 2) if kind != "table"]
    if numbers:
        images = _fits._plain(memoryview(data), numbers)
        assert images is not None
        for image, expected in zip(images, _fits._by_astropy(data, numbers), strict=True):
            np.testing.assert_array_equal(_fits._read(data, *image), expected, strict=True)
    assert _fits._plain(memoryview(data), [1]) is None  # the primary HDU has no array


@settings(max_examples=40)
@given(data=st.data(), how=st.sampled_from(["", "RICE_1", "GZIP_1", "GZIP_2", "PLIO_1", "HCOMPRESS_1"]))
def test_bytes_that_were_changed_are_read_or_refused_by_name(tmp_path_factory, data, how):
    array = np.add.outer(np.arange(20), np.arange(16)).astype(np.int16)
    image = fits.CompImageHDU(array, compression_type=how) if how else fits.ImageHDU(array)
    path = write(tmp_path_factory.mktemp("d") / "a.fits", image)
    stored = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(2880, len(stored) - 1))] = data.draw(
            st.integers(0, 255) | st.sampled_from(b"0159 ")
        )
    path.write_bytes(stored)
    with contextlib.suppress(DataError):
        assert one(path)[0].nbytes < 1 << 28
    images, by_library = _fits._plain(memoryview(stored), [2]), None
    with contextlib.suppress(Unusable):
        by_library = _fits._by_astropy(np.frombuffer(stored, np.uint8), [2])[0]
    if images is not None and by_library is not None:
        here = _fits._read(np.frombuffer(stored, np.uint8), *images[0])
        np.testing.assert_array_equal(here, by_library, strict=True)
