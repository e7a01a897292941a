"""The reader of images with annotated objects: boxes, categories and masks, as COCO has them."""

# ruff: noqa: PTH105, PTH107, PTH118, PTH123 - paths are strings here, as in `_listing`

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import secrets
import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy

from dynamic._arrays.array import Array
from dynamic._base.origin import Origin
from dynamic.data import Batch
from dynamic.errors import ArgumentError, shown
from dynamic.io._address import is_address
from dynamic.io._store import Store

from ._annotations import Annotated, Masks, Wanted, damaged, parsed
from ._checks import flag, unless_empty
from ._masks import counts_of, drawn
from ._names import starts_of
from ._reader import Batches
from ._stored import Common, PathLike, Stored, Unusable, a_path, called_with

__all__ = ["COCO"]

_FOLDER = "a folder of preprocessed annotations"


class Objects(NamedTuple):
    """The objects of an image, as functions given to `COCO` as `where` and `weights` get them."""

    boxes: Array  #: float32 of shape (M, 4), as the reader gives them
    labels: Array  #: int32 of shape (M,), as the reader gives them


class COCO(Stored[Annotated, Batches]):
    """Reads images and the objects in them from a folder and a JSON file in the format of the COCO data set.

    A batch has, for M objects in an image:

    - the contents of the image file (uint8, one dimension), boxes (float32, shape (M, 4)) and labels (int32, (M,));
    - with `polygon_masks`, polygons (int32, (P, 3): an object, begin and end of its vertices) and vertices (float32,
      (V, 2));
    - with `pixelwise_masks`, an image of labels (int32, (H, W, 1), layout "HWC");
    - with `image_ids`, the id of the image (int32, (1,)).

    Images come in the order of their ids, or of `images`; objects in the order of the file. Objects of images that the
    file does not list are left out. The name of a sample is the ``file_name`` of its image. Paths may lead anywhere,
    also absolute ones and those with "..".

    Args:
        file_root: The folder that the paths of images start from.
        annotations_file: The JSON file.
        preprocessed_annotations: Instead of it, a folder that `save_preprocessed_annotations_dir` was. Give
            only outputs that were given then. `images`, `ltrb`, `ratio`, `size_threshold`, `skip_empty`,
            `include_iscrowd` and `avoid_class_remapping` are as they were then.
        images: Names of images, as in the file, that are the samples, in this order; by default all. One that is named
            twice is two samples.
        ltrb: Whether boxes are [left, top, right, bottom], rather than [left, top, width, height].
        ratio: Whether boxes and vertices are divided by the width and height of the image.
        size_threshold: Objects whose boxes are less wide or high are left out; pixels, also with `ratio`.
        include_iscrowd: Whether objects with ``iscrowd`` are taken.
        skip_empty: Whether images without objects are left out.
        avoid_class_remapping: Whether labels are the ids of categories, rather than places in the file's list of
            categories, from 1.
        polygon_masks: Whether to give polygons and vertices. Objects with run lengths have none.
        pixelwise_masks: Whether to give images of labels, 0 outside of all objects; where objects overlap, the largest
            label counts. They are filled as the COCO API does it.
        image_ids: Whether to give the ids of images.
        save_preprocessed_annotations: Whether to write the annotations, as they are taken, to binary files. DALI reads
            them, and they are read here where DALI wrote them.
        save_preprocessed_annotations_dir: The folder to write to. Older such files there are replaced or removed.
        masks: The former `polygon_masks`; polygons hold places of coordinates, twice those of vertices.
        meta_files_path: The former name of `preprocessed_annotations`.
        dump_meta_files: The former name of `save_preprocessed_annotations`.
        dump_meta_files_path: The former name of `save_preprocessed_annotations_dir`.
        save_img_ids: The former name of `image_ids`.

    Raises:
        ArgumentError: An argument is wrong, or there are no images.
        DataError: The annotations are damaged. Run lengths, and the distance of vertices, are checked when a mask
            is made.

    >>> import json, pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ["a.jpg", "b.jpg"]:
    ...     _ = (root / name).write_bytes(name.encode())
    >>> images = [{"id": 7, "file_name": "a.jpg", "width": 6, "height": 4}, {"id": 3, "file_name": "b.jpg"}]
    >>> cat = {"image_id": 7, "category_id": 17, "bbox": [1, 0, 4, 2]}
    >>> file = {"images": images, "annotations": [cat], "categories": [{"id": 17, "name": "cat"}]}
    >>> _ = (root / "objects.json").write_text(json.dumps(file))
    >>> reader = ndd.readers.COCO(file_root=root, annotations_file=root / "objects.json", ltrb=True, image_ids=True)
    >>> for jpegs, boxes, labels, ids in reader.next_epoch(batch_size=2):
    ...     print([bytes(jpeg.array) for jpeg in jpegs], boxes.tolist(), labels.tolist(), ids.tolist())
    [b'b.jpg', b'a.jpg'] [[], [[1.0, 0.0, 5.0, 2.0]]] [[], [1]] [[3], [7]]
    """

    _operator: ClassVar[str] = "readers.COCO"
    _told_of: ClassVar[str] = "the name and the objects"

    @called_with("file_root")
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        file_root: PathLike | None = None,
        annotations_file: PathLike | None = None,
        preprocessed_annotations: PathLike | None = None,
        images: str | Sequence[str] | None = None,
        ltrb: bool | None = False,
        ratio: bool | None = False,
        size_threshold: float | None = 0.1,
        include_iscrowd: bool | None = True,
        skip_empty: bool | None = False,
        avoid_class_remapping: bool | None = False,
        polygon_masks: bool | None = False,
        pixelwise_masks: bool | None = False,
        image_ids: bool | None = False,
        save_preprocessed_annotations: bool | None = False,
        save_preprocessed_annotations_dir: PathLike | None = None,
        masks: bool | None = False,
        meta_files_path: PathLike | None = None,
        dump_meta_files: bool | None = None,
        dump_meta_files_path: PathLike | None = None,
        save_img_ids: bool | None = None,
        **common: Unpack[Common],
    ) -> None:
        operator = self._operator
        source, preprocessed = _source(
            unless_empty(annotations_file),
            _renamed("preprocessed_annotations", preprocessed_annotations, "meta_files_path", meta_files_path),
        )
        folder = _renamed(
            "save_preprocessed_annotations_dir",
            save_preprocessed_annotations_dir,
            "dump_meta_files_path",
            dump_meta_files_path,
        )
        save = _renamed(
            "save_preprocessed_annotations", save_preprocessed_annotations, "dump_meta_files", dump_meta_files
        )
        if flag(operator, "save_preprocessed_annotations", save) != (folder is not None):
            raise ArgumentError(
                operator,
                "save_preprocessed_annotations_dir",
                "a path, with save_preprocessed_annotations=True only",
                shown(folder),
            )
        if file_root is None:
            raise ArgumentError(operator, "file_root", "the folder of the images", "None")
        self._coordinates = flag(operator, "masks", masks)
        polygons = flag(operator, "polygon_masks", polygon_masks) or self._coordinates
        pixels = flag(operator, "pixelwise_masks", pixelwise_masks)
        if polygons and pixels:
            raise ArgumentError(operator, "pixelwise_masks", "False with polygon_masks=True", "bool True")
        wanted = Wanted(
            source=source,
            root=a_path(operator, "file_root", file_root),
            preprocessed=preprocessed,
            images=_names(images),
            size_threshold=_threshold(size_threshold),
            include_iscrowd=flag(operator, "include_iscrowd", include_iscrowd, default=True),
            remapped=not flag(operator, "avoid_class_remapping", avoid_class_remapping),
            skip_empty=flag(operator, "skip_empty", skip_empty),
            ltrb=flag(operator, "ltrb", ltrb),
            ratio=flag(operator, "ratio", ratio),
            masks="polygons" if polygons else "pixels" if pixels else "",
            ids=flag(operator, "image_ids", _renamed("image_ids", image_ids, "save_img_ids", save_img_ids)),
            save=None if folder is None else a_path(operator, "save_preprocessed_annotations_dir", folder, here=True),
        )
        if preprocessed:
            _only_stored(wanted)
        self._masks, self._with_ids = wanted.masks, wanted.ids
        super().__init__(max_batch_size, name, device, num_inputs, functools.partial(_listed, wanted), **common)

    @property
    def classes(self) -> dict[int, str] | None:
        """The names of the categories by label, as far as the file has names; None for preprocessed annotations."""
        classes: dict[int, str] | None = self._listing.classes
        return None if classes is None else dict(classes)

    def _told(self, listed: Annotated, rows: Any) -> Iterable[tuple[Any, ...]]:
        boxes, labels = (memory.view() for memory in (listed.boxes, listed.categories))
        boxes.flags.writeable = labels.flags.writeable = False
        starts = listed.starts.tolist()
        for row in rows.tolist():
            here = slice(starts[row], starts[row + 1])
            yield listed.names[row], Objects(boxes[here], labels[here])

    def _read(self, indices: list[int], origin: Origin) -> tuple[Batch, ...]:
        listing = self._listing
        starts, masks = listing.starts, listing.masks
        drawings: list[Array] = []
        if self._masks == "pixels":
            read = self._each(indices, lambda i: (listing.read(i), drawn(listing, i)))
            files, drawings = [file for file, _ in read], [mask for _, mask in read]
        else:
            files = self._files(indices)

        def batch(samples: list[Any], like: Array, layout: str | None = None) -> Batch:
            return Batch(samples, layout, origin=origin, dtype=like.dtype, ndim=like.ndim)

        outputs = [
            batch(files, _BYTES),
            batch(_pieces(listing.boxes, starts, indices), listing.boxes),
            batch(_pieces(listing.categories, starts, indices), listing.categories),
        ]
        if self._masks == "polygons":
            assert masks is not None
            polygons = _pieces(masks.polygons, masks.polygon_starts, indices)
            if self._coordinates:
                polygons = [numpy.multiply(piece, [1, 2, 2], dtype=numpy.int32) for piece in polygons]
            outputs += [
                batch(polygons, masks.polygons),
                batch(_pieces(masks.vertices, masks.vertex_starts, indices), masks.vertices),
            ]
        elif self._masks:
            outputs.append(batch(drawings, _MASK, "HWC"))
        if self._with_ids:
            outputs.append(Batch(listing.image_ids[indices][:, None].astype(numpy.int32), origin=origin))
        return tuple(outputs)


