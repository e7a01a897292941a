"""Functions of PyTorch in pipelines: ``dynamic.pytorch.fn.torch_python_function``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamic import Tensor
from dynamic.pipeline import fn

__all__ = ["TorchPythonFunction", "torch_python_function"]


def torch_python_function(
    *inputs: Any, function: Callable[..., Any], batch_processing: bool = False, **arguments: Any
) -> Any:
    """Call a function with the torch tensors of each sample, or of all of them.

    Args:
        inputs: Batches, or nodes of a graph.
        function: Takes a tensor of each input, or with `batch_processing` a list of the tensors of all samples, and
            returns the like.
        batch_processing: Whether it is called once for each batch.
        arguments: Those of ``fn.python_function``: `num_outputs`, `output_layouts`, `device`.

    Returns:
        A Batch, or a tuple of some.
    """

    def of_arrays(*given: Any) -> Any:
        if batch_processing:
            return function(*([Tensor(array).torch() for array in column] for column in given))
        return function(*(Tensor(array).torch() for array in given))

    return fn.python_function(*inputs, function=of_arrays, batch_processing=batch_processing, **arguments)


class TorchPythonFunction:
    """`torch_python_function` as a class of operators: made with its arguments, called with inputs.

    Args:
        function: Takes and returns torch tensors.
        num_outputs: How many it returns.
        device: Where the results are.
        batch_processing: Whether it is called once for each batch.
        arguments: Others of ``fn.python_function``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        num_outputs: int = 1,
        device: Any = None,
        batch_processing: bool = False,
        **arguments: Any,
    ) -> None:
        self._arguments = arguments | {
            "function": function,
            "num_outputs": num_outputs,
            "device": device,
            "batch_processing": batch_processing,
        }

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Call the function for a batch of each input."""
        return torch_python_function(*inputs, **(self._arguments | arguments))
