"""Functions of JAX in pipelines: ``dynamic.jax.fn.jax_function``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from dynamic import as_batch
from dynamic.pipeline import fn

if TYPE_CHECKING:
    import jax

__all__ = ["jax_function"]


def jax_function(
    function: Callable[..., Any] | None = None,
    num_outputs: int = 1,
    output_layouts: str | Sequence[str] | None = None,
    sharding: jax.sharding.Sharding | None = None,
    device: str | None = None,
    preserve: bool = True,  # noqa: ARG001 - DALI's
) -> Any:
    """Make a function of JAX one of pipelines, which takes and returns Batches. It is a decorator too.

    Args:
        function: Called with a `jax.Array` (N, ...) of each input, whose samples must have one shape, and returns so
            many arrays of N samples.
        num_outputs: How many arrays it returns: one, or a tuple.
        output_layouts: The layout of samples of the outputs, of all or in a list.
        sharding: Where the arrays are, as `jax.device_put` takes it; by default on JAX's default device.
        device: Where the results are.
        preserve: Makes no difference.

    Raises:
        ArgumentError: It returns others than so many arrays.
    """
    if function is None:
        return functools.partial(
            jax_function, num_outputs=num_outputs, output_layouts=output_layouts, sharding=sharding, device=device
        )

    def of_arrays(*columns: Sequence[Any]) -> Any:
        import jax

        arrays = [as_batch(list(column)).jax() for column in columns]
        found = function(*(array if sharding is None else jax.device_put(array, sharding) for array in arrays))
        if num_outputs == 0:
            return None
        several = isinstance(found, (tuple, list))
        made = tuple(numpy.asarray(array) for array in (found if several else (found,)))
        return made if several else made[0]

    @functools.wraps(function)
    def of_batches(*inputs: Any) -> Any:
        return fn.python_function(
            *inputs,
            function=of_arrays,
            num_outputs=num_outputs,
            batch_processing=True,
            output_layouts=output_layouts,
            device=device,
        )

    return of_batches
