"""Pickles taken apart without unpickling: a stack machine that calls nothing and imports nothing.

A call in a pickle becomes an `Item` with a name and arguments; `_pickled_values` makes
plain data of those that are known. Everything is bounded: a hundred bytes can describe more than any memory holds.
"""

from __future__ import annotations

import codecs
import io
import pickletools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dynamic.errors import StateError, shown

__all__ = ["DICT", "FROZENSET", "LARGEST", "LARGEST_BUILT", "SET", "Global", "Item", "Machine", "Refused", "told"]

LARGEST = 16 << 20  # bytes of a pickle
LARGEST_BUILT = 32 << 20  # bytes of the results of calls
_HELD = 24 << 20  # bytes on its stack
_OPCODES = 400_000
_NAMES = 1000
_LINE = 1500  # characters of a number
_NAME = 250  # characters of a name to import
_WIDE = 2 << 20  # bytes of a text whose characters take more than a byte each, up to four times that
_BY_CODE = {opcode.code: opcode for opcode in pickletools.opcodes}
_MEMO = 1_000_000
_REMEMBERED = 64  # bytes that are held for each
_CONTAINER = 400  # bytes that are held for a list, a tuple, a dict, a set or a call, here and where it is rebuilt
_BITS = 4096  # of an integer

_LINES = frozenset(("INT", "LONG", "FLOAT", "GET", "PUT"))
_COUNTED = {"BINUNICODE": 4, "BINUNICODE8": 8}  # texts, and the bytes that count theirs
_WIDER = {"UNICODE": re.compile(rb"\\(?:U|u(?!00))"), **dict.fromkeys(_COUNTED, re.compile(rb"[\xc4-\xff]"))}
_ESCAPES = re.compile(rb"""(?:[^\\]++|\\(?:[\\'"abfnrtv]|x[0-9a-fA-F]{2}|[0-3][0-7]{2}))*+""", re.DOTALL)

#: Names of items that are no calls: their contents are only known when their keys are.
DICT, SET, FROZENSET = "dict", "set", "frozenset"


class Refused(StateError):
    """A pickle that is malformed, too large, or more than plain data."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name that a pickle would import."""

    name: str


