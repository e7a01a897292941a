"""The real DALI as an oracle: what does it answer to the same question?

DALI lives in a Python of its own (``pip install nvidia-dali-cuda120`` there; it needs no GPU), named by the environment
variable ``DYNAMIC_DALI_PYTHON``. One process is started for a whole test session. In a test module::

    from dali_oracle import Laid, Samples, dali_fixture  # the fixture's name is `dali`

    def test_like_dali(dali):
        dali.call("cast", [array], dtype="uint8").array  # an array is a Tensor; .array is the result
        dali.call("flip", [Laid(array, "CHW")]).layout  # a Tensor with a layout
        dali.call("rotate", [Samples([a, b], "HWC")], angle=Samples([10.0, 20.0])).samples  # Batches
        dali.call("resize", [array], size=[10, 12], interp_type="cubic")  # words for constants
        dali.call("random.uniform", seed=12, calls=2, range=[0.0, 1.0], batch_size=4)[1].samples  # the second call
        dali.binary("+", a, 3).dtype  # "i32"; a Python number stays one
        dali.script("r = ndd.random.RNG(7); r.advance(3); result = str(r.state)")  # anything; arrays as name=array

An operator with several outputs gives a tuple. What fails there raises `DaliError` with its text and type. Arguments
pass through variables, so DALI takes them as it takes variables and not as literals: it tells them apart by reading the
source of the caller.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dali_server
import numpy as np
import pytest

VARIABLE = "DYNAMIC_DALI_PYTHON"


class DaliError(Exception):
    """The real DALI raised; `type` is the name of its exception."""

    def __init__(self, text: str, type: str) -> None:
        super().__init__(text)
        self.type = type


@dataclass(frozen=True)
class Laid:
    """An array to be sent as a Tensor with a layout."""

    array: np.ndarray
    layout: str


@dataclass(frozen=True)
class Samples:
    """Arrays or numbers to be sent as a Batch."""

    samples: Sequence[Any]
    layout: str | None = None


@dataclass(frozen=True)
class Result:
    """A Tensor or Batch that came back."""

    samples: list[np.ndarray]
    layout: str | None
    dtype: str  #: DALI's name: "u8", "f32", "bool"
    is_batch: bool

    @property
    def array(self) -> np.ndarray:
        """The values of a Tensor."""
        assert not self.is_batch, "a Batch has .samples"
        return self.samples[0]


class Oracle:
    """A process that has DALI, started at the first question and again after it died."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, name: str, inputs: Sequence[Any] = (), *, seed: int | None = None, calls: int | None = None,
             timeout: float = 120.0, **arguments: Any) -> Any:  # fmt: skip
        """Call an operator by its dotted name; with `seed` it draws from a fresh RNG, with `calls` so many times."""
        return self._ask("call", name, inputs, arguments, timeout, seed=seed, calls=calls)

    def binary(self, operator: str, a: Any, b: Any, *, timeout: float = 120.0) -> Any:
        """``a operator b``, where at least one of them is an array, Laid or Samples."""
        a, b = (Laid(x, "") if isinstance(x, np.ndarray) else x for x in (a, b))
        return self._ask("binary", operator, [a, b], {}, timeout)

    def script(self, text: str, *, timeout: float = 120.0, **arrays: Any) -> Any:
        """Run Python text there, with `ndd`, `np` and the given names; its variable `result` comes back."""
        return self._ask("script", text, (), arrays, timeout)

    def close(self) -> str:
        """End the process; what it printed, and its exit status."""
        if self._process is None:
            return ""
        process, self._process = self._process, None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.kill()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._log.seek(0)
        said = self._log.read()[-2000:].decode(errors="replace")
        self._log.close()
        return f"exit status {process.wait()}, and it said: {said!r}"

    def _ask(self, kind: str, name: str, inputs: Sequence[Any], arguments: dict[str, Any], timeout: float, *,
             seed: int | None = None, calls: int | None = None) -> Any:  # fmt: skip
        arrays: list[np.ndarray] = []
        header = {
            "kind": kind, "name": name, "seed": seed, "calls": calls,
            "inputs": [_packed(value, arrays) for value in inputs],
            "arguments": {key: _packed(value, arrays) for key, value in arguments.items()},
        }  # fmt: skip
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            dali_server.write(process.stdin, header, arrays)  # type: ignore[arg-type]
            reply, results = dali_server.read(_Timed(process.stdout.fileno(), timeout))
        except (EOFError, BrokenPipeError, TimeoutError) as error:
            said = self.close()
            raise DaliError(f"no answer to {name}: {said}", type(error).__name__) from error
        if "error" in reply:
            raise DaliError(reply["error"], reply["type"])
        return _unpacked(reply["value"], results)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115
            self._process = subprocess.Popen(
                [self._python, str(Path(__file__).with_name("dali_server.py"))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            )  # fmt: skip
        return self._process


class _Timed:
    """A pipe that is read with a deadline."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor, self._deadline, self._buffer = descriptor, time.monotonic() + seconds, io.BytesIO()

    def readline(self) -> bytes:
        while b"\n" not in self._buffer.getvalue()[self._buffer.tell() :]:
            self._more()
        return self._buffer.readline()

    def read(self, size: int) -> bytes:
        while len(self._buffer.getbuffer()) - self._buffer.tell() < size:
            self._more()
        return self._buffer.read(size)

    def _more(self) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, self._deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        data = os.read(self._descriptor, 1 << 20)
        if not data:
            raise EOFError
        place = self._buffer.tell()
        self._buffer.seek(0, io.SEEK_END)
        self._buffer.write(data)
        self._buffer.seek(place)


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, Samples):
        samples = [_array(sample) for sample in value.samples]
        arrays += samples
        return {"batch": list(range(len(arrays) - len(samples), len(arrays))), "layout": value.layout}
    if isinstance(value, Laid):
        arrays.append(value.array)
        return {"tensor": len(arrays) - 1, "layout": value.layout or None}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    json.dumps(value)  # anything else must be plain data
    return value


def _array(value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    return np.asarray(value, np.int32 if isinstance(value, int) and not isinstance(value, bool) else
                      np.float32 if isinstance(value, float) else None)  # fmt: skip


def _unpacked(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "batch" in value:
        return Result([arrays[k] for k in value["batch"]], value["layout"], value["dtype"], True)
    if "tensor" in value:
        return Result([arrays[value["tensor"]]], value["layout"], value["dtype"], False)
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(_unpacked(item, arrays) for item in value["tuple"])
    return {key: _unpacked(item, arrays) for key, item in value["dict"].items()}


@functools.cache
def connect() -> Oracle | None:
    """The oracle of this process, or None where no DALI is named."""
    python = os.environ.get(VARIABLE)
    if not python:
        return None
    oracle = Oracle(python)
    atexit.register(oracle.close)
    return oracle


@pytest.fixture(name="dali", scope="session")
def dali_fixture() -> Oracle:
    """The real DALI, or a skip where there is none."""
    oracle = connect()
    if oracle is None:
        pytest.skip(f"the real DALI is not here: {VARIABLE} names no Python that has it")
    return oracle
