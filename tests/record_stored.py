"""Files of MXNet, Caffe, Caffe2 and FITS, and what DALI 2.4 reads of them, in data/dali_stored.json.

Run it with ``DYNAMIC_DALI_PYTHON`` naming a Python that has DALI: ``python tests/record_stored.py``. The files are made
here, but for the RecordIO file, which MXNet's own library wrote: it is kept.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from dali_oracle import DaliError, Oracle, connect
from record_dali import pack

FILE = Path(__file__).with_name("data") / "dali_stored.json"
FLOAT, INT32, BYTE, STRING, INT64 = 1, 2, 3, 4, 10
SCRIPT = """
import json
name, arguments = json.loads(question)
module = ndd.experimental.readers if name == "Fits" else ndd.readers
result = [tuple(sample) for sample in getattr(module, name)(**arguments).next_epoch()]
"""


def varint(value: int) -> bytes:
    """A number as Protocol Buffers write it."""
    value &= 2**64 - 1
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number: int, data: bytes | int) -> bytes:
    """A field of bytes, or of a number."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


def datum(data: bytes | None = None, label: int | None = None, encoded: bool | None = None, shape: Any = None) -> bytes:
    """A record of Caffe; the shape has channels, height and width."""
    parts = [field(k, extent) for k, extent in enumerate(shape or (), 1)]
    parts += [field(4, data)] if data is not None else []
    parts += [field(5, label)] if label is not None else []
    return b"".join(parts + ([field(7, int(encoded))] if encoded is not None else []))


def tensor(kind: int, values: Any, dims: Any = None, packed: bool = True) -> bytes:
    """A tensor of Caffe2."""
    parts = [field(1, extent) for extent in ([len(values)] if dims is None else dims)] + [field(2, kind)]
    if kind == FLOAT:
        parts.append(field(3, np.array(values, "<f4").tobytes()))
    elif kind in (INT32, INT64):
        number = 4 if kind == INT32 else 10
        parts += [field(number, b"".join(map(varint, values)))] if packed else [field(number, v) for v in values]
    else:
        parts += [field(5, values)] if kind == BYTE else [field(6, value) for value in values]
    return b"".join(parts)


def tensors(*parts: bytes) -> bytes:
    """A record of Caffe2."""
    return b"".join(field(1, part) for part in parts)


