"""The pages of the operators: made from the declarations, complete, and with the pictures that the operators make."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

import cv2
import make_operators
import numpy as np
import pytest

import dynamic as ndd
from dynamic import DeviceError
from dynamic._lift.operator import registry

DOCS = Path(__file__).parent.parent / "docs"


PAGES = make_operators.pages()
ENTRIES = [entry for path, page in PAGES.items() if path.startswith("operators/")
           for entry in re.split(r"^## ", page, flags=re.M)[1:]]  # fmt: skip


def test_the_pages_are_what_the_declarations_make():
    hint = "run `python docs/make_operators.py`"
    found = [DOCS / "operators.md", DOCS / "gallery.md", *DOCS.glob("operators/*.md")]
    assert {path.relative_to(DOCS).as_posix(): path.read_text() for path in found} == PAGES, hint


def test_every_operator_is_on_one_page_and_in_the_overview():
    headings = [entry.split("\n", 1)[0] for entry in ENTRIES]
    assert len(headings) == len(set(headings))
    assert set(registry) <= set(headings)
    assert set(make_operators.SHOWN) <= {*headings, "auto_aug"}  # which has a page of its own
    assert re.findall(r"\[([\w.]+)\]\(operators/\w+\.md#", PAGES["operators.md"]) == headings
    assert set(re.findall(r"pictures/([\w.]+)\.jpg", PAGES["gallery.md"])) == make_operators.SHOWN.keys() - {"auto_aug"}


def test_every_entry_has_an_example_and_operators_tell_what_they_return():
    for entry in ENTRIES:
        assert "\n>>> " in entry, entry.split("\n", 1)[0]
        assert "**Returns**" in entry or entry.split("\n", 1)[0] not in registry


def dumped(image):
    """The image, of which a file is written elsewhere."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return ndd.dump_image(image)


FUNCTIONS = {item.name: item for modules in make_operators.GROUPS.values() for module in modules
             for item in make_operators.members(module) if item.name not in registry}  # fmt: skip