_BYTES = numpy.empty(0, numpy.uint8)
_MASK = numpy.empty((0, 0, 1), numpy.int32)


def _pieces(column: Array, starts: Array, indices: list[int]) -> list[Array]:
    """The data of some samples, copied to one piece of memory: it may be written to."""
    firsts, ends = starts[indices], starts[1:][indices]
    there = starts_of(ends - firsts)
    copied = column[numpy.repeat(firsts - there[:-1], ends - firsts) + numpy.arange(there[-1])]
    return [copied[first:end] for first, end in itertools.pairwise(there.tolist())]


def _renamed(argument: str, value: Any, former: str, of_former: Any) -> Any:
    """The value of an argument that had another name, by either; None where it says nothing."""
    value, of_former = unless_empty(value), unless_empty(of_former)
    if value is not None and of_former is not None:
        raise ArgumentError(COCO._operator, former, f"None where {argument} is given", shown(of_former))
    return of_former if value is None else value


def _source(annotations_file: PathLike | None, preprocessed: PathLike | None) -> tuple[str, bool]:
    operator = COCO._operator
    if preprocessed is not None:
        if annotations_file is not None:
            raise ArgumentError(
                operator, "annotations_file", "None where preprocessed_annotations is given", shown(annotations_file)
            )
        return a_path(operator, "preprocessed_annotations", preprocessed), True
    if annotations_file is None:
        raise ArgumentError(operator, "annotations_file", "a path, unless preprocessed_annotations is given", "None")
    return a_path(operator, "annotations_file", annotations_file), False


