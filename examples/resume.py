"""Stop a run in the middle of an epoch, resume it from a JSON file, and compare: the job that this library exists for.

    python examples/resume.py [FOLDER] [--output FOLDER]

FOLDER holds photos in class folders (class/photo.jpg). Without it, a small set is made of the photos that come with
scikit-image and scikit-learn, some of them stored turned and marked so by EXIF. The run reads with random shuffling in
batches of 8, decodes, and rotates by random angles. After three batches a checkpoint is saved; the next batch is the
reference. Then a fresh reader and a fresh RNG load the checkpoint and make their next batch, which must be the same.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy

import dynamic as ndd

sys.path.insert(0, str(Path(__file__).parent))
import photos

BATCH_SIZE = 8
WARM_UP = 3


def start(folder: Path) -> tuple[ndd.readers.File, ndd.random.RNG]:
    """A reader and a random number generator as they are at the beginning of a run."""
    return ndd.readers.File(file_root=folder, random_shuffle=True, seed=7), ndd.random.RNG(seed=1234)


def batches(reader: ndd.readers.File, rng: ndd.random.RNG):
    """What the training loop sees: rotated images, labels, angles and file names, batch by batch, epoch after epoch."""
    while True:
        for jpegs, labels in reader.next_epoch(batch_size=BATCH_SIZE):
            images = ndd.decoders.image(jpegs)
            angles = ndd.random.uniform(range=(-30, 30), batch_size=len(jpegs), rng=rng)
            rotated = ndd.rotate(images, angle=angles, fill_value=0)
            yield rotated, labels, angles, list(jpegs.origin.names)


def main() -> int:
    """Run the job; the exit status is 0 if the resumed run is the same."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, help="photos in class folders")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="where to write (default: demo-output)"
    )
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    folder = arguments.folder or photos.make(arguments.output / "photos")
    checkpoint = arguments.output / "checkpoint.json"

    reader, rng = start(folder)
    print(f"{reader.get_metadata()['epoch_size']} photos in {folder}; {reader}")
    run = batches(reader, rng)
    for i in range(WARM_UP):
        rotated, labels, *_ = next(run)
        print(f"warm-up batch {i + 1}: {len(rotated)} images, labels {numbers(labels)}")
    ndd.checkpoint.save(checkpoint, reader=reader, rng=rng)
    print(f"checkpoint: {checkpoint}, {checkpoint.stat().st_size} bytes")
    reference = next(run)

    fresh_reader, fresh_rng = start(folder)
    ndd.checkpoint.load(checkpoint, reader=fresh_reader, rng=fresh_rng)
    resumed = next(batches(fresh_reader, fresh_rng))

    for name, (_, labels, angles, _) in (("reference", reference), ("resumed", resumed)):
        print(f"{name:9} labels {numbers(labels)}")
        print(f"{name:9} angles {[round(a, 2) for a in numbers(angles)]}")
    same = {
        "files": reference[3] == resumed[3],
        "labels": numbers(reference[1]) == numbers(resumed[1]),
        "angles": numbers(reference[2]) == numbers(resumed[2]),
        "pixels": len(reference[0]) == len(resumed[0])
        and all(numpy.array_equal(a, b) for a, b in zip(reference[0], resumed[0], strict=True)),
    }
    sheet = arguments.output / "resume.png"
    photos.contact_sheet(sheet, {"reference": reference, "resumed": resumed})
    print(f"picture: {sheet}")
    if not all(same.values()):
        print("DIFFERENT:", ", ".join(name for name, equal in same.items() if not equal))
        return 1
    print("Labels, angles and pixels are equal.")
    print("File order and random angles match exactly.")
    return 0


def numbers(batch: ndd.Batch) -> list:
    """The numbers of a batch of single numbers."""
    return numpy.asarray(batch).ravel().tolist()


if __name__ == "__main__":
    sys.exit(main())