IMAGE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
FILE = str(DOCS / "pictures" / "flip.jpg")
#: A call of each function that is not an operator, on a GPU.
CALLS = {
    "cast_like": lambda gpu: ndd.cast_like(gpu(IMAGE), np.zeros(1, "f4")),
    "decoders.image_random_crop": lambda gpu: ndd.decoders.image_random_crop(Path(FILE).read_bytes(), device="gpu"),
    "decoders.imread": lambda gpu: ndd.imread(FILE, device="gpu"),
    "element_extract": lambda gpu: ndd.element_extract(gpu(IMAGE), element_map=1),
    "get_property": lambda gpu: ndd.get_property(gpu(IMAGE), key="layout", device="gpu"),
    "io.file.read": lambda gpu: ndd.io.file.read(FILE, device="gpu"),
    "math.atan2": lambda gpu: ndd.math.atan2(gpu(IMAGE), 1),
    "math.clamp": lambda gpu: ndd.math.clamp(gpu(IMAGE), 1, 2),
    "noise.gaussian": lambda gpu: ndd.noise.gaussian(gpu(IMAGE)),
    "noise.salt_and_pepper": lambda gpu: ndd.noise.salt_and_pepper(gpu(IMAGE)),
    "noise.shot": lambda gpu: ndd.noise.shot(gpu(IMAGE)),
    "per_frame": lambda gpu: ndd.per_frame(gpu(IMAGE)),
    "permute_batch": lambda gpu: ndd.permute_batch(ndd.as_batch([IMAGE] * 2).gpu(), indices=[1, 0]),
    "random.choice": lambda gpu: ndd.random.choice(5, device="gpu"),
    "random.batch_permutation": lambda gpu: ndd.random.batch_permutation(batch_size=3, device="gpu"),
    "random_bbox_crop": lambda gpu: ndd.random_bbox_crop(np.array([[0, 0, 1, 1]], "f4"), device="gpu"),
    "random_crop_generator": lambda gpu: ndd.random_crop_generator([4, 4], device="gpu"),
    "random_resized_crop": lambda gpu: ndd.random_resized_crop(gpu(IMAGE), size=2),
    "roi_random_crop": lambda gpu: ndd.roi_random_crop(
        roi_start=[1, 1], roi_shape=[1, 1], crop_shape=[2, 2], device="gpu"),
    "segmentation.random_mask_pixel": lambda gpu: ndd.segmentation.random_mask_pixel([[0, 1]], device="gpu"),
    "segmentation.random_object_bbox": lambda gpu: ndd.segmentation.random_object_bbox([[0, 1]], device="gpu"),
    "transforms.combine": lambda gpu: ndd.transforms.combine(np.eye(2, 3), np.eye(2, 3), device="gpu"),
    "transforms.crop": lambda gpu: ndd.transforms.crop(device="gpu"),
    "transforms.rotation": lambda gpu: ndd.transforms.rotation(angle=1, device="gpu"),
    "transforms.scale": lambda gpu: ndd.transforms.scale(scale=[1, 1], device="gpu"),
    "transforms.shear": lambda gpu: ndd.transforms.shear(shear=[1, 1], device="gpu"),
    "transforms.translation": lambda gpu: ndd.transforms.translation(offset=[1, 1], device="gpu"),
    "cutmix": lambda gpu: ndd.cutmix(gpu(IMAGE), [1], partners=(gpu(IMAGE), [0]), num_classes=2)[0],
    "dump_image": lambda gpu: dumped(gpu(IMAGE)),
    "ssd_random_crop": lambda gpu: ndd.ssd_random_crop(gpu(IMAGE), [[0.1, 0.2, 0.3, 0.4]], [1])[0],
    "mixup": lambda gpu: ndd.mixup(gpu(IMAGE), [1], partners=(gpu(IMAGE), [0]), num_classes=2)[0],
    "sometimes": lambda gpu: ndd.sometimes(1.0, ndd.flip, gpu(IMAGE)),
    "together": lambda gpu: ndd.together(ndd.flip, image=gpu(IMAGE))["image"],
    **{f"random.{name}": lambda gpu, name=name: getattr(ndd.random, name)(device="gpu")
       for name in ("beta", "coin_flip", "normal", "uniform")},
    **{f"math.{name}": lambda gpu, name=name: getattr(ndd.math, name)(gpu(IMAGE), 2)
       for name in ("max", "min", "pow", "fpow")},
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_page_tells_where_functions_run(name):
    if name in ("random.set_seed", "random.get_default_rng"):
        pytest.skip("it makes no data")
    call = CALLS.get(name) or (lambda gpu: FUNCTIONS[name].function(gpu(IMAGE)))
    if make_operators.devices(FUNCTIONS[name]) == "CPU":
        with pytest.raises(DeviceError, match=rf"{name.removeprefix('random.')}\(\) runs on cpu"):
            call(lambda array: ndd.as_tensor(array, layout="HWC").gpu())
        return
    layout = "FHW" if name == "per_frame" or name == "element_extract" else "HWC"
    result = call(lambda array: ndd.as_tensor(array, layout=layout).gpu())
    assert result.device == "gpu:0"


@pytest.mark.parametrize("name", make_operators.SHOWN)
def test_pictures_show_what_the_operators_do(name):
    pytest.importorskip("skimage")
    photo = make_operators.photo()
    expected = make_operators.picture(name, photo)
    file = cv2.imread(str(DOCS / "pictures" / f"{name}.jpg"))[..., ::-1]
    assert file.shape == expected.shape
    blurred = [cv2.blur(image, (5, 5)).astype(int) for image in (file, expected)]
    assert np.abs(blurred[0] - blurred[1]).mean() < 4  # it was stored as a JPEG
    assert name == "crop" or expected.shape != photo.shape or np.abs(expected.astype(int) - photo.numpy()).mean() > 1