def _names(images: str | Sequence[str] | None) -> tuple[str, ...] | None:
    names = (images,) if isinstance(images, str) else images
    if names is not None and not (isinstance(names, Sequence) and all(isinstance(name, str) for name in names)):
        raise ArgumentError(COCO._operator, "images", "the name of an image, or a list of names", shown(images))
    return tuple(names) if names else None


def _threshold(number: Any) -> float:
    if number is None:
        return 0.1
    if not isinstance(number, (int, float, numpy.integer, numpy.floating)) or isinstance(number, bool):
        number = math.nan
    if not abs(number) <= float(numpy.finfo(numpy.float32).max):
        raise ArgumentError(COCO._operator, "size_threshold", "a finite number", shown(number))
    return float(number)


def _only_stored(wanted: Wanted) -> None:
    """Refuse other values of arguments that binary files were made with."""
    made_with = {
        "images": (wanted.images, None),
        "ltrb": (wanted.ltrb, False),
        "ratio": (wanted.ratio, False),
        "size_threshold": (wanted.size_threshold, 0.1),
        "skip_empty": (wanted.skip_empty, False),
        "include_iscrowd": (wanted.include_iscrowd, True),
        "avoid_class_remapping": (not wanted.remapped, False),
    }
    for argument, (value, default) in made_with.items():
        if value != default:
            raise ArgumentError(
                COCO._operator,
                argument,
                f"{default} with preprocessed_annotations",
                shown(value),
                "They are as it was when they were saved.",
            )


