"""The far end of `dali_oracle`: runs operators of the real DALI on request. Needs nothing but DALI and NumPy.

A message is a line of JSON and then the arrays that it speaks of, each as a .npy blob behind its length in 8 bytes. In
the JSON an array is ``{"array": k}``, a batch ``{"batch": [...], "layout": ...}`` and a tensor with a layout
``{"tensor": k, "layout": ...}``.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np

WORDS = {"dtype", "interp_type", "min_filter", "mag_filter", "output_type", "image_type"}


def write(stream: BinaryIO, header: Any, arrays: list[np.ndarray]) -> None:
    """Send one message."""
    parts = [json.dumps({"header": header, "arrays": len(arrays)}).encode() + b"\n"]
    for array in arrays:
        blob = io.BytesIO()
        np.save(blob, array, allow_pickle=False)
        parts += [len(blob.getbuffer()).to_bytes(8, "little"), blob.getvalue()]
    stream.write(b"".join(parts))
    stream.flush()


def read(stream: Any) -> tuple[Any, list[np.ndarray]]:
    """Receive one message; EOFError at the end of the stream."""
    line = stream.readline()
    if not line:
        raise EOFError
    message = json.loads(line)
    arrays = []
    for _ in range(message["arrays"]):
        size = int.from_bytes(stream.read(8), "little")
        arrays.append(np.load(io.BytesIO(stream.read(size)), allow_pickle=False))
    return message["header"], arrays


def serve() -> None:
    """Answer requests until the input ends."""
    # The libraries that DALI loads may print: they get standard error, and the answers a descriptor of their own.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.environ["DALI_RESTRICT_PINNED_MEM"] = "1"  # else the reader of FITS files needs a GPU
    import nvidia.dali.experimental.dynamic as ndd

    while True:
        try:
            request, arrays = read(sys.stdin.buffer)
        except EOFError:
            return
        results: list[np.ndarray] = []
        try:
            with ndd.EvalMode.sync_cpu:
                header = packed(answer(ndd, request, arrays), ndd, results)
            reply = {"value": header}
        except Exception as error:
            reply, results = {"error": str(error), "type": type(error).__name__}, []
        write(answers, reply, results)


def answer(ndd: Any, request: Any, arrays: list[np.ndarray]) -> Any:
    """Run what the request asks for."""
    arguments = {name: unpacked(value, ndd, arrays, name) for name, value in request["arguments"].items()}
    inputs = [unpacked(value, ndd, arrays) for value in request["inputs"]]
    if request["kind"] == "script":
        names: dict[str, Any] = {"ndd": ndd, "np": np, **arguments}
        exec(compile(request["name"], "script", "exec"), names)  # the test suite sends its own text
        return names["result"]
    if request["kind"] == "binary":
        return eval(f"a {request['name']} b", {"a": inputs[0], "b": inputs[1]})
    function: Any = ndd
    for part in request["name"].split("."):
        function = getattr(function, part)
    if request["seed"] is not None:
        arguments["rng"] = ndd.random.RNG(seed=request["seed"])
    if request["calls"] is None:
        return function(*inputs, **arguments)
    return [function(*inputs, **arguments) for _ in range(request["calls"])]


def unpacked(value: Any, ndd: Any, arrays: list[np.ndarray], name: str = "") -> Any:
    """What a value of the JSON stands for."""
    if isinstance(value, str) and name in WORDS:
        return constant(value, ndd, name)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "batch" in value:
        return ndd.as_batch([arrays[k] for k in value["batch"]], layout=value["layout"])
    return ndd.as_tensor(arrays[value["tensor"]], layout=value["layout"])


def constant(word: str, ndd: Any, name: str) -> Any:
    """A word such as "uint8", "linear" or "RGB" as DALI's constant."""
    from nvidia.dali import types

    if name == "dtype":
        return ndd.bool if word == "bool" else getattr(ndd, word)
    if name in {"output_type", "image_type"}:
        return getattr(types, word)
    return getattr(types, {"nearest": "INTERP_NN"}.get(word, f"INTERP_{word.upper()}"))


def packed(value: Any, ndd: Any, arrays: list[np.ndarray]) -> Any:
    """A result as JSON, its arrays appended to the list."""
    if isinstance(value, ndd.Batch):
        samples = [np.asarray(sample.evaluate().cpu()) for sample in value.evaluate().tensors]
        arrays += samples
        places = list(range(len(arrays) - len(samples), len(arrays)))
        return {"batch": places, "layout": value.layout, "dtype": str(value.dtype)}
    if isinstance(value, ndd.Tensor):
        arrays.append(np.asarray(value.evaluate().cpu()))
        return {"tensor": len(arrays) - 1, "layout": value.layout, "dtype": str(value.dtype)}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple):
        return {"tuple": [packed(item, ndd, arrays) for item in value]}
    if isinstance(value, list):
        return [packed(item, ndd, arrays) for item in value]
    if isinstance(value, dict):
        return {"dict": {str(key): packed(item, ndd, arrays) for key, item in value.items()}}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


if __name__ == "__main__":
    serve()
