"""The files of a call in columns, without Python for each: C decodes ordinary JPEG files, Python the others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence

import numpy
import simplejpeg

from dynamic._arrays.array import Array
from dynamic._arrays.described import Described, described
from dynamic._arrays.memory import empty
from dynamic._core import jpeg as core
from dynamic._lift.call import Call, Shape
from dynamic._lift.kernels import Memory
from dynamic.errors import DataError
from dynamic.kernels.cpu import images
from dynamic.kernels.cpu.places import Window

from ._files import File, Refused, for_each, of_jpeg, opened

__all__ = ["Photos", "is_exact", "peeked", "photos"]


_OF_FILES = frozenset(inspect.signature(opened).parameters)  # arguments that no window depends on
_FEW, _LARGE = 4, 1 << 16  # files for which one call pays; bytes of files in which leaving parts out does
_CHANNELS = {"RGB": 3, "BGR": 3, "YCbCr": 3, "GRAY": 1, "ANY_DATA": 0}  # 0: as many as the file has


class Photos:
    """The files of a call, and the windows of their images.

    Args:
        files: The files.
        others: Those that C does not read, by their numbers.
    """

    def __init__(self, files: core.Files, others: Mapping[int, File | Refused]) -> None:
        self.files, self._others = files, others

    def shapes(self) -> list[Shape]:
        """The shape of each window."""
        return list(map(tuple, self.files.shapes.tolist()))

    def sizes(self) -> list[tuple[int, int]]:
        """Height and width of each window; of a file that is no image 1 and 1."""
        return [(height or 1, width or 1) for height, width, _ in self.files.shapes.tolist()]

    def at(self, windows: Array) -> Photos:
        """The files with other windows, of shape (N, 2, 2): the corner and the extents of each."""
        self.files.corners[...], self.files.shapes[:, :2] = windows[:, 0], windows[:, 1]
        for i, file in self._others.items():
            if isinstance(file, Refused):
                self.files.shapes[i, :2] = 0
        return self

    def reduced(self, at_least: Sequence[int]) -> None:
        """Decode at the smallest scales at which windows are at least so large."""
        files = self.files
        facts = numpy.concatenate([files.orientations[:, None], files.sizes], axis=1)
        for i, file in self._others.items():
            facts[i] = of_jpeg(file)
        places = images.reduced(facts[:, 1:], facts[:, 0], files.corners, files.shapes[:, :2], at_least)
        files.scales[...], files.corners[...], files.shapes[:, :2] = places

    def fill(self, call: Call, _: list[Described], memory: Memory) -> bool:
        """Decode all files; those that are no images are failures of the call."""
        kind, outs = call.fixed["output_type"], memory.outs
        direct = kind != "YCbCr" and call.asked == numpy.uint8
        pixels = outs if direct else [empty(out.shape, numpy.dtype(numpy.uint8)) for out in outs]
        done = self.files.decode(
            memory.described() if direct else described(pixels),
            colours="BGR" if kind == "BGR" else "RGB",
            most_scans=call.fixed["max_scans"],
            fast_idct=call.fixed["use_fast_idct"],
            work=call.plan.weight * (call.bytes() + memory.nbytes),
        )

        if direct and done.all():
            return True

        def finish(i: int) -> None:
            if done[i]:
                own = images.convert.colours(pixels[i], "RGB", kind) if kind == "YCbCr" else pixels[i]
                images.convert.values(own, outs[i])
            else:
                self._file(call, i).decode(outs[i])

        rest = numpy.flatnonzero(~done).tolist() if direct else range(call.count)
        for_each(call, rest, sum(pixels[i].nbytes for i in rest), finish)
        return True

    def _file(self, call: Call, i: int) -> File | Refused:
        """A file as Python decodes it."""
        file = self._others[i] if i in self._others else _opened(call, None, i)[1]
        if isinstance(file, Refused):
            return file
        return file._replace(corner=self.files.corners[i].tolist(), scale=int(self.files.scales[i]))


def _opened(call: Call, window: Callable[..., Window] | None, i: int) -> tuple[Shape, File | Refused]:
    """A file of a call, as `opened` reads it."""
    inputs = [column[i] for column in call.columns()]
    arguments = call.fixed | {name: values[i] for name, values in call.varying.items()}
    return opened(call.name, window, *inputs, **arguments)


def photos(call: Call, window: Callable[..., Window] | None = None, *, parts: bool = False) -> Photos | None:
    """The files of a call, and the image or window of each; None where Python does it all.

    Args:
        call: The call.
        window: As for `opened`.
        parts: Whether other windows follow.
    """
    worth = call.count >= _FEW or (call.count and (parts or window is not None) and call.bytes() >= _LARGE)
    files = _files(call, call.fixed["output_type"]) if worth else None
    if files is None:
        return None
    try:
        return Photos(files, _placed(call, files, window))
    except DataError:
        return None  # so that one error names all that are refused


def _files(call: Call, kind: str) -> core.Files | None:
    """The files of a call, with their headers read for images of an output type; None where C reads none."""
    fixed, formats = call.fixed, call.fixed["formats"]
    here = call.device.device_type == "cpu" and call.inputs[0].ndim == 1 and core.is_here() and is_exact()
    tables = call.tables() if here and (formats is None or images.jpeg.FORMAT in formats) else None
    if tables is None:
        return None
    limits = fixed["max_encoded_bytes"], fixed["max_pixels"]
    return core.Files(tables[0], *limits, channels=_CHANNELS[kind], upright=fixed["adjust_orientation"])


def peeked(call: Call, _: list[Described], memory: Memory) -> bool:
    """Write the shapes of images as `peek_image_shape` does; False where Python does it."""
    files = _files(call, call.fixed["image_type"]) if call.count >= _FEW and call.asked.itemsize >= 4 else None
    if files is None or not files.known.all():
        return False
    memory.storages[0][...] = files.shapes
    return True


def _placed(call: Call, files: core.Files, window: Callable[..., Window] | None) -> dict[int, File | Refused]:
    """The files that C does not read, as Python does; all windows are set."""
    others: dict[int, File | Refused] = {}
    if window is None and files.known.all():
        return others
    known, sizes, columns = files.known.tolist(), files.shapes[:, :2].tolist(), call.columns()[1:]
    varying = {name: values for name, values in call.varying.items() if name not in _OF_FILES}
    fixed = {name: value for name, value in call.fixed.items() if name not in _OF_FILES}
    for i in range(call.count) if window is not None else numpy.flatnonzero(~files.known).tolist():
        try:
            if window is not None and known[i]:
                own = {name: values[i] for name, values in varying.items()}
                inputs = [column[i] for column in columns]
                files.corners[i], files.shapes[i, :2] = window(tuple(sizes[i]), *inputs, **fixed, **own)
                continue
            files.shapes[i], file = _opened(call, window, i)
            others[i] = file
            if isinstance(file, File) and file.corner is not None:
                files.corners[i] = file.corner
        except Exception as error:
            if not isinstance(error, DataError):
                error.add_note(call.note(i))
            raise
    return others


@functools.cache
def is_exact() -> bool:
    """Whether C decodes an image of noise, with colours of half the size, and windows of it as simplejpeg does."""
    noise = numpy.random.default_rng(0).integers(0, 256, (56, 72, 3), dtype=numpy.uint8)
    file = simplejpeg.encode_jpeg(noise, 90, "RGB", "420")
    encoded = numpy.frombuffer(file, numpy.uint8)
    places = [(1, 0, 0, 56, 72), (1, 0, 17, 56, 31), (1, 9, 33, 20, 39), (1, 31, 1, 2, 2)]  # scale, corner and extents
    places += [(2, 9, 3, 15, 20), (4, 3, 5, 6, 9), (8, 2, 4, 5, 5)]
    expected = [
        simplejpeg.decode_jpeg(file, min_height=56 // scale, min_width=72 // scale)[y : y + height, x : x + width]
        for scale, y, x, height, width in places
    ]
    found = [numpy.empty(part.shape, numpy.uint8) for part in expected]
    files = core.Files(described([encoded] * len(places)), len(file), noise.size, channels=3)
    table = numpy.array(places)
    files.scales[...], files.corners[...], files.shapes[:, :2] = table[:, 0], table[:, 1:3], table[:, 3:]
    done = files.decode(described(found), colours="RGB", most_scans=1, fast_idct=False, work=0)
    return bool(done.all()) and all(map(numpy.array_equal, found, expected))
