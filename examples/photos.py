"""For all examples: real photos to run them on, their options, a hash of their weights, a curve and a contact sheet."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from PIL import Image, ImageDraw, ImageOps

_ORIENTATION = 0x0112  # the EXIF tag


def parser(purpose: str) -> argparse.ArgumentParser:
    """The options of all examples that train; `purpose` is the docstring of the example."""
    parser = argparse.ArgumentParser(description=purpose.split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where to write")
    parser.add_argument("--steps", type=int, default=60, help="how many steps to make in all")
    parser.add_argument("--every", type=int, default=7, help="steps between checkpoints")
    parser.add_argument("--kill-at", type=int, help="end the process by SIGKILL after this step")
    return parser


def digest(weights: Mapping[str, Any]) -> str:
    """A hash of all bits of arrays: two trainings with the same hash have ended with the same weights."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(name.encode() + numpy.asarray(value).tobytes())
    return found.hexdigest()


def _sources() -> list[tuple[str, Path]]:
    """The photos that come with scikit-image and scikit-learn, each with a class name."""
    skimage = Path(importlib.util.find_spec("skimage").origin).parent / "data"
    sklearn = Path(importlib.util.find_spec("sklearn").origin).parent / "datasets" / "images"
    names = {
        "animals": [skimage / "chelsea.png"],
        "buildings": [sklearn / "china.jpg", skimage / "brick.png"],
        "people": [skimage / "astronaut.png", skimage / "camera.png"],
        "plants": [sklearn / "flower.jpg", skimage / "grass.png"],
        "space": [skimage / "rocket.jpg", skimage / "hubble_deep_field.jpg"],
        "things": [skimage / "coffee.png", skimage / "coins.png", skimage / "motorcycle_left.png"],
    }
    return [(kind, path) for kind, paths in names.items() for path in paths if path.exists()]


def make(folder: Path) -> Path:
    """Write JPEG photos into class folders: each photo itself, a crop, and copies with EXIF orientations 3, 6 and 8."""
    if (folder / "complete").exists():
        return folder
    sources = _sources()
    if not sources:
        raise FileNotFoundError(
            "scikit-image and scikit-learn are not installed: pip install 'dynamic-batch[examples]'"
        )
    for kind, path in sources:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        upright = Image.open(path).convert("RGB")
        upright.thumbnail((480, 480))
        width, height = upright.size
        _save(folder / kind / f"{path.stem}.jpg", upright, 1)
        _save(folder / kind / f"{path.stem}_crop.jpg", upright.crop((width // 4, height // 5, width, height)), 1)
        for orientation in (3, 6, 8):
            _save(folder / kind / f"{path.stem}_exif{orientation}.jpg", upright, orientation)
    (folder / "complete").touch()
    return folder


def coins(folder: Path) -> Path:
    """Write windows of a photo of coins: ``images``, ``masks`` of their pixels, and their boxes in ``coins.json``."""
    if (folder / "coins.json").exists():
        return folder
    from skimage import data, filters, measure, segmentation

    photo = data.coins()
    sure = numpy.where(photo < 30, 1, numpy.where(photo > 150, 2, 0))
    found = measure.label(segmentation.watershed(filters.sobel(photo), sure) == 2)
    objects = numpy.zeros_like(found)
    regions = [region for region in measure.regionprops(found) if region.area > 300]
    for number, region in enumerate(regions, 1):
        top, left, bottom, right = region.bbox
        objects[top:bottom, left:right][region.image_filled] = number
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    corners = [(top, left) for top in range(0, 303 - 128, 30) for left in range(0, 384 - 128, 40)]
    for number, (top, left) in enumerate(corners):
        window, own = (array[top : top + 128, left : left + 128] for array in (photo, objects))
        Image.fromarray(window).convert("RGB").save(folder / "images" / f"{number:02}.jpg", quality=95)
        Image.fromarray((own > 0).astype(numpy.uint8)).save(folder / "masks" / f"{number:02}.png")
        images.append({"id": number, "file_name": f"{number:02}.jpg", "width": 128, "height": 128})
        for region in measure.regionprops(own):
            if region.area > 100:
                y, x, bottom, right = region.bbox
                box, area = [x, y, right - x, bottom - y], int(region.area)
                annotation = {"id": len(annotations), "image_id": number, "category_id": 1, "bbox": box, "area": area}
                annotations.append({**annotation, "iscrowd": 0})
    text = json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "coin"}]})
    (folder / "coins.json").write_text(text)
    return folder