FILED, ONE = tensor(STRING, [b"a file"]), tensor(INT32, [1])
RAW = bytes(range(24))
#: The reader, its records, and its arguments.
RECORDS: dict[str, tuple[str, list[bytes], dict[str, Any]]] = {
    "files": ("Caffe", [datum(b"file %d" % k, k - 1, True, (3, 2, 2)) for k in range(3)], {}),
    "nothing told": ("Caffe", [datum(RAW, 5, None, (3, 2, 4))], {}),
    "raw, of one channel": ("Caffe", [datum(RAW, 5, False, (1, 4, 6))], {}),
    "raw, of several": ("Caffe", [datum(RAW, 5, False, (3, 2, 4))], {}),
    "an empty file": ("Caffe", [datum(b"", 4)], {}),
    "a field twice": ("Caffe", [datum(b"ab", 1, True) + datum(b"xyz", 7)], {}),
    "labels of many bits": ("Caffe", [datum(b"a", 2**31 + 5, True), datum(b"a", -7, True)], {}),
    "other fields": ("Caffe", [datum(b"a", 3) + field(99, b"zz") + field(100, 5)], {}),
    "images alone": ("Caffe", [datum(b"ab", None, True)], {"label_available": False}),
    "labels alone": ("Caffe", [datum(None, 4)], {"image_available": False}),
    "of too few bytes": ("Caffe", [datum(b"12345", 5, False, (3, 2, 4))], {}),
    "no message": ("Caffe", [b"\xff\xff\xff"], {}),
    "files of Caffe2": ("Caffe2", [tensors(FILED, tensor(INT32, [k - 1])) for k in range(3)], {}),
    "a float for a label": ("Caffe2", [tensors(FILED, tensor(FLOAT, [1.5]))], {}),
    "not packed": ("Caffe2", [tensors(FILED, tensor(INT32, [7], packed=False))], {}),
    "raw": ("Caffe2", [tensors(tensor(BYTE, RAW, [2, 4, 3]), ONE)], {}),
    "raw, of two dimensions": ("Caffe2", [tensors(tensor(BYTE, RAW, [4, 6]), ONE)], {}),
    "raw, of four": ("Caffe2", [tensors(tensor(BYTE, RAW, [2, 2, 3, 2]), ONE)], {}),
    "two labels": ("Caffe2", [tensors(FILED, tensor(INT32, [1, 2]))], {}),
    "no labels": ("Caffe2", [tensors(FILED, tensor(INT32, []))], {}),
    "a long label": ("Caffe2", [tensors(FILED, tensor(INT64, [4]))], {}),
    "two strings": ("Caffe2", [tensors(tensor(STRING, [b"a", b"b"]), ONE)], {}),
    "dense floats": ("Caffe2", [tensors(FILED, tensor(FLOAT, [1.0, 3.0, 2.0]))], {"label_type": 2}),
    "dense integers": ("Caffe2", [tensors(FILED, tensor(INT32, [1, 3], [2, 1]))], {"label_type": 2}),
    "a box": ("Caffe2", [tensors(FILED, ONE, tensor(INT32, [1, 2, 3, 4]))], {"bbox": True}),
    "a box of floats": ("Caffe2", [tensors(FILED, ONE, tensor(FLOAT, [1, 2, 3, 4]))], {"bbox": True}),
    "a box of three": ("Caffe2", [tensors(FILED, ONE, tensor(INT32, [1, 2, 3]))], {"bbox": True}),
    "further inputs": (
        "Caffe2",
        [tensors(FILED, ONE, tensor(FLOAT, [1, 2, 3, 4], [2, 2]), tensor(INT64, [2**40]), tensor(INT32, [1, 2, 3, 4]))],
        {"additional_inputs": 2, "bbox": True},
    ),
    "no label": ("Caffe2", [tensors(FILED)], {"label_type": 4}),
    "no image": ("Caffe2", [tensors(ONE)], {"image_available": False}),
    "sparse, beyond": ("Caffe2", [tensors(FILED, tensor(INT32, [1, 3]))], {"label_type": 1, "num_labels": 2}),
}
#: Headers that scale: BITPIX, BSCALE and BZERO.
SCALES = [
    (8, 2, 0), (8, 1, -128), (8, 1, 10), (8, 0.5, 0), (8, 1, 1e5), (16, 1, 32768), (16, -1, 0), (16, 2, 0),
    (16, 1, 0.5), (16, 3, 1e12), (16, 1, 2147483648), (32, 1, 2147483648), (32, 1, 10), (32, 0.25, 3), (64, 1, 10),
    (64, 3, 1e12), (-32, 2.5, 1), (-64, 2, 0.5),
]  # fmt: skip


def plain_fits(bits: int, scale: float, zero: float) -> bytes:
    """A file with one image of stored numbers, as its header tells."""
    kind = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}[bits]
    cards = [("XTENSION", "'IMAGE   '"), ("BITPIX", bits), ("NAXIS", 2), ("NAXIS1", 4), ("NAXIS2", 3), ("PCOUNT", 0),
             ("GCOUNT", 1), ("BSCALE", float(scale)), ("BZERO", float(zero))]  # fmt: skip
    first = [("SIMPLE", "T"), ("BITPIX", 8), ("NAXIS", 0)]
    headers = ["".join(f"{name:8}= {value!s:>20}".ljust(80) for name, value in some) + "END" for some in (first, cards)]
    values = np.arange(-6 if bits != 8 else 0, 6 if bits != 8 else 12).astype(kind).tobytes()
    return b"".join([*(header.ljust(2880).encode() for header in headers), values.ljust(2880, b"\0")])


