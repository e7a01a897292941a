"""Memory that the processes of a loader share: the places where an epoch begins, and the one after it."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from dynamic import StateError
from dynamic._base.state import JSON

__all__ = ["Shared", "Worker"]

_ROOM = 1 << 18  # bytes of a text, compressed
_USED, _RUN, _BEGUN, _START, _FOLLOWING, _NUMBERS = range(6)  # numbers in the memory, and how many there are
_FIRST = 8 * _NUMBERS  # where in it the two texts are
_PATIENCE = 300  # seconds


class Worker(NamedTuple):
    """Which of how many worker processes of a loader this is."""

    number: int
    total: int  #: 0 outside of a loader's workers
    run: int  #: a number of the workers of one iteration

    @classmethod
    def here(cls) -> Worker:
        """This process."""
        import torch.utils.data

        info = torch.utils.data.get_worker_info()
        return cls(0, 0, 0) if info is None else cls(info.id, info.num_workers, (info.seed - info.id) % 2**62)


class Shared:
    """Memory of all processes of a loader, with the states at which epochs begin.

    The first worker alone opens an epoch, for which the others wait. Whoever makes its last batch writes where the next
    one begins, with the number of the run, so that late writes of a worker of an earlier run count for nothing.
    """

    def __init__(self, states: dict[str, JSON]) -> None:
        import torch

        self._memory = torch.zeros(_FIRST // 8 + 2 * _ROOM // 8, dtype=torch.int64).share_memory_()
        self._iterations = self._run = 0
        self.put(states)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self._memory.share_memory_()  # a copy that is not for a worker of the same loader has memory of its own

    @property
    def _numbers(self) -> Any:
        return self._memory.numpy()

    @property
    def used(self) -> bool:
        """Whether there are, or were, workers."""
        return bool(self._numbers[_USED])

    @property
    def begun(self) -> bool:
        """Whether batches have been made from the start on."""
        return bool(self._numbers[_BEGUN])

    @begun.setter
    def begun(self, value: bool) -> None:
        self._numbers[_BEGUN] = value

    @property
    def start(self) -> dict[str, JSON]:
        """Where the last iteration began, or, where there was none since `put`, the next will."""
        start: dict[str, JSON] = self._read(_START)
        return start

    @start.setter
    def start(self, states: dict[str, JSON]) -> None:
        self._write(_START, states)

    @property
    def following(self) -> dict[str, JSON] | None:
        """Where the next iteration begins; None unless the last batch of this one has been made."""
        if not self._numbers[_FOLLOWING]:
            return None
        try:
            run, states = self._read(_FOLLOWING)
        except (ValueError, zlib.error):  # a worker of an earlier run writes at this moment
            return None
        return states if run == self._numbers[_RUN] else None

    def put(self, states: dict[str, JSON]) -> None:
        """Let the next iteration begin here."""
        self._numbers[[_USED, _RUN, _BEGUN, _FOLLOWING]] = self._run = 0
        self.start = states

    def begin(self, worker: Worker, states: Callable[[], dict[str, JSON]]) -> dict[str, JSON]:
        """Begin an iteration, in all workers.

        Args:
            worker: This one.
            states: Tells the first worker where.

        Returns:
            Where it begins.
        """
        numbers = self._numbers
        self._run = run = worker.run + self._iterations + 1
        self._iterations += 1
        if worker.number == 0:
            self.start = states()
            numbers[_FOLLOWING] = 0
            numbers[_USED] = numbers[_BEGUN] = 1
            numbers[_RUN] = run
        until = time.monotonic() + _PATIENCE
        while numbers[_RUN] != run:
            time.sleep(0.001)
            if time.monotonic() > until:
                raise RuntimeError("pytorch.Dataset: the first worker has not begun.")
        return self.start

    def follow(self, states: dict[str, JSON]) -> None:
        """Let the iteration after this one begin here."""
        if self._run == self._numbers[_RUN]:
            self._write(_FOLLOWING, [self._run, states])

    def _write(self, which: int, value: JSON) -> None:
        text = zlib.compress(json.dumps(value).encode())
        if len(text) > _ROOM:
            raise StateError(f"pytorch.Dataset: the state is too long for workers to share: {len(text)} bytes.")
        self._bytes(which)[: len(text)] = memoryview(text)
        self._numbers[which] = len(text)

    def _read(self, which: int) -> Any:
        return json.loads(zlib.decompress(self._bytes(which)[: int(self._numbers[which])].tobytes()))

    def _bytes(self, which: int) -> Any:
        first = _FIRST + _ROOM * (which == _FOLLOWING)
        return self._numbers.view("uint8")[first : first + _ROOM]
