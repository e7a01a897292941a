"""Record what DALI 2.4 answers into data/dali_2_4.json, for the tests to compare with where there is no DALI.

Run it with ``DYNAMIC_DALI_PYTHON`` naming a Python that has DALI: ``python tests/record_dali.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from dali_oracle import DaliError, Laid, Oracle, Result, Samples, connect

FILE = Path(__file__).with_name("data") / "dali_2_4.json"
DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32",
          "float64")  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<<", "&", "==", "<")
NUMBERS = {"True": True, "2": 2, "0.5": 0.5}
ANGLES = (0, 30, 45, -45, 60, 90, 135, 180, 225, 270, 315, 405, 10.5, -77.25, 359.9, 1234.5, 1e7)
SEEDS = {"uniform": {"range": [-1.0, 2.0]}, "coin_flip": {"probability": 0.3}, "normal": {"mean": 1.0, "stddev": 2.0}}


def pack(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON, exactly."""
    return {"dtype": array.dtype.name, "shape": list(array.shape), "bytes": array.tobytes().hex()}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """The array that `pack` packed."""
    array = np.frombuffer(bytes.fromhex(packed["bytes"]), packed["dtype"])
    return array.reshape(packed["shape"])


def telling_values(dtype: str) -> np.ndarray:
    """Values of a type that show how it is converted: limits, halves, and what is just beyond other types' limits."""
    limits = [s * 2.0**k + d for s in (1, -1) for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)]
    small = [0, 1, -1, 0.25, 0.49, 0.5, 0.51, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 100, 254.5, 255.5, 65504, 1e6]
    if dtype == "bool":
        return np.array([False, True])
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return np.array([*small, *limits, 1e30, -1e30, np.inf, -np.inf, np.nan]).astype(dtype)
    info = np.iinfo(dtype)
    exact = {int(s * 2**k + d) for s in (1, -1) for k in (0, 7, 8, 15, 16, 31, 32, 53, 63, 64) for d in (-1, 0, 1)}
    return np.array(sorted(v for v in {*exact, info.min, info.max} if info.min <= v <= info.max), dtype)


