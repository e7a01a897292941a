"""Writes the pages of the operators, `gallery.md`, and their pictures, from the declarations of the operators.

    python docs/make_operators.py

`operators.md` lists the families, and `operators/` has a page for each. A test compares the pages with what this makes,
so run it after every change of an operator.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy

import dynamic
from dynamic._lift.argument import IGNORED, Argument
from dynamic._lift.operator import Operator
from dynamic.auto_aug import augmentations, core, rand_augment
from dynamic.dtypes import ALL, DType

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
HEIGHT, WIDTH = 150, 225  # pixels of the photo that the pictures show

#: The modules of each family by its title, in the order of the pages.
GROUPS = {
    "Decoding": ["decoders", "io.file"],
    "Geometry": ["ops.geometry", "ops.resize", "ops.warps", "ops.jitter"],
    "Coordinates": ["ops.coordinates", "transforms"],
    "Windows": ["ops.windows", "ops.random_windows", "ops.slices", "ops.paste"],
    "Colours": ["ops.color", "ops.histograms", "ops.bayer"],
    "Filters": ["ops.filters", "experimental"],
    "Sound": ["ops.sound"],
    "Noise": ["noise"],
    "Values": ["ops.values", "ops.dump", "ops.normalize", "ops.constants"],
    "Mixing and chance": ["ops.mixing", "ops.chance"],
    "Shapes": ["ops.shape", "ops.joining", "ops.sequences"],
    "Boxes and masks": ["ops.together", "ops.boxes", "ops.box_crops", "ops.ssd_crop", "segmentation"],
    "Mathematics": ["math"],
    "Reductions": ["reductions"],
    "Random numbers": ["random"],
}

#: Functions that are no operators of the lift, and that no GPU runs; a test calls them there.
CPU_ONLY = frozenset({
    "noise.shot", "random.batch_permutation", "random.beta", "random.choice", "random.get_default_rng",
    "random.set_seed",
})  # fmt: skip


def augmented(image: Any) -> Any:
    """The photo, and what each augmentation of AutoAugment makes of it, in the order of `docs/augmentation.md`."""
    suite = rand_augment.get_rand_augment_suite(max_translate_abs=40)
    every = [*suite[:-1], augmentations.solarize_add, augmentations.invert]
    signs = dynamic.as_batch([1])
    strength = {"magnitude_bin": core.signed_bin(9, signs), "num_magnitude_bins": 11}
    batch = dynamic.as_batch([image])
    tiles = [numpy.asarray(each(batch, **strength)[0]) for each in (augmentations.identity, *every)]
    small = [cv2.resize(tile, (WIDTH * 3 // 5, HEIGHT * 3 // 5), interpolation=cv2.INTER_AREA) for tile in tiles]
    return dynamic.as_tensor(numpy.vstack([numpy.hstack(small[i : i + 4]) for i in range(0, 16, 4)]), layout="HWC")


def together(image: Any) -> Any:
    """The photo with boxes, and after the operators of `docs/boxes_and_masks.md`."""
    boxes = numpy.array([[67, 42, 105, 74], [147, 54, 171, 82], [115, 113, 146, 134]], "float32")
    tiles = []
    for call, arguments in (
        (dynamic.flip, {"horizontal": 0}),
        (dynamic.flip, {}),
        (dynamic.rotate, {"angle": 20, "fill_value": 0, "keep_size": True}),
        (dynamic.random_resized_crop, {"size": (HEIGHT, WIDTH), "rng": dynamic.random.RNG(4)}),
        (dynamic.warp_affine, SHOWN["warp_affine"]),
        (dynamic.experimental.warp_perspective, SHOWN["experimental.warp_perspective"]),
    ):
        found = dynamic.together(call, image=image, boxes=boxes, **arguments)
        tile = found["image"].numpy().copy()
        for left, top, right, bottom in numpy.rint(found["boxes"].numpy()).astype(int).tolist():
            cv2.rectangle(tile, (left, top), (right - 1, bottom - 1), (40, 220, 255), 2)
        tiles.append(tile)
    return dynamic.as_tensor(numpy.vstack([numpy.hstack(tiles[i : i + 3]) for i in (0, 3)]), layout="HWC")


#: The picture of an operator: its arguments for the photo, with the `seed` of its stream, or a function of the photo.
SHOWN: dict[str, Mapping[str, Any] | Callable[[Any], Any]] = {
    "auto_aug": augmented,
    "together": together,
    "rotate": {"angle": 20, "fill_value": 0},
    "flip": {},
    "warp_affine": {"matrix": [1.0, 0.3, -25.0, 0.0, 1.2, -15.0], "fill_value": 0},
    "experimental.warp_perspective": {"matrix": [1.2, 0.3, -50.0, 0.0, 1.4, -20.0, 0.0, 0.003, 0.8]},
    "resize": {"size": (75, 180)},
    "random_resized_crop": {"size": 150, "seed": 4},
    "resize_crop_mirror": {"resize_shorter": 180, "crop": (150, 150), "mirror": 1},
    "sphere": {"interp_type": "linear"},
    "water": {"interp_type": "linear", "ampl_x": 5, "ampl_y": 5, "freq_x": 0.1, "freq_y": 0.1},
    "crop": {"crop": (90, 120), "crop_pos_x": 0.3},
    "crop_mirror_normalize": {"crop": (120, 180), "mirror": 1, "mean": 40, "std": 0.7, "output_layout": "HWC"},
    "slice": {"rel_start": (0.2, 0.1), "rel_end": (0.9, 0.8)},
    "pad": {"axis_names": "HW", "shape": (170, 245), "fill_value": 120},
    "erase": {"anchor": (20, 30, 80, 140), "shape": (50, 60, 40, 50)},
    "paste": {"ratio": 1.3, "fill_value": (40, 80, 120), "paste_x": 0.8},
    "grid_mask": {"tile": 40, "ratio": 0.4, "angle": 0.4},
    "brightness": {"brightness": 1.5},
    "contrast": {"contrast": 0.5},
    "hue": {"hue": 90},
    "saturation": {"saturation": 0.3},
    "hsv": {"hue": -40, "saturation": 1.3, "value": 0.8},
    "color_space_conversion": {"image_type": "RGB", "output_type": "GRAY"},
    "equalize": {},
    "color_twist": {"hue": 60, "saturation": 1.5},
    "brightness_contrast": {"brightness": 1.2, "contrast": 1.4},
    "clahe": {"tiles_x": 4, "tiles_y": 4, "clip_limit": 4},
    "jpeg_compression_distortion": {"quality": 4},
    "gaussian_blur": {"sigma": 3.0},
    "laplacian": {"window_size": 5},
    "experimental.median_blur": {"window_size": 9},
    "experimental.dilate": {"mask_size": 7},
    "experimental.erode": {"mask_size": 7},
    "jitter": {"nDegree": 9, "seed": 1},
    "noise.gaussian": {"stddev": 25, "seed": 1},
    "noise.shot": {"factor": 5, "seed": 1},
    "noise.salt_and_pepper": {"prob": 0.1, "seed": 1},
}

INTRODUCTION = """\
# Operators

