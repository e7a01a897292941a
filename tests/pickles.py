"""Pickles that run code, pickles that are malformed or explode, and harmless old states."""

from __future__ import annotations

import collections
import marshal
import pickle
import random
import struct

import numpy as np

PYTHON = "open('canary', 'w').close()"
SHELL = "touch canary"
STOP = b"."


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def list_of(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def pickled(value: bytes | str | int | list | None) -> bytes:
    """A value; bytes are pickled already."""
    if isinstance(value, list):
        return list_of(*map(pickled, value))
    if value is None:
        return b"N"
    return value if isinstance(value, bytes) else text(value) if isinstance(value, str) else number(value)


def call(function: bytes | str, *arguments: bytes | str | int | list | None) -> bytes:
    """A call of a function that is on the stack, or of one by its module and name."""
    if isinstance(function, str):
        module, _, name = function.rpartition(".")
        function = named(module, name)
    return function + tuple_of(*map(pickled, arguments)) + b"R"


def method(value: bytes, name: str, *arguments: bytes | str | int | list) -> bytes:
    return call(call("builtins.getattr", value, name), *arguments)


OS = call("builtins.__import__", "os")
CODE = call("builtins.compile", PYTHON, "x", "exec")
SYSTEM, EVAL, EXEC = named("os", "system"), named("builtins", "eval"), named("builtins", "exec")
TOUCH = ["touch", "canary"]
OLD = b"cos\nsystem\n(S'touch canary'\ntR."


def by_stack(*parts: bytes | str) -> bytes:
    """A call of what is left on the stack by these opcodes, and texts in the short form of protocol 4."""
    found = [
        b"\x8c" + bytes([len(part)]) + part.encode() if isinstance(part, str) else part for part in (*parts, SHELL)
    ]
    return b"\x80\x04" + b"".join(found) + b"\x85R."


#: What is called by its own name.
PLAIN: dict[str, list] = {
    "posix.system": [SHELL],
    **{f"subprocess.{name}": [TOUCH] for name in ("call", "check_call", "check_output", "run")},
    "subprocess.getoutput": [SHELL],
    "subprocess.getstatusoutput": [SHELL],
    "os.spawnlp": [0, "touch", "touch", "canary"],
    "os.spawnvp": [0, "touch", TOUCH],
    "os.execvp": ["touch", TOUCH],
    "pydoc.pipepager": ["x", "cat > canary"],
    "__builtin__.eval": [PYTHON],
    "functools.reduce": [EXEC, [PYTHON, b"}"]],
    "io.open": ["canary", "w"],
    "os.open": ["canary", 65],
    "os.mkdir": ["canary"],
    "os.symlink": ["nothing", "canary"],
    "numpy.savetxt": ["canary", [1]],
    "numpy.memmap": ["canary", "u1", "w+", 0, 1],
}


def hostile() -> dict[str, bytes]:
    """Pickles that make a file whose name begins with "canary" in the working folder when they are unpickled."""
    memmap = named("numpy", "memmap") + b"(" + b"".join(map(pickled, PLAIN["numpy.memmap"][:4]))
    array = call("numpy._core.multiarray._reconstruct", named("numpy", "ndarray"), tuple_of(number(0)), raw(b"b"))
    objects = call("numpy.dtype", "O8", b"\x89", b"\x88")
    decoder = named("json", "JSONDecoder")
    calls = {name: call(name, *arguments) for name, arguments in PLAIN.items()} | {
        "commands.getoutput, a name of Python 2": call("commands.getoutput", SHELL),
        "eval": call(EVAL, PYTHON),
        "exec": call(EXEC, PYTHON),
        "exec of compile": call(EXEC, CODE),
        "getattr of __import__": method(OS, "system", SHELL),
        "getattr of import_module": method(call("importlib.import_module", "os"), "system", SHELL),
        "attrgetter": call(call(call("operator.attrgetter", "system"), OS), SHELL),
        "methodcaller": call(call("operator.methodcaller", "system", SHELL), OS),
        "partial": call(call("functools.partial", SYSTEM, SHELL)),
        "map": call("builtins.list", call("builtins.map", EVAL, [PYTHON])),
        "filter": call("builtins.list", call("builtins.filter", EVAL, [PYTHON])),
        "starmap": call("builtins.list", call("itertools.starmap", EVAL, [tuple_of(text(PYTHON))])),
        "function of marshalled code": call(
            call(
                "types.FunctionType",
                call("marshal.loads", raw(marshal.dumps(compile(PYTHON, "x", "exec")))),
                call("builtins.globals"),
            )
        ),
        "runpy": call("runpy._run_code", CODE, b"}"),
        "interpreter": method(call("code.InteractiveInterpreter"), "runsource", PYTHON),
        "timeit": call("timeit.timeit", PYTHON, "pass", named("time", "time"), 1),
        "cProfile": call("cProfile.run", PYTHON, "canary-profile"),
        "trace": method(call("trace.Trace", 0, 0), "run", PYTHON),
        "bdb": method(call("bdb.Bdb"), "runeval", PYTHON),
        "ctypes": method(call("ctypes.CDLL", None), "system", raw(SHELL.encode())),
        "pydoc.locate": call(call("pydoc.locate", "os.system"), SHELL),
        "pkgutil.resolve_name": call(call("pkgutil.resolve_name", "os:system"), SHELL),
        "open": call("builtins.open", "canary", "w"),
        "tempfile": call("tempfile.mkstemp", "", "canary", "."),
        "pathlib": method(call("pathlib.Path", "canary"), "touch"),
        "shelve": call("shelve.open", "canary"),
        "dbm": call("dbm.dumb.open", "canary", "n"),
        "zipfile": call("zipfile.ZipFile", "canary", "w"),
        "tarfile": call("tarfile.open", "canary", "w"),
        "gzip": call("gzip.open", "canary", "w"),
        "logging": call("logging.FileHandler", "canary"),
        "BUILD sets an attribute of a class": decoder
        + b"N}("
        + text("decode")
        + SYSTEM
        + b"u\x86b0"
        + method(call(decoder), "decode", SHELL),
        "nested": call("pickle.loads", raw(OLD)),
        "nested, by the module in C": call("_pickle.loads", raw(OLD)),
        "deep in lists": b"](" * 20 + call(SYSTEM, SHELL) + b"e" * 20,
        "a frame first": b"\x95" + struct.pack("<Q", 0) + call(SYSTEM, SHELL),
        "bytes that can change first": b"\x96" + struct.pack("<Q", 1) + b"x0" + call(SYSTEM, SHELL),
    }
    return {name: data + STOP for name, data in calls.items()} | {
        "os.system, protocol 0": OLD,
        "numpy.memmap by NEWOBJ": b"\x80\x02" + memmap + number(1) + b"t\x81.",
        "numpy.memmap by NEWOBJ_EX": b"\x80\x04" + memmap + b"t}(" + text("shape") + number(1) + b"u\x92.",
        "INST": b"(S'touch canary'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nS'touch canary'\no.",
        "EXT1": call("copyreg.add_extension", "os", "system", 1) + b"0\x82\x01" + tuple_of(text(SHELL)) + b"R.",
        "inside an array of objects": array
        + tuple_of(number(1), tuple_of(number(1)), objects, b"\x89", list_of(call(SYSTEM, SHELL)))
        + b"b.",
        "as a key": b"}(" + call(SYSTEM, SHELL) + b"Nu.",
        "names from the stack": by_stack("os", "system", b"\x93"),
        "remembered names": by_stack("os", b"\x940", "system", b"\x940h\x00h\x01\x93"),
        "a copied name": by_stack("posix", b"20", "system", b"\x93"),
        "a name that was a decoy": by_stack("os", "harmless", b"0", "system", b"\x93"),
        "decoys up to a mark": by_stack("os", b"(", "math", "sqrt", b"1", "system", b"\x93"),
        "remembered twice": by_stack("math", b"q\x000", "os", b"q\x000h\x00", "system", b"\x93"),
        "remembered far apart": by_stack("os", b"q\x070", "x", b"\x940h\x07", "system", b"\x93"),
        "remembered as text": b"Vos\np5\n0Vsystem\np6\n0g5\ng6\n\x93V" + SHELL.encode() + b"\n\x85R.",
        "names with dots": by_stack("os", "path.os.system", b"\x93"),
        "names with escapes": by_stack(b"S'\\x6fs'\nS'syst\\x65m'\n\x93"),
        "cut after the call": call(SYSTEM, SHELL),
        "an unknown opcode after the call": call(SYSTEM, SHELL) + b"\xff.",
        "bad text after the call": call(SYSTEM, SHELL) + b"X\x01\0\0\0\xff.",
        "a second pickle that calls, before the end": b"\x80\x02" + call(SYSTEM, SHELL) + b"0N.",
    }


def _nested(open_: bytes, close: bytes, depth: int) -> bytes:
    return open_ * depth + b"N" + close * depth + STOP


def _array(dtype: bytes, shape: bytes, data: bytes) -> bytes:
    made = call("numpy._core.multiarray._reconstruct", named("numpy", "ndarray"), tuple_of(number(0)), raw(b"b"))
    return made + tuple_of(number(1), shape, dtype, b"\x89", data) + b"b."


def _dtype(word: str, state: bytes = b"") -> bytes:
    return call("numpy.dtype", word, b"\x89", b"\x88") + (state + b"b" if state else b"")


def long_names() -> bytes:
    """400 modules, and every name in each."""
    parts = [b"j" + struct.pack("<i", i) for i in range(400)]
    words = b"".join(text(f"{i:03}" + "m" * 120) + b"r" + struct.pack("<i", i) + b"0" for i in range(400))
    return b"\x80\x04" + words + b"(" + b"".join(a + b + b"\x93" for a in parts for b in parts[:330]) + b"t."


#: A tuple of 2**60 leaves, in 300 bytes: each holds the one before it twice.
DOUBLED = b")q\x000" + b"".join(b"h%ch%c\x86q%c0" % (i, i, i + 1) for i in range(60)) + b"h\x3c"


def _fields() -> bytes:
    return tuple_of(number(3), text("<"), b"N", tuple_of(text("a")), b"}(" + text("a") + b"Nu")


def _encoding(function: bytes) -> bytes:
    array = _array(_dtype("i4"), tuple_of(number(2)), raw(b"12345678"))[:-1]
    return b"\x80\x02" + call(function, text("x"), array) + STOP


def _probes(bits: int = 17) -> bytes:
    """A dict whose keys lie one after the other on the way to one more, which is set again and again."""
    mask, run, place = (1 << bits) - 1, [], 1
    for _ in range((2 << bits) // 3 - 3):
        run.append(place)
        place = (place * 5 + 1) & mask
    where = {key: i for i, key in enumerate(run)}

    def start(key: int) -> int:
        place, rest = key & mask, key
        while rest:
            rest >>= 5
            place = (place * 5 + rest + 1) & mask
            if place not in where:
                return len(run)
        return where[place]

    last = min(((high << bits) | run[0] for high in range(1, 1000)), key=start)
    body = b"".join(number(key) + b"N" for key in run)
    return b"\x80\x02}(" + body + number(last) + b"q\x01N" + b"h\x01N" * (190_000 - len(run)) + b"u."


def _tuples_of_one_hash() -> bytes:
    """Keys of one hash, which are told apart by their last parts, after texts that are equal but not the same."""
    texts = b"".join((text("x" * (1 << 20)) + b"q%c0" % i) for i in range(2))
    keys = (b"(" + b"".join(b"h%c" % (k >> j & 1) for j in range(10)) + b"L%dL\ntN" % (k * ((1 << 61) - 1))
            for k in range(990))  # fmt: skip
    return b"\x80\x02" + texts + b"}(" + b"".join(keys) + b"u."


def _costly() -> dict[str, bytes]:
    """Pickles that are small, and whose keys, names or messages would take for ever."""
    shared = raw(b"\xff" * (4 << 20)) + b"q\x000"
    long = text("x" * (5 << 20))
    return {
        "a shared tuple as a key": b"\x80\x02}" + DOUBLED + b"Ns.",
        "a shared tuple in a set": b"\x80\x02" + call(named("builtins", "set"), list_of(DOUBLED)) + STOP,
        "a shared tuple as a shape": _array(_dtype("f8"), DOUBLED, raw(b"")),
        "a shared tuple as a data type": _array(call(named("numpy", "dtype"), DOUBLED), tuple_of(number(1)), raw(b"")),
        "an array as an encoding": _encoding(named("_codecs", "encode")),
        "an array as an encoding of bytes": _encoding(named("builtins", "bytes")),
        "keys of long texts": b"\x80\x02"
        + shared
        + b"}("
        + b"".join(b"(" + b"h\0" * 14 + number(i) + b"tN" for i in range(900))
        + b"u.",
        "a long key, many times": b"\x80\x02" + long + b"q\x000}(" + long + b"q\1N" + b"h\0N" * 190_000 + b"u.",
        "a long element, many times": b"\x80\x02"
        + long
        + b"q\x000"
        + call(named("builtins", "set"), list_of(long, b"h\0" * 380_000))
        + STOP,
        "keys in each other's places": _probes(),
        "tuples of one hash, of long texts": _tuples_of_one_hash(),
        "an empty array of 2**200 rows": _array(
            _dtype("f8"), tuple_of(number(0), *[number((1 << 31) - 1)] * 7), raw(b"")
        ),
        "a data type of another version": _array(
            _dtype("i4", tuple_of(number(160), text("<"), b"NNN", *[number(-1)] * 2, number(0))),
            tuple_of(),
            raw(b"1234"),
        ),
        "a data type with flags": _array(
            _dtype("i4", tuple_of(number(3), text("<"), b"NNN", *[number(-1)] * 2, number(63))),
            tuple_of(),
            raw(b"1234"),
        ),
    }


def malformed() -> dict[str, bytes]:
    """Pickles that are none, or that describe more than there is room or time for."""
    good = pickle.dumps({"epoch": [1, 2.5, "x", np.arange(3)]}, 4)
    doubled = b"]q\x000" + b"".join(b"](h%ch%ceq%c0" % (i, i, i + 1) for i in range(60)) + b"h\x3c."
    collisions = b"}(" + b"".join(b"L%dL\nN" % (k * ((1 << 61) - 1)) for k in range(20_000)) + b"u."
    tuples = b"}(" + b"".join(number(i) + b"\x85N" for i in range(20_000)) + b"u."
    big = text("x" * (1 << 20)) + b"q\x000"
    encoded = big + b"](" + (named("_codecs", "encode") + b"h\x00" + text("latin1") + b"\x86R") * 500 + b"e."
    return {
        "one byte": b"\x80",
        "a protocol to come": b"\x80\x06N.",
        "nothing but a protocol": b"\x80\x04",
        "no value": b"\x80\x04.",
        "no end": b"\x80\x04N",
        "an unknown opcode": b"\x80\x04N\xff.",
        **{f"cut at {at}": good[:at] for at in (3, len(good) // 2, len(good) - 1)},
        "something after the end": good + b"N",
        "a second pickle": good + good,
        "two values": b"\x80\x04NN.",
        "a call of nothing": b"\x80\x04R.",
        "a tuple without a mark": b"\x80\x04Nt.",
        "an item without a list": b"\x80\x04NNa.",
        "an item for a dict": b"\x80\x04}Na.",
        "a pair for a list": b"\x80\x04]NNs.",
        "a key without a value": b"\x80\x04}(Nu.",
        "an element for a list": b"\x80\x04](N\x90.",
        "a list as a key": b"\x80\x04}]Ns.",
        "recalls what it has not remembered": b"\x80\x04h\x05.",
        "remembers number 2**31": b"\x80\x04Nr\xff\xff\xff\x7f.",
        "remembers number -1": b"\x80\x02Np-1\n.",
        "a frame of 2**62 bytes": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
        "bytes of 2**62": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
        "text that is no UTF-8": b"\x80\x04X\x02\0\0\0\xff\xfe.",
        "a negative length": b"\x80\x02\x8b\xff\xff\xff\xff.",
        "an integer of a megabyte": b"\x80\x02\x8b" + struct.pack("<i", 1 << 20) + b"\x01" * (1 << 20) + STOP,
        "an integer of a million digits": b"\x80\x02L" + b"9" * 1_000_000 + b"L\n.",
        "a number that is none": b"\x80\x02Ix\n.",
        "a million marks": b"\x80\x02" + b"(" * 1_000_000 + STOP,
        "a million opcodes": b"\x80\x02" + b"N0" * 500_000 + b"N.",
        "deep lists": b"\x80\x02" + _nested(b"](", b"e", 100_000),
        "lists in 1000 lists": b"\x80\x02" + _nested(b"](", b"e", 1000),
        "deep tuples": b"\x80\x02" + _nested(b"(", b"t", 100_000),
        "lists of 2**60 leaves": b"\x80\x02" + doubled,
        "tuples of 2**60 leaves": b"\x80\x02" + DOUBLED + STOP,
        "a list in itself": b"\x80\x02]q\x00h\x00a.",
        "a dict in itself": b"\x80\x02}q\x00X\x01\0\0\0ah\x00s.",
        "keys of one hash": b"\x80\x02" + collisions,
        "many tuples as keys": b"\x80\x02" + tuples,
        "a text encoded 500 times": b"\x80\x02" + encoded,
        "an array of 10**12 numbers": _array(
            _dtype("f8"), tuple_of(b"\x8a\x05" + (10**12).to_bytes(5, "little")), raw(b"")
        ),
        "an array of a negative shape": _array(_dtype("f8"), tuple_of(number(-1)), raw(b"")),
        "an array of objects": _array(_dtype("O8"), tuple_of(number(1)), list_of(b"N")),
        "an array of records": _array(_dtype("V4"), tuple_of(number(1)), raw(b"1234")),
        "a type with fields": _array(_dtype("i4", _fields()), tuple_of(number(1)), raw(b"1234")),
        "an array of long strings": _array(_dtype("S2147483647"), tuple_of(number(1)), raw(b"")),
        "an array that is too short": _array(_dtype("i4"), tuple_of(number(2)), raw(b"1234")),
        "an array of 100 dimensions": _array(_dtype("i4"), tuple_of(*[number(1)] * 100), raw(b"1234")),
        "an extension": b"\x80\x02\x82\x01.",
        "a name of a thing outside": b"\x80\x02Pname\n.",
        "a thing outside": b"\x80\x02NQ.",
        "a buffer outside": b"\x80\x05\x97.",
        "a state for a list": b"\x80\x02]}b.",
        "two states": b"\x80\x02" + call(named("a", "B")) + b"}b}b.",
        "a name of a name": b"\x80\x04NN\x93.",
        "a name as a value": b"\x80\x02" + SYSTEM + STOP,
        "a million dicts": b"\x80\x02(" + b"}" * 1_000_000 + b"t.",
        "many dicts": b"\x80\x02(" + b"}" * 399_000 + b"t.",
        "many sets": b"\x80\x04(" + b"\x8f" * 399_000 + b"t.",
        "many ordered dicts": b"\x80\x02"
        + named("collections", "OrderedDict")
        + b"q\x000("
        + b"h\0)R" * 133_000
        + b"t.",
        "many long names": long_names(),
        "one long name, many times": b"\x80\x04"
        + text("m" * 499)
        + text("n" * 499)
        + b"q\x010q\x000("
        + b"h\0h\1\x93" * 130_000
        + b"t.",
        "a number of four megabytes that is none": b"\x80\x02F" + b"\xff" * (4 << 20) + b"\n.",
        "four megabytes without quotes": b"\x80\x02S" + b"\xff" * (4 << 20) + b"\n.",
        "a text four times as large in memory": b"\x80\x02" + text("\U0001f600" + "x" * (5 << 20)) + STOP,
        "such texts, smaller": b"\x80\x02(" + text("\U0001f600" + "x" * (1 << 20)) * 7 + b"t.",
        "an escape that is none": b"\x80\x02S'\\d'\n.",
        "an escape of no byte": b"\x80\x02S'\\777'\n.",
        "an escape in a reference": b"\x80\x02P\\d\n.",
        "a name that cannot be printed": b"\x80\x04" + text("os\x1b[31m\n") + text("x") + b"\x93)R.",
        "a name that is half a character": b"\x80\x04X\3\0\0\0\xed\xa0\x80" + text("x") + b"\x93)R.",
        "an element for an ordered dict": b"\x80\x02" + named("collections", "OrderedDict") + b")R(NNNea.",
        "a name with an escape": b"\x80\x02" + call(b"ccollections\nOrdered\\x44ict\n") + STOP,
        **_costly(),
        "no encoding": b"\x80\x02" + call(named("_codecs", "encode"), text("x"), text("rot13")) + STOP,
    }


TYPES = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >i4 >f8 >u2"


def values() -> dict[str, object]:
    """What old states held."""
    made = np.random.default_rng(5)
    return {
        "counters": {"epoch": 3, "step": 2**40, "loss": 0.25, "done": False, "name": "run", "parent": None},
        "nested": {"shards": [{"id": i, "seen": (i, i + 1)} for i in range(3)], "tags": {"a", "b"}},
        "numbers": [0, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**63), 2**100, 1e300, -0.0, float("inf")],
        "text": ["", "plain", "ä€😀", "line\nbreak", "'quote\"", "\\x41"],
        "bytes": [b"", bytes(range(256)), bytearray(b"abc")],
        "sets": [set(), {1, 2}, frozenset({"x"}), (), (1,), (1, (2, (3,)))],
        "ordered": collections.OrderedDict([("b", 1), ("a", [2])]),
        "python's generator": random.Random(7).getstate(),
        "numpy's old generator": np.random.RandomState(7).get_state(),
        "numpy's generator": np.random.default_rng(7).bit_generator.state,
        "arrays of all types": {t: made.integers(0, 100, (2, 3)).astype(t) for t in TYPES.split()},
        "orders": [np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6)[::2]],
        "shapes": [np.array(5), np.zeros((0, 3), "u1"), np.ones((1, 1, 1, 2), "f4")],
        "numpy's numbers": [np.float32(2.5), np.int64(-3), np.bool_(True), np.uint8(255), np.complex64(1 + 2j)],
        "shared": (lambda a: {"x": a, "y": [a, a]})(np.arange(4)),
        "complex": [1j, complex(-0.0, 2.0)],
    }


def of_old_numpy(data: bytes) -> bytes:
    """A pickle that NumPy 2 wrote, as NumPy 1 would have written it."""
    if data[:2] in (b"\x80\x04", b"\x80\x05") and b"numpy._core." in data:
        data = data[:2] + data[11:]  # without its frame, whose length changes
        for name in (b"multiarray", b"numeric"):
            old, new = b"numpy.core." + name, b"numpy._core." + name
            data = data.replace(b"\x8c%c%s" % (len(new), new), b"\x8c%c%s" % (len(old), old))
    return data.replace(b"cnumpy._core.", b"cnumpy.core.")


def of_python_2() -> dict[str, tuple[bytes, object]]:
    """Pickles as Python 2 wrote them, with strings of bytes, and what they hold."""
    array = (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\ntcnumpy\ndtype\n"
             b"(S'i4'\nI0\n"
             b"I1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS'\\x01\\x00\\x00\\x00\\xff\\xff\\xff\\xff'\ntb.")  # fmt: skip
    return {
        "a dict": (b"(dp0\nS'epoch'\np1\nI3\nsS'names'\np2\n(lp3\nS'a'\naVb\nas.", {"epoch": 3, "names": ["a", "b"]}),
        "an array": (array, np.array([1, -1], "i4")),
        "an object of a class": (b"ccopy_reg\n_reconstructor\n(cold\nState\nc__builtin__\nobject\nNtR(d"
                                 b"S'epoch'\nI3\nsb.",
                                 {"epoch": 3}),
    }  # fmt: skip
