"""The same call of ours and of DALI's, whose answers must be equal in every byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dali_oracle import Laid, Oracle, Samples

import dynamic as ndd


def ours(value: Any) -> Any:
    """What stands for Laid and Samples here."""
    if isinstance(value, Laid):
        return ndd.as_tensor(value.array, layout=value.layout or None)
    if isinstance(value, Samples):
        return ndd.as_batch(list(value.samples), layout=value.layout)
    return value


def alike(dali: Oracle, name: str, inputs: Sequence[Any] = (), **arguments: Any) -> None:
    """Call an operator here and there, and compare values, shapes, dtypes and layouts."""
    expected = dali.call(name, inputs, **arguments)
    found = getattr(ndd, name)(*map(ours, inputs), **{key: ours(value) for key, value in arguments.items()})
    results = zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, expected)), strict=True)
    for one, other in results:
        samples = one.samples if isinstance(one, ndd.Batch) else [one.array]
        assert isinstance(one, ndd.Batch) == other.is_batch
        assert (one.layout, str(one.dtype)) == (other.layout or None, other.dtype), (name, arguments)
        for a, b in zip(samples, other.samples, strict=True):
            assert a.shape == b.shape, (name, arguments)
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (name, arguments)