# Binary files: each begins with a count of 4 bytes

#: DALI writes none of these where it would be empty.
_NONE_IF_EMPTY = ("boxes.dat", "labels.dat", "polygon_data.dat", "vertices.dat", "masks_rles.dat", "masks_rles_idx.dat")
_EXACT = "vertices_float64.dat"  # of ours, beside vertices.dat where float32 does not hold them: masks need all digits
_SOMETIMES = (
    *_NONE_IF_EMPTY,
    "original_ids.dat",
    "polygon_offset.dat",
    "polygons_count.dat",
    "vertices_offset.dat",
    "vertices_count.dat",
    "heights.dat",
    "widths.dat",
    "masks_offset.dat",
    "mask_count.dat",
    _EXACT,
)


def _listed(wanted: Wanted, store: Store) -> Annotated:
    """The images of an annotations file with their objects; written to binary files as well, where that is wanted."""
    wanted = wanted._replace(source=store.plain(wanted.source), root=store.plain(wanted.root), store=store)
    found = _loaded(wanted) if wanted.preprocessed else parsed(wanted)
    if wanted.save is not None:
        _save(found, wanted, wanted.save)
    return found


def _stored(wanted: Wanted, name: str) -> tuple[str, Array]:
    """The path of a binary file, and its bytes."""
    path = os.path.join(wanted.source, name)
    try:
        return path, wanted.store.contents(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and name in _NONE_IF_EMPTY:
            return path, numpy.zeros(4, numpy.uint8)
        hint = f"{error.strerror}: {name}. Was it asked for when they were saved?"
        raise ArgumentError(COCO._operator, "preprocessed_annotations", _FOLDER, shown(wanted.source), hint) from error


def _numbers(wanted: Wanted, name: str, kind: str, count: int | None = None, width: int = 1) -> Array:
    """The numbers of a binary file; in rows where the width is not 1, which are counted then."""
    path, data = _stored(wanted, name)
    dtype = numpy.dtype(kind)
    told = int(data[:4].copy().view("<u4")[0]) if len(data) >= 4 else -1
    if len(data) != 4 + told * width * dtype.itemsize:
        raise damaged(path, f"has {len(data)} bytes, where {told} entries of {width * dtype.itemsize} bytes are told")
    if count is not None and told != count:
        raise damaged(path, f"has {told} entries, where the other files have {count}")
    found = data[4:].copy().view(dtype).astype(dtype.newbyteorder("="))
    return found if width == 1 else found.reshape(-1, width)


def _starts(wanted: Wanted, offsets: str, counts: str, kind: str, samples: int, total: int | None) -> Array:
    """The starts of the data of each sample, from files of offsets and counts: one after the other, of so many."""
    number = _numbers(wanted, counts, kind, samples)
    path = os.path.join(wanted.source, counts)
    if len(number) and not 0 <= number.min() <= number.max() < 2**31:
        raise damaged(path, f"has the count {shown(int(number.min()))}")
    starts = starts_of(number)
    if not numpy.array_equal(_numbers(wanted, offsets, kind, samples), starts[:-1]):
        raise damaged(os.path.join(wanted.source, offsets), f"does not go with {counts}")
    if total is not None and starts[-1] != total:
        raise damaged(path, f"counts {starts[-1]}, where there are {total}")
    return starts


def _loaded(wanted: Wanted) -> Annotated:
    """The images and objects that binary files hold."""
    path, data = _stored(wanted, "filenames.dat")
    names = data.tobytes().decode(errors="surrogateescape").split("\n")
    if names.pop() or not all(names) or any("\0" in name for name in names):
        raise damaged(path, "must be a name on each line")
    if not names:
        got = f"{shown(wanted.source)}, which has no images"
        raise ArgumentError(COCO._operator, "preprocessed_annotations", _FOLDER, got)
    n = len(names)
    categories = _numbers(wanted, "labels.dat", "<i4")
    boxes = _numbers(wanted, "boxes.dat", "<f4", 4 * len(categories)).reshape(-1, 4)
    if not numpy.isfinite(boxes).all():
        raise damaged(os.path.join(wanted.source, "boxes.dat"), "has a number that is not finite")
    starts = _starts(wanted, "offsets.dat", "counts.dat", "<i4", n, len(categories))
    ids = _numbers(wanted, "original_ids.dat", "<i4", n) if wanted.ids else numpy.zeros(n)
    sizes, masks = numpy.zeros((n, 2), numpy.int64), None
    if wanted.masks == "pixels":
        sizes = numpy.stack([_numbers(wanted, name, "<i4", n) for name in ("heights.dat", "widths.dat")], axis=1)
        if sizes.min() < 1:
            raise damaged(os.path.join(wanted.source, "heights.dat"), "or widths.dat has a size that is not positive")
    if wanted.masks:
        masks = _loaded_masks(wanted, starts)
    nothing = numpy.zeros((n, 0), numpy.int32)
    return Annotated(
        wanted.root,
        names,
        nothing,
        ids.astype(numpy.int64),
        sizes.astype(numpy.int64),
        starts,
        boxes,
        categories,
        masks,
        store=wanted.store_of_images,
    )


def _loaded_masks(wanted: Wanted, starts: Array) -> Masks:
    n, objects = len(starts) - 1, numpy.diff(starts)
    polygons = _numbers(wanted, "polygon_data.dat", "<i4", width=3)
    vertices = _numbers(wanted, "vertices.dat", "<f4", width=2)
    polygon_starts = _starts(wanted, "polygon_offset.dat", "polygons_count.dat", "<i8", n, len(polygons))
    vertex_starts = _starts(wanted, "vertices_offset.dat", "vertices_count.dat", "<i8", n, len(vertices))
    owner = numpy.repeat(numpy.arange(n), numpy.diff(polygon_starts))
    ends = polygons[:, 2] + vertex_starts[owner]
    right = (polygons[:, 0] >= 0) & (polygons[:, 0] < objects[owner]) & (polygons[:, 1] <= polygons[:, 2])
    right &= polygons[:, 1] + vertex_starts[owner] == numpy.concatenate([[0], ends])[:-1]
    if not right.all() or (ends[-1] if len(ends) else 0) != len(vertices) or not numpy.isfinite(vertices).all():
        raise damaged(os.path.join(wanted.source, "polygon_data.dat"), "does not go with vertices.dat and labels.dat")
    if wanted.masks != "pixels":
        return Masks(
            polygon_starts,
            polygons,
            vertex_starts,
            vertices,
            numpy.zeros(n + 1, numpy.int64),
            numpy.zeros((0, 6), numpy.int64),
            b"",
        )
    index = _numbers(wanted, "masks_rles_idx.dat", "<i4").astype(numpy.int64)
    run_starts = _starts(wanted, "masks_offset.dat", "mask_count.dat", "<i8", n, len(index))
    owner = numpy.repeat(numpy.arange(n), numpy.diff(run_starts))
    if ((index < 0) | (index >= objects[owner])).any():
        raise damaged(os.path.join(wanted.source, "masks_rles_idx.dat"), "does not go with labels.dat")
    runs, data = _loaded_runs(wanted, len(index))
    vertices = _exact(wanted, vertices)
    return Masks(polygon_starts, polygons, vertex_starts, vertices, run_starts, numpy.column_stack([index, runs]), data)


def _exact(wanted: Wanted, vertices: Array) -> Array:
    """Vertices with all their digits, where these have been saved too."""
    path = os.path.join(wanted.source, _EXACT)
    if wanted.store.versions([path]) if is_address(path) else os.path.lexists(path):
        found = _numbers(wanted, _EXACT, "<f8", len(vertices), width=2)
        if numpy.array_equal(found.astype(numpy.float32), vertices):
            return found
    return vertices.astype(numpy.float64)


def _loaded_runs(wanted: Wanted, count: int) -> tuple[Array, bytes]:
    """Run lengths: five columns of `Masks.runs`, and all bytes of the file."""
    path, found = _stored(wanted, "masks_rles.dat")
    data, at, table = found.tobytes(), 4, []
    if data[:4] != count.to_bytes(4, "little"):
        raise damaged(path, f"does not tell {count} masks, as masks_rles_idx.dat does")
    for _ in range(count):
        height, width, length = struct.unpack_from("<QQQ", data, at) if len(data) - at >= 24 else (0, 0, 0)
        at += 24
        if not (0 < height < 2**31 and 0 < width < 2**31 and length <= (len(data) - at) // 4):
            raise damaged(path, f"is damaged at byte {at - 24}")
        table.append((height, width, 0, at, at + 4 * length))
        at += 4 * length
    if at != len(data):
        raise damaged(path, f"has {len(data) - at} bytes too many")
    return numpy.array(table, numpy.int64).reshape(-1, 5), data


def _save(found: Annotated, wanted: Wanted, folder: str) -> None:
    """Write binary files, each at once, and remove those that are not of these annotations."""
    files = dict.fromkeys(_SOMETIMES) | {
        name: data
        for name, data in _binary(found, wanted).items()
        if data[:4] != bytes(4) or name not in _NONE_IF_EMPTY
    }
    try:
        for name, data in files.items():
            path = os.path.join(folder, name)
            if data is None:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
                continue
            part = f"{path}.{secrets.token_hex(8)}.part"
            file = open(part, "xb")  # noqa: SIM115 - a new file: in a folder that is shared a link may lie in wait
            try:
                with file:
                    file.write(data)
                os.replace(part, path)
            except BaseException:
                with contextlib.suppress(OSError):  # the error that matters is the one on its way
                    os.remove(part)
                raise
    except OSError as error:
        raise ArgumentError(
            COCO._operator,
            "save_preprocessed_annotations_dir",
            "a folder that can be written to",
            shown(folder),
            f"{error.strerror}.",
        ) from error


def _binary(found: Annotated, wanted: Wanted) -> dict[str, bytes]:
    """The contents of the binary files."""

    def counted(column: Any, kind: str, width: int = 1) -> bytes:
        return (numpy.size(column) // width).to_bytes(4, "little") + numpy.asarray(column).astype(kind).tobytes()

    def spread(offsets: str, counts: str, starts: Array, kind: str) -> dict[str, bytes]:
        return {offsets: counted(starts[:-1], kind), counts: counted(numpy.diff(starts), kind)}

    for name in found.names:
        if "\n" in name:
            raise damaged(wanted.source, f"the name {shown(name)} of an image cannot be saved: it is of two lines")
    files = {
        "filenames.dat": b"".join(os.fsencode(name) + b"\n" for name in found.names),
        "boxes.dat": counted(found.boxes, "<f4"),
        "labels.dat": counted(found.categories, "<i4"),
        **spread("offsets.dat", "counts.dat", found.starts, "<i4"),
    }
    if wanted.ids:
        files["original_ids.dat"] = counted(found.image_ids, "<i4")
    if (masks := found.masks) is None:
        return files
    files |= spread("polygon_offset.dat", "polygons_count.dat", masks.polygon_starts, "<i8")
    files |= spread("vertices_offset.dat", "vertices_count.dat", masks.vertex_starts, "<i8")
    files |= {"polygon_data.dat": counted(masks.polygons, "<i4", 3), "vertices.dat": counted(masks.vertices, "<f4", 2)}
    if wanted.masks == "pixels":
        files |= {
            "heights.dat": counted(found.image_sizes[:, 0], "<i4"),
            "widths.dat": counted(found.image_sizes[:, 1], "<i4"),
            "masks_rles_idx.dat": counted(masks.runs[:, 0], "<i4"),
            "masks_rles.dat": _binary_runs(found, wanted),
            **spread("masks_offset.dat", "mask_count.dat", masks.run_starts, "<i8"),
        }
        if (masks.vertices.astype(numpy.float32) != masks.vertices).any():
            files[_EXACT] = counted(masks.vertices, "<f8", 2)
    return files


def _binary_runs(found: Annotated, wanted: Wanted) -> bytes:
    assert found.masks is not None
    parts = [len(found.masks.runs).to_bytes(4, "little")]
    for sample, name in enumerate(found.names):
        for runs in found.masks.runs_of(sample):
            try:
                counts = counts_of(runs)
            except Unusable as error:
                raise damaged(wanted.source, f"image {shown(name)}: {error}") from None
            parts += [struct.pack("<QQQ", runs.height, runs.width, len(counts)), counts.astype("<u4").tobytes()]
    return b"".join(parts)
