"""Objects in images, as COCO's JSON files and the binary files that DALI makes of them hold them, in flat arrays."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy

from dynamic._arrays.array import Array
from dynamic.errors import ArgumentError, DataError, displayed, shown
from dynamic.io._address import is_address
from dynamic.io._bytes import can_be
from dynamic.io._store import DISK, Store

from ._listing import Listing, _Once, listed_paths, unlisted
from ._names import starts_of
from ._uniform import Table, shortened

__all__ = ["Annotated", "Masks", "Runs", "Wanted", "damaged", "parsed"]

_OPERATOR = "readers.COCO"
_LARGEST = 1e38  # of a coordinate: a float32 holds the sum of two
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_NUMBERS = {int, float}
_POLYGONS = re.compile(r'"segmentation":\s*\[[][0-9.,eE+\s-]*\](?=\s*(?:\}|,\s*"))')
_RUNS = re.compile(
    r'"segmentation":\s*\{\s*"(?:counts|size)":\s*\[[0-9,\s]*\],\s*"(?:counts|size)":\s*\[[0-9,\s]*\]\s*\}(?=\s*(?:\}|,\s*"))'
)
damaged = functools.partial(unlisted, _OPERATOR)


class Wanted(NamedTuple):
    """The selection of annotations."""

    source: str  #: a JSON file, or a folder of binary files
    root: str  #: of the images
    preprocessed: bool  #: the source is a folder
    images: tuple[str, ...] | None
    size_threshold: float
    include_iscrowd: bool
    remapped: bool
    skip_empty: bool
    ltrb: bool
    ratio: bool
    masks: str  #: "", "polygons" or "pixels"
    ids: bool  #: are an output
    save: str | None  #: the folder to write binary files to
    store: Store = DISK  #: of the source and the images

    @property
    def store_of_images(self) -> Store:
        """Where the images lie."""
        return self.store if is_address(self.root) else DISK


class Runs(NamedTuple):
    """A mask as COCO's RLE: how many pixels are outside, inside, outside ... one column after the other."""

    number: int  #: of the object in its sample
    height: int
    width: int
    counts: Array  #: uint32; uint8 where they are COCO's compressed text


class Masks(NamedTuple):
    """The masks of the objects of samples; those of sample i are ``starts[i]`` to ``starts[i + 1]``."""

    polygon_starts: Array  #: int64 of shape (N + 1,), as the other starts
    polygons: Array  #: int32 of shape (P, 3): the object, and where its vertices begin and end, counted in the sample
    vertex_starts: Array
    vertices: Array  #: of shape (V, 2): float32, or float64 for pixels, of which each digit may tell
    run_starts: Array
    runs: Array  #: int64 of shape (K, 6): object, height, width, whether the counts are text, their first byte and end
    run_bytes: bytes

    def runs_of(self, sample: int) -> list[Runs]:
        """The masks of a sample that are run lengths."""
        rows = self.runs[self.run_starts[sample] : self.run_starts[sample + 1]].tolist()
        return [
            Runs(number, height, width, numpy.frombuffer(self.run_bytes[start:end], numpy.uint8 if text else "<u4"))
            for number, height, width, text, start, end in rows
        ]


@dataclass(frozen=True)
class Annotated(Listing):
    """Images and the objects in them.

    Attributes:
        image_ids: int64 of shape (N,).
        image_sizes: Heights and widths: int64 of shape (N, 2), 0 where nothing needs them.
        starts: Where the objects of each sample begin; behind it, where the last end: int64 of shape (N + 1,).
        boxes: float32 of shape (M, 4), as they are given out.
        categories: int32 of shape (M,), as they are given out.
        masks: Where they are wanted.
    """

    image_ids: Array
    image_sizes: Array
    starts: Array
    boxes: Array
    categories: Array
    masks: Masks | None

    def paths(self, indices: Sequence[int]) -> list[str]:
        """Where to open some images. Names in annotations lead to no other store."""
        return [f"{self.root}/{name}" for name in self.take(indices)] if self.store.far else super().paths(indices)

    def labels_of(self, indices: Any) -> Array:
        """Digests of the objects of some samples: int32 of shape (N, 4)."""
        return self._digests_of_objects[indices]

    @_Once
    def _digests_of_objects(self) -> Array:
        columns = [(self.starts, self.boxes), (self.starts, self.categories)]
        if self.masks:
            columns += [
                (self.masks.polygon_starts, self.masks.polygons),
                (self.masks.vertex_starts, self.masks.vertices.astype(numpy.float32)),
            ]
        parts = [(starts.tolist(), column) for starts, column in columns]
        heads = numpy.column_stack([self.image_ids, self.image_sizes]).astype("<i8")
        with_runs = numpy.diff(self.masks.run_starts).tolist() if self.masks else [0] * len(self.names)
        digests = []
        for i, head in enumerate(heads):
            hashed = hashlib.blake2b(head, digest_size=16)
            for starts, column in parts:
                first, end = starts[i], starts[i + 1]
                hashed.update(b"%d:" % (end - first))
                hashed.update(column[first:end])
            for runs in self.masks.runs_of(i) if self.masks and with_runs[i] else ():
                hashed.update(b"%d %d %d:" % runs[:3])
                hashed.update(runs.counts)
            digests.append(hashed.digest())
        return numpy.frombuffer(b"".join(digests), "<i4").reshape(-1, 4).astype(numpy.int32)


