"""Batches as a dict of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynamic import ArgumentError, Batch
from dynamic.errors import shown

if TYPE_CHECKING:
    import torch

__all__ = ["names", "tensors"]


def names(operator: str, output_map: Any) -> tuple[str, ...]:
    """The names of outputs, if they are distinct."""
    found = () if isinstance(output_map, str) else tuple(output_map)
    if not found or len(set(found)) < len(found) or not all(isinstance(name, str) for name in found):
        raise ArgumentError(operator, "output_map", "a list of distinct names, one for each output", shown(output_map))
    return found


def tensors(
    operator: str, output_map: Sequence[str], outputs: Sequence[Batch], dynamic_shape: bool
) -> dict[str, torch.Tensor]:
    """Each Batch as one tensor, under its name.

    Raises:
        ArgumentError: There are not as many names as outputs, or samples differ in shape and must not.
    """
    if len(output_map) != len(outputs):
        expected = f"a list of {len(outputs)} names, one for each output"
        raise ArgumentError(operator, "output_map", expected, shown(list(output_map)))
    found = {}
    for name, output in zip(output_map, outputs, strict=True):
        if not dynamic_shape and len(shapes := set(output.shape)) > 1:
            some = " and ".join(map(str, sorted(shapes)[:2]))
            expected = f"True for output {name!r}, whose samples have different shapes ({some})"
            hint = "They are padded with zeros then. Or make them alike, with resize or crop."
            raise ArgumentError(operator, "dynamic_shape", expected, "False", hint)
        found[name] = output.torch(pad=dynamic_shape)
    return found
