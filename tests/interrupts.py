"""Ctrl-C at every place where Python looks for one: between the steps of its machine, after calls and jumps."""

from __future__ import annotations

import gc
import opcode
import sys
import types
from pathlib import Path

import dynamic

PACKAGE = str(Path(dynamic.__file__).parent)
_LOOKING = "RESUME", "CALL", "JUMP_BACKWARD"  # how the names of operations begin after which Python looks for signals


class Interruption:
    """While it is entered, raises an error at one of the places in our code, counted from 0: KeyboardInterrupt.

    Python looks for signals where a function begins, at jumps back, and after calls of functions in C.

    Args:
        turn: At which place; None counts them only.
        error: Another error, as the handler of a signal may raise it.

    Attributes:
        places: How many there were.
        found: For each place in the text of our code, which those were.
    """

    def __init__(self, turn: int | None, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.turn, self.error, self.places = turn, error, 0
        self.found: dict[tuple[types.CodeType, int], list[int]] = {}
        self._last = {}  # by the id of a frame: the operation that came before
        self._before = None

    def __enter__(self):
        gc.disable()  # what interrupts a finalizer is lost
        self._before = sys.gettrace()
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)
        gc.enable()

    def _entered(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return self._left
        frame.f_trace_opcodes = True
        self._last[id(frame)] = "RESUME"
        return self._traced

    def _left(self, frame, event, argument):
        if event == "return":
            self._returned(frame)
        return self._left

    def _returned(self, frame):
        self._last.pop(id(frame), None)
        if id(frame.f_back) in self._last:
            self._last[id(frame.f_back)] = ""  # no look for signals after a function in Python

    def _traced(self, frame, event, argument):
        if event == "return":
            self._returned(frame)
        elif event == "exception":
            self._last[id(frame)] = ""  # nor after a call that raised; one there would leave the error as handled
        elif event == "opcode":
            last = self._last.get(id(frame), "")
            self._last[id(frame)] = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(_LOOKING) and not last.startswith("CALL_INTRINSIC"):
                self.found.setdefault((frame.f_code, frame.f_lasti), []).append(self.places)
                self.places += 1
                if self.places - 1 == self.turn:
                    self._last.clear()
                    raise self.error
        return self._traced
