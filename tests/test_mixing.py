"""Mixup, cutmix, partners and `sometimes`: each sample has its own numbers, whatever its batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamic as ndd
from dynamic import ArgumentError, Batch, as_batch, cutmix, mixup, sometimes
from dynamic.ops.mixing import _windows
from dynamic.pipeline import fn, pipeline_def
from dynamic.random import RNG
from dynamic.readers import File, Map, Mix

DTYPES = st.sampled_from(["uint8", "float32", "int16", "float64", "float16"])


def noise(n, shape, dtype, seed=0):
    array = (np.random.default_rng(seed).random((n, *shape)) * 200).astype(dtype)
    array.setflags(write=False)
    return array


# -- mixup and cutmix


@given(st.integers(0, 5), DTYPES, st.booleans(), st.floats(0.01, 4), st.integers(0, 99))
def test_mixup_keeps_a_share_of_image_and_label(n, dtype, dense, alpha, seed):
    own, theirs = noise(n, (4, 5, 3), dtype), noise(n, (4, 5, 3), dtype, 1)
    images = as_batch(own if dense or not n else list(own), layout="HWC")
    labels, others = np.arange(n), np.arange(n)[::-1].copy()
    pair = as_batch(theirs, layout="HWC"), as_batch(others)
    mixed, soft = mixup(images, as_batch(labels), partners=pair, alpha=alpha, num_classes=6, rng=RNG(seed))
    shares = np.asarray(ndd.random.beta(alpha=alpha, beta=alpha, batch_size=n, rng=RNG(seed)))
    assert (mixed.dtype, mixed.layout, soft.dtype) == (images.dtype, "HWC", "f32")
    expected = np.zeros((n, 6), np.float32)
    for i, share in enumerate(shares):
        expected[i, labels[i]] += share
        expected[i, others[i]] += np.float32(1) - share
        exact = own[i].astype(float) * share + theirs[i].astype(float) * (1 - share)
        assert np.allclose(mixed.samples[i], exact, atol=0.51 if np.dtype(dtype).kind in "iu" else 0.2)
    assert np.array_equal(soft.dense(), expected)


@given(st.integers(0, 5), DTYPES, st.floats(0.05, 4), st.integers(0, 99), st.sampled_from(["HWC", "CHW", "HW"]))
def test_cutmix_puts_a_window_whose_area_the_label_has(n, dtype, alpha, seed, layout):
    shape = {"HWC": (7, 9, 3), "CHW": (3, 7, 9), "HW": (7, 9)}[layout]
    own, theirs = np.zeros((n, *shape), dtype), np.ones((n, *shape), dtype)
    pair = as_batch(theirs, layout=layout), np.ones(n, int)
    labels = as_batch(np.zeros(n, int))
    mixed, soft = cutmix(as_batch(own, layout=layout), labels, partners=pair, alpha=alpha, num_classes=2, rng=RNG(seed))
    for image, label in zip(mixed, soft, strict=True):
        plane = image.array if layout == "HW" else np.moveaxis(image.array, layout.index("C"), -1)[..., 0]
        rows, columns = np.flatnonzero(plane.any(1)), np.flatnonzero(plane.any(0))
        assert plane.astype(int).sum() == len(rows) * len(columns)
        area = plane.astype(int).sum() / 63
        assert np.allclose(label.array, [1 - area, area])


@given(st.integers(1, 40), st.integers(1, 40), st.floats(0, 1), st.floats(0, 1, exclude_max=True), st.floats(0, 0.99))
def test_windows_are_those_of_torchvision(height, width, share, x, y):
    """The formula of its CutMix, with the same centre."""
    half = 0.5 * np.sqrt(1.0 - np.float32(share).astype(float))
    r_x, r_y, half_w, half_h = int(x * width), int(y * height), int(half * width), int(half * height)
    box = max(r_x - half_w, 0), max(r_y - half_h, 0), min(r_x + half_w, width), min(r_y + half_h, height)
    kept = 1 - (box[2] - box[0]) * (box[3] - box[1]) / (width * height)
    boxes, shares = _windows(np.array([[width, height]]), np.array([share], np.float32), np.array([[x, y]]))
    assert boxes.tolist() == [list(box)]
    assert shares[0] == pytest.approx(kept)


@pytest.mark.parametrize("mix", [mixup, cutmix])
def test_samples_are_mixed_alike_in_any_batch_and_alone(mix):
    images, others = noise(6, (8, 8, 3), "uint8"), noise(6, (8, 8, 3), "uint8", 1)
    labels, theirs, ids = np.arange(6), np.arange(6)[::-1].copy(), np.arange(6) * 7

    def made(places):
        pair = as_batch(others[places], layout="HWC"), theirs[places]
        draws = RNG(3).keyed(ids[places])
        found = mix(as_batch(images[places], layout="HWC"), labels[places], partners=pair, num_classes=6, rng=draws)
        return [each.dense() for each in found]

    whole = made(np.arange(6))
    for places in ([4], [5, 0, 2], [1, 3]):
        for one, other in zip(made(np.array(places)), whole, strict=True):
            assert np.array_equal(one, other[places])
    draws = RNG(3).keyed(14)
    pair = ndd.as_tensor(others[2], layout="HWC"), 3
    image, soft = mix(ndd.as_tensor(images[2], layout="HWC"), 2, partners=pair, num_classes=6, rng=draws)
    assert np.array_equal(image.array, whole[0][2])
    assert np.array_equal(soft.array, whole[1][2])


def test_partners_in_the_batch_are_the_samples_before():
    images = as_batch(noise(4, (3, 3, 1), "float32"), layout="HWC")
    labels = np.arange(4)
    rolled = images.select([3, 0, 1, 2]), labels[[3, 0, 1, 2]]
    for mix in (mixup, cutmix):
        one = mix(images, labels, partners="batch", num_classes=4, rng=RNG(1))
        other = mix(images, labels, partners=rolled, num_classes=4, rng=RNG(1))
        assert all(np.array_equal(a.dense(), b.dense()) for a, b in zip(one, other, strict=True))
    again = mixup(*cutmix(images, labels, partners="batch", num_classes=4), partners="batch")
    assert np.allclose(again[1].dense().sum(1), 1)


def test_samples_of_any_kind_are_mixed():
    sounds = as_batch([np.ones(4, np.float32), np.zeros(7, np.float32)])
    mixed, soft = mixup(sounds, [0, 1], partners=(sounds, [1, 1]), num_classes=2, rng=RNG(1))
    assert np.allclose(mixed.samples[0], 1)
    assert soft.dense()[1].tolist() == [0, 1]
    with pytest.raises(ArgumentError, match="laid out with H and W"):
        cutmix(sounds, [0, 1], partners=(sounds, [1, 1]), num_classes=2)


@pytest.mark.parametrize("rng", [RNG(1), RNG(1).keyed([3, 4])])
def test_a_mixture_that_fails_has_drawn_nothing(monkeypatch, rng):
    images = as_batch(noise(2, (3, 3, 1), "uint8"), layout="HWC")
    turn = rng.turn
    for name, mix in (("_mixed", mixup), ("_cut", cutmix)):
        monkeypatch.setattr(f"dynamic.ops.mixing.{name}", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mix(images, [0, 1], partners="batch", num_classes=2, rng=rng)
        assert rng.turn == turn


def test_what_cannot_be_mixed_is_refused():
    images, labels = as_batch(noise(2, (3, 3, 1), "uint8"), layout="HWC"), [0, 1]
    wrong = {
        "images and labels, or 'batch'": {"partners": "others"},
        "of 2": {"partners": (images[:1], [0])},
        "of dtype u8": {"partners": (as_batch(noise(2, (3, 3, 1), "float32")), labels)},
        "of the shape of the image": {"partners": (as_batch(noise(2, (3, 4, 1), "uint8")), labels)},
        "classes of 0 to 0": {"partners": "batch", "num_classes": 1},
        "given where labels are integers": {"partners": "batch", "num_classes": None},
        "labels of 2 samples": {"partners": (images, [0, 1, 2])},
        "a number above 0": {"partners": "batch", "alpha": 0},
        "for 2 samples": {"partners": "batch", "rng": RNG(1).keyed([1, 2, 3])},
    }
    for text, arguments in wrong.items():
        with pytest.raises(ArgumentError, match=text):
            mixup(images, labels, **{"num_classes": 2, **arguments})
    with pytest.raises(ArgumentError, match="no Batch"):
        mixup(images[0], 0, partners="batch", num_classes=2)
    with pytest.raises(ArgumentError, match="with 2 numbers"):
        mixup(images, np.eye(2, dtype=np.float32), partners=(images, np.ones((2, 3), np.float32)))


# -- partners


def numbered(folder, n):
    for i in range(n):
        (folder / f"{i:03}.bin").write_bytes(bytes([i]))
    return str(folder)


def pairs(reader, epochs=1, batch_size=4, seed=9):
    """The partner of each sample."""
    found = {}
    for epoch in range(epochs):
        for own, *_ in reader.next_epoch(batch_size=batch_size):
            before = reader.get_state()
            theirs = reader.partners(RNG(seed).keyed(own)["partners"])[0]
            assert reader.get_state() == before
            assert theirs.origin.epoch == epoch
            for one, other in zip(own, theirs, strict=True):
                found[epoch, one.item()] = other.item()
    return found


@pytest.mark.parametrize("shuffle", [False, True])
def test_partners_are_the_same_for_any_batch_size_and_number_of_shards(tmp_path, shuffle):
    root = numbered(tmp_path, 23)

    def reader(**shard):
        return File(file_root=root, files=[f"{i:03}.bin" for i in range(23)], random_shuffle=shuffle, seed=3, **shard)

    known = pairs(reader(), 2)
    assert len(known) == 46
    assert known == pairs(reader(), 2, 7)
    shards = [pairs(reader(shard_id=i, num_shards=3), 2, 5) for i in range(3)]
    assert known == {key: value for shard in shards for key, value in shard.items()}
    assert known != pairs(reader(), 2, seed=8)
    first, second = ([known[epoch, i] for i in range(23)] for epoch in range(2))
    assert first != second
    assert len(set(first)) > 10


def test_partners_are_drawn_evenly():
    reader = Map(dataset=[np.array([i]) for i in range(10)])
    counts = np.zeros(10)
    for own, *_ in reader.next_epoch(batch_size=10):
        for seed in range(200):
            theirs = reader.partners(RNG(seed).keyed(own))[0]
            counts += np.bincount(theirs.dense().reshape(-1), minlength=10)
    assert np.abs(counts - 200).max() < 60


@pytest.mark.parametrize("chosen", [{"where": lambda row: row.item() % 2 == 0}, {"weights": np.tile([1.0, 0.0], 10)}])
def test_partners_are_chosen_as_samples_are(chosen):
    rows = [np.array([i]) for i in range(20)]
    found = pairs(Map(dataset=rows, random_shuffle=True, **chosen), 2)
    assert found == pairs(Map(dataset=rows, random_shuffle=True, **chosen), 2, 3)
    assert len(set(found.values())) > 4
    assert not any(partner % 2 for partner in found.values())


def test_partners_of_mixtures_and_of_one_sample():
    few, more = ([np.array([start + i]) for i in range(count)] for start, count in ((0, 5), (9, 9)))
    mix = Mix({"few": Map(dataset=few), "more": Map(dataset=more)}, weights={"few": 1, "more": 2})
    found = pairs(mix)
    assert set(found.values()) <= {*range(5), *range(9, 18)}
    reader = Map(dataset=[np.array([i]) for i in range(10)])
    (one,) = next(reader.next_epoch())
    (other,) = reader.partners(RNG(1).keyed(one)["p"])
    assert isinstance(other, ndd.Tensor)
    with pytest.raises(ArgumentError, match="draws of RNG.keyed"):
        reader.partners(RNG(1))


def test_a_partner_that_cannot_be_read_is_the_next_one(tmp_path):
    root, files = numbered(tmp_path, 9), [f"{i:03}.bin" for i in range(9)]
    readers = {word: File(file_root=root, files=files, on_error=word) for word in ("raise", "skip", "replace")}
    draws = RNG(1).keyed(np.arange(50))
    whole = readers["raise"].partners(draws["p"])[0].dense().reshape(-1)
    (tmp_path / "004.bin").unlink()
    failing = draws["p"]
    with pytest.raises(ndd.DataError, match="004.bin"):
        readers["raise"].partners(failing)
    assert failing.turn == 0
    for word in ("skip", "replace"):
        found = readers[word].partners(draws["p"])[0].dense().reshape(-1)
        assert np.array_equal(found, np.where(whole == 4, 5, whole))
        assert not readers[word].skipped


# -- sometimes


@given(st.integers(0, 6), st.floats(0, 1), st.booleans(), st.integers(0, 99))
def test_chosen_samples_are_changed_and_the_others_stay(n, probability, each, seed):
    images = Batch([noise(1, (4 + i, 5, 3), "uint8", i)[0] for i in range(n)], "HWC", dtype=np.dtype("uint8"), ndim=3)
    sigma = as_batch(np.linspace(0.5, 2, n).astype(np.float32)) if n else 1.0
    chance = as_batch(np.linspace(0, 1, n)) if each and n else probability
    found = sometimes(chance, ndd.gaussian_blur, images, sigma=sigma, rng=RNG(seed))
    coins = np.asarray(ndd.random.uniform(range=(0.0, 1.0), dtype="float64", batch_size=n, rng=RNG(seed)))
    blurred = ndd.gaussian_blur(images, sigma=sigma)
    least = np.linspace(0, 1, n) if each else np.full(n, probability)
    assert len(found) == n
    for i in range(n):
        expected = blurred if coins[i] < least[i] else images
        assert np.array_equal(found.samples[i], expected.samples[i])


@given(st.data(), st.floats(0, 1), st.integers(0, 9))
def test_draws_of_chosen_samples_are_their_own(data, probability, seed):
    images, ids = noise(6, (9, 9, 3), "uint8"), np.arange(6) * 5

    def made(places):
        draws = RNG(seed).keyed(ids[places])
        batch = as_batch(images[places], layout="HWC")
        first = sometimes(probability, ndd.random_resized_crop, batch, size=4, rng=draws)
        second = sometimes(probability, ndd.noise.gaussian, batch, stddev=9.0, rng=draws)
        return [[sample.tolist() for sample in found] for found in (first, second)]

    whole = made(np.arange(6))
    places = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    assert made(np.array(places)) == [[column[i] for i in places] for column in whole]


@pytest.mark.parametrize("operator", [ndd.flip, ndd.random_resized_crop, ndd.noise.gaussian])
def test_a_stream_moves_on_alike_whoever_is_chosen(operator):
    arguments = {"size": 4} if operator is ndd.random_resized_crop else {}
    images, states = as_batch(noise(3, (9, 9, 3), "uint8"), layout="HWC"), set()
    for probability in (0, 0.5, 1):
        rng = RNG(5)
        sometimes(probability, operator, images, rng=rng, **arguments)
        states.add(rng.state)
    assert len(states) == 1
    with pytest.raises(ArgumentError):
        sometimes(1, operator, images, rng=rng, angel=3)
    assert rng.state in states


def test_sometimes_images_move_with_their_boxes():
    images = as_batch(noise(8, (9, 9, 3), "uint8"), layout="HWC")
    boxes = Batch([np.array([[1, 1, 3, 5]] * (i % 3), np.float32).reshape(-1, 4) for i in range(8)])
    labels = Batch([np.arange(i % 3) for i in range(8)])
    rng = RNG(2)
    found = sometimes(0.5, ndd.together, ndd.flip, image=images, boxes=boxes, labels=labels, rng=rng)
    moved = ndd.together(ndd.flip, image=images, boxes=boxes, labels=labels)
    assert list(found) == list(moved)
    changed = [not np.array_equal(a, b) for a, b in zip(found["image"].samples, images.samples, strict=True)]
    assert 0 < sum(changed) < 8
    for i, was in enumerate(changed):
        own = moved if was else {"image": images, "boxes": boxes, "labels": labels, "kept": labels}
        for name, batch in found.items():
            assert np.array_equal(batch.samples[i], own[name].samples[i]), name
    one = sometimes(0.0, ndd.together, ndd.flip, image=images[1], boxes=boxes[1])
    assert one["boxes"].tolist() == boxes[1].tolist()
    keyed = RNG(2).keyed(np.arange(8))
    some = sometimes(0.5, ndd.together, ndd.random_resized_crop, image=images, boxes=boxes, size=9, rng=keyed)
    alone = sometimes(0.5, ndd.together, ndd.random_resized_crop, image=images[3:5], boxes=boxes[3:5], size=9,
                      rng=RNG(2).keyed([3, 4]))  # fmt: skip
    assert [b.tolist() for b in some["boxes"]][3:5] == [b.tolist() for b in alone["boxes"]]


def test_sometimes_of_one_sample_and_of_functions():
    image = ndd.as_tensor(noise(1, (4, 4, 3), "uint8")[0], layout="HWC")
    found = {sometimes(0.5, ndd.flip, image, rng=RNG(seed)).numpy().tobytes() for seed in range(9)}
    assert found == {image.numpy().tobytes(), ndd.flip(image).numpy().tobytes()}
    images = as_batch(noise(3, (4, 4, 3), "uint8"), layout="HWC")
    twice = sometimes(1, lambda batch: ndd.flip(ndd.flip(batch, vertical=1)), images)
    assert np.array_equal(twice.dense(), ndd.flip(images, horizontal=0, vertical=1).dense())


def test_what_sometimes_cannot_do_is_refused():
    images = as_batch(noise(40, (4, 4, 3), "uint8"), layout="HWC")
    wrong = {
        "keeps the dtype": (ndd.cast, {"dtype": "float32"}),
        "keeps the layout": (ndd.transpose, {"perm": (2, 0, 1)}),
        "a Batch of 40": (ndd.flip, {"horizontal": as_batch([1, 0])}),
        "as many": (ndd.get_property, {"key": "layout"}),
    }
    for text, (operator, arguments) in wrong.items():
        if operator is ndd.get_property:
            operator = lambda batch: batch[:1]  # noqa: E731
            arguments = {}
        with pytest.raises(ArgumentError, match=text):
            sometimes(0.5, operator, images, **arguments)
    for probability in (-0.1, 2, "often", as_batch([0.5])):
        with pytest.raises(ArgumentError, match="probability"):
            sometimes(probability, ndd.flip, images)
    with pytest.raises(ArgumentError, match="operator"):
        sometimes(0.5, "flip", images)
    with pytest.raises(ArgumentError, match="input"):
        sometimes(0.5, ndd.flip)


def test_in_pipelines_chance_is_that_of_the_samples(tmp_path):
    for i in range(6):
        np.save(tmp_path / f"{i}.npy", noise(1, (9, 9, 3), "uint8", i)[0])

    def made(batch_size):
        @pipeline_def(batch_size=batch_size, seed=5)
        def moved():
            images = as_batch(fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy"), layout="HWC")
            return fn.sometimes(0.5, fn.random_resized_crop, images, size=9)

        pipeline = moved()
        return [sample.tolist() for _ in range(6 // batch_size) for sample in pipeline.run()[0]]

    whole = made(6)
    assert whole == made(2) == made(3)
    same = [image == noise(1, (9, 9, 3), "uint8", i)[0].tolist() for i, image in enumerate(whole)]
    assert 0 < sum(same) < 6


@pytest.mark.gpu
@pytest.mark.parametrize("mix", [mixup, cutmix])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_gpu_mixes_alike(mix, dtype):
    images, others = (as_batch(noise(3, (6, 7, 3), dtype, seed), layout="HWC") for seed in range(2))
    labels, theirs = as_batch([0, 1, 2]), as_batch([2, 2, 0])
    known = mix(images, labels, partners=(others, theirs), num_classes=3, rng=RNG(1))
    found = mix(images.gpu(), labels.gpu(), partners=(others.gpu(), theirs.gpu()), num_classes=3, rng=RNG(1))
    for one, other in zip(found, known, strict=True):
        assert one.device == "gpu:0"
        assert np.array_equal(one.cpu().dense(), other.dense())


@pytest.mark.gpu
def test_a_gpu_flips_sometimes():
    images = as_batch(noise(6, (6, 7, 3), "uint8"), layout="HWC")
    found = sometimes(0.5, ndd.flip, images.gpu(), rng=RNG(1))
    assert found.device == "gpu:0"
    assert np.array_equal(found.cpu().dense(), sometimes(0.5, ndd.flip, images, rng=RNG(1)).dense())
