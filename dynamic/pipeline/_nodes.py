"""Graphs: calls of `fn` that are written down once, in a ``with pipe:`` block or in `define_graph`, for every run."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

from dynamic import ArgumentError, together
from dynamic.auto_aug._draws import recorder
from dynamic.errors import shown
from dynamic.ops.together import eager

from ._added import FORMER

__all__ = ["DataNode", "Drawn", "drawing", "is_node", "of_values", "record", "recorded"]


class Recorded:
    """A call that each run of a graph makes.

    Args:
        function: The function.
        inputs: Its positional arguments, with nodes for results of other calls.
        arguments: Its keyword arguments, likewise.
        path: The name in `fn`; None for operators of Python.
    """

    __slots__ = ("arguments", "function", "inputs", "number", "path")
    _count = itertools.count()

    def __init__(
        self, function: Callable[..., Any], inputs: Sequence[Any], arguments: Mapping[str, Any], path: str | None = None
    ) -> None:
        self.function, self.inputs, self.arguments, self.path = function, tuple(inputs), dict(arguments), path
        self.number = next(self._count)  # calls are made in the order in which they were written

    @property
    def needs(self) -> Iterator[Recorded]:
        """The calls whose results it is given."""
        return (node._call for node in _nodes((self.inputs, self.arguments)))


class DataNode:
    """A value in a graph, which each run has for its batch: an output of a call of `fn`.

    It has the operators of a Batch, and `gpu`, `cpu` and `shape`. It is no data: Python cannot look at it.

    Args:
        call: The call that gives it.
        place: Where it is in the result: indices and keys, one after the other.
    """

    __slots__ = ("_call", "_place")
    __array_ufunc__ = None  # an array of NumPy beside it leaves the operation to it

    def __init__(self, call: Recorded, place: tuple[Any, ...] = ()) -> None:
        self._call, self._place = call, place

    @property
    def name(self) -> str:
        """The name of the call, or that of its function."""
        name: str = self._call.arguments.get("name") or self._call.path or "expression"
        return name

    @property
    def device(self) -> str:
        """Where the call was told to put it: "cpu" or "gpu"."""
        asked = self._call.arguments.get("device")
        if asked is None:
            of_inputs = {node.device for node in _nodes((self._call.inputs, self._call.arguments))}
            return "gpu" if "gpu" in of_inputs else "cpu"
        return "cpu" if str(asked).lower() == "cpu" else "gpu"

    def gpu(self) -> DataNode:
        """The value on the GPU."""
        return DataNode(Recorded(operator.methodcaller("gpu"), (self,), {}))

    def cpu(self) -> DataNode:
        """The value on the CPU."""
        return DataNode(Recorded(operator.methodcaller("cpu"), (self,), {}))

    def shape(self, *, dtype: Any = "int64", device: str = "cpu") -> DataNode:
        """The extents of each sample.

        Args:
            dtype: Element type.
            device: Where they are.
        """
        return DataNode(Recorded(_shape, (self, dtype, device), {}))

    def __getitem__(self, index: Any) -> DataNode:
        return DataNode(Recorded(operator.getitem, (self, index), {}))

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is one value of a graph, and not several; each sample is its own batch[i].")

    def __bool__(self) -> NoReturn:
        hint = "Write the graph as a function under pipeline_def(enable_conditionals=True)."
        raise TypeError(f"{self!r} has no value until the graph is run, so it is no condition. {hint}")

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<DataNode {self.name}>"


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: DataNode, other: Any) -> DataNode:
        return DataNode(Recorded(function, (self, other), {}))

    def backward(self: DataNode, other: Any) -> DataNode:
        return DataNode(Recorded(function, (other, self), {}))

    return forward, backward


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def applied(self: DataNode) -> DataNode:
        return DataNode(Recorded(function, (self,), {}))

    return applied


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _forward, _backward = _binary(getattr(operator, f"__{_name}__"))
    setattr(DataNode, f"__{_name}__", _forward)
    setattr(DataNode, f"__r{_name}__", _backward)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(DataNode, f"__{_name}__", _binary(getattr(operator, _name))[0])
for _name in ("neg", "pos", "abs", "invert"):
    setattr(DataNode, f"__{_name}__", _unary(getattr(operator, _name)))


def _shape(batch: Any, dtype: Any, device: str) -> Any:
    return batch.shape(dtype or "int64").to_device(device)


def is_node(value: Any) -> bool:
    """Whether a value is a node, or a list of them."""
    return next(iter(_nodes(value)), None) is not None


def _nodes(value: Any) -> Iterator[DataNode]:
    """The nodes in a value."""
    if isinstance(value, DataNode):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        yield from _nodes(list(value.values()))
    elif isinstance(value, slice):
        yield from _nodes((value.start, value.stop, value.step))


def _filled(value: Any, results: Mapping[Recorded, Any]) -> Any:
    """A value with results where it has nodes."""
    if isinstance(value, DataNode):
        found = results[value._call]
        for place in value._place:
            found = found[place]
        return found
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(item, results) for item in value)
    if isinstance(value, dict):
        return {key: _filled(item, results) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_filled(item, results) for item in (value.start, value.stop, value.step)))
    return value


def record(path: str, function: Callable[..., Any], inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Write a call of `fn` down.

    Args:
        path: The name in `fn`.
        function: Called in each run.
        inputs: Its positional arguments.
        arguments: Its keyword arguments.

    Returns:
        A node, or as many of them as the call will have results.
    """
    call = Recorded(function, inputs, arguments, path)
    graph = drawing.get()
    if graph is not None:
        graph.calls.append(call)
    return _results(call, next((len(x) for x in inputs if isinstance(x, (list, tuple)) and is_node(x)), None))