def images() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """FITS files, and the arguments of their reader."""
    from astropy.io import fits

    def written(*hdus: Any) -> bytes:
        file = io.BytesIO()
        fits.HDUList([fits.PrimaryHDU(np.full((2, 2), 7, np.int16)), *hdus]).writeto(file)
        return file.getvalue()

    chance = np.random.default_rng(5)
    smooth = np.add.outer(np.arange(24.0), np.arange(20.0)) * 7 + chance.normal(0, 3, (24, 20))
    found = {
        f"BITPIX {bits}, BSCALE {scale:g}, BZERO {zero:g}": (plain_fits(bits, scale, zero), {})
        for bits, scale, zero in SCALES
    }
    for kind in ("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "float32", "float64"):
        array = (smooth[:16, :6] % 100).astype(kind)
        found[kind] = written(fits.ImageHDU(array[:3, :4])), {}
        for how in ("RICE_1", "GZIP_1", "GZIP_2", "HCOMPRESS_1"):
            if (kind in ("int8", "uint16", "uint32") and how == "HCOMPRESS_1") or kind == "int64":
                continue  # one of the libraries cannot write, or read it
            found[f"{kind}, {how}"] = written(fits.CompImageHDU(array, compression_type=how)), {}
    dithered = fits.CompImageHDU(smooth.astype(np.float32), quantize_method=2, dither_seed=7, tile_shape=(5, 7))
    found["dithered"] = written(dithered), {}
    holes = smooth[:10, :9].astype(np.float32)
    holes[::5, ::3] = np.nan
    found["not a number"] = written(fits.CompImageHDU(holes)), {}
    found["without loss"] = written(fits.CompImageHDU(holes, compression_type="GZIP_2", quantize_level=0)), {}
    found["three dimensions"] = written(fits.ImageHDU(np.arange(24, dtype=np.int16).reshape(2, 3, 4))), {}
    two = written(fits.ImageHDU(np.ones((2, 3), np.int32)), fits.ImageHDU(np.full(3, 2.5, np.float32)))
    for indices in ([1], [3, 2], [2, 2], 3, [4]):
        found[f"HDU {indices}"] = two, {"hdu_indices": indices}
    column = fits.Column("a", "I", array=np.arange(3))
    found["a table"] = written(fits.BinTableHDU.from_columns([column])), {}
    return found


def made() -> dict[str, Any]:
    """All cases but that of RecordIO: the reader, what is stored, and arguments."""
    cases = {name: {"reader": reader, "records": [record.hex() for record in records], "arguments": arguments}
             for name, (reader, records, arguments) in RECORDS.items()}  # fmt: skip
    for name, (data, arguments) in images().items():
        packed = base64.b64encode(zlib.compress(data, 9)).decode()
        cases[name] = {"reader": "Fits", "file": packed, "arguments": arguments}
    return cases


def written(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the files of a case to a folder: the arguments of its reader."""
    if "records" in case:
        with (
            lmdb.open(str(folder / "db"), map_size=1 << 22, sync=False) as database,
            database.begin(write=True) as transaction,
        ):
            for i, record in enumerate(case["records"]):
                transaction.put(b"%08d" % i, bytes.fromhex(record))
        return {"path": [str(folder / "db")], **case["arguments"]}
    if case["reader"] == "Fits":
        (folder / "a.fits").write_bytes(zlib.decompress(base64.b64decode(case["file"])))
        return {"files": [str(folder / "a.fits")], **case["arguments"]}
    for name in ("a.rec", "b.rec"):
        (folder / name).write_bytes(bytes.fromhex(case["recordio"]))
    whole = len(bytes.fromhex(case["recordio"]))
    offsets = [start + offset for start in (0, whole) for offset in case["offsets"]]
    (folder / "ab.idx").write_text("".join(f"{key}\t{offset}\n" for key, offset in enumerate(offsets)))
    return {"path": [str(folder / "a.rec"), str(folder / "b.rec")], "index_path": [str(folder / "ab.idx")]}


def asked(dali: Oracle, case: dict[str, Any], folder: Path) -> list[list[np.ndarray]] | None:
    """The samples that DALI reads; None where it refuses."""
    question = json.dumps([case["reader"], written(case, folder)])
    try:
        return [[result.array for result in sample] for sample in dali.script(SCRIPT, question=question)]
    except DaliError:
        return None


def recorded() -> dict[str, Any]:
    """The cases and answers as they were recorded."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def framed(records: list[bytes]) -> tuple[bytes, list[int]]:
    """A RecordIO file, split where the magic number is in a multiple of four bytes; and where its records begin."""
    magic, file, offsets = struct.pack("<I", 0xCED7230A), bytearray(), list[int]()
    for record in records:
        cuts = [k for k in range(0, len(record) - 3, 4) if record[k : k + 4] == magic]
        starts, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(record)]
        offsets.append(len(file))
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            kind = 0 if not cuts else 1 if k == 0 else 3 if k == len(cuts) else 2
            file += magic + struct.pack("<I", kind << 29 | end - start) + record[start:end]
            file += bytes(-len(file) % 4)
    return bytes(file), offsets


def record(dali: Oracle) -> dict[str, Any]:
    """Ask everything."""
    cases = {name: case for name, case in recorded().items() if "recordio" in case} | made()
    for case in cases.values():
        with tempfile.TemporaryDirectory() as folder:
            answer = asked(dali, case, Path(folder))
        case["answer"] = None if answer is None else [[pack(array) for array in sample] for sample in answer]
    return cases


if __name__ == "__main__":
    oracle = connect()
    if oracle is None:
        sys.exit("DYNAMIC_DALI_PYTHON names no Python that has DALI")
    text = json.dumps(record(oracle), separators=(",", ":"))
    FILE.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
