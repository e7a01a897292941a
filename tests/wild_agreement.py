"""Asks DALI what it makes of calls that are drawn from our declarations, and counts how far it agrees.

    DYNAMIC_DALI_PYTHON=/path/to/python python tests/wild_agreement.py [--cases 200] [--show 3] [operator ...]

Prints the second table of `docs/agreement.md`. Drawn are types and layouts that most of DALI's operators take; what it
refuses all the same is counted and not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from agreement import asked
from dali_oracle import DaliError, Oracle, Samples
from fitting import FURTHER_INPUTS
from hypothesis import HealthCheck, Phase, given, settings
from strategies import calls

from dynamic import ArgumentError, as_batch
from dynamic._lift.operator import Operator, registry

LAYOUTS = ("HWC", "FHWC", "DHWC", "FDHWC")
DTYPES = frozenset(map(np.dtype, ("uint8", "int16", "int32", "float32")))
#: Floats agree within this part of the largest of the values.
TOLERANCE = 1e-4
#: Integers agree within one level, or this part of their value: DALI calculates in float32.
FLOAT32 = 2**-21


#: Why calls differ: what is not listed here and differs is a defect.
KNOWN = {
    "rotate": "int32 beyond 24 bits: DALI interpolates in float32; nearest pixels where two are as near",
    "warp_affine": "int32 beyond 24 bits: DALI interpolates in float32",
    "experimental.warp_perspective": "DALI interpolates all but bytes in steps of 1/32 pixel, and has no empty results",
    "water": "a fill beyond the type wraps around in DALI",
    "reductions.sum": "sums in bytes wrap around in DALI",
    "reductions.mean": "sums in bytes wrap around in DALI",
    "reductions.rms": "sums in bytes wrap around in DALI",
    "color_twist": "DALI ignores `image_type`, and reads other memory where there is one channel",
    "hue": "DALI ignores `image_type`, and reads other memory where there is one channel",
    "saturation": "DALI ignores `image_type`, and reads other memory where there is one channel",
    "hsv": "DALI reads other memory where there is one channel",
    "full": "DALI takes the first element of a value",
    "gaussian_blur": "without a layout DALI blurs channels too",
    "grid_mask": "in videos and volumes DALI masks the first two dimensions",
    "resize": "negative limits; 'nn' beside other filters in a region, where DALI reads other memory",
    "resize_crop_mirror": "negative limits, mirrored regions and windows beyond edges, where DALI reads other memory",
    "tensor_resize": "DALI leaves out regions of outer dimensions that keep their size",
    "normalize": "noise of float32 where all values are alike",
    "crop_mirror_normalize": "a scale or deviation of 0; DALI leaves out channels where fills are many and means one",
    "brightness_contrast": "int32 beyond 24 bits: DALI computes in float32",
    "crop": "fills are cut off and wrap around in DALI",
    "paste": "fills are cut off and wrap around in DALI",
    "pad": "fills are cut off and wrap around in DALI",
    "slice": "fills are cut off and wrap around in DALI",
    "erase": "fills are cut off and wrap around in DALI",
    "cast": "DALI rounds halves to float16 away from zero",
    "audio_resample": "int32 beyond 24 bits: DALI computes in float32",
    "laplacian": "int32 beyond 24 bits: DALI computes in float32",
}


@dataclass
class Tally:
    """How far DALI agrees in an operator."""

    cases: int = 0  #: compared
    refused: int = 0  #: by DALI
    values: int = 0
    equal: int = 0
    close: int = 0
    #: Calls with results of another shape, dtype or layout, or far off.
    against: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A line of the table."""
        equal, close = (f"{100 * n / self.values:.2f} %" if self.values else "" for n in (self.equal, self.close))
        why = KNOWN.get(name, "") if self.against else ""
        numbers = " | ".join(map(str, (self.cases, self.refused, self.values, equal, close, len(self.against))))
        return f"| {name} | {numbers} | {why} |"


def native(array: np.ndarray) -> np.ndarray:
    """What DALI takes: C-contiguous, in this machine's byte order."""
    return np.array(array, array.dtype.newbyteorder("="), order="C")


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def rows(name: str, value: Any) -> Any:
    """A tuple as an array of the types that DALI knows; a matrix as rows, which it wants."""
    if not isinstance(value, tuple):
        return value
    array = np.asarray(value)
    array = array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))
    return array.reshape({6: (2, 3), 9: (3, 3), 12: (3, 4)}[len(value)]) if name == "matrix" else array


