"""Values of pickles, rebuilt without a call of anything that they name: plain data and NumPy's arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy

from ._pickles import DICT, FROZENSET, LARGEST_BUILT, SET, Global, Item, Refused, told

__all__ = ["rebuilt"]

_DEEPEST = 100
_ODD_KEYS = 1000  # keys whose hashes somebody could choose
_HASHED_BY_VALUE = (1 << 61) - 1  # integers below have hashes of their own
_LONGEST_PART = 256  # characters of a text in a tuple that is a key: equal ones are compared again and again
_STEPS = 100_000_000  # that finding the places of all numbers among the keys could take, if somebody chose them
_LEAVES = 10_000_000  # of the whole, each counted as often as it occurs
_DTYPE = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|c8|c16)")
_ENCODINGS = ("latin1", "latin-1", "iso-8859-1", "utf-8", "utf8", "ascii")

#: Makes the replacement of an object that is not plain data.
Decode = Callable[[Item, str], Any]


def rebuilt(value: Any, items: Sequence[Item], decode: Decode) -> Any:
    """Plain values for the result of a `Machine`.

    Args:
        value: Its result.
        items: The calls on the way: all of them must be in the value.
        decode: Called for each object of another class, with its arguments and state rebuilt, and its place.

    Raises:
        Refused: Something is no plain data, contains itself, or would be too large.
    """
    builder = _Builder(decode)
    result = builder.value(value, "the state", 0)
    builder.leaves(result, {})
    dropped = next((item.name for item in items if id(item) not in builder.used), None)
    if dropped is not None:
        raise Refused(f"it calls {dropped} and drops the result")
    return result


class _Builder:
    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self.used: set[int] = set()  # ids of the items that are part of the value
        self._made: dict[int, Any] = {}
        self._under_way: set[int] = set()
        self._kept: list[Any] = []  # so that no id is used again
        self._built = 0
        self._odd_keys = 0
        self._steps = 0

    def value(self, value: Any, where: str, depth: int) -> Any:
        """The value, with all that is in it."""
        kind = type(value)
        if kind in (bool, int, float, complex, str, bytes, bytearray, type(None)):
            return value
        if depth > _DEEPEST:
            raise Refused(f"it is nested more than {_DEEPEST} levels deep")
        if kind is Global:
            raise Refused(f"{where} is the name {value.name}")
        if id(value) in self._under_way:
            raise Refused(f"{where} contains itself")
        if id(value) not in self._made:
            self._under_way.add(id(value))
            self._kept.append(value)
            self._made[id(value)] = self._new(value, where, depth + 1)
            self._under_way.discard(id(value))
        return self._made[id(value)]

    def _new(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, (list, tuple)):
            items = [self.value(item, f"{where}[{i}]", depth) for i, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, Item):
            return self._object(value, where, depth)
        raise Refused(f"{where} is {told(value)}")

    def leaves(self, value: Any, known: dict[int, int]) -> int:
        """How many values a value holds, those that are shared counted each time: the cost of walking through it."""
        if not isinstance(value, (dict, list, tuple)):
            return 1
        if id(value) not in known:
            items = [*value, *value.values()] if isinstance(value, dict) else value
            known[id(value)] = 1 + sum(self.leaves(item, known) for item in items)
            if known[id(value)] > _LEAVES:
                raise Refused("it repeats parts of itself until it is too large")
        return known[id(value)]

    # -- results of calls ---------------------------------------------------------------------------------------------

    def _object(self, item: Item, where: str, depth: int) -> Any:
        self.used.add(id(item))
        recipe = _RECIPES.get(item.name)
        if recipe is not None:
            return recipe(self, item, where, depth)
        if item.name in ("copy_reg._reconstructor", "copyreg._reconstructor"):
            item = _reconstructed(item, where)
        arguments = self._arguments(item, where, depth)
        items = [
            tuple(self.value(part, f"an item of {where}", depth) for part in pair)
            if type(pair) is tuple
            else self.value(pair, f"an item of {where}", depth)
            for pair in item.items
        ]
        state = self.value(item.state, f"the state of {where}", depth)
        return self._decode(Item(item.name, arguments, state, item.has_state, items), where)

    def _arguments(self, item: Item, where: str, depth: int) -> tuple[Any, ...]:
        return tuple(self.value(value, f"argument {i} of {where}", depth) for i, value in enumerate(item.arguments))

    def _plain_arguments(self, item: Item, where: str, depth: int) -> tuple[Any, ...]:
        if item.has_state:
            raise Refused(f"{where}, a {item.name}, has a state")
        return tuple(
            self.value(argument, f"argument {i} of {where}", depth) for i, argument in enumerate(item.arguments)
        )

    def _encoded(self, item: Item, where: str, depth: int) -> Any:
        arguments = self._plain_arguments(item, where, depth)
        ordinary = len(arguments) == 2 and all(type(argument) is str for argument in arguments) and not item.items
        if not ordinary or arguments[1] not in _ENCODINGS:
            raise Refused(f"{where} is not text in a known encoding")
        try:
            return self._counted(arguments[0].encode(arguments[1]))
        except UnicodeEncodeError as error:
            raise Refused(f"{where} is no {arguments[1]}") from error

    def _counted(self, data: Any) -> Any:
        self._built += len(data)
        if self._built > LARGEST_BUILT:
            raise Refused(f"it would be larger than {LARGEST_BUILT} bytes")
        return data

    def _bytes(self, item: Item, where: str, depth: int) -> bytes | bytearray:
        arguments = self._plain_arguments(item, where, depth)
        kind = bytearray if item.name.endswith("bytearray") else bytes
        if item.items or len(arguments) > 2 or (arguments and type(arguments[0]) not in (bytes, bytearray, str)):
            raise Refused(f"{where} is made of something else than bytes")
        if arguments and type(arguments[0]) is str:
            encoding = arguments[1] if len(arguments) == 2 else None
            return kind(self._encoded(Item("", (arguments[0], encoding)), where, depth))
        if len(arguments) == 2:
            raise Refused(f"{where} is made of something else than bytes")
        return kind(self._counted(arguments[0])) if arguments else kind()

    def _set(self, item: Item, where: str, depth: int) -> Any:
        arguments = self._plain_arguments(item, where, depth)
        if len(arguments) > 1 or (arguments and type(arguments[0]) not in (list, tuple)):
            raise Refused(f"{where} is not a set of a list")
        elements = dict(
            self._keyed(((part, None) for part in (*item.items, *(arguments[0] if arguments else ()))), where, depth)
        )
        return (frozenset if item.name.endswith("frozenset") else set)(elements)

    def _keyed(self, pairs: Iterable[tuple[Any, Any]], where: str, depth: int) -> dict[Any, Any]:
        """A dict of pairs whose values are not rebuilt yet, with keys that nobody chose to take long.

        A dict finds the place of a number by the number alone, so keys can be chosen that each pass all earlier ones;
        those that count up from 0 pass none. The same key twice is never pickled, and is compared in full each time.
        """
        made: dict[Any, Any] = {}
        numbers = 0
        for value, content in pairs:
            key = self._key(value, where, depth)
            if not (type(key) in (str, bytes) or (type(key) is int and key == len(made))):
                numbers += 1
                self._steps += 2 * numbers
                if self._steps > _STEPS:
                    raise Refused(f"too many keys are numbers in no order, in {where}")
            if key in made:
                raise Refused(f"a key of {where} occurs twice")
            made[key] = content
        return made

    def _key(self, value: Any, where: str, depth: int) -> Any:
        """A key or an element of a set: nothing whose hash takes long, and few whose hashes somebody could choose."""
        key = self.value(value, f"a key of {where}", depth)
        parts = key if type(key) is tuple else (key,)
        if len(parts) > 16 or not all(part is None or type(part) in (str, bytes, bool, int, float) for part in parts):
            raise Refused(f"a key of {where} is {told(key)}")
        if type(key) is tuple or (type(key) is int and abs(key) >= _HASHED_BY_VALUE):
            self._odd_keys += 1
            if self._odd_keys > _ODD_KEYS:
                raise Refused(f"too many keys are tuples or large integers, in {where}")
            if any(type(part) in (str, bytes) and len(part) > _LONGEST_PART for part in parts):
                raise Refused(f"a key of {where} is a tuple of a long text")
        return key

    def _complex(self, item: Item, where: str, depth: int) -> complex:
        arguments = self._plain_arguments(item, where, depth)
        if item.items or len(arguments) != 2 or not all(type(part) is float for part in arguments):
            raise Refused(f"{where} is not a complex number")
        return complex(*arguments)

    def _dict(self, item: Item, where: str, depth: int) -> dict[Any, Any]:
        """A dict, or an OrderedDict as one: of a list of pairs, and of items set in it."""
        arguments = self._plain_arguments(item, where, depth)
        pairs = arguments[0] if arguments else []
        if (
            len(arguments) > 1
            or type(pairs) is not list
            or not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs)
        ):
            raise Refused(f"{where} is not a dict of pairs")
        made = self._keyed((*pairs, *item.items), where, depth)
        for key, value in made.items():
            made[key] = self.value(value, f"{where}[{_short(key)}]", depth)
        return made

    # -- NumPy --------------------------------------------------------------------------------------------------------

    def _dtype(self, value: Any, where: str) -> Any:
        """A data type: numpy.dtype of a word, with the byte order in its state."""
        if not isinstance(value, Item) or value.name != "numpy.dtype" or value.items:
            raise Refused(f"{where} has no data type")
        self.used.add(id(value))
        word = value.arguments[0] if value.arguments else None
        if type(word) is not str or not _DTYPE.fullmatch(word) or value.arguments[1:] not in ((), (0, 1)):
            raise Refused(f"{where} has the data type {told(word)}")
        order = "="
        if value.has_state:
            state = value.state
            if type(state) is not tuple or state[:1] != (3,) or state[2:] != (None, None, None, -1, -1, 0):
                raise Refused(f"{where} has a data type with fields, or of an unknown version")
            order = state[1]
        dtype = numpy.dtype(word)
        if type(order) is not str or order not in ("<", ">", "=", "|"):
            raise Refused(f"{where} has the byte order {told(order)}")
        return dtype if order in "=|" else dtype.newbyteorder(order)  # type: ignore[arg-type] # a word that it knows

    def _data(self, value: Any, size: int, where: str, depth: int) -> bytes:
        data = self.value(value, f"the data of {where}", depth)
        if type(data) is str:  # bytes of Python 2
            try:
                data = data.encode("latin-1")
            except UnicodeEncodeError as error:
                raise Refused(f"the data of {where} is text") from error
        if type(data) not in (bytes, bytearray) or len(data) != size:
            raise Refused(f"the data of {where} is not {size} bytes")
        return bytes(self._counted(data))

    def _array(self, dtype: Any, shape: Any, order: Literal["C", "F"], data: Any, where: str, depth: int) -> Any:
        if type(shape) is not tuple or len(shape) > 64 or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
            raise Refused(f"{where} has a shape of negative or too many numbers, or none")
        if math.prod(n or 1 for n in shape) * dtype.itemsize >= 1 << 63:  # NumPy refuses it, though it were empty
            raise Refused(f"{where} has a shape that is too large")
        raw = self._data(data, math.prod(shape) * dtype.itemsize, where, depth)
        flat = numpy.frombuffer(raw, numpy.uint8) != 0 if dtype.kind == "b" else numpy.frombuffer(raw, dtype)
        return flat.reshape(shape, order=order).copy(order="K")

    def _reconstructed_array(self, item: Item, where: str, depth: int) -> Any:
        first = item.arguments[0] if item.arguments else None
        if first != Global("numpy.ndarray") or item.items or type(item.state) is not tuple or len(item.state) != 5:
            raise Refused(f"{where} is not a plain array of NumPy")
        empty = self._arguments(Item("", item.arguments[1:]), where, depth)  # a shape and a type, both unused
        version, shape, dtype, fortran, data = item.state
        ordinary = type(version) is int and version == 1 and type(fortran) in (bool, int)
        if not ordinary or [type(part) for part in empty] not in ([tuple, str], [tuple, bytes]) or len(empty[0]) != 1:
            raise Refused(f"{where} is not a plain array of NumPy")
        return self._array(self._dtype(dtype, where), shape, "F" if fortran else "C", data, where, depth)

    def _array_of_buffer(self, item: Item, where: str, depth: int) -> Any:
        if len(item.arguments) != 4 or item.items or item.has_state or item.arguments[3] not in ("C", "F"):
            raise Refused(f"{where} is not a plain array of NumPy")
        data, dtype, shape, order = item.arguments
        return self._array(self._dtype(dtype, where), shape, order, data, where, depth)

    def _scalar(self, item: Item, where: str, depth: int) -> Any:
        if len(item.arguments) != 2 or item.items or item.has_state:
            raise Refused(f"{where} is not a number of NumPy")
        dtype, data = item.arguments
        return self._array(self._dtype(dtype, where), (), "C", data, where, depth)[()]


def _short(key: Any) -> str:
    long = type(key) in (str, bytes) and len(key) > 40
    text = repr(key[:40] if long else key)
    return text if len(text) <= 40 and not long else text[:37] + "..."


def _reconstructed(item: Item, where: str) -> Item:
    """An object of a class, as protocols 0 and 1 write it."""
    ordinary = len(item.arguments) == 3 and item.arguments[1:] in (
        (Global("__builtin__.object"), None),
        (Global("builtins.object"), None),
    )
    if not ordinary or type(item.arguments[0]) is not Global:
        raise Refused(f"{where} is made by {item.name} of something else than a class")
    return Item(item.arguments[0].name, (), item.state, item.has_state, item.items)


_Recipe = Callable[[_Builder, Item, str, int], Any]
_RECIPES: Mapping[str, _Recipe] = {
    "_codecs.encode": _Builder._encoded,
    **dict.fromkeys(
        ("builtins.bytes", "__builtin__.bytes", "builtins.bytearray", "__builtin__.bytearray"), _Builder._bytes
    ),
    **dict.fromkeys((SET, "builtins.set", "__builtin__.set"), _Builder._set),
    **dict.fromkeys((FROZENSET, "builtins.frozenset", "__builtin__.frozenset"), _Builder._set),
    **dict.fromkeys(("builtins.complex", "__builtin__.complex"), _Builder._complex),
    **dict.fromkeys((DICT, "collections.OrderedDict"), _Builder._dict),
    **dict.fromkeys(
        ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"), _Builder._reconstructed_array
    ),
    **dict.fromkeys(("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer"), _Builder._array_of_buffer),
    **dict.fromkeys(("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"), _Builder._scalar),
}
