"""Settings of DALI's pipelines that make no difference here: a pipeline takes them, and tells them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from dynamic import ArgumentError
from dynamic.errors import shown
from dynamic.readers._checks import natural

__all__ = ["ARGUMENTS", "SETTINGS", "Settings", "depth_of"]

#: The arguments of `Pipeline` that make a difference.
ARGUMENTS = (
    "batch_size",
    "num_threads",
    "device_id",
    "seed",
    "enable_checkpointing",
    "prefetch_queue_depth",
    "checkpoint",
    "max_batch_size",
    "enable_conditionals",
    "output_dtype",
    "output_ndim",
    "output_layout",
)
#: Those that make none, with their defaults.
SETTINGS: Mapping[str, Any] = {
    "bytes_per_sample": 0,
    "concurrency": None,
    "debug": False,
    "default_cuda_stream_priority": 0,
    "enable_memory_stats": False,
    "exec_async": True,
    "exec_dynamic": True,
    "exec_pipelined": True,
    "experimental_exec_dynamic": None,
    "max_streams": None,
    "py_callback_pickler": None,
    "py_num_workers": 1,
    "py_start_method": "fork",
    "set_affinity": False,
    "stream_policy": None,
}


class _Setting:
    """A setting that was given, or its default."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = f"As it was given to the pipeline, by default {SETTINGS[name]!r}; it makes no difference."

    def __get__(self, settings: Settings | None, owner: Any = None) -> Any:
        return self if settings is None else settings._given.get(self._name, SETTINGS[self._name])


class _Elsewhere:
    """A member of DALI's pipelines that is not here; asking for it names a replacement."""

    def __init__(self, hint: str) -> None:
        self._hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, settings: Settings | None, owner: Any = None) -> NoReturn:
        raise AttributeError(f"Pipeline has no {self._name!r}. {self._hint}")


_MADE_ANEW = "Import its function where it is needed, call that, and pass checkpoint= the result of checkpoint()."


class Settings:
    """A setting of a pipeline without effect.

    Args:
        given: The settings by their names.
        depths: The argument `prefetch_queue_depth`.

    Raises:
        ArgumentError: There is no setting of a name.
    """

    def __init__(self, given: Mapping[str, Any], depths: Mapping[str, int] | int) -> None:
        if unknown := given.keys() - SETTINGS.keys():
            raise ArgumentError.unknown("Pipeline", min(unknown), [*SETTINGS, *ARGUMENTS])
        self._given = dict(given)
        self._depths: Mapping[str, int] | int = depths

    @property
    def exec_separated(self) -> bool:
        """Whether `prefetch_queue_depth` was given for the CPU and a GPU apart."""
        return isinstance(self._depths, Mapping)

    @property
    def cpu_queue_size(self) -> int:
        """How many batches the CPU was told to make ahead; a pipeline makes so many."""
        return self._depths["cpu_size"] if isinstance(self._depths, Mapping) else self._depths

    @property
    def gpu_queue_size(self) -> int:
        """How many batches a GPU was told to make ahead; it makes no difference."""
        return self._depths["gpu_size"] if isinstance(self._depths, Mapping) else self._depths

    concurrency = _Setting("concurrency")
    default_cuda_stream_priority = _Setting("default_cuda_stream_priority")
    enable_memory_stats = _Setting("enable_memory_stats")
    exec_async = _Setting("exec_async")
    exec_dynamic = _Setting("exec_dynamic")
    exec_pipelined = _Setting("exec_pipelined")
    max_streams = _Setting("max_streams")
    py_num_workers = _Setting("py_num_workers")
    py_start_method = _Setting("py_start_method")
    set_affinity = _Setting("set_affinity")
    stream_policy = _Setting("stream_policy")

    serialize = _Elsewhere(_MADE_ANEW)
    deserialize = _Elsewhere(_MADE_ANEW)
    deserialize_and_build = _Elsewhere(_MADE_ANEW)
    save_graph_to_dot_file = _Elsewhere("A pipeline is its function; there is no graph of operators to draw.")

    def start_py_workers(self) -> None:
        """Makes no difference: sources are called in this process, ahead of the consumer."""

    def enable_api_check(self, enable: bool) -> None:
        """Makes no difference: `run` and the two halves of it may take turns."""

    def executor_statistics(self) -> dict[str, Any]:
        """Empty, as of DALI's pipelines by default: there is no executor whose memory could be told."""
        return {}

    def external_source_shm_statistics(self) -> dict[str, list[int]]:
        """The shared memory of processes that run sources; there are none."""
        return {"capacities": [], "per_sample_capacities": []}


def depth_of(given: Any) -> int:
    """How many things are made ahead, as the argument `prefetch_queue_depth` of a pipeline says it."""
    if isinstance(given, Mapping):
        if given.keys() != {"cpu_size", "gpu_size"}:
            expected = "a number, or a dict with 'cpu_size' and 'gpu_size'"
            raise ArgumentError("Pipeline", "prefetch_queue_depth", expected, shown(dict(given)))
        natural("Pipeline", "prefetch_queue_depth", given["gpu_size"], 0)
        given = given["cpu_size"]
    return natural("Pipeline", "prefetch_queue_depth", given, 0)
