"""Batches of pipelines as dicts of which some values have samples of different shapes: lists and sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from dynamic import ArgumentError, Batch
from dynamic._base.docstrings import described_as
from dynamic.errors import shown
from dynamic.pipeline import Pipeline
from dynamic.pipeline._output import named, names
from dynamic.pipeline._run import Outputs

from ._iterator import GenericIterator, LastBatchPolicy

if TYPE_CHECKING:
    import torch

__all__ = ["RaggedIterator"]


@described_as(GenericIterator)
class RaggedIterator(GenericIterator):
    """A `GenericIterator` whose outputs may have samples of different shapes, such as the boxes of images.

    Args:
        output_types: For each output a tag: DENSE_TAG, one tensor of all samples; SPARSE_LIST_TAG, a list with a tensor
            for each sample; or SPARSE_COO_TAG, a sparse tensor (N, L) of samples that are vectors, the longest of L
            numbers. By default all are dense.
        dynamic_shape: Pad samples of different shapes of dense outputs.

    Raises:
        ArgumentError: There are not as many tags as names, or there is no such tag; of a batch, its samples are no
            vectors and shall be a sparse tensor.
    """

    DENSE_TAG, SPARSE_LIST_TAG, SPARSE_COO_TAG = "dense", "sparse_list", "sparse_coo"

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        output_types: Sequence[str] | None = None,
        auto_reset: bool | Literal["yes", "no"] | None = False,
        *,
        last_batch_policy: LastBatchPolicy | str = LastBatchPolicy.FILL,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool = False,
        last_batch_padded: bool = False,
        prepare_first_batch: bool = True,
    ) -> None:
        named = names(type(self).__name__, output_map)
        tags = [self.DENSE_TAG] * len(named) if output_types is None else output_types
        known = self.DENSE_TAG, self.SPARSE_LIST_TAG, self.SPARSE_COO_TAG
        if not isinstance(tags, (list, tuple)) or len(tags) != len(named) or any(tag not in known for tag in tags):
            expected = f"a list of {len(named)} tags, each of {', '.join(map(repr, known))}"
            raise ArgumentError(type(self).__name__, "output_types", expected, shown(output_types))
        self._tags = dict(zip(named, tags, strict=True))
        super().__init__(
            pipelines,
            output_map,
            size,
            reader_name,
            auto_reset,
            last_batch_policy=last_batch_policy,
            fill_last_batch=fill_last_batch,
            dynamic_shape=dynamic_shape,
            last_batch_padded=last_batch_padded,
            prepare_first_batch=prepare_first_batch,
        )

    def _named(self, outputs: Outputs) -> dict[str, Batch]:
        varying = [name for name, tag in self._tags.items() if self._dynamic_shape or tag != self.DENSE_TAG]
        found = named(self._operator, self.output_map, outputs, varying)
        for name, output in found.items():
            if self._tags[name] == self.SPARSE_COO_TAG and output.ndim != 1:
                expected = f"{self.SPARSE_LIST_TAG!r} for output {name!r}, whose samples have {output.ndim} dimensions"
                raise ArgumentError(self._operator, "output_types", expected, repr(self.SPARSE_COO_TAG))
        return found

    def _tensors(self, outputs: Outputs) -> dict[str, Any]:
        return {
            name: output.torch(pad=self._dynamic_shape)
            if self._tags[name] == self.DENSE_TAG
            else [sample.torch() for sample in output]
            for name, output in self._named(outputs).items()
        }

    def _dicts(self, outputs: Sequence[Outputs | None]) -> list[dict[str, Any]]:
        dicts = super()._dicts(outputs)
        like = self._some(outputs)
        for place, (name, tag) in enumerate(self._tags.items()):
            if tag == self.SPARSE_COO_TAG:
                none = like[place][:0].torch(pad=True).reshape(-1)
                for each in dicts:
                    each[name] = _sparse(each[name], none)
        return dicts

    def __next__(self) -> list[dict[str, Any]]:
        """The next batch: of each output a tensor, or a list of them.

        Raises:
            StopIteration: The epoch has ended.
        """
        return super().__next__()


def _sparse(samples: Any, none: torch.Tensor) -> torch.Tensor:
    """Vectors as the rows of a sparse tensor, of the type of one without elements."""
    import torch

    lengths = torch.tensor([len(sample) for sample in samples], dtype=torch.int64)
    rows = torch.arange(len(samples)).repeat_interleave(lengths)
    columns = torch.cat([torch.arange(0), *map(torch.arange, lengths.tolist())])
    places = torch.stack([rows, columns]).to(none.device)
    extents = len(samples), max(lengths.tolist(), default=0)
    return torch.sparse_coo_tensor(places, torch.cat([none, *samples]), extents, check_invariants=False)
