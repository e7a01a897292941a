"""Real files: what is decoded is what Pillow decodes, and what is not is refused with a reason.

DYNAMIC_REAL_FILES=1 turns it on; the files are 47 MB, fetched once.
"""

from __future__ import annotations

import collections
import io
import os
import warnings

import numpy as np
import pytest
import real_files
from PIL import Image, ImageOps

from dynamic import DecodeError, decoders

#: Where Pillow gives other pixels, and why.
OTHERS = {
    "exif_imagemagick_orientation.png": "an orientation in a text chunk, which is not looked for",
    "xmp_tags_orientation.png": "an orientation in XMP, which is not looked for",
    "xmp_tags_orientation_exiftool.png": "an orientation in XMP, which is not looked for",
    "first_frame_transparency.gif": "what the first frame leaves uncovered is the background here",
    **dict.fromkeys(
        ("tiff_16bit_RGBa.tiff", "tiff_strip_planar_16bit_RGBa.tiff", "tiff_tiled_planar_16bit_RGBa.tiff"),
        "16 bits are divided by their alpha, not 8",
    ),
}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    if os.environ.get("DYNAMIC_REAL_FILES") != "1":
        pytest.skip("the test images of Pillow: DYNAMIC_REAL_FILES=1 fetches and decodes them")
    return real_files.files()


def by_pillow(data: bytes) -> np.ndarray | None:
    """Pixels (H, W, 3) of 8 bits, or values (H, W) of 16; None where Pillow refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
            return np.asarray(image if image.mode.startswith("I") else image.convert("RGB"))
    except Exception:  # Pillow raises what it likes
        return None


def test_real_files_are_decoded_as_pillow_does_or_refused(files, capfd):
    counts: collections.Counter[str] = collections.Counter()
    wrong = {}
    for name, data in files.items():
        try:
            found = decoders.image(data).array
        except DecodeError as error:
            (failure,) = error.failures
            assert failure.reason
            counts["refused" if failure.format else "of other formats"] += 1
            continue
        capfd.readouterr()
        expected = by_pillow(data)
        capfd.readouterr()  # what Pillow's libraries print
        if expected is None:
            counts["decoded here alone"] += 1
            continue
        if expected.ndim == 2:
            found = decoders.image(data, output_type="GRAY", dtype="uint16").array[..., 0]
        off = np.abs(found.astype(int) - expected) if found.shape == expected.shape else np.array([np.inf])
        if off.max() <= 1:
            counts["equal" if off.max() == 0 else "one level off"] += 1
        else:
            wrong[name] = (found.shape, expected.shape, off.max())
    assert wrong.keys() == OTHERS.keys(), {name: told for name, told in wrong.items() if name not in OTHERS}
    assert counts["equal"] > 550, counts
    print(counts)


def test_nothing_is_printed_and_refusing_is_cheap(files):
    import hostile

    with hostile.Child("ours") as child:
        for name, data in files.items():
            answer = child.decode(data)
            assert answer.kind not in ("crash", "hang"), name
            assert answer.printed == 0, name
            if answer.shape is None:
                assert answer.kind in ("TruncatedImage", "CorruptImage", "UnsupportedImage", "ImageTooLarge"), name
                assert answer.memory < hostile.MEMORY, (name, answer)
                assert answer.seconds < hostile.SECONDS, (name, answer)