def operands(a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
    """Two small arrays that every operator can combine."""
    return np.array([1, 1, 0], a), np.array([1, 1, 1], b)


def result_dtype(dali: Oracle, operator: str, a: Any, b: Any) -> str | None:
    """DALI's name of the type of a result; None where it refuses."""
    try:
        return str(dali.binary(operator, a, b).dtype)
    except DaliError:
        return None


def promotion(dali: Oracle) -> dict[str, Any]:
    """Result types of operators between arrays, and between an array and a Python number."""
    arrays = {
        operator: {a: {b: result_dtype(dali, operator, *operands(a, b)) for b in DTYPES} for a in DTYPES}
        for operator in OPERATORS
    }
    numbers = {
        operator: {
            a: {word: result_dtype(dali, operator, operands(a, a)[0], number) for word, number in NUMBERS.items()}
            for a in DTYPES
        }
        for operator in OPERATORS
    }
    return {"arrays": arrays, "numbers": numbers}


def conversion(dali: Oracle) -> dict[str, Any]:
    """What values of each type become in each other type."""
    result: dict[str, Any] = {}
    for have in DTYPES:
        values = telling_values(have)
        to = {want: pack(dali.call("cast", [values], dtype=want).array)["bytes"] for want in DTYPES}
        result[have] = {"values": pack(values), "to": to}
    return result


def canvases(dali: Oracle) -> list[Any]:
    """Sizes of rotated images and volumes: [size, angle, axis, rotated size]."""
    generator = np.random.default_rng(24)
    cases: list[Any] = []
    for k in range(120):
        axis = generator.choice([-2.0, 0.0, 0.5, 1.0], 3).tolist() if k % 3 == 0 else None
        if axis is not None and not any(axis):
            axis = [1.0, 1.0, 1.0]
        size = generator.integers(1, 40 if axis else 700, 3 if axis else 2).tolist()
        angle = float(ANGLES[k % len(ANGLES)] if k % 2 else np.float32(generator.uniform(-400, 400)))
        image = Laid(np.zeros((*size, 1), np.uint8), "DHWC" if axis else "HWC")
        more = {"axis": axis} if axis else {}
        rotated = dali.call("rotate", [image], angle=angle, fill_value=0.0, interp_type="nn", **more)
        cases.append([size, angle, axis, list(rotated.array.shape[:-1])])
    return cases


def rotations(dali: Oracle) -> list[Any]:
    """Small rotated images."""
    generator = np.random.default_rng(2)
    cases: list[Any] = []
    for k, (dtype, arguments) in enumerate([
        ("uint8", {"angle": 30.0}),
        ("uint8", {"angle": -75.5, "fill_value": 77.0}),
        ("uint8", {"angle": 12.0, "keep_size": True, "fill_value": 0.0}),
        ("uint8", {"angle": 200.0, "size": [5.9, 9.2], "fill_value": 300.0}),
        ("uint8", {"angle": 30.0, "interp_type": "nn", "fill_value": 1.0}),
        ("uint8", {"angle": 90.0}),
        ("uint8", {"angle": 30.0, "dtype": "float32", "fill_value": 2.5}),
        ("int16", {"angle": 47.0, "fill_value": -5.0}),
        ("int32", {"angle": 47.0}),
        ("float32", {"angle": -11.0, "fill_value": 0.5}),
        ("float32", {"angle": 33.0, "dtype": "uint8", "fill_value": 1.0}),
        ("uint8", {"angle": 25.0, "axis": [1.0, 2.0, -0.5], "fill_value": 9.0}),
        ("uint8", {"angle": 90.0, "axis": [0.0, 0.0, 1.0]}),
    ]):  # fmt: skip
        shape = (4, 5, 6, 1) if "axis" in arguments else (7 + k % 3, 8, 1 + k % 4)
        image = (generator.random(shape) * 300 - 20).clip(0 if dtype == "uint8" else None, 255).astype(dtype)
        layout = "DHWC" if "axis" in arguments else "HWC"
        rotated = dali.call("rotate", [Laid(image, layout)], **arguments)
        cases.append({"layout": layout, "arguments": arguments, "image": pack(image), "rotated": pack(rotated.array)})
    return cases


def draws(dali: Oracle) -> list[Any]:
    """Random numbers: two batches drawn one after the other from a seed."""
    cases: list[Any] = []
    for name, arguments in SEEDS.items():
        for shape in ([], [5]):
            more = {**arguments, "shape": shape} if shape else arguments
            batches: list[Result] = dali.call(f"random.{name}", seed=1234, calls=2, batch_size=3, **more)
            cases.append({"name": name, "seed": 1234, "arguments": more, "batch_size": 3,
                          "draws": [[pack(sample) for sample in batch.samples] for batch in batches]})  # fmt: skip
    return cases


def accepted(dali: Oracle) -> dict[str, Any]:
    """Result type of operators for each input type; None where DALI refuses it."""
    result: dict[str, Any] = {}
    for name, arguments in {"rotate": {"angle": 10.0}, "flip": {}}.items():
        for dtype in DTYPES:
            try:
                found = dali.call(name, [Samples([np.ones((2, 3, 1), dtype)], "HWC")], **arguments).dtype
            except DaliError:
                found = None
            result.setdefault(name, {})[dtype] = found
    return result


def record(dali: Oracle) -> dict[str, Any]:
    """Ask everything."""
    version = dali.script("import nvidia.dali; result = nvidia.dali.__version__")
    return {
        "dali": version, "promotion": promotion(dali), "conversion": conversion(dali), "accepted": accepted(dali),
        "canvases": canvases(dali), "rotations": rotations(dali), "draws": draws(dali),
    }  # fmt: skip


def recorded() -> dict[str, Any]:
    """The answers as they were recorded."""
    answers: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return answers


if __name__ == "__main__":
    oracle = connect()
    if oracle is None:
        sys.exit("DYNAMIC_DALI_PYTHON names no Python that has DALI")
    FILE.parent.mkdir(exist_ok=True)
    text = json.dumps(record(oracle), separators=(",", ":"))
    FILE.write_text(text.replace('},"', '},\n"').replace("},{", "},\n{") + "\n", encoding="utf-8")
