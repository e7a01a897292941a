"""The part of a pipeline that has to do with its function, and with graphs that are drawn once instead."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Self

from dynamic.auto_aug._draws import recorder

from ._calls import function_of
from ._graph import current
from ._nodes import DataNode, Drawn, drawing
from ._output import Declared

__all__ = ["Drawing", "of_function"]

#: They end the drawing that `Pipeline.push_current` began.
_pushed: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("pushed", default=())


class Drawing:
    """A function, or a graph.

    Args:
        function: The function; None for a graph, which is drawn in a ``with`` block or by `define_graph`.
    """

    _declared: Declared

    def __init__(self, function: Callable[[], Any] | None) -> None:
        self._function = None if function is None else function_of(function)
        self._drawn = Drawn()
        self._entered: list[Callable[[], None]] = []  # they end the ``with`` blocks

    def set_outputs(self, *output_data_nodes: Any) -> None:
        """Set the outputs of a graph, at its end.

        Args:
            output_data_nodes: Nodes, and numbers for all samples.
        """
        if self._function is not None:
            hint = "Return the outputs from the function."
            raise RuntimeError(f"Pipeline.set_outputs() is for graphs; this pipeline has a function. {hint}")
        self._drawn.end(output_data_nodes)

    def add_sink(self, edge: DataNode) -> None:
        """Let each run make a value that no output needs.

        Args:
            edge: The value.
        """
        self._drawn.sinks.append(edge)

    @staticmethod
    def push_current(pipeline: Drawing) -> None:
        """Begin to draw the graph of a pipeline, as a ``with`` block does, until `pop_current`.

        Args:
            pipeline: One without a function.
        """
        if pipeline._function is not None:
            raise RuntimeError("Pipeline.push_current() is for graphs; this pipeline has a function.")
        _pushed.set((*_pushed.get(), pipeline._draw()))

    @staticmethod
    def pop_current() -> None:
        """End drawing that `push_current` began, the last one.

        Raises:
            RuntimeError: There is none.
        """
        if not _pushed.get():
            raise RuntimeError("Pipeline.pop_current(): no pipeline is current by push_current().")
        *rest, end = _pushed.get()
        _pushed.set((*rest,))
        end()

    def define_graph(self) -> Any:
        """Return the outputs of a graph, for classes that override it: it is called once.

        Raises:
            NotImplementedError: It is not overridden.
        """
        raise NotImplementedError(
            "Pipeline: there is no graph. Call pipe.set_outputs(...) in a `with pipe:` block, override define_graph, "
            "or write a function under pipeline_def."
        )

    def _function_to_run(self) -> Callable[[], Any]:
        """The function that makes a batch, or the graph, which is drawn now if it was not."""
        if self._function is not None:
            return self._function
        if self._drawn.outputs is None:
            end = self._draw()
            try:
                outputs = self.define_graph()
            finally:
                end()
            self._drawn.end(outputs if isinstance(outputs, (tuple, list)) else (outputs,))
        return self._drawn

    def _draw(self) -> Callable[[], None]:
        """Begin to draw the graph here; returns a function that ends that."""
        tokens: list[tuple[Any, Token[Any]]] = [
            (current, current.set(weakref.ref(self))),
            (drawing, drawing.set(self._drawn)),
            (recorder, recorder.set(self._drawn.policy)),
        ]

        def end() -> None:
            for variable, token in tokens:
                variable.reset(token)

        return end

    def output_dtype(self) -> list[Any]:
        """The element type that each output must have, None for any."""
        return self._declared.of_each("dtype", self.num_outputs)

    def output_ndim(self) -> list[Any]:
        """The number of dimensions that samples of each output must have, None for any."""
        return self._declared.of_each("ndim", self.num_outputs)

    def output_layout(self) -> list[Any]:
        """The layout that each output must have, None for any."""
        return self._declared.of_each("layout", self.num_outputs)

    @property
    def num_outputs(self) -> int:
        """How many outputs there are."""
        raise NotImplementedError  # Pipeline has it

    @property
    def _is_running(self) -> bool:
        """Whether batches are made already."""
        raise NotImplementedError  # Pipeline has it

    def close(self) -> None:
        """Stop making batches."""
        raise NotImplementedError  # Pipeline has it

    def __enter__(self) -> Self:
        self._entered.append(self.close if self._function is not None or self._is_running else self._draw())
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop()()


def of_function(function: Any) -> str:
    """The name of a function."""
    return str(getattr(getattr(function, "func", function), "__name__", "function"))