# JSON files


class _Rows:
    """The objects in a list of a JSON file; a message about one says where it is, and its id."""

    def __init__(self, path: str, document: dict[str, Any], key: str, *, needed: bool = True) -> None:
        self.path, self.title = path, {"categories": "category"}.get(key, key[:-1])
        rows: Any = document.get(key, None if needed else [])
        self._table: Table | None = rows if isinstance(rows, Table) else None
        self._rows: Any = None if isinstance(rows, Table) else rows
        if self._table is None and not isinstance(rows, list):
            raise damaged(path, f"key {key!r} must be a list of {key}; got {shown(rows)}")
        self.numbers = numpy.arange(len(rows))
        if self._table is None and set(map(type, rows)) - {dict}:
            i = next(i for i, row in enumerate(rows) if not isinstance(row, dict))
            raise damaged(path, f"{self.title} {i} must be an object; got {shown(rows[i])}")

    @property
    def rows(self) -> list[Any]:
        """The objects."""
        if self._rows is None:
            assert self._table is not None, "one of the two is there"
            rows = self._table.rows()
            self._rows = [rows[number] for number in self.numbers.tolist()]
        found: list[Any] = self._rows
        return found

    def take(self, rows: Array) -> None:
        """Keep the rows of these numbers, in this order."""
        if len(rows) != len(self.numbers) or not numpy.array_equal(rows, numpy.arange(len(rows))):
            self.numbers = self.numbers[rows]
            self._rows = None if self._rows is None else [self._rows[row] for row in rows.tolist()]

    def refused(self, row: int, key: str, expected: str, value: Any) -> DataError:
        """The error for a wrong value of a row."""
        name = self.rows[row].get("id")
        known = f" (id {shown(name).partition(' ')[2]})" if isinstance(name, (int, float, str)) else ""
        got = shown(value) if key in self.rows[row] else "no such key"
        return damaged(self.path, f"{self.title} {self.numbers[row]}{known}: {key!r} must be {expected}; got {got}")

    def column(self, key: str, expected: str, right: Callable[[Any], bool], types: set[type]) -> list[Any]:
        """The values of a key, whose types are these, or which are right one by one."""
        values = [row.get(key) for row in self.rows]
        if set(map(type, values)) - types:
            for row, value in enumerate(values):
                if not right(value):
                    raise self.refused(row, key, expected, value)
        return values

    def integers(self, key: str, low: int = _INT64[0], high: int = _INT64[-1]) -> Array:
        """The values of a key as int64; numbers such as 3.0 are integers."""
        known = None if self._table is None else self._table.integers(key)
        if known is not None:
            known = known[self.numbers]
            if ((known >= low) & (known <= high)).all():
                return known
        expected = "an integer of 64 bits" if low < 0 else f"an integer from {low} to {high}"

        def right(value: Any) -> bool:
            return _is_number(value) and low <= value <= high and value == value // 1

        values = [row.get(key) for row in self.rows]
        if set(map(type, values)) - {int}:
            values = [int(value) if right(value) else value for value in values]
        try:
            found = numpy.array(values, numpy.int64) if not set(map(type, values)) - {int} else None
        except OverflowError:
            found = None
        if found is None or (found < low).any() or (found > high).any():
            row = next(row for row, value in enumerate(values) if isinstance(value, bool) or not right(value))
            raise self.refused(row, key, expected, self.rows[row].get(key))
        return found

    def boxes(self) -> Array:
        """The values of "bbox": float64 of shape (N, 4)."""
        known = None if self._table is None else self._table.floats("bbox", 4)
        if known is not None and (numpy.abs(known) <= _LARGEST).all():
            return known[self.numbers]
        expected = "a list of 4 numbers of at most 1e38"
        found = self.column("bbox", expected, _are_numbers, {list})
        boxes: Array | None = None
        if not set(map(len, found)) - {4} and not set(map(type, itertools.chain.from_iterable(found))) - _NUMBERS:
            boxes = _floats(itertools.chain.from_iterable(found), 4 * len(found))
        if boxes is None:
            row = next(row for row, box in enumerate(found) if len(box) != 4 or not _are_numbers(box))
            raise self.refused(row, "bbox", expected, found[row])
        return boxes.reshape(-1, 4)