class Drawn:
    """A graph as it is being drawn, and the function that runs it and returns its outputs.

    Attributes:
        calls: Those of `fn` that were written in a block.
        sinks: Values that each run makes, though no output needs them.
    """

    def __init__(self) -> None:
        self.calls: list[Recorded] = []
        self.sinks: list[DataNode] = []
        self._outputs: tuple[Any, ...] | None = None
        self._needed: list[Recorded] = []

    @property
    def outputs(self) -> tuple[Any, ...] | None:
        """The values that each run returns; None as long as they are not known."""
        return self._outputs

    def end(self, outputs: Sequence[Any]) -> None:
        """Set the outputs, which ends the graph."""
        self._outputs = tuple(outputs)
        found: set[Recorded] = set()
        wanted = [call for call in self.calls if call.arguments.get("preserve")]
        wanted += [node._call for node in _nodes((self._outputs, self.sinks))]
        while wanted:
            call = wanted.pop()
            if call not in found:
                found.add(call)
                wanted += call.needs
        self._needed = sorted(found, key=operator.attrgetter("number"))
        sources = [call for call in self._needed if call.path == "external_source"]
        for number, call in enumerate(sources, 1):
            if call.arguments.get("name") is None:
                call.arguments["name"] = f"external_source {number}"

    def policy(
        self, path: str, inputs: tuple[Any, ...], arguments: dict[str, Any], function: Callable[..., Any]
    ) -> Any:
        """Write a call of a policy of augmentation down."""

        def called(*given: Any, **named: Any) -> Any:
            hand = recorder.get()
            return function(*given, **named) if hand is None else hand(path, given, named, function)

        self.calls.append(Recorded(called, inputs, arguments, path))
        return DataNode(self.calls[-1])

    def __call__(self) -> tuple[Any, ...]:
        results: dict[Recorded, Any] = {}
        for call in self._needed:
            inputs, arguments = _filled(call.inputs, results), _filled(call.arguments, results)
            results[call] = call.function(*inputs, **arguments)
        filled: tuple[Any, ...] = _filled(self._outputs or (), results)
        return filled


