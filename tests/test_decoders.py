"""Decoding: right pixels of every format, and refusal of everything else."""

from __future__ import annotations

import io
import itertools
import os
import re
import struct
from pathlib import Path

import corpus
import hostile_files
import numpy as np
import pytest
import small_jpegs
from dali_oracle import Oracle, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from PIL import Image, ImageOps, TiffImagePlugin

import dynamic as ndd
from dynamic import ArgumentError, Batch, DataError, DecodeError, Tensor, as_batch, crop, decoders, errors
from dynamic._base.origin import Origin
from dynamic.kernels.cpu.images import jpeg2000

LOSSLESS = corpus.lossless()
BAD = corpus.bad()
FORMATS = {
    **corpus.small_files(),
    "JPEG progressive": corpus.encoded(corpus.photo(), "JPEG", progressive=True),
    "TIFF LZW": corpus.encoded(corpus.photo(), "TIFF", compression="tiff_lzw"),
    "TIFF deflate": corpus.encoded(corpus.photo(), "TIFF", compression="tiff_adobe_deflate"),
    "WebP lossy": corpus.encoded(corpus.photo(), "WEBP"),
    "JPEG CMYK": corpus.encoded(Image.fromarray(corpus.photo()).convert("CMYK"), "JPEG"),
    "PNG interlaced": corpus.png(corpus.photo(), 8, 2, interlace=True),
}


def decoded(data, **arguments):
    result = decoders.image(data, **arguments)
    assert isinstance(result, Tensor)
    assert result.layout == "HWC"
    assert list(ndd.peek_image_shape(data, image_type=arguments.get("output_type", "RGB"))) == list(result.shape)
    return result.array


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_files_give_their_pixels(name):
    data, pixels = LOSSLESS[name]
    assert np.array_equal(decoded(data, output_type="ANY_DATA", dtype=pixels.dtype), pixels)
    rgb = np.repeat(pixels[..., :1], 3, axis=2) if pixels.shape[2] < 3 else pixels[..., :3]
    assert np.array_equal(decoded(data, dtype=pixels.dtype), rgb)
    assert np.array_equal(decoded(data, dtype=pixels.dtype, output_type="BGR"), rgb[..., ::-1])
    most = np.iinfo(pixels.dtype).max
    luma = rgb @ [0.299, 0.587, 0.114]
    assert np.abs(decoded(data, dtype=pixels.dtype, output_type="GRAY")[..., 0] - luma).max() <= max(1, most / 65535)
    y = 16 + rgb @ [65.481, 128.553, 24.966] / 255 * (255 / most)
    assert np.abs(decoded(data, dtype="f64", output_type="YCbCr")[..., 0] * 255 - y).max() <= 0.51


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("size", [(1, 1), (17, 9), (64, 48)])
def test_jpegs_are_libjpegs_bit_for_bit(size, sampling, progressive):
    data = corpus.encoded(corpus.photo(*size), "JPEG", quality=88, subsampling=sampling, progressive=progressive)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    assert np.array_equal(decoded(data), expected)
    assert np.array_equal(decoded(data, jpeg_fancy_upsampling=True), expected)
    assert np.array_equal(decoded(data, output_type="BGR"), expected[..., ::-1])
    assert np.array_equal(decoded(data, output_type="ANY_DATA"), expected)
    fast = decoded(data, use_fast_idct=True).astype(int)
    assert np.abs(fast - expected).max() <= 12