Every operator takes a Tensor, a Batch, or anything that `as_tensor` takes. It returns a Tensor, or a Batch if any input
or argument is one. Arguments are given by keyword, and each page marks those that may differ *per sample*: a Batch has
one value for each sample. Every operator also takes `device` and `batch_size`, the number of samples to make of inputs
that are no Batch.

An operator runs on a GPU where its inputs are there and its page says so. Inputs of decoders stay on the CPU, and
`device="gpu"` places the result. An operator of the CPU alone refuses data on a GPU.

An input without a layout is read as the first layout of its page with as many dimensions. In a layout F are the frames
and D is the depth.

[The gallery](gallery.md) shows what they do to a photo. To write one, see
[operators of your own](custom_operators.md).

"""

NAMES = """\
All examples of this page assume:

```python
>>> import numpy
>>> import dynamic as ndd

```
"""

GALLERY = """\
# Gallery

One photo, and the result of each operator that changes pictures, with the arguments of the call.
The name leads to its page.

"""


class Documented(NamedTuple):
    """A function of the pages."""

    name: str
    function: Any
    arguments: Mapping[str, Argument]

    @property
    def text(self) -> str:
        """Its docstring."""
        return inspect.getdoc(inspect.unwrap(self.function)) or ""


def members(module_name: str) -> Iterator[Documented]:
    """The operators and other functions of a module, as it lists them."""
    module = importlib.import_module(f"dynamic.{module_name}")
    for name in module.__all__:
        function = getattr(module, name)
        if isinstance(function, Operator) and function.__module__ != module.__name__:
            continue  # it has its place
        public = name if module_name.startswith("ops.") or name == "peek_image_shape" else f"{module_name}.{name}"
        if isinstance(function, Operator):
            yield Documented(function.name, function, function.arguments)
        elif inspect.isfunction(function) and (not module_name.startswith("ops.") or name in dynamic.__all__):
            yield Documented(public, function, getattr(function, "arguments", {}))


def section(text: str, title: str) -> str:
    """One section of a docstring, without its indentation."""
    found = re.search(rf"^{title}:\n(.*?)(?=\n\n|\Z)", text, re.M | re.S)
    return inspect.cleandoc(found.group(1)) if found else ""


def described(text: str) -> dict[str, str]:
    """What a docstring says of each argument."""
    entries = re.split(r"^(?=\w+: )", section(text, "Args"), flags=re.M)
    pairs = [entry.split(": ", 1) for entry in entries if ": " in entry]
    return {name: " ".join(what.split()) for name, what in pairs}


def default(value: Any) -> str:
    """A default as a program would write it."""
    if value is inspect.Parameter.empty:
        return "*required*"
    return "" if value is None else f'`"{value}"`' if isinstance(value, DType) else f"`{value!r}`"


def table(item: Documented) -> list[str]:
    """The arguments."""
    told = described(item.text)
    if not told:
        return []
    parameters = inspect.signature(item.function).parameters
    rows = ["| argument | type | default | |", "|---|---|---|---|"]
    for name, what in told.items():
        if name in parameters and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            known = item.arguments.get(name)
            kind = (
                ""
                if known is None
                else known.kind.expected.split(" such as")[0] + (", *per sample*" if known.per_sample else "")
            )
            rows.append(f"| `{name}` | {kind} | {default(parameters[name].default)} | {what} |".replace("|  |", "| |"))
    return [*rows, ""] if len(rows) > 2 else []


def accepted(function: Any) -> list[str]:
    """What the first input may be."""
    if not isinstance(function, Operator) or not function.inputs:
        return []
    layouts = ", ".join(function.layouts) if function.layouts else "any, or none"
    names = sorted((dynamic.dtype(kind).word for kind in function.dtypes), key=[t.word for t in ALL].index)
    return [f"Layouts: {layouts}. Element types: {'all' if len(names) == len(ALL) else ', '.join(names)}.", ""]


def devices(item: Documented) -> str:
    """Where it runs."""
    if isinstance(item.function, Operator):
        return "CPU, GPU" if "gpu" in item.function.devices else "CPU"
    return "CPU" if item.name.startswith("transforms.") or item.name in CPU_ONLY else "CPU, GPU"


def heading(item: Documented) -> list[str]:
    """Its name, the first paragraphs of its docstring, and its picture."""
    summary = re.split(r"\n(?=Args:|Returns:|Raises:|>>>)", item.text, maxsplit=1)[0].strip()
    picture = [f"![{item.name}](../pictures/{item.name}.jpg)", ""] if item.name in SHOWN else []
    inputs = [p for p in inspect.signature(item.function).parameters.values()
              if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]  # fmt: skip
    positional = ", ".join(f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name + "=None" * (p.default is None)
                           for p in inputs)  # fmt: skip
    return [f"## {item.name}", "", f"`{item.name}({positional})`: {summary}", "", *picture]


def entry(item: Documented) -> list[str]:
    """The description of an operator."""
    lines = [*heading(item), f"Runs on: {devices(item)}.", "", *accepted(item.function), *table(item)]
    if ignored := IGNORED.get(item.name):
        lines += [f"Taken, and without effect: {', '.join(f'`{name}`' for name in sorted(ignored))}.", ""]
    for title, word in (("Returns", "Returns"), ("Raises", "Raises")):
        if text := section(item.text, title):
            lines += [f"**{word}** {' '.join(text.split())}", ""]
    examples = re.search(r"^>>> .*", item.text, re.M | re.S)
    return [*lines, "```python", *(examples.group() if examples else "").rstrip().splitlines(), "", "```", ""]


def slug(title: str) -> str:
    """The file name of a family."""
    return title.lower().replace(" ", "_")


def anchor(name: str) -> str:
    """The anchor of an operator's heading, by the rule of code hosts and of the site."""
    return name.replace(".", "")