def episodes(folder: Path, count: int = 8, length: int = 24) -> Path:
    """Write what a robot's recorder would: two cameras, states and actions of a hand that moves to a cup of coffee.

    An episode is a folder with a JPEG for each frame of each camera, and states and actions (x, y) in numbers.npz.
    """
    from skimage import data

    photo, goal = Image.fromarray(data.coffee()), numpy.array([330.0, 200.0])  # of the cup
    for number in range(count):
        chance, own = numpy.random.default_rng(number), folder / f"episode-{number}"
        position, states, actions = chance.uniform([40, 40], [560, 360]), [], []
        for time in range(length):
            action = numpy.clip(0.15 * (goal - position), -10, 10) + chance.normal(0, 1, 2)
            states.append(position / 300 - 1)
            actions.append(action / 10)
            top, (x, y) = photo.copy(), position
            ImageDraw.Draw(top).rectangle((x - 12, y - 12, x + 12, y + 12), fill="red")
            for camera, image in (("top", top), ("hand", photo.crop((x - 60, y - 60, x + 60, y + 60)))):
                (own / camera).mkdir(parents=True, exist_ok=True)
                image.resize((96, 64) if camera == "top" else (64, 64)).save(own / camera / f"{time:03}.jpg")
            position = position + action
        numpy.savez(own / "numbers.npz", state=numpy.float32(states), action=numpy.float32(actions))
    return folder


def _save(path: Path, upright: Image.Image, orientation: int) -> None:
    """Store an image as a camera that was held so would: turned, with a mark that says how to turn it back."""
    turn = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    stored = upright if turn[orientation] is None else upright.transpose(turn[orientation])
    exif = Image.Exif()
    exif[_ORIENTATION] = orientation
    stored.save(path, quality=90, exif=exif)
    back = numpy.asarray(ImageOps.exif_transpose(Image.open(path)), numpy.int16)
    if numpy.abs(back - numpy.asarray(upright, numpy.int16)).mean() > 10:
        raise AssertionError(f"{path} does not turn back to the photo that it was made of")


def plot(path: Path, losses: Sequence[float], width: int = 640, height: int = 320) -> None:
    """Draw a curve of losses: each of them, and their running mean."""
    left, top, right, bottom = 44, 14, width - 12, height - 30
    most = max(losses) * 1.05
    picture = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)

    def point(step: float, loss: float) -> tuple[float, float]:
        return left + (right - left) * step / max(len(losses) - 1, 1), bottom - (bottom - top) * loss / most

    for k in range(5):
        value = most * k / 4
        draw.line([point(0, value), point(len(losses) - 1, value)], fill="#dddddd")
        draw.text((6, point(0, value)[1] - 6), f"{value:.2f}", fill="black")
    for k in range(0, len(losses), max(len(losses) // 6, 1)):
        draw.text((point(k, 0)[0] - 4, bottom + 6), str(k + 1), fill="black")
    draw.text((right - 30, bottom + 18), "step", fill="black")
    draw.text((left, 0), "loss", fill="black")
    means = [sum(part) / len(part) for part in (losses[max(k - 4, 0) : k + 1] for k in range(len(losses)))]
    draw.line([point(k, loss) for k, loss in enumerate(losses)], fill="#9dbcd8")
    draw.line([point(k, loss) for k, loss in enumerate(means)], fill="#1f5f99", width=3)
    picture.save(path)


def contact_sheet(path: Path, rows: dict[str, tuple], cell: int = 200) -> None:
    """Draw a row of images for each batch, with file, label and angle below each of them."""
    columns = max(len(batch[0]) for batch in rows.values())
    margin, caption = 8, 44
    sheet = Image.new("RGB", (columns * (cell + margin) + margin, len(rows) * (cell + caption + 24) + margin), "white")
    draw = ImageDraw.Draw(sheet)
    for row, (title, (images, labels, angles, names)) in enumerate(rows.items()):
        top = margin + row * (cell + caption + 24)
        draw.text((margin, top), title, fill="black")
        for column, (image, label, angle, name) in enumerate(zip(images, labels, angles, names, strict=True)):
            left = margin + column * (cell + margin)
            picture = Image.fromarray(numpy.asarray(image))
            picture.thumbnail((cell, cell))
            sheet.paste(picture, (left, top + 18))
            text = f"{Path(name).stem}\nlabel {int(label)}   {float(angle):+.2f} degrees"
            draw.text((left, top + 20 + cell), text, fill="black")
    sheet.save(path)
