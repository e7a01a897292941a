"""`Pipeline`: runs a function ahead of its consumer, and knows the place of the batch that was consumed last."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from dynamic import ArgumentError, EvalContext, Stream, batch, get_current_stream
from dynamic._base.state import JSON
from dynamic.checkpoint import Checkpoint
from dynamic.errors import shown
from dynamic.readers._answers import Answers
from dynamic.readers._checks import natural
from dynamic.readers._reader import Reader

from ._calls import seed_of
from ._course import Course
from ._drawing import Drawing, of_function
from ._graph import Ended, Graph, current, entries
from ._nodes import DataNode
from ._output import Declared
from ._rest import Rest
from ._run import ITERATOR, Outputs
from ._settings import Settings, depth_of

__all__ = ["Pipeline"]


class Pipeline(Drawing, Settings):
    """A function that makes batches, run in the background, ahead of whoever takes them.

    Made by calling a function under `pipeline_def`, which is plain Python over `fn` and is called for each batch.
    DALI's older ways work too: a graph that is drawn in a ``with pipe:`` block and ends with `set_outputs`, and a class
    with `define_graph`. Those are called once.

    Its readers keep their places, and its random numbers belong to the samples of its first reader, so a checkpoint is
    good for any batch size, number of threads and shards.

    A batch holds up to `batch_size` samples: an epoch gives every sample once, so the last one may be smaller. A second
    reader gives as many samples as the first, of its next epoch where its own ends.

    Args:
        batch_size: The most samples in a batch.
        num_threads: How many threads operators use; by default, and with -1, as many as there are CPUs.
        device_id: Number of the GPU; None for the CPU.
        seed: Of readers and random numbers; by default that of the checkpoint, else random. -1 is None.
        exec_pipelined: Makes no difference.
        prefetch_queue_depth: How many batches are made ahead; with 0 a batch is made when it is asked for. DALI's
            ``{"cpu_size": 3, "gpu_size": 2}`` is the first of the two.
        exec_async: Makes no difference.
        function: Makes a batch: a tuple of Batches, or one. `pipeline_def` gives it.
        enable_checkpointing: Makes no difference: a checkpoint can always be taken.
        checkpoint: A result of `checkpoint`, to go on from there, or the path of a file that has it; with ``{seq}``
            in its last part the newest whole file is taken.
        max_batch_size: Another name of `batch_size`.
        output_dtype: Element types that the outputs must have: one for all, or a list, with None for any.
        output_ndim: Numbers of dimensions of their samples, likewise.
        output_layout: Their layouts, likewise.
        enable_conditionals: Let Batches be conditions of ``if`` and ``while``, for each sample. All readers and sources
            must be called before the first of them.
        settings: Other settings of DALI's, which make no difference: `exec_dynamic`, `bytes_per_sample`,
            `set_affinity`, `py_num_workers`, `py_start_method`, `default_cuda_stream_priority`,
            `enable_memory_stats`, `experimental_exec_dynamic`, `concurrency`, `debug`, `max_streams`,
            `py_callback_pickler`, `stream_policy`.

    Raises:
        ArgumentError: An argument is wrong.
        StateError: The checkpoint is damaged, or none.
        StateMismatch: It is of another seed.
    """

    def __init__(
        self,
        batch_size: int | None = None,
        num_threads: int | None = None,
        device_id: int | None = None,
        seed: int | None = None,
        exec_pipelined: bool = True,
        prefetch_queue_depth: int | Mapping[str, int] = 2,
        exec_async: bool = True,
        *,
        function: Callable[[], Any] | None = None,
        enable_checkpointing: bool = False,  # noqa: ARG002 - DALI's
        checkpoint: str | bytes | os.PathLike[str] | None = None,
        max_batch_size: int | None = None,
        output_dtype: Any = None,
        output_ndim: int | Sequence[int | None] | None = None,
        output_layout: str | Sequence[str | None] | None = None,
        enable_conditionals: bool = False,
        **settings: Any,
    ) -> None:
        settings = {**settings, "exec_pipelined": exec_pipelined, "exec_async": exec_async}
        Settings.__init__(self, settings, prefetch_queue_depth)
        Drawing.__init__(self, function)
        size = batch_size if max_batch_size is None else max_batch_size
        self._batch_size = natural("Pipeline", "batch_size", size, 1)
        self._declared = Declared(output_dtype, output_ndim, output_layout)
        self._context = EvalContext(num_threads=None if num_threads == -1 else num_threads)
        self._conditionals = bool(enable_conditionals)
        self._restored = checkpoint is not None
        self._scheduled = 0  # runs whose outputs have not been shared
        self._stopped: tuple[Any] | None = None  # the states where a run has told the end of a source
        self.device_id = device_id
        whose, sets_up = weakref.ref(self), type(self).iter_setup is not Pipeline.iter_setup
        depth = 0 if sets_up else depth_of(prefetch_queue_depth)
        states = None if checkpoint is None else entries(checkpoint)
        graph = functools.partial(_graph_of, whose)
        self._course = Course(whose, graph, self._drawn, depth, states, seed_of("Pipeline", seed), sets_up=sets_up)

    @property
    def batch_size(self) -> int:
        """The most samples in a batch."""
        return self._batch_size

    max_batch_size = batch_size

    @property
    def epoch(self) -> int:
        """The epoch of the next batch of the first reader, from 0 on: loop over ``range(pipe.epoch, epochs)``."""
        return self._course.epoch + (self._course.end is not None)

    @staticmethod
    def current() -> Pipeline | None:
        """The pipeline whose function is being called, which has no batch for it; elsewhere None."""
        found: Pipeline | None = current.get()()
        return found

    @property
    def num_threads(self) -> int:
        """The number of threads of operators."""
        return self._context.num_threads

    @property
    def prefetch_queue_depth(self) -> int:
        """The number of batches that are made ahead."""
        return self._course.depth

    @property
    def seed(self) -> int:
        """The seed of readers and random numbers."""
        return self._course.seed

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether it was given a checkpoint to go on from."""
        return self._restored

    @property
    def num_outputs(self) -> int:
        """How many outputs it has; for a function the next batch tells it."""
        self._function_to_run()
        return len(self._course.peek_anew().outputs) if self._drawn.outputs is None else len(self._drawn.outputs)

    def output_stream(self) -> Stream | None:
        """The stream of CUDA on which outputs are ready, the current one; None without a GPU."""
        return None if self.device_id is None or self.device_id < 0 else get_current_stream(self.device_id)

    def build(self) -> None:
        """Begin to make batches; done by `run` too."""
        with self._course.alone():
            self._course.start()

    @property
    def _is_running(self) -> bool:
        return self._course.is_running

    def feed_input(
        self,
        data_node: str | DataNode,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,  # noqa: ARG002 - DALI's
        use_copy_kernel: bool = False,  # noqa: ARG002 - DALI's
    ) -> None:
        """Give the next batch to a source without a function, ``fn.external_source(name="x")``.

        Each run takes one; several may wait. From the first call on nothing is made ahead. After a resume, feed the
        batch after the one taken last.

        Args:
            data_node: The name of the source, or its node in the graph.
            data: A Batch, an array whose outermost dimension are the samples, or a list of samples; it is copied.
            layout: A letter for each dimension of a sample.
            cuda_stream: Makes no difference, nor does `use_copy_kernel`.

        Raises:
            ArgumentError: There is no such source, or there are more samples than the pipeline's batch size.
        """
        name = data_node.name if isinstance(data_node, DataNode) else data_node
        self._feed(name, data, layout, self._course.feeding or object())

    def input_feed_count(self, input_name: str) -> int:  # noqa: ARG002 - DALI's
        """How often `feed_input` must be called for a source before the first run: once."""
        return 1

    def iter_setup(self) -> None:
        """Called before each run, for classes that override it: to `feed_input`. StopIteration ends the epoch."""

    def _feed(self, data_node: str, data: Any, layout: str | None, by: object) -> None:
        course = self._course
        states = course.states or {}
        names = sorted(course.fed.asked & states.keys())  # once a whole run has asked for them
        if not isinstance(data_node, str) or (names and data_node not in names):
            known = f"; the pipeline has {names}" if names else ""
            expected = f"the name of a source without a function{known}"
            raise ArgumentError("Pipeline.feed_input", "data_node", expected, shown(data_node))
        try:
            given = batch(data, layout=layout)
        except ArgumentError as error:
            argument = error.argument.replace("tensors", "data")
            expected = f"{error.expected} (for {data_node!r})"
            raise ArgumentError("Pipeline.feed_input", argument, expected, error.got, error.hint) from error
        if len(given) > self._batch_size:
            expected = f"at most {self._batch_size} samples, the batch size"
            raise ArgumentError("Pipeline.feed_input", "data", expected, str(len(given)))
        if course.depth:
            course.forget_ahead()
            course.depth = 0
        state: Any = states.get(data_node, {})
        course.fed.put(data_node, given, state.get("iteration", 0), by)

    def run(self, cuda_stream: Any = None, **pipeline_inputs: Any) -> Outputs:  # noqa: ARG002 - DALI's
        """Take the next batch: the results of the function.

        Args:
            cuda_stream: Makes no difference.
            pipeline_inputs: Data for sources by their names, as of `feed_input`. If the run fails, they count as not
                given.

        Returns:
            A tuple of Batches, one for each result.

        Raises:
            StopIteration: A source has ended, and `reset` has not been called since.
            Exception: An error of the function, with its traceback. Nothing is lost: the next call tries again.

        >>> @ndd.pipeline.pipeline_def(batch_size=2, num_threads=1, device_id=None)
        ... def numbers():
        ...     return ndd.pipeline.fn.external_source(source=lambda info: info.idx_in_epoch, batch=False)
        >>> pipe = numbers()
        >>> [pipe.run()[0].as_array().tolist() for _ in range(2)]
        [[0, 1], [2, 3]]
        """
        this, step, course = object(), None, self._course
        place = course.place
        try:
            with course.alone():
                if self._stopped is not None and self._stopped[0] is course.states:
                    raise StopIteration
                for name, data in pipeline_inputs.items():
                    self._feed(name, data, None, this)
                place = course.place
                step = course.take()
                course.states, course.epoch, course.end = step.states, step.epoch, step.end
        except BaseException as error:
            if isinstance(error, StopIteration):
                self._stopped = (course.states,)
            if step is not None:  # Ctrl-C as the lock was let go: nobody has the batch
                course.go_back(place)
            if pipeline_inputs:
                course.fed.take_back(this)
            raise
        return step.outputs

    def schedule_run(self) -> None:
        """Let a run begin whose outputs `share_outputs` gives: the two halves of `run`, as DALI has them."""
        self.build()
        self._scheduled += 1

    def share_outputs(self) -> Outputs:
        """The outputs of the run that was scheduled first.

        Raises:
            RuntimeError: None is scheduled.
            Exception: The run raised it, and stays scheduled.
        """
        taken = 0
        try:
            with self._course.alone():
                if not self._scheduled:
                    raise RuntimeError("Pipeline.share_outputs(): no run is scheduled; call schedule_run() first.")
                self._scheduled -= (taken := 1)
            return self.run()
        except BaseException:
            self._scheduled += taken
            raise

    def release_outputs(self) -> None:
        """Makes no difference: outputs are nobody's but the caller's, and stay as they are."""

    def outputs(self) -> Outputs:
        """`release_outputs`, and then `share_outputs`."""
        return self.share_outputs()

    def next_epoch(self) -> Rest:
        """Iterate over the rest of the epoch of the first reader; after its last batch, over the next epoch.

        A pipeline that resumes after a last batch finds that epoch empty once, so loops over epochs count right.

        Returns:
            An iterator over tuples of Batches. Its ``len`` is the number of batches that are left.

        Raises:
            Exception: An error of the function, at its batch. The next step tries again.
        """
        return Rest(self)

    def __iter__(self) -> Self:
        self.reset()
        return self

    def __next__(self) -> Outputs:
        return self.run()

    def reset(self) -> None:
        """Let the next `run` begin the next epoch of a source that has ended. A loop over the pipeline does so too."""
        self._stopped = None

    def epoch_size(self, name: str | None = None) -> Any:
        """Return the number of samples of an epoch, on all shards. With `pad_last_batch` shards are rounded up.

        Args:
            name: The name of a reader; by default all.

        Returns:
            The number of samples; without a name, a dict of these by reader.

        Raises:
            ArgumentError: There is no reader of that name.
        """
        if name is not None:
            return self.reader_meta(name)["epoch_size_padded"]
        return {key: value["epoch_size_padded"] for key, value in self.reader_meta().items()}

    def reader_meta(self, name: str | None = None) -> Any:
        """Return `get_metadata` of a reader.

        Args:
            name: The name of a reader; by default all.

        Returns:
            A dict of integers; without a name, a dict of these by reader.

        Raises:
            ArgumentError: There is no reader of that name.
        """
        course = self._course
        place, ended = course.place, False
        if course.graph is None or not course.graph.has_run:
            try:
                course.peek()
            except Ended:  # which is told again where a batch is asked for
                course.peek()
                ended = True
        assert course.graph is not None
        readers = {key: value for key, value in course.graph.sources.items() if isinstance(value, Reader)}
        found = {key: reader.get_metadata(self._batch_size) for key, reader in readers.items()}
        if ended:
            course.go_back(place)
        if name is not None and (not isinstance(name, str) or name not in found):
            raise ArgumentError("Pipeline", "name", f"that of a reader, one of {sorted(found)}", shown(name))
        return found if name is None else found[name]

    def checkpoint(self, filename: str | os.PathLike[str] | None = None) -> bytes:
        """Return the state after the batch taken last. Batches made ahead do not count.

        Args:
            filename: A file to save it to as well, whole and durable. In its last part ``{seq}`` becomes the next
                number.

        Returns:
            The text of the checkpoint, for the argument `checkpoint` of a pipeline like this one.

        Raises:
            OSError: The file cannot be written; an old one stays as it was.
        """
        states = Checkpoint()
        for name, state in self._course.own_states().items():
            states.set_state(name, state)
        if self._course.iterator is not None:
            states.set_state(ITERATOR, self._course.iterator)
        if filename is not None:
            states.save(filename)
        return states.serialize().encode()

    def close(self) -> None:
        """Stop making batches, and end the threads. A pipeline without references does so by itself."""
        self._course.close()

    def empty(self) -> bool:
        """Whether no run is scheduled."""
        return not self._scheduled

    def __repr__(self) -> str:
        name = "graph" if self._function is None else of_function(self._function)
        return f"<Pipeline {name}: batch size {self._batch_size}, seed {self.seed}, epoch {self._course.epoch}>"


def _graph_of(
    whose: Callable[[], Any],
    course: Course,
    states: Mapping[str, JSON] | None,
    seed: int,
    answers: dict[str, Answers[Any]] | None,
) -> Graph:
    """The state that the runs of a pipeline share, at a place."""
    pipeline: Pipeline = whose()
    return Graph(
        pipeline._function_to_run(),
        pipeline.batch_size,
        seed,
        states,
        course.last_batch,
        course.fed,
        pipeline._declared.check,
        conditionals=pipeline._conditionals,
        answers=answers,
    )
