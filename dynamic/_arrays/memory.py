"""Memory for large results, which is lent out again once nobody refers to it.

Fresh megabytes cost more in page faults than many a kernel needs to fill them. All views of a result refer to one view
of its block, its owner; a weak reference to that puts itself among the free ones when it dies. It does so in C, so that
it needs no lock, and no Ctrl-C is lost in it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynamic._base.locks import new_lock
from dynamic.errors import ArgumentError, shown

from .array import DEEPEST, Array

__all__ = ["check_room", "checked_extents", "empty", "keep_blocks", "lend_again", "make_blocks_of"]

_ADDRESSED = 1 << 60  # bytes
_SMALLEST = 1 << 16  # below, malloc recycles by itself
_limit = 1 << 29  # bytes in all loans, in use or not; the oldest loans are forgotten first


class _Block(numpy.ndarray):
    """Memory, or its owner. Of a class of its own: NumPy looks past views of one class to the memory behind them."""

    __slots__ = ()


class _Loan(weakref.ref[_Block]):
    """A block that is lent out until its owner dies."""

    __slots__ = ("block",)
    block: _Block


_loans: collections.OrderedDict[int, _Loan] = collections.OrderedDict()  # of each block, by its id; the latest last
_free: collections.defaultdict[int, collections.deque[_Loan]] = collections.defaultdict(collections.deque)  # by bytes
_kept = 0
_lock = new_lock()
_memory_for: Callable[[int], Any] | None = None  # where blocks are not NumPy's own


def checked_extents(operator: str, extents: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of a caller, where NumPy has arrays of many such samples; there may be no memory for it still.

    Raises:
        ArgumentError: They are too many, or one is 0 and the others too large.
    """
    if len(extents) >= DEEPEST or (0 in extents and math.prod(filter(None, extents)) > _ADDRESSED):
        expected = f"at most {DEEPEST - 1} extents, of arrays that NumPy can have"
        raise ArgumentError(operator, "shape", expected, shown(extents))
    return extents


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """Uninitialised, C-contiguous CPU memory for a result; blocks that nobody uses any more are used again.

    Raises:
        MemoryError: There is not so much.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    check_room(shape, dtype, nbytes)
    if nbytes < _SMALLEST:
        return numpy.empty(shape, dtype)
    size = _rounded(nbytes)
    with _lock:
        block = _taken(size)
        fresh = block is None
        if block is None:
            if size > _limit:
                return numpy.empty(shape, dtype)
            block = _Block(size, numpy.uint8, _memory_for and _memory_for(size))
        owner = _lent(block)
        if fresh:
            keep_blocks()
            _forget_oldest(size)
        return numpy.ndarray(shape, dtype, buffer=owner)


def _lent(block: _Block) -> _Block:
    """The owner of a block from now on."""
    owner: _Block = block[:]  # type: ignore[assignment] # of the class of the block
    loan = _Loan(owner, _free[block.nbytes].append)
    loan.block = block
    _loans[id(block)] = loan
    _loans.move_to_end(id(block))
    return owner


def make_blocks_of(memory_for: Callable[[int], Any], limit: int) -> None:
    """Make blocks of other memory from now on, and lend none again that was made before.

    Args:
        memory_for: Gives a buffer for so many bytes; None is NumPy's own.
        limit: Bytes in all loans.
    """
    global _memory_for, _limit, _kept
    with _lock:
        _memory_for, _limit, _kept = memory_for, limit, 0
        _loans.clear()
        _free.clear()


def lend_again(memory: Any, drop: Callable[[], object]) -> tuple[Any, bool] | None:
    """Find out whether nobody else refers to a result.

    Args:
        memory: That `make_blocks_of` got for its block.
        drop: Drops all references to the result that the caller knows of.

    Returns:
        An owner of its memory, and whether `drop` dropped the last reference; None, and nothing is dropped, where the
        block is none that will be lent again.
    """
    with _lock:
        loan = next((each for each in _loans.values() if each.block.base is memory), None)
        if loan is None:
            return None
        drop()
        owner = loan()
        if owner is not None:
            return owner, False
        with contextlib.suppress(ValueError):  # another thread has dropped the last reference, this instant
            _free[loan.block.nbytes].remove(loan)
        return _lent(loan.block), True


def check_room(shape: Sequence[int], dtype: Any, nbytes: int) -> None:
    """Refuse an array that no memory has room for, or without elements, but with extents that are as large.

    Raises:
        MemoryError: NumPy has a ValueError for these.
    """
    if nbytes > _ADDRESSED or (not nbytes and math.prod(filter(None, shape)) * dtype.itemsize > _ADDRESSED):
        raise MemoryError(f"Not enough memory for an array of shape {tuple(shape)} of {dtype}.")


@functools.cache
def keep_blocks() -> None:
    """Show glibc once that temporary blocks of several megabytes come and go.

    Until then it gives them back to the system and maps them anew for each image, which costs more than to resize it.
    """
    numpy.empty(1 << 24, numpy.uint8)


def _rounded(nbytes: int) -> int:
    """At most an eighth more, so that blocks of like sizes are alike."""
    step = 1 << max(nbytes.bit_length() - 4, 0)
    return -(-nbytes // step) * step


def _taken(size: int) -> _Block | None:
    """A free block of that many bytes or up to half more."""
    fitting = size
    while fitting <= size + size // 2:
        free = _free.get(fitting)
        while free:
            loan = free.pop()
            if _loans.get(id(loan.block)) is loan:  # it was not forgotten as it became free
                return loan.block
        fitting = _rounded(fitting + 1)
    return None


def _forget_oldest(size: int) -> None:
    """Count a block that was added, and let go of others where there are too many."""
    global _kept
    _kept += size
    while _kept > _limit:
        _, loan = _loans.popitem(last=False)
        forgotten = loan.block.nbytes
        _kept -= forgotten
        with contextlib.suppress(ValueError):  # it is in use
            _free[forgotten].remove(loan)
