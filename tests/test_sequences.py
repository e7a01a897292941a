"""The order of samples and frames, properties, and values for each frame: by hand, and as DALI does it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from alike import alike, ours
from dali_oracle import Laid, Oracle, Samples, dali_fixture  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from strategies import ALL_DTYPES

import dynamic as ndd
from dynamic import (
    ArgumentError,
    Batch,
    as_batch,
    as_tensor,
    element_extract,
    flip,
    full_like,
    get_property,
    per_frame,
    permute_batch,
    resize,
    rotate,
    sequence_rearrange,
    warp_affine,
)
from dynamic._base.origin import Origin

VIDEO = np.random.default_rng(1).integers(0, 255, (4, 5, 6, 3)).astype(np.uint8)
VIDEO.setflags(write=False)
NOTHING = Batch([], None, None, np.dtype(np.uint8), 2)


def origin(n):
    return Origin(0, np.arange(n, dtype=np.uint64), [f"class/{i}.jpg" for i in range(n)])


# -- samples


@given(data=st.data())
def test_samples_change_places(data):
    samples = [np.full(data.draw(st.integers(0, 3)), i) for i in range(data.draw(st.integers(1, 5)))]
    places = [data.draw(st.integers(0, len(samples) - 1)) for _ in samples]
    batch = Batch(samples, "X", origin(len(samples)))
    for indices in (places, np.array(places), as_tensor(places), as_batch(places), as_batch([[p] for p in places])):
        found = permute_batch(batch, indices=indices)
        assert found.tolist() == [samples[p].tolist() for p in places]
        assert list(found.origin.names) == [f"class/{p}.jpg" for p in places]
        assert found.layout == "X"
    assert permute_batch(as_batch(np.arange(3)), indices=[2, 0, 0]).whole.tolist() == [2, 0, 0]


def test_one_sample_is_a_batch_of_one():
    assert permute_batch(VIDEO, indices=0).shape == VIDEO.shape
    assert len(permute_batch(VIDEO, indices=[0, 0], batch_size=2)) == 2
    empty = permute_batch(NOTHING, indices=[])
    assert (len(empty), empty.ndim) == (0, 2)


# -- frames of sequences


def test_a_sequence_may_be_rearranged_to_nothing():
    assert sequence_rearrange(VIDEO, new_order=[]).shape == (0, *VIDEO.shape[1:])


@given(data=st.data())
def test_frames_change_places(data):
    dtype = data.draw(st.sampled_from(ALL_DTYPES))
    videos = [VIDEO[: data.draw(st.integers(1, 4)), :2, :2].astype(dtype) for _ in range(3)]
    orders = [data.draw(st.lists(st.integers(-len(v), len(v) - 1), max_size=5)) for v in videos]
    found = sequence_rearrange(as_batch(videos, layout="FHWC"), new_order=as_batch(orders, dtype="i32"))
    for sample, video, order in zip(found.samples, videos, orders, strict=True):
        assert np.array_equal(sample, video[np.array(order, int)])
    assert found.layout == "FHWC"
    mirrored = videos[0][::-1]
    assert np.array_equal(sequence_rearrange(mirrored, new_order=-1).array, mirrored[-1:])
    for where in (as_tensor(videos[0], layout="FHWC"), as_batch([videos[0]] * 2, layout="FHWC"),
                  as_batch(np.stack([videos[0]] * 2), layout="FHWC")):  # fmt: skip
        first, last = element_extract(where, element_map=[0, -1])
        for part, frame in ((first, videos[0][0]), (last, videos[0][-1])):
            assert part.layout == "HWC"
            for sample in part.samples if isinstance(part, Batch) else [part.array]:
                assert np.array_equal(sample, frame)


def test_shapes_of_single_frames():
    assert element_extract([[1, 2], [3, 4]], element_map=1).tolist() == [3, 4]
    assert element_extract([1, 2], element_map=[1]).tolist() == 2
    batch = element_extract(as_batch([[1, 2], [3]]), element_map=0)
    assert batch.tolist() == [1, 3]
    for empty in (as_batch(VIDEO)[:0], Batch([], None, None, np.dtype("u1"), 3)):
        found = element_extract(empty, element_map=3)
        assert (len(found), found.ndim, found.dtype.name) == (0, 2, "u8")
    assert len(element_extract(VIDEO, element_map=0, batch_size=3)) == 3


# -- properties


def test_properties():
    batch = Batch([np.zeros(1), np.zeros(2)], "X", origin(2))
    assert [bytes(x.numpy()) for x in get_property(batch, key="source_info")] == [b"class/0.jpg", b"class/1.jpg"]
    assert [bytes(x.numpy()) for x in get_property(batch, key="layout")] == [b"X", b"X"]
    assert bytes(get_property(batch[1], key="source_info").numpy()) == b"class/1.jpg"
    assert get_property(VIDEO, key="layout").shape == get_property(VIDEO, key="source_info").shape == (0,)
    empty = get_property(batch[:0], key="layout")
    assert (len(empty), empty.ndim, empty.dtype.name) == (0, 1, "u8")


# -- values for each frame


def test_marking_frames():
    assert per_frame([1, 2]).layout == "F"
    assert per_frame(np.zeros((2, 3))).layout == "F*"
    assert per_frame(as_tensor([[1]], layout="FX"), replace=None).layout == "FX"
    assert per_frame(as_tensor([[1]], layout="WX"), replace=True).layout == "FX"
    batch = as_batch(np.zeros((2, 3)))
    assert np.shares_memory(per_frame(batch).whole, batch.whole)
    assert per_frame(NOTHING).layout == "F*"


@pytest.mark.parametrize("data", [as_batch([[1, 2]]), as_tensor([1, 2])], ids=["Batch", "Tensor"])
@pytest.mark.parametrize("function", [
    functools.partial(permute_batch, indices=[0]), per_frame, functools.partial(get_property, key="layout"),
    functools.partial(element_extract, element_map=0),
])  # fmt: skip
@pytest.mark.parametrize(("argument", "value"), [
    ("batch_size", np.array([2, 3])), ("batch_size", -1), ("batch_size", 10**30), ("batch_size", 1.0),
    ("batch_size", True), ("device", 5), ("device", "cpuu"),
])  # fmt: skip
def test_batch_sizes_and_devices_that_are_none_are_refused_by_name(data, function, argument, value):
    name = getattr(function, "func", function).__name__
    with pytest.raises(ArgumentError, match=rf"^{name}\(\): argument .{argument}"):
        function(data, **{argument: value})


@pytest.mark.parametrize(("function", "needed"), [
    (permute_batch, "indices"), (per_frame, None), (element_extract, "element_map"), (get_property, "key"),
    (ndd.cast_like, None),
])  # fmt: skip
def test_wrong_calls_are_refused_in_the_words_of_operators(function, needed):
    name, data = function.__name__, [as_tensor([1, 2])] * (2 if function is ndd.cast_like else 1)
    for inputs in ([], [*data, data[0], 1]):
        with pytest.raises(ArgumentError, match=rf"^{name}\(\) takes .*; got {len(inputs)}\."):
            function(*inputs)
    with pytest.raises(ArgumentError, match=rf"^{name}\(\) has no argument 'batchsize'. Did you mean 'batch_size'"):
        function(*data, batchsize=3)
    if needed:
        with pytest.raises(ArgumentError, match=rf"^{name}\(\): argument '{needed}' must be given; got nothing"):
            function(*data)


@pytest.mark.parametrize("whole", [False, True])
def test_each_frame_has_its_own_value(whole):
    mirrored = np.stack([VIDEO[0], VIDEO[1][:, ::-1], VIDEO[2], VIDEO[3][:, ::-1]])
    values = per_frame([0, 1, 0, 1])
    found = flip(as_tensor(VIDEO, layout="FHWC"), horizontal=values)
    assert (found.layout, found.tolist()) == ("FHWC", mirrored.tolist())
    assert flip(VIDEO, horizontal=values, batch_size=2).tolist() == [mirrored.tolist()] * 2
    videos = as_batch(np.stack([VIDEO, VIDEO]) if whole else [VIDEO, VIDEO], layout="FHWC")
    both = flip(videos, horizontal=values)
    assert both.tolist() == [mirrored.tolist()] * 2
    assert both.layout == "FHWC"
    own = flip(videos, horizontal=per_frame(as_batch([[0, 1, 0, 1], [0, 0, 0, 0]])), vertical=as_batch([0, 1]))
    assert own.tolist() == [mirrored.tolist(), VIDEO[:, ::-1].tolist()]
    assert flip(as_tensor(VIDEO, layout="FHWC"), horizontal=per_frame([1])).tolist() == VIDEO[:, :, ::-1].tolist()
    several = flip(as_tensor(VIDEO, layout="FHWC"), horizontal=per_frame(as_batch([[1] * 4, [0] * 4])))
    assert several.tolist() == [VIDEO[:, :, ::-1].tolist(), VIDEO.tolist()]


def test_videos_of_different_lengths_and_sizes():
    videos = as_batch([VIDEO, VIDEO[:2, :3], VIDEO[:0]], layout="FHWC")
    values = per_frame(as_batch([[1, 0, 0, 1], [1, 0], np.zeros(0, np.int32)], dtype="i32"))
    found = flip(Batch(videos.samples, "FHWC", origin(3)), horizontal=values)
    assert found.shape == [(4, 5, 6, 3), (2, 3, 6, 3), (0, 0, 0, 0)]  # no frame tells what it would have become
    assert np.array_equal(found.samples[1], np.stack([VIDEO[0, :3, ::-1], VIDEO[1, :3]]))
    assert list(found.origin.names) == ["class/0.jpg", "class/1.jpg", "class/2.jpg"]
    none = flip(videos[:0], horizontal=values[:0])
    assert (len(none), none.ndim, none.layout) == (0, 4, "FHWC")


#: What DALI 2.4 makes of a video of some extents by some angles, one a frame.
CANVASES = {
    ((20, 31), (10, 0, 0)): (26, 35), ((20, 31), (10, 20, 45)): (38, 37), ((20, 31), (90, 90, 90)): (31, 20),
    ((20, 31), (90, 0)): (32, 32), ((20, 31), (90, 90, 0)): (31, 32), ((20, 31), (90, 90, 0, 0)): (32, 32),
    ((20, 31), (50, 70, 10)): (37, 36), ((20, 31), (10, 50, 70, 20)): (38, 36), ((21, 31), (60, 30)): (39, 39),
    ((20, 30), (45, 0)): (36, 36), ((7, 4), (45, 0)): (8, 8), ((7, 4), (60, 30)): (10, 10),
    ((7, 4), (90, 90, 0)): (8, 7), ((7, 4), (50, 70, 10)): (8, 9),
}  # fmt: skip


@pytest.mark.parametrize(("extents", "angles"), CANVASES)
def test_frames_that_turn_by_their_own_angles_share_a_canvas(extents, angles):
    generator = np.random.default_rng(3)
    video = as_tensor(generator.integers(0, 255, (len(angles), *extents, 3), np.uint8), layout="FHWC")
    turned = rotate(video, angle=per_frame(np.array(angles, np.float32)), fill_value=7)
    assert turned.shape == (len(angles), *CANVASES[extents, angles], 3)
    for frame, found, angle in zip(video, turned, angles, strict=True):
        alone = rotate(frame, angle=float(angle), fill_value=7, size=[float(x) for x in CANVASES[extents, angles]])
        assert np.array_equal(found.numpy(), alone.numpy())
    batch = as_batch([video, video[:1]])
    both = rotate(batch, angle=per_frame(as_batch([np.array(angles, np.float32), np.zeros(1, np.float32)])))
    assert both.shape == [turned.shape, (1, *extents, 3)]
    assert rotate(video, angle=per_frame(np.array(angles, np.float32)), keep_size=True).shape == video.shape


def test_volumes_that_turn_by_their_own_angles_share_a_canvas():
    volumes = as_tensor(np.zeros((2, 3, 4, 6), np.uint8), layout="FDHW")
    found = rotate(volumes, angle=per_frame(np.array([0, 90], np.float32)), axis=(0, 0, 1))
    assert found.shape == (2, 3, 6, 6)
    with pytest.raises(ArgumentError, match="'axis' must be the"):
        rotate(volumes, angle=per_frame(np.array([0, 90], np.float32)))


def test_an_input_may_have_values_for_each_frame():
    numbers = per_frame(np.arange(4, dtype=np.uint8)[:, None, None, None])
    found = full_like(as_tensor(VIDEO, layout="FHWC"), numbers)
    assert [np.unique(frame).tolist() for frame in found.array] == [[0], [1], [2], [3]]


@pytest.mark.parametrize(("call", "told"), [
    (lambda: permute_batch(as_batch([1, 2]), indices=[0]), "'indices' must be 2 integers"),
    (lambda: permute_batch(as_batch([1, 2]), indices=[0, 2]), r"'indices' must be in \[0, 1\]"),
    (lambda: permute_batch(as_batch([1, 2]), indices=[0, -1]), r"'indices' must be in \[0, 1\]"),
    (lambda: permute_batch(as_batch([1, 2]), indices=[0.0, 1.0]), "'indices' must be 2 integers"),
    (lambda: permute_batch(as_batch([1, 2]), indices=[0, 1], batch_size=3), "'batch_size' must be 2"),
    (lambda: get_property(as_tensor([1]), key=np.array([2, 3])), "'key' must be 'source_info' or 'layout'"),
    (lambda: get_property(as_tensor([1]), key=["layout"]), "'key' must be 'source_info' or 'layout'"),
    (lambda: sequence_rearrange(VIDEO, new_order=[4]), r"'new_order' must be in \[-4, 3\]"),
    (lambda: sequence_rearrange(as_tensor(VIDEO, layout="DHWC"), new_order=[0]), "'input' must be a sequence"),
    (lambda: sequence_rearrange(3, new_order=[0]), "'input' must be a sequence"),
    (lambda: sequence_rearrange(VIDEO[:0], new_order=[0]), "'new_order' must be empty"),
    (lambda: element_extract(VIDEO, element_map=4), r"'element_map' must be in \[-4, 3\]"),
    (lambda: element_extract(as_batch([VIDEO, VIDEO[:2]]), element_map=2), r"'element_map' must be in \[-2, 1\]"),
    (lambda: element_extract(VIDEO, element_map=[]), "'element_map' must be one or more integers"),
    (lambda: element_extract(VIDEO, element_map=as_batch([[0], [0, 1]])), "'element_map' must be .* for all samples"),
    (lambda: element_extract(VIDEO, element_map=[0.5]), "'element_map' must be one or more integers"),
    (lambda: element_extract(as_tensor(VIDEO, layout="DHWC"), element_map=0), "'input' must be a sequence"),
    (lambda: get_property(VIDEO, key="name"), "'key' must be 'source_info' or 'layout'"),
    (lambda: per_frame(3), "'input' must be of one or more dimensions"),
    (lambda: per_frame([1, 2], replace=np.array([0, 1])), "'replace' must be True or False"),
    (lambda: per_frame(as_tensor([1], layout="X")), "'input' must be laid out with F first.*replace=True"),
    (lambda: flip(VIDEO, horizontal=per_frame([1, 0, 1])), "flip.*'horizontal' must be a value for each of the 4"),
    (lambda: flip(as_batch([VIDEO, VIDEO]), horizontal=per_frame(as_batch([[1] * 4, [0] * 3]))),
     r"'horizontal\[1\]' must be a value for each of the 4"),
    (lambda: flip(VIDEO[0], horizontal=per_frame([1, 0])), "'horizontal' must be given only with a video"),
    (lambda: resize(VIDEO, resize_x=per_frame([3, 4, 3, 3])), "resize.*'resize_x' must be a value that gives all"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(call, told):
    with pytest.raises(ArgumentError, match=told):
        call()


# -- as DALI does it


@given(data=st.data())
def test_sequences_are_dalis(dali: Oracle, data):
    dtype = data.draw(st.sampled_from([str(d) for d in ALL_DTYPES]))
    layout = data.draw(st.sampled_from(["", "FHWC"]))
    videos = [VIDEO[: data.draw(st.integers(1, 4)), :, : data.draw(st.integers(1, 4))].astype(dtype) for _ in range(3)]
    batch = Samples(videos, layout or None)
    orders = [data.draw(st.lists(st.integers(0, len(v) - 1), min_size=1, max_size=5)) for v in videos]
    alike(dali, "sequence_rearrange", [batch], new_order=Samples([np.array(order, np.int32) for order in orders]))
    alike(dali, "sequence_rearrange", [Laid(videos[0], layout)], new_order=orders[0])
    least = min(map(len, videos))
    element_map = data.draw(st.lists(st.integers(0, least - 1), min_size=1, max_size=3))
    alike(dali, "element_extract", [batch], element_map=element_map)
    alike(dali, "element_extract", [Laid(videos[0], layout)], element_map=element_map)
    places = [data.draw(st.integers(0, 2)) for _ in videos]
    alike(dali, "permute_batch", [batch], indices=Samples(places))
    alike(dali, "get_property", [batch], key=data.draw(st.sampled_from(["layout", "source_info"])))
    alike(dali, "per_frame", [batch])
    alike(dali, "per_frame", [Samples(videos, "DHWC")], replace=True)


@given(data=st.data())
def test_values_for_each_frame_are_dalis(dali: Oracle, data):
    counts = [data.draw(st.integers(1, 4)) for _ in range(2)]
    videos = Samples([VIDEO[:n, : 5 - i] for i, n in enumerate(counts)], "FHWC")
    size = data.draw(st.sampled_from([{"keep_size": True}, {"size": [7, 8], "fill_value": 9.0}]))
    for name, argument, values, more in (
        ("rotate", "angle", st.floats(-180, 180, width=16), size),
        ("brightness", "brightness", st.floats(0, 2, width=16), {}),
        ("gaussian_blur", "sigma", st.floats(0.5, 3, width=16), {}),
    ):
        own = [np.array([data.draw(values) for _ in range(n)], np.float32) for n in counts]
        expected = dali.call(name, [videos], **{argument: Samples(own, "F")}, **more)
        found = getattr(ndd, name)(ours(videos), **{argument: per_frame(as_batch(own))}, **more)
        close(found, expected)
    matrices = [np.array([[[1, data.draw(st.floats(0, 1, width=16)), i], [0, 1, 0.5]] for i in range(n)], np.float32)
                for n in counts]  # fmt: skip
    expected = dali.call("warp_affine", [videos, Samples(matrices, "F**")], fill_value=3.0)
    close(warp_affine(ours(videos), per_frame(as_batch(matrices)), fill_value=3.0), expected)


def close(found, expected):
    """Whether bytes differ by one at most."""
    assert found.layout == expected.layout
    for a, b in zip(found.samples, expected.samples, strict=True):
        assert a.shape == b.shape
        assert np.abs(a.astype(int) - b).max() <= 1


def videos(counts: list[int], single: bool) -> Any:
    """Videos of so many frames; the last one by itself."""
    frames = [np.zeros((n, 4, 5, 3), np.uint8) for n in counts]
    return as_tensor(frames[-1], layout="FHWC") if single else as_batch(frames, layout="FHWC")


def values(counts: list[int], single: bool, wrong: tuple[int, int], usual: float, other: float) -> Any:
    """A number for each frame, one of which is another."""
    numbers = [np.full(n, usual, np.float32) for n in counts]
    numbers[wrong[0]][wrong[1]] = other
    return per_frame(numbers[-1] if single else as_batch(numbers))


@given(data=st.data(), counts=st.lists(st.integers(1, 4), min_size=1, max_size=4), single=st.booleans())
def test_errors_number_samples_and_their_frames(data, counts, single):
    sample = len(counts) - 1 if single else data.draw(st.integers(0, len(counts) - 1))
    frame = data.draw(st.integers(0, counts[sample] - 1))
    item = f"[{frame}]" if single else f"[{sample}][{frame}]"
    where = f"frame {frame} of {counts[sample]}"
    where = where if single else f"sample {sample} of {len(counts)}, {where}"
    video, wrong = videos(counts, single), (sample, frame)
    for call in (
        lambda angle: rotate(video, angle=angle),
        lambda angle: rotate(video, angle=angle, keep_size=True),
        lambda angle: ndd.transforms.rotation(angle=angle),
    ):
        with pytest.raises(ArgumentError) as caught:
            call(values(counts, single, wrong, 1.0, np.nan))
        assert caught.value.argument == f"angle{item}"
    with pytest.raises(ArgumentError, match="'crop_h' must be no larger than 4") as caught:
        ndd.crop(video, crop_h=values(counts, single, wrong, 2.0, 9.0))
    assert caught.value.__notes__ == [f"In crop(), {where}: shape (4, 5, 3) uint8, layout HWC."]


def test_errors_number_what_is_for_all_frames_by_its_sample():
    video = videos([2, 3], False)
    for angle, name in ((as_batch([1.0, np.nan]), "angle[1]"), (per_frame(as_batch([[1.0], [np.nan]])), "angle[1][0]")):
        with pytest.raises(ArgumentError) as caught:
            rotate(video, angle=angle, fill_value=0, size=per_frame(as_batch([[[2.0, 2]] * 2, [[2.0, 2]] * 3])))
        assert caught.value.argument == name


def test_files_with_values_for_each_frame_are_told_by_their_samples():
    good, bad = (np.frombuffer(b"P5 3 1 255 " + bytes(range(n)), np.uint8) for n in (3, 2))
    places = per_frame(as_batch([[0.0, 0.5], [0.0, 1.0]]))
    files, arguments = as_batch([good, bad]), {"crop": (1, 1), "crop_pos_x": places, "output_type": "GRAY"}
    with pytest.raises(ndd.DecodeError) as caught:
        ndd.decoders.image_crop(files, **arguments)
    assert [failure.index for failure in caught.value.failures] == [1]
    assert caught.value.total == 2
    with pytest.raises(ArgumentError, match="'on_error' must be 'raise' or 'null'"):
        ndd.decoders.image_crop(files, on_error="skip", **arguments)
    windows = ndd.decoders.image_crop(as_batch([good, good]), on_error="skip", **arguments)
    assert windows.tolist() == [[[[[0]]], [[[1]]]], [[[[0]]], [[[2]]]]]


def test_an_image_with_a_matrix_for_each_frame_may_have_arguments_for_all():
    matrices = np.stack([np.float32([[1, 0, k], [0, 1, 0]]) for k in range(3)])
    image = as_tensor(VIDEO[0], layout="HWC")
    found = ndd.warp_affine(image, per_frame(matrices), fill_value=7, size=[4.0, 4.0])
    assert found.layout == "FHWC"
    for frame, matrix in zip(found, matrices, strict=True):
        assert np.array_equal(frame.numpy(), ndd.warp_affine(image, matrix, fill_value=7, size=[4.0, 4.0]).numpy())


def test_frames_of_several_shapes_by_an_input_are_named_by_it():
    video = as_tensor(VIDEO[:2], layout="FHWC")
    with pytest.raises(ArgumentError, match=r"slice\(\): argument 'anchor' must be a value that gives all frames"):
        ndd.slice(video, per_frame([[0], [0]]), per_frame([[1], [2]]), axes=0)


def test_ragged_indices_of_samples_are_refused_by_name():
    with pytest.raises(ArgumentError, match="permute_batch.*'indices' must be 2 integers, one for each sample"):
        permute_batch(as_batch([1, 2]), indices=as_batch([[0, 1], [0]]))