def _is_bit(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and value in {0, 1})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _floats(values: Sequence[Any] | itertools.chain[Any], count: int) -> Array | None:
    """Numbers as float64, or None if one of them is none that float32 can be."""
    try:
        found = numpy.fromiter(values, numpy.float64, count)
    except OverflowError:
        return None
    return found if (numpy.abs(found) <= _LARGEST).all() else None


def _are_numbers(values: Any) -> bool:
    """Whether a value is a list of numbers that are not too large."""
    return isinstance(values, list) and all(_is_number(value) and abs(value) <= _LARGEST for value in values)


def _document(path: str, store: Store, *, polygons: bool) -> dict[str, Any]:
    """The document of a JSON file, perhaps without polygons, which are most of it and take most of the time."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number")

    try:
        text = store.contents(path).tobytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise ArgumentError(
            _OPERATOR,
            "annotations_file",
            "a JSON file of annotations as COCO has them",
            shown(path),
            f"{error.strerror}.",
        ) from error
    if not polygons and '"segmentation"' in text:
        text = _RUNS.sub('"segmentation":[]', _POLYGONS.sub('"segmentation":[]', text))
    try:
        document = _with_table(text, refuse)
    except RecursionError:
        raise damaged(path, "is not a JSON file that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise damaged(path, f"is not a JSON file: {error}") from None
    if not isinstance(document, dict):
        raise damaged(path, f"must be a JSON object with 'images' and 'annotations'; got {shown(document)}")
    return document


def _with_table(text: str, refuse: Callable[[str], NoReturn]) -> Any:
    """The value of a JSON text; its annotations are a `Table` where they can be one."""
    short = shortened(text, "annotations")
    if short is not None:
        with contextlib.suppress(ValueError):  # the whole text tells where it is none
            document = json.loads(short[0], parse_constant=refuse)
            if isinstance(document, dict) and document.get("annotations") == [short[1]]:
                return document | {"annotations": short[2]}
    return json.loads(text, parse_constant=refuse)


def parsed(wanted: Wanted) -> Annotated:
    """The images of a JSON file with their objects."""
    document = _document(wanted.source, wanted.store, polygons=bool(wanted.masks))
    images = _Rows(wanted.source, document, "images")
    ids, names, sizes = _images(images, sized=wanted.ratio or wanted.masks == "pixels")
    order = numpy.argsort(ids, kind="stable")
    objects = _Rows(wanted.source, document, "annotations", needed=False)
    image_of, boxes = _boxes(objects, ids[order], wanted)
    counts = numpy.bincount(image_of, minlength=len(ids))
    places = numpy.empty_like(order)
    places[order] = numpy.arange(len(order))
    chosen = _chosen(names, order, wanted)
    if wanted.skip_empty:
        chosen = chosen[counts[places[chosen]] > 0]
    if not len(chosen):
        kept = " with objects in them" if wanted.skip_empty else ""
        raise ArgumentError(
            _OPERATOR, "annotations_file", f"a file with images{kept}", f"{displayed(wanted.source)}, which has none"
        )
    firsts, counts = starts_of(counts)[places[chosen]], counts[places[chosen]]
    starts = starts_of(counts)
    grouped = numpy.argsort(image_of, kind="stable")
    grouped = grouped[numpy.repeat(firsts - starts[:-1], counts) + numpy.arange(starts[-1])]
    objects.take(grouped)
    boxes, sizes = boxes[grouped], sizes[chosen]
    owner = numpy.repeat(numpy.arange(len(chosen)), counts)
    if wanted.ltrb:
        boxes[:, 2:] += boxes[:, :2]
    scale = sizes[:, ::-1].astype(numpy.float32)
    if wanted.ratio:
        boxes /= numpy.tile(scale, 2)[owner]
    masks = _masks(objects, starts, owner, pixels=wanted.masks == "pixels") if wanted.masks else None
    if masks and wanted.ratio and wanted.masks == "polygons":
        masks.vertices[:] /= numpy.repeat(scale, numpy.diff(masks.vertex_starts), axis=0)
    given = ids[chosen] if wanted.ids else numpy.zeros(len(chosen), numpy.int64)
    for row in numpy.flatnonzero(given != given.astype(numpy.int32)).tolist():
        raise images.refused(int(chosen[row]), "id", "an integer of 32 bits, as image_ids are", int(given[row]))
    if wanted.masks != "pixels":
        sizes[:] = 0
    nothing = numpy.zeros((len(chosen), 0), numpy.int32)
    return Annotated(
        wanted.root,
        listed_paths([names[i] for i in chosen.tolist()], wanted.root),
        nothing,
        given,
        sizes,
        starts,
        boxes,
        _categories(objects, document, wanted),
        masks,
        classes=_classes(document, remapped=wanted.remapped),
        store=wanted.store_of_images,
    )


def _images(images: _Rows, *, sized: bool) -> tuple[Array, list[str], Array]:
    """The ids, names, and sizes of images."""
    ids = images.integers("id")
    found, first, counts = numpy.unique(ids, return_index=True, return_counts=True)
    if len(found) < len(ids):
        row = int(first[counts > 1][0])
        raise images.refused(row, "id", "that of one image alone", int(ids[row]))
    names = images.column("file_name", "a path", lambda value: isinstance(value, str), {str})
    if not all(names) or not can_be("".join(names)):
        row = next(row for row, name in enumerate(names) if not name or not can_be(name))
        raise images.refused(row, "file_name", "the path of a file", names[row])
    if not sized:
        return ids, names, numpy.zeros((len(ids), 2), numpy.int64)
    return ids, names, numpy.column_stack([images.integers(key, 1, _INT32[-1]) for key in ("height", "width")])


def _chosen(names: list[str], order: Array, wanted: Wanted) -> Array:
    """The numbers of the images that are samples."""
    if wanted.images is None:
        return order
    numbers, occurrences = {name: i for i, name in enumerate(names)}, Counter(names)
    for i, name in enumerate(wanted.images):
        if occurrences[name] != 1:
            got = f"{shown(name)}, which {occurrences[name] or 'none'} of the images has"
            raise ArgumentError(_OPERATOR, f"images[{i}]", "the 'file_name' of one image in the annotations file", got)
    return numpy.array([numbers[name] for name in wanted.images], numpy.int64)


def _boxes(objects: _Rows, ids: Array, wanted: Wanted) -> tuple[Array, Array]:
    """Keep the objects that are wanted; the place of the image of each among all ids, and its box as float32."""
    image_ids = objects.integers("image_id")
    places: Array = numpy.searchsorted(ids, image_ids)
    kept: Array = numpy.append(ids, 0)[places] == image_ids
    kept &= places < len(ids)
    if not wanted.include_iscrowd:
        values = objects.column("iscrowd", "0 or 1", _is_bit, {bool, type(None)})
        kept &= ~numpy.fromiter(map(bool, values), numpy.bool_, len(values))
    rows = numpy.flatnonzero(kept)
    objects.take(rows)
    boxes = objects.boxes().astype(numpy.float32)
    large = numpy.flatnonzero((boxes[:, 2:] >= numpy.float32(wanted.size_threshold)).all(axis=1))
    objects.take(large)
    return places[rows][large], boxes[large]


def _categories(objects: _Rows, document: dict[str, Any], wanted: Wanted) -> Array:
    """The labels of the categories of objects: int32."""
    ids = objects.integers("category_id")
    if wanted.remapped:
        table: dict[int, int] = {}
        known = _Rows(wanted.source, document, "categories", needed=False).integers("id").tolist()
        for place, number in enumerate(known, 1):
            table.setdefault(number, place)
        given, inverse = numpy.unique(ids, return_inverse=True)
        places = numpy.array([table.get(number, 0) for number in given.tolist()], numpy.int64)[inverse]
        expected = "one of 'categories', unless avoid_class_remapping=True"
    else:
        places = numpy.where((ids < _INT32[0]) | (ids > _INT32[-1]), 0, ids)
        expected = "an integer of 32 bits"
    for row in numpy.flatnonzero((places == 0) if wanted.remapped else places != ids).tolist():
        raise objects.refused(row, "category_id", expected, int(ids[row]))
    return places.astype(numpy.int32)


def _classes(document: dict[str, Any], *, remapped: bool) -> dict[int, str]:
    """The names of categories by their labels. Nothing else needs them, so those that are none may be."""
    found: dict[int, str] = {}
    places: dict[int, int] = {}  # of the first of each id
    rows = document.get("categories")
    for place, row in enumerate(rows if isinstance(rows, list) else [], 1):
        number, name = (row.get("id"), row.get("name")) if isinstance(row, dict) else (None, None)
        if type(number) is int and places.setdefault(number, place) == place and isinstance(name, str):
            found[place if remapped else number] = name
    return found


def _masks(objects: _Rows, starts: Array, owner: Array, *, pixels: bool) -> Masks:
    """The masks of objects, which belong to these samples, as they are given out or as pixels are made of them."""
    kinds = "a list of polygons, or an object with 'size' and 'counts'"
    found = objects.column(
        "segmentation", kinds, lambda value: value is None or isinstance(value, (list, dict)), {list, dict, type(None)}
    )
    n = len(starts) - 1
    of = [row for row, shape in enumerate(found) if type(shape) is list for _ in shape]
    polygons = [polygon for shape in found if type(shape) is list for polygon in shape]
    vertices = _vertices(objects, of, polygons).astype(numpy.float64 if pixels else numpy.float32, copy=False)
    lengths = numpy.fromiter(map(len, polygons), numpy.int64, len(polygons)) // 2
    rows = numpy.array(of, numpy.int64)
    samples = owner[rows]
    ends = numpy.cumsum(lengths)
    vertex_starts = starts_of(numpy.bincount(samples, lengths, n).astype(numpy.int64))
    firsts = vertex_starts[samples]
    table = numpy.column_stack([rows - starts[samples], ends - lengths - firsts, ends - firsts])
    runs, run_rows, run_bytes = _runs(objects, found if pixels else [])
    run_owner = owner[numpy.array(run_rows, numpy.int64)]
    numbers = numpy.array(run_rows, numpy.int64) - starts[run_owner]
    run_table = numpy.column_stack([numbers, numpy.array(runs, numpy.int64).reshape(-1, 5)])
    return Masks(
        starts_of(numpy.bincount(samples, minlength=n)),
        table.astype(numpy.int32),
        vertex_starts,
        vertices,
        starts_of(numpy.bincount(run_owner, minlength=n)),
        run_table,
        run_bytes,
    )


def _vertices(objects: _Rows, of: list[int], polygons: list[Any]) -> Array:
    """The vertices of polygons of objects: float64 of shape (V, 2)."""
    right = not set(map(type, polygons)) - {list} and not any(len(polygon) % 2 for polygon in polygons)
    if right and not set(map(type, itertools.chain.from_iterable(polygons))) - _NUMBERS:
        vertices = _floats(itertools.chain.from_iterable(polygons), sum(map(len, polygons)))
        if vertices is not None:
            return vertices.reshape(-1, 2)
    i = next(i for i, polygon in enumerate(polygons) if not _are_numbers(polygon) or len(polygon) % 2)
    expected = "a list of polygons, which are lists of x, y, x, y ..., of at most 1e38"
    raise objects.refused(of[i], "segmentation", expected, polygons[i])


def _runs(objects: _Rows, found: list[Any]) -> tuple[list[list[int]], list[int], bytes]:
    """The run lengths among segmentations: five columns of `Masks.runs`, which objects have them, and the bytes."""
    table, rows, parts, end = [], [], [], 0
    for row, shape in enumerate(found):
        if type(shape) is not dict:
            continue
        size, counts = shape.get("size"), shape.get("counts")
        if not (isinstance(size, list) and len(size) == 2 and all(type(x) is int and 0 < x < 2**31 for x in size)):
            raise objects.refused(row, "segmentation", "run lengths whose 'size' is [height, width]", shape)
        if isinstance(counts, str) and counts.isascii():
            part = counts.encode()
        elif isinstance(counts, list) and all(type(x) is int and 0 <= x < 2**32 for x in counts):
            part = numpy.array(counts, "<u4").tobytes()
        else:
            expected = "run lengths whose 'counts' are integers, or COCO's compressed text"
            raise objects.refused(row, "segmentation", expected, shape)
        parts.append(part)
        table.append([*size, int(isinstance(counts, str)), end, end + len(part)])
        rows.append(row)
        end += len(parts[-1])
    return table, rows, b"".join(parts)
