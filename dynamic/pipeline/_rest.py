"""The rest of an epoch of a pipeline."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from dynamic.readers._place import Place
from dynamic.readers._reader import steps_left

from ._course import Course
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
            self._steps = _steps(self._pipeline._course, self._epoch)
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
        course = pipeline._course
        reader, primary = course.graph.first_reader, course.graph.primary
        if reader is None:
            raise TypeError("An epoch of a pipeline has a length where its first source is a reader.")
        with course.alone():
            if self._ended or self._epoch not in (None, pipeline.epoch):
                return 0
            course.leave_epoch()
            epoch = course.epoch
            state: dict[str, Any] = (course.states or {}).get(primary, {})
            position = state["position"] if state.get("epoch") == epoch else 0
            steps = steps_left(reader, pipeline.batch_size, Place(epoch, position))
            if self._epoch is None:
                self._epoch = epoch
                course.end = None if steps else course.peek_anew().ends.get(epoch)
            return steps

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        epoch = self._pipeline.epoch if self._epoch is None else self._epoch
        return f"<the rest of epoch {epoch} of {self._pipeline!r}>"


def _steps(course: Course, epoch: int) -> Generator[Outputs]:
    """The batches of the rest of an epoch; then the pipeline stands at the start of the next."""
    with course.alone():
        course.leave_epoch()
    begun = False
    while True:
        taken = None
        place = course.place
        try:
            with course.alone():
                if course.epoch != epoch:  # another thread has ended it
                    return
                try:
                    step = course.peek() if begun else course.peek_anew()
                except StopIteration as end:
                    beside = isinstance(end, Ended) and end.epoch is None  # the epoch is not that source's
                    course.epoch = epoch if beside else epoch + 1
                    return
                if step.epoch != epoch:
                    course.states = step.ends[epoch].next if epoch in step.ends else course.states
                    course.epoch, course.end = epoch + 1 if epoch in step.ends else step.begun, None
                    return
                place = course.place
                taken = step = course.take()
                begun = True
                course.states, course.end = step.states, step.end
        except BaseException:
            if taken is not None:  # Ctrl-C as the lock was let go: nobody has the batch
                course.go_back(place)
            raise
        yield step.outputs
        with course.alone():
            if step.end is not None and (course.states is step.states or course.states is step.end.last):
                course.leave_epoch()
                return
