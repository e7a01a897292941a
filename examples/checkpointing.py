"""DALI's checkpointing notebook as a script: stop a pipeline after three batches, restore it, and compare the next.

    python examples/checkpointing.py FOLDER [--output FOLDER]

FOLDER holds photos in class folders (class/photo.jpg). For DALI itself one line is another, and nothing else::

    from nvidia.dali import fn, pipeline_def, types

On a GPU it is device_id=0 and device="mixed", for both.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy
from PIL import Image, ImageDraw

from dynamic.pipeline import fn, pipeline_def, types

BATCH_SIZE = 8
WARM_UP = 3


@pipeline_def(batch_size=BATCH_SIZE, num_threads=2, device_id=None, seed=12, enable_checkpointing=True)
def rotated(folder):
    """Photos turned by random angles, their labels, and the angles."""
    jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="image_reader")
    images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
    angles = fn.random.uniform(range=(-30.0, 30.0))
    return fn.rotate(images, angle=angles, fill_value=0), labels, angles


def on_the_host(outputs):
    """The outputs of a run as lists of arrays of NumPy."""
    return [[numpy.array(output.as_cpu().at(i)) for i in range(len(output))] for output in outputs]


def equal(some, others):
    """Whether two lists of arrays are the same."""
    return len(some) == len(others) and all(map(numpy.array_equal, some, others))


def draw(path, rows, cell=200):
    """Draw a row of images for each batch, with label and angle below each of them."""
    sheet = Image.new("RGB", (BATCH_SIZE * (cell + 8) + 8, len(rows) * (cell + 52) + 8), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (title, (images, labels, angles)) in enumerate(rows.items()):
        top = 8 + row * (cell + 52)
        pen.text((8, top), title, fill="black")
        for column, (image, label, angle) in enumerate(zip(images, labels, angles, strict=True)):
            left = 8 + column * (cell + 8)
            picture = Image.fromarray(image)
            picture.thumbnail((cell, cell))
            sheet.paste(picture, (left, top + 18))
            pen.text((left, top + 22 + cell), f"label {label.item()}   {angle.item():+.2f} degrees", fill="black")
    sheet.save(path)


def main():
    """Run the job; the exit status is 0 if the restored pipeline goes on the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="photos in class folders")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where to write")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    file = str(arguments.output / "pipeline.checkpoint")

    pipe = rotated(str(arguments.folder))
    pipe.build()
    print(f"{pipe.epoch_size('image_reader')} photos in {arguments.folder}")
    for _ in range(WARM_UP):
        pipe.run()
    pipe.checkpoint(file)
    reference = on_the_host(pipe.run())

    restored_pipe = rotated(str(arguments.folder), checkpoint=Path(file).read_bytes())
    restored_pipe.build()
    restored = on_the_host(restored_pipe.run())

    for name, (images, labels, angles) in (("reference", reference), ("restored", restored)):
        print(f"{name:9} images", [image.shape for image in images], images[0].dtype)
        print(f"{name:9} labels", [label.item() for label in labels], labels[0].dtype, labels[0].shape)
        print(f"{name:9} angles", [round(angle.item(), 2) for angle in angles], angles[0].dtype, angles[0].shape)
    draw(arguments.output / "checkpointing.png", {"reference": reference, "restored": restored})
    print(f"picture: {arguments.output / 'checkpointing.png'}")
    same = [equal(*pair) for pair in zip(reference, restored, strict=True)]
    print("Pixels, labels and angles are equal." if all(same) else f"DIFFERENT: {same}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
