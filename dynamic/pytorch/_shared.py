"""What the processes of a loader tell each other: where an epoch begins, and that all of them have ended it."""

from __future__ import annotations

import json
import time
import zlib
from typing import Any, NamedTuple

from dynamic import StateError
from dynamic._state import JSON

__all__ = ["Shared", "Worker"]

_MOST = 1024  # workers
_ROOM = 1 << 18  # bytes of a state, compressed
_USED, _RUN, _TOTAL, _START, _NEXT, _ENDED = range(6)  # numbers in the memory; from the last one on, one a worker
_FIRST = 8 * (_ENDED + _MOST)  # where in it the two states are
_PATIENCE = 300  # seconds


class Worker(NamedTuple):
    """Which of how many worker processes of a loader this is."""

    number: int
    total: int  #: 0 outside of a loader's workers
    run: int  #: what the workers of an iteration have in common, and no others

    @classmethod
    def here(cls) -> Worker:
        """This process."""
        import torch.utils.data

        info = torch.utils.data.get_worker_info()
        return cls(0, 0, 0) if info is None else cls(info.id, info.num_workers, (info.seed - info.id) % 2**62)


class Shared:
    """Memory of all processes of a loader, with the states at which the next epoch begins.

    Of the workers, the first one alone writes, so there is nothing to lock: it opens an epoch, for which the others
    wait, and says where the next one begins. That holds once all of them have ended the epoch.
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

    def put(self, states: dict[str, JSON]) -> None:
        """Let the next epoch begin here."""
        self._numbers[[_USED, _RUN, _TOTAL]] = 0
        self._write(_START, states)

    def get(self) -> dict[str, JSON]:
        """Where the next epoch begins."""
        return self._read(_NEXT if self._all_ended() else _START)

    def begin(self, worker: Worker) -> dict[str, JSON]:
        """Begin an epoch; workers must all do so before one of them can have ended it.

        Returns:
            Where it begins.
        """
        numbers = self._numbers
        if not worker.total:
            return self.get()
        self._run = run = worker.run + self._iterations + 1
        self._iterations += 1
        if worker.total > _MOST:
            raise ValueError(f"pytorch.Dataset: {worker.total} workers are more than {_MOST}.")
        if worker.number == 0:
            self._write(_START, self.get())
            numbers[_RUN] = 0  # from now on workers of an epoch that was left early end it for nobody
            numbers[_USED], numbers[_TOTAL] = 1, worker.total
            numbers[_ENDED : _ENDED + worker.total] = 0
            numbers[_RUN] = run
        until = time.monotonic() + _PATIENCE
        while numbers[_RUN] != run:
            time.sleep(0.001)
            if time.monotonic() > until:
                raise RuntimeError("pytorch.Dataset: the first worker has not begun.")
        return self._read(_START)

    def end(self, worker: Worker, states: dict[str, JSON]) -> None:
        """End the epoch in this process; the next one begins at these states."""
        if not worker.total:
            self._write(_START, states)
            self._numbers[_TOTAL] = 0
            return
        if self._numbers[_RUN] != self._run:
            return
        if worker.number == 0:
            self._write(_NEXT, states)
        self._numbers[_ENDED + worker.number] = 1
        if self._all_ended():
            self._numbers[_RUN] = 0

    def _all_ended(self) -> bool:
        total = int(self._numbers[_TOTAL])
        return total > 0 and bool(self._numbers[_ENDED : _ENDED + total].all())

    def _write(self, which: int, states: dict[str, JSON]) -> None:
        text = zlib.compress(json.dumps(states).encode())
        if len(text) > _ROOM:
            raise StateError(f"pytorch.Dataset: the state is too long for workers to share: {len(text)} bytes.")
        self._bytes(which)[: len(text)] = memoryview(text)
        self._numbers[which] = len(text)

    def _read(self, which: int) -> dict[str, JSON]:
        states: dict[str, JSON] = json.loads(zlib.decompress(self._bytes(which)[: int(self._numbers[which])].tobytes()))
        return states

    def _bytes(self, which: int) -> Any:
        first = _FIRST + _ROOM * (which == _NEXT)
        return self._numbers.view("uint8")[first : first + _ROOM]