def overview(items: Iterable[Documented]) -> list[str]:
    """A table of operators: their names, purposes and devices."""
    rows = ["| operator | purpose | runs on |", "|---|---|---|"]
    for item in items:
        purpose = " ".join(re.split(r"\.\s|\.$|\n\n", item.text, maxsplit=1)[0].split()).replace("|", "\\|")
        rows.append(f"| [{item.name}](#{anchor(item.name)}) | {purpose} | {devices(item)} |")
    return [*rows, ""]


def pages() -> dict[str, str]:
    """The text of each page by its path below `docs/`."""
    families = {title: [item for name in names for item in members(name)] for title, names in GROUPS.items()}
    rows = ["| family | operators |", "|---|---|"]
    shown = []
    made = {}
    for title, items in families.items():
        place = f"operators/{slug(title)}.md"
        links = {item.name: f"[{item.name}]({place}#{anchor(item.name)})" for item in items}
        rows.append(f"| **[{title}]({place})** | {', '.join(links.values())} |")
        shown += [
            (f"![{name}](pictures/{name}.jpg)", f"{link}{called(name)}")
            for name, link in links.items()
            if name in SHOWN
        ]
        entries = [line for item in items for line in entry(item)]
        made[place] = "\n".join([f"# {title}", "", *overview(items), NAMES, *entries]).rstrip() + "\n"
    made["operators.md"] = INTRODUCTION + "\n".join(rows) + "\n"
    lines = ["| | | |", "|:-:|:-:|:-:|"]
    for start in range(0, len(shown), 3):
        three = [*shown[start : start + 3], ("", ""), ("", "")][:3]
        lines += [f"| {' | '.join(column)} |" for column in zip(*three, strict=True)]
    made["gallery.md"] = GALLERY + "\n".join(lines) + "\n"
    return made


