"""JPEG files decoded on a GPU: by what stands in for nvImageCodec and cupy, and on the host by nvImageCodec itself."""

from __future__ import annotations

import importlib
import inspect
import sys

import corpus
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin import has_gpu

import dynamic as ndd
from dynamic import DecodeError, DeviceError, as_batch, decoders
from dynamic.kernels.gpu import jpeg

FILES = {
    f"{turn} {name}": corpus.encoded(image, "JPEG", turn, quality=90, subsampling=sampling, progressive=progressive)
    for turn in range(1, 9)
    for name, image, sampling, progressive in (
        ("420", corpus.photo(21 + turn, 33), 2, False),
        ("444 progressive", corpus.photo(20, 30 + turn), 0, True),
        ("gray", np.ascontiguousarray(corpus.photo(17, 19 + turn)[..., 0]), 0, False),
    )
}
OTHERS = {name: file for name, file in corpus.small_files().items() if not name.startswith("JPEG")}
BAD = {name: file for name, (file, _) in corpus.bad().items()}


def with_damage(file: bytes) -> bytes:
    """Damage in the coded data, which a walk over the markers does not find."""
    start = file.index(b"\xff\xda") + 30
    return file[:start] + b"\xff\x00" * 30 + file[start + 60 :]


DAMAGED = with_damage(corpus.encoded(corpus.photo(60, 90), "JPEG"))


@pytest.fixture
def codec(monkeypatch):
    """nvImageCodec on a GPU that has it, else the stand-in; the second says whether it is that."""
    if has_gpu():
        return pytest.importorskip("nvidia.nvimgcodec", reason="nvImageCodec is not installed"), False
    module = importlib.import_module("twin.nvimgcodec")
    module.Decoder.calls.clear()
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", module)
    return module, True


def batch_of(files):
    return as_batch([np.frombuffer(file, np.uint8) for file in files])


def compare(found, expected, *, exact=False):
    """Pixels of a GPU beside those of the CPU: each of the stand-in is 1 level off, those of a real one few or none."""
    assert (found.layout, found.dtype, len(found)) == (expected.layout, expected.dtype, len(expected))
    for a, b in zip(found.cpu().samples, expected.samples, strict=True):
        assert a.shape == b.shape
        most = 1.0 if b.dtype.kind == "f" else float(np.iinfo(b.dtype).max)
        levels = np.abs(a.astype(float) - b.astype(float)) * 255 / most
        limit = 0 if exact else 8 if has_gpu() else 1.2 if b.dtype == "float16" else 1.01
        assert levels.max(initial=0) <= limit
        assert exact or has_gpu() or not b.size or levels.max() > 0


@pytest.mark.gpu
@pytest.mark.parametrize("output_type", ["RGB", "BGR", "GRAY", "ANY_DATA"])
def test_every_orientation_and_output_type(codec, output_type):
    files = batch_of(FILES.values())
    if output_type == "ANY_DATA":  # samples of one Batch have as many channels
        files = batch_of(file for name, file in FILES.items() if "gray" not in name)
    found = decoders.image(files, device="gpu", output_type=output_type)
    assert found.device == "gpu:0"
    compare(found, decoders.image(files, output_type=output_type))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "uint16", "int16", "float64"])
def test_every_range_of_values(codec, dtype):
    files = batch_of(FILES.values())
    device = "gpu:1" if sys.modules["cupy"].cuda.runtime.getDeviceCount() > 1 else "gpu"
    compare(decoders.image(files, device=device, dtype=dtype), decoders.image(files, dtype=dtype))


@pytest.mark.gpu
def test_one_call_decodes_a_batch(codec):
    module, stands_in = codec
    same = batch_of([FILES["1 420"]] * 5)
    found = decoders.image(same, device="gpu")
    assert found.whole is not None
    if stands_in:
        assert module.Decoder.calls == [5]
    one = decoders.image(FILES["1 420"], device="gpu")
    assert (one.device, one.layout) == ("gpu:0", "HWC")
    assert np.array_equal(one.cpu().numpy(), found[0].cpu().numpy())


@pytest.mark.gpu
@given(data=st.data())
def test_windows_are_those_of_the_cpu(data):
    with pytest.MonkeyPatch.context() as patch:
        if not has_gpu():
            patch.setitem(sys.modules, "nvidia.nvimgcodec", importlib.import_module("twin.nvimgcodec"))
        elif jpeg.library() is None:
            pytest.skip("nvImageCodec is not installed")
        files = batch_of(data.draw(st.lists(st.sampled_from([*FILES.values()]), min_size=1, max_size=3)))
        place = st.floats(0, 1, width=32)
        crop = {"crop": (data.draw(st.integers(0, 16)), data.draw(st.integers(0, 16))),
                "crop_pos_x": data.draw(place), "crop_pos_y": data.draw(place)}  # fmt: skip
        upright = data.draw(st.booleans())
        compare(decoders.image_crop(files, device="gpu", adjust_orientation=upright, **crop),
                decoders.image_crop(files, adjust_orientation=upright, **crop))  # fmt: skip
        start, end = sorted((data.draw(place), data.draw(place)))
        part = {"rel_start": start, "rel_end": end, "axis_names": data.draw(st.sampled_from("HW"))}
        compare(decoders.image_slice(files, device="gpu", **part), decoders.image_slice(files, **part))
        seed = data.draw(st.integers(0, 99))
        compare(decoders.image_random_crop(files, device="gpu", rng=ndd.random.RNG(seed)),
                decoders.image_random_crop(files, rng=ndd.random.RNG(seed)))  # fmt: skip


