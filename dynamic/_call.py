"""One call of an operator once its arguments are bound, and memory for its results."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy

from ._array import Array
from ._origin import Origin
from .data import Batch, Tensor
from .errors import DataError, Failure

__all__ = ["Call", "Spec", "allocated"]

#: Shape and NumPy dtype of a result.
Spec: TypeAlias = tuple[tuple[int, ...], "numpy.dtype[Any]"]

_ALIGNMENT = 64  # bytes; of the samples of a ragged result in their common memory


@dataclass(slots=True)
class Call:
    """One call of an operator, once its arguments are bound."""

    inputs: list[Tensor | Batch]
    count: int
    is_batch: bool
    fixed: dict[str, Any]
    varying: dict[str, list[Any]]
    layout: str | None
    origin: Origin | None
    failures: dict[int, DataError] = field(default_factory=dict)

    def samples(self) -> list[tuple[Array, ...]]:
        """The inputs of each sample."""
        columns = [x.samples if isinstance(x, Batch) else [x.array] * self.count for x in self.inputs]
        return list(zip(*columns, strict=True))

    def bytes(self) -> int:
        """About how much memory the inputs take: where they are separate, as much as the first of them each."""
        return sum(
            int(x.whole.nbytes)
            if isinstance(x, Batch) and x.whole is not None
            else self.count * int(x.array.nbytes if isinstance(x, Tensor) else x.samples[0].nbytes)
            for x in self.inputs
        )

    def arguments(self, i: int) -> dict[str, Any]:
        """The arguments of one sample."""
        if not self.varying:
            return self.fixed
        return {**self.fixed, **{name: values[i] for name, values in self.varying.items()}}

    def uniform(self) -> bool:
        """Whether all samples have the same shapes and arguments."""
        return not self.varying and all(isinstance(x, Tensor) or x.whole is not None for x in self.inputs)

    def note(self, operator: str, i: int) -> str:
        """Where an error happened."""
        arrays = [x.samples[i] if isinstance(x, Batch) else x.array for x in self.inputs]
        what = ", ".join(f"shape {array.shape} {array.dtype}" for array in arrays)
        name = f" ({self.origin.names[i]})" if self.origin is not None else ""
        return f"In {operator}(), sample {i} of {self.count}{name}: {what}, layout {self.layout}."

    def collected(self, operator: str) -> DataError:
        """One error for all samples that cannot be read."""
        failures = []
        for i, error in sorted(self.failures.items()):
            cause = error.failures[0]
            source = self.origin.names[i] if self.origin is not None else cause.source
            failures.append(Failure(i, cause.reason, cause.format, source))
        kinds = [type(error) for error in self.failures.values()]
        kind = next(k for k in kinds[0].__mro__ if all(issubclass(other, k) for other in kinds))
        error_of_all: DataError = kind(operator, failures, self.count)
        return error_of_all


def allocated(allocate: Any, specs: list[Spec], count: int) -> tuple[Array, list[Array]]:
    """Memory for the results of `count` samples, one array where they are alike, else a buffer; and a view for each."""
    if len(set(specs)) == 1:
        shape, kind = specs[0]
        whole = allocate((count, *shape), kind)
        return whole, list(whole) if shape else [whole[i, ...] for i in range(count)]
    sizes = [math.prod(shape) * kind.itemsize for shape, kind in specs]
    starts = [0, *itertools.accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    buffer = allocate((starts[-1],), numpy.dtype("uint8"))
    views = [
        buffer[start : start + size].view(kind).reshape(shape)
        for start, size, (shape, kind) in zip(starts, sizes, specs, strict=False)
    ]
    return buffer, views