def ask(dali: Oracle, operator: Operator, call: Any, tally: Tally) -> None:
    """Put one call to both, and count."""
    samples, layout, varying, fixed = call
    if fixed.get("dtype") not in ("float32", "uint8") and "dtype" not in [
        a.name for a in operator.arguments.values() if a.required
    ]:
        fixed.pop("dtype", None)
    size = {} if operator.inputs else {"batch_size": len(samples)}
    try:
        first = as_batch(samples, layout=layout)
        further = FURTHER_INPUTS.get(operator.name, lambda _: [])(first)
        given_ = [first, *further][: len(operator.inputs)]
        ours = listed(operator(*given_, **size, **fixed, **{name: as_batch(each) for name, each in varying.items()}))
    except ArgumentError:
        return  # the arguments do not go together
    inputs = [Samples([native(s) for s in samples], layout), *further][: len(operator.inputs)]
    there = {k: v if not isinstance(v, tuple) else rows(k, v) if k == "matrix" else list(v) for k, v in fixed.items()}
    there |= {k: Samples([rows(k, value) for value in each]) for k, each in varying.items()}
    try:
        theirs = listed(dali.call(operator.name, inputs, timeout=20, **size, **there))
    except (DaliError, OverflowError):  # a number beyond what its arguments can hold
        tally.refused += 1
        return
    tally.cases += 1
    problem = compared(ours, theirs, tally)
    if problem:
        shapes = [s.shape for s in samples]
        tally.against.append(f"{problem}: {samples[0].dtype} {shapes} {layout} {fixed} {varying}")


def compared(ours: list[Any], theirs: list[Any], tally: Tally) -> str:
    """What is different, in words; nothing where they agree."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if a.layout != b.layout:
            return f"layout {a.layout}, not {b.layout}"
        for x, y in zip(a.samples, b.samples, strict=True):
            if x.shape != y.shape or x.dtype != y.dtype:
                return f"{x.dtype} {x.shape}, not {y.dtype} {y.shape}"
            if problem := values_compared(x, y, tally):
                return problem
    return ""


def values_compared(x: np.ndarray, y: np.ndarray, tally: Tally) -> str:
    """The same for two arrays alike."""
    equal = (x == y) | ((x != x) & (y != y))
    with np.errstate(all="ignore"):
        distance = np.abs(x.astype(np.longdouble) - y.astype(np.longdouble))
        largest = np.abs(y[np.isfinite(y)]).max(initial=0) if y.dtype.kind == "f" else 0
        near = TOLERANCE * max(largest, 1e-6) if x.dtype.kind == "f" else np.maximum(1, FLOAT32 * np.abs(y * 1.0))
        close = equal | (distance <= near)
    tally.values += x.size
    tally.equal += int(equal.sum())
    tally.close += int(close.sum())
    if close.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"{x[place]} at {place}, not {y[place]}"


def tally_of(dali: Oracle, operator: Operator, cases: int) -> Tally:
    """Compare so many calls, fewer where we refuse some of them ourselves."""
    tally = Tally()
    operator.layouts = tuple(x for x in operator.layouts or () if x in LAYOUTS) or operator.layouts
    operator.dtypes = operator.dtypes & DTYPES or operator.dtypes

    @settings(max_examples=cases, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(calls(operator))
    def run(call: Any) -> None:
        ask(dali, operator, call, tally)

    run()
    return tally


def operators(names: list[str]) -> list[Operator]:
    """Those of our operators that have a name of DALI's and take arrays."""
    return [o for name, o in registry.items() if not o.__module__.endswith("decoders") and (not names or name in names)]


def main() -> None:
    """Print the table."""
    arguments, dali = asked(__doc__)
    print("| operator | calls | refused by DALI | values | equal | within 1 level or 1e-4 | calls that differ | why |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    for operator in operators(arguments.names):
        tally = tally_of(dali, operator, arguments.cases)
        print(tally.row(operator.name), flush=True)
        for text in tally.against[: arguments.show]:
            print("   ", text)


if __name__ == "__main__":
    main()