@pytest.mark.gpu
def test_what_a_gpu_does_not_decode_is_decoded_here(codec):
    files = [file for pair in zip(OTHERS.values(), FILES.values(), strict=False) for file in pair]
    found = decoders.image(batch_of(files), device="gpu")
    expected = decoders.image(batch_of(files))
    compare(found[[*range(0, len(files), 2)]], expected[::2], exact=True)
    compare(found[[*range(1, len(files), 2)]], expected[1::2])
    ycbcr = batch_of(FILES.values())
    compare(decoders.image(ycbcr, device="gpu", output_type="YCbCr"), decoders.image(ycbcr, output_type="YCbCr"),
            exact=True)  # fmt: skip


@pytest.mark.gpu
def test_without_nvimagecodec_all_is_decoded_here(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", None)
    assert jpeg.library() is None
    files = batch_of(FILES.values())
    compare(decoders.image(files, device="gpu"), decoders.image(files), exact=True)


@pytest.mark.gpu
def test_every_file_that_fails_is_named(codec):
    good = FILES["1 420"]
    files = [good, BAD[next(iter(BAD))], good, DAMAGED, good[: len(good) // 2], good[:-2], b"", good]
    for on_gpu in ({}, {"device": "gpu"}):
        with pytest.raises(DecodeError) as caught:
            decoders.image(batch_of(files), **on_gpu)
        silent = 3 if on_gpu and has_gpu() else None  # a real one decodes what is damaged
        assert [failure.index for failure in caught.value.failures] == [i for i in (1, 3, 4, 5, 6) if i != silent]
    kept = decoders.image(batch_of(files), device="gpu", on_error="skip")
    assert (len(kept), kept.device) == (4 if has_gpu() else 3, "gpu:0")
    found = decoders.image(batch_of(files), device="gpu", on_error="null")
    assert [shape == (0, 0, 3) for shape in found.shape] == [False, True, False, not has_gpu(), True, True, True, False]
    compare(found[[0, 2, 7]], decoders.image(batch_of([good] * 3)))


@pytest.mark.gpu
@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_as_on_the_cpu(codec, name):
    if has_gpu() and any(words in name for words in ("damaged", "scan ends early", "behind its scan")):
        pytest.skip("a GPU decodes a damaged scan without saying so")
    with pytest.raises(DecodeError) as expected:
        decoders.image(BAD[name])
    with pytest.raises(DecodeError) as found:
        decoders.image(BAD[name], device="gpu")
    assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))


@pytest.mark.gpu
def test_files_come_from_the_cpu(codec, tmp_path):
    files = batch_of([FILES["1 420"]])
    for function in (decoders.image, decoders.image_random_crop):
        with pytest.raises(DeviceError, match=r"takes inputs from cpu"):
            function(files.gpu())
    with ndd.Device("gpu"):
        assert decoders.image(files).device == "cpu"
    assert (len(decoders.image(files[:0], device="gpu")), decoders.image(files[:0], device="gpu").device) == (
        0,
        "gpu:0",
    )
    path = tmp_path / "a.jpg"
    path.write_bytes(FILES["1 420"])
    image = decoders.imread(path, device="gpu")
    assert (image.device, image.origin.names) == ("gpu:0", [str(path)])


def on_the_host(files, windows=None, *, gray=False):
    codec = pytest.importorskip("nvidia.nvimgcodec", reason="nvImageCodec is not installed")
    arrays = [np.frombuffer(file, np.uint8) for file in files]
    return jpeg.decoded(codec, arrays, windows or [None] * len(files), gray=gray, device_id=None)


@pytest.mark.parametrize("gray", [False, True])
def test_nvimagecodec_on_the_host(gray):
    output_type = "GRAY" if gray else "RGB"
    found = on_the_host(FILES.values(), gray=gray)
    for file, array in zip(FILES.values(), found, strict=True):
        expected = decoders.image(file, adjust_orientation=False, output_type=output_type).numpy()
        assert array.shape == expected.shape
        assert np.abs(array.astype(int) - expected).max() <= 2


def test_nvimagecodec_on_the_host_decodes_windows():
    file = FILES["1 420"]
    whole, part = on_the_host([file, file], [None, (3, 5, 11, 13)])
    assert np.array_equal(part, whole[3:14, 5:18])


def test_nvimagecodec_on_the_host_refuses_with_none(capfd):
    good = FILES["1 420"]
    found = on_the_host([good, good[:100], b"", DAMAGED, good])
    assert [array is None for array in found][:3] == [False, True, True]
    assert found[4] is not None
    assert capfd.readouterr().err


def test_the_stand_in_has_the_names_of_the_real_one():
    real = pytest.importorskip("nvidia.nvimgcodec", reason="nvImageCodec is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", importlib.import_module("twin.cupy"))
        mine = importlib.import_module("twin.nvimgcodec")
    for name in ("NVIMGCODEC_DEVICE_CPU_ONLY", "CPU_ONLY", "Backend", "CodeStream", "DecodeParams", "Region"):
        assert hasattr(real, name)
    assert real.NVIMGCODEC_DEVICE_CPU_ONLY == mine.NVIMGCODEC_DEVICE_CPU_ONLY
    for kind in ("ColorSpec", "SampleFormat", "BackendKind"):
        assert {one.name for one in getattr(mine, kind)} <= set(dir(getattr(real, kind)))
    documented = real.Decoder.__init__.__doc__ + real.DecodeParams.__init__.__doc__ + real.Decoder.decode.__doc__
    for function in (mine.Decoder.__init__, mine.DecodeParams.__init__, mine.Decoder.decode):
        for name in inspect.signature(function).parameters:
            assert f"{name}:" in documented or name == "self"
