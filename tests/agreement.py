"""Puts calls of operators, as people use them, to us and to DALI, and counts how far both agree.

    DYNAMIC_DALI_PYTHON=/path/to/python python tests/agreement.py [--cases 200] [--show 3] [operator ...]

Prints the first table of `docs/agreement.md`; `wild_agreement.py` prints the second.
"""

from __future__ import annotations

import argparse
import itertools
import operator
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import usage
from dali_oracle import Oracle, Samples, connect
from hypothesis import HealthCheck, Phase, given, settings

import dynamic

#: Floats agree within this part of the largest of the values.
TOLERANCE = 1e-4
KINDS = ("bytes", "integers", "floats")
#: What is asked for by a sign.
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
         "&": operator.and_, "<": operator.lt, "==": operator.eq}  # fmt: skip


@dataclass
class Shares:
    """How many values of each kind agree in the calls of a use: bytes, other integers, floats.

    Attributes:
        calls: How many were compared.
        values: Of each kind how many, and how many of them are close.
        unlike: Results of another shape, dtype or layout.
        against: What these and results that are far off are of.
    """

    calls: int = 0
    values: dict[str, list[int]] = field(default_factory=lambda: {kind: [0, 0] for kind in KINDS})
    unlike: int = 0
    against: list[str] = field(default_factory=list)

    def add(self, ours: list[Any], theirs: list[Any], what: str) -> None:
        """Count the results of a call."""
        self.calls += 1
        if [(x.layout, y.layout) for x, y in zip(ours, theirs, strict=True) if x.layout != y.layout]:
            self.unlike += 1
            self.against.append(f"layouts: {what}")
        for x, y in zip(ours, theirs, strict=True):
            samples = x.samples if isinstance(x, dynamic.Batch) else [x.array]
            for a, b in zip(samples, y.samples, strict=True):
                if (a.shape, a.dtype) != (b.shape, b.dtype):
                    self.unlike += 1
                    self.against.append(f"{a.dtype} {a.shape}, not {b.dtype} {b.shape}: {what}")
                    continue
                close = closeness(a, b)
                kind = "bytes" if a.dtype == np.uint8 else "floats" if a.dtype.kind == "f" else "integers"
                for place, count in enumerate((close.size, int(close.sum()))):
                    self.values[kind][place] += count
                if not close.all():
                    at = tuple(int(i) for i in np.argwhere(~close)[0])
                    self.against.append(f"{a[at]} at {at}, not {b[at]}: {what}")

    def row(self, name: str) -> str:
        """A line of the table."""
        numbers = [f"{n:,} | {100 * close / n:.3f} %" if n else " | " for n, close in self.values.values()]
        return f"| {name} | {self.calls} | {' | '.join(numbers)} | {self.unlike} |"


def used(dali: Oracle, name: str, use: usage.Use, cases: int) -> Shares:
    """Compare so many calls of an operator as it is used; what either refuses is an error."""
    shares, path = Shares(), name.partition(",")[0]

    @settings(max_examples=cases, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(usage.calls(use))
    def run(call: usage.Call) -> None:
        seed = 7 if use.draws else None
        shapes = [sample.shape for given_ in call.inputs for sample in given_.samples]
        what = f"{name} {shapes} {call.fixed} {call.varying}"
        shares.add(ask_us(path, call, seed), ask_dali(dali, path, call, seed), what)

    run()
    return shares


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def narrow(value: Any) -> Any:
    """A tuple as an array of the types that DALI knows."""
    array = np.asarray(value)
    return array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))


def ask_us(path: str, call: usage.Call, seed: int | None) -> list[Any]:
    """Our results of a call."""
    for sample in itertools.chain(*(given_.samples for given_ in call.inputs)):
        sample.setflags(write=False)
    inputs = [dynamic.as_batch(given_.samples, layout=given_.layout) for given_ in call.inputs]
    arguments = call.fixed | {name: dynamic.as_batch(each) for name, each in call.varying.items()}
    if path in SIGNS:
        return [SIGNS[path](*inputs)]
    source = {} if seed is None else {"rng": dynamic.random.RNG(seed)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of windows that are only the best ones
        return listed(operator.attrgetter(path)(dynamic)(*inputs, **arguments, **source))


def ask_dali(dali: Oracle, path: str, call: usage.Call, seed: int | None) -> list[Any]:
    """DALI's."""
    if path in SIGNS:
        return [dali.binary(path, *call.inputs)]
    arguments = {name: list(value) if isinstance(value, tuple) else value for name, value in call.fixed.items()}
    arguments |= {name: Samples([narrow(value) for value in each]) for name, each in call.varying.items()}
    return listed(dali.call(path, call.inputs, seed=seed, **arguments))


def closeness(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which values are within one level, or for floats within a part of the largest."""
    a, b = x.astype(np.longdouble), y.astype(np.longdouble)
    with np.errstate(all="ignore"):
        part = {2: 2.0**-10}.get(x.dtype.itemsize, TOLERANCE)  # the last digit of float16
        near = part * max(np.abs(b[np.isfinite(b)]).max(initial=0), 1e-6) if x.dtype.kind == "f" else 1
        found: np.ndarray = (a == b) | ((a != a) & (b != b)) | (np.abs(a - b) <= near)
    return found


def asked(description: str | None) -> tuple[argparse.Namespace, Oracle]:
    """The arguments of a script, and DALI."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--show", type=int, default=0, help="calls to print where DALI does not agree")
    arguments, dali = parser.parse_args(), connect()
    if dali is None:
        sys.exit("set DYNAMIC_DALI_PYTHON to a Python that has DALI")
    return arguments, dali


def main() -> None:
    """Print the table."""
    arguments, dali = asked(__doc__)
    print("| operator | calls | bytes | within 1 | other integers | within 1 | floats | within 1e-4 | unlike |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, use in usage.USED.items():
        if not arguments.names or name.partition(",")[0] in arguments.names:
            shares = used(dali, name, use, arguments.cases)
            print(shares.row(name), flush=True)
            for text in shares.against[: arguments.show]:
                print("   ", text)


if __name__ == "__main__":
    main()
