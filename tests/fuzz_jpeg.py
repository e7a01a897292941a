r"""Damaged JPEG files, given to the native path: where it decodes one, the way of Python decodes it to the same pixels.

python tests/fuzz_jpeg.py --count 1000000
python hatch_build.py --sanitize --output FOLDER
LD_PRELOAD=$(gcc -print-file-name=libasan.so) PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
    python tests/fuzz_jpeg.py --library FOLDER
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import corpus
import hostile_files
import numpy as np
import simplejpeg
import small_jpegs

import dynamic as ndd
from dynamic import _core, decoders
from dynamic._arrays.described import described
from dynamic._core import _library
from dynamic._core.jpeg import Files
from dynamic.kernels.cpu import images

BATCH = 64
BYTES = [0, 1, 2, 3, 8, 17, 34, 63, 127, 128, 255]
MARKERS = [0x00, 0x01, *range(0xC0, 0xE3), 0xED, 0xEE, 0xFE, 0xFF]


def sources() -> list[bytes]:
    """Small JPEG files of every kind, and a photo."""
    found = [
        file.data for name, file in hostile_files.files().items() if "JPEG" in name or file.data[:2] == b"\xff\xd8"
    ]
    found = [data for data in found if data[:2] == b"\xff\xd8" and len(data) < 6000]
    for sampling in ("444", "422", "420", "440", "411"):
        found += [simplejpeg.encode_jpeg(corpus.photo(h, w), 80, "RGB", sampling) for h, w in ((9, 17), (40, 31))]
    for orientation in (1, 3, 5, 6, 8):
        found.append(corpus.encoded(corpus.photo(19, 33), "JPEG", orientation, progressive=orientation % 2 == 1))
    found.append(corpus.encoded(corpus.photo(40, 50), "JPEG", restart_marker_rows=1))
    factors, blocks = [(2, 2), (1, 1), (1, 1)], [np.full((4, 4), 90), np.full((2, 2), 60), np.full((2, 2), 200)]
    for options in ({}, {"restart": 1}, {"interleaved": False}, {"scans": 3}, {"transform": 0}, {"size": (25, 31)}):
        found.append(small_jpegs.flat(blocks, factors, **options))
    return [*found, corpus.encoded(corpus.photo(120, 160), "JPEG", quality=90)]


def damaged(files: list[bytes], chance: random.Random) -> bytes:
    """A file with some bits, bytes, markers or parts changed."""
    data = bytearray(chance.choice(files))
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 5])):
        at, how = chance.randrange(len(data) + 1), chance.randrange(8)
        if chance.random() < 0.5:
            at = min(at, chance.randrange(1, 700))
        if how == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            data[at : at + 1] = bytes(
                [chance.choice([0, 1, 2, 3, 8, 17, 34, 63, 127, 128, 255, chance.randrange(256)])]
            )
        elif how == 2:
            data[at : at + 2] = bytes([0xFF, chance.choice(MARKERS)])
        elif how == 3:
            del data[at : at + chance.choice([1, 2, 16, 100, len(data)])]
        elif how == 4:
            data[at:at] = chance.randbytes(chance.choice([1, 2, 9]))
        elif how == 5:
            other = chance.choice(files)
            start = chance.randrange(len(other))
            data[at : at + chance.choice([0, 8, 200])] = other[start : start + chance.choice([8, 80, 800])]
        elif how == 6:
            segments = [i for i in range(len(data) - 8) if data[i] == 0xFF and data[i + 1] > 0xBF]
            if segments:
                data[chance.choice(segments) + chance.choice([1, 2, 3, 4, 5, 6, 7])] = chance.choice([0, 1, 2, 17, 255])
        elif at < len(data) - 20:
            data += data[at : at + 300]
        data = data or bytearray(b"\xff")
    return bytes(data)


def windows(batch: ndd.Batch, chance: random.Random) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """What C decodes of a batch: the number of each sample, its pixels, and those of the way of Python."""
    upright, channels = chance.random() < 0.7, chance.choice([3, 3, 1, 0])
    how = {"use_fast_idct": chance.random() < 0.2, "max_scans": chance.choice([3, 100]), "axes": (0, 1)}
    files = Files(described(batch.samples), 1 << 20, 1 << 16, channels=channels, upright=upright)
    parts = chance.random() < 0.7
    for i in np.flatnonzero(files.known):
        height, width = files.shapes[i, :2].tolist()
        if parts:
            corner = chance.randrange(height), chance.randrange(width)
            files.corners[i] = corner
            files.shapes[i, :2] = chance.randint(1, height - corner[0]), chance.randint(1, width - corner[1])
    how["at_least"] = chance.choice([None, None, (1, 1), (chance.randint(1, 20), chance.randint(1, 20))])
    where = [(corner.tolist(), shape[:2].tolist()) for corner, shape in zip(files.corners, files.shapes, strict=True)]
    if how["at_least"] is not None:
        places = images.reduced(files.sizes, files.orientations, files.corners, files.shapes[:, :2], how["at_least"])
        files.scales[...], files.corners[...], files.shapes[:, :2] = places
    shapes = np.where(files.known[:, None], files.shapes, 1).tolist()
    outs = [np.full(shape, 7, np.uint8) for shape in shapes]
    wanted = "BGR" if channels == 3 and chance.random() < 0.3 else "RGB"
    done = files.decode(
        described(outs), colours=wanted, most_scans=how["max_scans"], fast_idct=how["use_fast_idct"], work=0
    )
    kind = {0: "ANY_DATA", 1: "GRAY", 3: wanted}[channels]
    for i in np.flatnonzero(done & files.known):
        with _core.left_out():
            try:
                true = decoders.image_slice(
                    batch[i], *where[i], adjust_orientation=upright, output_type=kind, **how
                ).array
            except ndd.DataError:
                true = None
        yield int(i), outs[i], true


def run(count: int, seed: int = 0) -> dict[str, int]:
    """Compare so many damaged files, and count those that C decodes."""
    files, chance, decoded = sources(), random.Random(seed), 0
    for _ in range(-(-count // BATCH)):
        batch = ndd.as_batch([np.frombuffer(damaged(files, chance), np.uint8).copy() for _ in range(BATCH)])
        for i, found, true in windows(batch, chance):
            decoded += 1
            assert true is not None, f"decoded what Python refuses: {bytes(batch.samples[i])!r}"
            assert np.array_equal(found, true), f"other pixels: {bytes(batch.samples[i])!r}"
    return {"files": -(-count // BATCH) * BATCH, "decoded by C": decoded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--library", type=Path, help="the folder of another build of the native library")
    options = parser.parse_args()
    if options.library is not None:
        _library._FOLDER = options.library
    start = time.time()
    print(_core.info()["native library"], run(options.count, options.seed), f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
