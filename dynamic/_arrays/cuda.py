"""Streams of GPUs: on which one work of ours runs, and how data that was made on one is used on another.

Work runs on the stream that is current in the calling thread: CuPy's, if a program has chosen one, else torch's, if
torch uses the GPU, else the default stream. cupy is imported when a GPU is asked for, and torch never.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from dynamic.errors import ArgumentError, DeviceError, shown

__all__ = ["Ready", "cupy", "current_stream", "handed_over", "of_handle", "release_after", "stream_of_torch", "working"]


def cupy() -> Any:
    """The cupy module, of which Tensors on a GPU are made."""
    try:
        import cupy
    except ImportError as error:
        text = "This data is on a GPU, which needs cupy: pip install 'dynamic-batch[cuda13]' (or [cuda12])."
        raise DeviceError(text) from error
    return cupy


class _Handle:
    """The address of a stream that somebody else keeps, for `Stream.from_external`."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def of_handle(handle: int) -> Any:
    """CuPy's Stream of a stream's address; 1 is the default stream and 2 that of the thread, as in DLPack."""
    stream = cupy().cuda.Stream
    return stream.null if handle in (0, 1) else stream.ptds if handle == 2 else stream.from_external(_Handle(handle))


def stream_of_torch(device_id: int) -> int | None:
    """Address of torch's current stream; None where torch does not use a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.current_stream(device_id).cuda_stream)


def current_stream(device_id: int) -> Any:
    """The stream of a GPU on which this thread's work runs."""
    chosen = cupy().cuda.get_current_stream(device_id)
    if chosen.ptr:
        return chosen
    theirs = stream_of_torch(device_id)
    return of_handle(theirs) if theirs else chosen


@contextlib.contextmanager
def working(device_id: int | None) -> Iterator[None]:
    """Allocate and launch on a GPU, on the current stream; None stands for the CPU, where there is nothing to do."""
    if device_id is None:
        yield
        return
    with cupy().cuda.Device(device_id):
        stream = current_stream(device_id)
        if stream.ptr == cupy().cuda.get_current_stream().ptr:
            yield
        else:
            with stream:
                yield


class Ready:
    """On which stream of a GPU data was made or used last, so that work on any other waits for it.

    Args:
        device_id: The GPU. The data is ready on its current stream.
    """

    __slots__ = ("device_id", "home", "latest", "seen")

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.home = self.latest = current_stream(device_id)
        self.seen = {self.home.ptr}

    def here(self, *owners: Any) -> None:
        """Let the current stream wait for the data, and the memory of its owners for that stream once it is freed."""
        stream = current_stream(self.device_id)
        if stream.ptr == self.latest.ptr:
            return
        with cupy().cuda.Device(self.device_id):
            stream.wait_event(self.latest.record())
        self.latest = stream
        if stream.ptr not in self.seen:
            self.seen.add(stream.ptr)
            for owner in owners:
                release_after(owner, self.device_id, self.home, stream)


def release_after(owner: Any, device_id: int, home: Any, stream: Any) -> None:
    """Once an owner of memory goes, let the stream that gets the memory back wait for another that has used it."""
    base = getattr(owner, "base", None)
    weakref.finalize(owner if base is None else base, _wait, device_id, home, stream).atexit = False


def _wait(device_id: int, waiting: Any, stream: Any) -> None:
    with cupy().cuda.Device(device_id):
        waiting.wait_event(stream.record())


def handed_over(device_id: int, stream: Any, operator: str) -> None:
    """Let a consumer's stream wait for the current one.

    Args:
        device_id: The GPU.
        stream: As DLPack and ``__cuda_array_interface__`` say it: an address, 1 or None for the default stream, 2 for
            that of the thread, -1 for no wait.
        operator: Its name in errors.
    """
    if stream == -1:
        return
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream < 1):
        expected = "None, -1, 1, 2 or the address of a stream (0 could mean two streams)"
        raise ArgumentError(operator, "stream", expected, shown(stream))
    consumer, producer = of_handle(1 if stream is None else stream), current_stream(device_id)
    if consumer.ptr != producer.ptr:
        with cupy().cuda.Device(device_id):
            consumer.wait_event(producer.record())
