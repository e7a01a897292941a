"""The rest of an epoch of a pipeline."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from dynamic.readers._place import Place
from dynamic.readers._reader import steps_left

from ._graph import Ended
from ._run import Outputs

__all__ = ["Rest"]


class Rest(Iterator[Outputs]):
    """The rest of an epoch of a pipeline, made by `Pipeline.next_epoch`.

    Args:
        pipeline: A `Pipeline`, which also says where the epoch has got to.
        epoch: The epoch; by default that in which it is first asked for a batch or its length.
    """

    def __init__(self, pipeline: Any, epoch: int | None = None) -> None:
        self._pipeline, self._epoch = pipeline, epoch
        self._steps: Generator[Outputs] | None = None
        self._ended = False

    def __next__(self) -> Outputs:
        if self._steps is None:
            self._epoch = self._pipeline.epoch if self._epoch is None else self._epoch
            self._steps = _steps(self._pipeline, self._epoch)
        for outputs in self._steps:  # `next` would look for Ctrl-C when it has the batch
            return outputs
        self._ended = True
        raise StopIteration

    def __len__(self) -> int:
        """Number of batches that are left; where none has been made yet, the first one is.

        An empty rest of an epoch, of which a loop up to this asks nothing, ends it.

        Raises:
            TypeError: The function has no reader, whose epoch it would be.
        """
        pipeline = self._pipeline
        pipeline.reader_meta()  # makes the readers known
        reader, primary = pipeline._graph._first, pipeline._graph.primary
        if reader is None:
            raise TypeError("An epoch of a pipeline has a length where its first source is a reader.")
        with pipeline._alone():
            if self._ended or self._epoch not in (None, pipeline.epoch):
                return 0
            pipeline._leave_epoch()
            epoch = pipeline._epoch
            state: dict[str, Any] = (pipeline._states or {}).get(primary, {})
            position = state["position"] if state.get("epoch") == epoch else 0
            steps = steps_left(reader, pipeline.batch_size, Place(epoch, position))
            if self._epoch is None:
                self._epoch = epoch
                pipeline._end_of_epoch = None if steps else pipeline._peek_anew().ends.get(epoch)
            return steps

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        epoch = self._pipeline.epoch if self._epoch is None else self._epoch
        return f"<the rest of epoch {epoch} of {self._pipeline!r}>"


def _steps(pipeline: Any, epoch: int) -> Generator[Outputs]:
    """The batches of the rest of an epoch; then the pipeline stands at the start of the next."""
    with pipeline._alone():
        pipeline._leave_epoch()
    begun = False
    while True:
        taken = None
        place: tuple[Any, ...] = ()
        try:
            with pipeline._alone():
                if pipeline._epoch != epoch:  # another thread has ended it
                    return
                try:
                    step = pipeline._peek() if begun else pipeline._peek_anew()
                except StopIteration as end:
                    beside = isinstance(end, Ended) and end.epoch is None  # the epoch is not that source's
                    pipeline._epoch = epoch if beside else epoch + 1
                    return
                if step.epoch != epoch:
                    pipeline._states = step.ends[epoch].next if epoch in step.ends else pipeline._states
                    pipeline._epoch, pipeline._end_of_epoch = epoch + 1 if epoch in step.ends else step.begun, None
                    return
                place = pipeline._place
                taken = step = pipeline._take()
                begun = True
                pipeline._states, pipeline._end_of_epoch = step.states, step.end
        except BaseException:
            if taken is not None:  # Ctrl-C as the lock was let go: nobody has the batch
                pipeline._go_back(*place)
            raise
        yield step.outputs
        with pipeline._alone():
            if step.end is not None and (pipeline._states is step.states or pipeline._states is step.end.last):
                pipeline._leave_epoch()
                return
