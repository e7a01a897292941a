"""Bytes that nobody would write, given to all that reads bytes: only documented exceptions may come out.

python tests/fuzzing.py                          every target for ten minutes: `make fuzz`
python tests/fuzzing.py --seconds 60 decode      one of them
python tests/fuzzing.py --count 1000000 decode   a million inputs, if ten minutes are enough; not with atheris

With atheris (the dependency group `fuzz`) the code that an input reaches steers what is tried next, and what was found
worth keeping stays in the folder .fuzz. Without it, and in the tests, files are damaged at random.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib.util
import json
import math
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".fuzz"
SLOWEST = 2.0  #: CPU seconds for one input of a few kilobytes
LARGEST = 1 << 16

Target = Callable[[bytes], bool]  # whether the bytes were taken


def decode(data: bytes) -> bool:
    """Bytes as an image file."""
    from dynamic import DecodeError, decoders

    try:
        found = decoders.image(data, max_pixels=1 << 20, output_type="ANY_DATA")
    except DecodeError as error:
        (failure,) = error.failures
        assert failure.reason
        return False
    assert found.ndim == 3
    assert found.size
    return True


def window(data: bytes) -> bool:
    """The first bytes as a place, and the others as an image file: a window is a part of the image."""
    import numpy

    from dynamic import ArgumentError, DecodeError, decoders, peek_image_shape

    place, data = data[:4], data[4:]
    if len(place) < 4:
        return False
    arguments = {"anchor": [place[0] / 255, place[1] / 255], "extent": [place[2] / 255, place[3] / 255]}
    limits = {"max_pixels": 1 << 16}
    try:
        shape = peek_image_shape(data, **limits).tolist()
        part = decoders.image_slice(data, *(numpy.float32(a) for a in arguments.values()), axis_names="HW", **limits)
    except (ArgumentError, DecodeError):
        return False
    assert all(a <= b for a, b in zip(part.shape, shape, strict=True))
    return True


def film(data: bytes) -> bool:
    """Bytes as a video file. Of a damaged one FFmpeg may show other pixels each time, but as many frames."""
    from dynamic import DecodeError, decoders

    try:
        found = decoders.video(data, max_values=1 << 24).array
        again = decoders.video(data, end_frame=len(found)).array
    except DecodeError as error:
        assert error.failures[0].reason  # noqa: PT017
        return False
    assert again.shape == found.shape
    assert found.shape[3:] == (3,)
    return True


def checkpoint(data: bytes) -> bool:
    """Bytes as a checkpoint file."""
    from dynamic import StateError
    from dynamic.checkpoint._file import decoded, encoded

    try:
        entries = decoded(data, "it")
    except StateError:
        return False
    if all(not entry.refusal for entry in entries.values()):
        assert b"dynamic" not in data[:30] or encoded(entries)
    return True


def states(data: bytes) -> bool:
    """JSON as the states of objects, whose digest is right."""
    from dynamic import StateError

    try:
        state = json.loads(data)
    except (ValueError, RecursionError):
        return False
    taken = False
    for thing in _stateful():
        before = thing.get_state()
        try:
            thing.set_state(state)
        except StateError:
            assert thing.get_state() == before
        else:
            taken = True
            thing.set_state(before)
    return taken


def legacy(data: bytes) -> bool:
    """Bytes as an old state that was pickled."""
    from dynamic import StateError
    from dynamic.checkpoint import legacy as reading

    reading.recognise(data)
    try:
        reading.read(data, allow="plain")
    except StateError:
        return False
    return True


def listing(data: bytes) -> bool:
    """Bytes as a list of files and labels."""
    from dynamic import ArgumentError, DataError, readers

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            reader = readers.File(file_list=file.name, random_shuffle=True)
        except ArgumentError:
            return False
        json.dumps(reader.get_state())
        try:
            reader.peek(batch_size=1)
        except DataError as error:
            assert error.failures[0].source  # noqa: PT017
    return True


def array(data: bytes) -> bool:
    """Bytes as a `.npy` file: what NumPy reads of it where both take it."""
    import io

    import numpy

    from dynamic import DecodeError, decoders

    try:
        found = decoders.numpy(data)
    except DecodeError as error:
        (failure,) = error.failures
        assert failure.reason
        return False
    assert found.array.nbytes <= len(data)
    try:
        expected = numpy.load(io.BytesIO(data), allow_pickle=False)
    except ValueError:
        return True  # NumPy minds some white space behind a header
    if found.array.dtype.kind != "b":  # of which NumPy keeps bytes that are neither 0 nor 1
        assert numpy.array_equal(found.array, expected, equal_nan=True)
    return True


def archive(data: bytes) -> bool:
    """Bytes as a tar archive of samples."""
    from dynamic import readers

    return _read(".tar", data, lambda path: readers.Webdataset(
        paths=path, ext=["jpg;png", "cls"], missing_component_behavior="empty"))  # fmt: skip


def records(data: bytes) -> bool:
    """Bytes as a file of TFRecord."""
    from dynamic import readers
    from dynamic.readers import tfrecord

    features = {"label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
                "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "box": tfrecord.VarLenFeature(tfrecord.float32, 0.0)}  # fmt: skip
    return _read(".tfrecord", data, lambda path: readers.TFRecord(path=path, features=features))


def annotations(data: bytes) -> bool:
    """JSON as annotations of COCO."""
    from dynamic import readers

    def with_masks(kind: str) -> bool:
        arguments = {"file_root": _folder(), kind: True, "image_ids": True}
        return _read(".json", data, lambda path: readers.COCO(annotations_file=path, **arguments))

    return with_masks("polygon_masks") | with_masks("pixelwise_masks")


def _read(suffix: str, data: bytes, make: Callable[[str], object]) -> bool:
    """A file, all of whose samples a reader gives, unless it is refused by name."""
    from dynamic import ArgumentError, DataError

    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(data)
        file.flush()
        try:
            reader = make(file.name)
            json.dumps(reader.get_state())
            found = list(reader.next_epoch(batch_size=2))
        except ArgumentError:
            return False
        except DataError as error:
            assert error.failures[0].reason  # noqa: PT017
            return False
        first = [next(iter(outputs.values())) if isinstance(outputs, dict) else outputs[0] for outputs in found]
        assert sum(map(len, first)) == reader.get_metadata()["epoch_size"]
    return True


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp())
    for name in ("a/1.jpg", "a/2.jpg", "b/3.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    return folder


@functools.cache
def _stateful() -> tuple:
    from dynamic import random as draws
    from dynamic import readers

    return (draws.RNG(1), readers.File(file_root=_folder(), random_shuffle=True),
            readers.File(file_root=_folder(), on_mismatch="adapt", random_shuffle=True))  # fmt: skip


def _images() -> list[bytes]:
    import hostile_files

    return [file.data for file in hostile_files.files().values() if len(file.data) <= LARGEST]


def _checkpoints() -> list[bytes]:
    from dynamic.checkpoint._file import Entry, encoded

    kept = [
        encoded({f"{i}": Entry(type(thing).__qualname__, thing.get_state())}) for i, thing in enumerate(_stateful())
    ]
    dali = (Path(__file__).parent / "data" / "dali_2_4.json").read_bytes()
    return [*kept, b"{}", b"[]", dali[:LARGEST], pickle.dumps({"a": 1})]


def _states() -> list[bytes]:
    reader = _stateful()[1]
    before, kept = reader.get_state(), [b'{"seed": 1}']
    for _ in range(5):
        kept += [json.dumps(thing.get_state()).encode() for thing in _stateful()]
        next(iter(reader.next_epoch(batch_size=1)), None)
    reader.set_state(before)
    return kept


def _pickles() -> list[bytes]:
    import pickles

    plain = [pickle.dumps(value, protocol) for value in pickles.values().values() for protocol in range(6)]
    all_of_them = [*plain, *pickles.hostile().values(), *pickles.malformed().values()]
    return [data for data in all_of_them if len(data) <= LARGEST]


def _lists() -> list[bytes]:
    return [
        b"a/1.jpg 0\na/2.jpg 0\nb/3.jpg 1\n",
        b"a b.jpg\t7\n\n",
        b"/etc/hostname -1",
        b"\xff\xfe 2147483647\n",
        b"x 2147483648",
    ]


def _arrays() -> list[bytes]:
    import io

    import numpy

    values = [numpy.arange(12, dtype="i2").reshape(3, 4), numpy.zeros((0, 3), ">f8"), numpy.float32(7),
              numpy.array(numpy.eye(3, dtype="f2"), order="F"), numpy.array([True]), numpy.array(["a"])]  # fmt: skip
    kept = []
    for value in values:
        for version in ((1, 0), (2, 0), (3, 0)):
            file = io.BytesIO()
            numpy.lib.format.write_array(file, numpy.asanyarray(value), version)
            kept.append(file.getvalue())
    return kept


def _archives() -> list[bytes]:
    import io
    import tarfile

    kept = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=form) as archive:
            for name in ("a/1.jpg", "a/1.cls", "2.png", f"{'long' * 25}/3.jpg", "3.txt"):
                entry = tarfile.TarInfo(name)
                entry.size = 7
                archive.addfile(entry, io.BytesIO(b"7 bytes"))
        kept.append(file.getvalue())
    return kept


def _records() -> list[bytes]:
    from test_readers_tfrecord import example, feature, framed, labelled

    several = [labelled(7), example(label=feature("int64", [3]), box=feature("float32", [0.5, 1.5])),
               example(image=feature("string", [b"image"]))]  # fmt: skip
    return [b"".join(map(framed, several)), framed(several[1]), b""]


def _annotations() -> list[bytes]:
    images = [{"id": i, "file_name": name, "width": 6, "height": 4}
              for i, name in enumerate(("a/1.jpg", "a/2.jpg", "b/3.jpg"), 3)]  # fmt: skip
    shapes = [[[0, 0, 4, 0, 4, 3]], {"size": [4, 6], "counts": [3, 5, 16]}, {"size": [4, 6], "counts": "35`0"}]
    boxes = [{"image_id": 3 + i, "category_id": 17, "bbox": [1, 0, 4, 2], "iscrowd": int(i > 0), "segmentation": shape}
             for i, shape in enumerate(shapes)]  # fmt: skip
    whole = {"images": images, "annotations": boxes, "categories": [{"id": 17, "name": "cat"}]}
    return [
        json.dumps(whole).encode(),
        json.dumps({**whole, "annotations": boxes[:1], "info": {"year": 2026}}).encode(),
    ]


def _films() -> list[bytes]:
    import videos

    return [videos.video(name).data for name in videos.VIDEOS if len(videos.video(name).data) < 5000]


#: For each target what it does with bytes, and bytes to begin with.
TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]]]] = {
    "decode": (decode, _images),
    "film": (film, _films),
    "window": (window, lambda: [struct.pack("4B", 9, 60, 99, 50) + data for data in _images()]),
    "checkpoint": (checkpoint, _checkpoints),
    "states": (states, _states),
    "legacy": (legacy, _pickles),
    "listing": (listing, _lists),
    "array": (array, _arrays),
    "archive": (archive, _archives),
    "records": (records, _records),
    "annotations": (annotations, _annotations),
}
#: Those whose bytes are JSON, of which damage to bytes would seldom leave any.
_JSON = ("states", "annotations")


def repaired(data: bytes) -> bytes:
    """A PNG whose checksums are right, so that damage gets past them; anything else as it is."""
    start = data.find(b"\x89PNG\r\n\x1a\n", 0, 12)
    if start < 0:
        return data
    whole, position = bytearray(data), start + 8
    while position + 12 <= len(whole):
        end = position + 8 + struct.unpack_from(">I", whole, position)[0]
        if end + 4 > len(whole):
            break
        struct.pack_into(">I", whole, end, zlib.crc32(whole[position + 4 : end]))
        position = end + 4
    return bytes(whole)


_NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)


def damaged(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A file with one to six things done to it."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(changed) + 1)
        end = min(len(changed), place + int(math.exp(chance.uniform(0, 6))))
        kind = chance.randrange(8)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and place < len(changed):
            changed[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 2:
            changed[place:place] = chance.randbytes(chance.randint(1, 8))
        elif kind == 3:
            del changed[place:end]
        elif kind == 4:
            changed[place:place] = changed[place:end]
        elif kind == 5:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            changed[place:end] = other[start : start + end - place]
        elif kind == 6:
            changed[place : place + 4] = struct.pack(chance.choice("<>") + "I", chance.choice(_NUMBERS))
        else:
            changed[place : place + 2] = struct.pack(chance.choice("<>") + "H", chance.choice(_NUMBERS) & 0xFFFF)
        if chance.random() < 0.03:
            del changed[place:]
    found = bytes(changed[:LARGEST])
    return repaired(found) if chance.random() < 0.7 else found


_VALUES = (*_NUMBERS, -1, 2**64, 10**400, 0.5, -0.0, 1e300, math.nan, math.inf, True, False, None, "", "0", "\0\ud800",
           [], {}, [[]], {"": {}})  # fmt: skip


def damaged_state(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """JSON with one to three of its values or keys changed; damage to its bytes would seldom leave any JSON."""
    if chance.random() < 0.05:
        return damaged(data, others, chance)
    changed, other = json.loads(data), json.loads(chance.choice(others))
    for _ in range(chance.randint(1, 3)):
        if not (places := _places(changed)):
            break
        holder, key = chance.choice(places)
        kind = chance.randrange(5)
        if kind == 0:
            giving, place = chance.choice(_places(other))
            holder[key] = copy.deepcopy(giving[place])
        elif kind == 1 and isinstance(holder[key], str):
            holder[key] = damaged(holder[key].encode(errors="replace"), others, chance).decode(errors="replace")
        elif kind == 1 and isinstance(holder[key], (int, float)):
            holder[key] += chance.choice((-1, 1))
        elif kind == 2:
            del holder[key]
        elif kind == 3 and isinstance(holder, dict):
            holder[chance.choice((key.upper(), key[1:], "x", "version"))] = holder.pop(key)
        else:
            holder[key] = copy.deepcopy(chance.choice(_VALUES))
    return json.dumps(changed).encode()


def _places(holder: dict | list) -> list[tuple]:
    """Every value within, as what holds it and its key or index there."""
    found = []
    for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
        found.append((holder, key))
        if isinstance(value, (dict, list)):
            found += _places(value)
    return found


def check(name: str, data: bytes) -> None:
    """Give an input to a target; what comes out that should not is noted with the input."""
    start = time.process_time()
    try:
        TARGETS[name][0](data)
        taken = time.process_time() - start
        assert taken < SLOWEST, f"{taken:.1f} s"
    except Exception as error:
        error.add_note(f"Target {name}, input of {len(data)} bytes: bytes.fromhex({data[:2000].hex()!r})")
        raise


def mutate(name: str, count: int, seed: int = 0, seconds: float = math.inf) -> int:
    """Give damaged files to a target; how many it were."""
    chance, seeds = random.Random(f"{name} {seed}"), TARGETS[name][1]()
    damage = damaged_state if name in _JSON else damaged
    end, done = time.monotonic() + seconds, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in seeds:
            check(name, data)
        while done < count and time.monotonic() < end:
            check(name, damage(chance.choice(seeds), seeds, chance))
            done += 1
    return done


def _with_atheris(name: str, seconds: float) -> None:
    """Never comes back: the fuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["dynamic"]):
        import dynamic.checkpoint.legacy  # noqa: F401

    seeds = FOLDER / name
    seeds.mkdir(parents=True, exist_ok=True)
    for data in TARGETS[name][1]():
        (seeds / f"seed-{zlib.crc32(data):08x}").write_bytes(data)
    warnings.simplefilter("ignore")
    options = [f"-max_total_time={seconds:.0f}", f"-max_len={LARGEST}", "-timeout=20", "-rss_limit_mb=2048",
               f"-artifact_prefix={FOLDER}/found-{name}-", "-print_final_stats=1", "-verbosity=0"]  # fmt: skip
    atheris.Setup(
        [sys.argv[0], *options, str(seeds)],
        lambda data: check(name, data),
        custom_mutator=lambda data, most, _seed: repaired(atheris.Mutate(data, most)),
    )
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {', '.join(TARGETS)}; by default all")
    parser.add_argument("--seconds", type=float, default=600, help="for each of them; by default 600")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="of inputs for each at most, without atheris")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="of the damage, without atheris")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    steered = importlib.util.find_spec("atheris") is not None
    if asked.one:
        _with_atheris(asked.targets[0], asked.seconds)
    failed = 0
    for name in asked.targets or TARGETS:
        print(f"{name}: {'atheris' if steered else f'seed {asked.seed}'}", flush=True)
        if steered:
            command = [sys.executable, __file__, "--one", "--seconds", str(asked.seconds), name]
            failed += subprocess.run(command, check=False).returncode != 0
        else:
            print(f"{name}: {mutate(name, asked.count, asked.seed, asked.seconds)} inputs", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
