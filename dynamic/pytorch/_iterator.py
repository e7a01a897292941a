"""DALI's iterators: batches of pipelines as dicts of torch tensors, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from dynamic._base.docstrings import described_as
from dynamic.pipeline import Pipeline
from dynamic.pipeline._iterators import Iterating, LastBatchPolicy
from dynamic.pipeline._run import Outputs

from ._dataset import Told

if TYPE_CHECKING:
    import torch

__all__ = ["ClassificationIterator", "GenericIterator", "LastBatchPolicy"]


class GenericIterator(Iterating):
    """Gives the batches of pipelines as dicts of torch tensors: a list with a dict for each pipeline.

    With `reader_name` an epoch is that of the pipelines' first reader, and exact: every sample comes once, and with
    FILL and DROP all shards make equally many batches. Without it, and without `size`, it goes on until a source ends.

    It goes on from pipelines that were made with ``checkpoint=``, also in the middle of an epoch, which then ends where
    it would have.

    Args:
        pipelines: A `Pipeline`, or a list of them, which run side by side.
        output_map: A name for each output.
        size: Samples in an epoch, of all pipelines together, where these have no reader but endless sources.
        reader_name: Name of the first reader.
        auto_reset: Begin the next epoch by itself: "yes" or True; else ``reset()`` or a new ``iter()`` does.
        last_batch_policy: A `LastBatchPolicy`, or its name.
        fill_last_batch: The same in older scripts: True is FILL, False PARTIAL.
        dynamic_shape: Fill samples that are smaller than the largest of the batch with zeros at the end of each
            dimension; without it such an output is an error.
        last_batch_padded: Makes no difference: padding follows from `last_batch_policy`.
        prepare_first_batch: Begin to make batches now, not when the first is asked for.

    Raises:
        ArgumentError: An argument is wrong.
        StateError: A checkpoint has no state of an iterator where that should be.
        StateMismatch: The pipelines come from checkpoints that do not belong together.
    """

    def __next__(self) -> list[dict[str, torch.Tensor]]:
        """The next batch.

        Raises:
            StopIteration: The epoch has ended.
        """
        found: list[dict[str, torch.Tensor]] = super().__next__()
        return found

    @property
    def sampler(self) -> Told:
        """The sampler that Lightning tells the number of each epoch: at the end of one it loads no state."""
        return Told(self)

    def _tensors(self, outputs: Outputs) -> dict[str, Any]:
        return {name: output.torch(pad=self._dynamic_shape) for name, output in self._named(outputs).items()}

    def _repeated(self, value: Any, size: int) -> Any:
        import torch

        missing = size - len(value)
        if missing <= 0 or not len(value):
            return value
        if isinstance(value, list):
            return value + value[-1:] * missing
        return torch.cat([value, value[-1:].expand(missing, *value.shape[1:])])


@described_as(GenericIterator)
class ClassificationIterator(GenericIterator):
    """A `GenericIterator` of pipelines with two outputs, "data" and "label"."""

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: bool | Literal["yes", "no"] | None = False,
        *,
        last_batch_policy: LastBatchPolicy | str = LastBatchPolicy.FILL,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool = False,
        last_batch_padded: bool = False,
        prepare_first_batch: bool = True,
    ) -> None:
        super().__init__(
            pipelines,
            ["data", "label"],
            size,
            reader_name,
            auto_reset,
            last_batch_policy=last_batch_policy,
            fill_last_batch=fill_last_batch,
            dynamic_shape=dynamic_shape,
            last_batch_padded=last_batch_padded,
            prepare_first_batch=prepare_first_batch,
        )