def test_gray_and_cmyk_jpegs():
    gray = corpus.encoded(corpus.photo()[..., 0].copy(), "JPEG")
    expected = np.asarray(Image.open(io.BytesIO(gray)))
    assert np.array_equal(decoded(gray, output_type="ANY_DATA")[..., 0], expected)
    assert np.array_equal(decoded(gray), np.repeat(expected[..., None], 3, axis=2))
    cmyk = FORMATS["JPEG CMYK"]
    ink = np.asarray(Image.open(io.BytesIO(cmyk)), np.int64)
    assert np.array_equal(decoded(cmyk, output_type="ANY_DATA"), ink)
    assert np.array_equal(decoded(cmyk), (255 - ink[..., :3]) * (255 - ink[..., 3:]) // 255)


#: Of three components and of four; rows and columns of the last group are no multiples of blocks.
_FACTORS = {
    3: [((4, 2), (1, 1), (1, 1)), ((3, 1), (1, 1), (1, 1)), ((2, 2), (2, 1), (1, 1)), ((1, 2), (1, 1), (1, 2)),
        ((1, 1), (2, 2), (2, 2)), ((4, 1), (2, 1), (1, 1))],
    4: [((2, 2), (1, 1), (1, 1), (1, 1)), ((2, 1), (1, 1), (1, 1), (1, 1)), ((1, 1), (1, 1), (1, 1), (2, 2))],
}  # fmt: skip
_RARE = [(0 if len(factors) == 4 else None, factors) for kind in _FACTORS.values() for factors in kind]
_RARE += [(2, factors) for factors in _FACTORS[4]] + [(0, _FACTORS[3][1]), (1, _FACTORS[3][0])]


def rare_jpeg(transform, factors, size=(23, 17), **options):
    """A JPEG of noise with such sampling factors; there are as many blocks as the size takes."""
    chance = np.random.default_rng(size[0])
    (across, down), (height, width) = (max(extent) for extent in zip(*factors, strict=True)), size
    units = -(-height // (8 * down)), -(-width // (8 * across))
    blocks = [chance.integers(0, 256, (units[0] * v, units[1] * h)) for h, v in factors]
    return small_jpegs.flat(blocks, factors, transform=transform, size=size, **options)


@pytest.mark.parametrize("size", [(23, 17), (64, 96), (1, 1)], ids=str)
@pytest.mark.parametrize(("transform", "factors"), _RARE, ids=str)
def test_rare_sampling_factors_are_libjpegs_too(transform, factors, size):
    data = rare_jpeg(transform, factors, size, restart=2 if size[0] == 64 else 0)
    stored = np.asarray(Image.open(io.BytesIO(data)))
    assert np.array_equal(decoded(data, output_type="ANY_DATA"), stored)
    rgb = stored if len(factors) == 3 else (255 - stored[..., :3].astype(int)) * (255 - stored[..., 3:]) / 255
    assert np.abs(decoded(data).astype(int) - rgb).max() <= (0.5 if len(factors) == 4 else 0)
    assert np.array_equal(decoded(data, output_type="BGR"), decoded(data)[..., ::-1])
    assert np.array_equal(decoded(data, use_fast_idct=True), decoded(data))
    gray = Image.open(io.BytesIO(data))
    if len(factors) == 3:
        gray.draft("L", None)
        assert np.array_equal(decoded(data, output_type="GRAY")[..., 0], np.asarray(gray))
    bottom, right = (extent // 2 + 1 for extent in size)
    window = decoders.image_slice(data, end=(right, bottom))
    assert np.array_equal(window.array, decoded(data)[:bottom, :right])
    turned = corpus.with_exif(data, corpus.directory([(0x0112, 3, 1, [6])]), bytes(40))
    assert np.array_equal(decoded(turned), decoded(data).swapaxes(0, 1)[:, ::-1])


@pytest.mark.parametrize(("transform", "factors"), _RARE, ids=str)
def test_rare_sampling_factors_are_dalis(dali: Oracle, transform, factors):
    data = rare_jpeg(transform, factors)
    for output_type in ("RGB", "GRAY"):
        theirs = dali.call("decoders.image", [np.frombuffer(data, np.uint8)], output_type=output_type).array
        within = 2 if len(factors) == 4 else 0  # of ink DALI makes colours in floats
        assert np.abs(decoded(data, output_type=output_type).astype(int) - theirs).max() <= within


def test_factors_that_do_not_divide_the_largest_are_luma_alone():
    data = rare_jpeg(None, ((3, 1), (2, 1), (1, 1)))
    with pytest.raises(errors.UnsupportedImage, match="sampling factors that do not divide the largest one"):
        decoders.image(data)
    gray = Image.open(io.BytesIO(data))
    gray.draft("L", None)
    assert np.array_equal(decoders.image(data, output_type="GRAY").array[..., 0], np.asarray(gray))


def test_limits_hold_for_rare_sampling_factors():
    data = rare_jpeg(None, _FACTORS[3][0], interleaved=False, scans=40)
    with pytest.raises(errors.ImageTooLarge, match="max_scans=100"):
        decoders.image(data)
    with pytest.raises(errors.ImageTooLarge, match="max_pixels=390"):
        decoders.image(data, max_pixels=390)


@pytest.mark.parametrize("size", [(17, 23), (119, 119)], ids=str)
def test_colours_of_half_the_size_under_all_of_the_black(size):
    """YCCK as Adobe's programs write it: the black is in full beside colours of half the height and width."""
    data = rare_jpeg(2, ((2, 2), (1, 1), (1, 1), (2, 2)), size)
    ink = np.asarray(Image.open(io.BytesIO(data)), np.int64)
    assert np.array_equal(decoded(data, output_type="ANY_DATA"), ink)
    assert np.array_equal(decoded(data), ((255 - ink[..., :3]) * (255 - ink[..., 3:]) + 127) // 255)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(format, orientation):
    data = corpus.encoded(corpus.photo(), format, orientation, **({"lossless": True} if format == "WEBP" else {}))
    stored = Image.open(io.BytesIO(data)) if format == "JPEG" else Image.fromarray(corpus.photo())
    stored.getexif()[0x0112] = orientation
    assert np.array_equal(decoded(data), np.asarray(ImageOps.exif_transpose(stored)))
    assert np.array_equal(decoders.image(data, adjust_orientation=False).array, np.asarray(stored))
    assert list(ndd.peek_image_shape(data, adjust_orientation=False)) == [21, 33, 3]


UPRIGHT = corpus.photo(22, 34)  # DALI reads no WebP of chunks that are padded, as of 21 x 33
PLAIN = {
    "JPEG": corpus.encoded(UPRIGHT, "JPEG", quality=95, subsampling=0),
    "PNG": corpus.encoded(UPRIGHT, "PNG"),
    "WebP": corpus.encoded(UPRIGHT, "WEBP", lossless=True),
}
_ORIENTATION = 0x0112
_OTHER = (0x0110, 3, 1, [8])
_TELLING_NOTHING = (
    b"", b"II*\0", b"MM\0*\0\0\0\x08\0\0", corpus.directory([]), corpus.directory([_OTHER], ">"), b"goes on" * 30,
    corpus.directory([(_ORIENTATION, 3, 1, [9])]), corpus.directory([(_ORIENTATION, 9, 1, [-6])]),
    corpus.directory([(_ORIENTATION, 4, 9, [6] * 9)])[:-1],
)  # fmt: skip


@st.composite
def orientations(draw):
    """An entry of a directory that says an orientation: of any type of integer and any count, inline or elsewhere."""
    kind, count, value = draw(st.sampled_from(list(corpus.INTEGERS))), draw(st.integers(0, 9)), draw(st.integers(1, 8))
    count += count == 0 and kind in (16, 17, 18)  # there is no room for one that is not counted
    return (_ORIENTATION, kind, count, [value, *[draw(st.integers(0, 9))] * (count - 1)])


def check_orientation(data, pixels, orientation):
    """That a file is turned by `image`, by windows and in the shape that is peeked, and is not where nobody asks."""
    expected = hostile_files.upright(pixels, orientation)
    assert np.array_equal(decoded(data), expected)
    assert np.array_equal(decoders.image_slice(data, start=(2, 3), shape=(9, 7)).array, expected[3:10, 2:11])
    assert np.array_equal(
        decoders.image_crop(data, crop=(5, 4), crop_pos_y=1.0).array, crop(expected, crop=(5, 4), crop_pos_y=1.0).array
    )
    assert (
        decoders.image_random_crop(
            data, random_area=(1, 1), random_aspect_ratio=(expected.shape[1] / expected.shape[0],) * 2
        ).shape
        == expected.shape
    )
    assert np.array_equal(decoders.image(data, adjust_orientation=False).array, pixels)


_ORIENTED = [corpus.directory([(_ORIENTATION, 3, 1, [value])]) for value in (1, 4, 8)]


@pytest.mark.parametrize("format", PLAIN)
@given(entry=orientations(), order=st.sampled_from("<>"), big=st.booleans(), others=st.booleans(),
       before=st.lists(st.sampled_from(_TELLING_NOTHING), max_size=2),
       after=st.lists(st.sampled_from([*_TELLING_NOTHING, *_ORIENTED]), max_size=2))  # fmt: skip
def test_the_first_orientation_counts_of_any_integer_type(format, entry, order, big, others, before, after):
    block = corpus.directory([_OTHER, entry, (_ORIENTATION, 3, 1, [2])] if others else [entry], order, big=big)
    pixels = decoders.image(PLAIN[format]).array
    check_orientation(corpus.with_exif(PLAIN[format], *before, block, *after), pixels, entry[3][0])


@given(entry=orientations(), order=st.sampled_from("<>"), big=st.booleans(), wrong=st.booleans())
def test_orientations_of_tiffs_are_of_any_integer_type(entry, order, big, wrong):
    entries = [(_ORIENTATION, 3, 1, [0]), entry] if wrong else [entry]
    check_orientation(corpus.raw_tiff(UPRIGHT, *entries, order=order, big=big), UPRIGHT, entry[3][0])


@pytest.mark.parametrize("format", PLAIN)
@given(block=st.sampled_from(_TELLING_NOTHING) | st.builds(
    lambda kind, value: corpus.directory([(_ORIENTATION, kind, 1, [value])]), st.sampled_from(list(corpus.INTEGERS)),
    st.sampled_from([0, 9, 100])))  # fmt: skip
def test_what_is_no_orientation_means_upright(format, block):
    check_orientation(corpus.with_exif(PLAIN[format], block), decoders.image(PLAIN[format]).array, 1)


@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
def test_exif_counts_where_the_container_says_that_there_is_some(prefix):
    block = prefix + corpus.directory([(_ORIENTATION, 3, 1, [6])])
    webp = corpus.with_exif(PLAIN["WebP"], block)
    check_orientation(webp, UPRIGHT, 6)
    check_orientation(corpus.with_exif(PLAIN["PNG"], block), UPRIGHT, 6)
    unsaid = bytearray(webp)
    unsaid[20] = 0  # the flags of the canvas
    check_orientation(bytes(unsaid), UPRIGHT, 1)


@pytest.mark.parametrize("format", PLAIN)
def test_orientations_that_dali_follows_are_followed(dali: Oracle, format):
    """It reads two bytes, whatever type and count say they are: of other orders and types that is another value."""
    kinds = [(3, "<"), (3, ">"), (8, ">"), (1, "<"), (4, "<"), (6, "<"), (9, "<")]
    for (kind, order), count, value in itertools.product(kinds, (0, 1, 2), (2, 6)):
        if count == 2 and kind not in (3, 8):
            continue
        block = corpus.directory([(_ORIENTATION, kind, count, [value, 3][: count or 1])], order)
        for blocks in ([block], [block, corpus.directory([])]):  # of two orientations it mixes both
            data = np.frombuffer(corpus.with_exif(PLAIN[format], *blocks), np.uint8)
            theirs = dali.call("decoders.image", [data]).array
            assert np.array_equal(decoded(data), theirs)
            assert dali.call("peek_image_shape", [data]).array.tolist() == list(theirs.shape)


@given(st.binary(max_size=60), st.booleans())
def test_hostile_exif_is_harmless(content, known):
    block = (b"II*\0\x08\0\0\0" if known else b"") + content
    plain = corpus.small_files()["JPEG"]
    segment = b"Exif\0\0" + block
    data = plain[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + plain[2:]
    assert sorted(decoders.image(data).shape) == sorted(decoders.image(plain).shape)


@pytest.mark.parametrize("dtype", [t.word for t in ndd.dtypes.ALL])
def test_the_full_range_becomes_the_full_range(dtype):
    shades = np.array([[0, 1, 127, 128, 254, 255]], np.uint8)
    result = decoded(corpus.encoded(shades, "PNG"), output_type="GRAY", dtype=dtype)[0, :, 0]
    if result.dtype.kind == "f":
        assert np.allclose(result, shades[0] / 255, rtol=1e-3 if dtype == "float16" else 1e-6)
    elif dtype == "bool":
        assert result.tolist() == [False, False, False, True, True, True]
    else:
        most = int(np.iinfo(dtype).max)
        assert all(
            abs(int(r) - int(s) * most / 255) <= max(0.5, most * 2**-53) for r, s in zip(result, shades[0], strict=True)
        )
        assert (result[0], result[-1]) == (0, most)
    deep = np.array([[0, 128, 129, 385, 65535]], np.uint16)
    assert decoded(corpus.by_opencv(deep, ".png"), output_type="GRAY").ravel().tolist() == [0, 0, 1, 1, 255]


@given(npst.arrays(np.uint8, npst.array_shapes(min_dims=3, max_dims=3, max_side=9).map(lambda s: (*s[:2], 3))))
def test_what_was_encoded_without_loss_comes_back(image):
    for format in ("PNG", "BMP", "PPM", "TIFF"):
        assert np.array_equal(decoders.image(corpus.encoded(image, format)).array, image)


@given(st.data())
def test_any_variety_of_tiff_comes_back(data):
    channels, bits = data.draw(
        st.sampled_from([(1, 1), (1, 2), (1, 4), *((n, d) for n in range(1, 8) for d in (8, 16))])
    )
    kind, shape = np.uint8 if bits <= 8 else np.uint16, npst.array_shapes(min_dims=2, max_dims=2, max_side=40)
    values = npst.arrays(kind, shape.map(lambda s: (*s, channels)), elements=st.integers(0, 2**bits - 1))
    image, orientation = data.draw(values), data.draw(st.integers(1, 8))
    white = channels <= 2 and data.draw(st.booleans())
    tags = {259: data.draw(st.sampled_from([[1], [8]])), 274: [orientation], 262: [0 if white else 1 + (channels > 2)]}
    encoded = hostile_files.varied_tiff(
        image, bits, data.draw(st.sampled_from("<>")), big=data.draw(st.booleans()), planes=data.draw(st.booleans()),
        tile=data.draw(st.sampled_from([0, 16, 32])), rows=data.draw(st.integers(1, 50)), tags=tags,
    )  # fmt: skip
    stretched = image * kind(255 // (2**bits - 1) if bits < 8 else 1)
    if white:
        stretched[..., 0] = ~stretched[..., 0]
    expected = hostile_files.upright(stretched, orientation)
    assert np.array_equal(decoded(encoded, output_type="ANY_DATA", dtype=kind), expected)
    rgb = expected[..., :3] if channels > 2 else np.repeat(expected[..., :1], 3, axis=2)
    assert np.array_equal(decoded(encoded, dtype=kind), rgb)


@pytest.mark.parametrize(("channels", "options"), [
    *itertools.product([1, 3, 4, 5, 6], [{"big": True}, {"big": True, "order": ">", "tile": 16}, {}]),
    (3, {"planes": True}), (3, {"planes": True, "big": True}),  # of other planes DALI makes other pixels, or none
], ids=str)  # fmt: skip
def test_varieties_of_tiff_are_those_of_dali(dali: Oracle, channels, options):
    pixels = np.random.default_rng(channels).integers(0, 256, (21, 33, channels)).astype(np.uint8)
    data = hostile_files.varied_tiff(pixels, tags={262: [2 if channels > 1 else 1]}, **options)
    for output_type in ("RGB", "ANY_DATA"):
        theirs = dali.call("decoders.image", [np.frombuffer(data, np.uint8)], output_type=output_type).array
        assert np.array_equal(decoded(data, output_type=output_type), theirs)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@given(st.data())
def test_palettes_of_tiffs_are_of_bytes_where_no_colour_is_more(bits, data):
    table = data.draw(npst.arrays(np.uint8, (3, 1 << bits)))
    levels = data.draw(npst.arrays(np.uint8, (5, 9, 1), elements=st.integers(0, (1 << bits) - 1)))
    colours, deep = table.T[levels[..., 0]], table.astype(int) * 256 + data.draw(st.integers(0, 255))
    for entries in (table.astype(int), deep) if deep.max() > 255 else (table.astype(int),):
        file = hostile_files.varied_tiff(levels, bits, tags={262: [3], 320: entries.ravel().tolist()})
        assert np.array_equal(decoded(file), colours)
        assert np.array_equal(decoded(file, output_type="ANY_DATA"), colours)
        assert np.array_equal(decoded(file, dtype="uint16"), colours * np.uint16(257))


def transparent(data, content):
    """A PNG with a tRNS chunk."""
    place = data.index(b"IDAT") - 4
    return data[:place] + corpus.chunk(b"tRNS", content) + data[place:]


def with_transparent_colours():
    """PNGs of which some colours are transparent, with their pixels."""
    shades, colours = np.arange(20).reshape(4, 5, 1), corpus.noise((4, 5, 3))
    yield "colour", transparent(corpus.png(colours, 8, 2), bytes(6)), colours
    for bits in (1, 2, 4, 8):
        levels, palette = shades % 2**bits, corpus.noise((2**bits, 3))
        indexed = corpus.png(levels, bits, 3, palette=palette.tobytes())
        yield f"a palette of {bits} bits", transparent(indexed, bytes([7, 200])), palette[levels[..., 0]]
        full = (levels * 255 // (2**bits - 1)).astype(np.uint8)
        yield f"gray of {bits} bits", transparent(corpus.png(levels, bits, 0), b"\0\1"), full


_TRANSPARENT = {name: (data, pixels) for name, data, pixels in with_transparent_colours()}


@pytest.mark.parametrize("name", _TRANSPARENT)
def test_transparency_of_colours_is_dropped(name):
    """It is no channel: "ANY_DATA" gives as many as the header of a PNG says, or three for a palette."""
    data, pixels = _TRANSPARENT[name]
    rgb = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
    assert np.array_equal(decoded(data, output_type="ANY_DATA"), pixels)
    assert np.array_equal(decoded(data), rgb)
    luma = rgb @ [0.299, 0.587, 0.114]
    assert np.abs(decoded(data, output_type="GRAY")[..., 0] - luma).max() <= 0.51


@pytest.mark.parametrize("name", _TRANSPARENT)
def test_transparency_of_colours_is_dropped_by_dali(dali: Oracle, name):
    for output_type, within in {"RGB": 0, "GRAY": 1, "ANY_DATA": 0}.items():
        data, _ = _TRANSPARENT[name]
        theirs = dali.call("decoders.image", [np.frombuffer(data, np.uint8)], output_type=output_type).array
        assert np.abs(decoded(data, output_type=output_type).astype(int) - theirs).max() <= within


@pytest.mark.parametrize("compression", ["tiff_lzw", "packbits"])
@pytest.mark.parametrize("shape", [(500, 5941), (501, 5941), (49, 31), (13, 31), (31, 1), (2, 1), (1, 1)])
def test_large_strips_and_those_of_odd_rows_are_unpacked(shape, compression, monkeypatch):
    monkeypatch.setattr(TiffImagePlugin, "STRIP_SIZE", 1 << 30)
    shades = np.random.default_rng(3).integers(0, 4, shape).astype(np.uint8)
    data = corpus.encoded(shades, "TIFF", compression=compression)
    assert np.array_equal(decoded(data, output_type="GRAY")[..., 0], shades)
    if shades.size > 1:
        place = hostile_files.entry_of(data, 279) + 8
        half = struct.unpack_from("<I", data, place)[0] // 2
        with pytest.raises(DecodeError):
            decoders.image(hostile_files.patched(data, place, struct.pack("<I", half)))


def test_colours_are_divided_by_alpha_and_nothing_else_is():
    image = np.array([[[10, 20, 30, 100, 7], [255, 0, 9, 0, 200]]], np.uint8)
    pixels = decoded(hostile_files.varied_tiff(image, tags={338: [1, 0]}), output_type="ANY_DATA")
    assert pixels.tolist() == [[[26, 51, 77, 100, 7], [255, 0, 255, 0, 200]]]
    gray = hostile_files.varied_tiff(image[..., 2:4], tags={338: [1], 262: [0]})
    assert decoded(gray, output_type="ANY_DATA").tolist() == [[[255 - 77, 100], [0, 0]]]


# -- batches


def test_a_batch_of_equal_sizes_is_one_array():
    data = np.frombuffer(corpus.encoded(corpus.photo(), "JPEG"), np.uint8)
    batch = decoders.image(as_batch([data] * 3))
    assert batch.whole is not None
    assert batch.shape == [(21, 33, 3)] * 3
    ragged = decoders.image(as_batch([data, np.frombuffer(corpus.small_files()["PNG"], np.uint8)]))
    assert ragged.shape == [(21, 33, 3), (5, 7, 3)]


def test_every_failing_sample_is_named():
    good = np.frombuffer(corpus.small_files()["PNG"], np.uint8)
    files = [good, good[:50], np.frombuffer(b"text", np.uint8), good]
    names = ["a/0.png", "a/1.png", "b/2.txt", "b/3.png"]
    batch = Batch(files, None, Origin(0, np.arange(4, dtype=np.uint64), names))
    for function in (decoders.image, ndd.peek_image_shape):
        with pytest.raises(DecodeError) as caught:
            function(batch)
        failures = caught.value.failures
        assert [(f.index, f.source) for f in failures] == [(1, "a/1.png"), (2, "b/2.txt")]
        assert failures[0].format == "PNG"
        assert "image" in str(caught.value)
        assert all(f.reason in str(caught.value) for f in failures)


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_for_the_right_reason(name, capfd):
    data, kind = BAD[name]
    with pytest.raises(getattr(errors, kind)) as caught:
        decoders.image(data)
    (failure,) = caught.value.failures
    assert failure.reason
    assert failure.format or kind in ("UnsupportedImage", "TruncatedImage")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", FORMATS)
def test_cut_files_are_refused(name, capfd):
    data = FORMATS[name]
    whole = decoders.image(data)
    for end in range(0, len(data), max(1, len(data) // 60)):
        try:
            result = decoders.image(np.frombuffer(data[:end], np.uint8))
        except DecodeError:
            continue
        assert end > 0.9 * len(data)  # only what does not belong to the first picture was cut
        assert np.array_equal(result.array, whole.array)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_give_an_image_or_an_error(name, capfd):
    data = FORMATS[name]
    random = np.random.default_rng(len(name))
    refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        for place in random.integers(len(data), size=random.integers(1, 4)):
            damaged[place] ^= 1 << random.integers(8)
        try:
            assert decoders.image(bytes(damaged)).ndim == 3
        except DecodeError:
            refused += 1
    if name.startswith("PNG"):
        assert refused == 60  # it has checksums over everything
    assert capfd.readouterr() == ("", "")


SIGNATURES = [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF89a", b"II*\0", b"P5 "]


@given(st.binary(max_size=100), st.sampled_from(SIGNATURES))
def test_any_bytes_give_an_image_or_an_error(content, start):
    try:
        assert decoders.image(start + content).ndim == 3
    except DecodeError as error:
        assert error.failures[0].reason  # noqa: PT017


def test_limits():
    jpeg = FORMATS["JPEG progressive"]
    for limit, low, high in (
        ("max_pixels", 21 * 33 - 1, 21 * 33),
        ("max_scans", 9, 10),
        ("max_encoded_bytes", 10, len(jpeg)),
    ):
        with pytest.raises(errors.ImageTooLarge, match=limit):
            decoders.image(jpeg, **{limit: low})
        assert decoders.image(jpeg, **{limit: high}).shape == (21, 33, 3)
        for wrong in (0, -1, 1.5, "9"):
            with pytest.raises(ArgumentError, match=limit):
                decoders.image(jpeg, **{limit: wrong})


@pytest.mark.parametrize("shape", [(1, 1_000_000), (1_000_000, 1), (1, (1 << 20) + 1), ((1 << 20) + 1, 1)])
def test_very_long_images_are_decoded_or_refused_quietly(shape, capfd):
    pixels = np.zeros(shape, np.uint8)
    pixels[0, 0], pixels[-1, -1] = 9, 77
    files = [corpus.encoded(pixels, format) for format in ("BMP", "PPM", "TIFF")]
    some = [corpus.png(pixels[..., None], 8, 0), corpus.encoded(pixels, "JPEG2000", irreversible=False)]
    some += [corpus.encoded(pixels, "TIFF", compression="tiff_lzw")] if shape[0] == 1 else []
    for data in files if sum(shape) > 1_000_001 else [*files, *some]:
        assert np.array_equal(decoders.image(data, output_type="GRAY").array[..., 0], pixels)
    for data in some if sum(shape) > 1_000_001 else []:
        with pytest.raises(errors.UnsupportedImage, match="pixels, where up to|1 rows of 1048577 bytes"):
            decoders.image(data)
    assert capfd.readouterr() == ("", "")


def test_pixels_of_many_channels_count_as_more():
    pixels = np.zeros((10, 12, 8), np.uint8)
    data = hostile_files.varied_tiff(pixels)
    assert decoded(data, max_pixels=240).shape == (10, 12, 3)
    with pytest.raises(errors.ImageTooLarge, match="12 x 10 pixels of 8 channels, more than max_pixels=239 of 4"):
        decoders.image(data, max_pixels=239)


@given(
    image=npst.arrays(
        np.uint8,
        npst.array_shapes(min_dims=2, max_dims=2, min_side=16, max_side=70),
        elements=st.sampled_from([0, 128, 9]),
    ),
    colours=st.sampled_from([None, 3, 4]),
    options=st.fixed_dictionaries(
        {"irreversible": st.just(False), "plt": st.booleans(), "no_jp2": st.booleans(), "mct": st.integers(0, 1)},
        optional={
            "progression": st.sampled_from(["LRCP", "RLCP", "RPCL", "PCRL", "CPRL"]),
            "num_resolutions": st.integers(1, 4),
            "codeblock_size": st.sampled_from([(4, 4), (8, 32), (64, 64)]),
            "precinct_size": st.sampled_from([(32, 64), (128, 32)]),
            "tile_size": st.tuples(st.integers(20, 80), st.integers(20, 80)),
            "quality_layers": st.sampled_from([[9, 1], [40, 20, 3, 1]]),
        },
    ),
)
def test_jpeg_2000_in_any_order_of_its_packets(image, colours, options):
    """Every packet is walked over, so no order, size of precinct or number of layers may be taken wrongly."""
    pixels = image if colours is None else np.stack([image + np.uint8(c) for c in range(colours)], axis=2)
    data = corpus.encoded(pixels, "JPEG2000", **options)
    assert np.array_equal(decoded(data, output_type="ANY_DATA"), pixels.reshape(*image.shape, -1))
    cut = data[: -2 - len(data) // 9] + data[-2:]
    with pytest.raises(DecodeError):
        decoders.image(cut)


@given(
    screen=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    bits=st.integers(2, 8),
    interlaced=st.booleans(),
    own=st.booleans(),
    data=st.data(),
)
def test_gif_frames_lie_on_their_background(screen, bits, interlaced, own, data):
    """The codes are written without tables, so that no encoder or decoder but the one that is used has a say."""
    height, width = (data.draw(st.integers(1, extent)) for extent in screen)
    top, left = (data.draw(st.integers(0, a - b)) for a, b in zip(screen, (height, width), strict=True))
    colours = data.draw(npst.arrays(np.uint8, (2, 1 << bits, 3)))
    indices = data.draw(npst.arrays(np.uint8, (height, width), elements=st.integers(0, (1 << bits) - 1)))
    background = data.draw(st.integers(0, (1 << bits) - 1))
    expected = np.broadcast_to(colours[0, background], (*screen, 3)).copy()
    expected[top : top + height, left : left + width] = colours[int(own)][indices]
    passes = [(0, 8), (4, 8), (2, 4), (1, 2)] if interlaced else [(0, 1)]
    stored = np.concatenate([indices[first::step] for first, step in passes])
    file = hostile_files.gif(
        screen, (top, left), stored, colours[0], colours[1] if own else None, background, bits, interlaced=interlaced
    )
    assert np.array_equal(decoded(file), expected)
    for wrong in (
        file[:-3],
        hostile_files.gif(screen, (top, left), stored[:-1], colours[0], None, 0, bits, rows=height),
    ):
        with pytest.raises(DecodeError):
            decoders.image(wrong)


def test_openjpeg_sees_no_segment_that_it_does_not_need(monkeypatch):
    """Its faults are mostly in what indexes tiles and packets: here lengths of one part, where there are four."""
    seen, real = [], jpeg2000.imdecode
    monkeypatch.setattr(jpeg2000, "imdecode", lambda *arguments: seen.append(bytes(arguments[2])) or real(*arguments))
    files = {name: hostile_files.files()[f"JPEG 2000: {name}"] for name in ("CPRL, precincts, layers", "color")}
    comment, lengths = b"\xff\x64\0\6\0\1hi", b"\xff\x55\0\x0a\0\x60\0\0\0\0\0\x14"
    for file in files.values():
        bare = file.data[file.data.index(b"\xff\x4f\xff\x51") :]
        start = bare.index(b"\xff\x52")
        data = bare[:start] + comment + lengths + bare[start:]
        assert np.array_equal(decoded(data), file.pixels)
        stream = seen[-1][seen[-1].index(b"\xff\x4f\xff\x51") :]
        head = stream[: stream.index(b"\xff\x90")]
        assert len(stream) < len(data)
        assert not any(marker in head for marker in (b"\xff\x64", b"\xff\x55", b"\xff\x58"))
        parts = [stream[at : at + 14] for at in range(len(stream)) if stream[at : at + 4] == b"\xff\x90\0\x0a"]
        assert [struct.unpack_from(">H", part, 4)[0] for part in parts] == list(range(len(parts)))
        assert {part[10:] for part in parts} == {b"\0\1\xff\x93"}


def test_wrong_inputs():
    for bad in (np.zeros((2, 2), np.uint8), np.uint8(3)):
        with pytest.raises(ArgumentError, match="one dimension"):
            decoders.image(bad)
    with pytest.raises(ArgumentError, match="dtype uint8"):
        decoders.image(np.zeros(4, np.int8))
    with pytest.raises(ArgumentError, match="output_type"):
        decoders.image(FORMATS["PNG"], output_type="HSV")
    for word in (ndd.types.RGB, 0, "rgb", ndd.ImageType.RGB):
        assert decoders.image(FORMATS["PNG"], output_type=word).shape == (5, 7, 3)


# -- files


def test_values_of_pnm_reach_the_full_range():
    found = decoders.image(b"P5 3 1 10\n" + bytes([0, 5, 10]), output_type="GRAY")
    assert found.array.ravel().tolist() == [0, 128, 255]
    wide = decoders.image(b"P5 2 1 1000\n" + (500).to_bytes(2, "big") + (1000).to_bytes(2, "big"), output_type="GRAY")
    assert wide.array.ravel().tolist() == [128, 255]


def test_imread(tmp_path):
    paths = [tmp_path / name for name in ("a b.png", "ü.jpg")]
    for path, name in zip(paths, ("PNG", "JPEG"), strict=True):
        path.write_bytes(FORMATS[name])
    one = ndd.imread(paths[0])
    assert isinstance(one, Tensor)
    assert np.array_equal(one.array, decoders.image(FORMATS["PNG"]).array)
    assert ndd.imread(str(paths[0]), output_type="GRAY", device="cpu").shape == (5, 7, 1)
    assert ndd.imread(os.fsencode(paths[1])).shape == (5, 7, 3)
    many = ndd.imread(paths)
    assert isinstance(many, Batch)
    assert len(many) == 2
    assert len(ndd.imread([])) == 0
    letters = [np.frombuffer(os.fsencode(path), np.uint8) for path in paths]
    assert np.array_equal(ndd.imread(ndd.as_tensor(letters[0])).array, one.array)
    assert all(np.array_equal(a, b) for a, b in zip(ndd.imread(as_batch(letters)).samples, many.samples, strict=True))
    with pytest.raises(ArgumentError, match="'path' must be a path, or bytes .*; got int32 of 1 dimensions"):
        ndd.imread(ndd.as_tensor([1, 2]))
    with pytest.raises(ArgumentError, match="'path' must be a path, or bytes .*; got uint8 of 0 dimensions"):
        ndd.imread(ndd.as_tensor(np.uint8(65)))
    assert np.array_equal(ndd.imread(np.array(str(paths[0]))).array, one.array)
    with pytest.raises(ArgumentError, match=r"'path' must be a path or a sequence of paths; got float 0\.5"):
        ndd.imread(np.array(0.5))
    with pytest.raises(ArgumentError, match=r"^imread\(\): argument 'on_error' must be one of 'raise', 'skip', 'null'"):
        ndd.imread(paths[0], on_error="drop")
    with pytest.raises(ArgumentError, match=r"^imread\(\) has no argument 'max_pixel'. Did you mean 'max_pixels'\?"):
        ndd.imread(paths[0], max_pixel=3)


def test_imread_names_what_it_cannot_read(tmp_path):
    good = tmp_path / "good.png"
    good.write_bytes(FORMATS["PNG"])
    (tmp_path / "bad.png").write_bytes(b"text")
    os.mkfifo(tmp_path / "fifo.png")
    with pytest.raises(DataError) as caught:
        ndd.imread([good, tmp_path / "none.png", tmp_path, tmp_path / "fifo.png"])
    failures = caught.value.failures
    assert [f.index for f in failures] == [1, 2, 3]
    assert [f.source for f in failures] == [str(tmp_path / "none.png"), str(tmp_path), str(tmp_path / "fifo.png")]
    with pytest.raises(errors.UnsupportedImage, match=re.escape(f"sample 1 ({tmp_path / 'bad.png'})")):
        ndd.imread([good, tmp_path / "bad.png"])
    for bad in (3, None, [3], [None], np.zeros(3)):
        with pytest.raises(ArgumentError, match=r"imread\(\): argument 'path"):
            ndd.imread(bad)
    with pytest.raises(ArgumentError, match="Did you mean"):
        ndd.imread(good, output_typ="RGB")


@pytest.mark.parametrize("path", ["x.jpg", Path("x.jpg"), ["x.jpg", "y.jpg"], [Path("x.jpg")]], ids=str)
@pytest.mark.parametrize("function", [
    decoders.image, decoders.image_crop, decoders.image_slice, decoders.image_random_crop, decoders.numpy,
    ndd.peek_image_shape, ndd.as_tensor,
], ids=lambda function: function.__name__)  # fmt: skip
def test_who_gives_a_path_for_bytes_is_told_of_imread(function, path):
    with pytest.raises(ArgumentError, match="'(encoded|data)' must be numbers.*imread and readers take paths"):
        function(path)