def of_values(function: Callable[..., Any], inputs: tuple[Any, ...], arguments: dict[str, Any]) -> Callable[[], Any]:
    """A function with its arguments; nodes among them are made in each run, before it is called."""
    if not is_node((inputs, arguments)):
        return functools.partial(function, *inputs, **arguments)
    graph = Drawn()
    graph.end((inputs, arguments))

    @functools.wraps(function)
    def called() -> Any:
        values, named = graph()
        return function(*values, **named)

    return called


#: The graph that is being drawn here; None elsewhere.
drawing: ContextVar[Drawn | None] = ContextVar("dynamic.pipeline.drawing", default=None)


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of data be called with nodes too."""

    def called(*inputs: Any, **arguments: Any) -> Any:
        if is_node((inputs, arguments)):
            return DataNode(Recorded(function, inputs, arguments))
        return function(*inputs, **arguments)

    called.__name__, called.__doc__, called.__wrapped__ = function.__name__, function.__doc__, function  # type: ignore[attr-defined] # for its signature
    return called


# -- how many results a call has --------------------------------------------------------------------------------------


def _results(call: Recorded, sets: int | None) -> Any:
    path, arguments = FORMER.get(call.path or "", call.path or ""), call.arguments
    if path == "readers.tfrecord":
        features = arguments.get("features")
        if not isinstance(features, Mapping):
            raise ArgumentError("fn.readers.tfrecord", "features", "a dict of features", shown(features))
        return {key: DataNode(call, (key,)) for key in features}
    if path == "together" or (path == "sometimes" and eager(call.inputs[1]) is together):
        given = [name for name, of in _MOVED.items() if arguments.get(of) is not None]
        return {name: DataNode(call, (name,)) for name in given}
    count = _count(path, call.inputs, arguments)
    rows: list[tuple[int, ...]] = [()] if sets is None else [(i,) for i in range(sets)]
    if count is None:
        return DataNode(call) if sets is None else [DataNode(call, row) for row in rows]
    if sets is None:
        return tuple(DataNode(call, (i,)) for i in range(count)) if count else None
    return [[DataNode(call, (i, *row)) for row in rows] for i in range(count)]


def _count(path: str, inputs: tuple[Any, ...], arguments: Mapping[str, Any]) -> int | None:
    """How many results a call has in a tuple; None where it has one, in none."""
    of = arguments.get
    if path in _PAIRS:
        return 2
    if path == "ssd_random_crop":
        return 3
    if path == "external_source" or path.endswith("python_function"):
        given = inputs[1] if path == "external_source" and len(inputs) > 1 else of("num_outputs")
        return None if given is None or (path != "external_source" and given == 1) else int(given)
    if path == "element_extract":
        places = of("element_map", 0)
        return len(places) if isinstance(places, Sequence) and len(places) > 1 else None
    if path == "readers.webdataset":
        return len(of("ext") or ()) if not isinstance(of("ext"), str) else None
    if path == "readers.coco":
        masks = bool(of("polygon_masks") or of("masks"))
        return 3 + 2 * masks + bool(of("pixelwise_masks")) + bool(of("image_ids") or of("save_img_ids"))
    if path == "random_bbox_crop":
        return 3 + (len(inputs) > 1 or "labels" in arguments) + bool(of("output_bbox_indices"))
    if path in ("resize", "tensor_resize"):
        return 2 if of("save_attrs") else None
    if path == "segmentation.random_object_bbox":
        boxes = (of("format") or "anchor_shape") == "box"
        count = 2 - boxes + bool(of("output_class"))
        return count if count > 1 else None
    return 2 if path == "bbox_rotate" and len(inputs) > 1 else None


#: Calls of two results, whatever they are told.
_PAIRS = frozenset(
    ["box_encoder", "cutmix", "mixup", "random_crop_generator", "readers.file", "segmentation.select_masks"]
)
#: The results of `together`, and the argument that each is of.
_MOVED = {name: name for name in ("image", "masks", "boxes", "points")}
_MOVED |= {"inside": "points", "labels": "labels", "kept": "boxes"}