def called(name: str) -> str:
    """The arguments of a picture, for the line below it."""
    shown = SHOWN[name]
    if callable(shown):
        return ""
    return "".join(f"<br>`{key}={value!r}`" for key, value in shown.items() if key != "seed")


def photo() -> Any:
    """The photo that the pictures show, as a Tensor: it comes with scikit-image."""
    import skimage

    image = dynamic.imread(Path(skimage.__file__).parent / "data" / "chelsea.png").numpy()
    return dynamic.as_tensor(cv2.resize(image, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), layout="HWC")


def picture(name: str, image: Any) -> Any:
    """What an operator makes of the photo, uint8 of shape (H, W, 3)."""
    shown = SHOWN[name]
    if callable(shown):
        result = shown(image)
    else:
        operator: Any = dynamic
        for part in name.split("."):
            operator = getattr(operator, part)
        arguments = dict(shown)
        if "seed" in arguments:
            arguments["rng"] = dynamic.random.RNG(arguments.pop("seed"))
        result = operator(image, **arguments)
    pixels = dynamic.cast(result, dtype="uint8").numpy()
    return numpy.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def main() -> None:
    """Write the pages and the pictures."""
    for old in HERE.glob("operators/*.md"):
        old.unlink()
    for path, text in pages().items():
        (HERE / path).parent.mkdir(exist_ok=True)
        (HERE / path).write_text(text)
    PICTURES.mkdir(exist_ok=True)
    image = photo()
    for name in SHOWN:
        encoded = cv2.imencode(".jpg", picture(name, image)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
        (PICTURES / f"{name}.jpg").write_bytes(encoded.tobytes())


if __name__ == "__main__":
    main()