@dataclass(eq=False, slots=True)
class Item:
    """An object that a pickle would make by a call: the callee, the arguments, and the contents put into it."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None
    has_state: bool = False
    items: list[Any] = field(default_factory=list)  #: appended to it, or pairs set in it


def told(value: Any) -> str:
    """A value of a pickle as an error shows it: long and repeating values are cut."""
    if isinstance(value, (str, bytes, bytearray)):
        return shown(value if len(value) <= 60 else value[:60])
    if value is None or isinstance(value, (bool, int, float, complex)):
        return shown(value)
    return f"of the type {type(value).__name__}"


class _Mark:
    """Where a list, tuple or dict begins on the stack."""


_MARK = _Mark()


def _opcodes(data: bytes) -> Iterator[tuple[str, Any, int]]:
    """The opcodes of a pickle with their arguments, and where they end."""
    stream = io.BytesIO(data)
    while code := stream.read(1):
        opcode = _BY_CODE.get(code.decode("latin-1"))
        if opcode is None:
            raise Refused(f"it has the unknown opcode {code!r}")
        if opcode.name in _LINES and data.find(b"\n", stream.tell(), stream.tell() + _LINE) < 0:
            raise Refused("a number has too many digits, or no end")
        if opcode.name in _WIDER:
            _check_text(opcode.name, data, stream.tell())
        if opcode.name == "STRING":
            argument: Any = _string(stream)
        elif opcode.name in ("GLOBAL", "INST"):
            argument = [stream.readline()[:-1].decode() for _ in range(2)]
        elif opcode.name == "PERSID":
            argument = stream.readline()
        else:
            argument = None if opcode.arg is None else opcode.arg.reader(stream)
        yield opcode.name, argument, stream.tell()


def _check_text(opcode: str, data: bytes, start: int) -> None:
    if opcode in _COUNTED:
        count, start = data[start : start + _COUNTED[opcode]], start + _COUNTED[opcode]
        end = min(len(data), start + int.from_bytes(count, "little"))
    else:
        end = data.find(b"\n", start)
    if not 0 <= end - start <= _WIDE and _WIDER[opcode].search(data, start, max(0, end)):
        raise Refused(f"a text is longer than {_WIDE} bytes")


def _string(stream: io.BytesIO) -> str:
    """A string of Python 2: bytes, which may be text or not."""
    line = stream.readline()
    if len(line) < 3 or line[-1:] != b"\n" or line[:1] != line[-2:-1] or line[:1] not in (b"'", b'"'):
        raise Refused("a string has no quotes")
    line = line[1:-2]
    if not _ESCAPES.fullmatch(line):
        raise Refused("a string has an unknown escape")
    line = codecs.escape_decode(line)[0]
    return line.decode("latin-1")


class Machine:
    """Reads one pickle, opcode by opcode.

    Attributes:
        names: The names that the pickle refers to, in order, with escapes for unprintable characters.
        protocol: The protocol that it says it has, 0 if it says nothing.
        called: Whether a call was met.
        items: The calls, in order.
    """

    def __init__(self, data: bytes) -> None:
        self.names: dict[str, None] = {}
        self.protocol = 0
        self.called = False
        self.items: list[Item] = []
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._globals: dict[str, Global] = {}
        self._held = 0

    def run(self) -> Any:
        """The value of the pickle: plain values, and `Item` and `Global` where it would call or import.

        Raises:
            Refused: It is no whole pickle, and nothing more.
        """
        if len(self._data) > LARGEST:
            raise Refused(f"it is larger than {LARGEST} bytes")
        try:
            for count, (opcode, argument, end) in enumerate(_opcodes(self._data)):
                if count >= _OPCODES:
                    raise Refused(f"it has more than {_OPCODES} opcodes")
                if opcode == "STOP":
                    return self._result(end)
                if opcode == "FRAME" and argument > len(self._data) - end:
                    raise Refused("a frame is longer than the data")
                handler = _HANDLERS.get(opcode)
                if handler is not None:
                    handler(self, argument)
                else:
                    self._push(_constant(opcode, argument))
                self._hold(_CONTAINER if opcode in _CONTAINERS else 0 if argument is None else sys.getsizeof(argument))
        except Refused:
            raise
        except (ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
            raise Refused(f"it is malformed: {str(error)[:200]}") from None
        raise Refused("it ends before its end")

    def _result(self, end: int) -> Any:
        if end != len(self._data):
            raise Refused("something comes after its end")
        value = self._pop()
        if self._stack:
            raise Refused("something is left on its stack")
        return value

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > _HELD:
            raise Refused(f"it would hold more than {_HELD} bytes")

    # -- the stack ----------------------------------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise Refused("it takes more from its stack than there is")
        return self._stack.pop()

    def _drop(self) -> None:
        if not self._stack:
            raise Refused("it takes more from its stack than there is")
        self._stack.pop()

    def _drop_to_mark(self) -> None:
        self._from_mark()

    def _copy(self) -> Any:
        self._push(value := self._pop())
        return value

    def _last(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(values)))

    def _top(self, *kinds: type) -> Any:
        if not self._stack or type(self._stack[-1]) not in kinds:
            raise Refused("it puts items into an object that takes none")
        return self._stack[-1]

    def _from_mark(self) -> list[Any]:
        """All values since the last mark, and the mark is gone."""
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is _MARK:
                values = self._stack[i + 1 :]
                del self._stack[i:]
                return values
        raise Refused("it looks for a mark that is not there")

    # -- opcodes ------------------------------------------------------------------------------------------------------

    def _proto(self, protocol: int) -> None:
        if protocol > 5:
            raise Refused(f"its protocol is {protocol}")
        self.protocol = protocol

    def _put(self, index: int) -> None:
        if not 0 <= index < _MEMO:
            raise Refused(f"it remembers something as number {index}")
        if not self._stack or self._stack[-1] is _MARK:
            raise Refused("it remembers nothing")
        self._memo[index] = self._stack[-1]
        self._hold(_REMEMBERED)

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise Refused(f"it recalls number {index}, which it has not remembered")
        self._push(self._memo[index])

    def _append(self, values: list[Any]) -> None:
        target = self._top(list, Item)
        if isinstance(target, Item) and target.name in (DICT, SET, FROZENSET, "collections.OrderedDict"):
            raise Refused("it appends to an object that is not a list")
        (target.items if isinstance(target, Item) else target).extend(values)

    def _set_items(self, values: list[Any]) -> None:
        if len(values) % 2:
            raise Refused("a key has no value")
        target = self._top(Item)
        if target.name in (SET, FROZENSET):
            raise Refused("it sets items in an object that is not a dict")
        target.items.extend(zip(values[::2], values[1::2], strict=True))

    def _new_dict(self, values: list[Any]) -> None:
        self._push(Item(DICT, ()))
        self._set_items(values)

    def _add_items(self, values: list[Any]) -> None:
        target = self._top(Item)
        if target.name != SET:
            raise Refused("it adds elements to an object that is not a set")
        target.items.extend(values)

    def _global(self, module: Any, name: Any) -> Global:
        if type(module) is not str or type(name) is not str:
            raise Refused("a name to import is not text")
        full = f"{module}.{name}"
        if full in self._globals:
            return self._globals[full]
        if len(full) > _NAME:
            raise Refused(f"a name to import is longer than {_NAME} characters")
        self.names[full if full.isprintable() else ascii(full)] = None
        if not full.isprintable():
            raise Refused("a name to import has characters that cannot be printed")
        if len(self.names) > _NAMES:
            raise Refused(f"it refers to more than {_NAMES} names")
        self._globals[full] = Global(full)
        return self._globals[full]

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        self._push(self._global(module, name))

    def _call(self, function: Any, arguments: Any) -> None:
        self.called = True
        if type(function) is not Global or type(arguments) is not tuple:
            raise Refused("it calls an object that is not a name, or without arguments")
        self.items.append(Item(function.name, arguments))
        self._push(self.items[-1])

    def _reduce(self) -> None:
        arguments = self._pop()
        self._call(self._pop(), arguments)

    def _new_object_with_keywords(self) -> None:
        keywords, arguments = self._pop(), self._pop()
        if type(keywords) is not Item or keywords.name != DICT or keywords.items:
            raise Refused("it makes an object with keyword arguments")
        self._call(self._pop(), arguments)

    def _inst(self, name: list[str]) -> None:
        values = tuple(self._from_mark())
        self._call(self._global(*name), values)

    def _obj(self) -> None:
        cls, *arguments = self._from_mark() or [None]
        self._call(cls, tuple(arguments))

    def _build(self) -> None:
        state = self._pop()
        self.called = True
        target = self._top(Item)
        if target.has_state or target.name in (DICT, SET, FROZENSET):
            raise Refused("it gives a state to an object that has one, or takes none")
        target.state, target.has_state = state, True

    def _refuse(self, _: Any) -> None:
        raise Refused("it refers to something outside of itself")

    def _extension(self, code: int) -> None:
        self.called = True
        raise Refused(f"it refers to number {code} of a registry of names")


#: Opcodes after which there is one thing more that holds others.
_CONTAINERS = frozenset(
    (
        "EMPTY_TUPLE",
        "EMPTY_LIST",
        "EMPTY_DICT",
        "EMPTY_SET",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "LIST",
        "DICT",
        "FROZENSET",
        "REDUCE",
        "NEWOBJ",
        "NEWOBJ_EX",
        "INST",
        "OBJ",
    )
)
_FIXED = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": lambda: Item(DICT, ()),
    "EMPTY_SET": lambda: Item(SET, ()),
}


def _constant(opcode: str, value: Any) -> Any:
    """The value that an opcode pushes."""
    if opcode in _FIXED:
        return _FIXED[opcode]
    if opcode in _EMPTY:
        return _EMPTY[opcode]()
    if opcode == "MARK":
        return _MARK
    if type(value) is int and value.bit_length() > _BITS:
        raise Refused(f"an integer has more than {_BITS} bits")
    if type(value) not in (int, bool, float, str, bytes, bytearray):
        raise Refused(f"it has the opcode {opcode}")
    return value


_HANDLERS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": Machine._proto,
    "FRAME": lambda *_: None,
    "POP": lambda machine, _: machine._drop(),
    "POP_MARK": lambda machine, _: machine._drop_to_mark(),
    "DUP": lambda machine, _: machine._push(machine._copy()),
    "MEMOIZE": lambda machine, _: machine._put(len(machine._memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine._put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine._get),
    "TUPLE": lambda machine, _: machine._push(tuple(machine._from_mark())),
    "TUPLE1": lambda machine, _: machine._last(1),
    "TUPLE2": lambda machine, _: machine._last(2),
    "TUPLE3": lambda machine, _: machine._last(3),
    "LIST": lambda machine, _: machine._push(machine._from_mark()),
    "APPEND": lambda machine, _: machine._append([machine._pop()]),
    "APPENDS": lambda machine, _: machine._append(machine._from_mark()),
    "DICT": lambda machine, _: machine._new_dict(machine._from_mark()),
    "SETITEM": lambda machine, _: machine._set_items([machine._pop(), machine._pop()][::-1]),
    "SETITEMS": lambda machine, _: machine._set_items(machine._from_mark()),
    "ADDITEMS": lambda machine, _: machine._add_items(machine._from_mark()),
    "FROZENSET": lambda machine, _: machine._push(Item(FROZENSET, (), items=machine._from_mark())),
    "GLOBAL": lambda machine, name: machine._push(machine._global(*name)),
    "STACK_GLOBAL": lambda machine, _: machine._stack_global(),
    "REDUCE": lambda machine, _: machine._reduce(),
    "NEWOBJ": lambda machine, _: machine._reduce(),
    "NEWOBJ_EX": lambda machine, _: machine._new_object_with_keywords(),
    "INST": Machine._inst,
    "OBJ": lambda machine, _: machine._obj(),
    "BUILD": lambda machine, _: machine._build(),
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), Machine._extension),
    **dict.fromkeys(("PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER"), Machine._refuse),
}
